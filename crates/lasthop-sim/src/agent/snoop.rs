//! Berkeley Snoop: a base station repairs TCP's losses on the wireless link (Balakrishnan, Seshan,
//! Amir, Katz, "Improving TCP/IP performance over wireless networks", 1995).
//!
//! The agent caches each data packet sent to the wireless host until the host acknowledges it. If duplicate
//! ACKs or a timer indicate a loss and the packet is cached, the agent retransmits the cached copy. It
//! suppresses the duplicate ACKs of the loss, so that the sender does not treat the loss as congestion.
//! One connection:
//!
//! ```text
//!                     new ACK: free acknowledged packets, take an RTT sample, forward
//!                   +--------------------------------------------------+
//!                   v                                                  |
//!   data --------> IN STEP -- duplicates below the threshold: forward  |
//!   cache, forward  |   |                                              |
//!                   |   +-- duplicate at the threshold: count packets -+--> REPAIRING
//!                   |       sent since the last ACK, retransmit the    |    expected duplicates:
//!                   |       tail, suppress                             |      suppress
//!                   +------ timer of the tail: retransmit -------------+    one more: retransmit,
//!                                                                      |      suppress
//!                                                                      +--- timer: retransmit
//!   the missing packet is not cached, or its last copy is the sender's retransmission, or
//!   all local retransmissions are used up: forward every duplicate to the sender
//! ```
//!
//! The *tail* is the oldest cached packet. It can be repaired only if it contains the first byte that the host
//! misses. A link delivers packets in order, so each packet that entered it after the last one known to have
//! arrived, and before the retransmission, causes one more duplicate. Further duplicates are caused by
//! packets sent after the retransmission, and indicate that the retransmission was lost, too. A packet is
//! cached only if the interface queue has room for another one: drops of a full queue are congestion losses,
//! which TCP must detect. RTT samples are taken from packets sent once.
//!
//! Form "ns-2" is in `snoop_ns2.rs`, which lists the differences.
//!
//! Choices not specified by the paper, or different from it: the first duplicate is forwarded to the sender
//! (threshold 2, as in ns-2; the paper has threshold 1). ACKs older than the newest are forwarded; the paper
//! discards them. A packet that the host has acknowledged and the sender retransmits is forwarded; in the
//! paper, the base station acknowledges it.
//!
//! Limitations: priority for local retransmissions, repair of data from the wireless host (negative
//! acknowledgments, explicit loss notification), repair of more than one packet per loss event (SMART, SACK:
//! the SACK blocks of suppressed duplicates are lost) and handoff are not modelled.

use super::cache::{Cache, Entry, RoundTrip, unwrap};
use super::family::{AgentKeys, AgentSite};
use super::snoop_ns2::Ns2Connection;
use super::{Agent, AgentCounters, AgentEvent, Crossing, Segment, SegmentView, Verdict};
use lasthop_analysis::AnalysisError;
use lasthop_base::schema::keys::{Limits, choice, table};
use lasthop_base::schema::metrics::{Metric, Report, metrics};
use lasthop_base::units::{Duration, Instant};
use std::collections::VecDeque;

table! {
    /// Berkeley Snoop: a base station retransmits TCP segments lost on the link, and hides the
    /// losses from the sender.
    pub struct SnoopKeys as "snoop" {
        /// Host of the agent, one end of the link; the agent repairs losses of data that its host
        /// sends over the link.
        at: String;
        /// Deviations from the published mechanism.
        quirks: Quirks = "none";
        /// Number of packets cached per connection.
        cache: u32 = "100", Limits::range(1, 10_000);
        /// Number of duplicate ACKs that triggers a local retransmission; earlier duplicates are
        /// forwarded to the sender.
        dupack_threshold: u32 = "2", Limits::range(1, 255);
        /// Minimum local retransmission timeout.
        min_rto: Duration = "100 ms", Limits::POSITIVE;
        /// RTT of the link before the first sample.
        initial_srtt: Duration = "100 ms";
        /// RTT variation before the first sample.
        initial_rttvar: Duration = "250 ms";
        /// Maximum number of local retransmissions per packet.
        max_retransmissions: u32 = "10", Limits::range(1, 1_000);
    }
}

choice! {
    /// Deviations of an agent from the published mechanism.
    pub enum Quirks {
        /// The published mechanism.
        None = "none",
        /// The deviations of the simulator ns-2.
        Ns2 = "ns-2",
    }
}

