//! Stations of 802.11 that are not all in range of each other: hand-computed traces with hidden and exposed
//! stations, capture and NAV; and frames identical to those of one cell if all stations are in range.
//!
//! Times in nanoseconds: data 968,728 (`FRAME`), acknowledgment and CTS 248,000, RTS 272,000, SIFS 10,000, DIFS
//! 50,000, EIFS 364,000, timeout 222,000.

use crate::dcf_machine::{
    AGAIN, Built, Cell, DATA, FRAME, Load, Log, load, micros, without_backoff,
};
use lasthop::channel::{Channel, Clean, Uniform};
use lasthop::medium::dcf::{AirFate, AirFrame, Capture, Medium, Position, Propagation};
use lasthop::rng::Streams;
use lasthop::units::{Bytes, Decibels, Distance, Duration, Instant, Probability};
use proptest::prelude::*;

/// The ranges of ns-2, all of which are in metres.
pub fn ranges() -> Propagation {
    Propagation {
        transmission: Distance::from_metres(250),
        carrier_sense: Distance::from_metres(550),
        interference: Distance::from_metres(550),
        capture_threshold: Some(Decibels::new(10)),
        capture: Capture::First,
        exponent: 4.0,
        crossover: Distance::from_metres(86),
    }
}

/// Only frames that are read are sensed.
fn no_farther() -> Propagation {
    Propagation { carrier_sense: Distance::from_metres(250), ..ranges() }
}

fn at(x: u64) -> Position {
    Position { x: Distance::from_metres(x), y: Distance::default() }
}

/// Stations at `places` on a line, in metres, and pairs of transmitter and receiver.
fn spread(cell: Cell, propagation: &Propagation, places: &[u64], pairs: &[[usize; 2]]) -> Built {
    let streams = Streams { seed: cell.seed, replication: 0 };
    let mut machine = Medium::new(cell.phy, cell.timing, true);
    let stations: Vec<_> = (0..places.len())
        .map(|index| {
            let backoff = streams.stream(&format!("station {index}"), "back-off");
            machine.add_station(cell.parameters, cell.queue(), backoff)
        })
        .collect();
    let mut pair = |ends: &[usize; 2]| {
        let ends = ends.map(|end| stations[end]);
        machine.add_pair(ends, cell.rates, Channel::Clean(Clean {}))
    };
    let pairs = pairs.iter().map(&mut pair).collect();
    let places: Vec<_> = places.iter().map(|&x| at(x)).collect();
    machine.place(propagation, &places);
    Built { machine, pairs, stations }.reporting()
}

/// Two stations out of range of each other, with an access point between them.
fn hidden(cell: Cell) -> Built {
    spread(cell, &no_farther(), &[0, 240, 480], &[[0, 1], [2, 1]])
}

/// Kinds, starts and fates of the frames of a pair.
fn of_pair(log: &Log, pair: usize) -> Vec<(AirFrame, u64, AirFate)> {
    let frames = log.frames.iter().filter(|frame| frame.0 == pair);
    frames.map(|&(_, kind, start, _, fate)| (kind, start, fate)).collect()
}

fn once(mut cell: Cell) -> Cell {
    cell.parameters.short_retry_limit = 1;
    cell
}

/// Two hidden senders, the second one `offset` after the first: whether their data is received.
fn overlap(offset: u64) -> [bool; 2] {
    let (mut cell, mut log) = (hidden(once(without_backoff())), Log::default());
    cell.put(micros(1_000), 0, 1040, &mut log);
    cell.put(Instant::from_nanos(1_000_000 + offset), 1, 1040, &mut log);
    cell.run(Instant::NEVER, &mut log);
    [0, 1].map(|pair| of_pair(&log, pair)[0].2 == AirFate::Received)
}

#[test]
fn hidden_senders_destroy_each_other_while_they_overlap() {
    for (offset, received) in [
        (0, [false, false]),
        (1, [false, false]),
        (FRAME - 1, [false, false]),
        // The access point is about to respond to the first sender, and cannot receive the second
        // one.
        (FRAME, [true, false]),
        (FRAME + 9_999, [true, false]),
        (FRAME + 10_000, [true, false]),
        // The second sender receives the acknowledgment and waits.
        (FRAME + 10_001, [true, true]),
        (FRAME + 300_000, [true, true]),
    ] {
        assert_eq!(overlap(offset), received, "{offset}");
    }
}

