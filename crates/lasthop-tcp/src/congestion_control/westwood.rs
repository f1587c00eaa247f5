//! Westwood (Mascolo, Casetti, Gerla, Sanadidi, Wang, "TCP Westwood: Bandwidth Estimation for Enhanced Transport over
//! Wireless Links", MobiCom 2001) and Westwood+ (Grieco, Mascolo, "Performance Evaluation and Comparison of Westwood+,
//! New Reno, and Vegas TCP Congestion Control", CCR 34(2), 2004).
//!
//! ```text
//!   every ACK     b_k = data acknowledged / time since the previous ACK          (Westwood)
//!                 b_k = data acknowledged in a round trip / its duration         (Westwood+)
//!                 bwe = filter(b_k)
//!   new ACK       as Reno
//!   congestion    ssthresh = bwe * rtt_min / segment, at least 2; cwnd = min(cwnd, ssthresh)
//!   timeout       ssthresh as for congestion; cwnd = 1
//! ```
//!
//! The filter of Westwood+ is bwe = 0.9 bwe + 0.1 b_k. Westwood uses the Tustin approximation of a
//! low-pass filter, bwe = ((2T - dt) bwe + dt (b_k + b_(k-1))) / (2T + dt), with T = 1 s as in its
//! ns-2 module (0.5 s in the paper). For each T/2 without an ACK, a sample of zero is added. A
//! duplicate ACK counts as one segment. A later ACK that covers these segments does not count them
//! again (AckedCount of the paper). As in the ns-2 module, an ACK counts as at most two segments in
//! Westwood, so that lost ACKs bias the estimate low.
//!
//! *Not modelled*: a coarse clock for rtt_min; other filters of the ns-2 module.

use super::super::config::{Config, RecoveryKind};
use super::bandwidth::MinRtt;
use super::family::AlgorithmKeys;
use super::sample::Delivery;
use super::window::{Cause, Window, WindowLaw, window_field};
use lasthop_base::schema::keys::{Limits, table};
use lasthop_base::units::{Duration, Instant};

table! {
    /// Westwood+: after a loss the threshold is computed from a bandwidth estimate with one sample
    /// per round trip.
    pub struct WestwoodPlusKeys as "westwood-plus" {}
}

table! {
    /// Westwood: after a loss the threshold is computed from a bandwidth estimate with one sample
    /// per ACK.
    pub struct WestwoodKeys as "westwood" {
        /// Time constant of the filter.
        time_constant: Duration = "1 s", Limits::POSITIVE;
    }
}

impl Copy for WestwoodPlusKeys {}
impl Copy for WestwoodKeys {}

impl AlgorithmKeys for WestwoodPlusKeys {
    type Machine = Westwood<PerRound>;

    /// Used by the authors.
    const RECOVERY: [RecoveryKind; 2] = [RecoveryKind::NewReno; 2];

    fn build(&self, config: &Config, cwnd: f64) -> Westwood<PerRound> {
        Westwood::new(config, cwnd, PerRound::default())
    }
}

impl AlgorithmKeys for WestwoodKeys {
    type Machine = Westwood<PerAck>;

    /// Used by the authors.
    const RECOVERY: [RecoveryKind; 2] = [RecoveryKind::NewReno; 2];

    fn build(&self, config: &Config, cwnd: f64) -> Westwood<PerAck> {
        Westwood::new(config, cwnd, PerAck::new(self.time_constant))
    }
}

/// Bandwidth estimator; rates are in bytes per second.
pub trait Estimator {
    /// Maximum number of segments that an ACK counts as.
    const MOST: u64;

    /// Processes an ACK that counts as `bytes`; `rtt` is the latest RTT sample.
    fn add(&mut self, now: Instant, bytes: u64, rtt: Duration);

    /// Returns the estimate; zero before the first sample.
    fn rate(&self) -> f64;
}

/// One sample per round trip (Westwood+).
#[derive(Clone, Copy, Debug, Default)]
pub struct PerRound {
    rate: f64,
    bytes: u64,
    began: Option<Instant>,
}

impl Estimator for PerRound {
    const MOST: u64 = u64::MAX;

    fn add(&mut self, now: Instant, bytes: u64, rtt: Duration) {
        let Some(began) = self.began else {
            self.began = Some(now);
            return;
        };
        self.bytes += bytes;
        let interval = now - began;
        if interval >= rtt && interval > Duration::ZERO {
            let sample = self.bytes as f64 / interval.as_secs_f64();
            self.rate = if self.rate == 0.0 { sample } else { 0.9 * self.rate + 0.1 * sample };
            (self.bytes, self.began) = (0, Some(now));
        }
    }

    fn rate(&self) -> f64 {
        self.rate
    }
}

/// One sample per ACK (Westwood).
#[derive(Clone, Copy, Debug)]
pub struct PerAck {
    /// Time constant in seconds.
    time_constant: f64,
    rate: f64,
    last_sample: f64,
    last: Option<Instant>,
    /// Bytes of ACKs that arrived at the same time as the latest sample.
    pending: u64,
}

