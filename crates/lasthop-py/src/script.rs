//! Python bindings of conformance scripts.

use lasthop::tcp::Profile;
use lasthop::tcp_script::{Note, ScriptError, play_with};
use lasthop::units::Duration;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

/// Result of a script: `holds`, `differs`, `not modelled` or `syntax`, the reason, and the skipped
/// lines.
pub type Verdict = (&'static str, String, Vec<(u32, String)>);

/// Names of the profiles available to scripts, the default first.
#[pyfunction]
pub fn script_profiles() -> Vec<&'static str> {
    PROFILES.iter().map(|&(name, _)| name).collect()
}

const PROFILES: &[(&str, Profile)] = &[("linux", Profile::Linux), ("rfc", Profile::Rfc)];

/// Runs a script against one end of a connection, with names defined as `NAME=VALUE`.
#[pyfunction]
#[pyo3(signature = (text, profile, tolerance_us, defined=Vec::new()))]
pub fn play_script(
    py: Python<'_>,
    text: &str,
    profile: &str,
    tolerance_us: u64,
    defined: Vec<String>,
) -> PyResult<Verdict> {
    let known = PROFILES.iter().find(|(name, _)| *name == profile);
    let Some(&(_, profile)) = known else {
        let allowed = script_profiles().join(", ");
        let message = format!("profile: found {profile:?}; expected {allowed}");
        return Err(PyValueError::new_err(message));
    };
    let tolerance = Duration::from_nanos(tolerance_us.saturating_mul(1000));
    let played = py.detach(|| play_with(text, profile, tolerance, &defined));
    let (verdict, reason) = match played.outcome {
        Ok(()) => ("holds", String::new()),
        Err(error) => {
            let verdict = match error {
                ScriptError::Syntax { .. } => "syntax",
                ScriptError::NotModelled { .. } => "not modelled",
                ScriptError::Differs { .. } => "differs",
            };
            (verdict, error.to_string())
        }
    };
    let notes = played.notes.into_iter().map(|Note { line, text }| (line, text)).collect();
    Ok((verdict, reason, notes))
}
