//! The world: hosts joined by links, connections between hosts, and the loop that runs them.

use super::agents::Seat;
use super::deadlines::{Deadlines, Due, MachineId};
use super::direction::{Direction, Medium};
use super::hops::{Entry, Hop, Listener, Then};
use super::ids::{AirId, ConnectionId, DirectionId, FlowId, LineId, RadioId, SeatId};
use super::line::Line;
use super::probe::{Event, Probe};
use super::radio::Radio;
use super::sharing::Sharing;
use super::telling::{record_fate, segment_label};
use super::traffic::{App, Flow};
use super::wlan::Air;
use crate::app::StreamApplication;
use crate::transport::{End as ConnectionEnd, Moment, Transport, TransportMachine};
use lasthop_base::packet::{Descriptor, Extension, TcpOptions};
use lasthop_base::units::{Duration, Instant};
use lasthop_link::queue::Fate;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};

/// The machine that a deadline belongs to.
#[derive(Clone, Copy, Debug)]
pub(super) enum Machine {
    /// The first packet on its way over a FIFO arrives.
    Arrival(DirectionId),
    /// A line, or the timers of a radio's station.
    Line(LineId),
    /// A radio's next frame, or what has come of an earlier one.
    Radio(RadioId),
    /// The air of a WLAN.
    Air(AirId),
    /// One end of a connection.
    Transport { connection: ConnectionId, end: ConnectionEnd },
    /// The next flow starts.
    Start,
    /// A source of datagrams.
    Datagrams(FlowId),
    /// An application that writes streams.
    Application(FlowId),
    /// An agent.
    Agent(SeatId),
}

/// A connection and what belongs to it.
#[derive(Clone, Debug)]
pub(super) struct Connection {
    pub transport: TransportMachine,
    /// First hops of the opener's and of the acceptor's packets. An end that sends none has the hop of its peer.
    pub first_hops: [u32; 2],
    /// Instance: packets of earlier ones are stale.
    pub instance: u32,
    /// Whether its opener is at the host that the flow comes from.
    pub is_opened_by_source: bool,
    /// The flow it belongs to, and which of its streams.
    pub flow: FlowId,
    pub slot: u32,
    /// Its number among the connections that carry streams, or among those that carry datagrams.
    pub ordinal: u32,
    /// Whether that flow progresses only when all that the opener sends has been acknowledged.
    pub waits_for_acks: bool,
    /// Deadlines of opener and acceptor; none of an end without timers.
    pub machines: [Option<MachineId>; 2],
}

impl Connection {
    /// A packet reaches the acceptor, which only answers, at `at`, which may lie ahead of the clock; the packet becomes its
    /// answer, if there is one.
    #[inline(always)]
    fn answer<X: Extension>(&mut self, at: Instant, packet: &mut Descriptor<X>) -> bool {
        if packet.incarnation != self.instance {
            return self.answer_copy(at, packet);
        }
        if !self.transport.answer(at, packet) {
            return false;
        }
        packet.hop = self.first_hops[ConnectionEnd::Acceptor.index()];
        true
    }

    /// Like [`Self::answer`], of a packet that is marked as a copy, or stale.
    #[cold]
    #[inline(never)]
    fn answer_copy<X: Extension>(&mut self, at: Instant, packet: &mut Descriptor<X>) -> bool {
        if packet.plain_incarnation() != self.instance || !self.transport.answer_copy(at, packet) {
            return false;
        }
        packet.hop = self.first_hops[ConnectionEnd::Acceptor.index()];
        true
    }
}

/// How a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// Every transfer was complete.
    Complete,
    /// The stop time was reached, whatever was left to happen.
    Stopped,
    /// Somebody asked for it.
    Interrupted,
}

