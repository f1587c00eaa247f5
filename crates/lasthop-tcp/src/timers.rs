//! The timers of a connection, in a fixed table indexed by an enum.

use super::wheel::Wheel;
use lasthop_base::units::{Duration, Instant};

/// Timer of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Timer {
    /// The retransmission timeout of the oldest segment (RFC 6298).
    Retransmission,
    /// The time at which pacing allows the next segment.
    Pacing,
    /// The time at which a delayed ACK must be sent.
    DelayedAck,
    /// The time at which segments are declared lost after reordering was tolerated (RFC 8985,
    /// section 6.3).
    Reordering,
    /// The time of the tail loss probe (RFC 8985, section 7).
    TailProbe,
    /// The time of the next probe of a window too small for the next segment (RFC 9293, section
    /// 3.8.6.1).
    Persist,
    /// The end of TIME-WAIT, or of FIN-WAIT-2 once the application has closed.
    Linger,
    /// The probe of an idle peer (RFC 9293, section 3.8.4).
    KeepAlive,
    /// The user timeout (RFC 5482).
    User,
}

const TIMERS: usize = Timer::User as usize + 1;

/// Deadlines of the timers; [`Instant::NEVER`] for a stopped timer.
#[derive(Clone, Copy, Debug)]
pub(super) struct Timers {
    deadlines: [Instant; TIMERS],
    /// Earliest deadline, excluding the retransmission timer, which each ACK restarts.
    others: Instant,
    wheel: Wheel,
}

impl Timers {
    /// Creates the table with all timers stopped. The host's timers expire at the ticks of `wheel`.
    pub fn new(wheel: Wheel) -> Self {
        Timers { deadlines: [Instant::NEVER; TIMERS], others: Instant::NEVER, wheel }
    }

    /// Starts a timer of the host, which expires at the first tick of the wheel at least `delay`
    /// after `now`.
    #[inline]
    pub fn start(&mut self, timer: Timer, now: Instant, delay: Duration) {
        self.set(timer, self.wheel.fires(now, delay));
    }

    /// Starts a timer, or changes its deadline, with nanosecond resolution.
    #[inline]
    pub fn set(&mut self, timer: Timer, deadline: Instant) {
        let before = std::mem::replace(&mut self.deadlines[timer as usize], deadline);
        if timer == Timer::Retransmission || before == deadline {
            return;
        }
        if before == self.others {
            self.find_earliest();
        } else {
            self.others = self.others.min(deadline);
        }
    }

    /// Updates the earliest deadline.
    fn find_earliest(&mut self) {
        let [_, others @ ..] = self.deadlines;
        self.others = others.into_iter().fold(Instant::NEVER, Instant::min);
    }

    /// Stops a timer.
    #[inline]
    pub fn stop(&mut self, timer: Timer) {
        self.set(timer, Instant::NEVER);
    }

    /// Stops all timers.
    pub fn stop_all(&mut self) {
        *self = Timers::new(self.wheel);
    }

    /// Returns the deadline of `timer`, or [`Instant::NEVER`].
    pub fn deadline(&self, timer: Timer) -> Instant {
        self.deadlines[timer as usize]
    }

    /// Returns `true` if `timer` is running.
    #[inline]
    pub fn is_running(&self, timer: Timer) -> bool {
        self.deadlines[timer as usize] != Instant::NEVER
    }

    /// Returns `true` if `timer` is running and its deadline has been reached.
    #[inline]
    pub fn is_due(&self, timer: Timer, now: Instant) -> bool {
        now >= self.deadlines[timer as usize] && self.is_running(timer)
    }

    /// Returns the earliest deadline, or [`Instant::NEVER`].
    #[inline]
    pub fn next(&self) -> Instant {
        self.deadlines[Timer::Retransmission as usize].min(self.others)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A driver without deadlines may advance its clock to [`Instant::NEVER`].
    #[test]
    fn a_timer_that_does_not_run_is_never_due() {
        let mut timers = Timers::new(Wheel::new(Duration::ZERO, Duration::ZERO));
        assert!(!timers.is_due(Timer::Retransmission, Instant::NEVER));
        timers.start(Timer::Retransmission, Instant::ZERO, Duration::from_secs(1));
        assert!(timers.is_due(Timer::Retransmission, Instant::NEVER));
    }

    /// The cached earliest deadline equals the minimum of the table after any sequence of starts,
    /// changes and stops.
    #[test]
    fn the_earliest_deadline_is_kept() {
        let all = [Timer::Retransmission, Timer::Pacing, Timer::Persist, Timer::User];
        let mut timers = Timers::new(Wheel::new(Duration::ZERO, Duration::ZERO));
        let mut state = 1_u64;
        for _ in 0..10_000 {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let timer = all[(state >> 60) as usize % all.len()];
            match (state >> 40) % 4 {
                0 => timers.stop(timer),
                _ => timers.set(timer, Instant::from_nanos((state >> 50) % 8)),
            }
            let earliest = all.into_iter().map(|timer| timers.deadline(timer)).min();
            assert_eq!(Some(timers.next()), earliest);
        }
    }
}
