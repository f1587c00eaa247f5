//! Link-layer frames and their kinds.

use lasthop_base::coding::CodedUnits;
use lasthop_base::packet::Payload;

/// A link-layer frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frame<P, C = FrameKind> {
    /// Kind of the frame, with its fields.
    pub kind: C,
    /// Cumulative acknowledgment for the opposite direction: the next sequence number expected.
    pub ack: Option<u64>,
    /// The packet carried; `None` in control frames.
    pub payload: Option<P>,
    /// Length on the medium in bytes: link header and packet.
    pub bytes: u32,
    /// Identifier of the service of the frame, on a link with several
    /// ([`Services`](super::Services)); otherwise 0.
    pub service: u8,
}

impl<P> Default for Frame<P> {
    fn default() -> Self {
        Frame { kind: FrameKind::default(), ack: None, payload: None, bytes: 0, service: 0 }
    }
}

impl<P, C> Frame<P, C> {
    /// Returns a frame of length 0 without packet and acknowledgment.
    pub fn control(kind: C) -> Self {
        Frame { kind, ack: None, payload: None, bytes: 0, service: 0 }
    }
}

/// The content of a protocol's frames other than packet, acknowledgment and length. Most
/// protocols share [`FrameKind`]. Any protocol may have its own type, stored in
/// [`FrameKind::Other`] for media and observers.
pub trait Control: Copy {
    /// Returns the kind that media and observers see.
    fn kind(self) -> FrameKind;

    /// Returns the content stored by [`Self::kind`]; `None` if `kind` was stored by another
    /// protocol.
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
    /// Converts the frame to the form that media and observers see.
    #[inline(always)]
    pub fn on_air(self) -> Frame<P> {
        let Frame { kind, ack, payload, bytes, service } = self;
        Frame { kind: kind.kind(), ack, payload, bytes, service }
    }

    /// Converts a frame received from a medium; `None` if it belongs to another protocol.
    #[inline(always)]
    pub fn from_air(frame: Frame<P>) -> Option<Self> {
        let Frame { kind, ack, payload, bytes, service } = frame;
        Some(Frame { kind: C::from_kind(kind)?, ack, payload, bytes, service })
    }
}

impl<P: Payload> Frame<P> {
    /// Stores the sequence number of the frame in its packet: see [`Payload::keep_frame`].
    pub fn number_packet(&mut self) {
        if let (Some(number), Some(packet)) = (self.kind.packet_number(), &mut self.payload) {
            packet.keep_frame(number);
        }
    }
}

impl<P> Frame<P> {
    /// Moves the frame out, leaving one without a packet.
    #[inline]
    pub fn take(&mut self) -> Self {
        let Frame { kind, ack, bytes, service, .. } = *self;
        Frame { kind, ack, payload: self.payload.take(), bytes, service }
    }
}

/// A value in the fields of a packed frame.
trait Packed: Sized {
    fn to_bits(self) -> u128;
    fn from_bits(bits: u128) -> Self;
}

/// Defines the bits of types by two functions.
macro_rules! packed {
    ($($type:ty: $to:expr, $from:expr;)+) => {
        $(impl Packed for $type {
            fn to_bits(self) -> u128 {
                ($to)(self)
            }

            fn from_bits(bits: u128) -> Self {
                ($from)(bits)
            }
        })+
    };
}

packed! {
    bool: u128::from, |bits| bits & 1 == 1;
    u8: u128::from, |bits| bits as u8;
    u16: u128::from, |bits| bits as u16;
    u32: u128::from, |bits| bits as u32;
    u64: u128::from, |bits| bits as u64;
    [u64; 2]: |[low, high]: [u64; 2]| u128::from(high) << 64 | u128::from(low),
        |bits| [bits as u64, (bits >> 64) as u64];
    CodedUnits: |one: CodedUnits| u32::from_le_bytes([one.data, one.first, one.units, one.padding]).into(),
        |bits| {
            let [data, first, units, padding] = (bits as u32).to_le_bytes();
            CodedUnits { data, first, units, padding }
        };
}

/// Fields of a packed frame, in 128 bits.
#[derive(Default)]
struct Fields {
    bits: u128,
    /// Number of bits written or read.
    place: u32,
}