/// Hosts, links, connections and applications of one replication, whose packets have the extension `X`.
pub struct World<P: Probe, X: Extension = TcpOptions> {
    pub(super) now: Instant,
    /// The ticket of the event at hand.
    pub(super) ticket: u64,
    pub(super) deadlines: Deadlines,
    pub(super) machines: Vec<Machine>,
    pub(super) directions: Vec<Direction<X>>,
    pub(super) lines: Vec<Line<X>>,
    /// The hops of all paths, path by path.
    pub(super) hops: Vec<Hop>,
    pub(super) connections: Vec<Connection>,
    pub(super) flows: Vec<Flow>,
    /// Where there are several files: how they share.
    pub(super) sharing: Option<Box<Sharing>>,
    pub(super) agents: Vec<Seat<X>>,
    pub(super) radios: Vec<Radio>,
    pub(super) airs: Vec<Air<X>>,
    /// Flows that have not started, latest first.
    pub(super) starts: Vec<FlowId>,
    /// Flows whose completion ends the run.
    pub(super) unfinished: u32,
    /// From this time on, something besides the next event must be seen to; at once when a flow is complete.
    pub(super) attention: Instant,
    /// Packets that came over the line at hand damaged, and may go up as they are.
    pub(super) damaged: VecDeque<Descriptor<X>>,
    /// Background traffic and channels have been replayed until here at least, and are again after
    /// so much simulated time even if nobody looks at them: see `sim/horizon.rs`.
    pub(super) caught_up: Instant,
    pub(super) replay_slice: Duration,
    /// Later than this, the horizon of the counters is found out anew.
    pub(super) horizon_due: Instant,
    /// The interrupt flag is looked at after so many events, and again after each `look_interval`.
    pub(super) until_look: u64,
    pub(super) look_interval: u64,
    pub(super) probe: P,
    /// Of each computed direction the frames that the probe has been told of; empty where nobody observes.
    pub(super) told: Vec<u64>,
    /// Events when the flag was last looked at.
    pub(super) looked_at: u64,
}

impl<P: Probe, X: Extension> World<P, X> {
    /// Runs until `stop`, which comes before the end of time, or, if `until_complete`, until every
    /// file transfer is complete. Where nothing is left to happen, the clock goes on to `stop`.
    /// `interrupt` is looked at now and then.
    pub fn run(&mut self, stop: Instant, until_complete: bool, interrupt: &AtomicBool) -> End {
        debug_assert!(stop < Instant::NEVER, "a run ends");
        if P::ACTIVE {
            let transports = self.connections.iter_mut().map(|known| &mut known.transport);
            transports.for_each(TransportMachine::start_observation);
        } else {
            let horizon = if until_complete { self.earliest_completion().min(stop) } else { stop };
            self.set_horizon(horizon);
            self.horizon_due = if until_complete { horizon } else { Instant::NEVER };
        }
        let least_unfinished = u32::from(until_complete);
        self.attention = Instant::ZERO;
        let end = loop {
            let (due, machine) = self.deadlines.first();
            let at = due.at();
            debug_assert!(at >= self.now, "time runs backwards");
            if at >= self.attention {
                if self.unfinished < least_unfinished {
                    break End::Complete;
                }
                if at > stop {
                    (self.now, self.ticket) = (stop, u64::MAX);
                    break End::Stopped;
                }
                if at > self.horizon_due {
                    self.raise_horizon(stop);
                }
                if at > self.catch_up_due() && !self.catch_up(at, interrupt) {
                    break End::Interrupted;
                }
                let horizon = self.horizon_due.min(self.catch_up_due()).min(stop);
                self.attention = horizon + Duration::from_nanos(1);
            }
            (self.now, self.ticket) = (at, due.ticket());
            // Counted down: a comparison with zero is part of the subtraction.
            self.until_look -= 1;
            if self.until_look == 0 && self.look_for_interrupt(interrupt) {
                break End::Interrupted;
            }
            match self.machines[machine.index()] {
                Machine::Arrival(direction) => self.on_arrival(machine, direction),
                Machine::Line(line) => self.on_line(line),
                Machine::Radio(radio) => self.on_radio(radio),
                Machine::Air(air) => self.on_air(air),
                Machine::Transport { connection, end } => self.on_timeout(connection, end),
                Machine::Start => self.on_start(),
                Machine::Datagrams(flow) => self.on_datagram(flow),
                Machine::Application(flow) => self.on_application_timer(flow),
                Machine::Agent(seat) => self.on_agent_timer(seat),
            }
        };
        self.absorb_all();
        if P::ACTIVE {
            self.tell_past();
        }
        if end == End::Interrupted || !self.catch_up(self.now, interrupt) {
            End::Interrupted
        } else {
            end
        }
    }

    /// Tells what transports know only now.
    fn tell_past(&mut self) {
        for connection in (0..self.connections.len()).map(ConnectionId::new) {
            if self.is_end_to_end(connection) {
                let probe = &mut self.probe;
                let transport = &mut self.connections[connection.index()].transport;
                transport.observe_past(&mut |at, end, event| {
                    probe.record(at, Event::Transport { connection, end, event });
                });
            }
        }
    }

