//! Send times of segments, for congestion control algorithms that measure RTTs, deliveries and
//! possibly rates.
//!
//! A connection that requires nothing else has this ring instead of the records of `sent.rs`, which
//! are larger and support loss detection. Both return the same [`Delivery`] for an ACK. It includes
//! a rate only if segments [store](Memory) the data for rates.
//!
//! Segments are in order of sequence numbers without gaps: each starts where the previous one ends.

use super::congestion_control::{Delivery, RateSample};
use super::rate::{Delivered, DeliveryRate, Newest};
use lasthop_base::units::{Duration, Instant};
use std::collections::VecDeque;

/// Data that segments store in addition to their send time: nothing, or the data for a
/// [`DeliveryRate`].
pub(super) trait Memory: Default {
    /// Data stored per segment.
    type Page: Copy + Default;

    /// Records that `bytes` are sent, with `in_flight` bytes in flight.
    fn on_sent(&mut self, now: Instant, in_flight: u64, bytes: u64) -> Self::Page;

    /// Processes an ACK that delivers `bytes`. `newest`: data of the delivered segment that was
    /// sent last.
    fn on_ack(
        &mut self,
        now: Instant,
        bytes: u64,
        newest: Newest<'_, Self::Page>,
        min_rtt: Option<Duration>,
    ) -> Option<RateSample>;
}

impl Memory for () {
    type Page = ();

    #[inline]
    fn on_sent(&mut self, _: Instant, _: u64, _: u64) -> Self::Page {}

    #[inline]
    fn on_ack(
        &mut self,
        _: Instant,
        _: u64,
        _: Newest<'_, ()>,
        _: Option<Duration>,
    ) -> Option<RateSample> {
        None
    }
}

impl Memory for DeliveryRate {
    type Page = Delivered;

    #[inline]
    fn on_sent(&mut self, now: Instant, in_flight: u64, bytes: u64) -> Delivered {
        self.on_sent(now, in_flight, bytes)
    }

    #[inline]
    fn on_ack(
        &mut self,
        now: Instant,
        bytes: u64,
        newest: Newest<'_, Delivered>,
        min_rtt: Option<Duration>,
    ) -> Option<RateSample> {
        self.on_ack(now, bytes, newest, min_rtt)
    }
}

/// An outstanding segment.
#[derive(Clone, Copy, Debug)]
struct Departure<P> {
    /// One past the last byte.
    end: u64,
    /// Time of the latest transmission.
    sent: Instant,
    /// Data stored at that time.
    page: P,
    /// Whether it was retransmitted.
    was_retransmitted: bool,
    /// Whether the receiver has reported it above a hole.
    is_sacked: bool,
}

/// The ring of outstanding segments, and the data delivered.
#[derive(Clone, Debug, Default)]
pub(super) struct Departures<M: Memory> {
    ring: VecDeque<Departure<M::Page>>,
    /// Source of the data that segments store.
    pub memory: M,
    /// First byte of the oldest segment.
    start: u64,
    /// One past the newest byte.
    end: u64,
    /// Bytes of SACKed segments.
    sacked: u64,
    /// Bytes delivered (acknowledged or SACKed) since the connection began.
    total: u64,
    min_rtt: Option<Duration>,
}

impl<M: Memory> Departures<M> {
    /// Clears all state but keeps the allocated memory.
    pub fn reset(&mut self) {
        self.ring.clear();
        let ring = std::mem::take(&mut self.ring);
        *self = Departures { ring, ..Departures::default() };
    }

    /// Minimum RTT so far.
    pub fn min_rtt(&self) -> Option<Duration> {
        self.min_rtt
    }

    /// Bytes sent that are neither acknowledged nor SACKed.
    #[inline]
    pub fn in_flight(&self) -> u64 {
        self.end - self.start - self.sacked
    }

    /// First byte of the segment at `index`.
    fn start_of(&self, index: usize) -> u64 {
        if index == 0 { self.start } else { self.ring[index - 1].end }
    }

    /// End of the segment that starts at `seq`, if it is outstanding.
    pub fn end_of(&self, seq: u64) -> Option<u64> {
        let index = self.ring.partition_point(|segment| segment.end <= seq);
        self.ring.get(index).filter(|_| self.start_of(index) == seq).map(|segment| segment.end)
    }

