//! Observation: the events that a run can report.
//!
//! A [`Probe`] is a type parameter of the world. With [`Silent`], every call compiles to nothing.
//! The outcome of a frame on a computed link is known before it arrives. Events are therefore
//! reported in the order of their computation and must be sorted by time before use.

use super::ids::{ConnectionId, DirectionId};
use crate::agent::AgentEvent;
use crate::transport::{End, Numbers, TransportEvent};
use lasthop_base::packet::{Descriptor, Extension, Packet};
use lasthop_base::units::{Duration, Instant};
use lasthop_link::link::{CarriesFrames, Frame, FrameKind, LinkEvent, packet_within};
use lasthop_wlan::block_ack::BlockAck;
use lasthop_wlan::dcf::{AirFate, AirFrame};
use lasthop_wlan::phy::Signal;
use std::sync::atomic::{AtomicBool, Ordering};

/// Description of a frame of a link protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FrameLabel {
    /// Kind and number.
    pub kind: FrameKind,
    /// Cumulative acknowledgment that it carried.
    pub ack: Option<u64>,
    /// Service of the frame on a link with several services; layer of the frame if an upper layer
    /// sent it; otherwise 0.
    pub service: u8,
    /// Number of the frame of the layer above that it carries, as in [`Event::LayerSent`].
    pub carries: Option<u32>,
}

impl FrameLabel {
    /// Describes a data frame that has only a number.
    pub(super) fn data(sequence: u64) -> Self {
        FrameLabel { kind: FrameKind::Data { sequence }, ack: None, service: 0, carries: None }
    }
}

impl<P: CarriesFrames> From<&Frame<P>> for FrameLabel {
    fn from(frame: &Frame<P>) -> Self {
        let Frame { kind, ack, service, .. } = *frame;
        let carries = kind.packet_number().and(frame.payload.as_ref()).and_then(P::carried);
        FrameLabel { kind, ack, service, carries }
    }
}

/// The segment of a transport that a frame carried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SegmentLabel {
    /// Number of the connection among those that carry streams.
    pub connection: u32,
    /// The numbers in the segment.
    pub numbers: Numbers,
}

/// An action of the host of one end of a connection.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum HostAction {
    /// The application starts a new connection instance.
    Opened {
        /// Time of the host's clock at the start of the run.
        clock: Duration,
    },
    /// The application has written this number of bytes.
    Wrote(u64),
    /// The application has closed its stream.
    Closed,
    /// The host sends a packet.
    Sent(Packet),
    /// The host has processed a packet.
    Received {
        /// The packet.
        packet: Packet,
        /// Number of bytes of the stream that the application has read so far.
        read: u64,
    },
}

/// An event that can be reported.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Event {
    /// A transport reports about one end of a connection.
    Transport {
        /// Connection index.
        connection: ConnectionId,
        /// Which end.
        end: End,
        /// The event.
        event: TransportEvent,
    },
    /// A host has acted. These events describe the same segments as those of the transport, and are
    /// only recorded on request.
    Host {
        /// Connection index.
        connection: ConnectionId,
        /// The end of the connection at the host.
        end: End,
        /// The action.
        action: HostAction,
    },
    /// Length of an interface queue just after an arrival, including the packet in transmission.
    Queue {
        /// Direction index.
        direction: DirectionId,
        /// Packets.
        packets: u64,
        /// The packet that arrived.
        packet: Packet,
    },
    /// Length of an interface queue just after the endpoint selected the next frame, for which it
    /// may take packets.
    QueueServed {
        /// Direction index.
        direction: DirectionId,
        /// Packets.
        packets: u64,
    },
    /// A packet was dropped: the queue was full, or the queue discipline dropped it.
    Dropped {
        /// Direction index.
        direction: DirectionId,
        /// The dropped packet.
        packet: Packet,
        /// Time at which its transmission would have started; `None` where a link protocol selects
        /// the next frame.
        turn: Option<Instant>,
    },
    /// A frame was sent; the time of the event is the end of its transmission.
    FrameSent {
        /// Direction index.
        direction: DirectionId,
        /// Description of the frame. Without a link protocol, frames are numbered in transmission
        /// order.
        label: FrameLabel,
        /// The segment that it carried. `None` for other packets, and with a link protocol, whose
        /// frames have their own numbers.
        segment: Option<SegmentLabel>,
        /// The packet that it carried, whole or in part (a segment, or units of its block); `None`
        /// for control frames and parity.
        packet: Option<Packet>,
        /// Length on the air in bytes, link header included.
        bytes: u32,
        /// Start of its transmission.
        start: Instant,
        /// Arrival of its last bit; `None` if the channel destroyed the frame.
        arrival: Option<Instant>,
    },
    /// An IEEE 802.11 frame was sent; the time of the event is the start of its transmission.
    OnAir {
        /// Direction of the frame exchange. CTS and acknowledgment frames are sent in the opposite
        /// direction.
        direction: DirectionId,
        /// Type of the frame.
        kind: AirFrame,
        /// Outcome of the frame.
        fate: AirFate,
        /// The packet that it carried.
        packet: Option<Packet>,
        /// End of its transmission.
        end: Instant,
        /// Duration for which it reserved the medium for the frames that follow.
        reserves: Duration,
        /// Traffic identifier of its data or of the data that it acknowledges.
        tid: u8,
        /// Content of a BlockAck.
        scoreboard: Option<BlockAck>,
        /// Mode or rate of the data of its exchange.
        signal: Option<Signal>,
    },
    /// A WLAN station has sampled a backoff; its slots count from the time of the event.
    Backoff {
        /// Direction of the frame that waits for the end of the backoff.
        direction: DirectionId,
        /// Number of slots.
        slots: u32,
        /// Contention window: the number of slots was sampled from 0 to this.
        window: u32,
    },
    /// A packet that was received over a link is delivered to the upper layer.
    Delivered {
        /// Direction over which it was received.
        direction: DirectionId,
        /// Service of the packet on a link with several services; otherwise 0.
        service: u8,
        /// Number of the frame that carried it: of the last one if it was segmented, or of the
        /// frame that was reconstructed by decoding. `None` if packets do not [record
        /// it](lasthop_base::packet::Watched).
        number: Option<u64>,
        /// The delivered packet.
        packet: Packet,
    },
    /// A link endpoint reports an event.
    Link {
        /// Direction in which the endpoint transmits.
        direction: DirectionId,
        /// Service of the endpoint on a link with several services; otherwise 0.
        service: u8,
        /// The event.
        event: LinkEvent,
    },
    /// A layer of a link has passed a frame to the layer below.
    LayerSent {
        /// Direction in which the endpoint transmits.
        direction: DirectionId,
        /// Number of the frame in transmission order of its layer, modulo 2^32.
        number: u32,
        /// Description of the frame, and its layer.
        label: FrameLabel,
        /// Length in bytes, including the header of the layer.
        bytes: u32,
    },
    /// A layer of a link has received a frame from the layer below.
    LayerReceived {
        /// Direction over which the frame was received.
        direction: DirectionId,
        /// Index of the layer; the uppermost is 0.
        layer: u8,
        /// Number that its sender assigned.
        number: u32,
    },
    /// An agent reports an event.
    Agent {
        /// Direction at whose start the agent is attached.
        direction: DirectionId,
        /// The event.
        event: AgentEvent,
    },
}

