//! The world: hosts, the links between them, the connections between hosts, and the event loop.

use super::agents::Seat;
use super::ahead::ComputedEvents;
use super::deadlines::{Deadlines, Due, MachineId};
use super::direction::{Direction, Medium};
use super::hops::{Arrival, Entry, Hop, Step, Then};
use super::ids::{AirId, ConnectionId, DirectionId, FlowId, LineId, RadioId, SeatId, SourceId};
use super::line::Line;
use super::probe::{Event, HostAction, Probe};
use super::probe_events::{record_fate, segment_label};
use super::radio::Radio;
use super::sharing::Sharing;
use super::traffic::{App, Datagrams, Flow};
use super::wlan::Air;
use crate::app::StreamApplication;
use crate::transport::{
    Answers, CarriesStreams, End as ConnectionEnd, Moment, Observed, Transport, TransportMachine,
};
use lasthop_base::packet::{Descriptor, Extension, TcpOptions};
use lasthop_base::units::{Duration, Instant};
use lasthop_link::queue::Fate;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};

/// The machine that a deadline belongs to.
#[derive(Clone, Copy, Debug)]
pub(super) enum Machine {
    /// Arrival of the first packet in transit over a computed FIFO.
    Arrival(DirectionId),
    /// A driven link, or the endpoint timers of a radio's station.
    Line(LineId),
    /// A radio: start of its next frame, or arrival of an earlier one.
    Radio(RadioId),
    /// The medium of a WLAN.
    Air(AirId),
    /// One end of a connection.
    Transport { connection: ConnectionId, end: ConnectionEnd },
    /// Start of the next flow.
    Start,
    /// A source of datagrams.
    Datagrams(SourceId),
    /// An application that writes to streams.
    Application(FlowId),
    /// An agent.
    Agent(SeatId),
}

/// The condition under which the application of a connection is called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Progress {
    /// All data that the opener has sent is acknowledged.
    Acknowledged,
    /// All data that an end has written has arrived.
    Delivered,
    /// A packet has arrived.
    Followed,
}

/// A connection, its flow and its place in the network.
#[derive(Debug)]
pub(super) struct Connection {
    pub transport: TransportMachine,
    /// First hops of the opener's and of the acceptor's packets. An end that sends no packets has
    /// its peer's hop.
    pub first_hops: [u32; 2],
    /// Whether the direction of each is computed, and no agent is attached to its start.
    pub enters_computed: [bool; 2],
    /// Number of the connection instance. Packets of earlier instances are stale.
    pub instance: u32,
    /// Whether the opener runs at the flow's source host.
    pub is_opened_by_source: bool,
    /// The flow of the connection, and the index of its stream in that flow.
    pub flow: FlowId,
    pub slot: u32,
    /// Number among the connections that carry streams, or among those that carry datagrams.
    pub ordinal: u32,
    pub progress: Progress,
    /// Deadlines of opener and acceptor; `None` for an end without timers.
    pub machines: [Option<MachineId>; 2],
}

impl Connection {
    /// Processes a packet that reaches an acceptor whose only reaction is to answer. `at`, the time
    /// of arrival, may be later than the clock. Replaces `packet` by the answer. Returns `false` if
    /// the acceptor sends no answer.
    #[inline(always)]
    pub(super) fn answer<X: Extension>(&mut self, at: Instant, packet: &mut Descriptor<X>) -> bool {
        if !self.answer_in_place(at, packet) {
            return false;
        }
        packet.hop = self.first_hops[ConnectionEnd::Acceptor.index()];
        true
    }

    /// Like [`Self::answer`], without the hop of the answer.
    #[inline(always)]
    pub(super) fn answer_in_place<X: Extension>(
        &mut self,
        at: Instant,
        packet: &mut Descriptor<X>,
    ) -> bool {
        if packet.incarnation != self.instance {
            return self.answer_copy(at, packet);
        }
        self.transport.answer(at, packet)
    }

    /// Like [`Self::answer_in_place`], for a packet that is marked as a copy or is stale.
    #[cold]
    #[inline(never)]
    fn answer_copy<X: Extension>(&mut self, at: Instant, packet: &mut Descriptor<X>) -> bool {
        packet.plain_incarnation() == self.instance && self.transport.answer_copy(at, packet)
    }
}

/// The reason why a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// All transfers were complete.
    Complete,
    /// The stop time was reached; further events may have been pending.
    Stopped,
    /// The interrupt flag was set.
    Interrupted,
}

