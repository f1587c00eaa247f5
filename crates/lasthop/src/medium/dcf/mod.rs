//! IEEE 802.11: the distributed coordination function (DCF) of stations that all hear each other.
//!
//! [`phy`] has rates, preambles and timings as data, [`station`] what a station remembers between its
//! attempts, [`medium`] the machine, [`frames`] lengths and the byte form of frames.

mod exchange;
pub mod frames;
pub mod medium;
pub mod phy;
mod report;
pub mod station;

pub use medium::Medium;
pub use phy::{Phy, Preamble, Standard, Timing};
pub use report::{
    AirFate, AirFrame, Delivery, MediumCounters, MediumEvent, Outcome, PairCounters, PairId,
    StationId,
};
pub use station::{MacParameters, StationCounters};
