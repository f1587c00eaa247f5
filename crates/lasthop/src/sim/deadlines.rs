//! The set of deadlines: at most one per machine.
//!
//! A flat table, scanned linearly while it is small, and a 4-ary indexed heap beyond
//! [`FLAT_LIMIT`] machines. Ties go by insertion sequence, then by machine.

use crate::units::Instant;

/// Machines up to which a linear scan beats a heap.
pub const FLAT_LIMIT: usize = 48;

const ABSENT: u32 = u32::MAX;
/// Deadlines by machine index.
#[derive(Clone, Debug, Default)]
pub struct Deadlines {
    /// Nanoseconds; `u64::MAX` for none.
    times: Vec<u64>,
    tickets: Vec<u64>,
    inserted: u64,
    /// Heap of machine indices, and where each machine stands in it; used beyond the limit.
    heap: Vec<u32>,
    places: Vec<u32>,
}

impl Deadlines {
    /// The index of every machine that can never have a deadline: setting it to
    /// [`Instant::NEVER`] is allowed and does nothing.
    pub const NOBODY: usize = usize::MAX;

    /// `machines` machines without deadlines.
    pub fn new(machines: usize) -> Self {
        let heaped = if machines > FLAT_LIMIT { machines } else { 0 };
        Deadlines {
            times: vec![u64::MAX; machines],
            tickets: vec![0; machines],
            inserted: 0,
            heap: Vec::with_capacity(heaped),
            places: vec![ABSENT; heaped],
        }
    }

    /// The next insertion sequence number, for entries that wait elsewhere (in a link's ring)
    /// until they become a deadline.
    #[inline]
    pub fn ticket(&mut self) -> u64 {
        self.inserted += 1;
        self.inserted
    }

    /// Sets a machine's deadline, inserted now; [`Instant::NEVER`] removes it. An unchanged
    /// deadline keeps its place.
    #[inline]
    pub fn set(&mut self, machine: usize, at: Instant) {
        let known = self.times.get(machine).copied().unwrap_or(u64::MAX);
        if known != at.as_nanos() {
            let ticket = self.ticket();
            self.set_with_ticket(machine, at, ticket);
        }
    }

    /// The last machine will never have a deadline again.
    pub fn forget_last(&mut self) {
        let last = self.times.len() - 1;
        self.set(last, Instant::NEVER);
        self.times.truncate(last);
        self.tickets.truncate(last);
    }

    /// Sets a machine's deadline with the sequence number of an earlier [`Self::ticket`].
    #[inline]
    pub fn set_with_ticket(&mut self, machine: usize, at: Instant, ticket: u64) {
        self.times[machine] = at.as_nanos();
        self.tickets[machine] = ticket;
        if !self.places.is_empty() {
            self.reheap(machine as u32);
        }
    }

    /// The earliest deadline and its machine; [`Instant::NEVER`] if there is none.
    #[inline]
    pub fn first(&self) -> (Instant, usize) {
        if !self.places.is_empty() {
            return self.heap.first().map_or((Instant::NEVER, 0), |&top| {
                (Instant::from_nanos(self.times[top as usize]), top as usize)
            });
        }
        let (mut machine, mut first) = (0, u64::MAX);
        for (candidate, &time) in self.times.iter().enumerate() {
            // Two conditional moves: which machine is next cannot be predicted.
            let is_earlier = time < first;
            machine = if is_earlier { candidate } else { machine };
            first = if is_earlier { time } else { first };
        }
        if first != u64::MAX {
            for candidate in machine + 1..self.times.len() {
                if self.times[candidate] == first && self.tickets[candidate] < self.tickets[machine]
                {
                    machine = candidate;
                }
            }
        }
        (Instant::from_nanos(first), machine)
    }

    fn key(&self, machine: u32) -> (u64, u64, u32) {
        (self.times[machine as usize], self.tickets[machine as usize], machine)
    }

    fn reheap(&mut self, machine: u32) {
        let place = self.places[machine as usize];
        let absent = self.times[machine as usize] == u64::MAX;
        let place = match (place, absent) {
            (ABSENT, true) => return,
            (ABSENT, false) => {
                self.heap.push(machine);
                self.heap.len() - 1
            }
            (place, false) => place as usize,
            (place, true) => {
                self.places[machine as usize] = ABSENT;
                let last = self.heap.len() - 1;
                let moved = self.heap[last];
                self.heap.truncate(last);
                if place as usize == last {
                    return;
                }
                self.heap[place as usize] = moved;
                place as usize
            }
        };
        let place = self.sift_up(place);
        self.sift_down(place);
    }

    fn sift_up(&mut self, mut place: usize) -> usize {
        let machine = self.heap[place];
        while place > 0 {
            let parent = (place - 1) / 4;
            if self.key(self.heap[parent]) <= self.key(machine) {
                break;
            }
            self.put(place, self.heap[parent]);
            place = parent;
        }
        self.put(place, machine);
        place
    }

    fn sift_down(&mut self, mut place: usize) {
        let machine = self.heap[place];
        loop {
            let children = 4 * place + 1..(4 * place + 5).min(self.heap.len());
            let Some(least) = children.min_by_key(|&child| self.key(self.heap[child])) else {
                break;
            };
            if self.key(machine) <= self.key(self.heap[least]) {
                break;
            }
            self.put(place, self.heap[least]);
            place = least;
        }
        self.put(place, machine);
    }

    fn put(&mut self, place: usize, machine: u32) {
        self.heap[place] = machine;
        self.places[machine as usize] = place as u32;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Table and heap agree with a plain search, ties included.
        #[test]
        fn earliest_first(
            machines in prop_oneof![1usize..FLAT_LIMIT, FLAT_LIMIT + 1..200],
            moves in prop::collection::vec((any::<prop::sample::Index>(), prop::option::of(0u64..20)), 1..300),
        ) {
            let mut deadlines = Deadlines::new(machines);
            let mut model = vec![None; machines];
            let mut inserted = 0;
            for (machine, at) in moves {
                let machine = machine.index(machines);
                if model[machine].map(|(at, _)| at) != at {
                    inserted += 1;
                    model[machine] = at.map(|at| (at, inserted));
                }
                deadlines.set(machine, at.map_or(Instant::NEVER, Instant::from_nanos));
                let first = model
                    .iter()
                    .enumerate()
                    .filter_map(|(machine, entry)| entry.map(|(at, order)| (at, order, machine)))
                    .min();
                match first {
                    Some((at, _, machine)) => {
                        prop_assert_eq!(deadlines.first(), (Instant::from_nanos(at), machine));
                    }
                    None => prop_assert_eq!(deadlines.first().0, Instant::NEVER),
                }
            }
        }
    }
}
