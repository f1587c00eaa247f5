//! FQ-CoDel (RFC 8290): a queue for each flow, served by deficit round robin, new ones first; CoDel in each.
//!
//! ```text
//!                      head: nothing waits, or no credit left (+ quantum)
//!             +-----+ ------------------------------------> +-----+ --+ head: no credit left: + quantum,
//!             | new |                                       | old |   | to the end
//!             +-----+                                       +-----+ <-+
//!                ^    a packet comes: credit := quantum        |
//!                |                                             | head: nothing waits
//!             +-------------+                                  |
//!             | in no list  | <--------------------------------+
//!             +-------------+
//!
//!   next packet: from the head of the new queues, or else of the old ones; credit - its bytes
//!   too many:    the longest queue drops half of its packets, at most 64, at its head
//! ```
//!
//! Source: RFC 8290, section 4; [CoDel](super::codel) of RFC 8289 in each queue. Flows are spread over the
//! queues by a hash of what tells them apart ([`Payload::flow`]) and a number that each replication draws
//! (section 4.1), so that two flows may share a queue. The longest queue is that of the most bytes.
//!
//! States: the packets of each queue, its credit and CoDel's state; the lists of new and of old queues.
//!
//! Not modelled: a threshold of marks (`ce_threshold` in section 5.2); Linux's memory limit, and
//! its reading of CoDel by which the last packet of a queue counts as long as others wait elsewhere.

use super::codel::{Codel, Control};
use super::family::{DisciplineKeys, QueueSite};
use super::{DisciplineCounters, Fifo, Limit, QueueDiscipline, Transmitter};
use lasthop_base::packet::Payload;
use lasthop_base::schema::keys::{Limits, table};
use lasthop_base::schema::quantity::QueueLimit;
use lasthop_base::units::{Bytes, Duration, Instant};
use std::collections::VecDeque;

table! {
    /// FQ-CoDel (RFC 8290): a queue for each flow, served in turn, flows that have just begun first; CoDel
    /// in each.
    pub struct FqCodelKeys as "fq-codel" {
        /// What all queues hold together, the packet in transmission included; a size counts packets with
        /// the frame header.
        limit: QueueLimit = "10240 packets";
        /// Queues that flows are spread over.
        flows: u32 = "1024", Limits::range(1, 65_536);
        /// Bytes that a queue may send in its turn, frame headers included.
        quantum: Bytes = "1514 B", Limits::PACKET;
        /// Time that packets may stay in their queue.
        target: Duration = "5 ms", Limits::POSITIVE;
        /// How long they may stay longer than that: some round-trip time of the flows.
        interval: Duration = "100 ms", Limits::POSITIVE;
        /// Whether packets of a transport that knows ECN are marked instead of dropped.
        ecn: bool = "true";
    }
}

/// The machine.
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

/// Packets that are dropped at once at most (RFC 8290, section 4.1).
const BATCH: usize = 64;

/// What each queue is made of when its first packet comes.
#[derive(Clone, Debug)]
pub struct Model {
    /// Link header, which sizes count with each packet.
    pub header: Bytes,
    /// CoDel that has not dropped yet.
    pub control: Control,
    /// Are packets of a transport that knows ECN marked instead of dropped?
    pub marks_ect: bool,
}

impl Model {
    /// An empty queue. All of them share a limit: none has one of its own.
    fn queue<P: Payload>(&self) -> FlowQueue<P> {
        let fifo = Fifo::new(Limit::Packets(u64::MAX), self.header);
        let codel = Box::new(Codel::new(fifo, self.control.clone(), self.marks_ect));
        FlowQueue { codel, credit: 0, is_listed: false }
    }
}

/// The queue of the flows of one hash.
#[derive(Clone, Debug)]
struct FlowQueue<P> {
    codel: Box<Codel<P>>,
    /// Bytes that it may still send; the last packet may have taken it below 0.
    credit: i64,
    /// Is it among the new or the old ones?
    is_listed: bool,
}

/// A queue for each flow.
#[derive(Clone, Debug)]
pub struct FqCodel<P> {
    model: Model,
    limit: Limit,
    quantum: i64,
    salt: u64,
    queues: Box<[Option<FlowQueue<P>>]>,
    new: VecDeque<u32>,
    old: VecDeque<u32>,
    /// In all queues.
    packets: usize,
    bytes: u64,
    /// By the last call.
    dropped: Vec<P>,
    tail_drops: u64,
}

impl<P: Payload> FqCodel<P> {
    /// Queues for `flows` hashes, each as `model` says, which share `limit`; `salt` changes which flows share a queue.
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

    /// The number of a flow's queue.
    fn place(&self, flow: u64) -> u32 {
        // The finalizer of SplitMix64, which spreads neighbouring numbers.
        let mut hash = flow ^ self.salt;
        hash = (hash ^ hash >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        hash = (hash ^ hash >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((hash ^ hash >> 31) % self.queues.len() as u64) as u32
    }

    /// Is there room for `count` packets of `bytes` each, with their headers, beside the frame on the air?
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

    /// The longest queue drops half of its packets, at most a batch, at its head.
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
            let queue = queues[place as usize].as_mut().expect("a listed queue is there");
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
                // A new one that is empty waits for a turn of the old ones, or it would be new again at once.
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

    /// Packets of a flow have its number in the table of hops.
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

    /// By hand from section 4.2: a turn is 1500 B, one packet of flow 1 or three of flow 2.
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

    /// By hand from section 4.2, flow 1 with nine packets of a third of a quantum and flow 2 with one now
    /// and then.
    #[test]
    fn a_new_queue_goes_first_and_an_empty_one_is_old() {
        let (mut queue, transmitter) = queue(Limit::Packets(1000), 1500);
        for _ in 0..9 {
            queue.enqueue(Instant::ZERO, packet(1, 500), &transmitter);
        }
        assert_eq!(flows(&mut queue, 1), [1]);
        // New queues in their order: flow 1 has two packets of its quantum left. Then it is old, and flow 2
        // goes, which is found empty and becomes old behind it.
        queue.enqueue(Instant::ZERO, packet(2, 300), &transmitter);
        assert_eq!(flows(&mut queue, 4), [1, 1, 2, 1]);
        // It is not new again: flow 1 ends its turn. Flow 2 is found empty after its own, and leaves.
        queue.enqueue(Instant::ZERO, packet(2, 300), &transmitter);
        assert_eq!(flows(&mut queue, 4), [1, 1, 2, 1]);
        // Now it is new, and goes before the rest of flow 1's turn.
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
        assert!(queue.enqueue(Instant::ZERO, packet(2, 1000), &transmitter), "the other pays");
        assert_eq!(dropped(&queue), [1; 4]);
        assert_eq!((queue.len(), queue.bytes, queue.counters().tail_drops), (7, 7000, 4));
        // Five short packets are less than two long ones.
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

    /// 1900 B where 1000 B are allowed: half of flow 1's ten packets go, and then the longest queue is that
    /// of the packet that has just come.
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

    /// One packet of flow 1 leaves every 10 ms, as in the trace of CoDel by itself: hits at 110, 210, 290,
    /// 340 and 390 ms. Flow 2, whose packets do not wait, is left alone.
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
        /// After k turns a flow that always has packets has sent at least k quanta Q and less than a packet
        /// L more, and turns of two of them differ by at most one: what they have sent, by less than Q + L.
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

        /// A flow of short packets, each of which finds none of its own: n others, however much they send,
        /// delay it by less than two turns each, of a quantum and a packet, and it loses nothing.
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
