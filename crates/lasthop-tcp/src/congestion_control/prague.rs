//! Scalable congestion control for L4S (RFC 9331), based on Prague
//! (draft-briscoe-iccrg-prague-congestion-control-04).
//!
//! ```text
//!   R = max(srtt, 25 ms)       virtual RTT: limits the throughput advantage of short paths
//!   every R                    alpha = 15/16 alpha + 1/16 M        M: fraction of marked bytes (`mark_share.rs`)
//!   ACK without a mark         slow start, or cwnd += (srtt/R)^2 / cwnd
//!   marks, once a round trip   ssthresh = cwnd = cwnd (1 - alpha/2)
//!   loss, timeout              as Reno
//! ```
//!
//! Segments are sent as ECT(1), so that a dual queue applies its shallow marking threshold. The
//! receiver echoes the mark of each segment (`ecn.rs`). ECN is on, and segments are paced.
//!
//! *Not modelled*: the counters of accurate ECN on the wire (RFC 9768); the fallback for queues
//! that mark according to RFC 3168; windows below two segments.

use super::super::config::Config;
use super::Congestion;
use super::family::{AlgorithmKeys, Marks};
use super::mark_share::{GAIN, MarkShare};
use super::sample::{AckSample, Delivery};
use super::window::{Cause, Window, WindowLaw, window_field};
use lasthop_base::schema::keys::{Limits, table};
use lasthop_base::units::{Duration, Instant};

table! {
    /// Scalable congestion control based on Prague: ECT(1), a reduction by the fraction of marks,
    /// and reduced RTT bias for short RTTs.
    pub struct PragueKeys as "prague" {
        /// Minimum RTT for the growth of the window and the average of marks.
        #[was = "virtual_round_trip"]
        virtual_rtt: Duration = "25 ms", Limits::POSITIVE;
    }
}

impl Copy for PragueKeys {}

impl AlgorithmKeys for PragueKeys {
    type Machine = Prague;

    const MARKS: Marks = Marks::Scalable;

    const PACES: bool = true;

    fn build(&self, config: &Config, cwnd: f64) -> Prague {
        Prague {
            virtual_rtt: self.virtual_rtt,
            window: Window::new(config, cwnd),
            share: MarkShare::new(GAIN),
            update: Instant::ZERO,
            rtt: Duration::ZERO,
            is_marked: false,
        }
    }
}

/// Prague's window.
#[derive(Clone, Copy, Debug)]
pub struct Prague {
    virtual_rtt: Duration,
    window: Window,
    share: MarkShare,
    /// Time of the next update of alpha.
    update: Instant,
    /// Latest RTT sample.
    rtt: Duration,
    /// Whether the latest ACK echoed a mark.
    is_marked: bool,
}

impl WindowLaw for Prague {
    window_field!();

    fn grow(&mut self, sample: &AckSample) {
        if self.is_marked || self.window.slow_start(sample) {
            return;
        }
        let least = self.virtual_rtt.as_secs_f64();
        let rtt = sample.srtt.as_secs_f64();
        let scale = if rtt > 0.0 { (rtt / rtt.max(least)).powi(2) } else { 1.0 };
        self.window.avoid(sample, self.window.cwnd() / scale);
    }

    fn threshold(&mut self, _now: Instant, cause: Cause, in_use: f64) -> f64 {
        match cause {
            Cause::Congestion(Congestion::Ecn) => {
                self.window.cwnd() * (1.0 - self.share.alpha / 2.0)
            }
            Cause::Congestion(Congestion::Loss) | Cause::Timeout => in_use / 2.0,
        }
    }

    fn measure(&mut self, delivery: &Delivery) {
        self.rtt = delivery.rtt.unwrap_or(self.rtt);
        self.is_marked = delivery.is_marked;
        self.share.add(delivery);
        if delivery.now >= self.update {
            self.share.end();
            self.update = delivery.now + self.rtt.max(self.virtual_rtt);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::CongestionControl;
    use super::super::testing::{Acks, algorithm, avoid, ms};
    use super::*;

    /// With an RTT of at least 25 ms, one segment per window; with 5 ms, (5/25)^2 of a segment.
    #[test]
    fn short_round_trips_grow_slowly() {
        for (rtt, growth) in [(100.0, 1.0), (25.0, 1.0), (5.0, 0.04)] {
            let mut algorithm = algorithm::<PragueKeys>(100.0);
            avoid(&mut algorithm, 100.0);
            Acks::new().round(&mut algorithm, rtt);
            assert!(
                (algorithm.cwnd() - 100.0 - growth).abs() < 0.006,
                "{rtt}: {}",
                algorithm.cwnd()
            );
        }
    }

    /// With an RTT of 5 ms, alpha is updated every 25 ms. ACKs that echo marks do not grow the
    /// window.
    #[test]
    fn marks_count_by_their_share() {
        let mut algorithm = algorithm::<PragueKeys>(20.0);
        avoid(&mut algorithm, 20.0);
        let mut acks = Acks::new();
        acks.ack(&mut algorithm, 5.0, 0.0);
        let alpha = algorithm.share.alpha;
        for _ in 0..49 {
            acks.ack(&mut algorithm, 5.0, 0.5);
        }
        assert_eq!(algorithm.share.alpha, alpha);
        acks.ack(&mut algorithm, 5.0, 0.5);
        assert_eq!(algorithm.share.alpha, alpha * 15.0 / 16.0);
        acks.is_marked = true;
        for _ in 0..5_000 {
            acks.ack(&mut algorithm, 5.0, 0.5);
        }
        algorithm.set_cwnd(20.0);
        acks.ack(&mut algorithm, 5.0, 0.5);
        assert_eq!(algorithm.cwnd(), 20.0);
        assert!(algorithm.share.alpha > 0.99);
        algorithm.on_congestion(ms(acks.now), Congestion::Ecn, 20.0);
        assert!((algorithm.cwnd() - 10.0).abs() < 0.1);
    }
}
