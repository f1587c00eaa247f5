//! The timer wheel of a Linux host: when a timer fires that was set for a given time (`kernel/time/timer.c`; Gleixner,
//! "timers: Switch to a non-cascading wheel", Linux 4.8).
//!
//! ```text
//!   delay, in ticks   fires at
//!        1 ..   62    the next tick after its own
//!       63 ..  503    the next multiple of 8 ticks after its own
//!      504 .. 4031    the next multiple of 64 ticks after its own
//!      ...            eight times as coarse for each eightfold delay
//! ```
//!
//! A delay counts in whole ticks, rounded up, from the last tick. So a timer is never early, and late by a tick at most,
//! or by an eighth of its delay: at 250 ticks a second an RTO of 500 ms lasts 500 to 532 ms.

use lasthop_base::units::{Duration, Instant};

/// Slots of a level less one, and by how many bits each level is coarser than the one below.
const SLOTS: u64 = 63;
const SHIFT: u32 = 3;
/// Levels; the last one holds everything beyond.
const LEVELS: u32 = 9;
/// The wheel of one host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wheel {
    /// Time between two ticks, ns; 0 for timers that fire when they are due.
    tick: u64,
    /// How long before the beginning of the simulation the wheel was at zero, ns.
    phase: u64,
}

impl Wheel {
    /// Ticks after which all of the levels that a connection's timers take (up to 16 s at 250 ticks a second) are where
    /// they were.
    pub const PERIOD: u64 = 1 << (3 * SHIFT);

    /// Ticks every `tick`, or never if that is zero; at the beginning of the simulation it has turned for `phase`.
    pub fn new(tick: Duration, phase: Duration) -> Self {
        Wheel { tick: tick.as_nanos(), phase: phase.as_nanos() }
    }

    /// Phases differ within this time.
    pub fn period(tick: Duration) -> Duration {
        tick * Self::PERIOD
    }

    /// When a timer fires that is set at `now` for `delay` later.
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

    /// Set at so many ms, for so many ms later, on a wheel that was at zero so many ms before the beginning: fires at.
    #[test]
    fn when_timers_fire_by_hand() {
        for (now, delay, phase, fires) in [
            // A delayed ACK: tick 0, ten ticks, and the next.
            (0, 40, 0, 44),
            // 3 ms after a tick the same ticks end sooner.
            (3, 40, 0, 44),
            (3, 40, 1, 47),
            // Part of a tick counts as one.
            (0, 37, 0, 44),
            (0, 0, 0, 8),
            // 62 ticks: still to the tick. 63: to the next multiple of 8 after it, here 64, in 32 ms beyond tick 64.
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

    /// Never early, and late by a tick or an eighth of the delay, and another tick, at most.
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
