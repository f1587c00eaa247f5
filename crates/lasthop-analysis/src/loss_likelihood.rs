//! Likelihood of a record of losses under a hidden Markov model, and its derivatives.
//!
//! A model with N states assigns a matrix M to each kind of event: M\[i\]\[j\] is the probability of the
//! event and of the next state j, given state i before the event. A record e(1) … e(n) has the
//! likelihood π M(e(1)) … M(e(n)) 1. A Gilbert–Elliott chain has two events, arrival
//! and loss, and M is the transition matrix with its rows weighted by P(event | state).
//!
//! A run of equal events is processed in one step: its matrix is a power, computed once for all runs of
//! equal length. The cost depends on the number of runs instead of the number of frames. The derivative
//! with respect to each M is the sum of the forward–backward recursion of Baum and Welch: M\[i\]\[j\] times
//! the derivative is the expected number of times that the event occurred in a transition from i to j.
//! Within a run of k events with forward row a and backward column b, the derivative is
//! Σ_t (M^t)ᵀ aᵀ bᵀ (M^(k-1-t))ᵀ. A block matrix contains the power and this sum, so that both are squared
//! together.
//!
//! Source: L. E. Baum, T. Petrie, G. Soules, N. Weiss, Annals of Mathematical Statistics 41, 1970.

use super::{AnalysisError, Result};
use lasthop_base::rng::Stream;
use std::collections::HashMap;

/// A square matrix.
pub type Matrix<const N: usize> = [[f64; N]; N];

/// A record of events, with runs of equal events joined.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Runs {
    /// Distinct (event, length).
    kinds: Vec<(u32, u64)>,
    /// Indices into `kinds`, in order.
    runs: Vec<u32>,
    events: u64,
}

impl Runs {
    /// Joins runs of equal events.
    ///
    /// # Errors
    /// If `events` is empty.
    pub fn new(events: impl IntoIterator<Item = u32>) -> Result<Self> {
        let mut places: HashMap<(u32, u64), u32> = HashMap::new();
        let (mut kinds, mut runs, mut total) = (Vec::new(), Vec::new(), 0);
        let mut end = |kind: (u32, u64)| {
            let place = *places.entry(kind).or_insert_with(|| {
                kinds.push(kind);
                (kinds.len() - 1) as u32
            });
            runs.push(place);
        };
        let mut run: Option<(u32, u64)> = None;
        for event in events {
            total += 1;
            match &mut run {
                Some((last, length)) if *last == event => *length += 1,
                _ => {
                    if let Some(finished) = run.replace((event, 1)) {
                        end(finished);
                    }
                }
            }
        }
        let Some(last) = run else {
            return Err(AnalysisError::new("events", "none", "at least one"));
        };
        end(last);
        Ok(Runs { kinds, runs, events: total })
    }

    /// Returns the number of events.
    pub fn events(&self) -> u64 {
        self.events
    }

    /// Returns the runs in order: event and length.
    pub fn iter(&self) -> impl Iterator<Item = (u32, u64)> + '_ {
        self.runs.iter().map(|&run| self.kinds[run as usize])
    }

    /// Returns the largest event.
    pub fn largest(&self) -> u32 {
        self.kinds.iter().map(|&(event, _)| event).max().unwrap_or(0)
    }
}

/// Likelihood of a record under a model.
#[derive(Clone, Debug, PartialEq)]
pub struct Likelihood<const N: usize> {
    /// Natural logarithm of the likelihood; −∞ if the model excludes the record.
    pub log: f64,
    /// Derivative with respect to the probability of each initial state.
    pub initial: [f64; N],
    /// Derivative with respect to each matrix.
    pub matrices: Vec<Matrix<N>>,
}

