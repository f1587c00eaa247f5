//! A systematic Reed–Solomon code over GF(256) for erasures, in Cauchy form.
//!
//! Source: Blömer et al., "An XOR-based erasure-resilient coding scheme", ICSI TR-95-048, 1995. Unit
//! i of a block of K data units is the data unit i for i < K, and otherwise
//!
//! ```text
//!   parity_i = sum over k < K of  data_k / (i + k)        i = K ... 255
//! ```
//! with the arithmetic of [`gf256`]. Every square submatrix of the matrix 1 / (i + k) is a Cauchy matrix.
//! Its inverse has a closed form, so any K distinct units suffice to decode the block. A parity unit does
//! not depend on the number of other units: a sender computes parity units one at a time, on demand.
//!
//! Limitation: errors at unknown positions are not corrected. Callers discard units received with errors.

use super::sums::Sums;
use super::{UnitSet, gf256};

/// Why a block cannot be decoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CodingError {
    /// The received units do not suffice.
    #[error(
        "found {found} distinct units of a block of {data} data units; expected at least as many"
    )]
    TooFew {
        /// Number of distinct units received.
        found: usize,
        /// Number of data units in the block.
        data: u8,
    },
    /// A block has at least one data unit.
    #[error("invalid block of 0 data units; expected 1 to 255")]
    Empty,
    /// The units of one block differ in length.
    #[error("units of {0} and {1} bytes in one block; expected equal lengths")]
    Lengths(usize, usize),
}

/// Encoder and decoder. Contains working space only, so one instance serves blocks of any size.
#[derive(Clone, Debug, Default)]
pub struct ReedSolomon {
    sums: Sums,
    factors: Vec<u8>,
}

impl ReedSolomon {
    /// Creates an encoder and decoder.
    pub fn new() -> Self {
        Self::default()
    }

    /// Writes parity unit `number` of `data` to `output`. `number` is at least the number of data
    /// units and at most 255; all units have the length of `output`.
    pub fn parity(&mut self, data: &[&[u8]], number: u8, output: &mut [u8]) {
        debug_assert!(usize::from(number) >= data.len(), "a lower number is a data unit");
        self.factors.clear();
        self.factors.extend((0..data.len()).map(|unit| gf256::invert(number ^ unit as u8)));
        self.sums.combine(data, &self.factors, &mut [output]);
    }

    /// Decodes a block and appends its data to `output`. `received` lists units with their numbers,
    /// in any order; duplicates are permitted.
    ///
    /// # Errors
    /// If `received` contains fewer than `data` distinct units, or units of different lengths.
    /// Nothing is appended in this case.
    pub fn decode(
        &mut self,
        data: u8,
        received: &[(u8, &[u8])],
        output: &mut Vec<u8>,
    ) -> Result<(), CodingError> {
        let count = usize::from(data);
        if data == 0 {
            return Err(CodingError::Empty);
        }
        let length = received.first().map_or(0, |(_, unit)| unit.len());
        if let Some((_, unit)) = received.iter().find(|(_, unit)| unit.len() != length) {
            return Err(CodingError::Lengths(length, unit.len()));
        }
        let mut distinct = UnitSet::default();
        let (mut known, mut spare) = (Vec::with_capacity(count), Vec::with_capacity(count));
        for &(number, unit) in received {
            if distinct.insert(number) {
                if number < data { &mut known } else { &mut spare }.push((number, unit));
            }
        }
        let found = usize::from(distinct.len());
        if found < count {
            return Err(CodingError::TooFew { found, data });
        }
        let start = output.len();
        output.resize(start + count * length, 0);
        let block = &mut output[start..];
        for &(number, unit) in &known {
            block[usize::from(number) * length..][..length].copy_from_slice(unit);
        }
        let missing: Vec<u8> = (0..data).filter(|&number| !distinct.contains(number)).collect();
        if !missing.is_empty() && length > 0 {
            known.extend_from_slice(&spare[..missing.len()]);
            self.repair(&known, &missing, block, length);
        }
        Ok(())
    }

    /// Computes the `missing` data units of `block` from the `used` units: its other data units, followed
    /// by one parity unit for each missing unit.
    ///
    /// With g(x) the product of all (x + k), k < K, the units are values of a polynomial of a degree below
    /// K: f(i) is g(i) parity_i, and g'(k) data_k at a data unit. Lagrange's formula gives f at the missing
    /// numbers M from the used units; common factors of g cancel out. With S the set of
    /// used parity units, the factor of unit j in unit m is a_m b_j / (j + m),
    ///
    /// ```text
    ///   a_m = prod over s in S of (m + s) / prod over l in M, not m, of (m + l)
    ///   b_j = prod over l in M of (j + l) / prod over s in S, not j, of (j + s)
    /// ```
    fn repair(&mut self, used: &[(u8, &[u8])], missing: &[u8], block: &mut [u8], length: usize) {
        let spare = &used[used.len() - missing.len()..];
        // The products are logarithms.
        let to_missing = |from: u8| product(from, missing.iter().copied());
        let to_spare = |from: u8| product(from, spare.iter().map(|&(number, _)| number));
        let ours: Vec<i32> = used
            .iter()
            .map(|&(number, _)| gf256::reduced(to_missing(number) - to_spare(number)))
            .collect();
        self.factors.clear();
        for &number in missing {
            let own = gf256::reduced(to_spare(number) - to_missing(number));
            self.factors.extend(used.iter().zip(&ours).map(|(&(other, _), ours)| {
                gf256::power(own + ours - gf256::logarithm(other ^ number))
            }));
        }
        let inputs: Vec<&[u8]> = used.iter().map(|&(_, unit)| unit).collect();
        let mut wanted = missing.iter().copied().peekable();
        let mut outputs: Vec<&mut [u8]> = block
            .chunks_exact_mut(length)
            .zip(0..)
            .filter(|(_, number)| wanted.next_if_eq(number).is_some())
            .map(|(unit, _)| unit)
            .collect();
        self.sums.combine(&inputs, &self.factors, &mut outputs);
    }
}

