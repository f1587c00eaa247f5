//! Transmitted frames in a trace, against hand-computed sequences.
//!
//! One byte takes a millisecond to transmit, the propagation delay is 50 ms; frames have 100 bytes,
//! control frames 2.

use lasthop::run::{self, Trace, Transmission};
use lasthop::scenario::Scenario;
use std::path::Path;
use std::sync::atomic::AtomicBool;

/// Milliseconds to the first packet: the source begins with an interval. Times below count from it.
const FIRST: u64 = 200;

/// Returns the trace of packets that arrive every 200 ms; the `lost`-th frame of the forward
/// direction (from 0) is lost.
fn trace(protocol: &str, header: u32, lost: usize, duration: &str) -> Trace {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
    // Tests run concurrently: each has a separate file.
    let file = format!("lost-{lost}-until-{}.txt", duration.replace(' ', "-"));
    std::fs::write(folder.join(&file), "0\n".repeat(lost) + "1\n").expect("a file");
    trace_of(protocol, header, &file, duration)
}

/// Returns a trace with the losses listed in `file`.
fn trace_of(protocol: &str, header: u32, file: &str, duration: &str) -> Trace {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let packet = 100 - header;
    let rate = packet * 40;
    let text = format!(
        "name = \"ladder\"\n[link.l]\nbetween = [\"a\", \"b\"]\nrate = \"8 kbps\"\ndelay = \"50 ms\"\n\
         protocol = {protocol}\nheader = \"{header} B\"\n\
         errors = {{ kind = \"trace\", file = \"{file}\", at_end = \"clean\" }}\n\
         reverse = {{ errors = {{ kind = \"none\" }} }}\n\
         [flow.f]\nfrom = \"a\"\nto = \"b\"\ntransport = {{ kind = \"udp\" }}\n\
         app = {{ kind = \"on-off\", rate = \"{rate} bps\", on = \"100 s\", off = \"0 s\", \
         packet = \"{packet} B\", replay = \"per-packet\" }}\n\
         [run]\nduration = \"{duration}\"\n"
    );
    let points = Scenario::from_toml(&text, folder).and_then(|document| document.points());
    let point = points.unwrap_or_else(|error| panic!("{error}\n{text}")).remove(0);
    run::trace(&point.scenario, 1, 0, &AtomicBool::new(false)).expect("a trace")
}

/// `forward data 1 again: 700-800, 850` in milliseconds; `lost` instead of the arrival.
fn line(sent: &Transmission) -> String {
    let ms = |nanos: u64| {
        assert_eq!(nanos % 1_000_000, 0, "whole milliseconds");
        nanos / 1_000_000 - FIRST
    };
    let again = if sent.is_repeated { " again" } else { "" };
    let arrival = sent.arrival_ns.map_or("lost".to_owned(), |at| ms(at).to_string());
    let side = sent.entity.strip_prefix("link.l.").expect("a direction of the link");
    let (start, end) = (ms(sent.start_ns), ms(sent.end_ns));
    format!("{side} {} {}{again}: {start}-{end}, {arrival}", sent.kind, sent.sequence)
}

fn lines(trace: &Trace) -> Vec<String> {
    trace.transmissions.iter().map(line).collect()
}

/// Returns times in milliseconds and numbers of the packets delivered in the forward direction.
fn delivered(trace: &Trace) -> Vec<(u64, f64)> {
    let own =
        |event: &&run::TraceEvent| event.event == "delivered" && event.entity == "link.l.forward";
    let pair = |event: &run::TraceEvent| (event.time_ns / 1_000_000 - FIRST, event.sequence);
    trace.events.iter().filter(own).map(pair).collect()
}

