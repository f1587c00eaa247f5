//! Snoop as implemented in ns-2 (`tcp/snoop.cc`, 2.1b8a to 2.35), including its defects.
//!
//! States and purpose are those of `snoop.rs`. Differences:
//!
//! - All connections share the counter of duplicates below the threshold. It is reset only when it reaches
//!   the threshold: a stray duplicate of one connection affects the next loss event of
//!   another, whose first duplicate is then suppressed.
//! - The number of expected duplicates is the number of cached packets from `exp_next`, minus the threshold.
//!   It is one too high, and wrong if packets were lost, not cached, or sent before the last repair. It is
//!   recomputed even if no packet is sent. At -1 the packet is retransmitted, at most twice; below -1 every
//!   duplicate is forwarded.
//! - Duplicates repair a packet once (except for the count -1); further repairs depend on the timer.
//! - Each ACK that frees packets restarts the timer, with the RTT *before* the sample of this ACK. The timer
//!   applies to the oldest cached packet even if another packet is missing; it then expires without effect
//!   and is not restarted before the next event.
//! - The RTT sample is that of the newest packet that an ACK frees, even if it was retransmitted, and the
//!   filter gives the newest sample a weight of 7/8.
//! - A cached packet keeps its copy if the sender retransmits it.
//! - A packet that is not cached because the interface queue is full counts as not received: a
//!   retransmission by the sender is treated as a new packet and repaired locally.
//! - A full cache skips the timer and all state updates except the newest number.
//! - ACKs on data packets and window updates are not distinguished: the former are ignored, the latter count
//!   as duplicates.
//! - A connection instance is identified by its first number only; late packets of the previous one count.
//! - One state serves a pair of hosts instead of ports: parallel connections overwrite each other. The driver
//!   assigns one number to them. The counter of duplicates, which is global in ns-2, is a counter of
//!   the agent here.
//!
//! Limitations: the explicit-loss bit on ACKs of data from the wireless host, which no TCP here reads,
//! `integrate_` and `lru_` are not modelled.

use super::cache::{Cache, RoundTrip, unwrap};
use super::snoop::{Output, SnoopParameters};
use super::{Segment, SegmentView, Verdict};
use lasthop_base::units::Instant;

#[derive(Clone, Debug)]
pub(super) struct Ns2Connection<P> {
    is_alive: bool,
    has_syn: bool,
    /// First unacknowledged byte.
    una: i64,
    /// First byte of the newest packet received, -1 for none.
    last_seen: i64,
    cache: Cache<P>,
    /// Place of the oldest cached packet; places increase with sequence numbers.
    tail: i64,
    /// Number of duplicates to suppress, and the place from which they are counted.
    exp_dup: i64,
    exp_next: i64,
    round_trip: RoundTrip,
    pub deadline: Instant,
}

impl<P: Segment + Clone> Ns2Connection<P> {
    pub fn new(set: &SnoopParameters) -> Self {
        Ns2Connection {
            is_alive: false,
            has_syn: false,
            una: 0,
            last_seen: -1,
            cache: Cache::new(),
            tail: 0,
            exp_dup: 0,
            exp_next: 0,
            round_trip: set.round_trip(),
            deadline: Instant::NEVER,
        }
    }

    pub fn cached(&self) -> usize {
        self.cache.entries.len()
    }

    /// Resets all state except the RTT estimate.
    fn reset(&mut self) {
        self.cache.entries.clear();
        (self.una, self.last_seen, self.tail) = (0, -1, 0);
        (self.exp_dup, self.exp_next) = (0, 0);
        self.deadline = Instant::NEVER;
    }

    /// Processes data to the wireless host; returns `true` if it was cached.
    pub fn data(
        &mut self,
        now: Instant,
        set: &SnoopParameters,
        view: &SegmentView,
        packet: &P,
        has_room: bool,
    ) -> bool {
        // The first packet has number 0 in ns-2; here, number 0 is the SYN, or byte 1 without a
        // SYN.
        self.has_syn |= view.syn;
        let opens = view.syn || view.seq == 1 && !self.has_syn;
        if opens && self.is_alive {
            self.reset();
        }
        if opens {
            self.una = view.seq.into();
        }
        self.is_alive = true;
        let seq = unwrap(self.una, view.seq);
        if self.cache.entries.len() >= set.cache {
            self.last_seen = self.last_seen.max(seq);
            return false;
        }
        let (is_cached, restarts) =
            if has_room { self.insert(now, seq, view, packet) } else { (false, false) };
        if restarts {
            self.deadline = Instant::NEVER;
        }
        if self.deadline == Instant::NEVER && !self.cache.entries.is_empty() {
            self.deadline = now + self.round_trip.timeout();
        }
        is_cached
    }

