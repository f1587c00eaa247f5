//! Time-varying transmission rates, from a list of steps or from recorded delivery opportunities.
//!
//! *Steps*: a rate applies until the next step begins. A frame in transmission at that time
//! continues at the new rate. Bits are integrated in integers (units of 1e-9 bit), so that a frame
//! within one step ends at the same nanosecond as at a constant rate. At a rate of 0 the link is
//! down: the transmitter pauses the frame and resumes it later; nothing is lost.
//!
//! *Opportunities* (the format of mahimahi's link shell: R. Netravali et al., "Mahimahi: Accurate
//! record-and-replay for HTTP", USENIX ATC 2015): a given number of bytes may be sent at each of
//! the recorded times. A frame that needs more takes several opportunities. The frames queued
//! behind a frame may use the rest of its opportunity at the same time; otherwise the rest is lost.
//! A frame takes only opportunities after its arrival. The recording is repeated after its last
//! time.
//!
//! Not modelled: a rate that depends on the data sent.

use lasthop_base::timeline::Timeline;
use lasthop_base::units::{Bytes, ExactTime, Instant, Rate};
use std::sync::Arc;

const SECOND: u128 = 1_000_000_000;

/// A time-varying rate, and the position reached in it.
#[derive(Clone, Debug)]
pub enum RateSchedule {
    /// A list of steps.
    Steps(RateSteps),
    /// Recorded delivery opportunities.
    Opportunities(Opportunities),
}

impl RateSchedule {
    /// Sends a frame of `bits` as soon as possible, neither before `free_at`, the end of the
    /// previous frame, nor before `now`. Returns its start and end.
    pub fn send(&mut self, free_at: ExactTime, now: Instant, bits: u64) -> [ExactTime; 2] {
        let start = if free_at.instant() >= now { free_at } else { now.into() };
        match self {
            RateSchedule::Steps(steps) => [start, steps.end(start, bits)],
            RateSchedule::Opportunities(recorded) => {
                let is_idle = start != free_at;
                [start, recorded.end(start.instant(), is_idle, bits).into()]
            }
        }
    }

    /// Number of bits that can be sent from the start until `until`.
    pub fn capacity(&self, until: Instant) -> f64 {
        match self {
            RateSchedule::Steps(steps) => steps.capacity(until),
            RateSchedule::Opportunities(recorded) => recorded.capacity(until),
        }
    }

    /// Number of bits of accepted frames, the last of which ends at `free_at`, that are not yet
    /// sent at `now`.
    pub fn unsent_bits(&self, now: Instant, free_at: Instant) -> f64 {
        if free_at <= now {
            return 0.0;
        }
        let left = self.capacity(free_at) - self.capacity(now);
        match self {
            RateSchedule::Steps(_) => left,
            RateSchedule::Opportunities(recorded) => {
                // Unused opportunities at `free_at` do not count.
                let unused = recorded.passed(free_at) - recorded.used();
                left - (recorded.left + unused * recorded.size) as f64
            }
        }
    }

    /// The maximum of the rate over time; unlimited for opportunities, several of which may
    /// coincide.
    pub fn fastest(&self) -> Rate {
        match self {
            RateSchedule::Steps(steps) => {
                steps.0.steps().iter().map(|&(_, rate)| rate).max().unwrap_or_default()
            }
            RateSchedule::Opportunities(_) => Rate::UNLIMITED,
        }
    }
}

/// Steps of a rate; the current step is the one that contains the end of the last frame.
#[derive(Clone, Debug)]
pub struct RateSteps(Timeline<Rate>);

impl RateSteps {
    /// Creates the schedule from `steps` (start in nanoseconds and rate), the first of which starts
    /// at 0. The list is repeated after `period`, if any. A rate above 0 must occur in the repeated
    /// part or be the last one.
    pub fn new(steps: Arc<[(u64, Rate)]>, period: Option<u64>) -> Self {
        RateSteps(Timeline::new(steps, period))
    }

    fn end(&mut self, start: ExactTime, bits: u64) -> ExactTime {
        self.0.go_to(start.nanos);
        let mut at = start;
        // In units of 1e-9 bit: the unit of one nanosecond times a rate in bit/s.
        let mut work = u128::from(bits) * SECOND;
        loop {
            let rate = u128::from(self.0.value().as_bps());
            let end = self.0.step_end();
            let done = work + u128::from(at.fraction);
            if rate > 0 && done <= u128::from(end - at.nanos) * rate {
                let nanos = at.nanos + (done / rate) as u64;
                return ExactTime { nanos, fraction: (done % rate) as u64 };
            }
            work = done - u128::from(end - at.nanos) * rate;
            at = Instant::from_nanos(end).into();
            self.0.advance();
        }
    }

