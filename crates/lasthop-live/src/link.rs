//! A link for real packets: an interface at each end, the channel between them, and the attached agents. It
//! is the counterpart, for bytes, of a [line](lasthop_sim::sim) of the simulator.
//!
//! ```text
//!   host of side A                                               host of side B
//!   offer -> agents -> [interface] -> bytes -> errors -> ring -> [interface] -> agents -> delivery
//!   delivery <- agents <- [interface] <- ring <- errors <- bytes <- [interface] <- agents <- offer
//! ```
//!
//! A frame crosses the channel in the byte form of its protocol ([`LinkEndpoint::encode`]), so that the
//! receiver uses only the information of a real receiver. The endpoint determines the length of the frame.
//!
//! Deadlines are handled at their own times, in order of time; ties are broken by the order in which the
//! deadlines were set, as in the simulator. The output therefore depends on the arrivals and their times only,
//! not on the times at which the driver wakes.

use super::connections::Connections;
use super::counters::{EndCounters, SharedState};
use super::meter::Sojourns;
pub use super::outbox::Bytes;
use super::outbox::{Delivery, FrameFate, Outbox, may_deliver};
use lasthop_base::units::{Duration, Instant};
use lasthop_link::channel::Channel;
use lasthop_link::interface::{Interface, Transmission, expose};
use lasthop_link::link::{Endpoint, Frame, LinkCounters, LinkEndpoint};
use lasthop_link::queue::{PropagationDelay, Transmitter};
use lasthop_sim::agent::{Agent, AgentMachine, Crossing, Verdict};
use lasthop_sim::sim::deadlines::{Deadlines, Due};
use lasthop_sim::sim::ids::Side;
use std::collections::VecDeque;

/// A frame in transit, in its byte form.
#[derive(Clone, Debug)]
struct OnAir {
    due: Due,
    bytes: Bytes,
    /// Length according to the endpoint.
    length: u32,
    /// Whether the receiver may deliver packets because of this frame.
    may_deliver: bool,
}

/// One end of a link.
#[derive(Clone, Debug)]
pub struct End {
    interface: Interface<LinkEndpoint<Bytes>, Bytes>,
    channel: Channel,
    propagation: PropagationDelay,
    /// Frames of this end in transit to the other end.
    ring: VecDeque<OnAir>,
    counters: EndCounters,
    /// Agents at the start of this end's direction, in the order in which packets sent over the
    /// link pass through them.
    agents: Vec<AgentMachine<Bytes>>,
    /// Next service time of the interface.
    service: Due,
    /// Next wake-up time of an agent.
    wake: Due,
    /// Service of each traffic class, if services share the link.
    classes: Vec<u8>,
    /// Time of packets in the queue.
    sojourns: Sojourns,
    /// End of the transmission of the last frame in `ring`.
    last_end: Instant,
    /// Bits that earlier transmitters could send, minus those of the present one until its start.
    earlier_bits: f64,
    /// Pauses: start and end.
    pauses: Vec<[Instant; 2]>,
    /// State of the end of a link of a WLAN, which does not use its own interface.
    shared: Option<SharedState>,
}

impl End {
    /// Creates an idle end.
    pub fn new(
        interface: Interface<LinkEndpoint<Bytes>, Bytes>,
        channel: Channel,
        propagation: PropagationDelay,
        classes: Vec<u8>,
    ) -> Self {
        End {
            interface,
            channel,
            propagation,
            ring: VecDeque::with_capacity(64),
            counters: EndCounters::default(),
            agents: Vec::new(),
            service: Due::NEVER,
            wake: Due::NEVER,
            classes,
            sojourns: Sojourns::default(),
            last_end: Instant::ZERO,
            earlier_bits: 0.0,
            pauses: Vec::new(),
            shared: None,
        }
    }

    /// Sets the state of the end of a link of a WLAN.
    pub(crate) fn set_shared(&mut self, state: Option<SharedState>) {
        self.shared = state;
    }

    /// Returns the number of bits that could be sent until `now`; infinite for an unlimited rate.
    pub fn capacity(&self, now: Instant) -> f64 {
        let transmitter = self.interface.transmitter();
        let until = |at: Instant| transmitter.capacity(at.min(now));
        let paused = self.pauses.iter().map(|&[start, end]| until(end) - until(start));
        self.earlier_bits + transmitter.capacity(now) - paused.sum::<f64>()
    }

