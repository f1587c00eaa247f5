//! Exchanges in order, which are computed ahead of the clock.
//!
//! ```text
//!   queue of the feeder --> near end --- data frames ---> passive end --> acceptor
//!   computed direction  <---         <-- their answers ---             <-- answers
//! ```
//!
//! A line with a passive end is *closed* while packets wait at its other end, the near end: its
//! feeder holds back further packets, so only frames in transit affect the line before the near end
//! is serviced. The answers that the near end delivers enter a computed direction, which no other
//! packets enter.
//!
//! While all frames are in order, few events repeat: the near end is serviced and sends the next
//! packet, this frame arrives at the passive end, which sends the answer, and the answer arrives at
//! the near end. With stand-alone acknowledgments, either end first sends an acknowledgment; the
//! passive end is then serviced again to send the answer. The events are computed until the next
//! packet is not known yet, a frame is missing, a timer expires, or the run may end. Tickets are reserved for each event as in [`ahead`](crate::sim::ahead).
//!
//! Packets are taken from the queue ahead of the clock. The times of these services are kept
//! ([`ServicesAhead`]), because packets that arrive earlier find them in the queue.
//!
//! Only selective repeat with a timer per frame is computed in this way.

use super::air::Air;
use super::passive::serve_at;
use super::{Cause, Crossing, Line, LineEnd, earliest};
use crate::sim::ahead::ComputedEvents;
use crate::sim::deadlines::{Deadlines, Due};
use crate::sim::direction::{Fifo, InFlight};
use crate::sim::hops::{Hop, Listener};
use crate::sim::ids::{DirectionId, LineId, Side};
use crate::sim::probe::Probe;
use crate::sim::world::{Connection, World};
use lasthop_base::packet::{Descriptor, Extension};
use lasthop_base::units::Instant;
use lasthop_link::link::{FrameKind, InOrder, LinkEndpoint};
use lasthop_link::queue::{PropagationDelay, Queue, Ring, Transmitter};

impl<X: Extension> Line<X> {
    /// Returns `true` if the line is closed while packets wait at the end opposite to its passive
    /// end, provided that the packets that this end delivers are suitable.
    pub fn can_close(&self, passive: Side) -> bool {
        let near = self.end(passive.other());
        let is_suitable = |end: &LineEnd<X>| match &end.interface.endpoint {
            LinkEndpoint::SelectiveRepeat(endpoint) => {
                endpoint.can_be_in_order() && !end.air.is_damage_processed()
            }
            _ => false,
        };
        near.feeder.is_some()
            && near.interface.counts_packets()
            && self.ends.iter().all(is_suitable)
    }

    /// Closes the line while packets wait. All packets that the end opposite to its passive end
    /// delivers enter the direction `onward`, which no others enter.
    pub fn close_before(&mut self, onward: DirectionId) {
        self.onward = Some(onward);
        for end in &mut self.ends {
            end.ahead = Some(Box::new(ServicesAhead::default()));
        }
    }

    /// Returns `true` if the line is closed.
    #[inline(always)]
    pub(super) fn is_closed(&self) -> bool {
        self.onward.is_some() && self.ends.iter().any(|end| end.holds_back)
    }

    /// Returns `true` if all frames of a closed line are in order.
    #[inline(always)]
    pub(super) fn is_in_order(&self) -> bool {
        self.ends.iter().all(|end| match &end.interface.endpoint {
            LinkEndpoint::SelectiveRepeat(endpoint) => endpoint.is_in_order(),
            _ => false,
        })
    }
}

/// Services of an end that have been computed ahead of the clock and that the clock has not passed.
#[derive(Clone, Debug)]
pub(super) struct ServicesAhead {
    /// Those that take a packet from the queue, and those that send an acknowledgment.
    packets: Ring<Due>,
    acks: Ring<Due>,
}

impl Default for ServicesAhead {
    fn default() -> Self {
        ServicesAhead { packets: Ring::with_capacity(8), acks: Ring::with_capacity(1) }
    }
}

impl ServicesAhead {
    /// Forgets all services: the clock has passed them.
    #[inline(always)]
    pub fn clear(&mut self) {
        self.packets.clear();
        self.acks.clear();
    }

