//! Cost of QUIC: processor time per datagram, both ends and one link included, and the time in which
//! 1,000 connections are built.
//!
//! `cargo run -p lasthop-sim --profile fast --example quic_speed`; `-- --once` transfers one file,
//! for instruction counts by Callgrind.

use cpu_time::ProcessTime;
use lasthop_sim::run::{self, Options};
use lasthop_sim::scenario::Scenario;
use std::fmt::Write;
use std::path::Path;

/// Rounds, of which the fastest counts.
const ROUNDS: usize = 7;

/// Runs one replication. Returns its processor time in nanoseconds, and the datagrams sent.
fn run(text: &str) -> (f64, f64) {
    let document = Scenario::from_toml(text, Path::new(".")).expect("a scenario");
    let points = document.points().expect("points");
    let points: Vec<_> = points.into_iter().map(|point| point.scenario).collect();
    let options = Options { replications: 1, first_replication: 0, seed: 1, jobs: 1 };
    let start = ProcessTime::now();
    let results = run::run(&points, &options, &mut |_| true).expect("a run");
    let nanos = start.elapsed().as_nanos() as f64;
    let names = results.metrics.iter().zip(&results.rows[0].values);
    let sent = names.filter(|(name, _)| name.ends_with(".quic_datagrams_sent"));
    (nanos, sent.map(|(_, value)| value).sum())
}

fn file(size: &str) -> String {
    format!(
        r#"
        name = "speed"
        [link.air]
        between = ["a", "b"]
        rate = "100 Mbps"
        delay = "10 ms"
        queue = "1 MB"
        [flow.f]
        from = "a"
        to = "b"
        transport = {{ kind = "quic" }}
        app = {{ kind = "file", size = "{size}" }}
        "#
    )
}

fn connections(count: usize) -> String {
    let mut text = r#"
        name = "connections"
        [run]
        duration = "1 us"
        [link.air]
        between = ["a", "b"]
        rate = "1 Gbps"
        delay = "10 ms"
        queue = "10 MB"
        "#
    .to_owned();
    for number in 0..count {
        let _ = writeln!(
            text,
            "[flow.f{number}]\nfrom = \"a\"\nto = \"b\"\ntransport = {{ kind = \"quic\" }}\n\
             app = {{ kind = \"file\", size = \"10 kB\" }}"
        );
    }
    text
}

fn main() {
    if std::env::args().any(|argument| argument == "--once") {
        let (_, datagrams) = run(&file("10 MB"));
        println!("{datagrams} datagrams");
        return;
    }
    let fastest = |text: &str| {
        let runs = (0..ROUNDS).map(|_| run(text));
        runs.min_by(|one, other| one.0.total_cmp(&other.0)).expect("a round")
    };
    let (nanos, datagrams) = fastest(&file("50 MB"));
    println!("{:.2} us per datagram ({datagrams} datagrams)", nanos / datagrams / 1e3);
    let (nanos, _) = fastest(&connections(1_000));
    println!("{:.1} ms for 1,000 connections and their first datagrams", nanos / 1e6);
}
