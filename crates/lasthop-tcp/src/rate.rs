//! The rate at which the network delivers: draft-ietf-ccwg-bbr, section 4.1 (draft-cheng-iccrg-delivery-rate-estimation).
//!
//! What was delivered since the newest segment of an ACK left, over the longer of the times that sending and acknowledging
//! it took. Each segment remembers what had been delivered when it left; who keeps segments keeps that with them.

use super::congestion_control::{LostSegment, RateSample};
use lasthop_base::units::{Duration, Instant};

/// How much was delivered, as a segment that leaves remembers it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Delivered {
    /// Bytes delivered (acknowledged or SACKed); the draft's C.delivered.
    pub bytes: u64,
    /// When the latest of them were; C.delivered_time.
    pub at: Instant,
    /// When the newest segment delivered by then had left; C.first_send_time.
    pub first_sent: Instant,
    /// Bytes declared lost by then.
    pub lost: u64,
    /// Bytes in flight with the segment.
    pub in_flight: u64,
    /// Had the application too little to send?
    pub is_app_limited: bool,
}

impl Delivered {
    /// The segment from `start` to `end`, which remembers this, was declared lost; `lost` bytes were so far.
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

/// The segment of what an ACK delivers that left last: when, and what was known then.
pub(super) type Newest<'a, M> = Option<(Instant, &'a M)>;

/// What has been delivered so far.
#[derive(Clone, Debug, Default)]
pub(super) struct DeliveryRate {
    delivered: Delivered,
    /// Once so many bytes have been delivered, the application limits no more; C.app_limited.
    app_limited_until: u64,
}

impl DeliveryRate {
    /// Bytes delivered since the connection began.
    #[inline]
    pub fn total(&self) -> u64 {
        self.delivered.bytes
    }

    /// Bytes declared lost so far, as far as [`Self::on_losses`] has told.
    pub fn lost(&self) -> u64 {
        self.delivered.lost
    }

    /// Bytes declared lost so far.
    #[inline]
    pub fn on_losses(&mut self, lost: u64) {
        self.delivered.lost = lost;
    }

    /// The application has nothing more to send, although the windows would let it; `in_flight` bytes are on their way.
    pub fn on_app_limited(&mut self, in_flight: u64) {
        self.app_limited_until = (self.delivered.bytes + in_flight).max(1);
        self.delivered.is_app_limited = true;
    }

    /// `bytes` leave, with `in_flight` on their way: what their segment remembers.
    #[inline]
    pub fn on_sent(&mut self, now: Instant, in_flight: u64, bytes: u64) -> Delivered {
        if in_flight == 0 {
            (self.delivered.at, self.delivered.first_sent) = (now, now);
        }
        Delivered { in_flight: in_flight + bytes, ..self.delivered }
    }

    /// Takes in the `bytes` that an ACK delivers: GenerateRateSample().
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
