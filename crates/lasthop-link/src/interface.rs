//! An interface: the queue in front of a link endpoint, the endpoint, and the transmitter for its
//! frames.
//!
//! Sans-IO like the endpoint inside, and generic over the packet type. The same type serves the
//! simulator (packet descriptors) and a live link (bytes).
//!
//! # Contract
//!
//! All calls carry `now`, which never decreases.
//!
//! - The driver passes each packet for the link to [`Interface::enqueue`], which returns whether
//!   the queue accepts it.
//! - After that, after every other call, and at [`Interface::next_timeout`] (where it first calls
//!   [`Interface::handle_timeout`]), the driver calls [`Interface::poll_transmit`] until it returns
//!   `None`. Each frame occupies the channel for its [`Transmission::airtime`].
//! - The driver passes a frame received without errors to the peer's [`Interface::receive`], and
//!   one received with errors but with a readable header to [`Interface::receive_damaged`].
//! - After `receive` and `handle_timeout` the driver drains [`Interface::poll_deliver`] and
//!   [`Interface::poll_event`].
//!
//! ```text
//!   enqueue --> [ queue ] --> endpoint --> transmitter --> poll_transmit
//!   poll_deliver <----------- endpoint <------------------ receive
//! ```
//!
//! Dropping, marking and scheduling are up to the [`Queue`] and its discipline. Limits count the
//! frame in transmission as queued, and sizes count each packet with its link header.

use crate::channel::{Airtime, Channel, ErrorProcess};
use crate::link::{Driven, Frame, FrameKind, LinkEvent, Port, Writer};
use crate::queue::{Limit, Queue, Transmitter};
use lasthop_base::packet::Payload;
use lasthop_base::units::Instant;

/// A frame that an interface sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Transmission<P> {
    /// The frame.
    pub frame: Frame<P>,
    /// Time interval of the transmission. `None` for a frame of length 0: ideal feedback, which
    /// arrives immediately and is never lost.
    pub airtime: Option<Airtime>,
}

/// Exposes `frame` to the error process `channel` during `airtime`. Of a frame with several units
/// it clears the bits of the lost units. Returns `true` if nothing of the frame survives.
pub fn expose<P>(channel: &mut Channel, airtime: Airtime, frame: &mut Frame<P>) -> bool {
    let FrameKind::Block { units, intact, .. } = &mut frame.kind else {
        return channel.is_lost(airtime);
    };
    *intact &= !channel.lost_units(airtime, units.units);
    *intact == 0
}

/// Receives the frames of an interface that is attached to a shared medium.
pub trait Carrier<P: Payload> {
    /// Whether the events of the endpoint and the drops of the queue are observed.
    const LISTENS: bool;

    /// Called after a packet has been removed from `queue`, which reports the packets dropped by
    /// that call.
    fn on_dequeue(&mut self, now: Instant, queue: &Queue<P>);

    /// Sends the frame of `writer`, if any, by the idle `transmitter`.
    fn carry<W: Writer<P>>(&mut self, now: Instant, writer: W, transmitter: &mut Transmitter);
}

/// Packets that have arrived at an interface and are not in its queue.
pub trait Inlet<P> {
    /// Returns `true` if a packet waits behind the queued ones.
    fn has_packet(&self) -> bool;

    /// Moves the first of these packets to `place`. Returns `false` without such a packet.
    fn take_into(&mut self, place: &mut Option<P>) -> bool;
}

/// A packet that arrives now and [can bypass the queue](Interface::can_bypass_queue).
#[derive(Clone, Copy, Debug)]
pub struct Fresh<'a, P>(pub Option<&'a P>);

impl<P: Clone> Inlet<P> for Fresh<'_, P> {
    #[inline(always)]
    fn has_packet(&self) -> bool {
        self.0.is_some()
    }

    #[inline(always)]
    fn take_into(&mut self, place: &mut Option<P>) -> bool {
        let Some(packet) = self.0.take() else { return false };
        *place = Some(packet.clone());
        true
    }
}

/// An endpoint's access to the queue, the transmitter and the carrier of its interface.
struct Gate<'a, P: Payload, C, I> {
    now: Instant,
    outlet: &'a mut Outlet<P>,
    inlet: &'a mut I,
    carrier: &'a mut C,
}

impl<P: Payload, C: Carrier<P>, I: Inlet<P>> Port<P> for Gate<'_, P, C, I> {
    const LISTENS: bool = C::LISTENS;

    #[inline(always)]
    fn free_at(&self) -> Instant {
        self.outlet.transmitter.free_at().instant()
    }

    #[inline(always)]
    fn has_packet(&self) -> bool {
        self.inlet.has_packet() || !self.outlet.queue.is_empty()
    }

    #[inline(always)]
    fn take_packet_into(&mut self, place: &mut Option<P>) -> bool {
        if self.outlet.queue.is_empty() && self.inlet.has_packet() {
            return self.inlet.take_into(place);
        }
        let is_there = self.outlet.queue.dequeue_into(self.now, place);
        if C::LISTENS {
            self.carrier.on_dequeue(self.now, &self.outlet.queue);
        }
        is_there
    }

    #[inline(always)]
    fn transmit<W: Writer<P>>(&mut self, now: Instant, writer: W) {
        self.carrier.carry(now, writer, &mut self.outlet.transmitter);
    }
}

