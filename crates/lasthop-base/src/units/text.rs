//! Text form of quantities: numbers with units.

use super::{Bytes, Decibels, Distance, Duration, Probability, Rate};
use std::fmt;
use std::str::FromStr;

/// Error for a text that is not a quantity: value found and values allowed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("found {found}; expected {allowed}")]
pub struct UnitError {
    /// Value found, quoted.
    pub found: String,
    /// Description of the values allowed.
    pub allowed: &'static str,
}

/// Splits `"2.5 ms"` into number and unit and scales the number to the unit's size in base units.
/// Scaling happens in decimal, so that `"0.1 ms"` is exactly 100 000 ns.
fn scaled(text: &str, units: &[(&str, u64)], allowed: &'static str) -> Result<u64, UnitError> {
    let error = || UnitError { found: format!("{text:?}"), allowed };
    let trimmed = text.trim();
    let split =
        trimmed.find(|c: char| !(c.is_ascii_digit() || c == '.' || c == '_')).ok_or_else(error)?;
    let (number, unit) = trimmed.split_at(split);
    let unit = unit.trim_start();
    let size = units.iter().find(|(name, _)| *name == unit).ok_or_else(error)?.1;
    let number = number.replace('_', "");
    let (whole, decimals) = number.split_once('.').unwrap_or((&number, ""));
    if whole.is_empty() || (number.contains('.') && decimals.is_empty()) || decimals.len() > 15 {
        return Err(error());
    }
    let whole: u128 = whole.parse().map_err(|_| error())?;
    let denominator = 10u128.pow(decimals.len() as u32);
    let decimals: u128 =
        if decimals.is_empty() { 0 } else { decimals.parse().map_err(|_| error())? };
    let numerator = whole
        .checked_mul(denominator)
        .and_then(|n| n.checked_add(decimals))
        .and_then(|n| n.checked_mul(u128::from(size)))
        .ok_or_else(error)?;
    if numerator % denominator != 0 {
        return Err(error());
    }
    u64::try_from(numerator / denominator).map_err(|_| error())
}

/// Prints the value with the largest unit that needs at most three decimals.
fn print_scaled(value: u64, units: &[(&str, u64)], f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let &(name, size) = units
        .iter()
        .find(|(_, size)| value >= *size && (value as u128 * 1000).is_multiple_of(*size as u128))
        .unwrap_or(&units[units.len() - 1]);
    let (whole, thousandths) = (value / size, (value % size) as u128 * 1000 / size as u128);
    if thousandths == 0 {
        write!(f, "{whole} {name}")
    } else {
        let decimals = format!("{thousandths:03}");
        write!(f, "{whole}.{} {name}", decimals.trim_end_matches('0'))
    }
}

const DURATION_UNITS: &[(&str, u64)] = &[
    ("h", 3_600_000_000_000),
    ("min", 60_000_000_000),
    ("s", 1_000_000_000),
    ("ms", 1_000_000),
    ("us", 1_000),
    ("µs", 1_000),
    ("ns", 1),
];
/// Units of printed durations, without minutes and hours: `1.5 min` is hard to read.
const DURATION_PRINT: &[(&str, u64)] =
    &[("s", 1_000_000_000), ("ms", 1_000_000), ("us", 1_000), ("ns", 1)];
const RATE_UNITS: &[(&str, u64)] =
    &[("Gbps", 1_000_000_000), ("Mbps", 1_000_000), ("kbps", 1_000), ("bps", 1)];
/// Units of rates in input: data sheets and other tools use three spellings.
const RATE_SPELLINGS: &[(&str, u64)] = &[
    ("bps", 1),
    ("kbps", 1_000),
    ("Mbps", 1_000_000),
    ("Gbps", 1_000_000_000),
    ("bit/s", 1),
    ("kbit/s", 1_000),
    ("Mbit/s", 1_000_000),
    ("Gbit/s", 1_000_000_000),
    ("b/s", 1),
    ("kb/s", 1_000),
    ("Mb/s", 1_000_000),
    ("Gb/s", 1_000_000_000),
];
const BYTES_UNITS: &[(&str, u64)] = &[
    ("GB", 1_000_000_000),
    ("MB", 1_000_000),
    ("kB", 1_000),
    ("GiB", 1 << 30),
    ("MiB", 1 << 20),
    ("KiB", 1 << 10),
    ("B", 1),
];
const BYTES_PRINT: &[(&str, u64)] =
    &[("GB", 1_000_000_000), ("MB", 1_000_000), ("kB", 1_000), ("B", 1)];

