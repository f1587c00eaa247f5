//! Drop-tail: packets go in order of arrival, and one that finds the queue full is dropped.
//!
//! The limit counts the packet in transmission, as that of ns-2's `DropTail` does. Before a link
//! without protocol this queue is computed instead of driven: see
//! [`ComputedFifo`](super::ComputedFifo).
//!
//! States: the packets that wait.
//!
//! Not modelled: priorities.

use super::family::{DisciplineKeys, QueueSite};
use super::{DisciplineCounters, Fifo, Limit, QueueDiscipline, Transmitter};
use lasthop_base::packet::Payload;
use lasthop_base::schema::keys::table;
use lasthop_base::schema::quantity::QueueLimit;
use lasthop_base::units::{Bytes, Instant};

table! {
    /// Packets go in order of arrival, and one that finds the queue full is dropped. Its limit alone
    /// says the same: queue = "50 packets".
    pub struct DropTailKeys as "drop-tail" {
        /// What the queue holds, the packet in transmission included; a size counts packets with the
        /// frame header.
        limit: QueueLimit = "50 packets";
    }
}

/// The machine.
pub type Machine<P> = DropTail<P>;

impl DisciplineKeys for DropTailKeys {
    type Machine<P: Payload> = Machine<P>;

    fn build<P: Payload>(&self, site: &QueueSite<'_>) -> Machine<P> {
        DropTail::new(self.limit.into(), site.header)
    }
}

/// A queue that drops what finds it full.
#[derive(Clone, Debug)]
pub struct DropTail<P> {
    fifo: Fifo<P>,
    drops: u64,
}

impl<P: Payload> DropTail<P> {
    /// An empty queue of `limit`, which counts each packet with its link header.
    pub fn new(limit: Limit, header: Bytes) -> Self {
        DropTail { fifo: Fifo::new(limit, header), drops: 0 }
    }

    /// What it holds at most.
    pub fn limit(&self) -> Limit {
        self.fifo.limit()
    }

    /// The same as [`QueueDiscipline::enqueue`] of a copy of a packet, which is copied only if there is room.
    #[inline(always)]
    pub(super) fn enqueue_copy(
        &mut self,
        now: Instant,
        packet: &P,
        transmitter: &Transmitter,
    ) -> bool
    where
        P: Clone,
    {
        let has_room = self.fifo.has_room(now, packet.wire_bytes(), 1, transmitter);
        if has_room {
            self.fifo.push_copy(packet);
        } else {
            self.drops += 1;
        }
        has_room
    }

    /// A packet for which there is room joins.
    pub(super) fn push(&mut self, packet: P) {
        self.fifo.push(packet);
    }
}

impl<P: Payload> QueueDiscipline<P> for DropTail<P> {
    const DETECTS_EARLY: bool = false;

    #[inline]
    fn enqueue(&mut self, now: Instant, packet: P, transmitter: &Transmitter) -> bool {
        let has_room = self.fifo.has_room(now, packet.wire_bytes(), 1, transmitter);
        if has_room {
            self.fifo.push(packet);
        } else {
            self.drops += 1;
        }
        has_room
    }

    #[inline(always)]
    fn dequeue(&mut self, _now: Instant) -> Option<P> {
        self.fifo.pop()
    }

    #[inline(always)]
    fn dequeue_into(&mut self, _now: Instant, place: &mut Option<P>) -> bool {
        self.fifo.pop_into(place)
    }

    #[inline(always)]
    fn len(&self) -> usize {
        self.fifo.len()
    }

    #[inline]
    fn has_room(&self, now: Instant, bytes: u32, count: u64, transmitter: &Transmitter) -> bool {
        self.fifo.has_room(now, bytes, count, transmitter)
    }

    fn counters(&self) -> DisciplineCounters {
        DisciplineCounters { tail_drops: self.drops, ..DisciplineCounters::default() }
    }
}
