//! The state machine of 802.11 DCF: hand-computed traces, and a cell of stations for other tests.

use crate::dcf_spread::ranges as everywhere;
use lasthop::channel::{
    Channel, Clean, HeaderRule, LossRecord, Trace, TraceEnd, Uniform, WithHeaders,
};
use lasthop::medium::dcf::{
    AirFate, AirFrame, MacParameters, Medium, MediumEvent, PairId, Phy, Position, Preamble,
    Standard, StationId, Timing, Waiting,
};
use lasthop::packet::DeliveryReport;
use lasthop::queue::{Limit, Queue};
use lasthop::rng::Streams;
use lasthop::units::{Bytes, Duration, Instant, Probability, Rate};
use proptest::prelude::*;

pub fn rate(kbps: u64) -> Rate {
    Rate::from_bps(kbps * 1_000)
}

/// Parameters of a cell of identical stations.
#[derive(Clone, Copy)]
pub struct Cell {
    pub phy: Phy,
    pub timing: Timing,
    pub parameters: MacParameters,
    /// Rates of data and of control frames.
    pub rates: [Rate; 2],
    /// Whether noise affects control frames.
    pub control_errors: bool,
    pub seed: u64,
}

/// A constructed cell: the access point is the last station; pair 2 k leads from station k to it,
/// pair 2 k + 1 back.
pub struct Built {
    pub machine: Medium<Vec<u8>>,
    pub pairs: Vec<PairId>,
    pub stations: Vec<StationId>,
}

impl Cell {
    fn new(standard: Standard, rates: [Rate; 2]) -> Self {
        let phy = Phy { standard, preamble: Preamble::Long };
        let timing = phy.timing();
        let parameters = MacParameters {
            header: Bytes::new(28),
            rts_threshold: Bytes::new(65_535),
            short_retry_limit: 7,
            long_retry_limit: 4,
            cw_min: timing.cw_min,
            cw_max: timing.cw_max,
            retry_delay: Duration::ZERO,
            rate: rates[0],
        };
        Cell { phy, timing, parameters, rates, control_errors: true, seed: 1 }
    }

    /// 802.11b at 11 Mbps, acknowledgments at 2 Mbps.
    pub fn b() -> Self {
        Cell::new(Standard::B, [rate(11_000), rate(2_000)])
    }

    /// 802.11a at 54 Mbps.
    pub fn a() -> Self {
        Cell::new(Standard::A, [rate(54_000), rate(24_000)])
    }

    /// The queue of each station.
    pub fn queue(&self) -> Queue<Waiting<Vec<u8>>> {
        Queue::drop_tail(Limit::Packets(50), self.parameters.header)
    }

    pub fn build(self, stations: usize) -> Built {
        self.build_with(stations, |_| Channel::Clean(Clean {}))
    }

    /// `channel` makes the error process of each pair.
    pub fn build_with(self, stations: usize, channel: impl Fn(usize) -> Channel) -> Built {
        let streams = Streams { seed: self.seed, replication: 0 };
        let mut machine = Medium::new(self.phy, self.timing, self.control_errors);
        let ids: Vec<_> = (0..=stations)
            .map(|index| {
                let backoff = streams.stream(&format!("station {index}"), "back-off");
                machine.add_station(self.parameters, self.queue(), backoff)
            })
            .collect();
        let mut pairs = Vec::new();
        for station in 0..stations {
            for ends in [[station, stations], [stations, station]] {
                let channel = channel(pairs.len());
                pairs.push(machine.add_pair(ends.map(|end| ids[end]), self.rates, channel));
            }
        }
        Built { machine, pairs, stations: ids }
    }
}

pub fn micros(count: u64) -> Instant {
    Instant::from_nanos(count * 1_000)
}

/// Start and end of every frame in nanoseconds, its kind and outcome, and every backoff.
#[derive(Debug, Default, PartialEq)]
pub struct Log {
    pub frames: Vec<(usize, AirFrame, u64, u64, AirFate)>,
    /// Station, start, slots.
    pub backoffs: Vec<(usize, u64, u32)>,
    /// Delivery times of packets.
    pub delivered: Vec<(usize, u64)>,
    pub abandoned: usize,
    pub retrying: usize,
    pub acknowledged: usize,
}

