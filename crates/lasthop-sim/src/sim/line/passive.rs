//! Passive ends, which are computed ahead of the clock.
//!
//! ```text
//!   near end --- data frame ---> passive end --> acceptor
//!            <-- its answer ---               <-- answer
//! ```
//!
//! An end is passive if it delivers packets only to acceptors that answer immediately, and sends
//! only these answers. Its state then depends only on the frames that it receives, which are known
//! as soon as they are sent. A data frame in order is therefore handled together with its
//! transmission: the packet, its answer, and the frame of the answer. The frame of the answer takes
//! its place in the ring of frames in transit; no event occurs at the passive end.
//!
//! The passive end may be serviced at the end of the transmission of the answer. If it then has nothing
//! to send, this is computed together with the next data frame.
//!
//! Any other frame (one behind a loss, a control frame), and any frame that finds the passive end
//! busy, waits for its event. So do frames that arrive after a timer of the passive end expires or
//! after the earliest possible end of the run.

use super::transmission::Transmission;
use super::{Cause, Line, LineEnd};
use crate::sim::deadlines::{Deadlines, Due};
use crate::sim::hops::Listener;
use crate::sim::ids::{DirectionId, LineId, Side};
use crate::sim::probe::{Probe, Silent};
use crate::sim::world::World;
use lasthop_base::packet::{Descriptor, Extension};
use lasthop_base::units::Instant;
use lasthop_link::interface::{Fresh, Interface};
use lasthop_link::link::{Driven, Endpoint};

impl<X: Extension> Line<X> {
    /// Returns `true` if `end` is passive, provided that all its packets are suitable: it is driven
    /// by no other component, and its queue admits any packet that can be sent immediately.
    pub fn can_be_passive(&self, end: Side) -> bool {
        let is_plain = self.ends.iter().all(|end| end.is_plain);
        let known = self.end(end);
        is_plain
            && self.station.is_none()
            && !self.is_watched
            && !self.exchanges_free
            && known.feeder.is_none()
            && known.interface.endpoint.takes_frames()
            && known.interface.has_certain_room(0)
    }

    /// Sets the passive end, if any.
    pub fn set_passive(&mut self, end: Option<Side>) {
        self.passive = end;
    }

    /// Returns the passive end, if any.
    pub fn passive(&self) -> Option<Side> {
        self.passive
    }

    /// Returns `true` if `end` is passive.
    #[inline(always)]
    pub(super) fn is_passive(&self, end: Side) -> bool {
        self.passive == Some(end)
    }
}

impl<X: Extension> LineEnd<X> {
    /// Sends `packet` at `at`, where [`Driven::takes_next`] has permitted it. `ticket` is the latest
    /// ticket. Returns the time of the next service.
    #[inline(always)]
    fn send_ahead(
        &mut self,
        at: Instant,
        packet: &Descriptor<X>,
        arrival: &mut Due,
        ticket: &mut u64,
    ) -> Instant {
        let slot = self.ring.next_slot();
        let (airtime, next) = self.interface.send_next(at, packet, &mut slot.item.frame);
        let airtime = airtime.expect("the frame of a packet takes time");
        let is_damaged = self.air.expose(airtime);
        if !is_damaged || self.air.is_damage_processed() {
            *ticket += 1;
            let due = Due::new(self.propagation.arrival(airtime.end), *ticket);
            slot.due = due;
            slot.item.is_damaged = is_damaged;
            if self.ring.is_empty() {
                *arrival = due;
            }
            self.ring.push_next();
        }
        next
    }

    /// Returns `true` if the end is to be serviced at `at`, the end of its transmission, and would
    /// then have nothing to send and no timer to handle. Such a service only sets the next one.
    #[inline(always)]
    fn is_polled_in_vain(&self, at: Instant) -> bool {
        let Interface { endpoint, .. } = &self.interface;
        at == self.interface.free_at()
            && self.interface.is_idle(at)
            && !endpoint.has_frame()
            && endpoint.next_timeout() > at
    }

