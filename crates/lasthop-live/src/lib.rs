//! Live links: real packets cross the machines that are simulated elsewhere, on the wall clock.
//!
//! - [`network`]: the links of a scenario on bytes, sans-IO; [`link`], one of them.
//! - [`recording`]: what went in and what came out of a live run, as a file, and
//!   the same links turned with it in virtual time.
//! - `linux`: hosts as network namespaces, TUN devices, programs and the wall clock.

mod capture;
mod connections;
pub mod link;
#[cfg(target_os = "linux")]
pub mod linux;
pub mod network;
pub mod recording;
mod refusal;

pub use connections::MOST_CONNECTIONS;
pub use lasthop_sim::sim::ids::Side;
pub use link::{Delivery, EndCounters, FrameFate};
pub use network::{LiveMetrics, Network, side_name};
pub use refusal::{LEAST_MTU, MOST_HOSTS, Refused};

/// Its examples are tested.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
