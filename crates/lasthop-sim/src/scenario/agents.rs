//! The agents of a link: reading, writing, and checks that concern more than one key.

use super::Protocol;
use super::model::{Flow, Link, Scenario, TcpKeys};
use super::routes::Routes;
use super::services::LinkProtocol;
use crate::agent::{AgentKind, AgentSite, ControlledPackets, Refusal};
use crate::transport::Carries;
use lasthop_base::rng::Streams;
use lasthop_base::schema::error::{ScenarioError, suggestion};
use lasthop_base::schema::keys::{Field, Limits, Node, Read, Shape};
use lasthop_base::units::Bytes;
use serde_json::Value;

/// The agents of a link, in file order; a single agent needs no list.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Agents(pub Vec<AgentKind>);

impl Agents {
    /// Returns the path of agent `index`; `path` is the path of all agents.
    pub(super) fn path(&self, path: &str, index: usize) -> String {
        if self.0.len() == 1 { path.to_owned() } else { format!("{path}[{index}]") }
    }
}

impl Field for Agents {
    const SHAPE: Shape = match AgentKind::SHAPE {
        Shape::Union(variants) => Shape::Unions(variants),
        _ => panic!("a union"),
    };
    const OPTIONAL: bool = true;

    fn read(node: &Node<'_>, limits: Limits) -> Read<Self> {
        let Some(items) = node.value.as_array() else {
            return AgentKind::read(node, limits).map(|agent| Agents(vec![agent]));
        };
        if items.is_empty() {
            return Err(node.wrong("at least one agent, or no key"));
        }
        let item = |(index, value)| {
            let path = format!("{}[{index}]", node.path);
            AgentKind::read(&Node { value, path, files: node.files }, limits)
        };
        items.iter().enumerate().map(item).collect::<Read<_>>().map(Agents)
    }

    fn write(&self) -> Value {
        match self.0.as_slice() {
            [] => Value::Null,
            [one] => one.write(),
            several => several.iter().map(Field::write).collect(),
        }
    }

    fn absent(_node: &Node<'_>) -> Option<Self> {
        Some(Agents::default())
    }
}

impl Link {
    /// Returns the properties of the link that its agents need; `largest_packet` is the maximum
    /// packet length in either direction.
    pub fn agent_site(&self, largest_packet: Bytes) -> AgentSite<'_> {
        let (protocol, limits_transmissions, payload) = match &self.protocol {
            LinkProtocol::One(one) => (one.kind(), one.limits_transmissions(), one.payload()),
            LinkProtocol::Services(_) => ("services", false, None),
            LinkProtocol::Own(own) => (own.name(), false, None),
            LinkProtocol::Stack(layers) => {
                let limited = layers.limited().map(|layer| &layers.protocols()[layer]);
                (self.protocol.kind(), limited.is_some(), limited.and_then(Protocol::payload))
            }
        };
        let reports_fates = match &self.protocol {
            LinkProtocol::One(one) => one.reports_fates(),
            LinkProtocol::Own(_) => false,
            LinkProtocol::Stack(layers) => {
                layers.protocols().first().is_some_and(Protocol::reports_fates)
            }
            LinkProtocol::Services(set) => {
                set.services.iter().all(|service| service.protocol.reports_fates())
            }
        };
        AgentSite {
            between: self.between.each_ref().map(String::as_str),
            protocol,
            reports_fates: reports_fates || self.wlan.is_some(),
            limits_transmissions,
            payload,
            errors: [&self.forward.errors, &self.reverse.errors],
            largest_packet,
            flows: &[],
            streams: &Streams { seed: 0, replication: 0 },
            component: "",
        }
    }
}

impl Scenario {
    /// Checks that each agent of link `index` is attached to an end of it, is compatible with it,
    /// and has the traffic that it requires.
    pub(super) fn check_agents(&self, routes: &Routes<'_>, index: usize) -> Read<()> {
        let link = &self.links[index];
        let place = match (link.radio, link.wlan) {
            (None, None) => format!("link.{}.agent", link.name),
            (None, Some(wlan)) => format!("wlan.{}.agent", self.wlans[wlan].name),
            (Some(radio), _) => format!("radio.{}.agent", self.radios[radio].name),
        };
        for (number, agent) in link.agents.0.iter().enumerate() {
            self.check_agent(routes, index, agent).map_err(|refusal| {
                let path = format!("{}.{}", link.agents.path(&place, number), refusal.key);
                ScenarioError::new(path, refusal.found, refusal.allowed)
            })?;
        }
        Ok(())
    }