/// Computes the likelihood of `runs` and, if `derivatives` is set, its derivatives (otherwise 0).
///
/// `initial` is the distribution of the state before the first event. Event e has the matrix
/// `matrices[e]`.
///
/// # Errors
/// If an event has no matrix, or if a number is negative or not finite.
pub fn likelihood<const N: usize>(
    runs: &Runs,
    initial: &[f64; N],
    matrices: &[Matrix<N>],
    derivatives: bool,
) -> Result<Likelihood<N>> {
    if runs.largest() as usize >= matrices.len() {
        return Err(AnalysisError::new("events", runs.largest(), "those that have a matrix"));
    }
    let all = matrices.iter().flatten().flatten().chain(initial);
    if let Some(wrong) = all.into_iter().find(|value| !value.is_finite() || **value < 0.0) {
        return Err(AnalysisError::new("matrices", wrong, "finite numbers, at least 0"));
    }
    let powers: Vec<Scaled<N>> = runs
        .kinds
        .iter()
        .map(|&(event, length)| power(&matrices[event as usize], &[[0.0; N]; N], length))
        .collect();
    let mut found =
        Likelihood { log: 0.0, initial: [0.0; N], matrices: vec![[[0.0; N]; N]; matrices.len()] };
    let mut row = *initial;
    let mut rows = Vec::with_capacity(if derivatives { runs.runs.len() } else { 0 });
    // Logarithms are expensive: one is computed per few hundred runs, before the product can
    // underflow.
    let mut product = 1.0_f64;
    for &run in &runs.runs {
        if derivatives {
            rows.push(row);
        }
        let power = &powers[run as usize];
        let next = row_times(&row, &power.power);
        let sum: f64 = next.iter().sum();
        if sum <= 0.0 || sum.is_nan() {
            found.log = f64::NEG_INFINITY;
            return Ok(found);
        }
        row = next.map(|value| value / sum);
        product *= sum;
        if !(1e-200..1e200).contains(&product) {
            found.log += product.ln();
            product = 1.0;
        }
        found.log += power.log_scale;
    }
    found.log += product.ln();
    if !derivatives {
        return Ok(found);
    }
    // Σ b a / (a P b), by kind of run.
    let mut weights = vec![[[0.0; N]; N]; powers.len()];
    let mut column = [1.0; N];
    for (&run, row) in runs.runs.iter().zip(&rows).rev() {
        let next = times_column(&powers[run as usize].power, &column);
        let total: f64 = row.iter().zip(&next).map(|(a, b)| a * b).sum();
        let weight = &mut weights[run as usize];
        for (i, line) in weight.iter_mut().enumerate() {
            for (j, cell) in line.iter_mut().enumerate() {
                *cell += column[i] * row[j] / total;
            }
        }
        let most = next.iter().fold(0.0_f64, |most, &value| most.max(value));
        column = next.map(|value| value / most);
    }
    let total: f64 = initial.iter().zip(&column).map(|(a, b)| a * b).sum();
    found.initial = column.map(|value| value / total);
    for (&(event, length), weight) in runs.kinds.iter().zip(&weights) {
        let sum = power(&matrices[event as usize], weight, length).derivative;
        for (i, line) in found.matrices[event as usize].iter_mut().enumerate() {
            for (j, cell) in line.iter_mut().enumerate() {
                *cell += sum[j][i];
            }
        }
    }
    Ok(found)
}

/// M^k and Σ_t M^(k-1-t) W M^t, both divided by e^`log_scale` to avoid underflow. Weights divided
/// by the scaled power require the scaled derivative.
struct Scaled<const N: usize> {
    power: Matrix<N>,
    derivative: Matrix<N>,
    log_scale: f64,
}

impl<const N: usize> Scaled<N> {
    fn times(&self, other: &Self) -> Self {
        let left = product(&self.power, &other.derivative);
        let right = product(&self.derivative, &other.power);
        let mut derivative = left;
        for (line, more) in derivative.iter_mut().zip(&right) {
            for (cell, value) in line.iter_mut().zip(more) {
                *cell += value;
            }
        }
        let mut found = Scaled {
            power: product(&self.power, &other.power),
            derivative,
            log_scale: self.log_scale + other.log_scale,
        };
        let most = found.power.iter().flatten().fold(0.0_f64, |most, &value| most.max(value));
        // Scales by a power of two, which is exact and rarely necessary.
        if most > 0.0 && !(1e-100..1e100).contains(&most) {
            let doublings = -most.log2().floor();
            let scale = doublings.exp2();
            for matrix in [&mut found.power, &mut found.derivative] {
                matrix.iter_mut().flatten().for_each(|value| *value *= scale);
            }
            found.log_scale -= doublings * std::f64::consts::LN_2;
        }
        found
    }
}

