//! Detection of spurious retransmissions.
//!
//! A detector examines the first ACK for new data after a retransmission. If the ACK is for the
//! original transmission, no segment was lost. The congestion control algorithm then undoes its
//! reduction, recovery ends, and new data is sent next.
//!
//! | detector | source | needs | file |
//! |---|---|---|---|
//! | Eifel | RFC 3522, RFC 4015 | timestamps | `eifel.rs` |
//! | DSACK | RFC 2883, RFC 3708 | SACK, a receiver that reports duplicates | `dsack.rs` |
//! | F-RTO | RFC 5682 | new data to send | `frto.rs` |
//!
//! RACK-TLP recovery uses DSACK and F-RTO, because it records the outcome of every segment.

pub(super) mod dsack;
mod eifel;
pub(super) mod frto;

use super::config::{Config, UndoKind};
use lasthop_base::units::Instant;

/// Detector of a connection.
#[derive(Clone, Copy, Debug)]
pub(super) enum Undo {
    /// Reductions are never undone.
    Off,
    /// Eifel detection by timestamps.
    Eifel(eifel::Eifel),
}

impl Undo {
    /// Creates the detector that `config` selects.
    pub fn new(config: &Config) -> Self {
        match config.undo {
            // RACK-TLP recovery contains its own detectors.
            UndoKind::Off | UndoKind::All => Undo::Off,
            UndoKind::Eifel => Undo::Eifel(eifel::Eifel::new(config.clock_granularity)),
        }
    }

    /// Records that the window was reduced and the oldest segment retransmitted at `now`.
    pub fn on_reduction(&mut self, now: Instant) {
        match self {
            Undo::Off => {}
            Undo::Eifel(eifel) => eifel.on_reduction(now),
        }
    }

    /// Processes an ACK for new data. Returns `true` if the latest reduction was spurious. `echo`
    /// is the transmission time echoed by the ACK, if any, in ticks of the timestamp clock.
    #[inline]
    pub fn is_spurious(&mut self, echo: Option<Instant>) -> bool {
        match self {
            Undo::Off => false,
            Undo::Eifel(eifel) => eifel.is_spurious(echo),
        }
    }
}
