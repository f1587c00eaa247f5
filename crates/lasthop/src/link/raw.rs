//! Raw link: no recovery. Each packet is one frame without a header, sent once; whatever arrives
//! undamaged goes up.
//!
//! Source: the *Raw* baseline of Xylomenos and Polyzos, IPDPS 2003. The simulator computes raw
//! links directly; this machine lets them take part wherever an [`Endpoint`] is asked for.
//!
//! States: none.
//!
//! Not modelled: error detection fails never; a damaged frame is silently gone.

use super::{Endpoint, Frame, FrameKind, LinkCounters, LinkEvent};
use crate::packet::Payload;
use crate::units::Instant;
use std::collections::VecDeque;

/// A link without recovery.
#[derive(Clone, Debug)]
pub struct Raw<P> {
    waiting: Option<P>,
    up: VecDeque<P>,
    counters: LinkCounters,
}

impl<P> Raw<P> {
    /// An idle endpoint.
    pub fn new() -> Self {
        Raw { waiting: None, up: VecDeque::with_capacity(4), counters: LinkCounters::default() }
    }
}

impl<P> Default for Raw<P> {
    fn default() -> Self {
        Self::new()
    }
}

impl<P: Payload> Endpoint<P> for Raw<P> {
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
