//! The targets for links, recordings and WLANs. The tests of the library run them with the inputs in
//! `fuzz/corpus` (`tests/suite/fuzz_corpus.rs`).

use lasthop::channel::{Channel, HeaderRule, Uniform, WithHeaders};
use lasthop::link::{Endpoint, LinkEndpoint};
use lasthop::live::recording::{Header, Recorder, replay};
use lasthop::live::{Network, Side};
use lasthop::medium::dcf::{
    Capture, MacParameters, Medium, MediumEvent, PairId, Phy, Position, Preamble, Propagation,
    Standard,
};
use lasthop::packet::{DeliveryReport, Ecn, Packet};
use lasthop::queue::QueueSite;
use lasthop::rng::Streams;
use lasthop::scenario::Scenario;
use lasthop::units::{Bytes, Decibels, Distance, Duration, Instant, Probability};
use std::collections::HashSet;
use std::path::Path;
use std::sync::OnceLock;

/// Protocols with a byte format, and a link with several services.
const PROTOCOLS: &[&str] = &[
    r#"{ kind = "raw" }"#,
    r#"{ kind = "selective-repeat", window = 8 }"#,
    r#"{ kind = "selective-repeat", window = 300 }"#,
    r#"{ kind = "go-back-n", window = 8 }"#,
    r#"{ kind = "stop-and-wait" }"#,
    r#"{ kind = "karn-rlp" }"#,
    r#"{ kind = "oos-rlp" }"#,
    r#"{ kind = "xor-fec" }"#,
    r#"{ kind = "xor-fec", block = 3, interleave = 4 }"#,
    r#"{ kind = "rlc-am" }"#,
    r#"{ kind = "harq", units = 4 }"#,
    r#"{ kind = "services", service.a.protocol = "raw", service.b.protocol = { kind = "selective-repeat", window = 8 } }"#,
];

/// Scenario of a link with losses, Snoop at one end and the protocol that `choice` selects.
fn scenario(choice: u8) -> Scenario {
    let protocol = PROTOCOLS[usize::from(choice) % PROTOCOLS.len()];
    let text = format!(
        r#"
name = "fuzz"
[link.air]
between = ["a", "b"]
rate = "2 Mbps"
delay = "5 ms"
queue = "10 packets"
protocol = {protocol}
agent = {{ kind = "snoop", at = "a" }}
errors = {{ kind = "uniform", loss = "20 %" }}
[flow.f]
from = "a"
to = "b"
transport = {{ kind = "udp" }}
app = {{ kind = "on-off", rate = "1 kbps", on = "1 s", off = "0 s", packet = "100 B" }}
[run]
duration = "1 s"
"#
    );
    let document = Scenario::from_toml(&text, Path::new(".")).expect("a scenario");
    document.points().expect("a point").remove(0).scenario
}

/// Copy of the live link of [`scenario`]. Each link is built once, which saves most of the time that
/// an input takes.
fn link(choice: u8) -> Network {
    static ALL: OnceLock<Vec<Network>> = OnceLock::new();
    let all = ALL.get_or_init(|| {
        let streams = Streams { seed: 1, replication: 0 };
        let build = |choice| Network::new(&scenario(choice as u8), streams, None);
        (0..PROTOCOLS.len()).map(|choice| build(choice).expect("a network")).collect()
    });
    all[usize::from(choice) % PROTOCOLS.len()].clone()
}

