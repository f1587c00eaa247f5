//! The earliest of many deadlines: a row of time slots for those of the near future.
//!
//! ```text
//!   begin                                                    end
//!     | slot 0 | slot 1 | slot 2 |  ..                 | 4095 |   later deadlines are in no slot
//! ```
//!
//! A deadline before the end of the row is in a slot, as a leaf of a sorted list. The earliest
//! deadline is the first one of the first slot in use, which two words of bits find. If no slot is
//! in use, the row is moved to the earliest of all deadlines, and all deadlines before its new end
//! are added. Later deadlines have no cost until then, however often they change.
//!
//! A slot is about as wide as the mean time between two expirations during the last row. Then it
//! usually contains at most one deadline, a row contains thousands of expirations, and the time for
//! each does not depend on the number of deadlines. If lists are long nevertheless, because
//! deadlines are close together or expire more often than in the last row, slots become narrower.
//! The order of deadlines is exact for any width. Simultaneous deadlines, which no width separates,
//! are usually added in their order: the search for the place of a deadline begins at the last one
//! added to the slot.
//!
//! Source of the idea: R. Brown, "Calendar queues: a fast O(1) priority queue implementation for
//! the simulation event set problem", Communications of the ACM 31(10), 1988. There, the row is a
//! circle for all deadlines.

use super::deadlines::Due;
use lasthop_base::units::Instant;

/// Slots per word of bits, words, and slots. One bit for each word fits into a word.
const BITS: usize = u64::BITS as usize;
const WORDS: usize = BITS;
const SLOTS: usize = WORDS * BITS;

/// Initial width of a slot: 2^6 ns.
const FIRST_WIDTH: u32 = 6;
/// Maximum width: 2^36 ns, 69 s.
const LARGEST_WIDTH: u32 = 36;

/// Mean number of deadlines at other times that an insertion passes above which slots become
/// narrower, by this many bits.
const MOST_PASSED: u64 = 4;
const NARROWER: u32 = 3;

/// Minimum number of expirations assumed for a row when their mean distance is estimated: the next
/// row is at most `SLOTS / REPRESENTATIVE` times as long.
const REPRESENTATIVE: u64 = 64;

/// A leaf that is in no slot.
const NOWHERE: u32 = u32::MAX;

/// A deadline in a slot.
#[derive(Clone, Copy, Debug)]
struct Leaf {
    due: Due,
    /// The following leaf of the slot. The first one follows the last one.
    next: u32,
    slot: u32,
}

/// Deadlines of the near future, by leaf. Leaves are numbered from 0.
#[derive(Clone, Debug)]
pub(super) struct NearDeadlines {
    leaves: Box<[Leaf]>,
    /// The last leaf of each slot in use, and the leaf that was added last between others of the
    /// slot.
    last: Box<[u32; SLOTS]>,
    recent: Box<[u32; SLOTS]>,
    /// The slots in use, and the words of `slots` in use: one bit each.
    slots: [u64; WORDS],
    words: u64,
    /// Time of the row. Slot 0 also contains deadlines before it.
    begin: u64,
    end: u64,
    /// Bits of the width of a slot in nanoseconds, and their maximum.
    width: u32,
    most_width: u32,
    /// Number of expirations in this row, and of deadlines at other times that insertions and
    /// removals have passed.
    expired: u64,
    passed: u64,
}

impl NearDeadlines {
    /// Creates an empty row for `count` leaves.
    pub fn new(count: usize) -> Self {
        let nowhere = Leaf { due: Due::NEVER, next: 0, slot: NOWHERE };
        NearDeadlines {
            leaves: vec![nowhere; count].into(),
            last: Box::new([0; SLOTS]),
            recent: Box::new([0; SLOTS]),
            slots: [0; WORDS],
            words: 0,
            begin: 0,
            end: 0,
            width: FIRST_WIDTH,
            most_width: LARGEST_WIDTH,
            expired: 0,
            passed: 0,
        }
    }

    /// Moves the deadline of a leaf forward to `due`, if it was later. Deadlines after the row are
    /// not added.
    #[inline]
    pub fn advance(&mut self, leaf: usize, due: Due) {
        if due.at().as_nanos() < self.end {
            let known = &self.leaves[leaf];
            if known.slot != NOWHERE {
                if known.due <= due {
                    return;
                }
                self.remove(leaf);
            }
            self.add(leaf, due);
        }
    }

