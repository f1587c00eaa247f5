//! Segments of packets that a device passes on together.

use etherparse::{
    IpNumber, Ipv4Header, Ipv6Header, NetHeaders, PacketHeaders, TcpHeader, TransportHeader,
    UdpHeader,
};
use lasthop_base::units::Duration;
use lasthop_live::offload::{Joint, MOST_HEAD, Malformed, PREAMBLE, Segments};
use proptest::prelude::*;

/// Recorded by `tools/live/segments.py`.
const KERNEL: &str = include_str!("kernel_segments.txt");

fn bytes(text: &str) -> Vec<u8> {
    let digits = |at| u8::from_str_radix(&text[at..at + 2], 16).expect("hexadecimal digits");
    (0..text.len()).step_by(2).map(digits).collect()
}

#[test]
fn segments_are_those_of_the_kernel() {
    let mut cases = 0;
    for case in KERNEL.split("case ").skip(1) {
        let (name, lines) = case.split_once('\n').expect("a name");
        let mut lines = lines.lines();
        let mut input = bytes(lines.next().and_then(|line| line.strip_prefix("in ")).expect(name));
        if cfg!(target_endian = "big") {
            input[2..PREAMBLE].chunks_exact_mut(2).for_each(|number| number.swap(0, 1));
        }
        let outputs = lines.map(|line| bytes(line.strip_prefix("out ").expect(name)));
        let found: Vec<_> = Segments::read(&mut input).expect(name).collect();
        assert_eq!(found, outputs.collect::<Vec<_>>(), "{name}");
        cases += 1;
    }
    assert_eq!(cases, 11);
}

/// The data of a packet, after its lengths and checksums have been checked, and its headers.
fn checked(packet: &[u8]) -> (Vec<u8>, NetHeaders, TransportHeader) {
    let parsed = PacketHeaders::from_ip_slice(packet).expect("headers");
    let data = parsed.payload.slice();
    let (net, transport) = (parsed.net.expect("IP"), parsed.transport.expect("a transport"));
    if let NetHeaders::Ipv4(ip, _) = &net {
        assert_eq!(ip.calc_header_checksum(), ip.header_checksum);
        assert_eq!(usize::from(ip.total_len), packet.len());
    }
    let (found, right) = match (&net, &transport) {
        (NetHeaders::Ipv4(ip, _), TransportHeader::Tcp(tcp)) => {
            (tcp.checksum, tcp.calc_checksum_ipv4(ip, data))
        }
        (NetHeaders::Ipv4(ip, _), TransportHeader::Udp(udp)) => {
            (udp.checksum, udp.calc_checksum_ipv4(ip, data))
        }
        (NetHeaders::Ipv6(ip, _), TransportHeader::Tcp(tcp)) => {
            (tcp.checksum, tcp.calc_checksum_ipv6(ip, data))
        }
        (NetHeaders::Ipv6(ip, _), TransportHeader::Udp(udp)) => {
            (udp.checksum, udp.calc_checksum_ipv6(ip, data))
        }
        other => panic!("unexpected headers {other:?}"),
    };
    assert_eq!(found, right.expect("a length within the limits"));
    (data.to_vec(), net, transport)
}

/// A packet with a preamble, `segment` bytes of data per segment; `flags`: FIN, PSH, CWR, ECE.
fn together(is_6: bool, is_tcp: bool, segment: u16, flags: [bool; 4], data: &[u8]) -> Vec<u8> {
    let mut transport = Vec::new();
    let number = if is_tcp { IpNumber::TCP } else { IpNumber::UDP };
    let place = if is_tcp {
        let mut tcp = TcpHeader::new(4000, 80, u32::MAX - 1000, 500);
        [tcp.fin, tcp.psh, tcp.cwr, tcp.ece] = flags;
        (tcp.ack, tcp.acknowledgment_number) = (true, 7);
        tcp.set_options_raw(&[1, 1, 8, 10, 0, 0, 0, 1, 0, 0, 0, 2]).expect("options");
        tcp.write(&mut transport).expect("a header");
        16
    } else {
        let udp = UdpHeader { source_port: 1, destination_port: 2, length: 0, checksum: 0 };
        udp.write(&mut transport).expect("a header");
        6
    };
    let length = (transport.len() + data.len()) as u16;
    let mut packet = Vec::new();
    if is_6 {
        let (source, destination) = ([1; 16], [2; 16]);
        let ip = Ipv6Header {
            payload_length: length,
            next_header: number,
            hop_limit: 64,
            source,
            destination,
            ..Ipv6Header::default()
        };
        ip.write(&mut packet).expect("a header");
    } else {
        let ip = Ipv4Header::new(length, 64, number, [10, 0, 0, 1], [10, 0, 0, 2]);
        let ip = Ipv4Header { identification: u16::MAX - 1, ..ip.expect("a length that fits") };
        ip.write(&mut packet).expect("a header");
    }
    let start = packet.len() as u16;
    let kind = match (is_tcp, is_6) {
        (false, _) => 5,
        (true, false) => 1,
        (true, true) => 4,
    };
    let mut bytes = vec![1, kind];
    for number in [start + transport.len() as u16, segment, start, place] {
        bytes.extend(number.to_ne_bytes());
    }
    bytes.extend(packet);
    bytes.extend(transport);
    bytes.extend(data);
    bytes
}

