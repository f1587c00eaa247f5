//! Frames of 802.11: their lengths, and their byte form.
//!
//! ```text
//!   data       | control 2 | duration 2 | address 1..3, 6 each | sequence 2 | LLC 8, packet | FCS 4 |
//!   RTS        | control 2 | duration 2 | receiver 6 | transmitter 6 |                       FCS 4 |
//!   CF-End     | control 2 | duration 2 | broadcast 6 | transmitter 6 |                      FCS 4 |
//!   CTS, ACK   | control 2 | duration 2 | receiver 6 |                                       FCS 4 |
//!   QoS data   | control 2 | duration 2 | address 1..3, 6 each | sequence 2 | QoS 2 | body | FCS 4 |
//!   request    | control 2 | duration 2 | receiver 6 | transmitter 6 | BAR 2 | start 2 |      FCS 4 |
//!   BlockAck   | control 2 | duration 2 | receiver 6 | transmitter 6 | BA 2 | start 2 | bitmap | FCS 4 |
//! ```
//!
//! The body of QoS data is LLC and a packet, or an A-MSDU of several. A bitmap has 8 or 32 bytes
//! (802.11ax-2021, 9.3.1.8.2: fragment number 4).
//!
//! Source: IEEE Std 802.11-2012, clause 8.2 and 8.3.1, 8.3.2; little endian. An IP packet is preceded by
//! the LLC and SNAP header (RFC 1042), 8 bytes. Duration is the time that the frame reserves for
//! subsequent frames, in whole microseconds, rounded up (8.2.5).
//!
//! Limitations: four addresses, fragments, encryption and management frames are not supported.

/// Header of a data frame with three addresses, in bytes.
pub const DATA_HEADER: u64 = 24;
/// Header of a QoS data frame with three addresses, in bytes.
pub const QOS_HEADER: u64 = 26;
/// Header of LLC and SNAP before an IP packet.
pub const LLC: u64 = 8;
/// Frame check sequence at the end of every frame.
pub const FCS: u64 = 4;
/// A request to send, FCS included.
pub const RTS: u64 = 20;
/// Length of a CF-End, FCS included.
pub const CF_END: u64 = 20;
/// A clear to send, FCS included.
pub const CTS: u64 = 14;
/// A MAC acknowledgment, FCS included.
pub const ACK: u64 = 14;
/// A BlockAck request, FCS included.
pub const BLOCK_ACK_REQUEST: u64 = 24;
/// Returns the length of a compressed BlockAck with 256 or 64 bits, FCS included.
pub const fn block_ack(is_long: bool) -> u64 {
    if is_long { 56 } else { 32 }
}
/// Number of distinct sequence numbers.
pub const SEQUENCE_NUMBERS: u16 = 4096;

/// A MAC address.
pub type Address = [u8; 6];

/// Direction of a data frame, as encoded by the bits To DS and From DS.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// From a station to its access point.
    ToAccessPoint,
    /// From an access point to a station.
    FromAccessPoint,
}

/// A frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Frame<'a> {
    /// A data frame with an IP packet.
    Data {
        /// Direction of the frame.
        way: Way,
        /// The receiving station.
        receiver: Address,
        /// The transmitting station.
        transmitter: Address,
        /// Whether the frame is a retransmission.
        is_retry: bool,
        /// Sequence number, below 4096.
        sequence: u16,
        /// The IP packet.
        packet: &'a [u8],
    },
    /// A QoS data frame.
    QosData {
        /// Direction of the frame.
        way: Way,
        /// The receiving station.
        receiver: Address,
        /// The transmitting station.
        transmitter: Address,
        /// Whether the frame is a retransmission.
        is_retry: bool,
        /// Sequence number, below 4096.
        sequence: u16,
        /// Traffic identifier, below 16.
        tid: u8,
        /// Whether the body is an A-MSDU.
        is_amsdu: bool,
        /// LLC and the packet, or the subframes of an A-MSDU.
        body: &'a [u8],
    },
    /// A request for a BlockAck.
    BlockAckRequest {
        /// The recipient of the data.
        receiver: Address,
        /// The originator of the data.
        transmitter: Address,
        /// Traffic identifier, below 16.
        tid: u8,
        /// Starting sequence number, below 4096.
        start: u16,
    },
    /// A compressed BlockAck.
    BlockAck {
        /// The originator of the data.
        receiver: Address,
        /// The recipient of the data.
        transmitter: Address,
        /// Traffic identifier, below 16.
        tid: u8,
        /// Starting sequence number, below 4096.
        start: u16,
        /// The bitmap, of which the first word or all four are sent.
        bitmap: [u64; 4],
        /// Whether all four words are sent.
        is_long: bool,
    },
    /// A request to send.
    Rts {
        /// The responding station.
        receiver: Address,
        /// The transmitting station.
        transmitter: Address,
    },
    /// The end of a TXOP, to all stations.
    CfEnd {
        /// The transmitting station.
        transmitter: Address,
    },
    /// A clear to send.
    Cts {
        /// The station that may transmit.
        receiver: Address,
    },
    /// An acknowledgment.
    Ack {
        /// The transmitter of the acknowledged data frame.
        receiver: Address,
    },
}