    /// Tells of one end of a connection.
    pub(super) fn tell(
        &mut self,
        at: Instant,
        connection: ConnectionId,
        end: ConnectionEnd,
        moment: Moment<'_>,
    ) {
        let probe = &mut self.probe;
        let transport = &self.connections[connection.index()].transport;
        transport.observe(end, moment, &mut |event| {
            probe.record(at, Event::Transport { connection, end, event });
        });
    }

    /// The clock.
    pub fn now(&self) -> Instant {
        self.now
    }

    /// The deadline of the event at hand.
    #[inline(always)]
    pub(super) fn current(&self) -> Due {
        Due::new(self.now, self.ticket)
    }

    /// Events handled so far.
    pub fn events(&self) -> u64 {
        self.looked_at + (self.look_interval - self.until_look)
    }

    /// Does the interrupt flag ask for the end?
    #[cold]
    fn look_for_interrupt(&mut self, interrupt: &AtomicBool) -> bool {
        self.looked_at += self.look_interval;
        self.until_look = self.look_interval;
        interrupt.load(Ordering::Relaxed)
    }

    /// Names of each connection's opener and acceptor.
    pub fn connection_names(&self) -> Vec<[String; 2]> {
        let names = self.connections.iter().map(|known| {
            let Connection { ordinal, .. } = known;
            let flow = &self.flows[known.flow.index()];
            match &flow.app {
                App::Streams(app) if !app.application.is_transfer() => ["opener", "acceptor"]
                    .map(|end| format!("flow.{}.connection {ordinal} {end}", flow.name)),
                App::Streams(_) | App::Datagrams(_) | App::Background { .. } => {
                    [format!("flow.{}", flow.name), format!("flow.{}.receiver", flow.name)]
                }
            }
        });
        names.collect()
    }

    /// The probe.
    pub fn probe(&self) -> &P {
        &self.probe
    }

    /// The same, after a run.
    pub fn into_probe(self) -> P {
        self.probe
    }

    /// A packet enters the direction of its hop now; what is left of it is of no use.
    #[inline(always)]
    pub(super) fn send(&mut self, packet: &mut Descriptor<X>) {
        self.enter(packet.hop, packet);
    }

    /// A packet enters the direction of `hop` now, whatever hop the packet says.
    #[inline(always)]
    pub(super) fn enter(&mut self, hop: u32, packet: &mut Descriptor<X>) {
        let known = &self.hops[hop as usize];
        if known.entry == Entry::Fifo {
            return self.compute(hop, packet);
        }
        if known.entry == Entry::Hop {
            packet.hop = hop;
            return self.compute_hop(known.direction, packet);
        }
        let Hop { direction, entry, service, .. } = *known;
        packet.hop = hop;
        match entry {
            Entry::Line(line) => self.enter_line(line, direction, service, packet),
            _ => self.enter_at(entry, direction, service, packet),
        }
    }

    /// The same of a packet that the agents there have let pass.
    pub(super) fn enter_past_agents(&mut self, packet: &Descriptor<X>) {
        let Hop { direction, service, .. } = self.hops[packet.hop as usize];
        let entry = self.directions[direction.index()].medium.entry();
        self.enter_at(entry, direction, service, packet);
    }

    fn enter_at(
        &mut self,
        entry: Entry,
        direction: DirectionId,
        service: u8,
        packet: &Descriptor<X>,
    ) {
        match entry {
            Entry::Fifo | Entry::Hop => self.compute(packet.hop, &mut { *packet }),
            Entry::Line(line) => self.enter_line(line, direction, service, packet),
            Entry::Shared => self.enter_air(direction, packet),
            Entry::Agent(seat) => self.send_past(seat, packet),
        }
    }

