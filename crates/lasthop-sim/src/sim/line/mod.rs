//! Driven links ("lines"): links with a protocol endpoint and an interface at each end.
//!
//! ```text
//!      forward end                                     reverse end
//!   offer -> [interface] ==> channel ==> ring ==> receive [interface] -> deliver
//!   deliver <- [interface] receive <== ring <== channel <== [interface] <- offer
//! ```
//!
//! Both ends form one machine. Its deadline is the earliest of four: per end, the arrival of the
//! first frame in transit to it, and the time at which it must be serviced. An end is serviced when
//! its transmitter becomes idle while packets or frames wait, or when its endpoint's timer expires.
//! Ties are broken by ticket, as among machines.
//!
//! A [radio](crate::sim::radio) station and its base also form a line. Their frames are sent in
//! slots of the radio, which handles the arrivals. Of the four deadlines, only those of the
//! endpoints' timers are then used.

mod air;
mod exchange;
mod passive;
mod transmission;
mod turns;

use crate::sim::deadlines::{Deadlines, Due, MachineId};
use crate::sim::direction::{DirectionParameters, InFlight};
use crate::sim::ids::{DirectionId, Side};
use crate::sim::radio::Station;
pub(in crate::sim) use air::Air;
use air::{Interest, ServiceTable};
use exchange::ServicesAhead;
use lasthop_base::packet::{Descriptor, Extension};
use lasthop_base::units::Instant;
use lasthop_link::channel::{Airtime, ErrorProcess};
use lasthop_link::interface::Interface;
use lasthop_link::link::{
    Abilities, Driven, Endpoint, Frame, LayerEvent, LinkCounters, LinkEndpoint,
};
use lasthop_link::queue::{Delays, PropagationDelay, Queue, QueueCounters, Ring};
use std::collections::VecDeque;

/// A frame of a link protocol in transit.
#[derive(Clone, Copy, Debug, Default)]
pub(in crate::sim) struct Crossing<X: Extension> {
    pub frame: Frame<Descriptor<X>>,
    /// Whether the channel damaged the frame. Damaged frames are in transit only if the receiving
    /// endpoint processes them.
    pub is_damaged: bool,
}

/// Outcome of a frame that is sent in a slot of a radio.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::sim) enum Outcome {
    /// A frame of zero length takes no slot and is not lost.
    Free,
    Lost,
    /// The other end processes the frame: it is intact, or the endpoint processes damaged frames.
    Arrives,
}

/// One end of a driven link: its interface, and the channel over which its frames are sent.
#[derive(Clone, Debug)]
pub(in crate::sim) struct LineEnd<X: Extension> {
    pub interface: Interface<LinkEndpoint<Descriptor<X>>, Descriptor<X>>,
    pub air: Air,
    propagation: PropagationDelay,
    /// Frames in transit to the other end.
    pub ring: Ring<InFlight<Crossing<X>>>,
    /// The computed direction from which all packets of this end arrive, if any. While packets wait
    /// in the queue of this end, a new arrival affects nothing else. Arrivals are therefore held in
    /// the ring of the feeder and join the queue, each with its own arrival time, when this end is
    /// serviced.
    pub feeder: Option<DirectionId>,
    /// Whether packets wait in the queue, so that the feeder holds back its arrivals.
    holds_back: bool,
    /// Services computed ahead of the clock, if the line is closed while packets wait. Arrivals that
    /// the feeder has held back find the packets that they take in the queue until then.
    ahead: Option<Box<ServicesAhead>>,
    /// Names of the stacked layers, the uppermost first; empty if the link has a single protocol.
    pub layers: Vec<String>,
    /// See [`Driven::needs_no_poll_while_busy`].
    needs_no_poll_while_busy: bool,
    /// Whether the end has a single queue and its own transmitter: neither services nor a radio.
    is_plain: bool,
}

