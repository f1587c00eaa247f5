//! The congestion window of a greedy TCP Reno as a Markov chain, and its throughput over a link
//! with ARQ.
//!
//! ```text
//!          no loss: (1-ν)^i
//!   +---+ ------------------> +-----+
//!   | i |                     | i+1 |      c losses, 2^c < i: binomial, halved c times
//!   +---+                     +-----+      any other: 1
//!     +---> ⌊i/2^c⌋, +---> 1
//! ```
//!
//! One step is the transmission of one window of i packets and lasts max(i / C_d, E\[T\]). The throughput
//! is the mean number of packets over the mean duration of a step (renewal reward). It is a sending rate;
//! goodput is (1-ν) times the throughput.
//!
//! Source: F. Vacirca, A. De Vendictis, A. Baiocchi, "Investigating Interactions between ARQ
//! Mechanisms and TCP over Wireless Links", section 4.2, equations (5) to (8). Where ⌊i/2^c⌋ = 1,
//! the probability is part of "any other" and counted once. At the maximum window W, growth
//! ends.
//!
//! The window grows by one packet per step. The upward flow across the cut between i and i + 1 is therefore
//! π_i (1-ν)^i alone and equals the downward flow of the halvings. This yields π from the top down
//! in one pass over the sparse rows. Sweeps of π ← πq then remove rounding errors.
//!
//! Limitations: slow start, timeouts, the receiver's window, lost ACKs, loss bursts and the duration of
//! several halvings are not modelled. At total losses near 20 %, timeouts dominate, and the chain is too
//! optimistic.

use super::{
    AnalysisError, ArqChain, GilbertElliottLaw, Result, count, not_negative, positive, probability,
};

/// Maximum window, in packets.
pub const MAX_WINDOW: u32 = 200_000;
/// Minimum loss for which a sufficient maximum window is chosen automatically.
const LEAST_LOSS: f64 = 1e-8;
/// Sum of |πq - π| below which π is stationary.
const CONVERGED: f64 = 1e-13;
const MOST_SWEEPS: usize = 10_000;

/// The chain of window sizes in its stationary distribution.
#[derive(Clone, Debug)]
pub struct TcpChain {
    loss: f64,
    stationary: Vec<f64>,
}

/// Processes one row of the chain: calls `to(j, q)` for each target j > 1 except growth, and
/// returns the probabilities of growth and of a window of 1.
fn row(window: usize, log_arrival: f64, odds: f64, mut to: impl FnMut(usize, f64)) -> (f64, f64) {
    let growth = (window as f64 * log_arrival).exp();
    let mut rest = 1.0 - growth;
    let mut share = growth;
    let mut losses = 1;
    while 1usize << losses < window {
        share *= (window - losses + 1) as f64 / losses as f64 * odds;
        let target = window >> losses;
        if target > 1 {
            to(target, share);
            rest -= share;
        }
        losses += 1;
    }
    (growth, rest.max(0.0))
}

impl TcpChain {
    /// Computes the stationary distribution for independent packet losses with probability `loss`.
    /// Growth ends at `max_window` packets; `None` selects a window so large that it is practically
    /// never reached.
    ///
    /// # Errors
    /// If `loss` is not a probability, or below 1e-8 without a maximum window; if `max_window` is
    /// not from 1 to [`MAX_WINDOW`]; if the distribution does not converge.
    pub fn new(loss: f64, max_window: Option<u32>) -> Result<Self> {
        let loss = probability("loss", loss)?;
        // P(no loss from W/2 to W) is about exp(-3/8 loss W²) < 1e-23: larger windows do not occur.
        let reached = (12.0 / loss.sqrt()).ceil() + 8.0;
        let largest = match max_window {
            Some(window) => f64::from(count("max_window", window, 1..=MAX_WINDOW)?).min(reached),
            None if loss >= LEAST_LOSS => reached,
            None => {
                let allowed = "a probability of at least 1e-8, or a maximum window in addition";
                return Err(AnalysisError::new("loss", super::shown(loss), allowed));
            }
        };
        let largest = largest as usize;
        if loss >= 1.0 {
            let mut stationary = vec![0.0; largest];
            stationary[0] = 1.0;
            return Ok(TcpChain { loss, stationary });
        }
        let mut chain = TcpChain { loss, stationary: Self::by_cuts(loss, largest) };
        chain.polish()?;
        Ok(chain)
    }

