//! A drop-tail FIFO in front of a constant-rate transmitter, computed rather than simulated.
//!
//! A FIFO knows a packet's departure when the packet arrives, so no event marks it. With a limit
//! of `L` packets, the one in transmission among them (as ns-2's `DropTail` with `limit_` = L), an
//! arrival is admitted if the packet admitted `L` places earlier has departed: one comparison. A
//! departure at the instant of an arrival comes first.
//!
//! Departures are kept as *runs*: packets of equal size that left back to back. A run is one entry
//! however long it is. That is what makes background traffic cheap: a [`OnOff`] source that only
//! shares this queue is *replayed* when somebody looks, whole blocks of its packets at once:
//!
//! - transmitter idle, and service shorter than the interval: every packet of the block starts on
//!   arrival, nothing is left but the last departure;
//! - transmitter busy: packets extend the current run while (a) the transmitter stays busy and
//!   (b) the departure that admits each of them, one place further along an older run per packet,
//!   comes in time; as the run advances by the service time and arrivals by the longer interval,
//!   (b) holds for the whole run if it holds for its first packet.
//!
//! Every step is in integers, so that drops and delays equal those of the packet-by-packet run bit
//! for bit; where the block rules do not apply (lossy channel, byte limit, service not shorter than
//! the interval), the replay goes packet by packet.
//!
//! Precondition: the fate and the departure of a packet follow from what came before it. That is so of
//! drop-tail before a link without protocol; [`Queue`](super::Queue) has the disciplines that a driver
//! turns.
//!
//! *Not modelled*: blocks of more than one background source.

use super::ahead::{Ahead, Pace, UnderWay};
use super::earliest::Earliest;
use super::{Limit, Propagation, Ring, Transmitter};
use crate::app::OnOff;
use crate::channel::{Airtime, Channel, ErrorProcess};
use crate::units::{Bytes, Duration, ExactTime, Instant, Rate};

/// Exact times multiply the bits of a run by 1e9, which must fit 64 bits.
const LONGEST_RUN_BITS: u64 = 10_000_000_000;

/// Always-on counters of one queue and its transmitter.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QueueCounters {
    /// Packets refused because the queue was full.
    pub drops: u64,
    /// Frames put on the air.
    pub frames_sent: u64,
    /// Bits put on the air.
    pub bits_sent: u64,
    /// Frames that the channel destroyed.
    pub frames_lost: u64,
}

impl std::ops::Add for QueueCounters {
    type Output = QueueCounters;
    fn add(self, rhs: QueueCounters) -> QueueCounters {
        QueueCounters {
            drops: self.drops + rhs.drops,
            frames_sent: self.frames_sent + rhs.frames_sent,
            bits_sent: self.bits_sent + rhs.bits_sent,
            frames_lost: self.frames_lost + rhs.frames_lost,
        }
    }
}

/// What becomes of a packet that is offered to a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// The queue is full.
    Dropped,
    /// It is transmitted until `end`, and lost on the channel.
    Lost {
        /// Its last bit leaves the transmitter.
        end: Instant,
    },
    /// It is transmitted until `end` and survives.
    Sent {
        /// Its last bit leaves the transmitter.
        end: Instant,
    },
}

impl std::ops::Sub for QueueCounters {
    type Output = QueueCounters;
    fn sub(self, rhs: QueueCounters) -> QueueCounters {
        QueueCounters {
            drops: self.drops - rhs.drops,
            frames_sent: self.frames_sent - rhs.frames_sent,
            bits_sent: self.bits_sent - rhs.bits_sent,
            frames_lost: self.frames_lost - rhs.frames_lost,
        }
    }
}

/// Packets of one size that depart back to back.
#[derive(Clone, Copy, Debug, Default)]
struct Run {
    first: ExactTime,
    bits: u64,
    count: u64,
    /// Does the channel destroy it? Then it is a run of one.
    is_lost: bool,
}

/// Background traffic that ends behind this link.
#[derive(Clone, Debug)]
struct Background {
    source: OnOff,
    /// May blocks be used?
    in_blocks: bool,
    counters: QueueCounters,
    /// Departures of packets that survive the channel.
    under_way: UnderWay,
}

