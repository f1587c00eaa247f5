//! The discrete-event simulator: a virtual clock that drives sans-IO state machines.
//!
//! - [`builder`]: builds a world from links and flows.
//! - [`deadlines`]: one deadline per machine, ordered by time and then by insertion; `near`:
//!   the earliest of many.
//! - [`direction`]: one direction of a link. Directions without a link protocol are computed.
//! - `line`: driven links, which have a protocol endpoint and an interface at each end.
//! - [`ids`]: typed indices.
//! - `delivery`: packets at the ends of their connections.
//! - [`metrics`]: counters and metrics of flows and links.
//! - `report`: metrics of a run.
//! - `hops`: routes, compiled to one record per hop.
//! - [`world`]: hosts, routes, connections, applications and the event loop.
//! - `ahead`: order of events that are computed ahead of the clock.
//! - `horizon`: periodic work of the event loop between events.
//! - `upcoming`: prefetching of the state of the next event.
//! - `probe_events`: probe events of computed directions.
//! - [`radio`]: framed radio whose slots are shared by a base and its stations.
//! - `agents`: packet inspectors at the start of a direction.
//! - `sharing`: convergence time to fairness of several flows.
//! - [`senders`]: the sender of the packets on each path.
//! - `wlan`: the 802.11 medium shared by stations.
//! - [`probe`]: observation without cost if no observer is attached.

mod agents;
mod ahead;
pub mod builder;
mod damage;
pub mod deadlines;
mod delivery;
pub mod direction;
mod hops;
mod horizon;
pub mod ids;
mod line;
pub mod metrics;
mod near;
pub mod probe;
mod probe_events;
pub mod radio;
mod report;
pub mod senders;
mod sharing;
mod traffic;
mod upcoming;
pub mod wlan;
pub mod world;
