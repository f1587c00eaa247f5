//! Declarations of an agent, and the types derived from the list of agents.
//!
//! An agent is a file or folder in this directory: its keys (`table! { … as "kind" }`), their [`AgentKeys`],
//! the alias `Machine` and the state machine, an [`Agent`](super::Agent). A line in the list in
//! `agent/mod.rs` makes it a variant of [`AgentMachine`](super::AgentMachine) and of
//! [`AgentKind`](super::AgentKind).

use super::{ControlledPackets, Segment};
use lasthop_analysis::AnalysisError;
use lasthop_base::rng::Streams;
use lasthop_base::schema::keys::{Kind, Table};
use lasthop_base::schema::metrics::Metric;
use lasthop_base::units::Bytes;
use lasthop_link::channel::Errors;
use lasthop_tcp::Config;

/// The link to which an agent is attached.
#[derive(Clone, Copy, Debug)]
pub struct AgentSite<'a> {
    /// The two hosts of the link; its forward direction leads from the first to the second.
    pub between: [&'a str; 2],
    /// The kind of its protocol.
    pub protocol: &'static str,
    /// Whether its link layer reports the outcome of each packet
    /// ([`Agent::on_link`](super::Agent::on_link)).
    pub reports_fates: bool,
    /// Whether the transmissions of its protocol can be limited.
    pub limits_transmissions: bool,
    /// Payload of a frame, if packets are segmented.
    pub payload: Option<Bytes>,
    /// The error processes of the forward and of the reverse direction.
    pub errors: [&'a Errors; 2],
    /// Length of the largest packet that crosses it, in either direction.
    pub largest_packet: Bytes,
    /// TCP parameters of each connection that passes through its host, by the agent's numbers;
    /// empty before the agent is built.
    pub flows: &'a [Option<Config>],
    /// Source of the random number streams; not seeded before the agent is built.
    pub streams: &'a Streams,
    /// Component name of its random number streams; empty before the agent is built.
    pub component: &'a str,
}

/// Error of an agent that is incompatible with its link: the key, the value found, the values
/// allowed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// The key of the agent.
    pub key: &'static str,
    /// Value found.
    pub found: String,
    /// Description of the values allowed.
    pub allowed: String,
}

impl Refusal {
    /// Creates an error from its parts.
    pub fn new(key: &'static str, found: impl Into<String>, allowed: impl Into<String>) -> Self {
        Refusal { key, found: found.into(), allowed: allowed.into() }
    }
}

/// Keys of an agent, and the properties derived from them.
pub(crate) trait AgentKeys: Table + Kind {
    /// State machine of the agent.
    type Machine<P: Segment + Clone>;

    /// Returns the host of the agent; `None` if the key is missing.
    fn at(&self) -> Option<&str>;

    /// Metrics of the agent.
    const METRICS: &'static [Metric] = &[];

    /// Attaches the agent to the radio link of `station`; by default to the base.
    fn place_on_radio(&mut self, base: &str, _station: &str) -> Result<(), Refusal> {
        self.at().map_or(Ok(()), |at| only_at_base(at, base))
    }

    /// Returns `true` if the agent acts on the direction from the first host to the second. By
    /// default, this is the direction that begins at the agent's host.
    fn acts_on_forward(&self, site: &AgentSite<'_>) -> bool {
        self.at() == Some(site.between[0])
    }

    /// Checks that the keys are compatible with the link.
    fn check(&self, _site: &AgentSite<'_>) -> Result<(), Refusal> {
        Ok(())
    }

    /// Checks that the keys are compatible with a TCP flow that passes through its host.
    fn check_flow(&self, _flow: &Config) -> Result<(), Refusal> {
        Ok(())
    }

    /// Returns `true` if the agent terminates connections at its host. It then requires packet
    /// descriptors, and receives packets only of connections that pass through.
    fn splits(&self) -> bool {
        false
    }

    /// Returns `true` if all connections between two hosts share one state.
    fn is_per_host_pair(&self) -> bool {
        false
    }

    /// Returns the direction of the data of the TCP senders whose counters the agent uses, if any.
    fn controlled_senders(&self) -> Option<ControlledPackets> {
        None
    }

    /// Builds the state machine for `connections` connections; more are added on demand.
    fn build<P: Segment + Clone>(
        &self,
        site: &AgentSite<'_>,
        connections: usize,
    ) -> Result<Self::Machine<P>, AnalysisError>;
}

/// Checks that an agent `at` a host of a radio or a WLAN is at the base.
fn only_at_base(at: &str, base: &str) -> Result<(), Refusal> {
    if at == base {
        return Ok(());
    }
    Err(Refusal::new("at", format!("{at:?}"), format!("the base of the radio, {base}")))
}

