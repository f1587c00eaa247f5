//! Timers of all state machines, at most one per machine.
//!
//! Frequent timers (arrivals, links, radios) are kept in a flat array that is scanned for every
//! event. Rare timers (retransmission, delayed ACK) are usually rescheduled before they expire.
//! Only a lower bound of their deadlines is maintained; they are scanned when the clock reaches it.
//! Above [`FLAT_LIMIT`] frequent timers, the flat array contains none of them, or
//! [the first three](Deadlines::keeping_first). More than [`FLAT_LIMIT`] timers outside the flat
//! array are kept in time slots if they expire in the near future (`near`).
//!
//! Ties are broken by insertion order, then by machine index. The flat array is scanned by time
//! alone, and scanned again by insertion order if two timers expire at the same time.
//!
//! A deadline in a slot that is deferred is not updated immediately, but when its former value
//! becomes the earliest one.

use super::near::NearDeadlines;
use lasthop_base::units::Instant;

/// A machine that may have a deadline.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MachineId(u32);

impl MachineId {
    /// The machine at this place of the table.
    pub const fn new(index: usize) -> Self {
        MachineId(index as u32)
    }

    /// Returns its index in the table.
    #[inline]
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

/// A deadline, and the ticket that breaks ties.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Due {
    at: Instant,
    ticket: u64,
}

impl Due {
    /// No deadline.
    pub const NEVER: Due = Due { at: Instant::NEVER, ticket: u64::MAX };

    /// A deadline after all others up to and including `at`.
    #[inline]
    pub const fn after(at: Instant) -> Self {
        Due { at, ticket: u64::MAX }
    }

    /// A deadline at `at`, after those at the same time with smaller tickets.
    #[inline]
    pub const fn new(at: Instant, ticket: u64) -> Self {
        Due { at, ticket }
    }

    /// Time of the deadline.
    #[inline]
    pub const fn at(self) -> Instant {
        self.at
    }

    /// Ticket of the deadline.
    #[inline]
    pub const fn ticket(self) -> u64 {
        self.ticket
    }

    /// A single number for comparison: one subtraction with borrow instead of two comparisons.
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

/// Maximum number of machines for which a linear scan is faster than time slots.
pub const FLAT_LIMIT: usize = 16;

/// Number of places in the flat array that are scanned without a counter, and number of
/// timers that may be kept in it if there are more than [`FLAT_LIMIT`] frequent ones.
const FEW: usize = 3;

/// Upper limit of the bound. It is earlier than [`Due::NEVER`], so that machines without deadlines
/// do not tie with it.
const LATEST: Due = Due::after(Instant::from_nanos(u64::MAX - 1));

/// Deadlines by machine index.
#[derive(Clone, Debug)]
pub struct Deadlines {
    /// Deadlines of the first `ahead` machines, which are scanned for every event: all frequent
    /// ones if these are at most [`FLAT_LIMIT`], otherwise none or the first [`FEW`].
    flat: [Due; FLAT_LIMIT],
    ahead: usize,
    /// Lower bound of the deadlines of all other machines; arbitrary if `ahead` is 0.
    bound: Due,
    inserted: u64,
    /// Deadlines by machine; the entries of machines in `flat` are unused.
    deadlines: Vec<Due>,
    /// With more than [`FLAT_LIMIT`] other machines: their deadlines, or earlier ones that have
    /// been deferred since.
    near: Option<NearDeadlines>,
}

impl Deadlines {
    /// Creates the table of `frequent` machines with frequent timers, followed by `rare` machines
    /// with rare timers. None has a deadline.
    pub fn new(frequent: usize, rare: usize) -> Self {
        Self::keeping_first(false, frequent, rare)
    }

    /// Like [`Self::new`]. `is_first_busy`: the first frequent timer changes several times with every
    /// packet, so that the first three remain in the flat array in any case.
    pub fn keeping_first(is_first_busy: bool, frequent: usize, rare: usize) -> Self {
        let ahead = match (frequent > FLAT_LIMIT, is_first_busy) {
            (false, _) => frequent,
            (true, false) => 0,
            (true, true) => FEW,
        };
        let machines = frequent + rare;
        let behind = machines - ahead;
        Deadlines {
            flat: [Due::NEVER; FLAT_LIMIT],
            ahead,
            bound: LATEST,
            // Tickets are larger than all machine indices: see `put_first`.
            inserted: u64::from(u32::MAX),
            deadlines: vec![Due::NEVER; machines],
            near: (behind > FLAT_LIMIT).then(|| NearDeadlines::new(behind)),
        }
    }

    /// Returns the next insertion sequence number, for entries that wait elsewhere (in a link's
    /// ring) until they become a deadline.
    #[inline]
    pub fn ticket(&mut self) -> u64 {
        self.inserted += 1;
        self.inserted
    }

