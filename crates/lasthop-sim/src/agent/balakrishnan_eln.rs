//! Explicit loss notification of Balakrishnan and Katz ("Explicit Loss Notification and Wireless Web
//! Performance", GLOBECOM 1998), at a base station.
//!
//! The agent stores sequence numbers, no copies, and marks ACKs ([`Segment::mark_loss`]) whose next expected
//! segment was lost on the wireless link. Per connection:
//!
//! ```text
//!   data from the wireless host                    ACK to it
//!     a gap in sequence: a hole          --- requests a hole -----------> mark, forward
//!     below the highest: fills a hole    --- requests another segment --> forward
//!
//!   data to the wireless host                      duplicate ACK from it
//!     record the segment as forwarded    --- requests a forwarded one --> mark, forward
//!     the queue is full: do not record   --- requests another segment --> forward: congestion
//! ```
//!
//! The first half is the paper's. The second half, for data from the wired path, follows the description of
//! Yun (2009, section 1). A new ACK removes the records that it covers. A segment that arrives again from the
//! wired path and was forwarded before remains recorded.
//!
//! Choices not specified by the papers: holes are stored exactly, without ns-2's limit of 8 blocks
//! (`snoop.cc`); a duplicate ACK repeats the previous acknowledgment number and carries no data.
//!
//! Limitation: handoff is not modelled.

use super::cache::unwrap;
use super::family::{AgentKeys, AgentSite};
use super::{Agent, AgentEvent, Crossing, Segment, SegmentView, Verdict};
use lasthop_analysis::AnalysisError;
use lasthop_base::schema::keys::table;
use lasthop_base::schema::metrics::{Metric, Report, metrics};
use lasthop_base::units::Instant;
use std::collections::VecDeque;

table! {
    /// Explicit loss notification of Balakrishnan and Katz: a base station marks ACKs that request
    /// a segment lost on the wireless link.
    pub struct BalakrishnanElnKeys as "balakrishnan-eln" {
        /// The base station, one end of the link; the other end is the wireless host.
        at: String;
    }
}

/// State machine of the agent.
pub type Machine<P> = BalakrishnanEln<P>;

metrics! {
    /// Marks of explicit loss notification.
    pub struct ElnMetrics {
        /// ACKs marked with a notification of a loss on the link.
        marked_acks: "Marked ACKs", Count, Neither, Sum;
    }
}

impl AgentKeys for BalakrishnanElnKeys {
    type Machine<P: Segment + Clone> = Machine<P>;

    const METRICS: &'static [Metric] = ElnMetrics::METRICS;

    fn at(&self) -> Option<&str> {
        Some(&self.at)
    }

    fn build<P: Segment + Clone>(
        &self,
        _site: &AgentSite<'_>,
        connections: usize,
    ) -> Result<Machine<P>, AnalysisError> {
        Ok(BalakrishnanEln::new(connections))
    }
}

/// State of one direction of data of a connection.
#[derive(Clone, Debug, Default)]
struct Numbers {
    /// Highest byte acknowledged, and the byte after the highest received.
    una: Option<i64>,
    highest: i64,
    /// Disjoint ranges in ascending order, each from its first byte to the byte after the last:
    /// holes of received data, or forwarded ranges of sent data.
    ranges: VecDeque<(i64, i64)>,
}

impl Numbers {
    fn unwrap(&self, wire: u32) -> i64 {
        unwrap(self.una.unwrap_or(wire.into()), wire)
    }

    /// Records the first sequence number.
    fn begin(&mut self, wire: u32) -> i64 {
        let seq = self.unwrap(wire);
        if self.una.is_none() {
            (self.una, self.highest) = (Some(seq), seq);
        }
        seq
    }

    fn contains(&self, number: i64) -> bool {
        let place = self.ranges.partition_point(|&(_, end)| end <= number);
        self.ranges.get(place).is_some_and(|&(start, _)| start <= number)
    }

    fn remove(&mut self, from: i64, to: i64) {
        let mut place = self.ranges.partition_point(|&(_, end)| end <= from);
        while let Some((start, end)) = self.ranges.get_mut(place)
            && *start < to
        {
            match (*start < from, to < *end) {
                (true, true) => {
                    let rest = (to, std::mem::replace(end, from));
                    return self.ranges.insert(place + 1, rest);
                }
                (true, false) => {
                    *end = from;
                    place += 1;
                }
                (false, true) => {
                    *start = to;
                    return;
                }
                (false, false) => {
                    self.ranges.remove(place);
                }
            }
        }
    }

