//! When segments left: for laws that measure round trips and deliveries, but no rates.
//!
//! A connection that asks for no more than that has this ring in place of the records of `sent.rs`, which are four times as
//! large and know of rates and of losses. It tells the same of an ACK, but for the rate.
//!
//! Segments lie in the order of the sequence space without gaps: each begins where the one before it ends.

use super::law::Delivery;
use crate::units::{Duration, Instant};
use std::collections::VecDeque;

/// A segment that is outstanding.
#[derive(Clone, Copy, Debug)]
struct Departure {
    /// One past the last byte.
    end: u64,
    /// When its latest copy left.
    sent: Instant,
    /// Was it sent more than once?
    was_resent: bool,
    /// Has the receiver reported it above a hole?
    is_sacked: bool,
}

/// The ring of segments that are outstanding, and how much was delivered.
#[derive(Clone, Debug, Default)]
pub(super) struct Departures {
    ring: VecDeque<Departure>,
    /// First byte of the oldest.
    start: u64,
    /// Bytes of those that are SACKed.
    sacked: u64,
    /// Bytes delivered (acknowledged or SACKed) since the connection began.
    total: u64,
    min_rtt: Option<Duration>,
}

impl Departures {
    /// Forgets everything but the room that was taken.
    pub fn reset(&mut self) {
        self.ring.clear();
        let ring = std::mem::take(&mut self.ring);
        *self = Departures { ring, ..Departures::default() };
    }

    /// Least round trip so far.
    pub fn min_rtt(&self) -> Option<Duration> {
        self.min_rtt
    }

    /// One past the newest byte, `or` without one.
    #[inline]
    fn end(&self, or: u64) -> u64 {
        self.ring.back().map_or(or, |last| last.end)
    }

    /// First byte of the segment at `index`.
    fn start_of(&self, index: usize) -> u64 {
        if index == 0 { self.start } else { self.ring[index - 1].end }
    }

    /// End of the segment that begins with `seq`, if it is outstanding.
    pub fn end_of(&self, seq: u64) -> Option<u64> {
        let index = self.ring.partition_point(|segment| segment.end <= seq);
        self.ring.get(index).filter(|_| self.start_of(index) == seq).map(|segment| segment.end)
    }

    /// The bytes from `start` to `end` leave.
    #[inline]
    pub fn on_sent(&mut self, now: Instant, start: u64, end: u64) {
        if self.ring.is_empty() {
            self.start = start;
        }
        if start < self.end(start) {
            self.on_resent(now, start, end);
        }
        if end > self.end(start) {
            self.ring.push_back(Departure { end, sent: now, was_resent: false, is_sacked: false });
        }
    }

    #[cold]
    fn on_resent(&mut self, now: Instant, start: u64, end: u64) {
        let mut index = self.ring.partition_point(|segment| segment.end <= start);
        while index < self.ring.len() && self.start_of(index) < end {
            (self.ring[index].sent, self.ring[index].was_resent) = (now, true);
            index += 1;
        }
    }

    /// Everything below `una` is acknowledged, and what lies in `blocks` has been received. The round-trip time is that of
    /// the latest segment below `una`, unless one that is acknowledged now was sent twice (Karn's rule).
    #[inline]
    pub fn on_ack(&mut self, now: Instant, una: u64, blocks: &[(u64, u64)]) -> Delivery {
        let outstanding = if self.ring.is_empty() { una } else { self.start };
        let (mut latest, mut is_ambiguous, mut delivered) = (None, false, 0);
        while let Some(&first) = self.ring.front()
            && self.start < una
        {
            let bytes = first.end.min(una) - self.start;
            if first.is_sacked {
                self.sacked -= bytes;
            } else {
                delivered += bytes;
                is_ambiguous |= first.was_resent;
                latest = Some(first.sent);
            }
            self.start += bytes;
            if first.end <= una {
                self.ring.pop_front();
            }
        }
        if !blocks.is_empty() {
            delivered += self.take_blocks(blocks);
        }
        self.total += delivered;
        let rtt = latest.filter(|_| !is_ambiguous).map(|sent| now - sent);
        if let Some(rtt) = rtt {
            self.min_rtt = Some(self.min_rtt.map_or(rtt, |least| least.min(rtt)));
        }
        let snd_max = self.end(una);
        let start = if self.ring.is_empty() { una } else { self.start };
        Delivery {
            now,
            acked: una.saturating_sub(outstanding),
            delivered,
            total: self.total,
            in_flight: snd_max - start - self.sacked,
            rtt,
            snd_una: una,
            snd_max,
            rate: None,
            is_marked: false,
            passage: None,
            lost: 0,
        }
    }

    /// Marks the segments in `blocks`. Returns how many bytes are new.
    #[cold]
    fn take_blocks(&mut self, blocks: &[(u64, u64)]) -> u64 {
        let before = self.sacked;
        for &(start, end) in blocks {
            // The first that begins at or above `start`: the one behind the first that ends there.
            let ends_below = self.ring.partition_point(|segment| segment.end < start);
            let mut index = if self.start < start { ends_below + 1 } else { 0 };
            while let Some(segment) = self.ring.get(index).filter(|segment| segment.end <= end) {
                if !segment.is_sacked {
                    self.sacked += segment.end - self.start_of(index);
                    self.ring[index].is_sacked = true;
                }
                index += 1;
            }
        }
        self.sacked - before
    }
}

#[cfg(test)]
mod tests {
    use super::super::sent::SentSegments;
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Whatever is sent, sent again over other borders, acknowledged and SACKed: what an ACK tells is what full records
        /// tell, but for the rate; and segments end where records do.
        #[test]
        fn an_ack_tells_what_records_tell(
            steps in prop::collection::vec((0u8..6, 0u64..60, 1u64..25), 1..80),
        ) {
            let (mut light, mut full) = (Departures::default(), SentSegments::new());
            let (mut una, mut max) = (1, 1);
            for (step, &(kind, offset, length)) in steps.iter().enumerate() {
                let now = Instant::from_nanos(10 * step as u64);
                let low = (una + offset).min(max);
                let high = (low + length).min(max);
                match kind {
                    0..=2 => {
                        // New data, or again from somewhere in flight on, perhaps beyond what was sent.
                        let start = if kind < 2 { max } else { low };
                        light.on_sent(now, start, start + length);
                        full.on_sent(now, start, start + length);
                        max = max.max(start + length);
                    }
                    _ => {
                        let blocks = [(low, high), (una + length, max)];
                        let blocks = if kind == 3 { &[][..] } else { &blocks[..usize::from(kind) - 3] };
                        una = if kind == 5 { una } else { low };
                        let told = light.on_ack(now, una, blocks);
                        let known = Delivery { rate: None, ..full.on_ack(now, una, blocks) };
                        prop_assert_eq!(told, known);
                    }
                }
                prop_assert_eq!(light.min_rtt(), full.min_rtt());
                prop_assert_eq!(light.end_of(low), full.end_of(low));
            }
        }
    }
}
