//! Packets for a host that are written to its TUN device together.

use super::{
    HEADER_4, HEADER_6, HEADER_TCP, HEADER_UDP, Headers, NEAR, NEEDS_CHECKSUM, PREAMBLE, Preamble,
    TCP_OVER_4, TCP_OVER_6, Transport, UDP, get, put,
};
use lasthop_base::units::Duration;

/// Maximum number of packets that are written together.
pub const MOST_PACKETS: usize = 64;

/// Maximum length of an IP packet, in bytes.
const MOST_BYTES: usize = 65_535;

/// Maximum length of a preamble and headers, in bytes.
pub const MOST_HEAD: usize = PREAMBLE + 60 + 60;

/// Place of the flags in a TCP header, and PSH, ACK and ECE.
const FLAGS: usize = 13;
const PSH: u8 = 0x08;
const ACK: u8 = 0x10;
const ECE: u8 = 0x40;

/// Consecutive packets of a flow that a device accepts with one write, such that
/// [`Segments`](super::Segments) makes the same packets of it. The conditions are those of generic
/// receive offload in Linux (net/ipv4/tcp_offload.c, `tcp_gro_receive`, and udp_offload.c): data of equal
/// length except for the last packet, and equal headers except for the sequence number, which increases by
/// the length, PSH, which ends the packets, and checksums, which must be right. Identifications of
/// IPv4 increase by one, unless fragmentation is forbidden, when they have no meaning (RFC 6864, section 4.1).
#[derive(Clone, Debug, Default)]
pub struct Joint {
    /// Headers of the first packet; `None`: no packet can follow.
    headers: Option<Headers>,
    /// Data of the first packet, and of all, in bytes.
    size: usize,
    total: usize,
    count: usize,
    /// Whether the last packet ends the data.
    is_closed: bool,
    /// Whether checksums can be wrong.
    verifies: bool,
}

impl Joint {
    /// Starts with this packet. `verifies`: whether the checksums of packets can be wrong and have to
    /// be computed.
    pub fn start(&mut self, first: &[u8], verifies: bool) {
        let headers = readable(first);
        let size = headers.map_or(0, |headers| first.len() - headers.data);
        let is_closed = headers.is_none_or(|headers| has_push(headers, first));
        *self = Joint { headers, size, total: size, count: 1, is_closed, verifies };
    }

    /// Adds a packet, which the link delivers this time after the packet before, if it continues
    /// `first`, the packet of [`Self::start`]; otherwise returns `false`. Packets with more than 25 µs
    /// between them are written separately, even if the driver is late and both are due.
    pub fn add(&mut self, first: &[u8], packet: &[u8], after: Duration) -> bool {
        let Some(headers) = self.headers.filter(|_| !self.is_closed) else { return false };
        if after > NEAR || readable(packet) != Some(headers) {
            return false;
        }
        let size = packet.len() - headers.data;
        let fits = size <= self.size
            && self.count < MOST_PACKETS
            && headers.data + self.total + size <= MOST_BYTES;
        let is_next = || self.continues(headers, first, packet);
        // The first packet is checked only if there is a second one.
        let is_right = || {
            !self.verifies
                || (self.count > 1 || headers.has_right_checksums(first))
                    && headers.has_right_checksums(packet)
        };
        if !fits || !is_next() || !is_right() {
            return false;
        }
        self.is_closed = size < self.size || has_push(headers, packet);
        self.total += size;
        self.count += 1;
        true
    }

