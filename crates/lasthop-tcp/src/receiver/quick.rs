//! Quick ACK mode and the delay of delayed ACKs, as in Linux.

use crate::config::Config;
use crate::policy::Policies;
use lasthop_base::units::{Duration, Instant};

/// State of quick ACK mode: the first ACKs of a connection are not delayed unless the application
/// answers the data that it receives. Used only under [`Config::quick_acks`].
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct QuickAcks {
    /// Number of further ACKs that are not delayed.
    pub left: u32,
    /// Whether the connection is interactive, i.e. data flows in both directions, so that an ACK is
    /// likely to be piggybacked (Linux: pingpong mode).
    pub is_interactive: bool,
    /// Time of the latest arrival of data, if any.
    pub data_at: Option<Instant>,
    /// Estimated bytes of the peer's full segments, for a Linux host (`rcv_mss`).
    pub full: Option<u64>,
    /// Bytes of the latest segment shorter than a full one.
    pub short: u64,
    /// 1 if a short segment, or a full one with PSH, has arrived since the latest ACK; 2 if another
    /// short one has followed.
    pub pushes: u8,
    /// Whether the arriving segment has PSH set.
    pub says_push: bool,
    /// Whether an ACK would leave the right edge of the window unchanged. The ACK is then left to a
    /// later read call.
    pub is_edge_fixed: bool,
    /// For a socket: delay of an ACK (Linux: `ato`), once data has arrived.
    pub delay: Duration,
    /// Minimum delay ([`Config::delayed_ack`]).
    pub least: Duration,
    /// For a socket: maximum delay, if set by the application.
    pub longest: Option<Duration>,
    /// For a socket: maximum number of ACKs that are not delayed.
    pub most: u32,
    /// Whether the window may open.
    pub is_opening: bool,
    /// SRTT of the sender.
    pub srtt: Duration,
    /// RTO of the sender.
    pub rto: Duration,
}

impl QuickAcks {
    /// Creates the state before the first segment.
    pub fn of(config: &Config) -> Self {
        let adapts = Policies::of(config.profile).receive.is_linux();
        QuickAcks {
            full: adapts.then_some(DEFAULT_SEGMENT),
            least: config.delayed_ack.unwrap_or(ANSWER_TIME),
            ..QuickAcks::default()
        }
    }

    /// Records that a quick ACK is sent. For a socket, the last one resets the delay to its
    /// minimum.
    #[inline(never)]
    pub fn spend(&mut self) {
        if self.left == 1 && self.full.is_some() {
            self.delay = self.least;
        }
        self.left -= 1;
    }

    /// Enters quick ACK mode for [`Config::quick_acks`] ACKs. For a socket, the maximum is the
    /// number of full segments in half the window.
    pub fn begin(&mut self, config: &Config) {
        let most = if self.full.is_some() { self.most } else { config.quick_acks };
        self.left = self.left.max(config.quick_acks.min(most));
    }

    /// Adapts the delay to the interval between in-order data segments at a socket
    /// (`tcp_event_data_recv`).
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

    /// Returns the delay of the next ACK (`tcp_send_delayed_ack`).
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

    /// Records the arrival of `payload` bytes of data. Returns the size of a full segment, for a
    /// socket.
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

/// Default MSS, bytes, if the peer sends no MSS option (RFC 9293, section 3.7.1).
pub(super) const DEFAULT_SEGMENT: u64 = 536;

/// Linux's `TCP_ATO_MIN`: an answer within this time makes the connection interactive.
pub(super) const ANSWER_TIME: Duration = Duration::from_millis(40);
/// Maximum delay of an ACK. `LONGEST_WAIT` applies if an answer is likely (Linux:
/// `TCP_DELACK_MAX`).
const LONGEST_DELAY: Duration = Duration::from_millis(500);
const LONGEST_WAIT: Duration = Duration::from_millis(200);
