//! Probe events of hosts, and of packets that enter a computed direction.

use super::direction::Fifo;
use super::hops::{Hop, Listener};
use super::ids::{ConnectionId, DirectionId};
use super::probe::{Event, FrameLabel, HostAction, Probe, SegmentLabel};
use super::traffic::App;
use super::world::{Connection, World};
use crate::transport::{CarriesStreams, End, Moment, Observed};
use lasthop_base::packet::{Descriptor, Extension, Packet};
use lasthop_base::units::Instant;
use lasthop_link::queue::{Fate, Queue};

/// Reports the waiting packets that a queue discipline has just dropped.
pub(super) fn record_dropped<P: Probe, X: Extension>(
    probe: &mut P,
    direction: DirectionId,
    now: Instant,
    queue: &Queue<Descriptor<X>>,
) {
    for packet in queue.dropped() {
        let packet = packet.full();
        probe.record(now, Event::Dropped { direction, packet, turn: None });
    }
}

/// Reports the outcome of a packet that has entered a computed direction. `at` is the time of its
/// arrival there and `start` the start of its transmission. `reported` is the number of frames
/// reported to the probe so far. `segment` describes the segment in the packet.
pub(super) fn record_fate<P: Probe, X: Extension>(
    probe: &mut P,
    hop: &Hop,
    (fifo, reported): (&mut Fifo<X>, &mut u64),
    [at, start]: [Instant; 2],
    fate: Fate,
    (packet, segment): (&Descriptor<X>, Option<SegmentLabel>),
) {
    let direction = hop.direction;
    let packet = packet.full();
    let packets = fifo.queue.length(at);
    probe.record(at, Event::Queue { direction, packets, packet });
    let (number, bytes) = (*reported, packet.bytes + fifo.queue.header());
    let label = FrameLabel::data(number);
    let sent = |arrival| {
        let packet = Some(packet);
        Event::FrameSent { direction, label, segment, packet, bytes, start, arrival }
    };
    *reported += u64::from(fate != Fate::Dropped);
    match fate {
        Fate::Dropped => {
            let turn = Some(start);
            probe.record(at, Event::Dropped { direction, packet, turn });
        }
        Fate::Lost { end } => probe.record(end, sent(None)),
        Fate::Sent { end } => {
            let at = fifo.queue.arrival(end);
            probe.record(end, sent(Some(at)));
            let (service, number) = (0, Some(number));
            let delivered = Event::Delivered { direction, service, number, packet };
            probe.record(at, delivered);
        }
    }
}

/// Describes the segment in a packet that is addressed to `listener`.
pub(super) fn segment_label(
    connections: &[Connection],
    listener: Listener,
    packet: &Packet,
) -> Option<SegmentLabel> {
    let Connection { transport, ordinal, .. } = &connections[listener.connection().index()];
    let numbers = transport.numbers(packet)?;
    Some(SegmentLabel { connection: *ordinal, numbers })
}

impl<P: Probe, X: Extension> World<P, X> {
    /// Reports the events of one end of a connection to the probe.
    pub(super) fn record_transport(
        &mut self,
        at: Instant,
        connection: ConnectionId,
        end: End,
        moment: Moment<'_>,
    ) {
        let probe = &mut self.probe;
        let transport = &self.connections[connection.index()].transport;
        transport.observe(end, moment, &mut |event| {
            probe.record(at, Event::Transport { connection, end, event });
        });
    }

    /// Reports an action of the host of one end of a connection to the probe.
    pub(super) fn record_host(&mut self, connection: ConnectionId, end: End, action: HostAction) {
        self.probe.record(self.now, Event::Host { connection, end, action });
    }

    /// Reports that one end has processed a packet.
    pub(super) fn record_received(
        &mut self,
        connection: ConnectionId,
        end: End,
        packet: &Descriptor<X>,
    ) {
        let known = &self.connections[connection.index()];
        let has_stream = matches!(self.flows[known.flow.index()].app, App::Streams(_));
        let read = if has_stream { known.transport.read(end) } else { 0 };
        let action = HostAction::Received { packet: packet.full(), read };
        self.record_host(connection, end, action);
    }
}