    /// Adds a range that is disjoint from all others.
    fn insert(&mut self, from: i64, to: i64) {
        let place = self.ranges.partition_point(|&(start, _)| start < from);
        let joins_next = self.ranges.get(place).is_some_and(|&(start, _)| start == to);
        let before = place.checked_sub(1).filter(|&before| self.ranges[before].1 == from);
        match (before, joins_next) {
            (Some(before), true) => {
                self.ranges[before].1 = self.ranges[place].1;
                self.ranges.remove(place);
            }
            (Some(before), false) => self.ranges[before].1 = to,
            (None, true) => self.ranges[place].0 = from,
            (None, false) => self.ranges.insert(place, (from, to)),
        }
    }

    /// Records that the connection's data is acknowledged up to `wire`. Returns whether this
    /// repeats the previous acknowledgment.
    fn acknowledge(&mut self, wire: u32) -> (i64, bool) {
        let ack = self.begin(wire);
        let is_same = self.una == Some(ack);
        if self.una.is_some_and(|una| ack > una) {
            self.una = Some(ack);
            self.highest = self.highest.max(ack);
            self.remove(i64::MIN, ack);
        }
        (ack, is_same)
    }
}

/// State of a connection.
#[derive(Clone, Debug, Default)]
struct Connection {
    incarnation: u32,
    /// Holes of the data received over the link.
    incoming: Numbers,
    /// Forwarded ranges of the data sent over the link.
    outgoing: Numbers,
}

impl Connection {
    /// Resets the state for a new connection instance; returns `false` if the segment belongs to an
    /// earlier one.
    fn belongs(&mut self, view: &SegmentView) -> bool {
        let newer = view.incarnation.wrapping_sub(self.incarnation) as i32;
        if newer > 0 {
            *self = Connection { incarnation: view.incarnation, ..Connection::default() };
        }
        newer >= 0
    }
}

/// Loss notification by marked ACKs at one end of a link.
#[derive(Clone, Debug)]
pub struct BalakrishnanEln<P> {
    connections: Vec<Connection>,
    events: VecDeque<AgentEvent>,
    marked: u64,
    carries: std::marker::PhantomData<P>,
}

impl<P: Segment> BalakrishnanEln<P> {
    /// Creates an agent for `connections` connections; more are added on demand.
    pub fn new(connections: usize) -> Self {
        BalakrishnanEln {
            connections: vec![Connection::default(); connections],
            events: VecDeque::new(),
            marked: 0,
            carries: std::marker::PhantomData,
        }
    }

    fn connection(&mut self, index: Option<usize>, view: &SegmentView) -> Option<&mut Connection> {
        let index = index?;
        if index >= self.connections.len() {
            self.connections.resize_with(index + 1, Connection::default);
        }
        let connection = &mut self.connections[index];
        connection.belongs(view).then_some(connection)
    }

    fn mark(&mut self, packet: &mut P, ack: u32) {
        packet.mark_loss();
        self.marked += 1;
        self.events.push_back(AgentEvent::MarkedAck { ack });
    }
}

impl<P: Segment + Clone> Agent<P> for BalakrishnanEln<P> {
    fn down(&mut self, _now: Instant, crossing: Crossing, packet: &mut P) -> Verdict {
        let Some(view) = packet.segment() else { return Verdict::Forward };
        let Some(known) = self.connection(crossing.connection, &view) else {
            return Verdict::Forward;
        };
        if view.length > 0 {
            let seq = known.outgoing.begin(view.seq);
            let end = seq + i64::from(view.length);
            known.outgoing.remove(seq, end);
            known.outgoing.highest = known.outgoing.highest.max(end);
            if crossing.has_room {
                known.outgoing.insert(seq, end);
            }
        }
        let is_hole = view.ack.is_some_and(|ack| {
            let (ack, _) = known.incoming.acknowledge(ack);
            known.incoming.contains(ack)
        });
        if is_hole {
            self.mark(packet, view.ack.unwrap_or_default());
        }
        Verdict::Forward
    }