/// Frames begin every T and overlap those of another sender at a uniform phase: the fraction (2 L +
/// SIFS) / T is lost. 1,000 evenly spaced phases of a period of 5 ms, so that the fraction is exact
/// to one phase at each end.
#[test]
fn the_share_that_hidden_senders_lose_has_its_closed_form() {
    let (period, phases) = (5_000_000u64, 1_000u64);
    let mut lost = 0u64;
    for phase in 0..phases {
        // The frames of the first sender are one period apart; those of the other one follow by
        // `offset`.
        let offset = phase * period / phases;
        let (mut cell, mut log) = (hidden(once(without_backoff())), Log::default());
        for round in 0..2u64 {
            let start = 1_000_000 + round * period;
            cell.put(Instant::from_nanos(start), 0, 1040, &mut log);
            if round == 0 {
                cell.put(Instant::from_nanos(start + offset), 1, 1040, &mut log);
            }
        }
        cell.run(Instant::NEVER, &mut log);
        lost += u64::from(of_pair(&log, 1)[0].2 == AirFate::Collided);
    }
    let expected = (2 * FRAME + 10_000) as f64 / period as f64;
    let share = lost as f64 / phases as f64;
    assert!((share - expected).abs() <= 2.0 / phases as f64, "{share} {expected}");
}

#[test]
fn an_exposed_station_waits_though_it_would_disturb_nobody() {
    // 0 <- 200   500 -> 700: the senders sense but do not read each other.
    let build =
        || spread(once(without_backoff()), &ranges(), &[0, 200, 500, 700], &[[1, 0], [2, 3]]);
    let (mut cell, mut log) = (build(), Log::default());
    cell.put(micros(1_000), 0, 1040, &mut log);
    cell.put(micros(1_500), 1, 1040, &mut log);
    cell.run(Instant::NEVER, &mut log);
    // The station also senses the acknowledgment, 500 m away, and reads neither frame: EIFS.
    let ack_end = 1_000_000 + FRAME + 258_000;
    assert_eq!(of_pair(&log, 1)[0], (DATA, ack_end + 364_000, AirFate::Received));
    // Simultaneous frames are both received: the other sender is 2.5 times as far away, 15.9 dB
    // weaker.
    let (mut cell, mut log) = (build(), Log::default());
    cell.put(Instant::ZERO, 0, 1040, &mut log);
    cell.put(Instant::ZERO, 1, 1040, &mut log);
    cell.run(Instant::NEVER, &mut log);
    for pair in [0, 1] {
        assert_eq!(of_pair(&log, pair)[0], (DATA, 50_000, AirFate::Received));
    }
    assert_eq!(log.acknowledged, 2);
}

#[test]
fn the_nearer_of_two_colliding_stations_is_read() {
    let mut cell = without_backoff();
    cell.parameters.short_retry_limit = 2;
    // 50 m and 200 m from the access point: 4 times as far, more than 10 dB.
    let build = |propagation| spread(cell, &propagation, &[150, 200, 400], &[[0, 1], [2, 1]]);
    let (mut near_first, mut log) = (build(ranges()), Log::default());
    near_first.put(Instant::ZERO, 0, 1040, &mut log);
    near_first.put(Instant::ZERO, 1, 1040, &mut log);
    near_first.run(Instant::NEVER, &mut log);
    assert_eq!(of_pair(&log, 0)[0], (DATA, 50_000, AirFate::Received));
    let far = of_pair(&log, 1);
    assert_eq!(far[0], (DATA, 50_000, AirFate::Collided));
    // The station receives the acknowledgment of another station, and continues DIFS after it.
    let ack_end = 50_000 + FRAME + 258_000;
    assert_eq!(far[1], (AGAIN, ack_end + 50_000, AirFate::Received));
    // Without capture both frames are lost, also when repeated.
    let (mut none, mut log) =
        (build(Propagation { capture_threshold: None, ..ranges() }), Log::default());
    none.put(Instant::ZERO, 0, 1040, &mut log);
    none.put(Instant::ZERO, 1, 1040, &mut log);
    none.run(Instant::NEVER, &mut log);
    assert_eq!((log.abandoned, log.acknowledged), (2, 0));
}

