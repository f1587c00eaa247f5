//! Properties of the radio link protocols, which may lose packets, with arbitrary losses and
//! delays.

use crate::common::*;
use lasthop_base::units::{Bytes, Duration, Instant, Rate};
use lasthop_link::link::{
    Endpoint, FrameKind, LinkEndpoint, LinkEvent, Release, Rlp, RlpParameters,
};
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

const RATE: Rate = Rate::from_bps(200_000);
const DELAY: Duration = Duration::from_millis(20);

fn run(
    parameters: RlpParameters,
    gaps: &[Vec<u64>; 2],
    patterns: &[Pattern; 2],
    strict: bool,
) -> Link<Token> {
    let offers = gaps.each_ref().map(|gaps| offers(gaps));
    let ends = Protocol::Rlp(parameters).ends();
    let mut link = Link::new(ends, (RATE, DELAY), offers, patterns.each_ref().map(fate));
    link.log = Some(Vec::new());
    link.strict = strict;
    // Unlimited keep-alives never end. Packets arrive in the first 9 s, and 60 lost keep-alives
    // take another 12 s.
    link.run(Instant::from_nanos(40_000_000_000));
    link
}

fn machine(end: &LinkEndpoint<Token>) -> &Rlp<Token> {
    match end {
        LinkEndpoint::KarnRlp(rlp) => rlp,
        _ => panic!("another protocol"),
    }
}

/// The frames sent by an end, with their index.
fn sent(link: &Link<Token>, side: usize) -> Vec<(usize, FrameKind)> {
    let log = link.log.iter().flatten().filter(|entry| entry.1 == side);
    log.map(|entry| entry.2).enumerate().collect()
}

/// Checks the properties of the data from `side`.
fn check(
    parameters: &RlpParameters,
    link: &Link<Token>,
    side: usize,
    gaps: &[u64],
    pattern: &Pattern,
) {
    let limit = u64::from(parameters.retransmissions);
    let packets: Vec<_> = offers(gaps).into_iter().map(|(_, token)| token).collect();
    let up = &link.delivered[1 - side];
    let numbers: BTreeSet<u64> = up.iter().map(|token| token.number).collect();
    assert_eq!(numbers.len(), up.len(), "a duplicate");
    assert!(up.iter().all(|token| packets[token.number as usize] == *token), "never sent");
    if parameters.release == Release::InSequence {
        assert!(up.is_sorted_by_key(|token| token.number), "out of sequence");
    }

    // The numbers that the receiver can detect: those of all frames that arrived.
    let known = |&(_, kind): &(Instant, FrameKind)| match kind {
        FrameKind::Data { sequence } => sequence + 1,
        FrameKind::Keepalive { next } => next,
        _ => 0,
    };
    let known = link.arrivals[1 - side].iter().map(known).max().unwrap_or(0);
    assert_eq!(machine(&link.ends[1 - side]).wire_window().seen, known);
    assert!(numbers.iter().all(|&number| number < known));

    // Each of them is delivered, or abandoned after the permitted number of NACKs.
    let events = &link.events[1 - side];
    let count = |event| events.iter().filter(|&&found| found == event).count() as u64;
    for sequence in (0..known).filter(|number| !numbers.contains(number)) {
        assert!(count(LinkEvent::Abandoned { sequence }) >= 1, "{sequence} is forgotten");
        assert_eq!(count(LinkEvent::NackSent { sequence }), limit, "{sequence} is abandoned early");
    }
    let skipped = link.ends[1 - side].counters().skipped;
    assert_eq!(up.len() as u64 + skipped, known);

    // The others are tail losses that no keep-alive revealed.
    let frames = sent(link, side);
    let is_lost = |index: usize| pattern.get(index).is_some_and(|&(lost, _)| lost);
    let mut copies = BTreeMap::new();
    for &(index, kind) in &frames {
        if let FrameKind::Data { sequence } = kind {
            let copies = copies.entry(sequence).or_insert(0);
            *copies += 1;
            if !is_lost(index) && *copies == 1 {
                assert!(numbers.contains(&sequence), "{sequence} arrived but was not delivered");
            }
        }
    }
    assert_eq!(copies.len(), packets.len(), "every packet is sent");
    assert!(copies.values().all(|&copies| copies <= 1 + limit), "too many copies");
    if known < packets.len() as u64 {
        let is_keepalive =
            |&&(_, kind): &&(usize, FrameKind)| matches!(kind, FrameKind::Keepalive { .. });
        let trailing: Vec<_> = frames
            .iter()
            .filter(is_keepalive)
            .filter(|(_, kind)| *kind == FrameKind::Keepalive { next: packets.len() as u64 })
            .collect();
        assert!(trailing.iter().all(|(index, _)| is_lost(*index)));
        match (parameters.keepalive, parameters.keepalives) {
            (None, _) => assert!(trailing.is_empty()),
            (Some(_), Some(limit)) => assert_eq!(trailing.len(), limit as usize),
            (Some(_), None) => panic!("a tail loss is not found"),
        }
    }
}

