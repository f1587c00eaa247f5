//! Exclusive-or FEC: a hand-computed sequence of frames, an exact model of the deliveries, real
//! bytes, and the closed form of the residual loss. Seeds are fixed.

use crate::common::*;
use lasthop::analysis::{GilbertElliottLaw, block_codes};
use lasthop::channel::{Airtime, Channel, GilbertElliott, GilbertElliottParameters, Uniform};
use lasthop::link::fec_wire::{FecWireError, decode, encode};
use lasthop::link::{
    CarriesFrames, Endpoint, Frame, FrameKind, LinkEndpoint, LinkEvent, LinkTiming, XorFec,
    XorFecParameters,
};
use lasthop::rng::Streams;
use lasthop::run::{self, Options};
use lasthop::scenario::Scenario;
use lasthop::units::{Bytes, Duration, Instant, Probability, Rate};
use proptest::prelude::*;
use std::collections::VecDeque;
use std::fmt::Debug;
use std::path::Path;

const MS: u64 = 1_000_000;
const AIR: (Rate, Duration) = (Rate::from_bps(200_000), Duration::from_millis(20));

fn millis(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

/// Returns the fate of each frame: these frames of the forward direction are lost.
fn losing_by(lost: Vec<bool>) -> Fate {
    Box::new(move |index| (lost.get(index as usize).copied().unwrap_or(false), Duration::ZERO))
}

/// Runs FEC in one direction.
fn cross<P: CarriesFrames + Debug>(
    parameters: XorFecParameters,
    offers: VecDeque<(Instant, P)>,
    lost: Vec<bool>,
    codec: Codec<P>,
) -> Link<P> {
    let fates = [losing_by(lost), clean()];
    let ends = Protocol::XorFec(parameters).ends();
    let mut link = Link::new(ends, AIR, [offers, VecDeque::new()], fates).with_codec(codec);
    link.log = Some(Vec::new());
    link.strict = true;
    link.run(Instant::NEVER);
    link
}

fn offers(times: &[u64]) -> VecDeque<(Instant, Token)> {
    let token = |(number, &ms): (usize, &u64)| {
        (Instant::from_nanos(ms * MS), Token { number: number as u64, bytes: 249 })
    };
    times.iter().enumerate().map(token).collect()
}

/// Returns the frames, one per line, such as `10 data 1`; the delivered packets; the receiver's
/// events.
fn ladder(times: &[u64], lost: &[usize]) -> (Vec<String>, Vec<u64>, Vec<LinkEvent>) {
    let lost = (0..100).map(|index| lost.contains(&index)).collect();
    let link = cross(xor_fec(3, millis(60)), offers(times), lost, |frame, _| frame);
    let lines = link.log.expect("a log").into_iter().map(|(start, _, kind, _)| {
        let ms = start.as_nanos() as f64 / MS as f64;
        match kind {
            FrameKind::Data { sequence } => format!("{ms} data {sequence}"),
            FrameKind::Parity { first, count, .. } => format!("{ms} parity {first}+{count}"),
            other => panic!("FEC has no {other:?}"),
        }
    });
    let delivered = link.delivered[1].iter().map(|token| token.number).collect();
    (lines.collect(), delivered, link.events[1].clone())
}

/// 200 kbps, 20 ms, frames of 250 B: 10 ms transmission time; parity of 253 B: 10.12 ms. Blocks of
/// 3, closed after 60 ms.
#[test]
fn a_ladder_with_a_full_a_short_and_a_broken_block() {
    let times = [0, 0, 0, 0, 30, 115, 130, 130, 160];
    let frames = [
        "0 data 0",
        "10 data 1", // lost
        "20 data 2",
        "30 parity 0+3",     // arrives at 60.12 and recovers 1, after 2
        "40.12 data 3",      // was offered at 0; the parity was sent first
        "50.12 data 4",      // lost
        "110.12 parity 3+2", // 60 ms after the start of 4; recovers it
        "120.24 data 5",
        "130.24 data 6",     // lost
        "140.24 data 7",     // lost
        "150.24 parity 5+3", // without effect
        "160.36 data 8",
        "220.36 parity 8+1", // not needed
    ];
    let (lines, delivered, events) = ladder(&times, &[1, 5, 8, 9]);
    assert_eq!(lines, frames);
    assert_eq!(delivered, [0, 2, 1, 3, 4, 5, 8]);
    use LinkEvent::{Abandoned, Recovered};
    assert_eq!(
        events,
        [
            Recovered { sequence: 1 },
            Recovered { sequence: 4 },
            Abandoned { sequence: 6 },
            Abandoned { sequence: 7 },
        ]
    );
    // The parity of the second block is lost, so that 4 is declared lost when a number a full block
    // beyond it arrives; a block of one is restored from its parity alone.
    let (lines, delivered, events) = ladder(&times, &[5, 6, 11]);
    assert_eq!(lines, frames);
    assert_eq!(delivered, [0, 1, 2, 3, 5, 6, 7, 8]);
    assert_eq!(events, [Abandoned { sequence: 4 }, Recovered { sequence: 8 }]);
    // A block of which every frame is lost is declared lost at the parity of the next block.
    let (_, delivered, events) = ladder(&times, &[7, 8, 9, 10, 11]);
    assert_eq!(delivered, [0, 1, 2, 3, 4, 8]);
    assert_eq!(
        events,
        [
            Abandoned { sequence: 5 },
            Abandoned { sequence: 6 },
            Abandoned { sequence: 7 },
            Recovered { sequence: 8 },
        ]
    );
}

/// Blocks of two, three at a time: `0 1 2 3 4 5` are `a0 b0 c0 a1 b1 c1`, followed by their parity
/// frames. Any three consecutive losses belong to three blocks; of four, the first and the last
/// belong to one.
#[test]
fn a_burst_takes_one_frame_of_each_interleaved_block() {
    let parameters = XorFecParameters { interleave: 3, ..xor_fec(2, millis(60)) };
    let delivered = |burst: std::ops::Range<usize>| {
        let lost = (0..40).map(|index| burst.contains(&index)).collect();
        let link = cross(parameters, offers(&[0; 14]), lost, |frame, _| frame);
        let lines: Vec<_> =
            link.log.expect("a log").into_iter().map(|(_, _, kind, _)| kind).collect();
        let is_parity = |index: usize| matches!(lines[index], FrameKind::Parity { .. });
        assert!((6..9).chain(15..18).all(is_parity), "{lines:?}");
        let mut up: Vec<_> = link.delivered[1].iter().map(|token| token.number).collect();
        let order = up.clone();
        up.sort_unstable();
        (up, order)
    };
    let all: Vec<u64> = (0..14).collect();
    for first in 0..15 {
        assert_eq!(delivered(first..first + 3).0, all, "a burst of 3 from frame {first}");
    }
    // c0, a1, b1: restored by Pa, Pb, Pc.
    assert_eq!(delivered(2..5).1, [0, 1, 5, 3, 4, 2, 6, 7, 8, 9, 10, 11, 12, 13]);
    // a0 and a1, with all frames between them: b0 and c0 are restored.
    assert_eq!(delivered(0..4).0, [1, 2, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13]);
    // b1, c1 and the parities of a and b: b1 is lost, c1 is not.
    assert_eq!(delivered(4..8).0, [0, 1, 2, 3, 5, 6, 7, 8, 9, 10, 11, 12, 13]);
    // The last two frames are blocks of one, closed by the timeout: each is restored from its
    // parity.
    assert_eq!(delivered(18..20).0, all);
}

/// Returns the expected deliveries by number, and the numbers of recovered and lost packets, from
/// the sent and lost frames, block by block. The numbers of a block are `interleave` apart.
fn model(log: &[LogEntry], lost: &[bool], interleave: u64) -> (Vec<u64>, u64, u64) {
    let (mut up, mut recovered, mut skipped) = (Vec::new(), 0, 0);
    let mut missing: Vec<u64> = Vec::new();
    for (index, (_, _, kind, _)) in log.iter().enumerate() {
        let is_lost = lost.get(index).copied().unwrap_or(false);
        match *kind {
            FrameKind::Data { sequence } if is_lost => missing.push(sequence),
            FrameKind::Data { sequence } => up.push(sequence),
            FrameKind::Parity { first, count, .. } => {
                let members: Vec<_> =
                    (0..count).map(|n| first + u64::from(n) * interleave).collect();
                let of_block: Vec<_> =
                    missing.iter().copied().filter(|lost| members.contains(lost)).collect();
                if let ([one], false) = (&of_block[..], is_lost) {
                    up.push(*one);
                    recovered += 1;
                } else {
                    skipped += of_block.len() as u64;
                }
                missing.retain(|lost| !members.contains(lost));
            }
            other => panic!("FEC has no {other:?}"),
        }
    }
    assert!(missing.is_empty(), "every block is closed in the end");
    (up, recovered, skipped)
}

fn times() -> impl Strategy<Value = Vec<u64>> {
    prop::collection::vec(prop_oneof![3 => Just(0u64), 1 => 0u64..200], 0..80).prop_map(|gaps| {
        let running = |at: &mut u64, gap| {
            *at += gap;
            Some(*at)
        };
        gaps.into_iter().scan(0, running).collect()
    })
}

fn losses() -> impl Strategy<Value = Vec<bool>> {
    (0.0..0.6f64).prop_flat_map(|loss| prop::collection::vec(prop::bool::weighted(loss), 0..160))
}

/// Frames per block, and number of interleaved blocks, with at most 64 frames in total.
fn blocks() -> impl Strategy<Value = (u32, u32)> {
    prop_oneof![
        4 => (1u32..9, Just(1)),
        4 => (1u32..9, 1u32..8),
        1 => Just((12, 1)),
        1 => Just((64, 1)),
        1 => Just((1, 64)),
    ]
}

/// Checks the numbers of the packets that arrived, and that each is identical to the packet sent.
fn numbers<P: PartialEq + Debug>(sent: &[P], delivered: &[P], expected: &[u64]) {
    let expected: Vec<_> = expected.iter().map(|&number| &sent[number as usize]).collect();
    assert_eq!(delivered.iter().collect::<Vec<_>>(), expected);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    /// Deliveries are exactly those of the model, in the same order, without duplicates and unsent
    /// packets. The driver checks the call contract at every step.
    #[test]
    fn what_goes_up_follows_from_the_blocks(
        (block, interleave) in blocks(), timeout in 5u64..150, times in times(), lost in losses(),
    ) {
        let offered: VecDeque<_> = times.iter().enumerate().map(|(number, &ms)| {
            let (number, bytes) = (number as u64, 1 + (number as u32 * 37) % 250);
            (Instant::from_nanos(ms * MS), Token { number, bytes })
        }).collect();
        let sent: Vec<_> = offered.iter().map(|&(_, token)| token).collect();
        let parameters = XorFecParameters { interleave, ..xor_fec(block, millis(timeout)) };
        let link = cross(parameters, offered.clone(), lost.clone(), |frame, _| frame);
        let log = link.log.as_ref().expect("a log");
        let (up, recovered, skipped) = model(log, &lost, interleave.into());
        numbers(&sent, &link.delivered[1], &up);
        let [sender, receiver] = link.ends.each_ref().map(|end| end.counters());
        prop_assert_eq!(sender.data_frames, sent.len() as u64);
        prop_assert_eq!(sender.data_frames + sender.parities, log.len() as u64);
        prop_assert_eq!(receiver.recovered, recovered);
        prop_assert_eq!((receiver.duplicates, receiver.discarded), (0, 0));
        // Packets missing in the last blocks are not declared lost before a later frame arrives.
        prop_assert!(receiver.skipped <= skipped);
        let again = cross(parameters, offered, lost, |frame, _| frame);
        prop_assert_eq!(&link.delivered, &again.delivered, "not deterministic");
    }

    #[test]
    fn hostile_bytes_never_panic(
        frames in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..12), 0..40),
        (block, interleave) in blocks(),
    ) {
        let parameters = XorFecParameters { interleave, ..xor_fec(block, millis(1)) };
        let mut end = LinkEndpoint::XorFec(XorFec::<Vec<u8>>::new(parameters).expect("valid"));
        for bytes in frames {
            let Ok(frame) = end.decode(&bytes) else { continue };
            let mut again = Vec::new();
            prop_assert!(end.encode(&frame, &mut again).is_ok());
            prop_assert_eq!(again, bytes);
            end.receive(Instant::ZERO, frame);
        }
    }
}

