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
//! - A frame that survives goes into the peer's [`Interface::receive`], a damaged one whose header could be read into
//!   [`Interface::receive_damaged`].
//! - After `receive` and `handle_timeout` it drains [`Interface::poll_deliver`] and
//!   [`Interface::poll_event`].
//!
//! ```text
//!   enqueue --> [ queue ] --> endpoint --> transmitter --> poll_transmit
//!   poll_deliver <----------- endpoint <------------------ receive
//! ```
//!
//! What waits, what is dropped and what is marked is up to the [`Queue`] and its discipline; limits
//! count the frame on the air as queued, and sizes count each packet with its link header.

use crate::channel::{Airtime, Channel, ErrorProcess};
use crate::link::{Endpoint, Frame, FrameKind, LinkEvent, Port, Writer};
use crate::queue::{Queue, Transmitter};
use lasthop_base::packet::Payload;
use lasthop_base::units::Instant;

/// A frame that an interface sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Transmission<P> {
    /// What is sent.
    pub frame: Frame<P>,
    /// When it is on the air; `None` of a frame of no length, ideal feedback that arrives at once and
    /// is never lost.
    pub airtime: Option<Airtime>,
}

/// A frame is on the air: which of its units are lost, of a frame that has some? True if nothing of it is
/// left.
pub fn expose<P>(channel: &mut Channel, airtime: Airtime, frame: &mut Frame<P>) -> bool {
    let FrameKind::Block { units, intact, .. } = &mut frame.kind else {
        return channel.is_lost(airtime);
    };
    *intact &= !channel.lost_units(airtime, units.units);
    *intact == 0
}

/// Takes the frames of an interface that a medium turns.
pub trait Carrier<P: Payload> {
    /// Does anybody listen to the endpoint's events and to what the queue drops?
    const LISTENS: bool;

    /// A packet has been taken from `queue`, which shows what it dropped meanwhile.
    fn on_dequeue(&mut self, now: Instant, queue: &Queue<P>);

    /// The frame of `writer`, if it has one, leaves by `transmitter`, which is idle.
    fn carry<W: Writer<P>>(&mut self, now: Instant, writer: W, transmitter: &mut Transmitter);
}

/// What an endpoint sees of its interface and of what takes its frames.
struct Gate<'a, P: Payload, C, const FRESH: bool> {
    now: Instant,
    outlet: &'a mut Outlet<P>,
    /// A packet that has just come and has nothing before it: what waits first, if `FRESH`.
    fresh: Option<&'a P>,
    carrier: &'a mut C,
}

