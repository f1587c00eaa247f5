//! Real bytes through the byte codec: two files at once, over a pipe that loses and delays.

mod common;

use common::*;
use lasthop::link::wire::{WireError, WireWindow, decode, encode};
use lasthop::link::{Frame, FrameKind, LinkEndpoint};
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
    let Some(window) = receiver.wire_window() else { return frame };
    let mut bytes = Vec::new();
    encode(&frame, &mut bytes).expect("every frame of a machine has a byte form");
    let decoded = decode(&bytes, &window).expect("every frame of a correct peer decodes");
    if window.window <= 128 {
        assert_eq!(decoded, frame);
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
