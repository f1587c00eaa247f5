//! Stacked link layers: the frames of each layer are the packets of the layer below.
//!
//! ```text
//!   enqueue --> upper --> frame = packet --> lower --> frame on the air
//!   poll_deliver <-- upper <-- frame = packet <-- lower <-- receive
//! ```
//!
//! Each layer is a separate endpoint with its own sequence numbers, timers and counters. When the
//! lower layer would send a new packet, it is offered a frame of the upper layer. Control frames
//! and retransmissions of the lower layer are thus sent first, then those of the upper layer, then
//! new packets. The medium carries frames of the lowest layer only.
//!
//! With packet descriptors, the header of the upper frame is stored in the packet's
//! [extension](lasthop_base::packet::Extension), and the length of the descriptor is that of the
//! frame. With bytes, the lower layer carries the byte form of the upper frame. The medium carries
//! packets of one type at every depth, so links without a stack have no overhead.
//!
//! The lower layer may deliver late, out of order, or not at all. Timers of the upper layer that
//! assume a single transmission delay must allow for loss recovery below (`docs/links/stacks.md`).
//!
//! Not modelled: several upper frames in one lower packet, ideal feedback
//! ([`Abilities::ideal_feedback`]), damaged frames with readable headers.

use super::LinkEvent;
use super::{
    Abilities, BytesError, Driven, Endpoint, Frame, FrameKind, LinkCounters, LinkEndpoint,
    LinkError, ReportsDelivery,
};
use lasthop_base::packet::{Descriptor, Extension, FrameHeader, MAX_LAYERS, Payload};
use lasthop_base::units::Instant;
use std::collections::VecDeque;

/// A packet that can represent a frame of an upper link layer.
pub trait CarriesFrames: Payload + Clone {
    /// Converts a frame to a packet of the layer below. `frame` is the `number`-th frame sent by
    /// `endpoint` of link layer `layer`; the uppermost layer is 0.
    ///
    /// # Errors
    /// Returns an error if the frame has no byte form.
    fn from_frame(
        _frame: Frame<Self>,
        _endpoint: &LinkEndpoint<Self>,
        _layer: usize,
        _number: u32,
    ) -> Result<Self, BytesError> {
        Err(BytesError::NoFormat)
    }

    /// Converts a packet to the frame that it represents, as decoded by its receiver `endpoint` of
    /// link layer `layer`. Also returns the number of the frame, if known.
    ///
    /// # Errors
    /// Returns an error if the packet does not represent a frame of that layer.
    fn into_frame(
        self,
        _endpoint: &LinkEndpoint<Self>,
        _layer: usize,
    ) -> Result<(Frame<Self>, Option<u32>), BytesError> {
        Err(BytesError::NoFormat)
    }

    /// Returns the number of the frame that the packet represents, if known.
    fn carried(&self) -> Option<u32> {
        None
    }
}

impl<X: Extension> CarriesFrames for Descriptor<X> {
    fn from_frame(
        frame: Frame<Self>,
        _endpoint: &LinkEndpoint<Self>,
        layer: usize,
        number: u32,
    ) -> Result<Self, BytesError> {
        let header = FrameHeader {
            control: frame.kind.pack(),
            ack: frame.ack.unwrap_or(0),
            number,
            packet_bytes: frame.payload.map_or(0, |packet| packet.bytes),
            has_ack: frame.ack.is_some(),
            has_packet: frame.payload.is_some(),
        };
        let mut packet = frame.payload.unwrap_or_default();
        packet.bytes = frame.bytes;
        packet.tcp.options.put_header(layer, header);
        Ok(packet)
    }

    fn into_frame(
        mut self,
        _endpoint: &LinkEndpoint<Self>,
        layer: usize,
    ) -> Result<(Frame<Self>, Option<u32>), BytesError> {
        let header = self.tcp.options.take_header(layer).ok_or(BytesError::NoFrame)?;
        let kind = FrameKind::unpack(header.control).ok_or(BytesError::NoFrame)?;
        let bytes = std::mem::replace(&mut self.bytes, header.packet_bytes);
        let mut frame = Frame {
            kind,
            ack: header.has_ack.then_some(header.ack),
            payload: header.has_packet.then_some(self),
            bytes,
            service: 0,
        };
        frame.number_packet();
        Ok((frame, Some(header.number)))
    }

