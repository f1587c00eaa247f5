//! Stacked link layers in scenarios, against their closed forms. Seeds are fixed.

use lasthop::live::{Network, Side};
use lasthop::rng::Streams;
use lasthop::run::{Options, run};
use lasthop::scenario::Scenario;
use lasthop::units::Instant;
use std::collections::HashMap;
use std::path::Path;

/// A link of 1 Mbps and 10 ms, saturated by a flow of packets of 480 B for `seconds`, without
/// losses in the reverse direction.
fn text(protocol: &str, loss: f64, seconds: u32) -> String {
    format!(
        r#"
name = "stack"
[link.air]
between = ["a", "b"]
rate = "1 Mbps"
delay = "10 ms"
queue = "20 packets"
protocol = {protocol}
errors = {{ kind = "uniform", loss = {loss} }}
reverse = {{ errors = "none" }}
[flow.f]
from = "a"
to = "b"
transport = {{ kind = "udp" }}
app = {{ kind = "on-off", rate = "1.2 Mbps", on = "10000 s", off = "0 s", packet = "480 B", replay = "per-packet" }}
[run]
duration = "{seconds} s"
"#
    )
}

fn scenario(text: &str) -> Scenario {
    let document = Scenario::from_toml(text, Path::new(".")).expect("a scenario");
    document.points().expect("a point").remove(0).scenario
}

type Metrics = HashMap<String, f64>;

/// All metrics of one replication, on descriptors of packets.
fn on_descriptors(protocol: &str, loss: f64, seconds: u32) -> Metrics {
    let options = Options { replications: 1, first_replication: 0, seed: 11, jobs: 1 };
    let points = [scenario(&text(protocol, loss, seconds))];
    let results = run(&points, &options, &mut |_| true).expect("a run");
    results.metrics.into_iter().zip(results.rows[0].values.iter().copied()).collect()
}

/// Like [`text`], with real bytes: a live link, with packets at the same times.
fn on_bytes(protocol: &str, loss: f64, seconds: u32) -> Metrics {
    let scenario = scenario(&text(protocol, loss, seconds));
    let streams = Streams { seed: 11, replication: 0 };
    let mut network = Network::new(&scenario, streams, Some(480)).expect("a network");
    let interval = 480 * 8_000_000_000 / 1_200_000;
    for number in 1..=u64::from(seconds) * 1_000_000_000 / interval {
        let mut packet = vec![0x45, 0, 1, 0xe0, 0, 0, 0, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2];
        packet.extend(number.to_be_bytes());
        packet.resize(480, number as u8);
        let at = Instant::from_nanos(number * interval);
        assert!(network.input(at, 0, Side::Forward, packet.clone()));
        while let Some(delivery) = network.poll_delivery() {
            assert_eq!(delivery.packet.len(), 480);
        }
    }
    network.advance(Instant::from_nanos(u64::from(seconds) * 1_000_000_000));
    let mut all = Metrics::new();
    network.metrics(&scenario, &mut |entity, metric, value| {
        all.insert(format!("{entity}.{metric}"), value.value());
    });
    let delivered = all["link.air.forward.packets_delivered"];
    all.insert("flow.f.packets_delivered".to_owned(), delivered);
    all
}

