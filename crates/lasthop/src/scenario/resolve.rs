//! From the keys of a document to the resolved model, where the two differ.

use super::model::{
    Direction, Errors, Flow, FlowKeys, GilbertElliott, GilbertElliottKeys, Link, LinkKeys,
    LinkPreset, Reverse, Scenario, ScenarioKeys, Trace, TraceKeys,
};
use super::services::LinkProtocol;
use super::sweep::Sweep;
use crate::channel::{CsvColumn, LossRecord, TraceError};
use crate::link::Protocol;
use crate::schema::error::ScenarioError;
use crate::schema::keys::{
    Field, Key, Limits, NAME_ALLOWED, Node, Read, Shape, Table, allowed, is_name,
};
use crate::schema::quantity::LinkRate;
use crate::units::{Bytes, Duration, Probability};
use serde_json::{Map, Value};

/// What a line of a loss trace may say.
const OUTCOMES: &str = "1 or lost for a lost frame, 0 or ok for one that arrived";

/// Reads a table of named tables.
pub(super) fn read_map<T: Table>(node: &Node<'_>) -> Read<Vec<T>> {
    let allowed = format!("at least one table [{}.NAME]", node.path);
    let tables = node.object(&allowed)?;
    if tables.is_empty() {
        return Err(node.wrong(allowed));
    }
    let mut items = Vec::with_capacity(tables.len());
    for (name, value) in tables {
        if !is_name(name) {
            return Err(node.error(format!("the name {name:?}"), NAME_ALLOWED));
        }
        let child = node.child(name, value);
        child.only(T::KEYS, false)?;
        items.push(T::read(&child)?);
    }
    Ok(items)
}

impl Field for Vec<Link> {
    const SHAPE: Shape = Shape::Map(LinkKeys::KEYS);
    fn read(node: &Node<'_>, _: Limits) -> Read<Self> {
        read_map(node)
    }
    fn write(&self) -> Value {
        Value::Object(self.iter().map(|link| (link.name.clone(), link.write().into())).collect())
    }
}

impl Field for Vec<Flow> {
    const SHAPE: Shape = Shape::Map(FlowKeys::KEYS);
    fn read(node: &Node<'_>, _: Limits) -> Read<Self> {
        read_map(node)
    }
    fn write(&self) -> Value {
        Value::Object(self.iter().map(|flow| (flow.name.clone(), flow.write().into())).collect())
    }
}

impl Table for Link {
    const KEYS: &'static [Key] = LinkKeys::KEYS;

    fn read(node: &Node<'_>) -> Read<Self> {
        let mut keys = LinkKeys::read(node)?;
        check_errors(&node.child_path("errors"), &mut keys.errors, None)?;
        if let Some(errors) = keys.reverse.as_mut().and_then(|reverse| reverse.errors.as_mut()) {
            let path = format!("{}.errors", node.child_path("reverse"));
            check_errors(&path, errors, None)?;
        }
        let header = match (&keys.protocol, keys.header) {
            (LinkProtocol::One(protocol), header) => header.unwrap_or(protocol.default_header()),
            (LinkProtocol::Services(_), None) => Bytes::default(),
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
            node.key_error(key, "nothing (the key is missing)", wanted)
        };
        let rate = keys.rate.map(|rate| rate.0).or(preset.map(|(rate, _, _)| rate));
        let delay = keys.delay.or(preset.map(|(_, delay, _)| delay));
        let forward = Direction {
            rate: rate.ok_or_else(|| missing("rate"))?,
            delay: delay.ok_or_else(|| missing("delay"))?,
            queue: keys.queue,
            errors: keys.errors,
        };
        let reverse = match keys.reverse {
            None => forward.clone(),
            Some(different) => Direction {
                rate: different.rate.map_or(forward.rate, |rate| rate.0),
                delay: different.delay.unwrap_or(forward.delay),
                queue: different.queue.unwrap_or(forward.queue),
                errors: different.errors.unwrap_or_else(|| forward.errors.clone()),
            },
        };
        check_unlimited(node, &keys.protocol, [&forward, &reverse])?;
        let path = node.child_path("protocol");
        let airs = [forward.air(), reverse.air()];
        match &keys.protocol {
            LinkProtocol::One(protocol) => {
                protocol.check(&path, Bytes::default(), airs)?;
            }
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
            between: keys.between,
            forward,
            reverse,
            protocol: keys.protocol,
            agent: keys.agent,
            header,
            max_payload: keys.max_payload.or(preset.map(|(_, _, payload)| payload)),
        })
    }

    fn write(&self) -> Map<String, Value> {
        let different = Reverse {
            rate: (self.reverse.rate != self.forward.rate).then_some(LinkRate(self.reverse.rate)),
            delay: (self.reverse.delay != self.forward.delay).then_some(self.reverse.delay),
            queue: (self.reverse.queue != self.forward.queue).then_some(self.reverse.queue),
            errors: (self.reverse.errors != self.forward.errors)
                .then(|| self.reverse.errors.clone()),
        };
        let keys = LinkKeys {
            between: self.between.clone(),
            preset: None,
            rate: Some(LinkRate(self.forward.rate)),
            delay: Some(self.forward.delay),
            queue: self.forward.queue,
            header: matches!(self.protocol, LinkProtocol::One(_)).then_some(self.header),
            max_payload: self.max_payload,
            protocol: self.protocol.clone(),
            agent: self.agent.clone(),
            errors: self.forward.errors.clone(),
            reverse: (self.forward != self.reverse).then_some(different),
        };
        keys.write()
    }
}