/// The queue in front of an endpoint and the transmitter after it.
#[derive(Clone, Debug)]
struct Outlet<P: Payload> {
    queue: Queue<P>,
    transmitter: Transmitter,
}

/// Queue, endpoint and transmitter at one end of a link.
#[derive(Clone, Debug)]
pub struct Interface<E, P: Payload> {
    /// The link protocol.
    pub endpoint: E,
    outlet: Outlet<P>,
}

impl<P: Payload, E: Driven<P, Control = FrameKind>> Interface<E, P> {
    /// Connects `queue` to `endpoint`, and `endpoint` to `transmitter`.
    pub fn new(endpoint: E, queue: Queue<P>, transmitter: Transmitter) -> Self {
        Interface { endpoint, outlet: Outlet { queue, transmitter } }
    }

    /// Enqueues `packet`; returns `false` if it is dropped.
    #[inline]
    pub fn enqueue(&mut self, now: Instant, packet: P) -> bool {
        self.outlet.queue.enqueue(now, packet, &self.outlet.transmitter)
    }

    /// Like [`Self::enqueue`], for a copy of `packet`.
    #[inline(always)]
    pub fn enqueue_copy(&mut self, now: Instant, packet: &P) -> bool
    where
        P: Clone,
    {
        self.outlet.queue.enqueue_copy(now, packet, &self.outlet.transmitter)
    }

    /// Returns `true` if the queue has room for a packet of `bytes` and for another one like it.
    pub fn has_spare_room(&self, now: Instant, bytes: u32) -> bool {
        self.outlet.queue.has_room(now, bytes, 2, &self.outlet.transmitter)
    }

    /// Combines [`Self::poll_transmit`] and [`Self::next_timeout`] in one dispatch: passes the next
    /// frame, if any, to `carrier`. Returns the time of the next call, or `None` if the endpoint's
    /// timer has expired and must be handled first.
    ///
    /// The endpoint takes the packets of `inlet` directly when the queue is empty.
    #[inline(always)]
    pub fn turn(
        &mut self,
        now: Instant,
        inlet: &mut impl Inlet<P>,
        carrier: &mut impl Carrier<P>,
    ) -> Option<Instant> {
        let Interface { endpoint, outlet } = self;
        endpoint.turn(now, &mut Gate { now, outlet, inlet, carrier })
    }

    /// Like [`Self::turn`], with a packet that [can bypass the queue](Self::can_bypass_queue). If
    /// the endpoint does not take it, it is enqueued.
    #[inline(always)]
    pub fn turn_with(
        &mut self,
        now: Instant,
        mut fresh: Fresh<'_, P>,
        carrier: &mut impl Carrier<P>,
    ) -> Option<Instant>
    where
        P: Clone,
    {
        let next = self.turn(now, &mut fresh, carrier);
        if let Some(packet) = fresh.0 {
            self.outlet.queue.push_admitted(packet.clone());
        }
        next
    }

    /// Returns `true` if `count` further packets of any length would certainly be enqueued, whenever
    /// they arrive.
    #[inline(always)]
    pub fn has_certain_room(&self, count: usize) -> bool {
        self.outlet.queue.has_certain_room(count)
    }

    /// Returns `true` if a packet of `bytes` that arrives now would certainly be enqueued, with no
    /// frame in transmission and no other packet queued. Then [`Self::turn_with`] this packet is
    /// equivalent to [`Self::enqueue`] followed by [`Self::turn`].
    #[inline(always)]
    pub fn can_bypass_queue(&self, now: Instant, bytes: u32) -> bool {
        let Outlet { queue, transmitter } = &self.outlet;
        !transmitter.is_busy(now) && queue.can_bypass_queue(now, bytes, transmitter)
    }

    /// Writes the next frame of the endpoint to `frame`, which still holds an earlier one, regardless
    /// of the component that transmits it. The endpoint may take packets from the queue; `on_dequeue`
    /// is called with the queue after each of them. Returns `false` if no frame is ready.
    #[inline(always)]
    pub fn write_frame(
        &mut self,
        now: Instant,
        on_dequeue: impl FnOnce(&Queue<P>),
        frame: &mut Frame<P>,
    ) -> bool {
        let Interface { endpoint, outlet } = self;
        let packet = || {
            let packet = outlet.queue.dequeue(now);
            on_dequeue(&outlet.queue);
            packet
        };
        endpoint.write_frame(now, packet, frame)
    }

    /// The next frame to send. `None` if no frame is ready or one is in transmission.
    #[inline(always)]
    pub fn poll_transmit(&mut self, now: Instant) -> Option<Transmission<P>> {
        if self.outlet.transmitter.is_busy(now) {
            return None;
        }
        let mut frame = Frame::default();
        if !self.write_frame(now, |_| {}, &mut frame) {
            return None;
        }
        let airtime = self.outlet.transmitter.send_now(now, frame.bytes);
        Some(Transmission { frame, airtime })
    }

