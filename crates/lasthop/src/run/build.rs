//! From a scenario to a world.

use super::RunError;
use super::links::{limit, services};
use super::plan::{Hop, Plan};
use crate::agent::{
    AdaptivePersistence, Inversion, PersistenceParameters, Quirks, SnoopParameters,
};
use crate::analysis::{AnalysisError, GilbertElliottLaw};
use crate::app::{OnOffParameters, WebParameters};
use crate::link::Protocol;
use crate::rng::Streams;
use crate::scenario::{self, App, Direction, Flow, LinkProtocol, Scenario, Transport};
use crate::sim::builder::{Builder, RoundTrip, UpdateInterval};
use crate::sim::direction::DirectionParameters;
use crate::sim::radio::RadioParameters;
use crate::units::{Bytes, Instant};

/// Builds the world of one replication.
pub(super) fn build(
    scenario: &Scenario,
    plan: &Plan,
    streams: Streams,
) -> Result<Builder, RunError> {
    let mut builder = Builder::new(streams);
    for radio in &scenario.radios {
        let keys = &radio.keys;
        builder.radio(RadioParameters {
            frame: keys.frame,
            uplink: keys.uplink,
            downlink: keys.downlink,
            delay: keys.delay,
        });
    }
    for (index, link) in scenario.links.iter().enumerate() {
        let side = |direction: &Direction, name: &str| {
            let component = format!("link.{}.{name}", link.name);
            let refused = |error| RunError::Channel { link: link.name.clone(), error };
            Ok(DirectionParameters {
                rate: direction.rate,
                delay: direction.delay,
                limit: limit(direction.queue),
                header: link.header,
                channel: direction.errors.build(&streams, &component).map_err(refused)?,
            })
        };
        let forward = side(&link.forward, "forward")?;
        let reverse = side(&link.reverse, "reverse")?;
        if link.radio.is_none() && matches!(link.protocol, LinkProtocol::One(Protocol::Raw(_))) {
            builder.raw_link(forward, reverse);
            continue;
        }
        let end = |own: &Direction, is_forward: bool| {
            let site = |service| plan.site(scenario, (index, is_forward), service);
            let end = match &link.protocol {
                LinkProtocol::One(protocol) => protocol.build(&site(None)),
                LinkProtocol::Services(set) => {
                    let all = 0..set.services.len();
                    services(set, own, &all.map(Some).map(site).collect::<Vec<_>>())
                }
            };
            end.map_err(|error| RunError::Link { link: link.name.clone(), error })
        };
        let first = end(&link.forward, true)?;
        let second = end(&link.reverse, false)?;
        match link.radio {
            None => builder.arq_link((forward, first), (reverse, second)),
            Some(radio) => {
                builder.radio_link(radio as u32, (forward, first), (reverse, second));
            }
        }
        builder.name_services(&link.protocol.service_names().collect::<Vec<_>>());
    }
    for (index, flow) in scenario.flows.iter().enumerate() {
        add_flow(&mut builder, plan.routes(index), flow);
    }
    for (index, link) in scenario.links.iter().enumerate() {
        let leaves = |at: &String| 2 * index as u32 + u32::from(link.between[0] != *at);
        match &link.agent {
            None => {}
            Some(scenario::Agent::Snoop(set)) => {
                let parameters = snoop(set);
                // In ns-2 a pair of hosts has one state, however many connections.
                let groups = (parameters.quirks == Quirks::Ns2).then(|| host_pairs(scenario));
                builder.snoop(leaves(&set.at), parameters, groups.as_deref());
            }
            Some(scenario::Agent::AdaptivePersistence(set)) => {
                let packet = plan.largest_packet(index);
                let controller = adaptive_persistence(set, link, packet)
                    .map_err(|error| RunError::Agent { link: link.name.clone(), error })?;
                let is_outgoing = set.direction == scenario::Governed::Outgoing;
                let direction = 2 * index as u32 + u32::from(!set.governs_forward(link));
                let interval = UpdateInterval {
                    packets: u64::from(set.update_packets),
                    time: set.update_time,
                };
                builder.adaptive_persistence(direction, is_outgoing, controller, interval);
            }
        }
    }
    Ok(builder)
}

