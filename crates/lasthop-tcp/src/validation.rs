//! Validation of the congestion window (RFC 7661), and its reduction after an idle period (RFC
//! 5681, section 4.1).
//!
//! ```text
//!   VALIDATED      pipeACK >= cwnd / 2, or undefined: the algorithm grows the window
//!   NOT VALIDATED  cwnd is unchanged; a loss reduces max(pipeACK, outstanding data) instead of cwnd;
//!                  when it is repaired, cwnd is reduced by the fraction of this data that was retransmitted;
//!                  after 5 minutes: ssthresh = max(ssthresh, 3/4 cwnd), cwnd = max(cwnd / 2, initial window)
//!
//!   pipeACK        maximum number of bytes acknowledged in a round trip, over the last max(3 round trips, 1 s);
//!                  undefined before the first sample, and after a loss until the next sample;
//!                  evaluated when a round trip ends, and when the first one after an idle period begins
//!   idle > RTO     cwnd = min(cwnd, initial window), if window validation is off and `restart_after_idle` is on
//! ```
//!
//! *Not modelled*: burst limits (section 4.4.2). A segment retransmitted several times is counted
//! each time.

use lasthop_base::units::{Duration, Instant};

/// Time after which an unused window is reduced (RFC 7661, section 5).
const KEPT: Duration = Duration::from_secs(300);
/// Minimum length of the filter of pipeACK samples.
const SAMPLED: Duration = Duration::from_secs(1);
/// Number of parts of the filter; each part keeps one sample.
const PARTS: usize = 4;

/// pipeACK: maximum number of bytes acknowledged in a recent round trip.
#[derive(Clone, Copy, Debug, Default)]
struct PipeAck {
    /// Sequence numbers at the start and the end of the current round trip. The end is known after
    /// the transmissions triggered by its first ACK.
    round: Option<(u64, Option<u64>)>,
    /// Start time of each part and its maximum sample, newest first.
    samples: [Option<(Instant, u64)>; PARTS],
}

impl PipeAck {
    /// Processes an ACK that advances SND.UNA by `acked` bytes to `una`. Returns `true` if a round
    /// trip ended, or one began after an idle period.
    fn on_ack(&mut self, now: Instant, una: u64, acked: u64, snd_max: u64, srtt: Duration) -> bool {
        let is_first = self.round.is_none();
        let (start, end) = self.round.get_or_insert((una - acked, None));
        let (start, end) = (*start, *end.get_or_insert(snd_max));
        if una < end {
            return is_first;
        }
        self.add(now, una - start, srtt);
        self.round = (una < snd_max).then_some((una, None));
        true
    }

    fn add(&mut self, now: Instant, bytes: u64, srtt: Duration) {
        let part = Duration::from_nanos(Self::period(srtt).as_nanos() / PARTS as u64);
        match &mut self.samples[0] {
            Some((begun, most)) if now < *begun + part => *most = (*most).max(bytes),
            _ => {
                self.samples.rotate_right(1);
                self.samples[0] = Some((now, bytes));
            }
        }
    }

    fn period(srtt: Duration) -> Duration {
        SAMPLED.max(srtt * 3)
    }

    /// Returns pipeACK in bytes; `None` before the first sample.
    fn value(&self, now: Instant, srtt: Duration) -> Option<u64> {
        self.samples[0]?;
        let period = Self::period(srtt);
        let recent = self.samples.iter().flatten().filter(|(begun, _)| now <= *begun + period);
        Some(recent.map(|&(_, bytes)| bytes).max().unwrap_or(0))
    }
}

/// Window and threshold after a long time without use of the window, in segments.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Reduced {
    pub cwnd: f64,
    pub ssthresh: f64,
}

/// Repair of a loss in a window that was not validated.
#[derive(Clone, Copy, Debug)]
pub(super) struct Repair {
    /// SND.MAX at the loss; the repair ends when it is acknowledged.
    pub end: u64,
    /// Number of bytes from which the reduction was computed.
    pub used: u64,
    /// Number of segments retransmitted before.
    pub resent: u64,
}

/// Validation state of a connection with `window_validation`.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Validation {
    pipe_ack: PipeAck,
    /// Time since which the window is not validated.
    unused_since: Option<Instant>,
    pub repair: Option<Repair>,
}

impl Validation {
    /// Processes an ACK that advances SND.UNA by `acked` bytes to `una`, with a window of `window`
    /// bytes. Returns `true` if the window may grow.
    pub fn on_ack(
        &mut self,
        now: Instant,
        (una, acked): (u64, u64),
        snd_max: u64,
        window: u64,
        srtt: Duration,
    ) -> bool {
        if self.pipe_ack.on_ack(now, una, acked, snd_max, srtt) {
            if self.is_validated(now, window, srtt) {
                self.unused_since = None;
            } else {
                self.unused_since.get_or_insert(now);
            }
        }
        self.unused_since.is_none()
    }

