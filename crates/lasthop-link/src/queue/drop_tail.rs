//! Drop-tail: a FIFO that drops arriving packets while it is full.
//!
//! The limit includes the packet in transmission, as in ns-2's `DropTail`. In front of a link
//! without protocol this queue is computed instead of driven by events: see
//! [`ComputedFifo`](super::ComputedFifo).
//!
//! State: the queued packets.
//!
//! Not modelled: priorities.

use super::family::{DisciplineKeys, QueueSite};
use super::{DisciplineCounters, Fifo, Limit, QueueDiscipline, Transmitter};
use lasthop_base::packet::Payload;
use lasthop_base::schema::keys::table;
use lasthop_base::schema::quantity::QueueLimit;
use lasthop_base::units::{Bytes, Instant};

table! {
    /// A FIFO that drops arriving packets while it is full. Its limit alone is equivalent: queue =
    /// "50 packets".
    pub struct DropTailKeys as "drop-tail" {
        /// Maximum queue length, including the packet in transmission. A limit in bytes counts
        /// packets with their frame headers.
        limit: QueueLimit = "50 packets";
    }
}

/// The state machine.
pub type Machine<P> = DropTail<P>;

impl DisciplineKeys for DropTailKeys {
    type Machine<P: Payload> = Machine<P>;

    fn build<P: Payload>(&self, site: &QueueSite<'_>) -> Machine<P> {
        DropTail::new(self.limit.into(), site.header)
    }
}

/// A FIFO that drops arriving packets while it is full.
///
/// ```
/// use lasthop_base::packet::Packet;
/// use lasthop_base::units::{Bytes, Instant, Rate};
/// use lasthop_link::queue::{DropTail, Limit, QueueDiscipline, Transmitter};
///
/// let mut queue = DropTail::new(Limit::Packets(2), Bytes::new(0));
/// let transmitter = Transmitter::new(Rate::from_bps(1_000_000));
/// let packet = Packet { bytes: 1_000, ..Packet::default() };
/// let enqueued = [0; 3].map(|_| queue.enqueue(Instant::ZERO, packet, &transmitter));
/// assert_eq!(enqueued, [true, true, false]);
/// assert_eq!(queue.counters().tail_drops, 1);
/// ```
#[derive(Clone, Debug)]
pub struct DropTail<P> {
    fifo: Fifo<P>,
    drops: u64,
}

impl<P: Payload> DropTail<P> {
    /// Creates an empty queue with `limit`; each packet counts with its link header.
    pub fn new(limit: Limit, header: Bytes) -> Self {
        DropTail { fifo: Fifo::new(limit, header), drops: 0 }
    }

    /// Maximum queue length.
    #[inline]
    pub fn limit(&self) -> Limit {
        self.fifo.limit()
    }

    /// Like [`QueueDiscipline::enqueue`], but copies the packet, and only if there is room.
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

    /// Like [`QueueDiscipline::enqueue`] with `ahead` packets at the server, if the limit is a number of packets; otherwise
    /// returns the packet.
    #[inline]
    pub(super) fn enqueue_behind(&mut self, packet: P, ahead: u64) -> Result<bool, P> {
        let Limit::Packets(limit) = self.limit() else { return Err(packet) };
        let has_room = self.fifo.len() as u64 + ahead < limit;
        if has_room {
            self.fifo.push(packet);
        } else {
            self.drops += 1;
        }
        Ok(has_room)
    }

    /// Offers the slot of the packet at the head to `take`, which takes the packet or leaves it. Returns whether it was
    /// taken.
    #[inline]
    pub(super) fn offer_next(&mut self, take: impl FnOnce(&mut Option<P>)) -> bool {
        self.fifo.offer_front(take)
    }

    /// Enqueues a packet for which there is room.
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
