//! SACK blocks stored by a Linux host (`tp->selective_acks`): four blocks, the latest first. Other
//! received data is reported again only when its block is extended.
//!
//! ```text
//!   a segment above a hole    adjacent to a block: the block is extended, moves to the front and
//!                             merges with blocks that it now reaches
//!                             otherwise: a new block is put first; a fifth block is dropped
//!   RCV.NXT advances          blocks at or below it are removed
//! ```
//!
//! A block that is third or later has been first or second in an ACK: if ACKs are held back
//! (`receiver/compression.rs`), one is sent with the blocks before such a change.

/// Number of blocks stored (`TCP_NUM_SACKS`).
const REMEMBERED: usize = 4;

/// Number of blocks that an ACK reports in any case (`TCP_SACK_BLOCKS_EXPECTED`): the option has room for three
/// next to timestamps, one of which may be a duplicate.
const EXPECTED: usize = 2;

/// Half-open ranges, the most recently changed one first.
#[derive(Clone, Debug, Default)]
pub(super) struct RecentBlocks {
    blocks: Vec<(u64, u64)>,
    /// The blocks that the next ACK reports, if `is_kept`.
    kept: Vec<(u64, u64)>,
    is_kept: bool,
}

/// Returns `true` if two ranges overlap or are adjacent.
fn touches(block: &(u64, u64), other: (u64, u64)) -> bool {
    block.0 <= other.1 && other.0 <= block.1
}

impl RecentBlocks {
    /// Returns `true` if a segment `[seq, end)` pushes back two blocks that may not have been reported.
    pub fn pushes_back(&self, seq: u64, end: u64) -> bool {
        let place = self.blocks.iter().position(|block| touches(block, (seq, end)));
        place.unwrap_or(self.blocks.len()) >= EXPECTED
    }

    /// Lets the next ACK report the present blocks, excluding those added before it is sent.
    pub fn keep(&mut self) {
        self.kept.clone_from(&self.blocks);
        self.is_kept = true;
    }

    /// Lets the next ACK report the blocks at its transmission.
    pub fn release(&mut self) {
        self.is_kept = false;
    }

    /// Records the arrival of a segment `[seq, end)` above a hole.
    pub fn add(&mut self, seq: u64, end: u64) {
        let mut first = (seq, end);
        if let Some(place) = self.blocks.iter().position(|block| touches(block, first)) {
            let block = self.blocks.remove(place);
            first = (block.0.min(seq), block.1.max(end));
            self.blocks.retain(|other| {
                let is_taken = touches(other, first);
                if is_taken {
                    first = (first.0.min(other.0), first.1.max(other.1));
                }
                !is_taken
            });
        }
        self.blocks.truncate(REMEMBERED - 1);
        self.blocks.insert(0, first);
    }

    /// Removes blocks at or below `rcv_nxt`, where all data has arrived.
    pub fn remove_below(&mut self, rcv_nxt: u64) {
        self.blocks.retain(|block| block.0 > rcv_nxt);
    }

    /// Iterates over the blocks that the next ACK reports, the most recently changed one first.
    pub fn iter(&self) -> impl Iterator<Item = &(u64, u64)> {
        if self.is_kept { self.kept.iter() } else { self.blocks.iter() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Blocks reported by Linux 6.18.
    #[test]
    fn the_fifth_block_is_forgotten() {
        let mut blocks = RecentBlocks::default();
        for start in [10, 30, 50, 70, 90] {
            blocks.add(start, start + 10);
        }
        assert_eq!(blocks.blocks, [(90, 100), (70, 80), (50, 60), (30, 40)]);
        blocks.add(80, 90);
        assert_eq!(blocks.blocks, [(70, 100), (50, 60), (30, 40)], "one joins two");
        blocks.add(20, 30);
        assert_eq!(blocks.blocks, [(20, 40), (70, 100), (50, 60)], "10 to 20 is forgotten");
        blocks.remove_below(40);
        assert_eq!(blocks.blocks, [(70, 100), (50, 60)]);
    }

    /// Two blocks may not have been reported when a third one is added or extended. Later blocks are stored, but
    /// the next ACK reports the former ones.
    #[test]
    fn blocks_are_reported_before_others_push_them_back() {
        let mut blocks = RecentBlocks::default();
        for (start, pushes_back) in [(10, false), (30, false), (50, true), (70, true)] {
            assert_eq!(blocks.pushes_back(start, start + 10), pushes_back, "{start}");
            blocks.add(start, start + 10);
        }
        // 70 to 80 and 50 to 60 are in front of 30 to 40, which is in front of 10 to 20.
        for (start, pushes_back) in [(80, false), (60, false), (40, true), (20, true)] {
            assert_eq!(blocks.pushes_back(start, start + 1), pushes_back, "{start}");
        }
        blocks.keep();
        blocks.add(90, 100);
        let reported = |blocks: &RecentBlocks| blocks.iter().copied().collect::<Vec<_>>();
        assert_eq!(reported(&blocks), [(70, 80), (50, 60), (30, 40), (10, 20)]);
        blocks.release();
        assert_eq!(reported(&blocks), [(90, 100), (70, 80), (50, 60), (30, 40)]);
    }
}
