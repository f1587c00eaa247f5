//! Sending half of selective repeat: window, timers, frames to retransmit.
//!
//! All timeouts have equal length, so timers expire in transmission order. Without retransmissions
//! this is the order of sequence numbers, and the timer of the oldest frame expires first. While a
//! retransmitted frame is outstanding, a list keeps the transmission order.

use super::{SelectiveRepeatParameters, TimerMode};
use crate::link::delivery_reports::Fates;
use crate::link::number_set::NumberSet;
use crate::link::timers::TransmissionOrder;
use crate::link::timing::deadline;
use lasthop_base::packet::DeliveryReport;
use lasthop_base::units::{Duration, Instant};

/// State of an outstanding frame.
#[derive(Clone, Debug)]
pub(super) struct Outstanding<P> {
    pub packet: Option<P>,
    /// Start of the last transmission.
    pub sent: Instant,
}

/// Sending half of one end. A frame is stored in the slot of its sequence number modulo the number
/// of slots, a power of two.
#[derive(Clone, Debug)]
pub(super) struct Sender<P> {
    window: u64,
    timeout: Duration,
    nack_guard: Duration,
    /// Whether each frame has a timer, or only the oldest one.
    is_timed_each: bool,
    /// Oldest number not acknowledged.
    base: u64,
    /// Number of the next new frame.
    next: u64,
    /// End of the sequence numbers with a packet: `next`, or one more if a new packet is waiting.
    filled: u64,
    /// Frames to retransmit.
    queued: NumberSet,
    frames: Box<[Outstanding<P>]>,
    /// Frames with a running timer, in transmission order. Used if each frame has a timer and an
    /// outstanding frame was queued for retransmission.
    order: TransmissionOrder,
    /// Highest sequence number of such a frame so far, plus 1.
    reordered: u64,
    /// Expiry time of the first timer.
    timeout_at: Instant,
    fates: Fates<P>,
}

impl<P> Sender<P> {
    /// Creates a sender without outstanding frames.
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

    /// Returns the oldest number not acknowledged and the number of the next new frame.
    pub fn window_edges(&self) -> (u64, u64) {
        (self.base, self.next)
    }

    /// Returns `true` if no packet waits, no frame was retransmitted that is not acknowledged, and
    /// no delivery reports are kept.
    #[inline(always)]
    pub fn is_in_order(&self) -> bool {
        !self.has_copies() && !self.is_reordered() && !self.has_new() && !self.fates.are_kept()
    }

    /// Returns the slots of the outstanding frames.
    #[inline(always)]
    pub fn frames(&mut self) -> &mut [Outstanding<P>] {
        &mut self.frames
    }

    /// Sets the window, and the expiry time of its first timer.
    #[inline(always)]
    pub fn go_to(&mut self, base: u64, next: u64, timeout_at: Instant) {
        (self.base, self.next, self.filled, self.timeout_at) = (base, next, next, timeout_at);
    }

    pub fn fates(&mut self) -> &mut Fates<P> {
        &mut self.fates
    }

    #[inline(always)]
    fn slot(&self, sequence: u64) -> usize {
        sequence as usize & (self.frames.len() - 1)
    }

    /// Returns `true` if a frame is to be retransmitted.
    #[inline(always)]
    pub fn has_copies(&self) -> bool {
        !self.queued.is_empty()
    }

    /// Returns `true` if a new packet waits for transmission.
    #[inline(always)]
    pub fn has_new(&self) -> bool {
        self.filled > self.next
    }

    /// Returns `true` if the window has room for another new packet and none is waiting.
    #[inline(always)]
    pub fn has_room(&self) -> bool {
        !self.has_new() && self.is_open()
    }

    /// Returns `true` if the window has room for another new frame.
    #[inline(always)]
    pub fn is_open(&self) -> bool {
        self.next - self.base < self.window
    }

    /// Returns the slot of the next new packet.
    #[inline(always)]
    pub fn place(&mut self) -> &mut Option<P> {
        let slot = self.slot(self.next);
        &mut self.frames[slot].packet
    }

    /// Records whether [`Self::place`] has been filled.
    #[inline(always)]
    pub fn load(&mut self, is_there: bool) {
        self.filled = self.next + u64::from(is_there);
    }

    /// Returns the number of the waiting new packet, which is sent now.
    #[inline(always)]
    pub fn take_new(&mut self) -> u64 {
        let sequence = self.next;
        self.next += 1;
        sequence
    }

    /// Returns the number of the next frame to retransmit, which is sent now.
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

    /// Returns `true` if the transmission order differs from the order of sequence numbers and each
    /// frame has a timer.
    #[inline(always)]
    fn is_reordered(&self) -> bool {
        self.base < self.reordered
    }

    /// Starts the timer of a frame that is sent now. Returns its packet.
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

    /// Processes a cumulative acknowledgment of all frames before `ack`.
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
        // Empties the list if the transmission order is the order of sequence numbers again.
        let end = if ack < self.reordered { ack } else { self.next };
        for sequence in self.base..end {
            self.order.remove(self.slot(sequence));
        }
        self.queued.remove_range(self.base, ack);
        self.base = ack;
        self.find_timeout();
    }

    /// Updates the expiry time of the first timer, if each frame has a timer.
    fn find_timeout(&mut self) {
        let oldest = || (self.base < self.next).then(|| self.slot(self.base));
        let first = if self.is_reordered() { self.order.first() } else { oldest() };
        let timeout = |slot: usize| deadline(self.frames[slot].sent, self.timeout);
        self.timeout_at = first.map_or(Instant::NEVER, timeout);
    }

    /// Processes a NACK. Ignores it if it was sent before the last transmission of the frame could
    /// arrive.
    pub fn on_nack(&mut self, now: Instant, sequence: u64) {
        if sequence < self.base || sequence >= self.next {
            return;
        }
        let age = now.saturating_since(self.frames[self.slot(sequence)].sent);
        if !self.queued.contains(sequence) && age >= self.nack_guard {
            self.queue(sequence);
        }
    }

    /// Queues the frame for retransmission and stops its timer.
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

    /// Queues the next frame with an expired timer for retransmission and returns its number.
    pub fn take_expired(&mut self, now: Instant) -> Option<u64> {
        if self.next_timeout() > now || self.base == self.next {
            return None;
        }
        let slot = if self.is_reordered() {
            self.order.first()?
        } else {
            (!self.queued.contains(self.base)).then(|| self.slot(self.base))?
        };
        // The sequence number, `base` or higher, that is stored in this slot.
        let mask = self.frames.len() as u64 - 1;
        let sequence = self.base + ((slot as u64).wrapping_sub(self.base) & mask);
        self.queue(sequence);
        Some(sequence)
    }

    /// Reports the acknowledgment of all packets before `ack`.
    #[cold]
    fn report_acknowledged(&mut self, ack: u64) {
        for sequence in self.base..ack {
            let packet = self.frames[self.slot(sequence)].packet.take();
            self.fates.finish(sequence, DeliveryReport::Acknowledged, packet);
        }
    }

    /// Reports a retransmission.
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

    /// A sender with a window of 8 frames and a timeout of 100 ns that accepts every NACK.
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
        /// The first timer belongs to the oldest transmission of all outstanding frames that are
        /// not queued for retransmission. It expires after 100 ns, regardless of earlier ACKs,
        /// NACKs and retransmissions.
        #[test]
        fn the_first_timer_is_that_of_the_oldest_transmission(
            steps in prop::collection::vec((0u64..9, 0u8..6, 0u64..40), 1..200),
        ) {
            let mut sender = sender();
            // Transmission times of the frames with a running timer.
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