/// State machine of the agent.
pub type Machine<P> = Snoop<P>;

metrics! {
    /// Snoop at one end of a link.
    pub struct SnoopMetrics {
        /// Segments stored.
        cached: "Cached segments", Count, Neither, Sum;
        /// Segments that the agent retransmitted.
        local_retransmissions: "Local retransmissions", Count, Lower, Sum;
        /// Expiries of the agent's retransmission timer.
        local_timeouts: "Local timeouts", Count, Lower, Sum;
        /// Duplicate ACKs that the agent dropped.
        suppressed_acks: "Suppressed ACKs", Count, Neither, Sum;
    }
}

impl AgentKeys for SnoopKeys {
    type Machine<P: Segment + Clone> = Machine<P>;

    const METRICS: &'static [Metric] = SnoopMetrics::METRICS;

    fn at(&self) -> Option<&str> {
        Some(&self.at)
    }

    /// ns-2 has one state per pair of hosts, for all their connections.
    fn is_per_host_pair(&self) -> bool {
        self.quirks == Quirks::Ns2
    }

    fn build<P: Segment + Clone>(
        &self,
        _site: &AgentSite<'_>,
        connections: usize,
    ) -> Result<Machine<P>, AnalysisError> {
        let parameters = SnoopParameters {
            quirks: self.quirks,
            cache: self.cache as usize,
            dupack_threshold: self.dupack_threshold,
            min_rto: self.min_rto,
            initial_srtt: self.initial_srtt,
            initial_rttvar: self.initial_rttvar,
            max_retransmissions: self.max_retransmissions,
        };
        Ok(Snoop::new(parameters, connections))
    }
}

/// Parameters of Snoop; the defaults are those of ns-2.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SnoopParameters {
    /// Deviations from the published mechanism.
    pub quirks: Quirks,
    /// Number of packets cached per connection, at least 1.
    pub cache: usize,
    /// Number of duplicate ACKs that triggers a local retransmission; earlier duplicates are
    /// forwarded.
    pub dupack_threshold: u32,
    /// Minimum local retransmission timeout.
    pub min_rto: Duration,
    /// RTT of the link before the first sample.
    pub initial_srtt: Duration,
    /// RTT variation before the first sample.
    pub initial_rttvar: Duration,
    /// Maximum number of local retransmissions per packet.
    pub max_retransmissions: u32,
}

impl Default for SnoopParameters {
    fn default() -> Self {
        SnoopParameters {
            quirks: Quirks::None,
            cache: 100,
            dupack_threshold: 2,
            min_rto: Duration::from_millis(100),
            initial_srtt: Duration::from_millis(100),
            initial_rttvar: Duration::from_millis(250),
            max_retransmissions: 10,
        }
    }
}

impl SnoopParameters {
    pub(super) fn round_trip(&self) -> RoundTrip {
        RoundTrip::new(self.initial_srtt, self.initial_rttvar, self.min_rto)
    }
}

/// Output queue and counters of all connections.
#[derive(Clone, Debug)]
pub(super) struct Output<P> {
    packets: VecDeque<P>,
    events: VecDeque<AgentEvent>,
    pub counters: AgentCounters,
}

impl<P: Clone> Output<P> {
    /// Retransmits a cached packet.
    pub fn retransmit(&mut self, now: Instant, entry: &mut Entry<P>) {
        entry.retransmissions += 1;
        entry.sent = now;
        self.packets.push_back(entry.packet.clone());
        self.counters.local_retransmissions += 1;
        let sequence = entry.seq as u32;
        self.events.push_back(AgentEvent::LocalRetransmission { sequence });
    }

    pub fn suppress(&mut self, ack: u32) -> Verdict {
        self.counters.suppressed_acks += 1;
        self.events.push_back(AgentEvent::SuppressedAck { ack });
        Verdict::Suppress
    }

    pub fn timed_out(&mut self, sequence: i64) {
        self.counters.local_timeouts += 1;
        self.events.push_back(AgentEvent::LocalTimeout { sequence: sequence as u32 });
    }
}

