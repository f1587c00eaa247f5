//! Rates that change with time, in scenarios: on computed and driven links, with background traffic
//! replayed and packet by packet, from lists and recordings.

use crate::scenarios::{self, Metrics};
use lasthop::run;
use lasthop::scenario::Scenario;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

pub fn scenario(text: &str, directory: &Path) -> Result<Scenario, String> {
    Scenario::from_toml(text, directory)
        .and_then(|document| document.points())
        .map(|mut points| points.remove(0).scenario)
        .map_err(|error| error.to_string())
}

pub fn metrics(text: &str, directory: &Path) -> Vec<Metrics> {
    let scenario = scenario(text, directory).unwrap_or_else(|error| panic!("{error}\n{text}"));
    scenarios::metrics(&scenario, 3, 3)
}

/// Creates a folder for this test with one file.
pub fn folder(name: &str, text: &str) -> PathBuf {
    let process = std::process::id();
    let directory = std::env::temp_dir().join(format!("lasthop-rates-{process}-{name}"));
    std::fs::create_dir_all(&directory).unwrap();
    std::fs::write(directory.join("recording"), text).unwrap();
    directory
}

/// Returns a scenario with a file and two on-off sources over a link of this rate.
pub fn shared(rate: &str, queue: &str, protocol: &str, replay: &str) -> String {
    format!(
        r#"
        name = "shared"
        [link.narrow]
        between = ["r", "c"]
        rate = {rate}
        delay = "20.3 ms"
        queue = {queue}
        protocol = "{protocol}"
        errors = {{ kind = "uniform", loss = "1 %" }}
        [link.access]
        between = ["s", "r"]
        rate = "10 Mbps"
        delay = "1 ms"
        [flow.file]
        from = "s"
        to = "c"
        transport = {{ kind = "tcp", variant = "sack", profile = "rfc", segment = "1000 B" }}
        app = {{ kind = "file", size = "700 kB" }}
        [flow.noise]
        from = "r"
        to = "c"
        transport = {{ kind = "udp" }}
        app = {{ kind = "on-off", rate = "703 kbps", on = "exp 300 ms", off = "exp 1 s", packet = "500 B", replay = "{replay}" }}
        [flow.hum]
        from = "r"
        to = "c"
        transport = {{ kind = "udp" }}
        app = {{ kind = "on-off", rate = "100.3 kbps", on = "1 s", off = "exp 300 ms", packet = "90 B", replay = "{replay}" }}
        [run]
        max_time = "1000 s"
        "#
    )
}

const STEPS: &str = r#"{ kind = "steps", at = [["0 s", "1 Mbps"], ["1.7 s", "0 bps"], ["2 s", "300 kbps"], ["4 s", "2.3 Mbps"]], repeat = "5 s" }"#;

pub fn assert_same(one: &[Metrics], other: &[Metrics], but: &[&str]) {
    assert_eq!(one.len(), other.len());
    for (one, other) in one.iter().zip(other) {
        for (name, value) in one.iter().filter(|(name, _)| !but.contains(&name.as_str())) {
            assert_eq!(value.to_bits(), other[name].to_bits(), "{name}: {value}, {}", other[name]);
        }
    }
}

/// Metrics that count packets in transit at the end of a run as lost, except on computed links.
pub const UNDER_WAY: [&str; 2] = ["flow.noise.loss", "flow.hum.loss"];

#[test]
fn replayed_traffic_is_the_same_packet_by_packet() {
    let recorded: String = (0..4000u64).map(|n| format!("{}\n", n * n % 7 + n * 9)).collect();
    let mut sorted: Vec<u64> = recorded.lines().map(|line| line.parse().unwrap()).collect();
    sorted.sort_unstable();
    let lines: String = sorted.iter().map(|ms| format!("{ms}\n")).collect();
    let directory = folder("replayed", &lines);
    let trace = r#"{ kind = "trace", file = "recording", format = "mahimahi" }"#;
    for rate in [STEPS, trace] {
        for queue in ["\"20 packets\"", "\"12 kB\""] {
            let lazy = metrics(&shared(rate, queue, "raw", "lazy"), &directory);
            let each = metrics(&shared(rate, queue, "raw", "per-packet"), &directory);
            assert!(lazy.iter().all(|row| row["link.narrow.forward.queue_drops"] > 0.0));
            assert!(lazy.iter().all(|row| row["flow.file.complete"] == 1.0));
            assert_same(&lazy, &each, &UNDER_WAY);
        }
    }
    std::fs::remove_dir_all(directory).unwrap();
}

#[test]
fn a_computed_link_is_a_driven_one() {
    // RED that never drops makes the link a driven link.
    let red = r#"{ kind = "red", limit = "20 packets", min = "30 packets" }"#;
    let computed = metrics(&shared(STEPS, "\"20 packets\"", "raw", "lazy"), Path::new("."));
    let driven = metrics(&shared(STEPS, red, "raw", "lazy"), Path::new("."));
    assert_same(&computed, &driven, &UNDER_WAY);
}

