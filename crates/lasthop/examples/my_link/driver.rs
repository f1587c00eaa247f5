//! A minimal driver: two endpoints, a lossy line in each direction, and a clock.

use lasthop::channel::Channel;
use lasthop::link::{Endpoint, Frame, FrameKind};
use lasthop::packet::Payload;
use lasthop::queue::Transmitter;
use lasthop::units::{Duration, Instant, Rate};
use std::collections::VecDeque;

/// Both directions of a line, each with its transmitter and its error process.
pub struct Air {
    delay: Duration,
    transmitters: [Transmitter; 2],
    channels: [Channel; 2],
}

impl Air {
    /// A line of this rate and one-way delay.
    pub fn new(rate: Rate, delay: Duration, channels: [Channel; 2]) -> Self {
        Air { delay, transmitters: [(); 2].map(|()| Transmitter::new(rate)), channels }
    }
}

/// Carries `offered` from end 0 to end 1; returns the received packets and the time of the last
/// event.
pub fn carry<P: Payload, E: Endpoint<P, Control = FrameKind>>(
    ends: &mut [E; 2],
    mut offered: VecDeque<P>,
    air: &mut Air,
) -> (Vec<P>, Instant) {
    let mut delivered = Vec::new();
    let mut in_flight: [VecDeque<(Instant, Frame<P>)>; 2] = Default::default();
    let mut now = Instant::ZERO;
    loop {
        // An idle transmitter asks its endpoint for the next frame.
        for side in 0..2 {
            if air.transmitters[side].is_busy(now) {
                continue;
            }
            if side == 0
                && ends[0].wants_packet()
                && let Some(packet) = offered.pop_front()
            {
                ends[0].enqueue(now, packet);
            }
            if let Some(frame) = ends[side].poll_transmit(now) {
                let airtime = air.transmitters[side].send(now, u64::from(frame.bytes) * 8);
                if !air.channels[side].is_lost(airtime) {
                    in_flight[side].push_back((airtime.end + air.delay, frame));
                }
            }
            while ends[side].poll_event().is_some() {}
        }
        // The clock advances to the next arrival, timer or end of a transmission.
        let mut next = Instant::NEVER;
        for side in 0..2 {
            let waiting = ends[side].has_frame()
                || side == 0 && !offered.is_empty() && ends[0].wants_packet();
            if waiting {
                next = next.min(air.transmitters[side].free_at().instant());
            }
            let arrival = in_flight[side].front().map_or(Instant::NEVER, |&(at, _)| at);
            next = next.min(arrival).min(ends[side].next_timeout());
        }
        if next == Instant::NEVER {
            return (delivered, now);
        }
        now = now.max(next);
        for side in 0..2 {
            while in_flight[side].front().is_some_and(|&(at, _)| at <= now) {
                if let Some((_, frame)) = in_flight[side].pop_front() {
                    ends[1 - side].receive(now, frame);
                }
                while let Some(packet) = ends[1 - side].poll_deliver() {
                    delivered.push(packet);
                }
            }
            if ends[side].next_timeout() <= now {
                ends[side].handle_timeout(now);
            }
        }
    }
}
