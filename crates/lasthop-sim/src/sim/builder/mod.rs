//! Construction of a [`World`](super::world::World): first links, then flows, then
//! [`Builder::build`].

mod finish;
mod routes;

use super::agents::Seat;
use super::deadlines::MachineId;
use super::direction::{Direction, DirectionParameters, Fifo, Medium};
use super::hops::Listener;
use super::ids::{
    AirId, ConnectionId, DirectionId, FlowId, LineId, PathId, RadioId, SeatId, SourceId,
};
use super::line::Line;
use super::radio::{Radio, RadioParameters, Station};
use super::traffic::{App, Carrier, Datagrams, Flow, Stream, Streams};
use super::wlan::{Air, Shared, WlanMedium, WlanPlace};
use super::world::{Connection, Progress};
use crate::agent::{Agent, AgentMachine, ControlledPackets};
use crate::app::{AppMachine, DatagramSource, Source, StreamApplication, StreamMachine};
use crate::transport::{End, Reaction, Transport, TransportMachine};
use lasthop_base::packet::{Descriptor, Extension, TcpOptions};
use lasthop_base::rng;
use lasthop_base::units::{Instant, Rate};
use lasthop_link::link::{Abilities, LinkEndpoint};
use lasthop_link::queue::OnOff;

/// A route through the network, fixed for the run: its range in the table of all hops, at least
/// one.
#[derive(Clone, Copy, Debug)]
struct Path {
    first: u32,
    last: u32,
    listener: Listener,
}

/// The directions of a path and of the reverse path.
#[derive(Clone, Copy, Debug)]
pub struct RoundTrip<'a> {
    /// From the near end to the far end.
    pub there: &'a [DirectionId],
    /// From the far end to the near end.
    pub back: &'a [DirectionId],
}

/// Creates a connection. Its argument is the random number stream for the phases of the hosts'
/// clocks.
pub type Connect<'a> = &'a dyn Fn(rng::Stream) -> TransportMachine;

/// Whether the acceptor sends nothing.
fn is_absorbed(transport: &TransportMachine) -> bool {
    transport.features().acceptor == Reaction::Absorbs
}

/// A world under construction. Links are numbered in the order in which they are added. Paths are
/// lists of their directions, in order. Packets are descriptors with the extension `X`.
pub struct Builder<X: Extension = TcpOptions> {
    streams: rng::Streams,
    directions: Vec<Direction<X>>,
    lines: Vec<Line<X>>,
    connections: Vec<Connection>,
    /// The directions of all paths, one path after the other.
    hops: Vec<DirectionId>,
    paths: Vec<Path>,
    /// Paths of each connection's opener and acceptor.
    connection_paths: Vec<[PathId; 2]>,
    /// Number of connections whose acceptor sends packets, and of those whose acceptor does not.
    alike: [u32; 2],
    flows: Vec<Flow>,
    sources: Vec<Datagrams>,
    agents: Vec<Seat<X>>,
    radios: Vec<Radio>,
    airs: Vec<Air<X>>,
    unfinished: u32,
}

impl Builder {
    /// Creates a builder without links or flows. All random numbers are sampled from `streams`;
    /// packets may have any TCP options.
    pub fn new(streams: rng::Streams) -> Self {
        Builder::carrying(streams)
    }
}

impl<X: Extension> Builder<X> {
    /// Like [`Builder::new`], for packets with the extension `X`: `()` if no segment has options.
    pub fn carrying(streams: rng::Streams) -> Self {
        Builder {
            streams,
            directions: Vec::new(),
            lines: Vec::new(),
            connections: Vec::new(),
            hops: Vec::new(),
            paths: Vec::new(),
            connection_paths: Vec::new(),
            alike: [0; 2],
            flows: Vec::new(),
            sources: Vec::new(),
            agents: Vec::new(),
            radios: Vec::new(),
            airs: Vec::new(),
            unfinished: 0,
        }
    }

