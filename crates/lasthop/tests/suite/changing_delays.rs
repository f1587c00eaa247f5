//! Delays that change with time, in scenarios: on computed and driven links and framed radios, with
//! background traffic replayed and packet by packet, from lists and recordings.

use crate::changing_rates::{UNDER_WAY, assert_same, folder, metrics, scenario, shared};
use crate::scenarios::Metrics;
use lasthop::run;
use proptest::prelude::*;
use std::path::Path;
use std::sync::atomic::AtomicBool;

/// Replaces the delay of the narrow link of `shared` in both directions.
fn with_delay(text: &str, delay: &str) -> String {
    let own = "delay = \"20.3 ms\"";
    assert!(text.contains(own));
    text.replace(own, &format!("delay = {delay}"))
}

/// Handovers: the delay increases, and decreases by more than the interval between packets.
const STEPS: &str = r#"{ kind = "steps", at = [["0 s", "20.3 ms"], ["700 ms", "90 ms"], ["1.1 s", "3 ms"], ["2 s", "61 ms"]], repeat = "2.7 s" }"#;

const RED: &str = r#"{ kind = "red", limit = "20 packets", min = "30 packets" }"#;

fn drawn(delay: &str, queue: &str, protocol: &str, replay: &str) -> Vec<Metrics> {
    metrics(&with_delay(&shared("\"1 Mbps\"", queue, protocol, replay), delay), Path::new("."))
}

#[test]
fn replayed_traffic_is_the_same_packet_by_packet() {
    for queue in ["\"20 packets\"", "\"12 kB\""] {
        let lazy = drawn(STEPS, queue, "raw", "lazy");
        let each = drawn(STEPS, queue, "raw", "per-packet");
        assert!(lazy.iter().all(|row| row["link.narrow.forward.queue_drops"] > 0.0));
        assert!(lazy.iter().all(|row| row["flow.file.complete"] == 1.0));
        assert_same(&lazy, &each, &UNDER_WAY);
        let constant = drawn("\"20.3 ms\"", queue, "raw", "lazy");
        assert_ne!(lazy[0]["flow.file.duration_s"], constant[0]["flow.file.duration_s"]);
    }
}

#[test]
fn a_computed_link_is_a_driven_one() {
    let computed = drawn(STEPS, "\"20 packets\"", "raw", "lazy");
    // RED that never drops makes the link a driven link.
    assert_same(&computed, &drawn(STEPS, RED, "raw", "lazy"), &UNDER_WAY);
}

#[test]
fn a_list_of_one_delay_is_that_delay() {
    let list =
        r#"{ kind = "steps", at = [["0 s", "20.3 ms"], ["3 s", "20.3 ms"]], repeat = "7 s" }"#;
    let directory = folder("delay", "time_s,delay_s\n0,0.0203\n2.5, 0.0203\n");
    let csv = r#"{ kind = "trace", file = "recording" }"#;
    let table = r#"{ kind = "constant", delay = "20.3 ms" }"#;
    for protocol in ["raw", "selective-repeat", "rlc-am"] {
        let text = shared("\"1 Mbps\"", "\"20 packets\"", protocol, "lazy");
        let of = |delay| metrics(&with_delay(&text, delay), &directory);
        let plain = of("\"20.3 ms\"");
        for delay in [list, csv, table] {
            assert_same(&plain, &of(delay), &[]);
        }
    }
    std::fs::remove_dir_all(directory).unwrap();
}

/// Arrival times in milliseconds, and numbers, of the datagrams of flow f, one of 1000 B every 10
/// ms.
fn arrivals(links: &str, directory: &Path) -> Vec<(f64, f64)> {
    let text = format!(
        r#"
        name = "satellite"
        {links}
        [flow.f]
        from = "a"
        to = "b"
        transport = {{ kind = "udp" }}
        app = {{ kind = "on-off", rate = "800 kbps", on = "1 h", off = "0 s", packet = "1000 B", replay = "per-packet" }}
        [run]
        duration = "200 ms"
        "#
    );
    let scenario = scenario(&text, directory).unwrap_or_else(|error| panic!("{error}\n{text}"));
    let trace = run::trace(&scenario, 1, 0, &AtomicBool::new(false)).unwrap();
    let received = trace.events.iter().filter(|event| event.event == "datagram_received");
    received.map(|event| (event.time_ns as f64 / 1e6, event.sequence)).collect()
}

