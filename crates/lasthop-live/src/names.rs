//! Name server of the hosts. Programs that do not read `/etc/hosts`, but send DNS queries (RFC 1035),
//! find it in `/etc/resolv.conf`.
//!
//! Queries go to [`SERVER`], an address behind the first device of each host. The driver answers packets for
//! it at the device: they cross no link, use no random numbers and are not counted, and no port of the host
//! is occupied.
//!
//! The names are those of the hosts (A, AAAA) and of their addresses (PTR, RFC 1035, section 3.5, and RFC 3596);
//! no other name exists. Queries come over UDP or [TCP](tcp); answers are shorter than the 512 bytes of a
//! datagram. Of EDNS (RFC 6891), the record OPT of a query is answered with the server's own.

mod tcp;

use std::net::{IpAddr, Ipv4Addr};

/// Address of the name server at every host.
pub const SERVER: Ipv4Addr = Ipv4Addr::new(10, 71, 255, 53);

/// Port of DNS.
const PORT: u16 = 53;

/// Length of the headers of DNS, UDP, ICMP, and IPv4 without options, in bytes.
const DNS: usize = 12;
const UDP: usize = 8;
const ICMP: usize = 8;
const IPV4: usize = 20;

/// Maximum length of a name with its lengths and the root, in bytes (RFC 1035, section 2.3.4).
const LONGEST_NAME: usize = 255;

/// Time in seconds for which a program may keep an answer.
const TTL: u32 = 60;

/// Types and classes of records (RFC 1035, section 3.2; RFC 3596).
const A: u16 = 1;
const PTR: u16 = 12;
const AAAA: u16 = 28;
const OPT: u16 = 41;
const ANY: u16 = 255;
const INTERNET: u16 = 1;

/// Maximum length of a query over UDP in bytes, which the server announces.
const LARGEST_QUERY: u16 = 1_232;

/// Response codes (RFC 1035, section 4.1.1; RFC 6891, section 9).
const NO_ERROR: u8 = 0;
const FORMAT_ERROR: u8 = 1;
const NAME_ERROR: u8 = 3;
const NOT_IMPLEMENTED: u8 = 4;
const REFUSED: u8 = 5;
const BAD_VERSION: u8 = 16;

/// Protocols of IP (IANA).
const PROTOCOL_ICMP: u8 = 1;
const PROTOCOL_TCP: u8 = 6;
const PROTOCOL_UDP: u8 = 17;

/// A record: the name in the form of messages and in lower case, the type, and the data.
#[derive(Clone, Debug)]
struct Record {
    name: Vec<u8>,
    kind: u16,
    data: Vec<u8>,
}

/// The names of all hosts.
#[derive(Clone, Debug, Default)]
pub struct Names {
    records: Vec<Record>,
    connections: tcp::Connections,
}

/// Returns `true` for a packet to the name server.
#[inline]
pub fn is_for_server(packet: &[u8]) -> bool {
    packet.len() >= IPV4 && packet[0] >> 4 == 4 && packet[16..20] == SERVER.octets()
}

/// Returns a name in the form of messages; `None` if it is not a valid name.
fn encoded(name: &str) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    for label in name.trim_end_matches('.').split('.') {
        let length = u8::try_from(label.len()).ok().filter(|length| (1..64).contains(length))?;
        bytes.push(length);
        bytes.extend(label.bytes().map(|byte| byte.to_ascii_lowercase()));
    }
    bytes.push(0);
    (bytes.len() <= LONGEST_NAME).then_some(bytes)
}

/// Returns the name at which the name of an address is found.
fn reverse(address: IpAddr) -> String {
    match address {
        IpAddr::V4(address) => {
            let [a, b, c, d] = address.octets();
            format!("{d}.{c}.{b}.{a}.in-addr.arpa")
        }
        IpAddr::V6(address) => {
            let digits = address.octets().into_iter().rev().map(|byte| {
                let (high, low) = (byte >> 4, byte & 0xf);
                format!("{low:x}.{high:x}.")
            });
            format!("{}ip6.arpa", digits.collect::<String>())
        }
    }
}

