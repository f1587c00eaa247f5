//! The framed radio: hand-computed timing, the ideal link against the chain of the analysis, and
//! fair shares.

use crate::scenarios::{self, Metrics, scenario};
use lasthop::analysis::{ArqChain, GilbertElliottLaw};
use lasthop::run::{self, Trace};
use lasthop::scenario::Scenario;
use std::collections::HashMap;
use std::path::Path;
use std::sync::atomic::AtomicBool;

/// All metrics of replication 0.
fn metrics(text: &str) -> Metrics {
    scenarios::metrics(&scenario(text), 1, 11).remove(0)
}

fn trace(text: &str) -> Trace {
    run::trace(&scenario(text), 11, 0, &AtomicBool::new(false)).expect("a trace")
}

/// A radio called cell with one station m and the keys of `radio`; a flow of 1000 B packets, one
/// every `gap`, for `duration` seconds.
fn one_station(radio: &str, gap_ms: u64, duration: u64) -> String {
    let rate = 8_000_000 / gap_ms;
    assert_eq!(rate * gap_ms, 8_000_000, "a whole rate");
    format!(
        r#"
        name = "one station"
        [radio.cell]
        base = "b"
        stations = ["m"]
        {radio}
        [flow.up]
        from = "m"
        to = "b"
        transport = {{ kind = "udp" }}
        app = {{ kind = "on-off", rate = "{rate} bps", on = "1000000000 s", off = "0 s", packet = "1000 B" }}
        [run]
        duration = "{duration} s"
        "#
    )
}

/// Errors of the paper: 10 ms, stay_good 0.9, losses of 0.01 and 0.9.
fn errors(stay_bad: f64) -> String {
    format!(
        r#"errors = {{ kind = "slotted-gilbert-elliott", stay_good = 0.9, stay_bad = {stay_bad}, loss_good = 0.01, loss_bad = 0.9 }}"#
    )
}

#[test]
fn a_saturated_link_uses_every_slot() {
    // 400 000 frames of 25 slots. The mean fraction of successful slots is 0.545. States are
    // correlated by 0.8^k, (1 + 0.8) / (1 - 0.8) = 9, so one standard error of the fraction is at
    // most 0.89 * sqrt(0.25 * 9 / 400 000) = 0.0021. 5 standard errors, false-positive rate below
    // 1e-6.
    let radio = format!("protocol = {{ kind = \"ideal-sr\" }}\n{}", errors(0.9));
    let found = metrics(&one_station(&radio, 5, 4_000));
    let sent = found["link.cell.m.forward.frames_sent"];
    // Excluding the first frame, which begins before the first packet, and including the first slot
    // of the frame that begins at the end.
    assert_eq!(sent, 10_000_000.0 - 24.0);
    assert!((found["link.cell.m.forward.utilization"] - 1.0).abs() < 1e-5);
    let share = found["flow.up.goodput_bps"] / 800_000.0;
    assert!((share - 0.545).abs() < 5.0 * 0.0021, "{share}");
    // Not c / N: retransmissions are blocked together.
    let single = ArqChain::new(GilbertElliottLaw::new(0.1, 0.1, 0.01, 0.9).unwrap(), 1, 1).unwrap();
    assert!(share > 1.5 / single.mean_attempts().unwrap());
}

/// A transmitted frame: direction, kind, number, start, end and arrival in milliseconds.
type Sent<'a> = (&'a str, &'a str, u64, f64, f64, Option<f64>);

fn on_air(trace: &Trace) -> Vec<Sent<'_>> {
    let millis = |nanos: u64| nanos as f64 * 1e-6;
    let entry = |sent: &'_ run::Transmission| {
        let side = if sent.entity.ends_with("forward") { "up" } else { "down" };
        let (start, end) = (millis(sent.start_ns), millis(sent.end_ns));
        (side, sent.kind, sent.sequence, start, end, sent.arrival_ns.map(millis))
    };
    trace.transmissions.iter().map(entry).collect()
}

