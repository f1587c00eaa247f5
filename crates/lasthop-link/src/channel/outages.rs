//! Recorded outages: the link is up and down at the times in a file, and a frame sent during a down
//! time is lost.
//!
//! ```text
//!            down in the file
//!     +----+ -----------------> +------+
//!     | up |                    | down |
//!     +----+ <----------------- +------+
//!            up in the file
//! ```
//!
//! Two formats. *CSV*: lines of a time in seconds and the state from then on, `up` or `down`; the
//! first time is 0. *mahimahi*: delivery opportunities, as for a rate (R. Netravali et al.,
//! "Mahimahi: Accurate record-and-replay for HTTP", USENIX ATC 2015). The link is down between two
//! successive opportunities with an interval of `gap` or longer.
//!
//! A frame is lost if any part of its air time is in a down time, unless it starts before `after`.
//! A recording is one sample path. To vary replications of a repeated recording, each starts at a
//! random time, given by one number from the stream `outages start`. After the end it continues at
//! the beginning.
//!
//! Not modelled: a sender that detects that the link is down; it continues to send.

use super::{Airtime, ChannelError, ErrorKeys, ErrorProcess, all_units, one_by_one};
use lasthop_base::rng::Streams;
use lasthop_base::schema::keys::{Key, Kind, Limits, Node, Read, Table, choice, table};
use lasthop_base::schema::recording::{StepList, check_repeat, opportunities, read, steps};
use lasthop_base::timeline::Timeline;
use lasthop_base::units::{Duration, Instant};
use serde_json::{Map, Value};

/// Purpose of the stream from which the start is sampled.
const OUTAGES_START: &str = "outages start";

const STATE_ALLOWED: &str =
    "a time in seconds, a comma and up or down; times from 0 on, each after the one before";

choice! {
    /// File format of recorded outages.
    pub enum OutageFormat {
        /// Lines of a time in seconds and the state from this time onwards, up or down, separated
        /// by a comma. The first time is 0. The first line may contain column names.
        Csv = "csv",
        /// The format of mahimahi's link shell: one line per delivery opportunity, in whole
        /// milliseconds from the start. The recording is repeated after its last line.
        Mahimahi = "mahimahi",
    }
}

table! {
    /// Keys of recorded outages.
    struct Keys {
        /// File name of the recording, relative to the scenario file. Lines that begin with # are
        /// comments.
        file: String;
        /// File format.
        format: OutageFormat = "csv";
        /// Interval between opportunities from which the link is considered down; for format
        /// "mahimahi".
        gap: Duration = "100 ms", Limits::POSITIVE;
        /// Time after which a recording of format "csv" is repeated. Without it, the last state
        /// applies to the end.
        repeat: Option<Duration>, Limits::POSITIVE;
        /// Time of the recording at which a replication starts. Default: if the recording is
        /// repeated, a different time in each replication, equal for all protocols; otherwise 0 s.
        start: Option<Duration>;
        /// Time before which no frame is lost.
        after: Duration = "0 s";
    }
}

/// Keys of recorded outages, and the contents of the file.
#[derive(Clone, Debug, PartialEq)]
pub struct OutagesKeys {
    keys: Keys,
    /// Times in nanoseconds, and whether the link is down from then on.
    states: StepList<bool>,
    /// Period in nanoseconds, if the recording is repeated.
    period: Option<u64>,
}

impl Kind for OutagesKeys {
    const KIND: &'static str = "outages";
    const ABOUT: &'static str = "Recorded outages: the link is up and down at the times of a file; a frame is lost if any part of its air time is in a down time.";
}

impl Table for OutagesKeys {
    const KEYS: &'static [Key] = Keys::KEYS;

    fn read(node: &Node<'_>) -> Read<Self> {
        let keys = Keys::read(node)?;
        let (states, period) = match keys.format {
            OutageFormat::Csv => {
                let parse = |text: &str| steps(text, is_down, STATE_ALLOWED);
                let states = read(node, &keys.file, "outages csv", parse)?;
                check_repeat(&states, keys.repeat, node)?;
                (states, keys.repeat.map(Duration::as_nanos))
            }
            OutageFormat::Mahimahi => {
                if let Some(repeat) = keys.repeat {
                    let allowed =
                        "no repeat: a recording of mahimahi begins again after its last line";
                    return Err(node.key_error("repeat", format!("\"{repeat}\""), allowed));
                }
                let times = read(node, &keys.file, "outages mahimahi", opportunities)?;
                (gaps(&times, keys.gap), times.last().copied())
            }
        };
        if let (Some(start), Some(period)) = (keys.start, period)
            && start.as_nanos() >= period
        {
            let allowed = format!(
                "below the time after which the recording begins again, {}",
                Duration::from_nanos(period)
            );
            return Err(node.key_error("start", format!("\"{start}\""), allowed));
        }
        Ok(OutagesKeys { keys, states, period })
    }