fn pattern() -> impl Strategy<Value = Pattern> {
    (0.0..1.0f64, prop_oneof![Just(0u64), 0u64..80]).prop_flat_map(|(loss, jitter)| {
        prop::collection::vec((prop::bool::weighted(loss), 0..=jitter), 0..60)
    })
}

fn gaps() -> impl Strategy<Value = Vec<u64>> {
    prop::collection::vec(prop_oneof![3 => Just(0u64), 1 => 0u64..300], 0..30)
}

fn parameters() -> impl Strategy<Value = RlpParameters> {
    let keepalive = prop_oneof![
        1 => Just((None, None)),
        2 => (20u64..200, 1u32..6)
            .prop_map(|(ms, n)| (Some(Duration::from_millis(ms)), Some(n))),
        1 => (20u64..200).prop_map(|ms| (Some(Duration::from_millis(ms)), None)),
    ];
    (0u32..5, 1u64..150, 0u64..12, keepalive).prop_map(|(n, timeout, copy, keepalive)| {
        RlpParameters {
            keepalive: keepalive.0,
            keepalives: keepalive.1,
            ..karn_rlp(n, Duration::from_millis(timeout), Duration::from_millis(copy))
        }
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn what_is_not_delivered_is_given_up_or_a_tail_loss(
        parameters in parameters(),
        gaps in [gaps(), gaps()],
        patterns in [pattern(), pattern()],
    ) {
        // The strict driver formats the endpoint at every step, which is too slow for endless
        // keep-alives.
        let is_endless = parameters.keepalive.is_some() && parameters.keepalives.is_none();
        let karn = run(parameters, &gaps, &patterns, !is_endless);
        let immediate = RlpParameters { release: Release::Immediate, ..parameters };
        let oos = run(immediate, &gaps, &patterns, !is_endless);
        for side in 0..2 {
            check(&parameters, &karn, side, &gaps[side], &patterns[side]);
            check(&immediate, &oos, side, &gaps[side], &patterns[side]);
            // Both modes agree on every packet and every frame.
            let set = |link: &Link<Token>| {
                link.delivered[side].iter().map(|token| token.number).collect::<BTreeSet<_>>()
            };
            prop_assert_eq!(set(&karn), set(&oos));
            prop_assert_eq!(karn.ends[side].counters(), oos.ends[side].counters());
        }
        prop_assert_eq!(&karn.log, &oos.log);
        let again = run(parameters, &gaps, &patterns, false);
        prop_assert!(karn.log == again.log, "not deterministic");
        prop_assert_eq!(&karn.delivered_at, &again.delivered_at);
    }

    /// A missing number waits for its first NACK behind a frame in transmission, T_f, and the NACKs
    /// of the K - 1 other missing numbers, and likewise after each deadline. A deadline is T_nack
    /// after the NACK, plus at most T_copy for each of the K - 1 others. Therefore a later frame is
    /// held for at most n (T_f + (K - 1) (T_ack + T_copy) + T_nack).
    #[test]
    fn no_frame_is_held_longer_than_its_bound(
        n in 1u32..5,
        timeout in 10u64..150,
        copy in 0u64..12,
        gaps in [gaps(), gaps()],
        losses in [prop::collection::vec(prop::bool::weighted(0.3), 0..60),
                   prop::collection::vec(prop::bool::weighted(0.3), 0..60)],
    ) {
        let patterns = losses.map(|losses| losses.into_iter().map(|lost| (lost, 0)).collect());
        let (timeout, copy) = (Duration::from_millis(timeout), Duration::from_millis(copy));
        let parameters = RlpParameters {
            keepalive: Some(Duration::from_millis(50)),
            keepalives: Some(5),
            ..karn_rlp(n, timeout, copy)
        };
        let link = run(parameters, &gaps, &patterns, false);
        for side in 0..2 {
            // The time at which each number was first detectable, and the time at which it was
            // received or abandoned.
            let (mut known, mut settled) = (Vec::new(), BTreeMap::new());
            for &(at, kind) in &link.arrivals[1 - side] {
                let end = match kind {
                    FrameKind::Data { sequence } => {
                        settled.entry(sequence).or_insert(at);
                        sequence + 1
                    }
                    FrameKind::Keepalive { next } => next,
                    _ => 0,
                };
                known.resize(known.len().max(end as usize), at);
            }
            // With 30 packets the sender never refuses a NACK: these events are the receiver's.
            let events = link.events[1 - side].iter().zip(&link.event_times[1 - side]);
            for (event, &at) in events {
                if let LinkEvent::Abandoned { sequence } = *event {
                    settled.entry(sequence).and_modify(|old| *old = at.min(*old)).or_insert(at);
                }
            }
            let waits: Vec<_> =
                known.iter().enumerate().map(|(s, &from)| (from, settled[&(s as u64)])).collect();
            let missing_at = |at: Instant| waits.iter().filter(|w| w.0 <= at && at < w.1).count();
            let most = waits.iter().map(|w| missing_at(w.0)).max().unwrap_or(0) as u64;
            let others = most.saturating_sub(1);
            let airtime = |bytes: u64| Duration::from_nanos(bytes * 8_000_000_000 / RATE.as_bps());
            let round = airtime(251)
                + (airtime(2) + copy) * others
                + timeout
                + Duration::from_nanos(1);
            let bound = round * u64::from(n);
            for (token, at) in link.delivered[1 - side].iter().zip(&link.delivered_at[1 - side]) {
                let held = *at - settled[&token.number];
                prop_assert!(held <= bound, "{} is held for {held} > {bound}", token.number);
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// Frames of 80 us and a round trip of 40 ms: the sender is 500 frames ahead, so that missing
    /// numbers and the history fall behind the horizon.
    #[test]
    fn nothing_is_confused_beyond_the_horizon(
        n in 0u32..4,
        timeout in 1u64..60,
        packets in 1u64..700,
        losses in [0.0..1.0f64, 0.0..0.6f64],
        patterns in [prop::collection::vec(0.0..1.0f64, 800), prop::collection::vec(0.0..1.0f64, 800)],
    ) {
        let mut links = Vec::new();
        for release in [Release::InSequence, Release::Immediate] {
            let parameters = RlpParameters {
                release,
                keepalive: Some(Duration::from_millis(1)),
                keepalives: Some(2000),
                ..karn_rlp(n, Duration::from_millis(timeout), Duration::from_nanos(80_000))
            };
            let fates = [0, 1].map(|side| -> Fate {
                let (draws, loss) = (patterns[side].clone(), losses[side]);
                Box::new(move |index| {
                    let lost = draws.get(index as usize).is_some_and(|&draw| draw < loss);
                    (lost, Duration::ZERO)
                })
            });
            let offers = [tokens(packets, 1), VecDeque::new()];
            let ends = Protocol::Rlp(parameters).ends();
            let mut link = Link::new(ends, (RATE, DELAY), offers, fates);
            link.log = Some(Vec::new());
            link.run(Instant::NEVER);
            let counters = link.ends[1].counters();
            prop_assert_eq!(link.delivered[1].len() as u64 + counters.skipped, packets);
            let numbers: BTreeSet<u64> =
                link.delivered[1].iter().map(|token| token.number).collect();
            prop_assert_eq!(numbers.len(), link.delivered[1].len(), "a duplicate");
            if release == Release::InSequence {
                prop_assert!(link.delivered[1].is_sorted_by_key(|token| token.number));
            }
            // If the first transmission arrives, the packet is delivered.
            let mut first = BTreeSet::new();
            for (index, kind) in sent(&link, 0) {
                if let FrameKind::Data { sequence } = kind
                    && first.insert(sequence)
                    && patterns[0].get(index).is_none_or(|&draw| draw >= losses[0])
                {
                    prop_assert!(numbers.contains(&sequence));
                }
            }
            // Each frame is abandoned once by the receiver, and refused at most once by the sender.
            let given_up = |side: usize| {
                let events = link.events[side].iter();
                events.filter(|event| matches!(event, LinkEvent::Abandoned { .. })).count() as u64
            };
            prop_assert_eq!(given_up(1), counters.skipped);
            prop_assert_eq!(given_up(0), link.ends[0].counters().abandoned);
            prop_assert!(given_up(0) <= packets);
            links.push((numbers, link.log));
        }
        prop_assert_eq!(&links[0], &links[1]);
    }
}

#[test]
fn a_frame_can_be_held_as_long_as_the_bound_says() {
    // Data 0 and both retransmissions are lost; no other frames are sent in the direction of the
    // NACKs. 1 is held for exactly n T_nack, plus one nanosecond per deadline.
    let parameters = RlpParameters {
        header: Bytes::new(1),
        ..karn_rlp(2, Duration::from_millis(60), Duration::from_millis(10))
    };
    let lost: Pattern = vec![(true, 0), (false, 0), (true, 0), (true, 0)];
    let link = run(parameters, &[vec![0, 0], vec![]], &[lost, Vec::new()], true);
    assert_eq!(link.delivered[1].len(), 1);
    let arrived = link.arrivals[1][0].0;
    assert_eq!(link.delivered_at[1][0] - arrived, Duration::from_nanos(120_000_002));
}
