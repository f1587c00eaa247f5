//! Values of keys: quantities with units, and words that may replace them.

mod real;
mod words;

pub use real::Real;
pub use words::{
    BitInterval, DelayedAck, Every, KeepaliveInterval, KeepaliveLimit, LinkRate, LinkTimeout,
    OptionalTimer, QueueLimit, Retries, Transmissions, Window,
};

use super::keys::{Field, Limits, NAME_ALLOWED, Node, Read, Shape, is_name};
use crate::rng::{DurationDistribution, ParetoShape};
use crate::units::{Bytes, Decibels, Distance, Duration, Probability, Rate};
use serde_json::Value;
use std::collections::HashSet;
use std::fmt;
use std::str::FromStr;

/// Description of a valid probability, for messages.
pub const PROBABILITY_ALLOWED: &str = "a probability such as \"2.5 %\" or 0.025, from 0 to 1";

/// Description of a valid mean, for messages.
pub const MEAN_ALLOWED: &str = "a number such as 3.5, at least 1";

/// Description of the valid ends of a link, for messages.
pub const PAIR_ALLOWED: &str = "a list of two different host names such as [\"ap\", \"client\"]";

/// Description of a valid list of hosts, for messages.
pub const HOSTS_ALLOWED: &str =
    "a list of different host names, at least one, such as [\"mobile1\", \"mobile2\"]";

pub(super) const TEXT_ALLOWED: &str = "text that is not empty, without control characters";

const DURATION_ALLOWED: &str =
    "a duration such as \"50 ms\" (units ns, us, ms, s, min, h; whole nanoseconds)";

const BYTES_ALLOWED: &str =
    "a size such as \"250 B\" (units B, kB, MB, GB, KiB, MiB, GiB; whole bytes)";

const DISTANCE_ALLOWED: &str =
    "a distance such as \"250 m\" (units mm, cm, m, km; whole millimetres)";

const DECIBELS_ALLOWED: &str = "a ratio of powers such as \"10 dB\" (at most three decimals)";

/// Maximum duration in a scenario, about 31 years: sums of a few durations do not overflow the
/// 64-bit nanosecond clock.
const LONGEST: Duration = Duration::from_secs(1_000_000_000);

/// Regular expression of a number with one of several units; read by `scaled` in `units.rs`.
macro_rules! number_with {
    ($units:literal) => {
        concat!("^\\s*[0-9][0-9_]*(\\.[0-9_]{1,15})?\\s*(", $units, ")\\s*$")
    };
}

fn print_duration(nanos: u64) -> String {
    Duration::from_nanos(nanos).to_string()
}

fn print_distance(millimetres: u64) -> String {
    Distance::from_millimetres(millimetres).to_string()
}

fn print_decibels(thousandths: u64) -> String {
    Decibels::from_thousandths(thousandths).to_string()
}

fn print_bytes(bytes: u64) -> String {
    Bytes::new(bytes).to_string()
}

/// Parses text, or returns an error with the values `allowed`.
fn parse<T: FromStr>(node: &Node<'_>, allowed: &str) -> Read<T> {
    node.text(allowed)?.parse().map_err(|_| node.wrong(allowed))
}

fn within<T>(
    node: &Node<'_>,
    value: T,
    base_units: u64,
    limits: Limits,
    allowed: &str,
    print: fn(u64) -> String,
) -> Read<T> {
    if limits.contains(base_units) {
        Ok(value)
    } else {
        Err(node.wrong(format!("{allowed}{}", limits.text(print))))
    }
}

impl Field for String {
    const SHAPE: Shape = Shape::Text;
    fn read(node: &Node<'_>, _: Limits) -> Read<Self> {
        let text = node.text(TEXT_ALLOWED)?;
        // Terminals interpret control characters: texts are shown with the results.
        let is_control = |c: char| c.is_control() && !matches!(c, '\n' | '\t');
        if text.trim().is_empty() || text.chars().any(is_control) {
            return Err(node.wrong(TEXT_ALLOWED));
        }
        Ok(text.to_owned())
    }
    fn write(&self) -> Value {
        self.as_str().into()
    }
}

impl Field for bool {
    const SHAPE: Shape = Shape::Bool;
    fn read(node: &Node<'_>, _: Limits) -> Read<Self> {
        node.value.as_bool().ok_or_else(|| node.wrong("true or false"))
    }
    fn write(&self) -> Value {
        (*self).into()
    }
}

