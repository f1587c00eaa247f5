//! Byte format of the radio link protocol.
//!
//! ```text
//!   data         | number | packet ...      at least two bytes of packet
//!   NACK         | number | 0 |             two bytes
//!   keep-alive   | next   | 1 |             two bytes
//! ```
//!
//! Two bytes are a control frame, more are data: so data need a header of one byte only, numbers
//! use all of it, and half of them, 128, is the horizon of the protocol. The price is that a
//! packet of one byte has no byte form. Numbers are modulo 256. Those of data and keep-alives are
//! taken for the nearest to what has been seen, so 128 losses in a row are taken for a repetition;
//! those of NACKs are among the last 256 that this end has sent: with more than 128 frames in
//! flight a late NACK may be taken for a later number, and bring a duplicate. Whatever else comes is an error,
//! never a panic: these bytes come from the air.
//!
//! Not modelled: error detection; a damaged frame must be gone before it comes here.

use super::{Frame, FrameKind};

/// Second byte of a NACK.
const NACK: u8 = 0;
/// Second byte of a keep-alive.
const KEEPALIVE: u8 = 1;

/// Where the two directions of an endpoint stand: the context in which numbers make sense.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RlpWireWindow {
    /// One beyond the highest number that this end knows its peer to have sent.
    pub seen: u64,
    /// Next new number of this end.
    pub next: u64,
}

/// Why a frame has no byte form, or bytes no frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RlpWireError {
    /// A data frame would look like a control frame.
    #[error("found a data frame with a packet of {0} bytes; allowed: at least 2")]
    ShortPacket(usize),
    /// The protocol has no such frame.
    #[error("found a frame of another protocol; allowed: data, NACK, keep-alive")]
    Kind,
    /// Shorter than any frame.
    #[error("found a frame of {0} bytes; allowed: at least 2")]
    TooShort(usize),
    /// A frame longer than a length field can say.
    #[error("found a frame of {0} bytes; allowed: at most 4294967295")]
    TooLong(usize),
    /// Neither NACK nor keep-alive.
    #[error("found control frame type {0}; allowed: 0 (NACK), 1 (keep-alive)")]
    Type(u8),
    /// Neither end can mean this number now.
    #[error("found number {found}, before the first; allowed: near {near} (modulo 256)")]
    Number {
        /// Number in the frame.
        found: u8,
        /// Number it is unwrapped against, modulo 256.
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

/// The number from `end - behind` on that is `byte` modulo 256; of 256 numbers exactly one is.
fn unwrap(byte: u8, end: u64, behind: u8) -> Result<u64, RlpWireError> {
    let first = (end as u8).wrapping_sub(behind);
    let offset = u64::from(byte.wrapping_sub(first));
    (end + offset)
        .checked_sub(u64::from(behind))
        .ok_or(RlpWireError::Number { found: byte, near: end as u8 })
}

/// Reads one frame in the context of the endpoint that receives it.
pub fn decode(bytes: &[u8], window: &RlpWireWindow) -> Result<Frame<Vec<u8>>, RlpWireError> {
    let &[number, ref rest @ ..] = bytes else { return Err(RlpWireError::TooShort(0)) };
    let length = u32::try_from(bytes.len()).map_err(|_| RlpWireError::TooLong(bytes.len()))?;
    let (kind, payload) = match rest {
        [] => return Err(RlpWireError::TooShort(1)),
        // The last 256 numbers end with the one before `next`.
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
