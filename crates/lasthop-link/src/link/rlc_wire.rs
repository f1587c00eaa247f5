//! Byte format of RLC acknowledged mode, after TS 25.322, clause 9.2. Every frame has the length of
//! a full PDU, a 2-byte header and the payload. The remainder of shorter contents is padding.
//!
//! ```text
//!   data       | 1 | SN 12 | P | HE 2 |  length indicator  | segment ... | padding ...
//!   STATUS     | 0 | 000 | BITMAP | ACK | NO_MORE |        padding ...
//!   Skip       | 0 | 000 | MRW | NO_MORE |                 padding ...
//!   SkipAck    | 0 | 000 | MRW_ACK | NO_MORE |             padding ...
//!   RESET      | 0 | 001 | RSN 1 | 000 | HFNI 20 = 0 |     padding ...
//!   RESET_ACK  | 0 | 010 | RSN 1 | 000 | HFNI 20 = 0 |     padding ...
//!
//!   HE         00: the segment fills the PDU. 01: last segment of its SDU, with length indicator.
//!              10: last segment, fills the PDU. 11: last segment, one byte shorter than the PDU
//!              (reserved in the standard, which encodes this in the next PDU)
//!   length     7 bits and a 0 in a byte; 15 bits and a 0 in two, if the PDU exceeds 126 bytes
//!   BITMAP     | 0100 | 1111 | FSN 12 | 128 bits, 1 = received |      absent if none is missing
//!   ACK        | 0010 | LSN 12 |       absent in further frames of a report
//!   NO_MORE    | 0000 |
//!   MRW        | 0110 | 0001 | SN 12 | 0000 |
//!   MRW_ACK    | 0111 | 0000 | SN 12 |
//! ```
//!
//! Numbers are modulo 4096 and are unwrapped within the windows of the receiving endpoint. A number
//! outside the window or a field with an undefined value yields an error, never a panic, since the
//! bytes come from the medium. An endpoint that awaits RESET_ACK discards all other frames, so
//! their numbers are not unwrapped.
//!
//! Not modelled: error detection (damaged frames must be dropped before decoding), LIST, RLIST,
//! WINDOW and POLL fields, extended length indicators, HFNI.

use super::{Frame, FrameKind};

/// Number of sequence numbers (12 bits).
const MODULUS: u64 = 4096;
/// Length of the header in bytes.
const HEADER: usize = 2;
/// Length of the largest PDU, in bytes, with a 1-byte length indicator.
const SHORT: usize = 126;

const STATUS: u64 = 0;
const RESET: u64 = 1;
const RESET_ACK: u64 = 2;

const NO_MORE: u64 = 0;
const ACK: u64 = 2;
const BITMAP: u64 = 4;
const MRW: u64 = 6;
const MRW_ACK: u64 = 7;

/// Sequence number state of an endpoint, needed to unwrap received numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RlcWireWindow {
    /// VR(R): next number expected by this end.
    pub expected: u64,
    /// VT(A): oldest number of this end neither acknowledged nor skipped.
    pub base: u64,
    /// VT(S): next new number of this end.
    pub next: u64,
    /// Window in PDUs, at most 2047, equal at both ends.
    pub window: u32,
    /// Payload of a PDU, in bytes.
    pub payload: u32,
    /// Index of the own reset that awaits its acknowledgment.
    pub resetting: Option<u64>,
    /// Index of the last reset of the peer.
    pub peer_reset: Option<u64>,
}

/// Error of encoding or decoding a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RlcWireError {
    /// A segment longer than the payload, or shorter although it does not end its packet.
    #[error("invalid segment of {found} bytes; expected {payload}, or less if it ends its packet")]
    Piece {
        /// Length of the segment in bytes.
        found: usize,
        /// Payload of a PDU in bytes.
        payload: u32,
    },
    /// A frame kind that the protocol does not use.
    #[error("frame of another protocol; expected segment, status, skip or reset")]
    Kind,
    /// A frame whose length differs from that of a PDU.
    #[error("invalid frame of {found} bytes; expected {allowed}")]
    Length {
        /// Length of the frame in bytes.
        found: usize,
        /// Length of a PDU in bytes.
        allowed: usize,
    },
    /// A field with an undefined value.
    #[error("invalid {field} {found}; expected {allowed}")]
    Field {
        /// Name of the field.
        field: &'static str,
        /// Value found.
        found: u64,
        /// Allowed values.
        allowed: &'static str,
    },
    /// A number outside the window.
    #[error("invalid {field} {found}; expected one of {span} numbers from {least} (modulo 4096)")]
    Number {
        /// Name of the field.
        field: &'static str,
        /// Number in the frame.
        found: u64,
        /// First allowed number, modulo 4096.
        least: u64,
        /// Number of allowed numbers.
        span: u64,
    },
}

/// Writes bit fields, most significant bit first.
struct Writer<'a> {
    bytes: &'a mut Vec<u8>,
    bits: u32,
}

