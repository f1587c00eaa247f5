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
use super::telling::{record_answer, record_fate, record_received, record_spurious};
use super::traffic::{App, Flow};
use super::wlan::Air;
use lasthop_base::packet::{Descriptor, Extension, Header, TcpHeader, TcpOptions};
use lasthop_base::rng::Stream;
use lasthop_base::units::{Duration, Instant};
use lasthop_link::queue::Fate;
use lasthop_tcp::{Config, Connection};
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
    /// A TCP end.
    Tcp { connection: ConnectionId, opener: bool },
    /// The next flow starts.
    Start,
    /// A source of datagrams.
    Datagrams(FlowId),
    /// An agent.
    Agent(SeatId),
}

/// A connection and what belongs to it.
#[derive(Clone, Debug)]
pub(super) struct Pair {
    /// Opener, acceptor.
    pub ends: [Connection; 2],
    pub config: Config,
    /// First hops of the opener's and of the acceptor's packets.
    pub first_hops: [u32; 2],
    /// Incarnation: packets of earlier ones are stale.
    pub incarnation: u32,
    /// Phase of the hosts' clocks.
    pub boot: Stream,
    /// The flow it belongs to, and which of its transfers.
    pub flow: FlowId,
    pub slot: u32,
    /// Does that flow come further only when all that the opener sends has been acknowledged?
    pub waits_for_acks: bool,
    /// Deadlines of opener and acceptor; none of an end that never waits for anything.
    pub machines: [Option<MachineId>; 2],
}

impl Pair {
    /// A packet reaches the acceptor, which only acknowledges, at `at`, which may lie ahead of the clock;
    /// the packet becomes its answer, if there is one.
    #[inline(always)]
    fn answer<X: Extension>(&mut self, at: Instant, packet: &mut Descriptor<X>) -> bool {
        if packet.incarnation != self.incarnation {
            return self.answer_copy(at, packet);
        }
        let Some(bytes) = self.ends[1].answer(at, &mut packet.tcp) else { return false };
        packet.hop = self.first_hops[1];
        packet.bytes = bytes;
        true
    }

    /// The same of a packet that was sent before, or is stale.
    #[cold]
    #[inline(never)]
    fn answer_copy<X: Extension>(&mut self, at: Instant, packet: &mut Descriptor<X>) -> bool {
        let ordinal = packet.copy();
        packet.set_copy(0);
        if packet.incarnation != self.incarnation {
            return false;
        }
        let bytes = self.ends[1].answer_copy(at, &mut packet.tcp, ordinal);
        let Some(bytes) = bytes else { return false };
        packet.hop = self.first_hops[1];
        packet.bytes = bytes;
        true
    }