impl Field for u64 {
    const HAS_LIMITS: bool = true;
    const SHAPE: Shape = Shape::Integer;
    fn read(node: &Node<'_>, limits: Limits) -> Read<Self> {
        let value = node.value.as_u64().filter(|value| limits.contains(*value));
        value.ok_or_else(|| {
            node.wrong(format!("a whole number{}", limits.text(|number| number.to_string())))
        })
    }
    fn write(&self) -> Value {
        (*self).into()
    }
}

impl Field for u32 {
    const HAS_LIMITS: bool = true;
    const SHAPE: Shape = Shape::Integer;
    fn read(node: &Node<'_>, limits: Limits) -> Read<Self> {
        let limits = Limits::range(limits.min, limits.max.min(u64::from(u32::MAX)));
        // The limit makes the conversion exact.
        u64::read(node, limits).map(|value| value as u32)
    }
    fn write(&self) -> Value {
        (*self).into()
    }
}

impl Field for Duration {
    const HAS_LIMITS: bool = true;
    const SHAPE: Shape = Shape::Quantity {
        what: "duration",
        allowed: DURATION_ALLOWED,
        pattern: number_with!("ns|us|µs|ms|s|min|h"),
        print: print_duration,
    };
    fn read(node: &Node<'_>, limits: Limits) -> Read<Self> {
        let allowed = format!("{DURATION_ALLOWED}{}", limits.text(print_duration));
        let value: Duration = parse(node, &allowed)?;
        if value > LONGEST {
            return Err(node.wrong(format!("{DURATION_ALLOWED}, at most {LONGEST}")));
        }
        within(node, value, value.as_nanos(), limits, DURATION_ALLOWED, print_duration)
    }
    fn write(&self) -> Value {
        self.to_string().into()
    }
}

impl Field for Rate {
    const HAS_LIMITS: bool = true;
    const SHAPE: Shape = Shape::Quantity {
        what: "rate",
        allowed: "a rate such as \"64 kbps\" (units bps, kbps, Mbps, Gbps, also as Mbit/s or Mb/s; whole bits per \
                  second)",
        pattern: number_with!("[kMG]?(bps|bit/s|b/s)"),
        print: |bps| Rate::from_bps(bps).to_string(),
    };
    fn read(node: &Node<'_>, limits: Limits) -> Read<Self> {
        let Shape::Quantity { allowed, print, .. } = Self::SHAPE else {
            unreachable!("set above");
        };
        let value: Rate = parse(node, &format!("{allowed}{}", limits.text(print)))?;
        within(node, value, value.as_bps(), limits, allowed, print)
    }
    fn write(&self) -> Value {
        self.to_string().into()
    }
}

impl Field for Bytes {
    const HAS_LIMITS: bool = true;
    const SHAPE: Shape = Shape::Quantity {
        what: "size",
        allowed: BYTES_ALLOWED,
        pattern: number_with!("B|kB|MB|GB|KiB|MiB|GiB"),
        print: print_bytes,
    };
    fn read(node: &Node<'_>, limits: Limits) -> Read<Self> {
        let value: Bytes = parse(node, &format!("{BYTES_ALLOWED}{}", limits.text(print_bytes)))?;
        within(node, value, value.get(), limits, BYTES_ALLOWED, print_bytes)
    }
    fn write(&self) -> Value {
        self.to_string().into()
    }
}

impl Field for Distance {
    const HAS_LIMITS: bool = true;
    const SHAPE: Shape = Shape::Quantity {
        what: "distance",
        allowed: DISTANCE_ALLOWED,
        pattern: number_with!("mm|cm|m|km"),
        print: print_distance,
    };
    fn read(node: &Node<'_>, limits: Limits) -> Read<Self> {
        let allowed = format!("{DISTANCE_ALLOWED}{}", limits.text(print_distance));
        let value: Distance = parse(node, &allowed)?;
        within(node, value, value.as_millimetres(), limits, DISTANCE_ALLOWED, print_distance)
    }
    fn write(&self) -> Value {
        self.to_string().into()
    }
}