/// The queue, its transmitter, its channel and the background traffic that shares them.
#[derive(Clone, Debug)]
pub struct ComputedFifo {
    transmitter: Transmitter,
    propagation: Propagation,
    limit: Limit,
    channel: Channel,
    /// Frame header added to each packet, in bytes.
    header: u32,
    /// The newest departures: at least as many packets as the limit, or all since an idle moment.
    /// The newest run of all is `tail`, which always has a packet.
    older: Ring<Run>,
    tail: Run,
    /// In all runs.
    packets: u64,
    /// How long `limit - 1` packets of `span_bits` take, rounded down: see [`Self::has_room`].
    span_bits: u64,
    span: Duration,
    background: Vec<Background>,
    /// Whose turn it is, where there are several.
    earliest: Earliest,
    counters: QueueCounters,
    /// Where packets are offered ahead of the clock, what became of the newest, and the end of a
    /// transmission from which on that is remembered.
    ahead: Option<Box<Ahead>>,
    remembered_from: Instant,
    /// Nothing but packets that are offered, a limit in packets, a rate that never changes. Then, while
    /// `packets` is 1, that packet is the one that the transmitter sent last, and the runs say nothing
    /// of it but whether it is lost.
    is_plain: bool,
    /// Length of the packet that was offered last, if it is plain that what comes has most often the
    /// same, and how many of that length the counters do not know yet.
    usual: u32,
    alike: u64,
}

/// A length that no packet has, even with a header.
const NO_LENGTH: u32 = u32::MAX - u16::MAX as u32;

impl ComputedFifo {
    /// An idle `transmitter` behind an empty queue.
    pub fn new(transmitter: Transmitter, limit: Limit, header: Bytes, channel: Channel) -> Self {
        let is_plain = matches!(limit, Limit::Packets(_)) && transmitter.is_steady();
        ComputedFifo {
            transmitter,
            propagation: Propagation::default(),
            limit,
            channel,
            header: header.get() as u32,
            older: Ring::with_capacity(4),
            tail: Run { count: 1, ..Run::default() },
            packets: 1,
            span_bits: 0,
            span: Duration::ZERO,
            background: Vec::new(),
            earliest: Earliest::default(),
            counters: QueueCounters::default(),
            ahead: None,
            remembered_from: Instant::NEVER,
            is_plain,
            usual: NO_LENGTH,
            alike: 0,
        }
    }

    /// The same before a medium on which frames are on their way for so long.
    #[must_use]
    pub fn over(self, propagation: Propagation) -> Self {
        ComputedFifo { propagation, ..self }
    }

    /// When a frame arrives that ends at `end` and survives; asked of each, in order.
    #[inline(always)]
    pub fn arrival(&mut self, end: Instant) -> Instant {
        self.propagation.arrival(end)
    }

    /// Packets will be offered ahead of the clock.
    pub(crate) fn run_ahead(&mut self) {
        self.ahead = Some(Box::new(Ahead::new()));
        self.remembered_from = Instant::ZERO;
    }

    /// Lets `source` share this queue. Returns its index for [`Self::background_counters`].
    pub fn add_background(&mut self, source: OnOff) -> usize {
        let service = ExactTime::default()
            .after(self.frame_bits(source.packet().get() as u32), self.transmitter.rate());
        // Two nanoseconds of margin keep rounded times monotone within a block.
        let has_slack = source.interval_floor() >= service.nanos + 3;
        let in_blocks = has_slack
            && matches!(self.limit, Limit::Packets(_))
            && self.transmitter.is_steady()
            && self.propagation.constant().is_some()
            && matches!(self.channel, Channel::Clean(_))
            && self.background.is_empty();
        for other in &mut self.background {
            other.in_blocks = false;
        }
        let (packet, link) = (source.packet(), self.transmitter.rate());
        let pace = Pace {
            source: (packet.bits(), source.rate()),
            link: (self.frame_bits(packet.get() as u32), link),
        };
        // Where the delay changes, arrivals are remembered instead of departures.
        let delay = self.propagation.constant().unwrap_or_default();
        let under_way = UnderWay::new(delay, pace);
        self.is_plain = false;
        self.usual = NO_LENGTH;
        self.earliest.add(source.next_at());
        self.background.push(Background {
            source,
            in_blocks,
            counters: QueueCounters::default(),
            under_way,
        });
        self.background.len() - 1
    }