/// Returns the question of a query after the header, its name in lower case, its type and class.
fn question(bytes: &[u8]) -> Option<(&[u8], Vec<u8>, u16, u16)> {
    let mut end = 0;
    loop {
        let length = usize::from(*bytes.get(end)?);
        end += 1 + length;
        match length {
            0 => break,
            // Two high bits would refer to an earlier name; there is none.
            64.. => return None,
            _ if end >= LONGEST_NAME => return None,
            _ => {}
        }
    }
    let number = |at: usize| Some(u16::from_be_bytes([*bytes.get(at)?, *bytes.get(at + 1)?]));
    let (kind, class) = (number(end)?, number(end + 2)?);
    Some((&bytes[..end + 4], bytes[..end].to_ascii_lowercase(), kind, class))
}

/// Version of EDNS and flags of the record OPT after the question; `None` without one.
///
/// # Errors
/// If the records are malformed.
fn options(query: &[u8], question: usize) -> Result<Option<(u8, u8)>, ()> {
    let number = |at: usize| u16::from_be_bytes([query[at], query[at + 1]]);
    let mut found = None;
    let mut rest = &query[DNS + question..];
    for place in 0..[6, 8, 10].map(|at| usize::from(number(at))).iter().sum::<usize>() {
        // The name: labels, which end with an empty one or a reference.
        let is_root = rest.first() == Some(&0);
        loop {
            let (&length, after) = rest.split_first().ok_or(())?;
            let skipped = if length >= 0xc0 { 1 } else { usize::from(length) };
            rest = after.get(skipped..).ok_or(())?;
            if length == 0 || length >= 0xc0 {
                break;
            }
        }
        let (fields, after) = rest.split_first_chunk::<10>().ok_or(())?;
        let length = usize::from(u16::from_be_bytes([fields[8], fields[9]]));
        rest = after.get(length..).ok_or(())?;
        if u16::from_be_bytes([fields[0], fields[1]]) == OPT {
            let is_additional = place >= usize::from(number(6)) + usize::from(number(8));
            if !is_root || !is_additional || found.is_some() {
                return Err(());
            }
            found = Some((fields[5], fields[6]));
        }
    }
    Ok(found)
}

/// Returns the checksum of the Internet protocols over parts of even length, and a last part.
fn checksum(parts: &[&[u8]]) -> [u8; 2] {
    let words = parts.iter().flat_map(|part| part.chunks(2));
    let sum: u32 = words
        .map(|word| u32::from(u16::from_be_bytes([word[0], word.get(1).copied().unwrap_or(0)])))
        .sum();
    let folded = (sum & 0xffff) + (sum >> 16);
    (!((folded & 0xffff) + (folded >> 16)) as u16).to_be_bytes()
}

/// Returns an IPv4 packet from the server to `to`.
fn packet(to: &[u8], protocol: u8, content: &[u8]) -> Vec<u8> {
    let mut packet = vec![0; IPV4];
    packet[0] = 0x45;
    packet[2..4].copy_from_slice(&((IPV4 + content.len()) as u16).to_be_bytes());
    // Do not fragment.
    packet[6] = 0x40;
    packet[8] = 64;
    packet[9] = protocol;
    packet[12..16].copy_from_slice(&SERVER.octets());
    packet[16..20].copy_from_slice(to);
    let sum = checksum(&[&packet]);
    packet[10..12].copy_from_slice(&sum);
    packet.extend_from_slice(content);
    packet
}