    /// Replaces the transmitter, the delay and the error process, if given. A frame in transmission
    /// continues at the new rate and with the outcome of the old error process.
    pub fn change(
        &mut self,
        now: Instant,
        transmitter: Option<Transmitter>,
        propagation: Option<PropagationDelay>,
        channel: Option<Channel>,
    ) {
        if let Some(propagation) = propagation {
            let last = self.ring.back().map_or(now, |last| last.due.at());
            self.propagation = propagation.following(last);
            self.reschedule(now, |_| {});
        }
        if let Some(channel) = channel {
            self.channel = channel;
        }
        if let Some(transmitter) = transmitter {
            // The capacity of an unlimited rate is infinite.
            let capacity = Some(self.capacity(now)).filter(|bits| bits.is_finite());
            self.earlier_bits = capacity.unwrap_or_default() - transmitter.capacity(now);
            // The rest of a pause remains, but no longer counts.
            self.pauses.clear();
            self.reschedule(now, |own| own.replace(now, transmitter));
        }
    }

    /// Pauses the transmission for `time`.
    pub fn pause(&mut self, now: Instant, time: Duration) {
        let start = self.pauses.last().map_or(now, |&[_, end]| end.max(now));
        self.pauses.push([start, start + time]);
        self.reschedule(now, |own| own.pause(now, time));
    }

    /// Changes the end of the frame in transmission, and thus its arrival.
    fn reschedule(&mut self, now: Instant, change: impl FnOnce(&mut Transmitter)) {
        let transmitter = self.interface.transmitter_mut();
        let before = transmitter.free_at().instant();
        change(transmitter);
        let after = transmitter.free_at().instant();
        // The frame is not in the ring if it was lost.
        if before > now
            && self.last_end == before
            && let Some(mut last) = self.ring.pop_back()
        {
            let earlier = self.ring.back().map_or(Instant::ZERO, |one| one.due.at());
            self.propagation = std::mem::take(&mut self.propagation).following(earlier);
            last.due = Due::new(self.propagation.arrival(after), last.due.ticket());
            self.last_end = after;
            self.ring.push_back(last);
        }
    }

    /// Appends an agent after the existing ones.
    pub fn add_agent(&mut self, agent: AgentMachine<Bytes>) {
        self.agents.push(agent);
    }

    /// Returns its interface.
    pub fn interface(&self) -> &Interface<LinkEndpoint<Bytes>, Bytes> {
        &self.interface
    }

    /// Returns its agents.
    pub fn agents(&self) -> &[AgentMachine<Bytes>] {
        &self.agents
    }

    /// Returns the counters of its endpoint.
    pub fn link_counters(&self) -> LinkCounters {
        match self.shared {
            Some(SharedState { retransmissions, .. }) => {
                LinkCounters { retransmissions, ..LinkCounters::default() }
            }
            None => self.interface.endpoint.counters(),
        }
    }

    /// Returns the counters of the endpoint of a layer; the uppermost layer is 0. On a link without
    /// stacked layers, returns those of the link.
    pub fn layer_counters(&self, layer: usize) -> LinkCounters {
        match &self.interface.endpoint {
            LinkEndpoint::Stack(stack) => stack.layer_counters(layer),
            endpoint => endpoint.counters(),
        }
    }

    /// Returns its counters; drops are all drops of its queue, for any reason.
    pub fn counters(&self) -> EndCounters {
        let mut counters = self.counters;
        if let Some(SharedState { queue, .. }) = self.shared {
            return EndCounters { queue, ..counters };
        }
        counters.queue.drops += self.interface.queue().counters().drops();
        if let LinkEndpoint::Services(services) = &self.interface.endpoint {
            let queues = (0..services.count()).map(|service| services.queue(service));
            counters.queue.drops += queues.map(|queue| queue.counters().drops()).sum::<u64>();
        }
        counters
    }

    /// Returns the number of packets in the queue, including the frame in transmission.
    pub fn length(&self, now: Instant) -> u64 {
        if let Some(SharedState { queued, .. }) = self.shared {
            return queued;
        }
        self.queued() + u64::from(self.interface.transmitter().is_busy(now))
    }

    /// Returns the number of packets in the queue.
    fn queued(&self) -> u64 {
        match &self.interface.endpoint {
            LinkEndpoint::Services(services) => services.queued(),
            _ => self.interface.queued() as u64,
        }
    }

