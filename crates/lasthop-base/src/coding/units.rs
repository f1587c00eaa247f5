//! Units of a block by their numbers.

/// Which units of a block a frame carries, and what the block is. Unit `first + i` is the i-th of the
/// frame; numbers go round at 256, and a unit that has a number below `data` is a piece of the packet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CodedUnits {
    /// Data units of the block, at least 1.
    pub data: u8,
    /// Number of the first unit.
    pub first: u8,
    /// Units in the frame, at most 64.
    pub units: u8,
    /// Bytes by which the data units are longer than the packet.
    pub padding: u8,
}

impl CodedUnits {
    /// The number of the unit at `place` of the frame.
    #[inline]
    pub const fn number(&self, place: u8) -> u8 {
        self.first.wrapping_add(place)
    }

    /// A bit for each unit of the frame.
    #[inline]
    pub const fn all(&self) -> u64 {
        if self.units >= 64 { u64::MAX } else { (1 << self.units) - 1 }
    }

    /// Length of a unit of a packet of `bytes`.
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
    /// How many numbers are in the set.
    #[inline]
    pub const fn len(&self) -> u16 {
        self.count
    }

    /// Are all numbers below `end` in the set?
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

    /// Is there none?
    pub const fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Is this number in the set?
    #[inline]
    pub const fn contains(&self, number: u8) -> bool {
        self.bits[(number >> 6) as usize] >> (number & 63) & 1 == 1
    }

    /// Adds a number; false: it was in the set.
    pub fn insert(&mut self, number: u8) -> bool {
        self.insert_run(number, 1) == 1
    }

    /// Adds the numbers `first + i` for the bits i of `run`; returns the bits of those that are new.
    /// Numbers go round at 256.
    #[inline]
    pub fn insert_run(&mut self, first: u8, run: u64) -> u64 {
        let (word, shift) = (usize::from(first >> 6), first & 63);
        let low = run << shift;
        // The part of the run that lies in the next word; a shift by 64 would be an overflow.
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