    fn is_validated(&self, now: Instant, window: u64, srtt: Duration) -> bool {
        self.pipe_ack.value(now, srtt).is_none_or(|used| 2 * used >= window)
    }

    /// Returns the reduced window when data is sent, if the window has been unused for too long.
    pub fn on_sent(
        &mut self,
        now: Instant,
        cwnd: f64,
        ssthresh: f64,
        initial: f64,
    ) -> Option<Reduced> {
        let since = self.unused_since.filter(|&since| now >= since + KEPT)?;
        // Every 5 minutes.
        self.unused_since = Some(since + KEPT);
        Some(Reduced { cwnd: (cwnd / 2.0).max(initial), ssthresh: ssthresh.max(0.75 * cwnd) })
    }

    /// Processes a loss detected with `outstanding` bytes in flight. Returns the bytes from which
    /// the reduction is computed, or `None` if the algorithm's own value applies.
    pub fn on_loss(
        &mut self,
        now: Instant,
        outstanding: u64,
        window: u64,
        srtt: Duration,
    ) -> Option<u64> {
        let used = self.pipe_ack.value(now, srtt).unwrap_or(0).max(outstanding);
        let is_validated = self.is_validated(now, window, srtt);
        *self = Validation::default();
        (!is_validated).then_some(used)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RTT: Duration = Duration::from_millis(100);

    fn at(millis: u64) -> Instant {
        Instant::from_nanos(millis * 1_000_000)
    }

    /// A window of 20 kB: with 4 kB used per round trip it is unchanged, with 10 kB it may grow.
    #[test]
    fn half_of_the_window_is_enough() {
        for (used, may_grow) in [(4_000, false), (9_999, false), (10_000, true), (20_000, true)] {
            let mut validation = Validation::default();
            let mut una = 1;
            for round in 1..=5 {
                una += used;
                let grows = validation.on_ack(at(100 * round), (una, used), una, 20_000, RTT);
                assert_eq!(grows, may_grow, "{used} in round {round}");
            }
        }
    }

    /// Ten ACKs of 1 kB in a round trip are one sample of 10 kB.
    #[test]
    fn a_sample_is_a_round_trip() {
        let mut pipe = PipeAck::default();
        // At the first ACK, ten segments are outstanding.
        for index in 1..=10 {
            let una = 1 + 1_000 * index;
            pipe.on_ack(at(100 + index), una, 1_000, 10_001 + 1_000 * (index - 1), RTT);
        }
        assert_eq!(pipe.value(at(120), RTT), Some(10_000));
        assert_eq!(pipe.round, Some((10_001, None)));
    }

    #[test]
    fn samples_count_for_a_second_or_three_round_trips() {
        for (srtt, period) in [(RTT, 1_000), (Duration::from_secs(1), 3_000)] {
            let mut pipe = PipeAck::default();
            assert_eq!(pipe.value(at(0), srtt), None);
            pipe.add(at(0), 5_000, srtt);
            pipe.add(at(period / 2), 3_000, srtt);
            assert_eq!(pipe.value(at(period), srtt), Some(5_000));
            assert_eq!(pipe.value(at(period + 1), srtt), Some(3_000));
            assert_eq!(pipe.value(at(2 * period), srtt), Some(0), "no data was acknowledged");
        }
    }

    #[test]
    fn a_loss_reduces_what_was_used() {
        for (used, outstanding, expected) in
            [(4_000, 2_000, Some(4_000)), (4_000, 6_000, Some(6_000)), (12_000, 2_000, None)]
        {
            let mut validation = Validation::default();
            validation.on_ack(at(100), (1 + used, used), 1 + used, 20_000, RTT);
            assert_eq!(validation.on_loss(at(110), outstanding, 20_000, RTT), expected);
            // pipeACK is undefined again: the window may grow until the next sample.
            assert!(validation.is_validated(at(120), 20_000, RTT));
        }
    }

    #[test]
    fn a_window_is_kept_for_five_minutes() {
        let mut validation = Validation::default();
        assert!(!validation.on_ack(at(0), (1_001, 1_000), 1_001, 40_000, RTT));
        assert_eq!(validation.on_sent(at(299_999), 40.0, 20.0, 10.0), None);
        let halved = Some(Reduced { cwnd: 20.0, ssthresh: 30.0 });
        assert_eq!(validation.on_sent(at(300_000), 40.0, 20.0, 10.0), halved);
        assert_eq!(validation.on_sent(at(300_001), 20.0, 30.0, 10.0), None);
        let least = Some(Reduced { cwnd: 10.0, ssthresh: 30.0 });
        assert_eq!(validation.on_sent(at(600_000), 12.0, 30.0, 10.0), least);
    }
}
