//! Records of sent data: one per outstanding segment.
//!
//! Only a connection whose loss detection needs per-segment records has this ring
//! (`Config::keeps_records`). Records are in order of sequence numbers, in which segments are first
//! sent. A retransmission updates the records that it covers.
//!
//! A record also has the flags of loss detection on whole segments (RFC 8985, section 5.2): SACKed,
//! lost, retransmitted. The records with each flag are counted, so that the number of segments in
//! flight is a subtraction.

use super::congestion_control::{Delivery, RateSample};
use super::rate::{Delivered, DeliveryRate};
use lasthop_base::units::{Duration, Instant};
use std::collections::VecDeque;

mod cuts;
mod marks;
mod searches;

/// An outstanding segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SentSegment {
    /// First byte.
    pub start: u64,
    /// One past the last byte.
    pub end: u64,
    /// Time of the latest transmission.
    pub sent: Instant,
    /// Number of transmissions of the connection up to this one. It orders transmissions at the
    /// same time.
    pub order: u64,
    /// Number of transmissions, including the first.
    pub copies: u32,
    /// Number of the burst of a send call in which it was sent.
    pub burst: u32,
    /// If it is SACKed: number of records from this one on that are known to be SACKed.
    pub run: u32,
    /// Whether the receiver has reported it above a hole.
    pub is_sacked: bool,
    /// Whether it has been declared lost.
    pub is_lost: bool,
    /// Whether a retransmission of it is outstanding.
    pub is_resent: bool,
    /// Whether PSH is set: the receiver should deliver it immediately.
    pub is_pushed: bool,
    /// Whether it ends a GSO segment.
    pub ends_piece: bool,
    /// Whether it ends a socket buffer. Each GSO segment is one until SACK splits or merges it.
    pub ends_buffer: bool,
    /// Whether it ends a record that the application keeps separate from others.
    pub ends_record: bool,
    /// Delivery state at the time of the latest transmission.
    pub before: Delivered,
}

impl SentSegment {
    /// Returns `true` if it was retransmitted.
    pub fn was_retransmitted(&self) -> bool {
        self.copies > 1
    }
}

/// Numbers of records with each flag.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Marks {
    /// SACKed.
    pub sacked: u32,
    /// Lost.
    pub lost: u32,
    /// With an outstanding retransmission.
    pub resent: u32,
}

/// The ring of records, and the data delivered.
#[derive(Clone, Debug)]
pub(super) struct SentSegments {
    ring: VecDeque<SentSegment>,
    marks: Marks,
    /// Number of socket buffers.
    buffers: u32,
    /// Linux: whether a retransmission remains outstanding when the original is declared lost
    /// later.
    keeps_copies: bool,
    /// Original start and end of the oldest segment, if part of it is acknowledged (Linux).
    cut_at: Option<(u64, u64)>,
    /// Number of bursts so far.
    burst: u32,
    /// Number of transmissions so far.
    transmissions: u64,
    rate: DeliveryRate,
    /// Data delivered by the ACK being processed.
    summary: AckSummary,
    /// Bytes of SACKed records.
    sacked: u64,
    /// Minimum RTT so far.
    min_rtt: Option<Duration>,
    /// First bytes of the records that were marked as lost since [`Self::take_lost`].
    lost: Vec<u64>,
    /// No record that ends at or below this byte waits for a retransmission. A search starts here,
    /// so that its cost does not grow with the window.
    none_below: u64,
    /// Latest delivery rate that is valid for the path.
    last_rate: Option<RateSample>,
}

impl SentSegments {
    pub fn new() -> Self {
        SentSegments {
            ring: VecDeque::new(),
            marks: Marks::default(),
            buffers: 0,
            keeps_copies: false,
            cut_at: None,
            burst: 0,
            transmissions: 0,
            summary: AckSummary::default(),
            rate: DeliveryRate::default(),
            sacked: 0,
            min_rtt: None,
            lost: Vec::new(),
            none_below: 0,
            last_rate: None,
        }
    }