#[test]
fn selective_repeat_repairs_one_loss() {
    let protocol = "{ kind = \"selective-repeat\", timeout = \"1 s\" }";
    let trace = trace(protocol, 2, 1, "1190 ms");
    assert_eq!(
        lines(&trace),
        [
            "forward data 0: 0-100, 150",
            "reverse ack 1: 150-152, 202",
            "forward data 1: 200-300, lost",
            "forward data 2: 400-500, 550",
            "reverse nack 1: 550-552, 602",
            "forward data 3: 600-700, 750",
            // The NACK arrived during the transmission of frame 3.
            "forward data 1 again: 700-800, 850",
            "reverse ack 4: 850-852, 902",
            "forward data 4: 800-900, 950",
            "reverse ack 5: 950-952, 1002",
        ]
    );
    assert_eq!(delivered(&trace), [(150, 0.0), (850, 1.0), (850, 2.0), (850, 3.0), (950, 4.0)]);
    let acks = trace.transmissions.iter().map(|sent| sent.ack);
    let carried: Vec<_> = acks.map(|ack| ack.expect("each carries one")).collect();
    assert_eq!(carried, [0, 1, 0, 0, 1, 0, 0, 4, 0, 5]);
    assert!(trace.transmissions.iter().all(|sent| sent.count == 1));
    // Rows of the time series: data frames have their number, control frames have none.
    let sent = trace.events.iter().filter(|event| event.event.starts_with("frame_"));
    let rows: Vec<_> = sent.map(|event| (event.event, event.sequence, event.value)).collect();
    assert_eq!(rows.len(), 10);
    assert_eq!(rows[2], ("frame_lost", 1.0, 100.0));
    assert_eq!((rows[4].0, rows[4].2), ("frame_sent", 2.0));
    assert!(rows[4].1.is_nan());
}

#[test]
fn go_back_n_sends_all_again_and_passes_up_none_twice() {
    let protocol = "{ kind = \"go-back-n\", timeout = \"500 ms\" }";
    let trace = trace(protocol, 2, 1, "1490 ms");
    assert_eq!(
        lines(&trace),
        [
            "forward data 0: 0-100, 150",
            "reverse ack 1: 150-152, 202",
            "forward data 1: 200-300, lost",
            "forward data 2: 400-500, 550",
            "reverse ack 1: 550-552, 602",
            "forward data 3: 600-700, 750",
            // Timeout at 700 ms: frames 1 to 3 are retransmitted before frame 4.
            "reverse ack 1: 750-752, 802",
            "forward data 1 again: 700-800, 850",
            "reverse ack 2: 850-852, 902",
            "forward data 2 again: 800-900, 950",
            "reverse ack 3: 950-952, 1002",
            "forward data 3 again: 900-1000, 1050",
            "reverse ack 4: 1050-1052, 1102",
            "forward data 4: 1000-1100, 1150",
            "reverse ack 5: 1150-1152, 1202",
            "forward data 5: 1100-1200, 1250",
            "reverse ack 6: 1250-1252, 1302",
            "forward data 6: 1200-1300, 1350",
        ]
    );
    let expected = [150, 850, 950, 1050, 1150, 1250].into_iter().zip(0..);
    let expected: Vec<_> = expected.map(|(at, number)| (at, f64::from(number))).collect();
    assert_eq!(delivered(&trace), expected);
    let timeouts = trace.events.iter().filter(|event| event.event == "timed_out");
    let timeouts: Vec<_> = timeouts.map(|event| (event.time_ns, event.sequence)).collect();
    assert_eq!(timeouts, [((700 + FIRST) * 1_000_000, 1.0)]);
}

#[test]
fn a_radio_link_passes_up_in_sequence_or_at_once() {
    let sent = [
        "forward data 0: 0-100, 150",
        "forward data 1: 200-300, lost",
        "forward data 2: 400-500, 550",
        "reverse nack 1: 550-552, 602",
        "forward data 3: 600-700, 750",
        "forward data 1 again: 700-800, 850",
        "forward data 4: 800-900, 950",
    ];
    let [karn, oos] = [("karn-rlp", "1191 ms"), ("oos-rlp", "1192 ms")]
        .map(|(kind, duration)| trace(&format!("{{ kind = \"{kind}\" }}"), 1, 1, duration));
    assert_eq!(lines(&karn), sent);
    assert_eq!(lines(&oos), sent);
    assert!(karn.transmissions.iter().all(|sent| sent.ack.is_none()));
    assert_eq!(delivered(&karn), [(150, 0.0), (850, 1.0), (850, 2.0), (850, 3.0), (950, 4.0)]);
    assert_eq!(delivered(&oos), [(150, 0.0), (550, 2.0), (750, 3.0), (850, 1.0), (950, 4.0)]);
}

