//! The departures of the newest packets of a computed FIFO, and its transmitter.
//!
//! Packets of equal size that left back to back are one *run*, one entry however long it is. With a
//! limit of `L` packets an arrival has room if the packet admitted `L` places earlier has departed. Most
//! arrivals need not ask the runs: `n` packets in the queue have at least `n - 1` whole transmissions
//! before them. If none of these is shorter than some length, and `L - 1` frames of that length take longer
//! than it takes until the transmitter falls free, there are fewer than `L` packets.

use super::super::{Limit, QueueCounters, Ring, Transmitter};
use crate::channel::Airtime;
use lasthop_base::units::{Duration, ExactTime, Instant};

/// Exact times multiply the bits of a run by 1e9, which must fit 64 bits.
pub(super) const LONGEST_RUN_BITS: u64 = 10_000_000_000;

/// Packets that make no run of that many bits, whatever their length.
const SHORT_RUN: u64 = 1 << 13;

/// Packets of one size that depart back to back.
#[derive(Clone, Copy, Debug, Default)]
struct Run {
    first: ExactTime,
    bits: u64,
    count: u64,
    /// Does the channel destroy it? Then it is a run of one.
    is_lost: bool,
}

/// Transmitter and departures.
#[derive(Clone, Debug)]
pub(super) struct Backlog {
    pub transmitter: Transmitter,
    pub limit: Limit,
    /// The newest departures: at least as many packets as the limit, or all since an idle moment.
    /// The newest run of all is `tail`, which always has a packet.
    older: Ring<Run>,
    tail: Run,
    /// In all runs.
    packets: u64,
    /// How long `limit - 1` frames of a usual length take, rounded down, and the same while no frame
    /// since an idle moment has been shorter, else 0.
    usual_bits: u64,
    usual_span: Duration,
    span: Duration,
    /// Nothing but packets that are offered, a limit in packets, a rate and a delay that never change. Then, while
    /// `packets` is 1, that packet is the one that the transmitter sent last, and the runs say nothing
    /// of it but whether it is lost.
    is_plain: bool,
}

impl Backlog {
    pub fn new(transmitter: Transmitter, limit: Limit) -> Self {
        let is_plain = matches!(limit, Limit::Packets(_)) && transmitter.is_steady();
        Backlog {
            transmitter,
            limit,
            older: Ring::with_capacity(4),
            tail: Run { count: 1, ..Run::default() },
            packets: 1,
            usual_bits: 0,
            usual_span: Duration::ZERO,
            span: Duration::ZERO,
            is_plain,
        }
    }

    /// Does nothing but packets that are offered come here, to a limit in packets and a steady rate?
    #[inline]
    pub fn is_plain(&self) -> bool {
        self.is_plain
    }

    /// Replayed traffic comes too, before any packet; its frames have `bits`.
    pub fn share(&mut self, bits: u64) {
        if self.is_plain || bits < self.usual_bits {
            self.measure_span(bits);
        }
        self.write_everything();
    }

    /// The runs tell of every packet.
    pub fn write_everything(&mut self) {
        self.is_plain = false;
    }

    /// A frame of `bits` is the only one that counts.
    #[inline(always)]
    fn begin_span(&mut self, bits: u64) {
        if self.is_plain && bits >= 2 * self.usual_bits {
            self.measure_span(bits);
        }
        self.span = if bits >= self.usual_bits { self.usual_span } else { Duration::ZERO };
    }

    #[cold]
    fn measure_span(&mut self, bits: u64) {
        self.usual_bits = bits;
        if let Limit::Packets(limit) = self.limit
            && self.transmitter.is_steady()
        {
            // Fewer than there may be are on the safe side.
            let count = (limit - 1).min(LONGEST_RUN_BITS / bits.max(1));
            let span = ExactTime::default().after(bits * count, self.transmitter.rate());
            self.usual_span = Duration::from_nanos(span.nanos);
        }
    }

    /// Is it certain that an arrival at `now`, which finds the transmitter busy, has room?
    #[inline(always)]
    pub fn surely_has_room(&self, now: Instant) -> bool {
        self.transmitter.free_at().instant() < now + self.span
    }

