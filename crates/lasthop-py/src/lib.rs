//! Python bindings, without logic of their own: [`lasthop::scenario`] reads and validates scenarios, and
//! [`lasthop::run`] runs replications. Structured values are passed as JSON text, columns of numbers as the
//! bytes of native arrays, which NumPy and Polars use without conversion. [`analysis`] has the analytic models.

mod algorithm;
mod analysis;
mod fit;
mod live;
mod script;
mod session;
mod stream;

use lasthop::run::{CaptureError, HostScriptError, Options, Progress, Results};
use lasthop::scenario::{self, Scenario};
use pyo3::create_exception;
use pyo3::exceptions::{PyKeyboardInterrupt, PyOSError, PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

create_exception!(
    lasthop,
    ScenarioError,
    PyValueError,
    "A scenario is invalid: key, value found, values allowed."
);
create_exception!(lasthop, RunError, PyRuntimeError, "A replication could not be finished.");

/// Interval at which a trace checks for Ctrl-C.
const TICK: Duration = Duration::from_millis(10);

fn refused(error: impl std::fmt::Display) -> PyErr {
    ScenarioError::new_err(error.to_string())
}

fn failed(error: impl std::fmt::Display) -> PyErr {
    RunError::new_err(error.to_string())
}

/// A scenario document: the contents of a file, including its sweep.
#[pyclass(frozen, module = "lasthop._lasthop")]
struct Document(scenario::Document);

#[pymethods]
impl Document {
    /// Parses TOML; `base` is the folder to which file names are relative.
    #[staticmethod]
    fn from_toml(text: &str, base: &str) -> PyResult<Self> {
        Scenario::from_toml(text, Path::new(base)).map(Self).map_err(refused)
    }

    /// Parses the contents of a file: TOML, or JSON if its name ends in `.json`. `defaults` is JSON
    /// text of tables whose keys complete the document.
    #[staticmethod]
    #[pyo3(signature = (text, file, defaults=None))]
    fn from_file_text(text: &str, file: PathBuf, defaults: Option<&str>) -> PyResult<Self> {
        let defaults: serde_json::Value = defaults
            .map_or(Ok(serde_json::Value::Null), serde_json::from_str)
            .map_err(|error| PyValueError::new_err(error.to_string()))?;
        Scenario::from_file_text(text, &file, &defaults).map(Self).map_err(refused)
    }

    /// Parses a document as JSON text.
    #[staticmethod]
    fn from_json(text: &str, base: &str) -> PyResult<Self> {
        Scenario::from_json_text(text, Path::new(base)).map(Self).map_err(refused)
    }

    /// Returns a copy with one key changed; `text` as on the command line.
    fn with_key(&self, key: &str, text: &str) -> PyResult<Self> {
        let mut document = self.0.clone();
        document.set(key, text).map_err(refused)?;
        Ok(Self(document))
    }

    /// Notes on former names of keys.
    #[getter]
    fn notes(&self) -> Vec<String> {
        self.0.notes().to_vec()
    }

    /// Returns the place of a key in its file as `FILE:LINE`, or `None`.
    fn place(&self, key: &str) -> Option<String> {
        self.0.place(key)
    }

    /// Returns the document as JSON text.
    fn to_json(&self) -> String {
        self.0.to_json().to_string()
    }

    /// Returns the parameter points of its sweep; a single point without a sweep.
    fn points(&self) -> PyResult<Vec<Point>> {
        let points = self.0.points().map_err(refused)?;
        Ok(points
            .into_iter()
            .map(|point| Point {
                parameters: serde_json::Value::Object(point.parameters.into_iter().collect())
                    .to_string(),
                scenario: point.scenario,
            })
            .collect())
    }
}

/// A fully resolved scenario.
#[pyclass(frozen, module = "lasthop._lasthop")]
struct Point {
    parameters: String,
    scenario: Scenario,
}

#[pymethods]
impl Point {
    /// Swept keys and their values at this point, as JSON text.
    #[getter]
    fn parameters(&self) -> &str {
        &self.parameters
    }

    /// Hash of all inputs of the results except the seed.
    #[getter]
    fn hash(&self) -> u64 {
        self.scenario.hash()
    }

    /// Returns the scenario as JSON text, including defaults.
    fn to_json(&self) -> String {
        self.scenario.to_json().to_string()
    }

    /// Returns the names of its metrics, in the order of its results.
    fn metrics(&self) -> PyResult<Vec<String>> {
        lasthop::run::metric_names(&self.scenario).map_err(failed)
    }

    /// Number of replications that the scenario specifies.
    #[getter]
    fn replications(&self) -> u64 {
        self.scenario.run.replications.into()
    }

    /// Returns the derived quantities as JSON text: see `lasthop::run::resolved`.
    fn resolved(&self) -> PyResult<String> {
        lasthop::run::resolved(&self.scenario).map(|value| value.to_string()).map_err(failed)
    }

    /// Seed that the scenario specifies.
    #[getter]
    fn seed(&self) -> u64 {
        self.scenario.run.seed
    }
}

/// Results of a run: `values` contains the rows of metrics, concatenated, as 64-bit floats.
#[pyclass(frozen, get_all, module = "lasthop._lasthop")]
struct RawResults {
    metrics: Vec<String>,
    point: Py<PyBytes>,
    replication: Py<PyBytes>,
    values: Py<PyBytes>,
    complete: bool,
}

/// Events of one replication by column, and its metrics.
#[pyclass(frozen, get_all, module = "lasthop._lasthop")]
struct RawTrace {
    entities: Vec<String>,
    events: Vec<String>,
    time_ns: Py<PyBytes>,
    entity: Py<PyBytes>,
    event: Py<PyBytes>,
    sequence: Py<PyBytes>,
    value: Py<PyBytes>,
    transmissions: Py<RawTransmissions>,
    metrics: Vec<(String, f64)>,
    complete: bool,
}

/// Transmitted frames by column; `u64::MAX` if there is no acknowledgment or arrival.
#[pyclass(frozen, get_all, module = "lasthop._lasthop")]
struct RawTransmissions {
    entities: Vec<String>,
    kinds: Vec<String>,
    entity: Py<PyBytes>,
    kind: Py<PyBytes>,
    sequence: Py<PyBytes>,
    count: Py<PyBytes>,
    ack: Py<PyBytes>,
    is_repeated: Py<PyBytes>,
    connection: Py<PyBytes>,
    incarnation: Py<PyBytes>,
    segment: Py<PyBytes>,
    segment_ack: Py<PyBytes>,
    sack: Vec<String>,
    size: Py<PyBytes>,
    start_ns: Py<PyBytes>,
    end_ns: Py<PyBytes>,
    arrival_ns: Py<PyBytes>,
}

/// Returns the native bytes of a column.
fn column<const N: usize>(
    py: Python<'_>,
    length: usize,
    cells: impl Iterator<Item = [u8; N]>,
) -> PyResult<Py<PyBytes>> {
    let bytes = PyBytes::new_with(py, length * N, |buffer| {
        for (slot, cell) in buffer.chunks_exact_mut(N).zip(cells) {
            slot.copy_from_slice(&cell);
        }
        Ok(())
    })?;
    Ok(bytes.unbind())
}

fn raw_results(py: Python<'_>, results: &Results, complete: bool) -> PyResult<RawResults> {
    let rows = &results.rows;
    let width = results.metrics.len();
    Ok(RawResults {
        metrics: results.metrics.clone(),
        point: column(py, rows.len(), rows.iter().map(|row| row.point.to_ne_bytes()))?,
        replication: column(py, rows.len(), rows.iter().map(|row| row.replication.to_ne_bytes()))?,
        values: column(
            py,
            rows.len() * width,
            rows.iter().flat_map(|row| row.values.iter().map(|value| value.to_ne_bytes())),
        )?,
        complete,
    })
}

/// Runs all replications of all points without holding the interpreter's lock. `progress(done,
/// total)` is called periodically and at the end. On Ctrl-C, the finished replications are returned
/// with `complete` false.
#[pyfunction]
#[pyo3(signature = (points, *, replications, first_replication, seed, jobs, progress=None))]
fn run(
    py: Python<'_>,
    points: Vec<PyRef<'_, Point>>,
    replications: u64,
    first_replication: u64,
    seed: u64,
    jobs: usize,
    progress: Option<Py<PyAny>>,
) -> PyResult<RawResults> {
    let scenarios: Vec<Scenario> = points.iter().map(|point| point.scenario.clone()).collect();
    let options = Options { replications, first_replication, seed, jobs };
    let mut raised = None;
    let mut reported = None;
    let mut report = |py: Python<'_>, now: Progress| -> PyResult<()> {
        py.check_signals()?;
        if let Some(progress) = progress.as_ref().filter(|_| reported != Some(now)) {
            reported = Some(now);
            progress.call1(py, (now.done, now.total))?;
        }
        Ok(())
    };
    let results = py
        .detach(|| {
            lasthop::run::run(&scenarios, &options, &mut |now| {
                if raised.is_none() {
                    raised = Python::attach(|py| report(py, now)).err();
                }
                raised.is_none()
            })
        })
        .map_err(failed)?;
    if raised.is_none() {
        // A short run may end before the first progress report.
        let done = results.rows.len() as u64;
        let total = replications * scenarios.len() as u64;
        raised = report(py, Progress { done, total }).err();
    }
    match raised {
        Some(error) if !error.is_instance_of::<PyKeyboardInterrupt>(py) => Err(error),
        interrupt => raw_results(py, &results, results.complete && interrupt.is_none()),
    }
}

