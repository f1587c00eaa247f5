//! What was on the air in one replication.
//!
//! Frames of a link protocol have numbers of their own; frames of a link without one are numbered
//! in the order of their transmission, from 0.

use crate::sim::probe::{FrameLabel, SegmentLabel};
use lasthop_base::units::Instant;
use lasthop_link::link::FrameKind;

/// A frame that was on the air.
#[derive(Clone, Debug, PartialEq)]
pub struct Transmission {
    /// The direction, and the service or the layer on a link of several: `link.NAME.forward`,
    /// `link.NAME.reverse.SERVICE`, `link.NAME.forward.LAYER`. A frame of an upper layer is sent when the layer below takes
    /// it, and arrives when that delivers it.
    pub entity: String,
    /// What it was: `data`, `ack`, `nack`, `keepalive` or `parity`; of rlc-am `segment`, `status`,
    /// `skip`, `skip-ack`, `reset` or `reset-ack`; of a protocol of another crate `data` or `control`; of a WLAN `rts`, `cts` and `mac-ack` too.
    pub kind: &'static str,
    /// Its number: of `data` its own, of `ack` the next one expected, of `nack` the missing one, of
    /// `keepalive` the next new one, of `parity` the first of its block, of `status` the first that
    /// is missing or the next one expected, of `skip` the first that is still to be expected.
    pub sequence: u64,
    /// How many numbers it is about: of `parity` the frames of the block, otherwise 1.
    pub count: u64,
    /// Cumulative acknowledgment that it carried.
    pub ack: Option<u64>,
    /// Had its number been sent before?
    pub is_repeated: bool,
    /// The segment in it, on a link without protocol.
    pub segment: Option<SegmentLabel>,
    /// Length on the air, link header included.
    pub bytes: u32,
    /// When its first bit left, in nanoseconds since the start of the run.
    pub start_ns: u64,
    /// When its last bit had left.
    pub end_ns: u64,
    /// When its last bit arrives; `None` if it was lost.
    pub arrival_ns: Option<u64>,
}

impl Transmission {
    /// A frame that has been sent in the direction `entity`; `next` is one beyond the highest number of a packet that has
    /// been sent there.
    pub(super) fn frame(
        entity: &str,
        label: FrameLabel,
        segment: Option<SegmentLabel>,
        bytes: u32,
        [start, end]: [Instant; 2],
        arrival: Option<Instant>,
        next: &mut u64,
    ) -> Self {
        let (kind, sequence, count) = match label.kind {
            FrameKind::Data { sequence } => ("data", sequence, 1),
            FrameKind::Ack => ("ack", label.ack.unwrap_or(0), 1),
            FrameKind::Nack { sequence } => ("nack", sequence, 1),
            FrameKind::Keepalive { next } => ("keepalive", next, 1),
            FrameKind::Parity { first, count, .. } => ("parity", first, count.into()),
            FrameKind::Segment { sequence, .. } => ("segment", sequence, 1),
            FrameKind::Block { sequence, .. } => ("block", sequence, 1),
            FrameKind::Feedback { sequence, .. } => ("feedback", sequence, 1),
            FrameKind::Status { first, .. } => ("status", first, 1),
            FrameKind::Skip { next } => ("skip", next, 1),
            FrameKind::SkipAck { next } => ("skip-ack", next, 1),
            FrameKind::Reset { index } => ("reset", index, 1),
            FrameKind::ResetAck { index } => ("reset-ack", index, 1),
            FrameKind::Other { number, has_packet: true, .. } => ("data", number, 1),
            FrameKind::Other { number, .. } => ("control", number, 1),
        };
        if matches!(label.kind, FrameKind::Reset { .. } | FrameKind::ResetAck { .. }) {
            *next = 0;
        }
        let number = label.kind.packet_number();
        let is_repeated = number.is_some_and(|number| number < *next);
        *next = number.map_or(*next, |number| (number + 1).max(*next));
        Transmission {
            entity: entity.to_owned(),
            kind,
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

    /// The number of a data frame or a segment; NaN of others.
    pub(super) fn packet_number(&self) -> f64 {
        match self.kind {
            "data" | "segment" => self.sequence as f64,
            _ => f64::NAN,
        }
    }

    /// A control frame of 802.11, which has no number and no delay.
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
