//! Times that the defaults of a link protocol are worked out from.

use crate::units::{Bytes, Duration, Instant, Rate};

/// A link as its protocol's timers see it: what they are tuned to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LinkTiming {
    /// Bit rate of both directions, in bits per second.
    pub rate: Rate,
    /// Propagation delay one way (P), in nanoseconds.
    pub delay: Duration,
    /// Length of a full data frame on the air, header included, in bytes.
    pub data_frame: Bytes,
    /// Length of a control frame on the air, in bytes.
    pub control_frame: Bytes,
}

impl LinkTiming {
    /// Air time of a data frame, T_f, rounded up.
    pub fn frame_time(&self) -> Duration {
        airtime(self.data_frame, self.rate)
    }

    /// Air time of a control frame, T_ack, rounded up.
    pub fn control_time(&self) -> Duration {
        airtime(self.control_frame, self.rate)
    }

    /// RTT_L = 2 P + T_f + T_ack: from the start of a frame to the end of its acknowledgment.
    pub fn round_trip(&self) -> Duration {
        self.delay * 2 + self.frame_time() + self.control_time()
    }

    /// RTT_L + T_f: the same if the acknowledgment waits for a data frame of the other direction.
    pub fn turnaround(&self) -> Duration {
        self.round_trip() + self.frame_time()
    }
}

/// Air time of `bytes` at `rate`, rounded up; without end at rate 0.
fn airtime(bytes: Bytes, rate: Rate) -> Duration {
    let nanos = match u128::from(rate.as_bps()) {
        0 => u128::from(u64::MAX),
        bps => (u128::from(bytes.get()) * 8_000_000_000).div_ceil(bps),
    };
    Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
}

/// `start + timeout`; a timeout of centuries means never, not an overflow.
#[inline]
pub(super) fn deadline(start: Instant, timeout: Duration) -> Instant {
    Instant::from_nanos(start.as_nanos().saturating_add(timeout.as_nanos()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cellular_link_of_the_reference_has_its_times() {
        let timing = LinkTiming {
            rate: Rate::from_bps(43_200),
            delay: Duration::from_millis(100),
            data_frame: Bytes::new(52),
            control_frame: Bytes::new(2),
        };
        assert_eq!(timing.frame_time(), Duration::from_nanos(9_629_630));
        assert_eq!(timing.round_trip(), Duration::from_nanos(210_000_001));
        assert_eq!(timing.turnaround(), timing.round_trip() + timing.frame_time());
    }
}