impl<X: Extension> LineEnd<X> {
    fn new(
        parameters: DirectionParameters<X>,
        endpoint: LinkEndpoint<Descriptor<X>>,
        far_interest: Interest,
    ) -> Self {
        let DirectionParameters { transmitter, propagation, queue, channel, .. } = parameters;
        let count = match &endpoint {
            LinkEndpoint::Services(services) => services.count(),
            _ => 0,
        };
        let services = ServiceTable {
            names: (0..count).map(|index| index.to_string()).collect(),
            counters: vec![QueueCounters::default(); count],
            ..ServiceTable::default()
        };
        let air = Air {
            channel,
            far_interest,
            counters: QueueCounters::default(),
            slots: None,
            readable_ahead: Vec::new(),
            services,
        };
        let needs_no_poll_while_busy = endpoint.needs_no_poll_while_busy();
        LineEnd {
            interface: Interface::new(endpoint, queue, transmitter),
            air,
            propagation,
            ring: Ring::with_capacity(4),
            feeder: None,
            holds_back: false,
            ahead: None,
            layers: Vec::new(),
            needs_no_poll_while_busy,
            is_plain: count == 0,
        }
    }

    /// Returns `true` if a packet that arrives now leaves room for another packet of equal size.
    pub fn has_spare_room(&self, now: Instant, service: u8, packet: &Descriptor<X>) -> bool {
        if let LinkEndpoint::Services(services) = &self.interface.endpoint {
            let busy = self.interface.transmitter().is_busy(now);
            return services.has_room(now, usize::from(service), packet.bytes, 2, busy);
        }
        self.interface.has_spare_room(now, packet.bytes)
    }

    /// Adds a packet to the interface queue. Returns `false` if it is dropped. Frames in the
    /// endpoint's window are no longer in the queue.
    #[inline]
    pub fn offer(&mut self, now: Instant, service: u8, packet: &Descriptor<X>) -> bool {
        if !self.air.services.counters.is_empty() {
            return self.offer_to_service(now, usize::from(service), *packet);
        }
        self.interface.enqueue_copy(now, packet)
    }

    /// Returns `true` if a packet of `bytes` that arrives now can bypass the interface queue.
    #[inline(always)]
    fn can_bypass_queue(&self, now: Instant, bytes: u32) -> bool {
        self.is_plain && self.interface.can_bypass_queue(now, bytes)
    }

    /// Adds a packet to the queue of its service, which belongs to the endpoint. Returns `false` if
    /// it is dropped.
    #[inline(never)]
    fn offer_to_service(&mut self, now: Instant, service: usize, packet: Descriptor<X>) -> bool {
        let busy = self.interface.transmitter().is_busy(now);
        let LinkEndpoint::Services(services) = &mut self.interface.endpoint else {
            unreachable!("only services have separate counters")
        };
        services.offer(now, service, packet, busy)
    }

    /// Returns the counters of the endpoint.
    pub fn link_counters(&self) -> LinkCounters {
        self.interface.endpoint.counters()
    }

    /// Returns the number of packets in the queue, including the frame in transmission.
    pub fn length(&self, now: Instant) -> u64 {
        let queued = match &self.interface.endpoint {
            LinkEndpoint::Services(services) => services.queued(),
            _ => self.interface.queued() as u64,
        };
        queued + u64::from(self.interface.transmitter().is_busy(now))
    }

    /// Returns the next event of the endpoint, with the index of its service or layer.
    #[inline]
    pub fn poll_event(&mut self) -> Option<(u8, LayerEvent)> {
        let (part, event) = match &mut self.interface.endpoint {
            LinkEndpoint::Services(services) => services.poll_service_event()?,
            LinkEndpoint::Stack(stack) => return stack.poll_layer_event(),
            endpoint => (0, endpoint.poll_event()?),
        };
        Some((part, LayerEvent::Link(event)))
    }

    /// Returns the endpoint and the counters of a layer. Without stacked layers, these are the
    /// endpoint and counters of the link.
    pub fn layer(&self, layer: usize) -> (&LinkEndpoint<Descriptor<X>>, LinkCounters) {
        match &self.interface.endpoint {
            LinkEndpoint::Stack(stack) => (stack.endpoint(layer), stack.layer_counters(layer)),
            endpoint => (endpoint, endpoint.counters()),
        }
    }

    /// Returns the counters of the layer in which an agent can limit transmissions.
    pub fn limited_counters(&self) -> LinkCounters {
        match &self.interface.endpoint {
            LinkEndpoint::Stack(stack) => stack.limited_counters(),
            endpoint => endpoint.counters(),
        }
    }

    /// Returns the counters of the endpoint of `service`.
    pub fn service_link_counters(&self, service: usize) -> LinkCounters {
        match &self.interface.endpoint {
            LinkEndpoint::Services(services) => services.endpoint(service).counters(),
            endpoint => endpoint.counters(),
        }
    }