/// A radio of 2 uplink slots and a delay of 3 ms; packets of `packet` bytes arrive every 25 ms.
fn by_hand(packet: u32, rest: &str) -> Trace {
    let text = format!(
        r#"
        name = "by hand"
        [radio.cell]
        base = "b"
        stations = ["m"]
        uplink = 2
        delay = "3 ms"
        {rest}
        [flow.up]
        from = "m"
        to = "b"
        transport = {{ kind = "udp" }}
        app = {{ kind = "on-off", rate = "{} bps", on = "1000 s", off = "0 s", packet = "{packet} B" }}
        [run]
        duration = "74 ms"
        "#,
        packet * 320
    );
    trace(&text)
}

#[test]
fn a_packet_waits_for_a_frame_and_arrives_when_frames_are_over() {
    let trace = by_hand(100, "protocol = { kind = \"ideal-sr\" }");
    let expected = [
        // Packet 0 arrives at 25 ms and is sent from 30 ms in three segments.
        ("up", "segment", 0, 30.0, 35.0, Some(43.0)),
        ("up", "segment", 1, 35.0, 40.0, Some(43.0)),
        ("down", "ack", 2, 43.0, 43.0, Some(43.0)),
        ("up", "segment", 2, 40.0, 45.0, Some(53.0)),
        ("down", "ack", 3, 53.0, 53.0, Some(53.0)),
        // Packet 1 arrives at 50 ms, just in time.
        ("up", "segment", 3, 50.0, 55.0, Some(63.0)),
        ("up", "segment", 4, 55.0, 60.0, Some(63.0)),
        ("down", "ack", 5, 63.0, 63.0, Some(63.0)),
        ("up", "segment", 5, 60.0, 65.0, Some(73.0)),
        ("down", "ack", 6, 73.0, 73.0, Some(73.0)),
    ];
    let mut found = on_air(&trace);
    assert!(found.is_sorted_by_key(|frame| frame.4));
    found.sort_by_key(|frame| expected.iter().position(|known| known == frame));
    assert_eq!(found, expected);
    let received = trace.events.iter().filter(|event| event.event == "datagram_received");
    let delays: Vec<_> =
        received.map(|event| (event.time_ns, (event.value * 1e9).round())).collect();
    assert_eq!(delays, [(53_000_000, 28e6), (73_000_000, 23e6)]);
}

#[test]
fn what_fails_too_often_is_given_up() {
    let rest = "protocol = { kind = \"ideal-sr\", max_transmissions = 2 }\n\
                errors = { kind = \"uniform\", loss = \"100 %\" }";
    let trace = by_hand(40, rest);
    let expected = [
        ("up", "segment", 0, 30.0, 35.0, None),
        // Known at 43 ms: the next frame is that of 50 ms, in which packet 1 has its first turn.
        ("down", "nack", 0, 43.0, 43.0, Some(43.0)),
        ("up", "segment", 0, 50.0, 55.0, None),
        ("up", "segment", 1, 55.0, 60.0, None),
        ("down", "nack", 0, 63.0, 63.0, Some(63.0)),
        ("down", "nack", 1, 63.0, 63.0, Some(63.0)),
        ("up", "skip", 1, 63.0, 63.0, Some(63.0)),
        ("down", "ack", 1, 63.0, 63.0, Some(63.0)),
        ("up", "segment", 1, 70.0, 75.0, None),
    ];
    assert_eq!(on_air(&trace), expected);
    let value = |name: &str| {
        let name = format!("link.cell.m.forward.{name}");
        trace.metrics.iter().find(|metric| metric.0 == name).expect("a metric").1
    };
    assert_eq!((value("packets"), value("packets_abandoned"), value("skipped")), (1.0, 1.0, 1.0));
}

#[test]
fn a_station_that_has_sent_all_wakes_for_its_timer() {
    // The second packet arrives at 1037 ms and is lost; Timer_Poll runs from 1040 ms. The PDU takes
    // the only slot of its frame, or leaves one.
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
    std::fs::write(folder.join("its_second_lost"), "ok\nlost\n").expect("a file");
    for slots in [1, 2] {
        let text = format!(
            r#"
            name = "alone"
            [radio.cell]
            base = "b"
            stations = ["m"]
            uplink = {slots}
            downlink = 1
            protocol = {{ kind = "rlc-am", timer_poll = "21 ms" }}
            errors = {{ kind = "trace", file = "its_second_lost", at_end = "clean" }}
            downlink_errors = {{ kind = "none" }}
            [flow.up]
            from = "m"
            to = "b"
            transport = {{ kind = "udp" }}
            app = {{ kind = "on-off", rate = "10 kbps", on = "64 ms", off = "973 ms", packet = "40 B" }}
            [run]
            duration = "2 s"
            "#
        );
        let document = Scenario::from_toml(&text, folder).expect("a scenario");
        let scenario = document.points().expect("points").remove(0).scenario;
        let trace = run::trace(&scenario, 11, 0, &AtomicBool::new(false)).expect("a trace");
        let starts = on_air(&trace).into_iter().filter(|frame| frame.0 == "up");
        let starts: Vec<_> = starts.map(|frame| (frame.2, frame.3)).collect();
        assert_eq!(starts, [(0, 1010.0), (1, 1040.0), (1, 1070.0)], "{slots} slots");
    }
}

