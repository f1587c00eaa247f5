//! DualPI2 (RFC 9332): two coupled queues, a low-latency queue for L4S transports and one for
//! Classic transports. The coupling gives flows of both kinds similar rates. Nearly half of this
//! file is tests.
//!
//! ```text
//!                          +---------+  p_L = max(ramp of its own delay, k p')      +-----------+
//!     ECT(1), CE --------> | L queue | --- mark -------------------------------->   | scheduler | -->
//!                          +---------+                                              | L first,  |
//!                          +---------+  p_C = p'^2                                  | C has its |
//!     not-ECT, ECT(0) ---> | C queue | --- mark, or drop of not-ECT ------------>   | share     |
//!                          +---------+                                              +-----------+
//!
//!     every T_update:  p' := p' + alpha (delay - target) + beta (delay - old delay), clamped to [0, 1]
//!                      delay: of the packet that has waited longest, in either queue
//!     k p' >= 1:       overload. L packets are dropped with p_C as well; C packets are dropped, not marked
//! ```
//!
//! Source: RFC 9332, appendix A. Constants and `recur`, which selects packets at regular distances
//! without random numbers, are from A.1; overload, delay and the floor of the ramp (`th_len`) from
//! A.2. T_update = min(target, RTT_max / 3), alpha = 0.1 T_update / RTT_max^2, beta = 0.3 /
//! RTT_max. As in the pseudocode, `th_len` is compared with the queue length after the packet has
//! been dequeued. Schedulers: weighted round robin with a credit in bytes, or the queue whose head
//! has waited longer, where `tshift` is added to the waiting time of the L queue. The weight of the
//! C queue is the one of Linux (`sch_dualpi2`, 10 %); the time shift is the one of the drafts of
//! the RFC and of ns-3 (50 ms).
//!
//! State: the packets of both queues and their arrival times; p', the delay at the last update; the
//! sums of `recur`; the credit. Updates need no timer: due ones are made up for before the next
//! call, because between calls the delay only grows with time.
//!
//! Not modelled: queue protection (RFC 9332, section 4.2); Curvy RED of appendix B; drops at the
//! tail instead of the head; classifiers other than the ECN field.

use super::family::{DisciplineKeys, QueueSite};
use super::{DisciplineCounters, Fifo, Limit, QueueDiscipline, Transmitter};
use lasthop_base::packet::Payload;
use lasthop_base::schema::keys::{Limits, choice, table};
use lasthop_base::schema::quantity::QueueLimit;
use lasthop_base::units::{Bytes, Duration, Instant, Probability};
use std::collections::VecDeque;

table! {
    /// DualPI2 (RFC 9332): a low-latency queue for L4S transports (ECT(1)), whose packets are
    /// marked early, and a Classic queue for all others. Classic packets are dropped or marked with
    /// the square of the base probability.
    pub struct DualPi2Keys as "dualpi2" {
        /// Maximum length of both queues together, including the packet in transmission. A limit in
        /// bytes counts packets with their frame headers. Default: the bytes sent in 250 ms at the
        /// highest rate of the link, at least four packets.
        limit: Option<QueueLimit>;
        /// Coupling factor k: L4S packets are marked with k times the square root of the
        /// probability of Classic packets.
        k: u32 = "2", Limits::range(1, 16);
        /// Target delay of the Classic queue.
        target: Duration = "15 ms", Limits::POSITIVE;
        /// Maximum round-trip time for which the controller must be stable. It determines the
        /// gains.
        rtt_max: Duration = "100 ms", Limits::POSITIVE;
        /// Delay of an L4S packet above which some packets are marked, regardless of the Classic
        /// queue.
        min_th: Duration = "800 us";
        /// Delay in excess of `min_th` above which all packets are marked.
        range: Duration = "400 us";
        /// Packets queued behind an L4S packet up to which its delay is ignored.
        th_len: u32 = "1";
        /// Scheduler of the two queues.
        scheduler: Scheduler = "wrr";
        /// Share of the Classic queue with `scheduler = "wrr"` while packets wait in both queues.
        classic_weight: Probability = "10 %";
        /// Time by which a Classic packet must have waited longer than an L4S packet to be sent
        /// first with `scheduler = "ts-fifo"`.
        tshift: Duration = "50 ms";
    }
}

