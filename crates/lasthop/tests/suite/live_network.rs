//! Live links without devices: the network of a scenario with real packets and a simulated clock.

use lasthop::link::{Endpoint, LinkEndpoint};
use lasthop::live::change::Change;
use lasthop::live::recording::{Header, Recorder, RecordingError, replay};
use lasthop::live::{Delivery, Network, Side};
use lasthop::rng::{Stream, Streams};
use lasthop::run::{Options, run};
use lasthop::scenario::Scenario;
use lasthop::units::Instant;
use proptest::prelude::*;
use std::collections::HashMap;
use std::path::Path;

const STREAMS: Streams = Streams { seed: 5, replication: 3 };

/// Every protocol with a byte form, with the errors of a lossy link.
const PROTOCOLS: &[&str] = &[
    r#"{ kind = "raw" }"#,
    r#"{ kind = "selective-repeat", window = 32 }"#,
    r#"{ kind = "go-back-n", window = 32 }"#,
    r#"{ kind = "stop-and-wait" }"#,
    r#"{ kind = "karn-rlp" }"#,
    r#"{ kind = "oos-rlp" }"#,
    r#"{ kind = "xor-fec", parity_timeout = "20 ms" }"#,
    r#"{ kind = "rlc-am" }"#,
    r#"{ kind = "harq" }"#,
    r#"[{ kind = "rlc-am" }, { kind = "harq", max_transmissions = 1 }]"#,
    r#"[{ kind = "selective-repeat", window = 64 }, { kind = "xor-fec", in_order = true, parity_timeout = "20 ms" }]"#,
    r#"[{ kind = "go-back-n", window = 32 }, { kind = "stop-and-wait", retries = 1 }, { kind = "xor-fec", parity_timeout = "20 ms" }]"#,
];

/// A link of 2 Mbps and 20 ms that loses one frame in twenty, with a flow of a packet of 1000 B every
/// 10 ms for 20 s.
fn text(protocol: &str, more: &str) -> String {
    format!(
        r#"
name = "live"
[link.air]
between = ["a", "b"]
rate = "2 Mbps"
delay = "20 ms"
queue = "50 packets"
protocol = {protocol}
errors = {{ kind = "uniform", loss = "5 %" }}
{more}
[flow.f]
from = "a"
to = "b"
transport = {{ kind = "udp" }}
app = {{ kind = "on-off", rate = "800 kbps", on = "100 s", off = "0 s", packet = "1000 B", replay = "per-packet" }}
[run]
duration = "19995 ms"
seed = 5
"#
    )
}

fn scenario(protocol: &str, more: &str) -> Scenario {
    let document = Scenario::from_toml(&text(protocol, more), Path::new(".")).expect("a scenario");
    document.points().expect("points").remove(0).scenario
}

/// Returns a UDP packet of `bytes` bytes.
fn packet(number: u32, bytes: usize) -> Vec<u8> {
    let mut packet = vec![0x45, 0];
    packet.extend((bytes as u16).to_be_bytes());
    packet.extend([0, 0, 0, 0, 64, 17, 0, 0, 10, 71, 0, 1, 10, 71, 0, 2]);
    packet.extend(number.to_be_bytes());
    packet.resize(bytes, number as u8);
    packet
}

fn at(millis: u64) -> Instant {
    Instant::from_nanos(millis * 1_000_000)
}

fn metrics(network: &Network, scenario: &Scenario) -> HashMap<String, f64> {
    let mut all = HashMap::new();
    network.metrics(scenario, &mut |entity, metric, value| {
        all.insert(format!("{entity}.{metric}"), value.value());
    });
    all
}

/// A delay that increases, and decreases by more than the interval between packets.
const DELAYS: &str = r#"{ kind = "steps", at = [["0 s", "20 ms"], ["3 s", "70 ms"], ["5 s", "8 ms"]], repeat = "7 s" }"#;

