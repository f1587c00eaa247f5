//! CUBIC as implemented in Linux (`tcp_cubic.c`; RFC 9438 specifies the algorithm in real numbers).
//!
//! ```text
//!   target = origin + C (t + minimum RTT - K)^3     C = 410/1024, K = cbrt((W_max - cwnd) / C),
//!                                                      a multiple of 1/1024 s
//!   count  = cwnd / (target - cwnd)                 delivered segments per segment of growth; 100 cwnd at the target
//!            at most 20 before the first reduction; at most the count of the Reno-friendly window;
//!            at least 2
//!   congestion   W_max = cwnd, or cwnd (1 + beta) / 2 if cwnd was still below W_max
//!                ssthresh = max(beta cwnd, 2)       beta = 717/1024
//!   timeout      ssthresh as for congestion; W_max and the epoch are cleared
//! ```
//!
//! Windows are whole segments. The count is updated at most every 31 ms unless the window has
//! changed. HyStart (`hystart_linux.rs`) ends slow start.

use super::super::config::Config;
use super::hystart_linux::HyStartLinux;
use super::reno_linux::{WholeWindow, whole_window};
use super::{AckSample, Congestion, CongestionControl};
use lasthop_base::units::{Duration, Instant};

const C: f64 = 410.0 / 1024.0;
/// beta in units of 1/1024.
const BETA: u64 = 717;
/// Units of K per second. K is rounded down, so that a curve without an RTT sample begins below the
/// window, not at it.
const K_UNITS: f64 = 1024.0;
/// Reno-friendly growth: one segment per cwnd * 15 / 8 delivered segments. The constant is
/// 8 (1024 + beta) / 3 (1024 - beta), rounded down.
const RENO_SHARE: u32 = (8 * (1024 + BETA) / 3 / (1024 - BETA)) as u32;
/// Maximum count before the first reduction.
const MOST_AT_FIRST: u32 = 20;
/// Minimum interval between updates of the count while the window is unchanged: 1/32 s.
const UPDATE: Duration = Duration::from_nanos(31_250_000);
/// Duration after a reduction during which RTT samples are ignored.
const QUIET: Duration = Duration::from_secs(1);

/// Curve since the latest reduction.
#[derive(Clone, Copy, Debug)]
struct Epoch {
    start: Instant,
    /// Time from the start to the origin, in seconds.
    k: f64,
    /// Window at the plateau of the curve, in segments.
    origin: u32,
    /// Segments delivered towards the next segment of the Reno-friendly window.
    delivered: u32,
    /// Reno-friendly window, in segments.
    reno: u32,
}

/// CUBIC's window.
#[derive(Clone, Debug)]
pub struct CubicLinux {
    window: WholeWindow,
    hystart: Option<HyStartLinux>,
    /// Window before the latest reduction; 0 before the first.
    w_max: u32,
    /// Minimum RTT; `None` before the first sample.
    least: Option<Duration>,
    epoch: Option<Epoch>,
    /// Delivered segments per segment of growth.
    count: u32,
    /// Time and window of the latest update of the count.
    computed: Option<(Instant, u32)>,
    last_sent: Instant,
    is_idle: bool,
}

impl CubicLinux {
    /// Creates the algorithm with a window of `cwnd` segments.
    pub fn new(config: &Config, cwnd: f64) -> Self {
        CubicLinux {
            window: WholeWindow::new(config, cwnd),
            hystart: config.hystart.then(|| HyStartLinux::new(config.pacing)),
            w_max: 0,
            least: None,
            epoch: None,
            count: 0,
            computed: None,
            last_sent: Instant::ZERO,
            is_idle: false,
        }
    }

    fn reduce(&mut self) {
        let cwnd = self.window.cwnd;
        let scaled = |factor: u64, divisor: u64| (u64::from(cwnd) * factor / divisor) as u32;
        self.epoch = None;
        self.w_max = if cwnd < self.w_max { scaled(1024 + BETA, 2048) } else { cwnd };
        self.window.reduce(scaled(BETA, 1024).max(2));
    }

    fn take_round_trip(&mut self, sample: &AckSample, rtt: Duration) {
        if self.epoch.is_some_and(|epoch| sample.now - epoch.start < QUIET) {
            return;
        }
        let least = self.least.map_or(rtt, |least| least.min(rtt));
        self.least = Some(least);
        if self.window.in_slow_start()
            && let Some(hystart) = &mut self.hystart
            && hystart.on_ack(sample, rtt, least, self.window.cwnd)
        {
            self.window.ssthresh = self.window.cwnd;
        }
    }

    /// Updates the number of delivered segments per segment of growth.
    fn update(&mut self, now: Instant, delivered: u32) {
        let cwnd = self.window.cwnd;
        let w_max = self.w_max;
        let mut epoch = self.epoch.unwrap_or_else(|| {
            let k = if w_max <= cwnd { 0.0 } else { libm::cbrt(f64::from(w_max - cwnd) / C) };
            let k = (k * K_UNITS).floor() / K_UNITS;
            self.computed = None;
            Epoch { start: now, k, origin: w_max.max(cwnd), delivered: 0, reno: cwnd }
        });
        epoch.delivered += delivered;
        let is_fresh = self.computed.is_some_and(|(at, of)| of == cwnd && now - at <= UPDATE);
        if !is_fresh {
            self.computed = Some((now, cwnd));
            self.count = self.count_on_curve(&epoch, now);
            let per = (cwnd * RENO_SHARE) >> 3;
            while epoch.delivered > per {
                epoch.delivered -= per;
                epoch.reno += 1;
            }
            if epoch.reno > cwnd {
                self.count = self.count.min(cwnd / (epoch.reno - cwnd));
            }
            self.count = self.count.max(2);
        }
        self.epoch = Some(epoch);
    }

