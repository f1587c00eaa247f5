//! Metrics in windows of time. They change nothing else, consecutive windows add up to the run, and a
//! window from the start agrees with a run that ends with the window.

use crate::counted_by_time::{radios, scenarios};
use crate::golden_cells::cells;
use crate::queueing_delay::measured;
use crate::scenarios::{Metrics, metrics, read, scenario};
use lasthop::metrics::{Aggregation, Metric, Unit, all};
use lasthop::scenario::{Scenario, TimeWindow};
use lasthop::units::Duration;
use proptest::prelude::*;
use std::path::Path;

/// Kinds of flows and media that neither the golden cells nor the random scenarios have.
const OTHERS: [&str; 6] = [
    r#"
    [link.air]
    between = ["server", "client"]
    rate = "4 Mbps"
    delay = "30 ms"
    errors = { kind = "uniform", loss = "1 %" }
    [flow.one]
    from = "server"
    to = "client"
    transport = { kind = "quic" }
    app = { kind = "file", size = "4 MB" }
    [flow.two]
    from = "server"
    to = "client"
    transport = { kind = "udp" }
    app = { kind = "nada" }
    "#,
    r#"
    [link.air]
    between = ["server", "client"]
    rate = "2 Mbps"
    delay = "20 ms"
    queue = { kind = "fq-codel", ecn = true }
    [flow.one]
    from = "server"
    to = "client"
    transport = { kind = "tcp", variant = "bbr3", profile = "linux", ecn = true }
    app = { kind = "page" }
    [flow.two]
    from = "server"
    to = "client"
    stop = "2500 ms"
    transport = { kind = "tcp", variant = "cubic", profile = "linux" }
    app = { kind = "messages", size = "1 kB", interval = "10 ms" }
    "#,
    r#"
    [wlan.cell]
    access_point = "ap"
    stations = ["node#"]
    count = 3
    standard = "802.11n"
    mcs = 3
    max_ampdu = "16 kB"
    errors = { kind = "uniform", loss = "5 %" }
    [flow.one]
    from = "ap"
    to = "node#"
    count = 3
    transport = { kind = "tcp", variant = "cubic", profile = "linux" }
    app = { kind = "file", size = "20 MB" }
    [flow.two]
    from = "node1"
    to = "ap"
    transport = { kind = "udp" }
    app = { kind = "media", rate = "100 kbps", packet = "200 B" }
    "#,
    r#"
    [link.wire]
    between = ["server", "base"]
    rate = "50 Mbps"
    delay = "10 ms"
    [link.air]
    between = ["base", "client"]
    rate = "1 Mbps"
    delay = "40 ms"
    protocol = [{ kind = "rlc-am" }, { kind = "harq" }]
    errors = { kind = "gilbert-elliott", mean_loss = 0.05, mean_burst = 3 }
    [flow.one]
    from = "server"
    to = "client"
    transport = { kind = "tcp", variant = "reno", profile = "rfc" }
    app = { kind = "file", size = "4 MB" }
    "#,
    r#"
    [link.air]
    between = ["server", "client"]
    rate = { kind = "steps", at = [["0 s", "10 Mbps"], ["1 s", "0 bps"], ["1500 ms", "1 Mbps"]] }
    delay = "20 ms"
    agent = { kind = "reorder", at = "client", share = "2 %", hold = "30 ms" }
    [flow.one]
    from = "server"
    to = "client"
    start = "700 ms"
    transport = { kind = "tcp", variant = "newreno", profile = "rfc" }
    app = { kind = "file", size = "40 MB" }
    [flow.two]
    from = "client"
    to = "server"
    transport = { kind = "udp-lite" }
    app = { kind = "media", rate = "50 kbps", packet = "200 B", talk = "1 s", silence = "1 s" }
    "#,
    r#"
    [link.one]
    between = ["server", "router"]
    rate = "100 Mbps"
    delay = "5 ms"
    [link.two]
    between = ["router", "client"]
    rate = "10 Mbps"
    delay = "100 ms"
    queue = "40 packets"
    [flow.one]
    from = "server"
    to = "client"
    transport = { kind = "tcp", variant = "cubic", profile = "linux" }
    app = { kind = "file", size = "40 MB" }
    [flow.two]
    from = "client"
    to = "router"
    transport = { kind = "tcp", variant = "reno", profile = "rfc" }
    app = { kind = "web" }
    "#,
];

