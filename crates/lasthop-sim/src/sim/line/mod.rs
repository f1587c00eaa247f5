//! Lines: links that a protocol drives, with an interface at each end.
//!
//! ```text
//!      forward end                                     reverse end
//!   offer -> [interface] ==> channel ==> ring ==> receive [interface] -> deliver
//!   deliver <- [interface] receive <== ring <== channel <== [interface] <- offer
//! ```
//!
//! Both ends are one machine with one deadline, the earliest of four: the frame that arrives next at
//! either end, and the moment at which either end is to be served: its transmitter falls idle while
//! something waits, or its endpoint's timer is due. Ties go by ticket, as among machines.
//!
//! The station of a [radio](crate::sim::radio) and its base are a line too. Its frames take slots of the
//! radio, which sees to their arrival; of the four deadlines only the endpoints' timers are used.

mod air;
mod turns;

use crate::sim::deadlines::{Deadlines, Due, MachineId};
use crate::sim::direction::{DirectionParameters, InFlight};
use crate::sim::ids::{DirectionId, Side};
use crate::sim::probe::{Event, Probe};
use crate::sim::radio::Station;
use crate::sim::telling::record_dropped;
pub(in crate::sim) use air::Air;
use air::{Hearing, ServiceTable};
use lasthop_base::packet::{Descriptor, Extension};
use lasthop_base::units::Instant;
use lasthop_link::channel::{Airtime, ErrorProcess};
use lasthop_link::interface::{Carrier, Interface};
use lasthop_link::link::{Endpoint, Frame, LayerEvent, LinkCounters, LinkEndpoint, Writer};
use lasthop_link::queue::{PropagationDelay, Queue, QueueCounters, Ring, Transmitter};
use std::collections::VecDeque;

/// A frame of a link protocol on its way.
#[derive(Clone, Copy, Debug, Default)]
pub(in crate::sim) struct Crossing<X: Extension> {
    pub frame: Frame<Descriptor<X>>,
    /// Arrives all the same, where an endpoint wants to be told.
    pub is_damaged: bool,
}

/// One end of a line: its interface, and the air that its frames cross.
#[derive(Clone, Debug)]
pub(in crate::sim) struct LineEnd<X: Extension> {
    pub interface: Interface<LinkEndpoint<Descriptor<X>>, Descriptor<X>>,
    pub air: Air,
    propagation: PropagationDelay,
    /// Frames that arrive at the other end.
    pub ring: Ring<InFlight<Crossing<X>>>,
    /// The computed direction of which all packets come here, if there is one. While others wait here, they
    /// change nothing when they come: they join the queue, each at its time, when this end is looked at.
    pub feeder: Option<DirectionId>,
    /// Do others wait, so that it is held back?
    holds_back: bool,
    /// Names of its stacked layers, the uppermost first; none where one protocol serves the link.
    pub layers: Vec<String>,
    /// See [`Endpoint::sleeps_while_busy`].
    sleeps_while_busy: bool,
    /// Has it one queue and a transmitter of its own: neither services nor a radio?
    is_plain: bool,
}

/// The air while an interface is turned.
struct Transmission<'a, P, X: Extension> {
    air: &'a mut Air,
    propagation: &'a mut PropagationDelay,
    ring: &'a mut Ring<InFlight<Crossing<X>>>,
    direction: DirectionId,
    /// When the first frame on the air arrives.
    arrival: &'a mut Due,
    deadlines: &'a mut Deadlines,
    probe: &'a mut P,
    has_sent: bool,
}

impl<P: Probe, X: Extension> Carrier<Descriptor<X>> for Transmission<'_, P, X> {
    const LISTENS: bool = P::ACTIVE;

    #[inline]
    fn on_dequeue(&mut self, now: Instant, queue: &Queue<Descriptor<X>>) {
        record_dropped(self.probe, self.direction, now, queue);
    }

    #[inline(always)]
    fn carry<W: Writer<Descriptor<X>>>(
        &mut self,
        now: Instant,
        writer: W,
        transmitter: &mut Transmitter,
    ) {
        let slot = self.ring.next_slot();
        let frame = &mut slot.item.frame;
        if !writer.write(now, frame) {
            return;
        }
        let (mut end, mut is_damaged) = (now, false);
        if let Some(airtime) = transmitter.send_now(now, frame.bytes) {
            end = airtime.end;
            is_damaged = if W::CODES_UNITS || !self.air.services.counters.is_empty() {
                self.air.expose_units(now, end, frame)
            } else {
                self.air.expose(airtime)
            };
        }
        let arrives = !is_damaged || self.air.tells_of_damage();
        let at = if arrives { self.propagation.arrival(end) } else { Instant::NEVER };
        if P::ACTIVE {
            let event = Event::frame_sent(self.direction, frame, now, is_damaged, at);
            self.probe.record(end, event);
            self.has_sent = true;
        }
        if arrives {
            let due = Due::new(at, self.deadlines.ticket());
            slot.due = due;
            slot.item.is_damaged = is_damaged;
            if self.ring.is_empty() {
                *self.arrival = due;
            }
            self.ring.push_next();
        }
    }
}