    /// Replays background traffic up to and including `now`. Call before reading counters.
    #[inline]
    pub fn catch_up(&mut self, now: Instant) {
        match self.background.len() {
            0 => {}
            1 => self.replay(now),
            _ => self.replay_merged(now),
        }
    }

    /// The same; the channel goes along, in which no frame has been offered for long.
    pub fn catch_up_with_channel(&mut self, now: Instant) {
        self.catch_up(now);
        self.channel.catch_up(now);
    }

    /// Steps that the replay of a second takes.
    pub fn replay_rate(&self) -> f64 {
        // The next of several sources is searched for packet by packet.
        let search = f64::log2(self.background.len().max(1) as f64) / 4.0;
        let packets =
            |background: &Background| 1e9 / background.source.interval_floor().max(1) as f64;
        let packets: f64 = self.background.iter().map(packets).sum();
        packets * (1.0 + search) + self.channel.replay_rate()
    }

    /// Does background traffic share this queue?
    pub fn has_background(&self) -> bool {
        !self.background.is_empty()
    }

    /// Its transmitter.
    pub fn transmitter(&self) -> &Transmitter {
        &self.transmitter
    }

    /// Rate of the transmitter.
    pub fn rate(&self) -> Rate {
        self.transmitter.rate()
    }

    /// Counters of all packets, background included as of the last catch-up.
    pub fn total_counters(&self) -> QueueCounters {
        let alike = QueueCounters {
            frames_sent: self.alike,
            bits_sent: self.alike * self.frame_bits(self.usual),
            ..QueueCounters::default()
        };
        let offered = self.counters + alike;
        self.background.iter().fold(offered, |sum, background| sum + background.counters)
    }

    /// Of [`Self::total_counters`], what has happened at `now`, which is not before any offer but
    /// those ahead of the clock: drops, and frames that have started.
    pub fn counters(&self, now: Instant) -> QueueCounters {
        let later = match &self.ahead {
            Some(ahead) => ahead.after(now),
            None => self.unstarted(now),
        };
        self.total_counters() - later
    }

    /// Bits of the frame on the air at `now` that are not out.
    pub fn unsent_bits(&self, now: Instant) -> f64 {
        match &self.ahead {
            Some(ahead) => ahead.unsent_bits(now),
            None => {
                let waiting = self.unstarted(now).bits_sent;
                (self.transmitter.unsent_bits(now) - waiting as f64).max(0.0)
            }
        }
    }