fn through_bytes(frame: Frame<Vec<u8>>, receiver: &LinkEndpoint<Vec<u8>>) -> Frame<Vec<u8>> {
    let mut bytes = Vec::new();
    receiver.encode(&frame, &mut bytes).expect("every frame of a machine has a byte form");
    let decoded = receiver.decode(&bytes).expect("a frame of a correct peer");
    assert_eq!(bytes.len(), frame.bytes as usize, "as long as simulated");
    assert_eq!(decoded, frame);
    decoded
}

#[test]
fn frames_without_a_byte_form_are_refused() {
    let encode = |frame: Frame<Vec<u8>>| encode(&frame, 1, &mut Vec::new());
    let decode = |bytes: &[u8], expected| decode(bytes, expected, 1);
    assert_eq!(encode(Frame::default()), Err(FecWireError::Kind));
    let kind = FrameKind::Data { sequence: 0 };
    let long = Frame { kind, payload: Some(vec![0; 65_536]), ..Frame::default() };
    assert_eq!(encode(long), Err(FecWireError::TooLong));
    assert_eq!(decode(&[], 0), Err(FecWireError::TooShort(0)));
    assert_eq!(decode(&[0x81, 1, 0], 0), Err(FecWireError::TooShort(3)));
    assert_eq!(decode(&[0x81, 2, 0, 0], 0), Err(FecWireError::Count { found: 2, next: 1 }));
    assert_eq!(decode(&[0x81, 0, 0, 0], 0), Err(FecWireError::Count { found: 0, next: 1 }));
}

