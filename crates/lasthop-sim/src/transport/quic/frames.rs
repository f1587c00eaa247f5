//! Reads the packets of a UDP datagram and their frames (RFC 9000, sections 17 and 19), which the
//! null encryption leaves readable.
//!
//! *Not modelled*: Retry and Version Negotiation packets, which no endpoint of a scenario sends.

/// Length of all connection IDs.
pub(super) const CID_LENGTH: usize = 8;
/// Length of the authentication tag (RFC 9001, section 5.3).
pub(super) const TAG_LENGTH: usize = 16;

/// A packet number space (RFC 9000, section 12.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Space {
    /// Initial packets.
    Initial,
    /// Handshake packets.
    Handshake,
    /// 0-RTT and 1-RTT packets.
    Data,
}

/// Reads fields of a packet.
#[derive(Clone, Copy, Debug)]
struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn bytes(&mut self, length: usize) -> Option<&'a [u8]> {
        let (bytes, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(bytes)
    }

    fn byte(&mut self) -> Option<u8> {
        self.bytes(1).map(|bytes| bytes[0])
    }

    fn number(&mut self, length: usize) -> Option<u64> {
        let bytes = self.bytes(length)?;
        Some(bytes.iter().fold(0, |value, &byte| value << 8 | u64::from(byte)))
    }

    /// Reads a variable-length integer (RFC 9000, section 16).
    fn varint(&mut self) -> Option<u64> {
        let length = 1 << (self.0.first()? >> 6);
        let value = self.number(length)?;
        Some(value & (u64::MAX >> (66 - 8 * length)))
    }

    /// Skips `count` variable-length integers.
    fn skip_varints(&mut self, count: u64) -> Option<()> {
        for _ in 0..count {
            let length = 1 << (self.0.first()? >> 6);
            self.0 = self.0.get(length..)?;
        }
        Some(())
    }

    fn prefixed(&mut self, length: u64) -> Option<&'a [u8]> {
        self.bytes(usize::try_from(length).ok()?)
    }
}

/// A packet of a datagram.
#[derive(Clone, Copy, Debug)]
pub(super) struct QuicPacket<'a> {
    pub space: Space,
    /// Whether it is a 0-RTT packet.
    pub is_early: bool,
    /// Length with its header.
    pub length: usize,
    /// Least significant bytes of the packet number, and their number.
    truncated: (u64, usize),
    payload: &'a [u8],
}

impl<'a> QuicPacket<'a> {
    /// Returns the packet number closest to `expected` (RFC 9000, appendix A.3).
    pub fn number(&self, expected: u64) -> u64 {
        let (truncated, length) = self.truncated;
        let window = 1u64 << (8 * length);
        let candidate = expected & !(window - 1) | truncated;
        if candidate + window / 2 <= expected {
            candidate + window
        } else if candidate > expected + window / 2 && candidate >= window {
            candidate - window
        } else {
            candidate
        }
    }

    /// Returns its frames up to the first one that cannot be read.
    pub fn frames(&self) -> Frames<'a> {
        Frames(Reader(self.payload))
    }

    /// Returns `true` if the peer must acknowledge it (RFC 9002, section 2).
    pub fn is_ack_eliciting(&self) -> bool {
        self.frames().any(|frame| frame.is_ack_eliciting())
    }
}

/// Returns the packets of a datagram.
pub(super) fn packets(datagram: &[u8]) -> Packets<'_> {
    Packets(Reader(datagram))
}

/// Iterator over the packets of a datagram.
#[derive(Clone, Debug)]
pub(super) struct Packets<'a>(Reader<'a>);

impl<'a> Iterator for Packets<'a> {
    type Item = QuicPacket<'a>;

    fn next(&mut self) -> Option<QuicPacket<'a>> {
        let whole = self.0.0.len();
        let reader = &mut self.0;
        let first = reader.byte()?;
        let number = usize::from(first & 3) + 1;
        if first & 0x80 == 0 {
            reader.bytes(CID_LENGTH)?;
            let truncated = (reader.number(number)?, number);
            let payload = std::mem::take(&mut reader.0);
            let payload = &payload[..payload.len().checked_sub(TAG_LENGTH)?];
            let space = Space::Data;
            return Some(QuicPacket { space, is_early: false, length: whole, truncated, payload });
        }
        reader.bytes(4)?;
        for _ in 0..2 {
            let length = reader.byte()?;
            reader.bytes(length.into())?;
        }
        let kind = first >> 4 & 3;
        let space = match kind {
            0 => {
                let token = reader.varint()?;
                reader.prefixed(token)?;
                Space::Initial
            }
            1 => Space::Data,
            2 => Space::Handshake,
            _ => return None,
        };
        let length = reader.varint()?;
        let mut body = Reader(reader.prefixed(length)?);
        let truncated = (body.number(number)?, number);
        let payload = &body.0[..body.0.len().checked_sub(TAG_LENGTH)?];
        let length = whole - self.0.0.len();
        Some(QuicPacket { space, is_early: kind == 1, length, truncated, payload })
    }
}

