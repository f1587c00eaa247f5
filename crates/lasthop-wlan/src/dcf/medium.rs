//! The medium of 802.11 stations: channel access and the results of transmissions. Stations without positions
//! are all in range of each other, as described here. For stations with positions, see `spread`.
//!
//! ```text
//!   busy | DIFS |  0  |  1  |  2  |  3  | busy ...             slots of the medium
//!               ^ base                  ^ end of a backoff: all other counters freeze
//!
//!                 deadline: end of a backoff            data received, or
//!   +------------+ ----------------------> +------+   no response
//!   | contention |                         | busy | ------------------------+
//!   +------------+ <---------------------- +------+                         |
//!          ^        next base, backoffs sampled                             |
//!          +----------------------------------------------------------------+
//! ```
//!
//! The medium has a single deadline instead of one event per slot. Its idle slots are numbered consecutively,
//! without regard to busy periods in between. A backoff of b slots that begins at number n ends at n + b, so
//! that frozen counters need no update. A heap orders the backoffs by their end; waiting and idle stations
//! cost no processing time. Some stations count from a different time than the others: after a frame that
//! they could not read, after a timeout, or after an absence. They wait in a short list until the medium is
//! busy again.
//!
//! *Equal slots.* A station cannot sense a transmission that began less than a slot ago: a slot is the time
//! required to sense the medium and to switch to transmission (9.3.7). All stations whose backoff ends within
//! a slot after the first one transmit too, and none of their frames can be read. Backoffs that began at the
//! same time end at multiples of a slot, so stations with equal counters collide.
//!
//! *An exchange* (RTS, CTS,) data, acknowledgment is computed when it begins. It cannot be interrupted: SIFS
//! is shorter than DIFS, and all stations have received the first frame. Waiting times before slots count:
//!
//! | after | sender | receiver | others |
//! |---|---|---|---|
//! | an acknowledgment | DIFS | DIFS | DIFS |
//! | data received with errors | timeout, DIFS | EIFS | NAV (SIFS, acknowledgment), DIFS |
//! | an acknowledgment received with errors | EIFS | DIFS | DIFS |
//! | an RTS received with errors | timeout, DIFS | EIFS | NAV until it is reset, DIFS |
//! | a CTS received with errors | EIFS | NAV of the whole exchange, DIFS | NAV of the whole exchange, DIFS |
//! | colliding frames | timeout or the end of the longest, DIFS | | EIFS |
//!
//! A NAV is only ever extended (9.3.2.4). A sender that could not read its CTS may therefore transmit again
//! while the NAV of that CTS defers the other stations; its frames do not shorten the NAV. A NAV set by an
//! RTS is reset if no frame follows within 2 SIFS, a CTS and 2 slots. A station that is out of range neither
//! receives nor transmits; its packets wait.
//!
//! Source: IEEE Std 802.11-2012, 9.3 (DCF). The parameter `now` never decreases. After
//! [`Medium::enqueue`] and [`Medium::handle_timeout`] the driver drains [`Medium::poll_deliver`]. Packets
//! sent in response to a delivery may be enqueued immediately.
//!
//! Limitations: fragments, broadcast, noise at third stations, propagation delay, power save and
//! association are not modelled.

use super::frames;
use super::phy::{Phy, Timing};
use super::posts::Spread;
use super::report::{
    Delivery, MediumCounters, MediumEvent, Outcome, PairCounters, PairId, StationId,
};
use super::station::{Attempt, MacParameters, Station, StationCounters, Waiting};
use lasthop_base::packet::Payload;
use lasthop_base::rng::Stream;
use lasthop_base::units::{Bytes, Duration, Instant, Rate};
use lasthop_link::channel::{Channel, ErrorProcess};
use lasthop_link::queue::{DisciplineCounters, Queue};
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

/// A transmitter and a receiver.
#[derive(Clone, Debug)]
pub(super) struct Pair {
    pub(super) from: u16,
    pub(super) to: u16,
    /// The pair of the opposite direction.
    pub(super) back: Option<u32>,
    pub(super) rate: Rate,
    /// Index of the error process.
    pub(super) channel: u32,
    pub(super) rts: Duration,
    /// Air time of an acknowledgment, which has the length of a CTS.
    pub(super) ack: Duration,
    /// Length whose air time is cached: most frames have the length of the previous one.
    pub(super) known_length: Bytes,
    pub(super) known_time: Duration,
    /// Sequence number of the last data frame received.
    pub(super) last_received: Option<u64>,
    pub(super) counters: PairCounters,
}

