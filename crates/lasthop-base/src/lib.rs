//! What all machines of Lasthop share: quantities, random streams, keys of scenarios, packets and erasure codes.
//!
//! - [`units`]: integer times, rates, sizes and probabilities with units in their text form.
//! - [`rng`]: named random streams and samplers.
//! - [`timeline`]: values that change at given times.
//! - [`schema`]: how a component declares its keys, and what follows from that.
//! - [`packet`]: the descriptor of a packet, and packets of real bytes.
//! - [`coding`]: erasure codes.

pub mod coding;
pub mod packet;
pub mod rng;
pub mod schema;
pub mod timeline;
pub mod units;

/// Its examples are tested.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
