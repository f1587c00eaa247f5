//! Real bytes through the byte codec: two files at once, over a pipe that loses and delays.

mod common;

use common::*;
use lasthop::link::rlp_wire::{self, RlpWireError, RlpWireWindow};
use lasthop::link::wire::{WireError, WireWindow, decode, encode};
use lasthop::link::{
    BytesError, Endpoint, Frame, FrameKind, LinkEndpoint, Release, Rlp, RlpParameters,
};
use lasthop::rng::Streams;
use lasthop::units::{Duration, Instant, Rate};
use proptest::prelude::*;
use std::collections::VecDeque;

const STREAMS: Streams = Streams { seed: 11, replication: 0 };

/// A random file, and the same in packets of 1 to 300 bytes, all offered at once.
fn file(name: &str, bytes: usize) -> (Vec<u8>, VecDeque<(Instant, Vec<u8>)>) {
    let mut stream = STREAMS.stream(name, "file");
    let file: Vec<u8> = (0..bytes).map(|_| stream.bits() as u8).collect();
    let (mut packets, mut rest) = (VecDeque::new(), &file[..]);
    while !rest.is_empty() {
        let (packet, after) = rest.split_at((1 + stream.bits() as usize % 300).min(rest.len()));
        packets.push_back((Instant::ZERO, packet.to_vec()));
        rest = after;
    }
    (file, packets)
}

fn lossy(name: &str, loss: f64) -> Fate {
    let mut stream = STREAMS.stream(name, "fate");
    Box::new(move |_| {
        let lost = stream.bernoulli(loss);
        (lost, Duration::from_nanos(stream.bits() % 40_000_000))
    })
}

fn through_bytes(frame: Frame<Vec<u8>>, receiver: &LinkEndpoint<Vec<u8>>) -> Frame<Vec<u8>> {
    let mut bytes = Vec::new();
    receiver.encode(&frame, &mut bytes).expect("every frame of a machine has a byte form");
    let decoded = receiver.decode(&bytes).expect("every frame of a correct peer decodes");
    assert_eq!(bytes.len() as u32, decoded.bytes);
    // Go-back-N with more than 128 frames outstanding may read an old number as a new one.
    if !matches!(receiver, LinkEndpoint::GoBackN(end) if end.wire_window().window > 128) {
        // A raw link sends no numbers.
        let kind = match receiver {
            LinkEndpoint::Raw(_) => FrameKind::Data { sequence: 0 },
            _ => frame.kind,
        };
        assert_eq!(decoded, Frame { kind, ..frame });
    }
    decoded
}

fn transfer(protocol: Protocol, loss: f64) {
    let (up, down) = (file("up", 120_000), file("down", 90_000));
    let air = (Rate::from_bps(2_000_000), Duration::from_millis(10));
    let fates = [lossy("up", loss), lossy("down", loss)];
    let mut link = Link::new(protocol.ends(), air, [up.1, down.1], fates).with_codec(through_bytes);
    link.run(Instant::NEVER);
    assert!(link.delivered[1].concat() == up.0, "up: {protocol:?}");
    assert!(link.delivered[0].concat() == down.0, "down: {protocol:?}");
}

#[test]
fn files_cross_every_reliable_link_unharmed() {
    for window in [1, 7, 128, 255] {
        for protocol in every_reliable_protocol(window, Duration::from_millis(70)) {
            transfer(protocol, 0.1);
        }
    }
}

