//! Statements of scripts, written as in Python: `assert`, assignments and `if` over numbers, text and lists.
//!
//! ```text
//!   statement  := "assert" expression ["," expression] | NAME "=" expression | "pass"
//!               | "if" expression ":" block ("elif" expression ":" block)* ["else" ":" block]
//!   block      := statement (";" statement)* | NEWLINE, then lines of a larger indent
//!   expression := and ("or" and)*
//!   and        := not ("and" not)*
//!   not        := "not" not | bits (("==" | "!=" | "<=" | ">=" | "<" | ">" | ["not"] "in") bits)*
//!   bits       := shift (("&" | "|") shift)*
//!   shift      := sum (("<<" | ">>") sum)*
//!   sum        := product (("+" | "-") product)*
//!   product    := unary (("*" | "//" | "/" | "%") unary)*
//!   unary      := "-" unary | NUMBER | TEXT | NAME | "(" list ")" | "[" list "]"
//! ```
//!
//! A block is evaluated while it is parsed; parts that are not reached are parsed only. Numbers are floating.
//! *Not modelled*: everything else of Python. Such a statement is an error that quotes it.

mod evaluate;
#[cfg(test)]
mod tests;
mod tokens;
mod values;

pub(super) use evaluate::{Outside, run};
pub(super) use values::Value;

/// Why a block does not hold, or has no meaning.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Trouble {
    /// Text that is not a statement.
    Syntax(String),
    /// A statement of Python that is not modelled, or an unknown name.
    Unknown(String),
    /// An operation that has no result, with its operands.
    Failed(String),
    /// A condition that does not hold: its text, and the script's message.
    Asserted(String, Option<String>),
}

/// A [`Trouble`] with its line of the script.
pub(super) type Error = (u32, Trouble);