    /// Reserves memory for additional links, of which `lines` have a protocol, and for flows with a
    /// connection each, whose paths have `hops` directions in total.
    pub fn reserve(&mut self, links: usize, lines: usize, flows: usize, hops: usize) {
        self.directions.reserve(2 * links);
        self.lines.reserve(lines);
        self.flows.reserve(flows);
        self.connections.reserve(flows);
        self.connection_paths.reserve(flows);
        self.paths.reserve(2 * flows);
        self.hops.reserve(hops);
    }

    /// Adds a link without a protocol.
    pub fn raw_link(&mut self, forward: DirectionParameters<X>, reverse: DirectionParameters<X>) {
        for parameters in [forward, reverse] {
            self.directions.push(Direction::new(Medium::Fifo(Box::new(Fifo::new(parameters)))));
        }
    }

    /// Adds a link with an endpoint at each end; `forward` transmits on the forward direction.
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

    /// Adds a radio without stations.
    pub fn radio(&mut self, parameters: RadioParameters) -> RadioId {
        self.radios.push(Radio::new(parameters));
        RadioId::new(self.radios.len() - 1)
    }

    /// Adds a station of a radio: a link with an endpoint at each end, whose forward direction
    /// leads to the base. Its rates are used for metrics only; its delays are ignored.
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

    /// Adds the medium of WLANs. Metrics of their links are reported under their names.
    pub fn air(&mut self, WlanMedium { medium, names }: WlanMedium<Descriptor<X>>) -> AirId {
        self.airs.push(Air {
            medium,
            machine: MachineId::default(),
            directions: Vec::new(),
            wlans: names.into_iter().map(|name| (name, Vec::new())).collect(),
        });
        AirId::new(self.airs.len() - 1)
    }

    /// Adds the link between a station and its access point. The forward direction leads to the access point.
    /// `rates`: the rates of both directions. Links are added in the order of their directions on the medium.
    pub fn wlan_link(&mut self, air: AirId, place: &WlanPlace, rates: [Rate; 2]) {
        let this = &mut self.airs[air.index()];
        let first = self.directions.len();
        for (side, rate) in rates.into_iter().enumerate() {
            let mut shared = Shared::new(air, place.pairs[0][side], rate);
            place.pairs[1..].iter().for_each(|pair| shared.add(pair[side]));
            self.directions.push(Direction::new(Medium::Shared(shared)));
        }
        for &category in &place.pairs {
            for (side, pair) in category.into_iter().enumerate() {
                debug_assert_eq!(pair.index(), this.directions.len(), "pairs in order");
                this.directions.push(DirectionId::new(first + side));
                this.wlans[place.wlan].1.push(pair);
            }
        }
    }

    /// Assigns the flow that was added last to an access category, by its place, in WLANs that have several.
    pub fn choose_category(&mut self, place: u8) {
        if let Some(flow) = self.flows.last_mut() {
            flow.category = place;
        }
    }

