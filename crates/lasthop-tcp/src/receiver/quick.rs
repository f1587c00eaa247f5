//! Which ACKs are not delayed, and for how long the others are, as in Linux.

use crate::config::{Config, Conventions};
use lasthop_base::units::{Duration, Instant};

/// Linux's ACKs at the start of a connection: the first are not delayed, unless the application
/// answers what it gets. Only under [`Config::quick_acks`].
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct QuickAcks {
    /// ACKs that will not be delayed.
    pub left: u32,
    /// Data flow both ways (Linux: pingpong): an ACK is likely to ride on an answer.
    pub is_interactive: bool,
    /// When data arrived last, once any did.
    pub data_at: Option<Instant>,
    /// Bytes of the peer's full segments, as far as they tell, of a Linux host (`rcv_mss`).
    pub full: Option<u64>,
    /// Bytes of the latest shorter one.
    pub short: u64,
    /// A short segment has come since the latest ACK, or a full one that says PSH; and another short one after it.
    pub pushes: u8,
    /// Does the segment that arrives say PSH?
    pub says_push: bool,
    /// An ACK would not move the right edge of the window: who reads late is to send it.
    pub is_edge_fixed: bool,
    /// Of a socket: how long an ACK is delayed (Linux: `ato`), once data have come.
    pub delay: Duration,
    /// The least that it is ([`Config::delayed_ack`]).
    pub least: Duration,
    /// The same: the most that it is delayed, if the application has set that.
    pub longest: Option<Duration>,
    /// The same: most ACKs that are not delayed, whether the window may open, and the times of the sender.
    pub most: u32,
    pub is_opening: bool,
    pub srtt: Duration,
    pub rto: Duration,
}

impl QuickAcks {
    /// Before anything has arrived.
    pub fn of(config: &Config) -> Self {
        let is_linux = config.conventions == Conventions::Linux;
        QuickAcks {
            full: is_linux.then_some(DEFAULT_SEGMENT),
            least: config.delayed_ack.unwrap_or(ANSWER_TIME),
            ..QuickAcks::default()
        }
    }

    /// One of them leaves. Of a socket the delay begins anew with the last one.
    #[inline(never)]
    pub fn spend(&mut self) {
        if self.left == 1 && self.full.is_some() {
            self.delay = self.least;
        }
        self.left -= 1;
    }

    /// ACKs are quick for a while: as many as half of the window has full segments.
    pub fn begin(&mut self, config: &Config) {
        let most = if self.full.is_some() { self.most } else { config.quick_acks };
        self.left = self.left.max(config.quick_acks.min(most));
    }

    /// Data have come in order at a socket: the delay follows the time between them (`tcp_event_data_recv`).
    pub fn follow(&mut self, config: &Config, since: Option<Duration>) {
        let Some(since) = since.filter(|_| self.delay > Duration::ZERO) else {
            self.begin(config);
            self.delay = self.least;
            return;
        };
        let half = Duration::from_nanos(self.delay.as_nanos() / 2);
        if since <= Duration::from_nanos(self.least.as_nanos() / 2) {
            self.delay = half + Duration::from_nanos(self.least.as_nanos() / 2);
        } else if since < self.delay {
            self.delay = (half + since).min(self.rto);
        } else if since > self.rto {
            self.begin(config);
        }
    }

    /// How long the next ACK is delayed (`tcp_send_delayed_ack`).
    pub fn wait(&self) -> Duration {
        let mut delay = self.delay;
        if delay > self.least {
            let is_short = self.is_interactive || self.pushes > 0;
            let mut most = if is_short { LONGEST_WAIT } else { LONGEST_DELAY };
            if self.srtt > Duration::ZERO {
                most = most.min(self.srtt.max(self.least));
            }
            delay = delay.min(most);
        }
        delay.min(self.longest.unwrap_or(LONGEST_WAIT.max(self.least)))
    }

    /// Data of so many bytes arrive. Returns the size of a full segment, of a socket.
    pub fn take_size(&mut self, payload: u64) -> Option<u64> {
        let full = self.full.as_mut()?;
        if payload >= *full {
            *full = payload;
            self.pushes = self.pushes.max(self.says_push.into());
        } else if payload > 0 {
            if payload == self.short && payload >= DEFAULT_SEGMENT {
                *full = payload;
            }
            self.short = payload;
            self.pushes = if self.pushes > 0 { 2 } else { 1 };
        }
        Some(*full)
    }
}

/// Payload bytes of a segment of who names none (RFC 9293, section 3.7.1).
pub(super) const DEFAULT_SEGMENT: u64 = 536;

/// Linux's `TCP_ATO_MIN`: an answer within this time makes a connection interactive.
pub(super) const ANSWER_TIME: Duration = Duration::from_millis(40);
/// An ACK is delayed for so long at most, and for less where an answer is likely (Linux: `TCP_DELACK_MAX`).
const LONGEST_DELAY: Duration = Duration::from_millis(500);
const LONGEST_WAIT: Duration = Duration::from_millis(200);
