//! Samples that a congestion control algorithm receives from ACKs.
//!
//! An [`AckSample`] is for all algorithms: an ACK for new data outside recovery, which may grow the
//! window. A [`Delivery`] is for algorithms that measure
//! ([`AlgorithmKeys::MEASURES`](super::family::AlgorithmKeys)). It describes every ACK that acknowledges or
//! SACKs new data and every duplicate ACK, also in recovery. Its delivery rate follows
//! draft-ietf-ccwg-bbr, section 4.1 (draft-cheng-iccrg-delivery-rate-estimation), and is computed
//! from the records of sent segments.

use crate::info::RecoveryState;
use lasthop_base::units::{Duration, Instant};

/// An ACK for new data that arrived outside recovery.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AckSample {
    /// Arrival time of the ACK.
    pub now: Instant,
    /// Bytes acknowledged for the first time.
    pub acked: u64,
    /// Segments delivered: acknowledged or SACKed for the first time.
    pub delivered_segments: u32,
    /// Whether the window limited the sender (RFC 7661). Set only by recovery schemes that count
    /// segments.
    pub is_window_limited: bool,
    /// Bytes outstanding before the ACK.
    pub prior_in_flight: u64,
    /// Oldest unacknowledged byte after the ACK (SND.UNA).
    pub snd_una: u64,
    /// One past the highest byte sent.
    pub snd_max: u64,
    /// RTT of the acknowledged segment, if unambiguous.
    pub rtt: Option<Duration>,
    /// Smoothed RTT; zero before the first sample.
    pub srtt: Duration,
}

/// An ACK that acknowledges or SACKs new data, or a duplicate ACK.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Delivery {
    /// Arrival time of the ACK.
    pub now: Instant,
    /// Bytes by which SND.UNA advances.
    pub acked: u64,
    /// Bytes acknowledged or SACKed for the first time.
    pub delivered: u64,
    /// Bytes delivered since the connection began, including [`Self::delivered`].
    pub total: u64,
    /// Bytes outstanding after the ACK: neither acknowledged nor SACKed.
    pub in_flight: u64,
    /// RTT of the latest segment acknowledged, if unambiguous.
    pub rtt: Option<Duration>,
    /// Oldest unacknowledged byte after the ACK (SND.UNA).
    pub snd_una: u64,
    /// One past the highest byte sent.
    pub snd_max: u64,
    /// Delivery-rate sample of the ACK, if any; only for algorithms that read rates.
    pub rate: Option<RateSample>,
    /// Whether the ACK echoes a congestion mark (ECE).
    pub is_marked: bool,
    /// Transmission and arrival times of the segment that triggered the ACK, if timestamps provide
    /// them.
    pub passage: Option<Passage>,
    /// Bytes declared lost since the connection began.
    pub lost: u64,
}

/// Transmission and arrival times of a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Passage {
    /// Transmission time by the sender's clock.
    pub sent: Instant,
    /// Arrival time by the receiver's clock, which has an unknown but constant offset.
    pub received: Instant,
}

/// An ACK that was processed, for an algorithm that sets its window and rate after each ACK (Linux:
/// `cong_control`). Counts are in segments.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Control {
    /// Data delivered by the ACK.
    pub delivery: Delivery,
    /// Segments acknowledged or SACKed for the first time.
    pub delivered: u32,
    /// Segments declared lost by the ACK, including retransmissions.
    pub losses: u32,
    /// Segments declared lost since the connection began, including retransmissions.
    pub lost: u64,
    /// Segments in flight before the ACK: neither delivered nor lost, plus retransmissions.
    pub prior_in_flight: u32,
    /// Segments in flight after the ACK, counted like [`Self::prior_in_flight`].
    pub in_flight: u32,
    /// State of recovery after the ACK.
    pub state: RecoveryState,
    /// Time until pacing allows the next segment.
    pub until_departure: Duration,
}

/// Delivery-rate sample: data delivered between the transmission of a segment and its
/// acknowledgment.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RateSample {
    /// Bytes delivered over the interval.
    pub delivered: u64,
    /// Maximum of the send interval and the ACK interval of these bytes.
    pub interval: Duration,
    /// Bytes delivered before the segment was sent.
    pub prior_delivered: u64,
    /// Bytes declared lost before the segment was sent.
    pub prior_lost: u64,
    /// Bytes in flight after the segment was sent, including the segment.
    pub in_flight_at_send: u64,
    /// Whether the application, not the network, limited the bytes in flight at that time.
    pub is_app_limited: bool,
}

/// A segment declared lost, and the state when its latest copy was sent. Counts are in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LostSegment {
    /// First byte of the segment.
    pub start: u64,
    /// One past the last byte of the segment.
    pub end: u64,
    /// Bytes declared lost since the connection began, including this segment.
    pub lost: u64,
    /// Bytes declared lost before the segment was sent.
    pub prior_lost: u64,
    /// Bytes in flight after the segment was sent, including the segment.
    pub in_flight_at_send: u64,
    /// Whether the application, not the network, limited the bytes in flight at that time.
    pub is_app_limited: bool,
}

impl RateSample {
    /// Returns the delivery rate in bytes per second.
    pub fn rate(&self) -> f64 {
        self.delivered as f64 / self.interval.as_secs_f64()
    }
}
