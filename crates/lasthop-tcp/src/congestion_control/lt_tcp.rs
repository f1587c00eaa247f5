//! LT-TCP's window: losses are erasures and do not reduce it; congestion marks do.
//!
//! ```text
//!   slow start   window < threshold   each ACK: window += bytes of the acknowledged unit
//!   avoidance    otherwise            one full segment per window, for any size of its units
//!   mark         threshold = window = half of the window, at least two full segments
//!   overflow     as a mark: more than half of a block is lost, and no mark was ever received
//!   timeout      threshold = half of the flight size, window = one full segment; or no change
//! ```
//!
//! Source: Tickoo, Subramanian, Kalyanaraman and Ramakrishnan, "LT-TCP: End-to-end framework to
//! improve TCP performance over networks with lossy channels", IWQoS 2005; Subramanian et al.,
//! COMSWARE 2007. Their formulas are not available here; every constant is a key. The module
//! `blocks` sends the data and parity of such a connection.

use super::super::config::Config;
use super::family::AlgorithmKeys;
use super::{AckSample, Congestion, CongestionControl};
use lasthop_base::schema::keys::{Limits, table};
use lasthop_base::units::{Bytes, Instant, Probability};

table! {
    /// LT-TCP: windows are blocks of an erasure code with parity adapted to the loss rate; only
    /// congestion marks (ECN) reduce the window, not losses.
    pub struct LtTcpKeys as "lt-tcp" {
        /// Minimum number of segments per window, unless they would be smaller than min_segment.
        granularity: u32 = "10", Limits::range(1, 255);
        /// Minimum payload of a segment; the maximum is the key segment of the transport.
        min_segment: Bytes = "200 B", Limits::range(1, 65_000);
        /// Weight of a loss sample above the estimate.
        rising_weight: Probability = "0.5";
        /// Weight of a loss sample below the estimate.
        falling_weight: Probability = "0.125";
        /// Number of standard deviations of the loss, in addition to its estimate, that proactive
        /// parity covers.
        deviations: u32 = "1", Limits::range(0, 10);
        /// Number of later segments that must have arrived before a segment is declared lost.
        loss_threshold: u32 = "3", Limits::range(1, 255);
        /// Whether a repair has as many segments as the block, instead of as many as are missing.
        full_repair: bool = "false";
        /// Whether a timeout reduces the window; otherwise it only sends parity.
        timeout_is_congestion: bool = "true";
        /// Lost fraction of a block of at least 32 segments, and estimated loss, above which a
        /// connection without any marks treats losses as congestion and halves its window; "100 %":
        /// never.
        unmarked_congestion: Probability = "50 %";
    }
}

impl Copy for LtTcpKeys {}

impl AlgorithmKeys for LtTcpKeys {
    type Machine = LtTcp;

    const MEASURES: bool = false;

    fn build(&self, config: &Config, cwnd: f64) -> LtTcp {
        let segment = config.segment.get() as f64;
        LtTcp {
            segment,
            most: config.receive_window * segment,
            window: cwnd * segment,
            threshold: f64::INFINITY,
            timeout_is_congestion: self.timeout_is_congestion,
        }
    }
}

/// LT-TCP's window, in bytes.
#[derive(Clone, Copy, Debug)]
pub struct LtTcp {
    segment: f64,
    most: f64,
    window: f64,
    threshold: f64,
    timeout_is_congestion: bool,
}

impl CongestionControl for LtTcp {
    fn on_ack(&mut self, sample: &AckSample) {
        let acked = sample.acked as f64;
        let grown = if self.window < self.threshold {
            self.window + acked
        } else {
            self.window + self.segment * acked / self.window
        };
        self.window = grown.min(self.most.max(self.window));
    }

    fn on_congestion(&mut self, _now: Instant, congestion: Congestion, _in_use: f64) {
        if congestion == Congestion::Ecn {
            self.threshold = (self.window / 2.0).max(2.0 * self.segment);
            self.window = self.threshold.min(self.window);
        }
    }

    fn on_timeout(&mut self, _now: Instant, in_use: Option<f64>) {
        if !self.timeout_is_congestion {
            return;
        }
        if let Some(in_use) = in_use {
            self.threshold = (in_use / 2.0).max(2.0) * self.segment;
        }
        self.window = self.segment;
    }

    fn on_spurious(&mut self) {}

    fn window(&self) -> u64 {
        self.window as u64
    }

    fn cwnd(&self) -> f64 {
        self.window / self.segment
    }

    fn ssthresh(&self) -> f64 {
        self.threshold / self.segment
    }

    fn set_cwnd(&mut self, cwnd: f64) {
        self.window = cwnd * self.segment;
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::presets::{self, Overrides, Profile, Variant};
    use super::super::family::defaults;
    use super::*;

    fn algorithm(keys: LtTcpKeys) -> LtTcp {
        let set = Overrides { segment: Some(Bytes::new(1000)), ..Overrides::default() };
        keys.build(&presets::config(Variant::LtTcp, Profile::Rfc, &set), 2.0)
    }

    fn ack(algorithm: &mut LtTcp, acked: u64) {
        algorithm.on_ack(&AckSample {
            now: Instant::ZERO,
            acked,
            delivered_segments: 1,
            is_window_limited: true,
            prior_in_flight: 0,
            snd_una: 0,
            snd_max: 0,
            rtt: None,
            srtt: lasthop_base::units::Duration::ZERO,
        });
    }

    #[test]
    fn marks_reduce_the_window_and_losses_do_not() {
        let mut algorithm = algorithm(defaults());
        for _ in 0..10 {
            ack(&mut algorithm, 1000);
        }
        assert_eq!(algorithm.window(), 12_000, "slow start, by bytes");
        algorithm.on_congestion(Instant::ZERO, Congestion::Loss, 12.0);
        assert_eq!(algorithm.window(), 12_000);
        algorithm.on_congestion(Instant::ZERO, Congestion::Ecn, 12.0);
        assert_eq!((algorithm.window(), algorithm.ssthresh()), (6000, 6.0));
        // A window of small units grows by one full segment.
        (0..30).for_each(|_| ack(&mut algorithm, 200));
        assert!((6900..7000).contains(&algorithm.window()), "{}", algorithm.window());
        algorithm.on_timeout(Instant::ZERO, Some(7.0));
        assert_eq!((algorithm.window(), algorithm.ssthresh()), (1000, 3.5));
    }

    #[test]
    fn a_timeout_may_be_no_congestion() {
        let mut algorithm = algorithm(LtTcpKeys { timeout_is_congestion: false, ..defaults() });
        algorithm.on_timeout(Instant::ZERO, Some(2.0));
        assert_eq!(algorithm.window(), 2000);
    }
}
