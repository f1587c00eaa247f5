//! An endpoint all of whose frames are in order: without losses, NACKs and retransmissions, it is
//! three sequence numbers.

use super::sender::Outstanding;
use super::{Acknowledgment, SelectiveRepeat, TimerMode};
use crate::link::timing::deadline;
use crate::link::{Frame, FrameKind};
use lasthop_base::packet::Payload;
use lasthop_base::units::{Duration, Instant};

/// An endpoint while it sends and receives data frames in order, each with an acknowledgment. Its
/// methods are those of [`Driven`](super::Driven) for such frames, without the checks for all
/// others.
#[derive(Debug)]
pub struct InOrder<'a, P> {
    frames: &'a mut [Outstanding<P>],
    window: u64,
    timeout: Duration,
    header: u32,
    base: u64,
    next: u64,
    expected: u64,
    ack_pending: bool,
}

impl<P> SelectiveRepeat<P> {
    /// Returns `true` if the endpoint acknowledges data frames with data frames, and each frame has
    /// a timer, so that [`Self::in_order`] can return its state.
    pub fn can_be_in_order(&self) -> bool {
        self.parameters.acknowledgment == Acknowledgment::Piggyback
            && self.parameters.timer == TimerMode::PerFrame
    }

    /// Returns `true` if no frame is missing, buffered or to be retransmitted, no packet waits, and
    /// no packet has a delivery report.
    #[inline(always)]
    pub fn is_in_order(&self) -> bool {
        self.receiver.is_complete() && self.sender.is_in_order()
    }

    /// Returns the state of the endpoint, if [`Self::can_be_in_order`] and [`Self::is_in_order`]
    /// return `true`.
    #[inline(always)]
    pub fn in_order(&mut self) -> InOrder<'_, P> {
        debug_assert!(self.can_be_in_order() && self.is_in_order(), "all frames are in order");
        let (base, next) = self.sender.window_edges();
        InOrder {
            window: self.parameters.window.into(),
            timeout: self.parameters.timeout,
            header: self.header,
            base,
            next,
            expected: self.receiver.expected(),
            ack_pending: self.receiver.ack_pending,
            frames: self.sender.frames(),
        }
    }

    /// Continues from the state `position` of a former [`InOrder`].
    #[inline(always)]
    pub fn continue_from(&mut self, position: Position) {
        let Position { base, next, expected, ack_pending, timeout_at } = position;
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
        self.ack_pending = false;
        frame.kind = FrameKind::Data { sequence };
        frame.ack = Some(self.expected);
        frame.bytes = self.header + packet.wire_bytes();
        frame.payload = Some(packet.clone());
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
        if let Some(ack) = frame.ack
            && ack <= self.next
        {
            self.base = self.base.max(ack);
        }
    }

    /// Returns the state, for [`SelectiveRepeat::continue_from`].
    #[inline(always)]
    pub fn position(&self) -> Position {
        let InOrder { base, next, expected, ack_pending, .. } = *self;
        Position { base, next, expected, ack_pending, timeout_at: self.timeout_at() }
    }
}
