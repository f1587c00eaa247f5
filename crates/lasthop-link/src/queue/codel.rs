//! CoDel (RFC 8289): drops packets at the head of a queue while their sojourn time stays above a
//! target.
//!
//! ```text
//!                   sojourn >= target for an interval
//!     +-----------+ --------------------------------> +----------+
//!     | not       |   drop; next drop after           | dropping |--+ drop at drop_next; then
//!     | dropping  |   interval / sqrt(count)          |          |<-+ drop_next += interval / sqrt(count)
//!     +-----------+ <-------------------------------- +----------+
//!               sojourn < target, or at most one packet remains
//! ```
//!
//! Source: RFC 8289, section 5 (pseudocode). `count` continues from the last dropping state if that
//! state ended less than 16 intervals ago (section 5.5). A packet whose transport supports ECN is
//! marked and sent instead of being dropped. Section 3.1 leaves this open; Linux does the same.
//!
//! State: the queued packets and their arrival times; the dropping state.
//!
//! Not modelled: marking at a threshold (`ce_threshold` of Linux).

use super::family::{DisciplineKeys, QueueSite, fifo_methods};
use super::{DisciplineCounters, Fifo, QueueDiscipline, Transmitter};
use lasthop_base::packet::Payload;
use lasthop_base::schema::keys::{Limits, table};
use lasthop_base::schema::quantity::QueueLimit;
use lasthop_base::units::{Duration, Instant};
use std::collections::VecDeque;

table! {
    /// CoDel (RFC 8289): drops or marks packets at the head once their sojourn time has stayed
    /// above a target for an interval. Drops become more and more frequent until the sojourn time
    /// falls below the target.
    pub struct CodelKeys as "codel" {
        /// Maximum queue length, including the packet in transmission. A limit in bytes counts
        /// packets with their frame headers.
        limit: QueueLimit = "1000 packets";
        /// Target sojourn time of packets in the queue.
        target: Duration = "5 ms", Limits::POSITIVE;
        /// Time for which the sojourn time may exceed the target: about the round-trip time of the
        /// flows.
        interval: Duration = "100 ms", Limits::POSITIVE;
        /// Whether packets of transports that support ECN are marked instead of dropped.
        ecn: bool = "true";
    }
}

/// The state machine.
pub type Machine<P> = Box<Codel<P>>;

impl DisciplineKeys for CodelKeys {
    type Machine<P: Payload> = Machine<P>;

    fn build<P: Payload>(&self, site: &QueueSite<'_>) -> Machine<P> {
        let fifo = Fifo::new(self.limit.into(), site.header);
        let most_left = site.packet.get() + site.header.get();
        let control = Control::new(self.target, self.interval, most_left);
        Box::new(Codel::new(fifo, control, self.ecn))
    }
}

/// The CoDel state, which decides when the packet at the head is dropped.
#[derive(Clone, Debug)]
pub struct Control {
    target: Duration,
    interval: Duration,
    /// Queue length in bytes up to which no packets are dropped: one packet of maximum length.
    most_left: u64,
    /// Time at which the sojourn time will have exceeded the target for an interval. `None` while
    /// it is below the target.
    first_above: Option<Instant>,
    is_dropping: bool,
    drop_next: Instant,
    /// Drops in this dropping state, and their initial value in this state.
    count: u64,
    last_count: u64,
}

impl Control {
    /// Creates the initial state, which is not dropping.
    pub fn new(target: Duration, interval: Duration, most_left: u64) -> Self {
        Control {
            target,
            interval,
            most_left,
            first_above: None,
            is_dropping: false,
            drop_next: Instant::ZERO,
            count: 0,
            last_count: 0,
        }
    }

    /// Returns `true` if the packet at the head may be dropped: `dodequeue` of the RFC. Its sojourn
    /// time is `sojourn`; `left` bytes are queued behind it.
    fn may_drop(&mut self, now: Instant, sojourn: Duration, left: u64) -> bool {
        if sojourn < self.target || left <= self.most_left {
            self.first_above = None;
            return false;
        }
        let first_above = *self.first_above.get_or_insert(now + self.interval);
        now >= first_above
    }

    fn law(&self, from: Instant) -> Instant {
        let step = self.interval.as_nanos() as f64 / (self.count as f64).sqrt();
        from + Duration::from_nanos(step as u64)
    }

