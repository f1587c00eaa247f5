//! Media streams: what their receivers report, against what can be computed by hand.

use lasthop::run::{self, Options};
use lasthop::scenario::Scenario;
use std::collections::BTreeMap;
use std::path::Path;

type Metrics = BTreeMap<String, f64>;

/// Metrics of each replication of a scenario.
fn replications(text: &str, seed: u64, count: u64) -> Vec<Metrics> {
    let scenario = Scenario::from_toml(text, Path::new("."))
        .and_then(|document| document.points())
        .unwrap_or_else(|error| panic!("{error}\n{text}"))
        .remove(0)
        .scenario;
    let options = Options { replications: count, first_replication: 0, seed, jobs: 1 };
    let results = run::run(&[scenario], &options, &mut |_| true).unwrap();
    let row = |row: &run::Row| results.metrics.iter().cloned().zip(row.values.clone()).collect();
    results.rows.iter().map(row).collect()
}

/// A media stream from `server` over a wired link and `hops` wireless ones of 43.2 kbps and 100 ms.
fn cellular(hops: usize, protocol: &str, loss: f64, app: &str, duration: &str) -> String {
    let links: String = (0..hops)
        .map(|hop| {
            let from = if hop == 0 { "ap".to_owned() } else { format!("relay{hop}") };
            format!(
                r#"
                [link.wireless{hop}]
                between = ["{from}", "relay{next}"]
                rate = "43.2 kbps"
                delay = "100 ms"
                protocol = {protocol}
                errors = {{ kind = "uniform", loss = {loss} }}
                "#,
                next = hop + 1
            )
        })
        .collect();
    format!(
        r#"
        name = "media"
        [link.wired]
        between = ["server", "ap"]
        rate = "10 Mbps"
        delay = "1 ms"
        {links}
        [flow.speech]
        from = "server"
        to = "relay{hops}"
        transport = {{ kind = "udp" }}
        app = {{ kind = "media", rate = "14.4 kbps", packet = "50 B"{app} }}
        [run]
        duration = "{duration}"
        "#
    )
}

const RAW: &str = r#"{ kind = "raw" }"#;
const CONSTANT: &str = r#", talk = "1 s", silence = "0 s""#;

/// Airtime of a packet on the wired and on a wireless link, and their propagation.
fn transit(hops: usize) -> f64 {
    let floor = |bits: f64, rate: f64| (bits / rate * 1e9).floor() * 1e-9;
    floor(400.0, 10e6) + 0.001 + hops as f64 * (floor(400.0, 43.2e3) + 0.1)
}

#[test]
fn smoke() {
    for (name, value) in &replications(&cellular(1, RAW, 0.1, "", "2000 s"), 1, 1)[0] {
        println!("{name} {value}");
    }
    let sr = r#"{ kind = "selective-repeat" }"#;
    for (name, value) in &replications(&cellular(1, sr, 0.1, "", "2000 s"), 1, 1)[0] {
        println!("{name} {value}");
    }
}
