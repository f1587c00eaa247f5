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
//! While all frames are in order, three events repeat: the near end is serviced and sends the next
//! packet, this frame arrives at the passive end, which sends the answer, and the answer arrives at
//! the near end. They are computed until the next packet is not known yet, a frame is missing, a
//! timer expires, two events coincide, or the run may end. Tickets are reserved for each event as in
//! [`ahead`](crate::sim::ahead).
//!
//! Packets are taken from the queue ahead of the clock. The times of these services are kept (`left_ahead`),
//! because packets that arrive earlier find them in the queue.
//!
//! Only selective repeat with piggybacked acknowledgments and a timer per frame is computed in this
//! way.

use super::air::Air;
use super::passive::serve_at;
use super::{Cause, Crossing, Line, LineEnd};
use crate::sim::ahead::ComputedEvents;
use crate::sim::deadlines::{Deadlines, Due};
use crate::sim::direction::{Fifo, InFlight};
use crate::sim::hops::{Hop, Listener};
use crate::sim::ids::{DirectionId, LineId, Side};
use crate::sim::probe::Probe;
use crate::sim::world::{Connection, World};
use lasthop_base::packet::{Descriptor, Extension};
use lasthop_base::units::Instant;
use lasthop_link::link::{InOrder, LinkEndpoint};
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
            end.left_ahead = Some(Box::new(Ring::with_capacity(8)));
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
        let frame = &mut slot.item.frame;
        self.order.send(at, packet, frame);
        let airtime = self.transmitter.send_now(at, frame.bytes);
        let airtime = airtime.expect("the frame of a packet takes time");
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
    /// See [`LineEnd`].
    left_ahead: &'a mut Ring<Due>,
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
            let [data, answer, service] =
                [self.near.arrival, self.far.arrival, self.near.service].map(Due::at);
            let limit = self.far.service.at();
            let is_computed = if data < answer {
                if service < data && service < limit {
                    self.serve()
                } else if data < service && data < limit {
                    match self.receive() {
                        Ok(is_computed) => is_computed,
                        Err(ticket) => return Some((self.near.arrival, ticket)),
                    }
                } else {
                    false
                }
            } else if service < answer && service < limit && data != answer {
                self.serve()
            } else if answer < data && answer < service && answer < limit {
                self.receive_answer()
            } else {
                false
            };
            if !is_computed {
                return None;
            }
        }
    }

    /// Computes the service of the near end, if it sends a packet and another one then waits.
    /// Returns `false` if it must be handled at its time.
    #[inline(always)]
    fn serve(&mut self) -> bool {
        let Exchange { near, feeder, ahead, .. } = self;
        let due = near.service;
        let at = due.at();
        let is_ready = near.free_at() == at && near.order.is_open() && near.order.timeout_at() > at;
        if !is_ready || !ahead.is_known(at) {
            return false;
        }
        let mut ticket = ahead.next_ticket(self.deadlines.issued());
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
        self.left_ahead.push(due);
        let timeout = near.order.timeout_at();
        let next = if near.order.is_open() { timeout.min(near.free_at()) } else { timeout };
        near.serve_at(next, &mut ticket);
        ahead.push(due, ticket);
        true
    }

    /// Computes the arrival of the next data frame at the passive end. Returns `Ok(false)` if it must
    /// be handled at its time, and the latest ticket if the packet is not answered.
    #[inline(always)]
    fn receive(&mut self) -> Result<bool, u64> {
        let Exchange { near, far, ahead, .. } = self;
        let due = near.arrival;
        let at = due.at();
        let Some(arrived) = near.ring.front_mut() else { return Ok(false) };
        let frame = &mut arrived.item.frame;
        if !far.order.is_next(frame)
            || !far.order.is_open()
            || far.free_at() > at
            || !ahead.is_known(at)
        {
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
            far.send(at, packet, &mut ticket);
            far.serve_at(far.order.timeout_at(), &mut ticket);
            ahead.push(due, ticket);
        }
        near.drop_first();
        if is_answered { Ok(true) } else { Err(ticket) }
    }

    /// Computes the arrival of the next answer at the near end, which is busy and forwards the
    /// packet. Returns `false` if it must be handled at its time.
    #[inline(always)]
    fn receive_answer(&mut self) -> bool {
        let Exchange { near, far, ahead, deadlines, onward, .. } = self;
        let due = far.arrival;
        let at = due.at();
        let Some(arrived) = far.ring.front_mut() else { return false };
        let frame = &mut arrived.item.frame;
        let free_at = near.free_at();
        if !near.order.is_next(frame) || free_at <= at || !ahead.is_known(at) {
            return false;
        }
        near.order.receive(frame);
        let Some(packet) = &mut frame.payload else {
            unreachable!("a data frame carries a packet")
        };
        packet.hop += 1;
        let mut ticket = ahead.next_ticket(deadlines.issued());
        if let Some(end) = onward.queue.pass_at(at, at, packet.bytes) {
            let issued = deadlines.issued();
            deadlines.issue_after(ticket);
            onward.put_on_way(end, packet, deadlines);
            ticket = deadlines.issued();
            deadlines.issue_after(issued);
        }
        if near.service.at() != free_at {
            near.serve_at(near.order.timeout_at().min(free_at), &mut ticket);
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
        let LineEnd { interface, air, propagation, ring, feeder, left_ahead, .. } = near;
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
        let follow = [data, answer, service].iter().all(|&place| self.ahead.follows(dues[place]));
        if !far_queue.is_empty() || !follow {
            return None;
        }
        let left_ahead = left_ahead.as_deref_mut()?;
        let pair = [(*feeder)?, onward].map(DirectionId::index);
        let [feeder, onward] = self.directions.get_disjoint_mut(pair).ok()?.map(|direction| {
            direction.fifo_mut().expect("the directions before and after the line are computed")
        });
        let feeder = &mut feeder.ring;
        let mut exchange = Exchange {
            is_certain: queue.has_certain_room(feeder.len() + left_ahead.len()),
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
            left_ahead,
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
