//! The checks that concern more than one key.

use super::model::{Flow, Scenario, Transport};
use super::routes::Routes;
use super::tcp_rules;
use super::transport::TcpPackets;
use crate::app::App;
use lasthop_base::schema::error::{ScenarioError, suggestion};
use lasthop_base::units::Bytes;

impl Scenario {
    /// What no single key shows.
    pub(super) fn check(&self) -> Result<(), ScenarioError> {
        let routes = Routes::new(self);
        for index in 0..self.links.len() {
            self.check_agents(&routes, index)?;
        }
        for flow in &self.flows {
            self.check_flow(&routes, flow)?;
        }
        let run = &self.run;
        let ends_by_itself = self.flows.iter().any(|flow| flow.app.ends());
        match run.duration {
            None if !ends_by_itself => Err(ScenarioError::new(
                "run.duration",
                "nothing (the key is missing), and no flow that ends by itself",
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
        let path = |key: &str| format!("flow.{}.{key}", flow.name);
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
        if let Some(end) = self.run.duration
            && flow.start >= end
        {
            return Err(ScenarioError::new(
                path("start"),
                quoted(flow.start),
                format!("a time before run.duration, {}", quoted(end)),
            ));
        }
        if flow.start >= self.run.max_time {
            return Err(ScenarioError::new(
                path("start"),
                quoted(flow.start),
                format!("a time before run.max_time, {}", quoted(self.run.max_time)),
            ));
        }
        match (&flow.transport, flow.app.packet()) {
            (Transport::Udp | Transport::UdpLite, None) => Err(ScenarioError::new(
                path("app.kind"),
                format!("{:?} over {}", flow.app.kind(), flow.transport.kind()),
                format!(
                    "{} over udp or udp-lite; {} need transport kind \"tcp\"",
                    listed(App::DATAGRAMS, "or"),
                    listed(App::OVER_TCP, "and"),
                ),
            )),
            (Transport::Tcp(_), Some(_)) => Err(ScenarioError::new(
                path("app.kind"),
                format!("{:?} over tcp", flow.app.kind()),
                format!(
                    "{} over tcp; {} need transport kind \"udp\" or \"udp-lite\"",
                    listed(App::OVER_TCP, "or"),
                    listed(App::DATAGRAMS, "and"),
                ),
            )),
            (Transport::Tcp(tcp), None) => {
                tcp_rules::check(tcp, &path("transport"))?;
                let TcpPackets { data, control, ack } = TcpPackets::new(&tcp.config());
                let key = match (tcp.segment, tcp.header) {
                    (None, Some(_)) => "transport.header",
                    _ => "transport.segment",
                };
                let back = routes.route(&flow.to, &flow.from);
                self.check_size(&route, &path(key), data)?;
                let mut opening = control;
                if flow.app.sends_back() {
                    // Requests are data too, and replies are acknowledged.
                    self.check_size(&back, &path(key), data)?;
                    opening = ack;
                }
                self.check_size(&route, &path("transport.ack_size"), opening)?;
                self.check_size(&back, &path("transport.ack_size"), ack)
            }
            (Transport::Udp | Transport::UdpLite, Some(packet)) => {
                flow.app.check(&path("app"))?;
                self.check_size(&route, &path("app.packet"), packet)
            }
        }
    }

    /// No link on the route may be too narrow for such a packet.
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
                        format!("{most}, what radio.{name}.slot takes beside the frame header")
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

/// A quantity as the scenario would write it.
pub(super) fn quoted(quantity: impl std::fmt::Display) -> String {
    format!("\"{quantity}\"")
}

/// Words in quotes, the last one after `word`: `"a", "b" or "c"`.
fn listed(words: &[&str], word: &str) -> String {
    let quoted: Vec<_> = words.iter().map(|one| format!("{one:?}")).collect();
    match quoted.split_last() {
        Some((last, [])) => last.clone(),
        Some((last, others)) => format!("{} {word} {last}", others.join(", ")),
        None => String::new(),
    }
}
