//! Random losses told from congestion by queues that drop some segments first (Biaz, Vaidya, "De-Randomizing Congestion
//! Losses to Improve TCP Performance over Wired-Wireless Networks", IEEE/ACM Trans. Networking 13(3), 2005).
//!
//! ```text
//!   sender     marks every fifth segment "out"; a congested queue (`queue/biased.rs`) drops these first
//!   verdict    a lost segment was "out"                         congestion
//!              it was "in"                                      random: it goes again, the window stays
//!              it was "in", and most of the "out" are missing   congestion: a queue with none of them left drops all
//!   Casablanca the receiver gives the verdict, by a mark on its ACKs
//!   Ifrane     the sender does
//! ```
//!
//! Each hole of a window is judged, the first at its third duplicate, the others as partial ACKs show them. The first that
//! means congestion cuts the window.
//!
//! Both ends know which segments are "out" by their numbers. Ifrane's sender knows of one loss at a time: an "in" segment
//! counts for congestion if an "out" one was lost within the last smoothed round trip. The share of "out" and both rules for
//! heavy congestion are our choice, as the sources at hand have the idea only.

use super::config::Config;

/// One segment in so many is "out".
const SHARE: u64 = 5;

/// Is the segment that begins with `seq` one that queues drop first?
pub(super) fn is_out(config: &Config, seq: u64) -> bool {
    seq.saturating_sub(1) / config.segment.get() % SHARE == SHARE - 1
}

/// First bytes of the "out" segments of `config` from `from` to `to`.
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
