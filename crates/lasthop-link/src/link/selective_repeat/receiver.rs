//! Receiving half of selective repeat: frames buffered until delivery, and pending NACKs.

use super::{Renack, SelectiveRepeatParameters};
use crate::link::number_set::NumberSet;
use crate::link::numbered::Numbered;
use crate::link::timing::deadline;
use crate::queue::Ring;
use lasthop_base::units::Instant;

/// Classification of a received data frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Arrival {
    /// A frame that was missing or is new.
    New,
    /// A frame received before.
    Duplicate,
    /// A frame beyond the window, which a correct sender does not send.
    Outside,
}

/// Receiving half of one end.
#[derive(Clone, Debug)]
pub(super) struct Receiver<P> {
    window: u64,
    renack: Renack,
    /// Next number to deliver.
    expected: u64,
    /// Highest sequence number received, plus 1.
    seen: u64,
    buffered: NumberSet,
    /// NACKs to send.
    nacks: NumberSet,
    /// Whether an acknowledgment must be sent.
    pub ack_pending: bool,
    /// Packets of the buffered frames.
    held: Numbered<Option<P>>,
    /// Time of the last NACK for each sequence number, in the slot of this number modulo the number
    /// of slots, a power of two.
    nacked: Box<[Instant]>,
    /// Earliest time at which [`Renack::AfterRoundTrip`] can require another NACK.
    ask_again_at: Instant,
    /// Packets to deliver; each slot in use contains a packet.
    up: Ring<Option<P>>,
}

impl<P> Receiver<P> {
    /// Creates a receiver without received frames.
    pub fn new(parameters: &SelectiveRepeatParameters) -> Self {
        let SelectiveRepeatParameters { window, renack, .. } = *parameters;
        let slots = window.next_power_of_two() as usize;
        let numbers = || NumberSet::new(u64::from(window));
        Receiver {
            window: window.into(),
            renack,
            expected: 0,
            seen: 0,
            buffered: numbers(),
            nacks: numbers(),
            ack_pending: false,
            held: Numbered::new(),
            nacked: vec![Instant::ZERO; slots].into(),
            ask_again_at: Instant::ZERO,
            up: Ring::with_capacity(2),
        }
    }

    /// Returns the next number to deliver: all frames before it have been received.
    #[inline(always)]
    pub fn expected(&self) -> u64 {
        self.expected
    }

    #[inline(always)]
    fn slot(&self, sequence: u64) -> usize {
        sequence as usize & (self.nacked.len() - 1)
    }

    /// Continues after the frames before `expected`, all of which have been delivered.
    #[inline(always)]
    pub fn go_to(&mut self, expected: u64, ack_pending: bool) {
        (self.expected, self.seen, self.ack_pending) = (expected, expected, ack_pending);
    }

    /// Returns `true` if a NACK is to be sent.
    #[inline(always)]
    pub fn has_nacks(&self) -> bool {
        !self.nacks.is_empty()
    }

    /// Removes and returns the lowest number for which a NACK is to be sent.
    pub fn take_nack(&mut self, now: Instant) -> Option<u64> {
        let sequence = self.nacks.first(self.expected, self.seen)?;
        self.nacks.remove(sequence);
        let slot = self.slot(sequence);
        self.nacked[slot] = now;
        if let Renack::AfterRoundTrip(round_trip) = self.renack {
            self.ask_again_at = self.ask_again_at.min(deadline(now, round_trip));
        }
        Some(sequence)
    }

    /// Returns `true` if no frame is missing and no packet waits for delivery.
    #[inline(always)]
    pub fn is_complete(&self) -> bool {
        self.seen == self.expected && self.up.is_empty()
    }

    /// Returns `true` if frame `sequence` is the next one, no frame is missing and no packet waits
    /// for delivery.
    #[inline(always)]
    pub fn is_next(&self, sequence: u64) -> bool {
        sequence == self.expected && self.is_complete()
    }