#[test]
fn wrong_parameters_say_what_is_allowed() {
    let error = |parameters| XorFec::<Token>::new(parameters).expect_err("wrong").to_string();
    assert_eq!(error(xor_fec(0, millis(1))), "XOR FEC: invalid block size 0; expected 1 to 64");
    assert!(error(xor_fec(65, millis(1))).contains("block size 65; expected 1 to 64"));
    assert!(error(xor_fec(8, Duration::ZERO)).contains("timeout of 0 s"));
    let many = XorFecParameters { interleave: 9, ..xor_fec(8, millis(1)) };
    assert!(error(many).contains("invalid interleave 9 with blocks of 8 frames; expected 1 to 8"));
    let wide = XorFecParameters { header: Bytes::new(1 << 20), ..xor_fec(8, millis(1)) };
    assert!(error(wide).contains("65535"));
}

#[test]
fn the_timeout_is_twice_the_regular_interval() {
    let timing = LinkTiming::symmetric(AIR.0, AIR.1, Bytes::new(250), Bytes::new(1));
    let timeout = |interval| XorFecParameters::for_link(&timing, interval).parity_timeout;
    assert_eq!(timeout(Some(millis(28))), millis(56));
    assert_eq!(timeout(None), millis(20), "twice the air time of a frame");
    let empty = LinkTiming::symmetric(AIR.0, AIR.1, Bytes::new(0), Bytes::new(0));
    let parameters = XorFecParameters::for_link(&empty, None);
    assert!(XorFec::<Token>::new(parameters).is_ok(), "a link that nothing crosses");
}

