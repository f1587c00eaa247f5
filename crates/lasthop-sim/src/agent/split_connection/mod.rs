//! Split connections (RFC 3135, section 2.4 and 3.1): a performance enhancing proxy that ends each TCP connection at its host and opens
//! one of its own towards the other end.
//!
//! ```text
//!   sender             proxy                               receiver
//!     | -- SYN -------> | -- SYN ---------------------------> |
//!     | <- SYN,ACK ---- |                                     |
//!     | -- data ------> | buffer -- data ------------------->  |     each half recovers its own losses
//!     | <- ACK, window  | <---------------------------- ACK -- |     window: what is free of the buffer
//!     | -- FIN -------> | -- FIN behind the last data ------> |
//! ```
//!
//! A connection by what the proxy has of it; the same for both directions of data:
//!
//! ```text
//!   (none) --first segment of an incarnation--> both halves open --FIN--> its other half closes behind what the buffer holds
//! ```
//!
//! The half towards the end from which the first segment came answers at once, before the other end has been heard of. Its
//! options are those of the flow, as negotiation would have it; the half over the link may have its own variant, profile and
//! initial window. Each direction has a buffer: bytes that one end has sent in order and the other has not acknowledged, and those
//! beyond a gap, which the advertised window has room for. The right edge of that window never moves back, and moves on only
//! by two segments or half of the buffer (RFC 9293, section 3.8.6.2.2), which is told at once.
//!
//! End-to-end semantics are broken: what the proxy has acknowledged is not at the receiver yet, and would be lost with it. How
//! much that is, is counted.
//!
//! States: both halves of each connection, how much has been moved from one to the other, the edge of each window; segments that
//! wait for the driver.
//!
//! Not modelled: resets (connections of the simulator have none; a proxy would pass one on at once, ahead of what it holds); a
//! proxy that waits for the far SYN,ACK; an application at the proxy; time that it takes; ends that share one buffer; probes
//! of a closed window by the sender, in place of which an update that opens one is repeated, at most 15 times.

mod half;
#[cfg(test)]
mod tests;

use super::family::{AgentKeys, AgentSite, Refusal};
use super::{Agent, Crossing, Segment, Verdict};
use half::{END, Half, LINK, Split, exchange, unconfirmed};
use lasthop_analysis::AnalysisError;
use lasthop_base::packet::TcpHeader;
use lasthop_base::schema::keys::{Limits, choice, table};
use lasthop_base::schema::metrics::{Metric, Report, metrics};
use lasthop_base::schema::quantity::Window;
use lasthop_base::units::{Bytes, Instant};
use lasthop_tcp::config::RecoveryKind;
use lasthop_tcp::law::{LawKind, Marks};
use lasthop_tcp::{Config, Conventions, Overrides, Profile, Variant, presets};
use std::collections::VecDeque;

table! {
    /// Split connections, as a performance enhancing proxy (PEP, RFC 3135) makes them: each connection ends at the proxy, which
    /// acknowledges for the receiver and opens a connection of its own over the link.
    pub struct SplitConnectionKeys as "split-connection" {
        /// The host of the proxy, one end of the link.
        at: String;
        /// What it holds of each connection and direction; the advertised window is what is free of it.
        buffer: Bytes = "256 kB", Limits::BUFFER;
        /// The variant of TCP that it uses over the link; without it that of the flow.
        variant: Option<Variant>;
        /// The conventions of that variant; without it those of the flow.
        profile: Option<ProxyProfile>;
        /// The initial window over the link; without it that of the profile.
        initial_window: Option<Window>;
    }
}

choice! {
    /// Conventions of the proxy's own TCP.
    pub enum ProxyProfile {
        /// The current standards.
        Rfc = "rfc",
        /// A Linux 6 kernel with its default settings.
        Linux = "linux",
    }
}

/// The machine at one end of a link.
pub type Machine<P> = SplitConnection<P>;

metrics! {
    /// A proxy that splits TCP connections.
    pub struct SplitMetrics {
        /// Connections that the agent split.
        split_connections: "Split connections", Count, Neither, Sum;
        /// Bytes that the agent had acknowledged and that had not arrived at the end of the run.
        unconfirmed_bytes: "Unconfirmed", Bytes, Lower, Sum;
        /// Maximum over the run of the bytes acknowledged early.
        most_unconfirmed_bytes: "Most unconfirmed", Bytes, Lower, Max;
        /// Segments retransmitted by the half between the agent and the far host.
        end_retransmissions: "End retransmissions", Count, Lower, Sum;
        /// Timeouts of the half between the agent and the far host.
        end_timeouts: "End timeouts", Count, Lower, Sum;
        /// Segments retransmitted by the half over the link.
        link_retransmissions: "Link retransmissions", Count, Lower, Sum;
        /// Timeouts of the half over the link.
        link_timeouts: "Link timeouts", Count, Lower, Sum;
    }
}

impl AgentKeys for SplitConnectionKeys {
    type Machine<P: Segment + Clone> = Machine<P>;

    const METRICS: &'static [Metric] = SplitMetrics::METRICS;

