//! Segmentation offload of TUN devices: a host passes data of up to 64 kB with one header to the device, and
//! the driver makes the packets of it that the kernel would make. No packet longer than the MTU enters a
//! link.
//!
//! A device with `IFF_VNET_HDR` puts a [`Preamble`] before each packet (`struct virtio_net_hdr` of
//! `linux/virtio_net.h`; Virtual I/O Device 1.2, section 5.1.6), with the place of a missing checksum and
//! the length of the segments. [`Segments`] reads such a packet. In the other direction, [`Joint`] collects
//! packets that a link delivers at nearly the same time, for one write.
//!
//! Only devices of fast links have preambles ([`suits`]): on slower ones, hosts pass on segment by segment,
//! and read packet by packet.
//!
//! *Not modelled*: encapsulation (UDP tunnels), fragments (`UFO`); the devices do not offer them.

mod joint;
mod segments;

pub use joint::{Joint, MOST_HEAD, MOST_PACKETS};
pub use segments::{Malformed, Segments};

use etherparse::checksum::Sum16BitWords;
use lasthop_base::units::{Duration, Rate};
use lasthop_sim::scenario::{Direction, Link};

/// Minimum rate of a link, in both directions and at all times, for segmentation offload.
const FAST: Rate = Rate::from_bps(500_000_000);

/// Maximum time between the deliveries of packets that are written together; a packet of 1500 B takes 24 µs
/// at the minimum rate.
const NEAR: Duration = Duration::from_nanos(25_000);

/// Returns `true` if the devices of a link have segmentation offload.
pub fn suits(link: &Link) -> bool {
    let is_fast = |direction: &Direction| {
        let rate = direction.air().rate;
        rate.is_unlimited() || rate >= FAST
    };
    link.wlan.is_none() && is_fast(&link.forward) && is_fast(&link.reverse)
}

/// Length of a [`Preamble`], in bytes.
pub const PREAMBLE: usize = 10;

/// `VIRTIO_NET_HDR_F_NEEDS_CSUM`: the checksum field contains the sum of the pseudo-header only.
const NEEDS_CHECKSUM: u8 = 1;

/// `VIRTIO_NET_HDR_GSO_NONE`, `…_TCPV4`, `…_TCPV6` and `…_UDP_L4`.
const NO_SEGMENTS: u8 = 0;
const TCP_OVER_4: u8 = 1;
const TCP_OVER_6: u8 = 4;
const UDP: u8 = 5;

/// `VIRTIO_NET_HDR_GSO_ECN`: the first segment alone carries CWR.
const WITH_ECN: u8 = 0x80;

/// Length of an IPv6 header, and the minimum lengths of IPv4 and TCP headers; the length of a UDP
/// header. All in bytes.
const HEADER_6: usize = 40;
const HEADER_4: usize = 20;
const HEADER_TCP: usize = 20;
const HEADER_UDP: usize = 8;

/// The header of a TUN device before each packet, in the byte order of the machine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Preamble {
    flags: u8,
    kind: u8,
    /// Length of all headers in bytes, a hint only.
    header: u16,
    /// Data per segment, in bytes.
    segment: u16,
    /// Start of the bytes that the checksum covers, from the start of the packet.
    checksum_start: u16,
    /// Place of the checksum, from there.
    checksum_offset: u16,
}

impl Preamble {
    /// Reads a preamble.
    pub fn read(bytes: [u8; PREAMBLE]) -> Self {
        let number = |at: usize| u16::from_ne_bytes([bytes[at], bytes[at + 1]]);
        Preamble {
            flags: bytes[0],
            kind: bytes[1],
            header: number(2),
            segment: number(4),
            checksum_start: number(6),
            checksum_offset: number(8),
        }
    }

    /// Returns the preamble of a packet without the `length` bytes in front of it.
    pub fn after(self, length: u16) -> Self {
        let header = self.header.saturating_sub(length);
        let checksum_start = self.checksum_start.saturating_sub(length);
        Preamble { header, checksum_start, ..self }
    }

    /// Returns the bytes of the preamble.
    pub fn bytes(self) -> [u8; PREAMBLE] {
        let mut bytes = [self.flags, self.kind, 0, 0, 0, 0, 0, 0, 0, 0];
        let numbers = [self.header, self.segment, self.checksum_start, self.checksum_offset];
        for (place, number) in bytes[2..].chunks_exact_mut(2).zip(numbers) {
            place.copy_from_slice(&number.to_ne_bytes());
        }
        bytes
    }
}

/// Protocol above IP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Transport {
    Tcp,
    Udp,
}

impl Transport {
    /// Its number in IP headers.
    fn number(self) -> u8 {
        match self {
            Transport::Tcp => 6,
            Transport::Udp => 17,
        }
    }

