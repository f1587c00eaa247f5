//! Agents in the world: where packets meet them.
//!
//! Agents sit where a direction begins. Packets enter that direction through them, in their order,
//! and packets that came over the opposite one pass them in the opposite order before they go on.
//! Both must happen in the order of time, so that nothing is computed past an agent: see
//! [`Builder::build`](super::builder::Builder).

use super::deadlines::MachineId;
use super::direction::Medium;
use super::hops::Hop;
use super::ids::{ConnectionId, DirectionId, LineId, SeatId};
use super::probe::{Event, Probe};
use super::wlan::Shared;
use super::world::World;
use crate::agent::{Agent, AgentMachine, Batch, Crossing, LinkFate, Verdict};
use crate::transport::{End, Losses, Transport};
use lasthop_base::packet::{Descriptor, Extension};
use lasthop_base::schema::metrics::ReportFor;
use lasthop_link::link::{Endpoint, LinkCounters};

/// An agent and where it sits.
#[derive(Clone, Debug)]
pub(super) struct Seat<X: Extension> {
    pub agent: AgentMachine<Descriptor<X>>,
    /// What it is called in results.
    pub name: String,
    /// The direction that begins here.
    pub direction: DirectionId,
    /// Its deadline.
    pub machine: MachineId,
    /// The agent that packets meet next on their way into the direction.
    pub below: Option<SeatId>,
    /// The agent that packets from the opposite direction meet next.
    pub above: Option<SeatId>,
    /// The connection that each path belongs to, by the agent's numbers.
    pub connections: Vec<Option<u32>>,
    /// The senders whose losses it is given.
    pub senders: Vec<(ConnectionId, End)>,
}

impl<P: Probe, X: Extension> World<P, X> {
    /// A packet meets agent `seat` on its way into the direction that begins there.
    #[cold]
    pub(super) fn send_past(&mut self, seat: SeatId, packet: &Descriptor<X>) {
        let now = self.now;
        let Hop { direction, service, path, .. } = self.hops[packet.hop as usize];
        let mut packet = *packet;
        let has_room = self.has_spare_room(direction, service, &packet);
        let Seat { agent, connections, .. } = &mut self.agents[seat.index()];
        let connection = connections[path.index()].map(|connection| connection as usize);
        if connection.is_none() && !agent.watches_all() {
            return self.send_below(seat, &packet);
        }
        let crossing = Crossing { connection, has_room };
        if agent.down(now, crossing, &mut packet) == Verdict::Forward {
            self.send_below(seat, &packet);
        }
        self.settle(seat);
    }

    /// A packet that agent `seat` lets pass or sends itself goes on towards the link.
    fn send_below(&mut self, seat: SeatId, packet: &Descriptor<X>) {
        match self.agents[seat.index()].below {
            Some(below) => self.send_past(below, packet),
            None => self.enter_past_agents(packet),
        }
    }

    /// A packet that came over the direction that ends at agent `seat` meets it.
    #[cold]
    pub(super) fn forward_past(&mut self, seat: SeatId, packet: &Descriptor<X>) {
        let now = self.now;
        let path = self.hops[packet.hop as usize].path;
        let mut packet = *packet;
        let Seat { agent, connections, .. } = &mut self.agents[seat.index()];
        let connection = connections[path.index()].map(|connection| connection as usize);
        if connection.is_none() && !agent.watches_all() {
            return self.forward_above(seat, &packet);
        }
        if agent.up(now, connection, &mut packet) == Verdict::Forward {
            self.forward_above(seat, &packet);
        }
        self.settle(seat);
    }

    /// The link layer reports on a packet that went down `direction`.
    #[cold]
    pub(super) fn report_fate(
        &mut self,
        direction: DirectionId,
        fate: LinkFate,
        packet: &Descriptor<X>,
    ) {
        let now = self.now;
        let path = self.hops[packet.hop as usize].path;
        let mut next = self.directions[direction.index()].near_agent;
        while let Some(seat) = next {
            let Seat { agent, connections, below, .. } = &mut self.agents[seat.index()];
            next = *below;
            let connection = connections[path.index()].map(|connection| connection as usize);
            if agent.wants_link_reports() && (connection.is_some() || agent.watches_all()) {
                agent.on_link(now, connection, fate, packet);
                self.settle(seat);
            }
        }
    }

