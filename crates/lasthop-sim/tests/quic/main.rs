//! QUIC over links: hand-worked traces of RFC 9002, closed forms, and determinism.
#![cfg(feature = "quic")]

use lasthop_sim::run::{self, Options, Trace};
use lasthop_sim::scenario::Scenario;
use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::AtomicBool;

mod datagrams;
mod networks;
mod recovery;

type Metrics = BTreeMap<String, f64>;

fn points(text: &str) -> Vec<Scenario> {
    let document = Scenario::from_toml(text, Path::new("."));
    let points = document.and_then(|document| document.points());
    let points = points.unwrap_or_else(|error| panic!("{error}\n{text}"));
    points.into_iter().map(|point| point.scenario).collect()
}

/// Returns the metrics of `replications` replications.
fn metrics(text: &str, replications: u64, seed: u64) -> Vec<Metrics> {
    let options = Options { replications, first_replication: 0, seed, jobs: 2 };
    let results = run::run(&points(text), &options, &mut |_| true).expect("a run");
    let row =
        |row: &run::Row| results.metrics.iter().cloned().zip(row.values.iter().copied()).collect();
    results.rows.iter().map(row).collect()
}

/// A file over one link with these keys.
fn file(link: &str, quic: &str, size: &str) -> String {
    format!(
        r#"
        name = "quic"
        [link.air]
        between = ["a", "b"]
        {link}
        [flow.f]
        from = "a"
        to = "b"
        transport = {{ kind = "quic" {quic} }}
        app = {{ kind = "file", size = "{size}" }}
        [run]
        max_time = "1000 s"
        "#
    )
}

/// A link whose transmission times are negligible: the RTT is 40 ms.
const FAST: &str = "rate = \"10 Gbps\"\ndelay = \"20 ms\"\nqueue = \"1 MB\"";
const LINK: &str = "rate = \"20 Mbps\"\ndelay = \"20 ms\"\nqueue = \"125 kB\"";

/// Loses these frames from the client to the server.
fn losing(link: &str, frames: &str) -> String {
    format!(
        "{link}\nerrors = {{ kind = \"listed\", lose = [{frames}] }}\n\
         [link.air.reverse]\nerrors = \"none\""
    )
}

fn trace(text: &str) -> Trace {
    run::trace(&points(text)[0], 1, 0, &AtomicBool::new(false)).expect("a trace")
}

/// Returns times in milliseconds and packet numbers of the sender's events of this name.
fn events(trace: &Trace, name: &str) -> Vec<(f64, f64)> {
    let own = trace.events.iter().filter(|event| event.entity == "flow.f" && event.event == name);
    own.map(|event| (event.time_ns as f64 / 1e6, event.sequence)).collect()
}

fn value(trace: &Trace, name: &str) -> f64 {
    let name = format!("flow.f.{name}");
    trace.metrics.iter().find(|(known, _)| *known == name).expect("a metric").1
}

fn near(found: f64, expected: f64, tolerance: f64) {
    assert!((found - expected).abs() <= tolerance, "found {found}, expected {expected}");
}

const TRANSFERS: &str = "QUIC_TRANSFERS";

/// Prints a hash of all metrics of 200 seeds, if another process of this test asks for it.
#[test]
fn prints_transfers() {
    if std::env::var_os(TRANSFERS).is_some() {
        println!("hash {:016x}", hash_of_transfers(1));
    }
}

fn hash_of_transfers(jobs: usize) -> u64 {
    let link = format!("{LINK}\nerrors = {{ kind = \"uniform\", loss = \"2 %\" }}");
    let variants = ["\"cubic\"", "\"newreno\"", "\"bbr\""]
        .map(|variant| points(&file(&link, &format!(", variant = {variant}"), "300 kB")).remove(0));
    let mut hash = 0xcbf2_9ce4_8422_2325u64;
    for seed in 0..200 {
        let options = Options { replications: 1, first_replication: 0, seed, jobs };
        let results = run::run(&variants, &options, &mut |_| true).expect("a run");
        for value in results.rows.iter().flat_map(|row| &row.values) {
            hash = (hash ^ value.to_bits()).wrapping_mul(0x0100_0000_01b3).rotate_left(17);
        }
    }
    hash
}

/// 200 seeds yield the same bits in another process, whose clock and system random numbers differ,
/// and with another number of threads.
#[test]
fn seeds_determine_every_bit() {
    let program = std::env::current_exe().expect("a path");
    let mut other = Command::new(program);
    other.args(["--exact", "prints_transfers", "--nocapture"]).env(TRANSFERS, "1");
    let output = other.output().expect("a process");
    let output = String::from_utf8_lossy(&output.stdout).into_owned();
    let hash = output.split("hash ").nth(1).and_then(|rest| rest.get(..16)).expect("a hash");
    assert_eq!(hash, format!("{:016x}", hash_of_transfers(2)));
    let [first, second] = [1, 2].map(|seed| {
        let row = metrics(&file(LINK, "", "300 kB"), 1, seed).remove(0);
        row["flow.f.duration_s"]
    });
    assert_ne!(first, second, "packet numbers are skipped at random");
}

/// Each message names the key and the allowed values.
#[test]
fn keys_are_checked_before_the_run() {
    let message = |link: &str, quic: &str| {
        let document = Scenario::from_toml(&file(link, quic, "1 kB"), Path::new("."));
        let error = document.and_then(|document| document.points()).expect_err("an error");
        error.to_string()
    };
    let found = [
        message(LINK, ", datagram = \"1100 B\""),
        message(LINK, ", initial_window = \"1 kB\""),
        message(LINK, ", max_ack_delay = \"5 ms\""),
        message(LINK, ", stream_window = \"0 B\""),
        message(LINK, ", congestion_control = { kind = \"bbr\" }"),
        message(&format!("{LINK}\nmtu = \"1400 B\""), ""),
        message(&format!("{LINK}\nagent = {{ kind = \"split-connection\", at = \"a\" }}"), ""),
    ];
    let expected = [
        "transport.datagram",
        "transport.initial_window",
        "transport.max_ack_delay",
        "transport.stream_window",
        "transport.congestion_control",
        "transport.datagram",
        "agent.kind",
    ];
    for (found, expected) in found.iter().zip(expected) {
        assert!(found.contains(expected), "{found}");
    }
}
