//! HyStart++: leaves slow start when the RTT increases (RFC 9406, section 4.2).
//!
//! ```text
//!               minimum RTT of this round >= that of the previous round + RttThresh
//!   SLOW START ----------------------------------------------------------> CSS: 1/4 of the growth
//!        ^                                                                  |  |
//!        +----- minimum RTT of a CSS round below the baseline --------------+  | CSS_ROUNDS rounds
//!                                                                              v
//!                                                                     congestion avoidance
//! ```
//!
//! A round ends when SND.NXT of its beginning (windowEnd) is acknowledged. Its RTT is the minimum
//! of at least eight samples. HyStart++ is used in every slow start, although section 4.3 recommends
//! it only for the initial one. Each slow start begins with reset state, because samples from before
//! a loss or a timeout do not apply to it.

use super::AckSample;
use lasthop_base::units::Duration;

const MIN_RTT_THRESH: Duration = Duration::from_millis(4);
const MAX_RTT_THRESH: Duration = Duration::from_millis(16);
const MIN_RTT_DIVISOR: u64 = 8;
const N_RTT_SAMPLE: u32 = 8;
const CSS_GROWTH_DIVISOR: f64 = 4.0;
const CSS_ROUNDS: u32 = 5;
/// Maximum growth of the window per ACK without pacing, in segments.
const L: f64 = 8.0;

/// Conservative Slow Start in progress.
#[derive(Clone, Copy, Debug)]
struct Css {
    /// cssBaselineMinRtt.
    baseline: Duration,
    /// Number of rounds in CSS, including the round in which it began.
    rounds: u32,
}

/// State of HyStart++. `None` stands for the RFC's infinity: no sample.
#[derive(Clone, Copy, Debug)]
pub struct HyStart {
    /// windowEnd.
    window_end: u64,
    last_round_min: Option<Duration>,
    current_round_min: Option<Duration>,
    samples: u32,
    css: Option<Css>,
    /// Maximum growth per ACK, in segments.
    limit: f64,
}

impl HyStart {
    /// Creates the state before the first ACK.
    pub fn new(is_paced: bool) -> Self {
        HyStart {
            window_end: 0,
            last_round_min: None,
            current_round_min: None,
            samples: 0,
            css: None,
            limit: if is_paced { f64::INFINITY } else { L },
        }
    }

    /// Resets the state: a loss, a mark or a timeout has ended slow start.
    pub fn reset(&mut self) {
        *self = HyStart { limit: self.limit, ..HyStart::new(false) };
    }

    /// Returns `true` in Conservative Slow Start.
    #[cfg(test)]
    pub fn is_conservative(&self) -> bool {
        self.css.is_some()
    }

    /// Processes an ACK in slow start. Returns the growth of the window in segments, and whether
    /// slow start is over.
    pub fn on_ack(&mut self, sample: &AckSample, segment: u64) -> (f64, bool) {
        let mut is_over = false;
        if sample.snd_una > self.window_end {
            is_over = self.end_round();
            self.window_end = sample.snd_max;
        }
        if let Some(rtt) = sample.rtt {
            self.current_round_min =
                Some(self.current_round_min.map_or(rtt, |least| least.min(rtt)));
            self.samples += 1;
        }
        self.look();
        let growth = (sample.acked as f64 / segment as f64).min(self.limit);
        (if self.css.is_some() { growth / CSS_GROWTH_DIVISOR } else { growth }, is_over)
    }

    /// Starts a round. Returns `true` if slow start is over.
    fn end_round(&mut self) -> bool {
        self.last_round_min = self.current_round_min.take();
        self.samples = 0;
        let Some(css) = &mut self.css else { return false };
        css.rounds += 1;
        let is_over = css.rounds > CSS_ROUNDS;
        if is_over {
            self.css = None;
        }
        is_over
    }

