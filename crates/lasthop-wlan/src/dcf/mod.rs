//! IEEE 802.11: the distributed coordination function (DCF).
//!
//! - [`phy`]: rates, preambles and timing as data.
//! - [`station`]: the state of a station between attempts.
//! - [`medium`]: the state machine; `exchange`, the frame exchange of an attempt, and its two
//!   schedulers: `cell`, stations in range of each other, and `spread`, stations with positions.
//! - `session`: a direction with a block-ack agreement; `aggregate`, its attempts.
//! - [`space`]: positions and propagation.
//! - [`frames`]: lengths and byte form of frames.

mod aggregate;
mod airtime;
mod cell;
mod exchange;
pub mod frames;
pub mod medium;
pub mod phy;
mod posts;
mod report;
mod session;
pub mod space;
mod spread;
pub mod station;

pub use medium::Medium;
pub use phy::{Phy, Preamble, Standard, Timing};
pub use report::{
    AggregationMetrics, AirFate, AirFrame, CellMetrics, Delivery, MediumCounters, MediumEvent,
    Outcome, PairCounters, PairId, PairMetrics, StationId,
};
pub use session::{Aggregation, MissedBlockAck, Scheduler};
pub use space::{Capture, Position, Propagation};
pub use station::{MacParameters, StationCounters, Waiting};