/// What took a slot of a radio.
#[derive(Clone, Copy, Debug)]
pub(in crate::sim) struct Sent<X: Extension> {
    pub frame: Frame<Descriptor<X>>,
    pub is_lost: bool,
}

impl<X: Extension> Sent<X> {
    /// Does it take no time, so that it cannot be lost?
    pub fn is_free(&self) -> bool {
        self.frame.bytes == 0
    }
}

impl<X: Extension> LineEnd<X> {
    fn new(
        parameters: DirectionParameters<X>,
        endpoint: LinkEndpoint<Descriptor<X>>,
        far_hears: Hearing,
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
            far_hears,
            counters: QueueCounters::default(),
            slots: None,
            readable_ahead: Vec::new(),
            services,
        };
        let sleeps_while_busy = endpoint.sleeps_while_busy();
        LineEnd {
            interface: Interface::new(endpoint, queue, transmitter),
            air,
            propagation,
            ring: Ring::with_capacity(8),
            feeder: None,
            holds_back: false,
            layers: Vec::new(),
            sleeps_while_busy,
            is_plain: count == 0,
        }
    }

    /// Would a packet that arrives now leave room for another one like it?
    pub fn has_spare_room(&self, now: Instant, service: u8, packet: &Descriptor<X>) -> bool {
        if let LinkEndpoint::Services(services) = &self.interface.endpoint {
            let busy = self.interface.transmitter().is_busy(now);
            return services.has_room(now, usize::from(service), packet.bytes, 2, busy);
        }
        self.interface.has_spare_room(now, packet.bytes)
    }

    /// A packet joins the interface queue; false: dropped. Frames held in the endpoint's window
    /// have left the queue.
    #[inline]
    pub fn offer(&mut self, now: Instant, service: u8, packet: &Descriptor<X>) -> bool {
        if !self.air.services.counters.is_empty() {
            return self.offer_to_service(now, usize::from(service), *packet);
        }
        self.interface.enqueue_copy(now, packet)
    }

    /// May a packet of `bytes` that comes now go past the interface queue?
    #[inline(always)]
    fn lets_pass(&self, now: Instant, bytes: u32) -> bool {
        self.is_plain && self.interface.lets_pass(now, bytes)
    }

    /// A packet joins the queue of its service, which the endpoint holds; false: dropped.
    #[inline(never)]
    fn offer_to_service(&mut self, now: Instant, service: usize, packet: Descriptor<X>) -> bool {
        let busy = self.interface.transmitter().is_busy(now);
        let LinkEndpoint::Services(services) = &mut self.interface.endpoint else {
            unreachable!("only services have counters of their own")
        };
        services.offer(now, service, packet, busy)
    }

    /// Counters of the endpoint.
    pub fn link_counters(&self) -> LinkCounters {
        self.interface.endpoint.counters()
    }

    /// Packets in the queue, the frame in transmission included.
    pub fn length(&self, now: Instant) -> u64 {
        let queued = match &self.interface.endpoint {
            LinkEndpoint::Services(services) => services.queued(),
            _ => self.interface.queued() as u64,
        };
        queued + u64::from(self.interface.transmitter().is_busy(now))
    }

    /// The endpoint's next event and the service or the layer that it belongs to.
    #[inline]
    pub fn poll_event(&mut self) -> Option<(u8, LayerEvent)> {
        let (part, event) = match &mut self.interface.endpoint {
            LinkEndpoint::Services(services) => services.poll_service_event()?,
            LinkEndpoint::Stack(stack) => return stack.poll_layer_event(),
            endpoint => (0, endpoint.poll_event()?),
        };
        Some((part, LayerEvent::Link(event)))
    }

    /// The endpoint and the counters of a layer: those of the link, where it has no stacked layers.
    pub fn layer(&self, layer: usize) -> (&LinkEndpoint<Descriptor<X>>, LinkCounters) {
        match &self.interface.endpoint {
            LinkEndpoint::Stack(stack) => (stack.endpoint(layer), stack.layer_counters(layer)),
            endpoint => (endpoint, endpoint.counters()),
        }
    }

    /// Counters of the layer in which an agent can limit transmissions.
    pub fn limited_counters(&self) -> LinkCounters {
        match &self.interface.endpoint {
            LinkEndpoint::Stack(stack) => stack.limited_counters(),
            endpoint => endpoint.counters(),
        }
    }

    /// Counters of the endpoint of `service`.
    pub fn service_link_counters(&self, service: usize) -> LinkCounters {
        match &self.interface.endpoint {
            LinkEndpoint::Services(services) => services.endpoint(service).counters(),
            endpoint => endpoint.counters(),
        }
    }

    /// The queue of `service`, where services share the link.
    pub fn service_queue(&self, service: usize) -> Option<&Queue<Descriptor<X>>> {
        match &self.interface.endpoint {
            LinkEndpoint::Services(services) => Some(services.queue(service)),
            _ => None,
        }
    }

    /// Counters of the queue and of the frames of `service`.
    pub fn service_counters(&self, service: usize) -> QueueCounters {
        let drops = self.service_queue(service).map_or(0, |queue| queue.counters().drops());
        QueueCounters { drops, ..self.air.services.counters[service] }
    }

    /// Is the frame on the air, if there is one, of `service`?
    pub fn is_last_of(&self, service: usize) -> bool {
        usize::from(self.air.services.on_air) == service
    }

    /// May a computed direction be its feeder: has it a queue of its own, which nobody else looks at?
    pub fn may_be_fed(&self) -> bool {
        self.feeder.is_none() && self.is_plain
    }

    /// Does the packet that joined last stand behind others?
    #[inline]
    pub fn has_backlog(&self) -> bool {
        self.interface.queued() > 1
    }

    /// The next frame takes a slot of a radio, from `start` to `end`; none is slower than that.
    /// `on_dequeue` sees the queue if a packet has been taken from it; the slot is remembered if it ends
    /// after the `horizon`.
    #[inline]
    pub fn poll_slot(
        &mut self,
        now: Instant,
        [start, end]: [Instant; 2],
        horizon: Instant,
        on_dequeue: impl FnOnce(&Queue<Descriptor<X>>),
    ) -> Option<Sent<X>> {
        let mut frame = self.interface.next_frame(now, on_dequeue)?;
        if frame.bytes == 0 {
            return Some(Sent { frame, is_lost: false });
        }
        let is_lost = self.air.expose_units(start, end, &mut frame);
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
        Some(Sent { frame, is_lost })
    }

    /// Is it on its way to somebody: arrives, or is awaited although it is damaged?
    #[inline]
    pub fn arrives(&self, sent: &Sent<X>) -> bool {
        !sent.is_lost || self.air.tells_of_damage()
    }

    /// Would the endpoint send something, had it a slot?
    #[inline]
    pub fn has_something(&self) -> bool {
        let Interface { endpoint, .. } = &self.interface;
        endpoint.has_frame() || self.interface.queued() > 0 && endpoint.wants_packet()
    }

    /// The first of its frames that has arrived at the other end by `now`.
    pub fn take_arrived(&mut self, now: Instant) -> Option<Crossing<X>> {
        self.ring.front().filter(|first| first.due.at() <= now)?;
        self.ring.pop().map(|arrived| arrived.item)
    }

    /// A frame of the other end has come.
    /// `damaged` takes what may go up damaged.
    #[inline]
    pub fn receive(
        &mut self,
        now: Instant,
        arrived: &Crossing<X>,
        damaged: &mut VecDeque<Descriptor<X>>,
    ) {
        if arrived.is_damaged {
            return damaged.extend(self.receive_damaged(now, arrived.frame));
        }
        self.interface.receive(now, arrived.frame);
    }

    /// The same of a damaged one.
    #[cold]
    fn receive_damaged(
        &mut self,
        now: Instant,
        frame: Frame<Descriptor<X>>,
    ) -> Option<Descriptor<X>> {
        self.interface.receive_damaged(now, frame)
    }

    /// Replays the changes of the channel up to and including `until`.
    pub fn catch_up(&mut self, until: Instant) {
        self.air.channel.catch_up(until);
    }

    /// Steps that such a replay takes for a second of simulated time.
    pub fn replay_rate(&self) -> f64 {
        self.air.channel.replay_rate()
    }

    /// Counters of its transmissions: of slots filled ahead, those that have begun.
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

    /// Bits of the frame on the air at `now` that are not out.
    pub fn unsent_bits(&self, now: Instant) -> f64 {
        match &self.air.slots {
            Some(slots) => slots.unsent_bits(now),
            None => self.interface.transmitter().unsent_bits(now),
        }
    }
}

