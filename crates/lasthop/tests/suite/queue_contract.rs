//! The contract between queue disciplines and media: a queue that contains packets may return none,
//! and every packet is rejected, dropped, sent or still waiting.

use crate::scenarios::{Metrics, metrics, scenario};
use lasthop::live::{Network, Side};
use lasthop::packet::{Ecn, Packet};
use lasthop::queue::{Queue, QueueSite, Transmitter};
use lasthop::rng::Streams;
use lasthop::run;
use lasthop::units::{Bytes, Instant, Rate};
use proptest::prelude::*;
use std::collections::HashSet;
use std::sync::atomic::AtomicBool;

const STREAMS: Streams = Streams { seed: 5, replication: 0 };

/// All disciplines except drop-tail, with parameters that cause early drops; the limit is added.
const DISCIPLINES: &[&str] = &[
    r#"kind = "drop-tail""#,
    r#"kind = "red", min = "1 packet", max = "3 packets""#,
    r#"kind = "codel", target = "1 us", interval = "10 us""#,
    r#"kind = "pie", target = "1 ms", update = "1 ms""#,
    r#"kind = "fq-codel", target = "1 us", interval = "10 us", quantum = "100 B""#,
    r#"kind = "dualpi2", target = "1 ms", rtt_max = "3 ms""#,
    r#"kind = "step", threshold = "1 packet""#,
    r#"kind = "biased""#,
    r#"kind = "policer", rate = "1 Mbps", burst = "3 kB""#,
];

/// Limits, down to less than one packet.
const LIMITS: &[&str] = &["1 packet", "2 packets", "20 packets", "100 B", "1500 B", "20 kB"];

fn discipline(choice: usize, limit: usize) -> String {
    format!("{{ {}, limit = \"{}\" }}", DISCIPLINES[choice], LIMITS[limit])
}

/// Returns one direction of a link with this queue.
fn link(queue: &str) -> String {
    format!(
        r#"
        name = "queue"
        [link.line]
        between = ["a", "b"]
        rate = "4 Mbps"
        delay = "1 ms"
        queue = {queue}
        [flow.first]
        from = "a"
        to = "b"
        transport = {{ kind = "udp" }}
        app = {{ kind = "media", rate = "6 Mbps", packet = "500 B", silence = "0 s" }}
        [flow.second]
        from = "a"
        to = "b"
        transport = {{ kind = "tcp", variant = "sack", profile = "rfc", ecn = true }}
        app = {{ kind = "file", size = "100 MB" }}
        [run]
        duration = "500 ms"
        "#
    )
}

/// Returns the flows over a medium, from host a to host b; `queue` is part of the medium.
fn over(medium: &str, queue: &str) -> String {
    let text = link(queue);
    let flows = text.find("[flow.first]").expect("a flow");
    format!("name = \"queue\"\n{}\n{}", medium.replace("QUEUE", queue), &text[flows..])
}

const MEDIA: &[&str] = &[
    r#"
    [link.line]
    between = ["a", "b"]
    rate = "4 Mbps"
    delay = "1 ms"
    queue = QUEUE
    "#,
    r#"
    [link.line]
    between = ["a", "b"]
    rate = "4 Mbps"
    delay = "1 ms"
    queue = QUEUE
    protocol = "selective-repeat"
    errors = { kind = "uniform", loss = "10 %" }
    "#,
    r#"
    [link.line]
    between = ["a", "b"]
    rate = "4 Mbps"
    delay = "1 ms"
    queue = QUEUE
    protocol = { kind = "services", service.one.protocol = "rlc-am", service.two.protocol = "raw" }
    "#,
    r#"
    [radio.cell]
    base = "b"
    stations = ["a", "c"]
    uplink = 3
    slot = "1600 B"
    queue = QUEUE
    "#,
    r#"
    [wlan.cell]
    access_point = "b"
    stations = ["a", "c"]
    rate = "2 Mbps"
    queue = QUEUE
    "#,
    r#"
    [wlan.cell]
    access_point = "a"
    stations = ["b", "c"]
    rate = "2 Mbps"
    rts_threshold = "400 B"
    errors = { kind = "uniform", loss = "10 %" }
    queue = QUEUE
    "#,
    r#"
    [wlan.cell]
    access_point = "b"
    stations = ["a", "c"]
    rate = "2 Mbps"
    queue = QUEUE
    x = "0 m"
    station.a.x = "1 m"
    station.c.x = "200 m"
    "#,
];

/// Queueing delays change no other metric. Those of untraced and traced runs are equal.
fn assert_measured(text: &str, row: &Metrics) {
    let text = text.replace("queue = {", "measure = \"queueing-delay\"\nqueue = {");
    let scenario = scenario(&text);
    let measured = metrics(&scenario, 1, 1).remove(0);
    let trace = run::trace(&scenario, 1, 0, &AtomicBool::new(false)).expect("a trace");
    let traced: Metrics = trace.metrics.into_iter().collect();
    let mut count = 0;
    for (name, value) in &measured {
        assert_eq!(value.to_bits(), traced[name].to_bits(), "{name}\n{text}");
        let known = row.get(name);
        assert_eq!(known.is_none(), name.contains("queueing_delay"), "{name}\n{text}");
        assert_eq!(known.unwrap_or(value).to_bits(), value.to_bits(), "{name}\n{text}");
        count += usize::from(name.ends_with("queueing_delay_mean_s") && !value.is_nan());
    }
    let sent = row.iter().find(|(name, value)| name.ends_with(".frames_sent") && **value > 10.0);
    assert!(count > 0 || sent.is_none(), "{text}");
}

