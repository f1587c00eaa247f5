//! The timers of a kernel, as late as it has them (`--timer_hz`).

use lasthop_base::units::{Duration, Instant};
use lasthop_tcp::Wheel;

/// The next deadline of a connection, and when its timer fires.
#[derive(Clone, Copy, Debug)]
pub(super) struct LateTimers {
    wheel: Wheel,
    deadline: Instant,
    fires: Instant,
}

impl LateTimers {
    /// With `hz` ticks a second, of which there were `phase` before the script.
    pub fn of(hz: u64, phase: u64) -> Self {
        let tick = Duration::from_nanos(1_000_000_000 / hz);
        let wheel = Wheel::new(tick, tick * (phase % Wheel::PERIOD));
        LateTimers { wheel, deadline: Instant::NEVER, fires: Instant::NEVER }
    }

    /// The next deadline is `deadline`, as seen at `now`: one that is new is set now.
    pub fn set(&mut self, now: Instant, deadline: Instant) {
        if deadline != self.deadline {
            let is_late = deadline != Instant::NEVER && deadline > now;
            let fires = || self.wheel.fires(now, deadline - now);
            (self.deadline, self.fires) = (deadline, if is_late { fires() } else { deadline });
        }
    }

    /// When the timer of `deadline` fires.
    pub fn fires(&self, deadline: Instant) -> Instant {
        if deadline == self.deadline { self.fires } else { deadline }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_timer_fires_with_its_slot() {
        let at = |millis| Instant::ZERO + Duration::from_millis(millis);
        let mut timers = LateTimers::of(250, 1);
        for (now, deadline, fires) in [(0, 200, 204), (0, 252, 284), (300, 300, 300)] {
            timers.set(at(now), at(deadline));
            assert_eq!(timers.fires(at(deadline)), at(fires));
        }
        timers.set(at(400), Instant::NEVER);
        assert_eq!(timers.fires(Instant::NEVER), Instant::NEVER);
    }
}
