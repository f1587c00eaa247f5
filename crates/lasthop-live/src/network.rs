//! All links of a scenario for real packets: sans-IO, driven by the wall clock, a recording or a fuzzer.
//!
//! # Contract
//!
//! All calls carry `now`, which never decreases.
//!
//! - a packet that a host sends over a link is passed to [`Network::input`], which first handles all
//!   deadlines before `now`. The packet precedes the deadlines at `now`, like datagrams in the simulator;
//! - at [`Network::next_timeout`] or later, the driver calls [`Network::advance`]. A driver that handles
//!   deadlines late calls it at [`Network::next_delivery`]: no packet is delivered earlier;
//! - after both, it drains [`Network::poll_delivery`] and, if frames are enabled,
//!   [`Network::drain_frames`].

use super::air::Airs;
use super::change::{Change, EndChange};
use super::link::{End, Link};
use super::meter::LinkMeter;
use super::outbox::{Delivery, FrameFate, Outbox};
use super::refusal::{self, Refused};
use lasthop_base::rng::Streams;
use lasthop_base::schema::metrics::{Ratio, ReportFor, metrics};
use lasthop_base::units::{Bytes, Duration, Instant};
use lasthop_link::interface::Interface;
use lasthop_link::link::{LinkEndpoint, ReceiverMetrics, SenderMetrics};
use lasthop_link::queue::{DisciplineMetrics, QueueMetrics, QueueSite};
use lasthop_sim::agent::{Agent, AgentSite};
use lasthop_sim::run::{link_site, service_endpoints};
use lasthop_sim::scenario::{self, Layers, LinkProtocol, Scenario};
use lasthop_sim::sim::deadlines::{Deadlines, MachineId};
use lasthop_sim::sim::ids::Side;
use lasthop_sim::sim::metrics::LoadMetrics;
use std::net::{Ipv4Addr, Ipv6Addr};

metrics! {
    /// Metrics of one direction of a live link.
    pub struct LiveMetrics {
        /// Packets delivered at the end of the link.
        packets_delivered: "Packets delivered", Count, Higher, Sum;
        /// Bits of packets delivered per second of the run.
        goodput_bps: "Goodput", BitsPerSecond, Higher, Sum;
        /// Frames that could not be parsed.
        unreadable_frames: "Unreadable frames", Count, Lower, Sum;
    }
}

/// Maximum virtual time after the end of a run in which packets in transit are delivered.
const IN_TRANSIT: Duration = Duration::from_secs(60);

/// The links of a scenario.
///
/// ```
/// use lasthop_base::rng::Streams;
/// use lasthop_live::Network;
/// use lasthop_sim::scenario::Scenario;
/// use std::path::Path;
///
/// let text = r#"
/// name = "live"
/// [link.air]
/// between = ["a", "b"]
/// rate = "2 Mbps"
/// delay = "20 ms"
/// protocol = "ideal-sr"
/// [flow.f]
/// from = "a"
/// to = "b"
/// transport = { kind = "udp" }
/// app = { kind = "media", rate = "8 kbps", packet = "100 B" }
/// [run]
/// duration = "1 s"
/// "#;
/// let links = |text: &str| {
///     let scenario = Scenario::from_toml(text, Path::new("."))?.points()?.remove(0).scenario;
///     Ok(Network::new(&scenario, Streams { seed: 1, replication: 0 }, None))
/// };
/// // Ideal selective repeat has no byte form.
/// let refused = links(text)?.unwrap_err();
/// assert_eq!(refused.key, "link.air.protocol");
/// assert_eq!(links(&text.replace("ideal-sr", "selective-repeat"))?.expect("links").len(), 1);
/// # Ok::<(), lasthop_base::schema::ScenarioError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Network {
    links: Vec<Link>,
    meters: Vec<LinkMeter>,
    mtus: Vec<u32>,
    /// The media of WLANs.
    airs: Airs,
    /// One deadline per link, and one per medium of WLANs.
    deadlines: Deadlines,
    /// A time for each link and medium before which it delivers no packet.
    wakes: Deadlines,
    outbox: Outbox,
    /// Time of the last call.
    now: Instant,
    refused: u64,
    /// Number of changes so far.
    changes: u64,
}

