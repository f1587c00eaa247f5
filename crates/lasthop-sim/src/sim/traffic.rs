//! Flows: how applications drive connections, and what they report.

use super::deadlines::MachineId;
use super::direction::Medium;
use super::ids::{ConnectionId, DirectionId, FlowId, Side};
use super::metrics::{
    DamageMetrics, FlowMetrics, HeaderMetrics, LoadMetrics, NoticeMetrics, ServiceMetrics,
    SharingMetrics, TcpMetrics,
};
use super::probe::{Event, Probe};
use super::world::{World, boot_offset};
use crate::agent::AgentMachine;
use crate::app::{Datagram, DatagramCounts, DatagramSource, FileMetrics, Source, Web, WebMetrics};
use lasthop_base::packet::{Descriptor, Extension, LAST_INCARNATION};
use lasthop_base::schema::metrics::ReportFor;
use lasthop_base::units::{Bytes, Instant};
use lasthop_link::link::{Endpoint, PacketMetrics, ReceiverMetrics, SenderMetrics};
use lasthop_link::queue::{DisciplineMetrics, Queue, QueueCounters, QueueMetrics};

/// What a flow does.
#[derive(Clone, Debug)]
pub(super) enum App {
    /// One file over one connection.
    File { connection: ConnectionId, size: Bytes, finished: Option<Instant> },
    /// A browser; transfers run over the connections of each slot.
    Web(Box<Browser>),
    /// Datagrams, an event each.
    Datagrams(Box<Datagrams>),
    /// Datagrams that the queue of one direction replays.
    Background { direction: DirectionId, index: usize, packet: Bytes },
}

/// A source of datagrams.
#[derive(Clone, Debug)]
pub(super) struct Datagrams {
    pub source: Source,
    pub machine: MachineId,
    /// Its first hop.
    pub hop: u32,
}

/// A browser and its transfers.
#[derive(Clone, Debug)]
pub(super) struct Browser {
    pub web: Web,
    /// By slot: the connection for requests and the one for replies (the same if full duplex).
    pub connections: Vec<[ConnectionId; 2]>,
    /// By slot: what is under way.
    pub stages: Vec<Stage>,
    /// When the newest page was complete.
    pub last_page: Option<Instant>,
}

/// What a slot of a browser waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    Idle,
    Request { bytes: u64 },
    Reply { bytes: u64 },
}

/// A flow of the scenario.
#[derive(Clone, Debug)]
pub(super) struct Flow {
    pub name: String,
    pub start: Instant,
    /// The service that it asks for, on links that have one of this name.
    pub service: Option<String>,
    /// Datagrams delivered with a damaged payload; `None`: its transport drops them.
    pub damaged: Option<Damage>,
    pub app: App,
}

/// Which datagrams a transport delivers with a damaged payload. A link may send a datagram again that came damaged:
/// the receiver counts one copy, and prefers an intact one.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Damage {
    /// Datagrams of which only damaged copies have arrived.
    count: u64,
    /// The datagram that arrived last, and whether it is among these. Copies of one arrive one after the other.
    last: Option<(u64, bool)>,
}

impl Damage {
    /// A copy of datagram `number` arrives; true if no copy has arrived before.
    pub fn is_first(&mut self, number: u64, is_damaged: bool) -> bool {
        let known = self.last.filter(|&(last, _)| last == number).map(|(_, known)| known);
        let counts = is_damaged && known != Some(false);
        self.count = self.count + u64::from(counts) - u64::from(known == Some(true));
        self.last = Some((number, counts));
        known.is_none()
    }
}

impl<P: Probe, X: Extension> World<P, X> {
    /// A datagram is at its destination at `at`, which may lie ahead of the clock.
    #[inline]
    pub(super) fn receive_datagram(&mut self, flow: FlowId, at: Instant, packet: &Descriptor<X>) {
        if let Some(damage) = &mut self.flows[flow.index()].damaged
            && !damage.is_first(packet.datagram_number(), false)
        {
            return;
        }
        self.count_datagram(flow, at, packet);
    }