impl Writer<'_> {
    fn put(&mut self, value: u64, bits: u32) {
        for bit in (0..bits).rev() {
            if self.bits.is_multiple_of(8) {
                self.bytes.push(0);
            }
            if let Some(last) = self.bytes.last_mut() {
                *last |= ((value >> bit & 1) as u8) << (7 - self.bits % 8);
            }
            self.bits += 1;
        }
    }
}

/// Reads bit fields, most significant bit first.
struct Reader<'a> {
    bytes: &'a [u8],
    bits: usize,
}

impl Reader<'_> {
    /// Reads a field of `bits` bits. Bits beyond the end are 0, as padding.
    fn take(&mut self, bits: u32) -> u64 {
        (0..bits).fold(0, |value, _| {
            let byte = self.bytes.get(self.bits / 8).copied().unwrap_or_default();
            let bit = byte >> (7 - self.bits % 8) & 1;
            self.bits += 1;
            value << 1 | u64::from(bit)
        })
    }

    /// Reads a field that must have the given value.
    fn expect(
        &mut self,
        bits: u32,
        value: u64,
        field: &'static str,
        allowed: &'static str,
    ) -> Result<(), RlcWireError> {
        match self.take(bits) {
            found if found == value => Ok(()),
            found => Err(RlcWireError::Field { field, found, allowed }),
        }
    }
}

/// Appends the byte form of `frame`, on a link with this payload, to `bytes`.
pub fn encode(
    frame: &Frame<Vec<u8>>,
    payload: u32,
    bytes: &mut Vec<u8>,
) -> Result<(), RlcWireError> {
    let length = HEADER + payload as usize;
    let end = bytes.len() + length;
    let no_piece = Vec::new();
    let piece = frame.payload.as_ref().unwrap_or(&no_piece);
    let is_full = piece.len() == payload as usize;
    let mut writer = Writer { bytes, bits: 0 };
    match frame.kind {
        FrameKind::Segment { sequence, is_last, poll } => {
            if piece.len() > payload as usize || !is_last && !is_full {
                return Err(RlcWireError::Piece { found: piece.len(), payload });
            }
            let (indicator, extension) = match (is_last, payload as usize - piece.len()) {
                (false, _) => (0, 0),
                (true, 0) => (0, 2),
                (true, 1) if length > SHORT => (0, 3),
                (true, _) if length > SHORT => (16, 1),
                (true, _) => (8, 1),
            };
            writer.put(1, 1);
            writer.put(sequence % MODULUS, 12);
            writer.put(poll.into(), 1);
            writer.put(extension, 2);
            writer.put((piece.len() as u64) << 1, indicator);
            bytes.extend_from_slice(piece);
        }
        FrameKind::Status { first, missing } => {
            writer.put(STATUS, 4);
            if missing != [0; 2] || frame.ack.is_none_or(|ack| ack != first) {
                writer.put(BITMAP, 4);
                writer.put(15, 4);
                writer.put(first % MODULUS, 12);
                for word in missing {
                    // Lowest number first.
                    writer.put((!word).reverse_bits(), 64);
                }
            }
            if let Some(ack) = frame.ack {
                writer.put(ACK, 4);
                writer.put(ack % MODULUS, 12);
            }
            writer.put(NO_MORE, 4);
        }
        FrameKind::Skip { next } => {
            writer.put(STATUS, 4);
            writer.put(MRW, 4);
            writer.put(1, 4);
            writer.put(next % MODULUS, 12);
            writer.put(0, 4);
        }
        FrameKind::SkipAck { next } => {
            writer.put(STATUS, 4);
            writer.put(MRW_ACK, 4);
            writer.put(0, 4);
            writer.put(next % MODULUS, 12);
        }
        FrameKind::Reset { index } | FrameKind::ResetAck { index } => {
            let is_ack = matches!(frame.kind, FrameKind::ResetAck { .. });
            writer.put(if is_ack { RESET_ACK } else { RESET }, 4);
            writer.put(index % 2, 1);
        }
        _ => return Err(RlcWireError::Kind),
    }
    bytes.resize(end, 0);
    Ok(())
}

/// Returns the number congruent to `found` modulo 4096 among the `span` numbers starting at `near -
/// behind`.
fn unwrap(
    field: &'static str,
    found: u64,
    near: u64,
    behind: u64,
    span: u64,
) -> Result<u64, RlcWireError> {
    let first = near.wrapping_sub(behind);
    let offset = found.wrapping_sub(first) % MODULUS;
    let error = RlcWireError::Number { field, found, least: first % MODULUS, span };
    if offset >= span {
        return Err(error);
    }
    (near + offset).checked_sub(behind).ok_or(error)
}

