//! A tournament tree for the earliest of many deadlines: each node stores the earliest of its four
//! children.
//!
//! ```text
//!                     node 0
//!        1         2         3         4       the children of node k,
//!     5 6 7 8  9 ..                            4k + 1 to 4k + 4, are stored in group k
//! ```
//!
//! Machines are the leaves, in index order. When a leaf changes, the comparisons on its path to the
//! root are repeated. On each level, four adjacent deadlines are compared without data-dependent
//! branches, and no entry moves.

use super::deadlines::Due;

/// Children of a node.
const CHILDREN: usize = 4;

/// The earliest deadline below each child of a node, and its leaf.
#[derive(Clone, Copy, Debug)]
struct Group {
    deadlines: [Due; CHILDREN],
    leaves: [u32; CHILDREN],
}

/// Deadlines of leaves, which are numbered from 0.
#[derive(Clone, Debug)]
pub(super) struct Tournament {
    /// Groups by node.
    groups: Box<[Group]>,
    /// The node of leaf 0.
    first_leaf: usize,
    /// The earliest deadline and its leaf.
    top: (Due, u32),
}

impl Tournament {
    /// Creates a tree of `count` leaves, at least 2, without deadlines.
    pub fn new(count: usize) -> Self {
        debug_assert!(count > 1, "a tree has at least two leaves");
        let mut first_leaf = 0;
        while first_leaf * (CHILDREN - 1) + 1 < count {
            first_leaf = first_leaf * CHILDREN + 1;
        }
        // Below a node without deadlines, the first leaf is recorded.
        let leaf_below = |mut node: usize| {
            while node < first_leaf {
                node = node * CHILDREN + 1;
            }
            (node - first_leaf) as u32
        };
        let group = |node: usize| Group {
            deadlines: [Due::NEVER; CHILDREN],
            leaves: std::array::from_fn(|child| leaf_below(node * CHILDREN + 1 + child)),
        };
        let groups = parent(first_leaf + count - 1) + 1;
        Tournament { groups: (0..groups).map(group).collect(), first_leaf, top: (Due::NEVER, 0) }
    }

    /// Returns the earliest deadline and its leaf.
    #[inline]
    pub fn first(&self) -> (Due, usize) {
        (self.top.0, self.top.1 as usize)
    }

    /// Returns the deadline of a leaf.
    #[inline]
    pub fn due_of(&self, leaf: usize) -> Due {
        self.due(self.first_leaf + leaf)
    }

    #[inline]
    fn due(&self, node: usize) -> Due {
        self.groups[parent(node)].deadlines[place(node)]
    }

    /// Moves the deadline of a leaf forward to `due`.
    pub fn advance(&mut self, leaf: usize, due: Due) {
        let mut node = self.first_leaf + leaf;
        debug_assert!(due <= self.due(node), "the deadline must not increase");
        loop {
            let above = parent(node);
            let group = &mut self.groups[above];
            group.deadlines[place(node)] = due;
            group.leaves[place(node)] = leaf as u32;
            node = above;
            if node == 0 {
                if due < self.top.0 {
                    self.top = (due, leaf as u32);
                }
                return;
            }
            if self.due(node) <= due {
                return;
            }
        }
    }

    /// Replaces the deadline of the first leaf, which may become earlier or later.
    pub fn replace_first(&mut self, due: Due) {
        let (mut due, mut leaf) = (due, self.top.1);
        let mut node = self.first_leaf + leaf as usize;
        while node > 0 {
            let above = parent(node);
            let group = &mut self.groups[above];
            group.deadlines[place(node)] = due;
            group.leaves[place(node)] = leaf;
            let winner;
            (due, winner) = earliest(&group.deadlines);
            leaf = group.leaves[winner % CHILDREN];
            node = above;
        }
        self.top = (due, leaf);
    }
}

/// The parent of a node, which must not be the root.
#[inline]
fn parent(node: usize) -> usize {
    (node - 1) / CHILDREN
}

/// The index of a node among its siblings.
#[inline]
fn place(node: usize) -> usize {
    (node - 1) % CHILDREN
}

/// Returns the earliest of four deadlines and its index. The result is unpredictable, so that
/// conditional moves are used.
#[inline(always)]
fn earliest(deadlines: &[Due; CHILDREN]) -> (Due, usize) {
    let [a, b, c, d] = deadlines.map(Due::key);
    let (low, high) = (a.min(b), c.min(d));
    let (low_place, high_place) = (usize::from(b < a), 2 + usize::from(d < c));
    let is_high = usize::from(high < low).wrapping_neg();
    (Due::of_key(low.min(high)), low_place ^ (low_place ^ high_place) & is_high)
}

#[cfg(test)]
mod tests {
    use super::*;
    use lasthop_base::units::Instant;
    use proptest::prelude::*;

    proptest! {
        /// The tree agrees with a linear search, for any number of leaves.
        #[test]
        fn earliest_first(
            count in 2usize..300,
            steps in prop::collection::vec((any::<prop::sample::Index>(), 0u64..50, any::<bool>()), 1..200),
        ) {
            let mut tree = Tournament::new(count);
            let mut model = vec![Due::NEVER; count];
            for (leaf, nanos, is_first) in steps {
                let due = Due::new(Instant::from_nanos(nanos), 0);
                let leaf = leaf.index(count);
                if is_first {
                    model[tree.first().1] = due;
                    tree.replace_first(due);
                } else if due < model[leaf] {
                    model[leaf] = due;
                    tree.advance(leaf, due);
                }
                let earliest = model.iter().min().copied().unwrap_or(Due::NEVER);
                prop_assert_eq!(tree.first().0, earliest);
                prop_assert_eq!(model[tree.first().1], earliest);
                prop_assert_eq!(tree.due_of(leaf), model[leaf]);
            }
        }
    }
}
