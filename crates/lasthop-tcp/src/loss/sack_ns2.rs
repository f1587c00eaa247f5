//! The scoreboard of ns-2's Sack1: all data below the highest SACKed byte that is not SACKed is
//! lost. A timeout clears the scoreboard.

use super::super::ranges::Ranges;

/// Data that the receiver holds according to SACK blocks.
#[derive(Clone, Debug, Default)]
pub struct Scoreboard {
    sacked: Ranges,
    /// Holes below this byte have been retransmitted (RFC 6675: HighRxt).
    high_rxt: u64,
    /// Number of ACKs with new SACK information.
    generation: u64,
    /// Whether an ACK for new data removes only the data that it acknowledges.
    keeps_on_ack: bool,
}

impl Scoreboard {
    /// Processes the SACK blocks of an ACK. Returns `true` if they contain new data.
    pub fn update(&mut self, blocks: &[(u64, u64)]) -> bool {
        let mut is_new = false;
        for &(start, end) in blocks {
            is_new |= self.sacked.insert(start, end, 0);
        }
        self.generation += u64::from(is_new);
        is_new
    }

    /// Removes acknowledged data, below `una`.
    pub fn acknowledge(&mut self, una: u64) {
        self.sacked.remove_below(una);
    }

    /// Processes an ACK for new data that arrived outside recovery or ended it: ns-2 clears the
    /// scoreboard.
    #[inline]
    pub fn on_new_ack(&mut self, una: u64) {
        if self.keeps_on_ack {
            self.acknowledge(una);
            self.high_rxt = 0;
        } else {
            self.clear();
        }
    }

    /// Sets whether ACKs for new data keep SACKed data above them.
    pub fn keep_on_ack(&mut self, keeps: bool) {
        self.keeps_on_ack = keeps;
    }

    /// Returns a number that changes with each ACK that contains new SACK information.
    pub fn generation(&self) -> u64 {
        self.generation
    }

    /// Returns `true` if the byte `at` is SACKed.
    pub fn has(&self, at: u64) -> bool {
        self.sacked.end_of_range_at(at) > at
    }

    /// Returns the lowest byte at or above `at` that is not SACKed.
    pub fn end_of_range_at(&self, at: u64) -> u64 {
        self.sacked.end_of_range_at(at)
    }

    /// Returns one past the highest SACKed byte; 0 if none.
    pub fn highest(&self) -> u64 {
        self.sacked.highest().unwrap_or(0)
    }

    /// Returns the number of SACKed bytes.
    pub fn bytes(&self) -> u64 {
        self.sacked.iter().map(|range| range.end - range.start).sum()
    }

    /// Clears the scoreboard.
    #[inline]
    pub fn clear(&mut self) {
        self.sacked.clear();
        self.high_rxt = 0;
    }

    /// Records that data below `end` has been retransmitted.
    pub fn retransmitted(&mut self, end: u64) {
        self.high_rxt = end;
    }

    /// Returns HighRxt: holes below this byte have been retransmitted.
    pub fn resent_to(&self) -> u64 {
        self.high_rxt
    }

    /// Returns the lowest hole at or above `from`.
    pub fn next_hole(&self, from: u64) -> Option<u64> {
        self.sacked.next_hole(from)
    }
}
