//! How late the timers of a kernel are: those of Linux wait in a wheel whose slots are the longer, the
//! further ahead they are.
//!
//! Source: `kernel/time/timer.c` of Linux, "a timer does not fire early": 63 ticks ahead slots are a
//! tick long, from there to 504 ticks eight, and so on.
//!
//! *Not modelled*: where in a slot a timer lies. Each is late by half a slot.

use crate::units::{Duration, Instant};

/// Ticks ahead from which slots are longer, and by which factor.
const FIRST_LEVEL: u64 = 63;
const FACTOR: u64 = 8;
/// Levels of the wheel.
const LEVELS: u32 = 8;

/// A deadline, and when its timer fires.
#[derive(Clone, Copy, Debug)]
pub(super) struct Wheel {
    tick: Duration,
    deadline: Instant,
    late: Duration,
}

impl Wheel {
    /// With `hz` ticks a second.
    pub fn of(hz: u64) -> Self {
        let tick = Duration::from_nanos(1_000_000_000 / hz);
        Wheel { tick, deadline: Instant::NEVER, late: Duration::ZERO }
    }

    /// The next deadline is `deadline`, as seen at `now`.
    pub fn set(&mut self, now: Instant, deadline: Instant) {
        if deadline == self.deadline {
            return;
        }
        self.deadline = deadline;
        self.late = match deadline == Instant::NEVER {
            true => Duration::ZERO,
            false => self.lateness(deadline.max(now) - now),
        };
    }

    /// When the timer of `deadline` fires.
    pub fn fires(&self, deadline: Instant) -> Instant {
        if deadline == self.deadline && deadline != Instant::NEVER {
            return deadline + self.late;
        }
        deadline
    }

    /// Half a slot, of a timer that is set for `ahead`.
    fn lateness(&self, ahead: Duration) -> Duration {
        let tick = self.tick.as_nanos();
        let ticks = ahead.as_nanos() / tick;
        if ticks == 0 {
            return Duration::ZERO;
        }
        let level = (0..LEVELS - 1).find(|&level| ticks < FIRST_LEVEL * FACTOR.pow(level));
        Duration::from_nanos(tick * FACTOR.pow(level.unwrap_or(LEVELS - 1)) / 2 + tick / 2)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn longer_timers_are_later() {
        let mut wheel = Wheel::of(250);
        for (ahead, late) in [(1, 0), (200, 4), (251, 4), (252, 18), (1000, 18), (2016, 130)] {
            let deadline = Instant::ZERO + Duration::from_millis(ahead);
            wheel.set(Instant::ZERO, deadline);
            assert_eq!(wheel.fires(deadline), deadline + Duration::from_millis(late), "{ahead} ms");
        }
        wheel.set(Instant::ZERO, Instant::NEVER);
        assert_eq!(wheel.fires(Instant::NEVER), Instant::NEVER);
    }
}
