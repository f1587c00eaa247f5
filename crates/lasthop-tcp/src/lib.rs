//! TCP: a full-duplex connection made of five separable parts, one for each question.
//!
//! 1. *What was sent?* `sent`: a ring of records, for who looks back; `departures`: a smaller one, for who only measures;
//!    `rate`: how fast it was delivered.
//! 2. *What is lost?* `loss`: duplicate ACKs, SACK scoreboards of ns-2 and of RFC 6675.
//! 3. *What goes out next?* [`recovery`]: Reno, NewReno (RFC 6582), SACK as ns-2's Sack1 and as
//!    RFC 6675; or `blocks` of an erasure code (LT-TCP), which find losses by themselves.
//! 4. *How much may be outstanding?* [`congestion_control`]: Reno, CUBIC (RFC 9438); HyStart++ (RFC 9406), pacing.
//! 5. *When to give up waiting, and was it a mistake?* [`rtt`]: RFC 6298 with clock granularity,
//!    minimum and back-off; `undo`: Eifel (RFC 3522).
//!
//! A named TCP is a combination of them, a line of data in [`presets`]. Conventions that differ
//! between tools are parameters of [`config::Config`], set by a profile.
//!
//! Sequence numbers are unwrapped 64-bit byte counts inside a machine (the SYN is byte 0, data
//! start at 1) and 32 bits wide on the wire.
//!
//! An [`Endpoint`] is one end of a connection. A simulation sets both ends up alike: a [`Connection`] is an endpoint that trusts
//! its peer. A [`host::Socket`] is one that checks what arrives, with negotiated options, resets, all states and probes.
//!
//! *Not modelled*: urgent data, path MTU discovery.

#[macro_use]
mod forward;

mod blocks;
pub mod config;
pub mod congestion_control;
pub mod copies;
mod departures;
mod ecn;
pub mod endpoint;
mod flight;
pub mod info;
mod loss;
mod pacer;
pub mod presets;
mod random;
mod ranges;
mod rate;
mod receiver;
mod receiver_rtt;
mod recent_blocks;
pub mod recovery;
pub mod rtt;
mod send_buffer;
mod sender;
mod sent;
mod timers;
mod undo;
mod validation;
mod wheel;
pub use wheel::Wheel;

pub use config::{Config, Conventions};
pub use endpoint::{Connection, Endpoint, Role, host};
pub use info::{Outstanding, PendingTimer, RecoveryState, TcpInfo};
pub use presets::{Overrides, Profile, Variant};
pub use sender::SenderCounters;

/// Its examples are tested.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