/// Returns the logarithm of the product of (from + other) over all `others` that differ from
/// `from`.
fn product(from: u8, others: impl Iterator<Item = u8>) -> i32 {
    others.filter(|&other| other != from).map(|other| gf256::logarithm(from ^ other)).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::{Stream, Streams};
    use proptest::prelude::*;

    fn random(stream: &mut Stream, bytes: usize) -> Vec<u8> {
        (0..bytes).map(|_| stream.bits() as u8).collect()
    }

    /// Returns the units of a block that `numbers` lists; the block has `data` data units.
    fn units(coder: &mut ReedSolomon, block: &[u8], data: u8, numbers: &[u8]) -> Vec<Vec<u8>> {
        let length = block.len() / usize::from(data);
        let pieces: Vec<&[u8]> = block.chunks_exact(length).collect();
        let unit = |&number: &u8| match pieces.get(usize::from(number)) {
            Some(piece) => piece.to_vec(),
            None => {
                let mut unit = vec![0; length];
                coder.parity(&pieces, number, &mut unit);
                unit
            }
        };
        numbers.iter().map(unit).collect()
    }

    /// Checks that the coder and the counter agree on whether `numbers` suffice to decode the
    /// block.
    fn agrees(coder: &mut ReedSolomon, block: &[u8], data: u8, numbers: &[u8]) {
        let units = units(coder, block, data, numbers);
        let received: Vec<(u8, &[u8])> =
            numbers.iter().copied().zip(units.iter().map(Vec::as_slice)).collect();
        let mut counted = UnitSet::default();
        numbers.iter().for_each(|&number| {
            counted.insert(number);
        });
        let mut decoded = vec![7];
        let outcome = coder.decode(data, &received, &mut decoded);
        if counted.len() >= u16::from(data) {
            assert_eq!(outcome, Ok(()), "{data} {numbers:?}");
            assert_eq!(decoded[1..], *block, "{data} {numbers:?}");
        } else {
            let found = usize::from(counted.len());
            assert_eq!(outcome, Err(CodingError::TooFew { found, data }));
            assert_eq!(decoded, [7], "nothing is appended");
        }
    }

    #[test]
    fn parity_is_what_the_formula_says() {
        let (data, mut unit) = ([[3u8], [200]], [0]);
        let pieces = [&data[0][..], &data[1][..]];
        ReedSolomon::new().parity(&pieces, 2, &mut unit);
        let by_hand = gf256::multiply(3, gf256::invert(2)) ^ gf256::multiply(200, gf256::invert(3));
        assert_eq!(unit, [by_hand]);
    }

    #[test]
    fn counted_and_coded_agree_on_every_pattern_of_small_blocks() {
        let mut stream = Streams { seed: 3, replication: 0 }.stream("coding", "bytes");
        let mut coder = ReedSolomon::new();
        for total in 1..=9u8 {
            for data in 1..=total {
                let block = random(&mut stream, usize::from(data) * 5);
                for pattern in 0..1u32 << total {
                    let arrived: Vec<u8> =
                        (0..total).filter(|&unit| pattern >> unit & 1 == 1).collect();
                    agrees(&mut coder, &block, data, &arrived);
                }
            }
        }
    }

    #[test]
    fn units_of_different_lengths_are_refused() {
        let received: [(u8, &[u8]); 2] = [(0, &[1, 2]), (1, &[1])];
        let mut coder = ReedSolomon::new();
        let outcome = coder.decode(2, &received, &mut Vec::new());
        assert_eq!(outcome, Err(CodingError::Lengths(2, 1)));
        assert_eq!(coder.decode(0, &received[..1], &mut Vec::new()), Err(CodingError::Empty));
    }

    proptest! {
        /// Unit numbers in any order, with duplicates, and units of all lengths.
        #[test]
        fn counted_and_coded_agree_at_random_on_large_blocks(
            data in 1u8..=255,
            length in 1usize..100,
            seed in any::<u64>(),
            surplus in -3i32..4,
        ) {
            let mut stream = Streams { seed, replication: 0 }.stream("coding", "bytes");
            let block = random(&mut stream, usize::from(data) * length);
            let mut numbers: Vec<u8> = (0..=255).collect();
            for place in (1..256).rev() {
                let other = (stream.uniform() * (place + 1) as f64) as usize;
                numbers.swap(place, other);
            }
            numbers.truncate((i32::from(data) + surplus).clamp(0, 256) as usize);
            if let Some(&first) = numbers.first() {
                numbers.push(first);
            }
            agrees(&mut ReedSolomon::new(), &block, data, &numbers);
        }
    }
}
