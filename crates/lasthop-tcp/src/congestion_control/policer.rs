//! Long-term bandwidth of Linux's BBR version 1 (`bbr_lt_bw_sampling` in `tcp_bbr.c`): detects a policer, and sends at
//! the rate that it permits.
//!
//! ```text
//!   idle --loss--> sampling --two intervals of equal rate--> in use --48 round trips--> idle
//!                  interval: 4 to 16 round trips; it ends at a loss if 50 segments were lost per 256 delivered
//! ```
//!
//! Two rates are equal if they differ by at most an eighth, or 4 kbps. Their mean is used instead of
//! the maximum delivery rate, with a gain of 1. An application-limited sample ends the sampling.
//!
//! Random losses above 50 / (50 + 256) = 16.3 % have the same effect as a policer; below, the
//! number of losses in an interval has to exceed its mean.
//!
//! *Not modelled*: losses that a timeout declares are known at the following ACK only.

use lasthop_base::units::Instant;

/// Minimum length of an interval in round trips; the maximum is four times as long.
const MIN_ROUNDS: u32 = 4;
/// Lost segments per 256 delivered ones that indicate a policer.
const LOSS_THRESHOLD: u64 = 50;
/// Difference below which two rates are equal, in bytes per second.
const RATE_DIFFERENCE: u64 = 500;
/// Round trips for which the rate is used.
const MAX_ROUNDS: u32 = 48;
const BW_SCALE: u32 = 24;

/// Totals of a connection, in segments, and the time of the latest delivery.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Totals {
    /// Time of the latest delivery.
    pub at: Instant,
    /// Segments delivered since the connection began.
    pub delivered: u64,
    /// Segments declared lost since the connection began.
    pub lost: u64,
}

/// An ACK or a timeout, as the model of policers sees it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Observation {
    pub totals: Totals,
    /// Whether losses were declared.
    pub has_losses: bool,
    /// Whether the rate sample is application-limited.
    pub is_app_limited: bool,
    /// Whether a round trip begins.
    pub is_round_start: bool,
    /// Whether the sender is in PROBE_BW.
    pub probes_bandwidth: bool,
}

/// State of the model.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Policer {
    /// Rate of the previous interval, or the rate in use, in 2^-24 segments per microsecond.
    bandwidth: u64,
    is_in_use: bool,
    is_sampling: bool,
    rounds: u32,
    start: Totals,
}

impl Policer {
    /// Returns the rate that is used instead of the maximum delivery rate, if any, in 2^-24
    /// segments per microsecond.
    pub fn rate(&self) -> Option<u64> {
        self.is_in_use.then_some(self.bandwidth)
    }

    /// Forgets all intervals; the next loss begins a new one.
    pub fn reset(&mut self) {
        *self = Policer::default();
    }

    /// Processes an ACK or a timeout; segments have `segment` bytes. Returns `true` if the use of
    /// the rate has ended.
    pub fn observe(&mut self, seen: &Observation, segment: u64) -> bool {
        if self.is_in_use {
            self.rounds += u32::from(seen.probes_bandwidth && seen.is_round_start);
            let is_over = self.rounds >= MAX_ROUNDS;
            if is_over {
                self.reset();
            }
            return is_over;
        }
        if !self.is_sampling {
            if !seen.has_losses {
                return false;
            }
            self.begin(seen.totals);
            self.is_sampling = true;
        }
        if seen.is_app_limited {
            self.reset();
            return false;
        }
        self.rounds += u32::from(seen.is_round_start);
        if self.rounds > 4 * MIN_ROUNDS {
            self.reset();
        } else if self.rounds >= MIN_ROUNDS && seen.has_losses {
            self.end_interval(seen.totals, segment);
        }
        false
    }

    fn begin(&mut self, totals: Totals) {
        (self.start, self.rounds) = (totals, 0);
    }

