//! What all replications of a point have in common, found out once: the ways of its flows, and what
//! crosses its links.

use crate::scenario::{Direction, Flow, Routes, Scenario};
use lasthop_base::units::{Bytes, Duration};
use lasthop_link::link::{Air, Site};

/// A hop: the index of a link, and whether it is crossed from its first host to its second.
pub(crate) type Hop = (usize, bool);

/// What one service of a link carries; a link with one protocol counts as one service.
#[derive(Clone, Copy, Debug, Default)]
struct Load {
    /// The largest packet, in either direction.
    packet: Bytes,
    /// The longest time between regular packets among the constant-rate flows that take the link
    /// forward, and in reverse.
    interval: [Option<Duration>; 2],
}

/// Routes and loads of a scenario.
#[derive(Clone, Debug)]
pub(super) struct Plan {
    /// For each flow the way from its source to its destination, and back.
    routes: Vec<[Vec<Hop>; 2]>,
    /// For each link, by service.
    loads: Vec<Vec<Load>>,
    has_options: bool,
    has_layers: bool,
}

impl Plan {
    /// Finds the routes of `scenario` and what crosses its links.
    pub fn new(scenario: &Scenario) -> Self {
        let ways = Routes::new(scenario);
        let services = |link: &crate::scenario::Link| link.protocol.service_names().count().max(1);
        let mut loads: Vec<_> =
            scenario.links.iter().map(|link| vec![Load::default(); services(link)]).collect();
        let mut routes = Vec::with_capacity(scenario.flows.len());
        for flow in &scenario.flows {
            let route = [(&flow.from, &flow.to), (&flow.to, &flow.from)]
                .map(|(from, to)| ways.route(from, to));
            // Between the packets of a constant-rate flow: the slowest of several still talks while a
            // faster one is silent.
            let interval = flow.app.interval();
            for (way, packet) in flow.largest_packets().into_iter().enumerate() {
                for &(link, is_forward) in &route[way] {
                    let service = scenario.links[link].protocol.service_of(flow);
                    let load: &mut Load = &mut loads[link][service];
                    load.packet = load.packet.max(packet);
                    if way == 0 {
                        let known = &mut load.interval[usize::from(!is_forward)];
                        *known = (*known).max(interval);
                    }
                }
            }
            routes.push(route);
        }
        let writes_options = |flow: &Flow| flow.transport.writes_options();
        let has_options = scenario.flows.iter().any(writes_options);
        let has_layers = scenario.links.iter().any(|link| link.protocol.layers().is_some());
        Plan { routes, loads, has_options, has_layers }
    }

    /// Whether a link has stacked layers, so that packets need room for the headers of the upper ones.
    pub fn has_layers(&self) -> bool {
        self.has_layers
    }

    /// Has any segment SACK blocks or timestamps, so that packets need room for them? Those of an agent's own connections
    /// have what the flow on whose way it stands has negotiated. Were it not so, the run would end with the first such
    /// segment: there is no way to put it into a packet without room ([`Extension::narrow`](lasthop_base::packet::Extension)).
    pub fn has_options(&self) -> bool {
        self.has_options
    }

    /// The ways of flow `index`, there and back.
    pub fn routes(&self, index: usize) -> &[Vec<Hop>; 2] {
        &self.routes[index]
    }

    /// The largest packet that any flow sends over link `index`: what "auto" timers are made for.
    pub fn largest_packet(&self, index: usize) -> Bytes {
        self.loads[index].iter().map(|load| load.packet).max().unwrap_or_default()
    }

    /// What an endpoint of a link is built for, as far as its timers depend on it; with one service
    /// only. `hop` is the link and whether it transmits on the forward direction.
    pub fn site(&self, scenario: &Scenario, hop: Hop, service: Option<usize>) -> Site {
        let (index, is_forward) = hop;
        let interval = |load: &Load| load.interval[usize::from(!is_forward)];
        let loads = &self.loads[index];
        let (packet, interval) = match service {
            Some(service) => (loads[service].packet, interval(&loads[service])),
            None => (self.largest_packet(index), loads.iter().filter_map(interval).max()),
        };
        link_site(scenario, hop, packet, interval)
    }
}

/// What an endpoint is built for at the end of a link that transmits on `hop`, where packets of at most
/// `packet` cross it, those of a constant rate every `interval`.
pub fn link_site(scenario: &Scenario, hop: Hop, packet: Bytes, interval: Option<Duration>) -> Site {
    let (index, is_forward) = hop;
    let link = &scenario.links[index];
    let radio_frame = link.radio.map(|radio| scenario.radios[radio].keys.frame);
    // What is sent in a radio frame arrives when that is over.
    let air = |side: &Direction| {
        let Air { rate, delay } = side.air();
        Air { rate, delay: delay + radio_frame.unwrap_or_default() }
    };
    let (forward, reverse) = (air(&link.forward), air(&link.reverse));
    let (own, other) = if is_forward { (forward, reverse) } else { (reverse, forward) };
    Site {
        own,
        other,
        radio_frame,
        packet,
        interval,
        header: link.header,
        identifier: Bytes::default(),
        wait: Duration::ZERO,
        own_wait: Duration::ZERO,
        turn: Duration::ZERO,
        repair: [Duration::ZERO; 2],
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    #[test]
    fn a_link_of_the_way_back_alone_has_packets_too() {
        let link = |name: &str, a: &str, b: &str| {
            format!(
                "[link.{name}]\nbetween = [\"{a}\", \"{b}\"]\nrate = \"1 Mbps\"\ndelay = \"1 ms\"\n"
            )
        };
        // Both ways take the link that stands first in the file.
        let text = [
            "name = \"ring\"\n".to_owned(),
            link("sa", "s", "a"),
            link("bc", "b", "c"),
            link("sb", "s", "b"),
            link("ac", "a", "c"),
            "[flow.f]\nfrom = \"s\"\nto = \"c\"\n".to_owned(),
            "transport = { kind = \"tcp\", variant = \"sack\", profile = \"rfc\", timestamps = true }\n".to_owned(),
            "app = { kind = \"file\", size = \"1 MB\" }\n".to_owned(),
        ]
        .concat();
        let document = Scenario::from_toml(&text, Path::new(".")).expect("a scenario");
        let scenario = document.points().expect("a point").remove(0).scenario;
        let plan = Plan::new(&scenario);
        let packets = [0, 1, 2, 3].map(|link| plan.largest_packet(link).get());
        // 1448 + 40 + 12 bytes of data; 40 + 12 + 28 of an acknowledgment with three blocks.
        assert_eq!(packets, [1500, 80, 80, 1500]);
    }
}
