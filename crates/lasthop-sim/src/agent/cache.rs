//! Common parts of both forms of Snoop: packets sent to the wireless host in sequence order, and
//! the RTT of the link.

use super::SegmentView;
use lasthop_base::units::{Duration, Instant};
use std::collections::VecDeque;

/// A packet that the wireless host has not acknowledged.
#[derive(Clone, Debug)]
pub(super) struct Entry<P> {
    pub packet: P,
    /// First byte, and the byte after the last.
    pub seq: i64,
    pub end: i64,
    /// Time of its last arrival at the interface queue.
    pub sent: Instant,
    /// Number of this transmission among all transmissions of the connection.
    pub stamp: u64,
    /// Local retransmissions since the last transmission by the sender.
    pub retransmissions: u32,
    /// Whether the sender retransmitted the packet, or it arrived out of sequence: it was lost or
    /// delayed before it reached the agent.
    pub by_sender: bool,
}

/// Extends a 32-bit number to the nearest value to `reference`.
#[inline]
pub(super) fn unwrap(reference: i64, wire: u32) -> i64 {
    reference + i64::from(wire.wrapping_sub(reference as u32) as i32)
}

/// Packets in the order of their first bytes.
#[derive(Clone, Debug)]
pub(super) struct Cache<P> {
    pub entries: VecDeque<Entry<P>>,
}

impl<P: Clone> Cache<P> {
    pub fn new() -> Self {
        Cache { entries: VecDeque::new() }
    }

    /// Returns the oldest packet.
    #[inline]
    pub fn tail(&self) -> Option<&Entry<P>> {
        self.entries.front()
    }

    /// Returns the index of the first packet that does not begin before `seq`. The search starts at
    /// the newest packet, as packets usually arrive in sequence.
    #[inline]
    pub fn place(&self, seq: i64) -> usize {
        self.entries.iter().rposition(|entry| entry.seq < seq).map_or(0, |before| before + 1)
    }

    pub fn insert(&mut self, place: usize, now: Instant, seq: i64, view: &SegmentView, packet: P) {
        let end = seq + i64::from(view.length);
        let (retransmissions, by_sender, stamp) = (0, false, 0);
        let entry = Entry { packet, seq, end, sent: now, stamp, retransmissions, by_sender };
        self.entries.insert(place, entry);
    }

    /// Removes the oldest packet if it ends at or before `ack`.
    #[inline]
    pub fn pop_acked(&mut self, ack: i64) -> Option<Entry<P>> {
        if self.tail()?.end <= ack { self.entries.pop_front() } else { None }
    }
}

/// Smoothed RTT of the link and its deviation, in nanoseconds.
#[derive(Clone, Copy, Debug)]
pub(super) struct RoundTrip {
    srtt: f64,
    rttvar: f64,
    minimum: Duration,
    is_measured: bool,
}

impl RoundTrip {
    pub fn new(srtt: Duration, rttvar: Duration, minimum: Duration) -> Self {
        let [srtt, rttvar] = [srtt, rttvar].map(|time| time.as_nanos() as f64);
        RoundTrip { srtt, rttvar, minimum, is_measured: false }
    }

    /// Returns srtt + 4 rttvar, at least the minimum.
    #[inline]
    pub fn timeout(&self) -> Duration {
        // Rounded down; a cast saturates.
        Duration::from_nanos((self.srtt + 4.0 * self.rttvar) as u64).max(self.minimum)
    }

    /// Adds a sample with the filter of RFC 6298.
    pub fn measure(&mut self, sample: Duration) {
        let sample = sample.as_nanos() as f64;
        if self.is_measured {
            self.rttvar += 0.25 * ((sample - self.srtt).abs() - self.rttvar);
            self.srtt += 0.125 * (sample - self.srtt);
        } else {
            (self.srtt, self.rttvar, self.is_measured) = (sample, sample / 2.0, true);
        }
    }

    /// Adds a sample with the filter of ns-2: srtt has a high weight of the new sample, and the
    /// deviation is relative to the new srtt.
    pub fn measure_ns2(&mut self, sample: Duration) {
        const G: f64 = 0.125;
        if sample == Duration::ZERO {
            return;
        }
        let sample = sample.as_nanos() as f64;
        self.srtt = G * self.srtt + (1.0 - G) * sample;
        let deviation = (sample - self.srtt).abs();
        self.rttvar =
            if self.rttvar == 0.0 { deviation } else { G * deviation + (1.0 - G) * self.rttvar };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_filters_weigh_the_newest_value_differently() {
        let ms = Duration::from_millis;
        let mut rfc = RoundTrip::new(ms(100), ms(250), ms(1));
        assert_eq!(rfc.timeout(), ms(1100));
        rfc.measure(ms(200));
        assert_eq!(rfc.timeout(), ms(200 + 4 * 100));
        // srtt 200 + 80 / 8 = 210, rttvar 100 - (100 - 80) / 4 = 95.
        rfc.measure(ms(280));
        assert_eq!(rfc.timeout(), ms(210 + 4 * 95));
        let mut ns2 = RoundTrip::new(ms(100), ms(250), ms(1));
        // srtt 100 / 8 + 180 * 7 / 8 = 170, rttvar 10 / 8 + 250 * 7 / 8 = 220.
        ns2.measure_ns2(ms(180));
        assert_eq!(ns2.timeout(), ms(170 + 4 * 220));
        let mut none = RoundTrip::new(ms(1), ms(0), ms(100));
        none.measure_ns2(ms(1));
        assert_eq!(none.timeout(), ms(100), "no less than the minimum");
    }

    #[test]
    fn numbers_unwrap_across_the_end_of_32_bits() {
        assert_eq!(unwrap(0xffff_fff0, 5), 0x1_0000_0005);
        assert_eq!(unwrap(0x1_0000_0005, 0xffff_fff0), 0xffff_fff0);
        assert_eq!(unwrap(0, 0xffff_ffff), -1);
    }
}
