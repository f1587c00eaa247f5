//! Counters include only events up to the end of the run: no packet is delivered faster than the rate of its link,
//! no utilization exceeds 1, and every count agrees with the events by their time.
//!
//! Random scenarios: paths of one to three links, computed (and so chained), driven or with several
//! services, and radios; flows of every kind; runs that end at any time, or when files are complete.

use crate::scenarios::{self, Metrics, scenario};
use lasthop::run;
use lasthop::scenario::{App, Scenario};
use proptest::prelude::*;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

fn config(cases: u32) -> ProptestConfig {
    ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(cases) }
}

fn metrics(scenario: &Scenario, seed: u64) -> Metrics {
    scenarios::metrics(scenario, 1, seed).remove(0)
}

fn links() -> impl Strategy<Value = String> {
    let link = (
        prop_oneof![10_000u64..200_000, 1_000_000u64..20_000_000, Just(64_000)],
        0u64..300,
        prop_oneof![
            (1u64..200).prop_map(|packets| format!("{packets} packets")),
            (2_000u64..60_000).prop_map(|bytes| format!("{bytes} B")),
        ],
        prop_oneof![
            6 => Just("raw"),
            1 => Just("selective-repeat"),
            1 => Just("go-back-n"),
            1 => Just("xor-fec"),
        ],
        prop_oneof![Just(0.0), Just(0.0), 0.0f64..0.3, Just(1.0)],
    );
    prop::collection::vec(link, 1..4).prop_map(|links| {
        let mut text = String::new();
        for (index, (rate, delay, queue, protocol, loss)) in links.iter().enumerate() {
            text += &format!(
                r#"
                [link.l{index}]
                between = ["h{index}", "h{}"]
                rate = "{rate} bps"
                delay = "{delay} ms"
                queue = "{queue}"
                protocol = "{protocol}"
                errors = {{ kind = "uniform", loss = {loss} }}
                "#,
                index + 1
            );
        }
        text
    })
}

/// Datagrams of one size from the first host (or, if odd, from the last) over some of the links.
fn datagrams() -> impl Strategy<Value = Vec<(u64, u64, bool, bool)>> {
    prop::collection::vec((0u64..3, 10_000u64..3_000_000, any::<bool>(), any::<bool>()), 1..4)
}

