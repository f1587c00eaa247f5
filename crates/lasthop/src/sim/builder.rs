//! Assembling a [`World`]: first links, then flows, then [`Builder::build`].

use super::agents::Seat;
use super::deadlines::Deadlines;
use super::direction::{Direction, DirectionParameters, Kind};
use super::hops::{Hop, Listener, Then};
use super::probe::Probe;
use super::radio::{NO_RADIO, Radio, RadioParameters};
use super::traffic::{App, Browser, Flow, Media, Stage};
use super::wlan::{Air, Shared};
use super::world::{Machine, Pair, World, boot_offset, replay_slice};
use crate::agent::{Agent, AgentMachine, Governed};
use crate::app::{MediaStatistics, OnOff, OnOffParameters, Web, WebParameters};
use crate::link::{Endpoint, LinkEndpoint};
use crate::medium::dcf::{MacParameters, Medium, StationId};
use crate::packet::Packet;
use crate::queue::Newest;
use crate::rng::{Stream, Streams};
use crate::tcp::{Config, Connection, Role};
use crate::units::{Bytes, Duration, Instant, Rate};

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
    Direction(u32),
    /// A host, background traffic, or several directions.
    Others,
}

/// Who uses a direction as the first of its way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Users {
    Nobody,
    /// Only acceptors that may be computed, whose data come over this one direction.
    Acceptors(u32),
    Others,
}

/// The directions of a path and of the way back.
#[derive(Clone, Copy, Debug)]
pub struct RoundTrip<'a> {
    /// From the near end to the far end.
    pub there: &'a [u32],
    /// Back.
    pub back: &'a [u32],
}

/// A world in the making. Directions are numbered in the order of the links: link `n` has `2 n`
/// (forward) and `2 n + 1` (reverse). Paths are lists of directions, in order.
pub struct Builder {
    streams: Streams,
    directions: Vec<Direction>,
    pairs: Vec<Pair>,
    /// The directions of all paths, path by path.
    hops: Vec<u32>,
    paths: Vec<Path>,
    /// Paths of each connection's opener and acceptor.
    pair_paths: Vec<[u32; 2]>,
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

    /// A link without protocol; its directions are numbered `2 n` and `2 n + 1`.
    pub fn raw_link(&mut self, forward: DirectionParameters, reverse: DirectionParameters) {
        self.directions.push(Direction::raw(forward));
        self.directions.push(Direction::raw(reverse));
    }

    /// A link with an endpoint at each end; `forward` transmits on the forward direction.
    pub fn arq_link(
        &mut self,
        forward: (DirectionParameters, LinkEndpoint<Packet>),
        reverse: (DirectionParameters, LinkEndpoint<Packet>),
    ) {
        self.directions.push(Direction::arq(forward.0, forward.1));
        self.directions.push(Direction::arq(reverse.0, reverse.1));
    }

    /// A radio without stations; returns its number.
    pub fn radio(&mut self, parameters: RadioParameters) -> u32 {
        self.radios.push(Radio::new(parameters));
        self.radios.len() as u32 - 1
    }

    /// A station of a radio: a link, with an endpoint at each end, whose forward direction leads to
    /// the base. Its rates count for metrics only, its delays not at all.
    pub fn radio_link(
        &mut self,
        radio: u32,
        forward: (DirectionParameters, LinkEndpoint<Packet>),
        reverse: (DirectionParameters, LinkEndpoint<Packet>),
    ) {
        self.radios[radio as usize].add_station(self.directions.len() as u32);
        self.arq_link(forward, reverse);
        for direction in self.directions.iter_mut().rev().take(2) {
            direction.radio = radio;
            if let Kind::Arq(arq) = &mut direction.kind {
                arq.take_slots();
            }
        }
    }

    /// An air without stations; returns its number.
    pub fn air(&mut self, medium: Medium<Packet>) -> u32 {
        self.airs.push(Air { medium, machine: 0, directions: Vec::new(), wlans: Vec::new() });
        self.airs.len() as u32 - 1
    }

    /// A WLAN on an air: names it for what is reported of the links that are added next.
    pub fn wlan(&mut self, air: u32, name: &str) {
        self.airs[air as usize].wlans.push((name.to_owned(), Vec::new()));
    }

