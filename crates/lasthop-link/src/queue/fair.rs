//! Fair queueing with a self-made clock: who sends the next frame on a shared transmitter.
//!
//! Each member i has a weight φ_i and a finish tag F_i; v is the virtual time. Both count weighted
//! bytes, not seconds.
//!
//! ```text
//!   choose   among the members that have something to send: the smallest start tag
//!            S_i = max(v, F_i), of equal ones the lowest index
//!   charge   member i has sent a frame of L bytes:  v := S_i,  F_i := S_i + L / φ_i
//!   reset    the transmitter is idle:               v := 0,    F_i := 0 for all i
//! ```
//!
//! Source: self-clocked fair queueing (Golestani, INFOCOM 1994) takes the virtual time from the tag
//! of the frame in service, so that no ideal system has to be simulated beside the real one. Its
//! order is that of *finish* tags, for which the length of every member's next frame must be known.
//! The members here are link-layer machines: what one sends next is decided when it is polled, and
//! being polled starts its timers. Hence the order of *start* tags (start-time fair queueing, Goyal,
//! Vin and Cheng, IEEE/ACM Transactions on Networking 5(5), 1997), which needs the length only after
//! the choice. Its bounds:
//!
//! - while i and j both have something to send, |W_i / φ_i - W_j / φ_j| <= L_i / φ_i + L_j / φ_j,
//!   where W is the work done and L the longest frame of each: the same as with finish tags;
//! - a frame of a member that keeps to its share leaves at most one longest frame of every other
//!   member later than from a link of its own. With finish tags it may be later by L_i / φ_i more,
//!   which hurts members with small weights most.
//!
//! A tag is not stored with a frame. It would be made when the frame becomes the head of its member:
//! max(v, F_i) at that time. While the frame waits, v may grow, but never beyond the smallest tag
//! of those that wait, so that the maximum taken at the choice is the same.
//!
//! Not modelled: pre-emption, priorities between members.

use std::num::NonZeroU32;

/// Parts of a byte that tags count: the rounding of one frame's charge is below a millionth byte
/// over its weight.
const UNIT: u64 = 1 << 20;

/// Tags are brought down before they overflow; this many bytes without an idle moment are rare.
const REBASE: u64 = 1 << 62;

/// One of those who share.
#[derive(Clone, Copy, Debug)]
struct Member {
    weight: NonZeroU32,
    finish: u64,
}

/// A transmitter shared by weight.
#[derive(Clone, Debug)]
pub struct FairQueue {
    virtual_time: u64,
    members: Box<[Member]>,
}

impl FairQueue {
    /// Nobody has sent yet; the index of a weight is that of its member.
    pub fn new(weights: &[NonZeroU32]) -> Self {
        let members = weights.iter().map(|&weight| Member { weight, finish: 0 }).collect();
        FairQueue { virtual_time: 0, members }
    }

    /// The member that sends next, among those that have something to send; `None` if none has.
    pub fn choose(&self, mut has_frame: impl FnMut(usize) -> bool) -> Option<usize> {
        let start = |(index, member): (usize, &Member)| {
            has_frame(index).then(|| (member.finish.max(self.virtual_time), index))
        };
        self.members.iter().enumerate().filter_map(start).min().map(|(_, index)| index)
    }

    /// `member`, just chosen, sends a frame of `bytes`.
    pub fn charge(&mut self, member: usize, bytes: u32) {
        if self.virtual_time >= REBASE {
            self.rebase();
        }
        let Member { weight, finish } = &mut self.members[member];
        self.virtual_time = self.virtual_time.max(*finish);
        *finish = self.virtual_time + u64::from(bytes) * UNIT / u64::from(weight.get());
    }

    /// The transmitter has nothing to send: what was sent before no longer counts.
    pub fn reset(&mut self) {
        self.virtual_time = 0;
        self.members.iter_mut().for_each(|member| member.finish = 0);
    }

    /// The weight of `member`.
    pub fn weight(&self, member: usize) -> NonZeroU32 {
        self.members[member].weight
    }

    /// `member` has this weight from now on. What its last frame is still to be charged with is
    /// charged anew: otherwise weights on another scale would shut it out, or let it all through.
    pub fn set_weight(&mut self, member: usize, weight: NonZeroU32) {
        let Member { weight: old, finish } = &mut self.members[member];
        let ahead = u128::from(finish.saturating_sub(self.virtual_time));
        let anew = ahead * u128::from(old.get()) / u128::from(weight.get());
        *finish = self.virtual_time.saturating_add(u64::try_from(anew).unwrap_or(u64::MAX));
        *old = weight;
    }

    /// Shifts all tags; one below the virtual time is worth no more than it.
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

    /// The first `count` choices among members that always have frames of these lengths.
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
        // Start tags of 0: 0, 50, 100, 150 …; of 1: 0, 100, 200 …; ties go to 0.
        let mut queue = FairQueue::new(&weights(&[2, 1]));
        assert_eq!(order(&mut queue, &[100, 100], 9), [0, 1, 0, 0, 1, 0, 0, 1, 0]);
        // Short frames count less: 0 may send four of 25 bytes for one of 100.
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
        // Member 1 comes: one frame ahead of member 0's next, then in turn.
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
        // A quarter of the weight: the frame just sent counts four times as much.
        queue.set_weight(0, weights(&[125])[0]);
        assert_eq!(order(&mut queue, &[100, 100], 6), [1, 1, 1, 1, 0, 1]);
    }

    #[test]
    fn an_idle_transmitter_forgets() {
        let mut queue = FairQueue::new(&weights(&[1, 1]));
        assert_eq!(queue.choose(|_| false), None);
        queue.charge(0, 1000);
        // Within the busy period member 0 has had its turn; after it both are equal again.
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
        /// The bound of the head comment, over every interval in which both have frames, for any
        /// frame lengths, while other members join and leave.
        #[test]
        fn no_two_members_drift_apart(
            weight in prop::collection::vec(1u32..50, 2..5),
            steps in prop::collection::vec((1u32..1600, any::<u8>()), 1..300),
        ) {
            let mut queue = FairQueue::new(&weights(&weight));
            let longest = 1600.0;
            // Members 0 and 1 always have frames; the others as the bits say.
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