    /// End of the segment with the byte `seq` and the data that it stores, if it is outstanding.
    pub fn page_of(&self, seq: u64) -> Option<(u64, &M::Page)> {
        let index = self.ring.partition_point(|segment| segment.end <= seq);
        self.ring.get(index).map(|segment| (segment.end, &segment.page))
    }

    /// Records the transmission of the bytes `[start, end)`.
    #[inline]
    pub fn on_sent(&mut self, now: Instant, start: u64, end: u64) {
        if self.ring.is_empty() {
            (self.start, self.end) = (start, start);
        }
        let page = self.memory.on_sent(now, self.in_flight(), end - start);
        if start < self.end {
            self.on_resent(now, start, end, page);
        }
        if end > self.end {
            self.end = end;
            let (was_retransmitted, is_sacked) = (false, false);
            self.ring.push_back(Departure { end, sent: now, page, was_retransmitted, is_sacked });
        }
    }

    #[cold]
    fn on_resent(&mut self, now: Instant, start: u64, end: u64, page: M::Page) {
        let mut index = self.ring.partition_point(|segment| segment.end <= start);
        while index < self.ring.len() && self.start_of(index) < end {
            let segment = &mut self.ring[index];
            (segment.sent, segment.page, segment.was_retransmitted) = (now, page, true);
            index += 1;
        }
    }

    /// Processes an ACK for all data below `una`, with SACK `blocks`. The RTT is measured with the
    /// latest segment below `una`, unless a newly acknowledged one was retransmitted (Karn's
    /// algorithm).
    #[inline(always)]
    pub fn on_ack(&mut self, now: Instant, una: u64, blocks: &[(u64, u64)]) -> Delivery {
        match self.ring.front() {
            Some(first) if first.end == una && !first.is_sacked && blocks.is_empty() => {
                self.on_ack_of_first(now, una)
            }
            _ => self.on_any_ack(now, una, blocks),
        }
    }

    /// Fast path: an ACK of exactly the oldest segment.
    #[inline(always)]
    fn on_ack_of_first(&mut self, now: Instant, una: u64) -> Delivery {
        let bytes = una - self.start;
        let first = &self.ring[0];
        let rtt = (!first.was_retransmitted).then(|| now - first.sent);
        self.min_rtt = least(self.min_rtt, rtt);
        let newest = Some((first.sent, &first.page));
        let rate = self.memory.on_ack(now, bytes, newest, self.min_rtt);
        self.ring.pop_front();
        self.start = una;
        self.delivery(now, una, bytes, bytes, rtt, rate)
    }

    #[inline(never)]
    fn on_any_ack(&mut self, now: Instant, una: u64, blocks: &[(u64, u64)]) -> Delivery {
        let before = if self.ring.is_empty() { una } else { self.start };
        let (mut latest, mut is_ambiguous, mut delivered) = (None, false, 0);
        // Number of segments acknowledged in full, and index of the delivered segment that was sent
        // last.
        let (mut gone, mut newest) = (0, None);
        while let Some(first) = self.ring.get(gone)
            && self.start < una
        {
            let bytes = first.end.min(una) - self.start;
            if first.is_sacked {
                self.sacked -= bytes;
            } else {
                delivered += bytes;
                is_ambiguous |= first.was_retransmitted;
                latest = Some(first.sent);
                newest = self.later(newest, gone);
            }
            self.start += bytes;
            if first.end > una {
                break;
            }
            gone += 1;
        }
        if self.start >= self.end {
            (self.start, self.end) = (una, una);
        } else if !blocks.is_empty() {
            delivered += self.take_blocks(blocks, gone, &mut newest);
        }
        let rtt = latest.filter(|_| !is_ambiguous).map(|sent| now - sent);
        self.min_rtt = least(self.min_rtt, rtt);
        let newest = newest.map(|index| (self.ring[index].sent, &self.ring[index].page));
        let rate = self.memory.on_ack(now, delivered, newest, self.min_rtt);
        for _ in 0..gone {
            self.ring.pop_front();
        }
        let acked = una.saturating_sub(before);
        self.delivery(now, una, acked, delivered, rtt, rate)
    }

