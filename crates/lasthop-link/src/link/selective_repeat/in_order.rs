//! An endpoint all of whose frames are in order: without losses, NACKs and retransmissions, it is
//! three sequence numbers.

use super::sender::Outstanding;
use super::{Acknowledgment, SelectiveRepeat, TimerMode};
use crate::link::timing::deadline;
use crate::link::{Frame, FrameKind};
use lasthop_base::packet::Payload;
use lasthop_base::units::{Duration, Instant};

/// An endpoint while it sends and receives data frames in order, and acknowledgments. Its methods
/// are those of [`Driven`](super::Driven) for such frames, without the checks for all others.
#[derive(Debug)]
pub struct InOrder<'a, P> {
    frames: &'a mut [Outstanding<P>],
    window: u64,
    timeout: Duration,
    header: u32,
    control: u32,
    is_piggybacked: bool,
    base: u64,
    next: u64,
    expected: u64,
    ack_pending: bool,
    acks: u64,
}

impl<P> SelectiveRepeat<P> {
    /// Returns `true` if each frame has a timer, so that [`Self::in_order`] can return the state of
    /// the endpoint.
    pub fn can_be_in_order(&self) -> bool {
        self.parameters.timer == TimerMode::PerFrame
    }

    /// Returns `true` if no frame is missing, buffered or to be retransmitted, no packet waits, and
    /// no packet has a delivery report.
    #[inline(always)]
    pub fn is_in_order(&self) -> bool {
        self.receiver.is_complete() && self.sender.is_in_order()
    }

    /// Returns the state of the endpoint, if [`Self::can_be_in_order`] and [`Self::is_in_order`]
    /// return `true`. Its methods may be called until the first timer expires.
    #[inline(always)]
    pub fn in_order(&mut self) -> InOrder<'_, P> {
        debug_assert!(self.can_be_in_order() && self.is_in_order(), "all frames are in order");
        let (base, next) = self.sender.window_edges();
        InOrder {
            window: self.parameters.window.into(),
            timeout: self.parameters.timeout,
            header: self.header,
            control: self.control,
            is_piggybacked: self.parameters.acknowledgment == Acknowledgment::Piggyback,
            base,
            next,
            expected: self.receiver.expected(),
            ack_pending: self.receiver.ack_pending,
            acks: 0,
            frames: self.sender.frames(),
        }
    }

    /// Continues from the state `position` of a former [`InOrder`].
    #[inline(always)]
    pub fn continue_from(&mut self, position: Position) {
        let Position { base, next, expected, ack_pending, acks, timeout_at } = position;
        self.counters.acks += acks;
        self.counters.data_frames += next - self.sender.window_edges().1;
        self.sender.go_to(base, next, timeout_at);
        self.receiver.go_to(expected, ack_pending);
    }
}

/// The state of an [`InOrder`], without its frames.
#[derive(Clone, Copy, Debug)]
pub struct Position {
    base: u64,
    next: u64,
    expected: u64,
    ack_pending: bool,
    acks: u64,
    timeout_at: Instant,
}

impl<P: Payload + Clone> InOrder<'_, P> {
    #[inline(always)]
    fn slot(&self, sequence: u64) -> usize {
        sequence as usize & (self.frames.len() - 1)
    }

    /// Returns `true` if the window has room for another packet.
    #[inline(always)]
    pub fn is_open(&self) -> bool {
        self.next - self.base < self.window
    }

    /// Returns `true` if an acknowledgment must be sent before any data.
    #[inline(always)]
    pub fn is_ack_first(&self) -> bool {
        self.ack_pending && !self.is_piggybacked
    }

    /// Returns the time of the next service: at the end of the current transmission, `free_at`, if
    /// an acknowledgment is pending, or if packets wait and the window has room.
    #[inline(always)]
    pub fn next_poll(&self, free_at: Instant, has_packets: bool) -> Instant {
        let has_frame = self.ack_pending || has_packets && self.is_open();
        let timeout = self.timeout_at();
        if has_frame { timeout.min(free_at) } else { timeout }
    }

    /// Expiry time of the first timer.
    #[inline(always)]
    pub fn timeout_at(&self) -> Instant {
        match self.base < self.next {
            true => deadline(self.frames[self.slot(self.base)].sent, self.timeout),
            false => Instant::NEVER,
        }
    }

    /// Sends `packet` now, in `frame`. The window must have room.
    #[inline(always)]
    pub fn send(&mut self, now: Instant, packet: &P, frame: &mut Frame<P>) {
        let sequence = self.next;
        let slot = self.slot(sequence);
        let outstanding = &mut self.frames[slot];
        outstanding.packet = Some(packet.clone());
        outstanding.sent = now;
        self.next += 1;
        self.ack_pending &= !self.is_piggybacked;
        frame.kind = FrameKind::Data { sequence };
        frame.ack = Some(self.expected);
        frame.bytes = self.header + packet.wire_bytes();
        frame.payload = Some(packet.clone());
        frame.service = 0;
    }

    /// Sends the pending acknowledgment in `frame`, without data.
    #[inline(always)]
    pub fn send_ack(&mut self, frame: &mut Frame<P>) {
        self.ack_pending = false;
        self.acks += 1;
        frame.kind = FrameKind::Ack;
        frame.ack = Some(self.expected);
        frame.bytes = self.control;
        frame.payload = None;
        frame.service = 0;
    }

    /// Returns `true` if `frame` is the next data frame.
    #[inline(always)]
    pub fn is_next(&self, frame: &Frame<P>) -> bool {
        matches!(frame.kind, FrameKind::Data { sequence } if sequence == self.expected)
    }

    /// Receives `frame`, which [is the next one](Self::is_next). Its packet is to be delivered.
    #[inline(always)]
    pub fn receive(&mut self, frame: &Frame<P>) {
        self.expected += 1;
        self.ack_pending = true;
        self.receive_ack(frame);
    }

    /// Processes the acknowledgment of `frame`.
    #[inline(always)]
    pub fn receive_ack(&mut self, frame: &Frame<P>) {
        if let Some(ack) = frame.ack
            && ack <= self.next
        {
            self.base = self.base.max(ack);
        }
    }

    /// Returns the state, for [`SelectiveRepeat::continue_from`].
    #[inline(always)]
    pub fn position(&self) -> Position {
        let InOrder { base, next, expected, ack_pending, acks, .. } = *self;
        Position { base, next, expected, ack_pending, acks, timeout_at: self.timeout_at() }
    }
}
