//! Random early detection (RED): decides whether an arriving packet is enqueued, marked or dropped.
//!
//! ```text
//!     avg     := (1 - w) avg + w q           at each arrival; q is the queue length found by the packet
//!     avg     := (1 - w)^m avg               after an idle time in which m packets could have been sent
//!     p_b(avg) = 0                           avg < min
//!              = max_p (avg - min) / (max - min)                  min <= avg < max
//!              = max_p + (1 - max_p) (avg - max) / max            max <= avg < 2 max, gentle
//!              = 1                                                otherwise
//!     p_a      = p_b / (1 - count p_b)       count: packets since the last marked or dropped packet
//! ```
//!
//! Sources: S. Floyd, V. Jacobson, "Random early detection gateways for congestion avoidance",
//! IEEE/ACM Transactions on Networking 1(4), 1993; S. Floyd, "Recommendation on using the gentle
//! variant of RED", 2000. In byte mode q is in bytes, and p_b is multiplied by the ratio of the
//! packet length to the mean length. A packet whose transport supports ECN (RFC 3168) is marked
//! instead of dropped while avg < max (2 max if gentle). Above that, it is dropped (RFC 3168,
//! section 7).
//!
//! The queue limit is checked after the RED decision. The packet in transmission counts as queued.
//! Random numbers come from the stream `early detection`, one per packet whose probability is above
//! 0 and below 1.
//!
//! State: the queued packets; the average; the number of packets since the last marked or dropped
//! one.
//!
//! Not modelled: adaptive max_p, classes (WRED).

use super::family::{DisciplineKeys, QueueSite, fifo_methods};
use super::{DisciplineCounters, Fifo, QueueDiscipline, Transmitter};
use lasthop_base::packet::Payload;
use lasthop_base::rng::Stream;
use lasthop_base::schema::ScenarioError;
use lasthop_base::schema::keys::{Limits, Read, table};
use lasthop_base::schema::quantity::QueueLimit;
use lasthop_base::units::{Bytes, Duration, ExactTime, Instant, Probability};

table! {
    /// Random early detection (Floyd and Jacobson): an arriving packet is dropped, or marked if its
    /// transport supports ECN, with a probability that grows with the average queue length.
    pub struct RedKeys as "red" {
        /// Maximum queue length, including the packet in transmission. A limit in bytes counts
        /// packets with their frame headers.
        limit: QueueLimit = "50 packets";
        /// Average queue length from which packets are marked or dropped. In bytes, it selects the
        /// byte mode, where the probability also grows with the length of the packet.
        min: QueueLimit = "5 packets";
        /// Average queue length at which the probability is max_p, in the same unit as min.
        /// Default: three times min.
        max: Option<QueueLimit>;
        /// Probability at max, above 0.
        max_p: Probability = "10 %";
        /// Weight of the current queue length in the average, above 0.
        weight: Probability = "0.2 %";
        /// Whether the probability rises linearly from max_p to 1 between max and twice max,
        /// instead of jumping to 1 at max.
        gentle: bool = "true";
        /// Whether packets of transports that support ECN are marked instead of dropped.
        ecn: bool = "true";
        /// Mean packet length, frame header included. It determines how fast the average decays
        /// while the queue is idle, and is the reference length of the byte mode.
        mean_packet: Bytes = "500 B", Limits::PACKET;
    }
}

impl RedKeys {
    fn parameters(&self) -> RedParameters {
        let number = |limit| match limit {
            QueueLimit::Packets(packets) => f64::from(packets),
            QueueLimit::Bytes(bytes) => bytes.get() as f64,
        };
        RedParameters {
            min_threshold: number(self.min),
            max_threshold: self.max.map_or(3.0 * number(self.min), number),
            max_p: self.max_p.get(),
            weight: self.weight.get(),
            gentle: self.gentle,
            byte_mode: matches!(self.min, QueueLimit::Bytes(_)),
            mean_packet: self.mean_packet,
        }
    }
}

/// The state machine.
pub type Machine<P> = Box<Red<P>>;

impl DisciplineKeys for RedKeys {
    type Machine<P: Payload> = Machine<P>;

    fn build<P: Payload>(&self, site: &QueueSite<'_>) -> Machine<P> {
        let stream = site.streams.stream(site.component, "early detection");
        let detector = RedDetector::new(self.parameters(), stream);
        Box::new(Red::new(Fifo::new(self.limit.into(), site.header), detector, self.ecn))
    }