#[test]
fn a_receiver_stays_with_the_first_frame_or_takes_the_strongest() {
    // 240 m on one side, 100 m on the other: the stations are out of range of each other.
    let received = |capture, [first, second]: [usize; 2]| {
        let propagation = Propagation { capture, ..no_farther() };
        let cell = once(without_backoff());
        let mut cell = spread(cell, &propagation, &[0, 240, 340], &[[0, 1], [2, 1]]);
        let mut log = Log::default();
        cell.put(micros(1_000), first, 1040, &mut log);
        cell.put(micros(1_500), second, 1040, &mut log);
        cell.run(Instant::NEVER, &mut log);
        [0, 1].map(|pair| of_pair(&log, pair)[0].2 == AirFate::Received)
    };
    let (far, near) = (0, 1);
    assert_eq!(received(Capture::First, [far, near]), [false, false]);
    assert_eq!(received(Capture::Strongest, [far, near]), [false, true]);
    for capture in [Capture::First, Capture::Strongest] {
        assert_eq!(received(capture, [near, far]), [false, true]);
    }
}

#[test]
fn only_who_reads_a_frame_sets_its_nav() {
    let mut cell = once(without_backoff());
    cell.parameters.rts_threshold = Bytes::new(0);
    // The second sender receives the CTS of the access point but not the RTS of the first sender.
    let (mut cell, mut log) = (hidden(cell), Log::default());
    cell.put(micros(1_000), 0, 1040, &mut log);
    cell.put(micros(2_000), 1, 1040, &mut log);
    cell.run(Instant::NEVER, &mut log);
    let data = 1_000_000 + 272_000 + 10_000 + 248_000 + 10_000;
    let over = data + FRAME + 258_000;
    assert_eq!(of_pair(&log, 0)[2], (DATA, data, AirFate::Received));
    // It arrives during the first sender's data, which the second sender cannot sense.
    assert_eq!(of_pair(&log, 1)[0], (AirFrame::Rts, over + 50_000, AirFate::Received));
    assert_eq!(log.acknowledged, 2);
    // Without RTS, the second sender transmits immediately, during the data.
    let (mut cell, mut log) = (hidden(once(without_backoff())), Log::default());
    cell.put(micros(1_000), 0, 1040, &mut log);
    cell.put(micros(1_500), 1, 1040, &mut log);
    cell.run(Instant::NEVER, &mut log);
    assert_eq!(of_pair(&log, 1)[0], (DATA, 1_500_000, AirFate::Collided));
    assert_eq!(log.abandoned, 2);
}

/// A station that receives an RTS but not the response may continue after 2 SIFS, a CTS and 2
/// slots, even if the announced exchange would last longer.
#[test]
fn the_nav_of_an_rts_that_nothing_follows_is_reset() {
    let mut cell = once(without_backoff());
    cell.parameters.rts_threshold = Bytes::new(0);
    // 0 is out of range of 1; 2 receives 1 only.
    let (mut cell, mut log) =
        (spread(cell, &no_farther(), &[0, 240, 480], &[[1, 0], [2, 1]]), Log::default());
    cell.machine.set_away(cell.stations[0], &[[Instant::ZERO, micros(1_000_000)]]);
    cell.put(micros(1_000), 0, 1040, &mut log);
    cell.put(micros(1_100), 1, 1040, &mut log);
    cell.run(micros(5_000), &mut log);
    let rts_end = 1_000_000 + 272_000;
    let reset = rts_end + 20_000 + 248_000 + 40_000;
    assert_eq!(of_pair(&log, 0)[0], (AirFrame::Rts, 1_000_000, AirFate::Damaged));
    assert_eq!(of_pair(&log, 1)[0].1, reset + 50_000);
}

#[test]
fn a_receiver_whose_nav_runs_does_not_answer_an_rts() {
    let mut cell = once(without_backoff());
    cell.parameters.rts_threshold = Bytes::new(0);
    // 0 -> 240, and 960 -> 720 -> 480: the station at 480 senses the exchange of 720 and not that
    // of 0.
    let places = [0, 240, 480, 720];
    let (mut cell, mut log) =
        (spread(cell, &no_farther(), &places, &[[0, 1], [2, 3]]), Log::default());
    // 480 sends an RTS to 720, whose CTS 240 does not receive; 240 receives the RTS and defers
    // until the data has ended.
    cell.put(micros(1_000), 1, 1040, &mut log);
    cell.put(micros(1_600), 0, 1040, &mut log);
    cell.run(Instant::NEVER, &mut log);
    let first = of_pair(&log, 0)[0];
    assert_eq!((first.0, first.1), (AirFrame::Rts, 1_600_000));
    assert_eq!(first.2, AirFate::Collided, "it comes into the data of 480");
    assert_eq!((log.acknowledged, log.abandoned), (1, 1));
    let counters = cell.machine.pair_counters(cell.pairs[0]);
    assert_eq!((counters.collisions, counters.errors), (1, 0));
}

