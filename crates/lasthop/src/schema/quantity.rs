//! Values of keys: quantities with their units, and the words that may stand in their place.

use super::keys::{Field, Limits, NAME_ALLOWED, Node, Read, Shape, is_name};
use crate::rng::{DurationLaw, ParetoShape};
use crate::units::{Bytes, Duration, Probability, Rate};
use serde_json::Value;
use std::fmt;
use std::str::FromStr;

pub(crate) const PROBABILITY_ALLOWED: &str =
    "a probability such as \"2.5 %\" or 0.025, from 0 to 1";
pub(crate) const MEAN_ALLOWED: &str = "a number such as 3.5, at least 1";
pub(crate) const PAIR_ALLOWED: &str =
    "a list of two different host names such as [\"ap\", \"client\"]";
pub(crate) const HOSTS_ALLOWED: &str =
    "a list of different host names, at least one, such as [\"mobile1\", \"mobile2\"]";
pub(super) const TEXT_ALLOWED: &str = "text that is not empty, without control characters";
const DURATION_ALLOWED: &str =
    "a duration such as \"50 ms\" (units ns, us, ms, s, min, h; whole nanoseconds)";
const BYTES_ALLOWED: &str =
    "a size such as \"250 B\" (units B, kB, MB, GB, KiB, MiB, GiB; whole bytes)";

/// The word for no limit.
const UNLIMITED: &str = "unlimited";

/// The longest duration a scenario may name, about 31 years: sums of a few stay far from the end
/// of the 64-bit nanosecond clock.
const LONGEST: Duration = Duration::from_secs(1_000_000_000);

/// Regular expression of a number with one of some units; `scaled` in `units.rs` reads it.
macro_rules! number_with {
    ($units:literal) => {
        concat!("^\\s*[0-9][0-9_]*(\\.[0-9_]{1,15})?\\s*(", $units, ")\\s*$")
    };
}
/// Where a word or a counted thing may stand in place of a quantity.
macro_rules! number_or {
    ($units:literal, $other:literal) => {
        concat!("^\\s*[0-9][0-9_]*(\\.[0-9_]{1,15})?\\s*(", $units, ")\\s*$|^", $other, "$")
    };
}
fn print_duration(nanos: u64) -> String {
    Duration::from_nanos(nanos).to_string()
}

fn print_bytes(bytes: u64) -> String {
    Bytes::new(bytes).to_string()
}

/// Reads text in a form of its own, or says what is allowed.
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
        // A terminal would obey them: texts are shown wherever results are.
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
    const SHAPE: Shape = Shape::Integer;
    fn read(node: &Node<'_>, limits: Limits) -> Read<Self> {
        let limits = Limits::range(limits.min, limits.max.min(u64::from(u32::MAX)));
        // The limit just set makes the conversion exact.
        u64::read(node, limits).map(|value| value as u32)
    }
    fn write(&self) -> Value {
        (*self).into()
    }
}

impl Field for Duration {
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

/// Gives a type the reader and printer that its `FromStr` and `Display` define.
macro_rules! worded {
    ($name:ident, $what:literal, $allowed:literal, $pattern:expr) => {
        impl Field for $name {
            const SHAPE: Shape = Shape::Quantity {
                what: $what,
                allowed: $allowed,
                pattern: $pattern,
                print: |number| number.to_string(),
            };
            fn read(node: &Node<'_>, _: Limits) -> Read<Self> {
                parse(node, $allowed)
            }
            fn write(&self) -> Value {
                self.to_string().into()
            }
        }
    };
}

/// Transmission rate of a link. Written as a rate, or `"unlimited"`: frames take no time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LinkRate(pub Rate);

impl FromStr for LinkRate {
    type Err = ();
    fn from_str(text: &str) -> Result<Self, ()> {
        if text == UNLIMITED {
            return Ok(LinkRate(Rate::UNLIMITED));
        }
        let rate: Rate = text.parse().map_err(|_| ())?;
        if Limits::RATE.contains(rate.as_bps()) { Ok(LinkRate(rate)) } else { Err(()) }
    }
}

impl fmt::Display for LinkRate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

worded!(
    LinkRate,
    "rate, or `\"unlimited\"`",
    "a rate such as \"64 kbps\" (units bps, kbps, Mbps, Gbps, also as Mbit/s or Mb/s; whole bits \
     per second), more than zero, up to 1000 Gbps, or \"unlimited\"",
    number_or!("[kMG]?(bps|bit/s|b/s)", "unlimited")
);

impl Field for Bytes {
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
        // A number keeps every bit; the printed per cent would not.
        serde_json::Number::from_f64(self.get()).map_or(Value::Null, Value::Number)
    }
}

