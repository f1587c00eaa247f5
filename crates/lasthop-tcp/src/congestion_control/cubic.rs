//! CUBIC (RFC 9438).
//!
//! ```text
//!   W_cubic(t) = C (t - K)^3 + W_max      K = cbrt((W_max - cwnd_epoch) / C)      C = 0.4, beta = 0.7
//!
//!   slow start   cwnd < ssthresh: as RFC 5681, or HyStart++
//!   avoidance    t: time since its beginning; W_est grows like Reno with multiplicative decrease beta
//!                W_cubic(t) < W_est: cwnd = W_est                      (Reno-friendly, 4.3)
//!                otherwise:          cwnd += (target - cwnd) / cwnd    (concave, convex, 4.4, 4.5)
//!                target = W_cubic(t + RTT), between cwnd and 1.5 cwnd
//!   congestion   W_max = cwnd, or less if cwnd was still below W_max (fast convergence, 4.7)
//!                ssthresh = cwnd = beta * flight size                  (4.6)
//!   timeout      ssthresh = beta * min(flight size, cwnd), cwnd = 1; K = 0 in the next avoidance (4.8)
//! ```
//!
//! Windows count segments, time is in seconds. Time during which the application or the receiver,
//! not the window, limits the sender is excluded from t (section 5.8). A congestion mark is treated
//! as a loss, or with a factor of 0.85 (`abe`, RFC 8511).

use super::super::config::Config;
use super::family::AlgorithmKeys;
use super::hystart::HyStart;
use super::{AckSample, Congestion, CongestionControl};
use lasthop_base::schema::keys::table;
use lasthop_base::units::{Duration, Instant};

table! {
    /// CUBIC's window (RFC 9438).
    pub struct CubicKeys as "cubic" {}
}

impl Copy for CubicKeys {}

impl AlgorithmKeys for CubicKeys {
    type Machine = Cubic;

    const MEASURES: bool = false;

    fn build(&self, config: &Config, cwnd: f64) -> Cubic {
        Cubic::new(config, cwnd)
    }
}

/// Constant C in segments per cubic second (section 5).
const C: f64 = 0.4;
/// Multiplicative decrease (section 4.6).
const BETA: f64 = 0.7;
/// Multiplicative decrease after a congestion mark if `abe` is on (RFC 8511, section 3.1; RFC 9438,
/// section 4.6).
const ABE_BETA: f64 = 0.85;
/// Additive increase with which AIMD with this decrease has the same average window as Reno
/// (section 4.3).
const ALPHA: f64 = 3.0 * (1.0 - BETA) / (1.0 + BETA);
/// Maximum growth of the window per round trip, as a factor (section 4.2).
const MAX_GROWTH: f64 = 1.5;

/// Congestion avoidance epoch.
#[derive(Clone, Copy, Debug)]
struct Epoch {
    /// Start of the epoch, plus the time during which the window did not limit the sender.
    start: Instant,
    /// Time from the start to `w_max`, in seconds.
    k: f64,
    /// Plateau of the curve, in segments.
    w_max: f64,
    /// Estimate of Reno's window, in segments.
    w_est: f64,
}

impl Epoch {
    /// Returns W_cubic at `elapsed` seconds from the start (figure 1).
    fn window(&self, elapsed: f64) -> f64 {
        let from_origin = elapsed - self.k;
        C * from_origin * from_origin * from_origin + self.w_max
    }
}

/// State that is restored after a spurious reduction (section 4.9).
#[derive(Clone, Copy, Debug)]
struct State {
    cwnd: f64,
    ssthresh: f64,
    /// Window before the latest reduction, after fast convergence; `None` before the first
    /// reduction and after a timeout.
    w_max: Option<f64>,
    /// Window before the latest reduction.
    cwnd_prior: f64,
    epoch: Option<Epoch>,
}

/// CUBIC's window.
#[derive(Clone, Copy, Debug)]
pub struct Cubic {
    /// SMSS in bytes.
    segment: u64,
    state: State,
    prior: State,
    hystart: Option<HyStart>,
    abe: bool,
    last_ack: Instant,
    /// The window in bytes.
    window: u64,
}

