//! The transmission rate of a link as a scenario has it: constant, from a list, or from a recording.

use super::{Opportunities, RateSchedule, RateSteps, Transmitter};
use lasthop_base::schema::ScenarioError;
use lasthop_base::schema::keys::{Key, Kind, Limits, Node, Read, Table, choice, kinds, table};
use lasthop_base::schema::quantity::LinkRate;
use lasthop_base::schema::recording::{StepList, check_repeat, mean, opportunities, read, steps};
use lasthop_base::schema::shorthand::Shorthand;
use lasthop_base::schema::steps::Steps;
use lasthop_base::units::{Bytes, Duration, Rate};
use serde_json::{Map, Value};
use std::sync::Arc;

kinds! {
    /// Transmission rate of a link.
    pub enum RateKeys {
        Constant(ConstantRateKeys),
        Steps(RateStepsKeys),
        Trace(RateTraceKeys),
    }
}

table! {
    /// Always the same rate. The rate alone says the same: rate = "64 kbps".
    pub struct ConstantRateKeys as "constant" {
        /// Transmission rate.
        rate: LinkRate;
    }
}

table! {
    /// A rate that changes at given times; a frame on the air goes on at the new rate. At "0 bps" the
    /// link is down, and holds the frame.
    pub struct RateStepsKeys as "steps" {
        /// Pairs of a time, the first "0 s", and the rate from then on.
        at: Steps<Rate>;
        /// Time after which the list begins again; without it the last rate stays.
        repeat: Option<Duration>, Limits::POSITIVE;
    }
}

choice! {
    /// What a recorded rate is written as.
    pub enum RateFormat {
        /// A line each opportunity to deliver, in whole milliseconds from the start, as mahimahi's link
        /// shell has it; several lines may name the same millisecond. Begins again after the last.
        Mahimahi = "mahimahi",
        /// Lines of a time in seconds and the rate from then on in bits per second, separated by a
        /// comma; the first time is 0. A line of column names may come first.
        Csv = "csv",
    }
}

table! {
    /// Keys of a recorded rate.
    struct TraceKeys {
        /// The recording, relative to the scenario file. Lines that begin with # are comments.
        file: String;
        /// What it is written as.
        format: RateFormat;
        /// Bytes that an opportunity of format "mahimahi" takes, frame headers included. mahimahi's own
        /// link shell takes 1504 B, and counts each packet with 4 B.
        opportunity: Bytes = "1500 B", Limits::PACKET;
        /// Time after which a recording of format "csv" begins again; without it its last rate stays.
        repeat: Option<Duration>, Limits::POSITIVE;
    }
}

/// A recorded rate.
#[derive(Clone, Debug, PartialEq)]
pub struct RateTraceKeys {
    /// The file as the scenario names it.
    pub file: String,
    /// What it is written as.
    pub format: RateFormat,
    /// What an opportunity takes.
    pub opportunity: Bytes,
    /// Time after which a recording of rates begins again.
    pub repeat: Option<Duration>,
    /// What the file says.
    record: Record,
}

/// What a recording says, times in nanoseconds.
#[derive(Clone, Debug, PartialEq)]
enum Record {
    /// Times of opportunities.
    Opportunities(Arc<[u64]>),
    /// Times and rates.
    Steps(StepList<Rate>),
}

const PAIR_ALLOWED: &str = "a time in seconds, a comma and a rate in whole bits per second, up to \
     1000 Gbps; times from 0 on, each after the one before";

/// A rate in whole bits per second.
fn rate(text: &str) -> Option<Rate> {
    text.parse().ok().map(Rate::from_bps).filter(|&rate| rate <= Rate::FASTEST)
}

impl Kind for RateTraceKeys {
    const KIND: &'static str = "trace";
    const ABOUT: &'static str = "A recorded rate, or recorded opportunities to deliver.";
}

impl Table for RateTraceKeys {
    const KEYS: &'static [Key] = TraceKeys::KEYS;

    fn read(node: &Node<'_>) -> Read<Self> {
        let TraceKeys { file, format, opportunity, repeat } = TraceKeys::read(node)?;
        let parse = |text: &str| match format {
            RateFormat::Mahimahi => opportunities(text).map(Record::Opportunities),
            RateFormat::Csv => steps(text, rate, PAIR_ALLOWED).map(Record::Steps),
        };
        let record = read(node, &file, &format!("rate {}", format.word()), parse)?;
        match (&record, repeat) {
            (Record::Opportunities(_), Some(repeat)) => {
                let allowed = "no repeat: a recording of mahimahi begins again after its last line";
                return Err(node.key_error("repeat", format!("\"{repeat}\""), allowed));
            }
            (Record::Opportunities(_), None) => {}
            (Record::Steps(steps), repeat) => check(steps, repeat, node, "file")?,
        }
        Ok(RateTraceKeys { file, format, opportunity, repeat, record })
    }

    fn write(&self) -> Map<String, Value> {
        let RateTraceKeys { file, format, opportunity, repeat, .. } = self.clone();
        TraceKeys { file, format, opportunity, repeat }.write()
    }
}

