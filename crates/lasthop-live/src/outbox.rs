//! Output of links for the driver.

use lasthop_base::units::Instant;
use lasthop_link::channel::Airtime;
use lasthop_link::link::{Frame, FrameKind};
use lasthop_sim::sim::ids::Side;
use std::collections::VecDeque;

/// An IP packet.
pub type Bytes = Vec<u8>;

/// A packet delivered by a link.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Delivery {
    /// Time of delivery.
    pub at: Instant,
    /// Index of the link in the scenario.
    pub link: usize,
    /// The end that delivers it to its host.
    pub side: Side,
    /// The packet.
    pub packet: Bytes,
}

/// A transmitted frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FrameFate {
    /// Index of the link in the scenario.
    pub link: usize,
    /// The transmitting end.
    pub side: Side,
    /// Air time and length.
    pub airtime: Airtime,
    /// Whether the error process destroyed the frame.
    pub is_lost: bool,
}

/// Output of a link for the driver.
#[derive(Clone, Debug, Default)]
pub struct Outbox {
    /// Packets for the hosts, in order of time.
    pub deliveries: VecDeque<Delivery>,
    /// Frames, if enabled.
    pub frames: Vec<FrameFate>,
    /// Whether frames are recorded.
    pub wants_frames: bool,
    /// Packets for the medium of a WLAN: link and transmitting end.
    pub on_air: VecDeque<(usize, Side, Bytes)>,
}

/// Returns `true` unless the frame is one of the acknowledgments, which release no packet at their
/// receiver.
pub(super) fn may_deliver(frame: &Frame<Bytes>) -> bool {
    use FrameKind::{Ack, Feedback, Nack, SkipAck, Status};
    let is_feedback =
        matches!(frame.kind, Ack | Nack { .. } | Feedback { .. } | Status { .. } | SkipAck { .. });
    frame.payload.is_some() || !is_feedback
}
