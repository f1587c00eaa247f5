//! The propagation delay of a link in a scenario: constant, from a list, or from a recording.

use super::PropagationDelay;
use lasthop_base::schema::ScenarioError;
use lasthop_base::schema::keys::{Limits, Node, kinds, table};
use lasthop_base::schema::recording::{Quantity, Recorded, StepList, check_repeat, mean};
use lasthop_base::schema::shorthand::Shorthand;
use lasthop_base::schema::steps::Steps;
use lasthop_base::units::Duration;

kinds! {
    /// Propagation delay of a link.
    pub enum DelayKeys {
        Constant(ConstantDelayKeys),
        Steps(DelayStepsKeys),
        Trace(DelayTraceKeys),
    }
}

table! {
    /// A constant delay. A delay alone is equivalent: delay = "50 ms".
    pub struct ConstantDelayKeys as "constant" {
        /// Propagation delay, one way.
        delay: Duration;
    }
}

table! {
    /// A delay that changes at given times, as at a handover between satellites. The delay at the
    /// end of a transmission applies to the whole frame. Frames stay in order.
    pub struct DelayStepsKeys as "steps" {
        /// Pairs of a time and the delay from this time onwards. The first time is "0 s".
        at: Steps<Duration>;
        /// Time after which the list is repeated. Without it, the last delay applies to the end.
        repeat: Option<Duration>, Limits::POSITIVE;
    }
}

/// A recorded delay.
pub type DelayTraceKeys = Recorded<RecordedDelay>;

/// The values of a recorded delay.
#[derive(Clone, Debug, PartialEq)]
pub struct RecordedDelay;

/// Maximum of a recorded delay, in seconds: the one-way delay to Jupiter is shorter.
const LONGEST_DELAY_SECONDS: f64 = 3_600.0;

impl Quantity for RecordedDelay {
    type Value = Duration;
    const NAME: &'static str = "delay";
    const ABOUT: &'static str = "A recorded delay; frames keep their order.";
    const FILE: &'static str = "File name of the recording, relative to the scenario file. The file \
        contains lines of a time in seconds and the one-way delay from this time onwards in \
        seconds, separated by a comma. The first time is 0. The first line may contain column \
        names. Lines that begin with # are comments.";
    const REPEAT: &'static str = "Time after which the recording is repeated. Without it, its last \
        delay applies to the end.";
    const ALLOWED: &'static str = "a time in seconds, a comma and a delay in seconds, up to 1 h; \
        times from 0 on, each after the one before";

    fn parse(text: &str) -> Option<Duration> {
        let seconds = text.parse::<f64>().ok();
        let seconds = seconds.filter(|seconds| (0.0..=LONGEST_DELAY_SECONDS).contains(seconds))?;
        Some(Duration::from_nanos((seconds * 1e9).round() as u64))
    }
}

impl DelayKeys {
    /// The steps (time in nanoseconds and delay) and the period.
    fn steps(&self) -> (StepList<Duration>, Option<Duration>) {
        match self {
            DelayKeys::Constant(keys) => ([(0, keys.delay)].into(), None),
            DelayKeys::Steps(keys) => {
                let steps = keys.at.0.iter().map(|&(at, delay)| (at.as_nanos(), delay));
                (steps.collect(), keys.repeat)
            }
            DelayKeys::Trace(keys) => (keys.record.clone(), keys.repeat),
        }
    }

    /// The long-run mean delay.
    pub fn mean(&self) -> Duration {
        let (steps, repeat) = self.steps();
        Duration::from_nanos(mean(&steps, repeat, Duration::as_nanos))
    }

    /// The minimum and the maximum delay. Timers are set for the maximum.
    pub fn range(&self) -> [Duration; 2] {
        let (steps, _) = self.steps();
        let delays = || steps.iter().map(|&(_, delay)| delay);
        [delays().min(), delays().max()].map(Option::unwrap_or_default)
    }

    /// Returns a copy of the keys if they are not a plain delay.
    pub fn changes(&self) -> Option<DelayKeys> {
        self.to_short().is_none().then(|| self.clone())
    }

    /// The propagation delay of one direction.
    pub fn propagation(&self) -> PropagationDelay {
        let (steps, repeat) = self.steps();
        PropagationDelay::changing(steps, repeat.map(Duration::as_nanos))
    }

    /// Contents of the recording, for the hash of the scenario.
    pub fn contents(&self) -> Vec<u8> {
        match self {
            DelayKeys::Trace(keys) => {
                let numbers = keys.record.iter().flat_map(|&(at, delay)| [at, delay.as_nanos()]);
                numbers.flat_map(u64::to_le_bytes).collect()
            }
            DelayKeys::Constant(_) | DelayKeys::Steps(_) => Vec::new(),
        }
    }
}

/// A delay alone specifies a constant delay.
impl Shorthand for DelayKeys {
    type Short = Duration;
    const KEY: (&'static str, &'static str) = ("constant", "delay");

    fn from_short(delay: Duration) -> Self {
        DelayKeys::Constant(ConstantDelayKeys { delay })
    }

    fn to_short(&self) -> Option<Duration> {
        match self {
            DelayKeys::Constant(keys) => Some(keys.delay),
            DelayKeys::Steps(_) | DelayKeys::Trace(_) => None,
        }
    }

    fn check(&self, node: &Node<'_>) -> Result<(), ScenarioError> {
        match self {
            DelayKeys::Steps(_) => {
                let (steps, repeat) = self.steps();
                check_repeat(&steps, repeat, node)
            }
            DelayKeys::Constant(_) | DelayKeys::Trace(_) => Ok(()),
        }
    }
}
