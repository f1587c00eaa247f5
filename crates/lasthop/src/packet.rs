//! What travels: a small `Copy` descriptor of an IP packet, without payload bytes.

use crate::coding::{CodedUnits, ReedSolomon};
use crate::units::Instant;

/// What a frame can carry: a descriptor in the simulator, real bytes on a live link.
pub trait Payload {
    /// Length of the packet in bytes, as the link layer sees it.
    fn wire_bytes(&self) -> u32;

    /// Exclusive or with another packet, the shorter one padded with zeros: what parity is made
    /// of. Twice the same packet cancels out, but for the padding: see [`Self::truncate`].
    fn xor(&mut self, other: &Self);

    /// Cuts the padding off: the packet is `bytes` long, at most what it is now.
    fn truncate(&mut self, bytes: u32);

    /// The piece of `bytes` bytes that begins at byte `from`: what a link that cuts packets up
    /// puts into one frame. The piece lies within the packet.
    fn slice(&self, from: u32, bytes: u32) -> Self;

    /// Puts the next piece behind this one.
    fn append(&mut self, next: &Self);

    /// The units of an erasure code that a frame carries of this packet. A descriptor stands for them, as
    /// they are counted.
    fn code_units(&self, _units: &CodedUnits) -> Self
    where
        Self: Clone,
    {
        self.clone()
    }

    /// Adds what has `arrived` of a frame's units to what is `held` of their block: the i-th if bit i of
    /// `new` is set.
    fn gather_units(held: &mut Option<Self>, arrived: Self, _units: &CodedUnits, _new: u64)
    where
        Self: Sized,
    {
        *held = Some(arrived);
    }

    /// The packet, from the `held` units of its block, at least as many as it has data units. None if
    /// they do not fit together.
    fn decode_units(self, _units: &CodedUnits, _held: u16) -> Option<Self>
    where
        Self: Sized,
    {
        Some(self)
    }

    /// Sets the mark that says that a queue is congested (CE of RFC 3168); false if its transport does
    /// not know the mark, and it must be dropped instead.
    fn mark_congestion(&mut self) -> bool {
        false
    }

    /// Does its ECN field ask for the treatment of L4S (RFC 9331): ECT(1), or CE?
    fn is_l4s(&self) -> bool {
        false
    }

    /// Has its sender marked it as one to be dropped before others ("out"; drop precedences of RFC 2597)?
    fn is_out(&self) -> bool {
        false
    }

    /// What packets of its flow share and those of others, most probably, do not: how a queue for each flow
    /// tells them apart.
    fn flow(&self) -> u64 {
        0
    }

    /// Its traffic class, the DS code point of RFC 2474, 0 to 63: 0 is best effort.
    fn class(&self) -> u8 {
        0
    }
}

impl Payload for Vec<u8> {
    fn wire_bytes(&self) -> u32 {
        self.len() as u32
    }

    fn xor(&mut self, other: &Self) {
        if self.len() < other.len() {
            self.resize(other.len(), 0);
        }
        for (byte, other) in self.iter_mut().zip(other) {
            *byte ^= other;
        }
    }

    fn truncate(&mut self, bytes: u32) {
        Vec::truncate(self, bytes as usize);
    }

    fn slice(&self, from: u32, bytes: u32) -> Self {
        self[from as usize..(from + bytes) as usize].to_vec()
    }

    fn append(&mut self, next: &Self) {
        self.extend_from_slice(next);
    }

    /// All units of the frame, one after the other.
    fn code_units(&self, units: &CodedUnits) -> Self {
        let length = units.unit_bytes(self.wire_bytes()) as usize;
        let mut data = self.clone();
        data.resize(length * usize::from(units.data), 0);
        let pieces: Vec<&[u8]> = data.chunks_exact(length.max(1)).collect();
        let mut coder = ReedSolomon::new();
        let mut coded = vec![0; length * usize::from(units.units)];
        for (place, unit) in (0..units.units).zip(coded.chunks_exact_mut(length.max(1))) {
            let number = units.number(place);
            match pieces.get(usize::from(number)) {
                Some(piece) => unit.copy_from_slice(piece),
                None => coder.parity(&pieces, number, unit),
            }
        }
        coded
    }

    /// What is held is the number of each unit, and then the unit.
    fn gather_units(held: &mut Option<Self>, arrived: Self, units: &CodedUnits, new: u64) {
        let held = held.get_or_insert_default();
        let length = arrived.len() / usize::from(units.units.max(1));
        for (place, unit) in (0..units.units).zip(arrived.chunks_exact(length.max(1))) {
            if new >> place & 1 == 1 {
                held.push(units.number(place));
                held.extend_from_slice(unit);
            }
        }
    }

