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
mod tests {
    use super::*;
    use lasthop_base::packet::{Ecn, Packet};
    use lasthop_base::schema::keys::{Node, Table};
    use lasthop_base::units::Rate;
    use proptest::prelude::*;

    fn micros(micros: u64) -> Instant {
        Instant::ZERO + Duration::from_nanos(micros * 1000)
    }

    /// The defaults with these changes, for packets of 1500 B at 12 Mbps: the transmission of one
    /// packet takes 1 ms.
    fn queue(change: impl Fn(&mut DualPi2Keys)) -> (Box<DualPi2<Packet>>, Transmitter) {
        let document = serde_json::json!({});
        let files = lasthop_base::schema::files::Files::new(std::path::Path::new(""));
        let node = Node { value: &document, path: String::new(), files: &files };
        let mut keys = DualPi2Keys::read(&node).unwrap();
        change(&mut keys);
        let queue = DualPi2::new(keys, Bytes::default(), 1500);
        (Box::new(queue), Transmitter::new(Rate::from_bps(12_000_000)))
    }

    fn packet(ecn: Ecn, number: u32) -> Packet {
        let mut packet = Packet { bytes: 1500, hop: number, ..Packet::default() };
        packet.tcp.ecn = ecn;
        packet
    }

    /// Fixes p' regardless of the delays.
    fn fix(queue: &mut DualPi2<Packet>, base: f64) {
        queue.control.base = base;
        queue.control.next_update = Instant::NEVER;
    }

    /// Gains of appendix A.1 with its defaults: T_update = min(15, 100 / 3) = 15 ms, alpha = 0.1 *
    /// 0.015 / 0.1^2 = 0.15 Hz, beta = 0.3 / 0.1 = 3 Hz. Steps computed by hand.
    #[test]
    fn the_base_probability_follows_the_delay() {
        let millis = Duration::from_millis;
        let mut control = Control::new(millis(15), millis(100), 2);
        assert_eq!(control.update, millis(15));
        let mut expected = 0.0;
        for (delay, step) in [
            // 0.15 * (0.030 - 0.015) + 3 * 0.030
            (30, 0.00225 + 0.09),
            // 0.15 * 0.005 - 3 * 0.010
            (20, 0.00075 - 0.03),
            // At the target only the trend counts; then nothing changes.
            (15, -0.015),
            (15, 0.0),
            (215, 0.03 + 0.6),
            // Clamped to 1 and to 0.
            (1015, 9.0),
            (0, -9.0),
        ] {
            control.step(millis(delay));
            expected = f64::clamp(expected + step, 0.0, 1.0);
            assert!((control.base - expected).abs() < 1e-12, "{delay}: {control:?}");
            assert_eq!(control.classic(), control.base * control.base);
            assert_eq!(control.coupled(), (2.0 * control.base).min(1.0));
            assert_eq!(control.is_overloaded(), control.classic() >= 0.25);
        }
    }

    /// The delay grows with time between updates, even without calls.
    #[test]
    fn missed_updates_are_made_up_for() {
        let (mut late, transmitter) = queue(|_| ());
        let mut often = late.clone();
        for queue in [&mut late, &mut often] {
            queue.enqueue(micros(10_000), packet(Ecn::NotEct, 0), &transmitter);
        }
        (1..100).for_each(|millis| often.catch_up(micros(10_000 + 1000 * millis)));
        late.catch_up(micros(109_000));
        assert_eq!(late.control.base, often.control.base);
        // Updates at 15, 30, … 105 ms with delays 5, 20, … 95 ms: the trends add up to 3 * 0.095, the errors to
        // 0.15 * (sum of 5, 20, … 95 less 7 * 15) ms = 0.15 * 0.245.
        assert!((late.control.base - (0.285 + 0.15 * 0.245)).abs() < 1e-12, "{:?}", late.control);
        // An empty queue: p' falls to 0 and stays there.
        assert!(late.dequeue(micros(109_000)).is_some());
        late.catch_up(micros(10_000_000_000));
        assert_eq!((late.control.base, late.control.old_delay), (0.0, Duration::ZERO));
        assert!(late.control.next_update > micros(10_000_000_000));
    }

