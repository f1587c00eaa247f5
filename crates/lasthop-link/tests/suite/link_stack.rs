//! Stacked link layers, with descriptors and with bytes.

use crate::common::*;
use crate::links_on_bytes::file;
use lasthop_base::packet::{Descriptor, Watched};
use lasthop_base::units::{Duration, Instant, Rate};
use lasthop_link::link::{
    AtLimit, CarriesFrames, Endpoint, Frame, FrameKind, HarqMode, HarqParameters, IdealSr,
    LayerEvent, LinkEndpoint, LinkError, RlcParameters, XorFecParameters, stack,
};
use proptest::prelude::*;
use std::collections::VecDeque;

type Packet = Descriptor<Watched>;

/// A rate and a delay with which frames of 300 B take 12 ms, and a lower layer repairs a loss
/// within 200 ms.
const AIR: (Rate, Duration) = (Rate::from_bps(200_000), Duration::from_millis(20));

/// Both ends of a stack, the upper layer first.
fn ends<P: CarriesFrames>(layers: &[Protocol]) -> [LinkEndpoint<P>; 2] {
    let [one, other] = [0, 1].map(|side| {
        let end = |layer: &Protocol| {
            let [one, other] = layer.ends();
            if side == 0 { one } else { other }
        };
        stack(layers.iter().map(end).collect(), None).expect("layers that go together")
    });
    [one, other]
}

/// Possible lower layers: with losses, late repairs or out-of-order delivery.
fn lower() -> Vec<Protocol> {
    let millis = Duration::from_millis;
    let in_order = XorFecParameters { in_order: true, ..xor_fec(4, millis(60)) };
    let once = HarqParameters { max_transmissions: Some(2), window: 32, ..harq(20, millis(70)) };
    let whole = HarqParameters { mode: HarqMode::Pipelined, ..once };
    vec![
        Protocol::Raw,
        Protocol::XorFec(xor_fec(4, millis(60))),
        Protocol::XorFec(XorFecParameters { interleave: 3, ..in_order }),
        Protocol::XorFec(in_order),
        Protocol::Harq(once),
        Protocol::Harq(HarqParameters { units: 1, ..whole }),
        Protocol::StopAndWait(stop_and_wait(Some(1), millis(70))),
        Protocol::SelectiveRepeat(selective_repeat(16, millis(90))),
        Protocol::Rlc(RlcParameters {
            at_limit: AtLimit::Discard,
            max_transmissions: Some(2),
            ..rlc(40, AIR.0, AIR.1)
        }),
    ]
}

/// Layers that repair every loss, with timers longer than the repairs of the lower layer.
fn upper(window: u32) -> Vec<Protocol> {
    let mut all = every_reliable_protocol(window, Duration::from_millis(500));
    let timers = Duration::from_millis(500);
    all.push(Protocol::Rlc(RlcParameters {
        poll_timeout: timers,
        nack_guard: timers,
        ..rlc(40, AIR.0, AIR.1)
    }));
    all
}

/// Numbered datagrams, all offered at time 0.
fn datagrams(count: u64) -> VecDeque<(Instant, Packet)> {
    let bytes = |number: u64| 1 + (number as u32 * 37) % 290;
    let packet = |number| Packet::datagram(3, bytes(number), number, Instant::ZERO);
    (0..count).map(|number| (Instant::ZERO, packet(number))).collect()
}

/// The packets without the data of observers.
fn plain(packets: impl IntoIterator<Item = Packet>) -> Vec<lasthop_base::packet::Packet> {
    packets.into_iter().map(|packet| packet.full()).collect()
}

fn through_bytes(frame: Frame<Vec<u8>>, receiver: &LinkEndpoint<Vec<u8>>) -> Frame<Vec<u8>> {
    let mut bytes = Vec::new();
    receiver.encode(&frame, &mut bytes).expect("every frame of a machine has a byte form");
    receiver.decode(&bytes).expect("every frame of a correct peer decodes")
}

fn losing_some(name: &str, loss: f64) -> Fate {
    let streams = lasthop_base::rng::Streams { seed: 12, replication: 0 };
    let mut stream = streams.stream(name, "fate");
    Box::new(move |_| (stream.bernoulli(loss), Duration::ZERO))
}