    fn check(&self, path: &str) -> Read<()> {
        let refuse = |key: &str, found: String, allowed: &str| {
            Err(ScenarioError::new(format!("{path}.{key}"), found, allowed))
        };
        for (key, probability) in [("max_p", self.max_p), ("weight", self.weight)] {
            if probability.get() == 0.0 {
                return refuse(key, "0".to_owned(), "a probability above 0, up to 1");
            }
        }
        let Some(max) = self.max else { return Ok(()) };
        match (self.min, max) {
            (QueueLimit::Packets(min), QueueLimit::Packets(most)) if most > min => Ok(()),
            (QueueLimit::Bytes(min), QueueLimit::Bytes(most)) if most > min => Ok(()),
            (min, most) => {
                let found = format!("{:?} with min {:?}", most.to_string(), min.to_string());
                refuse("max", found, "more than min, and as it in packets or as a size")
            }
        }
    }
}

/// A queue controlled by random early detection.
///
/// ```
/// use lasthop_base::packet::Packet;
/// use lasthop_base::rng::Streams;
/// use lasthop_base::units::{Bytes, Instant, Rate};
/// use lasthop_link::queue::{
///     Fifo, Limit, QueueDiscipline, Red, RedDetector, RedParameters, Transmitter,
/// };
///
/// // Packets are dropped from an average of 5 on, long before the queue is full.
/// let stream = Streams { seed: 1, replication: 0 }.stream("link.a", "queue");
/// let detector = RedDetector::new(RedParameters::recommended(5.0), stream);
/// let mut queue = Box::new(Red::new(Fifo::new(Limit::Packets(1_000), Bytes::new(0)), detector, false));
/// let transmitter = Transmitter::new(Rate::from_bps(1_000_000));
/// let packet = Packet { bytes: 500, ..Packet::default() };
/// for _ in 0..900 {
///     queue.enqueue(Instant::ZERO, packet, &transmitter);
/// }
/// assert!(queue.counters().early_drops > 0);
/// assert_eq!(queue.counters().tail_drops, 0);
/// ```
#[derive(Clone, Debug)]
pub struct Red<P> {
    fifo: Fifo<P>,
    detector: RedDetector,
    marks_ect: bool,
    /// Time at which the queue became empty; the transmitter may have been busy longer.
    empty_since: Instant,
    counters: DisciplineCounters,
}

impl<P: Payload> Red<P> {
    /// Creates a queue with `detector`. `marks_ect`: whether packets of transports that support ECN
    /// are marked instead of dropped.
    pub fn new(fifo: Fifo<P>, detector: RedDetector, marks_ect: bool) -> Self {
        let counters = DisciplineCounters::default();
        Red { fifo, detector, marks_ect, empty_since: Instant::ZERO, counters }
    }

    /// The detector, for its average queue length.
    pub fn detector(&self) -> &RedDetector {
        &self.detector
    }

    fn verdict(&mut self, now: Instant, packet: &P, transmitter: &Transmitter) -> RedVerdict {
        let parameters = self.detector.parameters();
        let queued = if parameters.byte_mode {
            self.fifo.bytes() + transmitter.on_air_bytes(now)
        } else {
            self.fifo.len() as u64 + transmitter.on_air_frames(now)
        };
        let idle_since = self.empty_since.max(transmitter.free_at().instant());
        let service = ExactTime::default().after(parameters.mean_packet.bits(), transmitter.rate());
        let service = Duration::from_nanos(service.nanos);
        let bytes = self.fifo.frame_bytes(packet);
        self.detector.on_arrival(queued as f64, bytes, now.saturating_since(idle_since), service)
    }
}

impl<P: Payload> QueueDiscipline<P> for Box<Red<P>> {
    fn enqueue(&mut self, now: Instant, mut packet: P, transmitter: &Transmitter) -> bool {
        let is_marked = match self.verdict(now, &packet, transmitter) {
            RedVerdict::Admit => false,
            RedVerdict::Mark if self.marks_ect && packet.mark_congestion() => true,
            RedVerdict::Mark | RedVerdict::Drop => {
                self.counters.early_drops += 1;
                return false;
            }
        };
        let has_room = self.fifo.has_room(now, packet.wire_bytes(), 1, transmitter);
        if has_room {
            self.counters.marks += u64::from(is_marked);
            self.fifo.push(packet);
        } else {
            self.counters.tail_drops += 1;
        }
        has_room
    }

    fn dequeue(&mut self, now: Instant) -> Option<P> {
        let packet = self.fifo.pop()?;
        if self.fifo.is_empty() {
            self.empty_since = now;
        }
        Some(packet)
    }