impl Field for Decibels {
    const HAS_LIMITS: bool = true;
    const SHAPE: Shape = Shape::Quantity {
        what: "ratio",
        allowed: DECIBELS_ALLOWED,
        pattern: number_with!("dB"),
        print: print_decibels,
    };
    fn read(node: &Node<'_>, limits: Limits) -> Read<Self> {
        let allowed = format!("{DECIBELS_ALLOWED}{}", limits.text(print_decibels));
        let value: Decibels = parse(node, &allowed)?;
        within(node, value, value.as_thousandths(), limits, DECIBELS_ALLOWED, print_decibels)
    }
    fn write(&self) -> Value {
        self.to_string().into()
    }
}

impl Field for Probability {
    const SHAPE: Shape = Shape::Probability;
    fn read(node: &Node<'_>, _: Limits) -> Read<Self> {
        let value = match node.value {
            Value::Number(number) => number.as_f64().and_then(Probability::new),
            Value::String(text) => text.parse().ok(),
            _ => None,
        };
        value.ok_or_else(|| node.wrong(PROBABILITY_ALLOWED))
    }
    fn write(&self) -> Value {
        // A number is exact; the printed percentage would not be.
        serde_json::Number::from_f64(self.get()).map_or(Value::Null, Value::Number)
    }
}

/// A mean count, at least 1.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Mean(pub f64);

impl Field for Mean {
    const SHAPE: Shape = Shape::Mean;
    fn read(node: &Node<'_>, _: Limits) -> Read<Self> {
        let value = node.value.as_f64().filter(|mean| *mean >= 1.0);
        value.map(Mean).ok_or_else(|| node.wrong(MEAN_ALLOWED))
    }
    fn write(&self) -> Value {
        serde_json::Number::from_f64(self.0).map_or(Value::Null, Value::Number)
    }
}

/// A value that is stored apart, because it is large and rare.
impl<T: Field> Field for Box<T> {
    const SHAPE: Shape = T::SHAPE;
    const OPTIONAL: bool = T::OPTIONAL;
    const HAS_LIMITS: bool = T::HAS_LIMITS;
    fn read(node: &Node<'_>, limits: Limits) -> Read<Self> {
        T::read(node, limits).map(Box::new)
    }
    fn write(&self) -> Value {
        T::write(self)
    }
    fn absent(node: &Node<'_>) -> Option<Self> {
        T::absent(node).map(Box::new)
    }
}

impl<T: Field> Field for Option<T> {
    const SHAPE: Shape = T::SHAPE;
    const OPTIONAL: bool = true;
    const HAS_LIMITS: bool = T::HAS_LIMITS;
    fn read(node: &Node<'_>, limits: Limits) -> Read<Self> {
        T::read(node, limits).map(Some)
    }
    fn write(&self) -> Value {
        self.as_ref().map_or(Value::Null, T::write)
    }
    fn absent(_: &Node<'_>) -> Option<Self> {
        Some(None)
    }
}

impl Field for [String; 2] {
    const SHAPE: Shape = Shape::HostPair;
    fn read(node: &Node<'_>, _: Limits) -> Read<Self> {
        let Some([first, second]) = node.value.as_array().map(Vec::as_slice) else {
            return Err(node.wrong(PAIR_ALLOWED));
        };
        let name = |value: &Value| match value.as_str() {
            Some(text) if is_name(text) => Ok(text.to_owned()),
            _ => Err(node.wrong(format!("{PAIR_ALLOWED}; each {NAME_ALLOWED}"))),
        };
        let pair = [name(first)?, name(second)?];
        if pair[0] == pair[1] { Err(node.wrong(PAIR_ALLOWED)) } else { Ok(pair) }
    }
    fn write(&self) -> Value {
        self.as_slice().into()
    }
}

/// Parses a duration within the range of the clock.
fn bounded(text: &str) -> Result<Duration, ()> {
    text.parse().ok().filter(|duration| *duration <= LONGEST).ok_or(())
}

