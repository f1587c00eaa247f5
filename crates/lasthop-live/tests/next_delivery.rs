//! A driver that handles deadlines only when a packet can be delivered: equal deliveries, none late,
//! and fewer steps.

use lasthop_base::rng::Streams;
use lasthop_base::units::Instant;
use lasthop_live::{Delivery, Network, Side};
use lasthop_sim::scenario::Scenario;
use std::path::Path;

/// Every kind of protocol with a byte form.
const PROTOCOLS: &[&str] = &[
    r#"{ kind = "raw" }"#,
    r#"{ kind = "selective-repeat", window = 32 }"#,
    r#"{ kind = "go-back-n", window = 32 }"#,
    r#"{ kind = "stop-and-wait", retries = 2 }"#,
    r#"{ kind = "karn-rlp" }"#,
    r#"{ kind = "oos-rlp" }"#,
    r#"{ kind = "xor-fec", parity_timeout = "20 ms", in_order = true }"#,
    r#"{ kind = "rlc-am", max_transmissions = 2 }"#,
    r#"{ kind = "harq" }"#,
    r#"[{ kind = "rlc-am" }, { kind = "harq", max_transmissions = 1 }]"#,
    r#"[{ kind = "selective-repeat", window = 64 }, { kind = "xor-fec", in_order = true, parity_timeout = "20 ms" }]"#,
    r#"[{ kind = "go-back-n", window = 32 }, { kind = "stop-and-wait", retries = 1 }, { kind = "xor-fec", parity_timeout = "20 ms" }]"#,
];

/// Delays: constant, and varying.
const DELAYS: &[&str] = &[
    r#""20 ms""#,
    r#""0 ms""#,
    r#"{ kind = "steps", at = [["0 s", "20 ms"], ["300 ms", "70 ms"], ["500 ms", "8 ms"]], repeat = "700 ms" }"#,
];

fn network(protocol: &str, delay: &str) -> Network {
    let text = format!(
        r#"
name = "live"
[link.air]
between = ["a", "b"]
rate = "2 Mbps"
delay = {delay}
queue = "50 packets"
protocol = {protocol}
errors = {{ kind = "uniform", loss = "15 %" }}
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
    let scenario = document.points().expect("points").remove(0).scenario;
    Network::new(&scenario, Streams { seed: 5, replication: 3 }, Some(1000)).expect("a network")
}

/// A UDP packet of `bytes` bytes.
fn packet(number: u32, bytes: usize) -> Vec<u8> {
    let mut packet = vec![0x45, 0];
    packet.extend((bytes as u16).to_be_bytes());
    packet.extend([0, 0, 0, 0, 64, 17, 0, 0, 10, 71, 0, 1, 10, 71, 0, 2]);
    packet.extend(number.to_be_bytes());
    packet.resize(bytes, number as u8);
    packet
}

/// Returns the deliveries, the number of late ones, and the number of steps of a driver that wakes
/// when `wake` says. Packets are sparse, then dense; every third one is sent in the opposite direction.
fn drive(mut network: Network, wake: fn(&Network) -> Instant) -> (Vec<Delivery>, usize, usize) {
    let mut arrivals = (0..400_u64).map(|number| {
        let millis = if number < 200 { 97 * number } else { 97 * 200 + 3 * (number - 200) };
        let side = if number % 3 == 2 { Side::Reverse } else { Side::Forward };
        (Instant::from_nanos(1_000_000 * (1 + millis)), side, number as u32)
    });
    let end = Instant::from_nanos(40_000_000_000);
    let (mut deliveries, mut late, mut steps) = (Vec::new(), 0, 0);
    let mut next = arrivals.next();
    loop {
        let at = wake(&network);
        let now = next.map_or(at, |(time, ..)| time.min(at)).max(network.now());
        if now >= end {
            return (deliveries, late, steps);
        }
        steps += 1;
        match next {
            Some((time, side, number)) if time == now => {
                network.input(now, 0, side, packet(number, 100 + number as usize));
                next = arrivals.next();
            }
            _ => network.advance(now),
        }
        while let Some(delivery) = network.poll_delivery() {
            late += usize::from(delivery.at < now);
            deliveries.push(delivery);
        }
    }
}

#[test]
fn a_driver_that_wakes_for_deliveries_only_delivers_the_same_in_time() {
    for (protocol, delay) in PROTOCOLS.iter().flat_map(|one| DELAYS.iter().map(move |of| (one, of)))
    {
        let (every, _, all) = drive(network(protocol, delay), Network::next_timeout);
        let (own, late, steps) = drive(network(protocol, delay), Network::next_delivery);
        assert!(every.len() > 200, "{protocol}, {delay}: {} deliveries", every.len());
        assert!(every == own, "{protocol}, {delay}: {} and {} deliveries", every.len(), own.len());
        assert_eq!(late, 0, "{protocol}, {delay}: late deliveries");
        assert!(steps <= all, "{protocol}, {delay}: {steps} instead of {all} steps");
    }
}

/// The end of a transmission and the arrival of an acknowledgment deliver nothing for 20 ms.
#[test]
fn a_driver_that_wakes_for_deliveries_only_wakes_less_often() {
    for (protocol, most) in [
        (r#"{ kind = "go-back-n", window = 32 }"#, 0.6),
        (r#"{ kind = "rlc-am", max_transmissions = 2 }"#, 0.6),
        (r#"{ kind = "harq" }"#, 0.8),
    ] {
        let steps = |wake| drive(network(protocol, DELAYS[0]), wake).2 as f64;
        let share = steps(Network::next_delivery) / steps(Network::next_timeout);
        assert!(share < most, "{protocol}: {share} of the steps");
    }
}
