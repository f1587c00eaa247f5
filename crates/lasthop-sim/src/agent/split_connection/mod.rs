//! Split connections (RFC 3135, section 2.4 and 3.1): a performance enhancing proxy that terminates each TCP
//! connection at its host and opens a separate one towards the other end.
//!
//! ```text
//!   sender             proxy                               receiver
//!     | -- SYN -------> | -- SYN ---------------------------> |
//!     | <- SYN,ACK ---- |                                     |
//!     | -- data ------> | buffer -- data ------------------->  |     each half recovers its own losses
//!     | <- ACK, window  | <---------------------------- ACK -- |     window: free space of the buffer
//!     | -- FIN -------> | -- FIN behind the last data ------> |
//! ```
//!
//! State of a connection at the proxy, for both directions of data:
//!
//! ```text
//!   (none) --first segment of an instance--> both halves open --FIN--> the other half closes after the buffered data
//! ```
//!
//! The half that receives the first segment responds immediately, before the other end has been
//! contacted. Its options are those that the flow would negotiate; the half over the link may have its own
//! variant, profile and initial window. Each direction has a buffer for bytes that one end has sent in order
//! and the other has not acknowledged, and for bytes above a gap, for which the advertised window has room.
//! The right edge of the window never decreases. It increases by at least two segments or half of the buffer
//! (RFC 9293, section 3.8.6.2.2); increases are advertised immediately.
//!
//! The proxy breaks end-to-end semantics: data that it has acknowledged may not have reached the receiver, and
//! would be lost with the proxy. The amount of this data is counted.
//!
//! State: both halves of each connection, the number of bytes passed between them, the edge of each window,
//! and segments that wait for the driver.
//!
//! Limitations: resets (connections of the simulator have none; a proxy would forward one immediately), a
//! proxy that waits for the far SYN,ACK, an application at the proxy, processing time, and buffers shared by
//! connections are not modelled. Senders do not probe a closed window; instead, an update that opens a window
//! is repeated at most 15 times.

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
use lasthop_tcp::congestion_control::{CongestionControlKind, Marks};
use lasthop_tcp::{Config, Overrides, Profile, Variant, presets};
use std::collections::VecDeque;

table! {
    /// Split connections by a performance enhancing proxy (PEP, RFC 3135): each connection ends at
    /// the proxy, which acknowledges data for the receiver and opens a separate connection over the
    /// link.
    pub struct SplitConnectionKeys as "split-connection" {
        /// Host of the proxy, one end of the link.
        at: String;
        /// Buffer per connection and direction; its free space is the advertised window.
        buffer: Bytes = "256 kB", Limits::BUFFER;
        /// TCP variant over the link; default: that of the flow.
        variant: Option<Variant>;
        /// Profile of this variant; default: that of the flow.
        profile: Option<ProxyProfile>;
        /// Initial window over the link; default: that of the profile.
        initial_window: Option<Window>;
    }
}

choice! {
    /// Conventions of the proxy's TCP over the link.
    pub enum ProxyProfile {
        /// The current standards.
        Rfc = "rfc",
        /// A Linux 6 kernel with its default settings.
        Linux = "linux",
    }
}

/// State machine of the agent.
pub type Machine<P> = SplitConnection<P>;

metrics! {
    /// A proxy that splits TCP connections.
    pub struct SplitMetrics {
        /// Connections that the agent split.
        split_connections: "Split connections", Count, Neither, Sum;
        /// Bytes that the agent had acknowledged and that had not arrived at the end of the run.
        unconfirmed_bytes: "Unconfirmed", Bytes, Lower, Sum, Level;
        /// Maximum over the run of the bytes acknowledged early.
        #[was = "most_unconfirmed_bytes"]
        max_unconfirmed_bytes: "Maximum unconfirmed", Bytes, Lower, Max;
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
            let found = "\"split-connection\" on the route of a flow of profile \"ns-2\"";
            return refuse(
                "kind",
                found,
                "flows that keep to the advertised window: profile \"rfc\" or \"linux\"",
            );
        }
        if matches!(flow.congestion_control, CongestionControlKind::LtTcp(_)) {
            let found = "\"split-connection\" on the route of a flow of variant \"lt-tcp\"";
            return refuse("kind", found, "flows that send bytes, not blocks of a code");
        }
        if self.buffer.get() < 2 * flow.segment.get() {
            let found = format!("{}, and a flow with segments of {}", self.buffer, flow.segment);
            return Err(Refusal::new("buffer", found, "at least two segments of each flow"));
        }
        let Some(variant) = self.variant else { return Ok(()) };
        let own = self.over_link(flow);
        let is_own_kind = matches!(
            own.congestion_control,
            CongestionControlKind::LtTcp(_) | CongestionControlKind::IdealBandwidth(_)
        );
        if is_own_kind || !variant.is_of_hosts() {
            let found = format!("{:?}, which needs more than its own end", variant.word());
            return Err(Refusal::new(
                "variant",
                found,
                "a TCP without requirements on the receiver or the network",
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
                "the variant of the flow, or a variant that does not use marks",
            ));
        }
        if own.congestion_control.reads_arrivals() && !flow.timestamps {
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
    /// Returns the parameters of the half that acts as the receiver: those that the receiver would
    /// negotiate, with the proxy's buffer.
    fn towards_end(&self, flow: &Config) -> Config {
        let receive_window = self.buffer.get() as f64 / flow.segment.get() as f64;
        Config { receive_window, autotuning: false, send_buffer: None, ..*flow }
    }

    /// Returns the parameters of the half over the link: negotiated options with the proxy's
    /// variant.
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
        let profile = match (self.profile, flow.profile) {
            (Some(ProxyProfile::Linux), _) | (None, Profile::Linux) => Profile::Linux,
            (Some(ProxyProfile::Rfc), _) | (None, Profile::Rfc | Profile::Ns2) => Profile::Rfc,
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
    /// By connection; `None` for connections that are not split.
    connections: Vec<Option<Box<Split>>>,
    /// Packets that wait for the driver: towards the end hosts, over the link.
    ready: [VecDeque<P>; 2],
    /// A packet of each connection, as a template for the path of new packets.
    patterns: Vec<Option<P>>,
    /// Lower bound of the deadlines of all connections.
    next_timeout: Instant,
    split: u64,
    most_unconfirmed: u64,
}

impl<P: Segment + Clone> SplitConnection<P> {
    /// Creates a proxy for these connections.
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

    /// Terminates a packet from the hosts behind the proxy, or from the link.
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

    /// Passes data between the halves of a connection, and sends their segments.
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
                half.advertised = half.advertised.max(half.edge);
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
            max_unconfirmed_bytes: self.most_unconfirmed as f64,
            end_retransmissions: end[0] as f64,
            end_timeouts: end[1] as f64,
            link_retransmissions: link[0] as f64,
            link_timeouts: link[1] as f64,
        };
        metrics.report(report);
    }
}
