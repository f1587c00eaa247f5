//! Pacing: when the next segment may leave.
//!
//! A segment of b bytes at a rate of r bytes a second keeps the next one back for b / r. A pause earns no
//! credit, so that segments never leave in a burst. Before the first round-trip time there is no rate,
//! and nothing is paced.

use lasthop_base::units::{Duration, Instant};

/// Segments that a Linux host does not pace, its SYN apart; the tenth is followed by a pause.
const UNPACED: u64 = 10;

/// Keeps segments apart. Rates and pauses that it has computed it keeps: they change seldom, and divisions cost.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pacer {
    /// Before this time nothing leaves.
    next: Instant,
    /// The greatest rate, bytes a second.
    most: f64,
    least: Least,
    pause: Pause,
}

/// The rate of `segment` bytes in a round trip, bytes a second.
#[derive(Clone, Copy, Debug)]
struct Least {
    segment: u64,
    srtt: Duration,
    rate: f64,
}

/// How long `bytes` take at `rate` bytes a second, ns.
#[derive(Clone, Copy, Debug)]
struct Pause {
    bytes: u64,
    rate: f64,
    nanos: u64,
}

impl Pacer {
    /// Nothing has left yet.
    pub fn new() -> Self {
        Pacer {
            next: Instant::ZERO,
            most: f64::INFINITY,
            least: Least { segment: 0, srtt: Duration::ZERO, rate: 0.0 },
            pause: Pause { bytes: 0, rate: 0.0, nanos: 0 },
        }
    }

    /// When the next segment may leave.
    #[inline]
    pub fn next(&self) -> Instant {
        self.next
    }

    /// No rate is greater than `rate`, bytes a second, from now on.
    pub fn limit(&mut self, rate: f64) {
        self.most = rate;
    }

    /// The greatest rate.
    #[inline]
    pub fn most(&self) -> f64 {
        self.most
    }

    /// The rate of a segment of so many bytes in a round trip, bytes a second.
    #[inline]
    pub fn least(&mut self, segment: u64, srtt: Duration) -> f64 {
        if (self.least.segment, self.least.srtt) != (segment, srtt) {
            self.least = Least { segment, srtt, rate: segment as f64 / srtt.as_secs_f64() };
        }
        self.least.rate
    }

    #[inline]
    fn pause(&mut self, bytes: u64, rate: f64) -> u64 {
        if (self.pause.bytes, self.pause.rate) != (bytes, rate) {
            self.pause = Pause { bytes, rate, nanos: (bytes as f64 / rate * 1e9) as u64 };
        }
        self.pause.nanos
    }

    /// `bytes` leave at `now`; `rate` is in bytes a second.
    #[inline]
    pub fn on_sent(&mut self, now: Instant, bytes: u64, rate: f64) {
        // What was let through early, as nothing else was outstanding, leaves no debt.
        self.next = now + Duration::from_nanos(self.pause(bytes, rate));
    }

    /// A piece of `bytes` leaves at `now` from a Linux host that has sent `segments` with it: the first ten are not
    /// paced, and what leaves late shortens the wait after it, by half at most.
    pub fn on_piece_sent(&mut self, now: Instant, bytes: u64, rate: f64, segments: u64) {
        let late = now.saturating_since(self.next);
        let start = self.next.max(now);
        let wait = self.pause(bytes, rate);
        let wait = wait - (wait / 2).min(late.as_nanos());
        self.next = if segments > UNPACED { start + Duration::from_nanos(wait) } else { start };
    }
}
