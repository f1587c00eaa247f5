//! Probability that noise destroys an MPDU, by signal-to-noise ratio (SNR), for every MCS.
//!
//! Both models assume white Gaussian noise, a convolutional code and independent bit errors after decoding:
//! with P_b per decoded bit, L bits are lost with probability 1 - (1 - P_b)^L. With p the error probability of
//! a coded bit and g the SNR per subcarrier:
//!
//! ```text
//!   NIST   p    = erfc(sqrt(g)) / 2 for BPSK
//!               = (sqrt(M) - 1) / (sqrt(M) log2(sqrt(M))) erfc(sqrt(3 g / (2 (M - 1))))
//!          P_b  = 1 / (2 k) sum_d a_d D^d,  D = sqrt(4 p (1 - p)),  code rate k / (k + 1)
//!   Yans   e    = g B / R,  B the width, R the rate of coded bits
//!          p    = erfc(sqrt(e)) / 2 for BPSK
//!               = (1 - (1 - z)^2) / log2(M),
//!          z    = (1 - 1 / sqrt(M)) erfc(sqrt(1.5 log2(M) e / (M - 1)))
//!          P_b  = sum of a_d P_d over the lowest distances d (BPSK: the lowest one),
//!          P_d  = probability of more than d / 2 errors among d bits, and half the probability of d / 2
//! ```
//!
//! Sources: G. Pei, T. R. Henderson, "Validation of OFDM error rate model in ns-3", Boeing, 2010 (NIST); M.
//! Lacage, T. R. Henderson, "Yet another network simulator", WNS2 2006 (Yans); the weights a_d of the code with
//! generators 133 and 171: P. Frenger et al., "Multi-rate convolutional codes", 1998, and for rate 5/6 D. Haccoun,
//! G. Bégin, "High-rate punctured convolutional codes for Viterbi and sequential decoding", IEEE Trans.
//! Communications 37 (11), 1989. Formulas and weights are facts of these publications; the implementation is
//! separate from ns-3's, whose licence is GPL-2.0. Its tables of link simulations are not used.
//!
//! Limitations: the models have not been validated against receivers for HT, VHT and HE; ns-3 states the same of
//! its implementations. LDPC codes, fading between subcarriers and interference between streams are not
//! modelled: each stream has the given SNR.

use super::{Mode, Modulation, Signal, plain_errors};
use lasthop_base::schema::keys::choice;

choice! {
    /// Model of the errors of a receiver.
    pub enum ErrorCurve {
        /// Union bound with ten or nine terms, soft decisions.
        Nist = "nist",
        /// Union bound with one or two terms, hard decisions; 1 to 3 dB more optimistic.
        Yans = "yans",
    }
}

/// Distance weights of a punctured code.
struct Code {
    /// The number k of data bits in k + 1 coded bits.
    data_bits: i32,
    /// Lowest distance, difference between distances, weights.
    soft: (i32, i32, &'static [f64]),
    /// Lowest distance, and the weights of it and of the next distance.
    hard: (i32, [f64; 2]),
}

const RATE_1_2: Code = Code {
    data_bits: 1,
    soft: (
        10,
        2,
        &[
            36.0,
            211.0,
            1_404.0,
            11_633.0,
            77_433.0,
            502_690.0,
            3_322_763.0,
            21_292_910.0,
            134_365_911.0,
        ],
    ),
    hard: (10, [11.0, 0.0]),
};

const RATE_2_3: Code = Code {
    data_bits: 2,
    soft: (
        6,
        1,
        &[
            3.0,
            70.0,
            285.0,
            1_276.0,
            6_160.0,
            27_128.0,
            117_019.0,
            498_860.0,
            2_103_891.0,
            8_784_123.0,
        ],
    ),
    hard: (6, [1.0, 16.0]),
};

const RATE_3_4: Code = Code {
    data_bits: 3,
    soft: (
        5,
        1,
        &[
            42.0,
            201.0,
            1_492.0,
            10_469.0,
            62_935.0,
            379_644.0,
            2_253_373.0,
            13_073_811.0,
            75_152_755.0,
            428_005_675.0,
        ],
    ),
    hard: (5, [8.0, 31.0]),
};

const RATE_5_6: Code = Code {
    data_bits: 5,
    soft: (
        4,
        1,
        &[
            92.0,
            528.0,
            8_694.0,
            79_453.0,
            792_114.0,
            7_375_573.0,
            67_884_974.0,
            610_875_423.0,
            5_427_275_376.0,
            47_664_215_639.0,
        ],
    ),
    hard: (4, [14.0, 69.0]),
};

impl ErrorCurve {
    /// Returns the probability that a decoded bit of a signal is wrong at an SNR of `snr` dB.
    pub fn signal_error(self, signal: Signal, snr: f64) -> f64 {
        match signal {
            Signal::Mode(mode) => self.bit_error(mode, snr),
            Signal::Plain(standard, rate) => match plain_errors::modulation(standard, rate) {
                // OFDM: 20 MHz, one stream.
                Some(modulation) => self.coded_error(modulation, rate.as_bps() as f64, 20.0, snr),
                None => plain_errors::dsss(rate, libm::pow(10.0, snr / 10.0)),
            },
        }
    }