    /// Returns the ticket issued last.
    #[inline(always)]
    pub(super) fn issued(&self) -> u64 {
        self.inserted
    }

    /// Issues tickets after `ticket` from now on.
    #[inline(always)]
    pub(super) fn issue_after(&mut self, ticket: u64) {
        self.inserted = ticket;
    }

    /// Sets a machine's deadline, inserted now; [`Instant::NEVER`] removes it. An unchanged
    /// deadline keeps its ticket.
    #[inline]
    pub fn set(&mut self, machine: MachineId, at: Instant) {
        if self.due_of(machine).at != at {
            let ticket = self.ticket();
            self.put(machine, Due::new(at, ticket));
        }
    }

    /// Like [`Self::set`], for a machine with a rare timer.
    #[inline(always)]
    pub fn set_rare(&mut self, machine: MachineId, at: Instant) {
        debug_assert!(machine.index() >= self.ahead, "the timer is not frequent");
        let known = &mut self.deadlines[machine.index()];
        if known.at != at {
            let is_deferred = at > known.at;
            self.inserted += 1;
            *known = Due::new(at, self.inserted);
            if !is_deferred {
                self.on_advanced(machine);
            }
        }
    }

    /// Removes the machine with the largest index, which will never have a deadline again.
    pub fn forget(&mut self, last: MachineId) {
        self.set(last, Instant::NEVER);
        if self.near.is_none() && last.index() >= self.ahead {
            self.deadlines.truncate(last.index());
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

    /// Sets a machine's deadline at `at`, before all deadlines with a ticket at that time. Ties
    /// with others set by this function are broken by machine index.
    #[inline]
    pub fn put_first(&mut self, machine: MachineId, at: Instant) {
        self.put(machine, Due::new(at, u64::from(machine.0)));
    }

    /// Sets the deadline of a machine outside `flat`. The bound and the slots are updated only if
    /// the deadline is earlier than the former one.
    #[inline]
    fn put_behind(&mut self, machine: MachineId, due: Due) {
        let known = std::mem::replace(&mut self.deadlines[machine.index()], due);
        if due < known {
            self.on_advanced(machine);
        }
    }

    /// Updates bound and slots after the deadline of a machine outside `flat` has become earlier.
    #[inline]
    fn on_advanced(&mut self, machine: MachineId) {
        let due = self.deadlines[machine.index()];
        if due < self.bound {
            self.bound = due;
        }
        if self.near.is_some() {
            self.advance_near(machine, due);
        }
    }

    #[inline(never)]
    fn advance_near(&mut self, machine: MachineId, due: Due) {
        if let Some(near) = &mut self.near {
            near.advance(machine.index() - self.ahead, due);
        }
    }

    /// Returns the deadline of the only machine with a frequent timer if it precedes all others.
    /// `None` if they must be searched.
    #[inline(always)]
    pub fn first_of_one(&self) -> Option<Due> {
        let due = self.flat[0];
        (self.ahead == 1 && due.at < self.bound.at).then_some(due)
    }

    /// Returns the earliest deadline and its machine; [`Due::NEVER`] if no machine has one.
    #[inline]
    pub fn first(&mut self) -> (Due, MachineId) {
        match self.first_of_flat() {
            Some(found) => found,
            None => self.first_of_all(),
        }
    }

    /// Like [`Self::first`], if the earliest deadline is in `flat` and no other has the same time;
    /// otherwise `None`.
    #[inline(always)]
    pub(super) fn first_of_flat(&self) -> Option<(Due, MachineId)> {
        let (mut at, mut machine) = (self.bound.at, FLAT_LIMIT);
        let (few, others) = self.flat.split_at(FEW);
        // Unused places never expire, so that the first loop has a fixed length.
        for (number, due) in few.iter().enumerate() {
            // A branch, not a conditional move: the processor predicts it and continues.
            if due.at <= at {
                if due.at == at {
                    return None;
                }
                (at, machine) = (due.at, number);
            }
        }
        if self.ahead > FEW {
            for (number, due) in (FEW..self.ahead).zip(others) {
                if due.at <= at {
                    if due.at == at {
                        return None;
                    }
                    (at, machine) = (due.at, number);
                }
            }
        }
        let first = self.flat.get(machine)?;
        Some((Due::new(at, first.ticket), MachineId::new(machine)))
    }

    /// Returns the machine whose deadline follows that of `machine` in the time slots; `None` if one
    /// of them is in no slot. Deadlines that have been deferred count at their former time.
    #[inline]
    pub(super) fn following(&self, machine: MachineId) -> Option<MachineId> {
        let leaf = machine.index().checked_sub(self.ahead)?;
        Some(MachineId::new(self.ahead + self.near.as_ref()?.following(leaf)?))
    }

    /// Returns the deadline of a machine.
    #[inline]
    fn due_of(&self, machine: MachineId) -> Due {
        match machine.index() {
            place if place < self.ahead => self.flat[place % FLAT_LIMIT],
            // The table is empty if there are no machines.
            place => self.deadlines.get(place).copied().unwrap_or(Due::NEVER),
        }
    }

    /// Returns the earliest deadline and its machine if the clock has reached the bound, or if
    /// tickets must be compared.
    #[inline(always)]
    pub(super) fn first_of_all(&mut self) -> (Due, MachineId) {
        if self.ahead == 0 {
            // The scan of the flat array then ends at its first place.
            self.bound = Due::NEVER;
            return self.first_behind(Instant::NEVER);
        }
        // Unused places never expire.
        let (few, others) = self.flat.split_at(FEW);
        let mut limit = few.iter().fold(Instant::NEVER, |first, due| first.min(due.at));
        if self.ahead > FEW {
            limit = others.iter().fold(limit, |first, due| first.min(due.at));
        }
        let behind = self.first_behind(limit);
        self.bound = behind.0.min(LATEST);
        if behind.0.at < limit {
            return behind;
        }
        let scanned = earliest_of(&self.flat[..self.ahead], 0);
        if scanned.0 < behind.0 { scanned } else { behind }
    }

    /// Returns the time of the earliest deadline, from a scan of all deadlines.
    pub fn next(&self) -> Instant {
        self.flat.iter().chain(&self.deadlines).map(|due| due.at).min().unwrap_or(Instant::NEVER)
    }

    /// Returns the earliest deadline of the machines outside `flat`. Deferred deadlines that have
    /// become the first one in the slots are updated until it is current. The slots are filled
    /// again if they are crowded, or if they are empty and the deadline is not after `limit`.
    #[inline(always)]
    fn first_behind(&mut self, limit: Instant) -> (Due, MachineId) {
        let deadlines = self.deadlines.get(self.ahead..).unwrap_or_default();
        if let Some(near) = &mut self.near {
            while let Some((known, leaf)) = near.first() {
                let due = deadlines[leaf];
                if due == known {
                    if near.is_crowded() {
                        near.refill(due.at, deadlines);
                    }
                    return (due, MachineId::new(self.ahead + leaf));
                }
                near.defer_first(leaf, due);
            }
        }
        let found = earliest_of(deadlines, self.ahead);
        if let Some(near) = &mut self.near
            && found.0.at <= limit
            && found.0.at != Instant::NEVER
        {
            near.refill(found.0.at, deadlines);
        }
        found
    }
}

/// Returns the earliest of `deadlines`, the deadlines of consecutive machines starting with
/// `machine`.
fn earliest_of(deadlines: &[Due], machine: usize) -> (Due, MachineId) {
    let (mut first, mut number) = (Due::NEVER, 0);
    for (place, &due) in deadlines.iter().enumerate() {
        // Most are later; tickets are compared only at equal times.
        if due.at <= first.at && due < first {
            (first, number) = (due, place);
        }
    }
    (first, MachineId::new(machine + number))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Table and slots agree with a linear search, including ties, for any changes between two
        /// queries.
        #[test]
        fn earliest_first(
            frequent in prop_oneof![0usize..FLAT_LIMIT, FLAT_LIMIT + 1..100],
            rare in prop_oneof![1usize..FLAT_LIMIT, FLAT_LIMIT + 1..100],
            is_first_busy in any::<bool>(),
            moves in prop::collection::vec(
                (any::<prop::sample::Index>(), prop::option::of(0u64..20), any::<bool>(), any::<bool>()),
                1..300,
            ),
        ) {
            let machines = frequent + rare;
            let mut deadlines = Deadlines::keeping_first(is_first_busy, frequent, rare);
            let mut model = vec![None; machines];
            let mut inserted = 0;
            for (machine, at, has_ticket, queries) in moves {
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
                if !queries {
                    continue;
                }
                let first = model
                    .iter()
                    .enumerate()
                    .filter_map(|(machine, entry)| entry.map(|(at, order)| (at, order, machine)))
                    .min();
                let at = first.map_or(Instant::NEVER, |(at, ..)| Instant::from_nanos(at));
                prop_assert_eq!(deadlines.next(), at);
                let only = deadlines.first_of_one();
                let found = deadlines.first();
                prop_assert!(only.is_none_or(|only| frequent == 1 && (only, MachineId::new(0)) == found));
                prop_assert_eq!(found.0.at, at);
                if let Some((.., machine)) = first {
                    prop_assert_eq!(found.1, MachineId::new(machine));
                }
            }
        }
    }
}