    /// Returns the time of packets in its queue.
    pub fn sojourns(&self) -> &Sojourns {
        &self.sojourns
    }

    /// Like [`Self::sojourns`], to start another interval of reports.
    pub fn sojourns_mut(&mut self) -> &mut Sojourns {
        &mut self.sojourns
    }

    /// Returns the service of a packet, from its traffic class.
    fn service_of(&self, packet: &Bytes) -> usize {
        use lasthop_base::packet::Payload;
        self.classes.get(usize::from(packet.class())).copied().unwrap_or(0).into()
    }

    /// Appends a packet to the queue; returns `false` if the packet was dropped.
    fn offer(&mut self, now: Instant, packet: Bytes) -> bool {
        let service = self.service_of(&packet);
        let busy = self.interface.transmitter().is_busy(now);
        let is_queued = match &mut self.interface.endpoint {
            LinkEndpoint::Services(services) => services.offer(now, service, packet, busy),
            _ => self.interface.enqueue(now, packet),
        };
        self.sojourns.update(now, self.queued() as usize);
        is_queued
    }

    /// Returns `true` if the queue has room for `packet` and another packet of the same size.
    fn has_spare_room(&self, now: Instant, packet: &Bytes) -> bool {
        let bytes = packet.len() as u32;
        match &self.interface.endpoint {
            LinkEndpoint::Services(services) => {
                let busy = self.interface.transmitter().is_busy(now);
                services.has_room(now, self.service_of(packet), bytes, 2, busy)
            }
            _ => self.interface.has_spare_room(now, bytes),
        }
    }
}

/// Cause of a deadline: an arrival from a side, service of a side, or its agents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Cause {
    Arrival(Side),
    Service(Side),
    Agents(Side),
}

/// A link between two hosts.
#[derive(Clone, Debug)]
pub struct Link {
    /// Index in the scenario.
    index: usize,
    /// By [`Side`].
    ends: [End; 2],
    /// Connections of packets, for the agents.
    connections: Connections,
}

impl Link {
    /// Creates link number `index` of a scenario.
    pub fn new(index: usize, ends: [End; 2], by_hosts: bool) -> Self {
        Link { index, ends, connections: Connections::new(by_hosts) }
    }

    /// Returns its index in the scenario.
    pub fn index(&self) -> usize {
        self.index
    }

    /// Returns one of its ends.
    pub fn end(&self, side: Side) -> &End {
        &self.ends[side as usize]
    }

    /// Like [`Self::end`], mutable.
    pub(crate) fn end_mut(&mut self, side: Side) -> &mut End {
        &mut self.ends[side as usize]
    }

    /// Returns the earliest deadline and its cause.
    fn next(&self) -> (Due, Cause) {
        let of = |side: Side| {
            let End { ring, service, wake, .. } = self.end(side);
            let arrival = ring.front().map_or(Due::NEVER, |first| first.due);
            [
                (arrival, Cause::Arrival(side)),
                (*service, Cause::Service(side)),
                (*wake, Cause::Agents(side)),
            ]
        };
        let [forward, reverse] = Side::BOTH.map(of);
        let mut first = forward[0];
        for other in forward[1..].iter().chain(&reverse) {
            if other.0 < first.0 {
                first = *other;
            }
        }
        first
    }

    /// Returns the time of the next required call of [`Self::advance`].
    pub fn next_timeout(&self) -> Instant {
        self.next().0.at()
    }

    /// Returns a time before which the link delivers no packet unless a host sends one. Deadlines
    /// before it need not be handled until then: a frame whose transmission starts at one of them
    /// arrives at least a propagation delay later.
    pub fn next_delivery(&self) -> Instant {
        let mut next = Instant::NEVER;
        for side in Side::BOTH {
            let (end, far) = (self.end(side), self.end(side.other()));
            let delay = |end: &End| end.propagation.constant().unwrap_or(Duration::ZERO);
            next = next.min(end.wake.at());
            let service = end.service.at();
            if service != Instant::NEVER {
                // An expired timer may release packets immediately.
                let releases = end.interface.endpoint.next_timeout() <= service;
                next = next.min(if releases { service } else { service + delay(end) });
            }
            for frame in &end.ring {
                let due = frame.due.at();
                if due >= next {
                    break;
                }
                next = next.min(if frame.may_deliver { due } else { due + delay(far) });
            }
        }
        next
    }

