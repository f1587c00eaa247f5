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
        let place = self.sent.partition_point(|sent| sent.number < number);
        if let Some(sent) = self.sent.get_mut(place)
            && sent.number == number
        {
            sent.has_arrived = true;
            return false;
        }
        let is_late = self.late.binary_search(&number);
        if let Ok(place) = is_late {
            self.late.remove(place);
            self.spurious += 1;
        }
        is_late.is_ok()
    }

    /// Records that the peer acknowledges the numbers from `low` to `high`.
    pub fn on_ack(&mut self, low: u64, high: u64) {
        let first = self.acked.partition_point(|&(_, end)| end + 1 < low);
        match self.acked.get(first) {
            Some(&(start, end)) if start <= low && high <= end => return,
            Some(&(start, _)) if start <= high + 1 => {
                let (mut low, mut high) = (low, high);
                while let Some(&(start, end)) = self.acked.get(first)
                    && start <= high + 1
                {
                    (low, high) = (low.min(start), high.max(end));
                    self.acked.remove(first);
                }
                self.acked.insert(first, (low, high));
            }
            _ => self.acked.insert(first, (low, high)),
        }
        while let Some(&Sent { number, .. }) = self.sent.front()
            && self.is_acked(number)
        {
            self.sent.pop_front();
        }
        while self.acked.len() > MOST_RANGES {
            self.acked.pop_front();
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
        ledger.on_ack(6, 8);
        ledger.on_ack(0, 1);
        ledger.on_ack(3, 3);
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
            acks in prop::collection::vec((0u64..100, 0u64..10), 1..40),
            count in 0u64..20,
        ) {
            let mut ledger = Ledger::default();
            (0..110).for_each(|number| ledger.on_sent(number, true));
            let mut known = BTreeSet::new();
            for (low, length) in acks {
                ledger.on_ack(low, low + length);
                known.extend(low..=low + length);
            }
            let largest = *known.last().expect("an acknowledgment");
            let expected = (0..largest).filter(|number| !known.contains(number));
            let expected: Vec<_> = expected.take(count as usize).collect();
            prop_assert_eq!(lost(&mut ledger, count), expected);
        }
    }
}