#[test]
fn packets_cross_radio_links_unharmed_or_not_at_all() {
    let frame_time = Duration::from_nanos(4_816_000);
    let parameters = karn_rlp(2, Duration::from_millis(70), frame_time);
    let parameters = RlpParameters { keepalive: Some(Duration::from_millis(30)), ..parameters };
    // Packets of one byte look like control frames.
    let two_bytes = |packets: VecDeque<(Instant, Vec<u8>)>| {
        packets.into_iter().filter(|(_, packet)| packet.len() > 1).collect::<VecDeque<_>>()
    };
    for release in [Release::InSequence, Release::Immediate] {
        let protocol = Protocol::Rlp(RlpParameters { release, ..parameters });
        let offers = [two_bytes(file("up", 400_000).1), two_bytes(file("down", 300_000).1)];
        let packets =
            offers.each_ref().map(|o| o.iter().map(|(_, p)| p.clone()).collect::<Vec<_>>());
        // About 40 frames in a round trip of up to 100 ms: the numbers suffice.
        let air = (Rate::from_bps(500_000), Duration::from_millis(10));
        let fates = [lossy("up", 0.1), lossy("down", 0.1)];
        let mut link = Link::new(protocol.ends(), air, offers, fates).with_codec(through_bytes);
        link.run(Instant::from_nanos(20_000_000_000));
        for (side, packets) in packets.iter().enumerate() {
            assert!(packets.len() > 1_900, "numbers wrap several times");
            let up = &link.delivered[1 - side];
            assert!(up.len() > packets.len() * 9 / 10 && up.len() < packets.len());
            if release == Release::InSequence {
                // A subsequence of what was sent.
                let mut sent = packets.iter();
                assert!(up.iter().all(|packet| sent.any(|other| other == packet)));
            } else {
                assert!(up.iter().all(|packet| packets.contains(packet)));
            }
        }
    }
}

/// Each service in its own format behind its identifier: what goes up is what was sent, from the
/// reliable services all of it.
#[test]
fn services_share_a_link_of_bytes() {
    let timeout = Duration::from_millis(70);
    let protocols = [
        Protocol::SelectiveRepeat(selective_repeat(8, timeout)),
        Protocol::GoBackN(go_back_n(8, timeout)),
        Protocol::Rlp(karn_rlp(2, timeout, Duration::from_nanos(4_816_000))),
    ];
    // Packets with an IPv4 header's first bytes: the service is the DS code point.
    let packets = |name: &str| -> VecDeque<(Instant, Vec<u8>)> {
        let offers = file(name, 60_000).1.into_iter().enumerate();
        let classed = offers.map(|(index, (at, packet))| {
            let class = (index % protocols.len()) as u8;
            (at, [vec![0x45, class << 2, index as u8, (index >> 8) as u8], packet].concat())
        });
        classed.collect()
    };
    let offers = [packets("up"), packets("down")];
    let sent = offers.each_ref().map(|o| o.iter().map(|(_, p)| p.clone()).collect::<Vec<_>>());
    let air = (Rate::from_bps(2_000_000), Duration::from_millis(10));
    let fates = [lossy("up", 0.1), lossy("down", 0.1)];
    let mut link = Link::new(services(&protocols, 1), air, offers, fates).with_codec(through_bytes);
    link.run(Instant::from_nanos(60_000_000_000));
    for (side, sent) in sent.iter().enumerate() {
        for class in 0..3 {
            let own = |packets: &[Vec<u8>]| -> Vec<Vec<u8>> {
                packets.iter().filter(|packet| packet[1] >> 2 == class).cloned().collect()
            };
            let (own_sent, up) = (own(sent), own(&link.delivered[1 - side]));
            if class < 2 {
                assert!(up == own_sent, "service {class}");
            } else {
                let mut left = own_sent.iter();
                assert!(up.iter().all(|packet| left.any(|other| other == packet)));
                assert!(up.len() > own_sent.len() * 9 / 10, "{} of {}", up.len(), own_sent.len());
            }
        }
    }
    let [end, _] = services::<Vec<u8>>(&protocols, 1);
    let none = |found| Err(BytesError::Service { found, services: 3 });
    assert_eq!(end.decode(&[]), none(0));
    assert_eq!(end.decode(&[3, 0, 0]), none(3));
}

