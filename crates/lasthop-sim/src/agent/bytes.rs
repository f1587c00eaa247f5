//! The TCP header of real bytes: an IPv4 (RFC 791) or IPv6 (RFC 8200) packet that carries TCP
//! (RFC 9293).
//!
//! Bytes that are not a whole TCP segment yield `None`, never a panic: their source is untrusted.
//!
//! Limitations: packets with IPv6 extension headers and fragments yield no segment; the window is the value
//! of the field, without window scaling; checksums are not verified.

use super::{Notice, Segment, SegmentView};
use lasthop_base::packet::flags::{self, NOTICE_ON_WIRE};
use std::ops::Range;

/// Protocol number of TCP.
const TCP: u8 = 6;

/// Returns the range of the TCP segment within an IP packet.
pub fn tcp_of(packet: &[u8]) -> Option<Range<usize>> {
    let number =
        |at: usize| Some(usize::from(u16::from_be_bytes([*packet.get(at)?, *packet.get(at + 1)?])));
    match packet.first()? >> 4 {
        4 => {
            let header = usize::from(packet[0] & 0xf) * 4;
            let is_whole = number(6)? & 0x3fff == 0;
            let is_tcp = *packet.get(9)? == TCP && header >= 20;
            Some(header..number(2)?).filter(|_| is_whole && is_tcp)
        }
        6 => {
            let is_tcp = *packet.get(6)? == TCP;
            Some(40..40 + number(4)?).filter(|_| is_tcp)
        }
        _ => None,
    }
}

/// Sets a 16-bit word of a TCP header and updates its checksum (RFC 1624, equation 3: HC' = ~(~HC +
/// ~m + m'), in one's complement).
fn set_word(header: &mut [u8; 20], at: usize, value: u16) {
    let word = |at: usize, header: &[u8; 20]| u16::from_be_bytes([header[at], header[at + 1]]);
    let (sum, old) = (word(16, header), word(at, header));
    let folded = u32::from(!sum) + u32::from(!old) + u32::from(value);
    let folded = (folded & 0xffff) + (folded >> 16);
    let folded = (folded & 0xffff) + (folded >> 16);
    header[at..at + 2].copy_from_slice(&value.to_be_bytes());
    header[16..18].copy_from_slice(&(!(folded as u16)).to_be_bytes());
}

/// Returns the Internet checksum (RFC 1071) of `parts`, all of which except the last have an even
/// length.
fn checksum<'a>(parts: impl IntoIterator<Item = &'a [u8]>) -> [u8; 2] {
    let words = parts.into_iter().flat_map(|part| part.chunks(2));
    let word = |pair: &[u8]| u32::from(pair[0]) << 8 | pair.get(1).map_or(0, |&low| low.into());
    let mut sum: u32 = words.map(word).sum();
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    (!(sum as u16)).to_be_bytes()
}

/// Returns the two bits of [`flags::NOTICE`] in the byte of the data offset.
fn notice_bits(offset: u8) -> u8 {
    let [ersn, eln] = NOTICE_ON_WIRE;
    (if offset & ersn != 0 { flags::ERSN } else { 0 })
        | (if offset & eln != 0 { flags::ELN } else { 0 })
}

impl Segment for Vec<u8> {
    fn segment(&self) -> Option<SegmentView> {
        let tcp = self.get(tcp_of(self)?)?;
        let word = |at: usize| Some(u32::from_be_bytes(tcp.get(at..at + 4)?.try_into().ok()?));
        let (seq, ack) = (word(4)?, word(8)?);
        let &[offset, bits, high, low] = tcp.get(12..16)? else { return None };
        let header = usize::from(offset >> 4) * 4;
        let payload = u32::try_from(tcp.len().checked_sub(header.max(20))?).ok()?;
        let control = u32::from(bits & flags::SYN != 0) + u32::from(bits & flags::FIN != 0);
        Some(SegmentView {
            seq,
            length: payload + control,
            payload,
            ack: (bits & flags::ACK != 0 && !super::is_notice(notice_bits(offset))).then_some(ack),
            window: u16::from_be_bytes([high, low]).into(),
            syn: bits & flags::SYN != 0,
            incarnation: 0,
        })
    }

    fn set_window(&mut self, window: u32) {
        let Some(tcp) = tcp_of(self).and_then(|range| self.get_mut(range)) else { return };
        let Some(header) = tcp.first_chunk_mut::<20>() else { return };
        set_word(header, 14, u16::try_from(window).unwrap_or(u16::MAX));
    }

