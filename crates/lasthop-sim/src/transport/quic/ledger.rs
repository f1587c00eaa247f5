//! The 1-RTT packets that an end has sent: which of those declared lost had arrived.
//!
//! ```text
//!   sent --arrival--> arrived                 of the peer, which the machine knows
//!   sent or arrived --acknowledged--> removed
//!   sent --declared lost--> late --arrival--> spurious
//!   arrived --declared lost--> spurious
//! ```
//!
//! Both criteria of loss detection (RFC 9002, section 6.1) increase with the packet number. The
//! packets that are declared lost are therefore those with the lowest numbers among the
//! outstanding ones, so that their count determines them.

use std::collections::VecDeque;

/// Number of consecutive packets that elicit no acknowledgment after which the stack forgets the
/// oldest of them: `MAX_UNACKED_NON_ACK_ELICTING_TAIL` of quinn-proto.
const LONGEST_TAIL: u64 = 1_000;
/// Number of acknowledged ranges that are kept.
const MOST_RANGES: usize = 64;

/// An outstanding packet.
#[derive(Clone, Copy, Debug)]
struct Sent {
    number: u64,
    has_arrived: bool,
}

/// The packets of one end.
#[derive(Clone, Debug, Default)]
pub(super) struct Ledger {
    sent: VecDeque<Sent>,
    /// Ranges of acknowledged numbers, in ascending order.
    acked: VecDeque<(u64, u64)>,
    /// Packets that were declared lost and have not arrived.
    late: VecDeque<u64>,
    /// One more than the highest number sent.
    next: u64,
    /// The last packet that elicits an acknowledgment, and the number of packets after it.
    last_eliciting: u64,
    tail: u64,
    spurious: u64,
}

impl Ledger {
    /// Returns the number from which truncated packet numbers are expanded: one more than the
    /// highest number sent.
    pub fn next(&self) -> u64 {
        self.next
    }

    /// Returns the number of packets that were declared lost, although they had arrived or arrive
    /// later.
    pub fn spurious(&self) -> u64 {
        self.spurious
    }

    /// Records that a packet is sent.
    pub fn on_sent(&mut self, number: u64, is_eliciting: bool) {
        self.next = number + 1;
        if is_eliciting {
            (self.last_eliciting, self.tail) = (number, 0);
        } else if self.tail > LONGEST_TAIL {
            let oldest = self.sent.partition_point(|sent| sent.number <= self.last_eliciting);
            self.sent.remove(oldest);
        } else {
            self.tail += 1;
        }
        self.sent.push_back(Sent { number, has_arrived: false });
    }

    /// Records that a packet arrives at the peer. Returns `true` if it had been declared lost.
    pub fn on_arrival(&mut self, number: u64) -> bool {
        if let Some(place) = self.place(number) {
            self.sent[place].has_arrived = true;
            return false;
        }
        let is_late = self.late.binary_search(&number);
        if let Ok(place) = is_late {
            self.late.remove(place);
            self.spurious += 1;
        }
        is_late.is_ok()
    }

    /// Returns the index of an outstanding packet. Few numbers between those of outstanding packets
    /// are missing, so that the distance from the first one is a close upper bound.
    fn place(&self, number: u64) -> Option<usize> {
        let distance = number.checked_sub(self.sent.front()?.number)?;
        let last = self.sent.len() - 1;
        let bound = usize::try_from(distance).map_or(last, |distance| distance.min(last));
        if self.sent[bound].number == number {
            return Some(bound);
        }
        self.sent.binary_search_by_key(&number, |sent| sent.number).ok()
    }

    /// Records that the peer acknowledges these ranges of numbers, in descending order. Ranges below
    /// the first outstanding packet have no effect.
    pub fn on_ack(&mut self, ranges: impl IntoIterator<Item = (u64, u64)>) {
        let Some(first) = self.sent.front().map(|sent| sent.number) else { return };
        // Known ranges from here on are above the range and do not touch it.
        let mut above = self.acked.len();
        for (low, high) in ranges.into_iter().take_while(|&(_, high)| high >= first) {
            while above > 0 && self.acked[above - 1].0 > high + 1 {
                above -= 1;
            }
            let mut merged = (low, high);
            let mut touching = above;
            while touching > 0 && self.acked[touching - 1].1 + 1 >= low {
                touching -= 1;
                let (start, end) = self.acked[touching];
                merged = (merged.0.min(start), merged.1.max(end));
            }
            if touching == above {
                self.acked.insert(above, merged);
            } else {
                self.acked[touching] = merged;
                if touching + 1 < above {
                    self.acked.drain(touching + 1..above);
                }
            }
            above = touching + 1;
        }
        self.remove_acked();
        while self.acked.len() > MOST_RANGES {
            self.acked.pop_front();
        }
    }

