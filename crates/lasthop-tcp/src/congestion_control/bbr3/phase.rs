//! Where BBR version 3 is in its cycle.

use lasthop_base::units::Instant;

pub const STARTUP_GAIN: f64 = 2.77;
const DRAIN_GAIN: f64 = 0.5;
const CWND_GAIN: f64 = 2.0;
/// Gain of the window in UP.
const UP_CWND_GAIN: f64 = 2.25;
const PROBE_RTT_GAIN: f64 = 0.5;
const FULL_BW_GROWTH: f64 = 1.25;
const FULL_BW_ROUNDS: u32 = 3;

/// Where BBR is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Phase {
    Startup,
    /// `began`: round trips by then.
    Drain {
        began: u32,
    },
    Down,
    Cruise,
    Refill,
    Up,
    /// `until`: its end, once the window is used up; `round_over`: a round trip has passed since.
    ProbeRtt {
        until: Option<Instant>,
        round_over: bool,
    },
}

impl Phase {
    /// Gains of pacing and window.
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

    pub fn is_probe_bw(self) -> bool {
        matches!(self, Phase::Down | Phase::Cruise | Phase::Refill | Phase::Up)
    }

    pub fn is_probe_rtt(self) -> bool {
        matches!(self, Phase::ProbeRtt { .. })
    }

    /// Does it look for more than the path is known to hold? Then losses set no short-term bounds.
    pub fn is_probing(self) -> bool {
        matches!(self, Phase::Startup | Phase::Refill | Phase::Up)
    }
}

/// What the acknowledgments that arrive answer: segments of before a probe, of it, of after it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Acks {
    Plain,
    Starting,
    Feedback,
    Stopping,
}

/// Whether bandwidth still grows.
#[derive(Clone, Copy, Debug, Default)]
pub struct Plateau {
    bw: f64,
    rounds: u32,
    pub is_reached: bool,
}

impl Plateau {
    /// Measured against `bw` from here on.
    pub fn from(bw: f64) -> Self {
        Plateau { bw, ..Plateau::default() }
    }

    /// A round trip ends with the rate `bw`, which the application does not limit.
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
