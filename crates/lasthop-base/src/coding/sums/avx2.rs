//! Sums of units times factors with the AVX2 instructions of x86-64 processors. One instruction
//! looks up 32 bytes in a table of 16 entries.
//!
//! With b = 16 h + l, factor times b is factor times 16 h plus factor times l: two lookups. Source:
//! J. Plank, K. Greenan and E. Miller, "Screaming fast Galois field arithmetic using Intel SIMD
//! instructions", USENIX FAST 2013. One pass over the inputs computes up to four outputs; each
//! input is then loaded and split once.

#![expect(
    unsafe_code,
    reason = "instructions that not every processor has, loads and stores of 32 bytes"
)]

use super::gf256;
use std::arch::x86_64::{
    __m256i, _mm_loadu_si128, _mm256_and_si256, _mm256_broadcastsi128_si256, _mm256_loadu_si256,
    _mm256_set1_epi8, _mm256_setzero_si256, _mm256_shuffle_epi8, _mm256_srli_epi16,
    _mm256_storeu_si256, _mm256_xor_si256,
};

/// Number of bytes per instruction. Shorter units are computed by another method.
const WIDE: usize = 32;

/// Maximum number of outputs per pass over the inputs.
const TOGETHER: usize = 4;

/// For each factor, its products with 0 ... 15 and with 0, 16, ... 240.
static PRODUCTS: [[[u8; 16]; 2]; 256] = {
    let mut products = [[[0; 16]; 2]; 256];
    let mut entry = 0;
    while entry < 256 * 16 {
        let (factor, half) = (entry / 16, entry % 16);
        products[factor][0][half] = gf256::multiply(factor as u8, half as u8);
        products[factor][1][half] = gf256::multiply(factor as u8, (half << 4) as u8);
        entry += 1;
    }
    products
};

/// Like [`Sums::combine`](super::Sums::combine), but returns `false` and writes nothing if units
/// are shorter than 32 bytes or the processor lacks AVX2.
pub fn combine(inputs: &[&[u8]], factors: &[u8], outputs: &mut [&mut [u8]]) -> bool {
    let is_long = outputs.iter().all(|output| output.len() >= WIDE);
    let can = is_long && is_x86_feature_detected!("avx2");
    if can {
        // SAFETY: the processor supports AVX2.
        unsafe { combine_all(inputs, factors, outputs) };
    }
    can
}

#[target_feature(enable = "avx2")]
fn combine_all(inputs: &[&[u8]], factors: &[u8], outputs: &mut [&mut [u8]]) {
    let rows = factors.chunks(TOGETHER * inputs.len());
    for (outputs, rows) in outputs.chunks_mut(TOGETHER).zip(rows) {
        match outputs {
            [a, b, c, d] => pass(inputs, rows, [a, b, c, d]),
            [a, b, c] => pass(inputs, rows, [a, b, c]),
            [a, b] => pass(inputs, rows, [a, b]),
            [a] => pass(inputs, rows, [a]),
            _ => unreachable!("one to four outputs"),
        }
    }
}

/// Performs one pass over the inputs. The last 32 bytes of a unit may overlap the previous 32; both
/// passes write equal values.
#[target_feature(enable = "avx2")]
fn pass<const OUTPUTS: usize>(inputs: &[&[u8]], factors: &[u8], mut outputs: [&mut [u8]; OUTPUTS]) {
    let length = outputs[0].len();
    let lower_half = _mm256_set1_epi8(0x0f);
    let mut at = 0;
    while at < length {
        let from = at.min(length - WIDE);
        let mut sums = [_mm256_setzero_si256(); OUTPUTS];
        for (place, input) in inputs.iter().enumerate() {
            let bytes = load(&input[from..from + WIDE]);
            let lower = _mm256_and_si256(bytes, lower_half);
            let upper = _mm256_and_si256(_mm256_srli_epi16::<4>(bytes), lower_half);
            for (row, sum) in sums.iter_mut().enumerate() {
                let factor = factors[row * inputs.len() + place];
                let [low, high] =
                    PRODUCTS[usize::from(factor)].each_ref().map(|table| twice(table));
                *sum = _mm256_xor_si256(*sum, _mm256_shuffle_epi8(low, lower));
                *sum = _mm256_xor_si256(*sum, _mm256_shuffle_epi8(high, upper));
            }
        }
        for (output, sum) in outputs.iter_mut().zip(sums) {
            store(&mut output[from..from + WIDE], sum);
        }
        at += WIDE;
    }
}

#[target_feature(enable = "avx2")]
fn load(bytes: &[u8]) -> __m256i {
    let bytes: &[u8; WIDE] = bytes.try_into().expect("32 bytes");
    // SAFETY: the slice has 32 bytes, and the instruction requires no alignment.
    unsafe { _mm256_loadu_si256(bytes.as_ptr().cast()) }
}

#[target_feature(enable = "avx2")]
fn store(bytes: &mut [u8], value: __m256i) {
    let bytes: &mut [u8; WIDE] = bytes.try_into().expect("32 bytes");
    // SAFETY: the slice has 32 bytes, and the instruction requires no alignment.
    unsafe { _mm256_storeu_si256(bytes.as_mut_ptr().cast(), value) }
}

/// Copies the table to both halves of a register, as the lookup instruction requires.
#[target_feature(enable = "avx2")]
fn twice(table: &[u8; 16]) -> __m256i {
    // SAFETY: the array has 16 bytes, and the instruction requires no alignment.
    _mm256_broadcastsi128_si256(unsafe { _mm_loadu_si128(table.as_ptr().cast()) })
}
