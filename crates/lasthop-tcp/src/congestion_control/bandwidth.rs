//! Minimum RTT, and the bandwidth-delay product that bandwidth-based thresholds are computed from.

use lasthop_base::units::Duration;

/// Minimum RTT of the connection.
#[derive(Clone, Copy, Debug, Default)]
pub struct MinRtt(Option<Duration>);

impl MinRtt {
    /// Adds an RTT sample. Returns `true` if it is a new minimum.
    #[inline]
    pub fn add(&mut self, rtt: Option<Duration>) -> bool {
        let is_less = rtt.is_some_and(|rtt| self.0.is_none_or(|least| rtt < least));
        if is_less {
            self.0 = rtt;
        }
        is_less
    }

    /// Returns the minimum RTT in seconds; infinite before the first sample.
    #[inline]
    pub fn seconds(self) -> f64 {
        self.0.map_or(f64::INFINITY, Duration::as_secs_f64)
    }

    /// Returns the bandwidth-delay product of `rate` (bytes per second) and the minimum RTT, in
    /// segments of `segment` bytes. `None` before the first sample.
    pub fn segments_at(self, rate: f64, segment: u64) -> Option<f64> {
        self.0.map(|rtt| rate * rtt.as_secs_f64() / segment as f64)
    }
}