/// A link with an endpoint at each end.
#[derive(Clone, Debug)]
pub(in crate::sim) struct Line<X: Extension> {
    /// Its number among all links.
    link: usize,
    ends: [LineEnd<X>; 2],
    /// By [`Cause`]: when the first frame of each end's ring arrives, and when each end is to be
    /// served.
    dues: [Due; 4],
    /// The earliest of these, as told last, and whether one has changed since.
    next: usize,
    is_stale: bool,
    /// Does an agent want to hear what becomes of packets?
    pub is_watched: bool,
    /// Has an end ever a frame of no length?
    pub exchanges_free: bool,
    /// Ends that have been served since a frame arrived, and need not be asked again.
    served: [bool; 2],
    /// Its place on a radio whose slots it shares.
    pub station: Option<Station>,
    pub machine: MachineId,
}

/// What a line's deadline is for, and at which end: the one that sent the frame, or is to be served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Cause {
    Arrival(Side),
    Service(Side),
}

impl Cause {
    /// Where its deadline stands.
    #[inline]
    const fn place(self) -> usize {
        match self {
            Cause::Arrival(side) => side as usize,
            Cause::Service(side) => 2 + side as usize,
        }
    }

    /// The cause whose deadline stands there.
    #[inline]
    const fn at(place: usize) -> Self {
        let side = if place & 1 == 0 { Side::Forward } else { Side::Reverse };
        if place & 2 == 0 { Cause::Arrival(side) } else { Cause::Service(side) }
    }
}

