//! The scoreboard of RFC 6675: Update(), IsLost(), SetPipe() of section 4, computed on whole ranges, as loss is
//! monotone: everything unSACKed below an edge is lost.

use super::super::ranges::Ranges;

/// What the receiver holds, as far as SACK blocks told.
#[derive(Clone, Debug)]
pub struct Scoreboard {
    sacked: Ranges,
    /// DupThresh.
    threshold: u32,
    segment: u64,
}

impl Scoreboard {
    /// Nothing is SACKed yet.
    pub fn new(threshold: u32, segment: u64) -> Self {
        Scoreboard { sacked: Ranges::default(), threshold, segment }
    }

    /// DupThresh from here on.
    pub fn set_threshold(&mut self, threshold: u32) {
        self.threshold = threshold;
    }

    /// Forgets everything.
    pub fn clear(&mut self) {
        self.sacked.clear();
    }

    /// Update(): takes in blocks, as far as they lie between `una` and `max`, and says whether they bring
    /// anything new.
    pub fn update(&mut self, blocks: &[(u64, u64)], una: u64, max: u64) -> bool {
        let mut is_new = false;
        for &(start, end) in blocks {
            is_new |= self.sacked.insert(start.max(una), end.min(max), 0);
        }
        is_new
    }

    /// Everything below `una` is acknowledged.
    pub fn acknowledge(&mut self, una: u64) {
        self.sacked.remove_below(una);
    }

    /// IsLost() holds for everything unSACKed below this byte: DupThresh ranges, or more than
    /// (DupThresh - 1) segments' worth of bytes, have been SACKed above it.
    pub fn lost_edge(&self) -> u64 {
        let (mut ranges, mut bytes) = (0, 0);
        for range in self.sacked.iter().rev() {
            ranges += 1;
            bytes += range.end - range.start;
            if ranges >= self.threshold || bytes > u64::from(self.threshold - 1) * self.segment {
                return range.start;
            }
        }
        0
    }

    /// SetPipe(): unSACKed bytes between `una` and `max` that are not lost, plus those below
    /// `high_rxt`, which were retransmitted.
    pub fn pipe(&self, una: u64, max: u64, high_rxt: u64) -> u64 {
        let edge = self.lost_edge().max(una);
        let high_rxt = high_rxt.max(una);
        self.unsacked(edge, max.max(edge)) + self.unsacked(una, high_rxt)
    }

    /// Bytes from `from` to `to` that are not SACKed.
    pub fn unsacked(&self, from: u64, to: u64) -> u64 {
        let sacked: u64 = self
            .sacked
            .iter()
            .map(|range| range.end.min(to).saturating_sub(range.start.max(from)))
            .sum();
        to.saturating_sub(from) - sacked
    }

    /// The lowest hole at or above `from`, below some SACKed byte.
    pub fn next_hole(&self, from: u64) -> Option<u64> {
        self.sacked.next_hole(from)
    }

    /// The lowest byte at or above `at` that is not SACKed.
    pub fn end_of_range_at(&self, at: u64) -> u64 {
        self.sacked.end_of_range_at(at)
    }

    /// One past the highest SACKed byte.
    pub fn highest(&self) -> Option<u64> {
        self.sacked.highest()
    }
}