    /// Enters the dropping state with its first drop.
    fn begin(&mut self, now: Instant) {
        let drops = self.count - self.last_count;
        let is_recent = now.saturating_since(self.drop_next) < self.interval * 16;
        self.count = if drops > 1 && is_recent { drops } else { 1 };
        self.is_dropping = true;
        self.drop_next = self.law(now);
        self.last_count = self.count;
    }
}

/// A queue that drops packets at its head.
///
/// ```
/// use lasthop_base::packet::Packet;
/// use lasthop_base::units::{Bytes, Duration, Instant, Rate};
/// use lasthop_link::queue::codel::Control;
/// use lasthop_link::queue::{Codel, Fifo, Limit, QueueDiscipline, Transmitter};
///
/// // Packets wait for more than 5 ms: after 100 ms the first one is dropped.
/// let [target, interval] = [5, 100].map(Duration::from_millis);
/// let fifo = Fifo::new(Limit::Packets(1_000), Bytes::new(0));
/// let mut queue = Box::new(Codel::new(fifo, Control::new(target, interval, 1_000), false));
/// let transmitter = Transmitter::new(Rate::from_bps(800_000));
/// for _ in 0..100 {
///     queue.enqueue(Instant::ZERO, Packet { bytes: 1_000, ..Packet::default() }, &transmitter);
/// }
/// let mut drops_at = |time| {
///     queue.dequeue(Instant::ZERO + Duration::from_millis(time));
///     queue.counters().early_drops
/// };
/// assert_eq!([10, 100, 120].map(&mut drops_at), [0, 0, 1]);
/// ```
#[derive(Clone, Debug)]
pub struct Codel<P> {
    fifo: Fifo<P>,
    /// Arrival time of each packet.
    arrivals: VecDeque<Instant>,
    control: Control,
    marks_ect: bool,
    /// Packets dropped by the last call.
    dropped: Vec<P>,
    counters: DisciplineCounters,
}

impl<P: Payload> Codel<P> {
    /// Creates an empty queue controlled by `control`. `marks_ect`: whether packets of transports
    /// that support ECN are marked instead of dropped.
    pub fn new(fifo: Fifo<P>, control: Control, marks_ect: bool) -> Self {
        Codel {
            fifo,
            arrivals: VecDeque::with_capacity(64),
            control,
            marks_ect,
            dropped: Vec::with_capacity(16),
            counters: DisciplineCounters::default(),
        }
    }

    /// Total length of the queued packets in bytes, link headers included.
    pub(super) fn bytes(&self) -> u64 {
        self.fifo.bytes()
    }

    /// Removes the packet at the head, regardless of its sojourn time.
    pub(super) fn pop(&mut self) -> Option<P> {
        self.arrivals.pop_front();
        self.fifo.pop()
    }

    /// Packets dropped by the last call, to be moved out by the caller.
    pub(super) fn dropped_mut(&mut self) -> &mut Vec<P> {
        &mut self.dropped
    }

    /// Removes the packet at the head. Returns it, and whether it may be dropped.
    fn take(&mut self, now: Instant) -> Option<(P, bool)> {
        let (Some(packet), Some(arrival)) = (self.fifo.pop(), self.arrivals.pop_front()) else {
            self.control.first_above = None;
            return None;
        };
        let may_drop = self.control.may_drop(now, now - arrival, self.fifo.bytes());
        Some((packet, may_drop))
    }

    fn mark(&mut self, packet: &mut P) -> bool {
        let is_marked = self.marks_ect && packet.mark_congestion();
        self.counters.marks += u64::from(is_marked);
        is_marked
    }

    fn discard(&mut self, packet: P) {
        self.counters.early_drops += 1;
        self.dropped.push(packet);
    }
}

impl<P: Payload> QueueDiscipline<P> for Box<Codel<P>> {
    fn enqueue(&mut self, now: Instant, packet: P, transmitter: &Transmitter) -> bool {
        self.dropped.clear();
        let has_room = self.fifo.has_room(now, packet.wire_bytes(), 1, transmitter);
        if has_room {
            self.fifo.push(packet);
            self.arrivals.push_back(now);
        } else {
            self.counters.tail_drops += 1;
        }
        has_room
    }