    /// Like [`Self::send_ahead`], without a packet.
    #[cold]
    pub(super) fn respond(
        &mut self,
        at: Instant,
        direction: DirectionId,
        arrival: &mut Due,
        deadlines: &mut Deadlines,
    ) -> Instant {
        let mut transmission = Transmission {
            air: &mut self.air,
            propagation: &mut self.propagation,
            ring: &mut self.ring,
            direction,
            arrival,
            deadlines,
            probe: &mut Silent,
            has_sent: false,
        };
        let next = self.interface.turn(at, &mut Fresh(None), &mut transmission);
        next.expect("no timer of the passive end has expired")
    }
}

/// Sets the time at which an end is serviced next, as [`Line::serve_at`] does. `ticket` is the
/// latest ticket.
#[inline(always)]
pub(super) fn serve_at(known: &mut Due, at: Instant, ticket: &mut u64) {
    if known.at() != at {
        *ticket += 1;
        *known = Due::new(at, *ticket);
    }
}

impl<P: Probe, X: Extension> World<P, X> {
    /// Computes events of a line with a passive end ahead of the clock, as far as they are known,
    /// and schedules the line.
    #[inline(always)]
    pub(super) fn compute_ahead(&mut self, id: LineId) {
        let line = &mut self.lines[id.index()];
        if !line.is_closed() {
            self.compute_passive_end(id);
        } else if line.is_in_order() {
            self.compute_exchange(id);
        } else {
            line.schedule(&mut self.deadlines);
        }
    }

    /// Handles the frames in transit to a passive end, as far as they can be computed, and schedules
    /// the line.
    #[inline(never)]
    fn compute_passive_end(&mut self, id: LineId) {
        let line = &mut self.lines[id.index()];
        let Some(side) = line.passive else { return };
        let direction = line.direction(side);
        let Line { ends: [forward, reverse], deadlines_by_cause, .. } = line;
        let (near, far) = match side {
            Side::Forward => (reverse, forward),
            Side::Reverse => (forward, reverse),
        };
        let service = Cause::Service(side).place();
        while let Some(arrived) = near.ring.front_mut() {
            let due = arrived.due;
            let frame = &mut arrived.item.frame;
            let known = &mut deadlines_by_cause[service];
            if *known < due && far.is_polled_in_vain(known.at()) && self.ahead.permits(*known) {
                let mut ticket = self.ahead.next_ticket(self.deadlines.issued());
                let polled = *known;
                serve_at(known, far.interface.endpoint.next_timeout(), &mut ticket);
                if self.ahead.push(polled, ticket) {
                    self.wake = self.wake.min(polled.at());
                }
            }
            let waits = !far.interface.endpoint.takes_next(frame)
                || arrived.item.is_damaged
                || !far.interface.is_idle(due.at())
                || due.at() >= deadlines_by_cause[service].at()
                || !self.ahead.permits(due);
            if waits {
                break;
            }
            let at = due.at();
            let has_more = far.interface.endpoint.accept(at, frame);
            let Some(packet) = &mut frame.payload else {
                unreachable!("the next frame delivers its packet")
            };
            debug_assert!(!has_more, "the next frame delivers a single packet");
            let Listener::Answering { connection } = self.hops[packet.hop as usize].listener else {
                unreachable!("a passive end delivers to acceptors that answer")
            };
            let mut ticket = self.ahead.next_ticket(self.deadlines.issued());
            let arrival = &mut deadlines_by_cause[Cause::Arrival(side).place()];
            let is_answered = self.connections[connection.index()].answer(at, packet);
            let next = if is_answered {
                far.send_ahead(at, packet, arrival, &mut ticket)
            } else {
                let issued = self.deadlines.issued();
                self.deadlines.issue_after(ticket);
                let next = far.respond(at, direction, arrival, &mut self.deadlines);
                ticket = self.deadlines.issued();
                self.deadlines.issue_after(issued);
                next
            };
            let known = &mut deadlines_by_cause[service];
            serve_at(known, next, &mut ticket);
            if is_answered && !far.needs_no_poll_while_busy && far.interface.free_at() > at {
                serve_at(known, far.interface.next_timeout_while_busy(false), &mut ticket);
            }
            if self.ahead.push(due, ticket) {
                self.wake = self.wake.min(due.at());
            }
            near.ring.drop_front();
        }
        let first = near.ring.front();
        deadlines_by_cause[Cause::Arrival(side.other()).place()] =
            first.map_or(Due::NEVER, |first| first.due);
        line.schedule(&mut self.deadlines);
    }
}
