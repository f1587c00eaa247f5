//! Agents in the world: where packets meet them.
//!
//! An agent sits where a direction begins. Packets enter that direction through it, and packets
//! that came over the opposite one pass it before they go on. Both must happen in the order of
//! time, so that nothing is computed past an agent: see [`Builder::build`](super::builder::Builder).

use super::direction::{Direction, Kind};
use super::hops::Hop;
use super::probe::{Event, Probe};
use super::world::{Pair, World};
use crate::agent::{AdaptivePersistence, Agent, Batch, Snoop, Verdict};
use crate::link::{Endpoint, LinkCounters};
use crate::packet::Packet;
use crate::tcp::SenderCounters;
use crate::units::{Duration, Instant};

/// No agent is here.
pub(super) const NO_AGENT: u32 = u32::MAX;

/// The path's packets are nobody's business.
pub(super) const UNWATCHED: u32 = u32::MAX;

/// An agent and where it sits.
#[derive(Clone, Debug)]
pub(super) struct Seat {
    pub agent: Occupant,
    /// The direction that begins here.
    pub direction: u32,
    /// Its deadline.
    pub machine: usize,
    /// The connection that each path belongs to, by the agent's numbers.
    pub connections: Vec<u32>,
}

/// What sits there.
#[derive(Clone, Debug)]
pub(super) enum Occupant {
    Snoop(Snoop<Packet>),
    Persistence(Box<Persistence>),
}

/// When adaptive persistence computes a new limit.
#[derive(Clone, Copy, Debug)]
pub struct UpdateInterval {
    /// After so many packets that enter the direction, at least 1.
    pub packets: u64,
    /// At the latest so long after the first packet since the last time, above 0.
    pub time: Duration,
}

/// Adaptive persistence, and what it has seen of the counters that it reads.
#[derive(Clone, Debug)]
pub(super) struct Persistence {
    controller: AdaptivePersistence,
    interval: UpdateInterval,
    /// Connections whose data pass here, and which end of each sends them.
    senders: Vec<(u32, usize)>,
    seen_end_to_end: Batch,
    seen_link: Batch,
    /// Packets since the latest update, and when the next is due without more of them.
    entered: u64,
    deadline: Instant,
    /// Packets before the latest update, and the sum of the limits that they met.
    packets: u64,
    limits: u64,
}

/// What was counted since `seen`, which moves on.
fn since(seen: &mut Batch, now: Batch) -> Batch {
    let earlier = std::mem::replace(seen, now);
    Batch { packets: now.packets - earlier.packets, lost: now.lost - earlier.lost }
}

impl Persistence {
    /// Gives its first limit to the endpoint that transmits on `direction`, which it governs.
    pub fn new(
        controller: AdaptivePersistence,
        interval: UpdateInterval,
        senders: Vec<(u32, usize)>,
        direction: &mut Direction,
    ) -> Self {
        debug_assert!(interval.packets > 0 && interval.time > Duration::ZERO, "time goes on");
        if let Kind::Arq(arq) = &mut direction.kind {
            arq.endpoint.limit_transmissions(Some(controller.limit()));
        }
        Persistence {
            controller,
            interval,
            senders,
            seen_end_to_end: Batch::default(),
            seen_link: Batch::default(),
            entered: 0,
            deadline: Instant::NEVER,
            packets: 0,
            limits: 0,
        }
    }

    /// A packet enters. Is an update due?
    fn on_packet(&mut self, now: Instant) -> bool {
        self.entered += 1;
        if self.deadline == Instant::NEVER {
            self.deadline = now + self.interval.time;
        }
        self.entered >= self.interval.packets
    }

    /// Packets so far, and the sum of the limits that they met.
    fn totals(&self) -> (u64, u64) {
        let limits = self.limits + self.entered * u64::from(self.controller.limit());
        (self.packets + self.entered, limits)
    }

    /// Reads the counters and sets a new limit. While nothing enters, the next one is not due.
    fn update(&mut self, connections: &[Pair], direction: &mut Direction) {
        let Kind::Arq(arq) = &mut direction.kind else { return };
        let LinkCounters { packets, packets_abandoned: lost, .. } = arq.endpoint.counters();
        let link = since(&mut self.seen_link, Batch { packets, lost });
        let sum = |sum: Batch, &(connection, end): &(u32, usize)| {
            let SenderCounters { segments_sent, retransmissions, losses_declared, .. } =
                connections[connection as usize].ends[end].counters();
            Batch {
                packets: sum.packets + (segments_sent - retransmissions),
                lost: sum.lost + losses_declared,
            }
        };
        let total = self.senders.iter().fold(Batch::default(), sum);
        let end_to_end = since(&mut self.seen_end_to_end, total);
        (self.packets, self.limits) = self.totals();
        self.entered = 0;
        self.deadline = Instant::NEVER;
        let limit = self.controller.update(end_to_end, link);
        arq.endpoint.limit_transmissions(Some(limit));
    }
}

