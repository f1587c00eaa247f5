//! Checks that concern more than one key.

use super::model::{Flow, Scenario, Transport};
use super::routes::Routes;
use crate::app::App;
use crate::transport::{Carries, Load};
use lasthop_base::schema::error::{ScenarioError, suggestion};
use lasthop_base::units::Bytes;

impl Scenario {
    /// Checks conditions on several keys.
    pub(super) fn check(&self) -> Result<(), ScenarioError> {
        let routes = Routes::new(self);
        for index in 0..self.links.len() {
            self.check_agents(&routes, index)?;
        }
        for flow in self.flows.iter() {
            self.check_flow(&routes, flow)?;
        }
        let run = &self.run;
        let ends_by_itself = self.flows.iter().any(|flow| flow.app.ends());
        match run.duration {
            None if !ends_by_itself => Err(ScenarioError::new(
                "run.duration",
                "no duration and no flow that ends by itself",
                "a duration such as \"1000 s\", or a flow with app kind \"file\"",
            )),
            Some(duration) if duration > run.max_time => Err(ScenarioError::new(
                "run.duration",
                quoted(duration),
                format!("a duration up to run.max_time, {}", quoted(run.max_time)),
            )),
            _ => Ok(()),
        }
    }

    fn check_flow(&self, routes: &Routes<'_>, flow: &Flow) -> Result<(), ScenarioError> {
        let path = |key: &str| format!("flow.{}.{key}", flow.table());
        for (key, host) in [("from", &flow.from), ("to", &flow.to)] {
            if !routes.has_host(host) {
                let hosts = self.hosts();
                return Err(ScenarioError::new(
                    path(key),
                    format!("{host:?}{}", suggestion(host, hosts.iter().copied())),
                    format!("a host of a link: {}", hosts.join(", ")),
                ));
            }
        }
        if flow.from == flow.to {
            return Err(ScenarioError::new(
                path("to"),
                format!("{:?}, which is also from", flow.to),
                "a host other than from",
            ));
        }
        let route = routes.route(&flow.from, &flow.to);
        if route.is_empty() {
            let mut reachable = self.hosts();
            reachable.retain(|host| !routes.route(&flow.from, host).is_empty());
            return Err(ScenarioError::new(
                path("to"),
                format!("{:?}, which no links connect with {:?}", flow.to, flow.from),
                format!("a host that can be reached: {}", reachable.join(", ")),
            ));
        }
        self.check_service(routes, flow)?;
        let last = self.run.max_time;
        let ends = [("run.duration", self.run.duration), ("run.max_time", Some(last))];
        for (name, end) in ends {
            let Some(end) = end else { continue };
            let allowed = || format!("a time before {name}, {}", quoted(end));
            if flow.start >= end {
                return Err(ScenarioError::new(path("start"), quoted(flow.start), allowed()));
            }
            let spread = flow.start_spread.unwrap_or_default();
            if spread.as_nanos() > end.as_nanos() - flow.start.as_nanos() {
                let found = format!("{} after {}", quoted(spread), quoted(flow.start));
                return Err(ScenarioError::new(path("start_spread"), found, allowed()));
            }
        }
        self.check_stop(flow, &path("stop"))?;
        let (carries, kinds) = match flow.app.packet() {
            Some(_) => (Carries::Datagrams, App::DATAGRAMS),
            None => (Carries::Streams, App::OVER_STREAMS),
        };
        if !flow.transport.carries(carries) {
            let (other, others) = match carries {
                Carries::Datagrams => (Carries::Streams, App::OVER_STREAMS),
                Carries::Streams => (Carries::Datagrams, App::DATAGRAMS),
            };
            let found = format!("{:?} over {}", flow.app.kind(), flow.transport.kind());
            let allowed = format!(
                "{} over {}; {} need transport kind {}",
                listed(others, "or"),
                Transport::carrying(other).join(" or "),
                listed(kinds, "and"),
                listed(&Transport::carrying(carries), "or"),
            );
            return Err(ScenarioError::new(path("app.kind"), found, allowed));
        }
        flow.transport.check(&path("transport"))?;
        flow.app.check(&path("app"))?;
        flow.transport.check_load(&path("app"), flow.load())?;
        flow.app.check_transport(&path("app"), flow.transport.features())?;
        let back = routes.route(&flow.to, &flow.from);
        for (key, packet, is_back) in flow.transport.limits(flow.load()) {
            self.check_size(if is_back { &back } else { &route }, &path(key), packet)?;
        }
        Ok(())
    }

    /// Checks that a flow stops after its latest start, by a transport that can discard data.
    fn check_stop(&self, flow: &Flow, path: &str) -> Result<(), ScenarioError> {
        let Some(stop) = flow.stop else { return Ok(()) };
        let start = flow.start + flow.start_spread.unwrap_or_default();
        if stop <= start {
            let allowed = format!("a time after the start of the flow, {}", quoted(start));
            return Err(ScenarioError::new(path, quoted(stop), allowed));
        }
        if flow.transport.tcp().is_some_and(|tcp| tcp.config().sends_blocks()) {
            let found = format!("{} with variant \"lt-tcp\"", quoted(stop));
            let allowed = "no stop, or another variant: coded data cannot be discarded";
            return Err(ScenarioError::new(path, found, allowed));
        }
        Ok(())
    }

    /// Checks that all links of the route can carry such a packet.
    fn check_size(
        &self,
        route: &[(usize, bool)],
        path: &str,
        packet: Bytes,
    ) -> Result<(), ScenarioError> {
        for &(index, _) in route {
            let link = &self.links[index];
            if let Some(most) = link.mtu
                && packet > most
            {
                let limit = match (link.radio, link.wlan) {
                    (None, None) => format!("link.{}.mtu, {most}", link.name),
                    (None, Some(_)) => format!("{most}, what a frame of 802.11 takes"),
                    (Some(radio), _) => {
                        let name = &self.radios[radio].name;
                        format!("{most}, the capacity of radio.{name}.slot after the frame header")
                    }
                };
                return Err(ScenarioError::new(
                    path,
                    format!("packets of {packet}"),
                    format!("packets, headers included, up to {limit}; there is no fragmentation"),
                ));
            }
        }
        Ok(())
    }
}

impl Flow {
    /// Returns the load of its application, on which the packets of its transport depend.
    fn load(&self) -> Load {
        Load { datagram: self.app.packet(), sends_back: self.app.sends_back() }
    }

    /// Returns the sizes of the largest packets from `from` to `to`, and back.
    pub fn largest_packets(&self) -> [Bytes; 2] {
        self.transport.largest_packets(self.load())
    }
}

/// Returns a quantity in the notation of a scenario.
fn quoted(quantity: impl std::fmt::Display) -> String {
    format!("\"{quantity}\"")
}

/// Lists words in quotes, the last one after `word`: `"a", "b" or "c"`.
fn listed(words: &[&str], word: &str) -> String {
    let quoted: Vec<_> = words.iter().map(|one| format!("{one:?}")).collect();
    match quoted.split_last() {
        Some((last, [])) => last.clone(),
        Some((last, others)) => format!("{} {word} {last}", others.join(", ")),
        None => String::new(),
    }
}