    /// The same of a datagram with a damaged payload, which ends here unless its transport delivers it.
    pub(super) fn receive_damaged_datagram(&mut self, flow: FlowId, packet: &Descriptor<X>) {
        if let Some(damage) = &mut self.flows[flow.index()].damaged
            && damage.is_first(packet.datagram_number(), true)
        {
            self.count_datagram(flow, self.now, packet);
        }
    }

    /// The first copy of a datagram is delivered.
    #[inline]
    fn count_datagram(&mut self, flow: FlowId, at: Instant, packet: &Descriptor<X>) {
        let number = packet.datagram_number();
        if P::ACTIVE {
            let delay = at.saturating_since(packet.datagram_sent_at());
            self.probe.record(at, Event::DatagramReceived { flow, number, delay });
        }
        if let App::Datagrams(datagrams) = &mut self.flows[flow.index()].app {
            datagrams.source.receive(self.now, number, at);
        }
    }

    /// The flows whose time has come start.
    pub(super) fn on_start(&mut self) {
        while let Some(&index) = self.starts.last()
            && self.flows[index.index()].start <= self.now
        {
            self.starts.pop();
            match &mut self.flows[index.index()].app {
                App::File { connection, size, .. } => {
                    let (connection, size) = (*connection, *size);
                    self.connections[connection.index()].ends[0].write(size.get());
                    self.pump(connection, true);
                }
                App::Web(browser) => {
                    browser.web.start_page();
                    self.send_requests(index);
                }
                App::Datagrams(datagrams) => {
                    let at = datagrams.source.next_at();
                    self.deadlines.put_first(datagrams.machine, at);
                }
                App::Background { .. } => {}
            }
        }
        self.schedule_start();
    }

    fn schedule_start(&mut self) {
        let machine = MachineId::new(self.machines.len() - 1);
        match self.starts.last() {
            Some(&index) => self.deadlines.set(machine, self.flows[index.index()].start),
            None => self.deadlines.forget(machine),
        }
    }

    /// A datagram is due.
    pub(super) fn on_datagram(&mut self, index: FlowId) {
        let App::Datagrams(datagrams) = &mut self.flows[index.index()].app else {
            unreachable!("only sources of datagrams have this deadline")
        };
        let Datagram { number, size } = datagrams.source.send(self.now);
        let hop = datagrams.hop;
        // At a tie datagrams come first, as in the lazy replay.
        self.deadlines.put_first(datagrams.machine, datagrams.source.next_at());
        self.send_datagram(index, &Descriptor::datagram(hop, size.get() as u32, number, self.now));
    }

    /// A TCP end may have come to the end of a transfer.
    #[inline(always)]
    pub(super) fn on_progress(&mut self, connection: ConnectionId, opener: bool) {
        let pair = &mut self.connections[connection.index()];
        let index = pair.flow;
        match &mut self.flows[index.index()].app {
            App::File { finished, .. } => {
                // A proxy on the way acknowledges what has not arrived yet.
                let [sender, receiver] = &pair.ends;
                let has_arrived = receiver.delivered_bytes() >= sender.acked_bytes();
                if finished.is_none() && sender.is_all_acked() && has_arrived {
                    *finished = Some(self.now);
                    self.unfinished -= 1;
                    self.attention = Instant::ZERO;
                    pair.ends[0].close();
                    self.pump(connection, true);
                }
            }
            App::Web(_) => self.on_web_progress(index, connection, opener),
            App::Datagrams(_) | App::Background { .. } => {}
        }
    }

