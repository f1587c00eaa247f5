//! Replications passed to Python as they finish.

use crate::{Point, column, failed};
use lasthop::run::{self, Work};
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use std::time::Duration;

/// Results of several replications by column; `values` contains the rows, concatenated.
#[pyclass(frozen, get_all, module = "lasthop._lasthop")]
pub(crate) struct Batch {
    rows: usize,
    point: Py<PyBytes>,
    replication: Py<PyBytes>,
    cost_s: Py<PyBytes>,
    values: Py<PyBytes>,
}

/// Replications that run on separate threads. Dropping the stream stops them.
#[pyclass(frozen, module = "lasthop._lasthop")]
pub(crate) struct Stream(Option<run::Stream>);

/// The threads are joined without the interpreter's lock, for which a congestion control in Python
/// may be waiting.
impl Drop for Stream {
    fn drop(&mut self) {
        let stream = self.0.take();
        Python::attach(|py| py.detach(|| drop(stream)));
    }
}

impl Stream {
    fn get(&self) -> &run::Stream {
        self.0.as_ref().expect("taken when dropped")
    }
}

#[pymethods]
impl Stream {
    /// Starts `work`: index of a point, first replication, number of replications, and the
    /// processor seconds per replication, negative if unknown.
    #[new]
    #[pyo3(signature = (points, work, *, seed, jobs))]
    fn new(
        py: Python<'_>,
        points: Vec<PyRef<'_, Point>>,
        work: Vec<(u32, u64, u64, f64)>,
        seed: u64,
        jobs: usize,
    ) -> PyResult<Self> {
        let points = points.iter().map(|point| point.scenario.clone()).collect();
        let work: Vec<Work> = work
            .into_iter()
            .map(|(point, first, count, cost)| Work {
                point,
                replications: first..first.saturating_add(count),
                cost: Duration::try_from_secs_f64(cost).ok(),
            })
            .collect();
        py.detach(|| run::Stream::start(points, &work, seed, jobs))
            .map(|stream| Self(Some(stream)))
            .map_err(failed)
    }

    /// Names of the metrics, in the order of a row's values.
    #[getter]
    fn metrics(&self) -> Vec<String> {
        self.get().metrics()
    }

    /// Returns the rows finished since the last call, after at most `wait_s` seconds; `None` at the
    /// end. The interpreter's lock is released while waiting.
    fn next(&self, py: Python<'_>, wait_s: f64) -> PyResult<Option<Batch>> {
        let wait = Duration::try_from_secs_f64(wait_s).unwrap_or_default();
        let Some(rows) = py.detach(|| self.get().next(wait)).map_err(failed)? else {
            return Ok(None);
        };
        let count = rows.len();
        let values = rows.iter().flat_map(|row| row.values.iter().map(|value| value.to_ne_bytes()));
        Ok(Some(Batch {
            rows: count,
            point: column(py, count, rows.iter().map(|row| row.point.to_ne_bytes()))?,
            replication: column(py, count, rows.iter().map(|row| row.replication.to_ne_bytes()))?,
            cost_s: column(py, count, rows.iter().map(|row| row.cost.as_secs_f64().to_ne_bytes()))?,
            values: column(py, count * self.get().width(), values)?,
        }))
    }

    /// Stops unfinished replications; finished rows remain available.
    fn stop(&self) {
        self.get().stop();
    }
}
