//! Observation: what a run may tell while it goes on.
//!
//! A [`Probe`] is a type parameter of the world. With [`Silent`] every call compiles to nothing.
//! A computed link knows a frame's fate before its time has come, so that events arrive in the
//! order of their computation: sort by time before use.

use super::ids::{ConnectionId, DirectionId};
use crate::agent::AgentEvent;
use crate::transport::{End, Numbers, TransportEvent};
use lasthop_base::packet::{Descriptor, Extension, Packet};
use lasthop_base::units::{Duration, Instant};
use lasthop_link::link::{CarriesFrames, Frame, FrameKind, LinkEvent, packet_within};
use lasthop_wlan::dcf::{AirFate, AirFrame};
use std::sync::atomic::{AtomicBool, Ordering};

/// What a frame of a link protocol was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FrameLabel {
    /// Kind and number.
    pub kind: FrameKind,
    /// Cumulative acknowledgment that it carried.
    pub ack: Option<u64>,
    /// Service that it belongs to, on a link of several, or its layer, of a frame of an upper one; else 0.
    pub service: u8,
    /// Number of the frame of the layer above that it carries, as [`Event::LayerSent`] has it.
    pub carries: Option<u32>,
}

impl FrameLabel {
    /// A data frame of this number, where that is all there is to it.
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

/// Something that happened.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Event {
    /// A transport reports about one end of a connection.
    Transport {
        /// Connection index.
        connection: ConnectionId,
        /// Which end.
        end: End,
        /// What happened.
        event: TransportEvent,
    },
    /// Length of an interface queue just after an arrival, the packet in transmission included.
    Queue {
        /// Direction index.
        direction: DirectionId,
        /// Packets.
        packets: u64,
        /// The one that came.
        packet: Packet,
    },
    /// The same just after the endpoint chose what is sent next, for which it may take packets.
    QueueServed {
        /// Direction index.
        direction: DirectionId,
        /// Packets.
        packets: u64,
    },
    /// A packet was dropped: by a full queue, or by a discipline that wants a shorter one.
    Dropped {
        /// Direction index.
        direction: DirectionId,
        /// What was refused.
        packet: Packet,
        /// When it would have left, if that is known: where nothing chooses the next frame.
        turn: Option<Instant>,
    },
    /// A frame went on the air; the time is the end of its transmission.
    FrameSent {
        /// Direction index.
        direction: DirectionId,
        /// What it was. Where there is no link protocol, frames are numbered in the order of their transmission.
        label: FrameLabel,
        /// The segment that it carried; `None` of other packets, and where there is a link
        /// protocol: its frames have numbers of their own.
        segment: Option<SegmentLabel>,
        /// The packet that it carried, a piece of it or units of its block; `None` in control frames and parity.
        packet: Option<Packet>,
        /// Length on the air in bytes, link header included.
        bytes: u32,
        /// When its first bit left.
        start: Instant,
        /// When its last bit arrives; `None` if the channel destroyed it.
        arrival: Option<Instant>,
    },
    /// A frame of 802.11 was on the air, which began at the time of the event.
    OnAir {
        /// Index of the direction of the exchange: a CTS or an acknowledgment went against it.
        direction: DirectionId,
        /// What it was.
        kind: AirFrame,
        /// What became of it.
        fate: AirFate,
        /// What it carried.
        packet: Option<Packet>,
        /// When it ended.
        end: Instant,
        /// How long it reserved the medium for what followed.
        reserves: Duration,
    },
    /// A station of a WLAN has drawn a back-off, whose slots count from the time of the event.
    Backoff {
        /// Index of the direction of the frame that waits for it.
        direction: DirectionId,
        /// How many slots.
        slots: u32,
        /// From how many they were drawn: 0 to this.
        window: u32,
    },
    /// A packet that came over a link went up.
    Delivered {
        /// Index of the direction over which it came.
        direction: DirectionId,
        /// Service that it belongs to, on a link of several; else 0.
        service: u8,
        /// Number of the frame in which it came, of the last one if it came in pieces, or in whose place it was
        /// computed; `None` where packets do not [keep it](lasthop_base::packet::Watched).
        number: Option<u64>,
        /// What goes up.
        packet: Packet,
    },
    /// A link endpoint reports.
    Link {
        /// Direction in which the endpoint transmits.
        direction: DirectionId,
        /// Service of the endpoint, on a link of several; else 0.
        service: u8,
        /// What happened.
        event: LinkEvent,
    },
    /// A layer of a link has passed a frame to the layer below.
    LayerSent {
        /// Direction in which the endpoint transmits.
        direction: DirectionId,
        /// Number of the frame in transmission order of its layer, modulo 2^32.
        number: u32,
        /// What the frame is, and its layer.
        label: FrameLabel,
        /// Length in bytes, header of the layer included.
        bytes: u32,
    },
    /// A layer of a link has got a frame from the layer below.
    LayerReceived {
        /// Direction over which the frame came.
        direction: DirectionId,
        /// The layer, the uppermost being 0.
        layer: u8,
        /// Number that its sender gave it.
        number: u32,
    },
    /// An agent reports.
    Agent {
        /// Direction that begins where the agent sits.
        direction: DirectionId,
        /// What happened.
        event: AgentEvent,
    },
}

impl Event {
    /// A link protocol has sent a frame, which arrives at `at` unless it is lost.
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
    /// Are events worth preparing at all?
    const ACTIVE: bool;
    /// Something happened at `at`.
    fn record(&mut self, at: Instant, event: Event);
}

/// Nobody watches.
#[derive(Clone, Copy, Debug, Default)]
pub struct Silent;

impl Probe for Silent {
    const ACTIVE: bool = false;
    #[inline(always)]
    fn record(&mut self, _at: Instant, _event: Event) {}
}

/// Events that may still be kept. When they are used up the run is interrupted, so that a long run
/// ends with a message and not with the machine's memory.
#[derive(Debug)]
pub struct Room<'a> {
    left: usize,
    interrupt: &'a AtomicBool,
}

impl<'a> Room<'a> {
    /// Room for `most` events of the run that `interrupt` ends.
    pub fn new(most: usize, interrupt: &'a AtomicBool) -> Self {
        Room { left: most, interrupt }
    }

    /// Takes the place of one event; false if there is none.
    pub fn take(&mut self) -> bool {
        let Some(left) = self.left.checked_sub(1) else {
            self.interrupt.store(true, Ordering::Relaxed);
            return false;
        };
        self.left = left;
        true
    }
}

/// Keeps everything, or what is wanted of it, as long as there is room.
#[derive(Debug)]
pub struct Recorder<'a> {
    /// Events in the order of their computation.
    pub events: Vec<(Instant, Event)>,
    /// When the first event came that had no room.
    pub full: Option<Instant>,
    /// Were there more events than are kept, so that none is?
    pub only_counts: bool,
    most_kept: usize,
    room: Room<'a>,
    is_wanted: fn(&Event) -> bool,
}

impl<'a> Recorder<'a> {
    /// A recorder for as many events.
    pub fn new(room: Room<'a>) -> Self {
        Recorder::only(room, |_| true)
    }

    /// The same, but of more events than `most_kept` none is kept: there is no memory for all of a run that may be refused.
    pub fn keeping(most_kept: usize, room: Room<'a>) -> Self {
        Recorder { most_kept, ..Recorder::new(room) }
    }

    /// The same for events that are wanted alone.
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
