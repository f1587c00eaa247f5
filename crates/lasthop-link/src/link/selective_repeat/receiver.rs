//! What an end has got and has not handed up, and what it asks for again.

use super::{Renack, SelectiveRepeatParameters};
use crate::link::number_set::NumberSet;
use crate::link::timing::deadline;
use crate::queue::Ring;
use lasthop_base::units::Instant;

/// What a data frame is that has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Arrival {
    /// One that was missing.
    New,
    /// One that had come before.
    Duplicate,
    /// Beyond the window, where no sender that keeps to it can be.
    Outside,
}

/// The receiving half of an end. A number's slot is the number modulo the power-of-two size of the ring.
#[derive(Clone, Debug)]
pub(super) struct Receiver<P> {
    window: u64,
    renack: Renack,
    /// Next number to deliver.
    expected: u64,
    /// One beyond the highest number seen.
    seen: u64,
    buffered: NumberSet,
    /// NACKs that wait for the transmitter.
    nacks: NumberSet,
    /// Must the sender hear of what has come?
    pub ack_pending: bool,
    held: Box<[Option<P>]>,
    /// When each number was asked for last.
    nacked: Box<[Instant]>,
    /// By [`Renack::AfterRoundTrip`] nothing is to be asked for again before this.
    ask_again_at: Instant,
    /// What may go up; each place in use has a packet.
    up: Ring<Option<P>>,
}

impl<P> Receiver<P> {
    /// Nothing has come.
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
            held: (0..slots).map(|_| None).collect(),
            nacked: vec![Instant::ZERO; slots].into(),
            ask_again_at: Instant::ZERO,
            up: Ring::with_capacity(slots),
        }
    }

    /// Next number to deliver: all before it have come.
    #[inline(always)]
    pub fn expected(&self) -> u64 {
        self.expected
    }

    #[inline(always)]
    fn slot(&self, sequence: u64) -> usize {
        sequence as usize & (self.held.len() - 1)
    }

    /// Does a NACK wait for the transmitter?
    #[inline(always)]
    pub fn has_nacks(&self) -> bool {
        !self.nacks.is_empty()
    }

    /// The lowest number to be asked for now.
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

    /// Takes frame `sequence` if it is next, and nothing is missing or waits to go up: then its packet goes
    /// up as it is.
    #[inline(always)]
    pub fn passes(&mut self, sequence: u64) -> bool {
        let is_next = sequence == self.expected && self.seen == sequence && self.up.is_empty();
        if is_next {
            debug_assert!(self.buffered.is_empty() && self.nacks.is_empty(), "nothing is missing");
            self.ack_pending = true;
            self.expected = sequence + 1;
            self.seen = sequence + 1;
        }
        is_next
    }

    /// A data frame has come.
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
                let slot = self.slot(later);
                self.up.push(self.held[slot].take());
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
        let slot = self.slot(sequence);
        self.held[slot] = Some(packet);
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

    /// After any frame: numbers missing whose NACK has gone out are NACKed again where the rule says so.
    #[inline(always)]
    pub fn ask_again(&mut self, now: Instant, is_data: bool) {
        if self.seen > self.expected && now >= self.ask_again_at {
            self.renack(now, is_data);
        }
    }

    #[cold]
    fn renack(&mut self, now: Instant, is_data: bool) {
        match self.renack {
            // With `EveryGap` the arrival itself has seen to it.
            Renack::OncePerGap | Renack::EveryGap => {}
            // Control frames do not count, or two ends would NACK each other for ever.
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

    /// Asks for those of the numbers missing so far for whose last request `wanted` holds.
    fn ask_for_missing(&mut self, mut wanted: impl FnMut(Instant) -> bool) {
        let mut from = self.expected;
        while let Some(missing) = self.buffered.first_absent(from, self.seen) {
            if !self.nacks.contains(missing) && wanted(self.nacked[self.slot(missing)]) {
                self.nacks.insert(missing);
            }
            from = missing + 1;
        }
    }

    /// The next packet that may go up.
    #[inline]
    pub fn poll_deliver(&mut self) -> Option<P> {
        let packet = self.up.front_mut()?.take();
        self.up.next_front();
        packet
    }

    /// Does a packet wait to go up?
    #[inline]
    pub fn has_up(&self) -> bool {
        !self.up.is_empty()
    }
}