/// A frame. Frames that only the stack needs are not distinguished.
#[derive(Clone, Copy, Debug)]
pub(super) enum Frame<'a> {
    Padding,
    Ack(Ack<'a>),
    /// The bytes of a stream.
    Stream {
        id: u64,
        offset: u64,
        length: u64,
    },
    /// CONNECTION_CLOSE.
    Close,
    /// An ack-eliciting frame of another type.
    Other,
}

impl Frame<'_> {
    /// Returns `true` if the peer must acknowledge a packet with this frame (RFC 9002, section 2).
    pub fn is_ack_eliciting(&self) -> bool {
        !matches!(self, Frame::Padding | Frame::Ack(_) | Frame::Close)
    }

    /// Returns the index of the stream, the offset and the length of its data, for a STREAM frame.
    /// The client opens all streams; their IDs are multiples of 4 (RFC 9000, section 2.1).
    pub fn data(&self) -> Option<(usize, u64, u64)> {
        match *self {
            Frame::Stream { id, offset, length } => Some((id as usize / 4, offset, length)),
            _ => None,
        }
    }
}

/// An ACK frame.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ack<'a> {
    largest: u64,
    first: u64,
    count: u64,
    rest: Reader<'a>,
}

impl Ack<'_> {
    /// Returns the first and the last number of each range, the highest range first.
    pub fn ranges(&self) -> impl Iterator<Item = (u64, u64)> {
        let mut rest = self.rest;
        let highest = (self.largest.saturating_sub(self.first), self.largest);
        let mut low = highest.0;
        let others = (0..self.count).map_while(move |_| {
            let (gap, length) = (rest.varint()?, rest.varint()?);
            let high = low.checked_sub(gap + 2)?;
            low = high.saturating_sub(length);
            Some((low, high))
        });
        std::iter::once(highest).chain(others)
    }
}

/// Iterator over the frames of a packet.
#[derive(Clone, Debug)]
pub(super) struct Frames<'a>(Reader<'a>);

impl<'a> Frames<'a> {
    fn ack(&mut self, has_ecn_counts: bool) -> Option<Ack<'a>> {
        let reader = &mut self.0;
        let largest = reader.varint()?;
        reader.varint()?;
        let (count, first) = (reader.varint()?, reader.varint()?);
        let ack = Ack { largest, first, count, rest: *reader };
        reader.skip_varints(2 * count + if has_ecn_counts { 3 } else { 0 })?;
        Some(ack)
    }

    fn stream(&mut self, kind: u64) -> Option<Frame<'a>> {
        let reader = &mut self.0;
        let id = reader.varint()?;
        let offset = if kind & 4 != 0 { reader.varint()? } else { 0 };
        let length = if kind & 2 != 0 { reader.varint()? } else { reader.0.len() as u64 };
        reader.prefixed(length)?;
        Some(Frame::Stream { id, offset, length })
    }

    /// Skips variable-length integers, and `bytes` bytes after them.
    fn skip(&mut self, integers: u64, bytes: usize) -> Option<Frame<'a>> {
        self.0.skip_varints(integers)?;
        self.0.bytes(bytes)?;
        Some(Frame::Other)
    }

    /// Skips a length and as many bytes.
    fn skip_prefixed(&mut self) -> Option<Frame<'a>> {
        let length = self.0.varint()?;
        self.0.prefixed(length)?;
        Some(Frame::Other)
    }
}

impl<'a> Iterator for Frames<'a> {
    type Item = Frame<'a>;