    fn dequeue(&mut self, now: Instant) -> Option<P> {
        self.dropped.clear();
        let (mut packet, may_drop) = self.take(now)?;
        if !self.control.is_dropping {
            if may_drop {
                if !self.mark(&mut packet) {
                    self.discard(packet);
                    (packet, _) = self.take(now)?;
                }
                self.control.begin(now);
            }
            return Some(packet);
        }
        self.control.is_dropping = may_drop;
        while self.control.is_dropping && now >= self.control.drop_next {
            self.control.count += 1;
            if self.mark(&mut packet) {
                self.control.drop_next = self.control.law(self.control.drop_next);
                break;
            }
            self.discard(packet);
            let may_drop;
            // `take` does not fail: a packet may only be dropped if others are queued behind it.
            (packet, may_drop) = self.take(now)?;
            self.control.is_dropping = may_drop;
            if may_drop {
                self.control.drop_next = self.control.law(self.control.drop_next);
            }
        }
        Some(packet)
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
    use lasthop_base::packet::{Ecn, Packet};
    use lasthop_base::units::{Bytes, Rate};

    fn millis(millis: u64) -> Instant {
        Instant::ZERO + Duration::from_millis(millis)
    }

    /// 400 packets of 1000 B arrive at time 0, and one is dequeued every 10 ms. Returns the times
    /// at which packets are dropped or marked.
    fn hits(ecn: Ecn) -> (Vec<u64>, DisciplineCounters) {
        let fifo = Fifo::new(Limit::Packets(1000), Bytes::default());
        let [target, interval] = [5, 100].map(Duration::from_millis);
        let mut queue = Box::new(Codel::new(fifo, Control::new(target, interval, 1000), true));
        let transmitter = Transmitter::new(Rate::from_bps(800_000));
        for _ in 0..400 {
            let mut packet = Packet { bytes: 1000, ..Packet::default() };
            packet.tcp.ecn = ecn;
            assert!(queue.enqueue(Instant::ZERO, packet, &transmitter));
        }
        let mut hits = Vec::new();
        for time in (0..800).step_by(10) {
            let packet = queue.dequeue(millis(time)).expect("a packet");
            let marks = u64::from(packet.tcp.ecn == Ecn::Ce);
            hits.extend(vec![time; queue.dropped().len() + marks as usize]);
        }
        (hits, queue.counters())
    }

    /// Computed by hand from the pseudocode. The first packet that has stayed for 5 ms is dequeued
    /// at 10 ms. Drops therefore begin at 110 ms and follow at 210, 210 + 100/sqrt 2 = 280.7, +
    /// 100/sqrt 3 = 338.4, 388.4, 433.2, 474.0, 511.8, 547.1, 580.5, 612.1, 642.2, 671.1, 698.8,
    /// 725.6, 751.4, 776.4 ms, each at the next dequeue.
    #[test]
    fn drops_come_by_the_square_root_law() {
        let expected =
            [110, 210, 290, 340, 390, 440, 480, 520, 550, 590, 620, 650, 680, 700, 730, 760, 780];
        for (ecn, marks) in [(Ecn::NotEct, 0), (Ecn::Ect0, 17)] {
            let (hits, counters) = hits(ecn);
            assert_eq!(hits, expected);
            assert_eq!((counters.early_drops, counters.marks), (17 - marks, marks));
        }
    }

    #[test]
    fn a_short_queue_ends_dropping_and_the_next_begins_where_it_was() {
        let [target, interval] = [5, 100].map(Duration::from_millis);
        let mut control = Control::new(target, interval, 1000);
        control.begin(millis(110));
        control.count = 9;
        control.is_dropping = false;
        // Eight drops since the beginning of the state. 1600 ms after `drop_next` they no longer
        // count.
        let mut late = control.clone();
        control.begin(millis(1700));
        assert_eq!(
            (control.count, control.drop_next),
            (8, millis(1700) + Duration::from_nanos(35_355_339))
        );
        late.begin(millis(1900));
        assert_eq!((late.count, late.drop_next), (1, millis(2000)));
        // Neither a sojourn time below the target nor a last packet leads to a drop.
        assert!(!control.may_drop(millis(2000), Duration::from_millis(4), 9000));
        assert!(!control.may_drop(millis(2000), Duration::from_millis(50), 1000));
        assert!(!control.may_drop(millis(2000), Duration::from_millis(5), 9000));
        assert!(!control.may_drop(millis(2099), Duration::from_millis(5), 9000));
        assert!(control.may_drop(millis(2100), Duration::from_millis(5), 9000));
    }
}
