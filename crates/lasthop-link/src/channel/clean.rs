//! No losses.
//!
//! State: none. Uses no random numbers.

use super::{Airtime, ChannelError, ErrorKeys, ErrorProcess};
use lasthop_base::rng::Streams;
use lasthop_base::schema::keys::table;

table! {
    /// No frame is lost.
    pub struct CleanKeys as "none" {}
}

impl ErrorKeys for CleanKeys {
    type Process = Clean;

    fn build(&self, _streams: &Streams, _component: &str) -> Result<Clean, ChannelError> {
        Ok(Clean {})
    }
}

/// Error process without losses or random numbers.
///
/// ```
/// use lasthop_base::units::{Duration, Instant};
/// use lasthop_link::channel::{Airtime, Clean, ErrorProcess};
///
/// let end = Instant::ZERO + Duration::from_millis(1);
/// let frame = Airtime { start: Instant::ZERO, end, bits: 8_000 };
/// assert!(!Clean {}.is_lost(frame));
/// assert_eq!(Clean {}.lost_units(frame, 8), 0);
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Clean {}

impl ErrorProcess for Clean {
    fn is_lost(&mut self, _airtime: Airtime) -> bool {
        false
    }

    fn lost_units(&mut self, _airtime: Airtime, _units: u8) -> u64 {
        0
    }
}