impl Network {
    /// Creates the links of `scenario`. Random numbers are those of replication
    /// `streams.replication` of a simulation, so that the losses are equal.
    ///
    /// # Errors
    /// If a part of the scenario is unsupported for real packets, or if the scenario is
    /// inconsistent.
    pub fn new(scenario: &Scenario, streams: Streams, mtu: Option<u32>) -> Result<Self, Refused> {
        refusal::check(scenario)?;
        let mut mtus = Vec::with_capacity(scenario.links.len());
        let mut links = Vec::with_capacity(scenario.links.len());
        for (index, link) in scenario.links.iter().enumerate() {
            let mtu = refusal::mtu(link, mtu)?;
            links.push(build(scenario, index, streams, mtu)?);
            mtus.push(mtu);
        }
        let airs = Airs::new(scenario, streams, &mtus)?;
        let mut network = Network {
            deadlines: Deadlines::new(links.len() + airs.len(), 0),
            wakes: Deadlines::new(links.len() + airs.len(), 0),
            airs,
            meters: vec![LinkMeter::default(); links.len()],
            links,
            mtus,
            outbox: Outbox::default(),
            now: Instant::ZERO,
            refused: 0,
            changes: 0,
        };
        for link in 0..network.links.len() {
            network.refresh_shared(Instant::ZERO, link);
            network.schedule(link);
        }
        Ok(network)
    }

    /// Returns the number of links.
    pub fn len(&self) -> usize {
        self.links.len()
    }

    /// Returns `true` if there are no links.
    pub fn is_empty(&self) -> bool {
        self.links.is_empty()
    }

    /// Returns the maximum packet length of link `link`, in bytes.
    pub fn mtu(&self, link: usize) -> u32 {
        self.mtus[link]
    }

    /// Enables the recording of frames for [`Self::drain_frames`].
    pub fn keep_frames(&mut self) {
        self.outbox.wants_frames = true;
    }

    /// Sends a packet from a host over link `link` at its end `side`. Returns `false` if the packet
    /// is rejected: if it is not an IP packet of at most [`Self::mtu`] bytes.
    pub fn input(&mut self, now: Instant, link: usize, side: Side, packet: Vec<u8>) -> bool {
        // Packets sent at the same time follow each other before the deadlines of this time.
        if now > self.now {
            self.handle(Instant::from_nanos(now.as_nanos() - 1));
            self.now = now;
        }
        if !is_ip(&packet) || packet.len() > self.mtus[link] as usize {
            self.refused += 1;
            return false;
        }
        self.meters[link].directions[side as usize].on_offer(self.now, &packet);
        self.links[link].offer(self.now, side, packet, &mut self.deadlines, &mut self.outbox);
        self.schedule(link);
        if let Some(air) = self.airs.of_link(link) {
            self.settle_air(self.now, air);
        }
        true
    }

    /// Returns the earliest deadline, or [`Instant::NEVER`].
    pub fn next_timeout(&self) -> Instant {
        self.deadlines.next()
    }

    /// Returns a time before which no packet is delivered unless a host sends one, at or after
    /// [`Self::next_timeout`]. All deadlines before it have the same effects if they are handled
    /// then.
    pub fn next_delivery(&self) -> Instant {
        self.wakes.next()
    }

    /// Handles every deadline up to and including `now`, each at its own time.
    pub fn advance(&mut self, now: Instant) {
        debug_assert!(now >= self.now, "time does not run backwards");
        self.handle(now);
        self.now = self.now.max(now);
    }

    /// Handles every deadline up to and including `limit`, each at its own time.
    fn handle(&mut self, limit: Instant) {
        let is_single = self.links.len() == 1 && self.airs.len() == 0;
        loop {
            let (due, machine) = self.deadlines.first();
            let at = due.at();
            if at > limit || at == Instant::NEVER {
                break;
            }
            match machine.index().checked_sub(self.links.len()) {
                None => {
                    let link = machine.index();
                    // The deadlines of several links are handled in order of time.
                    let until = if is_single { limit } else { at };
                    self.links[link].advance(until, &mut self.deadlines, &mut self.outbox);
                    self.schedule(link);
                }
                Some(air) => {
                    self.airs.handle_timeout(at, air);
                    self.settle_air(at, air);
                }
            }
        }
    }