    /// Accepts frame `sequence` if it [is the next one](Self::is_next). Returns `true` if so; the
    /// caller then delivers its packet directly.
    #[inline(always)]
    pub fn passes(&mut self, sequence: u64) -> bool {
        let is_next = self.is_next(sequence);
        if is_next {
            debug_assert!(self.buffered.is_empty() && self.nacks.is_empty(), "nothing is missing");
            self.ack_pending = true;
            self.expected = sequence + 1;
            self.seen = sequence + 1;
        }
        is_next
    }

    /// Processes a received data frame.
    pub fn on_data(&mut self, sequence: u64, packet: P) -> Arrival {
        let Some(offset) = sequence.checked_sub(self.expected) else {
            return self.on_duplicate();
        };
        if offset == 0 {
            self.up.push(Some(packet));
            self.ack_pending = true;
            let first = sequence + 1;
            let end = match self.buffered.len() {
                0 => first,
                _ => self.buffered.first_absent(first, self.seen).unwrap_or(self.seen),
            };
            for later in first..end {
                self.up.push(self.held[later].take());
            }
            self.buffered.remove_range(first, end);
            self.nacks.remove_range(sequence, end);
            self.expected = end;
            self.seen = self.seen.max(end);
            return Arrival::New;
        }
        if offset >= self.window {
            return Arrival::Outside;
        }
        if !self.buffered.insert(sequence) {
            return self.on_duplicate();
        }
        // Most receivers hold nothing; the others hold up to a window.
        self.held.reach(self.expected, self.expected + self.window - 1);
        self.held[sequence] = Some(packet);
        self.nacks.remove(sequence);
        if sequence > self.seen {
            if self.renack == Renack::EveryGap {
                self.ask_for_missing(|_| true);
            }
            for lost in self.seen..sequence {
                self.nacks.insert(lost);
            }
        }
        self.seen = self.seen.max(sequence + 1);
        Arrival::New
    }

    #[cold]
    fn on_duplicate(&mut self) -> Arrival {
        self.ack_pending = true;
        Arrival::Duplicate
    }

    /// Repeats NACKs of missing frames after any received frame, where the rule requires it.
    #[inline(always)]
    pub fn ask_again(&mut self, now: Instant, is_data: bool) {
        if self.seen > self.expected && now >= self.ask_again_at {
            self.renack(now, is_data);
        }
    }

    #[cold]
    fn renack(&mut self, now: Instant, is_data: bool) {
        match self.renack {
            // For `EveryGap`, `on_data` has queued the NACKs.
            Renack::OncePerGap | Renack::EveryGap => {}
            // Control frames do not count: otherwise two ends could exchange NACKs endlessly.
            Renack::EveryArrival if is_data => self.ask_for_missing(|_| true),
            Renack::EveryArrival => {}
            Renack::AfterRoundTrip(round_trip) => {
                let mut next = Instant::NEVER;
                self.ask_for_missing(|last| {
                    let due = deadline(last, round_trip);
                    if due > now {
                        next = next.min(due);
                    }
                    due <= now
                });
                self.ask_again_at = next;
            }
        }
    }

    /// Queues a NACK for each missing frame for which `wanted` returns `true`, given the time of
    /// its last NACK.
    fn ask_for_missing(&mut self, mut wanted: impl FnMut(Instant) -> bool) {
        let mut from = self.expected;
        while let Some(missing) = self.buffered.first_absent(from, self.seen) {
            if !self.nacks.contains(missing) && wanted(self.nacked[self.slot(missing)]) {
                self.nacks.insert(missing);
            }
            from = missing + 1;
        }
    }

    /// Returns the next packet to deliver.
    #[inline]
    pub fn poll_deliver(&mut self) -> Option<P> {
        let packet = self.up.front_mut()?.take();
        self.up.next_front();
        packet
    }

    /// Returns `true` if a packet waits for delivery.
    #[inline]
    pub fn has_up(&self) -> bool {
        !self.up.is_empty()
    }
}