#[test]
fn every_stack_delivers_all_in_order_on_descriptors_and_bytes() {
    let protocols = upper(32);
    for below in lower() {
        for (index, above) in protocols.iter().enumerate() {
            // Only every fifth mode of selective repeat and the like is tested.
            if index % 5 != 0 && !matches!(above, Protocol::Rlc(_) | Protocol::StopAndWait(_)) {
                continue;
            }
            let fates = || [losing_some("up", 0.15), losing_some("down", 0.15)];
            let offers = [datagrams(60), datagrams(40)];
            let sent = offers.each_ref().map(|way| plain(way.iter().map(|&(_, packet)| packet)));
            let mut link = Link::new(ends(&[*above, below]), AIR, offers, fates());
            link.run(Instant::from_nanos(600_000_000_000));
            let [back, there] = link.delivered.map(plain);
            assert!([there, back] == sent, "descriptors: {above:?} over {below:?}");

            let (up, down) = (file("up", 6_000), file("down", 5_000));
            let ends = ends(&[*above, below]);
            let mut link = Link::new(ends, AIR, [up.1, down.1], fates()).with_codec(through_bytes);
            link.run(Instant::from_nanos(600_000_000_000));
            assert!(link.delivered[1].concat() == up.0, "bytes: {above:?} over {below:?}");
            assert!(link.delivered[0].concat() == down.0, "bytes: {above:?} over {below:?}");
        }
    }
}

#[test]
fn three_layers_deliver_all_in_order() {
    let millis = Duration::from_millis;
    let in_order = XorFecParameters { in_order: true, ..xor_fec(4, millis(60)) };
    for middle in
        [Protocol::XorFec(in_order), Protocol::StopAndWait(stop_and_wait(Some(1), millis(300)))]
    {
        for lowest in [Protocol::XorFec(in_order), Protocol::Harq(harq(20, millis(70)))] {
            let layers =
                [Protocol::SelectiveRepeat(selective_repeat(32, millis(900))), middle, lowest];
            let fates = [losing_some("up", 0.15), losing_some("down", 0.15)];
            let offers = [datagrams(60), datagrams(40)];
            let sent = offers.each_ref().map(|way| plain(way.iter().map(|&(_, packet)| packet)));
            let mut link = Link::new(ends(&layers), AIR, offers, fates);
            link.run(Instant::from_nanos(600_000_000_000));
            let [back, there] = link.delivered.map(plain);
            assert!([there, back] == sent, "{layers:?}");
        }
    }
}

#[test]
fn a_frame_between_layers_is_reported_with_its_number() {
    let millis = Duration::from_millis;
    let layers = [Protocol::StopAndWait(stop_and_wait(None, millis(500))), Protocol::Raw];
    let [mut near, mut far] = ends::<Packet>(&layers);
    let events = |end: &mut LinkEndpoint<Packet>| {
        let LinkEndpoint::Stack(stack) = end else { unreachable!("built so") };
        std::iter::from_fn(|| stack.poll_layer_event()).collect::<Vec<_>>()
    };
    let (_, packet) = datagrams(1).remove(0).expect("one");
    near.enqueue(Instant::ZERO, packet);
    let frame = near.poll_transmit(Instant::ZERO).expect("a frame");
    // 1 B and the header of stop-and-wait; a raw link adds nothing.
    assert_eq!((frame.kind, frame.bytes), (FrameKind::Data { sequence: 0 }, 3));
    let at = Instant::ZERO;
    let kind = FrameKind::Data { sequence: 0 };
    let sent = LayerEvent::Sent { number: 0, kind, ack: Some(0), bytes: 3, carries: None, at };
    assert_eq!(events(&mut near), [(0, sent)]);
    let at = Instant::from_nanos(9);
    far.receive(at, frame);
    assert_eq!(events(&mut far), [(0, LayerEvent::Received { number: 0, at })]);
    assert_eq!(far.poll_deliver().map(|packet| packet.full()), Some(packet.full()));
}

#[test]
fn stacks_that_make_no_sense_are_refused() {
    let raw = || Protocol::Raw.ends::<Packet>()[0].clone();
    for count in [0, 1, 4] {
        let layers = (0..count).map(|_| raw()).collect();
        let refused = stack::<Packet>(layers, None).expect_err("no stack");
        assert_eq!(refused, LinkError::Layers { found: count, largest: 3 });
    }
    let ideal = IdealSr::<Packet>::new(ideal_sr(None)).expect("valid");
    let ideal = LinkEndpoint::IdealSr(Box::new(ideal));
    assert_eq!(stack(vec![raw(), ideal], None).expect_err("ideal"), LinkError::Layer);
    let whole = stack(vec![raw(), raw()], None).expect("two layers");
    assert_eq!(stack(vec![raw(), whole], None).expect_err("nested"), LinkError::Layer);
}