/// What concerns several keys of an error process; `slot` is what a slotted one has by default.
pub(super) fn check_errors(path: &str, errors: &mut Errors, slot: Option<Duration>) -> Read<()> {
    let Errors::SlottedGilbertElliott(chain) = errors else { return Ok(()) };
    chain.slot = chain.slot.or(slot);
    if chain.slot.is_none() {
        return Err(ScenarioError::new(
            format!("{path}.slot"),
            "nothing (the key is missing)",
            "a duration such as \"10 ms\"; only on a radio it has a default, the radio's frame",
        ));
    }
    if chain.stay_good.get() == 1.0 && chain.stay_bad.get() == 1.0 {
        return Err(ScenarioError::new(
            format!("{path}.stay_bad"),
            "100 % beside stay_good 100 %",
            "below 100 % where the good state never ends",
        ));
    }
    Ok(())
}

/// Where frames take no time, protocols have nothing to derive their timers from, and only a delay
/// lets the clock go on.
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
        let kind = match protocol {
            LinkProtocol::One(Protocol::Raw(_)) => None,
            LinkProtocol::One(protocol) => Some(protocol.kind()),
            LinkProtocol::Services(_) => Some("services"),
        };
        if let Some(kind) = kind {
            let found = format!("\"unlimited\" with protocol kind {kind:?}");
            let allowed = "a rate such as \"64 kbps\"; \"unlimited\" needs protocol kind \"raw\"";
            return error("rate", found, allowed);
        }
        if direction.delay == Duration::ZERO {
            let found = "\"0 s\" with rate \"unlimited\"".to_owned();
            return error("delay", found, "more than zero where the rate is \"unlimited\"");
        }
    }
    Ok(())
}

impl Table for Flow {
    const KEYS: &'static [Key] = FlowKeys::KEYS;

    fn read(node: &Node<'_>) -> Read<Self> {
        let FlowKeys { from, to, start, service, transport, app } = FlowKeys::read(node)?;
        Ok(Flow { name: node.name().to_owned(), from, to, start, service, transport, app })
    }

    fn write(&self) -> Map<String, Value> {
        let Flow { name: _, from, to, start, service, transport, app } = self.clone();
        FlowKeys { from, to, start, service, transport, app }.write()
    }
}

impl Table for Scenario {
    const KEYS: &'static [Key] = ScenarioKeys::KEYS;

    fn read(node: &Node<'_>) -> Read<Self> {
        let is_missing = |key: &str| node.value.get(key).is_none();
        if !is_missing("name") && is_missing("link") && is_missing("radio") {
            let allowed = "at least one table [link.NAME] or [radio.NAME]";
            return Err(node.key_error("link", "nothing (the key is missing)", allowed));
        }
        let ScenarioKeys { name, description, link, radio, flow: flows, sweep: _, run } =
            ScenarioKeys::read(node)?;
        let (mut links, radios) = (link.unwrap_or_default(), radio.unwrap_or_default());
        for radio in &radios {
            if links.iter().any(|link| link.name == radio.name) {
                let path = node.child("radio", node.value).child_path(&radio.name);
                let found = format!("the name {:?}, which a link has too", radio.name);
                return Err(ScenarioError::new(path, found, "a name that no link has"));
            }
        }
        links.extend(radios.iter().enumerate().flat_map(|(index, radio)| radio.links(index)));
        Ok(Scenario { name, description, links, radios, flows, run })
    }

    fn write(&self) -> Map<String, Value> {
        let Scenario { name, description, mut links, radios, flows: flow, run } = self.clone();
        links.retain(|link| link.radio.is_none());
        let link = (!links.is_empty()).then_some(links);
        let radio = (!radios.is_empty()).then_some(radios);
        let sweep = Sweep::default();
        let keys = ScenarioKeys { name, description, link, radio, flow, sweep, run };
        let mut map = keys.write();
        map.shift_remove("sweep");
        map
    }
}

impl Table for GilbertElliott {
    const KEYS: &'static [Key] = GilbertElliottKeys::KEYS;

