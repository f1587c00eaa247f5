//! Biased queue management: if the queue is full, it drops packets with the mark "out" first. Senders
//! set this mark on packets whose loss they prefer.
//!
//! ```text
//!   a packet finds room         it joins
//!   it is "in", the queue full  the last "out" in the queue makes room; without one, it is dropped
//!   it is "out", the queue full it is dropped
//! ```
//!
//! Source: S. Biaz, N. Vaidya, IEEE/ACM Trans. Networking 13(3), 2005. The paper does not specify
//! which packet makes room; the choice of the last one is ours. "Out" packets are those for which
//! [`Payload::is_out`] returns `true`: marked by the TCPs `casablanca` and `ifrane`, with a drop
//! precedence of RFC 2597 in real bytes. The packet in transmission counts as queued.
//!
//! State: the queued packets.
//!
//! Not modelled: thresholds below the limit.

use super::family::{DisciplineKeys, QueueSite, fifo_methods};
use super::{DisciplineCounters, Fifo, QueueDiscipline, Transmitter};
use lasthop_base::packet::Payload;
use lasthop_base::schema::keys::table;
use lasthop_base::schema::quantity::QueueLimit;
use lasthop_base::units::Instant;

table! {
    /// Biased queue management: if the queue is full, it drops packets with the mark "out" first. TCP
    /// variants casablanca and ifrane mark packets in this way.
    pub struct BiasedKeys as "biased" {
        /// Maximum queue length, including the packet in transmission. A limit in bytes counts
        /// packets with their frame headers.
        limit: QueueLimit = "50 packets";
    }
}

/// The state machine.
pub type Machine<P> = Box<Biased<P>>;

impl DisciplineKeys for BiasedKeys {
    type Machine<P: Payload> = Machine<P>;

    fn build<P: Payload>(&self, site: &QueueSite<'_>) -> Machine<P> {
        Box::new(Biased::new(Fifo::new(self.limit.into(), site.header)))
    }
}

/// A queue that drops marked packets first.
///
/// ```
/// use lasthop_base::packet::{Packet, flags};
/// use lasthop_base::units::{Bytes, Instant, Rate};
/// use lasthop_link::queue::{Biased, Fifo, Limit, QueueDiscipline, Transmitter};
///
/// let mut queue = Box::new(Biased::new(Fifo::new(Limit::Packets(2), Bytes::new(0))));
/// let transmitter = Transmitter::new(Rate::from_bps(800_000));
/// let plain = Packet { bytes: 1_000, ..Packet::default() };
/// let mut marked = plain;
/// marked.tcp.payload = 960;
/// marked.tcp.flags = flags::OUT;
/// assert!(queue.enqueue(Instant::ZERO, plain, &transmitter));
/// assert!(queue.enqueue(Instant::ZERO, marked, &transmitter));
/// // The queue is full: the marked packet makes room.
/// assert!(queue.enqueue(Instant::ZERO, plain, &transmitter));
/// assert_eq!((queue.len(), queue.dropped().len()), (2, 1));
/// ```
#[derive(Clone, Debug)]
pub struct Biased<P> {
    fifo: Fifo<P>,
    /// Packets dropped by the last call.
    dropped: Vec<P>,
    counters: DisciplineCounters,
}

impl<P: Payload> Biased<P> {
    /// Creates a queue that first drops marked packets of `fifo`.
    pub fn new(fifo: Fifo<P>) -> Self {
        let counters = DisciplineCounters::default();
        Biased { fifo, dropped: Vec::with_capacity(16), counters }
    }
}

impl<P: Payload> QueueDiscipline<P> for Box<Biased<P>> {
    const DETECTS_EARLY: bool = false;

    fn enqueue(&mut self, now: Instant, packet: P, transmitter: &Transmitter) -> bool {
        self.dropped.clear();
        let bytes = packet.wire_bytes();
        while !self.fifo.has_room(now, bytes, 1, transmitter) {
            let out = if packet.is_out() { None } else { self.fifo.take_last(P::is_out) };
            self.counters.tail_drops += 1;
            match out {
                Some(out) => self.dropped.push(out),
                None => return false,
            }
        }
        self.fifo.push(packet);
        true
    }

    fn dequeue(&mut self, _now: Instant) -> Option<P> {
        self.dropped.clear();
        self.fifo.pop()
    }

    fifo_methods!();

    fn dropped(&self) -> &[P] {
        &self.dropped
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::queue::Limit;
    use lasthop_base::packet::{Packet, flags};
    use lasthop_base::units::{Bytes, Rate};

    /// Dropped and remaining packets of a queue of four packets, computed by hand. Upper-case
    /// letters are "out".
    #[test]
    fn marked_packets_make_room() {
        for (arrivals, dropped, left) in [
            ("abcd", "", "abcd"),
            ("abCde", "C", "abde"),
            ("aBCde", "C", "aBde"),
            ("aBCdef", "CB", "adef"),
            ("abcdE", "E", "abcd"),
            ("aBcdefg", "Bfg", "acde"),
        ] {
            let fifo = Fifo::new(Limit::Packets(4), Bytes::default());
            let mut queue = Box::new(Biased::new(fifo));
            let transmitter = Transmitter::new(Rate::from_bps(1_000_000));
            let name = |packet: &Packet| char::from(packet.hop as u8);
            let mut drops = String::new();
            for letter in arrivals.bytes() {
                let mut packet = Packet { bytes: 1000, hop: letter.into(), ..Packet::default() };
                packet.tcp.payload = 960;
                packet.tcp.flags = if letter.is_ascii_uppercase() { flags::OUT } else { 0 };
                let joins = queue.enqueue(Instant::ZERO, packet, &transmitter);
                drops.extend(queue.dropped().iter().map(name));
                if !joins {
                    drops.push(name(&packet));
                }
            }
            let leaving = std::iter::from_fn(|| queue.dequeue(Instant::ZERO));
            assert_eq!(leaving.map(|packet| name(&packet)).collect::<String>(), left, "{arrivals}");
            assert_eq!((drops.as_str(), queue.counters().drops()), (dropped, drops.len() as u64));
        }
    }
}
