//! A queue that measures the time from the arrival of a packet until the link takes it.
//!
//! The discipline inside sees packets with their arrival times ([`Stamped`]). Therefore delays are
//! exact for every order of service, and packets that it drops are not measured. Decisions of the
//! discipline are those of a queue without measurement.

use super::{Delays, DisciplineCounters, Limit, QueueDiscipline, StampedQueue, Transmitter};
use lasthop_base::packet::Payload;
use lasthop_base::units::Instant;

/// A packet with the time of its arrival at a queue.
#[derive(Clone, Copy, Debug)]
pub struct Stamped<P> {
    pub(super) arrived: Instant,
    pub(super) packet: P,
}

/// The discipline sees the packet.
impl<P: Payload> Payload for Stamped<P> {
    fn wire_bytes(&self) -> u32 {
        self.packet.wire_bytes()
    }

    fn xor(&mut self, other: &Self) {
        self.packet.xor(&other.packet);
    }

    fn truncate(&mut self, bytes: u32) {
        self.packet.truncate(bytes);
    }

    fn slice(&self, from: u32, bytes: u32) -> Self {
        Stamped { arrived: self.arrived, packet: self.packet.slice(from, bytes) }
    }

    fn append(&mut self, next: &Self) {
        self.packet.append(&next.packet);
    }

    fn mark_congestion(&mut self) -> bool {
        self.packet.mark_congestion()
    }

    fn is_l4s(&self) -> bool {
        self.packet.is_l4s()
    }

    fn is_out(&self) -> bool {
        self.packet.is_out()
    }

    fn flow(&self) -> u64 {
        self.packet.flow()
    }

    fn class(&self) -> u8 {
        self.packet.class()
    }
}

/// A queue with the delays of the packets that have left it.
#[derive(Clone, Debug)]
pub struct Measured<P: Payload> {
    pub(super) queue: StampedQueue<P>,
    delays: Delays,
}

impl<P: Payload> Measured<P> {
    pub(super) fn new(queue: StampedQueue<P>) -> Self {
        Measured { queue, delays: Delays::queueing() }
    }

    /// Delays of the packets that the link has taken.
    pub fn delays(&self) -> &Delays {
        &self.delays
    }

    /// Limit of a drop-tail queue; `None`: another discipline.
    pub fn drop_tail_limit(&self) -> Option<Limit> {
        match &self.queue {
            StampedQueue::DropTail(queue) => Some(queue.limit()),
            _ => None,
        }
    }

    /// Packets dropped by the last call, as [`QueueDiscipline::dropped`].
    pub(super) fn dropped_packets(&self) -> impl Iterator<Item = &P> {
        self.queue.dropped().iter().map(|stamped| &stamped.packet)
    }
}

impl<P: Payload> QueueDiscipline<P> for Box<Measured<P>> {
    fn enqueue(&mut self, now: Instant, packet: P, transmitter: &Transmitter) -> bool {
        self.queue.enqueue(now, Stamped { arrived: now, packet }, transmitter)
    }

    fn dequeue(&mut self, now: Instant) -> Option<P> {
        let Stamped { arrived, packet } = self.queue.dequeue(now)?;
        self.delays.record(arrived, now);
        Some(packet)
    }

    fn len(&self) -> usize {
        self.queue.len()
    }

    fn has_room(&self, now: Instant, bytes: u32, count: u64, transmitter: &Transmitter) -> bool {
        self.queue.has_room(now, bytes, count, transmitter)
    }

    fn counters(&self) -> DisciplineCounters {
        self.queue.counters()
    }
}