    /// Returns the queue of `service`; `None` if the link is not shared by services.
    pub fn service_queue(&self, service: usize) -> Option<&Queue<Descriptor<X>>> {
        match &self.interface.endpoint {
            LinkEndpoint::Services(services) => Some(services.queue(service)),
            _ => None,
        }
    }

    /// Returns the delays of the interface queue, or of the queues of all services; `None` if they are not measured.
    pub fn queueing_delays(&self) -> Option<Delays> {
        let services = 0..self.air.services.names.len();
        let mut queues = services.filter_map(|service| self.service_queue(service)?.delays());
        let Some(first) = queues.next() else { return self.interface.queue().delays().cloned() };
        let mut sum = first.clone();
        queues.for_each(|delays| sum.add(delays));
        Some(sum)
    }

    /// Returns the counters of the queue and of the frames of `service`.
    pub fn service_counters(&self, service: usize) -> QueueCounters {
        let drops = self.service_queue(service).map_or(0, |queue| queue.counters().drops());
        QueueCounters { drops, ..self.air.services.counters[service] }
    }

    /// Returns `true` if the frame sent last, which may still be in transmission, belongs to
    /// `service`.
    pub fn is_last_of(&self, service: usize) -> bool {
        usize::from(self.air.services.on_air) == service
    }

    /// Returns `true` if a computed direction can become the feeder of this end. It must have no
    /// feeder yet and a single queue, which only this end services.
    pub fn may_be_fed(&self) -> bool {
        self.feeder.is_none() && self.is_plain
    }

    /// Returns `true` if other packets wait in the queue before the packet that joined last.
    #[inline]
    pub fn has_backlog(&self) -> bool {
        self.interface.queued() > 1
    }

    /// Sends the next frame in a slot of a radio, from `start` to `end`. The slot is long enough
    /// for any frame. `on_dequeue` is called with the queue if a packet is taken from it. The slot
    /// is recorded if it ends after `horizon`. Writes the frame to the next slot of the ring, without
    /// adding it. Returns `None` if there is no frame.
    #[inline]
    pub fn poll_slot(
        &mut self,
        now: Instant,
        [start, end]: [Instant; 2],
        horizon: Instant,
        on_dequeue: impl FnOnce(&Queue<Descriptor<X>>),
    ) -> Option<Outcome> {
        let slot = self.ring.next_slot();
        let frame = &mut slot.item.frame;
        if !self.interface.write_frame(now, on_dequeue, frame) {
            return None;
        }
        slot.item.is_damaged = false;
        if frame.bytes == 0 {
            return Some(Outcome::Free);
        }
        let is_lost = self.air.expose_units(start, end, frame);
        slot.item.is_damaged = is_lost;
        if end > horizon
            && let Some(slots) = &mut self.air.slots
        {
            let airtime = Airtime { start, end, bits: u64::from(frame.bytes) * 8 };
            slots.send(now, airtime, is_lost);
            if is_lost && self.air.channel.is_header_readable() {
                self.air.readable_ahead.retain(|&start| start > now);
                self.air.readable_ahead.push(start);
            }
        }
        let arrives = !is_lost || self.air.is_damage_processed();
        Some(if arrives { Outcome::Arrives } else { Outcome::Lost })
    }

    /// Returns `true` if the endpoint would send a frame in the next slot.
    #[inline]
    pub fn has_something(&self) -> bool {
        let Interface { endpoint, .. } = &self.interface;
        endpoint.has_frame() || self.interface.queued() > 0 && endpoint.wants_packet()
    }

    /// Receives a frame from the other end. Like [`Driven::accept`], replaces its payload by the
    /// first deliverable packet, if any, and returns `true` if more packets may be deliverable.
    /// Packets with errors that may be delivered nevertheless are added to `damaged`.
    #[inline]
    pub fn accept(
        &mut self,
        now: Instant,
        arrived: &mut Crossing<X>,
        damaged: &mut VecDeque<Descriptor<X>>,
    ) -> bool {
        if arrived.is_damaged {
            damaged.extend(self.receive_damaged(now, arrived.frame));
            arrived.frame.payload = self.interface.poll_deliver();
            return true;
        }
        self.interface.endpoint.accept(now, &mut arrived.frame)
    }

