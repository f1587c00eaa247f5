//! Counters and state of the ends of links.

use lasthop_link::queue::QueueCounters;

/// State of one end of a link of a WLAN: of its queue and its transmitter, which belong to the medium.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SharedState {
    /// Counters of the queue and the frames.
    pub queue: QueueCounters,
    /// Retransmissions of frames.
    pub retransmissions: u64,
    /// Packets in the queue, including those that are not acknowledged.
    pub queued: u64,
}

/// Counters of one end, in addition to those of its interface.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EndCounters {
    /// Counters of its queue and transmitter.
    pub queue: QueueCounters,
    /// Packets received over the link and delivered here.
    pub delivered: u64,
    /// Bytes of these packets.
    pub delivered_bytes: u64,
    /// Frames without a byte form, and bytes that are not a frame: the other endpoint uses another
    /// protocol or is restarting.
    pub unreadable: u64,
}
