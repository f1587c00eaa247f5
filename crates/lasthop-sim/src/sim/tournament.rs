//! The earliest of many deadlines: a tree in which each node knows the earliest of its four children.
//!
//! ```text
//!                     node 0
//!        1         2         3         4       node k knows of its children
//!     5 6 7 8  9 ..                            4k + 1 to 4k + 4 is in group k
//! ```
//!
//! Machines are the leaves, in their order. A change at a leaf is played again on its way to the top:
//! four deadlines that stand together are compared on each level, without a branch that depends on
//! them, and nothing moves to another place.

use super::deadlines::Due;

/// Children of a node.
const CHILDREN: usize = 4;

/// Of each child of a node the earliest deadline below it, and its leaf.
#[derive(Clone, Copy, Debug)]
struct Group {
    dues: [Due; CHILDREN],
    leaves: [u32; CHILDREN],
}

/// Deadlines of leaves that are numbered from 0.
#[derive(Clone, Debug)]
pub(super) struct Tournament {
    /// By node.
    groups: Box<[Group]>,
    /// The node that is leaf 0.
    first_leaf: usize,
    /// The earliest deadline and its leaf.
    top: (Due, u32),
}

impl Tournament {
    /// So many leaves, at least two, none of which has a deadline.
    pub fn new(count: usize) -> Self {
        debug_assert!(count > 1, "one leaf needs no tree");
        let mut first_leaf = 0;
        while first_leaf * (CHILDREN - 1) + 1 < count {
            first_leaf = first_leaf * CHILDREN + 1;
        }
        // The first leaf below a node stands for it while none has a deadline.
        let leaf_below = |mut node: usize| {
            while node < first_leaf {
                node = node * CHILDREN + 1;
            }
            (node - first_leaf) as u32
        };
        let group = |node: usize| Group {
            dues: [Due::NEVER; CHILDREN],
            leaves: std::array::from_fn(|child| leaf_below(node * CHILDREN + 1 + child)),
        };
        let groups = parent(first_leaf + count - 1) + 1;
        Tournament { groups: (0..groups).map(group).collect(), first_leaf, top: (Due::NEVER, 0) }
    }

    /// The earliest deadline and its leaf.
    #[inline]
    pub fn first(&self) -> (Due, usize) {
        (self.top.0, self.top.1 as usize)
    }

    /// The deadline of a leaf.
    #[inline]
    pub fn due_of(&self, leaf: usize) -> Due {
        self.due(self.first_leaf + leaf)
    }

    #[inline]
    fn due(&self, node: usize) -> Due {
        self.groups[parent(node)].dues[place(node)]
    }

    /// The deadline of a leaf is earlier than it was.
    pub fn advance(&mut self, leaf: usize, due: Due) {
        let mut node = self.first_leaf + leaf;
        debug_assert!(due <= self.due(node), "a leaf moves up");
        loop {
            let above = parent(node);
            let group = &mut self.groups[above];
            group.dues[place(node)] = due;
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

    /// The deadline of the first leaf is another now.
    pub fn replace_first(&mut self, due: Due) {
        let (mut due, mut leaf) = (due, self.top.1);
        let mut node = self.first_leaf + leaf as usize;
        while node > 0 {
            let above = parent(node);
            let group = &mut self.groups[above];
            group.dues[place(node)] = due;
            group.leaves[place(node)] = leaf;
            let winner;
            (due, winner) = earliest(&group.dues);
            leaf = group.leaves[winner % CHILDREN];
            node = above;
        }
        self.top = (due, leaf);
    }
}

/// The node above another one than the top.
#[inline]
fn parent(node: usize) -> usize {
    (node - 1) / CHILDREN
}

/// Where it stands among its siblings.
#[inline]
fn place(node: usize) -> usize {
    (node - 1) % CHILDREN
}

/// The earliest of four and its place. Which one it is cannot be predicted: conditional moves.
#[inline(always)]
fn earliest(dues: &[Due; CHILDREN]) -> (Due, usize) {
    let [a, b, c, d] = dues.map(Due::key);
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
        /// As a search of all leaves finds it, however many there are.
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