impl Cubic {
    /// Creates the algorithm with a window of `cwnd` segments.
    pub fn new(config: &Config, cwnd: f64) -> Self {
        let state =
            State { cwnd, ssthresh: f64::INFINITY, w_max: None, cwnd_prior: 0.0, epoch: None };
        let mut cubic = Cubic {
            segment: config.segment.get(),
            state,
            prior: state,
            hystart: config.hystart.then(|| HyStart::new(config.pacing)),
            abe: config.abe,
            last_ack: Instant::ZERO,
            window: 0,
        };
        cubic.set(cwnd);
        cubic
    }

    fn set(&mut self, cwnd: f64) {
        self.state.cwnd = cwnd;
        self.window = (cwnd * self.segment as f64) as u64;
    }

    fn slow_start(&mut self, sample: &AckSample) {
        let segment = self.segment;
        let growth = match &mut self.hystart {
            None => sample.acked.min(segment) as f64 / segment as f64,
            Some(hystart) => {
                let (growth, is_over) = hystart.on_ack(sample, segment);
                if is_over {
                    // Section 4.10: no loss occurred, so the curve begins at its plateau.
                    self.state.ssthresh = self.state.cwnd;
                    self.state.cwnd_prior = self.state.cwnd;
                }
                growth
            }
        };
        self.set(self.state.cwnd + growth);
    }

    fn avoid(&mut self, sample: &AckSample) {
        let State { cwnd, w_max, cwnd_prior, epoch, .. } = self.state;
        let mut epoch = epoch.unwrap_or_else(|| {
            // Without a previous maximum, the curve begins at its plateau (4.8, 4.10).
            let w_max = w_max.unwrap_or(cwnd).max(cwnd);
            let k = libm::cbrt((w_max - cwnd) / C);
            Epoch { start: sample.now, k, w_max, w_est: cwnd }
        });
        let elapsed = (sample.now - epoch.start).as_secs_f64();
        let acked = sample.acked as f64 / self.segment as f64;
        let alpha = if epoch.w_est < cwnd_prior { ALPHA } else { 1.0 };
        epoch.w_est += alpha * acked / cwnd;
        let cwnd = if epoch.window(elapsed) < epoch.w_est {
            cwnd.max(epoch.w_est)
        } else {
            let target = epoch.window(elapsed + sample.srtt.as_secs_f64());
            cwnd + (target.clamp(cwnd, MAX_GROWTH * cwnd) - cwnd) / cwnd
        };
        self.state.epoch = Some(epoch);
        self.set(cwnd);
    }

    /// Computes the threshold after a reduction of `in_use` and the new maximum of the curve.
    fn reduce(&mut self, in_use: f64) {
        self.prior = self.state;
        let cwnd = self.state.cwnd;
        let is_below = self.state.w_max.is_some_and(|w_max| cwnd < w_max);
        self.state.w_max = Some(if is_below { cwnd * (1.0 + BETA) / 2.0 } else { cwnd });
        self.state.cwnd_prior = cwnd;
        self.state.ssthresh = (BETA * in_use).max(2.0);
        self.state.epoch = None;
    }
}

impl Cubic {
    /// Ends HyStart++ after a loss, a mark or a timeout.
    fn end_hystart(&mut self) {
        if let Some(hystart) = &mut self.hystart {
            hystart.reset();
        }
    }
}

impl CongestionControl for Cubic {
    fn on_ack(&mut self, sample: &AckSample) {
        let waited = sample.now - self.last_ack;
        self.last_ack = sample.now;
        let in_slow_start = self.state.cwnd < self.state.ssthresh;
        // In slow start half of the window suffices, because it doubles every RTT.
        let share = if in_slow_start { 2 } else { 1 };
        if share * (sample.prior_in_flight + self.segment) <= self.window {
            if let Some(epoch) = &mut self.state.epoch {
                epoch.start = (epoch.start + waited).min(sample.now);
            }
        } else if in_slow_start {
            self.slow_start(sample);
        } else {
            self.avoid(sample);
        }
    }

    fn on_congestion(&mut self, _now: Instant, congestion: Congestion, in_use: f64) {
        let is_mild = self.abe && congestion == Congestion::Ecn;
        self.end_hystart();
        self.reduce(if is_mild { in_use * ABE_BETA / BETA } else { in_use });
        self.set(self.state.ssthresh);
    }

