//! Quantities that a word may replace, such as "auto", "off" or "unlimited", and counts such as "50
//! packets".

use super::{bounded, parse};
use crate::schema::keys::{Field, Limits, Node, Read, Shape};
use crate::units::{Bytes, Duration, Rate};
use serde_json::Value;
use std::fmt;
use std::str::FromStr;

/// The word for no limit.
const UNLIMITED: &str = "unlimited";

/// Shape of a quantity that a word or a count may replace.
macro_rules! number_or {
    ($units:literal, $other:literal) => {
        concat!("^\\s*[0-9][0-9_]*(\\.[0-9_]{1,15})?\\s*(", $units, ")\\s*$|^", $other, "$")
    };
}

/// Implements the reader and the writer of a type from its `FromStr` and `Display`.
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

/// Transmission rate of a link. Written as a rate, or `"unlimited"`: frames have no transmission
/// time.
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

/// Splits a whole number from the following word, as in "50 packets".
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

/// Capacity of an interface queue. Written `"50 packets"` or `"64 kB"`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QueueLimit {
    /// Number of packets, at least 1, including the one in transmission.
    Packets(u32),
    /// Number of bytes, at least 1, including those in transmission.
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
            // Numbers above `u32` are sizes.
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

/// Window of TCP. Written `"20 segments"` or `"64 kB"`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Window {
    /// Number of full-sized segments, at least 1.
    Segments(u32),
    /// Number of payload bytes, at least 1.
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

/// Retransmission timeout of a link. Written `"auto"` or as a duration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LinkTimeout {
    /// Derived from the link: 1.5 times the time from the start of a full frame to the arrival of
    /// its acknowledgment.
    Auto,
    /// This duration, above 0.
    After(Duration),
}

impl LinkTimeout {
    /// Returns the configured duration, or `auto`.
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

/// Maximum number of retransmissions of a frame. Written as a whole number or `"unlimited"`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Retries {
    /// Until the frame is acknowledged.
    Unlimited,
    /// At most this number, 0 for none; the frame is then discarded.
    AtMost(u32),
}

impl Field for Retries {
    const HAS_LIMITS: bool = true;
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

/// Maximum number of transmissions of a segment of a packet. Written as a whole number or
/// `"unlimited"`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transmissions {
    /// Until the segment has been received.
    Unlimited,
    /// At most this number, including the first transmission; the segment is then discarded.
    AtMost(u32),
}

impl Transmissions {
    /// Returns the number, if it is limited.
    pub const fn limit(self) -> Option<u32> {
        match self {
            Transmissions::Unlimited => None,
            Transmissions::AtMost(limit) => Some(limit),
        }
    }
}

impl Field for Transmissions {
    const HAS_LIMITS: bool = true;
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

/// The word for a disabled feature.
const OFF: &str = "off";

/// A timer that can be disabled. Written `"off"` or as a duration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OptionalTimer {
    /// Disabled.
    Off,
    /// This duration, above 0.
    After(Duration),
}

impl OptionalTimer {
    /// Returns the duration, unless the timer is disabled.
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

/// Number of events after which an action is taken. Written as a whole number or `"off"`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Every {
    /// Never.
    Off,
    /// At every n-th event.
    Nth(u32),
}

impl Every {
    /// Returns the number, unless it is off.
    pub fn get(self) -> Option<u32> {
        match self {
            Every::Off => None,
            Every::Nth(number) => Some(number),
        }
    }
}

impl Field for Every {
    const HAS_LIMITS: bool = true;
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

/// Interval between keep-alives of an idle link end. Written `"auto"`, `"off"` or as a duration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeepaliveInterval {
    /// Derived from the link: its round-trip time.
    Auto,
    /// Never.
    Off,
    /// This duration, above 0 and at most [`KeepaliveInterval::LONGEST`].
    Every(Duration),
}

impl KeepaliveInterval {
    /// One minute. A later keep-alive would detect no loss that the transport has not already
    /// detected.
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

/// Maximum number of keep-alives of an idle link end. Written `"5 frames"` or `"unlimited"`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeepaliveLimit {
    /// Unlimited.
    Unlimited,
    /// This number, at least 1.
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

/// Delay of acknowledgments of a TCP receiver. Written `"off"` or as a duration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DelayedAck {
    /// Each segment is acknowledged immediately.
    Off,
    /// Every second segment is acknowledged, and each segment after at most this duration, above 0.
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