    /// From the receiver of the segment to its sender, with a new IP header.
    fn notice(&self, notice: Notice) -> Option<Self> {
        let seq = self.segment()?.seq;
        let tcp = self.get(tcp_of(self)?)?;
        let mut bytes = match self[0] >> 4 {
            4 => {
                let mut ip = vec![0x45, 0, 0, 40, 0, 0, 0x40, 0, 64, TCP, 0, 0];
                ip.extend_from_slice(&self[16..20]);
                ip.extend_from_slice(&self[12..16]);
                let sum = checksum([&ip[..]]);
                ip[10..12].copy_from_slice(&sum);
                ip
            }
            _ => {
                let mut ip = vec![0x60, 0, 0, 0, 0, 20, TCP, 64];
                ip.extend_from_slice(&self[24..40]);
                ip.extend_from_slice(&self[8..24]);
                ip
            }
        };
        let (start, from) = (bytes.len(), if bytes.len() == 20 { 12 } else { 8 });
        let [ersn, eln] = NOTICE_ON_WIRE;
        let bit = match notice {
            Notice::RetransmissionStarted => ersn,
            Notice::Loss => eln,
        };
        // Swaps the ports. The sequence number is the number that the sender acknowledges.
        bytes.extend_from_slice(&[tcp[2], tcp[3], tcp[0], tcp[1]]);
        bytes.extend_from_slice(&tcp[8..12]);
        bytes.extend(seq.to_be_bytes());
        bytes.extend([5 << 4 | bit, flags::ACK, 0, 0, 0, 0, 0, 0]);
        let sum = checksum([&bytes[from..start], &[0, TCP, 0, 20], &bytes[start..]]);
        bytes[start + 16..start + 18].copy_from_slice(&sum);
        Some(bytes)
    }

