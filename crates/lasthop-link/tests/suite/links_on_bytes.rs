//! Real bytes through the byte codec: two files simultaneously, over a pipe with losses and delay.

use crate::common::*;
use lasthop_base::rng::Streams;
use lasthop_base::units::{Duration, Instant, Rate};
use lasthop_link::link::rlc_wire::{self, RlcWireError, RlcWireWindow};
use lasthop_link::link::rlp_wire::{self, RlpWireError, RlpWireWindow};
use lasthop_link::link::wire::{NumberWidth, WireError, WireWindow, decode, encode};
use lasthop_link::link::{
    AtLimit, BytesError, Driven, Endpoint, Frame, FrameKind, LinkEndpoint, Release, RlcParameters,
    Rlp, RlpParameters,
};
use proptest::prelude::*;
use std::collections::VecDeque;

const STREAMS: Streams = Streams { seed: 11, replication: 0 };

/// A random file, and its segmentation into packets of 1 to 300 B, all offered at time 0.
pub fn file(name: &str, bytes: usize) -> (Vec<u8>, VecDeque<(Instant, Vec<u8>)>) {
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

/// The frame as received: lost units are filled with zeros.
fn as_received(mut frame: Frame<Vec<u8>>) -> Frame<Vec<u8>> {
    if let (FrameKind::Block { units, intact, .. }, Some(coded)) = (frame.kind, &mut frame.payload)
    {
        let length = coded.len() / usize::from(units.units);
        for (place, unit) in coded.chunks_exact_mut(length).enumerate() {
            if intact >> place & 1 == 0 {
                unit.fill(0);
            }
        }
    }
    frame
}

pub fn through_bytes(frame: Frame<Vec<u8>>, receiver: &LinkEndpoint<Vec<u8>>) -> Frame<Vec<u8>> {
    let mut bytes = Vec::new();
    receiver.encode(&frame, &mut bytes).expect("every frame of a machine has a byte form");
    let decoded = receiver.decode(&bytes).expect("every frame of a correct peer decodes");
    assert_eq!(bytes.len() as u32, decoded.bytes);
    // Go-back-N with more than 128 outstanding frames may decode an old number as a new one.
    let is_ambiguous = match receiver {
        LinkEndpoint::GoBackN(end) => (129..256).contains(&end.wire_window().window),
        // Frames that are discarded until the RESET ACK arrives, or a spurious RESET ACK.
        LinkEndpoint::RlcAm(end) => {
            end.wire_window().resetting.is_some()
                || matches!(frame.kind, FrameKind::ResetAck { .. })
        }
        _ => false,
    };
    if !is_ambiguous {
        // A raw link does not transmit numbers.
        let kind = match receiver {
            LinkEndpoint::Raw(_) => FrameKind::Data { sequence: 0 },
            _ => frame.kind,
        };
        assert_eq!(decoded, as_received(Frame { kind, ..frame }));
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
fn packets_cross_radio_links_unharmed_or_not_at_all() {
    let frame_time = Duration::from_nanos(4_816_000);
    let parameters = karn_rlp(2, Duration::from_millis(70), frame_time);
    let parameters = RlpParameters { keepalive: Some(Duration::from_millis(30)), ..parameters };
    // One-byte packets look like control frames.
    let two_bytes = |packets: VecDeque<(Instant, Vec<u8>)>| {
        packets.into_iter().filter(|(_, packet)| packet.len() > 1).collect::<VecDeque<_>>()
    };
    for release in [Release::InSequence, Release::Immediate] {
        let protocol = Protocol::Rlp(RlpParameters { release, ..parameters });
        let offers = [two_bytes(file("up", 400_000).1), two_bytes(file("down", 300_000).1)];
        let packets =
            offers.each_ref().map(|o| o.iter().map(|(_, p)| p.clone()).collect::<Vec<_>>());
        // About 40 frames per round trip of up to 100 ms: the numbers suffice.
        let air = (Rate::from_bps(500_000), Duration::from_millis(10));
        let fates = [lossy("up", 0.1), lossy("down", 0.1)];
        let mut link = Link::new(protocol.ends(), air, offers, fates).with_codec(through_bytes);
        link.run(Instant::from_nanos(20_000_000_000));
        for (side, packets) in packets.iter().enumerate() {
            assert!(packets.len() > 1_900, "numbers wrap several times");
            let up = &link.delivered[1 - side];
            assert!(up.len() > packets.len() * 9 / 10 && up.len() < packets.len());
            if release == Release::InSequence {
                // A subsequence of the sent packets.
                let mut sent = packets.iter();
                assert!(up.iter().all(|packet| sent.any(|other| other == packet)));
            } else {
                assert!(up.iter().all(|packet| packets.contains(packet)));
            }
        }
    }
}

#[test]
fn packets_cross_acknowledged_mode_unharmed_or_not_at_all() {
    let rate = Rate::from_bps(2_000_000);
    let ms = Duration::from_millis;
    // Length indicators have one byte up to 124, and two bytes above.
    for payload in [20, 40, 124, 125, 299, 4000] {
        for window in [1, 200, 2047] {
            let set = RlcParameters { window, ..rlc(payload, rate, ms(10)) };
            transfer(Protocol::Rlc(set), 0.1);
            for at_limit in [AtLimit::Discard, AtLimit::Reset] {
                let max_transmissions = Some(2);
                let set = RlcParameters { max_transmissions, at_limit, max_skips: 2, ..set };
                let offers = [file("up", 120_000).1, file("down", 90_000).1];
                let sent = offers.each_ref().map(|o| o.iter().cloned().map(|(_, p)| p));
                let sent = sent.map(|packets| packets.collect::<Vec<_>>());
                let fates = [lossy("up", 0.1), lossy("down", 0.1)];
                let air = (rate, ms(10));
                let mut link = Link::new(Protocol::Rlc(set).ends(), air, offers, fates)
                    .with_codec(through_bytes);
                link.run(Instant::NEVER);
                for (side, packets) in sent.iter().enumerate() {
                    // A subsequence of the sent packets.
                    let (up, mut rest) = (&link.delivered[1 - side], packets.iter());
                    assert!(up.iter().all(|packet| rest.any(|other| other == packet)));
                    let counters = link.ends[side].counters();
                    assert_eq!(counters.packets, packets.len() as u64);
                    assert!(up.len() as u64 + counters.packets_abandoned >= counters.packets);
                    assert!(!up.is_empty());
                }
            }
        }
    }
}

#[test]
fn acknowledged_mode_has_the_fields_of_the_standard() {
    let window = RlcWireWindow {
        expected: 4090,
        base: 4094,
        next: 4500,
        window: 1024,
        payload: 40,
        resetting: None,
        peer_reset: None,
    };
    let frame = |kind, ack, payload| Frame { kind, ack, payload, bytes: 42, service: 0 };
    let form = |frame: &Frame<Vec<u8>>, window: &RlcWireWindow| {
        let mut bytes = Vec::new();
        rlc_wire::encode(frame, window.payload, &mut bytes).expect("a byte form");
        assert_eq!(bytes.len(), 2 + window.payload as usize);
        assert_eq!(rlc_wire::decode(&bytes, window).as_ref(), Ok(frame));
        bytes
    };
    let segment = |sequence, is_last, poll| FrameKind::Segment { sequence, is_last, poll };
    // D/C 1, 4097 = 1 modulo 4096, P, HE.
    let full = form(&frame(segment(4097, false, true), None, Some(vec![7; 40])), &window);
    assert_eq!(full[..3], [0x80, 0b0000_1100, 7]);
    let exact = form(&frame(segment(4095, true, false), None, Some(vec![7; 40])), &window);
    assert_eq!(exact[..3], [0xff, 0b1111_1010, 7]);
    let short = form(&frame(segment(4095, true, false), None, Some(vec![7; 3])), &window);
    assert_eq!(short[..7], [0xff, 0b1111_1001, 3 << 1, 7, 7, 7, 0]);
    for (bytes, start) in [(998, [0, 1, 3]), (999, [0, 0b11, 7]), (1000, [0, 0b10, 7])] {
        let wide = RlcWireWindow { expected: 0, payload: 1000, ..window };
        let last = Frame { bytes: 1002, ..frame(segment(0, true, false), None, None) };
        let form = form(&Frame { payload: Some(vec![7; bytes]), ..last }, &wide);
        let start = if bytes == 998 { [0x80, 1, 0b111] } else { [0x80, start[1], start[2]] };
        assert_eq!(form[..3], start, "{bytes}");
    }
    let status = |first, missing| FrameKind::Status { first, missing };
    let all = form(&frame(status(4100, [0, 0]), Some(4100), None), &window);
    assert_eq!(all[..4], [0b0000_0010, 0, 0b100_0000, 0]);
    let some = form(&frame(status(4095, [0b101, 1 << 63]), Some(4300), None), &window);
    // STATUS, BITMAP of 16 bytes from 4095 onwards; then ACK of 204, NO_MORE.
    assert_eq!(some[..4], [0x04, 0xff, 0xff, 0b0101_1111]);
    assert_eq!(some[4..19], [&[0xff; 14][..], &[0xfe]].concat());
    assert_eq!(some[19..22], [0x20, 0xcc, 0]);
    form(&frame(status(4300, [1, 0]), None, None), &window);
    let skip = form(&frame(FrameKind::Skip { next: 4099 }, None, None), &window);
    assert_eq!(skip[..5], [0b0000_0110, 0b0001_0000, 0b0000_0011, 0, 0]);
    let skip_ack = form(&frame(FrameKind::SkipAck { next: 4098 }, None, None), &window);
    assert_eq!(skip_ack[..4], [0b0000_0111, 0, 2, 0]);
    let reset = form(&frame(FrameKind::Reset { index: 0 }, None, None), &window);
    assert_eq!(reset[..2], [0b0001_0000, 0]);
    let again = RlcWireWindow { peer_reset: Some(6), resetting: Some(3), ..window };
    let reset = form(&frame(FrameKind::Reset { index: 7 }, None, None), &again);
    assert_eq!(reset[0], 0b0001_1000);
    assert_eq!(form(&frame(FrameKind::ResetAck { index: 3 }, None, None), &again)[0], 0b0010_1000);
    assert_eq!(form(&frame(FrameKind::ResetAck { index: 2 }, None, None), &again)[0], 0b0010_0000);

    let error = |frame: &Frame<Vec<u8>>| rlc_wire::encode(frame, 40, &mut Vec::new());
    let piece = |found| Err(RlcWireError::Piece { found, payload: 40 });
    assert_eq!(error(&frame(segment(0, true, false), None, Some(vec![0; 41]))), piece(41));
    assert_eq!(error(&frame(segment(0, false, false), None, Some(vec![0; 39]))), piece(39));
    assert_eq!(error(&frame(FrameKind::Ack, None, None)), Err(RlcWireError::Kind));
    let read = |start: &[u8]| {
        let mut bytes = start.to_vec();
        bytes.resize(42, 0);
        rlc_wire::decode(&bytes, &window).map_err(|error| error.to_string()).expect_err("refused")
    };
    assert!(rlc_wire::decode(&[0; 41], &window).is_err());
    assert!(read(&[0b0100_0000]).contains("invalid PDU type 4"));
    assert!(read(&[0b0000_1000]).contains("invalid field 8"));
    assert!(read(&[0x80, 0b11]).contains("invalid header extension 3"));
    assert!(read(&[0x80, 1, 80]).contains("length indicator"));
    assert!(read(&[0b1100_0000]).contains("sequence number"), "2048 is beyond both windows");
    assert!(read(&[0b0000_0010, 0x80]).contains("acknowledgment"));
    assert!(read(&[0b0001_1000]).contains("RSN"));
}

/// Each service has its own format after its identifier. Delivered packets equal the sent ones, and
/// the reliable services deliver all of them.
#[test]
fn services_share_a_link_of_bytes() {
    let timeout = Duration::from_millis(70);
    let protocols = [
        Protocol::SelectiveRepeat(selective_repeat(8, timeout)),
        Protocol::GoBackN(go_back_n(8, timeout)),
        Protocol::Rlp(karn_rlp(2, timeout, Duration::from_nanos(4_816_000))),
    ];
    // Packets with the first bytes of an IPv4 header: the DS code point selects the service.
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

#[test]
fn wide_windows_have_numbers_of_two_bytes() {
    let width = NumberWidth::selective(300);
    assert_eq!(width.header().get(), 4);
    let frame = |sequence, ack, payload| Frame {
        kind: FrameKind::Data { sequence },
        ack: Some(ack),
        payload: Some(payload),
        bytes: 5,
        service: 0,
    };
    let mut bytes = Vec::new();
    encode(&frame(0x1_0203, 0xffff, vec![9]), width, &mut bytes).expect("a byte form");
    assert_eq!(bytes, [2, 3, 0xff, 0xff, 9]);
    // Numbers wrap around at 65536, in both directions.
    let window =
        WireWindow { expected: 0x1_0100, base: 0xfffe, next: 0x1_0004, window: 300, width };
    assert_eq!(decode(&bytes, &window), Ok(frame(0x1_0203, 0xffff, vec![9])));
    let kind = |bytes: &[u8]| decode(bytes, &window).map(|frame| (frame.kind, frame.ack));
    assert_eq!(kind(&[0, 2, 0, 3]), Ok((FrameKind::Ack, Some(0x1_0003))));
    assert_eq!(kind(&[0, 3, 0, 2]), Ok((FrameKind::Nack { sequence: 0x1_0003 }, Some(0x1_0002))));
    assert_eq!(
        kind(&[0xff, 0xff, 0, 2, 7]),
        Ok((FrameKind::Data { sequence: 0xffff }, Some(0x1_0002)))
    );
    assert_eq!(kind(&[3, 0, 0, 2, 7]), Err(WireError::Sequence { found: 0x300, expected: 0x100 }));
    assert_eq!(kind(&[0, 2, 0]), Err(WireError::TooShort(3, 4)));
    let narrow = [128, 129].map(|window| NumberWidth::selective(window).header().get());
    assert_eq!(narrow, [2, 4]);
    let narrow = [255, 256].map(|window| NumberWidth::cumulative(window).header().get());
    assert_eq!(narrow, [2, 4]);
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
    // 300 is 44 modulo 256: the numbers of data and keep-alives are 172 to 427.
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
    assert_eq!(encode(&frame, NumberWidth::One, &mut bytes), Err(WireError::EmptyPacket));
    let frame = Frame { ack: None, payload: Some(vec![1]), ..frame };
    assert_eq!(encode(&frame, NumberWidth::One, &mut bytes), Err(WireError::NoAck));
    assert!(bytes.is_empty());
}

#[test]
fn control_frames_are_told_apart_and_checked() {
    let window =
        WireWindow { expected: 0, base: 254, next: 260, window: 8, width: NumberWidth::One };
    let kind = |bytes: &[u8]| decode(bytes, &window).map(|frame| (frame.kind, frame.ack));
    assert_eq!(kind(&[255, 0]), Ok((FrameKind::Ack, Some(256))));
    assert_eq!(kind(&[0, 0]), Ok((FrameKind::Nack { sequence: 256 }, Some(256))));
    assert_eq!(kind(&[3, 255]), Ok((FrameKind::Nack { sequence: 259 }, Some(255))));
    assert_eq!(kind(&[4, 0]), Err(WireError::Nack { found: 4, ack: 0, next: 4 }));
    assert_eq!(kind(&[4, 5]), Err(WireError::Ack { found: 5, base: 254, next: 4 }));
    assert_eq!(kind(&[1]), Err(WireError::TooShort(1, 2)));
    // No packets have been delivered yet, so that numbers before 0 are impossible.
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
        // Every decoded frame may be passed to an endpoint.
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
    fn hostile_acknowledged_mode_never_panics(
        frames in prop::collection::vec(
            (prop::collection::vec(prop_oneof![Just(0u8), Just(0x80), any::<u8>()], 0..6), 22usize..24),
            0..60,
        ),
        window in prop_oneof![1u32..9, Just(2047)],
        limit in prop_oneof![Just(None), (1u32..3).prop_map(Some)],
        reset in any::<bool>(),
    ) {
        let at_limit = if reset { AtLimit::Reset } else { AtLimit::Discard };
        let rate = Rate::from_bps(2_000_000);
        let discard_after = limit.map(|limit| Duration::from_millis(limit.into()));
        let set = RlcParameters {
            window,
            max_transmissions: limit,
            at_limit,
            discard_after,
            nack_guard: Duration::ZERO,
            ..rlc(20, rate, Duration::from_millis(1))
        };
        let [mut end, _] = Protocol::Rlc(set).ends::<Vec<u8>>();
        for (step, (start, length)) in frames.into_iter().enumerate() {
            let now = Instant::from_nanos(step as u64 * 500_000);
            end.handle_timeout(now);
            let mut bytes = start;
            bytes.resize(length, 0);
            if let Ok(frame) = end.decode(&bytes) {
                let mut again = Vec::new();
                prop_assert_eq!(end.encode(&frame, &mut again), Ok(()));
                let reread = end.decode(&again);
                prop_assert_eq!(reread.as_ref(), Ok(&frame));
                end.receive(now, frame);
            }
            while end.poll_deliver().is_some() {}
            for _ in 0..4 {
                let mut frame = Frame::default();
                if !end.write_frame(now, || Some(vec![7; 30]), &mut frame) {
                    break;
                }
                let mut form = Vec::new();
                prop_assert_eq!(end.encode(&frame, &mut form), Ok(()));
            }
            end.drop_events();
        }
    }

    #[test]
    fn hostile_bytes_never_panic(
        bytes in prop::collection::vec(any::<u8>(), 0..7),
        expected in prop_oneof![0u64..600, any::<u32>().prop_map(u64::from)],
        base in 0u64..600,
        outstanding in 0u64..256,
        window in 1u32..256,
        width in prop_oneof![Just(NumberWidth::One), Just(NumberWidth::Two)],
    ) {
        let context = WireWindow { expected, base, next: base + outstanding, window, width };
        if let Ok(frame) = decode(&bytes, &context) {
            let mut again = Vec::new();
            prop_assert_eq!(encode(&frame, width, &mut again), Ok(()));
            prop_assert_eq!(again, bytes);
            // Every decoded number is within the windows that the endpoints rely on.
            let ack = frame.ack.expect("decoded frames carry one");
            prop_assert!((base..=base + outstanding).contains(&ack));
            if let FrameKind::Data { sequence } = frame.kind {
                prop_assert!(sequence < expected + u64::from(window));
                prop_assert!(sequence + u64::from(window) >= expected);
            }
        }
    }
}

mod slow {
    use super::*;

    #[test]
    fn files_cross_every_reliable_link_unharmed() {
        for window in [1, 7, 128, 255, 300] {
            for protocol in every_reliable_protocol(window, Duration::from_millis(70)) {
                transfer(protocol, 0.1);
            }
        }
    }
}
