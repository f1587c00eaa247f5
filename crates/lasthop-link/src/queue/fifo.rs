//! Packets in order of arrival, and how many of them there may be.

use super::{Ring, Transmitter};
use lasthop_base::packet::Payload;
use lasthop_base::schema::quantity::QueueLimit;
use lasthop_base::units::{Bytes, Instant};

/// Packets that there is room for at first; it grows.
const CAPACITY: usize = 8;

/// What a queue holds, the packet in transmission included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limit {
    /// So many packets.
    Packets(u64),
    /// So many bytes.
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

/// A queue in order of arrival, with its limit: what disciplines are made of.
#[derive(Clone, Debug)]
pub struct Fifo<P> {
    /// Each place in use has one.
    packets: Ring<Option<P>>,
    /// Of the packets, link headers included.
    bytes: u64,
    limit: Limit,
    header: u64,
}

impl<P: Payload> Fifo<P> {
    /// An empty queue of `limit`, which counts each packet with its link header.
    pub fn new(limit: Limit, header: Bytes) -> Self {
        let packets = Ring::with_capacity(CAPACITY);
        Fifo { packets, bytes: 0, limit, header: header.get() }
    }

    /// What it holds at most.
    pub fn limit(&self) -> Limit {
        self.limit
    }

    /// Length of a packet with its link header.
    #[inline]
    pub fn frame_bytes(&self, packet: &P) -> u64 {
        u64::from(packet.wire_bytes()) + self.header
    }

    /// Is there room for `count` packets of `bytes` each beside the frame on the air?
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

    /// A packet joins at the end.
    #[inline]
    pub fn push(&mut self, packet: P) {
        self.bytes += self.frame_bytes(&packet);
        self.packets.push(Some(packet));
    }

    /// A copy of it joins.
    #[inline(always)]
    pub fn push_copy(&mut self, packet: &P)
    where
        P: Clone,
    {
        self.bytes += self.frame_bytes(packet);
        let place = self.packets.push_slot();
        *place = Some(packet.clone());
    }

    /// The packet at the head leaves.
    #[inline]
    pub fn pop(&mut self) -> Option<P> {
        let mut packet = None;
        self.pop_into(&mut packet);
        packet
    }

    /// The same, put where it is wanted; false if there is none.
    #[inline(always)]
    pub fn pop_into(&mut self, place: &mut Option<P>) -> bool {
        *place = None;
        let Some(first) = self.packets.front_mut() else { return false };
        // In one piece, which `take` is not.
        std::mem::swap(place, first);
        self.packets.next_front();
        if let Some(packet) = place {
            self.bytes -= u64::from(packet.wire_bytes()) + self.header;
        }
        true
    }

    /// Takes out the last packet for which `is_wanted` holds.
    pub fn take_last(&mut self, is_wanted: impl Fn(&P) -> bool) -> Option<P> {
        let is_wanted = |packet: &Option<P>| packet.as_ref().is_some_and(&is_wanted);
        let packet = self.packets.remove_last(is_wanted)??;
        self.bytes -= self.frame_bytes(&packet);
        Some(packet)
    }

    /// Packets that wait.
    #[inline]
    pub fn len(&self) -> usize {
        self.packets.len()
    }

    /// Is there none?
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.packets.is_empty()
    }

    /// Bytes of the packets that wait, link headers included.
    #[inline]
    pub fn bytes(&self) -> u64 {
        self.bytes
    }
}
