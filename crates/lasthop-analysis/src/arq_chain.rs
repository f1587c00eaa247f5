//! Selective repeat on a two-state channel: the Markov chain of one isolated SDU.
//!
//! The N PDUs of an SDU are transmitted in one frame. Failed PDUs are retransmitted in the next frame
//! (or, with a feedback delay of d frames, d frames later), and so on. With k PDUs missing in state C:
//!
//! ```text
//!            +--------------------+   k' of k fail: binomial, p_C
//!   (C, N) --+--> (C', k') --> ... --> (C'', 0): delivered
//!            +--------------------+   C' after C: the channel's chain, d steps
//! ```
//!
//! F(n) = Pr{η > n} = π Qⁿ e is the probability that n transmissions do not suffice. Q is never
//! raised to a power: v ← vQ, with the binomials in two triangular tables.
//!
//! Source: F. Vacirca, A. De Vendictis, A. Baiocchi, "Investigating Interactions between ARQ
//! Mechanisms and TCP over Wireless Links", section 4.1. Its equation (1) for Q is misprinted;
//! see [`TransitionForm`]. Its E[η | n ≤ M] is E[min(η, M)].
//!
//! E\[η\] is the solution of (I - Q)x = e, computed upwards from k = 1 in 2 × 2 blocks: the block of k
//! is I - P diag(p_G^k, p_B^k).
//!
//! Limitations: SDUs that wait for one another, PDUs of one SDU in different frames and lost feedback are
//! not modelled. `ideal_sr` models the first two.

mod thinning;

use super::{AnalysisError, GilbertElliottLaw, Result, count, probability};
use thinning::{GROUP, TINY, Thinning, padded};

/// Maximum number of PDUs per SDU.
pub const MAX_PDUS: u32 = 1024;
/// Maximum number of transmissions per PDU, for limits and searches.
pub const MAX_TRANSMISSIONS: u32 = 100_000;

/// Number of transmissions up to which a search does not first check a single PDU.
const SOON: usize = 1000;

/// Form of the matrix Q: the state of the channel whose errors a frame experiences. Started in the
/// stationary distribution, the first two forms yield the same F(n) for every n.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum TransitionForm {
    /// The state entered: [[g T_G, (1-g) T_B], [(1-b) T_G, b T_B]].
    #[default]
    Entered,
    /// The state left: [[g T_G, (1-g) T_G], [(1-b) T_B, b T_B]].
    Left,
    /// As printed in equation (1), [[g T_G, (1-g) T_B], [(1-b) T_B, b T_B]]: a frame that enters
    /// the good state experiences the errors of the bad one. Incorrect; kept to identify numbers
    /// computed with it.
    AsPrinted,
}

/// State of the channel when TCP retransmits an SDU that the link has discarded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Restart {
    /// The stationary distribution: the retransmission is late. This is the assumption of the
    /// paper's formula.
    Stationary,
    /// The state after this number of frames since the last transmission of the discarded SDU, at
    /// least 1. The sender detects the loss after the spacing of the chain; smaller numbers have
    /// the same effect.
    After(u32),
}

/// The chain of one SDU.
///
/// ```
/// use lasthop_analysis::{ArqChain, GilbertElliottLaw};
///
/// // Without memory, each of the 25 PDUs of an SDU is lost with probability 0.1 per transmission.
/// let channel = GilbertElliottLaw::new(0.5, 0.5, 0.1, 0.1)?;
/// let chain = ArqChain::new(channel, 25, 1)?;
/// let expected = 1.0 - (1.0 - 0.1_f64.powi(3)).powi(25);
/// assert!((chain.residual_loss(3)? - expected).abs() < 1e-12);
/// # Ok::<(), lasthop_analysis::AnalysisError>(())
/// ```
#[derive(Clone, Debug)]
pub struct ArqChain {
    channel: GilbertElliottLaw,
    /// The channel between two transmissions of a PDU.
    spaced: GilbertElliottLaw,
    pdus: usize,
    spacing: u32,
    thinning: [Thinning; 2],
}

/// Iterator over F(0), F(1), F(2), ...: the probability that n transmissions do not suffice.
#[derive(Clone, Debug)]
pub struct ResidualLosses<'a> {
    chain: &'a ArqChain,
    form: TransitionForm,
    /// Probability of each number of missing PDUs, per state of the channel.
    v: [Vec<f64>; 2],
    next: [Vec<f64>; 2],
    /// Number of entries that can differ from 0, in whole groups.
    top: usize,
    is_first: bool,
}

