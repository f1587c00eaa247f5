//! A small sorted set of half-open byte ranges: reassembly at the receiver, scoreboard at the
//! sender.

/// Disjoint, non-adjacent ranges `[start, end)` in ascending order.
#[derive(Clone, Debug, Default)]
pub(super) struct Ranges(Vec<Range>);

/// One range, with the time it was last touched (a counter).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Range {
    pub start: u64,
    pub end: u64,
    pub touched: u64,
}

impl Ranges {
    pub fn clear(&mut self) {
        self.0.clear();
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn iter(&self) -> impl DoubleEndedIterator<Item = &Range> {
        self.0.iter()
    }

    /// Returns the lowest range that ends at `end` or above.
    #[inline]
    pub fn first_ending_from(&self, end: u64) -> Option<&Range> {
        self.0.get(self.0.partition_point(|range| range.end < end))
    }

    /// Adds `[start, end)` if it starts at the end of the highest range; otherwise returns `false`.
    #[inline]
    pub fn extend_highest(&mut self, start: u64, end: u64, touched: u64) -> bool {
        let Some(highest) = self.0.last_mut().filter(|highest| highest.end == start) else {
            return false;
        };
        (highest.end, highest.touched) = (end, touched);
        true
    }

    /// Adds `[start, end)`. Returns `true` if it contains bytes that were not in the set.
    pub fn insert(&mut self, start: u64, end: u64, touched: u64) -> bool {
        if start >= end {
            return false;
        }
        // Ranges before index `first` end before `start`; ranges at or above `last` start after
        // `end`.
        let first = self.0.partition_point(|range| range.end < start);
        let last = first + self.0[first..].iter().take_while(|range| range.start <= end).count();
        if first == last {
            self.0.insert(first, Range { start, end, touched });
            return true;
        }
        let merged = Range {
            start: start.min(self.0[first].start),
            end: end.max(self.0[last - 1].end),
            touched,
        };
        let covered = last - first == 1
            && self.0[first].start == merged.start
            && self.0[first].end == merged.end;
        self.0[first] = merged;
        self.0.drain(first + 1..last);
        !covered
    }

    /// Removes all bytes below `bound`.
    #[inline]
    pub fn remove_below(&mut self, bound: u64) {
        if !self.0.is_empty() {
            self.drain_below(bound);
        }
    }

    fn drain_below(&mut self, bound: u64) {
        let gone = self.0.partition_point(|range| range.end <= bound);
        self.0.drain(..gone);
        if let Some(first) = self.0.first_mut() {
            first.start = first.start.max(bound);
        }
    }

    /// If the lowest range starts at or below `next`, removes it and returns its end.
    pub fn take_in_order(&mut self, next: u64) -> Option<u64> {
        let first = self.0.first()?;
        (first.start <= next).then(|| self.0.remove(0).end)
    }

    /// End of the highest range.
    pub fn highest(&self) -> Option<u64> {
        self.0.last().map(|range| range.end)
    }

    /// Returns the lowest byte at or above `from` that is in a hole below a range, if any.
    pub fn next_hole(&self, from: u64) -> Option<u64> {
        let mut at = from;
        for range in &self.0 {
            if at < range.start {
                return Some(at);
            }
            at = at.max(range.end);
        }
        None
    }

    /// Returns the lowest byte at or above `at` that is not in the set.
    pub fn end_of_range_at(&self, at: u64) -> u64 {
        let next = self.0.partition_point(|range| range.end <= at);
        self.0.get(next).filter(|range| range.start <= at).map_or(at, |range| range.end)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn agrees_with_a_bitmap(writes in prop::collection::vec((0u64..60, 1u64..12), 1..20), bound in 0u64..80) {
            let mut ranges = Ranges::default();
            let mut bitmap = [false; 80];
            for (touched, &(start, length)) in writes.iter().enumerate() {
                let cells = &mut bitmap[start as usize..(start + length) as usize];
                let news = cells.iter().any(|set| !set);
                cells.fill(true);
                prop_assert_eq!(ranges.insert(start, start + length, touched as u64), news);
            }
            ranges.remove_below(bound);
            bitmap[..bound as usize].fill(false);
            for at in 0..80 {
                let end = (at..80).find(|&at| !bitmap[at as usize]).unwrap_or(80);
                prop_assert_eq!(ranges.end_of_range_at(at), end);
                let first = ranges.iter().find(|range| range.end >= at);
                prop_assert_eq!(ranges.first_ending_from(at), first);
            }
            let highest = bitmap.iter().rposition(|&set| set);
            prop_assert_eq!(ranges.highest(), highest.map(|at| at as u64 + 1));
            let hole = (bound..highest.unwrap_or(0) as u64).find(|&at| !bitmap[at as usize]);
            prop_assert_eq!(ranges.next_hole(bound), hole);
            for pair in ranges.iter().collect::<Vec<_>>().windows(2) {
                prop_assert!(pair[0].end < pair[1].start);
            }
        }
    }
}