choice! {
    /// Scheduler of the two queues while packets wait in both.
    pub enum Scheduler {
        /// The L4S queue first, except for the share of the Classic queue.
        Wrr = "wrr",
        /// The L4S queue first, unless the first Classic packet has waited longer by a time shift.
        TimeShiftedFifo = "ts-fifo",
    }
}

/// The state machine.
pub type Machine<P> = Box<DualPi2<P>>;

impl DisciplineKeys for DualPi2Keys {
    type Machine<P: Payload> = Machine<P>;

    fn build<P: Payload>(&self, site: &QueueSite<'_>) -> Machine<P> {
        let largest = site.packet.get() + site.header.get();
        Box::new(DualPi2::new(self.clone(), site.header, largest))
    }
}

/// Default limit, as time at the highest rate of the link (RFC 9332, appendix A.1).
const BUFFER: Duration = Duration::from_millis(250);
/// Minimum of the default limit, in packets of maximum length.
const FEWEST: u64 = 4;

/// The base probability p' and the probabilities derived from it.
#[derive(Clone, Debug)]
pub struct Control {
    target: Duration,
    update: Duration,
    alpha: f64,
    beta: f64,
    k: f64,
    /// The base probability p'.
    base: f64,
    old_delay: Duration,
    next_update: Instant,
}

impl Control {
    fn new(target: Duration, rtt_max: Duration, k: u32) -> Self {
        let update = Duration::from_nanos(target.as_nanos().min(rtt_max.as_nanos() / 3).max(1));
        let longest = rtt_max.as_secs_f64();
        Control {
            target,
            update,
            alpha: 0.1 * update.as_secs_f64() / (longest * longest),
            beta: 0.3 / longest,
            k: k.into(),
            base: 0.0,
            old_delay: Duration::ZERO,
            next_update: Instant::ZERO + update,
        }
    }

    /// p_C, the probability of the Classic queue.
    fn classic(&self) -> f64 {
        self.base * self.base
    }

    /// p_CL, the coupled probability of the L queue.
    fn coupled(&self) -> f64 {
        (self.k * self.base).min(1.0)
    }

    /// Returns `true` if p_CL is at its maximum. Then p_C is at its maximum, 1 / k^2, or above.
    fn is_overloaded(&self) -> bool {
        self.k * self.base >= 1.0
    }

    /// Makes up for the updates until `now`. `oldest` is the arrival time of the packet that has
    /// waited longest.
    fn catch_up(&mut self, now: Instant, oldest: Option<Instant>) {
        while self.next_update <= now {
            let delay = oldest.map(|arrival| self.next_update.saturating_since(arrival));
            let delay = delay.unwrap_or_default();
            if oldest.is_none() && self.base == 0.0 && self.old_delay == Duration::ZERO {
                let missed = (now - self.next_update).as_nanos() / self.update.as_nanos() + 1;
                self.next_update += self.update * missed;
                return;
            }
            self.step(delay);
            self.next_update += self.update;
        }
    }

    fn step(&mut self, delay: Duration) {
        let now = delay.as_secs_f64();
        let error = self.alpha * (now - self.target.as_secs_f64());
        let trend = self.beta * (now - self.old_delay.as_secs_f64());
        self.base = (self.base + error + trend).clamp(0.0, 1.0);
        self.old_delay = delay;
    }
}

/// One of the two queues.
#[derive(Clone, Debug)]
struct Lane<P> {
    fifo: Fifo<P>,
    /// Arrival time of each packet.
    arrivals: VecDeque<Instant>,
    /// Sum of likelihoods that have not yet selected a packet.
    count: f64,
}

impl<P: Payload> Lane<P> {
    /// Creates a queue without its own limit: both queues share one.
    fn new(header: Bytes) -> Self {
        let fifo = Fifo::new(Limit::Packets(u64::MAX), header);
        Lane { fifo, arrivals: VecDeque::with_capacity(64), count: 0.0 }
    }

    fn push(&mut self, now: Instant, packet: P) {
        self.fifo.push(packet);
        self.arrivals.push_back(now);
    }

    fn pop(&mut self) -> Option<(Instant, P)> {
        self.arrivals.pop_front().zip(self.fifo.pop())
    }

    /// Waiting time of the first packet.
    fn wait(&self, now: Instant) -> Option<Duration> {
        self.arrivals.front().map(|&arrival| now - arrival)
    }