/// Decodes one frame in the context of the endpoint that receives it.
pub fn decode(bytes: &[u8], window: &RlcWireWindow) -> Result<Frame<Vec<u8>>, RlcWireError> {
    let (payload, length) = (window.payload as usize, HEADER + window.payload as usize);
    if bytes.len() != length {
        return Err(RlcWireError::Length { found: bytes.len(), allowed: length });
    }
    let mut reader = Reader { bytes, bits: 0 };
    let mut frame = Frame {
        kind: FrameKind::Ack,
        ack: None,
        payload: None,
        bytes: HEADER as u32 + window.payload,
        service: 0,
    };
    if reader.take(1) == 0 {
        (frame.kind, frame.ack) = decode_control(&mut reader, window)?;
        return Ok(frame);
    }
    let span = u64::from(window.window);
    let found = reader.take(12);
    let sequence = match window.resetting {
        Some(_) => found,
        None => unwrap("sequence number", found, window.expected, span + 1, 2 * span + 1)?,
    };
    let poll = reader.take(1) != 0;
    let (from, piece, is_last) = match reader.take(2) {
        0 => (HEADER, payload, false),
        2 => (HEADER, payload, true),
        3 if length > SHORT => (HEADER, payload - 1, true),
        1 => {
            let bits = if length > SHORT { 16 } else { 8 };
            let found = reader.take(bits);
            let indicator = (bits / 8) as usize;
            let piece = (found >> 1) as usize;
            if !found.is_multiple_of(2) || piece + indicator > payload {
                let allowed = "the length of a segment that fits, and a 0";
                return Err(RlcWireError::Field { field: "length indicator", found, allowed });
            }
            (HEADER + indicator, piece, true)
        }
        found => {
            let allowed = "0 to 2, or 3 in PDUs of more than 126 bytes";
            return Err(RlcWireError::Field { field: "header extension", found, allowed });
        }
    };
    frame.payload = bytes.get(from..from + piece).map(<[u8]>::to_vec);
    frame.kind = FrameKind::Segment { sequence, is_last, poll };
    Ok(frame)
}

/// Decodes a control PDU: kind and acknowledgment.
fn decode_control(
    reader: &mut Reader<'_>,
    window: &RlcWireWindow,
) -> Result<(FrameKind, Option<u64>), RlcWireError> {
    let RlcWireWindow { expected, base, next, .. } = *window;
    let is_raw = window.resetting.is_some();
    let own = |field, found| match is_raw {
        true => Ok(found),
        false => unwrap(field, found, base, 0, next - base + 1),
    };
    // A repeated Skip and its acknowledgment may be older than the current window.
    let near = |field, found, near| match is_raw {
        true => Ok(found),
        false => unwrap(field, found, near, MODULUS / 2 - 1, MODULUS),
    };
    match reader.take(3) {
        STATUS => {}
        kind @ (RESET | RESET_ACK) => {
            let bit = reader.take(1);
            reader.expect(3, 0, "reserved bits", "0")?;
            let error = RlcWireError::Field {
                field: "RSN",
                found: bit,
                allowed: "that of the last or next reset",
            };
            if kind == RESET {
                // The last reset repeated, or the next one.
                let last = window.peer_reset.map_or(0, |last| last + u64::from(last % 2 != bit));
                return if last % 2 == bit {
                    Ok((FrameKind::Reset { index: last }, None))
                } else {
                    Err(error)
                };
            }
            // Without a pending reset, this acknowledges an earlier one and is ignored.
            let index = window.resetting.unwrap_or(bit);
            let index = if index % 2 == bit { Some(index) } else { index.checked_sub(1) };
            return Ok((FrameKind::ResetAck { index: index.ok_or(error)? }, None));
        }
        found => {
            let allowed = "0 (STATUS), 1 (RESET) or 2 (RESET_ACK)";
            return Err(RlcWireError::Field { field: "PDU type", found, allowed });
        }
    }
    let mut bitmap = None;
    match reader.take(4) {
        MRW => {
            reader.expect(4, 1, "number of MRW entries", "1")?;
            let next = near("MRW", reader.take(12), expected)?;
            reader.expect(4, 0, "MRW length", "0")?;
            reader.expect(4, NO_MORE, "field", "0 (NO_MORE)")?;
            return Ok((FrameKind::Skip { next }, None));
        }
        MRW_ACK => {
            reader.expect(4, 0, "MRW length", "0")?;
            let next = near("MRW_ACK", reader.take(12), base)?;
            reader.expect(4, NO_MORE, "field", "0 (NO_MORE)")?;
            return Ok((FrameKind::SkipAck { next }, None));
        }
        ACK => {}
        BITMAP => {
            reader.expect(4, 15, "bitmap length", "15 (16 bytes)")?;
            let first = own("first number", reader.take(12))?;
            let missing = [(); 2].map(|()| !reader.take(64).reverse_bits());
            bitmap = Some((first, missing));
        }
        found => {
            let allowed = "2 (ACK), 4 (BITMAP), 6 (MRW) or 7 (MRW_ACK)";
            return Err(RlcWireError::Field { field: "field", found, allowed });
        }
    }
    let last = match bitmap {
        None => ACK,
        Some(_) => reader.take(4),
    };
    let ack = match last {
        NO_MORE => None,
        ACK => {
            let ack = own("acknowledgment", reader.take(12))?;
            reader.expect(4, NO_MORE, "field", "0 (NO_MORE)")?;
            Some(ack)
        }
        found => {
            let allowed = "0 (NO_MORE) or 2 (ACK)";
            return Err(RlcWireError::Field { field: "field", found, allowed });
        }
    };
    let (first, missing) = bitmap.unwrap_or((ack.unwrap_or_default(), [0; 2]));
    Ok((FrameKind::Status { first, missing }, ack))
}
