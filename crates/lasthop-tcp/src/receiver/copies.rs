//! Records of retransmitted segments at the receiver (`copies.rs`).

use super::Receiver;
use crate::copies::{Copies, SpuriousCounts};
use lasthop_base::units::Instant;

impl Receiver {
    /// Records that the peer retransmits `[seq, end)`, in whole or in part: see
    /// [`Copies::on_sent`].
    pub fn note_copy(&mut self, now: Instant, (seq, end): (u64, u64), is_whole: bool) -> u8 {
        self.copied_to = self.copied_to.max(end);
        self.with_copies(|copies, has| copies.on_sent(now, (seq, end), is_whole, has))
    }

    /// Records that the peer's timer expires for the byte at `seq`.
    pub fn note_timeout(&mut self, now: Instant, seq: u64) {
        self.copied_to = self.copied_to.max(seq + 1);
        self.with_copies(|copies, has| copies.on_timeout(now, seq, has));
    }

    /// Records that the copy with this ordinal arrives, before it is received.
    pub fn begin_copy(&mut self, seq: u64, end: u64, ordinal: u8) {
        self.with_copies(|copies, has| copies.on_arrival(seq, end, ordinal, has));
        self.copied_to = 0;
    }

    /// Records that the copy has been received.
    pub fn end_copy(&mut self) {
        self.copied_to = self.copies.as_ref().map_or(0, |copies| copies.highest());
    }

    /// Checks whether an arriving segment is an original that has been retransmitted, or lies above
    /// one.
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

    /// Numbers of spurious retransmissions and timeouts of the peer.
    pub fn spurious_counts(&self) -> SpuriousCounts {
        let copies = self.copies.as_ref();
        copies.map_or_else(SpuriousCounts::default, |copies| copies.counts(|seq| self.has(seq)))
    }

    /// Calls `use_them` with the retransmissions of the peer and a test whether a byte has been
    /// received.
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
