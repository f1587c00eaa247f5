//! What crosses the air.

use lasthop_base::coding::CodedUnits;
use lasthop_base::packet::Payload;

/// What crosses the air.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frame<P, C = FrameKind> {
    /// What the frame is.
    pub kind: C,
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

impl<P, C> Frame<P, C> {
    /// A frame of no length without a packet and an acknowledgment.
    pub fn control(kind: C) -> Self {
        Frame { kind, ack: None, payload: None, bytes: 0, service: 0 }
    }
}

/// The content of a protocol's frames other than packet, acknowledgment and length. In-tree protocols share [`FrameKind`]; a
/// protocol of another crate has a type of its own, which it stores in [`FrameKind::Other`] for media and observers.
pub trait Control: Copy {
    /// What media and observers see of it.
    fn kind(self) -> FrameKind;

    /// The content that [`Self::kind`] has stored; `None` if it has stored no such kind.
    fn from_kind(kind: FrameKind) -> Option<Self>;
}

impl Control for FrameKind {
    #[inline(always)]
    fn kind(self) -> FrameKind {
        self
    }

    #[inline(always)]
    fn from_kind(kind: FrameKind) -> Option<Self> {
        Some(kind)
    }
}

impl<P, C: Control> Frame<P, C> {
    /// The frame as media and observers see it.
    #[inline(always)]
    pub fn on_air(self) -> Frame<P> {
        let Frame { kind, ack, payload, bytes, service } = self;
        Frame { kind: kind.kind(), ack, payload, bytes, service }
    }

    /// The frame that a medium has carried; `None` if it is of another protocol.
    #[inline(always)]
    pub fn from_air(frame: Frame<P>) -> Option<Self> {
        let Frame { kind, ack, payload, bytes, service } = frame;
        Some(Frame { kind: C::from_kind(kind)?, ack, payload, bytes, service })
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
    /// A frame of a protocol outside this crate, as its [`Control`] has stored it.
    Other {
        /// Its number, or the number that it is about; less than 2^56.
        number: u64,
        /// Whether it carries a packet, or a part of one.
        has_packet: bool,
        /// What else its protocol stores.
        fields: [u64; 2],
    },
}

impl FrameKind {
    /// The number of a frame that carries a packet, a piece of one or units of its block.
    #[inline]
    pub fn packet_number(&self) -> Option<u64> {
        match *self {
            FrameKind::Data { sequence }
            | FrameKind::Segment { sequence, .. }
            | FrameKind::Block { sequence, .. }
            | FrameKind::Other { number: sequence, has_packet: true, .. } => Some(sequence),
            _ => None,
        }
    }

    /// The kind and its fields as words, for a packet of the layer below that stands for the frame. Numbers have 56 bits.
    pub(super) fn pack(&self) -> [u64; 3] {
        let tagged = |tag: u64, number: u64| tag << TAG_SHIFT | number & NUMBER;
        match *self {
            FrameKind::Data { sequence } => [tagged(1, sequence), 0, 0],
            FrameKind::Ack => [tagged(2, 0), 0, 0],
            FrameKind::Nack { sequence } => [tagged(3, sequence), 0, 0],
            FrameKind::Keepalive { next } => [tagged(4, next), 0, 0],
            FrameKind::Parity { first, count, lengths } => {
                [tagged(5, first), count.into(), lengths.into()]
            }
            FrameKind::Segment { sequence, is_last, poll } => {
                [tagged(6, sequence), is_last.into(), poll.into()]
            }
            FrameKind::Block { sequence, units, intact, behind } => {
                let CodedUnits { data, first, units, padding } = units;
                let [low, high] = behind.to_le_bytes();
                let bytes = [data, first, units, padding, low, high, 0, 0];
                [tagged(7, sequence), u64::from_le_bytes(bytes), intact]
            }
            FrameKind::Feedback { sequence, first, received, needed } => {
                let bytes = [first, received, needed, 0, 0, 0, 0, 0];
                [tagged(8, sequence), u64::from_le_bytes(bytes), 0]
            }
            FrameKind::Status { first, missing: [low, high] } => [tagged(9, first), low, high],
            FrameKind::Skip { next } => [tagged(10, next), 0, 0],
            FrameKind::SkipAck { next } => [tagged(11, next), 0, 0],
            FrameKind::Reset { index } => [tagged(12, index), 0, 0],
            FrameKind::ResetAck { index } => [tagged(13, index), 0, 0],
            FrameKind::Other { number, has_packet, fields: [first, second] } => {
                [tagged(if has_packet { 15 } else { 14 }, number), first, second]
            }
        }
    }

