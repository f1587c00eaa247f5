//! Reordering by the path: some packets are held back, so that later ones overtake them, as on paths with
//! several parallel routes (Bennett, Partridge and Shectman, "Packet Reordering is Not Pathological Network
//! Behavior", IEEE/ACM Transactions on Networking 7(6), 1999; `delay` and `reorder` of Linux's netem).
//!
//! ```text
//!   packet received over the link --1 - share--> forwarded
//!                                 \--share-----> HELD --hold--> forwarded
//! ```
//!
//! Packets of every transport are reordered. Held packets keep their order. One random number is used per
//! packet.
//!
//! Not modelled: correlated reordering, several packets that are held together, random holding times.

use super::family::{AgentKeys, AgentSite};
use super::{Agent, Segment, Verdict};
use lasthop_analysis::AnalysisError;
use lasthop_base::rng::{Stream, Streams};
use lasthop_base::schema::keys::{Limits, table};
use lasthop_base::schema::metrics::{Metric, Report, metrics};
use lasthop_base::units::{Duration, Instant, Probability};
use std::collections::VecDeque;

table! {
    /// Reordering by the path: packets received over the link are held back at random, so that later
    /// ones overtake them.
    pub struct ReorderKeys as "reorder" {
        /// Host of the agent, one end of the link; packets that it receives over the link are
        /// reordered.
        at: String;
        /// Probability that a packet is held back.
        share: Probability;
        /// Time for which a packet is held back.
        hold: Duration, Limits::POSITIVE;
    }
}

/// State machine of the agent.
pub type Machine<P> = Reorder<P>;

metrics! {
    /// Reordering by an agent.
    pub struct ReorderMetrics {
        /// Packets held back.
        packets_held: "Packets held", Count, Neither, Sum;
        /// Packets held back that a later packet overtook.
        packets_overtaken: "Packets overtaken", Count, Neither, Sum;
    }
}

impl AgentKeys for ReorderKeys {
    type Machine<P: Segment + Clone> = Machine<P>;

    const METRICS: &'static [Metric] = ReorderMetrics::METRICS;

    fn at(&self) -> Option<&str> {
        Some(&self.at)
    }

    fn build<P: Segment + Clone>(
        &self,
        site: &AgentSite<'_>,
        _connections: usize,
    ) -> Result<Machine<P>, AnalysisError> {
        Ok(Reorder::new(self.share, self.hold, site.streams, site.component))
    }
}

/// A packet that is held back.
#[derive(Clone, Debug)]
struct Held<P> {
    until: Instant,
    /// Number of packets forwarded before it was held.
    forwarded: u64,
    packet: P,
}

/// Reordering at one end of a link.
#[derive(Clone, Debug)]
pub struct Reorder<P> {
    share: f64,
    hold: Duration,
    stream: Stream,
    held: VecDeque<Held<P>>,
    due: VecDeque<P>,
    forwarded: u64,
    count: u64,
    overtaken: u64,
}

impl<P> Reorder<P> {
    /// Creates an agent that holds back a packet with probability `share` for the time `hold`. Its
    /// random numbers come from the stream `hold` of `component`.
    pub fn new(share: Probability, hold: Duration, streams: &Streams, component: &str) -> Self {
        Reorder {
            share: share.get(),
            hold,
            stream: streams.stream(component, "hold"),
            held: VecDeque::new(),
            due: VecDeque::new(),
            forwarded: 0,
            count: 0,
            overtaken: 0,
        }
    }
}

impl<P: Segment + Clone> Agent<P> for Reorder<P> {
    fn up(&mut self, now: Instant, _connection: Option<usize>, packet: &mut P) -> Verdict {
        if self.stream.uniform() >= self.share {
            self.forwarded += 1;
            return Verdict::Forward;
        }
        self.count += 1;
        let (until, forwarded) = (now + self.hold, self.forwarded);
        self.held.push_back(Held { until, forwarded, packet: packet.clone() });
        Verdict::Suppress
    }

    fn watches_all(&self) -> bool {
        true
    }

    fn poll_up(&mut self) -> Option<P> {
        self.due.pop_front()
    }

    fn next_timeout(&self) -> Instant {
        self.held.front().map_or(Instant::NEVER, |held| held.until)
    }

    fn handle_timeout(&mut self, now: Instant) {
        while self.held.front().is_some_and(|held| held.until <= now)
            && let Some(held) = self.held.pop_front()
        {
            self.overtaken += u64::from(held.forwarded < self.forwarded);
            self.due.push_back(held.packet);
        }
    }

    fn metrics(&self, report: &mut Report<'_>) {
        let metrics = ReorderMetrics {
            packets_held: self.count as f64,
            packets_overtaken: self.overtaken as f64,
        };
        metrics.report(report);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use lasthop_base::packet::Packet;

    const STREAMS: Streams = Streams { seed: 1, replication: 0 };

    fn agent(share: f64) -> Reorder<Packet> {
        let share = Probability::new(share).expect("a probability");
        Reorder::new(share, Duration::from_millis(5), &STREAMS, "agent.test")
    }

    fn packet(bytes: u32) -> Packet {
        Packet { bytes, ..Packet::default() }
    }

    #[test]
    fn a_packet_is_held_for_its_time_and_may_be_overtaken() {
        let (mut always, mut never) = (agent(1.0), agent(0.0));
        let start = Instant::ZERO + Duration::from_millis(1);
        assert_eq!(always.up(start, None, &mut packet(1)), Verdict::Suppress);
        assert_eq!(always.up(start, None, &mut packet(2)), Verdict::Suppress);
        let due = start + Duration::from_millis(5);
        assert_eq!(Agent::<Packet>::next_timeout(&always), due);
        Agent::<Packet>::handle_timeout(&mut always, start + Duration::from_nanos(4_999_999));
        assert!(always.poll_up().is_none());
        // Only the packet that a later one passed counts as overtaken.
        always.forwarded = 0;
        always.held[0].forwarded = 0;
        always.forwarded += 1;
        always.held[1].forwarded = 1;
        Agent::<Packet>::handle_timeout(&mut always, due);
        let released = std::iter::from_fn(|| always.poll_up().map(|packet| packet.bytes));
        assert_eq!(released.collect::<Vec<_>>(), [1, 2]);
        let mut counted = Vec::new();
        Agent::<Packet>::metrics(&always, &mut |metric, value| {
            counted.push((metric.name, value.value()))
        });
        assert_eq!(counted, [("packets_held", 2.0), ("packets_overtaken", 1.0)]);
        assert_eq!(never.up(start, None, &mut packet(1)), Verdict::Forward);
        assert_eq!(Agent::<Packet>::next_timeout(&never), Instant::NEVER);
    }

    #[test]
    fn the_share_of_held_packets_is_the_probability() {
        let mut some = agent(0.1);
        for index in 0..10_000 {
            let _ = some.up(Instant::ZERO, None, &mut packet(index));
        }
        // 1000 with a standard deviation of 30.
        assert!((880..1120).contains(&some.count), "{}", some.count);
    }
}
