//! UDP (RFC 768): datagrams, one per packet, without acknowledgments or retransmissions.
//!
//! ```text
//!   send --> packet --> receive --> read_datagram        a damaged packet is dropped
//! ```
//!
//! Not modelled: fragmentation, ICMP.

use super::family::{Carries, Load, TransportKeys, TransportSite};
use super::{
    Answers, Arrival, CarriesDatagrams, CarriesStreams, Datagram, End, Moment, Observed, Reaction,
    Transport, TransportEvent, TransportFeatures,
};
use lasthop_base::packet::{Descriptor, Extension};
use lasthop_base::schema::keys::table;
use lasthop_base::schema::metrics::{Metric, Report};
use lasthop_base::units::{Bytes, Instant};

table! {
    /// UDP, without retransmissions.
    pub struct UdpKeys as "udp" {}
}

/// The machine.
pub type Machine = Udp;

impl TransportKeys for UdpKeys {
    type Machine = Machine;

    const CARRIES: &'static [Carries] = &[Carries::Datagrams];
    const METRICS: &'static [&'static [Metric]] = &[];

    fn largest_packets(&self, load: Load) -> [Bytes; 2] {
        [load.datagram.unwrap_or_default(), Bytes::default()]
    }

    fn build(&self, _site: TransportSite<'_>) -> Machine {
        Udp::default()
    }
}

/// A sender and a receiver of datagrams.
#[derive(Clone, Debug, Default)]
pub struct Udp {
    /// Datagram to be sent by the driver.
    ready: Option<(Datagram, Instant)>,
    /// Datagram to be delivered to the application.
    arrived: Option<Arrival>,
}

impl Udp {
    /// Delivers the datagram in `packet`.
    #[inline]
    pub(super) fn deliver<X: Extension>(&mut self, packet: &Descriptor<X>) {
        let (number, sent_at) = (packet.datagram_number(), packet.datagram_sent_at());
        self.arrived = Some(Arrival { number, sent_at });
    }
}

impl Transport for Udp {
    fn features(&self) -> TransportFeatures {
        TransportFeatures {
            has_timers: false,
            acceptor: Reaction::Absorbs,
            ..TransportFeatures::default()
        }
    }

    #[inline]
    fn poll_transmit<X: Extension>(
        &mut self,
        _now: Instant,
        _end: End,
        packet: &mut Descriptor<X>,
    ) -> bool {
        let Some((Datagram { number, size }, sent_at)) = self.ready.take() else { return false };
        *packet = Descriptor::datagram(0, size.get() as u32, number, sent_at);
        true
    }

    #[inline]
    fn receive<X: Extension>(&mut self, _now: Instant, _end: End, packet: &Descriptor<X>) {
        self.deliver(packet);
    }

    fn report(_connections: &[&Self], _is_end_to_end: bool, _report: &mut Report<'_>) {}
}

impl CarriesStreams for Udp {}

impl CarriesDatagrams for Udp {
    fn send(&mut self, now: Instant, datagram: Datagram) {
        self.ready = Some((datagram, now));
    }

    #[inline]
    fn read_datagram(&mut self) -> Option<Arrival> {
        self.arrived.take()
    }
}

impl Answers for Udp {}

impl Observed for Udp {
    fn observe(&self, _end: End, moment: Moment<'_>, tell: &mut dyn FnMut(TransportEvent)) {
        if let Moment::Sent(packet) = moment {
            let (number, bytes) = (packet.datagram_number(), packet.bytes.into());
            tell(TransportEvent::numbered("datagram_sent", number, bytes));
        }
    }
}
