//! Stacked link layers: the frames of each layer are the packets of the layer below.
//!
//! ```text
//!   enqueue --> upper --> frame = packet --> lower --> frame on the air
//!   poll_deliver <-- upper <-- frame = packet <-- lower <-- receive
//! ```
//!
//! Each layer is an endpoint of its own, with its own numbers, timers and counters. The lower layer is offered a frame of the
//! upper one when it would send a new packet: control frames and retransmissions of the lower layer are sent first, then
//! those of the upper layer, then new packets. The medium sees frames of the lowest layer only.
//!
//! On descriptors of packets, the header of the upper frame is stored in the packet's [extension](lasthop_base::packet::Extension),
//! and the length of the descriptor is that of the frame. On bytes, the lower layer carries the byte form of the upper
//! frame. The medium sees packets of one type at every depth, so that a stack costs nothing where none is used.
//!
//! The lower layer may deliver late, out of order, or never: a timer of the upper layer that counts on one trip over the air has
//! to allow for repairs below it (`docs/links/stacks.md`).
//!
//! Not modelled: frames of several upper packets in one lower packet, ideal feedback ([`Endpoint::sends_free`]), damaged
//! frames whose header can be read.

use super::LinkEvent;
use super::{BytesError, Endpoint, Frame, FrameKind, LinkCounters, LinkEndpoint, LinkError};
use lasthop_base::packet::{Descriptor, Extension, FrameHeader, LinkFate, MAX_LAYERS, Payload};
use lasthop_base::units::Instant;
use std::collections::VecDeque;

/// A packet that can stand for a frame of an upper link layer.
pub trait CarriesFrames: Payload + Clone {
    /// The packet that stands for `frame`, which `endpoint` of link layer `layer` has sent as its frame `number`; the uppermost
    /// layer is 0.
    ///
    /// # Errors
    /// If the frame has no byte form.
    fn from_frame(
        _frame: Frame<Self>,
        _endpoint: &LinkEndpoint<Self>,
        _layer: usize,
        _number: u32,
    ) -> Result<Self, BytesError> {
        Err(BytesError::NoFormat)
    }

    /// The frame that the packet stands for, as its receiver `endpoint` of link layer `layer` reads it, and its number if known.
    ///
    /// # Errors
    /// If the packet stands for no frame of that layer.
    fn into_frame(
        self,
        _endpoint: &LinkEndpoint<Self>,
        _layer: usize,
    ) -> Result<(Frame<Self>, Option<u32>), BytesError> {
        Err(BytesError::NoFormat)
    }

    /// The number of the frame that the packet stands for, as far as it is known.
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
        let mut bytes = Vec::with_capacity(frame.bytes as usize);
        endpoint.encode(&frame, &mut bytes)?;
        Ok(bytes)
    }

    fn into_frame(
        self,
        endpoint: &LinkEndpoint<Self>,
        _layer: usize,
    ) -> Result<(Frame<Self>, Option<u32>), BytesError> {
        endpoint.decode(&self).map(|frame| (frame, None))
    }
}

/// The packet in a frame on the air, through all layers; its length is that of the packet, of which the frame may carry a part.
/// `None` if the frame, or one of those that it carries, has none.
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

/// What a layer of a stack reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LayerEvent {
    /// An event of its endpoint.
    Link(LinkEvent),
    /// The layer below has taken a frame of it.
    Sent {
        /// Number of the frame in transmission order of its layer, modulo 2^32.
        number: u32,
        /// What the frame is.
        kind: FrameKind,
        /// Cumulative acknowledgment that it carries.
        ack: Option<u64>,
        /// Length in bytes.
        bytes: u32,
        /// Number of the frame of the layer above that it carries, if it carries one.
        carries: Option<u32>,
        /// When.
        at: Instant,
    },
    /// The layer below has delivered a frame to it.
    Received {
        /// Number that the sender gave the frame.
        number: u32,
        /// When.
        at: Instant,
    },
}

/// One end of a link with stacked layers.
#[derive(Clone, Debug)]
pub struct Stack<P: Payload> {
    upper: LinkEndpoint<P>,
    lower: LinkEndpoint<P>,
    /// Place of the upper layer in the whole stack.
    layer: usize,
    /// Frames that the lower layer has taken.
    passed: u32,
    /// Frames between the two layers, until they are drained.
    log: VecDeque<LayerEvent>,
    /// Packets of the lower layer that stood for no frame of the upper layer.
    unreadable: u64,
    /// Whether transmissions are limited in the upper layer.
    limits_upper: bool,
}

/// The endpoints of a stack, the uppermost layer first, as one; `limited` is the layer in which
/// [`Endpoint::limit_transmissions`] sets the limit.
///
/// # Errors
/// If there are fewer than 2 layers or more than [`MAX_LAYERS`], or if one needs ideal feedback or consists of services.
pub fn stack<P: CarriesFrames>(
    layers: Vec<LinkEndpoint<P>>,
    limited: Option<usize>,
) -> Result<LinkEndpoint<P>, LinkError> {
    let count = layers.len();
    if !(2..=MAX_LAYERS).contains(&count) {
        return Err(LinkError::Layers { found: count, largest: MAX_LAYERS });
    }
    let is_whole = |one: &LinkEndpoint<P>| {
        let is_compound = matches!(one, LinkEndpoint::Services(_) | LinkEndpoint::Stack(_));
        is_compound || one.sends_free() || one.wants_damaged()
    };
    if layers.iter().any(is_whole) {
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
    /// Number of layers.
    pub fn count(&self) -> usize {
        match &self.lower {
            LinkEndpoint::Stack(lower) => lower.count() + 1,
            _ => 2,
        }
    }

    /// The endpoint of a layer, the uppermost being 0; those beyond the end are the lowest one.
    pub fn endpoint(&self, layer: usize) -> &LinkEndpoint<P> {
        match (layer, &self.lower) {
            (0, _) => &self.upper,
            (_, LinkEndpoint::Stack(lower)) => lower.endpoint(layer - 1),
            (_, lower) => lower,
        }
    }

    /// Counters of the endpoint of a layer. Packets of the layer below that stood for no frame count as discarded.
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

    /// Counters of the layer in which transmissions are limited, of the lowest one if there is none.
    pub fn limited_counters(&self) -> LinkCounters {
        match &self.lower {
            _ if self.limits_upper => self.layer_counters(0),
            LinkEndpoint::Stack(lower) => lower.limited_counters(),
            lower => lower.counters(),
        }
    }

    /// The next event and the layer that it belongs to.
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

    /// Passes the next frame of the upper layer down. Call only if the lower layer wants one.
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

    /// Passes what the lower layer delivers to the upper layer.
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

/// Out of line, as of services.
impl<P: CarriesFrames> Endpoint<P> for Stack<P> {
    type Control = FrameKind;

    /// The frames of the lowest layer may have units.
    const CODES_UNITS: bool = true;

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

    /// Those of the lowest layer, whose frames the medium sees.
    fn counters(&self) -> LinkCounters {
        self.layer_counters(usize::MAX)
    }

    fn limit_transmissions(&mut self, limit: Option<u32>) {
        let layer = if self.limits_upper { &mut self.upper } else { &mut self.lower };
        layer.limit_transmissions(limit);
    }

    fn keep_fates(&mut self) {
        self.upper.keep_fates();
    }

    fn poll_fate(&mut self) -> Option<(LinkFate, P)> {
        self.upper.poll_fate()
    }

    fn counts_packets(&self) -> bool {
        self.endpoint(usize::MAX).counts_packets()
    }
}
