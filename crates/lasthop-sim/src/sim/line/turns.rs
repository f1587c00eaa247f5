//! Event handlers of driven links: packets that enter, frames that arrive, timers, and service of
//! the ends.

use super::transmission::Transmission;
use super::{Cause, Line, LineEnd};
use crate::sim::deadlines::{Deadlines, Due};
use crate::sim::direction::{Direction, InFlight, Medium};
use crate::sim::ids::{DirectionId, LineId, Side};
use crate::sim::probe::{Event, FrameLabel, Probe};
use crate::sim::probe_events::record_dropped;
use crate::sim::world::World;
use lasthop_base::packet::{Descriptor, Extension};
use lasthop_link::interface::{Fresh, Inlet};
use lasthop_link::link::{Abilities, Driven, LayerEvent, LinkEndpoint};
use lasthop_link::queue::Ring;

impl<X: Extension> LineEnd<X> {
    /// Moves the packets that the feeder has held back, and whose arrival precedes `event`, into
    /// the interface queue.
    fn absorb(&mut self, event: Due, directions: &mut [Direction<X>]) {
        let feeder = self.feeder.expect("an end that holds back packets has a feeder");
        let fifo = directions[feeder.index()].fifo_mut().expect("a feeder is computed");
        self.absorb_from(&mut fifo.ring, event);
    }

    /// Like [`Self::absorb`]; `ring` is that of the feeder.
    #[inline(never)]
    fn absorb_from(&mut self, ring: &mut Ring<InFlight<Descriptor<X>>>, event: Due) {
        while let Some(first) = ring.front_mut()
            && first.due < event
        {
            first.item.hop += 1;
            match self.ahead.as_mut().and_then(|ahead| ahead.after(first.due)) {
                None => self.interface.enqueue_copy(first.due.at(), &first.item),
                Some((packets, is_busy)) => {
                    let count = packets + u64::from(is_busy);
                    self.interface.enqueue_copy_behind(&first.item, count)
                }
            };
            ring.drop_front();
        }
        if let Some(ahead) = &mut self.ahead {
            ahead.clear();
        }
    }

    /// Like [`Self::absorb`], but leaves the packets with the feeder if the queue has room for all
    /// of them: the endpoint then takes them from there.
    #[inline(always)]
    fn held<'a>(&mut self, event: Due, directions: &'a mut [Direction<X>]) -> Held<'a, X> {
        if !self.holds_back {
            return Held::nothing(event);
        }
        let feeder = self.feeder.expect("an end that holds back packets has a feeder");
        let fifo = directions[feeder.index()].fifo_mut().expect("a feeder is computed");
        let mut count = fifo.ring.len();
        if let Some(ahead) = &self.ahead {
            count += ahead.packets();
        }
        if self.interface.has_certain_room(count) {
            if let Some(ahead) = &mut self.ahead {
                ahead.clear();
            }
            return Held::of(&mut fifo.ring, event);
        }
        self.absorb_from(&mut fifo.ring, event);
        Held::nothing(event)
    }

    /// Holds back the arrivals of the feeder, or releases them. Held arrivals cause no events.
    #[inline(never)]
    fn hold_back(
        &mut self,
        feeder: DirectionId,
        directions: &mut [Direction<X>],
        deadlines: &mut Deadlines,
    ) {
        self.holds_back = !self.holds_back;
        let fifo = directions[feeder.index()].fifo_mut().expect("a feeder is computed");
        fifo.is_held_back = self.holds_back;
        let first = fifo.ring.front().map_or(Due::NEVER, |first| first.due);
        let due = if self.holds_back { Due::NEVER } else { first };
        deadlines.put(fifo.machine.expect("the feeder's arrivals are handled"), due);
    }
}

/// Packets that the feeder of an end has held back and that have arrived before an event.
struct Held<'a, X: Extension> {
    /// The packets of the feeder, unless those that have arrived are in the queue.
    ring: Option<&'a mut Ring<InFlight<Descriptor<X>>>>,
    event: Due,
    /// Whether the first of them has arrived.
    has_arrived: bool,
}

impl<'a, X: Extension> Held<'a, X> {
    #[inline(always)]
    fn nothing(event: Due) -> Self {
        Held { ring: None, event, has_arrived: false }
    }

    #[inline(always)]
    fn of(ring: &'a mut Ring<InFlight<Descriptor<X>>>, event: Due) -> Self {
        let has_arrived = ring.front().is_some_and(|first| first.due < event);
        Held { ring: Some(ring), event, has_arrived }
    }
}