/// Error in the bytes of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FrameError {
    /// The bytes end before the frame.
    #[error("frame of {found} bytes; expected at least {least}")]
    Short {
        /// Number of bytes found.
        found: usize,
        /// Minimum length of the frame.
        least: usize,
    },
    /// The bytes are corrupted.
    #[error("invalid frame check sequence {found:08x}; expected {right:08x}")]
    Damaged {
        /// Frame check sequence of the frame.
        found: u32,
        /// Frame check sequence computed from the bytes.
        right: u32,
    },
    /// Unsupported type of frame.
    #[error(
        "unsupported frame control {found:04x}; expected data with one DS bit, RTS, CTS, ACK, BlockAck or its request"
    )]
    Kind {
        /// The first two bytes.
        found: u16,
    },
    /// The frame contains no IP packet.
    #[error("found data without an LLC and SNAP header of IPv4 or IPv6")]
    NoPacket,
}

const DATA_CONTROL: u16 = 0x0008;
const RTS_CONTROL: u16 = 0x00b4;
const CF_END_CONTROL: u16 = 0x00e4;
const BROADCAST: Address = [0xff; 6];
const CTS_CONTROL: u16 = 0x00c4;
const ACK_CONTROL: u16 = 0x00d4;
const QOS_DATA_CONTROL: u16 = 0x0088;
const REQUEST_CONTROL: u16 = 0x0084;
const BLOCK_ACK_CONTROL: u16 = 0x0094;
/// BAR and BA control: compressed; the TID is in the upper four bits.
const COMPRESSED: u16 = 0x0004;
/// QoS control: the body is an A-MSDU.
const AMSDU_PRESENT: u16 = 0x0080;
/// Fragment number of a BlockAck with 256 bits.
const LONG_BITMAP: u16 = 4;
const TO_DS: u16 = 0x0100;
const FROM_DS: u16 = 0x0200;
const RETRY: u16 = 0x0800;
const SNAP: [u8; 6] = [0xaa, 0xaa, 0x03, 0, 0, 0];