impl Built {
    pub fn reporting(mut self) -> Self {
        self.machine.report_events();
        self.pairs.iter().for_each(|&pair| self.machine.keep_outcomes(pair));
        self
    }

    pub fn put(&mut self, at: Instant, pair: usize, bytes: usize, log: &mut Log) {
        self.run(at, log);
        assert!(self.machine.enqueue(at, self.pairs[pair], vec![pair as u8; bytes]));
    }

    /// Runs until just before `until`.
    pub fn run(&mut self, until: Instant, log: &mut Log) {
        while self.machine.next_timeout() < until {
            let now = self.machine.next_timeout();
            self.machine.handle_timeout(now);
            self.note(now, log);
        }
    }

    pub fn note(&mut self, now: Instant, log: &mut Log) {
        while let Some(delivery) = self.machine.poll_deliver() {
            log.delivered.push((delivery.pair.index(), now.as_nanos()));
        }
        while let Some(event) = self.machine.poll_event() {
            match event {
                MediumEvent::Frame { pair, kind, start, end, fate, .. } => {
                    let [start, end] = [start, end].map(Instant::as_nanos);
                    log.frames.push((pair.index(), kind, start, end, fate));
                }
                MediumEvent::Dropped { .. } => unreachable!("its queues are drop-tail"),
                MediumEvent::Backoff { station, from, slots, .. } => {
                    log.backoffs.push((station.index(), from.as_nanos(), slots));
                }
            }
        }
        while let Some(outcome) = self.machine.poll_outcome() {
            match outcome.fate {
                DeliveryReport::Acknowledged => log.acknowledged += 1,
                DeliveryReport::Retrying => log.retrying += 1,
                DeliveryReport::Abandoned => log.abandoned += 1,
            }
        }
    }
}

/// A cell whose stations always sample a backoff of 0.
pub fn without_backoff() -> Cell {
    let mut cell = Cell::b();
    (cell.parameters.cw_min, cell.parameters.cw_max) = (0, 0);
    cell
}

pub const DATA: AirFrame = AirFrame::Data { sequence: 0, is_retry: false };
pub const AGAIN: AirFrame = AirFrame::Data { sequence: 0, is_retry: true };

/// 1040 B in a frame of 1068 B: 192 us + 8544 / 11 us = 968.728 us, rounded up; an acknowledgment at
/// 2 Mbps 192 + 56 = 248 us; SIFS 10, DIFS 50, EIFS 364, timeout 222 us.
pub const FRAME: u64 = 968_728;

#[test]
fn one_station_sends_at_once_and_then_after_difs_and_backoff() {
    let (mut cell, mut log) = (without_backoff().build(1).reporting(), Log::default());
    cell.put(micros(1_000), 0, 1040, &mut log);
    cell.put(micros(1_001), 0, 1040, &mut log);
    cell.run(micros(10_000), &mut log);
    let first = [1_000_000, 1_000_000 + FRAME];
    let ack = [first[1] + 10_000, first[1] + 258_000];
    let second = [ack[1] + 50_000, ack[1] + 50_000 + FRAME];
    let next = AirFrame::Data { sequence: 1, is_retry: false };
    let received = AirFate::Received;
    assert_eq!(
        log.frames[..3],
        [
            (0, DATA, first[0], first[1], received),
            (0, AirFrame::Ack, ack[0], ack[1], received),
            (0, next, second[0], second[1], received),
        ]
    );
    assert_eq!(log.delivered, [(0, first[1]), (0, second[1])]);
}

