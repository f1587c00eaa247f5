//! Raw link: no loss recovery. Each packet is sent once in a frame without a header. Frames
//! received without errors are delivered.
//!
//! Source: the *Raw* baseline of Xylomenos and Polyzos, IPDPS 2003. The simulator computes raw
//! links directly; this endpoint is used where an [`Endpoint`] is required.
//!
//! States: none.
//!
//! A damaged packet with a readable header ([`WithHeaders`](crate::channel::WithHeaders)) is also
//! delivered and marked as damaged, to agents and transports that process such packets.
//!
//! Not modelled: undetected errors. Error detection is assumed perfect, and other damaged frames
//! are dropped silently.

use super::protocol::{ProtocolKeys, Site};
use super::{Abilities, Driven, Endpoint, Frame, LinkCounters, LinkEvent, ReadsDamagedHeaders};
use super::{ByteFormat, BytesError, FrameKind, LinkError};
use lasthop_base::packet::Payload;
use lasthop_base::schema::keys::table;
use lasthop_base::units::Bytes;
use lasthop_base::units::Instant;
use std::collections::VecDeque;

table! {
    /// No recovery: frames lost on the channel are not retransmitted.
    pub struct RawKeys as "raw" {}
}

/// The state machine of one end.
pub type Machine<P> = Raw<P>;

impl ProtocolKeys for RawKeys {
    type Machine<P: Payload + Clone> = Machine<P>;

    fn build<P: Payload + Clone>(&self, site: &Site) -> Result<Machine<P>, LinkError> {
        let _ = site;
        Ok(Raw::new())
    }

    fn default_header(&self) -> Bytes {
        Bytes::default()
    }
}

/// A link without recovery.
#[derive(Clone, Debug)]
pub struct Raw<P> {
    waiting: Option<P>,
    up: VecDeque<P>,
    counters: LinkCounters,
}

impl<P> Raw<P> {
    /// Creates an idle endpoint.
    pub fn new() -> Self {
        Raw { waiting: None, up: VecDeque::with_capacity(4), counters: LinkCounters::default() }
    }
}

impl<P> Default for Raw<P> {
    fn default() -> Self {
        Self::new()
    }
}

impl<P: Payload> ReadsDamagedHeaders<P> for Raw<P> {
    fn receive_header(&mut self, _now: Instant, frame: Frame<P>) -> Option<P> {
        frame.payload
    }
}

impl<P: Payload> Endpoint<P> for Raw<P> {
    type Control = FrameKind;

    #[inline]
    fn wants_packet(&self) -> bool {
        self.waiting.is_none()
    }

    #[inline]
    fn enqueue(&mut self, _now: Instant, packet: P) {
        debug_assert!(self.wants_packet(), "enqueue without wants_packet");
        self.waiting = Some(packet);
    }

    #[inline]
    fn poll_transmit(&mut self, _now: Instant) -> Option<Frame<P>> {
        let packet = self.waiting.take()?;
        let sequence = self.counters.data_frames;
        self.counters.data_frames += 1;
        let bytes = packet.wire_bytes();
        Some(Frame {
            kind: FrameKind::Data { sequence },
            ack: None,
            payload: Some(packet),
            bytes,
            service: 0,
        })
    }

    #[inline]
    fn has_frame(&self) -> bool {
        self.waiting.is_some()
    }

    #[inline]
    fn receive(&mut self, _now: Instant, frame: Frame<P>) {
        self.up.extend(frame.payload);
    }

    #[inline]
    fn poll_deliver(&mut self) -> Option<P> {
        self.up.pop_front()
    }

    #[inline]
    fn poll_event(&mut self) -> Option<LinkEvent> {
        None
    }

    #[inline]
    fn next_timeout(&self) -> Instant {
        Instant::NEVER
    }

    fn handle_timeout(&mut self, _now: Instant) {}

    fn counters(&self) -> LinkCounters {
        self.counters
    }
}

impl<P: Payload> Abilities<P> for Raw<P> {
    fn damaged_headers(&mut self) -> Option<&mut dyn ReadsDamagedHeaders<P>> {
        Some(self)
    }
}

impl<P: Payload> Driven<P> for Raw<P> {}

impl ByteFormat for Raw<Vec<u8>> {
    fn encode(&self, frame: &Frame<Vec<u8>>, bytes: &mut Vec<u8>) -> Result<(), BytesError> {
        let packet = frame.payload.as_ref().filter(|packet| !packet.is_empty());
        bytes.extend_from_slice(packet.ok_or(BytesError::NoPacket)?);
        Ok(())
    }

    fn decode(&self, bytes: &[u8]) -> Result<Frame<Vec<u8>>, BytesError> {
        self.decode_owned(bytes.to_vec())
    }

    fn encode_owned(&self, frame: Frame<Vec<u8>>) -> Result<Vec<u8>, BytesError> {
        frame.payload.filter(|packet| !packet.is_empty()).ok_or(BytesError::NoPacket)
    }

    fn decode_owned(&self, bytes: Vec<u8>) -> Result<Frame<Vec<u8>>, BytesError> {
        let length = u32::try_from(bytes.len()).ok().filter(|&length| length > 0);
        Ok(Frame {
            // Raw frames contain no sequence number.
            kind: FrameKind::Data { sequence: 0 },
            ack: None,
            bytes: length.ok_or(BytesError::NoPacket)?,
            payload: Some(bytes),
            service: 0,
        })
    }
}
