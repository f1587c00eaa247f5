//! What an end has sent and has not got acknowledged: window, timers, frames to be sent again.
//!
//! Timers are of one length, so that they run out in the order of transmissions. That is the order of numbers, and the
//! oldest frame's timer is the first, until a frame is sent again; from then on, until that frame is acknowledged, a list
//! has the order.

use super::{SelectiveRepeatParameters, TimerMode};
use crate::link::fates::Fates;
use crate::link::number_set::NumberSet;
use crate::link::timers::TransmissionOrder;
use crate::link::timing::deadline;
use lasthop_base::packet::LinkFate;
use lasthop_base::units::{Duration, Instant};

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
    /// Frames whose timers run, where each has one and an outstanding frame has been sent again or is to be.
    order: TransmissionOrder,
    /// One beyond the highest number of such a frame so far.
    reordered: u64,
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
            reordered: 0,
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
        !self.queued.is_empty()
    }

    /// Does a new packet wait to be sent?
    #[inline(always)]
    pub fn has_new(&self) -> bool {
        self.filled > self.next
    }

    /// Is there room for another new packet, and none that waits?
    #[inline(always)]
    pub fn has_room(&self) -> bool {
        !self.has_new() && self.is_open()
    }

    /// Is there room for another new frame in the window?
    #[inline(always)]
    pub fn is_open(&self) -> bool {
        self.next - self.base < self.window
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

    /// Is the order of transmissions, where each frame has a timer, another one than that of numbers?
    #[inline(always)]
    fn is_reordered(&self) -> bool {
        self.base < self.reordered
    }

    /// A frame goes on the air: its timer starts. Returns its packet.
    #[inline(always)]
    pub fn send(&mut self, now: Instant, sequence: u64) -> Option<&P> {
        let slot = self.slot(sequence);
        if self.is_reordered() {
            self.start_timer(now, slot);
        } else if sequence == self.base {
            self.timeout_at = deadline(now, self.timeout);
        }
        let frame = &mut self.frames[slot];
        frame.sent = now;
        debug_assert!(frame.packet.is_some(), "a frame in the window has its packet");
        frame.packet.as_ref()
    }

    #[cold]
    fn start_timer(&mut self, now: Instant, slot: usize) {
        if self.order.first().is_none() {
            self.timeout_at = deadline(now, self.timeout);
        }
        self.order.push(slot);
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
        for sequence in self.base..ack {
            self.frames[sequence as usize & mask].packet = None;
        }
        if self.is_reordered() {
            return self.move_base_reordered(ack);
        }
        let mut is_running = ack < self.next;
        if self.has_copies() {
            self.queued.remove_range(self.base, ack);
            is_running &= !self.queued.contains(ack);
        }
        self.base = ack;
        self.timeout_at = if is_running {
            deadline(self.frames[self.slot(ack)].sent, self.timeout).max(now)
        } else {
            Instant::NEVER
        };
    }

    #[cold]
    fn move_base_reordered(&mut self, ack: u64) {
        // All timers stop if the order is that of numbers again.
        let end = if ack < self.reordered { ack } else { self.next };
        for sequence in self.base..end {
            self.order.remove(self.slot(sequence));
        }
        self.queued.remove_range(self.base, ack);
        self.base = ack;
        self.find_timeout();
    }

    /// The first timer has stopped, where each frame has one.
    fn find_timeout(&mut self) {
        let oldest = || (self.base < self.next).then(|| self.slot(self.base));
        let first = if self.is_reordered() { self.order.first() } else { oldest() };
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
            if !self.is_reordered() {
                for outstanding in self.base..self.next {
                    self.order.push(self.slot(outstanding));
                }
            }
            self.reordered = self.reordered.max(sequence + 1);
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
        let slot = if self.is_reordered() {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::link::SelectiveRepeatParameters;
    use crate::link::timing::LinkTiming;
    use lasthop_base::units::{Bytes, Rate};
    use proptest::prelude::*;

    /// A window of 8 frames, a timeout of 100 ns, and no request for a copy that is stale.
    fn sender() -> Sender<u64> {
        let (rate, delay) = (Rate::from_bps(64_000), Duration::from_millis(50));
        let timing = LinkTiming::symmetric(rate, delay, Bytes::new(252), Bytes::new(2));
        Sender::new(&SelectiveRepeatParameters {
            timeout: Duration::from_nanos(100),
            nack_guard: Duration::ZERO,
            ..SelectiveRepeatParameters::for_link(&timing, 8)
        })
    }

    proptest! {
        /// The first timer is that of the frame that was sent longest ago, of those that are outstanding and not to be sent
        /// again; it runs out 100 ns after that, whatever was acknowledged, asked for or sent again before.
        #[test]
        fn the_first_timer_is_that_of_the_oldest_transmission(
            steps in prop::collection::vec((0u64..9, 0u8..6, 0u64..40), 1..200),
        ) {
            let mut sender = sender();
            // By number, when a frame was sent, of those whose timers run.
            let mut running = std::collections::BTreeMap::new();
            let mut at = 0;
            for (which, what, pause) in steps {
                at += pause;
                let now = Instant::from_nanos(at);
                let (base, next) = sender.window_edges();
                let number = base + which;
                match what {
                    0 | 1 if sender.has_room() => {
                        *sender.place() = Some(at);
                        sender.load(true);
                        let sequence = sender.take_new();
                        sender.send(now, sequence);
                        running.insert(sequence, at);
                    }
                    2 if number <= next => {
                        sender.on_ack(now, number);
                        running = running.split_off(&number);
                    }
                    3 if number < next => {
                        sender.on_nack(now, number);
                        running.remove(&number);
                    }
                    4 => {
                        if let Some(sequence) = sender.take_copy() {
                            sender.send(now, sequence);
                            running.insert(sequence, at);
                        }
                    }
                    _ => {
                        while let Some(expired) = sender.take_expired(now) {
                            let sent = running.remove(&expired);
                            prop_assert!(sent.is_some_and(|sent| sent + 100 <= at));
                        }
                    }
                }
                let first = running.values().min().map(|sent| Instant::from_nanos(sent + 100));
                let first = first.unwrap_or(Instant::NEVER);
                prop_assert_eq!(sender.next_timeout().max(now), first.max(now));
            }
        }
    }
}