/// The list must begin again after its last step, and no frame may wait for ever.
fn check(steps: &[(u64, Rate)], repeat: Option<Duration>, node: &Node<'_>, list: &str) -> Read<()> {
    check_repeat(steps, repeat, node)?;
    let (_, last_rate) = steps[steps.len() - 1];
    let lives = match repeat {
        None => last_rate > Rate::default(),
        Some(_) => steps.iter().any(|&(_, rate)| rate > Rate::default()),
    };
    if lives {
        return Ok(());
    }
    let allowed = "a last rate above 0 bps, or repeat and some rate above 0 bps: a frame would wait \
                   for ever";
    Err(node.key_error(list, "a link that stays down", allowed))
}

impl RateKeys {
    /// The rate in one number: of one that changes, its long-run mean.
    pub fn mean(&self) -> Rate {
        match self.steps() {
            Some((steps, repeat)) => {
                Rate::from_bps(mean(&steps, repeat, Rate::as_bps).max(u64::from(repeat.is_some())))
            }
            None => match self {
                RateKeys::Trace(RateTraceKeys {
                    record: Record::Opportunities(times),
                    opportunity,
                    ..
                }) => {
                    let bits = u128::from(opportunity.bits()) * times.len() as u128;
                    let period = u128::from(times[times.len() - 1]);
                    Rate::from_bps(((bits * 1_000_000_000 / period) as u64).max(1))
                }
                RateKeys::Constant(keys) => keys.rate.0,
                RateKeys::Steps(_) | RateKeys::Trace(_) => unreachable!("they have steps"),
            },
        }
    }

    /// The lowest rate above 0, for which timers are set; of opportunities the mean.
    pub fn slowest(&self) -> Rate {
        let steps = self.steps().into_iter().flat_map(|(steps, _)| steps.to_vec());
        let rates = steps.map(|(_, rate)| rate).filter(|&rate| rate > Rate::default());
        rates.min().unwrap_or_else(|| self.mean())
    }

    /// Times in nanoseconds with the rates from then on, and when they begin again.
    fn steps(&self) -> Option<(StepList<Rate>, Option<Duration>)> {
        match self {
            RateKeys::Steps(keys) => {
                let steps = keys.at.0.iter().map(|&(at, rate)| (at.as_nanos(), rate));
                Some((steps.collect(), keys.repeat))
            }
            RateKeys::Trace(RateTraceKeys { record: Record::Steps(steps), repeat, .. }) => {
                Some((steps.clone(), *repeat))
            }
            RateKeys::Constant(_) | RateKeys::Trace(_) => None,
        }
    }

    /// An idle transmitter of this rate. One whose steps are all the same is that of a constant rate.
    pub fn transmitter(&self) -> Transmitter {
        let rate = self.mean();
        match (self, self.steps()) {
            (_, Some((steps, _))) if steps.iter().all(|&(_, other)| other == steps[0].1) => {
                Transmitter::new(steps[0].1)
            }
            (_, Some((steps, repeat))) => {
                let steps = RateSteps::new(steps, repeat.map(Duration::as_nanos));
                Transmitter::scheduled(rate, RateSchedule::Steps(steps))
            }
            (RateKeys::Trace(keys), None) => {
                let Record::Opportunities(times) = &keys.record else {
                    unreachable!("rates are steps")
                };
                let recorded = Opportunities::new(times.clone(), keys.opportunity);
                Transmitter::scheduled(rate, RateSchedule::Opportunities(recorded))
            }
            (RateKeys::Constant(_) | RateKeys::Steps(_), None) => Transmitter::new(rate),
        }
    }

    /// Checks what concerns several keys; `node` is theirs in the scenario.
    pub fn check(&self, node: &Node<'_>) -> Read<()> {
        match (self, self.steps()) {
            (RateKeys::Steps(_), Some((steps, repeat))) => check(&steps, repeat, node, "at"),
            _ => Ok(()),
        }
    }

    /// What the file holds that they name, for a scenario's hash.
    pub fn contents(&self) -> Vec<u8> {
        match self {
            RateKeys::Trace(keys) => match &keys.record {
                Record::Opportunities(times) => {
                    times.iter().flat_map(|time| time.to_le_bytes()).collect()
                }
                Record::Steps(steps) => {
                    let numbers = steps.iter().flat_map(|&(at, rate)| [at, rate.as_bps()]);
                    numbers.flat_map(u64::to_le_bytes).collect()
                }
            },
            RateKeys::Constant(_) | RateKeys::Steps(_) => Vec::new(),
        }
    }
}

/// A rate alone is a constant one.
impl Shorthand for RateKeys {
    type Short = LinkRate;

    fn from_short(rate: LinkRate) -> Self {
        RateKeys::Constant(ConstantRateKeys { rate })
    }

    fn to_short(&self) -> Option<LinkRate> {
        match self {
            RateKeys::Constant(keys) => Some(keys.rate),
            _ => None,
        }
    }

    fn check(&self, node: &Node<'_>) -> Result<(), ScenarioError> {
        RateKeys::check(self, node)
    }
}