    fn write(&self) -> Map<String, Value> {
        self.keys.write()
    }
}

/// Parses a state; `true` is down.
fn is_down(text: &str) -> Option<bool> {
    match text {
        "up" => Some(false),
        "down" => Some(true),
        _ => None,
    }
}

/// The down times: intervals of at least `gap` between successive opportunities.
fn gaps(times: &[u64], gap: Duration) -> StepList<bool> {
    let mut states = vec![(0, false)];
    let before = [0].into_iter().chain(times.iter().copied());
    for (before, &next) in before.zip(times) {
        if next - before < gap.as_nanos() {
            continue;
        }
        // Two long intervals in succession are one outage.
        states.pop_if(|&mut (at, is_down)| at == before && !is_down);
        if states.last().is_none_or(|&(_, is_down)| !is_down) {
            states.push((before, true));
        }
        states.push((next, false));
    }
    // An outage at the end is over when the recording is repeated.
    states.retain(|&(at, _)| Some(&at) != times.last());
    states.into()
}

impl ErrorKeys for OutagesKeys {
    type Process = Outages;

    fn build(&self, streams: &Streams, component: &str) -> Result<Outages, ChannelError> {
        let start = match (self.keys.start, self.period) {
            (Some(start), _) => start.as_nanos(),
            (None, None) => 0,
            (None, Some(period)) => {
                (streams.stream(component, OUTAGES_START).uniform() * period as f64) as u64
            }
        };
        let timeline = Timeline::new(self.states.clone(), self.period);
        Ok(Outages::new(timeline, Duration::from_nanos(start)).after(self.keys.after))
    }

    fn contents(&self) -> Vec<u8> {
        let states = self.states.iter();
        states
            .flat_map(|&(at, is_down)| at.to_le_bytes().into_iter().chain([u8::from(is_down)]))
            .collect()
    }
}

/// Error process with recorded up and down times.
///
/// ```
/// use lasthop_base::timeline::Timeline;
/// use lasthop_base::units::{Duration, Instant};
/// use lasthop_link::channel::{Airtime, ErrorProcess, Outages};
///
/// // Down from 10 to 20 ms; times in nanoseconds.
/// let steps = [(0, false), (10_000_000, true), (20_000_000, false)];
/// let mut process = Outages::new(Timeline::new(steps.into(), None), Duration::ZERO);
/// let frame = |index: u64| {
///     let start = Instant::ZERO + Duration::from_millis(1) * index;
///     Airtime { start, end: start + Duration::from_millis(1), bits: 8_000 }
/// };
/// assert!(!process.is_lost(frame(5)));
/// assert!(process.is_lost(frame(15)));
/// assert!(!process.is_lost(frame(25)));
/// ```
#[derive(Clone, Debug)]
pub struct Outages {
    /// Whether the link is down.
    is_down: Timeline<bool>,
    /// Time of the recording at time 0.
    start: Duration,
    /// Time before which no frame is lost.
    after: Instant,
}

impl Outages {
    /// Creates the process from a recording, which starts at its time `start`.
    pub fn new(is_down: Timeline<bool>, start: Duration) -> Self {
        Outages { is_down, start, after: Instant::ZERO }
    }

    /// Sets the time before which no frame is lost.
    pub fn after(self, after: Duration) -> Self {
        Outages { after: Instant::ZERO + after, ..self }
    }

    /// The time of the recording, in nanoseconds.
    fn recorded(&self, now: Instant) -> u64 {
        now.as_nanos().saturating_add(self.start.as_nanos())
    }
}

impl ErrorProcess for Outages {
    fn is_lost(&mut self, airtime: Airtime) -> bool {
        self.catch_up(airtime.start);
        if airtime.start < self.after {
            return false;
        }
        let end = self.recorded(airtime.end);
        if self.is_down.value() || self.is_down.step_end() >= end {
            return self.is_down.value();
        }
        let mut ahead = self.is_down.clone();
        while ahead.step_end() < end {
            ahead.advance();
            if ahead.value() {
                return true;
            }
        }
        false
    }

