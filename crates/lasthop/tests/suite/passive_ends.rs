//! A passive end of a link with a protocol is computed ahead of the clock, and so are exchanges in
//! order between both ends, unless an observer is attached. In whole runs of random scenarios, every metric is identical to that of the observed
//! run, in which each event is handled at its time, bit for bit.

use crate::scenarios::{metrics, scenario};
use lasthop::run;
use proptest::prelude::*;
use std::fmt::Write;
use std::sync::atomic::AtomicBool;

/// Selective repeat with these acknowledgments and timers.
fn selective_repeat(
    acks: &'static [&'static str],
    timers: &'static [&'static str],
) -> impl Strategy<Value = String> {
    (
        prop::sample::select(vec![1, 2, 3, 8, 20, 128, 300]),
        prop::sample::select(acks.to_vec()),
        prop::sample::select(timers.to_vec()),
        prop::sample::select(vec![
            "once-per-gap",
            "every-gap",
            "every-arrival",
            "after-round-trip",
        ]),
        prop::sample::select(vec!["auto", "auto", "150 ms", "400 ms", "2 s"]),
    )
        .prop_map(|(window, acks, timer, renack, timeout)| {
            format!(
                "kind = \"selective-repeat\", window = {window}, acks = \"{acks}\", \
                 timer = \"{timer}\", renack = \"{renack}\", timeout = \"{timeout}\""
            )
        })
}

fn protocol() -> impl Strategy<Value = String> {
    let selective = selective_repeat(&["piggybacked", "stand-alone"], &["per-frame", "base-only"]);
    let timeout = || prop::sample::select(vec!["auto", "auto", "150 ms", "400 ms", "2 s"]);
    let go_back_n = (prop::sample::select(vec![1, 2, 3, 8, 20, 128]), timeout(), any::<bool>())
        .prop_map(|(window, timeout, reject)| {
            format!(
                "kind = \"go-back-n\", window = {window}, timeout = \"{timeout}\", reject = {reject}"
            )
        });
    let rlp = (
        prop::sample::select(vec!["karn-rlp", "oos-rlp"]),
        prop::sample::select(vec![0, 1, 3, 10]),
        timeout(),
        prop::sample::select(vec!["auto", "off", "100 ms", "500 ms"]),
        prop::sample::select(vec!["unlimited", "1 frames", "5 frames"]),
    )
        .prop_map(|(kind, retransmissions, timeout, keepalive, keepalives)| {
            format!(
                "kind = \"{kind}\", retransmissions = {retransmissions}, \
                 nack_timeout = \"{timeout}\", keepalive = \"{keepalive}\", \
                 keepalives = \"{keepalives}\""
            )
        });
    let stop_and_wait = (prop::sample::select(vec!["\"unlimited\"", "0", "2"]), timeout())
        .prop_map(|(retries, timeout)| {
            format!("kind = \"stop-and-wait\", retries = {retries}, timeout = \"{timeout}\"")
        });
    let others =
        ["kind = \"xor-fec\"", "kind = \"ideal-sr\"", "kind = \"rlc-am\"", "kind = \"harq\""];
    prop_oneof![
        4 => selective,
        3 => go_back_n,
        3 => rlp,
        2 => stop_and_wait,
        1 => prop::sample::select(others.to_vec()).prop_map(str::to_owned),
    ]
}

/// A wired and a wireless link.
pub fn links() -> impl Strategy<Value = String> {
    links_with(
        protocol(),
        &["1 packets", "2 packets", "3 packets", "8 packets", "50 packets", "2 kB"],
    )
}

