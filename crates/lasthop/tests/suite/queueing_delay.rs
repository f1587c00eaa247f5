//! Queueing delays, `measure = "queueing-delay"`: compared with closed forms and with traces. The
//! measurement changes nothing else, and does not depend on how a link is computed.

use crate::scenarios::{Metrics, metrics, read, scenario};
use crate::{lazy_background, passive_ends};
use lasthop::app::Replay;
use lasthop::channel::{Channel, Clean};
use lasthop::packet::Packet;
use lasthop::queue::{ComputedFifo, Limit, QueueSite, Transmitter};
use lasthop::rng::Streams;
use lasthop::run;
use lasthop::scenario::{App, Discipline};
use lasthop::units::{Bytes, Duration, Instant, Rate};
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

const NAMES: [&str; 5] = ["mean", "p50", "p95", "p99", "max"];

/// Returns the queueing delays of `entity`: mean, percentiles and maximum.
fn delays(metrics: &Metrics, entity: &str) -> [f64; 5] {
    NAMES.map(|name| metrics[&format!("{entity}.queueing_delay_{name}_s")])
}

/// Makes all links measure queueing delays.
pub fn measured(text: &str) -> String {
    let text = text.replace("between = [", "measure = \"queueing-delay\"\nbetween = [");
    let text = text.replace("base = \"", "measure = \"queueing-delay\"\nbase = \"");
    text.replace("access_point = \"", "measure = \"queueing-delay\"\naccess_point = \"")
}

/// A stream of packets of 1000 B, one every 8 ms, over a link from a to b.
fn stream(link: &str, duration: &str) -> String {
    format!(
        r#"
        name = "stream"
        {link}
        [flow.stream]
        from = "a"
        to = "b"
        transport = "udp"
        app = {{ kind = "media", rate = "1 Mbps", packet = "1000 B", silence = "0 s" }}
        [run]
        duration = "{duration}"
        "#
    )
}

fn line(keys: &str) -> String {
    format!("[link.line]\nbetween = [\"a\", \"b\"]\ndelay = \"3 ms\"\n{keys}\n")
}

/// A transmission takes 16 ms. Packet k, from 0 on, arrives at 8 + 8 k ms and starts at 8 + 16 k ms, so that it
/// waits for 8 k ms; the last one that starts by 1612 ms is number 100. Computed and driven by events.
#[test]
fn constant_arrivals_at_a_slow_link() {
    for queue in [
        "\"1000 packets\"",
        "{ kind = \"codel\", limit = \"1000 packets\", target = \"1000 s\" }",
        "{ kind = \"step\", limit = \"1000 packets\", threshold = \"1000 packets\" }",
    ] {
        let link = line(&format!("rate = \"500 kbps\"\nqueue = {queue}"));
        let text = measured(&stream(&link, "1612 ms"));
        let row = metrics(&scenario(&text), 1, 1).remove(0);
        assert_eq!(row["link.line.forward.frames_sent"], 101.0, "{queue}");
        let found = delays(&row, "link.line.forward");
        // Percentiles are those of 101 values, the 51st, 96th and 100th, with three digits.
        for (found, expected) in found.into_iter().zip([0.4, 0.4, 0.76, 0.792, 0.8]) {
            assert!((found / expected - 1.0).abs() < 1e-3, "{found}, not {expected}: {queue}");
        }
        assert!((found[0] - 0.4).abs() < 1e-9 && (found[4] - 0.8).abs() < 1e-9, "{found:?}");
        // No packet is sent in the other direction.
        assert!(delays(&row, "link.line.reverse").iter().all(|value| value.is_nan()));
    }
}

/// Each packet finds an idle link, also one of unlimited rate.
#[test]
fn packets_at_an_idle_link_do_not_wait() {
    for keys in [
        "rate = \"2 Mbps\"",
        "rate = \"unlimited\"",
        "rate = \"2 Mbps\"\nqueue = { kind = \"fq-codel\" }",
        "rate = \"2 Mbps\"\nprotocol = \"selective-repeat\"",
    ] {
        let text = measured(&stream(&line(keys), "1 s"));
        let row = metrics(&scenario(&text), 1, 1).remove(0);
        assert_eq!(delays(&row, "link.line.forward"), [0.0; 5], "{keys}");
    }
}

