//! The scoreboard of ns-2's Sack1: everything unSACKed below the highest SACKed byte is lost, and a
//! timeout forgets it all.

use super::super::ranges::Ranges;

/// What the receiver holds, as far as SACK blocks told.
#[derive(Clone, Debug, Default)]
pub struct Scoreboard {
    sacked: Ranges,
    /// Holes below this byte have been retransmitted (RFC 6675: HighRxt).
    high_rxt: u64,
    /// Counts ACKs that brought something new.
    generation: u64,
    /// The next new ACK forgets no more than what it covers.
    keeps_on_ack: bool,
}

impl Scoreboard {
    /// Takes in the blocks of an ACK and says whether they bring anything new.
    pub fn update(&mut self, blocks: &[(u64, u64)]) -> bool {
        let mut is_new = false;
        for &(start, end) in blocks {
            is_new |= self.sacked.insert(start, end, 0);
        }
        self.generation += u64::from(is_new);
        is_new
    }

    /// Everything below `una` is acknowledged.
    pub fn acknowledge(&mut self, una: u64) {
        self.sacked.remove_below(una);
    }

    /// An ACK for new data came outside of recovery, or ended it: ns-2 forgets everything.
    #[inline]
    pub fn on_new_ack(&mut self, una: u64) {
        if self.keeps_on_ack {
            self.acknowledge(una);
            self.high_rxt = 0;
        } else {
            self.clear();
        }
    }

    /// Shall new ACKs leave what lies above them?
    pub fn keep_on_ack(&mut self, keeps: bool) {
        self.keeps_on_ack = keeps;
    }

    /// Changes with each ACK that brings something new.
    pub fn generation(&self) -> u64 {
        self.generation
    }

    /// Has the byte `at` arrived?
    pub fn has(&self, at: u64) -> bool {
        self.sacked.end_of_range_at(at) > at
    }

    /// The lowest byte at or above `at` that has not.
    pub fn end_of_range_at(&self, at: u64) -> u64 {
        self.sacked.end_of_range_at(at)
    }

    /// One past the highest byte that has; 0 if none.
    pub fn highest(&self) -> u64 {
        self.sacked.highest().unwrap_or(0)
    }

    /// Bytes that have.
    pub fn bytes(&self) -> u64 {
        self.sacked.iter().map(|range| range.end - range.start).sum()
    }

    /// Forgets everything.
    #[inline]
    pub fn clear(&mut self) {
        self.sacked.clear();
        self.high_rxt = 0;
    }

    /// What lies below `end` has been retransmitted.
    pub fn retransmitted(&mut self, end: u64) {
        self.high_rxt = end;
    }

    /// Holes below this byte have been retransmitted.
    pub fn resent_to(&self) -> u64 {
        self.high_rxt
    }

    /// The lowest hole from `from` on.
    pub fn next_hole(&self, from: u64) -> Option<u64> {
        self.sacked.next_hole(from)
    }
}