proptest! {
    #[test]
    fn hostile_bytes_never_break_a_shared_link(
        frames in prop::collection::vec(prop::collection::vec(0u8..8, 0..10), 0..60),
    ) {
        let timeout = Duration::from_millis(70);
        let protocols = [
            Protocol::Raw,
            Protocol::SelectiveRepeat(selective_repeat(4, timeout)),
            Protocol::Rlp(karn_rlp(2, timeout, timeout)),
        ];
        let [mut end, _] = services::<Vec<u8>>(&protocols, 1);
        for bytes in frames {
            let Ok(frame) = end.decode(&bytes) else { continue };
            let mut again = Vec::new();
            prop_assert_eq!(end.encode(&frame, &mut again), Ok(()));
            prop_assert_eq!(again, bytes);
            end.receive(Instant::ZERO, frame);
        }
    }
}

#[test]
fn radio_frames_without_a_byte_form_are_refused() {
    let frame = |kind, payload| Frame { kind, ack: None, payload, bytes: 2, service: 0 };
    let mut bytes = Vec::new();
    let data = FrameKind::Data { sequence: 0 };
    for (payload, found) in [(None, 0), (Some(vec![]), 0), (Some(vec![1]), 1)] {
        let error = rlp_wire::encode(&frame(data, payload), &mut bytes);
        assert_eq!(error, Err(RlpWireError::ShortPacket(found)));
    }
    assert_eq!(rlp_wire::encode(&frame(FrameKind::Ack, None), &mut bytes), Err(RlpWireError::Kind));
    assert!(bytes.is_empty());
}

#[test]
fn radio_control_frames_are_told_apart_and_checked() {
    let window = RlpWireWindow { seen: 300, next: 10 };
    let kind = |bytes: &[u8]| rlp_wire::decode(bytes, &window).map(|frame| frame.kind);
    // 300 is 44 modulo 256: data and keep-alives are 172 to 427.
    assert_eq!(kind(&[44, 1]), Ok(FrameKind::Keepalive { next: 300 }));
    assert_eq!(kind(&[171, 1]), Ok(FrameKind::Keepalive { next: 427 }));
    assert_eq!(kind(&[172, 9, 9]), Ok(FrameKind::Data { sequence: 172 }));
    assert_eq!(kind(&[171, 9, 9]), Ok(FrameKind::Data { sequence: 427 }));
    assert_eq!(kind(&[9, 0]), Ok(FrameKind::Nack { sequence: 9 }));
    assert_eq!(kind(&[10, 0]), Err(RlpWireError::Number { found: 10, near: 9 }));
    assert_eq!(kind(&[9, 2]), Err(RlpWireError::Type(2)));
    assert_eq!(kind(&[9]), Err(RlpWireError::TooShort(1)));
    assert_eq!(kind(&[]), Err(RlpWireError::TooShort(0)));
    let idle = RlpWireWindow { seen: 0, next: 0 };
    assert!(rlp_wire::decode(&[0, 0], &idle).is_err(), "nothing can be missing");
    assert!(rlp_wire::decode(&[255, 1], &idle).is_err(), "nothing comes before 0");
}

#[test]
fn files_cross_a_raw_link_that_loses_nothing() {
    transfer(Protocol::Raw, 0.0);
}

#[test]
fn frames_without_a_byte_form_are_refused() {
    let frame = Frame {
        kind: FrameKind::Data { sequence: 0 },
        ack: Some(0),
        payload: Some(Vec::new()),
        bytes: 2,
        service: 0,
    };
    let mut bytes = Vec::new();
    assert_eq!(encode(&frame, &mut bytes), Err(WireError::EmptyPacket));
    let frame = Frame { ack: None, payload: Some(vec![1]), ..frame };
    assert_eq!(encode(&frame, &mut bytes), Err(WireError::NoAck));
    assert!(bytes.is_empty());
}

