//! Live links: processes started by the command line, and recordings.

use super::{Document, Point, failed, refused};
use lasthop::live::Network;
use lasthop::live::network::{address, address6};
use lasthop::live::recording::replay_with;
use lasthop::live::report::summary;
use lasthop::rng::Streams;
use lasthop::schema::open_regular;
use pyo3::exceptions::PyOSError;
use pyo3::prelude::*;
use serde_json::json;
use std::io::BufReader;
use std::path::Path;

/// Rejects a point of a document with a part that is unsupported with real packets; the error names
/// its key and place.
#[pyfunction]
#[pyo3(signature = (document, point, mtu=None))]
pub fn live_check(document: &Document, point: &Point, mtu: Option<u32>) -> PyResult<()> {
    let streams = Streams { seed: 0, replication: 0 };
    Network::new(&point.scenario, streams, mtu).map(|_| ()).map_err(|error| {
        let is_option = error.key.starts_with("--");
        match document.0.place(&error.key).filter(|_| !is_option) {
            Some(place) => refused(format!("{place}: {error}")),
            None => refused(error),
        }
    })
}

/// Runs the launcher or the driver of a live run. `files` are the descriptors that the parent has
/// left open (request, control, status). Returns the exit code.
#[pyfunction]
pub fn live_process(py: Python<'_>, role: &str, files: [i32; 3]) -> i32 {
    #[cfg(target_os = "linux")]
    {
        use lasthop::live::linux::{Channels, Role, drive, launch};
        let [request, control, status] = files;
        let channels = Channels { request, control, status };
        py.detach(|| match Role::named(role) {
            Role::Launcher => launch(channels),
            driver => drive(channels, driver),
        })
    }
    #[cfg(not(target_os = "linux"))]
    {
        let _ = (py, role, files);
        1
    }
}

/// Replays a recording in virtual time. Returns the result as JSON text: `messages` are those of a
/// live run, if requested.
#[pyfunction]
#[pyo3(signature = (path, messages=false))]
pub fn live_replay(py: Python<'_>, path: &str, messages: bool) -> PyResult<String> {
    let file = open_regular(Path::new(path)).map_err(|error| {
        PyOSError::new_err((error.raw_os_error(), error.to_string(), path.to_owned()))
    })?;
    let mut told = Vec::new();
    let replayed = py
        .detach(|| {
            replay_with(BufReader::new(file), &mut |message| {
                if messages {
                    told.push(message);
                }
            })
        })
        .map_err(|error| failed(format!("{path}: {error}")))?;
    let mut metrics = Vec::new();
    replayed.network.metrics(&replayed.scenario, &mut |entity, metric, value| {
        let value = value.value();
        metrics.push(json!([format!("{entity}.{metric}"), value.is_finite().then_some(value)]));
    });
    let names = replayed.scenario.hosts().into_iter().enumerate();
    let addresses = |index| json!([address(index).to_string(), address6(index).to_string()]);
    let hosts = names.map(|(index, name)| (name.to_owned(), addresses(index)));
    let hosts: serde_json::Map<_, _> = hosts.collect();
    let summary = messages.then(|| summary(&replayed.network, &replayed.scenario));
    Ok(json!({
        "hosts": hosts,
        "scenario": messages.then(|| replayed.scenario.to_json()),
        "messages": told,
        "summary": summary,
        "time": replayed.network.now().as_secs_f64(),
        "arrivals": replayed.arrivals,
        "same": replayed.same,
        "difference": replayed.difference,
        "complete": replayed.is_complete,
        "metrics": metrics,
    })
    .to_string())
}
