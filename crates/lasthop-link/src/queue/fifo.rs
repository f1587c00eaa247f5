//! A bounded FIFO of packets.

use super::{Ring, Transmitter};
use lasthop_base::packet::Payload;
use lasthop_base::schema::quantity::QueueLimit;
use lasthop_base::units::{Bytes, Instant};

/// Initial capacity in packets; it grows.
const CAPACITY: usize = 8;

/// Maximum queue length, including the packet in transmission.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limit {
    /// In packets.
    Packets(u64),
    /// In bytes, link headers included.
    Bytes(Bytes),
}

impl From<QueueLimit> for Limit {
    fn from(limit: QueueLimit) -> Self {
        match limit {
            QueueLimit::Packets(packets) => Limit::Packets(packets.into()),
            QueueLimit::Bytes(bytes) => Limit::Bytes(bytes),
        }
    }
}

/// A FIFO with its limit: the building block of the disciplines.
#[derive(Clone, Debug)]
pub struct Fifo<P> {
    /// Every slot in use is `Some`; others may keep an old packet.
    packets: Ring<Option<P>>,
    /// Total length of the packets, link headers included.
    bytes: u64,
    limit: Limit,
    header: u64,
}

impl<P: Payload> Fifo<P> {
    /// Creates an empty queue with `limit`; each packet counts with its link header.
    pub fn new(limit: Limit, header: Bytes) -> Self {
        let packets = Ring::with_capacity(CAPACITY);
        Fifo { packets, bytes: 0, limit, header: header.get() }
    }

    /// Maximum queue length.
    #[inline]
    pub fn limit(&self) -> Limit {
        self.limit
    }

    /// Length of a packet with its link header.
    #[inline]
    pub fn frame_bytes(&self, packet: &P) -> u64 {
        u64::from(packet.wire_bytes()) + self.header
    }

    /// Returns `true` if the queue has room for `count` packets of `bytes` each, in addition to the
    /// frame in transmission.
    #[inline(always)]
    pub fn has_room(
        &self,
        now: Instant,
        bytes: u32,
        count: u64,
        transmitter: &Transmitter,
    ) -> bool {
        match self.limit {
            Limit::Packets(limit) => {
                self.packets.len() as u64 + transmitter.on_air_frames(now) + count <= limit
            }
            Limit::Bytes(limit) => {
                let bytes = u64::from(bytes) + self.header;
                self.bytes + transmitter.on_air_bytes(now) + count * bytes <= limit.get()
            }
        }
    }

    /// Appends a packet.
    #[inline]
    pub fn push(&mut self, packet: P) {
        self.bytes += self.frame_bytes(&packet);
        self.packets.push(Some(packet));
    }

    /// Appends a copy of `packet`.
    #[inline(always)]
    pub fn push_copy(&mut self, packet: &P)
    where
        P: Clone,
    {
        self.bytes += self.frame_bytes(packet);
        let place = self.packets.push_slot();
        *place = Some(packet.clone());
    }

    /// Offers the slot of the packet at the head to `take`, which takes the packet or leaves it. Returns whether it was
    /// taken.
    #[inline]
    pub fn offer_front(&mut self, take: impl FnOnce(&mut Option<P>)) -> bool {
        let header = self.header;
        let Some(slot) = self.packets.front_mut() else { return false };
        let bytes = slot.as_ref().map_or(0, |packet| u64::from(packet.wire_bytes()) + header);
        take(slot);
        let is_taken = slot.is_none();
        if is_taken {
            self.bytes -= bytes;
            self.packets.drop_front();
        }
        is_taken
    }

    /// Removes and returns the packet at the head.
    #[inline]
    pub fn pop(&mut self) -> Option<P> {
        let mut packet = None;
        self.pop_into(&mut packet);
        packet
    }

    /// Like [`Self::pop`], but stores the packet in `place` and returns whether it did.
    #[inline(always)]
    pub fn pop_into(&mut self, place: &mut Option<P>) -> bool {
        *place = None;
        let Some(first) = self.packets.front_mut() else { return false };
        // `swap` copies the value in one piece, unlike `take`.
        std::mem::swap(place, first);
        self.packets.next_front();
        if let Some(packet) = place {
            self.bytes -= u64::from(packet.wire_bytes()) + self.header;
        }
        true
    }

    /// Removes the last packet for which `is_wanted` returns `true`.
    pub fn take_last(&mut self, is_wanted: impl Fn(&P) -> bool) -> Option<P> {
        let is_wanted = |packet: &Option<P>| packet.as_ref().is_some_and(&is_wanted);
        let packet = self.packets.remove_last(is_wanted)??;
        self.bytes -= self.frame_bytes(&packet);
        Some(packet)
    }

    /// Number of queued packets.
    #[inline]
    pub fn len(&self) -> usize {
        self.packets.len()
    }

    /// Returns `true` if no packets are queued.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.packets.is_empty()
    }

    /// Total length of the queued packets in bytes, link headers included.
    #[inline]
    pub fn bytes(&self) -> u64 {
        self.bytes
    }
}