/// A mean number of things of which there is at least one.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Mean(pub f64);

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

impl<T: Field> Field for Option<T> {
    const SHAPE: Shape = T::SHAPE;
    const OPTIONAL: bool = true;
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

/// Splits a whole number from the word after it, as in "50 packets".
fn counted(text: &str, one: &str, many: &str) -> Option<u32> {
    let text = text.trim();
    let split = text.find(|c: char| !c.is_ascii_digit())?;
    let (number, word) = text.split_at(split);
    let word = word.trim_start();
    (word == one || word == many).then_some(())?;
    number.parse().ok()
}

fn print_counted(f: &mut fmt::Formatter<'_>, count: u32, word: &str) -> fmt::Result {
    write!(f, "{count} {word}{}", if count == 1 { "" } else { "s" })
}

/// How much an interface queue holds. Written `"50 packets"` or `"64 kB"`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QueueLimit {
    /// So many packets, at least one, the one in transmission among them.
    Packets(u32),
    /// So many bytes, at least one, those in transmission among them.
    Bytes(Bytes),
}

impl FromStr for QueueLimit {
    type Err = ();
    fn from_str(text: &str) -> Result<Self, ()> {
        if let Some(count) = counted(text, "packet", "packets") {
            return if count > 0 { Ok(QueueLimit::Packets(count)) } else { Err(()) };
        }
        let bytes: Bytes = text.parse().map_err(|_| ())?;
        if Limits::BUFFER.contains(bytes.get()) { Ok(QueueLimit::Bytes(bytes)) } else { Err(()) }
    }
}

impl fmt::Display for QueueLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            QueueLimit::Packets(count) => print_counted(f, *count, "packet"),
            QueueLimit::Bytes(bytes) => bytes.fmt(f),
        }
    }
}

worded!(
    QueueLimit,
    "packets or size",
    "a queue length such as \"50 packets\" or \"64 kB\", more than zero, sizes up to 1000 GB",
    number_or!("B|kB|MB|GB|KiB|MiB|GiB", "\\s*[0-9]+\\s*packets?\\s*")
);

/// A number of bits, at least one. Written `"131072 bits"`, or as a size such as `"16 KiB"`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BitInterval(pub u64);

impl FromStr for BitInterval {
    type Err = ();
    fn from_str(text: &str) -> Result<Self, ()> {
        let bits = match counted(text, "bit", "bits") {
            Some(bits) => u64::from(bits),
            None => text.parse::<Bytes>().map_err(|_| ())?.get().checked_mul(8).ok_or(())?,
        };
        if bits > 0 { Ok(BitInterval(bits)) } else { Err(()) }
    }
}

impl fmt::Display for BitInterval {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match u32::try_from(self.0) {
            Ok(bits) => print_counted(f, bits, "bit"),
            // Only a size can be that long.
            Err(_) => Bytes::new(self.0 / 8).fmt(f),
        }
    }
}

worded!(
    BitInterval,
    "bits or size",
    "a number of bits such as \"131072 bits\" or \"16 KiB\", more than zero",
    number_or!("B|kB|MB|GB|KiB|MiB|GiB", "\\s*[0-9]+\\s*bits?\\s*")
);

/// A window of TCP. Written `"20 segments"` or `"64 kB"`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Window {
    /// So many full segments, at least one.
    Segments(u32),
    /// So many payload bytes, at least one.
    Bytes(Bytes),
}

impl FromStr for Window {
    type Err = ();
    fn from_str(text: &str) -> Result<Self, ()> {
        if let Some(count) = counted(text, "segment", "segments") {
            return if count > 0 { Ok(Window::Segments(count)) } else { Err(()) };
        }
        let bytes: Bytes = text.parse().map_err(|_| ())?;
        if Limits::BUFFER.contains(bytes.get()) { Ok(Window::Bytes(bytes)) } else { Err(()) }
    }
}

impl fmt::Display for Window {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Window::Segments(count) => print_counted(f, *count, "segment"),
            Window::Bytes(bytes) => bytes.fmt(f),
        }
    }
}

