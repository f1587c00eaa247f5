//! Start-time fair queueing with a self-clocked virtual time: selects the member that sends the
//! next frame on a shared transmitter.
//!
//! Each member i has a weight φ_i and a finish tag F_i; v is the virtual time. Both are in weighted
//! bytes, not seconds.
//!
//! ```text
//!     choose   the member with the smallest start tag S_i = max(v, F_i) among the backlogged
//!              members; ties: the lowest index
//!     charge   member i has sent a frame of L bytes:  v := S_i,  F_i := S_i + L / φ_i
//!     reset    the transmitter is idle:               v := 0,    F_i := 0 for all i
//! ```
//!
//! Source: self-clocked fair queueing (Golestani, INFOCOM 1994) takes the virtual time from the tag
//! of the frame in service, so that no ideal system needs to be simulated in addition. It serves
//! frames in the order of their *finish* tags, which depend on the length of every member's next
//! frame. Here the members are link-layer state machines: the next frame of a member is only
//! determined when it is polled, and polling starts its timers. Therefore frames are served in the
//! order of their *start* tags (start-time fair queueing, Goyal, Vin and Cheng, IEEE/ACM
//! Transactions on Networking 5(5), 1997), which need the length only after the choice. Its bounds:
//!
//! - While i and j are both backlogged, |W_i / φ_i - W_j / φ_j| <= L_i / φ_i + L_j / φ_j, where W
//!   is the work done and L the maximum frame length of each. Finish tags have the same bound.
//! - A frame of a member that does not exceed its share is sent at most one maximum frame of every
//!   other member later than on a dedicated link. With finish tags it may be later by another L_i /
//!   φ_i, which is worst for members with small weights.
//!
//! Tags are not stored with frames. The tag would be assigned when the frame becomes the head of
//! its member, as max(v, F_i) at that time. While the frame waits, v may grow, but never beyond the
//! smallest tag of the waiting frames. Therefore the maximum at the time of the choice has the same
//! result.
//!
//! Not modelled: preemption, priorities between members.

use std::num::NonZeroU32;

/// Tag units per byte. The rounding error of one frame's charge is less than a millionth of a byte
/// divided by its weight.
const UNIT: u64 = 1 << 20;

/// Virtual time at which tags are rebased to avoid an overflow. So many bytes without an idle
/// period are rare.
const REBASE: u64 = 1 << 62;

/// One member.
#[derive(Clone, Copy, Debug)]
struct Member {
    weight: NonZeroU32,
    finish: u64,
}

/// A transmitter shared by weight.
///
/// ```
/// use lasthop_link::queue::FairQueue;
/// use std::num::NonZeroU32;
///
/// // The first member has twice the weight of the second; both always have frames of 1,000 B.
/// let weights = [2, 1].map(|weight| NonZeroU32::new(weight).expect("not zero"));
/// let mut queue = FairQueue::new(&weights);
/// let mut sent = [0, 0];
/// for _ in 0..300 {
///     let member = queue.choose(|_| true).expect("a frame");
///     queue.charge(member, 1_000);
///     sent[member] += 1;
/// }
/// assert_eq!(sent, [200, 100]);
/// ```
#[derive(Clone, Debug)]
pub struct FairQueue {
    virtual_time: u64,
    members: Box<[Member]>,
}

impl FairQueue {
    /// Creates a queue with one member per weight, at the index of its weight.
    pub fn new(weights: &[NonZeroU32]) -> Self {
        let members = weights.iter().map(|&weight| Member { weight, finish: 0 }).collect();
        FairQueue { virtual_time: 0, members }
    }

    /// Returns the member that sends next among those with a frame to send, if any.
    pub fn choose(&self, mut has_frame: impl FnMut(usize) -> bool) -> Option<usize> {
        let start = |(index, member): (usize, &Member)| {
            has_frame(index).then(|| (member.finish.max(self.virtual_time), index))
        };
        self.members.iter().enumerate().filter_map(start).min().map(|(_, index)| index)
    }

    /// Charges `member`, which has just been chosen, for a frame of `bytes`.
    pub fn charge(&mut self, member: usize, bytes: u32) {
        if self.virtual_time >= REBASE {
            self.rebase();
        }
        let Member { weight, finish } = &mut self.members[member];
        self.virtual_time = self.virtual_time.max(*finish);
        *finish = self.virtual_time + u64::from(bytes) * UNIT / u64::from(weight.get());
    }

    /// Resets all tags, because the transmitter is idle.
    pub fn reset(&mut self) {
        self.virtual_time = 0;
        self.members.iter_mut().for_each(|member| member.finish = 0);
    }

    /// The weight of `member`.
    pub fn weight(&self, member: usize) -> NonZeroU32 {
        self.members[member].weight
    }

    /// Sets the weight of `member`. The part of its last frame that is not yet served is charged
    /// again with the new weight. Otherwise weights on another scale would exclude the member or
    /// give it the whole capacity.
    pub fn set_weight(&mut self, member: usize, weight: NonZeroU32) {
        let Member { weight: old, finish } = &mut self.members[member];
        let ahead = u128::from(finish.saturating_sub(self.virtual_time));
        let anew = ahead * u128::from(old.get()) / u128::from(weight.get());
        *finish = self.virtual_time.saturating_add(u64::try_from(anew).unwrap_or(u64::MAX));
        *old = weight;
    }

