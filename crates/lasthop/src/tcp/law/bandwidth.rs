//! The threshold that a bandwidth estimate gives: what the estimate carries over a round trip without queueing.

use crate::units::Duration;

/// The least round trip so far.
#[derive(Clone, Copy, Debug, Default)]
pub struct MinRtt(Option<Duration>);

impl MinRtt {
    /// Takes in a sample.
    #[inline]
    pub fn add(&mut self, rtt: Option<Duration>) {
        if let Some(rtt) = rtt {
            self.0 = Some(self.0.map_or(rtt, |least| least.min(rtt)));
        }
    }

    /// Segments of `segment` bytes that `rate` bytes a second carry in it; none before the first sample.
    pub fn segments_at(self, rate: f64, segment: u64) -> Option<f64> {
        self.0.map(|rtt| rate * rtt.as_secs_f64() / segment as f64)
    }
}
