//! Properties of all runs over a radio: each run ends, is identical with and without observation,
//! has consistent counters, and delivers or drops every packet.

use lasthop::run::{self, Options, Trace};
use lasthop::scenario::Scenario;
use proptest::prelude::*;
use std::collections::HashMap;
use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

/// A run of a few seconds that takes longer than this is in an infinite loop.
const TIME_LIMIT: Duration = Duration::from_secs(60);

const SEED: u64 = 3;

fn scenario(text: &str) -> Scenario {
    let document =
        Scenario::from_toml(text, Path::new(".")).unwrap_or_else(|error| panic!("{error}\n{text}"));
    document.points().expect("points").remove(0).scenario
}

/// All metrics of replication 0, unobserved.
fn metrics(scenario: &Scenario) -> HashMap<String, f64> {
    let options = Options { replications: 1, first_replication: 0, seed: SEED, jobs: 1 };
    let start = std::time::Instant::now();
    let mut go_on = |_| start.elapsed() < TIME_LIMIT;
    let mut results =
        run::run(std::slice::from_ref(scenario), &options, &mut go_on).expect("a run");
    let values = results.rows.pop().expect("the run goes round in circles").values;
    results.metrics.into_iter().zip(values).collect()
}

/// `off` or a time.
fn timer() -> impl Strategy<Value = String> {
    prop_oneof![
        2 => Just("off".to_owned()),
        1 => prop::sample::select(vec!["1 ms", "7 ms", "10 ms", "50 ms", "100 ms", "2 s"])
            .prop_map(str::to_owned)
    ]
}

fn auto() -> impl Strategy<Value = String> {
    timer().prop_map(|text| if text == "off" { "auto".to_owned() } else { text })
}

fn every(most: u32) -> impl Strategy<Value = String> {
    prop_oneof![Just("\"off\"".to_owned()), (1..=most).prop_map(|every| every.to_string())]
}

fn transmissions() -> impl Strategy<Value = String> {
    prop_oneof![Just("\"unlimited\"".to_owned()), (1u32..8).prop_map(|limit| limit.to_string())]
}

/// Acknowledged mode in any configuration.
fn rlc() -> impl Strategy<Value = String> {
    let polls = (every(4), every(9), every(100), auto(), timer(), timer());
    let statuses = (any::<bool>(), timer(), timer(), auto(), auto());
    let window = prop_oneof![3 => 1u32..12, 1 => Just(200), 1 => Just(2047)];
    let limits = (transmissions(), any::<bool>(), timer(), 1u32..6);
    (polls, statuses, window, limits, prop::sample::select(vec![20, 40, 300])).prop_map(
        |(polls, statuses, window, limits, payload)| {
            format!(
                "{{ kind = \"rlc-am\", payload = \"{payload} B\", window = {window}, \
                 max_transmissions = {}, at_limit = \"{}\", discard_timer = \"{}\", max_mrw = {}, \
                 poll_sdu = {}, poll_pdu = {}, poll_window = {}, timer_poll = \"{}\", \
                 timer_poll_prohibit = \"{}\", timer_poll_periodic = \"{}\", status_on_gap = {}, \
                 timer_status_prohibit = \"{}\", timer_status_periodic = \"{}\", \
                 timer_mrw = \"{}\", timer_rst = \"{}\" }}",
                limits.0,
                if limits.1 { "reset" } else { "discard" },
                limits.2,
                limits.3,
                polls.0,
                polls.1,
                polls.2,
                polls.3,
                polls.4,
                polls.5,
                statuses.0,
                statuses.1,
                statuses.2,
                statuses.3,
                statuses.4,
            )
        },
    )
}