/// Packets are sent at 10, 20, 30 … ms and take 1 ms to transmit. The delay is 30 ms; from 45 ms 5
/// ms; from 90 ms 40 ms. Packets sent at 51 and 61 ms would arrive at 56 and 66 ms, but the
/// preceding packet arrives at 71 ms.
#[test]
fn arrivals_after_a_handover_by_hand() {
    let expected = [41.0, 51.0, 61.0, 71.0, 71.0, 71.0, 76.0, 86.0, 131.0, 141.0];
    let directory = folder("handover", "# one-way\n0,0.03\n0.045,0.005\n0.09,0.04\n");
    let steps =
        r#"{ kind = "steps", at = [["0 s", "30 ms"], ["45 ms", "5 ms"], ["90 ms", "40 ms"]] }"#;
    let trace = r#"{ kind = "trace", file = "recording" }"#;
    let link = |more: &str, delay: &str| {
        format!("[link.sky]\nbetween = [\"a\", \"b\"]\nrate = \"8 Mbps\"\ndelay = {delay}\n{more}")
    };
    for delay in [steps, trace] {
        // Computed; driven by a queue discipline; driven by a protocol, whose frames have no header.
        for more in
            ["", &format!("queue = {RED}"), "protocol = \"selective-repeat\"\nheader = \"0 B\""]
        {
            let arrivals = arrivals(&link(more, delay), &directory);
            let times: Vec<_> = arrivals.iter().map(|&(time, _)| time).collect();
            assert_eq!(times[..expected.len()], expected, "{more}: {times:?}");
        }
    }
    // Before and after another link, with which it is computed in one step: each packet arrives 3
    // ms later, simultaneous arrivals one after the other.
    let other = "[link.other]\nbetween = [\"c\", \"b\"]\nrate = \"8 Mbps\"\ndelay = \"2 ms\"\n";
    let first = link("", steps).replace("\"b\"]", "\"c\"]") + other;
    let times: Vec<_> = arrivals(&first, &directory).iter().map(|&(time, _)| time).collect();
    let expected = [44.0, 54.0, 64.0, 74.0, 75.0, 76.0, 79.0, 89.0, 134.0, 144.0];
    assert_eq!(times[..expected.len()], expected, "{times:?}");
    std::fs::remove_dir_all(directory).unwrap();
}

/// One packet per frame of 10 ms; a frame filled at 10 ms is sent by 20 ms.
#[test]
fn a_radio_s_frames_keep_their_order() {
    let radio = r#"
        [radio.cell]
        base = "b"
        stations = ["a"]
        slot = "1000 B"
        delay = { kind = "steps", at = [["0 s", "30 ms"], ["45 ms", "5 ms"], ["91 ms", "40 ms"]] }
        "#;
    let times: Vec<_> = arrivals(radio, Path::new(".")).iter().map(|&(time, _)| time).collect();
    // Frames with the packets of 10, 20 … ms end at 20, 30, 40, 50 … ms. Packets sent at 50 and 60
    // ms would arrive at 55 and 65 ms.
    let expected = [50.0, 60.0, 70.0, 70.0, 70.0, 75.0, 85.0, 95.0, 140.0, 150.0];
    assert_eq!(times[..expected.len()], expected, "{times:?}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// With any delays, packets keep their order, and none is lost in transit.
    #[test]
    fn packets_keep_their_order(
        delays in prop::collection::vec(0u64..70, 1..7),
        repeats in any::<bool>(),
        protocol in prop::sample::select(vec!["raw", "selective-repeat", "go-back-n", "rlc-am", "karn-rlp"]),
        queue in prop::sample::select(vec!["\"50 packets\"", RED]),
    ) {
        let steps: Vec<_> = delays
            .iter()
            .enumerate()
            .map(|(place, delay)| format!("[\"{} ms\", \"{delay} ms\"]", 15 * place))
            .collect();
        let repeat = if repeats { format!(", repeat = \"{} ms\"", 15 * delays.len()) } else { String::new() };
        let link = format!(
            "[link.sky]\nbetween = [\"a\", \"b\"]\nrate = \"8 Mbps\"\nprotocol = \"{protocol}\"\n\
             queue = {queue}\ndelay = {{ kind = \"steps\", at = [{}]{repeat} }}\n",
            steps.join(", "),
        );
        let arrivals = arrivals(&link, Path::new("."));
        let numbers: Vec<_> = arrivals.iter().map(|&(_, number)| number).collect();
        let in_order: Vec<_> = (0..numbers.len()).map(|number| numbers[0] + number as f64).collect();
        prop_assert_eq!(&numbers, &in_order, "{}", link);
        prop_assert!(arrivals.windows(2).all(|two| two[0].0 <= two[1].0));
        // A window of 8 frames, the default, is sent by 81 ms and arrives 70 ms later.
        prop_assert!(numbers.len() >= 8, "{} of 20: {}", numbers.len(), link);
    }
}

#[test]
fn impossible_delays_are_refused() {
    let directory = folder("delays-refused", "0,0.01\n1,0.02\n1,0.03\n");
    for (delay, found) in [
        (r#"{ kind = "steps", at = [] }"#, "delay.at: found an empty list"),
        (r#"{ kind = "steps", at = [["1 s", "1 ms"]] }"#, "delay.at[0]: found \"1 s\""),
        (
            r#"{ kind = "steps", at = [["0 s", "9 ms"], ["9 s", "1 ms"]], repeat = "9 s" }"#,
            "delay.repeat: found \"9 s\"; expected more than the last time, 9 s",
        ),
        (
            r#"{ kind = "trace", file = "recording" }"#,
            "delay.file: found \"1,0.03\" in line 3 of \"recording\"",
        ),
        (r#"{ kind = "trace", file = "none" }"#, "which cannot be read"),
        ("\"50 sm\"", "or a table with the key kind, one of \"constant\", \"steps\", \"trace\""),
    ] {
        let text = with_delay(&shared("\"1 Mbps\"", "\"9 packets\"", "raw", "lazy"), delay);
        let error = scenario(&text, &directory).unwrap_err();
        assert!(error.contains(found) && error.contains("; expected "), "{found}\n{error}");
    }
    let unlimited = r#"{ kind = "steps", at = [["0 s", "9 ms"], ["9 s", "0 s"]] }"#;
    let text = with_delay(&shared("\"unlimited\"", "\"9 packets\"", "raw", "lazy"), unlimited);
    let error = scenario(&text, &directory).unwrap_err();
    assert!(error.contains("more than zero where the rate is \"unlimited\""), "{error}");
    std::fs::remove_dir_all(directory).unwrap();
}