/// Runs `work` on a separate thread, as Python handles signals on the main thread only. On Ctrl-C,
/// sets the stop flag of `work` and raises `KeyboardInterrupt`.
fn watched<T: Send>(py: Python<'_>, work: impl FnOnce(&AtomicBool) -> T + Send) -> PyResult<T> {
    let interrupt = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let engine = scope.spawn(|| work(&interrupt));
        while !engine.is_finished() {
            py.detach(|| std::thread::sleep(TICK));
            if let Err(raised) = py.check_signals() {
                interrupt.store(true, Ordering::Relaxed);
                return Err(raised);
            }
        }
        Ok(engine.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
    })
}

/// Runs one replication and writes its packets to a pcapng file: of one link or of all, as captured
/// at a host or on the channel, each truncated to a maximum length. Returns the number of packets.
#[pyfunction]
#[pyo3(signature = (point, path, *, seed, replication, link=None, host=None, snap=None))]
#[expect(clippy::too_many_arguments, reason = "named in Python")]
fn capture(
    py: Python<'_>,
    point: &Point,
    path: PathBuf,
    seed: u64,
    replication: u64,
    link: Option<String>,
    host: Option<String>,
    snap: Option<u32>,
) -> PyResult<u64> {
    let view = lasthop::run::View { link, host, snap };
    let captured = watched(py, |interrupt| {
        lasthop::run::capture(&point.scenario, [seed, replication], &view, interrupt, &path)
    })?;
    captured.map(|captured| captured.packets).map_err(|error| match error {
        CaptureError::Run(error) => failed(error),
        CaptureError::View { .. } => PyValueError::new_err(error.to_string()),
        CaptureError::Write(error) => {
            let message = error.to_string();
            // Python adds the error number itself.
            let reason = message.split(" (os error").next().unwrap_or_default().to_owned();
            PyOSError::new_err((error.raw_os_error(), reason, path.display().to_string()))
        }
    })
}

