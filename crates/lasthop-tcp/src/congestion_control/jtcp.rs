//! JTCP (Wu, Chen, "JTCP: Jitter-Based TCP for Heterogeneous Wireless Networks", JSAC 22(4), 2004).
//!
//! ```text
//!   D  = (R_j - R_i) - (S_j - S_i)     how much later j arrived than it left, compared with i: jitter
//!   Jr = sum of D / (R_last - R_first) over a round trip, at least 0: the share of segments that had to queue
//!
//!   growth                             as Reno
//!   loss, Jr > k/cwnd                  ssthresh = 1/2 of what was in use, at most once a round trip
//!   loss, Jr <= k/cwnd                 nothing but the retransmission: immediate recovery
//!   timeout, Jr > k/cwnd               ssthresh = 1/2, cwnd = 1
//!   timeout, Jr <= k/cwnd              ssthresh = cwnd = 1/2
//! ```
//!
//! With segments that come to the bottleneck at a rate A and leave it at B < A, D is 1/B - 1/A each and R_j - R_i is 1/B, so
//! that Jr = (A - B)/A, and cwnd Jr is how many segments queued. The verdict of a loss is that of the last complete round
//! trip. A mark of the network counts as congestion.
//!
//! When segments arrived the timestamps tell that the receiver puts on its acknowledgments; they stand for the fields of
//! the paper. Where acknowledgments are delayed, the delay is part of that time.
//!
//! *Not modelled*: the average ratio and the rule by round trips of the patent of 2016 (US 9,432,297).

use super::super::config::{Config, RecoveryKind};
use super::Congestion;
use super::family::LawKeys;
use super::sample::{AckSample, Delivery, Passage};
use super::window::{Cause, Window, WindowLaw};
use lasthop_base::schema::keys::{Limits, table};
use lasthop_base::units::{Duration, Instant};

table! {
    /// JTCP: a loss while segments leave the path as far apart as they came is random and costs nothing.
    pub struct JtcpKeys as "jtcp" {
        /// Segments queued in a window from which on a loss means congestion, k.
        queued: u32 = "1", Limits::range(0, 1_000);
    }
}

impl Copy for JtcpKeys {}

impl LawKeys for JtcpKeys {
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

/// The jitter ratio of round trips.
#[derive(Clone, Copy, Debug, Default)]
struct Jitter {
    /// The round trip in hand ends when this byte is acknowledged.
    end: u64,
    /// First and last segments that tell of it.
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
    /// The latest sample.
    rtt: Duration,
    /// When a loss reduced the window last.
    cut: Option<Instant>,
    /// The window after the next expiry of the timer.
    after_timeout: f64,
}

impl WindowLaw for Jtcp {
    fn state(&self) -> &Window {
        &self.window
    }

    fn state_mut(&mut self) -> &mut Window {
        &mut self.window
    }

    fn grow(&mut self, sample: &AckSample) {
        self.window.reno(sample);
    }

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
    use super::super::testing::{Acks, law, ms};
    use super::*;

    /// Some windows of segments that leave `left` ms apart and arrive `arrived` ms apart.
    fn windows(jtcp: &mut Jtcp, acks: &mut Acks, left: f64, arrived: f64) {
        jtcp.window.ssthresh = 2.0;
        for _ in 0..60 {
            acks.pass(jtcp, 100.0, left, arrived);
        }
    }

    /// By hand: sent every 8 ms and received every 10 ms, a fifth of the segments queued: Jr = 0.2, so that at a window
    /// of 10 two of them did.
    #[test]
    fn a_loss_is_congestion_if_segments_queued() {
        for (left, ratio, cwnd) in [(8.0, 0.2, 5.0), (9.5, 0.05, 10.0), (12.0, 0.0, 10.0)] {
            let mut jtcp = law::<JtcpKeys>(10.0);
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
        let mut jtcp = law::<JtcpKeys>(10.0);
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
            let mut jtcp = law::<JtcpKeys>(20.0);
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
