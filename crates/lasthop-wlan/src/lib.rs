//! Shared media: who may transmit when several stations share the air.
//!
//! A medium is a sans-IO machine like a link endpoint: packets go in at a station, come out at another,
//! and there is one deadline for all stations that hear each other.

pub mod dcf;

/// Its examples are tested.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