#[test]
fn a_list_of_one_rate_is_that_rate() {
    let list = r#"{ kind = "steps", at = [["0 s", "1 Mbps"], ["3 s", "1 Mbps"], ["4 s", "1 Mbps"]], repeat = "7 s" }"#;
    let directory = folder("constant", "time_s,rate_bps\n0,1000000\n2.5, 1000000\n");
    let csv = r#"{ kind = "trace", file = "recording", format = "csv" }"#;
    let table = r#"{ kind = "constant", rate = "1 Mbps" }"#;
    for protocol in ["raw", "selective-repeat"] {
        let of = |rate| metrics(&shared(rate, "\"20 packets\"", protocol, "lazy"), &directory);
        let plain = of("\"1 Mbps\"");
        for rate in [list, csv, table] {
            assert_same(&plain, &of(rate), &[]);
        }
    }
    std::fs::remove_dir_all(directory).unwrap();
}

/// One datagram every 10 ms over recorded opportunities: arrival times, exact to the nanosecond.
#[test]
fn mahimahi_s_opportunities_are_used_to_the_byte() {
    // Two opportunities at 25 ms, one at 61 ms; repeated every 70 ms.
    let directory = folder("opportunities", "# two simultaneous\n25\n25\n61\n70\n");
    let text = r#"
        name = "cell"
        [link.cell]
        between = ["a", "b"]
        rate = { kind = "trace", file = "recording", format = "mahimahi" }
        delay = "3 ms"
        [flow.f]
        from = "a"
        to = "b"
        transport = { kind = "udp" }
        app = { kind = "on-off", rate = "800 kbps", on = "1 h", off = "0 s", packet = "1000 B", replay = "per-packet" }
        [run]
        duration = "200 ms"
        "#;
    let scenario = scenario(text, &directory).unwrap();
    let trace = run::trace(&scenario, 1, 0, &AtomicBool::new(false)).unwrap();
    let received = trace.events.iter().filter(|event| event.event == "datagram_received");
    let times: Vec<_> = received.map(|event| event.time_ns as f64 / 1e6).collect();
    let sent = trace.events.iter().filter(|event| event.event == "datagram_sent");
    let sent: Vec<_> = sent.take(3).map(|event| event.time_ns as f64 / 1e6).collect();
    assert_eq!(sent, [10.0, 20.0, 30.0]);
    // At 25 ms, two opportunities serve the two waiting packets; their remaining bytes are unused.
    // The opportunity at 61 ms serves one packet and half of the next; the one at 70 ms completes
    // it and serves another. The schedule repeats 70 ms later, with three packets at 95 and 165 ms.
    let expected = [28.0, 28.0, 64.0, 73.0, 73.0, 98.0, 98.0, 98.0, 134.0, 143.0, 143.0, 168.0];
    assert_eq!(times[..12], expected, "{times:?}");
    let row: Metrics = trace.metrics.into_iter().collect();
    // Ten opportunities up to 200 ms; 14 packets have been sent completely.
    let utilization = 14.0 * 1000.0 / (10.0 * 1500.0);
    assert!((row["link.cell.forward.utilization"] - utilization).abs() < 1e-12, "{row:?}");
    std::fs::remove_dir_all(directory).unwrap();
}

#[test]
fn impossible_rates_are_refused() {
    let directory = folder("refused", "0,1000000\n1,2000000\n1,3000000\n");
    for (rate, found) in [
        (r#"{ kind = "steps", at = [] }"#, "rate.at: found an empty list"),
        (r#"{ kind = "steps", at = [["0 s"]] }"#, "rate.at: found [\"0 s\"] in it"),
        (r#"{ kind = "steps", at = [["1 s", "1 Mbps"]] }"#, "rate.at[0]: found \"1 s\""),
        (
            r#"{ kind = "steps", at = [["0 s", "1 Mbps"], ["0 s", "2 Mbps"]] }"#,
            "rate.at[1]: found \"0 s\"; expected a time after the one before",
        ),
        (
            r#"{ kind = "steps", at = [["0 s", "1 Mbps"], ["9 s", "0 bps"]] }"#,
            "rate.at: found a link that stays down",
        ),
        (
            r#"{ kind = "steps", at = [["0 s", "1 Mbps"], ["9 s", "0 bps"]], repeat = "9 s" }"#,
            "rate.repeat: found \"9 s\"; expected more than the last time, 9 s",
        ),
        (
            r#"{ kind = "trace", file = "recording", format = "csv" }"#,
            "rate.file: found \"1,3000000\" in line 3 of \"recording\"",
        ),
        (
            r#"{ kind = "trace", file = "recording", format = "mahimahi" }"#,
            "rate.file: found \"0,1000000\" in line 1 of \"recording\"",
        ),
        (r#"{ kind = "trace", file = "none", format = "csv" }"#, "which cannot be read"),
        ("\"64 kpbs\"", "or a table with the key kind, one of \"constant\", \"steps\", \"trace\""),
    ] {
        let text = shared(rate, "\"9 packets\"", "raw", "lazy");
        let error = scenario(&text, &directory).unwrap_err();
        assert!(error.contains(found) && error.contains("; expected "), "{found}\n{error}");
    }
    std::fs::remove_dir_all(directory).unwrap();
}