    fn lost_units(&mut self, airtime: Airtime, units: u8) -> u64 {
        self.catch_up(airtime.start);
        // Fast path: usually the frame lies within one up or down time.
        match self.is_down.step_end() >= self.recorded(airtime.end) {
            true if self.is_down.value() && airtime.start >= self.after => all_units(units),
            true => 0,
            false => one_by_one(airtime, units, |airtime| self.is_lost(airtime)),
        }
    }

    fn catch_up(&mut self, now: Instant) {
        self.is_down.go_to(self.recorded(now));
    }

    fn replay_rate(&self) -> f64 {
        let period = self.is_down.period();
        period.map_or(0.0, |period| self.is_down.steps().len() as f64 / (period as f64 * 1e-9))
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::*;
    use super::*;

    const MS: u64 = 1_000_000;

    /// Down from 30 to 50 ms, from 80 to 100 ms …, with a recording of 50 ms.
    fn process(start: u64) -> Outages {
        let states = [(0, false), (30 * MS, true)];
        Outages::new(Timeline::new(states.into(), Some(50 * MS)), Duration::from_millis(start))
    }

    fn airtime(start: u64, end: u64) -> Airtime {
        let [start, end] = [start, end].map(|ms| Instant::from_nanos(ms * MS));
        Airtime { start, end, bits: 8 }
    }

    #[test]
    fn a_frame_that_meets_a_down_time_is_lost() {
        let mut process = process(0);
        for (start, end, expected) in FRAMES_BETWEEN_DOWN_TIMES {
            assert_eq!(process.is_lost(airtime(start, end)), expected, "{start} to {end} ms");
        }
    }

    #[test]
    fn it_begins_where_it_is_told_and_loses_nothing_before_its_time() {
        let mut process = process(25).after(Duration::from_millis(60));
        // Down from 5 to 25 ms, 55 to 75 ms, 105 to 125 ms.
        for (start, expected) in [(10, false), (56, false), (60, true), (75, false), (105, true)] {
            assert_eq!(process.is_lost(airtime(start, start + 1)), expected, "{start} ms");
        }
    }

    #[test]
    fn without_repetition_the_last_state_stays() {
        let states = [(0, true), (10 * MS, false)];
        let mut process = Outages::new(Timeline::new(states.into(), None), Duration::ZERO);
        for (start, expected) in [(0, true), (9, true), (10, false), (1_000_000, false)] {
            assert_eq!(process.is_lost(airtime(start, start + 1)), expected, "{start} ms");
        }
    }

    #[test]
    fn units_are_lost_one_by_one() {
        let mut process = process(0);
        // Ten units of 2 ms, starting at 20 ms: five before the outage.
        assert_eq!(process.lost_units(airtime(20, 40), 10), 0b11_1110_0000);
        assert_eq!(process.lost_units(airtime(40, 50), 10), 0b11_1111_1111);
        assert_eq!(process.lost_units(airtime(60, 70), 10), 0);
    }

    #[test]
    fn gaps_between_opportunities_are_outages() {
        let gap = Duration::from_millis(20);
        let times = |ms: &[u64]| ms.iter().map(|ms| ms * MS).collect::<Vec<_>>();
        let of = |ms: &[u64]| {
            gaps(&times(ms), gap).iter().map(|&(at, down)| (at / MS, down)).collect::<Vec<_>>()
        };
        assert_eq!(of(&[5, 10, 29, 29]), [(0, false)]);
        assert_eq!(of(&[5, 25, 30]), [(0, false), (5, true), (25, false)]);
        assert_eq!(of(&[20, 30, 50]), [(0, true), (20, false), (30, true)]);
        assert_eq!(of(&[5, 25, 45, 46]), [(0, false), (5, true), (45, false)]);
    }

    #[test]
    fn catching_up_changes_nothing() {
        let (mut plain, mut caught_up) = (process(7), process(7));
        for airtime in back_to_back(8, Duration::from_millis(1)).step_by(7).take(2000) {
            caught_up.catch_up(airtime.start);
            assert_eq!(plain.is_lost(airtime), caught_up.is_lost(airtime));
        }
    }
}