    /// Place of the checksum in its header.
    fn checksum(self) -> usize {
        match self {
            Transport::Tcp => 16,
            Transport::Udp => 6,
        }
    }
}

/// Headers of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Headers {
    is_6: bool,
    transport: Transport,
    /// Start of the transport header, and of the data, in bytes.
    start: usize,
    data: usize,
}

impl Headers {
    /// Returns the sum of the pseudo-header of a packet of this length (RFC 9293, section 3.1; RFC 8200, section 8.1),
    /// which contains the length of everything after the IP header.
    fn pseudo_sum(self, packet: &[u8], length: usize) -> Sum16BitWords {
        let addresses = if self.is_6 { 8..HEADER_6 } else { 12..HEADER_4 };
        let after = (length - self.start) as u32;
        let mut sum = Sum16BitWords::new().add_slice(&packet[addresses]);
        sum = sum.add_4bytes(after.to_be_bytes());
        sum.add_2bytes([0, self.transport.number()])
    }

    /// Writes the length of a packet into its headers, and the checksum of the IP header.
    fn set_lengths(self, packet: &mut [u8], length: usize) {
        if self.is_6 {
            put(packet, 4, (length - HEADER_6) as u16);
        } else {
            put(packet, 2, length as u16);
            put(packet, 10, 0);
            // The options end with the header, in units of four bytes.
            let header = 4 * usize::from(packet[0] & 0x0f);
            let sum = Sum16BitWords::new().add_slice(&packet[..header]);
            put(packet, 10, u16::from_be(sum.ones_complement()));
        }
        if self.transport == Transport::Udp {
            put(packet, self.start + 4, (length - self.start) as u16);
        }
    }

    /// Returns the sum of the pseudo-header, the transport header and the data.
    fn whole_sum(self, packet: &[u8]) -> Sum16BitWords {
        with_data(self.pseudo_sum(packet, packet.len()), &packet[self.start..])
    }

    /// Returns `true` if the checksums of the packet are right.
    fn has_right_checksums(self, packet: &[u8]) -> bool {
        let ip = || Sum16BitWords::new().add_slice(&packet[..HEADER_4]).ones_complement() == 0;
        (self.is_6 || ip()) && self.whole_sum(packet).ones_complement() == 0
    }

    /// Writes the checksum of the transport header.
    fn set_checksum(self, packet: &mut [u8]) {
        let place = self.start + self.transport.checksum();
        put(packet, place, 0);
        let sum = self.whole_sum(packet);
        let sum = match self.transport {
            Transport::Tcp => sum.ones_complement(),
            // Zero means no checksum (RFC 768).
            Transport::Udp => sum.to_ones_complement_with_no_zero(),
        };
        put(packet, place, u16::from_be(sum));
    }
}

/// Adds data to a sum: [`Sum16BitWords::add_slice`] in independent lanes, for which compilers use the vector
/// registers of the processor.
fn with_data(sum: Sum16BitWords, data: &[u8]) -> Sum16BitWords {
    let (blocks, rest) = data.as_chunks::<32>();
    let mut lanes = [0_u64; 8];
    for block in blocks {
        for (lane, word) in lanes.iter_mut().zip(block.as_chunks::<4>().0) {
            // It cannot overflow: a packet has at most 64 kB.
            *lane += u64::from(u32::from_ne_bytes(*word));
        }
    }
    // The words of a lane add up to it, modulo 2^16 - 1.
    let sum = lanes.iter().fold(sum, |mut sum, lane| sum.add_8bytes(lane.to_ne_bytes()));
    sum.add_slice(rest)
}

/// Reads a number of a header.
fn get(packet: &[u8], at: usize) -> u16 {
    u16::from_be_bytes([packet[at], packet[at + 1]])
}

/// Writes a number into a header.
fn put(packet: &mut [u8], at: usize, number: u16) {
    packet[at..at + 2].copy_from_slice(&number.to_be_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// The sum in lanes is that of the 16-bit words, also of odd lengths, and continues another sum.
        #[test]
        fn lanes_have_the_sum_of_the_words(
            data in prop::collection::vec(any::<u8>(), 0..2_000),
            before: [u8; 8],
        ) {
            let start = || Sum16BitWords::new().add_8bytes(before);
            let sums = [with_data(start(), &data), start().add_slice(&data)];
            prop_assert_eq!(sums[0].ones_complement(), sums[1].ones_complement());
        }
    }

    #[test]
    fn the_longest_packet_overflows_no_lane() {
        let data = [0xff; 65_536];
        assert_eq!(with_data(Sum16BitWords::new(), &data).ones_complement(), 0);
    }
}
