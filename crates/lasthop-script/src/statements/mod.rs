//! Statements in the way of Python, of which scripts use a small part: `assert`, assignments, `if`, `while`, `for`, `def`,
//! `print`, numbers, text, lists, and the functions of [`functions`].
//!
//! ```text
//!   text of a block --tokens--> words, with indents --syntax--> statements --run--> asserted, or why not
//! ```
//!
//! It differs from Python where nobody should notice: numbers are floating, lists are copied where they are assigned, and
//! a block ends in an error that runs for too long. *Not modelled*: dictionaries, classes, exceptions, modules, `lambda`,
//! arguments by name.

mod functions;
mod run;
mod syntax;
#[cfg(test)]
mod tests;
mod tokens;
mod tree;
mod values;

pub(super) use run::{Outside, run};
pub(super) use values::Value;

/// Why a block does not hold, or has no meaning.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Trouble {
    /// It is not in the language: what stands there.
    Syntax(String),
    /// What of Python is not known here, or a name that nobody knows.
    Unknown(String),
    /// An operation that has no result: what was found in place of which.
    Failed(String),
    /// A condition does not hold: its text, and what the script says of that.
    Asserted(String, Option<String>),
}

/// A [`Trouble`] with its line of the script.
pub(super) type Error = (u32, Trouble);

fn unknown<T>(line: u32, what: impl Into<String>) -> Result<T, Error> {
    Err((line, Trouble::Unknown(what.into())))
}

fn failed<T>(line: u32, found: impl Into<String>) -> Result<T, Error> {
    Err((line, Trouble::Failed(found.into())))
}
