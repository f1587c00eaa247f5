//! Data of streams that has arrived at an end, in order or not.

/// The data of all streams of an end. The stack reads it in order; this copy only counts it.
#[derive(Clone, Debug, Default)]
pub(super) struct Reassembly {
    /// For each stream, the ranges that have arrived, in ascending order, disjoint and not adjacent.
    streams: Vec<Vec<(u64, u64)>>,
}

impl Reassembly {
    /// Records that `length` bytes of a stream have arrived.
    pub fn insert(&mut self, stream: usize, offset: u64, length: u64) {
        if stream >= self.streams.len() {
            self.streams.resize(stream + 1, Vec::new());
        }
        let ranges = &mut self.streams[stream];
        let (mut low, mut high) = (offset, offset + length);
        if let Some(last) = ranges.last_mut()
            && last.1 == low
        {
            last.1 = high;
            return;
        }
        let first = ranges.partition_point(|range| range.1 < low);
        let touching = ranges[first..].iter().take_while(|range| range.0 <= high).count();
        for &(start, end) in &ranges[first..first + touching] {
            (low, high) = (low.min(start), high.max(end));
        }
        ranges.splice(first..first + touching, [(low, high)]);
    }

    /// Returns `true` if byte `offset` of a stream has arrived.
    pub fn contains(&self, stream: usize, offset: u64) -> bool {
        let ranges = self.streams.get(stream).map_or(&[][..], Vec::as_slice);
        let after = ranges.partition_point(|&(start, _)| start <= offset);
        after > 0 && offset < ranges[after - 1].1
    }

    /// Returns the number of bytes above those that `received` returns for their stream.
    pub fn waiting(&self, received: impl Fn(usize) -> u64) -> u64 {
        let above = |(stream, ranges): (usize, &Vec<(u64, u64)>)| {
            let known = received(stream);
            let bytes = |&(low, high): &(u64, u64)| high.max(known) - low.max(known);
            ranges.iter().map(bytes).sum::<u64>()
        };
        self.streams.iter().enumerate().map(above).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    proptest! {
        #[test]
        fn bytes_above_the_received_ones_wait(
            frames in prop::collection::vec((0usize..3, 0u64..60, 0u64..9), 0..40),
            received in prop::array::uniform3(0u64..70),
        ) {
            let mut reassembly = Reassembly::default();
            let mut known = BTreeSet::new();
            for (stream, offset, length) in frames {
                reassembly.insert(stream, offset, length);
                known.extend((offset..offset + length).map(|byte| (stream, byte)));
            }
            for (stream, byte) in (0..3).flat_map(|stream| (0..70).map(move |byte| (stream, byte))) {
                let is_known = known.contains(&(stream, byte));
                prop_assert_eq!(reassembly.contains(stream, byte), is_known);
            }
            let waiting = known.iter().filter(|(stream, byte)| *byte >= received[*stream]).count();
            prop_assert_eq!(reassembly.waiting(|stream| received[stream]), waiting as u64);
        }
    }
}
