//! RACK: losses by time (RFC 8985, section 6).
//!
//! ```text
//!   a segment is delivered           newest = the delivered segment that left last, rtt = its round trip
//!   another left before the newest   lost if now >= its sending + rtt + reordering window
//!   otherwise                        wait for what remains: the reordering timer
//! ```
//!
//! A retransmission has a sending time of its own, so that one that is lost is found as well.
//!
//! The reordering window is zero while no reordering has been seen and either recovery runs or as many
//! segments as DupThresh have been SACKed; otherwise a quarter of the least round trip, times a factor that grows
//! with each round in which a duplicate was reported (DSACK) and that 16 recoveries without one
//! put back, at most SRTT (section 6.2, step 4).

use super::super::sent::{SentSegment, SentSegments};
use lasthop_base::units::{Duration, Instant};

/// What lies between two bursts of a write, at least.
const A_MOMENT: Duration = Duration::from_nanos(1);
/// Recoveries without DSACK after which the factor is 1 again.
const PERSIST: u8 = 16;

/// What RACK remembers of a connection.
#[derive(Clone, Copy, Debug)]
pub struct Rack {
    /// Place among all transmissions and end of the delivered segment that left last (for RACK.xmit_ts, RACK.end_seq:
    /// many segments may leave at the same instant).
    newest: (u64, u64),
    /// Its round trip (RACK.rtt), and the burst in which it left.
    rtt: Duration,
    burst: u32,
    /// Least round trip of the connection (RACK.min_RTT); the longest duration before the first.
    min_rtt: Duration,
    /// One past the highest byte delivered (RACK.fack).
    fack: u64,
    /// RACK.reordering_seen: how many segments were overtaken.
    overtaken: u32,
    /// RACK.reo_wnd_mult.
    factor: u8,
    /// RACK.reo_wnd_persist.
    persist: u8,
    /// The round in which the factor grew ends when this byte is acknowledged (RACK.dsack_round).
    dsack_round: Option<u64>,
    /// Was anything delivered since losses were last looked for?
    has_advanced: bool,
}

/// What a look at the records found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Found {
    /// Segments whose first copy is newly lost.
    pub lost: u32,
    /// Retransmissions that are lost.
    pub lost_again: u32,
    /// After how long to look again; zero if nothing is in doubt.
    pub look_again: Duration,
}

impl Rack {
    /// Nothing has been delivered yet.
    pub fn new() -> Self {
        Rack {
            newest: (0, 0),
            rtt: Duration::ZERO,
            burst: 0,
            min_rtt: Duration::from_nanos(u64::MAX),
            fack: 0,
            overtaken: 0,
            factor: 1,
            persist: PERSIST,
            dsack_round: None,
            has_advanced: false,
        }
    }

    /// A round trip was measured.
    pub fn on_round_trip(&mut self, rtt: Duration) {
        self.min_rtt = self.min_rtt.min(rtt);
    }

    /// `segment` is acknowledged or SACKed for the first time (step 2, RACK_update). `is_original`: the
    /// timestamp in the ACK tells that it answers a copy older than the latest.
    pub fn on_delivered(&mut self, now: Instant, segment: &SentSegment, is_original: bool) {
        let rtt = now - segment.sent;
        if segment.was_retransmitted() && (is_original || rtt < self.min_rtt) {
            return;
        }
        self.has_advanced = true;
        (self.rtt, self.burst) = (rtt, segment.burst);
        self.newest = self.newest.max((segment.order, segment.end));
    }

    /// One past the highest byte delivered.
    pub fn fack(&self) -> u64 {
        self.fack
    }

    /// What had arrived above `una` has been dropped.
    pub fn forget_above(&mut self, una: u64) {
        self.fack = self.fack.min(una);
    }

    /// `segment` is delivered, and everything delivered before this ACK lay below `prior_fack` (step 3,
    /// RACK_detect_reordering).
    pub fn on_order(&mut self, segment: &SentSegment, prior_fack: u64) {
        if segment.end < prior_fack && !segment.was_retransmitted() {
            self.overtaken += 1;
        }
        self.fack = self.fack.max(segment.end);
    }

    /// A duplicate was reported. The factor grows once a round trip, if there has been reordering.
    pub fn on_dsack(&mut self, snd_una: u64, snd_max: u64) {
        let in_round = self.dsack_round.is_some_and(|end| snd_una < end);
        if self.overtaken > 0 && !in_round {
            self.dsack_round = Some(snd_max);
            self.factor = self.factor.saturating_add(1);
            self.persist = PERSIST;
        }
    }

    /// A recovery ended that had repaired losses.
    pub fn on_recovered(&mut self) {
        self.persist = self.persist.saturating_sub(1);
        if self.persist == 0 {
            self.factor = 1;
        }
    }

