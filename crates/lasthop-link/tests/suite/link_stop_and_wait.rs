//! Stop-and-wait with a retry limit: ladder diagrams computed by hand, properties, real bytes, and
//! closed forms. Without a limit it is among the reliable protocols of `link_properties.rs`. Seeds
//! are fixed.

use crate::common::*;
use lasthop_base::rng::Streams;
use lasthop_base::units::{Bytes, Duration, Instant, Probability, Rate};
use lasthop_link::channel::{Airtime, Channel, Uniform};
use lasthop_link::link::{
    Endpoint, Frame, FrameKind, LinkEndpoint, LinkEvent, LinkTiming, StopAndWait,
    StopAndWaitParameters,
};
use proptest::prelude::*;
use std::collections::VecDeque;

const MS: u64 = 1_000_000;

fn millis(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

/// The link of `link_tables.rs`: 200 kbps, 20 ms, data frames of 10 ms, control frames of 1 ms.
fn ladder(retries: Option<u32>, packets: u64, fates: [Fate; 2]) -> (Link<Token>, Vec<String>) {
    let parameters =
        StopAndWaitParameters { control: Bytes::new(25), ..stop_and_wait(retries, millis(71)) };
    let ends = Protocol::StopAndWait(parameters).ends();
    let air = (Rate::from_bps(200_000), millis(20));
    let mut link = Link::new(ends, air, [tokens(packets, 248), tokens(0, 0)], fates);
    link.log = Some(Vec::new());
    link.strict = true;
    link.run(Instant::NEVER);
    let lines = link.log.take().expect("a log").into_iter().map(|(start, side, kind, ack)| {
        assert_eq!(start.as_nanos() % MS, 0);
        let (ms, end, ack) = (start.as_nanos() / MS, ["A", "B"][side], ack.expect("always one"));
        match kind {
            FrameKind::Data { sequence } => format!("{ms} {end} data {sequence} ack {ack}"),
            FrameKind::Ack => format!("{ms} {end} ack {ack}"),
            other => panic!("stop-and-wait has no {other:?}"),
        }
    });
    let lines = lines.collect();
    (link, lines)
}

fn numbers(link: &Link<Token>) -> Vec<u64> {
    link.delivered[1].iter().map(|token| token.number).collect()
}

#[test]
fn a_frame_is_given_up_and_the_next_is_not_taken_for_a_copy() {
    use LinkEvent::{Abandoned, Retransmitted, TimedOut};
    let (link, lines) = ladder(Some(1), 3, [losing(&[1, 2]), clean()]);
    assert_eq!(
        lines,
        [
            "0 A data 0 ack 0",
            "30 B ack 1",
            "51 A data 1 ack 0",  // lost
            "122 A data 1 ack 0", // lost
            "193 A data 2 ack 0", // 1 was abandoned
            "223 B ack 3",
        ]
    );
    assert_eq!(numbers(&link), [0, 2]);
    assert_eq!(
        link.events[0],
        [
            TimedOut { sequence: 1 },
            Retransmitted { sequence: 1 },
            TimedOut { sequence: 1 },
            Abandoned { sequence: 1 },
        ]
    );
    let [sender, receiver] = link.ends.each_ref().map(|end| end.counters());
    assert_eq!((sender.data_frames, sender.retransmissions, sender.abandoned), (3, 1, 1));
    assert_eq!((receiver.skipped, receiver.acks), (1, 2));
}

#[test]
fn a_frame_that_arrived_may_be_given_up_for_want_of_acknowledgments() {
    let (link, lines) = ladder(Some(1), 2, [clean(), losing(&[0, 1])]);
    assert_eq!(
        lines,
        [
            "0 A data 0 ack 0",
            "30 B ack 1", // lost
            "71 A data 0 ack 0",
            "101 B ack 1", // lost
            "142 A data 1 ack 0",
            "172 B ack 2",
        ]
    );
    assert_eq!(numbers(&link), [0, 1]);
    assert_eq!(link.ends[0].counters().abandoned, 1);
    let receiver = link.ends[1].counters();
    assert_eq!((receiver.duplicates, receiver.skipped), (1, 0));
}

#[test]
fn without_retries_each_frame_has_one_try_and_without_limit_as_many_as_it_takes() {
    let (link, lines) = ladder(Some(0), 2, [losing(&[0]), clean()]);
    assert_eq!(lines, ["0 A data 0 ack 0", "71 A data 1 ack 0", "101 B ack 2"]);
    assert_eq!(numbers(&link), [1]);
    let (link, lines) = ladder(None, 1, [losing(&[0, 1, 2, 3, 4]), clean()]);
    assert_eq!(lines.len(), 7);
    assert_eq!(numbers(&link), [0]);
}

#[test]
fn wrong_parameters_say_what_is_allowed() {
    let error = |p| StopAndWait::<Token>::new(p).expect_err("wrong").to_string();
    assert!(error(stop_and_wait(None, Duration::ZERO)).contains("timeout of 0 s"));
    let wide =
        StopAndWaitParameters { control: Bytes::new(1 << 20), ..stop_and_wait(None, millis(1)) };
    assert!(error(wide).contains("65535"));
}

/// Losses of the first frames of a direction; later frames are not lost.
fn losing_by(lost: Vec<bool>) -> Fate {
    Box::new(move |index| (lost.get(index as usize).copied().unwrap_or(false), Duration::ZERO))
}

fn losses() -> impl Strategy<Value = Vec<bool>> {
    (0.0..0.9f64).prop_flat_map(|loss| prop::collection::vec(prop::bool::weighted(loss), 0..200))
}

fn through_bytes(frame: Frame<Vec<u8>>, receiver: &LinkEndpoint<Vec<u8>>) -> Frame<Vec<u8>> {
    let mut bytes = Vec::new();
    receiver.encode(&frame, &mut bytes).expect("every frame of a machine has a byte form");
    let decoded = receiver.decode(&bytes).expect("every frame of a correct peer decodes");
    assert_eq!(decoded, frame);
    decoded
}

proptest! {
    /// Packets are delivered in sequence and without duplicates, or else abandoned. Also through
    /// the byte format, with timeouts shorter and longer than the round trip and data in both
    /// directions.
    #[test]
    fn what_goes_up_is_in_sequence_and_the_rest_was_given_up(
        retries in 0u32..4,
        timeout in 5u64..150,
        packets in [0u8..60, 0u8..60],
        lost in [losses(), losses()],
    ) {
        let offers = packets.map(|count| -> VecDeque<_> {
            (0..count).map(|number| (Instant::ZERO, vec![number; 1 + usize::from(number)])).collect()
        });
        let parameters = stop_and_wait(Some(retries), millis(timeout));
        let ends = Protocol::StopAndWait(parameters).ends();
        let air = (Rate::from_bps(200_000), millis(20));
        let mut link = Link::new(ends, air, offers.clone(), lost.map(losing_by))
            .with_codec(through_bytes);
        link.strict = true;
        link.run(Instant::NEVER);
        let counters = link.ends.each_ref().map(|end| end.counters());
        for side in 0..2 {
            let delivered = &link.delivered[1 - side];
            let sent: Vec<_> = offers[side].iter().map(|(_, packet)| packet).collect();
            prop_assert!(delivered.windows(2).all(|pair| pair[0][0] < pair[1][0]), "in sequence");
            prop_assert!(delivered.iter().all(|packet| sent.contains(&packet)), "as sent");
            prop_assert_eq!(counters[side].data_frames, sent.len() as u64);
            let gone = (sent.len() - delivered.len()) as u64;
            prop_assert!(gone <= counters[side].abandoned);
            prop_assert!(counters[side].retransmissions <= u64::from(retries) * sent.len() as u64);
            // The receiver detects a gap only if a later frame arrives.
            prop_assert!(counters[1 - side].skipped <= gone);
        }
    }
}

/// Returns the fractions of packets that were lost and that the sender abandoned, and the time per
/// packet in round trips. The link is saturated and loses p of the data and p' of the
/// acknowledgments.
fn measure(retries: u32, p: f64, p_ack: f64, packets: u64) -> [f64; 3] {
    let streams = Streams { seed: 3, replication: u64::from(retries) };
    let fate = |p: f64, name: &str| -> Fate {
        let loss = Probability::new(p).expect("a probability");
        let mut channel = Channel::Uniform(Uniform::new(loss, &streams, name));
        let airtime = Airtime { start: Instant::ZERO, end: Instant::ZERO, bits: 2016 };
        Box::new(move |_| (channel.is_lost(airtime), Duration::ZERO))
    };
    let ends = Protocol::StopAndWait(stop_and_wait(Some(retries), TIMEOUT)).ends();
    let offers = [tokens(packets, 250), tokens(0, 0)];
    let fates = [fate(p, "link.forward"), fate(p_ack, "link.reverse")];
    let mut link = Link::new(ends, (RATE, DELAY), offers, fates);
    link.run(Instant::NEVER);
    let n = packets as f64;
    let arrived = link.delivered[1].len() as f64;
    let time = link.now.as_secs_f64() / n / ROUND_TRIP.as_secs_f64();
    [1.0 - arrived / n, link.ends[0].counters().abandoned as f64 / n, time]
}

/// 64 kbps, 50 ms, 252 B frames of 31.5 ms, acknowledgments of 0.25 ms.
const RATE: Rate = Rate::from_bps(64_000);
const DELAY: Duration = Duration::from_millis(50);
const ROUND_TRIP: Duration = Duration::from_nanos(131_750_000);
const TIMEOUT: Duration = Duration::from_millis(180);

#[test]
fn efficiency_and_losses_follow_the_closed_forms() {
    // Packets are independent. 5 standard errors each, from the distribution for one packet. The
    // variance of the time is bounded by that of an unlimited number of attempts, q / (1 - q)^2
    // timeouts. False positives below 6e-7 per value.
    let packets = 60_000u64;
    let n = packets as f64;
    let timeout = TIMEOUT.as_secs_f64() / ROUND_TRIP.as_secs_f64();
    for retries in [0, 1, 3] {
        for (p, p_ack) in [(0.05, 0.0), (0.1, 0.1), (0.3, 0.05)] {
            let tries = retries as i32 + 1;
            let q: f64 = 1.0 - (1.0 - p) * (1.0 - p_ack);
            let (lost, given_up): (f64, f64) = (f64::powi(p, tries), q.powi(tries));
            let time = (1.0 - given_up) * (1.0 + timeout * q / (1.0 - q));
            let deviation = timeout * q.sqrt() / (1.0 - q);
            let exact = [lost, given_up, time];
            let errors = [lost * (1.0 - lost), given_up * (1.0 - given_up), deviation.powi(2)];
            let found = measure(retries, p, p_ack, packets);
            for ((found, exact), error) in found.into_iter().zip(exact).zip(errors) {
                let error = 5.0 * (error / n).sqrt();
                assert!(
                    (found - exact).abs() <= error,
                    "{retries} retries, {p}, {p_ack}: {found}, expected {exact} +- {error}"
                );
            }
        }
    }
}

#[test]
fn the_default_timeout_waits_for_an_acknowledgment_on_data() {
    let timing = LinkTiming::symmetric(RATE, DELAY, Bytes::new(252), Bytes::new(2));
    let parameters = StopAndWaitParameters::for_link(&timing);
    assert_eq!(parameters.timeout, ROUND_TRIP + Duration::from_nanos(2 * 31_500_000));
    // Both ends are saturated, without losses: no frames may be retransmitted.
    let ends = Protocol::StopAndWait(parameters).ends();
    let mut link =
        Link::new(ends, (RATE, DELAY), [tokens(500, 250), tokens(400, 250)], [clean(), clean()]);
    link.run(Instant::NEVER);
    for end in &link.ends {
        assert_eq!((end.counters().retransmissions, end.counters().timeouts), (0, 0));
    }
}
