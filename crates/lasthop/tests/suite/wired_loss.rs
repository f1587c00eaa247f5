//! Links with rate "unlimited": paths that only lose and delay packets.

use crate::scenarios::{self, Metrics, scenario};
use lasthop::run;
use lasthop::scenario::Scenario;
use lasthop::units::Rate;
use std::collections::HashMap;
use std::path::Path;
use std::sync::atomic::AtomicBool;

fn metrics(text: &str, replications: u64) -> Vec<Metrics> {
    scenarios::metrics(&scenario(text), replications, 3)
}

/// A path without a rate between two hosts, with further keys of the link.
fn path(link: &str, flows: &str) -> String {
    format!(
        "name = \"path\"\n[link.path]\nbetween = [\"a\", \"b\"]\nrate = \"unlimited\"\n\
         delay = \"200 ms\"\nqueue = \"1 packet\"\n{link}\n{flows}"
    )
}

const FILE: &str = "[flow.file]\nfrom = \"a\"\nto = \"b\"\n\
    transport = { kind = \"tcp\", variant = \"sack\", profile = \"rfc\", segment = \"1000 B\" }\n\
    app = { kind = \"file\", size = \"2 MB\" }\n";

#[test]
fn packets_take_the_delay_and_nothing_else_and_keep_their_order() {
    let scenario = scenario(&path("", FILE));
    let trace = run::trace(&scenario, 1, 0, &AtomicBool::new(false)).unwrap();
    let of = |entity: &str, event: &str| -> Vec<_> {
        // Data packets only: other received packets count as different events.
        let wanted = |e: &&run::TraceEvent| e.entity == entity && e.event == event && e.value > 0.0;
        trace.events.iter().filter(wanted).map(|e| (e.time_ns, e.sequence)).collect()
    };
    let sent = of("flow.file", "segment_sent");
    let received = of("flow.file.receiver", "segment_received");
    assert_eq!((sent.len(), received.len()), (2000, 2000));
    // Bursts of a window are sent at one instant, and arrive at one, in order.
    assert!(sent.windows(2).filter(|pair| pair[0].0 == pair[1].0).count() > 100);
    let is_later = |(one, other): (&(u64, f64), &(u64, f64))| {
        other.0 == one.0 + 200_000_000 && other.1 == one.1
    };
    assert!(sent.iter().zip(&received).all(is_later));
    let row: HashMap<_, _> = trace.metrics.into_iter().collect();
    assert_eq!(row["link.path.forward.queue_drops"], 0.0);
    assert_eq!(row["link.path.forward.utilization"], 0.0);
    assert_eq!(row["link.path.reverse.utilization"], 0.0);
    assert_eq!(row["flow.file.retransmissions"], 0.0);
}

#[test]
fn it_loses_as_often_as_it_says_and_acknowledgments_never() {
    let lossy = "errors = { kind = \"uniform\", loss = \"1 %\" }\n\
                 reverse = { errors = { kind = \"none\" } }";
    let (mut sent, mut lost) = (0.0, 0.0);
    for row in metrics(&path(lossy, FILE), 20) {
        sent += row["link.path.forward.frames_sent"];
        lost += row["link.path.forward.frames_lost"];
        assert_eq!(row["link.path.reverse.frames_lost"], 0.0);
        assert!(row["link.path.reverse.frames_sent"] > 0.0);
    }
    // Independent losses: 4.5 standard deviations, false-positive rate 7e-6.
    assert!(sent > 40_000.0);
    let deviation = (sent * 0.01 * 0.99).sqrt();
    assert!((lost - 0.01 * sent).abs() < 4.5 * deviation, "{lost} of {sent}");
}

#[test]
fn one_direction_alone_may_be_without_a_rate() {
    for (forward, reverse) in [("1 Mbps", "unlimited"), ("unlimited", "1 Mbps")] {
        let link = format!("reverse = {{ rate = \"{reverse}\", queue = \"1000 packets\" }}");
        let text = path(&link, FILE).replacen("unlimited", forward, 1);
        let text = text.replacen("1 packet\"", "1000 packets\"", 1);
        let parsed = scenario(&text);
        assert_eq!(parsed.links[0].forward.rate.is_unlimited(), forward == "unlimited");
        assert_eq!(parsed.links[0].reverse.rate.is_unlimited(), reverse == "unlimited");
        let row = metrics(&text, 1).remove(0);
        let [there, back] =
            ["forward", "reverse"].map(|way| row[&format!("link.path.{way}.utilization")]);
        let (finite, unlimited) =
            if forward == "unlimited" { (back, there) } else { (there, back) };
        assert_eq!(unlimited, 0.0);
        assert!(finite > 0.01 && finite <= 1.0, "{finite}");
    }
}

#[test]
fn it_is_written_back_as_it_was_read() {
    let text = path("reverse = { rate = \"2 Mbps\" }", FILE);
    let document = Scenario::from_toml(&text, Path::new(".")).unwrap();
    assert_eq!(document.points().unwrap()[0].scenario.links[0].forward.rate, Rate::UNLIMITED);
    assert_eq!(document.to_json()["link"]["path"]["rate"], "unlimited");
}

/// Constant-rate traffic over it: the same numbers, replayed lazily or packet by packet.
#[test]
fn replayed_traffic_is_the_same_packet_by_packet() {
    let rows = ["lazy", "per-packet"].map(|replay| {
        let flow = format!(
            "{FILE}[flow.noise]\nfrom = \"a\"\nto = \"b\"\ntransport = {{ kind = \"udp\" }}\n\
             app = {{ kind = \"on-off\", rate = \"1 Mbps\", on = \"exp 1 s\", off = \"exp 1 s\", \
             packet = \"500 B\", replay = \"{replay}\" }}\n"
        );
        metrics(&path("", &flow), 2)
    });
    for (lazy, packets) in rows[0].iter().zip(&rows[1]) {
        for (name, value) in lazy.iter().filter(|(name, _)| name.starts_with("link.")) {
            assert_eq!(value.to_bits(), packets[name].to_bits(), "{name}");
        }
        assert_eq!(lazy["link.path.forward.queue_drops"], 0.0);
    }
}
