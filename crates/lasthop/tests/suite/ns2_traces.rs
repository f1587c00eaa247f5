//! Event by event comparison with ns-2: selected loss patterns (`tools/ns2/reference/traces`), replayed.
//!
//! Each trace contains every packet that ns-2's sender sent, every ACK that it received and every expiry
//! of its timer, with six decimals. The simulator must produce the same events in the same order with the same
//! packet numbers, each within [`TOLERANCE_NS`] of ns-2's time.
//!
//! ns-2 measures RTTs with a clock of 10 ms ticks whose phase is random, once per agent (`boot_time_`). The phase is
//! equal in all 72 runs, because they share a seed. It is random here, too. The phase affects only the rounding of
//! samples to ticks, and so the expiries. Therefore one phase (that of [`REPLICATION`]) must reproduce all
//! traces completely. Every phase must reproduce them up to the first expiry, which may differ by whole
//! ticks only.

use lasthop::channel::LossRecord;
use lasthop::channel::TraceEnd;
use lasthop::channel::trace::{TraceKeys, TraceStart};
use lasthop::run;
use lasthop::scenario::{Errors, Scenario};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// Half of ns-2's last printed digit.
const TOLERANCE_NS: u64 = 500;

/// A replication whose clock, with seed 1, has a phase consistent with ns-2's (about 4 in 5 have).
const REPLICATION: u64 = 0;

/// ns-2's `tcpTick_`.
const TICK_NS: u64 = 10_000_000;

/// Bytes of a packet.
const SEGMENT: u64 = 252;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Send,
    Ack,
    Timeout,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Event {
    time_ns: u64,
    kind: Kind,
    /// Packet number: the SYN is packet 0.
    packet: u64,
}

struct Case {
    name: String,
    variant: String,
    packets: u64,
    seconds: u64,
    drop: Vec<usize>,
    drop_ack: Vec<usize>,
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tools/ns2/reference/traces")
}