/// Equal arrivals cause equal losses and equal frames as in the simulator, also with a changing
/// delay.
#[test]
fn a_live_link_does_what_the_simulator_does() {
    for (delay, protocol) in
        ["\"20 ms\"", DELAYS].iter().flat_map(|delay| PROTOCOLS.iter().map(move |one| (delay, one)))
    {
        let text = text(protocol, "").replace("delay = \"20 ms\"", &format!("delay = {delay}"));
        let document = Scenario::from_toml(&text, Path::new(".")).expect("a scenario");
        let scenario = document.points().expect("points").remove(0).scenario;
        let options = Options { replications: 1, first_replication: 3, seed: 5, jobs: 1 };
        let points = [scenario.clone()];
        let simulated = run(&points, &options, &mut |_| true).expect("a run");
        // The maximum packet length determines timers: that of the flow in a simulation, the MTU in
        // live links.
        let mut network = Network::new(&scenario, STREAMS, Some(1000)).expect("a network");
        for number in 1..2000 {
            assert!(network.input(at(number * 10), 0, Side::Forward, packet(number as u32, 1000)));
        }
        network.advance(at(19_995));
        let live = metrics(&network, &scenario);
        let mut compared = 0;
        for (name, value) in simulated.metrics.iter().zip(&simulated.rows[0].values) {
            let Some(own) = live.get(name) else { continue };
            let same = own == value || own.is_nan() && value.is_nan();
            assert!(same, "{protocol}: {name}: live {own}, simulated {value}");
            compared += 1;
        }
        assert!(compared >= 10, "{protocol}: {compared} metrics in common");
        let up = live["link.air.forward.packets_delivered"];
        let place = simulated.metrics.iter().position(|name| name == "flow.f.packets_delivered");
        assert_eq!(up, simulated.rows[0].values[place.expect("a metric")], "{protocol}");
    }
}

/// Returns random arrivals in both directions, with the resulting output.
fn drive(network: &mut Network, draws: &mut Stream, lateness: u64) -> Vec<Delivery> {
    let mut arrivals = STREAMS.stream("test", "arrivals");
    let (mut now, mut out) = (0, Vec::new());
    for number in 0..400 {
        let next = now + arrivals.bits() % 8_000_000;
        // Wakes in between, with random lateness.
        while lateness > 0 && now < next {
            now = (now + 1 + draws.bits() % lateness).min(next);
            network.advance(Instant::from_nanos(now));
        }
        now = next;
        let side = if arrivals.bits().is_multiple_of(3) { Side::Reverse } else { Side::Forward };
        let bytes = 24 + arrivals.bits() as usize % 1400;
        network.input(Instant::from_nanos(now), 0, side, packet(number, bytes));
        out.extend(std::iter::from_fn(|| network.poll_delivery()));
    }
    network.advance(Instant::from_nanos(now + 10_000_000_000));
    out.extend(std::iter::from_fn(|| network.poll_delivery()));
    out
}

/// The output depends on the arrivals only, not on the times at which the driver wakes.
#[test]
fn late_wakes_change_nothing() {
    for protocol in PROTOCOLS {
        let scenario = scenario(protocol, "");
        let build = || Network::new(&scenario, STREAMS, None).expect("a network");
        let mut draws = STREAMS.stream("test", "wakes");
        let prompt = drive(&mut build(), &mut draws, 0);
        // Stop-and-wait drops more than half at its queue.
        assert!(prompt.len() > 100, "{protocol}: {} packets", prompt.len());
        assert!(prompt.is_sorted_by_key(|delivery| delivery.at), "{protocol}");
        for lateness in [100_000, 5_000_000, 300_000_000] {
            assert!(drive(&mut build(), &mut draws, lateness) == prompt, "{protocol}, {lateness}");
        }
    }
}

/// Returns a recording of random traffic.
fn recording(protocol: &str) -> Vec<u8> {
    let scenario = scenario(protocol, "");
    let header =
        Header { scenario: scenario.clone(), base: ".".to_owned(), streams: STREAMS, mtu: None };
    let mut network = Network::new(&scenario, STREAMS, None).expect("a network");
    network.keep_frames();
    let mut file = Vec::new();
    let mut recorder = Recorder::new(&mut file, &header).expect("memory");
    for number in 0..200 {
        let (now, side) = (at(u64::from(number) * 7), Side::BOTH[number as usize % 2]);
        let packet = packet(number, 100 + number as usize * 5);
        recorder.arrival(now, 0, side, &packet).expect("memory");
        network.input(now, 0, side, packet);
        while let Some(delivery) = network.poll_delivery() {
            recorder.delivery(&delivery).expect("memory");
        }
        network.drain_frames().for_each(|frame| recorder.frame(&frame).expect("memory"));
    }
    network.advance(at(3000));
    while let Some(delivery) = network.poll_delivery() {
        recorder.delivery(&delivery).expect("memory");
    }
    network.drain_frames().for_each(|frame| recorder.frame(&frame).expect("memory"));
    recorder.end(at(3000)).expect("memory");
    file
}

