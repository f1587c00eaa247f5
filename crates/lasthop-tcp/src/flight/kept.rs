//! Records of outstanding segments: only the data that the configuration requires.

use crate::config::{Config, Profile};
use crate::departures::Departures;
use crate::rate::DeliveryRate;
use crate::sent::SentSegments;
use lasthop_base::units::Duration;

/// Records of outstanding segments.
#[derive(Clone, Debug)]
pub(super) enum Kept {
    /// No records: they are not required.
    Nothing,
    /// Send times, for the measurement of RTTs and deliveries.
    Departures(Box<Departures<()>>),
    /// Send times and the data for rates.
    Rates(Box<Departures<DeliveryRate>>),
    /// Full records, for loss detection.
    Records(Box<SentSegments>),
}

impl Kept {
    /// Creates the records required by `config`.
    pub fn new(config: &Config) -> Self {
        if config.keeps_records() {
            Kept::Records(Box::new(match config.profile {
                Profile::Linux => SentSegments::as_linux(),
                _ => SentSegments::new(),
            }))
        } else if config.congestion_control.reads_rates() {
            Kept::Rates(Box::default())
        } else if config.hystart || config.congestion_control.measures() {
            Kept::Departures(Box::default())
        } else {
            Kept::Nothing
        }
    }

    /// Clears all records but keeps the allocated memory.
    pub fn reset(&mut self) {
        match self {
            Kept::Nothing => {}
            Kept::Departures(departures) => departures.reset(),
            Kept::Rates(departures) => departures.reset(),
            Kept::Records(records) => records.reset(),
        }
    }

    /// Returns `true` if no records are kept.
    #[inline]
    pub fn is_nothing(&self) -> bool {
        matches!(self, Kept::Nothing)
    }

    /// Minimum RTT measured.
    pub fn min_rtt(&self) -> Option<Duration> {
        match self {
            Kept::Nothing => None,
            Kept::Departures(departures) => departures.min_rtt(),
            Kept::Rates(departures) => departures.min_rtt(),
            Kept::Records(records) => records.min_rtt(),
        }
    }

    /// End of the segment that starts at `seq`, if recorded.
    pub fn end_of(&self, seq: u64) -> Option<u64> {
        match self {
            Kept::Nothing => None,
            Kept::Departures(departures) => departures.end_of(seq),
            Kept::Rates(departures) => departures.end_of(seq),
            Kept::Records(records) => records.end_of(seq),
        }
    }
}
