//! Builds the simulated world of a scenario.

use super::RunError;
use super::links::services;
use super::oracle;
use super::plan::{Hop, Plan};
use super::wlans::wlan_media;
use crate::agent::AgentSite;
use crate::app::SourceSite;
use crate::scenario::{Direction, Discipline, Flow, Link, LinkProtocol, Scenario, Wlan};
use crate::sim::builder::{Builder, RoundTrip};
use crate::sim::direction::DirectionParameters;
use crate::sim::ids::{DirectionId, FlowId, RadioId, Side};
use crate::sim::radio::RadioParameters;
use crate::transport::TransportSite;
use crate::transport::tcp::config_on;
use lasthop_base::packet::{Descriptor, Extension};
use lasthop_base::rng::Streams;
use lasthop_base::units::{Duration, Instant};
use lasthop_link::link::{LinkEndpoint, Protocol};
use lasthop_link::queue::QueueSite;

/// Builds the world of one replication. Its packets have the extension `X`: see
/// [`Plan::has_options`].
pub(super) fn build<X: Extension>(
    scenario: &Scenario,
    plan: &Plan,
    streams: Streams,
) -> Result<Builder<X>, RunError> {
    let mut builder = Builder::carrying(streams);
    let sites = || {
        let links = scenario.links.iter().enumerate();
        links.map(|(index, link)| LinkSite { scenario, plan, streams: &streams, index, link })
    };
    let lines = sites().filter(|site| site.link.wlan.is_none() && !site.is_computed()).count();
    builder.reserve(scenario.links.len(), lines, scenario.flows.len(), plan.hops());
    for radio in &scenario.radios {
        let keys = &radio.keys;
        builder.radio(RadioParameters {
            frame: keys.frame,
            uplink: keys.uplink,
            downlink: keys.downlink,
            propagation: keys.delay.0.propagation(),
        });
    }
    let packets: Vec<_> = (0..scenario.links.len()).map(|link| plan.largest_packet(link)).collect();
    let categories = |wlan: &Wlan| scenario.categories(wlan);
    let (media, places) = wlan_media(scenario, &streams, &packets, categories)?;
    let airs: Vec<_> = media.into_iter().map(|medium| builder.air(medium)).collect();
    for site in sites() {
        match &places[site.index] {
            Some(place) => {
                let sides = [&site.link.forward, &site.link.reverse];
                let rates = sides.map(|side| side.transmitter().rate());
                builder.wlan_link(airs[place.medium], place, rates);
            }
            None if site.is_computed() => {
                builder.raw_link(site.side(Side::Forward)?, site.side(Side::Reverse)?);
            }
            None => site.add_driven(&mut builder)?,
        }
    }
    for index in 0..scenario.flows.len() {
        add_flow(&mut builder, &streams, scenario, plan, index);
    }
    for site in sites() {
        site.add_agents(&mut builder)?;
    }
    Ok(builder)
}

/// A link of a scenario, from which its machines are built.
struct LinkSite<'a> {
    scenario: &'a Scenario,
    plan: &'a Plan,
    streams: &'a Streams,
    index: usize,
    link: &'a Link,
}

