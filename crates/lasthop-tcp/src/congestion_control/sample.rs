//! What a law learns from acknowledgments.
//!
//! An [`AckSample`] is for all laws: an ACK for new data outside recovery, by which a window may grow. A
//! [`Delivery`] is for those that measure ([`LawKeys::MEASURES`](super::family::LawKeys)): every ACK with news,
//! duplicates and those of recovery included, with the delivery rate of
//! draft-ietf-ccwg-bbr, section 4.1 (draft-cheng-iccrg-delivery-rate-estimation), taken from the records of what was sent.

use crate::info::RecoveryState;
use lasthop_base::units::{Duration, Instant};

/// An ACK for new data that arrived outside recovery.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AckSample {
    /// When the ACK arrived.
    pub now: Instant,
    /// Bytes that it acknowledges for the first time.
    pub acked: u64,
    /// Segments that it delivers: acknowledged or SACKed for the first time.
    pub delivered_segments: u32,
    /// Did the window limit the sender (RFC 7661)? Only recoveries that count segments tell.
    pub is_window_limited: bool,
    /// Bytes that were outstanding before it arrived.
    pub prior_in_flight: u64,
    /// Oldest unacknowledged byte after it (SND.UNA).
    pub snd_una: u64,
    /// One past the highest byte sent.
    pub snd_max: u64,
    /// Round-trip time of the segment that it acknowledges, if known without ambiguity.
    pub rtt: Option<Duration>,
    /// Smoothed round-trip time; zero before the first sample.
    pub srtt: Duration,
}

/// An ACK that acknowledges or SACKs something new, or a duplicate.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Delivery {
    /// When the ACK arrived.
    pub now: Instant,
    /// Bytes by which SND.UNA moves.
    pub acked: u64,
    /// Bytes that this ACK acknowledges or SACKs for the first time.
    pub delivered: u64,
    /// Bytes delivered since the connection began, these included.
    pub total: u64,
    /// Bytes outstanding after it: neither acknowledged nor SACKed.
    pub in_flight: u64,
    /// Round-trip time of the latest segment that it acknowledges, if known without ambiguity.
    pub rtt: Option<Duration>,
    /// Oldest unacknowledged byte after it (SND.UNA).
    pub snd_una: u64,
    /// One past the highest byte sent.
    pub snd_max: u64,
    /// How fast the network delivered, as far as the segments of this ACK tell; only for laws that read rates.
    pub rate: Option<RateSample>,
    /// Does it say that the network marked what it answers (ECE)?
    pub is_marked: bool,
    /// When the segment that it answers left and arrived, if timestamps tell.
    pub passage: Option<Passage>,
    /// Bytes declared lost since the connection began.
    pub lost: u64,
}

/// When a segment left and arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Passage {
    /// By the clock of the sender.
    pub sent: Instant,
    /// By the clock of the receiver: an unknown but constant time off.
    pub received: Instant,
}

/// An ACK that was processed, for a law that sets its window and rate after each (Linux: cong_control). Numbers are in
/// segments.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Control {
    /// What it delivered.
    pub delivery: Delivery,
    /// Segments that it acknowledges or SACKs for the first time.
    pub delivered: u32,
    /// Segments found lost by it, retransmissions included.
    pub losses: u32,
    /// Neither delivered nor lost, with retransmissions, before it and after it.
    pub prior_in_flight: u32,
    /// See above.
    pub in_flight: u32,
    /// Where recovery stands after it.
    pub state: RecoveryState,
    /// How long pacing holds the next segment back.
    pub until_departure: Duration,
}

/// A delivery-rate sample: what was delivered between the sending of a segment and its acknowledgment.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RateSample {
    /// Bytes delivered over the interval.
    pub delivered: u64,
    /// The longer of the time it took to send them and the time it took to acknowledge them.
    pub interval: Duration,
    /// Bytes that had been delivered when the segment left.
    pub prior_delivered: u64,
    /// Bytes that had been declared lost by then.
    pub prior_lost: u64,
    /// Bytes in flight after it left, itself included.
    pub in_flight_at_send: u64,
    /// Did the application, not the network, limit what was in flight then?
    pub is_app_limited: bool,
}

/// A segment that was declared lost, and what was known when its latest copy left. Numbers are in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LostSegment {
    /// Its first byte.
    pub start: u64,
    /// One past its last.
    pub end: u64,
    /// Declared lost since the connection began, this segment included.
    pub lost: u64,
    /// Declared lost by the time at which it left.
    pub prior_lost: u64,
    /// In flight after it left, itself included.
    pub in_flight_at_send: u64,
    /// Did the application, not the network, limit what was in flight then?
    pub is_app_limited: bool,
}

impl RateSample {
    /// Bytes a second.
    pub fn rate(&self) -> f64 {
        self.delivered as f64 / self.interval.as_secs_f64()
    }
}