/// Keeps two packets waiting for each pair until `until`; returns the frames.
fn saturate(mut built: Built, pairs: &[usize], until: Instant) -> (Built, Log) {
    let mut log = Log::default();
    let mut now = Instant::ZERO;
    while now < until {
        for &pair in pairs {
            while built.machine.queued(now, built.pairs[pair]) < 2 {
                built.machine.enqueue(now, built.pairs[pair], vec![0; 1040]);
            }
        }
        now = built.machine.next_timeout();
        built.machine.handle_timeout(now);
        built.note(now, &mut log);
    }
    (built, log)
}

/// Without RTS most attempts overlap, as each of them lasts longer than the mean of the first
/// backoffs. With RTS, attempts overlap only if they begin within an RTS and SIFS: still two in
/// three of the first attempts (14 of 32 slots). Packets are therefore discarded with RTS, too, but
/// fewer. Data is disturbed if one sender has missed the CTS of the other, because it began during
/// the preceding SIFS.
#[test]
fn rts_and_cts_cure_hidden_stations() {
    let share = |threshold: u64| {
        let mut cell = Cell::b();
        cell.parameters.rts_threshold = Bytes::new(threshold);
        let (_, log) = saturate(hidden(cell), &[0, 1], micros(20_000_000));
        let data = log.frames.iter().filter(|frame| matches!(frame.1, AirFrame::Data { .. }));
        let collided = data.clone().filter(|frame| frame.4 == AirFate::Collided).count();
        (collided as f64 / data.count() as f64, log.abandoned)
    };
    let (without, given_up) = share(65_535);
    let (with, fewer) = share(0);
    assert!(without > 0.3 && with < 0.02, "{without} {with}");
    assert!(given_up > fewer, "{given_up} {fewer}");
}

/// The cells of Subramanian et al.: node 1 sends to its base station, 240 m away; the base station
/// of the other cell, 400 m beyond, cannot sense node 1 and disturbs its frames.
#[test]
fn a_second_cell_shuts_out_a_hidden_sender() {
    let places = [0, 240, 640, 840];
    let build = || spread(Cell::b(), &ranges(), &places, &[[0, 1], [2, 3]]);
    let until = micros(10_000_000);
    let (built, _) = saturate(build(), &[0, 1], until);
    let upload = built.machine.pair_counters(built.pairs[0]);
    assert!(upload.abandoned > 20 * upload.acknowledged, "{upload:?}");
    let download = built.machine.pair_counters(built.pairs[1]);
    let (alone, _) = saturate(build(), &[1], until);
    let undisturbed = alone.machine.pair_counters(alone.pairs[1]);
    assert!(download.acknowledged as f64 > 0.9 * undisturbed.acknowledged as f64);
    assert_eq!(undisturbed.abandoned, 0);
}

/// Runs a load on a cell of four stations, with or without positions.
fn play(
    loads: &[Load],
    loss: f64,
    rts: u64,
    seed: u64,
    places: Option<&[u64]>,
    wakes: bool,
) -> Log {
    let mut cell = Cell { seed, control_errors: rts > 2_000, ..Cell::b() };
    cell.parameters.rts_threshold = Bytes::new(rts);
    let streams = Streams { seed, replication: 0 };
    let p = Probability::new(loss).expect("a probability");
    let channel = |pair| Channel::Uniform(Uniform::new(p, &streams, &format!("pair {pair}")));
    let (mut cell, mut log) = (cell.build_with(4, channel).reporting(), Log::default());
    if let Some(places) = places {
        let places: Vec<_> = places.iter().map(|&x| at(x)).collect();
        let none = Propagation { capture_threshold: None, ..ranges() };
        cell.machine.place(&none, &places);
    }
    let mut now = Instant::ZERO;
    let mut accepted = 0;
    for load in loads {
        now += Duration::from_nanos(load.gap_us * 1_000 + 1);
        cell.run(now, &mut log);
        if wakes {
            cell.machine.handle_timeout(now);
            cell.note(now, &mut log);
            assert!(cell.machine.poll_deliver().is_none(), "no output without progress");
        }
        let packet = vec![0; load.bytes];
        accepted += usize::from(cell.machine.enqueue(now, cell.pairs[load.pair], packet));
        cell.note(now, &mut log);
    }
    let mut last = now;
    while cell.machine.next_timeout() < Instant::NEVER {
        last = cell.machine.next_timeout();
        cell.machine.handle_timeout(last);
        cell.note(last, &mut log);
    }
    assert_eq!(log.acknowledged + log.abandoned, accepted, "no stall");
    let counters = cell.machine.counters(last);
    let used = [counters.success_time, counters.collision_time, counters.error_time];
    let used: u64 = used.iter().map(|time| time.as_nanos()).sum();
    assert!(used <= last.as_nanos(), "a moment counts once");
    log.frames.sort_by_key(|&(pair, _, start, end, _)| (start, end, pair));
    log.backoffs.sort_by_key(|&(station, ..)| station);
    log
}

