//! The threshold that a bandwidth estimate gives: what the estimate carries over a round trip without queueing.

use lasthop_base::units::Duration;

/// The least round trip so far.
#[derive(Clone, Copy, Debug, Default)]
pub struct MinRtt(Option<Duration>);

impl MinRtt {
    /// Takes in a sample, and says whether it is a new minimum.
    #[inline]
    pub fn add(&mut self, rtt: Option<Duration>) -> bool {
        let is_less = rtt.is_some_and(|rtt| self.0.is_none_or(|least| rtt < least));
        if is_less {
            self.0 = rtt;
        }
        is_less
    }

    /// The least of the samples in seconds; infinite before the first.
    #[inline]
    pub fn seconds(self) -> f64 {
        self.0.map_or(f64::INFINITY, Duration::as_secs_f64)
    }

    /// Segments of `segment` bytes that `rate` bytes a second carry in it; none before the first sample.
    pub fn segments_at(self, rate: f64, segment: u64) -> Option<f64> {
        self.0.map(|rtt| rate * rtt.as_secs_f64() / segment as f64)
    }
}
