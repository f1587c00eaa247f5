//! Step marking: every packet that arrives while the queue is above a threshold is marked.
//!
//! ```text
//!   avg := (1 - w) avg + w q      at each arrival; q is the queue that it finds; w = 1: avg = q
//!   avg > threshold: mark, if the transport of the packet supports ECN
//! ```
//!
//! With w = 1 this is the marking that DCTCP expects of a queue (RFC 8257, section 3.1). With a
//! smaller weight it is the congestion warning of the routers of TCP Jersey (Xu, Tian, Ansari, JSAC
//! 22(4), 2004): RED with one threshold and probability 1. Packets are dropped only if the queue is
//! full. The packet in transmission counts as queued.
//!
//! State: the queued packets; the average.
//!
//! Not modelled: thresholds of the delay (see [`pie`](super::pie) and [`codel`](super::codel)); the
//! decay of the average over idle times.

use super::family::{DisciplineKeys, QueueSite, fifo_methods};
use super::{DisciplineCounters, Fifo, QueueDiscipline, Transmitter};
use lasthop_base::packet::Payload;
use lasthop_base::schema::ScenarioError;
use lasthop_base::schema::keys::{Read, table};
use lasthop_base::schema::quantity::QueueLimit;
use lasthop_base::units::{Instant, Probability};

table! {
    /// Step marking: a packet that arrives while the queue is above a threshold is marked if its
    /// transport supports ECN, as DCTCP and TCP Jersey expect of routers.
    pub struct StepKeys as "step" {
        /// Maximum queue length, including the packet in transmission. A limit in bytes counts
        /// packets with their frame headers.
        limit: QueueLimit = "250 packets";
        /// Queue length above which packets are marked, in packets or bytes.
        threshold: QueueLimit = "20 packets";
        /// Weight of the current queue length in the average that is compared with the threshold,
        /// above 0.
        weight: Probability = "100 %";
    }
}

/// The state machine.
pub type Machine<P> = Box<Step<P>>;

impl DisciplineKeys for StepKeys {
    type Machine<P: Payload> = Machine<P>;

    fn build<P: Payload>(&self, site: &QueueSite<'_>) -> Machine<P> {
        let fifo = Fifo::new(self.limit.into(), site.header);
        Box::new(Step::new(fifo, self.threshold, self.weight.get()))
    }

    fn check(&self, path: &str) -> Read<()> {
        if self.weight.get() > 0.0 {
            return Ok(());
        }
        let path = format!("{path}.weight");
        Err(ScenarioError::new(path, "0", "a probability above 0, up to 1"))
    }
}

/// A queue that marks above a threshold.
///
/// ```
/// use lasthop_base::packet::{Ecn, Packet};
/// use lasthop_base::schema::quantity::QueueLimit;
/// use lasthop_base::units::{Bytes, Instant, Rate};
/// use lasthop_link::queue::{Fifo, Limit, QueueDiscipline, Step, Transmitter};
///
/// let fifo = Fifo::new(Limit::Packets(100), Bytes::new(0));
/// let mut queue = Box::new(Step::new(fifo, QueueLimit::Packets(3), 1.0));
/// let transmitter = Transmitter::new(Rate::from_bps(1_000_000));
/// let mut packet = Packet { bytes: 1_000, ..Packet::default() };
/// packet.tcp.ecn = Ecn::Ect0;
/// for _ in 0..10 {
///     queue.enqueue(Instant::ZERO, packet, &transmitter);
/// }
/// assert!(queue.counters().marks >= 6);
/// ```
#[derive(Clone, Debug)]
pub struct Step<P> {
    fifo: Fifo<P>,
    threshold: QueueLimit,
    weight: f64,
    /// Average queue length in the unit of the threshold.
    average: f64,
    counters: DisciplineCounters,
}

