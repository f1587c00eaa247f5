//! The ideal bandwidth estimate (Capone, Fratta, Martignon, "Bandwidth Estimation Schemes for TCP over Wireless Networks",
//! IEEE Trans. Mobile Computing 3(2), 2004; Yun, EURASIP JWCN 2009, section 5): a bound for schemes that estimate.
//!
//! ```text
//!   growth       as Reno
//!   congestion   ssthresh = BW RTT_min / segment; cwnd = min(cwnd, ssthresh)
//!   timeout      ssthresh the same; cwnd = 1
//! ```
//!
//! BW and RTT_min are given, not measured. Values that a scenario omits are derived from its links.
//! BW is the payload rate of the slowest link, divided by the number of TCP flows that use it in
//! this direction. RTT_min is the RTT of a full segment and its ACK through empty queues.
//!
//! *Not modelled*: the bandwidth that other flows leave unused at a given time; the effect of
//! link-layer retransmissions and medium contention on BW.

use super::super::config::{Config, RecoveryKind};
use super::family::AlgorithmKeys;
use super::window::{Cause, Window, WindowLaw, window_field};
use lasthop_base::schema::keys::{Limits, table};
use lasthop_base::units::{Duration, Instant, Rate};

table! {
    /// Ideal bandwidth estimation: after a loss the threshold is the bandwidth-delay product of the
    /// flow's share of the slowest link.
    pub struct IdealBandwidthKeys as "ideal-bandwidth" {
        /// Payload rate of the flow's share; default: derived from the links of the scenario.
        bandwidth: Option<Rate>;
        /// RTT without queueing; default: derived from the links of the scenario.
        #[was = "round_trip"]
        rtt: Option<Duration>, Limits::POSITIVE;
    }
}

impl Copy for IdealBandwidthKeys {}

impl AlgorithmKeys for IdealBandwidthKeys {
    type Machine = IdealBandwidth;

    const RECOVERY: [RecoveryKind; 2] = [RecoveryKind::NewReno; 2];

    const MEASURES: bool = false;

    fn build(&self, config: &Config, cwnd: f64) -> IdealBandwidth {
        let carried = self.bandwidth.zip(self.rtt).map(|(bandwidth, rtt)| {
            bandwidth.as_bps() as f64 / 8.0 * rtt.as_secs_f64() / config.segment.get() as f64
        });
        IdealBandwidth { window: Window::new(config, cwnd), carried }
    }
}

/// A window with a given threshold.
#[derive(Clone, Copy, Debug)]
pub struct IdealBandwidth {
    window: Window,
    /// BW RTT_min in segments; `None` if unknown.
    carried: Option<f64>,
}

impl WindowLaw for IdealBandwidth {
    window_field!();

    fn threshold(&mut self, _now: Instant, _cause: Cause, in_use: f64) -> f64 {
        self.carried.unwrap_or(in_use / 2.0)
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{any_config, ms};
    use super::super::{Congestion, CongestionControl};
    use super::*;

    /// 1 Mbps over 100 ms is 12.5 segments of 1000 B, regardless of the number of reductions.
    #[test]
    fn losses_in_a_row_leave_the_threshold_where_it_is() {
        let keys = IdealBandwidthKeys {
            bandwidth: Some(Rate::from_bps(1_000_000)),
            rtt: Some(Duration::from_millis(100)),
        };
        let mut algorithm = keys.build(&any_config(), 40.0);
        for _ in 0..3 {
            algorithm.on_congestion(ms(0.0), Congestion::Loss, 40.0);
            assert_eq!((algorithm.cwnd(), algorithm.ssthresh()), (12.5, 12.5));
        }
        algorithm.on_timeout(ms(0.0), Some(12.5));
        assert_eq!((algorithm.cwnd(), algorithm.ssthresh()), (1.0, 12.5));
    }
}
