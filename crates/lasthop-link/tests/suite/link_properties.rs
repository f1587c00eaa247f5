//! Common properties of all link protocols, with arbitrary losses and delays.

use crate::common::*;
use lasthop_base::packet::Payload;
use lasthop_base::units::{Duration, Instant, Rate};
use lasthop_link::link::{Endpoint, LinkCounters, LinkEndpoint, Release, RlpParameters};
use proptest::prelude::*;

/// The packets delivered to each side, the counters of each side, and the time of the last event.
type Outcome = ([Vec<Token>; 2], [LinkCounters; 2], Instant);

/// Runs the shared driver. With `strict` it checks the call contract at every step: deadlines never
/// stay in the past; spurious timeouts and idle polls change nothing.
fn run(protocol: Protocol, gaps: &[Vec<u64>; 2], patterns: &[Pattern; 2], strict: bool) -> Outcome {
    run_ends(protocol.ends(), gaps, patterns, strict)
}

fn run_ends(
    ends: [LinkEndpoint<Token>; 2],
    gaps: &[Vec<u64>; 2],
    patterns: &[Pattern; 2],
    strict: bool,
) -> Outcome {
    let air = (Rate::from_bps(200_000), Duration::from_millis(20));
    let offers = gaps.each_ref().map(|gaps| offers(gaps));
    let mut link = Link::new(ends, air, offers, patterns.each_ref().map(fate));
    link.strict = strict;
    // A stall would leave no deadline (and undelivered packets); a livelock would reach this time.
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

    /// Class 0 has a protocol that may lose packets, class 1 go-back-N, classes 2 and 3 any
    /// reliable protocol.
    #[test]
    fn each_service_keeps_the_promise_of_its_protocol(
        window in prop_oneof![6 => 1u32..9, 1 => Just(128)],
        timeout in 1u64..400,
        kind in 0usize..9,
        lossy in 0usize..3,
        gaps in [gaps(), gaps()],
        patterns in [pattern(), pattern()],
    ) {
        let after = Duration::from_millis(timeout);
        let all = every_reliable_protocol(window, after);
        let karn = karn_rlp(3, after, Duration::from_millis(60));
        let out_of_sequence = RlpParameters { release: Release::Immediate, ..karn };
        let lossy = [Protocol::Raw, Protocol::Rlp(karn), Protocol::Rlp(out_of_sequence)][lossy];
        let go_back_n = Protocol::GoBackN(go_back_n(window, after));
        let protocols = [lossy, go_back_n, all[kind], all[(kind + 3) % 9]];
        let outcome = run_ends(services(&protocols, 1), &gaps, &patterns, true);
        let again = run_ends(services(&protocols, 1), &gaps, &patterns, false);
        prop_assert_eq!(&outcome, &again, "not deterministic");
        for (side, gaps) in gaps.iter().enumerate() {
            for class in 0..4 {
                let of_class = |token: &Token| token.class() == class;
                let sent = offers(gaps).into_iter().map(|(_, token)| token);
                let sent: Vec<_> = sent.filter(of_class).collect();
                let up = outcome.0[1 - side].iter().copied();
                let mut got: Vec<_> = up.filter(of_class).collect();
                if class > 0 {
                    prop_assert_eq!(&got, &sent, "{:?}", protocols[usize::from(class)]);
                    continue;
                }
                if matches!(lossy, Protocol::Rlp(set) if set.release == Release::Immediate) {
                    got.sort_by_key(|token| token.number);
                }
                prop_assert!(got.windows(2).all(|pair| pair[0].number < pair[1].number));
                prop_assert!(got.iter().all(|token| sent.contains(token)));
            }
        }
    }

    /// A link with a single service and no identifier is equivalent to a link with its protocol.
    #[test]
    fn one_service_is_its_protocol(
        timeout in 1u64..400,
        gaps in [gaps(), gaps()],
        patterns in [pattern(), pattern()],
    ) {
        let mut protocols = every_reliable_protocol(8, Duration::from_millis(timeout));
        let after = Duration::from_millis(timeout);
        protocols.extend([Protocol::Raw, Protocol::Rlp(karn_rlp(3, after, after))]);
        for protocol in protocols {
            let alone = run(protocol, &gaps, &patterns, false);
            let service = run_ends(services(&[protocol], 0), &gaps, &patterns, false);
            prop_assert_eq!(alone, service, "{:?}", protocol);
        }
    }
}
