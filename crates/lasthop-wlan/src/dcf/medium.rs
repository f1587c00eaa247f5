//! The medium of 802.11 stations: who transmits when, and what becomes of it. Those without positions all
//! hear each other, as follows; those with positions are `spread` out.
//!
//! ```text
//!   busy | DIFS |  0  |  1  |  2  |  3  | busy ...             slots of the medium
//!               ^ base                  ^ a back-off ends: everybody else freezes
//!
//!                 deadline: a back-off ends           data has arrived, or
//!   +------------+ ----------------------> +------+   nobody answers
//!   | contention |                         | busy | ------------------------+
//!   +------------+ <---------------------- +------+                         |
//!          ^        next base, back-offs drawn                              |
//!          +----------------------------------------------------------------+
//! ```
//!
//! One deadline, none a slot. Idle slots of the medium are numbered, whatever time lies between them; a
//! back-off of b slots that begins at number n ends at n + b, so that stations freeze and go on without
//! being looked at. The next one to end is at the top of a heap: a station that waits costs nothing, an
//! idle one nothing at all. Stations that begin to count at another time than the others (after a frame
//! that they could not read, after a timeout, or because they have been away) wait in a short list
//! until the medium is busy again.
//!
//! *Equal slots.* A station cannot sense a transmission that began less than a slot ago: a slot is the
//! time that it takes to sense the medium and to turn around (9.3.7). All whose back-off ends within a slot
//! after the first one transmit too, and nobody can read any of their frames. Back-offs that began at the
//! same time end at multiples of a slot, so that those with equal counters collide.
//!
//! *An exchange* (RTS, CTS,) data, acknowledgment is computed when it begins, since nobody interrupts it:
//! SIFS is shorter than DIFS, and everybody has heard the first frame. Before slots count again,
//!
//! | after | sender | receiver | others |
//! |---|---|---|---|
//! | an acknowledgment | DIFS | DIFS | DIFS |
//! | data that came damaged | timeout, DIFS | EIFS | NAV (SIFS, acknowledgment), DIFS |
//! | an acknowledgment that came damaged | EIFS | DIFS | DIFS |
//! | an RTS that came damaged | timeout, DIFS | EIFS | NAV until it is reset, DIFS |
//! | a CTS that came damaged | EIFS | NAV of the whole exchange, DIFS | the same |
//! | frames that collided | timeout or the end of the longest, DIFS | | EIFS |
//!
//! A NAV is only ever raised (9.3.2.4): a sender that could not read its CTS may transmit again while the NAV of that CTS keeps the
//! others silent, and what it sends does not shorten it. A NAV that an RTS has raised is reset if nothing follows within 2 SIFS, a
//! CTS and 2 slots. A station that is away hears nothing, answers nothing and sends nothing; its packets wait.
//!
//! Source: IEEE Std 802.11-2012, 9.3 (DCF). Calls carry `now`, which never decreases. After
//! [`Medium::enqueue`] and [`Medium::handle_timeout`] the driver drains [`Medium::poll_deliver`]; what a
//! delivery sets off may be enqueued at once.
//!
//! *Not modelled*: fragments, broadcast, noise at stations that a frame is not
//! for, propagation delay, power save, association.

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
    /// Index of its error process.
    pub(super) channel: u32,
    pub(super) rts: Duration,
    /// A CTS is as long as an acknowledgment.
    pub(super) ack: Duration,
    /// Air time of data of `known_length`: most frames are as long as the one before.
    pub(super) known_length: Bytes,
    pub(super) known_time: Duration,
    /// Number of the data frame that came last.
    pub(super) last_received: Option<u64>,
    pub(super) counters: PairCounters,
}

/// A station that counts from a time of its own.
#[derive(Clone, Copy, Debug)]
pub(super) struct Apart {
    pub(super) station: u16,
    pub(super) base: Instant,
    pub(super) slots: u32,
}

/// How an exchange of one station ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ending {
    /// Data have arrived; the acknowledgment will at this time.
    Acknowledged { at: Instant },
    /// Data have arrived, the acknowledgment will not; then this attempt is over.
    AckLost { at: Instant },
    /// Data have arrived with nothing but their header intact; the attempt is over at this time.
    Damaged { attempt: Attempt, at: Instant },
    /// Data or an RTS have not been answered.
    Failed { attempt: Attempt },
    /// Several transmitted.
    Collided,
}

