//! Byte format of the acknowledged protocols (selective repeat, go-back-N, stop-and-wait).
//!
//! ```text
//!   data     | number | ack | packet ...        at least one byte of packet
//!   ACK      | ack - 1 | ack |                  no packet
//!   NACK     | missing | ack |                  no packet
//! ```
//!
//! `ack` is the next number expected. Numbers have one byte and are modulo 256; where the window is
//! too wide for that they have two, most significant first, and are modulo 65536 ([`NumberWidth`]).
//! A missing number is one of `ack` to `ack + window - 1` and the window is smaller than the range
//! of numbers, so it is never `ack - 1`: the two control frames cannot be confused. Numbers are unwrapped against the window of the endpoint that
//! receives them; whatever lies outside is an error, never a panic: these bytes come from the air.
//!
//! Not modelled: error detection; a damaged frame must be gone before it comes here.

use super::{Frame, FrameKind};
use lasthop_base::units::Bytes;

/// Bytes of a number on the air.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NumberWidth {
    /// One byte.
    One,
    /// Two bytes.
    Two,
}

impl NumberWidth {
    /// The widest window of selective repeat: half of the numbers of two bytes.
    pub const WIDEST_SELECTIVE: u32 = 1 << 15;

    /// The widest window of go-back-N without reject: one less than the numbers of two bytes.
    pub const WIDEST_CUMULATIVE: u32 = (1 << 16) - 1;

    /// For a window in which the receiver keeps or names single frames: at most half of the numbers
    /// may be outstanding.
    pub const fn selective(window: u32) -> Self {
        if window > 128 { NumberWidth::Two } else { NumberWidth::One }
    }

    /// For a receiver that takes frames in order only: one number less than there are.
    pub const fn cumulative(window: u32) -> Self {
        if window > 255 { NumberWidth::Two } else { NumberWidth::One }
    }

    /// Length of a number and an acknowledgment.
    pub const fn header(self) -> Bytes {
        Bytes::new(2 * self.bytes() as u64)
    }

    const fn bytes(self) -> usize {
        match self {
            NumberWidth::One => 1,
            NumberWidth::Two => 2,
        }
    }

    const fn mask(self) -> u64 {
        match self {
            NumberWidth::One => 0xff,
            NumberWidth::Two => 0xffff,
        }
    }

    /// What of a number is on the air.
    const fn cut(self, number: u64) -> u16 {
        (number & self.mask()) as u16
    }

    fn write(self, number: u64, bytes: &mut Vec<u8>) {
        bytes.extend_from_slice(&number.to_be_bytes()[8 - self.bytes()..]);
    }

    /// The number that bytes begin with, and the rest.
    fn read(self, bytes: &[u8]) -> Option<(u16, &[u8])> {
        let (number, rest) = bytes.split_at_checked(self.bytes())?;
        Some((number.iter().fold(0, |number, &byte| number << 8 | u16::from(byte)), rest))
    }

    /// How far `number` is beyond `from`, modulo the range of numbers.
    const fn beyond(self, number: u16, from: u64) -> u64 {
        (number as u64).wrapping_sub(from) & self.mask()
    }
}

/// Where the two directions of an endpoint stand: the context in which numbers make sense.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WireWindow {
    /// Next number this end expects.
    pub expected: u64,
    /// Oldest number this end has sent and not seen acknowledged; frames given up count.
    pub base: u64,
    /// Next new number of this end.
    pub next: u64,
    /// Window in frames, smaller than the range of numbers; the peer has the same.
    pub window: u32,
    /// How numbers are written.
    pub width: NumberWidth,
}