impl Frame<'_> {
    /// Appends the bytes of the frame, including the FCS, to `bytes`; `duration` in microseconds,
    /// up to 32,767.
    pub fn encode(&self, duration: u16, bytes: &mut Vec<u8>) {
        let begin = bytes.len();
        let head = |bytes: &mut Vec<u8>, control: u16, receiver: Address| {
            bytes.extend(control.to_le_bytes());
            bytes.extend(duration.to_le_bytes());
            bytes.extend(receiver);
        };
        match *self {
            Frame::Data { way, receiver, transmitter, is_retry, sequence, packet } => {
                let direction = match way {
                    Way::ToAccessPoint => TO_DS,
                    Way::FromAccessPoint => FROM_DS,
                };
                let retry = if is_retry { RETRY } else { 0 };
                head(bytes, DATA_CONTROL | direction | retry, receiver);
                bytes.extend(transmitter);
                // The destination or source behind the access point is the access point itself.
                bytes.extend(match way {
                    Way::ToAccessPoint => receiver,
                    Way::FromAccessPoint => transmitter,
                });
                bytes.extend(((sequence % SEQUENCE_NUMBERS) << 4).to_le_bytes());
                append_packet(packet, bytes);
            }
            Frame::QosData {
                way,
                receiver,
                transmitter,
                is_retry,
                sequence,
                tid,
                is_amsdu,
                body,
            } => {
                let direction = match way {
                    Way::ToAccessPoint => TO_DS,
                    Way::FromAccessPoint => FROM_DS,
                };
                let retry = if is_retry { RETRY } else { 0 };
                head(bytes, QOS_DATA_CONTROL | direction | retry, receiver);
                bytes.extend(transmitter);
                bytes.extend(match way {
                    Way::ToAccessPoint => receiver,
                    Way::FromAccessPoint => transmitter,
                });
                bytes.extend(((sequence % SEQUENCE_NUMBERS) << 4).to_le_bytes());
                let amsdu = if is_amsdu { AMSDU_PRESENT } else { 0 };
                bytes.extend((amsdu | u16::from(tid)).to_le_bytes());
                bytes.extend_from_slice(body);
            }
            Frame::BlockAckRequest { receiver, transmitter, tid, start } => {
                head(bytes, REQUEST_CONTROL, receiver);
                bytes.extend(transmitter);
                bytes.extend((COMPRESSED | u16::from(tid) << 12).to_le_bytes());
                bytes.extend(((start % SEQUENCE_NUMBERS) << 4).to_le_bytes());
            }
            Frame::BlockAck { receiver, transmitter, tid, start, bitmap, is_long } => {
                head(bytes, BLOCK_ACK_CONTROL, receiver);
                bytes.extend(transmitter);
                bytes.extend((COMPRESSED | u16::from(tid) << 12).to_le_bytes());
                let fragment = if is_long { LONG_BITMAP } else { 0 };
                bytes.extend(((start % SEQUENCE_NUMBERS) << 4 | fragment).to_le_bytes());
                let words = if is_long { bitmap.len() } else { 1 };
                bytes.extend(bitmap[..words].iter().flat_map(|word| word.to_le_bytes()));
            }
            Frame::Rts { receiver, transmitter } => {
                head(bytes, RTS_CONTROL, receiver);
                bytes.extend(transmitter);
            }
            Frame::CfEnd { transmitter } => {
                head(bytes, CF_END_CONTROL, BROADCAST);
                bytes.extend(transmitter);
            }
            Frame::Cts { receiver } => head(bytes, CTS_CONTROL, receiver),
            Frame::Ack { receiver } => head(bytes, ACK_CONTROL, receiver),
        }
        let check = crc32(&bytes[begin..]);
        bytes.extend(check.to_le_bytes());
    }
}

/// Appends LLC and SNAP, and an IP packet.
pub fn append_packet(packet: &[u8], bytes: &mut Vec<u8>) {
    bytes.extend(SNAP);
    let is_v6 = packet.first().is_some_and(|first| first >> 4 == 6);
    bytes.extend(if is_v6 { [0x86, 0xdd] } else { [0x08, 0x00] });
    bytes.extend_from_slice(packet);
}

/// Returns the body of an A-MSDU of IP packets.
pub fn amsdu(packets: &[Vec<u8>], [source, destination]: [Address; 2]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for packet in packets {
        bytes.resize(bytes.len().next_multiple_of(4), 0);
        bytes.extend(destination);
        bytes.extend(source);
        bytes.extend((packet.len() as u16 + LLC as u16).to_be_bytes());
        append_packet(packet, &mut bytes);
    }
    bytes
}

