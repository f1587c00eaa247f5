//! Radios: reading, writing, and conversion to one link per station.

use super::model::{Direction, Link, Radio, RadioKeys};
use super::repetition::expand_stations;
use super::services::LinkProtocol;
use lasthop_base::schema::error::ScenarioError;
use lasthop_base::schema::keys::{Key, NAME_ALLOWED, Node, Read, Table, is_name};
use lasthop_base::schema::named::Named;
use lasthop_base::units::{Bytes, Duration, Rate};
use lasthop_link::channel::Errors;
use serde_json::{Map, Value};

impl Named for Radio {
    fn name(&self) -> &str {
        &self.name
    }
}

impl Table for Radio {
    const KEYS: &'static [Key] = RadioKeys::KEYS;

    fn read(node: &Node<'_>) -> Read<Self> {
        let mut keys = RadioKeys::read(node)?;
        if !is_name(&keys.base) {
            return Err(node.key_error("base", format!("{:?}", keys.base), NAME_ALLOWED));
        }
        let count = keys.count.take();
        expand_stations(node, &mut keys.stations, count)?;
        if keys.stations.0.contains(&keys.base) {
            let found = format!("{:?}, which is the base", keys.base);
            return Err(node.key_error("stations", found, "hosts other than the base"));
        }
        // Documents that differ only in notation are equal.
        keys.header = keys.header.or(Some(keys.protocol.default_header()));
        keys.errors.resolve(&node.child_path("errors"), Some(keys.frame))?;
        if let Some(errors) = &mut keys.downlink_errors {
            errors.resolve(&node.child_path("downlink_errors"), Some(keys.frame))?;
        }
        keys.queue.0.check(&node.child_path("queue"))?;
        keys.downlink_errors.take_if(|errors| *errors == keys.errors);
        let radio = Radio { name: node.name().to_owned(), keys };
        radio.check(node)?;
        Ok(radio)
    }

    fn write(&self) -> Map<String, Value> {
        self.keys.write()
    }
}

impl Radio {
    fn check(&self, node: &Node<'_>) -> Read<()> {
        let keys = &self.keys;
        let (slot, header) = (keys.slot, self.header());
        if header >= slot {
            let allowed = format!("more than the frame header, {header}");
            return Err(node.key_error("slot", format!("\"{slot}\""), allowed));
        }
        let most = Bytes::new(slot.get() - header.get());
        let protocol = node.child_path("protocol");
        let pieces = keys.protocol.payload().map(|size| ("payload", size, most));
        let control = keys.protocol.control().map(|size| ("control", size, slot));
        for (key, size, most) in pieces.into_iter().chain(control) {
            if size > most {
                let allowed = format!("up to {most}: a slot takes {slot}, frame header {header}");
                let path = format!("{protocol}.{key}");
                return Err(ScenarioError::new(path, format!("\"{size}\""), allowed));
            }
        }
        for (key, slots) in [("uplink", keys.uplink), ("downlink", keys.downlink)] {
            if self.rate(slots) == Rate::default() {
                let found = format!("{slots} slots of {slot} in {}", keys.frame);
                return Err(node.key_error(key, found, "at least 1 bit per second"));
            }
        }
        for (index, agent) in keys.agent.0.iter().enumerate() {
            let station = keys.stations.0.first().map_or("", String::as_str);
            agent.clone().place_on_radio(&keys.base, station).map_err(|refusal| {
                let path = keys.agent.path(&node.child_path("agent"), index);
                ScenarioError::new(
                    format!("{path}.{}", refusal.key),
                    refusal.found,
                    refusal.allowed,
                )
            })?;
        }
        let airs = self.directions().each_ref().map(Direction::air);
        keys.protocol.check(&protocol, Bytes::default(), airs)
    }

    /// Frame header of the link protocol.
    pub fn header(&self) -> Bytes {
        self.keys.header.unwrap_or(self.keys.protocol.default_header())
    }

    /// Returns the capacity of `slots` slots per frame, in whole bits per second.
    pub fn rate(&self, slots: u32) -> Rate {
        const SECOND: u128 = Duration::from_secs(1).as_nanos() as u128;
        let bits = u128::from(self.keys.slot.bits()) * u128::from(slots);
        Rate::from_bps((bits * SECOND / u128::from(self.keys.frame.as_nanos())) as u64)
    }

    /// Returns the two directions of each station: to the base, from the base.
    fn directions(&self) -> [Direction; 2] {
        let direction = |slots, errors: &Errors| Direction {
            rate: self.rate(slots),
            rate_changes: None,
            delay: self.keys.delay.0.mean(),
            delay_changes: self.keys.delay.0.changes(),
            queue: self.keys.queue.0.clone(),
            errors: errors.clone(),
        };
        let RadioKeys { uplink, downlink, errors, downlink_errors, .. } = &self.keys;
        [
            direction(*uplink, errors),
            direction(*downlink, downlink_errors.as_ref().unwrap_or(errors)),
        ]
    }

    /// Returns the links of the stations of radio number `index`.
    pub(super) fn links(&self, index: usize) -> impl Iterator<Item = Link> {
        let keys = &self.keys;
        let [forward, reverse] = self.directions();
        let whole = Bytes::new(keys.slot.get().saturating_sub(self.header().get()));
        let agents = |station: &String| {
            let mut agents = keys.agent.clone();
            for agent in &mut agents.0 {
                // The reader has checked this.
                let placed = agent.place_on_radio(&keys.base, station);
                debug_assert!(placed.is_ok(), "an agent that goes with its radio");
            }
            agents
        };
        keys.stations.0.iter().map(move |station| Link {
            name: format!("{}.{station}", self.name),
            radio: Some(index),
            wlan: None,
            between: [station.clone(), keys.base.clone()],
            forward: forward.clone(),
            reverse: reverse.clone(),
            protocol: LinkProtocol::One(keys.protocol.clone()),
            agents: agents(station),
            header: self.header(),
            // Packets that are not segmented must fit into a slot.
            mtu: keys.protocol.payload().is_none().then_some(whole),
            measure: keys.measure,
        })
    }
}