    /// `recur` of the RFC: returns `true` in a fraction `likelihood` of the calls, at regular
    /// distances.
    fn recur(&mut self, likelihood: f64) -> bool {
        self.count += likelihood;
        let is_hit = self.count > 1.0;
        self.count -= f64::from(u8::from(is_hit));
        is_hit
    }
}

/// A DualPI2 queue: two coupled queues.
///
/// ```
/// use lasthop_base::packet::{Ecn, Packet};
/// use lasthop_base::rng::Streams;
/// use lasthop_base::schema::files::Files;
/// use lasthop_base::schema::keys::{Field, Limits, Node};
/// use lasthop_base::units::{Bytes, Duration, Instant, Rate};
/// use lasthop_link::queue::{Discipline, Queue, QueueDiscipline, QueueSite, Transmitter};
///
/// // The keys of a scenario.
/// let value = serde_json::json!({ "kind": "dualpi2", "limit": "1000 packets" });
/// let files = Files::new(std::path::Path::new("."));
/// let node = Node { value: &value, path: "link.a.queue".to_owned(), files: &files };
/// let discipline = Discipline::read(&node, Limits::ANY).unwrap();
/// let streams = Streams { seed: 1, replication: 0 };
/// let (header, packet) = (Bytes::new(0), Bytes::new(1_000));
/// let site = QueueSite { streams: &streams, component: "link.a", header, packet };
/// let mut queue: Queue<Packet> = discipline.build(&site);
///
/// // 80 Mbps: ten packets of each queue wait for 2 ms. A packet of an L4S transport (ECT(1)) is
/// // marked above 0.8 to 1.2 ms; Classic packets have a target of 15 ms.
/// let transmitter = Transmitter::new(Rate::from_bps(80_000_000));
/// for ecn in [Ecn::Ect1, Ecn::NotEct].repeat(10) {
///     let mut packet = Packet { bytes: 1_000, ..Packet::default() };
///     packet.tcp.ecn = ecn;
///     queue.enqueue(Instant::ZERO, packet, &transmitter);
/// }
/// let now = Instant::ZERO + Duration::from_millis(2);
/// let sent: Vec<Packet> = std::iter::from_fn(|| queue.dequeue(now)).collect();
/// assert_eq!(sent.len(), 20);
/// // Seven of ten: the sum of likelihoods exceeds 1 from the second packet on (`recur` of RFC 9332),
/// // and the delay of the last two, with at most one packet behind, is ignored.
/// assert_eq!(sent.iter().filter(|packet| packet.tcp.ecn == Ecn::Ce).count(), 7);
/// ```
#[derive(Clone, Debug)]
pub struct DualPi2<P> {
    keys: DualPi2Keys,
    header: u64,
    /// Maximum packet length, link header included.
    largest: u64,
    control: Control,
    low_latency: Lane<P>,
    classic: Lane<P>,
    /// Bytes that the Classic queue is behind its share while packets wait in both queues.
    owed: f64,
    /// Packets dropped by the last call.
    dropped: Vec<P>,
    counters: DisciplineCounters,
}

impl<P: Payload> DualPi2<P> {
    /// Creates empty queues. `largest` is the maximum packet length, link `header` included.
    pub fn new(keys: DualPi2Keys, header: Bytes, largest: u64) -> Self {
        let control = Control::new(keys.target, keys.rtt_max, keys.k);
        DualPi2 {
            keys,
            header: header.get(),
            largest,
            control,
            low_latency: Lane::new(header),
            classic: Lane::new(header),
            owed: 0.0,
            dropped: Vec::with_capacity(16),
            counters: DisciplineCounters::default(),
        }
    }

    fn catch_up(&mut self, now: Instant) {
        let heads = [self.low_latency.arrivals.front(), self.classic.arrivals.front()];
        let oldest = heads.into_iter().flatten().min().copied();
        self.control.catch_up(now, oldest);
    }

    /// Returns `true` if the L queue is served next. The credit only applies while packets wait in
    /// both queues.
    fn is_low_latency_next(&mut self, now: Instant) -> bool {
        let heads = self.low_latency.wait(now).zip(self.classic.wait(now));
        let Some((low_latency, classic)) = heads else {
            self.owed = 0.0;
            return !self.low_latency.fifo.is_empty();
        };
        match self.keys.scheduler {
            Scheduler::Wrr => self.owed <= 0.0,
            Scheduler::TimeShiftedFifo => low_latency + self.keys.tshift >= classic,
        }
    }