    #[inline(always)]
    fn on_web_progress(&mut self, index: FlowId, connection: ConnectionId, opener: bool) {
        let pair = &mut self.connections[connection.index()];
        let slot = pair.slot;
        let App::Web(browser) = &mut self.flows[index.index()].app else {
            unreachable!("asked for browsers only")
        };
        let [requests, replies] = browser.connections[slot as usize];
        let stage = &mut browser.stages[slot as usize];
        let is_simplex = requests != replies;
        // One way, a transfer ends with the sender's last ACK (ns-2); full duplex, with the last
        // byte at the receiver.
        let acked = is_simplex && opener && pair.ends[0].is_all_acked();
        match *stage {
            Stage::Request { bytes }
                if connection == requests
                    && (acked
                        || !is_simplex && !opener && pair.ends[1].delivered_bytes() >= bytes) =>
            {
                let bytes = browser.web.on_request();
                *stage = Stage::Reply { bytes };
                if is_simplex {
                    self.start_transfer(replies, bytes);
                } else {
                    pair.ends[1].write(bytes);
                    pair.ends[1].close();
                    self.pump(connection, false);
                }
            }
            Stage::Reply { bytes }
                if connection == replies
                    && (acked
                        || !is_simplex && opener && pair.ends[0].delivered_bytes() >= bytes) =>
            {
                *stage = Stage::Idle;
                if !is_simplex {
                    pair.ends[0].close();
                    self.pump(connection, true);
                }
                let App::Web(browser) = &mut self.flows[index.index()].app else {
                    unreachable!("asked for browsers only")
                };
                if browser.web.on_reply(slot) {
                    browser.last_page = Some(self.now);
                }
                self.send_requests(index);
            }
            _ => {}
        }
    }

    fn send_requests(&mut self, index: FlowId) {
        while let App::Web(browser) = &mut self.flows[index.index()].app
            && let Some((slot, bytes)) = browser.web.poll_request()
        {
            browser.stages[slot as usize] = Stage::Request { bytes };
            let connection = browser.connections[slot as usize][0];
            self.start_transfer(connection, bytes);
        }
    }

    /// A fresh incarnation of a connection whose opener writes `bytes`.
    fn start_transfer(&mut self, connection: ConnectionId, bytes: u64) {
        let pair = &mut self.connections[connection.index()];
        pair.incarnation = (pair.incarnation + 1) & LAST_INCARNATION;
        for end in &mut pair.ends {
            let offset = boot_offset(&mut pair.boot, &pair.config);
            end.reset(offset);
        }
        pair.ends[0].write(bytes);
        self.pump(connection, true);
        self.pump(connection, false);
    }

    /// Reports every metric of the run as (entity, metric, value); values are in SI units, NaN
    /// where a metric does not apply. The order depends on the scenario alone.
    pub fn metrics(&self, link_names: &[String], report: &mut ReportFor<'_>) {
        for flow in &self.flows {
            self.flow_metrics(flow, report);
        }
        if let Some(sharing) = &self.sharing {
            SharingMetrics { convergence_time_s: sharing.time() }.report_for("flows", report);
        }
        for direction in (0..self.directions.len()).map(DirectionId::new) {
            let side = match direction.side() {
                Side::Forward => "forward",
                Side::Reverse => "reverse",
            };
            let entity = format!("link.{}.{side}", link_names[direction.link()]);
            let counters = self.direction_counters(direction);
            let capacity = self.capacity(direction);
            // The frame on the air has been counted, but is not out.
            let unsent = self.unsent_bits(direction);
            let sent = (counters.bits_sent as f64 - unsent).max(0.0);
            QueueMetrics::from(&counters).report_for(&entity, report);
            // The rate of a radio is rounded down to whole bits per second, and so are times.
            let load = |sent: f64| LoadMetrics { utilization: (sent / capacity).min(1.0) };
            load(sent).report_for(&entity, report);
            let line = match &self.directions[direction.index()].medium {
                Medium::Fifo(_) => continue,
                Medium::Line(line) => *line,
                Medium::Shared(shared) => {
                    self.shared_metrics(&entity, shared, report);
                    continue;
                }
            };
            let ends = |side| self.lines[line.index()].end(side);
            // What came over this direction is known to the endpoint that transmits the other way.
            let (sender, receiver) = (ends(direction.side()), ends(direction.side().other()));
            if let Some(readable) = sender.air.readable_headers(self.now) {
                HeaderMetrics { headers_readable: readable as f64 }.report_for(&entity, report);
            }
            let queue = sender.interface.queue();
            if queue.detects_early() {
                // With services packets wait in their queues.
                let services = 0..sender.air.services.names.len();
                let services = services.filter_map(|service| sender.service_queue(service));
                let all = services.map(Queue::counters).chain([queue.counters()]).sum();
                DisciplineMetrics::from(&all).report_for(&entity, report);
            }
            SenderMetrics::from(&sender.link_counters()).report_for(&entity, report);
            if sender.interface.endpoint.counts_packets() {
                PacketMetrics::from(&sender.link_counters()).report_for(&entity, report);
            }
            ReceiverMetrics::from(&receiver.link_counters()).report_for(&entity, report);
            for (service, name) in sender.air.services.names.iter().enumerate() {
                let entity = format!("{entity}.{name}");
                let own = &sender.service_counters(service);
                let unsent = if sender.is_last_of(service) { unsent } else { 0.0 };
                let own_sent = (own.bits_sent as f64 - unsent).max(0.0);
                QueueMetrics::from(own).report_for(&entity, report);
                load(own_sent).report_for(&entity, report);
                let share = if sent > 0.0 { own_sent / sent } else { f64::NAN };
                ServiceMetrics { share }.report_for(&entity, report);
                if let Some(queue) = sender.service_queue(service)
                    && queue.detects_early()
                {
                    DisciplineMetrics::from(&queue.counters()).report_for(&entity, report);
                }
                let counters = sender.service_link_counters(service);
                SenderMetrics::from(&counters).report_for(&entity, report);
                let counters = receiver.service_link_counters(service);
                ReceiverMetrics::from(&counters).report_for(&entity, report);
            }
        }
        self.air_metrics(report);
        self.agent_metrics(report);
    }

