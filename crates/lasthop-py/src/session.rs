//! Replications in steps, for `lasthop.gym`.

use crate::{Point, failed};
use lasthop::run::{self, Observation, RunError};
use lasthop::units::{Duration, Instant};
use libm::exp2;
use pyo3::buffer::PyBuffer;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Limits of the window in segments.
const WINDOWS: (f64, f64) = (1.0, 1e6);

/// Limits of the pacing rate in bit/s.
const RATES: (f64, f64) = (8e3, 1e12);

/// First pacing rate in bit/s.
const FIRST_RATE: f64 = 1e6;

/// Minimum window in segments and minimum RTT in seconds of which a rate derives it.
const WINDOW_OF_RATE: f64 = 10.0;
const RTT_OF_RATE_S: f64 = 1e-3;

/// Limit of the magnitude of the change of the RTT per second.
const GRADIENT: f64 = 1e6;

/// Numbers of an interval.
const FIELDS: usize = 14;

/// How actions set the window or the rate of a sender.
#[derive(Clone, Copy, FromPyObject)]
#[pyo3(from_item_all)]
struct Settings {
    /// Actions set the rate instead of the window.
    is_rate: bool,
    /// An action a multiplies by 2^a.
    is_relative: bool,
    /// Payload of a segment in bytes.
    segment: u64,
    /// First window in segments.
    initial_window: f64,
    /// Time at which the flow starts, the begin of the first interval.
    start_ns: u64,
}

/// A sender whose window or rate is set step by step.
struct Agent {
    session: run::Session,
    settings: Settings,
    /// Window in segments.
    window: f64,
    /// Pacing rate in bit/s; `None`: derived from the window.
    rate: Option<f64>,
    /// Mean RTT of the latest interval with a sample; 0 before.
    rtt_s: f64,
    before: Observation,
}

impl Agent {
    fn new(session: run::Session, settings: Settings) -> Result<Self, RunError> {
        let before = session.observe();
        let rate = settings.is_rate.then_some(FIRST_RATE);
        let window = settings.initial_window;
        let mut agent = Agent { session, settings, window, rate, rtt_s: 0.0, before };
        agent.advance(settings.start_ns)?;
        agent.before = agent.session.observe();
        Ok(agent)
    }

    fn advance(&mut self, time_ns: u64) -> Result<bool, RunError> {
        self.session.controller().set_window(self.window);
        self.session.controller().set_rate(self.rate);
        self.session.advance(Instant::ZERO + Duration::from_nanos(time_ns))
    }

    /// Applies an action and advances by an interval. Returns the measurements, and whether the
    /// run continues.
    fn step(&mut self, action: f64, interval_ns: u64) -> Result<([f64; FIELDS], bool), RunError> {
        self.act(action);
        let goes_on = self.advance(self.before.now.as_nanos().saturating_add(interval_ns))?;
        Ok((self.measure(), goes_on))
    }

    fn act(&mut self, action: f64) {
        let Settings { is_rate, is_relative, segment, .. } = self.settings;
        let before = if is_rate { self.rate.unwrap_or(FIRST_RATE) } else { self.window };
        let value = if is_relative { before * exp2(action) } else { action };
        // Comparisons in this order make a NaN the lower limit.
        let within = |value: f64, (low, high): (f64, f64)| value.max(low).min(high);
        if is_rate {
            let rate = within(value, RATES);
            let window = 2.0 * rate * self.rtt_s.max(RTT_OF_RATE_S) / (8.0 * segment as f64);
            self.rate = Some(rate);
            self.window = within(window, (WINDOW_OF_RATE, WINDOWS.1));
        } else {
            self.window = within(value, WINDOWS);
        }
    }