fn protocol() -> impl Strategy<Value = String> {
    let others = vec![
        "{ kind = \"raw\" }",
        "{ kind = \"go-back-n\", window = 100 }",
        "{ kind = \"selective-repeat\", window = 100 }",
        "{ kind = \"stop-and-wait\", retries = 3 }",
        "{ kind = \"karn-rlp\" }",
        "{ kind = \"oos-rlp\" }",
        "{ kind = \"xor-fec\" }",
    ];
    let ideal = (transmissions(), prop::sample::select(vec![1, 40, 300, 900])).prop_map(
        |(limit, payload)| {
            format!(
                "{{ kind = \"ideal-sr\", max_transmissions = {limit}, payload = \"{payload} B\" }}"
            )
        },
    );
    prop_oneof![
        2 => prop::sample::select(others).prop_map(str::to_owned),
        2 => ideal,
        4 => rlc(),
    ]
}

fn errors() -> impl Strategy<Value = String> {
    let slotted = prop::sample::select(vec![0.0, 0.1, 0.9, 0.99]);
    prop_oneof![
        Just("{ kind = \"none\" }".to_owned()),
        (0.0..0.6f64).prop_map(|loss| format!("{{ kind = \"uniform\", loss = {loss} }}")),
        (slotted.clone(), slotted).prop_map(|(good, bad)| format!(
            "{{ kind = \"slotted-gilbert-elliott\", slot = \"10 ms\", stay_good = {good}, \
             stay_bad = {bad}, loss_good = 0.01, loss_bad = 0.9 }}"
        )),
        Just(
            "{ kind = \"two-state\", good = \"1 s\", bad = \"100 ms\", good_ber = 1e-6, \
              bad_ber = 1e-2 }"
                .to_owned()
        ),
    ]
}

/// Returns an agent that supports the protocol, or none.
fn agent(protocol: &str, which: u8) -> String {
    let limited = ["ideal-sr", "rlc-am", "stop-and-wait"];
    let takes_limit = limited.iter().any(|kind| protocol.contains(kind));
    match which {
        0 if takes_limit => {
            "agent = { kind = \"adaptive-persistence\", stay_good = 0.9, stay_bad = 0.8, \
             loss_good = 0.01, loss_bad = 0.9, update_packets = 3, weight = 0.1, pdus = 7 }"
                .to_owned()
        }
        1 => "agent = { kind = \"snoop\", at = \"b\" }".to_owned(),
        _ => String::new(),
    }
}

