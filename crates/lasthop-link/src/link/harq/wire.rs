//! Byte format of hybrid ARQ.
//!
//! ```text
//!   block     unit, unit, unit ...       all of equal length, consecutive
//!   unit      | K | units | number (2) | index | padding | behind (2) | bytes of the unit ...
//!   feedback  | 128 | first | number (2) | received | needed | ack (2) |
//!   skip      | 129 | 0     | next (2)   | 0        | 0      | ack (2) |
//!   skip ack  | 130 | 0     | next (2)   | 0        | 0      | ack (2) |
//! ```
//!
//! K is the number of data units of the block, `units` the number of units in the frame, and
//! `index` the number of the unit in the block. `padding` is the length of K units minus that of
//! the packet, in bytes. `behind` is the distance from the oldest packet that can still be
//! transmitted to this one. A lost unit is replaced by zeros, which is unambiguous since K is not
//! 0. Numbers are modulo 65536, most significant byte first, and are unwrapped within the window of
//! the receiving endpoint.
//!
//! Not modelled: error detection; damaged units must be zeroed before decoding.

use super::super::{Frame, FrameKind};
use lasthop_base::coding::CodedUnits;
use lasthop_base::units::Bytes;

/// Length of the header of a unit.
pub const UNIT_HEADER: Bytes = Bytes::new(8);

/// Length of frames without units.
pub const CONTROL: Bytes = Bytes::new(8);

const FEEDBACK: u8 = 128;
const SKIP: u8 = 129;
const SKIP_ACK: u8 = 130;

/// Sequence number state of an endpoint, needed to unwrap received numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HarqWireWindow {
    /// Next number expected by this end.
    pub expected: u64,
    /// Oldest unresolved number of this end.
    pub base: u64,
    /// Next new number of this end.
    pub next: u64,
}

/// Error of encoding or decoding a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HarqWireError {
    /// A frame kind that the protocol does not use, or a block without its units.
    #[error("frame of another protocol or without its units; expected block, feedback or skip")]
    Kind,
    /// The length of the frame does not match its number of units.
    #[error(
        "invalid frame of {bytes} bytes; expected {units} units of equal length, at least 9 bytes"
    )]
    Length {
        /// Length of the frame in bytes.
        bytes: usize,
        /// Number of units in the header.
        units: u8,
    },
    /// All units of a block are lost.
    #[error("block without a unit; expected at least one")]
    Erased,
    /// The header of a unit is invalid or contradicts another unit of the frame.
    #[error("invalid unit header {found:?}; expected that of unit {place} of its frame")]
    Unit {
        /// The header.
        found: [u8; 8],
        /// Index of the unit in the frame, from 0.
        place: usize,
    },
    /// An unknown or malformed control frame.
    #[error("invalid control frame {0:?}; expected type 128 to 130 and 0 in unused bytes")]
    Control([u8; 8]),
    /// A number that a correct peer cannot have sent.
    #[error("invalid number {0} (as encoded); expected one within the window")]
    Number(u16),
}

/// Appends the byte form of `frame` to `bytes`.
///
/// # Errors
/// Returns an error if the frame has no byte form.
pub fn encode(frame: &Frame<Vec<u8>>, bytes: &mut Vec<u8>) -> Result<(), HarqWireError> {
    let cut = |number: u64| (number as u16).to_be_bytes();
    let mut control = |tag, first, number: u64, counts: [u8; 2]| {
        let [high, low] = cut(number);
        let [ack_high, ack_low] = cut(frame.ack.ok_or(HarqWireError::Kind)?);
        bytes.extend_from_slice(&[tag, first, high, low, counts[0], counts[1], ack_high, ack_low]);
        Ok(())
    };
    match (frame.kind, &frame.payload) {
        (FrameKind::Feedback { sequence, first, received, needed }, None) => {
            control(FEEDBACK, first, sequence, [received, needed])
        }
        (FrameKind::Skip { next }, None) => control(SKIP, 0, next, [0; 2]),
        (FrameKind::SkipAck { next }, None) => control(SKIP_ACK, 0, next, [0; 2]),
        (FrameKind::Block { sequence, units, intact, behind }, Some(coded)) => {
            let length = coded.len() / usize::from(units.units.max(1));
            if length == 0 || length * usize::from(units.units) != coded.len() {
                return Err(HarqWireError::Kind);
            }
            for (place, unit) in (0..units.units).zip(coded.chunks_exact(length)) {
                if intact >> place & 1 == 0 {
                    bytes.resize(bytes.len() + 8 + length, 0);
                    continue;
                }
                bytes.extend_from_slice(&header(units, place, sequence, behind));
                bytes.extend_from_slice(unit);
            }
            Ok(())
        }
        _ => Err(HarqWireError::Kind),
    }
}

