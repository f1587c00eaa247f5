//! Byte format of the acknowledged protocols (selective repeat, go-back-N, stop-and-wait).
//!
//! ```text
//!   data     | number | ack | packet ...        at least one byte of packet
//!   ACK      | ack - 1 | ack |                  two bytes, no packet
//!   NACK     | missing | ack |                  two bytes, no packet
//! ```
//!
//! `ack` is the next number expected, numbers are modulo 256. A missing number is one of `ack` to
//! `ack + window - 1` and the window is at most 255, so it is never `ack - 1`: the two control
//! frames cannot be confused. Numbers are unwrapped against the window of the endpoint that
//! receives them; whatever lies outside is an error, never a panic: these bytes come from the air.
//!
//! Not modelled: error detection; a damaged frame must be gone before it comes here.

use super::{Frame, FrameKind};

/// Where the two directions of an endpoint stand: the context in which numbers make sense.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WireWindow {
    /// Next number this end expects.
    pub expected: u64,
    /// Oldest number this end has sent and not seen acknowledged; frames given up count.
    pub base: u64,
    /// Next new number of this end.
    pub next: u64,
    /// Window in frames, at most 255; the peer has the same.
    pub window: u32,
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
    #[error("found a frame of {0} bytes; allowed: at least 2")]
    TooShort(usize),
    /// A frame longer than a length field can say.
    #[error("found a frame of {0} bytes; allowed: at most 4294967295")]
    TooLong(usize),
    /// The number is not one the peer can have sent now.
    #[error("found sequence number {found}; allowed: within a window of {expected} (modulo 256)")]
    Sequence {
        /// Number in the frame.
        found: u8,
        /// Number expected, modulo 256.
        expected: u8,
    },
    /// The acknowledgment is for a frame that is not outstanding.
    #[error("found acknowledgment {found}; allowed: {base} to {next} (modulo 256)")]
    Ack {
        /// Acknowledgment in the frame.
        found: u8,
        /// Oldest number outstanding, modulo 256.
        base: u8,
        /// Next new number, modulo 256.
        next: u8,
    },
    /// The NACK is for a frame that was never sent.
    #[error("found a NACK for {found}; allowed: {ack} to before {next} (modulo 256)")]
    Nack {
        /// Number in the frame.
        found: u8,
        /// Acknowledgment in the frame.
        ack: u8,
        /// Next new number, modulo 256.
        next: u8,
    },
}

/// Appends the byte form of `frame` to `bytes`.
pub fn encode(frame: &Frame<Vec<u8>>, bytes: &mut Vec<u8>) -> Result<(), WireError> {
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
    bytes.extend_from_slice(&[first as u8, ack as u8]);
    bytes.extend_from_slice(packet);
    Ok(())
}

/// The number at or after `from` that is `byte` modulo 256.
fn unwrap(byte: u8, from: u64) -> u64 {
    from + u64::from(byte.wrapping_sub(from as u8))
}

/// Reads one frame in the context of the endpoint that receives it.
pub fn decode(bytes: &[u8], window: &WireWindow) -> Result<Frame<Vec<u8>>, WireError> {
    let &[first, ack_byte, ref packet @ ..] = bytes else {
        return Err(WireError::TooShort(bytes.len()));
    };
    let length = u32::try_from(bytes.len()).map_err(|_| WireError::TooLong(bytes.len()))?;
    let WireWindow { expected, base, next, .. } = *window;
    let ack = unwrap(ack_byte, base);
    if ack > next {
        return Err(WireError::Ack { found: ack_byte, base: base as u8, next: next as u8 });
    }
    let (kind, payload) = if !packet.is_empty() {
        let error = WireError::Sequence { found: first, expected: expected as u8 };
        let span = u64::from(window.window);
        // Of the 256 numbers that end with the window, exactly one has this byte. Below the window
        // the oldest a correct peer repeats is `expected - window`.
        let sequence = if first.wrapping_sub(expected as u8) < window.window.min(255) as u8 {
            unwrap(first, expected)
        } else {
            let behind = u64::from((expected as u8).wrapping_sub(first));
            if behind > span {
                return Err(error);
            }
            expected.checked_sub(behind).ok_or(error)?
        };
        (FrameKind::Data { sequence }, Some(packet.to_vec()))
    } else if first == ack_byte.wrapping_sub(1) {
        (FrameKind::Ack, None)
    } else {
        let sequence = unwrap(first, ack);
        if sequence >= next {
            return Err(WireError::Nack { found: first, ack: ack_byte, next: next as u8 });
        }
        (FrameKind::Nack { sequence }, None)
    };
    Ok(Frame { kind, ack: Some(ack), payload, bytes: length, service: 0 })
}
