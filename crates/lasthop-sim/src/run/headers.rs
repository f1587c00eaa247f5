//! IPv4, TCP and UDP headers (RFC 791, 9293, 768) for the packets of a capture.
//!
//! Packets of a run are descriptors with all data that TCP uses. Missing fields are filled in:
//!
//! - The host with index `i`, in the order in which links name hosts, has the address 10.0.0.0 + 1
//!   + `i`.
//! - The port of the acceptor, and both ports of datagrams, are 40000 + the index of the flow. Each
//!   connection instance has its own opener port, from 49152 onwards.
//! - A SYN contains the options that its connection uses: MSS, SACK permitted, timestamps, and the
//!   window scale if the window needs it. Without a handshake the peer would not know the scale.
//!   Therefore a window above 65535 is then shown as 65535.
//! - With one-way transfers, data segments have no acknowledgment number. They are shown with 1,
//!   which acknowledges everything that is sent in the other direction.
//! - A TCP header is padded with no-operation options up to the length that the scenario charges,
//!   if possible. It is never shorter than its options require.
//! - PSH is set if the sender has set it, if a segment is not full, or if it ends a file. Payload
//!   bytes are zero; a datagram begins with its number.
//! - Datagrams of QUIC contain the bytes of the stack; the port of the acceptor is 443.

use crate::scenario::{App, Flow, Scenario, TcpKeys};
use crate::sim::ids::{ConnectionId, FlowId};
use crate::sim::senders::Sender;
use crate::transport::{End, Observed, TransportMachine};
use etherparse::TcpOptionElement as TcpOption;
use etherparse::{IpEcn, IpNumber, Ipv4Header, TcpHeader, TcpOptions, UdpHeader};
use lasthop_base::packet::{self, Packet, flags};
use lasthop_tcp::Config;
use std::collections::HashMap;

/// IPv4 and TCP headers without options.
const PLAIN_HEADERS: u32 = 40;
/// IPv4 and UDP headers.
const DATAGRAM_HEADERS: u32 = 28;
/// Port of HTTP/3, which tools recognize as QUIC.
const QUIC_PORT: u16 = 443;
/// First opener port, and number of opener ports.
const OPENER_PORTS: (u16, u32) = (49_152, 16_384);
/// Port of the first flow, and number of flow ports.
const FLOW_PORTS: (u16, u32) = (40_000, 9_152);
/// Maximum window without scaling.
const PLAIN_WINDOW: u32 = 65_535;
/// Time to live (hop limit) of all packets.
const TIME_TO_LIVE: u8 = 64;

/// A packet as bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Bytes {
    /// The bytes kept in the capture.
    pub data: Vec<u8>,
    /// The original length.
    pub length: u32,
}

/// Generates the headers of packets.
pub(super) struct Writer<'a> {
    flows: &'a [Flow],
    hosts: Vec<&'a str>,
    senders: Vec<Sender>,
    /// The transports by connection, which have the contents of their packets.
    transports: Vec<TransportMachine>,
    /// TCP configurations by flow; `None` for flows without TCP.
    configs: Vec<Option<Config>>,
    /// Numbers of connection instances in the order of their first packets.
    connections: HashMap<(ConnectionId, u32), u32>,
    /// The payload.
    zeros: Vec<u8>,
}

impl<'a> Writer<'a> {
    pub fn new(
        scenario: &'a Scenario,
        senders: Vec<Sender>,
        transports: Vec<TransportMachine>,
    ) -> Self {
        let mut hosts: Vec<&str> = Vec::new();
        for host in scenario.links.iter().flat_map(|link| &link.between) {
            if !hosts.contains(&host.as_str()) {
                hosts.push(host);
            }
        }
        let config = |flow: &Flow| flow.transport.tcp().map(TcpKeys::config);
        let flows = &scenario.flows;
        let configs = flows.iter().map(config).collect();
        let (connections, zeros) = (HashMap::new(), vec![0; 65_535]);
        Writer { flows, hosts, senders, transports, configs, connections, zeros }
    }

