//! Builds the simulated world of a scenario.

use super::RunError;
use super::links::services;
use super::oracle;
use super::plan::{Hop, Plan};
use crate::agent::AgentSite;
use crate::app::SourceSite;
use crate::scenario::{Access, Direction, Discipline, Flow, Link, LinkProtocol, Scenario, Wlan};
use crate::sim::builder::{Builder, RoundTrip};
use crate::sim::direction::DirectionParameters;
use crate::sim::ids::{AirId, DirectionId, FlowId, RadioId, Side};
use crate::sim::radio::RadioParameters;
use crate::sim::wlan::{RateControl, StationLink};
use crate::transport::TransportSite;
use lasthop_base::packet::{Descriptor, Extension};
use lasthop_base::rng::Streams;
use lasthop_base::units::{Bytes, Duration, Instant};
use lasthop_link::link::{LinkEndpoint, Protocol};
use lasthop_link::queue::QueueSite;
use lasthop_wlan::dcf::{Category, DriverQueue, MacParameters, Medium, StationId};
use lasthop_wlan::phy::qos::AccessCategory;
use std::collections::HashMap;

/// Builds the world of one replication. Its packets have the extension `X`: see
/// [`Plan::has_options`].
pub(super) fn build<X: Extension>(
    scenario: &Scenario,
    plan: &Plan,
    streams: Streams,
) -> Result<Builder<X>, RunError> {
    let mut builder = Builder::carrying(streams);
    for radio in &scenario.radios {
        let keys = &radio.keys;
        builder.radio(RadioParameters {
            frame: keys.frame,
            uplink: keys.uplink,
            downlink: keys.downlink,
            propagation: keys.delay.0.propagation(),
        });
    }
    let cells = airs(&mut builder, scenario, plan, &streams);
    for (index, link) in scenario.links.iter().enumerate() {
        let site = LinkSite { scenario, plan, streams: &streams, index, link };
        match link.wlan {
            Some(wlan) => site.add_to_wlan(&mut builder, &scenario.wlans[wlan], &cells[wlan])?,
            None if site.is_computed() => {
                builder.raw_link(site.side(Side::Forward)?, site.side(Side::Reverse)?);
            }
            None => site.add_driven(&mut builder)?,
        }
    }
    for index in 0..scenario.flows.len() {
        add_flow(&mut builder, &streams, scenario, plan, index);
    }
    for (index, link) in scenario.links.iter().enumerate() {
        LinkSite { scenario, plan, streams: &streams, index, link }.add_agents(&mut builder)?;
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
            queue: direction.queue.build(&self.queue_site(&component)),
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

    /// Adds a link between a station and the access point of a WLAN.
    fn add_to_wlan<X: Extension>(
        &self,
        builder: &mut Builder<X>,
        wlan: &Wlan,
        cell: &Cell<'_>,
    ) -> Result<(), RunError> {
        let sides = [self.side(Side::Forward)?, self.side(Side::Reverse)?];
        let host = &self.link.between[0];
        let categories = self.scenario.categories(wlan);
        let stations = cell.stations[host].iter().zip(&cell.access_point);
        let snr_errors = |side| wlan.snr_errors(host, self.streams, &self.component(side));
        let rate_control = |component: &str| {
            let (modes, machine) = wlan.rate_machine(host, self.streams, component)?;
            Some(RateControl { modes, control_rate: wlan.keys.control_rate, machine })
        };
        let of_category = |category: &AccessCategory| {
            let [up, down] = Side::BOTH.map(|side| with_category(self.component(side), *category));
            rate_control(&up).zip(rate_control(&down)).map(<[RateControl; 2]>::from)
        };
        let parameters = StationLink {
            ends: stations.map(|(&station, &point)| [station, point]).collect(),
            control: wlan.control_rate_of(host),
            is_shared: wlan.keys.shared_errors,
            aggregation: wlan.aggregation(host),
            snr_errors: snr_errors(Side::Forward).zip(snr_errors(Side::Reverse)).map(Into::into),
            arf: wlan.arf_rates(host),
            rate_controls: categories.iter().filter_map(of_category).collect(),
        };
        let backs = builder.wlan_link(cell.place, parameters, sides);
        let Some(scheduler) = wlan.separate_scheduler() else { return Ok(()) };
        let driver = wlan.keys.driver_queue.unwrap_or(DriverQueue::Pull);
        for (back, &category) in backs.into_iter().zip(&categories) {
            let component = format!("wlan.{}.{}.{host}", wlan.name, wlan.keys.access_point);
            let component = with_category(component, category);
            let queue = wlan.keys.queue().build(&self.queue_site(&component));
            builder.separate_wlan_queue(cell.place.0, back, queue, (scheduler, driver));
        }
        Ok(())
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
                services(set, self.direction(side), &sites, place)
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
                Some(keys.config_on(&share))
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

/// Returns the name of a component of an access category. Best effort has the name of a station
/// without categories.
fn with_category(component: String, category: AccessCategory) -> String {
    match category {
        AccessCategory::BestEffort => component,
        other => format!("{component}.{}", other.word()),
    }
}

/// A WLAN under construction: its medium, its index on the medium, and its stations.
struct Cell<'a> {
    /// The medium of the WLAN, and the index of the WLAN on it.
    place: (AirId, usize),
    /// One for each access category in use, best effort first.
    access_point: Vec<StationId>,
    stations: HashMap<&'a String, Vec<StationId>>,
}

/// Builds the media of all WLANs with their stations.
fn airs<'a, X: Extension>(
    builder: &mut Builder<X>,
    scenario: &'a Scenario,
    plan: &Plan,
    streams: &Streams,
) -> Vec<Cell<'a>> {
    // For each channel, its medium and the number of its WLANs.
    let mut known: HashMap<&str, (AirId, usize)> = HashMap::new();
    let cell = |(number, wlan): (usize, &'a Wlan)| {
        let keys = &wlan.keys;
        let links = scenario.links.iter().enumerate();
        let own = links.filter(|(_, link)| link.wlan == Some(number));
        let packet = own.map(|(index, _)| plan.largest_packet(index)).max().unwrap_or_default();
        let place = known.entry(wlan.channel()).or_insert_with(|| {
            let medium = Medium::new(wlan.phy(), wlan.timing(), wlan.control_errors());
            (builder.air(medium), 0)
        });
        let (air, index) = *place;
        place.1 += 1;
        builder.wlan(air, &wlan.name);
        let timing = wlan.timing();
        let parameters = MacParameters {
            header: keys.header(),
            rts_threshold: keys.rts_threshold.unwrap_or(Bytes::new(u64::MAX)),
            short_retry_limit: keys.short_retry_limit,
            long_retry_limit: keys.long_retry_limit,
            cw_min: timing.cw_min,
            cw_max: timing.cw_max,
            retry_delay: keys.retry_delay,
            rate: wlan.rate(None),
        };
        let categories = scenario.categories(wlan);
        let mut station = |host: &String, away: Option<[Duration; 2]>| {
            let away = away.map(|times| times.map(|time| Instant::ZERO + time));
            let names = [wlan.name.as_str(), host.as_str()];
            if !wlan.has_categories() {
                let component = &format!("wlan.{}.{host}", wlan.name);
                let site = QueueSite { streams, component, header: keys.header(), packet };
                let queue = keys.queue().build(&site);
                return vec![builder.wlan_station(air, (names, None), parameters, queue, away)];
            }
            let mut first = None;
            let mut of_category = |&category: &AccessCategory| {
                let word = (category != AccessCategory::BestEffort).then_some(category.word());
                let component = &with_category(format!("wlan.{}.{host}", wlan.name), category);
                let site = QueueSite { streams, component, header: keys.header(), packet };
                let queue = keys.queue().build(&site);
                let Access { aifsn, cw_min, cw_max, txop_limit } = wlan.access(category);
                let parameters = MacParameters { cw_min, cw_max, ..parameters };
                let station = builder.wlan_station(air, (names, word), parameters, queue, away);
                let place = AccessCategory::ALL.iter().position(|&known| known == category);
                let category = Category {
                    host: *first.get_or_insert(station.index() as u16),
                    priority: place.unwrap_or_default() as u8,
                    extra_slots: aifsn - timing.aifsn,
                    txop_limit,
                };
                builder.wlan_category(air, station, category);
                station
            };
            categories.iter().map(&mut of_category).collect()
        };
        let access_point = station(&keys.access_point, None);
        let stations = keys.stations.0.iter().map(|host| (host, station(host, wlan.away(host))));
        Cell { place: (air, index), access_point, stations: stations.collect() }
    };
    let cells = scenario.wlans.iter().enumerate().map(cell).collect();
    for (channel, (air, _)) in known {
        let mut here = scenario.wlans.iter().filter(|wlan| wlan.channel() == channel);
        let positions = here.clone().flat_map(|wlan| {
            let stations = wlan.keys.stations.0.iter().map(|station| Some(station.as_str()));
            std::iter::once(None).chain(stations).map(|station| wlan.position(station))
        });
        // The checks of the scenario permit a channel only if all or none of its stations have
        // positions.
        if let (Some(wlan), Some(positions)) = (here.next(), positions.collect::<Option<Vec<_>>>())
        {
            builder.place(air, &wlan.propagation(), &positions);
        }
    }
    cells
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