/// What the deadline is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    /// The next back-off to end.
    Contention,
    /// An exchange that is under way.
    Busy { ending: Ending, at: Instant },
}

/// What a stretch of busy time was used for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Use {
    Success,
    Collision,
    Error,
}

/// Stations that share the air.
#[derive(Clone, Debug)]
pub struct Medium<P: Payload> {
    pub(super) phy: Phy,
    pub(super) timing: Timing,
    /// Do noise and the two-state processes meet RTS, CTS and acknowledgments too?
    pub(super) control_errors: bool,
    pub(super) stations: Vec<Station<P>>,
    pub(super) pairs: Vec<Pair>,
    pub(super) channels: Vec<Channel>,
    /// Stations with a frame by the number of the slot in which their back-off ends: slot, station.
    pub(super) contenders: BinaryHeap<Reverse<u64>>,
    pub(super) apart: Vec<Apart>,
    /// When the medium's slot `base_slot` begins.
    pub(super) base: Instant,
    pub(super) base_slot: u64,
    /// Until when a CTS that its receiver could not read keeps all others silent.
    pub(super) nav_until: Instant,
    pub(super) phase: Phase,
    /// Who transmits in the exchange under way, and when they began.
    pub(super) transmitters: Vec<(u16, Instant)>,
    /// Busy time that has been counted: its start, its end and its use.
    pub(super) newest: (Instant, Instant, Use),
    pub(super) up: VecDeque<Delivery<P>>,
    pub(super) reports: bool,
    pub(super) events: VecDeque<MediumEvent<P>>,
    pub(super) keeps_outcomes: bool,
    pub(super) outcomes: VecDeque<Outcome<P>>,
    pub(super) counters: MediumCounters,
    /// If stations have positions, what they sense; the counts of slots above then stand still.
    pub(super) spread: Option<Box<Spread>>,
}

/// A contender as the heap orders it.
fn contender(slot: u64, station: u16) -> Reverse<u64> {
    Reverse(slot << 16 | u64::from(station))
}

impl<P: Payload + Clone> Medium<P> {
    /// A medium without stations. `control_errors`: error processes meet control frames as well as data.
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

    /// Lets it keep events for [`Self::poll_event`], which somebody then must take.
    pub fn report_events(&mut self) {
        self.reports = true;
    }

    /// Lets it keep what becomes of each packet for [`Self::poll_outcome`], which somebody then must take.
    pub fn keep_outcomes(&mut self) {
        self.keeps_outcomes = true;
    }

    /// Adds a station before whose MAC packets wait in `queue`, and whose back-offs come from `backoff`; at
    /// most 65,536.
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

    /// A station is out of reach during `periods`, which are in order and do not overlap.
    pub fn set_away(&mut self, station: StationId, periods: &[[Instant; 2]]) {
        self.stations[station.index()].set_away(periods);
    }

    /// Lets `from` send to `to` at `rate`, with control frames at `control_rate`; `channel` destroys
    /// what goes that way.
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

    /// The pair of the opposite direction of `there`, which shares its error process.
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

    /// Timings of the medium.
    pub fn timing(&self) -> &Timing {
        &self.timing
    }

    /// Would a packet for `pair` that comes now leave room for another one like it?
    pub fn has_spare_room(&self, now: Instant, pair: PairId, packet: &P) -> bool {
        let from = self.pairs[pair.index()].from;
        self.stations[usize::from(from)].has_room(now, packet, 2)
    }

    /// Packets that wait at the transmitter of `pair`, the frame that is being sent included.
    pub fn queued(&self, now: Instant, pair: PairId) -> u64 {
        self.stations[usize::from(self.pairs[pair.index()].from)].length(now)
    }

    /// A packet joins the queue of the transmitter of `pair`; false: it is full.
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

    /// The next packet of a station without a frame becomes its frame; false if its queue has none, or has dropped all.
    pub(super) fn take_next(&mut self, now: Instant, index: u16) -> bool {
        let is_there = self.stations[usize::from(index)].take_next(now);
        self.count_dropped(index);
        is_there
    }

