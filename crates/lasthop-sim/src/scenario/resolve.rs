//! Conversion of the keys of a document to the resolved model, where they differ.

use super::model::{
    Direction, Flow, FlowKeys, Link, LinkKeys, LinkPreset, Reverse, Scenario, ScenarioKeys,
};
use super::repetition::{Repetition, check_names, tables};
use super::services::LinkProtocol;
use super::sweep::Sweep;
use super::windows::check_ends;
use super::wlan_checks::check_channels;
use lasthop_base::schema::error::ScenarioError;
use lasthop_base::schema::keys::{Key, Node, Read, Table, allowed};
use lasthop_base::schema::named::Named;
use lasthop_base::schema::quantity::LinkRate;
use lasthop_base::schema::shorthand::{OrShort, Shorthand};
use lasthop_base::units::{Bytes, Duration};
use lasthop_link::link::Protocol;
use lasthop_link::queue::{DelayKeys, RateKeys};
use serde_json::{Map, Value};
use std::sync::Arc;

impl Named for Link {
    fn name(&self) -> &str {
        &self.name
    }
}

impl Named for Flow {
    fn name(&self) -> &str {
        &self.name
    }
}

/// Maximum packet length of a link without a preset and `mtu`: the MTU of Ethernet.
pub(crate) const DEFAULT_MTU: Bytes = Bytes::new(1500);

impl Table for Link {
    const KEYS: &'static [Key] = LinkKeys::KEYS;

    fn read(node: &Node<'_>) -> Read<Self> {
        if node.value.get("max_payload").is_some() {
            let allowed = "the key mtu, its name since version 2.0 of the schema";
            return Err(node.key_error("max_payload", "an old key", allowed));
        }
        let mut keys = LinkKeys::read(node)?;
        keys.errors.resolve(&node.child_path("errors"), None)?;
        if let Some(errors) = keys.reverse.as_mut().and_then(|reverse| reverse.errors.as_mut()) {
            let path = format!("{}.errors", node.child_path("reverse"));
            errors.resolve(&path, None)?;
        }
        let header = match (&keys.protocol, keys.header) {
            (LinkProtocol::One(protocol), header) => header.unwrap_or(protocol.default_header()),
            (LinkProtocol::Services(_), None) => Bytes::default(),
            (LinkProtocol::Stack(layers), None) => layers.header(),
            (LinkProtocol::Own(own), _) => own.header(),
            (LinkProtocol::Stack(_), Some(header)) => {
                let found = format!("{header} with a list of protocols");
                let allowed = "no header: that of each layer has its default length";
                return Err(node.key_error("header", found, allowed));
            }
            (LinkProtocol::Services(_), Some(header)) => {
                let allowed = "no header: each service has its own key header, and protocol.\
                               identifier names it";
                let found = format!("{header} with protocol kind \"services\"");
                return Err(node.key_error("header", found, allowed));
            }
        };
        let preset = keys.preset.map(LinkPreset::values);
        let missing = |key: &str| {
            let may_be = |name: &str| {
                let key = LinkKeys::KEYS.iter().find(|key| key.name == name);
                key.map(allowed).unwrap_or_default()
            };
            let wanted = format!("{}; or the key preset, {}", may_be(key), may_be("preset"));
            node.key_error(key, lasthop_base::schema::error::MISSING, wanted)
        };
        let of_preset = preset.map(|(rate, _, _)| RateKeys::from_short(LinkRate(rate)));
        let rate = keys.rate.map(|rate| rate.0).or(of_preset);
        let rate = rate.ok_or_else(|| missing("rate"))?;
        let of_preset = preset.map(|(_, delay, _)| DelayKeys::from_short(delay));
        let delay = keys.delay.map(|delay| delay.0).or(of_preset);
        let delay = delay.ok_or_else(|| missing("delay"))?;
        let forward = Direction {
            rate: rate.mean(),
            rate_changes: rate.to_short().is_none().then_some(rate),
            delay: delay.mean(),
            delay_changes: delay.changes(),
            queue: keys.queue.0,
            errors: keys.errors,
        };
        let reverse = match keys.reverse {
            None => forward.clone(),
            Some(Reverse { rate, delay, queue, errors }) => {
                let rate = rate.map_or_else(|| forward.rate_keys(), |rate| rate.0);
                let delay = delay.map_or_else(|| forward.delay_keys(), |delay| delay.0);
                Direction {
                    rate: rate.mean(),
                    rate_changes: rate.to_short().is_none().then_some(rate),
                    delay: delay.mean(),
                    delay_changes: delay.changes(),
                    queue: queue.map_or_else(|| forward.queue.clone(), |queue| queue.0),
                    errors: errors.unwrap_or_else(|| forward.errors.clone()),
                }
            }
        };
        check_queues(node, [&forward, &reverse])?;
        check_unlimited(node, &keys.protocol, [&forward, &reverse])?;
        let path = node.child_path("protocol");
        let airs = [forward.air(), reverse.air()];
        match &keys.protocol {
            LinkProtocol::One(protocol) => {
                protocol.check(&path, Bytes::default(), airs)?;
            }
            LinkProtocol::Stack(layers) => layers.check(&path, airs)?,
            LinkProtocol::Own(_) => {}
            LinkProtocol::Services(set) => {
                for service in &set.services {
                    let path = format!("{path}.service.{}.protocol", service.name);
                    service.protocol.check(&path, set.identifier, airs)?;
                }
            }
        }
        Ok(Link {
            name: node.name().to_owned(),
            radio: None,
            wlan: None,
            between: keys.between,
            forward,
            reverse,
            protocol: keys.protocol,
            agents: keys.agent,
            header,
            mtu: keys.mtu.or(preset.map(|(_, _, payload)| payload)).or(Some(DEFAULT_MTU)),
            measure: keys.measure,
        })
    }