    fn decode_units(self, units: &CodedUnits, held: u16) -> Option<Self> {
        let length = self.len().checked_div(usize::from(held)).filter(|&length| length > 0)?;
        let received: Vec<(u8, &[u8])> = self
            .chunks_exact(length)
            .filter_map(|unit| unit.split_first().map(|(&number, unit)| (number, unit)))
            .collect();
        let mut packet = Vec::new();
        ReedSolomon::new().decode(units.data, &received, &mut packet).ok()?;
        packet.truncate(packet.len().saturating_sub(usize::from(units.padding)));
        Some(packet)
    }

    fn is_l4s(&self) -> bool {
        match self.as_slice() {
            [version, traffic, ..] if *version >> 4 == 4 => Ecn::from_bits(*traffic).is_l4s(),
            [version, traffic, ..] if *version >> 4 == 6 => Ecn::from_bits(*traffic >> 4).is_l4s(),
            _ => false,
        }
    }

    /// In the header of IPv4, whose checksum is updated (RFC 1624), or IPv6.
    fn mark_congestion(&mut self) -> bool {
        match self.as_mut_slice() {
            [version, traffic, rest @ ..] if *version >> 4 == 4 && rest.len() >= 18 => {
                if *traffic & 3 == 0 {
                    return false;
                }
                let added = u32::from(3 - (*traffic & 3));
                *traffic |= 3;
                // HC' = ~(~HC + ~m + m'): the checksum falls by what its word has grown, end around.
                let checksum = u32::from(u16::from_be_bytes([rest[8], rest[9]]));
                let sum = u32::from(!(checksum as u16)) + added;
                let sum = (sum & 0xffff) + (sum >> 16);
                [rest[8], rest[9]] = (!(sum as u16)).to_be_bytes();
                true
            }
            [version, traffic, ..] if *version >> 4 == 6 => {
                let knows = *traffic & 0x30 != 0;
                *traffic |= if knows { 0x30 } else { 0 };
                knows
            }
            _ => false,
        }
    }

    /// The second and third drop precedence of an assured class.
    fn is_out(&self) -> bool {
        let class = self.class();
        (10..=38).contains(&class) && class & 6 > 2
    }

    /// A hash of addresses, protocol and, of what has them, ports in an IPv4 or IPv6 header; 0 for anything
    /// else. Fragments, and packets with extension headers of IPv6, go by their addresses and protocol.
    fn flow(&self) -> u64 {
        /// TCP, DCCP, UDP, SCTP and UDP-Lite (IANA), whose headers begin with the ports.
        const WITH_PORTS: [u8; 5] = [6, 33, 17, 132, 136];
        let (addresses, protocol, ports) = match *self.as_slice() {
            [version, ..] if version >> 4 == 4 && self.len() >= 20 => {
                let is_fragment = self[6] & 0x3f != 0 || self[7] != 0;
                let ports = (!is_fragment).then_some(usize::from(version & 0xf) * 4);
                (&self[12..20], self[9], ports)
            }
            [version, ..] if version >> 4 == 6 && self.len() >= 40 => {
                (&self[8..40], self[6], Some(40))
            }
            _ => return 0,
        };
        let ports = ports
            .filter(|_| WITH_PORTS.contains(&protocol))
            .and_then(|from| self.get(from..from + 4))
            .unwrap_or_default();
        // FNV-1a.
        addresses
            .iter()
            .chain([&protocol])
            .chain(ports)
            .fold(0xcbf2_9ce4_8422_2325, |hash, &byte| {
                (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3)
            })
    }

    /// From the first two bytes of an IPv4 or IPv6 header; 0 for anything else.
    fn class(&self) -> u8 {
        match *self.as_slice() {
            [version, traffic, ..] if version >> 4 == 4 => traffic >> 2,
            [version, traffic, ..] if version >> 4 == 6 => (version & 0xf) << 2 | traffic >> 6,
            _ => 0,
        }
    }
}

/// Number of SACK blocks that an ACK carries at most: 40 bytes of options hold 4 of them, or 3 beside
/// the timestamps option (RFC 2018, section 3).
pub const MAX_SACK_BLOCKS: usize = 4;

/// The number of SACK blocks beside the timestamps option.
pub const MAX_SACK_BLOCKS_WITH_TIMESTAMPS: usize = 3;

