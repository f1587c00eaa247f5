//! The world: hosts joined by links, connections between hosts, and the loop that runs them.

use super::agents::Seat;
use super::deadlines::Deadlines;
use super::direction::{Crossing, Direction, InFlight, Kind, Raw};
use super::hops::{Hop, Listener, Then};
use super::probe::{Event, FrameLabel, Probe, SegmentLabel};
use super::radio::{NO_RADIO, Radio};
use super::traffic::{App, Flow};
use super::wlan::Air;
use crate::link::Endpoint;
use crate::packet::{Packet, TcpHeader};
use crate::queue::{Fate, Queue};
use crate::rng::Stream;
use crate::tcp::{Config, Connection};
use crate::units::{Duration, Instant};
use std::sync::atomic::{AtomicBool, Ordering};

/// Events between two looks at the interrupt flag: milliseconds at most, though the frame of a radio
/// with a thousand stations is one event.
const INTERRUPT_EVENTS: u64 = 1 << 10;

/// Steps that are replayed between two looks at the interrupt flag, packets of background traffic
/// and changes of channels: some 10 ms.
const REPLAY_STEPS: f64 = 2e5;

/// Who is woken at a deadline.
#[derive(Clone, Copy, Debug)]
pub(super) enum Machine {
    /// The head of a direction's ring arrives.
    Arrival(u32),
    /// An ARQ direction's transmitter or timer.
    Transmit(u32),
    /// The timer of an ARQ direction of a radio.
    Station(u32),
    /// A radio's next frame, or what has come of an earlier one.
    Radio(u32),
    /// The air of a WLAN.
    Air(u32),
    /// A TCP end.
    Tcp { connection: u32, opener: bool },
    /// The next flow starts.
    Start,
    /// A source of datagrams.
    Datagrams(u32),
    /// An agent.
    Agent(u32),
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
    pub flow: u32,
    pub slot: u32,
    /// Deadlines of opener and acceptor.
    pub machines: [usize; 2],
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
    pub(super) deadlines: Deadlines,
    pub(super) machines: Vec<Machine>,
    pub(super) directions: Vec<Direction>,
    /// The hops of all paths, path by path.
    pub(super) hops: Vec<Hop>,
    pub(super) connections: Vec<Pair>,
    pub(super) flows: Vec<Flow>,
    pub(super) agents: Vec<Seat>,
    pub(super) radios: Vec<Radio>,
    pub(super) airs: Vec<Air>,
    /// Flows that have not started, latest first.
    pub(super) starts: Vec<u32>,
    /// Flows whose completion ends the run.
    pub(super) unfinished: u32,
    /// Background traffic and channels have been replayed until here at least, and are again after
    /// so much simulated time even if nobody looks at them: see [`REPLAY_STEPS`].
    pub(super) caught_up: Instant,
    pub(super) replay_slice: Duration,
    pub(super) probe: P,
    pub(super) events: u64,
}

/// Simulated time that is replayed between two looks at the interrupt flag where a second takes
/// `steps`.
pub(super) fn replay_slice(steps: f64) -> Duration {
    // From infinity, without steps, the conversion saturates.
    Duration::from_nanos((REPLAY_STEPS / steps * 1e9) as u64).max(Duration::from_nanos(1))
}