impl<X: Extension> Line<X> {
    /// The ends transmit on the forward and on the reverse direction of link number `link`.
    pub fn new(
        link: usize,
        ends: [(DirectionParameters<X>, LinkEndpoint<Descriptor<X>>); 2],
    ) -> Self {
        let [forward, reverse] = ends;
        let hearing = [&forward.1, &reverse.1].map(Hearing::of);
        let exchanges_free = forward.1.sends_free() || reverse.1.sends_free();
        Line {
            link,
            ends: [
                LineEnd::new(forward.0, forward.1, hearing[1]),
                LineEnd::new(reverse.0, reverse.1, hearing[0]),
            ],
            dues: [Due::NEVER; 4],
            next: 0,
            is_stale: false,
            is_watched: false,
            exchanges_free,
            served: [false; 2],
            station: None,
            machine: MachineId::default(),
        }
    }

    /// Its frames take slots of a radio, which are filled ahead of their time.
    pub fn join(&mut self, station: Station) {
        self.station = Some(station);
        for end in &mut self.ends {
            end.air.slots = Some(Box::default());
            end.is_plain = false;
        }
    }

    /// The endpoint of `side` keeps what it learns of its packets, for agents.
    pub fn watch(&mut self, side: Side) {
        self.is_watched = true;
        self.end_mut(side).interface.endpoint.keep_fates();
    }

    /// The direction on which an end transmits.
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

    /// An end and the other one.
    #[inline]
    pub fn both(&mut self, side: Side) -> [&mut LineEnd<X>; 2] {
        let [forward, reverse] = &mut self.ends;
        match side {
            Side::Forward => [forward, reverse],
            Side::Reverse => [reverse, forward],
        }
    }

    /// An end is to be served at `at`; an unchanged time keeps its ticket.
    #[inline]
    pub fn serve_at(&mut self, side: Side, at: Instant, deadlines: &mut Deadlines) {
        let known = &mut self.dues[Cause::Service(side).place()];
        if known.at() != at {
            *known = Due::new(at, deadlines.ticket());
            self.is_stale = true;
        }
    }

    /// [`Self::schedule`], if something has changed.
    #[inline(always)]
    pub fn schedule_if_stale(&mut self, deadlines: &mut Deadlines) {
        if self.is_stale {
            self.schedule(deadlines);
        }
    }

    /// Tells its earliest deadline.
    #[inline(always)]
    pub fn schedule(&mut self, deadlines: &mut Deadlines) {
        let dues = &self.dues;
        let arrival = usize::from(dues[1] < dues[0]);
        let service = 2 + usize::from(dues[3] < dues[2]);
        self.next = if dues[service] < dues[arrival] { service } else { arrival };
        self.is_stale = false;
        deadlines.put(self.machine, dues[self.next]);
    }
}
