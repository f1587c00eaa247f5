//! What an agent declares beside its machine, and what the list of them becomes.
//!
//! An agent is one file (or folder) here: its keys (`table! { … as "kind" }`), their [`AgentKeys`], the
//! alias `Machine` and the machine, an [`Agent`](super::Agent). A line in the list in `agent/mod.rs`
//! makes it a variant of [`AgentMachine`](super::AgentMachine) and of
//! [`AgentKind`](super::AgentKind).

use super::{Governed, Segment};
use lasthop_analysis::AnalysisError;
use lasthop_base::schema::keys::{Kind, Table};
use lasthop_base::schema::metrics::Metric;
use lasthop_base::units::Bytes;
use lasthop_link::channel::Errors;
use lasthop_tcp::Config;

/// The link where an agent sits.
#[derive(Clone, Copy, Debug)]
pub struct AgentSite<'a> {
    /// The two hosts of the link; its forward direction leads from the first to the second.
    pub between: [&'a str; 2],
    /// The kind of its protocol.
    pub protocol: &'static str,
    /// Does its link layer report what becomes of each packet ([`Agent::on_link`](super::Agent::on_link))?
    pub reports_fates: bool,
    /// Can the transmissions of its protocol be limited?
    pub limits_transmissions: bool,
    /// What a frame takes of a packet, where packets are cut up.
    pub payload: Option<Bytes>,
    /// The error processes of the forward and of the reverse direction.
    pub errors: [&'a Errors; 2],
    /// The largest packet that crosses it, in either direction.
    pub largest_packet: Bytes,
    /// The TCP of each connection, by the agent's numbers, that passes through its host; none where the machine is not built yet.
    pub flows: &'a [Option<Config>],
}

/// Why an agent does not go with its link: the key, what was found, what is allowed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// The key of the agent.
    pub key: &'static str,
    /// What was found there.
    pub found: String,
    /// What would be right.
    pub allowed: String,
}

impl Refusal {
    /// From its parts.
    pub fn new(key: &'static str, found: impl Into<String>, allowed: impl Into<String>) -> Self {
        Refusal { key, found: found.into(), allowed: allowed.into() }
    }
}

/// The keys of an agent, and what follows from them.
pub(crate) trait AgentKeys: Table + Kind {
    /// The machine.
    type Machine<P: Segment + Clone>;

    /// The host where it sits; `None` where the key is missing.
    fn at(&self) -> Option<&str>;

    /// What the agent reports.
    const METRICS: &'static [Metric] = &[];

    /// On a radio: takes its place on the link of `station`; by default it sits at the base.
    fn place_on_radio(&mut self, base: &str, _station: &str) -> Result<(), Refusal> {
        self.at().map_or(Ok(()), |at| only_at_base(at, base))
    }

    /// Does the direction that it sits at the beginning of lead from the first host to the second? By default
    /// it begins at the agent's host.
    fn begins_forward(&self, site: &AgentSite<'_>) -> bool {
        self.at() == Some(site.between[0])
    }

    /// Holds these keys against the link.
    fn check(&self, _site: &AgentSite<'_>) -> Result<(), Refusal> {
        Ok(())
    }

    /// Holds these keys against a TCP flow that passes through its host.
    fn check_flow(&self, _flow: &Config) -> Result<(), Refusal> {
        Ok(())
    }

    /// Does it end connections at its host? Then it needs descriptors of packets, and sees only connections that pass through.
    fn splits(&self) -> bool {
        false
    }

    /// Do all connections between two hosts share one state?
    fn shares_by_hosts(&self) -> bool {
        false
    }

    /// Which TCP senders it hears of, if any: those of data that leave its host over the link, or
    /// of data that come to it.
    fn hears(&self) -> Option<Governed> {
        None
    }

    /// The machine for `connections` connections; more may come.
    fn build<P: Segment + Clone>(
        &self,
        site: &AgentSite<'_>,
        connections: usize,
    ) -> Result<Self::Machine<P>, AnalysisError>;
}

/// On a radio or a WLAN, an agent `at` this host takes its place: only at the base.
fn only_at_base(at: &str, base: &str) -> Result<(), Refusal> {
    if at == base {
        return Ok(());
    }
    Err(Refusal::new("at", format!("{at:?}"), format!("the base of the radio, {base}")))
}

/// From one line an agent: its module, the union of all keys and the enum of all machines.
macro_rules! agents {
    ($($module:ident: $kind:ident($keys:ident);)*) => {
        $(pub mod $module;)*

        kinds! {
            /// What looks into packets at one end of a link.
            pub enum AgentKind { $($kind($module::$keys),)* }
        }

        impl AgentKind {
            /// The metrics of the kinds.
            pub const METRICS: &'static [&'static [Metric]] =
                &[$(<$module::$keys as AgentKeys>::METRICS,)*];

            /// The host where it sits; `None` where the key is missing.
            pub fn at(&self) -> Option<&str> {
                match self { $(AgentKind::$kind(keys) => keys.at(),)* }
            }

            /// On a radio: takes its place on the link of `station`.
            pub(crate) fn place_on_radio(
                &mut self,
                base: &str,
                station: &str,
            ) -> Result<(), Refusal> {
                match self { $(AgentKind::$kind(keys) => keys.place_on_radio(base, station),)* }
            }

            /// Does the direction that it sits at the beginning of lead from the first host to the
            /// second?
            pub fn begins_forward(&self, site: &AgentSite<'_>) -> bool {
                match self { $(AgentKind::$kind(keys) => keys.begins_forward(site),)* }
            }

            /// Holds the keys against the link.
            pub(crate) fn check(&self, site: &AgentSite<'_>) -> Result<(), Refusal> {
                match self { $(AgentKind::$kind(keys) => keys.check(site),)* }
            }

            /// Holds the keys against a TCP flow that passes through its host.
            pub(crate) fn check_flow(&self, flow: &lasthop_tcp::Config) -> Result<(), Refusal> {
                match self { $(AgentKind::$kind(keys) => keys.check_flow(flow),)* }
            }

            /// Does it end connections at its host?
            pub fn splits(&self) -> bool {
                match self { $(AgentKind::$kind(keys) => keys.splits(),)* }
            }

            /// Do all connections between two hosts share one state?
            pub fn shares_by_hosts(&self) -> bool {
                match self { $(AgentKind::$kind(keys) => keys.shares_by_hosts(),)* }
            }

            /// Which TCP senders it hears of, if any.
            pub fn hears(&self) -> Option<Governed> {
                match self { $(AgentKind::$kind(keys) => keys.hears(),)* }
            }

            /// The machine for `connections` connections; more may come.
            ///
            /// # Errors
            /// If a model that the agent reckons with refuses its numbers.
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

        /// Every agent, dispatched statically.
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

            fn watches_up(&self) -> bool {
                match self { $(AgentMachine::$kind(agent) => agent.watches_up(),)* }
            }

            fn watches_link(&self) -> bool {
                match self { $(AgentMachine::$kind(agent) => agent.watches_link(),)* }
            }

            fn on_link(
                &mut self,
                now: Instant,
                connection: Option<usize>,
                fate: LinkFate,
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
