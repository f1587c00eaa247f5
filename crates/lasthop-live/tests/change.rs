//! Changes of a live link during a run.

use lasthop_base::rng::Streams;
use lasthop_base::units::Instant;
use lasthop_live::change::Change;
use lasthop_live::{Network, Side};
use lasthop_sim::scenario::Scenario;
use std::path::Path;

const STREAMS: Streams = Streams { seed: 5, replication: 3 };
const RATE: &str = "\"2 Mbps\"";
const DELAY: &str = "\"20 ms\"";

fn at(millis: u64) -> Instant {
    Instant::from_nanos(millis * 1_000_000)
}

/// A raw link that loses one frame in twenty.
fn with(more: &str, rate: &str, delay: &str) -> Scenario {
    let text = format!(
        r#"
name = "live"
[link.air]
between = ["a", "b"]
rate = {rate}
delay = {delay}
queue = "50 packets"
errors = {{ kind = "uniform", loss = "5 %" }}
{more}
[flow.f]
from = "a"
to = "b"
transport = {{ kind = "udp" }}
app = {{ kind = "on-off", rate = "8 kbps", on = "1 s", off = "1 s", packet = "1000 B" }}
[run]
duration = "1 s"
"#
    );
    let document = Scenario::from_toml(&text, Path::new(".")).expect("a scenario");
    document.points().expect("points").remove(0).scenario
}

/// A UDP packet of 1000 B.
fn packet(number: u32) -> Vec<u8> {
    let mut packet = vec![0x45, 0, 3, 232, 0, 0, 0, 0, 64, 17, 0, 0, 10, 71, 0, 1, 10, 71, 0, 2];
    packet.extend(number.to_be_bytes());
    packet.resize(1000, 0);
    packet
}

/// Sends packets of 1000 B, 3 ms apart, for 3 s, and calls `change` before the one at 1002 ms.
/// Returns the deliveries.
fn deliveries(scenario: &Scenario, change: impl FnOnce(&mut Network)) -> Vec<(Instant, u8)> {
    let mut network = Network::new(scenario, STREAMS, None).expect("a network");
    let mut change = Some(change);
    let mut found = Vec::new();
    for number in 0..1000 {
        if number == 334
            && let Some(change) = change.take()
        {
            change(&mut network);
        }
        network.input(at(3 * number), 0, Side::Forward, packet(number as u32));
        found.extend(std::iter::from_fn(|| network.poll_delivery()));
    }
    network.advance(at(60_000));
    found.extend(std::iter::from_fn(|| network.poll_delivery()));
    found.into_iter().map(|one| (one.at, one.packet[23])).collect()
}

/// A change during a run is equivalent to steps in the scenario, including the frame in
/// transmission.
#[test]
fn a_change_during_a_run_is_a_step() {
    let steps = |values: &str| format!("{{ kind = \"steps\", at = [{values}] }}");
    let plain = with("", "\"2 Mbps\"", "\"20 ms\"");
    for (rate, delay) in [("500 kbps", "20 ms"), ("3 Mbps", "5 ms"), ("2 Mbps", "90 ms")] {
        let new = with("", &format!("\"{rate}\""), &format!("\"{delay}\""));
        let expected = with(
            "",
            &steps(&format!(r#"["0 s", "2 Mbps"], ["1001 ms", "{rate}"]"#)),
            &steps(&format!(r#"["0 s", "20 ms"], ["1001 ms", "{delay}"]"#)),
        );
        let changed = deliveries(&plain, |network| {
            let change = Change::Scenario(Box::new(new));
            network.change(at(1001), &change, &mut plain.clone(), STREAMS).expect("a change");
        });
        let expected = deliveries(&expected, |_| {});
        assert!(expected.len() > 300);
        assert_eq!(changed, expected, "{rate}, {delay}");
    }
    let down = steps(r#"["0 s", "2 Mbps"], ["1001 ms", "0 bps"], ["1701 ms", "2 Mbps"]"#);
    let paused = deliveries(&plain, |network| {
        let change = r#"{"pause_ns": 700000000, "link": "air"}"#;
        let change = Change::read(change, Path::new("."), &plain).expect("a change");
        network.change(at(1001), &change, &mut plain.clone(), STREAMS).expect("a change");
    });
    assert_eq!(paused, deliveries(&with("", &down, "\"20 ms\""), |_| {}));
}

#[test]
fn other_keys_do_not_change_during_a_run() {
    let plain = with("", RATE, DELAY);
    let mut network = Network::new(&plain, STREAMS, None).expect("a network");
    let mut present = plain.clone();
    for more in ["mtu = \"1600 B\"", "reverse = { queue = \"7 packets\" }"] {
        let change = Change::Scenario(Box::new(with(more, RATE, DELAY)));
        let error = network.change(at(1), &change, &mut present, STREAMS).expect_err("refused");
        assert!(
            error.to_string().starts_with("link.air: found a change of another key"),
            "{error}"
        );
        assert_eq!(present, plain);
    }
    for text in ["{}", r#"{"pause_ns": 1, "link": "b"}"#, r#"{"pause_ns": 1e30}"#, "[", "3"] {
        assert!(Change::read(text, Path::new("."), &plain).is_err(), "{text}");
    }
}
