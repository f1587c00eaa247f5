//! Rayleigh and Rician fading as a function of time.
//!
//! The gain of the scattered waves is a sum of M = 16 sinusoids with random phases and angles of arrival,
//!
//! ```text
//!   x(t) + j y(t) = 1 / sqrt(M) sum_n (cos psi_n + j sin psi_n) cos(2 pi f t cos alpha_n + phi) * sqrt(2)
//!   alpha_n = (2 pi n - pi + theta) / (4 M)
//! ```
//!
//! whose mean power is 1, whose amplitude is Rayleigh-distributed (in the limit of large M), and whose
//! autocorrelation is Clarke's, J0(2 pi f tau), with the maximum Doppler shift f. A line of sight adds a constant
//! amplitude with a Doppler shift of its own. The gain of a time needs no state, so that idle times cost nothing.
//!
//! Source: Y. R. Zheng, C. Xiao, "Simulation models with correct statistical properties for Rayleigh fading
//! channels", IEEE Trans. Communications 51 (6), 2003; Rician form: C. Xiao, Y. R. Zheng, N. C. Beaulieu, IEEE
//! Trans. Wireless Communications 5 (12), 2006. Limitation: fading is flat; all subcarriers fade alike.

use lasthop_base::rng::Stream;
use lasthop_base::units::{Duration, Instant};
use std::f64::consts::PI;

/// Number of sinusoids.
const WAVES: usize = 16;

/// Fading of the signal of a link.
#[derive(Clone, Debug)]
pub struct Fading {
    /// Maximum Doppler shift in radians per nanosecond.
    shift: f64,
    /// cos alpha, cos psi and sin psi of each wave.
    waves: [[f64; 3]; WAVES],
    phase: f64,
    /// Amplitudes of the scattered waves and of the line of sight, and the Doppler shift (relative to the
    /// maximum) and phase of the latter.
    scattered: f64,
    sight: [f64; 3],
}

impl Fading {
    /// Creates fading with a maximum Doppler shift of 1 / `period`, and a ratio `k` of the powers of the line of
    /// sight and the scattered waves; 0: Rayleigh fading.
    pub fn new(period: Duration, k: f64, mut random: Stream) -> Self {
        let mut angle = || PI * (2.0 * random.uniform() - 1.0);
        let (theta, phase) = (angle(), angle());
        let mut waves = [[0.0; 3]; WAVES];
        for (number, wave) in (1..).zip(&mut waves) {
            let alpha = (2.0 * PI * f64::from(number) - PI + theta) / (4.0 * WAVES as f64);
            let psi = angle();
            *wave = [libm::cos(alpha), libm::cos(psi), libm::sin(psi)];
        }
        let sight = [(k / (1.0 + k)).sqrt(), libm::cos(angle()), angle()];
        let shift = 2.0 * PI / period.as_nanos().max(1) as f64;
        Fading { shift, waves, phase, scattered: (1.0 / (1.0 + k)).sqrt(), sight }
    }

    /// Returns the power of the signal at `now`, relative to its mean.
    pub fn power(&self, now: Instant) -> f64 {
        let turn = self.shift * now.as_nanos() as f64;
        let (mut x, mut y) = (0.0, 0.0);
        for [alpha, cos, sin] in self.waves {
            let wave = libm::cos(turn * alpha + self.phase);
            (x, y) = (x + cos * wave, y + sin * wave);
        }
        let scale = self.scattered * (2.0 / WAVES as f64).sqrt();
        let [amplitude, shift, phase] = self.sight;
        let sight = turn * shift + phase;
        let x = x * scale + amplitude * libm::cos(sight);
        let y = y * scale + amplitude * libm::sin(sight);
        x * x + y * y
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use lasthop_base::rng::Streams;

    const PERIOD: Duration = Duration::from_nanos(100_000_000);

    fn fading(k: f64, replication: u64) -> Fading {
        let random = Streams { seed: 3, replication }.stream("link", "fading");
        Fading::new(PERIOD, k, random)
    }

    /// Power of 20,000 independent processes at one time: mean 1, and P(power < a) = 1 - exp(-a); Rician with K = 4:
    /// mean 1, variance (1 + 2 K) / (1 + K)^2 = 0.36. 5 standard errors of the mean are 0.035 and 0.021.
    #[test]
    fn power_is_exponential_without_a_line_of_sight() {
        const COUNT: u64 = 20_000;
        let at = Instant::from_nanos(1_234_567_890);
        let powers = |k| (0..COUNT).map(move |one| fading(k, one).power(at));
        let mean = powers(0.0).sum::<f64>() / COUNT as f64;
        assert!((mean - 1.0).abs() < 0.035, "{mean}");
        for level in [0.01, 0.1, 0.5, 1.0, 2.0] {
            let p = -libm::expm1(-level);
            let below = powers(0.0).filter(|&power| power < level).count() as f64;
            let error = (COUNT as f64 * p * (1.0 - p)).sqrt();
            assert!((below - COUNT as f64 * p).abs() < 5.0 * error, "{level}: {below}");
        }
        let mean = powers(4.0).sum::<f64>() / COUNT as f64;
        assert!((mean - 1.0).abs() < 0.021, "{mean}");
        let variance =
            powers(4.0).map(|power| (power - 1.0) * (power - 1.0)).sum::<f64>() / COUNT as f64;
        assert!((variance - 0.36).abs() < 0.03, "{variance}");
    }

    /// The correlation of the power at times tau apart is J0(2 pi f tau)^2: 1/4 of a period 0.2228, half a period
    /// 0.0926, 0.3827 of a period (the first zero) 0. Samples of 20,000 processes: 5 standard errors are about 0.05.
    #[test]
    fn power_is_correlated_as_in_clarke_s_model() {
        const COUNT: u64 = 20_000;
        for (part, expected) in [(0.25, 0.2228), (0.3827, 0.0), (0.5, 0.0926)] {
            let at = Instant::from_nanos(777_000_000);
            let later = at + Duration::from_nanos((part * PERIOD.as_nanos() as f64) as u64);
            let product = |one| {
                let one = fading(0.0, one);
                (one.power(at) - 1.0) * (one.power(later) - 1.0)
            };
            let correlation = (0..COUNT).map(product).sum::<f64>() / COUNT as f64;
            assert!((correlation - expected).abs() < 0.05, "{part}: {correlation}");
        }
    }

    /// Crossings of a level r (relative to the root mean square amplitude) per second: sqrt(2 pi) f r exp(-r^2)
    /// (Rappaport, Wireless Communications, 5.7). 200 processes of 10 s at 10 Hz; r = 0.3: 13,700
    /// crossings, 5 standard errors are 4.3 %.
    #[test]
    fn levels_are_crossed_at_the_rate_of_rice() {
        let (mut crossings, step) = (0u32, 500_000);
        for one in 0..200 {
            let one = fading(0.0, one);
            let mut was_below = one.power(Instant::ZERO) < 0.09;
            for at in (0..10_000_000_000).step_by(step) {
                let is_below = one.power(Instant::from_nanos(at)) < 0.09;
                crossings += u32::from(was_below && !is_below);
                was_below = is_below;
            }
        }
        let expected = (2.0 * PI).sqrt() * 10.0 * 0.3 * libm::exp(-0.09) * 2_000.0;
        let ratio = f64::from(crossings) / expected;
        assert!((ratio - 1.0).abs() < 0.043, "{crossings}, expected {expected}");
    }
}