    /// Number of bits of the list without repetition, from its start until `until`.
    fn capacity_of_list(&self, until: u64) -> f64 {
        let ends = self.0.steps().iter().skip(1).map(|&(begin, _)| begin).chain([u64::MAX]);
        let steps = self.0.steps().iter().zip(ends);
        let bits = steps.map(|(&(begin, rate), end)| {
            end.min(until).saturating_sub(begin) as f64 / SECOND as f64 * rate.as_bps() as f64
        });
        bits.sum()
    }

    fn capacity(&self, until: Instant) -> f64 {
        let until = until.as_nanos();
        match self.0.period() {
            None => self.capacity_of_list(until),
            Some(period) => {
                let whole = (until / period) as f64 * self.capacity_of_list(period);
                whole + self.capacity_of_list(until % period)
            }
        }
    }
}

/// Recorded delivery opportunities.
#[derive(Clone, Debug)]
pub struct Opportunities {
    /// Times in nanoseconds, ascending. The last one is the period.
    times: Arc<[u64]>,
    /// Bits per opportunity.
    size: u64,
    /// The next opportunity: its index, and the number of completed repetitions.
    index: usize,
    cycle: u64,
    /// Bits left of the last opportunity used.
    left: u64,
}

impl Opportunities {
    /// Creates the schedule from ascending `times`, the last of which must be above 0 and is also
    /// the period. `size` bytes may be sent at each time.
    pub fn new(times: Arc<[u64]>, size: Bytes) -> Self {
        debug_assert!(
            times.last().is_some_and(|&last| last > 0),
            "a recording has a duration above 0"
        );
        Opportunities { times, size: size.bits(), index: 0, cycle: 0, left: 0 }
    }

    fn period(&self) -> u64 {
        self.times[self.times.len() - 1]
    }

    /// Opportunities up to and including `now`.
    fn passed(&self, now: Instant) -> u64 {
        let (cycles, rest) = (now.as_nanos() / self.period(), now.as_nanos() % self.period());
        let count = self.times.len() as u64;
        let passed = |rest| self.times.partition_point(|&time| time <= rest) as u64;
        // The end of a repetition coincides with the start of the next one.
        cycles * count + passed(rest)
    }

    /// Number of opportunities before the next one.
    fn used(&self) -> u64 {
        self.cycle * self.times.len() as u64 + self.index as u64
    }

    fn next(&mut self) -> Instant {
        let at = self.cycle.saturating_mul(self.period()).saturating_add(self.times[self.index]);
        self.index += 1;
        if self.index == self.times.len() {
            (self.index, self.cycle) = (0, self.cycle + 1);
        }
        Instant::from_nanos(at)
    }

    fn end(&mut self, start: Instant, is_idle: bool, bits: u64) -> Instant {
        if is_idle {
            self.left = 0;
            let passed = self.passed(start).max(self.used());
            let count = self.times.len() as u64;
            (self.cycle, self.index) = (passed / count, (passed % count) as usize);
        }
        let used = bits.min(self.left);
        self.left -= used;
        let (mut wanted, mut end) = (bits - used, start);
        while wanted > 0 {
            end = self.next();
            let used = wanted.min(self.size);
            wanted -= used;
            self.left = self.size - used;
        }
        end
    }

