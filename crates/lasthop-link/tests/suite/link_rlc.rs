//! RLC acknowledged mode: ladder diagrams computed by hand. Resets are in `link_rlc_resets.rs`,
//! closed forms in `link_rlc_rates.rs`.
//!
//! The link: 200 kbps, 20 ms. All frames are PDUs of 250 B with 248 B of data, and take 10 ms.
//! RTT_L is 60 ms, and the timers are 100 ms. Each table lists all frames: start in ms, sending
//! end, contents.

use crate::common::*;
use lasthop_base::units::{Bytes, Duration, Instant, Rate};
use lasthop_link::link::{Abilities, Endpoint, Frame, FrameKind, LinkEvent, Rlc, RlcParameters};

pub const MS: u64 = 1_000_000;
pub const RATE: Rate = Rate::from_bps(200_000);

pub fn millis(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

/// Without optional polls.
pub fn set() -> RlcParameters {
    let [poll_timeout, skip_timeout, reset_timeout] = [millis(100); 3];
    let auto = rlc(248, RATE, millis(20));
    RlcParameters { poll_sdu: None, poll_timeout, skip_timeout, reset_timeout, ..auto }
}

fn what(kind: FrameKind, ack: Option<u64>) -> String {
    match kind {
        FrameKind::Segment { sequence, is_last, poll } => {
            let end = if is_last { " end" } else { "" };
            format!("segment {sequence}{end}{}", if poll { " poll" } else { "" })
        }
        FrameKind::Status { first, missing } => {
            let bits = u128::from(missing[1]) << 64 | u128::from(missing[0]);
            let missing = (0..128).filter(|bit| bits >> bit & 1 != 0);
            let numbers: Vec<_> = missing.map(|bit| format!(" {}", first + bit)).collect();
            let ack = ack.map_or("more".to_owned(), |ack| ack.to_string());
            match numbers.as_slice() {
                [] => format!("status {ack}"),
                numbers => format!("status {ack} without{}", numbers.concat()),
            }
        }
        FrameKind::Skip { next } => format!("skip {next}"),
        FrameKind::SkipAck { next } => format!("skip-ack {next}"),
        FrameKind::Reset { index } => format!("reset {index}"),
        FrameKind::ResetAck { index } => format!("reset-ack {index}"),
        other => panic!("acknowledged mode does not send {other:?}"),
    }
}

/// Runs a link and returns its frames as text. Packets from end A are given as (time in ms, length
/// in bytes).
pub fn ladder(
    set: RlcParameters,
    packets: &[(u64, u32)],
    fates: [Fate; 2],
) -> (Link<Token>, Vec<String>) {
    let mut link = link(set, packets, fates);
    link.run(Instant::NEVER);
    let lines = lines(&link);
    (link, lines)
}

/// A link with a log, before the run.
fn link(set: RlcParameters, packets: &[(u64, u32)], fates: [Fate; 2]) -> Link<Token> {
    let token = |(number, &(ms, bytes)): (usize, &(u64, u32))| {
        (Instant::from_nanos(ms * MS), Token { number: number as u64, bytes })
    };
    let offers = [packets.iter().enumerate().map(token).collect(), tokens(0, 1)];
    let mut link = Link::new(Protocol::Rlc(set).ends(), (RATE, millis(20)), offers, fates);
    link.log = Some(Vec::new());
    link.strict = set.window <= 16;
    link
}

/// The log as text.
fn lines(link: &Link<Token>) -> Vec<String> {
    let log = link.log.as_ref().expect("a log");
    let lines = log.iter().map(|&(start, side, kind, ack)| {
        assert_eq!(start.as_nanos() % MS, 0);
        format!("{} {} {}", start.as_nanos() / MS, ["A", "B"][side], what(kind, ack))
    });
    lines.collect()
}

pub fn numbers(link: &Link<Token>) -> Vec<u64> {
    link.delivered[1].iter().map(|token| token.number).collect()
}

#[test]
fn a_packet_is_cut_up_and_put_together() {
    let (link, lines) = ladder(set(), &[(0, 600)], [clean(), clean()]);
    assert_eq!(
        lines,
        ["0 A segment 0", "10 A segment 1", "20 A segment 2 end poll", "50 B status 3"]
    );
    assert_eq!(link.delivered[1], [Token { number: 0, bytes: 600 }]);
    assert_eq!(link.delivered_at[1], [Instant::from_nanos(50 * MS)]);
    let counters = link.ends[0].counters();
    assert_eq!((counters.data_frames, counters.polls, counters.packets), (3, 1, 1));
    assert_eq!(link.ends[1].counters().statuses, 1);
}

#[test]
fn a_single_loss_is_repaired_by_the_report_of_the_gap() {
    let (link, lines) = ladder(set(), &[(0, 248); 4], [losing(&[1]), clean()]);
    assert_eq!(
        lines,
        [
            "0 A segment 0 end",
            "10 A segment 1 end", // lost
            "20 A segment 2 end",
            "30 A segment 3 end poll",
            "50 B status 3 without 1", // 2 has arrived
            "60 B status 4 without 1", // the answer to the poll
            "80 A segment 1 end poll", // the second report does not cover this copy
            "110 B status 4",
        ]
    );
    assert_eq!(link.events[0], [LinkEvent::Retransmitted { sequence: 1 }]);
    assert_eq!(link.events[1], [LinkEvent::NackSent { sequence: 1 }; 2]);
    assert_eq!(link.delivered_at[1][1..], [Instant::from_nanos(110 * MS); 3]);
}

#[test]
fn a_gap_is_reported_when_it_is_first_seen() {
    let (_, lines) = ladder(set(), &[(0, 248); 5], [losing(&[1]), clean()]);
    let reports: Vec<_> = lines.iter().filter(|line| line.contains('B')).collect();
    // 3 arrives at 60 ms in sequence after 2; 4 contains the poll.
    assert_eq!(reports, ["50 B status 3 without 1", "70 B status 5 without 1", "110 B status 5"]);
}

#[test]
fn without_reports_of_gaps_polls_do_it() {
    let set = RlcParameters { status_on_gap: false, ..set() };
    let (_, lines) = ladder(set, &[(0, 248); 4], [losing(&[1]), clean()]);
    assert_eq!(
        lines[4..],
        ["60 B status 4 without 1", "90 A segment 1 end poll", "120 B status 4"]
    );
}

#[test]
fn a_lost_tail_is_repaired_by_the_poll_timer() {
    let (link, lines) = ladder(set(), &[(0, 248); 2], [losing(&[1]), clean()]);
    assert_eq!(
        lines,
        [
            "0 A segment 0 end",
            "10 A segment 1 end poll", // lost
            "110 A segment 1 end poll",
            "140 B status 2",
        ]
    );
    assert_eq!(link.events[0][0], LinkEvent::TimedOut { sequence: 1 });
}

#[test]
fn an_unanswered_poll_is_repeated_with_what_goes_out() {
    let set = RlcParameters { poll_sdu: Some(1), ..set() };
    let (link, lines) = ladder(set, &[(0, 248), (0, 14 * 248)], [clean(), losing(&[0])]);
    let polls: Vec<_> = lines.iter().filter(|line| line.ends_with("poll")).collect();
    assert_eq!(
        polls,
        ["0 A segment 0 end poll", "100 A segment 10 poll", "140 A segment 14 end poll"]
    );
    assert_eq!(link.ends[0].counters().timeouts, 1);
}

#[test]
fn a_lost_report_is_repaired_by_the_poll_timer() {
    let (link, lines) = ladder(set(), &[(0, 248); 2], [clean(), losing(&[0])]);
    assert_eq!(
        lines,
        [
            "0 A segment 0 end",
            "10 A segment 1 end poll",
            "40 B status 2", // lost
            "110 A segment 1 end poll",
            "140 B status 2",
        ]
    );
    assert_eq!(link.ends[1].counters().duplicates, 1);
    assert_eq!(numbers(&link), [0, 1]);
}

#[test]
fn a_report_that_misses_the_poll_stops_the_poll_timer() {
    // 5 carries the poll at 50 ms and is lost, like all segments before it. The gap before 6 is
    // reported at 120 ms and 5 is retransmitted last. At 150 ms there is no spurious poll.
    let set = RlcParameters { poll_sdu: Some(1), ..set() };
    let packets = [(0, 6 * 248), (0, 14 * 248)];
    let (link, lines) = ladder(set, &packets, [losing(&[0, 1, 2, 3, 4, 5]), clean()]);
    assert_eq!(lines[5], "50 A segment 5 end poll");
    let again: Vec<_> =
        lines.iter().filter(|line| line.starts_with("1") && line.contains(" A ")).collect();
    assert_eq!(
        again,
        [
            "10 A segment 1",
            "100 A segment 10",
            "110 A segment 11",
            "120 A segment 0",
            "130 A segment 1",
            "140 A segment 2",
            "150 A segment 3",
            "160 A segment 4",
            "170 A segment 5 end poll",
            "180 A segment 12",
            "190 A segment 13",
        ]
    );
    assert_eq!(link.ends[0].counters().timeouts, 0);
}

#[test]
fn a_prohibited_report_is_held_and_sent_once() {
    let set = RlcParameters { poll_sdu: Some(1), status_prohibit: Some(millis(50)), ..set() };
    let (_, lines) = ladder(set, &[(0, 248); 4], [clean(), clean()]);
    assert_eq!(
        lines,
        [
            "0 A segment 0 end poll",
            "10 A segment 1 end poll",
            "20 A segment 2 end poll",
            "30 A segment 3 end poll",
            "30 B status 1",
            "80 B status 4", // for the polls received at 40, 50 and 60
        ]
    );
}

#[test]
fn a_prohibited_poll_is_sent_later() {
    let set = RlcParameters { poll_sdu: Some(1), poll_prohibit: Some(millis(100)), ..set() };
    let (_, lines) = ladder(set, &[(0, 248); 2], [clean(), clean()]);
    assert_eq!(
        lines,
        [
            "0 A segment 0 end poll",
            "10 A segment 1 end",
            "30 B status 1",
            "100 A segment 1 end poll", // no other PDU could carry it
            "130 B status 2",
        ]
    );
}

#[test]
fn a_prohibited_poll_that_a_report_forestalls_is_forgotten() {
    // The report at 55 ms is periodic; the report for the poll in 0 did not cover 1.
    let [poll_prohibit, status_periodic] = [200, 25].map(|ms| Some(millis(ms)));
    let set = RlcParameters { poll_sdu: Some(1), poll_prohibit, status_periodic, ..set() };
    let packets = [(0, 248), (0, 248), (300, 496)];
    let sent = |set| {
        let (link, lines) = ladder(set, &packets, [clean(), clean()]);
        assert_eq!(link.ends[0].counters().packets_abandoned, 0);
        lines.into_iter().filter(|line| line.contains('A')).collect::<Vec<_>>()
    };
    let expected = [
        "0 A segment 0 end poll",
        "10 A segment 1 end",
        "300 A segment 2",
        "310 A segment 3 end poll",
    ];
    assert_eq!(sent(set), expected);
    // If 1 must not be retransmitted, it could only be abandoned; a report for it may still arrive.
    let poll_prohibit = Some(millis(50));
    assert_eq!(sent(RlcParameters { max_transmissions: Some(1), poll_prohibit, ..set }), expected);
}

#[test]
fn periodic_timers_ask_and_tell() {
    let poll = RlcParameters { poll_periodic: Some(millis(15)), ..set() };
    let (_, lines) = ladder(poll, &[(0, 248); 3], [clean(), clean()]);
    let polls: Vec<_> = lines.iter().filter(|line| line.ends_with("poll")).collect();
    // One poll is due at 15 ms, another one at 30 ms. At 45 ms, 60 ms and so on, data is
    // unacknowledged.
    assert_eq!(polls[..2], ["20 A segment 2 end poll", "30 A segment 2 end poll"]);
    let status = RlcParameters { status_periodic: Some(millis(25)), ..set() };
    let (_, lines) = ladder(status, &[(0, 248); 3], [clean(), clean()]);
    let reports: Vec<_> = lines.iter().filter(|line| line.contains('B')).collect();
    // The period begins with the first segment at 30 ms; it ends after a period without segments.
    assert_eq!(reports, ["50 B status 3", "60 B status 3"]);
}

#[test]
fn periodic_reports_go_on_while_something_is_missing() {
    let set = RlcParameters {
        status_periodic: Some(millis(25)),
        status_on_gap: false,
        poll_timeout: millis(1000),
        ..set()
    };
    let (_, lines) = ladder(set, &[(0, 248); 3], [losing(&[1]), losing(&[0, 1])]);
    assert_eq!(
        lines[3..],
        [
            "50 B status 3 without 1",  // the answer to the poll, lost
            "60 B status 3 without 1",  // due at 55, lost
            "80 B status 3 without 1",  // nothing received since
            "105 B status 3 without 1", // does not cover the copy
            "110 A segment 1 end poll",
            "130 B status 3 without 1",
            "140 B status 3",
            "155 B status 3",
        ]
    );
}

#[test]
fn the_window_stalls_and_asks_for_a_report() {
    let set = RlcParameters { window: 2, ..set() };
    let (_, lines) = ladder(set, &[(0, 248); 4], [clean(), clean()]);
    assert_eq!(
        lines,
        [
            "0 A segment 0 end",
            "10 A segment 1 end poll",
            "40 B status 2",
            "70 A segment 2 end",
            "80 A segment 3 end poll",
            "110 B status 4",
        ]
    );
}

#[test]
fn polls_come_with_segments_packets_and_a_used_window() {
    let polls = |set, packets: &[(u64, u32)]| {
        let (_, lines) = ladder(set, packets, [clean(), clean()]);
        let polls = lines.iter().filter(|line| line.ends_with("poll"));
        polls.filter_map(|line| line.split(' ').nth(3)?.parse().ok()).collect::<Vec<u64>>()
    };
    let packets = [(0, 496); 4];
    assert_eq!(polls(set(), &packets), [7]);
    assert_eq!(polls(RlcParameters { poll_sdu: Some(1), ..set() }, &packets), [1, 3, 5, 7]);
    assert_eq!(polls(RlcParameters { poll_sdu: Some(3), ..set() }, &packets), [5, 7]);
    assert_eq!(polls(RlcParameters { poll_sdu: Some(3), ..set() }, &[(0, 496); 5]), [5, 9]);
    assert_eq!(polls(RlcParameters { poll_pdu: Some(3), ..set() }, &packets), [2, 5, 7]);
    let window = RlcParameters { poll_window: Some(60), window: 10, ..set() };
    assert_eq!(polls(window, &packets), [5, 6, 7]);
}

#[test]
fn a_packet_at_its_limit_is_skipped() {
    let set = RlcParameters { max_transmissions: Some(1), ..set() };
    let (link, lines) = ladder(set, &[(0, 248); 3], [losing(&[0]), losing(&[2])]);
    assert_eq!(
        lines,
        [
            "0 A segment 0 end", // lost
            "10 A segment 1 end",
            "20 A segment 2 end poll",
            "40 B status 2 without 0",
            "50 B status 3 without 0",
            "70 A skip 1",
            "100 B skip-ack 1", // lost
            "170 A skip 1",
            "200 B skip-ack 1",
        ]
    );
    assert_eq!(numbers(&link), [1, 2]);
    assert_eq!(link.delivered_at[1], [Instant::from_nanos(100 * MS); 2]);
    let [sender, receiver] = link.ends.each_ref().map(|end| end.counters());
    assert_eq!((sender.packets, sender.packets_abandoned, sender.abandoned), (3, 1, 1));
    assert_eq!(receiver.skipped, 1);
    assert!(link.events[0].contains(&LinkEvent::Abandoned { sequence: 0 }));
}

#[test]
fn a_packet_is_given_up_alone() {
    // 1 and 0 are lost. The retransmission of 0, its last one, is lost as well. A retransmission of
    // 1 is in transit, so that it waits.
    let set = RlcParameters { max_transmissions: Some(2), ..set() };
    let (link, lines) = ladder(set, &[(0, 248); 3], [losing(&[0, 1, 3]), clean()]);
    assert_eq!(
        lines,
        [
            "0 A segment 0 end",  // lost
            "10 A segment 1 end", // lost
            "20 A segment 2 end poll",
            "50 B status 3 without 0 1",
            "80 A segment 0 end", // lost
            "90 A segment 1 end poll",
            "120 B status 3 without 0",
            "150 A skip 1",
            "180 B skip-ack 1",
        ]
    );
    assert_eq!(numbers(&link), [1, 2]);
}

#[test]
fn an_old_packet_is_given_up_with_what_was_not_sent() {
    let set = RlcParameters { window: 1, discard_after: Some(millis(100)), ..set() };
    let (link, lines) = ladder(set, &[(0, 600), (300, 100)], [losing(&[0]), clean()]);
    assert_eq!(
        lines,
        [
            "0 A segment 0 poll", // lost
            "100 A skip 2",       // 1 is never sent: see below
            "130 B skip-ack 2",
            "300 A segment 2 end poll",
            "330 B status 3",
        ]
    );
    assert_eq!(numbers(&link), [1]);
    // If 0 has arrived, the next packet must not be taken for its rest: number 1 is in between.
    let (link, lines) = ladder(set, &[(0, 600), (300, 100)], [clean(), losing(&[0])]);
    assert_eq!(
        lines[2..],
        ["100 A skip 2", "130 B skip-ack 2", "300 A segment 2 end poll", "330 B status 3"]
    );
    assert_eq!(link.delivered[1], [Token { number: 1, bytes: 100 }]);
    assert_eq!(link.ends[0].counters().packets_abandoned, 1);
}

#[test]
fn an_old_packet_that_has_arrived_is_not_given_up() {
    let set = RlcParameters { discard_after: Some(millis(100)), ..set() };
    let (link, lines) = ladder(set, &[(0, 248); 2], [losing(&[0, 2]), clean()]);
    assert_eq!(
        lines,
        [
            "0 A segment 0 end", // lost
            "10 A segment 1 end poll",
            "40 B status 2 without 0",
            "70 A segment 0 end poll", // lost
            "100 A skip 1",
            "130 B skip-ack 1",
        ]
    );
    assert_eq!(numbers(&link), [1]);
    let counters = link.ends[0].counters();
    assert_eq!((counters.packets, counters.packets_abandoned), (2, 1));
}

#[test]
fn a_long_report_takes_several_frames() {
    // Every third of 400 PDUs is lost. One report is requested, and reports of gaps are disabled.
    let set = RlcParameters { status_on_gap: false, poll_timeout: millis(10_000), ..set() };
    let fates: [Fate; 2] =
        [Box::new(|index| (index < 399 && index % 3 == 0, Duration::ZERO)), clean()];
    let (link, lines) = ladder(set, &[(0, 248 * 400)], fates);
    let reports: Vec<_> = lines.iter().filter(|line| line.contains("status")).collect();
    let ends: Vec<_> = reports.iter().filter_map(|line| line.split(' ').nth(3)).collect();
    assert_eq!(ends, ["400", "more", "more", "more", "400"]);
    let counters = link.ends[0].counters();
    assert_eq!((counters.data_frames, counters.retransmissions), (400, 133));
    // The frames cover 0 to 127, 129 to 256, 258 to 385 and the last 128 numbers, 272 to 399. Of
    // these, 273, 276, … 384 are reported for the second time.
    assert_eq!(link.ends[1].counters().nacks, 133 + 38);
}

#[test]
fn what_would_have_asked_is_given_up_before_it_does() {
    // Lost: 0 and 130, the report of the first gap, and that frame of the next report that contains
    // 0. The other frame ends packet 1, whose last PDU was to carry the only poll.
    let set = RlcParameters { max_transmissions: Some(1), ..set() };
    let packets = [(0, 248), (0, 200 * 248)];
    let (link, lines) = ladder(set, &packets, [losing(&[0, 130]), losing(&[0, 1])]);
    assert!(!lines.iter().any(|line| line.ends_with("poll")));
    assert_eq!(
        lines[lines.len() - 6..],
        [
            "1350 A segment 135",
            "1350 B status more without 130", // ends packet 1
            "1360 A segment 136",
            "1370 A segment 137",
            "1380 A skip 139", // no report of 0, which must not be retransmitted
            "1410 B skip-ack 139",
        ]
    );
    assert_eq!(link.ends[0].counters().packets_abandoned, 2);
}

#[test]
fn a_changed_limit_holds_from_the_next_report() {
    let end = |set| Rlc::<Token>::new(set).expect("valid parameters");
    let at = |ms| Instant::from_nanos(ms * MS);
    let mut sender = end(set());
    sender.enqueue(at(0), Token { number: 0, bytes: 10 });
    let report = |ack| Frame {
        kind: FrameKind::Status { first: 0, missing: [1, 0] },
        ack: Some(ack),
        payload: None,
        bytes: 250,
        service: 0,
    };
    assert!(sender.poll_transmit(at(0)).is_some());
    sender.receive(at(60), report(1));
    sender.limit_transmissions(Some(1));
    sender.receive(at(60), report(1));
    assert!(sender.poll_transmit(at(60)).is_some(), "a queued copy is sent");
    sender.receive(at(120), report(1));
    let skip = sender.poll_transmit(at(120)).expect("a frame");
    assert_eq!(skip.kind, FrameKind::Skip { next: 1 });
    assert_eq!(sender.counters().packets_abandoned, 1);
}

#[test]
fn a_limit_that_nothing_has_reached_changes_nothing() {
    // As in `a_prohibited_poll_is_sent_later`, with a new limit while the poll is prohibited.
    let set = RlcParameters { poll_sdu: Some(1), poll_prohibit: Some(millis(100)), ..set() };
    let mut link = link(set, &[(0, 248); 2], [clean(), clean()]);
    link.run(Instant::from_nanos(70 * MS));
    link.ends[0].limit_transmissions(Some(3));
    link.run(Instant::NEVER);
    assert_eq!(lines(&link)[3..], ["100 A segment 1 end poll", "130 B status 2"]);
    assert_eq!(link.ends[0].counters().timeouts, 0);
    // There is nothing to wait for either if a PDU that has not been sent will carry the poll.
    let mut sender = Rlc::<Token>::new(set).expect("valid parameters");
    let at = |ms| Instant::from_nanos(ms * MS);
    sender.enqueue(at(0), Token { number: 0, bytes: 10 });
    assert!(sender.poll_transmit(at(0)).is_some());
    sender.handle_timeout(at(100));
    sender.enqueue(at(100), Token { number: 1, bytes: 10 });
    sender.limit_transmissions(Some(1));
    assert_eq!(sender.next_timeout(), Instant::NEVER);
}

#[test]
fn bad_parameters_are_refused() {
    let error = |set| Rlc::<Token>::new(set).expect_err("refused").to_string();
    let payload = |bytes| RlcParameters { payload: Bytes::new(bytes), ..set() };
    assert!(error(payload(19)).contains("invalid payload of 19 B; expected 20 B to 4000 B"));
    assert!(error(payload(1 << 40)).contains("expected 20 B to 4000 B"));
    assert!(error(RlcParameters { window: 0, ..set() }).contains("1 to 2047"));
    assert!(error(RlcParameters { window: 2048, ..set() }).contains("1 to 2047"));
    assert!(error(RlcParameters { max_transmissions: Some(0), ..set() }).contains("limit of 0"));
    assert!(error(RlcParameters { max_skips: 0, ..set() }).contains("limit of 0"));
    assert!(error(RlcParameters { poll_timeout: Duration::ZERO, ..set() }).contains("0 s"));
    let zero = RlcParameters { status_prohibit: Some(Duration::ZERO), ..set() };
    assert!(error(zero).contains("invalid timeout of 0 s"));
    assert!(error(RlcParameters { header: Bytes::new(1 << 20), ..set() }).contains("65535 B"));
}
