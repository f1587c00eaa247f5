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
//! One step is the sending of one window of i packets and lasts max(i / C_d, E\[T\]). Throughput is
//! mean packets over mean time of a step (renewal reward). It is a sending rate; goodput is
//! (1-ν) of it.
//!
//! Source: F. Vacirca, A. De Vendictis, A. Baiocchi, "Investigating Interactions between ARQ
//! Mechanisms and TCP over Wireless Links", section 4.2, equations (5) to (8). Where ⌊i/2^c⌋ = 1,
//! the probability is part of "any other" and counted once. At the largest window W the growth
//! stays at W.
//!
//! The window grows by one packet at a time, so the flow upwards across the cut between i and i + 1
//! is π_i (1-ν)^i alone and equals the flow of the halvings downwards: that gives π from the top down
//! in one pass over the sparse rows. Sweeps of π ← πq then remove what rounding left.
//!
//! Not modelled: slow start, timeouts, a receiver's window, lost ACKs, losses in bursts, the time
//! that several halvings take. At total losses near 20 % timeouts rule, and the chain is too
//! optimistic.

use super::{
    AnalysisError, ArqChain, GilbertElliottLaw, Result, count, not_negative, positive, probability,
};

/// Largest window that may be asked for, in packets.
pub const MAX_WINDOW: u32 = 200_000;
/// Smallest loss for which a window large enough is chosen without being named.
const LEAST_LOSS: f64 = 1e-8;
/// Sum of |πq - π| that counts as stationary.
const CONVERGED: f64 = 1e-13;
const MOST_SWEEPS: usize = 10_000;

/// The chain of window sizes in its stationary law.
#[derive(Clone, Debug)]
pub struct TcpChain {
    loss: f64,
    stationary: Vec<f64>,
}

/// One row of the chain: calls `to(j, q)` for each target j > 1 but growth, and returns the
/// probability of growth and of going to 1.
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
    /// Stationary law for packets lost independently with probability `loss`. `max_window` packets
    /// is where growth ends; `None` for a window so large that it is as good as never reached.
    ///
    /// # Errors
    /// If `loss` is no probability, or below 1e-8 without a largest window; if `max_window` is not
    /// from 1 to [`MAX_WINDOW`]; if the law does not converge.
    pub fn new(loss: f64, max_window: Option<u32>) -> Result<Self> {
        let loss = probability("loss", loss)?;
        // P(no loss from W/2 to W) is about exp(-3/8 loss W²) < 1e-23: no window is larger.
        let reached = (12.0 / loss.sqrt()).ceil() + 8.0;
        let largest = match max_window {
            Some(window) => f64::from(count("max_window", window, 1..=MAX_WINDOW)?).min(reached),
            None if loss >= LEAST_LOSS => reached,
            None => {
                let allowed = "a probability of at least 1e-8, or a largest window besides";
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

    /// π from the top down: up-flow equals down-flow across every cut.
    fn by_cuts(loss: f64, largest: usize) -> Vec<f64> {
        let (log_arrival, odds) = ((-loss).ln_1p(), loss / (1.0 - loss));
        let mut law = vec![0.0; largest];
        // What jumps down onto each state from states above the cut.
        let mut landing = vec![0.0; largest + 1];
        let mut down = 0.0;
        law[largest - 1] = 1.0;
        for state in (1..largest).rev() {
            // The cut moves from above `state + 1` to below it: what lands there no longer crosses,
            // what jumps from there now does.
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
                // What is above is nothing beside this state.
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

    /// π ← πq until it stays.
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
        let allowed = format!("one whose stationary law converges; |πq - π| is still {change:e}");
        Err(AnalysisError::new("loss", found, allowed))
    }

    /// Probability of each window, from 1 packet.
    pub fn stationary(&self) -> &[f64] {
        &self.stationary
    }

    /// Where a window of `window` packets goes to, and with what probability, in order of size.
    ///
    /// # Errors
    /// If `window` is not from 1 to the largest.
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

    /// Packet loss probability.
    pub fn loss(&self) -> f64 {
        self.loss
    }

    /// Mean window, packets.
    pub fn mean_window(&self) -> f64 {
        self.stationary.iter().enumerate().map(|(index, p)| (index + 1) as f64 * p).sum()
    }

    /// Packets sent per second: mean window over the mean time to send one, max(W / `capacity`,
    /// `round_trip`), with the capacity in packets per second and the round trip without queueing in
    /// seconds. The capacity may be infinite.
    ///
    /// # Errors
    /// If `capacity` is not above 0 or `round_trip` not finite and above 0.
    pub fn throughput(&self, capacity: f64, round_trip: f64) -> Result<f64> {
        let round_trip = positive("round_trip", round_trip, "seconds")?;
        if capacity.is_nan() || capacity <= 0.0 {
            let allowed = "packets per second above 0, or infinite";
            return Err(AnalysisError::new("capacity", capacity, allowed));
        }
        let time = |index: usize| ((index + 1) as f64 / capacity).max(round_trip);
        // A capacity next to 0 makes times infinite; windows that never occur take none.
        let occurs = self.stationary.iter().enumerate().filter(|(_, p)| **p > 0.0);
        let mean_time: f64 = occurs.map(|(index, p)| time(index) * p).sum();
        Ok(self.mean_window() / mean_time)
    }
}

/// A TCP over a radio link with selective repeat and a lossy wired path behind it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TcpOverArq {
    /// The channel; steps once a frame.
    pub channel: GilbertElliottLaw,
    /// PDUs a packet.
    pub pdus: u32,
    /// Frames between two transmissions of a PDU.
    pub spacing: u32,
    /// Most transmissions of a PDU; `None` for no limit.
    pub limit: Option<u32>,
    /// Duration of a frame τ, seconds.
    pub frame: f64,
    /// Packets per second that the radio can send, retransmissions among them (C).
    pub capacity: f64,
    /// Loss probability in the wired part (p_f).
    pub wired_loss: f64,
    /// Round trip in the wired part (T_f), seconds.
    pub wired_round_trip: f64,
}

/// What becomes of it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TcpOverArqResult {
    /// Residual loss of the radio link, p_w = F(limit).
    pub radio_loss: f64,
    /// Total packet loss ν = 1 - (1 - p_f)(1 - p_w).
    pub loss: f64,
    /// Mean transmissions a PDU, N.
    pub transmissions_per_pdu: f64,
    /// Round trip without queueing E\[T\] = T_f + τ E[min(η, limit)] + τ, seconds, with the frames
    /// between transmissions if they are further apart than one.
    pub round_trip: f64,
    /// Capacity left C_d = C / N, packets per second.
    pub capacity: f64,
    /// Packets sent per second.
    pub throughput: f64,
    /// Packets delivered per second, (1 - ν) of those sent.
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
        // A window of twice the bandwidth-delay product fills the link; the chain need not go far
        // beyond where hardly anything is ever lost.
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
