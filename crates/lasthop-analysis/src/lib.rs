//! Closed forms and Markov models of the links and transports that the other crates simulate. No
//! function runs a simulation, except those of [`ideal_sr`], a short model that shares only the
//! random streams with the simulator and therefore serves as an independent check of both.
//!
//! Every function checks its arguments and returns [`AnalysisError`] instead of a meaningless
//! number. `docs/analysis.md` lists the equations, their sources and their misprints.

pub mod ampdu;
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

/// An invalid argument of a model.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{argument}: found {found}; expected {allowed}")]
pub struct AnalysisError {
    /// Name of the argument.
    pub argument: &'static str,
    /// Value found.
    pub found: String,
    /// Description of the values allowed.
    pub allowed: String,
}

impl AnalysisError {
    fn new(argument: &'static str, found: impl Display, allowed: impl Into<String>) -> Self {
        AnalysisError { argument, found: found.to_string(), allowed: allowed.into() }
    }
}

/// Result of the functions of this crate.
pub type Result<T> = std::result::Result<T, AnalysisError>;

/// Formats a number, with an exponent instead of many zeros.
fn shown(value: f64) -> String {
    let is_plain = value == 0.0 || !value.is_finite() || (1e-4..1e9).contains(&value.abs());
    if is_plain { value.to_string() } else { format!("{value:e}") }
}

/// Checks a probability in [0, 1].
fn probability(argument: &'static str, p: f64) -> Result<f64> {
    if (0.0..=1.0).contains(&p) {
        // -0.0 equals 0, but its reciprocal does not.
        Ok(p.abs())
    } else {
        Err(AnalysisError::new(argument, shown(p), "a probability from 0 to 1"))
    }
}

/// Checks a finite number above 0; `unit` names its unit for messages.
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

/// Checks a finite number of at least 0; `unit` names its unit for messages.
fn not_negative(argument: &'static str, value: f64, unit: &str) -> Result<f64> {
    if value.is_finite() && value >= 0.0 {
        Ok(value.abs())
    } else {
        let allowed = format!("a finite number of {unit}, at least 0");
        Err(AnalysisError::new(argument, shown(value), allowed))
    }
}

/// Checks a whole number against limits.
fn count(argument: &'static str, n: u32, limits: RangeInclusive<u32>) -> Result<u32> {
    if limits.contains(&n) {
        Ok(n)
    } else {
        let allowed = format!("a whole number from {} to {}", limits.start(), limits.end());
        Err(AnalysisError::new(argument, n, allowed))
    }
}

/// Tests the examples of the README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
