//! Extreme TCP settings of scenarios: a transfer over a clean link ends.

use lasthop::run::{self, Options};
use lasthop::scenario::Scenario;
use std::path::Path;

fn points(transport: &str) -> Result<Vec<Scenario>, String> {
    let text = format!(
        r#"
        name = "edge"
        [link.air]
        between = ["a", "b"]
        rate = "1 Mbps"
        delay = "10 ms"
        mtu = "65040 B"
        [flow.f]
        from = "a"
        to = "b"
        transport = {{ kind = "tcp", {transport} }}
        app = {{ kind = "file", size = "20 kB" }}
        "#
    );
    let document = Scenario::from_toml(&text, Path::new(".")).map_err(|error| error.to_string())?;
    let points = document.points().map_err(|error| error.to_string())?;
    Ok(points.into_iter().map(|point| point.scenario).collect())
}

#[test]
fn extreme_settings_still_finish() {
    for variant in ["reno", "newreno", "sack"] {
        for profile in ["rfc", "ns-2"] {
            for setting in [
                r#"receive_window = "1 segment""#,
                r#"initial_window = "1000000 segments", receive_window = "1000000 segments""#,
                r#"clock_granularity = "1 ns""#,
                r#"clock_granularity = "100 s""#,
                r#"clock_granularity = "1 us", min_rto = "0 s", timestamps = true"#,
                r#"min_rto = "0 s""#,
                r#"initial_rto = "1 ns", min_rto = "0 s""#,
                r#"max_rto = "1 ms", min_rto = "0 s", initial_rto = "1 ms""#,
                r#"handshake = false, fin = false, timestamps = true"#,
                r#"dupack_threshold = 1"#,
                r#"segment = "1 B", header = "0 B", ack_size = "1 B""#,
                r#"segment = "65000 B""#,
                r#"delayed_ack = "10 s""#,
            ] {
                let transport =
                    format!(r#"variant = "{variant}", profile = "{profile}", {setting}"#);
                let scenarios = points(&transport).unwrap_or_else(|error| panic!("{error}"));
                let options = Options { replications: 1, first_replication: 0, seed: 1, jobs: 1 };
                let results = run::run(&scenarios, &options, &mut |_| true).unwrap();
                let complete =
                    results.metrics.iter().position(|name| name == "flow.f.complete").unwrap();
                assert_eq!(results.rows[0].values[complete], 1.0, "{transport}");
            }
        }
    }
}

#[test]
fn a_clock_without_ticks_is_refused() {
    let error =
        points(r#"variant = "reno", profile = "rfc", clock_granularity = "0 s""#).unwrap_err();
    assert!(error.contains("flow.f.transport.clock_granularity"), "{error}");
}

#[test]
fn a_window_below_a_segment_is_refused() {
    for key in ["receive_window", "initial_window"] {
        for profile in ["rfc", "ns-2"] {
            let transport = format!(r#"variant = "reno", profile = "{profile}", {key} = "999 B""#);
            let error = points(&transport).unwrap_err();
            assert!(error.contains(&format!("flow.f.transport.{key}: found \"999 B\"")), "{error}");
            assert!(error.contains("at least one segment, \"1"), "{error}");
        }
        assert!(points(&format!(r#"variant = "reno", profile = "rfc", {key} = "1460 B""#)).is_ok());
    }
}
