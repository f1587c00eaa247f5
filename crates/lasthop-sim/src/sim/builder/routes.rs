//! Properties derived from the paths of all flows: chained directions, computed acceptors, feeders,
//! and the hop records.

use super::{Builder, Path};
use crate::agent::Agent;
use crate::app::StreamApplication;
use crate::sim::agents::Seat;
use crate::sim::direction::{Direction, Medium};
use crate::sim::hops::{Arrival, Entry, Hop, Listener, Step, Then};
use crate::sim::ids::{ConnectionId, DirectionId, PathId, SeatId, Side};
use crate::sim::line::Line;
use crate::sim::traffic::App;
use crate::sim::world::Connection;
use crate::transport::{End, Reaction, Transport};
use lasthop_base::packet::Extension;

/// The source of the packets of a direction; in [`Builder::find_feeders`], their destination.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Feeder {
    Nothing,
    Direction(DirectionId),
    /// A host, background traffic, or several directions.
    Others,
}

/// Users of a direction as the first of their path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Users {
    Nobody,
    /// Only acceptors that can be computed and whose data arrives over this single direction.
    Acceptors(DirectionId),
    Others,
}

impl<X: Extension> Builder<X> {
    /// Returns the source of the packets of each direction.
    fn sources(&self) -> Vec<Feeder> {
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
        feeders
    }

    /// Finds the chained directions: all packets that enter them have crossed one computed
    /// direction.
    pub(super) fn find_chains(&mut self) {
        let is_chained: Vec<bool> = self
            .sources()
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

    /// Replaces the listeners of transfer acceptors that only answer by [`Listener::Sink`]. This
    /// requires that all packets entering the reverse path are answers of such acceptors, and that
    /// these receive all packets over one computed direction. Acknowledgments then enter the
    /// reverse path in order. No agent may be attached at the acceptor, because it would have to
    /// inspect the packets in time order.
    pub(super) fn find_sinks(&mut self) {
        let fifo = |direction: DirectionId| self.directions[direction.index()].fifo();
        let direction = |index: DirectionId| &self.directions[index.index()];
        let ends = |path: &Path| [path.first, path.last].map(|hop| self.hops[hop as usize]);
        // The last direction of the data and the first direction of the answers of such an
        // acceptor.
        let candidate = |(known, &[there, back]): (&Connection, &[PathId; 2])| {
            let [[_, last], [first, _]] = [there, back].map(|path| ends(&self.paths[path.index()]));
            let app = &self.flows[known.flow.index()].app;
            let suits = matches!(app, App::Streams(app) if app.application.is_transfer())
                && known.transport.features().acceptor == Reaction::Answers
                && fifo(last).is_some()
                && fifo(first).is_some_and(|fifo| !fifo.queue.has_background())
                && direction(last).far_agent.is_none()
                && direction(first).near_agent.is_none();
            suits.then_some([last, first])
        };
        let candidates: Vec<_> =
            self.connections.iter().zip(&self.connection_paths).map(candidate).collect();
        let mut data_come_over = vec![None; self.paths.len()];
        for (found, paths) in candidates.iter().zip(&self.connection_paths) {
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
                let path = self.connection_paths[connection][0];
                let connection = ConnectionId::new(connection);
                self.paths[path.index()].listener = Listener::Sink { connection };
            }
        }
    }

    /// Finds the directions that are offered packets ahead of the clock, which must keep the
    /// outcomes of the latest packets. These are the chained ones, and the first on the reverse
    /// path of a [`Listener::Sink`].
    pub(super) fn find_ahead(&mut self) {
        let is_chained =
            |direction: &Direction<X>| direction.fifo().is_some_and(|fifo| fifo.is_chained);
        let mut is_ahead: Vec<bool> = self.directions.iter().map(is_chained).collect();
        for path in &self.paths {
            if let Listener::Sink { connection } = path.listener {
                let back = &self.paths[self.connection_paths[connection.index()][1].index()];
                is_ahead[self.hops[back.first as usize].index()] = true;
            }
        }
        for (direction, is_ahead) in self.directions.iter_mut().zip(is_ahead) {
            if let (Medium::Fifo(fifo), true) = (&mut direction.medium, is_ahead) {
                fifo.queue.run_ahead();
            }
        }
    }

