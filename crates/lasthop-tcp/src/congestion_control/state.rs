//! State of a congestion control algorithm for observers: its phase and its model of the path.

use lasthop_base::units::Duration;

/// Phase of a sender: that of its algorithm, or of loss recovery if the algorithm has none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CongestionPhase {
    /// The window is below the threshold, and no loss is being repaired.
    SlowStart,
    /// The window is at least the threshold, and no loss is being repaired.
    CongestionAvoidance,
    /// Fast recovery, or the reduction after a mark.
    Recovery,
    /// After a retransmission timeout, until the data outstanding at the timeout is acknowledged.
    Timeout,
    /// BBR: STARTUP.
    Startup,
    /// BBR: DRAIN.
    Drain,
    /// BBR: PROBE_BW_DOWN; in version 1 the part of the cycle with gain 0.75.
    ProbeDown,
    /// BBR: PROBE_BW_CRUISE; in version 1 the parts of the cycle with gain 1.
    ProbeCruise,
    /// BBR: PROBE_BW_REFILL.
    ProbeRefill,
    /// BBR: PROBE_BW_UP; in version 1 the part of the cycle with gain 1.25.
    ProbeUp,
    /// BBR: PROBE_RTT.
    ProbeRtt,
}

impl CongestionPhase {
    /// All phases, with the names of the events in traces that report their beginning.
    pub const NAMES: [(Self, &'static str); 11] = [
        (Self::SlowStart, "phase_slow_start"),
        (Self::CongestionAvoidance, "phase_congestion_avoidance"),
        (Self::Recovery, "phase_recovery"),
        (Self::Timeout, "phase_timeout"),
        (Self::Startup, "phase_startup"),
        (Self::Drain, "phase_drain"),
        (Self::ProbeDown, "phase_probe_down"),
        (Self::ProbeCruise, "phase_probe_cruise"),
        (Self::ProbeRefill, "phase_probe_refill"),
        (Self::ProbeUp, "phase_probe_up"),
        (Self::ProbeRtt, "phase_probe_rtt"),
    ];

    /// Returns the name of the event in traces that reports the beginning of the phase.
    pub fn event(self) -> &'static str {
        Self::NAMES[self as usize].1
    }
}

/// Phase and path model of an algorithm. A value that the algorithm does not have is `None`; a
/// bound that is not set is infinite.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ModelState {
    /// Phase of the algorithm.
    pub phase: Option<CongestionPhase>,
    /// Estimate of the bandwidth in bytes per second.
    pub max_bw: Option<f64>,
    /// Estimate of the minimum RTT.
    pub min_rtt: Option<Duration>,
    /// Short-term bound of the rate in bytes per second.
    pub bw_shortterm: Option<f64>,
    /// Short-term bound of the volume in flight, in segments.
    pub inflight_shortterm: Option<f64>,
    /// Long-term bound of the volume in flight, in segments.
    pub inflight_longterm: Option<f64>,
    /// Estimate of the ACK aggregation, in segments.
    pub extra_acked: Option<f64>,
}

#[cfg(test)]
mod tests {
    use super::CongestionPhase;

    #[test]
    fn each_phase_has_the_name_at_its_place() {
        for (place, (phase, name)) in CongestionPhase::NAMES.into_iter().enumerate() {
            assert_eq!((phase as usize, phase.event()), (place, name));
        }
    }
}