/// A host's clock is somewhere within its tick.
pub(super) fn boot_offset(stream: &mut Stream, config: &Config) -> Duration {
    let tick = config.clock_granularity.as_nanos();
    Duration::from_nanos((stream.uniform() * tick as f64) as u64)
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
        }
        let end = loop {
            if until_complete && self.unfinished == 0 {
                break End::Complete;
            }
            let (at, machine) = self.deadlines.first();
            if at > stop {
                self.now = stop;
                break End::Stopped;
            }
            debug_assert!(at >= self.now, "time runs backwards");
            if at.saturating_since(self.caught_up) > self.replay_slice
                && !self.catch_up(at, interrupt)
            {
                break End::Interrupted;
            }
            self.now = at;
            self.events += 1;
            if self.events.is_multiple_of(INTERRUPT_EVENTS) && interrupt.load(Ordering::Relaxed) {
                break End::Interrupted;
            }
            match self.machines[machine] {
                Machine::Arrival(direction) => self.on_arrival(direction),
                Machine::Transmit(direction) => self.on_transmit(direction),
                Machine::Station(direction) => self.on_station_timer(direction),
                Machine::Radio(radio) => self.on_radio(radio),
                Machine::Air(air) => self.on_air(air),
                Machine::Tcp { connection, opener } => self.on_tcp_timer(connection, opener),
                Machine::Start => self.on_start(),
                Machine::Datagrams(flow) => self.on_datagram(flow),
                Machine::Agent(seat) => self.on_agent_timer(seat),
            }
        };
        if end == End::Interrupted || !self.catch_up(self.now, interrupt) {
            End::Interrupted
        } else {
            end
        }
    }

    /// No file transfer can be complete sooner than the slowest link on its way has carried its
    /// bytes once.
    fn earliest_completion(&self) -> Instant {
        let completion = |flow: &Flow| {
            let App::File { connection, size, .. } = flow.app else { return Instant::ZERO };
            let mut hop = self.connections[connection as usize].first_hops[0] as usize;
            let fastest = |hop: usize| self.directions[self.hops[hop].direction as usize].fastest();
            let mut slowest = fastest(hop);
            while !matches!(self.hops[hop].then, Then::Arrive) {
                hop += 1;
                slowest = slowest.min(fastest(hop));
            }
            // The rate of a radio is rounded down.
            let rate = u128::from(slowest.as_bps()) + 1;
            let nanos = u128::from(size.get()) * 8 * 1_000_000_000 / rate;
            let nanos = u64::try_from(nanos).unwrap_or(u64::MAX);
            Instant::from_nanos(flow.start.as_nanos().saturating_add(nanos))
        };
        self.flows.iter().map(completion).max().unwrap_or_default()
    }

    /// Counters will not be asked for what they were before `horizon`.
    fn set_horizon(&mut self, horizon: Instant) {
        for direction in &mut self.directions {
            if let Kind::Raw(raw) = &mut direction.kind {
                raw.queue.set_horizon(horizon);
            }
        }
        for flow in &mut self.flows {
            if let App::Datagrams { arrivals, .. } = &mut flow.app {
                arrivals.set_horizon(horizon);
            }
        }
    }

    /// Replays background traffic and changes of channels up to and including `until`, before which
    /// nothing enters a direction any more; false if it was interrupted.
    #[cold]
    fn catch_up(&mut self, until: Instant, interrupt: &AtomicBool) -> bool {
        loop {
            let slice = self.replay_slice.as_nanos();
            let to = self.caught_up.as_nanos().saturating_add(slice);
            let to = Instant::from_nanos(to).min(until);
            for direction in &mut self.directions {
                direction.catch_up(to);
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
            let flow = &self.flows[pair.flow as usize];
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

    /// A packet enters the direction of its hop now.
    #[inline]
    pub(super) fn send(&mut self, packet: &Packet) {
        self.enter(packet.hop, self.now, packet, false);
    }

    /// A packet enters the direction of `hop` at `at`, which may lie ahead of the clock on a chained
    /// direction, and goes on as far as its fate can be computed. `hop` is where it stands, whatever
    /// the packet says. One that an agent has let pass, or sends itself, goes by the agent. The agent
    /// is looked for in here so that all of this is compiled once, into one function.
    pub(super) fn enter(
        &mut self,
        mut hop: u32,
        mut at: Instant,
        packet: &Packet,
        has_passed: bool,
    ) {
        loop {
            let Hop { direction, then, service, listener, .. } = self.hops[hop as usize];
            let this = &mut self.directions[direction as usize];
            if let Some(seat) = this.near_agent
                && !has_passed
            {
                debug_assert!(at == self.now, "nothing is computed past an agent");
                return self.send_past(seat, &Packet { hop, ..*packet });
            }
            let raw = match &mut this.kind {
                Kind::Raw(raw) => raw,
                Kind::Shared(_) => {
                    return self.enter_air(direction, at, &Packet { hop, ..*packet });
                }
                Kind::Arq(arq) => {
                    let packet = Packet { hop, ..*packet };
                    let admitted = arq.offer(at, service, &packet);
                    if P::ACTIVE {
                        let packets = arq.length(at);
                        self.probe.record(at, Event::Queue { direction, packets, packet });
                        record_dropped(&mut self.probe, direction, at, arq.interface.queue());
                        if !admitted {
                            let dropped = Event::Dropped { direction, packet, turn: None };
                            self.probe.record(at, dropped);
                        }
                    }
                    // Behind others, it changes nothing until the head of the queue moves.
                    if !arq.has_backlog() {
                        self.on_transmit(direction);
                    }
                    return;
                }
            };
            let start = if P::ACTIVE { raw.queue.next_start(at) } else { at };
            let fate = raw.queue.offer_at(self.now, at, packet.bytes);
            if P::ACTIVE {
                let packet = Packet { hop, ..*packet };
                let times = [at, start];
                record_fate(
                    &mut self.probe,
                    direction,
                    raw,
                    this.delay,
                    times,
                    fate,
                    &packet,
                    listener,
                );
            }
            let Fate::Sent { end } = fate else { return };
            at = end + this.delay;
            match (then, listener) {
                (Then::Chain, _) => {
                    hop += 1;
                    continue;
                }
                // Nobody acts on its arrival: its fate is all there is to know.
                (Then::Arrive, Listener::Datagrams { flow }) => {
                    return self.receive_datagram(flow, at, packet);
                }
                (Then::Arrive, Listener::Sink { connection }) => {
                    return self.acknowledge(connection, at, packet);
                }
                (Then::Forward, _) | (Then::Arrive, Listener::Tcp { .. }) => {}
            }
            let ticket = self.deadlines.ticket();
            if raw.ring.is_empty() {
                self.deadlines.set_with_ticket(this.machine, at, ticket);
            }
            raw.ring.push(InFlight { at, ticket, item: Packet { hop, ..*packet } });
            return;
        }
    }

    /// A packet reaches a [`Listener::Sink`] at `at`, ahead of the clock.
    fn acknowledge(&mut self, connection: u32, at: Instant, packet: &Packet) {
        let pair = &mut self.connections[connection as usize];
        let hop = pair.first_hops[1];
        pair.ends[1].receive(at, &packet.tcp);
        let mut ack = Packet { hop, incarnation: packet.incarnation, ..Packet::default() };
        let Some(bytes) = pair.ends[1].poll_transmit(at, &mut ack.tcp) else { return };
        ack.bytes = bytes;
        if P::ACTIVE {
            self.record_received(connection, false, at, &packet.tcp);
            let sequence = u64::from(ack.tcp.seq);
            let sent = Event::SegmentSent { connection, opener: false, sequence, payload: 0 };
            self.probe.record(at, sent);
        }
        self.enter(hop, at, &ack, false);
    }

    fn record_received(&mut self, connection: u32, opener: bool, at: Instant, tcp: &TcpHeader) {
        let TcpHeader { seq, ack, payload, sack_blocks, .. } = *tcp;
        let (sequence, ack) = (u64::from(seq), u64::from(ack));
        let event = Event::SegmentReceived { connection, opener, sequence, ack, payload };
        self.probe.record(at, event);
        for &(first, end) in &tcp.sack_blocks()[..usize::from(sack_blocks)] {
            let block = Event::SackReceived { connection, opener, first, end };
            self.probe.record(at, block);
        }
    }

    /// The head of a ring is due.
    #[inline]
    fn on_arrival(&mut self, direction: u32) {
        let Direction { kind, machine, .. } = &mut self.directions[direction as usize];
        let machine = *machine;
        match kind {
            Kind::Raw(raw) => {
                let Some(arrived) = raw.ring.pop() else { return };
                match raw.ring.front() {
                    Some(next) => self.deadlines.set_with_ticket(machine, next.at, next.ticket),
                    None => self.deadlines.set(machine, Instant::NEVER),
                }
                self.forward(&arrived.item);
            }
            Kind::Arq(arq) => {
                let Some(arrived) = arq.ring.pop() else { return };
                match arq.ring.front() {
                    Some(next) => self.deadlines.set_with_ticket(machine, next.at, next.ticket),
                    None => self.deadlines.set(machine, Instant::NEVER),
                }
                // The receiving endpoint is the one that transmits the other way.
                self.take_in(direction, &arrived.item);
                self.on_transmit(direction ^ 1);
            }
            Kind::Shared(_) => unreachable!("a direction of a WLAN has no arrivals"),
        }
    }

    /// A frame has come over an ARQ direction: the endpoint that transmits the other way gets it.
    #[inline]
    pub(super) fn take_in(&mut self, direction: u32, arrived: &Crossing) {
        self.receive_frame(direction, arrived);
        self.hand_up(direction);
    }

    /// The same, but what may go up does not yet.
    #[inline]
    pub(super) fn receive_frame(&mut self, direction: u32, arrived: &Crossing) {
        let back = direction ^ 1;
        let Crossing { frame, is_damaged } = arrived;
        if P::ACTIVE && !is_damaged {
            let label = FrameLabel::from(frame);
            self.probe.record(self.now, Event::FrameReceived { direction, label });
        }
        if let Kind::Arq(peer) = &mut self.directions[back as usize].kind {
            match is_damaged {
                false => peer.interface.endpoint.receive(self.now, *frame),
                true => peer.interface.endpoint.receive_damaged(self.now, *frame),
            }
        }
        if P::ACTIVE {
            self.record_link_events(back);
        }
    }

    /// What has come over a direction and may go up does.
    #[inline]
    pub(super) fn hand_up(&mut self, direction: u32) {
        while let Some(packet) = self.poll_deliver(direction ^ 1) {
            if P::ACTIVE {
                self.record_delivery(direction, &packet, false);
            }
            self.forward(&packet);
        }
    }

    /// A packet has crossed the direction of its hop and leaves its far end for wherever it goes
    /// next.
    #[inline]
    pub(super) fn forward(&mut self, packet: &Packet) {
        self.pass_on(packet, false);
    }

    /// The same; a packet that an agent has let pass goes by it.
    pub(super) fn pass_on(&mut self, packet: &Packet, has_passed: bool) {
        let Hop { direction, then, listener, .. } = self.hops[packet.hop as usize];
        if let Some(seat) = self.directions[direction as usize].far_agent
            && !has_passed
        {
            return self.forward_past(seat, packet);
        }
        match then {
            Then::Arrive => self.deliver(listener, packet),
            Then::Forward | Then::Chain => self.enter(packet.hop + 1, self.now, packet, false),
        }
    }

    /// The timer of an ARQ direction's endpoint is due: what it lets go up has come over the other
    /// direction. Returns the next deadline.
    #[cold]
    pub(super) fn on_link_timer(&mut self, direction: u32) -> Instant {
        let now = self.now;
        if let Kind::Arq(arq) = &mut self.directions[direction as usize].kind {
            arq.interface.endpoint.handle_timeout(now);
        }
        if P::ACTIVE {
            self.record_link_events(direction);
        }
        while let Some(packet) = self.poll_deliver(direction) {
            if P::ACTIVE {
                self.record_delivery(direction ^ 1, &packet, true);
            }
            self.forward(&packet);
        }
        match &self.directions[direction as usize].kind {
            Kind::Arq(arq) => arq.interface.endpoint.next_timeout(),
            Kind::Raw(_) | Kind::Shared(_) => Instant::NEVER,
        }
    }

    /// The next packet that the endpoint that transmits on `direction` lets go up.
    #[inline(always)]
    pub(super) fn poll_deliver(&mut self, direction: u32) -> Option<Packet> {
        match &mut self.directions[direction as usize].kind {
            Kind::Arq(arq) => arq.interface.endpoint.poll_deliver(),
            Kind::Raw(_) | Kind::Shared(_) => None,
        }
    }

    /// Tells that a packet that has crossed `direction` goes up.
    pub(super) fn record_delivery(&mut self, direction: u32, packet: &Packet, by_timer: bool) {
        let service = self.hops[packet.hop as usize].service;
        let delivered = Event::Delivered { direction, service, by_timer, packet: *packet };
        self.probe.record(self.now, delivered);
    }

    /// Tells the events of the endpoint that transmits on `direction` as they happen: otherwise
    /// they wait for its transmitter.
    pub(super) fn record_link_events(&mut self, direction: u32) {
        let Kind::Arq(arq) = &mut self.directions[direction as usize].kind else { return };
        while let Some((service, event)) = arq.poll_event() {
            self.probe.record(self.now, Event::Link { direction, service, event });
        }
    }

    /// An ARQ direction may have something to send, or its timer is due.
    pub(super) fn on_transmit(&mut self, direction: u32) {
        let now = self.now;
        if self.directions[direction as usize].radio != NO_RADIO {
            return self.wake_radio(direction);
        }
        let Kind::Arq(arq) = &self.directions[direction as usize].kind else { return };
        let mut timeout = arq.interface.endpoint.next_timeout();
        if timeout <= now {
            timeout = self.on_link_timer(direction);
        }
        let Direction { kind: Kind::Arq(arq), delay, machine, .. } =
            &mut self.directions[direction as usize]
        else {
            return;
        };
        let free_at = arq.free_at();
        if free_at > now {
            // When the frame on the air has left is soon enough to ask what comes next.
            self.deadlines.set(*machine + 1, timeout.min(free_at));
            return;
        }
        if let Some(sent) = arq.poll(now) {
            let at = sent.end + *delay;
            if P::ACTIVE {
                record_dropped(&mut self.probe, direction, now, arq.interface.queue());
                let event = Event::frame_sent(direction, &sent.frame, now, sent.is_lost, at);
                self.probe.record(sent.end, event);
                let packets = arq.length(now);
                self.probe.record(now, Event::QueueServed { direction, packets });
            }
            if arq.arrives(&sent) {
                let ticket = self.deadlines.ticket();
                if arq.ring.is_empty() {
                    self.deadlines.set_with_ticket(*machine, at, ticket);
                }
                let item = Crossing { frame: sent.frame, is_damaged: sent.is_lost };
                arq.ring.push(InFlight { at, ticket, item });
            }
        }
        self.deadlines.set(*machine + 1, arq.next_poll());
        if P::ACTIVE {
            self.record_link_events(direction);
        } else {
            arq.interface.endpoint.drop_events();
        }
    }

    /// A packet is at its destination.
    #[inline]
    fn deliver(&mut self, listener: Listener, packet: &Packet) {
        let (connection, opener) = match listener {
            Listener::Tcp { connection, opener } => (connection, opener),
            Listener::Sink { connection } => (connection, false),
            Listener::Datagrams { flow } => return self.receive_datagram(flow, self.now, packet),
        };
        if packet.incarnation != self.connections[connection as usize].incarnation {
            return;
        }
        if P::ACTIVE {
            self.record_received(connection, opener, self.now, &packet.tcp);
        }
        let pair = &mut self.connections[connection as usize];
        pair.ends[usize::from(!opener)].receive(self.now, &packet.tcp);
        self.pump(connection, opener);
        self.on_progress(connection, opener);
    }

    fn on_tcp_timer(&mut self, connection: u32, opener: bool) {
        let end = &mut self.connections[connection as usize].ends[usize::from(!opener)];
        let before = end.counters().timeouts;
        end.handle_timeout(self.now);
        if P::ACTIVE && end.counters().timeouts > before {
            self.probe.record(self.now, Event::Timeout { connection, opener });
        }
        self.pump(connection, opener);
    }

    /// Sends what a TCP end has to send, and notes its next deadline.
    #[inline]
    pub(super) fn pump(&mut self, connection: u32, opener: bool) {
        let end = usize::from(!opener);
        let pair = &self.connections[connection as usize];
        let hop = pair.first_hops[end];
        let mut packet = Packet { hop, incarnation: pair.incarnation, ..Packet::default() };
        loop {
            let pair = &mut self.connections[connection as usize];
            match pair.ends[end].poll_transmit(self.now, &mut packet.tcp) {
                Some(bytes) => packet.bytes = bytes,
                None => break,
            }
            if P::ACTIVE {
                let TcpHeader { seq, payload, .. } = packet.tcp;
                let sequence = u64::from(seq);
                let sent = Event::SegmentSent { connection, opener, sequence, payload };
                self.probe.record(self.now, sent);
            }
            self.send(&packet);
        }
        let pair = &self.connections[connection as usize];
        let machine = pair.machines[end];
        let end = &pair.ends[end];
        if P::ACTIVE {
            let cwnd = end.sender().congestion_window();
            let ssthresh = end.sender().slow_start_threshold();
            self.probe.record(self.now, Event::Window { connection, opener, cwnd, ssthresh });
        }
        self.deadlines.set(machine, end.next_timeout());
    }

    /// Sends a datagram of a flow.
    pub(super) fn send_datagram(&mut self, flow: u32, packet: &Packet) {
        if P::ACTIVE {
            let (number, bytes) = (packet.datagram_number(), packet.bytes);
            self.probe.record(self.now, Event::DatagramSent { flow, number, bytes });
        }
        self.send(packet);
    }

    /// A datagram is at its destination at `at`, which may lie ahead of the clock.
    #[inline]
    fn receive_datagram(&mut self, flow: u32, at: Instant, packet: &Packet) {
        if P::ACTIVE {
            let number = packet.datagram_number();
            let delay = at.saturating_since(packet.datagram_sent_at());
            self.probe.record(at, Event::DatagramReceived { flow, number, delay });
        }
        self.flows[flow as usize].receive_datagram(self.now, at, packet);
    }
}

/// Tells which waiting packets a discipline has just dropped.
fn record_dropped<P: Probe>(probe: &mut P, direction: u32, now: Instant, queue: &Queue<Packet>) {
    for &packet in queue.dropped() {
        probe.record(now, Event::Dropped { direction, packet, turn: None });
    }
}

/// The TCP segment that a packet is.
pub(super) fn segment_label(listener: Listener, packet: &Packet) -> Option<SegmentLabel> {
    match listener {
        Listener::Tcp { connection, .. } | Listener::Sink { connection } => {
            Some(SegmentLabel::new(connection, packet))
        }
        Listener::Datagrams { .. } => None,
    }
}

/// Tells what becomes of a packet that has entered a computed direction. `times`: of its arrival,
/// and when its transmission starts.
#[expect(clippy::too_many_arguments, reason = "what a computed direction knows")]
fn record_fate<P: Probe>(
    probe: &mut P,
    direction: u32,
    raw: &Raw,
    delay: Duration,
    [at, start]: [Instant; 2],
    fate: Fate,
    packet: &Packet,
    listener: Listener,
) {
    let packet = *packet;
    let packets = raw.queue.length(at);
    probe.record(at, Event::Queue { direction, packets, packet });
    let (label, bytes) = (None, packet.bytes + raw.queue.header());
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
            let at = end + delay;
            probe.record(end, sent(Some(at)));
            let delivered = Event::Delivered { direction, service: 0, by_timer: false, packet };
            probe.record(at, delivered);
        }
    }
}