    fn at(&self) -> Option<&str> {
        Some(&self.at)
    }

    fn check(&self, _site: &AgentSite<'_>) -> Result<(), Refusal> {
        if self.profile.is_none() || self.variant.is_some() {
            return Ok(());
        }
        let found = "a profile, and no variant that it is of";
        Err(Refusal::new("profile", found, "profile with variant, or neither"))
    }

    fn check_flow(&self, flow: &Config) -> Result<(), Refusal> {
        let refuse = |key, found: &str, allowed: &str| Err(Refusal::new(key, found, allowed));
        if flow.one_way {
            let found = "\"split-connection\" on the way of a flow of profile \"ns-2\"";
            return refuse(
                "kind",
                found,
                "flows that keep to the advertised window: profile \"rfc\" or \"linux\"",
            );
        }
        if matches!(flow.law, LawKind::LtTcp(_)) {
            let found = "\"split-connection\" on the way of a flow of variant \"lt-tcp\"";
            return refuse("kind", found, "flows that send bytes, not blocks of a code");
        }
        if self.buffer.get() < 2 * flow.segment.get() {
            let found = format!("{}, and a flow with segments of {}", self.buffer, flow.segment);
            return Err(Refusal::new("buffer", found, "at least two segments of each flow"));
        }
        let Some(variant) = self.variant else { return Ok(()) };
        let own = self.over_link(flow);
        let is_own_kind = matches!(own.law, LawKind::LtTcp(_) | LawKind::IdealBandwidth(_));
        if is_own_kind || !variant.is_of_hosts() {
            let found = format!("{:?}, which needs more than its own end", variant.word());
            return Err(Refusal::new(
                "variant",
                found,
                "a TCP that asks nothing of the receiver or the network",
            ));
        }
        let needs_sack = own.recovery != RecoveryKind::RackTlp && variant.has_sack();
        if needs_sack && !flow.sack {
            let found = format!("{:?}, and a flow without SACK", variant.word());
            return Err(Refusal::new(
                "variant",
                found,
                "variants without SACK, or flows of variants with it",
            ));
        }
        if own.marks != Marks::Classic && own.marks != flow.marks {
            let found = format!("{:?}, and a flow that echoes marks otherwise", variant.word());
            return Err(Refusal::new(
                "variant",
                found,
                "the variant of the flow, or one that does not go by marks",
            ));
        }
        if own.law.reads_arrivals() && !flow.timestamps {
            let found = format!("{:?}, and a flow without timestamps", variant.word());
            return Err(Refusal::new("variant", found, "flows with timestamps = true"));
        }
        Ok(())
    }

    fn splits(&self) -> bool {
        true
    }

    fn build<P: Segment + Clone>(
        &self,
        site: &AgentSite<'_>,
        _connections: usize,
    ) -> Result<Machine<P>, AnalysisError> {
        let split = |flow: &Option<Config>| {
            flow.as_ref().map(|flow| {
                let configs = [self.towards_end(flow), self.over_link(flow)];
                Box::new(Split::new(configs, self.buffer.get()))
            })
        };
        Ok(SplitConnection::new(site.flows.iter().map(split).collect()))
    }
}

impl SplitConnectionKeys {
    /// The half that stands for the receiver: what that would have negotiated, with the proxy's buffer.
    fn towards_end(&self, flow: &Config) -> Config {
        let receive_window = self.buffer.get() as f64 / flow.segment.get() as f64;
        Config { receive_window, autotuning: false, ..*flow }
    }

    /// The half over the link: what was negotiated, and the proxy's own way to send.
    fn over_link(&self, flow: &Config) -> Config {
        let base = self.towards_end(flow);
        let initial_window = self.initial_window.map(|window| match window {
            Window::Segments(segments) => f64::from(segments),
            Window::Bytes(bytes) => (bytes.get() as f64 / flow.segment.get() as f64).max(1.0),
        });
        let Some(variant) = self.variant else {
            return Config {
                initial_window: initial_window.unwrap_or(base.initial_window),
                ..base
            };
        };
        let profile = match (self.profile, flow.conventions) {
            (Some(ProxyProfile::Linux), _) | (None, Conventions::Linux) => Profile::Linux,
            (Some(ProxyProfile::Rfc), _) | (None, Conventions::Rfc | Conventions::Ns2) => {
                Profile::Rfc
            }
        };
        let overrides = Overrides {
            segment: Some(flow.segment),
            header: Some(flow.header),
            ack_size: Some(flow.ack_size),
            delayed_ack: Some(flow.delayed_ack),
            ecn: Some(flow.ecn),
            timestamps: Some(flow.timestamps),
            handshake: Some(flow.handshake),
            fin: Some(flow.fin),
            pad_segments: Some(flow.pad_segments),
            initial_window,
            ..Overrides::default()
        };
        let own = presets::config(variant, profile, &overrides);
        let receive_window = base.receive_window;
        Config {
            receive_window,
            sack: flow.sack,
            dsack: flow.dsack,
            autotuning: false,
            quick_acks: 0,
            ..own
        }
    }
}

