//! Resets of RLC acknowledged mode: on the link of `link_rlc.rs`, and of a single end.

use crate::common::*;
use crate::link_rlc::{MS, ladder, millis, numbers, set};
use lasthop_base::units::Instant;
use lasthop_link::link::{AtLimit, Endpoint, Frame, FrameKind, Rlc, RlcParameters};

/// A control frame.
fn control(kind: FrameKind, ack: Option<u64>) -> Frame<Token> {
    Frame { kind, ack, payload: None, bytes: 250, service: 0 }
}

/// Sends the next frame of an end and returns its kind.
fn sent(end: &mut Rlc<Token>, ms: u64) -> Option<FrameKind> {
    end.poll_transmit(Instant::from_nanos(ms * MS)).map(|frame| frame.kind)
}

/// An end that resets instead of discarding single packets, with `packets` packets of one PDU.
fn resetting(packets: u64, more: RlcParameters) -> Rlc<Token> {
    let set = RlcParameters { max_transmissions: Some(1), at_limit: AtLimit::Reset, ..more };
    let mut end = Rlc::new(set).expect("valid parameters");
    (0..packets).for_each(|number| end.enqueue(Instant::ZERO, Token { number, bytes: 10 }));
    end
}

/// Reports PDU 0, sent at `ms` - 60, as missing.
fn nack(end: &mut Rlc<Token>, ms: u64) {
    let missing = FrameKind::Status { first: 0, missing: [1, 0] };
    end.receive(Instant::from_nanos(ms * MS), control(missing, Some(1)));
}

#[test]
fn a_reset_is_done_once() {
    let at = |ms| Instant::from_nanos(ms * MS);
    let mut end = resetting(0, RlcParameters { ..set() });
    let reset = FrameKind::Reset { index: 0 };
    end.receive(at(0), control(reset, None));
    assert_eq!(sent(&mut end, 0), Some(FrameKind::ResetAck { index: 0 }));
    end.enqueue(at(0), Token { number: 0, bytes: 10 });
    let segment = FrameKind::Segment { sequence: 0, is_last: true, poll: true };
    assert_eq!(sent(&mut end, 10), Some(segment));
    // The RESET ACK was lost; segments sent since are not discarded.
    end.receive(at(20), control(reset, None));
    assert_eq!(sent(&mut end, 20), Some(FrameKind::ResetAck { index: 0 }));
    assert_eq!(sent(&mut end, 110), None);
    end.handle_timeout(at(110));
    assert_eq!(end.counters().timeouts, 1);
}

#[test]
fn an_answer_to_an_old_reset_is_none_to_this_one() {
    let at = |ms| Instant::from_nanos(ms * MS);
    let mut end = resetting(1, set());
    for index in 0..2 {
        let start = 100 * index;
        assert!(matches!(sent(&mut end, start), Some(FrameKind::Segment { sequence: 0, .. })));
        nack(&mut end, start + 60);
        assert_eq!(sent(&mut end, start + 60), Some(FrameKind::Reset { index }));
        if index > 0 {
            end.receive(at(start + 70), control(FrameKind::ResetAck { index: index - 1 }, None));
            assert!(!end.wants_packet(), "still waiting");
        }
        end.receive(at(start + 80), control(FrameKind::ResetAck { index }, None));
        assert!(end.wants_packet());
        end.enqueue(at(start + 80), Token { number: 1, bytes: 10 });
    }
}

#[test]
fn after_a_reset_packets_not_yet_sent_have_their_time_and_counts_begin_anew() {
    let at = |ms| Instant::from_nanos(ms * MS);
    let set = RlcParameters { poll_sdu: Some(2), discard_after: Some(millis(150)), ..set() };
    let mut end = resetting(2, set);
    assert!(sent(&mut end, 0).is_some());
    nack(&mut end, 60);
    assert_eq!(sent(&mut end, 60), Some(FrameKind::Reset { index: 0 }));
    end.receive(at(80), control(FrameKind::ResetAck { index: 0 }, None));
    assert_eq!(end.next_timeout(), at(150), "Timer_Discard of packet 1");
    // It is the first packet since the reset, and not the last one: no poll.
    end.enqueue(at(80), Token { number: 2, bytes: 10 });
    let segment = |sequence, poll| Some(FrameKind::Segment { sequence, is_last: true, poll });
    assert_eq!(sent(&mut end, 80), segment(0, false));
    assert_eq!(sent(&mut end, 90), segment(1, true));
}

#[test]
fn a_reset_forgets_what_is_in_flight() {
    let set = RlcParameters { max_transmissions: Some(1), at_limit: AtLimit::Reset, ..set() };
    let packets = [(0, 248), (0, 248), (0, 248), (400, 248)];
    let (link, lines) = ladder(set, &packets, [losing(&[0]), losing(&[2])]);
    assert_eq!(
        lines,
        [
            "0 A segment 0 end", // lost
            "10 A segment 1 end",
            "20 A segment 2 end poll",
            "40 B status 2 without 0",
            "50 B status 3 without 0",
            "70 A reset 0",
            "100 B reset-ack 0", // lost
            "170 A reset 0",
            "200 B reset-ack 0",
            "400 A segment 0 end poll",
            "430 B status 1",
        ]
    );
    assert_eq!(numbers(&link), [3]);
    let counters = link.ends[0].counters();
    // PDU 1 was known to have arrived.
    assert_eq!((counters.packets, counters.packets_abandoned, counters.abandoned), (4, 3, 2));
}

#[test]
fn skips_in_vain_end_in_a_reset() {
    let set = RlcParameters { max_transmissions: Some(1), max_skips: 2, ..set() };
    let (_, lines) = ladder(set, &[(0, 248); 2], [losing(&[0, 2, 3]), clean()]);
    assert_eq!(lines[3..], ["70 A skip 1", "170 A skip 1", "270 A reset 0", "300 B reset-ack 0"]);
}