/// Runs one replication and returns the conformance script of one end of a flow's first connection.
#[pyfunction]
#[pyo3(signature = (point, *, seed, replication, flow=None, host=None))]
fn host_script(
    py: Python<'_>,
    point: &Point,
    seed: u64,
    replication: u64,
    flow: Option<&str>,
    host: Option<&str>,
) -> PyResult<String> {
    let written = watched(py, |interrupt| {
        let numbers = [seed, replication];
        lasthop::run::host_script(&point.scenario, numbers, [flow, host], interrupt)
    })?;
    written.map_err(|error| match error {
        HostScriptError::Run(error) => failed(error),
        HostScriptError::Scenario(error) => PyValueError::new_err(error.to_string()),
    })
}

/// Records the events of one replication. Ctrl-C raises `KeyboardInterrupt`.
#[pyfunction]
fn trace(py: Python<'_>, point: &Point, seed: u64, replication: u64) -> PyResult<RawTrace> {
    let trace = watched(py, |interrupt| {
        lasthop::run::trace(&point.scenario, seed, replication, interrupt)
    })?
    .map_err(failed)?;
    let mut entities: Vec<String> = Vec::new();
    let mut events: Vec<String> = Vec::new();
    let mut codes = Vec::with_capacity(trace.events.len());
    for event in &trace.events {
        codes.push((code(&mut entities, &event.entity), code(&mut events, event.event)));
    }
    let rows = trace.events.len();
    let all = || trace.events.iter();
    Ok(RawTrace {
        time_ns: column(py, rows, all().map(|event| event.time_ns.to_ne_bytes()))?,
        entity: column(py, rows, codes.iter().map(|(entity, _)| entity.to_ne_bytes()))?,
        event: column(py, rows, codes.iter().map(|(_, event)| event.to_ne_bytes()))?,
        sequence: column(py, rows, all().map(|event| event.sequence.to_ne_bytes()))?,
        value: column(py, rows, all().map(|event| event.value.to_ne_bytes()))?,
        transmissions: Py::new(py, raw_transmissions(py, &trace.transmissions)?)?,
        metrics: trace.metrics,
        complete: trace.complete,
        entities,
        events,
    })
}

