//! Network interfaces of the machine as the ends of a link (`--between`).
//!
//! ```text
//!   device -- eth1 -- packet socket -- link -- packet socket -- eth2 -- network
//! ```
//!
//! The link transports the IP packets of the frames that one interface receives; the other interface transmits
//! them. Links know packets only, so that the Ethernet header of a delivered packet is that of the latest frame
//! with the same IP addresses. All other frames (ARP, EAPOL, LLDP) and neighbour discovery of IPv6 pass immediately:
//! error processes affect the packets of programs only.
//!
//! Sockets of packet(7) end with the process, and the interfaces keep their configuration.
//!
//! *Not modelled*: VLAN tags, which the kernel removes (the interface of the VLAN is used instead); learning of
//! addresses, as in bridges: frames between devices at the same interface cross the link if it receives them.

use super::port::Port;
use super::{Fault, sys};
use crate::network::is_discovery;
use crate::offload::{PREAMBLE, Preamble};
use lasthop_sim::sim::ids::Side;
use std::collections::HashMap;
use std::io;
use std::ops::Range;

/// Length of an Ethernet header without tags, in bytes.
pub const HEADER: usize = 14;

/// Number of pairs of addresses in each of the two tables of [`Headers`].
const MOST: usize = 1 << 15;

/// Types of Ethernet frames with IP packets (IEEE 802 numbers of IANA).
const IPV4: [u8; 2] = [0x08, 0x00];
const IPV6: [u8; 2] = [0x86, 0xdd];

/// The Ethernet headers of the latest packets by their IP addresses. Pairs that are not used while 32,768
/// others appear are forgotten.
#[derive(Debug, Default)]
pub struct Headers {
    recent: HashMap<[u8; 32], [u8; HEADER]>,
    older: HashMap<[u8; 32], [u8; HEADER]>,
}

impl Headers {
    /// Remembers the header of an IP packet.
    fn learn(&mut self, packet: &[u8], header: [u8; HEADER]) {
        let pair = addresses(packet);
        if self.recent.len() == MOST && !self.recent.contains_key(&pair) {
            self.older = std::mem::take(&mut self.recent);
        }
        self.recent.insert(pair, header);
    }

    /// Returns the header of the latest packet with the addresses of this one.
    pub fn find(&self, packet: &[u8]) -> Option<&[u8; HEADER]> {
        let pair = addresses(packet);
        self.recent.get(&pair).or_else(|| self.older.get(&pair))
    }

    /// Remembers the Ethernet header of what an interface has received. Returns the range of the IP packet with
    /// its preamble, which is moved; or `None`, if the frame contains no packet or one of neighbour discovery.
    pub fn take(&mut self, bytes: &mut [u8]) -> Option<Range<usize>> {
        let (start, length) = (PREAMBLE + HEADER, packet_length(bytes.get(PREAMBLE..)?)?);
        let packet = &bytes[start..start + length];
        if is_discovery(packet) {
            return None;
        }
        self.learn(packet, *bytes[PREAMBLE..].first_chunk()?);
        // The place of the checksum counts from the start of the frame.
        let preamble = Preamble::read(*bytes.first_chunk()?).after(HEADER as u16);
        bytes[HEADER..start].copy_from_slice(&preamble.bytes());
        Some(HEADER..start + length)
    }
}

/// Returns the addresses of an IP packet, source first.
fn addresses(packet: &[u8]) -> [u8; 32] {
    let mut pair = [0; 32];
    let (from, count) = if packet[0] >> 4 == 6 { (8, 32) } else { (12, 8) };
    pair[..count].copy_from_slice(&packet[from..from + count]);
    pair
}

/// Returns the length of the IP packet in a frame, without the padding of short frames; `None` if there is no
/// complete packet.
fn packet_length(frame: &[u8]) -> Option<usize> {
    let (header, packet) = frame.split_first_chunk::<HEADER>()?;
    let number =
        |at: usize| Some(usize::from(u16::from_be_bytes(*packet.get(at..)?.first_chunk()?)));
    let (least, length) = match [header[12], header[13]] {
        IPV4 => (20, number(2)?),
        IPV6 => (40, 40 + number(4)?),
        _ => return None,
    };
    (least <= length && length <= packet.len()).then_some(length)
}