/// Links with a single FIFO in front of their transmitter: computed, driven, with retransmissions, and WLANs with
/// channel access.
const FIFOS: &[&str] = &[
    "[link.line]\nbetween = [\"a\", \"b\"]\ndelay = \"3 ms\"\nrate = \"990 kbps\"",
    "[link.line]\nbetween = [\"a\", \"b\"]\ndelay = \"3 ms\"\n\
     rate = { kind = \"steps\", at = [[\"0 s\", \"800 kbps\"], [\"1 s\", \"2 Mbps\"]], repeat = \"2 s\" }",
    "[link.line]\nbetween = [\"a\", \"b\"]\ndelay = \"3 ms\"\nrate = \"1.2 Mbps\"\n\
     protocol = \"selective-repeat\"\nerrors = { kind = \"uniform\", loss = \"10 %\" }",
    "[wlan.cell]\naccess_point = \"b\"\nstations = [\"a\", \"c\"]\nrate = \"2 Mbps\"\n\
     x = \"0 m\"\nstation.a.x = \"1 m\"\nstation.c.x = \"200 m\"",
    "[wlan.cell]\naccess_point = \"b\"\nstations = [\"a\", \"c\"]\nrate = \"11 Mbps\"\n\
     rts_threshold = \"400 B\"\nerrors = { kind = \"uniform\", loss = \"20 %\" }",
    "[wlan.cell]\naccess_point = \"b\"\nstations = [\"a\", \"c\"]\nstandard = \"802.11n\"\nmcs = 0\n\
     max_ampdu = \"0 B\"\nerrors = { kind = \"uniform\", loss = \"10 %\" }",
];

/// End of these runs.
const END_NS: u64 = 20_000_000_000;

/// The trace has the arrival of each packet and the start of the first transmission of its data. Their
/// differences are the queueing delays.
#[test]
fn delays_are_those_of_the_trace() {
    for link in FIFOS {
        let other = "[flow.other]\nfrom = \"c\"\nto = \"b\"\ntransport = \"udp\"\n\
                     app = { kind = \"media\", rate = \"100 kbps\", packet = \"500 B\" }\n";
        let mut text = measured(&stream(link, "20 s"));
        if link.contains("stations = [\"a\"") {
            text = text.replace("[run]", &format!("{other}[run]"));
        }
        let scenario = scenario(&text);
        let trace = run::trace(&scenario, 1, 0, &AtomicBool::new(false)).expect("a trace");
        let row: Metrics = trace.metrics.into_iter().collect();
        let entity = row.keys().find_map(|name| {
            let is_used = !row[name].is_nan() && name.starts_with("link.");
            let entity = name.strip_suffix(".queueing_delay_max_s").filter(|_| is_used)?;
            (!entity.contains(".c.")).then(|| entity.to_owned())
        });
        let entity = entity.expect("a direction with packets");
        let sent = trace.events.iter().filter(|event| event.event == "datagram_sent");
        let arrivals: Vec<_> = sent
            .filter(|event| event.entity == "flow.stream")
            .map(|event| event.time_ns as f64 / 1e9)
            .collect();
        let first = trace.transmissions.iter().filter(|sent| sent.entity == entity);
        // A trace of a computed link has all frames that are known, also those after the end of the run. A packet
        // whose RTS is never answered has no data frame, but a number.
        let mut starts = BTreeMap::new();
        for sent in first.filter(|sent| sent.kind == "data" && sent.start_ns <= END_NS) {
            starts.entry(sent.sequence).or_insert(sent.start_ns as f64 / 1e9);
        }
        assert_eq!(row[&format!("{entity}.queue_drops")], 0.0, "{link}");
        // The last frame may still be in transmission: it is in the metrics only.
        assert!(starts.len() > 200 && starts.len() <= arrivals.len(), "{link}");
        let wait = |(number, start): (&u64, &f64)| start - arrivals[*number as usize];
        let waits: Vec<_> = starts.iter().map(wait).collect();
        let count = waits.len() as f64;
        let mean = waits.iter().sum::<f64>() / count;
        let [found, .., max] = delays(&row, &entity);
        let most = waits.iter().copied().fold(0.0, f64::max);
        assert!((found - mean).abs() <= max / count + 1e-8, "{found}, not {mean}: {link}");
        assert!(max >= most - 1e-8 && mean > 0.0, "{max}, not {most}: {link}");
    }
}

