//! Properties of RLC acknowledged mode with arbitrary losses and delays and in any configuration.

use crate::common::*;
use lasthop_base::units::{Duration, Instant, Rate};
use lasthop_link::link::{
    Abilities, AtLimit, Endpoint, FrameKind, LinkCounters, LinkEvent, RlcParameters,
};
use proptest::prelude::*;
use std::collections::HashMap;

const RATE: Rate = Rate::from_bps(200_000);
/// Every run must end before this time.
const LATE: Instant = Instant::from_nanos(1_200_000_000_000);
/// Runs are stopped at this time.
const END: Instant = Instant::from_nanos(1_300_000_000_000);

fn millis(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

/// PDUs of 42 B take 1.68 ms; the round trip is 43.36 ms. Packets of 1 to 250 B consist of 1 to 7
/// PDUs.
fn defaults() -> RlcParameters {
    rlc(40, RATE, millis(20))
}

fn prepare(set: RlcParameters, gaps: &[Vec<u64>; 2], patterns: &[Pattern; 2]) -> Link<Token> {
    let offers = gaps.each_ref().map(|gaps| offers(gaps));
    let fates = patterns.each_ref().map(fate);
    let mut link = Link::new(Protocol::Rlc(set).ends(), (RATE, millis(20)), offers, fates);
    // The check formats the whole window and is slow for large ones.
    link.strict = set.window <= 12;
    link.log = Some(Vec::new());
    link
}

fn run(set: RlcParameters, gaps: &[Vec<u64>; 2], patterns: &[Pattern; 2]) -> Link<Token> {
    let mut link = prepare(set, gaps, patterns);
    link.run(END);
    assert!(link.now < LATE, "late: {:?}", link.now);
    link
}

fn counters(link: &Link<Token>) -> [LinkCounters; 2] {
    link.ends.each_ref().map(|end| end.counters())
}

fn pattern(jitter: u64) -> impl Strategy<Value = Pattern> {
    (0.0..1.0f64, 0..=jitter).prop_flat_map(|(loss, jitter)| {
        prop::collection::vec((prop::bool::weighted(loss), 0..=jitter), 0..120)
    })
}

fn gaps() -> impl Strategy<Value = Vec<u64>> {
    prop::collection::vec(prop_oneof![3 => Just(0u64), 1 => 0u64..300], 0..30)
}

fn timer() -> impl Strategy<Value = Option<Duration>> {
    prop_oneof![2 => Just(None), 1 => (1u64..300).prop_map(|ms| Some(millis(ms)))]
}

fn every(most: u32) -> impl Strategy<Value = Option<u32>> {
    prop_oneof![2 => Just(None), 1 => (1..=most).prop_map(Some)]
}

/// Any configuration without a retry limit; see `limits`.
fn configuration() -> impl Strategy<Value = RlcParameters> {
    let polls = (every(4), every(9), every(100), 1u64..300, timer(), timer());
    let statuses = (any::<bool>(), timer(), timer());
    let window = prop_oneof![3 => 1u32..12, 1 => Just(200), 1 => Just(2047)];
    (polls, statuses, window, 1u64..200, 0u64..90).prop_map(
        |(polls, statuses, window, timeout, guard)| RlcParameters {
            window,
            poll_sdu: polls.0,
            poll_pdu: polls.1,
            poll_window: polls.2,
            poll_timeout: millis(polls.3),
            poll_prohibit: polls.4,
            poll_periodic: polls.5,
            status_on_gap: statuses.0,
            status_prohibit: statuses.1,
            status_periodic: statuses.2,
            skip_timeout: millis(timeout),
            reset_timeout: millis(timeout),
            nack_guard: millis(guard),
            ..defaults()
        },
    )
}

/// Any configuration with a retry limit of either kind.
fn limits() -> impl Strategy<Value = RlcParameters> {
    let at_limit = prop_oneof![Just(AtLimit::Discard), Just(AtLimit::Reset)];
    (configuration(), every(6), at_limit, timer(), 1u32..6).prop_map(
        |(set, max_transmissions, at_limit, discard_after, max_skips)| RlcParameters {
            max_transmissions,
            at_limit,
            discard_after,
            max_skips,
            ..set
        },
    )
}

fn pdus(tokens: &[Token]) -> u64 {
    tokens.iter().map(|token| u64::from(token.bytes.div_ceil(40))).sum()
}

/// Starts of the transmissions of each segment by `side`.
fn transmissions(link: &Link<Token>, side: usize) -> HashMap<u64, Vec<Instant>> {
    let mut starts: HashMap<u64, Vec<Instant>> = HashMap::new();
    for &(start, from, kind, _) in link.log.as_ref().expect("a log") {
        if let FrameKind::Segment { sequence, .. } = kind
            && from == side
        {
            starts.entry(sequence).or_default().push(start);
        }
    }
    starts
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn without_limit_everything_arrives_once_and_in_order(
        set in configuration(),
        gaps in [gaps(), gaps()],
        patterns in [pattern(80), pattern(80)],
    ) {
        let link = run(set, &gaps, &patterns);
        for (side, gaps) in gaps.iter().enumerate() {
            let sent: Vec<_> = offers(gaps).into_iter().map(|(_, token)| token).collect();
            prop_assert_eq!(&link.delivered[1 - side], &sent);
            let counted = link.ends[side].counters();
            prop_assert_eq!(counted.data_frames, pdus(&sent));
            prop_assert_eq!(counted.packets, sent.len() as u64);
            prop_assert_eq!((counted.abandoned, counted.packets_abandoned), (0, 0));
            prop_assert_eq!(counted.skipped, 0);
        }
        let again = run(set, &gaps, &patterns);
        prop_assert!(link.log == again.log, "not deterministic");
    }

    #[test]
    fn what_does_not_arrive_was_given_up(
        set in limits(),
        gaps in [gaps(), gaps()],
        patterns in [pattern(80), pattern(80)],
    ) {
        let link = run(set, &gaps, &patterns);
        for (side, gaps) in gaps.iter().enumerate() {
            let sent: Vec<_> = offers(gaps).into_iter().map(|(_, token)| token).collect();
            let up = &link.delivered[1 - side];
            prop_assert!(up.windows(2).all(|pair| pair[0].number < pair[1].number));
            prop_assert!(up.iter().all(|token| sent.contains(token)), "a packet in pieces");
            let counted = link.ends[side].counters();
            prop_assert_eq!(counted.packets, sent.len() as u64);
            prop_assert!(up.len() as u64 + counted.packets_abandoned >= counted.packets);
            let given_up =
                link.events[side].iter().filter(|e| matches!(e, LinkEvent::Abandoned { .. }));
            let skipped = counted.skipped as usize;
            prop_assert_eq!(given_up.count(), counted.abandoned as usize + skipped);
            if let (Some(most), AtLimit::Discard) = (set.max_transmissions, set.at_limit) {
                // A reset, after Skips without response, restarts the numbering.
                let resets = link.log.iter().flatten().any(|entry| {
                    matches!(entry.2, FrameKind::Reset { .. })
                });
                let starts = transmissions(&link, side);
                let worst = starts.values().map(Vec::len).max().unwrap_or(0);
                prop_assert!(resets || worst <= most as usize, "{worst} transmissions");
            }
        }
    }

    /// With loss-free reports the sender's information is exact: only lost PDUs are retransmitted,
    /// only lost packets are abandoned, and PDUs are retransmitted at most once per round trip. If
    /// a poll is lost, so that Timer_Poll expires, the sender must guess: one PDU per poll may be
    /// retransmitted spuriously.
    #[test]
    fn with_faultless_reports_nothing_is_done_in_vain(
        max_transmissions in every(4),
        window in prop_oneof![3 => 1u32..12, 1 => Just(1024)],
        poll_pdu in every(9),
        gaps in gaps(),
        pattern in pattern(0),
    ) {
        let set = RlcParameters { max_transmissions, window, poll_pdu, ..defaults() };
        let link = run(set, &[gaps.clone(), vec![]], &[pattern, vec![]]);
        let [sender, receiver] = counters(&link);
        prop_assert_eq!(receiver.discarded, 0);
        prop_assert!(receiver.duplicates <= sender.timeouts);
        let settled = link.delivered[1].len() as u64 + sender.packets_abandoned;
        prop_assert!(settled == gaps.len() as u64 || settled > gaps.len() as u64 && sender.timeouts > 0);
        for (sequence, starts) in transmissions(&link, 0) {
            for pair in starts.windows(2) {
                let apart = pair[1].saturating_since(pair[0]);
                prop_assert!(apart >= set.nack_guard, "{sequence} again after {apart}");
            }
        }
    }

    /// For any changes of the limit at any time: no stalls, and no packet is counted twice.
    #[test]
    fn a_changed_limit_breaks_no_promise(
        set in limits(),
        changes in prop::collection::vec((0u64..3_000, every(4)), 1..12),
        gaps in [gaps(), gaps()],
        patterns in [pattern(80), pattern(80)],
    ) {
        let mut changes = changes;
        changes.sort();
        let mut link = prepare(set, &gaps, &patterns);
        for (at, limit) in changes {
            link.run(Instant::ZERO + millis(at));
            for end in &mut link.ends {
                end.limit_transmissions(limit);
            }
        }
        link.run(END);
        prop_assert!(link.now < Instant::ZERO + millis(1_200_000), "late: {:?}", link.now);
        for (side, gaps) in gaps.iter().enumerate() {
            let sent: Vec<_> = offers(gaps).into_iter().map(|(_, token)| token).collect();
            let up = &link.delivered[1 - side];
            prop_assert!(up.windows(2).all(|pair| pair[0].number < pair[1].number));
            prop_assert!(up.iter().all(|token| sent.contains(token)), "a packet in pieces");
            let counted = link.ends[side].counters();
            prop_assert_eq!(counted.packets, sent.len() as u64);
            prop_assert!(counted.packets_abandoned <= counted.packets);
            prop_assert!(up.len() as u64 + counted.packets_abandoned >= counted.packets);
        }
    }
}