    /// A packet enters a computed direction now, and goes on as far as its fate can be computed: over
    /// directions that are chained to it, which no agent watches, and as the answer of an acceptor
    /// that only acknowledges. All of this is one function, which the compiler keeps tight.
    #[inline(never)]
    fn compute(&mut self, hop: u32, packet: &mut Descriptor<X>) {
        let clock = self.now;
        let mut at = clock;
        let mut way = self.hops[hop as usize..].iter();
        while let Some(known) = way.next() {
            let Medium::Fifo(fifo) = &mut self.directions[known.direction.index()].medium else {
                unreachable!(
                    "only computed directions are chained to one, or lead back from a sink"
                )
            };
            at = if P::ACTIVE {
                packet.hop = known.place;
                let times = [at, fifo.queue.next_start(at)];
                let fate = fifo.queue.offer_at(clock, at, packet.bytes);
                let told = &mut self.told[known.direction.index()];
                let label = segment_label(&self.connections, known.listener, &packet.full());
                record_fate(&mut self.probe, known, (fifo, told), times, fate, (packet, label));
                let Fate::Sent { end } = fate else { return };
                fifo.queue.arrival(end)
            } else {
                let Some(at) = fifo.queue.pass_at(clock, at, packet.bytes) else { return };
                at
            };
            match known.then {
                Then::Chain => continue,
                Then::Forward => {}
                Then::Arrive => match known.listener {
                    // Nobody acts on its arrival: its fate is all there is to know.
                    Listener::Absorbing { connection } => {
                        return self.absorb(connection, at, packet);
                    }
                    Listener::Sink { connection } => {
                        let received = *packet;
                        if !self.connections[connection.index()].answer(at, packet) {
                            return;
                        }
                        if P::ACTIVE {
                            let moment = Moment::Received(&received.full());
                            self.tell(at, connection, ConnectionEnd::Acceptor, moment);
                            let moment = Moment::Sent(&packet.full());
                            self.tell(at, connection, ConnectionEnd::Acceptor, moment);
                        }
                        way = self.hops[packet.hop as usize..].iter();
                        continue;
                    }
                    Listener::Acting { .. } | Listener::Answering { .. } => {}
                },
            }
            packet.hop = known.place;
            return fifo.put_on_way(at, packet, &mut self.deadlines);
        }
        unreachable!("a path ends where somebody waits")
    }

    /// The same of a direction at whose end the packet must be handled in its time, where nobody watches.
    #[inline(never)]
    fn compute_hop(&mut self, direction: DirectionId, packet: &mut Descriptor<X>) {
        if P::ACTIVE {
            return self.compute(packet.hop, packet);
        }
        let Medium::Fifo(fifo) = &mut self.directions[direction.index()].medium else {
            unreachable!("a computed direction is entered")
        };
        if let Some(at) = fifo.queue.pass_at(self.now, self.now, packet.bytes) {
            fifo.put_on_way(at, packet, &mut self.deadlines);
        }
    }

    /// The first packet on its way over a FIFO arrives.
    #[inline]
    fn on_arrival(&mut self, machine: MachineId, direction: DirectionId) {
        let Medium::Fifo(fifo) = &mut self.directions[direction.index()].medium else {
            unreachable!("lines and airs see to their own arrivals")
        };
        let mut packet = fifo.ring.front().expect("a packet that is due is on its way").item;
        let next = fifo.ring.next_front().map_or(Due::NEVER, |next| next.due);
        self.deadlines.put(machine, next);
        self.forward(&mut packet);
    }

    /// A packet has crossed the direction of its hop and leaves its far end for wherever it goes
    /// next; what is left of it is of no use.
    #[inline(always)]
    pub(super) fn forward(&mut self, packet: &mut Descriptor<X>) {
        self.pass_on(packet, false);
    }

    /// The same; a packet that an agent has let pass goes by it.
    #[inline(always)]
    pub(super) fn pass_on(&mut self, packet: &mut Descriptor<X>, has_passed: bool) {
        let Hop { far_agent, then, listener, .. } = self.hops[packet.hop as usize];
        if let Some(seat) = far_agent
            && !has_passed
        {
            return self.forward_past(seat, packet);
        }
        match then {
            Then::Arrive => self.deliver(listener, packet),
            Then::Forward | Then::Chain => self.enter(packet.hop + 1, packet),
        }
    }

    /// A packet is at its destination.
    #[inline(always)]
    fn deliver(&mut self, listener: Listener, packet: &mut Descriptor<X>) {
        match listener {
            Listener::Acting { connection, end: ConnectionEnd::Opener } => {
                self.deliver_to::<true>(connection, packet);
            }
            Listener::Acting { connection, end: ConnectionEnd::Acceptor } => {
                self.deliver_to::<false>(connection, packet);
            }
            Listener::Answering { connection } | Listener::Sink { connection } => {
                self.deliver_to_acceptor(connection, packet);
            }
            Listener::Absorbing { connection } => self.absorb(connection, self.now, packet),
        }
    }

