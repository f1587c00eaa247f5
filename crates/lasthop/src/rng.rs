//! Named random streams.
//!
//! One xoshiro256++ generator per stream, seeded from
//! `hash(master seed, replication, component name, purpose)`. Adding a component never shifts
//! another one's numbers, and the same replication index gives two protocol choices the same
//! channel: common random numbers.
//!
//! The samplers are our own, so that a release of a library cannot change the bits; logarithms
//! come from `libm`, so that they do not depend on the platform.

use crate::units::{Duration, Probability};
use rand_core::{Rng, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

/// Where the streams of one replication come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Streams {
    /// Master seed of the run.
    pub seed: u64,
    /// Index of the replication, from 0.
    pub replication: u64,
}

impl Streams {
    /// The stream of `component` (for example `link.wireless.forward`) for `purpose` (for example
    /// `frame loss`).
    pub fn stream(&self, component: &str, purpose: &str) -> Stream {
        let mut state = mix(mix(self.seed) ^ self.replication);
        for text in [component, purpose] {
            // The length closes each name, so that ("ab", "c") and ("a", "bc") differ.
            state = mix(state ^ text.len() as u64);
            for byte in text.bytes() {
                state = mix(state ^ u64::from(byte));
            }
        }
        Stream(Xoshiro256PlusPlus::seed_from_u64(state))
    }
}

/// Finalizer of SplitMix64 (Steele, Lea, Flood 2014) after one golden-ratio step.
fn mix(value: u64) -> u64 {
    let mut z = value.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// One stream of random numbers.
#[derive(Clone, Debug)]
pub struct Stream(Xoshiro256PlusPlus);

impl Stream {
    /// Uniform on [0, 1), 53 bits.
    #[inline]
    pub fn uniform(&mut self) -> f64 {
        (self.bits() >> 11) as f64 * (1.0 / (1u64 << 53) as f64)
    }

    /// 64 random bits.
    #[inline]
    pub fn bits(&mut self) -> u64 {
        self.0.next_u64()
    }

    /// Is the next [`Self::uniform`] below this?
    #[inline]
    pub fn is_below(&mut self, threshold: Threshold) -> bool {
        self.bits() >> 11 < threshold.0
    }

    /// True with probability `p`.
    #[inline]
    pub fn bernoulli(&mut self, p: f64) -> bool {
        self.uniform() < p
    }

    /// Exponential with mean 1.
    #[inline]
    pub fn exponential(&mut self) -> f64 {
        // 1 - u is in (0, 1], so the logarithm is finite.
        -libm::log(1.0 - self.uniform())
    }

    /// Exponential duration with the given mean, rounded to whole nanoseconds.
    #[inline]
    pub fn exponential_duration(&mut self, mean: Duration) -> Duration {
        Duration::from_nanos((self.exponential() * mean.as_nanos() as f64 + 0.5) as u64)
    }
}

/// A probability as the whole number that the 53 bits of a [`Stream::uniform`] are compared with: the
/// same outcome as the comparison of the two numbers, without floating point.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Threshold(u64);

impl Threshold {
    /// Of this probability.
    pub fn new(probability: Probability) -> Self {
        // A power of two scales exactly, so that k / 2^53 < p if and only if k < p * 2^53.
        Threshold((probability.get() * (1u64 << 53) as f64).ceil() as u64)
    }
}

/// How long something lasts: always the same, or exponential with a mean.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DurationLaw {
    /// Always this long.
    Constant(Duration),
    /// Exponential with this mean.
    Exponential(Duration),
}

impl DurationLaw {
    /// The mean of the law.
    pub const fn mean(self) -> Duration {
        match self {
            DurationLaw::Constant(mean) | DurationLaw::Exponential(mean) => mean,
        }
    }

    /// One duration, drawn from `stream` (a constant draws nothing).
    #[inline]
    pub fn sample(self, stream: &mut Stream) -> Duration {
        match self {
            DurationLaw::Constant(duration) => duration,
            DurationLaw::Exponential(mean) => stream.exponential_duration(mean),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STREAMS: Streams = Streams { seed: 1, replication: 0 };

    #[test]
    fn streams_differ_in_every_part_of_their_name() {
        let first = STREAMS.stream("ab", "c").bits();
        assert_eq!(first, STREAMS.stream("ab", "c").bits());
        assert_ne!(first, STREAMS.stream("a", "bc").bits());
        assert_ne!(first, STREAMS.stream("ab", "d").bits());
        assert_ne!(first, Streams { seed: 2, replication: 0 }.stream("ab", "c").bits());
        assert_ne!(first, Streams { seed: 1, replication: 1 }.stream("ab", "c").bits());
    }

    #[test]
    fn thresholds_decide_as_numbers_do() {
        let step = 1.0 / (1u64 << 53) as f64;
        for p in [0.0, 1e-300, step, 0.025, 0.1 + 0.2, 0.5, 1.0 - step, 1.0] {
            let threshold = Threshold::new(Probability::new(p).expect("a probability"));
            let edge = (p / step) as u64;
            for bits in [0, 1, edge.saturating_sub(1), edge, edge + 1, (1 << 53) - 1] {
                if bits < 1 << 53 {
                    assert_eq!(bits < threshold.0, bits as f64 * step < p, "{bits} {p}");
                }
            }
        }
    }

    #[test]
    fn exponential_has_its_mean_and_variance() {
        // n = 200 000: the mean is within 4.5 standard errors, the variance (error sqrt(8/n))
        // too; false alarm below 1e-5 each.
        let mut stream = STREAMS.stream("test", "exponential");
        let n = 200_000;
        let (mut sum, mut squares) = (0.0, 0.0);
        for _ in 0..n {
            let x = stream.exponential();
            sum += x;
            squares += x * x;
        }
        let mean = sum / f64::from(n);
        let variance = squares / f64::from(n) - mean * mean;
        let error = (1.0 / f64::from(n)).sqrt();
        assert!((mean - 1.0).abs() < 4.5 * error, "{mean}");
        assert!((variance - 1.0).abs() < 4.5 * 8f64.sqrt() * error, "{variance}");
    }
}
