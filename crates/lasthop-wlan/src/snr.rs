//! Signal-to-noise ratio (SNR) of a link in a scenario: constant, by distance, from a list, or from a recording;
//! and fading of the signal.
//!
//! By distance d, with the SNR at 1 m and the path loss exponent n,
//!
//! ```text
//!   SNR(d) = SNR(1 m) - 10 n log10(d / 1 m),  d at least 1 m
//! ```
//!
//! The default SNR at 1 m is 63.3 dB at 20 MHz and 3 dB less for each doubling of the width: 16.02 dBm of
//! transmitted power, a path loss of 46.68 dB at 1 m and 5.15 GHz, thermal noise of -174 dBm/Hz and a noise
//! figure of 7 dB, the defaults of ns-3's `LogDistancePropagationLossModel` and `WifiPhy`, as is the exponent 3.

use crate::phy::Width;
use lasthop_base::schema::ScenarioError;
use lasthop_base::schema::keys::{Limits, Node, kinds, table};
use lasthop_base::schema::quantity::Mean;
use lasthop_base::schema::recording::{Quantity, Recorded, StepList, check_repeat};
use lasthop_base::schema::shorthand::Shorthand;
use lasthop_base::schema::steps::Steps;
use lasthop_base::timeline::Timeline;
use lasthop_base::units::{Decibels, Distance, Duration};

/// SNR in thousandths of a decibel.
type Level = i32;

/// Ratios of powers, in thousandths of a decibel.
const RATIO: Limits = Limits::range(0, 100_000);
/// Distances, from 1 mm to 100 km.
const DISTANCE: Limits = Limits::range(1, 100_000_000);
/// Periods of fading, from 1 ms to 1000 s.
const PERIOD: Limits = Limits::range(1_000_000, 1_000_000_000_000);

/// SNR at 1 m with 20 MHz, in dB.
const SNR_AT_1_M: f64 = 63.3;

kinds! {
    /// Signal-to-noise ratio at both ends of a link.
    pub enum SnrKeys {
        Constant(ConstantSnrKeys),
        Distance(DistanceSnrKeys),
        Steps(SnrStepsKeys),
        Trace(SnrTraceKeys),
    }
}

table! {
    /// A constant SNR. An SNR alone is equivalent: snr = "25 dB".
    pub struct ConstantSnrKeys as "constant" {
        /// Signal-to-noise ratio.
        snr: Decibels, RATIO;
    }
}

table! {
    /// An SNR that follows from the distance of station and access point by a path loss exponent.
    pub struct DistanceSnrKeys as "distance" {
        /// Distance of station and access point; default: that of their positions.
        distance: Option<Distance>, DISTANCE;
        /// SNR at 1 m; default: 63.3 dB at 20 MHz, 3 dB less for each doubling of the width.
        snr_at_1_m: Option<Decibels>, RATIO;
        /// Path loss exponent.
        exponent: Mean = "3";
    }
}

table! {
    /// An SNR that changes at given times.
    pub struct SnrStepsKeys as "steps" {
        /// Pairs of a time and the SNR from this time onwards. The first time is "0 s".
        at: Steps<Decibels>;
        /// Time after which the list is repeated. Without it, the last SNR applies to the end.
        repeat: Option<Duration>, Limits::POSITIVE;
    }
}

/// A recorded SNR.
pub type SnrTraceKeys = Recorded<RecordedSnr>;

/// The values of a recorded SNR, in thousandths of a decibel.
#[derive(Clone, Debug, PartialEq)]
pub struct RecordedSnr;

impl Quantity for RecordedSnr {
    type Value = Level;
    const NAME: &'static str = "snr";
    const ABOUT: &'static str = "A recorded SNR.";
    const FILE: &'static str = "File name of the recording, relative to the scenario file. The file \
        contains lines of a time in seconds and the SNR from this time onwards in dB, separated by \
        a comma. The first time is 0. The first line may contain column names. Lines that begin \
        with # are comments.";
    const REPEAT: &'static str = "Time after which the recording is repeated. Without it, its last \
        SNR applies to the end.";
    const ALLOWED: &'static str = "a time in seconds, a comma and an SNR from -20 to 100 dB; times \
        from 0 on, each after the one before";

    fn parse(text: &str) -> Option<Level> {
        let decibels = text.parse::<f64>().ok()?;
        (-20.0..=100.0).contains(&decibels).then(|| (decibels * 1e3).round() as Level)
    }
}

fn of(decibels: Decibels) -> Level {
    decibels.as_thousandths() as Level
}

impl SnrKeys {
    /// Returns the SNR in dB if it is constant; `distance`: that of the positions in metres, if any.
    pub fn constant(&self, width: Width, distance: Option<f64>) -> Option<f64> {
        match self {
            SnrKeys::Constant(keys) => Some(f64::from(of(keys.snr)) / 1e3),
            SnrKeys::Distance(keys) => {
                let distance = keys.distance.map(Distance::as_metres).or(distance)?;
                let doublings = libm::log2(f64::from(width.mhz()) / 20.0);
                let default = SNR_AT_1_M - 3.0 * doublings;
                let at_1_m = keys.snr_at_1_m.map_or(default, |snr| f64::from(of(snr)) / 1e3);
                Some(at_1_m - 10.0 * keys.exponent.0 * libm::log10(distance.max(1.0)))
            }
            SnrKeys::Steps(_) | SnrKeys::Trace(_) => None,
        }
    }

