//! Hybla (Caini, Firrincieli, "TCP Hybla: a TCP enhancement for heterogeneous networks", Int. J. Satellite
//! Communications and Networking 22(5), 2004; Linux `tcp_hybla`).
//!
//! ```text
//!   rho = max(1, RTT / RTT_0) with the minimum RTT: the window, in segments per second, grows like the window of a
//!   connection with RTT_0
//!   slow start   cwnd += 2^min(rho, 16) - 1 each ACK, at most to ssthresh
//!   avoidance    cwnd += rho^2 / cwnd each ACK
//!   congestion   as Reno
//! ```
//!
//! The limit of 16 is Linux's. With a long RTT, slow start fills the receive window within one
//! round trip. The paper therefore combines it with pacing and an estimate of the initial
//! threshold.
//!
//! *Not modelled*: that estimate; an initial window of rho segments.

use super::super::config::Config;
use super::bandwidth::MinRtt;
use super::family::AlgorithmKeys;
use super::sample::{AckSample, Delivery};
use super::window::{Cause, Window, WindowLaw, window_field};
use lasthop_base::schema::keys::{Limits, table};
use lasthop_base::units::{Duration, Instant};

/// Maximum rho in slow start (Linux).
const MAX_EXPONENT: f64 = 16.0;

table! {
    /// Hybla: the rate of a connection with a long RTT grows like that of a connection with a short
    /// RTT.
    pub struct HyblaKeys as "hybla" {
        /// RTT_0: the RTT of the reference connection.
        reference_rtt: Duration = "25 ms", Limits::POSITIVE;
    }
}

impl Copy for HyblaKeys {}

impl AlgorithmKeys for HyblaKeys {
    type Machine = Hybla;

    fn build(&self, config: &Config, cwnd: f64) -> Hybla {
        Hybla {
            reference: self.reference_rtt.as_secs_f64(),
            window: Window::new(config, cwnd),
            min_rtt: MinRtt::default(),
            rho: 1.0,
            jump: 1.0,
        }
    }
}

/// Hybla's window.
#[derive(Clone, Copy, Debug)]
pub struct Hybla {
    /// RTT_0 in seconds.
    reference: f64,
    window: Window,
    min_rtt: MinRtt,
    rho: f64,
    /// Growth per ACK in slow start, in segments.
    jump: f64,
}

impl WindowLaw for Hybla {
    window_field!();

    fn grow(&mut self, sample: &AckSample) {
        let cwnd = self.window.cwnd();
        if self.window.is_in_slow_start() {
            let grown = cwnd + self.jump * self.window.count(sample);
            self.window.set(grown.min(self.window.ssthresh.max(cwnd)));
        } else {
            self.window.avoid(sample, cwnd / (self.rho * self.rho));
        }
    }

    fn threshold(&mut self, _now: Instant, _cause: Cause, in_use: f64) -> f64 {
        in_use / 2.0
    }

    fn measure(&mut self, delivery: &Delivery) {
        if self.min_rtt.add(delivery.rtt) {
            self.rho = (self.min_rtt.seconds() / self.reference).max(1.0);
            self.jump = libm::exp2(self.rho.min(MAX_EXPONENT)) - 1.0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::CongestionControl;
    use super::super::testing::{Acks, algorithm, avoid};
    use super::*;

    /// Section 3: rho^2 segments per round trip in avoidance, for any RTT; 2^rho - 1 per ACK in
    /// slow start.
    #[test]
    fn growth_of_both_phases() {
        for (rtt, rho, jump) in
            [(10.0, 1.0, 1.0), (25.0, 1.0, 1.0), (50.0, 2.0, 3.0), (100.0, 4.0, 15.0)]
        {
            let mut hybla = algorithm::<HyblaKeys>(10.0);
            let mut acks = Acks::new();
            acks.ack(&mut hybla, rtt, 1.0);
            assert_eq!((hybla.rho, hybla.jump), (rho, jump), "{rtt}");
            assert!((hybla.cwnd() - 10.0 - jump).abs() < 1e-9, "{rtt}");
            avoid(&mut hybla, 200.0);
            acks.round(&mut hybla, rtt);
            assert!(
                (hybla.cwnd() - 200.0 - rho * rho).abs() < 0.05 * rho * rho,
                "{}",
                hybla.cwnd()
            );
        }
    }

    /// 1 s of avoidance increases the rate, in segments per second, by an amount that does not
    /// depend on the RTT.
    #[test]
    fn the_rate_grows_alike_whatever_the_round_trip() {
        let mut rates = Vec::new();
        for rtt in [25.0, 100.0, 200.0] {
            let mut hybla = algorithm::<HyblaKeys>(10.0);
            let mut acks = Acks::new();
            acks.ack(&mut hybla, rtt, 1.0);
            avoid(&mut hybla, 500.0 * rtt / 100.0);
            acks.rounds(&mut hybla, rtt, (1000.0 / rtt) as u32);
            rates.push((hybla.cwnd() - 500.0 * rtt / 100.0) / (rtt / 1000.0));
        }
        // 40 segments of growth per window with an RTT of 25 ms: 40 / 0.025 = 1600 segments per
        // second.
        assert!(rates.iter().all(|rate| (rate / 1600.0 - 1.0).abs() < 0.05), "{rates:?}");
    }

    #[test]
    fn slow_start_stops_at_the_threshold() {
        let mut hybla = algorithm::<HyblaKeys>(10.0);
        let mut acks = Acks::new();
        avoid(&mut hybla, 1.0);
        hybla.window.ssthresh = 20.0;
        acks.ack(&mut hybla, 200.0, 1.0);
        assert_eq!(hybla.cwnd(), 20.0);
    }
}
