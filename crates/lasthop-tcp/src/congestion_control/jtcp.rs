//! JTCP (Wu, Chen, "JTCP: Jitter-Based TCP for Heterogeneous Wireless Networks", JSAC 22(4), 2004).
//!
//! ```text
//!   D  = (R_j - R_i) - (S_j - S_i)     jitter: difference of arrival spacing and transmission spacing of segments i, j
//!   Jr = sum of D / (R_last - R_first) over a round trip, at least 0: fraction of segments that were queued
//!
//!   growth                             as Reno
//!   loss, Jr > k/cwnd                  ssthresh = half of the flight size, at most once per round trip
//!   loss, Jr <= k/cwnd                 only the retransmission (immediate recovery)
//!   timeout, Jr > k/cwnd               ssthresh = half of the flight size, cwnd = 1
//!   timeout, Jr <= k/cwnd              ssthresh = cwnd = half of the flight size
//! ```
//!
//! If segments arrive at the bottleneck at rate A and are forwarded at rate B < A, each D is 1/B -
//! 1/A and R_j - R_i is 1/B. Thus Jr = (A - B)/A, and cwnd Jr is the number of queued segments. A
//! loss is classified with Jr of the last complete round trip. A congestion mark counts as
//! congestion.
//!
//! Arrival times are taken from the receiver's timestamps on ACKs. They replace the fields of the
//! paper. If ACKs are delayed, the times include the delay.
//!
//! *Not modelled*: the average ratio and the round-trip rule of the patent of 2016 (US 9,432,297).

use super::super::config::{Config, RecoveryKind};
use super::Congestion;
use super::family::AlgorithmKeys;
use super::sample::{Delivery, Passage};
use super::window::{Cause, Window, WindowLaw, window_field};
use lasthop_base::schema::keys::{Limits, table};
use lasthop_base::units::{Duration, Instant};

table! {
    /// JTCP: a loss without jitter between segments is random and does not reduce the window.
    pub struct JtcpKeys as "jtcp" {
        /// Threshold k: a loss indicates congestion if more segments of a window are queued.
        queued: u32 = "1", Limits::range(0, 1_000);
    }
}

impl Copy for JtcpKeys {}

impl AlgorithmKeys for JtcpKeys {
    type Machine = Jtcp;

    const RECOVERY: [RecoveryKind; 2] = [RecoveryKind::NewReno; 2];

    const READS_ARRIVALS: bool = true;

    fn build(&self, config: &Config, cwnd: f64) -> Jtcp {
        Jtcp {
            keys: *self,
            window: Window::new(config, cwnd),
            jitter: Jitter::default(),
            rtt: Duration::ZERO,
            cut: None,
            after_timeout: 1.0,
        }
    }
}

/// Jitter ratio per round trip.
#[derive(Clone, Copy, Debug, Default)]
struct Jitter {
    /// The current round trip ends when SND.UNA exceeds this sequence number.
    end: u64,
    /// First and last segments of the round trip with known times.
    first: Option<Passage>,
    last: Option<Passage>,
    /// Jr of the last complete round trip.
    ratio: f64,
}

impl Jitter {
    fn add(&mut self, delivery: &Delivery) {
        if let Some(passage) = delivery.passage {
            self.first.get_or_insert(passage);
            self.last = Some(passage);
        }
        if delivery.snd_una <= self.end {
            return;
        }
        self.end = delivery.snd_max;
        if let (Some(first), Some(last)) = (self.first, self.last)
            && last.received > first.received
        {
            let received = (last.received - first.received).as_secs_f64();
            let sent = last.sent.saturating_since(first.sent).as_secs_f64();
            self.ratio = ((received - sent) / received).max(0.0);
        }
        self.first = self.last;
    }
}

/// JTCP's window.
#[derive(Clone, Copy, Debug)]
pub struct Jtcp {
    keys: JtcpKeys,
    window: Window,
    jitter: Jitter,
    /// Latest RTT sample.
    rtt: Duration,
    /// Time of the latest reduction after a loss.
    cut: Option<Instant>,
    /// Window after the next timeout, in segments.
    after_timeout: f64,
}