impl ResidualLosses<'_> {
    fn residual(&self) -> f64 {
        let [good, bad] = self.v.each_ref().map(|v| &v[..self.top]);
        (good.iter().sum::<f64>() + bad.iter().sum::<f64>()).min(1.0)
    }

    /// Computes v ← vQ.
    fn advance(&mut self) {
        let [p, r] = self.chain.spaced.leave();
        let [thin_good, thin_bad] = &self.chain.thinning;
        let [good, bad] = &mut self.v;
        let [next_good, next_bad] = &mut self.next;
        let (good, bad) = (&mut good[..self.top], &mut bad[..self.top]);
        let (next_good, next_bad) = (&mut next_good[..self.top], &mut next_bad[..self.top]);
        next_good.fill(0.0);
        next_bad.fill(0.0);
        let mix = |good: &mut [f64], bad: &mut [f64]| {
            for (g, b) in good.iter_mut().zip(bad) {
                (*g, *b) = (*g * (1.0 - p) + *b * r, *g * p + *b * (1.0 - r));
            }
        };
        match self.form {
            TransitionForm::Entered => {
                mix(good, bad);
                thin_good.add(good, next_good);
                thin_bad.add(bad, next_bad);
            }
            TransitionForm::Left => {
                thin_good.add(good, next_good);
                thin_bad.add(bad, next_bad);
                mix(next_good, next_bad);
            }
            TransitionForm::AsPrinted => {
                let scaled = |v: &[f64], by: f64| v.iter().map(|x| by * x).collect::<Vec<_>>();
                thin_good.add(&scaled(good, 1.0 - p), next_good);
                thin_bad.add(&scaled(bad, r), next_good);
                thin_bad.add(&scaled(good, p), next_bad);
                thin_bad.add(&scaled(bad, 1.0 - r), next_bad);
            }
        }
        // After several frames, large numbers of missing PDUs are improbable. Entries of negligible
        // probability are omitted.
        while self.top > GROUP {
            let last = self.top - GROUP..self.top;
            if next_good[last.clone()].iter().chain(&next_bad[last]).any(|&mass| mass >= TINY) {
                break;
            }
            self.top -= GROUP;
        }
        std::mem::swap(&mut self.v, &mut self.next);
    }
}

impl Iterator for ResidualLosses<'_> {
    type Item = f64;
    fn next(&mut self) -> Option<f64> {
        if std::mem::replace(&mut self.is_first, false) {
            return Some(1.0);
        }
        self.advance();
        Some(self.residual())
    }
}

impl ArqChain {
    /// Creates the chain of an SDU of `pdus` PDUs over `channel`. Failed PDUs are retransmitted
    /// `spacing` frames later (1 in the paper: feedback before the next frame).
    ///
    /// # Errors
    /// If `pdus` is not from 1 to [`MAX_PDUS`] or `spacing` is not from 1 to
    /// [`super::gilbert_elliott::MAX_SPACING`].
    pub fn new(channel: GilbertElliottLaw, pdus: u32, spacing: u32) -> Result<Self> {
        let pdus = count("pdus", pdus, 1..=MAX_PDUS)? as usize;
        let spaced = channel.spaced(spacing)?;
        let thinning = channel.loss().map(|loss| Thinning::new(loss, pdus));
        Ok(ArqChain { channel, spaced, pdus, spacing, thinning })
    }

    /// Returns the chain of a single PDU with the same channel and spacing.
    fn single(&self) -> Self {
        let thinning = self.channel.loss().map(|loss| Thinning::new(loss, 1));
        ArqChain { pdus: 1, thinning, ..self.clone_without_tables() }
    }

    fn clone_without_tables(&self) -> Self {
        let thinning = [Thinning { rows: Vec::new() }, Thinning { rows: Vec::new() }];
        ArqChain { thinning, channel: self.channel, spaced: self.spaced, ..*self }
    }