proptest! {
    #[test]
    fn segments_carry_the_data_in_order(
        (is_6, is_tcp) in any::<(bool, bool)>(),
        segment in 1_u16..1500,
        flags in any::<[bool; 4]>(),
        data in proptest::collection::vec(any::<u8>(), 1..20_000),
    ) {
        let mut bytes = together(is_6, is_tcp, segment, flags, &data);
        let packets: Vec<_> = Segments::read(&mut bytes).expect("segments").collect();
        let size = usize::from(segment);
        prop_assert_eq!(packets.len(), data.len().div_ceil(size));
        let mut received = Vec::new();
        for (index, packet) in packets.iter().enumerate() {
            let is_last = index + 1 == packets.len();
            let (own, net, transport) = checked(packet);
            prop_assert_eq!(own.len(), size.min(data.len() - index * size));
            if let NetHeaders::Ipv4(ip, _) = net {
                let expected = (u16::MAX - 1).wrapping_add(index as u16);
                prop_assert_eq!(ip.identification, expected);
            }
            match transport {
                TransportHeader::Tcp(tcp) => {
                    let expected = (u32::MAX - 1000).wrapping_add(received.len() as u32);
                    prop_assert_eq!(tcp.sequence_number, expected);
                    let [fin, psh, cwr, ece] = flags;
                    let expected = [fin && is_last, psh && is_last, cwr && index == 0, ece];
                    prop_assert_eq!([tcp.fin, tcp.psh, tcp.cwr, tcp.ece], expected);
                }
                TransportHeader::Udp(udp) => {
                    prop_assert_eq!(usize::from(udp.length), 8 + own.len());
                }
                other => prop_assert!(false, "unexpected header {:?}", other),
            }
            received.extend(own);
        }
        prop_assert_eq!(received, data);
    }

    /// Wrong bytes give an error or packets, but never a panic.
    #[test]
    fn any_bytes_are_read(
        preamble in (0..2_u8, prop_oneof![Just(0_u8), Just(1), Just(4), Just(5), Just(0x81), any::<u8>()]),
        numbers in any::<[u8; 8]>(),
        small in any::<bool>(),
        packet in proptest::collection::vec(any::<u8>(), 0..200),
        version in 0..16_u8,
    ) {
        let mut bytes = vec![preamble.0, preamble.1];
        bytes.extend(numbers);
        if small {
            // Numbers below 256 in both byte orders.
            for place in bytes[2..].chunks_exact_mut(2) {
                let number = u16::from(place[0] % 64);
                place.copy_from_slice(&number.to_ne_bytes());
            }
        }
        bytes.extend(packet);
        if let Some(first) = bytes.get_mut(PREAMBLE) {
            *first = version << 4 | 5;
        }
        if let Ok(segments) = Segments::read(&mut bytes) {
            let _ = segments.count();
        }
    }
}

#[test]
fn a_preamble_that_does_not_fit_is_an_error() {
    let good = together(false, true, 100, [false; 4], &[0; 300]);
    let changed = |at: usize, byte: u8| {
        let mut bytes = good.clone();
        bytes[at] = byte;
        Segments::read(&mut bytes).map(|segments| segments.count())
    };
    assert_eq!(changed(0, 1), Ok(3));
    // No checksum to complete; an unknown kind; the other version; another place of the checksum.
    for (at, byte) in [(0, 0), (1, 3), (1, 4), (8, 6), (6, 24), (7, 99)] {
        assert_eq!(changed(at, byte), Err(Malformed), "byte {at}: {byte}");
    }
    // No data per segment, an options field longer than the packet, no data, no preamble.
    let mut bytes = good.clone();
    bytes[4..6].fill(0);
    assert_eq!(Segments::read(&mut bytes).map(|_| ()), Err(Malformed));
    let headers = PREAMBLE + 20 + 32;
    assert_eq!(Segments::read(&mut good[..headers].to_vec()).map(|_| ()), Err(Malformed));
    assert_eq!(Segments::read(&mut good[..headers - 1].to_vec()).map(|_| ()), Err(Malformed));
    assert_eq!(Segments::read(&mut good[..PREAMBLE - 1].to_vec()).map(|_| ()), Err(Malformed));
}

