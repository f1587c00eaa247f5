//! Queues: drop-tail, computed rather than simulated, with background traffic replayed lazily; and
//! fair sharing of a transmitter.

mod ahead;
mod drop_tail;
mod fair;
mod ring;
mod transmitter;

pub(crate) use ahead::{Ahead, Newest};
pub use drop_tail::{DropTail, Fate, Limit, QueueCounters};
pub use fair::FairQueue;
pub(crate) use ring::Ring;
pub use transmitter::Transmitter;