    /// The end of that index has sent `packet` before, or a part of it.
    #[cold]
    #[inline(never)]
    fn mark_copy<X: Extension>(&mut self, now: Instant, end: usize, packet: &mut Descriptor<X>) {
        let [first, second] = &mut self.ends;
        let (end, peer) = if end == 0 { (first, second) } else { (second, first) };
        packet.set_copy(end.note_copy(now, &packet.tcp, peer));
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
    pub(super) connections: Vec<Pair>,
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

/// A host's clock is somewhere within its tick.
pub(super) fn boot_offset(stream: &mut Stream, config: &Config) -> Duration {
    let period = config.clock_period().as_nanos();
    Duration::from_nanos((stream.uniform() * period as f64) as u64)
}

impl<P: Probe, X: Extension> World<P, X> {
    /// Runs until `stop`, which comes before the end of time, or, if `until_complete`, until every
    /// file transfer is complete. Where nothing is left to happen, the clock goes on to `stop`.
    /// `interrupt` is looked at now and then.
    pub fn run(&mut self, stop: Instant, until_complete: bool, interrupt: &AtomicBool) -> End {
        debug_assert!(stop < Instant::NEVER, "a run ends");
        if P::ACTIVE {
            let ends = self.connections.iter_mut().flat_map(|pair| &mut pair.ends);
            ends.for_each(Connection::observe_peer);
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
                Machine::Tcp { connection, opener } => self.on_tcp_timer(connection, opener),
                Machine::Start => self.on_start(),
                Machine::Datagrams(flow) => self.on_datagram(flow),
                Machine::Agent(seat) => self.on_agent_timer(seat),
            }
        };
        self.absorb_all();
        if P::ACTIVE {
            self.tell_spurious();
        }
        if end == End::Interrupted || !self.catch_up(self.now, interrupt) {
            End::Interrupted
        } else {
            end
        }
    }

    /// Tells of what was sent again, and waited for, in vain.
    fn tell_spurious(&mut self) {
        for connection in (0..self.connections.len()).map(ConnectionId::new) {
            if self.knows_spurious(connection) {
                let ends = &mut self.connections[connection.index()].ends;
                record_spurious(&mut self.probe, connection, ends);
            }
        }
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
        let names = self.connections.iter().enumerate().map(|(index, pair)| {
            let flow = &self.flows[pair.flow.index()];
            match flow.app {
                App::File { .. } => {
                    [format!("flow.{}", flow.name), format!("flow.{}.receiver", flow.name)]
                }
                App::Web(_) | App::Datagrams(_) | App::Background { .. } => ["opener", "acceptor"]
                    .map(|end| format!("flow.{}.connection {index} {end}", flow.name)),
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
                record_fate(&mut self.probe, known, (fifo, told), times, fate, packet);
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
                    Listener::Datagrams { flow } => {
                        return self.receive_datagram(flow, at, packet);
                    }
                    Listener::Sink { connection } => {
                        let segment = packet.tcp;
                        let pair = &mut self.connections[connection.index()];
                        if !pair.answer(at, packet) {
                            return;
                        }
                        if P::ACTIVE {
                            record_answer(&mut self.probe, connection, at, &segment, packet);
                        }
                        way = self.hops[packet.hop as usize..].iter();
                        continue;
                    }
                    Listener::Tcp { .. } | Listener::Acceptor { .. } => {}
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
            Listener::Tcp { connection, opener: true } => {
                self.deliver_segment::<true>(connection, packet);
            }
            Listener::Tcp { connection, opener: false } => {
                self.deliver_segment::<false>(connection, packet);
            }
            Listener::Acceptor { connection } | Listener::Sink { connection } => {
                self.deliver_to_acceptor(connection, packet);
            }
            Listener::Datagrams { flow } => self.receive_datagram(flow, self.now, packet),
        }
    }

    /// A segment is at an acceptor that only acknowledges.
    #[inline(never)]
    fn deliver_to_acceptor(&mut self, connection: ConnectionId, packet: &mut Descriptor<X>) {
        if P::ACTIVE {
            return self.deliver_segment::<false>(connection, packet);
        }
        let pair = &mut self.connections[connection.index()];
        if packet.incarnation != pair.incarnation {
            return self.deliver_copy_to_acceptor(connection, packet);
        }
        if pair.answer(self.now, packet) {
            self.send(packet);
        }
    }

    /// The same of one that was sent before, or is stale.
    #[cold]
    #[inline(never)]
    fn deliver_copy_to_acceptor(&mut self, connection: ConnectionId, packet: &mut Descriptor<X>) {
        if self.connections[connection.index()].answer_copy(self.now, packet) {
            self.send(packet);
        }
    }

    /// A segment is at one end of its connection, the opener or the acceptor; compiled for each.
    #[inline(never)]
    fn deliver_segment<const OPENER: bool>(
        &mut self,
        connection: ConnectionId,
        packet: &Descriptor<X>,
    ) {
        let pair = &mut self.connections[connection.index()];
        if packet.incarnation != pair.incarnation {
            return self.deliver_copy(connection, OPENER, packet);
        }
        if P::ACTIVE {
            record_received(&mut self.probe, connection, OPENER, self.now, &packet.tcp);
        }
        pair.ends[usize::from(!OPENER)].receive(self.now, &packet.tcp);
        if OPENER && let Some(sharing) = &mut self.sharing {
            sharing.on_ack(self.now, connection, pair.ends[0].acked_bytes());
        }
        if self.pump_in_place(connection, OPENER) {
            self.on_progress(connection, OPENER);
        }
    }

    /// The same of one that was sent before, or is stale.
    #[cold]
    #[inline(never)]
    fn deliver_copy(&mut self, connection: ConnectionId, opener: bool, packet: &Descriptor<X>) {
        let pair = &mut self.connections[connection.index()];
        if packet.plain_incarnation() != pair.incarnation {
            return;
        }
        if P::ACTIVE {
            record_received(&mut self.probe, connection, opener, self.now, &packet.tcp);
        }
        let end = &mut pair.ends[usize::from(!opener)];
        end.receive_copy(self.now, &packet.tcp, packet.copy());
        if opener && let Some(sharing) = &mut self.sharing {
            sharing.on_ack(self.now, connection, pair.ends[0].acked_bytes());
        }
        self.pump(connection, opener);
        self.on_progress(connection, opener);
    }

    fn on_tcp_timer(&mut self, connection: ConnectionId, opener: bool) {
        let [first, second] = &mut self.connections[connection.index()].ends;
        let (end, peer) = if opener { (first, second) } else { (second, first) };
        let before = end.counters().timeouts;
        end.handle_timeout(self.now);
        if end.counters().timeouts > before {
            end.note_timeout(self.now, peer);
            if P::ACTIVE {
                self.probe.record(self.now, Event::Timeout { connection, opener });
            }
        }
        self.pump(connection, opener);
    }

    /// Sends what a TCP end has to send, and notes its next deadline.
    pub(super) fn pump(&mut self, connection: ConnectionId, opener: bool) {
        self.pump_in_place(connection, opener);
    }

    /// The same, compiled into its caller. Says whether its flow may have come further than to one more
    /// segment.
    #[inline(always)]
    fn pump_in_place(&mut self, connection: ConnectionId, opener: bool) -> bool {
        let end = usize::from(!opener);
        let mut pair = &mut self.connections[connection.index()];
        while !pair.ends[end].is_quiet() {
            let (hop, incarnation) = (pair.first_hops[end], pair.incarnation);
            let mut packet = if let Some((tcp, bytes)) = pair.ends[end].poll_bare(self.now) {
                Descriptor { hop, incarnation, bytes, tcp }
            } else {
                let mut tcp = TcpHeader::default();
                let Some(bytes) = pair.ends[end].poll_transmit(self.now, &mut tcp) else { break };
                let mut packet = Descriptor { hop, incarnation, bytes, tcp: X::narrow(&tcp) };
                if pair.ends[end].has_resent() {
                    pair.mark_copy(self.now, end, &mut packet);
                }
                packet
            };
            if P::ACTIVE {
                let Header { seq, payload, .. } = packet.tcp;
                let sequence = u64::from(seq);
                let sent = Event::SegmentSent { connection, opener, sequence, payload };
                self.probe.record(self.now, sent);
            }
            self.send(&mut packet);
            pair = &mut self.connections[connection.index()];
        }
        if P::ACTIVE {
            let sender = pair.ends[end].sender();
            let cwnd = sender.congestion_window();
            let ssthresh = sender.slow_start_threshold();
            self.probe.record(self.now, Event::Window { connection, opener, cwnd, ssthresh });
        }
        if let Some(machine) = pair.machines[end] {
            self.deadlines.set(machine, pair.ends[end].next_timeout());
        }
        !pair.waits_for_acks || pair.ends[0].is_all_acked()
    }

    /// Sends a datagram of a flow.
    pub(super) fn send_datagram(&mut self, flow: FlowId, packet: &Descriptor<X>) {
        if P::ACTIVE {
            let (number, bytes) = (packet.datagram_number(), packet.bytes);
            self.probe.record(self.now, Event::DatagramSent { flow, number, bytes });
        }
        self.send(&mut { *packet });
    }
}