impl<P: Probe> World<P> {
    /// A packet enters a direction that begins at agent `seat`.
    #[cold]
    pub(super) fn send_past(&mut self, seat: u32, packet: &Packet) {
        let now = self.now;
        let hop = packet.hop;
        let Hop { direction, service, path, .. } = self.hops[hop as usize];
        let Seat { agent, connections, .. } = &mut self.agents[seat as usize];
        let agent = match agent {
            Occupant::Snoop(agent) => agent,
            Occupant::Persistence(persistence) => {
                let is_due = persistence.on_packet(now);
                self.enter(hop, now, packet, true);
                return self.update_persistence(seat, is_due);
            }
        };
        let connection = connections[path as usize];
        if connection == UNWATCHED {
            return self.enter(hop, now, packet, true);
        }
        let has_room = self.directions[direction as usize].has_spare_room(now, service, packet);
        if agent.down(now, connection as usize, packet, has_room) == Verdict::Forward {
            self.enter(hop, now, packet, true);
        }
        self.settle(seat);
    }

    /// A packet came over the direction that ends at agent `seat`.
    #[cold]
    pub(super) fn forward_past(&mut self, seat: u32, packet: &Packet) {
        let now = self.now;
        let path = self.hops[packet.hop as usize].path;
        let Seat { agent: Occupant::Snoop(agent), connections, .. } =
            &mut self.agents[seat as usize]
        else {
            return self.pass_on(packet, true);
        };
        let connection = connections[path as usize];
        if connection == UNWATCHED {
            return self.pass_on(packet, true);
        }
        if agent.up(now, connection as usize, packet) == Verdict::Forward {
            self.pass_on(packet, true);
        }
        self.settle(seat);
    }

    /// An agent's deadline may have come.
    #[cold]
    pub(super) fn on_agent_timer(&mut self, seat: u32) {
        let now = self.now;
        match &mut self.agents[seat as usize].agent {
            Occupant::Snoop(agent) => {
                agent.handle_timeout(now);
                self.settle(seat);
            }
            Occupant::Persistence(persistence) => {
                let is_due = persistence.deadline <= now;
                self.update_persistence(seat, is_due);
            }
        }
    }

    /// Updates the limit if that is due, and notes the seat's deadline.
    fn update_persistence(&mut self, seat: u32, is_due: bool) {
        let Seat { agent: Occupant::Persistence(persistence), direction, machine, .. } =
            &mut self.agents[seat as usize]
        else {
            return;
        };
        if is_due {
            persistence.update(&self.connections, &mut self.directions[*direction as usize]);
        }
        self.deadlines.set(*machine, persistence.deadline);
        if is_due {
            // The endpoint may have given something up, and may want to say so.
            let direction = *direction;
            self.on_transmit(direction);
        }
    }

    /// Does what an agent wants done.
    fn settle(&mut self, seat: u32) {
        let now = self.now;
        loop {
            let Seat { agent: Occupant::Snoop(agent), direction, machine, .. } =
                &mut self.agents[seat as usize]
            else {
                return;
            };
            let direction = *direction;
            while let Some(event) = agent.poll_event() {
                if P::ACTIVE {
                    self.probe.record(now, Event::Agent { direction, event });
                }
            }
            let Some(packet) = agent.poll_down() else {
                return self.deadlines.set(*machine, agent.next_timeout());
            };
            self.enter(packet.hop, now, &packet, true);
        }
    }

    /// Reports every agent's counters; `links` are the names of the links.
    pub(super) fn agent_metrics(
        &self,
        links: &[String],
        report: &mut dyn FnMut(&str, &'static str, f64),
    ) {
        for seat in &self.agents {
            let entity = format!("agent.{}", links[seat.direction as usize / 2]);
            match &seat.agent {
                Occupant::Snoop(agent) => {
                    let counters = agent.counters();
                    report(&entity, "cached", counters.cached as f64);
                    report(&entity, "local_retransmissions", counters.local_retransmissions as f64);
                    report(&entity, "local_timeouts", counters.local_timeouts as f64);
                    report(&entity, "suppressed_acks", counters.suppressed_acks as f64);
                }
                Occupant::Persistence(persistence) => {
                    let (packets, limits) = persistence.totals();
                    let controller = &persistence.controller;
                    // NaN if no packet has met a limit.
                    report(&entity, "limit_mean", limits as f64 / packets as f64);
                    report(&entity, "limit_last", f64::from(controller.limit()));
                    report(&entity, "p_estimate", controller.end_to_end_loss());
                    report(&entity, "p_w_estimate", controller.link_loss());
                }
            }
        }
    }
}
