//! UDP-Lite (RFC 3828): UDP with a checksum of the headers only, so that packets with a damaged
//! payload are delivered.
//!
//! A link may retransmit a datagram that was received with errors. The receiver counts one copy,
//! and prefers an intact copy.
//!
//! Not modelled: a checksum that covers a part of the payload.

use super::family::{Carries, Load, TransportKeys, TransportSite};
use super::{
    Answers, Arrival, CarriesDatagrams, CarriesStreams, Datagram, End, Moment, Observed, Transport,
    TransportEvent, TransportFeatures, Udp,
};
use lasthop_base::packet::{Descriptor, Extension};
use lasthop_base::schema::keys::table;
use lasthop_base::schema::metrics::{Metric, Report, metrics};
use lasthop_base::units::{Bytes, Instant};
use std::collections::VecDeque;

table! {
    /// UDP-Lite (RFC 3828), whose checksum covers the headers: packets with a damaged payload are
    /// delivered if the errors of a link leave their header readable.
    pub struct UdpLiteKeys as "udp-lite" {}
}

metrics! {
    /// Transports that deliver damaged packets.
    pub struct DamageMetrics {
        /// Packets delivered with errors.
        packets_damaged: "Packets damaged", Count, Lower, Sum;
    }
}

/// The machine.
pub type Machine = UdpLite;

impl TransportKeys for UdpLiteKeys {
    type Machine = Machine;

    const CARRIES: &'static [Carries] = &[Carries::Datagrams];
    const METRICS: &'static [&'static [Metric]] = &[DamageMetrics::METRICS];

    fn largest_packets(&self, load: Load) -> [Bytes; 2] {
        [load.datagram.unwrap_or_default(), Bytes::default()]
    }

    fn build(&self, _site: TransportSite<'_>) -> Machine {
        UdpLite::default()
    }
}

/// A sender and a receiver of datagrams that may be damaged.
#[derive(Clone, Debug, Default)]
pub struct UdpLite {
    udp: Udp,
    /// Number of datagrams of which only damaged copies have arrived.
    damaged: u64,
    /// The latest of these datagrams, at most [`MOST_REMEMBERED`], in the order of arrival. Between
    /// two copies of a datagram, an A-MPDU of a WLAN may deliver others.
    incomplete: VecDeque<u64>,
    /// The intact datagram that arrived last.
    last: Option<u64>,
}

/// Datagrams of which a later copy is recognized: two windows of a block-ack agreement.
const MOST_REMEMBERED: usize = 512;

impl UdpLite {
    /// Delivers the datagram in `packet` if it is the first copy of it.
    fn accept<X: Extension>(&mut self, packet: &Descriptor<X>, is_damaged: bool) {
        let number = packet.datagram_number();
        let place = self.incomplete.iter().rposition(|&known| known == number);
        let is_new = place.is_none() && self.last != Some(number);
        if !is_damaged {
            self.last = Some(number);
            if let Some(place) = place {
                self.incomplete.remove(place);
                self.damaged -= 1;
            }
        } else if is_new {
            if self.incomplete.len() == MOST_REMEMBERED {
                self.incomplete.pop_front();
            }
            self.incomplete.push_back(number);
            self.damaged += 1;
        }
        if is_new {
            self.udp.deliver(packet);
        }
    }
}

impl Transport for UdpLite {
    fn features(&self) -> TransportFeatures {
        self.udp.features()
    }

    fn poll_transmit<X: Extension>(
        &mut self,
        now: Instant,
        end: End,
        packet: &mut Descriptor<X>,
    ) -> bool {
        self.udp.poll_transmit(now, end, packet)
    }

    fn receive<X: Extension>(&mut self, _now: Instant, _end: End, packet: &Descriptor<X>) {
        self.accept(packet, false);
    }

    fn receive_damaged<X: Extension>(&mut self, _now: Instant, _end: End, packet: &Descriptor<X>) {
        self.accept(packet, true);
    }

    fn report(connections: &[&Self], _is_end_to_end: bool, report: &mut Report<'_>) {
        let packets_damaged = connections.iter().map(|one| one.damaged).sum::<u64>() as f64;
        DamageMetrics { packets_damaged }.report(report);
    }
}

impl CarriesStreams for UdpLite {}

impl CarriesDatagrams for UdpLite {
    fn send(&mut self, now: Instant, datagram: Datagram) {
        self.udp.send(now, datagram);
    }

    fn read_datagram(&mut self) -> Option<Arrival> {
        self.udp.read_datagram()
    }
}

impl Answers for UdpLite {}

impl Observed for UdpLite {
    fn observe(&self, end: End, moment: Moment<'_>, tell: &mut dyn FnMut(TransportEvent)) {
        self.udp.observe(end, moment, tell);
    }
}