    /// Applies a change of the links at `now`; `scenario` is the present scenario, which is updated.
    ///
    /// # Errors
    /// If the change concerns a key that must not change during a run; nothing is changed.
    pub fn change(
        &mut self,
        now: Instant,
        change: &Change,
        scenario: &mut Scenario,
        streams: Streams,
    ) -> Result<(), Refused> {
        let changes = change.of_links(scenario, streams, self.changes)?;
        self.advance(now);
        self.changes += 1;
        for (link, side, change) in changes {
            let end = self.links[link].end_mut(side);
            match change {
                EndChange::Pause(time) => end.pause(self.now, time),
                EndChange::Keys { transmitter, propagation, channel } => {
                    end.change(self.now, transmitter, propagation, channel);
                }
            }
            self.links[link].refresh(self.now, side, &mut self.deadlines, &mut self.outbox);
            self.schedule(link);
        }
        if let Change::Scenario(new) = change {
            scenario.clone_from(new);
        }
        Ok(())
    }

    /// Exchanges packets between a medium and its links until there are none, and updates its deadline.
    fn settle_air(&mut self, now: Instant, air: usize) {
        loop {
            if let Some((link, side, packet)) = self.outbox.on_air.pop_front() {
                self.airs.enqueue(now, link, side, packet);
            } else if let Some((link, side, packet)) = self.airs.poll_delivery(air) {
                let (deadlines, outbox) = (&mut self.deadlines, &mut self.outbox);
                self.links[link].receive(now, side.other(), packet, deadlines, outbox);
            } else {
                break;
            }
        }
        for link in 0..self.links.len() {
            if self.airs.of_link(link) == Some(air) {
                self.refresh_shared(now, link);
            }
        }
        let machine = MachineId::new(self.links.len() + air);
        self.deadlines.set(machine, self.airs.next_timeout(air));
        self.wakes.set(machine, self.airs.next_timeout(air));
    }

    /// Updates the state of the ends of a link of a WLAN.
    fn refresh_shared(&mut self, now: Instant, link: usize) {
        for side in Side::BOTH {
            let state = self.airs.state(now, link, side);
            self.links[link].end_mut(side).set_shared(state);
        }
    }

    fn schedule(&mut self, link: usize) {
        let at = self.links[link].next_timeout();
        self.deadlines.set(MachineId::new(link), at);
        self.wakes.set(MachineId::new(link), self.links[link].next_delivery());
    }

    /// Returns the next delivered packet.
    pub fn poll_delivery(&mut self) -> Option<Delivery> {
        let delivery = self.outbox.deliveries.pop_front()?;
        let direction = delivery.side.other() as usize;
        self.meters[delivery.link].on_delivery(direction, delivery.at, &delivery.packet);
        Some(delivery)
    }

    /// Returns the measurements of link `link`.
    pub fn meter(&self, link: usize) -> &LinkMeter {
        &self.meters[link]
    }

    /// Returns a link and its measurements, to start another interval of reports.
    pub(crate) fn link_and_meter(&mut self, link: usize) -> (&mut Link, &mut LinkMeter) {
        (&mut self.links[link], &mut self.meters[link])
    }

    /// Returns the number of packets that each direction will still deliver, if no further packet
    /// arrives. The limit on the virtual time concerns protocols whose timers never stop.
    pub fn in_transit(&self) -> Vec<[u64; 2]> {
        let mut later = self.clone();
        let end = self.now + IN_TRANSIT;
        later.outbox.wants_frames = false;
        while later.next_timeout() <= end {
            later.advance(later.next_timeout());
            later.outbox.deliveries.clear();
        }
        let delivered = |network: &Network, link: usize, side: Side| {
            network.links[link].end(side.other()).counters().delivered
        };
        let more = |link, side| delivered(&later, link, side) - delivered(self, link, side);
        (0..self.len()).map(|link| Side::BOTH.map(|side| more(link, side))).collect()
    }

