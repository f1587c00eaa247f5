//! H-TCP (Leith, Shorten, "H-TCP: TCP for high-speed and long-distance networks", PFLDnet 2004;
//! draft-leith-tcp-htcp-06; Linux `tcp_htcp`).
//!
//! ```text
//!   D = time since the latest congestion, seconds
//!   avoidance    cwnd += alpha / cwnd each ACK, alpha = 2 (1 - beta) f, at least 1
//!                f = 1 for D <= 1, else 1 + 10 (D - 1) + ((D - 1) / 2)^2, times RTT_min / 100 ms clamped to 0.1 to 2,
//!                at least 1
//!   congestion   ssthresh = beta cwnd
//!                throughput within 20 % of the value before the previous congestion:
//!                beta = RTT_min / RTT_max in [0.5, 0.8], otherwise beta = 0.5
//!   timeout      ssthresh as for congestion; beta restarts at 0.5
//! ```
//!
//! Throughput is the data acknowledged in a window of ACKs divided by its duration, smoothed with
//! weight 1/4. The maximum of an epoch is used. RTT_max increases by at most 20 ms per sample. At
//! each congestion, its distance to RTT_min decreases by 5 %. All this follows Linux.
//!
//! *Not modelled*: Linux's option to disable scaling by the RTT.

use super::super::config::Config;
use super::bandwidth::MinRtt;
use super::family::AlgorithmKeys;
use super::sample::{AckSample, Delivery};
use super::window::{Cause, Window, WindowLaw, window_field};
use lasthop_base::schema::keys::table;
use lasthop_base::units::{Duration, Instant};

const BETA_MIN: f64 = 0.5;
const BETA_MAX: f64 = 0.8;
/// RTT for which growth is not scaled, in seconds.
const REFERENCE_RTT: f64 = 0.1;
/// Minimum RTT for adaptive backoff, in seconds.
const SHORTEST_RTT: f64 = 0.01;
/// Maximum increase of RTT_max per sample, in seconds.
const RTT_STEP: f64 = 0.02;

table! {
    /// H-TCP: the growth of the window increases with the time since the last congestion; the
    /// reduction depends on the queueing delay.
    pub struct HtcpKeys as "htcp" {}
}

impl Copy for HtcpKeys {}

impl AlgorithmKeys for HtcpKeys {
    type Machine = Htcp;

    fn build(&self, config: &Config, cwnd: f64) -> Htcp {
        Htcp {
            window: Window::new(config, cwnd),
            beta: BETA_MIN,
            last_congestion: None,
            min_rtt: MinRtt::default(),
            scale: 1.0,
            max_rtt: 0.0,
            throughput: Throughput::default(),
            old_highest: 0.0,
            adapts: false,
        }
    }
}

/// Throughput of windows of ACKs, in segments per second.
#[derive(Clone, Copy, Debug, Default)]
struct Throughput {
    /// Segments acknowledged since `began`.
    count: f64,
    began: Option<Instant>,
    /// Number of samples.
    samples: u32,
    smoothed: f64,
    highest: f64,
}

impl Throughput {
    fn add(&mut self, now: Instant, segments: f64, window: f64, min_rtt: f64) {
        let Some(began) = self.began else {
            self.began = Some(now);
            return;
        };
        self.count += segments;
        if self.count < window - 1.0 {
            return;
        }
        let elapsed = (now - began).as_secs_f64();
        if elapsed < min_rtt {
            return;
        }
        let sample = self.count / elapsed;
        self.samples += 1;
        if self.samples <= 3 {
            (self.smoothed, self.highest) = (sample, sample);
        } else {
            self.smoothed = (3.0 * self.smoothed + sample) / 4.0;
            self.highest = self.highest.max(self.smoothed);
        }
        (self.count, self.began) = (0.0, Some(now));
    }

    /// Ends an epoch and returns its maximum throughput. The next epoch begins with the smoothed
    /// throughput.
    fn end_epoch(&mut self) -> f64 {
        self.samples = self.samples.min(4);
        (self.count, self.began) = (0.0, None);
        std::mem::replace(&mut self.highest, self.smoothed)
    }
}

/// H-TCP's window.
#[derive(Clone, Copy, Debug)]
pub struct Htcp {
    window: Window,
    /// Multiplicative decrease.
    beta: f64,
    last_congestion: Option<Instant>,
    min_rtt: MinRtt,
    /// Scale of the growth: minimum RTT over [`REFERENCE_RTT`], clamped.
    scale: f64,
    /// Maximum RTT in seconds; zero before the first sample.
    max_rtt: f64,
    throughput: Throughput,
    /// Maximum throughput of the previous epoch.
    old_highest: f64,
    /// Whether throughput was steady over an epoch, so that beta may adapt to the queueing delay.
    adapts: bool,
}

impl Htcp {
    /// Processes an RTT sample for the minimum RTT and the scale.
    fn hear(&mut self, rtt: Option<Duration>) {
        if self.min_rtt.add(rtt) {
            self.scale = (self.min_rtt.seconds() / REFERENCE_RTT).clamp(0.1, 2.0);
        }
    }

    /// Returns the growth per window of ACKs in segments, `elapsed` seconds after congestion.
    fn alpha(&self, elapsed: f64) -> f64 {
        let mut growth = 1.0;
        if elapsed > 1.0 {
            let beyond = elapsed - 1.0;
            growth += 10.0 * beyond + beyond * beyond / 4.0;
        }
        growth = (growth * self.scale).max(1.0);
        (2.0 * growth * (1.0 - self.beta)).max(1.0)
    }

