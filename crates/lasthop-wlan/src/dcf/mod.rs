//! IEEE 802.11: the distributed coordination function (DCF).
//!
//! - [`station`]: the state of a station between attempts.
//! - [`medium`]: the state machine; `exchange`, the frame exchange of an attempt, and its two
//!   schedulers: `cell`, stations in range of each other, with `results` of their transmissions, and `spread`,
//!   stations with positions.
//! - `delays`: delays of the packets of a direction.
//! - `session`: a direction with a block-ack agreement; `turns`, which direction a station serves, `aggregate`, its
//!   attempts, and `reception`, their receiver.
//! - [`space`]: positions and propagation.
//!
//! Rates, preambles and timing are in [`phy`](crate::phy), lengths and byte form of frames in
//! [`frames`](crate::frames).

mod aggregate;
mod airtime;
mod cell;
mod delays;
mod exchange;
pub mod medium;
mod observe;
mod posts;
mod reception;
mod report;
mod results;
mod session;
pub mod space;
mod spread;
pub mod station;
mod turns;

pub use crate::phy::{Phy, Preamble, Standard, Timing};
pub use delays::{DelayMetrics, Delays};
pub use medium::Medium;
pub use report::{
    AggregationMetrics, AirFate, AirFrame, CellMetrics, Delivery, MediumCounters, MediumEvent,
    ModeMetrics, Outcome, PairCounters, PairId, PairMetrics, StationId,
};
pub use session::{Aggregation, DriverQueue, Histograms, MissedBlockAck, Scheduler};
pub use space::{Capture, Position, Propagation};
pub use station::{Category, MacParameters, Waiting};
