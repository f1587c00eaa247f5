//! Packets of a host that a TUN device has passed on with a preamble.

use super::joint::readable;
use super::{
    HEADER_4, HEADER_6, HEADER_TCP, HEADER_UDP, Headers, NEEDS_CHECKSUM, NO_SEGMENTS, PREAMBLE,
    Preamble, TCP_OVER_4, TCP_OVER_6, Transport, UDP, WITH_ECN, get, put, with_data,
};
use etherparse::checksum::Sum16BitWords;

/// Place of the flags in a TCP header, and FIN, PSH and CWR.
const FLAGS: usize = 13;
const FIN: u8 = 0x01;
const PSH: u8 = 0x08;
const CWR: u8 = 0x80;

/// Error of bytes that no kernel passes to a device: the preamble does not fit the packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the preamble of a packet contradicts the packet")]
pub struct Malformed;

/// The packets that a host sends with one write: a single one, or segments of up to 64 kB of data with
/// the same headers. All have a complete checksum.
///
/// Segments differ in lengths and checksums, and as follows, as with the segmentation of Linux (net/ipv4/
/// tcp_offload.c, udp_offload.c): the identification of IPv4 and the sequence number of TCP increase;
/// only the last segment carries FIN and PSH, only the first one CWR.
///
/// ```
/// use lasthop_live::offload::{PREAMBLE, Segments};
///
/// // A datagram of 4 B of data, with a complete header.
/// let packet = [
///     0x45, 0, 0, 32, 0, 0, 0x40, 0, 64, 17, 0, 0, 10, 71, 0, 1, 10, 71, 0, 2, // IPv4
///     0, 7, 0, 7, 0, 12, 0, 0, 1, 2, 3, 4, // UDP without a checksum
/// ];
/// let mut bytes = [&[0; PREAMBLE][..], &packet].concat();
/// let packets: Vec<_> = Segments::read(&mut bytes)?.collect();
/// assert_eq!(packets, [packet]);
/// # Ok::<(), lasthop_live::offload::Malformed>(())
/// ```
#[derive(Clone, Debug)]
pub struct Segments<'a> {
    packet: &'a [u8],
    /// Headers, and data per segment; `None`: a single packet.
    shape: Option<(Headers, usize)>,
    /// Start of the data of the next segment; the end of the packet after the last one.
    next: usize,
    /// Segments so far.
    count: u16,
    /// Whether the host has left the checksum to the device.
    is_partial: bool,
}

impl<'a> Segments<'a> {
    /// Reads a preamble and the packet after it, and completes the checksum of a single packet.
    ///
    /// # Errors
    /// If the bytes contain no preamble, or it does not fit the packet.
    pub fn read(bytes: &'a mut [u8]) -> Result<Self, Malformed> {
        let (preamble, packet) = bytes.split_first_chunk_mut::<PREAMBLE>().ok_or(Malformed)?;
        let preamble = Preamble::read(*preamble);
        if preamble.kind == NO_SEGMENTS {
            let is_partial = preamble.flags & NEEDS_CHECKSUM != 0;
            if is_partial {
                complete(preamble, packet)?;
            }
            return Ok(Segments { packet, shape: None, next: 0, count: 0, is_partial });
        }
        let headers = headers(preamble, packet)?;
        let segment = usize::from(preamble.segment);
        if segment == 0 || packet.len() <= headers.data {
            return Err(Malformed);
        }
        let shape = Some((headers, segment));
        Ok(Segments { packet, shape, next: headers.data, count: 0, is_partial: true })
    }

    /// Returns `false` if a packet that [`Joint`](super::Joint) may collect has a wrong checksum. That is
    /// rare: hosts leave checksums to a device with preambles.
    pub fn has_right_checksums(&self) -> bool {
        let is_right = |headers: Headers| headers.has_right_checksums(self.packet);
        self.is_partial || readable(self.packet).is_none_or(is_right)
    }

    fn segment(&self, headers: Headers, end: usize) -> Vec<u8> {
        let data = &self.packet[self.next..end];
        let mut packet = Vec::with_capacity(headers.data + data.len());
        packet.extend_from_slice(&self.packet[..headers.data]);
        packet.extend_from_slice(data);
        if !headers.is_6 {
            let identification = get(&packet, 4).wrapping_add(self.count);
            put(&mut packet, 4, identification);
        }
        if headers.transport == Transport::Tcp {
            let tcp = &mut packet[headers.start..];
            let ahead = (self.next - headers.data) as u32;
            let number = u32::from_be_bytes([tcp[4], tcp[5], tcp[6], tcp[7]]).wrapping_add(ahead);
            tcp[4..8].copy_from_slice(&number.to_be_bytes());
            if self.count > 0 {
                tcp[FLAGS] &= !CWR;
            }
            if end < self.packet.len() {
                tcp[FLAGS] &= !(FIN | PSH);
            }
        }
        headers.set_lengths(&mut packet, headers.data + data.len());
        headers.set_checksum(&mut packet);
        packet
    }
}

impl Iterator for Segments<'_> {
    type Item = Vec<u8>;

    fn next(&mut self) -> Option<Vec<u8>> {
        if self.next == self.packet.len() {
            return None;
        }
        let Some((headers, segment)) = self.shape else {
            self.next = self.packet.len();
            return Some(self.packet.to_vec());
        };
        let end = self.packet.len().min(self.next + segment);
        let packet = self.segment(headers, end);
        self.next = end;
        self.count += 1;
        Some(packet)
    }
}

/// Adds the sum of all bytes from `checksum_start` to the checksum of a packet.
fn complete(preamble: Preamble, packet: &mut [u8]) -> Result<(), Malformed> {
    let start = usize::from(preamble.checksum_start);
    let place = start + usize::from(preamble.checksum_offset);
    if packet.len() < place + 2 {
        return Err(Malformed);
    }
    // The field already contains the sum of the pseudo-header.
    let sum = with_data(Sum16BitWords::new(), &packet[start..]);
    put(packet, place, u16::from_be(sum.to_ones_complement_with_no_zero()));
    Ok(())
}

/// Returns the headers of a packet with several segments.
fn headers(preamble: Preamble, packet: &[u8]) -> Result<Headers, Malformed> {
    let version = packet.first().map(|first| first >> 4);
    let (is_6, transport) = match (preamble.kind & !WITH_ECN, version) {
        (TCP_OVER_4, Some(4)) => (false, Transport::Tcp),
        (TCP_OVER_6, Some(6)) => (true, Transport::Tcp),
        (UDP, Some(4)) => (false, Transport::Udp),
        (UDP, Some(6)) => (true, Transport::Udp),
        _ => return Err(Malformed),
    };
    // The kernel leaves the checksums of segments to the device, with their place.
    let start = usize::from(preamble.checksum_start);
    let fits = match is_6 {
        true => start >= HEADER_6,
        false => start >= HEADER_4 && start == 4 * usize::from(packet[0] & 0x0f),
    };
    let is_partial = preamble.flags & NEEDS_CHECKSUM != 0
        && usize::from(preamble.checksum_offset) == transport.checksum();
    let least = if transport == Transport::Tcp { HEADER_TCP } else { HEADER_UDP };
    if !fits || !is_partial || packet.len() < start + least {
        return Err(Malformed);
    }
    let length = match transport {
        Transport::Tcp => 4 * usize::from(packet[start + 12] >> 4),
        Transport::Udp => HEADER_UDP,
    };
    let is_whole = length >= least && start + length <= packet.len();
    is_whole.then_some(Headers { is_6, transport, start, data: start + length }).ok_or(Malformed)
}
