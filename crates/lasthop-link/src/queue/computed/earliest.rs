//! Selects the background source with the earliest packet.
//!
//! Up to [`FLAT_LIMIT`] sources are scanned. More are kept in a binary heap, so that a packet of
//! one among 1000 sources takes ten comparisons.

use lasthop_base::units::Instant;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::collections::binary_heap::PeekMut;

/// Maximum number of sources for which a scan is faster than a heap.
const FLAT_LIMIT: usize = 4;

/// Sources by the time of their next packet. Ties are broken by index.
#[derive(Clone, Debug, Default)]
pub(super) struct Earliest {
    /// Time of the next packet of each source, by index.
    times: Vec<Instant>,
    /// The times and indices as a heap, used above the limit.
    heap: BinaryHeap<Reverse<(Instant, u32)>>,
}

impl Earliest {
    /// Adds a source whose first packet is sent at `at`.
    pub fn add(&mut self, at: Instant) {
        self.times.push(at);
        let index = self.times.len() as u32 - 1;
        if self.times.len() == FLAT_LIMIT + 1 {
            let entries = self.times.iter().zip(0..).map(|(&time, index)| Reverse((time, index)));
            self.heap.extend(entries);
        } else if self.times.len() > FLAT_LIMIT {
            self.heap.push(Reverse((at, index)));
        }
    }

    /// The source that sends next, if its packet is sent at or before `until`.
    #[inline]
    pub fn until(&self, until: Instant) -> Option<usize> {
        let (at, index) = match self.heap.peek() {
            Some(&Reverse((at, index))) => (at, index as usize),
            None => self.times.iter().copied().zip(0..).min()?,
        };
        (at <= until).then_some(index)
    }

    /// Time of the next packet, or [`Instant::NEVER`] without sources.
    pub fn next_at(&self) -> Instant {
        match self.heap.peek() {
            Some(&Reverse((at, _))) => at,
            None => self.times.iter().copied().min().unwrap_or(Instant::NEVER),
        }
    }

    /// Replaces the time of source `index`, which [`Self::until`] returned, by its next packet at
    /// `at`.
    #[inline]
    pub fn advance(&mut self, index: usize, at: Instant) {
        if let Some(mut top) = self.heap.peek_mut() {
            debug_assert_eq!(top.0.1 as usize, index, "the first source sends");
            top.0.0 = at;
            // Sifts down here rather than at the end of the statement's scope.
            drop::<PeekMut<'_, _>>(top);
        } else {
            self.times[index] = at;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use lasthop_base::rng::Streams;

    /// The earliest source, found by a scan of all sources.
    fn scanned(times: &[Instant]) -> (Instant, usize) {
        times.iter().copied().zip(0..).min().expect("a source")
    }

    #[test]
    fn any_number_of_sources_takes_turns_as_a_scan_of_them_says() {
        let mut stream = Streams { seed: 1, replication: 0 }.stream("test", "times");
        for sources in [1, 2, FLAT_LIMIT, FLAT_LIMIT + 1, 100] {
            // Few different values, so that ties occur.
            let mut draw = || Instant::from_nanos((stream.uniform() * 20.0) as u64);
            let mut times: Vec<Instant> = (0..sources).map(|_| draw()).collect();
            let mut earliest = Earliest::default();
            times.iter().for_each(|&at| earliest.add(at));
            for _ in 0..1000 {
                let (at, index) = scanned(&times);
                assert_eq!((earliest.until(at), earliest.next_at()), (Some(index), at));
                if let Some(before) = at.as_nanos().checked_sub(1) {
                    assert_eq!(earliest.until(Instant::from_nanos(before)), None);
                }
                times[index] = Instant::from_nanos(at.as_nanos() + draw().as_nanos());
                earliest.advance(index, times[index]);
            }
        }
    }
}
