//! Flows: applications on top of connections.

use super::deadlines::MachineId;
use super::ids::{ConnectionId, DirectionId, FlowId, SourceId};
use super::probe::{Event, HostAction, Probe};
use super::world::{Connection, Progress, World};
use crate::app::{Action, DatagramSource, Source, StreamApplication, StreamMachine, Write};
use crate::transport::{
    Arrival, CarriesDatagrams, CarriesStreams, End, Observed, Transport, TransportEvent,
};
use lasthop_base::packet::{Descriptor, Extension, LAST_INCARNATION};
use lasthop_base::units::{Bytes, Instant};

/// The traffic of a flow.
#[derive(Clone, Debug)]
pub(super) enum App {
    /// Streams.
    Streams(Streams),
    /// Datagrams, one event each, at the deadlines of `machine`.
    Datagrams { source: SourceId, machine: MachineId, connection: ConnectionId },
    /// Datagrams that the queue of one direction replays.
    Background { direction: DirectionId, index: usize, packet: Bytes },
}

/// An application that writes streams.
#[derive(Clone, Debug)]
pub(super) struct Streams {
    pub application: StreamMachine,
    /// Its deadline, if it has timers.
    pub machine: Option<MachineId>,
    /// Streams by number.
    pub streams: Vec<Stream>,
    /// Whether the run is complete only when the application is.
    pub is_awaited: bool,
}

/// A stream and its mapping to connections.
#[derive(Clone, Copy, Debug)]
pub(super) struct Stream {
    /// The connections on which the opener and the acceptor write: a single one, or two one-way
    /// connections.
    pub connections: [ConnectionId; 2],
    /// Number of the stream among those that share the connection.
    pub number: u32,
    /// Number of bytes received by the peer when all data written by an end is delivered; `None`
    /// if it is delivered.
    pub due: [Option<u64>; 2],
    /// Whether the next message of an end starts a new instance of its connection.
    pub renews: [bool; 2],
}

impl Stream {
    /// Creates a stream over these connections.
    pub fn new(connections: [ConnectionId; 2]) -> Self {
        Stream { connections, number: 0, due: [None; 2], renews: [false; 2] }
    }

    /// Returns `true` if the stream uses two one-way connections.
    pub fn is_split(&self) -> bool {
        self.connections[0] != self.connections[1]
    }

    /// Returns the connection on which `writer` writes, and its end of it.
    fn place(&self, writer: End) -> (ConnectionId, End) {
        let end = if self.is_split() { End::Opener } else { writer };
        (self.connections[writer.index()], end)
    }
}

/// A source of datagrams, with all that most packets need, in two cache lines.
#[derive(Clone, Debug)]
#[repr(align(64))]
pub(super) struct Datagrams {
    pub source: Source,
    pub carrier: Carrier,
}

/// The transport of a source of datagrams.
#[derive(Clone, Copy, Debug)]
pub(super) enum Carrier {
    /// UDP without a probe. It sends a datagram immediately, in one packet, and delivers it
    /// immediately.
    Udp { first_hop: u32 },
    /// A connection of any transport.
    Connection(ConnectionId),
}

/// A flow of the scenario.
#[derive(Clone, Debug)]
pub(super) struct Flow {
    pub name: String,
    pub start: Instant,
    /// Time at which its application stops, if it does.
    pub stop: Option<Instant>,
    /// Bytes that it had delivered when it stopped; `None` before.
    pub delivered: Option<u64>,
    /// The service of the flow on links that have a service of this name.
    pub service: Option<String>,
    /// Place of the access category of its packets in WLANs that have several.
    pub category: u8,
    pub app: App,
}

impl<P: Probe, X: Extension> World<P, X> {
    /// Receives a packet at an acceptor that sends nothing. `at`, the time of arrival, may be later
    /// than the clock.
    #[inline(never)]
    pub(super) fn absorb(&mut self, connection: ConnectionId, at: Instant, packet: &Descriptor<X>) {
        if let Some(&Some(source)) = self.immediate.get(connection.index()) {
            let Datagrams { source, .. } = &mut self.sources[source.index()];
            return source.receive(self.now, packet.datagram_number(), at);
        }
        let transport = &mut self.connections[connection.index()].transport;
        transport.receive(at, End::Acceptor, packet);
        self.deliver_datagrams(connection, at);
    }

