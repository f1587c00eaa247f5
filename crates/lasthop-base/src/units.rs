//! Physical quantities: integer times, rates, sizes and probabilities, each parsed from and printed
//! with its unit.
//!
//! ```
//! use lasthop_base::units::{Duration, Instant, Rate};
//!
//! let rate: Rate = "64 kbps".parse()?;
//! let delay: Duration = "1.5 ms".parse()?;
//! assert_eq!((rate.as_bps(), delay.as_nanos()), (64_000, 1_500_000));
//! assert_eq!((Instant::ZERO + delay).as_nanos(), 1_500_000);
//! assert!("64 kBps".parse::<Rate>().is_err());
//! # Ok::<(), lasthop_base::units::UnitError>(())
//! ```

mod text;

pub use text::UnitError;

use std::fmt;
use std::ops::{Add, AddAssign, Sub};

/// A point in time of a run, in whole nanoseconds since its start.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Instant(u64);

impl Instant {
    /// The start of the run.
    pub const ZERO: Instant = Instant(0);
    /// Later than every other instant: "no deadline".
    pub const NEVER: Instant = Instant(u64::MAX);

    /// From nanoseconds since the start.
    pub const fn from_nanos(nanos: u64) -> Self {
        Instant(nanos)
    }

    /// Nanoseconds since the start.
    pub const fn as_nanos(self) -> u64 {
        self.0
    }

    /// Seconds since the start, for output only.
    #[inline]
    pub fn as_secs_f64(self) -> f64 {
        self.0 as f64 * 1e-9
    }

    /// Returns the time since `earlier`, or zero if `earlier` is in the future.
    pub const fn saturating_since(self, earlier: Instant) -> Duration {
        Duration(self.0.saturating_sub(earlier.0))
    }
}

impl fmt::Debug for Instant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if *self == Instant::NEVER {
            f.write_str("never")
        } else {
            write!(f, "{}", Duration(self.0))
        }
    }
}

impl Add<Duration> for Instant {
    type Output = Instant;
    #[inline]
    fn add(self, rhs: Duration) -> Instant {
        Instant(self.0 + rhs.0)
    }
}

impl AddAssign<Duration> for Instant {
    #[inline]
    fn add_assign(&mut self, rhs: Duration) {
        self.0 += rhs.0;
    }
}

impl Sub for Instant {
    type Output = Duration;
    #[inline]
    fn sub(self, rhs: Instant) -> Duration {
        debug_assert!(self.0 >= rhs.0, "time runs backwards: {self:?} - {rhs:?}");
        Duration(self.0 - rhs.0)
    }
}

/// A length of time in whole nanoseconds. Written `"50 ms"`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Duration(u64);

impl Duration {
    /// No time.
    pub const ZERO: Duration = Duration(0);

    /// From whole nanoseconds.
    pub const fn from_nanos(nanos: u64) -> Self {
        Duration(nanos)
    }

    /// From whole milliseconds.
    pub const fn from_millis(millis: u64) -> Self {
        Duration(millis * 1_000_000)
    }

    /// From whole seconds.
    pub const fn from_secs(secs: u64) -> Self {
        Duration(secs * 1_000_000_000)
    }

    /// Whole nanoseconds.
    pub const fn as_nanos(self) -> u64 {
        self.0
    }

    /// Seconds, for output only.
    #[inline]
    pub fn as_secs_f64(self) -> f64 {
        self.0 as f64 * 1e-9
    }
}

impl Add for Duration {
    type Output = Duration;
    fn add(self, rhs: Duration) -> Duration {
        Duration(self.0 + rhs.0)
    }
}

impl std::ops::Mul<u64> for Duration {
    type Output = Duration;
    fn mul(self, rhs: u64) -> Duration {
        Duration(self.0 * rhs)
    }
}

/// A rate in bits per second. Written `"64 kbps"`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Rate(u64);