    fifo_methods!();
}

/// Parameters of random early detection.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RedParameters {
    /// Average queue length from which packets are dropped, in packets or, in byte mode, in bytes;
    /// above 0.
    pub min_threshold: f64,
    /// Average queue length at which the probability is `max_p`; above `min_threshold`.
    pub max_threshold: f64,
    /// Probability at `max_threshold`, 0 to 1.
    pub max_p: f64,
    /// Weight of the current queue length in the average, 0 to 1 (default 0.002).
    pub weight: f64,
    /// Whether the probability rises linearly from `max_p` to 1 between `max_threshold` and twice
    /// this threshold, instead of jumping to 1.
    pub gentle: bool,
    /// Whether the queue length is in bytes rather than packets.
    pub byte_mode: bool,
    /// Mean packet length. It determines how fast the average decays while the queue is idle, and
    /// is the reference length of the byte mode.
    pub mean_packet: Bytes,
}

impl RedParameters {
    /// Floyd's recommendation for a queue with a lower threshold of `min_threshold` packets: an
    /// upper threshold of three times this value, 10 %, weight 0.002, gentle, packet mode with a
    /// mean packet length of 500 B.
    pub fn recommended(min_threshold: f64) -> Self {
        RedParameters {
            min_threshold,
            max_threshold: 3.0 * min_threshold,
            max_p: 0.1,
            weight: 0.002,
            gentle: true,
            byte_mode: false,
            mean_packet: Bytes::new(500),
        }
    }

    /// Probability p_b of a packet of mean length for this average queue length.
    pub fn probability(&self, average: f64) -> f64 {
        let RedParameters { min_threshold: min, max_threshold: max, max_p, gentle, .. } = *self;
        if average < min {
            0.0
        } else if average < max {
            max_p * (average - min) / (max - min)
        } else if gentle && average < 2.0 * max {
            max_p + (1.0 - max_p) * (average - max) / max
        } else {
            1.0
        }
    }
}

/// Decision on an arriving packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum RedVerdict {
    /// Enqueue it if there is room.
    Admit,
    /// Mark and enqueue it, or drop it if its transport does not support ECN.
    Mark,
    /// Drop it.
    Drop,
}

/// The RED algorithm: maintains the average queue length and decides on each arriving packet.
#[derive(Clone, Debug)]
pub struct RedDetector {
    parameters: RedParameters,
    average: f64,
    /// Packets since the last marked or dropped one; `None` below the lower threshold.
    count: Option<u64>,
    stream: Stream,
}

impl RedDetector {
    /// Creates a detector for an empty queue. It uses one random number per packet whose
    /// probability is above 0 and below 1.
    pub fn new(parameters: RedParameters, stream: Stream) -> Self {
        RedDetector { parameters, average: 0.0, count: None, stream }
    }

    /// The average queue length at the last arrival, in packets or bytes.
    pub fn average(&self) -> f64 {
        self.average
    }

    /// The parameters.
    pub fn parameters(&self) -> &RedParameters {
        &self.parameters
    }