#[test]
fn two_stations_with_equal_slots_collide_until_their_limit() {
    let mut cell = without_backoff();
    cell.parameters.short_retry_limit = 3;
    let (mut cell, mut log) = (cell.build(2).reporting(), Log::default());
    cell.put(Instant::ZERO, 0, 1040, &mut log);
    cell.put(Instant::ZERO, 2, 1040, &mut log);
    cell.run(micros(10_000), &mut log);
    // From the end of a frame to the next one: timeout and DIFS.
    let round = FRAME + 222_000 + 50_000;
    let starts = [50_000, 50_000 + round, 50_000 + 2 * round];
    for (attempt, start) in starts.into_iter().enumerate() {
        let kind = if attempt == 0 { DATA } else { AGAIN };
        for (place, pair) in [0, 2].into_iter().enumerate() {
            let frame = (pair, kind, start, start + FRAME, AirFate::Collided);
            assert!(log.frames[2 * attempt..2 * attempt + 2].contains(&frame), "{place} {attempt}");
        }
    }
    assert_eq!((log.frames.len(), log.abandoned, log.retrying), (6, 2, 2));
    assert_eq!(log.acknowledged, 0);
    assert!(log.delivered.is_empty());
    let counters = cell.machine.pair_counters(cell.pairs[0]);
    assert_eq!((counters.attempts, counters.retries, counters.collisions), (3, 2, 3));
    assert_eq!(cell.machine.counters(micros(10_000)).collisions, 3);
}

#[test]
fn the_loser_freezes_and_goes_on_with_the_slots_that_are_left() {
    let mut seen = 0;
    for seed in 0..20 {
        let (mut cell, mut log) = (Cell { seed, ..Cell::b() }.build(2).reporting(), Log::default());
        cell.put(Instant::ZERO, 0, 1040, &mut log);
        cell.put(Instant::ZERO, 2, 1040, &mut log);
        cell.run(micros(20_000), &mut log);
        let [(a, from_a, slots_a), (b, from_b, slots_b)] = log.backoffs[..2] else {
            panic!("two backoffs")
        };
        assert_eq!((a, b, from_a, from_b), (0, 1, 50_000, 50_000));
        if slots_a == slots_b {
            continue;
        }
        seen += 1;
        let (first, second) = if slots_a < slots_b { (0, 2) } else { (2, 0) };
        let (few, many) = (u64::from(slots_a.min(slots_b)), u64::from(slots_a.max(slots_b)));
        let start: u64 = 50_000 + 20_000 * few;
        let over = start + FRAME + 258_000;
        let then = over + 50_000 + 20_000 * (many - few);
        let data: Vec<_> = log.frames.iter().filter(|frame| frame.1 == DATA).collect();
        assert_eq!((data[0].0, data[0].2), (first, start), "seed {seed}");
        assert_eq!((data[1].0, data[1].2), (second, then), "seed {seed}");
    }
    assert!(seen > 10, "most draws differ");
}

#[test]
fn a_long_frame_follows_rts_and_cts() {
    let mut cell = without_backoff();
    cell.parameters.rts_threshold = Bytes::new(1067);
    let (mut cell, mut log) = (cell.build(1).reporting(), Log::default());
    cell.put(micros(1_000), 0, 1040, &mut log);
    // A frame at the threshold is a short frame.
    cell.put(micros(5_000), 0, 1039, &mut log);
    cell.run(micros(10_000), &mut log);
    let received = AirFate::Received;
    let data = [1_540_000, 1_540_000 + FRAME];
    assert_eq!(
        log.frames[..4],
        [
            (0, AirFrame::Rts, 1_000_000, 1_272_000, received),
            (0, AirFrame::Cts, 1_282_000, 1_530_000, received),
            (0, DATA, data[0], data[1], received),
            (0, AirFrame::Ack, data[1] + 10_000, data[1] + 258_000, received),
        ]
    );
    assert!(matches!(log.frames[4], (0, AirFrame::Data { sequence: 1, .. }, 5_000_000, _, _)));
}

/// A channel that loses every frame.
fn dead() -> Channel {
    let streams = Streams { seed: 1, replication: 0 };
    Channel::Uniform(Uniform::new(Probability::new(1.0).expect("one"), &streams, "dead"))
}

