//! Pacing: when the next segment may leave.
//!
//! A segment of b bytes at a rate of r bytes a second keeps the next one back for b / r. A pause earns no
//! credit, so that segments never leave in a burst. Before the first round-trip time there is no rate,
//! and nothing is paced.

use crate::units::{Duration, Instant};

/// Segments that a Linux host does not pace, its SYN apart; the tenth is followed by a pause.
const UNPACED: u64 = 10;

/// Keeps segments apart.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pacer {
    /// Before this time nothing leaves.
    next: Instant,
}

impl Pacer {
    /// Nothing has left yet.
    pub fn new() -> Self {
        Pacer { next: Instant::ZERO }
    }

    /// When the next segment may leave.
    #[inline]
    pub fn next(&self) -> Instant {
        self.next
    }

    /// `bytes` leave at `now`; `rate` is in bytes a second.
    pub fn on_sent(&mut self, now: Instant, bytes: u64, rate: f64) {
        let wait = Duration::from_nanos((bytes as f64 / rate * 1e9) as u64);
        // What was let through early, as nothing else was outstanding, leaves no debt.
        self.next = now + wait;
    }

    /// A piece of `bytes` leaves at `now` from a Linux host that has sent `segments` with it: the first ten are not
    /// paced, and what leaves late shortens the wait after it, by half at most.
    pub fn on_piece_sent(&mut self, now: Instant, bytes: u64, rate: f64, segments: u64) {
        let late = now.saturating_since(self.next);
        let start = self.next.max(now);
        let wait = (bytes as f64 / rate * 1e9) as u64;
        let wait = wait - (wait / 2).min(late.as_nanos());
        self.next = if segments > UNPACED { start + Duration::from_nanos(wait) } else { start };
    }
}