/// Returns the offset of the first delivery in a recording.
fn first_delivery(file: &[u8]) -> usize {
    let lines = file.iter().enumerate().filter(|&(_, &byte)| byte == b'\n');
    let mut place = lines.map(|(place, _)| place + 1).nth(1).expect("two lines");
    loop {
        place += match file[place] {
            b'A' => 16 + usize::from(u16::from_le_bytes([file[place + 12], file[place + 13]])),
            b'F' => 29,
            b'D' => return place,
            other => panic!("a record of kind {other}"),
        };
    }
}

#[test]
fn a_recording_replays_to_the_byte_and_nanosecond() {
    for protocol in PROTOCOLS {
        let file = recording(protocol);
        let replayed = replay(&file[..]).expect("a recording");
        assert_eq!(replayed.difference, None, "{protocol}");
        assert!(replayed.is_complete && replayed.arrivals == 200, "{protocol}");
        assert!(replayed.same > 200, "{protocol}: {} outputs", replayed.same);
        // Truncated, as by a killed driver: the existing records agree.
        let cut = replay(&file[..file.len() * 2 / 3]).expect("a recording");
        assert_eq!((cut.difference, cut.is_complete), (None, false), "{protocol}");
        assert!(cut.same > 50, "{protocol}: {} outputs", cut.same);
        // Another hash of a delivered packet.
        let mut changed = file.clone();
        let place = first_delivery(&file);
        changed[place + 23] ^= 1;
        let other = replay(&changed[..]).expect("a recording");
        assert!(other.difference.is_some_and(|what| what.contains("Delivery")), "{protocol}");
    }
}

#[test]
fn what_is_no_recording_is_refused() {
    let file = recording(PROTOCOLS[0]);
    let error = |bytes: &[u8]| replay(bytes).expect_err("no recording").to_string();
    assert!(error(b"").contains("expected a recording of lasthop live"));
    assert!(error(b"lasthop recording 9\n").contains("another first line"));
    assert!(
        error(b"lasthop recording 1\n{}\n").contains("scenario"),
        "{}",
        error(b"lasthop recording 1\n{}\n")
    );
    let mut end = file.clone();
    let place = end.len() - 9;
    end[place] = b'X';
    assert!(error(&end).contains("a record of kind 0x58"));
    assert!(matches!(replay(&end[..]), Err(RecordingError::Format { .. })));
    // A time that the clock never reaches.
    let mut late = file;
    let place = late.len() - 8;
    late[place..].fill(0xff);
    assert!(error(&late).contains("expected up to 30 days"), "{}", error(&late));
}