    /// The hosts and their addresses.
    pub fn hosts(&self) -> impl Iterator<Item = (&'a str, [u8; 4])> {
        self.hosts.iter().enumerate().map(|(index, host)| (*host, address(index)))
    }

    /// The address of a host.
    pub fn address(&self, host: &str) -> [u8; 4] {
        let place = self.hosts.iter().position(|known| *known == host);
        address(place.unwrap_or_default())
    }

    /// Registers a packet, which assigns a number to its connection instance.
    pub fn meet(&mut self, packet: &Packet) {
        let sender = self.senders[packet.hop as usize];
        if self.configs[sender.flow.index()].is_some() {
            let next = self.connections.len() as u32;
            self.connections.entry((sender.connection, packet.plain_incarnation())).or_insert(next);
        }
    }

    /// Returns the bytes of a registered packet, truncated to `snap` bytes.
    pub fn write(&self, packet: &Packet, snap: usize) -> Bytes {
        let sender = self.senders[packet.hop as usize];
        let flow = &self.flows[sender.flow.index()];
        let ends = if sender.is_source { [&flow.from, &flow.to] } else { [&flow.to, &flow.from] };
        let [source, destination] = ends.map(|host| {
            address(self.hosts.iter().position(|known| known == host).unwrap_or_default())
        });
        let ip = Ipv4Header {
            source,
            destination,
            time_to_live: TIME_TO_LIVE,
            dont_fragment: true,
            ecn: ecn(packet.tcp.ecn),
            ..Ipv4Header::default()
        };
        match &self.configs[sender.flow.index()] {
            Some(config) => self.segment(ip, config, &sender, packet, snap),
            None => {
                let transport = self.transports.get(sender.connection.index());
                match transport.and_then(|transport| transport.payload(packet)) {
                    Some(payload) => self.real_datagram(ip, &sender, &payload, snap),
                    None => self.datagram(ip, sender.flow, packet, snap),
                }
            }
        }
    }

    fn segment(
        &self,
        mut ip: Ipv4Header,
        config: &Config,
        sender: &Sender,
        packet: &Packet,
        snap: usize,
    ) -> Bytes {
        let (flow, is_opener) = (sender.flow, sender.end == End::Opener);
        let opener = {
            let number = self.connections.get(&(sender.connection, packet.plain_incarnation()));
            OPENER_PORTS.0 + (number.copied().unwrap_or_default() % OPENER_PORTS.1) as u16
        };
        let acceptor = flow_port(flow);
        let (from, to) = if is_opener { (opener, acceptor) } else { (acceptor, opener) };
        let fields = &packet.tcp;
        let is_syn = fields.flags & flags::SYN != 0;
        let mut tcp = TcpHeader::new(from, to, fields.seq, 0);
        tcp.syn = is_syn;
        tcp.fin = fields.flags & flags::FIN != 0;
        tcp.ack = fields.flags & flags::ACK != 0;
        tcp.ece = fields.flags & flags::ECE != 0;
        tcp.cwr = fields.flags & flags::CWR != 0;
        tcp.acknowledgment_number = if tcp.ack { fields.ack } else { 0 };
        let mut window = fields.window;
        if config.one_way {
            if is_opener && !is_syn {
                (tcp.ack, tcp.acknowledgment_number) = (true, 1);
            } else if !is_opener {
                // The acceptor's SYN, if any, is never sent.
                tcp.sequence_number = 1;
            }
        }
        if !tcp.ack || config.one_way && is_opener {
            window = (config.receive_window * config.segment.get() as f64) as u32;
        }
        let shift = if is_syn { 0 } else { window_shift(config) };
        tcp.window_size = (window >> shift).min(PLAIN_WINDOW) as u16;
        let end = u64::from(fields.seq) + u64::from(fields.payload);
        let ends_file = match &self.flows[flow.index()].app {
            App::File(file) => is_opener && end > file.size.get(),
            _ => false,
        };
        let is_short = u64::from(fields.payload) < config.segment.get();
        tcp.psh = fields.payload > 0 && (is_short || ends_file) || fields.is_pushed();
        // At most 40 bytes by construction.
        if let Ok(options) = TcpOptions::try_from_elements(&options(config, fields)) {
            tcp.options = options;
        }
        let most = u32::from(u16::MAX) - PLAIN_HEADERS - tcp.options.len() as u32;
        let payload = &self.zeros[..fields.payload.min(most) as usize];
        ip.protocol = IpNumber::TCP;
        ip.total_len = (20 + tcp.header_len() + payload.len()) as u16;
        ip.header_checksum = ip.calc_header_checksum();
        tcp.checksum = tcp.calc_checksum_ipv4(&ip, payload).unwrap_or_default();
        let mut header = tcp.to_bytes();
        if fields.flags & flags::NOTICE != 0 && !fields.is_pushed() {
            set_notice(&mut header, fields.flags);
        }
        cut(&[&ip.to_bytes(), &header, payload], snap)
    }

