//! TCP variants in whole runs: claims of their papers for random losses at a long delay, marks at a queue,
//! and fairness between two flows of one variant.
//!
//! Seeds are fixed and replications few. The checks are therefore checks of direction with wide margins: each fails
//! if a sender has no effect, or the opposite one.

use lasthop::run::{self, Options};
use lasthop::scenario::Scenario;
use std::collections::HashMap;
use std::path::Path;

const REPLICATIONS: u64 = 6;

/// Runs flows over a link with the given keys, transports and duration.
fn rows(link: &str, transports: &[&str], duration: &str) -> Vec<HashMap<String, f64>> {
    let flows: String = transports
        .iter()
        .enumerate()
        .map(|(number, transport)| {
            format!(
                r#"
                [flow.f{number}]
                from = "server"
                to = "client"
                start = "{} ms"
                transport = {{ kind = "tcp", {transport} }}
                app = {{ kind = "file", size = "10 GB" }}
                "#,
                300 * number
            )
        })
        .collect();
    let text = format!(
        r#"
        name = "senders"
        [link.path]
        between = ["server", "client"]
        {link}
        {flows}
        [run]
        duration = "{duration}"
        "#
    );
    let scenario = Scenario::from_toml(&text, Path::new("."))
        .and_then(|document| document.points())
        .unwrap_or_else(|error| panic!("{error}\n{text}"))
        .remove(0)
        .scenario;
    let options = Options { replications: REPLICATIONS, first_replication: 0, seed: 7, jobs: 1 };
    let results = run::run(&[scenario], &options, &mut |_| true).unwrap();
    let row = |row: &run::Row| results.metrics.iter().cloned().zip(row.values.clone()).collect();
    results.rows.iter().map(row).collect()
}

fn mean(rows: &[HashMap<String, f64>], metric: &str) -> f64 {
    rows.iter().map(|row| row[metric]).sum::<f64>() / rows.len() as f64
}

/// 10 Mbps over 200 ms, 167 segments of 1500 B, with a loss of one data frame in a hundred: Reno's
/// window is about 12 segments (the square root of 1.5/p).
const LOSSY: &str = r#"
    rate = "10 Mbps"
    delay = "100 ms"
    queue = "400 packets"
    errors = { kind = "uniform", loss = "1 %" }
    reverse = { errors = "none" }
"#;

fn goodput(link: &str, transport: &str) -> f64 {
    mean(&rows(link, &[transport], "60 s"), "flow.f0.goodput_bps")
}

