//! Marks of outstanding segments: SACKed, lost, retransmitted.

use super::SentSegments;
use crate::rate::Delivered;

impl SentSegments {
    /// Marks the record at `index` as SACKed. If it was lost, its lost and retransmitted flags are
    /// cleared. Otherwise a retransmission of it remains outstanding.
    pub fn mark_sacked(&mut self, index: usize) {
        let record = &mut self.ring[index];
        debug_assert!(!record.is_sacked, "a record is SACKed once");
        (record.is_sacked, record.run) = (true, 1);
        self.marks.sacked += 1;
        let bytes = record.end - record.start;
        self.sacked += bytes;
        self.summary.add(record, bytes);
        if std::mem::take(&mut record.is_lost) {
            self.marks.lost -= 1;
            self.marks.resent -= u32::from(std::mem::take(&mut record.is_resent));
        }
        if self.keeps_copies {
            self.merge_buffers(index);
        }
    }

    /// Merges the socket buffer of the record at `index`, which was SACKed, with those of SACKed
    /// neighbours, and separates it from others (Linux: `tcp_shift_skb_data`).
    fn merge_buffers(&mut self, index: usize) {
        let is_sacked = |index: usize| self.ring.get(index).is_some_and(|record| record.is_sacked);
        let merges = index > 0 && is_sacked(index - 1);
        // Linux looks for a later neighbour after it has merged with an earlier one.
        let ends = [
            index.checked_sub(1).map(|before| (before, !merges)),
            Some((index, !(merges && is_sacked(index + 1)))),
        ];
        for (at, ends_buffer) in ends.into_iter().flatten() {
            let before = std::mem::replace(&mut self.ring[at].ends_buffer, ends_buffer);
            self.buffers = self.buffers + u32::from(ends_buffer) - u32::from(before);
        }
    }

    /// Marks the record at `index` as lost: its outstanding retransmission if any, otherwise the
    /// original. Returns `true` if the original was not marked before.
    pub fn mark_lost(&mut self, index: usize) -> bool {
        let record = &mut self.ring[index];
        debug_assert!(!record.is_sacked, "a segment that has arrived is not lost");
        let is_new = !std::mem::replace(&mut record.is_lost, true);
        if is_new {
            self.lost.push(record.start);
        }
        self.marks.lost += u32::from(is_new);
        if !(is_new && self.keeps_copies) {
            self.marks.resent -= u32::from(std::mem::take(&mut record.is_resent));
        }
        self.search_from(index);
        is_new
    }

    /// Returns first byte, end and delivery state of the records whose original was marked as lost
    /// since the last call.
    pub fn take_lost(&mut self) -> impl Iterator<Item = (u64, u64, Delivered)> {
        let SentSegments { ring, lost, .. } = self;
        lost.drain(..).filter_map(|start| {
            let record = ring.get(ring.partition_point(|record| record.end <= start))?;
            Some((record.start, record.end, record.before))
        })
    }

    /// Records that a retransmission of the record at `index` has arrived in addition to its
    /// original.
    pub fn unmark_resent(&mut self, index: usize) {
        let record = &mut self.ring[index];
        self.marks.resent -= u32::from(std::mem::take(&mut record.is_resent));
        self.search_from(index);
    }

    /// Clears all SACKed flags because the receiver has dropped the data.
    pub fn unmark_sacked(&mut self) {
        for record in &mut self.ring {
            record.is_sacked = false;
        }
        self.marks.sacked = 0;
        self.sacked = 0;
    }

    /// Clears all lost flags.
    pub fn unmark_lost(&mut self) {
        for record in &mut self.ring {
            record.is_lost = false;
        }
        self.marks.lost = 0;
    }
}
