//! Live links: real packets pass through the link protocols of the simulator, driven by the wall clock.
//!
//! - [`network`]: the links of a scenario for real packets, sans-IO; [`link`]: a single link.
//! - [`change`]: changes of the links during a run.
//! - [`meter`]: delays, queueing and throughput; [`report`]: messages about a run with them.
//! - [`offload`]: packets of a host that a device passes on together.
//! - [`recording`]: input and output of a live run as a file, and its replay in virtual time.
//! - `linux`: hosts as network namespaces, TUN devices, programs and the wall clock.

mod air;
#[cfg(target_os = "linux")]
mod capture;
pub mod change;
mod connections;
mod counters;
pub mod link;
#[cfg(target_os = "linux")]
pub mod linux;
pub mod meter;
#[cfg(target_os = "linux")]
mod names;
pub mod network;
pub mod offload;
mod outbox;
pub mod recording;
mod refusal;
pub mod report;

pub use connections::MOST_CONNECTIONS;
pub use counters::EndCounters;
pub use lasthop_sim::sim::ids::Side;
pub use network::{LiveMetrics, Network};
pub use outbox::{Delivery, FrameFate};
pub use refusal::{LEAST_MTU, MOST_HOSTS, Refused};

/// Tests the examples of the README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
