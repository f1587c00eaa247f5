//! Assembling a [`World`]: first links, then flows, then [`Builder::build`].

use super::agents::Seat;
use super::deadlines::{Deadlines, Due, MachineId};
use super::direction::{Direction, DirectionParameters, Fifo, Medium};
use super::hops::{Entry, Hop, Listener, Then};
use super::ids::{AirId, ConnectionId, DirectionId, FlowId, LineId, PathId, RadioId, SeatId, Side};
use super::line::{Line, LineEnd};
use super::probe::Probe;
use super::radio::{Radio, RadioParameters};
use super::traffic::{App, Browser, Datagrams, Flow, Stage};
use super::wlan::{Air, Shared};
use super::world::{Machine, Pair, World, boot_offset, interrupt_mask, replay_slice};
use crate::agent::{Agent, AgentMachine, Governed};
use crate::app::{DatagramSource, OnOff, Source, Web, WebParameters};
use crate::link::{Endpoint, LinkEndpoint};
use crate::medium::dcf::{self, MacParameters, StationId, Waiting};
use crate::packet::Packet;
use crate::queue::Queue;
use crate::rng::{Stream, Streams};
use crate::tcp::{Config, Connection, Role};
use crate::units::{Bytes, Instant, Rate};
use std::collections::VecDeque;

/// A way through the network, fixed for the run: the range of its hops among all, at least one.
#[derive(Clone, Copy, Debug)]
struct Path {
    first: u32,
    last: u32,
    listener: Listener,
}

/// What feeds a direction with packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Feeder {
    Nothing,
    Direction(DirectionId),
    /// A host, background traffic, or several directions.
    Others,
}

/// Who uses a direction as the first of its way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Users {
    Nobody,
    /// Only acceptors that may be computed, whose data come over this one direction.
    Acceptors(DirectionId),
    Others,
}

/// The directions of a path and of the way back.
#[derive(Clone, Copy, Debug)]
pub struct RoundTrip<'a> {
    /// From the near end to the far end.
    pub there: &'a [DirectionId],
    /// Back.
    pub back: &'a [DirectionId],
}

/// A world in the making. Links are numbered in the order in which they are added; paths are lists
/// of their directions, in order.
pub struct Builder {
    streams: Streams,
    directions: Vec<Direction>,
    lines: Vec<Line>,
    pairs: Vec<Pair>,
    /// The directions of all paths, path by path.
    hops: Vec<DirectionId>,
    paths: Vec<Path>,
    /// Paths of each connection's opener and acceptor.
    pair_paths: Vec<[PathId; 2]>,
    flows: Vec<Flow>,
    agents: Vec<Seat>,
    radios: Vec<Radio>,
    airs: Vec<Air>,
    unfinished: u32,
}

impl Builder {
    /// Nothing yet; all random numbers will come from `streams`.
    pub fn new(streams: Streams) -> Self {
        Builder {
            streams,
            directions: Vec::new(),
            lines: Vec::new(),
            pairs: Vec::new(),
            hops: Vec::new(),
            paths: Vec::new(),
            pair_paths: Vec::new(),
            flows: Vec::new(),
            agents: Vec::new(),
            radios: Vec::new(),
            airs: Vec::new(),
            unfinished: 0,
        }
    }

    /// A link without protocol.
    pub fn raw_link(&mut self, forward: DirectionParameters, reverse: DirectionParameters) {
        for parameters in [forward, reverse] {
            self.directions.push(Direction::new(Medium::Fifo(Fifo::new(parameters))));
        }
    }

    /// A link with an endpoint at each end; `forward` transmits on the forward direction.
    pub fn arq_link(
        &mut self,
        forward: (DirectionParameters, LinkEndpoint<Packet>),
        reverse: (DirectionParameters, LinkEndpoint<Packet>),
    ) {
        self.line(forward, reverse);
    }