/// Hosts, links, connections and applications of one replication. Its packets have the extension
/// `X`.
pub struct World<P: Probe, X: Extension = TcpOptions> {
    pub(super) now: Instant,
    /// The ticket of the event being handled.
    pub(super) ticket: u64,
    pub(super) deadlines: Deadlines,
    /// Events of passive ends of lines that were computed ahead of the clock.
    pub(super) ahead: ComputedEvents,
    pub(super) machines: Vec<Machine>,
    pub(super) directions: Vec<Direction<X>>,
    pub(super) lines: Vec<Line<X>>,
    /// The hops of all paths, one path after the other.
    pub(super) hops: Vec<Hop>,
    pub(super) connections: Vec<Connection>,
    pub(super) flows: Vec<Flow>,
    pub(super) sources: Vec<Datagrams>,
    /// The source of each connection over UDP, by connection; empty with a probe.
    pub(super) immediate: Vec<Option<SourceId>>,
    /// Measures the time to fairness; `None` with fewer than two file transfers.
    pub(super) sharing: Option<Box<Sharing>>,
    pub(super) agents: Vec<Seat<X>>,
    pub(super) radios: Vec<Radio>,
    pub(super) airs: Vec<Air<X>>,
    /// Starts and stops (`true`) of flows that are due later, the latest first.
    pub(super) starts: Vec<(Instant, bool, FlowId)>,
    /// Number of flows whose completion is still required to end the run.
    pub(super) unfinished: u32,
    /// Events at or after this time require the checks at the start of the loop. Set to zero when a
    /// flow completes, so that the next event runs them.
    pub(super) attention: Instant,
    /// The earlier of `attention` and the first event computed ahead of the clock.
    pub(super) wake: Instant,
    /// Packets that the current line or medium has received with errors and that may be
    /// delivered nevertheless.
    pub(super) damaged: VecDeque<Descriptor<X>>,
    /// Buffer for the packets that a station of a radio, or its base, delivers at the end of a frame.
    pub(super) up: Vec<Descriptor<X>>,
    /// Background traffic and channels have been replayed at least until this time. They are
    /// replayed again after `replay_slice`, even if no packet needs their state: see
    /// `sim/horizon.rs`.
    pub(super) caught_up: Instant,
    pub(super) replay_slice: Duration,
    /// After this time, the horizon of the counters is recomputed.
    pub(super) horizon_due: Instant,
    /// Number of events until the interrupt flag is checked. It is reset to `look_interval`, the
    /// number of events between two checks.
    pub(super) until_look: u64,
    pub(super) look_interval: u64,
    pub(super) probe: P,
    /// Number of frames per computed direction that have been reported to the probe; empty if no
    /// observer is attached.
    pub(super) reported: Vec<u64>,
    /// Number of events handled up to the last check of the interrupt flag.
    pub(super) looked_at: u64,
}