    /// Returns the frames transmitted since the last call.
    pub fn drain_frames(&mut self) -> std::vec::Drain<'_, FrameFate> {
        self.outbox.frames.drain(..)
    }

    /// Returns the links.
    pub fn links(&self) -> &[Link] {
        &self.links
    }

    /// Returns the number of rejected packets: see [`Self::input`].
    pub fn refused(&self) -> u64 {
        self.refused
    }

    /// Returns `true` if no packet is queued, in transit or waiting for a timer.
    pub fn is_idle(&self) -> bool {
        self.next_timeout() == Instant::NEVER
    }

    /// Reports the counters of all links as (entity, metric, value). Names are those of a
    /// simulation. In addition, each direction has `packets_delivered`, `goodput_bps` (of delivered
    /// packets, including headers) and `unreadable_frames`.
    pub fn metrics(&self, scenario: &Scenario, report: &mut ReportFor<'_>) {
        for (link, keys) in self.links.iter().zip(scenario.links.iter()) {
            for side in Side::BOTH {
                self.direction_metrics(link, keys, side, report);
            }
            for side in Side::BOTH {
                for agent in link.end(side).agents() {
                    let entity = format!("agent.{}", keys.name);
                    agent.metrics(&mut |metric, value| report(&entity, metric, value));
                }
            }
        }
        self.airs.metrics(self.now, report);
    }

    fn direction_metrics(
        &self,
        link: &Link,
        keys: &scenario::Link,
        side: Side,
        report: &mut ReportFor<'_>,
    ) {
        let entity = format!("link.{}.{}", keys.name, side.word());
        let (sender, receiver) = (link.end(side), link.end(side.other()));
        let counters = sender.counters();
        QueueMetrics::from(&counters.queue).report_for(&entity, report);
        let transmitter = sender.interface().transmitter();
        let sent = counters.queue.bits_sent as f64 - transmitter.unsent_bits(self.now);
        let (sent, capacity) = (sent.max(0.0), sender.capacity(self.now));
        let utilization = Ratio::with_value((sent / capacity).min(1.0), sent, capacity);
        LoadMetrics { utilization }.report_for(&entity, report);
        let queue = sender.interface().queue();
        if self.airs.of_link(link.index()).is_some() {
            self.airs.direction_metrics(self.now, (link.index(), side), &entity, report);
        } else {
            if queue.detects_early() {
                DisciplineMetrics::from(&queue.counters()).report_for(&entity, report);
            }
            SenderMetrics::from(&sender.link_counters()).report_for(&entity, report);
            ReceiverMetrics::from(&receiver.link_counters()).report_for(&entity, report);
        }
        let layers = keys.protocol.layers().map(Layers::names).unwrap_or_default();
        for (layer, name) in layers.iter().enumerate() {
            let entity = format!("{entity}.{name}");
            SenderMetrics::from(&sender.layer_counters(layer)).report_for(&entity, report);
            ReceiverMetrics::from(&receiver.layer_counters(layer)).report_for(&entity, report);
        }
        let up = receiver.counters();
        let metrics = LiveMetrics {
            packets_delivered: up.delivered as f64,
            goodput_bps: up.delivered_bytes as f64 * 8.0 / self.now.as_secs_f64(),
            unreadable_frames: (counters.unreadable + up.unreadable) as f64,
        };
        metrics.report_for(&entity, report);
    }

    /// Returns the time of the last call.
    pub fn now(&self) -> Instant {
        self.now
    }
}

/// Returns the address of host number `index`, from 10.71.0.1 upwards.
pub fn address(index: usize) -> Ipv4Addr {
    Ipv4Addr::from_bits(Ipv4Addr::new(10, 71, 0, 1).to_bits() + index as u32)
}

/// Returns the IPv6 address of host number `index`, from fd71::1 upwards.
pub fn address6(index: usize) -> Ipv6Addr {
    Ipv6Addr::from_bits(Ipv6Addr::new(0xfd71, 0, 0, 0, 0, 0, 0, 1).to_bits() + index as u128)
}

/// Returns `true` for packets of neighbour discovery and multicast listener discovery (ICMPv6 types
/// 130 to 137 and 143), also behind a hop-by-hop header. Hosts of a link without link-layer addresses
/// do not need them, and programs do not send them.
pub fn is_discovery(packet: &[u8]) -> bool {
    const HOP_BY_HOP: u8 = 0;
    const ICMPV6: u8 = 58;
    if packet.first().is_none_or(|first| first >> 4 != 6) {
        return false;
    }
    let at = |place: usize| packet.get(place).copied().unwrap_or_default();
    let (next, start) = match at(6) {
        HOP_BY_HOP => (at(40), 40 + 8 * (1 + usize::from(at(41)))),
        next => (next, 40),
    };
    next == ICMPV6 && matches!(at(start), 130..=137 | 143)
}

