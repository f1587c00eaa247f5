//! Searches for records. Each starts where an earlier one has ended.

use super::{SentSegment, SentSegments};

impl SentSegments {
    /// Returns the first lost record, in order of sequence numbers, that has not been retransmitted
    /// since.
    pub fn first_to_resend(&self) -> Option<&SentSegment> {
        self.ring.get(self.index_to_resend()?)
    }

    /// Index of [`Self::first_to_resend`].
    pub(super) fn index_to_resend(&self) -> Option<usize> {
        if self.marks.lost == 0 {
            return None;
        }
        let first = self.index_of(self.none_below);
        let waits = |record: &SentSegment| record.is_lost && !record.is_resent;
        self.ring.range(first..).position(waits).map(|place| first + place)
    }

    /// Stores the result of [`Self::first_to_resend`], from which later searches start.
    pub fn advance_search(&mut self) {
        if self.marks.lost > 0
            && let Some(newest) = self.ring.back()
        {
            self.none_below = self.first_to_resend().map_or(newest.end, |record| record.start);
        }
    }

    /// Records that the record at `index` may wait for a retransmission.
    pub(super) fn search_from(&mut self, index: usize) {
        let start = self.ring.get(index).map_or(0, |record| record.start);
        self.none_below = self.none_below.min(start);
    }

    /// Index of the first record, from `index` on, that is not SACKed. SACKed records that were
    /// skipped before are skipped in one step.
    pub fn skip_sacked(&mut self, index: usize) -> usize {
        let mut next = index;
        while let Some(record) = self.ring.get(next).filter(|record| record.is_sacked) {
            next += record.run as usize;
        }
        if next > index {
            debug_assert!(self.ring.range(index..next).all(|record| record.is_sacked));
            self.ring[index].run = (next - index) as u32;
        }
        next
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use lasthop_base::rng::Streams;
    use lasthop_base::units::Instant;

    const FULL: u64 = 10;

    /// Checks both searches against the flags of all records.
    fn check(sent: &mut SentSegments) {
        let waits = |record: &SentSegment| record.is_lost && !record.is_resent;
        sent.advance_search();
        assert_eq!(sent.index_to_resend(), sent.ring.iter().position(waits));
        for index in 0..=sent.ring.len() {
            let rest = sent.ring.range(index..);
            let sacked = rest.take_while(|record| record.is_sacked).count();
            assert_eq!(sent.skip_sacked(index), index + sacked);
        }
    }

    /// Random transmissions, acknowledgments, losses and cuts, at hosts of both kinds.
    #[test]
    fn searches_find_what_a_scan_finds() {
        for seed in 0..200 {
            let mut draws = Streams { seed, replication: 0 }.stream("sent", "searches");
            let mut draw = |below: usize| (draws.uniform() * below as f64) as usize;
            let mut sent =
                if seed % 2 == 0 { SentSegments::as_linux() } else { SentSegments::new() };
            let (mut end, mut found) = (0, 0);
            for step in 0..400 {
                let now = Instant::from_nanos(step);
                let count = sent.ring.len();
                let index = draw(count.max(1));
                let Some(record) = sent.ring.get(index).copied() else {
                    sent.on_sent(now, end, end + FULL);
                    end += FULL;
                    continue;
                };
                match draw(8) {
                    0 | 1 => {
                        sent.on_sent(now, end, end + FULL);
                        if draw(3) == 0 {
                            sent.end_piece(false);
                        }
                        end += FULL;
                    }
                    2 | 3 if !record.is_sacked => sent.mark_sacked(index),
                    4 if !record.is_sacked => {
                        sent.mark_lost(index);
                    }
                    5 => {
                        if let Some(lost) = sent.first_to_resend().copied() {
                            found += 1;
                            sent.on_sent(now, lost.start, lost.end);
                        }
                    }
                    6 if draw(4) == 0 => {
                        sent.pop_below(record.end);
                    }
                    7 if !record.is_sacked && draw(4) == 0 => sent.cut(index, FULL / 2, FULL),
                    7 if !record.is_sacked => sent.join_short(index, 2 * FULL),
                    _ => {}
                }
                check(&mut sent);
            }
            assert!(found > 0);
        }
    }
}
