//! Byte format of the acknowledged protocols (selective repeat, go-back-N, stop-and-wait).
//!
//! ```text
//!   data     | number | ack | packet ...        at least one byte of packet
//!   ACK      | ack - 1 | ack |                  no packet
//!   NACK     | missing | ack |                  no packet
//! ```
//!
//! `ack` is the next number expected. Numbers have one byte and are modulo 256. Windows too large
//! for one byte use two bytes, most significant first, modulo 65536 ([`NumberWidth`]). A missing
//! number is in the range `ack` to `ack + window - 1`, and the window is smaller than the range of
//! numbers. It is therefore never `ack - 1`, and the two control frames cannot be confused. Numbers
//! are unwrapped within the window of the receiving endpoint. A number outside yields an error,
//! never a panic, since the bytes come from the medium.
//!
//! Not modelled: error detection; damaged frames must be dropped before decoding.

use super::{Frame, FrameKind};
use lasthop_base::units::Bytes;

/// Length of a sequence number in frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NumberWidth {
    /// One byte.
    One,
    /// Two bytes.
    Two,
}

impl NumberWidth {
    /// Maximum window of selective repeat: half of the two-byte range.
    pub const WIDEST_SELECTIVE: u32 = 1 << 15;

    /// Maximum window of go-back-N without reject: the two-byte range minus 1.
    pub const WIDEST_CUMULATIVE: u32 = (1 << 16) - 1;

    /// Returns the width for a window in which the receiver buffers or reports individual frames:
    /// at most half of the range may be outstanding.
    pub const fn selective(window: u32) -> Self {
        if window > 128 { NumberWidth::Two } else { NumberWidth::One }
    }

    /// Returns the width for a receiver that accepts frames in order only: at most the range minus
    /// 1 may be outstanding.
    pub const fn cumulative(window: u32) -> Self {
        if window > 255 { NumberWidth::Two } else { NumberWidth::One }
    }

    /// Returns the length of a number and an acknowledgment.
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

    /// Returns the number modulo the range.
    const fn cut(self, number: u64) -> u16 {
        (number & self.mask()) as u16
    }

    fn write(self, number: u64, bytes: &mut Vec<u8>) {
        bytes.extend_from_slice(&number.to_be_bytes()[8 - self.bytes()..]);
    }

    /// Returns the number at the start of `bytes`, and the remaining bytes.
    fn read(self, bytes: &[u8]) -> Option<(u16, &[u8])> {
        let (number, rest) = bytes.split_at_checked(self.bytes())?;
        Some((number.iter().fold(0, |number, &byte| number << 8 | u16::from(byte)), rest))
    }

    /// Returns the distance from `from` to `number`, modulo the range.
    const fn beyond(self, number: u16, from: u64) -> u64 {
        (number as u64).wrapping_sub(from) & self.mask()
    }
}

/// Sequence number state of an endpoint, needed to unwrap received numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WireWindow {
    /// Next number expected by this end.
    pub expected: u64,
    /// Oldest number sent by this end and not acknowledged, including discarded frames.
    pub base: u64,
    /// Next new number of this end.
    pub next: u64,
    /// Window in frames, smaller than the range of numbers, equal at both ends.
    pub window: u32,
    /// Width of sequence numbers.
    pub width: NumberWidth,
}

/// Error of encoding or decoding a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WireError {
    /// A data frame without a packet, which cannot be distinguished from a control frame.
    #[error("data frame without a packet; expected at least 1 byte")]
    EmptyPacket,
    /// A frame kind that the protocol does not use.
    #[error("frame of another protocol; expected data, acknowledgment or NACK")]
    Kind,
    /// A frame without an acknowledgment, which the format requires.
    #[error("frame without an acknowledgment; expected one in every frame")]
    NoAck,
    /// A frame shorter than number and acknowledgment.
    #[error("frame of {0} bytes; expected at least {1}")]
    TooShort(usize, usize),
    /// A frame whose length exceeds 32 bits.
    #[error("frame of {0} bytes; expected at most 4294967295")]
    TooLong(usize),
    /// A number that the peer cannot have sent.
    #[error(
        "invalid sequence number {found}; expected one within a window of {expected} (as encoded)"
    )]
    Sequence {
        /// Number in the frame.
        found: u16,
        /// Number expected, as encoded.
        expected: u16,
    },
    /// An acknowledgment of a frame that is not outstanding.
    #[error("invalid acknowledgment {found}; expected {base} to {next} (as encoded)")]
    Ack {
        /// Acknowledgment in the frame.
        found: u16,
        /// Oldest number outstanding, as encoded.
        base: u16,
        /// Next new number, as encoded.
        next: u16,
    },
    /// A NACK of a frame that was never sent.
    #[error("invalid NACK of {found}; expected {ack} to before {next} (as encoded)")]
    Nack {
        /// Number in the frame.
        found: u16,
        /// Acknowledgment in the frame.
        ack: u16,
        /// Next new number, as encoded.
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

/// Decodes one frame in the context of the endpoint that receives it.
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
        // Exactly one of the `mask + 1` numbers up to the end of the window is congruent to
        // `first`. A correct peer retransmits no number below `expected - window`.
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