    fn capacity(&self, until: Instant) -> f64 {
        (self.passed(until) * self.size) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::queue::Transmitter;
    use proptest::prelude::*;

    const MILLI: u64 = 1_000_000;

    fn steps(steps: &[(u64, u64)], period: Option<u64>) -> RateSchedule {
        let steps = steps.iter().map(|&(at, rate)| (at * MILLI, Rate::from_bps(rate)));
        RateSchedule::Steps(RateSteps::new(steps.collect(), period.map(|at| at * MILLI)))
    }

    fn opportunities(times: &[u64], size: u64) -> RateSchedule {
        let times = times.iter().map(|at| at * MILLI).collect();
        RateSchedule::Opportunities(Opportunities::new(times, Bytes::new(size)))
    }

    /// Sends frames given as (arrival in ms, bytes). Returns the milliseconds at which their
    /// transmission ends.
    fn departures(schedule: RateSchedule, frames: &[(u64, u64)]) -> Vec<f64> {
        let mut transmitter = Transmitter::scheduled(Rate::from_bps(1), schedule);
        let send = |&(at, bytes): &(u64, u64)| {
            let airtime = transmitter.send(Instant::from_nanos(at * MILLI), bytes * 8);
            airtime.end.as_nanos() as f64 / MILLI as f64
        };
        frames.iter().map(send).collect()
    }

    #[test]
    fn a_frame_goes_on_at_the_new_rate() {
        // 1 Mbps for 10 ms, down for 5 ms, 500 kbps; 1250 B are 10 ms at 1 Mbps.
        let list = [(0, 1_000_000), (10, 0), (15, 500_000)];
        assert_eq!(departures(steps(&list, None), &[(0, 1250), (0, 125)]), [10.0, 17.0]);
        assert_eq!(departures(steps(&list, None), &[(5, 1250), (12, 125)]), [25.0, 27.0]);
        // Repeated after 20 ms: 12.5 kbit per repetition.
        let frames = [(0, 1250), (0, 1250), (43, 125), (1_000_007, 500)];
        assert_eq!(departures(steps(&list, Some(20)), &frames), [10.0, 27.5, 44.0, 1_000_017.0]);
        let schedule = steps(&list, Some(20));
        assert_eq!(schedule.capacity(Instant::from_nanos(47 * MILLI)), 32_000.0);
    }

    /// Semantics of mahimahi's link shell: several small packets share an opportunity, a large
    /// packet takes several, and unused opportunities are lost.
    #[test]
    fn opportunities_are_used_to_the_byte() {
        let times = [5, 5, 8, 20];
        // 1500 B per opportunity: two at 5 ms; the second frame uses the rest of the first
        // opportunity.
        let frames = [(0, 1000), (0, 1000), (0, 1000), (0, 1)];
        assert_eq!(departures(opportunities(&times, 1500), &frames), [5.0, 5.0, 5.0, 8.0]);
        // A frame that arrives at an opportunity waits for the next one. The recording repeats
        // after 20 ms.
        let frames = [(5, 1500), (9, 3000), (30, 1500), (45, 100)];
        assert_eq!(departures(opportunities(&times, 1500), &frames), [8.0, 25.0, 40.0, 48.0]);
        // The rest of the opportunity at 8 ms is lost to later arrivals.
        let frames = [(6, 100), (10, 100), (10, 1400), (10, 100)];
        assert_eq!(departures(opportunities(&times, 1500), &frames), [8.0, 20.0, 20.0, 25.0]);
        let schedule = opportunities(&times, 1500);
        assert_eq!(schedule.capacity(Instant::from_nanos(45 * MILLI)), 10.0 * 12_000.0);
    }

    proptest! {
        /// A list of equal rates yields the times of the constant rate, including the fraction.
        #[test]
        fn equal_steps_are_a_constant_rate(
            bps in 1_000u64..10_000_000,
            begins in prop::collection::btree_set(1u64..500, 0..6),
            frames in prop::collection::vec((0u64..40_000_000, 1u64..2_000), 1..60),
        ) {
            let list: Vec<_> = [0].into_iter().chain(begins).map(|at| (at, bps)).collect();
            let rate = Rate::from_bps(bps);
            let mut plain = Transmitter::new(rate);
            // A step may end within a frame, where fractions of a nanosecond are exact as well.
            let mut scheduled = Transmitter::scheduled(rate, steps(&list, Some(600)));
            let mut now = 0;
            for (gap, bytes) in frames {
                now += gap;
                let now = Instant::from_nanos(now);
                prop_assert_eq!(plain.send(now, bytes * 8), scheduled.send(now, bytes * 8));
                prop_assert_eq!(plain.free_at(), scheduled.free_at());
            }
        }

        /// Times do not decrease, and frames take exactly the capacity of the steps.
        #[test]
        fn what_leaves_fits_the_steps(
            rates in prop::collection::vec(0u64..1_000_000, 1..6),
            frames in prop::collection::vec((0u64..30_000_000, 1u64..2_000), 1..60),
        ) {
            let mut list: Vec<_> = rates.iter().enumerate().map(|(at, &rate)| (10 * at as u64, rate)).collect();
            list[0].1 += 1_000;
            let schedule = steps(&list, Some(10 * rates.len() as u64));
            let mut transmitter = Transmitter::scheduled(Rate::from_bps(1), schedule.clone());
            let (mut now, mut last) = (0, Instant::ZERO);
            for (gap, bytes) in frames {
                now += gap;
                let airtime = transmitter.send(Instant::from_nanos(now), bytes * 8);
                prop_assert!(airtime.start >= last && airtime.end >= airtime.start);
                let carried = schedule.capacity(airtime.end) - schedule.capacity(airtime.start);
                // Times are rounded down to whole nanoseconds.
                prop_assert!((carried - (bytes * 8) as f64).abs() < 2e-3, "{carried} {bytes}");
                last = airtime.end;
            }
        }
    }
}