    /// Replaces the deadline of the first leaf by a later one.
    #[inline]
    pub fn defer_first(&mut self, leaf: usize, due: Due) {
        self.expired += 1;
        let Leaf { next, slot, .. } = self.leaves[leaf];
        let slot = slot as usize % SLOTS;
        let last = self.last[slot] as usize;
        if last == leaf {
            self.clear(slot);
        } else {
            self.leaves[last].next = next;
        }
        self.leaves[leaf].slot = NOWHERE;
        if due.at().as_nanos() < self.end {
            self.add(leaf, due);
        }
    }

    /// Returns the first deadline and its leaf, unless the row is empty.
    #[inline]
    pub fn first(&self) -> Option<(Due, usize)> {
        if self.words == 0 {
            return None;
        }
        let word = self.words.trailing_zeros() as usize;
        let first = self.first_in(word * BITS + self.slots[word].trailing_zeros() as usize);
        Some((self.leaves[first].due, first))
    }

    /// Returns the leaf after `leaf`, if both are in slots.
    #[inline]
    pub fn following(&self, leaf: usize) -> Option<usize> {
        let Leaf { next, slot, .. } = self.leaves[leaf];
        if slot == NOWHERE {
            return None;
        }
        let slot = slot as usize % SLOTS;
        if self.last[slot] as usize != leaf {
            return Some(next as usize);
        }
        let (mut word, bit) = (slot / BITS, slot % BITS);
        let later = |bits: u64, bit: usize| bits & (u64::MAX - 1) << bit;
        let mut slots = later(self.slots[word], bit);
        if slots == 0 {
            let words = later(self.words, word);
            if words == 0 {
                return None;
            }
            word = words.trailing_zeros() as usize;
            slots = self.slots[word];
        }
        Some(self.first_in(word * BITS + slots.trailing_zeros() as usize))
    }

    /// Returns the first leaf of a slot in use.
    #[inline(always)]
    fn first_in(&self, slot: usize) -> usize {
        self.leaves[self.last[slot % SLOTS] as usize].next as usize
    }

    /// Returns `true` if lists have become so long that [`Self::refill`] is worth its time.
    #[inline(always)]
    pub fn is_crowded(&self) -> bool {
        self.passed > (self.expired + SLOTS as u64) * MOST_PASSED
    }

    /// Moves the row to `earliest`, the earliest of `deadlines`, and adds those before its new end.
    #[inline(never)]
    pub fn refill(&mut self, earliest: Instant, deadlines: &[Due]) {
        if self.words != 0 {
            self.leaves.iter_mut().for_each(|leaf| leaf.slot = NOWHERE);
            (self.slots, self.words) = ([0; WORDS], 0);
        }
        let begin = earliest.as_nanos();
        self.most_width = if self.passed > self.expired * MOST_PASSED {
            self.width.saturating_sub(NARROWER)
        } else {
            (self.most_width + 1).min(LARGEST_WIDTH)
        };
        let time = begin.saturating_sub(self.begin);
        if time > 0 {
            let mean = time / self.expired.max(REPRESENTATIVE);
            self.width = mean.max(1).ilog2().min(self.most_width);
        }
        (self.expired, self.passed) = (0, 0);
        self.begin = begin;
        self.end = begin.saturating_add((SLOTS as u64) << self.width);
        for (leaf, &due) in deadlines.iter().enumerate() {
            if due.at().as_nanos() < self.end {
                self.add(leaf, due);
            }
        }
    }

    /// Adds a leaf that is in no slot, with a deadline before the end of the row.
    #[inline]
    fn add(&mut self, leaf: usize, due: Due) {
        let slot = (due.at().as_nanos().saturating_sub(self.begin) >> self.width) as usize % SLOTS;
        let (word, bit) = (slot / BITS, 1 << (slot % BITS));
        let mut next = leaf;
        if self.slots[word] & bit == 0 {
            self.slots[word] |= bit;
            self.words |= 1 << word;
            self.last[slot] = leaf as u32;
        } else {
            let mut before = self.last[slot] as usize;
            next = self.leaves[before].next as usize;
            if self.leaves[before].due < due {
                self.last[slot] = leaf as u32;
            } else {
                // Simultaneous deadlines are often added in their order.
                let recent = std::mem::replace(&mut self.recent[slot], leaf as u32) as usize;
                let after = self.leaves[recent];
                if after.slot as usize == slot && after.due < due {
                    (before, next) = (recent, after.next as usize);
                }
                while self.leaves[next].due < due {
                    before = next;
                    next = self.leaves[before].next as usize;
                    // Narrower slots do not separate simultaneous deadlines.
                    self.passed += u64::from(self.leaves[before].due.at() != due.at());
                }
            }
            self.leaves[before].next = leaf as u32;
        }
        self.leaves[leaf] = Leaf { due, next: next as u32, slot: slot as u32 };
    }