fn wide(variant: &str) -> String {
    format!(r#"variant = "{variant}", profile = "rfc", receive_window = "500 segments""#)
}

/// Goodput relative to Reno's congestion control with the same recovery: minimum and maximum.
#[test]
fn random_losses_at_a_long_delay() {
    let [newreno, sack] = ["newreno", "sack"].map(|base| goodput(LOSSY, &wide(base)));
    let cases = [
        // Variants that distinguish random losses from congestion, or estimate the bandwidth.
        ("jtcp", newreno, 1.5, f64::INFINITY),
        ("jersey", newreno, 1.5, f64::INFINITY),
        ("newreno-ff", newreno, 1.5, f64::INFINITY),
        ("veno", newreno, 1.1, f64::INFINITY),
        ("ideal-bandwidth", newreno, 1.5, f64::INFINITY),
        ("santa-cruz", sack, 1.5, f64::INFINITY),
        ("bbr3", sack, 5.0, f64::INFINITY),
        // Losses count as for Reno, an RTT later or by marks that do not occur.
        ("tahoe", newreno, 0.0, 1.0),
        ("tcp-dcr", sack, 0.8, 2.0),
        ("ncr", sack, 0.8, 2.0),
        ("dctcp", sack, 0.8, 1.25),
        ("prague", sack, 0.8, 1.25),
    ];
    let mut failures = Vec::new();
    for (variant, base, least, most) in cases {
        let ratio = goodput(LOSSY, &wide(variant)) / base;
        println!("{variant}: {ratio:.2}");
        if !(least..=most).contains(&ratio) {
            failures.push(format!("{variant}: {ratio:.2}, expected {least} to {most}"));
        }
    }
    assert!(failures.is_empty(), "{failures:#?}");
}

/// A link that repairs its losses out of sequence, without queue overflow: delayed loss detection
/// avoids the spurious reductions of SACK.
#[test]
fn patience_lets_the_link_repair() {
    let link = r#"
        rate = "2 Mbps"
        delay = "20 ms"
        queue = "600 packets"
        protocol = { kind = "oos-rlp" }
        errors = { kind = "uniform", loss = "2 %" }
        reverse = { errors = "none" }
    "#;
    let of = |variant: &str| {
        let rows = rows(link, &[&wide(variant)], "60 s");
        ["goodput_bps", "window_reductions", "retransmissions"]
            .map(|metric| mean(&rows, &format!("flow.f0.{metric}")))
    };
    let [base, cuts, again] = of("sack");
    for variant in ["tcp-dcr", "ncr"] {
        let [goodput, fewer, less] = of(variant);
        println!("{variant}: {goodput} {fewer} {less}, SACK {base} {cuts} {again}");
        assert!(fewer < 0.5 * cuts && less < 0.5 * again, "{variant}: {fewer} {cuts}");
        assert!(goodput > 1.02 * base, "{variant}: {goodput} {base}");
    }
}

/// A step at 20 packets on 10 Mbps and 20 ms: DCTCP and Prague achieve full utilization with a
/// short queue and without losses. The mean RTT indicates the queue; SACK without ECN fills 100
/// packets.
#[test]
fn scalable_laws_keep_a_marking_queue_short() {
    let link = r#"
        rate = "10 Mbps"
        delay = "10 ms"
        queue = { kind = "step", threshold = "20 packets", limit = "100 packets" }
    "#;
    for variant in ["dctcp", "prague"] {
        let rows = rows(link, &[&wide(variant)], "30 s");
        let goodput = mean(&rows, "flow.f0.goodput_bps");
        // Of 1460 B in 1500 B.
        assert!(goodput > 0.93 * 10e6 * 1460.0 / 1500.0, "{variant}: {goodput}");
        assert_eq!(mean(&rows, "link.path.forward.queue_drops"), 0.0, "{variant}");
        assert!(mean(&rows, "link.path.forward.queue_marks") > 100.0);
    }
    let rows = rows(link, &[&wide("sack")], "30 s");
    assert!(mean(&rows, "link.path.forward.queue_drops") > 0.0, "SACK fills the queue");
}

/// A base station that marks ACKs: the sender of Balakrishnan and Katz retransmits without
/// reduction, Reno halves its window.
#[test]
fn marks_of_a_base_station_save_the_window() {
    let link = r#"
        rate = "2 Mbps"
        delay = "50 ms"
        queue = "100 packets"
        errors = { kind = "uniform", loss = "2 %" }
        reverse = { errors = "none" }
        agent = { kind = "balakrishnan-eln", at = "server" }
    "#;
    let [reno, marked] = ["reno", "balakrishnan-eln"].map(|variant| goodput(link, &wide(variant)));
    println!("{marked} {reno}");
    assert!(marked > 1.5 * reno, "{marked} {reno}");
}

/// Queues that drop marked segments first. With random losses of 1 % only, Casablanca and Ifrane
/// treat them as random and achieve at least 1.5 times the goodput of NewReno. If only a full queue
/// drops packets, they reduce their windows like NewReno.
#[test]
fn biased_queues_tell_losses_apart() {
    let link = |rate: &str, loss: &str| {
        format!(
            r#"
            rate = "{rate}"
            delay = "50 ms"
            queue = {{ kind = "biased", limit = "50 packets" }}
            errors = {{ kind = "uniform", loss = "{loss}" }}
            reverse = {{ errors = "none" }}
            "#
        )
    };
    let random = link("20 Mbps", "1 %");
    let newreno = goodput(&random, &wide("newreno"));
    let cuts = |variant: &str| {
        let rows = rows(&link("2 Mbps", "0 %"), &[&wide(variant)], "60 s");
        (mean(&rows, "flow.f0.window_reductions"), mean(&rows, "link.path.forward.queue_drops"))
    };
    let (usual, _) = cuts("newreno");
    for variant in ["casablanca", "ifrane"] {
        let gain = goodput(&random, &wide(variant)) / newreno;
        let (own, drops) = cuts(variant);
        println!("{variant}: {gain:.2}; {own} cuts, NewReno {usual}, {drops} drops");
        assert!(gain > 1.5, "{variant}: {gain}");
        assert!(own > 0.5 * usual, "{variant}: {own} {usual}");
    }
}

/// Jersey with congestion warnings reduces its window before a queue overflows.
#[test]
fn a_warning_makes_jersey_yield() {
    let link = |queue: &str| {
        format!(
            r#"
            rate = "2 Mbps"
            delay = "50 ms"
            queue = {queue}
            "#
        )
    };
    let warns = link(
        r#"{ kind = "step", threshold = "16 packets", limit = "50 packets", weight = "20 %" }"#,
    );
    let silent = link(r#""50 packets""#);
    let drops = |link: &str, ecn: bool| {
        let transport = format!("{}, ecn = {ecn}", wide("jersey"));
        mean(&rows(link, &[&transport], "60 s"), "link.path.forward.queue_drops")
    };
    let (warned, unwarned) = (drops(&warns, true), drops(&silent, false));
    println!("{warned} {unwarned}");
    assert!(warned < 0.2 * unwarned, "{warned} {unwarned}");
}

mod slow {
    use super::*;

    /// Jain's index of two flows of one variant over 120 s; 1 is equal, 0.9 a ratio of two. Two Santa
    /// Cruz flows do not converge: each keeps the queue at a length at which its sum of delays is four
    /// segments. Any division satisfies this once the queue is constant; its papers do not claim
    /// fairness beyond that.
    #[test]
    fn two_of_a_kind_share() {
        let drop_tail = r#"
            rate = "10 Mbps"
            delay = "20 ms"
            queue = "60 packets"
        "#;
        let biased = r#"
            rate = "10 Mbps"
            delay = "20 ms"
            queue = { kind = "biased", limit = "60 packets" }
        "#;
        let step = r#"
            rate = "10 Mbps"
            delay = "20 ms"
            queue = { kind = "step", threshold = "20 packets" }
        "#;
        let mut failures = Vec::new();
        for (variant, link, least) in [
            ("tahoe", drop_tail, 0.9),
            ("tcp-dcr", drop_tail, 0.9),
            ("ncr", drop_tail, 0.9),
            ("jtcp", drop_tail, 0.9),
            ("santa-cruz", drop_tail, 0.5),
            ("ideal-bandwidth", drop_tail, 0.9),
            ("lhp", drop_tail, 0.9),
            ("casablanca", biased, 0.9),
            ("ifrane", biased, 0.9),
            ("bbr3", drop_tail, 0.9),
            ("dctcp", step, 0.9),
            ("prague", step, 0.9),
        ] {
            let transport = wide(variant);
            let rows = rows(link, &[&transport, &transport], "120 s");
            let [one, other] =
                [0, 1].map(|number| mean(&rows, &format!("flow.f{number}.goodput_bps")));
            let jain = (one + other).powi(2) / (2.0 * (one * one + other * other));
            let share = (one + other) / (10e6 * 1460.0 / 1500.0);
            println!("{variant}: {one:.0} {other:.0}, Jain {jain:.3}, {share:.3} of the link");
            if jain < least || share < 0.8 {
                failures.push(format!("{variant}: Jain {jain:.3}, {share:.3} of the link"));
            }
        }
        assert!(failures.is_empty(), "{failures:#?}");
    }
}
