//! PIE (RFC 8033): drops arriving packets with a probability controlled by the queueing delay.
//!
//! ```text
//!     every t_update:
//!       p         := alpha (delay - target) + beta (delay - old delay), scaled down while drop_p is small
//!       drop_p    := drop_p + p, clamped to [0, 1]; times 1 - 1/64 if both delays are 0
//!       allowance := max(0, allowance - t_update)
//!     at each arrival, unless the burst allowance is above 0:
//!       drop with drop_p, unless the old delay is below target / 2 and drop_p below 20 %, or the queue
//!       contains at most two packets of mean length
//! ```
//!
//! Source: RFC 8033, sections 4.1 to 4.4 (scaling in 4.2), 5.1 (marks while drop_p is below 10 %),
//! 5.4 (derandomization) and 5.5 (drop_p increases by at most 2 % per update once it is 10 % or
//! more). Derandomization: no packet is dropped while the sum of probabilities since the last drop
//! is below 0.85, and one is always dropped at 8.5. The delay is the sojourn time of the last
//! dequeued packet, measured with timestamps, which section 4.3 permits instead of an estimate of
//! the departure rate. It is 0 while the queue is empty.
//!
//! The RFC is inconsistent in two places. In section 4.2 drop_p decays if both delays are 0; in the
//! pseudocode (appendix), if both are below target / 2. Section 4.2 is implemented here. The RFC
//! writes the factor as 0.98 and calls 1 - 1/64 sufficient; 1 - 1/64 is used here.
//!
//! State: the queued packets and their arrival times; drop_p, the delays at the last two updates,
//! the burst allowance. Updates need no timer: due ones are made up for before the next call,
//! because the queue does not change in between.
//!
//! Not modelled: dequeue rate estimation (section 5.2); setting PIE inactive (section 5.3).

use super::family::{DisciplineKeys, QueueSite, fifo_methods};
use super::{DisciplineCounters, Fifo, QueueDiscipline, Transmitter};
use lasthop_base::packet::Payload;
use lasthop_base::rng::Stream;
use lasthop_base::schema::keys::{Limits, table};
use lasthop_base::schema::quantity::QueueLimit;
use lasthop_base::units::{Duration, Instant};
use std::collections::VecDeque;

table! {
    /// PIE (RFC 8033): an arriving packet is dropped or marked with a probability that depends on
    /// the deviation of the queueing delay from its target and on the trend of the delay.
    pub struct PieKeys as "pie" {
        /// Maximum queue length, including the packet in transmission. A limit in bytes counts
        /// packets with their frame headers.
        limit: QueueLimit = "1000 packets";
        /// Target queueing delay.
        target: Duration = "15 ms", Limits::POSITIVE;
        /// Interval between updates of the probability.
        update: Duration = "15 ms", Limits::POSITIVE;
        /// Maximum duration of a burst on an idle link before packets are dropped.
        burst: Duration = "150 ms";
        /// Whether packets of transports that support ECN are marked instead of dropped while the
        /// probability is below 10 %.
        ecn: bool = "true";
    }
}

/// The state machine.
pub type Machine<P> = Box<Pie<P>>;

impl DisciplineKeys for PieKeys {
    type Machine<P: Payload> = Machine<P>;

    fn build<P: Payload>(&self, site: &QueueSite<'_>) -> Machine<P> {
        let stream = site.streams.stream(site.component, "early detection");
        let two_packets = 2 * (site.packet.get() + site.header.get());
        let fifo = Fifo::new(self.limit.into(), site.header);
        let control = Control::new(self.target, self.update, self.burst);
        Box::new(Pie {
            fifo,
            arrivals: VecDeque::with_capacity(64),
            sojourn: Duration::ZERO,
            control,
            two_packets,
            marks_ect: self.ecn,
            accumulated: 0.0,
            stream,
            counters: DisciplineCounters::default(),
        })
    }
}

/// Gains in 1/s (RFC 8033, section 4.2).
const ALPHA: f64 = 0.125;
const BETA: f64 = 1.25;
/// Probability from which packets are dropped even if they could be marked (section 5.1).
const MOST_MARKED: f64 = 0.1;

/// The drop probability and the state of its controller.
#[derive(Clone, Debug)]
pub struct Control {
    target: Duration,
    update: Duration,
    burst: Duration,
    drop_p: f64,
    old_delay: Duration,
    /// Remaining burst allowance.
    allowance: Duration,
    next_update: Instant,
}

