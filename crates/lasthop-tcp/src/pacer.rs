//! Pacing: the time at which the next segment may be sent.
//!
//! At a rate of r bytes per second, a segment of b bytes delays the next one by b / r. An idle
//! period earns no credit, so that segments are never sent in a burst. Before the first RTT sample
//! there is no rate, and segments are not paced.

use lasthop_base::units::{Duration, Instant};

/// Number of segments that a Linux host sends without pacing, excluding its SYN; the tenth is
/// followed by a delay.
const UNPACED: u64 = 10;

/// Pacing state. Caches computed rates and delays: they change seldom, and divisions are expensive.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pacer {
    /// Earliest transmission time of the next segment.
    next: Instant,
    /// Maximum pacing rate in bytes per second.
    most: f64,
    least: Least,
    pause: Pause,
}

/// Rate of one segment of `segment` bytes per RTT, in bytes per second.
#[derive(Clone, Copy, Debug)]
struct Least {
    segment: u64,
    srtt: Duration,
    rate: f64,
}

/// Transmission time of `bytes` at `rate` bytes per second, in nanoseconds.
#[derive(Clone, Copy, Debug)]
struct Pause {
    bytes: u64,
    rate: f64,
    nanos: u64,
}

impl Pacer {
    /// Creates the state before the first transmission.
    pub fn new() -> Self {
        Pacer {
            next: Instant::ZERO,
            most: f64::INFINITY,
            least: Least { segment: 0, srtt: Duration::ZERO, rate: 0.0 },
            pause: Pause { bytes: 0, rate: 0.0, nanos: 0 },
        }
    }

    /// Returns the earliest transmission time of the next segment.
    #[inline]
    pub fn next(&self) -> Instant {
        self.next
    }

    /// Limits the pacing rate to `rate`, in bytes per second.
    pub fn limit(&mut self, rate: f64) {
        self.most = rate;
    }

    /// Returns the maximum pacing rate in bytes per second.
    #[inline]
    pub fn most(&self) -> f64 {
        self.most
    }

    /// Returns the rate of one segment of `segment` bytes per RTT, in bytes per second.
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

    /// Records that `bytes` were sent at `now`; `rate` is in bytes per second.
    #[inline]
    pub fn on_sent(&mut self, now: Instant, bytes: u64, rate: f64) {
        // A segment sent early because no data was outstanding does not delay later ones further.
        self.next = now + Duration::from_nanos(self.pause(bytes, rate));
    }

    /// Records that a Linux host sent a GSO segment of `bytes` at `now`, and `segments` in total.
    /// The first ten segments are not paced. A late transmission shortens the delay after it, at
    /// most by half.
    pub fn on_piece_sent(&mut self, now: Instant, bytes: u64, rate: f64, segments: u64) {
        let late = now.saturating_since(self.next);
        let start = self.next.max(now);
        let wait = self.pause(bytes, rate);
        let wait = wait - (wait / 2).min(late.as_nanos());
        self.next = if segments > UNPACED { start + Duration::from_nanos(wait) } else { start };
    }
}