    fn check_agent(
        &self,
        routes: &Routes<'_>,
        index: usize,
        agent: &AgentKind,
    ) -> Result<(), Refusal> {
        let link = &self.links[index];
        let ends = format!("one of the two hosts of the link: {}", link.between.join(", "));
        let Some(at) = agent.at() else {
            return Err(Refusal::new("at", lasthop_base::schema::error::MISSING, ends));
        };
        if !link.between.iter().any(|host| host == at) {
            let near = suggestion(at, link.between.iter().map(String::as_str));
            return Err(Refusal::new("at", format!("{at:?}{near}"), ends));
        }
        agent.check(&link.agent_site(self.largest_packet(routes, index)))?;
        for tcp in self.tcp_through(routes, index, at) {
            agent.check_flow(&tcp.config())?;
        }
        if agent.splits()
            && self.tcp_through(routes, index, at).next().is_none()
            && let Some(flow) = self.encrypted_through(routes, index)
        {
            return Err(Refusal::new(
                "kind",
                format!(
                    "{:?} for flow {:?} over {}",
                    agent.kind(),
                    flow.name,
                    flow.transport.kind()
                ),
                "a flow over tcp that passes through: an agent cannot terminate encrypted connections",
            ));
        }
        let Some(controlled) = agent.controlled_senders() else { return Ok(()) };
        // A radio needs such a flow at one station only.
        let alike = self.links.iter().enumerate();
        let mut alike = alike.filter(|&(other, twin)| {
            other == index || link.radio.is_some() && twin.radio == link.radio
        });
        let station = |twin: &Link| {
            if link.radio.is_some() { twin.between[0].clone() } else { at.to_owned() }
        };
        let is_outgoing = controlled == ControlledPackets::Outgoing;
        if !alike.any(|(other, twin)| self.is_heard(routes, other, &station(twin), is_outgoing)) {
            let does = if is_outgoing { "sends data from" } else { "takes data to" };
            return Err(Refusal::new(
                "at",
                format!("{at:?}, and no flow over tcp that {does} there over this link"),
                "a host where such a flow ends, or the other value of direction",
            ));
        }
        Ok(())
    }

    /// Returns the length of the largest packet that crosses link `index`, in either direction.
    fn largest_packet(&self, routes: &Routes<'_>, index: usize) -> Bytes {
        let of_flow = |flow: &Flow| {
            let crosses = |from: &str, to: &str| {
                routes.route(from, to).iter().any(|&(link, _)| link == index)
            };
            let [there, back] = flow.largest_packets();
            let there = if crosses(&flow.from, &flow.to) { there } else { Bytes::default() };
            let back = if crosses(&flow.to, &flow.from) { back } else { Bytes::default() };
            there.max(back)
        };
        self.flows.iter().map(of_flow).max().unwrap_or_default()
    }

    /// Returns the TCP parameters of the flows that cross link `index` and continue at host `at`.
    fn tcp_through(
        &self,
        routes: &Routes<'_>,
        index: usize,
        at: &str,
    ) -> impl Iterator<Item = &TcpKeys> {
        self.flows.iter().filter_map(move |flow| {
            let tcp = flow.transport.tcp()?;
            let ends_here = [&flow.from, &flow.to].into_iter().any(|host| host == at);
            let route = routes.route(&flow.from, &flow.to);
            let crosses = route.iter().any(|&(link, _)| link == index);
            (crosses && !ends_here).then_some(tcp)
        })
    }

    /// Returns a flow over link `index` whose transport carries streams with encrypted headers.
    fn encrypted_through(&self, routes: &Routes<'_>, index: usize) -> Option<&Flow> {
        self.flows.iter().find(|flow| {
            let carries_streams = flow.transport.carries(Carries::Streams);
            let route = routes.route(&flow.from, &flow.to);
            carries_streams
                && flow.transport.tcp().is_none()
                && route.iter().any(|&(link, _)| link == index)
        })
    }

    /// Returns `true` if TCP at host `at` sends data over link `index` as its first hop (`is_out`),
    /// or receives data over it as its last hop.
    fn is_heard(&self, routes: &Routes<'_>, index: usize, at: &str, is_outgoing: bool) -> bool {
        let passes = |flow: &Flow, from: &str, to: &str| {
            let end = if is_outgoing { from } else { to };
            if end != at || flow.transport.tcp().is_none() {
                return false;
            }
            let route = routes.route(from, to);
            let hop = if is_outgoing { route.first() } else { route.last() };
            hop.is_some_and(|&(link, _)| link == index)
        };
        self.flows.iter().any(|flow| {
            // Requests of browsers are data, too.
            passes(flow, &flow.from, &flow.to)
                || flow.app.sends_back() && passes(flow, &flow.to, &flow.from)
        })
    }
}
