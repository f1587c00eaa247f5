//! FQ-CoDel (RFC 8290): one queue per flow, served by deficit round robin with new queues first,
//! and CoDel in each queue.
//!
//! ```text
//!                        head: empty, or no credit left (+ quantum)
//!               +-----+ ------------------------------------> +-----+ --+ head: no credit left: + quantum,
//!               | new |                                       | old |   | move to the end
//!               +-----+                                       +-----+ <-+
//!                  ^    packet arrives: credit := quantum        |
//!                  |                                             | head: empty
//!               +-------------+                                  |
//!               | in no list  | <--------------------------------+
//!               +-------------+
//!
//!     next packet: from the head of the new queues, or else of the old queues; credit - its bytes
//!     limit:       when exceeded, the longest queue drops half of its packets, at most 64, at its head
//! ```
//!
//! Source: RFC 8290, section 4, with [CoDel](super::codel) of RFC 8289 in each queue. A hash of the
//! flow identifier ([`Payload::flow`]) and a random number per replication selects the queue of a
//! flow (section 4.1), so that two flows may share a queue. The longest queue is the one with the
//! most bytes.
//!
//! State: the packets, the credit and the CoDel state of each queue; the lists of new and of old
//! queues.
//!
//! Not modelled: a marking threshold (`ce_threshold` in section 5.2); the memory limit of Linux,
//! and its variant of CoDel that may drop the last packet of a queue while packets are queued in
//! others.

use super::codel::{Codel, Control};
use super::family::{DisciplineKeys, QueueSite};
use super::{DisciplineCounters, Fifo, Limit, QueueDiscipline, Transmitter};
use lasthop_base::packet::Payload;
use lasthop_base::schema::keys::{Limits, table};
use lasthop_base::schema::quantity::QueueLimit;
use lasthop_base::units::{Bytes, Duration, Instant};
use std::collections::VecDeque;

table! {
    /// FQ-CoDel (RFC 8290): one queue per flow, served round robin, new flows first, with CoDel in
    /// each queue.
    pub struct FqCodelKeys as "fq-codel" {
        /// Maximum length of all queues together, including the packet in transmission. A limit in
        /// bytes counts packets with their frame headers.
        limit: QueueLimit = "10240 packets";
        /// Number of queues that flows are hashed to.
        flows: u32 = "1024", Limits::range(1, 65_536);
        /// Bytes that a queue may send per round, frame headers included.
        quantum: Bytes = "1514 B", Limits::PACKET;
        /// Target sojourn time of packets in their queue.
        target: Duration = "5 ms", Limits::POSITIVE;
        /// Time for which the sojourn time may exceed the target: about the round-trip time of the
        /// flows.
        interval: Duration = "100 ms", Limits::POSITIVE;
        /// Whether packets of transports that support ECN are marked instead of dropped.
        ecn: bool = "true";
    }
}

/// The state machine.
pub type Machine<P> = Box<FqCodel<P>>;

impl DisciplineKeys for FqCodelKeys {
    type Machine<P: Payload> = Machine<P>;

    fn build<P: Payload>(&self, site: &QueueSite<'_>) -> Machine<P> {
        let most_left = site.packet.get() + site.header.get();
        let control = Control::new(self.target, self.interval, most_left);
        let model = Model { header: site.header, control, marks_ect: self.ecn };
        let salt = site.streams.stream(site.component, "flow hash").bits();
        Box::new(FqCodel::new(model, self.limit.into(), self.flows, self.quantum, salt))
    }
}

/// Maximum number of packets dropped in one batch (RFC 8290, section 4.1).
const BATCH: usize = 64;

/// Parameters of the queue that is created for the first packet of a hash.
#[derive(Clone, Debug)]
pub struct Model {
    /// Length of the link header, which sizes count with each packet.
    pub header: Bytes,
    /// Initial CoDel state.
    pub control: Control,
    /// Whether packets of transports that support ECN are marked instead of dropped.
    pub marks_ect: bool,
}

impl Model {
    /// Creates an empty queue without its own limit: all queues share one.
    fn queue<P: Payload>(&self) -> FlowQueue<P> {
        let fifo = Fifo::new(Limit::Packets(u64::MAX), self.header);
        let codel = Box::new(Codel::new(fifo, self.control.clone(), self.marks_ect));
        FlowQueue { codel, credit: 0, is_listed: false }
    }
}