    /// Names the services of the link that was added last, in order.
    ///
    /// # Panics
    /// If that link has no protocol.
    pub fn name_services(&mut self, names: &[&str]) {
        let line = self.lines.last_mut().expect("a link with a protocol has been added");
        for end in line.ends_mut() {
            debug_assert_eq!(end.air.services.names.len(), names.len(), "one name per service");
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

    /// Assigns the named service to the flow that was added last, on every link with a service of
    /// this name. On other links, and without a name, the flow has the first service.
    pub fn choose_service(&mut self, name: &str) {
        if let Some(flow) = self.flows.last_mut() {
            flow.service = Some(name.to_owned());
        }
    }

    /// Adds a connection for stream `slot` of the flow that is added next. The opener's packets use
    /// the directions of `there`, the acceptor's the directions of `back`.
    fn connection(
        &mut self,
        transport: TransportMachine,
        [there, back]: [&[DirectionId]; 2],
        slot: u32,
        is_opened_by_source: bool,
    ) -> ConnectionId {
        let connection = ConnectionId::new(self.connections.len());
        let flow = FlowId::new(self.flows.len());
        let features = transport.features();
        let listener = |end| match features.reaction(end) {
            Reaction::Acts => Listener::Acting { connection, end },
            Reaction::Answers => Listener::Answering { connection },
            Reaction::Absorbs => Listener::Absorbing { connection },
        };
        let first = self.path(there, listener(End::Acceptor));
        let second = match features.acceptor {
            // It sends nothing.
            Reaction::Absorbs => first,
            Reaction::Acts | Reaction::Answers => self.path(back, listener(End::Opener)),
        };
        let paths = [first, second];
        let alike = &mut self.alike[usize::from(is_absorbed(&transport))];
        let ordinal = *alike;
        *alike += 1;
        self.connection_paths.push(paths);
        self.connections.push(Connection {
            transport,
            first_hops: paths.map(|path| self.paths[path.index()].first),
            enters_computed: [false; 2],
            instance: 0,
            is_opened_by_source,
            flow,
            slot,
            ordinal,
            progress: Progress::Delivered,
            machines: [None; 2],
        });
        connection
    }

    fn path(&mut self, directions: &[DirectionId], listener: Listener) -> PathId {
        assert!(!directions.is_empty(), "a path has at least one hop");
        let first = self.hops.len() as u32;
        self.hops.extend_from_slice(directions);
        self.paths.push(Path { first, last: self.hops.len() as u32 - 1, listener });
        PathId::new(self.paths.len() - 1)
    }

    /// Returns the directions of a path.
    fn directions_of(&self, path: &Path) -> &[DirectionId] {
        &self.hops[path.first as usize..=path.last as usize]
    }

    /// Adds a flow over connections created by `connect`. `path.there` leads from its source to its
    /// destination.
    pub fn flow(
        &mut self,
        name: &str,
        start: Instant,
        connect: Connect<'_>,
        path: RoundTrip,
        machine: AppMachine,
    ) {
        self.flow_until(name, (start, None), connect, path, machine);
    }

    /// Like [`Self::flow`], from its start to its stop, if any.
    pub fn flow_until(
        &mut self,
        name: &str,
        (start, stop): (Instant, Option<Instant>),
        connect: Connect<'_>,
        path: RoundTrip,
        machine: AppMachine,
    ) {
        let app = match machine {
            AppMachine::Streams { machine, sends_back, ends } => {
                self.streams(name, connect, path, machine, [sends_back, ends])
            }
            AppMachine::Datagrams(source) => {
                self.datagrams(name, connect, path, source, stop.is_none())
            }
        };

        let (name, service) = (name.to_owned(), None);
        let delivered = None;
        self.flows.push(Flow { name, start, stop, delivered, service, category: 0, app });
    }

    /// Creates the streams of the flow that is added next. If both hosts send, its destination
    /// opens them. If `ends` is set, the run is complete only when the flow is.
    fn streams(
        &mut self,
        name: &str,
        connect: Connect<'_>,
        path: RoundTrip,
        mut application: StreamMachine,
        [sends_back, ends]: [bool; 2],
    ) -> App {
        let (streams, component) = (self.streams, format!("flow.{name}"));
        let ways = [path.there, path.back];
        let [there, back] = if sends_back { [ways[1], ways[0]] } else { ways };
        let first = connect(streams.stream(&component, &application.clock(0, End::Opener)));
        application.choose(first.features().is_multiplexed);
        let transport = |stream, writer| {
            connect(streams.stream(&component, &application.clock(stream, writer)))
        };
        let mut first = Some(first);
        let numbers = 0..application.streams();
        let mut shared = None;
        let streams = numbers.map(|number| {
            if let Some(shared) = shared {
                return Stream { number, ..Stream::new([shared; 2]) };
            }
            let first = first.take().unwrap_or_else(|| transport(number, End::Opener));
            let is_split = sends_back && first.features().is_simplex;
            let first = self.connection(first, [there, back], number, !sends_back);
            let second = match is_split {
                true => {
                    let second = transport(number, End::Acceptor);
                    self.connection(second, [back, there], number, sends_back)
                }
                false => first,
            };
            shared = application.shares_connection().then_some(first);
            Stream::new([first, second])
        });
        let streams = streams.collect();
        self.unfinished += u32::from(ends);
        App::Streams(Streams { application, machine: None, streams, is_awaited: ends })
    }

    /// Creates a source of datagrams. If its path is a single link without a protocol, the queue of
    /// that link replays the source if `is_replayed`, provided that the source supports it. The
    /// results are identical.
    fn datagrams(
        &mut self,
        name: &str,
        connect: Connect<'_>,
        path: RoundTrip<'_>,
        source: Source,
        is_replayed: bool,
    ) -> App {
        let transport = connect(self.streams.stream(&format!("flow.{name}"), "boot time"));
        let replayed = match (source.replayable(), path.there) {
            (Some(departures), &[direction]) if is_absorbed(&transport) && is_replayed => {
                self.background(direction, departures)
            }
            _ => None,
        };
        replayed.unwrap_or_else(|| {
            let connection = self.connection(transport, [path.there, path.back], 0, true);
            self.sources.push(Datagrams { source, carrier: Carrier::Connection(connection) });
            let source = SourceId::new(self.sources.len() - 1);
            App::Datagrams { source, machine: MachineId::default(), connection }
        })
    }

    /// Adds `source` to the queue of `direction`, which replays it. Returns `None` if the direction
    /// is not computed.
    fn background(&mut self, direction: DirectionId, source: &OnOff) -> Option<App> {
        let fifo = match &mut self.directions[direction.index()].medium {
            Medium::Fifo(fifo) => fifo,
            Medium::Line(_) | Medium::Shared(_) => return None,
        };
        let index = fifo.queue.add_background(source.clone());
        Some(App::Background { direction, index, packet: source.packet() })
    }

    /// Returns the connection number of each path for an agent, and the number of connection
    /// numbers. With `groups`, connections of flows with equal numbers share one state, like the
    /// connections between a pair of hosts in ns-2. Without it, each connection has its own state.
    pub fn agent_connections(&self, groups: Option<&[u32]>) -> (Vec<Option<u32>>, usize) {
        let connection = |path: &Path| {
            let Connection { transport, flow, ordinal, .. } =
                &self.connections[path.listener.connection().index()];
            let number = || groups.map_or(*ordinal, |groups| groups[flow.index()]);
            transport.features().is_inspectable.then(number)
        };
        let connections: Vec<_> = self.paths.iter().map(connection).collect();
        let count = connections.iter().flatten().max().map_or(0, |&last| last as usize + 1);
        (connections, count)
    }

    /// Returns the flow of each connection that the host at the start of `direction` forwards, by
    /// connection number. Removes the numbers of the connections that start or end at that host
    /// from `connections`.
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

    /// Attaches an agent to the start of `direction`, above those already attached; call it after
    /// all flows were added. `name` is its name in results. `connections` is described at
    /// [`Self::agent_connections`]. `controlled` selects the senders whose losses the agent
    /// receives: those whose path begins or ends with `direction`.
    pub fn agent(
        &mut self,
        direction: DirectionId,
        name: String,
        agent: AgentMachine<Descriptor<X>>,
        connections: Vec<Option<u32>>,
        controlled: Option<ControlledPackets>,
    ) {
        let is_controlled = |path: PathId| {
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
                End::BOTH.map(|end| (connection, end, is_controlled(paths[end.index()])))
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
            match &self.directions[direction.index()].medium {
                Medium::Shared(shared) => {
                    let medium = &mut self.airs[shared.air.index()].medium;
                    shared.pairs().for_each(|pair| medium.keep_outcomes(pair));
                }
                Medium::Line(line) => self.lines[line.index()].watch(direction.side()),
                Medium::Fifo(_) => {
                    unreachable!("such agents are rejected on links without delivery reports")
                }
            }
        }
        let seat = SeatId::new(self.agents.len());
        let below = self.directions[direction.index()].near_agent.replace(seat);
        if agent.inspects_received() {
            let far = &mut self.directions[direction.opposite().index()].far_agent;
            // Received packets pass the agents that inspect them from the lowest to the uppermost.
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
