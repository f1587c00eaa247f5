//! Assembling a [`World`](super::world::World): first links, then flows, then [`Builder::build`].

mod finish;
mod routes;

use super::agents::Seat;
use super::deadlines::MachineId;
use super::direction::{Direction, DirectionParameters, Fifo, Medium};
use super::hops::Listener;
use super::ids::{AirId, ConnectionId, DirectionId, FlowId, LineId, PathId, RadioId, SeatId};
use super::line::Line;
use super::radio::{Radio, RadioParameters, Station};
use super::traffic::{App, Datagrams, Flow, Stream, Streams};
use super::wlan::{Air, Shared};
use super::world::Connection;
use crate::agent::{Agent, AgentMachine, ControlledPackets};
use crate::app::{AppMachine, DatagramSource, Source, StreamApplication, StreamMachine};
use crate::transport::{End, Reaction, Transport, TransportMachine};
use lasthop_base::packet::{Descriptor, Extension, TcpOptions};
use lasthop_base::rng;
use lasthop_base::units::{Instant, Rate};
use lasthop_link::link::{Endpoint, LinkEndpoint};
use lasthop_link::queue::{OnOff, Queue};
use lasthop_wlan::dcf::{self, MacParameters, StationId, Waiting};

/// A way through the network, fixed for the run: the range of its hops among all, at least one.
#[derive(Clone, Copy, Debug)]
struct Path {
    first: u32,
    last: u32,
    listener: Listener,
}

/// The directions of a path and of the way back.
#[derive(Clone, Copy, Debug)]
pub struct RoundTrip<'a> {
    /// From the near end to the far end.
    pub there: &'a [DirectionId],
    /// Back.
    pub back: &'a [DirectionId],
}

/// Builds a connection whose hosts' clocks have phases from the given random numbers.
pub type Connect<'a> = &'a dyn Fn(rng::Stream) -> TransportMachine;

/// Whether the acceptor sends nothing.
fn is_absorbed(transport: &TransportMachine) -> bool {
    transport.reaction(End::Acceptor) == Reaction::Absorbs
}

/// A world in the making. Links are numbered in the order in which they are added; paths are lists
/// of their directions, in order. Packets are descriptors with the extension `X`.
pub struct Builder<X: Extension = TcpOptions> {
    streams: rng::Streams,
    directions: Vec<Direction<X>>,
    lines: Vec<Line<X>>,
    connections: Vec<Connection>,
    /// The directions of all paths, path by path.
    hops: Vec<DirectionId>,
    paths: Vec<Path>,
    /// Paths of each connection's opener and acceptor.
    connection_paths: Vec<[PathId; 2]>,
    flows: Vec<Flow>,
    agents: Vec<Seat<X>>,
    radios: Vec<Radio>,
    airs: Vec<Air<X>>,
    unfinished: u32,
}

impl Builder {
    /// Nothing yet; all random numbers will come from `streams`, and packets may have any options.
    pub fn new(streams: rng::Streams) -> Self {
        Builder::carrying(streams)
    }
}

impl<X: Extension> Builder<X> {
    /// The same, for packets with this extension: `()` where no segment has options.
    pub fn carrying(streams: rng::Streams) -> Self {
        Builder {
            streams,
            directions: Vec::new(),
            lines: Vec::new(),
            connections: Vec::new(),
            hops: Vec::new(),
            paths: Vec::new(),
            connection_paths: Vec::new(),
            flows: Vec::new(),
            agents: Vec::new(),
            radios: Vec::new(),
            airs: Vec::new(),
            unfinished: 0,
        }
    }

    /// A link without protocol.
    pub fn raw_link(&mut self, forward: DirectionParameters<X>, reverse: DirectionParameters<X>) {
        for parameters in [forward, reverse] {
            self.directions.push(Direction::new(Medium::Fifo(Fifo::new(parameters))));
        }
    }

    /// A link with an endpoint at each end; `forward` transmits on the forward direction.
    pub fn arq_link(
        &mut self,
        forward: (DirectionParameters<X>, LinkEndpoint<Descriptor<X>>),
        reverse: (DirectionParameters<X>, LinkEndpoint<Descriptor<X>>),
    ) {
        self.line(forward, reverse);
    }

    fn line(
        &mut self,
        forward: (DirectionParameters<X>, LinkEndpoint<Descriptor<X>>),
        reverse: (DirectionParameters<X>, LinkEndpoint<Descriptor<X>>),
    ) -> LineId {
        let id = LineId::new(self.lines.len());
        let link = self.directions.len() / 2;
        self.directions.extend([(); 2].map(|()| Direction::new(Medium::Line(id))));
        self.lines.push(Line::new(link, [forward, reverse]));
        id
    }