#[test]
fn a_limit_that_is_lowered_ends_the_wait_for_a_lost_pdu() {
    // Packets arrive at 1005 and 1037 ms. At 1061 ms Timer_Poll polls for the PDU sent at 1040 ms,
    // which the frame of 1070 ms would retransmit. At 1063 ms, 58 ms after the first packet, the
    // agent allows one transmission; the next event of the station is at 1900 ms.
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
    std::fs::write(folder.join("second_lost"), "ok\nlost\n").expect("a file");
    let text = r#"
        name = "lowered"
        [radio.cell]
        base = "b"
        stations = ["m"]
        uplink = 1
        downlink = 1
        protocol = { kind = "rlc-am", timer_poll = "21 ms" }
        errors = { kind = "trace", file = "second_lost", at_end = "clean" }
        downlink_errors = { kind = "none" }
        [radio.cell.agent]
        kind = "adaptive-persistence"
        update_time = "58 ms"
        # The wire seems to lose nothing while the link is thought to lose all that is lost.
        initial_loss = 0.4
        initial_link_loss = 0.4
        weight = 1
        alpha = 1
        stay_good = 0.5
        stay_bad = 0.5
        loss_good = 0.1
        loss_bad = 0.1
        pdus = 1
        [flow.up]
        from = "m"
        to = "b"
        transport = { kind = "udp" }
        app = { kind = "on-off", rate = "10 kbps", on = "64 ms", off = "973 ms", packet = "40 B" }
        [flow.late]
        from = "m"
        to = "b"
        start = "1900 ms"
        transport = { kind = "tcp", variant = "reno", profile = "rfc" }
        app = { kind = "file", size = "1 B" }
        [run]
        duration = "2 s"
    "#;
    let document = Scenario::from_toml(text, folder).expect("a scenario");
    let scenario = document.points().expect("points").remove(0).scenario;
    let trace = run::trace(&scenario, 11, 0, &AtomicBool::new(false)).expect("a trace");
    let expected = [
        ("up", "segment", 0, 1010.0, 1020.0, Some(1020.0)),
        ("down", "status", 1, 1020.0, 1030.0, Some(1030.0)),
        ("up", "segment", 1, 1040.0, 1050.0, None),
        ("up", "skip", 2, 1070.0, 1080.0, Some(1080.0)),
        ("down", "skip-ack", 2, 1080.0, 1090.0, Some(1090.0)),
    ];
    let mut found = on_air(&trace);
    found.retain(|frame| frame.3 < 1900.0);
    assert_eq!(found, expected);
}

/// Stations m0, m1, ... with sources of these rates in kbit/s, 1000 B packets, uplink and downlink.
fn cell(radio: &str, kbps: &[u32], duration: u32) -> String {
    let names: Vec<_> = (0..kbps.len()).map(|index| format!("\"m{index}\"")).collect();
    let mut text = format!(
        "name = \"cell\"\n[radio.cell]\nbase = \"b\"\nstations = [{}]\n{radio}\n",
        names.join(", ")
    );
    for (index, rate) in kbps.iter().enumerate() {
        for (flow, from, to) in [("up", "m", "b"), ("down", "b", "m")] {
            let host = |letter| match letter {
                "m" => format!("m{index}"),
                other => other.to_owned(),
            };
            text += &format!(
                "[flow.{flow}{index}]\nfrom = \"{}\"\nto = \"{}\"\ntransport = {{ kind = \"udp\" }}\n\
                 app = {{ kind = \"on-off\", rate = \"{rate} kbps\", on = \"1000 s\", off = \"0 s\", \
                 packet = \"1000 B\" }}\n",
                host(from),
                host(to)
            );
        }
    }
    text + &format!("[run]\nduration = \"{duration} s\"\n")
}

