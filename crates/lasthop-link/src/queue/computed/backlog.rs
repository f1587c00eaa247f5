//! The newest departures of a computed FIFO, and its transmitter.
//!
//! Packets of equal length that are sent back to back form one *run*, stored as one entry
//! regardless of its length. With a limit of `L` packets, an arrival has room if the packet
//! admitted `L` places earlier has departed. Most arrivals do not need to inspect the runs. If `n`
//! packets are in the queue, at least `n - 1` whole transmissions precede the arrival's
//! transmission. Suppose that all queued frames have at least a certain length, and that `L - 1`
//! frames of that length take longer than the remaining busy time of the transmitter. Then there
//! are fewer than `L` packets.

use super::super::{Limit, QueueCounters, Ring, Transmitter};
use crate::channel::Airtime;
use lasthop_base::units::{Duration, ExactTime, Instant};

/// Maximum bits of a run: exact times multiply them by 1e9, which must fit into 64 bits.
pub(super) const LONGEST_RUN_BITS: u64 = 10_000_000_000;

/// Number of packets that is always below that limit, regardless of their length.
const SHORT_RUN: u64 = 1 << 13;

/// Packets of equal length that depart back to back.
#[derive(Clone, Copy, Debug, Default)]
struct Run {
    first: ExactTime,
    bits: u64,
    count: u64,
    /// Whether the channel destroys the packet. Such a run has one packet.
    is_lost: bool,
}

/// The transmitter and the newest departures.
#[derive(Clone, Debug)]
pub(super) struct Backlog {
    pub transmitter: Transmitter,
    pub limit: Limit,
    /// The newest departures: at least as many packets as the limit, or all since the transmitter
    /// was last idle. Earlier ones are removed before an admission test reads them. The newest run
    /// is `tail`, which is never empty.
    older: Ring<Run>,
    tail: Run,
    /// Packets in all runs.
    packets: u64,
    /// `usual_span` is the transmission time of `limit - 1` frames of `usual_bits`, rounded down.
    /// `span` equals it while no frame since the last idle time has been shorter; otherwise it is
    /// 0.
    usual_bits: u64,
    usual_span: Duration,
    span: Duration,
    /// Whether there is only offered traffic, a limit in packets, a constant rate and a constant
    /// delay. Then, while `packets` is 1, that packet is the last one of the transmitter. The runs
    /// contain only whether it is lost.
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

    /// Returns `true` if there is only offered traffic, a limit in packets and a constant rate.
    #[inline]
    pub fn is_plain(&self) -> bool {
        self.is_plain
    }

    /// Prepares for background traffic with frames of `bits`. Call this before the first packet.
    pub fn share(&mut self, bits: u64) {
        if self.is_plain || bits < self.usual_bits {
            self.measure_span(bits);
        }
        self.write_everything();
    }

    /// Records every packet in the runs from now on.
    pub fn write_everything(&mut self) {
        self.is_plain = false;
    }

