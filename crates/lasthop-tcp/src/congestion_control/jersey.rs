//! Jersey (Xu, Tian, Ansari, "TCP-Jersey for Wireless IP Communications", JSAC 22(4), 2004).
//!
//! ```text
//!   every ACK n    R_n = (RTT R_(n-1) + bytes acknowledged) / (t_n - t_(n-1) + RTT)       available bandwidth (ABE)
//!                  own = RTT R_n / segment, at least 2                                    optimum window
//!   congestion warning (a mark)                       ssthresh = own, cwnd = min(cwnd, own)
//!   loss within one round trip after a warning        as for the warning
//!   loss without a warning                            only the retransmission
//!   timeout                                           ssthresh = own, cwnd = 1
//!   growth                                            as Reno
//! ```
//!
//! Routers signal congestion by marking every packet while their mean queue exceeds a threshold. If
//! no router marks, only a timeout reduces the window.
//!
//! *Not modelled*: marks that raise the window to the optimum window.

use super::super::config::{Config, RecoveryKind};
use super::Congestion;
use super::family::AlgorithmKeys;
use super::sample::Delivery;
use super::window::{Cause, Window, WindowLaw, window_field};
use lasthop_base::schema::keys::table;
use lasthop_base::units::{Duration, Instant};

table! {
    /// Jersey: routers signal congestion, and the window is computed from a bandwidth estimate.
    pub struct JerseyKeys as "jersey" {}
}

impl Copy for JerseyKeys {}

impl AlgorithmKeys for JerseyKeys {
    type Machine = Jersey;

    const RECOVERY: [RecoveryKind; 2] = [RecoveryKind::NewReno; 2];

    fn build(&self, config: &Config, cwnd: f64) -> Jersey {
        Jersey {
            window: Window::new(config, cwnd),
            rtt: Duration::ZERO,
            rate: 0.0,
            last: None,
            warned: None,
        }
    }
}

/// Jersey's window.
#[derive(Clone, Copy, Debug)]
pub struct Jersey {
    window: Window,
    /// Latest RTT sample; zero before the first.
    rtt: Duration,
    /// R_n in bytes per second.
    rate: f64,
    last: Option<Instant>,
    /// Arrival time of the latest mark.
    warned: Option<Instant>,
}

impl Jersey {
    /// Returns the optimum window in segments; `None` before the first RTT sample.
    fn optimum(&self) -> Option<f64> {
        let carried = self.rate * self.rtt.as_secs_f64() / self.window.segment() as f64;
        (self.rtt > Duration::ZERO).then_some(carried)
    }
}

impl WindowLaw for Jersey {
    window_field!();

    fn threshold(&mut self, now: Instant, cause: Cause, in_use: f64) -> f64 {
        if cause == Cause::Congestion(Congestion::Ecn) {
            self.warned = Some(now);
        }
        let is_warned = self.warned.is_some_and(|at| now - at <= self.rtt);
        if cause == Cause::Timeout || is_warned {
            self.optimum().unwrap_or(in_use / 2.0)
        } else {
            self.window.unchanged()
        }
    }

    fn measure(&mut self, delivery: &Delivery) {
        self.rtt = delivery.rtt.unwrap_or(self.rtt);
        let last = self.last.replace(delivery.now).unwrap_or(delivery.now);
        let (rtt, elapsed) = (self.rtt.as_secs_f64(), (delivery.now - last).as_secs_f64());
        if rtt + elapsed > 0.0 {
            self.rate = (rtt * self.rate + delivery.delivered as f64) / (elapsed + rtt);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::CongestionControl;
    use super::super::testing::{Acks, algorithm, ms};
    use super::*;

    /// With RTT = 100 ms and 1 kB every 10 ms: R = (0.1 R + 1000) / 0.11 from 0, so that R_n = 100
    /// kB/s (1 - (1/1.1)^n). The window converges to 10 segments.
    #[test]
    fn the_estimate_has_a_memory_of_a_round_trip() {
        let mut jersey = algorithm::<JerseyKeys>(20.0);
        let mut acks = Acks::new();
        acks.ack(&mut jersey, 100.0, 0.0);
        // The first ACK has no interval: 1 kB per round trip.
        assert!((jersey.rate - 1e4).abs() < 1e-6);
        for n in 1..200 {
            acks.ack(&mut jersey, 100.0, 10.0);
            let by_hand = 1e5 - 9e4 / 1.1f64.powi(n);
            assert!((jersey.rate - by_hand).abs() < 1e-3, "{n}: {}", jersey.rate);
        }
        assert!((jersey.optimum().unwrap() - 10.0).abs() < 1e-3);
    }

    #[test]
    fn only_losses_that_were_warned_of_count() {
        let mut jersey = algorithm::<JerseyKeys>(20.0);
        jersey.window.ssthresh = 2.0;
        let mut acks = Acks::new();
        (0..300).for_each(|_| acks.ack(&mut jersey, 100.0, 10.0));
        jersey.set_cwnd(20.0);
        jersey.on_congestion(ms(acks.now), Congestion::Loss, 20.0);
        assert_eq!((jersey.cwnd(), jersey.ssthresh()), (20.0, 20.0), "random");
        jersey.on_congestion(ms(acks.now), Congestion::Ecn, 20.0);
        assert!((jersey.cwnd() - 10.0).abs() < 1e-3 && jersey.cwnd() == jersey.ssthresh());
        jersey.set_cwnd(20.0);
        jersey.on_congestion(ms(acks.now + 90.0), Congestion::Loss, 20.0);
        assert!((jersey.cwnd() - 10.0).abs() < 1e-3, "within a round trip of the mark");
        jersey.set_cwnd(20.0);
        jersey.on_congestion(ms(acks.now + 110.0), Congestion::Loss, 20.0);
        assert_eq!(jersey.cwnd(), 20.0, "later");
        jersey.on_timeout(ms(acks.now + 110.0), Some(20.0));
        assert!(jersey.cwnd() == 1.0 && (jersey.ssthresh() - 10.0).abs() < 1e-3);
    }
}