#[test]
fn stations_share_slots_evenly() {
    // All eight stations, or three stations whose number does not divide 7 slots, are saturated.
    for (stations, slots) in [(8, 25), (3, 7), (2, 1)] {
        let radio =
            format!("protocol = {{ kind = \"ideal-sr\" }}\nuplink = {slots}\ndownlink = {slots}");
        let found = metrics(&cell(&radio, &vec![1_000; stations], 60));
        for side in ["forward", "reverse"] {
            let sent = (0..stations).map(|m| found[&format!("link.cell.m{m}.{side}.frames_sent")]);
            let sent: Vec<f64> = sent.collect();
            let (least, most) = (
                sent.iter().copied().fold(f64::MAX, f64::min),
                sent.iter().copied().fold(0.0, f64::max),
            );
            assert!(most - least <= 1.0, "{stations} stations: {sent:?}");
            assert!(sent.iter().sum::<f64>() >= f64::from(slots) * 5_990.0, "{sent:?}");
        }
    }
}

#[test]
fn what_a_station_leaves_goes_to_the_others() {
    // 800 kbit/s: m0 offers 80, which it receives; m1 and m2 share the rest.
    let found = metrics(&cell("protocol = { kind = \"ideal-sr\" }", &[80, 2_000, 2_000], 100));
    for flow in ["up", "down"] {
        let goodput = |station: u32| found[&format!("flow.{flow}{station}.goodput_bps")] / 1_000.0;
        assert!((goodput(0) - 80.0).abs() < 0.5, "{}", goodput(0));
        assert!((goodput(1) - 360.0).abs() < 1.0 && (goodput(2) - 360.0).abs() < 1.0);
    }
}

