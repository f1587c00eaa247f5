//! The media of WLANs for real packets: the state machine of the simulator with bytes instead of descriptors.
//!
//! A packet that a host sends over the link of a station is queued at the station or its access point; the medium
//! delivers it at the other end of the same link. With access categories, the DSCP of a packet determines its category
//! (RFC 8325).

use super::counters::SharedState;
use super::outbox::Bytes;
use super::refusal::Refused;
use lasthop_base::packet::Payload;
use lasthop_base::rng::Streams;
use lasthop_base::schema::metrics::ReportFor;
use lasthop_base::units::{self, Instant};
use lasthop_link::queue::QueueCounters;
use lasthop_sim::run::{WlanPlace, wlan_media};
use lasthop_sim::scenario::{Scenario, Wlan};
use lasthop_sim::sim::ids::Side;
use lasthop_sim::sim::wlan::{direction_metrics, wlan_metrics};
use lasthop_wlan::dcf::{Medium, PairCounters, PairId};
use lasthop_wlan::phy::qos::{AccessCategory, DscpMap};

/// The access categories of a WLAN that has them, in the order of the directions of a link.
const CATEGORIES: [AccessCategory; 4] = [
    AccessCategory::BestEffort,
    AccessCategory::Background,
    AccessCategory::Video,
    AccessCategory::Voice,
];

/// A packet delivered by a medium: its link, the transmitting side, and the bytes.
pub(crate) type Received = (usize, Side, Bytes);

/// A medium with the links of its stations.
#[derive(Clone, Debug)]
struct Air {
    medium: Medium<Bytes>,
    /// Names of its WLANs.
    names: Vec<String>,
    /// Link and transmitting side of each direction.
    directions: Vec<(usize, Side)>,
}

/// The media of all WLANs of a scenario.
#[derive(Clone, Debug, Default)]
pub(crate) struct Airs {
    airs: Vec<Air>,
    /// For each link, its directions if it belongs to a WLAN.
    places: Vec<Option<WlanPlace>>,
}

impl Airs {
    /// Builds the media for packets of up to `mtus` bytes, by link.
    pub fn new(scenario: &Scenario, streams: Streams, mtus: &[u32]) -> Result<Self, Refused> {
        let packets: Vec<_> = mtus.iter().map(|&mtu| units::Bytes::new(mtu.into())).collect();
        // Programs choose the code points of their packets.
        let categories = |wlan: &Wlan| match wlan.keys.edca {
            Some(true) => CATEGORIES.to_vec(),
            _ => vec![AccessCategory::BestEffort],
        };
        let (media, places) = wlan_media(scenario, &streams, &packets, categories)
            .map_err(|error| Refused { key: "wlan".to_owned(), problem: error.to_string() })?;
        let mut airs: Vec<_> = media
            .into_iter()
            .map(|known| Air { medium: known.medium, names: known.names, directions: Vec::new() })
            .collect();
        for (link, place) in places.iter().enumerate() {
            let Some(place) = place else { continue };
            let directions = &mut airs[place.medium].directions;
            for pairs in &place.pairs {
                for (pair, side) in pairs.iter().zip(Side::BOTH) {
                    debug_assert_eq!(pair.index(), directions.len(), "directions in order");
                    directions.push((link, side));
                }
            }
        }
        Ok(Airs { airs, places })
    }

    /// Returns the number of media.
    pub fn len(&self) -> usize {
        self.airs.len()
    }

    /// Returns the medium of a link, if it belongs to a WLAN.
    pub fn of_link(&self, link: usize) -> Option<usize> {
        self.places[link].as_ref().map(|place| place.medium)
    }

    /// Returns the next deadline of a medium.
    pub fn next_timeout(&self, air: usize) -> Instant {
        self.airs[air].medium.next_timeout()
    }

    /// Appends a packet to the queue of the end `side` of a link of a WLAN.
    pub fn enqueue(&mut self, now: Instant, link: usize, side: Side, packet: Bytes) {
        let Some(place) = &self.places[link] else { return };
        let category = AccessCategory::of_dscp(DscpMap::Rfc8325, packet.class());
        let number = CATEGORIES.iter().position(|&known| known == category).unwrap_or_default();
        let pairs = place.pairs.get(number).unwrap_or(&place.pairs[0]);
        self.airs[place.medium].medium.enqueue(now, pairs[side as usize], packet);
    }

    /// Handles the deadline of a medium, if it is due.
    pub fn handle_timeout(&mut self, now: Instant, air: usize) {
        self.airs[air].medium.handle_timeout(now);
    }

    /// Returns the next delivered packet of a medium. Damaged packets are dropped, as by real receivers.
    pub fn poll_delivery(&mut self, air: usize) -> Option<Received> {
        let Air { medium, directions, .. } = &mut self.airs[air];
        loop {
            let delivery = medium.poll_deliver()?;
            if !delivery.is_damaged {
                let (link, side) = directions[delivery.pair.index()];
                return Some((link, side, delivery.packet));
            }
        }
    }

    /// Returns the directions of a link of a WLAN in which `side` transmits.
    fn pairs(place: &WlanPlace, side: Side) -> impl Iterator<Item = PairId> + Clone {
        place.pairs.iter().map(move |pairs| pairs[side as usize])
    }

    /// Returns the state of the queue and the transmitter of one end of a link of a WLAN.
    pub fn state(&self, now: Instant, link: usize, side: Side) -> Option<SharedState> {
        let place = self.places[link].as_ref()?;
        let medium = &self.airs[place.medium].medium;
        let counters = Self::pairs(place, side).map(|pair| medium.pair_counters(pair));
        let sum = counters.fold(PairCounters::default(), PairCounters::plus);
        Some(SharedState {
            queue: QueueCounters {
                drops: sum.drops,
                frames_sent: sum.data_sent,
                bits_sent: sum.bits_sent,
                frames_lost: sum.data_sent - sum.data_received,
            },
            retransmissions: sum.retries,
            queued: Self::pairs(place, side).map(|pair| medium.queued(now, pair)).sum(),
        })
    }

    /// Reports the metrics of a direction of a link of a WLAN.
    pub fn direction_metrics(
        &self,
        now: Instant,
        (link, side): (usize, Side),
        entity: &str,
        report: &mut ReportFor<'_>,
    ) {
        if let Some(place) = &self.places[link] {
            let medium = &self.airs[place.medium].medium;
            direction_metrics(medium, Self::pairs(place, side), now, entity, report);
        }
    }

    /// Reports the metrics of all WLANs.
    pub fn metrics(&self, now: Instant, report: &mut ReportFor<'_>) {
        for (number, Air { medium, names, .. }) in self.airs.iter().enumerate() {
            for (wlan, name) in names.iter().enumerate() {
                let own = self.places.iter().flatten();
                let own = own.filter(|place| (place.medium, place.wlan) == (number, wlan));
                let pairs: Vec<_> = own.flat_map(|place| place.pairs.iter().flatten()).collect();
                let pairs: Vec<_> = pairs.into_iter().copied().collect();
                wlan_metrics(medium, &pairs, now, &format!("wlan.{name}"), report);
            }
        }
    }
}
