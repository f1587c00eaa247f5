//! Error processes: which frames does the air destroy?
//!
//! An error process belongs to one direction of a link. It is told the exact air time of each
//! frame, in order, and answers whether the frame is lost. It is a function of time, so that idle
//! periods count. Sojourns and per-frame draws come from separate streams: two protocols that send
//! different frames still meet the same good and bad periods.

use crate::units::Instant;

/// One frame's stay on the air.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Airtime {
    /// First bit leaves the transmitter.
    pub start: Instant,
    /// Last bit has left the transmitter.
    pub end: Instant,
    /// Bits of the frame, link header included.
    pub bits: u64,
}

/// A source of frame losses on one direction of a link.
///
/// Calls come with non-decreasing, non-overlapping air times.
pub trait ErrorProcess {
    /// Is this frame destroyed?
    fn is_lost(&mut self, airtime: Airtime) -> bool;
}
