//! Packets of real bytes. Links and queues read the fields that they need from the IP header.

use super::{Ecn, Payload};
use crate::coding::{CodedUnits, ReedSolomon};

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

    /// All units of the frame, concatenated.
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

    /// `held` contains, for each unit, its number followed by its bytes.
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

    fn decode_frame(content: &mut Option<Self>, units: &CodedUnits, new: u64, held: u16) {
        let mut gathered = None;
        if let Some(arrived) = content.take() {
            Self::gather_units(&mut gathered, arrived, units, new);
        }
        *content = gathered.and_then(|gathered| gathered.decode_units(units, held));
    }

    fn is_l4s(&self) -> bool {
        match self.as_slice() {
            [version, traffic, ..] if *version >> 4 == 4 => Ecn::from_bits(*traffic).is_l4s(),
            [version, traffic, ..] if *version >> 4 == 6 => Ecn::from_bits(*traffic >> 4).is_l4s(),
            _ => false,
        }
    }

    /// Sets CE in the header of IPv4, whose checksum is updated (RFC 1624), or of IPv6.
    fn mark_congestion(&mut self) -> bool {
        match self.as_mut_slice() {
            [version, traffic, rest @ ..] if *version >> 4 == 4 && rest.len() >= 18 => {
                if *traffic & 3 == 0 {
                    return false;
                }
                let added = u32::from(3 - (*traffic & 3));
                *traffic |= 3;
                // HC' = ~(~HC + ~m + m'): subtracts the increase of the changed word from the
                // checksum, with end-around carry.
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

    /// Returns `true` for the second and third drop precedence of an assured forwarding class.
    fn is_out(&self) -> bool {
        let class = self.class();
        (10..=38).contains(&class) && class & 6 > 2
    }

    /// Returns a hash of the addresses, the protocol and, where present, the ports of an IPv4 or
    /// IPv6 packet; 0 for other packets. Fragments, and IPv6 packets with extension headers, are
    /// hashed without ports.
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

    /// Reads the DSCP from the first two bytes of an IPv4 or IPv6 header; returns 0 for other
    /// packets.
    fn class(&self) -> u8 {
        match *self.as_slice() {
            [version, traffic, ..] if version >> 4 == 4 => traffic >> 2,
            [version, traffic, ..] if version >> 4 == 6 => (version & 0xf) << 2 | traffic >> 6,
            _ => 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_class_of_real_bytes_is_their_ds_code_point() {
        // Expedited forwarding is 46, a DS field of 0xb8.
        assert_eq!(vec![0x45u8, 0xb8, 0, 20].class(), 46);
        assert_eq!(vec![0x6bu8, 0x80, 0, 0].class(), 46);
        assert_eq!(vec![0x45u8, 0x03].class(), 0, "the ECN field is not part of the DSCP");
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
        // Fragments and ICMP messages have no ports at this offset.
        assert_eq!(of(6, 9, 2, 1), of(6, 9, 2, 2));
        assert_eq!(of(1, 0, 2, 1), of(1, 0, 2, 2));
        let six = |port: u8| {
            let mut packet = vec![0; 44];
            (packet[0], packet[6], packet[41]) = (0x60, 17, port);
            packet.flow()
        };
        assert_ne!(six(1), six(2));
        // Too short, not IP, or options beyond the end.
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
}