worded!(
    Window,
    "segments or size",
    "a window such as \"20 segments\" or \"64 kB\", more than zero, sizes up to 1000 GB",
    number_or!("B|kB|MB|GB|KiB|MiB|GiB", "\\s*[0-9]+\\s*segments?\\s*")
);

/// A duration that the clock can bear.
fn bounded(text: &str) -> Result<Duration, ()> {
    text.parse().ok().filter(|duration| *duration <= LONGEST).ok_or(())
}

impl FromStr for DurationLaw {
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
                mean => Ok(DurationLaw::Pareto(mean, shape)),
            };
        }
        if let Some(uniform) = text.trim_start().strip_prefix("uniform ") {
            let (shortest, longest) = uniform.split_once(" to ").ok_or(())?;
            let (shortest, longest) = (bounded(shortest)?, bounded(longest)?);
            let is_ordered = shortest <= longest && longest > Duration::ZERO;
            return is_ordered.then_some(DurationLaw::Uniform(shortest, longest)).ok_or(());
        }
        match text.trim_start().strip_prefix("exp ") {
            None => bounded(text).map(DurationLaw::Constant),
            Some(mean) => match bounded(mean)? {
                Duration::ZERO => Err(()),
                mean => Ok(DurationLaw::Exponential(mean)),
            },
        }
    }
}

impl fmt::Display for DurationLaw {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            DurationLaw::Constant(duration) => duration.fmt(f),
            DurationLaw::Uniform(shortest, longest) => write!(f, "uniform {shortest} to {longest}"),
            DurationLaw::Exponential(mean) => write!(f, "exp {mean}"),
            DurationLaw::Pareto(mean, shape) => write!(f, "pareto {mean} shape {}", shape.get()),
        }
    }
}

const LAW_ALLOWED: &str = "a duration such as \"1 s\", \"exp 1 s\" for an exponential law with that \
     mean, \"uniform 90 ms to 110 ms\" for any time between the two, or \"pareto 1 s shape 1.5\" for a \
     Pareto law with that mean and a shape from 1.001 to 1000 with at most 3 decimals, 1.5 if none is \
     given (units ns, us, ms, s, min, h)";

impl Field for DurationLaw {
    const SHAPE: Shape = Shape::Quantity {
        what: "duration law",
        allowed: LAW_ALLOWED,
        pattern: "^\\s*(((exp )?\\s*[0-9][0-9_]*(\\.[0-9_]{1,15})?\\s*(ns|us|µs|ms|s|min|h))|(uniform \\s*[0-9][0-9_]*(\\.[0-9_]{1,15})?\\s*(ns|us|µs|ms|s|min|h) to \\s*[0-9][0-9_]*(\\.[0-9_]{1,15})?\\s*(ns|us|µs|ms|s|min|h))|(pareto \\s*[0-9][0-9_]*(\\.[0-9_]{1,15})?\\s*(ns|us|µs|ms|s|min|h)(\\s* shape \\s*[1-9][0-9]{0,3}(\\.[0-9]{1,3})?)?))\\s*$",
        print: print_duration,
    };
    fn read(node: &Node<'_>, limits: Limits) -> Read<Self> {
        let value: DurationLaw = parse(node, LAW_ALLOWED)?;
        within(node, value, value.mean().as_nanos(), limits, LAW_ALLOWED, print_duration)
    }
    fn write(&self) -> Value {
        self.to_string().into()
    }
}

/// A retransmission timeout of a link. Written `"auto"` or as a duration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LinkTimeout {
    /// Derived from the link: 1.5 times the time a full frame needs to get there and its
    /// acknowledgment to get back.
    Auto,
    /// So long, more than zero.
    After(Duration),
}

impl LinkTimeout {
    /// The time that was set, or else `auto`.
    pub fn or(self, auto: Duration) -> Duration {
        match self {
            LinkTimeout::Auto => auto,
            LinkTimeout::After(timeout) => timeout,
        }
    }
}

impl FromStr for LinkTimeout {
    type Err = ();
    fn from_str(text: &str) -> Result<Self, ()> {
        if text == "auto" {
            return Ok(LinkTimeout::Auto);
        }
        match bounded(text)? {
            Duration::ZERO => Err(()),
            duration => Ok(LinkTimeout::After(duration)),
        }
    }
}

impl fmt::Display for LinkTimeout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LinkTimeout::Auto => f.write_str("auto"),
            LinkTimeout::After(duration) => duration.fmt(f),
        }
    }
}

