//! Link protocols, error processes, queues and the interface that combines them, as sans-IO state machines.
//!
//! - [`link`]: link endpoints, and services that share a link.
//! - [`channel`]: error processes.
//! - [`queue`]: queue disciplines, computed drop-tail queues and the transmitter.
//! - [`interface`]: a queue, a link endpoint and a transmitter in one type.
//!
//! Every type is generic over the packets that it carries: descriptors in a simulation, bytes on a live link.

pub mod channel;
pub mod interface;
pub mod link;
pub mod queue;

/// Tests the examples of the README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
