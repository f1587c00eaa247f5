//! The packet of the simulator.

use super::Payload;
use super::header::{Ecn, Extension, Header, TcpOptions, flags};
use crate::units::Instant;
use std::borrow::Borrow;

/// Bits of the connection instance; the bits above contain the copy ordinal.
const COPY_SHIFT: u32 = 24;

/// Highest number of a connection instance; the next one is 0.
pub const LAST_INCARNATION: u32 = (1 << COPY_SHIFT) - 1;

/// An IP packet in flight: 32 bytes plus the extension `X`.
#[derive(Copy, Debug, Default, PartialEq, Eq)]
pub struct Descriptor<X> {
    /// Position and direction of the packet and its next receiver: an index into the world's table
    /// of hops.
    pub hop: u32,
    /// Connection instance in the lower 24 bits, [copy ordinal](Self::copy) above. Packets of
    /// earlier instances are stale.
    pub incarnation: u32,
    /// Length in bytes, with the headers that the profile counts.
    pub bytes: u32,
    /// TCP header. Datagrams have none; they store the fields of [`Descriptor::datagram`] here.
    pub tcp: Header<X>,
}

/// Copies the descriptor as a whole; a derived implementation would copy field by field.
impl<X: Copy> Clone for Descriptor<X> {
    #[inline(always)]
    fn clone(&self) -> Self {
        *self
    }
}

/// A packet whose segment may have any TCP options.
pub type Packet = Descriptor<TcpOptions>;

/// Returns the two halves of a number, lower half first.
fn halves(number: u64) -> (u32, u32) {
    (number as u32, (number >> 32) as u32)
}

fn whole((low, high): (u32, u32)) -> u64 {
    u64::from(low) | u64::from(high) << 32
}

impl<X: Extension> Descriptor<X> {
    /// Creates a UDP datagram that carries its number and its transmission time, as RTP does (RFC
    /// 3550, section 5.1). Both are stored in the fields of the connection instance and the TCP
    /// header, so that the size of the descriptor does not grow. Read as a segment, it has no
    /// payload.
    pub fn datagram(hop: u32, bytes: u32, number: u64, sent_at: Instant) -> Self {
        let (seq, ack) = halves(number);
        let (incarnation, window) = halves(sent_at.as_nanos());
        Descriptor {
            hop,
            incarnation,
            bytes,
            tcp: Header { seq, ack, window, ..Header::default() },
        }
    }

    /// Returns the number of the link frame in which the packet arrived, if the descriptor [stores
    /// it](super::Watched).
    pub fn frame(&self) -> Option<u64> {
        self.tcp.options.frame()
    }

    /// Creates a packet of a transport other than TCP. `number` refers to its contents, for example
    /// its bytes in [`Buffers`](super::Buffers). Like [`Self::datagram`], but without a time.
    pub fn numbered(bytes: u32, number: u64) -> Self {
        let (seq, ack) = halves(number);
        Descriptor { bytes, tcp: Header { seq, ack, ..Header::default() }, ..Self::default() }
    }

    /// Returns the number of a [datagram](Self::datagram) within its flow, from 0, or of a
    /// [numbered](Self::numbered) packet.
    pub fn datagram_number(&self) -> u64 {
        whole((self.tcp.seq, self.tcp.ack))
    }

    /// Returns the transmission time of a datagram.
    pub fn datagram_sent_at(&self) -> Instant {
        Instant::from_nanos(whole((self.incarnation, self.tcp.window)))
    }

    /// Returns the connection instance of a segment.
    pub fn plain_incarnation(&self) -> u32 {
        self.incarnation & LAST_INCARNATION
    }

    /// Returns the ordinal of the segment among segments with equal bytes, in transmission order.
    /// The original has 0; the 255th copy and all later ones have 255.
    pub fn copy(&self) -> u8 {
        (self.incarnation >> COPY_SHIFT) as u8
    }

    /// Sets the copy ordinal. The copy is equal to its original in all other fields.
    pub fn set_copy(&mut self, ordinal: u8) {
        self.incarnation = self.plain_incarnation() | u32::from(ordinal) << COPY_SHIFT;
    }

    /// Returns the packet with room for all options, for inspectors of packets of any kind.
    pub fn full(&self) -> Packet {
        let Descriptor { hop, incarnation, bytes, tcp } = *self;
        Descriptor { hop, incarnation, bytes, tcp: *tcp.full().borrow() }
    }
}

impl<X: Extension> Payload for Descriptor<X> {
    #[inline]
    fn wire_bytes(&self) -> u32 {
        self.bytes
    }

    /// Combines the fields of two descriptors, which represent the bytes. The length is that of the
    /// longer packet.
    fn xor(&mut self, other: &Self) {
        self.hop ^= other.hop;
        self.incarnation ^= other.incarnation;
        self.bytes = self.bytes.max(other.bytes);
        self.tcp.xor(&other.tcp);
    }

    fn truncate(&mut self, bytes: u32) {
        self.bytes = self.bytes.min(bytes);
    }

    /// Returns the descriptor with the length of the slice.
    fn slice(&self, _from: u32, bytes: u32) -> Self {
        Descriptor { bytes, ..*self }
    }

    fn append(&mut self, next: &Self) {
        self.bytes += next.bytes;
        if let Some(number) = next.tcp.options.frame() {
            self.keep_frame(number);
        }
    }

    #[inline(always)]
    fn keep_frame(&mut self, number: u64) {
        self.tcp.options.keep_frame(number);
    }