    /// Returns the number of packets that these services take from the queue.
    #[inline(always)]
    pub fn packets(&self) -> usize {
        self.packets.len()
    }

    /// Returns the number of packets that are taken from the queue after `due`, and whether a frame
    /// is then in transmission; `None` if no service follows. An end that is serviced ahead of the
    /// clock sends without pauses.
    pub fn after(&mut self, due: Due) -> Option<(u64, bool)> {
        let mut first = Due::NEVER;
        for services in [&mut self.packets, &mut self.acks] {
            while services.front().is_some_and(|service| *service < due) {
                services.drop_front();
            }
            first = services.front().map_or(first, |service| first.min(*service));
        }
        (first != Due::NEVER).then(|| (self.packets.len() as u64, first.at() > due.at()))
    }
}

/// One end of a line during an exchange.
struct Station<'a, X: Extension> {
    order: InOrder<'a, Descriptor<X>>,
    queue: &'a mut Queue<Descriptor<X>>,
    transmitter: &'a mut Transmitter,
    air: &'a mut Air,
    propagation: &'a mut PropagationDelay,
    ring: &'a mut Ring<InFlight<Crossing<X>>>,
    /// Arrival of the first frame of the ring at the other end.
    arrival: Due,
    /// Next service.
    service: Due,
}

impl<'a, X: Extension> Station<'a, X> {
    /// Time at which the transmitter becomes idle.
    #[inline(always)]
    fn free_at(&self) -> Instant {
        self.transmitter.free_at().instant()
    }

    /// Sends `packet` at `at`. `ticket` is the latest ticket.
    #[inline(always)]
    fn send(&mut self, at: Instant, packet: &Descriptor<X>, ticket: &mut u64) {
        let slot = self.ring.next_slot();
        self.order.send(at, packet, &mut slot.item.frame);
        self.transmit(at, ticket);
    }

    /// Sends an acknowledgment at `at`, as [`Self::send`].
    #[inline(always)]
    fn send_ack(&mut self, at: Instant, ticket: &mut u64) {
        let slot = self.ring.next_slot();
        self.order.send_ack(&mut slot.item.frame);
        self.transmit(at, ticket);
    }

    /// Transmits the frame in the next slot of the ring.
    #[inline(always)]
    fn transmit(&mut self, at: Instant, ticket: &mut u64) {
        let slot = self.ring.next_slot();
        let airtime = self.transmitter.send_now(at, slot.item.frame.bytes);
        let airtime = airtime.expect("a frame of at least one byte takes time");
        if self.air.expose(airtime) {
            return;
        }
        *ticket += 1;
        let due = Due::new(self.propagation.arrival(airtime.end), *ticket);
        slot.due = due;
        slot.item.is_damaged = false;
        if self.ring.is_empty() {
            self.arrival = due;
        }
        self.ring.push_next();
    }

    /// Returns `true` if the service at `at` is that of an idle transmitter and not of a timer.
    #[inline(always)]
    fn is_ready(&self, at: Instant) -> bool {
        self.free_at() == at && self.order.timeout_at() > at
    }

    /// Returns `true` if a packet of the queue can be sent at `at`.
    #[inline(always)]
    fn can_send_next(&self, at: Instant) -> bool {
        let is_data = self.order.is_open() && !self.order.is_ack_first();
        is_data && self.is_ready(at) && !self.queue.is_empty()
    }

    /// Sends the next packet of the queue at `at`, and sets the time of the next service.
    #[inline(always)]
    fn send_next(&mut self, at: Instant, ticket: &mut u64) {
        let packet = self.queue.dequeue(at).expect("packets are queued");
        self.send(at, &packet, ticket);
        let has_packets = !self.queue.is_empty();
        self.serve_at(self.order.next_poll(self.free_at(), has_packets), ticket);
    }

    /// Sets the time of the next service. `ticket` is the latest ticket.
    #[inline(always)]
    fn serve_at(&mut self, at: Instant, ticket: &mut u64) {
        serve_at(&mut self.service, at, ticket);
    }

    /// Removes the first frame of the ring.
    #[inline(always)]
    fn drop_first(&mut self) {
        self.arrival = self.ring.next_front().map_or(Due::NEVER, |next| next.due);
    }
}