#[test]
fn fec_in_order_delivers_the_same_packets_as_at_once() {
    for (block, interleave) in [(1, 1), (4, 1), (8, 3), (64, 1), (8, 8)] {
        let [at_once, in_order] = [false, true].map(|in_order| {
            let timeout = Duration::from_millis(40);
            let fec = XorFecParameters { in_order, interleave, ..xor_fec(block, timeout) };
            // Bursts of losses, some of them longer than a block.
            let mut left = 0;
            let mut stream =
                lasthop_base::rng::Streams { seed: 3, replication: 0 }.stream("fec", "fate");
            let fate: Fate = Box::new(move |index| {
                if left == 0 && stream.bernoulli(0.05) {
                    left = 1 + stream.bits() % if stream.bernoulli(0.1) { 100 } else { 5 };
                }
                let is_lost = left > 0;
                left = left.saturating_sub(1);
                (is_lost && index < 5900, Duration::ZERO)
            });
            let offers = [datagrams(5000), VecDeque::new()];
            let ends = Protocol::XorFec(fec).ends();
            let mut link = Link::new(ends, AIR, offers, [fate, clean()]);
            link.run(Instant::NEVER);
            let numbers = link.delivered[1].iter().map(|packet| packet.datagram_number());
            (numbers.collect::<Vec<_>>(), link.ends[1].counters())
        });
        assert!(in_order.0.is_sorted(), "{block} x {interleave}");
        let mut sorted = at_once.0.clone();
        sorted.sort_unstable();
        assert_eq!(in_order.0, sorted, "{block} x {interleave}");
        assert_eq!(in_order.1, at_once.1);
        assert!(!at_once.0.is_sorted() || block == 1, "something was recovered late");
    }
}

fn pattern() -> impl Strategy<Value = Pattern> {
    (0.0..1.0f64, 0u64..80).prop_flat_map(|(loss, jitter)| {
        prop::collection::vec((prop::bool::weighted(loss), 0..=jitter), 0..60)
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// With any losses, every stack delivers packets exactly once and in order, and fulfils the
    /// contract of an endpoint.
    #[test]
    fn stack_properties(
        window in 1u32..9,
        above in 0usize..20,
        below in 0usize..9,
        counts in [0u64..30, 0u64..30],
        patterns in [pattern(), pattern()],
    ) {
        let protocols = upper(window);
        let layers = [protocols[above % protocols.len()], lower()[below]];
        let outcome = |strict| {
            let offers = counts.map(datagrams);
            let mut link = Link::new(ends(&layers), AIR, offers, patterns.each_ref().map(fate));
            link.strict = strict;
            link.run(Instant::from_nanos(3_600_000_000_000));
            let counters = link.ends.each_ref().map(|end| end.counters());
            (link.delivered.map(plain), counters, link.now)
        };
        let found = outcome(true);
        let sent = counts.map(|count| plain(datagrams(count).into_iter().map(|(_, packet)| packet)));
        let [back, there] = &found.0;
        prop_assert_eq!([there, back], sent.each_ref(), "{:?}", layers);
        prop_assert!(found.2 < Instant::from_nanos(600_000_000_000), "{layers:?}: late");
        prop_assert_eq!(&found, &outcome(false), "not deterministic");
    }

    /// A layer without protocol changes nothing, as the upper or the lower layer.
    #[test]
    fn raw_layer_properties(
        which in 0usize..20,
        counts in [0u64..30, 0u64..30],
        patterns in [pattern(), pattern()],
    ) {
        let protocols = upper(8);
        let alone = protocols[which % protocols.len()];
        let run = |ends| {
            let offers = counts.map(datagrams);
            let mut link = Link::new(ends, AIR, offers, patterns.each_ref().map(fate));
            link.run(Instant::from_nanos(3_600_000_000_000));
            (link.delivered.map(plain), link.delivered_at, link.now)
        };
        let expected = run(alone.ends());
        prop_assert_eq!(&run(ends(&[Protocol::Raw, alone])), &expected);
        prop_assert_eq!(&run(ends(&[alone, Protocol::Raw])), &expected);
    }
}
