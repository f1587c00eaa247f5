//! The set of deadlines: at most one per machine.
//!
//! A flat table, scanned linearly while it is small, and a 4-ary indexed heap beyond
//! [`FLAT_LIMIT`] machines. Ties go by insertion sequence, then by machine.

use crate::units::Instant;

/// A machine that may have a deadline.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MachineId(u32);

impl MachineId {
    /// The machine at this place of the table.
    pub const fn new(index: usize) -> Self {
        MachineId(index as u32)
    }

    /// Its place in the table.
    #[inline]
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

/// When something is due, and its ticket, by which ties go.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Due {
    at: Instant,
    ticket: u64,
}

impl Due {
    /// Nothing is due.
    pub const NEVER: Due = Due { at: Instant::NEVER, ticket: u64::MAX };

    /// At `at`, after all of smaller tickets.
    #[inline]
    pub const fn new(at: Instant, ticket: u64) -> Self {
        Due { at, ticket }
    }

    /// When.
    #[inline]
    pub const fn at(self) -> Instant {
        self.at
    }

    /// One number to compare: one subtraction with borrow instead of two comparisons.
    #[inline]
    fn key(self) -> u128 {
        u128::from(self.at.as_nanos()) << 64 | u128::from(self.ticket)
    }
}

impl PartialOrd for Due {
    #[inline]
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }

    #[inline]
    fn lt(&self, other: &Self) -> bool {
        self.key() < other.key()
    }
}

impl Ord for Due {
    #[inline]
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.key().cmp(&other.key())
    }
}

/// Machines up to which a linear scan beats a heap.
pub const FLAT_LIMIT: usize = 48;

/// Deadlines of the flat table that are compared in a knock-out round.
const BLOCK: usize = 4;

const ABSENT: u32 = u32::MAX;

/// Deadlines by machine index.
#[derive(Clone, Debug, Default)]
pub struct Deadlines {
    /// By machine; of the flat table a whole number of [`BLOCK`]s.
    dues: Vec<Due>,
    inserted: u64,
    /// Heap of machine indices, and where each machine stands in it; used beyond the limit.
    heap: Vec<u32>,
    places: Vec<u32>,
}

impl Deadlines {
    /// `machines` machines without deadlines.
    pub fn new(machines: usize) -> Self {
        let heaped = if machines > FLAT_LIMIT { machines } else { 0 };
        Deadlines {
            dues: vec![Due::NEVER; machines.next_multiple_of(BLOCK)],
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
    pub fn set(&mut self, machine: MachineId, at: Instant) {
        if self.dues[machine.index()].at != at {
            let ticket = self.ticket();
            self.put(machine, Due::new(at, ticket));
        }
    }

    /// Machine `last`, the last one, will never have a deadline again.
    pub fn forget(&mut self, last: MachineId) {
        self.set(last, Instant::NEVER);
        if self.places.is_empty() {
            self.dues.truncate(last.index().next_multiple_of(BLOCK));
        }
    }

    /// Sets a machine's deadline with the sequence number of an earlier [`Self::ticket`].
    #[inline]
    pub fn put(&mut self, machine: MachineId, due: Due) {
        self.dues[machine.index()] = due;
        if !self.places.is_empty() {
            self.reheap(machine.0);
        }
    }

    /// The earliest deadline and its machine; [`Instant::NEVER`] if there is none.
    #[inline]
    pub fn first(&self) -> (Instant, MachineId) {
        if !self.places.is_empty() {
            return self.heap.first().map_or((Instant::NEVER, MachineId(0)), |&top| {
                (self.dues[top as usize].at, MachineId(top))
            });
        }
        // Conditional moves: which machine is next cannot be predicted.
        let (mut first, mut machine) = (Due::NEVER, 0);
        let (blocks, _) = self.dues.as_chunks::<BLOCK>();
        for (number, block) in blocks.iter().enumerate() {
            let low = usize::from(block[1] < block[0]);
            let high = 2 + usize::from(block[3] < block[2]);
            let place = if block[high] < block[low] { high } else { low };
            let is_earlier = block[place] < first;
            machine = if is_earlier { number * BLOCK + place } else { machine };
            first = if is_earlier { block[place] } else { first };
        }
        (first.at, MachineId::new(machine))
    }

    fn key(&self, machine: u32) -> (Due, u32) {
        (self.dues[machine as usize], machine)
    }

    fn reheap(&mut self, machine: u32) {
        let place = self.places[machine as usize];
        let absent = self.dues[machine as usize].at == Instant::NEVER;
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
            self.seat(place, self.heap[parent]);
            place = parent;
        }
        self.seat(place, machine);
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
            self.seat(place, self.heap[least]);
            place = least;
        }
        self.seat(place, machine);
    }

    fn seat(&mut self, place: usize, machine: u32) {
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
                deadlines.set(MachineId::new(machine), at.map_or(Instant::NEVER, Instant::from_nanos));
                let first = model
                    .iter()
                    .enumerate()
                    .filter_map(|(machine, entry)| entry.map(|(at, order)| (at, order, machine)))
                    .min();
                match first {
                    Some((at, _, machine)) => {
                        prop_assert_eq!(deadlines.first(), (Instant::from_nanos(at), MachineId::new(machine)));
                    }
                    None => prop_assert_eq!(deadlines.first().0, Instant::NEVER),
                }
            }
        }
    }
}