#[test]
fn who_heard_damage_waits_for_eifs_and_others_for_the_nav() {
    let mut cell = without_backoff();
    cell.parameters.short_retry_limit = 1;
    // Pair 0, from the first station to the access point, loses everything.
    let dead_first = |pair| if pair == 0 { dead() } else { Channel::Clean(Clean {}) };
    let end = 1_000_000 + FRAME;
    // The receiver, which is the access point: EIFS. Another station: SIFS, acknowledgment, DIFS.
    for (pair, wait) in [(3, 364_000), (2, 308_000)] {
        let (mut cell, mut log) = (cell.build_with(2, dead_first).reporting(), Log::default());
        cell.put(micros(1_000), 0, 1040, &mut log);
        cell.put(micros(1_500), pair, 1040, &mut log);
        cell.run(micros(10_000), &mut log);
        assert_eq!(log.frames[0], (0, DATA, 1_000_000, end, AirFate::Damaged));
        let (next, _, start, ..) = log.frames[1];
        assert_eq!((next, start), (pair, end + wait));
        assert_eq!((log.abandoned, log.retrying), (1, 0));
    }
    // The sender itself: timeout, DIFS.
    cell.parameters.short_retry_limit = 2;
    let (mut cell, mut log) = (cell.build_with(2, dead_first).reporting(), Log::default());
    cell.put(micros(1_000), 0, 1040, &mut log);
    cell.run(micros(10_000), &mut log);
    assert_eq!((log.frames[1].1, log.frames[1].2), (AGAIN, end + 272_000));
    assert_eq!((log.abandoned, log.retrying), (1, 1));
}

/// A CTS is lost: its sender continues after EIFS, while others keep the NAV of that CTS (9.3.2.4).
/// Its next frame, short data or a lost RTS with a shorter reservation, does not shorten that NAV.
/// A lost RTS that has extended the NAV is the one by which it is reset. The result is the same
/// with positions.
#[test]
fn a_nav_is_raised_and_reset_as_the_standard_has_it() {
    let data = |bytes: u64| Cell::b().phy.airtime(Bytes::new(bytes + 28), rate(11_000)).as_nanos();
    let cts_end = 1_530_000;
    let again = cts_end + 364_000;
    let nav = |bytes| cts_end + 10_000 + data(bytes) + 10_000 + 248_000;
    let reset = again + 272_000 + 20_000 + 248_000 + 40_000;
    // Sizes of the two packets, attempts, the following frame, and the time at which another
    // station may send.
    for (sizes, attempts, follows, free) in [
        ([1040, 200], 1, AirFrame::Data { sequence: 1, is_retry: false }, nav(1040)),
        ([2000, 300], 1, AirFrame::Rts, nav(2000)),
        // Another copy of the packet; no frame follows it.
        ([1040, 0], 2, AirFrame::Rts, reset),
    ] {
        let mut cell = without_backoff();
        cell.parameters.rts_threshold = Bytes::new(300);
        cell.parameters.short_retry_limit = attempts;
        // The first CTS, and of the sender's frames the second, if it is an RTS.
        let losses = |pair| {
            let lost = match pair {
                0 => vec![false, follows == AirFrame::Rts],
                1 => vec![true],
                _ => vec![false],
            };
            let record = LossRecord::new(lost).expect("a frame");
            Channel::Trace(Trace::new(record, TraceEnd::Clean, 0))
        };
        for is_placed in [false, true] {
            let (mut cell, mut log) = (cell.build_with(2, losses).reporting(), Log::default());
            if is_placed {
                cell.machine.place(&everywhere(), &[Position::default(); 3]);
            }
            cell.put(micros(1_000), 0, sizes[0], &mut log);
            if attempts == 1 {
                cell.put(micros(1_000), 0, sizes[1], &mut log);
            }
            cell.put(micros(1_100), 2, 200, &mut log);
            cell.run(micros(10_000), &mut log);
            let frames = log.frames.iter().filter(|frame| frame.1 != AirFrame::Ack);
            let frames: Vec<_> = frames.map(|frame| (frame.0, frame.1, frame.2)).collect();
            let expected = [
                (0, AirFrame::Rts, 1_000_000),
                (0, AirFrame::Cts, 1_282_000),
                (0, follows, again),
                (2, DATA, free + 50_000),
            ];
            assert_eq!(frames[..4], expected, "{sizes:?}, placed: {is_placed}");
        }
    }
}

