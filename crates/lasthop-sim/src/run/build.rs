//! Builds the simulated world of a scenario.

use super::RunError;
use super::links::services;
use super::oracle;
use super::plan::{Hop, Plan};
use crate::agent::AgentSite;
use crate::app::SourceSite;
use crate::scenario::{self, Access, Direction, Discipline, Flow, LinkProtocol, Scenario};
use crate::sim::builder::{Builder, RoundTrip};
use crate::sim::direction::DirectionParameters;
use crate::sim::ids::{AirId, DirectionId, FlowId, RadioId, Side};
use crate::sim::radio::RadioParameters;
use crate::sim::wlan::{RateControl, StationLink};
use crate::transport::TransportSite;
use lasthop_base::packet::Extension;
use lasthop_base::rng::Streams;
use lasthop_base::units::{Bytes, Duration, Instant};
use lasthop_link::link::Protocol;
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
        let side = |direction: &Direction, name: &str| {
            let component = format!("link.{}.{name}", link.name);
            let refused = |error| RunError::Channel { link: link.name.clone(), error };
            Ok(DirectionParameters {
                transmitter: direction.transmitter(),
                propagation: direction.propagation(),
                queue: direction.queue.build(&QueueSite {
                    streams: &streams,
                    component: &component,
                    header: link.header,
                    packet: plan.largest_packet(index),
                }),
                header: link.header,
                channel: direction.errors.build(&streams, &component).map_err(refused)?,
            })
        };
        let forward = side(&link.forward, "forward")?;
        let reverse = side(&link.reverse, "reverse")?;
        if let Some(wlan) = link.wlan {
            let cell = &cells[wlan];
            let host = &link.between[0];
            let control = scenario.wlans[wlan].control_rate_of(host);
            let stations = cell.stations[host].iter().zip(&cell.access_point);
            let ends: Vec<_> = stations.map(|(&station, &point)| [station, point]).collect();
            let is_shared = scenario.wlans[wlan].keys.shared_errors;
            let aggregation = scenario.wlans[wlan].aggregation(host);
            let sides = [forward, reverse];
            let component = |side: &str| format!("link.{}.{side}", link.name);
            let snr_errors =
                |side| scenario.wlans[wlan].snr_errors(host, &streams, &component(side));
            let control_rate = scenario.wlans[wlan].keys.control_rate;
            let rate_control = |component: &str| {
                let machine = scenario.wlans[wlan].rate_machine(host, &streams, component);
                machine.map(|(modes, machine)| RateControl { modes, control_rate, machine })
            };
            let categories = scenario.categories(&scenario.wlans[wlan]);
            let of_category = |category: &AccessCategory| {
                let [up, down] = ["forward", "reverse"].map(|side| match category {
                    AccessCategory::BestEffort => component(side),
                    category => format!("{}.{}", component(side), category.word()),
                });
                rate_control(&up).zip(rate_control(&down)).map(<[RateControl; 2]>::from)
            };
            let parameters = StationLink {
                ends,
                control,
                is_shared,
                aggregation,
                snr_errors: snr_errors("forward").zip(snr_errors("reverse")).map(Into::into),
                arf: scenario.wlans[wlan].arf_rates(host),
                rate_controls: categories.iter().filter_map(of_category).collect(),
            };
            let backs = builder.wlan_link(cell.place, parameters, sides);
            if let Some(scheduler) = scenario.wlans[wlan].separate_scheduler() {
                let keys = &scenario.wlans[wlan].keys;
                let name = &scenario.wlans[wlan].name;
                for (back, category) in backs.into_iter().zip(&categories) {
                    let component = match category {
                        AccessCategory::BestEffort => {
                            format!("wlan.{name}.{}.{host}", keys.access_point)
                        }
                        other => {
                            format!("wlan.{name}.{}.{host}.{}", keys.access_point, other.word())
                        }
                    };
                    let queue = keys.queue().build(&QueueSite {
                        streams: &streams,
                        component: &component,
                        header: link.header,
                        packet: plan.largest_packet(index),
                    });
                    let driver = keys.driver_queue.unwrap_or(DriverQueue::Pull);
                    builder.separate_wlan_queue(cell.place.0, back, queue, (scheduler, driver));
                }
            }
            continue;
        }
        let is_drop_tail = [&link.forward, &link.reverse]
            .map(|side| matches!(side.queue, Discipline::DropTail(_)));
        if link.radio.is_none()
            && matches!(link.protocol, LinkProtocol::One(Protocol::Raw(_)))
            && is_drop_tail == [true, true]
            && !link.has_readable_headers()
        {
            builder.raw_link(forward, reverse);
            continue;
        }
        let end = |own: &Direction, is_forward: bool| {
            let site = |service| plan.site(scenario, (index, is_forward), service);
            let end = match &link.protocol {
                LinkProtocol::One(protocol) => protocol.build(&site(None)),
                LinkProtocol::Stack(layers) => layers.build(&site(None)),
                LinkProtocol::Own(own) => own.build(&site(None)),
                LinkProtocol::Services(set) => {
                    let all = 0..set.services.len();
                    let side = if is_forward { "forward" } else { "reverse" };
                    let place = (&streams, format!("link.{}.{side}", link.name));
                    services(set, own, &all.map(Some).map(site).collect::<Vec<_>>(), place)
                }
            };
            end.map_err(|error| RunError::Link { link: link.name.clone(), error })
        };
        let first = end(&link.forward, true)?;
        let second = end(&link.reverse, false)?;
        match link.radio {
            None => builder.arq_link((forward, first), (reverse, second)),
            Some(radio) => {
                builder.radio_link(RadioId::new(radio), (forward, first), (reverse, second));
            }
        }
        builder.name_services(&link.protocol.service_names().collect::<Vec<_>>());
        if let LinkProtocol::Stack(layers) = &link.protocol {
            builder.name_layers(&layers.names());
        }
    }
    for index in 0..scenario.flows.len() {
        add_flow(&mut builder, &streams, scenario, plan, index);
    }
    for (index, link) in scenario.links.iter().enumerate() {
        let site = link.agent_site(plan.largest_packet(index));
        // Each agent is placed above the existing ones.
        for (number, agent) in link.agents.0.iter().enumerate().rev() {
            let groups = agent.is_per_host_pair().then(|| host_pairs(scenario));
            let (mut connections, count) = builder.agent_connections(groups.as_deref());
            let side = if agent.acts_on_forward(&site) { Side::Forward } else { Side::Reverse };
            let direction = DirectionId::of(index, side);
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
            let machine = agent
                .build(&AgentSite { flows: &flows, ..site }, count)
                .map_err(|error| RunError::Agent { link: link.name.clone(), error })?;
            let name = match link.agents.0.len() {
                1 => link.name.clone(),
                _ => format!("{}.{}", link.name, number + 1),
            };
            builder.agent(direction, name, machine, connections, agent.controlled_senders());
        }
    }
    Ok(builder)
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
    let cell = |(number, wlan): (usize, &'a scenario::Wlan)| {
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
                let suffix = word.map_or(String::new(), |word| format!(".{word}"));
                let component = &format!("wlan.{}.{host}{suffix}", wlan.name);
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
    builder.flow(&flow.name, start, &connect, round_trip, machine);
    if let Some(service) = &flow.service {
        builder.choose_service(service);
    }
    builder.choose_category(scenario.category_place(flow));
}