    /// Removes a leaf from its slot.
    fn remove(&mut self, leaf: usize) {
        let Leaf { due, next, slot } = self.leaves[leaf];
        let slot = slot as usize % SLOTS;
        if next as usize == leaf {
            return self.clear(slot);
        }
        let mut before = self.last[slot] as usize;
        while self.leaves[before].next as usize != leaf {
            before = self.leaves[before].next as usize;
            self.passed += u64::from(self.leaves[before].due.at() != due.at());
        }
        self.leaves[before].next = next;
        if self.last[slot] as usize == leaf {
            self.last[slot] = before as u32;
        }
    }

    /// Records that a slot is empty.
    #[inline]
    fn clear(&mut self, slot: usize) {
        let word = slot / BITS;
        self.slots[word] &= !(1 << (slot % BITS));
        if self.slots[word] == 0 {
            self.words &= !(1 << word);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Deadlines and the row, used as by the table of deadlines.
    struct Table {
        deadlines: Vec<Due>,
        near: NearDeadlines,
        refills: usize,
    }

    impl Table {
        fn new(count: usize) -> Self {
            let (deadlines, near) = (vec![Due::NEVER; count], NearDeadlines::new(count));
            Table { deadlines, near, refills: 0 }
        }

        fn put(&mut self, leaf: usize, due: Due) {
            self.deadlines[leaf] = due;
            self.near.advance(leaf, due);
        }

        fn first(&mut self) -> Due {
            while let Some((due, leaf)) = self.near.first() {
                if self.deadlines[leaf] == due {
                    if self.near.is_crowded() {
                        self.refill(due);
                    }
                    return due;
                }
                self.near.defer_first(leaf, self.deadlines[leaf]);
            }
            let first = self.earliest();
            if first != Due::NEVER {
                self.refill(first);
            }
            first
        }

        fn refill(&mut self, first: Due) {
            self.refills += 1;
            self.near.refill(first.at(), &self.deadlines);
        }

        /// Returns the deadlines in the row, from the first one to the following ones.
        fn in_order(&self) -> Vec<Due> {
            let first = self.near.first().map(|(_, leaf)| leaf);
            let leaves = std::iter::successors(first, |&leaf| self.near.following(leaf));
            leaves.map(|leaf| self.near.leaves[leaf].due).collect()
        }

        /// Returns the deadlines in the row, sorted.
        fn sorted(&self) -> Vec<Due> {
            let leaves = self.near.leaves.iter().filter(|leaf| leaf.slot != NOWHERE);
            let mut deadlines: Vec<Due> = leaves.map(|leaf| leaf.due).collect();
            deadlines.sort_unstable();
            deadlines
        }

        fn earliest(&self) -> Due {
            self.deadlines.iter().min().copied().unwrap_or(Due::NEVER)
        }
    }

    /// Times that differ in any bit, and many that are equal.
    fn times() -> impl Strategy<Value = u64> {
        (0u32..63, 0u64..4).prop_map(|(shift, part)| part << shift & !(1 << 63))
    }

    /// The number of deadlines that an insertion passes does not depend on their number, although
    /// a long time without deadlines precedes them, or one deadline at a time.
    #[test]
    fn slots_become_narrower_where_deadlines_are_dense() {
        for count in [300, 3_000] {
            let mut table = Table::new(count);
            let mut random = 1u64;
            let mut passed = 0;
            let put = |table: &mut Table, leaf: usize, at: u64, ticket: u64| {
                table.put(leaf, Due::new(Instant::from_nanos(at), ticket));
            };
            // 20 expirations of one deadline, 1 s apart; then each expires every 1 to 2 ms.
            (0..20).for_each(|second: u64| {
                put(&mut table, 0, second * 1_000_000_000, second);
                table.first();
            });
            (1..count).for_each(|leaf| {
                put(&mut table, leaf, 20_000_000_000 + leaf as u64 * 100, 100 + leaf as u64);
            });
            let expirations = 20 * count as u64;
            for ticket in (count as u64 + 100..).take(expirations as usize) {
                let before = table.near.passed;
                let first = table.first();
                passed += table.near.passed.saturating_sub(before);
                let leaf = table.deadlines.iter().position(|&due| due == first);
                random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                let after = 1_000_000 + (random >> 33) % 1_000_000;
                let before = table.near.passed;
                put(&mut table, leaf.unwrap(), first.at().as_nanos() + after, ticket);
                passed += table.near.passed - before;
            }
            assert!(passed < 8 * expirations, "{count}: {passed} of {expirations}");
        }
    }

    /// The row is moved once in many expirations, although thousands of deadlines are
    /// simultaneous: those of the stations of a radio, half of which arrive every 10 ms at one of
    /// two times, while the others arrive in between.
    #[test]
    fn simultaneous_deadlines_do_not_move_the_row() {
        const COUNT: usize = 2_000;
        const ROUND: u64 = 10_000_000;
        let mut table = Table::new(COUNT);
        let at = |leaf: usize, round: u64| {
            let spread = leaf as u64 * 7_919 % ROUND;
            let offset = [0, 1_417, spread, spread][leaf % 4];
            Instant::from_nanos(round * ROUND + offset)
        };
        (0..COUNT).for_each(|leaf| table.put(leaf, Due::new(at(leaf, 0), leaf as u64)));
        for round in 1..50 {
            let mut expired = 0;
            loop {
                let first = table.first();
                if first.at() >= Instant::from_nanos(round * ROUND) {
                    break;
                }
                let leaf = first.ticket() as usize % COUNT;
                let ticket = round * COUNT as u64 + leaf as u64;
                table.put(leaf, Due::new(at(leaf, round), ticket));
                expired += 1;
            }
            assert_eq!(expired, COUNT);
        }
        let expirations = 49 * COUNT;
        assert!(table.refills * 500 < expirations, "{} of {expirations}", table.refills);
    }

    proptest! {
        /// The row agrees with a linear search, for any deadlines: equal ones, deadlines before the
        /// row, and times of any size.
        #[test]
        fn earliest_first(
            count in 1usize..100,
            steps in prop::collection::vec(
                (any::<prop::sample::Index>(), prop::option::of(times()), 0u64..30, any::<bool>()),
                1..400,
            ),
        ) {
            let mut table = Table::new(count);
            for (leaf, nanos, ticket, queries) in steps {
                // The leaf distinguishes deadlines, as tickets do in the table of deadlines.
                let leaf = leaf.index(count);
                let due = nanos.map_or(Due::NEVER, |nanos| {
                    Due::new(Instant::from_nanos(nanos), ticket << 32 | leaf as u64)
                });
                table.put(leaf, due);
                if queries {
                    prop_assert_eq!(table.first(), table.earliest());
                    prop_assert_eq!(table.in_order(), table.sorted());
                }
            }
        }

        /// Deadlines that expire in order, each of which is replaced by a later one, while others
        /// are advanced, as in a run: from dense ones, of which slots contain many, to sparse ones.
        #[test]
        fn expiring_in_order(
            count in 1usize..200,
            spread in 0u32..40,
            moves in prop::collection::vec((any::<prop::sample::Index>(), any::<u64>()), 1..2000),
        ) {
            let mut table = Table::new(count);
            let after = |now: Instant, nanos: u64| {
                Instant::from_nanos(now.as_nanos() + (nanos & ((1 << spread) - 1)))
            };
            (0..count).for_each(|leaf| table.put(leaf, Due::new(Instant::ZERO, leaf as u64)));
            for (ticket, (other, nanos)) in (count as u64..).step_by(2).zip(moves) {
                let first = table.first();
                prop_assert_eq!(first, table.earliest());
                let expired = table.deadlines.iter().position(|&due| due == first);
                let due = Due::new(after(first.at(), nanos), ticket);
                table.put(expired.expect("the first deadline is one of them"), due);
                let due = Due::new(after(first.at(), nanos.rotate_left(20)), ticket + 1);
                table.put(other.index(count), due);
            }
        }
    }
}