const DISTANCE_UNITS: &[(&str, u64)] = &[("km", 1_000_000), ("m", 1_000), ("cm", 10), ("mm", 1)];
/// Units of printed distances.
const DISTANCE_PRINT: &[(&str, u64)] = &[("km", 1_000_000), ("m", 1_000), ("mm", 1)];
const DECIBEL_UNITS: &[(&str, u64)] = &[("dB", 1_000)];

impl FromStr for Duration {
    type Err = UnitError;
    fn from_str(text: &str) -> Result<Self, UnitError> {
        scaled(
            text,
            DURATION_UNITS,
            "a duration such as \"50 ms\" (units ns, us, ms, s, min, h; whole nanoseconds)",
        )
        .map(Duration)
    }
}

impl fmt::Display for Duration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0 == 0 { f.write_str("0 s") } else { print_scaled(self.0, DURATION_PRINT, f) }
    }
}

impl fmt::Debug for Duration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for Rate {
    type Err = UnitError;
    fn from_str(text: &str) -> Result<Self, UnitError> {
        scaled(
            text,
            RATE_SPELLINGS,
            "a rate such as \"64 kbps\" (units bps, kbps, Mbps, Gbps, also as Mbit/s or Mb/s; whole \
             bits per second)",
        )
        .map(Rate)
    }
}

impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_unlimited() {
            f.write_str("unlimited")
        } else {
            print_scaled(self.0, RATE_UNITS, f)
        }
    }
}

impl fmt::Debug for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for Bytes {
    type Err = UnitError;
    fn from_str(text: &str) -> Result<Self, UnitError> {
        scaled(
            text,
            BYTES_UNITS,
            "a size such as \"250 B\" (units B, kB, MB, GB, KiB, MiB, GiB; whole bytes)",
        )
        .map(Bytes)
    }
}

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        print_scaled(self.0, BYTES_PRINT, f)
    }
}

impl fmt::Debug for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for Distance {
    type Err = UnitError;
    fn from_str(text: &str) -> Result<Self, UnitError> {
        let allowed = "a distance such as \"250 m\" (units mm, cm, m, km; whole millimetres)";
        scaled(text, DISTANCE_UNITS, allowed).map(Distance)
    }
}

impl fmt::Display for Distance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0 == 0 { f.write_str("0 m") } else { print_scaled(self.0, DISTANCE_PRINT, f) }
    }
}

impl fmt::Debug for Distance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for Decibels {
    type Err = UnitError;
    fn from_str(text: &str) -> Result<Self, UnitError> {
        let allowed = "a ratio of powers such as \"10 dB\" (at most three decimals)";
        scaled(text, DECIBEL_UNITS, allowed).map(Decibels)
    }
}

impl fmt::Display for Decibels {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        print_scaled(self.0, DECIBEL_UNITS, f)
    }
}

impl fmt::Debug for Decibels {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for Probability {
    type Err = UnitError;
    fn from_str(text: &str) -> Result<Self, UnitError> {
        let error = || UnitError {
            found: format!("{text:?}"),
            allowed: "a probability such as \"2.5 %\" or 0.025, from 0 to 1",
        };
        let trimmed = text.trim();
        let (number, scale) = match trimmed.strip_suffix('%') {
            Some(rest) => (rest.trim_end(), 100.0),
            None => (trimmed, 1.0),
        };
        // `f64::from_str` also accepts "inf" and "nan", which the range check rejects.
        let value: f64 = number.parse().map_err(|_| error())?;
        Probability::new(value / scale).ok_or_else(error)
    }
}

impl fmt::Display for Probability {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Decimal places beyond 1e-12 are rounding noise of the multiplication.
        let percent = (self.0 * 100.0 * 1e12).round() / 1e12;
        if self.0 != 0.0 && self.0 < 1e-4 {
            write!(f, "{:e}", self.0)
        } else {
            write!(f, "{percent} %")
        }
    }
}

impl fmt::Debug for Probability {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