/// Computes M^`exponent` and Σ_t M^(exponent-1-t) W M^t.
fn power<const N: usize>(matrix: &Matrix<N>, weight: &Matrix<N>, exponent: u64) -> Scaled<N> {
    let mut square = Scaled { power: *matrix, derivative: *weight, log_scale: 0.0 };
    let mut found: Option<Scaled<N>> = None;
    let mut left = exponent;
    loop {
        if left & 1 == 1 {
            found = Some(match found {
                None => Scaled { ..square },
                Some(so_far) => so_far.times(&square),
            });
        }
        left >>= 1;
        if left == 0 {
            break;
        }
        square = square.times(&square);
    }
    found.expect("a run has at least one event")
}

fn product<const N: usize>(a: &Matrix<N>, b: &Matrix<N>) -> Matrix<N> {
    let mut found = [[0.0; N]; N];
    for (line, row) in found.iter_mut().zip(a) {
        *line = row_times(row, b);
    }
    found
}

#[inline]
fn row_times<const N: usize>(row: &[f64; N], matrix: &Matrix<N>) -> [f64; N] {
    let mut found = [0.0; N];
    for (value, line) in row.iter().zip(matrix) {
        for (sum, cell) in found.iter_mut().zip(line) {
            *sum += value * cell;
        }
    }
    found
}

#[inline]
fn times_column<const N: usize>(matrix: &Matrix<N>, column: &[f64; N]) -> [f64; N] {
    let mut found = [0.0; N];
    for (sum, line) in found.iter_mut().zip(matrix) {
        *sum = line.iter().zip(column).map(|(a, b)| a * b).sum();
    }
    found
}

/// Samples a record from a model. The entries of `kinds` select the matrix of each event: twice the
/// entry for an arrival, the next matrix for a loss. Without `kinds`, all entries are 0.
///
/// # Errors
/// If `kinds` names a matrix that does not exist.
pub fn simulate<const N: usize>(
    initial: &[f64; N],
    matrices: &[Matrix<N>],
    kinds: Option<&[u32]>,
    frames: usize,
    stream: &mut Stream,
) -> Result<Vec<bool>> {
    let largest = kinds.and_then(|kinds| kinds.iter().max().copied()).unwrap_or(0);
    if matrices.len() < 2 * (largest as usize + 1) {
        return Err(AnalysisError::new("kinds", largest, "those that have two matrices"));
    }
    let mut state = drawn(initial.iter().copied(), stream.uniform());
    let frames = kinds.map_or(frames, <[u32]>::len);
    Ok((0..frames)
        .map(|frame| {
            let first = 2 * kinds.map_or(0, |kinds| kinds[frame] as usize);
            let [arrived, lost] = [&matrices[first][state], &matrices[first + 1][state]];
            let way = drawn(arrived.iter().chain(lost).copied(), stream.uniform());
            state = way % N;
            way >= N
        })
        .collect())
}

/// Returns the index of the probability interval that contains `uniform`. If the sum is below 1 by
/// rounding, returns the last index with a positive probability.
fn drawn(probabilities: impl Iterator<Item = f64>, uniform: f64) -> usize {
    let (mut sum, mut last) = (0.0, 0);
    for (index, probability) in probabilities.enumerate() {
        sum += probability;
        if probability > 0.0 {
            last = index;
            if uniform < sum {
                break;
            }
        }
    }
    last
}

#[cfg(test)]
mod tests {
    use super::*;
    use lasthop_base::rng::Streams;

    const PI: [f64; 2] = [0.7, 0.3];
    const M: [Matrix<2>; 2] = [[[0.6, 0.1], [0.2, 0.3]], [[0.2, 0.1], [0.1, 0.4]]];

    /// Computes the likelihood frame by frame, without powers.
    fn plain(events: &[u32], pi: &[f64; 2], m: &[Matrix<2>]) -> f64 {
        let mut row = *pi;
        let mut log = 0.0;
        for &event in events {
            row = row_times(&row, &m[event as usize]);
            let sum = row[0] + row[1];
            log += sum.ln();
            row = row.map(|value| value / sum);
        }
        log
    }