#[test]
fn what_has_no_bytes_is_refused_by_name() {
    let refusal = |text: &str| {
        let document = Scenario::from_toml(text, Path::new(".")).expect("a scenario");
        let scenario = document.points().expect("points").remove(0).scenario;
        Network::new(&scenario, STREAMS, None).expect_err("refused").to_string()
    };
    let ideal = refusal(&text(r#"{ kind = "ideal-sr" }"#, ""));
    assert!(ideal.starts_with("link.air.protocol: found \"ideal-sr\""), "{ideal}");
    let services =
        r#"{ kind = "services", service.one.protocol = "raw", service.two.protocol = "ideal-sr" }"#;
    let nested = refusal(&text(services, ""));
    assert!(nested.starts_with("link.air.protocol.service.two.protocol: found"), "{nested}");
    let radio = "\n[radio.office]\nbase = \"b\"\nstations = [\"c\"]\n";
    let text = text(PROTOCOLS[0], "");
    let radio = text.replace("[flow.f]", &format!("{radio}[flow.f]"));
    assert!(refusal(&radio).starts_with("radio.office: found"), "{}", refusal(&radio));
    let scenario = scenario(PROTOCOLS[0], "mtu = \"1200 B\"");
    let network = |mtu| Network::new(&scenario, STREAMS, mtu).map(|network| network.mtu(0));
    assert_eq!(network(None), Ok(1200));
    assert!(network(Some(1500)).is_err() && network(Some(60)).is_err());
}

#[test]
fn what_is_no_packet_is_refused_and_counted() {
    let scenario = scenario(PROTOCOLS[1], "");
    let mut network = Network::new(&scenario, STREAMS, None).expect("a network");
    let bad = [vec![], vec![0x45], vec![0; 100], packet(0, 1501), vec![0x60; 39]];
    for packet in &bad {
        assert!(!network.input(at(1), 0, Side::Forward, packet.clone()));
    }
    assert_eq!(network.refused(), bad.len() as u64);
    assert!(network.input(at(1), 0, Side::Forward, packet(0, 1500)));
}

/// Packets use the service of their traffic class; packets of unassigned classes use the first
/// service.
#[test]
fn a_packet_takes_the_service_of_its_class() {
    let services = r#"{ kind = "services", service.rest.protocol = "raw", service.voice = { protocol = { kind = "xor-fec" }, classes = [46, 34] } }"#;
    let scenario = scenario(services, "");
    let mut network = Network::new(&scenario, STREAMS, None).expect("a network");
    for (number, class) in [(0, 46), (1, 0), (2, 34), (3, 10), (4, 46)] {
        let mut packet = packet(number, 200);
        packet[1] = class << 2;
        assert!(network.input(at(u64::from(number) * 50), 0, Side::Forward, packet));
    }
    network.advance(at(1000));
    let end = network.links()[0].end(Side::Forward);
    let LinkEndpoint::Services(services) = &end.interface().endpoint else {
        panic!("a link of services")
    };
    let sent = [0, 1].map(|service| services.endpoint(service).counters().data_frames);
    assert_eq!(sent[1], 3, "voice");
    let twice = text(
        r#"{ kind = "services", service.a = { classes = [1] }, service.b = { classes = [0, 1] } }"#,
        "",
    );
    let error = Scenario::from_toml(&twice, Path::new(".")).expect_err("refused").to_string();
    assert!(error.contains("service.b.classes: found 1, which a service"), "{error}");
}

/// A TCP segment of 100 bytes from a to b, or an acknowledgment back.
fn segment(port: u16, sequence: u32, ack: u32, forward: bool, syn: bool) -> Vec<u8> {
    let payload = if forward && !syn { 100 } else { 0 };
    let mut packet = vec![0x45, 0];
    packet.extend((40 + payload as u16).to_be_bytes());
    packet.extend([0, 0, 0x40, 0, 64, 6, 0, 0]);
    let hosts = [[10, 71, 0, 1], [10, 71, 0, 2]];
    let ends = if forward { [0, 1] } else { [1, 0] };
    packet.extend(ends.iter().flat_map(|&end| hosts[end]));
    let ports = if forward { [port, 80] } else { [80, port] };
    packet.extend(ports.iter().flat_map(|port| port.to_be_bytes()));
    packet.extend(sequence.to_be_bytes());
    packet.extend(ack.to_be_bytes());
    packet.extend([0x50, if syn { 0x02 } else { 0x10 }, 0x20, 0, 0, 0, 0, 0]);
    packet.resize(40 + payload, 7);
    packet
}

/// Snoop repairs a loss of real TCP segments from its cache and suppresses the duplicate ACKs.
#[test]
fn snoop_repairs_a_loss_of_real_segments() {
    let snoop = r#"agent = { kind = "snoop", at = "a" }"#;
    let lossy = r#"errors = { kind = "listed", lose = [2] }"#;
    let text = text(PROTOCOLS[0], snoop)
        .replace(r#"errors = { kind = "uniform", loss = "5 %" }"#, lossy)
        .replace("[flow.f]", "[link.air.reverse]\nerrors = \"none\"\n[flow.f]");
    let document = Scenario::from_toml(&text, Path::new(".")).expect("a scenario");
    let scenario = document.points().expect("points").remove(0).scenario;
    let mut network = Network::new(&scenario, STREAMS, None).expect("a network");
    for number in 0..5 {
        let data = segment(5000, number * 100, 1, true, false);
        network.input(at(u64::from(number)), 0, Side::Forward, data);
    }
    network.advance(at(100));
    let up = std::iter::from_fn(|| network.poll_delivery()).count();
    assert_eq!(up, 4, "the second is lost");
    for number in 0..4 {
        let ack = segment(5000, 1, 100, false, false);
        network.input(at(100 + number), 0, Side::Reverse, ack);
    }
    network.advance(at(300));
    let out: Vec<_> = std::iter::from_fn(|| network.poll_delivery()).collect();
    let repaired: Vec<_> = out.iter().filter(|one| one.side == Side::Reverse).collect();
    assert_eq!(repaired.len(), 1, "the cached segment is retransmitted once");
    assert_eq!(repaired[0].packet, segment(5000, 100, 1, true, false));
    let acks = out.iter().filter(|one| one.side == Side::Forward).count();
    assert!(acks < 4, "duplicates are suppressed: {acks} forwarded");
    let found = metrics(&network, &scenario);
    assert_eq!(found["agent.air.local_retransmissions"], 1.0);
}

/// More connections than an agent tracks: the size of the table is bounded, and no call fails.
#[test]
fn a_flood_of_connections_is_bounded() {
    let scenario = scenario(PROTOCOLS[0], r#"agent = { kind = "snoop", at = "a" }"#);
    let mut network = Network::new(&scenario, STREAMS, None).expect("a network");
    for port in 1..5000u16 {
        let syn = port.is_multiple_of(2);
        network.input(at(u64::from(port)), 0, Side::Forward, segment(port, 1, 1, true, syn));
    }
    network.advance(at(60_000));
    assert!(network.poll_delivery().is_some());
}

/// An IP packet of any form, or other bytes.
fn any_packet() -> impl Strategy<Value = Vec<u8>> {
    let bytes = prop::collection::vec(any::<u8>(), 0..1600);
    let first = prop_oneof![Just(0x45u8), Just(0x4f), Just(0x60), any::<u8>()];
    let protocol = prop_oneof![Just(6u8), Just(17), any::<u8>()];
    (bytes, first, protocol).prop_map(|(mut bytes, first, protocol)| {
        if let Some(place) = bytes.first_mut() {
            *place = first;
        }
        if let Some(place) = bytes.get_mut(if first >> 4 == 6 { 6 } else { 9 }) {
            *place = protocol;
        }
        bytes
    })
}

proptest! {
    /// With any bytes from a device at any time: no panic, the clock advances, and every delivered
    /// packet was sent.
    #[test]
    fn properties_no_packets_break_a_network(
        packets in prop::collection::vec((any_packet(), 0u64..50_000_000, any::<bool>()), 1..60),
        protocol in 0..PROTOCOLS.len(),
    ) {
        let scenario = scenario(PROTOCOLS[protocol], r#"agent = { kind = "snoop", at = "a" }"#);
        let mut network = Network::new(&scenario, STREAMS, None).expect("a network");
        let (mut now, mut known) = (Instant::ZERO, Vec::new());
        for (packet, pause, is_forward) in packets {
            now = Instant::from_nanos(now.as_nanos() + pause);
            let side = if is_forward { Side::Forward } else { Side::Reverse };
            if network.input(now, 0, side, packet.clone()) {
                known.push(packet);
            }
        }
        network.advance(Instant::from_nanos(now.as_nanos() + 60_000_000_000));
        prop_assert!(network.next_timeout() > network.now());
        while let Some(delivery) = network.poll_delivery() {
            prop_assert!(known.contains(&delivery.packet));
        }
    }

    /// Arbitrary bytes are a recording or an error.
    #[test]
    fn properties_no_bytes_break_a_replay(
        place in any::<prop::sample::Index>(),
        byte in any::<u8>(),
        cut in any::<prop::sample::Index>(),
    ) {
        let mut file = recording(PROTOCOLS[1]);
        let place = place.index(file.len());
        file[place] = byte;
        let _ = replay(&file[..cut.index(file.len())]);
    }
}

#[test]
fn a_recording_contains_the_changes() {
    for protocol in PROTOCOLS {
        let scenario = scenario(protocol, "");
        let header = Header {
            scenario: scenario.clone(),
            base: ".".to_owned(),
            streams: STREAMS,
            mtu: None,
        };
        let mut file = Vec::new();
        let mut recorder = Recorder::new(&mut file, &header).expect("memory");
        let mut network = Network::new(&scenario, STREAMS, None).expect("a network");
        network.keep_frames();
        let mut present = scenario.clone();
        for number in 0..100 {
            let now = at(5 * number);
            let sent = packet(number as u32, 1000);
            recorder.arrival(now, 0, Side::Forward, &sent).expect("memory");
            network.input(now, 0, Side::Forward, sent);
            if number == 50 || number == 70 {
                let mut new = present.to_json();
                new["link"]["air"]["rate"] = "300 kbps".into();
                new["link"]["air"]["errors"]["loss"] = "30 %".into();
                let text = match number {
                    50 => serde_json::json!({"scenario": new}).to_string(),
                    _ => r#"{"pause_ns": 50000000, "link": null}"#.to_owned(),
                };
                let change = Change::read(&text, Path::new("."), &present).expect("a change");
                network.change(now, &change, &mut present, STREAMS).expect("a change");
                recorder.change(now, &text).expect("memory");
            }
        }
        network.advance(at(9000));
        while let Some(delivery) = network.poll_delivery() {
            recorder.delivery(&delivery).expect("memory");
        }
        network.drain_frames().for_each(|frame| recorder.frame(&frame).expect("memory"));
        recorder.end(at(9000)).expect("memory");
        let replayed = replay(&file[..]).expect("a recording");
        assert_eq!(replayed.difference, None, "{protocol}");
        assert!(replayed.same > 100, "{protocol}: {}", replayed.same);
    }
}
