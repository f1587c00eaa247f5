//! Hybrid ARQ: ladder diagrams computed by hand, properties, real bytes. Closed forms and published
//! figures are in `link_harq_figures.rs`. Without a retry limit it is among the reliable protocols
//! of `link_properties.rs`.

use crate::common::*;
use crate::links_on_bytes::{file, through_bytes};
use lasthop_base::rng::Streams;
use lasthop_base::units::{Bytes, Duration, Instant, Rate};
use lasthop_link::link::harq::wire::{HarqWireError, HarqWireWindow, decode, encode};
use lasthop_link::link::{
    BytesError, Deviation, Endpoint, Erasures, Feedback, FrameKind, Harq, HarqMode, HarqParameters,
    LinkEndpoint, LinkEvent, Proactive, Reactive,
};
use proptest::prelude::*;

const MS: u64 = 1_000_000;

pub fn millis(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

pub fn seconds(seconds: u64) -> Instant {
    Instant::from_nanos(seconds * 1000 * MS)
}

/// 200 kbps, 20 ms, blocks of 5 units of 50 B, of which 10 B are header: 10 ms. Feedback frames of
/// 1 ms arrive 51 ms after the start of the block; the timer expires after 52 ms.
fn ladder_parameters() -> HarqParameters {
    HarqParameters {
        rate: Rate::from_bps(200_000),
        header: Bytes::new(10),
        control: Bytes::new(25),
        ..harq(5, millis(42))
    }
}

/// The units that survive in the first transmissions, as bit masks. All later ones are intact.
fn arriving(masks: &'static [u64]) -> UnitFate {
    Box::new(move |index, _| masks.get(index as usize).copied().unwrap_or(u64::MAX))
}

fn ladder(
    parameters: HarqParameters,
    packets: u64,
    masks: &'static [u64],
    [there, back]: [Fate; 2],
) -> (Link<Token>, Vec<String>) {
    let ends = Protocol::Harq(parameters).ends();
    let air = (Rate::from_bps(200_000), millis(20));
    let mut link = Link::new(ends, air, [tokens(packets, 200), tokens(0, 0)], [there, back]);
    link.unit_fates[0] = Some(arriving(masks));
    link.log = Some(Vec::new());
    link.strict = true;
    link.run(Instant::NEVER);
    let lines = link.log.take().expect("a log").into_iter().map(|(start, side, kind, ack)| {
        assert_eq!(start.as_nanos() % MS, 0);
        let (ms, end) = (start.as_nanos() / MS, ["A", "B"][side]);
        match kind {
            FrameKind::Block { sequence, units, behind, .. } => format!(
                "{ms} {end} block {sequence} of {}, units {}+{}, behind {behind}",
                units.data, units.first, units.units
            ),
            FrameKind::Feedback { sequence, first, received, needed } => {
                let ack = ack.expect("always one");
                format!("{ms} {end} {sequence} from {first}: {received}, needs {needed} ack {ack}")
            }
            FrameKind::Skip { next } => format!("{ms} {end} skip {next}"),
            FrameKind::SkipAck { next } => format!("{ms} {end} skipped {next} ack {ack:?}"),
            other => panic!("hybrid ARQ has no {other:?}"),
        }
    });
    let lines = lines.collect();
    (link, lines)
}

pub fn numbers(link: &Link<Token>) -> Vec<u64> {
    link.delivered[1].iter().map(|token| token.number).collect()
}

#[test]
fn a_disruption_is_waited_out_with_single_packets() {
    use LinkEvent::{Disrupted, Restored, Retransmitted, TimedOut};
    // Transmissions 1 to 4 are lost.
    let masks = &[u64::MAX, 0, 0, 0, 0];
    let (link, lines) = ladder(ladder_parameters(), 4, masks, [clean(), clean()]);
    assert_eq!(
        lines,
        [
            "0 A block 0 of 5, units 0+5, behind 0",
            "10 A block 1 of 5, units 0+5, behind 1", // lost
            "20 A block 2 of 5, units 0+5, behind 2", // lost
            "30 A block 3 of 5, units 0+5, behind 3", // lost
            "30 B 0 from 0: 5, needs 0 ack 1",
            // The timer of block 1: one block at a time from here on.
            "62 A block 1 of 5, units 5+5, behind 0", // lost
            "114 A block 1 of 5, units 10+5, behind 0", // answered at 165
            "144 B 1 from 10: 5, needs 0 ack 2",
            "165 A block 2 of 5, units 5+5, behind 0",
            "175 A block 3 of 5, units 5+5, behind 1",
            "195 B 2 from 5: 5, needs 0 ack 3",
            "205 B 3 from 5: 5, needs 0 ack 4",
        ]
    );
    assert_eq!(numbers(&link), [0, 1, 2, 3]);
    assert_eq!(
        link.events[0],
        [
            TimedOut { sequence: 1 },
            Disrupted { sequence: 1 },
            Retransmitted { sequence: 1 },
            TimedOut { sequence: 2 },
            TimedOut { sequence: 3 },
            TimedOut { sequence: 1 },
            Retransmitted { sequence: 1 },
            Restored { sequence: 1 },
            Retransmitted { sequence: 2 },
            Retransmitted { sequence: 3 },
        ]
    );
    let [sender, receiver] = link.ends.each_ref().map(|end| end.counters());
    assert_eq!((sender.data_frames, sender.retransmissions, sender.timeouts), (4, 4, 4));
    assert_eq!((sender.packets, sender.parities), (4, 20));
    assert_eq!((receiver.acks, receiver.recovered), (4, 3), "parity alone decodes 1, 2 and 3");
}

#[test]
fn a_packet_that_is_given_up_is_skipped() {
    let parameters = HarqParameters { max_transmissions: Some(2), ..ladder_parameters() };
    let masks = &[0, u64::MAX, 0];
    // The first skip is lost: frame 3 of this direction.
    let (link, lines) = ladder(parameters, 2, masks, [losing(&[3]), clean()]);
    assert_eq!(
        lines,
        [
            "0 A block 0 of 5, units 0+5, behind 0", // lost
            "10 A block 1 of 5, units 0+5, behind 1",
            "40 B 1 from 0: 5, needs 0 ack 0",
            "52 A block 0 of 5, units 5+5, behind 0", // lost
            "104 A skip 2",                           // lost
            "147 A skip 2",
            "168 B skipped 2 ack Some(2)",
        ]
    );
    assert_eq!(numbers(&link), [1]);
    let [sender, receiver] = link.ends.each_ref().map(|end| end.counters());
    assert_eq!((sender.abandoned, sender.packets_abandoned, sender.packets), (1, 1, 2));
    assert_eq!(receiver.skipped, 1);
}

/// A disruption begins within a transmission: three of five units arrive, and no units of the next
/// transmission. Received units count: two units of the last permitted transmission are enough.
/// With only one unit the packet is abandoned.
#[test]
fn units_from_before_a_disruption_count_after_it() {
    let parameters = HarqParameters { max_transmissions: Some(3), ..ladder_parameters() };
    let enough: &'static [u64] = &[0b00111, 0, 0b00011];
    let too_few: &'static [u64] = &[0b00111, 0, 0b00001];
    for (masks, delivered, abandoned) in [(enough, vec![0], 0), (too_few, vec![], 1)] {
        let (link, lines) = ladder(parameters, 1, masks, [clean(), clean()]);
        let blocks = lines.iter().filter(|line| line.contains(" A block 0 ")).count();
        assert_eq!((numbers(&link), blocks), (delivered, 3), "{lines:#?}");
        let [sender, receiver] = link.ends.each_ref().map(|end| end.counters());
        assert_eq!((sender.abandoned, receiver.skipped), (abandoned, abandoned), "{lines:#?}");
        assert!(link.events[0].contains(&LinkEvent::Disrupted { sequence: 0 }), "{lines:#?}");
    }
}

#[test]
fn units_of_all_transmissions_count() {
    // 3 of 5, then 2 of 5: together the number of data units.
    let masks = &[0b0_0111, 0b1_0001];
    for (reactive, again, bytes) in [(Reactive::Full, 5, 250), (Reactive::Needed, 2, 100)] {
        let parameters = HarqParameters { reactive, ..ladder_parameters() };
        let masks = if again == 5 { masks } else { &[0b0_0111, 0b11] };
        let (link, lines) = ladder(parameters, 1, masks, [clean(), clean()]);
        // The transmission of 2 units takes 4 ms.
        let answer = 51 + bytes / 25 + 20;
        assert_eq!(
            lines,
            [
                "0 A block 0 of 5, units 0+5, behind 0".to_owned(),
                "30 B 0 from 0: 3, needs 2 ack 0".to_owned(),
                format!("51 A block 0 of 5, units 5+{again}, behind 0"),
                format!("{answer} B 0 from 5: 2, needs 0 ack 1"),
            ]
        );
        assert_eq!(numbers(&link), [0]);
        assert_eq!(link.events[1][0], LinkEvent::NackSent { sequence: 0 });
        assert_eq!(link.events[1][1], LinkEvent::Recovered { sequence: 0 });
    }
}

#[test]
fn an_answer_may_wait_for_the_next_frame() {
    // The last units of packet 0 are lost: its feedback is sent together with that of packet 1.
    // Packet 2 lacks a unit before its last one, which indicates its end.
    let feedback = Feedback::NextFrame;
    let parameters = HarqParameters { feedback, timeout: millis(60), ..ladder_parameters() };
    let masks = &[0b0_0111, u64::MAX, 0b1_0111];
    let (link, lines) = ladder(parameters, 3, masks, [clean(), clean()]);
    let answers: Vec<_> = lines.iter().filter(|line| line.contains(" B ")).collect();
    assert_eq!(
        answers[..3],
        [
            "40 B 0 from 0: 3, needs 2 ack 0",
            "41 B 1 from 0: 5, needs 0 ack 0",
            "50 B 2 from 0: 4, needs 1 ack 0"
        ],
        "{lines:#?}"
    );
    assert_eq!(numbers(&link), [0, 1, 2]);
    assert_eq!(link.ends[0].counters().timeouts, 0);
}

#[test]
fn the_answer_to_a_later_frame_reveals_a_lost_one() {
    // Packet 1 is lost as a whole. Its timer would expire at 220 ms; the feedback for packet 2
    // arrives at 71 ms.
    let erasures = Erasures::LaterFrame;
    let mode = HarqMode::Pipelined;
    let parameters = HarqParameters { erasures, mode, timeout: millis(200), ..ladder_parameters() };
    let masks = &[u64::MAX, 0];
    let (link, lines) = ladder(parameters, 3, masks, [clean(), clean()]);
    assert!(lines.contains(&"71 A block 1 of 5, units 5+5, behind 0".to_owned()), "{lines:#?}");
    assert_eq!(numbers(&link), [0, 1, 2]);
    assert_eq!(link.ends[0].counters().timeouts, 0);
}

#[test]
fn packets_may_be_delivered_out_of_order() {
    let parameters = HarqParameters { in_order: false, ..ladder_parameters() };
    let masks = &[u64::MAX, 0b0_0111];
    let (link, _) = ladder(parameters, 4, masks, [clean(), clean()]);
    assert_eq!(numbers(&link), [0, 2, 3, 1]);
    // Out-of-order packets before an abandoned one are neither lost nor delivered twice.
    let parameters = HarqParameters { max_transmissions: Some(1), ..parameters };
    let (link, _) = ladder(parameters, 4, masks, [clean(), clean()]);
    assert_eq!(numbers(&link), [0, 2, 3]);
    assert_eq!(link.ends[1].counters().skipped, 1);
}

/// Parts of three units and of two units, 2 ms per unit. The second part of packet 0, frame 2, is
/// lost. When its timer expires, some units have been received, and this is not a disruption. The
/// packet only needs the first part of its retransmission.
#[test]
fn units_of_packets_take_turns() {
    let parameters = HarqParameters { interleave: 2, ..ladder_parameters() };
    let masks = &[u64::MAX, u64::MAX, 0];
    let (link, lines) = ladder(parameters, 3, masks, [clean(), clean()]);
    assert_eq!(
        lines,
        [
            "0 A block 0 of 5, units 0+3, behind 0",
            "6 A block 1 of 5, units 0+3, behind 1",
            "12 A block 0 of 5, units 3+2, behind 0", // lost
            "16 A block 2 of 5, units 0+3, behind 2",
            "22 A block 1 of 5, units 3+2, behind 1",
            "26 A block 2 of 5, units 3+2, behind 2",
            "26 B 0 from 0: 3, needs 2 ack 0",
            "32 B 1 from 0: 3, needs 2 ack 0",
            "42 B 2 from 0: 3, needs 2 ack 0",
            "46 B 1 from 3: 2, needs 0 ack 0",
            "50 B 2 from 3: 2, needs 0 ack 0",
            "58 A block 0 of 5, units 5+3, behind 0",
            "64 A block 0 of 5, units 8+2, behind 0",
            "84 B 0 from 5: 3, needs 0 ack 3",
            "88 B 0 from 8: 2, needs 0 ack 3",
        ]
    );
    assert_eq!(numbers(&link), [0, 1, 2]);
    assert_eq!(
        link.events[0],
        [LinkEvent::TimedOut { sequence: 0 }, LinkEvent::Retransmitted { sequence: 0 }]
    );
}

#[test]
fn parity_follows_the_estimate_and_repairs_at_once() {
    // Weight 1: the estimate is the last sample. With 2 of 5 units lost, 0.4 and sqrt(0.24 / 5)
    // result in 4 parity units out of 5, of 200 B each.
    let parameters = HarqParameters { estimate_weight: 1.0, window: 1, ..ladder_parameters() };
    let masks = &[0b0_0111, u64::MAX, 0b1_0000];
    let (link, lines) = ladder(parameters, 2, masks, [clean(), clean()]);
    assert_eq!(
        lines[3..],
        [
            "81 B 0 from 5: 5, needs 0 ack 1",
            "102 A block 1 of 1, units 0+5, behind 0", // 1050 B: 42 ms
            "164 B 1 from 0: 1, needs 0 ack 2",
        ]
    );
    assert_eq!(link.ends[1].counters().recovered, 2);
    // Without parity, the same packet is retransmitted.
    let none = HarqParameters { proactive: Proactive::None, ..parameters };
    let (_, lines) = ladder(none, 2, masks, [clean(), clean()]);
    assert_eq!(lines[4], "102 A block 1 of 5, units 0+5, behind 0");
    assert_eq!(lines[5], "132 B 1 from 0: 1, needs 4 ack 1");
}

#[test]
fn estimates_leave_out_what_is_lost_as_a_whole_unless_they_are_told_to_count_it() {
    let estimate = |parameters| {
        let (link, _) = ladder(parameters, 2, &[0, 0b1111], [clean(), clean()]);
        let LinkEndpoint::Harq(end) = &link.ends[0] else { unreachable!("built so") };
        end.estimated_loss()
    };
    let half = HarqParameters { estimate_weight: 0.5, ..ladder_parameters() };
    assert_eq!(estimate(half), 0.1, "half of 1 of 5");
    // The feedback for 1 arrives at 61 ms; the timer of 0 expires at 52 ms.
    let counted = HarqParameters { skip_erased: false, ..half };
    assert_eq!(estimate(counted), 0.5 + 0.5 * (0.2 - 0.5));
}

#[test]
fn the_third_transmission_may_have_the_link_for_itself() {
    // One unit survives in each of the first two transmissions of three packets.
    let masks = &[1, 1, 1, 1, 1, 1];
    let base = HarqParameters {
        mode: HarqMode::Pipelined,
        reactive: Reactive::Needed,
        ..ladder_parameters()
    };
    let single = HarqParameters { pipelined_transmissions: Some(2), ..base };
    let starts = |parameters| {
        let (link, lines) = ladder(parameters, 3, masks, [clean(), clean()]);
        assert_eq!(numbers(&link), [0, 1, 2]);
        lines.into_iter().filter(|line| line.contains(" A ")).collect::<Vec<_>>()
    };
    let (together, alone) = (starts(base), starts(single));
    assert_eq!(together[..5], alone[..5]);
    // 0 needs units for the third time: 1 either waits for its feedback or does not.
    let third = |lines: &[String], packet| -> u64 {
        let own = format!("block {packet} ");
        let line = lines.iter().filter(|line| line.contains(&own)).nth(2).expect("a third one");
        line.split(' ').next().and_then(|ms| ms.parse().ok()).expect("a time")
    };
    let gap = |lines: &[String]| third(lines, 1) - third(lines, 0);
    assert!(gap(&together) < 20, "{together:?}");
    assert!(gap(&alone) > 40, "{alone:?}");
}

#[test]
fn probes_may_be_free() {
    // All frames are lost for 1 s. If they are counted, each packet has four transmissions;
    // otherwise no packets are abandoned.
    let lost = |probes_count| {
        let parameters =
            HarqParameters { probes_count, max_transmissions: Some(4), ..ladder_parameters() };
        let ends = Protocol::Harq(parameters).ends::<Token>();
        let air = (Rate::from_bps(200_000), millis(20));
        let mut link = Link::new(ends, air, [tokens(3, 200), tokens(0, 0)], [clean(), clean()]);
        link.unit_fates[0] =
            Some(Box::new(|_, [start, _]| if start < seconds(1) { 0 } else { u64::MAX }));
        link.run(Instant::NEVER);
        link.ends[0].counters().abandoned
    };
    assert_eq!([lost(true), lost(false)], [3, 0]);
}

#[test]
fn wrong_parameters_say_what_is_allowed() {
    let base = harq(20, millis(1));
    let error = |p| Harq::<Token>::new(p).expect_err("wrong").to_string();
    assert!(error(harq(0, millis(1))).contains("block size 0"));
    assert!(error(harq(65, millis(1))).contains("64"));
    assert!(error(HarqParameters { interleave: 0, ..base }).contains("interleave 0"));
    assert!(error(HarqParameters { interleave: 65, ..base }).contains("1 to 64"));
    assert!(error(harq(5, Duration::ZERO)).contains("timeout of 0 s"));
    assert!(error(HarqParameters { window: 40_000, ..base }).contains("32768"));
    assert!(error(HarqParameters { max_transmissions: Some(0), ..base }).contains("0 transm"));
    assert!(error(HarqParameters { header: Bytes::new(1 << 20), ..base }).contains("65535"));
}

/// Bit masks of the surviving units, random for the first frames.
fn hashed(seed: u64, share: f64, first: usize) -> UnitFate {
    let mut stream = Streams { seed, replication: 0 }.stream("units", "masks");
    Box::new(move |index, _| {
        if index as usize >= first {
            return u64::MAX;
        }
        (0..64).fold(0, |mask, unit| mask | u64::from(stream.bernoulli(share)) << unit)
    })
}

fn mode() -> impl Strategy<Value = HarqMode> {
    prop_oneof![
        3 => Just(HarqMode::Adaptive),
        1 => Just(HarqMode::Pipelined),
        1 => Just(HarqMode::StopAndWait),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// Packets are delivered in order, without duplicates or stalls. Each packet is either
    /// delivered or abandoned, with losses of frames, of feedback and of units, duplicated frames
    /// and delays.
    #[test]
    fn packets_arrive_in_order_or_are_given_up(
        (units, window, timeout, mode) in (1u32..30, 1u32..40, 1u64..300, mode()),
        (limit, interleave) in (prop::option::of(1u32..6), 1u32..8),
        (single, full, probes_count, skip_erased) in
            (prop::option::of(1u32..3), any::<bool>(), any::<bool>(), any::<bool>()),
        (detect, weight, seed, share) in (1u32..4, 0.0..1.0f64, any::<u64>(), 0.0..1.0f64),
        gaps in prop::collection::vec(prop_oneof![3 => Just(0u64), 1 => 0u64..300], 0..40),
        patterns in [
            prop::collection::vec((prop::bool::weighted(0.3), 0u64..40), 0..60),
            prop::collection::vec((prop::bool::weighted(0.3), 0u64..40), 0..60),
        ],
    ) {
        let parameters = HarqParameters {
            window,
            mode,
            interleave,
            max_transmissions: limit,
            pipelined_transmissions: single,
            reactive: if full { Reactive::Full } else { Reactive::Needed },
            probes_count,
            skip_erased,
            detect,
            deviation: if seed % 2 == 0 { Deviation::Binomial } else { Deviation::Samples },
            estimate_weight: weight,
            ..harq(units, millis(timeout))
        };
        let run = |strict| {
            let air = (Rate::from_bps(200_000), millis(20));
            let fates = patterns.each_ref().map(fate);
            let both = [offers(&gaps), offers(&gaps)];
            let mut link = Link::new(Protocol::Harq(parameters).ends(), air, both, fates);
            link.unit_fates = [1, 2].map(|side| Some(hashed(seed ^ side, share, 80)));
            link.repeated = [3, 5].map(|every| {
                let is_repeated = move |index: u64| index % every == seed % every && index < 100;
                Some(Box::new(is_repeated) as Choice)
            });
            link.strict = strict;
            link.run(seconds(3600));
            let counters = link.ends.each_ref().map(|end| end.counters());
            (link.delivered, counters, link.now)
        };
        let outcome = run(true);
        let sent = gaps.len() as u64;
        for side in 0..2 {
            let up: Vec<u64> = outcome.0[1 - side].iter().map(|token| token.number).collect();
            prop_assert!(up.windows(2).all(|pair| pair[0] < pair[1]), "{:?}", up);
            let [own, far] = [outcome.1[side], outcome.1[1 - side]];
            prop_assert_eq!((own.data_frames, own.packets), (sent, sent));
            prop_assert_eq!(up.len() as u64 + far.skipped, sent, "each is delivered or skipped");
            prop_assert!(far.skipped <= own.abandoned);
            prop_assert!(limit.is_some() || own.abandoned == 0);
        }
        prop_assert!(outcome.2 < seconds(600), "late: {:?}", outcome.2);
        prop_assert_eq!(&outcome, &run(false), "not deterministic");
    }

    #[test]
    fn hostile_bytes_never_break_a_machine(
        frames in prop::collection::vec(
            prop::collection::vec(prop_oneof![2 => 0u8..4, 1 => 126u8..132], 0..60), 0..40),
    ) {
        let mut end: LinkEndpoint<Vec<u8>> =
            LinkEndpoint::Harq(Box::new(Harq::new(harq(3, millis(50))).expect("valid")));
        for bytes in frames {
            let Ok(frame) = end.decode(&bytes) else { continue };
            let mut again = Vec::new();
            prop_assert_eq!(end.encode(&frame, &mut again), Ok(()));
            prop_assert_eq!(again, bytes);
            end.receive(Instant::ZERO, frame);
            while end.poll_deliver().is_some() {}
            while end.poll_transmit(Instant::ZERO).is_some() {}
        }
    }
}

#[test]
fn files_cross_unharmed_though_units_are_lost() {
    for (units, interleave, reactive) in [
        (1, 1, Reactive::Full),
        (7, 1, Reactive::Needed),
        (20, 1, Reactive::Full),
        (20, 6, Reactive::Full),
        (9, 3, Reactive::Needed),
    ] {
        let parameters = HarqParameters { reactive, interleave, ..harq(units, millis(70)) };
        let (up, down) = (file("up", 60_000), file("down", 40_000));
        let air = (Rate::from_bps(2_000_000), millis(10));
        let ends = Protocol::Harq(parameters).ends();
        let fates = [losing(&[3, 4, 5, 60]), losing(&[8, 9])];
        let mut link = Link::new(ends, air, [up.1, down.1], fates).with_codec(through_bytes);
        link.unit_fates = [1, 2].map(|side| Some(hashed(side, 0.7, 100_000)));
        link.run(Instant::NEVER);
        assert!(link.delivered[1].concat() == up.0, "up: {units}");
        assert!(link.delivered[0].concat() == down.0, "down: {units}");
        if units > 1 {
            assert!(link.ends[1].counters().recovered > 20, "parity is of use");
        }
    }
}

#[test]
fn frames_have_the_fields_of_their_format() {
    let window = HarqWireWindow { expected: 0x1_0203, base: 0xfffe, next: 0x1_0000 };
    let read = |bytes: &[u8]| decode(bytes, &window);
    // K 2, 3 units from unit 1 onwards, number 0x0205, 1 B of padding, the oldest one is 2 behind;
    // the second unit is lost.
    let block =
        [&[2, 3, 2, 5, 1, 1, 0, 2, 10, 11][..], &[0; 10], &[2, 3, 2, 5, 3, 1, 0, 2, 30, 31]]
            .concat();
    let frame = read(&block).expect("a block");
    let FrameKind::Block { sequence, units, intact, behind } = frame.kind else {
        panic!("{frame:?}")
    };
    assert_eq!((sequence, intact, behind, frame.bytes), (0x1_0205, 0b101, 2, 30));
    assert_eq!((units.data, units.first, units.units, units.padding), (2, 1, 3, 1));
    assert_eq!(frame.payload.as_deref(), Some(&[10, 11, 0, 0, 30, 31][..]));
    let mut again = Vec::new();
    encode(&frame, &mut again).expect("a byte form");
    assert_eq!(again, block);

    let answer = read(&[128, 20, 0xff, 0xff, 17, 3, 0xff, 0xfe]).expect("an answer");
    let kind = FrameKind::Feedback { sequence: 0xffff, first: 20, received: 17, needed: 3 };
    assert_eq!((answer.kind, answer.ack), (kind, Some(0xfffe)));
    let skip = read(&[129, 0, 2, 4, 0, 0, 0, 0]).expect("a skip");
    assert_eq!((skip.kind, skip.ack), (FrameKind::Skip { next: 0x1_0204 }, Some(0x1_0000)));

    assert_eq!(read(&[0; 30]), Err(HarqWireError::Erased));
    assert!(read(&[131, 0, 0, 0, 0, 0, 0, 0]).is_err());
    for (place, byte) in [(0, 65), (1, 4), (5, 2), (24, 9), (13, 1)] {
        let mut wrong = block.clone();
        wrong[place] = byte;
        assert!(read(&wrong).is_err(), "byte {place} = {byte}");
    }
    let end: LinkEndpoint<Vec<u8>> =
        LinkEndpoint::Harq(Box::new(Harq::new(harq(3, millis(50))).expect("valid")));
    let other = lasthop_link::link::Frame { kind: FrameKind::Ack, ..answer };
    assert_eq!(end.encode(&other, &mut Vec::new()), Err(BytesError::Harq(HarqWireError::Kind)));
}
