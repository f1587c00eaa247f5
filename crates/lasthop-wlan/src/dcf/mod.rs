//! IEEE 802.11: the distributed coordination function (DCF).
//!
//! [`phy`] has rates, preambles and timings as data, [`station`] what a station remembers between its
//! attempts, [`medium`] the machine, of stations that all hear each other or, with positions from [`space`],
//! of those that do not, [`frames`] lengths and the byte form of frames.

mod airtime;
mod exchange;
pub mod frames;
pub mod medium;
pub mod phy;
mod posts;
mod report;
pub mod space;
mod spread;
pub mod station;

pub use medium::Medium;
pub use phy::{Phy, Preamble, Standard, Timing};
pub use report::{
    AirFate, AirFrame, CellMetrics, Delivery, MediumCounters, MediumEvent, Outcome, PairCounters,
    PairId, PairMetrics, StationId,
};
pub use space::{Capture, Position, Propagation};
pub use station::{MacParameters, StationCounters, Waiting};
