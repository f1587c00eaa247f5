//! Storage of one item per sequence number of a window.

use std::ops::{Index, IndexMut};

/// One item per sequence number of a sliding window, stored at the number modulo a power of two.
/// Starts small and grows with the span of the numbers in use, so that an endpoint uses little
/// memory even if its window is large.
#[derive(Clone, Debug)]
pub(super) struct Numbered<T> {
    slots: Box<[T]>,
}

impl<T: Default> Numbered<T> {
    /// Creates storage for one number.
    pub fn new() -> Self {
        Numbered { slots: [T::default()].into() }
    }

    /// Makes room for `number`. Items from `first` onwards are kept, earlier ones are not.
    #[inline]
    pub fn reach(&mut self, first: u64, number: u64) {
        if number.saturating_sub(first) >= self.slots.len() as u64 {
            self.grow(first, number);
        }
    }

    #[cold]
    #[inline(never)]
    fn grow(&mut self, first: u64, number: u64) {
        let count = (number - first + 1).next_power_of_two();
        let mut bigger = Numbered { slots: (0..count).map(|_| T::default()).collect() };
        for kept in first..first + self.slots.len() as u64 {
            bigger[kept] = std::mem::take(&mut self[kept]);
        }
        *self = bigger;
    }
}

impl<T> Numbered<T> {
    #[inline]
    fn slot(&self, number: u64) -> usize {
        number as usize & (self.slots.len() - 1)
    }
}

impl<T> Index<u64> for Numbered<T> {
    type Output = T;

    #[inline]
    fn index(&self, number: u64) -> &T {
        &self.slots[self.slot(number)]
    }
}

impl<T> IndexMut<u64> for Numbered<T> {
    #[inline]
    fn index_mut(&mut self, number: u64) -> &mut T {
        let slot = self.slot(number);
        &mut self.slots[slot]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    proptest! {
        #[test]
        fn keeps_what_is_in_use_however_far_it_spans(
            first in 0u64..1000,
            steps in prop::collection::vec((0u64..40, 0u64..20), 1..60),
        ) {
            let (mut kept, mut model, mut first) = (Numbered::new(), BTreeMap::new(), first);
            for (value, (ahead, passed)) in (1u32..).zip(steps) {
                let number = first + ahead;
                kept.reach(first, number);
                kept[number] = value;
                model.insert(number, value);
                for (&number, &value) in &model {
                    prop_assert_eq!(kept[number], value);
                }
                first += passed;
                model = model.split_off(&first);
            }
        }
    }
}