/// Positions of five stations, the last of which is the access point.
fn places() -> impl Strategy<Value = Vec<u64>> {
    prop::collection::vec(200u64..700, 4).prop_map(|mut places| {
        places.push(450);
        places
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// The state machine with sensing per station against the one with a common slot count. The
    /// latter simplifies two cases, which are excluded here:
    ///
    /// - Noise on control frames with RTS: after a CTS that its sender could not read, all stations
    ///   count from the end of the next exchange, though the NAV of that CTS may last longer.
    /// - Packets that arrive during an acknowledgment: if the following backoff has 0 slots, the
    ///   sender samples again. Packets arrive in groups here, 2 s apart.
    #[test]
    fn where_everybody_hears_everybody_both_machines_send_the_same_frames(
        loads in prop::collection::vec(load(), 1..80),
        loss in prop_oneof![Just(0.0), 0.0f64..0.5],
        rts in prop_oneof![Just(0u64), Just(500), Just(65_535)],
        seed in 0u64..1_000,
    ) {
        let mut loads = loads;
        for load in &mut loads {
            load.gap_us = if load.gap_us < 3_000 { 0 } else { 2_000_000 };
        }
        let together = play(&loads, loss, rts, seed, None, false);
        let spread = play(&loads, loss, rts, seed, Some(&[0; 5]), false);
        for (number, both) in together.frames.iter().zip(&spread.frames).enumerate() {
            let before = &together.frames[number.saturating_sub(4)..number];
            prop_assert_eq!(both.0, both.1, "after {:?}", before);
        }
        prop_assert_eq!(together.frames.len(), spread.frames.len());
        prop_assert_eq!(&together.delivered, &spread.delivered);
        let outcomes = |log: &Log| [log.acknowledged, log.abandoned, log.retrying];
        prop_assert_eq!(outcomes(&together), outcomes(&spread));
        let slots = |log: &Log| -> Vec<_> {
            log.backoffs.iter().map(|&(station, _, slots)| (station, slots)).collect()
        };
        prop_assert_eq!(slots(&together), slots(&spread));
    }

    /// With stations at any positions: the medium does not stall, delivers no packet twice,
    /// delivers packets of a pair in order, no station transmits two frames simultaneously, airtime
    /// is counted once, and spurious wake-ups have no effect.
    #[test]
    fn properties_of_stations_in_any_place(
        loads in prop::collection::vec(load(), 1..80),
        loss in 0.0f64..0.5,
        rts in prop_oneof![Just(0u64), Just(500), Just(65_535)],
        seed in 0u64..1_000,
        places in places(),
    ) {
        let log = play(&loads, loss, rts, seed, Some(&places), false);
        prop_assert_eq!(&log, &play(&loads, loss, rts, seed, Some(&places), true));
        prop_assert_eq!(&log, &play(&loads, loss, rts, seed, Some(&places), false));
        let mut last = [None; 8];
        let mut clear = [0; 5];
        for &(pair, kind, start, end, fate) in &log.frames {
            let is_answer = matches!(kind, AirFrame::Cts | AirFrame::Ack);
            let from = if (pair % 2 == 0) == is_answer { 4 } else { pair / 2 };
            prop_assert!(start >= clear[from], "one frame at a time");
            clear[from] = end;
            if let (AirFrame::Data { sequence, is_retry }, AirFate::Received) = (kind, fate) {
                prop_assert!(last[pair].is_none_or(|last| last < sequence || is_retry && last == sequence));
                last[pair] = Some(sequence);
            }
        }
    }
}
