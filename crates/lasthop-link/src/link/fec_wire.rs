//! Byte format of exclusive-or FEC.
//!
//! ```text
//!   data     | 0 number |                          packet ...
//!   parity   | 1 next   | count | lengths (2) |    exclusive or of the packets ...
//! ```
//!
//! The first byte contains a bit for data or parity and a number modulo 128: that of the data
//! frame, or the one after the last frame protected by the parity. `count` is the number of
//! protected frames, whose numbers have a distance of `interleave`. `lengths` is the exclusive or
//! of the packet lengths, high byte first. Numbers are unwrapped against the next one that the
//! receiver expects. The order is preserved, so only parity can refer to earlier numbers, by less
//! than `interleave`. A loss of 128 consecutive frames cannot be detected; before parity, the limit
//! is lower by `interleave` - 1.
//!
//! Not modelled: error detection; damaged frames must be dropped before decoding.

use super::{Frame, FrameKind};

/// Number of sequence numbers (7 bits).
pub const MOST_NUMBERS: u64 = 128;

/// Length of count and lengths, which follow the header in a parity frame, in bytes.
pub const PARITY_FIELDS: u32 = 3;

/// Bit that identifies a parity frame.
const PARITY: u8 = 0x80;

/// Error of encoding or decoding a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FecWireError {
    /// A frame kind that the protocol does not use, or a frame without a packet.
    #[error("frame of another protocol or without a packet; expected data or parity")]
    Kind,
    /// A packet whose length exceeds 16 bits.
    #[error("packet too long; expected at most 65535 bytes")]
    TooLong,
    /// A frame shorter than the minimum of its kind.
    #[error("frame of {0} bytes; expected at least 1, or 4 for parity")]
    TooShort(usize),
    /// A parity of 0 frames, or of more frames than have been sent.
    #[error("invalid parity of {found} frames before number {next}; expected 1 to {next}")]
    Count {
        /// Frames in the block.
        found: u8,
        /// Number after the last frame of the block.
        next: u64,
    },
}

/// Appends the byte form of `frame` to `bytes`. `interleave` is the distance of the numbers
/// protected by a parity frame, at least 1.
pub fn encode(
    frame: &Frame<Vec<u8>>,
    interleave: u64,
    bytes: &mut Vec<u8>,
) -> Result<(), FecWireError> {
    let packet = frame.payload.as_ref().ok_or(FecWireError::Kind)?;
    if packet.len() > usize::from(u16::MAX) {
        return Err(FecWireError::TooLong);
    }
    let number = |sequence: u64| (sequence % MOST_NUMBERS) as u8;
    match frame.kind {
        FrameKind::Data { sequence } => bytes.push(number(sequence)),
        FrameKind::Parity { first, count, lengths } => {
            let lengths = u16::try_from(lengths).map_err(|_| FecWireError::TooLong)?;
            let next = first + u64::from(count.max(1) - 1) * interleave + u64::from(count.min(1));
            let found =
                u8::try_from(count).map_err(|_| FecWireError::Count { found: 255, next })?;
            bytes.extend_from_slice(&[PARITY | number(next), found]);
            bytes.extend_from_slice(&lengths.to_be_bytes());
        }
        _ => return Err(FecWireError::Kind),
    }
    bytes.extend_from_slice(packet);
    Ok(())
}

/// Decodes one frame. `expected` is the next number that the receiver expects; `interleave` is as
/// in [`encode`].
pub fn decode(
    bytes: &[u8],
    expected: u64,
    interleave: u64,
) -> Result<Frame<Vec<u8>>, FecWireError> {
    let too_short = FecWireError::TooShort(bytes.len());
    let (&first_byte, rest) = bytes.split_first().ok_or(too_short)?;
    let length = u32::try_from(bytes.len()).map_err(|_| FecWireError::TooLong)?;
    let number = u64::from(first_byte & !PARITY);
    let is_parity = first_byte & PARITY != 0;
    // The number congruent to this one at or after the lowest possible one.
    let least = if is_parity { expected.saturating_sub(interleave - 1) } else { expected };
    let number = least + (number + MOST_NUMBERS - least % MOST_NUMBERS) % MOST_NUMBERS;
    if !is_parity {
        let kind = FrameKind::Data { sequence: number };
        return Ok(Frame {
            kind,
            ack: None,
            payload: Some(rest.to_vec()),
            bytes: length,
            service: 0,
        });
    }
    let &[count, high, low, ref packet @ ..] = rest else {
        return Err(too_short);
    };
    let before = u64::from(count).checked_sub(1).map(|others| others * interleave + 1);
    let first = before.and_then(|before| number.checked_sub(before));
    let first = first.ok_or(FecWireError::Count { found: count, next: number })?;
    let lengths = u32::from(u16::from_be_bytes([high, low]));
    let kind = FrameKind::Parity { first, count: u16::from(count), lengths };
    Ok(Frame { kind, ack: None, payload: Some(packet.to_vec()), bytes: length, service: 0 })
}
