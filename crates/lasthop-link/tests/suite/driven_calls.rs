//! The combined calls of a driver (`Driven`), and those of an endpoint whose frames are in order
//! (`InOrder`), are equivalent to the single calls of `Endpoint`: the frames, deliveries, timeouts
//! and counters of both are equal after each step.

use crate::common::*;
use lasthop_base::units::{Duration, Instant, Rate};
use lasthop_link::link::{
    Driven, Endpoint, Frame, FrameKind, LinkEndpoint, Release, RlpParameters,
};
use proptest::prelude::*;
use std::collections::VecDeque;
use std::iter::from_fn;

const TIMEOUT: Duration = Duration::from_nanos(40);

/// Both ends of a link, driven by single or by combined calls.
struct Pair {
    ends: [LinkEndpoint<Token>; 2],
    is_combined: bool,
    /// The frame written last, by side: the next one is written over it.
    written: [Frame<Token>; 2],
    in_transit: [VecDeque<Frame<Token>>; 2],
}

impl Pair {
    fn new(protocol: Protocol, is_combined: bool) -> Self {
        let (written, in_transit) = Default::default();
        Pair { ends: protocol.ends(), is_combined, written, in_transit }
    }

    /// Enqueues `packet` at `side`, if the endpoint wants it, and sends the next frame, if any.
    fn send_packet(&mut self, now: Instant, side: usize, packet: Token) -> Option<Frame<Token>> {
        let end = &mut self.ends[side];
        let wants_packet = end.wants_packet();
        if self.is_combined
            && wants_packet
            && let LinkEndpoint::SelectiveRepeat(end) = end
            && end.can_be_in_order()
            && end.is_in_order()
            && end.next_timeout() > now
        {
            let mut order = end.in_order();
            assert!(order.is_open(), "the endpoint wants a packet");
            order.send(now, &packet, &mut self.written[side]);
            let position = order.position();
            end.continue_from(position);
            self.in_transit[side].push_back(self.written[side]);
            return Some(self.written[side]);
        }
        if wants_packet {
            end.enqueue(now, packet);
        }
        self.send(now, side)
    }

    /// Sends the next frame of `side`, if any.
    fn send(&mut self, now: Instant, side: usize) -> Option<Frame<Token>> {
        let end = &mut self.ends[side];
        if self.is_combined
            && let LinkEndpoint::SelectiveRepeat(end) = end
            && end.can_be_in_order()
            && end.is_in_order()
            && end.next_timeout() > now
        {
            let mut order = end.in_order();
            if order.is_ack_first() {
                order.send_ack(&mut self.written[side]);
                let position = order.position();
                end.continue_from(position);
                self.in_transit[side].push_back(self.written[side]);
                return Some(self.written[side]);
            }
        }
        let frame = match self.is_combined {
            true => write(end, now, &mut self.written[side]),
            false => end.poll_transmit(now),
        };
        self.in_transit[side].extend(frame);
        frame
    }

    /// Receives the next frame of `side` at the other end. Returns the packets delivered.
    fn receive(&mut self, now: Instant, side: usize) -> Vec<Token> {
        let Some(mut frame) = self.in_transit[side].pop_front() else { return Vec::new() };
        let end = &mut self.ends[1 - side];
        if !self.is_combined {
            end.receive(now, frame);
            return from_fn(|| end.poll_deliver()).collect();
        }
        if let LinkEndpoint::SelectiveRepeat(end) = end
            && end.can_be_in_order()
            && end.is_in_order()
            && end.next_timeout() > now
        {
            let mut order = end.in_order();
            if order.is_next(&frame) || frame.kind == FrameKind::Ack {
                match frame.kind {
                    FrameKind::Ack => order.receive_ack(&frame),
                    _ => order.receive(&frame),
                }
                let position = order.position();
                end.continue_from(position);
                return frame.payload.into_iter().collect();
            }
        }
        let takes_next = end.takes_next(&frame);
        let sent = frame.payload;
        let has_more = end.accept(now, &mut frame);
        if takes_next {
            assert!(!has_more && frame.payload == sent, "the packet of the frame is delivered");
            assert!(end.wants_packet(), "a packet can be sent");
        }
        let mut delivered: Vec<_> = frame.payload.into_iter().collect();
        let later: Vec<_> = from_fn(|| end.poll_deliver()).collect();
        assert!(has_more || later.is_empty(), "all packets were announced");
        delivered.extend(later);
        delivered
    }
}