    /// Receives a damaged frame from the other end. Returns the packet if it may be delivered with
    /// errors.
    #[cold]
    fn receive_damaged(
        &mut self,
        now: Instant,
        frame: Frame<Descriptor<X>>,
    ) -> Option<Descriptor<X>> {
        self.interface.receive_damaged(now, frame)
    }

    /// Replays the state changes of the channel up to and including `until`.
    pub fn catch_up(&mut self, until: Instant) {
        self.air.channel.catch_up(until);
    }

    /// Number of replay steps of [`Self::catch_up`] per second of simulated time.
    pub fn replay_rate(&self) -> f64 {
        self.air.channel.replay_rate()
    }

    /// Returns the counters of its transmissions. Radio slots that were filled in advance count
    /// when they have begun.
    pub fn counters(&self, now: Instant) -> QueueCounters {
        let services = 0..self.air.services.names.len();
        let drops = services.filter_map(|service| self.service_queue(service));
        let drops: u64 = drops.map(|queue| queue.counters().drops()).sum();
        let drops = drops + self.interface.queue().counters().drops();
        let counters = QueueCounters { drops, ..self.air.counters };
        match &self.air.slots {
            Some(slots) => counters - slots.after(now),
            None => counters,
        }
    }

    /// Number of bits of the frame in transmission that have not been sent by `now`.
    pub fn unsent_bits(&self, now: Instant) -> f64 {
        match &self.air.slots {
            Some(slots) => slots.unsent_bits(now),
            None => self.interface.transmitter().unsent_bits(now),
        }
    }
}

/// A driven link, with an endpoint at each end.
#[derive(Clone, Debug)]
pub(in crate::sim) struct Line<X: Extension> {
    /// Index of the link among all links.
    link: usize,
    ends: [LineEnd<X>; 2],
    /// Deadlines by [`Cause`]: the first arrival from each end, and the next service of each end.
    deadlines_by_cause: [Due; CAUSES],
    /// Index of the earliest of these when last scheduled, and whether one has changed since.
    next: usize,
    is_stale: bool,
    /// Whether an agent requires delivery reports of packets.
    pub is_watched: bool,
    /// Whether an end can send frames of zero length.
    pub exchanges_free: bool,
    /// Ends that have been serviced since a frame arrived and need not be serviced again.
    served: [bool; 2],
    /// The place of the link on the radio whose slots it shares.
    pub station: Option<Station>,
    /// The end whose state depends only on the frames that it receives, if any.
    passive: Option<Side>,
    /// The direction that all packets delivered by the other end enter, if the line is closed while
    /// packets wait at that end.
    onward: Option<DirectionId>,
    pub machine: MachineId,
}

/// Number of causes.
const CAUSES: usize = 4;

/// The cause of a line's deadline. The side is the end that sent the arriving frame, or the end to
/// be serviced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Cause {
    Arrival(Side),
    Service(Side),
}

impl Cause {
    /// Returns the index of its deadline in the table.
    #[inline]
    const fn place(self) -> usize {
        match self {
            Cause::Arrival(side) => side as usize,
            Cause::Service(side) => 2 + side as usize,
        }
    }

    /// Returns the cause whose deadline has the index `place`.
    #[inline]
    const fn at(place: usize) -> Self {
        let side = if place & 1 == 0 { Side::Forward } else { Side::Reverse };
        if place & 2 == 0 { Cause::Arrival(side) } else { Cause::Service(side) }
    }
}

impl<X: Extension> Line<X> {
    /// Creates the line of link `link`, whose ends transmit on its forward and reverse direction.
    pub fn new(
        link: usize,
        ends: [(DirectionParameters<X>, LinkEndpoint<Descriptor<X>>); 2],
    ) -> Self {
        let [mut forward, mut reverse] = ends;
        let interest = [&mut forward.1, &mut reverse.1].map(Interest::of);
        let exchanges_free = interest.contains(&Interest::All);
        Line {
            link,
            ends: [
                LineEnd::new(forward.0, forward.1, interest[1]),
                LineEnd::new(reverse.0, reverse.1, interest[0]),
            ],
            deadlines_by_cause: [Due::NEVER; CAUSES],
            next: 0,
            is_stale: false,
            is_watched: false,
            exchanges_free,
            served: [false; 2],
            station: None,
            passive: None,
            onward: None,
            machine: MachineId::default(),
        }
    }