/// The ECN field of an IP header (RFC 3168, section 5), by its codepoints.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Ecn {
    /// The transport does not know ECN: a congested queue drops the packet.
    #[default]
    NotEct = 0,
    /// ECN-capable transport that asks for the treatment of L4S (RFC 9331).
    Ect1 = 1,
    /// ECN-capable transport.
    Ect0 = 2,
    /// A queue on the way is congested.
    Ce = 3,
}

impl Ecn {
    /// From the two bits of the field; higher bits are ignored.
    pub const fn from_bits(bits: u8) -> Self {
        match bits & 3 {
            0 => Ecn::NotEct,
            1 => Ecn::Ect1,
            2 => Ecn::Ect0,
            _ => Ecn::Ce,
        }
    }

    /// The two bits of the field.
    pub const fn bits(self) -> u8 {
        self as u8
    }

    /// May a queue mark the packet instead of dropping it?
    pub const fn is_capable(self) -> bool {
        !matches!(self, Ecn::NotEct)
    }

    /// Does a queue treat the packet as one of L4S (RFC 9331, section 5.1)? One that is marked already may be.
    pub const fn is_l4s(self) -> bool {
        matches!(self, Ecn::Ect1 | Ecn::Ce)
    }
}

/// A TCP header. Sequence and acknowledgment numbers are the 32-bit numbers of RFC 9293, starting
/// from 0; machines unwrap them to 64 bits at the door.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TcpHeader {
    /// Sequence number of the first payload byte (or of the SYN or FIN).
    pub seq: u32,
    /// Cumulative acknowledgment: the next byte expected.
    pub ack: u32,
    /// Payload bytes.
    pub payload: u32,
    /// Advertised receive window in bytes (after scaling, RFC 7323).
    pub window: u32,
    /// Flag bits of RFC 9293, see [`flags`].
    pub flags: u8,
    /// ECN field of the IP header around it, which TCP sets and reads together with its own.
    pub ecn: Ecn,
    /// Number of SACK blocks, see [`Self::sack_blocks`].
    pub sack_blocks: u8,
    /// Is the timestamps option present (RFC 7323)?
    pub has_timestamps: bool,
    /// The first SACK blocks [left, right), most recently received first (RFC 2018).
    pub sack: [(u32, u32); MAX_SACK_BLOCKS_WITH_TIMESTAMPS],
    /// Timestamp value and echo reply in clock ticks (RFC 7323). Without the option the fourth SACK
    /// block stands here, as the two exclude each other on the wire.
    pub timestamps: (u32, u32),
}

impl TcpHeader {
    /// Does it acknowledge, and do nothing else: no payload, SACK block, timestamp or other flag?
    #[inline(always)]
    pub fn is_plain_ack(&self) -> bool {
        // One comparison.
        let marks = [self.flags, self.sack_blocks, self.ecn as u8, u8::from(self.has_timestamps)];
        let looks = u32::from_le_bytes(marks) & 0xff00_ffff;
        self.payload == 0 && looks == u32::from(flags::ACK)
    }

    /// Does it end data that should be handed up at once ([`flags::PSH`])?
    pub fn is_pushed(&self) -> bool {
        self.payload > 0 && self.flags & flags::NOTICE == flags::PSH
    }

    /// All SACK blocks; the first `self.sack_blocks` entries are valid.
    pub fn sack_blocks(&self) -> [(u32, u32); MAX_SACK_BLOCKS] {
        let [first, second, third] = self.sack;
        [first, second, third, self.timestamps]
    }

    /// Puts SACK blocks in place of those that the header has. A fourth one needs a header without
    /// timestamps.
    pub fn set_sack_blocks(&mut self, blocks: &[(u32, u32)]) {
        debug_assert!(blocks.len() <= MAX_SACK_BLOCKS, "at most four SACK blocks");
        self.sack_blocks = blocks.len() as u8;
        for (place, &block) in self.sack.iter_mut().zip(blocks) {
            *place = block;
        }
        if let Some(&fourth) = blocks.get(MAX_SACK_BLOCKS_WITH_TIMESTAMPS) {
            debug_assert!(!self.has_timestamps, "three SACK blocks beside timestamps");
            self.timestamps = fourth;
        }
    }

    fn xor(&mut self, other: &Self) {
        self.seq ^= other.seq;
        self.ack ^= other.ack;
        self.payload ^= other.payload;
        self.window ^= other.window;
        self.flags ^= other.flags;
        self.ecn = Ecn::from_bits(self.ecn.bits() ^ other.ecn.bits());
        self.sack_blocks ^= other.sack_blocks;
        self.has_timestamps ^= other.has_timestamps;
        for (block, other) in self.sack.iter_mut().zip(&other.sack) {
            *block = (block.0 ^ other.0, block.1 ^ other.1);
        }
        self.timestamps.0 ^= other.timestamps.0;
        self.timestamps.1 ^= other.timestamps.1;
    }
}