/// A station that counts its slots separately.
#[derive(Clone, Copy, Debug)]
pub(super) struct Apart {
    pub(super) station: u16,
    pub(super) base: Instant,
    pub(super) slots: u32,
}

/// End of the exchange of one station.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ending {
    /// Data has been received; the acknowledgment ends at this time.
    Acknowledged { at: Instant },
    /// Data has been received, but the acknowledgment is lost; the attempt ends at this time.
    AckLost { at: Instant },
    /// Only the header of the data was received without errors; the attempt ends at this time.
    Damaged { attempt: Attempt, at: Instant },
    /// No response to data or an RTS.
    Failed { attempt: Attempt },
    /// Several stations transmitted.
    Collided,
}

/// Meaning of the deadline.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    /// The next end of a backoff.
    Contention,
    /// An exchange in progress.
    Busy { ending: Ending, at: Instant },
}

/// Use of a busy period.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Use {
    Success,
    Collision,
    Error,
}

/// A set of stations that share a medium.
#[derive(Clone, Debug)]
pub struct Medium<P: Payload> {
    pub(super) phy: Phy,
    pub(super) timing: Timing,
    /// Whether noise and the two-state processes also affect RTS, CTS and acknowledgments.
    pub(super) control_errors: bool,
    pub(super) stations: Vec<Station<P>>,
    pub(super) pairs: Vec<Pair>,
    pub(super) channels: Vec<Channel>,
    /// Stations with a frame, ordered by the number of the slot in which their backoff ends: slot,
    /// station.
    pub(super) contenders: BinaryHeap<Reverse<u64>>,
    pub(super) apart: Vec<Apart>,
    /// Start of slot `base_slot` of the medium.
    pub(super) base: Instant,
    pub(super) base_slot: u64,
    /// End of the NAV of a CTS that its receiver could not read; all other stations defer until
    /// then.
    pub(super) nav_until: Instant,
    pub(super) phase: Phase,
    /// Transmitters of the exchange in progress, with their start times.
    pub(super) transmitters: Vec<(u16, Instant)>,
    /// Last counted busy period: its start, its end and its use.
    pub(super) newest: (Instant, Instant, Use),
    pub(super) up: VecDeque<Delivery<P>>,
    pub(super) reports: bool,
    pub(super) events: VecDeque<MediumEvent<P>>,
    pub(super) keeps_outcomes: bool,
    pub(super) outcomes: VecDeque<Outcome<P>>,
    pub(super) counters: MediumCounters,
    /// State of stations with positions; the slot counts above are then unused.
    pub(super) spread: Option<Box<Spread>>,
}

/// Returns the key of a contender in the heap.
fn contender(slot: u64, station: u16) -> Reverse<u64> {
    Reverse(slot << 16 | u64::from(station))
}

impl<P: Payload + Clone> Medium<P> {
    /// Creates a medium without stations. `control_errors`: error processes affect control frames
    /// as well as data.
    pub fn new(phy: Phy, timing: Timing, control_errors: bool) -> Self {
        debug_assert!(timing.slot > Duration::ZERO, "a slot takes time");
        Medium {
            phy,
            timing,
            control_errors,
            stations: Vec::new(),
            pairs: Vec::new(),
            channels: Vec::new(),
            contenders: BinaryHeap::new(),
            apart: Vec::new(),
            base: Instant::ZERO + timing.difs(),
            base_slot: 0,
            nav_until: Instant::ZERO,
            phase: Phase::Contention,
            transmitters: Vec::new(),
            newest: (Instant::ZERO, Instant::ZERO, Use::Success),
            up: VecDeque::with_capacity(4),
            reports: false,
            events: VecDeque::new(),
            keeps_outcomes: false,
            outcomes: VecDeque::new(),
            counters: MediumCounters::default(),
            spread: None,
        }
    }

    /// Enables events, which the caller must then drain with [`Self::poll_event`].
    pub fn report_events(&mut self) {
        self.reports = true;
    }

    /// Enables outcomes of packets, which the caller must then drain with [`Self::poll_outcome`].
    pub fn keep_outcomes(&mut self) {
        self.keeps_outcomes = true;
    }