impl Event {
    /// Creates the event of a frame sent by a link protocol, which arrives at `at` unless `is_lost`
    /// is set.
    pub(super) fn frame_sent<X: Extension>(
        direction: DirectionId,
        frame: &Frame<Descriptor<X>>,
        start: Instant,
        is_lost: bool,
        at: Instant,
    ) -> Self {
        Event::FrameSent {
            direction,
            label: FrameLabel::from(frame),
            segment: None,
            packet: packet_within(frame).map(|packet| packet.full()),
            bytes: frame.bytes,
            start,
            arrival: (!is_lost).then_some(at),
        }
    }
}

/// Receives events.
pub trait Probe {
    /// Whether events must be prepared at all.
    const ACTIVE: bool;
    /// Records an event that occurred at `at`.
    fn record(&mut self, at: Instant, event: Event);
}

/// The probe of unobserved runs, which ignores all events.
#[derive(Clone, Copy, Debug, Default)]
pub struct Silent;

impl Probe for Silent {
    const ACTIVE: bool = false;
    #[inline(always)]
    fn record(&mut self, _at: Instant, _event: Event) {}
}

/// Limit of the number of recorded events. When it is reached, the run is interrupted, so that a
/// long run ends with an error message instead of exhausting the memory.
#[derive(Debug)]
pub struct Room<'a> {
    left: usize,
    interrupt: &'a AtomicBool,
}

impl<'a> Room<'a> {
    /// Creates room for `most` events. If it is exhausted, `interrupt` is set to end the run.
    pub fn new(most: usize, interrupt: &'a AtomicBool) -> Self {
        Room { left: most, interrupt }
    }

    /// Takes the room of one event. Returns `false` and interrupts the run if none is left.
    pub fn take(&mut self) -> bool {
        let Some(left) = self.left.checked_sub(1) else {
            self.interrupt.store(true, Ordering::Relaxed);
            return false;
        };
        self.left = left;
        true
    }
}

/// Records all events except those of hosts, or the wanted ones, as long as there is room.
#[derive(Debug)]
pub struct Recorder<'a> {
    /// Events in the order of their computation.
    pub events: Vec<(Instant, Event)>,
    /// Time of the first event without room.
    pub full: Option<Instant>,
    /// Whether more than the maximum number of events occurred, so that none is kept.
    pub only_counts: bool,
    most_kept: usize,
    room: Room<'a>,
    is_wanted: fn(&Event) -> bool,
}

impl<'a> Recorder<'a> {
    /// Creates a recorder of all events within `room`, except [`Event::Host`].
    pub fn new(room: Room<'a>) -> Self {
        Recorder::only(room, |event| !matches!(event, Event::Host { .. }))
    }

    /// Like [`Self::new`], but keeps no events if more than `most_kept` occur. This limits the
    /// memory of a run whose result may be rejected.
    pub fn keeping(most_kept: usize, room: Room<'a>) -> Self {
        Recorder { most_kept, ..Recorder::new(room) }
    }

    /// Like [`Self::new`], but records only events for which `is_wanted` returns `true`.
    pub fn only(room: Room<'a>, is_wanted: fn(&Event) -> bool) -> Self {
        Recorder {
            events: Vec::new(),
            full: None,
            only_counts: false,
            most_kept: usize::MAX,
            room,
            is_wanted,
        }
    }
}

impl Probe for Recorder<'_> {
    const ACTIVE: bool = true;
    fn record(&mut self, at: Instant, event: Event) {
        if !(self.is_wanted)(&event) {
            return;
        }
        if !self.room.take() {
            self.full.get_or_insert(at);
        } else if self.events.len() < self.most_kept && !self.only_counts {
            self.events.push((at, event));
        } else if !self.only_counts {
            self.only_counts = true;
            self.events = Vec::new();
        }
    }
}
