//! Agents in the world: the packets that they inspect and send.
//!
//! Agents are attached to the start of a direction. Packets that enter the direction pass them in
//! order, from the uppermost one that inspects them to the lowest. Packets that were received over
//! the opposite direction pass them in reverse order before they are forwarded. Both must happen in
//! time order, so that no packet is computed past an agent: see
//! [`Builder::build`](super::builder::Builder).

use super::deadlines::MachineId;
use super::direction::Medium;
use super::hops::Hop;
use super::ids::{ConnectionId, DirectionId, LineId, SeatId};
use super::probe::{Event, Probe};
use super::world::World;
use crate::agent::{Agent, AgentMachine, Batch, Crossing, DeliveryReport, Verdict};
use crate::transport::{End, Losses, Observed};
use lasthop_base::packet::{Descriptor, Extension};
use lasthop_base::schema::metrics::ReportFor;
use lasthop_link::link::{Abilities, LinkCounters};

/// An agent and its place in the network.
#[derive(Clone, Debug)]
pub(super) struct Seat<X: Extension> {
    pub agent: AgentMachine<Descriptor<X>>,
    /// Its name in results.
    pub name: String,
    /// The direction at whose start it is attached.
    pub direction: DirectionId,
    /// The machine of its deadline.
    pub machine: MachineId,
    /// The next agent for packets that enter the direction.
    pub below: Option<SeatId>,
    /// The next agent for packets received over the opposite direction.
    pub above: Option<SeatId>,
    /// The connection number of each path, as the agent numbers connections.
    pub connections: Vec<Option<u32>>,
    /// The senders whose losses it receives.
    pub senders: Vec<(ConnectionId, End)>,
}

impl<P: Probe, X: Extension> World<P, X> {
    /// Passes a packet that enters a direction through agent `seat`.
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

    /// Forwards a packet towards the link. Agent `seat` has forwarded or created it.
    fn send_below(&mut self, seat: SeatId, packet: &Descriptor<X>) {
        match self.agents[seat.index()].below {
            Some(below) => self.send_past(below, packet),
            None => self.enter_past_agents(packet),
        }
    }

    /// Passes a packet received over the direction that ends at agent `seat` through that agent.
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

    /// Passes a delivery report of the link layer to the agents at the start of `direction` that
    /// are responsible for its connection.
    #[cold]
    pub(super) fn report_fate(
        &mut self,
        direction: DirectionId,
        fate: DeliveryReport,
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

    /// Moves a packet that an agent created from one of the opposite direction to the direction
    /// `wanted`. Its hop becomes that of the reverse path on `wanted`.
    fn turn_around(&self, wanted: DirectionId, packet: &mut Descriptor<X>) {
        let Hop { direction, listener, .. } = self.hops[packet.hop as usize];
        if direction == wanted {
            return;
        }
        debug_assert!(direction == wanted.opposite(), "agents only inspect packets of their link");
        let (connection, end) = listener.end();
        let first = self.connections[connection.index()].first_hops[end.index()];
        let mut back = (first..).zip(&self.hops[first as usize..]);
        let hop = back.find(|(_, hop)| hop.direction == wanted);
        let (hop, _) = hop.expect("both paths of the connection cross the agent's link");
        packet.hop = hop;
    }

    /// Forwards a packet received from the link. Agent `seat` has forwarded or created it.
    fn forward_above(&mut self, seat: SeatId, packet: &Descriptor<X>) {
        match self.agents[seat.index()].above {
            Some(above) => self.forward_past(above, packet),
            None => self.pass_on(&mut { *packet }, true),
        }
    }

    /// Handles an agent's deadline, which may have expired.
    #[cold]
    pub(super) fn on_agent_timer(&mut self, seat: SeatId) {
        self.agents[seat.index()].agent.handle_timeout(self.now);
        self.settle(seat);
    }

    /// Executes the pending actions of an agent: its events, packets and transmission limit.
    pub(super) fn settle(&mut self, seat: SeatId) {
        let now = self.now;
        let has_changed_limit = self.agents[seat.index()].agent.wants_losses();
        if has_changed_limit {
            self.report_losses(seat);
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
            // The endpoint may have discarded frames, and may have to notify its peer.
            let direction = self.agents[seat.index()].direction;
            self.serve(self.line_of(direction), direction.side());
        }
    }

    /// Returns the line of an agent that uses loss counts.
    fn line_of(&self, direction: DirectionId) -> LineId {
        match self.directions[direction.index()].medium {
            Medium::Line(line) => line,
            Medium::Fifo(_) | Medium::Shared(_) => {
                unreachable!("the agent is attached to a driven link")
            }
        }
    }

    /// Returns `true` if a packet that enters a direction now leaves room for another packet of
    /// equal size.
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
            Medium::Shared(shared) => {
                let pair = shared.pair(service);
                self.airs[shared.air.index()].medium.has_spare_room(self.now, pair, packet)
            }
        }
    }

    /// Passes the losses of transports and of the link to an agent, and its new transmission limit
    /// to the endpoint of the link.
    fn report_losses(&mut self, seat: SeatId) {
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