    fn events() -> Vec<u32> {
        [(0, 7), (1, 2), (0, 1), (1, 1), (0, 30), (1, 5)]
            .iter()
            .flat_map(|&(event, length)| std::iter::repeat_n(event, length))
            .collect()
    }

    #[test]
    fn runs_are_joined() {
        let runs = Runs::new(events()).expect("not empty");
        assert_eq!(runs.events(), 46);
        assert_eq!(runs.iter().collect::<Vec<_>>()[..3], [(0, 7), (1, 2), (0, 1)]);
        assert_eq!(Runs::new([]).unwrap_err().argument, "events");
    }

    #[test]
    fn likelihood_and_derivatives_are_those_of_the_plain_recursion() {
        let record = events();
        let runs = Runs::new(record.iter().copied()).expect("not empty");
        let found = likelihood(&runs, &PI, &M, true).expect("right");
        assert!((found.log - plain(&record, &PI, &M)).abs() < 1e-11);
        let step = 1e-6;
        for event in 0..2 {
            for i in 0..2 {
                for j in 0..2 {
                    let at = |by: f64| {
                        let mut m = M;
                        m[event][i][j] += by;
                        plain(&record, &PI, &m)
                    };
                    let slope = (at(step) - at(-step)) / (2.0 * step);
                    let got = found.matrices[event][i][j];
                    assert!((got - slope).abs() < 1e-6 * slope.abs(), "{got}, expected {slope}");
                }
            }
        }
        for i in 0..2 {
            let at = |by: f64| {
                let mut pi = PI;
                pi[i] += by;
                plain(&record, &pi, &M)
            };
            let slope = (at(step) - at(-step)) / (2.0 * step);
            assert!((found.initial[i] - slope).abs() < 1e-6);
        }
    }

    #[test]
    fn expected_counts_add_up_to_the_frames_of_long_runs() {
        // A run of 10^6 losses has a likelihood far below the smallest positive number.
        let long = [(1, 1_000_000_usize), (0, 250_000)];
        let events = long.iter().flat_map(|&(e, n)| std::iter::repeat_n(e, n));
        let runs = Runs::new(events).expect("not empty");
        let found = likelihood(&runs, &PI, &M, true).expect("right");
        assert!(found.log.is_finite());
        for (event, frames) in [(1, 1e6), (0, 2.5e5)] {
            let mut sum = 0.0;
            for (line, slopes) in M[event].iter().zip(&found.matrices[event]) {
                sum += line.iter().zip(slopes).map(|(a, b)| a * b).sum::<f64>();
            }
            assert!((sum / frames - 1.0).abs() < 1e-9, "{sum}");
        }
    }

    #[test]
    fn what_cannot_be_has_no_likelihood_and_wrong_numbers_are_refused() {
        let runs = Runs::new([0, 1]).expect("not empty");
        let never = [M[0], [[0.0; 2]; 2]];
        assert_eq!(likelihood(&runs, &PI, &never, true).expect("right").log, f64::NEG_INFINITY);
        assert!(likelihood(&runs, &PI, &M[..1], true).is_err());
        assert!(likelihood(&runs, &[f64::NAN, 1.0], &M, true).is_err());
    }

    #[test]
    fn drawn_records_have_the_loss_rate_of_their_model() {
        // The stationary distribution of M is (0.6, 0.4): loss 0.6 0.3 + 0.4 0.5. The correlation
        // of consecutive losses is below 0.05; 6 binomial standard errors give a false-positive
        // rate below 1e-6.
        let mut stream = Streams { seed: 1, replication: 0 }.stream("fit", "test");
        let n = 1_000_000;
        let record = simulate(&PI, &M, None, n, &mut stream).expect("right");
        let rate = record.iter().filter(|&&lost| lost).count() as f64 / n as f64;
        assert!((rate - 0.38).abs() < 6.0 * (0.2356_f64 / n as f64).sqrt(), "{rate}");
        assert!(simulate(&PI, &M, Some(&[1]), 0, &mut stream).is_err());
    }
}