fn header(units: CodedUnits, place: u8, sequence: u64, behind: u16) -> [u8; 8] {
    let [high, low] = (sequence as u16).to_be_bytes();
    let [behind_high, behind_low] = behind.to_be_bytes();
    let CodedUnits { data, units: count, padding, .. } = units;
    [data, count, high, low, units.number(place), padding, behind_high, behind_low]
}

/// Decodes one frame in the context of the endpoint that receives it.
///
/// # Errors
/// Returns an error if the bytes are not a valid frame.
pub fn decode(bytes: &[u8], window: &HarqWireWindow) -> Result<Frame<Vec<u8>>, HarqWireError> {
    let &[tag, second, high, low, received, needed, ack_high, ack_low] = bytes else {
        return decode_block(bytes, window);
    };
    let refused =
        HarqWireError::Control([tag, second, high, low, received, needed, ack_high, ack_low]);
    let number = u16::from_be_bytes([high, low]);
    let unused = (second, received, needed) == (0, 0, 0);
    let kind = match tag {
        FEEDBACK => FrameKind::Feedback {
            sequence: near(number, window.base)?,
            first: second,
            received,
            needed,
        },
        SKIP if unused => FrameKind::Skip { next: near(number, window.expected)? },
        SKIP_ACK if unused => FrameKind::SkipAck { next: near(number, window.base)? },
        _ => return Err(refused),
    };
    let ack = near(u16::from_be_bytes([ack_high, ack_low]), window.base)?;
    Ok(Frame { kind, ack: Some(ack), payload: None, bytes: 8, service: 0 })
}

/// Returns the number congruent to `number` modulo 65536 that is closest to `from`.
fn near(number: u16, from: u64) -> Result<u64, HarqWireError> {
    let distance = number.wrapping_sub(from as u16) as i16;
    from.checked_add_signed(i64::from(distance)).ok_or(HarqWireError::Number(number))
}

fn decode_block(bytes: &[u8], window: &HarqWireWindow) -> Result<Frame<Vec<u8>>, HarqWireError> {
    // Lost units are all zeros. The first nonzero byte is therefore K of the first unit received.
    let start = bytes.iter().position(|&byte| byte != 0).ok_or(HarqWireError::Erased)?;
    let too_short = HarqWireError::Length { bytes: bytes.len(), units: 0 };
    let first: [u8; 8] = bytes[start..].first_chunk().copied().ok_or(too_short)?;
    let [data, count, high, low, number, padding, behind_high, behind_low] = first;
    let wrong = HarqWireError::Length { bytes: bytes.len(), units: count };
    if !(1..=64).contains(&count) || !bytes.len().is_multiple_of(usize::from(count)) {
        return Err(wrong);
    }
    let length = bytes.len() / usize::from(count);
    if length <= 8 || !start.is_multiple_of(length) {
        return Err(wrong);
    }
    let place = start / length;
    let units = CodedUnits { data, first: number.wrapping_sub(place as u8), units: count, padding };
    let capacity = (length - 8) * usize::from(data);
    if !(1..=64).contains(&data) || usize::from(padding) >= capacity.min(usize::from(data)) {
        return Err(HarqWireError::Unit { found: first, place });
    }
    let behind = u16::from_be_bytes([behind_high, behind_low]);
    let sequence = near(u16::from_be_bytes([high, low]), window.expected)?;
    let mut coded = Vec::with_capacity(bytes.len() - 8 * usize::from(count));
    let mut intact = 0;
    for (place, unit) in bytes.chunks_exact(length).enumerate() {
        let (found, unit) = unit.split_first_chunk::<8>().ok_or(wrong)?;
        if found[0] != 0 {
            if *found != header(units, place as u8, sequence, behind) {
                return Err(HarqWireError::Unit { found: *found, place });
            }
            intact |= 1 << place;
        } else if found.iter().chain(unit).any(|&byte| byte != 0) {
            return Err(HarqWireError::Unit { found: *found, place });
        }
        coded.extend_from_slice(unit);
    }
    let length = u32::try_from(bytes.len()).map_err(|_| wrong)?;
    let kind = FrameKind::Block { sequence, units, intact, behind };
    Ok(Frame { kind, ack: None, payload: Some(coded), bytes: length, service: 0 })
}
