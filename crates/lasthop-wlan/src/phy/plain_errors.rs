//! Bit errors of 802.11b, a and g by SNR.
//!
//! OFDM frames have the modulations and the code of 802.11n, and follow the same [curves](super::ErrorCurve). For
//! 802.11b, with the SNR g in a bandwidth of 22 MHz and CCK code words c_k of 8 chips,
//!
//! ```text
//!   1 Mbps    p = exp(-22 g) / 2                                                     DBPSK
//!   2 Mbps    p = D(11 g),  D(x) = (sqrt(2) + 1) / sqrt(8 pi sqrt(2)) exp(-(2 - sqrt(2)) x) / sqrt(x)   DQPSK
//!   CCK       P_s <= 2 D(8 g) + sum over k of Q(sqrt(d_k^2 g)),  d_k^2 = |c_0 - c_k|^2,  p = P_s / bits per word
//! ```
//!
//! The sum is the union bound over all words with other second to fourth phases, whose chips have an energy of 2 g
//! N0; the first phase is encoded differentially.
//!
//! Sources: J. G. Proakis, Digital Communications (2001), 5.2.8 (DBPSK, approximation of DQPSK), 5.2.1 (union bound);
//! IEEE Std 802.11-2012, 17.4.6.6 (code words of CCK). Limitation: multipath is
//! not modelled.

use super::{Modulation, Standard};
use lasthop_base::units::Rate;
use std::f64::consts::{PI, SQRT_2};

/// Returns the modulation and the code rate of an OFDM rate of 802.11a or g; `None` with 802.11b.
pub(super) fn modulation(standard: Standard, rate: Rate) -> Option<Modulation> {
    let (bits, code_rate) = match rate.as_bps() / 1_000_000 {
        _ if standard == Standard::B => return None,
        6 => (1, [1, 2]),
        9 => (1, [3, 4]),
        12 => (2, [1, 2]),
        18 => (2, [3, 4]),
        24 => (4, [1, 2]),
        36 => (4, [3, 4]),
        48 => (6, [2, 3]),
        _ => (6, [3, 4]),
    };
    Some(Modulation { bits, code_rate })
}

/// Returns the probability that a bit of a frame of 802.11b is wrong; `ratio`: SNR as a ratio of powers.
pub(super) fn dsss(rate: Rate, ratio: f64) -> f64 {
    match rate.as_bps() {
        1_000_000 => 0.5 * libm::exp(-22.0 * ratio),
        2_000_000 => dqpsk(11.0 * ratio),
        5_500_000 => cck(&FOUR_BITS, ratio) / 4.0,
        _ => cck(&EIGHT_BITS, ratio) / 8.0,
    }
}

/// Returns the bit error probability of DQPSK by the energy of a bit over the noise density.
fn dqpsk(x: f64) -> f64 {
    let factor = (SQRT_2 + 1.0) / (8.0 * PI * SQRT_2).sqrt();
    (factor * libm::exp(-(2.0 - SQRT_2) * x) / x.sqrt()).min(0.5)
}

/// First and last value of the second to fourth phase of a word, in quarter turns; with 4 bits per word, pi/2 or
/// 3 pi/2, 0, 0 or pi.
type Phases = [[i32; 2]; 3];
const FOUR_BITS: Phases = [[1, 3], [0, 0], [0, 2]];
const EIGHT_BITS: Phases = [[0, 3], [0, 3], [0, 3]];

/// Returns the bound of the probability of a wrong word.
fn cck(phases: &Phases, ratio: f64) -> f64 {
    (2.0 * dqpsk(8.0 * ratio) + wrong_words(phases, ratio)).min(1.0)
}

/// Returns the union bound of words with other second to fourth phases than those of the first word.
fn wrong_words(phases: &Phases, ratio: f64) -> f64 {
    let is_half = phases[1] == [0, 0];
    let values = |place: usize| {
        let [first, last] = phases[place];
        (first..=last).step_by(if is_half { 2 } else { 1 })
    };
    let mut sum = 0.0;
    let [second, third, fourth] = phases.map(|[first, _]| first);
    let (own, origin) = ([second, third, fourth], word([0, second, third, fourth]));
    for (first, second) in (0..4).flat_map(|first| values(0).map(move |second| (first, second))) {
        for (third, fourth) in values(1).flat_map(|third| values(2).map(move |last| (third, last)))
        {
            let other = word([first, second, third, fourth]);
            let distance: i32 =
                origin.iter().zip(other).map(|(one, other)| apart(*one, other)).sum();
            if [second, third, fourth] != own {
                // Q(sqrt(d^2 g)) = erfc(sqrt(d^2 g / 2)) / 2.
                sum += 0.5 * libm::erfc((f64::from(distance) * ratio / 2.0).sqrt());
            }
        }
    }
    sum
}

/// Returns the phases of the chips of a word in quarter turns.
fn word([a, b, c, d]: [i32; 4]) -> [i32; 8] {
    let chips = [a + b + c + d, a + c + d, a + b + d, a + d + 2, a + b + c, a + c, a + b + 2, a];
    chips.map(|phase| phase.rem_euclid(4))
}

/// Returns the squared distance of two chips of amplitude 1.
fn apart(one: i32, other: i32) -> i32 {
    match (one - other).rem_euclid(4) {
        0 => 0,
        2 => 4,
        _ => 2,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The smallest squared distance of words is 8 at 11 Mbps and 16 at 5.5 Mbps, with 24 and 14 neighbours, of which 2
    /// at 5.5 Mbps differ in the first phase only: counted by an independent enumeration in Python.
    #[test]
    fn nearest_words_of_cck() {
        // At a high SNR, the nearest words determine the bound.
        let q = |square: f64| 0.5 * libm::erfc((square / 2.0).sqrt());
        let ratio = 8.0;
        let found = wrong_words(&EIGHT_BITS, ratio) / q(8.0 * ratio);
        assert!((found - 24.0).abs() < 0.01, "{found}");
        let found = wrong_words(&FOUR_BITS, ratio) / q(16.0 * ratio);
        assert!((found - 12.0).abs() < 0.01, "{found}");
    }

    /// Each rate needs a higher SNR than the next lower one: bit errors of 1e-5 by bisection.
    #[test]
    fn higher_rates_need_a_higher_snr() {
        let snr = |mbps: f64| {
            let rate = Rate::from_bps((mbps * 1e6) as u64);
            let (mut low, mut high) = (1e-3, 1e3);
            for _ in 0..60 {
                let middle = f64::sqrt(low * high);
                if dsss(rate, middle) > 1e-5 { low = middle } else { high = middle }
            }
            10.0 * libm::log10(high)
        };
        let all = [1.0, 2.0, 5.5, 11.0].map(snr);
        // DBPSK: ln(5e4) / 22 = 0.492, -3.1 dB.
        assert!((all[0] + 3.08).abs() < 0.01, "{all:?}");
        assert!(all.windows(2).all(|pair| pair[0] + 0.5 < pair[1]), "{all:?}");
    }
}