/// The parts of a world that an exchange affects.
struct Exchange<'a, X: Extension> {
    /// The end that sends data, and the passive end.
    near: Station<'a, X>,
    far: Station<'a, X>,
    /// Packets that arrive at the near end.
    feeder: &'a mut Ring<InFlight<Descriptor<X>>>,
    /// Computed services of the near end.
    services: &'a mut ServicesAhead,
    /// Whether the queue of the near end has room for all these packets, whenever they arrive.
    is_certain: bool,
    /// The direction that the answers enter.
    onward: &'a mut Fifo<X>,
    deadlines: &'a mut Deadlines,
    ahead: &'a mut ComputedEvents,
    hops: &'a [Hop],
    connections: &'a mut [Connection],
}

impl<X: Extension> Exchange<'_, X> {
    /// Computes events in order of time. Returns an arrival at the passive end that is not
    /// answered, and its latest ticket, if one ends the exchange.
    #[inline(always)]
    fn run(&mut self) -> Option<(Due, u64)> {
        loop {
            let [data, answer, service, response] = self.event_deadlines().map(Due::at);
            let computed = if data < answer {
                if service < data && service < response {
                    Ok(self.serve())
                } else if data < service && data < response {
                    self.receive()
                } else if response < data && response < service {
                    Ok(self.respond())
                } else {
                    self.compute_first_of_equals()
                }
            } else if service < answer && service < response {
                Ok(self.serve())
            } else if answer < data && answer < service && answer < response {
                Ok(self.receive_answer())
            } else {
                self.compute_first_of_equals()
            };
            match computed {
                Ok(true) => {}
                Ok(false) => return None,
                Err(ticket) => return Some((self.near.arrival, ticket)),
            }
        }
    }

    /// Returns the deadlines of the four events.
    #[inline(always)]
    fn event_deadlines(&self) -> [Due; 4] {
        [self.near.arrival, self.far.arrival, self.near.service, self.far.service]
    }

    /// Computes the first event, of which the time may be equal to that of another.
    #[inline(never)]
    fn compute_first_of_equals(&mut self) -> Result<bool, u64> {
        match earliest(&self.event_deadlines()) {
            0 => self.receive(),
            1 => Ok(self.receive_answer()),
            2 => Ok(self.serve()),
            _ => Ok(self.respond()),
        }
    }

    /// Computes the service of the near end, if it sends an acknowledgment, or a packet and another
    /// one then waits. Returns `false` if it must be handled at its time.
    #[inline(always)]
    fn serve(&mut self) -> bool {
        let Exchange { near, feeder, ahead, .. } = self;
        let due = near.service;
        let at = due.at();
        if !near.is_ready(at) || !ahead.is_known(at) {
            return false;
        }
        let mut ticket = ahead.next_ticket(self.deadlines.issued());
        if near.order.is_ack_first() {
            near.send_ack(at, &mut ticket);
            self.services.acks.push(due);
            near.serve_at(near.order.next_poll(near.free_at(), true), &mut ticket);
            ahead.push(due, ticket);
            return true;
        }
        if !near.order.is_open() {
            return false;
        }
        let is_queued = !near.queue.is_empty();
        if is_queued || !self.is_certain {
            let has_more = near.queue.len() > 1
                || self.is_certain && feeder.front().is_some_and(|behind| behind.due < due);
            if !is_queued || !has_more {
                return false;
            }
            let packet = near.queue.dequeue(at).expect("packets are queued");
            near.send(at, &packet, &mut ticket);
        } else {
            if feeder.second().is_none_or(|behind| behind.due >= due) {
                return false;
            }
            let first = feeder.front_mut().expect("there are two packets");
            first.item.hop += 1;
            near.send(at, &first.item, &mut ticket);
            feeder.drop_front();
        }
        self.services.packets.push(due);
        near.serve_at(near.order.next_poll(near.free_at(), true), &mut ticket);
        ahead.push(due, ticket);
        true
    }

    /// Computes the service of the passive end, if it sends an answer. Returns `false` if it must be
    /// handled at its time.
    #[inline(always)]
    fn respond(&mut self) -> bool {
        let Exchange { far, ahead, .. } = self;
        let due = far.service;
        let at = due.at();
        if !far.can_send_next(at) || !ahead.is_known(at) {
            return false;
        }
        let mut ticket = ahead.next_ticket(self.deadlines.issued());
        far.send_next(at, &mut ticket);
        ahead.push(due, ticket);
        true
    }

    /// Computes the arrival of the next frame at the passive end. Returns `Ok(false)` if it must be
    /// handled at its time, and the latest ticket if its packet is not answered.
    #[inline(always)]
    fn receive(&mut self) -> Result<bool, u64> {
        let Exchange { near, far, ahead, .. } = self;
        let due = near.arrival;
        let at = due.at();
        let Some(arrived) = near.ring.front_mut() else { return Ok(false) };
        let frame = &mut arrived.item.frame;
        let (free_at, is_queued) = (far.free_at(), !far.queue.is_empty());
        if !ahead.is_known(at) {
            return Ok(false);
        }
        if frame.kind == FrameKind::Ack {
            // An acknowledgment often arrives when the transmitter becomes idle.
            let sends_next = is_queued && free_at <= at;
            if sends_next && !far.can_send_next(at) {
                return Ok(false);
            }
            far.order.receive_ack(frame);
            let mut ticket = ahead.next_ticket(self.deadlines.issued());
            if sends_next {
                far.send_next(at, &mut ticket);
            } else if far.service.at() != free_at || free_at <= at {
                far.serve_at(far.order.next_poll(free_at, is_queued), &mut ticket);
            }
            ahead.push(due, ticket);
            near.drop_first();
            return Ok(true);
        }
        if !far.order.is_next(frame) || !far.order.is_open() || is_queued || free_at > at {
            return Ok(false);
        }
        far.order.receive(frame);
        let Some(packet) = &mut frame.payload else {
            unreachable!("a data frame carries a packet")
        };
        let Listener::Answering { connection } = self.hops[packet.hop as usize].listener else {
            unreachable!("a passive end delivers to acceptors that answer")
        };
        let mut ticket = ahead.next_ticket(self.deadlines.issued());
        let is_answered = self.connections[connection.index()].answer(at, packet);
        if is_answered {
            let is_queued = far.order.is_ack_first();
            if is_queued {
                far.send_ack(at, &mut ticket);
                far.queue.push_admitted(*packet);
            } else {
                far.send(at, packet, &mut ticket);
            }
            far.serve_at(far.order.next_poll(far.free_at(), is_queued), &mut ticket);
            ahead.push(due, ticket);
        }
        near.drop_first();
        if is_answered { Ok(true) } else { Err(ticket) }
    }

    /// Computes the arrival of the next frame at the near end, which is busy and forwards its packet.
    /// Returns `false` if it must be handled at its time.
    #[inline(always)]
    fn receive_answer(&mut self) -> bool {
        let Exchange { near, far, ahead, deadlines, onward, .. } = self;
        let due = far.arrival;
        let at = due.at();
        let Some(arrived) = far.ring.front_mut() else { return false };
        let frame = &mut arrived.item.frame;
        let free_at = near.free_at();
        let is_ack = frame.kind == FrameKind::Ack;
        if !is_ack && !near.order.is_next(frame) || free_at <= at || !ahead.is_known(at) {
            return false;
        }
        let mut ticket = ahead.next_ticket(deadlines.issued());
        if is_ack {
            near.order.receive_ack(frame);
        } else {
            near.order.receive(frame);
            let Some(packet) = &mut frame.payload else {
                unreachable!("a data frame carries a packet")
            };
            packet.hop += 1;
            if let Some(end) = onward.queue.pass_at(at, at, packet.bytes) {
                let issued = deadlines.issued();
                deadlines.issue_after(ticket);
                onward.put_on_way(end, packet, deadlines);
                ticket = deadlines.issued();
                deadlines.issue_after(issued);
            }
        }
        if near.service.at() != free_at {
            near.serve_at(near.order.next_poll(free_at, true), &mut ticket);
        }
        ahead.push(due, ticket);
        far.drop_first();
        true
    }
}