/// Byte formats of all protocols: any bytes decode to a frame or an error, and an active endpoint
/// receives each decoded frame without a panic. Every frame that it sends can be encoded.
///
/// Input: protocol, then for each frame its length and its bytes. At a length of 0 the endpoint sends.
pub fn codecs(data: &[u8]) {
    let Some((&choice, mut rest)) = data.split_first() else { return };
    let network = link(choice);
    let mut end: LinkEndpoint<Vec<u8>> =
        network.links()[0].end(Side::Forward).interface().endpoint.clone();
    let mut now = Instant::ZERO;
    while let Some((&length, more)) = rest.split_first() {
        now += Duration::from_millis(3);
        if end.next_timeout() <= now {
            end.handle_timeout(now);
        }
        let (bytes, after) = more.split_at(usize::from(length).min(more.len()));
        rest = after;
        if bytes.is_empty() {
            if end.wants_packet() {
                end.enqueue(now, vec![length; 40]);
            }
            if let Some(frame) = end.poll_transmit(now) {
                let mut form = Vec::new();
                end.encode(&frame, &mut form)
                    .expect("every frame of an endpoint has a byte format");
            }
        } else if let Ok(frame) = end.decode(bytes) {
            end.receive(now, frame);
        }
        while end.poll_deliver().is_some() {}
        while end.poll_event().is_some() {}
    }
}

/// Live links with arbitrary packets at arbitrary times: no panic, and only packets that were sent are
/// delivered.
///
/// Input: protocol, then for each packet the time since the previous one in units of 2^16 ns, side,
/// length and bytes.
pub fn network(data: &[u8]) {
    let Some((&choice, mut rest)) = data.split_first() else { return };
    let mut network = link(choice);
    let (mut now, mut known) = (0u64, HashSet::new());
    while let [pause, side, high, low, more @ ..] = rest {
        now += u64::from(*pause) << 16;
        let length = (usize::from(*high) << 8 | usize::from(*low)).min(more.len());
        let (packet, after) = more.split_at(length);
        rest = after;
        let side = Side::BOTH[usize::from(side & 1)];
        if network.input(Instant::from_nanos(now), 0, side, packet.to_vec()) {
            known.insert(packet.to_vec());
        }
    }
    network.advance(Instant::from_nanos(now + 20_000_000_000));
    while let Some(delivery) = network.poll_delivery() {
        assert!(known.contains(&delivery.packet), "a delivered packet was not sent");
    }
}

/// Recordings: any bytes are a recording or an error.
///
/// Input: if the lowest bit of the first byte is set, the records after a valid header, otherwise the
/// whole file. The other bits select the protocol.
pub fn recording(data: &[u8]) {
    let Some((&choice, records)) = data.split_first() else { return };
    if choice & 1 == 0 {
        let _ = replay(records);
        return;
    }
    let header = Header {
        scenario: scenario(choice >> 1),
        base: ".".to_owned(),
        streams: Streams { seed: 1, replication: 0 },
        mtu: None,
    };
    let mut file = Vec::new();
    Recorder::new(&mut file, &header).expect("memory");
    file.extend_from_slice(records);
    let _ = replay(&file[..]);
}

/// Queues of stations: every discipline, with limits down to less than one packet and parameters that
/// cause drops early.
const QUEUES: &[&str] = &[
    r#"{ kind = "drop-tail", limit = "3 packets" }"#,
    r#"{ kind = "drop-tail", limit = "900 B" }"#,
    r#"{ kind = "red", limit = "9 packets", min = "1 packet", max = "3 packets" }"#,
    r#"{ kind = "codel", limit = "9 packets", target = "1 us", interval = "10 us" }"#,
    r#"{ kind = "pie", limit = "9 packets", target = "1 ms", update = "1 ms" }"#,
    r#"{ kind = "fq-codel", limit = "1 packet" }"#,
    r#"{ kind = "fq-codel", limit = "100 B" }"#,
    r#"{ kind = "fq-codel", limit = "4 kB", target = "1 us", interval = "10 us", quantum = "100 B" }"#,
    r#"{ kind = "dualpi2", limit = "50 packets", target = "1 us", rtt_max = "3 us" }"#,
    r#"{ kind = "dualpi2", target = "1 ms", rtt_max = "3 ms", scheduler = "ts-fifo" }"#,
    r#"{ kind = "step", limit = "9 packets", threshold = "1 packet" }"#,
    r#"{ kind = "biased", limit = "2 packets" }"#,
];

/// Duration that `byte` selects, from 1 ns to 10 ms, about four values per decade.
fn span(byte: u8) -> Duration {
    let decade = 10u64.pow(u32::from(byte >> 2) % 8);
    Duration::from_nanos((decade * [1, 2, 4, 7][usize::from(byte & 3)]).min(10_000_000))
}