    fn next(&mut self) -> Option<Frame<'a>> {
        let kind = self.0.varint()?;
        match kind {
            0x00 => {
                // Padding ends the packet.
                self.0.0 = &[];
                Some(Frame::Padding)
            }
            // PING, HANDSHAKE_DONE, IMMEDIATE_ACK
            0x01 | 0x1e | 0x1f => Some(Frame::Other),
            0x02 | 0x03 => self.ack(kind == 0x03).map(Frame::Ack),
            // RESET_STREAM, STOP_SENDING, CRYPTO, NEW_TOKEN
            0x04 => self.skip(3, 0),
            0x05 => self.skip(2, 0),
            0x06 => {
                self.0.varint()?;
                self.skip_prefixed()
            }
            0x07 => self.skip_prefixed(),
            0x08..=0x0f => self.stream(kind),
            // MAX_DATA, MAX_STREAMS, DATA_BLOCKED, STREAMS_BLOCKED, RETIRE_CONNECTION_ID
            0x10 | 0x12..=0x14 | 0x16 | 0x17 | 0x19 => self.skip(1, 0),
            // MAX_STREAM_DATA, STREAM_DATA_BLOCKED
            0x11 | 0x15 => self.skip(2, 0),
            // NEW_CONNECTION_ID: the ID, and a token for stateless resets.
            0x18 => self.skip(2, 1 + CID_LENGTH + 16),
            // PATH_CHALLENGE, PATH_RESPONSE
            0x1a | 0x1b => self.skip(0, 8),
            0x1c | 0x1d => {
                self.0.0 = &[];
                Some(Frame::Close)
            }
            // DATAGRAM without and with a length (RFC 9221)
            0x30 => {
                self.0.0 = &[];
                Some(Frame::Other)
            }
            0x31 => self.skip_prefixed(),
            // ACK_FREQUENCY (draft-ietf-quic-ack-frequency-04)
            0xaf => self.skip(4, 0),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_variable_length_integer_has_one_to_eight_bytes() {
        // The examples of RFC 9000, appendix A.1.
        let examples: [(&[u8], u64); 5] = [
            (&[0xc2, 0x19, 0x7c, 0x5e, 0xff, 0x14, 0xe8, 0x8c], 151_288_809_941_952_652),
            (&[0x9d, 0x7f, 0x3e, 0x7d], 494_878_333),
            (&[0x7b, 0xbd], 15_293),
            (&[0x25], 37),
            (&[0x40, 0x25], 37),
        ];
        for (bytes, value) in examples {
            assert_eq!(Reader(bytes).varint(), Some(value));
        }
        assert_eq!(Reader(&[0x7b]).varint(), None);
    }

    #[test]
    fn a_packet_number_is_the_one_closest_to_the_expected_one() {
        // The example of RFC 9000, appendix A.3.
        let of_number = |truncated, length| {
            let (space, is_early) = (Space::Data, false);
            QuicPacket { space, is_early, length: 0, truncated: (truncated, length), payload: &[] }
        };
        let packet = of_number(0x9b32, 2);
        assert_eq!(packet.number(0xa82f_30ea + 1), 0xa82f_9b32);
        let near = |truncated, expected| of_number(truncated, 1).number(expected);
        assert_eq!((near(3, 250), near(250, 259), near(0, 0), near(255, 2)), (259, 250, 0, 255));
    }

    #[test]
    fn the_ranges_of_an_ack_frame_are_read_from_the_highest() {
        // Largest 20, delay 0, two more ranges, first range 5: 15 to 20; a gap of 2 and a length
        // of 3: 8 to 11; a gap of 0 and a length of 0: 6.
        let frame = [0x02, 20, 0, 2, 5, 2, 3, 0, 0, 0x01];
        let mut frames = Frames(Reader(&frame));
        let Some(Frame::Ack(ack)) = frames.next() else { panic!("an ACK frame") };
        let ranges: Vec<_> = ack.ranges().collect();
        assert_eq!(ranges, [(15, 20), (8, 11), (6, 6)]);
        assert!(matches!(frames.next(), Some(Frame::Other)));
        assert!(frames.next().is_none());
    }

    #[test]
    fn coalesced_packets_are_separated() {
        // An Initial packet with a PING frame, and a 1-RTT packet with a stream.
        let mut datagram = vec![0xc0, 0, 0, 0, 1, 8];
        datagram.extend([1; 8]);
        datagram.push(8);
        datagram.extend([2; 8]);
        datagram.extend([0, 0x40, 18, 7, 0x01]);
        datagram.extend([0; 16]);
        datagram.push(0x40);
        datagram.extend([1; 8]);
        datagram.extend([9, 0x0c, 4, 0x44, 0x00, 0xaa, 0xbb]);
        datagram.extend([0; 16]);
        let read: Vec<_> = packets(&datagram).collect();
        let heads: Vec<_> = read.iter().map(|packet| (packet.space, packet.number(0))).collect();
        assert_eq!(heads, [(Space::Initial, 7), (Space::Data, 9)]);
        assert!(read.iter().all(QuicPacket::is_ack_eliciting));
        let Some(Frame::Stream { id: 4, offset: 1024, length: 2 }) = read[1].frames().next() else {
            panic!("a stream")
        };
    }
}