/// A connection without quirks.
#[derive(Clone, Debug)]
struct Connection<P> {
    incarnation: u32,
    /// Sequence number of the SYN, if one was received.
    isn: Option<u32>,
    /// First unacknowledged byte; `None` before the first packet.
    una: Option<i64>,
    /// Byte after the last byte received.
    highest: i64,
    cache: Cache<P>,
    /// Last window advertised by the host.
    window: Option<u32>,
    /// Number of data transmissions over the link; the stamp of the next one.
    transmissions: u64,
    /// Number of transmissions whose outcome is known from ACKs.
    settled: u64,
    /// Duplicates of `una` received, and duplicates still to be suppressed.
    duplicates: u64,
    expected: u64,
    round_trip: RoundTrip,
    deadline: Instant,
}

impl<P: Clone> Connection<P> {
    fn new(set: &SnoopParameters) -> Self {
        Connection {
            incarnation: 0,
            isn: None,
            una: None,
            highest: 0,
            cache: Cache::new(),
            window: None,
            transmissions: 0,
            settled: 0,
            duplicates: 0,
            expected: 0,
            round_trip: set.round_trip(),
            deadline: Instant::NEVER,
        }
    }

    /// Resets the state for a new connection instance, except the RTT of the link; returns `false`
    /// if the segment belongs to an earlier instance.
    #[inline]
    fn belongs(&mut self, view: &SegmentView) -> bool {
        let newer = view.incarnation.wrapping_sub(self.incarnation) as i32;
        if newer > 0 {
            self.reset();
            self.incarnation = view.incarnation;
        }
        newer >= 0
    }

    fn reset(&mut self) {
        self.cache.entries.clear();
        (self.isn, self.una, self.window) = (None, None, None);
        (self.settled, self.duplicates, self.expected) = (self.transmissions, 0, 0);
        self.deadline = Instant::NEVER;
    }

    fn is_tail_missing(&self) -> bool {
        self.cache.tail().is_some_and(|tail| self.una.is_some_and(|una| tail.seq <= una))
    }

    fn restart_timer(&mut self, now: Instant) {
        let runs = self.is_tail_missing();
        self.deadline = if runs { now + self.round_trip.timeout() } else { Instant::NEVER };
    }

    /// Processes data to the wireless host; returns `true` if it was cached.
    fn data(
        &mut self,
        now: Instant,
        set: &SnoopParameters,
        view: &SegmentView,
        packet: &P,
        has_room: bool,
    ) -> bool {
        if view.syn && self.isn != Some(view.seq) {
            self.reset();
            self.isn = Some(view.seq);
        }
        let una = match self.una {
            Some(una) => una,
            None => {
                self.highest = view.seq.into();
                *self.una.insert(view.seq.into())
            }
        };
        let stamp = self.transmissions;
        self.transmissions += 1;
        let seq = unwrap(una, view.seq);
        let end = seq + i64::from(view.length);
        let is_old = seq < self.highest;
        self.highest = self.highest.max(end);
        if end <= una {
            return false;
        }
        let place = self.cache.place(seq);
        let known = self.cache.entries.get_mut(place);
        if let Some(entry) = known.filter(|entry| entry.seq == seq && entry.end <= end) {
            (entry.packet, entry.end, entry.sent, entry.stamp) = (packet.clone(), end, now, stamp);
            (entry.retransmissions, entry.by_sender) = (0, true);
        } else {
            if !has_room || self.cache.entries.len() >= set.cache {
                return false;
            }
            self.cache.insert(place, now, seq, view, packet.clone());
            let entry = &mut self.cache.entries[place];
            (entry.stamp, entry.by_sender) = (stamp, is_old);
        }
        if place == 0 {
            self.restart_timer(now);
        }
        true
    }

    /// Processes an ACK from the wireless host.
    fn ack(
        &mut self,
        now: Instant,
        set: &SnoopParameters,
        view: &SegmentView,
        ack: u32,
        out: &mut Output<P>,
    ) -> Verdict {
        let window = self.window.replace(view.window);
        let updates_window = window.is_some_and(|window| window != view.window);
        let Some(una) = self.una else {
            (self.una, self.highest) = (Some(ack.into()), ack.into());
            return Verdict::Forward;
        };
        let wire = ack;
        let ack = unwrap(una, wire);
        if ack > una {
            self.new_ack(now, ack);
            return Verdict::Forward;
        }
        let is_duplicate = ack == una && view.length == 0 && !updates_window;
        if !is_duplicate || !self.is_tail_missing() {
            return Verdict::Forward;
        }
        let Some(tail) = self.cache.tail() else { return Verdict::Forward };
        if tail.by_sender {
            return Verdict::Forward;
        }
        self.duplicates += 1;
        if self.expected > 0 {
            self.expected -= 1;
            return out.suppress(wire);
        }
        let is_repairing = tail.retransmissions > 0;
        let is_early = self.duplicates < u64::from(set.dupack_threshold) && !is_repairing;
        if is_early || tail.retransmissions >= set.max_retransmissions {
            return Verdict::Forward;
        }
        // After a repair, this duplicate is the first that indicates the loss of the repair.
        let seen = if is_repairing { 1 } else { self.duplicates };
        self.retransmit(now, seen, out);
        out.suppress(wire)
    }