fn window(name: &str, from: Duration, to: Option<Duration>) -> TimeWindow {
    TimeWindow { name: name.to_owned(), from, to }
}

/// Returns the declaration of a metric by its full name.
fn declared(name: &str) -> &'static Metric {
    let kind = match name.split_once('.') {
        Some(("flows", rest)) if rest.contains('.') => "flow",
        Some((kind, _)) => kind,
        None => "",
    };
    let last = name.rsplit('.').next();
    let found = all().into_iter().find(|(entity, one)| *entity == kind && Some(one.name) == last);
    found.unwrap_or_else(|| panic!("{name} is not declared")).1
}

fn is_sum(metric: &Metric) -> bool {
    matches!(metric.unit, Unit::Count | Unit::Bytes) && metric.aggregation == Aggregation::Sum
}

fn same(found: f64, wanted: f64) -> bool {
    found.to_bits() == wanted.to_bits() || found.is_nan() && wanted.is_nan()
}

/// Splits a run into three windows and compares them with the run, and with runs that end with a
/// window.
fn split(plain: &Scenario, [first, second]: [Duration; 2], seed: u64) -> Result<(), TestCaseError> {
    let run = |scenario: &Scenario| metrics(scenario, 1, seed).remove(0);
    let mut scenario = plain.clone();
    scenario.windows = vec![
        window("head", Duration::ZERO, Some(first)),
        window("body", first, Some(second)),
        window("tail", second, None),
        window("start", Duration::ZERO, Some(second)),
    ];
    let (whole, found) = (run(plain), run(&scenario));
    for (name, value) in &whole {
        prop_assert!(same(found[name], *value), "{name}: {}, not {value}", found[name]);
    }
    let shorter = |duration: Duration| -> Metrics {
        let mut shorter = plain.clone();
        shorter.run.duration = Some(duration);
        run(&shorter)
    };
    let until = [("head", shorter(first)), ("start", shorter(second))];
    let in_wlan = !plain.wlans.is_empty();
    let windowed = whole.iter().filter(|(name, _)| declared(name).windowed);
    for (name, value) in windowed {
        let part = |window: &str| found[&format!("window.{window}.{name}")];
        for (window, until) in &until {
            let found = part(window);
            // Runs without duration may be complete earlier.
            let is_missed = found.is_nan() && plain.run.duration.is_none();
            prop_assert!(
                is_missed || same(found, until[name]),
                "{window} of {name}: {found}, not {}",
                until[name]
            );
        }
        let parts = ["head", "body", "tail"].map(part);
        if is_sum(declared(name)) && parts.iter().all(|part| !part.is_nan()) {
            let more = parts.iter().sum::<f64>() - value;
            // The frames in transmission at the ends of two windows may be lost or not.
            let most = if in_wlan && name.ends_with(".frames_lost") { 256.0 } else { 0.0 };
            prop_assert!((0.0..=most).contains(&more), "{name}: {parts:?}, not {value}");
        }
        let [min, max] = declared(name).bounds;
        for part in parts {
            prop_assert!(part.is_nan() || (min..=max).contains(&part), "{name}: {parts:?}");
        }
    }
    Ok(())
}

/// Returns two times that divide `duration`, the first earlier.
fn divided(duration: Duration, [first, second]: [f64; 2]) -> [Duration; 2] {
    let at = |share: f64| Duration::from_nanos((duration.as_nanos() as f64 * share) as u64);
    let [first, second] = [first.min(second), first.max(second)].map(at);
    [first.max(Duration::from_nanos(1)), second.max(Duration::from_nanos(2))]
}

fn config(cases: u32) -> ProptestConfig {
    ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(cases) }
}

fn shares() -> impl Strategy<Value = [f64; 2]> {
    [0.001f64..0.999, 0.001f64..0.999]
        .prop_filter("two times", |[first, second]| (first - second).abs() > 1e-4)
}

proptest! {
    #![proptest_config(config(40))]

    #[test]
    fn radios_are_split(text in radios(), at in shares(), seed in 1u64..1_000_000) {
        let scenario = scenario(&measured(&text));
        let end = scenario.run.duration.expect("radios have one");
        split(&scenario, divided(end, at), seed)?;
    }
}