impl Rate {
    /// Unlimited: frames have no transmission time.
    pub const UNLIMITED: Rate = Rate(u64::MAX);

    /// Maximum rate in a scenario, 1 Tbit/s. A byte then takes less than the nanosecond of the
    /// clock, and exact times at this rate fit in 64 bits.
    pub const FASTEST: Rate = Rate(1_000_000_000_000);

    /// Returns `true` if frames have no transmission time.
    pub const fn is_unlimited(self) -> bool {
        self.0 == Self::UNLIMITED.0
    }

    /// From bits per second.
    pub const fn from_bps(bps: u64) -> Self {
        Rate(bps)
    }

    /// Bits per second.
    pub const fn as_bps(self) -> u64 {
        self.0
    }
}

/// A size in bytes. Written `"250 B"`; `kB` and `MB` are powers of ten, `KiB` and `MiB` of two.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Bytes(u64);

impl Bytes {
    /// From a number of bytes.
    pub const fn new(bytes: u64) -> Self {
        Bytes(bytes)
    }

    /// The number of bytes.
    pub const fn get(self) -> u64 {
        self.0
    }

    /// The number of bits.
    pub const fn bits(self) -> u64 {
        self.0 * 8
    }
}

/// A distance or a coordinate, in whole millimetres. Written `"250 m"`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Distance(u64);

impl Distance {
    /// From metres.
    pub const fn from_metres(metres: u64) -> Self {
        Distance(metres * 1_000)
    }

    /// From millimetres.
    pub const fn from_millimetres(millimetres: u64) -> Self {
        Distance(millimetres)
    }

    /// Millimetres.
    pub const fn as_millimetres(self) -> u64 {
        self.0
    }

    /// Metres.
    pub fn as_metres(self) -> f64 {
        self.0 as f64 * 1e-3
    }
}

/// A ratio of powers of at least one, in whole thousandths of a decibel. Written `"10 dB"`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Decibels(u64);

impl Decibels {
    /// From decibels.
    pub const fn new(decibels: u64) -> Self {
        Decibels(decibels * 1_000)
    }

    /// From thousandths of a decibel.
    pub const fn from_thousandths(thousandths: u64) -> Self {
        Decibels(thousandths)
    }

    /// Thousandths of a decibel.
    pub const fn as_thousandths(self) -> u64 {
        self.0
    }

    /// The ratio of powers: 10 for 10 dB.
    pub fn ratio(self) -> f64 {
        libm::pow(10.0, self.0 as f64 * 1e-4)
    }
}

/// A probability in [0, 1]. Written `"2.5 %"` or `0.025`.
#[derive(Clone, Copy, PartialEq, PartialOrd, Default)]
pub struct Probability(f64);

impl Probability {
    /// From a number in [0, 1]; `None` outside.
    pub fn new(p: f64) -> Option<Self> {
        (0.0..=1.0).contains(&p).then_some(Probability(p))
    }

    /// The number in [0, 1].
    pub const fn get(self) -> f64 {
        self.0
    }
}

/// Time on the transmitter of a link, kept exactly: whole nanoseconds plus a fraction in units of
/// 1 / rate nanoseconds, so that back-to-back frames accumulate no rounding drift.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct ExactTime {
    /// Whole nanoseconds.
    pub nanos: u64,
    /// Numerator of the fraction; its denominator is the rate in bits per second.
    pub fraction: u64,
}

impl ExactTime {
    /// Returns the exact end of the transmission of a frame of `bits` that starts at `self`.
    #[inline]
    pub fn after(self, bits: u64, rate: Rate) -> ExactTime {
        if rate.is_unlimited() {
            return self;
        }
        let scaled = bits * 1_000_000_000;
        self.plus(ExactTime { nanos: scaled / rate.0, fraction: scaled % rate.0 }, rate)
    }