    /// Adds a station whose packets wait in `queue`; `backoff` is the random stream of its
    /// backoffs. A medium has at most 65,536 stations.
    pub fn add_station(
        &mut self,
        parameters: MacParameters,
        queue: Queue<Waiting<P>>,
        backoff: Stream,
    ) -> StationId {
        let id = u16::try_from(self.stations.len()).expect("at most 65,536 stations");
        self.stations.push(Station::new(parameters, queue, backoff));
        self.contenders.reserve(self.stations.len());
        self.apart.reserve(self.stations.len());
        self.transmitters.reserve(self.stations.len());
        StationId(id)
    }

    /// Sets the `periods` during which a station is out of range. They are in order and do not
    /// overlap.
    pub fn set_away(&mut self, station: StationId, periods: &[[Instant; 2]]) {
        self.stations[station.index()].set_away(periods);
    }

    /// Adds a direction from `from` to `to` at `rate`, with control frames at `control_rate` and
    /// the error process `channel`.
    pub fn add_pair(
        &mut self,
        [from, to]: [StationId; 2],
        [rate, control_rate]: [Rate; 2],
        channel: Channel,
    ) -> PairId {
        self.channels.push(channel);
        let channel = self.channels.len() as u32 - 1;
        self.push_pair([from, to], [rate, control_rate], channel)
    }

    /// Adds the opposite direction of `there`, which shares its error process.
    pub fn add_back_pair(&mut self, there: PairId, rates: [Rate; 2]) -> PairId {
        let Pair { from, to, channel, .. } = self.pairs[there.index()];
        self.push_pair([StationId(to), StationId(from)], rates, channel)
    }

    fn push_pair(
        &mut self,
        [from, to]: [StationId; 2],
        [rate, control_rate]: [Rate; 2],
        channel: u32,
    ) -> PairId {
        let index = self.pairs.len() as u32;
        let is_back = |pair: &Pair| pair.from == to.0 && pair.to == from.0;
        let back = self.pairs.iter().position(is_back).map(|back| back as u32);
        if let Some(back) = back {
            self.pairs[back as usize].back = Some(index);
        }
        self.pairs.push(Pair {
            from: from.0,
            to: to.0,
            back,
            rate,
            channel,
            rts: self.phy.airtime(Bytes::new(frames::RTS), control_rate),
            ack: self.phy.airtime(Bytes::new(frames::ACK), control_rate),
            known_length: Bytes::default(),
            known_time: self.phy.airtime(Bytes::default(), rate),
            last_received: None,
            counters: PairCounters::default(),
        });
        PairId(index)
    }

    /// Returns the timing of the medium.
    pub fn timing(&self) -> &Timing {
        &self.timing
    }

    /// Returns `true` if, after enqueuing a packet for `pair` now, the queue would have room for
    /// another packet of the same size.
    pub fn has_spare_room(&self, now: Instant, pair: PairId, packet: &P) -> bool {
        let from = self.pairs[pair.index()].from;
        self.stations[usize::from(from)].has_room(now, packet, 2)
    }

    /// Returns the number of packets waiting at the transmitter of `pair`, including the frame
    /// being sent.
    pub fn queued(&self, now: Instant, pair: PairId) -> u64 {
        self.stations[usize::from(self.pairs[pair.index()].from)].length(now)
    }

    /// Appends a packet to the queue of the transmitter of `pair`; returns `false` if the queue is
    /// full.
    pub fn enqueue(&mut self, now: Instant, pair: PairId, packet: P) -> bool {
        let from = self.pairs[pair.index()].from;
        let is_admitted = self.stations[usize::from(from)].enqueue(now, pair.0, packet);
        self.count_dropped(from);
        if !is_admitted {
            self.pairs[pair.index()].counters.drops += 1;
            return false;
        }
        if self.stations[usize::from(from)].current.is_none() && self.take_next(now, from) {
            self.begin_access(now, from);
        }
        true
    }

    /// Dequeues the next frame of a station that has none; returns `false` if the queue is empty or
    /// dropped all its packets.
    pub(super) fn take_next(&mut self, now: Instant, index: u16) -> bool {
        let is_there = self.stations[usize::from(index)].take_next(now);
        self.count_dropped(index);
        is_there
    }