worded!(
    LinkTimeout,
    "duration or auto",
    "\"auto\", or a duration such as \"250 ms\" (units ns, us, ms, s, min, h), more than zero",
    number_or!("ns|us|µs|ms|s|min|h", "auto")
);

/// How often a frame is sent again. Written as a whole number or `"unlimited"`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Retries {
    /// Until it is acknowledged.
    Unlimited,
    /// So often, 0 for never; then it is given up.
    AtMost(u32),
}

impl Field for Retries {
    const SHAPE: Shape = Shape::IntegerOr(UNLIMITED);
    fn read(node: &Node<'_>, limits: Limits) -> Read<Self> {
        if node.value.as_str() == Some(UNLIMITED) {
            return Ok(Retries::Unlimited);
        }
        u32::read(node, limits).map(Retries::AtMost).map_err(|mut error| {
            error.allowed = format!("{}, or \"{UNLIMITED}\"", error.allowed);
            error
        })
    }
    fn write(&self) -> Value {
        match self {
            Retries::Unlimited => UNLIMITED.into(),
            Retries::AtMost(retries) => (*retries).into(),
        }
    }
}

/// How often a piece of a packet is sent. Written as a whole number or `"unlimited"`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transmissions {
    /// Until it has arrived.
    Unlimited,
    /// So often, the first time included; then it is given up.
    AtMost(u32),
}

impl Transmissions {
    /// The number, if there is a limit.
    pub const fn limit(self) -> Option<u32> {
        match self {
            Transmissions::Unlimited => None,
            Transmissions::AtMost(limit) => Some(limit),
        }
    }
}

impl Field for Transmissions {
    const SHAPE: Shape = Shape::IntegerOr(UNLIMITED);
    fn read(node: &Node<'_>, limits: Limits) -> Read<Self> {
        Retries::read(node, limits).map(|retries| match retries {
            Retries::Unlimited => Transmissions::Unlimited,
            Retries::AtMost(limit) => Transmissions::AtMost(limit),
        })
    }
    fn write(&self) -> Value {
        match self {
            Transmissions::Unlimited => UNLIMITED.into(),
            Transmissions::AtMost(limit) => (*limit).into(),
        }
    }
}

/// Names of different hosts, at least one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hosts(pub Vec<String>);

impl Field for Hosts {
    const SHAPE: Shape = Shape::Hosts;
    fn read(node: &Node<'_>, _: Limits) -> Read<Self> {
        let list = node.value.as_array().filter(|list| !list.is_empty());
        let mut hosts: Vec<String> = Vec::new();
        for value in list.ok_or_else(|| node.wrong(HOSTS_ALLOWED))? {
            let Some(name) = value.as_str().filter(|name| is_name(name)) else {
                return Err(node.wrong(format!("{HOSTS_ALLOWED}; each {NAME_ALLOWED}")));
            };
            if hosts.iter().any(|known| known == name) {
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

/// The word for a thing that does not happen.
const OFF: &str = "off";

/// A timer that may be switched off. Written `"off"` or as a duration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OptionalTimer {
    /// It never runs.
    Off,
    /// So long, more than zero.
    After(Duration),
}

impl OptionalTimer {
    /// Its duration, unless it is off.
    pub fn get(self) -> Option<Duration> {
        match self {
            OptionalTimer::Off => None,
            OptionalTimer::After(duration) => Some(duration),
        }
    }
}

impl FromStr for OptionalTimer {
    type Err = ();
    fn from_str(text: &str) -> Result<Self, ()> {
        match text {
            OFF => Ok(OptionalTimer::Off),
            _ => match bounded(text)? {
                Duration::ZERO => Err(()),
                duration => Ok(OptionalTimer::After(duration)),
            },
        }
    }
}

impl fmt::Display for OptionalTimer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            OptionalTimer::Off => f.write_str(OFF),
            OptionalTimer::After(duration) => duration.fmt(f),
        }
    }
}

worded!(
    OptionalTimer,
    "duration or off",
    "\"off\", or a duration such as \"100 ms\" (units ns, us, ms, s, min, h), more than zero",
    number_or!("ns|us|µs|ms|s|min|h", "off")
);

/// After how many things something happens. Written as a whole number or `"off"`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Every {
    /// It never happens.
    Off,
    /// With every so many of them.
    Nth(u32),
}