    /// `count` packets arrive simultaneously and are dequeued simultaneously. Returns the numbers
    /// of the marked and of the dropped packets.
    fn hits(queue: &mut Box<DualPi2<Packet>>, ecn: Ecn, count: u32) -> [Vec<u32>; 2] {
        let transmitter = Transmitter::new(Rate::from_bps(1_000_000_000));
        for number in 1..=count {
            assert!(queue.enqueue(Instant::ZERO, packet(ecn, number), &transmitter));
        }
        let (mut marked, mut dropped) = (Vec::new(), Vec::new());
        while let Some(packet) = queue.dequeue(Instant::ZERO) {
            dropped.extend(queue.dropped().iter().map(|packet| packet.hop));
            marked.extend((packet.tcp.ecn == Ecn::Ce).then_some(packet.hop));
        }
        dropped.extend(queue.dropped().iter().map(|packet| packet.hop));
        let counters = queue.counters();
        assert_eq!(counters.marks, marked.len() as u64);
        assert_eq!(counters.early_drops, dropped.len() as u64);
        [marked, dropped]
    }

    /// Computed by hand: `recur` accumulates the likelihood; when the sum exceeds 1, it selects the
    /// packet and subtracts 1.
    #[test]
    fn classic_packets_are_hit_with_the_square_and_l4s_packets_k_times_as_often_as_its_root() {
        // p' = 1/4: p_CL = 1/2, p_C = 1/16.
        for (ecn, expected) in [
            (
                Ecn::Ect1,
                [vec![3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31, 33, 35], vec![]],
            ),
            (Ecn::Ect0, [vec![17, 33], vec![]]),
            (Ecn::NotEct, [vec![], vec![17, 33]]),
        ] {
            let (mut queue, _) = queue(|_| ());
            fix(&mut queue, 0.25);
            assert_eq!(hits(&mut queue, ecn, 36), expected, "{ecn:?}");
        }
        // k = 3: sums 0.75, 1.5, 1.25, 1, 1.75, 1.5, where marks subtract 1.
        let (mut queue, _) = queue(|keys| keys.k = 3);
        fix(&mut queue, 0.25);
        assert_eq!(hits(&mut queue, Ecn::Ect1, 6), [vec![2, 3, 5, 6], vec![]]);
    }

    /// p' = 1/2: p_CL = 1 = p_Lmax, p_C = 1/4 = p_Cmax. The sum of the L queue is 1/4 and, after
    /// the mark, again 1/4 with the first packet. It is 1/2, 3/4, 1 (no mark until above 1: 2) with
    /// the next three, and 5/4 drops the fifth.
    #[test]
    fn overload_drops_from_both_queues() {
        for (ecn, expected) in [
            (Ecn::Ect1, [vec![1, 2, 3, 4, 6, 7, 8, 10], vec![5, 9]]),
            (Ecn::Ect0, [vec![], vec![5, 9]]),
            (Ecn::NotEct, [vec![], vec![5, 9]]),
        ] {
            let (mut queue, _) = queue(|_| ());
            fix(&mut queue, 0.5);
            assert_eq!(hits(&mut queue, ecn, 10), expected, "{ecn:?}");
        }
    }

    /// The ramp from 800 to 1200 us, and its floor: a packet with at most one packet behind it is
    /// not marked.
    #[test]
    fn l4s_packets_are_marked_by_their_own_delay() {
        for (delay, behind, expected) in [
            (800, 5, 0.0),
            (900, 5, 0.25),
            (1000, 5, 0.5),
            (1200, 5, 1.0),
            (9000, 5, 1.0),
            (9000, 2, 1.0),
            (9000, 1, 0.0),
            (9000, 0, 0.0),
        ] {
            let (mut queue, transmitter) = queue(|_| ());
            for number in 0..behind {
                queue.enqueue(Instant::ZERO, packet(Ecn::Ect1, number), &transmitter);
            }
            assert_eq!(
                queue.ramp(Duration::from_nanos(delay * 1000)),
                expected,
                "{delay} {behind}"
            );
        }
    }

    /// 40 packets, 20 of either kind, arrive simultaneously. Returns the order in which their kinds
    /// are sent.
    fn order(change: impl Fn(&mut DualPi2Keys)) -> String {
        let (mut queue, transmitter) = queue(change);
        fix(&mut queue, 0.0);
        for number in 0..20 {
            queue.enqueue(Instant::ZERO, packet(Ecn::Ect1, number), &transmitter);
            queue.enqueue(Instant::ZERO, packet(Ecn::NotEct, number), &transmitter);
        }
        let mut order = String::new();
        while let Some(packet) = queue.dequeue(Instant::ZERO) {
            order.push(if packet.tcp.ecn == Ecn::NotEct { 'C' } else { 'L' });
        }
        order
    }