    fn line(
        &mut self,
        forward: (DirectionParameters, LinkEndpoint<Packet>),
        reverse: (DirectionParameters, LinkEndpoint<Packet>),
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
        forward: (DirectionParameters, LinkEndpoint<Packet>),
        reverse: (DirectionParameters, LinkEndpoint<Packet>),
    ) {
        let line = self.line(forward, reverse);
        self.lines[line.index()].join(radio);
        self.radios[radio.index()].add_station(line);
    }

    /// An air without stations.
    pub fn air(&mut self, medium: dcf::Medium<Packet>) -> AirId {
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
        queue: Queue<Waiting<Packet>>,
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
        [forward, reverse]: [DirectionParameters; 2],
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

    /// Gives the flow that was added last the service of this name, on every link that has it; on
    /// the others, as without a name, it has the first.
    pub fn choose_service(&mut self, name: &str) {
        if let Some(flow) = self.flows.last_mut() {
            flow.service = Some(name.to_owned());
        }
    }

    /// The transport of the flow of datagrams that was added last delivers packets whose payload is damaged, where
    /// their header can be read.
    pub fn accept_damaged(&mut self) {
        if let Some(flow) = self.flows.last_mut() {
            flow.damaged = Some(0);
        }
    }

    /// A TCP connection of the flow that is added next, for its transfer `slot`: the opener's
    /// packets take the directions of `there`, the acceptor's those of `back`, and `boot` draws the
    /// phases of their clocks.
    fn connection(
        &mut self,
        config: &Config,
        there: &[DirectionId],
        back: &[DirectionId],
        slot: u32,
        mut boot: Stream,
    ) -> ConnectionId {
        let connection = ConnectionId::new(self.pairs.len());
        let flow = FlowId::new(self.flows.len());
        let ends = [Role::Opener, Role::Acceptor]
            .map(|role| Connection::new(config, role, boot_offset(&mut boot, config)));
        let paths = [(there, false), (back, true)].map(|(path, opener)| {
            let only_acknowledges = !opener && config.only_acknowledges();
            let listener = match only_acknowledges {
                true => Listener::Acceptor { connection },
                false => Listener::Tcp { connection, opener },
            };
            self.path(path, listener)
        });
        self.pair_paths.push(paths);
        self.pairs.push(Pair {
            ends,
            config: *config,
            first_hops: paths.map(|path| self.paths[path.index()].first),
            incarnation: 0,
            boot,
            flow,
            slot,
            waits_for_acks: false,
            machines: [None; 2],
        });
        connection
    }

    /// First hop of a path for datagrams of the flow that is added next.
    fn datagram_path(&mut self, directions: &[DirectionId]) -> u32 {
        let flow = FlowId::new(self.flows.len());
        let path = self.path(directions, Listener::Datagrams { flow });
        self.paths[path.index()].first
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

    fn flow(&mut self, name: &str, start: Instant, app: App) {
        let (name, service, damaged) = (name.to_owned(), None, None);
        self.flows.push(Flow { name, start, service, damaged, app });
    }

    /// One file of `size` from the opener of a connection to its acceptor; the run is not over
    /// before it is complete.
    pub fn file(
        &mut self,
        name: &str,
        start: Instant,
        config: &Config,
        path: RoundTrip,
        size: Bytes,
    ) {
        let boot = self.streams.stream(&format!("flow.{name}"), "boot time");
        let connection = self.connection(config, path.there, path.back, 0, boot);
        self.unfinished += 1;
        self.flow(name, start, App::File { connection, size, finished: None });
    }

    /// A browser at the far end of `path` and its server at the near end.
    pub fn web(
        &mut self,
        name: &str,
        start: Instant,
        config: &Config,
        path: RoundTrip,
        parameters: WebParameters,
    ) {
        let streams = self.streams;
        let boot = |what: &str, slot| {
            streams.stream(&format!("flow.{name}"), &format!("boot time {what} {slot}"))
        };
        let slots = 0..parameters.connections;
        let connections = slots.map(|slot| {
            let requests =
                self.connection(config, path.back, path.there, slot, boot("request", slot));
            let replies = if config.is_simplex() {
                self.connection(config, path.there, path.back, slot, boot("reply", slot))
            } else {
                requests
            };
            [requests, replies]
        });
        let connections: Vec<_> = connections.collect();
        let browser = Browser {
            web: Web::new(parameters, &self.streams, &format!("flow.{name}")),
            stages: vec![Stage::Idle; connections.len()],
            connections,
            last_page: None,
        };
        self.flow(name, start, App::Web(Box::new(browser)));
    }

    /// A source of datagrams, replayed by the queue of its only link, if it may be, has just one and that
    /// is raw; the results are the same.
    pub fn datagrams(&mut self, name: &str, start: Instant, source: Source, path: &[DirectionId]) {
        let replayed = match (source.replayable(), path) {
            (Some(departures), &[direction]) => self.background(direction, departures),
            _ => None,
        };
        let app = replayed.unwrap_or_else(|| {
            let (machine, hop) = (MachineId::default(), self.datagram_path(path));
            App::Datagrams(Box::new(Datagrams { source, machine, hop }))
        });
        self.flow(name, start, app);
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
        let connection = |path: &Path| match path.listener {
            Listener::Tcp { connection, .. }
            | Listener::Acceptor { connection }
            | Listener::Sink { connection } => {
                let flow = self.pairs[connection.index()].flow.index();
                Some(groups.map_or(connection.index() as u32, |groups| groups[flow]))
            }
            Listener::Datagrams { .. } => None,
        };
        let connections: Vec<_> = self.paths.iter().map(connection).collect();
        let count = connections.iter().flatten().max().map_or(0, |&last| last as usize + 1);
        (connections, count)
    }

    /// The TCP of each connection that goes on at the host where `direction` begins, by the numbers of `connections`, which those
    /// that end there lose.
    pub fn passing(
        &self,
        direction: DirectionId,
        connections: &mut [Option<u32>],
        count: usize,
    ) -> Vec<Option<Config>> {
        let passes = |path: PathId| {
            let Path { first, last, .. } = self.paths[path.index()];
            (first..=last).any(|hop| {
                let crossed = self.hops[hop as usize];
                crossed == direction && hop != first
                    || crossed == direction.opposite() && hop != last
            })
        };
        let mut flows = vec![None; count];
        for (pair, paths) in self.pairs.iter().zip(&self.pair_paths) {
            let is_passing = paths.iter().all(|&path| passes(path));
            for path in paths {
                let number = &mut connections[path.index()];
                match *number {
                    Some(number) if is_passing => flows[number as usize] = Some(pair.config),
                    _ => *number = None,
                }
            }
        }
        flows
    }

    /// Puts an agent where `direction` begins, above those that sit there already; call it when all
    /// flows are there. `name` is its in results; `connections`: see [`Self::agent_connections`]; `hears`: the TCP senders
    /// whose losses it is told, those whose data begin or end their way on that direction.
    pub fn agent(
        &mut self,
        direction: DirectionId,
        name: String,
        agent: AgentMachine<Packet>,
        connections: Vec<Option<u32>>,
        hears: Option<Governed>,
    ) {
        let hears_of = |path: PathId| {
            let Path { first, last, .. } = self.paths[path.index()];
            let hop = match hears {
                None => return false,
                Some(Governed::Outgoing) => first,
                Some(Governed::Incoming) => last,
            };
            self.hops[hop as usize] == direction
        };
        let pairs = self.pair_paths.iter().enumerate();
        let senders = pairs
            .flat_map(|(connection, paths)| {
                [0, 1].map(|end| (ConnectionId::new(connection), end, hears_of(paths[end])))
            })
            .filter_map(|(connection, end, hears)| hears.then_some((connection, end)))
            .collect();
        if let Some(limit) = agent.transmission_limit()
            && let Medium::Line(line) = self.directions[direction.index()].medium
        {
            let end = self.lines[line.index()].end_mut(direction.side());
            end.interface.endpoint.limit_transmissions(Some(limit));
        }
        if agent.watches_link() {
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
        if agent.watches_up() {
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

    /// Turns acceptors of file transfers that only acknowledge into [`Listener::Sink`]s where every packet that
    /// enters their way back is such an acceptor's, and all they receive comes over one computed
    /// direction: then acknowledgments enter the way back in order. There may be no agent at the
    /// acceptor, who would have to see them in the order of time.
    fn find_sinks(&mut self) {
        let fifo = |direction: DirectionId| self.directions[direction.index()].fifo();
        let direction = |index: DirectionId| &self.directions[index.index()];
        let ends = |path: &Path| [path.first, path.last].map(|hop| self.hops[hop as usize]);
        // The directions over which the data of such an acceptor come and its answers leave.
        let candidate = |(pair, paths): (&Pair, &[PathId; 2])| {
            let [[_, last], [first, _]] = paths.map(|path| ends(&self.paths[path.index()]));
            let app = &self.flows[pair.flow.index()].app;
            let suits = matches!(app, App::File { .. })
                && pair.config.only_acknowledges()
                && fifo(last).is_some()
                && fifo(first).is_some_and(|fifo| !fifo.queue.has_background())
                && direction(last).far_agent.is_none()
                && direction(first).near_agent.is_none();
            suits.then_some([last, first])
        };
        let candidates: Vec<_> = self.pairs.iter().zip(&self.pair_paths).map(candidate).collect();
        let mut data_come_over = vec![None; self.paths.len()];
        for (found, paths) in candidates.iter().zip(&self.pair_paths) {
            data_come_over[paths[1].index()] = found.map(|[last, _]| last);
        }
        let mut users = vec![Users::Nobody; self.directions.len()];
        for (path, comes_over) in self.paths.iter().zip(data_come_over) {
            for (place, &hop) in self.directions_of(path).iter().enumerate() {
                let here = match comes_over {
                    Some(last) if place == 0 => Users::Acceptors(last),
                    _ => Users::Others,
                };
                let known = &mut users[hop.index()];
                *known = if [Users::Nobody, here].contains(known) { here } else { Users::Others };
            }
        }
        for (connection, found) in candidates.into_iter().enumerate() {
            if let Some([last, first]) = found
                && users[first.index()] == Users::Acceptors(last)
            {
                let path = self.pair_paths[connection][0];
                let connection = ConnectionId::new(connection);
                self.paths[path.index()].listener = Listener::Sink { connection };
            }
        }
    }

    /// Directions that are offered packets ahead of the clock remember what became of the newest:
    /// chained ones, and the first of the way back from a [`Listener::Sink`].
    fn find_ahead(&mut self) {
        let is_chained =
            |direction: &Direction| direction.fifo().is_some_and(|fifo| fifo.is_chained);
        let mut is_ahead: Vec<bool> = self.directions.iter().map(is_chained).collect();
        for path in &self.paths {
            if let Listener::Sink { connection } = path.listener {
                let back = &self.paths[self.pair_paths[connection.index()][1].index()];
                is_ahead[self.hops[back.first as usize].index()] = true;
            }
        }
        for (direction, is_ahead) in self.directions.iter_mut().zip(is_ahead) {
            if let (Medium::Fifo(fifo), true) = (&mut direction.medium, is_ahead) {
                fifo.queue.run_ahead();
            }
        }
    }

    /// The service that packets of a flow take on each direction, by name.
    fn service(&self, direction: DirectionId, listener: Listener) -> u8 {
        let Medium::Line(line) = self.directions[direction.index()].medium else { return 0 };
        let end = self.lines[line.index()].end(direction.side());
        let flow = match listener {
            Listener::Tcp { connection, .. }
            | Listener::Acceptor { connection }
            | Listener::Sink { connection } => self.pairs[connection.index()].flow,
            Listener::Datagrams { flow } => flow,
        };
        let wanted = self.flows[flow.index()].service.as_ref();
        let mut names = end.air.services.names.iter();
        let place = wanted.and_then(|wanted| names.position(|known| known == wanted));
        place.unwrap_or(0) as u8
    }

    /// Finds out which directions are chained: all that enters comes out of one computed direction.
    fn find_chains(&mut self) {
        let mut feeders = vec![Feeder::Nothing; self.directions.len()];
        for (feeder, direction) in feeders.iter_mut().zip(&self.directions) {
            if direction.fifo().is_some_and(|fifo| fifo.queue.has_background()) {
                *feeder = Feeder::Others;
            }
        }
        for path in &self.paths {
            let mut from = Feeder::Others;
            for &direction in self.directions_of(path) {
                let known = &mut feeders[direction.index()];
                *known =
                    if [Feeder::Nothing, from].contains(known) { from } else { Feeder::Others };
                from = Feeder::Direction(direction);
            }
        }
        let is_chained: Vec<bool> = feeders
            .into_iter()
            .zip(&self.directions)
            .map(|(feeder, direction)| {
                let Feeder::Direction(from) = feeder else { return false };
                let from = &self.directions[from.index()];
                direction.fifo().is_some()
                    && from.fifo().is_some()
                    && direction.near_agent.is_none()
                    && from.far_agent.is_none()
            })
            .collect();
        for (direction, is_chained) in self.directions.iter_mut().zip(is_chained) {
            if let Medium::Fifo(fifo) = &mut direction.medium {
                fifo.is_chained = is_chained;
            }
        }
    }

    /// One record a hop.
    fn compile_hops(&self) -> Vec<Hop> {
        let is_chained = |direction: DirectionId| {
            self.directions[direction.index()].fifo().is_some_and(|fifo| fifo.is_chained)
        };
        let mut hops = Vec::with_capacity(self.hops.len());
        for (path, known) in self.paths.iter().enumerate() {
            let (path, listener) = (PathId::new(path), known.listener);
            for hop in known.first..=known.last {
                let direction = self.hops[hop as usize];
                let then = if hop == known.last {
                    Then::Arrive
                } else if is_chained(self.hops[hop as usize + 1]) {
                    Then::Chain
                } else {
                    Then::Forward
                };
                let service = self.service(direction, listener);
                let &Direction { ref medium, near_agent, far_agent } =
                    &self.directions[direction.index()];
                let entry = near_agent.map_or_else(|| medium.entry(), Entry::Agent);
                let place = hops.len() as u32;
                hops.push(Hop {
                    place,
                    direction,
                    entry,
                    far_agent,
                    then,
                    service,
                    listener,
                    path,
                });
            }
        }
        hops
    }

    /// Finds the computed directions of which all packets go on into the same end of a line, where
    /// no agent meets them.
    fn find_feeders(&mut self, hops: &[Hop]) {
        let mut fed = vec![Feeder::Nothing; self.directions.len()];
        for (place, hop) in hops.iter().enumerate() {
            let next = match hop.then {
                Then::Forward if hop.far_agent.is_none() => &hops[place + 1],
                _ => hop,
            };
            let into = match next.entry {
                Entry::Line(_) if next.direction != hop.direction => {
                    Feeder::Direction(next.direction)
                }
                _ => Feeder::Others,
            };
            let known = &mut fed[hop.direction.index()];
            *known = if [Feeder::Nothing, into].contains(known) { into } else { Feeder::Others };
        }
        for (index, into) in fed.into_iter().enumerate() {
            if let Feeder::Direction(into) = into
                && self.directions[index].fifo().is_some()
                && let Medium::Line(line) = self.directions[into.index()].medium
            {
                let end = self.lines[line.index()].end_mut(into.side());
                if end.may_be_fed() {
                    end.feeder = Some(DirectionId::new(index));
                }
            }
        }
    }

    /// The finished world.
    pub fn build<P: Probe>(mut self, probe: P) -> World<P> {
        self.find_chains();
        self.find_sinks();
        self.find_ahead();
        let hops = self.compile_hops();
        // Directions over which something comes that must be handled in its time.
        let mut surfaces = vec![false; self.directions.len()];
        for hop in &hops {
            surfaces[hop.direction.index()] |= match hop.then {
                Then::Arrive => !matches!(hop.listener, Listener::Sink { .. }),
                Then::Forward => true,
                Then::Chain => false,
            };
        }
        if !P::ACTIVE {
            self.find_feeders(&hops);
        }
        // Only who can ever have a deadline gets a place in the table, those that every packet moves before timers.
        let mut machines = Vec::new();
        let mut place = |machine| {
            machines.push(machine);
            MachineId::new(machines.len() - 1)
        };
        for (index, direction) in self.directions.iter_mut().enumerate() {
            let direction_id = DirectionId::new(index);
            match &mut direction.medium {
                Medium::Fifo(fifo) if surfaces[index] => {
                    fifo.machine = Some(place(Machine::Arrival(direction_id)));
                }
                Medium::Fifo(_) => {}
                Medium::Line(line) if direction_id.side() == Side::Forward => {
                    let known = &mut self.lines[line.index()];
                    if known.radio.is_none() {
                        known.machine = place(Machine::Line(*line));
                    }
                }
                Medium::Line(_) | Medium::Shared(_) => {}
            }
        }
        for (index, flow) in self.flows.iter_mut().enumerate() {
            if let App::Datagrams(datagrams) = &mut flow.app {
                datagrams.machine = place(Machine::Datagrams(FlowId::new(index)));
            }
        }
        for (index, radio) in self.radios.iter_mut().enumerate() {
            radio.machine = place(Machine::Radio(RadioId::new(index)));
        }
        for (index, air) in self.airs.iter_mut().enumerate() {
            air.machine = place(Machine::Air(AirId::new(index)));
            if P::ACTIVE {
                air.medium.report_events();
            }
        }
        let brisk = machines.len();
        let mut place = |machine| {
            machines.push(machine);
            MachineId::new(machines.len() - 1)
        };
        for (index, line) in self.lines.iter_mut().enumerate() {
            if line.radio.is_some() {
                line.machine = place(Machine::Line(LineId::new(index)));
            }
        }
        for (index, pair) in self.pairs.iter_mut().enumerate() {
            let connection = ConnectionId::new(index);
            let is_quiet = pair.config.only_acknowledges();
            let is_file = matches!(self.flows[pair.flow.index()].app, App::File { .. });
            pair.waits_for_acks = is_file || pair.config.is_simplex();
            let opener = place(Machine::Tcp { connection, opener: true });
            let acceptor = (!is_quiet).then(|| place(Machine::Tcp { connection, opener: false }));
            pair.machines = [Some(opener), acceptor];
        }
        for (index, seat) in self.agents.iter_mut().enumerate() {
            seat.machine = place(Machine::Agent(SeatId::new(index)));
        }
        // The last one, so that the table can forget it when every flow has started.
        let start = place(Machine::Start);
        let mut starts: Vec<_> = (0..self.flows.len()).map(FlowId::new).collect();
        starts.sort_by_key(|&index| std::cmp::Reverse((self.flows[index.index()].start, index)));
        let mut deadlines = Deadlines::new(brisk, machines.len() - brisk);
        if let Some(&first) = starts.last() {
            deadlines.set(start, self.flows[first.index()].start);
        }
        let radios = self.radios.iter();
        let most_stations = radios.map(|radio| radio.stations.len()).max().unwrap_or(0);
        let fifos = self.directions.iter().filter_map(Direction::fifo);
        let ends = self.lines.iter().flat_map(Line::ends);
        let steps: f64 = fifos.map(|fifo| fifo.queue.replay_rate()).sum::<f64>()
            + ends.map(LineEnd::replay_rate).sum::<f64>()
            + self.airs.iter().map(|air| air.medium.replay_rate()).sum::<f64>();
        World {
            now: Instant::ZERO,
            current: Due::default(),
            caught_up: Instant::ZERO,
            replay_slice: replay_slice(steps),
            deadlines,
            machines,
            directions: self.directions,
            lines: self.lines,
            hops,
            connections: self.pairs,
            flows: self.flows,
            agents: self.agents,
            radios: self.radios,
            airs: self.airs,
            starts,
            unfinished: self.unfinished,
            damaged: VecDeque::new(),
            horizon_due: Instant::NEVER,
            interrupt_mask: interrupt_mask(most_stations),
            probe,
            events: 0,
        }
    }
}