    /// Handles every deadline up to and including `now`, each at its own time.
    pub fn advance(&mut self, now: Instant, deadlines: &mut Deadlines, outbox: &mut Outbox) {
        loop {
            let (due, cause) = self.next();
            if due.at() > now {
                return;
            }
            match cause {
                Cause::Arrival(side) => self.arrive(due.at(), side, deadlines, outbox),
                Cause::Service(side) => self.serve(due.at(), side, deadlines, outbox),
                Cause::Agents(side) => self.wake(due.at(), side, deadlines, outbox),
            }
        }
    }

    /// Sends a packet from the host of `side`. The caller has called [`Self::advance`] with the
    /// same time.
    pub fn offer(
        &mut self,
        now: Instant,
        side: Side,
        packet: Bytes,
        deadlines: &mut Deadlines,
        outbox: &mut Outbox,
    ) {
        self.send_past(now, side, 0, packet, deadlines, outbox);
    }

    /// Passes a packet to the agents of `side`, starting at number `first`, and then to the queue.
    fn send_past(
        &mut self,
        now: Instant,
        side: Side,
        first: usize,
        mut packet: Bytes,
        deadlines: &mut Deadlines,
        outbox: &mut Outbox,
    ) {
        for number in first..self.end(side).agents.len() {
            let connection = self.connections.of(&packet);
            let has_room = self.end(side).has_spare_room(now, &packet);
            let agent = &mut self.end_mut(side).agents[number];
            if connection.is_none() && !agent.watches_all() {
                continue;
            }
            let verdict = agent.down(now, Crossing { connection, has_room }, &mut packet);
            if verdict == Verdict::Suppress {
                return self.settle(now, side, number, deadlines, outbox);
            }
            // Packets of the agent itself follow this packet.
            self.send_past(now, side, number + 1, packet, deadlines, outbox);
            return self.settle(now, side, number, deadlines, outbox);
        }
        let index = self.index;
        let end = self.end_mut(side);
        if end.shared.is_some() {
            outbox.on_air.push_back((index, side, packet));
            return;
        }
        end.offer(now, packet);
        self.serve(now, side, deadlines, outbox);
    }

    /// Delivers a packet that the medium of a WLAN has delivered at the end `side`.
    pub(crate) fn receive(
        &mut self,
        now: Instant,
        side: Side,
        packet: Bytes,
        deadlines: &mut Deadlines,
        outbox: &mut Outbox,
    ) {
        let agents = self.end(side).agents.len();
        self.deliver_past(now, side, agents, packet, deadlines, outbox);
    }

    /// Passes a received packet to the agents of `side` below number `above`, in descending order,
    /// and then to the host.
    fn deliver_past(
        &mut self,
        now: Instant,
        side: Side,
        above: usize,
        mut packet: Bytes,
        deadlines: &mut Deadlines,
        outbox: &mut Outbox,
    ) {
        for number in (0..above).rev() {
            let connection = self.connections.of(&packet);
            let agent = &mut self.end_mut(side).agents[number];
            if connection.is_none() && !agent.watches_all() {
                continue;
            }
            let verdict = agent.up(now, connection, &mut packet);
            if verdict == Verdict::Forward {
                self.deliver_past(now, side, number, packet, deadlines, outbox);
            }
            return self.settle(now, side, number, deadlines, outbox);
        }
        let counters = &mut self.end_mut(side).counters;
        counters.delivered += 1;
        counters.delivered_bytes += packet.len() as u64;
        outbox.deliveries.push_back(Delivery { at: now, link: self.index, side, packet });
    }

    /// Performs the actions requested by agent number `number` of `side`.
    fn settle(
        &mut self,
        now: Instant,
        side: Side,
        number: usize,
        deadlines: &mut Deadlines,
        outbox: &mut Outbox,
    ) {
        loop {
            let agent = &mut self.end_mut(side).agents[number];
            while agent.poll_event().is_some() {}
            if let Some(packet) = agent.poll_down() {
                self.send_past(now, side, number + 1, packet, deadlines, outbox);
            } else if let Some(packet) = agent.poll_up() {
                self.deliver_past(now, side, number, packet, deadlines, outbox);
            } else {
                break;
            }
        }
        let end = self.end_mut(side);
        let wake = end.agents.iter().map(Agent::next_timeout).min().unwrap_or(Instant::NEVER);
        set(&mut end.wake, wake, deadlines);
    }