    fn up(&mut self, _now: Instant, connection: Option<usize>, packet: &mut P) -> Verdict {
        let Some(view) = packet.segment() else { return Verdict::Forward };
        let Some(known) = self.connection(connection, &view) else { return Verdict::Forward };
        if view.length > 0 {
            let incoming = &mut known.incoming;
            let seq = incoming.begin(view.seq);
            let end = seq + i64::from(view.length);
            if seq > incoming.highest {
                incoming.insert(incoming.highest, seq);
            } else {
                incoming.remove(seq, end);
            }
            incoming.highest = incoming.highest.max(end);
        }
        let is_lost = view.ack.is_some_and(|ack| {
            let (ack, is_same) = known.outgoing.acknowledge(ack);
            is_same && view.length == 0 && known.outgoing.contains(ack)
                // A later segment must have arrived: an ACK of the SYN is not a duplicate.
                && known.outgoing.highest > ack
        });
        if is_lost {
            self.mark(packet, view.ack.unwrap_or_default());
        }
        Verdict::Forward
    }

    fn poll_event(&mut self) -> Option<AgentEvent> {
        self.events.pop_front()
    }

    fn metrics(&self, report: &mut Report<'_>) {
        ElnMetrics { marked_acks: self.marked as f64 }.report(report);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use lasthop_base::packet::{Packet, TcpHeader, flags};

    fn packet(seq: u32, payload: u32, ack: u32) -> Packet {
        let tcp = TcpHeader { seq, payload, ack, flags: flags::ACK, ..TcpHeader::default() };
        Packet { bytes: 40 + payload, tcp, ..Packet::default() }
    }

    fn is_marked(packet: &Packet) -> bool {
        packet.tcp.flags & flags::NOTICE == flags::NOTICE
    }

    fn down(agent: &mut BalakrishnanEln<Packet>, mut packet: Packet, has_room: bool) -> bool {
        let crossing = Crossing { connection: Some(0), has_room };
        assert_eq!(agent.down(Instant::ZERO, crossing, &mut packet), Verdict::Forward);
        is_marked(&packet)
    }

    fn up(agent: &mut BalakrishnanEln<Packet>, mut packet: Packet) -> bool {
        assert_eq!(agent.up(Instant::ZERO, Some(0), &mut packet), Verdict::Forward);
        is_marked(&packet)
    }

    /// The wireless host sends segments of 100 B: 200 is lost on the wireless link; 500 reaches the
    /// base station and is lost on the wired path.
    #[test]
    fn acks_for_what_never_came_over_the_air_are_marked() {
        let mut agent = BalakrishnanEln::new(1);
        for seq in [1, 101, 301, 401, 501, 601] {
            assert!(!up(&mut agent, packet(seq, 100, 1)));
        }
        assert!(!down(&mut agent, packet(1, 0, 101), true));
        let marks: Vec<_> = (0..3).map(|_| down(&mut agent, packet(1, 0, 201), true)).collect();
        assert_eq!(marks, [true, true, true]);
        // The hole is filled by the retransmission.
        up(&mut agent, packet(201, 100, 1));
        assert!(!down(&mut agent, packet(1, 0, 501), true));
        assert!(!down(&mut agent, packet(1, 0, 501), true), "congestion on the wire");
    }

    /// Data to the wireless host: 101 is forwarded and lost on the wireless link; 301 never
    /// arrived.
    #[test]
    fn duplicate_acks_for_what_has_passed_are_marked() {
        let mut agent = BalakrishnanEln::new(1);
        for seq in [1, 101, 201, 401, 501] {
            assert!(!down(&mut agent, packet(seq, 100, 1), true));
        }
        assert!(!up(&mut agent, packet(1, 0, 101)), "the first ACK is not a duplicate");
        assert!(up(&mut agent, packet(1, 0, 101)));
        assert!(up(&mut agent, packet(1, 0, 101)));
        down(&mut agent, packet(101, 100, 1), true);
        assert!(!up(&mut agent, packet(1, 0, 301)));
        assert!(!up(&mut agent, packet(1, 0, 301)), "lost before the base station");
        // A packet dropped by a full queue is not forwarded.
        down(&mut agent, packet(301, 100, 1), true);
        assert!(!up(&mut agent, packet(1, 0, 601)));
        assert!(!down(&mut agent, packet(601, 100, 1), false));
        down(&mut agent, packet(701, 100, 1), true);
        assert!(!up(&mut agent, packet(1, 0, 601)));
    }

    #[test]
    fn a_new_incarnation_forgets_the_old_one() {
        let mut agent = BalakrishnanEln::new(0);
        for seq in [1, 201] {
            up(&mut agent, packet(seq, 100, 1));
        }
        assert!(down(&mut agent, packet(1, 0, 101), true));
        let mut fresh = packet(1, 100, 1);
        fresh.incarnation = 1;
        up(&mut agent, fresh);
        let mut ack = packet(1, 0, 101);
        ack.incarnation = 1;
        assert!(!down(&mut agent, ack, true));
    }
}
