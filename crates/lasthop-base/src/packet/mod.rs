//! What travels: a small `Copy` descriptor of an IP packet, without payload bytes, and the bytes of a real one.
//!
//! - `descriptor`: the packet of the simulator, 32 bytes and an extension.
//! - `header`: its TCP header, and the options that are such an extension.
//! - `bytes`: the same questions answered from the bytes of a packet.

mod bytes;
mod descriptor;
mod header;

pub use descriptor::LAST_INCARNATION;
pub use descriptor::{Descriptor, Packet};
pub use header::{
    Ecn, Extension, Header, MAX_SACK_BLOCKS, MAX_SACK_BLOCKS_WITH_TIMESTAMPS, TcpHeader,
    TcpOptions, Watched, flags,
};

use crate::coding::CodedUnits;

/// What a frame can carry: a descriptor in the simulator, real bytes on a live link.
pub trait Payload {
    /// Length of the packet in bytes, as the link layer sees it.
    fn wire_bytes(&self) -> u32;

    /// Exclusive or with another packet, the shorter one padded with zeros: what parity is made
    /// of. Twice the same packet cancels out, but for the padding: see [`Self::truncate`].
    fn xor(&mut self, other: &Self);

    /// Cuts the padding off: the packet is `bytes` long, at most what it is now.
    fn truncate(&mut self, bytes: u32);

    /// The piece of `bytes` bytes that begins at byte `from`: what a link that cuts packets up
    /// puts into one frame. The piece lies within the packet.
    fn slice(&self, from: u32, bytes: u32) -> Self;

    /// Puts the next piece behind this one.
    fn append(&mut self, next: &Self);

    /// The units of an erasure code that a frame carries of this packet. A descriptor stands for them, as
    /// they are counted.
    fn code_units(&self, _units: &CodedUnits) -> Self
    where
        Self: Clone,
    {
        self.clone()
    }

    /// Adds what has `arrived` of a frame's units to what is `held` of their block: the i-th if bit i of
    /// `new` is set.
    fn gather_units(held: &mut Option<Self>, arrived: Self, _units: &CodedUnits, _new: u64)
    where
        Self: Sized,
    {
        *held = Some(arrived);
    }

    /// The packet, from the `held` units of its block, at least as many as it has data units. None if
    /// they do not fit together.
    fn decode_units(self, _units: &CodedUnits, _held: u16) -> Option<Self>
    where
        Self: Sized,
    {
        Some(self)
    }

    /// Sets the mark that says that a queue is congested (CE of RFC 3168); false if its transport does
    /// not know the mark, and it must be dropped instead.
    fn mark_congestion(&mut self) -> bool {
        false
    }

    /// Does its ECN field ask for the treatment of L4S (RFC 9331): ECT(1), or CE?
    fn is_l4s(&self) -> bool {
        false
    }

    /// Has its sender marked it as one to be dropped before others ("out"; drop precedences of RFC 2597)?
    fn is_out(&self) -> bool {
        false
    }

    /// It has come in the link frame of this number, or was computed in its place. Descriptors that are
    /// [watched](Watched) keep it.
    #[inline(always)]
    fn keep_frame(&mut self, _number: u64) {}

    /// What packets of its flow share and those of others, most probably, do not: how a queue for each flow
    /// tells them apart.
    fn flow(&self) -> u64 {
        0
    }

    /// Its traffic class, the DS code point of RFC 2474, 0 to 63: 0 is best effort.
    fn class(&self) -> u8 {
        0
    }
}

/// What a link layer that acknowledges frames reports of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LinkFate {
    /// Its first transmission failed, and it is going to be sent again.
    Retrying,
    /// The other end has acknowledged it.
    Acknowledged,
    /// It was given up.
    Abandoned,
}
