//! Reno with Linux's arithmetic (`tcp_cong.c`; RFC 5681, RFC 3465 without its limit, RFC 7661).
//!
//! ```text
//!   slow start        cwnd < ssthresh   cwnd += segments delivered, up to ssthresh; the rest counts for avoidance
//!   avoidance         cwnd >= ssthresh  one segment per cwnd delivered segments
//!   congestion        ssthresh = max(cwnd / 2, 2)
//!   timeout           ssthresh as for congestion, cwnd = 1
//!   spurious          previous cwnd and ssthresh, if larger
//! ```
//!
//! Windows are whole segments. The window does not grow if it did not limit the sender.

use super::super::config::Config;
use super::{AckSample, Congestion, CongestionControl};
use lasthop_base::units::Instant;

/// A window of whole segments, and the segments delivered towards its next segment.
#[derive(Clone, Copy, Debug)]
pub struct WholeWindow {
    /// SMSS in bytes.
    pub segment: u64,
    /// Congestion window in segments.
    pub cwnd: u32,
    /// Slow-start threshold in segments; `u32::MAX` before the first reduction.
    pub ssthresh: u32,
    /// Segments delivered towards the next segment of growth.
    count: u32,
    /// Window and threshold before the latest reduction.
    prior: (u32, u32),
}

impl WholeWindow {
    /// Creates a window of `cwnd` segments.
    pub fn new(config: &Config, cwnd: f64) -> Self {
        let cwnd = (cwnd as u32).max(1);
        WholeWindow {
            segment: config.segment.get(),
            cwnd,
            ssthresh: u32::MAX,
            count: 0,
            prior: (cwnd, u32::MAX),
        }
    }

    /// Returns `true` in slow start.
    pub fn in_slow_start(&self) -> bool {
        self.cwnd < self.ssthresh
    }

    /// Grows the window in slow start by `delivered` segments. Returns the number of segments
    /// beyond the threshold.
    pub fn slow_start(&mut self, delivered: u32) -> u32 {
        let cwnd = self.cwnd.saturating_add(delivered).min(self.ssthresh);
        let rest = delivered - (cwnd - self.cwnd);
        self.cwnd = cwnd;
        rest
    }

    /// Grows the window in congestion avoidance: one segment per `per` delivered segments.
    pub fn avoid(&mut self, per: u32, delivered: u32) {
        if self.count >= per {
            self.count = 0;
            self.cwnd += 1;
        }
        self.count += delivered;
        self.cwnd += self.count / per;
        self.count %= per;
    }

    /// Reduces the threshold to `ssthresh`.
    pub fn reduce(&mut self, ssthresh: u32) {
        self.prior = (self.cwnd, self.ssthresh);
        self.ssthresh = ssthresh;
        self.count = 0;
    }

    /// Undoes the latest reduction.
    pub fn undo(&mut self) {
        let (cwnd, ssthresh) = self.prior;
        self.cwnd = self.cwnd.max(cwnd);
        self.ssthresh = self.ssthresh.max(ssthresh);
    }

    /// Returns the window in bytes.
    pub fn bytes(&self) -> u64 {
        u64::from(self.cwnd) * self.segment
    }

    /// Returns the threshold in segments; infinite before the first reduction.
    pub fn threshold(&self) -> f64 {
        if self.ssthresh == u32::MAX { f64::INFINITY } else { f64::from(self.ssthresh) }
    }
}

/// Defines the methods of [`CongestionControl`] that delegate to a [`WholeWindow`] in the field
/// `window`.
macro_rules! whole_window {
    () => {
        fn on_spurious(&mut self) {
            self.window.undo();
        }

        fn window(&self) -> u64 {
            self.window.bytes()
        }

        fn cwnd(&self) -> f64 {
            self.window.cwnd.into()
        }

        fn ssthresh(&self) -> f64 {
            self.window.threshold()
        }

        fn set_cwnd(&mut self, cwnd: f64) {
            self.window.cwnd = cwnd as u32;
        }

        fn set_segment(&mut self, bytes: u64) {
            self.window.segment = bytes;
        }

        fn slow_start_to(&mut self, cwnd: f64, ssthresh: f64) {
            (self.window.cwnd, self.window.ssthresh) = (cwnd as u32, ssthresh as u32);
        }
    };
}