    /// Finds the computed directions whose packets all continue to the same end of a line, without
    /// an agent in between.
    pub(super) fn find_feeders(&mut self, hops: &[Hop]) {
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

    /// Finds the lines with a passive end. All packets that it delivers are data of transfers, for
    /// acceptors that only answer, and all packets that it sends are these answers. Without agents,
    /// delivery reports and services, its state depends only on the frames that it receives.
    pub(super) fn find_passive_ends(&mut self, hops: &[Hop]) {
        let is_answering = |connection: ConnectionId| {
            let known = &self.connections[connection.index()];
            let app = &self.flows[known.flow.index()].app;
            matches!(app, App::Streams(app) if app.application.is_transfer())
                && known.transport.features().acceptor == Reaction::Answers
        };
        let suits = |hop: &Hop, line: &Line<X>, end: Side| {
            if hop.direction == line.direction(end) {
                // An answer, sent by the host at this end.
                let connection = hop.listener.connection();
                let back = &self.paths[self.connection_paths[connection.index()][1].index()];
                matches!(hop.entry, Entry::Line(_))
                    && is_answering(connection)
                    && hop.place == back.first
            } else {
                hop.far_agent.is_none()
                    && matches!(hop.listener, Listener::Answering { connection } if is_answering(connection))
                    && hop.then == Then::Arrive
            }
        };
        let mut by_link: Vec<_> = hops.iter().collect();
        by_link.sort_by_key(|hop| hop.direction.link());
        let mut passive = Vec::with_capacity(self.lines.len());
        for line in &self.lines {
            let first = by_link.partition_point(|hop| hop.direction.link() < line.link());
            let later = &by_link[first..];
            let used = &later[..later.partition_point(|hop| hop.direction.link() == line.link())];
            let mut ends = Side::BOTH.into_iter().filter(|&end| line.can_be_passive(end));
            passive.push(
                ends.find(|&end| !used.is_empty() && used.iter().all(|hop| suits(hop, line, end))),
            );
        }
        for (line, end) in self.lines.iter_mut().zip(passive) {
            line.set_passive(end);
        }
    }

    /// Finds the lines that close while packets wait at the end opposite to their passive end. All
    /// packets that this end delivers enter a computed direction that no others enter.
    pub(super) fn find_closed_lines(&mut self, hops: &[Hop]) {
        let sources = self.sources();
        let continues = |hop: &Hop| {
            let Some(next) = hops.get(hop.place as usize + 1) else { return false };
            hop.then == Then::Forward
                && hop.far_agent.is_none()
                && next.entry == Entry::Hop
                && sources[next.direction.index()] == Feeder::Direction(hop.direction)
        };
        let mut onward = vec![Feeder::Nothing; self.directions.len()];
        for hop in hops {
            let next = match continues(hop) {
                true => Feeder::Direction(hops[hop.place as usize + 1].direction),
                false => Feeder::Others,
            };
            let known = &mut onward[hop.direction.index()];
            *known = if [Feeder::Nothing, next].contains(known) { next } else { Feeder::Others };
        }
        for line in &mut self.lines {
            if let Some(end) = line.passive()
                && let Feeder::Direction(next) = onward[line.direction(end).index()]
                && line.can_close(end)
            {
                line.close_before(next);
            }
        }
    }

    /// Creates one record per hop.
    pub(super) fn compile_hops(&self) -> Vec<Hop> {
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
                let step = match (then, listener) {
                    (Then::Forward | Then::Chain, _) => Step::Wait,
                    (Then::Arrive, Listener::Sink { connection }) => {
                        let [_, back] = self.connection_paths[connection.index()];
                        let first = self.paths[back.index()].first;
                        assert_eq!(first, hop + 1, "the reverse path of a sink follows");
                        Step::Answer { connection }
                    }
                    (Then::Arrive, Listener::Absorbing { connection }) => match far_agent {
                        None => Step::Absorb { connection },
                        Some(_) => Step::Wait,
                    },
                    (Then::Arrive, Listener::Acting { .. } | Listener::Answering { .. }) => {
                        Step::Wait
                    }
                };
                let arrival = match (then, far_agent, listener) {
                    (Then::Arrive, None, Listener::Acting { connection, end: End::Opener }) => {
                        Arrival::Opener { connection }
                    }
                    (Then::Arrive, None, Listener::Answering { connection }) => {
                        Arrival::Answering { connection }
                    }
                    _ => Arrival::Other,
                };
                let is_handled = match then {
                    Then::Forward => true,
                    Then::Chain => false,
                    Then::Arrive => {
                        matches!(listener, Listener::Acting { .. } | Listener::Answering { .. })
                    }
                };
                let entry = match (self.first_inspecting(near_agent), medium.entry()) {
                    (Some(seat), _) => Entry::Agent(seat),
                    (None, Entry::Fifo) if is_handled => Entry::Hop,
                    (None, entry) => entry,
                };
                let place = hops.len() as u32;
                hops.push(Hop {
                    place,
                    direction,
                    entry,
                    far_agent,
                    then,
                    step,
                    arrival,
                    service,
                    listener,
                    path,
                });
            }
        }
        hops
    }

    /// Returns the first agent that inspects packets entering a direction, from `agent` downwards.
    fn first_inspecting(&self, mut agent: Option<SeatId>) -> Option<SeatId> {
        while let Some(Seat { agent: machine, below, .. }) =
            agent.map(|seat| &self.agents[seat.index()])
            && !machine.inspects_sent()
        {
            agent = *below;
        }
        agent
    }

    /// Returns the index of the service, or of the access category, of a flow's packets on a direction.
    fn service(&self, direction: DirectionId, listener: Listener) -> u8 {
        let flow = self.connections[listener.connection().index()].flow;
        let line = match self.directions[direction.index()].medium {
            Medium::Line(line) => line,
            Medium::Shared(_) => return self.flows[flow.index()].category,
            Medium::Fifo(_) => return 0,
        };
        let end = self.lines[line.index()].end(direction.side());
        let wanted = self.flows[flow.index()].service.as_ref();
        let mut names = end.air.services.names.iter();
        let place = wanted.and_then(|wanted| names.position(|known| known == wanted));
        place.unwrap_or(0) as u8
    }
}