    /// A station at `host` of the WLAN `wlan` on an air.
    pub fn wlan_station(
        &mut self,
        air: u32,
        [wlan, host]: [&str; 2],
        parameters: MacParameters,
        away: Option<[Instant; 2]>,
    ) -> StationId {
        let backoff = self.streams.stream(&format!("wlan.{wlan}.{host}"), "back-off");
        let medium = &mut self.airs[air as usize].medium;
        let station = medium.add_station(parameters, backoff);
        medium.set_away(station, away.as_slice());
        station
    }

    /// The link of a station of a WLAN, which is number `wlan` on its air: `ends` are the station and the
    /// access point, forward leads to the latter. `control`: rate of control frames; `is_shared`: the
    /// error process of the forward direction serves both.
    pub fn wlan_link(
        &mut self,
        [air, wlan]: [u32; 2],
        ends: [StationId; 2],
        control: Rate,
        [forward, reverse]: [DirectionParameters; 2],
        is_shared: bool,
    ) {
        let this = &mut self.airs[air as usize];
        let [up, down] = [forward.transmitter.rate(), reverse.transmitter.rate()];
        let there = this.medium.add_pair(ends, [up, control], forward.channel);
        let back = if is_shared {
            this.medium.add_back_pair(there, [down, control])
        } else {
            this.medium.add_pair([ends[1], ends[0]], [down, control], reverse.channel)
        };
        for (pair, rate) in [(there, up), (back, down)] {
            debug_assert_eq!(pair.index(), this.directions.len(), "a direction a pair");
            this.directions.push(self.directions.len() as u32);
            this.wlans[wlan as usize].1.push(pair);
            self.directions.push(Direction::shared(Shared { air, pair, rate }));
        }
    }

    /// Names the services of the link that was added last, in their order.
    pub fn name_services(&mut self, names: &[&str]) {
        for direction in self.directions.iter_mut().rev().take(2) {
            if let Kind::Arq(arq) = &mut direction.kind {
                debug_assert_eq!(arq.services.names.len(), names.len(), "one name a service");
                arq.services.names = names.iter().map(|&name| name.to_owned()).collect();
            }
        }
    }

    /// Gives the flow that was added last the service of this name, on every link that has it; on
    /// the others, as without a name, it has the first.
    pub fn choose_service(&mut self, name: &str) {
        if let Some(flow) = self.flows.last_mut() {
            flow.service = Some(name.to_owned());
        }
    }

    /// A TCP connection of the flow that is added next, for its transfer `slot`: the opener's
    /// packets take the directions of `there`, the acceptor's those of `back`, and `boot` draws the
    /// phases of their clocks.
    fn connection(
        &mut self,
        config: &Config,
        there: &[u32],
        back: &[u32],
        slot: u32,
        mut boot: Stream,
    ) -> u32 {
        let connection = self.pairs.len() as u32;
        let flow = self.flows.len() as u32;
        let ends = [Role::Opener, Role::Acceptor]
            .map(|role| Connection::new(config, role, boot_offset(&mut boot, config)));
        let paths = [(there, false), (back, true)]
            .map(|(path, opener)| self.path(path, Listener::Tcp { connection, opener }));
        self.pair_paths.push(paths);
        self.pairs.push(Pair {
            ends,
            config: *config,
            first_hops: paths.map(|path| self.paths[path as usize].first),
            incarnation: 0,
            boot,
            flow,
            slot,
            machines: [0; 2],
        });
        connection
    }

    /// First hop of a path for datagrams of the flow that is added next.
    fn datagram_path(&mut self, directions: &[u32]) -> u32 {
        let flow = self.flows.len() as u32;
        let path = self.path(directions, Listener::Datagrams { flow });
        self.paths[path as usize].first
    }

    fn path(&mut self, directions: &[u32], listener: Listener) -> u32 {
        assert!(!directions.is_empty(), "a path has a hop");
        let first = self.hops.len() as u32;
        self.hops.extend_from_slice(directions);
        self.paths.push(Path { first, last: self.hops.len() as u32 - 1, listener });
        self.paths.len() as u32 - 1
    }

    /// The directions of a path.
    fn directions_of(&self, path: &Path) -> &[u32] {
        &self.hops[path.first as usize..=path.last as usize]
    }