pub(super) use whole_window;

/// Additive increase, multiplicative decrease.
#[derive(Clone, Copy, Debug)]
pub struct RenoLinux {
    window: WholeWindow,
}

impl RenoLinux {
    /// Creates the algorithm with a window of `cwnd` segments.
    pub fn new(config: &Config, cwnd: f64) -> Self {
        RenoLinux { window: WholeWindow::new(config, cwnd) }
    }

    fn reduce(&mut self) {
        self.window.reduce((self.window.cwnd / 2).max(2));
    }
}

impl CongestionControl for RenoLinux {
    fn on_ack(&mut self, sample: &AckSample) {
        if !sample.is_window_limited {
            return;
        }
        let mut delivered = sample.delivered_segments;
        if self.window.in_slow_start() {
            delivered = self.window.slow_start(delivered);
        }
        if delivered > 0 {
            self.window.avoid(self.window.cwnd, delivered);
        }
    }

    fn on_congestion(&mut self, _now: Instant, _congestion: Congestion, _in_use: f64) {
        self.reduce();
        self.window.cwnd = self.window.ssthresh;
    }

    fn on_timeout(&mut self, _now: Instant, in_use: Option<f64>) {
        if in_use.is_some() {
            self.reduce();
        }
        self.window.cwnd = 1;
    }

    whole_window!();
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::presets::{Overrides, Profile, Variant, config};
    use lasthop_base::units::Duration;

    fn sample(delivered_segments: u32, is_window_limited: bool) -> AckSample {
        AckSample {
            now: Instant::ZERO,
            acked: 1460 * u64::from(delivered_segments),
            delivered_segments,
            is_window_limited,
            prior_in_flight: 0,
            snd_una: 0,
            snd_max: 0,
            rtt: None,
            srtt: Duration::ZERO,
        }
    }

    /// Segments delivered by successive ACKs, and the window after each.
    #[test]
    fn growth_by_delivered_segments() {
        let config = config(Variant::Reno, Profile::Linux, &Overrides::default());
        let mut reno = RenoLinux::new(&config, 10.0);
        for (delivered, limited, cwnd) in
            [(2, true, 12), (1, true, 13), (7, false, 13), (7, true, 20)]
        {
            reno.on_ack(&sample(delivered, limited));
            assert_eq!(reno.cwnd(), f64::from(cwnd));
        }
        reno.on_congestion(Instant::ZERO, Congestion::Loss, 20.0);
        assert_eq!((reno.cwnd(), reno.ssthresh()), (10.0, 10.0));
        // 10 segments per segment of growth; 25 are 11 for each of two, plus 3 towards the next.
        for (delivered, cwnd) in [(9, 10), (1, 11), (25, 13), (9, 13), (1, 14)] {
            reno.on_ack(&sample(delivered, true));
            assert_eq!(reno.cwnd(), f64::from(cwnd), "{delivered}");
        }
        reno.on_timeout(Instant::ZERO, Some(14.0));
        assert_eq!((reno.cwnd(), reno.ssthresh()), (1.0, 7.0));
        // Beyond the threshold, the rest counts for avoidance: 6 segments up to 7, then 7 for the
        // next.
        reno.on_ack(&sample(13, true));
        assert_eq!(reno.cwnd(), 8.0);
        reno.on_timeout(Instant::ZERO, Some(8.0));
        reno.on_spurious();
        assert_eq!((reno.cwnd(), reno.ssthresh()), (8.0, 7.0));
    }
}
