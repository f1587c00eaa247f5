//! HyStart as implemented in Linux's CUBIC (Ha and Rhee, "Hybrid Slow Start for High-Bandwidth and
//! Long-Distance Networks", PFLDnet 2008; `tcp_cubic.c`).
//!
//! A round ends when SND.UNA exceeds the SND.MAX of its beginning. If the window has 16 segments or
//! more, slow start ends as soon as one of these conditions holds:
//!
//! - A train of ACKs spaced at most 2 ms has lasted for half of the minimum RTT plus 1 ms (the
//!   duration of a TSO burst). With pacing, it must last for the whole sum.
//! - After eight samples, the minimum RTT of the round exceeds the minimum RTT of the connection by
//!   1/8 of the latter. This threshold is clamped to 4 to 16 ms.

use super::AckSample;
use lasthop_base::units::{Duration, Instant};

const LOW_WINDOW: u32 = 16;
const TRAIN_SPACING: Duration = Duration::from_millis(2);
const BURST: Duration = Duration::from_millis(1);
const MIN_SAMPLES: u32 = 8;
const DELAY_MIN: Duration = Duration::from_millis(4);
const DELAY_MAX: Duration = Duration::from_millis(16);

/// State of the detectors.
#[derive(Clone, Copy, Debug)]
pub struct HyStartLinux {
    is_over: bool,
    is_paced: bool,
    round_start: Instant,
    /// Arrival time of the latest ACK of the train.
    last_ack: Instant,
    /// The round ends when SND.UNA exceeds this sequence number.
    end: u64,
    /// Minimum RTT of the round.
    least: Duration,
    samples: u32,
}

impl HyStartLinux {
    /// Creates the state before the first ACK.
    pub fn new(is_paced: bool) -> Self {
        HyStartLinux {
            is_over: false,
            is_paced,
            round_start: Instant::ZERO,
            last_ack: Instant::ZERO,
            end: 0,
            least: Duration::from_nanos(u64::MAX),
            samples: 0,
        }
    }

    /// Returns `true` if segments are paced.
    pub fn is_paced(&self) -> bool {
        self.is_paced
    }

    /// Processes the RTT sample `rtt` in slow start with a window of `cwnd` segments. `min_rtt` is
    /// the minimum RTT of the connection. Returns `true` if slow start is over.
    pub fn on_ack(
        &mut self,
        sample: &AckSample,
        rtt: Duration,
        min_rtt: Duration,
        cwnd: u32,
    ) -> bool {
        if self.is_over {
            return false;
        }
        let now = sample.now;
        if sample.snd_una > self.end {
            *self = HyStartLinux {
                round_start: now,
                last_ack: now,
                end: sample.snd_max,
                ..HyStartLinux::new(self.is_paced)
            };
        }
        if cwnd < LOW_WINDOW {
            return false;
        }
        if now - self.last_ack <= TRAIN_SPACING {
            self.last_ack = now;
            let whole = (min_rtt + BURST).as_nanos();
            let enough = if self.is_paced { whole } else { whole / 2 };
            self.is_over |= (now - self.round_start).as_nanos() > enough;
        }
        self.least = self.least.min(rtt);
        if self.samples < MIN_SAMPLES {
            self.samples += 1;
        } else {
            let eighth = Duration::from_nanos(min_rtt.as_nanos() / 8);
            self.is_over |= self.least > min_rtt + eighth.max(DELAY_MIN).min(DELAY_MAX);
        }
        self.is_over
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(millis: u64) -> Instant {
        Instant::from_nanos(millis * 1_000_000)
    }

    /// Simulates two rounds of twelve ACKs, one ACK per `spacing`. The RTT is `base` ms in the first
    /// round and `rtt` ms in the second. Returns the number of the ACK that ends slow start,
    /// counted over both rounds.
    fn ends_at(cwnd: u32, base: u64, rtt: u64, spacing: u64, is_paced: bool) -> Option<u64> {
        let mut hystart = HyStartLinux::new(is_paced);
        for (round, millis) in [base, rtt].into_iter().enumerate() {
            for count in 0..12 {
                let una = 12 * round as u64 + count + 1;
                let sample = AckSample {
                    now: ms(1000 * round as u64 + spacing * count),
                    acked: 1,
                    delivered_segments: 1,
                    is_window_limited: true,
                    prior_in_flight: 0,
                    snd_una: una,
                    snd_max: una + 11,
                    rtt: None,
                    srtt: Duration::ZERO,
                };
                let rtt = Duration::from_millis(millis);
                if hystart.on_ack(&sample, rtt, Duration::from_millis(base), cwnd) {
                    return Some(12 * round as u64 + count + 1);
                }
            }
        }
        None
    }

    #[test]
    fn delays_and_trains() {
        for (cwnd, base, rtt, spacing, is_paced, end) in [
            // The threshold is 80 / 8 = 10 ms; the first eight samples have no effect.
            (16, 80, 90, 5, false, None),
            (16, 80, 91, 5, false, Some(12 + 9)),
            (15, 80, 200, 5, false, None),
            // The threshold is clamped to 4 to 16 ms.
            (16, 16, 20, 5, false, None),
            (16, 16, 21, 5, false, Some(12 + 9)),
            (16, 400, 416, 5, false, None),
            (16, 400, 417, 5, false, Some(12 + 9)),
            // ACKs every 2 ms: the seventh of the round exceeds (19 + 1) / 2 = 10 ms.
            (16, 19, 19, 2, false, Some(7)),
            (16, 19, 19, 2, true, Some(12)),
            (16, 19, 19, 3, false, None),
        ] {
            assert_eq!(ends_at(cwnd, base, rtt, spacing, is_paced), end, "{cwnd} {base} {rtt}");
        }
    }
}
