//! The set of deadlines: at most one per machine.
//!
//! *Brisk* machines move their deadline with every packet: arrivals, lines, radios. While there are a handful, they
//! stand in a flat table, which each look scans. *Patient* ones are timers, which are put off again and again and seldom fire. Of all
//! of them one lower bound is known: the earliest that was set since they were last looked at. They are looked at only when the clock
//! comes to it, in a table of their own while there are a handful. More machines of either kind stand in a
//! tree (`tournament`). Ties go by insertion sequence, then by machine; the flat table is scanned by time alone,
//! and again where two are due at the same time.
//!
//! The tree need not know of a deadline that is put off until the one before it has come to the top.

use super::tournament::Tournament;
use lasthop_base::units::Instant;

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

    /// After all that is due by `at`.
    #[inline]
    pub const fn after(at: Instant) -> Self {
        Due { at, ticket: u64::MAX }
    }

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

    /// Its ticket.
    #[inline]
    pub const fn ticket(self) -> u64 {
        self.ticket
    }

    /// One number to compare: one subtraction with borrow instead of two comparisons.
    #[inline]
    pub(super) fn key(self) -> u128 {
        u128::from(self.at.as_nanos()) << 64 | u128::from(self.ticket)
    }

    /// What has this [`key`](Self::key).
    #[inline]
    pub(super) fn of_key(key: u128) -> Self {
        Due { at: Instant::from_nanos((key >> 64) as u64), ticket: key as u64 }
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

/// Machines up to which a linear scan beats a tree.
pub const FLAT_LIMIT: usize = 16;

/// What the bound is at most. It comes before [`Due::NEVER`], so that machines without deadline are no tie with it.
const LATEST: Due = Due::after(Instant::from_nanos(u64::MAX - 1));

/// Deadlines by machine index.
#[derive(Clone, Debug)]
pub struct Deadlines {
    /// Of the first `ahead` machines, which each look scans: the brisk ones, while they are a handful.
    flat: [Due; FLAT_LIMIT],
    ahead: usize,
    /// None of the others is due before this.
    bound: Due,
    inserted: u64,
    /// By machine; those of `flat` have an unused place.
    dues: Vec<Due>,
    /// The others, beyond the limit: the deadline of each, or an earlier one that it had before.
    tree: Option<Tournament>,
}

impl Deadlines {
    /// Machines without deadlines: `brisk` ones, and after them `patient` ones.
    pub fn new(brisk: usize, patient: usize) -> Self {
        let ahead = if brisk > FLAT_LIMIT { 0 } else { brisk };
        let machines = brisk + patient;
        let behind = machines - ahead;
        Deadlines {
            flat: [Due::NEVER; FLAT_LIMIT],
            ahead,
            bound: LATEST,
            // Every number is larger than that of a machine: see `put_first`.
            inserted: u64::from(u32::MAX),
            dues: vec![Due::NEVER; machines],
            tree: (behind > FLAT_LIMIT).then(|| Tournament::new(behind)),
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
        if self.due_of(machine).at != at {
            let ticket = self.ticket();
            self.put(machine, Due::new(at, ticket));
        }
    }

    /// Machine `last`, the last one, will never have a deadline again.
    pub fn forget(&mut self, last: MachineId) {
        self.set(last, Instant::NEVER);
        if self.tree.is_none() && last.index() >= self.ahead {
            self.dues.truncate(last.index());
        }
    }

    /// Sets a machine's deadline with the sequence number of an earlier [`Self::ticket`].
    #[inline(always)]
    pub fn put(&mut self, machine: MachineId, due: Due) {
        if machine.index() < self.ahead {
            self.flat[machine.index() % FLAT_LIMIT] = due;
        } else {
            self.put_behind(machine, due);
        }
    }

    /// The same of what goes before everything that has a ticket, and else by machine.
    #[inline]
    pub fn put_first(&mut self, machine: MachineId, at: Instant) {
        self.put(machine, Due::new(at, u64::from(machine.0)));
    }

    /// The bound follows a machine that is due before it, and so does the tree; one that is put off can wait.
    #[inline]
    fn put_behind(&mut self, machine: MachineId, due: Due) {
        self.dues[machine.index()] = due;
        if due < self.bound {
            self.bound = due;
        }
        if self.tree.is_some() {
            self.put_in_tree(machine, due);
        }
    }

    #[inline(never)]
    fn put_in_tree(&mut self, machine: MachineId, due: Due) {
        let tree = self.tree.as_mut().expect("asked for where there is one");
        let leaf = machine.index() - self.ahead;
        if due < tree.due_of(leaf) {
            tree.advance(leaf, due);
        }
    }

    /// The earliest deadline and its machine; at [`Instant::NEVER`] if there is none.
    #[inline]
    pub fn first(&mut self) -> (Due, MachineId) {
        match self.first_of_flat() {
            Some(found) => found,
            None => {
                let machine = self.first_of_all();
                (self.due_of(machine), machine)
            }
        }
    }

    /// The same, if it is one of the flat table and alone at its time.
    #[inline(always)]
    fn first_of_flat(&self) -> Option<(Due, MachineId)> {
        let (mut at, mut machine) = (self.bound.at, FLAT_LIMIT);
        for (number, due) in self.flat.iter().enumerate().take(self.ahead) {
            // A jump, not a choice between two values: the processor goes on with what it expects to be next.
            if due.at <= at {
                if due.at == at {
                    return None;
                }
                (at, machine) = (due.at, number);
            }
        }
        let first = self.flat.get(machine)?;
        Some((Due::new(at, first.ticket), MachineId::new(machine)))
    }

    /// The deadline of a machine.
    #[inline]
    fn due_of(&self, machine: MachineId) -> Due {
        match machine.index() {
            place if place < self.ahead => self.flat[place % FLAT_LIMIT],
            // None without machines.
            place => self.dues.get(place).copied().unwrap_or(Due::NEVER),
        }
    }

    /// The machine of the earliest deadline, where the clock comes to the bound, or tickets decide.
    #[inline(never)]
    fn first_of_all(&mut self) -> MachineId {
        let scanned = earliest_of(self.flat[..self.ahead].iter(), 0);
        if scanned.0 < self.bound {
            return scanned.1;
        }
        let behind = if self.tree.is_some() {
            self.first_of_tree()
        } else {
            earliest_of(self.dues.iter().skip(self.ahead), self.ahead)
        };
        self.bound = behind.0.min(LATEST);
        if scanned.0 < behind.0 { scanned.1 } else { behind.1 }
    }

    /// When the earliest deadline is, found by looking at all.
    pub fn next(&self) -> Instant {
        self.flat.iter().chain(&self.dues).map(|due| due.at).min().unwrap_or(Instant::NEVER)
    }

    /// The tree hears of what has been put off until its first one is as early as it says.
    fn first_of_tree(&mut self) -> (Due, MachineId) {
        let tree = self.tree.as_mut().expect("asked for where there is one");
        loop {
            let (known, leaf) = tree.first();
            let machine = self.ahead + leaf;
            let due = self.dues[machine];
            if due == known {
                return (due, MachineId::new(machine));
            }
            tree.replace_first(due);
        }
    }
}

/// The earliest of the deadlines of machines with successive numbers from `machine` on.
fn earliest_of<'a>(dues: impl Iterator<Item = &'a Due>, machine: usize) -> (Due, MachineId) {
    let numbered = dues.zip(machine..).map(|(&due, number)| (due, MachineId::new(number)));
    // Of equal ones, all of which are never due, the first.
    numbered.min_by_key(|&(due, _)| due).unwrap_or((Due::NEVER, MachineId::new(machine)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Table and tree agree with a plain search, ties included, whatever happens between two looks.
        #[test]
        fn earliest_first(
            brisk in prop_oneof![0usize..FLAT_LIMIT, FLAT_LIMIT + 1..100],
            patient in prop_oneof![1usize..FLAT_LIMIT, FLAT_LIMIT + 1..100],
            moves in prop::collection::vec(
                (any::<prop::sample::Index>(), prop::option::of(0u64..20), any::<bool>(), any::<bool>()),
                1..300,
            ),
        ) {
            let machines = brisk + patient;
            let mut deadlines = Deadlines::new(brisk, patient);
            let mut model = vec![None; machines];
            let mut inserted = 0;
            for (machine, at, has_ticket, looks) in moves {
                let machine = machine.index(machines);
                let id = MachineId::new(machine);
                match at {
                    Some(at) if !has_ticket => {
                        model[machine] = Some((at, 0));
                        deadlines.put_first(id, Instant::from_nanos(at));
                    }
                    _ => {
                        if model[machine].map(|(at, _)| at) != at {
                            inserted += 1;
                            model[machine] = at.map(|at| (at, inserted));
                        }
                        deadlines.set(id, at.map_or(Instant::NEVER, Instant::from_nanos));
                    }
                }
                if !looks {
                    continue;
                }
                let first = model
                    .iter()
                    .enumerate()
                    .filter_map(|(machine, entry)| entry.map(|(at, order)| (at, order, machine)))
                    .min();
                let at = first.map_or(Instant::NEVER, |(at, ..)| Instant::from_nanos(at));
                prop_assert_eq!(deadlines.next(), at);
                let found = deadlines.first();
                prop_assert_eq!(found.0.at, at);
                if let Some((.., machine)) = first {
                    prop_assert_eq!(found.1, MachineId::new(machine));
                }
            }
        }
    }
}
