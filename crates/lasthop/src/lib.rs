//! Lasthop: given this lossy link and this traffic, what does each way of recovering errors
//! deliver?
//!
//! Every protocol is a sans-IO state machine; the simulator in `sim` turns a virtual clock for
//! them. Dependencies point one way: [`channel`], [`link`], `queue`, [`tcp`] and `app` know
//! [`units`], [`rng`] and [`packet`]; `sim` knows all of them; [`scenario`] describes what to
//! simulate and knows only [`units`].

pub mod channel;
pub mod link;
pub mod packet;
pub mod rng;
pub mod scenario;
pub mod tcp;
pub mod units;
