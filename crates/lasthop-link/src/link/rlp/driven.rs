//! The calls of a driver for usual frames: packets in order, no NACK, no retransmission.

use super::machine::{Rlp, number_in};
use crate::link::driven::{Prompt, turn_prompt, write_prompt};
use crate::link::{Driven, Endpoint, Frame, FrameKind, LinkEvent, Port};
use lasthop_base::packet::Payload;
use lasthop_base::units::Instant;

impl<P: Payload + Clone> Prompt<P> for Rlp<P> {
    #[inline(always)]
    fn has_urgent(&self) -> bool {
        self.nacks != 0 || self.has_queued
    }

    #[inline(always)]
    fn has_room(&self) -> bool {
        self.filled == self.next
    }

    #[cold]
    #[inline(never)]
    fn write_urgent(&mut self, now: Instant, frame: &mut Frame<P>) -> bool {
        if self.nacks != 0 {
            self.write_nack(now, frame);
            return true;
        }
        let Some(slot) = self.rare.queued.first() else { return false };
        self.rare.queued.remove(slot);
        self.has_queued = self.rare.queued.first().is_some();
        let sequence = number_in(slot, self.next);
        self.rare.counters.retransmissions += 1;
        self.tell(LinkEvent::Retransmitted { sequence });
        self.write_data(sequence, frame)
    }

    #[inline(always)]
    fn write_new(&mut self, now: Instant, frame: &mut Frame<P>) -> bool {
        if self.filled > self.next {
            let sequence = self.next;
            self.next += 1;
            self.keepalives_sent = 0;
            self.restart_keepalive(now);
            return self.write_data(sequence, frame);
        }
        if self.keepalive_due {
            self.write_keepalive(now, frame);
            return true;
        }
        false
    }
}

impl<P: Payload + Clone> Driven<P> for Rlp<P> {
    #[inline(always)]
    fn write_next(&mut self, now: Instant, frame: &mut Frame<P>) -> bool {
        write_prompt(self, now, frame)
    }

    #[inline(always)]
    fn turn<Q: Port<P>>(&mut self, now: Instant, port: &mut Q) -> Option<Instant> {
        turn_prompt(self, now, port)
    }

    /// The packet of the next frame is delivered without buffering.
    #[inline(always)]
    fn accept(&mut self, now: Instant, frame: &mut Frame<P>) -> bool {
        match frame.kind {
            FrameKind::Data { sequence } if self.is_next(sequence) && frame.payload.is_some() => {
                self.on_next(sequence);
                false
            }
            _ => {
                self.receive(now, frame.take());
                frame.payload = self.up.pop_front();
                true
            }
        }
    }

    fn takes_frames(&self) -> bool {
        true
    }

    #[inline(always)]
    fn takes_next(&self, frame: &Frame<P>) -> bool {
        matches!(frame.kind, FrameKind::Data { sequence } if self.is_next(sequence))
            && self.wants_packet()
    }
}