    /// Ends the interval if enough segments were lost.
    fn end_interval(&mut self, totals: Totals, segment: u64) {
        let delivered = totals.delivered - self.start.delivered;
        let lost = totals.lost - self.start.lost;
        let millis = |at: Instant| at.as_nanos() / 1_000_000;
        let lasted = millis(totals.at) - millis(self.start.at);
        if delivered == 0 || lost * 256 < LOSS_THRESHOLD * delivered || lasted == 0 {
            return;
        }
        let bandwidth = (delivered << BW_SCALE) / (lasted * 1_000);
        if self.bandwidth > 0 {
            let difference = bandwidth.abs_diff(self.bandwidth);
            let bytes_per_second = (difference * segment * 990_000) >> BW_SCALE;
            if difference * 8 <= self.bandwidth || bytes_per_second <= RATE_DIFFERENCE {
                self.bandwidth = (bandwidth + self.bandwidth) >> 1;
                (self.is_in_use, self.rounds) = (true, 0);
                return;
            }
        }
        self.bandwidth = bandwidth;
        self.begin(totals);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use lasthop_base::units::Duration;

    const SEGMENT: u64 = 1_448;
    /// 2^-24 segments per microsecond for 1,000 segments per second.
    const THOUSAND: u64 = (1 << BW_SCALE) / 1_000;

    /// A connection with round trips of 100 ms, of which each ACK reports one.
    struct Path {
        policer: Policer,
        totals: Totals,
        is_app_limited: bool,
    }

    impl Path {
        fn new() -> Self {
            let (policer, totals) = (Policer::default(), Totals::default());
            Path { policer, totals, is_app_limited: false }
        }

        /// One round trip with these numbers of segments.
        fn round(&mut self, delivered: u64, lost: u64) -> bool {
            self.totals.at += Duration::from_millis(100);
            self.totals.delivered += delivered;
            self.totals.lost += lost;
            let seen = Observation {
                totals: self.totals,
                has_losses: lost > 0,
                is_app_limited: self.is_app_limited,
                is_round_start: true,
                probes_bandwidth: true,
            };
            self.policer.observe(&seen, SEGMENT)
        }
    }

    /// By hand: sampling begins with the first loss, which counts as the first round trip. The
    /// interval ends in the fourth, 300 ms later. The second one has four more, 400 ms. Both have
    /// 100 segments per 100 ms. The mean is used for 48 round trips.
    #[test]
    fn two_equal_intervals_are_a_policer() {
        let mut path = Path::new();
        path.round(100, 0);
        for round in 1..8 {
            path.round(100, 20);
            assert_eq!(path.policer.rate(), None, "round {round}");
        }
        path.round(100, 20);
        assert_eq!(path.policer.rate(), Some(THOUSAND));
        for round in 1..48 {
            assert!(!path.round(80, 0), "round {round}");
            assert_eq!(path.policer.rate(), Some(THOUSAND));
        }
        assert!(path.round(80, 0));
        assert_eq!(path.policer.rate(), None);
    }

    /// 50 of 256 delivered segments are the threshold. An interval with fewer losses continues, and
    /// is discarded after 16 round trips.
    #[test]
    fn fewer_losses_are_not_a_policer() {
        for (lost, expected) in [(49, None), (50, Some(256 * THOUSAND / 100))] {
            let mut path = Path::new();
            for _ in 0..64 {
                path.round(256, lost);
                if path.policer.rate().is_some() {
                    break;
                }
            }
            let rate = path.policer.rate();
            assert_eq!(rate.is_some(), expected.is_some(), "{lost} lost");
            if let (Some(rate), Some(expected)) = (rate, expected) {
                assert!(rate.abs_diff(expected) < 10, "{rate}, {expected}");
            }
        }
    }

    /// Rates that differ by more than an eighth do not agree; those that differ by an eighth do.
    #[test]
    fn unequal_intervals_are_not_a_policer() {
        for (second, agrees) in [(112, true), (113, false), (88, true), (87, false)] {
            let mut path = Path::new();
            for _ in 0..4 {
                path.round(100, 40);
            }
            for _ in 0..4 {
                path.round(second, 40);
            }
            assert_eq!(path.policer.rate().is_some(), agrees, "{second}");
        }
    }

    /// An application-limited sample ends the sampling.
    #[test]
    fn a_limited_application_ends_the_sampling() {
        let mut path = Path::new();
        for round in 0..40 {
            path.is_app_limited = round % 7 == 6;
            path.round(100, 40);
            assert_eq!(path.policer.rate(), None, "round {round}");
        }
    }
}
