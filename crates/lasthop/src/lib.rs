//! Lasthop: given this lossy link and this traffic, what does each way of recovering errors
//! deliver?
//!
//! Every protocol is a sans-IO state machine; the simulator in [`sim`] turns a virtual clock for
//! them. An [`interface`] puts an endpoint, its queue and its transmitter together, for any driver.
//! Dependencies point one way: [`channel`], [`link`], [`agent`], [`queue`], [`tcp`] and [`app`]
//! know [`units`], [`rng`], [`timeline`] and [`packet`]; [`sim`] and [`live`] know all of them; [`scenario`] describes what to
//! simulate; [`run`] builds a world from a scenario and runs its replications. [`analysis`] is what
//! theory says, and needs nothing but [`channel`] and [`rng`].

pub mod agent;
pub mod analysis;
pub mod app;
pub mod channel;
pub mod coding;
pub mod interface;
pub mod link;
pub mod live;
pub mod medium;
pub mod packet;
pub mod queue;
pub mod rng;
pub mod run;
pub mod scenario;
pub mod schema;
pub mod sim;
pub mod tcp;
pub mod tcp_script;
pub mod timeline;
pub mod units;
