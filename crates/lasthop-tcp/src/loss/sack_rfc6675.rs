//! The scoreboard of RFC 6675: Update(), IsLost(), SetPipe() of section 4. They are computed on
//! ranges, because loss is monotonic: all data below an edge that is not SACKed is lost.

use super::super::ranges::Ranges;

/// Data that the receiver holds according to SACK blocks.
#[derive(Clone, Debug)]
pub struct Scoreboard {
    sacked: Ranges,
    /// DupThresh.
    threshold: u32,
    segment: u64,
}

impl Scoreboard {
    /// Creates an empty scoreboard with DupThresh `threshold`.
    pub fn new(threshold: u32, segment: u64) -> Self {
        Scoreboard { sacked: Ranges::default(), threshold, segment }
    }

    /// Sets DupThresh.
    pub fn set_threshold(&mut self, threshold: u32) {
        self.threshold = threshold;
    }

    /// Clears the scoreboard.
    pub fn clear(&mut self) {
        self.sacked.clear();
    }

    /// Update(): processes SACK blocks between `una` and `max`. Returns `true` if they contain new
    /// data.
    pub fn update(&mut self, blocks: &[(u64, u64)], una: u64, max: u64) -> bool {
        let mut is_new = false;
        for &(start, end) in blocks {
            is_new |= self.sacked.insert(start.max(una), end.min(max), 0);
        }
        is_new
    }

    /// Removes acknowledged data, below `una`.
    pub fn acknowledge(&mut self, una: u64) {
        self.sacked.remove_below(una);
    }

    /// Returns the sequence number below which IsLost() is true for all data that is not SACKed.
    /// Above it, DupThresh ranges or more than (DupThresh - 1) * SMSS bytes have been SACKed.
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

    /// SetPipe(): returns the bytes between `una` and `max` that are neither SACKed nor lost, plus
    /// the retransmitted bytes below `high_rxt`.
    pub fn pipe(&self, una: u64, max: u64, high_rxt: u64) -> u64 {
        let edge = self.lost_edge().max(una);
        let high_rxt = high_rxt.max(una);
        self.unsacked(edge, max.max(edge)) + self.unsacked(una, high_rxt)
    }

    /// Returns the bytes from `from` to `to` that are not SACKed.
    pub fn unsacked(&self, from: u64, to: u64) -> u64 {
        let sacked: u64 = self
            .sacked
            .iter()
            .map(|range| range.end.min(to).saturating_sub(range.start.max(from)))
            .sum();
        to.saturating_sub(from) - sacked
    }

    /// Returns the lowest hole at or above `from` that is below a SACKed byte.
    pub fn next_hole(&self, from: u64) -> Option<u64> {
        self.sacked.next_hole(from)
    }

    /// Returns the lowest byte at or above `at` that is not SACKed.
    pub fn end_of_range_at(&self, at: u64) -> u64 {
        self.sacked.end_of_range_at(at)
    }

    /// Returns one past the highest SACKed byte.
    pub fn highest(&self) -> Option<u64> {
        self.sacked.highest()
    }
}
