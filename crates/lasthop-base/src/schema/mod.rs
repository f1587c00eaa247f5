//! How the families of the model describe their keys: names, types, defaults, limits, words and meaning.
//!
//! Metrics describe themselves in the same way ([`metrics`]).
//!
//! A protocol, error process, agent or application declares its keys beside its machine with `table!`, `choice!` and `union!`;
//! from that one declaration come the Rust type, the reader, the error messages, the JSON Schema and the reference page. This
//! module is a leaf: it knows [`crate::units`] and [`crate::rng`] only.

pub mod declare;
pub mod error;
pub mod files;
pub mod json;
pub mod keys;
pub mod metrics;
pub mod named;
pub mod numbers;
pub mod quantity;
pub mod recording;
pub mod shorthand;
pub mod steps;

pub use error::ScenarioError;
pub use files::open_regular;
pub use quantity::{
    BitInterval, DelayedAck, Every, Hosts, KeepaliveInterval, KeepaliveLimit, LinkTimeout,
    OptionalTimer, QueueLimit, Retries, Transmissions, Window,
};
