//! Checks of the keys of WLANs.

use super::wlan::Wlan;
use lasthop_base::schema::error::{ScenarioError, suggestion};
use lasthop_base::schema::keys::{Node, Read, one_of};
use lasthop_base::units::Distance;
use lasthop_wlan::dcf::{Propagation, Timing};

impl Wlan {
    pub(super) fn check(&self, node: &Node<'_>) -> Read<()> {
        let keys = &self.keys;
        let own = keys.station.iter().flatten();
        let rates = own.clone().map(|one| (format!("station.{}.rate", one.name), one.keys.rate));
        let all = [("rate".to_owned(), keys.rate), ("control_rate".to_owned(), keys.control_rate)];
        for (key, rate) in all.into_iter().chain(rates) {
            let mut known = self.phy().standard.rates();
            if let Some(rate) = rate
                && !known.clone().any(|known| known == rate)
            {
                let words: Vec<_> = known.by_ref().map(|rate| rate.to_string()).collect();
                let path = format!("{}.{key}", node.path);
                let allowed = format!(
                    "a rate of {}: {}",
                    keys.standard.word(),
                    one_of(words.iter().map(String::as_str))
                );
                return Err(ScenarioError::new(path, format!("\"{rate}\""), allowed));
            }
        }
        if let Some(rate) = keys.control_rate
            && rate > self.rate(None)
        {
            let allowed = format!("a rate up to that of the data, {}", self.rate(None));
            return Err(node.key_error("control_rate", format!("\"{rate}\""), allowed));
        }
        self.check_aggregation(node)?;
        let Timing { cw_min, cw_max, sifs, response_timeout, .. } = self.timing();
        if response_timeout < sifs {
            let allowed = format!("at least SIFS, \"{sifs}\", after which an answer begins");
            return Err(node.key_error(
                "response_timeout",
                format!("\"{response_timeout}\""),
                allowed,
            ));
        }
        if cw_min > cw_max {
            let key = if keys.cw_max.is_some() { "cw_max" } else { "cw_min" };
            let found = format!("a window from {cw_min} to {cw_max}");
            return Err(node.key_error(key, found, "cw_min up to cw_max"));
        }
        for one in own {
            if !keys.stations.0.contains(&one.name) {
                let hosts = keys.stations.0.iter().map(String::as_str);
                let near = suggestion(&one.name, hosts.clone());
                let path = format!("{}.station", node.path);
                let allowed = format!("one of the stations: {}", keys.stations.0.join(", "));
                return Err(ScenarioError::new(path, format!("{:?}{near}", one.name), allowed));
            }
            if keys.shared_errors && one.keys.downlink_errors.is_some() {
                let key = format!("station.{}.downlink_errors", one.name);
                let path = format!("{}.{key}", node.path);
                let allowed = "no such key where shared_errors is true";
                return Err(ScenarioError::new(path, "errors of their own", allowed));
            }
        }
        if keys.shared_errors && keys.downlink_errors.is_some() {
            let allowed = "no such key where shared_errors is true";
            return Err(node.key_error("downlink_errors", "errors of their own", allowed));
        }
        self.check_positions(node)?;
        self.check_categories(node)?;
        for (index, agent) in keys.agent.0.iter().enumerate() {
            if self.is_at_station(agent) {
                continue;
            }
            let station = keys.stations.0.first().map_or("", String::as_str);
            agent.clone().place_on_radio(&keys.access_point, station).map_err(|refusal| {
                let path = keys.agent.path(&node.child_path("agent"), index);
                let path = format!("{path}.{}", refusal.key);
                ScenarioError::new(path, refusal.found, refusal.allowed)
            })?;
        }
        Ok(())
    }

    /// Checks that all hosts have a position or none, that ranges contain each other, and that each
    /// station is in range.
    fn check_positions(&self, node: &Node<'_>) -> Read<()> {
        let keys = &self.keys;
        let Propagation { transmission, carrier_sense, interference, .. } = self.propagation();
        for (key, range) in
            [("carrier_sense_range", carrier_sense), ("interference_range", interference)]
        {
            if range < transmission {
                let allowed = format!("at least transmission_range, \"{transmission}\"");
                return Err(node.key_error(key, format!("\"{range}\""), allowed));
            }
        }
        let own = |station: &String| self.own(station);
        let has_any = |x: Option<Distance>, y: Option<Distance>| x.is_some() || y.is_some();
        let stations = keys.stations.0.iter();
        let placed = |station: &String| own(station).is_some_and(|own| has_any(own.x, own.y));
        if !has_any(keys.x, keys.y) && !stations.clone().any(placed) {
            return Ok(());
        }
        let missing = lasthop_base::schema::error::MISSING;
        let allowed = "a distance such as \"250 m\" for each host, as another one has a position";
        let Some(point) = self.position(None) else {
            return Err(node.key_error("x", missing, allowed));
        };
        for station in stations {
            let path = format!("{}.station.{station}.x", node.path);
            let Some(position) = self.position(Some(station)) else {
                return Err(ScenarioError::new(path, missing, allowed));
            };
            let distance = point.distance(position);
            if distance > transmission.as_metres() {
                let found = format!("a station {distance:.1} m from its access point");
                let allowed = format!("one within transmission_range, \"{transmission}\"");
                return Err(ScenarioError::new(path, found, allowed));
            }
        }
        Ok(())
    }
}

/// Checks that WLANs on one channel have the same physical layer and timing.
pub(super) fn check_channels(path: &str, wlans: &[Wlan]) -> Read<()> {
    for (index, wlan) in wlans.iter().enumerate() {
        let shares = |other: &&Wlan| other.channel() == wlan.channel();
        let Some(first) = wlans[..index].iter().find(shares) else { continue };
        let own = |wlan: &Wlan| {
            let Timing { slot, sifs, response_timeout, lowest_ack, .. } = wlan.timing();
            let times = [slot, sifs, response_timeout, lowest_ack];
            let is_high = wlan.format().map(|_| wlan.keys.standard);
            (wlan.phy(), is_high, times, wlan.control_errors())
        };
        let space = |wlan: &Wlan| wlan.position(None).map(|_| wlan.propagation());
        if space(first) != space(wlan) {
            let found = format!("{:?}, which {:?} has too", wlan.channel(), first.name);
            let allowed = "one channel for WLANs that all have positions, with the same ranges and capture, or none";
            let path = format!("{path}.{}.channel", wlan.name);
            return Err(ScenarioError::new(path, found, allowed));
        }
        if own(first) != own(wlan) {
            let found = format!("{:?}, which {:?} has too", wlan.channel(), first.name);
            let allowed = "one channel for WLANs of the same standard, preamble, slot, sifs, \
                           response_timeout and control_errors";
            return Err(ScenarioError::new(
                format!("{path}.{}.channel", wlan.name),
                found,
                allowed,
            ));
        }
    }
    Ok(())
}