/// Mean and variance of the number of lost frames per block after recovery: j data frames are lost
/// with their binomial probability; one is recovered if it is the only one and the parity arrives.
fn lost_per_block(k: u64, p: f64) -> (f64, f64) {
    let (mut mean, mut square, mut probability) = (0.0, 0.0, (1.0 - p).powi(k as i32));
    for j in 1..=k {
        probability *= p / (1.0 - p) * (k - j + 1) as f64 / j as f64;
        let stays = probability * if j == 1 { p } else { 1.0 };
        mean += stays * j as f64;
        square += stays * (j * j) as f64;
    }
    (mean, square - mean * mean)
}

#[test]
fn residual_loss_follows_the_closed_form() {
    // A saturated link: all blocks are full and independent of each other. 5 standard errors:
    // false-positive rate below 6e-7 per point.
    let blocks = 30_000u64;
    for k in [4u64, 8, 12] {
        for p in [0.01, 0.02, 0.05, 0.1] {
            let loss = Probability::new(p).expect("a probability");
            let streams = Streams { seed: 5, replication: k };
            let mut channel = Channel::Uniform(Uniform::new(loss, &streams, "link.forward"));
            let airtime = Airtime { start: Instant::ZERO, end: Instant::ZERO, bits: 408 };
            let fate: Fate = Box::new(move |_| (channel.is_lost(airtime), Duration::ZERO));
            let air = (Rate::from_bps(43_200), millis(100));
            let ends = Protocol::XorFec(xor_fec(k as u32, millis(20))).ends();
            let offers = [tokens(k * blocks, 50), tokens(0, 50)];
            let mut link = Link::new(ends, air, offers, [fate, clean()]);
            link.run(Instant::NEVER);
            assert_eq!(link.ends[0].counters().parities, blocks, "every block is full");
            let frames = (k * blocks) as f64;
            let residual = 1.0 - link.delivered[1].len() as f64 / frames;
            let (mean, variance) = lost_per_block(k, p);
            let exact = p * (1.0 - (1.0 - p).powi(k as i32));
            assert!((mean / k as f64 / exact - 1.0).abs() < 1e-9, "{mean} is k times {exact}");
            let error = (variance * blocks as f64).sqrt() / frames;
            assert!(
                (residual - exact).abs() <= 5.0 * error,
                "k = {k}, p = {p}: {residual}, expected {exact} +- {error}"
            );
        }
    }
}