/// A packet with a wrong checksum makes the driver verify those of later packets.
#[test]
fn wrong_checksums_of_complete_packets_are_noticed() {
    let is_right =
        |mut bytes: Vec<u8>| Segments::read(&mut bytes).map(|one| one.has_right_checksums());
    let bytes = together(false, true, 1_000, [false; 4], &[1; 3_000]);
    assert_eq!(is_right(bytes.clone()), Ok(true), "the driver computes those of segments");
    let mut packet = [&[0; PREAMBLE][..], &split(bytes)[0]].concat();
    assert_eq!(is_right(packet.clone()), Ok(true));
    *packet.last_mut().expect("data") ^= 1;
    assert_eq!(is_right(packet), Ok(false));
    // Packets that are not written together are not verified.
    assert_eq!(is_right([&[0; PREAMBLE][..], &[0x45; 20]].concat()), Ok(true));
}

/// The packets that a device passes to the link for `bytes`.
fn split(mut bytes: Vec<u8>) -> Vec<Vec<u8>> {
    Segments::read(&mut bytes).expect("packets").collect()
}

/// The joint packet of these packets, if they can be written together.
fn joined(packets: &[Vec<u8>]) -> Option<Vec<u8>> {
    let mut joint = Joint::default();
    joint.start(&packets[0], true);
    if !packets[1..].iter().all(|packet| joint.add(&packets[0], packet, Duration::ZERO)) {
        return None;
    }
    let mut room = [0; MOST_HEAD];
    let mut bytes = joint.head(&packets[0], packets.last()?, &mut room)?.to_vec();
    packets.iter().for_each(|packet| bytes.extend(joint.data(packet)));
    Some(bytes)
}

proptest! {
    #[test]
    fn packets_written_together_are_the_same_packets(
        (is_6, is_tcp, psh, ece) in any::<(bool, bool, bool, bool)>(),
        segment in 500_u16..1500,
        data in proptest::collection::vec(any::<u8>(), 3_000..20_000),
    ) {
        let bytes = together(is_6, is_tcp, segment, [false, psh, false, ece], &data);
        let packets = split(bytes.clone());
        let written = joined(&packets).expect("consecutive packets");
        // The kernel leaves the sum of the pseudo-header in the checksum field, `together` leaves zero.
        prop_assert_eq!(&written[..PREAMBLE], &bytes[..PREAMBLE]);
        prop_assert_eq!(split(written), packets);
    }
}

#[test]
fn the_kernel_wrote_the_same_super_packets() {
    // Without options of IPv4, FIN and CWR, joining the output of the kernel gives its input.
    let mut cases = 0;
    for case in KERNEL.split("case ").skip(1) {
        let (name, lines) = case.split_once('\n').expect("a name");
        let mut lines = lines.lines();
        let input = bytes(lines.next().and_then(|line| line.strip_prefix("in ")).expect(name));
        let outputs: Vec<_> =
            lines.map(|line| bytes(line.strip_prefix("out ").expect(name))).collect();
        if cfg!(target_endian = "big") || outputs.len() < 2 {
            continue;
        }
        let can_join = !["FIN", "CWR", "options of IPv4"].iter().any(|word| name.contains(word));
        assert_eq!(joined(&outputs), can_join.then_some(input), "{name}");
        cases += usize::from(can_join);
    }
    assert_eq!(cases, if cfg!(target_endian = "big") { 0 } else { 5 });
}

