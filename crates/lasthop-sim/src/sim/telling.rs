//! What a probe is told of segments and of packets that enter a computed direction.

use super::direction::Fifo;
use super::hops::{Hop, Listener};
use super::ids::{ConnectionId, DirectionId};
use super::probe::{Event, FrameLabel, Probe, SegmentLabel};
use lasthop_base::packet::{Descriptor, Extension, Header, Packet, TcpHeader};
use lasthop_base::units::Instant;
use lasthop_link::queue::{Fate, Queue};
use lasthop_tcp::Connection;
use lasthop_tcp::copies::Spurious;
use std::borrow::Borrow;

/// Tells of a segment that has reached one end of its connection at `at`.
pub(super) fn record_received<P: Probe, X: Extension>(
    probe: &mut P,
    connection: ConnectionId,
    opener: bool,
    at: Instant,
    tcp: &Header<X>,
) {
    let tcp = tcp.full();
    let TcpHeader { seq, ack, payload, sack_blocks, .. } = *tcp.borrow();
    let (sequence, ack) = (u64::from(seq), u64::from(ack));
    probe.record(at, Event::SegmentReceived { connection, opener, sequence, ack, payload });
    for &(first, end) in &tcp.borrow().sack_blocks()[..usize::from(sack_blocks)] {
        probe.record(at, Event::SackReceived { connection, opener, first, end });
    }
}

/// Tells of a segment that has reached an acceptor that only acknowledges, and of its answer.
pub(super) fn record_answer<P: Probe, X: Extension>(
    probe: &mut P,
    connection: ConnectionId,
    at: Instant,
    segment: &Header<X>,
    answer: &Descriptor<X>,
) {
    record_received(probe, connection, false, at, segment);
    let sequence = u64::from(answer.tcp.seq);
    probe.record(at, Event::SegmentSent { connection, opener: false, sequence, payload: 0 });
}

/// Tells what the ends of a connection have sent again, and waited for, in vain.
pub(super) fn record_spurious<P: Probe>(
    probe: &mut P,
    connection: ConnectionId,
    ends: &mut [Connection; 2],
) {
    for (opener, peer) in [true, false].into_iter().zip(ends.iter_mut().rev()) {
        for Spurious { cause, sequence, length, at } in peer.take_spurious_of_peer() {
            // As other events have it: the number on the wire.
            let sequence = u64::from(sequence as u32);
            probe.record(at, Event::Spurious { connection, opener, cause, sequence, length });
        }
    }
}

/// Tells which waiting packets a discipline has just dropped.
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

/// Tells what becomes of a packet that has entered a computed direction. `times`: of its arrival,
/// and when its transmission starts;
/// `told`: how many frames the probe has been told of.
pub(super) fn record_fate<P: Probe, X: Extension>(
    probe: &mut P,
    hop: &Hop,
    (fifo, told): (&mut Fifo<X>, &mut u64),
    [at, start]: [Instant; 2],
    fate: Fate,
    packet: &Descriptor<X>,
) {
    let Hop { direction, listener, .. } = *hop;
    let packet = packet.full();
    let packets = fifo.queue.length(at);
    probe.record(at, Event::Queue { direction, packets, packet });
    let (number, bytes) = (*told, packet.bytes + fifo.queue.header());
    let label = FrameLabel::data(number);
    let segment = segment_label(listener, &packet);
    let sent = |arrival| {
        let packet = Some(packet);
        Event::FrameSent { direction, label, segment, packet, bytes, start, arrival }
    };
    *told += u64::from(fate != Fate::Dropped);
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

/// The TCP segment that a packet is.
pub(super) fn segment_label(listener: Listener, packet: &Packet) -> Option<SegmentLabel> {
    match listener {
        Listener::Tcp { connection, .. }
        | Listener::Acceptor { connection }
        | Listener::Sink { connection } => Some(SegmentLabel::new(connection, packet)),
        Listener::Datagrams { .. } => None,
    }
}
