//! The media of the WLANs of a scenario, with stations, directions, queues and rate control, for packets of any
//! kind: descriptors of a simulation, bytes of live links.

use super::RunError;
use crate::scenario::{Access, Link, Scenario, Wlan};
use crate::sim::ids::Side;
use crate::sim::wlan::{WlanMedium, WlanPlace};
use lasthop_base::packet::Payload;
use lasthop_base::rng::Streams;
use lasthop_base::units::{Bytes, Duration, Instant};
use lasthop_link::queue::QueueSite;
use lasthop_wlan::dcf::{Category, DriverQueue, MacParameters, Medium, PairId, StationId};
use lasthop_wlan::link_errors::LinkErrors;
use lasthop_wlan::phy::qos::AccessCategory;
use std::collections::HashMap;

/// A WLAN under construction: its stations, for each access category in use, best effort first.
struct Cell<'a> {
    place: (usize, usize),
    access_point: Vec<StationId>,
    stations: HashMap<&'a String, Vec<StationId>>,
    categories: Vec<AccessCategory>,
}

/// A scenario with its random streams and packet lengths.
struct Site<'a> {
    scenario: &'a Scenario,
    streams: &'a Streams,
    /// The maximum packet length of each link.
    packets: &'a [Bytes],
}

/// The media of a scenario's WLANs, and the place of each link that belongs to one.
pub type WlanMedia<P> = (Vec<WlanMedium<P>>, Vec<Option<WlanPlace>>);

/// Builds the media of all WLANs, and the place of each link that belongs to one. `packets`: the maximum packet length
/// of each link. `categories`: the access categories in use, best effort first.
///
/// # Errors
/// If the error process of a link cannot be built.
pub fn wlan_media<P: Payload + Clone>(
    scenario: &Scenario,
    streams: &Streams,
    packets: &[Bytes],
    categories: impl Fn(&Wlan) -> Vec<AccessCategory>,
) -> Result<WlanMedia<P>, RunError> {
    let site = Site { scenario, streams, packets };
    // For each channel, the number of its medium.
    let mut known: HashMap<&str, usize> = HashMap::new();
    let mut media = Vec::new();
    let mut cells = Vec::with_capacity(scenario.wlans.len());
    for (number, wlan) in scenario.wlans.iter().enumerate() {
        let place = *known.entry(wlan.channel()).or_insert(media.len());
        if place == media.len() {
            let medium = Medium::new(wlan.phy(), wlan.timing(), wlan.control_errors());
            media.push(WlanMedium { medium, names: Vec::new() });
        }
        let WlanMedium { medium, names } = &mut media[place];
        names.push(wlan.name.clone());
        let place = (place, names.len() - 1);
        cells.push(site.cell(medium, place, (number, wlan), categories(wlan)));
    }
    for (channel, &place) in &known {
        let mut here = scenario.wlans.iter().filter(|wlan| wlan.channel() == *channel);
        let positions = here.clone().flat_map(|wlan| {
            let stations = wlan.keys.stations.0.iter().map(|station| Some(station.as_str()));
            std::iter::once(None).chain(stations).map(|station| wlan.position(station))
        });
        // The checks of the scenario permit a channel only if all or none of its stations have
        // positions.
        if let (Some(wlan), Some(positions)) = (here.next(), positions.collect::<Option<Vec<_>>>())
        {
            media[place].medium.place(&wlan.propagation(), &positions);
        }
    }
    let mut places = Vec::with_capacity(scenario.links.len());
    for (index, link) in scenario.links.iter().enumerate() {
        let Some(number) = link.wlan else {
            places.push(None);
            continue;
        };
        let cell = &cells[number];
        let medium = &mut media[cell.place.0].medium;
        let pairs = site.link(medium, cell, (index, link), &scenario.wlans[number])?;
        places.push(Some(WlanPlace { medium: cell.place.0, wlan: cell.place.1, pairs }));
    }
    Ok((media, places))
}