    /// A reduction was taken back: what is outstanding is looked at again.
    pub fn on_taken_back(&mut self) {
        self.has_advanced = true;
    }

    /// Has reordering been seen?
    #[cfg(test)]
    pub fn reordering_seen(&self) -> bool {
        self.overtaken > 0
    }

    /// Segments that were overtaken.
    pub fn overtaken(&self) -> u32 {
        self.overtaken
    }

    /// Reordering was seen without SACK: more duplicate ACKs than segments can be missing.
    pub fn see_reordering(&mut self) {
        self.overtaken += 1;
    }

    /// How long a segment may be overtaken (step 4, RACK_update_reo_wnd). `is_eager`: recovery runs, or
    /// DupThresh segments have been SACKed.
    pub fn reordering_window(&self, is_eager: bool, srtt: Duration) -> Duration {
        if self.overtaken == 0 && is_eager {
            return Duration::ZERO;
        }
        let quarter = self.min_rtt.as_nanos() / 4;
        Duration::from_nanos(quarter.saturating_mul(self.factor.into()).min(srtt.as_nanos()))
    }

    /// How long `segment` still has before it is lost, or `None` if it is.
    pub fn remaining(
        &self,
        now: Instant,
        segment: &SentSegment,
        window: Duration,
    ) -> Option<Duration> {
        // One that left in a later burst at the same instant left a moment later.
        let is_later = segment.burst.wrapping_sub(self.burst) as i32 > 0;
        let lost_at = segment.sent + self.rtt + window;
        let lost_at = if is_later { lost_at + A_MOMENT } else { lost_at };
        (lost_at > now).then(|| lost_at - now)
    }

    /// Looks for losses if anything was delivered since the last look (step 5).
    pub fn look(&mut self, now: Instant, sent: &mut SentSegments, window: Duration) -> Found {
        if !std::mem::take(&mut self.has_advanced) {
            return Found::default();
        }
        self.detect(now, sent, window)
    }