    fn write(&self) -> Map<String, Value> {
        let different = Reverse {
            rate: (self.reverse.rate_keys() != self.forward.rate_keys())
                .then(|| OrShort(self.reverse.rate_keys())),
            delay: (self.reverse.delay_keys() != self.forward.delay_keys())
                .then(|| OrShort(self.reverse.delay_keys())),
            queue: (self.reverse.queue != self.forward.queue)
                .then(|| OrShort(self.reverse.queue.clone())),
            errors: (self.reverse.errors != self.forward.errors)
                .then(|| self.reverse.errors.clone()),
        };
        let keys = LinkKeys {
            between: self.between.clone(),
            preset: None,
            rate: Some(OrShort(self.forward.rate_keys())),
            delay: Some(OrShort(self.forward.delay_keys())),
            queue: OrShort(self.forward.queue.clone()),
            header: matches!(self.protocol, LinkProtocol::One(_)).then_some(self.header),
            mtu: self.mtu.filter(|&mtu| mtu != DEFAULT_MTU),
            protocol: self.protocol.clone(),
            agent: self.agents.clone(),
            errors: self.forward.errors.clone(),
            measure: self.measure,
            reverse: (self.forward != self.reverse).then_some(different),
        };
        keys.write()
    }
}

/// Performs the checks of the queue disciplines.
fn check_queues(node: &Node<'_>, [forward, reverse]: [&Direction; 2]) -> Read<()> {
    for (direction, at) in [(forward, ""), (reverse, ".reverse")] {
        if !at.is_empty() && reverse.queue == forward.queue {
            continue;
        }
        let path = format!("{}{at}.queue", node.path);
        direction.queue.check(&path)?;
    }
    Ok(())
}

/// Checks directions of unlimited rate: protocols could not derive their timers, and without a
/// delay the simulation would not advance.
fn check_unlimited(
    node: &Node<'_>,
    protocol: &LinkProtocol,
    [forward, reverse]: [&Direction; 2],
) -> Read<()> {
    for (direction, at) in [(forward, ""), (reverse, "reverse.")] {
        if !direction.rate.is_unlimited() || at == "reverse." && forward == reverse {
            continue;
        }
        let error = |key: &str, found: String, allowed: &str| {
            Err(ScenarioError::new(format!("{}.{at}{key}", node.path), found, allowed))
        };
        if [forward, reverse].iter().any(|direction| direction.errors.has_readable_headers()) {
            let found = "\"unlimited\" with errors that leave headers readable".to_owned();
            let allowed =
                "a rate such as \"64 kbps\"; or errors without header and readable_headers";
            return error("rate", found, allowed);
        }
        let kind = match protocol {
            LinkProtocol::One(Protocol::Raw(_)) => None,
            other => Some(other.kind()),
        };
        if let Some(kind) = kind {
            let found = format!("\"unlimited\" with protocol kind {kind:?}");
            let allowed = "a rate such as \"64 kbps\"; \"unlimited\" needs protocol kind \"raw\"";
            return error("rate", found, allowed);
        }
        if direction.delays()[0] == Duration::ZERO {
            let found = "\"0 s\" with rate \"unlimited\"".to_owned();
            return error("delay", found, "more than zero where the rate is \"unlimited\"");
        }
    }
    Ok(())
}

