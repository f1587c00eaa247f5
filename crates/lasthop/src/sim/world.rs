//! The world: hosts joined by links, connections between hosts, and the loop that runs them.

use super::agents::Seat;
use super::deadlines::{Deadlines, Due, MachineId};
use super::direction::{Direction, Fifo, Medium};
use super::hops::{Entry, Hop, Listener, Then};
use super::ids::{AirId, ConnectionId, DirectionId, FlowId, LineId, RadioId, SeatId};
use super::line::Line;
use super::probe::{Event, Probe, SegmentLabel};
use super::radio::Radio;
use super::traffic::{App, Flow};
use super::wlan::Air;
use crate::app::DatagramSource;
use crate::packet::{Packet, TcpHeader};
use crate::queue::{Fate, Queue};
use crate::rng::Stream;
use crate::tcp::{Config, Connection};
use crate::units::{Duration, Instant, Rate};
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};

/// Events between two looks at the interrupt flag: a millisecond or so.
const INTERRUPT_EVENTS: u64 = 1 << 10;

/// Stations that radios see to between two looks at the interrupt flag: each frame of a radio is one event, which
/// sees to all of its stations. Some 40 ms.
const INTERRUPT_STATIONS: u64 = 1 << 18;

/// Steps that are replayed between two looks at the interrupt flag, packets of background traffic
/// and changes of channels: some 10 ms.
const REPLAY_STEPS: f64 = 2e5;

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
    fn answer(&mut self, at: Instant, packet: &mut Packet) -> bool {
        let Some(bytes) = self.ends[1].answer(at, &mut packet.tcp) else { return false };
        packet.hop = self.first_hops[1];
        packet.bytes = bytes;
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

/// Hosts, links, connections and applications of one replication.
pub struct World<P: Probe> {
    pub(super) now: Instant,
    /// The deadline of the event at hand.
    pub(super) current: Due,
    pub(super) deadlines: Deadlines,
    pub(super) machines: Vec<Machine>,
    pub(super) directions: Vec<Direction>,
    pub(super) lines: Vec<Line>,
    /// The hops of all paths, path by path.
    pub(super) hops: Vec<Hop>,
    pub(super) connections: Vec<Pair>,
    pub(super) flows: Vec<Flow>,
    pub(super) agents: Vec<Seat>,
    pub(super) radios: Vec<Radio>,
    pub(super) airs: Vec<Air>,
    /// Flows that have not started, latest first.
    pub(super) starts: Vec<FlowId>,
    /// Flows whose completion ends the run.
    pub(super) unfinished: u32,
    /// Packets that came over the line at hand damaged, and may go up as they are.
    pub(super) damaged: VecDeque<Packet>,
    /// Background traffic and channels have been replayed until here at least, and are again after
    /// so much simulated time even if nobody looks at them: see [`REPLAY_STEPS`].
    pub(super) caught_up: Instant,
    pub(super) replay_slice: Duration,
    /// Later than this, the horizon of the counters is found out anew.
    pub(super) horizon_due: Instant,
    /// Where no bit of this is set in the number of an event, the interrupt flag is looked at.
    pub(super) interrupt_mask: u64,
    pub(super) probe: P,
    pub(super) events: u64,
}

/// Simulated time that is replayed between two looks at the interrupt flag where a second takes
/// `steps`.
pub(super) fn replay_slice(steps: f64) -> Duration {
    // From infinity, without steps, the conversion saturates.
    Duration::from_nanos((REPLAY_STEPS / steps * 1e9) as u64).max(Duration::from_nanos(1))
}

/// See [`World::interrupt_mask`], where an event sees to `stations` stations at most.
pub(super) fn interrupt_mask(stations: usize) -> u64 {
    let events = INTERRUPT_STATIONS / (stations as u64).max(1);
    events.clamp(1, INTERRUPT_EVENTS).next_power_of_two().min(INTERRUPT_EVENTS) - 1
}

/// A host's clock is somewhere within its tick.
pub(super) fn boot_offset(stream: &mut Stream, config: &Config) -> Duration {
    let period = config.clock_period().as_nanos();
    Duration::from_nanos((stream.uniform() * period as f64) as u64)
}

impl<P: Probe> World<P> {
    /// Runs until `stop`, which comes before the end of time, or, if `until_complete`, until every
    /// file transfer is complete. Where nothing is left to happen, the clock goes on to `stop`.
    /// `interrupt` is looked at now and then.
    pub fn run(&mut self, stop: Instant, until_complete: bool, interrupt: &AtomicBool) -> End {
        debug_assert!(stop < Instant::NEVER, "a run ends");
        if !P::ACTIVE {
            let horizon = if until_complete { self.earliest_completion().min(stop) } else { stop };
            self.set_horizon(horizon);
            self.horizon_due = if until_complete { horizon } else { Instant::NEVER };
        }
        let least_unfinished = u32::from(until_complete);
        // Later than this, something besides the event must be seen to.
        let mut horizon = self.horizon_due.min(self.catch_up_due()).min(stop);
        let end = loop {
            if self.unfinished < least_unfinished {
                break End::Complete;
            }
            let (due, machine) = self.deadlines.first();
            let at = due.at();
            debug_assert!(at >= self.now, "time runs backwards");
            if at > horizon {
                if at > stop {
                    self.now = stop;
                    self.current = Due::after(stop);
                    break End::Stopped;
                }
                if at > self.horizon_due {
                    self.raise_horizon(stop);
                }
                if at > self.catch_up_due() && !self.catch_up(at, interrupt) {
                    break End::Interrupted;
                }
                horizon = self.horizon_due.min(self.catch_up_due()).min(stop);
            }
            self.now = at;
            self.current = due;
            self.events += 1;
            if self.events & self.interrupt_mask == 0 && interrupt.load(Ordering::Relaxed) {
                break End::Interrupted;
            }
            match self.machines[machine.index()] {
                Machine::Arrival(direction) => self.on_arrival(direction),
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
        if end == End::Interrupted || !self.catch_up(self.now, interrupt) {
            End::Interrupted
        } else {
            end
        }
    }

    /// No file transfer can be complete sooner than the slowest link on its way has carried once what
    /// has not been sent by now.
    fn earliest_completion(&self) -> Instant {
        let completion = |flow: &Flow| {
            let App::File { connection, size, .. } = flow.app else { return Instant::ZERO };
            let pair = &self.connections[connection.index()];
            let mut hop = pair.first_hops[0] as usize;
            let mut slowest = self.fastest(self.hops[hop].direction);
            while !matches!(self.hops[hop].then, Then::Arrive) {
                hop += 1;
                slowest = slowest.min(self.fastest(self.hops[hop].direction));
            }
            let has_started = flow.start < self.now;
            let unsent = if has_started { pair.ends[0].unsent_bytes() } else { size.get() };
            // The rate of a radio is rounded down.
            let rate = u128::from(slowest.as_bps()) + 1;
            let nanos = u128::from(unsent) * 8 * 1_000_000_000 / rate;
            let nanos = u64::try_from(nanos).unwrap_or(u64::MAX);
            let from = flow.start.max(self.now);
            Instant::from_nanos(from.as_nanos().saturating_add(nanos))
        };
        self.flows.iter().map(completion).max().unwrap_or_default()
    }

    /// The run goes on beyond the time at which it could have been complete: finds out when it can be
    /// now. Each time waits for longer, so that a transfer that stalls does not ask again and again.
    #[cold]
    fn raise_horizon(&mut self, stop: Instant) {
        let horizon = self.earliest_completion().min(stop);
        self.set_horizon(horizon);
        let pause = Duration::from_nanos(self.now.as_nanos() / 8 + 1);
        self.horizon_due = horizon.max(self.now + pause);
    }

    /// Counters will not be asked for what they were before `horizon`.
    fn set_horizon(&mut self, horizon: Instant) {
        for direction in &mut self.directions {
            if let Medium::Fifo(fifo) = &mut direction.medium {
                fifo.queue.set_horizon(horizon);
            }
        }
        for flow in &mut self.flows {
            if let App::Datagrams(datagrams) = &mut flow.app {
                datagrams.source.set_horizon(horizon);
            }
        }
    }

    /// When background traffic and channels must be replayed at the latest.
    fn catch_up_due(&self) -> Instant {
        let slice = self.replay_slice.as_nanos();
        Instant::from_nanos(self.caught_up.as_nanos().saturating_add(slice))
    }

    /// Replays background traffic and changes of channels up to and including `until`, before which
    /// nothing enters a direction any more; false if it was interrupted.
    #[cold]
    fn catch_up(&mut self, until: Instant, interrupt: &AtomicBool) -> bool {
        loop {
            let to = self.catch_up_due().min(until);
            for direction in &mut self.directions {
                if let Medium::Fifo(fifo) = &mut direction.medium {
                    fifo.queue.catch_up_with_channel(to);
                }
            }
            for end in self.lines.iter_mut().flat_map(Line::ends_mut) {
                end.catch_up(to);
            }
            for air in &mut self.airs {
                air.medium.catch_up(to);
            }
            self.caught_up = to;
            if to == until {
                return true;
            }
            if interrupt.load(Ordering::Relaxed) {
                return false;
            }
        }
    }

    /// The highest rate that a direction ever has.
    fn fastest(&self, direction: DirectionId) -> Rate {
        match &self.directions[direction.index()].medium {
            Medium::Fifo(fifo) => fifo.queue.transmitter().fastest(),
            Medium::Line(line) => {
                self.lines[line.index()].end(direction.side()).interface.transmitter().fastest()
            }
            Medium::Shared(shared) => shared.rate,
        }
    }

    /// The clock.
    pub fn now(&self) -> Instant {
        self.now
    }

    /// Events handled so far.
    pub fn events(&self) -> u64 {
        self.events
    }

    /// Names of each connection's opener and acceptor.
    pub fn connection_names(&self) -> Vec<[String; 2]> {
        let names = self.connections.iter().enumerate().map(|(index, pair)| {
            let flow = &self.flows[pair.flow.index()];
            match flow.app {
                App::File { .. } => {
                    [format!("flow.{}", flow.name), format!("flow.{}.receiver", flow.name)]
                }
                _ => ["opener", "acceptor"]
                    .map(|end| format!("flow.{}.connection {index} {end}", flow.name)),
            }
        });
        names.collect()
    }

    /// The probe, after a run.
    pub fn into_probe(self) -> P {
        self.probe
    }

    /// A packet enters the direction of its hop now; what is left of it is of no use.
    #[inline(always)]
    pub(super) fn send(&mut self, packet: &mut Packet) {
        self.enter(packet.hop, packet);
    }

    /// A packet enters the direction of `hop` now, whatever hop the packet says.
    #[inline(always)]
    pub(super) fn enter(&mut self, hop: u32, packet: &mut Packet) {
        let known = &self.hops[hop as usize];
        if known.entry == Entry::Fifo {
            return self.compute(hop, packet);
        }
        let Hop { direction, entry, service, .. } = *known;
        packet.hop = hop;
        self.enter_at(entry, direction, service, packet);
    }

    /// The same of a packet that the agents there have let pass.
    pub(super) fn enter_past_agents(&mut self, packet: &Packet) {
        let Hop { direction, service, .. } = self.hops[packet.hop as usize];
        let entry = self.directions[direction.index()].medium.entry();
        self.enter_at(entry, direction, service, packet);
    }

    fn enter_at(&mut self, entry: Entry, direction: DirectionId, service: u8, packet: &Packet) {
        match entry {
            Entry::Fifo => self.compute(packet.hop, &mut { *packet }),
            Entry::Line(line) => self.enter_line(line, direction, service, packet),
            Entry::Shared => self.enter_air(direction, packet),
            Entry::Agent(seat) => self.send_past(seat, packet),
        }
    }

    /// A packet enters a computed direction now, and goes on as far as its fate can be computed: over
    /// directions that are chained to it, which no agent watches, and as the answer of an acceptor
    /// that only acknowledges. All of this is one function, which the compiler keeps tight.
    #[inline(never)]
    fn compute(&mut self, hop: u32, packet: &mut Packet) {
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
                record_fate(&mut self.probe, known, fifo, times, fate, packet);
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
            let due = Due::new(at, self.deadlines.ticket());
            if fifo.ring.is_empty() && !fifo.is_held_back {
                let machine = fifo.machine.expect("what arrives here must be handled");
                self.deadlines.put(machine, due);
            }
            let slot = fifo.ring.push_slot();
            slot.due = due;
            slot.item = Packet { hop: known.place, ..*packet };
            return;
        }
        unreachable!("a path ends where somebody waits")
    }

    /// The first packet on its way over a FIFO arrives.
    #[inline]
    fn on_arrival(&mut self, direction: DirectionId) {
        let Medium::Fifo(fifo) = &mut self.directions[direction.index()].medium else {
            unreachable!("lines and airs see to their own arrivals")
        };
        let mut packet = fifo.ring.front().expect("a packet that is due is on its way").item;
        fifo.ring.drop_front();
        let next = fifo.ring.front().map_or(Due::NEVER, |next| next.due);
        self.deadlines.put(fifo.machine.expect("its deadline has come"), next);
        self.forward(&mut packet);
    }

    /// A packet has crossed the direction of its hop and leaves its far end for wherever it goes
    /// next; what is left of it is of no use.
    #[inline(always)]
    pub(super) fn forward(&mut self, packet: &mut Packet) {
        self.pass_on(packet, false);
    }

    /// The same; a packet that an agent has let pass goes by it.
    #[inline(always)]
    pub(super) fn pass_on(&mut self, packet: &mut Packet, has_passed: bool) {
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
    fn deliver(&mut self, listener: Listener, packet: &mut Packet) {
        match listener {
            Listener::Tcp { connection, opener } => {
                self.deliver_segment(connection, opener, packet);
            }
            Listener::Acceptor { connection } | Listener::Sink { connection } => {
                self.deliver_to_acceptor(connection, packet);
            }
            Listener::Datagrams { flow } => self.receive_datagram(flow, self.now, packet),
        }
    }

    /// A segment is at an acceptor that only acknowledges.
    #[inline(never)]
    fn deliver_to_acceptor(&mut self, connection: ConnectionId, packet: &mut Packet) {
        if P::ACTIVE {
            return self.deliver_segment(connection, false, packet);
        }
        let pair = &mut self.connections[connection.index()];
        if packet.incarnation == pair.incarnation && pair.answer(self.now, packet) {
            self.send(packet);
        }
    }

    /// A segment is at one end of its connection.
    #[inline(never)]
    fn deliver_segment(&mut self, connection: ConnectionId, opener: bool, packet: &Packet) {
        let pair = &mut self.connections[connection.index()];
        if packet.incarnation != pair.incarnation {
            return;
        }
        if P::ACTIVE {
            record_received(&mut self.probe, connection, opener, self.now, &packet.tcp);
        }
        pair.ends[usize::from(!opener)].receive(self.now, &packet.tcp);
        if self.pump_in_place(connection, opener) {
            self.on_progress(connection, opener);
        }
    }

    fn on_tcp_timer(&mut self, connection: ConnectionId, opener: bool) {
        let [first, second] = &mut self.connections[connection.index()].ends;
        let (end, peer) = if opener { (first, second) } else { (second, first) };
        let before = end.counters().timeouts;
        end.handle_timeout(self.now);
        if end.counters().timeouts > before {
            end.judge_timeout(peer);
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
                Packet { hop, incarnation, bytes, tcp }
            } else {
                let mut tcp = TcpHeader::default();
                let Some(bytes) = pair.ends[end].poll_transmit(self.now, &mut tcp) else { break };
                Packet { hop, incarnation, bytes, tcp }
            };
            if P::ACTIVE {
                let TcpHeader { seq, payload, .. } = packet.tcp;
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
    pub(super) fn send_datagram(&mut self, flow: FlowId, packet: &Packet) {
        if P::ACTIVE {
            let (number, bytes) = (packet.datagram_number(), packet.bytes);
            self.probe.record(self.now, Event::DatagramSent { flow, number, bytes });
        }
        self.send(&mut { *packet });
    }

    /// A datagram is at its destination at `at`, which may lie ahead of the clock.
    #[inline]
    pub(super) fn receive_datagram(&mut self, flow: FlowId, at: Instant, packet: &Packet) {
        if P::ACTIVE {
            let number = packet.datagram_number();
            let delay = at.saturating_since(packet.datagram_sent_at());
            self.probe.record(at, Event::DatagramReceived { flow, number, delay });
        }
        self.flows[flow.index()].receive_datagram(self.now, at, packet);
    }
}

/// Tells of a segment that has reached one end of its connection at `at`.
fn record_received<P: Probe>(
    probe: &mut P,
    connection: ConnectionId,
    opener: bool,
    at: Instant,
    tcp: &TcpHeader,
) {
    let TcpHeader { seq, ack, payload, sack_blocks, .. } = *tcp;
    let (sequence, ack) = (u64::from(seq), u64::from(ack));
    probe.record(at, Event::SegmentReceived { connection, opener, sequence, ack, payload });
    for &(first, end) in &tcp.sack_blocks()[..usize::from(sack_blocks)] {
        probe.record(at, Event::SackReceived { connection, opener, first, end });
    }
}

/// Tells of a segment that has reached an acceptor that only acknowledges, and of its answer.
fn record_answer<P: Probe>(
    probe: &mut P,
    connection: ConnectionId,
    at: Instant,
    segment: &TcpHeader,
    answer: &Packet,
) {
    record_received(probe, connection, false, at, segment);
    let sequence = u64::from(answer.tcp.seq);
    probe.record(at, Event::SegmentSent { connection, opener: false, sequence, payload: 0 });
}

/// Tells which waiting packets a discipline has just dropped.
pub(super) fn record_dropped<P: Probe>(
    probe: &mut P,
    direction: DirectionId,
    now: Instant,
    queue: &Queue<Packet>,
) {
    for &packet in queue.dropped() {
        probe.record(now, Event::Dropped { direction, packet, turn: None });
    }
}

/// The TCP segment that a packet is.
pub(super) fn segment_label(listener: Listener, packet: &Packet) -> Option<SegmentLabel> {
    match listener {
        Listener::Tcp { connection, .. }
        | Listener::Acceptor { connection }
        | Listener::Sink { connection } => Some(SegmentLabel::new(connection, packet)),
        Listener::Datagrams { .. } => None,
    }
}

/// Tells what becomes of a packet that has entered a computed direction. `times`: of its arrival,
/// and when its transmission starts.
fn record_fate<P: Probe>(
    probe: &mut P,
    hop: &Hop,
    fifo: &mut Fifo,
    [at, start]: [Instant; 2],
    fate: Fate,
    packet: &Packet,
) {
    let Hop { direction, listener, .. } = *hop;
    let packet = *packet;
    let packets = fifo.queue.length(at);
    probe.record(at, Event::Queue { direction, packets, packet });
    let (label, bytes) = (None, packet.bytes + fifo.queue.header());
    let segment = segment_label(listener, &packet);
    let sent = |arrival| {
        let packet = Some(packet);
        Event::FrameSent { direction, label, segment, packet, bytes, start, arrival }
    };
    match fate {
        Fate::Dropped => {
            let turn = Some(start);
            probe.record(at, Event::Dropped { direction, packet, turn });
        }
        Fate::Lost { end } => probe.record(end, sent(None)),
        Fate::Sent { end } => {
            let at = fifo.queue.arrival(end);
            probe.record(end, sent(Some(at)));
            let delivered = Event::Delivered { direction, service: 0, by_timer: false, packet };
            probe.record(at, delivered);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_flag_is_looked_at_more_often_where_events_are_long() {
        for (stations, events) in
            [(0, 1024), (1, 1024), (256, 1024), (1_000, 512), (100_000, 2), (1 << 20, 1)]
        {
            assert_eq!(interrupt_mask(stations), events - 1, "{stations} stations");
        }
    }
}