impl<'a> Site<'a> {
    /// Adds the stations of a WLAN to its medium.
    fn cell<P: Payload + Clone>(
        &self,
        medium: &mut Medium<P>,
        place: (usize, usize),
        (number, wlan): (usize, &'a Wlan),
        categories: Vec<AccessCategory>,
    ) -> Cell<'a> {
        let Site { scenario, streams, packets } = *self;
        let keys = &wlan.keys;
        let links = scenario.links.iter().zip(packets);
        let own = links.filter(|(link, _)| link.wlan == Some(number));
        let packet = own.map(|(_, &packet)| packet).max().unwrap_or_default();
        let timing = wlan.timing();
        let parameters = MacParameters {
            header: keys.header(),
            rts_threshold: keys.rts_threshold.unwrap_or(Bytes::new(u64::MAX)),
            short_retry_limit: keys.short_retry_limit,
            long_retry_limit: keys.long_retry_limit,
            cw_min: timing.cw_min,
            cw_max: timing.cw_max,
            retry_delay: keys.retry_delay,
            rate: wlan.rate(None),
        };
        let mut station = |host: &String, away: Option<[Duration; 2]>| {
            let away = away.map(|times| times.map(|time| Instant::ZERO + time));
            let mut add = |component: &str, parameters| {
                let site = QueueSite { streams, component, header: keys.header(), packet };
                let queue = keys.queue().build(&site);
                let backoff = streams.stream(component, "back-off");
                let station = medium.add_station(parameters, queue, backoff);
                medium.set_away(station, away.as_slice());
                station
            };
            let component = format!("wlan.{}.{host}", wlan.name);
            if !wlan.has_categories() {
                return vec![add(&component, parameters)];
            }
            let mut added = Vec::with_capacity(categories.len());
            for &category in &categories {
                let Access { cw_min, cw_max, .. } = wlan.access(category);
                let parameters = MacParameters { cw_min, cw_max, ..parameters };
                added.push(add(&of_category(&component, category), parameters));
            }
            let host = added.first().map_or(0, |first: &StationId| first.index() as u16);
            for (&station, &category) in added.iter().zip(&categories) {
                let Access { aifsn, txop_limit, .. } = wlan.access(category);
                let place = AccessCategory::ALL.iter().position(|&known| known == category);
                let priority = place.unwrap_or_default() as u8;
                let extra_slots = aifsn - timing.aifsn;
                let category = Category { host, priority, extra_slots, txop_limit };
                medium.set_category(station, category);
            }
            added
        };
        let access_point = station(&keys.access_point, None);
        let stations = keys.stations.0.iter().map(|host| (host, station(host, wlan.away(host))));
        Cell { place, access_point, stations: stations.collect(), categories }
    }

    /// Adds the directions of a station's link to its medium.
    fn link<P: Payload + Clone>(
        &self,
        medium: &mut Medium<P>,
        cell: &Cell<'_>,
        (index, link): (usize, &Link),
        wlan: &Wlan,
    ) -> Result<Vec<[PairId; 2]>, RunError> {
        let streams = self.streams;
        let host = &link.between[0];
        let control = wlan.control_rate_of(host);
        let component = |side: Side| match side {
            Side::Forward => format!("link.{}.forward", link.name),
            Side::Reverse => format!("link.{}.reverse", link.name),
        };
        let errors = |side: Side| match wlan.snr_errors(host, streams, &component(side)) {
            Some(errors) => Ok(LinkErrors::from(errors)),
            None => {
                let own = if side == Side::Forward { &link.forward } else { &link.reverse };
                let refused = |error| RunError::Channel { link: link.name.clone(), error };
                own.errors.build(streams, &component(side)).map(Into::into).map_err(refused)
            }
        };
        let rates = [&link.forward, &link.reverse]
            .map(|direction| [direction.transmitter().rate(), control]);
        let stations = cell.stations[host].iter().zip(&cell.access_point);
        let mut pairs: Vec<[PairId; 2]> = Vec::with_capacity(cell.categories.len());
        for (&from, &to) in stations {
            pairs.push(match pairs.first() {
                Some(&[there, back]) => [
                    medium.add_category_pair(there, [from, to], rates[0]),
                    medium.add_category_pair(back, [to, from], rates[1]),
                ],
                None => {
                    let there = medium.add_pair([from, to], rates[0], errors(Side::Forward)?);
                    let back = if wlan.keys.shared_errors {
                        medium.add_back_pair(there, rates[1])
                    } else {
                        medium.add_pair([to, from], rates[1], errors(Side::Reverse)?)
                    };
                    [there, back]
                }
            });
        }
        for (ends, &category) in pairs.iter().zip(&cell.categories) {
            for (&pair, side) in ends.iter().zip(Side::BOTH) {
                if let Some(aggregation) = wlan.aggregation(host) {
                    medium.aggregate(pair, aggregation);
                }
                if let Some(rates) = wlan.arf_rates(host) {
                    medium.adapt_rate(pair, &rates);
                }
                let component = of_category(&component(side), category);
                if let Some((modes, machine)) = wlan.rate_machine(host, streams, &component) {
                    medium.adapt(pair, &modes, wlan.keys.control_rate, machine);
                }
            }
        }
        if link.measures_queueing_delay() {
            pairs.iter().flatten().for_each(|&pair| medium.measure_queueing(pair));
        }
        if let Some(scheduler) = wlan.separate_scheduler() {
            let keys = &wlan.keys;
            let point = format!("wlan.{}.{}.{host}", wlan.name, keys.access_point);
            for (&[_, back], &category) in pairs.iter().zip(&cell.categories) {
                let queue = keys.queue().build(&QueueSite {
                    streams,
                    component: &of_category(&point, category),
                    header: link.header,
                    packet: self.packets[index],
                });
                let driver = keys.driver_queue.unwrap_or(DriverQueue::Pull);
                medium.separate_queue(back, queue, scheduler, driver);
            }
        }
        Ok(pairs)
    }
}

/// Returns the name of a component for an access category; best effort has no suffix.
fn of_category(component: &str, category: AccessCategory) -> String {
    match category {
        AccessCategory::BestEffort => component.to_owned(),
        category => format!("{component}.{}", category.word()),
    }
}
