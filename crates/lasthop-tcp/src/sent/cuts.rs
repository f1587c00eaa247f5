//! Resegmentation of retransmitted data, if segments have other options or the path has a smaller
//! MTU (Linux: `tcp_fragment`, `tcp_retrans_try_collapse`, `tcp_send_loss_probe`). A *piece* is a
//! GSO segment.

use super::{Marks, SentSegment, SentSegments};
use lasthop_base::units::Instant;

impl SentSegments {
    /// Merges short records into the one at `index`, which precedes them, before its
    /// retransmission. Merged records have at most `most` bytes in total.
    pub fn join_short(&mut self, index: usize, most: u64) {
        while let (Some(first), Some(next)) = (self.ring.get(index), self.ring.get(index + 1)) {
            // A part of a larger piece remains in it.
            let is_whole = next.ends_piece || next.ends_record || index + 2 == self.ring.len();
            let joins = next.end - first.start <= most && !next.is_sacked && !first.ends_record;
            let joins = joins && is_whole;
            if !joins {
                return;
            }
            let Some(next) = self.ring.remove(index + 1) else { return };
            self.search_from(index);
            self.marks.lost -= u32::from(next.is_lost);
            self.marks.resent -= u32::from(next.is_resent);
            let first = &mut self.ring[index];
            first.end = next.end;
            first.copies = first.copies.max(next.copies);
            first.is_pushed |= next.is_pushed;
            first.ends_record = next.ends_record;
            first.ends_piece |= next.ends_piece;
            self.buffers -= u32::from(first.ends_buffer && next.ends_buffer);
            first.ends_buffer |= next.ends_buffer;
        }
    }

    /// Cuts the record at `index` to at most `most` bytes before its retransmission. The rest
    /// becomes a separate piece of segments of `full` bytes, together with the following segments
    /// of the same piece if they are in the same state.
    pub fn cut(&mut self, index: usize, most: u64, full: u64) {
        let Some(&whole) = self.ring.get(index) else { return };
        let length = whole.end - whole.start;
        if length <= most && (whole.ends_piece || whole.ends_record || length == full) {
            return;
        }
        self.search_from(index);
        if whole.is_sacked {
            for record in self.ring.range_mut(..=index) {
                record.run = 1;
            }
        }
        let mut last = SentSegment { run: 1, ..whole };
        while !last.ends_piece && !last.ends_record {
            let fares = |one: &SentSegment| (one.is_lost, one.is_resent, one.copies);
            let joins = |next: &&SentSegment| !next.is_sacked && fares(next) == fares(&whole);
            let Some(&next) = self.ring.get(index + 1).filter(joins) else { break };
            self.ring.remove(index + 1);
            self.unmark(&next);
            self.buffers -= u32::from(last.ends_buffer);
            last = next;
        }
        let first_end = last.end.min(whole.start + most);
        if first_end == last.end {
            self.ring[index] = SentSegment { start: whole.start, ..last };
            return;
        }
        let bare = SentSegment {
            is_pushed: false,
            ends_piece: false,
            ends_buffer: false,
            ends_record: false,
            ..whole
        };
        self.ring[index] =
            SentSegment { end: first_end, ends_piece: true, ends_buffer: true, ..bare };
        self.buffers += 1;
        let (mut at, mut start) = (index, first_end);
        while start < last.end {
            let end = last.end.min(start + full);
            let part = if end == last.end {
                SentSegment { start, end, ..last }
            } else {
                SentSegment { start, end, ..bare }
            };
            at += 1;
            self.ring.insert(at, SentSegment { before: whole.before, sent: whole.sent, ..part });
            self.marks.sacked += u32::from(part.is_sacked);
            self.marks.lost += u32::from(part.is_lost);
            self.marks.resent += u32::from(part.is_resent);
            start = end;
        }
    }

    /// Resegments the newest piece into segments of `full` bytes before a tail loss probe. Its last
    /// segment becomes a separate piece, whose start is returned (Linux: `tcp_send_loss_probe`).
    pub fn part_tail(&mut self, full: u64) -> Option<u64> {
        let last = *self.ring.back()?;
        let mut first = self.ring.len() - 1;
        while first > 0 && !self.ring[first - 1].ends_piece && !self.ring[first - 1].ends_record {
            first -= 1;
        }
        let (count, start) = ((self.ring.len() - 1 - first) as u64, self.ring[first].start);
        let tail = start + count * full;
        let fares = |one: &SentSegment| (one.is_sacked, one.is_lost, one.is_resent, one.copies);
        let is_one = self.ring.range(first..).all(|one| fares(one) == fares(&last));
        if count == 0 || last.end <= tail || last.is_sacked || !is_one {
            return None;
        }
        for (index, one) in self.ring.range_mut(first..).enumerate() {
            one.start = start + index as u64 * full;
            one.end = if one.ends_piece { last.end } else { one.start + full };
        }
        self.search_from(first);
        let (end, index) = (self.ring.len() - 1, self.ring.len() - 2);
        (self.ring[end].start, self.ring[end].end) = (tail, last.end);
        self.ring[index].ends_piece = true;
        self.buffers += u32::from(!std::mem::replace(&mut self.ring[index].ends_buffer, true));
        Some(tail)
    }