/// Scenario of a link with the queue that `choice` selects.
fn queued(choice: u8) -> &'static Scenario {
    static ALL: OnceLock<Vec<Scenario>> = OnceLock::new();
    let build = |queue: &&str| {
        let text = format!(
            r#"
name = "fuzz"
[link.air]
between = ["a", "b"]
rate = "2 Mbps"
delay = "5 ms"
queue = {queue}
[flow.f]
from = "a"
to = "b"
transport = {{ kind = "udp" }}
app = {{ kind = "on-off", rate = "1 kbps", on = "1 s", off = "0 s", packet = "100 B" }}
[run]
duration = "1 s"
"#
        );
        let document = Scenario::from_toml(&text, Path::new(".")).expect("a scenario");
        document.points().expect("a point").remove(0).scenario
    };
    &ALL.get_or_init(|| QUEUES.iter().map(build).collect())[usize::from(choice) % QUEUES.len()]
}

/// Three stations in a row, each with the selected queue, and pairs in both directions between the
/// middle one and each other. `bytes` contains the parameters.
fn cell(bytes: [u8; 11]) -> (Medium<Packet>, Vec<PairId>) {
    let [queue, kind, slot, sifs, timeout, windows, limits, threshold, delay, loss, place] = bytes;
    let standard = [Standard::B, Standard::A, Standard::G][usize::from(kind & 3) % 3];
    let phy = Phy { standard, preamble: Preamble::Long };
    let mut timing = phy.timing();
    // Values above 127 select the time of the standard.
    timing.slot = if slot < 128 { span(slot) } else { timing.slot };
    timing.sifs = if sifs < 128 { span(sifs) } else { timing.sifs };
    if timeout < 128 {
        timing.response_timeout = span(timeout);
    }
    let [control, highest] =
        [standard.rates().min(), standard.rates().max()].map(Option::unwrap_or_default);
    let rate = if kind & 4 == 0 { control } else { highest };
    let parameters = MacParameters {
        header: Bytes::new(36),
        rts_threshold: Bytes::new(u64::from(threshold) * 8),
        short_retry_limit: u32::from(limits & 15) + 1,
        long_retry_limit: u32::from(limits >> 4) + 1,
        cw_min: u32::from(windows & 15),
        cw_max: u32::from(windows & 15) + u32::from(windows >> 4),
        retry_delay: if delay < 128 { span(delay) } else { Duration::ZERO },
        rate,
    };
    let streams = Streams { seed: 1, replication: 0 };
    let mut medium = Medium::new(phy, timing, kind & 8 != 0);
    medium.report_events();
    let [header, packet] = [parameters.header, Bytes::new(2048)];
    let stations = ["left", "middle", "right"].map(|component| {
        let site = QueueSite { streams: &streams, component, header, packet };
        let queue = queued(queue).links[0].forward.queue.build(&site);
        medium.add_station(parameters, queue, streams.stream(component, "back-off"))
    });
    let share = |sixteenths: u8| Probability::new(f64::from(sixteenths) / 16.0).expect("at most 1");
    let mut pair = |(number, [from, to]): (usize, [usize; 2])| {
        let component = format!("pair {number}");
        let errors = Channel::Uniform(Uniform::new(share(loss & 15), &streams, &component));
        let rule = HeaderRule::Share(share(loss >> 4));
        let channel = WithHeaders::new(errors, rule, &streams, &component);
        let ends = [stations[from], stations[to]];
        let pair = medium.add_pair(ends, [rate, control], Channel::WithHeaders(Box::new(channel)));
        medium.keep_outcomes(pair);
        pair
    };
    let pairs = [[0, 1], [1, 0], [2, 1], [1, 2]].into_iter().enumerate().map(&mut pair).collect();
    if kind & 16 != 0 {
        medium.set_away(stations[0], &[[2_000_000, 9_000_000].map(Instant::from_nanos)]);
    }
    if place & 1 != 0 {
        let metres = Distance::from_metres;
        let propagation = Propagation {
            transmission: metres(250),
            carrier_sense: metres(if place & 2 != 0 { 250 } else { 550 }),
            interference: metres(550),
            capture_threshold: Some(Decibels::new(u64::from(place >> 3))),
            capture: if place & 4 != 0 { Capture::Strongest } else { Capture::First },
            exponent: 4.0,
            crossover: metres(86),
        };
        let places = [0, 240, 480].map(|x| Position { x: metres(x), y: Distance::default() });
        medium.place(&propagation, &places);
    }
    (medium, pairs)
}