    fn carried(&self) -> Option<u32> {
        self.tcp.options.headers().iter().rev().flatten().next().map(|header| header.number)
    }
}

impl CarriesFrames for Vec<u8> {
    fn from_frame(
        frame: Frame<Self>,
        endpoint: &LinkEndpoint<Self>,
        _layer: usize,
        _number: u32,
    ) -> Result<Self, BytesError> {
        endpoint.encode_owned(frame)
    }

    fn into_frame(
        self,
        endpoint: &LinkEndpoint<Self>,
        _layer: usize,
    ) -> Result<(Frame<Self>, Option<u32>), BytesError> {
        endpoint.decode_owned(self).map(|frame| (frame, None))
    }
}

/// Returns the packet in a frame of the lowest layer, across all layers. Its length is that of the
/// whole packet, even if the frame carries only a part of it. Returns `None` if the frame, or a
/// frame within it, carries no packet.
pub fn packet_within<X: Extension>(frame: &Frame<Descriptor<X>>) -> Option<Descriptor<X>> {
    let mut packet = frame.kind.packet_number().and(frame.payload)?;
    let headers = frame.payload?.tcp.options;
    for header in headers.headers().iter().rev().flatten() {
        FrameKind::unpack(header.control)?.packet_number()?;
        if !header.has_packet {
            return None;
        }
        packet.bytes = header.packet_bytes;
    }
    Some(packet)
}

/// Event of a layer of a stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LayerEvent {
    /// An event of its endpoint.
    Link(LinkEvent),
    /// A frame was passed to the layer below.
    Sent {
        /// Number of the frame in transmission order of its layer, modulo 2^32.
        number: u32,
        /// Kind of the frame.
        kind: FrameKind,
        /// Cumulative acknowledgment in the frame.
        ack: Option<u64>,
        /// Length in bytes.
        bytes: u32,
        /// Number of the frame of the layer above in this frame, if any.
        carries: Option<u32>,
        /// Time of the event.
        at: Instant,
    },
    /// A frame was received from the layer below.
    Received {
        /// Number of the frame, assigned by its sender.
        number: u32,
        /// Time of the event.
        at: Instant,
    },
}

/// One end of a link with stacked layers.
#[derive(Clone, Debug)]
pub struct Stack<P: Payload> {
    upper: LinkEndpoint<P>,
    lower: LinkEndpoint<P>,
    /// Index of the upper layer in the whole stack.
    layer: usize,
    /// Number of frames passed to the lower layer.
    passed: u32,
    /// Events of frames passed between the two layers, until they are drained.
    log: VecDeque<LayerEvent>,
    /// Number of packets of the lower layer that did not represent a frame of the upper layer.
    unreadable: u64,
    /// Whether [`Abilities::limit_transmissions`] applies to the upper layer.
    limits_upper: bool,
}

