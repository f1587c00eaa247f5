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
//! full segments in a row, and for a shorter last one. Options are compared by what they say, not by their
//! order or padding; PSH is not compared, nor a timestamp's value unless `--tcp_ts_tick_usecs` gives its clock.
//!
//! The connection under test is a [`Socket`](lasthop_tcp::host::Socket) with the parameters of a
//! [`Profile`]. Shell commands that set `net.ipv4.*` change them; other commands are noted and passed over.
//!
//! *Not modelled*: urgent data, Fast Open, MD5, MPTCP, accurate ECN,
//! automatic tuning of buffers, time stamps of arrivals, zero copy. A script that needs them gets
//! [`ScriptError::NotModelled`].

mod calls;
mod constants;
mod defines;
mod endpoints;
mod environment;
mod options;
mod parser;
mod player;
mod readiness;
mod recorder;
mod segments;
mod show;
mod stamps;
mod state;
mod statements;
mod transfers;

pub use parser::Script;
pub use recorder::Recorder;

use lasthop_base::units::Duration;
use lasthop_tcp::Profile;

/// Something of a script that was passed over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Note {
    /// Line of the script, from 1.
    pub line: u32,
    /// What it is.
    pub text: String,
}

/// What came of a script that was played.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Played {
    /// Does it hold? If not, the first reason.
    pub outcome: Result<(), ScriptError>,
    /// What was passed over on the way.
    pub notes: Vec<Note>,
}

/// How much earlier or later than a script says a segment may leave, unless it says so itself.
pub const DEFAULT_TOLERANCE: Duration = Duration::from_millis(4);

/// Plays a script against a connection of `profile`; `tolerance` counts where the script has no
/// `--tolerance_usecs`.
pub fn play(text: &str, profile: Profile, tolerance: Duration) -> Played {
    play_with(text, profile, tolerance, &[])
}

/// The same with names that its user defines, `NAME=VALUE` each.
pub fn play_with(text: &str, profile: Profile, tolerance: Duration, defined: &[String]) -> Played {
    match Script::parse_with(text, defined) {
        Ok(script) => player::play(&script, profile, tolerance),
        Err(error) => Played { outcome: Err(error), notes: Vec::new() },
    }
}

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

/// Its examples are tested.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
