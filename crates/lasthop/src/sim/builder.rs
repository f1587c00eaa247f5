//! Assembling a [`World`]: first links, then flows, then [`Builder::build`].

pub use super::agents::UpdateInterval;
use super::agents::{NO_AGENT, Occupant, Persistence, Seat, UNWATCHED};
use super::deadlines::Deadlines;
use super::direction::{Direction, DirectionParameters, Kind};
use super::probe::Probe;
use super::radio::{NO_RADIO, Radio, RadioParameters};
use super::traffic::{App, Browser, Flow, Media, Stage};
use super::world::{HERE, Listener, Machine, Pair, World, boot_offset};
use crate::agent::{AdaptivePersistence, Snoop, SnoopParameters};
use crate::app::{MediaStatistics, OnOff, OnOffParameters, Web, WebParameters};
use crate::link::LinkEndpoint;
use crate::packet::Packet;
use crate::rng::{Stream, Streams};
use crate::tcp::{Config, Connection, Role};
use crate::units::{Bytes, Duration, Instant};

/// A way through the network, fixed for the run.
#[derive(Clone, Debug)]
struct Path {
    directions: Vec<u32>,
    listener: Listener,
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
    paths: Vec<Path>,
    flows: Vec<Flow>,
    agents: Vec<Seat>,
    radios: Vec<Radio>,
    unfinished: u32,
}

