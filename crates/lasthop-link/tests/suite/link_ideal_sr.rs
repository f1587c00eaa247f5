//! Ideal selective repeat: a table computed by hand, and properties with arbitrary losses, delays
//! and changes of the retry limit.

use crate::common::*;
use lasthop_base::units::{Bytes, Duration, Instant, Rate};
use lasthop_link::link::{
    Abilities, Driven, Endpoint, Frame, FrameKind, IdealFeedback, IdealSr, IdealSrParameters,
    LinkEndpoint, LinkError, LinkEvent,
};
use proptest::prelude::*;

const AIR: (Rate, Duration) = (Rate::from_bps(200_000), Duration::from_millis(20));
const END: Instant = Instant::from_nanos(3_600_000_000_000);

/// A link with ideal selective repeat and packets in both directions.
fn link(
    parameters: IdealSrParameters,
    gaps: &[Vec<u64>; 2],
    patterns: &[Pattern; 2],
) -> Link<Token> {
    let offers = gaps.each_ref().map(|gaps| offers(gaps));
    let fates = patterns.each_ref().map(fate);
    Link::new(Protocol::IdealSr(parameters).ends(), AIR, offers, fates)
}

fn pattern() -> impl Strategy<Value = Pattern> {
    (0.0..1.0f64, 0u64..80).prop_flat_map(|(loss, jitter)| {
        prop::collection::vec((prop::bool::weighted(loss), 0..=jitter), 0..120)
    })
}

fn gaps() -> impl Strategy<Value = Vec<u64>> {
    prop::collection::vec(prop_oneof![3 => Just(0u64), 1 => 0u64..300], 0..30)
}