impl Names {
    /// Returns the records of hosts and their addresses. A name that DNS does not allow has none.
    pub fn new<'a>(hosts: impl Iterator<Item = (&'a str, &'a [IpAddr])>) -> Self {
        let mut names = Names::default();
        for (host, addresses) in hosts {
            let Some(name) = encoded(host) else { continue };
            for &address in addresses {
                let (kind, data) = match address {
                    IpAddr::V4(address) => (A, address.octets().to_vec()),
                    IpAddr::V6(address) => (AAAA, address.octets().to_vec()),
                };
                names.records.push(Record { name: name.clone(), kind, data });
                if let Some(reverse) = encoded(&reverse(address)) {
                    names.records.push(Record { name: reverse, kind: PTR, data: name.clone() });
                }
            }
        }
        names
    }

    /// Returns the response to a packet for the server ([`is_for_server`]): an answer, a segment of TCP, or
    /// port unreachable (RFC 792) for other ports.
    pub fn reply(&mut self, query: &[u8]) -> Option<Vec<u8>> {
        let header = usize::from(*query.first()? & 0xf) * 4;
        let is_fragment = u16::from_be_bytes([*query.get(6)?, *query.get(7)?]) & 0x3fff != 0;
        if header < IPV4 || is_fragment {
            return None;
        }
        let (from, protocol) = (query.get(12..16)?, query[9]);
        let transport = query.get(header..).filter(|transport| transport.len() >= UDP)?;
        let port = u16::from_be_bytes([transport[2], transport[3]]);
        match (protocol, port) {
            (PROTOCOL_UDP, PORT) => {
                let message = answer(&self.records, &transport[UDP..])?;
                let mut datagram = vec![0; UDP];
                datagram[0..2].copy_from_slice(&PORT.to_be_bytes());
                datagram[2..4].copy_from_slice(&transport[0..2]);
                let length = ((UDP + message.len()) as u16).to_be_bytes();
                datagram[4..6].copy_from_slice(&length);
                datagram.extend_from_slice(&message);
                let kind = [0, PROTOCOL_UDP];
                let sum = checksum(&[&SERVER.octets(), from, &kind, &length, &datagram]);
                // A checksum of zero would mean an absent one.
                datagram[6..8].copy_from_slice(if sum == [0, 0] { &[0xff; 2] } else { &sum });
                Some(packet(from, PROTOCOL_UDP, &datagram))
            }
            (PROTOCOL_TCP, PORT) => {
                let client = from.try_into().ok()?;
                let (connections, names) = (&mut self.connections, &self.records);
                let reply = connections.reply(client, transport, |query| answer(names, query));
                let mut segment = reply?;
                let (kind, length) = ([0, PROTOCOL_TCP], (segment.len() as u16).to_be_bytes());
                let sum = checksum(&[&SERVER.octets(), from, &kind, &length, &segment]);
                segment[tcp::CHECKSUM..tcp::CHECKSUM + 2].copy_from_slice(&sum);
                Some(packet(from, PROTOCOL_TCP, &segment))
            }
            (PROTOCOL_UDP | PROTOCOL_TCP, _) => {
                // Destination unreachable, port; with the beginning of the packet.
                let mut message = vec![3, 3, 0, 0, 0, 0, 0, 0];
                debug_assert_eq!(message.len(), ICMP);
                message.extend_from_slice(&query[..header + UDP]);
                let sum = checksum(&[&message]);
                message[2..4].copy_from_slice(&sum);
                Some(packet(from, PROTOCOL_ICMP, &message))
            }
            _ => None,
        }
    }
}