    /// A packet arrives at `now` whose frame has `bits`: sends it, if there is room.
    #[inline(always)]
    pub fn admit(&mut self, now: Instant, bits: u64) -> Option<Airtime> {
        if self.transmitter.is_busy(now) {
            if !self.surely_has_room(now) && !self.has_room(now, bits) {
                return None;
            }
            let airtime = self.transmitter.send(now, bits);
            self.join(self.transmitter.free_at(), bits, 1);
            Some(airtime)
        } else {
            let airtime = self.transmitter.send(now, bits);
            self.begin(bits);
            Some(airtime)
        }
    }

    /// Another packet of the same length arrives at a plain FIFO. Sends it, if the transmitter is idle or the
    /// packet joins the one run that there is and surely has room.
    #[inline(always)]
    pub fn repeat(&mut self, now: Instant) -> Option<Airtime> {
        let free_at = self.transmitter.free_at();
        let start = if free_at.instant() <= now {
            self.packets = 1;
            self.tail.is_lost = false;
            // What has just left may hand its fraction on.
            let is_behind = free_at.instant() == now;
            ExactTime {
                nanos: now.as_nanos(),
                fraction: if is_behind { free_at.fraction } else { 0 },
            }
        } else {
            // The tail ends with the packet that was sent last.
            let joins = self.surely_has_room(now)
                && self.packets > 1
                && self.older.is_empty()
                && self.tail.count < SHORT_RUN
                && !self.tail.is_lost;
            if !joins {
                return None;
            }
            self.packets += 1;
            self.tail.count += 1;
            free_at
        };
        Some(self.transmitter.repeat_from(start))
    }

    /// The same of any that finds the transmitter busy, if there is room.
    #[inline(always)]
    pub fn repeat_behind(&mut self, now: Instant) -> Option<Airtime> {
        if self.packets == 1 {
            self.write_down_last();
        }
        let bits = self.transmitter.last_bits();
        if !self.surely_has_room(now) && !self.has_room(now, bits) {
            return None;
        }
        let airtime = self.transmitter.repeat_behind();
        self.append(self.transmitter.free_at(), bits, 1);
        Some(airtime)
    }

    /// Makes a run of the one packet that counts, of a plain FIFO.
    #[inline(always)]
    pub fn write_down(&mut self) {
        if self.packets == 1 && self.is_plain {
            self.write_down_last();
        }
    }

    #[inline(always)]
    fn write_down_last(&mut self) {
        self.older.clear();
        self.tail.first = self.transmitter.free_at();
        self.tail.bits = self.transmitter.last_bits();
        self.tail.count = 1;
        self.begin_span(self.tail.bits);
    }

    /// An idle transmitter has taken a packet: what was before it counts no more.
    #[inline]
    pub fn begin(&mut self, bits: u64) {
        self.older.clear();
        self.tail = Run { first: self.transmitter.free_at(), bits, count: 1, is_lost: false };
        self.packets = 1;
        self.begin_span(bits);
    }

    /// What the runs say about room for a packet of `bits` at `now`.
    #[inline(never)]
    fn has_room(&mut self, now: Instant, bits: u64) -> bool {
        match self.limit {
            Limit::Packets(limit) => self.packets < limit || self.has_departed(now, limit),
            Limit::Bytes(limit) => {
                self.forget_departed(now);
                self.held_bits(now) + bits <= limit.bits()
            }
        }
    }

    /// Has the packet that was admitted `limit` places before the next one departed?
    fn has_departed(&self, now: Instant, limit: u64) -> bool {
        let (run, index) = self.place(limit);
        self.departure_in(&run, index) <= now
    }

    /// Where the packet stands that was admitted `limit` places before the next one, of at least as many.
    #[inline]
    fn place(&self, limit: u64) -> (Run, u64) {
        let front = *self.older.front().unwrap_or(&self.tail);
        let index = self.packets - limit;
        debug_assert!(index < front.count, "older runs are forgotten");
        (front, index)
    }

    /// How many packets of `bits`, at most `most`, are surely admitted one after the other from `first` on, if the
    /// transmitter stays busy and they arrive at longer intervals than they take.
    #[inline]
    pub fn ready(&self, first: Instant, bits: u64, most: u64) -> u64 {
        let Limit::Packets(limit) = self.limit else { return 0 };
        if self.surely_has_room(first) {
            return most;
        }
        if self.packets < limit {
            return most.min(limit - self.packets);
        }
        let (front, index) = self.place(limit);
        if front.bits != bits || self.departure_in(&front, index) >= first {
            0
        } else if self.older.is_empty() {
            // A single run grows while it is used.
            most
        } else {
            most.min(front.count - index)
        }
    }