    /// Returns the data delivered by an ACK that advanced SND.UNA by `acked` bytes to `una`.
    #[inline(always)]
    fn delivery(
        &mut self,
        now: Instant,
        una: u64,
        acked: u64,
        delivered: u64,
        rtt: Option<Duration>,
        rate: Option<RateSample>,
    ) -> Delivery {
        self.total += delivered;
        Delivery {
            now,
            acked,
            delivered,
            total: self.total,
            in_flight: self.in_flight(),
            rtt,
            snd_una: una,
            snd_max: self.end,
            rate,
            is_marked: false,
            passage: None,
            lost: 0,
        }
    }

    /// Marks the segments in `blocks` as SACKed, from index `from` onwards. Returns the number of
    /// new bytes.
    #[cold]
    fn take_blocks(
        &mut self,
        blocks: &[(u64, u64)],
        from: usize,
        newest: &mut Option<usize>,
    ) -> u64 {
        let before = self.sacked;
        for &(start, end) in blocks {
            // Index of the first segment that starts at or above `start`: it follows the first that
            // ends there.
            let ends_below = self.ring.partition_point(|segment| segment.end < start);
            let mut index = if self.start < start { ends_below + 1 } else { from };
            while let Some(segment) = self.ring.get(index).filter(|segment| segment.end <= end) {
                if !segment.is_sacked {
                    let begins = if index == from { self.start } else { self.ring[index - 1].end };
                    self.sacked += segment.end - begins;
                    *newest = self.later(*newest, index);
                    self.ring[index].is_sacked = true;
                }
                index += 1;
            }
        }
        self.sacked - before
    }

    /// Index of the one of two segments that was sent last.
    #[inline]
    fn later(&self, newest: Option<usize>, index: usize) -> Option<usize> {
        let is_older = |known: usize| self.ring[index].sent < self.ring[known].sent;
        newest.filter(|known| is_older(*known)).or(Some(index))
    }
}

/// Minimum RTT after another sample.
#[inline]
fn least(known: Option<Duration>, sample: Option<Duration>) -> Option<Duration> {
    match (known, sample) {
        (Some(known), Some(sample)) if sample >= known => Some(known),
        (known, sample) => sample.or(known),
    }
}

#[cfg(test)]
mod tests {
    use super::super::sent::SentSegments;
    use super::*;
    use proptest::prelude::*;

    /// Removes the values of an ACK that are unavailable without stored data.
    fn without_rate(delivery: Delivery) -> Delivery {
        Delivery { rate: None, lost: 0, ..delivery }
    }

    proptest! {
        /// For random transmissions, retransmissions with other segment boundaries, ACKs and SACK
        /// blocks, and an application that is sometimes idle: both rings return the same values as
        /// full records, and have the same segment boundaries.
        #[test]
        fn an_ack_tells_what_records_tell(
            steps in prop::collection::vec((0u8..8, 0u64..60, 1u64..25), 1..80),
        ) {
            let mut light = Departures::<()>::default();
            let mut rated = Departures::<DeliveryRate>::default();
            let mut full = SentSegments::new();
            let (mut una, mut max) = (1, 1);
            for (step, &(kind, offset, length)) in steps.iter().enumerate() {
                let now = Instant::from_nanos(10 * step as u64);
                let low = (una + offset).min(max);
                let high = (low + length).min(max);
                match kind {
                    0..=2 => {
                        // New data, or a retransmission that may extend above the highest byte
                        // sent.
                        let start = if kind < 2 { max } else { low };
                        light.on_sent(now, start, start + length);
                        rated.on_sent(now, start, start + length);
                        full.on_sent(now, start, start + length);
                        max = max.max(start + length);
                    }
                    6 => {
                        let in_flight = rated.in_flight();
                        rated.memory.on_app_limited(in_flight);
                        full.on_app_limited();
                    }
                    7 => {
                        rated.memory.on_losses(offset);
                        full.on_losses(offset);
                    }
                    _ => {
                        let blocks = [(low, high), (una + length, max)];
                        let blocks = if kind == 3 { &[][..] } else { &blocks[..usize::from(kind) - 3] };
                        una = if kind == 5 { una } else { low };
                        let known = full.on_ack(now, una, blocks);
                        prop_assert_eq!(light.on_ack(now, una, blocks), without_rate(known));
                        let found = rated.on_ack(now, una, blocks);
                        prop_assert_eq!(found.rate, known.rate);
                        prop_assert_eq!(without_rate(found), without_rate(known));
                    }
                }
                prop_assert_eq!(light.min_rtt(), full.min_rtt());
                prop_assert_eq!(light.end_of(low), full.end_of(low));
            }
        }
    }
}
