//! Packets that arrive while others wait for a link with a protocol join its queue without a
//! separate event. In whole runs of random scenarios, every metric is identical to that with an
//! event per arrival, bit for bit.

use crate::scenarios::{Metrics, metrics, scenario};
use proptest::prelude::*;
use std::fmt::Write;

/// A server behind a wired link, followed by a wireless link. `is_shared`: another flow might use
/// the wired link, so that packets crossing it may have other destinations, and each arrival is an
/// event. That flow starts after the run.
fn run(links: &str, flows: &str, is_shared: bool, seed: u64) -> Metrics {
    let mut text = format!("name = \"held back\"\nrun = {{ duration = \"20 s\" }}\n{links}{flows}");
    if is_shared {
        text += r#"
        [flow.other]
        from = "server"
        to = "ap"
        start = "19.999999999 s"
        transport = { kind = "udp" }
        app = { kind = "on-off", rate = "1 kbps", on = "1 s", off = "1 s", packet = "100 B", replay = "per-packet" }
        "#;
    }
    metrics(&scenario(&text), 1, seed).remove(0)
}

fn links() -> impl Strategy<Value = String> {
    let protocols = [
        "kind = \"selective-repeat\"",
        "kind = \"selective-repeat\", window = 1",
        "kind = \"go-back-n\"",
        "kind = \"karn-rlp\"",
        "kind = \"xor-fec\"",
        "kind = \"harq\"",
    ];
    let queues = ["1 packets", "2 packets", "3 packets", "5 packets", "50 packets", "2 kB"];
    // Packet times on both links are whole milliseconds, so that ties occur.
    (
        prop::sample::select(vec!["2 Mbps", "200 kbps", "10 Mbps", "9999991 bps"]),
        prop::sample::select(vec!["200 kbps", "100 kbps", "64 kbps", "333333 bps"]),
        prop::sample::select(vec!["10 ms", "0 ms", "50 ms"]),
        prop::sample::select(protocols.to_vec()),
        prop::sample::select(queues.to_vec()),
        prop::sample::select(vec!["0 %", "3 %", "20 %"]),
    )
        .prop_map(|(wired, wireless, delay, protocol, queue, loss)| {
            format!(
                r#"
                [link.wired]
                between = ["server", "ap"]
                rate = "{wired}"
                delay = "{delay}"
                header = "0 B"

                [link.wireless]
                between = ["ap", "client"]
                rate = "{wireless}"
                delay = "{delay}"
                queue = "{queue}"
                protocol = {{ {protocol} }}
                errors = {{ kind = "uniform", loss = "{loss}" }}
                "#
            )
        })
}

fn flows() -> impl Strategy<Value = String> {
    let flow = prop_oneof![
        (prop::sample::select(vec!["server", "ap"]), 1u32..100).prop_map(|(from, size)| format!(
            "from = \"{from}\"\nto = \"client\"\n\
             transport = {{ kind = \"tcp\", variant = \"reno\", profile = \"ns-2\", segment = \"250 B\" }}\n\
             app = {{ kind = \"file\", size = \"{size} kB\" }}\n"
        )),
        (prop::sample::select(vec!["server", "ap"]), 10u32..400).prop_map(|(from, rate)| format!(
            "from = \"{from}\"\nto = \"client\"\ntransport = {{ kind = \"udp\" }}\n\
             app = {{ kind = \"on-off\", rate = \"{rate} kbps\", on = \"1 s\", off = \"500 ms\", packet = \"250 B\" }}\n"
        )),
    ];
    prop::collection::vec(flow, 1..4).prop_map(|flows| {
        let mut text = String::new();
        for (number, flow) in flows.iter().enumerate() {
            let _ = write!(text, "[flow.f{number}]\n{flow}");
        }
        text
    })
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(256) })]

    #[test]
    fn what_is_held_back_is_as_if_each_arrival_were_an_event(
        links in links(),
        flows in flows(),
        seed in 0u64..1000,
    ) {
        let shared = run(&links, &flows, true, seed);
        for (name, held) in run(&links, &flows, false, seed) {
            if name.starts_with("link.wired") {
                continue;
            }
            let each = shared[&name];
            prop_assert_eq!(held.to_bits(), each.to_bits(), "{}: {} and {}\n{}{}", name, held, each, links, flows);
        }
    }
}
