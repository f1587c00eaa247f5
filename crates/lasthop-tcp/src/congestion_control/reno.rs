//! Reno's window (RFC 5681, section 3).
//!
//! ```text
//!   slow start        cwnd < ssthresh   each ACK: cwnd += min(N, SMSS) / SMSS (ns-2: += 1)
//!   avoidance         cwnd >= ssthresh  each ACK: cwnd += 1/cwnd
//!   congestion        ssthresh = cwnd = half of the flight size (ns-2: of the window)
//!   timeout           ssthresh = half of it, cwnd = 1
//! ```
//!
//! N is the number of bytes that the ACK acknowledges. The window counts segments with a fraction,
//! as in the figures of the literature. [`Arithmetic`] defines the differences between the RFC and
//! ns-2.
//!
//! With byte counting and a limit L (RFC 3465), slow start adds min(N, L SMSS) per ACK; in slow
//! start after a timeout, L = 1. Congestion avoidance adds one segment per window of acknowledged
//! bytes. Whether an unused window may grow (RFC 7661) is checked before the algorithm is called.

use super::super::config::Config;
use super::hystart::HyStart;
use super::{AckSample, Congestion, CongestionControl};
use lasthop_base::schema::keys::table;
use lasthop_base::units::Instant;
use std::marker::PhantomData;

table! {
    /// Additive increase, multiplicative decrease (RFC 5681).
    pub struct RenoKeys as "reno" {}
}

impl Copy for RenoKeys {}

/// Multiplicative decrease after a congestion mark (RFC 8511, section 3.1).
const ABE_SHARE: f64 = 0.8;

/// Arithmetic of the window.
pub trait Arithmetic {
    /// Returns the growth in slow start, in segments, for an ACK of `acked` bytes.
    fn slow_start(acked: u64, segment: u64) -> f64;
    /// Returns the window in bytes.
    fn bytes(cwnd: f64, segment: u64) -> u64;
    /// Returns threshold and window, in segments, after a reduction of `in_use`.
    fn halve(in_use: f64) -> (f64, f64);
    /// Returns the initial threshold in segments.
    fn initial_ssthresh(config: &Config) -> f64;
}

/// ns-2: the window in bytes is a whole number of packets, the threshold is an integer; cwnd keeps
/// its fraction.
#[derive(Clone, Copy, Debug)]
pub struct Ns2;

impl Arithmetic for Ns2 {
    #[inline]
    fn slow_start(_acked: u64, _segment: u64) -> f64 {
        1.0
    }

    #[inline]
    fn bytes(cwnd: f64, segment: u64) -> u64 {
        u64::from(cwnd as u32) * segment
    }

    fn halve(in_use: f64) -> (f64, f64) {
        ((in_use / 2.0).floor().max(2.0), in_use / 2.0)
    }

    fn initial_ssthresh(config: &Config) -> f64 {
        config.receive_window.floor()
    }
}

/// RFC 5681: the window in bytes includes fractions of a segment.
#[derive(Clone, Copy, Debug)]
pub struct Rfc5681;

impl Arithmetic for Rfc5681 {
    /// Section 3.1: cwnd += min(N, SMSS), which defends against ACK division.
    #[inline]
    fn slow_start(acked: u64, segment: u64) -> f64 {
        if acked < segment { acked as f64 / segment as f64 } else { 1.0 }
    }

    #[inline]
    fn bytes(cwnd: f64, segment: u64) -> u64 {
        (cwnd * segment as f64) as u64
    }

    fn halve(in_use: f64) -> (f64, f64) {
        let half = (in_use / 2.0).max(2.0);
        (half, half)
    }

    fn initial_ssthresh(_config: &Config) -> f64 {
        f64::INFINITY
    }
}

/// Additive increase, multiplicative decrease.
#[derive(Clone, Copy, Debug)]
pub struct Reno<A> {
    /// SMSS in bytes.
    segment: u64,
    cwnd: f64,
    ssthresh: f64,
    /// The window in bytes.
    window: u64,
    hystart: Option<HyStart>,
    /// Window and threshold before the latest reduction.
    prior: (f64, f64),
    /// Multiplicative decrease after a congestion mark: 0.5, or 0.8 (RFC 8511).
    marked_share: f64,
    /// Maximum growth per ACK in slow start, in segments, with byte counting; 0 if ACKs are
    /// counted.
    most: u32,
    /// Whether this slow start follows a timeout.
    is_after_timeout: bool,
    /// Bytes acknowledged towards the next segment of growth.
    credit: u64,
    arithmetic: PhantomData<A>,
}

impl<A: Arithmetic> Reno<A> {
    /// Creates the algorithm with a window of `cwnd` segments.
    pub fn new(config: &Config, cwnd: f64) -> Self {
        let segment = config.segment.get();
        let ssthresh = A::initial_ssthresh(config);
        Reno {
            segment,
            cwnd,
            ssthresh,
            window: A::bytes(cwnd, segment),
            hystart: config.hystart.then(|| HyStart::new(config.pacing)),
            prior: (cwnd, ssthresh),
            marked_share: if config.abe { ABE_SHARE } else { 0.5 },
            most: config.byte_counting.unwrap_or(0),
            is_after_timeout: false,
            credit: 0,
            arithmetic: PhantomData,
        }
    }

    #[inline]
    fn set(&mut self, cwnd: f64) {
        self.cwnd = cwnd;
        self.window = A::bytes(cwnd, self.segment);
    }

    /// Returns the growth in slow start with HyStart++, in segments.
    #[cold]
    fn hystart(&mut self, sample: AckSample) -> f64 {
        let Some(hystart) = &mut self.hystart else {
            return A::slow_start(sample.acked, self.segment);
        };
        let (growth, is_over) = hystart.on_ack(&sample, self.segment);
        if is_over {
            self.ssthresh = self.cwnd;
        }
        growth
    }