impl PerAck {
    /// Creates the estimator before the first ACK.
    pub fn new(time_constant: Duration) -> Self {
        let time_constant = time_constant.as_secs_f64();
        PerAck { time_constant, rate: 0.0, last_sample: 0.0, last: None, pending: 0 }
    }

    fn filter(&mut self, sample: f64, interval: f64) {
        let twice = 2.0 * self.time_constant;
        let sum = interval * (sample + self.last_sample);
        self.rate = ((twice - interval) * self.rate + sum) / (twice + interval);
        self.last_sample = sample;
    }
}

impl Estimator for PerAck {
    const MOST: u64 = 2;

    fn add(&mut self, now: Instant, bytes: u64, _rtt: Duration) {
        let Some(last) = self.last else {
            self.last = Some(now);
            return;
        };
        self.pending += bytes;
        let mut interval = (now - last).as_secs_f64();
        if interval == 0.0 {
            return;
        }
        let half = self.time_constant / 2.0;
        while interval > half && self.rate > f64::MIN_POSITIVE {
            self.filter(0.0, half);
            interval -= half;
        }
        let sample = self.pending as f64 / (now - last).as_secs_f64();
        self.filter(sample, interval.min(half));
        (self.last, self.pending) = (Some(now), 0);
    }

    fn rate(&self) -> f64 {
        self.rate
    }
}

/// Number of segments that an ACK acknowledges and that were not counted before (AckedCount).
#[derive(Clone, Copy, Debug, Default)]
struct AckedCount {
    /// Segments counted at duplicate ACKs.
    accounted: u64,
}

impl AckedCount {
    /// Returns the number of segments to count. `acked` is the number of segments by which SND.UNA
    /// advances, 0 for a duplicate ACK.
    fn count(&mut self, acked: u64) -> u64 {
        if acked == 0 {
            self.accounted += 1;
            return 1;
        }
        if acked == 1 {
            return 1;
        }
        if self.accounted >= acked {
            self.accounted -= acked;
            return 1;
        }
        let count = acked - self.accounted;
        self.accounted = 0;
        count
    }
}

/// Westwood's window with a bandwidth estimator.
#[derive(Clone, Copy, Debug)]
pub struct Westwood<E> {
    window: Window,
    estimator: E,
    acked_count: AckedCount,
    min_rtt: MinRtt,
    rtt: Duration,
}

impl<E: Estimator> Westwood<E> {
    fn new(config: &Config, cwnd: f64, estimator: E) -> Self {
        Westwood {
            window: Window::new(config, cwnd),
            estimator,
            acked_count: AckedCount::default(),
            min_rtt: MinRtt::default(),
            rtt: Duration::ZERO,
        }
    }
}

impl<E: Estimator> WindowLaw for Westwood<E> {
    window_field!();

    fn threshold(&mut self, _now: Instant, _cause: Cause, in_use: f64) -> f64 {
        let carried = self.min_rtt.segments_at(self.estimator.rate(), self.window.segment());
        carried.filter(|_| self.estimator.rate() > 0.0).unwrap_or(in_use / 2.0)
    }