proptest! {
    #![proptest_config(config(8))]

    #[test]
    fn other_flows_and_media_are_split(at in shares(), seed in 1u64..1_000_000) {
        for text in OTHERS {
            let text = format!("name = \"t\"\n{text}\n[run]\nduration = \"4 s\"\n");
            let text = measured(&text);
            let result = split(&scenario(&text), divided(Duration::from_secs(4), at), seed);
            prop_assert!(result.is_ok(), "{}\n{text}", result.unwrap_err());
        }
    }
}

/// 1 Mbps, 1000 B each 10 ms: packets that wait for 8 ms × n, 40 ms of delay.
const STREAM: &str = r#"
    name = "stream"
    [link.wire]
    between = ["a", "b"]
    rate = "1 Mbps"
    delay = "40 ms"
    measure = "queueing-delay"
    [flow.f]
    from = "a"
    to = "b"
    start = "1 s"
    transport = { kind = "udp" }
    app = { kind = "media", rate = "800 kbps", packet = "1000 B", talk = "100 s", silence = "0 s" }
    "#;

/// A regular stream: rates, counts and delays are known.
#[test]
fn windows_of_a_regular_stream() {
    let windows = r#"
        [window.before]
        to = "1 s"
        [window.half]
        from = "500 ms"
        to = "2 s"
        [window.full]
        from = "2 s"
        to = "4 s"
        [window.rest]
        from = "4 s"
        [run]
        duration = "5 s"
        "#;
    let found = metrics(&scenario(&format!("{STREAM}{windows}")), 1, 1).remove(0);
    let of = |window: &str, name: &str| found[&format!("window.{window}.{name}")];
    // The first packet is sent at 1.01 s, 10 ms after the start.
    assert_eq!(of("before", "flow.f.packets_sent"), 0.0);
    assert!(of("before", "flow.f.goodput_bps").is_nan());
    assert_eq!(of("before", "link.wire.forward.utilization"), 0.0);
    assert_eq!(of("full", "flow.f.packets_sent"), 200.0);
    assert_eq!(of("full", "flow.f.goodput_bps"), 800_000.0);
    assert_eq!(of("full", "flow.f.delivered_bytes"), 200_000.0);
    assert!((of("full", "link.wire.forward.utilization") - 0.8).abs() < 1e-12);
    assert!((of("full", "flow.f.delay_mean_s") - 0.048).abs() < 1e-12);
    assert!((of("full", "flow.f.delay_p99_s") / 0.048 - 1.0).abs() < 1e-3);
    assert_eq!(of("full", "link.wire.forward.queueing_delay_max_s"), 0.0);
    // The flow is active for a second of the window.
    let packets = of("half", "flow.f.packets_delivered");
    assert_eq!(of("half", "flow.f.goodput_bps"), packets * 8_000.0);
    assert_eq!(of("rest", "flow.f.packets_sent"), 100.0);
    for whole in ["duration_s", "delay_sd_s", "loss_burst_max"] {
        assert!(found.contains_key(&format!("flow.f.{whole}")));
        assert!(!found.contains_key(&format!("window.full.flow.f.{whole}")), "{whole}");
    }
}

/// A file of about a second.
const FILE: &str = r#"
    name = "file"
    [link.wire]
    between = ["a", "b"]
    rate = "1 Mbps"
    delay = "10 ms"
    [flow.f]
    from = "a"
    to = "b"
    transport = { kind = "tcp", variant = "newreno", profile = "rfc" }
    app = { kind = "file", size = "100 kB" }
    [window.early]
    to = "500 ms"
    [window.late]
    from = "500 ms"
    to = "5 s"
    [window.open]
    from = "500 ms"
    "#;

