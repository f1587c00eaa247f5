//! One set of properties for every link machine, under arbitrary loss and delay.

mod common;

use common::*;
use lasthop::link::{Endpoint, LinkCounters};
use lasthop::units::{Duration, Instant, Rate};
use proptest::prelude::*;
use std::collections::VecDeque;

/// What the channel does to the first frames of a direction; afterwards it is clean.
type Pattern = Vec<(bool, u64)>;

fn fate(pattern: &Pattern) -> Fate {
    let pattern = pattern.clone();
    Box::new(move |index| {
        let (lost, extra) = pattern.get(index as usize).copied().unwrap_or((false, 0));
        (lost, Duration::from_millis(extra))
    })
}

fn offers(gaps: &[u64]) -> VecDeque<(Instant, Token)> {
    let mut at = Instant::ZERO;
    let token = |(number, &gap): (usize, &u64)| {
        at += Duration::from_millis(gap);
        (at, Token { number: number as u64, bytes: 1 + (number as u32 * 37) % 250 })
    };
    gaps.iter().enumerate().map(token).collect()
}

/// The shared harness. `strict` makes the driver check the call contract at every step: deadlines
/// never stay in the past, spurious wakes and idle polls change nothing.
fn run(
    protocol: Protocol,
    gaps: &[Vec<u64>; 2],
    patterns: &[Pattern; 2],
    strict: bool,
) -> ([Vec<Token>; 2], [LinkCounters; 2], Instant) {
    let air = (Rate::from_bps(200_000), Duration::from_millis(20));
    let offers = gaps.each_ref().map(|gaps| offers(gaps));
    let mut link = Link::new(protocol.ends(), air, offers, patterns.each_ref().map(fate));
    link.strict = strict;
    // A stall would leave no deadline (and packets undelivered), a livelock would get here.
    link.run(Instant::from_nanos(3_600_000_000_000));
    let counters = link.ends.each_ref().map(|end| end.counters());
    (link.delivered, counters, link.now)
}

fn pattern() -> impl Strategy<Value = Pattern> {
    (0.0..1.0f64, 0u64..80).prop_flat_map(|(loss, jitter)| {
        prop::collection::vec((prop::bool::weighted(loss), 0..=jitter), 0..60)
    })
}

fn gaps() -> impl Strategy<Value = Vec<u64>> {
    prop::collection::vec(prop_oneof![3 => Just(0u64), 1 => 0u64..300], 0..30)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn reliable_links_deliver_exactly_once_in_order(
        window in prop_oneof![6 => 1u32..9, 1 => Just(128), 1 => Just(255)],
        timeout in 1u64..400,
        gaps in [gaps(), gaps()],
        patterns in [pattern(), pattern()],
    ) {
        for protocol in every_reliable_protocol(window, Duration::from_millis(timeout)) {
            let outcome = run(protocol, &gaps, &patterns, true);
            for (side, gaps) in gaps.iter().enumerate() {
                let sent: Vec<_> = offers(gaps).into_iter().map(|(_, token)| token).collect();
                prop_assert_eq!(&outcome.0[1 - side], &sent, "{:?}", protocol);
                prop_assert_eq!(outcome.1[side].data_frames, sent.len() as u64);
            }
            prop_assert!(outcome.2 < Instant::from_nanos(600_000_000_000), "{protocol:?}: late");
            prop_assert_eq!(&outcome, &run(protocol, &gaps, &patterns, false), "not deterministic");
        }
    }

    #[test]
    fn raw_links_lose_but_neither_reorder_nor_repeat(
        gaps in [gaps(), gaps()],
        patterns in [pattern(), pattern()],
    ) {
        let outcome = run(Protocol::Raw, &gaps, &patterns, true);
        for (side, pattern) in patterns.iter().enumerate() {
            let lost = |index: u64| pattern.get(index as usize).is_some_and(|&(lost, _)| lost);
            let sent = offers(&gaps[side]).into_iter().map(|(_, token)| token);
            let kept: Vec<_> = sent.filter(|token| !lost(token.number)).collect();
            prop_assert_eq!(&outcome.0[1 - side], &kept);
        }
    }
}