impl<P: Probe, X: Extension> World<P, X> {
    /// Runs until `stop`, which must be earlier than [`Instant::NEVER`]. If `until_complete` is
    /// set, the run ends earlier when all file transfers are complete. If no events are pending,
    /// the clock advances to `stop`. The flag `interrupt` is checked regularly.
    pub fn run(&mut self, stop: Instant, until_complete: bool, interrupt: &AtomicBool) -> End {
        debug_assert!(stop < Instant::NEVER, "the stop time must be finite");
        if P::ACTIVE {
            let transports = self.connections.iter_mut().map(|known| &mut known.transport);
            transports.for_each(TransportMachine::start_observation);
        } else {
            let horizon = if until_complete { self.earliest_completion().min(stop) } else { stop };
            self.set_horizon(horizon);
            self.horizon_due = if until_complete { horizon } else { Instant::NEVER };
        }
        let least_unfinished = u32::from(until_complete);
        (self.attention, self.wake) = (Instant::ZERO, Instant::ZERO);
        let end = loop {
            let first = self.deadlines.first_of_flat();
            let (due, machine) = first.unwrap_or_else(|| self.first_of_all());
            let at = due.at();
            debug_assert!(at >= self.now, "the clock must not decrease");
            if at >= self.wake {
                self.looked_at += self.ahead.pass(due, &mut self.deadlines);
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
                self.wake = self.attention.min(self.ahead.first());
            }
            (self.now, self.ticket) = (at, due.ticket());
            // The counter counts down: the comparison with zero is part of the subtraction.
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
                Machine::Datagrams(source) => self.on_datagram(machine, source),
                Machine::Application(flow) => self.on_application_timer(flow),
                Machine::Agent(seat) => self.on_agent_timer(seat),
            }
        };
        self.looked_at += self.ahead.pass(self.current(), &mut self.deadlines);
        self.absorb_all();
        if P::ACTIVE {
            self.record_past();
        }
        if end == End::Interrupted || !self.catch_up(self.now, interrupt) {
            End::Interrupted
        } else {
            end
        }
    }

    /// Reports events that transports can only determine at the end of the run.
    fn record_past(&mut self) {
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

    /// Returns the simulated time.
    pub fn now(&self) -> Instant {
        self.now
    }

    /// Returns the deadline of the event being handled.
    #[inline(always)]
    pub(super) fn current(&self) -> Due {
        Due::new(self.now, self.ticket)
    }

    /// Returns the number of events handled so far.
    pub fn events(&self) -> u64 {
        self.looked_at + (self.look_interval - self.until_look)
    }

    /// Returns `true` if the interrupt flag is set. Called once per `look_interval` events.
    #[cold]
    fn look_for_interrupt(&mut self, interrupt: &AtomicBool) -> bool {
        self.looked_at += self.look_interval;
        self.until_look = self.look_interval;
        interrupt.load(Ordering::Relaxed)
    }

    /// Returns the names of each connection's opener and acceptor.
    pub fn connection_names(&self) -> Vec<[String; 2]> {
        let names = self.connections.iter().map(|known| {
            let Connection { ordinal, .. } = known;
            let flow = &self.flows[known.flow.index()];
            match &flow.app {
                App::Streams(app) if !app.application.is_transfer() => ["opener", "acceptor"]
                    .map(|end| format!("flow.{}.connection {ordinal} {end}", flow.name)),
                App::Streams(_) | App::Datagrams { .. } | App::Background { .. } => {
                    [format!("flow.{}", flow.name), format!("flow.{}.receiver", flow.name)]
                }
            }
        });
        names.collect()
    }

    /// Removes the transports of all connections after a run, with the contents of their packets.
    pub fn take_transports(&mut self) -> Vec<TransportMachine> {
        self.connections.drain(..).map(|known| known.transport).collect()
    }

    /// Returns the probe.
    pub fn probe(&self) -> &P {
        &self.probe
    }

    /// Returns the probe after a run and drops the world.
    pub fn into_probe(self) -> P {
        self.probe
    }

    /// Sends a packet over the direction of its hop now. The contents of `packet` are unspecified
    /// afterwards.
    #[inline(always)]
    pub(super) fn send(&mut self, packet: &mut Descriptor<X>) {
        self.enter(packet.hop, packet);
    }

    /// Sends a packet over the direction of `hop` now; `packet.hop` is ignored.
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
            Entry::Shared => self.enter_air(direction, packet),
            _ => self.enter_at(entry, direction, service, packet),
        }
    }

    /// Like [`Self::send`], for a packet that the agents at the start of the direction have
    /// forwarded.
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

    /// Sends a packet over a computed direction now and follows it as far as its outcome can be
    /// computed. That includes directions that are chained to the first one, where no agent
    /// inspects packets, and the answer of an acceptor that only acknowledges. This is a single
    /// function because the compiler generates faster code for it.
    #[inline(never)]
    fn compute(&mut self, hop: u32, packet: &mut Descriptor<X>) {
        let clock = self.now;
        let mut at = clock;
        let mut way = self.hops[hop as usize..].iter();
        while let Some(known) = way.next() {
            let Medium::Fifo(fifo) = &mut self.directions[known.direction.index()].medium else {
                unreachable!(
                    "only computed directions are chained, or begin the reverse path of a sink"
                )
            };
            at = if P::ACTIVE {
                packet.hop = known.place;
                let times = [at, fifo.queue.next_start(at)];
                let fate = fifo.queue.offer_at(clock, at, packet.bytes);
                let reported = &mut self.reported[known.direction.index()];
                let label = segment_label(&self.connections, known.listener, &packet.full());
                record_fate(&mut self.probe, known, (fifo, reported), times, fate, (packet, label));
                let Fate::Sent { end } = fate else { return };
                fifo.queue.arrival(end)
            } else {
                let Some(at) = fifo.queue.pass_at(clock, at, packet.bytes) else { return };
                at
            };
            if known.then == Then::Chain {
                continue;
            }
            match known.step {
                Step::Answer { connection } => {
                    let received = *packet;
                    if !self.connections[connection.index()].answer_in_place(at, packet) {
                        return;
                    }
                    if P::ACTIVE {
                        packet.hop = known.place + 1;
                        let moment = Moment::Received(&received.full());
                        self.record_transport(at, connection, ConnectionEnd::Acceptor, moment);
                        let moment = Moment::Sent(&packet.full());
                        self.record_transport(at, connection, ConnectionEnd::Acceptor, moment);
                        way = self.hops[packet.hop as usize..].iter();
                    }
                }
                Step::Absorb { connection } => return self.absorb(connection, at, packet),
                Step::Wait => {
                    packet.hop = known.place;
                    return fifo.put_on_way(at, packet, &mut self.deadlines);
                }
            }
        }
        unreachable!("a path ends with a receiver")
    }

    /// Like [`Self::compute`], for a direction at whose end the packet must be handled at its time
    /// of arrival. Without a probe, it takes a shorter path.
    #[inline(never)]
    fn compute_hop(&mut self, direction: DirectionId, packet: &mut Descriptor<X>) {
        if P::ACTIVE {
            return self.compute(packet.hop, packet);
        }
        let Medium::Fifo(fifo) = &mut self.directions[direction.index()].medium else {
            unreachable!("the direction is computed")
        };
        if let Some(at) = fifo.queue.pass_at(self.now, self.now, packet.bytes) {
            fifo.put_on_way(at, packet, &mut self.deadlines);
        }
    }

    /// Handles the arrival of the first packet in transit over a computed FIFO, and the arrivals
    /// that follow as long as they are certainly the next events.
    #[inline]
    fn on_arrival(&mut self, machine: MachineId, direction: DirectionId) {
        loop {
            let Medium::Fifo(fifo) = &mut self.directions[direction.index()].medium else {
                unreachable!("lines and WLAN media handle their own arrivals")
            };
            let mut packet = fifo.ring.front().expect("a packet that arrives is in the ring").item;
            let next = fifo.ring.next_front().map_or(Due::NEVER, |next| next.due);
            self.deadlines.put(machine, next);
            self.forward(&mut packet);
            // The main loop handles events that require its checks.
            let Some(due) = self.deadlines.first_of_one() else { return };
            if due.at() >= self.wake || self.until_look == 1 {
                return;
            }
            (self.now, self.ticket) = (due.at(), due.ticket());
            self.until_look -= 1;
        }
    }

    /// Forwards a packet that has crossed the direction of its hop: to the agents at the far end,
    /// then to the next hop or its destination. The contents of `packet` are unspecified
    /// afterwards.
    #[inline(always)]
    pub(super) fn forward(&mut self, packet: &mut Descriptor<X>) {
        match self.hops[packet.hop as usize].arrival {
            Arrival::Opener { connection } => self.deliver_to::<true>(connection, packet),
            Arrival::Answering { connection } => self.deliver_to_acceptor(connection, packet),
            Arrival::Other => self.pass_on(packet, false),
        }
    }

    /// Like [`Self::forward`]; skips the agents if `has_passed` is set.
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

    /// Handles the timeout of one end of a connection.
    fn on_timeout(&mut self, connection: ConnectionId, end: ConnectionEnd) {
        let transport = &mut self.connections[connection.index()].transport;
        let has_expired = transport.handle_timeout(self.now, end);
        if P::ACTIVE && has_expired {
            self.record_transport(self.now, connection, end, Moment::TimedOut);
        }
        self.pump(connection, end);
        if self.connections[connection.index()].transport.has_failed() {
            self.on_failure(connection);
        }
    }

    /// Sends all packets that one end is ready to send, and updates its deadline.
    pub(super) fn pump(&mut self, connection: ConnectionId, end: ConnectionEnd) {
        self.pump_in_place(connection, end);
    }

    /// Like [`Self::pump`], but inlined. Returns `true` if the flow may have progressed. A flow
    /// that waits for acknowledgments has not progressed while data of the opener is
    /// unacknowledged.
    #[inline(always)]
    pub(super) fn pump_in_place(&mut self, connection: ConnectionId, end: ConnectionEnd) -> bool {
        let mut known = &mut self.connections[connection.index()];
        let mut packet = Descriptor::default();
        while known.transport.poll_transmit(self.now, end, &mut packet) {
            packet.hop = known.first_hops[end.index()];
            packet.incarnation |= known.instance;
            if P::ACTIVE {
                let packet = packet.full();
                self.record_transport(self.now, connection, end, Moment::Sent(&packet));
                self.record_host(connection, end, HostAction::Sent(packet));
                known = &mut self.connections[connection.index()];
            }
            if known.enters_computed[end.index()] {
                self.compute(packet.hop, &mut packet);
            } else {
                self.send(&mut packet);
            }
            known = &mut self.connections[connection.index()];
        }
        if P::ACTIVE {
            self.record_transport(self.now, connection, end, Moment::Settled);
            known = &mut self.connections[connection.index()];
        }
        if let Some(machine) = known.machines[end.index()] {
            self.deadlines.set_rare(machine, known.transport.next_timeout(end));
        }
        known.progress != Progress::Acknowledged
            || known.transport.is_all_acknowledged(ConnectionEnd::Opener)
    }
}
