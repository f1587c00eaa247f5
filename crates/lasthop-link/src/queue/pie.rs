//! PIE (RFC 8033): drops arriving packets with a probability that follows the delay of the queue.
//!
//! ```text
//!   every t_update:
//!     p         := alpha (delay - target) + beta (delay - old delay), scaled down while drop_p is small
//!     drop_p    := drop_p + p, within 0 and 1; times 1 - 1/64 if both delays are 0
//!     allowance := max(0, allowance - t_update)
//!   at each arrival, unless the allowance of a burst is left:
//!     dropped with drop_p, unless the old delay is below target / 2 and drop_p below 20 %, or the queue
//!     holds at most two mean packets
//! ```
//!
//! Source: RFC 8033, sections 4.1 to 4.4 (4.2 has the scales), 5.1 (marks below a drop_p of 10 %), 5.4
//! (derandomization: no drop while the probabilities since the last add up to less than 0.85, one for
//! certain at 8.5) and 5.5 (a step of drop_p is at most 2 % from 10 % on). The delay is that of the packet
//! that left last, by its time stamp, which section 4.3 allows instead of an estimate of the departure
//! rate; 0 where none waits.
//!
//! Two places of the RFC differ: section 4.2 lets drop_p decay where both delays are 0, its pseudocode (appendix) already where both
//! are below target / 2; here it is section 4.2. The RFC writes the factor as 0.98 and calls 1 - 1/64 sufficient; here it is 1 - 1/64.
//!
//! States: the packets that wait and when they came; drop_p, the delays of the last two updates, the
//! allowance. Updates have no timer: those that are due are made up for before the next call, since the
//! queue does not change in between.
//!
//! Not modelled: estimation of the departure rate; turning PIE off where the queue is empty.

use super::family::{DisciplineKeys, QueueSite};
use super::{DisciplineCounters, Fifo, QueueDiscipline, Transmitter};
use lasthop_base::packet::Payload;
use lasthop_base::rng::Stream;
use lasthop_base::schema::keys::{Limits, table};
use lasthop_base::schema::quantity::QueueLimit;
use lasthop_base::units::{Duration, Instant};
use std::collections::VecDeque;

table! {
    /// PIE (RFC 8033): a packet that arrives is dropped, or marked, with a probability that follows how
    /// far the delay of the queue is from its target, and how fast it changes.
    pub struct PieKeys as "pie" {
        /// What the queue holds, the packet in transmission included; a size counts packets with the
        /// frame header.
        limit: QueueLimit = "1000 packets";
        /// Delay of the queue that is wanted.
        target: Duration = "15 ms", Limits::POSITIVE;
        /// Time between updates of the probability.
        update: Duration = "15 ms", Limits::POSITIVE;
        /// How long a burst that finds an idle link may last before packets are dropped.
        burst: Duration = "150 ms";
        /// Whether packets of a transport that knows ECN are marked instead of dropped, as long as the
        /// probability is below 10 %.
        ecn: bool = "true";
    }
}

/// The machine.
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

/// Gains per second of delay (RFC 8033, section 4.2).
const ALPHA: f64 = 0.125;
const BETA: f64 = 1.25;
/// Above this probability packets are dropped even if they could be marked (section 5.1).
const MOST_MARKED: f64 = 0.1;

/// The probability, and what it follows.
#[derive(Clone, Debug)]
pub struct Control {
    target: Duration,
    update: Duration,
    burst: Duration,
    drop_p: f64,
    old_delay: Duration,
    /// What is left of the allowance of a burst.
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

    /// Nothing would change in an update of an empty queue.
    fn is_at_rest(&self) -> bool {
        self.drop_p == 0.0 && self.old_delay == Duration::ZERO && self.allowance == self.burst
    }

    /// Makes up for the updates until `now`, at which the delay was `delay`.
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
        let is_calm = |time: Duration| 2 * time.as_nanos() < self.target.as_nanos();
        let left = self.allowance.as_nanos().saturating_sub(self.update.as_nanos());
        self.allowance = Duration::from_nanos(left);
        if self.drop_p == 0.0 && is_calm(delay) && is_calm(self.old_delay) {
            self.allowance = self.burst;
        }
        self.old_delay = delay;
    }
}

/// A queue before which PIE stands.
#[derive(Clone, Debug)]
pub struct Pie<P> {
    fifo: Fifo<P>,
    /// When each packet came.
    arrivals: VecDeque<Instant>,
    /// How long the packet that left last had been here.
    sojourn: Duration,
    control: Control,
    /// So many bytes are never too long a queue.
    two_packets: u64,
    marks_ect: bool,
    /// Probabilities since the last drop.
    accumulated: f64,
    stream: Stream,
    counters: DisciplineCounters,
}

impl<P: Payload> Pie<P> {
    /// Makes up for the updates until `now`: the queue has been as it is since the last call.
    fn catch_up(&mut self, now: Instant) {
        let delay = if self.fifo.is_empty() { Duration::ZERO } else { self.sojourn };
        self.control.catch_up(now, delay);
    }

    fn is_hit(&mut self) -> bool {
        let Control { drop_p, old_delay, target, allowance, .. } = self.control;
        let is_calm = 2 * old_delay.as_nanos() < target.as_nanos() && drop_p < 0.2;
        if allowance > Duration::ZERO || is_calm || self.fifo.bytes() <= self.two_packets {
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

    fn len(&self) -> usize {
        self.fifo.len()
    }

    fn has_room(&self, now: Instant, bytes: u32, count: u64, transmitter: &Transmitter) -> bool {
        self.fifo.has_room(now, bytes, count, transmitter)
    }

    fn counters(&self) -> DisciplineCounters {
        self.counters
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn millis(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    /// Steps of drop_p by hand: 0.125 (delay - 0.015) + 1.25 (delay - old), divided by the scale.
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
            // From 10 % on at most 2 %.
            (2000, 0.02),
            // Down without a bound: 0.125 * -0.015 + 1.25 * -2.
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