    /// Processes a frame that was received without errors.
    #[inline]
    pub fn receive(&mut self, now: Instant, frame: Frame<P>) {
        self.endpoint.receive(now, frame);
    }

    /// Processes a frame that was received with errors. Call this only if its header could be read,
    /// or if the endpoint has [ideal feedback](crate::link::Abilities::ideal_feedback). Returns the packet if it
    /// is to be delivered with errors.
    pub fn receive_damaged(&mut self, now: Instant, frame: Frame<P>) -> Option<P> {
        if let Some(ideal) = self.endpoint.ideal_feedback() {
            ideal.receive_damaged(now, frame);
            return None;
        }
        self.endpoint.damaged_headers()?.receive_header(now, frame)
    }

    /// The next packet to deliver to the upper layer.
    #[inline]
    pub fn poll_deliver(&mut self) -> Option<P> {
        self.endpoint.poll_deliver()
    }

    /// The endpoint's next event.
    #[inline]
    pub fn poll_event(&mut self) -> Option<LinkEvent> {
        self.endpoint.poll_event()
    }

    /// Time of the next call: the endpoint's timeout, or the end of the frame in transmission if
    /// packets are queued.
    #[inline]
    pub fn next_timeout(&self) -> Instant {
        self.endpoint.next_poll(self.free_at(), !self.outlet.queue.is_empty())
    }

    /// Like [`Self::next_timeout`], while a frame is in transmission. `has_more`: whether other
    /// packets wait in addition to the queued ones. If nothing is known to wait, the end of that
    /// frame may be returned.
    #[inline]
    pub fn next_timeout_while_busy(&self, has_more: bool) -> Instant {
        let has_packets = has_more || !self.outlet.queue.is_empty();
        self.endpoint.next_poll_while_busy(self.free_at(), has_packets)
    }

    /// Like [`Self::next_timeout_while_busy`], while no frame is in transmission. The driver need not
    /// call the interface earlier: it has nothing to send.
    #[inline]
    pub fn next_timeout_while_idle(&self, has_more: bool) -> Instant {
        let has_packets = has_more || !self.outlet.queue.is_empty();
        self.endpoint.next_poll(self.free_at(), has_packets)
    }

    /// Handles the endpoint's timeout if it has expired. Early or repeated calls have no effect.
    #[inline]
    pub fn handle_timeout(&mut self, now: Instant) {
        if self.endpoint.next_timeout() <= now {
            self.endpoint.handle_timeout(now);
        }
    }

    /// Time at which the transmitter becomes idle.
    #[inline]
    pub fn free_at(&self) -> Instant {
        self.outlet.transmitter.free_at().instant()
    }

    /// Enqueues a copy of `packet` behind `count` packets that are no longer in the queue; returns
    /// `false` if it is dropped. Call only if [`Self::counts_packets`] returns `true`.
    pub fn enqueue_copy_behind(&mut self, packet: &P, count: u64) -> bool
    where
        P: Clone,
    {
        let Ok(is_there) = self.outlet.queue.enqueue_behind(packet.clone(), count) else {
            unreachable!("the queue is a drop-tail queue that counts packets")
        };
        is_there
    }

    /// Returns `true` if the queue is a drop-tail queue with a limit in packets whose delays are
    /// not measured.
    pub fn counts_packets(&self) -> bool {
        self.outlet.queue.is_drop_tail()
            && matches!(self.outlet.queue.drop_tail_limit(), Some(Limit::Packets(_)))
    }

    /// Returns the endpoint, the queue and the transmitter.
    #[inline(always)]
    pub fn parts(&mut self) -> (&mut E, &mut Queue<P>, &mut Transmitter) {
        let Interface { endpoint, outlet: Outlet { queue, transmitter } } = self;
        (endpoint, queue, transmitter)
    }

    /// Sends `packet` by an idle transmitter, as [`Driven::takes_next`] has permitted. Returns the
    /// time interval of the transmission, and the time of the next call.
    #[inline(always)]
    pub fn send_next(
        &mut self,
        now: Instant,
        packet: &P,
        frame: &mut Frame<P>,
    ) -> (Option<Airtime>, Instant)
    where
        P: Clone,
    {
        let next = self.endpoint.send_next(now, packet, frame);
        (self.outlet.transmitter.send_now(now, frame.bytes), next)
    }

    /// Returns `true` if no packet is queued and no frame is in transmission at `now`.
    #[inline(always)]
    pub fn is_idle(&self, now: Instant) -> bool {
        self.free_at() <= now && self.outlet.queue.is_empty()
    }

    /// The transmitter.
    pub fn transmitter(&self) -> &Transmitter {
        &self.outlet.transmitter
    }

    /// The transmitter, to change its rate.
    pub fn transmitter_mut(&mut self) -> &mut Transmitter {
        &mut self.outlet.transmitter
    }

    /// Number of packets in the queue, excluding the frame in transmission.
    #[inline]
    pub fn queued(&self) -> usize {
        self.outlet.queue.len()
    }

    /// The queue, for its counters and the packets dropped by its discipline.
    pub fn queue(&self) -> &Queue<P> {
        &self.outlet.queue
    }
}
