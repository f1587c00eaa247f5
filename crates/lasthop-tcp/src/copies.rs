//! Counts of spurious retransmissions and timeouts, based on the segments that actually arrive.
//!
//! Consider the transmissions of a byte in transmission order, and let *k* be the first one that
//! arrives. Transmissions after *k* are spurious, since the byte had not been lost, whether or not
//! they arrive. Transmissions up to *k* were needed. If none arrives, none is spurious. A
//! retransmission is judged by its first byte. A timeout is judged like a retransmission of the
//! oldest outstanding byte at the expiry of the timer (RFC 3522, section 1: a timeout or fast
//! retransmit is spurious if the original was not lost).
//!
//! ```text
//!   sent after its first byte has arrived                    spurious
//!   otherwise UNDECIDED; an earlier transmission arrives --> spurious
//!                        it or a later one arrives       --> needed, unless an earlier one follows
//! ```
//!
//! Each retransmission carries its ordinal among the retransmissions of its bytes; an original has
//! none. An original that arrives in order is not inspected. It has arrived if the byte has been
//! received and no retransmission delivered it.
//!
//! *Not modelled*: retransmissions beyond the 255th of the same bytes are not distinguished. An
//! arrival may be ignored for a copy that was sent more than `LIFETIME` before, or more than
//! `SETTLED` before if its first byte has been received.

use lasthop_base::units::{Duration, Instant};

/// Maximum time in transit: twice the maximum segment lifetime (RFC 9293, section 3.4.2).
const LIFETIME: Duration = Duration::from_secs(240);

/// Maximum time in transit of an original after a copy of its byte was received.
const SETTLED: Duration = Duration::from_secs(10);

/// Number of entries at which old ones are removed for the first time.
const FEW: usize = 256;
/// Initial capacity of the log.
const FIRST: usize = 32;

/// Number of the last entries that are searched linearly.
const NEAR: usize = 8;

/// Type of event that can be spurious.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// A segment of which all bytes had been sent before.
    Retransmission,
    /// An expiry of the retransmission timer.
    Timeout,
}

/// A spurious retransmission or timeout.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Spurious {
    /// Type of the event.
    pub cause: Cause,
    /// First byte of the retransmission, or oldest outstanding byte at the timeout.
    pub sequence: u64,
    /// Length in sequence numbers; 0 for a timeout.
    pub length: u32,
    /// Time of the transmission or timeout.
    pub at: Instant,
}

/// Numbers of spurious retransmissions and timeouts of a sender.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SpuriousCounts {
    /// Spurious retransmissions.
    pub retransmissions: u64,
    /// Spurious expiries of the retransmission timer.
    pub timeouts: u64,
}

/// A segment that was retransmitted, in part or as a whole, or a timeout.
#[derive(Clone, Copy, Debug)]
struct Copy {
    first: u64,
    length: u32,
    ordinal: u8,
    /// `None` if it also has bytes that were never sent, so that it is not a retransmission.
    cause: Option<Cause>,
    is_spurious: bool,
    /// Whether it or another copy has delivered its first byte.
    is_reached: bool,
    sent: Instant,
}

impl Copy {
    fn end(&self) -> u64 {
        self.first + u64::from(self.length)
    }
}

/// The copies that one endpoint of a connection sends, stored at the other endpoint.
#[derive(Clone, Debug, Default)]
pub(super) struct Copies {
    /// In order of first bytes; equal ones in transmission order.
    log: Vec<Copy>,
    /// Number of entries at which old ones are removed.
    full_at: usize,
    /// Length of the longest copy, and one past the highest byte of all copies.
    longest: u64,
    highest: u64,
    findings: Findings,
}

/// Spurious events found.
#[derive(Clone, Debug, Default)]
struct Findings {
    /// Counts over all connection instances.
    counts: SpuriousCounts,
    /// Individual events, if an observer is attached.
    list: Option<Vec<Spurious>>,
}

impl Findings {
    /// Records that `copy` is spurious, unless already recorded.
    fn add(&mut self, copy: &mut Copy) {
        let is_new = !std::mem::replace(&mut copy.is_spurious, true);
        let Some(cause) = copy.cause.filter(|_| is_new) else { return };
        match cause {
            Cause::Retransmission => self.counts.retransmissions += 1,
            Cause::Timeout => self.counts.timeouts += 1,
        }
        if let Some(list) = &mut self.list {
            let Copy { first: sequence, length, sent: at, .. } = *copy;
            list.push(Spurious { cause, sequence, length, at });
        }
    }

    /// Determines whether the original of `copy` has arrived, which may not have been reported.
    /// `has` returns whether a byte has been received.
    fn settle(&mut self, copy: &mut Copy, has: impl Fn(u64) -> bool) {
        if !copy.is_reached && has(copy.first) {
            self.add(copy);
        }
    }
}

impl Copies {
    /// Records the transmission of `[seq, end)` at `now`, which includes bytes sent before;
    /// `is_whole`: all of them were. `has` returns whether a byte has been received. Returns the
    /// ordinal of the copy, 255 from the 255th copy onwards.
    pub fn on_sent(
        &mut self,
        now: Instant,
        (seq, end): (u64, u64),
        is_whole: bool,
        has: impl Fn(u64) -> bool,
    ) -> u8 {
        if self.log.len() >= self.full_at.max(FEW) {
            self.forget_old(now, &has);
        }
        let ordinal = self.next_ordinal(seq, end);
        let cause = is_whole.then_some(Cause::Retransmission);
        self.longest = self.longest.max(end - seq);
        self.highest = self.highest.max(end);
        self.add(now, (seq, (end - seq) as u32), ordinal, cause, has);
        ordinal
    }