    /// Each L packet earns the Classic queue 1500 B times the weight. With a weight of 1/4, the
    /// first L packet is followed by one C packet; from then on, each C packet uses up the credit
    /// of three L packets.
    #[test]
    fn the_classic_queue_has_its_share() {
        let quarter =
            |keys: &mut DualPi2Keys| keys.classic_weight = Probability::new(0.25).unwrap();
        assert!(order(quarter).starts_with("LCLLLCLLLCLLLCLLLC"));
        let none = |keys: &mut DualPi2Keys| keys.classic_weight = Probability::new(0.0).unwrap();
        assert_eq!(order(none), "L".repeat(20) + &"C".repeat(20));
        // A Classic packet that arrived 50 ms + 1 us earlier is sent first; one that arrived 50 ms
        // earlier is not.
        for (head_start, first) in [(50_000, Ecn::Ect1), (50_001, Ecn::NotEct)] {
            let (mut queue, transmitter) =
                queue(|keys| keys.scheduler = Scheduler::TimeShiftedFifo);
            fix(&mut queue, 0.0);
            queue.enqueue(Instant::ZERO, packet(Ecn::NotEct, 0), &transmitter);
            queue.enqueue(micros(head_start), packet(Ecn::Ect1, 1), &transmitter);
            assert_eq!(queue.dequeue(micros(60_000)).unwrap().tcp.ecn, first);
        }
    }

    /// 250 ms at 12 Mbps are 375,000 B, or 250 packets of both kinds together.
    #[test]
    fn both_queues_share_the_limit() {
        for (limit, room) in [
            (None, 250),
            (Some(QueueLimit::Packets(7)), 7),
            (Some(QueueLimit::Bytes(Bytes::new(4500))), 3),
        ] {
            let (mut queue, transmitter) = queue(|keys| keys.limit = limit);
            let joined = (0..300).filter(|&number| {
                let ecn = if number % 3 == 0 { Ecn::Ect1 } else { Ecn::NotEct };
                queue.enqueue(Instant::ZERO, packet(ecn, number), &transmitter)
            });
            assert_eq!((joined.count(), queue.len()), (room, room));
            assert_eq!(queue.counters().tail_drops, 300 - room as u64);
        }
    }

    proptest! {
        /// For any arrivals: packets of a kind are sent in order, and each is either sent once or
        /// dropped once. No packets remain. Only packets of transports that support ECN are marked.
        /// The sums of `recur` stay between 0 and 1.
        #[test]
        fn no_packet_is_lost_or_twice(
            steps in prop::collection::vec((0u64..3000, 0u8..4, 0u8..3), 1..400),
            is_shifted in any::<bool>(),
        ) {
            let (mut queue, transmitter) = queue(|keys| {
                keys.scheduler = if is_shifted { Scheduler::TimeShiftedFifo } else { Scheduler::Wrr };
            });
            let mut now = Instant::ZERO;
            let (mut joined, mut left) = (0, 0);
            let mut last = [None; 2];
            let mut take = |queue: &mut Box<DualPi2<Packet>>, now| {
                let packet = queue.dequeue(now);
                left += queue.dropped().len() + usize::from(packet.is_some());
                let Some(packet) = packet else { return queue.is_empty() };
                let lane = usize::from(packet.is_l4s() && packet.tcp.payload == 1);
                let in_order = last[lane] < Some(packet.hop);
                last[lane] = Some(packet.hop);
                in_order && (packet.tcp.ecn != Ecn::Ce || packet.tcp.seq == 1)
            };
            for (number, (wait, ecn, departures)) in (0..).zip(steps) {
                now += Duration::from_nanos(wait * 1000);
                let ecn = Ecn::from_bits(ecn);
                let mut packet = packet(ecn, number);
                // The ECN field and the queue at arrival.
                (packet.tcp.seq, packet.tcp.payload) = (ecn.is_capable().into(), packet.is_l4s().into());
                joined += usize::from(queue.enqueue(now, packet, &transmitter));
                for _ in 0..departures {
                    prop_assert!(take(&mut queue, now));
                }
                prop_assert!((0.0..=1.0).contains(&queue.low_latency.count));
                prop_assert!((0.0..=1.0).contains(&queue.classic.count));
            }
            while !queue.is_empty() {
                prop_assert!(take(&mut queue, now));
            }
            prop_assert_eq!(left, joined);
        }
    }
}