    fn on_timeout(&mut self, _now: Instant, in_use: Option<f64>) {
        if let Some(in_use) = in_use {
            self.reduce(in_use);
        }
        self.state.w_max = None;
        self.state.epoch = None;
        self.end_hystart();
        self.set(1.0);
    }

    fn on_spurious(&mut self) {
        if self.state.cwnd < self.prior.cwnd {
            self.state = self.prior;
            self.set(self.state.cwnd);
        }
    }

    fn window(&self) -> u64 {
        self.window
    }

    fn cwnd(&self) -> f64 {
        self.state.cwnd
    }

    fn ssthresh(&self) -> f64 {
        self.state.ssthresh
    }

    fn set_cwnd(&mut self, cwnd: f64) {
        self.set(cwnd);
    }

    fn set_segment(&mut self, bytes: u64) {
        self.segment = bytes;
        self.set(self.state.cwnd);
    }

    fn pacing_rate(&self, srtt: Duration) -> f64 {
        super::window_over_round_trip(self.window, self.state.cwnd < self.state.ssthresh, srtt)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::presets::{Overrides, Profile, Variant, config};

    const SEGMENT: u64 = 1460;

    fn cubic(cwnd: f64) -> Cubic {
        Cubic::new(&config(Variant::Cubic, Profile::Rfc, &Overrides::default()), cwnd)
    }

    fn seconds(seconds: f64) -> Instant {
        Instant::from_nanos((seconds * 1e9).round() as u64)
    }

    /// Acknowledges single segments, one window per round trip, from `now` for `duration` seconds.
    fn run(cubic: &mut Cubic, now: &mut f64, duration: f64, rtt: f64) {
        let end = *now + duration;
        while *now < end {
            *now += rtt / cubic.cwnd();
            cubic.on_ack(&AckSample {
                now: seconds(*now),
                acked: SEGMENT,
                delivered_segments: 1,
                is_window_limited: true,
                prior_in_flight: u64::MAX / 4,
                snd_una: 0,
                snd_max: 0,
                rtt: None,
                srtt: Duration::from_nanos((rtt * 1e9) as u64),
            });
        }
    }

    /// Figure 1 after a loss at 1,000 segments: K = cbrt(1000 * 0.3 / 0.4) = 9.0856 s.
    #[test]
    fn the_curve_of_figure_1() {
        // The window at t, by hand: 0.4 (t - 9.0856)^3 + 1000.
        let table = [
            (1.0, 788.6),
            (2.0, 857.7),
            (4.0, 947.4),
            (6.0, 988.2),
            (8.0, 999.5),
            (9.0856, 1000.0),
            (10.0, 1000.3),
            (12.0, 1009.9),
            (15.0, 1082.8),
            (18.1712, 1300.0),
        ];
        // Reno adds 5 segments per second here, so that the cubic curve is higher.
        let rtt = 0.1;
        let mut cubic = cubic(1000.0);
        cubic.on_congestion(seconds(0.0), Congestion::Loss, 1000.0);
        assert!((cubic.cwnd() - 700.0).abs() < 1e-9);
        let epoch = Epoch { start: seconds(0.0), k: libm::cbrt(750.0), w_max: 1000.0, w_est: 0.0 };
        let mut now = 0.0;
        for (at, window) in table {
            assert!((epoch.window(at) - window).abs() < 0.05, "W({at}) = {}", epoch.window(at));
            let wait = at - now;
            run(&mut cubic, &mut now, wait, rtt);
            // The window follows with a lag of at most one round trip.
            let (least, most) = (epoch.window(at - rtt) - 0.05, epoch.window(at + rtt) + 0.05);
            assert!(
                (least..=most).contains(&cubic.cwnd()),
                "{at}: {} {least} {most}",
                cubic.cwnd()
            );
        }
    }

    /// Section 4.3: with a short RTT, the window grows as Reno's with alpha = 0.529. Above the
    /// previous window it grows by one segment per round trip.
    #[test]
    fn the_reno_friendly_region() {
        let rtt = 0.01;
        let mut cubic = cubic(20.0);
        cubic.on_congestion(seconds(0.0), Congestion::Loss, 20.0);
        let mut now = 0.0;
        run(&mut cubic, &mut now, 10.0 * rtt, rtt);
        let grown = cubic.cwnd() - 14.0;
        assert!((grown - 10.0 * 9.0 / 17.0).abs() < 0.15, "{grown}");
        run(&mut cubic, &mut now, 10.0 * rtt, rtt);
        let before = cubic.cwnd();
        assert!(before > 20.0, "beyond the window that was lost: {before}");
        run(&mut cubic, &mut now, 10.0 * rtt, rtt);
        let grown = cubic.cwnd() - before;
        assert!((grown - 10.0).abs() < 0.3, "{grown}");
    }

    /// Section 4.7: a flow whose window has not reached its previous maximum releases bandwidth to
    /// other flows.
    #[test]
    fn fast_convergence() {
        let mut cubic = cubic(100.0);
        let now = seconds(0.0);
        for (in_use, w_max, cwnd) in [
            (100.0, 100.0, 70.0),
            (70.0, 70.0 * 0.85, 49.0),
            // 49 is below 59.5: fast convergence again.
            (49.0, 49.0 * 0.85, 34.3),
        ] {
            cubic.on_congestion(now, Congestion::Loss, in_use);
            assert!((cubic.state.w_max.unwrap() - w_max).abs() < 1e-9);
            assert!((cubic.cwnd() - cwnd).abs() < 1e-9);
            assert_eq!(cubic.ssthresh(), cubic.cwnd());
        }
        cubic.set_cwnd(50.0);
        cubic.on_congestion(now, Congestion::Loss, 50.0);
        assert!((cubic.state.w_max.unwrap() - 50.0).abs() < 1e-9, "above 41.65: its own");
    }

    /// Section 4.8: K = 0, and the maximum is the window at the start of congestion avoidance.
    #[test]
    fn after_a_timeout_the_curve_begins_at_its_origin() {
        let mut cubic = cubic(100.0);
        cubic.on_timeout(seconds(0.0), Some(100.0));
        assert_eq!((cubic.cwnd(), cubic.ssthresh()), (1.0, 70.0));
        // Another timeout of this segment: the threshold is unchanged.
        cubic.on_timeout(seconds(1.0), None);
        assert_eq!((cubic.cwnd(), cubic.ssthresh()), (1.0, 70.0));
        let mut now = 0.0;
        run(&mut cubic, &mut now, 20.0, 1.0);
        let epoch = cubic.state.epoch.unwrap();
        assert_eq!((epoch.k, epoch.w_max), (0.0, 70.0));
        assert!(cubic.cwnd() > 70.0);
    }

    /// Section 4.9: a spurious reduction is undone, unless the window has grown beyond its previous
    /// value.
    #[test]
    fn spurious_reductions_are_undone() {
        let mut cubic = cubic(100.0);
        cubic.on_timeout(seconds(0.0), Some(100.0));
        cubic.on_spurious();
        assert_eq!((cubic.cwnd(), cubic.ssthresh()), (100.0, f64::INFINITY));
        cubic.on_congestion(seconds(1.0), Congestion::Loss, 100.0);
        cubic.set_cwnd(150.0);
        cubic.on_spurious();
        assert_eq!((cubic.cwnd(), cubic.ssthresh()), (150.0, 70.0));
    }

    /// Section 5.8: while the sender does not use its window, the window does not grow and the
    /// epoch is suspended.
    #[test]
    fn an_idle_sender_does_not_grow() {
        let mut cubic = cubic(100.0);
        cubic.on_congestion(seconds(0.0), Congestion::Loss, 100.0);
        let mut now = 0.0;
        run(&mut cubic, &mut now, 0.1, 0.1);
        let before = cubic.cwnd();
        let mut sample = AckSample {
            now: seconds(now),
            acked: SEGMENT,
            delivered_segments: 1,
            is_window_limited: true,
            prior_in_flight: SEGMENT,
            snd_una: 0,
            snd_max: 0,
            rtt: None,
            srtt: Duration::from_millis(100),
        };
        for step in 1..1000 {
            sample.now = seconds(now + 0.1 * f64::from(step));
            cubic.on_ack(&sample);
        }
        assert_eq!(cubic.cwnd(), before);
        let mut later = sample.now.as_secs_f64();
        run(&mut cubic, &mut later, 0.1, 0.1);
        assert!(cubic.cwnd() < before + 6.0, "{} after {before}", cubic.cwnd());
    }
}