    /// Returns `true` if the headers of `packet` are those of the packet after the ones so far.
    fn continues(&self, headers: Headers, first: &[u8], packet: &[u8]) -> bool {
        let same = |from: usize, to: usize| first[from..to] == packet[from..to];
        let is_same_way = if headers.is_6 {
            // All but the payload length.
            same(0, 4) && same(6, HEADER_6)
        } else {
            let forbids_fragments = first[6] & 0x40 != 0;
            let next = get(first, 4).wrapping_add(self.count as u16);
            same(0, 2)
                && same(6, 10)
                && same(12, HEADER_4)
                && (forbids_fragments || get(packet, 4) == next)
        };
        let start = headers.start;
        is_same_way
            && same(start, start + 4)
            && match headers.transport {
                Transport::Udp => true,
                Transport::Tcp => {
                    let number = |packet: &[u8]| {
                        let [a, b] = [get(packet, start + 4), get(packet, start + 6)];
                        u32::from(a) << 16 | u32::from(b)
                    };
                    let flags = start + FLAGS;
                    number(packet) == number(first).wrapping_add(self.total as u32)
                        && same(start + 8, flags)
                        && (first[flags] ^ packet[flags]) & !PSH == 0
                        && same(flags + 1, start + Transport::Tcp.checksum())
                        && same(start + 18, headers.data)
                }
            }
    }

    /// Returns the preamble and the headers of all packets, which the data of the packets follow.
    pub fn head<'a>(
        &self,
        first: &[u8],
        last: &[u8],
        room: &'a mut [u8; MOST_HEAD],
    ) -> Option<&'a [u8]> {
        let headers = self.headers?;
        let Headers { is_6, transport, start, data } = headers;
        let kind = match (transport, is_6) {
            (Transport::Tcp, false) => TCP_OVER_4,
            (Transport::Tcp, true) => TCP_OVER_6,
            (Transport::Udp, _) => UDP,
        };
        let preamble = Preamble {
            flags: NEEDS_CHECKSUM,
            kind,
            header: data as u16,
            segment: self.size as u16,
            checksum_start: start as u16,
            checksum_offset: transport.checksum() as u16,
        };
        let (own, rest) = room.split_first_chunk_mut::<PREAMBLE>()?;
        *own = preamble.bytes();
        let packet = &mut rest[..data];
        packet.copy_from_slice(&first[..data]);
        if has_push(headers, last) {
            packet[start + FLAGS] |= PSH;
        }
        let length = data + self.total;
        headers.set_lengths(packet, length);
        // The device adds the sum of the data.
        let sum = headers.pseudo_sum(packet, length).ones_complement();
        put(packet, start + transport.checksum(), !u16::from_be(sum));
        Some(&room[..PREAMBLE + data])
    }

    /// Returns the data of one of the packets.
    pub fn data<'a>(&self, packet: &'a [u8]) -> &'a [u8] {
        self.headers.map_or(packet, |headers| &packet[headers.data..])
    }
}

fn has_push(headers: Headers, packet: &[u8]) -> bool {
    headers.transport == Transport::Tcp && packet[headers.start + FLAGS] & PSH != 0
}

/// Returns the headers of a packet with data that other packets may continue.
pub(super) fn readable(packet: &[u8]) -> Option<Headers> {
    let first = *packet.first()?;
    let is_6 = first >> 4 == 6;
    let start = if is_6 { HEADER_6 } else { HEADER_4 };
    if packet.len() < start + HEADER_UDP {
        return None;
    }
    let (length, protocol) = match is_6 {
        true => (HEADER_6 + usize::from(get(packet, 4)), packet[6]),
        false => (usize::from(get(packet, 2)), packet[9]),
    };
    // Neither options nor fragments.
    let is_plain = is_6 || (first == 0x45 && get(packet, 6) & 0x3fff == 0);
    if length != packet.len() || !is_plain {
        return None;
    }
    let (transport, header) = if protocol == Transport::Tcp.number() {
        if packet.len() < start + HEADER_TCP || packet[start + FLAGS] & !(PSH | ECE) != ACK {
            return None;
        }
        (Transport::Tcp, 4 * usize::from(packet[start + 12] >> 4))
    } else if protocol == Transport::Udp.number() {
        // Zero means no checksum.
        if usize::from(get(packet, start + 4)) != length - start || get(packet, start + 6) == 0 {
            return None;
        }
        (Transport::Udp, HEADER_UDP)
    } else {
        return None;
    };
    let least = if transport == Transport::Tcp { HEADER_TCP } else { HEADER_UDP };
    let data = start + header;
    (header >= least && data < packet.len()).then_some(Headers { is_6, transport, start, data })
}