fn raw_transmissions(
    py: Python<'_>,
    transmissions: &[lasthop::run::Transmission],
) -> PyResult<RawTransmissions> {
    let (mut entities, mut kinds) = (Vec::new(), Vec::new());
    let mut codes = Vec::with_capacity(transmissions.len());
    for sent in transmissions {
        codes.push((code(&mut entities, &sent.entity), code(&mut kinds, sent.kind)));
    }
    let rows = transmissions.len();
    let numbers = |pick: fn(&lasthop::run::Transmission) -> u64| {
        column(py, rows, transmissions.iter().map(|sent| pick(sent).to_ne_bytes()))
    };
    Ok(RawTransmissions {
        entity: column(py, rows, codes.iter().map(|(entity, _)| entity.to_ne_bytes()))?,
        kind: column(py, rows, codes.iter().map(|(_, kind)| kind.to_ne_bytes()))?,
        sequence: numbers(|sent| sent.sequence)?,
        count: numbers(|sent| sent.count)?,
        ack: numbers(|sent| sent.ack.unwrap_or(u64::MAX))?,
        is_repeated: numbers(|sent| sent.is_repeated.into())?,
        connection: numbers(|sent| sent.segment.map_or(u64::MAX, |it| it.connection.into()))?,
        incarnation: numbers(|sent| {
            sent.segment.map_or(u64::MAX, |it| it.numbers.instance.into())
        })?,
        segment: numbers(|sent| {
            sent.segment.and_then(|it| it.numbers.sequence).map_or(u64::MAX, u64::from)
        })?,
        segment_ack: numbers(|sent| {
            sent.segment.and_then(|it| it.numbers.ack).map_or(u64::MAX, u64::from)
        })?,
        sack: transmissions.iter().map(sack_text).collect(),
        size: numbers(|sent| sent.bytes.into())?,
        start_ns: numbers(|sent| sent.start_ns)?,
        end_ns: numbers(|sent| sent.end_ns)?,
        arrival_ns: numbers(|sent| sent.arrival_ns.unwrap_or(u64::MAX))?,
        entities,
        kinds,
    })
}

