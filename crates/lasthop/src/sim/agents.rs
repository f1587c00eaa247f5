//! Agents in the world: where packets meet them.
//!
//! An agent sits where a direction begins. Packets enter that direction through it, and packets
//! that came over the opposite one pass it before they go on. Both must happen in the order of
//! time, so that nothing is computed past an agent: see [`Builder::build`](super::builder::Builder).

use super::probe::{Event, Probe};
use super::world::World;
use crate::agent::{Agent, Snoop, Verdict};
use crate::packet::Packet;

/// No agent is here.
pub(super) const NO_AGENT: u32 = u32::MAX;

/// The path's packets are nobody's business.
pub(super) const UNWATCHED: u32 = u32::MAX;

/// An agent and where it sits.
#[derive(Clone, Debug)]
pub(super) struct Seat {
    pub agent: Snoop<Packet>,
    /// The direction that begins here.
    pub direction: u32,
    /// Its deadline.
    pub machine: usize,
    /// The connection that each path belongs to, by the agent's numbers.
    pub connections: Vec<u32>,
}

impl<P: Probe> World<P> {
    /// A packet enters a direction that begins at agent `seat`.
    #[cold]
    pub(super) fn send_past(&mut self, seat: u32, direction: u32, packet: &Packet) {
        let now = self.now;
        let Seat { agent, connections, .. } = &mut self.agents[seat as usize];
        let connection = connections[packet.path as usize];
        if connection == UNWATCHED {
            return self.enter(direction, now, packet, true);
        }
        let has_room = self.directions[direction as usize].has_spare_room(now, packet);
        if agent.down(now, connection as usize, packet, has_room) == Verdict::Forward {
            self.enter(direction, now, packet, true);
        }
        self.settle(seat);
    }

    /// A packet came over the direction that ends at agent `seat`.
    #[cold]
    pub(super) fn forward_past(&mut self, seat: u32, direction: u32, packet: &Packet) {
        let now = self.now;
        let Seat { agent, connections, .. } = &mut self.agents[seat as usize];
        let connection = connections[packet.path as usize];
        if connection == UNWATCHED {
            return self.pass_on(direction, packet, true);
        }
        if agent.up(now, connection as usize, packet) == Verdict::Forward {
            self.pass_on(direction, packet, true);
        }
        self.settle(seat);
    }

    /// An agent's deadline may have come.
    #[cold]
    pub(super) fn on_agent_timer(&mut self, seat: u32) {
        let now = self.now;
        self.agents[seat as usize].agent.handle_timeout(now);
        self.settle(seat);
    }

    /// Does what an agent wants done.
    fn settle(&mut self, seat: u32) {
        let now = self.now;
        let direction = self.agents[seat as usize].direction;
        while let Some(event) = self.agents[seat as usize].agent.poll_event() {
            if P::ACTIVE {
                self.probe.record(now, Event::Agent { direction, event });
            }
        }
        while let Some(packet) = self.agents[seat as usize].agent.poll_down() {
            self.enter(direction, now, &packet, true);
        }
        let Seat { agent, machine, .. } = &self.agents[seat as usize];
        self.deadlines.set(*machine, agent.next_timeout());
    }

    /// Reports every agent's counters; `links` are the names of the links.
    pub(super) fn agent_metrics(
        &self,
        links: &[String],
        report: &mut dyn FnMut(&str, &'static str, f64),
    ) {
        for seat in &self.agents {
            let entity = format!("agent.{}", links[seat.direction as usize / 2]);
            let counters = seat.agent.counters();
            report(&entity, "cached", counters.cached as f64);
            report(&entity, "local_retransmissions", counters.local_retransmissions as f64);
            report(&entity, "local_timeouts", counters.local_timeouts as f64);
            report(&entity, "suppressed_acks", counters.suppressed_acks as f64);
        }
    }
}