    /// Handles the acknowledgment of the part of the oldest record below `una`. At a host that
    /// sends pieces, the rest of its piece is resegmented from there onwards (Linux:
    /// `tcp_trim_head`). `is_within`: whether earlier segments of that piece are also acknowledged.
    /// Returns by how many the number of segments decreases.
    pub fn trim_as_piece(&mut self, una: u64, is_within: bool) -> u32 {
        let Some(&first) = self.ring.front().filter(|first| first.start < una) else { return 0 };
        let full = first.end - first.start;
        self.trim(una);
        if !self.keeps_copies {
            return 0;
        }
        if first.ends_piece || first.ends_record {
            if is_within {
                return 0;
            }
            let start =
                self.cut_at.filter(|cut| cut.1 == first.end).map_or(first.start, |cut| cut.0);
            self.cut_at = Some((start, first.end));
            return 0;
        }
        let fares = |one: &SentSegment| (one.is_sacked, one.is_lost, one.is_resent, one.copies);
        let mut count = 1;
        while let Some(next) = self.ring.get(count).filter(|next| fares(next) == fares(&first)) {
            count += 1;
            if next.ends_piece || next.ends_record {
                break;
            }
        }
        let end = self.ring[count - 1].end;
        let needed = (end - una).div_ceil(full) as usize;
        if count == 1 || needed > count {
            return 0;
        }
        self.search_from(0);
        for index in needed.max(1)..count {
            // The last segment of the piece has its flags.
            let last = self.ring.remove(needed.max(1));
            let Some(last) = last else { break };
            self.unmark(&last);
            self.buffers -= u32::from(last.ends_buffer);
            let kept = &mut self.ring[needed.max(1) - 1];
            if index + 1 == count {
                kept.is_pushed |= last.is_pushed;
                kept.ends_piece |= last.ends_piece;
                let before = std::mem::replace(&mut kept.ends_buffer, true);
                self.buffers += u32::from(!before);
                kept.ends_record |= last.ends_record;
            }
        }
        for index in 0..needed {
            let start = una + index as u64 * full;
            (self.ring[index].start, self.ring[index].end) = (start, end.min(start + full));
            self.ring[index].run = 1;
        }
        (count - needed) as u32
    }

    /// Returns the original start and end of the segment that was partly acknowledged before, if
    /// any.
    pub fn take_cut(&mut self) -> Option<(u64, u64)> {
        self.cut_at.take()
    }

    /// Returns `true` if a part of a piece was just retransmitted, but not the lost part that
    /// follows.
    pub fn is_resending_piece(&self, now: Instant) -> bool {
        let next = self.index_to_resend().unwrap_or(0);
        let before = next.checked_sub(1).and_then(|index| self.ring.get(index));
        before.is_some_and(|before| {
            before.order == self.transmissions && before.sent == now && !before.ends_piece
        })
    }

    /// Number of segments of the oldest piece that are in the same state, for a host that sends
    /// pieces; otherwise 1.
    pub fn first_piece(&self) -> usize {
        let Some(first) = self.ring.front().filter(|_| self.keeps_copies) else { return 1 };
        let fares =
            |one: &SentSegment| (one.sent, one.is_sacked, one.is_lost, one.is_resent, one.copies);
        let is_end = |one: &SentSegment| one.ends_piece || one.ends_record;
        let alike = self.ring.iter().take_while(|one| fares(one) == fares(first)).count();
        let whole = self.ring.iter().position(is_end).map_or(1, |index| index + 1);
        alike.min(whole).max(1)
    }

    /// Updates the counts of flags for a record that is removed.
    fn unmark(&mut self, record: &SentSegment) {
        self.marks.sacked -= u32::from(record.is_sacked);
        self.marks.lost -= u32::from(record.is_lost);
        self.marks.resent -= u32::from(record.is_resent);
    }

    /// Limits segments to `most` bytes. Each piece with larger segments of which none has arrived
    /// is resegmented and declared lost. Returns the number of segments newly declared lost.
    pub fn split(&mut self, most: u64) -> u32 {
        self.search_from(0);
        let before = self.marks.lost;
        let old = std::mem::take(&mut self.ring);
        self.marks = Marks::default();
        self.buffers = 0;
        let mut piece: Vec<SentSegment> = Vec::new();
        for record in old {
            if record.is_sacked {
                self.keep_piece(&mut piece, most);
            }
            piece.push(record);
            if record.is_sacked || record.ends_piece || record.ends_record {
                self.keep_piece(&mut piece, most);
            }
        }
        self.keep_piece(&mut piece, most);
        self.marks.lost.saturating_sub(before)
    }

    /// Returns the segments of a piece to the ring, resegmented to `most` bytes if one of them is
    /// larger.
    fn keep_piece(&mut self, piece: &mut Vec<SentSegment>, most: u64) {
        let is_large = |record: &SentSegment| record.end - record.start > most && !record.is_sacked;
        if let (true, Some(first), Some(last)) =
            (piece.iter().any(is_large), piece.first().copied(), piece.last().copied())
        {
            piece.clear();
            let mut start = first.start;
            while start < last.end {
                let end = last.end.min(start + most);
                let is_last = end == last.end;
                piece.push(SentSegment {
                    start,
                    end,
                    is_lost: true,
                    is_resent: false,
                    is_pushed: is_last && last.is_pushed,
                    ends_piece: is_last && last.ends_piece,
                    ends_buffer: is_last && last.ends_buffer,
                    ends_record: is_last && last.ends_record,
                    ..first
                });
                start = end;
            }
        }
        for record in piece.drain(..) {
            self.marks.sacked += u32::from(record.is_sacked);
            self.marks.lost += u32::from(record.is_lost);
            self.marks.resent += u32::from(record.is_resent);
            self.buffers += u32::from(record.ends_buffer);
            self.ring.push_back(record);
        }
    }
}
