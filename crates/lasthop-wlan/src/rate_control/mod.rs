//! Rate control: choice of the mode of each PPDU by the results of earlier ones, as sans-IO machines.
//!
//! - [`MinstrelHt`]: statistics of every mode, for 802.11n, ac and ax.
//! - [`Ideal`]: the fastest mode for the SNR.
//! - [`Arf`]: by failures in a row, for 802.11b, a and g.
//!
//! A machine returns the mode of the next PPDU ([`Choice`]) and then receives its result.

mod arf;
mod ideal;
mod minstrel_ht;

pub use arf::Arf;
pub use ideal::{Ideal, MAX_BER};
pub use minstrel_ht::{Contention, MinstrelHt};

use lasthop_base::units::Instant;

/// Mode of the next PPDU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Choice {
    /// Index of the mode, in the order in which the machine received the modes.
    pub mode: usize,
    /// Whether the PPDU measures a mode other than the best ones; it then has one MPDU.
    pub is_probe: bool,
    /// Whether an earlier attempt of the PPDU failed in another mode; an RTS then precedes it.
    pub is_fallback: bool,
}

/// A rate control.
#[derive(Clone, Debug)]
pub enum RateMachine {
    /// By the losses of MPDUs.
    MinstrelHt(Box<MinstrelHt>),
    /// By the SNR.
    Ideal(Ideal),
}

impl RateMachine {
    /// Returns the mode of the next attempt.
    pub fn choose(&mut self, now: Instant) -> Choice {
        match self {
            RateMachine::MinstrelHt(machine) => machine.choose(now),
            RateMachine::Ideal(machine) => {
                Choice { mode: machine.best(), is_probe: false, is_fallback: false }
            }
        }
    }

    /// Returns the best mode at present.
    pub fn best(&self) -> usize {
        match self {
            RateMachine::MinstrelHt(machine) => machine.best(),
            RateMachine::Ideal(machine) => machine.best(),
        }
    }

    /// Records the result of an attempt: of a PPDU of `mpdus`, `acknowledged` were acknowledged; `None`:
    /// no response arrived.
    pub fn on_result(&mut self, now: Instant, mpdus: u32, acknowledged: Option<u32>) {
        if let RateMachine::MinstrelHt(machine) = self {
            machine.on_result(now, mpdus, acknowledged);
        }
    }

    /// Records the SNR of a PPDU that was received, in dB.
    pub fn on_snr(&mut self, snr: f64) {
        if let RateMachine::Ideal(machine) = self {
            machine.on_snr(snr);
        }
    }
}
