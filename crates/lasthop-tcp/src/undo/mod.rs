//! Was it a mistake?
//!
//! A detector looks at the first ACK for new data after a retransmission. If that answers the original, nothing was
//! lost: the law takes its reduction back, recovery ends, and what was never sent goes out next.
//!
//! | detector | source | needs | file |
//! |---|---|---|---|
//! | Eifel | RFC 3522, RFC 4015 | timestamps | `eifel.rs` |
//! | DSACK | RFC 2883, RFC 3708 | SACK, a receiver that reports duplicates | `dsack.rs` |
//! | F-RTO | RFC 5682 | new data to send | `frto.rs` |
//!
//! The latter two are asked by RACK-TLP's recovery, which sees every segment's fate.

pub(super) mod dsack;
mod eifel;
pub(super) mod frto;

use super::config::{Config, UndoKind};
use lasthop_base::units::Instant;

/// The detector of a connection.
#[derive(Clone, Copy, Debug)]
pub(super) enum Undo {
    /// Nothing is ever taken back.
    Off,
    /// By timestamps.
    Eifel(eifel::Eifel),
}

impl Undo {
    /// The detector that `config` names.
    pub fn new(config: &Config) -> Self {
        match config.undo {
            // RACK-TLP's recovery has all detectors itself.
            UndoKind::Off | UndoKind::All => Undo::Off,
            UndoKind::Eifel => Undo::Eifel(eifel::Eifel::new(config.clock_granularity)),
        }
    }

    /// The window is reduced, and the oldest segment goes out again at `now`.
    pub fn on_reduction(&mut self, now: Instant) {
        match self {
            Undo::Off => {}
            Undo::Eifel(eifel) => eifel.on_reduction(now),
        }
    }

    /// An ACK for new data arrived; `echo` is when the segment that it answers left, to the tick of the
    /// clock, if it says. Was the reduction spurious?
    #[inline]
    pub fn is_spurious(&mut self, echo: Option<Instant>) -> bool {
        match self {
            Undo::Off => false,
            Undo::Eifel(eifel) => eifel.is_spurious(echo),
        }
    }
}
