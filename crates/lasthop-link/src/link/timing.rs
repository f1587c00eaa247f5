//! Times of a link from which the defaults of link protocols are derived.

use lasthop_base::units::{Bytes, Duration, Instant, Rate};

/// Properties of a link for the timers of one endpoint, which sends data in its own direction and
/// receives acknowledgments in the other one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LinkTiming {
    /// Bit rate of the endpoint's own direction (R).
    pub rate: Rate,
    /// Propagation delay of the endpoint's own direction (P).
    pub delay: Duration,
    /// Bit rate of the other direction (R').
    pub back_rate: Rate,
    /// Propagation delay of the other direction (P').
    pub back_delay: Duration,
    /// Length of a full data frame, header included.
    pub data_frame: Bytes,
    /// Length of a control frame.
    pub control_frame: Bytes,
}

impl LinkTiming {
    /// Returns the times of a link with equal directions.
    pub fn symmetric(rate: Rate, delay: Duration, data_frame: Bytes, control_frame: Bytes) -> Self {
        let (back_rate, back_delay) = (rate, delay);
        LinkTiming { rate, delay, back_rate, back_delay, data_frame, control_frame }
    }

    /// Returns the transmission time of a data frame, T_f, rounded up.
    pub fn frame_time(&self) -> Duration {
        airtime(self.data_frame, self.rate)
    }

    /// Returns the transmission time of a data frame of the other direction, T_f', rounded up.
    pub fn back_frame_time(&self) -> Duration {
        airtime(self.data_frame, self.back_rate)
    }

    /// Returns the transmission time of a control frame, T_ack, rounded up.
    pub fn control_time(&self) -> Duration {
        airtime(self.control_frame, self.rate)
    }

    /// Returns the transmission time of a control frame of the other direction, T_ack', rounded up.
    pub fn back_control_time(&self) -> Duration {
        airtime(self.control_frame, self.back_rate)
    }

    /// Returns RTT_L = T_f + P + T_ack' + P', the time from the start of a frame to the end of its
    /// acknowledgment.
    pub fn round_trip(&self) -> Duration {
        self.frame_time() + self.delay + self.back_control_time() + self.back_delay
    }

    /// Returns RTT_L + T_f', the time if the acknowledgment waits for a data frame of the other
    /// direction.
    pub fn turnaround(&self) -> Duration {
        self.round_trip() + self.back_frame_time()
    }

    /// Returns RTT_L + 2 T_f', the time if the acknowledgment waits for one data frame and is
    /// piggybacked on the next. This is the maximum for a frame received without errors.
    pub fn longest_turnaround(&self) -> Duration {
        self.turnaround() + self.back_frame_time()
    }

    /// Returns RTT_L + T_f' + T_f + n max(T_f, T_ack') + P + 2 T_f' + P', the time if the
    /// acknowledgment waits for `copies` (n) earlier frames, each lost once. Their NACKs wait for a
    /// data frame of the other direction, and the retransmissions for one of the own direction. The
    /// acknowledgment waits for one data frame and is piggybacked on the next.
    pub fn repaired_turnaround(&self, copies: u64) -> Duration {
        let copy = self.frame_time().max(self.back_control_time());
        let repair = self.frame_time() + copy * copies + self.delay;
        self.turnaround() + repair + self.back_frame_time() * 2 + self.back_delay
    }

    /// Returns T_ack + P + 2 T_f' + P', the time from the start of a NACK to the end of the
    /// retransmission, if that waits for a data frame.
    pub fn repair_time(&self) -> Duration {
        self.control_time() + self.delay + self.back_frame_time() * 2 + self.back_delay
    }
}

/// Returns the transmission time of `bytes` at `rate`, rounded up: unlimited at rate 0, and 0 at an
/// unlimited rate.
pub fn airtime(bytes: Bytes, rate: Rate) -> Duration {
    if rate.is_unlimited() {
        return Duration::ZERO;
    }
    let nanos = match u128::from(rate.as_bps()) {
        0 => u128::from(u64::MAX),
        bps => (u128::from(bytes.get()) * 8_000_000_000).div_ceil(bps),
    };
    Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
}

/// Returns `start + timeout`, saturated at [`Instant::NEVER`].
#[inline]
pub(super) fn deadline(start: Instant, timeout: Duration) -> Instant {
    Instant::from_nanos(start.as_nanos().saturating_add(timeout.as_nanos()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cellular_link_of_the_reference_has_its_times() {
        let timing = LinkTiming::symmetric(
            Rate::from_bps(43_200),
            Duration::from_millis(100),
            Bytes::new(52),
            Bytes::new(2),
        );
        assert_eq!(timing.frame_time(), Duration::from_nanos(9_629_630));
        assert_eq!(timing.round_trip(), Duration::from_nanos(210_000_001));
        assert_eq!(timing.turnaround(), timing.round_trip() + timing.frame_time());
        assert_eq!(timing.repair_time(), timing.turnaround());
    }

    #[test]
    fn each_direction_has_its_own_times() {
        let timing = LinkTiming {
            rate: Rate::from_bps(1_000_000),
            delay: Duration::from_millis(1),
            back_rate: Rate::from_bps(10_000),
            back_delay: Duration::from_millis(30),
            data_frame: Bytes::new(125),
            control_frame: Bytes::new(25),
        };
        let ms = Duration::from_millis;
        assert_eq!(timing.round_trip(), ms(1 + 1 + 20 + 30));
        assert_eq!(timing.turnaround(), ms(52 + 100));
        assert_eq!(timing.longest_turnaround(), ms(52 + 200));
        assert_eq!(timing.repair_time(), ms(231) + Duration::from_nanos(200_000));
        // A NACK takes 20 ms, so the retransmissions of 1 ms are spaced by 20 ms.
        assert_eq!(timing.repaired_turnaround(3), ms(152 + 1 + 60 + 1 + 200 + 30));
    }
}
