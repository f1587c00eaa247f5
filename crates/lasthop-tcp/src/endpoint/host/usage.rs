//! How long a connection has had something to send, and what it waited for.

use super::{Endpoint, Host};
use crate::congestion_control::CongestionControl;
use lasthop_base::units::{Duration, Instant};

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
    /// All that is written has left, the windows have room, and the application waits for room in the send buffer.
    BufferLimited,
}

/// Times so far.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Usage {
    now: Use,
    since: Instant,
    busy: Duration,
    window_limited: Duration,
    buffer_limited: Duration,
}

impl Usage {
    /// What the connection does from `now` on.
    pub fn look(&mut self, now: Instant, use_: &Use) {
        if *use_ != self.now {
            (self.busy, self.window_limited, self.buffer_limited) = self.times(now);
            (self.now, self.since) = (*use_, now);
        }
    }

    /// Time busy for whatever reason, limited by the peer's window, and by the send buffer.
    pub fn times(&self, now: Instant) -> (Duration, Duration, Duration) {
        let more = now - self.since;
        let only = |use_| if self.now == use_ { more } else { Duration::ZERO };
        let busy = if self.now == Use::Idle { Duration::ZERO } else { more };
        (
            self.busy + busy,
            self.window_limited + only(Use::WindowLimited),
            self.buffer_limited + only(Use::BufferLimited),
        )
    }
}

impl Endpoint<Host> {
    /// It has sent what it may.
    pub(super) fn look_at_usage(&mut self, now: Instant) {
        let use_ = self.use_();
        self.host.usage.look(now, &use_);
    }

    fn use_(&self) -> Use {
        let flight = &self.sender.flight;
        if flight.snd_una == flight.write_end {
            return Use::Idle;
        }
        let is_short = flight.snd_nxt < flight.write_end
            && flight.segment_end(flight.snd_nxt) > flight.snd_una + flight.peer_window;
        // Linux looks at the congestion window first: if both are used up, that is the limit.
        if is_short && (flight.outstanding_segments() as f64) < flight.law.cwnd().floor() {
            return Use::WindowLimited;
        }
        let awaits_room = self.host.app.awaits_room && flight.keeps_records();
        match awaits_room.then(|| self.sender.fill()) {
            Some(fill) if fill.unsent == 0 && fill.room > 0 => Use::BufferLimited,
            _ => Use::Busy,
        }
    }
}