    /// Like [`Self::absorb`], for a packet with a damaged payload that arrives now.
    pub(super) fn absorb_damaged(&mut self, connection: ConnectionId, packet: &Descriptor<X>) {
        let transport = &mut self.connections[connection.index()].transport;
        transport.receive_damaged(self.now, End::Acceptor, packet);
        self.deliver_datagrams(connection, self.now);
    }

    /// Delivers the datagrams that arrive at `at` to the application.
    #[inline]
    fn deliver_datagrams(&mut self, connection: ConnectionId, at: Instant) {
        let Connection { transport, flow, .. } = &mut self.connections[connection.index()];
        while let Some(Arrival { number, sent_at }) = transport.read_datagram() {
            if P::ACTIVE {
                let delay = at.saturating_since(sent_at).as_secs_f64();
                let event = TransportEvent::numbered("datagram_received", number, delay);
                let end = End::Acceptor;
                self.probe.record(at, Event::Transport { connection, end, event });
            }
            if let App::Datagrams { source, .. } = self.flows[flow.index()].app {
                self.sources[source.index()].source.receive(self.now, number, at);
            }
        }
    }

    /// Starts and stops the flows whose time has been reached.
    pub(super) fn on_start(&mut self) {
        while let Some(&(at, is_stop, index)) = self.starts.last()
            && at <= self.now
        {
            self.starts.pop();
            if is_stop {
                self.stop(index);
                continue;
            }
            match &mut self.flows[index.index()].app {
                App::Streams(app) => {
                    app.application.start(self.now);
                    self.act(index);
                }
                App::Datagrams { source, machine, .. } => {
                    let at = self.sources[source.index()].source.next_at();
                    self.deadlines.put_first(*machine, at);
                }
                App::Background { .. } => {}
            }
        }
        self.schedule_start();
    }

    fn schedule_start(&mut self) {
        let machine = MachineId::new(self.machines.len() - 1);
        match self.starts.last() {
            Some(&(at, _, _)) => self.deadlines.set(machine, at),
            None => self.deadlines.forget(machine),
        }
    }

    /// Stops the application of a flow, unless it has finished.
    fn stop(&mut self, index: FlowId) {
        let flow = &mut self.flows[index.index()];
        match &mut flow.app {
            App::Streams(app) => {
                if app.application.is_complete() {
                    return;
                }
                let delivered = self.delivered(index);
                let flow = &mut self.flows[index.index()];
                flow.delivered = Some(delivered);
                let App::Streams(app) = &mut flow.app else { return };
                if std::mem::take(&mut app.is_awaited) {
                    self.unfinished -= 1;
                    (self.attention, self.wake) = (Instant::ZERO, Instant::ZERO);
                }
                if let Some(machine) = app.machine {
                    self.deadlines.set(machine, Instant::NEVER);
                }
                let streams: Vec<_> = app.streams.iter().map(|stream| stream.connections).collect();
                for connection in streams.into_iter().flatten() {
                    for end in End::BOTH {
                        self.connections[connection.index()].transport.stop(end);
                        self.pump(connection, end);
                    }
                }
            }
            App::Datagrams { source, machine, .. } => {
                let source = &self.sources[source.index()].source;
                flow.delivered = Some(source.delivered_bytes(self.now));
                self.deadlines.put_first(*machine, Instant::NEVER);
            }
            App::Background { .. } => {}
        }
    }

