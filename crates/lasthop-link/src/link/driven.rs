//! Calls that a driver makes for each frame, combined.

use super::{Abilities, Frame, FrameKind};
use lasthop_base::packet::Payload;
use lasthop_base::units::Instant;

#[cfg(doc)]
use super::Endpoint;

/// A driver as seen by an endpoint: the packet queue and the transmitter.
pub trait Port<P> {
    /// Whether an observer is attached to the endpoint's events. If not, events are dropped.
    const LISTENS: bool;

    /// Returns the time at which the current transmission ends.
    fn free_at(&self) -> Instant;
    /// Returns `true` if a packet is queued.
    fn has_packet(&self) -> bool;
    /// Moves the first queued packet to `place`. Returns `false` if the queue is empty.
    fn take_packet_into(&mut self, place: &mut Option<P>) -> bool;
    /// Removes and returns the first queued packet.
    #[inline(always)]
    fn take_packet(&mut self) -> Option<P> {
        let mut packet = None;
        self.take_packet_into(&mut packet);
        packet
    }
    /// Transmits the frame of `writer`, if any, starting at `now`. Call only when the transmitter
    /// is idle.
    fn transmit<W: Writer<P>>(&mut self, now: Instant, writer: W);
}

/// Writes the next frame of an endpoint.
pub trait Writer<P> {
    /// See [`Driven::CODES_UNITS`].
    const CODES_UNITS: bool = false;

    /// Writes the next frame to `frame`, which still holds an earlier one. Returns `false` if no
    /// frame is ready.
    fn write(self, now: Instant, frame: &mut Frame<P>) -> bool;
}

impl<P: Payload, E: Driven<P> + ?Sized> Writer<P> for &mut E {
    const CODES_UNITS: bool = E::CODES_UNITS;

    #[inline(always)]
    fn write(self, now: Instant, frame: &mut Frame<P>) -> bool {
        self.write_next(now, frame)
    }
}

/// Combinations of calls of an [`Endpoint`]. The defaults make these calls; a protocol that has a
/// shorter way for its usual frames implements it here.
pub trait Driven<P: Payload>: Abilities<P> {
    /// Whether packets are erasure-coded, so that the units of a frame can be lost individually.
    const CODES_UNITS: bool = false;

    /// Like [`Endpoint::poll_transmit`], but writes the frame to `frame`, which still holds an earlier
    /// one. Returns `false` if no frame is ready.
    #[inline(always)]
    fn write_next(&mut self, now: Instant, frame: &mut Frame<P>) -> bool {
        match self.poll_transmit(now) {
            Some(next) => {
                *frame = next.on_air();
                true
            }
            None => false,
        }
    }

    /// Services an idle transmitter in one dispatch instead of three: enqueues `packet` if the
    /// endpoint wants one, and calls [`Self::write_next`].
    #[inline]
    fn write_frame(
        &mut self,
        now: Instant,
        packet: impl FnOnce() -> Option<P>,
        frame: &mut Frame<P>,
    ) -> bool {
        if self.wants_packet()
            && let Some(packet) = packet()
        {
            self.enqueue(now, packet);
        }
        self.write_next(now, frame)
    }

    /// Returns the time at which the driver must next service the endpoint. The transmitter becomes
    /// idle at `free_at`; `has_packets` specifies whether packets are queued.
    #[inline(always)]
    fn next_poll(&self, free_at: Instant, has_packets: bool) -> Instant {
        let has_frame = self.has_frame() || has_packets && self.wants_packet();
        let timeout = self.next_timeout();
        if has_frame { timeout.min(free_at) } else { timeout }
    }

    /// Like [`Self::next_poll`], while a transmission is in progress until `free_at`. By default
    /// the endpoint is polled when that transmission ends.
    #[inline]
    fn next_poll_while_busy(&self, free_at: Instant, _has_packets: bool) -> Instant {
        self.next_timeout().min(free_at)
    }

    /// Returns `true` if [`Self::next_poll_while_busy`] and [`Self::next_poll`] return the same
    /// time and received frames never advance a timer. A driver that has computed this time, or
    /// will poll when the transmitter becomes idle, then need not compute it again.
    fn needs_no_poll_while_busy(&self) -> bool {
        false
    }

    /// Services the endpoint in one dispatch: sends the next frame, if any, if the transmitter is
    /// idle. Returns the time of the next service, or `None` if a timer has expired, which must be
    /// handled first.
    #[inline(always)]
    fn turn<Q: Port<P>>(&mut self, now: Instant, port: &mut Q) -> Option<Instant> {
        let timeout = self.next_timeout();
        if timeout <= now {
            return None;
        }
        let free_at = port.free_at();
        if free_at > now {
            return Some(self.next_poll_while_busy(free_at, port.has_packet()));
        }
        if self.wants_packet() {
            self.load(now, port);
        }
        port.transmit(now, &mut *self);
        if !Q::LISTENS {
            self.drop_events();
        }
        Some(self.next_poll(port.free_at(), port.has_packet()))
    }

