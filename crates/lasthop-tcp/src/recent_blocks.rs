//! SACK blocks stored by a Linux host (`tp->selective_acks`): four blocks, the latest first. Other
//! received data is reported again only when its block is extended.
//!
//! ```text
//!   a segment above a hole    adjacent to a block: the block is extended, moves to the front and
//!                             merges with blocks that it now reaches
//!                             otherwise: a new block is put first; a fifth block is dropped
//!   RCV.NXT advances          blocks at or below it are removed
//! ```

/// Number of blocks stored (`TCP_NUM_SACKS`).
const REMEMBERED: usize = 4;

/// Half-open ranges, the most recently changed one first.
#[derive(Clone, Debug, Default)]
pub(super) struct RecentBlocks(Vec<(u64, u64)>);

impl RecentBlocks {
    /// Records the arrival of a segment `[seq, end)` above a hole.
    pub fn add(&mut self, seq: u64, end: u64) {
        let mut first = (seq, end);
        let touches =
            |block: &(u64, u64), other: (u64, u64)| block.0 <= other.1 && other.0 <= block.1;
        if let Some(place) = self.0.iter().position(|block| touches(block, first)) {
            let block = self.0.remove(place);
            first = (block.0.min(seq), block.1.max(end));
            self.0.retain(|other| {
                let is_taken = touches(other, first);
                if is_taken {
                    first = (first.0.min(other.0), first.1.max(other.1));
                }
                !is_taken
            });
        }
        self.0.truncate(REMEMBERED - 1);
        self.0.insert(0, first);
    }

    /// Removes blocks at or below `rcv_nxt`, where all data has arrived.
    pub fn remove_below(&mut self, rcv_nxt: u64) {
        self.0.retain(|block| block.0 > rcv_nxt);
    }

    /// Iterates over the blocks, the most recently changed one first.
    pub fn iter(&self) -> impl Iterator<Item = &(u64, u64)> {
        self.0.iter()
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
        assert_eq!(blocks.0, [(90, 100), (70, 80), (50, 60), (30, 40)]);
        blocks.add(80, 90);
        assert_eq!(blocks.0, [(70, 100), (50, 60), (30, 40)], "one joins two");
        blocks.add(20, 30);
        assert_eq!(blocks.0, [(20, 40), (70, 100), (50, 60)], "10 to 20 is forgotten");
        blocks.remove_below(40);
        assert_eq!(blocks.0, [(70, 100), (50, 60)]);
    }
}