impl<X: Extension> Inlet<Descriptor<X>> for Held<'_, X> {
    #[inline(always)]
    fn has_packet(&self) -> bool {
        self.has_arrived
    }

    #[inline(always)]
    fn take_into(&mut self, place: &mut Option<Descriptor<X>>) -> bool {
        let Some(ring) = &mut self.ring else { return false };
        let Some(first) = ring.front() else { return false };
        *place = Some(Descriptor { hop: first.item.hop + 1, ..first.item });
        let next = ring.next_front();
        self.has_arrived = next.is_some_and(|next| next.due < self.event);
        true
    }
}

impl<P: Probe, X: Extension> World<P, X> {
    /// Handles a line's deadline.
    #[inline]
    pub(in crate::sim) fn on_line(&mut self, id: LineId) {
        let line = &self.lines[id.index()];
        match Cause::at(line.next) {
            Cause::Arrival(side) => self.on_frame(id, side),
            Cause::Service(side) if line.station.is_some() => self.on_station_timer(id, side),
            Cause::Service(side) => self.serve_link(id, side),
        }
    }

    /// Handles the arrival of the first frame in transit from `side` at the other end.
    #[inline]
    fn on_frame(&mut self, id: LineId, side: Side) {
        let now = self.now;
        let line = &mut self.lines[id.index()];
        let [near, far] = line.both(side);
        let arrived = near.ring.front_mut().expect("a frame that arrives is in the ring");
        if arrived.item.is_damaged {
            return self.on_damaged_frame(id, side);
        }
        if P::ACTIVE {
            arrived.item.frame.number_packet();
        }
        let has_more = far.interface.endpoint.accept(now, &mut arrived.item.frame);
        // By reference: a copy of a payload that was just removed would wait for that store.
        let mut up = None;
        if let Some(packet) = &arrived.item.frame.payload {
            up = Some(*packet);
        }
        let next = near.ring.next_front().map_or(Due::NEVER, |next| next.due);
        line.deadlines_by_cause[Cause::Arrival(side).place()] = next;
        line.is_stale = true;
        line.served[side.other() as usize] = false;
        if P::ACTIVE {
            self.record_link_events(id, side.other());
        }
        self.forward_all(id, side.other(), &mut up, has_more);
        self.serve_after_arrival(id, side.other());
    }

    /// Forwards `up`, if any, and if `has_more` all further packets that the endpoint of `side`
    /// delivers to the upper layer.
    #[inline(always)]
    pub(in crate::sim) fn forward_all(
        &mut self,
        id: LineId,
        side: Side,
        up: &mut Option<Descriptor<X>>,
        has_more: bool,
    ) {
        while let Some(packet) = up {
            if P::ACTIVE {
                self.record_line_delivery(id, side, packet);
            }
            self.forward(packet);
            if !has_more {
                break;
            }
            *up = self.poll_deliver(id, side);
        }
    }

    /// Like [`Self::on_frame`], for a damaged frame that the other end processes.
    #[cold]
    fn on_damaged_frame(&mut self, id: LineId, side: Side) {
        let line = &mut self.lines[id.index()];
        let [near, far] = line.both(side);
        let arrived = near.ring.front().expect("a frame that arrives is in the ring");
        self.damaged.extend(far.receive_damaged(self.now, arrived.item.frame));
        let next = near.ring.next_front().map_or(Due::NEVER, |next| next.due);
        line.deadlines_by_cause[Cause::Arrival(side).place()] = next;
        if P::ACTIVE {
            self.record_link_events(id, side.other());
        }
        self.hand_up(id, side.other());
        self.serve(id, side.other());
    }

    /// Sends a packet over the direction of a line now. `packet.hop` is the hop of that direction.
    #[inline(always)]
    pub(in crate::sim) fn enter_line(
        &mut self,
        id: LineId,
        direction: DirectionId,
        service: u8,
        packet: &Descriptor<X>,
    ) {
        let end = self.lines[id.index()].end(direction.side());
        if !P::ACTIVE && !end.holds_back && end.can_bypass_queue(self.now, packet.bytes) {
            return self.serve_fresh(id, direction.side(), packet);
        }
        self.join_queue(id, direction, service, packet);
    }

    /// Like [`Self::enter_line`], if other packets may wait.
    #[inline(never)]
    fn join_queue(
        &mut self,
        id: LineId,
        direction: DirectionId,
        service: u8,
        packet: &Descriptor<X>,
    ) {
        let (now, current) = (self.now, self.current());
        let end = self.lines[id.index()].end_mut(direction.side());
        if end.holds_back {
            end.absorb(current, &mut self.directions);
        }
        let admitted = end.offer(now, service, packet);
        if P::ACTIVE {
            let (packets, packet) = (end.length(now), packet.full());
            self.probe.record(now, Event::Queue { direction, packets, packet });
            record_dropped(&mut self.probe, direction, now, end.interface.queue());
            if !admitted {
                let dropped = Event::Dropped { direction, packet, turn: None };
                self.probe.record(now, dropped);
            }
        }
        // Behind other packets, it has no effect until the head of the queue advances.
        if !end.has_backlog() {
            self.serve(id, direction.side());
        }
    }