/// Checks the packets from each side: delivered in order, complete and without duplicates, or else
/// abandoned.
fn hold(link: &Link<Token>, gaps: &[Vec<u64>; 2], is_limited: bool) -> Result<(), TestCaseError> {
    for (side, gaps) in gaps.iter().enumerate() {
        let sent: Vec<Token> = offers(gaps).into_iter().map(|(_, token)| token).collect();
        let up = &link.delivered[1 - side];
        prop_assert!(up.is_sorted_by(|a, b| a.number < b.number), "{up:?}");
        prop_assert!(up.iter().all(|token| sent[token.number as usize] == *token), "{up:?}");
        let counters = link.ends[side].counters();
        let missing = (sent.len() - up.len()) as u64;
        prop_assert_eq!(counters.packets, sent.len() as u64);
        prop_assert_eq!((counters.packets_abandoned, counters.abandoned), (missing, missing));
        prop_assert!(is_limited || missing == 0);
        let events = link.events[side].iter();
        let given_up = events.filter(|event| matches!(event, LinkEvent::Abandoned { .. })).count();
        prop_assert_eq!(given_up as u64, missing);
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn packets_go_up_once_in_order_or_are_given_up(
        limit in prop_oneof![Just(None), (1u32..6).prop_map(Some)],
        gaps in [gaps(), gaps()],
        patterns in [pattern(), pattern()],
    ) {
        let run = |strict: bool| {
            let mut link = link(ideal_sr(limit), &gaps, &patterns);
            (link.strict, link.log) = (strict, Some(Vec::new()));
            link.run(END);
            link
        };
        let first = run(true);
        hold(&first, &gaps, limit.is_some())?;
        let again = run(false);
        prop_assert_eq!(&first.delivered_at, &again.delivered_at, "not deterministic");
        prop_assert!(first.log == again.log, "not deterministic");
    }

    #[test]
    fn no_segment_is_sent_more_often_than_it_may(
        limit in 1u32..5,
        gaps in [gaps(), gaps()],
        patterns in [pattern(), pattern()],
    ) {
        let mut link = link(ideal_sr(Some(limit)), &gaps, &patterns);
        link.log = Some(Vec::new());
        link.run(END);
        let log = link.log.as_ref().expect("a log");
        for side in 0..2 {
            let mut sent = std::collections::HashMap::new();
            for entry in log.iter().filter(|entry| entry.1 == side) {
                if let FrameKind::Segment { sequence, .. } = entry.2 {
                    *sent.entry(sequence).or_insert(0) += 1;
                }
            }
            prop_assert!(sent.values().all(|&times| times <= limit), "{sent:?}");
        }
    }

    #[test]
    fn a_changed_limit_breaks_no_promise(
        limits in prop::collection::vec((0u64..2_000, prop_oneof![Just(None), (1u32..5).prop_map(Some)]), 1..12),
        gaps in [gaps(), gaps()],
        patterns in [pattern(), pattern()],
    ) {
        let mut link = link(ideal_sr(Some(2)), &gaps, &patterns);
        (link.strict, link.log) = (true, Some(Vec::new()));
        let mut limits = limits;
        limits.sort();
        for (at, limit) in limits {
            link.run(Instant::from_nanos(at * 1_000_000));
            for end in &mut link.ends {
                end.limit_transmissions(limit);
            }
        }
        link.run(END);
        hold(&link, &gaps, true)?;
    }
}

/// A sender and a receiver without time.
struct Pair {
    sender: IdealSr<Token>,
    receiver: IdealSr<Token>,
    /// Numbers of the queued packets, each segmented into 40, 40 and 20 B.
    waiting: std::ops::Range<u64>,
}

impl Pair {
    fn new(limit: u32, packets: u64) -> Self {
        let end = || IdealSr::new(ideal_sr(Some(limit))).expect("valid parameters");
        Pair { sender: end(), receiver: end(), waiting: 0..packets }
    }

    /// Sends the next segment and returns its number.
    fn send(&mut self, is_damaged: bool) -> Option<u64> {
        let next = || self.waiting.next().map(|number| Token { number, bytes: 100 });
        let mut frame = Frame::default();
        if !self.sender.write_frame(Instant::ZERO, next, &mut frame) {
            return None;
        }
        let FrameKind::Segment { sequence, .. } = frame.kind else { panic!("{frame:?}") };
        match is_damaged {
            true => self.receiver.receive_damaged(Instant::ZERO, frame),
            false => self.receiver.receive(Instant::ZERO, frame),
        }
        Some(sequence)
    }

    /// Exchanges feedback until none is left, and returns the numbers of the delivered packets.
    fn tell(&mut self) -> Vec<u64> {
        loop {
            if let Some(frame) = self.receiver.poll_free(Instant::ZERO) {
                self.sender.receive(Instant::ZERO, frame);
            } else if let Some(frame) = self.sender.poll_free(Instant::ZERO) {
                self.receiver.receive(Instant::ZERO, frame);
            } else {
                break;
            }
        }
        std::iter::from_fn(|| self.receiver.poll_deliver()).map(|token| token.number).collect()
    }
}

#[test]
fn retransmissions_go_first_and_purges_take_whole_packets() {
    // Three packets: segments 0-2, 3-5, 6-8; at most two transmissions each.
    let mut pair = Pair::new(2, 3);
    let frame = |pair: &mut Pair, fates: &[(u64, bool)]| {
        for &(sequence, is_damaged) in fates {
            assert_eq!(pair.send(is_damaged), Some(sequence));
        }
        pair.tell()
    };
    assert_eq!(frame(&mut pair, &[(0, true), (1, false), (2, true), (3, true)]), [0; 0]);
    // 2 arrives, and the last transmission of 0 fails: packet 0 is abandoned. 3 is retransmitted
    // next, then new segments follow.
    assert_eq!(frame(&mut pair, &[(0, true), (2, false), (3, false), (4, false)]), [0; 0]);
    let counters = pair.sender.counters();
    assert_eq!((counters.packets, counters.packets_abandoned), (1, 1));
    assert_eq!(pair.receiver.counters().skipped, 1, "1 and 2 had come");
    // Packet 2 is abandoned while packet 1 is incomplete: the purge waits for packet 1.
    assert_eq!(frame(&mut pair, &[(5, true), (6, true), (7, false)]), [0; 0]);
    assert_eq!(frame(&mut pair, &[(5, false), (6, true)]), [1]);
    assert_eq!(pair.send(false), None, "8 is never sent");
    let counters = pair.sender.counters();
    assert_eq!((counters.packets, counters.packets_abandoned), (3, 2));
    assert_eq!((counters.data_frames, counters.retransmissions), (8, 5));
}

#[test]
fn a_new_limit_spares_the_last_transmission_under_the_old_one() {
    // The limit is raised during the last transmission, which remains the last one.
    let mut pair = Pair::new(1, 1);
    pair.send(true);
    pair.sender.limit_transmissions(Some(5));
    pair.tell();
    assert_eq!(pair.sender.counters().packets_abandoned, 1);
    // The limit is raised and lowered before the old limit is reached.
    let mut pair = Pair::new(2, 1);
    pair.send(true);
    pair.sender.limit_transmissions(Some(3));
    pair.tell();
    assert_eq!(pair.send(true), Some(0));
    pair.tell();
    assert_eq!(pair.sender.counters().packets_abandoned, 0);
    pair.sender.limit_transmissions(Some(2));
    assert_eq!(pair.sender.counters().packets_abandoned, 1, "0 waited for its third");
    assert_eq!(pair.tell(), [0; 0]);
    assert!(!pair.sender.has_frame());
}

#[test]
fn impossible_parameters_are_refused() {
    let refuse = |parameters| IdealSr::<Token>::new(parameters).map(|_| ()).unwrap_err();
    for payload in [0, 65_536] {
        let found = Bytes::new(payload);
        let error = refuse(IdealSrParameters { payload: found, ..ideal_sr(None) });
        assert_eq!(error, LinkError::Payload { protocol: "ideal-sr", found });
    }
    let error = refuse(ideal_sr(Some(0)));
    assert!(error.to_string().contains("limit of 0 transmissions"), "{error}");
    let mut end =
        LinkEndpoint::IdealSr(Box::new(IdealSr::<Token>::new(ideal_sr(None)).expect("fine")));
    assert!(end.ideal_feedback().is_some() && end.counts_packets());
}
