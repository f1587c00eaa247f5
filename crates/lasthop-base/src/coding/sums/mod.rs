//! Sums of units times factors, on which encoding and decoding spend most of their time.
//!
//! Each output is the sum over the inputs of factor times input, byte by byte, in the arithmetic of
//! [`gf256`]. Two methods compute identical bytes:
//!
//! - [`avx2`], if the processor supports it and units are long enough: a product is two lookups of
//!   32 bytes each, in the products of its factor with the lower and the upper half of a byte;
//! - otherwise Horner's rule over the bits of the factors. It needs exclusive or and doubling only, which
//!   compilers vectorize:
//!
//! ```text
//!   sum = 0;  for bit 7 ... 0:  sum = x sum + (sum of the inputs whose factor has that bit)
//! ```

#[cfg(target_arch = "x86_64")]
mod avx2;

use super::gf256;

/// Number of bytes per step of Horner's rule.
const WIDE: usize = 64;

/// Computes sums of units times factors. Contains working space only.
#[derive(Clone, Debug, Default)]
pub struct Sums {
    /// Inputs whose factor has bit 7, followed by those whose factor has bit 6, and so on.
    plan: Vec<u8>,
}

impl Sums {
    /// Writes to each output the sum of the `inputs`, at most 256, each times its factor. `factors`
    /// has one row per output. All inputs and outputs have the same length.
    pub fn combine(&mut self, inputs: &[&[u8]], factors: &[u8], outputs: &mut [&mut [u8]]) {
        debug_assert_eq!(inputs.len() * outputs.len(), factors.len(), "a factor each");
        #[cfg(target_arch = "x86_64")]
        if avx2::combine(inputs, factors, outputs) {
            return;
        }
        self.by_bits(inputs, factors, outputs);
    }

    /// Like [`Self::combine`], by Horner's rule.
    fn by_bits(&mut self, inputs: &[&[u8]], factors: &[u8], outputs: &mut [&mut [u8]]) {
        let plan = &mut self.plan;
        plan.resize(8 * inputs.len() + 1, 0);
        for (output, factors) in outputs.iter_mut().zip(factors.chunks_exact(inputs.len())) {
            let (mut ends, mut planned) = ([0; 8], 0);
            for (bit, end) in (0..8).rev().zip(&mut ends) {
                for (input, factor) in factors.iter().enumerate() {
                    // Avoids a branch, which processors could not predict.
                    plan[planned] = input as u8;
                    planned += usize::from(factor >> bit & 1);
                }
                *end = planned;
            }
            match output.len() {
                WIDE.. => run::<WIDE>(plan, &ends, inputs, output),
                8.. => run::<8>(plan, &ends, inputs, output),
                _ => run::<1>(plan, &ends, inputs, output),
            }
        }
    }
}

/// Processes `LENGTH` bytes per step. The last step may overlap the previous one; both write equal
/// values.
fn run<const LENGTH: usize>(plan: &[u8], ends: &[usize; 8], inputs: &[&[u8]], output: &mut [u8]) {
    let last = output.len().saturating_sub(LENGTH);
    let mut at = 0;
    while at < output.len() {
        let from = at.min(last);
        let mut sum = [0u8; LENGTH];
        let mut start = 0;
        for &end in ends {
            for byte in &mut sum {
                *byte = gf256::double(*byte);
            }
            for &input in &plan[start..end] {
                let input: &[u8; LENGTH] = inputs[usize::from(input)][from..from + LENGTH]
                    .try_into()
                    .expect("as long as the output");
                for (byte, input) in sum.iter_mut().zip(input) {
                    *byte ^= input;
                }
            }
            start = end;
        }
        output[from..from + LENGTH].copy_from_slice(&sum);
        at += LENGTH;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::{Stream, Streams};

    fn random(stream: &mut Stream, bytes: usize) -> Vec<u8> {
        (0..bytes).map(|_| stream.bits() as u8).collect()
    }

    /// A method of summation, which returns `false` if it is not applicable.
    type Way = fn(&[&[u8]], &[u8], &mut [&mut [u8]]) -> bool;

    fn by_bits(inputs: &[&[u8]], factors: &[u8], outputs: &mut [&mut [u8]]) -> bool {
        Sums::default().by_bits(inputs, factors, outputs);
        true
    }

    const WAYS: &[Way] = &[
        by_bits,
        #[cfg(target_arch = "x86_64")]
        avx2::combine,
    ];

    #[test]
    fn every_way_adds_the_products() {
        let mut stream = Streams { seed: 5, replication: 0 }.stream("sums", "bytes");
        for (inputs, outputs) in [(1, 1), (2, 3), (3, 2), (10, 10), (20, 4), (7, 5), (256, 9)] {
            for length in [1, 7, 8, 31, 32, 33, 63, 64, 65, 150, 1500] {
                let units: Vec<Vec<u8>> =
                    (0..inputs).map(|_| random(&mut stream, length)).collect();
                let units: Vec<&[u8]> = units.iter().map(Vec::as_slice).collect();
                let factors = random(&mut stream, inputs * outputs);
                let product = |row: &[u8], at: usize| {
                    let terms = row.iter().zip(&units);
                    terms.fold(0, |sum, (&factor, unit)| sum ^ gf256::multiply(factor, unit[at]))
                };
                let expected: Vec<Vec<u8>> = factors
                    .chunks_exact(inputs)
                    .map(|row| (0..length).map(|at| product(row, at)).collect())
                    .collect();
                for (number, way) in WAYS.iter().enumerate() {
                    let mut sums = vec![vec![7; length]; outputs];
                    let mut slices: Vec<&mut [u8]> =
                        sums.iter_mut().map(Vec::as_mut_slice).collect();
                    if way(&units, &factors, &mut slices) {
                        assert_eq!(sums, expected, "way {number}: {inputs} units of {length} B");
                    } else {
                        assert!(number > 0, "by bits always");
                        assert!(sums.iter().flatten().all(|&byte| byte == 7), "nothing is written");
                    }
                }
            }
        }
    }

    #[test]
    #[cfg(target_arch = "x86_64")]
    fn avx2_is_used_where_the_processor_has_it() {
        let (input, mut output) = ([3; 32], [0; 32]);
        let used = avx2::combine(&[&input], &[2], &mut [&mut output]);
        assert_eq!(used, is_x86_feature_detected!("avx2"));
    }
}