    /// Forwards the packets that the endpoint of `side` delivers to the upper layer.
    #[inline]
    pub(in crate::sim) fn hand_up(&mut self, id: LineId, side: Side) {
        self.hand_up_damaged();
        let mut up = self.poll_deliver(id, side);
        self.forward_all(id, side, &mut up, true);
    }

    /// Returns the next packet that the endpoint of `side` delivers to the upper layer.
    #[inline(always)]
    pub(in crate::sim) fn poll_deliver(&mut self, id: LineId, side: Side) -> Option<Descriptor<X>> {
        self.lines[id.index()].end_mut(side).interface.poll_deliver()
    }

    /// Handles the timer of an endpoint.
    #[cold]
    pub(in crate::sim) fn on_link_timer(&mut self, id: LineId, side: Side) {
        let now = self.now;
        self.lines[id.index()].end_mut(side).interface.handle_timeout(now);
        if P::ACTIVE {
            self.record_link_events(id, side);
        }
        self.hand_up(id, side);
    }

    /// Reports to the probe the delivery of a packet that has crossed `direction`.
    pub(in crate::sim) fn record_delivery(
        &mut self,
        direction: DirectionId,
        packet: &Descriptor<X>,
        number: Option<u64>,
    ) {
        // On a WLAN, it is the access category.
        let service = match self.directions[direction.index()].medium {
            Medium::Shared(_) => 0,
            Medium::Fifo(_) | Medium::Line(_) => self.hops[packet.hop as usize].service,
        };
        let delivered = Event::Delivered { direction, service, number, packet: packet.full() };
        self.probe.record(self.now, delivered);
    }

    /// Like [`Self::record_delivery`], for a packet that end `side` of a line delivers.
    pub(in crate::sim) fn record_line_delivery(
        &mut self,
        id: LineId,
        side: Side,
        packet: &Descriptor<X>,
    ) {
        let direction = self.lines[id.index()].direction(side.other());
        self.record_delivery(direction, packet, packet.frame());
    }

    /// Reports an endpoint's events to the probe as they occur, instead of at its next
    /// transmission.
    pub(in crate::sim) fn record_link_events(&mut self, id: LineId, side: Side) {
        let line = &mut self.lines[id.index()];
        let direction = line.direction(side);
        while let Some((part, event)) = line.end_mut(side).poll_event() {
            match event {
                LayerEvent::Link(event) => {
                    self.probe.record(self.now, Event::Link { direction, service: part, event });
                }
                LayerEvent::Sent { number, kind, ack, bytes, carries, at } => {
                    let label = FrameLabel { kind, ack, service: part, carries };
                    self.probe.record(at, Event::LayerSent { direction, number, label, bytes });
                }
                LayerEvent::Received { number, at } => {
                    let (direction, layer) = (direction.opposite(), part);
                    self.probe.record(at, Event::LayerReceived { direction, layer, number });
                }
            }
        }
        if let LinkEndpoint::Services(services) = &mut line.end_mut(side).interface.endpoint {
            while let Some((_, packet)) = services.poll_dropped() {
                let packet = packet.full();
                let dropped = Event::Dropped { direction, packet, turn: None };
                self.probe.record(self.now, dropped);
            }
        }
    }

    /// Passes the delivery reports of the endpoint of `side` to the agents that its packets have
    /// passed.
    #[cold]
    pub(in crate::sim) fn report_link_outcomes(&mut self, id: LineId, side: Side) {
        let direction = self.lines[id.index()].direction(side);
        let poll = |world: &mut Self| {
            let endpoint = &mut world.lines[id.index()].end_mut(side).interface.endpoint;
            endpoint.delivery_reports()?.poll()
        };
        while let Some((fate, packet)) = poll(self) {
            self.report_fate(direction, fate, &packet);
        }
    }

