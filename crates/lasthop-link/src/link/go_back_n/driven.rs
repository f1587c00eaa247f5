//! The calls of a driver for usual frames: packets in order, no REJ, no retransmission.

use super::super::driven::{Prompt, turn_prompt, write_prompt};
use super::super::{Acknowledgment, Driven, Endpoint, Frame, FrameKind, LinkEvent, Port};
use super::GoBackN;
use lasthop_base::packet::Payload;
use lasthop_base::units::Instant;

impl<P> GoBackN<P> {
    /// Returns `true` if frame `sequence` is the expected one and no packet waits for delivery.
    #[inline(always)]
    fn is_next(&self, sequence: u64) -> bool {
        sequence == self.expected && self.up.is_empty()
    }
}

impl<P: Payload + Clone> Prompt<P> for GoBackN<P> {
    #[inline(always)]
    fn has_urgent(&self) -> bool {
        self.cursor != self.next || self.reject_pending || self.ack_first()
    }

    #[inline(always)]
    fn has_room(&self) -> bool {
        self.filled == self.next && self.next - self.base < u64::from(self.parameters.window)
    }

    #[cold]
    #[inline(never)]
    fn write_urgent(&mut self, now: Instant, frame: &mut Frame<P>) -> bool {
        if self.reject_pending {
            self.reject_pending = false;
            let sequence = self.expected;
            self.counters.nacks += 1;
            self.events.push_back(LinkEvent::NackSent { sequence });
            self.write_control(frame, FrameKind::Nack { sequence });
            return true;
        }
        if self.ack_first() {
            self.write_ack(frame);
            return true;
        }
        let sequence = self.cursor;
        self.counters.retransmissions += 1;
        self.events.push_back(LinkEvent::Retransmitted { sequence });
        let slot = self.slot(sequence);
        if let Some(packet) = &self.packets[slot] {
            self.fates.retry(sequence, packet);
        }
        self.write_data(now, sequence, frame)
    }

    #[inline(always)]
    fn write_new(&mut self, now: Instant, frame: &mut Frame<P>) -> bool {
        if self.filled > self.next {
            let sequence = self.next;
            self.counters.data_frames += 1;
            self.next += 1;
            return self.write_data(now, sequence, frame);
        }
        if self.ack_pending {
            self.write_ack(frame);
            return true;
        }
        false
    }
}

impl<P: Payload + Clone> Driven<P> for GoBackN<P> {
    #[inline(always)]
    fn write_next(&mut self, now: Instant, frame: &mut Frame<P>) -> bool {
        write_prompt(self, now, frame)
    }

    #[inline(always)]
    fn turn<Q: Port<P>>(&mut self, now: Instant, port: &mut Q) -> Option<Instant> {
        turn_prompt(self, now, port)
    }

    /// Moves a new packet from the queue directly into its slot.
    #[inline(always)]
    fn load<Q: Port<P>>(&mut self, _now: Instant, port: &mut Q) {
        let slot = self.slot(self.next);
        let is_there = port.take_packet_into(&mut self.packets[slot]);
        self.filled = self.next + u64::from(is_there);
    }

    /// The packet of the expected frame is delivered without buffering. An ACK delivers none.
    #[inline(always)]
    fn accept(&mut self, now: Instant, frame: &mut Frame<P>) -> bool {
        let is_simple = match frame.kind {
            FrameKind::Data { sequence } => self.is_next(sequence),
            FrameKind::Ack => self.up.is_empty(),
            _ => false,
        };
        if !is_simple {
            self.receive(now, frame.take());
            frame.payload = self.up.pop_front();
            return true;
        }
        if let Some(ack) = frame.ack {
            self.on_ack(now, ack);
        }
        if frame.payload.is_some() {
            self.on_next();
        }
        false
    }

    fn takes_frames(&self) -> bool {
        true
    }

    #[inline(always)]
    fn takes_next(&self, frame: &Frame<P>) -> bool {
        matches!(frame.kind, FrameKind::Data { sequence } if self.is_next(sequence))
            && self.parameters.acknowledgment == Acknowledgment::Piggyback
            && !self.has_urgent()
            && self.has_room()
    }
}
