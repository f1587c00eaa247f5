//! What an end has sent and has not got acknowledged: window, timers, frames to be sent again.

use super::{SelectiveRepeatParameters, TimerMode};
use crate::link::fates::Fates;
use crate::link::number_set::NumberSet;
use crate::link::timers::TransmissionOrder;
use crate::link::timing::deadline;
use crate::packet::LinkFate;
use crate::units::{Duration, Instant};

/// A frame of the window.
#[derive(Clone, Debug)]
struct Outstanding<P> {
    packet: Option<P>,
    /// Start of its last transmission.
    sent: Instant,
}

/// The sending half of an end. A number's slot is the number modulo the power-of-two size of the ring.
#[derive(Clone, Debug)]
pub(super) struct Sender<P> {
    window: u64,
    timeout: Duration,
    nack_guard: Duration,
    /// Has each frame a timer, or only the oldest?
    is_timed_each: bool,
    /// Oldest number not acknowledged.
    base: u64,
    /// Number of the next new frame.
    next: u64,
    /// End of the numbers that have a packet: `next`, or one more if a packet waits.
    filled: u64,
    /// To be sent again.
    queued: NumberSet,
    frames: Box<[Outstanding<P>]>,
    /// Frames whose timers run.
    order: TransmissionOrder,
    /// When the first timer runs out.
    timeout_at: Instant,
    fates: Fates<P>,
}

impl<P> Sender<P> {
    /// Nothing is outstanding.
    pub fn new(parameters: &SelectiveRepeatParameters) -> Self {
        let SelectiveRepeatParameters { window, timeout, nack_guard, timer, .. } = *parameters;
        let slots = window.next_power_of_two() as usize;
        let empty = || Outstanding { packet: None, sent: Instant::ZERO };
        Sender {
            window: window.into(),
            timeout,
            nack_guard,
            is_timed_each: timer == TimerMode::PerFrame,
            base: 0,
            next: 0,
            filled: 0,
            queued: NumberSet::new(window.into()),
            frames: (0..slots).map(|_| empty()).collect(),
            order: TransmissionOrder::new(slots),
            timeout_at: Instant::NEVER,
            fates: Fates::default(),
        }
    }

    /// Oldest number not acknowledged, and number of the next new frame.
    pub fn window_edges(&self) -> (u64, u64) {
        (self.base, self.next)
    }

    pub fn fates(&mut self) -> &mut Fates<P> {
        &mut self.fates
    }

    #[inline(always)]
    fn slot(&self, sequence: u64) -> usize {
        sequence as usize & (self.frames.len() - 1)
    }

    /// Is there something to be sent again?
    #[inline(always)]
    pub fn has_copies(&self) -> bool {
        self.queued.len() != 0
    }

    /// Does a new packet wait to be sent?
    #[inline(always)]
    pub fn has_new(&self) -> bool {
        self.filled > self.next
    }

    /// Is there room for another new packet, and none that waits?
    #[inline(always)]
    pub fn has_room(&self) -> bool {
        self.filled == self.next && self.next - self.base < self.window
    }

    /// Where the next new packet goes.
    #[inline(always)]
    pub fn place(&mut self) -> &mut Option<P> {
        let slot = self.slot(self.next);
        &mut self.frames[slot].packet
    }

    /// It has been put there, if `is_there`.
    #[inline(always)]
    pub fn load(&mut self, is_there: bool) {
        self.filled = self.next + u64::from(is_there);
    }

    /// The new packet that waits is sent now; its number.
    #[inline(always)]
    pub fn take_new(&mut self) -> u64 {
        let sequence = self.next;
        self.next += 1;
        sequence
    }

    /// The frame that is to be sent again first is sent now; its number.
    pub fn take_copy(&mut self) -> Option<u64>
    where
        P: Clone,
    {
        let sequence = self.queued.first(self.base, self.next)?;
        self.queued.remove(sequence);
        if self.fates.are_kept() {
            self.report_retry(sequence);
        }
        Some(sequence)
    }

