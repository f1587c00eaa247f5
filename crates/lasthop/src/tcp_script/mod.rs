//! Plays conformance scripts against one end of a TCP connection.
//!
//! The language is that of packetdrill (Cardwell and others, USENIX ATC 2013): each event has a time;
//! `<` is a segment that reaches the connection, `>` one that must leave it, system calls stand for
//! the application, and `%{ assert … }%` looks at the state as `tcp_info` shows it.
//!
//! ```text
//!    0 socket(..., SOCK_STREAM, IPPROTO_TCP) = 3
//!   +0 connect(3, ..., ...) = -1 EINPROGRESS (Operation now in progress)
//!   +0 > S 0:0(0) <mss 1460>
//!  +.1 < S. 0:0(0) ack 1 win 20000 <mss 1000>
//!   +0 > . 1:1(0) ack 1
//! ```
//!
//! Sequence numbers are relative to the initial ones, as everywhere in the language. A `>` may stand for several
//! full segments in a row. A segment may be early or late by [`Setup::tolerance`].
//!
//! *Not modelled*: resets, urgent data, several connections in one script, ICMP, the maximum segment
//! size and the window scale that the connection under test announces (not compared). A script that
//! needs them gets [`ScriptError::NotModelled`].

mod expression;
mod parser;
mod player;

pub use parser::Script;
pub use player::{Negotiated, Setup, play};

/// Why a script does not hold, or cannot be played.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ScriptError {
    /// The text is not in the language.
    #[error("line {line}: found {found}, expected {expected}")]
    Syntax {
        /// Line of the script, from 1.
        line: u32,
        /// What stands there.
        found: String,
        /// What may stand there.
        expected: &'static str,
    },
    /// The script needs something that connections here do not have.
    #[error("line {line}: {what} is not modelled")]
    NotModelled {
        /// Line of the script, from 1.
        line: u32,
        /// What it is.
        what: String,
    },
    /// The connection behaved otherwise.
    #[error("line {line}: expected {expected}, found {found}")]
    Differs {
        /// Line of the script, from 1.
        line: u32,
        /// What the script says.
        expected: String,
        /// What happened.
        found: String,
    },
}