fn snoop(set: &scenario::Snoop) -> SnoopParameters {
    SnoopParameters {
        quirks: match set.quirks {
            scenario::Quirks::None => Quirks::None,
            scenario::Quirks::Ns2 => Quirks::Ns2,
        },
        cache: set.cache as usize,
        dupack_threshold: set.dupack_threshold,
        min_rto: set.min_rto,
        initial_srtt: set.initial_srtt,
        initial_rttvar: set.initial_rttvar,
        max_retransmissions: set.max_retransmissions,
    }
}

fn adaptive_persistence(
    set: &scenario::AdaptivePersistence,
    link: &scenario::Link,
    largest: Bytes,
) -> Result<AdaptivePersistence, AnalysisError> {
    // The scenario's checks leave no channel that is not known.
    let known = set.channel(link).map_err(|key| AnalysisError {
        argument: key,
        found: "nothing".to_owned(),
        allowed: "a probability".to_owned(),
    })?;
    let channel = GilbertElliottLaw::new(
        1.0 - known.stay_good.get(),
        1.0 - known.stay_bad.get(),
        known.loss_good.get(),
        known.loss_bad.get(),
    )?;
    AdaptivePersistence::new(PersistenceParameters {
        alpha: set.alpha.get(),
        weight: set.weight.get(),
        initial_loss: set.initial_loss.get(),
        initial_link_loss: set.initial_link_loss.get(),
        wired_loss: [set.least_wired_loss.get(), set.greatest_wired_loss.get()],
        max_transmissions: set.max_transmissions,
        inversion: match set.inversion {
            scenario::Inversion::Eigenvalue => Inversion::Eigenvalue,
            scenario::Inversion::Exact => Inversion::Exact,
        },
        channel,
        pdus: set.pdus(link, largest),
        spacing: set.spacing,
    })
}

/// For each flow the number of its pair of hosts, in either order.
fn host_pairs(scenario: &Scenario) -> Vec<u32> {
    let pair = |flow: &Flow| {
        let [from, to] = [&flow.from, &flow.to].map(String::clone);
        if from < to { [from, to] } else { [to, from] }
    };
    let pairs: Vec<_> = scenario.flows.iter().map(pair).collect();
    let first = |pair| pairs.iter().position(|known| known == pair).unwrap_or_default() as u32;
    pairs.iter().map(first).collect()
}

fn add_flow(builder: &mut Builder, routes: &[Vec<Hop>; 2], flow: &Flow) {
    let [there, back] = routes.each_ref().map(|route| {
        let hop = |&(link, forward): &Hop| 2 * link as u32 + u32::from(!forward);
        route.iter().map(hop).collect::<Vec<u32>>()
    });
    let round_trip = RoundTrip { there: &there, back: &back };
    let start = Instant::ZERO + flow.start;
    match (&flow.transport, &flow.app) {
        (Transport::Tcp(tcp), App::File(file)) => {
            builder.file(&flow.name, start, &tcp.config(), round_trip, file.size);
        }
        (Transport::Tcp(tcp), App::Web(web)) => {
            let parameters = WebParameters {
                connections: web.connections,
                page_counts_itself: web.page_counts_itself,
            };
            builder.web(&flow.name, start, &tcp.config(), round_trip, parameters);
        }
        (_, App::OnOff(source)) => {
            let parameters = OnOffParameters {
                rate: source.rate,
                on: source.on,
                off: source.off,
                packet: source.packet,
            };
            let lazy = source.replay == scenario::Replay::Lazy;
            builder.on_off(&flow.name, start, parameters, &there, lazy);
        }
        (_, App::Media(media)) => {
            let parameters = OnOffParameters {
                rate: media.rate,
                on: media.talk,
                off: media.silence,
                packet: media.packet,
            };
            builder.media(&flow.name, start, parameters, media.deadline, &there);
        }
        // The scenario's checks leave no other combination.
        (Transport::Udp, App::File(_) | App::Web(_)) => {}
    }
    if let Some(service) = &flow.service {
        builder.choose_service(service);
    }
}