/// Method of measuring a protocol: its name and function.
type Way = (&'static str, fn(&str, f64, u32) -> Metrics);

const WAYS: [Way; 2] = [("descriptors", on_descriptors), ("bytes", on_bytes)];

/// Checks that `count` of `trials` has the probability `exact`, within 5 standard deviations:
/// false-positive rate below 6e-7. The variance of `count` is `spread` times that of a binomial
/// count.
fn assert_probability(what: &str, count: f64, trials: f64, exact: f64, spread: f64) {
    let deviation = (exact * (1.0 - exact) * spread / trials).sqrt();
    let found = count / trials;
    assert!((found - exact).abs() < 5.0 * deviation, "{what}: {found}, {exact} ± {deviation}");
}

/// Coded packets that HARQ sends once are received if all 20 units are received.
#[test]
fn rlc_over_harq_repairs_lost_blocks() {
    for (way, measure) in WAYS {
        let protocol = r#"[{ kind = "rlc-am", payload = "480 B" }, { kind = "harq", units = 20, proactive = "none", max_transmissions = 1, mode = "pipelined" }]"#;
        let metrics = measure(protocol, 0.02, 100);
        let get = |name: &str| metrics[&format!("link.air.forward.{name}")];
        let pdus = get("rlc-am.data_frames") + get("rlc-am.retransmissions");
        let q = 1.0 - f64::powi(1.0 - 0.02, 20);
        assert_probability(way, get("harq.abandoned"), pdus, q, 1.0);
        assert_eq!(get("rlc-am.duplicates") + get("rlc-am.abandoned"), 0.0, "{way}");
    }
}

/// Blocks of k frames have the residual loss r = p (1 - (1 - p)^k); selective repeat retransmits
/// the lost packets, so that none remains lost.
#[test]
fn selective_repeat_over_fec_repairs_what_parity_does_not() {
    let k = 8;
    // Variance of the residual losses of a block, relative to the variance of k independent losses:
    // j losses of its k data frames remain, except for one if the parity arrives.
    let spread = |p: f64| {
        let (mut mean, mut square, mut ways) = (0.0, 0.0, 1.0);
        for j in 0..=k {
            let chance = ways * f64::powi(p, j) * f64::powi(1.0 - p, k - j);
            let chance = if j == 1 { chance * p } else { chance };
            mean += f64::from(j) * chance;
            square += f64::from(j * j) * chance;
            ways *= f64::from(k - j) / f64::from(j + 1);
        }
        let r = mean / f64::from(k);
        (r, (square - mean * mean) / (f64::from(k) * r * (1.0 - r)))
    };
    for (way, measure) in WAYS {
        for p in [0.01, 0.05, 0.1] {
            let protocol = r#"[{ kind = "selective-repeat", window = 128 }, { kind = "xor-fec", block = 8, in_order = true, parity_timeout = "20 ms" }]"#;
            let metrics = measure(protocol, p, 100);
            let get = |name: &str| metrics[&format!("link.air.forward.{name}")];
            let what = format!("{way}, p = {p}");
            let (r, spread) = spread(p);
            assert!((r - p * (1.0 - f64::powi(1.0 - p, k))).abs() < 1e-12, "the closed form");
            let frames = get("xor-fec.data_frames");
            assert_probability(&what, get("xor-fec.skipped"), frames, r, spread);
            // Losses of the last RTT are not retransmitted yet; spurious copies are caused by a
            // timer.
            let retransmissions = get("selective-repeat.retransmissions");
            let needed = retransmissions - get("selective-repeat.duplicates");
            assert!(
                (get("xor-fec.skipped") - needed).abs() < 30.0,
                "{what}: {needed} of {retransmissions}"
            );
            assert!(get("selective-repeat.duplicates") < 0.003 * frames, "{what}");
            // The link is saturated: 8 frames of 480 + 2 + 1 B and one parity frame with 3 B more;
            // 5 standard deviations, and 1 % for spurious copies, the window at the end and
            // incomplete blocks.
            let blocks = 100e6 / 8.0 / (8.0 * 483.0 + 486.0);
            let packets = blocks * f64::from(k) * (1.0 - r);
            let deviation = (blocks * f64::from(k) * r * (1.0 - r) * spread).sqrt();
            let found = metrics["flow.f.packets_delivered"];
            let bound = 5.0 * deviation + 0.01 * packets;
            assert!(
                (found - packets).abs() < bound,
                "{what}: {found} packets, {packets} ± {bound}"
            );
        }
    }
}

mod slow {
    use super::*;

    /// HARQ with whole packets discards a packet after m losses, q = p^m. RLC retransmits exactly those
    /// PDUs, so that none remains lost. Each PDU takes 1 / (1 - q) attempts of RLC and 1 / (1 - p)
    /// transmissions.
    #[test]
    fn rlc_over_harq_repairs_what_harq_gives_up() {
        for (way, measure) in WAYS {
            for (p, most) in [(0.1, 1), (0.1, 2), (0.3, 2), (0.3, 3)] {
                let protocol = format!(
                    r#"[{{ kind = "rlc-am" }}, {{ kind = "harq", units = 1, max_transmissions = {most}, mode = "pipelined" }}]"#
                );
                let metrics = measure(&protocol, p, 100);
                let get = |name: &str| metrics[&format!("link.air.forward.{name}")];
                let what = format!("{way}, p = {p}, m = {most}");
                let q = f64::powi(p, most);
                let pdus = get("rlc-am.data_frames") + get("rlc-am.retransmissions");
                assert_probability(&what, get("harq.abandoned"), pdus, q, 1.0);
                // Blocks discarded in the last RTT are not retransmitted yet.
                let open = get("harq.abandoned") - get("rlc-am.retransmissions");
                assert!((0.0..200.0).contains(&open), "{what}: {open}");
                assert_eq!(get("rlc-am.duplicates") + get("rlc-am.abandoned"), 0.0, "{what}");
                // The link is saturated: a packet is 12 PDUs of 2 + 40 B in frames with 8 B more;
                // responses to received reports use the rest. Frames are lost independently: 5 standard
                // deviations, and 1 % for the packets in the window at the end and for timers.
                let answers = get("harq.acks") * 8.0 * 8.0;
                let packets = (100e6 - answers) / (12.0 * 50.0 * 8.0) * (1.0 - p);
                let deviation = (packets * 12.0 * p * (1.0 - p)).sqrt() / 12.0;
                let found = metrics["flow.f.packets_delivered"];
                let bound = 5.0 * deviation + 0.01 * packets;
                assert!(
                    (found - packets).abs() < bound,
                    "{what}: {found} packets, {packets} ± {bound}"
                );
            }
        }
    }
}