/// With d interleaved blocks, the frames of a block, including its parity, are d frames apart on a
/// saturated link. Their channel states are related by the matrix P^d. As d increases, bursts of 4
/// losses on average cause the residual loss of independent losses. 40 batches of 500 blocks of
/// each lane; 4.5 standard errors of the batches (39 degrees of freedom): false-positive rate below
/// 1e-4 per point. Seed 5.
#[test]
fn interleaving_makes_bursts_look_independent() {
    let (k, mean_loss) = (8, 0.05);
    let parameters = GilbertElliottParameters {
        good_to_bad: Probability::new(0.25 * mean_loss / (1.0 - mean_loss)).expect("a probability"),
        bad_to_good: Probability::new(0.25).expect("a probability"),
        loss_in_good: Probability::default(),
        loss_in_bad: Probability::new(1.0).expect("a probability"),
    };
    let law = GilbertElliottLaw::new(parameters.good_to_bad.get(), 0.25, 0.0, 1.0).expect("a law");
    let mut residuals = Vec::new();
    for d in [1u32, 3, 8] {
        let batches = (0..40).map(|batch| {
            let streams = Streams { seed: 5, replication: batch };
            let chain = GilbertElliott::new(parameters, &streams, "link.forward").expect("a chain");
            let mut channel = Channel::GilbertElliott(chain);
            let airtime = Airtime { start: Instant::ZERO, end: Instant::ZERO, bits: 408 };
            let fate: Fate = Box::new(move |_| (channel.is_lost(airtime), Duration::ZERO));
            let fec = XorFecParameters { interleave: d, ..xor_fec(k, millis(60)) };
            let frames = u64::from(k * d) * 500;
            let ends = Protocol::XorFec(fec).ends();
            let air = (Rate::from_bps(43_200), millis(100));
            let mut link =
                Link::new(ends, air, [tokens(frames, 50), tokens(0, 50)], [fate, clean()]);
            link.run(Instant::NEVER);
            1.0 - link.delivered[1].len() as f64 / frames as f64
        });
        let batches: Vec<f64> = batches.collect();
        let mean = batches.iter().sum::<f64>() / 40.0;
        let variance = batches.iter().map(|batch| (batch - mean).powi(2)).sum::<f64>() / 39.0;
        let error = (variance / 40.0).sqrt();
        let exact = block_codes::xor(&law.spaced(d).expect("a law"), k).expect("a code").residual;
        assert!((mean - exact).abs() <= 4.5 * error, "d = {d}: {mean} ± {error}, {exact}");
        residuals.push(exact);
    }
    let independent = mean_loss * (1.0 - (1.0 - mean_loss).powi(k as i32));
    assert!(
        residuals[0] > 2.0 * independent && residuals[2] < 1.3 * independent,
        "{residuals:?} {independent}"
    );
}

