//! Shared media: channel access of several stations.
//!
//! A medium is a sans-IO state machine like a link endpoint: packets enter at one station and are
//! delivered at another. It has a single deadline for all its stations. [`phy`] contains the modes and
//! durations of 802.11, [`frames`] the bytes of frames.

pub mod block_ack;
pub mod dcf;
pub mod fading;
pub mod frames;
pub mod link_errors;
pub mod phy;
pub mod rate_control;
pub mod snr;

/// Tests the examples of the README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