    /// Records an expiry of the timer for the byte at `seq`.
    pub fn on_timeout(&mut self, now: Instant, seq: u64, has: impl Fn(u64) -> bool) {
        let ordinal = self.next_ordinal(seq, seq + 1);
        self.highest = self.highest.max(seq + 1);
        self.add(now, (seq, 0), ordinal, Some(Cause::Timeout), has);
    }

    /// Ordinal of the next copy of `[seq, end)`.
    fn next_ordinal(&self, seq: u64, end: u64) -> u8 {
        if seq >= self.highest {
            return 1;
        }
        let from = self.place((seq + 1).saturating_sub(self.longest));
        let mut to = self.place(end);
        let mut before = 0;
        while to > from {
            let copy = &self.log[to - 1];
            if copy.end() > seq {
                // Earlier copies from the same first byte have smaller ordinals.
                before = copy.ordinal.max(before);
                to = self.place(copy.first);
            } else {
                to -= 1;
            }
        }
        before.saturating_add(1)
    }

    #[inline]
    fn add(
        &mut self,
        sent: Instant,
        (first, length): (u64, u32),
        ordinal: u8,
        cause: Option<Cause>,
        has: impl Fn(u64) -> bool,
    ) {
        let mut copy =
            Copy { first, length, ordinal, cause, is_spurious: false, is_reached: false, sent };
        if has(first) {
            self.findings.add(&mut copy);
        }
        let place = self.place(first + 1);
        if self.log.capacity() == 0 {
            self.log.reserve_exact(FIRST);
        }
        if place == self.log.len() {
            self.log.push(copy);
        } else {
            self.log.insert(place, copy);
        }
    }

    /// Index of the first copy whose first byte is `seq` or higher, which is usually one of the
    /// last.
    #[inline]
    fn place(&self, seq: u64) -> usize {
        let all = self.log.len();
        let least = all.saturating_sub(NEAR);
        let mut place = all;
        while place > least && self.log[place - 1].first >= seq {
            place -= 1;
        }
        if place > least || place == 0 {
            place
        } else {
            self.log.partition_point(|copy| copy.first < seq)
        }
    }

    /// Records the arrival of the transmission of `[seq, end)` with this ordinal; 0 for the
    /// original. `has` returns whether a byte had been received before.
    pub fn on_arrival(&mut self, seq: u64, end: u64, ordinal: u8, has: impl Fn(u64) -> bool) {
        let from = self.place(seq);
        for copy in self.log[from..].iter_mut().take_while(|copy| copy.first < end) {
            if copy.ordinal > ordinal || !copy.is_reached && has(copy.first) {
                self.findings.add(copy);
            }
            copy.is_reached |= ordinal > 0;
        }
    }

    /// Removes old copies, which are assumed to be settled.
    #[cold]
    fn forget_old(&mut self, now: Instant, has: impl Fn(u64) -> bool) {
        let findings = &mut self.findings;
        self.log.retain_mut(|copy| {
            let lifetime = if has(copy.first) { SETTLED } else { LIFETIME };
            let is_old = now.saturating_since(copy.sent) >= lifetime;
            if is_old {
                findings.settle(copy, &has);
            }
            !is_old
        });
        self.full_at = 2 * self.log.len();
    }

    /// One past the highest byte that was retransmitted.
    pub fn highest(&self) -> u64 {
        self.highest
    }

    /// Numbers of spurious events so far, including those found by unreported arrivals of
    /// originals.
    pub fn counts(&self, has: impl Fn(u64) -> bool) -> SpuriousCounts {
        let mut all = Findings { counts: self.findings.counts, list: None };
        for copy in &self.log {
            all.settle(&mut { *copy }, &has);
        }
        all.counts
    }

    /// Settles and removes all copies at the end of a connection instance.
    pub fn end_incarnation(&mut self, has: impl Fn(u64) -> bool) {
        for mut copy in self.log.drain(..) {
            self.findings.settle(&mut copy, &has);
        }
        self.highest = 0;
    }

    /// Starts to record individual events for [`Self::take_found`].
    pub fn observe(&mut self) {
        self.findings.list.get_or_insert_default();
    }

    /// Returns the events found since the last call.
    pub fn take_found(&mut self, has: impl Fn(u64) -> bool) -> Vec<Spurious> {
        for copy in &mut self.log {
            self.findings.settle(copy, &has);
        }
        self.findings.list.as_mut().map(std::mem::take).unwrap_or_default()
    }
}

#[cfg(test)]
mod properties {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// The ordinal of a copy is one more than the maximum of all earlier copies that have one of its bytes.
        #[test]
        fn ordinals_count_the_copies_of_a_byte(
            sent in prop::collection::vec((0..40_u64, 0..6_u64), 1..400)
        ) {
            let mut copies = Copies::default();
            for (index, (first, length)) in sent.into_iter().enumerate() {
                let now = Instant::from_nanos(index as u64);
                let end = first + length.max(1);
                let earlier = copies.log.iter().filter(|copy| copy.first < end && copy.end() > first);
                let expected = earlier.map(|copy| copy.ordinal).max().unwrap_or(0).saturating_add(1);
                prop_assert_eq!(copies.next_ordinal(first, end), expected);
                if length == 0 {
                    copies.on_timeout(now, first, |_| false);
                } else {
                    prop_assert_eq!(copies.on_sent(now, (first, end), true, |_| false), expected);
                }
            }
        }
    }
}