    /// Returns the index of the link among all links.
    pub fn link(&self) -> usize {
        self.link
    }

    /// Attaches the link to a radio. Its frames are then sent in slots, which are filled in
    /// advance.
    pub fn join(&mut self, station: Station) {
        self.station = Some(station);
        for end in &mut self.ends {
            end.air.slots = Some(Box::default());
            end.is_plain = false;
        }
    }

    /// Makes the endpoint of `side` keep delivery reports of its packets, for agents.
    pub fn watch(&mut self, side: Side) {
        self.is_watched = true;
        let endpoint = &mut self.end_mut(side).interface.endpoint;
        if let Some(reports) = endpoint.delivery_reports() {
            reports.enable();
        }
    }

    /// Returns the direction on which an end transmits.
    #[inline]
    pub fn direction(&self, side: Side) -> DirectionId {
        DirectionId::of(self.link, side)
    }

    #[inline]
    pub fn end(&self, side: Side) -> &LineEnd<X> {
        &self.ends[side as usize]
    }

    #[inline]
    pub fn end_mut(&mut self, side: Side) -> &mut LineEnd<X> {
        &mut self.ends[side as usize]
    }

    pub fn ends(&self) -> &[LineEnd<X>; 2] {
        &self.ends
    }

    pub fn ends_mut(&mut self) -> &mut [LineEnd<X>; 2] {
        &mut self.ends
    }

    /// Returns the end `side` and the other end.
    #[inline]
    pub fn both(&mut self, side: Side) -> [&mut LineEnd<X>; 2] {
        let [forward, reverse] = &mut self.ends;
        match side {
            Side::Forward => [forward, reverse],
            Side::Reverse => [reverse, forward],
        }
    }

    /// Sets the time at which an end is serviced next. An unchanged time keeps its ticket.
    #[inline]
    pub fn serve_at(&mut self, side: Side, at: Instant, deadlines: &mut Deadlines) {
        let known = &mut self.deadlines_by_cause[Cause::Service(side).place()];
        if known.at() != at {
            *known = Due::new(at, deadlines.ticket());
            self.is_stale = true;
        }
    }

    /// Calls [`Self::schedule`] if a deadline has changed.
    #[inline(always)]
    pub fn schedule_if_stale(&mut self, deadlines: &mut Deadlines) {
        if self.is_stale {
            self.schedule(deadlines);
        }
    }

    /// Schedules the earliest deadline of the line.
    #[inline(always)]
    pub fn schedule(&mut self, deadlines: &mut Deadlines) {
        self.next = earliest(&self.deadlines_by_cause);
        self.is_stale = false;
        deadlines.put(self.machine, self.deadlines_by_cause[self.next % CAUSES]);
    }
}

/// Returns the index of the earliest of a line's deadlines.
#[inline(always)]
fn earliest(deadlines: &[Due; CAUSES]) -> usize {
    let (mut at, mut found) = (deadlines[0].at(), 0);
    for (place, due) in deadlines.iter().enumerate().skip(1) {
        // A branch, not a conditional move: the processor predicts it and continues.
        if due.at() <= at {
            if due.at() == at {
                return earliest_by_ticket(deadlines);
            }
            (at, found) = (due.at(), place);
        }
    }
    found
}

/// Like [`earliest`], but compares tickets as well.
#[inline(never)]
fn earliest_by_ticket(deadlines: &[Due; CAUSES]) -> usize {
    // Only deadlines that never expire can be equal; the first of them is returned.
    (0..CAUSES).min_by_key(|&place| deadlines[place]).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// The comparison by time finds the deadline that the comparison of times and tickets
        /// finds, with any number of ties and of machines without a deadline.
        #[test]
        fn the_earliest_deadline_has_the_smallest_time_and_ticket(
            times in prop::array::uniform4(prop::option::of(0u64..4)),
            tickets in Just([1u64, 2, 3, 4]).prop_shuffle(),
        ) {
            let due = |place: usize| match times[place] {
                Some(at) => Due::new(Instant::from_nanos(at), tickets[place]),
                None => Due::NEVER,
            };
            let deadlines = std::array::from_fn(due);
            let first = deadlines.iter().min().copied();
            prop_assert_eq!(Some(deadlines[earliest(&deadlines)]), first);
        }
    }
}
