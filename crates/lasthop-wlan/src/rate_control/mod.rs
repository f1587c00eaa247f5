//! Rate control: choice of the mode of each PPDU by the results of earlier ones, as sans-IO machines.
//!
//! - [`MinstrelHt`]: statistics of every mode, for 802.11n, ac and ax.
//!
//! A machine returns the mode of the next PPDU ([`Choice`]) and then receives its result.

mod minstrel_ht;

pub use minstrel_ht::{Contention, MinstrelHt};

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
