//! Retransmission timers of equal duration, with constant-time operations and constant memory.
//!
//! With a constant timeout, timers expire in transmission order, so a list in that order is a
//! priority queue. The list is linked through the slots of the window. Each frame has at most one
//! timer, and an acknowledgment removes it immediately, so no stale timers expire.

use lasthop_base::units::Instant;

/// End of the list.
const NONE: u16 = u16::MAX;

/// Slots in the order of their last transmission.
#[derive(Clone, Debug)]
pub struct TransmissionOrder {
    /// (previous, next) of each slot; a slot that is not in the list points to itself.
    links: Box<[(u16, u16)]>,
    head: u16,
    tail: u16,
}

impl TransmissionOrder {
    /// Creates an empty list for `slots` slots, at most 32768.
    pub fn new(slots: usize) -> Self {
        debug_assert!(slots <= 1 << 15, "slot numbers must stay clear of the end mark");
        let links = (0..slots).map(|slot| (slot as u16, slot as u16)).collect();
        TransmissionOrder { links, head: NONE, tail: NONE }
    }

    /// Returns the slots in the list, earliest transmission first.
    pub fn iter(&self) -> impl Iterator<Item = usize> {
        let next = |&slot: &usize| match self.links[slot].1 {
            NONE => None,
            next => Some(usize::from(next)),
        };
        std::iter::successors(self.first(), next)
    }

    /// Returns the slot with the earliest transmission.
    #[inline]
    pub fn first(&self) -> Option<usize> {
        (self.head != NONE).then_some(usize::from(self.head))
    }

    /// Returns the slot with the latest transmission.
    #[inline]
    pub fn last(&self) -> Option<usize> {
        (self.tail != NONE).then_some(usize::from(self.tail))
    }

    /// Returns `true` if the slot is in the list.
    #[inline]
    pub fn contains(&self, slot: usize) -> bool {
        self.links[slot] != (slot as u16, slot as u16)
    }

    /// Appends a slot that is transmitted now. It must not be in the list.
    #[inline(always)]
    pub fn push(&mut self, slot: usize) {
        let new = slot as u16;
        debug_assert_eq!(self.links[slot], (new, new), "a frame has one timer");
        self.links[slot] = (self.tail, NONE);
        match self.tail {
            NONE => self.head = new,
            tail => self.links[usize::from(tail)].1 = new,
        }
        self.tail = new;
    }

    /// Removes the slot, if it is in the list.
    #[inline]
    pub fn remove(&mut self, slot: usize) {
        let own = slot as u16;
        let (previous, next) = self.links[slot];
        if previous == own {
            return;
        }
        match previous {
            NONE => self.head = next,
            previous => self.links[usize::from(previous)].1 = next,
        }
        match next {
            NONE => self.tail = previous,
            next => self.links[usize::from(next)].0 = previous,
        }
        self.links[slot] = (own, own);
    }
}

/// `N` timers of one state machine, by index.
#[derive(Clone, Debug)]
pub struct Timers<const N: usize> {
    at: [Instant; N],
    next: Instant,
}

impl<const N: usize> Default for Timers<N> {
    fn default() -> Self {
        Timers { at: [Instant::NEVER; N], next: Instant::NEVER }
    }
}

impl<const N: usize> Timers<N> {
    /// Returns the earliest deadline, [`Instant::NEVER`] if no timer is running.
    #[inline]
    pub fn next(&self) -> Instant {
        self.next
    }

    /// Returns `true` if the timer is running.
    #[inline]
    pub fn is_set(&self, timer: usize) -> bool {
        self.at[timer] != Instant::NEVER
    }

    /// Starts or restarts the timer.
    #[inline]
    pub fn set(&mut self, timer: usize, at: Instant) {
        self.at[timer] = at;
        self.next = self.at.into_iter().min().unwrap_or(Instant::NEVER);
    }

    /// Stops the timer.
    #[inline]
    pub fn stop(&mut self, timer: usize) {
        if self.is_set(timer) {
            self.set(timer, Instant::NEVER);
        }
    }

    /// Stops the timer and returns `true` if it has expired.
    #[inline]
    pub fn take_due(&mut self, timer: usize, now: Instant) -> bool {
        let is_due = self.at[timer] <= now && self.is_set(timer);
        if is_due {
            self.stop(timer);
        }
        is_due
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn behaves_like_a_list(steps in prop::collection::vec((0usize..8, any::<bool>()), 0..60)) {
            let (mut order, mut model) = (TransmissionOrder::new(8), Vec::new());
            for (slot, send) in steps {
                order.remove(slot);
                model.retain(|&other| other != slot);
                if send {
                    order.push(slot);
                    model.push(slot);
                }
                prop_assert_eq!(order.first(), model.first().copied());
                prop_assert_eq!(order.last(), model.last().copied());
                prop_assert_eq!(order.contains(slot), send);
                prop_assert!(order.iter().eq(model.iter().copied()));
            }
        }
    }
}