    /// Returns the hop, which no other flow or direction uses.
    fn flow(&self) -> u64 {
        self.hop.into()
    }

    fn is_out(&self) -> bool {
        self.tcp.flags & flags::OUT != 0 && self.tcp.payload > 0
    }

    fn is_l4s(&self) -> bool {
        self.tcp.ecn.is_l4s()
    }

    fn mark_congestion(&mut self) -> bool {
        let knows = self.tcp.ecn.is_capable();
        self.tcp.ecn = if knows { Ecn::Ce } else { Ecn::NotEct };
        knows
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::packet::{TcpHeader, Watched};

    #[test]
    fn packets_stay_small() {
        // Descriptors are copied on the hot path. The timestamps flag makes an option of one byte
        // free.
        assert_eq!([size_of::<Descriptor<()>>(), size_of::<Packet>()], [32, 64]);
        assert_eq!([size_of::<Option<Descriptor<()>>>(), size_of::<Option<Packet>>()], [32, 64]);
    }

    #[test]
    fn a_header_without_options_needs_no_room_for_them() {
        let plain = TcpHeader {
            seq: 7,
            ack: 1,
            payload: 50,
            window: 9,
            flags: 3,
            ecn: Ecn::Ce,
            ..TcpHeader::default()
        };
        let narrow = <()>::narrow(&plain);
        assert_eq!(*narrow.full().borrow(), plain);
        assert_eq!(TcpOptions::narrow(&plain), plain);
        let stamped =
            TcpHeader { has_timestamps: true, options: TcpOptions::stamps(1, 2), ..plain };
        let mut selective = plain;
        selective.set_sack_blocks(&[(100, 200)]);
        for header in [stamped, selective] {
            assert_eq!(*TcpOptions::narrow(&header).full().borrow(), header);
            let lost = std::panic::catch_unwind(|| <()>::narrow(&header));
            assert!(lost.is_err(), "options are never dropped without a word");
        }
    }

    #[test]
    fn a_watched_packet_knows_the_frame_in_which_it_came() {
        let of = |frame: Option<u64>| {
            let mut packet = Descriptor::<Watched>::datagram(0, 100, 7, Instant::ZERO);
            frame.into_iter().for_each(|number| packet.keep_frame(number));
            packet
        };
        let mut whole = of(Some(3));
        assert_eq!(of(None).tcp.options.frame(), None);
        // The frame of the last slice is kept; equality of descriptors ignores it.
        whole.append(&of(Some(4)));
        assert_eq!((whole.tcp.options.frame(), whole.bytes), (Some(4), 200));
        assert_eq!(of(Some(3)).full(), of(None).full());
        // A packet computed from parity is not contained in a frame.
        let mut parity = of(None);
        parity.xor(&of(Some(5)));
        assert_eq!(parity.tcp.options.frame(), None);
        let mut plain = Packet::default();
        plain.keep_frame(3);
        assert_eq!(plain.tcp.options.frame(), None);
    }

    #[test]
    fn a_descriptor_is_marked_if_its_transport_knows_ecn() {
        for bits in 0..4 {
            let ecn = Ecn::from_bits(bits);
            let mut packet = Packet::default();
            packet.tcp.ecn = ecn;
            assert_eq!(packet.mark_congestion(), bits != 0);
            assert_eq!(packet.tcp.ecn, if bits == 0 { Ecn::NotEct } else { Ecn::Ce });
            assert_eq!(ecn.bits(), bits);
            // ECT(1) and CE, in a descriptor and in IPv4 and IPv6 headers.
            let bytes = [vec![0x45, 0x80 | bits], vec![0x60, bits << 4], vec![bits; 2]];
            assert_eq!(ecn.is_l4s(), bits & 1 == 1);
            assert_eq!(bytes.map(|bytes| bytes.is_l4s()), [bits & 1 == 1, bits & 1 == 1, false]);
        }
    }

    #[test]
    fn datagrams_carry_number_and_time() {
        let (number, sent_at) = (0x1_2345_6789, Instant::from_nanos(0xab_cdef_0123));
        let datagram = Packet::datagram(3, 50, number, sent_at);
        assert_eq!((datagram.hop, datagram.wire_bytes()), (3, 50));
        assert_eq!((datagram.datagram_number(), datagram.datagram_sent_at()), (number, sent_at));
    }

    #[test]
    fn parity_gives_a_missing_packet_back() {
        let tcp = TcpHeader {
            seq: 7,
            ack: 1,
            payload: 50,
            window: 9,
            flags: flags::ACK | flags::ECE,
            ecn: Ecn::Ect0,
            sack_blocks: 1,
            has_timestamps: true,
            options: TcpOptions { sack: [(3, 4), (0, 0), (0, 0)], timestamps: (5, 6) },
        };
        let short = Packet { hop: 1, incarnation: 2, bytes: 40, tcp: TcpHeader::default() };
        let long = Packet { hop: 3, incarnation: 1, bytes: 90, tcp };
        let mut parity = short;
        parity.xor(&long);
        for (missing, other) in [(short, long), (long, short)] {
            let mut found = parity;
            found.xor(&other);
            found.truncate(missing.bytes);
            assert_eq!(found, missing);
        }
        let (short, long) = (vec![1u8, 2], vec![3u8, 4, 5]);
        let mut parity = short.clone();
        parity.xor(&long);
        assert_eq!(parity, [2, 6, 5]);
        parity.xor(&long);
        Payload::truncate(&mut parity, 2);
        assert_eq!(parity, short);
    }
}
