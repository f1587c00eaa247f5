//! Python bindings of the likelihood of loss records.

use crate::analysis::refused;
use lasthop::analysis::AnalysisError;
use lasthop::analysis::loss_likelihood::{self, Matrix, Runs, simulate};
use lasthop::rng::Streams;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

/// A record of events, with runs of equal events joined.
#[pyclass(frozen, module = "lasthop._lasthop")]
pub(crate) struct LossRuns(Runs);

/// Logarithm of the likelihood; its derivatives with respect to the initial distribution and the
/// matrices.
type LikelihoodParts = (f64, Vec<f64>, Vec<f64>);

#[pymethods]
impl LossRuns {
    /// Creates a record from the bytes of native 32-bit unsigned numbers.
    #[new]
    fn new(py: Python<'_>, events: &Bound<'_, PyBytes>) -> PyResult<Self> {
        let bytes = events.as_bytes();
        py.detach(|| {
            let words = bytes.chunks_exact(4);
            Runs::new(words.map(|word| u32::from_ne_bytes([word[0], word[1], word[2], word[3]])))
        })
        .map(Self)
        .map_err(refused)
    }

    /// Computes the likelihood of the record; `matrices` are concatenated, row by row.
    fn likelihood(
        &self,
        py: Python<'_>,
        initial: Vec<f64>,
        matrices: Vec<f64>,
        derivatives: bool,
    ) -> PyResult<LikelihoodParts> {
        py.detach(|| match initial.len() {
            1 => parts::<1>(&self.0, &initial, &matrices, derivatives),
            2 => parts::<2>(&self.0, &initial, &matrices, derivatives),
            3 => parts::<3>(&self.0, &initial, &matrices, derivatives),
            found => Err(states(found)),
        })
        .map_err(refused)
    }
}

fn square<const N: usize>(matrices: &[f64]) -> Vec<Matrix<N>> {
    matrices
        .chunks_exact(N * N)
        .map(|cells| std::array::from_fn(|line| std::array::from_fn(|row| cells[line * N + row])))
        .collect()
}

/// Samples a record from a model: one byte per frame, 1 if it is lost. `kinds` are native 32-bit
/// numbers.
#[pyfunction]
#[pyo3(signature = (initial, matrices, *, frames, seed, replication, kinds=None))]
pub(crate) fn simulate_losses<'py>(
    py: Python<'py>,
    initial: Vec<f64>,
    matrices: Vec<f64>,
    frames: usize,
    seed: u64,
    replication: u64,
    kinds: Option<&Bound<'py, PyBytes>>,
) -> PyResult<Bound<'py, PyBytes>> {
    let kinds: Option<Vec<u32>> = kinds.map(|kinds| {
        let words = kinds.as_bytes().chunks_exact(4);
        words.map(|word| u32::from_ne_bytes([word[0], word[1], word[2], word[3]])).collect()
    });
    let lost = py
        .detach(|| {
            let mut stream = Streams { seed, replication }.stream("fit", "simulation");
            let kinds = kinds.as_deref();
            match *initial.as_slice() {
                [a] => simulate(&[a], &square(&matrices), kinds, frames, &mut stream),
                [a, b] => simulate(&[a, b], &square(&matrices), kinds, frames, &mut stream),
                [a, b, c] => simulate(&[a, b, c], &square(&matrices), kinds, frames, &mut stream),
                _ => Err(states(initial.len())),
            }
        })
        .map_err(refused)?;
    let bytes: Vec<u8> = lost.into_iter().map(u8::from).collect();
    Ok(PyBytes::new(py, &bytes))
}

fn states(found: usize) -> AnalysisError {
    AnalysisError {
        argument: "initial",
        found: format!("{found} states"),
        allowed: "1, 2 or 3".to_owned(),
    }
}

fn parts<const N: usize>(
    runs: &Runs,
    initial: &[f64],
    matrices: &[f64],
    derivatives: bool,
) -> lasthop::analysis::Result<LikelihoodParts> {
    let row: [f64; N] = std::array::from_fn(|index| initial[index]);
    let found = loss_likelihood::likelihood(runs, &row, &square(matrices), derivatives)?;
    let slopes = found.matrices.iter().flatten().flatten().copied().collect();
    Ok((found.log, found.initial.to_vec(), slopes))
}
