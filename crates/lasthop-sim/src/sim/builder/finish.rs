//! The last step of construction: assignment of timers, and the world.

use super::Builder;
use crate::app::StreamApplication;
use crate::sim::ahead::ComputedEvents;
use crate::sim::deadlines::{Deadlines, MachineId};
use crate::sim::direction::{Direction, Medium};
use crate::sim::hops::{Entry, Hop, Listener, Then};
use crate::sim::horizon::{look_interval, replay_slice};
use crate::sim::ids::{
    AirId, ConnectionId, DirectionId, FlowId, LineId, RadioId, SeatId, Side, SourceId,
};
use crate::sim::line::{Line, LineEnd};
use crate::sim::probe::Probe;
use crate::sim::sharing::Sharing;
use crate::sim::traffic::{App, Carrier};
use crate::sim::world::{Connection, Machine, Progress, World};
use crate::transport::{CarriesStreams, End, Reaction, Transport, TransportMachine};
use lasthop_base::packet::Extension;
use lasthop_base::units::Instant;
use std::collections::VecDeque;

/// The machines of a world that can have a deadline.
struct Machines(Vec<Machine>);

impl Machines {
    fn add(&mut self, machine: Machine) -> MachineId {
        self.0.push(machine);
        MachineId::new(self.0.len() - 1)
    }
}

/// Returns, for each direction, whether its arrivals are handled as events.
fn surfaces(directions: usize, hops: &[Hop]) -> Vec<bool> {
    let mut surfaces = vec![false; directions];
    for hop in hops {
        surfaces[hop.direction.index()] |= match hop.then {
            Then::Arrive => !matches!(hop.listener, Listener::Sink { .. }),
            Then::Forward => true,
            Then::Chain => false,
        };
    }
    surfaces
}

impl<X: Extension> Builder<X> {
    /// Builds the world.
    pub fn build<P: Probe>(mut self, probe: P) -> World<P, X> {
        self.find_chains();
        self.find_sinks();
        self.find_ahead();
        let immediate = if P::ACTIVE { Vec::new() } else { self.find_immediate() };
        let hops = self.compile_hops();
        for known in &mut self.connections {
            let enters = |hop: u32| hops[hop as usize].entry == Entry::Fifo;
            known.enters_computed = known.first_hops.map(enters);
        }
        let surfaces = surfaces(self.directions.len(), &hops);
        if P::ACTIVE {
            self.airs.iter_mut().for_each(|air| air.medium.report_events());
        } else {
            self.find_feeders(&hops);
            self.find_passive_ends(&hops);
            self.find_closed_lines(&hops);
        }
        // Machines that every packet reschedules precede the timers.
        let mut machines = Machines(Vec::new());
        self.add_frequent(&mut machines, &surfaces);
        let frequent = machines.0.len();
        self.add_timers(&mut machines);
        // The last machine, so that it can be removed when every flow has started.
        let start = machines.add(Machine::Start);
        let flows = self.flows.iter().enumerate();
        let mut starts: Vec<_> = flows
            .flat_map(|(index, flow)| {
                let start = (flow.start, false, FlowId::new(index));
                let stop = flow.stop.map(|at| (at, true, FlowId::new(index)));
                std::iter::once(start).chain(stop)
            })
            .collect();
        starts.sort_by_key(|&change| std::cmp::Reverse(change));
        let rare = machines.0.len() - frequent;
        let mut deadlines = Deadlines::keeping_first(!self.airs.is_empty(), frequent, rare);
        if let Some(&first) = starts.last() {
            deadlines.set(start, first.0);
        }
        let radios = self.radios.iter();
        let most_stations = radios.map(|radio| radio.stations.len()).max().unwrap_or(0);
        let look_interval = look_interval(most_stations);
        World {
            now: Instant::ZERO,
            ticket: 0,
            caught_up: Instant::ZERO,
            replay_slice: replay_slice(self.replay_rate()),
            deadlines,
            ahead: ComputedEvents::default(),
            machines: machines.0,
            sharing: self.sharing(),
            reported: vec![0; if P::ACTIVE { self.directions.len() } else { 0 }],
            directions: self.directions,
            lines: self.lines,
            hops,
            connections: self.connections,
            flows: self.flows,
            sources: self.sources,
            immediate,
            agents: self.agents,
            radios: self.radios,
            airs: self.airs,
            starts,
            unfinished: self.unfinished,
            attention: Instant::ZERO,
            wake: Instant::ZERO,
            damaged: VecDeque::new(),
            up: Vec::new(),
            horizon_due: Instant::NEVER,
            until_look: look_interval,
            look_interval,
            looked_at: 0,
            probe,
        }
    }

