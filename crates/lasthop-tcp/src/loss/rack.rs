//! RACK: time-based loss detection (RFC 8985, section 6).
//!
//! ```text
//!   a segment is delivered                        newest = the delivered segment that was sent last, rtt = its RTT
//!   a segment was sent before the newest          lost if now >= its transmission + rtt + reordering window
//!   otherwise                                     wait for the remaining time: the reordering timer
//! ```
//!
//! A retransmission has its own transmission time, so that its loss is detected as well.
//!
//! The reordering window is zero if no reordering has been observed and either recovery is in
//! progress or DupThresh segments have been SACKed. Otherwise it is 1/4 of the minimum RTT
//! times a factor, at most SRTT. The factor grows in each round trip with a reported duplicate
//! (DSACK). It is reset after 16 recoveries without one (section 6.2, step 4).

use super::super::sent::{SentSegment, SentSegments};
use lasthop_base::units::{Duration, Instant};

/// Time assumed between two bursts of one send call that have equal transmission times.
const A_MOMENT: Duration = Duration::from_nanos(1);
/// Number of recoveries without DSACK after which the factor is reset to 1.
const PERSIST: u8 = 16;

/// RACK state of a connection.
#[derive(Clone, Copy, Debug)]
pub struct Rack {
    /// Transmission order and end of the delivered segment that was sent last. They replace
    /// RACK.xmit_ts and RACK.end_seq, because many segments may be sent at the same time.
    newest: (u64, u64),
    /// RTT of this segment (RACK.rtt), and the burst in which it was sent.
    rtt: Duration,
    burst: u32,
    /// Minimum RTT of the connection (RACK.min_RTT); the maximum duration before the first sample.
    min_rtt: Duration,
    /// One past the highest byte delivered (RACK.fack).
    fack: u64,
    /// Number of segments observed to be reordered (RACK.reordering_seen).
    overtaken: u32,
    /// RACK.reo_wnd_mult.
    factor: u8,
    /// RACK.reo_wnd_persist.
    persist: u8,
    /// End of the round trip in which the factor grew: it ends when this byte is acknowledged
    /// (RACK.dsack_round).
    dsack_round: Option<u64>,
    /// Whether segments were delivered since the latest loss detection.
    has_advanced: bool,
}

/// Result of loss detection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Found {
    /// Number of segments whose first copy is newly declared lost.
    pub lost: u32,
    /// Number of retransmissions declared lost.
    pub lost_again: u32,
    /// Time until the next detection; zero if no segment is pending.
    pub look_again: Duration,
}

impl Rack {
    /// Creates the state before the first delivery.
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

    /// Processes an RTT sample.
    pub fn on_round_trip(&mut self, rtt: Duration) {
        self.min_rtt = self.min_rtt.min(rtt);
    }

    /// Processes the first acknowledgment or SACK of `segment` (step 2, RACK_update). If
    /// `is_original`, the timestamp echoed in the ACK is older than the latest copy of the segment.
    pub fn on_delivered(&mut self, now: Instant, segment: &SentSegment, is_original: bool) {
        let rtt = now - segment.sent;
        if segment.was_retransmitted() && (is_original || rtt < self.min_rtt) {
            return;
        }
        self.has_advanced = true;
        (self.rtt, self.burst) = (rtt, segment.burst);
        self.newest = self.newest.max((segment.order, segment.end));
    }

    /// Returns RACK.fack: one past the highest byte delivered.
    pub fn fack(&self) -> u64 {
        self.fack
    }

    /// Lowers RACK.fack to `una` after the receiver discarded data above it.
    pub fn forget_above(&mut self, una: u64) {
        self.fack = self.fack.min(una);
    }

    /// Checks whether the delivery of `segment` shows reordering. All data delivered before this
    /// ACK is below `prior_fack` (step 3, RACK_detect_reordering).
    pub fn on_order(&mut self, segment: &SentSegment, prior_fack: u64) {
        if segment.end < prior_fack && !segment.was_retransmitted() {
            self.overtaken += 1;
        }
        self.fack = self.fack.max(segment.end);
    }

    /// Processes a reported duplicate. If reordering was observed, the factor grows, at most once
    /// per round trip.
    pub fn on_dsack(&mut self, snd_una: u64, snd_max: u64) {
        let in_round = self.dsack_round.is_some_and(|end| snd_una < end);
        if self.overtaken > 0 && !in_round {
            self.dsack_round = Some(snd_max);
            self.factor = self.factor.saturating_add(1);
            self.persist = PERSIST;
        }
    }

    /// Processes the end of a recovery that repaired losses.
    pub fn on_recovered(&mut self) {
        self.persist = self.persist.saturating_sub(1);
        if self.persist == 0 {
            self.factor = 1;
        }
    }