    /// A radio without stations.
    pub fn radio(&mut self, parameters: RadioParameters) -> RadioId {
        self.radios.push(Radio::new(parameters));
        RadioId::new(self.radios.len() - 1)
    }

    /// A station of a radio: a link, with an endpoint at each end, whose forward direction leads to
    /// the base. Its rates count for metrics only, its delays not at all.
    pub fn radio_link(
        &mut self,
        radio: RadioId,
        forward: (DirectionParameters<X>, LinkEndpoint<Descriptor<X>>),
        reverse: (DirectionParameters<X>, LinkEndpoint<Descriptor<X>>),
    ) {
        let line = self.line(forward, reverse);
        let number = self.radios[radio.index()].add_station(line);
        self.lines[line.index()].join(Station { radio, number });
    }

    /// An air without stations.
    pub fn air(&mut self, medium: dcf::Medium<Descriptor<X>>) -> AirId {
        let machine = MachineId::default();
        self.airs.push(Air {
            medium,
            machine,
            directions: Vec::new(),
            has_watchers: false,
            wlans: Vec::new(),
        });
        AirId::new(self.airs.len() - 1)
    }

    /// A WLAN on an air: names it for what is reported of the links that are added next.
    pub fn wlan(&mut self, air: AirId, name: &str) {
        self.airs[air.index()].wlans.push((name.to_owned(), Vec::new()));
    }

    /// A station at `host` of the WLAN `wlan` on an air.
    pub fn wlan_station(
        &mut self,
        air: AirId,
        [wlan, host]: [&str; 2],
        parameters: MacParameters,
        queue: Queue<Waiting<Descriptor<X>>>,
        away: Option<[Instant; 2]>,
    ) -> StationId {
        let backoff = self.streams.stream(&format!("wlan.{wlan}.{host}"), "back-off");
        let medium = &mut self.airs[air.index()].medium;
        let station = medium.add_station(parameters, queue, backoff);
        medium.set_away(station, away.as_slice());
        station
    }

    /// Gives the stations of an air their places, in the order in which they were added.
    pub fn place(
        &mut self,
        air: AirId,
        propagation: &dcf::Propagation,
        positions: &[dcf::Position],
    ) {
        self.airs[air.index()].medium.place(propagation, positions);
    }

    /// The link of a station of a WLAN, which is number `wlan` on its air: `ends` are the station and the
    /// access point, forward leads to the latter. `control`: rate of control frames; `is_shared`: the
    /// error process of the forward direction serves both.
    pub fn wlan_link(
        &mut self,
        (air, wlan): (AirId, usize),
        ends: [StationId; 2],
        control: Rate,
        [forward, reverse]: [DirectionParameters<X>; 2],
        is_shared: bool,
    ) {
        let this = &mut self.airs[air.index()];
        let [up, down] = [forward.transmitter.rate(), reverse.transmitter.rate()];
        let there = this.medium.add_pair(ends, [up, control], forward.channel);
        let back = if is_shared {
            this.medium.add_back_pair(there, [down, control])
        } else {
            this.medium.add_pair([ends[1], ends[0]], [down, control], reverse.channel)
        };
        for (pair, rate) in [(there, up), (back, down)] {
            debug_assert_eq!(pair.index(), this.directions.len(), "a direction a pair");
            this.directions.push(DirectionId::new(self.directions.len()));
            this.wlans[wlan].1.push(pair);
            self.directions.push(Direction::new(Medium::Shared(Shared { air, pair, rate })));
        }
    }

    /// Names the services of the link that was added last, in their order.
    ///
    /// # Panics
    /// If that link has no protocol.
    pub fn name_services(&mut self, names: &[&str]) {
        let line = self.lines.last_mut().expect("a link with a protocol has been added");
        for end in line.ends_mut() {
            debug_assert_eq!(end.air.services.names.len(), names.len(), "one name a service");
            end.air.services.names = names.iter().map(|&name| name.to_owned()).collect();
        }
    }

    /// Names the stacked layers of the link that was added last, the uppermost first.
    ///
    /// # Panics
    /// If that link has no protocol.
    pub fn name_layers(&mut self, names: &[String]) {
        let line = self.lines.last_mut().expect("a link with a protocol has been added");
        line.ends_mut().iter_mut().for_each(|end| end.layers = names.to_vec());
    }

    /// Gives the flow that was added last the service of this name, on every link that has it; on
    /// the others, as without a name, it has the first.
    pub fn choose_service(&mut self, name: &str) {
        if let Some(flow) = self.flows.last_mut() {
            flow.service = Some(name.to_owned());
        }
    }