    /// Bits that a direction could have sent by now.
    fn capacity(&self, direction: DirectionId) -> f64 {
        match &self.directions[direction.index()].medium {
            Medium::Fifo(fifo) => fifo.queue.transmitter().capacity(self.now),
            Medium::Line(line) => {
                let end = self.lines[line.index()].end(direction.side());
                end.interface.transmitter().capacity(self.now)
            }
            Medium::Shared(shared) => shared.rate.as_bps() as f64 * self.now.as_secs_f64(),
        }
    }

    /// Counters of the queue and transmitter of a direction now, background traffic included: of
    /// what was computed, frames that have started.
    fn direction_counters(&self, direction: DirectionId) -> QueueCounters {
        match &self.directions[direction.index()].medium {
            Medium::Fifo(fifo) => fifo.queue.counters(self.now),
            Medium::Line(line) => self.lines[line.index()].end(direction.side()).counters(self.now),
            Medium::Shared(shared) => self.shared_counters(shared),
        }
    }

    /// Bits of the frame on the air of a direction that are not out.
    fn unsent_bits(&self, direction: DirectionId) -> f64 {
        match &self.directions[direction.index()].medium {
            Medium::Fifo(fifo) => fifo.queue.unsent_bits(self.now),
            Medium::Line(line) => {
                self.lines[line.index()].end(direction.side()).unsent_bits(self.now)
            }
            Medium::Shared(_) => 0.0,
        }
    }

    fn flow_metrics(&self, flow: &Flow, report: &mut ReportFor<'_>) {
        let entity = format!("flow.{}", flow.name);
        let mut delivery = |bytes: u64, seconds: f64| {
            let metrics = FlowMetrics {
                goodput_bps: if seconds > 0.0 { bytes as f64 * 8.0 / seconds } else { f64::NAN },
                delivered_bytes: bytes as f64,
                duration_s: seconds,
            };
            metrics.report_for(&entity, report);
        };
        let end_or =
            |at: Option<Instant>| at.unwrap_or(self.now).saturating_since(flow.start).as_secs_f64();
        match &flow.app {
            App::File { connection, size, finished } => {
                // What the sender knows to have arrived: a receiver may have been computed ahead.
                let opener = &self.connections[connection.index()].ends[0];
                let delivered = opener.acked_bytes().min(size.get());
                delivery(delivered, end_or(*finished));
                let complete = f64::from(u8::from(finished.is_some()));
                FileMetrics { complete }.report_for(&entity, report);
                self.tcp_metrics(&entity, &[[*connection; 2]], report);
            }
            App::Web(browser) => {
                let counters = browser.web.counters();
                // The state at the end of the last completed page is what counts.
                let seconds = browser.last_page.map_or(f64::NAN, |at| end_or(Some(at)));
                delivery(counters.page_bytes, seconds);
                WebMetrics::from(&counters).report_for(&entity, report);
                self.tcp_metrics(&entity, &browser.connections, report);
            }
            App::Datagrams(datagrams) => {
                let source = &datagrams.source;
                delivery(source.delivered_bytes(self.now), end_or(None));
                source.metrics(self.now, &mut |metric, value| report(&entity, metric, value));
                if let Some(Damage { count, .. }) = flow.damaged {
                    let packets_damaged = count as f64;
                    DamageMetrics { packets_damaged }.report_for(&entity, report);
                }
            }
            App::Background { direction, index, packet } => {
                let fifo = self.directions[direction.index()].fifo();
                let fifo = fifo.expect("only a FIFO replays background traffic");
                let counters = fifo.queue.background_counters(*index);
                let told = DatagramCounts {
                    sent: counters.frames_sent + counters.drops,
                    survived: counters.frames_sent - counters.frames_lost,
                    under_way: fifo.queue.background_under_way(*index, self.now),
                };
                delivery(told.arrived() * packet.get(), end_or(None));
                told.metrics(&mut |metric, value| report(&entity, metric, value));
            }
        }
    }