impl Control {
    fn new(target: Duration, update: Duration, burst: Duration) -> Self {
        Control {
            target,
            update,
            burst,
            drop_p: 0.0,
            old_delay: Duration::ZERO,
            allowance: burst,
            next_update: Instant::ZERO + update,
        }
    }

    /// Returns `true` if an update of an empty queue would change nothing.
    fn is_at_rest(&self) -> bool {
        self.drop_p == 0.0 && self.old_delay == Duration::ZERO && self.allowance == self.burst
    }

    /// Makes up for the updates until `now`, for which the delay was `delay`.
    fn catch_up(&mut self, now: Instant, delay: Duration) {
        while self.next_update <= now {
            if delay == Duration::ZERO && self.is_at_rest() {
                let missed = (now - self.next_update).as_nanos() / self.update.as_nanos() + 1;
                self.next_update += self.update * missed;
                return;
            }
            self.step(delay);
            self.next_update += self.update;
        }
    }

    fn step(&mut self, delay: Duration) {
        let seconds = |time: Duration| time.as_secs_f64();
        let error = seconds(delay) - seconds(self.target);
        let mut p = ALPHA * error + BETA * (seconds(delay) - seconds(self.old_delay));
        p /= match self.drop_p {
            p if p < 1e-6 => 2048.0,
            p if p < 1e-5 => 512.0,
            p if p < 1e-4 => 128.0,
            p if p < 1e-3 => 32.0,
            p if p < 1e-2 => 8.0,
            p if p < 1e-1 => 2.0,
            _ => 1.0,
        };
        if self.drop_p >= 0.1 {
            p = p.min(0.02);
        }
        self.drop_p += p;
        if delay == Duration::ZERO && self.old_delay == Duration::ZERO {
            self.drop_p *= 1.0 - 1.0 / 64.0;
        }
        self.drop_p = self.drop_p.clamp(0.0, 1.0);
        let is_low = |time: Duration| 2 * time.as_nanos() < self.target.as_nanos();
        let left = self.allowance.as_nanos().saturating_sub(self.update.as_nanos());
        self.allowance = Duration::from_nanos(left);
        if self.drop_p == 0.0 && is_low(delay) && is_low(self.old_delay) {
            self.allowance = self.burst;
        }
        self.old_delay = delay;
    }
}

/// A queue controlled by PIE.
///
/// ```
/// use lasthop_base::packet::Packet;
/// use lasthop_base::rng::Streams;
/// use lasthop_base::schema::files::Files;
/// use lasthop_base::schema::keys::{Field, Limits, Node};
/// use lasthop_base::units::{Bytes, Duration, Instant, Rate};
/// use lasthop_link::queue::{Discipline, Queue, QueueDiscipline, QueueSite, Transmitter};
///
/// // The keys of a scenario.
/// let value = serde_json::json!({ "kind": "pie", "burst": "0 s" });
/// let files = Files::new(std::path::Path::new("."));
/// let node = Node { value: &value, path: "link.a.queue".to_owned(), files: &files };
/// let discipline = Discipline::read(&node, Limits::ANY).unwrap();
/// let streams = Streams { seed: 1, replication: 0 };
/// let (header, packet) = (Bytes::new(0), Bytes::new(1_000));
/// let site = QueueSite { streams: &streams, component: "link.a", header, packet };
/// let mut queue: Queue<Packet> = discipline.build(&site);
///
/// // 800 kbps: a packet is sent every 10 ms, but one arrives every 5 ms. The delay exceeds its target
/// // of 15 ms, and PIE drops packets long before the queue is full.
/// let transmitter = Transmitter::new(Rate::from_bps(800_000));
/// for step in 0..400 {
///     let now = Instant::ZERO + Duration::from_millis(5) * step;
///     queue.enqueue(now, Packet { bytes: 1_000, ..Packet::default() }, &transmitter);
///     if step % 2 == 1 {
///         queue.dequeue(now);
///     }
/// }
/// let counters = queue.counters();
/// assert!(counters.early_drops > 20 && counters.tail_drops == 0, "{counters:?}");
/// ```
#[derive(Clone, Debug)]
pub struct Pie<P> {
    fifo: Fifo<P>,
    /// Arrival time of each packet.
    arrivals: VecDeque<Instant>,
    /// Sojourn time of the last dequeued packet.
    sojourn: Duration,
    control: Control,
    /// Queue length in bytes up to which no packets are dropped.
    two_packets: u64,
    marks_ect: bool,
    /// Sum of the probabilities since the last drop.
    accumulated: f64,
    stream: Stream,
    counters: DisciplineCounters,
}

