//! Residual loss of systematic block codes on erasure channels.
//!
//! k data frames are followed by n - k parity frames. An MDS code recovers all data from any k of
//! the n frames (for example Reed–Solomon). Received data frames are delivered even if the block
//! cannot be decoded. A single XOR parity frame is the MDS code with n = k + 1.
//!
//! Independent losses: a data frame stays lost if it is lost and at least n - k of the other n - 1
//! frames are lost, p Pr(Binomial(n-1, p) ≥ n-k); for XOR p (1 - (1-p)^k). On a Gilbert–Elliott
//! channel the frames of a block are consecutive, data before parity. E[data lost; more than n - k
//! lost] is summed over the number of losses so far and the state of the channel.
//!
//! Limitations: interleaving is modelled by a wider spacing of the channel only; all blocks are
//! complete.
//!
//! ```
//! use lasthop_analysis::{GilbertElliottLaw, block_codes};
//!
//! // Independent losses of 10 %: both states lose alike. Four data frames and their XOR.
//! let channel = GilbertElliottLaw::new(0.5, 0.5, 0.1, 0.1)?;
//! let residual = block_codes::xor(&channel, 4)?.residual;
//! assert!((residual - 0.1 * (1.0 - 0.9_f64.powi(4))).abs() < 1e-12);
//! # Ok::<(), lasthop_analysis::AnalysisError>(())
//! ```

use super::gilbert_elliott::MAX_FRAMES;
use super::{AnalysisError, GilbertElliottLaw, Result, count, shown};

/// Losses of a block.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BlockLoss {
    /// Fraction of the data frames that is lost after decoding.
    pub residual: f64,
    /// Probability that the block cannot be decoded: more than n - k of its n frames are lost.
    pub failure: f64,
}

/// Returns the losses of an MDS code of `n` frames, `k` of them data, on a channel that steps once
/// per frame.
///
/// # Errors
/// If `n` is not from 1 to [`MAX_FRAMES`] or `k` is not from 1 to `n`.
pub fn mds(channel: &GilbertElliottLaw, n: u32, k: u32) -> Result<BlockLoss> {
    let n = count("n", n, 1..=MAX_FRAMES)?;
    let k = count("k", k, 1..=n)?;
    let [loss_good, loss_bad] = channel.loss();
    let loss = [loss_good, loss_bad];
    // By the number of losses so far and the state of the next frame: the probability, and the
    // expected number of data frames lost on this event.
    let mut cells: Vec<[[f64; 2]; 2]> = Vec::with_capacity(n as usize + 1);
    cells.push([channel.stationary(), [0.0; 2]]);
    for frame in 0..n {
        let data = if frame < k { 1.0 } else { 0.0 };
        let mut before = [[0.0; 2]; 2];
        for cell in &mut cells {
            let [probability, lost_data] = *cell;
            let carried = before;
            let kept = |v: [f64; 2]| [0, 1].map(|state| v[state] * (1.0 - loss[state]));
            let gone = |v: [f64; 2]| [0, 1].map(|state| v[state] * loss[state]);
            let plus = |a: [f64; 2], b: [f64; 2]| channel.step([a[0] + b[0], a[1] + b[1]]);
            let (gone_probability, gone_data) = (gone(probability), gone(lost_data));
            before = [
                gone_probability,
                [0, 1].map(|state| gone_data[state] + data * gone_probability[state]),
            ];
            *cell = [plus(kept(probability), carried[0]), plus(kept(lost_data), carried[1])];
        }
        cells.push([channel.step(before[0]), channel.step(before[1])]);
    }
    let lost = &cells[(n - k) as usize + 1..];
    let sum = |part: usize| lost.iter().map(|cell| cell[part][0] + cell[part][1]).sum::<f64>();
    Ok(BlockLoss { residual: (sum(1) / f64::from(k)).min(1.0), failure: sum(0).min(1.0) })
}

/// Returns the losses of a code with one parity frame, the XOR of the preceding `k` data frames.
///
/// # Errors
/// If `k` is not from 1 to [`MAX_FRAMES`] - 1.
pub fn xor(channel: &GilbertElliottLaw, k: u32) -> Result<BlockLoss> {
    mds(channel, count("k", k, 1..=MAX_FRAMES - 1)? + 1, k)
}

/// Returns the minimum number of parity frames with which an MDS code of `k` data frames loses at
/// most the fraction `target` of them.
///
/// # Errors
/// If `k` is not from 1 to [`MAX_FRAMES`], `target` is not a probability, or more than `most`
/// parity frames are needed.
pub fn parity_for(channel: &GilbertElliottLaw, k: u32, target: f64, most: u32) -> Result<u32> {
    let target = super::probability("target", target)?;
    let k = count("k", k, 1..=MAX_FRAMES)?;
    let most = count("most", most, 0..=MAX_FRAMES - k)?;
    let mut left = 1.0;
    for parity in 0..=most {
        left = mds(channel, k + parity, k)?.residual;
        if left <= target {
            return Ok(parity);
        }
    }
    let left = shown(left);
    let allowed = format!("what {most} parity frames reach; they leave a loss of {left}");
    Err(AnalysisError::new("target", shown(target), allowed))
}
