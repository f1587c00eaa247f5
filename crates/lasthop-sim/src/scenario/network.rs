//! The checks that concern more than one key.

use super::model::{Flow, PACKET, Profile, Scenario, Tcp, Transport};
use super::routes::Routes;
use super::transport::TcpPackets;
use crate::app::App;
use lasthop_base::schema::error::{ScenarioError, suggestion};
use lasthop_base::schema::quantity::Window;
use lasthop_base::units::Bytes;
use lasthop_tcp::config::{LossDetection, RecoveryKind, UndoKind};
use lasthop_tcp::law::LawKind;

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
                check_tcp(tcp, &path("transport"))?;
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

fn check_tcp(tcp: &Tcp, path: &str) -> Result<(), ScenarioError> {
    let error = |key: &str, found: String, allowed: String| {
        Err(ScenarioError::new(format!("{path}.{key}"), found, allowed))
    };
    let config = tcp.config();
    if !tcp.variant.is_of_hosts() && tcp.profile == Profile::Linux {
        return error(
            "variant",
            format!("{:?} with profile \"linux\", the default", tcp.variant.word()),
            "a variant that a Linux host has, such as \"cubic\", or profile \"rfc\" or \"ns-2\""
                .to_owned(),
        );
    }
    if let Some(sack) = tcp.sack
        && tcp.profile != Profile::Linux
    {
        return error(
            "sack",
            format!("{sack} with profile {:?}", tcp.profile.word()),
            "only with profile \"linux\"; elsewhere variants \"sack\" and \"cubic\" have it"
                .to_owned(),
        );
    }
    if tcp.autotuning == Some(true) && !config.autotuning {
        let found = match tcp.profile {
            Profile::Linux => "true beside receive_window".to_owned(),
            other => format!("true with profile {:?}", other.word()),
        };
        let allowed = "false, or profile \"linux\" without receive_window".to_owned();
        return error("autotuning", found, allowed);
    }
    if let Some(offload) = tcp.segmentation_offload
        && !config.autotuning
    {
        return error(
            "segmentation_offload",
            format!("{offload} without autotuning"),
            "only with profile \"linux\" without receive_window, whose hosts have it".to_owned(),
        );
    }
    if let Some(tick) = tcp.timer_tick
        && tcp.profile != Profile::Linux
    {
        return error(
            "timer_tick",
            format!("{tick} with profile {:?}", tcp.profile.word()),
            "only with profile \"linux\"".to_owned(),
        );
    }
    if let Some(recovery) = tcp.sack_recovery
        && tcp.profile == Profile::Linux
        && config.recovery != RecoveryKind::RackTlp
    {
        return error(
            "sack_recovery",
            format!("{:?} with profile \"linux\"", recovery.word()),
            "\"rack-tlp\"".to_owned(),
        );
    }
    if let Some(recovery) = tcp.sack_recovery
        && tcp.profile != Profile::Linux
        && !tcp.variant.has_sack()
    {
        return error(
            "sack_recovery",
            format!("{:?} with variant {:?}", recovery.word(), tcp.variant.word()),
            "a variant that uses selective acknowledgments, such as \"sack\"".to_owned(),
        );
    }
    for (key, is_set) in [("eln_filter", tcp.eln_filter.is_some()), ("ersn", tcp.ersn.is_some())] {
        if is_set && config.recovery != RecoveryKind::Esack {
            return error(
                key,
                format!("this key with variant {:?}", tcp.variant.word()),
                "only with variant \"esack\" or sack_recovery = \"esack\"".to_owned(),
            );
        }
    }
    if matches!(config.law, LawKind::LtTcp(_)) && (tcp.profile != Profile::Rfc || config.fin) {
        return error(
            if tcp.law.is_some() { "law" } else { "variant" },
            match tcp.profile {
                Profile::Rfc => "\"lt-tcp\" with fin = true".to_owned(),
                profile => format!("\"lt-tcp\" with profile {:?}", profile.word()),
            },
            "profile \"rfc\" without fin".to_owned(),
        );
    }
    if config.loss_detection != LossDetection::Duplicates
        && config.recovery != RecoveryKind::Sack6675
    {
        let allowed = "only with recovery by SACK as RFC 6675 says: profile \"rfc\" or \"ns-2\", a variant that uses \
                       selective acknowledgments, and no other sack_recovery";
        return match tcp.loss_detection {
            Some(detection) => {
                error("loss_detection", format!("{:?}", detection.word()), allowed.to_owned())
            }
            None => error("variant", format!("{:?}", tcp.variant.word()), allowed.to_owned()),
        };
    }
    if let Some(recovery) = tcp.sack_recovery
        && !tcp.variant.is_of_hosts()
    {
        return error(
            "sack_recovery",
            format!("{:?} with variant {:?}", recovery.word(), tcp.variant.word()),
            "nothing: that variant is a recovery of its own".to_owned(),
        );
    }
    if config.law.reads_arrivals() && !config.timestamps {
        return error(
            "timestamps",
            format!(
                "false with the law {:?}, which goes by when segments arrived",
                config.law.kind()
            ),
            "true".to_owned(),
        );
    }
    if config.ecn && config.one_way && tcp.ecn.is_none() {
        return error(
            if tcp.law.is_some() { "law" } else { "variant" },
            format!(
                "{:?}, which needs marks, with profile {:?}",
                config.law.kind(),
                tcp.profile.word()
            ),
            "profile \"rfc\" or \"linux\"".to_owned(),
        );
    }
    if config.ecn && config.one_way {
        return error(
            "ecn",
            format!("true with profile {:?}", tcp.profile.word()),
            "false, or profile \"rfc\" or \"linux\"".to_owned(),
        );
    }
    let knows_abe = matches!(config.law, LawKind::Reno(_) | LawKind::Cubic(_))
        && tcp.profile == Profile::Rfc
        && config.ecn;
    if config.abe && !knows_abe {
        return error(
            "abe",
            "true without what it changes".to_owned(),
            "false, or ecn = true, profile \"rfc\" and the law \"reno\" or \"cubic\"".to_owned(),
        );
    }
    let is_rfc = tcp.profile == Profile::Rfc;
    let counts_segments = config.recovery == RecoveryKind::RackTlp;
    let restarts_as_linux = tcp.profile == Profile::Linux && !config.law.paces();
    for (key, is_on, has_other, other) in [
        ("window_validation", config.window_validation, false, ""),
        (
            "restart_after_idle",
            config.restart_after_idle,
            restarts_as_linux,
            ", or profile \"linux\" with a law that does not pace",
        ),
    ] {
        if is_on && !has_other && (!is_rfc || counts_segments) {
            return error(
                key,
                format!("true with profile {:?}", tcp.profile.word())
                    + if counts_segments && is_rfc { " and RACK-TLP" } else { "" },
                "false, or profile \"rfc\" with another recovery than \"rack-tlp\"".to_owned()
                    + other,
            );
        }
    }
    if config.window_validation && config.restart_after_idle {
        return error(
            "restart_after_idle",
            "true with window_validation, which keeps the window in a pause".to_owned(),
            "one of the two".to_owned(),
        );
    }
    if let Some(most) = config.byte_counting
        && !(is_rfc && matches!(config.law, LawKind::Reno(_)))
    {
        return error(
            "byte_counting",
            format!(
                "{most} with profile {:?} and the law {:?}",
                tcp.profile.word(),
                config.law.kind()
            ),
            "nothing, or profile \"rfc\" and the law \"reno\"".to_owned(),
        );
    }
    if config.undo == UndoKind::All && config.recovery != RecoveryKind::RackTlp {
        return error(
            "undo",
            "\"all\" without RACK-TLP".to_owned(),
            "\"off\", \"eifel\", or sack_recovery = \"rack-tlp\"".to_owned(),
        );
    }
    if config.undo == UndoKind::Eifel && !config.timestamps {
        return error(
            "undo",
            "\"eifel\" without timestamps".to_owned(),
            "\"off\", or timestamps = true".to_owned(),
        );
    }
    let (max, most) = (config.max_rto, tcp.max_rto);
    for (key, set, value) in [
        ("min_rto", tcp.min_rto, config.min_rto),
        ("initial_rto", tcp.initial_rto, config.initial_rto),
    ] {
        if value <= max {
            continue;
        }
        // The key that the scenario gives is the one to change.
        return match (set, most) {
            (None, Some(_)) => {
                error("max_rto", quoted(max), format!("a duration from {key}, {}", quoted(value)))
            }
            _ => error(key, quoted(value), format!("a duration up to max_rto, {}", quoted(max))),
        };
    }
    let windows = [("receive_window", tcp.receive_window), ("initial_window", tcp.initial_window)];
    for (key, window) in windows {
        if let Some(Window::Bytes(bytes)) = window
            && bytes < config.segment
        {
            let allowed = format!("at least one segment, {}", quoted(config.segment));
            return error(key, quoted(bytes), allowed);
        }
    }
    let data = TcpPackets::new(&config).data;
    if data.get() > PACKET.max {
        return error(
            "segment",
            format!("packets of {data}"),
            "segment, header and options together up to 65.535 kB".to_owned(),
        );
    }
    Ok(())
}

/// A quantity as the scenario would write it.
fn quoted(quantity: impl std::fmt::Display) -> String {
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
