//! Statements of scripts, in Python syntax: `assert`, assignments and `if` with numbers, text and
//! lists.
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
//! A block is evaluated while it is parsed. Parts that are not reached are only parsed. Numbers are
//! floating-point numbers. *Not modelled*: all other features of Python. Such a statement causes an
//! error that quotes it.

mod evaluate;
#[cfg(test)]
mod tests;
mod tokens;
mod values;

pub(super) use evaluate::{Outside, run};
pub(super) use values::Value;

/// Reason why a block fails.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Trouble {
    /// Text that is not a statement.
    Syntax(String),
    /// A Python statement that is not modelled, or an unknown name.
    Unknown(String),
    /// An operation without a result, with its operands.
    Failed(String),
    /// A condition that is false: its text, and the script's message.
    Asserted(String, Option<String>),
}

/// A [`Trouble`] with its line of the script.
pub(super) type Error = (u32, Trouble);
