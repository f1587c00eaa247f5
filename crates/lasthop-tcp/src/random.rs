//! Random losses distinguished from congestion by queues that drop some segments first (Biaz,
//! Vaidya, "De-Randomizing Congestion Losses to Improve TCP Performance over Wired-Wireless
//! Networks", IEEE/ACM Trans. Networking 13(3), 2005).
//!
//! ```text
//!   sender      marks every fifth segment "out"; a congested queue drops these first
//!   verdict     an "out" segment is lost           congestion
//!               an "in" segment is lost            random: retransmitted, same window
//!               an "in" segment is lost, and       congestion: a queue without "out"
//!               most "out" segments are missing    segments drops all segments
//!   Casablanca  the receiver decides, and reports it by a mark on its ACKs
//!   Ifrane      the sender decides
//! ```
//!
//! Each hole of a window is classified: the first one at its third duplicate, the others by partial
//! ACKs. The first one classified as congestion reduces the window.
//!
//! Both endpoints determine the "out" segments by sequence numbers. Ifrane's sender detects one
//! loss at a time: an "in" segment indicates congestion if an "out" segment was lost within the
//! last SRTT. The fraction of "out" segments and both rules for heavy congestion are our choice,
//! since the available sources describe only the idea.

use super::config::Config;

/// One of this number of segments is "out".
const SHARE: u64 = 5;

/// Returns `true` if the segment that starts at `seq` is "out", i.e. dropped first by queues.
pub(super) fn is_out(config: &Config, seq: u64) -> bool {
    seq.saturating_sub(1) / config.segment.get() % SHARE == SHARE - 1
}

/// Returns the first bytes of the "out" segments in `[from, to)`.
pub(super) fn outs(config: &Config, from: u64, to: u64) -> impl Iterator<Item = u64> {
    let segment = config.segment.get();
    let first = from.saturating_sub(1) / segment / SHARE * SHARE + SHARE - 1;
    let indices = (first..).step_by(SHARE as usize);
    indices.map(move |index| index * segment + 1).take_while(move |&seq| seq < to)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::presets::{Overrides, Profile, Variant, config};
    use lasthop_base::units::Bytes;

    #[test]
    fn every_fifth_segment_is_out() {
        let set = Overrides { segment: Some(Bytes::new(1000)), ..Overrides::default() };
        let config = config(Variant::Casablanca, Profile::Rfc, &set);
        let is_out = |index: u64| is_out(&config, index * 1000 + 1);
        let marked: Vec<_> = (0..12).filter(|&index| is_out(index)).collect();
        assert_eq!(marked, [4, 9]);
        for (from, to, expected) in [
            (1, 12_001, vec![4_001, 9_001]),
            (4_001, 9_001, vec![4_001]),
            (5_001, 9_001, vec![]),
            (5_001, 9_002, vec![9_001]),
        ] {
            assert_eq!(outs(&config, from, to).collect::<Vec<_>>(), expected, "{from} {to}");
        }
    }
}
