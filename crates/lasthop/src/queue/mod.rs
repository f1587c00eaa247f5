//! Queues: drop-tail, computed rather than simulated, with background traffic replayed lazily.

mod drop_tail;
mod ring;
mod transmitter;

pub use drop_tail::{DropTail, Fate, Limit, QueueCounters};
pub(crate) use ring::Ring;
pub use transmitter::Transmitter;