    /// What an agent sends over `wanted` or has got over it, and has made from a packet that crosses its link the other way, takes
    /// the way back of that packet's path from there on.
    fn turn_around(&self, wanted: DirectionId, packet: &mut Descriptor<X>) {
        let Hop { direction, listener, .. } = self.hops[packet.hop as usize];
        if direction == wanted {
            return;
        }
        debug_assert!(direction == wanted.opposite(), "an agent has only seen packets of its link");
        let (connection, end) = listener.end();
        let first = self.connections[connection.index()].first_hops[end.index()];
        let mut back = (first..).zip(&self.hops[first as usize..]);
        let hop = back.find(|(_, hop)| hop.direction == wanted);
        let (hop, _) = hop.expect("an agent's link is crossed both ways");
        packet.hop = hop;
    }

    /// A packet that agent `seat` lets pass or sends itself goes on from the link.
    fn forward_above(&mut self, seat: SeatId, packet: &Descriptor<X>) {
        match self.agents[seat.index()].above {
            Some(above) => self.forward_past(above, packet),
            None => self.pass_on(&mut { *packet }, true),
        }
    }

    /// An agent's deadline may have come.
    #[cold]
    pub(super) fn on_agent_timer(&mut self, seat: SeatId) {
        self.agents[seat.index()].agent.handle_timeout(self.now);
        self.settle(seat);
    }

    /// Does what an agent wants done.
    pub(super) fn settle(&mut self, seat: SeatId) {
        let now = self.now;
        let has_changed_limit = self.agents[seat.index()].agent.wants_losses();
        if has_changed_limit {
            self.tell_losses(seat);
        }
        loop {
            let Seat { agent, direction, machine, .. } = &mut self.agents[seat.index()];
            let direction = *direction;
            while let Some(event) = agent.poll_event() {
                if P::ACTIVE {
                    self.probe.record(now, Event::Agent { direction, event });
                }
            }
            if let Some(mut packet) = agent.poll_down() {
                self.turn_around(direction, &mut packet);
                self.send_below(seat, &packet);
            } else if let Some(mut packet) = agent.poll_up() {
                self.turn_around(direction.opposite(), &mut packet);
                self.forward_above(seat, &packet);
            } else {
                self.deadlines.set(*machine, agent.next_timeout());
                break;
            }
        }
        if has_changed_limit {
            // The endpoint may have given something up, and may want to say so.
            let direction = self.agents[seat.index()].direction;
            self.serve(self.line_of(direction), direction.side());
        }
    }

    /// The line of an agent that asks for losses.
    fn line_of(&self, direction: DirectionId) -> LineId {
        match self.directions[direction.index()].medium {
            Medium::Line(line) => line,
            Medium::Fifo(_) | Medium::Shared(_) => {
                unreachable!("it sits on a link with a protocol")
            }
        }
    }

    /// Would a packet that enters a direction now leave room for another one like it?
    fn has_spare_room(
        &mut self,
        direction: DirectionId,
        service: u8,
        packet: &Descriptor<X>,
    ) -> bool {
        match &mut self.directions[direction.index()].medium {
            Medium::Fifo(fifo) => fifo.queue.has_spare_room(self.now, packet.bytes),
            Medium::Line(line) => {
                let end = self.lines[line.index()].end(direction.side());
                end.has_spare_room(self.now, service, packet)
            }
            Medium::Shared(Shared { air, pair, .. }) => {
                self.airs[air.index()].medium.has_spare_room(self.now, *pair, packet)
            }
        }
    }

    /// Tells an agent what transports and the link have lost, and the link's endpoint its new limit.
    fn tell_losses(&mut self, seat: SeatId) {
        let direction = self.agents[seat.index()].direction;
        let line = self.line_of(direction);
        let end = self.lines[line.index()].end_mut(direction.side());
        let LinkCounters { packets, packets_abandoned: lost, .. } = end.limited_counters();
        let Seat { agent, senders, .. } = &mut self.agents[seat.index()];
        let connections = &self.connections;
        let sum = |sum: Batch, &(connection, end): &(ConnectionId, End)| {
            let Losses { sent, lost } = connections[connection.index()].transport.losses(end);
            Batch { packets: sum.packets + sent, lost: sum.lost + lost }
        };
        let end_to_end = senders.iter().fold(Batch::default(), sum);
        agent.on_losses(end_to_end, Batch { packets, lost });
        end.interface.endpoint.limit_transmissions(agent.transmission_limit());
    }

    /// Reports every agent's counters.
    pub(super) fn agent_metrics(&self, report: &mut ReportFor<'_>) {
        for seat in &self.agents {
            let entity = format!("agent.{}", seat.name);
            seat.agent.metrics(&mut |metric, value| report(&entity, metric, value));
        }
    }
}