impl LinkSite<'_> {
    /// The name under which the machines of a side have random streams.
    fn component(&self, side: Side) -> String {
        format!("link.{}.{}", self.link.name, side.word())
    }

    fn queue_site<'a>(&'a self, component: &'a str) -> QueueSite<'a> {
        let packet = self.plan.largest_packet(self.index);
        QueueSite { streams: self.streams, component, header: self.link.header, packet }
    }

    fn direction(&self, side: Side) -> &Direction {
        match side {
            Side::Forward => &self.link.forward,
            Side::Reverse => &self.link.reverse,
        }
    }

    /// Transmitter, queue and error process of one side.
    fn side<X: Extension>(&self, side: Side) -> Result<DirectionParameters<X>, RunError> {
        let direction = self.direction(side);
        let component = self.component(side);
        let refused = |error| RunError::Channel { link: self.link.name.clone(), error };
        Ok(DirectionParameters {
            transmitter: direction.transmitter(),
            propagation: direction.propagation(),
            queue: match self.link.measures_queueing_delay() {
                false => direction.queue.build(&self.queue_site(&component)),
                true => direction.queue.build_measured(&self.queue_site(&component)),
            },
            header: self.link.header,
            channel: direction.errors.build(self.streams, &component).map_err(refused)?,
        })
    }

    /// Returns `true` if the outcome of a packet can be computed when it arrives.
    fn is_computed(&self) -> bool {
        let link = self.link;
        let is_drop_tail = |side: &Direction| matches!(side.queue, Discipline::DropTail(_));
        link.radio.is_none()
            && matches!(link.protocol, LinkProtocol::One(Protocol::Raw(_)))
            && [&link.forward, &link.reverse].into_iter().all(is_drop_tail)
            && !link.has_readable_headers()
    }

    /// The endpoint of the link protocol that transmits on one side.
    fn end<X: Extension>(&self, side: Side) -> Result<LinkEndpoint<Descriptor<X>>, RunError> {
        let is_forward = side == Side::Forward;
        let site = |service| self.plan.site(self.scenario, (self.index, is_forward), service);
        let end = match &self.link.protocol {
            LinkProtocol::One(protocol) => protocol.build(&site(None)),
            LinkProtocol::Stack(layers) => layers.build(&site(None)),
            LinkProtocol::Own(own) => own.build(&site(None)),
            LinkProtocol::Services(set) => {
                let sites: Vec<_> = (0..set.services.len()).map(Some).map(site).collect();
                let place = (self.streams, self.component(side));
                services(
                    set,
                    self.direction(side),
                    &sites,
                    place,
                    self.link.measures_queueing_delay(),
                )
            }
        };
        end.map_err(|error| RunError::Link { link: self.link.name.clone(), error })
    }

    /// Adds a link whose endpoints are polled for frames.
    fn add_driven<X: Extension>(&self, builder: &mut Builder<X>) -> Result<(), RunError> {
        let [forward, reverse] = [self.side(Side::Forward)?, self.side(Side::Reverse)?];
        let first = (forward, self.end(Side::Forward)?);
        let second = (reverse, self.end(Side::Reverse)?);
        match self.link.radio {
            None => builder.arq_link(first, second),
            Some(radio) => builder.radio_link(RadioId::new(radio), first, second),
        }
        builder.name_services(&self.link.protocol.service_names().collect::<Vec<_>>());
        if let LinkProtocol::Stack(layers) = &self.link.protocol {
            builder.name_layers(&layers.names());
        }
        Ok(())
    }

    /// Adds the agents at both ends.
    fn add_agents<X: Extension>(&self, builder: &mut Builder<X>) -> Result<(), RunError> {
        let LinkSite { scenario, plan, link, .. } = *self;
        let site = link.agent_site(plan.largest_packet(self.index));
        // Each agent is placed above the existing ones.
        for (number, agent) in link.agents.0.iter().enumerate().rev() {
            let groups = agent.is_per_host_pair().then(|| host_pairs(scenario));
            let (mut connections, count) = builder.agent_connections(groups.as_deref());
            let side = if agent.acts_on_forward(&site) { Side::Forward } else { Side::Reverse };
            let direction = DirectionId::of(self.index, side);
            let flows = match agent.splits() {
                true => builder.passing(direction, &mut connections, count),
                false => Vec::new(),
            };
            let tcp = |flow: &FlowId| {
                let share = |sizes| oracle::share(sizes, scenario, plan, flow.index());
                let keys = scenario.flows[flow.index()].transport.tcp()?;
                Some(config_on(keys, &share))
            };
            let flows: Vec<_> = flows.iter().map(|flow| flow.as_ref().and_then(tcp)).collect();
            let name = match link.agents.0.len() {
                1 => link.name.clone(),
                _ => format!("{}.{}", link.name, number + 1),
            };
            let component = &format!("agent.{name}");
            let site = AgentSite { flows: &flows, streams: self.streams, component, ..site };
            let machine = agent
                .build(&site, count)
                .map_err(|error| RunError::Agent { link: link.name.clone(), error })?;
            builder.agent(direction, name, machine, connections, agent.controlled_senders());
        }
        Ok(())
    }
}

/// For each flow, the number of its pair of hosts, regardless of their order.
fn host_pairs(scenario: &Scenario) -> Vec<u32> {
    let pair = |flow: &Flow| {
        let [from, to] = [&flow.from, &flow.to].map(String::clone);
        if from < to { [from, to] } else { [to, from] }
    };
    let pairs: Vec<_> = scenario.flows.iter().map(pair).collect();
    let first = |pair| pairs.iter().position(|known| known == pair).unwrap_or_default() as u32;
    pairs.iter().map(first).collect()
}

fn add_flow<X: Extension>(
    builder: &mut Builder<X>,
    streams: &Streams,
    scenario: &Scenario,
    plan: &Plan,
    index: usize,
) {
    let flow = &scenario.flows[index];
    let share = |sizes| oracle::share(sizes, scenario, plan, index);
    let connect = |clock| flow.transport.build(TransportSite { clock, path: &share });
    let [there, back] = plan.routes(index).each_ref().map(|route| {
        let hop = |&(link, forward): &Hop| {
            DirectionId::of(link, if forward { Side::Forward } else { Side::Reverse })
        };
        route.iter().map(hop).collect::<Vec<_>>()
    });
    let round_trip = RoundTrip { there: &there, back: &back };
    let component = &format!("flow.{}", flow.name);
    let spread = flow.start_spread.map_or(Duration::ZERO, |spread| {
        let share = streams.stream(component, "start").uniform();
        Duration::from_nanos((share * spread.as_nanos() as f64) as u64)
    });
    let start = Instant::ZERO + flow.start + spread;
    let machine = flow.app.build(&SourceSite { streams, component, start });
    let stop = flow.stop.map(|stop| Instant::ZERO + stop);
    builder.flow_until(&flow.name, (start, stop), &connect, round_trip, machine);
    if let Some(service) = &flow.service {
        builder.choose_service(service);
    }
    builder.choose_category(scenario.category_place(flow));
}