    /// Clears all state but keeps the allocated memory.
    pub fn reset(&mut self) {
        self.ring.clear();
        self.lost.clear();
        let (ring, keeps_copies) = (std::mem::take(&mut self.ring), self.keeps_copies);
        let lost = std::mem::take(&mut self.lost);
        *self = SentSegments { ring, keeps_copies, lost, ..SentSegments::new() };
    }

    /// Latest delivery rate in bytes per second, and whether the application limited it.
    pub fn last_delivery_rate(&self) -> Option<(f64, bool)> {
        self.last_rate.map(|rate| (rate.rate(), rate.is_app_limited))
    }

    /// Like [`Self::new`], but counts retransmissions as Linux does. A retransmission whose
    /// original has not been declared lost remains outstanding if that happens later, and counts
    /// twice if the segment is retransmitted once more.
    pub fn as_linux() -> Self {
        SentSegments { keeps_copies: true, ..SentSegments::new() }
    }

    /// Starts a burst: orders subsequent transmissions after all earlier ones, even at the same
    /// time.
    pub fn begin_burst(&mut self) {
        self.burst = self.burst.wrapping_add(1);
    }

    /// Clears the counts of flags if no segment is outstanding, since retransmissions may have been
    /// counted twice.
    pub fn settle(&mut self) {
        if self.ring.is_empty() {
            self.marks = Marks::default();
        }
    }

    /// Number of outstanding segments.
    pub fn len(&self) -> u32 {
        self.ring.len() as u32
    }

    /// Numbers of records with each flag.
    pub fn marks(&self) -> Marks {
        self.marks
    }

    /// The record at `index`, counted from the oldest.
    pub fn get(&self, index: usize) -> Option<&SentSegment> {
        self.ring.get(index)
    }

    /// The newest record.
    pub fn last(&self) -> Option<&SentSegment> {
        self.ring.back()
    }

    /// Index of the first record that ends above `seq`.
    pub fn index_of(&self, seq: u64) -> usize {
        self.ring.partition_point(|record| record.end <= seq)
    }

    /// End of the record that starts at `seq`, if any.
    pub fn end_of(&self, seq: u64) -> Option<u64> {
        let record = self.ring.get(self.index_of(seq))?;
        (record.start == seq).then_some(record.end)
    }

    /// Removes the oldest record if it ends at or below `una`.
    #[inline]
    pub fn pop_below(&mut self, una: u64) -> Option<SentSegment> {
        if self.ring.front()?.end > una {
            return None;
        }
        let first = self.ring.pop_front()?;
        self.marks.sacked -= u32::from(first.is_sacked);
        self.marks.lost -= u32::from(first.is_lost);
        self.marks.resent -= u32::from(first.is_resent);
        self.buffers -= u32::from(first.ends_buffer);
        let bytes = first.end - first.start;
        if first.is_sacked {
            self.sacked -= bytes;
        } else {
            self.summary.add(&first, bytes);
        }
        Some(first)
    }

    /// Records the transmission of the bytes `[start, end)`.
    pub fn on_sent(&mut self, now: Instant, start: u64, end: u64) {
        let before = self.rate.on_sent(now, self.in_flight(), end - start);
        let known = self.ring.back().map_or(start, |last| last.end);
        self.transmissions += 1;
        let order = self.transmissions;
        if start < known {
            let first = self.ring.partition_point(|record| record.end <= start);
            for record in self.ring.range_mut(first..) {
                if record.start >= end {
                    break;
                }
                record.sent = now;
                record.order = order;
                record.burst = self.burst;
                record.copies += 1;
                let was_retransmitted = std::mem::replace(&mut record.is_resent, true);
                self.marks.resent += u32::from(!was_retransmitted || self.keeps_copies);
                record.before = before;
            }
        }
        if end > known {
            let start = start.max(known);
            self.ring.push_back(SentSegment {
                start,
                end,
                sent: now,
                order,
                copies: 1,
                burst: self.burst,
                run: 1,
                is_sacked: false,
                is_lost: false,
                is_resent: false,
                is_pushed: false,
                ends_piece: false,
                ends_buffer: false,
                ends_record: false,
                before,
            });
        }
    }