/// With every medium and every discipline, a run ends. Its trace has the metrics of an untraced run
/// and shows each drop once.
#[test]
fn every_medium_serves_every_discipline() {
    for (medium, choice) in
        (0..MEDIA.len()).flat_map(|medium| (0..DISCIPLINES.len()).map(move |one| (medium, one)))
    {
        let mut dropped = 0;
        for limit in 0..LIMITS.len() {
            let text = over(MEDIA[medium], &discipline(choice, limit));
            let text = match MEDIA[medium].contains("service.") {
                true => text
                    .replace("[flow.first]", "[flow.first]\nservice = \"one\"")
                    .replace("[flow.second]", "[flow.second]\nservice = \"two\""),
                false => text,
            };
            let scenario = scenario(&text);
            let row = metrics(&scenario, 1, 1).remove(0);
            let trace = run::trace(&scenario, 1, 0, &AtomicBool::new(false)).expect("a trace");
            let traced: Metrics = trace.metrics.into_iter().collect();
            for (name, value) in &row {
                assert_eq!(value.to_bits(), traced[name].to_bits(), "{name}\n{text}");
            }
            assert_measured(&text, &row);
            let drops = trace.events.iter().filter(|event| event.event == "drop").count();
            let of_links = |name: &str| {
                name.starts_with("link.")
                    && [".forward.queue_drops", ".reverse.queue_drops"]
                        .iter()
                        .any(|end| name.ends_with(end))
            };
            let counted = row.iter().filter(|(name, _)| of_links(name)).map(|(_, value)| value);
            assert_eq!(drops as f64, counted.sum::<f64>(), "{text}");
            dropped += drops;
        }
        assert!(dropped > 0, "{}: {}", MEDIA[medium], DISCIPLINES[choice]);
    }
}

proptest! {
    /// `None` means that the queue is empty; `dropped` contains each packet that was queued and is
    /// neither sent nor waiting.
    #[test]
    fn a_discipline_accounts_for_every_packet(
        choice in 0..DISCIPLINES.len(),
        limit in 0..LIMITS.len(),
        calls in prop::collection::vec((0u64..3_000_000, 0u32..3, 40u32..1500, 0..4usize, 0..3usize), 1..200),
    ) {
        let scenario = scenario(&link(&discipline(choice, limit)));
        let [header, packet] = [0, 1500].map(Bytes::new);
        let site = QueueSite { streams: &STREAMS, component: "queue", header, packet };
        let mut queue: Queue<Packet> = scenario.links[0].forward.queue.build(&site);
        let mut transmitter = Transmitter::new(Rate::from_bps(1_000_000));
        let (mut now, mut waiting) = (Instant::ZERO, HashSet::new());
        for (number, (pause, flow, bytes, ecn, dequeued)) in calls.into_iter().enumerate() {
            now = Instant::from_nanos(now.as_nanos() + pause);
            let mut packet = Packet { hop: flow, bytes, ..Packet::default() };
            packet.tcp.seq = number as u32;
            packet.tcp.ecn = [Ecn::NotEct, Ecn::Ect1, Ecn::Ect0, Ecn::Ce][ecn];
            if queue.enqueue(now, packet, &transmitter) {
                waiting.insert(number as u32);
            }
            for packet in queue.dropped() {
                prop_assert!(waiting.remove(&packet.tcp.seq), "{number}: dropped twice");
            }
            prop_assert_eq!(queue.len(), waiting.len());
            for _ in 0..dequeued {
                let next = queue.dequeue(now);
                for packet in queue.dropped() {
                    prop_assert!(waiting.remove(&packet.tcp.seq), "{number}: dropped twice");
                }
                if let Some(packet) = next {
                    prop_assert!(waiting.remove(&packet.tcp.seq), "{number}: sent twice");
                    let _ = transmitter.send(now, u64::from(packet.bytes) * 8);
                }
                prop_assert!(next.is_some() || queue.is_empty());
                prop_assert_eq!(queue.len(), waiting.len());
            }
        }
    }

    /// A live link with any discipline delivers only packets that it received, each of them once.
    #[test]
    fn a_live_link_serves_every_discipline(
        choice in 0..DISCIPLINES.len(),
        limit in 0..LIMITS.len(),
        pauses in prop::collection::vec(0u64..3_000_000, 1..200),
    ) {
        let scenario = scenario(&link(&discipline(choice, limit)));
        let mut network = Network::new(&scenario, STREAMS, None).expect("a network");
        let (mut now, mut known) = (0, HashSet::new());
        for (number, pause) in pauses.into_iter().enumerate() {
            now += pause;
            // Not an IP packet, whose ECN field a queue may change; the length identifies the
            // packet.
            let packet = vec![0; 100 + number];
            if network.input(Instant::from_nanos(now), 0, Side::Forward, packet.clone()) {
                known.insert(packet);
            }
        }
        network.advance(Instant::from_nanos(now + 20_000_000_000));
        while let Some(delivery) = network.poll_delivery() {
            prop_assert!(known.remove(&delivery.packet));
        }
    }
}