/// TCP flag bits (RFC 9293, section 3.1).
pub mod flags {
    /// No more data from the sender.
    pub const FIN: u8 = 0x01;
    /// Synchronize sequence numbers.
    pub const SYN: u8 = 0x02;
    /// Reset the connection.
    pub const RST: u8 = 0x04;
    /// A retransmission of a link has started, see [`NOTICE`].
    pub const ERSN: u8 = 0x08;
    /// In a segment with data: the receiver should hand them up at once, as they end what a Linux host sends in one
    /// piece. In memory it is the bit of [`ERSN`], which stands in segments without data.
    pub const PSH: u8 = ERSN;
    /// In a segment with data or FIN, and in memory only: the first one sent again after a timeout. A simulated connection, which
    /// knows no resets, finds out by it whether the timeout was a mistake.
    pub const AFTER_TIMEOUT: u8 = RST;
    /// The acknowledgment field is significant.
    pub const ACK: u8 = 0x10;
    /// A link has lost a segment, see [`NOTICE`].
    pub const ELN: u8 = 0x20;
    /// Both bits of explicit notification (Yun 2009, section 3.1). Alone, each makes a message of what has
    /// the format of an ACK, whose acknowledgment number is that of the first byte of the segment that it
    /// is about; together they mark a genuine ACK: the segment that it asks for was lost on a link. On the
    /// wire they are the second and third of the four reserved bits ([`NOTICE_ON_WIRE`]); in memory they stand
    /// where PSH and URG would.
    pub const NOTICE: u8 = ERSN | ELN;
    /// Of a segment with data: it is one to be dropped before others ([`is_out`](super::Payload::is_out)). It stands in
    /// memory where [`ERSN`] does, which data never carry; on the wire it would be a drop precedence of RFC 2597.
    pub const OUT: u8 = ERSN;
    /// Where [`ERSN`] and [`ELN`] stand in the byte of the data offset.
    pub const NOTICE_ON_WIRE: [u8; 2] = [0x02, 0x04];
    /// Echo of congestion experienced (RFC 3168, section 6.1).
    pub const ECE: u8 = 0x40;
    /// The congestion window has been reduced (RFC 3168, section 6.1).
    pub const CWR: u8 = 0x80;
}

/// What a link layer that acknowledges frames reports of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LinkFate {
    /// Its first transmission failed, and it is going to be sent again.
    Retrying,
    /// The other end has acknowledged it.
    Acknowledged,
    /// It was given up.
    Abandoned,
}

/// An IP packet in flight.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Packet {
    /// Where it is on which way, and who waits for it: an index into the world's table of hops.
    pub hop: u32,
    /// Incarnation of the connection; packets of earlier ones are stale.
    pub incarnation: u32,
    /// Length in bytes, headers included as far as the profile charges them.
    pub bytes: u32,
    /// TCP header. A datagram has none: its place holds what [`Packet::datagram`] says.
    pub tcp: TcpHeader,
}

/// The two halves of a number, low half first.
fn halves(number: u64) -> (u32, u32) {
    (number as u32, (number >> 32) as u32)
}

fn whole((low, high): (u32, u32)) -> u64 {
    u64::from(low) | u64::from(high) << 32
}

impl Packet {
    /// A UDP datagram that carries its number and the time when it was sent, as RTP does
    /// (RFC 3550, section 5.1); both stand where a segment has its TCP header, so that the
    /// descriptor stays as small as it is.
    pub fn datagram(hop: u32, bytes: u32, number: u64, sent_at: Instant) -> Self {
        let (seq, ack) = halves(number);
        let timestamps = halves(sent_at.as_nanos());
        let tcp = TcpHeader { seq, ack, timestamps, ..TcpHeader::default() };
        Packet { hop, bytes, tcp, ..Packet::default() }
    }

    /// Number of a datagram within its flow; the first is 0.
    pub fn datagram_number(&self) -> u64 {
        whole((self.tcp.seq, self.tcp.ack))
    }

    /// When a datagram was sent.
    pub fn datagram_sent_at(&self) -> Instant {
        Instant::from_nanos(whole(self.tcp.timestamps))
    }
}

impl Payload for Packet {
    #[inline]
    fn wire_bytes(&self) -> u32 {
        self.bytes
    }