    /// Returns a datagram of a transport with real bytes.
    fn real_datagram(
        &self,
        mut ip: Ipv4Header,
        sender: &Sender,
        payload: &[u8],
        snap: usize,
    ) -> Bytes {
        ip.protocol = IpNumber::UDP;
        ip.total_len = (DATAGRAM_HEADERS as usize + payload.len()) as u16;
        ip.header_checksum = ip.calc_header_checksum();
        let opener = OPENER_PORTS.0 + (sender.connection.index() as u32 % OPENER_PORTS.1) as u16;
        let ports = [opener, QUIC_PORT];
        let [from, to] = if sender.end == End::Opener { ports } else { [ports[1], ports[0]] };
        // The length fits by construction.
        let udp = UdpHeader::with_ipv4_checksum(from, to, &ip, payload).unwrap_or_default();
        cut(&[&ip.to_bytes(), &udp.to_bytes(), payload], snap)
    }

    fn datagram(&self, mut ip: Ipv4Header, flow: FlowId, packet: &Packet, snap: usize) -> Bytes {
        // A segment of a packet only has its own length.
        let whole = self.flows[flow.index()].app.packet();
        let whole = whole.map_or(packet.bytes.into(), |size| size.get());
        let length = (whole as u32).clamp(DATAGRAM_HEADERS, u16::MAX.into()) - DATAGRAM_HEADERS;
        let mut payload = vec![0; length as usize];
        let number = packet.datagram_number();
        for (byte, value) in payload.iter_mut().zip(number.to_be_bytes()) {
            *byte = value;
        }
        ip.protocol = IpNumber::UDP;
        ip.identification = number as u16;
        ip.total_len = (DATAGRAM_HEADERS + length) as u16;
        ip.header_checksum = ip.calc_header_checksum();
        let port = flow_port(flow);
        // The length fits by construction.
        let udp = UdpHeader::with_ipv4_checksum(port, port, &ip, &payload).unwrap_or_default();
        cut(&[&ip.to_bytes(), &udp.to_bytes(), &payload], snap)
    }
}

/// Sets the reserved bits of explicit loss notification, which the library does not support, and
/// corrects the checksum.
fn set_notice(header: &mut [u8], notice: u8) {
    let bits = [flags::ERSN, flags::ELN].into_iter().zip(flags::NOTICE_ON_WIRE);
    let reserved = bits.filter(|(flag, _)| notice & flag != 0).fold(0, |sum, (_, bit)| sum | bit);
    header[12] |= reserved;
    // The bits were 0: the sum of the words grows by the value of the bits, in one's complement.
    let sum = u32::from(!u16::from_be_bytes([header[16], header[17]])) + (u32::from(reserved) << 8);
    let folded = ((sum & 0xffff) + (sum >> 16)) as u16;
    header[16..18].copy_from_slice(&(!folded).to_be_bytes());
}