    fn losses_from(&self, start: [f64; 2], form: TransitionForm) -> ResidualLosses<'_> {
        let empty = || [0, 1].map(|_| vec![0.0; padded(self.pdus)]);
        let mut v = empty();
        v[0][self.pdus - 1] = start[0];
        v[1][self.pdus - 1] = start[1];
        ResidualLosses {
            chain: self,
            form,
            v,
            next: empty(),
            top: padded(self.pdus),
            is_first: true,
        }
    }

    /// Returns the infinite sequence F(0), F(1), F(2), ...
    pub fn residual_losses(&self) -> ResidualLosses<'_> {
        self.residual_losses_by(TransitionForm::Entered)
    }

    /// Returns F(0), F(1), ..., F(`longest`).
    ///
    /// # Errors
    /// If `longest` exceeds [`MAX_TRANSMISSIONS`].
    pub fn residual_loss_table(&self, longest: u32) -> Result<Vec<f64>> {
        let longest = count("longest", longest, 0..=MAX_TRANSMISSIONS)?;
        Ok(self.residual_losses().take(longest as usize + 1).collect())
    }

    /// Returns F(0), F(1), F(2), ... for any form of Q.
    pub fn residual_losses_by(&self, form: TransitionForm) -> ResidualLosses<'_> {
        self.losses_from(self.channel.stationary(), form)
    }

    /// Returns F(limit): the loss probability of an SDU with at most `limit` transmissions per PDU.
    ///
    /// # Errors
    /// If `limit` is not from 1 to [`MAX_TRANSMISSIONS`].
    pub fn residual_loss(&self, limit: u32) -> Result<f64> {
        Ok(self.truncated(limit)?.0)
    }

    /// Returns F(limit) and the sum of F(0) to F(limit - 1).
    fn truncated(&self, limit: u32) -> Result<(f64, f64)> {
        let limit = count("limit", limit, 1..=MAX_TRANSMISSIONS)?;
        let (mut sum, mut last) = (0.0, 1.0);
        for residual in self.residual_losses().skip(1).take(limit as usize) {
            sum += last;
            last = residual;
        }
        Ok((last, sum))
    }

    /// Returns E\[η\]: the mean number of transmissions until the whole SDU is delivered, without a
    /// limit (equation 2).
    ///
    /// # Errors
    /// If the channel has a state that it cannot leave and that loses every frame.
    pub fn mean_attempts(&self) -> Result<f64> {
        let [p, r] = self.spaced.leave();
        let loss = self.spaced.loss();
        // Minus infinity if no frame is lost; the exponential is then 0.
        let log_loss = loss.map(f64::ln);
        // Mean number of remaining transmissions, by the state before the transmission and the
        // number k of missing PDUs.
        let mut x = [vec![0.0; self.pdus], vec![0.0; self.pdus]];
        for k in 1..=self.pdus {
            // a, c: all k PDUs fail in the good, in the bad state.
            let [a, c] = loss.map(|p| p.powi(k as i32));
            let [not_a, not_c] = log_loss.map(|log| -(k as f64 * log).exp_m1());
            // Determinant of I - P diag(a, c), written without differences.
            let determinant = not_a * not_c + not_a * c * r + not_c * a * p;
            let y = [0, 1].map(|state| {
                let row = self.thinning[state].row(k);
                row[..k - 1].iter().zip(&x[state]).map(|(share, later)| share * later).sum::<f64>()
            });
            let right = [1.0 + (1.0 - p) * y[0] + p * y[1], 1.0 + r * y[0] + (1.0 - r) * y[1]];
            // 1 - bc and 1 - ga, again without differences.
            let (not_bc, not_ga) = (not_c + c * r, not_a + a * p);
            x[0][k - 1] = (not_bc * right[0] + p * c * right[1]) / determinant;
            x[1][k - 1] = (r * a * right[0] + not_ga * right[1]) / determinant;
            if !(x[0][k - 1].is_finite() && x[1][k - 1].is_finite()) {
                let [p, r] = self.channel.leave();
                return Err(AnalysisError::new(
                    "channel",
                    format!(
                        "good_to_bad {p}, bad_to_good {r}, loss_in_good {}, loss_in_bad {}",
                        loss[0], loss[1]
                    ),
                    "one that leaves every state in which nothing arrives; the mean is infinite",
                ));
            }
        }
        let [good, bad] = self.channel.stationary();
        let mean = |share: f64, x: &[f64]| if share > 0.0 { share * x[x.len() - 1] } else { 0.0 };
        Ok(mean(good, &x[0]) + mean(bad, &x[1]))
    }

    /// Returns E[min(η, limit)]: the mean number of transmissions of an SDU under a limit (equation
    /// 3).
    ///
    /// # Errors
    /// If `limit` is not from 1 to [`MAX_TRANSMISSIONS`].
    pub fn mean_attempts_limited(&self, limit: u32) -> Result<f64> {
        Ok(self.truncated(limit)?.1)
    }

    /// Returns the mean number of transmissions of one PDU: N of the paper, the chain with a single
    /// PDU. It applies to SDUs of any size, because all PDUs of a discarded SDU have the same age.
    ///
    /// # Errors
    /// As for [`Self::mean_attempts`] without a limit, as for [`Self::mean_attempts_limited`] with
    /// a limit.
    pub fn transmissions_per_pdu(&self, limit: Option<u32>) -> Result<f64> {
        let single = self.single();
        limit.map_or_else(|| single.mean_attempts(), |limit| single.mean_attempts_limited(limit))
    }

    /// Returns E[η | η ≤ limit]: the mean number of transmissions of the SDUs delivered under a
    /// limit.
    ///
    /// # Errors
    /// If `limit` is not from 1 to [`MAX_TRANSMISSIONS`], or no SDU is delivered within it.
    pub fn mean_attempts_of_delivered(&self, limit: u32) -> Result<f64> {
        let (lost, sum) = self.truncated(limit)?;
        let delivered = 1.0 - lost;
        if delivered <= 0.0 {
            let allowed = "a limit within which an SDU can arrive on this channel";
            return Err(AnalysisError::new("limit", limit, allowed));
        }
        Ok(((sum - f64::from(limit) * lost) / delivered).clamp(1.0, f64::from(limit)))
    }

    /// Returns Pr(η = 1, 2, ..., `longest`): the distribution of the number of transmissions
    /// without a limit. n transmissions last 1 + (n - 1) spacing frames.
    ///
    /// # Errors
    /// If `longest` is not from 1 to [`MAX_TRANSMISSIONS`].
    pub fn attempts_law(&self, longest: u32) -> Result<Vec<f64>> {
        let longest = count("longest", longest, 1..=MAX_TRANSMISSIONS)?;
        let mut last = 1.0;
        let step = |residual: f64| (std::mem::replace(&mut last, residual) - residual).max(0.0);
        Ok(self.residual_losses().skip(1).take(longest as usize).map(step).collect())
    }

    /// Returns the number of frames from the start of the first transmission to the end of
    /// transmission number `attempts`.
    pub fn frames(&self, attempts: u32) -> u64 {
        1 + u64::from(attempts.saturating_sub(1)) * u64::from(self.spacing)
    }

    /// Returns a quantile of the number of transmissions of delivered SDUs: of all SDUs without a
    /// limit, of those not discarded with a limit. [`Self::frames`] converts it to frames.
    ///
    /// # Errors
    /// If `quantile` is not above 0 and below 1, if `limit` is not from 1 to [`MAX_TRANSMISSIONS`],
    /// or if the quantile exceeds [`MAX_TRANSMISSIONS`].
    pub fn attempts_quantile(&self, quantile: f64, limit: Option<u32>) -> Result<u32> {
        if !(quantile > 0.0 && quantile < 1.0) {
            let allowed = "a fraction above 0 and below 1";
            return Err(AnalysisError::new("quantile", quantile, allowed));
        }
        let lost = limit.map_or(Ok(0.0), |limit| self.residual_loss(limit))?;
        if lost >= 1.0 {
            let allowed = "a limit within which an SDU can arrive on this channel";
            return Err(AnalysisError::new("limit", limit.unwrap_or(0), allowed));
        }
        // Maximum remaining probability: the fraction `quantile` of the delivered SDUs has arrived.
        let target = 1.0 - quantile * (1.0 - lost);
        match limit {
            // Rounding must not move the search beyond the limit, at which all have arrived.
            Some(limit) => {
                let found = self
                    .residual_losses()
                    .skip(1)
                    .take(limit as usize)
                    .position(|residual| residual <= target);
                Ok(found.map_or(limit, |n| n as u32 + 1))
            }
            None => self.smallest("quantile", quantile, target),
        }
    }

    /// Returns λ₁₁, the largest eigenvalue of Q: F(n + 1) / F(n) for large n.
    pub fn dominant_eigenvalue(&self) -> f64 {
        let [p, r] = self.spaced.leave();
        let [good, bad] = self.spaced.loss();
        let (stay_good, stay_bad) = ((1.0 - p) * good, (1.0 - r) * bad);
        // Root of t² - 4d as a sum of squares.
        let root = ((stay_good - stay_bad).powi(2) + 4.0 * p * r * good * bad).sqrt();
        (0.5 * (stay_good + stay_bad + root)).min(1.0)
    }

    /// Returns F(1) = 1 - [π_G (1-p_G)^N + π_B (1-p_B)^N].
    fn first_loss(&self) -> f64 {
        let share = |state: usize| {
            let loss = self.channel.loss()[state];
            let failed =
                if loss < 1.0 { -(self.pdus as f64 * (-loss).ln_1p()).exp_m1() } else { 1.0 };
            self.channel.stationary()[state] * failed
        };
        (share(0) + share(1)).min(1.0)
    }

    /// Returns F(1) λ₁₁^(n-1), the paper's approximation (equation 4). Its slope is correct, but
    /// its magnitude is not: with 25 PDUs it is too small by a factor of 10 to 20 for large n.
    ///
    /// # Errors
    /// If `limit` is not from 1 to [`MAX_TRANSMISSIONS`].
    pub fn approximate_residual_loss(&self, limit: u32) -> Result<f64> {
        let limit = count("limit", limit, 1..=MAX_TRANSMISSIONS)?;
        Ok(self.first_loss() * self.dominant_eigenvalue().powi(limit as i32 - 1))
    }

    /// Returns the limit at which the approximation reaches `target`, as the paper's adaptive
    /// algorithm computes it. The true loss at this limit may be far above the target.
    ///
    /// # Errors
    /// If `target` is not above 0 and at most 1, or the limit would exceed [`MAX_TRANSMISSIONS`].
    pub fn limit_for_approximate(&self, target: f64) -> Result<u32> {
        let target = loss_target(target)?;
        let first = self.first_loss();
        if target >= first {
            return Ok(1);
        }
        let slope = self.dominant_eigenvalue();
        // A slope of 0 needs one more transmission; a slope of 1 has no solution.
        let more = if slope > 0.0 { ((target / first).ln() / slope.ln()).ceil() } else { 1.0 };
        if slope < 1.0 && more < f64::from(MAX_TRANSMISSIONS) {
            return Ok(1 + more as u32);
        }
        let left = first * slope.powi(MAX_TRANSMISSIONS as i32 - 1);
        Err(unreachable_target("target", target, left))
    }

    /// Returns the smallest limit that loses at most the fraction `target` of all SDUs.
    ///
    /// # Errors
    /// If `target` is not above 0 and at most 1, or the limit would exceed [`MAX_TRANSMISSIONS`].
    pub fn limit_for(&self, target: f64) -> Result<u32> {
        let target = loss_target(target)?;
        self.smallest("target", target, target)
    }

    /// Returns the smallest n ≥ 1 with F(n) ≤ `target`.
    fn smallest(&self, argument: &'static str, found: f64, target: f64) -> Result<u32> {
        let mut losses =
            self.residual_losses().skip(1).enumerate().take(MAX_TRANSMISSIONS as usize);
        let within = |(n, residual): (usize, f64)| (residual <= target).then_some(n as u32 + 1);
        if let Some(n) = losses.by_ref().take(SOON).find_map(within) {
            return Ok(n);
        }
        // Before a long search: a single PDU is lost less often than any of N, so the chain of a
        // single PDU shows at low cost whether the target is out of reach.
        let last = self.single().residual_losses().nth(MAX_TRANSMISSIONS as usize);
        if last.is_some_and(|residual| residual > target) {
            return Err(self.too_many(argument, found));
        }
        losses.find_map(within).ok_or_else(|| self.too_many(argument, found))
    }

    fn too_many(&self, argument: &'static str, found: f64) -> AnalysisError {
        // Lower bound of the remaining loss: that of a single PDU.
        let left = self.single().residual_losses().nth(MAX_TRANSMISSIONS as usize);
        unreachable_target(argument, found, left.unwrap_or(0.0))
    }

    /// Returns R: the surplus transmissions per delivered PDU under `limit`, relative to those
    /// without a limit, if TCP retransmits the SDUs that the link discards.
    ///
    /// In the stationary channel R = (N_limit / (1 - F(limit)) - 1) / (N_∞ - 1), with N of a single
    /// PDU and F of the whole SDU. After a fixed number of frames, the state carries over. Let D be
    /// the 2 × 2 matrix of discarding, from the state in the first frame to the state in the first
    /// frame of the next attempt. The mean cost is then π (I - D)⁻¹ c instead of N / (1 - F).
    ///
    /// # Errors
    /// If `limit` is not from 1 to [`MAX_TRANSMISSIONS`], if no SDU is delivered within it, if the
    /// number of frames before a restart is not from 1 to [`super::gilbert_elliott::MAX_SPACING`],
    /// or if the channel loses no frames, so that R is undefined.
    pub fn energy_ratio(&self, limit: u32, restart: Restart) -> Result<f64> {
        let unlimited = self.transmissions_per_pdu(None)? - 1.0;
        if unlimited <= 0.0 {
            let allowed = "a channel that loses frames";
            return Err(AnalysisError::new("channel", "a loss rate of 0", allowed));
        }
        Ok((self.transmissions_per_delivered_pdu(limit, restart)? - 1.0) / unlimited)
    }

    /// Returns the mean number of transmissions per PDU of an SDU that TCP retransmits until it is
    /// delivered.
    ///
    /// # Errors
    /// As for [`Self::energy_ratio`], but a channel without losses is permitted.
    pub fn transmissions_per_delivered_pdu(&self, limit: u32, restart: Restart) -> Result<f64> {
        let limit = count("limit", limit, 1..=MAX_TRANSMISSIONS)?;
        let refused = || {
            let allowed = "a limit within which an SDU can arrive on this channel";
            AnalysisError::new("limit", limit, allowed)
        };
        let Restart::After(frames) = restart else {
            let delivered = 1.0 - self.residual_loss(limit)?;
            let cost = self.transmissions_per_pdu(Some(limit))?;
            return if delivered > 0.0 { Ok(cost / delivered) } else { Err(refused()) };
        };
        let between = self
            .channel
            .spaced(frames)
            .map_err(|error| AnalysisError { argument: "restart", ..error })?;
        let single = self.single();
        let mut cost = [0.0; 2];
        let mut given_up = [[0.0; 2]; 2];
        for state in 0..2 {
            let mut start = [0.0; 2];
            start[state] = 1.0;
            // Errors depend on the state left: the start is the state in the first frame.
            let losses = single.losses_from(start, TransitionForm::Left);
            cost[state] = losses.take(limit as usize).sum();
            let mut losses = self.losses_from(start, TransitionForm::Left);
            for _ in 1..limit {
                losses.advance();
            }
            // After the last transmission, the channel makes `frames` steps instead of those of the
            // chain.
            let mut last = [0.0; 2];
            for (state, slot) in last.iter_mut().enumerate() {
                let mut rest = vec![0.0; padded(self.pdus)];
                self.thinning[state].add(&losses.v[state][..losses.top], &mut rest);
                *slot = rest.iter().sum();
            }
            given_up[state] = between.step(last);
        }
        let [[a, b], [c, d]] = given_up;
        let determinant = (1.0 - a) * (1.0 - d) - b * c;
        if determinant <= 0.0 || !determinant.is_finite() {
            return Err(refused());
        }
        let x = [
            ((1.0 - d) * cost[0] + b * cost[1]) / determinant,
            (c * cost[0] + (1.0 - a) * cost[1]) / determinant,
        ];
        let [good, bad] = self.channel.stationary();
        Ok(good * x[0] + bad * x[1])
    }
}

fn loss_target(target: f64) -> Result<f64> {
    if probability("target", target)? > 0.0 {
        Ok(target)
    } else {
        Err(AnalysisError::new("target", target, "a probability above 0, at most 1"))
    }
}

fn unreachable_target(argument: &'static str, found: f64, left: f64) -> AnalysisError {
    let allowed = format!(
        "what {MAX_TRANSMISSIONS} transmissions reach on this channel; they leave a loss of at least {}",
        super::shown(left)
    );
    AnalysisError::new(argument, found, allowed)
}
