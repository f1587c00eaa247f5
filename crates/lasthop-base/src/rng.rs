//! Named random streams.
//!
//! Each stream has its own xoshiro256++ generator, seeded from `hash(master seed, replication,
//! component name, purpose)`. Adding a component does not change the random numbers of other
//! components. Scenarios that differ in the protocol only have the same channel in the same
//! replication: common random numbers.
//!
//! The samplers are part of this crate, so that a new release of a library cannot change results.
//! Logarithms are computed by `libm`, so that they do not depend on the platform.
//!
//! ```
//! use lasthop_base::rng::Streams;
//!
//! let streams = Streams { seed: 1, replication: 0 };
//! let mut losses = streams.stream("link.wireless.forward", "frame loss");
//! let mut again = streams.stream("link.wireless.forward", "frame loss");
//! let mut other = streams.stream("link.wired.forward", "frame loss");
//! let first = losses.uniform();
//! assert_eq!(first, again.uniform());
//! assert_ne!(first, other.uniform());
//! ```

use crate::units::{Duration, Probability};
use rand_core::{Rng, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

/// Source of the random streams of one replication.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Streams {
    /// Master seed of the run.
    pub seed: u64,
    /// Index of the replication, from 0.
    pub replication: u64,
}

impl Streams {
    /// Returns the stream of `component` (for example `link.wireless.forward`) for `purpose` (for
    /// example `frame loss`).
    pub fn stream(&self, component: &str, purpose: &str) -> Stream {
        let mut state = mix(mix(self.seed) ^ self.replication);
        for text in [component, purpose] {
            // The length terminates each name, so that ("ab", "c") and ("a", "bc") differ.
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
    /// Returns a uniform number on [0, 1) with 53 random bits.
    #[inline]
    pub fn uniform(&mut self) -> f64 {
        (self.bits() >> 11) as f64 * (1.0 / (1u64 << 53) as f64)
    }

    /// Returns 64 random bits.
    #[inline]
    pub fn bits(&mut self) -> u64 {
        self.0.next_u64()
    }

    /// Returns `true` if the next [`Self::uniform`] is below `threshold`.
    #[inline]
    pub fn is_below(&mut self, threshold: Threshold) -> bool {
        self.bits() >> 11 < threshold.0
    }

    /// Returns, for each bit of `lanes`, whether an independent uniform number is below
    /// `threshold`. All numbers are compared in parallel, bit by bit, until every result is known.
    pub fn which_below(&mut self, threshold: Threshold, lanes: u64) -> u64 {
        if threshold.0 >> 53 > 0 {
            return lanes;
        }
        let (mut below, mut equal) = (0, lanes);
        for bit in (0..53).rev() {
            if equal == 0 || threshold.0 & ((2 << bit) - 1) == 0 {
                break;
            }
            let drawn = self.bits();
            if threshold.0 >> bit & 1 == 1 {
                below |= equal & !drawn;
                equal &= drawn;
            } else {
                equal &= !drawn;
            }
        }
        below
    }

    /// Returns `true` with probability `p`.
    #[inline]
    pub fn bernoulli(&mut self, p: f64) -> bool {
        self.uniform() < p
    }

    /// Samples an exponential number with mean 1.
    #[inline]
    pub fn exponential(&mut self) -> f64 {
        // 1 - u is in (0, 1], so the logarithm is finite.
        -libm::log(1.0 - self.uniform())
    }

    /// Samples an exponential duration with the given mean, rounded to whole nanoseconds.
    #[inline]
    pub fn exponential_duration(&mut self, mean: Duration) -> Duration {
        Duration::from_nanos((self.exponential() * mean.as_nanos() as f64 + 0.5) as u64)
    }
}

/// A probability as an integer that is compared with the 53 bits of a [`Stream::uniform`]. The
/// result is identical to the comparison in floating point.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Threshold(u64);

impl Threshold {
    /// Converts `probability`.
    pub fn new(probability: Probability) -> Self {
        // A power of two scales exactly, so that k / 2^53 < p if and only if k < p * 2^53.
        Threshold((probability.get() * (1u64 << 53) as f64).ceil() as u64)
    }
}

/// Distribution of a duration: constant, uniform, exponential, or Pareto with a mean.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DurationDistribution {
    /// Constant.
    Constant(Duration),
    /// Uniform between a minimum and a maximum.
    Uniform(Duration, Duration),
    /// Exponential with this mean.
    Exponential(Duration),
    /// Pareto with this mean: P(T > t) = (scale / t)^shape for t >= scale = mean (shape - 1) /
    /// shape.
    Pareto(Duration, ParetoShape),
}

/// Shape of a Pareto distribution, in thousandths. The mean exists for shapes above 1; up to 2, the
/// variance is infinite.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ParetoShape(u32);

impl ParetoShape {
    /// Creates a shape from 1.001 to 1000, in whole thousandths; returns `None` for other values.
    pub fn new(shape: f64) -> Option<Self> {
        let thousandths = (shape * 1e3).round();
        let is_allowed =
            (1_001.0..=1_000_000.0).contains(&thousandths) && thousandths / 1e3 == shape;
        is_allowed.then_some(ParetoShape(thousandths as u32))
    }