    /// Computes π from the top down: upward and downward flow are equal across every cut.
    fn by_cuts(loss: f64, largest: usize) -> Vec<f64> {
        let (log_arrival, odds) = ((-loss).ln_1p(), loss / (1.0 - loss));
        let mut law = vec![0.0; largest];
        // Flow of the jumps onto each state from states above the cut.
        let mut landing = vec![0.0; largest + 1];
        let mut down = 0.0;
        law[largest - 1] = 1.0;
        for state in (1..largest).rev() {
            // Moves the cut from above `state + 1` to below it: jumps that land on it no longer
            // cross the cut, and jumps that start there now do.
            let above = state + 1;
            down -= landing[above];
            let mass = law[above - 1];
            let (_, to_one) = row(above, log_arrival, odds, |target, share| {
                landing[target] += mass * share;
                down += mass * share;
            });
            down += mass * to_one;
            let growth = (state as f64 * log_arrival).exp();
            let mass = (down / growth).max(0.0);
            if !mass.is_finite() {
                // The states above have negligible probability compared with this one.
                law[state..].fill(0.0);
                landing.fill(0.0);
                (down, law[state - 1]) = (0.0, 1.0);
                continue;
            }
            law[state - 1] = mass;
            if mass > 1e200 {
                // Only the proportions matter.
                let scale = 1.0 / mass;
                law[state - 1..].iter_mut().for_each(|x| *x *= scale);
                landing.iter_mut().for_each(|x| *x *= scale);
                down *= scale;
            }
        }
        let sum: f64 = law.iter().sum();
        law.iter_mut().for_each(|x| *x /= sum);
        law
    }

    /// Repeats π ← πq until π is stationary.
    fn polish(&mut self) -> Result<()> {
        let (log_arrival, odds) = ((-self.loss).ln_1p(), self.loss / (1.0 - self.loss));
        let largest = self.stationary.len();
        let mut next = vec![0.0; largest];
        let mut change = f64::INFINITY;
        for _ in 0..MOST_SWEEPS {
            next.fill(0.0);
            for (index, &mass) in self.stationary.iter().enumerate() {
                if mass == 0.0 {
                    continue;
                }
                let (growth, to_one) = row(index + 1, log_arrival, odds, |target, share| {
                    next[target - 1] += mass * share;
                });
                next[(index + 1).min(largest - 1)] += mass * growth;
                next[0] += mass * to_one;
            }
            let sum: f64 = next.iter().sum();
            change = 0.0;
            for (old, new) in self.stationary.iter_mut().zip(&next) {
                let new = new / sum;
                change += (new - *old).abs();
                *old = new;
            }
            if change < CONVERGED {
                return Ok(());
            }
        }
        let found = format!("{} with windows up to {largest}", self.loss);
        let allowed =
            format!("a loss whose stationary distribution converges; |πq - π| is still {change:e}");
        Err(AnalysisError::new("loss", found, allowed))
    }

    /// Returns the probability of each window, from 1 packet.
    pub fn stationary(&self) -> &[f64] {
        &self.stationary
    }

    /// Returns the transitions of a window of `window` packets with their probabilities, in order
    /// of the new window.
    ///
    /// # Errors
    /// If `window` is not from 1 to the maximum.
    pub fn transitions(&self, window: u32) -> Result<Vec<(u32, f64)>> {
        let largest = self.stationary.len() as u32;
        let window = count("window", window, 1..=largest)?;
        if self.loss >= 1.0 {
            return Ok(vec![(1, 1.0)]);
        }
        let mut row_of = Vec::new();
        let (log_arrival, odds) = ((-self.loss).ln_1p(), self.loss / (1.0 - self.loss));
        let (growth, to_one) = row(window as usize, log_arrival, odds, |target, share| {
            row_of.push((target as u32, share));
        });
        row_of.push((1, to_one));
        row_of.push(((window + 1).min(largest), growth));
        row_of.sort_by_key(|(target, _)| *target);
        row_of.dedup_by(|later, earlier| {
            let is_same = later.0 == earlier.0;
            earlier.1 += if is_same { later.1 } else { 0.0 };
            is_same
        });
        Ok(row_of)
    }

    /// Returns the packet loss probability.
    pub fn loss(&self) -> f64 {
        self.loss
    }

    /// Returns the mean window in packets.
    pub fn mean_window(&self) -> f64 {
        self.stationary.iter().enumerate().map(|(index, p)| (index + 1) as f64 * p).sum()
    }

