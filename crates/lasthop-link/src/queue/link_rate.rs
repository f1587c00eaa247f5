//! The transmission rate of a link in a scenario: constant, from a list, or from a recording.

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
    /// A constant rate. A rate alone is equivalent: rate = "64 kbps".
    pub struct ConstantRateKeys as "constant" {
        /// Transmission rate.
        rate: LinkRate;
    }
}

table! {
    /// A rate that changes at given times. A frame in transmission continues at the new rate. At "0
    /// bps" the link is down and pauses the frame.
    pub struct RateStepsKeys as "steps" {
        /// Pairs of a time and the rate from this time onwards. The first time is "0 s".
        at: Steps<Rate>;
        /// Time after which the list is repeated. Without it, the last rate applies to the end.
        repeat: Option<Duration>, Limits::POSITIVE;
    }
}

choice! {
    /// File format of a recorded rate.
    pub enum RateFormat {
        /// The format of mahimahi's link shell: one line per delivery opportunity, in whole
        /// milliseconds from the start. Several lines may name the same millisecond. The recording
        /// is repeated after its last line.
        Mahimahi = "mahimahi",
        /// Lines of a time in seconds and the rate from this time onwards in bits per second,
        /// separated by a comma. The first time is 0. The first line may contain column names.
        Csv = "csv",
    }
}

table! {
    /// Keys of a recorded rate.
    struct TraceKeys {
        /// File name of the recording, relative to the scenario file. Lines that begin with # are
        /// comments.
        file: String;
        /// File format.
        format: RateFormat;
        /// Bytes per opportunity of format "mahimahi", frame headers included. mahimahi's own link
        /// shell uses 1504 B, and counts each packet with 4 B.
        opportunity: Bytes = "1500 B", Limits::PACKET;
        /// Time after which a recording of format "csv" is repeated. Without it, its last rate
        /// applies to the end.
        repeat: Option<Duration>, Limits::POSITIVE;
    }
}

/// A recorded rate.
#[derive(Clone, Debug, PartialEq)]
pub struct RateTraceKeys {
    /// File name as given in the scenario.
    pub file: String,
    /// File format.
    pub format: RateFormat,
    /// Bytes per opportunity.
    pub opportunity: Bytes,
    /// Time after which a recording of rates is repeated.
    pub repeat: Option<Duration>,
    /// Contents of the file.
    record: Record,
}

/// Contents of a recording; times in nanoseconds.
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

/// Checks that `repeat`, if any, is after the last step, and that no frame waits forever.
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
    /// The long-run mean rate.
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

    /// The minimum rate above 0, used to set timers; for opportunities, the mean.
    pub fn slowest(&self) -> Rate {
        let steps = self.steps().into_iter().flat_map(|(steps, _)| steps.to_vec());
        let rates = steps.map(|(_, rate)| rate).filter(|&rate| rate > Rate::default());
        rates.min().unwrap_or_else(|| self.mean())
    }

    /// The steps (time in nanoseconds and rate) and the period. `None` for a constant rate and for
    /// opportunities.
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

    /// Creates an idle transmitter. Steps of equal rates are treated as a constant rate.
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

    /// Checks constraints between keys. `node` is the node of the keys in the scenario.
    pub fn check(&self, node: &Node<'_>) -> Read<()> {
        match (self, self.steps()) {
            (RateKeys::Steps(_), Some((steps, repeat))) => check(&steps, repeat, node, "at"),
            _ => Ok(()),
        }
    }

    /// Contents of the recording, for the hash of the scenario.
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

/// A rate alone specifies a constant rate.
impl Shorthand for RateKeys {
    type Short = LinkRate;
    const KEY: (&'static str, &'static str) = ("constant", "rate");

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