    /// Returns the shape as a number.
    pub fn get(self) -> f64 {
        f64::from(self.0) / 1e3
    }
}

/// Maximum of samples of a Pareto distribution, in nanoseconds (about 31 years): sums do not
/// overflow the clock.
const LONGEST_PARETO: f64 = 1e18;

impl DurationDistribution {
    /// Returns the mean of the distribution.
    pub const fn mean(self) -> Duration {
        match self {
            DurationDistribution::Constant(mean)
            | DurationDistribution::Exponential(mean)
            | DurationDistribution::Pareto(mean, _) => mean,
            DurationDistribution::Uniform(shortest, longest) => {
                let [shortest, longest] = [shortest.as_nanos(), longest.as_nanos()];
                Duration::from_nanos(shortest + (longest - shortest) / 2)
            }
        }
    }

    /// Samples a duration from `stream`. A constant uses no random number.
    #[inline]
    pub fn sample(self, stream: &mut Stream) -> Duration {
        match self {
            DurationDistribution::Constant(duration) => duration,
            DurationDistribution::Uniform(shortest, longest) => {
                let span = (longest.as_nanos() - shortest.as_nanos()) as f64;
                shortest + Duration::from_nanos((stream.uniform() * span + 0.5) as u64)
            }
            DurationDistribution::Exponential(mean) => stream.exponential_duration(mean),
            DurationDistribution::Pareto(mean, shape) => {
                let shape = shape.get();
                let scale = mean.as_nanos() as f64 * (shape - 1.0) / shape;
                // 1 - u is in (0, 1].
                let time = scale * libm::pow(1.0 - stream.uniform(), -1.0 / shape);
                Duration::from_nanos((time + 0.5).min(LONGEST_PARETO) as u64)
            }
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
    fn lanes_are_below_with_their_probability_each_for_itself() {
        // 100 000 samples of 20 lanes. The counts of each lane and of each pair of neighbours are
        // binomial: within 5 standard errors, false-positive rate below 6e-7 each, below 1.2e-4 for
        // all 195.
        let step = 1.0 / (1u64 << 53) as f64;
        for p in [0.0, step, 0.1, 0.3, 0.5, 1.0] {
            let threshold = Threshold::new(Probability::new(p).expect("a probability"));
            let mut stream = STREAMS.stream("test", "lanes");
            let (n, mut single, mut pairs) = (100_000, [0u32; 20], [0u32; 19]);
            for _ in 0..n {
                let below = stream.which_below(threshold, (1 << 20) - 1);
                assert!(below < 1 << 20);
                for (lane, count) in single.iter_mut().enumerate() {
                    *count += (below >> lane & 1) as u32;
                }
                for (lane, count) in pairs.iter_mut().enumerate() {
                    *count += u32::from(below >> lane & 3 == 3);
                }
            }
            let within = |count: u32, p: f64| {
                let n = f64::from(n);
                (f64::from(count) - n * p).abs() <= 5.0 * (n * p * (1.0 - p)).sqrt()
            };
            assert!(single.iter().all(|&count| within(count, p)), "{p}: {single:?}");
            if p > 1e-3 || p == 0.0 {
                assert!(pairs.iter().all(|&count| within(count, p * p)), "{p}: {pairs:?}");
            }
        }
    }

    #[test]
    fn exponential_has_its_mean_and_variance() {
        // n = 200 000: mean and variance (standard error sqrt(8/n)) within 4.5 standard errors;
        // false-positive rate below 1e-5 each.
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

    #[test]
    fn uniform_times_lie_between_their_ends() {
        // n = 200 000: the mean is within 4.5 standard errors, 20 ms / sqrt(12 n); false-positive
        // rate below 1e-5.
        let [shortest, longest] = [90, 110].map(Duration::from_millis);
        let law = DurationDistribution::Uniform(shortest, longest);
        let mut stream = STREAMS.stream("test", "uniform times");
        let (n, mut sum) = (200_000, 0.0);
        for _ in 0..n {
            let time = law.sample(&mut stream);
            assert!((shortest..=longest).contains(&time));
            sum += time.as_secs_f64();
        }
        let error = 0.02 / (12.0 * f64::from(n)).sqrt();
        assert!((sum / f64::from(n) - law.mean().as_secs_f64()).abs() < 4.5 * error);
    }

    #[test]
    fn pareto_has_its_tail_index_and_mean() {
        // n = 200 000 for each shape a. Tail index: maximum likelihood with known scale; the
        // logarithms of x / scale are exponential with mean 1 / a, and their sum has standard
        // deviation sqrt(n) / a. Mean: times truncated at 20 scales, which have a finite variance
        // for every shape: E[min(x, c)^k] = s^k (a - k (c/s)^(k-a)) / (a - k), and the limit at a =
        // k. Number of times above 20 scales: binomial. Each within 4.5 standard errors:
        // false-positive rate below 1e-5 each, but below 1e-4 for the counts above 20 scales, of
        // which 53 or more are expected; 15 checks in total.
        const CUT: f64 = 20.0;
        let mean = Duration::from_secs(3);
        for shape in [1.05, 1.2, 1.5, 2.0, 2.75] {
            let law = DurationDistribution::Pareto(mean, ParetoShape::new(shape).expect("a shape"));
            let scale = 3.0 * (shape - 1.0) / shape;
            let mut stream = STREAMS.stream("test", "pareto");
            let count = 200_000;
            let (mut logs, mut cut, mut beyond) = (0.0, 0.0, 0.0);
            for _ in 0..count {
                let x = law.sample(&mut stream).as_secs_f64() / scale;
                assert!(x > 1.0 - 1e-6, "{shape}: {x} of the scale");
                logs += x.ln();
                cut += x.min(CUT);
                beyond += f64::from(u8::from(x > CUT));
            }
            let n = f64::from(count);
            let within = |what: &str, sum: f64, mean: f64, variance: f64| {
                let errors = (sum - n * mean) / (n * variance).sqrt();
                assert!(errors.abs() < 4.5, "{what} of shape {shape}: {errors} standard errors");
            };
            within("tail index", logs, 1.0 / shape, 1.0 / (shape * shape));
            let first = (shape - CUT.powf(1.0 - shape)) / (shape - 1.0);
            let second = match shape {
                2.0 => 1.0 + 2.0 * CUT.ln(),
                _ => (shape - 2.0 * CUT.powf(2.0 - shape)) / (shape - 2.0),
            };
            within("cut mean", cut, first, second - first * first);
            let tail = CUT.powf(-shape);
            within("tail", beyond, tail, tail * (1.0 - tail));
        }
    }

    #[test]
    fn pareto_of_finite_variance_has_its_mean() {
        // Variance m^2 / (a (a - 2)). All moments below the eighth exist, so the sum of 200 000 is
        // normal: within 4.5 standard errors, false-positive rate below 1e-5.
        let (shape, mean, n) = (8.0, 0.5, 200_000);
        let law = DurationDistribution::Pareto(
            Duration::from_millis(500),
            ParetoShape::new(shape).expect("a shape"),
        );
        let mut stream = STREAMS.stream("test", "pareto mean");
        let sum: f64 = (0..n).map(|_| law.sample(&mut stream).as_secs_f64()).sum();
        let error = mean / (shape * (shape - 2.0) * f64::from(n)).sqrt();
        assert!((sum / f64::from(n) - mean).abs() < 4.5 * error, "{}", sum / f64::from(n));
    }

    #[test]
    fn pareto_shapes_have_a_mean_and_three_decimals() {
        for shape in [1.001, 1.5, 2.0, 1000.0] {
            assert_eq!(ParetoShape::new(shape).map(ParetoShape::get), Some(shape));
        }
        for shape in
            [f64::NAN, f64::INFINITY, -1.5, 0.0, 0.9, 1.0, 1.0004, 1.0006, 1.2345, 1000.001]
        {
            assert_eq!(ParetoShape::new(shape), None, "{shape}");
        }
    }
}
