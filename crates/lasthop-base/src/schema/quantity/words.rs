//! Quantities for which a word may stand, such as "auto", "off" or "unlimited", and counted things such
//! as "50 packets".

use super::{bounded, parse};
use crate::schema::keys::{Field, Limits, Node, Read, Shape};
use crate::units::{Bytes, Duration, Rate};
use serde_json::Value;
use std::fmt;
use std::str::FromStr;

/// The word for no limit.
const UNLIMITED: &str = "unlimited";

/// Where a word or a counted thing may stand in place of a quantity.
macro_rules! number_or {
    ($units:literal, $other:literal) => {
        concat!("^\\s*[0-9][0-9_]*(\\.[0-9_]{1,15})?\\s*(", $units, ")\\s*$|^", $other, "$")
    };
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