fn read(path: PathBuf) -> String {
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn cases() -> Vec<Case> {
    let frames = |cell: &str| -> Vec<usize> {
        cell.split_whitespace().map(|frame| frame.parse().unwrap()).collect()
    };
    let text = read(folder().join("cases.csv"));
    let cases: Vec<_> = text
        .lines()
        .skip(1)
        .map(|line| {
            let cells: Vec<&str> = line.split(',').collect();
            assert_eq!(cells[2], "LAN");
            Case {
                name: cells[0].to_owned(),
                variant: cells[1].to_owned(),
                packets: cells[3].parse().unwrap(),
                seconds: cells[4].parse().unwrap(),
                drop: frames(cells[5]),
                drop_ack: frames(cells[6]),
            }
        })
        .collect();
    assert_eq!(cases.len(), 72, "18 patterns for 4 TCPs");
    cases
}

/// Returns the events of ns-2.
fn theirs(case: &Case) -> Vec<Event> {
    read(folder().join(format!("{}.csv", case.name)))
        .lines()
        .skip(1)
        .map(|line| {
            let cells: Vec<&str> = line.split(',').collect();
            let (seconds, micros) = cells[0].split_once('.').unwrap();
            assert_eq!(micros.len(), 6);
            let micros: u64 =
                seconds.parse::<u64>().unwrap() * 1_000_000 + micros.parse::<u64>().unwrap();
            let kind = match cells[1] {
                "send" => Kind::Send,
                "ack" => Kind::Ack,
                "rto" => Kind::Timeout,
                other => panic!("event {other}"),
            };
            Event { time_ns: micros * 1_000, kind, packet: cells[2].parse().unwrap() }
        })
        .collect()
}

/// The channel that loses the frames of `list`, counted from 1.
fn losses(list: &[usize]) -> Errors {
    let mut lost = vec![false; list.iter().max().copied().unwrap_or(0) + 1];
    for &frame in list {
        lost[frame - 1] = true;
    }
    let record = LossRecord::new(lost).unwrap();
    Errors::Trace(TraceKeys {
        file: PathBuf::new(),
        column: None,
        at_end: TraceEnd::Clean,
        start: TraceStart::Frame(0),
        readable_headers: None,
        record,
    })
}

/// Returns the events of the simulator.
fn ours(case: &Case, replication: u64) -> Vec<Event> {
    let text = format!(
        r#"
        name = "{}"
        [link.wired]
        between = ["server", "ap"]
        rate = "10 Mbps"
        delay = "1 ms"
        [link.wireless]
        between = ["ap", "client"]
        rate = "64 kbps"
        delay = "50 ms"
        [flow.f]
        from = "server"
        to = "client"
        transport = {{ kind = "tcp", variant = "{}", profile = "ns-2", segment = "{SEGMENT} B" }}
        app = {{ kind = "file", size = "{} B" }}
        # ns-2's runs end with the transfer too, or when the trace does.
        [run]
        max_time = "{} s"
        "#,
        case.name,
        case.variant,
        case.packets * SEGMENT,
        case.seconds,
    );
    let mut scenario = Scenario::from_toml(&text, Path::new("."))
        .and_then(|document| document.points())
        .unwrap_or_else(|error| panic!("{error}"))
        .remove(0)
        .scenario;
    let links = Arc::make_mut(&mut scenario.links);
    links[1].forward.errors = losses(&case.drop);
    links[1].reverse.errors = losses(&case.drop_ack);
    let trace = run::trace(&scenario, 1, replication, &AtomicBool::new(false)).unwrap();
    let packet = |byte: f64| {
        let byte = byte as u64;
        if byte == 0 {
            return 0;
        }
        assert_eq!((byte - 1) % SEGMENT, 0, "whole packets");
        1 + (byte - 1) / SEGMENT
    };
    let mut acked = 0;
    let mut events = Vec::new();
    for event in trace.events.iter().filter(|event| event.entity == "flow.f") {
        let (kind, packet) = match event.event {
            "segment_sent" => (Kind::Send, packet(event.sequence)),
            "ack_received" => {
                // ns-2's ACK contains the number of the last packet received, not of the next byte
                // expected.
                let next = packet(event.sequence);
                acked = acked.max(next);
                (Kind::Ack, next - 1)
            }
            "timeout" => (Kind::Timeout, acked),
            _ => continue,
        };
        events.push(Event { time_ns: event.time_ns, kind, packet });
    }
    events
}

/// Returns the length of the common prefix.
fn common(ours: &[Event], theirs: &[Event]) -> usize {
    let agree = |(ours, theirs): &(&Event, &Event)| {
        (ours.kind, ours.packet) == (theirs.kind, theirs.packet)
            && ours.time_ns.abs_diff(theirs.time_ns) <= TOLERANCE_NS
    };
    ours.iter().zip(theirs).take_while(agree).count()
}

/// Returns the first difference, with the preceding events.
fn difference(ours: &[Event], theirs: &[Event]) -> Option<String> {
    let common = common(ours, theirs);
    if common == ours.len() && common == theirs.len() {
        return None;
    }
    let mut text =
        format!("{} events, ns-2 {}; the first {common} agree", ours.len(), theirs.len());
    let show = |event: Option<&Event>| match event {
        Some(Event { time_ns, kind, packet }) => {
            format!("{:>10.6} {kind:?} {packet}", *time_ns as f64 / 1e9)
        }
        None => "-".to_owned(),
    };
    for index in common.saturating_sub(4)..common + 6 {
        let _ = write!(text, "\n{:<30} {:<30}", show(ours.get(index)), show(theirs.get(index)));
    }
    Some(text)
}

#[test]
fn one_clock_phase_reproduces_every_event() {
    let mut failures = Vec::new();
    for case in cases() {
        if let Some(text) = difference(&ours(&case, REPLICATION), &theirs(&case)) {
            failures.push(format!("{}: {text}", case.name));
        }
    }
    assert!(failures.is_empty(), "{} of 72 differ\n{}", failures.len(), failures.join("\n"));
}

mod slow {
    use super::*;

    #[test]
    fn the_clock_phase_moves_expiries_by_whole_ticks_and_nothing_else() {
        let mut moved = 0;
        for case in cases() {
            let theirs = theirs(&case);
            for replication in 0..24 {
                let ours = ours(&case, replication);
                let at = common(&ours, &theirs);
                if at == ours.len() && at == theirs.len() {
                    continue;
                }
                moved += 1;
                // Events before the expiry agree, and so do ACKs between the two expiries: the next
                // expected event is an expiry on at least one side.
                let first = |events: &[Event]| {
                    events[at..].iter().find(|event| event.kind == Kind::Timeout).copied()
                };
                let (Some(ours), Some(theirs)) = (first(&ours), first(&theirs)) else {
                    panic!("{} {replication}: differs without an expiry", case.name)
                };
                let by = ours.time_ns.abs_diff(theirs.time_ns);
                let off = (by + TICK_NS / 2) % TICK_NS;
                assert!(
                    ours.packet == theirs.packet && off.abs_diff(TICK_NS / 2) <= TOLERANCE_NS,
                    "{} {replication}: {ours:?}, ns-2 {theirs:?}",
                    case.name
                );
            }
        }
        assert!(moved > 0, "24 phases cannot all be ns-2's");
    }
}
