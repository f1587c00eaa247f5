//! What a receiver hears of segments that were sent again (`tcp/copies.rs`).

use super::Receiver;
use crate::copies::{Copies, SpuriousCounts};
use lasthop_base::units::Instant;

impl Receiver {
    /// The peer sends `[seq, end)` again, in whole or in part: see [`Copies::on_sent`].
    pub fn note_copy(&mut self, now: Instant, (seq, end): (u64, u64), is_whole: bool) -> u8 {
        self.copied_to = self.copied_to.max(end);
        self.with_copies(|copies, has| copies.on_sent(now, (seq, end), is_whole, has))
    }

    /// The peer's timer fires for the byte at `seq`.
    pub fn note_timeout(&mut self, now: Instant, seq: u64) {
        self.copied_to = self.copied_to.max(seq + 1);
        self.with_copies(|copies, has| copies.on_timeout(now, seq, has));
    }

    /// A copy of that ordinal arrives, and is received next.
    pub fn begin_copy(&mut self, seq: u64, end: u64, ordinal: u8) {
        self.with_copies(|copies, has| copies.on_arrival(seq, end, ordinal, has));
        self.copied_to = 0;
    }

    /// It has been received.
    pub fn end_copy(&mut self) {
        self.copied_to = self.copies.as_ref().map_or(0, |copies| copies.highest());
    }

    /// A segment arrives: is it an original that has been sent again, or what lies beyond it?
    #[inline(always)]
    pub fn look_for_late_original(&mut self, seq: u64, end: u64) {
        if seq < self.copied_to {
            self.take_late_original(seq, end);
        }
    }

    #[cold]
    fn take_late_original(&mut self, seq: u64, end: u64) {
        self.with_copies(|copies, has| copies.on_arrival(seq, end, 0, has));
    }

    /// How many copies and timeouts of the peer were not needed.
    pub fn spurious_counts(&self) -> SpuriousCounts {
        let copies = self.copies.as_ref();
        copies.map_or_else(SpuriousCounts::default, |copies| copies.counts(|seq| self.has(seq)))
    }

    /// Lends what the peer has sent again, with what has arrived.
    #[inline(always)]
    pub fn with_copies<R>(
        &mut self,
        use_them: impl FnOnce(&mut Copies, &dyn Fn(u64) -> bool) -> R,
    ) -> R {
        let mut copies = self.copies.take().unwrap_or_default();
        let result = use_them(&mut copies, &|seq| self.has(seq));
        self.copies = Some(copies);
        result
    }
}