fn ecn(ecn: packet::Ecn) -> IpEcn {
    match ecn {
        packet::Ecn::NotEct => IpEcn::NotEct,
        packet::Ecn::Ect1 => IpEcn::Ect1,
        packet::Ecn::Ect0 => IpEcn::Ect0,
        packet::Ecn::Ce => IpEcn::CongestionExperienced,
    }
}

fn address(host: usize) -> [u8; 4] {
    let [_, a, b, c] = (host as u32 + 1).to_be_bytes();
    [10, a, b, c]
}

fn flow_port(flow: FlowId) -> u16 {
    FLOW_PORTS.0 + (flow.index() as u32 % FLOW_PORTS.1) as u16
}

/// Returns the window scale (RFC 7323, section 2); 0 if none is needed or no SYN can announce it.
fn window_shift(config: &Config) -> u8 {
    if !config.handshake || config.one_way {
        return 0;
    }
    let window = (config.receive_window * config.segment.get() as f64) as u32;
    (0..14).find(|shift| window >> shift <= PLAIN_WINDOW).unwrap_or(14)
}

/// Returns the options of a segment, preceded by no-operation options for the usual alignment, and
/// padded to the header length that the scenario charges.
fn options(config: &Config, fields: &packet::TcpHeader) -> Vec<TcpOption> {
    use TcpOption::Noop;
    let mut options = Vec::new();
    let mut bytes = 0;
    let mut put = |elements: &[TcpOption], length: u32| {
        options.extend_from_slice(elements);
        bytes += length;
    };
    if fields.flags & flags::SYN != 0 {
        let segment = config.segment.get().min(u16::MAX.into()) as u16;
        put(&[TcpOption::MaximumSegmentSize(segment)], 4);
        if config.sack {
            put(&[Noop, Noop, TcpOption::SelectiveAcknowledgementPermitted], 4);
        }
        if let shift @ 1.. = window_shift(config) {
            put(&[Noop, TcpOption::WindowScale(shift)], 4);
        }
    }
    if fields.has_timestamps {
        let (value, echo) = fields.options.timestamps;
        put(&[Noop, Noop, TcpOption::Timestamp(value, echo)], 12);
    }
    if let Some((&first, rest)) =
        fields.sack_blocks()[..usize::from(fields.sack_blocks)].split_first()
    {
        let mut more = [None; 3];
        for (place, &block) in more.iter_mut().zip(rest) {
            *place = Some(block);
        }
        let length = 12 + 8 * rest.len() as u32;
        put(&[Noop, Noop, TcpOption::SelectiveAcknowledgement(first, more)], length);
    }
    let charged =
        config.wire_bytes(fields.payload, fields.sack_blocks).saturating_sub(fields.payload);
    let room = charged.saturating_sub(PLAIN_HEADERS).min(40) / 4 * 4;
    options.extend((bytes..room).map(|_| Noop));
    options
}

/// Concatenates the parts, truncated to `snap` bytes.
fn cut(parts: &[&[u8]], snap: usize) -> Bytes {
    let length = parts.iter().map(|part| part.len() as u32).sum();
    let data = parts.iter().copied().flatten().copied().take(snap).collect();
    Bytes { data, length }
}

#[cfg(test)]
mod tests {
    use super::*;
    use etherparse::{PacketHeaders, TransportHeader};
    use lasthop_base::units::Bytes as Size;
    use lasthop_tcp::presets::{Overrides, Profile, Variant, config};

    fn parts(config: &Config, fields: packet::TcpHeader) -> usize {
        let options = TcpOptions::try_from_elements(&options(config, &fields)).expect("they fit");
        options.len()
    }