    /// A connection of the flow that is added next, for its stream `slot`: the opener's packets take the directions of `there`,
    /// the acceptor's the directions of `back`.
    fn connection(
        &mut self,
        transport: TransportMachine,
        [there, back]: [&[DirectionId]; 2],
        slot: u32,
        is_opened_by_source: bool,
    ) -> ConnectionId {
        let connection = ConnectionId::new(self.connections.len());
        let flow = FlowId::new(self.flows.len());
        let listener = |end| match transport.reaction(end) {
            Reaction::Acts => Listener::Acting { connection, end },
            Reaction::Answers => Listener::Answering { connection },
            Reaction::Absorbs => Listener::Absorbing { connection },
        };
        let first = self.path(there, listener(End::Acceptor));
        let second = match transport.reaction(End::Acceptor) {
            // It sends nothing.
            Reaction::Absorbs => first,
            Reaction::Acts | Reaction::Answers => self.path(back, listener(End::Opener)),
        };
        let paths = [first, second];
        let known = self.connections.iter();
        let alike = |one: &&Connection| is_absorbed(&one.transport) == is_absorbed(&transport);
        let ordinal = known.filter(alike).count() as u32;
        self.connection_paths.push(paths);
        self.connections.push(Connection {
            transport,
            first_hops: paths.map(|path| self.paths[path.index()].first),
            instance: 0,
            is_opened_by_source,
            flow,
            slot,
            ordinal,
            waits_for_acks: false,
            machines: [None; 2],
        });
        connection
    }

    fn path(&mut self, directions: &[DirectionId], listener: Listener) -> PathId {
        assert!(!directions.is_empty(), "a path has a hop");
        let first = self.hops.len() as u32;
        self.hops.extend_from_slice(directions);
        self.paths.push(Path { first, last: self.hops.len() as u32 - 1, listener });
        PathId::new(self.paths.len() - 1)
    }

    /// The directions of a path.
    fn directions_of(&self, path: &Path) -> &[DirectionId] {
        &self.hops[path.first as usize..=path.last as usize]
    }

    /// A flow over connections that `connect` makes: `path.there` leads from its source to its destination.
    pub fn flow(
        &mut self,
        name: &str,
        start: Instant,
        connect: Connect<'_>,
        path: RoundTrip,
        machine: AppMachine,
    ) {
        let app = match machine {
            AppMachine::Streams { machine, sends_back, ends } => {
                self.streams(name, connect, path, machine, [sends_back, ends])
            }
            AppMachine::Datagrams(source) => self.datagrams(name, connect, path.there, source),
        };
        let (name, service) = (name.to_owned(), None);
        self.flows.push(Flow { name, start, service, app });
    }

    /// The streams of the flow that is added next. If both hosts send, its destination opens them. If it ends, the run is not
    /// over before.
    fn streams(
        &mut self,
        name: &str,
        connect: Connect<'_>,
        path: RoundTrip,
        application: StreamMachine,
        [sends_back, ends]: [bool; 2],
    ) -> App {
        let (streams, component) = (self.streams, format!("flow.{name}"));
        let transport = |stream, writer| {
            connect(streams.stream(&component, &application.clock(stream, writer)))
        };
        let ways = [path.there, path.back];
        let [there, back] = if sends_back { [ways[1], ways[0]] } else { ways };
        let numbers = 0..application.streams();
        let streams = numbers.map(|number| {
            let first = transport(number, End::Opener);
            let is_split = sends_back && first.is_simplex();
            let first = self.connection(first, [there, back], number, !sends_back);
            let second = match is_split {
                true => {
                    let second = transport(number, End::Acceptor);
                    self.connection(second, [back, there], number, sends_back)
                }
                false => first,
            };
            Stream::new([first, second])
        });
        let streams = streams.collect();
        self.unfinished += u32::from(ends);
        App::Streams(Box::new(Streams { application, machine: None, streams, is_awaited: ends }))
    }

    /// A source of datagrams, replayed by the queue of its only link, if it may be, has just one and that
    /// is raw; the results are the same.
    fn datagrams(
        &mut self,
        name: &str,
        connect: Connect<'_>,
        path: &[DirectionId],
        source: Source,
    ) -> App {
        let replayed = match (source.replayable(), path) {
            (Some(departures), &[direction]) => self.background(direction, departures),
            _ => None,
        };
        replayed.unwrap_or_else(|| {
            let clock = self.streams.stream(&format!("flow.{name}"), "boot time");
            let connection = self.connection(connect(clock), [path, &[]], 0, true);
            let machine = MachineId::default();
            App::Datagrams(Box::new(Datagrams { source, machine, connection }))
        })
    }