    /// Updates the credit after one queue has sent `bytes`, if packets wait in the other queue.
    fn charge(&mut self, is_low_latency: bool, bytes: u64) {
        let share = self.keys.classic_weight.get();
        let (other, weight) = match is_low_latency {
            true => (&self.classic, share),
            false => (&self.low_latency, share - 1.0),
        };
        if !other.fifo.is_empty() {
            self.owed += weight * bytes as f64;
        }
    }

    /// p'_L: the marking probability from the L queue's own delay (the ramp).
    fn ramp(&self, delay: Duration) -> f64 {
        let DualPi2Keys { min_th, range, th_len, .. } = self.keys;
        if self.low_latency.fifo.len() as u64 <= th_len.into() || delay <= min_th {
            return 0.0;
        }
        let above = delay.as_nanos() - min_th.as_nanos();
        if above >= range.as_nanos() { 1.0 } else { above as f64 / range.as_nanos() as f64 }
    }

    /// Decides on a packet dequeued from the L queue. Returns whether it is marked, and whether it
    /// is dropped.
    fn low_latency_hit(&mut self, delay: Duration) -> (bool, bool) {
        let coupled = self.control.coupled();
        if !self.control.is_overloaded() {
            let likelihood = self.ramp(delay).max(coupled);
            return (self.low_latency.recur(likelihood), false);
        }
        if self.low_latency.recur(self.control.classic()) {
            return (false, true);
        }
        (self.low_latency.recur(coupled), false)
    }
}

impl<P: Payload> QueueDiscipline<P> for Box<DualPi2<P>> {
    fn enqueue(&mut self, now: Instant, packet: P, transmitter: &Transmitter) -> bool {
        self.dropped.clear();
        self.catch_up(now);
        let has_room = self.has_room(now, packet.wire_bytes(), 1, transmitter);
        if !has_room {
            self.counters.tail_drops += 1;
        } else if packet.is_l4s() {
            self.low_latency.push(now, packet);
        } else {
            self.classic.push(now, packet);
        }
        has_room
    }

    fn dequeue(&mut self, now: Instant) -> Option<P> {
        self.dropped.clear();
        self.catch_up(now);
        loop {
            let is_low_latency = self.is_low_latency_next(now);
            let lane = if is_low_latency { &mut self.low_latency } else { &mut self.classic };
            let (arrival, mut packet) = lane.pop()?;
            let (is_marked, is_dropped) = if is_low_latency {
                self.low_latency_hit(now - arrival)
            } else {
                let is_hit = self.classic.recur(self.control.classic());
                (is_hit, is_hit && self.control.is_overloaded())
            };
            if is_dropped || is_marked && !packet.mark_congestion() {
                self.counters.early_drops += 1;
                self.dropped.push(packet);
                continue;
            }
            self.counters.marks += u64::from(is_marked);
            self.charge(is_low_latency, u64::from(packet.wire_bytes()) + self.header);
            return Some(packet);
        }
    }

    fn len(&self) -> usize {
        self.low_latency.fifo.len() + self.classic.fifo.len()
    }

    fn has_room(&self, now: Instant, bytes: u32, count: u64, transmitter: &Transmitter) -> bool {
        let frame = u64::from(bytes) + self.header;
        let held = self.low_latency.fifo.bytes() + self.classic.fifo.bytes();
        let wanted = held + transmitter.on_air_bytes(now) + count * frame;
        match self.keys.limit {
            Some(QueueLimit::Packets(limit)) => {
                let packets = self.len() as u64 + transmitter.on_air_frames(now);
                packets + count <= limit.into()
            }
            Some(QueueLimit::Bytes(limit)) => wanted <= limit.get(),
            None => {
                let fastest = transmitter.fastest().as_bps() as f64;
                let limit = fastest / 8.0 * BUFFER.as_secs_f64();
                wanted as f64 <= limit.max((FEWEST * self.largest) as f64)
            }
        }
    }

    fn counters(&self) -> DisciplineCounters {
        self.counters
    }

    fn dropped(&self) -> &[P] {
        &self.dropped
    }
}

#[cfg(test)]
mod tests;