/// Scenarios with a last host; whether they contain transfers; how they end.
pub fn scenarios() -> impl Strategy<Value = String> {
    let transfers = prop_oneof![
        Just(String::new()),
        Just(r#"transport = { kind = "tcp", variant = "reno", profile = "ns-2", segment = "252 B" }"#.to_owned()),
        Just(r#"transport = { kind = "tcp", variant = "sack", profile = "rfc", segment = "300 B" }"#.to_owned()),
    ];
    let end = prop_oneof![
        3 => (1u64..20_000).prop_map(|millis| format!("duration = \"{millis} ms\"")),
        1 => Just("max_time = \"20 s\"".to_owned()),
    ];
    (links(), datagrams(), transfers, end).prop_map(|(links, datagrams, transport, end)| {
        let hops = links.matches("[link.").count() as u64;
        let mut text = format!("name = \"random\"\n{links}\n[run]\n{end}\n");
        for (index, (to, rate, is_media, back)) in datagrams.iter().enumerate() {
            let far = to % hops + 1;
            let [from, to] = if *back { [hops, hops - far] } else { [0, far] };
            let app = if *is_media {
                format!(r#"kind = "media", rate = "{rate} bps", talk = "500 ms", silence = "exp 100 ms""#)
            } else {
                format!(r#"kind = "on-off", rate = "{rate} bps", on = "exp 500 ms", off = "exp 100 ms""#)
            };
            text += &format!(
                "[flow.d{index}]\nfrom = \"h{from}\"\nto = \"h{to}\"\n\
                 transport = {{ kind = \"udp\" }}\napp = {{ {app}, packet = \"250 B\" }}\n"
            );
        }
        if !transport.is_empty() {
            text += &format!(
                "[flow.file]\nfrom = \"h0\"\nto = \"h{hops}\"\n{transport}\n\
                 app = {{ kind = \"file\", size = \"40 kB\" }}\n"
            );
        } else if end.starts_with("max_time") {
            text = text.replace(&end, "duration = \"3 s\"");
        }
        text
    })
}

/// A radio of two stations that upload datagrams and a file.
pub fn radios() -> impl Strategy<Value = String> {
    let protocol = prop_oneof![Just("raw"), Just("ideal-sr"), Just("rlc-am")];
    (1u64..200, 1u64..30, 1u64..30, protocol, 10_000u64..2_000_000).prop_map(
        |(millis, uplink, downlink, protocol, rate)| {
            let (slot, packet) = if protocol == "raw" { (300, 250) } else { (60, 250) };
            format!(
                r#"
                name = "radio"
                [radio.cell]
                base = "base"
                stations = ["one", "two"]
                uplink = {uplink}
                downlink = {downlink}
                slot = "{slot} B"
                protocol = "{protocol}"
                [flow.one]
                from = "one"
                to = "base"
                transport = {{ kind = "udp" }}
                app = {{ kind = "on-off", rate = "{rate} bps", on = "1 s", off = "0 s", packet = "{packet} B" }}
                [flow.two]
                from = "base"
                to = "two"
                transport = {{ kind = "udp" }}
                app = {{ kind = "media", rate = "{rate} bps", packet = "{packet} B" }}
                [run]
                duration = "{millis} ms"
                "#
            )
        },
    )
}

/// Returns the minimum rate of the links of a flow.
fn bottleneck(scenario: &Scenario, from: &str, to: &str) -> f64 {
    let rate = |(link, is_forward): (usize, bool)| {
        let link = &scenario.links[link];
        let side = if is_forward { &link.forward } else { &link.reverse };
        side.rate.as_bps() as f64
    };
    scenario.route(from, to).into_iter().map(rate).fold(f64::INFINITY, f64::min)
}

fn nothing_is_faster_than_its_link(text: &str, seed: u64) -> Result<(), TestCaseError> {
    let scenario = scenario(text);
    let found = metrics(&scenario, seed);
    for flow in scenario.flows.iter() {
        let goodput = found[&format!("flow.{}.goodput_bps", flow.name)];
        let rate = bottleneck(&scenario, &flow.from, &flow.to);
        prop_assert!(
            goodput.is_nan() || goodput <= rate * (1.0 + 1e-12),
            "flow.{}: {goodput} over {rate} bps, seed {seed}\n{text}",
            flow.name
        );
    }
    for (name, value) in found.iter().filter(|(name, _)| name.ends_with(".utilization")) {
        prop_assert!(value.is_nan() || *value <= 1.0, "{name}: {value}, seed {seed}\n{text}");
    }
    Ok(())
}

/// Compares every count of links and of datagram flows with the events up to the end of the run.
fn counts_agree_with_events(text: &str, seed: u64) -> Result<(), TestCaseError> {
    let mut scenario = scenario(text);
    for flow in Arc::make_mut(&mut scenario.flows) {
        if let App::OnOff(source) = &mut flow.app {
            // Replayed packets have no events.
            source.replay = lasthop::app::Replay::PerPacket;
        }
    }
    let trace = run::trace(&scenario, seed, 0, &AtomicBool::new(false))
        .unwrap_or_else(|error| panic!("{error}"));
    let found: HashMap<_, _> = trace.metrics.iter().cloned().collect();
    // Unobserved runs discard finished packets before the end.
    for (name, value) in metrics(&scenario, seed) {
        let same = value.to_bits() == found[&name].to_bits();
        prop_assert!(same, "{name}: {value}, observed {}, seed {seed}\n{text}", found[&name]);
    }
    // The first flow is active during the whole run.
    let first = &scenario.flows[0].name;
    let end_s = found[&format!("flow.{first}.duration_s")];
    let end = (end_s * 1e9).round() as u64;
    let count = |entity: &str, event: &str| {
        let of = |known: &&run::TraceEvent| {
            known.entity == entity && known.event == event && known.time_ns <= end
        };
        trace.events.iter().filter(of).count() as f64
    };
    for flow in scenario
        .flows
        .iter()
        .filter(|flow| matches!(flow.transport, lasthop::scenario::Transport::Udp(_)))
    {
        let received = count(&format!("flow.{}.receiver", flow.name), "datagram_received");
        let delivered = found[&format!("flow.{}.packets_delivered", flow.name)];
        prop_assert_eq!(received, delivered, "flow.{}, seed {}\n{}", flow.name, seed, text);
    }
    for link in scenario.links.iter() {
        for (side, direction) in [("forward", &link.forward), ("reverse", &link.reverse)] {
            let entity = format!("link.{}.{side}", link.name);
            let mut sent = [0.0; 3];
            for frame in trace.transmissions.iter().filter(|frame| frame.entity == entity) {
                if frame.start_ns <= end && frame.bytes > 0 {
                    let length = frame.end_ns - frame.start_ns;
                    let part = frame.end_ns.min(end) - frame.start_ns;
                    let share = if length == 0 { 1.0 } else { part as f64 / length as f64 };
                    sent[0] += 1.0;
                    sent[1] += f64::from(u8::from(frame.arrival_ns.is_none()));
                    sent[2] += f64::from(frame.bytes) * 8.0 * share;
                }
            }
            let metric = |name: &str| found[&format!("{entity}.{name}")];
            let counted = [metric("frames_sent"), metric("frames_lost"), metric("queue_drops")];
            let seen = [sent[0], sent[1], count(&entity, "drop")];
            prop_assert_eq!(counted, seen, "{}, seed {}\n{}", entity, seed, text);
            let used = sent[2] / (direction.rate.as_bps() as f64 * end_s);
            let utilization = metric("utilization");
            prop_assert!(
                (used.min(1.0) - utilization).abs() <= 1e-6,
                "{entity}: {used}, not {utilization}, seed {seed}\n{text}"
            );
        }
    }
    Ok(())
}

proptest! {
    #![proptest_config(config(300))]

    #[test]
    fn no_flow_and_no_link_exceeds_a_rate(text in scenarios(), seed in 1u64..1_000_000) {
        nothing_is_faster_than_its_link(&text, seed)?;
    }
}

proptest! {
    #![proptest_config(config(60))]

    #[test]
    fn no_radio_gives_more_than_its_slots(text in radios(), seed in 1u64..1_000_000) {
        nothing_is_faster_than_its_link(&text, seed)?;
        counts_agree_with_events(&text, seed)?;
    }
}

/// On-off traffic of 100 kbps into 64 kbps: packets waiting at the end do not count as delivered,
/// for any method of replay and any link protocol.
#[test]
fn a_link_of_64_kbps_delivers_no_more() {
    for protocol in ["raw", "selective-repeat"] {
        for replay in ["lazy", "per-packet"] {
            let text = format!(
                r#"
                name = "overload"
                [link.wireless]
                between = ["a", "b"]
                rate = "64 kbps"
                delay = "50 ms"
                queue = "1000 packets"
                protocol = "{protocol}"
                header = "2 B"
                [flow.datagrams]
                from = "a"
                to = "b"
                transport = {{ kind = "udp" }}
                app = {{ kind = "on-off", rate = "100 kbps", on = "100 s", off = "0 s", packet = "250 B", replay = "{replay}" }}
                [run]
                duration = "20 s"
                "#
            );
            let found = metrics(&scenario(&text), 1);
            // 31.5 ms per frame; the first arrives at 20 ms, and its end is received 50 ms later.
            let frames = ((20.0f64 - 0.02 - 0.05) / 0.0315).floor();
            let counted = found["flow.datagrams.packets_delivered"];
            if protocol == "raw" {
                assert_eq!(counted, frames, "{replay}");
                let started = ((20.0f64 - 0.02) / 0.0315).ceil();
                assert_eq!(found["link.wireless.forward.frames_sent"], started, "{replay}");
                assert_eq!(found["flow.datagrams.loss"], 0.0, "waiting packets are not lost");
            } else {
                assert!((counted - frames).abs() <= 20.0, "{counted}, of a raw link {frames}");
            }
        }
    }
}

mod slow {
    use super::*;

    proptest! {
        #![proptest_config(config(300))]

        #[test]
        fn counts_of_links_and_flows_agree_with_events(text in scenarios(), seed in 1u64..1_000_000) {
            counts_agree_with_events(&text, seed)?;
        }
    }
}