    /// Lets the queue of `direction` replay `source`, unless that is driven by a protocol.
    fn background(&mut self, direction: DirectionId, source: &OnOff) -> Option<App> {
        let fifo = match &mut self.directions[direction.index()].medium {
            Medium::Fifo(fifo) => fifo,
            Medium::Line(_) | Medium::Shared(_) => return None,
        };
        let index = fifo.queue.add_background(source.clone());
        Some(App::Background { direction, index, packet: source.packet() })
    }

    /// The connection of each path as an agent numbers it, and how many numbers there are. `groups`:
    /// the connections of flows with equal numbers share one state (as those between a pair of hosts
    /// in ns-2); without it, each connection has its own.
    pub fn agent_connections(&self, groups: Option<&[u32]>) -> (Vec<Option<u32>>, usize) {
        let connection = |path: &Path| {
            let Connection { transport, flow, ordinal, .. } =
                &self.connections[path.listener.connection().index()];
            let number = || groups.map_or(*ordinal, |groups| groups[flow.index()]);
            transport.is_inspectable().then(number)
        };
        let connections: Vec<_> = self.paths.iter().map(connection).collect();
        let count = connections.iter().flatten().max().map_or(0, |&last| last as usize + 1);
        (connections, count)
    }

    /// The flow of each connection that goes on at the host where `direction` begins, by the numbers of `connections`, which
    /// those that end there lose.
    pub fn passing(
        &self,
        direction: DirectionId,
        connections: &mut [Option<u32>],
        count: usize,
    ) -> Vec<Option<FlowId>> {
        let passes = |path: PathId| {
            let Path { first, last, .. } = self.paths[path.index()];
            (first..=last).any(|hop| {
                let crossed = self.hops[hop as usize];
                crossed == direction && hop != first
                    || crossed == direction.opposite() && hop != last
            })
        };
        let mut flows = vec![None; count];
        for (known, paths) in self.connections.iter().zip(&self.connection_paths) {
            let is_passing = paths.iter().all(|&path| passes(path));
            for path in paths {
                let number = &mut connections[path.index()];
                match *number {
                    Some(number) if is_passing => flows[number as usize] = Some(known.flow),
                    _ => *number = None,
                }
            }
        }
        flows
    }

    /// Puts an agent where `direction` begins, above those that sit there already; call it when all
    /// flows are there. `name` is its in results; `connections`: see [`Self::agent_connections`]; `controlled`: the senders
    /// whose losses it is given, those whose data begin or end their way on that direction.
    pub fn agent(
        &mut self,
        direction: DirectionId,
        name: String,
        agent: AgentMachine<Descriptor<X>>,
        connections: Vec<Option<u32>>,
        controlled: Option<ControlledPackets>,
    ) {
        let hears_of = |path: PathId| {
            let Path { first, last, .. } = self.paths[path.index()];
            let hop = match controlled {
                None => return false,
                Some(ControlledPackets::Outgoing) => first,
                Some(ControlledPackets::Incoming) => last,
            };
            self.hops[hop as usize] == direction
        };
        let all = self.connection_paths.iter().enumerate();
        let senders = all
            .flat_map(|(connection, paths)| {
                let connection = ConnectionId::new(connection);
                End::BOTH.map(|end| (connection, end, hears_of(paths[end.index()])))
            })
            .filter_map(|(connection, end, controlled)| controlled.then_some((connection, end)))
            .collect();
        if let Some(limit) = agent.transmission_limit()
            && let Medium::Line(line) = self.directions[direction.index()].medium
        {
            let end = self.lines[line.index()].end_mut(direction.side());
            end.interface.endpoint.limit_transmissions(Some(limit));
        }
        if agent.wants_link_reports() {
            match self.directions[direction.index()].medium {
                Medium::Shared(Shared { air, .. }) => {
                    let air = &mut self.airs[air.index()];
                    air.has_watchers = true;
                    air.medium.keep_outcomes();
                }
                Medium::Line(line) => self.lines[line.index()].watch(direction.side()),
                Medium::Fifo(_) => unreachable!("it is refused on links that learn nothing"),
            }
        }
        let seat = SeatId::new(self.agents.len());
        let below = self.directions[direction.index()].near_agent.replace(seat);
        if agent.inspects_received() {
            let far = &mut self.directions[direction.opposite().index()].far_agent;
            // On the way up the lowest of those that look that way comes first.
            match *far {
                None => *far = Some(seat),
                Some(lowest) => {
                    let mut last = lowest;
                    while let Some(above) = self.agents[last.index()].above {
                        last = above;
                    }
                    self.agents[last.index()].above = Some(seat);
                }
            }
        }
        let machine = MachineId::default();
        self.agents.push(Seat {
            agent,
            name,
            direction,
            machine,
            below,
            above: None,
            connections,
            senders,
        });
    }
}