/// The queue of all flows with one hash value.
#[derive(Clone, Debug)]
struct FlowQueue<P> {
    codel: Box<Codel<P>>,
    /// Bytes that may still be sent; negative if the last packet exceeded the credit.
    credit: i64,
    /// Whether the queue is in the list of new or of old queues.
    is_listed: bool,
}

/// An FQ-CoDel queue: one CoDel queue per flow.
///
/// ```
/// use lasthop_base::packet::Packet;
/// use lasthop_base::units::{Bytes, Duration, Instant, Rate};
/// use lasthop_link::queue::codel::Control;
/// use lasthop_link::queue::fq_codel::Model;
/// use lasthop_link::queue::{FqCodel, Limit, QueueDiscipline, Transmitter};
///
/// let [target, interval] = [5, 100].map(Duration::from_millis);
/// let control = Control::new(target, interval, 1_500);
/// let model = Model { header: Bytes::new(0), control, marks_ect: false };
/// let limit = Limit::Packets(1_000);
/// let mut queue = Box::new(FqCodel::new(model, limit, 1_024, Bytes::new(1_500), 7));
/// let transmitter = Transmitter::new(Rate::from_bps(1_000_000));
/// // Descriptors of one hop belong to one flow. A packet of hop 2 passes those of hop 1.
/// for hop in [1, 1, 1, 2] {
///     let packet = Packet { hop, bytes: 1_500, ..Packet::default() };
///     queue.enqueue(Instant::ZERO, packet, &transmitter);
/// }
/// let hops = [0; 4].map(|_| queue.dequeue(Instant::ZERO).expect("a packet").hop);
/// assert_eq!(hops, [1, 2, 1, 1]);
/// ```
#[derive(Clone, Debug)]
pub struct FqCodel<P> {
    model: Model,
    limit: Limit,
    quantum: i64,
    salt: u64,
    queues: Box<[Option<FlowQueue<P>>]>,
    new: VecDeque<u32>,
    old: VecDeque<u32>,
    /// Totals of all queues.
    packets: usize,
    bytes: u64,
    /// Packets dropped by the last call.
    dropped: Vec<P>,
    tail_drops: u64,
}

impl<P: Payload> FqCodel<P> {
    /// Creates queues for `flows` hash values with the parameters in `model` and the common
    /// `limit`. `salt` varies the assignment of flows to queues.
    pub fn new(model: Model, limit: Limit, flows: u32, quantum: Bytes, salt: u64) -> Self {
        FqCodel {
            model,
            limit,
            quantum: quantum.get() as i64,
            salt,
            queues: (0..flows).map(|_| None).collect(),
            new: VecDeque::with_capacity(64),
            old: VecDeque::with_capacity(64),
            packets: 0,
            bytes: 0,
            dropped: Vec::with_capacity(BATCH),
            tail_drops: 0,
        }
    }