    /// Returns the growth with byte counting, in segments.
    fn count(&mut self, sample: &AckSample) -> f64 {
        if self.cwnd < self.ssthresh && self.hystart.is_some() {
            return self.hystart(*sample);
        }
        if self.cwnd < self.ssthresh {
            let most = if self.is_after_timeout { 1 } else { self.most };
            let segments = sample.acked as f64 / self.segment as f64;
            return segments.min(most.into());
        }
        self.is_after_timeout = false;
        self.credit += sample.acked;
        let window = (self.cwnd * self.segment as f64) as u64;
        if self.credit < window {
            return 0.0;
        }
        self.credit -= window;
        1.0
    }

    fn end_hystart(&mut self) {
        self.credit = 0;
        if let Some(hystart) = &mut self.hystart {
            hystart.reset();
        }
    }
}

impl<A: Arithmetic> CongestionControl for Reno<A> {
    #[inline(always)]
    fn on_ack(&mut self, sample: &AckSample) {
        let growth = if self.cwnd >= self.ssthresh {
            1.0 / self.cwnd
        } else if self.hystart.is_none() {
            A::slow_start(sample.acked, self.segment)
        } else {
            self.hystart(*sample)
        };
        self.set(self.cwnd + growth);
    }

    fn on_ack_by_bytes(&mut self, sample: &AckSample) {
        let growth = self.count(sample);
        self.set(self.cwnd + growth);
    }

    fn on_congestion(&mut self, _now: Instant, congestion: Congestion, in_use: f64) {
        self.prior = (self.cwnd, self.ssthresh);
        self.end_hystart();
        let keeps = if congestion == Congestion::Ecn { self.marked_share } else { 0.5 };
        let (ssthresh, cwnd) = A::halve(2.0 * keeps * in_use);
        self.ssthresh = ssthresh;
        self.set(cwnd);
    }

    fn on_timeout(&mut self, _now: Instant, in_use: Option<f64>) {
        if let Some(in_use) = in_use {
            self.prior = (self.cwnd, self.ssthresh);
            self.ssthresh = A::halve(in_use).0;
        }
        self.end_hystart();
        self.is_after_timeout = true;
        self.set(1.0);
    }

    /// RFC 4015, section 3.2: restores threshold and window.
    fn on_spurious(&mut self) {
        let (cwnd, ssthresh) = self.prior;
        self.ssthresh = self.ssthresh.max(ssthresh);
        self.set(self.cwnd.max(cwnd));
    }

    #[inline]
    fn window(&self) -> u64 {
        self.window
    }

    #[inline]
    fn cwnd(&self) -> f64 {
        self.cwnd
    }

    fn ssthresh(&self) -> f64 {
        self.ssthresh
    }

    fn set_cwnd(&mut self, cwnd: f64) {
        self.set(cwnd);
    }

    fn set_segment(&mut self, bytes: u64) {
        self.segment = bytes;
        self.set(self.cwnd);
    }

    fn slow_start_to(&mut self, cwnd: f64, ssthresh: f64) {
        self.ssthresh = ssthresh;
        self.set(cwnd);
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::any_config;
    use super::*;
    use lasthop_base::units::Duration;

    /// Returns the window after ACKs of `acks` bytes each, starting from `cwnd` segments of 1000
    /// bytes.
    fn grown(most: Option<u32>, cwnd: f64, in_use: Option<f64>, acks: &[u64]) -> f64 {
        let config = Config { byte_counting: most, ..any_config() };
        let mut reno = Reno::<Rfc5681>::new(&config, cwnd);
        if let Some(in_use) = in_use {
            reno.on_timeout(Instant::ZERO, Some(in_use));
        }
        for &acked in acks {
            let sample = AckSample {
                now: Instant::ZERO,
                acked,
                delivered_segments: 1,
                is_window_limited: true,
                prior_in_flight: 0,
                snd_una: 0,
                snd_max: 0,
                rtt: None,
                srtt: Duration::ZERO,
            };
            match most {
                Some(_) => reno.on_ack_by_bytes(&sample),
                None => reno.on_ack(&sample),
            }
        }
        reno.cwnd()
    }

    /// RFC 3465, sections 2.2 and 2.3.
    #[test]
    fn slow_start_by_bytes_up_to_the_limit() {
        for (most, acks, expected) in [
            (None, &[2000, 2000][..], 12.0),
            (Some(1), &[2000, 2000], 12.0),
            (Some(2), &[2000, 2000], 14.0),
            (Some(2), &[500, 3000], 12.5),
            (Some(8), &[3000, 9000], 21.0),
        ] {
            assert_eq!(grown(most, 10.0, None, acks), expected, "{most:?} {acks:?}");
        }
        // After a timeout with a flight of 10, the window starts at 1 and grows by at most 1 per
        // ACK.
        assert_eq!(grown(Some(2), 10.0, Some(10.0), &[2000, 2000, 500]), 3.5);
    }

    /// RFC 3465, section 2.1: one segment per window of bytes.
    #[test]
    fn avoidance_by_bytes() {
        let acks = [2000; 5];
        // The threshold of 4 is reached in slow start after a timeout. A window is then 4000 bytes,
        // later 5000.
        let before = grown(Some(2), 10.0, Some(8.0), &[1000; 3]);
        assert_eq!(before, 4.0);
        for (count, expected) in [(1, 4.0), (2, 5.0), (3, 5.0), (4, 5.0), (5, 6.0)] {
            let all: Vec<_> = [1000; 3].iter().chain(&acks[..count]).copied().collect();
            assert_eq!(grown(Some(2), 10.0, Some(8.0), &all), expected, "{count}");
        }
    }
}