    fn read(node: &Node<'_>) -> Read<Self> {
        const PAIRS: &str = "either p_good_to_bad and p_bad_to_good, or mean_loss and mean_burst";
        let keys = GilbertElliottKeys::read(node)?;
        let steps = keys.p_good_to_bad.is_some() || keys.p_bad_to_good.is_some();
        let means = keys.mean_loss.is_some() || keys.mean_burst.is_some();
        if steps == means {
            let found = if means { "keys of both forms" } else { "neither" };
            return Err(node.error(found, PAIRS));
        }
        let missing = |key: &str| node.key_error(key, "nothing (the key is missing)", PAIRS);
        let zero = Probability::default();
        // A frame is certainly lost in the bad state unless told otherwise.
        let one = Probability::new(1.0).unwrap_or_default();
        if steps {
            return Ok(GilbertElliott {
                p_good_to_bad: keys.p_good_to_bad.ok_or_else(|| missing("p_good_to_bad"))?,
                p_bad_to_good: keys.p_bad_to_good.ok_or_else(|| missing("p_bad_to_good"))?,
                loss_good: keys.loss_good.unwrap_or(zero),
                loss_bad: keys.loss_bad.unwrap_or(one),
            });
        }
        for (key, value) in [("loss_good", keys.loss_good), ("loss_bad", keys.loss_bad)] {
            if let Some(value) = value {
                let allowed = "only with p_good_to_bad and p_bad_to_good";
                return Err(node.key_error(key, value.to_string(), allowed));
            }
        }
        let loss = keys.mean_loss.ok_or_else(|| missing("mean_loss"))?;
        let burst = keys.mean_burst.ok_or_else(|| missing("mean_burst"))?.0;
        if loss.get() >= 1.0 {
            let allowed = "a probability below 1, such as \"2.5 %\"";
            return Err(node.key_error("mean_loss", loss.to_string(), allowed));
        }
        // The share of bad steps is p / (p + r); a burst lasts 1 / r steps in the mean.
        let p = loss.get() / ((1.0 - loss.get()) * burst);
        let feasible = Probability::new(p).zip(Probability::new(1.0 / burst));
        let Some((p_good_to_bad, p_bad_to_good)) = feasible else {
            let least = loss.get() / (1.0 - loss.get());
            return Err(node.key_error(
                "mean_burst",
                burst.to_string(),
                format!(
                    "at least {least:.6} where mean_loss is {loss}: mean_loss / ((1 - mean_loss) \
                     * mean_burst) may not be above 1"
                ),
            ));
        };
        Ok(GilbertElliott { p_good_to_bad, p_bad_to_good, loss_good: zero, loss_bad: one })
    }

    fn write(&self) -> Map<String, Value> {
        let keys = GilbertElliottKeys {
            p_good_to_bad: Some(self.p_good_to_bad),
            p_bad_to_good: Some(self.p_bad_to_good),
            loss_good: Some(self.loss_good),
            loss_bad: Some(self.loss_bad),
            mean_loss: None,
            mean_burst: None,
        };
        keys.write()
    }
}

impl Table for Trace {
    const KEYS: &'static [Key] = TraceKeys::KEYS;

    fn read(node: &Node<'_>) -> Read<Self> {
        let keys = TraceKeys::read(node)?;
        let path = node.base_dir.join(&keys.file);
        let text = std::fs::read_to_string(&path).map_err(|error| {
            node.key_error(
                "file",
                format!("{:?}, which cannot be read ({error})", keys.file),
                format!("a text file, relative to {}", node.base_dir.display()),
            )
        })?;
        let record = match &keys.column {
            None => LossRecord::parse_text(&text),
            Some(name) => LossRecord::parse_csv(&text, &CsvColumn::Named(name.clone())),
        };
        let record = record.map_err(|error| {
            let in_line =
                |found: String, line| format!("{found} in line {line} of {:?}", keys.file);
            let (key, found, allowed) = match error {
                TraceError::NoSuchColumn { wanted, found } => {
                    let names: String = found.join(", ").chars().take(200).collect();
                    ("column", format!("{wanted:?}"), format!("one of the file's columns: {names}"))
                }
                TraceError::Outcome { line, found } => {
                    ("file", in_line(found, line), OUTCOMES.to_owned())
                }
                TraceError::TooFewColumns { line, found, needed } => {
                    let found = format!("{found} column{}", if found == 1 { "" } else { "s" });
                    ("file", in_line(found, line), format!("at least {needed} columns"))
                }
                TraceError::Quote { line } => {
                    let found = in_line("a stray double quote".to_owned(), line);
                    ("file", found, "cells that are quoted as a whole".to_owned())
                }
                TraceError::Empty | TraceError::ColumnZero => {
                    let found = format!("no frame in {:?}", keys.file);
                    ("file", found, format!("one line a frame: {OUTCOMES}"))
                }
            };
            node.key_error(key, found, allowed)
        })?;
        Ok(Trace { file: keys.file.into(), column: keys.column, at_end: keys.at_end, record })
    }

    fn write(&self) -> Map<String, Value> {
        let keys = TraceKeys {
            file: self.file.to_string_lossy().into_owned(),
            column: self.column.clone(),
            at_end: self.at_end,
        };
        keys.write()
    }
}

impl Errors {
    /// The recording, if the errors come from one.
    pub(super) fn trace(&self) -> Option<&Trace> {
        match self {
            Errors::Trace(trace) => Some(trace),
            _ => None,
        }
    }
}