/// A file that is complete before the end of a window.
#[test]
fn a_window_that_the_run_does_not_reach() {
    let after = format!("{FILE}\n[window.after]\nfrom = \"5 s\"\n");
    let found = metrics(&scenario(&after), 1, 1).remove(0);
    let of = |window: &str, name: &str| found[&format!("window.{window}.flow.f.{name}")];
    assert!(found["flow.f.duration_s"] < 2.0);
    for name in ["goodput_bps", "delivered_bytes", "retransmissions"] {
        assert!(of("late", name).is_nan() && of("after", name).is_nan(), "{name}");
    }
    assert_eq!(of("early", "delivered_bytes") + of("open", "delivered_bytes"), 100_000.0);
    let seconds = found["flow.f.duration_s"] - 0.5;
    let rate = of("open", "delivered_bytes") * 8.0 / seconds;
    assert!((of("open", "goodput_bps") / rate - 1.0).abs() < 1e-12);
}

#[test]
fn windows_that_cannot_be() {
    for (window, message) in [
        (
            "[window.late]\nfrom = \"3 s\"\nto = \"2 s\"",
            "window.late.to: found \"2 s\"; expected more than \"3 s\", the value of from",
        ),
        (
            "[window.late]\nfrom = \"1 s\"\nto = \"6 s\"",
            "window.late.to: found \"6 s\"; expected at most \"5 s\", the value of run.duration",
        ),
        (
            "[window.late]\nfrom = \"5 s\"",
            "window.late.from: found \"5 s\"; expected less than \"5 s\", the value of run.duration",
        ),
        (
            "[window.\"a b\"]\nfrom = \"1 s\"",
            "window: found the name \"a b\"; expected a name of letters",
        ),
        ("[window.late]\nuntil = \"1 s\"", "window.late.until: unknown key \"until\""),
        ("[window.late]\nto = \"2 s\"\n[window.late]\nto = \"3 s\"", "duplicate key"),
    ] {
        let text = format!("{STREAM}\n{window}\n[run]\nduration = \"5 s\"\n");
        let found = read(&text).expect_err(window);
        assert!(found.contains(message), "{found}\ninstead of {message}");
    }
    let text = format!("{FILE}\n[run]\nmax_time = \"4 s\"\n");
    let found = read(&text).expect_err("a window after the end");
    assert!(found.contains("window.late.to: found \"5 s\"; expected at most \"4 s\""), "{found}");
    assert!(found.contains("the value of run.max_time"), "{found}");
}

/// Windows are a part of a scenario, can be swept, and are written.
#[test]
fn windows_are_swept_and_written() {
    let plain = format!("{STREAM}\n[run]\nduration = \"5 s\"\n");
    let text = format!("{plain}[window.w]\nfrom = \"2 s\"\nto = \"3 s\"\n");
    let document = Scenario::from_toml(
        &format!("{text}[sweep]\n\"window.w.to\" = [\"3 s\", \"4 s\"]\n"),
        Path::new("."),
    );
    let points = document.and_then(|document| document.points()).expect("a sweep");
    let ends: Vec<_> = points.iter().map(|point| point.scenario.windows[0].to).collect();
    assert_eq!(ends, [Some(Duration::from_secs(3)), Some(Duration::from_secs(4))]);
    let written = points[1].scenario.to_json();
    assert_eq!(written["window"]["w"]["to"], "4 s");
    let again = Scenario::from_json(written, Path::new("."));
    let again = again.and_then(|document| document.points()).expect("the same").remove(0);
    assert_eq!(again.scenario, points[1].scenario);
    assert_ne!(points[0].scenario.hash(), points[1].scenario.hash());
    assert!(scenario(&plain).to_json().get("window").is_none());
}

mod slow {
    use super::*;

    proptest! {
        #![proptest_config(config(8))]

        #[test]
        fn golden_cells_are_split(at in shares(), seed in 1u64..1_000_000) {
            for (name, text) in cells() {
                let scenario = scenario(&measured(&text));
                let end = scenario.run.duration.unwrap_or(Duration::from_secs(20));
                let result = split(&scenario, divided(end, at), seed);
                prop_assert!(result.is_ok(), "{name}: {}", result.unwrap_err());
            }
        }
    }

    proptest! {
        #![proptest_config(config(120))]

        #[test]
        fn links_and_flows_are_split(text in scenarios(), at in shares(), seed in 1u64..1_000_000) {
            let scenario = scenario(&measured(&text));
            let end = scenario.run.duration.unwrap_or(Duration::from_secs(5));
            prop_assume!(end > Duration::from_millis(1));
            split(&scenario, divided(end, at), seed)?;
        }
    }
}
