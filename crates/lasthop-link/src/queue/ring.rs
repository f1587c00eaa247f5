//! A growable ring buffer for the hot path.
//!
//! Unlike `VecDeque`, its capacity is a power of two, so that an index is computed with one mask,
//! and slots are accessed without iterators.

/// A FIFO of items; it grows when full and never shrinks.
#[derive(Clone, Debug)]
pub struct Ring<T> {
    slots: Box<[T]>,
    /// Numbers of items ever removed and ever added; they wrap around.
    head: usize,
    tail: usize,
}

impl<T: Default> Ring<T> {
    /// An empty ring with room for `capacity` items, rounded up to a power of two.
    pub fn with_capacity(capacity: usize) -> Self {
        let slots = (0..capacity.next_power_of_two()).map(|_| T::default()).collect();
        Ring { slots, head: 0, tail: 0 }
    }

    #[inline]
    fn slot(&self, count: usize) -> usize {
        count & (self.slots.len() - 1)
    }

    /// Number of items.
    #[inline]
    pub fn len(&self) -> usize {
        self.tail.wrapping_sub(self.head)
    }

    /// Whether there are no items.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.head == self.tail
    }

    /// Whether the next item requires a larger ring.
    #[inline]
    pub fn is_full(&self) -> bool {
        self.len() == self.slots.len()
    }

    /// Grows the ring if at least half of its slots are in use, so that it is not soon full again.
    pub fn grow_if_half_full(&mut self) {
        if 2 * self.len() >= self.slots.len() {
            self.grow();
        }
    }

    /// Removes all items. The next ones reuse the first slots, which are likely to be cached.
    #[inline]
    pub fn clear(&mut self) {
        (self.head, self.tail) = (0, 0);
    }

    /// Adds `item` as the last one.
    #[inline]
    pub fn push(&mut self, item: T) {
        *self.push_slot() = item;
    }

    /// Adds an item and returns its slot, to be filled in place. The slot still holds an old value.
    #[inline(always)]
    pub fn push_slot(&mut self) -> &mut T {
        if self.is_full() {
            self.grow();
        }
        let slot = self.slot(self.tail);
        self.tail = self.tail.wrapping_add(1);
        &mut self.slots[slot]
    }

    /// Returns the slot of the next item without adding it; [`Self::push_next`] adds it.
    #[inline(always)]
    pub fn next_slot(&mut self) -> &mut T {
        if self.is_full() {
            self.grow();
        }
        let slot = self.slot(self.tail);
        &mut self.slots[slot]
    }

    /// Adds the item in [`Self::next_slot`].
    #[inline(always)]
    pub fn push_next(&mut self) {
        debug_assert!(self.len() < self.slots.len(), "a free slot is required");
        self.tail = self.tail.wrapping_add(1);
    }

    /// Removes the first item.
    #[inline]
    pub fn pop(&mut self) -> Option<T>
    where
        T: Copy,
    {
        let item = *self.front()?;
        self.head = self.head.wrapping_add(1);
        Some(item)
    }

    /// Removes the first item, if any.
    #[inline]
    pub fn drop_front(&mut self) {
        if !self.is_empty() {
            self.head = self.head.wrapping_add(1);
        }
    }

    /// Removes the first item and returns the next one, if any.
    #[inline(always)]
    pub fn next_front(&mut self) -> Option<&T> {
        debug_assert!(!self.is_empty(), "the ring must not be empty");
        self.head = self.head.wrapping_add(1);
        self.front()
    }

    /// The first item.
    #[inline]
    pub fn front(&self) -> Option<&T> {
        (!self.is_empty()).then(|| &self.slots[self.slot(self.head)])
    }

    /// The second item.
    #[inline]
    pub fn second(&self) -> Option<&T> {
        (self.len() > 1).then(|| &self.slots[self.slot(self.head.wrapping_add(1))])
    }

    /// The first item, mutable.
    #[inline]
    pub fn front_mut(&mut self) -> Option<&mut T> {
        let slot = self.slot(self.head);
        (self.head != self.tail).then(|| &mut self.slots[slot])
    }

    /// Removes the last item for which `is_wanted` returns `true`. Later items move forward by one.
    pub fn remove_last(&mut self, is_wanted: impl Fn(&T) -> bool) -> Option<T> {
        let place = |ring: &Self, count: usize| ring.slot(ring.head.wrapping_add(count));
        let found = (0..self.len()).rfind(|&count| is_wanted(&self.slots[place(self, count)]))?;
        for count in found + 1..self.len() {
            let (before, behind) = (place(self, count - 1), place(self, count));
            self.slots.swap(before, behind);
        }
        self.tail = self.tail.wrapping_sub(1);
        let last = self.slot(self.tail);
        Some(std::mem::take(&mut self.slots[last]))
    }

    /// The items, first to last.
    pub fn iter(&self) -> impl Iterator<Item = &T> {
        (0..self.len()).map(|index| &self.slots[self.slot(self.head.wrapping_add(index))])
    }

    #[cold]
    fn grow(&mut self) {
        let mut bigger = Ring::with_capacity(2 * self.slots.len());
        for count in 0..self.len() {
            let slot = self.slot(self.head.wrapping_add(count));
            bigger.push(std::mem::take(&mut self.slots[slot]));
        }
        *self = bigger;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::VecDeque;

    #[test]
    fn agrees_with_vec_deque_through_growth_and_wrap() {
        let mut ring = Ring::with_capacity(3);
        let mut model = VecDeque::new();
        for step in 0..1000u64 {
            if step % 7 < 4 || step > 500 && step % 7 < 5 {
                ring.push(step);
                model.push_back(step);
            } else {
                if step % 3 == 0 && !model.is_empty() {
                    model.pop_front();
                    assert_eq!(ring.next_front(), model.front());
                } else if step % 5 == 0 {
                    ring.drop_front();
                    model.pop_front();
                } else {
                    assert_eq!(ring.pop(), model.pop_front());
                }
            }
            assert_eq!((ring.len(), ring.front()), (model.len(), model.front()));
            assert_eq!(ring.second(), model.get(1));
        }
        assert!(ring.iter().eq(model.iter()));
        // Remove the last item that is divisible by 5, until no such item is left.
        let is_wanted = |item: &u64| item.is_multiple_of(5);
        while let Some(place) = model.iter().rposition(is_wanted) {
            assert_eq!(ring.remove_last(is_wanted), model.remove(place));
            assert!(ring.iter().eq(model.iter()));
        }
        assert!(ring.len() > 10 && ring.remove_last(is_wanted).is_none());
        ring.clear();
        assert!(ring.is_empty() && ring.pop().is_none());
    }
}
