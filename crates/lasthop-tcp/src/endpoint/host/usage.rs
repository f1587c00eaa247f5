//! Times in which a connection had data to send, by the factor that limited it.

use super::{Endpoint, Host};
use crate::congestion_control::CongestionControl;
use lasthop_base::units::{Duration, Instant};

/// Segments and bytes sent and received by a socket.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    /// Segments sent.
    pub segments_sent: u64,
    /// Segments sent with data.
    pub data_segments_sent: u64,
    /// Payload bytes sent.
    pub bytes_sent: u64,
    /// Retransmitted payload bytes.
    pub bytes_sent_again: u64,
    /// Segments received.
    pub segments_received: u64,
    /// Segments received with data.
    pub data_segments_received: u64,
}

/// Factor that limits a connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Use {
    /// No data to send and none outstanding.
    #[default]
    Idle,
    /// Data is outstanding.
    Busy,
    /// Written data waits for the peer's window.
    WindowLimited,
    /// All written data has been sent, the windows have room, and the application waits for room in
    /// the send buffer.
    BufferLimited,
}

/// Total times so far.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Usage {
    now: Use,
    since: Instant,
    busy: Duration,
    window_limited: Duration,
    buffer_limited: Duration,
}

impl Usage {
    /// Records the limiting factor from `now` onwards.
    pub fn look(&mut self, now: Instant, use_: &Use) {
        if *use_ != self.now {
            (self.busy, self.window_limited, self.buffer_limited) = self.times(now);
            (self.now, self.since) = (*use_, now);
        }
    }

    /// Time busy for any reason, time limited by the peer's window, and time limited by the send
    /// buffer.
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
    /// Updates the times after all permitted segments were sent.
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
            && flight.segment_end(flight.snd_nxt) > flight.snd_una + flight.peer.window;
        // Linux checks the congestion window first: if both windows are used up, it is the limiting
        // factor.
        if is_short
            && (flight.outstanding_segments() as f64) < flight.congestion_control.cwnd().floor()
        {
            return Use::WindowLimited;
        }
        let awaits_room = self.host.app.awaits_room && flight.keeps_records();
        match awaits_room.then(|| self.sender.fill()) {
            Some(fill) if fill.unsent == 0 && fill.room > 0 => Use::BufferLimited,
            _ => Use::Busy,
        }
    }
}