    fn measure(&mut self, delivery: &Delivery) {
        self.min_rtt.add(delivery.rtt);
        self.rtt = delivery.rtt.unwrap_or(self.rtt);
        let segment = self.window.segment();
        let count = self.acked_count.count(delivery.acked.div_ceil(segment)).min(E::MOST);
        self.estimator.add(delivery.now, count * segment, self.rtt);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SEGMENT: u64 = 1000;

    fn ms(millis: f64) -> Instant {
        Instant::from_nanos((millis * 1e6).round() as u64)
    }

    /// Returns the estimate after ACKs of `bytes` each at `times` (ms), with an RTT of 100 ms.
    fn estimate(
        estimator: &mut impl Estimator,
        times: impl Iterator<Item = f64>,
        bytes: u64,
    ) -> f64 {
        for at in times {
            estimator.add(ms(at), bytes, Duration::from_millis(100));
        }
        estimator.rate()
    }

    /// 1 kB every 10 ms is 100 kB/s for both estimators.
    #[test]
    fn a_constant_rate_is_found() {
        let times = || (0..2000).map(|index| 10.0 * f64::from(index));
        let plus = estimate(&mut PerRound::default(), times(), SEGMENT);
        assert!((plus / 1e5 - 1.0).abs() < 1e-9, "{plus}");
        let original = estimate(&mut PerAck::new(Duration::from_secs(1)), times(), SEGMENT);
        assert!((original / 1e5 - 1.0).abs() < 1e-6, "{original}");
    }

    /// Westwood+ with rounds of 100 ms: first 10 kB, then 20 kB each. After n of the latter, the
    /// estimate is 200 - 100 * 0.9^n kB/s.
    #[test]
    fn a_step_is_followed_by_a_tenth_a_round() {
        let mut plus = PerRound::default();
        estimate(&mut plus, (0..=100).map(|index| 10.0 * f64::from(index)), SEGMENT);
        for round in 1..=20 {
            let base = 1000.0 + 100.0 * f64::from(round - 1);
            let rate = estimate(&mut plus, (1..=20).map(|k| base + 5.0 * f64::from(k)), SEGMENT);
            let by_hand = 2e5 - 1e5 * 0.9f64.powi(round);
            assert!((rate - by_hand).abs() < 1e-3, "{round}: {rate} {by_hand}");
        }
    }

    /// Compressed ACKs: ten ACKs, 0.1 ms apart, every 100 ms. The rate is 100 kB/s. An estimator
    /// with one sample per ACK overestimates it; an estimator with one sample per round trip does
    /// not.
    #[test]
    fn ack_compression_misleads_the_sample_an_ack_only() {
        let times = || (0..3000).map(|k| f64::from(k / 10) * 100.0 + f64::from(k % 10) * 0.1);
        let plus = estimate(&mut PerRound::default(), times(), SEGMENT);
        assert!((plus / 1e5 - 1.0).abs() < 0.02, "{plus}");
        let mut original = PerAck::new(Duration::from_millis(10));
        let highest = times().fold(0.0f64, |highest, at| {
            original.add(ms(at), SEGMENT, Duration::from_millis(100));
            highest.max(original.rate())
        });
        assert!(highest > 2e5, "{highest}");
    }

    /// 30 % of the ACKs are lost, so that others acknowledge several segments. Segments beyond the
    /// limit per ACK are not counted.
    #[test]
    fn lost_acks_bias_the_capped_count_low() {
        let (mut plus, mut original) = (PerRound::default(), PerAck::new(Duration::from_secs(1)));
        let mut missing = 0;
        for index in 0..5000u64 {
            missing += 1;
            // Three of ten, consecutive.
            if index % 10 < 3 {
                continue;
            }
            let (now, rtt) = (ms(10.0 * index as f64), Duration::from_millis(100));
            plus.add(now, missing * SEGMENT, rtt);
            original.add(now, missing.min(PerAck::MOST) * SEGMENT, rtt);
            missing = 0;
        }
        assert!((plus.rate() / 1e5 - 1.0).abs() < 0.05, "{}", plus.rate());
        assert!(original.rate() < 0.9e5, "{}", original.rate());
    }

    /// Intervals of T/2 without ACKs add zeros: (2 - 0.5) / (2 + 0.5) = 3/5 of the estimate plus
    /// 1/5 of the last sample.
    #[test]
    fn silence_lowers_the_estimate() {
        let mut original = PerAck::new(Duration::from_secs(1));
        estimate(&mut original, (0..2000).map(|index| 10.0 * f64::from(index)), SEGMENT);
        original.filter(0.0, 0.5);
        assert!((original.rate() - (0.6e5 + 0.2e5)).abs() < 1.0, "{}", original.rate());
        original.filter(0.0, 0.5);
        assert!((original.rate() - 0.48e5).abs() < 1.0, "{}", original.rate());
    }

    /// Four segments, the first lost: three duplicates count as one segment each, the ACK of four
    /// as one.
    #[test]
    fn what_duplicates_counted_does_not_count_again() {
        let mut count = AckedCount::default();
        let counts: Vec<_> =
            [1, 0, 0, 0, 4, 1, 2, 0, 0, 2].map(|acked| count.count(acked)).to_vec();
        assert_eq!(counts, [1, 1, 1, 1, 1, 1, 2, 1, 1, 1]);
    }

    /// 100 kB/s over 50 ms is five segments: a window of 20 falls to 5, a window of 4 is unchanged.
    #[test]
    fn the_threshold_is_what_the_estimate_carries() {
        use crate::congestion_control::{Congestion, CongestionControl};
        use crate::presets::{Overrides, Profile, Variant, config};
        use lasthop_base::units::Bytes;
        let set = Overrides { segment: Some(Bytes::new(SEGMENT)), ..Overrides::default() };
        let config = config(Variant::WestwoodPlus, Profile::Rfc, &set);
        let mut algorithm = WestwoodPlusKeys {}.build(&config, 20.0);
        for index in 0..=1000u64 {
            algorithm.measure(&Delivery {
                now: ms(10.0 * index as f64),
                acked: SEGMENT,
                delivered: SEGMENT,
                total: index * SEGMENT,
                in_flight: 5 * SEGMENT,
                rtt: Some(Duration::from_millis(50)),
                snd_una: index * SEGMENT,
                snd_max: (index + 5) * SEGMENT,
                rate: None,
                is_marked: false,
                passage: None,
                lost: 0,
            });
        }
        algorithm.on_congestion(ms(10_000.0), Congestion::Loss, 20.0);
        assert!((algorithm.cwnd() - 5.0).abs() < 1e-6 && algorithm.cwnd() == algorithm.ssthresh());
        algorithm.set_cwnd(4.0);
        algorithm.on_congestion(ms(10_000.0), Congestion::Loss, 4.0);
        assert!(algorithm.cwnd() == 4.0 && (algorithm.ssthresh() - 5.0).abs() < 1e-6);
        algorithm.on_timeout(ms(11_000.0), Some(4.0));
        assert!(algorithm.cwnd() == 1.0 && (algorithm.ssthresh() - 5.0).abs() < 1e-6);
    }
}