    /// The descriptor stands for the bytes: its fields are combined, and its length is that of the
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

    /// A piece is the descriptor with the piece's length.
    fn slice(&self, _from: u32, bytes: u32) -> Self {
        Packet { bytes, ..*self }
    }

    fn append(&mut self, next: &Self) {
        self.bytes += next.bytes;
    }

    /// The hop: no two flows, and no two directions of one, share it.
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
    use crate::link::Frame;

    #[test]
    fn frames_stay_small() {
        // They are copied on the hot path; the timestamps flag makes `Option<Packet>` cost nothing.
        assert_eq!(size_of::<Packet>(), 64);
        assert_eq!(size_of::<Option<Packet>>(), 64);
        assert_eq!(size_of::<Frame<Packet>>(), 120);
    }

    #[test]
    fn the_class_of_real_bytes_is_their_ds_code_point() {
        // Expedited forwarding is 46, a DS field of 0xb8.
        assert_eq!(vec![0x45u8, 0xb8, 0, 20].class(), 46);
        assert_eq!(vec![0x6bu8, 0x80, 0, 0].class(), 46);
        assert_eq!(vec![0x45u8, 0x03].class(), 0, "the congestion bits are no class");
        assert_eq!([vec![], vec![0x45u8], vec![0x15, 0xb8]].map(|bytes| bytes.class()), [0; 3]);
    }

    #[test]
    fn flows_of_real_bytes_are_told_by_addresses_protocol_and_ports() {
        let of = |protocol: u8, fragment: u8, host: u8, port: u8| {
            let mut packet = vec![0x45, 0, 0, 24, 0, 0, 0, fragment, 64, protocol];
            packet.extend([0, 0, 10, 0, 0, 1, 10, 0, 0, host, 0, port, 0, 80]);
            packet.flow()
        };
        let flow = of(6, 0, 2, 1);
        assert_eq!(of(6, 0, 2, 1), flow);
        for other in [of(17, 0, 2, 1), of(6, 0, 3, 1), of(6, 0, 2, 2)] {
            assert_ne!(other, flow);
        }
        // What stands there in a fragment, and in ICMP, are no ports.
        assert_eq!(of(6, 9, 2, 1), of(6, 9, 2, 2));
        assert_eq!(of(1, 0, 2, 1), of(1, 0, 2, 2));
        let six = |port: u8| {
            let mut packet = vec![0; 44];
            (packet[0], packet[6], packet[41]) = (0x60, 17, port);
            packet.flow()
        };
        assert_ne!(six(1), six(2));
        // Too short, no IP, options beyond the end.
        assert_eq!([vec![], vec![0x45; 19], vec![0x15; 60]].map(|bytes| bytes.flow()), [0; 3]);
        assert_ne!(vec![0x4f; 20].flow(), 0);
    }

    #[test]
    fn drop_precedence_of_real_bytes() {
        // AF11, AF12, AF13, AF43; expedited forwarding, best effort.
        let of = |class: u8| vec![0x45, class << 2].is_out();
        assert_eq!([10, 12, 14, 38, 46, 0].map(of), [false, true, true, true, false, false]);
    }

    #[test]
    fn a_congestion_mark_keeps_the_checksum_right() {
        let sum = |header: &[u8]| {
            let words = header.chunks(2).map(|word| u32::from(word[0]) << 8 | u32::from(word[1]));
            let sum: u32 = words.sum();
            (sum & 0xffff) + (sum >> 16)
        };
        for (class, expected) in
            [(0, None), (1, Some(3)), (2, Some(3)), (0xb9, Some(0xbb)), (3, Some(3))]
        {
            let mut header =
                vec![0x45, class, 0, 40, 1, 2, 0, 0, 64, 6, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2];
            let checksum = !(sum(&header) as u16);
            header[10..12].copy_from_slice(&checksum.to_be_bytes());
            assert_eq!(header.mark_congestion(), expected.is_some());
            assert_eq!(header[1], expected.unwrap_or(class));
            assert_eq!(sum(&header), 0xffff, "{class:x}");
        }
        let mut header = vec![0x60u8, 0x20, 0, 0];
        assert!(header.mark_congestion());
        assert_eq!(header, [0x60, 0x30, 0, 0]);
        assert!(!vec![0x60u8, 0x00].mark_congestion() && !vec![0x45u8, 1].mark_congestion());
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
            // ECT(1) and CE, in a descriptor and in the headers of IPv4 and IPv6.
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
            sack: [(3, 4), (0, 0), (0, 0)],
            timestamps: (5, 6),
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