/// Declares agents: their modules, the union of their keys and the enum of their state machines.
macro_rules! agents {
    ($($module:ident: $kind:ident($keys:ident);)*) => {
        $(pub mod $module;)*

        kinds! {
            /// Packet inspector at one end of a link.
            pub enum AgentKind { $($kind($module::$keys),)* }
        }

        impl AgentKind {
            /// Metrics of the kinds.
            pub const METRICS: &'static [&'static [Metric]] =
                &[$(<$module::$keys as AgentKeys>::METRICS,)*];

            /// Returns the host of the agent; `None` if the key is missing.
            pub fn at(&self) -> Option<&str> {
                match self { $(AgentKind::$kind(keys) => keys.at(),)* }
            }

            /// Attaches the agent to the radio link of `station`.
            pub(crate) fn place_on_radio(
                &mut self,
                base: &str,
                station: &str,
            ) -> Result<(), Refusal> {
                match self { $(AgentKind::$kind(keys) => keys.place_on_radio(base, station),)* }
            }

            /// Returns `true` if the agent acts on the direction from the first host to the second.
            pub fn acts_on_forward(&self, site: &AgentSite<'_>) -> bool {
                match self { $(AgentKind::$kind(keys) => keys.acts_on_forward(site),)* }
            }

            /// Checks that the keys are compatible with the link.
            pub(crate) fn check(&self, site: &AgentSite<'_>) -> Result<(), Refusal> {
                match self { $(AgentKind::$kind(keys) => keys.check(site),)* }
            }

            /// Checks that the keys are compatible with a TCP flow that passes through its host.
            pub(crate) fn check_flow(&self, flow: &lasthop_tcp::Config) -> Result<(), Refusal> {
                match self { $(AgentKind::$kind(keys) => keys.check_flow(flow),)* }
            }

            /// Returns `true` if the agent terminates connections at its host.
            pub fn splits(&self) -> bool {
                match self { $(AgentKind::$kind(keys) => keys.splits(),)* }
            }

            /// Returns `true` if all connections between two hosts share one state.
            pub fn is_per_host_pair(&self) -> bool {
                match self { $(AgentKind::$kind(keys) => keys.is_per_host_pair(),)* }
            }

            /// Returns the direction of the data of the TCP senders whose counters the agent uses,
            /// if any.
            pub fn controlled_senders(&self) -> Option<ControlledPackets> {
                match self { $(AgentKind::$kind(keys) => keys.controlled_senders(),)* }
            }

            /// Builds the state machine for `connections` connections; more are added on demand.
            ///
            /// # Errors
            /// If an analytic model of the agent rejects its parameters.
            pub fn build<P: Segment + Clone>(
                &self,
                site: &AgentSite<'_>,
                connections: usize,
            ) -> Result<AgentMachine<P>, AnalysisError> {
                match self {
                    $(AgentKind::$kind(keys) => {
                        keys.build(site, connections).map(AgentMachine::$kind)
                    })*
                }
            }
        }

        /// State machine of an agent, dispatched statically.
        #[derive(Clone, Debug)]
        pub enum AgentMachine<P> {
            $(
                #[doc = concat!("See [`", stringify!($module), "`].")]
                $kind($module::Machine<P>),
            )*
        }

        impl<P: Segment + Clone> Agent<P> for AgentMachine<P> {
            fn down(&mut self, now: Instant, crossing: Crossing, packet: &mut P) -> Verdict {
                match self { $(AgentMachine::$kind(agent) => agent.down(now, crossing, packet),)* }
            }

            fn up(&mut self, now: Instant, connection: Option<usize>, packet: &mut P) -> Verdict {
                match self { $(AgentMachine::$kind(agent) => agent.up(now, connection, packet),)* }
            }

            fn up_damaged(&mut self, now: Instant, connection: Option<usize>, packet: &P) -> Verdict {
                match self { $(AgentMachine::$kind(agent) => agent.up_damaged(now, connection, packet),)* }
            }

            fn watches_all(&self) -> bool {
                match self { $(AgentMachine::$kind(agent) => agent.watches_all(),)* }
            }

            fn inspects_sent(&self) -> bool {
                match self { $(AgentMachine::$kind(agent) => agent.inspects_sent(),)* }
            }

            fn inspects_received(&self) -> bool {
                match self { $(AgentMachine::$kind(agent) => agent.inspects_received(),)* }
            }

            fn wants_link_reports(&self) -> bool {
                match self { $(AgentMachine::$kind(agent) => agent.wants_link_reports(),)* }
            }

            fn on_link(
                &mut self,
                now: Instant,
                connection: Option<usize>,
                fate: DeliveryReport,
                packet: &P,
            ) {
                match self {
                    $(AgentMachine::$kind(agent) => agent.on_link(now, connection, fate, packet),)*
                }
            }

            fn poll_down(&mut self) -> Option<P> {
                match self { $(AgentMachine::$kind(agent) => agent.poll_down(),)* }
            }

            fn poll_up(&mut self) -> Option<P> {
                match self { $(AgentMachine::$kind(agent) => agent.poll_up(),)* }
            }

            fn poll_event(&mut self) -> Option<AgentEvent> {
                match self { $(AgentMachine::$kind(agent) => agent.poll_event(),)* }
            }

            fn next_timeout(&self) -> Instant {
                match self { $(AgentMachine::$kind(agent) => agent.next_timeout(),)* }
            }

            fn handle_timeout(&mut self, now: Instant) {
                match self { $(AgentMachine::$kind(agent) => agent.handle_timeout(now),)* }
            }

            fn wants_losses(&self) -> bool {
                match self { $(AgentMachine::$kind(agent) => agent.wants_losses(),)* }
            }

            fn on_losses(&mut self, end_to_end: Batch, link: Batch) {
                match self { $(AgentMachine::$kind(agent) => agent.on_losses(end_to_end, link),)* }
            }

            fn transmission_limit(&self) -> Option<u32> {
                match self { $(AgentMachine::$kind(agent) => agent.transmission_limit(),)* }
            }

            fn metrics(&self, report: &mut Report<'_>) {
                match self { $(AgentMachine::$kind(agent) => agent.metrics(report),)* }
            }
        }
    };
}

pub(super) use agents;
