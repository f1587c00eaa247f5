//! Declarations of metrics ([`metrics`]) and of scenario keys: name, type, default, limits, accepted
//! words and description.
//!
//! A protocol, error process, agent or application declares its keys next to its state machine with
//! `table!`, `choice!` and `union!`. The Rust type, the reader, the error messages, the JSON Schema
//! and the reference page are derived from the declaration. This module depends on [`crate::units`],
//! [`crate::rng`] and [`crate::delays`] only.

pub mod declare;
pub mod error;
pub mod files;
pub mod former;
pub mod json;
pub mod keys;
pub mod metrics;
pub mod named;
pub mod numbers;
pub mod quantity;
pub mod recording;
pub mod shorthand;
pub mod steps;
pub mod values;

pub use error::ScenarioError;
pub use files::open_regular;
pub use quantity::{
    BitInterval, DelayedAck, Every, Hosts, KeepaliveInterval, KeepaliveLimit, LinkTimeout,
    OptionalTimer, QueueLimit, Retries, Transmissions, Window,
};
