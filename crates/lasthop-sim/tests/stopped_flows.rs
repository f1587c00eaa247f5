//! Counters of flows that stop before the end of the run.

use lasthop_sim::run::{self, Options};
use lasthop_sim::scenario::Scenario;
use std::path::Path;

/// Bytes that the flow delivers with this source in a run of `run_ms`.
fn delivered(app: &str, stop: &str, run_ms: u64) -> f64 {
    let text = format!(
        r#"
        name = "stopped"
        [link.air]
        between = ["a", "b"]
        rate = "2 Mbps"
        delay = "5 ms"
        [flow.f]
        from = "a"
        to = "b"
        transport = "udp"
        app = {{ {app} }}
        {stop}
        [run]
        duration = "{run_ms} ms"
        "#
    );
    let document = Scenario::from_toml(&text, Path::new("."));
    let points = document.and_then(|document| document.points()).expect("a scenario");
    let points: Vec<_> = points.into_iter().map(|point| point.scenario).collect();
    let options = Options { replications: 1, first_replication: 0, seed: 1, jobs: 1 };
    let results = run::run(&points, &options, &mut |_| true).expect("a run");
    let place = results.metrics.iter().position(|name| name == "flow.f.delivered_bytes");
    results.rows[0].values[place.expect("the metric")]
}

/// Packets in transit when a flow stops do not count as delivered, although the arrivals
/// of a link without a protocol are computed in advance: it has delivered as much as in a run that
/// ends at this time.
#[test]
fn packets_on_their_way_when_a_flow_stops_are_not_delivered() {
    for app in [
        r#"kind = "on-off", rate = "8 Mbps", on = "50 ms", off = "5 ms", packet = "1460 B""#,
        r#"kind = "media", rate = "2 Mbps", packet = "500 B""#,
    ] {
        for stop in [8, 10, 12, 15, 20, 33] {
            let stopped = delivered(app, &format!("stop = \"{stop} ms\""), 100);
            assert_eq!(stopped, delivered(app, "", stop), "{app}, stop at {stop} ms");
        }
    }
}
