//! Units of a block by their numbers.

/// Units of a block that a frame carries, and the parameters of the block. Unit `first + i` is the
/// i-th unit of the frame. Unit numbers wrap at 256; numbers below `data` are data units.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CodedUnits {
    /// Number of data units in the block, at least 1.
    pub data: u8,
    /// Number of the first unit.
    pub first: u8,
    /// Number of units in the frame, at most 64.
    pub units: u8,
    /// Number of padding bytes: total length of the data units minus the length of the packet.
    pub padding: u8,
}

impl CodedUnits {
    /// Returns the number of the unit at index `place` of the frame.
    #[inline]
    pub const fn number(&self, place: u8) -> u8 {
        self.first.wrapping_add(place)
    }

    /// Returns a mask with one bit per unit of the frame.
    #[inline]
    pub const fn all(&self) -> u64 {
        if self.units >= 64 { u64::MAX } else { (1 << self.units) - 1 }
    }

    /// Returns the unit length of a packet of `bytes` bytes.
    #[inline]
    pub const fn unit_bytes(&self, bytes: u32) -> u32 {
        bytes.div_ceil(self.data as u32)
    }
}

/// A set of unit numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct UnitSet {
    bits: [u64; 4],
    count: u16,
}

impl UnitSet {
    /// Returns the number of units in the set.
    #[inline]
    pub const fn len(&self) -> u16 {
        self.count
    }

    /// Returns `true` if the set contains all numbers below `end`.
    #[inline]
    pub const fn has_all_below(&self, end: u8) -> bool {
        let (whole, rest) = (end >> 6, end & 63);
        let mut word = 0;
        while word < whole {
            if self.bits[word as usize] != u64::MAX {
                return false;
            }
            word += 1;
        }
        !self.bits[whole as usize] & ((1 << rest) - 1) == 0
    }

    /// Returns `true` if the set is empty.
    pub const fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Returns `true` if the set contains `number`.
    #[inline]
    pub const fn contains(&self, number: u8) -> bool {
        self.bits[(number >> 6) as usize] >> (number & 63) & 1 == 1
    }

    /// Adds `number`; returns `false` if the set contained it already.
    pub fn insert(&mut self, number: u8) -> bool {
        self.insert_run(number, 1) == 1
    }

    /// Adds the numbers `first + i` for the bits i of `run`. Returns the bits of the added numbers.
    /// Numbers wrap at 256.
    #[inline]
    pub fn insert_run(&mut self, first: u8, run: u64) -> u64 {
        let (word, shift) = (usize::from(first >> 6), first & 63);
        let low = run << shift;
        // The part of the run in the next word. Two shifts avoid the overflow of a shift by 64.
        let high = run >> 1 >> (63 - shift);
        let next = (word + 1) & 3;
        let (new_low, new_high) = (low & !self.bits[word], high & !self.bits[next]);
        self.bits[word] |= new_low;
        self.bits[next] |= new_high;
        self.count += (new_low.count_ones() + new_high.count_ones()) as u16;
        new_low >> shift | new_high << 1 << (63 - shift)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    proptest! {
        #[test]
        fn a_set_of_units_is_a_set(
            runs in prop::collection::vec((any::<u8>(), any::<u64>()), 0..12),
        ) {
            let (mut set, mut model) = (UnitSet::default(), BTreeSet::new());
            for (first, run) in runs {
                let new = set.insert_run(first, run);
                for place in 0..64u8 {
                    let is_new = run >> place & 1 == 1 && model.insert(first.wrapping_add(place));
                    prop_assert_eq!(new >> place & 1 == 1, is_new);
                }
                prop_assert_eq!(usize::from(set.len()), model.len());
                for end in 0..=255 {
                    let all = (0..end).all(|unit| model.contains(&unit));
                    prop_assert_eq!(set.has_all_below(end), all);
                }
                prop_assert!((0..=255).all(|unit| set.contains(unit) == model.contains(&unit)));
            }
        }
    }
}