/// Opens two interfaces as the ends of link 0.
pub fn open(interfaces: &[String; 2]) -> Result<Vec<Port>, Fault> {
    let port = |(interface, side): (&String, Side)| {
        let device = sys::packet_socket(interface).map_err(|error| {
            let remedy = match error.kind() {
                io::ErrorKind::PermissionDenied => {
                    "; run as root, or with CAP_NET_ADMIN and CAP_NET_RAW"
                }
                _ => "",
            };
            Fault::new(format!("--between {interface}: {error}{remedy}"))
        })?;
        Ok(Port { link: 0, side, device, has_preamble: false, headers: Some(Headers::default()) })
    };
    interfaces.iter().zip(Side::BOTH).map(port).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A frame of a device with this header, type and packet, padded to 60 B.
    fn frame(sender: u8, kind: [u8; 2], packet: &[u8]) -> Vec<u8> {
        let mut bytes = vec![0; PREAMBLE];
        bytes.extend([[2, 0, 0, 0, 0, 9], [2, 0, 0, 0, 0, sender]].concat());
        bytes.extend(kind);
        bytes.extend(packet);
        bytes.resize(bytes.len().max(PREAMBLE + 60), 0);
        bytes
    }

    /// A UDP datagram of IPv4 with 4 B of data.
    fn datagram(from: u8) -> Vec<u8> {
        let mut packet = vec![0x45, 0, 0, 32, 0, 0, 0x40, 0, 64, 17, 0, 0];
        packet.extend([192, 0, 2, from, 192, 0, 2, 9]);
        packet.extend([0, 7, 0, 7, 0, 12, 0, 0, 1, 2, 3, 4]);
        packet
    }

    #[test]
    fn packets_lose_their_header_and_padding() {
        let mut headers = Headers::default();
        let mut bytes = frame(1, IPV4, &datagram(1));
        // The kernel leaves the checksum of UDP, at byte 6 of its header, to the reader.
        bytes[0] = 1;
        bytes[6..10].copy_from_slice(&[34_u16, 6].map(u16::to_ne_bytes).concat());
        let range = headers.take(&mut bytes).expect("a packet");
        let taken = &bytes[range];
        assert_eq!(taken[PREAMBLE..], datagram(1));
        assert_eq!(taken[6..10], [20_u16, 6].map(u16::to_ne_bytes).concat());
        let header = headers.find(&datagram(1)).expect("a known pair");
        assert_eq!((header[11], &header[12..]), (1, &IPV4[..]));
        assert_eq!(headers.find(&datagram(2)), None);
        // The latest header counts.
        headers.take(&mut frame(3, IPV4, &datagram(1))).expect("a packet");
        assert_eq!(headers.find(&datagram(1)).expect("a known pair")[11], 3);
    }

    #[test]
    fn other_frames_are_not_for_the_link() {
        let mut headers = Headers::default();
        let mut taken = |mut bytes: Vec<u8>| headers.take(&mut bytes).is_some();
        assert!(!taken(frame(1, [0x08, 0x06], &[0; 28])), "ARP");
        let mut solicitation = vec![0x60, 0, 0, 0, 0, 8, 58, 255];
        solicitation.resize(40, 0);
        solicitation.extend([135, 0, 0, 0, 0, 0, 0, 0]);
        assert!(!taken(frame(1, IPV6, &solicitation)), "neighbour discovery");
        solicitation[40] = 128;
        assert!(taken(frame(1, IPV6, &solicitation)), "an echo request");
        let mut cut = datagram(1);
        cut[3] = 200;
        assert!(!taken(frame(1, IPV4, &cut)), "longer than its frame");
        cut[3] = 12;
        assert!(!taken(frame(1, IPV4, &cut)), "shorter than its header");
        assert!(!taken(vec![0; PREAMBLE + 5]));
    }

    #[test]
    fn the_number_of_known_pairs_is_bounded() {
        let mut headers = Headers::default();
        let packet = |number: usize| {
            let mut packet = datagram(1);
            packet[12..16].copy_from_slice(&(number as u32).to_be_bytes());
            packet
        };
        for number in 0..3 * MOST {
            headers.learn(&packet(number), [0; HEADER]);
        }
        assert!(headers.recent.len() + headers.older.len() <= 2 * MOST);
        assert!(headers.find(&packet(3 * MOST - 1)).is_some());
        assert!(headers.find(&packet(0)).is_none());
    }
}