    /// The kind that [`Self::pack`] has packed; `None` if it has packed no such words.
    pub(super) fn unpack([first, second, third]: [u64; 3]) -> Option<Self> {
        let number = first & NUMBER;
        let [a, b, c, d, low, high, ..] = second.to_le_bytes();
        let kind = match first >> TAG_SHIFT {
            1 => FrameKind::Data { sequence: number },
            2 => FrameKind::Ack,
            3 => FrameKind::Nack { sequence: number },
            4 => FrameKind::Keepalive { next: number },
            5 => FrameKind::Parity { first: number, count: second as u16, lengths: third as u32 },
            6 => FrameKind::Segment { sequence: number, is_last: second == 1, poll: third == 1 },
            7 => FrameKind::Block {
                sequence: number,
                units: CodedUnits { data: a, first: b, units: c, padding: d },
                intact: third,
                behind: u16::from_le_bytes([low, high]),
            },
            8 => FrameKind::Feedback { sequence: number, first: a, received: b, needed: c },
            9 => FrameKind::Status { first: number, missing: [second, third] },
            10 => FrameKind::Skip { next: number },
            11 => FrameKind::SkipAck { next: number },
            12 => FrameKind::Reset { index: number },
            13 => FrameKind::ResetAck { index: number },
            tag @ (14 | 15) => {
                FrameKind::Other { number, has_packet: tag == 15, fields: [second, third] }
            }
            _ => return None,
        };
        (kind.pack() == [first, second, third]).then_some(kind)
    }
}

/// Above it stands the tag of a packed kind, below it a number.
const TAG_SHIFT: u32 = 56;

const NUMBER: u64 = (1 << TAG_SHIFT) - 1;

#[cfg(test)]
mod tests {
    use super::*;
    use lasthop_base::packet::{Descriptor, Packet};

    #[test]
    fn packed_kinds_are_unpacked() {
        let units = CodedUnits { data: 10, first: 200, units: 64, padding: 9 };
        let kinds = [
            FrameKind::Data { sequence: NUMBER },
            FrameKind::Ack,
            FrameKind::Nack { sequence: 1 },
            FrameKind::Keepalive { next: 2 },
            FrameKind::Parity { first: 3, count: u16::MAX, lengths: u32::MAX },
            FrameKind::Segment { sequence: 4, is_last: true, poll: false },
            FrameKind::Segment { sequence: 4, is_last: false, poll: true },
            FrameKind::Block { sequence: 5, units, intact: u64::MAX, behind: 0x1234 },
            FrameKind::Feedback { sequence: 6, first: 255, received: 254, needed: 253 },
            FrameKind::Status { first: 7, missing: [u64::MAX, 1] },
            FrameKind::Skip { next: 8 },
            FrameKind::SkipAck { next: 9 },
            FrameKind::Reset { index: 10 },
            FrameKind::ResetAck { index: 11 },
            FrameKind::Other { number: 12, has_packet: false, fields: [1, u64::MAX] },
            FrameKind::Other { number: NUMBER, has_packet: true, fields: [0; 2] },
        ];
        for kind in kinds {
            assert_eq!(FrameKind::unpack(kind.pack()), Some(kind));
        }
        // No kind, and fields that its kind does not have.
        for words in [[0; 3], [16 << TAG_SHIFT, 0, 0], [2 << TAG_SHIFT, 1, 0]] {
            assert_eq!(FrameKind::unpack(words), None);
        }
    }

    #[test]
    fn frames_stay_small() {
        // They are copied on the hot path.
        assert_eq!([size_of::<Frame<Descriptor<()>>>(), size_of::<Frame<Packet>>()], [88, 120]);
    }
}
