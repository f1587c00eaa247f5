//! Times in which a sender had data to send, by the factor that limited it.
//!
//! The factor can change at inputs (ACK, timeout) and at transmissions. A change at a transmission is
//! attributed to the time of the latest input. Linux measures the same times (`tcp_chrono_start`; `tcpi_busy_time`, `tcpi_rwnd_limited`,
//! `tcpi_sndbuf_limited` of `tcp_info`). The handshake and times without unacknowledged data are not
//! measured.
//!
//! An algorithm that reads delivery rates (BBR) does not fill a window that limits it: its rate and its window follow
//! the rate measured at this limit. [`Usage::bounded_by`] therefore charges its congestion control to the receive
//! window or the send buffer until the data sent when this was the limit is acknowledged. The kernel does not.
//!
//! *Not modelled*: send calls of a simulated application between two inputs. The time before such a
//! call is charged to the factor after it.

use crate::congestion_control::CongestionControl;
use crate::flight::Flight;
use lasthop_base::units::{Duration, Instant};

/// Factor that limits a sender with unacknowledged data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limit {
    /// Written data waits for congestion control: the congestion window, loss recovery or pacing.
    /// Losses after all data was sent are included.
    CongestionWindow,
    /// Written data waits for the peer's window, which is smaller than the congestion window.
    ReceiveWindow,
    /// All written data was sent, the windows have room, and the application waits for room in the
    /// send buffer.
    SendBuffer,
    /// All written data was sent, and the application does not wait.
    Application,
}

impl Limit {
    /// All factors.
    pub const ALL: [Limit; 4] =
        [Limit::CongestionWindow, Limit::ReceiveWindow, Limit::SendBuffer, Limit::Application];
}

/// Total times so far, and the current factor.
#[derive(Clone, Copy, Debug, Default)]
pub struct Usage {
    times: [Duration; 4],
    /// Parts of the time of the congestion window, by the limit at which its rate was measured.
    measured_at: [Duration; 4],
    current: Option<Limit>,
    /// The limit at which a delivery rate was measured that now limits the sender.
    bound: Option<Limit>,
    /// The latest limit that was the receive window or the send buffer, and one past the highest byte sent then.
    latest: Option<(Limit, u64)>,
    /// Time of the latest input.
    now: Instant,
    /// Time from which `current` applies.
    since: Instant,
    /// Number of losses declared until then.
    losses: u64,
    /// Whether the congestion window is larger than the peer's window.
    is_window_larger: bool,
}

impl Usage {
    /// Records an input at `now`.
    #[inline(always)]
    pub(crate) fn at(&mut self, now: Instant) {
        self.now = now;
    }

    /// Starts to measure at `now`, at the end of the handshake or when data is sent after an idle
    /// period, unless that has happened.
    #[inline]
    pub(crate) fn begin(&mut self, now: Instant) {
        self.now = now;
        if self.current.is_none() {
            self.since = now;
            let is_peer = self.is_window_larger;
            self.current =
                Some(if is_peer { Limit::ReceiveWindow } else { Limit::CongestionWindow });
        }
    }

    /// Records the factor from the latest input onwards; `losses`: losses declared so far.
    #[inline]
    pub(crate) fn set(&mut self, limit: Option<Limit>, losses: u64) {
        self.set_bound(limit, None, losses);
    }

    /// Like [`Self::set`]; `bound`: the limit at which a delivery rate was measured that now limits the sender.
    #[inline]
    fn set_bound(&mut self, limit: Option<Limit>, bound: Option<Limit>, losses: u64) {
        if (limit, bound) != (self.current, self.bound) {
            self.charge(self.now, losses);
            (self.current, self.bound, self.losses) = (limit, bound, losses);
        }
    }

    /// Charges the time up to `now`. If data was lost after all had been sent, the application was
    /// not the limit.
    fn charge(&mut self, now: Instant, losses: u64) {
        if let Some(limit) = self.current {
            let is_lost = limit == Limit::Application && losses > self.losses;
            let limit = if is_lost { Limit::CongestionWindow } else { limit };
            let time = &mut self.times[limit as usize];
            *time = *time + (now - self.since);
            if let Some(bound) = self.bound {
                let time = &mut self.measured_at[bound as usize];
                *time = *time + (now - self.since);
            }
        }
        self.since = now;
    }

    /// Time charged to `limit`.
    pub fn limited_by(&self, limit: Limit) -> Duration {
        self.times[limit as usize]
    }