    /// Counts the packets that the queue of a station dropped during the last call, excluding the
    /// packet passed to it.
    fn count_dropped(&mut self, index: u16) {
        for &Waiting { pair, ref packet } in self.stations[usize::from(index)].dropped() {
            self.pairs[pair as usize].counters.drops += 1;
            if self.reports {
                let packet = packet.clone();
                self.events.push_back(MediumEvent::Dropped { pair: PairId(pair), packet });
            }
        }
    }

    /// Returns the counters of a station's queue discipline, or `None` if the queue drops packets
    /// only when it is full.
    pub fn early(&self, pair: PairId) -> Option<(StationId, DisciplineCounters)> {
        let from = self.pairs[pair.index()].from;
        Some((StationId(from), self.stations[usize::from(from)].early()?))
    }

    /// Starts channel access of an idle station that has a new frame.
    fn begin_access(&mut self, now: Instant, index: u16) {
        if self.spread.is_some() {
            return self.begin_apart(now, index);
        }
        let station = &self.stations[usize::from(index)];
        let (backoff_until, defer_until) = (station.backoff_until, station.defer_until);
        if let Some(until) = station.away_until(now) {
            let slots = self.draw(index, until + self.timing.difs());
            self.apart.push(Apart { station: index, base: until + self.timing.difs(), slots });
            return;
        }
        let from = self.base.max(defer_until);
        let is_idle = self.phase == Phase::Contention && now >= from;
        let passed = if self.phase == Phase::Contention { self.passed(now) } else { 0 };
        if self.base_slot + passed < backoff_until {
            // The backoff after the previous frame continues.
            self.contenders.push(contender(backoff_until, index));
        } else if is_idle {
            self.transmitters.clear();
            self.transmitters.push((index, now));
            self.transmit(now);
        } else {
            let slots = self.draw(index, from);
            self.join(index, from, slots);
        }
    }

    /// Returns the number of idle slots since the base.
    fn passed(&self, now: Instant) -> u64 {
        now.saturating_since(self.base).as_nanos() / self.timing.slot.as_nanos()
    }

    /// Samples a backoff whose slots count from `from`.
    pub(super) fn draw(&mut self, index: u16, from: Instant) -> u32 {
        let station = &mut self.stations[usize::from(index)];
        let window = station.contention_window();
        let slots = station.draw_backoff();
        if self.reports {
            let pair = station.current.as_ref().map(|frame| PairId(frame.pair));
            let station = StationId(index);
            self.events.push_back(MediumEvent::Backoff { station, pair, from, slots, window });
        }
        slots
    }

    /// Adds a station that waits for `slots` slots, which count from `from`.
    pub(super) fn join(&mut self, index: u16, from: Instant, slots: u32) {
        if from == self.base {
            let until = self.base_slot + u64::from(slots);
            self.stations[usize::from(index)].backoff_until = until;
            self.contenders.push(contender(until, index));
        } else {
            self.apart.push(Apart { station: index, base: from, slots });
        }
    }

    /// Returns the transmission time of a contender.
    fn time_of(&self, &Reverse(key): &Reverse<u64>) -> Instant {
        self.base + self.timing.slot * ((key >> 16) - self.base_slot)
    }

    /// Returns the transmission time of a station that counts separately.
    fn time_apart(&self, apart: &Apart) -> Instant {
        apart.base + self.timing.slot * u64::from(apart.slots)
    }

    /// Returns the next deadline: the end of a backoff or the result of an exchange.
    pub fn next_timeout(&self) -> Instant {
        if let Some(spread) = &self.spread {
            return spread.next_timeout();
        }
        match self.phase {
            Phase::Busy { at, .. } => at,
            Phase::Contention => {
                let first = self.contenders.peek().map_or(Instant::NEVER, |top| self.time_of(top));
                self.apart.iter().fold(first, |first, apart| first.min(self.time_apart(apart)))
            }
        }
    }

    /// Processes the deadline if it is due.
    pub fn handle_timeout(&mut self, now: Instant) {
        if self.next_timeout() > now {
            return;
        }
        if self.spread.is_some() {
            return self.handle_due(now);
        }
        match self.phase {
            Phase::Busy { ending, .. } => self.finish(now, ending),
            Phase::Contention => {
                self.transmitters.clear();
                self.transmit(now);
            }
        }
    }