    /// Returns the sum of two exact times at the same rate.
    #[inline]
    pub fn plus(self, other: ExactTime, rate: Rate) -> ExactTime {
        let (mut nanos, mut fraction) = (self.nanos + other.nanos, self.fraction + other.fraction);
        if fraction >= rate.0 {
            nanos += 1;
            fraction -= rate.0;
        }
        ExactTime { nanos, fraction }
    }

    /// Returns the instant, rounded down.
    #[inline]
    pub fn instant(self) -> Instant {
        Instant(self.nanos)
    }
}

impl From<Instant> for ExactTime {
    #[inline]
    fn from(instant: Instant) -> Self {
        ExactTime { nanos: instant.0, fraction: 0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn quantities_parse_exactly() {
        assert_eq!("0.1 ms".parse(), Ok(Duration::from_nanos(100_000)));
        assert_eq!("1.35 s".parse(), Ok(Duration::from_millis(1350)));
        assert_eq!("2min".parse(), Ok(Duration::from_secs(120)));
        assert_eq!("9.99 Mbps".parse(), Ok(Rate::from_bps(9_990_000)));
        for text in ["9.99 Mbit/s", "9.99 Mb/s", "9990 kbit/s", "9990kb/s", "9990000 bit/s"] {
            assert_eq!(text.parse(), Ok(Rate::from_bps(9_990_000)), "{text}");
        }
        assert_eq!("10 MB".parse(), Ok(Bytes::new(10_000_000)));
        assert_eq!("10 MiB".parse(), Ok(Bytes::new(10 << 20)));
        assert_eq!("2.5 %".parse::<Probability>().unwrap().get(), 0.025);
        assert_eq!("1e-6".parse::<Probability>().unwrap().get(), 1e-6);
    }

    #[test]
    fn wrong_texts_say_what_is_allowed() {
        for text in
            ["", "5", "ms", "5 parsecs", "-1 s", "1.5 ns", ". s", "1. s", "1e3 s", "999999999 h"]
        {
            let error = text.parse::<Duration>().unwrap_err().to_string();
            assert!(error.contains(&format!("{text:?}")) && error.contains("50 ms"), "{error}");
        }
        for text in ["101 %", "-0.1", "nan", "inf", "two"] {
            assert!(text.parse::<Probability>().is_err(), "{text}");
        }
        // Rates in bytes per second and ambiguous units are rejected.
        for text in ["64 kb", "10 MB/s", "10 mbit/s", "10 Mbit"] {
            assert!(text.parse::<Rate>().is_err(), "{text}");
        }
        assert!("0.5 B".parse::<Bytes>().is_err());
    }

    #[test]
    fn back_to_back_frames_do_not_drift() {
        // 3 bits at 7 bit/s last 428 571 428.571… ns; seven of them last exactly 3 s.
        let mut time = ExactTime::default();
        for _ in 0..7 {
            time = time.after(3, Rate::from_bps(7));
        }
        assert_eq!(time, ExactTime { nanos: 3_000_000_000, fraction: 0 });
    }

    #[test]
    fn frames_take_no_time_without_a_rate() {
        let start = ExactTime { nanos: 7, fraction: 0 };
        assert_eq!(start.after(u64::MAX, Rate::UNLIMITED), start);
        assert_eq!(start.plus(ExactTime::default(), Rate::UNLIMITED), start);
        assert_eq!(Rate::UNLIMITED.to_string(), "unlimited");
        // `unlimited` is valid for links of a scenario, but not for sources.
        assert!("unlimited".parse::<Rate>().is_err());
    }

    proptest! {
        #[test]
        fn printed_quantities_parse_back(value in 1u64..u64::MAX / 4) {
            prop_assert_eq!(Duration(value).to_string().parse(), Ok(Duration(value)));
            prop_assert_eq!(Rate(value).to_string().parse(), Ok(Rate(value)));
            prop_assert_eq!(Bytes(value).to_string().parse(), Ok(Bytes(value)));
        }
    }
}
