//! Delivery rate estimation: draft-ietf-ccwg-bbr, section 4.1
//! (draft-cheng-iccrg-delivery-rate-estimation).
//!
//! A sample is the data delivered since the transmission of the newest segment that an ACK
//! delivers. It is divided by the maximum of the send interval and the ACK interval of this data.
//! The state at transmission ([`Delivered`]) is stored in the segment records.

use super::congestion_control::{LostSegment, RateSample};
use lasthop_base::units::{Duration, Instant};

/// Delivery state when a segment is sent, stored in its record.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Delivered {
    /// Bytes delivered (acknowledged or SACKed); the draft's C.delivered.
    pub bytes: u64,
    /// Time at which the latest of these bytes were delivered; C.delivered_time.
    pub at: Instant,
    /// Transmission time of the newest segment delivered by then; C.first_send_time.
    pub first_sent: Instant,
    /// Bytes declared lost by then.
    pub lost: u64,
    /// Bytes in flight, including the segment.
    pub in_flight: u64,
    /// Whether the application limited the data in flight.
    pub is_app_limited: bool,
}

impl Delivered {
    /// Returns the description of a lost segment from `start` to `end` with this state; `lost` is
    /// the total number of bytes declared lost.
    pub fn lose(&self, start: u64, end: u64, lost: u64) -> LostSegment {
        LostSegment {
            start,
            end,
            lost,
            prior_lost: self.lost,
            in_flight_at_send: self.in_flight,
            is_app_limited: self.is_app_limited,
        }
    }
}

/// The newest segment that an ACK delivers: its transmission time, and the state stored with it.
pub(super) type Newest<'a, M> = Option<(Instant, &'a M)>;

/// Delivery state of a connection.
#[derive(Clone, Debug, Default)]
pub(super) struct DeliveryRate {
    delivered: Delivered,
    /// Number of delivered bytes at which the application-limited period ends; C.app_limited.
    app_limited_until: u64,
}

impl DeliveryRate {
    /// Returns the number of bytes delivered since the connection began.
    #[inline]
    pub fn total(&self) -> u64 {
        self.delivered.bytes
    }

    /// Returns the number of bytes declared lost, as set by [`Self::on_losses`].
    pub fn lost(&self) -> u64 {
        self.delivered.lost
    }

    /// Sets the number of bytes declared lost.
    #[inline]
    pub fn on_losses(&mut self, lost: u64) {
        self.delivered.lost = lost;
    }

    /// Begins an application-limited period: the windows allow more data than the application has.
    /// `in_flight` is in bytes.
    pub fn on_app_limited(&mut self, in_flight: u64) {
        self.app_limited_until = (self.delivered.bytes + in_flight).max(1);
        self.delivered.is_app_limited = true;
    }

    /// Returns the state to store with a segment of `bytes` sent at `now`, with `in_flight` bytes
    /// in flight before.
    #[inline]
    pub fn on_sent(&mut self, now: Instant, in_flight: u64, bytes: u64) -> Delivered {
        if in_flight == 0 {
            (self.delivered.at, self.delivered.first_sent) = (now, now);
        }
        Delivered { in_flight: in_flight + bytes, ..self.delivered }
    }

    /// GenerateRateSample() for an ACK that delivers `bytes`.
    #[inline]
    pub fn on_ack(
        &mut self,
        now: Instant,
        bytes: u64,
        newest: Newest<'_, Delivered>,
        min_rtt: Option<Duration>,
    ) -> Option<RateSample> {
        let (sent, before) = newest?;
        self.delivered.bytes += bytes;
        self.delivered.at = now;
        self.delivered.first_sent = sent;
        if self.delivered.bytes > self.app_limited_until {
            self.delivered.is_app_limited = false;
        }
        let interval = (sent - before.first_sent).max(now - before.at);
        // "It's possible to get an implausibly high rate from an interval below the minimum round trip."
        if interval < min_rtt.unwrap_or(Duration::ZERO) || interval == Duration::ZERO {
            return None;
        }
        Some(RateSample {
            delivered: self.delivered.bytes - before.bytes,
            interval,
            prior_delivered: before.bytes,
            prior_lost: before.lost,
            in_flight_at_send: before.in_flight,
            is_app_limited: before.is_app_limited,
        })
    }
}