    /// Returns the index of a flow's queue.
    fn place(&self, flow: u64) -> u32 {
        // The finalizer of SplitMix64, which decorrelates consecutive numbers.
        let mut hash = flow ^ self.salt;
        hash = (hash ^ hash >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        hash = (hash ^ hash >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((hash ^ hash >> 31) % self.queues.len() as u64) as u32
    }

    /// Returns `true` if there is room for `count` packets of `bytes` each, headers included, in
    /// addition to the frame in transmission.
    fn fits(&self, now: Instant, bytes: u64, count: u64, transmitter: &Transmitter) -> bool {
        match self.limit {
            Limit::Packets(limit) => {
                self.packets as u64 + transmitter.on_air_frames(now) + count <= limit
            }
            Limit::Bytes(limit) => {
                self.bytes + transmitter.on_air_bytes(now) + count * bytes <= limit.get()
            }
        }
    }

    /// Drops half of the packets of the longest queue, at most a batch, at its head.
    #[cold]
    fn shorten(&mut self) {
        let FqCodel { queues, new, old, .. } = self;
        let bytes = |&place: &u32| queues[place as usize].as_ref().map(|queue| queue.codel.bytes());
        let Some(&longest) = new.iter().chain(&*old).max_by_key(|place| bytes(place)) else {
            return;
        };
        let Some(queue) = &mut queues[longest as usize] else { return };
        let before = queue.codel.bytes();
        let count = queue.codel.len().div_ceil(2).min(BATCH);
        self.dropped.extend((0..count).filter_map(|_| queue.codel.pop()));
        self.packets -= count;
        self.bytes -= before - queue.codel.bytes();
        self.tail_drops += count as u64;
    }
}

impl<P: Payload> QueueDiscipline<P> for Box<FqCodel<P>> {
    fn enqueue(&mut self, now: Instant, packet: P, transmitter: &Transmitter) -> bool {
        self.dropped.clear();
        let place = self.place(packet.flow());
        let bytes = u64::from(packet.wire_bytes()) + self.model.header.get();
        let FqCodel { model, queues, new, quantum, .. } = &mut **self;
        let queue = queues[place as usize].get_or_insert_with(|| model.queue());
        if !queue.is_listed {
            queue.is_listed = true;
            queue.credit = *quantum;
            new.push_back(place);
        }
        queue.codel.enqueue(now, packet, transmitter);
        self.packets += 1;
        self.bytes += bytes;
        while self.packets > 0 && !self.fits(now, 0, 0, transmitter) {
            self.shorten();
        }
        true
    }

    fn dequeue(&mut self, now: Instant) -> Option<P> {
        self.dropped.clear();
        let FqCodel { model, queues, new, old, quantum, packets, bytes, dropped, .. } = &mut **self;
        loop {
            let is_new = !new.is_empty();
            let place = *if is_new { new.front() } else { old.front() }?;
            let queue = queues[place as usize].as_mut().expect("a listed queue exists");
            let stays = if queue.credit > 0 {
                let before = (queue.codel.len(), queue.codel.bytes());
                let packet = queue.codel.dequeue(now);
                *packets -= before.0 - queue.codel.len();
                *bytes -= before.1 - queue.codel.bytes();
                dropped.append(queue.codel.dropped_mut());
                if let Some(packet) = packet {
                    queue.credit -= i64::from(packet.wire_bytes()) + model.header.get() as i64;
                    return Some(packet);
                }
                // An empty new queue becomes old, or it could become new again immediately (section
                // 4.2).
                is_new
            } else {
                queue.credit += *quantum;
                true
            };
            queue.is_listed = stays;
            if is_new {
                new.pop_front()
            } else {
                old.pop_front()
            };
            if stays {
                old.push_back(place);
            }
        }
    }

    fn len(&self) -> usize {
        self.packets
    }

    fn has_room(&self, now: Instant, bytes: u32, count: u64, transmitter: &Transmitter) -> bool {
        self.fits(now, u64::from(bytes) + self.model.header.get(), count, transmitter)
    }

    fn counters(&self) -> DisciplineCounters {
        let tail_drops = self.tail_drops;
        let mut counters = DisciplineCounters { tail_drops, ..DisciplineCounters::default() };
        for queue in self.queues.iter().flatten() {
            let of = queue.codel.counters();
            counters.early_drops += of.early_drops;
            counters.marks += of.marks;
        }
        counters
    }

    fn dropped(&self) -> &[P] {
        &self.dropped
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use lasthop_base::packet::{Ecn, Packet};
    use lasthop_base::units::Rate;
    use proptest::prelude::*;

    const MAX: u32 = 1500;

    /// The flow is encoded in the hop number of its packets.
    fn packet(flow: u32, bytes: u32) -> Packet {
        Packet { hop: flow, bytes, ..Packet::default() }
    }

    fn queue(limit: Limit, quantum: u64) -> (Box<FqCodel<Packet>>, Transmitter) {
        let [target, interval] = [5, 100].map(Duration::from_millis);
        let control = Control::new(target, interval, u64::from(MAX));
        let model = Model { header: Bytes::default(), control, marks_ect: true };
        let queue = FqCodel::new(model, limit, 1024, Bytes::new(quantum), 7);
        let mut places: Vec<_> = (0..5).map(|flow| queue.place(flow)).collect();
        places.sort_unstable();
        places.dedup();
        assert_eq!(places.len(), 5, "the traces are of separate queues");
        (Box::new(queue), Transmitter::new(Rate::from_bps(1_000_000)))
    }

    fn flows(queue: &mut Box<FqCodel<Packet>>, count: usize) -> Vec<u32> {
        let next = || queue.dequeue(Instant::ZERO).map(|packet| packet.hop);
        std::iter::from_fn(next).take(count).collect()
    }

    fn dropped(queue: &impl QueueDiscipline<Packet>) -> Vec<u32> {
        queue.dropped().iter().map(|packet| packet.hop).collect()
    }

    /// Computed by hand from section 4.2: a quantum of 1500 B is one packet of flow 1 or three of
    /// flow 2.
    #[test]
    fn each_flow_has_a_quantum_in_its_turn() {
        let (mut queue, transmitter) = queue(Limit::Packets(1000), 1500);
        for _ in 0..3 {
            queue.enqueue(Instant::ZERO, packet(1, 1500), &transmitter);
            for _ in 0..3 {
                queue.enqueue(Instant::ZERO, packet(2, 500), &transmitter);
            }
        }
        assert_eq!(flows(&mut queue, 100), [1, 2, 2, 2, 1, 2, 2, 2, 1, 2, 2, 2]);
        assert_eq!((queue.len(), queue.bytes), (0, 0));
    }

    /// Computed by hand from section 4.2. Flow 1 has nine packets of a third of a quantum; flow 2
    /// sends single packets.
    #[test]
    fn a_new_queue_goes_first_and_an_empty_one_is_old() {
        let (mut queue, transmitter) = queue(Limit::Packets(1000), 1500);
        for _ in 0..9 {
            queue.enqueue(Instant::ZERO, packet(1, 500), &transmitter);
        }
        assert_eq!(flows(&mut queue, 1), [1]);
        // New queues are served in order: two more packets of flow 1 use up its quantum. Flow 1
        // becomes old and flow 2 is served. The queue of flow 2 is then found empty and becomes
        // old, behind flow 1.
        queue.enqueue(Instant::ZERO, packet(2, 300), &transmitter);
        assert_eq!(flows(&mut queue, 4), [1, 1, 2, 1]);
        // Flow 2 is not new again: flow 1 finishes its quantum first. Afterwards flow 2 is found
        // empty and removed from the list.
        queue.enqueue(Instant::ZERO, packet(2, 300), &transmitter);
        assert_eq!(flows(&mut queue, 4), [1, 1, 2, 1]);
        // Now flow 2 is new, and is served before the rest of the quantum of flow 1.
        queue.enqueue(Instant::ZERO, packet(2, 300), &transmitter);
        assert_eq!(flows(&mut queue, 100), [2, 1, 1]);
        assert!(queue.new.is_empty() && queue.old.is_empty());
    }

    #[test]
    fn the_queue_of_most_bytes_pays() {
        let (mut queue, transmitter) = queue(Limit::Packets(10), 1500);
        for flow in [1, 1, 1, 1, 1, 1, 1, 1, 2, 2] {
            queue.enqueue(Instant::ZERO, packet(flow, 1000), &transmitter);
        }
        assert!(queue.dropped().is_empty() && !queue.has_room(Instant::ZERO, 1, 1, &transmitter));
        assert!(
            queue.enqueue(Instant::ZERO, packet(2, 1000), &transmitter),
            "drops from the other queue"
        );
        assert_eq!(dropped(&queue), [1; 4]);
        assert_eq!((queue.len(), queue.bytes, queue.counters().tail_drops), (7, 7000, 4));
        // Five short packets contain fewer bytes than two long ones.
        for flow in [3, 3, 3, 3] {
            queue.enqueue(Instant::ZERO, packet(flow, 100), &transmitter);
        }
        assert_eq!(dropped(&queue), [1, 1]);
    }

    #[test]
    fn at_most_a_batch_is_dropped_at_once() {
        let (mut queue, transmitter) = queue(Limit::Packets(200), 1500);
        for _ in 0..201 {
            queue.enqueue(Instant::ZERO, packet(1, 100), &transmitter);
        }
        assert_eq!((queue.dropped().len(), queue.len()), (64, 137));
    }

    /// 1900 B exceed the limit of 1000 B: half of the ten packets of flow 1 are dropped. Then the
    /// queue of the newly arrived packet is the longest.
    #[test]
    fn a_limit_in_bytes_holds_whatever_the_lengths() {
        let (mut queue, transmitter) = queue(Limit::Bytes(Bytes::new(1000)), 1500);
        for _ in 0..10 {
            queue.enqueue(Instant::ZERO, packet(1, 100), &transmitter);
        }
        queue.enqueue(Instant::ZERO, packet(2, 900), &transmitter);
        assert_eq!(dropped(&queue), [1, 1, 1, 1, 1, 2]);
        assert_eq!((queue.len(), queue.bytes), (5, 500));
        assert_eq!(flows(&mut queue, 100), [1; 5]);
    }

    /// One packet of flow 1 is sent every 10 ms, as in the test of CoDel alone: drops or marks at
    /// 110, 210, 290, 340 and 390 ms. Packets of flow 2 do not wait and are not affected.
    #[test]
    fn codel_acts_on_the_queue_that_stands() {
        for (ecn, marks) in [(Ecn::NotEct, 0), (Ecn::Ect0, 5)] {
            let (mut queue, transmitter) = queue(Limit::Packets(1000), 1500);
            let of = |flow, bytes| {
                let mut packet = packet(flow, bytes);
                packet.tcp.ecn = ecn;
                packet
            };
            for _ in 0..200 {
                queue.enqueue(Instant::ZERO, of(1, 1500), &transmitter);
            }
            let mut hits = Vec::new();
            for time in (0..400).step_by(10) {
                let now = Instant::ZERO + Duration::from_millis(time);
                queue.enqueue(now, of(2, 100), &transmitter);
                for _ in 0..2 {
                    let packet = queue.dequeue(now).unwrap();
                    let is_marked = packet.tcp.ecn == Ecn::Ce;
                    assert!(!is_marked || packet.hop == 1, "{time} ms");
                    assert!(dropped(&queue).iter().all(|&flow| flow == 1), "{time} ms");
                    hits.extend(vec![time; queue.dropped().len() + usize::from(is_marked)]);
                }
            }
            assert_eq!(hits, [110, 210, 290, 340, 390]);
            let counters = queue.counters();
            assert_eq!((counters.early_drops, counters.marks), (5 - marks, marks));
        }
    }

    proptest! {
        /// After k rounds a backlogged flow has sent at least k quanta Q minus one packet L. The
        /// rounds of two such flows differ by at most one, and therefore the bytes that they have
        /// sent by less than Q + L.
        #[test]
        fn flows_that_have_packets_share_alike(
            quantum in 100u64..4000,
            lengths in prop::collection::vec((40..=MAX, 40..=MAX, 40..=MAX), 100),
        ) {
            let (mut queue, transmitter) = queue(Limit::Packets(1000), quantum);
            for (first, second, third) in lengths {
                for (flow, bytes) in [(0, first), (1, second), (2, third)] {
                    queue.enqueue(Instant::ZERO, packet(flow, bytes), &transmitter);
                }
            }
            let (mut sent, mut left) = ([0u64; 3], [100; 3]);
            while left.iter().all(|&left| left > 0) {
                let packet = queue.dequeue(Instant::ZERO).unwrap();
                sent[packet.hop as usize] += u64::from(packet.bytes);
                left[packet.hop as usize] -= 1;
                let spread = sent.iter().max().unwrap() - sent.iter().min().unwrap();
                prop_assert!(spread < quantum + u64::from(MAX), "{sent:?}");
            }
        }

        /// A sparse flow, whose packets always find its queue empty, loses no packets. n other
        /// flows, however much they send, delay it by less than two rounds each, of a quantum and a
        /// packet.
        #[test]
        fn a_sparse_flow_is_not_hurt_by_the_others(
            quantum in 300u64..4000,
            others in 1u32..5,
            lengths in prop::collection::vec((40..=MAX, 1u32..6, 40u32..=300, 0u8..4), 300),
        ) {
            let (mut queue, transmitter) = queue(Limit::Packets(40), quantum);
            let mut now = Instant::ZERO;
            let mut ahead = None;
            for (index, (bytes, arrivals, short, joins)) in lengths.into_iter().enumerate() {
                for arrival in 0..arrivals + 2 {
                    let flow = 1 + (index as u32 + arrival) % others;
                    queue.enqueue(now, packet(flow, bytes), &transmitter);
                    prop_assert!(queue.dropped().iter().all(|packet| packet.hop > 0));
                }
                if ahead.is_none() && joins == 0 {
                    queue.enqueue(now, packet(0, short), &transmitter);
                    prop_assert!(queue.dropped().iter().all(|packet| packet.hop > 0));
                    ahead = Some(0);
                }
                let packet = queue.dequeue(now).unwrap();
                prop_assert!(queue.dropped().iter().all(|packet| packet.hop > 0));
                now += Duration::from_nanos(u64::from(packet.bytes) * 8000);
                if packet.hop == 0 {
                    ahead = None;
                } else if let Some(ahead) = &mut ahead {
                    *ahead += u64::from(packet.bytes);
                    prop_assert!(*ahead < 2 * u64::from(others) * (quantum + u64::from(MAX)));
                }
            }
        }
    }
}
