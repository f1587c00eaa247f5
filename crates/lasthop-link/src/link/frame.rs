//! What crosses the air.

use lasthop_base::coding::CodedUnits;
use lasthop_base::packet::Payload;

/// What crosses the air.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frame<P> {
    /// What the frame is.
    pub kind: FrameKind,
    /// Cumulative acknowledgment for the opposite direction: the next sequence number expected.
    pub ack: Option<u64>,
    /// The packet carried; `None` in control frames.
    pub payload: Option<P>,
    /// Length on the air in bytes: link header plus packet.
    pub bytes: u32,
    /// Identifier of the service that it belongs to, on a link of several ([`Services`](super::Services)); else 0.
    pub service: u8,
}

impl<P> Default for Frame<P> {
    fn default() -> Self {
        Frame { kind: FrameKind::default(), ack: None, payload: None, bytes: 0, service: 0 }
    }
}

impl<P: Payload> Frame<P> {
    /// Its packet keeps its number: see [`Payload::keep_frame`].
    pub fn number_packet(&mut self) {
        if let (Some(number), Some(packet)) = (self.kind.packet_number(), &mut self.payload) {
            packet.keep_frame(number);
        }
    }
}

impl<P> Frame<P> {
    /// The frame, whose packet is taken out of it.
    #[inline]
    pub fn take(&mut self) -> Self {
        let Frame { kind, ack, bytes, service, .. } = *self;
        Frame { kind, ack, payload: self.payload.take(), bytes, service }
    }
}

/// Kinds of frame. Sequence numbers are unwrapped; the wire format carries them modulo 256.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FrameKind {
    /// A packet with its sequence number.
    Data {
        /// Sequence number, from 0.
        sequence: u64,
    },
    /// Stand-alone cumulative acknowledgment (in [`Frame::ack`]).
    #[default]
    Ack,
    /// Negative acknowledgment: this frame is missing.
    Nack {
        /// Sequence number of the missing frame.
        sequence: u64,
    },
    /// Nothing new: all numbers before `next` have been sent.
    Keepalive {
        /// Number of the next new frame.
        next: u64,
    },
    /// Exclusive or of the packets of `count` data frames from `first` on.
    Parity {
        /// Sequence number of the first frame of the block.
        first: u64,
        /// Frames in the block.
        count: u16,
        /// Exclusive or of the packets' lengths in bytes.
        lengths: u32,
    },
    /// A piece of a packet, from a protocol that cuts packets up.
    Segment {
        /// Sequence number, from 0.
        sequence: u64,
        /// Does it end its packet?
        is_last: bool,
        /// Is the peer to answer with a [`FrameKind::Status`]?
        poll: bool,
    },
    /// Units of the block that a packet has become, from a protocol that codes packets.
    Block {
        /// Sequence number of the packet, from 0.
        sequence: u64,
        /// Which units these are.
        units: CodedUnits,
        /// A bit for each unit of the frame: set until the air destroys it.
        intact: u64,
        /// Nothing that is further behind is to be waited for.
        behind: u16,
    },
    /// Answer to a [`FrameKind::Block`] of which something arrived; [`Frame::ack`] is the next number
    /// that is to go up.
    Feedback {
        /// Sequence number of the packet.
        sequence: u64,
        /// Number of the first unit of the frame that is answered.
        first: u8,
        /// How many of its units have arrived.
        received: u8,
        /// Units that are still needed; 0: the packet is decoded.
        needed: u8,
    },
    /// Which segments have arrived: all before `first` have; [`Frame::ack`] is the number after the
    /// highest that has; of the 128 numbers from `first` on, bit k of `missing` (least significant
    /// first) says that `first + k` has not. Where more is missing a further frame of the same
    /// report follows, without [`Frame::ack`]: it speaks of its 128 numbers only.
    Status {
        /// Number that the first bit stands for.
        first: u64,
        /// One bit a number.
        missing: [u64; 2],
    },
    /// The receiver is to wait for nothing before `next`: it has been given up.
    Skip {
        /// First number that is still to be expected.
        next: u64,
    },
    /// Answer to [`FrameKind::Skip`].
    SkipAck {
        /// What the answered frame said.
        next: u64,
    },
    /// Both ends are to forget everything and start again from 0.
    Reset {
        /// Which reset this is, counted from 0.
        index: u64,
    },
    /// Answer to [`FrameKind::Reset`].
    ResetAck {
        /// What the answered frame said.
        index: u64,
    },
}

impl FrameKind {
    /// The number of a frame that carries a packet, a piece of one or units of its block.
    #[inline]
    pub fn packet_number(&self) -> Option<u64> {
        match *self {
            FrameKind::Data { sequence }
            | FrameKind::Segment { sequence, .. }
            | FrameKind::Block { sequence, .. } => Some(sequence),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use lasthop_base::packet::{Descriptor, Packet};

    #[test]
    fn frames_stay_small() {
        // They are copied on the hot path.
        assert_eq!([size_of::<Frame<Descriptor<()>>>(), size_of::<Frame<Packet>>()], [88, 120]);
    }
}