impl<P: Payload + Clone, C: Carrier<P>, const FRESH: bool> Port<P> for Gate<'_, P, C, FRESH> {
    const LISTENS: bool = C::LISTENS;

    #[inline(always)]
    fn free_at(&self) -> Instant {
        self.outlet.transmitter.free_at().instant()
    }

    #[inline(always)]
    fn has_packet(&self) -> bool {
        FRESH && self.fresh.is_some() || !self.outlet.queue.is_empty()
    }

    #[inline(always)]
    fn take_packet_into(&mut self, place: &mut Option<P>) -> bool {
        if FRESH && let Some(fresh) = self.fresh.take() {
            *place = Some(fresh.clone());
            return true;
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

/// The queue before an endpoint and the transmitter behind it.
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

impl<P: Payload, E: Endpoint<P, Control = FrameKind>> Interface<E, P> {
    /// `queue` before `endpoint`, whose frames leave by `transmitter`.
    pub fn new(endpoint: E, queue: Queue<P>, transmitter: Transmitter) -> Self {
        Interface { endpoint, outlet: Outlet { queue, transmitter } }
    }

    /// A packet joins the queue; false: it is full, or its discipline wants fewer, and the packet is
    /// dropped.
    #[inline]
    pub fn enqueue(&mut self, now: Instant, packet: P) -> bool {
        self.outlet.queue.enqueue(now, packet, &self.outlet.transmitter)
    }

    /// The same of a copy of a packet.
    #[inline(always)]
    pub fn enqueue_copy(&mut self, now: Instant, packet: &P) -> bool
    where
        P: Clone,
    {
        self.outlet.queue.enqueue_copy(now, packet, &self.outlet.transmitter)
    }

    /// Would a packet of `bytes` that comes now leave room for another one like it?
    pub fn has_spare_room(&self, now: Instant, bytes: u32) -> bool {
        self.outlet.queue.has_room(now, bytes, 2, &self.outlet.transmitter)
    }

    /// What [`Self::poll_transmit`] and [`Self::next_timeout`] do, with one dispatch: hands the next
    /// frame, if there is one, to `carrier`. Returns when the interface must be seen to again, or
    /// `None` if the endpoint's timer is due, which must be handled first.
    ///
    /// A packet that [passes straight](Self::lets_pass) may come with it (`FRESH`): the endpoint takes it from where it is,
    /// or it joins the queue.
    #[inline(always)]
    pub fn turn<const FRESH: bool>(
        &mut self,
        now: Instant,
        fresh: Option<&P>,
        carrier: &mut impl Carrier<P>,
    ) -> Option<Instant>
    where
        P: Clone,
    {
        let Interface { endpoint, outlet } = self;
        let mut gate = Gate::<_, _, FRESH> { now, outlet, fresh, carrier };
        let next = endpoint.turn(now, &mut gate);
        if FRESH && let Some(packet) = gate.fresh {
            gate.outlet.queue.push_admitted(packet.clone());
        }
        next
    }

    /// Does a packet of `bytes` that comes now find neither a frame on the air nor another packet, and is there room for
    /// it? Then [`Self::turn`] with it does what [`Self::enqueue`] and then [`Self::turn`] would.
    #[inline(always)]
    pub fn lets_pass(&self, now: Instant, bytes: u32) -> bool {
        let Outlet { queue, transmitter } = &self.outlet;
        !transmitter.is_busy(now) && queue.lets_pass(now, bytes, transmitter)
    }

    /// The endpoint's next frame, whoever puts it on the air; the endpoint is offered the head of the
    /// queue. `on_dequeue` sees the queue after a packet has been taken from it.
    #[inline(always)]
    pub fn next_frame(
        &mut self,
        now: Instant,
        on_dequeue: impl FnOnce(&Queue<P>),
    ) -> Option<Frame<P>> {
        let Interface { endpoint, outlet } = self;
        endpoint.poll_frame(now, || {
            let packet = outlet.queue.dequeue(now);
            on_dequeue(&outlet.queue);
            packet
        })
    }

    /// The next frame to send; `None` if there is none, or while one is on the air.
    #[inline(always)]
    pub fn poll_transmit(&mut self, now: Instant) -> Option<Transmission<P>> {
        if self.outlet.transmitter.is_busy(now) {
            return None;
        }
        let frame = self.next_frame(now, |_| {})?;
        let airtime = self.outlet.transmitter.send_now(now, frame.bytes);
        Some(Transmission { frame, airtime })
    }

    /// A frame came in undamaged.
    #[inline]
    pub fn receive(&mut self, now: Instant, frame: Frame<P>) {
        self.endpoint.receive(now, frame);
    }

    /// A frame came in damaged, of which the endpoint is to be told: one of which only the header could be read, or any
    /// where it [wants damaged frames](Endpoint::wants_damaged). Returns the packet, if it is to go up damaged.
    pub fn receive_damaged(&mut self, now: Instant, frame: Frame<P>) -> Option<P> {
        if self.endpoint.wants_damaged() {
            self.endpoint.receive_damaged(now, frame);
            return None;
        }
        self.endpoint.receive_header(now, frame)
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
        self.endpoint.next_poll(self.free_at(), !self.outlet.queue.is_empty())
    }

    /// The same while a frame is on the air; where nothing is known to wait, the end of that frame is
    /// soon enough to ask.
    #[inline]
    pub fn next_timeout_while_busy(&self) -> Instant {
        self.endpoint.next_poll_while_busy(self.free_at(), !self.outlet.queue.is_empty())
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
        self.outlet.transmitter.free_at().instant()
    }

    /// The transmitter.
    pub fn transmitter(&self) -> &Transmitter {
        &self.outlet.transmitter
    }

    /// Packets in the queue, without the frame on the air.
    #[inline]
    pub fn queued(&self) -> usize {
        self.outlet.queue.len()
    }

    /// The queue: its counters, and what its discipline dropped.
    pub fn queue(&self) -> &Queue<P> {
        &self.outlet.queue
    }
}