    /// Returns the packets sent per second: the mean window over the mean time to send it, max(W /
    /// `capacity`, `round_trip`). `capacity` is in packets per second and may be infinite;
    /// `round_trip` is the RTT without queueing in seconds.
    ///
    /// # Errors
    /// If `capacity` is not above 0, or `round_trip` is not finite and above 0.
    pub fn throughput(&self, capacity: f64, round_trip: f64) -> Result<f64> {
        let round_trip = positive("round_trip", round_trip, "seconds")?;
        if capacity.is_nan() || capacity <= 0.0 {
            let allowed = "packets per second above 0, or infinite";
            return Err(AnalysisError::new("capacity", capacity, allowed));
        }
        let time = |index: usize| ((index + 1) as f64 / capacity).max(round_trip);
        // A capacity near 0 makes times infinite; windows that never occur are skipped.
        let occurs = self.stationary.iter().enumerate().filter(|(_, p)| **p > 0.0);
        let mean_time: f64 = occurs.map(|(index, p)| time(index) * p).sum();
        Ok(self.mean_window() / mean_time)
    }
}

/// A TCP connection over a radio link with selective repeat, followed by a lossy wired path.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TcpOverArq {
    /// The channel; steps once per frame.
    pub channel: GilbertElliottLaw,
    /// Number of PDUs per packet.
    pub pdus: u32,
    /// Frames between two transmissions of a PDU.
    pub spacing: u32,
    /// Maximum number of transmissions per PDU; `None` for no limit.
    pub limit: Option<u32>,
    /// Duration of a frame τ, seconds.
    pub frame: f64,
    /// Capacity of the radio link in packets per second, including retransmissions (C).
    pub capacity: f64,
    /// Loss probability of the wired path (p_f).
    pub wired_loss: f64,
    /// RTT of the wired path (T_f), in seconds.
    pub wired_round_trip: f64,
}

/// Results of [`TcpOverArq::solve`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TcpOverArqResult {
    /// Residual loss of the radio link, p_w = F(limit).
    pub radio_loss: f64,
    /// Total packet loss ν = 1 - (1 - p_f)(1 - p_w).
    pub loss: f64,
    /// Mean number of transmissions per PDU, N.
    pub transmissions_per_pdu: f64,
    /// RTT without queueing E\[T\] = T_f + τ E[min(η, limit)] + τ, in seconds. Spacings above 1 add
    /// the frames between transmissions.
    pub round_trip: f64,
    /// Remaining capacity C_d = C / N, in packets per second.
    pub capacity: f64,
    /// Packets sent per second.
    pub throughput: f64,
    /// Packets delivered per second, (1 - ν) times the throughput.
    pub goodput: f64,
}

impl TcpOverArq {
    /// Combines the two chains.
    ///
    /// # Errors
    /// If an argument is out of its range (see [`ArqChain`] and [`TcpChain::new`]).
    pub fn solve(&self) -> Result<TcpOverArqResult> {
        let wired_loss = probability("wired_loss", self.wired_loss)?;
        let frame = positive("frame", self.frame, "seconds")?;
        let capacity = positive("capacity", self.capacity, "packets per second")?;
        let wired_round_trip = not_negative("wired_round_trip", self.wired_round_trip, "seconds")?;
        let chain = ArqChain::new(self.channel, self.pdus, self.spacing)?;
        let (radio_loss, attempts) = match self.limit {
            Some(limit) => (chain.residual_loss(limit)?, chain.mean_attempts_limited(limit)?),
            None => (0.0, chain.mean_attempts()?),
        };
        let transmissions_per_pdu = chain.transmissions_per_pdu(self.limit)?;
        let loss = (wired_loss + (1.0 - wired_loss) * radio_loss).min(1.0);
        let frames = 1.0 + (attempts - 1.0) * f64::from(self.spacing);
        let round_trip = wired_round_trip + frame * frames + frame;
        let capacity = capacity / transmissions_per_pdu;
        // A window of twice the bandwidth-delay product fills the link; the chain need not extend
        // far beyond windows at which losses are rare.
        let enough = (4.0 * capacity * round_trip).ceil().clamp(64.0, f64::from(MAX_WINDOW)) as u32;
        let max_window = (loss < LEAST_LOSS).then_some(enough);
        let throughput = TcpChain::new(loss, max_window)?.throughput(capacity, round_trip)?;
        Ok(TcpOverArqResult {
            radio_loss,
            loss,
            transmissions_per_pdu,
            round_trip,
            capacity,
            throughput,
            goodput: throughput * (1.0 - loss),
        })
    }
}