/// Combines the endpoints of a stack, uppermost layer first, into one endpoint.
/// [`Abilities::limit_transmissions`] applies to layer `limited`.
///
/// # Errors
/// Returns an error if there are fewer than 2 layers or more than [`MAX_LAYERS`], or if a layer
/// needs ideal feedback, or is itself a stack or a set of services.
///
/// ```
/// use lasthop_base::units::{Bytes, Duration, Instant, Rate};
/// use lasthop_link::link::{
///     Endpoint, LinkEndpoint, LinkTiming, Rlc, RlcParameters, StopAndWait, StopAndWaitParameters, stack,
/// };
///
/// let (rate, delay) = (Rate::from_bps(1_000_000), Duration::from_millis(10));
/// let timing = LinkTiming::symmetric(rate, delay, Bytes::new(42), Bytes::new(2));
/// let end = || {
///     let rlc = Rlc::new(RlcParameters::for_link(&timing, Bytes::new(40))).expect("RLC");
///     let below = StopAndWait::new(StopAndWaitParameters::for_link(&timing)).expect("stop-and-wait");
///     stack(vec![LinkEndpoint::RlcAm(Box::new(rlc)), LinkEndpoint::StopAndWait(below)], None).expect("a stack")
/// };
/// let [mut sender, mut receiver]: [LinkEndpoint<Vec<u8>>; 2] = [end(), end()];
/// sender.enqueue(Instant::ZERO, vec![7; 30]);
/// receiver.receive(Instant::ZERO, sender.poll_transmit(Instant::ZERO).expect("a PDU in a frame"));
/// assert_eq!(receiver.poll_deliver(), Some(vec![7; 30]));
/// ```
pub fn stack<P: CarriesFrames>(
    mut layers: Vec<LinkEndpoint<P>>,
    limited: Option<usize>,
) -> Result<LinkEndpoint<P>, LinkError> {
    let count = layers.len();
    if !(2..=MAX_LAYERS).contains(&count) {
        return Err(LinkError::Layers { found: count, largest: MAX_LAYERS });
    }
    let is_whole = |one: &mut LinkEndpoint<P>| {
        let is_compound = matches!(one, LinkEndpoint::Services(_) | LinkEndpoint::Stack(_));
        is_compound || one.ideal_feedback().is_some()
    };
    if layers.iter_mut().any(is_whole) {
        return Err(LinkError::Layer);
    }
    let numbered = layers.into_iter().enumerate().rev();
    let whole = numbered.fold(None, |lower, (layer, upper)| {
        let Some(lower) = lower else { return Some(upper) };
        Some(LinkEndpoint::Stack(Box::new(Stack {
            upper,
            lower,
            layer,
            passed: 0,
            log: VecDeque::new(),
            unreadable: 0,
            limits_upper: limited == Some(layer),
        })))
    });
    whole.ok_or(LinkError::Layers { found: 0, largest: MAX_LAYERS })
}

impl<P: CarriesFrames> Stack<P> {
    /// Returns the number of layers.
    pub fn count(&self) -> usize {
        match &self.lower {
            LinkEndpoint::Stack(lower) => lower.count() + 1,
            _ => 2,
        }
    }

    /// Returns the endpoint of a layer; the uppermost is 0. Indices beyond the end refer to the
    /// lowest layer.
    pub fn endpoint(&self, layer: usize) -> &LinkEndpoint<P> {
        match (layer, &self.lower) {
            (0, _) => &self.upper,
            (_, LinkEndpoint::Stack(lower)) => lower.endpoint(layer - 1),
            (_, lower) => lower,
        }
    }

    /// Returns the counters of a layer. Packets of the layer below that did not represent a frame
    /// count as discarded.
    pub fn layer_counters(&self, layer: usize) -> LinkCounters {
        match (layer, &self.lower) {
            (0, _) => {
                let counters = self.upper.counters();
                LinkCounters { discarded: counters.discarded + self.unreadable, ..counters }
            }
            (_, LinkEndpoint::Stack(lower)) => lower.layer_counters(layer - 1),
            (_, lower) => lower.counters(),
        }
    }

    /// Returns the counters of the layer to which [`Abilities::limit_transmissions`] applies, by
    /// default the lowest one.
    pub fn limited_counters(&self) -> LinkCounters {
        match &self.lower {
            _ if self.limits_upper => self.layer_counters(0),
            LinkEndpoint::Stack(lower) => lower.limited_counters(),
            lower => lower.counters(),
        }
    }

    /// Returns the next event and its layer.
    pub fn poll_layer_event(&mut self) -> Option<(u8, LayerEvent)> {
        let own = self.layer as u8;
        if let Some(event) = self.log.pop_front() {
            return Some((own, event));
        }
        if let Some(event) = self.upper.poll_event() {
            return Some((own, LayerEvent::Link(event)));
        }
        match &mut self.lower {
            LinkEndpoint::Stack(lower) => lower.poll_layer_event(),
            lower => lower.poll_event().map(|event| (own + 1, LayerEvent::Link(event))),
        }
    }