/// Formats the SACK blocks of a segment as `first-end`, separated by spaces.
fn sack_text(sent: &lasthop::run::Transmission) -> String {
    let blocks = sent.segment.iter().flat_map(|segment| segment.numbers.blocks.iter().flatten());
    blocks.map(|(first, end)| format!("{first}-{end}")).collect::<Vec<_>>().join(" ")
}

/// Converts a duration such as "50 ms" to seconds.
#[pyfunction]
fn seconds(text: &str) -> PyResult<f64> {
    let duration: Result<lasthop::units::Duration, _> = text.parse();
    match duration {
        Ok(duration) => Ok(duration.as_secs_f64()),
        Err(error) => Err(PyValueError::new_err(error.to_string())),
    }
}

/// Number of processor cores available to this process.
#[pyfunction]
fn cores() -> usize {
    lasthop::run::cores()
}

/// Returns the index of a name in a short list, appending new names.
fn code(names: &mut Vec<String>, name: &str) -> u32 {
    let index = names.iter().position(|known| known == name).unwrap_or_else(|| {
        names.push(name.to_owned());
        names.len() - 1
    });
    index as u32
}

/// Returns the JSON Schema of a scenario, as JSON text.
#[pyfunction]
fn schema() -> String {
    scenario::schema().to_string()
}

/// Returns the list of metrics, as JSON text: see `lasthop::metrics`.
#[pyfunction]
fn metrics() -> String {
    let all = lasthop::metrics::all().into_iter();
    serde_json::Value::from_iter(all.map(|(entity, metric)| metric.to_json(entity))).to_string()
}

/// Returns the scenario reference, in Markdown.
#[pyfunction]
fn reference_markdown() -> String {
    scenario::reference_markdown()
}

/// The native part of the package `lasthop`.
#[pymodule]
fn _lasthop(module: &Bound<'_, PyModule>) -> PyResult<()> {
    let py = module.py();
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    module.add("ScenarioError", py.get_type::<ScenarioError>())?;
    module.add("RunError", py.get_type::<RunError>())?;
    module.add_class::<Document>()?;
    module.add_class::<Point>()?;
    module.add_class::<RawResults>()?;
    module.add_class::<RawTrace>()?;
    module.add_class::<algorithm::Ack>()?;
    module.add_class::<algorithm::DeliverySample>()?;
    module.add_class::<algorithm::Signal>()?;
    module.add_function(wrap_pyfunction!(algorithm::cbrt, module)?)?;
    algorithm::install();
    module.add_class::<session::Controller>()?;
    module.add_class::<session::Session>()?;
    module.add_function(wrap_pyfunction!(session::step_all, module)?)?;
    module.add_class::<stream::Stream>()?;
    module.add_class::<stream::Batch>()?;
    analysis::register(module)?;
    module.add_class::<fit::LossRuns>()?;
    module.add_function(wrap_pyfunction!(fit::simulate_losses, module)?)?;
    module.add_function(wrap_pyfunction!(run, module)?)?;
    module.add_function(wrap_pyfunction!(trace, module)?)?;
    module.add_function(wrap_pyfunction!(capture, module)?)?;
    module.add_function(wrap_pyfunction!(host_script, module)?)?;
    module.add_class::<RawTransmissions>()?;
    module.add_function(wrap_pyfunction!(script::play_script, module)?)?;
    module.add_function(wrap_pyfunction!(script::script_profiles, module)?)?;
    module.add_function(wrap_pyfunction!(live::live_check, module)?)?;
    module.add_function(wrap_pyfunction!(live::live_process, module)?)?;
    module.add_function(wrap_pyfunction!(live::live_replay, module)?)?;
    module.add_function(wrap_pyfunction!(seconds, module)?)?;
    module.add_function(wrap_pyfunction!(cores, module)?)?;
    module.add_function(wrap_pyfunction!(schema, module)?)?;
    module.add_function(wrap_pyfunction!(metrics, module)?)?;
    module.add_function(wrap_pyfunction!(reference_markdown, module)?)
}
