//! How long a connection has had something to send, and what it waited for.

use crate::tcp::connection::Connection;
use crate::units::{Duration, Instant};

/// Segments and bytes that crossed the border of a socket.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    /// Segments sent, those with data among them, and their bytes.
    pub segments_sent: u64,
    /// See above.
    pub data_segments_sent: u64,
    /// See above.
    pub bytes_sent: u64,
    /// Bytes of these that had been sent before.
    pub bytes_sent_again: u64,
    /// Segments received, and those with data among them.
    pub segments_received: u64,
    /// See above.
    pub data_segments_received: u64,
}

/// What a connection does with its time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Use {
    /// It has nothing to send, and nothing is outstanding.
    #[default]
    Idle,
    /// Something is outstanding.
    Busy,
    /// What is written waits for the peer's window.
    WindowLimited,
}

/// Times so far.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Usage {
    now: Use,
    since: Instant,
    busy: Duration,
    window_limited: Duration,
}

impl Usage {
    /// What the connection does from `now` on.
    pub fn look(&mut self, now: Instant, use_: &Use) {
        if *use_ != self.now {
            (self.busy, self.window_limited) = self.times(now);
            (self.now, self.since) = (*use_, now);
        }
    }

    /// Time busy for whatever reason, and time limited by the peer's window.
    pub fn times(&self, now: Instant) -> (Duration, Duration) {
        let more = now - self.since;
        match self.now {
            Use::Idle => (self.busy, self.window_limited),
            Use::Busy => (self.busy + more, self.window_limited),
            Use::WindowLimited => (self.busy + more, self.window_limited + more),
        }
    }
}

/// What a connection does, once it has sent what it may.
pub(super) fn connection_use(connection: Option<&Connection>) -> Use {
    let Some(flight) = connection.map(|connection| &connection.sender.flight) else {
        return Use::Idle;
    };
    if flight.snd_una == flight.write_end {
        return Use::Idle;
    }
    let is_short = flight.snd_nxt < flight.write_end
        && flight.segment_end(flight.snd_nxt) > flight.snd_una + flight.peer_window;
    if is_short { Use::WindowLimited } else { Use::Busy }
}
