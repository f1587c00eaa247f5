//! Numbers of transmissions and losses of RLC acknowledged mode with random losses: closed forms,
//! and a radio with many PDUs per frame. Seeds are fixed.

use crate::common::*;
use crate::link_rlc::{RATE, millis};
use lasthop_base::rng::Streams;
use lasthop_base::units::{Duration, Instant, Probability};
use lasthop_link::channel::{Airtime, Channel, Uniform};
use lasthop_link::link::{Driven, Endpoint, Frame, FrameKind, LinkEndpoint, RlcParameters};
use std::collections::HashMap;

/// Independent frame losses in one direction.
fn uniform(p: f64, seed: u64) -> Fate {
    let p = Probability::new(p).expect("a probability");
    let mut channel = Channel::Uniform(Uniform::new(p, &Streams { seed, replication: 0 }, "link"));
    let airtime = Airtime { start: Instant::ZERO, end: Instant::ZERO, bits: 336 };
    Box::new(move |_| (channel.is_lost(airtime), Duration::ZERO))
}

/// A saturated link with PDUs of 42 B and loss-free reports: `packets` packets of `count` PDUs.
fn saturated(set: RlcParameters, packets: u64, count: u32, p: f64, seed: u64) -> Link<Token> {
    let offers = [tokens(packets, 40 * count), tokens(0, 1)];
    let ends = Protocol::Rlc(set).ends();
    let mut link = Link::new(ends, (RATE, millis(20)), offers, [uniform(p, seed), clean()]);
    link.run(Instant::NEVER);
    link
}

#[test]
fn a_pdu_is_sent_as_often_as_the_loss_asks() {
    // Geometric: mean 1 / (1 - p), variance p / (1 - p)^2. 5 standard deviations of the mean of n
    // PDUs: false positives below 6e-7 per point. No retransmission is spurious: no
    // duplicates.
    for (p, seed) in [(0.01, 41), (0.1, 42), (0.3, 43), (0.5, 44)] {
        let packets = 40_000;
        let link = saturated(rlc(40, RATE, millis(20)), packets, 5, p, seed);
        let [sender, receiver] = link.ends.each_ref().map(|end| end.counters());
        let n = sender.data_frames as f64;
        assert_eq!((sender.data_frames, link.delivered[1].len() as u64), (packets * 5, packets));
        assert_eq!((receiver.discarded, sender.abandoned), (0, 0));
        assert!(receiver.duplicates <= sender.timeouts, "{receiver:?}");
        let mean = (n + sender.retransmissions as f64) / n;
        let (exact, deviation) = (1.0 / (1.0 - p), (p / n).sqrt() / (1.0 - p));
        assert!(
            (mean - exact).abs() < 5.0 * deviation,
            "p = {p}: {mean}, expected {exact} with deviation {deviation}"
        );
    }
}

#[test]
fn packets_are_lost_as_their_pdus_are() {
    // A packet of k PDUs is lost if one of them is lost n times: 1 - (1 - p^n)^k. Binomial, 5
    // standard deviations: false positives below 6e-7 per point.
    for (n, p, seed) in [(1, 0.02, 51), (2, 0.1, 52), (3, 0.3, 53), (5, 0.5, 54)] {
        for k in [1, 5, 25] {
            let packets = 200_000 / u64::from(k);
            let limited = RlcParameters { max_transmissions: Some(n), ..rlc(40, RATE, millis(20)) };
            let link = saturated(limited, packets, k, p, seed);
            let sender = link.ends[0].counters();
            assert_eq!(sender.packets, packets);
            let lost = packets - link.delivered[1].len() as u64;
            assert!(sender.packets_abandoned - lost <= sender.timeouts, "given up for no reason");
            let exact = 1.0 - (1.0 - f64::powi(p, n as i32)).powi(k as i32);
            let deviation = (packets as f64 * exact * (1.0 - exact)).sqrt();
            assert!(
                (lost as f64 - packets as f64 * exact).abs() < 5.0 * deviation,
                "n = {n}, p = {p}, k = {k}: {lost} of {packets} lost, expected {} with deviation \
                 {deviation}",
                packets as f64 * exact
            );
        }
    }
}

/// 25 slots per direction in a frame of 10 ms: all PDUs of a frame are sent at its start and arrive
/// at its end, before the next frame is filled. A report generated then arrives one frame later, so
/// that retransmissions follow two frames after the previous transmission.
#[test]
fn many_pdus_in_a_frame_are_sent_again_once_in_two_frames() {
    let frame = millis(10);
    let set = RlcParameters { nack_guard: frame * 2, ..rlc(40, RATE, millis(20)) };
    let mut ends = Protocol::Rlc(set).ends::<Token>();
    let mut fate = uniform(0.3, 61);
    let mut air: [Vec<Frame<Token>>; 2] = Default::default();
    let mut starts: HashMap<u64, Vec<u64>> = HashMap::new();
    let (packets, mut next, mut up, mut index) = (2_000, 0, Vec::new(), 0);
    for round in 0..10_000 {
        let now = Instant::ZERO + frame * round;
        for side in 0..2 {
            for frame in std::mem::take(&mut air[1 - side]) {
                ends[side].receive(now, frame);
            }
            up.extend(std::iter::from_fn(|| ends[side].poll_deliver()));
            ends[side].handle_timeout(now);
            ends[side].drop_events();
        }
        for side in 0..2 {
            for _ in 0..25 {
                let offer = || {
                    let token = Token { number: next, bytes: 1000 };
                    (side == 0 && next < packets).then(|| {
                        next += 1;
                        token
                    })
                };
                let mut frame = Frame::default();
                if !ends[side].write_frame(now, offer, &mut frame) {
                    break;
                }
                if let FrameKind::Segment { sequence, .. } = frame.kind {
                    starts.entry(sequence).or_default().push(round);
                    index += 1;
                    if fate(index).0 {
                        continue;
                    }
                }
                air[side].push(frame);
            }
            ends[side].drop_events();
        }
    }
    assert!(up.iter().map(|token| token.number).eq(0..packets));
    assert!(up.iter().all(|token| token.bytes == 1000));
    let apart = |pair: &[u64]| pair[1] - pair[0];
    assert!(starts.values().all(|rounds| rounds.windows(2).all(|pair| apart(pair) >= 2)));
    let [sender, receiver] = ends.each_ref().map(|end| end.counters());
    assert!(receiver.duplicates <= sender.timeouts);
    let often = starts.values().flat_map(|rounds| rounds.windows(2)).map(apart);
    let (soon, all) =
        often.fold((0, 0), |(soon, all), apart| (soon + u32::from(apart == 2), all + 1));
    assert!(f64::from(soon) > 0.9 * f64::from(all), "{soon} of {all} copies after two frames");
    assert!(matches!(ends[0], LinkEndpoint::RlcAm(_)));
}
