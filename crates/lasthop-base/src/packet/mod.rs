//! Packets: a small `Copy` descriptor of an IP packet without payload bytes, and packets of real bytes.
//!
//! - `descriptor`: the packet of the simulator, 32 bytes and an extension.
//! - `header`: its TCP header, and the options as an extension.
//! - `buffers`: the bytes of descriptors that stand for packets of real bytes.
//! - `bytes`: the [`Payload`] interface for real bytes.

mod buffers;
mod bytes;
mod descriptor;
mod header;

pub use buffers::Buffers;
pub use descriptor::LAST_INCARNATION;
pub use descriptor::{Descriptor, Packet};
pub use header::{
    Ecn, Extension, FrameHeader, Header, MAX_LAYERS, MAX_SACK_BLOCKS,
    MAX_SACK_BLOCKS_WITH_TIMESTAMPS, TcpHeader, TcpOptions, Watched, flags,
};

use crate::coding::CodedUnits;

/// Contents of a frame: a descriptor in the simulator, real bytes on a live link.
pub trait Payload {
    /// Returns the length of the packet in bytes, as seen by the link layer.
    fn wire_bytes(&self) -> u32;

    /// Computes the exclusive or with another packet, the shorter one padded with zeros, for
    /// parity. Two equal packets cancel out, except for the padding: see [`Self::truncate`].
    fn xor(&mut self, other: &Self);

    /// Removes the padding: shortens the packet to `bytes`, at most its present length.
    fn truncate(&mut self, bytes: u32);

    /// Returns the `bytes` bytes that begin at byte `from`, for links that segment packets into
    /// frames. The range lies within the packet.
    fn slice(&self, from: u32, bytes: u32) -> Self;

    /// Appends the next slice of the packet.
    fn append(&mut self, next: &Self);

    /// Returns the units of an erasure code that a frame carries of this packet. A descriptor
    /// represents its units.
    fn code_units(&self, _units: &CodedUnits) -> Self
    where
        Self: Clone,
    {
        self.clone()
    }

    /// Adds units of a received frame to the `held` units of their block: the i-th unit if bit i of
    /// `new` is set.
    fn gather_units(held: &mut Option<Self>, arrived: Self, _units: &CodedUnits, _new: u64)
    where
        Self: Sized,
    {
        *held = Some(arrived);
    }

    /// Decodes the packet from the `held` units of its block, at least as many as it has data
    /// units. Returns `None` if they are inconsistent.
    fn decode_units(self, _units: &CodedUnits, _held: u16) -> Option<Self>
    where
        Self: Sized,
    {
        Some(self)
    }

    /// Like [`Self::gather_units`] of a frame that alone has enough units, followed by
    /// [`Self::decode_units`]: replaces the content of the frame by the packet.
    fn decode_frame(_content: &mut Option<Self>, _units: &CodedUnits, _new: u64, _held: u16)
    where
        Self: Sized,
    {
    }

    /// Marks the packet as congestion experienced (CE of RFC 3168). Returns `false` if its
    /// transport does not support ECN; the caller must then drop the packet.
    fn mark_congestion(&mut self) -> bool {
        false
    }

    /// Returns `true` if the ECN field requests the L4S treatment (RFC 9331): ECT(1) or CE.
    fn is_l4s(&self) -> bool {
        false
    }

    /// Returns `true` if the sender marked the packet to be dropped before others ("out"; drop
    /// precedences of RFC 2597).
    fn is_out(&self) -> bool {
        false
    }

    /// Stores the number of the link frame in which the packet was received or from which it was
    /// computed. [`Watched`] descriptors keep it.
    #[inline(always)]
    fn keep_frame(&mut self, _number: u64) {}

    /// Returns a flow hash: equal for packets of one flow, different with high probability for
    /// packets of different flows. Used by queues with one subqueue per flow.
    fn flow(&self) -> u64 {
        0
    }

    /// Returns the traffic class, the DSCP of RFC 2474, from 0 to 63; 0 is best effort.
    fn class(&self) -> u8 {
        0
    }
}

/// Delivery report of a link layer that acknowledges frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeliveryReport {
    /// The first transmission failed; the packet is going to be retransmitted.
    Retrying,
    /// The other end has acknowledged the packet.
    Acknowledged,
    /// The packet was discarded after the retry limit.
    Abandoned,
}
