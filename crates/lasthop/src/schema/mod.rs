//! How the families of the model describe their keys: names, types, defaults, limits, words and meaning.
//!
//! A protocol, error process, agent or application declares its keys beside its machine with `table!`, `choice!` and `union!`;
//! from that one declaration come the Rust type, the reader, the error messages, the JSON Schema and the reference page. This
//! module is a leaf: it knows [`crate::units`] and [`crate::rng`] only.

pub(crate) mod declare;
pub(crate) mod error;
pub(crate) mod files;
pub(crate) mod json;
pub(crate) mod keys;
pub(crate) mod numbers;
pub(crate) mod quantity;
pub(crate) mod recording;
pub(crate) mod shorthand;
pub(crate) mod steps;

pub use error::ScenarioError;
pub use quantity::{
    BitInterval, DelayedAck, Every, Hosts, KeepaliveInterval, KeepaliveLimit, LinkTimeout,
    OptionalTimer, QueueLimit, Retries, Transmissions, Window,
};