    /// Returns `true` if the distance of the positions determines the SNR.
    pub fn needs_positions(&self) -> bool {
        matches!(self, SnrKeys::Distance(keys) if keys.distance.is_none())
    }

    /// Returns the steps (time in nanoseconds and SNR in thousandths of a dB) and the period of an SNR that
    /// changes at given times.
    fn changes(&self) -> Option<(StepList<Level>, Option<Duration>)> {
        match self {
            SnrKeys::Steps(keys) => {
                let steps = keys.at.0.iter().map(|&(at, snr)| (at.as_nanos(), of(snr)));
                Some((steps.collect(), keys.repeat))
            }
            SnrKeys::Trace(keys) => Some((keys.record.clone(), keys.repeat)),
            SnrKeys::Constant(_) | SnrKeys::Distance(_) => None,
        }
    }

    /// Returns the course of the SNR in thousandths of a dB. `distance`: that of the positions, if any.
    pub fn course(&self, width: Width, distance: Option<f64>) -> Timeline<Level> {
        let fixed = || {
            let constant = self.constant(width, distance).unwrap_or_default();
            ([(0, (constant * 1e3).round() as Level)].into(), None)
        };
        let (steps, repeat) = self.changes().unwrap_or_else(fixed);
        Timeline::new(steps, repeat.map(Duration::as_nanos))
    }

    /// Returns the contents of the recording, for the hash of the scenario.
    pub fn contents(&self) -> Vec<u8> {
        match self {
            SnrKeys::Trace(keys) => {
                let bytes = |&(at, level): &(u64, Level)| {
                    at.to_le_bytes().into_iter().chain(level.to_le_bytes())
                };
                keys.record.iter().flat_map(bytes).collect()
            }
            _ => Vec::new(),
        }
    }
}

/// An SNR alone specifies a constant SNR.
impl Shorthand for SnrKeys {
    type Short = Decibels;
    const KEY: (&'static str, &'static str) = ("constant", "snr");

    fn from_short(snr: Decibels) -> Self {
        SnrKeys::Constant(ConstantSnrKeys { snr })
    }

    fn to_short(&self) -> Option<Decibels> {
        match self {
            SnrKeys::Constant(keys) => Some(keys.snr),
            _ => None,
        }
    }

    fn check(&self, node: &Node<'_>) -> Result<(), ScenarioError> {
        match self {
            SnrKeys::Steps(_) => match self.changes() {
                Some((steps, repeat)) => check_repeat(&steps, repeat, node),
                None => Ok(()),
            },
            _ => Ok(()),
        }
    }
}

kinds! {
    /// Fading of the signal of a link, relative to its SNR; both directions fade alike.
    pub enum FadingKeys {
        Rayleigh(RayleighKeys),
        Rician(RicianKeys),
    }
}

table! {
    /// Rayleigh fading with Clarke's spectrum: scattered waves without a line of sight.
    pub struct RayleighKeys as "rayleigh" {
        /// Time in which the station moves by a wavelength, the inverse of the maximum Doppler shift: 48 ms at
        /// 1.2 m/s and 5.2 GHz.
        period: Duration, PERIOD;
    }
}

table! {
    /// Rician fading: scattered waves and a line of sight.
    pub struct RicianKeys as "rician" {
        /// Time in which the station moves by a wavelength, the inverse of the maximum Doppler shift.
        period: Duration, PERIOD;
        /// Ratio of the power of the line of sight to that of the scattered waves (K factor).
        k_factor: Decibels = "6 dB", RATIO;
    }
}

impl FadingKeys {
    /// Returns the period, and the ratio of the powers of the line of sight and the scattered waves.
    pub fn parameters(&self) -> (Duration, f64) {
        match self {
            FadingKeys::Rayleigh(keys) => (keys.period, 0.0),
            FadingKeys::Rician(keys) => (keys.period, keys.k_factor.ratio()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// By hand: 63.3 - 30 log10(20) = 24.27 dB; at 80 MHz 6 dB less; with the exponent 2 and 40 dB at 1 m, 14 dB.
    #[test]
    fn snr_by_distance() {
        let keys = |distance, snr_at_1_m, exponent| {
            SnrKeys::Distance(DistanceSnrKeys { distance, snr_at_1_m, exponent: Mean(exponent) })
        };
        let near = Some("20 m".parse().expect("valid"));
        let is = |found: Option<f64>, expected: f64| {
            assert!(found.is_some_and(|found| (found - expected).abs() < 0.01), "{found:?}");
        };
        is(keys(near, None, 3.0).constant(Width::Mhz20, None), 24.27);
        is(keys(near, None, 3.0).constant(Width::Mhz80, Some(1.0)), 18.27);
        is(keys(None, Some(Decibels::new(40)), 2.0).constant(Width::Mhz20, Some(20.0)), 13.98);
        is(keys(None, None, 3.0).constant(Width::Mhz20, Some(0.1)), 63.3);
        assert_eq!(keys(None, None, 3.0).constant(Width::Mhz20, None), None);
        assert!(keys(None, None, 3.0).needs_positions());
    }
}