    fn count_on_curve(&self, epoch: &Epoch, now: Instant) -> u32 {
        let cwnd = self.window.cwnd;
        let elapsed = (now - epoch.start) + self.least.unwrap_or(Duration::ZERO);
        let from_origin = elapsed.as_secs_f64() - epoch.k;
        let above = (C * (from_origin * from_origin * from_origin).abs()).min(1e9) as u32;
        let target = if from_origin < 0.0 {
            epoch.origin.saturating_sub(above)
        } else {
            epoch.origin.saturating_add(above)
        };
        let count = if target > cwnd { cwnd / (target - cwnd) } else { 100 * cwnd };
        if self.w_max == 0 { count.min(MOST_AT_FIRST) } else { count }
    }
}

impl CongestionControl for CubicLinux {
    fn on_ack(&mut self, sample: &AckSample) {
        if let Some(rtt) = sample.rtt {
            self.take_round_trip(sample, rtt);
        }
        self.is_idle = sample.snd_una == sample.snd_max;
        if !sample.is_window_limited {
            return;
        }
        let mut delivered = sample.delivered_segments;
        if self.window.in_slow_start() {
            delivered = self.window.slow_start(delivered);
        }
        if delivered > 0 {
            self.update(sample.now, delivered);
            self.window.avoid(self.count, delivered);
        }
    }

    fn on_round_trip(&mut self, sample: &AckSample) {
        if let Some(rtt) = sample.rtt {
            self.take_round_trip(sample, rtt);
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
        self.w_max = 0;
        self.least = None;
        self.epoch = None;
        self.computed = None;
        if let Some(hystart) = &mut self.hystart {
            *hystart = HyStartLinux::new(hystart.is_paced());
        }
        self.window.cwnd = 1;
    }

    /// Excludes time without outstanding data from the epoch.
    fn on_sent(&mut self, now: Instant, _bytes: u64) {
        if std::mem::take(&mut self.is_idle)
            && let Some(epoch) = &mut self.epoch
        {
            epoch.start = (epoch.start + (now - self.last_sent)).min(now);
        }
        self.last_sent = now;
    }

    whole_window!();
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::presets::{Overrides, Profile, Variant, config};

    fn cubic(cwnd: f64) -> CubicLinux {
        let set = Overrides { hystart: Some(false), ..Overrides::default() };
        CubicLinux::new(&config(Variant::Cubic, Profile::Linux, &set), cwnd)
    }

    /// Acknowledges windows of segments for `duration` seconds.
    fn run(cubic: &mut CubicLinux, now: &mut f64, duration: f64, rtt: f64) {
        let end = *now + duration;
        while *now < end {
            *now += rtt / cubic.cwnd();
            cubic.on_ack(&AckSample {
                now: Instant::from_nanos((*now * 1e9) as u64),
                acked: 1460,
                delivered_segments: 1,
                is_window_limited: true,
                prior_in_flight: 0,
                snd_una: 0,
                snd_max: 1,
                rtt: Some(Duration::from_nanos((rtt * 1e9) as u64)),
                srtt: Duration::ZERO,
            });
        }
    }

    /// The curve after a loss at 1,000 segments: beta = 717/1024 reduces the window to 700, K =
    /// cbrt(300 / 0.4004) = 9.08 s.
    #[test]
    fn the_curve_after_a_loss() {
        let mut cubic = cubic(1000.0);
        cubic.on_congestion(Instant::ZERO, Congestion::Loss, 1000.0);
        assert_eq!((cubic.cwnd(), cubic.ssthresh()), (700.0, 700.0));
        let (mut now, mut before) = (0.0, 0.0);
        for (at, window) in
            [(2.0, 857.7), (4.0, 947.4), (6.0, 988.2), (9.0, 1000.0), (15.0, 1083.0)]
        {
            run(&mut cubic, &mut now, at - before, 0.1);
            before = at;
            // The integer counts follow the curve with a lag of one round trip and of one or two
            // segments.
            let slack = 0.012 * window;
            assert!((cubic.cwnd() - window).abs() < slack, "{at}: {} {window}", cubic.cwnd());
        }
    }

    /// Fast convergence, and the threshold.
    #[test]
    fn reductions() {
        let mut cubic = cubic(100.0);
        for (cwnd, w_max, ssthresh) in [(100.0, 100, 70.0), (70.0, 59, 49.0), (2.0, 1, 2.0)] {
            cubic.set_cwnd(cwnd);
            cubic.on_congestion(Instant::ZERO, Congestion::Loss, cwnd);
            assert_eq!((cubic.w_max, cubic.ssthresh()), (w_max, ssthresh));
        }
        cubic.on_timeout(Instant::ZERO, Some(2.0));
        assert_eq!((cubic.w_max, cubic.cwnd()), (0, 1.0));
    }

    /// With a short RTT, Reno-friendly growth applies: one segment per 15/8 windows.
    #[test]
    fn the_reno_friendly_region() {
        let mut cubic = cubic(20.0);
        cubic.on_congestion(Instant::ZERO, Congestion::Loss, 20.0);
        assert_eq!(cubic.cwnd(), 14.0);
        let mut now = 0.0;
        run(&mut cubic, &mut now, 0.1, 0.01);
        assert!((17.0..=20.0).contains(&cubic.cwnd()), "{}", cubic.cwnd());
    }
}