    fn update_beta(&mut self) {
        let (old, highest) = (self.old_highest, self.throughput.end_epoch());
        self.old_highest = highest;
        let min_rtt = self.min_rtt.seconds();
        if !(0.8 * old..=1.2 * old).contains(&highest) {
            (self.beta, self.adapts) = (BETA_MIN, false);
        } else if self.adapts && min_rtt > SHORTEST_RTT && self.max_rtt > 0.0 {
            self.beta = (min_rtt / self.max_rtt).clamp(BETA_MIN, BETA_MAX);
        } else {
            (self.beta, self.adapts) = (BETA_MIN, true);
        }
        if self.max_rtt > min_rtt {
            self.max_rtt = min_rtt + 0.95 * (self.max_rtt - min_rtt);
        }
    }
}

impl WindowLaw for Htcp {
    window_field!();

    fn grow(&mut self, sample: &AckSample) {
        if self.window.slow_start(sample) {
            return;
        }
        let since = *self.last_congestion.get_or_insert(sample.now);
        let alpha = self.alpha((sample.now - since).as_secs_f64());
        self.window.avoid(sample, self.window.cwnd() / alpha);
    }

    fn threshold(&mut self, now: Instant, cause: Cause, _in_use: f64) -> f64 {
        self.update_beta();
        self.last_congestion = Some(now);
        let threshold = self.beta * self.window.cwnd();
        if cause == Cause::Timeout {
            (self.beta, self.adapts) = (BETA_MIN, false);
            self.throughput = Throughput::default();
        }
        threshold
    }

    fn measure(&mut self, delivery: &Delivery) {
        self.hear(delivery.rtt);
        let min_rtt = self.min_rtt.seconds();
        if let Some(rtt) = delivery.rtt.map(Duration::as_secs_f64)
            && rtt > self.max_rtt
        {
            self.max_rtt = rtt.min(self.max_rtt.max(min_rtt) + RTT_STEP);
        }
        let segments = delivery.acked as f64 / self.window.segment() as f64;
        self.throughput.add(delivery.now, segments, self.window.cwnd(), min_rtt);
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Acks, algorithm, avoid, ms};
    use super::super::{Congestion, CongestionControl};
    use super::*;

    /// With beta = 0.5: f for an RTT of 100 ms, a tenth of it for 10 ms and less, twice as much for
    /// 200 ms and more.
    #[test]
    fn growth_by_the_time_since_congestion() {
        for (elapsed, rtt, alpha) in [
            (0.5, 100, 1.0),
            (1.0, 100, 1.0),
            (2.0, 100, 11.25),
            (3.0, 100, 22.0),
            (11.0, 100, 126.0),
            (2.0, 10, 1.125),
            (2.0, 1, 1.125),
            (2.0, 200, 22.5),
            (2.0, 600, 22.5),
            (1.0, 600, 2.0),
        ] {
            let mut htcp = algorithm::<HtcpKeys>(20.0);
            htcp.hear(Some(Duration::from_millis(rtt)));
            assert!((htcp.alpha(elapsed) - alpha).abs() < 1e-9, "{elapsed} {rtt}");
            htcp.beta = 0.8;
            assert!((htcp.alpha(elapsed) - (0.4 * alpha).max(1.0)).abs() < 1e-9, "{elapsed} {rtt}");
        }
    }

    /// After two epochs with equal throughput, the third reduction is by RTT_min / RTT_max; after a
    /// change, by half.
    #[test]
    fn the_reduction_follows_the_queue_while_throughput_is_steady() {
        let mut htcp = algorithm::<HtcpKeys>(20.0);
        let mut acks = Acks::new();
        let mut cut = |htcp: &mut Htcp, window: f64, rtts: &[f64]| {
            avoid_at(htcp, window);
            for rtt in rtts {
                for _ in 0..10 {
                    htcp.set_cwnd(window);
                    acks.round(htcp, *rtt);
                }
            }
            htcp.set_cwnd(100.0);
            htcp.on_congestion(ms(acks.now), Congestion::Loss, 100.0);
            htcp.cwnd()
        };
        assert_eq!(cut(&mut htcp, 20.0, &[100.0, 120.0]), 50.0, "the first epoch");
        assert_eq!(cut(&mut htcp, 20.0, &[100.0, 120.0]), 50.0, "the first that was steady");
        let third = cut(&mut htcp, 20.0, &[100.0, 120.0, 140.0, 150.0]);
        assert!((third - 100.0 * 100.0 / 150.0).abs() < 1.0, "{third}");
        assert_eq!(cut(&mut htcp, 40.0, &[100.0]), 50.0, "twice the throughput");
        htcp.on_timeout(ms(acks.now), Some(100.0));
        assert_eq!(htcp.beta, BETA_MIN);
    }

    fn avoid_at(htcp: &mut Htcp, cwnd: f64) {
        htcp.window.ssthresh = 2.0;
        htcp.set_cwnd(cwnd);
    }

    /// With an RTT of 100 ms, one segment per round trip in the first second, at least 11 in the
    /// third.
    #[test]
    fn the_window_takes_off_after_a_second() {
        let mut htcp = algorithm::<HtcpKeys>(20.0);
        let mut acks = Acks::new();
        avoid(&mut htcp, 20.0);
        acks.rounds(&mut htcp, 100.0, 10);
        assert!((htcp.cwnd() - 30.0).abs() < 0.6, "{}", htcp.cwnd());
        acks.rounds(&mut htcp, 100.0, 10);
        let before = htcp.cwnd();
        acks.round(&mut htcp, 100.0);
        assert!((11.0..13.5).contains(&(htcp.cwnd() - before)), "{}", htcp.cwnd() - before);
    }
}