/// Returns the response to a message; `None` if it is not a query.
fn answer(records: &[Record], query: &[u8]) -> Option<Vec<u8>> {
    if query.len() < DNS || query[2] & 0x80 != 0 {
        return None;
    }
    let (opcode, questions) = (query[2] & 0x78, u16::from_be_bytes([query[4], query[5]]));
    let asked = question(&query[DNS..]).filter(|_| opcode == 0 && questions == 1);
    let options = asked.as_ref().map_or(Ok(None), |(question, ..)| options(query, question.len()));
    let asked = asked.filter(|_| options.is_ok());
    let options = options.unwrap_or_default();
    let mut found: Vec<&Record> = Vec::new();
    let code = match &asked {
        None if opcode != 0 => NOT_IMPLEMENTED,
        None => FORMAT_ERROR,
        Some(_) if options.is_some_and(|(version, _)| version > 0) => BAD_VERSION,
        Some((.., class)) if ![INTERNET, ANY].contains(class) => REFUSED,
        Some((_, name, kind, _)) => {
            let is_asked = |record: &Record| [record.kind, ANY].contains(kind);
            let known = records.iter().filter(|record| record.name == *name);
            found.extend(known.clone().filter(|record| is_asked(record)));
            if known.count() == 0 { NAME_ERROR } else { NO_ERROR }
        }
    };
    let mut message = vec![0; DNS];
    message[..2].copy_from_slice(&query[..2]);
    // A response with authority. All names are known, so that recursion is available.
    message[2] = 0x84 | query[2] & 0x79;
    message[3] = 0x80 | code & 0xf;
    if let Some((question, ..)) = asked {
        message[5] = 1;
        message[7] = found.len() as u8;
        message.extend_from_slice(question);
    }
    for record in found {
        // The name is that of the question.
        message.extend_from_slice(&[0xc0, DNS as u8]);
        message.extend_from_slice(&record.kind.to_be_bytes());
        message.extend_from_slice(&INTERNET.to_be_bytes());
        message.extend_from_slice(&TTL.to_be_bytes());
        message.extend_from_slice(&(record.data.len() as u16).to_be_bytes());
        message.extend_from_slice(&record.data);
    }
    if let Some((_, flags)) = options {
        message[11] = 1;
        message.push(0);
        message.extend_from_slice(&OPT.to_be_bytes());
        message.extend_from_slice(&LARGEST_QUERY.to_be_bytes());
        // The upper bits of the code, the version, and DO, which is copied (RFC 3225, section 3).
        message.extend_from_slice(&[code >> 4, 0, flags & 0x80, 0, 0, 0]);
    }
    Some(message)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names() -> Names {
        let addresses: [IpAddr; 2] =
            ["10.71.0.2".parse().expect("an address"), "fd71::2".parse().expect("an address")];
        Names::new([("Phone", &addresses[..])].into_iter())
    }

    fn query(name: &str, kind: u16) -> Vec<u8> {
        let mut message = vec![0xab, 0xcd, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0];
        for label in name.split('.') {
            message.push(label.len() as u8);
            message.extend_from_slice(label.as_bytes());
        }
        message.push(0);
        message.extend_from_slice(&kind.to_be_bytes());
        message.extend_from_slice(&[0, 1]);
        message
    }

    /// A packet to the server.
    fn sent(protocol: u8, port: u16, content: &[u8]) -> Vec<u8> {
        let mut packet = vec![0x45, 0, 0, 0, 0, 0, 0x40, 0, 64, protocol, 0, 0, 10, 71, 0, 1];
        packet.extend_from_slice(&SERVER.octets());
        packet.extend_from_slice(&[0x9c, 0x40]);
        packet.extend_from_slice(&port.to_be_bytes());
        packet.extend_from_slice(&((UDP + content.len()) as u16).to_be_bytes());
        packet.extend_from_slice(&[0, 0]);
        packet.extend_from_slice(content);
        packet
    }

    /// Code, number of answers and data of the last answer.
    fn asked(name: &str, kind: u16) -> (u8, u8, Vec<u8>) {
        let message = answer(&names().records, &query(name, kind)).expect("an answer");
        assert_eq!(message[..2], [0xab, 0xcd]);
        let length = query(name, kind).len();
        let data = message.get(length + 12..).unwrap_or_default();
        (message[3] & 0xf, message[7], data.to_vec())
    }

    /// The query with the record OPT of glibc and systemd: 1200 B, version 0, DO.
    fn with_options(query: &[u8]) -> Vec<u8> {
        let mut query = [query, &[0, 0, 41, 4, 0xb0, 0, 0, 0x80, 0, 0, 0]].concat();
        query[11] = 1;
        query
    }

    #[test]
    fn options_are_answered() {
        let plain = query("phone", A);
        let ask = |query: &[u8]| answer(&names().records, query).expect("an answer");
        let with = with_options(&plain);
        let own = |code: u8, flags: u8| [0, 0, 41, 4, 0xd0, code, 0, flags, 0, 0, 0];
        let (answered, without) = (ask(&with), ask(&plain));
        assert_eq!((answered[11], without[11]), (1, 0));
        assert_eq!(answered[DNS..answered.len() - 11], without[DNS..]);
        assert_eq!(answered[answered.len() - 11..], own(0, 0x80));
        // Another version, and data of an option, here a cookie.
        let mut version = with.clone();
        version[plain.len() + 6] = 1;
        assert_eq!(ask(&version)[3] & 0xf, 0);
        assert_eq!(ask(&version)[plain.len()..], own(1, 0x80));
        let mut cookie = [&with[..], &[0, 10, 0, 8, 1, 2, 3, 4, 5, 6, 7, 8]].concat();
        cookie[plain.len() + 10] = 12;
        assert_eq!(ask(&cookie), answered);
        // Two such records, one with a name, and a truncated one, are errors.
        let mut two = [&with[..], &with[plain.len()..]].concat();
        two[11] = 2;
        let mut named = [&plain[..], &[0xc0, 12], &with[plain.len() + 1..]].concat();
        named[11] = 1;
        for wrong in [&two, &named, &with[..with.len() - 1].to_vec()] {
            assert_eq!((ask(wrong)[3] & 0xf, ask(wrong).len()), (FORMAT_ERROR, DNS));
        }
    }

    #[test]
    fn a_query_over_tcp_has_the_answer_of_one_over_udp() {
        let names = &mut names();
        let whole = query("phone", A);
        let segment = |sequence: u8, flags: u8, data: &[u8]| {
            let rest = [&[0, 0, 0, sequence, 0, 0, 0, 1, 0x50, flags, 1, 0, 0, 0, 0, 0], data];
            let mut packet = sent(PROTOCOL_TCP, PORT, &[]);
            packet.truncate(IPV4 + 4);
            packet.extend(rest.concat());
            packet
        };
        let opened = names.reply(&segment(1, 2, &[])).expect("a reply");
        assert_eq!((opened[9], opened[33]), (PROTOCOL_TCP, 0x12));
        let length = (whole.len() as u16).to_be_bytes();
        let reply = names.reply(&segment(2, 0x18, &[&length[..], &whole].concat()));
        let reply = reply.expect("a reply");
        let expected = answer(&names.records, &whole).expect("an answer");
        assert_eq!(reply[40..42], (expected.len() as u16).to_be_bytes());
        assert_eq!(reply[42..], expected);
        let kind = [0, PROTOCOL_TCP];
        let bytes = (reply.len() as u16 - 20).to_be_bytes();
        assert_eq!(checksum(&[&reply[12..20], &kind, &bytes, &reply[20..]]), [0, 0]);
    }

    #[test]
    fn hosts_and_their_addresses_are_found() {
        assert_eq!(asked("phone", A), (NO_ERROR, 1, vec![10, 71, 0, 2]));
        let second: IpAddr = "fd71::2".parse().expect("an address");
        let IpAddr::V6(second) = second else { panic!("IPv6") };
        assert_eq!(asked("PHONE", AAAA), (NO_ERROR, 1, second.octets().to_vec()));
        assert_eq!(asked("phone", ANY).1, 2);
        let phone = b"\x05phone\0".to_vec();
        assert_eq!(asked("2.0.71.10.in-addr.arpa", PTR), (NO_ERROR, 1, phone.clone()));
        let zeros = "0.".repeat(27);
        assert_eq!(asked(&format!("2.{zeros}1.7.d.f.ip6.arpa"), PTR), (NO_ERROR, 1, phone));
        // A name without such a record, and names that do not exist.
        assert_eq!(asked("phone", 15), (NO_ERROR, 0, vec![]));
        assert_eq!(asked("phone.example", A), (NAME_ERROR, 0, vec![]));
        assert_eq!(asked("example.org", AAAA), (NAME_ERROR, 0, vec![]));
    }

    #[test]
    fn packets_have_the_right_addresses_ports_and_checksums() {
        let reply = names().reply(&sent(PROTOCOL_UDP, PORT, &query("phone", A))).expect("a reply");
        assert_eq!((&reply[12..16], &reply[16..20]), (&SERVER.octets()[..], &[10, 71, 0, 1][..]));
        assert_eq!(reply[20..24], [0, 53, 0x9c, 0x40]);
        assert_eq!(usize::from(u16::from_be_bytes([reply[2], reply[3]])), reply.len());
        // The checksum over data with its checksum is zero.
        assert_eq!(checksum(&[&reply[..20]]), [0, 0]);
        let kind = [0, PROTOCOL_UDP];
        assert_eq!(checksum(&[&reply[12..20], &kind, &reply[24..26], &reply[20..]]), [0, 0]);
    }

    #[test]
    fn other_services_are_unreachable() {
        let port = sent(PROTOCOL_TCP, 80, &[0; 12]);
        for other in [&port, &sent(PROTOCOL_UDP, 80, b"a")] {
            let reply = names().reply(other).expect("a reply");
            assert_eq!((reply[9], &reply[20..22]), (PROTOCOL_ICMP, &[3, 3][..]));
            assert_eq!(reply[28..], other[..28]);
            assert_eq!(checksum(&[&reply[20..]]), [0, 0]);
        }
        assert!(names().reply(&sent(PROTOCOL_ICMP, 0, b"a")).is_none());
    }

    #[test]
    fn malformed_queries_are_errors_or_ignored() {
        let whole = query("phone", A);
        let code = |message: &[u8]| answer(&names().records, message).map(|answer| answer[3] & 0xf);
        for length in 0..whole.len() {
            let expected = (length >= DNS).then_some(FORMAT_ERROR);
            assert_eq!(code(&whole[..length]), expected, "{length}");
        }
        let changed = |at: usize, byte: u8| {
            let mut message = whole.clone();
            message[at] = byte;
            code(&message)
        };
        // A response, another operation, no question, a reference instead of a name, another class.
        assert_eq!(changed(2, 0x81), None);
        assert_eq!(changed(2, 0x29), Some(NOT_IMPLEMENTED));
        assert_eq!(changed(5, 0), Some(FORMAT_ERROR));
        assert_eq!(changed(12, 0xc0), Some(FORMAT_ERROR));
        assert_eq!(changed(whole.len() - 1, 3), Some(REFUSED));
        assert_eq!(code(&query(&["a"; 128].join("."), A)), Some(FORMAT_ERROR));
        assert_eq!(code(&query(&["a"; 127].join("."), A)), Some(NAME_ERROR));
        // All bytes of all positions, also of the headers of the packet.
        let names = &mut names();
        let [udp, tcp] =
            [PROTOCOL_UDP, PROTOCOL_TCP].map(|one| sent(one, PORT, &with_options(&whole)));
        for (packet, at) in
            [udp, tcp].iter().flat_map(|one| (0..one.len()).map(move |at| (one, at)))
        {
            for byte in 0..=255 {
                let mut other = packet.clone();
                other[at] = byte;
                for length in [at, at + 1, other.len()] {
                    let _ = names.reply(&other[..length.min(other.len())]);
                }
            }
        }
    }

    #[test]
    fn a_name_that_dns_does_not_allow_has_no_record() {
        let own: [IpAddr; 1] = ["10.71.0.1".parse().expect("an address")];
        for name in ["", "a..b", &"x".repeat(64)] {
            assert_eq!(Names::new([(name, &own[..])].into_iter()).records.len(), 0, "{name:?}");
        }
        assert!(is_for_server(&sent(PROTOCOL_UDP, PORT, b"")));
        assert!(!is_for_server(&[0x45; 20]));
        assert!(!is_for_server(&sent(PROTOCOL_UDP, PORT, b"")[..19]));
    }
}