    /// Ends the GSO segment with the newest segment. `is_pushed`: whether the receiver should
    /// deliver it immediately.
    pub fn end_piece(&mut self, is_pushed: bool) {
        if let Some(newest) = self.ring.back_mut() {
            newest.is_pushed = is_pushed;
            (newest.ends_piece, newest.ends_buffer) = (true, true);
            self.buffers += 1;
        }
    }

    /// Ends an application record with the newest segment.
    pub fn end_record(&mut self) {
        if let Some(newest) = self.ring.back_mut() {
            newest.ends_record = true;
        }
    }

    /// Number of socket buffers with outstanding data, at a host that sends GSO segments.
    pub fn buffers(&self) -> u32 {
        self.buffers
    }

    /// Minimum RTT so far.
    pub fn min_rtt(&self) -> Option<Duration> {
        self.min_rtt
    }

    /// Records that the application, not the windows, limits transmission.
    pub fn on_app_limited(&mut self) {
        self.rate.on_app_limited(self.in_flight());
    }

    /// Sets the number of bytes declared lost so far.
    pub fn on_losses(&mut self, lost: u64) {
        self.rate.on_losses(lost);
    }

    /// Bytes sent that are neither acknowledged nor SACKed.
    fn in_flight(&self) -> u64 {
        let outstanding = self
            .ring
            .front()
            .zip(self.ring.back())
            .map_or(0, |(first, last)| last.end - first.start);
        outstanding - self.sacked
    }

    /// Processes an ACK for all data below `una`, with SACK `blocks`. The RTT is measured with the
    /// latest segment below `una`, unless a newly acknowledged one was retransmitted (Karn's
    /// algorithm).
    pub fn on_ack(&mut self, now: Instant, una: u64, blocks: &[(u64, u64)]) -> Delivery {
        let (mut rtt, mut is_ambiguous) = (None, false);
        let outstanding = self.ring.front().map_or(una, |first| first.start);
        while let Some(first) = self.pop_below(una) {
            if !first.is_sacked {
                is_ambiguous |= first.was_retransmitted();
                rtt = Some(now - first.sent);
            }
        }
        if let Some(first) = self.ring.front().filter(|first| first.start < una)
            && !first.is_sacked
        {
            is_ambiguous |= first.was_retransmitted();
            rtt = Some(now - first.sent);
        }
        self.trim(una);
        for &(start, end) in blocks {
            let mut index = self.ring.partition_point(|record| record.start < start);
            while let Some(record) = self.ring.get(index).filter(|record| record.end <= end) {
                if !record.is_sacked {
                    self.mark_sacked(index);
                }
                index += 1;
            }
        }
        let acked = una.saturating_sub(outstanding);
        self.delivery(now, una, acked, rtt.filter(|_| !is_ambiguous))
    }

    /// Removes the part of the oldest record below `una`, which is acknowledged.
    pub fn trim(&mut self, una: u64) {
        if let Some(first) = self.ring.front_mut()
            && first.start < una
        {
            let bytes = una - first.start;
            if first.is_sacked {
                self.sacked -= bytes;
            } else {
                self.summary.add(first, bytes);
            }
            first.start = una;
        }
    }

