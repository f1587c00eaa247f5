//! Scenarios: the declarative model of a network, its traffic and its runs.
//!
//! A scenario is a TOML file or the JSON value of Python objects. It is converted to a typed,
//! resolved [`Scenario`], or to one [`ScenarioError`] with the key, the value found and the values
//! allowed. The model is declared once, in `model.rs`. The reader, the messages, the JSON Schema
//! and the reference page are derived from it.

mod agents;
mod document;
mod dotted_keys;
mod edca;
mod extends;
mod former;
mod layers;
mod model;
mod network;
mod radio;
mod repetition;
mod resolve;
mod routes;
mod schema;
mod services;
mod sweep;
mod text;
mod wifi;
mod windows;
mod wlan;
mod wlan_checks;

pub use crate::agent::AgentKind as Agent;
pub use crate::app::App;
pub use agents::Agents;
pub use document::{Document, Point};
pub(crate) use edca::Access;
pub use lasthop_base::rng::DurationDistribution;
pub use lasthop_base::schema::{
    BitInterval, DelayedAck, Every, Hosts, KeepaliveInterval, KeepaliveLimit, LinkTimeout,
    OptionalTimer, QueueLimit, Retries, ScenarioError, Transmissions, Window,
};
pub use lasthop_link::channel::Errors;
pub use lasthop_link::link::Protocol;
pub use lasthop_link::queue::Discipline;
pub use layers::Layers;
pub use model::*;
pub(crate) use repetition::Aggregates;
pub use repetition::Repetition;
pub use routes::Routes;
pub use schema::{reference_markdown, schema};
pub use services::{LinkProtocol, Service, Services, Shares};
pub(crate) use text::in_other_heap;
pub use wifi::WlanStandard;
pub use wlan::{Wlan, WlanCategory, WlanCategoryKeys, WlanKeys, WlanStation, WlanStationKeys};