    /// Retransmits the tail and counts the duplicates that earlier transmissions will cause; `seen`
    /// of those sent since the last repair have been received.
    fn retransmit(&mut self, now: Instant, seen: u64, out: &mut Output<P>) {
        let (sent, settled) = (self.transmissions, self.settled);
        if let Some(tail) = self.cache.entries.front_mut() {
            // The missing packet causes no duplicate.
            let others = if tail.retransmissions > 0 {
                self.expected + sent - (tail.stamp + 1)
            } else {
                (sent - settled).saturating_sub(u64::from(tail.stamp >= settled))
            };
            self.expected = others.saturating_sub(seen);
            tail.stamp = sent;
            self.transmissions += 1;
            out.retransmit(now, tail);
        }
        self.restart_timer(now);
    }

    fn new_ack(&mut self, now: Instant, ack: i64) {
        let mut sample = None;
        while let Some(entry) = self.cache.pop_acked(ack) {
            self.settled = self.settled.max(entry.stamp + 1);
            let once = entry.retransmissions == 0 && !entry.by_sender;
            // If an ACK covers several packets, the last one sent provides the sample.
            sample = sample.max(once.then_some(entry.sent));
        }
        if ack >= self.highest {
            self.settled = self.transmissions;
            self.highest = ack;
        }
        if let Some(sent) = sample {
            self.round_trip.measure(now.saturating_since(sent));
        }
        self.una = Some(ack);
        (self.duplicates, self.expected) = (0, 0);
        self.restart_timer(now);
    }

    fn handle_timeout(&mut self, now: Instant, set: &SnoopParameters, out: &mut Output<P>) {
        self.deadline = Instant::NEVER;
        let Some(tail) = self.cache.tail() else { return };
        if tail.retransmissions >= set.max_retransmissions {
            return;
        }
        out.timed_out(tail.seq);
        let seen = if tail.retransmissions > 0 { 0 } else { self.duplicates };
        self.retransmit(now, seen, out);
    }
}

#[derive(Clone, Debug)]
enum Connections<P> {
    Plain(Vec<Connection<P>>),
    /// `duplicates` is the counter that all connections share.
    Ns2 {
        connections: Vec<Ns2Connection<P>>,
        duplicates: u32,
    },
}

/// The agent at one end of a link.
#[derive(Clone, Debug)]
pub struct Snoop<P> {
    set: SnoopParameters,
    connections: Connections<P>,
    output: Output<P>,
    /// Lower bound of all deadlines.
    wake: Instant,
}

impl<P: Segment + Clone> Snoop<P> {
    /// Creates an agent for connections `0..connections`; more are added on demand.
    pub fn new(set: SnoopParameters, connections: usize) -> Self {
        let connections = match set.quirks {
            Quirks::None => Connections::Plain(vec![Connection::new(&set); connections]),
            Quirks::Ns2 => Connections::Ns2 {
                connections: vec![Ns2Connection::new(&set); connections],
                duplicates: 0,
            },
        };
        let output = Output {
            packets: VecDeque::with_capacity(16),
            events: VecDeque::with_capacity(16),
            counters: AgentCounters::default(),
        };
        Snoop { set, connections, output, wake: Instant::NEVER }
    }

    /// Returns the counters since the start.
    pub fn counters(&self) -> AgentCounters {
        self.output.counters
    }

    /// Returns the number of packets cached for `connection`.
    pub fn cached(&self, connection: usize) -> usize {
        match &self.connections {
            Connections::Plain(all) => all.get(connection).map(|one| one.cache.entries.len()),
            Connections::Ns2 { connections: all, .. } => {
                all.get(connection).map(Ns2Connection::cached)
            }
        }
        .unwrap_or(0)
    }

