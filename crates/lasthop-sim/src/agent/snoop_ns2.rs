//! Snoop as ns-2 has it (`tcp/snoop.cc`, 2.1b8a to 2.35), accidents included.
//!
//! States and purpose are those of `snoop.rs`. What is different:
//!
//! - the counter of duplicates that lets the first one through belongs to *all* connections and is
//!   cleared only when it fires: a stray duplicate of one connection primes the next event of
//!   another, which then sees its first duplicate suppressed;
//! - duplicates to come are counted as the packets cached from `exp_next` on, less the threshold:
//!   one more than there will be, and wrong when packets were lost, not cached, or sent before the
//!   last repair. The count is taken anew even where nothing is sent; at -1 the packet is sent
//!   again, if that has not happened twice, and below that everything is forwarded;
//! - duplicates repair a packet once (but for the count -1): after that its timer must help;
//! - each ACK that frees packets restarts the timer, with the round-trip time *before* the sample
//!   that the ACK brings, and the timer runs for the oldest packet cached even where that is not
//!   the one missing; then it expires without effect, and nothing restarts it before the next event;
//! - the round trip is measured on the newest packet that an ACK frees, whether it was sent once
//!   or more often, and the filter weighs the newest sample by 7/8;
//! - a packet cached before keeps its copy when the sender sends it again;
//! - a packet that is not cached because the interface queue is full counts as never seen: the
//!   sender's retransmission of it looks like a new packet, and is repaired locally;
//! - a full cache skips the timer and all bookkeeping but the newest number;
//! - acknowledgments on data packets and window updates are not told apart from others: the former
//!   are ignored, the latter are duplicates;
//! - an incarnation is told by its first number alone; late packets of the one before count;
//! - one state serves a pair of hosts, not of ports: parallel connections overwrite each other.
//!   That is the driver's doing, who gives them one number; the counter of duplicates, which in
//!   ns-2 is one for the whole simulation, is one for the agent here.
//!
//! *Not modelled*: the explicit-loss bit on acknowledgments of data from the wireless host, which
//! no TCP here reads; `integrate_`; `lru_`.

use super::cache::{Cache, RoundTrip, unwrap};
use super::snoop::{Output, SnoopParameters};
use super::{Segment, SegmentView, Verdict};
use lasthop_base::units::Instant;

#[derive(Clone, Debug)]
pub(super) struct Ns2Connection<P> {
    is_alive: bool,
    has_syn: bool,
    /// The first byte not acknowledged.
    una: i64,
    /// First byte of the newest packet seen, -1 for none.
    last_seen: i64,
    cache: Cache<P>,
    /// Place of the oldest packet cached; places count up with sequence numbers.
    tail: i64,
    /// Duplicates to suppress, and the place from which they are counted.
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

    /// Everything but the estimate of the round trip starts anew.
    fn reset(&mut self) {
        self.cache.entries.clear();
        (self.una, self.last_seen, self.tail) = (0, -1, 0);
        (self.exp_dup, self.exp_next) = (0, 0);
        self.deadline = Instant::NEVER;
    }

    /// Data go to the wireless host; true if they were cached.
    pub fn data(
        &mut self,
        now: Instant,
        set: &SnoopParameters,
        view: &SegmentView,
        packet: &P,
        has_room: bool,
    ) -> bool {
        // The first packet has number 0 in ns-2; here that is the SYN, or byte 1 without one.
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

    /// Was the packet cached, and does the timer start anew?
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
        // What is not appended takes a place from those before it.
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

    /// An acknowledgment comes from the wireless host. `duplicates`: the counter of all
    /// connections.
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
        if again && self.send_again(now, set, out) { out.suppress(wire) } else { Verdict::Forward }
    }

    /// Sends the oldest packet again; false if that has happened too often.
    fn send_again(&mut self, now: Instant, set: &SnoopParameters, out: &mut Output<P>) -> bool {
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
        if seq == self.una && self.send_again(now, set, out) {
            out.timed_out(seq);
            self.exp_next = self.tail + 1;
        }
    }
}
