//! Simulates scenarios: hosts, agents, applications and media on a virtual clock.
//!
//! - [`scenario`]: the model, which combines the keys of all components.
//! - [`run`]: builds a world from a scenario and runs its replications.
//! - [`sim`]: the world: clock, timers, wiring and media.
//! - [`agent`]: packet inspectors at the ends of links.
//! - [`transport`]: TCP, UDP and their like, both ends of a connection each.
//! - [`app`]: the applications, which ask a transport to send.

pub mod agent;
pub mod app;
pub mod run;
pub mod scenario;
pub mod sim;
pub mod transport;

/// Its examples are tested.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
