//! TCP: a full-duplex connection made of three separable parts.
//!
//! 1. *What is lost, and what goes out next?* [`recovery`]: Reno, NewReno (RFC 6582), SACK as
//!    ns-2's Sack1 and as RFC 6675.
//! 2. *How much may be outstanding?* [`congestion`]: Reno's window.
//! 3. *When to give up waiting?* [`rtt`]: RFC 6298 with clock granularity, minimum and back-off.
//!
//! A named TCP is a combination of the three, written down in [`presets`]. Conventions that differ
//! between tools are parameters of [`config::Config`], set by a profile.
//!
//! Sequence numbers are unwrapped 64-bit byte counts inside a machine (the SYN is byte 0, data
//! start at 1) and 32 bits wide on the wire.
//!
//! *Not modelled*: urgent data, window scaling negotiation, zero-window probes, Nagle's algorithm
//! (every application write ends a segment), TIME-WAIT, simultaneous open, path MTU discovery.

pub mod config;
pub mod congestion;
pub mod connection;
pub mod presets;
mod ranges;
mod receiver;
pub mod recovery;
pub mod rtt;
mod sender;

pub use config::{Config, Conventions};
pub use connection::{Connection, Role};
pub use presets::{Overrides, Profile, Variant};
pub use sender::SenderCounters;
