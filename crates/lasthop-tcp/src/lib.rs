//! TCP: a full-duplex connection with five separable parts.
//!
//! 1. Records of sent data: `sent` has a ring of full records, for loss detection; `departures` has
//!    a smaller one, for measurements; `rate` measures the delivery rate.
//! 2. Loss detection in `loss`: duplicate ACKs, SACK scoreboards of ns-2 and of RFC 6675, RACK.
//! 3. Selection of the next segment in [`recovery`]: Reno, NewReno (RFC 6582), SACK of ns-2's Sack1
//!    and of RFC 6675, RACK-TLP (RFC 8985); or `blocks` of an erasure code (LT-TCP), which detect
//!    losses themselves.
//! 4. Limits on outstanding data in [`congestion_control`]: Reno, CUBIC (RFC 9438) and others;
//!    HyStart++ (RFC 9406), pacing.
//! 5. Retransmission timeout in [`rtt`]: RFC 6298 with clock granularity, minimum and backoff;
//!    detection of spurious timeouts and reductions in `undo`: Eifel (RFC 3522), F-RTO (RFC 5682),
//!    DSACK.
//!
//! A named TCP is a combination of these, a line of data in [`presets`]. Conventions that differ
//! between tools are parameters of [`config::Config`], set by a profile. Rules that are not
//! parameters are types of `policy`, which has one table of the profiles.
//!
//! Sequence numbers are unwrapped 64-bit byte counts inside the state machines (the SYN is byte 0,
//! data starts at 1) and 32 bits wide on the wire.
//!
//! An [`Endpoint`] is one endpoint of a connection. A simulation configures both endpoints
//! identically: a [`Connection`] is an endpoint that trusts its peer. A [`host::Socket`] validates
//! all segments that arrive, and has negotiated options, resets, all states and probes.
//!
//! *Not modelled*: urgent data; path MTU discovery, except in [`host::Socket`].

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
mod policy;
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
mod usage;
mod validation;
mod wheel;
pub use wheel::Wheel;

pub use config::{Config, Overrides, Profile, TcpKeys};
pub use endpoint::{Connection, Endpoint, Role, host};
pub use info::{Outstanding, PendingTimer, RecoveryState, TcpInfo};
pub use presets::Variant;
pub use sender::SenderCounters;
pub use usage::{Limit, Usage};

/// Includes the examples of the README in the tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