    /// Returns the number of bytes that the streams of a flow have delivered.
    pub(super) fn delivered(&self, index: FlowId) -> u64 {
        let App::Streams(app) = &self.flows[index.index()].app else { return 0 };
        let Streams { application, streams, .. } = app;
        // A proxy on the path acknowledges data before it arrives.
        let acknowledged = |stream: &Stream| {
            let (connection, end) = stream.place(End::Opener);
            let transport = &self.connections[connection.index()].transport;
            transport.acknowledged(end).min(transport.read(end.other()))
        };
        application.delivered_bytes(streams.iter().map(acknowledged).sum())
    }

    /// Sends the next datagram of a source.
    #[inline]
    pub(super) fn on_datagram(&mut self, machine: MachineId, source: SourceId) {
        let Datagrams { source, carrier } = &mut self.sources[source.index()];
        let datagram = source.send(self.now);
        // Datagrams precede other events at the same time, as in a replay.
        self.deadlines.put_first(machine, source.next_at());
        match *carrier {
            Carrier::Udp { first_hop } => {
                // It has no timers, and its connection only one instance.
                let (bytes, number) = (datagram.size.get() as u32, datagram.number);
                self.send(&mut Descriptor::datagram(first_hop, bytes, number, self.now));
            }
            Carrier::Connection(connection) => {
                self.connections[connection.index()].transport.send(self.now, datagram);
                self.pump(connection, End::Opener);
            }
        }
    }

    /// Handles a timer of an application, which may have expired.
    pub(super) fn on_application_timer(&mut self, index: FlowId) {
        let App::Streams(app) = &mut self.flows[index.index()].app else {
            unreachable!("only applications that write streams have this deadline")
        };
        app.application.handle_timeout(self.now);
        self.act(index);
        self.refill(index);
    }

    /// Handles the progress of a connection, after `end` received a packet. All data that one end
    /// of its stream has written may now be delivered.
    #[inline(always)]
    pub(super) fn on_progress(&mut self, connection: ConnectionId, end: End) {
        let Connection { transport, flow, slot, progress, .. } =
            &self.connections[connection.index()];
        if *progress == Progress::Followed {
            return self.on_followed(connection, end);
        }
        let known = &mut self.flows[flow.index()];
        let App::Streams(app) = &mut known.app else {
            return self.deliver_datagrams(connection, self.now);
        };
        let stream = &mut app.streams[*slot as usize];
        let (writer, is_delivered) = if *progress == Progress::Acknowledged {
            let is_first = connection == stream.connections[End::Opener.index()];
            let writer = if is_first { End::Opener } else { End::Acceptor };
            // A proxy on the path acknowledges data before it arrives.
            let has_arrived = transport.read(End::Acceptor) >= transport.acknowledged(End::Opener);
            (writer, has_arrived && transport.is_all_acknowledged(End::Opener))
        } else {
            let writer = end.other();
            let due = stream.due[writer.index()];
            (writer, due.is_some_and(|due| transport.read(end) >= due))
        };
        let has_ended = is_delivered && stream.due[writer.index()].take().is_some();
        if has_ended && known.delivered.is_none() {
            let (flow, slot) = (*flow, *slot);
            app.application.on_delivered(self.now, slot, writer);
            self.act(flow);
        }
    }

    /// Reports the progress of a connection in bytes, after `end` received a packet.
    #[inline(never)]
    fn on_followed(&mut self, connection: ConnectionId, end: End) {
        let Connection { transport, flow, slot, .. } = &mut self.connections[connection.index()];
        let (index, slot) = (*flow, *slot);
        let App::Streams(app) = &mut self.flows[index.index()].app else { return };
        let application = &mut app.application;
        if transport.features().is_multiplexed {
            while let Some((stream, received)) = transport.poll_received(end) {
                application.on_received(self.now, stream, end.other(), received);
            }
        } else {
            application.on_received(self.now, slot, end.other(), transport.read(end));
        }
        if end == End::Opener {
            application.on_waiting(self.now, slot, transport.waiting(end));
        }
        self.act(index);
        self.refill(index);
    }

