//! What an endpoint keeps of each number of its window.

use std::ops::{Index, IndexMut};

/// An item for each number of a window that moves on, at its number modulo a power of two. It begins
/// small and grows with the span of the numbers in use, so that an end takes little memory however large its
/// window may become.
#[derive(Clone, Debug)]
pub(super) struct Numbered<T> {
    slots: Box<[T]>,
}

impl<T: Default> Numbered<T> {
    /// Room for one number.
    pub fn new() -> Self {
        Numbered { slots: [T::default()].into() }
    }

    /// Makes room for `number`, while items from `first` on are kept; none is needed before that.
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