impl WindowLaw for Jtcp {
    window_field!();

    fn threshold(&mut self, now: Instant, cause: Cause, in_use: f64) -> f64 {
        let queued = self.jitter.ratio * self.window.cwnd();
        let is_congested = queued > f64::from(self.keys.queued);
        match cause {
            Cause::Congestion(Congestion::Loss) => {
                let is_recent = self.cut.is_some_and(|at| now - at < self.rtt);
                if !is_congested || is_recent {
                    return self.window.unchanged();
                }
                self.cut = Some(now);
            }
            Cause::Congestion(Congestion::Ecn) => {}
            Cause::Timeout if is_congested => {}
            Cause::Timeout => self.after_timeout = (in_use / 2.0).max(2.0),
        }
        in_use / 2.0
    }

    fn after_timeout(&mut self) -> f64 {
        std::mem::replace(&mut self.after_timeout, 1.0)
    }

    fn measure(&mut self, delivery: &Delivery) {
        self.rtt = delivery.rtt.unwrap_or(self.rtt);
        self.jitter.add(delivery);
    }
}

#[cfg(test)]
mod tests {
    use super::super::CongestionControl;
    use super::super::testing::{Acks, algorithm, ms};
    use super::*;

    /// Passes several windows of segments that are sent `left` ms apart and arrive `arrived` ms
    /// apart.
    fn windows(jtcp: &mut Jtcp, acks: &mut Acks, left: f64, arrived: f64) {
        jtcp.window.ssthresh = 2.0;
        for _ in 0..60 {
            acks.pass(jtcp, 100.0, left, arrived);
        }
    }

    /// Sent every 8 ms and received every 10 ms, 20 % of the segments are queued: Jr = 0.2. At a
    /// window of 10, these are 2 segments.
    #[test]
    fn a_loss_is_congestion_if_segments_queued() {
        for (left, ratio, cwnd) in [(8.0, 0.2, 5.0), (9.5, 0.05, 10.0), (12.0, 0.0, 10.0)] {
            let mut jtcp = algorithm::<JtcpKeys>(10.0);
            let mut acks = Acks::new();
            windows(&mut jtcp, &mut acks, left, 10.0);
            assert!((jtcp.jitter.ratio - ratio).abs() < 1e-9, "{left}: {}", jtcp.jitter.ratio);
            jtcp.set_cwnd(10.0);
            jtcp.on_congestion(ms(acks.now), Congestion::Loss, 10.0);
            assert_eq!(jtcp.cwnd(), cwnd, "{left}");
        }
    }

    #[test]
    fn congestion_reduces_once_a_round_trip() {
        let mut jtcp = algorithm::<JtcpKeys>(10.0);
        let mut acks = Acks::new();
        windows(&mut jtcp, &mut acks, 8.0, 10.0);
        for (after, cwnd) in [(0.0, 10.0), (99.0, 20.0), (101.0, 10.0)] {
            jtcp.set_cwnd(20.0);
            jtcp.on_congestion(ms(acks.now + after), Congestion::Loss, 20.0);
            assert_eq!(jtcp.cwnd(), cwnd, "{after}");
        }
    }

    #[test]
    fn a_random_timeout_keeps_half_of_the_window() {
        for (left, cwnd) in [(8.0, 1.0), (10.0, 10.0)] {
            let mut jtcp = algorithm::<JtcpKeys>(20.0);
            let mut acks = Acks::new();
            windows(&mut jtcp, &mut acks, left, 10.0);
            jtcp.set_cwnd(20.0);
            jtcp.on_timeout(ms(acks.now), Some(20.0));
            assert_eq!((jtcp.cwnd(), jtcp.ssthresh()), (cwnd, 10.0), "{left}");
            jtcp.on_timeout(ms(acks.now), None);
            assert_eq!(jtcp.cwnd(), 1.0, "the same segment again");
        }
    }
}
