//! The transmissions of one replication.
//!
//! Frames of a link protocol have sequence numbers. Frames of a link without protocol are numbered
//! in transmission order, from 0.

use crate::sim::probe::{FrameLabel, SegmentLabel};
use lasthop_base::units::Instant;
use lasthop_link::link::FrameKind;

/// A transmitted frame.
#[derive(Clone, Debug, PartialEq)]
pub struct Transmission {
    /// The direction, with the service or the layer if the link has several: `link.NAME.forward`,
    /// `link.NAME.reverse.SERVICE`, `link.NAME.forward.LAYER`. A frame of an upper layer is sent
    /// when the layer below accepts it, and arrives when the peer of that layer delivers it.
    pub entity: String,
    /// Kind of frame: `data`, `ack`, `nack`, `keepalive` or `parity`; of rlc-am `segment`,
    /// `status`, `skip`, `skip-ack`, `reset` or `reset-ack`; of harq also `block` and `feedback`;
    /// of a protocol of another crate `data` or `control`; of a WLAN also `rts`, `cts`,
    /// `mac-ack`, `block-ack` and `block-ack-request`.
    pub kind: &'static str,
    /// Sequence number. `data`: its own; `ack`: the next one expected; `nack`: the missing one;
    /// `keepalive`: the next new one; `parity`: the first of its block; `status`: the first missing
    /// or the next one expected; `skip`: the first that can still be expected.
    pub sequence: u64,
    /// Number of frames covered: `parity`: the frames of the block, otherwise 1.
    pub count: u64,
    /// Cumulative acknowledgment in the frame.
    pub ack: Option<u64>,
    /// Whether the sequence number has been sent before.
    pub is_repeated: bool,
    /// The segment in the frame, on a link without protocol.
    pub segment: Option<SegmentLabel>,
    /// Length of the frame in bytes, link header included.
    pub bytes: u32,
    /// Start of the transmission, in nanoseconds since the start of the run.
    pub start_ns: u64,
    /// End of the transmission.
    pub end_ns: u64,
    /// Arrival of the last bit; `None` if the frame was lost.
    pub arrival_ns: Option<u64>,
}

impl Transmission {
    /// Records a frame sent in the direction `entity`. `next` is one more than the highest packet
    /// number sent in this direction.
    pub(super) fn frame(
        entity: &str,
        label: FrameLabel,
        segment: Option<SegmentLabel>,
        bytes: u32,
        [start, end]: [Instant; 2],
        arrival: Option<Instant>,
        next: &mut u64,
    ) -> Self {
        let (sequence, count) = match label.kind {
            FrameKind::Ack => (label.ack.unwrap_or(0), 1),
            FrameKind::Parity { first, count, .. } => (first, count.into()),
            kind => (kind.number(), 1),
        };
        if matches!(label.kind, FrameKind::Reset { .. } | FrameKind::ResetAck { .. }) {
            *next = 0;
        }
        let number = label.kind.packet_number();
        let is_repeated = number.is_some_and(|number| number < *next);
        *next = number.map_or(*next, |number| (number + 1).max(*next));
        Transmission {
            entity: entity.to_owned(),
            kind: label.kind.name(),
            sequence,
            count,
            ack: label.ack,
            is_repeated,
            segment,
            bytes,
            start_ns: start.as_nanos(),
            end_ns: end.as_nanos(),
            arrival_ns: arrival.map(Instant::as_nanos),
        }
    }

    /// Returns the number of a data frame or a segment; NaN for others.
    pub(super) fn packet_number(&self) -> f64 {
        match self.kind {
            "data" | "segment" => self.sequence as f64,
            _ => f64::NAN,
        }
    }

    /// Records an 802.11 control frame, which has no number and no delay.
    pub(super) fn control(
        entity: &str,
        (kind, bytes): (&'static str, u64),
        [start, end]: [Instant; 2],
        is_received: bool,
    ) -> Self {
        Transmission {
            entity: entity.to_owned(),
            kind,
            sequence: 0,
            count: 1,
            ack: None,
            is_repeated: false,
            segment: None,
            bytes: bytes as u32,
            start_ns: start.as_nanos(),
            end_ns: end.as_nanos(),
            arrival_ns: is_received.then_some(end.as_nanos()),
        }
    }
}
