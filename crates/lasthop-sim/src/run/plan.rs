//! Properties common to all replications of a point, computed once: the routes of its flows, and
//! the load of its links.

use crate::scenario::{Direction, Flow, Routes, Scenario};
use lasthop_base::units::{Bytes, Duration};
use lasthop_link::link::{Air, Site};

/// A hop: the index of a link, and whether it is used from its first host to its second.
pub(crate) type Hop = (usize, bool);

/// Load of one service of a link. A link with one protocol counts as one service.
#[derive(Clone, Copy, Debug, Default)]
struct Load {
    /// Maximum packet length in either direction.
    packet: Bytes,
    /// The longest packet interval of the constant-rate flows that use the link, in the forward and
    /// in the reverse direction.
    interval: [Option<Duration>; 2],
}

/// Routes and loads of a scenario.
#[derive(Clone, Debug)]
pub(super) struct Plan {
    /// For each flow, the routes from its source to its destination and back.
    routes: Vec<[Vec<Hop>; 2]>,
    /// The loads by link and service.
    loads: Vec<Vec<Load>>,
    has_options: bool,
    has_layers: bool,
}

impl Plan {
    /// Computes the routes of `scenario` and the loads of its links.
    pub fn new(scenario: &Scenario) -> Self {
        let ways = Routes::new(scenario);
        let services = |link: &crate::scenario::Link| link.protocol.service_names().count().max(1);
        let mut loads: Vec<_> =
            scenario.links.iter().map(|link| vec![Load::default(); services(link)]).collect();
        let mut routes = Vec::with_capacity(scenario.flows.len());
        for flow in scenario.flows.iter() {
            let route = [(&flow.from, &flow.to), (&flow.to, &flow.from)]
                .map(|(from, to)| ways.route(from, to));
            // Interval between the packets of a constant-rate flow. The maximum is used, because
            // the slowest flow may send while faster ones are silent.
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

    /// Whether any segment has SACK blocks or timestamps, so that packets need room for them. An
    /// agent's own connections use the options negotiated by the flow on whose route the agent is
    /// located. If this returned `false` wrongly, the run would fail at the first such segment: it
    /// cannot be converted to a packet without room
    /// ([`Extension::narrow`](lasthop_base::packet::Extension)).
    pub fn has_options(&self) -> bool {
        self.has_options
    }

    /// The routes of flow `index` to its destination and back.
    pub fn routes(&self, index: usize) -> &[Vec<Hop>; 2] {
        &self.routes[index]
    }

    /// Number of hops of all routes.
    pub fn hops(&self) -> usize {
        self.routes.iter().flatten().map(Vec::len).sum()
    }

    /// Maximum packet length of all flows over link `index`, from which "auto" timers are computed.
    pub fn largest_packet(&self, index: usize) -> Bytes {
        self.loads[index].iter().map(|load| load.packet).max().unwrap_or_default()
    }

    /// Returns the properties of a link that the timers of an endpoint depend on, for one service
    /// if given. `hop` is the link and whether the endpoint transmits in the forward direction.
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

/// Returns the properties of a link for the endpoint that transmits on `hop`. `packet` is the
/// maximum packet length, and `interval` the packet interval of constant-rate flows.
pub fn link_site(scenario: &Scenario, hop: Hop, packet: Bytes, interval: Option<Duration>) -> Site {
    let (index, is_forward) = hop;
    let link = &scenario.links[index];
    let radio_frame = link.radio.map(|radio| scenario.radios[radio].keys.frame);
    // Data sent in a radio frame arrives at the end of the frame.
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
        // Both routes use the link that comes first in the file.
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
        // Data segments of 1448 + 40 + 12 B; acknowledgments of 40 + 12 + 28 B with three blocks.
        assert_eq!(packets, [1500, 80, 80, 1500]);
    }
}
