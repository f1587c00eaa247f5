//! The calls of a driver for usual frames: packets in order, no NACK, no retransmission.

use super::super::{Acknowledgment, Driven, Endpoint, Frame, FrameKind, Port, Writer};
use super::{SelectiveRepeat, TimerMode};
use lasthop_base::packet::Payload;
use lasthop_base::units::Instant;

/// An endpoint for which [`SelectiveRepeat::has_urgent`] has been evaluated.
pub(super) struct PolledSender<'a, P> {
    pub machine: &'a mut SelectiveRepeat<P>,
    pub has_urgent: bool,
}

impl<P: Payload + Clone> Writer<P> for PolledSender<'_, P> {
    #[inline(always)]
    fn write(self, now: Instant, frame: &mut Frame<P>) -> bool {
        let PolledSender { machine, has_urgent } = self;
        has_urgent && machine.write_urgent(now, frame) || machine.write_new(now, frame)
    }
}

impl<P: Payload + Clone> Driven<P> for SelectiveRepeat<P> {
    #[inline(always)]
    fn write_next(&mut self, now: Instant, frame: &mut Frame<P>) -> bool {
        PolledSender { has_urgent: self.has_urgent(), machine: self }.write(now, frame)
    }

    /// Like the default, but evaluates `has_urgent` only once; usually it is `false`.
    #[inline(always)]
    fn turn<Q: Port<P>>(&mut self, now: Instant, port: &mut Q) -> Option<Instant> {
        if self.next_timeout() <= now {
            return None;
        }
        let free_at = port.free_at();
        if free_at > now {
            return Some(self.next_poll(free_at, port.has_packet()));
        }
        let has_urgent = self.has_urgent();
        if !has_urgent && self.sender.has_room() {
            self.load(now, port);
        }
        port.transmit(now, PolledSender { has_urgent, machine: self });
        if !Q::LISTENS {
            self.drop_events();
        }
        if has_urgent {
            return Some(self.next_poll(port.free_at(), port.has_packet()));
        }
        debug_assert!(!self.has_frame(), "what there was has been sent");
        let has_more = self.sender.is_open() && port.has_packet();
        let timeout = self.next_timeout();
        Some(if has_more { timeout.min(port.free_at()) } else { timeout })
    }

    /// The packet of the next frame in order is delivered without buffering. An ACK delivers none.
    #[inline(always)]
    fn accept(&mut self, now: Instant, frame: &mut Frame<P>) -> bool {
        let is_simple = match frame.kind {
            FrameKind::Data { sequence } => self.receiver.passes(sequence),
            FrameKind::Ack => self.receiver.is_complete(),
            _ => false,
        };
        if !is_simple {
            return self.accept_other(now, frame);
        }
        if let Some(ack) = frame.ack {
            self.sender.on_ack(now, ack);
        }
        false
    }

    /// An acknowledgment can only defer the timer of the first outstanding frame.
    #[inline(always)]
    fn takes_next(&self, frame: &Frame<P>) -> bool {
        matches!(frame.kind, FrameKind::Data { sequence } if self.receiver.is_next(sequence))
            && self.parameters.acknowledgment == Acknowledgment::Piggyback
            && !self.sender.has_copies()
            && self.sender.has_room()
    }

    #[inline(always)]
    fn send_next(&mut self, now: Instant, packet: &P, frame: &mut Frame<P>) -> Instant {
        *self.sender.place() = Some(packet.clone());
        self.sender.load(true);
        let sequence = self.sender.take_new();
        self.counters.data_frames += 1;
        self.write_data(now, sequence, frame);
        self.next_timeout()
    }

    /// Moves a new packet from the queue directly into its slot.
    #[inline(always)]
    fn load<Q: Port<P>>(&mut self, _now: Instant, port: &mut Q) {
        let place = self.sender.place();
        let is_there = port.take_packet_into(place);
        self.sender.load(is_there);
    }

    /// The end of a transmission requires no poll if no frame follows.
    #[inline(always)]
    fn next_poll_while_busy(&self, free_at: Instant, has_packets: bool) -> Instant {
        self.next_poll(free_at, has_packets)
    }

    fn needs_no_poll_while_busy(&self) -> bool {
        self.parameters.timer == TimerMode::PerFrame
    }
}