/// Every link protocol whose frames fit, on a radio of large slots with losses.
fn every_protocol() -> [(&'static str, bool); 9] {
    [
        ("kind = \"raw\"", false),
        ("kind = \"go-back-n\", window = 100", true),
        ("kind = \"selective-repeat\", window = 100", true),
        ("kind = \"stop-and-wait\"", true),
        ("kind = \"karn-rlp\"", false),
        ("kind = \"oos-rlp\"", false),
        ("kind = \"xor-fec\"", false),
        ("kind = \"ideal-sr\", payload = \"400 B\"", true),
        ("kind = \"rlc-am\", payload = \"400 B\"", true),
    ]
}

#[test]
fn any_protocol_runs_and_observation_changes_nothing() {
    for (protocol, is_reliable) in every_protocol() {
        let radio = format!(
            "slot = \"1002 B\"\nuplink = 6\ndownlink = 6\ndelay = \"4 ms\"\n\
             protocol = {{ {protocol} }}\nerrors = {{ kind = \"uniform\", loss = 0.1 }}"
        );
        let text = cell(&radio, &[160, 320], 50);
        let found = metrics(&text);
        let observed: HashMap<String, f64> = trace(&text).metrics.into_iter().collect();
        assert_eq!(found.len(), observed.len());
        for (name, value) in &found {
            assert_eq!(value.to_bits(), observed[name].to_bits(), "{protocol}: {name}");
        }
        // In 50 s, m0 sends 1000 packets; about 100 are lost without recovery. 5 standard errors of
        // 9.5, false-positive rate below 1e-6. Few packets are in transit at the end.
        let lost = found["flow.up0.packets_sent"] - found["flow.up0.packets_delivered"];
        let most = if is_reliable { 20.0 } else { 148.0 };
        if !protocol.contains("stop-and-wait") {
            assert!(lost <= most, "{protocol}: {lost} lost");
        }
        assert!(found["flow.up0.packets_delivered"] > 400.0, "{protocol}");
    }
}

#[test]
fn tcp_over_a_radio_gets_through() {
    let text = format!(
        r#"
        name = "tcp"
        [link.wired]
        between = ["b", "server"]
        rate = "10 Mbps"
        delay = "10 ms"
        [radio.cell]
        base = "b"
        stations = ["m", "n"]
        queue = "1000 packets"
        protocol = {{ kind = "ideal-sr", max_transmissions = 3 }}
        agent = {{ kind = "snoop", at = "b" }}
        {}
        [flow.up]
        from = "m"
        to = "server"
        transport = {{ kind = "tcp", variant = "newreno", profile = "rfc", segment = "960 B" }}
        app = {{ kind = "file", size = "300 kB" }}
        [flow.down]
        from = "server"
        to = "n"
        transport = {{ kind = "tcp", variant = "sack", profile = "rfc", segment = "960 B" }}
        app = {{ kind = "file", size = "300 kB" }}
        "#,
        errors(0.5)
    );
    let found = metrics(&text);
    for flow in ["up", "down"] {
        assert_eq!(found[&format!("flow.{flow}.complete")], 1.0);
        assert_eq!(found[&format!("flow.{flow}.delivered_bytes")], 300_000.0);
    }
    assert!(found["link.cell.m.forward.packets_abandoned"] > 0.0);
    assert!(found["agent.cell.n.local_retransmissions"] > 0.0);
}

mod slow {
    use super::*;

    #[test]
    fn isolated_packets_follow_the_chain() {
        // A packet every 3.2 s, 320 frames: the channel is independent of its earlier state (0.85^320 <
        // 1e-22), and the packet is finished (F(M) at most while M d < 320). Packets are independent:
        // binomial, 4.5 standard errors, false-positive rate below 7e-6 per point. The variance of
        // transmissions is bounded by M^2 / 4 per packet, with all its segments together: wide, but
        // without random failures.
        let packets = 20_000u64;
        for (stay_bad, limit, pdus, delay) in [
            (0.9, 1, 25, 0u64),
            (0.9, 2, 25, 0),
            (0.9, 5, 25, 0),
            (0.9, 10, 25, 0),
            (0.9, 20, 25, 0),
            (0.5, 2, 25, 0),
            (0.5, 5, 25, 0),
            (0.95, 10, 25, 0),
            (0.9, 3, 25, 10),
            (0.9, 5, 25, 20),
            (0.9, 10, 25, 20),
            (0.9, 3, 1, 0),
            (0.9, 10, 1, 0),
            (0.8, 4, 5, 40),
        ] {
            let radio = format!(
                r#"
                delay = "{delay} ms"
                slot = "1002 B"
                protocol = {{ kind = "ideal-sr", max_transmissions = {limit}, payload = "{} B" }}
                {}
                "#,
                1000 / pdus,
                errors(stay_bad)
            );
            let found = metrics(&one_station(&radio, 3_200, (16 * packets - 1) / 5));
            let law = GilbertElliottLaw::new(0.1, 1.0 - stay_bad, 0.01, 0.9).expect("a channel");
            let spacing = 1 + (delay / 10) as u32;
            let case = format!("b = {stay_bad}, M = {limit}, n = {pdus}, d = {spacing}");

            let chain = ArqChain::new(law, pdus, spacing).expect("a chain");
            let exact = chain.residual_losses().nth(limit).expect("a loss");
            let n = found["flow.up.packets_sent"];
            // The first packet is sent after a gap.
            assert_eq!(n, packets as f64 - 1.0, "{case}");
            let error = (exact * (1.0 - exact) / n).sqrt();
            let loss = found["flow.up.loss"];
            assert!(
                (loss - exact).abs() < 4.5 * error,
                "{case}: {loss}, expected {exact} ± {error}"
            );
            let abandoned = found["link.cell.m.forward.packets_abandoned"];
            assert_eq!(abandoned, (loss * n).round(), "{case}");
            assert_eq!(found["link.cell.m.forward.packets"], n, "{case}");

            // All segments of a packet have the same age when it is discarded: N of a single one.
            let single = ArqChain::new(law, 1, spacing).expect("a chain");
            let exact: f64 = single.residual_losses().take(limit).sum();
            let first = found["link.cell.m.forward.data_frames"];
            assert_eq!(first, n * f64::from(pdus), "{case}");
            let mean = 1.0 + found["link.cell.m.forward.retransmissions"] / first;
            let error = limit as f64 / 2.0 / n.sqrt();
            assert!(
                (mean - exact).abs() < 4.5 * error,
                "{case}: {mean}, expected {exact} ± {error}"
            );
        }
    }
}
