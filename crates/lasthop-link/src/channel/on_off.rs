//! Disruptions: the link is alternately up and down, and a frame sent during a down time is lost.
//!
//! ```text
//!          ends after up
//!   +----+ ------------> +------+
//!   | up |               | down |
//!   +----+ <------------ +------+
//!          ends after down
//! ```
//!
//! Each time is constant, uniform, exponential or Pareto. The process begins with an up time: with
//! `up = "30 s"` and `down = "2 s"`, the first disruption begins at 30 s. A frame is lost if any
//! part of its air time is in a down time, unless it starts before `after`. Up and down times use
//! the stream `sojourns`, a random phase the stream `phase`; no random numbers are used per frame.
//! Long-run loss of short frames: down / (up + down).
//!
//! Not modelled: a sender that detects that the link is down; it continues to send.

use super::{Airtime, ChannelError, ErrorKeys, ErrorProcess, all_units, one_by_one};
use lasthop_base::rng::{DurationDistribution, Stream, Streams};
use lasthop_base::schema::keys::{Limits, table};
use lasthop_base::units::{Duration, Instant};

table! {
    /// The link is alternately up and down, beginning with an up time. A frame is lost if any part
    /// of its air time is in a down time.
    pub struct OnOffKeys as "on-off" {
        /// Distribution of the up times: constant, uniform, exponential with a mean, or Pareto with
        /// a mean and a shape.
        up: DurationDistribution, Limits::POSITIVE;
        /// Distribution of the down times.
        down: DurationDistribution, Limits::POSITIVE;
        /// Time before which no frame is lost.
        after: Duration = "0 s";
        /// Whether the process starts at a random phase of the first cycle of mean up and down
        /// time, different in each replication. Otherwise it starts with a whole up time.
        random_phase: bool = "false";
    }
}

impl ErrorKeys for OnOffKeys {
    type Process = OnOff;

    fn build(&self, streams: &Streams, component: &str) -> Result<OnOff, ChannelError> {
        for (state, law) in [("up", self.up), ("down", self.down)] {
            if law.mean() == Duration::ZERO {
                return Err(ChannelError::NoSojourn { state });
            }
        }
        let mut process = OnOff::new(self.up, self.down, streams, component).after(self.after);
        if self.random_phase {
            process.skip_part_of_cycle(streams, component);
        }
        Ok(process)
    }
}

/// Error process with alternating up and down times.
///
/// ```
/// use lasthop_base::rng::{DurationDistribution, Streams};
/// use lasthop_base::units::{Duration, Instant};
/// use lasthop_link::channel::{Airtime, ErrorProcess, OnOff};
///
/// // 90 ms up and 10 ms down in turn.
/// let [up, down] = [90, 10].map(|ms| DurationDistribution::Constant(Duration::from_millis(ms)));
/// let mut process = OnOff::new(up, down, &Streams { seed: 1, replication: 0 }, "link.a");
/// let frame = |index: u64| {
///     let start = Instant::ZERO + Duration::from_millis(1) * index;
///     Airtime { start, end: start + Duration::from_millis(1), bits: 8_000 }
/// };
/// assert!(!process.is_lost(frame(50)));
/// assert!(process.is_lost(frame(95)));
/// assert!(!process.is_lost(frame(110)));
/// ```
#[derive(Clone, Debug)]
pub struct OnOff {
    /// Distributions of the up and down times.
    laws: [DurationDistribution; 2],
    is_down: bool,
    /// End of the current up or down time.
    until: Instant,
    sojourns: Stream,
    /// Time before which no frame is lost.
    after: Instant,
}

impl OnOff {
    /// Starts with an up time at time 0. Both means must be above 0. Times come from the stream
    /// `sojourns` of `component`.
    pub fn new(
        up: DurationDistribution,
        down: DurationDistribution,
        streams: &Streams,
        component: &str,
    ) -> Self {
        let sojourns = streams.stream(component, "sojourns");
        let (laws, until) = ([up, down], Instant::ZERO);
        let mut process = OnOff { laws, is_down: false, until, sojourns, after: Instant::ZERO };
        process.draw();
        process
    }

    /// Sets the time before which no frame is lost.
    pub fn after(self, start: Duration) -> Self {
        OnOff { after: Instant::ZERO + start, ..self }
    }

    /// Skips a uniformly distributed time between 0 and the mean cycle.
    fn skip_part_of_cycle(&mut self, streams: &Streams, component: &str) {
        let cycle = self.laws.iter().map(|law| law.mean().as_nanos()).fold(0, u64::saturating_add);
        let skipped = (streams.stream(component, "phase").uniform() * cycle as f64) as u64;
        self.catch_up(Instant::from_nanos(skipped));
        self.until = Instant::from_nanos(self.until.as_nanos().saturating_sub(skipped));
    }

    fn draw(&mut self) {
        let time = self.laws[usize::from(self.is_down)].sample(&mut self.sojourns);
        // Saturates: a mean of centuries must not wrap around.
        self.until = Instant::from_nanos(self.until.as_nanos().saturating_add(time.as_nanos()));
    }
}