#[test]
fn a_timer_lets_go_what_waits_behind_a_frame_given_up() {
    // One retransmission, whose copy is lost as well: frame 1 is the second transmission, its copy
    // the fifth.
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
    std::fs::write(folder.join("given-up.txt"), "0\n1\n0\n0\n1\n").expect("a file");
    let protocol = "{ kind = \"karn-rlp\", retransmissions = 1, nack_timeout = \"400 ms\" }";
    let trace = trace_of(protocol, 1, "given-up.txt", "1390 ms");
    assert_eq!(lines(&trace)[5], "forward data 1 again: 700-800, lost");
    // The NACK was sent at 550 ms. Frame 4 arrived exactly at the deadline, in time for a copy.
    let expected = [(150, 0.0), (950, 2.0), (950, 3.0), (950, 4.0), (1150, 5.0)];
    assert_eq!(delivered(&trace), expected);
    let given_up = trace.events.iter().filter(|event| event.event == "abandoned");
    let given_up: Vec<_> = given_up.map(|event| (event.time_ns, event.sequence)).collect();
    assert_eq!(given_up, [((950 + FIRST) * 1_000_000 + 1, 1.0)]);
}

#[test]
fn a_packet_computed_from_parity_has_the_number_of_the_lost_frame() {
    let protocol = "{ kind = \"xor-fec\", block = 4, parity_timeout = \"1 s\" }";
    let trace = trace(protocol, 1, 1, "1090 ms");
    // Parity frames are three bytes longer than data frames.
    assert_eq!(lines(&trace)[4], "forward parity 0: 700-803, 853");
    assert_eq!(delivered(&trace), [(150, 0.0), (550, 2.0), (750, 3.0), (853, 1.0)]);
}

#[test]
fn a_packet_in_pieces_has_the_number_of_the_last_one() {
    // The second fragment is lost. Feedback has no transmission time, only the 50 ms propagation
    // delay.
    let protocol = "{ kind = \"ideal-sr\", payload = \"40 B\" }";
    let trace = trace(protocol, 0, 1, "590 ms");
    let data: Vec<_> =
        lines(&trace).into_iter().filter(|line| line.contains(" segment ")).collect();
    assert_eq!(
        data,
        [
            "forward segment 0: 0-40, 90",
            "forward segment 1: 40-80, lost",
            "forward segment 2: 80-100, 150",
            "forward segment 1 again: 180-220, 270",
            "forward segment 3: 220-260, 310",
            "forward segment 4: 260-300, 350",
            "forward segment 5: 300-320, 370",
        ]
    );
    assert_eq!(delivered(&trace), [(270, 2.0), (370, 5.0)]);
}

