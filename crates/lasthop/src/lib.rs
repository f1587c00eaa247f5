//! Lasthop: given this lossy link and this traffic, what does each error-recovery scheme deliver?
//!
//! Every protocol is a sans-IO state machine. The simulator in [`sim`] advances a virtual clock, [`live`] follows the
//! wall clock. This crate re-exports the public modules of the workspace; each crate can also be used alone.
//! [`scenario`] describes what to simulate, [`run`] builds a world from a scenario and runs its replications,
//! [`analysis`] contains closed forms to compare the results with.

pub mod metrics;

pub use lasthop_analysis as analysis;
pub use lasthop_base::{coding, packet, rng, schema, timeline, units};
pub use lasthop_link::{channel, interface, link, queue};
pub use lasthop_live as live;
pub use lasthop_script as tcp_script;
pub use lasthop_sim::{agent, app, run, scenario, sim, transport};
pub use lasthop_tcp as tcp;
pub use lasthop_wlan as medium;

/// Its examples are tested.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
