//! Foundations of all crates of Lasthop: quantities, random streams, scenario keys, packets and erasure
//! codes.
//!
//! - [`units`]: integer times, rates, sizes and probabilities with units in their text form.
//! - [`rng`]: named random streams and samplers.
//! - [`timeline`]: values that change at given times.
//! - [`delays`]: delays of packets and their percentiles.
//! - [`schema`]: declaration of scenario keys and metrics.
//! - [`packet`]: the packet descriptor, and packets of real bytes.
//! - [`coding`]: erasure codes.
//! - [`prefetch`]: hints to the processor that data will be read soon.

pub mod coding;
pub mod delays;
pub mod packet;
pub mod prefetch;
pub mod rng;
pub mod schema;
pub mod timeline;
pub mod units;

/// Tests the examples of the README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
