//! The simulator: a virtual clock that turns the sans-IO machines.
//!
//! - [`builder`]: links and flows become a world.
//! - [`deadlines`]: one deadline per machine, earliest first, ties by insertion; `tournament`: of many machines.
//! - [`direction`]: one direction of a link; those without protocol, which are computed.
//! - `line`: links that a protocol drives, with an interface at each end.
//! - [`ids`]: typed indices.
//! - [`metrics`]: what is counted of flows and links.
//! - `hops`: where a packet goes next, compiled to one record a hop.
//! - [`world`]: hosts, routes, connections, applications and the event loop.
//! - `horizon`: what the loop sees to besides events; `telling`: what probes are told.
//! - [`radio`]: frames of slots that a base and its stations share.
//! - `agents`: what looks into packets where a direction begins.
//! - `sharing`: how long several flows take until they share fairly.
//! - [`senders`]: whose packets are on which path.
//! - `wlan`: the air that stations of 802.11 share.
//! - [`probe`]: observation that costs nothing when absent.

mod agents;
pub mod builder;
mod damage;
pub mod deadlines;
pub mod direction;
mod hops;
mod horizon;
pub mod ids;
mod line;
pub mod metrics;
pub mod probe;
pub mod radio;
pub mod senders;
mod sharing;
mod telling;
mod tournament;
mod traffic;
mod wlan;
pub mod world;