    /// Passes the next frame of the upper layer to the lower layer. Call only if the lower layer
    /// wants a packet.
    fn pass_down(&mut self, now: Instant) {
        let Some(frame) = self.upper.poll_transmit(now) else { return };
        let Frame { kind, ack, bytes, .. } = frame;
        let number = self.passed;
        let carries = kind.packet_number().and(frame.payload.as_ref()).and_then(P::carried);
        self.passed = number.wrapping_add(1);
        match P::from_frame(frame, &self.upper, self.layer, number) {
            Ok(packet) => {
                self.lower.enqueue(now, packet);
                let at = now;
                self.log.push_back(LayerEvent::Sent { number, kind, ack, bytes, carries, at });
            }
            Err(_) => self.unreadable += 1,
        }
    }

    /// Passes the packets delivered by the lower layer to the upper layer.
    fn pass_up(&mut self, now: Instant) {
        while let Some(packet) = self.lower.poll_deliver() {
            match packet.into_frame(&self.upper, self.layer) {
                Ok((frame, number)) => {
                    self.upper.receive(now, frame);
                    let event = |number| LayerEvent::Received { number, at: now };
                    self.log.extend(number.map(event));
                }
                Err(_) => self.unreadable += 1,
            }
        }
    }
}

/// Not inlined, like the endpoint of services.
impl<P: CarriesFrames> Endpoint<P> for Stack<P> {
    type Control = FrameKind;

    #[inline(never)]
    fn wants_packet(&self) -> bool {
        self.lower.wants_packet() && self.upper.wants_packet()
    }

    #[inline(never)]
    fn enqueue(&mut self, now: Instant, packet: P) {
        self.upper.enqueue(now, packet);
    }

    #[inline(never)]
    fn poll_transmit(&mut self, now: Instant) -> Option<Frame<P>> {
        if self.lower.wants_packet() {
            self.pass_down(now);
        }
        self.lower.poll_transmit(now)
    }

    #[inline(never)]
    fn has_frame(&self) -> bool {
        self.lower.has_frame() || self.lower.wants_packet() && self.upper.has_frame()
    }

    #[inline(never)]
    fn receive(&mut self, now: Instant, frame: Frame<P>) {
        self.lower.receive(now, frame);
        self.pass_up(now);
    }

    #[inline(never)]
    fn poll_deliver(&mut self) -> Option<P> {
        self.upper.poll_deliver()
    }

    #[inline(never)]
    fn poll_event(&mut self) -> Option<LinkEvent> {
        loop {
            if let (_, LayerEvent::Link(event)) = self.poll_layer_event()? {
                return Some(event);
            }
        }
    }

    fn drop_events(&mut self) {
        self.log.clear();
        self.upper.drop_events();
        self.lower.drop_events();
    }

    #[inline(never)]
    fn next_timeout(&self) -> Instant {
        self.upper.next_timeout().min(self.lower.next_timeout())
    }

    #[inline(never)]
    fn handle_timeout(&mut self, now: Instant) {
        if self.lower.next_timeout() <= now {
            self.lower.handle_timeout(now);
            self.pass_up(now);
        }
        if self.upper.next_timeout() <= now {
            self.upper.handle_timeout(now);
        }
    }

    /// Returns the counters of the lowest layer, whose frames the medium carries.
    fn counters(&self) -> LinkCounters {
        self.layer_counters(usize::MAX)
    }
}

impl<P: CarriesFrames> Abilities<P> for Stack<P> {
    fn limit_transmissions(&mut self, limit: Option<u32>) {
        let layer = if self.limits_upper { &mut self.upper } else { &mut self.lower };
        layer.limit_transmissions(limit);
    }

    fn delivery_reports(&mut self) -> Option<&mut dyn ReportsDelivery<P>> {
        self.upper.delivery_reports()
    }

    fn counts_packets(&self) -> bool {
        self.endpoint(usize::MAX).counts_packets()
    }
}

impl<P: CarriesFrames> Driven<P> for Stack<P> {
    /// The frames of the lowest layer may have units.
    const CODES_UNITS: bool = true;
}
