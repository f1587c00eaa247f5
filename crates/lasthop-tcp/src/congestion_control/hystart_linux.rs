//! HyStart as Linux's CUBIC has it (Ha and Rhee, "Hybrid Slow Start for High-Bandwidth and Long-Distance Networks",
//! PFLDnet 2008; `tcp_cubic.c`).
//!
//! A round ends when what was sent at its beginning is acknowledged. From a window of 16 segments on, slow start is
//! over as soon as
//!
//! - ACKs that follow one another within 2 ms have gone on for half of the least round trip (and the 1 ms of a
//!   segmentation burst), or for all of it with pacing; or
//! - after eight samples of a round its least round trip exceeds that of the connection by an eighth, held
//!   between 4 and 16 ms.

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
    /// When the latest ACK of the train came.
    last_ack: Instant,
    /// The round ends when this is acknowledged.
    end: u64,
    /// Least round trip of the round.
    least: Duration,
    samples: u32,
}

impl HyStartLinux {
    /// Before the first ACK.
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

    /// Are segments paced?
    pub fn is_paced(&self) -> bool {
        self.is_paced
    }

    /// A round trip of `rtt` was measured in slow start with a window of `cwnd` segments; `min_rtt` is the least of
    /// the connection. Returns whether slow start is over.
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

    /// Plays two rounds of twelve ACKs, `spacing` apart; the first with a round trip of `base` ms, the second of `rtt`.
    /// Returns the number of the ACK of the second that ends slow start.
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
            // 80 / 8 = 10 ms more, and eight samples before one decides.
            (16, 80, 90, 5, false, None),
            (16, 80, 91, 5, false, Some(12 + 9)),
            (15, 80, 200, 5, false, None),
            // The threshold lies between 4 and 16 ms.
            (16, 16, 20, 5, false, None),
            (16, 16, 21, 5, false, Some(12 + 9)),
            (16, 400, 416, 5, false, None),
            (16, 400, 417, 5, false, Some(12 + 9)),
            // ACKs every 2 ms: (19 + 1) / 2 = 10 ms are exceeded by the seventh of the round.
            (16, 19, 19, 2, false, Some(7)),
            (16, 19, 19, 2, true, Some(12)),
            (16, 19, 19, 3, false, None),
        ] {
            assert_eq!(ends_at(cwnd, base, rtt, spacing, is_paced), end, "{cwnd} {base} {rtt}");
        }
    }
}