impl<P: Payload> Pie<P> {
    /// Makes up for the updates until `now`; the queue has not changed since the last call.
    fn catch_up(&mut self, now: Instant) {
        let delay = if self.fifo.is_empty() { Duration::ZERO } else { self.sojourn };
        self.control.catch_up(now, delay);
    }

    fn is_hit(&mut self) -> bool {
        let Control { drop_p, old_delay, target, allowance, .. } = self.control;
        let is_low = 2 * old_delay.as_nanos() < target.as_nanos() && drop_p < 0.2;
        if allowance > Duration::ZERO || is_low || self.fifo.bytes() <= self.two_packets {
            return false;
        }
        if drop_p == 0.0 {
            self.accumulated = 0.0;
        }
        self.accumulated += drop_p;
        if self.accumulated < 0.85 {
            return false;
        }
        let is_hit = self.accumulated >= 8.5 || self.stream.bernoulli(drop_p);
        if is_hit {
            self.accumulated = 0.0;
        }
        is_hit
    }
}

impl<P: Payload> QueueDiscipline<P> for Box<Pie<P>> {
    fn enqueue(&mut self, now: Instant, mut packet: P, transmitter: &Transmitter) -> bool {
        self.catch_up(now);
        let is_hit = self.is_hit();
        let may_mark = self.marks_ect && self.control.drop_p < MOST_MARKED;
        let is_marked = is_hit && may_mark && packet.mark_congestion();
        if is_hit && !is_marked {
            self.counters.early_drops += 1;
            return false;
        }
        let has_room = self.fifo.has_room(now, packet.wire_bytes(), 1, transmitter);
        if has_room {
            self.counters.marks += u64::from(is_marked);
            self.fifo.push(packet);
            self.arrivals.push_back(now);
        } else {
            self.counters.tail_drops += 1;
        }
        has_room
    }

    fn dequeue(&mut self, now: Instant) -> Option<P> {
        self.catch_up(now);
        let packet = self.fifo.pop()?;
        if let Some(arrival) = self.arrivals.pop_front() {
            self.sojourn = now - arrival;
        }
        Some(packet)
    }

    fifo_methods!();
}

#[cfg(test)]
mod tests {
    use super::*;

    fn millis(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    /// Steps of drop_p, computed by hand: 0.125 (delay - 0.015) + 1.25 (delay - old), divided by
    /// the scale.
    #[test]
    fn the_probability_follows_the_delay() {
        let mut control = Control::new(millis(15), millis(15), millis(150));
        let mut expected = 0.0;
        for (delay, step) in [
            // 0.125 * 0.035 + 1.25 * 0.05 at drop_p 0.
            (50, 0.066875 / 2048.0),
            // 0.125 * 0.085 + 1.25 * 0.05, now 3.27e-5.
            (100, 0.073125 / 128.0),
            // 0.125 * 0.185 + 1.25 * 0.1, now 6.0e-4.
            (200, 0.148125 / 32.0),
            // 0.125 * 0.385 + 1.25 * 0.2, now 5.2e-3.
            (400, 0.298125 / 8.0),
            // 0.125 * 0.385, now 0.042.
            (400, 0.048125 / 2.0),
            // 0.125 * 0.985 + 1.25 * 0.6, now 0.067.
            (1000, 0.873125 / 2.0),
            // From 10 % onwards, at most 2 % per step.
            (2000, 0.02),
            // Decreases are not limited: 0.125 * -0.015 + 1.25 * -2.
            (0, -1.0),
        ] {
            control.step(millis(delay));
            expected = f64::clamp(expected + step, 0.0, 1.0);
            assert!((control.drop_p - expected).abs() < 1e-12, "{delay}: {control:?}");
        }
    }

    #[test]
    fn idle_updates_decay_and_then_rest() {
        let mut control = Control::new(millis(15), millis(15), millis(150));
        (control.drop_p, control.allowance) = (0.5, Duration::ZERO);
        control.step(Duration::ZERO);
        assert!((control.drop_p - (0.5 - 0.125 * 0.015) * (1.0 - 1.0 / 64.0)).abs() < 1e-12);
        let mut slow = control.clone();
        let at = |seconds| Instant::ZERO + Duration::from_secs(seconds);
        control.catch_up(at(10_000), Duration::ZERO);
        for seconds in 1..=10_000 {
            slow.catch_up(at(seconds), Duration::ZERO);
        }
        assert!(control.is_at_rest() && slow.is_at_rest());
        assert_eq!(control.next_update, slow.next_update);
    }
}