    /// Shifts all tags by the virtual time. Tags below it are equivalent to it.
    #[cold]
    fn rebase(&mut self) {
        for member in &mut self.members {
            member.finish = member.finish.saturating_sub(self.virtual_time);
        }
        self.virtual_time = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn weights(weights: &[u32]) -> Vec<NonZeroU32> {
        weights.iter().filter_map(|&weight| NonZeroU32::new(weight)).collect()
    }

    /// The first `count` choices among backlogged members with these frame lengths.
    fn order(queue: &mut FairQueue, lengths: &[u32], count: usize) -> Vec<usize> {
        (0..count)
            .map(|_| {
                let member = queue.choose(|_| true).expect("all have frames");
                queue.charge(member, lengths[member]);
                member
            })
            .collect()
    }

    #[test]
    fn the_order_of_a_table_worked_by_hand() {
        // Start tags of 0: 0, 50, 100, 150 …; of 1: 0, 100, 200 …; ties: 0 first.
        let mut queue = FairQueue::new(&weights(&[2, 1]));
        assert_eq!(order(&mut queue, &[100, 100], 9), [0, 1, 0, 0, 1, 0, 0, 1, 0]);
        // Frames are charged by length: 0 may send four of 25 B for one of 100 B.
        let mut queue = FairQueue::new(&weights(&[1, 1]));
        assert_eq!(order(&mut queue, &[25, 100], 10), [0, 1, 0, 0, 0, 0, 1, 0, 0, 0]);
    }

    #[test]
    fn who_was_silent_saves_nothing_up() {
        let mut queue = FairQueue::new(&weights(&[1, 1]));
        for _ in 0..100 {
            assert_eq!(queue.choose(|member| member == 0), Some(0));
            queue.charge(0, 100);
        }
        // Member 1 becomes active: one frame ahead of member 0's next, then alternating.
        assert_eq!(order(&mut queue, &[100, 100], 5), [1, 0, 1, 0, 1]);
    }

    #[test]
    fn weights_on_another_scale_shut_nobody_out() {
        let mut queue = FairQueue::new(&weights(&[1, 1]));
        order(&mut queue, &[100, 100], 7);
        for (member, weight) in weights(&[500, 500]).into_iter().enumerate() {
            queue.set_weight(member, weight);
        }
        assert_eq!(order(&mut queue, &[100, 100], 4), [1, 0, 1, 0]);
        // A quarter of the weight: the last frame counts four times as much.
        queue.set_weight(0, weights(&[125])[0]);
        assert_eq!(order(&mut queue, &[100, 100], 6), [1, 1, 1, 1, 0, 1]);
    }

    #[test]
    fn an_idle_transmitter_forgets() {
        let mut queue = FairQueue::new(&weights(&[1, 1]));
        assert_eq!(queue.choose(|_| false), None);
        queue.charge(0, 1000);
        // Within the busy period member 0 has been served; after it both are equal again.
        assert_eq!(queue.choose(|_| true), Some(1));
        queue.reset();
        assert_eq!(queue.choose(|_| true), Some(0));
    }

    #[test]
    fn tags_never_overflow() {
        let mut queue = FairQueue::new(&weights(&[3, 1]));
        let mut far = queue.clone();
        (far.virtual_time, far.members[0].finish, far.members[1].finish) =
            (REBASE, REBASE, REBASE - 5);
        let lengths = [1500, 40];
        assert_eq!(order(&mut far, &lengths, 1000), order(&mut queue, &lengths, 1000));
        assert!(far.virtual_time < REBASE);
    }

    proptest! {
        /// The bound in the module head, over every interval in which both members are backlogged,
        /// for any frame lengths, while other members become active and inactive.
        #[test]
        fn no_two_members_drift_apart(
            weight in prop::collection::vec(1u32..50, 2..5),
            steps in prop::collection::vec((1u32..1600, any::<u8>()), 1..300),
        ) {
            let mut queue = FairQueue::new(&weights(&weight));
            let longest = 1600.0;
            // Members 0 and 1 are always backlogged; the bits determine the others.
            let mut work = vec![0.0; weight.len()];
            let (mut least, mut most) = (0.0f64, 0.0f64);
            for (bytes, bits) in steps {
                let member = queue.choose(|index| index < 2 || bits >> index & 1 == 1).unwrap();
                queue.charge(member, bytes);
                work[member] += f64::from(bytes) / f64::from(weight[member]);
                let ahead = work[0] - work[1];
                (least, most) = (least.min(ahead), most.max(ahead));
            }
            let bound = longest / f64::from(weight[0]) + longest / f64::from(weight[1]);
            prop_assert!(most - least <= bound + 1e-3, "{least} to {most}, bound {bound}");
        }

        /// A new member is served before any other has been served twice.
        #[test]
        fn nobody_waits_for_more_than_one_frame_of_each_other(
            weight in prop::collection::vec(1u32..50, 2..6),
            before in prop::collection::vec(1u32..1600, 0..60),
            after in prop::collection::vec(1u32..1600, 60),
        ) {
            let mut queue = FairQueue::new(&weights(&weight));
            for bytes in before {
                let member = queue.choose(|index| index > 0).unwrap();
                queue.charge(member, bytes);
            }
            let mut served = vec![0; weight.len()];
            for bytes in after {
                let member = queue.choose(|_| true).unwrap();
                if member == 0 {
                    break;
                }
                served[member] += 1;
                queue.charge(member, bytes);
            }
            prop_assert!(served.iter().all(|&frames| frames <= 1), "{served:?}");
        }
    }
}
