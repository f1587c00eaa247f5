//! What a Linux host remembers of the segments above holes to report them (`tp->selective_acks`): four blocks, the
//! latest first. What is forgotten is reported again only if something is added to it.
//!
//! ```text
//!   a segment above a hole    touches a block: extends it, which comes first and takes in what it now touches
//!                             touches none:    a block of its own comes first; a fifth is forgotten
//!   RCV.NXT moves             blocks at or below it go
//! ```

/// Blocks that are remembered (`TCP_NUM_SACKS`).
const REMEMBERED: usize = 4;

/// Half-open ranges, the one that was touched last first.
#[derive(Clone, Debug, Default)]
pub(super) struct RecentBlocks(Vec<(u64, u64)>);

impl RecentBlocks {
    /// A segment `[seq, end)` has arrived above a hole.
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

    /// Everything below `rcv_nxt` has arrived.
    pub fn remove_below(&mut self, rcv_nxt: u64) {
        self.0.retain(|block| block.0 > rcv_nxt);
    }

    /// The blocks, the one that was touched last first.
    pub fn iter(&self) -> impl Iterator<Item = &(u64, u64)> {
        self.0.iter()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As Linux 6.18 reports them.
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