    fn flow(&mut self, name: &str, start: Instant, app: App) {
        self.flows.push(Flow { name: name.to_owned(), start, service: None, app });
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
            let replies = if config.one_way {
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

    /// An on-off source of datagrams. `lazy`: replayed by the queue of its only link, if it has
    /// just one and that is raw; the results are the same.
    pub fn on_off(
        &mut self,
        name: &str,
        start: Instant,
        parameters: OnOffParameters,
        path: &[u32],
        lazy: bool,
    ) {
        let stream = self.streams.stream(&format!("flow.{name}"), "on-off");
        let source = OnOff::new(parameters, start, stream);
        let index = match path {
            &[direction] if lazy => {
                self.background(direction, &source).map(|index| (direction, index))
            }
            _ => None,
        };
        let app = match index {
            Some((direction, index)) => {
                App::Background { direction, index, packet: parameters.packet }
            }
            None => {
                let hop = self.datagram_path(path);
                App::Datagrams {
                    source,
                    machine: 0,
                    hop,
                    sent: 0,
                    delivered: 0,
                    arrivals: Newest::new(),
                }
            }
        };
        self.flow(name, start, app);
    }

    /// A media stream: talk spurts and silences of `parameters` (on and off), and a receiver that
    /// wants each packet within `deadline`.
    pub fn media(
        &mut self,
        name: &str,
        start: Instant,
        parameters: OnOffParameters,
        deadline: Duration,
        path: &[u32],
    ) {
        let stream = self.streams.stream(&format!("flow.{name}"), "talk and silence");
        let media = Media {
            source: OnOff::new(parameters, start, stream),
            machine: 0,
            hop: self.datagram_path(path),
            statistics: MediaStatistics::new(deadline),
        };
        self.flow(name, start, App::Media(Box::new(media)));
    }

    /// Lets `source` be replayed in the queue of `direction`, unless that is driven by a protocol;
    /// returns the source's index there.
    fn background(&mut self, direction: u32, source: &OnOff) -> Option<usize> {
        let Direction { kind, delay, .. } = &mut self.directions[direction as usize];
        match kind {
            Kind::Raw(raw) => Some(raw.queue.add_background(source.clone(), *delay)),
            Kind::Arq(_) | Kind::Shared(_) => None,
        }
    }

    /// The connection of each path as an agent numbers it, and how many numbers there are. `groups`:
    /// the connections of flows with equal numbers share one state (as those between a pair of hosts
    /// in ns-2); without it, each connection has its own.
    pub fn agent_connections(&self, groups: Option<&[u32]>) -> (Vec<Option<u32>>, usize) {
        let connection = |path: &Path| match path.listener {
            Listener::Tcp { connection, .. } | Listener::Sink { connection } => {
                let flow = self.pairs[connection as usize].flow as usize;
                Some(groups.map_or(connection, |groups| groups[flow]))
            }
            Listener::Datagrams { .. } => None,
        };
        let connections: Vec<_> = self.paths.iter().map(connection).collect();
        let count = connections.iter().flatten().max().map_or(0, |&last| last as usize + 1);
        (connections, count)
    }

    /// Puts an agent where `direction` begins, above those that sit there already; call it when all
    /// flows are there. `name` is its in results; `connections`: see [`Self::agent_connections`]; `hears`: the TCP senders
    /// whose losses it is told, those whose data begin or end their way on that direction.
    pub fn agent(
        &mut self,
        direction: u32,
        name: String,
        agent: AgentMachine<Packet>,
        connections: Vec<Option<u32>>,
        hears: Option<Governed>,
    ) {
        let hears_of = |path: u32| {
            let Path { first, last, .. } = self.paths[path as usize];
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
                [0, 1].map(|end| (connection as u32, end, hears_of(paths[end])))
            })
            .filter_map(|(connection, end, hears)| hears.then_some((connection, end)))
            .collect();
        if let Some(limit) = agent.transmission_limit()
            && let Kind::Arq(arq) = &mut self.directions[direction as usize].kind
        {
            arq.interface.endpoint.limit_transmissions(Some(limit));
        }
        let seat = self.agents.len() as u32;
        let below = self.directions[direction as usize].near_agent.replace(seat);
        if agent.watches_up() {
            let far = &mut self.directions[direction as usize ^ 1].far_agent;
            // On the way up the lowest of those that look that way comes first.
            match *far {
                None => *far = Some(seat),
                Some(lowest) => {
                    let mut last = lowest;
                    while let Some(above) = self.agents[last as usize].above {
                        last = above;
                    }
                    self.agents[last as usize].above = Some(seat);
                }
            }
        }
        let machine = 0;
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

    /// Turns acceptors of one-way file transfers into [`Listener::Sink`]s where every packet that
    /// enters their way back is such an acceptor's, and all they receive comes over one computed
    /// direction: then acknowledgments enter the way back in order. There may be no agent at the
    /// acceptor, who would have to see them in the order of time.
    fn find_sinks(&mut self) {
        let direction = |index: u32| &self.directions[index as usize];
        let ends = |path: &Path| [path.first, path.last].map(|hop| self.hops[hop as usize]);
        // The directions over which the data of such an acceptor come and its answers leave.
        let candidate = |(pair, paths): (&Pair, &[u32; 2])| {
            let [[_, last], [first, _]] = paths.map(|path| ends(&self.paths[path as usize]));
            let app = &self.flows[pair.flow as usize].app;
            let suits = matches!(app, App::File { .. })
                && pair.config.one_way
                && pair.config.delayed_ack.is_none()
                && matches!(direction(last).kind, Kind::Raw(_))
                && matches!(&direction(first).kind, Kind::Raw(raw) if !raw.queue.has_background())
                && direction(last).far_agent.is_none()
                && direction(first).near_agent.is_none();
            suits.then_some([last, first])
        };
        let candidates: Vec<_> = self.pairs.iter().zip(&self.pair_paths).map(candidate).collect();
        let mut data_come_over = vec![None; self.paths.len()];
        for (found, paths) in candidates.iter().zip(&self.pair_paths) {
            data_come_over[paths[1] as usize] = found.map(|[last, _]| last);
        }
        let mut users = vec![Users::Nobody; self.directions.len()];
        for (path, comes_over) in self.paths.iter().zip(data_come_over) {
            for (place, &hop) in self.directions_of(path).iter().enumerate() {
                let here = match comes_over {
                    Some(last) if place == 0 => Users::Acceptors(last),
                    _ => Users::Others,
                };
                let known = &mut users[hop as usize];
                *known = if [Users::Nobody, here].contains(known) { here } else { Users::Others };
            }
        }
        for (connection, found) in candidates.into_iter().enumerate() {
            if let Some([last, first]) = found
                && users[first as usize] == Users::Acceptors(last)
            {
                let path = self.pair_paths[connection][0];
                let connection = connection as u32;
                self.paths[path as usize].listener = Listener::Sink { connection };
            }
        }
    }

    /// Directions that are offered packets ahead of the clock remember what became of the newest:
    /// chained ones, and the first of the way back from a [`Listener::Sink`].
    fn find_ahead(&mut self) {
        let mut is_ahead: Vec<bool> =
            self.directions.iter().map(|known| known.is_chained).collect();
        for path in &self.paths {
            if let Listener::Sink { connection } = path.listener {
                let back = &self.paths[self.pair_paths[connection as usize][1] as usize];
                is_ahead[self.hops[back.first as usize] as usize] = true;
            }
        }
        for (direction, is_ahead) in self.directions.iter_mut().zip(is_ahead) {
            if let (Kind::Raw(raw), true) = (&mut direction.kind, is_ahead) {
                raw.queue.run_ahead();
            }
        }
    }

    /// The service that packets of a flow take on each direction, by name.
    fn service(&self, direction: u32, listener: Listener) -> u8 {
        let Kind::Arq(arq) = &self.directions[direction as usize].kind else { return 0 };
        let flow = match listener {
            Listener::Tcp { connection, .. } | Listener::Sink { connection } => {
                self.pairs[connection as usize].flow
            }
            Listener::Datagrams { flow } => flow,
        };
        let wanted = self.flows[flow as usize].service.as_ref();
        let mut names = arq.services.names.iter();
        let place = wanted.and_then(|wanted| names.position(|known| known == wanted));
        place.unwrap_or(0) as u8
    }

    /// Finds out which directions are chained: all that enters comes out of one computed direction.
    fn find_chains(&mut self) {
        let mut feeders = vec![Feeder::Nothing; self.directions.len()];
        for (feeder, direction) in feeders.iter_mut().zip(&self.directions) {
            if matches!(&direction.kind, Kind::Raw(raw) if raw.queue.has_background()) {
                *feeder = Feeder::Others;
            }
        }
        for path in &self.paths {
            let mut from = Feeder::Others;
            for &direction in self.directions_of(path) {
                let known = &mut feeders[direction as usize];
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
                let from = &self.directions[from as usize];
                matches!((&direction.kind, &from.kind), (Kind::Raw(_), Kind::Raw(_)))
                    && direction.near_agent.is_none()
                    && from.far_agent.is_none()
            })
            .collect();
        for (direction, is_chained) in self.directions.iter_mut().zip(is_chained) {
            direction.is_chained = is_chained;
        }
    }

    /// One record a hop.
    fn compile_hops(&self) -> Vec<Hop> {
        let mut hops = Vec::with_capacity(self.hops.len());
        for (path, known) in self.paths.iter().enumerate() {
            let (path, listener) = (path as u32, known.listener);
            for hop in known.first..=known.last {
                let direction = self.hops[hop as usize];
                let then = if hop == known.last {
                    Then::Arrive
                } else if self.directions[self.hops[hop as usize + 1] as usize].is_chained {
                    Then::Chain
                } else {
                    Then::Forward
                };
                let service = self.service(direction, listener);
                hops.push(Hop { direction, then, service, listener, path });
            }
        }
        hops
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
            surfaces[hop.direction as usize] |= match hop.then {
                Then::Arrive => !matches!(hop.listener, Listener::Sink { .. }),
                Then::Forward => true,
                Then::Chain => false,
            };
        }
        // Only who can ever have a deadline gets a place in the table.
        let mut machines = Vec::new();
        for (index, direction) in self.directions.iter_mut().enumerate() {
            direction.machine = machines.len();
            match direction.kind {
                Kind::Raw(_) if surfaces[index] => machines.push(Machine::Arrival(index as u32)),
                Kind::Raw(_) | Kind::Shared(_) => direction.machine = Deadlines::NOBODY,
                // Only a timer: the radio does the rest.
                Kind::Arq(_) if direction.radio != NO_RADIO => {
                    machines.push(Machine::Station(index as u32));
                }
                Kind::Arq(_) => {
                    machines
                        .extend([Machine::Arrival(index as u32), Machine::Transmit(index as u32)]);
                }
            }
        }
        for (index, pair) in self.pairs.iter_mut().enumerate() {
            let connection = index as u32;
            let quiet = pair.config.one_way && pair.config.delayed_ack.is_none();
            pair.machines =
                [machines.len(), if quiet { Deadlines::NOBODY } else { machines.len() + 1 }];
            machines.push(Machine::Tcp { connection, opener: true });
            if !quiet {
                machines.push(Machine::Tcp { connection, opener: false });
            }
        }
        for (index, flow) in self.flows.iter_mut().enumerate() {
            let machine = match &mut flow.app {
                App::Datagrams { machine, .. } => machine,
                App::Media(media) => &mut media.machine,
                App::File { .. } | App::Web(_) | App::Background { .. } => continue,
            };
            *machine = machines.len();
            machines.push(Machine::Datagrams(index as u32));
        }
        for (index, seat) in self.agents.iter_mut().enumerate() {
            seat.machine = machines.len();
            machines.push(Machine::Agent(index as u32));
        }
        for (index, radio) in self.radios.iter_mut().enumerate() {
            radio.machine = machines.len();
            machines.push(Machine::Radio(index as u32));
        }
        for (index, air) in self.airs.iter_mut().enumerate() {
            air.machine = machines.len();
            machines.push(Machine::Air(index as u32));
            if P::ACTIVE {
                air.medium.report_events();
            }
        }
        // The last one, so that the table can forget it when every flow has started.
        machines.push(Machine::Start);
        let mut starts: Vec<u32> = (0..self.flows.len() as u32).collect();
        starts.sort_by_key(|&index| std::cmp::Reverse((self.flows[index as usize].start, index)));
        let mut deadlines = Deadlines::new(machines.len());
        if let Some(&first) = starts.last() {
            deadlines.set(machines.len() - 1, self.flows[first as usize].start);
        }
        let steps: f64 = self.directions.iter().map(Direction::replay_rate).sum::<f64>()
            + self.airs.iter().map(|air| air.medium.replay_rate()).sum::<f64>();
        World {
            now: Instant::ZERO,
            caught_up: Instant::ZERO,
            replay_slice: replay_slice(steps),
            deadlines,
            machines,
            directions: self.directions,
            hops,
            connections: self.pairs,
            flows: self.flows,
            agents: self.agents,
            radios: self.radios,
            airs: self.airs,
            starts,
            unfinished: self.unfinished,
            probe,
            events: 0,
        }
    }
}