    /// Starts the span of a frame of `bits` that is the only one in the backlog.
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
            // A smaller count is conservative.
            let count = (limit - 1).min(LONGEST_RUN_BITS / bits.max(1));
            let span = ExactTime::default().after(bits * count, self.transmitter.rate());
            self.usual_span = Duration::from_nanos(span.nanos);
        }
    }

    /// Returns `true` if an arrival at `now`, which finds the transmitter busy, certainly has room.
    /// `false` means unknown.
    #[inline(always)]
    pub fn has_guaranteed_room(&self, now: Instant) -> bool {
        self.transmitter.free_at().instant() < now + self.span
    }

    /// Processes the arrival of a packet at `now` whose frame has `bits`. Returns its transmission,
    /// or `None` if it is dropped.
    #[inline(always)]
    pub fn admit(&mut self, now: Instant, bits: u64) -> Option<Airtime> {
        if self.transmitter.is_busy(now) {
            if !self.has_guaranteed_room(now) && !self.has_room(now, bits) {
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

    /// Processes the arrival of another packet of the same length at a plain FIFO. Sends it if the
    /// transmitter is idle, or if it extends the newest run and certainly has room. Otherwise
    /// returns `None` and changes nothing.
    #[inline(always)]
    pub fn repeat(&mut self, now: Instant) -> Option<Airtime> {
        let free_at = self.transmitter.free_at();
        let start = if free_at.instant() <= now {
            self.packets = 1;
            self.tail.is_lost = false;
            // A frame that ends now passes on its fraction of a nanosecond.
            let is_behind = free_at.instant() == now;
            ExactTime {
                nanos: now.as_nanos(),
                fraction: if is_behind { free_at.fraction } else { 0 },
            }
        } else {
            // `tail` ends with the last packet sent.
            let joins = self.has_guaranteed_room(now)
                && self.packets > 1
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

    /// Like [`Self::repeat`], for any packet that finds the transmitter busy. Returns `None` if it
    /// is dropped.
    #[inline(always)]
    pub fn repeat_behind(&mut self, now: Instant) -> Option<Airtime> {
        if self.packets == 1 {
            self.write_down_last();
        }
        let bits = self.transmitter.last_bits();
        if !self.has_guaranteed_room(now) && !self.has_room(now, bits) {
            return None;
        }
        let airtime = self.transmitter.repeat_behind();
        self.append(self.transmitter.free_at(), bits, 1);
        Some(airtime)
    }

    /// Records the only packet in the backlog of a plain FIFO as a run.
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

    /// Starts a new backlog with a frame of `bits` that an idle transmitter has just accepted.
    #[inline]
    pub fn begin(&mut self, bits: u64) {
        self.older.clear();
        self.tail = Run { first: self.transmitter.free_at(), bits, count: 1, is_lost: false };
        self.packets = 1;
        self.begin_span(bits);
    }

    /// Returns `true` if there is room for a packet of `bits` at `now`, according to the runs.
    #[inline(never)]
    fn has_room(&mut self, now: Instant, bits: u64) -> bool {
        match self.limit {
            Limit::Packets(limit) => {
                self.forget();
                self.packets < limit || self.has_departed(now, limit)
            }
            Limit::Bytes(limit) => {
                self.forget_departed(now);
                self.held_bits(now) + bits <= limit.bits()
            }
        }
    }

    /// Returns `true` if the packet admitted `limit` places before the next one has departed.
    fn has_departed(&self, now: Instant, limit: u64) -> bool {
        let (run, index) = self.place(limit);
        self.departure_in(&run, index) <= now
    }

    /// Returns the run and the index of the packet admitted `limit` places before the next one. At
    /// least `limit` packets must be in the runs.
    #[inline]
    fn place(&self, limit: u64) -> (Run, u64) {
        let front = *self.older.front().unwrap_or(&self.tail);
        let index = self.packets - limit;
        debug_assert!(index < front.count, "older runs are forgotten");
        (front, index)
    }

    /// Returns a number of packets of `bits`, at most `most`, that are certainly admitted in
    /// succession from `first` onwards. Requires that the transmitter stays busy and that the
    /// arrival interval exceeds the transmission time.
    #[inline]
    pub fn ready(&mut self, first: Instant, bits: u64, most: u64) -> u64 {
        let Limit::Packets(limit) = self.limit else { return 0 };
        if self.has_guaranteed_room(first) {
            return most;
        }
        self.forget();
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

    /// Removes departed runs. With a byte limit only queued packets are needed; otherwise a queue
    /// that is never idle would store its whole past.
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

    /// Number of packets of `run` that have departed, found by bisection.
    fn departed(&self, run: &Run, now: Instant) -> u64 {
        let (mut low, mut high) = (0, run.count);
        while low < high {
            let middle = low + (high - low) / 2;
            if self.departure_in(run, middle) <= now { low = middle + 1 } else { high = middle }
        }
        low
    }

    /// Marks the last admitted packet as destroyed by the channel.
    #[cold]
    pub fn mark_lost(&mut self) {
        self.write_down();
        if self.tail.count > 1 {
            self.tail.count -= 1;
            self.push_tail();
            self.tail.first = self.transmitter.free_at();
            self.tail.count = 1;
        }
        self.tail.is_lost = true;
    }

    /// Appends `count` packets, back to back; the first departs at `first`.
    #[inline(always)]
    pub fn join(&mut self, first: ExactTime, bits: u64, count: u64) {
        if bits < self.usual_bits {
            self.span = Duration::ZERO;
        }
        self.append(first, bits, count);
    }

    /// Like [`Self::join`], for packets of at least `usual_bits`.
    #[inline(always)]
    fn append(&mut self, first: ExactTime, bits: u64, count: u64) {
        self.packets += count;
        let tail = &mut self.tail;
        let is_long = (tail.count + count) * bits >= LONGEST_RUN_BITS;
        // With a time-varying rate, the packets of a run would not depart at regular distances.
        let is_alike = tail.bits == bits && !tail.is_lost && self.transmitter.is_steady();
        if is_alike && !is_long {
            tail.count += count;
        } else {
            self.push_tail();
            self.tail = Run { first, bits, count, is_lost: false };
        }
    }

    /// Ends the newest run. Those that no admission test needs remain until the ring is full.
    #[inline(always)]
    fn push_tail(&mut self) {
        if self.older.is_full() {
            self.forget();
            self.older.grow_if_half_full();
        }
        *self.older.push_slot() = self.tail;
    }

    /// Removes runs that no admission test needs.
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

    /// Number of packets ahead of an arrival at `now`, including the one in transmission.
    pub fn length(&self, now: Instant) -> u64 {
        self.runs().map(|run| run.count - self.departed(&run, now)).sum()
    }

    /// Bits of the packets that have not departed at `now`.
    pub fn held_bits(&self, now: Instant) -> u64 {
        self.runs().map(|run| (run.count - self.departed(&run, now)) * run.bits).sum()
    }

    /// Counters of the frames that start after `now`: all frames that have not departed except the
    /// first one.
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