impl Fields {
    fn add<T: Packed>(&mut self, value: T) {
        self.bits |= value.to_bits() << self.place;
        self.place += 8 * size_of::<T>() as u32;
    }

    fn take<T: Packed>(&mut self) -> T {
        let value = T::from_bits(self.bits >> self.place);
        self.place += 8 * size_of::<T>() as u32;
        value
    }
}

/// Declares the kinds of frame: `[tag, name, packet] Kind { number, further fields }`. The tag
/// identifies the kind in a packed frame, the name in traces. `packet` marks a frame that carries a
/// packet or a part of one. The further fields have up to 128 bits.
macro_rules! frame_kinds {
    ($(
        $(#[$doc:meta])+
        [$tag:literal, $name:literal $(, $packet:ident)?]
        $kind:ident $({
            $(#[$about:meta])+
            $number:ident: u64,
            $($(#[$further:meta])+ $field:ident: $type:ty,)*
        })?
    )+) => {
        /// Kinds of frame. Sequence numbers are unwrapped; on the medium they are modulo the number
        /// range of the protocol.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub enum FrameKind {
            $(
                $(#[$doc])+
                $kind $({
                    $(#[$about])+
                    $number: u64,
                    $($(#[$further])+ $field: $type,)*
                })?,
            )+
            /// A frame of a protocol with its own [`Control`].
            Other {
                /// Sequence number of the frame, or of the frame to which it refers; less than 2^56.
                number: u64,
                /// Whether the frame carries a packet or a part of one.
                has_packet: bool,
                /// Further fields of the protocol.
                fields: [u64; 2],
            },
        }

        impl FrameKind {
            /// Returns the name in traces.
            pub fn name(&self) -> &'static str {
                match self {
                    $(FrameKind::$kind { .. } => $name,)+
                    FrameKind::Other { has_packet, .. } => if *has_packet { "data" } else { "control" },
                }
            }

            /// Returns the sequence number, or the first one, of the frame or of those to which it
            /// refers; 0 for kinds without a number.
            #[inline]
            pub fn number(&self) -> u64 {
                match *self {
                    $(FrameKind::$kind { $($number, ..)? } => 0 $(+ $number)?,)+
                    FrameKind::Other { number, .. } => number,
                }
            }

            /// Returns the sequence number of a frame that carries a packet, a segment or units of
            /// a packet.
            #[inline]
            pub fn packet_number(&self) -> Option<u64> {
                match self {
                    $($(FrameKind::$kind { .. } => frame_kinds!(@$packet self),)?)+
                    FrameKind::Other { number, has_packet: true, .. } => Some(*number),
                    _ => None,
                }
            }

            /// Packs the kind and its fields into words, for a packet of the layer below that
            /// represents the frame. Numbers have 56 bits.
            pub(super) fn pack(&self) -> [u64; 3] {
                let mut all = Fields::default();
                let tag: u64 = match *self {
                    $(FrameKind::$kind { $($number: _, $($field,)*)? } => {
                        $($(all.add($field);)*)?
                        $tag
                    })+
                    FrameKind::Other { has_packet, fields, .. } => {
                        all.add(fields);
                        if has_packet { OWN_PACKET } else { OWN }
                    }
                };
                [tag << TAG_SHIFT | self.number() & NUMBER, all.bits as u64, (all.bits >> 64) as u64]
            }

            /// Unpacks a kind packed by [`Self::pack`]; `None` for any other words.
            pub(super) fn unpack([first, second, third]: [u64; 3]) -> Option<Self> {
                let (number, fields) = (first & NUMBER, [second, third]);
                let mut all = Fields { bits: fields.to_bits(), place: 0 };
                let kind = match first >> TAG_SHIFT {
                    $($tag => FrameKind::$kind {
                        $($number: number, $($field: all.take(),)*)?
                    },)+
                    tag @ (OWN | OWN_PACKET) => {
                        FrameKind::Other { number, has_packet: tag == OWN_PACKET, fields }
                    }
                    _ => return None,
                };
                (kind.pack() == [first, second, third]).then_some(kind)
            }
        }
    };
    (@packet $kind:ident) => {
        Some($kind.number())
    };
}

frame_kinds! {
    /// A packet with its sequence number.
    [1, "data", packet]
    Data {
        /// Sequence number, from 0.
        sequence: u64,
    }
    /// Stand-alone cumulative acknowledgment (in [`Frame::ack`]).
    #[default]
    [2, "ack"]
    Ack
    /// Negative acknowledgment of a missing frame.
    [3, "nack"]
    Nack {
        /// Sequence number of the missing frame.
        sequence: u64,
    }
    /// Keep-alive: all frames before `next` have been sent.
    [4, "keepalive"]
    Keepalive {
        /// Sequence number of the next new frame.
        next: u64,
    }
    /// Exclusive or of the packets of `count` data frames, starting at `first`.
    [5, "parity"]
    Parity {
        /// Sequence number of the first frame of the block.
        first: u64,
        /// Number of frames in the block.
        count: u16,
        /// Exclusive or of the packets' lengths in bytes.
        lengths: u32,
    }
    /// A segment of a packet, of a protocol that segments packets.
    [6, "segment", packet]
    Segment {
        /// Sequence number, from 0.
        sequence: u64,
        /// Whether this is the last segment of its packet.
        is_last: bool,
        /// Whether the peer must reply with a [`FrameKind::Status`].
        poll: bool,
    }
    /// Units of an erasure-coded packet.
    [7, "block", packet]
    Block {
        /// Sequence number of the packet, from 0.
        sequence: u64,
        /// The range of units in the frame.
        units: CodedUnits,
        /// One bit per unit of the frame; the medium clears the bits of lost units.
        intact: u64,
        /// Distance to the sender's oldest outstanding packet: the receiver no longer waits for
        /// packets before `sequence - behind`.
        behind: u16,
    }
    /// Reply to a [`FrameKind::Block`] that was received at least in part. [`Frame::ack`] is the
    /// next number to deliver.
    [8, "feedback"]
    Feedback {
        /// Sequence number of the packet.
        sequence: u64,
        /// Number of the first unit of the acknowledged frame.
        first: u8,
        /// Number of units of that frame received.
        received: u8,
        /// Number of units still needed; 0 if the packet is decoded.
        needed: u8,
    }
    /// Status report. All segments before `first` have been received, and [`Frame::ack`] is the
    /// highest number received plus one. Bit k of `missing` (least significant first) is set if
    /// segment `first + k` is missing, for 128 numbers. Longer reports continue in further frames
    /// without [`Frame::ack`], each valid for its 128 numbers only.
    [9, "status"]
    Status {
        /// Sequence number of the first bit.
        first: u64,
        /// One bit per number, set if the segment is missing.
        missing: [u64; 2],
    }
    /// Move receiving window: segments before `next` have been discarded by the sender.
    [10, "skip"]
    Skip {
        /// First number that can still be received.
        next: u64,
    }
    /// Acknowledgment of [`FrameKind::Skip`].
    [11, "skip-ack"]
    SkipAck {
        /// `next` of the acknowledged frame.
        next: u64,
    }
    /// Reset: both ends restart with sequence number 0.
    [12, "reset"]
    Reset {
        /// Index of the reset, counted from 0.
        index: u64,
    }
    /// Acknowledgment of [`FrameKind::Reset`].
    [13, "reset-ack"]
    ResetAck {
        /// `index` of the acknowledged frame.
        index: u64,
    }
}

/// Tags of [`FrameKind::Other`] without and with a packet.
const OWN: u64 = 14;
const OWN_PACKET: u64 = OWN + 1;

/// Position of the tag in the first word of a packed kind; the bits below hold a number.
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
        // An unknown tag, and a field that the kind does not have.
        for words in [[0; 3], [16 << TAG_SHIFT, 0, 0], [2 << TAG_SHIFT, 1, 0]] {
            assert_eq!(FrameKind::unpack(words), None);
        }
    }

    #[test]
    fn frames_stay_small() {
        // Frames are copied in the most frequent operations.
        assert_eq!([size_of::<Frame<Descriptor<()>>>(), size_of::<Frame<Packet>>()], [88, 120]);
    }
}