    /// Lets a followed application write as much as its connections have room for.
    fn refill(&mut self, index: FlowId) {
        if self.flows[index.index()].delivered.is_some() {
            return;
        }
        loop {
            let App::Streams(app) = &mut self.flows[index.index()].app else { return };
            if !app.application.is_followed() {
                return;
            }
            let mut has_written = false;
            for (slot, stream) in app.streams.iter().enumerate() {
                let (connection, end) = stream.place(End::Acceptor);
                let transport = &self.connections[connection.index()].transport;
                if !transport.features().is_multiplexed {
                    let unsent = transport.unsent(end);
                    has_written |= app.application.on_unsent(slot as u32, unsent);
                }
            }
            if !has_written {
                return;
            }
            self.act(index);
        }
    }

    /// Handles the abort of a connection.
    #[cold]
    pub(super) fn on_failure(&mut self, connection: ConnectionId) {
        let Connection { flow, slot, .. } = self.connections[connection.index()];
        if let App::Streams(app) = &mut self.flows[flow.index()].app {
            app.application.on_failure(self.now, slot);
            self.act(flow);
        }
    }

    /// Executes the actions of the application of a flow.
    fn act(&mut self, index: FlowId) {
        if self.flows[index.index()].delivered.is_some() {
            return;
        }
        loop {
            let App::Streams(app) = &mut self.flows[index.index()].app else {
                unreachable!("only applications that write streams act")
            };
            match app.application.poll_action() {
                Some(Action::Write(write)) => self.write(index, write),
                Some(Action::Close { stream, end }) => {
                    let stream = app.streams[stream as usize];
                    let (connection, end) = stream.place(end);
                    if !stream.is_split() {
                        let transport = &mut self.connections[connection.index()].transport;
                        transport.close_stream(end, stream.number);
                        if P::ACTIVE {
                            self.record_host(connection, end, HostAction::Closed);
                        }
                        self.pump(connection, end);
                    }
                }
                None => break,
            }
        }
        let App::Streams(app) = &mut self.flows[index.index()].app else {
            unreachable!("only applications that write streams act")
        };
        if app.is_awaited && app.application.is_complete() {
            app.is_awaited = false;
            self.unfinished -= 1;
            (self.attention, self.wake) = (Instant::ZERO, Instant::ZERO);
        }
        if let Some(machine) = app.machine {
            self.deadlines.set(machine, app.application.next_timeout());
        }
    }

    /// Writes a message to a stream.
    fn write(&mut self, index: FlowId, write: Write) {
        let Write { stream, end: writer, bytes, opens, closes } = write;
        let App::Streams(app) = &mut self.flows[index.index()].app else {
            unreachable!("only applications that write streams write")
        };
        let urgency = app.application.urgency(stream);
        let stream = &mut app.streams[stream as usize];
        let number = stream.number;
        let (connection, end) = stream.place(writer);
        if opens {
            // A new instance of both one-way connections starts with the first message on each.
            stream.renews = [true; 2].map(|_| stream.is_split());
            stream.renews[writer.index()] = true;
            stream.due = [None; 2];
        }
        let renews = std::mem::take(&mut stream.renews[writer.index()]);
        let known = &mut self.connections[connection.index()];
        if renews {
            known.instance = (known.instance + 1) & LAST_INCARNATION;
            known.transport.open();
        }
        let before = stream.due[writer.index()];
        let before = before.unwrap_or_else(|| known.transport.read(end.other()));
        stream.due[writer.index()] = Some(before + bytes);
        known.transport.write_stream(end, number, urgency, bytes);
        let is_split = stream.is_split();
        if closes && !is_split {
            known.transport.close_stream(end, number);
        }
        if P::ACTIVE {
            if renews {
                for end in End::BOTH {
                    let clock = self.connections[connection.index()].transport.clock(end);
                    self.record_host(connection, end, HostAction::Opened { clock });
                }
            }
            self.record_host(connection, end, HostAction::Wrote(bytes));
            if closes && !is_split {
                self.record_host(connection, end, HostAction::Closed);
            }
        }
        self.pump(connection, end);
        if renews {
            self.pump(connection, end.other());
        }
    }
}