    /// Time charged to `limit`, with congestion control charged to the limit at which its rate was measured.
    pub fn bounded_by(&self, limit: Limit) -> Duration {
        let [time, measured_at] = [self.times, self.measured_at].map(|times| times[limit as usize]);
        if limit == Limit::CongestionWindow {
            let all: u64 = self.measured_at.iter().map(|measured_at| measured_at.as_nanos()).sum();
            return Duration::from_nanos(time.as_nanos() - all);
        }
        time + measured_at
    }

    /// Time in which data was unacknowledged.
    pub fn busy(&self) -> Duration {
        self.times.iter().fold(Duration::ZERO, |sum, &time| sum + time)
    }
}

impl Flight {
    /// Records an input at `now`, before it is processed.
    #[inline(always)]
    pub(crate) fn on_input(&mut self, now: Instant) {
        if self.output.pacer.is_some() {
            self.look_before_input(self.has_waiting());
        }
        self.usage.at(now);
    }

    /// Checks the factor again if the larger one of the windows has changed.
    #[inline(always)]
    pub(crate) fn compare_windows(&mut self, window: u64) {
        let is_larger = window > self.peer.window;
        if is_larger != self.usage.is_window_larger {
            self.usage.is_window_larger = is_larger;
            self.look_at_limit();
        }
    }

    /// Records that all written data has been sent.
    pub(crate) fn note_all_sent(&mut self) {
        if self.has_waiting() {
            self.look_at_limit();
        } else if self.snd_una > 0 {
            self.usage.set(Some(Limit::Application), self.counters.losses_declared);
        }
    }

    /// Records the acknowledgment of a send call or of the SYN.
    pub(crate) fn note_write_acked(&mut self) {
        if self.snd_una == self.write_end {
            self.usage.set(None, self.counters.losses_declared);
        } else {
            // Data waited for the end of the handshake; otherwise, the factor is unchanged.
            self.usage.begin(self.usage.now);
        }
    }

    /// Checks the factor.
    #[inline(never)]
    pub(crate) fn look_at_limit(&mut self) {
        let limit = self.limit(self.has_waiting(), false);
        self.note_limit(limit);
    }

    /// Checks the factor before an input, of a sender that does not always send all data that the
    /// windows permit. `awaits_room`: whether the application waits for room in the send buffer.
    #[cold]
    pub(crate) fn look_before_input(&mut self, awaits_room: bool) {
        let limit = self.limit(awaits_room, true);
        self.note_limit(limit);
    }

    /// Records a factor.
    fn note_limit(&mut self, limit: Option<Limit>) {
        if let Some(latest @ (Limit::ReceiveWindow | Limit::SendBuffer)) = limit {
            self.usage.latest = Some((latest, self.snd_max));
        }
        self.usage.set_bound(limit, self.bound(limit), self.counters.losses_declared);
    }

    /// Returns the limit at which a delivery rate was measured that now limits the sender.
    #[inline]
    fn bound(&self, limit: Option<Limit>) -> Option<Limit> {
        // The rarest condition first: this is called for every ACK.
        let (latest, end) = self.usage.latest?;
        let follows_rate = self.snd_una < end
            && limit == Some(Limit::CongestionWindow)
            && self.config.congestion_control.reads_rates();
        follows_rate.then_some(latest)
    }

    /// Times up to the latest input.
    pub(crate) fn usage(&self) -> Usage {
        let mut usage = self.usage;
        usage.charge(usage.now, self.counters.losses_declared);
        usage
    }

    /// Times up to `now`, like [`Self::look_before_input`].
    pub(crate) fn usage_at(&self, now: Instant, awaits_room: bool) -> Usage {
        let (limit, losses) = (self.limit(awaits_room, true), self.counters.losses_declared);
        let mut usage = self.usage;
        usage.set_bound(limit, self.bound(limit), losses);
        usage.charge(now, losses);
        usage
    }

    /// The current factor; `None` during the handshake and without unacknowledged data.
    /// `was_polled`: whether all permitted data has been sent.
    fn limit(&self, awaits_room: bool, was_polled: bool) -> Option<Limit> {
        if self.snd_una == self.write_end || self.snd_una == 0 {
            return None;
        }
        let window = self.congestion_control.window();
        // Linux checks the congestion window first: if both windows are equal, it is the limit.
        let is_peer = window > self.peer.window && !(was_polled && self.fits_window());
        let has_room = self.snd_max - self.snd_una + self.mss <= window;
        Some(match (self.snd_max < self.write_end, awaits_room) {
            (true, _) if is_peer => Limit::ReceiveWindow,
            (false, true) if has_room => Limit::SendBuffer,
            (false, false) => Limit::Application,
            _ => Limit::CongestionWindow,
        })
    }
}