/// Reads a frame and its duration in microseconds.
///
/// # Errors
/// If the bytes are corrupted or are not a supported frame.
pub fn decode(bytes: &[u8]) -> Result<(Frame<'_>, u16), FrameError> {
    let short = |least: u64| FrameError::Short { found: bytes.len(), least: least as usize };
    let (body, check) = bytes.split_last_chunk::<4>().ok_or(short(ACK))?;
    if bytes.len() < ACK as usize {
        return Err(short(ACK));
    }
    let (found, right) = (u32::from_le_bytes(*check), crc32(body));
    if found != right {
        return Err(FrameError::Damaged { found, right });
    }
    let word = |at: usize| u16::from_le_bytes([body[at], body[at + 1]]);
    let address = |at: usize| -> Address { std::array::from_fn(|byte| body[at + byte]) };
    let (control, duration, receiver) = (word(0), word(2), address(4));
    let frame = match control & !(RETRY | TO_DS | FROM_DS) {
        CTS_CONTROL => Frame::Cts { receiver },
        ACK_CONTROL => Frame::Ack { receiver },
        RTS_CONTROL if bytes.len() < RTS as usize => return Err(short(RTS)),
        RTS_CONTROL => Frame::Rts { receiver, transmitter: address(10) },
        CF_END_CONTROL if bytes.len() < CF_END as usize => return Err(short(CF_END)),
        CF_END_CONTROL => Frame::CfEnd { transmitter: address(10) },
        REQUEST_CONTROL | BLOCK_ACK_CONTROL => decode_block_ack(bytes, control)?,
        QOS_DATA_CONTROL => {
            let way = match control & (TO_DS | FROM_DS) {
                TO_DS => Way::ToAccessPoint,
                FROM_DS => Way::FromAccessPoint,
                _ => return Err(FrameError::Kind { found: control }),
            };
            if body.len() < QOS_HEADER as usize {
                return Err(short(QOS_HEADER + FCS));
            }
            Frame::QosData {
                way,
                receiver,
                transmitter: address(10),
                is_retry: control & RETRY != 0,
                sequence: word(22) >> 4,
                tid: (word(24) & 0xf) as u8,
                is_amsdu: word(24) & AMSDU_PRESENT != 0,
                body: &body[QOS_HEADER as usize..],
            }
        }
        DATA_CONTROL => {
            let way = match control & (TO_DS | FROM_DS) {
                TO_DS => Way::ToAccessPoint,
                FROM_DS => Way::FromAccessPoint,
                _ => return Err(FrameError::Kind { found: control }),
            };
            if (bytes.len() as u64) < DATA_HEADER + LLC + FCS {
                return Err(short(DATA_HEADER + LLC + FCS));
            }
            let (header, data) = body.split_at(DATA_HEADER as usize);
            let (llc, packet) = data.split_at(LLC as usize);
            if !llc.starts_with(&SNAP) || !matches!(&llc[6..], [0x08, 0x00] | [0x86, 0xdd]) {
                return Err(FrameError::NoPacket);
            }
            Frame::Data {
                way,
                receiver,
                transmitter: address(10),
                is_retry: control & RETRY != 0,
                sequence: u16::from_le_bytes([header[22], header[23]]) >> 4,
                packet,
            }
        }
        _ => return Err(FrameError::Kind { found: control }),
    };
    Ok((frame, duration))
}

/// Reads a BlockAck or a request for one.
fn decode_block_ack(bytes: &[u8], control: u16) -> Result<Frame<'_>, FrameError> {
    let word = |at: usize| u16::from_le_bytes([bytes[at], bytes[at + 1]]);
    let address = |at: usize| -> Address { std::array::from_fn(|byte| bytes[at + byte]) };
    let short = |least: u64| FrameError::Short { found: bytes.len(), least: least as usize };
    if (bytes.len() as u64) < BLOCK_ACK_REQUEST {
        return Err(short(BLOCK_ACK_REQUEST));
    }
    let (receiver, transmitter, start) = (address(4), address(10), word(18) >> 4);
    let tid = (word(16) >> 12) as u8;
    if control & !RETRY == REQUEST_CONTROL {
        return Ok(Frame::BlockAckRequest { receiver, transmitter, tid, start });
    }
    let is_long = word(18) & 0xf == LONG_BITMAP;
    if bytes.len() as u64 != block_ack(is_long) {
        return Err(short(block_ack(is_long)));
    }
    let word = |place: usize| -> u64 {
        let byte = |shift| u64::from(bytes[20 + 8 * place + shift]) << (8 * shift);
        (0..8).map(byte).sum()
    };
    let bitmap = std::array::from_fn(|place| if place == 0 || is_long { word(place) } else { 0 });
    Ok(Frame::BlockAck { receiver, transmitter, tid, start, bitmap, is_long })
}

