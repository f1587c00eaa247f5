//! Changes of the links during a run: of the keys `rate`, `delay` and `errors`, and pauses.
//!
//! A frame in transmission continues at the new rate. Frames stay in order if the delay decreases.
//! Times of a changing rate or delay are those of the run.
//!
//! Not changed: timers of link protocols, which are derived from the scenario at the start; all other
//! keys.

use super::refusal::Refused;
use lasthop_base::rng::Streams;
use lasthop_base::units::Duration;
use lasthop_link::channel::Channel;
use lasthop_link::queue::{PropagationDelay, Transmitter};
use lasthop_sim::scenario::{Link, Scenario, ScenarioError};
use lasthop_sim::sim::ids::Side;
use serde_json::Value;
use std::path::Path;

/// Maximum duration of a pause.
const LONGEST_PAUSE: Duration = Duration::from_secs(86_400);

/// A change of the links.
#[derive(Clone, Debug, PartialEq)]
pub enum Change {
    /// The links have the rates, delays and error processes of this scenario.
    Scenario(Box<Scenario>),
    /// Links do not transmit for a time: all, or the one with this index.
    Pause(Option<usize>, Duration),
}

/// A change of one end of a link.
#[derive(Clone, Debug)]
#[expect(clippy::large_enum_variant, reason = "a few values per command of a user")]
pub(crate) enum EndChange {
    /// It does not transmit for a time.
    Pause(Duration),
    /// New parts; `None`: unchanged.
    Keys {
        transmitter: Option<Transmitter>,
        propagation: Option<PropagationDelay>,
        channel: Option<Channel>,
    },
}

impl Change {
    /// Reads a change of `scenario`: an object with `scenario`, or with `pause_ns` and `link`, a
    /// name or null. File names are relative to `base`.
    ///
    /// # Errors
    /// If the text is not such an object, or the new scenario is invalid.
    pub fn read(text: &str, base: &Path, scenario: &Scenario) -> Result<Self, ScenarioError> {
        let wrong = |key: &str, found: &Value, expected: &str| {
            ScenarioError::new(key, found.to_string(), expected)
        };
        let value: Value = serde_json::from_str(text)
            .map_err(|error| wrong("change", &Value::String(error.to_string()), "a JSON object"))?;
        if !value["scenario"].is_null() {
            let points = Scenario::from_json(value["scenario"].clone(), base)?.points()?;
            let point = points.into_iter().next();
            let point = point.ok_or_else(|| wrong("change", &Value::Null, "a scenario"))?;
            return Ok(Change::Scenario(Box::new(point.scenario)));
        }
        let time = value["pause_ns"].as_u64().map(Duration::from_nanos);
        let time = time.filter(|&time| time <= LONGEST_PAUSE);
        let time = time.ok_or_else(|| wrong("pause", &value["pause_ns"], "up to 1 day"))?;
        let link = match &value["link"] {
            Value::Null => None,
            name => {
                let mut links = scenario.links.iter();
                let found = links.position(|link| Some(link.name.as_str()) == name.as_str());
                Some(found.ok_or_else(|| wrong("link", name, "the name of a link"))?)
            }
        };
        Ok(Change::Pause(link, time))
    }

    /// Returns the changes of the ends of links. `number` counts earlier changes: each new error
    /// process has its own random numbers.
    pub(crate) fn of_links(
        &self,
        scenario: &Scenario,
        streams: Streams,
        number: u64,
    ) -> Result<Vec<(usize, Side, EndChange)>, Refused> {
        let mut changes = Vec::new();
        match self {
            Change::Pause(only, time) => {
                let is_paused = |index: &usize| only.is_none_or(|only| only == *index);
                let mut paused = (0..scenario.links.len()).filter(is_paused);
                if let Some(index) = paused.find(|&index| scenario.links[index].wlan.is_some()) {
                    let key = format!("link.{}", scenario.links[index].name);
                    let allowed = "the name of a point-to-point link: WLANs cannot be interrupted";
                    return Err(Refused::new(key, "a link of a WLAN", allowed));
                }
                for index in 0..scenario.links.len() {
                    if only.is_none_or(|only| only == index) {
                        changes
                            .extend(Side::BOTH.map(|side| (index, side, EndChange::Pause(*time))));
                    }
                }
            }
            Change::Scenario(new) => {
                check(scenario, new)?;
                for (index, (old, new)) in scenario.links.iter().zip(new.links.iter()).enumerate() {
                    for side in Side::BOTH {
                        if let Some(change) = of_end(old, new, side, streams, number)? {
                            changes.push((index, side, change));
                        }
                    }
                }
            }
        }
        Ok(changes)
    }
}

/// Checks that the links differ only in keys that may change.
fn check(old: &Scenario, new: &Scenario) -> Result<(), Refused> {
    let allowed = "changes of rate, delay or errors of a link during a run";
    if old.wlans != new.wlans {
        let found = "a change of a WLAN";
        return Err(Refused::new("wlan", found, allowed));
    }
    if old.links.len() != new.links.len() {
        return Err(Refused::new("link", "another set of links", allowed));
    }
    for (old, new) in old.links.iter().zip(new.links.iter()) {
        let mut same = new.clone();
        for (own, old) in [(&mut same.forward, &old.forward), (&mut same.reverse, &old.reverse)] {
            own.rate = old.rate;
            own.rate_changes.clone_from(&old.rate_changes);
            own.delay = old.delay;
            own.delay_changes.clone_from(&old.delay_changes);
            own.errors.clone_from(&old.errors);
        }
        if same != *old {
            let key = format!("link.{}", old.name);
            return Err(Refused::new(key, "a change of another key", allowed));
        }
    }
    Ok(())
}

/// Returns the change of one end of a link, if any.
fn of_end(
    old: &Link,
    new: &Link,
    side: Side,
    streams: Streams,
    number: u64,
) -> Result<Option<EndChange>, Refused> {
    let (was, now) = match side {
        Side::Forward => (&old.forward, &new.forward),
        Side::Reverse => (&old.reverse, &new.reverse),
    };
    let rate = was.rate != now.rate || was.rate_changes != now.rate_changes;
    let delay = was.delay != now.delay || was.delay_changes != now.delay_changes;
    let channel = if was.errors == now.errors {
        None
    } else {
        let component = format!("link.{}.{} change {number}", new.name, side.word());
        let channel = now.errors.build(&streams, &component).map_err(|error| Refused {
            key: format!("link.{}.errors", new.name),
            problem: error.to_string(),
        })?;
        Some(channel)
    };
    let is_changed = rate || delay || channel.is_some();
    Ok(is_changed.then(|| EndChange::Keys {
        transmitter: rate.then(|| now.transmitter()),
        propagation: delay.then(|| now.propagation()),
        channel,
    }))
}
