//! Runs conformance scripts against one endpoint of a TCP connection.
//!
//! The language is that of packetdrill (Cardwell and others, USENIX ATC 2013). Each event has a
//! time. `<` is a segment that arrives at the connection, `>` one that it must send. System calls
//! represent the application, and `%{ assert … }%` checks the state as reported by `tcp_info`.
//!
//! ```text
//!    0 socket(..., SOCK_STREAM, IPPROTO_TCP) = 3
//!   +0 connect(3, ..., ...) = -1 EINPROGRESS (Operation now in progress)
//!   +0 > S 0:0(0) <mss 1460>
//!  +.1 < S. 0:0(0) ack 1 win 20000 <mss 1000>
//!   +0 > . 1:1(0) ack 1
//! ```
//!
//! Sequence numbers are relative to the initial ones, as always in this language. A `>` line may
//! represent several full segments in a row, and a shorter last one. Options are compared by
//! content, not by order or padding. PSH is not compared. The value of a timestamp is compared only
//! if `--tcp_ts_tick_usecs` specifies its clock.
//!
//! The connection under test is a [`Socket`](lasthop_tcp::host::Socket) with the parameters of a
//! [`Profile`]. Shell commands that set `net.ipv4.*` change them; other commands are skipped with a
//! note.
//!
//! *Not modelled*: urgent data, Fast Open, MD5, MPTCP, accurate ECN, tunnels, UDP. A script that
//! requires them fails with [`ScriptError::NotModelled`]. Timestamps of arrivals are not compared.

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
pub use recorder::{Recorder, Unscriptable};

use lasthop_base::units::Duration;
use lasthop_tcp::Profile;

/// A part of a script that was skipped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Note {
    /// Line of the script, from 1.
    pub line: u32,
    /// Description of the skipped part.
    pub text: String,
}

/// Result of running a script.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Played {
    /// `Ok` if the script passed, otherwise the first error.
    pub outcome: Result<(), ScriptError>,
    /// Parts of the script that were skipped.
    pub notes: Vec<Note>,
}

/// Default tolerance for the send time of a segment, earlier or later, if the script specifies
/// none.
pub const DEFAULT_TOLERANCE: Duration = Duration::from_millis(4);

/// Runs a script against a connection of `profile`. `tolerance` applies if the script has no
/// `--tolerance_usecs`.
///
/// ```
/// use lasthop_script::{DEFAULT_TOLERANCE, ScriptError, play};
/// use lasthop_tcp::Profile;
///
/// let script = "
///    0 socket(..., SOCK_STREAM, IPPROTO_TCP) = 3
///   +0 connect(3, ..., ...) = -1 EINPROGRESS (Operation now in progress)
///   +0 > S 0:0(0) <...>
///  +.1 < S. 0:0(0) ack 1 win 20000 <mss 1000>
///   +0 > . 1:1(0) ack 1
/// ";
/// assert_eq!(play(script, Profile::Linux, DEFAULT_TOLERANCE).outcome, Ok(()));
/// // A segment that differs is reported with its line.
/// let wrong = script.replace("> . 1:1(0) ack 1", "> . 1:1(0) ack 2");
/// let failed = play(&wrong, Profile::Linux, DEFAULT_TOLERANCE).outcome;
/// assert!(matches!(failed, Err(ScriptError::Differs { line: 6, .. })), "{failed:?}");
/// ```
pub fn play(text: &str, profile: Profile, tolerance: Duration) -> Played {
    play_with(text, profile, tolerance, &[])
}

/// Like [`play`], with names defined by the user, each as `NAME=VALUE`.
pub fn play_with(text: &str, profile: Profile, tolerance: Duration, defined: &[String]) -> Played {
    match Script::parse_with(text, defined) {
        Ok(script) => player::play(&script, profile, tolerance),
        Err(error) => Played { outcome: Err(error), notes: Vec::new() },
    }
}

/// Reason why a script fails or cannot be run.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ScriptError {
    /// Syntax error.
    #[error("line {line}: found {found}, expected {expected}")]
    Syntax {
        /// Line of the script, from 1.
        line: u32,
        /// Text found.
        found: String,
        /// Expected syntax.
        expected: &'static str,
    },
    /// The script requires a feature that is not modelled.
    #[error("line {line}: {what} is not modelled")]
    NotModelled {
        /// Line of the script, from 1.
        line: u32,
        /// The feature.
        what: String,
    },
    /// The connection behaved differently.
    #[error("line {line}: expected {expected}, found {found}")]
    Differs {
        /// Line of the script, from 1.
        line: u32,
        /// Behaviour expected by the script.
        expected: String,
        /// Behaviour observed.
        found: String,
    },
}

/// Includes the examples of the README in the tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