/// Like [`links`], with these protocols and queues. Packet times are often whole milliseconds, so
/// that ties occur.
fn links_with(
    protocol: impl Strategy<Value = String>,
    queues: &'static [&'static str],
) -> impl Strategy<Value = String> {
    let rates = [
        "\"64 kbps\"",
        "\"100 kbps\"",
        "\"200 kbps\"",
        "\"333333 bps\"",
        "{ kind = \"steps\", at = [[\"0 s\", \"64 kbps\"], [\"3 s\", \"200 kbps\"]], repeat = \"5 s\" }",
    ];
    let delays = [
        "\"0 ms\"",
        "\"10 ms\"",
        "\"50 ms\"",
        "{ kind = \"steps\", at = [[\"0 s\", \"50 ms\"], [\"1 s\", \"5 ms\"]], repeat = \"2 s\" }",
    ];
    let errors = [
        "kind = \"uniform\", loss = \"0 %\"",
        "kind = \"uniform\", loss = \"3 %\"",
        "kind = \"uniform\", loss = \"20 %\"",
        "kind = \"on-off\", up = \"2 s\", down = \"300 ms\"",
        "kind = \"gilbert-elliott\", mean_loss = 0.05, mean_burst = 3",
    ];
    (
        prop::sample::select(vec!["2 Mbps", "200 kbps", "10 Mbps", "9999991 bps"]),
        prop::sample::select(rates.to_vec()),
        prop::sample::select(delays.to_vec()),
        protocol,
        prop::sample::select(queues.to_vec()),
        prop::sample::select(errors.to_vec()),
        prop::sample::select(vec!["", "run = { duration = \"17 s\" }"]),
    )
        .prop_map(|(wired, wireless, delay, protocol, queue, errors, run)| {
            format!(
                r#"
                {run}
                [link.wired]
                between = ["server", "ap"]
                rate = "{wired}"
                delay = "1 ms"
                header = "0 B"

                [link.wireless]
                between = ["ap", "client"]
                rate = {wireless}
                delay = {delay}
                queue = "{queue}"
                protocol = {{ {protocol} }}
                errors = {{ {errors} }}
                "#
            )
        })
}

pub fn flows() -> impl Strategy<Value = String> {
    flows_from(&["server", "server", "ap"], 1..100, &["", "", "", "stop = \"8 s\"\n"])
}

/// Flows from these hosts, with sizes in kB, that stop at one of these times.
fn flows_from(
    hosts: &'static [&'static str],
    sizes: std::ops::Range<u32>,
    stops: &'static [&'static str],
) -> impl Strategy<Value = String> {
    let flow = (
        prop::sample::select(hosts.to_vec()),
        sizes,
        0u32..3,
        // Acceptors of profile `ns-2` answer every segment, others delay some answers.
        prop::sample::select(vec!["ns-2", "ns-2", "ns-2", "rfc", "linux"]),
        prop::sample::select(stops.to_vec()),
    );
    prop::collection::vec(flow, 1..4).prop_map(|flows| {
        let mut text = String::new();
        for (number, (from, size, start, profile, stop)) in flows.into_iter().enumerate() {
            let _ = write!(
                text,
                "[flow.f{number}]\nfrom = \"{from}\"\nto = \"client\"\nstart = \"{start} s\"\n{stop}\
                 transport = {{ kind = \"tcp\", variant = \"reno\", profile = \"{profile}\", segment = \"250 B\" }}\n\
                 app = {{ kind = \"file\", size = \"{size} kB\" }}\n"
            );
        }
        text
    })
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(512) })]

    #[test]
    fn a_passive_end_is_computed_as_if_each_event_were_handled_at_its_time(
        links in links(),
        flows in flows(),
        seed in 0u64..1000,
    ) {
        check(&links, &flows, seed)?;
    }

    /// The packets of long transfers wait in small and large queues, and their answers continue on
    /// a link that no others enter.
    #[test]
    fn an_exchange_in_order_is_computed_as_if_each_event_were_handled_at_its_time(
        links in links_with(
            selective_repeat(&["piggybacked", "stand-alone"], &["per-frame"]),
            &["2 packets", "3 packets", "5 packets", "8 packets", "12 packets", "50 packets"],
        ),
        flows in flows_from(&["server"], 20..200, &[""]),
        seed in 0u64..1000,
    ) {
        check(&links, &flows, seed)?;
    }
}

/// Compares all metrics of a run with those of an observed run.
fn check(links: &str, flows: &str, seed: u64) -> Result<(), TestCaseError> {
    let scenario = scenario(&format!("name = \"passive end\"\n{links}{flows}"));
    let computed = metrics(&scenario, 1, seed).remove(0);
    let each = run::trace(&scenario, seed, 0, &AtomicBool::new(false)).expect("a trace");
    for (name, each) in each.metrics {
        let computed = computed[&name];
        prop_assert_eq!(
            computed.to_bits(),
            each.to_bits(),
            "{}: {} and {}\n{}{}",
            name,
            computed,
            each,
            links,
            flows
        );
    }
    Ok(())
}
