//! Whole runs of small scenarios, and conditions on their metrics.

use lasthop::channel::trace::{TraceKeys, TraceStart};
use lasthop::channel::{LossRecord, TraceEnd};
use lasthop::run::{self, Options, Results};
use lasthop::scenario::{Errors, Scenario};
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

fn run_points(text: &str, replications: u64) -> Results {
    let points = Scenario::from_toml(text, Path::new("."))
        .and_then(|document| document.points())
        .unwrap_or_else(|error| panic!("{error}\n{text}"));
    let points: Vec<_> = points.into_iter().map(|point| point.scenario).collect();
    let options = Options { replications, first_replication: 0, seed: 1, jobs: 1 };
    run::run(&points, &options, &mut |_| true).unwrap_or_else(|error| panic!("{error}\n{text}"))
}

/// Metrics of each replication of a scenario without sweep.
fn metrics(text: &str, replications: u64) -> Vec<HashMap<String, f64>> {
    let results = run_points(text, replications);
    let row = |row: &run::Row| results.metrics.iter().cloned().zip(row.values.clone()).collect();
    results.rows.iter().map(row).collect()
}

#[test]
fn a_flow_does_not_depend_on_flows_before_it() {
    // ns-2 counts RTTs in ticks of a clock with a random phase: timeouts reveal the phase.
    let links = "\
name = \"phases\"
[link.first]
between = [\"a\", \"b\"]
rate = \"64 kbps\"
delay = \"47 ms\"
errors = { kind = \"uniform\", loss = \"10 %\" }
[link.second]
between = [\"c\", \"d\"]
rate = \"64 kbps\"
delay = \"47 ms\"
";
    let flow = |name: &str, from: &str, to: &str, app: &str| {
        format!(
            "[flow.{name}]\nfrom = \"{from}\"\nto = \"{to}\"\napp = {app}\n\
             transport = {{ kind = \"tcp\", variant = \"reno\", profile = \"ns-2\", min_rto = \"0 s\" }}\n"
        )
    };
    let end = "[run]\nduration = \"300 s\"\n";
    let web = "{ kind = \"web\" }";
    for app in ["{ kind = \"file\", size = \"200 kB\" }", web] {
        let watched = flow("watched", "a", "b", app);
        let alone = metrics(&format!("{links}{watched}{end}"), 5);
        let behind =
            metrics(&format!("{links}{}{watched}{end}", flow("earlier", "c", "d", web)), 5);
        let mut compared = 0;
        for (alone, behind) in alone.iter().zip(&behind) {
            for (name, value) in alone.iter().filter(|(name, _)| name.contains("watched")) {
                assert_eq!(value.to_bits(), behind[name].to_bits(), "{name}");
                compared += 1;
            }
        }
        assert!(compared > 20);
    }
}

#[test]
fn a_lossless_asymmetric_link_sends_nothing_twice() {
    for protocol in ["selective-repeat", "go-back-n", "karn-rlp", "oos-rlp"] {
        for (forward, reverse) in [
            (("10 Mbps", "1 ms"), ("9.6 kbps", "400 ms")),
            (("9.6 kbps", "1 ms"), ("10 Mbps", "400 ms")),
        ] {
            let flow = |name: &str, from: &str, to: &str| {
                format!(
                    "[flow.{name}]\nfrom = \"{from}\"\nto = \"{to}\"\n\
                     transport = {{ kind = \"tcp\", variant = \"newreno\", profile = \"rfc\", segment = \"500 B\" }}\n\
                     app = {{ kind = \"file\", size = \"30 kB\" }}\n"
                )
            };
            let link = format!(
                "name = \"asymmetric\"\n[link.l]\nbetween = [\"a\", \"b\"]\n\
                 rate = \"{}\"\ndelay = \"{}\"\nprotocol = {{ kind = \"{protocol}\" }}\n\
                 reverse = {{ rate = \"{}\", delay = \"{}\" }}\n",
                forward.0, forward.1, reverse.0, reverse.1
            );
            let there = flow("there", "a", "b");
            let both = format!("{there}{}", flow("back", "b", "a"));
            for flows in [there, both] {
                for metrics in metrics(&format!("{link}{flows}"), 1) {
                    for side in ["forward", "reverse"] {
                        for name in ["retransmissions", "timeouts", "nacks"] {
                            let name = format!("link.l.{side}.{name}");
                            assert_eq!(metrics[&name], 0.0, "{protocol}, {forward:?}: {name}");
                        }
                        assert!(metrics[&format!("link.l.{side}.data_frames")] > 30.0);
                    }
                }
            }
        }
    }
}

/// A channel that loses three consecutive frames of every 331, but never their copies, which are
/// sent an RTT later.
fn short_bursts() -> Errors {
    let record = LossRecord::new((0..331).map(|frame| (200..203).contains(&frame)).collect())
        .expect("a record");
    Errors::Trace(TraceKeys {
        file: PathBuf::new(),
        column: None,
        at_end: TraceEnd::Repeat,
        start: TraceStart::Frame(0),
        readable_headers: None,
        record,
    })
}

#[test]
fn selective_repeat_repeats_nothing_that_the_receiver_holds() {
    let satellite = "rate = \"2 Mbps\"\ndelay = \"250 ms\"\n";
    let fast = "rate = \"2 Mbps\"\ndelay = \"10 ms\"\n";
    let slow = "rate = \"64 kbps\"\ndelay = \"50 ms\"\n";
    let slow_back = "rate = \"2 Mbps\"\ndelay = \"10 ms\"\nreverse.rate = \"64 kbps\"\n";
    let slow_there = "rate = \"64 kbps\"\ndelay = \"10 ms\"\nreverse.rate = \"2 Mbps\"\n";
    for link in [satellite, fast, slow, slow_back, slow_there] {
        for window in [4, 8, 64, 128] {
            for acks in ["piggybacked", "stand-alone"] {
                let flow = |name: &str, from: &str, to: &str| {
                    format!(
                        "[flow.{name}]\nfrom = \"{from}\"\nto = \"{to}\"\n\
                         transport = {{ kind = \"udp\" }}\napp = {{ kind = \"on-off\", \
                         rate = \"2.2 Mbps\", on = \"300 s\", off = \"0 s\", packet = \"1 kB\" }}\n"
                    )
                };
                // With data in both directions, NACKs and acknowledgments wait for long frames.
                let flows = flow("there", "a", "b") + &flow("back", "b", "a");
                let text = format!(
                    "name = \"repeats\"\n[link.l]\nbetween = [\"a\", \"b\"]\n{link}\
                     protocol = {{ kind = \"selective-repeat\", window = {window}, acks = \"{acks}\" }}\n{flows}\
                     [run]\nduration = \"300 s\"\n"
                );
                let mut points = Scenario::from_toml(&text, Path::new("."))
                    .and_then(|document| document.points())
                    .unwrap_or_else(|error| panic!("{error}\n{text}"));
                Arc::make_mut(&mut points[0].scenario.links)[0].forward.errors = short_bursts();
                let points: Vec<_> = points.into_iter().map(|point| point.scenario).collect();
                let options = Options { replications: 1, first_replication: 0, seed: 1, jobs: 1 };
                let results = run::run(&points, &options, &mut |_| true).expect("a run");
                let count = |name: &str| {
                    let name = format!("link.l.forward.{name}");
                    let index = results.metrics.iter().position(|metric| *metric == name);
                    results.rows[0].values[index.expect("a metric")]
                };
                let (repeats, held) = (count("retransmissions"), count("duplicates"));
                assert!(repeats >= 18.0, "{repeats} repeats cannot tell");
                assert_eq!(held, 0.0, "{link}window {window}, {acks}: of {repeats} repeats");
            }
        }
    }
}

#[test]
fn frames_are_counted_on_the_direction_they_travelled() {
    for (protocol, counter) in [
        ("kind = \"go-back-n\", reject = true", "discarded"),
        // A timer below the RTT sends every frame twice.
        ("kind = \"go-back-n\", timeout = \"30 ms\"", "duplicates"),
        ("kind = \"selective-repeat\", timeout = \"30 ms\"", "duplicates"),
    ] {
        let text = format!(
            "name = \"counters\"\n[link.l]\nbetween = [\"a\", \"b\"]\nrate = \"1 Mbps\"\n\
             delay = \"20 ms\"\nprotocol = {{ {protocol} }}\n\
             errors = {{ kind = \"uniform\", loss = \"5 %\" }}\n\
             [flow.f]\nfrom = \"a\"\nto = \"b\"\ntransport = {{ kind = \"udp\" }}\n\
             app = {{ kind = \"on-off\", rate = \"100 kbps\", on = \"1 s\", off = \"1 s\", packet = \"100 B\" }}\n\
             [run]\nduration = \"100 s\"\n"
        );
        for metrics in metrics(&text, 1) {
            assert!(metrics[&format!("link.l.forward.{counter}")] > 0.0, "{protocol}");
            assert_eq!(metrics[&format!("link.l.reverse.{counter}")], 0.0, "{protocol}");
            assert_eq!(metrics["link.l.forward.abandoned"], 0.0);
        }
    }
}

#[test]
fn an_interrupted_trace_says_so() {
    let text = "name = \"long\"\n[link.l]\nbetween = [\"a\", \"b\"]\nrate = \"10 Mbps\"\ndelay = \"1 ms\"\n\
        [flow.f]\nfrom = \"a\"\nto = \"b\"\ntransport = { kind = \"udp\" }\n\
        app = { kind = \"on-off\", rate = \"8 Mbps\", on = \"1 s\", off = \"0 s\", packet = \"100 B\", replay = \"per-packet\" }\n\
        [run]\nduration = \"10 s\"\n";
    let document = Scenario::from_toml(text, Path::new(".")).expect("a scenario");
    let scenario = document.points().expect("a point").remove(0).scenario;
    let trace =
        |interrupt| run::trace(&scenario, 1, 0, &AtomicBool::new(interrupt)).expect("a trace");
    let (whole, part) = (trace(false), trace(true));
    assert!(whole.complete && !part.complete);
    assert!(part.events.len() < whole.events.len());
}

#[test]
fn byte_limits_count_frames_whatever_the_protocol() {
    let drops = |protocol: &str| {
        let text = format!(
            "name = \"limits\"\n[link.l]\nbetween = [\"a\", \"b\"]\nrate = \"1 Mbps\"\n\
             delay = \"1 ms\"\nheader = \"50 B\"\nqueue = \"850 B\"\nprotocol = {{ kind = \"{protocol}\" }}\n\
             [flow.f]\nfrom = \"a\"\nto = \"b\"\ntransport = {{ kind = \"udp\" }}\n\
             app = {{ kind = \"on-off\", rate = \"2 Mbps\", on = \"100 ms\", off = \"1 s\", packet = \"250 B\" }}\n\
             [run]\nduration = \"1200 ms\"\n"
        );
        metrics(&text, 1)[0]["link.l.forward.queue_drops"]
    };
    // A frame lasts 2.4 ms, and two fit; one arrives every millisecond.
    let raw = drops("raw");
    assert!(raw > 50.0);
    assert_eq!(drops("go-back-n"), raw);
    assert_eq!(drops("selective-repeat"), raw);
    assert_eq!(drops("karn-rlp"), raw);
    assert_eq!(drops("oos-rlp"), raw);
}

#[test]
fn radio_links_lose_what_their_attempts_leave() {
    // A cellular link at a third of its rate, 10 % loss in both directions, one attempt: r = p (1 -
    // (1 - p)^2) = 1.9 % of 90000 packets; 5 standard deviations of the binomial, false-positive
    // rate 6e-7.
    let run = |protocol: &str| {
        let text = format!(
            "name = \"media\"\n[link.l]\nbetween = [\"a\", \"b\"]\nrate = \"43.2 kbps\"\n\
             delay = \"100 ms\"\nprotocol = {{ {protocol} }}\n\
             errors = {{ kind = \"uniform\", loss = \"10 %\" }}\n\
             [flow.f]\nfrom = \"a\"\nto = \"b\"\ntransport = {{ kind = \"udp\" }}\n\
             app = {{ kind = \"on-off\", rate = \"14.4 kbps\", on = \"1 s\", off = \"1350 ms\", packet = \"50 B\" }}\n\
             [run]\nduration = \"5875.5 s\"\n"
        );
        metrics(&text, 1).remove(0)
    };
    let karn = run("kind = \"karn-rlp\", retransmissions = 1");
    let oos = run("kind = \"oos-rlp\", retransmissions = 1");
    for name in ["skipped", "duplicates", "retransmissions", "keepalives"] {
        let name = format!("link.l.forward.{name}");
        assert_eq!(karn[&name], oos[&name], "{name}");
    }
    for metrics in [&karn, &oos] {
        let (sent, lost) =
            (metrics["link.l.forward.data_frames"], metrics["link.l.forward.skipped"]);
        assert!(sent > 89_000.0);
        let exact = 0.1 * (1.0 - 0.9 * 0.9);
        let deviation = (sent * exact * (1.0 - exact)).sqrt();
        assert!((lost - sent * exact).abs() < 5.0 * deviation, "{lost} of {sent}");
        assert_eq!(metrics["flow.f.delivered_bytes"], (sent - lost) * 50.0);
        assert_eq!(metrics["link.l.forward.duplicates"], 0.0);
    }
}

#[test]
fn keepalives_show_losses_that_nothing_follows() {
    // Web pages over a WLAN that loses 5.9 % of the full-sized frames. Without keep-alives, the
    // loss of a burst's last frame is detected by TCP's timer after 1 s or more.
    let run = |keepalive: &str| {
        let text = format!(
            "name = \"web\"\n[link.l]\nbetween = [\"a\", \"b\"]\nrate = \"2 Mbps\"\n\
             delay = \"3 ms\"\nprotocol = {{ kind = \"karn-rlp\", keepalive = \"{keepalive}\" }}\n\
             errors = {{ kind = \"bit\", ber = 7.63e-6 }}\n\
             [flow.f]\nfrom = \"a\"\nto = \"b\"\n\
             transport = {{ kind = \"tcp\", variant = \"reno\", profile = \"ns-2\", segment = \"1000 B\" }}\n\
             app = {{ kind = \"web\" }}\n[run]\nduration = \"1000 s\"\n"
        );
        metrics(&text, 5)
    };
    // Goodput is three times as high, with less than a tenth of the variation between replications.
    for (with, without) in run("auto").iter().zip(run("off")) {
        let goodput = |metrics: &HashMap<String, f64>| metrics["flow.f.goodput_bps"];
        assert!(goodput(with) > 2.0 * goodput(&without));
        assert!(with["flow.f.timeouts"] < 10.0 && without["flow.f.timeouts"] > 300.0);
        assert!(with["link.l.forward.keepalives"] > 1000.0);
        assert_eq!(without["link.l.forward.keepalives"], 0.0);
    }
}
