//! When segments left: for laws that measure round trips, deliveries and perhaps rates.
//!
//! A connection that asks for no more than that has this ring in place of the records of `sent.rs`, which are larger and
//! know of losses. It tells the same of an ACK; the rate only if segments [remember](Memory) what rates need.
//!
//! Segments lie in the order of the sequence space without gaps: each begins where the one before it ends.

use super::congestion_control::{Delivery, RateSample};
use super::rate::{Delivered, DeliveryRate, Newest};
use lasthop_base::units::{Duration, Instant};
use std::collections::VecDeque;

/// What segments remember besides when they left: nothing, or what a [`DeliveryRate`] needs.
pub(super) trait Memory: Default {
    /// What one segment does.
    type Page: Copy + Default;

    /// `bytes` leave, with `in_flight` on their way.
    fn on_sent(&mut self, now: Instant, in_flight: u64, bytes: u64) -> Self::Page;

    /// An ACK delivers `bytes`, of which the segment that left last remembers `newest`.
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

/// A segment that is outstanding.
#[derive(Clone, Copy, Debug)]
struct Departure<P> {
    /// One past the last byte.
    end: u64,
    /// When its latest copy left.
    sent: Instant,
    /// What was known then.
    page: P,
    /// Was it sent more than once?
    was_resent: bool,
    /// Has the receiver reported it above a hole?
    is_sacked: bool,
}

/// The ring of segments that are outstanding, and how much was delivered.
#[derive(Clone, Debug, Default)]
pub(super) struct Departures<M: Memory> {
    ring: VecDeque<Departure<M::Page>>,
    /// What they remember is taken from it.
    pub memory: M,
    /// First byte of the oldest.
    start: u64,
    /// One past the newest byte.
    end: u64,
    /// Bytes of those that are SACKed.
    sacked: u64,
    /// Bytes delivered (acknowledged or SACKed) since the connection began.
    total: u64,
    min_rtt: Option<Duration>,
}

impl<M: Memory> Departures<M> {
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

    /// Bytes sent that are neither acknowledged nor SACKed.
    #[inline]
    pub fn in_flight(&self) -> u64 {
        self.end - self.start - self.sacked
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

    /// End of the segment that holds the byte `seq`, and what it remembers, if it is outstanding.
    pub fn page_of(&self, seq: u64) -> Option<(u64, &M::Page)> {
        let index = self.ring.partition_point(|segment| segment.end <= seq);
        self.ring.get(index).map(|segment| (segment.end, &segment.page))
    }

    /// The bytes from `start` to `end` leave.
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
            let (was_resent, is_sacked) = (false, false);
            self.ring.push_back(Departure { end, sent: now, page, was_resent, is_sacked });
        }
    }

    #[cold]
    fn on_resent(&mut self, now: Instant, start: u64, end: u64, page: M::Page) {
        let mut index = self.ring.partition_point(|segment| segment.end <= start);
        while index < self.ring.len() && self.start_of(index) < end {
            let segment = &mut self.ring[index];
            (segment.sent, segment.page, segment.was_resent) = (now, page, true);
            index += 1;
        }
    }

    /// Everything below `una` is acknowledged, and what lies in `blocks` has been received. The round-trip time is that of
    /// the latest segment below `una`, unless one that is acknowledged now was sent twice (Karn's rule).
    #[inline(always)]
    pub fn on_ack(&mut self, now: Instant, una: u64, blocks: &[(u64, u64)]) -> Delivery {
        match self.ring.front() {
            Some(first) if first.end == una && !first.is_sacked && blocks.is_empty() => {
                self.on_ack_of_first(now, una)
            }
            _ => self.on_any_ack(now, una, blocks),
        }
    }

    /// The bulk: an ACK of the oldest segment and no other.
    #[inline(always)]
    fn on_ack_of_first(&mut self, now: Instant, una: u64) -> Delivery {
        let bytes = una - self.start;
        let first = &self.ring[0];
        let rtt = (!first.was_resent).then(|| now - first.sent);
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
        // Of the ring: how many are acknowledged in full, and the one delivered that left last.
        let (mut gone, mut newest) = (0, None);
        while let Some(first) = self.ring.get(gone)
            && self.start < una
        {
            let bytes = first.end.min(una) - self.start;
            if first.is_sacked {
                self.sacked -= bytes;
            } else {
                delivered += bytes;
                is_ambiguous |= first.was_resent;
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

    /// What an ACK tells that moved the left edge by `acked` bytes to `una`.
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

    /// Marks the segments in `blocks`, from the one at `from` on. Returns how many bytes are new.
    #[cold]
    fn take_blocks(
        &mut self,
        blocks: &[(u64, u64)],
        from: usize,
        newest: &mut Option<usize>,
    ) -> u64 {
        let before = self.sacked;
        for &(start, end) in blocks {
            // The first that begins at or above `start`: the one behind the first that ends there.
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

    /// The one of two in the ring that left last.
    #[inline]
    fn later(&self, newest: Option<usize>, index: usize) -> Option<usize> {
        let is_older = |known: usize| self.ring[index].sent < self.ring[known].sent;
        newest.filter(|known| is_older(*known)).or(Some(index))
    }
}

/// The least round trip, with another sample.
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

    /// What an ACK tells that the ring without a memory cannot tell is left out.
    fn without_rate(delivery: Delivery) -> Delivery {
        Delivery { rate: None, lost: 0, ..delivery }
    }

    proptest! {
        /// Whatever is sent, sent again over other borders, acknowledged and SACKed, by an application that has too
        /// little to send at times: what an ACK tells is what full records tell, and segments end where records do.
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
                        // New data, or again from somewhere in flight on, perhaps beyond what was sent.
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
                        let told = rated.on_ack(now, una, blocks);
                        prop_assert_eq!(told.rate, known.rate);
                        prop_assert_eq!(without_rate(told), without_rate(known));
                    }
                }
                prop_assert_eq!(light.min_rtt(), full.min_rtt());
                prop_assert_eq!(light.end_of(low), full.end_of(low));
            }
        }
    }
}