/// A proxy that splits connections at one end of a link.
#[derive(Clone, Debug)]
pub struct SplitConnection<P> {
    /// By connection; none of those that it leaves alone.
    connections: Vec<Option<Box<Split>>>,
    /// What waits for the driver: towards the ends, over the link.
    ready: [VecDeque<P>; 2],
    /// A packet of each connection, whose way its own ones take.
    patterns: Vec<Option<P>>,
    /// Not later than the first deadline of a connection.
    next_timeout: Instant,
    split: u64,
    most_unconfirmed: u64,
}

impl<P: Segment + Clone> SplitConnection<P> {
    /// A proxy of these connections.
    fn new(connections: Vec<Option<Box<Split>>>) -> Self {
        SplitConnection {
            patterns: vec![None; connections.len()],
            connections,
            ready: [VecDeque::new(), VecDeque::new()],
            next_timeout: Instant::NEVER,
            split: 0,
            most_unconfirmed: 0,
        }
    }

    /// A packet from the ends behind the proxy, or from over the link, ends here.
    fn take(&mut self, now: Instant, from: usize, index: Option<usize>, packet: &P) -> Verdict {
        let Some(index) = index else { return Verdict::Forward };
        let (Some(header), Some(view)) = (packet.header(), packet.segment()) else {
            return Verdict::Forward;
        };
        let Some(Some(split)) = self.connections.get_mut(index) else { return Verdict::Forward };
        let is_new = split.halves.is_none() || view.incarnation != split.incarnation;
        let Some(halves) = split.halves(view.incarnation, from) else { return Verdict::Suppress };
        if is_new {
            self.split += 1;
            self.patterns[index] = Some(packet.clone());
            halves[1 - from].connection.open();
        }
        halves[from].on_segment(now, &header);
        self.serve(now, index);
        Verdict::Suppress
    }

    /// Moves data of a connection on, and sends what its halves have to send.
    fn serve(&mut self, now: Instant, index: usize) {
        let (Some(Some(split)), Some(Some(pattern))) =
            (self.connections.get_mut(index), self.patterns.get(index))
        else {
            return;
        };
        let Some(halves) = &mut split.halves else { return };
        let held = exchange(halves, now, split.buffer);
        self.most_unconfirmed = self.most_unconfirmed.max(held);
        for (half, ready) in halves.iter_mut().zip(&mut self.ready) {
            let mut header = TcpHeader::default();
            while let Some(bytes) = half.connection.poll_transmit(now, &mut header) {
                half.told = half.told.max(half.edge);
                ready.extend(pattern.with_header(bytes, &header));
            }
            self.next_timeout = self.next_timeout.min(half.next_timeout());
        }
    }

    fn halves(&self) -> impl Iterator<Item = &[Half; 2]> {
        self.connections.iter().flatten().filter_map(|split| split.halves.as_ref())
    }
}

impl<P: Segment + Clone> Agent<P> for SplitConnection<P> {
    fn down(&mut self, now: Instant, crossing: Crossing, packet: &mut P) -> Verdict {
        self.take(now, END, crossing.connection, packet)
    }

    fn up(&mut self, now: Instant, connection: Option<usize>, packet: &mut P) -> Verdict {
        self.take(now, LINK, connection, packet)
    }

    fn poll_down(&mut self) -> Option<P> {
        self.ready[LINK].pop_front()
    }

    fn poll_up(&mut self) -> Option<P> {
        self.ready[END].pop_front()
    }

    fn next_timeout(&self) -> Instant {
        self.next_timeout
    }

    fn handle_timeout(&mut self, now: Instant) {
        if now < self.next_timeout {
            return;
        }
        self.next_timeout = Instant::NEVER;
        for index in 0..self.connections.len() {
            let Some(Some(split)) = self.connections.get_mut(index) else { continue };
            let Some(halves) = &mut split.halves else { continue };
            let due = halves.iter().map(Half::next_timeout).min().unwrap_or(Instant::NEVER);
            if due > now {
                self.next_timeout = self.next_timeout.min(due);
                continue;
            }
            for half in halves {
                half.on_timeout(now);
            }
            self.serve(now, index);
        }
    }

    fn metrics(&self, report: &mut Report<'_>) {
        let unconfirmed: u64 =
            self.halves().map(|halves| unconfirmed(halves, END) + unconfirmed(halves, LINK)).sum();
        let [end, link] = [END, LINK].map(|side| {
            let counters = self.halves().map(|halves| halves[side].connection.counters());
            counters.fold([0; 2], |[retransmissions, timeouts], counters| {
                [retransmissions + counters.retransmissions, timeouts + counters.timeouts]
            })
        });
        let metrics = SplitMetrics {
            split_connections: self.split as f64,
            unconfirmed_bytes: unconfirmed as f64,
            most_unconfirmed_bytes: self.most_unconfirmed as f64,
            end_retransmissions: end[0] as f64,
            end_timeouts: end[1] as f64,
            link_retransmissions: link[0] as f64,
            link_timeouts: link[1] as f64,
        };
        metrics.report(report);
    }
}