    /// Marks what is lost (step 5, RACK_detect_loss).
    pub fn detect(&mut self, now: Instant, sent: &mut SentSegments, window: Duration) -> Found {
        let mut found = Found::default();
        let mut index = 0;
        while let Some(segment) = sent.get(index) {
            let is_known = segment.is_lost && !segment.is_resent;
            let is_older = (segment.order, segment.end) < self.newest;
            if !segment.is_sacked && !is_known && is_older {
                match self.remaining(now, segment, window) {
                    Some(remaining) => found.look_again = found.look_again.max(remaining),
                    None => {
                        let is_new = sent.mark_lost(index);
                        found.lost += u32::from(is_new);
                        found.lost_again += u32::from(!is_new);
                    }
                }
            }
            index += 1;
        }
        found
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

    /// Section 6.2, step 4: reordering seen, eager, duplicates in rounds of their own, recoveries after
    /// them, SRTT; the window. The least round trip is 40 ms.
    #[test]
    fn the_reordering_window() {
        for (seen, is_eager, dsacks, recoveries, srtt, window) in [
            (false, true, 0, 0, 100, 0),
            (false, false, 0, 0, 100, 10),
            (true, true, 0, 0, 100, 10),
            (true, false, 0, 0, 100, 10),
            // "the RACK reordering window MUST be bounded, and this bound SHOULD be one SRTT".
            (true, true, 1, 0, 100, 20),
            (true, true, 3, 0, 100, 40),
            (true, true, 20, 0, 100, 100),
            (true, true, 1, 0, 15, 15),
            // Without reordering a DSACK tells nothing of the window.
            (false, false, 3, 0, 100, 10),
            // 16 recoveries.
            (true, true, 3, 15, 100, 40),
            (true, true, 3, 16, 100, 10),
        ] {
            let mut rack = Rack::new();
            rack.on_round_trip(millis(60));
            rack.on_round_trip(millis(40));
            if seen {
                rack.see_reordering();
            }
            for round in 0..dsacks {
                rack.on_dsack(10 * round, 10 * round + 10);
                rack.on_dsack(10 * round + 9, 10 * round + 19);
            }
            for _ in 0..recoveries {
                rack.on_recovered();
            }
            let row = (seen, is_eager, dsacks, recoveries, srtt, window);
            assert_eq!(rack.reordering_window(is_eager, millis(srtt)), millis(window), "{row:?}");
        }
    }

    /// Four segments of ten bytes leave at 0, 1, 2 and 3 ms.
    fn four() -> SentSegments {
        let mut sent = SentSegments::new();
        for at in 0..4 {
            sent.on_sent(ms(at), 10 * at, 10 * at + 10);
        }
        sent
    }

    fn sack(rack: &mut Rack, sent: &mut SentSegments, index: usize, now: Instant) {
        let segment = *sent.get(index).unwrap();
        rack.on_round_trip(now - segment.sent);
        rack.on_delivered(now, &segment, false);
        rack.on_order(&segment, rack.fack());
        sent.mark_sacked(index);
    }

    /// Steps 2 and 5 worked by hand: the third segment is SACKed after 40 ms. The window is 10 ms, so that
    /// the first is lost at 0 + 40 + 10 ms and the second at 1 + 40 + 10; the fourth left later.
    #[test]
    fn what_left_before_the_newest_delivered_is_lost_after_the_window() {
        let mut sent = four();
        let mut rack = Rack::new();
        sack(&mut rack, &mut sent, 2, ms(42));
        let window = rack.reordering_window(false, millis(40));
        assert_eq!(window, millis(10));
        let found = rack.look(ms(42), &mut sent, window);
        assert_eq!(found, Found { lost: 0, lost_again: 0, look_again: millis(9) });
        assert_eq!(rack.look(ms(42), &mut sent, window), Found::default(), "nothing is new");
        let found = rack.detect(ms(50), &mut sent, window);
        assert_eq!(found, Found { lost: 1, lost_again: 0, look_again: millis(1) });
        let found = rack.detect(ms(51), &mut sent, window);
        assert_eq!(found, Found { lost: 1, lost_again: 0, look_again: Duration::ZERO });
        let marks: Vec<_> = (0..4).map(|index| sent.get(index).unwrap().is_lost).collect();
        assert_eq!(marks, [true, true, false, false]);
    }

    /// A retransmission that is lost is found when what left after it is delivered.
    #[test]
    fn a_lost_retransmission_is_found() {
        let mut sent = four();
        let mut rack = Rack::new();
        sack(&mut rack, &mut sent, 1, ms(41));
        assert_eq!(rack.look(ms(41), &mut sent, Duration::ZERO).lost, 1);
        sent.on_sent(ms(41), 0, 10);
        sent.on_sent(ms(45), 40, 50);
        sack(&mut rack, &mut sent, 2, ms(42));
        assert_eq!(rack.look(ms(42), &mut sent, Duration::ZERO), Found::default());
        sack(&mut rack, &mut sent, 4, ms(85));
        let found = rack.look(ms(85), &mut sent, Duration::ZERO);
        assert_eq!((found.lost, found.lost_again), (1, 1), "the fourth, and the first again");
        assert_eq!(sent.first_to_resend().map(|segment| segment.start), Some(0));
    }

    /// What leaves at the same instant, but later, is not older: a retransmission behind new data.
    #[test]
    fn of_what_leaves_at_once_the_later_is_newer() {
        let mut sent = four();
        let mut rack = Rack::new();
        sent.on_sent(ms(41), 40, 50);
        sent.on_sent(ms(41), 0, 10);
        sent.on_sent(ms(41), 50, 60);
        sack(&mut rack, &mut sent, 4, ms(82));
        let found = rack.look(ms(82), &mut sent, Duration::ZERO);
        assert_eq!((found.lost, found.lost_again), (3, 0), "the second, third and fourth");
        sack(&mut rack, &mut sent, 5, ms(82));
        let found = rack.look(ms(82), &mut sent, Duration::ZERO);
        assert_eq!((found.lost, found.lost_again), (1, 0), "the first, once more");
    }

    /// Step 2: an ACK that comes sooner after a retransmission than any round trip answers the original.
    #[test]
    fn an_ambiguous_round_trip_moves_nothing() {
        let mut sent = four();
        let mut rack = Rack::new();
        sack(&mut rack, &mut sent, 1, ms(41));
        rack.look(ms(41), &mut sent, Duration::ZERO);
        sent.on_sent(ms(50), 0, 10);
        let before = rack.newest;
        // 5 ms after its retransmission, below the least round trip of 40 ms.
        let first = *sent.get(0).unwrap();
        rack.on_delivered(ms(55), &first, false);
        assert_eq!(rack.newest, before);
        rack.on_delivered(ms(95), &first, true);
        assert_eq!(rack.newest, before, "by the timestamp the original arrived");
        rack.on_delivered(ms(95), &first, false);
        assert_eq!(rack.newest, (5, 10), "the fifth transmission");
    }

    /// Step 3: only what was never sent again tells of reordering.
    #[test]
    fn reordering_is_seen_in_originals() {
        for (is_resent, seen) in [(false, true), (true, false)] {
            let mut sent = four();
            let mut rack = Rack::new();
            sack(&mut rack, &mut sent, 2, ms(42));
            if is_resent {
                sent.on_sent(ms(45), 0, 10);
            }
            sack(&mut rack, &mut sent, 0, ms(90));
            assert_eq!(rack.reordering_seen(), seen);
        }
    }
}
