//! Properties of the DCF with any load and losses.

use crate::dcf_machine::{Cell, Load, Log, load, micros};
use lasthop::channel::{Channel, Uniform};
use lasthop::medium::dcf::{AirFate, AirFrame};
use lasthop::rng::Streams;
use lasthop::units::{Bytes, Duration, Instant, Probability};
use proptest::prelude::*;

/// Runs a load on a cell of four stations. `wakes`: the cell is also woken between its deadlines.
fn play(loads: &[Load], loss: f64, rts: u64, limits: [u32; 2], seed: u64, wakes: bool) -> Vec<Log> {
    let mut cell = Cell { seed, ..Cell::b() };
    cell.parameters.rts_threshold = Bytes::new(rts);
    [cell.parameters.short_retry_limit, cell.parameters.long_retry_limit] = limits;
    let streams = Streams { seed, replication: 0 };
    let p = Probability::new(loss).expect("a probability");
    let channel = |pair| Channel::Uniform(Uniform::new(p, &streams, &format!("pair {pair}")));
    let (mut cell, mut log) = (cell.build_with(4, channel).reporting(), Log::default());
    cell.machine.set_away(cell.stations[1], &[[micros(20_000), micros(60_000)]]);
    let mut now = Instant::ZERO;
    let mut accepted = [0u64; 8];
    for load in loads {
        now += Duration::from_nanos(load.gap_us * 1_000);
        cell.run(now, &mut log);
        // At the time of a deadline, a wake-up is not spurious: `run` leaves that deadline for later.
        if wakes && cell.machine.next_timeout() > now {
            cell.machine.handle_timeout(now);
            cell.note(now, &mut log);
            cell.machine.handle_timeout(now);
            assert!(cell.machine.poll_deliver().is_none(), "no output without progress");
        }
        let packet = vec![0; load.bytes];
        accepted[load.pair] += u64::from(cell.machine.enqueue(now, cell.pairs[load.pair], packet));
        cell.note(now, &mut log);
    }
    cell.run(Instant::NEVER, &mut log);
    let counted = cell.pairs.iter().map(|&pair| cell.machine.pair_counters(pair));
    let [acknowledged, abandoned] = counted.fold([0, 0], |sum, counters| {
        [sum[0] + counters.acknowledged, sum[1] + counters.abandoned]
    });
    let reported = [log.acknowledged, log.abandoned].map(|count| count as u64);
    assert_eq!(reported, [acknowledged, abandoned], "an outcome for each packet");
    for (pair, &accepted) in accepted.iter().enumerate() {
        let counters = cell.machine.pair_counters(cell.pairs[pair]);
        assert_eq!(counters.acknowledged + counters.abandoned, accepted, "no stall");
        let up = log.delivered.iter().filter(|&&(up, _)| up == pair).count() as u64;
        assert!((counters.acknowledged..=accepted).contains(&up), "each packet at most once");
        let attempts = log
            .frames
            .iter()
            .filter(|frame| frame.0 == pair && !matches!(frame.1, AirFrame::Cts | AirFrame::Ack));
        assert!(attempts.count() as u64 >= counters.attempts);
        let most = u64::from(limits[0]) + u64::from(limits[1]);
        assert!(counters.attempts <= accepted * most, "retries as limited");
    }
    vec![log]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// With any load and losses: the medium does not stall, delivers no packet twice, delivers
    /// packets of a pair in order, frames overlap only in collisions, and spurious wake-ups have no
    /// effect.
    #[test]
    fn properties_of_the_machine(
        loads in prop::collection::vec(load(), 1..80),
        loss in 0.0f64..0.7,
        rts in prop_oneof![Just(0u64), Just(500), Just(65_535)],
        limits in [1u32..8, 1u32..5],
        seed in 0u64..1_000,
    ) {
        let log = play(&loads, loss, rts, limits, seed, false).remove(0);
        prop_assert_eq!(&log, &play(&loads, loss, rts, limits, seed, true)[0]);
        prop_assert_eq!(&log, &play(&loads, loss, rts, limits, seed, false)[0]);
        let mut clear = 0;
        let mut last = [None; 8];
        for &(pair, kind, start, end, fate) in &log.frames {
            prop_assert!(start < end);
            if fate != AirFate::Collided {
                prop_assert!(start >= clear, "{start} before {clear}");
            }
            clear = clear.max(end);
            if let (AirFrame::Data { sequence, is_retry }, AirFate::Received) = (kind, fate) {
                prop_assert!(last[pair].is_none_or(|last| last < sequence || is_retry && last == sequence));
                last[pair] = Some(sequence);
            }
        }
    }
}