    /// Updates the average and decides on a packet of `bytes` that finds a queue of `queued`
    /// packets or bytes. If the queue is empty, `idle` is the duration of the idle period.
    /// `service` is the transmission time of a packet of mean length.
    pub fn on_arrival(
        &mut self,
        queued: f64,
        bytes: u64,
        idle: Duration,
        service: Duration,
    ) -> RedVerdict {
        let RedParameters { weight, min_threshold, byte_mode, mean_packet, .. } = self.parameters;
        if queued > 0.0 {
            self.average += weight * (queued - self.average);
        } else {
            let packets = idle.as_nanos() as f64 / service.as_nanos().max(1) as f64;
            self.average *= libm::pow(1.0 - weight, packets);
        }
        if self.average < min_threshold {
            self.count = None;
            return RedVerdict::Admit;
        }
        let length = if byte_mode { bytes as f64 / mean_packet.get() as f64 } else { 1.0 };
        let probability = self.parameters.probability(self.average);
        if probability >= 1.0 {
            self.count = Some(0);
            return RedVerdict::Drop;
        }
        // `count` includes the packet itself, so that the first one is marked or dropped with p_b.
        let count = self.count.map_or(0, |count| count + 1);
        let probability = (probability * length).min(1.0);
        let left = 1.0 - count as f64 * probability;
        let now = if left > probability { probability / left } else { 1.0 };
        if self.stream.uniform() < now {
            self.count = Some(0);
            RedVerdict::Mark
        } else {
            self.count = Some(count);
            RedVerdict::Admit
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use lasthop_base::rng::Streams;

    const SERVICE: Duration = Duration::from_millis(1);

    fn red(parameters: RedParameters) -> RedDetector {
        RedDetector::new(
            parameters,
            Streams { seed: 5, replication: 0 }.stream("queue", "early detection"),
        )
    }

    fn parameters() -> RedParameters {
        RedParameters { weight: 1.0, ..RedParameters::recommended(5.0) }
    }

    #[test]
    fn the_probability_is_the_published_curve() {
        let gentle = parameters();
        let steep = RedParameters { gentle: false, ..gentle };
        for (average, expected, without) in [
            (0.0, 0.0, 0.0),
            (4.99, 0.0, 0.0),
            (5.0, 0.0, 0.0),
            (10.0, 0.05, 0.05),
            (15.0, 0.1, 1.0),
            (22.5, 0.55, 1.0),
            (30.0, 1.0, 1.0),
            (99.0, 1.0, 1.0),
        ] {
            assert!((gentle.probability(average) - expected).abs() < 1e-12, "{average}");
            assert!((steep.probability(average) - without).abs() < 1e-12, "{average}");
        }
    }

    /// Marks are uniformly spaced between 1 and n = 1/p_b - 1 packets (Floyd and Jacobson, section
    /// VII; their algorithm counts the packet itself). The mean spacing is compared within 5
    /// standard errors, with the variance (n^2 - 1) / 12 of a uniform distribution on 1 to n. False
    /// positives: below 1e-6 per point.
    #[test]
    fn marks_come_evenly_at_the_rate_of_the_curve() {
        for (queue, p) in [(7.0, 0.02), (10.0, 0.05), (13.0, 0.08), (15.0, 0.1), (18.75, 0.325)] {
            let mut red = red(parameters());
            let n: u32 = 400_000;
            let verdicts: Vec<_> =
                (0..n).map(|_| red.on_arrival(queue, 500, Duration::ZERO, SERVICE)).collect();
            let marks = verdicts.iter().filter(|&&verdict| verdict == RedVerdict::Mark).count();
            let mut longest = 0;
            let mut run = 0;
            for verdict in &verdicts {
                run = if *verdict == RedVerdict::Mark { 0 } else { run + 1 };
                longest = longest.max(run);
            }
            let most = (1.0f64 / p).ceil();
            assert!(f64::from(longest) < most, "{longest} packets without a mark at {p}");
            if (1.0 / p).fract() == 0.0 {
                let n = most - 1.0;
                let spacing = verdicts.len() as f64 / marks as f64;
                let error = ((n * n - 1.0) / 12.0 / marks as f64).sqrt();
                let mean = (n + 1.0) / 2.0;
                assert!((spacing - mean).abs() < 5.0 * error, "{spacing}, expected {mean}");
            }
        }
    }

    #[test]
    fn the_average_follows_and_idle_times_let_it_fall() {
        let mut red = red(RedParameters { weight: 0.25, ..parameters() });
        for expected in [1.0, 1.75, 2.3125] {
            let verdict = red.on_arrival(4.0, 500, Duration::ZERO, SERVICE);
            assert_eq!((verdict, red.average()), (RedVerdict::Admit, expected));
        }
        // Two packets could have been sent.
        let verdict = red.on_arrival(0.0, 500, Duration::from_millis(2), SERVICE);
        assert_eq!(verdict, RedVerdict::Admit);
        assert!((red.average() - 2.3125 * 0.5625).abs() < 1e-12);
    }

    #[test]
    fn byte_mode_spares_short_packets() {
        let bytes = RedParameters {
            min_threshold: 2_500.0,
            max_threshold: 7_500.0,
            byte_mode: true,
            ..parameters()
        };
        let marks = |length| {
            let mut red = red(bytes);
            let verdicts =
                (0..50_000).map(|_| red.on_arrival(5_000.0, length, Duration::ZERO, SERVICE));
            verdicts.filter(|&verdict| verdict == RedVerdict::Mark).count() as f64
        };
        // p_b is 0.05 for 500 bytes and 0.005 for 50: spacings of 10 and 100 on average.
        let (long, short) = (marks(500), marks(50));
        assert!((long / short - 10.0).abs() < 1.5, "{long} and {short}");
    }

    #[test]
    fn beyond_the_curve_all_is_dropped() {
        let mut red = red(parameters());
        assert_eq!(red.on_arrival(40.0, 500, Duration::ZERO, SERVICE), RedVerdict::Drop);
    }
}