    /// Counts what the queue of a station has dropped in the last call, that of a packet itself apart.
    fn count_dropped(&mut self, index: u16) {
        for &Waiting { pair, ref packet } in self.stations[usize::from(index)].dropped() {
            self.pairs[pair as usize].counters.drops += 1;
            if self.reports {
                let packet = packet.clone();
                self.events.push_back(MediumEvent::Dropped { pair: PairId(pair), packet });
            }
        }
    }

    /// What the queue of a station did; `None` where it drops only what finds it full.
    pub fn early(&self, pair: PairId) -> Option<(StationId, DisciplineCounters)> {
        let from = self.pairs[pair.index()].from;
        Some((StationId(from), self.stations[usize::from(from)].early()?))
    }

    /// An idle station has got a frame.
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
            // The back-off after the frame before goes on.
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

    /// Idle slots that have passed since the base.
    fn passed(&self, now: Instant) -> u64 {
        now.saturating_since(self.base).as_nanos() / self.timing.slot.as_nanos()
    }

    /// Draws a back-off whose slots count from `from`.
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

    /// A station waits for so many slots, which count from `from`.
    pub(super) fn join(&mut self, index: u16, from: Instant, slots: u32) {
        if from == self.base {
            let until = self.base_slot + u64::from(slots);
            self.stations[usize::from(index)].backoff_until = until;
            self.contenders.push(contender(until, index));
        } else {
            self.apart.push(Apart { station: index, base: from, slots });
        }
    }

    /// When a contender transmits.
    fn time_of(&self, &Reverse(key): &Reverse<u64>) -> Instant {
        self.base + self.timing.slot * ((key >> 16) - self.base_slot)
    }

    /// When a station that counts by itself transmits.
    fn time_apart(&self, apart: &Apart) -> Instant {
        apart.base + self.timing.slot * u64::from(apart.slots)
    }

    /// The one deadline: the end of a back-off, or what comes of an exchange.
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

    /// The deadline may have come.
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

    /// The medium becomes busy at `now`: with those in `transmitters`, and with all whose back-off ends
    /// too soon for them to sense it.
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
        // Those that have left in the meantime come back later.
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

    /// A contender's back-off is over: it transmits, unless it is away.
    fn start_one(&mut self, station: u16, at: Instant) {
        match self.stations[usize::from(station)].away_until(at) {
            None => self.transmitters.push((station, at)),
            Some(until) => {
                let base = until + self.timing.difs();
                self.apart.push(Apart { station, base, slots: 0 });
            }
        }
    }

    /// Stations that count by themselves and are away when they would transmit begin again when they are
    /// back.
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

    /// The next packet that has come over the medium.
    pub fn poll_deliver(&mut self) -> Option<Delivery<P>> {
        self.up.pop_front()
    }

    /// The next event, if the medium reports.
    pub fn poll_event(&mut self) -> Option<MediumEvent<P>> {
        self.events.pop_front()
    }

    /// What has become of the next packet, if the medium keeps outcomes.
    pub fn poll_outcome(&mut self) -> Option<Outcome<P>> {
        self.outcomes.pop_front()
    }

    /// Counters by `now`: what is on the air then counts as far as it is over.
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

    /// Error processes go on to `now`, before which no frame starts any more.
    pub fn catch_up(&mut self, now: Instant) {
        self.channels.iter_mut().for_each(|channel| channel.catch_up(now));
    }

    /// Changes of state of the error processes in a second of simulated time.
    pub fn replay_rate(&self) -> f64 {
        self.channels.iter().map(ErrorProcess::replay_rate).sum()
    }

    /// Data frames of a pair so far that were damaged and whose header could be read; `None` where its errors leave none.
    pub fn readable_headers(&self, pair: PairId) -> Option<u64> {
        let Pair { channel, counters, .. } = &self.pairs[pair.index()];
        self.channels[*channel as usize].readable_headers()?;
        Some(counters.headers_readable)
    }

    /// Counters of a pair.
    pub fn pair_counters(&self, pair: PairId) -> PairCounters {
        self.pairs[pair.index()].counters
    }

    /// Counters of a station.
    pub fn station_counters(&self, station: StationId) -> StationCounters {
        self.stations[station.index()].counters
    }
}