#[derive(Clone, Debug)]
struct Case {
    protocol: String,
    errors: [String; 2],
    agent: u8,
    frame: &'static str,
    delay: &'static str,
    slots: [u32; 2],
    queue: &'static str,
    wired: &'static str,
    file: u32,
    variants: [&'static str; 2],
}

fn case() -> impl Strategy<Value = Case> {
    let variants = || prop::sample::select(vec!["reno", "newreno", "sack"]);
    (
        protocol(),
        [errors(), errors()],
        0u8..4,
        prop::sample::select(vec!["1 ms", "10 ms", "10 ms", "33333 ns"]),
        prop::sample::select(vec!["0 s", "0 s", "1 ns", "4 ms", "10 ms", "35 ms"]),
        [1u32..30, 1u32..30],
        prop::sample::select(vec!["1 packets", "5 packets", "1000 packets", "3 kB"]),
        prop::sample::select(vec!["rate = \"10 Mbps\"", "rate = \"unlimited\""]),
        100u32..60_000,
        [variants(), variants()],
    )
        .prop_map(
            |(protocol, errors, agent, frame, delay, slots, queue, wired, file, variants)| Case {
                protocol,
                errors,
                agent,
                frame,
                delay,
                slots,
                queue,
                wired,
                file,
                variants,
            },
        )
}

/// Returns two stations and a server behind a wired link; files in both directions, and datagrams
/// between the stations.
fn text(case: &Case, more: &str) -> String {
    let Case { protocol, errors, frame, delay, slots, queue, wired, file, variants, .. } = case;
    let slot = if protocol.contains("ideal-sr") || protocol.contains("rlc-am") {
        "902 B"
    } else {
        "1002 B"
    };
    let agent = agent(protocol, case.agent);
    // Datagrams arrive after the off time; in the long run once, long before its end.
    let (duration, off) = if more.is_empty() { ("4 s", "1 s") } else { ("1000 s", "300 s") };
    format!(
        r#"
        name = "any"
        [link.wire]
        between = ["b", "server"]
        {wired}
        delay = "3 ms"
        errors = {{ kind = "uniform", loss = 0.02 }}
        [radio.cell]
        base = "b"
        stations = ["m0", "m1"]
        frame = "{frame}"
        delay = "{delay}"
        uplink = {}
        downlink = {}
        slot = "{slot}"
        queue = "{queue}"
        protocol = {protocol}
        errors = {}
        downlink_errors = {}
        {agent}
        [flow.up]
        from = "m0"
        to = "server"
        transport = {{ kind = "tcp", variant = "{}", profile = "rfc", segment = "900 B" }}
        app = {{ kind = "file", size = "{file} B" }}
        [flow.down]
        from = "server"
        to = "m0"
        transport = {{ kind = "tcp", variant = "{}", profile = "rfc", segment = "900 B" }}
        app = {{ kind = "file", size = "{file} B" }}
        [flow.across]
        from = "m0"
        to = "m1"
        transport = {{ kind = "udp" }}
        app = {{ kind = "on-off", rate = "32 kbps", on = "200 ms", off = "{off}", packet = "400 B" }}
        [flow.second]
        from = "m1"
        to = "server"
        transport = {{ kind = "tcp", variant = "sack", profile = "rfc", segment = "900 B" }}
        app = {{ kind = "file", size = "5 kB" }}
        {more}
        [run]
        duration = "{duration}"
        "#,
        slots[0], slots[1], errors[0], errors[1], variants[0], variants[1],
    )
}

/// Checks that the run is identical with and without observation.
fn check(scenario: &Scenario) -> Result<(HashMap<String, f64>, Trace), TestCaseError> {
    let found = metrics(scenario);
    let trace = run::trace(scenario, SEED, 0, &AtomicBool::new(false)).expect("a trace");
    prop_assert_eq!(found.len(), trace.metrics.len());
    for (name, value) in &trace.metrics {
        prop_assert_eq!(value.to_bits(), found[name].to_bits(), "{}: {}", name, found[name]);
    }
    for link in ["cell.m0", "cell.m1"] {
        for side in ["forward", "reverse"] {
            let value = |name: &str| found.get(&format!("link.{link}.{side}.{name}"));
            prop_assert!(value("packets_abandoned") <= value("packets"));
            prop_assert!(value("frames_lost") <= value("frames_sent"));
        }
    }
    Ok((found, trace))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, max_shrink_iters: 200, ..ProptestConfig::default() })]

    #[test]
    fn a_radio_is_the_same_observed_or_not(case in case()) {
        check(&scenario(&text(&case, "")))?;
    }

    /// A file over the wired link extends the run long after the other traffic has ended: by then,
    /// every segmented packet has an outcome.
    #[test]
    fn a_radio_leaves_nothing_behind(case in case()) {
        let late = r#"
            [flow.late]
            from = "b"
            to = "server"
            start = "600 s"
            transport = { kind = "tcp", variant = "sack", profile = "rfc" }
            app = { kind = "file", size = "1 kB" }
        "#;
        let (found, trace) = check(&scenario(&text(&case, late)))?;
        let is_quiet = ["up", "down", "second"]
            .iter()
            .all(|flow| found[&format!("flow.{flow}.duration_s")] < 300.0);
        for link in ["cell.m0", "cell.m1"] {
            for side in ["forward", "reverse"] {
                let entity = format!("link.{link}.{side}");
                let Some(&packets) = found.get(&format!("{entity}.packets")) else { continue };
                let events = trace.events.iter().filter(|event| event.entity == entity);
                let lengths = events.filter(|event| event.event == "queue").map(|event| event.value);
                let rise = |(sum, last): (f64, f64), next| (sum + f64::max(next - last, 0.0), next);
                let (entered, _) = lengths.fold((0.0, 0.0), rise);
                prop_assert!(packets <= entered);
                prop_assert!(!is_quiet || packets == entered, "{entity}: {packets} of {entered}");
            }
        }
    }
}