    /// Starts a busy period at `now` with the stations in `transmitters` and all stations whose
    /// backoff ends too soon for them to sense it.
    fn transmit(&mut self, now: Instant) {
        let sensed = now + self.timing.slot;
        while let Some(top) = self.contenders.peek()
            && self.time_of(top) < sensed
        {
            let (at, station) = (self.time_of(top), top.0 as u16);
            self.contenders.pop();
            self.start_one(station, at);
        }
        let mut place = 0;
        while place < self.apart.len() {
            let apart = self.apart[place];
            let at = self.time_apart(&apart);
            if at < sensed && self.stations[usize::from(apart.station)].away_until(at).is_none() {
                self.apart.swap_remove(place);
                self.transmitters.push((apart.station, at));
            } else {
                place += 1;
            }
        }
        // Stations that have left in the meantime resume when they return.
        self.park(sensed);
        if self.transmitters.is_empty() {
            return;
        }
        let passed = self.passed(now);
        self.base_slot += passed;
        let slot = self.timing.slot.as_nanos();
        for apart in &mut self.apart {
            let passed = now.saturating_since(apart.base).as_nanos() / slot;
            apart.slots = apart.slots.saturating_sub(passed as u32);
        }
        match self.transmitters[..] {
            [(station, start)] => self.exchange(station, start),
            _ => self.collide(),
        }
    }

    /// Transmits for a contender whose backoff has ended, unless it is out of range.
    fn start_one(&mut self, station: u16, at: Instant) {
        match self.stations[usize::from(station)].away_until(at) {
            None => self.transmitters.push((station, at)),
            Some(until) => {
                let base = until + self.timing.difs();
                self.apart.push(Apart { station, base, slots: 0 });
            }
        }
    }

    /// Restarts the backoff of stations that count separately and are out of range at their
    /// transmission time; it begins when they return.
    fn park(&mut self, sensed: Instant) {
        let (slot, difs) = (self.timing.slot, self.timing.difs());
        for apart in &mut self.apart {
            let at = apart.base + slot * u64::from(apart.slots);
            if at < sensed
                && let Some(until) = self.stations[usize::from(apart.station)].away_until(at)
            {
                apart.base = until + difs;
            }
        }
    }

    /// Returns the next packet delivered over the medium.
    pub fn poll_deliver(&mut self) -> Option<Delivery<P>> {
        self.up.pop_front()
    }

    /// Returns the next event, if events are enabled.
    pub fn poll_event(&mut self) -> Option<MediumEvent<P>> {
        self.events.pop_front()
    }

    /// Returns the outcome of the next packet, if outcomes are enabled.
    pub fn poll_outcome(&mut self) -> Option<Outcome<P>> {
        self.outcomes.pop_front()
    }

    /// Returns the counters at `now`; transmissions in progress count up to `now`.
    pub fn counters(&self, now: Instant) -> MediumCounters {
        if let Some(spread) = &self.spread {
            return spread.counters(now, self.counters);
        }
        let (start, end, used) = self.newest;
        let left = end.saturating_since(now.max(start)).as_nanos();
        let mut counters = self.counters;
        let total = match used {
            Use::Success => &mut counters.success_time,
            Use::Collision => &mut counters.collision_time,
            Use::Error => &mut counters.error_time,
        };
        *total = Duration::from_nanos(total.as_nanos() - left);
        counters
    }

    /// Advances the error processes to `now`. No later call starts a frame before `now`.
    pub fn catch_up(&mut self, now: Instant) {
        self.channels.iter_mut().for_each(|channel| channel.catch_up(now));
    }

    /// Returns the number of state changes of the error processes per second of simulated time.
    pub fn replay_rate(&self) -> f64 {
        self.channels.iter().map(ErrorProcess::replay_rate).sum()
    }

    /// Returns the number of data frames of a pair that were received with errors and a readable
    /// header; `None` if its error process destroys headers.
    pub fn readable_headers(&self, pair: PairId) -> Option<u64> {
        let Pair { channel, counters, .. } = &self.pairs[pair.index()];
        self.channels[*channel as usize].readable_headers()?;
        Some(counters.headers_readable)
    }

    /// Returns the counters of a pair.
    pub fn pair_counters(&self, pair: PairId) -> PairCounters {
        self.pairs[pair.index()].counters
    }

    /// Returns the counters of a station.
    pub fn station_counters(&self, station: StationId) -> StationCounters {
        self.stations[station.index()].counters
    }
}