    fn mark_loss(&mut self) {
        let Some(tcp) = tcp_of(self).and_then(|range| self.get_mut(range)) else { return };
        let Some(header) = tcp.first_chunk_mut::<20>() else { return };
        let [ersn, eln] = NOTICE_ON_WIRE;
        set_word(header, 12, u16::from_be_bytes([header[12] | ersn | eln, header[13]]));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::agent::{Agent, Crossing, Snoop, SnoopParameters, Verdict};
    use lasthop_base::units::Instant;
    use proptest::prelude::*;

    /// Returns an IP packet of `version` with a TCP segment.
    fn packet(version: u8, seq: u32, ack: u32, bits: u8, payload: usize) -> Vec<u8> {
        let mut tcp = vec![0x30, 0x39, 0, 80];
        tcp.extend(seq.to_be_bytes());
        tcp.extend(ack.to_be_bytes());
        // 24 bytes of header: an option precedes the payload.
        tcp.extend([6 << 4, bits, 0x20, 0x01, 0, 0, 0, 0, 2, 4, 5, 0xb4]);
        tcp.resize(24 + payload, 0xaa);
        let length = tcp.len() as u16;
        let mut bytes = if version == 4 {
            let mut ip = vec![0x45, 0];
            ip.extend((length + 20).to_be_bytes());
            ip.extend([0, 1, 0x40, 0, 64, TCP, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]);
            ip
        } else {
            let mut ip = vec![0x60, 0, 0, 0];
            ip.extend(length.to_be_bytes());
            ip.extend([TCP, 64]);
            ip.resize(40, 0);
            ip
        };
        bytes.extend(tcp);
        bytes
    }

    #[test]
    fn the_header_is_read_from_both_versions_of_ip() {
        for version in [4, 6] {
            let mut bytes = packet(version, 7, 9, flags::ACK, 100);
            // Padding of a short frame is not payload.
            bytes.resize(bytes.len() + 3, 0);
            let view = SegmentView {
                seq: 7,
                length: 100,
                payload: 100,
                ack: Some(9),
                window: 0x2001,
                syn: false,
                incarnation: 0,
            };
            assert_eq!(bytes.segment(), Some(view));
            let syn = packet(version, 7, 9, flags::SYN, 0).segment().expect("a segment");
            assert_eq!((syn.length, syn.ack, syn.syn), (1, None, true));
        }
    }

    /// Returns the Internet checksum (RFC 1071) over 16-bit words, without the pseudo header.
    fn sum(bytes: &[u8]) -> u16 {
        let word = |pair: &[u8]| u32::from(pair[0]) << 8 | pair.get(1).map_or(0, |&low| low.into());
        let mut sum: u32 = bytes.chunks(2).map(word).sum();
        while sum > 0xffff {
            sum = (sum & 0xffff) + (sum >> 16);
        }
        sum as u16
    }

    #[test]
    fn a_window_that_is_set_is_read_and_keeps_the_checksum_right() {
        for version in [4, 6] {
            for window in [0, 1, 0x1234, 0xffff] {
                let mut bytes = packet(version, 7, 9, flags::ACK, 101);
                let at = tcp_of(&bytes).expect("a segment").start;
                let checksum = !sum(&bytes[at..]);
                bytes[at + 16..at + 18].copy_from_slice(&checksum.to_be_bytes());
                assert_eq!(sum(&bytes[at..]), 0xffff);
                bytes.set_window(window);
                assert_eq!(bytes.segment().expect("a segment").window, window);
                assert_eq!(sum(&bytes[at..]), 0xffff, "window {window}");
            }
        }
    }

    #[test]
    fn a_notice_goes_back_to_the_sender_with_right_checksums() {
        for (version, from) in [(4, 12), (6, 8)] {
            for (notice, bit) in [(Notice::RetransmissionStarted, 0x02), (Notice::Loss, 0x04)] {
                let data = packet(version, 4_000_000_007, 9, flags::ACK, 100);
                let message = data.notice(notice).expect("a segment");
                let start = if version == 4 { 20 } else { 40 };
                assert_eq!(message.len(), start + 20);
                let length = (start - from) / 2;
                let (source, target) = message[from..start].split_at(length);
                assert_eq!([source, target].concat(), {
                    let (source, target) = data[from..start].split_at(length);
                    [target, source].concat()
                });
                let tcp = &message[start..];
                assert_eq!(tcp[..4], [0, 80, 0x30, 0x39], "the ports are turned around");
                assert_eq!(tcp[8..12], 4_000_000_007u32.to_be_bytes());
                assert_eq!((tcp[12], tcp[13]), (0x50 | bit, flags::ACK));
                let pseudo = [&message[from..start], &[0, TCP, 0, 20], tcp].concat();
                assert_eq!(sum(&pseudo), 0xffff);
                assert_eq!(if version == 4 { sum(&message[..20]) } else { 0xffff }, 0xffff);
                // Other agents must not treat it as an acknowledgment.
                assert_eq!(message.segment().expect("a segment").ack, None);
            }
            let mut ack = packet(version, 1, 700, flags::ACK, 0);
            let at = tcp_of(&ack).expect("a segment").start;
            let checksum = !sum(&ack[at..]);
            ack[at + 16..at + 18].copy_from_slice(&checksum.to_be_bytes());
            ack.mark_loss();
            assert_eq!(ack[at + 12] & 0x0f, 0x06);
            assert_eq!(sum(&ack[at..]), 0xffff);
            assert_eq!(ack.segment().expect("a segment").ack, Some(700));
        }
    }

    #[test]
    fn what_is_no_segment_shows_none() {
        for version in [4, 6] {
            let whole = packet(version, 1, 1, flags::ACK, 10);
            for length in 0..whole.len() {
                assert_eq!(whole[..length].to_vec().segment(), None, "{version}, {length} bytes");
            }
        }
        let mut udp = packet(4, 1, 1, flags::ACK, 10);
        udp[9] = 17;
        assert_eq!(udp.segment(), None);
        for (high, low) in [(0, 1), (0x20, 0)] {
            let mut fragment = packet(4, 1, 1, flags::ACK, 10);
            (fragment[6], fragment[7]) = (high, low);
            assert_eq!(fragment.segment(), None);
        }
    }

    /// One loss, with real bytes: the second duplicate ACK triggers a retransmission of the same
    /// bytes and is dropped.
    #[test]
    fn snoop_repairs_a_loss_in_real_packets() {
        let mut snoop = Snoop::new(SnoopParameters::default(), 1);
        let at = |millis: u64| Instant::from_nanos(millis * 1_000_000);
        let data: Vec<_> = (0..4).map(|n| packet(4, n * 100, 1, flags::ACK, 100)).collect();
        let crossing = Crossing { connection: Some(0), has_room: true };
        for (n, bytes) in data.clone().iter_mut().enumerate() {
            assert_eq!(snoop.down(at(n as u64), crossing, bytes), Verdict::Forward);
        }
        let verdicts: Vec<_> = [100, 100, 100, 400]
            .into_iter()
            .enumerate()
            .map(|(n, ack)| {
                let mut bytes = packet(4, 1, ack, flags::ACK, 0);
                let verdict = snoop.up(at(10 + n as u64), Some(0), &mut bytes);
                (verdict, std::iter::from_fn(|| snoop.poll_down()).collect::<Vec<_>>())
            })
            .collect();
        let (forward, suppress) = (Verdict::Forward, Verdict::Suppress);
        let expected = [
            (forward, vec![]),
            (forward, vec![]),
            (suppress, vec![data[1].clone()]),
            (forward, vec![]),
        ];
        assert_eq!(verdicts, expected);
        // Packets other than TCP are forwarded.
        assert_eq!(snoop.up(at(20), Some(0), &mut vec![1, 2, 3]), forward);
    }

    proptest! {
        #[test]
        fn no_bytes_break_it(bytes in prop::collection::vec(any::<u8>(), 0..90), version in 0u8..16) {
            let mut bytes = bytes;
            if let Some(first) = bytes.first_mut() {
                *first = *first & 0xf | version << 4;
            }
            if let Some(view) = bytes.segment() {
                prop_assert!(view.payload as usize <= bytes.len());
            }
        }
    }
}