impl<P: Payload> Step<P> {
    /// Marks packets that are enqueued in `fifo` above `threshold`. `weight` is the weight of the
    /// current queue length in the average.
    pub fn new(fifo: Fifo<P>, threshold: QueueLimit, weight: f64) -> Self {
        let counters = DisciplineCounters::default();
        Step { fifo, threshold, weight, average: 0.0, counters }
    }

    /// Updates the average with the queue length at the arrival of a packet. Returns `true` if it
    /// is above the threshold.
    fn is_above(&mut self, now: Instant, transmitter: &Transmitter) -> bool {
        let (queued, threshold) = match self.threshold {
            QueueLimit::Packets(packets) => {
                let queued = self.fifo.len() as u64 + transmitter.on_air_frames(now);
                (queued, f64::from(packets))
            }
            QueueLimit::Bytes(bytes) => {
                (self.fifo.bytes() + transmitter.on_air_bytes(now), bytes.get() as f64)
            }
        };
        self.average += self.weight * (queued as f64 - self.average);
        self.average > threshold
    }
}

impl<P: Payload> QueueDiscipline<P> for Box<Step<P>> {
    fn enqueue(&mut self, now: Instant, mut packet: P, transmitter: &Transmitter) -> bool {
        let is_above = self.is_above(now, transmitter);
        let has_room = self.fifo.has_room(now, packet.wire_bytes(), 1, transmitter);
        if has_room {
            self.counters.marks += u64::from(is_above && packet.mark_congestion());
            self.fifo.push(packet);
        } else {
            self.counters.tail_drops += 1;
        }
        has_room
    }

    fn dequeue(&mut self, _now: Instant) -> Option<P> {
        self.fifo.pop()
    }

    fifo_methods!();
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::queue::Limit;
    use lasthop_base::packet::{Ecn, Packet};
    use lasthop_base::units::{Bytes, Rate};

    /// Returns the numbers of the marked packets if `count` packets arrive simultaneously at an
    /// idle transmitter.
    fn marked(threshold: QueueLimit, weight: f64, ecn: Ecn, count: u32) -> Vec<u32> {
        let fifo = Fifo::new(Limit::Packets(8), Bytes::default());
        let mut queue = Box::new(Step::new(fifo, threshold, weight));
        let transmitter = Transmitter::new(Rate::from_bps(1_000_000));
        for number in 0..count {
            let mut packet = Packet { bytes: 1000, hop: number, ..Packet::default() };
            packet.tcp.ecn = ecn;
            queue.enqueue(Instant::ZERO, packet, &transmitter);
        }
        let mut marked = Vec::new();
        while let Some(packet) = queue.dequeue(Instant::ZERO) {
            if packet.tcp.ecn == Ecn::Ce {
                marked.push(packet.hop);
            }
        }
        assert_eq!(queue.counters().marks, marked.len() as u64);
        assert_eq!(queue.counters().tail_drops, u64::from(count.saturating_sub(8)));
        marked
    }

    /// Packet n arrives at a queue of n packets.
    #[test]
    fn every_packet_above_the_threshold_is_marked() {
        let packets = QueueLimit::Packets;
        let bytes = |bytes| QueueLimit::Bytes(Bytes::new(bytes));
        for (threshold, weight, ecn, expected) in [
            (packets(4), 1.0, Ecn::Ect0, vec![5, 6, 7]),
            (packets(4), 1.0, Ecn::Ect1, vec![5, 6, 7]),
            (packets(4), 1.0, Ecn::NotEct, vec![]),
            (bytes(4_999), 1.0, Ecn::Ect0, vec![5, 6, 7]),
            (packets(8), 1.0, Ecn::Ect0, vec![]),
            // Averages 0, 0.5, 1.25, 2.125, 3.0625, 4.03125, …
            (packets(4), 0.5, Ecn::Ect0, vec![5, 6, 7]),
            (packets(5), 0.5, Ecn::Ect0, vec![6, 7]),
        ] {
            assert_eq!(marked(threshold, weight, ecn, 10), expected, "{threshold:?} {weight}");
        }
    }
}
