//! An interface: the queue of packets that wait for a link endpoint, the endpoint, and the
//! transmitter that its frames share.
//!
//! Sans-IO like the endpoint inside, and generic in what it carries, so that one type serves every
//! driver: the simulator with descriptors of packets, a live link with bytes.
//!
//! # Contract
//!
//! All calls carry `now`, which never decreases.
//!
//! - A packet for the link goes into [`Interface::enqueue`], which tells whether the queue takes it.
//! - After that, after every other call, and at [`Interface::next_timeout`] (where it calls
//!   [`Interface::handle_timeout`] first), the driver takes [`Interface::poll_transmit`] until
//!   there is nothing: each frame is on the air for the time that it says.
//! - A frame that survives goes into the peer's [`Interface::receive`].
//! - After `receive` and `handle_timeout` it drains [`Interface::poll_deliver`] and
//!   [`Interface::poll_event`].
//!
//! ```text
//!   enqueue --> [ queue ] --> endpoint --> transmitter --> poll_transmit
//!   poll_deliver <----------- endpoint <------------------ receive
//! ```
//!
//! The queue is drop-tail: its limit counts the packets that the endpoint has not taken yet, and the
//! frame on the air; a byte limit counts each packet with its link header. Before it may stand random
//! early detection ([`Interface::with_red`]), which marks or drops packets of a queue that grows.

use crate::channel::Airtime;
use crate::link::{Endpoint, Frame, LinkEvent};
use crate::packet::Payload;
use crate::queue::{Limit, Red, RedVerdict, Transmitter};
use crate::units::Duration;
use crate::units::{Bytes, ExactTime, Instant, Rate};
use std::collections::VecDeque;

/// Packets that a queue has room for at first; it grows.
const QUEUE: usize = 64;

/// A frame that an interface sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Transmission<P> {
    /// What is sent.
    pub frame: Frame<P>,
    /// When it is on the air; `None` of a frame of no length, ideal feedback that arrives at once and
    /// is never lost.
    pub airtime: Option<Airtime>,
}

/// Queue, endpoint and transmitter at one end of a link.
#[derive(Clone, Debug)]
pub struct Interface<E, P> {
    /// The link protocol.
    pub endpoint: E,
    queue: VecDeque<P>,
    /// Of the packets in the queue, link headers included.
    queued_bytes: u64,
    limit: Limit,
    header: u64,
    transmitter: Transmitter,
    /// Length of the frame on the air.
    on_air_bytes: u64,
    drops: u64,
    red: Option<Box<Red>>,
}

impl<P: Payload, E: Endpoint<P>> Interface<E, P> {
    /// An empty queue of `limit` before `endpoint`, whose frames have `header` and leave at `rate`.
    pub fn new(endpoint: E, rate: Rate, limit: Limit, header: Bytes) -> Self {
        Interface {
            endpoint,
            queue: VecDeque::with_capacity(QUEUE),
            queued_bytes: 0,
            limit,
            header: header.get(),
            transmitter: Transmitter::new(rate),
            on_air_bytes: 0,
            drops: 0,
            red: None,
        }
    }

    /// The same with random early detection before the limit.
    pub fn with_red(self, red: Red) -> Self {
        Interface { red: Some(Box::new(red)), ..self }
    }

    /// Random early detection, if there is any.
    pub fn red(&self) -> Option<&Red> {
        self.red.as_deref()
    }

    /// Does random early detection let a packet join, perhaps with a mark?
    fn detect(&mut self, now: Instant, packet: &mut P) -> bool {
        let Some(red) = &mut self.red else { return true };
        let busy = self.transmitter.is_busy(now);
        let queued = if red.parameters().byte_mode {
            self.queued_bytes + if busy { self.on_air_bytes } else { 0 }
        } else {
            self.queue.len() as u64 + u64::from(busy)
        };
        let idle = now.saturating_since(self.transmitter.free_at().instant());
        let mean = red.parameters().mean_packet.bits();
        let service = ExactTime::default().after(mean, self.transmitter.rate());
        let service = Duration::from_nanos(service.nanos);
        match red.on_arrival(queued as f64, packet.wire_bytes(), idle, service) {
            RedVerdict::Admit => true,
            RedVerdict::Mark => packet.mark_congestion(),
            RedVerdict::Drop => false,
        }
    }

