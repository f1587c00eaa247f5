//! Adaptive persistence: what is checked and derived beyond its single keys.

use super::model::{
    AdaptivePersistence, App, Direction, Flow, Governed, Link, Scenario, Transport,
};
use super::routes::Routes;
use super::services::LinkProtocol;
use crate::channel::Errors;
use crate::schema::error::{ScenarioError, suggestion};
use crate::units::{Bytes, Probability};

/// The channel of an agent that does not take it from its link.
const CHANNEL: &str = "a probability such as \"2.5 %\" or 0.025, from 0 to 1; it has a default only \
    where errors of kind \"slotted-gilbert-elliott\" destroy the frames";

/// The channel that an agent reckons with, one step a frame.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct KnownChannel {
    /// Probability that a good frame is followed by a good one.
    pub stay_good: Probability,
    /// Probability that a bad frame is followed by a bad one.
    pub stay_bad: Probability,
    /// Loss in the good state.
    pub loss_good: Probability,
    /// Loss in the bad state.
    pub loss_bad: Probability,
}

impl AdaptivePersistence {
    /// Does it sit at the first host of `link`?
    fn is_first(&self, link: &Link) -> bool {
        self.at.as_ref() == Some(&link.between[0])
    }

    /// Is the direction that it governs the forward one of `link`?
    pub fn governs_forward(&self, link: &Link) -> bool {
        self.is_first(link) == (self.direction == Governed::Outgoing)
    }

    /// The direction of `link` that it governs.
    fn governed<'a>(&self, link: &'a Link) -> &'a Direction {
        if self.governs_forward(link) { &link.forward } else { &link.reverse }
    }

    /// The channel that it reckons with, or the name of a key that is missing.
    pub fn channel(&self, link: &Link) -> Result<KnownChannel, &'static str> {
        let slotted = match &self.governed(link).errors {
            Errors::SlottedGilbertElliott(chain) => Some(chain),
            _ => None,
        };
        Ok(KnownChannel {
            stay_good: self.stay_good.or(slotted.map(|set| set.stay_good)).ok_or("stay_good")?,
            stay_bad: self.stay_bad.or(slotted.map(|set| set.stay_bad)).ok_or("stay_bad")?,
            loss_good: self.loss_good.or(slotted.map(|set| set.loss_good)).ok_or("loss_good")?,
            loss_bad: self.loss_bad.or(slotted.map(|set| set.loss_bad)).ok_or("loss_bad")?,
        })
    }

    /// Link frames of a packet over `link`, whose largest packet is `largest`.
    pub fn pdus(&self, link: &Link, largest: Bytes) -> u32 {
        let payload = match &link.protocol {
            LinkProtocol::One(protocol) => protocol.payload(),
            LinkProtocol::Services(_) => None,
        };
        let pieces = payload.map_or(1, |payload| largest.get().div_ceil(payload.get()).max(1));
        self.pdus.unwrap_or(u32::try_from(pieces).unwrap_or(u32::MAX))
    }
}

impl Scenario {
    /// A limit can be set, follows from what is given, and there is something to learn it from.
    pub(super) fn check_persistence(
        &self,
        routes: &Routes<'_>,
        index: usize,
        set: &AdaptivePersistence,
    ) -> Result<(), ScenarioError> {
        let link = &self.links[index];
        let place = match link.radio {
            None => format!("link.{}", link.name),
            Some(radio) => format!("radio.{}", self.radios[radio].name),
        };
        let error = |key: &str, found: String, allowed: String| {
            Err(ScenarioError::new(format!("{place}.agent.{key}"), found, allowed))
        };
        let missing = || "nothing (the key is missing)".to_owned();
        let ends = format!("one of the two hosts of the link: {}", link.between.join(", "));
        let Some(at) = &set.at else {
            return error("at", missing(), ends);
        };
        if !link.between.contains(at) {
            let near = suggestion(at, link.between.iter().map(String::as_str));
            return error("at", format!("{at:?}{near}"), ends);
        }
        let kind = match &link.protocol {
            LinkProtocol::One(protocol) if protocol.limits_transmissions() => None,
            LinkProtocol::One(protocol) => Some(protocol.kind()),
            LinkProtocol::Services(_) => Some("services"),
        };
        if let Some(kind) = kind {
            return error(
                "kind",
                format!("\"adaptive-persistence\" with protocol kind {kind:?}"),
                "a protocol whose transmissions can be limited: \"stop-and-wait\", \"ideal-sr\", \
                 \"rlc-am\""
                    .to_owned(),
            );
        }
        if set.least_wired_loss > set.greatest_wired_loss {
            let allowed = format!("up to greatest_wired_loss, {}", set.greatest_wired_loss);
            return error("least_wired_loss", set.least_wired_loss.to_string(), allowed);
        }
        let channel = match set.channel(link) {
            Ok(channel) => channel,
            Err(key) => return error(key, missing(), CHANNEL.to_owned()),
        };
        if channel.stay_good.get() >= 1.0 && channel.stay_bad.get() >= 1.0 {
            let allowed = "below 1, or stay_good below 1: a channel that changes";
            return error("stay_bad", channel.stay_bad.to_string(), allowed.to_owned());
        }
        // Of a radio, one station with such a flow will do.
        let alike = self.links.iter().enumerate();
        let mut alike = alike.filter(|&(other, twin)| {
            other == index || link.radio.is_some() && twin.radio == link.radio
        });
        let station =
            |twin: &Link| if link.radio.is_some() { twin.between[0].clone() } else { at.clone() };
        let is_outgoing = set.direction == Governed::Outgoing;
        if !alike.any(|(other, twin)| self.is_heard(routes, other, &station(twin), is_outgoing)) {
            let does = if is_outgoing { "sends data from" } else { "takes data to" };
            return error(
                "at",
                format!("{at:?}, and no flow over tcp that {does} there over this link"),
                "a host where such a flow ends, or the other value of direction".to_owned(),
            );
        }
        Ok(())
    }

    /// Does TCP at host `at` send data over link `index` as its first hop, or get them over it as its
    /// last?
    fn is_heard(&self, routes: &Routes<'_>, index: usize, at: &str, is_outgoing: bool) -> bool {
        let passes = |flow: &Flow, from: &str, to: &str| {
            let end = if is_outgoing { from } else { to };
            if end != at || !matches!(flow.transport, Transport::Tcp(_)) {
                return false;
            }
            let route = routes.route(from, to);
            let hop = if is_outgoing { route.first() } else { route.last() };
            hop.is_some_and(|&(link, _)| link == index)
        };
        self.flows.iter().any(|flow| {
            // Browsers send requests, which are data too.
            passes(flow, &flow.from, &flow.to)
                || matches!(flow.app, App::Web(_)) && passes(flow, &flow.to, &flow.from)
        })
    }
}