    /// Returns the data delivered by the ACK being processed. It advanced SND.UNA by `acked` bytes
    /// to `una` and yields the RTT sample `rtt`.
    pub fn delivery(
        &mut self,
        now: Instant,
        una: u64,
        acked: u64,
        rtt: Option<Duration>,
    ) -> Delivery {
        let summary = std::mem::take(&mut self.summary);
        let newest = summary.newest.as_ref().map(|(sent, before)| (*sent, before));
        if let Some(rtt) = rtt {
            self.min_rtt = Some(self.min_rtt.map_or(rtt, |least| least.min(rtt)));
        }
        let rate = self.rate.on_ack(now, summary.bytes, newest, self.min_rtt);
        // A sample limited by the application is used if it is higher (Linux: `tcp_rate_gen`).
        let tells = |rate: &RateSample| {
            !rate.is_app_limited || self.last_rate.is_none_or(|last| rate.rate() >= last.rate())
        };
        self.last_rate = rate.filter(tells).or(self.last_rate);
        Delivery {
            now,
            acked,
            delivered: summary.bytes,
            rate,
            total: self.rate.total(),
            in_flight: self.in_flight(),
            rtt,
            is_marked: false,
            passage: None,
            lost: self.rate.lost(),
            snd_una: una,
            snd_max: self.ring.back().map_or(una, |last| last.end),
        }
    }
}

/// Data delivered by an ACK.
#[derive(Clone, Copy, Debug, Default)]
struct AckSummary {
    bytes: u64,
    /// Time of the latest transmission among these segments, and the delivery state at that time.
    newest: Option<(Instant, Delivered)>,
}

