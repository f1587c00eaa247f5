//! Ctrl-C: an observer that returns `false` ends a run within a second, independent of the duration
//! of a replication, and the results contain only finished replications.

use lasthop::run::{self, Options, Results};
use lasthop::scenario::Scenario;
use std::path::Path;
use std::time::{Duration, Instant};

const LINK: &str = r#"
    name = "long"
    [link.air]
    between = ["a", "b"]
    rate = "100 Mbps"
    delay = "1 ms"
    errors = { kind = "uniform", loss = "1 %" }
"#;

fn scenarios(text: &str) -> Vec<Scenario> {
    let document = Scenario::from_toml(&format!("{LINK}{text}"), Path::new("."));
    let points = document.and_then(|document| document.points());
    let points = points.unwrap_or_else(|error| panic!("{error}"));
    points.into_iter().map(|point| point.scenario).collect()
}

/// Runs until `after`, requests a stop, and returns the time until the stop.
fn stopped(text: &str, replications: u64, after: Duration) -> (Results, Duration) {
    let start = Instant::now();
    let mut asked = None;
    let options = Options { replications, first_replication: 0, seed: 1, jobs: 2 };
    let results = run::run(&scenarios(text), &options, &mut |_| {
        if start.elapsed() < after {
            return true;
        }
        asked.get_or_insert_with(Instant::now);
        false
    });
    let results = results.unwrap_or_else(|error| panic!("{error}"));
    let asked = asked.expect("the run ended before the request");
    (results, asked.elapsed())
}

fn assert_prompt(took: Duration) {
    assert!(took < Duration::from_secs(1), "stopping took {took:?}");
}

#[test]
fn one_very_long_transfer_stops_at_once() {
    let text = r#"
        [flow.f]
        from = "a"
        to = "b"
        transport = { kind = "tcp", variant = "sack", profile = "rfc" }
        app = { kind = "file", size = "100000 GB" }
    "#;
    let (results, took) = stopped(text, 1, Duration::from_millis(200));
    assert!(!results.complete && results.rows.is_empty());
    assert!(results.metrics.contains(&"flow.f.goodput_bps".to_owned()));
    assert_prompt(took);
}

/// No component queries the queue, so that all of its traffic is replayed at the end of the run.
#[test]
fn background_traffic_alone_stops_at_once() {
    for replay in ["lazy", "per-packet"] {
        let text = format!(
            r#"
            [flow.f]
            from = "a"
            to = "b"
            transport = {{ kind = "udp" }}
            app = {{ kind = "on-off", rate = "90 Mbps", on = "exp 1 s", off = "exp 1 s", packet = "40 B", replay = "{replay}" }}
            [run]
            duration = "100000 s"
            "#
        );
        let (results, took) = stopped(&text, 1, Duration::from_millis(200));
        assert!(!results.complete && results.rows.is_empty(), "{replay}");
        assert_prompt(took);
    }
}

/// The first observed packet arrives after hours, and its event replays all earlier ones.
#[test]
fn a_packet_after_hours_of_traffic_stops_at_once() {
    let source = |name: usize, rate: &str, on: &str| {
        format!(
            r#"
            [flow.background{name}]
            from = "a"
            to = "b"
            transport = {{ kind = "udp" }}
            app = {{ kind = "on-off", rate = "{rate}", on = "exp 1 s", off = "{on}", packet = "40 B" }}
            "#
        )
    };
    let file = r#"
        [flow.f]
        from = "a"
        to = "b"
        start = "90000 s"
        transport = { kind = "tcp", variant = "sack", profile = "rfc" }
        app = { kind = "file", size = "1 MB" }
        [run]
        max_time = "100000 s"
    "#;
    let one = source(0, "90 Mbps", "exp 1 s");
    let many: String = (0..31).map(|name| source(name, "3 Mbps", "exp 1 s")).collect();
    for background in [one, many] {
        let (results, took) =
            stopped(&format!("{background}{file}"), 1, Duration::from_millis(200));
        assert!(!results.complete && results.rows.is_empty());
        assert_prompt(took);
    }
}

/// A channel whose states last a microsecond also stops.
#[test]
fn a_frame_after_hours_of_fading_stops_at_once() {
    let text = r#"
        [link.fading]
        between = ["b", "c"]
        rate = "1 Mbps"
        delay = "1 ms"
        errors = { kind = "two-state", good = "1 us", bad = "1 us", good_ber = 0, bad_ber = 1e-9 }
        [flow.f]
        from = "b"
        to = "c"
        start = "90000 s"
        transport = { kind = "tcp", variant = "sack", profile = "rfc" }
        app = { kind = "file", size = "1 MB" }
        [run]
        max_time = "100000 s"
    "#;
    let (results, took) = stopped(text, 1, Duration::from_millis(200));
    assert!(!results.complete && results.rows.is_empty());
    assert_prompt(took);
}

#[test]
fn what_is_finished_stays() {
    // Short replications, followed by one that never ends.
    let text = r#"
        [flow.f]
        from = "a"
        to = "b"
        transport = { kind = "tcp", variant = "reno", profile = "rfc" }
        app = { kind = "file", size = "10 kB" }
        [sweep]
        "flow.f.app.size" = ["10 kB", "100000 GB"]
    "#;
    let (results, took) = stopped(text, 3, Duration::from_millis(500));
    assert!(!results.complete);
    assert_prompt(took);
    let alone = run::run(
        &scenarios(text)[..1],
        &Options { replications: 3, first_replication: 0, seed: 1, jobs: 1 },
        &mut |_| true,
    )
    .unwrap();
    assert!(alone.complete);
    assert!(results.rows.len() <= 3);
    for row in &results.rows {
        assert_eq!(row.point, 0);
        let same = alone.rows.iter().find(|other| other.replication == row.replication).unwrap();
        assert_eq!(row.values, same.values);
    }
    assert!(!results.rows.is_empty(), "a thread began with the short ones");
}

#[test]
fn an_observer_that_agrees_changes_nothing_and_sees_progress() {
    let text = r#"
        [flow.f]
        from = "a"
        to = "b"
        transport = { kind = "tcp", variant = "reno", profile = "rfc" }
        app = { kind = "file", size = "100 kB" }
    "#;
    let mut seen = Vec::new();
    let options = Options { replications: 20, first_replication: 0, seed: 1, jobs: 2 };
    let results = run::run(&scenarios(text), &options, &mut |progress| {
        seen.push(progress);
        true
    })
    .unwrap();
    assert!(results.complete && results.rows.len() == 20);
    assert!(seen.iter().all(|progress| progress.total == 20 && progress.done <= 20));
    assert!(seen.is_sorted_by_key(|progress| progress.done));
    assert!(!seen.is_empty());
}
