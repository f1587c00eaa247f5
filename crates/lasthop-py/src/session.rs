//! Replications in steps, for `lasthop.gym`.

use crate::{Point, failed};
use lasthop::run::{self, Observation, RunError};
use lasthop::units::{Duration, Instant};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Counters of a flow since the start: see `lasthop::run::Observation`. Times in nanoseconds.
type Counters = (u64, u64, u64, u64, u64, u64, u64, u64, u64, u64, u64, u64);

fn counters(seen: &Observation) -> Counters {
    (
        seen.now.as_nanos(),
        seen.acked_bytes,
        seen.sent_bytes,
        seen.sent_segments,
        seen.lost_segments,
        seen.rtt_samples,
        seen.rtt_sum.as_nanos(),
        seen.rtt_last.as_nanos(),
        seen.rtt_min.as_nanos(),
        seen.loss_signals,
        seen.marks,
        seen.timeouts,
    )
}

/// A place for the window and the rate of a flow's senders, for one session at a time.
#[pyclass(frozen, module = "lasthop._lasthop")]
pub(crate) struct Controller(run::Controller);

#[pymethods]
impl Controller {
    /// Creates a controller; `paces`: the senders are paced.
    #[new]
    fn new(paces: bool) -> Self {
        Controller(run::Controller::new(paces))
    }
}

/// A replication in steps.
#[pyclass(frozen, module = "lasthop._lasthop")]
pub(crate) struct Session(Mutex<run::Session>);

/// Window in segments and pacing rate in bit/s; `None`: derived from the window.
type Action = (f64, Option<f64>);

fn step(
    session: &mut run::Session,
    time_ns: u64,
    (window, rate): Action,
) -> Result<(Counters, bool), RunError> {
    session.controller().set_window(window);
    session.controller().set_rate(rate);
    let goes_on = session.advance(Instant::ZERO + Duration::from_nanos(time_ns))?;
    Ok((counters(&session.observe()), goes_on))
}

impl Session {
    fn lock(&self) -> MutexGuard<'_, run::Session> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[pymethods]
impl Session {
    /// Starts a replication of a point in which `controller` controls a flow.
    #[new]
    fn new(
        py: Python<'_>,
        point: &Point,
        flow: &str,
        controller: &Controller,
        seed: u64,
        replication: u64,
    ) -> PyResult<Self> {
        let scenario = &point.scenario;
        let names = || scenario.flows.iter().map(|flow| flow.name.as_str());
        let index = names().position(|name| name == flow);
        let found = match index {
            None => None,
            Some(index) => py
                .detach(|| run::Session::new(scenario, index, controller.0, seed, replication))
                .map_err(failed)?,
        };
        let all = names().collect::<Vec<_>>().join(", ");
        let refused = || {
            let found = if index.is_some() {
                "which is not a flow over TCP"
            } else {
                "which does not exist"
            };
            PyValueError::new_err(format!(
                "flow: found {flow:?}, {found}; expected a flow over TCP, of {all}"
            ))
        };
        found.map(|session| Session(Mutex::new(session))).ok_or_else(refused)
    }

    /// Sets window and rate, and advances to a time. Returns the counters, and whether
    /// the run continues.
    fn step(
        &self,
        py: Python<'_>,
        time_ns: u64,
        window: f64,
        rate: Option<f64>,
    ) -> PyResult<(Counters, bool)> {
        py.detach(|| step(&mut self.lock(), time_ns, (window, rate))).map_err(failed)
    }

    /// Returns the metrics of the run up to now, by full name.
    fn metrics(&self) -> Vec<(String, f64)> {
        self.lock().metrics()
    }
}

/// Like [`Session::step`] for several sessions, on several threads.
#[pyfunction]
pub(crate) fn step_all(
    py: Python<'_>,
    sessions: Vec<Py<Session>>,
    times_ns: Vec<u64>,
    actions: Vec<Action>,
    jobs: usize,
) -> PyResult<Vec<(Counters, bool)>> {
    let work: Vec<_> = sessions.iter().map(Py::get).zip(times_ns).zip(actions).collect();
    let share = work.len().div_ceil(jobs.max(1)).max(1);
    let part = |part: &[((&Session, u64), Action)]| -> Result<Vec<_>, RunError> {
        part.iter()
            .map(|&((session, time), action)| step(&mut session.lock(), time, action))
            .collect()
    };
    let outcome: Result<Vec<_>, RunError> = py.detach(|| {
        if share >= work.len() {
            return part(&work);
        }
        std::thread::scope(|scope| {
            let threads: Vec<_> =
                work.chunks(share).map(|own| scope.spawn(move || part(own))).collect();
            let mut all = Vec::with_capacity(work.len());
            for thread in threads {
                let own = thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
                all.extend(own?);
            }
            Ok(all)
        })
    });
    outcome.map_err(failed)
}