    /// Returns the probability that a decoded bit is wrong at an SNR of `snr` dB.
    pub fn bit_error(self, mode: Mode, snr: f64) -> f64 {
        let rate = mode.rate().as_bps() as f64 / f64::from(mode.streams());
        self.coded_error(mode.modulation(), rate, f64::from(mode.width().mhz()), snr)
    }

    /// Returns the probability that a decoded bit is wrong. `rate`: data rate of a stream in bits per second;
    /// `width` in MHz; `snr` in dB.
    fn coded_error(self, modulation: Modulation, rate: f64, width: f64, snr: f64) -> f64 {
        let code = match modulation.code_rate {
            [1, _] => &RATE_1_2,
            [2, _] => &RATE_2_3,
            [3, _] => &RATE_3_4,
            _ => &RATE_5_6,
        };
        let ratio = libm::pow(10.0, snr / 10.0);
        let bits = modulation.bits as f64;
        match self {
            ErrorCurve::Nist => soft_bound(code, per_subcarrier(ratio, bits)),
            ErrorCurve::Yans => {
                let [numerator, denominator] = modulation.code_rate;
                let coded = rate * denominator as f64 / numerator as f64;
                let per_bit = ratio * width * 1e6 / coded;
                hard_bound(code, per_coded_bit(per_bit, bits), bits == 1.0)
            }
        }
    }

    /// Returns the probability that `length` bits are received with errors at an SNR of `snr` dB.
    pub fn loss(self, mode: Mode, snr: f64, length: u64) -> f64 {
        -libm::expm1(length as f64 * libm::log1p(-self.bit_error(mode, snr)))
    }