#[test]
fn only_packets_that_continue_the_first_are_written_with_it() {
    let data: Vec<u8> = (0..250).map(|byte| byte as u8).collect();
    // The second packet of the same data with another byte in the headers.
    let pair = |is_6: bool, is_tcp: bool, both: Option<(usize, u8)>, at: usize, byte: u8| {
        let mut first = together(is_6, is_tcp, 100, [false; 4], &data);
        if let Some((at, byte)) = both {
            first[PREAMBLE + at] = byte;
        }
        let mut second = first.clone();
        second[PREAMBLE + at] = byte;
        joined(&[split(first).remove(0), split(second).remove(1)]).is_some()
    };
    let number = |is_6: bool| if is_6 { 6 } else { 4 };
    for (is_6, is_tcp) in [(false, false), (false, true), (true, false), (true, true)] {
        let start = if is_6 { 40 } else { 20 };
        let unchanged = if is_6 { (0, 0x60) } else { (0, 0x45) };
        assert!(pair(is_6, is_tcp, None, unchanged.0, unchanged.1));
        let mut changes = match is_6 {
            // Traffic class, flow label, hop limit, addresses.
            true => vec![(0, 0x61), (1, 0x10), (3, 1), (7, 9), (9, 9), (39, 9)],
            // DSCP and ECN, fragments, TTL, addresses.
            false => vec![(1, 1), (6, 0x20), (7, 1), (8, 9), (12, 9), (19, 9)],
        };
        // Ports.
        changes.extend([(start, 9), (start + 3, 9)]);
        if is_tcp {
            // Sequence number, acknowledgment, FIN, SYN, RST, URG, ECE, CWR, window, urgent pointer,
            // timestamps.
            changes.extend([(start + 7, 9), (start + 11, 9), (start + 14, 9), (start + 18, 9)]);
            changes.extend([0x02, 0x04, 0x20, 0x40].map(|flag| (start + 13, 0x10 | flag)));
            changes.extend([(start + 27, 9), (start + 31, 9)]);
        }
        for (at, byte) in changes {
            let name = format!("IPv{}, TCP {is_tcp}, byte {at}: {byte}", number(is_6));
            assert!(!pair(is_6, is_tcp, None, at, byte), "{name}");
        }
    }
    // Identifications matter only if fragments are permitted.
    assert!(pair(false, true, None, 5, 0));
    assert!(pair(false, true, Some((6, 0)), 4, 0xff));
    assert!(!pair(false, true, Some((6, 0)), 4, 0));
}

#[test]
fn a_short_packet_psh_or_wrong_checksum_ends_packets_written_together() {
    let data = [7; 350];
    let packets = |flags| split(together(false, true, 100, flags, &data));
    let plain = packets([false; 4]);
    assert!(joined(&plain).is_some());
    let with = |changes: &[(usize, usize, u8)]| {
        let mut changed = plain.clone();
        for &(packet, at, byte) in changes {
            changed[packet][at] ^= byte;
        }
        joined(&changed).is_some()
    };
    // A wrong checksum of TCP in each of the packets, and of IPv4 in one.
    for packet in 0..plain.len() {
        assert!(!with(&[(packet, 60, 1)]), "packet {packet}");
    }
    assert!(!with(&[(1, 10, 1)]));
    // PSH ends; the change of a flag is balanced in the checksum, which it does not touch otherwise.
    let pushed = packets([false, true, false, false]);
    assert!(
        joined(&[plain[0].clone(), plain[1].clone(), plain[2].clone(), pushed[3].clone()])
            .is_some()
    );
    let alone = split(together(false, true, 1000, [false, true, false, false], &data[..100]));
    assert!(joined(&[alone[0].clone(), plain[1].clone()]).is_none());
    // A shorter packet ends, a longer one does not follow.
    let short = split(together(false, true, 50, [false; 4], &data));
    assert!(joined(&[short[0].clone(), short[1].clone(), short[2].clone()]).is_some());
    assert!(joined(&[short[0].clone(), split(longer()).remove(0)]).is_none());
    // 64 packets at most, and 65,535 B.
    let many =
        |segment, length| split(together(false, true, segment, [false; 4], &vec![1; length]));
    assert!(joined(&many(10, 10 * 64)).is_some());
    assert!(joined(&many(10, 10 * 65)).is_none());
    let large = many(1448, 1448 * 44);
    let mut more = large.clone();
    assert!(joined(&large).is_some());
    more.push(large[43].clone());
    assert!(joined(&more).is_none());
}

#[test]
fn packets_far_apart_are_not_written_together() {
    let packets = split(together(false, true, 100, [false; 4], &[7; 300]));
    let added = |nanos| {
        let mut joint = Joint::default();
        joint.start(&packets[0], true);
        joint.add(&packets[0], &packets[1], Duration::from_nanos(nanos))
    };
    assert!(added(25_000));
    assert!(!added(25_001));
}

/// The packet after 50 B, with 60 B.
fn longer() -> Vec<u8> {
    let mut bytes = together(false, true, 60, [false; 4], &[7; 60]);
    let sequence = PREAMBLE + 20 + 4;
    let number = (u32::MAX - 1000).wrapping_add(50);
    bytes[sequence..sequence + 4].copy_from_slice(&number.to_be_bytes());
    bytes
}