    #[test]
    fn headers_have_the_size_that_the_scenario_charges() {
        let rfc = config(Variant::Sack, Profile::Rfc, &Overrides::default());
        let data = packet::TcpHeader { payload: 1000, ..Default::default() };
        assert_eq!(parts(&rfc, data), 0);
        let stamped = Config { timestamps: true, ..rfc };
        let three = packet::TcpHeader {
            flags: flags::ACK,
            has_timestamps: true,
            sack_blocks: 3,
            ..Default::default()
        };
        assert_eq!(parts(&stamped, three), 40);
        // Headers of 52 B are padded, those of 20 B cannot be cut; 200 B are more than TCP has.
        for (charged, options) in [(52, 12), (55, 12), (20, 0), (200, 40)] {
            let set = Config { header: Size::new(charged), ..rfc };
            assert_eq!(parts(&set, data), options, "{charged}");
        }
    }

    #[test]
    fn windows_beyond_16_bits_need_a_handshake() {
        let wide = Overrides { receive_window: Some(100.0), ..Overrides::default() };
        let rfc = config(Variant::Reno, Profile::Rfc, &wide);
        assert_eq!(window_shift(&rfc), 2);
        assert_eq!(window_shift(&Config { handshake: false, ..rfc }), 0);
        assert_eq!(window_shift(&Config { receive_window: 20.0, ..rfc }), 0);
        assert_eq!(window_shift(&Config { receive_window: 1e6, ..rfc }), 14);
    }

    #[test]
    fn a_segment_is_what_its_descriptor_says() {
        let text = "name = \"one\"\n[link.l]\nbetween = [\"a\", \"b\"]\nrate = \"1 Mbps\"\n\
            delay = \"1 ms\"\n[flow.f]\nfrom = \"b\"\nto = \"a\"\n\
            transport = { kind = \"tcp\", variant = \"sack\", profile = \"rfc\" }\n\
            app = { kind = \"file\", size = \"5 kB\" }\n";
        let document = Scenario::from_toml(text, std::path::Path::new(".")).expect("a scenario");
        let scenario = document.points().expect("a point").remove(0).scenario;
        let sender = Sender {
            flow: FlowId::new(0),
            connection: ConnectionId::new(0),
            end: End::Acceptor,
            is_source: false,
        };
        let mut writer = Writer::new(&scenario, vec![sender], Vec::new());
        let mut fields = packet::TcpHeader {
            seq: 1,
            ack: 1461,
            window: 20_000,
            flags: flags::ACK | flags::ECE,
            ecn: packet::Ecn::Ce,
            ..Default::default()
        };
        fields.set_sack_blocks(&[(2921, 4381)]);
        let packet = Packet { bytes: 52, tcp: fields, ..Packet::default() };
        writer.meet(&packet);
        let bytes = writer.write(&packet, 100);
        assert_eq!((bytes.length, bytes.data.len()), (52, 52));
        let read = PacketHeaders::from_ip_slice(&bytes.data).expect("an IP packet");
        let Some(TransportHeader::Tcp(tcp)) = read.transport else { panic!("no TCP") };
        assert_eq!((tcp.source_port, tcp.destination_port), (40_000, 49_152));
        assert_eq!((bytes.data[1], tcp.ece, tcp.cwr), (3, true, false));
        // The window of 64 segments needs a scale: the field counts in twos.
        assert_eq!((tcp.acknowledgment_number, tcp.window_size), (1461, 10_000));
        let options: Vec<_> = tcp.options_iterator().flatten().collect();
        assert!(options.contains(&TcpOption::SelectiveAcknowledgement((2921, 4381), [None; 3])));
        // The far end of its flow is the first host: 10.0.0.1.
        assert_eq!(bytes.data[12..20], [10, 0, 0, 1, 10, 0, 0, 2]);
        assert_eq!(writer.write(&packet, 30).data, bytes.data[..30]);
    }
}