impl ErrorProcess for OnOff {
    fn is_lost(&mut self, airtime: Airtime) -> bool {
        self.catch_up(airtime.start);
        (self.is_down || self.until < airtime.end) && airtime.start >= self.after
    }

    fn lost_units(&mut self, airtime: Airtime, units: u8) -> u64 {
        self.catch_up(airtime.start);
        // Fast path: usually the frame lies within one up or down time.
        match self.until >= airtime.end {
            true if self.is_down && airtime.start >= self.after => all_units(units),
            true => 0,
            false => one_by_one(airtime, units, |airtime| self.is_lost(airtime)),
        }
    }

    fn catch_up(&mut self, now: Instant) {
        while self.until <= now && self.until != Instant::NEVER {
            self.is_down = !self.is_down;
            self.draw();
        }
    }

    fn replay_rate(&self) -> f64 {
        let means = self.laws.map(|law| law.mean().as_secs_f64());
        2.0 / (means[0] + means[1])
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::*;
    use super::*;

    fn millis(millis: u64) -> Instant {
        Instant::ZERO + Duration::from_millis(millis)
    }

    #[test]
    fn a_frame_that_meets_a_down_time_is_lost() {
        let [up, down] =
            [30, 20].map(|time| DurationDistribution::Constant(Duration::from_millis(time)));
        let mut process = OnOff::new(up, down, &STREAMS, "link");
        for (start, end, expected) in FRAMES_BETWEEN_DOWN_TIMES {
            let airtime = Airtime { start: millis(start), end: millis(end), bits: 8 };
            assert_eq!(process.is_lost(airtime), expected, "{start} to {end} ms");
        }
    }

    #[test]
    fn nothing_is_lost_before_its_time() {
        let [up, down] =
            [30, 20].map(|time| DurationDistribution::Constant(Duration::from_millis(time)));
        let process = OnOff::new(up, down, &STREAMS, "link");
        let mut process = process.after(Duration::from_millis(90));
        for (start, expected) in [(40, false), (89, false), (90, true), (110, false), (130, true)] {
            let airtime = Airtime { start: millis(start), end: millis(start + 1), bits: 8 };
            assert_eq!(process.is_lost(airtime), expected, "{start} ms");
        }
    }

    #[test]
    fn a_random_phase_is_uniform_over_the_cycle() {
        // Down at time 0 in 20 of 50 parts of all replications: 5 standard errors of 2000, false
        // positives below 1e-6.
        let [up, down] =
            [30, 20].map(|time| DurationDistribution::Constant(Duration::from_millis(time)));
        let keys = OnOffKeys { up, down, after: Duration::ZERO, random_phase: true };
        let count = 2000_u32;
        let mut is_down_at_start = 0;
        for replication in 0..count {
            let mut process =
                keys.build(&Streams { seed: 1, replication: replication.into() }, "link").unwrap();
            let instant = |time| Airtime { start: millis(time), end: millis(time), bits: 8 };
            let states: Vec<_> = (0..100).map(|time| process.is_lost(instant(time))).collect();
            is_down_at_start += u32::from(states[0]);
            assert_eq!(states[..50], states[50..], "a cycle of 50 ms");
            let lost = states[..50].iter().filter(|&&is_lost| is_lost).count();
            assert_eq!(lost, 20, "replication {replication}");
        }
        let share = f64::from(is_down_at_start) / f64::from(count);
        assert!((share - 0.4).abs() < 5.0 * (0.24 / f64::from(count)).sqrt(), "{share}");
    }

    #[test]
    fn exponential_times_have_their_share() {
        // Frames of length 0 every 10 ms, times of 50 and 20 ms on average. The states of frames k
        // apart have correlation c^k, c = exp(-10 (1/50 + 1/20)), which inflates the standard error
        // by (1 + c) / (1 - c). 5 standard errors: false positives below 1e-6.
        let [up, down] =
            [50, 20].map(|mean| DurationDistribution::Exponential(Duration::from_millis(mean)));
        let mut process = OnOff::new(up, down, &STREAMS, "link");
        let n = 400_000u64;
        let lost = (0..n)
            .filter(|&frame| {
                let (start, end) = (millis(10 * frame), millis(10 * frame));
                process.is_lost(Airtime { start, end, bits: 8 })
            })
            .count();
        let (p, c) = (2.0 / 7.0, (-0.7f64).exp());
        let error = (p * (1.0 - p) / n as f64 * (1.0 + c) / (1.0 - c)).sqrt();
        assert!((lost as f64 / n as f64 - p).abs() < 5.0 * error, "{lost}");
    }

    #[test]
    fn catching_up_changes_nothing() {
        let law = DurationDistribution::Exponential(Duration::from_millis(3));
        let mut plain = OnOff::new(law, law, &STREAMS, "link");
        let mut caught_up = plain.clone();
        for airtime in back_to_back(8, Duration::from_millis(1)).step_by(7).take(2000) {
            caught_up.catch_up(airtime.start);
            assert_eq!(plain.is_lost(airtime), caught_up.is_lost(airtime));
        }
    }
}