#[test]
fn what_goes_up_has_the_number_of_a_frame_that_has_come() {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
    // Single losses, pairs of losses and longer bursts.
    let lost = |frame: u32| [3, 10, 11, 30, 31, 32, 33].contains(&(frame % 41));
    let text: String = (0..400).map(|frame| if lost(frame) { "1\n" } else { "0\n" }).collect();
    std::fs::write(folder.join("many-lost.txt"), text).expect("a file");
    // Protocol, its header, whether it delivers in order.
    for (protocol, header, is_in_order) in [
        ("{ kind = \"go-back-n\" }", 2, true),
        ("{ kind = \"selective-repeat\" }", 2, true),
        ("{ kind = \"stop-and-wait\" }", 2, true),
        ("{ kind = \"karn-rlp\" }", 1, true),
        ("{ kind = \"oos-rlp\" }", 1, false),
        ("{ kind = \"xor-fec\", block = 3 }", 1, false),
        ("{ kind = \"ideal-sr\", payload = \"30 B\" }", 0, true),
        ("{ kind = \"rlc-am\", payload = \"30 B\" }", 2, true),
        ("{ kind = \"harq\" }", 8, true),
    ] {
        let trace = trace_of(protocol, header, "many-lost.txt", "20 s");
        let up: Vec<_> = trace
            .events
            .iter()
            .filter(|event| event.event == "delivered" && event.entity == "link.l.forward")
            .collect();
        assert!(up.len() > 20, "{protocol}: {} packets", up.len());
        let numbers: Vec<_> = up.iter().map(|event| event.sequence).collect();
        if is_in_order {
            assert!(numbers.is_sorted_by(|a, b| a < b), "{protocol}: {numbers:?}");
        }
        let recovered = trace.events.iter().filter(|event| event.event == "recovered");
        let recovered: Vec<_> = recovered.map(|event| event.sequence).collect();
        for event in up {
            let number = event.sequence;
            assert_eq!(numbers.iter().filter(|&&other| other == number).count(), 1, "{protocol}");
            let has_come = trace.transmissions.iter().any(|sent| {
                let is_it = matches!(sent.kind, "data" | "segment" | "block")
                    && sent.entity == event.entity
                    && sent.sequence as f64 == number;
                is_it && sent.arrival_ns.is_some_and(|at| at <= event.time_ns)
            });
            assert!(has_come || recovered.contains(&number), "{protocol}: {number}");
        }
    }
}

#[test]
fn packets_of_a_link_without_protocol_are_numbered_as_they_are_sent() {
    let trace = trace("{ kind = \"raw\" }", 0, 1, "990 ms");
    assert_eq!(
        lines(&trace),
        [
            "forward data 0: 0-100, 150",
            "forward data 1: 200-300, lost",
            "forward data 2: 400-500, 550",
            "forward data 3: 600-700, 750",
        ]
    );
    assert_eq!(delivered(&trace), [(150, 0.0), (550, 2.0), (750, 3.0)]);
}

#[test]
fn frames_without_link_protocol_tell_their_segment() {
    let text = "name = \"segments\"\n[link.l]\nbetween = [\"a\", \"b\"]\nrate = \"8 kbps\"\ndelay = \"50 ms\"\n\
         [flow.f]\nfrom = \"a\"\nto = \"b\"\ntransport = { kind = \"tcp\", variant = \"reno\", \
         profile = \"ns-2\", segment = \"100 B\", header = \"0 B\" }\n\
         app = { kind = \"file\", size = \"300 B\" }\n";
    let points = Scenario::from_toml(text, Path::new(".")).and_then(|document| document.points());
    let point = points.unwrap_or_else(|error| panic!("{error}\n{text}")).remove(0);
    let run = |scenario| run::trace(scenario, 1, 0, &AtomicBool::new(false)).expect("a trace");
    let segments: Vec<_> = run(&point.scenario)
        .transmissions
        .iter()
        .map(|sent| (sent.sequence, sent.segment.expect("a segment")))
        .map(|(number, it)| {
            assert_eq!((it.connection, it.numbers.instance), (0, 0));
            (number, it.numbers.sequence, it.numbers.ack)
        })
        .collect();
    // One-way connection: the SYN is byte 0, the opposite direction contains only ACKs.
    let known = [
        (0, Some(0), None),
        (0, None, Some(1)),
        (1, Some(1), None),
        (2, Some(101), None),
        (1, None, Some(101)),
        (3, Some(201), None),
        (2, None, Some(201)),
        (3, None, Some(301)),
    ];
    assert_eq!(segments.len(), known.len(), "{segments:?}");
    for row in known {
        assert!(segments.contains(&row), "{row:?} in {segments:?}");
    }
    // Frames of a link protocol have their own numbers.
    let framed = text
        .replace("delay = \"50 ms\"\n", "delay = \"50 ms\"\nprotocol = { kind = \"go-back-n\" }\n");
    let points =
        Scenario::from_toml(&framed, Path::new(".")).and_then(|document| document.points());
    let point = points.unwrap_or_else(|error| panic!("{error}\n{framed}")).remove(0);
    let trace = run(&point.scenario);
    assert!(!trace.transmissions.is_empty());
    assert!(trace.transmissions.iter().all(|sent| sent.segment.is_none()));
}