    /// Returns the SNR in dB at which `length` bits are received with errors with probability `loss`,
    /// between 0 and 1.
    pub fn snr_at(self, mode: Mode, length: u64, loss: f64) -> f64 {
        let (mut low, mut high) = (-50.0, 100.0);
        // The interval is halved to below the resolution of f64.
        for _ in 0..64 {
            let middle = f64::midpoint(low, high);
            if self.loss(mode, middle, length) > loss {
                low = middle;
            } else {
                high = middle;
            }
        }
        high
    }
}

/// Returns the error probability of a coded bit by the SNR of a subcarrier, with Gray coding.
fn per_subcarrier(ratio: f64, bits: f64) -> f64 {
    if bits == 1.0 {
        return 0.5 * libm::erfc(ratio.sqrt());
    }
    let points = libm::exp2(bits);
    let side = points.sqrt();
    (side - 1.0) / (side * bits / 2.0) * libm::erfc((1.5 * ratio / (points - 1.0)).sqrt())
}

/// Returns the error probability of a coded bit by its energy over the noise density.
fn per_coded_bit(ratio: f64, bits: f64) -> f64 {
    if bits == 1.0 {
        return 0.5 * libm::erfc(ratio.sqrt());
    }
    let points = libm::exp2(bits);
    let argument = (1.5 * bits * ratio / (points - 1.0)).sqrt();
    let side = (1.0 - 1.0 / points.sqrt()) * libm::erfc(argument);
    (1.0 - (1.0 - side) * (1.0 - side)) / bits
}

/// Returns the union bound of soft-decision decoding.
fn soft_bound(code: &Code, p: f64) -> f64 {
    let (lowest, step, weights) = code.soft;
    let base = (4.0 * p * (1.0 - p)).sqrt();
    let term = |(distance, weight): (i32, &f64)| weight * libm::pow(base, f64::from(distance));
    let distances = (0..).map(|place| lowest + place * step);
    let sum: f64 = distances.zip(weights).map(term).sum();
    (sum / f64::from(2 * code.data_bits)).min(1.0)
}

/// Returns the first terms of the union bound of hard-decision decoding.
fn hard_bound(code: &Code, p: f64, has_one_term: bool) -> f64 {
    let (lowest, [first, second]) = code.hard;
    let mut sum = first * majority(lowest, p);
    if !has_one_term {
        sum += second * majority(lowest + 1, p);
    }
    sum.min(1.0)
}

/// Returns the probability of more than `d / 2` errors among `d` bits, plus half that of exactly `d / 2`.
fn majority(d: i32, p: f64) -> f64 {
    let (mut sum, mut binomial) = (0.0, 1.0);
    for errors in 0..=d {
        let weight = match (2 * errors).cmp(&d) {
            std::cmp::Ordering::Less => 0.0,
            std::cmp::Ordering::Equal => 0.5,
            std::cmp::Ordering::Greater => 1.0,
        };
        let chance = libm::pow(p, f64::from(errors)) * libm::pow(1.0 - p, f64::from(d - errors));
        sum += weight * binomial * chance;
        binomial = binomial * f64::from(d - errors) / f64::from(errors + 1);
    }
    sum
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::phy::{Format, GuardInterval, Width};

    /// SNR in dB at which 1,500 B are lost with probability 0.1, one stream at 20 MHz, MCS 0 to 11; measured with
    /// ns-3.44 to 0.01 dB.
    const NIST: [f64; 12] =
        [3.96, 6.97, 9.86, 13.51, 16.61, 21.36, 22.62, 23.79, 28.49, 29.70, 34.34, 35.59];
    const YANS: [f64; 12] =
        [2.31, 5.30, 8.19, 11.70, 14.87, 19.33, 20.82, 22.57, 26.63, 28.46, 32.42, 34.34];

    fn he(mcs: u8, interval: GuardInterval) -> Mode {
        Mode::new(Format::He, mcs, 1, Width::Mhz20, interval).expect("defined")
    }

    #[test]
    fn snr_at_a_loss_of_a_tenth() {
        for (mcs, (nist, yans)) in (0..).zip(NIST.into_iter().zip(YANS)) {
            for (curve, expected) in [(ErrorCurve::Nist, nist), (ErrorCurve::Yans, yans)] {
                let found = curve.snr_at(he(mcs, GuardInterval::Ns800), 12_000, 0.1);
                assert!((found - expected).abs() <= 0.02, "{curve:?}, MCS {mcs}: {found:.3} dB");
            }
        }
    }

    #[test]
    fn loss_decreases_with_the_snr_and_increases_with_length() {
        for curve in [ErrorCurve::Nist, ErrorCurve::Yans] {
            for mcs in 0..12 {
                let mode = he(mcs, GuardInterval::Ns800);
                let mut last = 1.0;
                for snr in (-10..50).map(f64::from) {
                    let loss = curve.loss(mode, snr, 12_000);
                    assert!((0.0..=last).contains(&loss), "{curve:?}, MCS {mcs}, {snr} dB");
                    assert!(curve.loss(mode, snr, 100) <= loss);
                    last = loss;
                }
                assert!(last < 1e-6, "MCS {mcs}");
                assert_eq!(curve.loss(mode, -50.0, 12_000), 1.0);
            }
        }
    }

    /// P_d by hand: 3 of 4 errors 4 p^3 (1 - p), 4 of 4 p^4, half of 6 p^2 (1 - p)^2; with p = 0.1.
    #[test]
    fn majority_of_four_and_of_one() {
        assert!((majority(4, 0.1) - (0.0036 + 0.0001 + 0.0243)).abs() < 1e-12);
        assert!((majority(1, 0.1) - 0.1).abs() < 1e-12);
    }
}
