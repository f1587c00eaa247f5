//! Closed forms and Markov models: what theory says about the links and transports that the rest of
//! the workspace simulates. Nothing here runs a simulation but [`ideal_sr`], a few lines that only
//! share the random streams with it, so that they can stand between a chain and the simulator.
//!
//! Every function checks what it is given and returns [`AnalysisError`] rather than a number that
//! means nothing. `docs/analysis.md` has the equations, their sources and the misprints in them.

pub mod arq_chain;
pub mod arq_efficiency;
pub mod block_codes;
pub mod dcf_saturation;
pub mod frame_loss;
pub mod gilbert_elliott;
pub mod ideal_sr;
pub mod loss_likelihood;
pub mod loss_notification;
pub mod tcp_chain;
pub mod tcp_formulas;

pub use arq_chain::{ArqChain, Restart, TransitionForm};
pub use gilbert_elliott::GilbertElliottLaw;

use std::fmt::Display;
use std::ops::RangeInclusive;

/// An argument that a model cannot work with.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{argument}: found {found}; allowed: {allowed}")]
pub struct AnalysisError {
    /// Name of the argument.
    pub argument: &'static str,
    /// What it was.
    pub found: String,
    /// What it may be.
    pub allowed: String,
}

impl AnalysisError {
    fn new(argument: &'static str, found: impl Display, allowed: impl Into<String>) -> Self {
        AnalysisError { argument, found: found.to_string(), allowed: allowed.into() }
    }
}

/// What the functions of this module return.
pub type Result<T> = std::result::Result<T, AnalysisError>;

/// A number as people write it: with an exponent where there would be many zeros.
fn shown(value: f64) -> String {
    let is_plain = value == 0.0 || !value.is_finite() || (1e-4..1e9).contains(&value.abs());
    if is_plain { value.to_string() } else { format!("{value:e}") }
}

/// A probability in [0, 1].
fn probability(argument: &'static str, p: f64) -> Result<f64> {
    if (0.0..=1.0).contains(&p) {
        // -0.0 is 0, but its reciprocal is not.
        Ok(p.abs())
    } else {
        Err(AnalysisError::new(argument, shown(p), "a probability from 0 to 1"))
    }
}

/// A finite number above 0; `unit` says of what.
fn positive(argument: &'static str, value: f64, unit: &str) -> Result<f64> {
    if value.is_finite() && value > 0.0 {
        Ok(value)
    } else {
        Err(AnalysisError::new(
            argument,
            shown(value),
            format!("a finite number of {unit} above 0"),
        ))
    }
}

/// A finite number, 0 or above; `unit` says of what.
fn not_negative(argument: &'static str, value: f64, unit: &str) -> Result<f64> {
    if value.is_finite() && value >= 0.0 {
        Ok(value.abs())
    } else {
        let allowed = format!("a finite number of {unit}, at least 0");
        Err(AnalysisError::new(argument, shown(value), allowed))
    }
}

/// A whole number within limits.
fn count(argument: &'static str, n: u32, limits: RangeInclusive<u32>) -> Result<u32> {
    if limits.contains(&n) {
        Ok(n)
    } else {
        let allowed = format!("a whole number from {} to {}", limits.start(), limits.end());
        Err(AnalysisError::new(argument, n, allowed))
    }
}

/// Its examples are tested.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
