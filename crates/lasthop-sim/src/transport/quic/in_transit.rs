//! Records of datagrams in transit, in addition to their bytes.

use super::frames::Frame;

/// Returns the slot in the buffers of a datagram with this number.
pub(super) fn slot(number: u64) -> usize {
    number as u32 as usize
}

/// A datagram in transit.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct InTransit {
    /// One more than the number of its 1-RTT packet; 0 without such a packet.
    pub packet: u64,
    /// Bytes of all streams that its sender had received in order.
    pub received: u64,
    pub contents: Contents,
}

/// Frames of the 1-RTT packets of a datagram, as far as the machine reads them on arrival.
#[derive(Clone, Copy, Debug, Default)]
pub(super) enum Contents {
    /// Neither STREAM nor ACK frames.
    #[default]
    Nothing,
    /// One STREAM frame: index of the stream, offset and length. No ACK frame.
    Data((usize, u64, u64)),
    /// Others, to be read.
    Unread,
}

impl Contents {
    /// Adds a frame.
    pub fn add(&mut self, frame: &Frame<'_>) {
        *self = match (*self, frame.data()) {
            (Contents::Nothing, Some(data)) => Contents::Data(data),
            (_, Some(_)) => Contents::Unread,
            (_, None) if matches!(frame, Frame::Ack(_)) => Contents::Unread,
            (contents, None) => contents,
        }
    }
}

/// The contents of a packet, trailing zeros removed.
#[derive(Clone, Debug)]
pub(super) struct Kept {
    /// Number of its 1-RTT packet, if that elicits an acknowledgment.
    pub number: Option<u64>,
    bytes: Box<[u8]>,
    length: usize,
}

impl Kept {
    /// Keeps the bytes of a datagram.
    pub fn new(bytes: &[u8], number: Option<u64>) -> Self {
        let end = bytes.iter().rposition(|&byte| byte != 0).map_or(0, |last| last + 1);
        Kept { number, bytes: bytes[..end].into(), length: bytes.len() }
    }

    /// Returns the bytes.
    pub fn contents(&self) -> Vec<u8> {
        let mut contents = self.bytes.to_vec();
        contents.resize(self.length, 0);
        contents
    }
}
