//! Metrics of a run: those of flows and of the directions of links.

use super::direction::Medium;
use super::ids::{ConnectionId, DirectionId, FlowId};
use super::metrics::{FlowMetrics, HeaderMetrics, LoadMetrics, ServiceMetrics, SharingMetrics};
use super::probe::Probe;
use super::traffic::{App, Streams};
use super::world::World;
use crate::agent::AgentMachine;
use crate::app::{DatagramCounts, DatagramSource, StreamApplication};
use crate::transport::{Transport, TransportMachine};
use lasthop_base::packet::Extension;
use lasthop_base::schema::metrics::{Ratio, ReportFor};
use lasthop_base::units::Instant;
use lasthop_link::link::{Abilities, PacketMetrics, ReceiverMetrics, SenderMetrics};
use lasthop_link::queue::{
    Delays, DisciplineMetrics, Queue, QueueCounters, QueueMetrics, QueueingMetrics,
};

impl<P: Probe, X: Extension> World<P, X> {
    /// Reports all metrics of the run as (entity, metric, value). Values are in SI units, and NaN
    /// if a metric does not apply. The order depends only on the scenario.
    pub fn metrics(&self, link_names: &[String], report: &mut ReportFor<'_>) {
        for index in 0..self.flows.len() {
            self.flow_metrics(FlowId::new(index), report);
        }
        if let Some(sharing) = &self.sharing {
            SharingMetrics { convergence_time_s: sharing.time() }.report_for("flows", report);
        }
        for direction in (0..self.directions.len()).map(DirectionId::new) {
            let side = direction.side().word();
            let entity = format!("link.{}.{side}", link_names[direction.link()]);
            let counters = self.direction_counters(direction);
            let capacity = self.capacity(direction);
            // The frame in transmission is counted, but not sent completely.
            let unsent = self.unsent_bits(direction);
            let sent = (counters.bits_sent as f64 - unsent).max(0.0);
            QueueMetrics::from(&counters).report_for(&entity, report);
            // Radio rates are rounded down to whole bits per second, and times to whole
            // nanoseconds.
            let load = |sent: f64| LoadMetrics {
                utilization: Ratio::with_value((sent / capacity).min(1.0), sent, capacity),
            };
            load(sent).report_for(&entity, report);
            if let Some(delays) = self.queueing_delays(direction) {
                QueueingMetrics::from(delays).report_for(&entity, report);
            }
            let line = match &self.directions[direction.index()].medium {
                Medium::Fifo(_) => continue,
                Medium::Line(line) => *line,
                Medium::Shared(shared) => {
                    self.shared_metrics(&entity, shared, report);
                    continue;
                }
            };
            let ends = |side| self.lines[line.index()].end(side);
            // Frames that arrive over this direction are counted by the endpoint that transmits on
            // the other one.
            let (sender, receiver) = (ends(direction.side()), ends(direction.side().other()));
            if let Some(readable) = sender.air.readable_headers(self.now) {
                HeaderMetrics { headers_readable: readable as f64 }.report_for(&entity, report);
            }
            let queue = sender.interface.queue();
            if queue.detects_early() {
                // With services, packets wait in the queues of the services.
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
            for (layer, name) in sender.layers.iter().enumerate() {
                let entity = format!("{entity}.{name}");
                let (endpoint, counters) = sender.layer(layer);
                SenderMetrics::from(&counters).report_for(&entity, report);
                if endpoint.counts_packets() {
                    PacketMetrics::from(&counters).report_for(&entity, report);
                }
                ReceiverMetrics::from(&receiver.layer(layer).1).report_for(&entity, report);
            }
            for (service, name) in sender.air.services.names.iter().enumerate() {
                let entity = format!("{entity}.{name}");
                let own = &sender.service_counters(service);
                let unsent = if sender.is_last_of(service) { unsent } else { 0.0 };
                let own_sent = (own.bits_sent as f64 - unsent).max(0.0);
                QueueMetrics::from(own).report_for(&entity, report);
                load(own_sent).report_for(&entity, report);
                ServiceMetrics { share: Ratio::new(own_sent, sent) }.report_for(&entity, report);
                if let Some(delays) = sender.service_queue(service).and_then(Queue::delays) {
                    QueueingMetrics::from(delays.clone()).report_for(&entity, report);
                }
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

    /// Number of bits that a direction could have sent by now.
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

    /// Returns the counters of the queue and transmitter of a direction, including background
    /// traffic. Computed frames count when their transmission starts.
    fn direction_counters(&self, direction: DirectionId) -> QueueCounters {
        match &self.directions[direction.index()].medium {
            Medium::Fifo(fifo) => fifo.queue.counters(self.now),
            Medium::Line(line) => self.lines[line.index()].end(direction.side()).counters(self.now),
            Medium::Shared(shared) => self.shared_counters(shared),
        }
    }

    /// Returns the queueing delays of a direction; `None` if they are not measured.
    fn queueing_delays(&self, direction: DirectionId) -> Option<Delays> {
        match &self.directions[direction.index()].medium {
            Medium::Fifo(fifo) => fifo.queue.delays(self.now),
            Medium::Line(line) => self.lines[line.index()].end(direction.side()).queueing_delays(),
            Medium::Shared(shared) => self.shared_queueing_delays(shared),
        }
    }

    /// Number of bits of the frame in transmission that have not been sent.
    fn unsent_bits(&self, direction: DirectionId) -> f64 {
        match &self.directions[direction.index()].medium {
            Medium::Fifo(fifo) => fifo.queue.unsent_bits(self.now),
            Medium::Line(line) => {
                self.lines[line.index()].end(direction.side()).unsent_bits(self.now)
            }
            Medium::Shared(_) => 0.0,
        }
    }

    fn flow_metrics(&self, index: FlowId, report: &mut ReportFor<'_>) {
        let flow = &self.flows[index.index()];
        let entity = format!("flow.{}", flow.name);
        let mut delivery = |bytes: u64, seconds: f64| {
            let metrics = FlowMetrics {
                goodput_bps: Ratio::new(bytes as f64 * 8.0, seconds),
                delivered_bytes: bytes as f64,
                duration_s: seconds,
            };
            metrics.report_for(&entity, report);
        };
        let end_or =
            |at: Option<Instant>| at.unwrap_or(self.now).saturating_since(flow.start).as_secs_f64();
        let stopped = flow.delivered.and(flow.stop);
        match &flow.app {
            App::Streams(app) => {
                let Streams { application, streams, .. } = app;
                let delivered = flow.delivered.unwrap_or_else(|| self.delivered(index));
                let until = stopped.or_else(|| application.measured_until(self.now));
                delivery(delivered, until.map_or(f64::NAN, |at| end_or(Some(at))));
                application.metrics(&mut |metric, value| report(&entity, metric, value));
                let own = streams.iter().filter(|stream| stream.number == 0);
                let connections = own.flat_map(|stream| {
                    let [first, second] = stream.connections;
                    std::iter::once(first).chain(stream.is_split().then_some(second))
                });
                self.transport_metrics(&entity, connections, report);
            }
            App::Datagrams { source, connection, .. } => {
                let source = &self.sources[source.index()].source;
                let delivered = flow.delivered.unwrap_or_else(|| source.delivered_bytes(self.now));
                delivery(delivered, end_or(stopped));
                source.metrics(self.now, &mut |metric, value| report(&entity, metric, value));
                let connection = std::iter::once(*connection);
                self.transport_metrics(&entity, connection, report);
            }
            App::Background { direction, index, packet } => {
                let fifo = self.directions[direction.index()].fifo();
                let fifo = fifo.expect("only a FIFO replays background traffic");
                let counters = fifo.queue.background_counters(*index);
                let counts = DatagramCounts {
                    sent: counters.frames_sent + counters.drops,
                    survived: counters.frames_sent - counters.frames_lost,
                    under_way: fifo.queue.background_under_way(*index, self.now),
                };
                delivery(counts.arrived() * packet.get(), end_or(None));
                counts.metrics(&mut |metric, value| report(&entity, metric, value));
            }
        }
    }

    /// Returns `true` if no agent terminates the connection on its path.
    pub(super) fn is_end_to_end(&self, connection: ConnectionId) -> bool {
        let known = &self.connections[connection.index()];
        let path = self.hops[known.first_hops[0] as usize].path;
        !self.agents.iter().any(|seat| {
            matches!(seat.agent, AgentMachine::SplitConnection(_))
                && seat.connections[path.index()].is_some()
        })
    }

    /// Reports the transport metrics of a flow with these connections.
    fn transport_metrics(
        &self,
        entity: &str,
        connections: impl Iterator<Item = ConnectionId> + Clone,
        report: &mut ReportFor<'_>,
    ) {
        let is_end_to_end = connections.clone().all(|one| self.is_end_to_end(one));
        let transports = connections.map(|one| &self.connections[one.index()].transport);
        TransportMachine::report(
            &transports.collect::<Vec<_>>(),
            is_end_to_end,
            &mut |metric, value| report(entity, metric, value),
        );
    }
}