/// Numbers of packets by outcome.
#[derive(Default)]
struct Outcomes {
    delivered: HashSet<u32>,
    finished: HashSet<u32>,
    dropped: HashSet<u32>,
}

impl Outcomes {
    /// Runs the medium up to `until`. Asserts that no event is earlier than `last` or the event before.
    fn run(&mut self, medium: &mut Medium<Packet>, mut last: Instant, until: Instant) {
        while medium.next_timeout() <= until {
            let now = medium.next_timeout();
            assert!(now >= last, "time runs backwards");
            last = now;
            medium.handle_timeout(now);
            self.note(medium);
        }
    }

    /// Records deliveries, outcomes and drops. Asserts that no packet has two of a kind.
    fn note(&mut self, medium: &mut Medium<Packet>) {
        while let Some(delivery) = medium.poll_deliver() {
            let is_new = delivery.is_damaged || self.delivered.insert(delivery.packet.tcp.seq);
            assert!(is_new, "a packet is delivered twice");
        }
        while let Some(outcome) = medium.poll_outcome() {
            let is_first = outcome.fate == DeliveryReport::Retrying
                || self.finished.insert(outcome.packet.tcp.seq);
            assert!(is_first, "a packet is acknowledged or discarded twice");
        }
        while let Some(event) = medium.poll_event() {
            if let MediumEvent::Dropped { packet, .. } = event {
                assert!(self.dropped.insert(packet.tcp.seq), "a packet is dropped twice");
            }
        }
    }
}

/// Stations of 802.11 DCF with any queue discipline, times, windows and positions: no panic, and time
/// advances. Each packet that joins a queue is dropped or finished, and delivered intact at most once.
///
/// Input: eleven bytes of parameters, then for each packet the time since the previous one in units of
/// 2^14 ns, a pair with flow and ECN field, and a length in units of 8 B.
pub fn dcf(data: &[u8]) {
    let Some((&parameters, packets)) = data.split_first_chunk() else { return };
    let (mut medium, pairs) = cell(parameters);
    let (mut now, mut joined, mut outcomes) = (Instant::ZERO, HashSet::new(), Outcomes::default());
    for (number, packet) in packets.chunks_exact(3).enumerate() {
        let (last, number, choice) = (now, number as u32, packet[1]);
        now += Duration::from_nanos(u64::from(packet[0]) << 14);
        outcomes.run(&mut medium, last, now);
        let (hop, bytes) = (u32::from(choice >> 4), u32::from(packet[2]) * 8 + 20);
        let mut packet = Packet { hop, bytes, ..Packet::default() };
        packet.tcp.seq = number;
        packet.tcp.ecn = [Ecn::NotEct, Ecn::Ect1, Ecn::Ect0, Ecn::Ce][usize::from(choice >> 2 & 3)];
        if medium.enqueue(now, pairs[usize::from(choice & 3)], packet) {
            joined.insert(number);
        }
        outcomes.note(&mut medium);
    }
    outcomes.run(&mut medium, now, now + Duration::from_secs(100_000));
    let Outcomes { delivered, finished, dropped } = outcomes;
    assert!(delivered.is_subset(&joined) && finished.is_disjoint(&dropped));
    let ended: HashSet<_> = finished.union(&dropped).copied().collect();
    assert_eq!(ended, joined, "packets that joined a queue are finished or dropped");
}