    /// Wakes the agents of `side` whose deadlines are due.
    fn wake(&mut self, now: Instant, side: Side, deadlines: &mut Deadlines, outbox: &mut Outbox) {
        for number in 0..self.end(side).agents.len() {
            let agent = &mut self.end_mut(side).agents[number];
            if agent.next_timeout() <= now {
                agent.handle_timeout(now);
                self.settle(now, side, number, deadlines, outbox);
            }
        }
    }

    /// Delivers the first frame in transit from `side` to the other end.
    fn arrive(&mut self, now: Instant, side: Side, deadlines: &mut Deadlines, outbox: &mut Outbox) {
        let arrived = self.end_mut(side).ring.pop_front();
        let OnAir { bytes, length, .. } = arrived.expect("a frame that is due is on the air");
        let far = self.end_mut(side.other());
        match far.interface.endpoint.decode_owned(bytes) {
            Ok(frame) => far.interface.receive(now, Frame { bytes: length, ..frame }),
            Err(_) => far.counters.unreadable += 1,
        }
        self.hand_up(now, side.other(), deadlines, outbox);
        self.serve(now, side.other(), deadlines, outbox);
    }

    /// Delivers the packets that the endpoint of `side` has received.
    fn hand_up(
        &mut self,
        now: Instant,
        side: Side,
        deadlines: &mut Deadlines,
        outbox: &mut Outbox,
    ) {
        let agents = self.end(side).agents.len();
        while let Some(packet) = self.end_mut(side).interface.poll_deliver() {
            self.deliver_past(now, side, agents, packet, deadlines, outbox);
        }
    }

    /// Serves an end whose timer is due or that may have a frame to send.
    fn serve(&mut self, now: Instant, side: Side, deadlines: &mut Deadlines, outbox: &mut Outbox) {
        let index = self.index;
        if self.end(side).interface.endpoint.next_timeout() <= now {
            self.end_mut(side).interface.handle_timeout(now);
            self.hand_up(now, side, deadlines, outbox);
        }
        let [forward, reverse] = &mut self.ends;
        let (end, far) = match side {
            Side::Forward => (forward, reverse),
            Side::Reverse => (reverse, forward),
        };
        while let Some(Transmission { mut frame, airtime }) = end.interface.poll_transmit(now) {
            let Some(airtime) = airtime else { continue };
            let is_lost = expose(&mut end.channel, airtime, &mut frame);
            let counters = &mut end.counters.queue;
            counters.frames_sent += 1;
            counters.bits_sent += airtime.bits;
            counters.frames_lost += u64::from(is_lost);
            if outbox.wants_frames {
                outbox.frames.push(FrameFate { link: index, side, airtime, is_lost });
            }
            if is_lost {
                continue;
            }
            let (length, may_deliver) = (frame.bytes, may_deliver(&frame));
            let Ok(bytes) = far.interface.endpoint.encode_owned(frame) else {
                end.counters.unreadable += 1;
                continue;
            };
            let due = Due::new(end.propagation.arrival(airtime.end), deadlines.ticket());
            end.last_end = airtime.end;
            end.ring.push_back(OnAir { due, bytes, length, may_deliver });
        }
        end.interface.endpoint.drop_events();
        end.sojourns.update(now, end.queued() as usize);
        let next = end.interface.next_timeout();
        set(&mut end.service, next, deadlines);
    }

    /// Serves an end whose rate has changed.
    pub fn refresh(
        &mut self,
        now: Instant,
        side: Side,
        deadlines: &mut Deadlines,
        outbox: &mut Outbox,
    ) {
        self.serve(now, side, deadlines, outbox);
    }

    /// Returns the number of frames in transit that the other end will receive.
    pub fn in_flight(&self) -> usize {
        self.ends.iter().map(|end| end.ring.len()).sum()
    }
}

/// Sets a deadline; an unchanged one keeps its ticket, and thus its order.
fn set(due: &mut Due, at: Instant, deadlines: &mut Deadlines) {
    if due.at() != at {
        *due = if at == Instant::NEVER { Due::NEVER } else { Due::new(at, deadlines.ticket()) };
    }
}