    /// Can it be told which of a connection's retransmissions were not needed? Not of units of an erasure code, any of
    /// which can stand for another; nor behind an agent that ends connections, where another sender's transmissions arrive.
    pub(super) fn knows_spurious(&self, connection: ConnectionId) -> bool {
        let pair = &self.connections[connection.index()];
        let path = self.hops[pair.first_hops[0] as usize].path;
        let is_split = self.agents.iter().any(|seat| {
            matches!(seat.agent, AgentMachine::SplitConnection(_))
                && seat.connections[path.index()].is_some()
        });
        !is_split && !pair.config.sends_blocks()
    }

    fn tcp_metrics(
        &self,
        entity: &str,
        connections: &[[ConnectionId; 2]],
        report: &mut ReportFor<'_>,
    ) {
        let (mut sent, mut again, mut fast, mut cuts, mut duplicates) = (0, 0, 0, 0, 0);
        // Of openers and of acceptors.
        let mut timeouts = [0; 2];
        let (mut probes, mut taken_back) = (0, 0);
        let (mut mistaken, mut needless) = (0, 0);
        let mut is_known = true;
        let (mut explicit, mut held, mut knows_notices) = (0, 0, false);
        let mut add = |connection: ConnectionId| {
            knows_notices |= self.connections[connection.index()].config.knows_notices();
            let ends = &self.connections[connection.index()].ends;
            for (end, timeouts) in ends.iter().zip(&mut timeouts) {
                let counters = end.counters();
                sent += counters.segments_sent;
                again += counters.retransmissions;
                *timeouts += counters.timeouts;
                fast += counters.fast_retransmits;
                cuts += counters.window_cuts;
                probes += counters.tail_probes;
                taken_back += counters.spurious_reductions;
                explicit += counters.explicit_losses;
                held += counters.timeouts_held;
                duplicates += end.duplicates_received();
                let spurious = end.spurious_of_peer();
                mistaken += spurious.timeouts;
                needless += spurious.retransmissions;
            }
            is_known &= self.knows_spurious(connection);
        };
        for &[first, second] in connections {
            add(first);
            if second != first {
                add(second);
            }
        }
        let [of_openers, of_acceptors] = timeouts;
        let known = |count: u64| if is_known { count as f64 } else { f64::NAN };
        let metrics = TcpMetrics {
            segments_sent: sent as f64,
            retransmissions: again as f64,
            timeouts: (of_openers + of_acceptors) as f64,
            opener_timeouts: of_openers as f64,
            acceptor_timeouts: of_acceptors as f64,
            spurious_timeouts: known(mistaken),
            spurious_retransmissions: known(needless),
            fast_retransmits: fast as f64,
            window_cuts: cuts as f64,
            duplicates_received: duplicates as f64,
            tail_probes: probes as f64,
            reductions_taken_back: taken_back as f64,
        };
        metrics.report_for(entity, report);
        if knows_notices {
            let (explicit_losses, timeouts_held) = (explicit as f64, held as f64);
            NoticeMetrics { explicit_losses, timeouts_held }.report_for(entity, report);
        }
    }
}