impl Table for Flow {
    const KEYS: &'static [Key] = FlowKeys::KEYS;

    fn read(node: &Node<'_>) -> Read<Self> {
        let FlowKeys {
            from,
            to,
            start,
            start_spread,
            stop,
            service,
            dscp,
            transport,
            app,
            count,
            spacing,
        } = FlowKeys::read(node)?;
        let name = node.name().to_owned();
        let hosts = [from.clone(), to.clone()];
        let repetition = Repetition::read(node, count, spacing, hosts, start)?;
        Ok(Flow {
            name,
            from,
            to,
            start,
            start_spread,
            stop,
            service,
            dscp,
            transport,
            app,
            repetition,
        })
    }

    fn write(&self) -> Map<String, Value> {
        let Flow {
            name: _,
            from,
            to,
            start,
            start_spread,
            stop,
            service,
            dscp,
            transport,
            app,
            repetition,
        } = self.clone();
        let count = repetition.as_ref().map(|repetition| repetition.count);
        let spacing = repetition.and_then(|repetition| repetition.spacing);
        FlowKeys {
            from,
            to,
            start,
            start_spread,
            stop,
            service,
            dscp,
            transport,
            app,
            count,
            spacing,
        }
        .write()
    }
}

impl Table for Scenario {
    const KEYS: &'static [Key] = ScenarioKeys::KEYS;

    fn read(node: &Node<'_>) -> Read<Self> {
        let is_missing = |key: &str| node.value.get(key).is_none();
        let has_none = ["link", "radio", "wlan"].into_iter().all(is_missing);
        if !is_missing("name") && has_none {
            let allowed = "at least one table [link.NAME], [radio.NAME] or [wlan.NAME]";
            return Err(node.key_error("link", lasthop_base::schema::error::MISSING, allowed));
        }
        let ScenarioKeys {
            name,
            description,
            extends: _,
            link,
            radio,
            wlan,
            flow: flows,
            window,
            sweep: _,
            run,
        } = ScenarioKeys::read(node)?;
        let wlans = wlan.unwrap_or_default();
        let (mut links, radios) = (link.unwrap_or_default(), radio.unwrap_or_default());
        for radio in &radios {
            if links.iter().any(|link| link.name == radio.name) {
                let path = node.child("radio", node.value).child_path(&radio.name);
                let found = format!("the name {:?}, which a link has too", radio.name);
                return Err(ScenarioError::new(path, found, "a name that no link has"));
            }
        }
        links.extend(radios.iter().enumerate().flat_map(|(index, radio)| radio.links(index)));
        for wlan in &wlans {
            let is_link = links.iter().any(|link| link.name == wlan.name);
            let is_radio = radios.iter().any(|radio| radio.name == wlan.name);
            if is_link || is_radio {
                let path = node.child("wlan", node.value).child_path(&wlan.name);
                let has_it = if is_link { "a link" } else { "a radio" };
                let found = format!("the name {:?}, which {has_it} has too", wlan.name);
                return Err(ScenarioError::new(path, found, "a name that nothing else has"));
            }
        }
        check_channels(&node.child_path("wlan"), &wlans)?;
        links.extend(wlans.iter().enumerate().flat_map(|(index, wlan)| wlan.links(index)));
        let flows: Arc<[Flow]> = flows.into_iter().flat_map(Flow::expand).collect();
        check_names(&node.child_path("flow"), &flows)?;
        let windows = window.unwrap_or_default();
        check_ends(&node.child_path("window"), &windows, &run)?;
        let links = links.into();
        Ok(Scenario { name, description, links, radios, wlans, flows, windows, run })
    }

    fn write(&self) -> Map<String, Value> {
        let Scenario { name, description, links, radios, wlans, flows, windows, run } =
            self.clone();
        let flow = tables(flows.to_vec());
        let own = links.iter().filter(|link| link.radio.is_none() && link.wlan.is_none());
        let links: Vec<_> = own.cloned().collect();
        let link = (!links.is_empty()).then_some(links);
        let radio = (!radios.is_empty()).then_some(radios);
        let wlan = (!wlans.is_empty()).then_some(wlans);
        let window = (!windows.is_empty()).then_some(windows);
        let sweep = Sweep::default();
        let extends = None;
        let keys = ScenarioKeys {
            name,
            description,
            extends,
            link,
            radio,
            wlan,
            flow,
            window,
            sweep,
            run,
        };
        let mut map = keys.write();
        map.shift_remove("sweep");
        map
    }
}
