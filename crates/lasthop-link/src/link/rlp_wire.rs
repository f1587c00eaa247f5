//! Byte format of the radio link protocol.
//!
//! ```text
//!   data         | number | packet ...      at least two bytes of packet
//!   NACK         | number | 0 |             two bytes
//!   keep-alive   | next   | 1 |             two bytes
//! ```
//!
//! Frames of two bytes are control frames, longer ones are data frames. A data frame therefore
//! needs a header of only one byte, all of which is used for the sequence number. The horizon of
//! the protocol is half of this range, 128. As a consequence, a packet of one byte has no byte
//! form.
//!
//! Numbers are modulo 256. Those of data frames and keep-alives are unwrapped to the number closest
//! to the highest one received, so after 128 consecutive losses a new frame is considered a
//! duplicate. Numbers of NACKs are unwrapped to the last 256 numbers sent. With more than 128
//! frames in flight a late NACK may be attributed to a later frame and cause a duplicate. All other
//! bytes yield an error, never a panic, since they come from the medium.
//!
//! Not modelled: error detection; damaged frames must be dropped before decoding.

use super::{Frame, FrameKind};

/// Second byte of a NACK.
const NACK: u8 = 0;
/// Second byte of a keep-alive.
const KEEPALIVE: u8 = 1;

/// Sequence number state of an endpoint, needed to unwrap received numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RlpWireWindow {
    /// Highest number that the peer is known to have sent, plus 1.
    pub seen: u64,
    /// Next new number of this end.
    pub next: u64,
}

/// Error of encoding or decoding a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RlpWireError {
    /// A data frame too short to be distinguished from a control frame.
    #[error("data frame with a packet of {0} bytes; expected at least 2")]
    ShortPacket(usize),
    /// A frame kind that the protocol does not use.
    #[error("frame of another protocol; expected data, NACK or keep-alive")]
    Kind,
    /// A frame shorter than a control frame.
    #[error("frame of {0} bytes; expected at least 2")]
    TooShort(usize),
    /// A frame whose length exceeds 32 bits.
    #[error("frame of {0} bytes; expected at most 4294967295")]
    TooLong(usize),
    /// An unknown type of control frame.
    #[error("unknown control frame type {0}; expected 0 (NACK) or 1 (keep-alive)")]
    Type(u8),
    /// A number before the first one.
    #[error(
        "invalid number {found}, before the first one; expected a number near {near} (modulo 256)"
    )]
    Number {
        /// Number in the frame.
        found: u8,
        /// Number to which it is unwrapped, modulo 256.
        near: u8,
    },
}

/// Appends the byte form of `frame` to `bytes`.
pub fn encode(frame: &Frame<Vec<u8>>, bytes: &mut Vec<u8>) -> Result<(), RlpWireError> {
    match frame.kind {
        FrameKind::Data { sequence } => {
            let packet = frame.payload.as_deref().unwrap_or_default();
            if packet.len() < 2 {
                return Err(RlpWireError::ShortPacket(packet.len()));
            }
            bytes.push(sequence as u8);
            bytes.extend_from_slice(packet);
        }
        FrameKind::Nack { sequence } => bytes.extend_from_slice(&[sequence as u8, NACK]),
        FrameKind::Keepalive { next } => bytes.extend_from_slice(&[next as u8, KEEPALIVE]),
        _ => return Err(RlpWireError::Kind),
    }
    Ok(())
}

/// Returns the number congruent to `byte` modulo 256 among the 256 numbers starting at `end -
/// behind`.
fn unwrap(byte: u8, end: u64, behind: u8) -> Result<u64, RlpWireError> {
    let first = (end as u8).wrapping_sub(behind);
    let offset = u64::from(byte.wrapping_sub(first));
    (end + offset)
        .checked_sub(u64::from(behind))
        .ok_or(RlpWireError::Number { found: byte, near: end as u8 })
}

/// Decodes one frame in the context of the endpoint that receives it.
pub fn decode(bytes: &[u8], window: &RlpWireWindow) -> Result<Frame<Vec<u8>>, RlpWireError> {
    let &[number, ref rest @ ..] = bytes else { return Err(RlpWireError::TooShort(0)) };
    let length = u32::try_from(bytes.len()).map_err(|_| RlpWireError::TooLong(bytes.len()))?;
    let (kind, payload) = match rest {
        [] => return Err(RlpWireError::TooShort(1)),
        // The last 256 numbers end with `next - 1`.
        &[NACK] => match window.next.checked_sub(1) {
            Some(last) => (FrameKind::Nack { sequence: unwrap(number, last, 255)? }, None),
            None => return Err(RlpWireError::Number { found: number, near: 0 }),
        },
        &[KEEPALIVE] => (FrameKind::Keepalive { next: unwrap(number, window.seen, 128)? }, None),
        &[other] => return Err(RlpWireError::Type(other)),
        packet => {
            let sequence = unwrap(number, window.seen, 128)?;
            (FrameKind::Data { sequence }, Some(packet.to_vec()))
        }
    };
    Ok(Frame { kind, ack: None, payload, bytes: length, service: 0 })
}
