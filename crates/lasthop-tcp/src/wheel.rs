//! The timer wheel of a Linux host: determines the time at which a timer expires
//! (`kernel/time/timer.c`; Gleixner, "timers: Switch to a non-cascading wheel", Linux 4.8).
//!
//! ```text
//!   delay, in ticks   expires at
//!        1 ..   62    the first tick after the delay
//!       63 ..  503    the first multiple of 8 ticks after the delay
//!      504 .. 4031    the first multiple of 64 ticks after the delay
//!      ...            granularity times 8 for each level
//! ```
//!
//! A delay is rounded up to whole ticks and counted from the last tick. A timer is therefore never
//! early, and late by at most one tick or about 1/8 of its delay. At 250 ticks per second an RTO of
//! 500 ms takes 500 to 532 ms.

use lasthop_base::units::{Duration, Instant};

/// Number of slots per level minus one; log2 of the ratio of granularities of adjacent levels.
const SLOTS: u64 = 63;
const SHIFT: u32 = 3;
/// Number of levels; the last one holds all longer delays.
const LEVELS: u32 = 9;
/// Timer wheel of one host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wheel {
    /// Interval between ticks in nanoseconds; 0 for timers that expire at their exact deadline.
    tick: u64,
    /// Time from the wheel's zero to the start of the simulation, in nanoseconds.
    phase: u64,
}

impl Wheel {
    /// Period in ticks of all levels that the timers of a connection use (up to 16 s at 250 ticks
    /// per second).
    pub const PERIOD: u64 = 1 << (3 * SHIFT);

    /// Creates a wheel with a tick every `tick`; without ticks if that is zero. `phase` is the time
    /// from the wheel's zero to the start of the simulation.
    pub fn new(tick: Duration, phase: Duration) -> Self {
        Wheel { tick: tick.as_nanos(), phase: phase.as_nanos() }
    }

    /// Returns the period of the wheel, the upper bound of its phase.
    pub fn period(tick: Duration) -> Duration {
        tick * Self::PERIOD
    }

    /// Returns the expiry time of a timer set at `now` with `delay`.
    #[inline]
    pub fn fires(&self, now: Instant, delay: Duration) -> Instant {
        if self.tick == 0 { now + delay } else { self.fires_at_tick(now, delay) }
    }

    fn fires_at_tick(&self, now: Instant, delay: Duration) -> Instant {
        let last = (now.as_nanos() + self.phase) / self.tick;
        let ticks = delay.as_nanos().div_ceil(self.tick).max(1);
        let mut level = 0;
        while level < LEVELS - 1 && ticks >= SLOTS << (level * SHIFT) {
            level += 1;
        }
        let shift = level * SHIFT;
        let at = (((last + ticks) >> shift) + 1) << shift;
        Instant::from_nanos(at.saturating_mul(self.tick).saturating_sub(self.phase))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TICK: Duration = Duration::from_millis(4);

    fn ms(millis: u64) -> Instant {
        Instant::from_nanos(millis * 1_000_000)
    }

    /// Columns: time at which the timer is set, delay, phase of the wheel, expiry time, all in ms.
    #[test]
    fn when_timers_fire_by_hand() {
        for (now, delay, phase, fires) in [
            // A delayed ACK: tick 0, ten ticks, and one more.
            (0, 40, 0, 44),
            // Set 3 ms after a tick, the timer expires at this tick as well.
            (3, 40, 0, 44),
            (3, 40, 1, 47),
            // Partial ticks are rounded up.
            (0, 37, 0, 44),
            (0, 0, 0, 8),
            // 62 ticks: exact tick. 63 ticks: next multiple of 8 after it, here 64; it expires 32
            // ms after tick 64.
            (0, 248, 0, 252),
            (0, 252, 0, 256),
            (4, 252, 0, 288),
            (0, 500, 0, 512),
            (0, 512, 0, 544),
            // 503 ticks, and 504: multiples of 64.
            (0, 2012, 0, 2016),
            (0, 2016, 0, 2048),
            (0, 2048, 0, 2304),
            (0, 2048, 4, 2300),
        ] {
            let wheel = Wheel::new(TICK, Duration::from_millis(phase));
            let row = (now, delay, phase);
            assert_eq!(wheel.fires(ms(now), Duration::from_millis(delay)), ms(fires), "{row:?}");
        }
    }

    /// Never early, and late by at most two ticks plus 1/7 of the delay.
    #[test]
    fn never_early_and_late_by_an_eighth() {
        for step in 0..4_000u64 {
            let now = Instant::from_nanos(step * 7_777_777);
            let delay = Duration::from_nanos(step * step * 1_001);
            let wheel = Wheel::new(TICK, Duration::from_nanos(step * 515_151));
            let late = wheel.fires(now, delay).saturating_since(now + delay);
            assert!(wheel.fires(now, delay) > now + delay, "{step}");
            assert!(late.as_nanos() <= 8_000_000 + delay.as_nanos() / 7, "{step}: {late:?}");
        }
    }

    #[test]
    fn without_ticks_a_timer_is_exact() {
        let wheel = Wheel::new(Duration::ZERO, Duration::ZERO);
        assert_eq!(wheel.fires(ms(3), Duration::from_millis(5)), ms(8));
    }
}
