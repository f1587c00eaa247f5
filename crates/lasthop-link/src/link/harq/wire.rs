//! Byte format of hybrid FEC and ARQ.
//!
//! ```text
//!   block     unit, unit, unit ...       all of one length, one after the other
//!   unit      | K | units | number (2) | which | padding | behind (2) | bytes of the unit ...
//!   feedback  | 128 | first | number (2) | received | needed | ack (2) |
//!   skip      | 129 | 0     | next (2)   | 0        | 0      | ack (2) |
//!   skip ack  | 130 | 0     | next (2)   | 0        | 0      | ack (2) |
//! ```
//!
//! K is the number of data units of the block and `units` that of the units in the frame; `which` is the
//! number of the unit in the block, `padding` the bytes by which K units are longer than the packet, and
//! `behind` how far the oldest number that may still come is behind this one. In the place of a unit that
//! was lost are zeros: it has no K. Numbers are modulo 65536, most significant byte first, and are unwrapped against the
//! window of the endpoint that receives them.
//!
//! Not modelled: error detection; a damaged unit must be gone before it comes here.

use super::super::{Frame, FrameKind};
use lasthop_base::coding::CodedUnits;
use lasthop_base::units::Bytes;

/// Header of a unit.
pub const UNIT_HEADER: Bytes = Bytes::new(8);

/// Length of frames without units.
pub const CONTROL: Bytes = Bytes::new(8);

const FEEDBACK: u8 = 128;
const SKIP: u8 = 129;
const SKIP_ACK: u8 = 130;

/// Where the two directions of an endpoint stand: the context in which numbers make sense.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HarqWireWindow {
    /// Next number this end expects.
    pub expected: u64,
    /// Oldest number of this end that is not resolved.
    pub base: u64,
    /// Next new number of this end.
    pub next: u64,
}

/// Why a frame has no byte form, or bytes no frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HarqWireError {
    /// The protocol has no such frame.
    #[error("found a frame of another protocol, or without its units; allowed: blocks, answers")]
    Kind,
    /// The units do not make up the frame.
    #[error("found {bytes} bytes of units; allowed: {units} units of one length, at least 9 bytes")]
    Length {
        /// Bytes of the frame.
        bytes: usize,
        /// Units that it says it has.
        units: u8,
    },
    /// Not one unit is left.
    #[error("found a block of which no unit is left; allowed: at least one")]
    Erased,
    /// Units of one frame contradict each other, or are none.
    #[error("found the header {found:?} in a unit; allowed: that of unit {place} of its frame")]
    Unit {
        /// The header.
        found: [u8; 8],
        /// Place in the frame, from 0.
        place: usize,
    },
    /// There is no such control frame.
    #[error("found {0:?} as a frame; allowed: the answers 128 to 130, 8 bytes, unused ones 0")]
    Control([u8; 8]),
    /// The number is not one that a correct peer can have sent now.
    #[error("found number {0} (as on the air); allowed: one of the window")]
    Number(u16),
}

/// Appends the byte form of `frame` to `bytes`.
///
/// # Errors
/// If the protocol has no such frame.
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

/// Reads one frame in the context of the endpoint that receives it.
///
/// # Errors
/// If no frame has these bytes.
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

/// The number nearest to `from` that is written so.
fn near(number: u16, from: u64) -> Result<u64, HarqWireError> {
    let distance = number.wrapping_sub(from as u16) as i16;
    from.checked_add_signed(i64::from(distance)).ok_or(HarqWireError::Number(number))
}

fn decode_block(bytes: &[u8], window: &HarqWireWindow) -> Result<Frame<Vec<u8>>, HarqWireError> {
    // Lost units are zeros from their first byte on, at the start of each the K of a unit that is not.
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