impl Every {
    /// The number, unless it is off.
    pub fn get(self) -> Option<u32> {
        match self {
            Every::Off => None,
            Every::Nth(number) => Some(number),
        }
    }
}

impl Field for Every {
    const SHAPE: Shape = Shape::IntegerOr(OFF);
    fn read(node: &Node<'_>, limits: Limits) -> Read<Self> {
        if node.value.as_str() == Some(OFF) {
            return Ok(Every::Off);
        }
        u32::read(node, limits).map(Every::Nth).map_err(|mut error| {
            error.allowed = format!("{}, or \"{OFF}\"", error.allowed);
            error
        })
    }
    fn write(&self) -> Value {
        match self {
            Every::Off => OFF.into(),
            Every::Nth(number) => (*number).into(),
        }
    }
}

/// How often an idle link end says that it is there. Written `"auto"`, `"off"` or as a duration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeepaliveInterval {
    /// Derived from the link: its round trip.
    Auto,
    /// Never.
    Off,
    /// So often, more than zero and at most [`KeepaliveInterval::LONGEST`].
    Every(Duration),
}

impl KeepaliveInterval {
    /// A minute: a later keep-alive finds no loss that a transport has not found itself.
    pub const LONGEST: Duration = Duration::from_secs(60);
}

impl FromStr for KeepaliveInterval {
    type Err = ();
    fn from_str(text: &str) -> Result<Self, ()> {
        match text {
            "auto" => return Ok(KeepaliveInterval::Auto),
            "off" => return Ok(KeepaliveInterval::Off),
            _ => {}
        }
        match bounded(text)? {
            Duration::ZERO => Err(()),
            interval if interval > Self::LONGEST => Err(()),
            interval => Ok(KeepaliveInterval::Every(interval)),
        }
    }
}

impl fmt::Display for KeepaliveInterval {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            KeepaliveInterval::Auto => f.write_str("auto"),
            KeepaliveInterval::Off => f.write_str("off"),
            KeepaliveInterval::Every(interval) => interval.fmt(f),
        }
    }
}

worded!(
    KeepaliveInterval,
    "duration, auto or off",
    "\"auto\", \"off\", or a duration such as \"250 ms\" (units ns, us, ms, s, min, h), more than \
     zero, up to 1 min",
    number_or!("ns|us|µs|ms|s|min|h", "(auto|off)")
);

/// How many keep-alives an idle link end sends. Written `"5 frames"` or `"unlimited"`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeepaliveLimit {
    /// It never stops.
    Unlimited,
    /// So many, at least one.
    Frames(u32),
}

impl FromStr for KeepaliveLimit {
    type Err = ();
    fn from_str(text: &str) -> Result<Self, ()> {
        match (text, counted(text, "frame", "frames")) {
            ("unlimited", _) => Ok(KeepaliveLimit::Unlimited),
            (_, Some(count)) if count > 0 => Ok(KeepaliveLimit::Frames(count)),
            _ => Err(()),
        }
    }
}

impl fmt::Display for KeepaliveLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            KeepaliveLimit::Unlimited => f.write_str("unlimited"),
            KeepaliveLimit::Frames(count) => print_counted(f, *count, "frame"),
        }
    }
}

worded!(
    KeepaliveLimit,
    "frames or unlimited",
    "\"unlimited\", or a number such as \"5 frames\", at least 1",
    "^(unlimited|\\s*[0-9]+\\s*frames?\\s*)$"
);

/// Whether a TCP receiver delays its acknowledgments. Written `"off"` or as a duration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DelayedAck {
    /// Each segment is acknowledged at once.
    Off,
    /// Every second segment is acknowledged, and none later than after this long, more than zero.
    After(Duration),
}

impl FromStr for DelayedAck {
    type Err = ();
    fn from_str(text: &str) -> Result<Self, ()> {
        if text == "off" {
            return Ok(DelayedAck::Off);
        }
        match bounded(text)? {
            Duration::ZERO => Err(()),
            duration => Ok(DelayedAck::After(duration)),
        }
    }
}

impl fmt::Display for DelayedAck {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            DelayedAck::Off => f.write_str("off"),
            DelayedAck::After(duration) => duration.fmt(f),
        }
    }
}

worded!(
    DelayedAck,
    "duration or off",
    "\"off\", or a duration such as \"100 ms\" (units ns, us, ms, s, min, h), more than zero",
    number_or!("ns|us|µs|ms|s|min|h", "off")
);
