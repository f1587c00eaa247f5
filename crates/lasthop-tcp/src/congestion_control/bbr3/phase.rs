//! Phases of BBR version 3.

use super::super::state::CongestionPhase;
use lasthop_base::units::Instant;

pub const STARTUP_GAIN: f64 = 2.77;
const DRAIN_GAIN: f64 = 0.5;
const CWND_GAIN: f64 = 2.0;
/// Window gain in UP.
const UP_CWND_GAIN: f64 = 2.25;
const PROBE_RTT_GAIN: f64 = 0.5;
const FULL_BW_GROWTH: f64 = 1.25;
const FULL_BW_ROUNDS: u32 = 3;

/// Phase of the state machine.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Phase {
    Startup,
    /// `began`: number of completed round trips at its start.
    Drain {
        began: u32,
    },
    Down,
    Cruise,
    Refill,
    Up,
    /// `until`: its end, set once in-flight data has fallen to the window of PROBE_RTT;
    /// `round_over`: whether a round trip has ended since.
    ProbeRtt {
        until: Option<Instant>,
        round_over: bool,
    },
}

impl Phase {
    /// Returns the gains of pacing rate and window.
    pub fn gains(self) -> (f64, f64) {
        match self {
            Phase::Startup => (STARTUP_GAIN, CWND_GAIN),
            Phase::Drain { .. } => (DRAIN_GAIN, CWND_GAIN),
            Phase::Down => (0.9, CWND_GAIN),
            Phase::Cruise | Phase::Refill => (1.0, CWND_GAIN),
            Phase::Up => (1.25, UP_CWND_GAIN),
            Phase::ProbeRtt { .. } => (1.0, PROBE_RTT_GAIN),
        }
    }

    /// Returns the phase in the terms of observers.
    pub fn observed(self) -> CongestionPhase {
        match self {
            Phase::Startup => CongestionPhase::Startup,
            Phase::Drain { .. } => CongestionPhase::Drain,
            Phase::Down => CongestionPhase::ProbeDown,
            Phase::Cruise => CongestionPhase::ProbeCruise,
            Phase::Refill => CongestionPhase::ProbeRefill,
            Phase::Up => CongestionPhase::ProbeUp,
            Phase::ProbeRtt { .. } => CongestionPhase::ProbeRtt,
        }
    }

    pub fn is_probe_bw(self) -> bool {
        matches!(self, Phase::Down | Phase::Cruise | Phase::Refill | Phase::Up)
    }

    pub fn is_probe_rtt(self) -> bool {
        matches!(self, Phase::ProbeRtt { .. })
    }

    /// Returns `true` if the phase probes for bandwidth, so that losses set no short-term bounds.
    pub fn is_probing(self) -> bool {
        matches!(self, Phase::Startup | Phase::Refill | Phase::Up)
    }
}

/// ACK phase (`ack_phase`): whether arriving ACKs are for segments sent before, during or after a
/// bandwidth probe.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Acks {
    Plain,
    Starting,
    Feedback,
    Stopping,
}

/// Detects that bandwidth no longer grows.
#[derive(Clone, Copy, Debug, Default)]
pub struct Plateau {
    bw: f64,
    rounds: u32,
    pub is_reached: bool,
}

impl Plateau {
    /// Starts a comparison with the bandwidth `bw`.
    pub fn from(bw: f64) -> Self {
        Plateau { bw, ..Plateau::default() }
    }

    /// Processes the end of a round trip with the delivery rate `bw`, which is not
    /// application-limited.
    pub fn check(&mut self, bw: f64) {
        if self.is_reached {
            return;
        }
        if bw >= FULL_BW_GROWTH * self.bw {
            *self = Plateau::from(bw);
        } else {
            self.rounds += 1;
            self.is_reached = self.rounds >= FULL_BW_ROUNDS;
        }
    }
}