#[test]
fn control_frames_are_told_apart_and_checked() {
    let window = WireWindow { expected: 0, base: 254, next: 260, window: 8 };
    let kind = |bytes: &[u8]| decode(bytes, &window).map(|frame| (frame.kind, frame.ack));
    assert_eq!(kind(&[255, 0]), Ok((FrameKind::Ack, Some(256))));
    assert_eq!(kind(&[0, 0]), Ok((FrameKind::Nack { sequence: 256 }, Some(256))));
    assert_eq!(kind(&[3, 255]), Ok((FrameKind::Nack { sequence: 259 }, Some(255))));
    assert_eq!(kind(&[4, 0]), Err(WireError::Nack { found: 4, ack: 0, next: 4 }));
    assert_eq!(kind(&[4, 5]), Err(WireError::Ack { found: 5, base: 254, next: 4 }));
    assert_eq!(kind(&[1]), Err(WireError::TooShort(1)));
    // Nothing has been delivered yet, so nothing before 0 can come.
    assert_eq!(kind(&[255, 0, 9]), Err(WireError::Sequence { found: 255, expected: 0 }));
    assert_eq!(kind(&[8, 0, 9]), Err(WireError::Sequence { found: 8, expected: 0 }));
    assert_eq!(kind(&[7, 0, 9]), Ok((FrameKind::Data { sequence: 7 }, Some(256))));
}

proptest! {
    #[test]
    fn hostile_radio_bytes_never_panic(
        frames in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..5), 0..40),
        seen in prop_oneof![0u64..600, any::<u32>().prop_map(u64::from)],
        next in 0u64..600,
    ) {
        let check = |bytes: &[u8], window: RlpWireWindow| -> Result<_, TestCaseError> {
            let Ok(frame) = rlp_wire::decode(bytes, &window) else { return Ok(None) };
            let mut again = Vec::new();
            prop_assert_eq!(rlp_wire::encode(&frame, &mut again), Ok(()));
            prop_assert_eq!(&again[..], bytes);
            match frame.kind {
                FrameKind::Data { sequence: number } | FrameKind::Keepalive { next: number } => {
                    prop_assert!(number < window.seen + 128 && number + 128 >= window.seen);
                }
                FrameKind::Nack { sequence } => {
                    prop_assert!(sequence < window.next && sequence + 256 >= window.next);
                }
                _ => prop_assert!(false, "no such frame"),
            }
            Ok(Some(frame))
        };
        // Whatever decodes may go into a machine.
        let parameters = karn_rlp(2, Duration::from_millis(1), Duration::ZERO);
        let mut end = Rlp::new(parameters).expect("valid parameters");
        for (step, bytes) in frames.iter().enumerate() {
            check(bytes, RlpWireWindow { seen, next })?;
            let now = Instant::from_nanos(step as u64 * 500_000);
            end.handle_timeout(now);
            if let Some(frame) = check(bytes, end.wire_window())? {
                end.receive(now, frame);
            }
            if end.wants_packet() {
                end.enqueue(now, vec![1, 2]);
            }
            while let Some(frame) = end.poll_transmit(now) {
                let mut form = Vec::new();
                prop_assert_eq!(rlp_wire::encode(&frame, &mut form), Ok(()));
            }
        }
    }

    #[test]
    fn hostile_bytes_never_panic(
        bytes in prop::collection::vec(any::<u8>(), 0..5),
        expected in prop_oneof![0u64..600, any::<u32>().prop_map(u64::from)],
        base in 0u64..600,
        outstanding in 0u64..256,
        window in 1u32..256,
    ) {
        let context = WireWindow { expected, base, next: base + outstanding, window };
        if let Ok(frame) = decode(&bytes, &context) {
            let mut again = Vec::new();
            prop_assert_eq!(encode(&frame, &mut again), Ok(()));
            prop_assert_eq!(again, bytes);
            // Whatever decodes lies in the windows that the machines rely on.
            let ack = frame.ack.expect("decoded frames carry one");
            prop_assert!((base..=base + outstanding).contains(&ack));
            if let FrameKind::Data { sequence } = frame.kind {
                prop_assert!(sequence < expected + u64::from(window));
                prop_assert!(sequence + u64::from(window) >= expected);
            }
        }
    }
}