    /// Enqueues the first packet of the port, if any. Call only if [`Endpoint::wants_packet`] returns
    /// `true`.
    #[inline(always)]
    fn load<Q: Port<P>>(&mut self, now: Instant, port: &mut Q) {
        if let Some(packet) = port.take_packet() {
            self.enqueue(now, packet);
        }
    }

    /// Processes a frame received without errors in one dispatch instead of three. Replaces the
    /// payload of `frame` by the first deliverable packet, if any, usually the same packet. Returns
    /// `true` if more packets may be deliverable.
    #[inline]
    fn accept(&mut self, now: Instant, frame: &mut Frame<P>) -> bool {
        if let Some(frame) = Frame::from_air(frame.take()) {
            self.receive(now, frame);
        }
        frame.payload = self.poll_deliver();
        true
    }

    /// Returns `true` if [`Self::takes_next`] can return `true`.
    fn takes_frames(&self) -> bool {
        self.needs_no_poll_while_busy()
    }

    /// Returns `true` if [`Self::accept`] of `frame` would deliver the packet of this frame and no
    /// other, and if [`Self::send_next`] could then be called. A driver that holds the frame in
    /// advance can compute the response in advance. By default nothing is computed.
    #[inline(always)]
    fn takes_next(&self, _frame: &Frame<P>) -> bool {
        false
    }

    /// Sends `packet`, which [`Self::takes_next`] has permitted, in `frame` on an idle transmitter.
    /// Equivalent to [`Endpoint::enqueue`], [`Self::write_next`] and [`Self::next_poll`] without other
    /// packets.
    #[inline(always)]
    fn send_next(&mut self, now: Instant, packet: &P, frame: &mut Frame<P>) -> Instant
    where
        P: Clone,
    {
        self.enqueue(now, packet.clone());
        self.write_next(now, frame);
        self.next_timeout()
    }
}

/// A machine whose next frame is either urgent, or one that its waiting new packet or pending
/// acknowledgment causes. After a poll without urgent frames it has nothing to send.
pub(super) trait Prompt<P: Payload + Clone>: Driven<P, Control = FrameKind> {
    /// Returns `true` if a frame must be sent before new packets.
    fn has_urgent(&self) -> bool;
    /// Returns `true` if a new packet could be sent and none is waiting, regardless of urgent frames.
    fn has_room(&self) -> bool;
    /// Writes the next frame that must be sent before new packets. Returns `false` without one.
    fn write_urgent(&mut self, now: Instant, frame: &mut Frame<P>) -> bool;
    /// Writes the frame of the waiting new packet, otherwise the frame that is sent without one, if
    /// any.
    fn write_new(&mut self, now: Instant, frame: &mut Frame<P>) -> bool;
}

/// A machine for which [`Prompt::has_urgent`] has been evaluated.
struct Prompted<'a, M> {
    machine: &'a mut M,
    has_urgent: bool,
}

impl<P: Payload + Clone, M: Prompt<P>> Writer<P> for Prompted<'_, M> {
    #[inline(always)]
    fn write(self, now: Instant, frame: &mut Frame<P>) -> bool {
        let Prompted { machine, has_urgent } = self;
        has_urgent && machine.write_urgent(now, frame) || machine.write_new(now, frame)
    }
}

/// [`Driven::write_next`] of a [`Prompt`] machine.
#[inline(always)]
pub(super) fn write_prompt<P: Payload + Clone>(
    machine: &mut impl Prompt<P>,
    now: Instant,
    frame: &mut Frame<P>,
) -> bool {
    Prompted { has_urgent: machine.has_urgent(), machine }.write(now, frame)
}

/// [`Driven::turn`] of a [`Prompt`] machine: evaluates `has_urgent` only once; usually it is
/// `false`.
#[inline(always)]
pub(super) fn turn_prompt<P: Payload + Clone, Q: Port<P>>(
    machine: &mut impl Prompt<P>,
    now: Instant,
    port: &mut Q,
) -> Option<Instant> {
    if machine.next_timeout() <= now {
        return None;
    }
    let free_at = port.free_at();
    if free_at > now {
        return Some(machine.next_poll_while_busy(free_at, port.has_packet()));
    }
    let has_urgent = machine.has_urgent();
    if !has_urgent && machine.has_room() {
        machine.load(now, port);
    }
    port.transmit(now, Prompted { machine: &mut *machine, has_urgent });
    if !Q::LISTENS {
        machine.drop_events();
    }
    if has_urgent {
        return Some(machine.next_poll(port.free_at(), port.has_packet()));
    }
    debug_assert!(!machine.has_frame(), "what there was has been sent");
    let has_more = machine.has_room() && port.has_packet();
    let timeout = machine.next_timeout();
    Some(if has_more { timeout.min(port.free_at()) } else { timeout })
}