    fn grow(&mut self, connection: usize) {
        let set = &self.set;
        match &mut self.connections {
            Connections::Plain(all) if all.len() <= connection => {
                all.resize_with(connection + 1, || Connection::new(set));
            }
            Connections::Ns2 { connections: all, .. } if all.len() <= connection => {
                all.resize_with(connection + 1, || Ns2Connection::new(set));
            }
            _ => {}
        }
    }
}

impl<P: Segment + Clone> Agent<P> for Snoop<P> {
    fn down(&mut self, now: Instant, crossing: Crossing, packet: &mut P) -> Verdict {
        let Crossing { connection: Some(connection), has_room } = crossing else {
            return Verdict::Forward;
        };
        let Some(view) = packet.segment() else { return Verdict::Forward };
        self.grow(connection);
        let (is_cached, deadline) = match &mut self.connections {
            Connections::Plain(all) => {
                let one = &mut all[connection];
                let concerns = one.belongs(&view) && view.length > 0;
                let is_cached = concerns && one.data(now, &self.set, &view, packet, has_room);
                (is_cached, one.deadline)
            }
            Connections::Ns2 { connections: all, .. } => {
                let one = &mut all[connection];
                // In ns-2, a segment with an ACK and without payload is an acknowledgment.
                let is_data = view.payload > 0 || view.length > 0 && view.ack.is_none();
                let is_cached = is_data && one.data(now, &self.set, &view, packet, has_room);
                (is_cached, one.deadline)
            }
        };
        self.output.counters.cached += u64::from(is_cached);
        self.wake = self.wake.min(deadline);
        Verdict::Forward
    }

    fn up(&mut self, now: Instant, connection: Option<usize>, packet: &mut P) -> Verdict {
        let Some(connection) = connection else { return Verdict::Forward };
        let Some(view) = packet.segment() else { return Verdict::Forward };
        self.grow(connection);
        let (verdict, deadline) = match &mut self.connections {
            Connections::Plain(all) => {
                let one = &mut all[connection];
                let belongs = one.belongs(&view);
                let verdict = match view.ack {
                    Some(ack) if belongs => one.ack(now, &self.set, &view, ack, &mut self.output),
                    // The wireless host opens a new connection; missing data of the previous one is
                    // obsolete.
                    None if belongs && view.syn => {
                        one.reset();
                        Verdict::Forward
                    }
                    _ => Verdict::Forward,
                };
                (verdict, one.deadline)
            }
            Connections::Ns2 { connections: all, duplicates } => {
                let one = &mut all[connection];
                let verdict = match view.ack {
                    // ns-2 distinguishes data packets from ACKs and processes the latter only.
                    Some(ack) if view.length == 0 => {
                        one.ack(now, &self.set, ack, duplicates, &mut self.output)
                    }
                    _ => Verdict::Forward,
                };
                (verdict, one.deadline)
            }
        };
        self.wake = self.wake.min(deadline);
        verdict
    }

    fn poll_down(&mut self) -> Option<P> {
        self.output.packets.pop_front()
    }

    fn poll_event(&mut self) -> Option<AgentEvent> {
        self.output.events.pop_front()
    }

    fn next_timeout(&self) -> Instant {
        self.wake
    }

    fn handle_timeout(&mut self, now: Instant) {
        if now < self.wake {
            return;
        }
        self.wake = Instant::NEVER;
        match &mut self.connections {
            Connections::Plain(all) => {
                for one in all {
                    if one.deadline <= now {
                        one.handle_timeout(now, &self.set, &mut self.output);
                    }
                    self.wake = self.wake.min(one.deadline);
                }
            }
            Connections::Ns2 { connections: all, .. } => {
                for one in all {
                    if one.deadline <= now {
                        one.handle_timeout(now, &self.set, &mut self.output);
                    }
                    self.wake = self.wake.min(one.deadline);
                }
            }
        }
    }

    fn metrics(&self, report: &mut Report<'_>) {
        let counters = self.output.counters;
        let metrics = SnoopMetrics {
            cached: counters.cached as f64,
            local_retransmissions: counters.local_retransmissions as f64,
            local_timeouts: counters.local_timeouts as f64,
            suppressed_acks: counters.suppressed_acks as f64,
        };
        metrics.report(report);
    }
}
