//! A set of sequence numbers within one window, as a ring of bits.

/// A set of sequence numbers of a window. Each number has one bit, at the number modulo the size of
/// the ring.
#[derive(Clone, Debug)]
pub struct NumberSet {
    words: Box<[u64]>,
    len: u64,
}

impl NumberSet {
    /// Creates an empty set for numbers that differ by less than `span`.
    pub fn new(span: u64) -> Self {
        // At least 256 bits: reads of up to 128 bits, not aligned to words, must not wrap around.
        let bits = span.next_power_of_two().max(256);
        NumberSet { words: vec![0; (bits / 64) as usize].into(), len: 0 }
    }

    /// Returns the word and the bit of a number.
    #[inline]
    fn place(&self, number: u64) -> (usize, u32) {
        ((number / 64) as usize & (self.words.len() - 1), (number % 64) as u32)
    }

    /// Returns the number of elements.
    #[inline]
    pub fn len(&self) -> u64 {
        self.len
    }

    /// Returns `true` if the set is empty.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Returns `true` if the set contains `number`.
    #[inline]
    pub fn contains(&self, number: u64) -> bool {
        let (word, bit) = self.place(number);
        self.words[word] >> bit & 1 != 0
    }

    /// Adds a number. Returns `true` if it was not in the set.
    #[inline]
    pub fn insert(&mut self, number: u64) -> bool {
        let (word, bit) = self.place(number);
        let is_new = self.words[word] >> bit & 1 == 0;
        self.words[word] |= 1 << bit;
        self.len += u64::from(is_new);
        is_new
    }

    /// Removes a number. Returns `true` if it was in the set.
    #[inline]
    pub fn remove(&mut self, number: u64) -> bool {
        let (word, bit) = self.place(number);
        let was_in = self.words[word] >> bit & 1 != 0;
        self.words[word] &= !(1 << bit);
        self.len -= u64::from(was_in);
        was_in
    }

    /// Returns a bitmap of the 64 numbers starting at `from`, least significant bit first.
    #[inline]
    pub fn look(&self, from: u64) -> u64 {
        let (word, bit) = self.place(from);
        let low = self.words[word] >> bit;
        match bit {
            0 => low,
            _ => low | self.words[(word + 1) & (self.words.len() - 1)] << (64 - bit),
        }
    }

    /// Removes all numbers from `from` to `end` (exclusive).
    #[inline]
    pub fn remove_range(&mut self, from: u64, end: u64) {
        if self.len == 0 {
            return;
        }
        let mut number = from;
        while number < end {
            let (word, bit) = self.place(number);
            let count = (end - number).min(u64::from(64 - bit));
            let mask = low_bits(count) << bit;
            self.len -= u64::from((self.words[word] & mask).count_ones());
            self.words[word] &= !mask;
            number += count;
        }
    }

    /// Returns the lowest number in the set from `from` to `end` (exclusive).
    #[inline]
    pub fn first(&self, from: u64, end: u64) -> Option<u64> {
        first_set(from, end, |number| self.look(number))
    }

    /// Returns the lowest number not in the set from `from` to `end` (exclusive).
    #[inline]
    pub fn first_absent(&self, from: u64, end: u64) -> Option<u64> {
        first_set(from, end, |number| !self.look(number))
    }
}

/// Returns the lowest number from `from` to `end` (exclusive) whose bit is set.
#[inline]
fn first_set(from: u64, end: u64, look: impl Fn(u64) -> u64) -> Option<u64> {
    let mut number = from;
    while number < end {
        let bits = look(number);
        if bits != 0 {
            let found = number + u64::from(bits.trailing_zeros());
            return (found < end).then_some(found);
        }
        number += 64;
    }
    None
}

/// Returns a word with the `count` lowest bits set, at most all 64.
#[inline]
pub(super) fn low_bits(count: u64) -> u64 {
    if count >= 64 { u64::MAX } else { (1 << count) - 1 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    proptest! {
        #[test]
        fn behaves_like_a_set(
            base in 0u64..10_000,
            steps in prop::collection::vec((0u64..256, 0u64..256, 0u8..3), 0..80),
        ) {
            let (mut set, mut model) = (NumberSet::new(200), BTreeSet::new());
            for (a, b, what) in steps {
                let (number, end) = (base + a, base + b);
                match what {
                    0 => prop_assert_eq!(set.insert(number), model.insert(number)),
                    1 => prop_assert_eq!(set.remove(number), model.remove(&number)),
                    _ => {
                        set.remove_range(number, end);
                        model.retain(|other| !(number..end.max(number)).contains(other));
                    }
                }
                prop_assert_eq!(set.len(), model.len() as u64);
                prop_assert_eq!(set.contains(end), model.contains(&end));
                let range = || number..end.max(number);
                prop_assert_eq!(set.first(number, end), model.range(range()).next().copied());
                let absent = range().find(|other| !model.contains(other));
                prop_assert_eq!(set.first_absent(number, end), absent);
                let looked = (0..64).filter(|bit| set.look(base) >> bit & 1 != 0);
                let expected = (0..64).filter(|bit| model.contains(&(base + bit)));
                prop_assert!(looked.eq(expected));
            }
        }
    }
}