    /// Inserts a packet; returns whether it was cached and whether the timer is restarted.
    fn insert(&mut self, now: Instant, seq: i64, view: &SegmentView, packet: &P) -> (bool, bool) {
        if seq + i64::from(view.length) <= self.una {
            return (false, false);
        }
        let count = self.cache.entries.len();
        let place = if seq > self.last_seen { count } else { self.cache.place(seq) };
        if let Some(known) = self.cache.entries.get_mut(place).filter(|known| known.seq == seq) {
            (known.retransmissions, known.by_sender, known.sent) = (0, true, now);
            return (true, true);
        }
        self.cache.insert(place, now, seq, view, packet.clone());
        // A packet inserted before others takes a place below them.
        self.tail -= i64::from(place < count);
        if seq >= self.last_seen {
            self.last_seen = seq;
            return (true, false);
        }
        if place == 0 {
            self.cache.entries[0].by_sender = true;
        }
        self.exp_next = self.tail;
        (true, true)
    }

    /// Processes an ACK from the wireless host. `duplicates`: the counter of all connections.
    pub fn ack(
        &mut self,
        now: Instant,
        set: &SnoopParameters,
        ack: u32,
        duplicates: &mut u32,
        out: &mut Output<P>,
    ) -> Verdict {
        let wire = ack;
        let ack = unwrap(self.una, wire);
        if ack < self.una {
            return Verdict::Forward;
        }
        if ack > self.una {
            self.new_ack(now, ack);
            return Verdict::Forward;
        }
        let Some(tail) = self.cache.tail() else { return Verdict::Forward };
        if tail.seq > ack {
            return Verdict::Forward;
        }
        let retransmissions = tail.retransmissions;
        let again = match self.exp_dup {
            0 => {
                let threshold = set.dupack_threshold.max(1);
                *duplicates += 1;
                if *duplicates < threshold {
                    return Verdict::Forward;
                }
                *duplicates = 0;
                if tail.by_sender {
                    return Verdict::Forward;
                }
                let head = self.tail + self.cache.entries.len() as i64;
                let cached = (head - self.exp_next).rem_euclid(set.cache as i64);
                self.exp_dup = cached - i64::from(threshold);
                self.exp_next = self.tail + 1;
                retransmissions == 0
            }
            1.. => {
                self.exp_dup -= 1;
                return out.suppress(wire);
            }
            -1 => retransmissions < 2,
            _ => false,
        };
        if again && self.retransmit(now, set, out) { out.suppress(wire) } else { Verdict::Forward }
    }

    /// Retransmits the oldest packet; returns `false` if it was retransmitted too often.
    fn retransmit(&mut self, now: Instant, set: &SnoopParameters, out: &mut Output<P>) -> bool {
        let Some(tail) = self.cache.entries.front_mut() else { return false };
        if tail.retransmissions >= set.max_retransmissions {
            return false;
        }
        out.retransmit(now, tail);
        self.deadline = now + self.round_trip.timeout();
        true
    }

    fn new_ack(&mut self, now: Instant, ack: i64) {
        self.deadline = Instant::NEVER;
        let mut sent = None;
        while let Some(entry) = self.cache.pop_acked(ack) {
            self.tail += 1;
            sent = Some(entry.sent);
        }
        if !self.cache.entries.is_empty() {
            self.deadline = now + self.round_trip.timeout();
        }
        if let Some(sent) = sent {
            self.round_trip.measure_ns2(now.saturating_since(sent));
        }
        (self.exp_dup, self.exp_next) = (0, self.tail);
        self.una = ack;
    }

    pub fn handle_timeout(&mut self, now: Instant, set: &SnoopParameters, out: &mut Output<P>) {
        self.deadline = Instant::NEVER;
        let Some(tail) = self.cache.tail() else { return };
        let seq = tail.seq;
        if seq == self.una && self.retransmit(now, set, out) {
            out.timed_out(seq);
            self.exp_next = self.tail + 1;
        }
    }
}