/// Returns the CRC of IEEE 802.3 and 802.11 (802.11-2012, 8.2.4.8), reflected, bit by bit.
fn crc32(bytes: &[u8]) -> u32 {
    let step = |crc: u32, &byte: &u8| {
        let shift = |crc: u32, _| (crc >> 1) ^ (0xedb8_8320 & (crc & 1).wrapping_neg());
        (0..8).fold(crc ^ u32::from(byte), shift)
    };
    !bytes.iter().fold(!0, step)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const AP: Address = [2, 0, 0, 0, 0, 1];
    const STATION: Address = [2, 0, 0, 0, 0, 2];

    /// The standard check value of CRC-32.
    #[test]
    fn the_check_sequence_is_that_of_the_standard() {
        assert_eq!(crc32(b"123456789"), 0xcbf4_3926);
    }

    #[test]
    fn lengths_on_the_air_are_lengths_of_the_bytes() {
        let packet = [0x45; 40];
        // 14 + 8 + 40 B, padded to 64 B.
        let body = amsdu(&[packet.to_vec(), packet.to_vec()], [STATION, AP]);
        let bitmap = [1, 2, 3, u64::MAX];
        let data = Frame::Data {
            way: Way::FromAccessPoint,
            receiver: STATION,
            transmitter: AP,
            is_retry: true,
            sequence: 4095,
            packet: &packet,
        };
        for (frame, length) in [
            (data, DATA_HEADER + LLC + 40 + FCS),
            (Frame::Rts { receiver: AP, transmitter: STATION }, RTS),
            (Frame::Cts { receiver: STATION }, CTS),
            (Frame::CfEnd { transmitter: STATION }, CF_END),
            (Frame::Ack { receiver: AP }, ACK),
            (
                Frame::QosData {
                    way: Way::ToAccessPoint,
                    receiver: AP,
                    transmitter: STATION,
                    is_retry: false,
                    sequence: 7,
                    tid: 6,
                    is_amsdu: true,
                    body: &body,
                },
                QOS_HEADER + 2 * 64 - 2 + FCS,
            ),
            (
                Frame::BlockAckRequest { receiver: AP, transmitter: STATION, tid: 4, start: 4095 },
                BLOCK_ACK_REQUEST,
            ),
            (
                Frame::BlockAck {
                    receiver: AP,
                    transmitter: STATION,
                    tid: 1,
                    start: 9,
                    bitmap,
                    is_long: true,
                },
                56,
            ),
            (
                Frame::BlockAck {
                    receiver: AP,
                    transmitter: STATION,
                    tid: 1,
                    start: 9,
                    bitmap: [1 << 63, 0, 0, 0],
                    is_long: false,
                },
                32,
            ),
        ] {
            let mut bytes = Vec::new();
            frame.encode(314, &mut bytes);
            assert_eq!(bytes.len() as u64, length);
            assert_eq!(decode(&bytes), Ok((frame, 314)));
            for bit in 0..bytes.len() * 8 {
                bytes[bit / 8] ^= 1 << (bit % 8);
                assert!(matches!(decode(&bytes), Err(FrameError::Damaged { .. })), "bit {bit}");
                bytes[bit / 8] ^= 1 << (bit % 8);
            }
        }
    }

    proptest! {
        /// Arbitrary bytes are a frame or an error.
        #[test]
        fn any_bytes_are_a_frame_or_an_error(mut bytes in prop::collection::vec(any::<u8>(), 0..80), seal: bool, control in 0usize..10) {
            if seal && bytes.len() > 2 {
                let kinds = [DATA_CONTROL, DATA_CONTROL | TO_DS, DATA_CONTROL | FROM_DS, RTS_CONTROL, CF_END_CONTROL, CTS_CONTROL, ACK_CONTROL, QOS_DATA_CONTROL | TO_DS, REQUEST_CONTROL, BLOCK_ACK_CONTROL];
                if let Some(kind) = kinds.get(control) {
                    bytes[..2].copy_from_slice(&kind.to_le_bytes());
                }
                let check = crc32(&bytes);
                bytes.extend(check.to_le_bytes());
            }
            if let Ok((frame, duration)) = decode(&bytes) {
                let mut again = Vec::new();
                frame.encode(duration, &mut again);
                prop_assert_eq!(decode(&again), Ok((frame, duration)));
            }
        }
    }
}