    /// The frames that start after `now`: all but the first of those that have not departed.
    fn unstarted(&self, now: Instant) -> QueueCounters {
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

    /// Packets of background source `index` that survive and have not arrived at `now`, the time
    /// of the last catch-up.
    pub fn background_under_way(&self, index: usize, now: Instant) -> u64 {
        self.background[index].under_way.after(now)
    }

    /// Counters of background source `index`, as of the last catch-up.
    pub fn background_counters(&self, index: usize) -> QueueCounters {
        self.background[index].counters
    }

    /// When the transmission of a packet that arrives now would start.
    pub fn next_start(&mut self, now: Instant) -> Instant {
        self.catch_up(now);
        self.transmitter.free_at().instant().max(now)
    }

    /// Frame header added to each packet, in bytes.
    pub fn header(&self) -> u32 {
        self.header
    }

    /// Counters will not be asked for what they were before `horizon`.
    pub(crate) fn set_horizon(&mut self, horizon: Instant) {
        if let Some(ahead) = &mut self.ahead {
            ahead.set_horizon(horizon);
            self.remembered_from = horizon;
        }
        for background in &mut self.background {
            background.under_way.set_horizon(horizon);
        }
    }

    /// A packet of `bytes` arrives now.
    #[inline]
    pub fn offer(&mut self, now: Instant, bytes: u32) -> Fate {
        self.offer_at(now, now, bytes)
    }

    /// A packet of `bytes` arrives at `now`, which may lie ahead of the clock if
    /// [`Self::run_ahead`] has been called.
    #[inline(always)]
    pub(crate) fn offer_at(&mut self, clock: Instant, now: Instant, bytes: u32) -> Fate {
        if bytes != self.usual {
            return self.offer_any(clock, now, bytes);
        }
        if self.transmitter.is_busy(now) {
            return self.offer_behind(clock, now);
        }
        let airtime = self.transmitter.repeat_idle(now);
        self.packets = 1;
        self.tail.is_lost = false;
        self.alike += 1;
        self.expose(clock, airtime)
    }

    /// The same of a packet of the usual length that has to wait.
    #[inline(never)]
    fn offer_behind(&mut self, clock: Instant, now: Instant) -> Fate {
        if self.packets == 1 {
            self.write_down();
        }
        let bits = self.transmitter.last_bits();
        if !self.has_room(now, bits) {
            return self.refuse(clock, now);
        }
        let airtime = self.transmitter.repeat_behind();
        self.append(self.transmitter.free_at(), bits, 1);
        self.alike += 1;
        self.expose(clock, airtime)
    }

    /// The same of a packet that has another length than the last one, or meets background traffic, a
    /// limit in bytes or a rate that changes.
    #[inline(never)]
    fn offer_any(&mut self, clock: Instant, now: Instant, bytes: u32) -> Fate {
        self.catch_up(now);
        let bits = self.frame_bits(bytes);
        if self.is_plain && self.packets == 1 {
            self.write_down();
        }
        let Some(airtime) = self.admit(now, bits) else { return self.refuse(clock, now) };
        if bytes != self.usual {
            // The length that has been usual so far is known until here.
            let usual = self.frame_bits(self.usual);
            self.counters.frames_sent += self.alike;
            self.counters.bits_sent += self.alike * usual;
            self.alike = 0;
        }
        if self.is_plain {
            self.usual = bytes;
            self.alike += 1;
        } else {
            self.counters.frames_sent += 1;
            self.counters.bits_sent += bits;
        }
        self.expose(clock, airtime)
    }

    /// Makes a run of the one packet that counts.
    #[inline]
    fn write_down(&mut self) {
        self.older.clear();
        self.tail.first = self.transmitter.free_at();
        self.tail.bits = self.transmitter.last_bits();
        self.tail.count = 1;
    }

    /// A packet finds the queue full.
    #[cold]
    fn refuse(&mut self, clock: Instant, now: Instant) -> Fate {
        self.counters.drops += 1;
        if let Some(ahead) = &mut self.ahead {
            ahead.refuse(clock, now);
        }
        Fate::Dropped
    }

    /// A packet that has been admitted is on the air.
    #[inline(always)]
    fn expose(&mut self, clock: Instant, airtime: Airtime) -> Fate {
        let Airtime { start, end, .. } = airtime;
        if self.channel.is_lost(airtime) {
            self.lose(clock, start, end);
            return Fate::Lost { end };
        }
        if end > self.remembered_from {
            self.remember(clock, start, end, false);
        }
        Fate::Sent { end }
    }

    /// The channel destroys the frame of the packet that was admitted last.
    #[inline(never)]
    fn lose(&mut self, clock: Instant, start: Instant, end: Instant) {
        if end > self.remembered_from {
            self.remember(clock, start, end, true);
        }
        self.counters.frames_lost += 1;
        // Frames ahead of the clock are remembered one by one.
        if self.ahead.is_none() {
            if self.is_plain && self.packets == 1 {
                self.write_down();
            }
            self.mark_lost();
        }
    }

    #[inline(never)]
    fn remember(&mut self, clock: Instant, start: Instant, end: Instant, is_lost: bool) {
        if let Some(ahead) = &mut self.ahead {
            let bits = self.transmitter.last_bits();
            ahead.send(clock, Airtime { start, end, bits }, is_lost);
        }
    }

    /// Packets ahead of an arrival at `now`, the one in transmission included.
    pub fn length(&self, now: Instant) -> u64 {
        self.runs().map(|run| run.count - self.departed(&run, now)).sum()
    }

    fn runs(&self) -> impl Iterator<Item = Run> {
        let is_written = !self.is_plain || self.packets > 1;
        let older = self.older.iter().copied().filter(move |_| is_written);
        let (first, bits) = (self.transmitter.free_at(), self.transmitter.last_bits());
        let last = Run { first, bits, count: 1, is_lost: self.tail.is_lost };
        older.chain([if is_written { self.tail } else { last }])
    }

    /// Would a packet of `bytes` that arrives now leave room for another one like it?
    pub fn has_spare_room(&mut self, now: Instant, bytes: u32) -> bool {
        self.catch_up(now);
        match self.limit {
            Limit::Packets(limit) => self.length(now) + 2 <= limit,
            Limit::Bytes(limit) => self.held_bits(now) + 2 * self.frame_bits(bytes) <= limit.bits(),
        }
    }

    /// Bits of the packets that have not departed.
    fn held_bits(&self, now: Instant) -> u64 {
        self.runs().map(|run| (run.count - self.departed(&run, now)) * run.bits).sum()
    }

    #[inline]
    fn frame_bits(&self, bytes: u32) -> u64 {
        u64::from(bytes + self.header) * 8
    }

    #[inline]
    fn admit(&mut self, now: Instant, bits: u64) -> Option<Airtime> {
        if self.transmitter.is_busy(now) {
            if let Limit::Bytes(_) = self.limit {
                self.forget_departed(now);
            }
            if !self.has_room(now, bits) {
                return None;
            }
            let airtime = self.transmitter.send(now, bits);
            self.append(self.transmitter.free_at(), bits, 1);
            Some(airtime)
        } else {
            let airtime = self.transmitter.send(now, bits);
            self.begin(bits);
            Some(airtime)
        }
    }

    /// An idle transmitter has taken a packet: what was before it counts no more.
    #[inline]
    fn begin(&mut self, bits: u64) {
        self.older.clear();
        self.tail = Run { first: self.transmitter.free_at(), bits, count: 1, is_lost: false };
        self.packets = 1;
    }

    #[inline(always)]
    fn has_room(&mut self, now: Instant, bits: u64) -> bool {
        let Limit::Packets(limit) = self.limit else { return self.has_room_for_bits(now, bits) };
        self.packets < limit || self.has_departed(now, limit)
    }

    #[inline(never)]
    fn has_room_for_bits(&self, now: Instant, bits: u64) -> bool {
        let Limit::Bytes(limit) = self.limit else { unreachable!("asked for before") };
        self.held_bits(now) + bits <= limit.bits()
    }

    /// Has the packet that was admitted `limit` places before the next one departed?
    #[inline(never)]
    fn has_departed(&mut self, now: Instant, limit: u64) -> bool {
        let index = self.packets - limit;
        if let Some(front) = self.older.front() {
            debug_assert!(index < front.count, "older runs are forgotten");
            return self.departure_in(front, index) <= now;
        }
        // That packet leaves `limit - 1` packets before the last one. Rounding can make it leave
        // earlier than this, never later.
        if self.span_bits != self.tail.bits {
            self.measure_span(limit);
        }
        let free_at = self.transmitter.free_at().instant();
        free_at <= now + self.span || self.departure_in(&self.tail, index) <= now
    }

    /// Finds out how long a queue of packets like the last is, less one.
    #[cold]
    fn measure_span(&mut self, limit: u64) {
        self.span_bits = self.tail.bits;
        let bits = (limit - 1).saturating_mul(self.tail.bits);
        let is_short = bits < LONGEST_RUN_BITS;
        let bits = if is_short { bits } else { 0 };
        let span = ExactTime::default().after(bits, self.transmitter.rate());
        self.span = Duration::from_nanos(span.nanos);
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
    fn mark_lost(&mut self) {
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

    fn replay(&mut self, now: Instant) {
        while self.background[0].source.next_at() <= now {
            if self.background[0].in_blocks {
                self.replay_block(now);
            } else {
                self.replay_packet(0);
            }
        }
    }

    /// Several sources: the earliest packet first, ties by index.
    fn replay_merged(&mut self, now: Instant) {
        while let Some(index) = self.earliest.until(now) {
            self.replay_packet(index);
            self.earliest.advance(index, self.background[index].source.next_at());
        }
    }

    fn replay_packet(&mut self, index: usize) {
        let source = &mut self.background[index].source;
        let at = source.next_at();
        let bytes = source.packet().get() as u32;
        source.advance(1);
        let bits = self.frame_bits(bytes);
        let admitted = self.admit(at, bits);
        let lost = admitted.is_some_and(|airtime| self.channel.is_lost(airtime));
        if lost {
            self.mark_lost();
        }
        let Background { counters, under_way, .. } = &mut self.background[index];
        match admitted {
            None => counters.drops += 1,
            Some(airtime) => {
                counters.frames_sent += 1;
                counters.bits_sent += bits;
                if !lost {
                    let end = match self.propagation.constant() {
                        Some(_) => airtime.end,
                        None => self.propagation.arrival(airtime.end),
                    };
                    under_way.one(at, end);
                }
            }
        }
        counters.frames_lost += u64::from(lost);
    }

    /// Takes as many packets at once as one rule covers.
    fn replay_block(&mut self, now: Instant) {
        let Limit::Packets(limit) = self.limit else { return self.replay_packet(0) };
        let source = &self.background[0].source;
        let bits = self.frame_bits(source.packet().get() as u32);
        let block = source.count_until(now).min(LONGEST_RUN_BITS / 2 / bits);
        let first = source.next_at();
        let admitted = if self.transmitter.free_at().instant() < first {
            // Idle: every packet of the block starts on arrival and is gone before the next.
            let arrived = source.next_exact();
            self.transmitter.send_at(source.at(block - 1), bits);
            self.begin(bits);
            let last = self.transmitter.free_at().instant();
            self.background[0].under_way.spaced(first, arrived, last, block);
            block
        } else {
            let ready = if self.packets < limit {
                limit - self.packets
            } else {
                let front = *self.older.front().unwrap_or(&self.tail);
                let index = self.packets - limit;
                let departure = self.departure_in(&front, index);
                if front.bits == bits && departure < first {
                    // A single run grows while it is used.
                    if self.older.is_empty() { block } else { front.count - index }
                } else {
                    return self.replay_packet(0);
                }
            };
            let count = self.busy_until_packet(block.min(ready), bits);
            if count == 0 {
                return self.replay_packet(0);
            }
            let departure = self.extend(count, bits);
            let last = self.transmitter.free_at().instant();
            self.background[0].under_way.back_to_back(first, departure, last, count);
            count
        };
        let background = &mut self.background[0];
        background.source.advance(admitted);
        background.counters.frames_sent += admitted;
        background.counters.bits_sent += admitted * bits;
    }

    /// How many of the next `most` background packets find the transmitter busy.
    #[inline]
    fn busy_until_packet(&self, most: u64, bits: u64) -> u64 {
        let source = &self.background[0].source;
        let (free_at, rate) = (self.transmitter.free_at(), self.transmitter.rate());
        let finds_busy =
            |index: u64| free_at.after(bits * index, rate).instant() > source.at(index);
        // The backlog shrinks by at least two nanoseconds a packet, so the predicate is monotone.
        if finds_busy(most - 1) {
            return most;
        }
        let (mut low, mut high) = (0, most - 1);
        while low < high {
            let middle = low + (high - low) / 2;
            if finds_busy(middle) { low = middle + 1 } else { high = middle }
        }
        low
    }

    /// Appends `count` packets back to back; returns the departure of the first.
    fn extend(&mut self, count: u64, bits: u64) -> ExactTime {
        let first = self.transmitter.free_at().after(bits, self.transmitter.rate());
        self.transmitter.send_back_to_back(count, bits);
        self.append(first, bits, count);
        first
    }
}