    /// Determines the sources of datagrams over UDP. Returns them by connection.
    fn find_immediate(&mut self) -> Vec<Option<SourceId>> {
        let mut immediate = vec![None; self.connections.len()];
        for flow in &self.flows {
            if let App::Datagrams { source, connection, .. } = flow.app {
                let Connection { transport, first_hops, .. } =
                    &self.connections[connection.index()];
                if matches!(transport, TransportMachine::Udp(_)) {
                    let first_hop = first_hops[End::Opener.index()];
                    self.sources[source.index()].carrier = Carrier::Udp { first_hop };
                    immediate[connection.index()] = Some(source);
                }
            }
        }
        immediate
    }

    /// Adds the machines that every packet reschedules. Media are the first ones: each packet
    /// reschedules them several times.
    fn add_frequent(&mut self, machines: &mut Machines, surfaces: &[bool]) {
        for (index, air) in self.airs.iter_mut().enumerate() {
            air.machine = machines.add(Machine::Air(AirId::new(index)));
        }
        for (index, direction) in self.directions.iter_mut().enumerate() {
            let direction_id = DirectionId::new(index);
            match &mut direction.medium {
                Medium::Fifo(fifo) if surfaces[index] => {
                    fifo.machine = Some(machines.add(Machine::Arrival(direction_id)));
                }
                Medium::Fifo(_) => {}
                Medium::Line(line) if direction_id.side() == Side::Forward => {
                    let known = &mut self.lines[line.index()];
                    if known.station.is_none() {
                        known.machine = machines.add(Machine::Line(*line));
                    }
                }
                Medium::Line(_) | Medium::Shared(_) => {}
            }
        }
        for flow in &mut self.flows {
            if let App::Datagrams { source, machine, .. } = &mut flow.app {
                *machine = machines.add(Machine::Datagrams(*source));
            }
        }
        for (index, radio) in self.radios.iter_mut().enumerate() {
            radio.close(machines.add(Machine::Radio(RadioId::new(index))));
        }
    }

    /// Adds the machines with timers, and determines which progress each connection reports.
    fn add_timers(&mut self, machines: &mut Machines) {
        for (index, line) in self.lines.iter_mut().enumerate() {
            if line.station.is_some() {
                line.machine = machines.add(Machine::Line(LineId::new(index)));
            }
        }
        for (index, known) in self.connections.iter_mut().enumerate() {
            let connection = ConnectionId::new(index);
            let Connection { transport, flow, .. } = known;
            known.progress = match &self.flows[flow.index()].app {
                App::Streams(app) if app.application.is_followed() => {
                    transport.follow();
                    Progress::Followed
                }
                App::Streams(app)
                    if app.application.is_transfer() || transport.features().is_simplex =>
                {
                    Progress::Acknowledged
                }
                _ => Progress::Delivered,
            };
            let features = transport.features();
            known.machines = End::BOTH.map(|end| {
                let machine = Machine::Transport { connection, end };
                let has_timers = features.has_timers && features.reaction(end) == Reaction::Acts;
                has_timers.then(|| machines.add(machine))
            });
        }
        for (index, seat) in self.agents.iter_mut().enumerate() {
            seat.machine = machines.add(Machine::Agent(SeatId::new(index)));
        }
        for (index, flow) in self.flows.iter_mut().enumerate() {
            if let App::Streams(app) = &mut flow.app
                && app.application.has_timers()
            {
                app.machine = Some(machines.add(Machine::Application(FlowId::new(index))));
            }
        }
    }

    /// Returns the number of steps per second of replayed traffic and channels.
    fn replay_rate(&self) -> f64 {
        let fifos = self.directions.iter().filter_map(Direction::fifo);
        let ends = self.lines.iter().flat_map(Line::ends);
        fifos.map(|fifo| fifo.queue.replay_rate()).sum::<f64>()
            + ends.map(LineEnd::replay_rate).sum::<f64>()
            + self.airs.iter().map(|air| air.medium.replay_rate()).sum::<f64>()
    }

    /// Returns what measures the time to fairness of the file transfers.
    fn sharing(&self) -> Option<Box<Sharing>> {
        Sharing::of(self.flows.iter().filter_map(|flow| match &flow.app {
            App::Streams(app) if app.application.size() > 0 => Some(app.streams[0].connections[0]),
            App::Streams(_) | App::Datagrams { .. } | App::Background { .. } => None,
        }))
    }
}