impl AckSummary {
    fn add(&mut self, record: &SentSegment, bytes: u64) {
        self.bytes += bytes;
        if self.newest.is_none_or(|(sent, _)| record.sent >= sent) {
            self.newest = Some((record.sent, record.before));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(millis: u64) -> Instant {
        Instant::from_nanos(millis * 1_000_000)
    }

    fn millis(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    #[test]
    fn records_follow_the_sequence_space() {
        let mut sent = SentSegments::new();
        for (at, start) in [(0, 0), (1, 10), (2, 20), (3, 30)] {
            sent.on_sent(ms(at), start, start + 10);
        }
        // An ACK of the first segment only yields its RTT.
        assert_eq!(sent.on_ack(ms(100), 10, &[]).rtt, Some(millis(100)));
        // The second segment is retransmitted. An ACK that covers it yields no RTT sample, even if
        // it covers others.
        sent.on_sent(ms(110), 10, 20);
        assert_eq!(sent.on_ack(ms(150), 30, &[]).rtt, None);
        // Half of the last segment is acknowledged, then the rest. A new segment stores the data
        // delivered before it was sent.
        assert_eq!(sent.on_ack(ms(160), 35, &[]).rtt, Some(millis(157)));
        sent.on_sent(ms(165), 40, 50);
        let delivery = sent.on_ack(ms(170), 40, &[]);
        assert_eq!((delivery.rtt, delivery.total), (Some(millis(167)), 40));
        let last = sent.ring.front().copied().unwrap();
        assert_eq!((last.start, last.copies, last.before.bytes), (40, 1, 35));
        assert_eq!(last.before.at, ms(160));
        assert_eq!(sent.on_ack(ms(200), 50, &[]).rtt, Some(millis(35)));
        assert_eq!(sent.on_ack(ms(210), 50, &[]).rtt, None, "nothing is outstanding");
    }

    /// The retransmission has other segment boundaries than the first transmission.
    #[test]
    fn a_retransmission_may_cover_parts() {
        let mut sent = SentSegments::new();
        sent.on_sent(ms(0), 0, 10);
        sent.on_sent(ms(0), 10, 20);
        sent.on_sent(ms(5), 5, 25);
        let copies: Vec<_> = sent.ring.iter().map(|r| (r.start, r.end, r.copies)).collect();
        assert_eq!(copies, [(0, 10, 2), (10, 20, 2), (20, 25, 1)]);
    }

    /// SACKed data counts once, when it is SACKed. A later cumulative acknowledgment does not count
    /// it again.
    #[test]
    fn sacked_bytes_are_delivered_once() {
        let mut sent = SentSegments::new();
        for index in 0..4 {
            sent.on_sent(ms(0), 10 * index, 10 * index + 10);
        }
        let seen = |delivery: Delivery| {
            let Delivery { acked, delivered, total, in_flight, .. } = delivery;
            (acked, delivered, total, in_flight)
        };
        assert_eq!(seen(sent.on_ack(ms(10), 0, &[(20, 30)])), (0, 10, 10, 30));
        assert_eq!(seen(sent.on_ack(ms(11), 0, &[(30, 40), (20, 30)])), (0, 10, 20, 20));
        assert_eq!(seen(sent.on_ack(ms(12), 10, &[(20, 40)])), (10, 10, 30, 10));
        sent.on_sent(ms(13), 10, 20);
        let last = sent.on_ack(ms(25), 40, &[]);
        assert_eq!((seen(last), last.rtt), ((30, 10, 40, 0), None));
    }

    /// Two segments every 10 ms with an RTT of 30 ms: 2 kB per 10 ms, however ACKs arrive.
    #[test]
    fn the_rate_is_that_of_the_bottleneck_even_if_acks_come_together() {
        let mut sent = SentSegments::new();
        let mut una = 0;
        let mut rates = Vec::new();
        for slot in 0..20u64 {
            // One ACK covers three slots.
            if slot >= 3 && slot % 3 == 0 {
                una = (slot - 2) * 2_000;
                rates.push(sent.on_ack(ms(10 * slot), una, &[]).rate.unwrap().rate());
            }
            for half in 0..2 {
                let start = slot * 2_000 + half * 1_000;
                sent.on_sent(ms(10 * slot), start, start + 1_000);
            }
        }
        assert!(una > 0 && rates.len() == 6);
        // The first ACK covers one slot of three.
        assert!(rates[1..].iter().all(|rate| *rate <= 200_000.0 + 1.0), "{rates:?}");
        assert!((rates[5] - 200_000.0).abs() < 1.0, "{rates:?}");
    }

    /// Six GSO segments of two segments each, at a host that sends them. SACKed neighbours share a
    /// socket buffer; a hole within a GSO segment splits it.
    #[test]
    fn socket_buffers_of_sacked_neighbours_are_merged() {
        let mut sent = SentSegments::as_linux();
        for number in 0..12 {
            sent.on_sent(ms(number), number * 1_000, (number + 1) * 1_000);
            if number % 2 == 1 {
                sent.end_piece(true);
            }
        }
        assert_eq!(sent.buffers(), 6);
        let cases = [
            // 01 2|3 45 67 89 ab: a split, and no neighbour.
            ((3_000, 4_000), 7),
            // 01 2|345 67 89 ab: the second GSO segment joins the first half of it.
            ((3_000, 6_000), 6),
            // 01 2|345 67 8|9 ab
            ((9_000, 10_000), 7),
            // 01 2|345 67 8|9ab
            ((9_000, 12_000), 6),
            // 01 2|3456789ab: the hole is filled, so that both ranges are one.
            ((3_000, 12_000), 3),
        ];
        for (block, buffers) in cases {
            sent.on_ack(ms(20), 0, &[block]);
            assert_eq!(sent.buffers(), buffers, "{block:?}");
        }
        // The first GSO segment and half of the second one are acknowledged.
        sent.on_ack(ms(30), 3_000, &[]);
        assert_eq!(sent.buffers(), 1);
        sent.on_ack(ms(31), 12_000, &[]);
        assert_eq!(sent.buffers(), 0);
    }

    #[test]
    fn samples_of_an_idle_application_are_marked() {
        let mut sent = SentSegments::new();
        sent.on_sent(ms(0), 0, 1_000);
        sent.on_app_limited();
        sent.on_sent(ms(1), 1_000, 2_000);
        assert!(!sent.on_ack(ms(20), 1_000, &[]).rate.unwrap().is_app_limited);
        // Sent when the application had provided no other data than the first segment.
        let marked = sent.on_ack(ms(21), 2_000, &[]).rate.unwrap();
        assert!(marked.is_app_limited);
        sent.on_sent(ms(30), 2_000, 3_000);
        assert!(!sent.on_ack(ms(50), 3_000, &[]).rate.unwrap().is_app_limited);
    }
}