/// Returns every metric of a scenario in which packets of 50 B cross a link with FEC in talk
/// spurts.
fn simulate(parity_timeout: &str) -> Vec<(String, f64)> {
    let text = format!(
        r#"
        name = "speech"
        [link.air]
        between = ["a", "b"]
        rate = "43.2 kbps"
        delay = "100 ms"
        protocol = {{ kind = "xor-fec", block = 12, parity_timeout = "{parity_timeout}" }}
        errors = {{ kind = "uniform", loss = "2 %" }}
        [flow.speech]
        from = "a"
        to = "b"
        transport = {{ kind = "udp" }}
        app = {{ kind = "on-off", rate = "16 kbps", on = "exp 1 s", off = "exp 100 ms", packet = "50 B" }}
        [run]
        duration = "500 s"
        "#
    );
    let document = Scenario::from_toml(&text, Path::new(".")).expect("a scenario");
    let point = document.points().expect("a point").remove(0);
    let options = Options { replications: 1, first_replication: 0, seed: 2, jobs: 1 };
    let results = run::run(&[point.scenario], &options, &mut |_| true).expect("a run");
    results.metrics.into_iter().zip(results.rows[0].values.iter().copied()).collect()
}

#[test]
fn in_a_scenario_auto_is_twice_the_packet_interval() {
    // 400 bits at 16 kbps: a packet every 25 ms.
    let auto = simulate("auto");
    let get = |metrics: &[(String, f64)], name: &str| {
        let found = metrics.iter().find(|(known, _)| known == name);
        found.unwrap_or_else(|| panic!("no {name}")).1
    };
    let bits = |metrics: Vec<(String, f64)>| -> Vec<u64> {
        metrics.iter().map(|(_, value)| value.to_bits()).collect()
    };
    assert_eq!(bits(auto.clone()), bits(simulate("50 ms")));
    for other in ["40 ms", "60 ms"] {
        assert_ne!(bits(auto.clone()), bits(simulate(other)), "{other}");
    }
    // Well below the interval each packet has its own parity.
    let short = simulate("10 ms");
    let forward = |metrics, name: &str| get(metrics, &format!("link.air.forward.{name}"));
    // The run may end before the last one.
    let without = get(&short, "flow.speech.packets_sent") - forward(&short, "parities");
    assert!((0.0..=1.0).contains(&without), "{without}");
    assert!(forward(&auto, "parities") < forward(&short, "parities") / 5.0);
    let lost = get(&auto, "flow.speech.packets_sent") - get(&auto, "flow.speech.packets_delivered");
    assert!(forward(&auto, "recovered") > 100.0);
    // Packets missing in the last block are not declared lost before a later frame arrives.
    let skipped = forward(&auto, "skipped");
    assert!(skipped > 0.0 && (lost - 12.0..=lost).contains(&skipped), "{skipped} of {lost}");
}

#[test]
fn too_many_blocks_at_a_time_are_refused_by_their_key() {
    let refused = |keys: &str| {
        let text = format!(
            r#"
            name = "x"
            [link.air]
            between = ["a", "b"]
            rate = "64 kbps"
            delay = "10 ms"
            protocol = {{ kind = "xor-fec", {keys} }}
            [flow.f]
            from = "a"
            to = "b"
            transport = {{ kind = "udp" }}
            app = {{ kind = "on-off", rate = "16 kbps", on = "1 s", off = "1 s", packet = "50 B" }}
            [run]
            duration = "1 s"
            "#
        );
        crate::scenarios::read(&text).err()
    };
    for keys in ["block = 8, interleave = 8", "block = 1, interleave = 64", "interleave = 8"] {
        assert_eq!(refused(keys), None, "{keys}");
    }
    let error = refused("interleave = 9").expect("72 frames");
    assert!(
        error.starts_with(
            "link.air.protocol.interleave: found 9 with blocks of 8 frames; expected up to 8"
        ),
        "{error}"
    );
}

mod slow {
    use super::*;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(200))]

        /// Like [`what_goes_up_follows_from_the_blocks`], with real bytes of any length in the byte
        /// format: parity is computed and truncated to the length of the lost packet, and the result is
        /// the packet.
        #[test]
        fn bytes_come_back_bit_by_bit(
            (block, interleave) in blocks(), times in times(), lost in losses(),
            packets in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..300), 80),
        ) {
            let at = times.iter().map(|ms| Instant::from_nanos(ms * MS));
            let offered: VecDeque<_> = at.zip(packets.iter().cloned()).collect();
            let parameters = XorFecParameters { interleave, ..xor_fec(block, millis(60)) };
            let link = cross(parameters, offered, lost.clone(), through_bytes);
            let (up, ..) = model(link.log.as_ref().expect("a log"), &lost, interleave.into());
            numbers(&packets, &link.delivered[1], &up);
        }
    }
}