    /// A byte limit counts what is held, so that packets that departed can be forgotten; else a
    /// queue that is never idle would remember all of its past.
    fn forget_departed(&mut self, now: Instant) {
        while let Some(front) = self.older.front()
            && self.departure_in(front, front.count - 1) <= now
        {
            self.packets -= front.count;
            self.older.drop_front();
        }
    }

    #[inline]
    fn departure_in(&self, run: &Run, index: u64) -> Instant {
        if index == 0 {
            run.first.instant()
        } else {
            run.first.after(run.bits * index, self.transmitter.rate()).instant()
        }
    }

    /// How many packets of a run have departed; found by bisection.
    fn departed(&self, run: &Run, now: Instant) -> u64 {
        let (mut low, mut high) = (0, run.count);
        while low < high {
            let middle = low + (high - low) / 2;
            if self.departure_in(run, middle) <= now { low = middle + 1 } else { high = middle }
        }
        low
    }

    /// The channel destroys the packet that was admitted last.
    #[cold]
    pub fn mark_lost(&mut self) {
        self.write_down();
        if self.tail.count > 1 {
            self.tail.count -= 1;
            self.older.push(self.tail);
            self.tail.first = self.transmitter.free_at();
            self.tail.count = 1;
            self.forget();
        }
        self.tail.is_lost = true;
    }

    /// `count` packets join behind the others, back to back; the first departs at `first`.
    #[inline(always)]
    pub fn join(&mut self, first: ExactTime, bits: u64, count: u64) {
        if bits < self.usual_bits {
            self.span = Duration::ZERO;
        }
        self.append(first, bits, count);
    }

    /// The same of packets no shorter than those that the span is told of.
    #[inline(always)]
    fn append(&mut self, first: ExactTime, bits: u64, count: u64) {
        self.packets += count;
        let tail = &mut self.tail;
        let is_long = (tail.count + count) * bits >= LONGEST_RUN_BITS;
        // Where the rate changes, a run of several would not depart in equal steps.
        let is_alike = tail.bits == bits && !tail.is_lost && self.transmitter.is_steady();
        if is_alike && !is_long {
            tail.count += count;
        } else {
            self.begin_run(Run { first, bits, count, is_lost: false });
        }
        if !self.older.is_empty() {
            self.forget();
        }
    }

    #[inline(never)]
    fn begin_run(&mut self, run: Run) {
        self.older.push(self.tail);
        self.tail = run;
    }

    /// Drops runs that no admission test can ask for.
    #[inline(never)]
    fn forget(&mut self) {
        if let Limit::Packets(limit) = self.limit {
            while let Some(front) = self.older.front()
                && self.packets - front.count >= limit
            {
                self.packets -= front.count;
                self.older.drop_front();
            }
        }
    }

    fn runs(&self) -> impl Iterator<Item = Run> {
        let is_written = !self.is_plain || self.packets > 1;
        let older = self.older.iter().copied().filter(move |_| is_written);
        let (first, bits) = (self.transmitter.free_at(), self.transmitter.last_bits());
        let last = Run { first, bits, count: 1, is_lost: self.tail.is_lost };
        older.chain([if is_written { self.tail } else { last }])
    }

    /// Packets ahead of an arrival at `now`, the one in transmission included.
    pub fn length(&self, now: Instant) -> u64 {
        self.runs().map(|run| run.count - self.departed(&run, now)).sum()
    }

    /// Bits of the packets that have not departed.
    pub fn held_bits(&self, now: Instant) -> u64 {
        self.runs().map(|run| (run.count - self.departed(&run, now)) * run.bits).sum()
    }

    /// The frames that start after `now`: all but the first of those that have not departed.
    pub fn unstarted(&self, now: Instant) -> QueueCounters {
        let unstarted = self.length(now).saturating_sub(1);
        let mut older = self.packets.saturating_sub(unstarted);
        let mut counters = QueueCounters::default();
        for run in self.runs() {
            let count = run.count.saturating_sub(older);
            older = older.saturating_sub(run.count);
            counters.frames_sent += count;
            counters.bits_sent += count * run.bits;
            counters.frames_lost += u64::from(run.is_lost && count > 0);
        }
        counters
    }
}