impl FromStr for DurationDistribution {
    type Err = ();
    fn from_str(text: &str) -> Result<Self, ()> {
        if let Some(pareto) = text.trim_start().strip_prefix("pareto ") {
            let (mean, shape) = pareto.split_once(" shape ").unwrap_or((pareto, "1.5"));
            let shape = Some(shape.trim())
                .filter(|shape| shape.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.'))
                .and_then(|shape| ParetoShape::new(shape.parse().ok()?))
                .ok_or(())?;
            return match bounded(mean)? {
                Duration::ZERO => Err(()),
                mean => Ok(DurationDistribution::Pareto(mean, shape)),
            };
        }
        if let Some(uniform) = text.trim_start().strip_prefix("uniform ") {
            let (shortest, longest) = uniform.split_once(" to ").ok_or(())?;
            let (shortest, longest) = (bounded(shortest)?, bounded(longest)?);
            let is_ordered = shortest <= longest && longest > Duration::ZERO;
            return is_ordered
                .then_some(DurationDistribution::Uniform(shortest, longest))
                .ok_or(());
        }
        match text.trim_start().strip_prefix("exp ") {
            None => bounded(text).map(DurationDistribution::Constant),
            Some(mean) => match bounded(mean)? {
                Duration::ZERO => Err(()),
                mean => Ok(DurationDistribution::Exponential(mean)),
            },
        }
    }
}

impl fmt::Display for DurationDistribution {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            DurationDistribution::Constant(duration) => duration.fmt(f),
            DurationDistribution::Uniform(shortest, longest) => {
                write!(f, "uniform {shortest} to {longest}")
            }
            DurationDistribution::Exponential(mean) => write!(f, "exp {mean}"),
            DurationDistribution::Pareto(mean, shape) => {
                write!(f, "pareto {mean} shape {}", shape.get())
            }
        }
    }
}

const DISTRIBUTION_ALLOWED: &str = "a duration such as \"1 s\", \"exp 1 s\" for an exponential distribution with that \
     mean, \"uniform 90 ms to 110 ms\" for any time between the two, or \"pareto 1 s shape 1.5\" for a \
     Pareto distribution with that mean and a shape from 1.001 to 1000 with at most 3 decimals, 1.5 if none is \
     given (units ns, us, ms, s, min, h)";

impl Field for DurationDistribution {
    const HAS_LIMITS: bool = true;
    const SHAPE: Shape = Shape::Quantity {
        what: "duration distribution",
        allowed: DISTRIBUTION_ALLOWED,
        pattern: "^\\s*(((exp )?\\s*[0-9][0-9_]*(\\.[0-9_]{1,15})?\\s*(ns|us|µs|ms|s|min|h))|(uniform \\s*[0-9][0-9_]*(\\.[0-9_]{1,15})?\\s*(ns|us|µs|ms|s|min|h) to \\s*[0-9][0-9_]*(\\.[0-9_]{1,15})?\\s*(ns|us|µs|ms|s|min|h))|(pareto \\s*[0-9][0-9_]*(\\.[0-9_]{1,15})?\\s*(ns|us|µs|ms|s|min|h)(\\s* shape \\s*[1-9][0-9]{0,3}(\\.[0-9]{1,3})?)?))\\s*$",
        print: print_duration,
    };
    fn read(node: &Node<'_>, limits: Limits) -> Read<Self> {
        let value: DurationDistribution = parse(node, DISTRIBUTION_ALLOWED)?;
        within(node, value, value.mean().as_nanos(), limits, DISTRIBUTION_ALLOWED, print_duration)
    }
    fn write(&self) -> Value {
        self.to_string().into()
    }
}

/// A non-empty list of distinct host names. In names, `#` stands for a number; the owner of the key
/// replaces it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hosts(pub Vec<String>);

impl Field for Hosts {
    const SHAPE: Shape = Shape::Hosts;
    fn read(node: &Node<'_>, _: Limits) -> Read<Self> {
        let list = node.value.as_array().filter(|list| !list.is_empty());
        let mut hosts: Vec<String> = Vec::new();
        let mut names = HashSet::new();
        for value in list.ok_or_else(|| node.wrong(HOSTS_ALLOWED))? {
            let is_host = |name: &&str| is_name(&name.replace('#', "0"));
            let Some(name) = value.as_str().filter(is_host) else {
                return Err(node.wrong(format!("{HOSTS_ALLOWED}; each {NAME_ALLOWED}")));
            };
            if !names.insert(name) {
                return Err(node.error(format!("{name:?} twice"), HOSTS_ALLOWED));
            }
            hosts.push(name.to_owned());
        }
        Ok(Hosts(hosts))
    }
    fn write(&self) -> Value {
        self.0.as_slice().into()
    }
}