    /// Requests another loss detection after a reduction was undone.
    pub fn on_undone(&mut self) {
        self.has_advanced = true;
    }

    /// Returns `true` if reordering has been observed.
    #[cfg(test)]
    pub fn reordering_seen(&self) -> bool {
        self.overtaken > 0
    }

    /// Returns the number of reordered segments.
    pub fn overtaken(&self) -> u32 {
        self.overtaken
    }

    /// Records reordering observed without SACK: more duplicate ACKs than segments can be missing.
    pub fn see_reordering(&mut self) {
        self.overtaken += 1;
    }

    /// Returns the reordering window (step 4, RACK_update_reo_wnd). `is_eager` is `true` if
    /// recovery is in progress or DupThresh segments have been SACKed.
    pub fn reordering_window(&self, is_eager: bool, srtt: Duration) -> Duration {
        if self.overtaken == 0 && is_eager {
            return Duration::ZERO;
        }
        let quarter = self.min_rtt.as_nanos() / 4;
        Duration::from_nanos(quarter.saturating_mul(self.factor.into()).min(srtt.as_nanos()))
    }

    /// Returns the time until `segment` is lost, or `None` if it is lost.
    pub fn remaining(
        &self,
        now: Instant,
        segment: &SentSegment,
        window: Duration,
    ) -> Option<Duration> {
        // A segment of a later burst with an equal transmission time counts as sent later.
        let is_later = segment.burst.wrapping_sub(self.burst) as i32 > 0;
        let lost_at = segment.sent + self.rtt + window;
        let lost_at = if is_later { lost_at + A_MOMENT } else { lost_at };
        (lost_at > now).then(|| lost_at - now)
    }

    /// Detects losses if segments were delivered since the latest detection (step 5).
    pub fn look(&mut self, now: Instant, sent: &mut SentSegments, window: Duration) -> Found {
        if !std::mem::take(&mut self.has_advanced) {
            return Found::default();
        }
        self.detect(now, sent, window)
    }

    /// Marks lost segments (step 5, RACK_detect_loss).
    pub fn detect(&mut self, now: Instant, sent: &mut SentSegments, window: Duration) -> Found {
        let mut found = Found::default();
        let mut index = sent.skip_sacked(0);
        while let Some(segment) = sent.get(index) {
            let is_known = segment.is_lost && !segment.is_resent;
            let is_older = (segment.order, segment.end) < self.newest;
            if !is_older && !segment.was_retransmitted() {
                // All later segments were first sent after this one.
                break;
            }
            if !is_known && is_older {
                match self.remaining(now, segment, window) {
                    Some(remaining) => found.look_again = found.look_again.max(remaining),
                    None => {
                        let is_new = sent.mark_lost(index);
                        found.lost += u32::from(is_new);
                        found.lost_again += u32::from(!is_new);
                    }
                }
            }
            index = sent.skip_sacked(index + 1);
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

    /// Section 6.2, step 4. Columns: reordering seen, `is_eager`, rounds with DSACK, recoveries
    /// after them, SRTT, the window. The minimum RTT is 40 ms.
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
            // Without reordering, a DSACK does not change the window.
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

    /// Returns four segments of 10 B, sent at 0, 1, 2 and 3 ms.
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

    /// Steps 2 and 5: the third segment is SACKed after 40 ms. The window is 10 ms, so that the
    /// first is lost at 0 + 40 + 10 ms and the second at 1 + 40 + 10 ms. The fourth was sent later.
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

    /// The loss of a retransmission is detected when a segment sent after it is delivered.
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

    /// Of segments with equal transmission times, the transmission order decides: a retransmission
    /// sent after new data is newer.
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

    /// Step 2: an ACK that arrives less than the minimum RTT after a retransmission acknowledges
    /// the original.
    #[test]
    fn an_ambiguous_round_trip_moves_nothing() {
        let mut sent = four();
        let mut rack = Rack::new();
        sack(&mut rack, &mut sent, 1, ms(41));
        rack.look(ms(41), &mut sent, Duration::ZERO);
        sent.on_sent(ms(50), 0, 10);
        let before = rack.newest;
        // 5 ms after its retransmission, less than the minimum RTT of 40 ms.
        let first = *sent.get(0).unwrap();
        rack.on_delivered(ms(55), &first, false);
        assert_eq!(rack.newest, before);
        rack.on_delivered(ms(95), &first, true);
        assert_eq!(rack.newest, before, "by the timestamp the original arrived");
        rack.on_delivered(ms(95), &first, false);
        assert_eq!(rack.newest, (5, 10), "the fifth transmission");
    }

    /// Step 3: only segments that were never retransmitted show reordering.
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