#[test]
fn who_saw_a_collision_waits_for_eifs() {
    let mut cell = without_backoff();
    cell.parameters.short_retry_limit = 1;
    let (mut cell, mut log) = (cell.build(3).reporting(), Log::default());
    cell.put(Instant::ZERO, 0, 1040, &mut log);
    cell.put(Instant::ZERO, 2, 1040, &mut log);
    cell.put(micros(500), 4, 1040, &mut log);
    cell.run(micros(10_000), &mut log);
    let (pair, _, start, _, fate) = log.frames[2];
    assert_eq!((pair, start, fate), (4, 50_000 + FRAME + 364_000, AirFate::Received));
}

#[test]
fn a_lost_acknowledgment_repeats_the_frame_but_not_the_packet() {
    let mut cell = without_backoff();
    cell.parameters.short_retry_limit = 3;
    let dead_back = |pair| if pair == 1 { dead() } else { Channel::Clean(Clean {}) };
    let (mut cell, mut log) = (cell.build_with(1, dead_back).reporting(), Log::default());
    cell.put(micros(1_000), 0, 1040, &mut log);
    cell.run(micros(10_000), &mut log);
    let data: Vec<_> = log.frames.iter().filter(|frame| frame.1 != AirFrame::Ack).collect();
    let over = 1_000_000 + FRAME + 258_000;
    assert_eq!((data.len(), data[1].1, data[1].2), (3, AGAIN, over + 364_000));
    assert_eq!(log.delivered, [(0, 1_000_000 + FRAME)]);
    let counters = cell.machine.pair_counters(cell.pairs[0]);
    assert_eq!((counters.duplicates, counters.abandoned, counters.acknowledged), (2, 1, 0));
}

/// All attempts are received with errors, the first two with a readable header: these are delivered
/// at their end, without acknowledgment. The result is the same with positions.
#[test]
fn a_damaged_frame_goes_up_when_it_ends_and_is_sent_again() {
    let mut cell = without_backoff();
    cell.parameters.short_retry_limit = 3;
    let streams = Streams { seed: 1, replication: 0 };
    let listed = |pair| match pair {
        0 => {
            let rule = HeaderRule::Listed(vec![1, 2]);
            Channel::WithHeaders(Box::new(WithHeaders::new(dead(), rule, &streams, "air")))
        }
        _ => Channel::Clean(Clean {}),
    };
    for is_placed in [false, true] {
        let mut cell = cell.build_with(1, listed);
        if is_placed {
            let positions = [Position::default(); 2];
            cell.machine.place(&everywhere(), &positions);
        }
        assert!(cell.machine.enqueue(micros(1_000), cell.pairs[0], vec![0; 1040]));
        let mut up = Vec::new();
        while cell.machine.next_timeout() < Instant::NEVER {
            let now = cell.machine.next_timeout();
            cell.machine.handle_timeout(now);
            let next = std::iter::from_fn(|| cell.machine.poll_deliver());
            up.extend(next.map(|delivery| (now.as_nanos(), delivery.is_damaged)));
        }
        let round = FRAME + 272_000;
        let end = 1_000_000 + FRAME;
        assert_eq!(up, [(end, true), (end + round, true)]);
        let counters = cell.machine.pair_counters(cell.pairs[0]);
        assert_eq!((counters.attempts, counters.abandoned, counters.errors), (3, 1, 3));
        assert_eq!(cell.machine.readable_headers(cell.pairs[0]), Some(2));
    }
}

#[test]
fn a_failed_frame_waits_for_its_retry_delay() {
    let mut cell = without_backoff();
    cell.parameters.retry_delay = Duration::from_millis(100);
    cell.parameters.short_retry_limit = 2;
    let (mut cell, mut log) = (cell.build_with(1, |_| dead()).reporting(), Log::default());
    cell.put(micros(1_000), 0, 1040, &mut log);
    cell.run(micros(300_000), &mut log);
    assert_eq!(log.frames[1].2, 1_000_000 + FRAME + 222_000 + 100_000_000);
}