/// Calls `write_next` of the machine in `end`.
fn write(
    end: &mut LinkEndpoint<Token>,
    now: Instant,
    frame: &mut Frame<Token>,
) -> Option<Frame<Token>> {
    let is_there = match end {
        LinkEndpoint::SelectiveRepeat(end) => end.write_next(now, frame),
        LinkEndpoint::GoBackN(end) => end.write_next(now, frame),
        LinkEndpoint::KarnRlp(end) | LinkEndpoint::OosRlp(end) => end.write_next(now, frame),
        LinkEndpoint::StopAndWait(end) => end.write_next(now, frame),
        LinkEndpoint::RlcAm(end) => end.write_next(now, frame),
        LinkEndpoint::Harq(end) => end.write_next(now, frame),
        other => return other.poll_transmit(now),
    };
    is_there.then_some(*frame)
}

fn protocols(window: u32) -> Vec<Protocol> {
    let mut all = every_reliable_protocol(window, TIMEOUT);
    for retries in [Some(0), Some(2)] {
        all.push(Protocol::StopAndWait(stop_and_wait(retries, TIMEOUT)));
    }
    for release in [Release::InSequence, Release::Immediate] {
        for (retransmissions, keepalive) in [(0, None), (2, Some(TIMEOUT)), (3, None)] {
            let parameters = karn_rlp(retransmissions, TIMEOUT, Duration::from_nanos(1));
            let keepalives = Some(2);
            all.push(Protocol::Rlp(RlpParameters { release, keepalive, keepalives, ..parameters }));
        }
    }
    for payload in [20, 400] {
        let parameters = rlc(payload, Rate::UNLIMITED, TIMEOUT);
        all.push(Protocol::Rlc(parameters));
    }
    all
}

/// One step: its kind, the side, and the time before it.
fn steps() -> impl Strategy<Value = Vec<(u8, usize, u64)>> {
    prop::collection::vec((0u8..9, 0usize..2, 0u64..12), 1..300)
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(64) })]

    #[test]
    fn combined_calls_are_equivalent_to_single_calls(
        window in prop::sample::select(vec![1, 2, 5, 8, 200]),
        steps in steps(),
    ) {
        for protocol in protocols(window) {
            let mut pairs = [false, true].map(|is_combined| Pair::new(protocol, is_combined));
            let (mut now, mut number) = (Instant::ZERO, 0);
            for &(kind, side, pause) in &steps {
                now += Duration::from_nanos(pause);
                number += 1;
                let outcomes = pairs.each_mut().map(|pair| {
                    if pair.ends[side].next_timeout() <= now {
                        pair.ends[side].handle_timeout(now);
                    }
                    match kind {
                        0..3 => {
                            let bytes = 1 + (number * 37 % 120) as u32;
                            (pair.send_packet(now, side, Token { number, bytes }), Vec::new())
                        }
                        3..5 => (pair.send(now, side), Vec::new()),
                        5..8 => (None, pair.receive(now, side)),
                        // A lost frame.
                        _ => (pair.in_transit[side].pop_front(), Vec::new()),
                    }
                });
                let [single, combined] = outcomes;
                prop_assert_eq!(single, combined, "{:?}", protocol);
                for side in [0, 1] {
                    let [single, combined] = pairs.each_ref().map(|pair| {
                        let end = &pair.ends[side];
                        (end.next_timeout(), end.has_frame(), end.wants_packet(), end.counters())
                    });
                    prop_assert_eq!(single, combined, "{:?}", protocol);
                }
                for pair in &mut pairs {
                    pair.ends.iter_mut().for_each(Endpoint::drop_events);
                }
            }
        }
    }
}
