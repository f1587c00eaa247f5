//! What was sent: one record for each outstanding segment.
//!
//! Only a connection whose law or loss detection looks back has this ring (`Config::keeps_records`).
//! Records lie in the order of the sequence space, as segments are first sent in that order. A
//! retransmission updates the records that it covers.

use crate::units::{Duration, Instant};
use std::collections::VecDeque;

/// A segment that is outstanding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SentSegment {
    /// First byte.
    pub start: u64,
    /// One past the last byte.
    pub end: u64,
    /// When its latest copy left.
    pub sent: Instant,
    /// Transmissions, the first included.
    pub copies: u32,
    /// Bytes that had been delivered (acknowledged) when its latest copy left.
    pub delivered: u64,
    /// When the latest of those were.
    pub delivered_at: Instant,
}

/// The ring of records, and how much was delivered.
#[derive(Clone, Debug)]
pub(super) struct SentSegments {
    ring: VecDeque<SentSegment>,
    delivered: u64,
    delivered_at: Instant,
}

impl SentSegments {
    pub fn new() -> Self {
        SentSegments { ring: VecDeque::new(), delivered: 0, delivered_at: Instant::ZERO }
    }

    /// Forgets everything but the room that was taken.
    pub fn reset(&mut self) {
        self.ring.clear();
        (self.delivered, self.delivered_at) = (0, Instant::ZERO);
    }

    /// The bytes from `start` to `end` leave.
    pub fn on_sent(&mut self, now: Instant, start: u64, end: u64) {
        let (delivered, delivered_at) = (self.delivered, self.delivered_at);
        let known = self.ring.back().map_or(start, |last| last.end);
        if start < known {
            let first = self.ring.partition_point(|record| record.end <= start);
            for record in self.ring.range_mut(first..) {
                if record.start >= end {
                    break;
                }
                record.sent = now;
                record.copies += 1;
                record.delivered = delivered;
                record.delivered_at = delivered_at;
            }
        }
        if end > known {
            let start = start.max(known);
            self.ring.push_back(SentSegment {
                start,
                end,
                sent: now,
                copies: 1,
                delivered,
                delivered_at,
            });
        }
    }

    /// Everything below `una` is acknowledged. Returns the round-trip time of the last segment that
    /// was, unless one of them had been sent twice (Karn's rule).
    pub fn on_ack(&mut self, now: Instant, una: u64) -> Option<Duration> {
        let mut rtt = None;
        let mut is_ambiguous = false;
        while let Some(first) = self.ring.front_mut() {
            if first.start >= una {
                break;
            }
            is_ambiguous |= first.copies > 1;
            self.delivered += first.end.min(una) - first.start;
            rtt = Some(now - first.sent);
            if first.end > una {
                first.start = una;
                break;
            }
            self.ring.pop_front();
        }
        self.delivered_at = now;
        rtt.filter(|_| !is_ambiguous)
    }

    /// Bytes delivered so far.
    #[cfg(test)]
    pub fn delivered(&self) -> u64 {
        self.delivered
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(millis: u64) -> Instant {
        Instant::from_nanos(millis * 1_000_000)
    }

    #[test]
    fn records_follow_the_sequence_space() {
        let mut sent = SentSegments::new();
        for (at, start) in [(0, 0), (1, 10), (2, 20), (3, 30)] {
            sent.on_sent(ms(at), start, start + 10);
        }
        // The first is acknowledged by itself: its round trip.
        assert_eq!(sent.on_ack(ms(100), 10), Some(Duration::from_millis(100)));
        // The second goes again; what acknowledges it tells no round trip, nor does what else it
        // acknowledges.
        sent.on_sent(ms(110), 10, 20);
        assert_eq!(sent.on_ack(ms(150), 30), None);
        // Half of the last, then the rest; a new one has what was delivered before it left.
        assert_eq!(sent.on_ack(ms(160), 35), Some(Duration::from_millis(157)));
        sent.on_sent(ms(165), 40, 50);
        assert_eq!(sent.on_ack(ms(170), 40), Some(Duration::from_millis(167)));
        assert_eq!(sent.delivered(), 40);
        let last = sent.ring.front().copied().unwrap();
        assert_eq!((last.start, last.copies, last.delivered), (40, 1, 35));
        assert_eq!(last.delivered_at, ms(160));
        assert_eq!(sent.on_ack(ms(200), 50), Some(Duration::from_millis(35)));
        assert_eq!(sent.on_ack(ms(210), 50), None, "nothing is outstanding");
    }

    /// Other borders than those of the first transmission.
    #[test]
    fn a_retransmission_may_cover_parts() {
        let mut sent = SentSegments::new();
        sent.on_sent(ms(0), 0, 10);
        sent.on_sent(ms(0), 10, 20);
        sent.on_sent(ms(5), 5, 25);
        let copies: Vec<_> = sent.ring.iter().map(|r| (r.start, r.end, r.copies)).collect();
        assert_eq!(copies, [(0, 10, 2), (10, 20, 2), (20, 25, 1)]);
    }
}
