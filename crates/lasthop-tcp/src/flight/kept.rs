//! What a connection keeps of the segments that are outstanding: as little as serves its parts.

use crate::config::{Config, Conventions};
use crate::departures::Departures;
use crate::rate::DeliveryRate;
use crate::sent::SentSegments;
use lasthop_base::units::Duration;

/// What is kept of them.
#[derive(Clone, Debug)]
pub(super) enum Kept {
    /// Nothing: nobody measures or looks back.
    Nothing,
    /// When they left, for who measures round trips and deliveries.
    Departures(Box<Departures<()>>),
    /// The same with what rates need.
    Rates(Box<Departures<DeliveryRate>>),
    /// Full records, for a loss detection that looks back.
    Records(Box<SentSegments>),
}

impl Kept {
    /// What the parts that `config` names need.
    pub fn new(config: &Config) -> Self {
        if config.keeps_records() {
            Kept::Records(Box::new(match config.conventions {
                Conventions::Linux => SentSegments::as_linux(),
                _ => SentSegments::new(),
            }))
        } else if config.law.reads_rates() {
            Kept::Rates(Box::default())
        } else if config.hystart || config.law.measures() {
            Kept::Departures(Box::default())
        } else {
            Kept::Nothing
        }
    }

    /// Forgets everything but the room that was taken.
    pub fn reset(&mut self) {
        match self {
            Kept::Nothing => {}
            Kept::Departures(departures) => departures.reset(),
            Kept::Rates(departures) => departures.reset(),
            Kept::Records(records) => records.reset(),
        }
    }

    /// Is nothing kept?
    #[inline]
    pub fn is_nothing(&self) -> bool {
        matches!(self, Kept::Nothing)
    }

    /// The least round trip that it has told.
    pub fn min_rtt(&self) -> Option<Duration> {
        match self {
            Kept::Nothing => None,
            Kept::Departures(departures) => departures.min_rtt(),
            Kept::Rates(departures) => departures.min_rtt(),
            Kept::Records(records) => records.min_rtt(),
        }
    }

    /// End of the segment that begins with `seq`, if that is known.
    pub fn end_of(&self, seq: u64) -> Option<u64> {
        match self {
            Kept::Nothing => None,
            Kept::Departures(departures) => departures.end_of(seq),
            Kept::Rates(departures) => departures.end_of(seq),
            Kept::Records(records) => records.end_of(seq),
        }
    }
}