    /// A packet is at an acceptor that only answers.
    #[inline(never)]
    fn deliver_to_acceptor(&mut self, connection: ConnectionId, packet: &mut Descriptor<X>) {
        if P::ACTIVE {
            return self.deliver_to::<false>(connection, packet);
        }
        let known = &mut self.connections[connection.index()];
        if packet.incarnation != known.instance {
            return self.deliver_copy_to_acceptor(connection, packet);
        }
        if known.answer(self.now, packet) {
            self.send(packet);
        }
    }

    /// Like [`Self::deliver_to_acceptor`], of a packet that is marked as a copy, or stale.
    #[cold]
    #[inline(never)]
    fn deliver_copy_to_acceptor(&mut self, connection: ConnectionId, packet: &mut Descriptor<X>) {
        if self.connections[connection.index()].answer_copy(self.now, packet) {
            self.send(packet);
        }
    }

    /// A packet is at one end of its connection, the opener or the acceptor; compiled for each.
    #[inline(never)]
    fn deliver_to<const OPENER: bool>(&mut self, connection: ConnectionId, packet: &Descriptor<X>) {
        let end = if OPENER { ConnectionEnd::Opener } else { ConnectionEnd::Acceptor };
        let known = &mut self.connections[connection.index()];
        if packet.incarnation != known.instance {
            return self.deliver_copy(connection, end, packet);
        }
        if P::ACTIVE {
            self.tell(self.now, connection, end, Moment::Received(&packet.full()));
        }
        let known = &mut self.connections[connection.index()];
        known.transport.receive(self.now, end, packet);
        if OPENER && let Some(sharing) = &mut self.sharing {
            sharing.on_ack(self.now, connection, known.transport.acknowledged(end));
        }
        if self.pump_in_place(connection, end) {
            self.on_progress(connection, end);
        }
    }

    /// Like [`Self::deliver_to`], of a packet that is marked as a copy, or stale.
    #[cold]
    #[inline(never)]
    fn deliver_copy(
        &mut self,
        connection: ConnectionId,
        end: ConnectionEnd,
        packet: &Descriptor<X>,
    ) {
        if packet.plain_incarnation() != self.connections[connection.index()].instance {
            return;
        }
        if P::ACTIVE {
            self.tell(self.now, connection, end, Moment::Received(&packet.full()));
        }
        let known = &mut self.connections[connection.index()];
        known.transport.receive_copy(self.now, end, packet);
        if end == ConnectionEnd::Opener
            && let Some(sharing) = &mut self.sharing
        {
            sharing.on_ack(self.now, connection, known.transport.acknowledged(end));
        }
        self.pump(connection, end);
        self.on_progress(connection, end);
    }

    /// A deadline of one end of a connection has come.
    fn on_timeout(&mut self, connection: ConnectionId, end: ConnectionEnd) {
        let transport = &mut self.connections[connection.index()].transport;
        let has_expired = transport.handle_timeout(self.now, end);
        if P::ACTIVE && has_expired {
            self.tell(self.now, connection, end, Moment::TimedOut);
        }
        self.pump(connection, end);
    }

    /// Sends what one end has to send, and notes its next deadline.
    pub(super) fn pump(&mut self, connection: ConnectionId, end: ConnectionEnd) {
        self.pump_in_place(connection, end);
    }

    /// Like [`Self::pump`], compiled into its caller. Returns `true` if its flow may have progressed further than to one more
    /// packet.
    #[inline(always)]
    fn pump_in_place(&mut self, connection: ConnectionId, end: ConnectionEnd) -> bool {
        let mut known = &mut self.connections[connection.index()];
        let mut packet = Descriptor::default();
        while known.transport.poll_transmit(self.now, end, &mut packet) {
            packet.hop = known.first_hops[end.index()];
            packet.incarnation |= known.instance;
            if P::ACTIVE {
                self.tell(self.now, connection, end, Moment::Sent(&packet.full()));
            }
            self.send(&mut packet);
            known = &mut self.connections[connection.index()];
        }
        if P::ACTIVE {
            self.tell(self.now, connection, end, Moment::Settled);
        }
        let known = &self.connections[connection.index()];
        if let Some(machine) = known.machines[end.index()] {
            self.deadlines.set(machine, known.transport.next_timeout(end));
        }
        !known.waits_for_acks || known.transport.is_all_acknowledged(ConnectionEnd::Opener)
    }
}