/// A radio takes packets at the start of its frames of 16 ms. The first packet arrives after 9 ms and waits for 7 ms;
/// of the others, two arrive in each frame and wait for 15 and 7 ms, until the frame at 1600 ms.
#[test]
fn a_radio_takes_packets_at_the_start_of_its_frames() {
    let radio = "[radio.cell]\nbase = \"b\"\nstations = [\"a\"]\nframe = \"16 ms\"\nuplink = 2\n\
                 slot = \"1100 B\"\n";
    let text = stream(radio, "1615 ms").replace("to = \"b\"", "to = \"b\"\nstart = \"1 ms\"");
    let row = metrics(&scenario(&measured(&text)), 1, 1).remove(0);
    let [mean, _, _, _, max] = delays(&row, "link.cell.a.forward");
    let expected = (7.0 + 99.0 * (15.0 + 7.0)) / 199.0 / 1e3;
    assert!((mean - expected).abs() < 1e-9 && (max - 0.015).abs() < 1e-9, "{mean} and {max}");
}

/// Poisson arrivals at a link with constant transmission times: M/D/1. The mean waiting time is
/// rho / (2 (1 - rho)) transmission times (Pollaczek and Khinchine).
#[test]
fn poisson_arrivals_wait_as_pollaczek_and_khinchine_state() {
    const RUNS: u64 = 40;
    const PACKETS: u64 = 50_000;
    for load in [0.5, 0.8] {
        let service = Duration::from_nanos(100_000);
        let mut means = Vec::new();
        for replication in 0..RUNS {
            let streams = Streams { seed: 1, replication };
            let mut gaps = streams.stream("test", "arrivals");
            let channel = Channel::Clean(Clean {});
            let transmitter = Transmitter::new(Rate::from_bps(80_000_000));
            let limit = Limit::Packets(100_000);
            let fifo = ComputedFifo::new(transmitter, limit, Bytes::new(0), channel);
            let mut fifo = fifo.measured();
            let mut now = Instant::ZERO;
            let gap = Duration::from_nanos((service.as_nanos() as f64 / load) as u64);
            for _ in 0..PACKETS {
                now += gaps.exponential_duration(gap);
                fifo.offer(now, 1_000);
            }
            let delays = fifo.delays(Instant::NEVER).expect("they are measured");
            means.push(delays.mean());
        }
        let n = RUNS as f64;
        let mean = means.iter().sum::<f64>() / n;
        let variance = means.iter().map(|one| (one - mean).powi(2)).sum::<f64>() / (n - 1.0);
        let expected = load / (2.0 * (1.0 - load)) * service.as_secs_f64();
        // 5 standard errors with 39 degrees of freedom: false-positive rate of 1.3e-5. A run starts with an
        // empty queue, which is negligible: 50,000 packets are many relaxation times.
        let error = (variance / n).sqrt();
        assert!((mean - expected).abs() < 5.0 * error, "{mean}, not {expected} ± {error}");
        assert!(error < 0.02 * expected, "{error}: the test has no power");
    }
}

