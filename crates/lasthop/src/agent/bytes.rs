//! The TCP header of real bytes: an IPv4 (RFC 791) or IPv6 (RFC 8200) packet that carries TCP
//! (RFC 9293).
//!
//! Whatever is not a whole TCP segment shows none, never a panic: these bytes come from anywhere.
//!
//! Not modelled: IPv6 extension headers and later fragments (they show no segment), window scaling
//! (the window is the field as it stands), checksums.

use super::{Segment, SegmentView};
use crate::packet::flags;

/// The protocol number of TCP.
const TCP: u8 = 6;

/// The TCP segment within an IP packet.
fn tcp_of(packet: &[u8]) -> Option<&[u8]> {
    let number =
        |at: usize| Some(usize::from(u16::from_be_bytes([*packet.get(at)?, *packet.get(at + 1)?])));
    match packet.first()? >> 4 {
        4 => {
            let header = usize::from(packet[0] & 0xf) * 4;
            let is_first = number(6)? & 0x1fff == 0;
            let is_tcp = *packet.get(9)? == TCP && header >= 20;
            packet.get(header..number(2)?).filter(|_| is_first && is_tcp)
        }
        6 => {
            let is_tcp = *packet.get(6)? == TCP;
            packet.get(40..40 + number(4)?).filter(|_| is_tcp)
        }
        _ => None,
    }
}

impl Segment for Vec<u8> {
    fn segment(&self) -> Option<SegmentView> {
        let tcp = tcp_of(self)?;
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
            ack: (bits & flags::ACK != 0).then_some(ack),
            window: u16::from_be_bytes([high, low]).into(),
            syn: bits & flags::SYN != 0,
            incarnation: 0,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::agent::{Agent, Snoop, SnoopParameters, Verdict};
    use crate::units::Instant;
    use proptest::prelude::*;

    /// An IP packet of `version` with a TCP segment.
    fn packet(version: u8, seq: u32, ack: u32, bits: u8, payload: usize) -> Vec<u8> {
        let mut tcp = vec![0x30, 0x39, 0, 80];
        tcp.extend(seq.to_be_bytes());
        tcp.extend(ack.to_be_bytes());
        // 24 bytes of header: an option stands before the payload.
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
        let mut fragment = packet(4, 1, 1, flags::ACK, 10);
        fragment[7] = 1;
        assert_eq!((udp.segment(), fragment.segment()), (None, None));
    }

    /// One loss, on bytes: the second duplicate brings the very bytes again and goes no further.
    #[test]
    fn snoop_repairs_a_loss_in_real_packets() {
        let mut snoop = Snoop::new(SnoopParameters::default(), 1);
        let at = |millis: u64| Instant::from_nanos(millis * 1_000_000);
        let data: Vec<_> = (0..4).map(|n| packet(4, n * 100, 1, flags::ACK, 100)).collect();
        for (n, bytes) in data.iter().enumerate() {
            assert_eq!(snoop.down(at(n as u64), 0, bytes, true), Verdict::Forward);
        }
        let verdicts: Vec<_> = [100, 100, 100, 400]
            .into_iter()
            .enumerate()
            .map(|(n, ack)| {
                let bytes = packet(4, 1, ack, flags::ACK, 0);
                let verdict = snoop.up(at(10 + n as u64), 0, &bytes);
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
        // What is not TCP passes.
        assert_eq!(snoop.up(at(20), 0, &vec![1, 2, 3]), forward);
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