    /// A packet joins the queue; false: it is full, or detection wants fewer, and it is dropped.
    #[inline]
    pub fn enqueue(&mut self, now: Instant, mut packet: P) -> bool {
        let bytes = u64::from(packet.wire_bytes()) + self.header;
        let is_wanted = self.red.is_none() || self.detect(now, &mut packet);
        if !is_wanted || !self.has_room(now, bytes, 1) {
            self.drops += 1;
            return false;
        }
        self.queue.push_back(packet);
        self.queued_bytes += bytes;
        true
    }

    /// Is there room for `count` packets that take `bytes` each, headers included?
    #[inline]
    fn has_room(&self, now: Instant, bytes: u64, count: u64) -> bool {
        let busy = self.transmitter.is_busy(now);
        match self.limit {
            Limit::Packets(limit) => self.queue.len() as u64 + u64::from(busy) + count <= limit,
            Limit::Bytes(limit) => {
                let on_air = if busy { self.on_air_bytes } else { 0 };
                self.queued_bytes + on_air + count * bytes <= limit.get()
            }
        }
    }

    /// Would a packet of `bytes` that comes now leave room for another one like it?
    pub fn has_spare_room(&self, now: Instant, bytes: u32) -> bool {
        self.has_room(now, u64::from(bytes) + self.header, 2)
    }

    /// The endpoint's next frame, whoever puts it on the air; the endpoint is offered the head of the
    /// queue.
    #[inline(always)]
    pub(crate) fn next_frame(&mut self, now: Instant) -> Option<Frame<P>> {
        let Interface { endpoint, queue, queued_bytes, header, .. } = self;
        let head = || {
            let packet = queue.pop_front()?;
            *queued_bytes -= u64::from(packet.wire_bytes()) + *header;
            Some(packet)
        };
        endpoint.poll_frame(now, head)
    }

    /// The next frame to send; `None` if there is none, or while one is on the air.
    #[inline(always)]
    pub fn poll_transmit(&mut self, now: Instant) -> Option<Transmission<P>> {
        if self.transmitter.is_busy(now) {
            return None;
        }
        let frame = self.next_frame(now)?;
        let airtime = (frame.bytes > 0).then(|| {
            self.on_air_bytes = u64::from(frame.bytes);
            self.transmitter.send(now, u64::from(frame.bytes) * 8)
        });
        Some(Transmission { frame, airtime })
    }

    /// A frame came in undamaged.
    #[inline]
    pub fn receive(&mut self, now: Instant, frame: Frame<P>) {
        self.endpoint.receive(now, frame);
    }

    /// The next packet that may go up.
    #[inline]
    pub fn poll_deliver(&mut self) -> Option<P> {
        self.endpoint.poll_deliver()
    }

    /// The endpoint's next event.
    #[inline]
    pub fn poll_event(&mut self) -> Option<LinkEvent> {
        self.endpoint.poll_event()
    }

    /// When the driver must call again: the endpoint's timer, or the end of the frame on the air if
    /// something waits.
    #[inline]
    pub fn next_timeout(&self) -> Instant {
        self.endpoint.next_poll(self.free_at(), !self.queue.is_empty())
    }

    /// The endpoint's timer, if it is due, has run out; an early or repeated call changes nothing.
    #[inline]
    pub fn handle_timeout(&mut self, now: Instant) {
        if self.endpoint.next_timeout() <= now {
            self.endpoint.handle_timeout(now);
        }
    }

    /// When the frame on the air has left.
    #[inline]
    pub fn free_at(&self) -> Instant {
        self.transmitter.free_at().instant()
    }

    /// The transmitter.
    pub fn transmitter(&self) -> &Transmitter {
        &self.transmitter
    }

    /// Packets in the queue, without the frame on the air.
    #[inline]
    pub fn queued(&self) -> usize {
        self.queue.len()
    }

    /// Packets that found the queue full.
    pub fn drops(&self) -> u64 {
        self.drops
    }
}