/// A computed queue and a queue that is driven by hand have the same delays.
#[test]
fn a_computed_queue_has_the_delays_of_a_driven_one() {
    let streams = Streams { seed: 1, replication: 0 };
    let mut random = streams.stream("test", "arrivals");
    let rate = Rate::from_bps(8_000_000);
    let channel = Channel::Clean(Clean {});
    let limit = Limit::Packets(6);
    let fifo = ComputedFifo::new(Transmitter::new(rate), limit, Bytes::new(0), channel);
    let mut fifo = fifo.measured();
    let site = QueueSite {
        streams: &streams,
        component: "link",
        header: Bytes::new(0),
        packet: Bytes::new(1_500),
    };
    let discipline = Discipline::from(lasthop::schema::quantity::QueueLimit::Packets(6));
    let mut queue = discipline.build_measured::<Packet>(&site);
    let mut transmitter = Transmitter::new(rate);
    let (mut now, mut drops) = (Instant::ZERO, 0);
    // Serves the queue at each end of a transmission up to a time.
    let serve = |queue: &mut lasthop::queue::Queue<Packet>, transmitter: &mut Transmitter, at| {
        loop {
            let free_at = transmitter.free_at().instant();
            if free_at > at || queue.is_empty() {
                break;
            }
            let Some(packet) = queue.dequeue(free_at) else { break };
            transmitter.send(free_at, u64::from(packet.bytes) * 8);
        }
    };
    for _ in 0..20_000 {
        now += random.exponential_duration(Duration::from_nanos(900_000));
        let bytes = 200 + (random.uniform() * 1_300.0) as u32;
        serve(&mut queue, &mut transmitter, now);
        let packet = Packet { bytes, ..Packet::default() };
        let is_admitted = queue.enqueue(now, packet, &transmitter);
        let is_idle = !transmitter.is_busy(now);
        if is_admitted && is_idle {
            let packet = queue.dequeue(now).expect("the queue has a packet");
            transmitter.send(now, u64::from(packet.bytes) * 8);
        }
        drops += u64::from(!is_admitted);
        let fate = fifo.offer(now, bytes);
        assert_eq!(matches!(fate, lasthop::queue::Fate::Dropped), !is_admitted);
    }
    serve(&mut queue, &mut transmitter, Instant::NEVER);
    assert!(drops > 100, "{drops}");
    let computed = fifo.delays(Instant::NEVER).expect("they are measured");
    let driven = queue.delays().expect("they are measured");
    let [computed, driven] = [&computed, driven].map(|delays| format!("{delays:?}"));
    assert_eq!(computed, driven);
}

/// Compares a scenario with and without measurement, and with its trace. With `replay`, also with an
/// event for each packet of background traffic.
fn check_measurement(text: &str, seed: u64) -> Result<(), TestCaseError> {
    let [plain, measured] = [text.to_owned(), measured(text)].map(|text| scenario(&text));
    let mut packets = measured.clone();
    for flow in Arc::make_mut(&mut packets.flows) {
        if let App::OnOff(source) = &mut flow.app {
            source.replay = Replay::PerPacket;
        }
    }
    let trace = run::trace(&measured, seed, 0, &AtomicBool::new(false)).expect("a trace");
    let traced: Metrics = trace.metrics.into_iter().collect();
    let [plain, measured, packets] =
        [plain, measured, packets].map(|scenario| metrics(&scenario, 1, seed).remove(0));
    prop_assert!(measured.len() > plain.len());
    for (name, value) in &measured {
        for (other, values) in [("plain", &plain), ("traced", &traced), ("per packet", &packets)] {
            let is_new = name.contains("queueing_delay") && other == "plain";
            let known = if is_new { *value } else { values[name] };
            prop_assert_eq!(
                known.to_bits(),
                value.to_bits(),
                "{}: {} {}, measured {}, seed {}\n{}",
                name,
                other,
                known,
                value,
                seed,
                text
            );
        }
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig {
        failure_persistence: None,
        ..ProptestConfig::with_cases(if cfg!(debug_assertions) { 10 } else { 60 })
    })]

    /// Random scenarios with background traffic.
    #[test]
    fn measurement_changes_no_metric_with_background_traffic(
        text in lazy_background::scenarios(),
        seed in 0u64..1000,
    ) {
        check_measurement(&text, seed)?;
    }

    /// Random scenarios with link protocols.
    #[test]
    fn measurement_changes_no_metric_with_link_protocols(
        links in passive_ends::links(),
        flows in passive_ends::flows(),
        seed in 0u64..1000,
    ) {
        check_measurement(&format!("name = \"protocols\"\n{links}{flows}"), seed)?;
    }
}

#[test]
fn an_unknown_measurement_is_rejected() {
    let text = stream(&line("rate = \"1 Mbps\"\nmeasure = \"queue-delay\""), "1 s");
    let error = read(&text).expect_err("no such measurement");
    assert!(error.contains("link.line.measure") && error.contains("\"queueing-delay\""), "{error}");
}