    /// Returns the numbers of the interval that ends, in the order of `lasthop.gym.Interval`.
    fn measure(&mut self) -> [f64; FIELDS] {
        let seen = self.session.observe();
        let then = std::mem::replace(&mut self.before, seen);
        let duration = seconds((seen.now.as_nanos() - then.now.as_nanos()).max(1));
        let rate_of = |now: u64, then: u64| (now - then) as f64 / duration;
        let acked = rate_of(seen.acked_bytes, then.acked_bytes);
        let (sent, lost) = (
            (seen.sent_segments - then.sent_segments) as f64,
            (seen.lost_segments - then.lost_segments) as f64,
        );
        let samples = seen.rtt_samples - then.rtt_samples;
        let (before, mut gradient) = (self.rtt_s, 0.0);
        if samples > 0 {
            let sum = seen.rtt_sum.as_nanos() - then.rtt_sum.as_nanos();
            self.rtt_s = seconds(sum) / samples as f64;
            if before > 0.0 {
                gradient = ((self.rtt_s - before) / duration).clamp(-GRADIENT, GRADIENT);
            }
        }
        [
            seconds(seen.now.as_nanos()),
            duration,
            8.0 * acked,
            8.0 * rate_of(seen.sent_bytes, then.sent_bytes),
            acked / self.settings.segment as f64,
            if sent > 0.0 { (lost / sent).min(1.0) } else { f64::from(lost > 0.0) },
            self.rtt_s,
            seconds(seen.rtt_min.as_nanos()),
            gradient,
            self.window,
            self.rate.unwrap_or(0.0),
            (seen.loss_signals - then.loss_signals) as f64,
            (seen.marks - then.marks) as f64,
            (seen.timeouts - then.timeouts) as f64,
        ]
    }
}

fn seconds(ns: u64) -> f64 {
    ns as f64 * 1e-9
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
pub(crate) struct Session(Mutex<Agent>);

impl Session {
    fn lock(&self) -> MutexGuard<'_, Agent> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[pymethods]
impl Session {
    /// Limits of the window in segments.
    #[classattr]
    const WINDOWS: (f64, f64) = WINDOWS;

    /// Limits of the pacing rate in bit/s.
    #[classattr]
    const RATES: (f64, f64) = RATES;

    /// First pacing rate in bit/s, if actions set the rate.
    #[classattr]
    const FIRST_RATE: f64 = FIRST_RATE;

    /// Starts a replication of a point in which `controller` controls a flow, and advances to the
    /// start of the flow.
    #[new]
    fn new(
        py: Python<'_>,
        point: &Point,
        flow: &str,
        controller: &Controller,
        seed: u64,
        replication: u64,
        settings: Settings,
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
        let session = found.ok_or_else(refused)?;
        let agent = py.detach(|| Agent::new(session, settings)).map_err(failed)?;
        Ok(Session(Mutex::new(agent)))
    }

    /// Applies an action and advances by an interval. Returns the numbers of
    /// `lasthop.gym.Interval`, and whether the run continues.
    fn step(
        &self,
        py: Python<'_>,
        action: f64,
        interval_ns: u64,
    ) -> PyResult<([f64; FIELDS], bool)> {
        py.detach(|| self.lock().step(action, interval_ns)).map_err(failed)
    }

    /// Returns the metrics of the run up to now, by full name.
    fn metrics(&self) -> Vec<(String, f64)> {
        self.lock().session.metrics()
    }
}

/// Like [`Session::step`] for several sessions, on several threads. `intervals`, with a row for each
/// session, and `goes_on` receive the results.
#[pyfunction]
pub(crate) fn step_all(
    py: Python<'_>,
    sessions: Vec<Py<Session>>,
    actions: PyBuffer<f64>,
    interval_ns: u64,
    jobs: usize,
    intervals: PyBuffer<f64>,
    goes_on: PyBuffer<u8>,
) -> PyResult<()> {
    let actions = actions.to_vec(py)?;
    let mut rows = vec![0.0; FIELDS * sessions.len()];
    let mut ends = vec![0; sessions.len()];
    let mut work: Vec<_> = sessions
        .iter()
        .map(Py::get)
        .zip(actions)
        .zip(rows.as_chunks_mut::<FIELDS>().0)
        .zip(&mut ends)
        .collect();
    let share = work.len().div_ceil(jobs.max(1)).max(1);
    let part = |part: &mut [Work<'_>]| -> Result<(), RunError> {
        for (((session, action), row), end) in part {
            let (numbers, goes_on) = session.lock().step(*action, interval_ns)?;
            (**row, **end) = (numbers, u8::from(goes_on));
        }
        Ok(())
    };
    let outcome: Result<(), RunError> = py.detach(|| {
        if share >= work.len() {
            return part(&mut work);
        }
        std::thread::scope(|scope| {
            let threads: Vec<_> =
                work.chunks_mut(share).map(|own| scope.spawn(move || part(own))).collect();
            threads.into_iter().try_for_each(|thread| {
                thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
            })
        })
    });
    outcome.map_err(failed)?;
    intervals.copy_from_slice(py, &rows)?;
    goes_on.copy_from_slice(py, &ends)
}

/// A session, its action, and places for its results.
type Work<'a> = (((&'a Session, f64), &'a mut [f64; FIELDS]), &'a mut u8);
