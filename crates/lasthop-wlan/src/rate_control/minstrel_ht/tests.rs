//! The low pass, the order of modes and the chain of stages.

use super::*;
use crate::phy::{Band, Coding, Form, Format, GuardInterval, PacketExtension, Width};
use lasthop_base::rng::Streams;

const TIMING: PpduTiming = PpduTiming {
    band: Band::Ghz5,
    form: Form::Standard,
    coding: Coding::Bcc,
    packet_extension: PacketExtension::Us0,
};

/// HT at 20 MHz with 800 ns: MCS 0 to 7 of each number of streams.
fn modes(streams: u8) -> Vec<Mode> {
    let all = (1..=streams).flat_map(|streams| (0..8).map(move |mcs| (streams, mcs)));
    let mode = |(streams, mcs)| {
        Mode::new(Format::Ht, mcs, streams, Width::Mhz20, GuardInterval::Ns800).expect("defined")
    };
    all.map(mode).collect()
}

fn machine(streams: u8) -> MinstrelHt {
    let random = Streams { seed: 1, replication: 0 }.stream("link", "rate probes");
    let contention = Contention { slot: Duration::from_nanos(9_000), cw_min: 15, cw_max: 1_023 };
    MinstrelHt::new(&modes(streams), TIMING, contention, random)
}

/// Sends PPDUs of 20 MPDUs every 2 ms, of which each mode loses a fixed number. Returns the number of
/// PPDUs in each mode, and the times of probes.
fn run(machine: &mut MinstrelHt, lost: &[u32], from_ms: u64, to_ms: u64) -> (Vec<u32>, Vec<u64>) {
    let (mut counts, mut probes) = (vec![0; lost.len()], Vec::new());
    for ms in (from_ms..to_ms).step_by(2) {
        let now = Instant::from_nanos(ms * 1_000_000);
        let Choice { mode, is_probe, .. } = machine.choose(now);
        counts[mode] += 1;
        let (mpdus, lost) = if is_probe { (1, lost[mode] / 11) } else { (20, lost[mode]) };
        if is_probe {
            probes.push(ms);
        }
        machine.on_result(now, mpdus, (lost < mpdus).then(|| mpdus - lost));
    }
    (counts, probes)
}

/// The coefficients add up to 1, so that a constant input is the output; from 0.5 to 1 the output overshoots
/// nothing above 1.
#[test]
fn the_low_pass_has_a_gain_of_one() {
    assert_eq!(FILTER.iter().sum::<i32>(), ONE);
    let mut outputs = [0, 0];
    assert_eq!(filter(&mut outputs, ONE / 2), ONE / 2);
    for _ in 0..50 {
        assert_eq!(filter(&mut outputs, ONE / 2), ONE / 2);
    }
    // By hand: 1173 + 5273 / 2 - 2350 / 2 = 2634.5.
    assert_eq!(filter(&mut outputs, ONE), 2_634);
    for _ in 0..50 {
        assert!(filter(&mut outputs, ONE) <= ONE);
    }
    assert!(outputs[0] > ONE * 99 / 100);
    // No success counts as 1 / 4096.
    assert_eq!(filter(&mut [0, 0], 0), 1);
}

/// 20 MPDUs of 1,200 B: with MCS 5, 10 % are lost; MCS 6 and 7 lose 75 and 100 %.
#[test]
fn the_mode_with_the_best_throughput_prevails() {
    let mut machine = machine(1);
    let lost = [0, 0, 0, 0, 0, 2, 15, 20];
    run(&mut machine, &lost, 0, 2_000);
    assert_eq!(machine.best(), 5);
    assert!((machine.probability(5) - 0.9).abs() < 0.02, "{}", machine.probability(5));
    let (counts, probes) = run(&mut machine, &lost, 2_000, 6_000);
    assert!(counts[5] > 1_700, "{counts:?}");
    // Probes are 20 ms apart and do not stop.
    assert!(probes.windows(2).all(|pair| pair[1] - pair[0] >= 20), "{probes:?}");
    assert!(probes.len() > 100 && probes.len() <= 201, "{}", probes.len());
}

/// The modes of two streams lose everything, then those of one stream lose much: the choice follows.
#[test]
fn the_choice_follows_the_channel() {
    let mut machine = machine(2);
    let mut lost = [20; 16];
    lost[..8].fill(0);
    run(&mut machine, &lost, 0, 3_000);
    assert_eq!(machine.best(), 7);
    lost[8..12].fill(0);
    lost[12..].fill(18);
    run(&mut machine, &lost, 3_000, 6_000);
    // MCS 3 with two streams has 52 Mbps, MCS 7 with one 65 Mbps.
    assert_eq!(machine.best(), 7);
    lost.fill(0);
    run(&mut machine, &lost, 6_000, 9_000);
    assert_eq!(machine.best(), 15);
    // The most reliable mode has fewer streams.
    assert!(machine.reliable < 8, "{}", machine.reliable);
}

/// Without responses, a PPDU takes the stages of its chain; the second and later ones are fallbacks.
#[test]
fn a_chain_ends_with_the_most_reliable_mode() {
    let mut machine = machine(1);
    run(&mut machine, &[0, 0, 0, 0, 0, 0, 20, 20], 0, 3_000);
    assert_eq!(machine.best, [5, 4, 3, 2]);
    // Just after a probe, none is due.
    machine.probed = Instant::from_nanos(3_000_000_000);
    let now = Instant::from_nanos(3_001_000_000);
    let mut chain = Vec::new();
    loop {
        let Choice { mode, is_fallback, .. } = machine.choose(now);
        chain.push((mode, is_fallback));
        machine.on_result(now, 20, None);
        if machine.place.is_none() {
            break;
        }
    }
    chain.dedup();
    assert_eq!(chain, [(5, false), (4, true), (3, true), (machine.reliable.into(), true)]);
}

/// 31 lost MPDUs replace the best mode of the second group by one of the first, before the next update.
#[test]
fn a_sudden_death_is_not_awaited() {
    let mut machine = machine(2);
    run(&mut machine, &[0; 16], 0, 3_000);
    assert_eq!(machine.best(), 15);
    machine.probed = Instant::from_nanos(3_000_000_000);
    machine.update(machine.probed);
    let now = Instant::from_nanos(3_001_000_000);
    for _ in 0..2 {
        machine.choose(now);
        machine.on_result(now, 20, Some(1));
    }
    assert_eq!(machine.best(), 7);
}

/// By hand: 1,200 B at 6.5 Mbps take 371 symbols, 1,484 us; at 65 Mbps 38 symbols, 152 us.
#[test]
fn durations_and_attempts() {
    let machine = machine(1);
    assert_eq!(machine.modes[0].duration, 1_484_000);
    assert_eq!(machine.modes[7].duration, 152_000);
    let mut machine = machine;
    machine.modes[7].p = ONE;
    machine.modes[0].p = ONE;
    machine.length = ONE as u32;
    // 84 us of overhead; mean backoffs of 67.5, 139.5, 283.5 us and so on: 6 attempts take 5,925 us.
    assert_eq!(machine.attempts_of(7), 6);
    // 1,568 us and a backoff each: the third ends at 5.2 ms, the fourth above 6 ms.
    assert_eq!(machine.attempts_of(0), 3);
    machine.modes[0].p = ONE / 11;
    assert_eq!(machine.attempts_of(0), 1);
    machine.modes[0].p = ONE / 6;
    assert_eq!(machine.attempts_of(0), 2);
}