/// Returns `true` if the bytes begin like an IP packet.
fn is_ip(packet: &[u8]) -> bool {
    match packet.first().map(|first| first >> 4) {
        Some(4) => packet.len() >= 20,
        Some(6) => packet.len() >= 40,
        _ => false,
    }
}

/// Builds one link, as in the simulator, for packets of up to `mtu` bytes.
fn build(scenario: &Scenario, index: usize, streams: Streams, mtu: u32) -> Result<Link, Refused> {
    let link = &scenario.links[index];
    let refused = |error: &dyn std::fmt::Display| Refused {
        key: format!("link.{}", link.name),
        problem: error.to_string(),
    };
    let packet = Bytes::new(mtu.into());
    let mut ends = Vec::with_capacity(2);
    for side in Side::BOTH {
        let own = match side {
            Side::Forward => &link.forward,
            Side::Reverse => &link.reverse,
        };
        let component = format!("link.{}.{}", link.name, side.word());
        let site = link_site(scenario, (index, side == Side::Forward), packet, None);
        let endpoint: LinkEndpoint<Vec<u8>> = match &link.protocol {
            LinkProtocol::One(protocol) => protocol.build(&site),
            LinkProtocol::Stack(layers) => layers.build(&site),
            LinkProtocol::Own(own) => {
                return Err(refused(&format!(
                    "found the protocol {:?} of another crate; expected protocols with a byte form",
                    own.name()
                )));
            }
            LinkProtocol::Services(set) => {
                let place = (&streams, component.clone());
                service_endpoints(set, own, &vec![site; set.services.len()], place, false)
            }
        }
        .map_err(|error| refused(&error))?;
        refusal::check_bytes(link, &endpoint)?;
        let queue = own.queue.build(&QueueSite {
            streams: &streams,
            component: &component,
            header: link.header,
            packet,
        });
        let channel = own.errors.build(&streams, &component).map_err(|error| refused(&error))?;
        let interface = Interface::new(endpoint, queue, own.transmitter());
        ends.push(End::new(interface, channel, own.propagation(), link.protocol.classes()));
    }
    let mut ends: [End; 2] = ends.try_into().unwrap_or_else(|_| unreachable!("two sides"));
    let site = link.agent_site(packet);
    let mut by_hosts = false;
    for agent in &link.agents.0 {
        let component = &format!("agent.{}", link.name);
        let site = AgentSite { streams: &streams, component, ..site };
        let machine = agent.build(&site, 0).map_err(|error| refused(&error))?;
        if machine.wants_link_reports() {
            return Err(refusal::agent(
                link,
                agent.kind(),
                "needs reports of a simulated link layer",
            ));
        }
        let side = if agent.acts_on_forward(&site) { Side::Forward } else { Side::Reverse };
        by_hosts |= agent.is_per_host_pair();
        ends[side as usize].add_agent(machine);
    }
    Ok(Link::new(index, ends, by_hosts))
}

/// Returns the RTT of a maximum-length packet and a small packet over link `link`, without
/// queueing.
pub fn round_trip(scenario: &Scenario, link: usize, mtu: u32) -> Duration {
    let link = &scenario.links[link];
    let air = |direction: &scenario::Direction, bytes: u64| {
        let rate = direction.air().rate;
        let sending = match rate.is_unlimited() || rate.as_bps() == 0 {
            true => Duration::ZERO,
            false => lasthop_link::link::airtime(Bytes::new(bytes), rate),
        };
        direction.air().delay + sending
    };
    air(&link.forward, mtu.into()) + air(&link.reverse, 40)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_discovery_is_recognized() {
        let packet = |next: u8, rest: &[u8]| {
            let mut packet = vec![0x60, 0, 0, 0, 0, 0, next, 255];
            packet.resize(40, 0);
            packet.extend(rest);
            packet
        };
        // A router solicitation, and a listener report behind a hop-by-hop header.
        assert!(is_discovery(&packet(58, &[133, 0])));
        assert!(is_discovery(&packet(0, &[58, 0, 5, 2, 0, 0, 0, 0, 143, 0])));
        // An echo request, UDP, and IPv4.
        assert!(!is_discovery(&packet(58, &[128, 0])));
        assert!(!is_discovery(&packet(17, &[133, 0])));
        assert!(!is_discovery(&[0x45; 60]));
        assert!(!is_discovery(&[]));
        assert_eq!(address6(255).to_string(), "fd71::100");
    }
}