impl<P: Probe, X: Extension> World<P, X> {
    /// Computes the exchange of a closed line as far as possible, and schedules the line.
    #[inline(never)]
    pub(super) fn compute_exchange(&mut self, id: LineId) {
        while let Some((due, ticket)) = self.exchange(id) {
            self.serve_unanswered(id, due, ticket);
        }
        self.wake = self.wake.min(self.ahead.first());
        self.lines[id.index()].schedule(&mut self.deadlines);
    }

    /// Like [`Self::compute_exchange`], up to an arrival without an answer.
    #[inline(always)]
    fn exchange(&mut self, id: LineId) -> Option<(Due, u64)> {
        let Line { ends: [forward, reverse], deadlines_by_cause: dues, passive, onward, .. } =
            &mut self.lines[id.index()];
        let (side, onward) = ((*passive)?, (*onward)?);
        let (near, far) = match side {
            Side::Forward => (reverse, forward),
            Side::Reverse => (forward, reverse),
        };
        let LineEnd { interface, air, propagation, ring, feeder, ahead, .. } = near;
        let (LinkEndpoint::SelectiveRepeat(near), queue, transmitter) = interface.parts() else {
            unreachable!("only lines with selective repeat are closed")
        };
        let LineEnd {
            interface, air: far_air, propagation: far_propagation, ring: far_ring, ..
        } = far;
        let (LinkEndpoint::SelectiveRepeat(far), far_queue, far_transmitter) = interface.parts()
        else {
            unreachable!("only lines with selective repeat are closed")
        };
        let [data, answer, service, timeout] = [
            Cause::Arrival(side.other()),
            Cause::Arrival(side),
            Cause::Service(side.other()),
            Cause::Service(side),
        ]
        .map(Cause::place);
        if !dues.iter().all(|&due| self.ahead.follows(due)) {
            return None;
        }
        let services = ahead.as_deref_mut()?;
        let pair = [(*feeder)?, onward].map(DirectionId::index);
        let [feeder, onward] = self.directions.get_disjoint_mut(pair).ok()?.map(|direction| {
            direction.fifo_mut().expect("the directions before and after the line are computed")
        });
        let feeder = &mut feeder.ring;
        let mut exchange = Exchange {
            is_certain: queue.has_certain_room(feeder.len() + services.packets()),
            near: Station {
                order: near.in_order(),
                queue,
                transmitter,
                air,
                propagation,
                ring,
                arrival: dues[data],
                service: dues[service],
            },
            far: Station {
                order: far.in_order(),
                queue: far_queue,
                transmitter: far_transmitter,
                air: far_air,
                propagation: far_propagation,
                ring: far_ring,
                arrival: dues[answer],
                service: dues[timeout],
            },
            feeder,
            services,
            onward,
            deadlines: &mut self.deadlines,
            ahead: &mut self.ahead,
            hops: &self.hops,
            connections: &mut self.connections,
        };
        let unanswered = exchange.run();
        let Exchange { near: sent, far: answered, .. } = exchange;
        (dues[data], dues[answer]) = (sent.arrival, answered.arrival);
        (dues[service], dues[timeout]) = (sent.service, answered.service);
        let positions = [&sent, &answered].map(|station| station.order.position());
        near.continue_from(positions[0]);
        far.continue_from(positions[1]);
        unanswered
    }

    /// Services the passive end after an arrival without an answer, at `due`. `ticket` is the latest
    /// ticket.
    #[cold]
    fn serve_unanswered(&mut self, id: LineId, due: Due, ticket: u64) {
        let line = &mut self.lines[id.index()];
        let Some(side) = line.passive() else { return };
        let direction = line.direction(side);
        let Line { ends, deadlines_by_cause: dues, .. } = line;
        let issued = self.deadlines.issued();
        self.deadlines.issue_after(ticket);
        let arrival = &mut dues[Cause::Arrival(side).place()];
        let far = &mut ends[side as usize];
        let next = far.respond(due.at(), direction, arrival, &mut self.deadlines);
        let known = &mut dues[Cause::Service(side).place()];
        if known.at() != next {
            *known = Due::new(next, self.deadlines.ticket());
        }
        self.ahead.push(due, self.deadlines.issued());
        self.deadlines.issue_after(issued);
    }
}