impl Builder {
    /// Nothing yet; all random numbers will come from `streams`.
    pub fn new(streams: Streams) -> Self {
        Builder {
            streams,
            directions: Vec::new(),
            pairs: Vec::new(),
            paths: Vec::new(),
            flows: Vec::new(),
            agents: Vec::new(),
            radios: Vec::new(),
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
        self.pairs.push(Pair {
            ends,
            config: *config,
            paths,
            incarnation: 0,
            boot,
            flow,
            slot,
            machines: [0; 2],
        });
        connection
    }

    /// A path for datagrams of the flow that is added next.
    fn datagram_path(&mut self, directions: &[u32]) -> u32 {
        let flow = self.flows.len() as u32;
        self.path(directions, Listener::Datagrams { flow })
    }

    fn path(&mut self, directions: &[u32], listener: Listener) -> u32 {
        self.paths.push(Path { directions: directions.to_vec(), listener });
        self.paths.len() as u32 - 1
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
                let path = self.datagram_path(path);
                App::Datagrams {
                    source,
                    machine: 0,
                    path,
                    sent: 0,
                    delivered: 0,
                    delivered_bytes: 0,
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
            path: self.datagram_path(path),
            statistics: MediaStatistics::new(deadline),
        };
        self.flow(name, start, App::Media(Box::new(media)));
    }

    /// Lets `source` be replayed in the queue of `direction`, unless that is driven by a protocol;
    /// returns the source's index there.
    fn background(&mut self, direction: u32, source: &OnOff) -> Option<usize> {
        match &mut self.directions[direction as usize].kind {
            Kind::Raw(raw) => Some(raw.queue.add_background(source.clone())),
            Kind::Arq(_) => None,
        }
    }

    /// A Snoop agent where `direction` begins; call it when all flows are there. `groups`: the
    /// connections of flows with equal numbers share one state (as those between a pair of hosts
    /// in ns-2); without it, each connection has its own.
    pub fn snoop(&mut self, direction: u32, parameters: SnoopParameters, groups: Option<&[u32]>) {
        let connections: Vec<u32> = self
            .paths
            .iter()
            .map(|path| match path.listener {
                Listener::Tcp { connection, .. } | Listener::Sink { connection } => {
                    let flow = self.pairs[connection as usize].flow as usize;
                    groups.map_or(connection, |groups| groups[flow])
                }
                Listener::Datagrams { .. } => UNWATCHED,
            })
            .collect();
        let watched = connections.iter().filter(|&&connection| connection != UNWATCHED);
        let count = watched.max().map_or(0, |&last| last as usize + 1);
        let seat = self.agents.len() as u32;
        self.directions[direction as usize].near_agent = seat;
        self.directions[direction as usize ^ 1].far_agent = seat;
        let agent = Occupant::Snoop(Snoop::new(parameters, count));
        self.agents.push(Seat { agent, direction, machine: 0, connections });
    }

    /// Adaptive persistence that limits the transmissions of the endpoint of `direction`, by the
    /// losses of the TCP senders whose data begin (`at_start`) or end their way on it; call it when
    /// all flows are there.
    pub fn adaptive_persistence(
        &mut self,
        direction: u32,
        at_start: bool,
        controller: AdaptivePersistence,
        interval: UpdateInterval,
    ) {
        let passes = |path: u32| {
            let way = &self.paths[path as usize].directions;
            let hop = if at_start { way.first() } else { way.last() };
            hop == Some(&direction)
        };
        let pairs = self.pairs.iter().enumerate();
        let senders = pairs
            .flat_map(|(connection, pair)| {
                [0, 1].map(|end| (connection as u32, end, passes(pair.paths[end])))
            })
            .filter_map(|(connection, end, passes)| passes.then_some((connection, end)))
            .collect();
        let seat = self.agents.len() as u32;
        let governed = &mut self.directions[direction as usize];
        governed.near_agent = seat;
        let persistence = Persistence::new(controller, interval, senders, governed);
        let agent = Occupant::Persistence(Box::new(persistence));
        self.agents.push(Seat { agent, direction, machine: 0, connections: Vec::new() });
    }

    /// Turns acceptors of one-way file transfers into [`Listener::Sink`]s where every packet that
    /// enters their way back is such an acceptor's, and all they receive comes over one computed
    /// direction: then acknowledgments enter the way back in order. There may be no agent at the
    /// acceptor, who would have to see them in the order of time.
    fn find_sinks(&mut self) {
        let direction =
            |index: Option<&u32>| index.map(|&index| &self.directions[index as usize].kind);
        let computed = |index: Option<&u32>| matches!(direction(index), Some(Kind::Raw(raw)) if !raw.queue.has_background());
        let has_agent = |last: Option<&u32>, first: Option<&u32>| {
            let direction = |index: &u32| &self.directions[*index as usize];
            last.is_some_and(|index| direction(index).far_agent != NO_AGENT)
                || first.is_some_and(|index| direction(index).near_agent != NO_AGENT)
        };
        let candidate = |pair: &Pair| {
            let [there, back] = pair.paths.map(|path| &self.paths[path as usize].directions);
            let app = &self.flows[pair.flow as usize].app;
            let suits = matches!(app, App::File { .. })
                && pair.config.one_way
                && pair.config.delayed_ack.is_none()
                && matches!(direction(there.last()), Some(Kind::Raw(_)))
                && computed(back.first())
                && !has_agent(there.last(), back.first());
            suits.then(|| (pair.paths, there.last().copied(), back.first().copied()))
        };
        let candidates: Vec<_> = self.pairs.iter().map(candidate).collect();
        let sinks: Vec<bool> = candidates
            .iter()
            .map(|found| {
                let Some((_, last, first)) = found else { return false };
                self.paths.iter().enumerate().all(|(index, path)| {
                    let uses = path.directions.iter().position(|hop| Some(*hop) == *first);
                    uses.is_none_or(|place| {
                        place == 0
                            && candidates.iter().flatten().any(|(paths, other_last, _)| {
                                paths[1] as usize == index && other_last == last
                            })
                    })
                })
            })
            .collect();
        for (connection, pair) in self.pairs.iter().enumerate() {
            if sinks[connection] {
                let connection = connection as u32;
                self.paths[pair.paths[0] as usize].listener = Listener::Sink { connection };
            }
        }
    }

    /// Tells the directions of several services which of them each path takes.
    fn classify(&mut self) {
        let flow_of = |path: &Path| match path.listener {
            Listener::Tcp { connection, .. } | Listener::Sink { connection } => {
                self.pairs[connection as usize].flow
            }
            Listener::Datagrams { flow } => flow,
        };
        let wanted: Vec<Option<&String>> = self
            .paths
            .iter()
            .map(|path| self.flows[flow_of(path) as usize].service.as_ref())
            .collect();
        for direction in &mut self.directions {
            let Kind::Arq(arq) = &mut direction.kind else { continue };
            let names = &arq.services.names;
            let index = |wanted: &Option<&String>| {
                let place = wanted.and_then(|name| names.iter().position(|known| known == name));
                place.unwrap_or(0) as u8
            };
            arq.services.of_path = wanted.iter().map(index).collect();
        }
    }

    /// The finished world.
    pub fn build<P: Probe>(mut self, probe: P) -> World<P> {
        let paths = self.paths.len();
        let mut next_hop = vec![HERE; self.directions.len() * paths];
        let mut first_hop = vec![HERE; paths];
        // What feeds each direction: None nothing yet, Some(u32::MAX) a host or several.
        let mut feeders: Vec<Option<u32>> = vec![None; self.directions.len()];
        for (index, direction) in self.directions.iter().enumerate() {
            if matches!(&direction.kind, Kind::Raw(raw) if raw.queue.has_background()) {
                feeders[index] = Some(HERE);
            }
        }
        for (index, path) in self.paths.iter().enumerate() {
            let mut from = HERE;
            for &direction in &path.directions {
                let feeder = &mut feeders[direction as usize];
                *feeder = Some(if feeder.is_none_or(|known| known == from) { from } else { HERE });
                match from {
                    HERE => first_hop[index] = direction,
                    _ => next_hop[from as usize * paths + index] = direction,
                }
                from = direction;
            }
        }
        let is_raw = |index: u32| matches!(self.directions[index as usize].kind, Kind::Raw(_));
        let is_chained: Vec<bool> = (0..self.directions.len())
            .map(|index| {
                is_raw(index as u32)
                    && self.directions[index].near_agent == NO_AGENT
                    && feeders[index].is_some_and(|from| {
                        from != HERE
                            && is_raw(from)
                            && self.directions[from as usize].far_agent == NO_AGENT
                    })
            })
            .collect();
        self.find_sinks();
        self.classify();
        // Only who can ever have a deadline gets a place in the table.
        let mut machines = Vec::new();
        for (index, direction) in self.directions.iter_mut().enumerate() {
            let surfaces = self.paths.iter().enumerate().any(|(path, known)| {
                let next = next_hop[index * paths + path];
                let waits = !matches!(known.listener, Listener::Sink { .. });
                known.directions.contains(&(index as u32))
                    && if next == HERE { waits } else { !is_chained[next as usize] }
            });
            direction.is_chained = is_chained[index];
            direction.machine = machines.len();
            match direction.kind {
                Kind::Raw(_) if surfaces => machines.push(Machine::Arrival(index as u32)),
                Kind::Raw(_) => direction.machine = Deadlines::NOBODY,
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
        // The last one, so that the table can forget it when every flow has started.
        machines.push(Machine::Start);
        let mut starts: Vec<u32> = (0..self.flows.len() as u32).collect();
        starts.sort_by_key(|&index| std::cmp::Reverse((self.flows[index as usize].start, index)));
        let mut deadlines = Deadlines::new(machines.len());
        if let Some(&first) = starts.last() {
            deadlines.set(machines.len() - 1, self.flows[first as usize].start);
        }
        World {
            now: Instant::ZERO,
            deadlines,
            machines,
            directions: self.directions,
            next_hop,
            first_hop,
            listeners: self.paths.iter().map(|path| path.listener).collect(),
            connections: self.pairs,
            flows: self.flows,
            agents: self.agents,
            radios: self.radios,
            starts,
            unfinished: self.unfinished,
            probe,
            events: 0,
        }
    }
}