#[test]
fn who_is_away_neither_hears_nor_sends() {
    let mut cell = without_backoff();
    cell.parameters.short_retry_limit = 2;
    let (mut cell, mut log) = (cell.build(1).reporting(), Log::default());
    cell.machine.set_away(cell.stations[0], &[[micros(1_000), micros(100_000)]]);
    cell.put(micros(2_000), 1, 1040, &mut log);
    cell.put(micros(50_000), 0, 1040, &mut log);
    cell.run(micros(200_000), &mut log);
    let fates: Vec<_> = log.frames.iter().map(|frame| (frame.0, frame.4)).collect();
    let damaged = AirFate::Damaged;
    let received = AirFate::Received;
    assert_eq!(fates, [(1, damaged), (1, damaged), (0, received), (0, received)]);
    assert_eq!(log.frames[2].2, 100_050_000, "DIFS after it is back");
}

/// The fraction of discarded frames is e^R, and the throughput of a saturated station is that of a
/// renewal process whose cycle is a frame: both within 5 standard errors, false-positive rate below
/// 1e-6 each.
#[test]
fn one_station_with_errors_has_its_closed_form() {
    for (loss, limit, seed) in [(0.1, 1, 1), (0.3, 4, 2), (0.5, 7, 3)] {
        let mut cell = Cell { seed, ..Cell::b() };
        cell.parameters.short_retry_limit = limit;
        let streams = Streams { seed, replication: 0 };
        let p = Probability::new(loss).expect("a probability");
        let mut cell = cell.build_with(1, |pair| match pair {
            0 => Channel::Uniform(Uniform::new(p, &streams, "air")),
            _ => Channel::Clean(Clean {}),
        });
        let pair = cell.pairs[0];
        let (frames, batches) = (200_000u64, 100);
        let mut times = Vec::new();
        let mut done = 0;
        assert!(cell.machine.enqueue(Instant::ZERO, pair, vec![0; 1040]));
        while done < frames {
            let now = cell.machine.next_timeout();
            cell.machine.handle_timeout(now);
            while cell.machine.poll_deliver().is_some() {}
            while cell.machine.queued(now, pair) < 3 {
                cell.machine.enqueue(now, pair, vec![0; 1040]);
            }
            let counters = cell.machine.pair_counters(pair);
            if counters.acknowledged + counters.abandoned > done {
                done += 1;
                if done.is_multiple_of(frames / batches) {
                    times.push(now.as_secs_f64());
                }
            }
        }
        let (mut chance, mut cycle, mut cw) = (1.0, 0.0, 31.0);
        for _ in 0..limit {
            let answer = (1.0 - loss) * 258e-6 + loss * 222e-6;
            cycle += chance * (10e-6 * cw + FRAME as f64 * 1e-9 + answer + 50e-6);
            chance *= loss;
            cw = f64::min(2.0 * cw + 1.0, 1023.0);
        }
        let given_up = cell.machine.pair_counters(pair).abandoned as f64;
        let expected = chance * frames as f64;
        let error = (expected * (1.0 - chance)).sqrt();
        assert!((given_up - expected).abs() <= 5.0 * error, "{given_up}, expected {expected}");
        let lengths: Vec<f64> = times.windows(2).map(|pair| pair[1] - pair[0]).collect();
        let n = lengths.len() as f64;
        let mean = lengths.iter().sum::<f64>() / n;
        let variance = lengths.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / (n - 1.0);
        let expected = cycle * (frames / batches) as f64;
        let error = (variance / n).sqrt();
        assert!((mean - expected).abs() <= 5.0 * error, "{mean}, expected {expected} ± {error}");
    }
}

#[derive(Clone, Debug)]
pub struct Load {
    pub gap_us: u64,
    pub pair: usize,
    pub bytes: usize,
}

pub fn load() -> impl Strategy<Value = Load> {
    (0u64..4_000, 0usize..8, 1usize..1_500).prop_map(|(gap_us, pair, bytes)| Load {
        gap_us,
        pair,
        bytes,
    })
}