    /// A frame goes on the air: its timer starts. Returns its packet.
    #[inline(always)]
    pub fn send(&mut self, now: Instant, sequence: u64) -> Option<&P> {
        let slot = self.slot(sequence);
        let frame = &mut self.frames[slot];
        frame.sent = now;
        if self.order.first().is_none() && (self.is_timed_each || sequence == self.base) {
            self.timeout_at = deadline(now, self.timeout);
        }
        if self.is_timed_each {
            self.order.push(slot);
        }
        debug_assert!(frame.packet.is_some(), "a frame in the window has its packet");
        frame.packet.as_ref()
    }

    /// All frames before `ack` have arrived.
    #[inline(always)]
    pub fn on_ack(&mut self, now: Instant, ack: u64) {
        if ack > self.base && ack <= self.next {
            self.move_base(now, ack);
        }
    }

    #[inline(always)]
    fn move_base(&mut self, now: Instant, ack: u64) {
        if self.fates.are_kept() {
            self.report_acknowledged(ack);
        }
        let mask = self.frames.len() - 1;
        let mut sequence = self.base;
        while sequence < ack {
            let slot = sequence as usize & mask;
            self.frames[slot].packet = None;
            if self.is_timed_each {
                self.order.remove(slot);
            }
            sequence += 1;
        }
        if self.has_copies() {
            self.queued.remove_range(self.base, ack);
        }
        self.base = ack;
        if self.is_timed_each {
            return self.find_timeout();
        }
        let is_running = ack < self.next && !self.queued.contains(ack);
        self.timeout_at = if is_running {
            deadline(self.frames[self.slot(ack)].sent, self.timeout).max(now)
        } else {
            Instant::NEVER
        };
    }

    /// The first timer has stopped, where each frame has one.
    #[inline(always)]
    fn find_timeout(&mut self) {
        let first = self.order.first();
        let timeout = |slot: usize| deadline(self.frames[slot].sent, self.timeout);
        self.timeout_at = first.map_or(Instant::NEVER, timeout);
    }

    /// A frame is asked for again. The request is stale if it left before the last copy can have arrived.
    pub fn on_nack(&mut self, now: Instant, sequence: u64) {
        if sequence < self.base || sequence >= self.next {
            return;
        }
        let age = now.saturating_since(self.frames[self.slot(sequence)].sent);
        if !self.queued.contains(sequence) && age >= self.nack_guard {
            self.queue(sequence);
        }
    }

    /// The frame is to be sent again; its timer stops until then.
    fn queue(&mut self, sequence: u64) {
        self.queued.insert(sequence);
        if self.is_timed_each {
            self.order.remove(self.slot(sequence));
            self.find_timeout();
        } else if sequence == self.base {
            self.timeout_at = Instant::NEVER;
        }
    }

    #[inline(always)]
    pub fn next_timeout(&self) -> Instant {
        self.timeout_at
    }

    /// The next frame whose timer has run out, which is to be sent again.
    pub fn take_expired(&mut self, now: Instant) -> Option<u64> {
        if self.next_timeout() > now || self.base == self.next {
            return None;
        }
        let slot = if self.is_timed_each {
            self.order.first()?
        } else {
            (!self.queued.contains(self.base)).then(|| self.slot(self.base))?
        };
        // The slot's number is the one at or after `base` with these low bits.
        let mask = self.frames.len() as u64 - 1;
        let sequence = self.base + ((slot as u64).wrapping_sub(self.base) & mask);
        self.queue(sequence);
        Some(sequence)
    }

    /// All before `ack` have arrived.
    #[cold]
    fn report_acknowledged(&mut self, ack: u64) {
        for sequence in self.base..ack {
            let packet = self.frames[self.slot(sequence)].packet.take();
            self.fates.finish(sequence, LinkFate::Acknowledged, packet);
        }
    }

    /// A frame is sent again.
    #[cold]
    fn report_retry(&mut self, sequence: u64)
    where
        P: Clone,
    {
        if let Some(packet) = &self.frames[self.slot(sequence)].packet {
            self.fates.retry(sequence, packet);
        }
    }
}
