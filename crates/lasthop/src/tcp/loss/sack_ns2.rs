//! The scoreboard of ns-2's Sack1: everything unSACKed below the highest SACKed byte is lost, and a
//! timeout forgets it all.

use super::super::ranges::Ranges;

/// What the receiver holds, as far as SACK blocks told.
#[derive(Clone, Debug, Default)]
pub struct Scoreboard {
    sacked: Ranges,
    /// Holes below this byte have been retransmitted (RFC 6675: HighRxt).
    high_rxt: u64,
}

impl Scoreboard {
    /// Takes in the blocks of an ACK and says whether they bring anything new.
    pub fn update(&mut self, blocks: &[(u64, u64)]) -> bool {
        let mut is_new = false;
        for &(start, end) in blocks {
            is_new |= self.sacked.insert(start, end, 0);
        }
        is_new
    }

    /// Everything below `una` is acknowledged.
    pub fn acknowledge(&mut self, una: u64) {
        self.sacked.remove_below(una);
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

    /// The lowest hole that has not been retransmitted, from `una` on.
    pub fn next_hole(&self, una: u64) -> Option<u64> {
        self.sacked.next_hole(self.high_rxt.max(una))
    }
}
