//! Queues: drop-tail, computed rather than simulated, with background traffic replayed lazily; random
//! early detection; and fair sharing of a transmitter.

mod ahead;
mod drop_tail;
mod earliest;
mod fair;
mod red;
mod ring;
mod transmitter;

pub(crate) use ahead::{Ahead, Newest};
pub use drop_tail::{DropTail, Fate, Limit, QueueCounters};
pub use fair::FairQueue;
pub use red::{Red, RedParameters, RedVerdict};
pub(crate) use ring::Ring;
pub use transmitter::Transmitter;