    /// Removes acknowledged packets from the front, and ranges below the first outstanding packet. The
    /// highest range remains.
    fn remove_acked(&mut self) {
        while let Some(&Sent { number, .. }) = self.sent.front() {
            while self.acked.len() > 1 && self.acked[0].1 < number {
                self.acked.pop_front();
            }
            match self.acked.front() {
                Some(&(start, end)) if start <= number && number <= end => self.sent.pop_front(),
                _ => return,
            };
        }
    }

    /// Records that `count` packets are declared lost, and calls `each` with the number of each
    /// and whether it has arrived.
    pub fn on_lost(&mut self, mut count: u64, mut each: impl FnMut(u64, bool)) {
        let largest = self.acked.back().map_or(0, |&(_, high)| high);
        while count > 0
            && let Some(&Sent { number, has_arrived }) = self.sent.front()
            && number < largest
        {
            self.sent.pop_front();
            if self.is_acked(number) {
                continue;
            }
            count -= 1;
            each(number, has_arrived);
            if has_arrived {
                self.spurious += 1;
            } else {
                let place = self.late.partition_point(|&late| late < number);
                self.late.insert(place, number);
            }
        }
    }

    fn is_acked(&self, number: u64) -> bool {
        let place = self.acked.partition_point(|&(_, end)| end < number);
        self.acked.get(place).is_some_and(|&(start, _)| start <= number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    /// Declares `count` packets lost and returns their numbers.
    fn lost(ledger: &mut Ledger, count: u64) -> Vec<u64> {
        let mut numbers = Vec::new();
        ledger.on_lost(count, |number, _| numbers.push(number));
        numbers
    }

    #[test]
    fn a_loss_is_spurious_if_the_packet_arrives() {
        let mut ledger = Ledger::default();
        (0..10).for_each(|number| ledger.on_sent(number, true));
        // 2 is late, 4 is lost, and the ACKs of 5 have not arrived.
        for arrived in [0, 1, 3, 5, 6, 7, 8] {
            assert!(!ledger.on_arrival(arrived));
        }
        ledger.on_ack([(6, 8), (0, 1)]);
        ledger.on_ack([(6, 8), (3, 3), (0, 1)]);
        assert_eq!(lost(&mut ledger, 3), [2, 4, 5]);
        assert_eq!(ledger.spurious(), 1);
        assert!(ledger.on_arrival(2));
        assert_eq!((ledger.spurious(), ledger.on_arrival(2)), (2, false));
        // 9 is above the largest acknowledged number.
        assert_eq!(lost(&mut ledger, 1), [0; 0]);
    }

    #[test]
    fn a_receiver_forgets_its_oldest_acknowledgments() {
        let mut ledger = Ledger::default();
        ledger.on_sent(0, true);
        (1..=3_000).for_each(|number| ledger.on_sent(number, false));
        // One packet that elicits an acknowledgment, and 1,001 others.
        assert_eq!(ledger.sent.len(), 1_002);
        assert_eq!((ledger.sent[0].number, ledger.sent[1].number), (0, 2_000));
    }

    proptest! {
        #[test]
        fn acknowledged_packets_are_never_lost(
            acks in prop::collection::vec(
                (0u64..110, prop::collection::vec((0u64..10, 0u64..10), 1..5)),
                1..20,
            ),
            gaps in prop::collection::btree_set(0u64..110, 0..10),
            count in 0u64..20,
        ) {
            let mut ledger = Ledger::default();
            let is_sent = |number: &u64| !gaps.contains(number);
            (0..110).filter(is_sent).for_each(|number| ledger.on_sent(number, true));
            let mut known = BTreeSet::new();
            for (largest, lengths) in acks {
                // Ranges of one frame: at least one number is missing between two of them.
                let mut next = Some(largest);
                let ranges = lengths.iter().map_while(|(length, gap)| {
                    let high = next?;
                    let low = high.saturating_sub(*length);
                    next = low.checked_sub(gap + 2);
                    Some((low, high))
                });
                let ranges: Vec<_> = ranges.collect();
                known.extend(ranges.iter().flat_map(|&(low, high)| low..=high));
                ledger.on_ack(ranges);
                // Outstanding packets are found, others are not.
                for number in 0..110 {
                    let found = ledger.place(number).map(|place| ledger.sent[place].number);
                    let outstanding = ledger.sent.iter().find(|sent| sent.number == number);
                    prop_assert_eq!(found, outstanding.map(|sent| sent.number));
                }
            }
            let largest = *known.last().expect("an acknowledgment");
            let expected = (0..largest).filter(is_sent).filter(|number| !known.contains(number));
            let expected: Vec<_> = expected.take(count as usize).collect();
            prop_assert_eq!(lost(&mut ledger, count), expected);
        }
    }
}