    /// Compares the RTT of this round with that of the previous round.
    fn look(&mut self) {
        let (Some(current), true) = (self.current_round_min, self.samples >= N_RTT_SAMPLE) else {
            return;
        };
        match (self.css, self.last_round_min) {
            (Some(css), _) if current < css.baseline => self.css = None,
            (None, Some(last)) => {
                let eighth = Duration::from_nanos(last.as_nanos() / MIN_RTT_DIVISOR);
                if current >= last + eighth.min(MAX_RTT_THRESH).max(MIN_RTT_THRESH) {
                    self.css = Some(Css { baseline: current, rounds: 1 });
                }
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Algorithm, CongestionControl};
    use super::*;
    use crate::presets::{Overrides, Profile, Variant, config};
    use lasthop_base::units::Instant;

    /// Simulates rounds of eight segments. Each row is the RTT of a round in ms, the growth of the
    /// window at its last ACK, and whether slow start ended with the first ACK. The growth is in
    /// units of 1/8 segment, so that 1/4 segment is 2.
    fn play(rows: &[(u64, u64, bool)]) -> HyStart {
        let mut hystart = HyStart::new(false);
        let mut una = 0;
        for (round, &(millis, eighths, over)) in rows.iter().enumerate() {
            let mut ended = false;
            let mut growth = 0.0;
            for _ in 0..8 {
                una += 1000;
                let sample = AckSample {
                    now: Instant::ZERO,
                    acked: 1000,
                    delivered_segments: 1,
                    is_window_limited: true,
                    prior_in_flight: 8000,
                    snd_una: una,
                    // The ninth ACK acknowledges byte `snd_max` of the first ACK.
                    snd_max: una + 7000,
                    rtt: Some(Duration::from_millis(millis)),
                    srtt: Duration::ZERO,
                };
                let (grows, is_over) = hystart.on_ack(&sample, 1000);
                growth = grows;
                ended |= is_over;
            }
            assert_eq!((growth * 8.0, ended), (eighths as f64, over), "round {round}");
        }
        hystart
    }

    #[test]
    fn a_round_trip_that_grows_by_an_eighth_ends_slow_start_after_five_rounds() {
        let hystart = play(&[
            (80, 8, false),
            (89, 8, false),  // The threshold is 80/8 = 10 ms.
            (101, 2, false), // 89 + 11.125: CSS from the eighth sample on, round 1.
            (101, 2, false),
            (110, 2, false),
            (110, 2, false),
            (110, 2, false),
            (110, 8, true), // The sixth: slow start is over, growth is full again.
        ]);
        assert!(!hystart.is_conservative());
    }

    /// A timeout in CSS, in the second round: the following slow start has reset state.
    #[test]
    fn slow_start_after_a_timeout_begins_afresh() {
        let set = Overrides { hystart: Some(true), ..Overrides::default() };
        for variant in [Variant::Reno, Variant::Cubic] {
            let mut algorithm = Algorithm::new(&config(variant, Profile::Rfc, &set), 10.0);
            let ack = |algorithm: &mut Algorithm, una: u64, millis: u64| {
                let before = algorithm.cwnd();
                algorithm.on_ack(&AckSample {
                    now: Instant::ZERO,
                    acked: 1460,
                    delivered_segments: 1,
                    is_window_limited: true,
                    prior_in_flight: 1_000_000,
                    snd_una: 1460 * una,
                    snd_max: 1460 * (una + 7),
                    rtt: Some(Duration::from_millis(millis)),
                    srtt: Duration::ZERO,
                });
                algorithm.cwnd() - before
            };
            for una in 1..16 {
                ack(&mut algorithm, una, if una <= 8 { 80 } else { 100 });
            }
            assert_eq!(ack(&mut algorithm, 16, 100), 0.25, "{variant:?}");
            algorithm.on_timeout(Instant::ZERO, Some(40.0));
            assert_eq!(ack(&mut algorithm, 17, 100), 1.0, "{variant:?}");
        }
    }

    #[test]
    fn a_round_trip_that_falls_again_resumes_slow_start() {
        let hystart = play(&[(80, 8, false), (100, 2, false), (99, 8, false), (99, 8, false)]);
        assert!(!hystart.is_conservative());
    }

    #[test]
    fn the_threshold_lies_between_4_and_16_ms() {
        for (base, quiet, loud) in [(8, 11, 12), (40, 44, 45), (400, 415, 416)] {
            assert!(!play(&[(base, 8, false), (quiet, 8, false)]).is_conservative(), "{base}");
            assert!(play(&[(base, 8, false), (loud, 2, false)]).is_conservative(), "{base}");
        }
    }

    #[test]
    fn seven_samples_decide_nothing_and_an_ack_counts_for_eight_segments() {
        let mut hystart = HyStart::new(false);
        let mut sample = AckSample {
            now: Instant::ZERO,
            acked: 20_000,
            delivered_segments: 1,
            is_window_limited: true,
            prior_in_flight: 20_000,
            snd_una: 1,
            snd_max: 100,
            rtt: Some(Duration::from_millis(10)),
            srtt: Duration::ZERO,
        };
        assert_eq!(hystart.on_ack(&sample, 1000), (8.0, false));
        assert_eq!(HyStart::new(true).on_ack(&sample, 1000), (20.0, false));
        (sample.snd_una, sample.snd_max) = (101, 200);
        sample.rtt = Some(Duration::from_millis(50));
        for count in 1..=8 {
            let (growth, _) = hystart.on_ack(&sample, 1000);
            assert_eq!(growth, if count < 8 { 8.0 } else { 2.0 });
        }
    }
}