/// Why a frame has no byte form, or bytes no frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WireError {
    /// Without a packet a data frame would look like a control frame.
    #[error("found a data frame without a packet; allowed: at least 1 byte")]
    EmptyPacket,
    /// The protocol has no such frame.
    #[error("found a frame of another protocol; allowed: data, acknowledgment, NACK")]
    Kind,
    /// The format has no room for an absent acknowledgment.
    #[error("found a frame without an acknowledgment; allowed: every frame carries one")]
    NoAck,
    /// Shorter than any frame.
    #[error("found a frame of {0} bytes; allowed: at least {1}")]
    TooShort(usize, usize),
    /// A frame longer than a length field can say.
    #[error("found a frame of {0} bytes; allowed: at most 4294967295")]
    TooLong(usize),
    /// The number is not one the peer can have sent now.
    #[error(
        "found sequence number {found}; allowed: within a window of {expected} (as on the air)"
    )]
    Sequence {
        /// Number in the frame.
        found: u16,
        /// Number expected, as on the air.
        expected: u16,
    },
    /// The acknowledgment is for a frame that is not outstanding.
    #[error("found acknowledgment {found}; allowed: {base} to {next} (as on the air)")]
    Ack {
        /// Acknowledgment in the frame.
        found: u16,
        /// Oldest number outstanding, as on the air.
        base: u16,
        /// Next new number, as on the air.
        next: u16,
    },
    /// The NACK is for a frame that was never sent.
    #[error("found a NACK for {found}; allowed: {ack} to before {next} (as on the air)")]
    Nack {
        /// Number in the frame.
        found: u16,
        /// Acknowledgment in the frame.
        ack: u16,
        /// Next new number, as on the air.
        next: u16,
    },
}

/// Appends the byte form of `frame` to `bytes`.
pub fn encode(
    frame: &Frame<Vec<u8>>,
    width: NumberWidth,
    bytes: &mut Vec<u8>,
) -> Result<(), WireError> {
    let ack = frame.ack.ok_or(WireError::NoAck)?;
    let (first, packet) = match frame.kind {
        FrameKind::Data { sequence } => match &frame.payload {
            Some(packet) if !packet.is_empty() => (sequence, packet.as_slice()),
            _ => return Err(WireError::EmptyPacket),
        },
        FrameKind::Ack => (ack.wrapping_sub(1), [].as_slice()),
        FrameKind::Nack { sequence } => (sequence, [].as_slice()),
        _ => return Err(WireError::Kind),
    };
    width.write(first, bytes);
    width.write(ack, bytes);
    bytes.extend_from_slice(packet);
    Ok(())
}

/// Reads one frame in the context of the endpoint that receives it.
pub fn decode(bytes: &[u8], window: &WireWindow) -> Result<Frame<Vec<u8>>, WireError> {
    let WireWindow { expected, base, next, window: span, width } = *window;
    let too_short = WireError::TooShort(bytes.len(), 2 * width.bytes());
    let (first, rest) = width.read(bytes).ok_or(too_short)?;
    let (ack_field, packet) = width.read(rest).ok_or(too_short)?;
    let length = u32::try_from(bytes.len()).map_err(|_| WireError::TooLong(bytes.len()))?;
    let ack = base + width.beyond(ack_field, base);
    if ack > next {
        let (base, next) = (width.cut(base), width.cut(next));
        return Err(WireError::Ack { found: ack_field, base, next });
    }
    let (kind, payload) = if !packet.is_empty() {
        let error = WireError::Sequence { found: first, expected: width.cut(expected) };
        // Of the numbers that end with the window, exactly one is written so. Below the window the
        // oldest a correct peer repeats is `expected - window`.
        let ahead = width.beyond(first, expected);
        let sequence = if ahead < u64::from(span).min(width.mask()) {
            expected + ahead
        } else {
            let behind = ahead.wrapping_neg() & width.mask();
            if behind > u64::from(span) {
                return Err(error);
            }
            expected.checked_sub(behind).ok_or(error)?
        };
        (FrameKind::Data { sequence }, Some(packet.to_vec()))
    } else if first == width.cut(u64::from(ack_field).wrapping_sub(1)) {
        (FrameKind::Ack, None)
    } else {
        let sequence = ack + width.beyond(first, ack);
        if sequence >= next {
            let next = width.cut(next);
            return Err(WireError::Nack { found: first, ack: ack_field, next });
        }
        (FrameKind::Nack { sequence }, None)
    };
    Ok(Frame { kind, ack: Some(ack), payload, bytes: length, service: 0 })
}