    /// Like [`Self::serve`], after a frame has arrived. The transmitter is usually busy: the end is
    /// then serviced when it becomes idle.
    #[inline]
    fn serve_after_arrival(&mut self, id: LineId, side: Side) {
        let mut line = &mut self.lines[id.index()];
        if line.is_watched {
            self.report_link_outcomes(id, side);
            line = &mut self.lines[id.index()];
        }
        // The peer may have answered a forwarded packet, so that the end has already been serviced.
        if !line.served[side as usize] {
            let end = line.end(side);
            let free_at = end.interface.free_at();
            let known = line.deadlines_by_cause[Cause::Service(side).place()].at();
            // Usually the end is scheduled for that time already.
            if !(end.needs_no_poll_while_busy && known == free_at && free_at > self.now) {
                let next = match free_at > self.now {
                    true => end.interface.next_timeout_while_busy(end.holds_back),
                    false => end.interface.next_timeout_while_idle(end.holds_back),
                };
                if next <= self.now {
                    return self.serve(id, side);
                }
                line.serve_at(side, next, &mut self.deadlines);
            }
        }
        if !P::ACTIVE && line.is_passive(side) && !line.end(side.other()).ring.is_empty() {
            return self.compute_ahead(id);
        }
        line.schedule_if_stale(&mut self.deadlines);
        if P::ACTIVE {
            self.record_link_events(id, side);
        }
    }

    /// Services an end: handles its timer if it has expired, and sends the next frame, if any. A
    /// station of a radio sends it in its next slot.
    #[inline]
    pub(in crate::sim) fn serve(&mut self, id: LineId, side: Side) {
        match self.lines[id.index()].station {
            Some(_) => self.wake_radio(id, side),
            None => self.serve_link(id, side),
        }
    }

    /// Like [`Self::serve`], for an end with its own transmitter.
    #[inline(always)]
    fn serve_link(&mut self, id: LineId, side: Side) {
        match side {
            Side::Forward => self.serve_end::<false, false>(id, None),
            Side::Reverse => self.serve_end::<true, false>(id, None),
        }
    }

    /// Like [`Self::serve_link`], with a packet that
    /// [can bypass the queue](LineEnd::can_bypass_queue).
    #[inline(always)]
    fn serve_fresh(&mut self, id: LineId, side: Side, fresh: &Descriptor<X>) {
        match side {
            Side::Forward => self.serve_end::<false, true>(id, Some(fresh)),
            Side::Reverse => self.serve_end::<true, true>(id, Some(fresh)),
        }
    }

    /// Services an end. It is compiled separately for either end, and for the packet `fresh`, which
    /// is present if `FRESH` is set.
    #[inline(never)]
    fn serve_end<const REVERSE: bool, const FRESH: bool>(
        &mut self,
        id: LineId,
        fresh: Option<&Descriptor<X>>,
    ) {
        let side = if REVERSE { Side::Reverse } else { Side::Forward };
        let (now, current) = (self.now, self.current());
        let line = &mut self.lines[id.index()];
        let direction = line.direction(side);
        let Line { ends, deadlines_by_cause, .. } = line;
        let end = &mut ends[side as usize];
        let mut held = match FRESH {
            true => Held::nothing(current),
            false => end.held(current, &mut self.directions),
        };
        let mut transmission = Transmission {
            air: &mut end.air,
            propagation: &mut end.propagation,
            ring: &mut end.ring,
            direction,
            arrival: &mut deadlines_by_cause[Cause::Arrival(side).place()],
            deadlines: &mut self.deadlines,
            probe: &mut self.probe,
            has_sent: false,
        };
        let next = match FRESH {
            true => end.interface.turn_with(now, Fresh(fresh), &mut transmission),
            false => end.interface.turn(now, &mut held, &mut transmission),
        };
        if P::ACTIVE && transmission.has_sent {
            let packets = end.length(now);
            self.probe.record(now, Event::QueueServed { direction, packets });
        }
        let Some(next) = next else { return self.serve_after_timer(id, side) };
        let is_waiting = end.interface.queued() > 0 || !FRESH && held.has_packet();
        if let Some(feeder) = end.feeder
            && end.holds_back != is_waiting
        {
            end.hold_back(feeder, &mut self.directions, &mut self.deadlines);
        }
        let sleeps = end.needs_no_poll_while_busy;
        line.serve_at(side, next, &mut self.deadlines);
        line.served[side as usize] = sleeps;
        if !P::ACTIVE
            && line.is_passive(side.other())
            && (line.end(side).ring.len() == 1 || line.is_closed())
        {
            return self.compute_ahead(id);
        }
        line.schedule(&mut self.deadlines);
        if line.is_watched {
            self.report_link_outcomes(id, side);
        }
        if P::ACTIVE {
            self.record_link_events(id, side);
        }
    }

    /// Moves the packets held back by the feeders of all ends into their queues.
    pub(in crate::sim) fn absorb_all(&mut self) {
        let current = self.current();
        for line in &mut self.lines {
            for end in line.ends_mut() {
                if end.holds_back {
                    end.absorb(current, &mut self.directions);
                }
            }
        }
    }

    /// Handles the expired timer of an end before servicing it.
    #[cold]
    fn serve_after_timer(&mut self, id: LineId, side: Side) {
        self.on_link_timer(id, side);
        self.serve(id, side);
    }
}
