//! Channel access of stations that are all in range of each other, and the results of their
//! transmissions. Part of the [medium](super::medium); for stations with positions, see
//! [`spread`](super::spread).
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
//! *The busy slot.* With EDCA (802.11n, ac, ax), a counter is decremented at the start of each slot after AIFS, also of
//! the slot in which another station begins to transmit; with the DCF, only at the end of idle slots. With EDCA, the
//! start of a busy period thus moves the number of the current slot by one more.
//!
//! *Equal slots.* A station cannot sense a transmission that began less than a slot ago: a slot is the time
//! required to sense the medium and to switch to transmission (9.3.7), unless [`Timing::sensing`] differs. All
//! stations whose backoff ends within a slot after the first one transmit too, and none of their frames can be read.
//! Backoffs that began at the same time end at multiples of a slot, so stations with equal counters collide.
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
//! All access categories of a sender or a receiver wait like the one of the exchange.
//!
//! *A reserved TXOP* ([`Timing::cf_end`]): the NAV of other hosts lasts until its limit, unless CF-End follows SIFS
//! after the last response. After a failure that is not the first exchange, the next one follows PIFS after the timeout. By
//! default, the NAV of an exchange ends with its acknowledgment, also in a TXOP.
//!
//! A NAV is only ever extended (9.3.2.4). A sender that could not read its CTS may therefore transmit again
//! while the NAV of that CTS defers the other stations; its frames do not shorten the NAV. A NAV set by an
//! RTS is reset if no frame follows within 2 SIFS, a CTS and 2 slots. A station that is out of range neither
//! receives nor transmits; its packets wait.
//!
//! Source: IEEE Std 802.11-2012, 9.3 (DCF); IEEE Std 802.11-2020, 10.23.2.4 (EDCA).

use super::medium::{Medium, Use};
use super::report::{MediumCounters, MediumEvent, PairId, StationId};
use super::station::Attempt;
use crate::phy::Timing;
use lasthop_base::packet::Payload;
use lasthop_base::units::{Duration, Instant};
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// A station that counts its slots separately.
#[derive(Clone, Copy, Debug)]
pub(super) struct Apart {
    pub station: u16,
    pub base: Instant,
    pub slots: u32,
}

/// End of the exchange of one station.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ending {
    /// Data has been received; the acknowledgment ends at this time.
    Acknowledged { at: Instant },
    /// Data has been received, but the acknowledgment is lost; the attempt ends at this time.
    AckLost { attempt: Attempt, at: Instant },
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

/// Stations with equal AIFS. Their slots count from `extra` slots after those of the medium, again after each
/// busy period. A busy period after n idle slots thus defers the ends of their backoffs by min(n, `extra`).
#[derive(Clone, Debug, Default)]
pub(super) struct Class {
    pub extra: u64,
    /// Total by which ends of backoffs have been deferred.
    pub shift: u64,
    /// Stations with a frame, ordered by the number of the slot in which their backoff ends less `shift`: slot,
    /// station.
    pub contenders: BinaryHeap<Reverse<u64>>,
}

/// State of channel access.
#[derive(Clone, Debug)]
pub(super) struct Cell {
    /// Stations by their AIFS. The first class has that of the medium.
    pub classes: Vec<Class>,
    pub apart: Vec<Apart>,
    /// Start of slot `base_slot` of the medium.
    pub base: Instant,
    pub base_slot: u64,
    /// End of the NAV of a CTS that its receiver could not read; all other stations defer until
    /// then.
    pub nav_until: Instant,
    pub phase: Phase,
    /// Transmitters of the exchange in progress, with their start times.
    pub transmitters: Vec<(u16, Instant)>,
    /// Last counted busy period: its start, its end and its use.
    pub newest: (Instant, Instant, Use),
}

impl Cell {
    /// Creates an idle medium.
    pub fn new(timing: &Timing) -> Self {
        Cell {
            classes: vec![Class::default()],
            apart: Vec::new(),
            base: Instant::ZERO + timing.difs(),
            base_slot: 0,
            nav_until: Instant::ZERO,
            phase: Phase::Contention,
            transmitters: Vec::new(),
            newest: (Instant::ZERO, Instant::ZERO, Use::Success),
        }
    }

    /// Reserves memory for `stations` stations.
    pub fn reserve(&mut self, stations: usize) {
        self.classes.iter_mut().for_each(|class| class.contenders.reserve(stations));
        self.apart.reserve(stations);
        self.transmitters.reserve(stations);
    }

    /// Returns the number of the class with `extra` slots of AIFS.
    pub fn class(&mut self, extra: u32) -> u16 {
        let place = self.classes.iter().position(|class| class.extra == u64::from(extra));
        let place = place.unwrap_or_else(|| {
            self.classes.push(Class { extra: extra.into(), ..Class::default() });
            self.classes.len() - 1
        });
        place as u16
    }

    /// Returns the counters at `now` of a medium that has `counted` the newest busy period to its
    /// end.
    pub fn counters(&self, now: Instant, mut counted: MediumCounters) -> MediumCounters {
        let (start, end, used) = self.newest;
        let left = end.saturating_since(now.max(start)).as_nanos();
        let total = counted.time_mut(used);
        *total = Duration::from_nanos(total.as_nanos() - left);
        counted
    }
}

/// Returns the key of a contender in the heap.
fn contender(slot: u64, station: u16) -> Reverse<u64> {
    Reverse(slot << 16 | u64::from(station))
}

impl<P: Payload + Clone> Medium<P> {
    /// Starts channel access of an idle station that has a new frame.
    pub(super) fn begin_in_cell(&mut self, now: Instant, index: u16) {
        let station = &self.stations[usize::from(index)];
        let (backoff_until, defer_until) = (station.backoff_until, station.defer_until);
        if let Some(until) = station.away_until(now) {
            let base = until + self.timing.difs();
            let slots = self.draw(index, base) + self.extra_slots(index);
            self.cell.apart.push(Apart { station: index, base, slots });
            return;
        }
        let from = self.cell.base.max(defer_until);
        let aifs = self.timing.slot * u64::from(self.extra_slots(index));
        let is_idle = self.cell.phase == Phase::Contention && now >= from + aifs;
        let passed = if self.cell.phase == Phase::Contention { self.passed(now) } else { 0 };
        let slot = self.cell.base_slot + passed;
        let class = self.class_of(index);
        if slot < backoff_until + class.shift {
            // The backoff after the previous frame continues.
            class.contenders.push(contender(backoff_until, index));
        } else if is_idle {
            self.cell.transmitters.clear();
            self.cell.transmitters.push((index, now));
            self.transmit(now);
        } else {
            let slots = self.draw(index, from);
            self.join(index, from, slots);
        }
    }

    /// Returns the slots of a station's AIFS above those of the medium.
    pub(super) fn extra_slots(&self, index: u16) -> u32 {
        self.stations[usize::from(index)].category.extra_slots
    }

    /// Returns the class of a station.
    pub(super) fn class_of(&mut self, index: u16) -> &mut Class {
        &mut self.cell.classes[usize::from(self.stations[usize::from(index)].class)]
    }

    /// Adds a station that waits for `slots` slots after its AIFS, which follows the base.
    #[inline(always)]
    pub(super) fn contend(&mut self, index: u16, slots: u32) {
        let base = self.cell.base_slot;
        let class = self.class_of(index);
        let until = base + class.extra + u64::from(slots) - class.shift;
        class.contenders.push(contender(until, index));
        self.stations[usize::from(index)].backoff_until = until;
    }

    /// Returns the number of idle slots since the base.
    fn passed(&self, now: Instant) -> u64 {
        now.saturating_since(self.cell.base).as_nanos() / self.timing.slot.as_nanos()
    }

    /// Samples a backoff whose slots count from `from`.
    #[inline(always)]
    pub(super) fn draw(&mut self, index: u16, from: Instant) -> u32 {
        let station = &mut self.stations[usize::from(index)];
        let window = station.contention_window();
        let slots = station.draw_backoff();
        if self.reports {
            let pair = station.next_pair().map(PairId);
            let from = from + self.timing.slot * u64::from(station.category.extra_slots);
            let station = StationId(index);
            self.events.push_back(MediumEvent::Backoff { station, pair, from, slots, window });
        }
        slots
    }

    /// Adds a station that waits for `slots` slots, which count from `from`.
    #[inline(always)]
    pub(super) fn join(&mut self, index: u16, from: Instant, slots: u32) {
        if from == self.cell.base {
            self.contend(index, slots);
        } else {
            let slots = slots + self.extra_slots(index);
            self.cell.apart.push(Apart { station: index, base: from, slots });
        }
    }

    /// Returns the transmission time of a contender of a class.
    fn time_of(&self, class: &Class, &Reverse(key): &Reverse<u64>) -> Instant {
        self.cell.base + self.timing.slot * ((key >> 16) + class.shift - self.cell.base_slot)
    }

    /// Returns the first transmission time of a class; never, if no station contends.
    fn first_of(&self, class: &Class) -> Instant {
        class.contenders.peek().map_or(Instant::NEVER, |top| self.time_of(class, top))
    }

    /// Returns the transmission time of a station that counts separately.
    pub(super) fn time_apart(&self, apart: &Apart) -> Instant {
        apart.base + self.timing.slot * u64::from(apart.slots)
    }

    /// Returns the next deadline: the end of a backoff or the result of an exchange.
    pub(super) fn next_in_cell(&self) -> Instant {
        match self.cell.phase {
            Phase::Busy { at, .. } => at,
            Phase::Contention => {
                let earlier = |first: Instant, class| first.min(self.first_of(class));
                let first = self.cell.classes.iter().fold(Instant::NEVER, earlier);
                self.cell.apart.iter().fold(first, |first, apart| first.min(self.time_apart(apart)))
            }
        }
    }

    /// Processes the deadline.
    pub(super) fn handle_in_cell(&mut self, now: Instant) {
        match self.cell.phase {
            Phase::Busy { ending, .. } => self.finish(now, ending),
            Phase::Contention => {
                self.cell.transmitters.clear();
                self.transmit(now);
            }
        }
    }

    /// Starts a busy period at `now` with the stations in `transmitters` and all stations whose
    /// backoff ends too soon for them to sense it.
    fn transmit(&mut self, now: Instant) {
        let sensed = now + self.timing.sensing;
        for number in 0..self.cell.classes.len() {
            while let Some(top) = self.cell.classes[number].contenders.peek() {
                let (at, station) = (self.time_of(&self.cell.classes[number], top), top.0 as u16);
                if at >= sensed {
                    break;
                }
                self.cell.classes[number].contenders.pop();
                self.start_one(station, at);
            }
        }
        if !self.cell.apart.is_empty() {
            self.start_apart(sensed);
        }
        if self.cell.transmitters.is_empty() {
            return;
        }
        let timing = &self.timing;
        let passed = timing.decrements(self.cell.base, now);
        self.cell.base_slot += passed;
        for class in &mut self.cell.classes {
            class.shift += passed.min(class.extra);
        }
        for apart in &mut self.cell.apart {
            let passed = timing.decrements(apart.base, now) as u32;
            let extra = self.stations[usize::from(apart.station)].category.extra_slots;
            apart.slots = apart.slots.saturating_sub(passed.saturating_sub(extra));
        }
        if self.has_categories {
            self.yield_to_higher_categories();
        }
        match self.cell.transmitters[..] {
            [(station, start)] => {
                self.begin_txop(station, start);
                self.exchange(station, start);
            }
            _ => self.collide(),
        }
    }

    /// Adds the stations that count separately and whose backoff ends before `sensed` to the transmitters.
    #[inline(never)]
    fn start_apart(&mut self, sensed: Instant) {
        let mut place = 0;
        while place < self.cell.apart.len() {
            let apart = self.cell.apart[place];
            let at = self.time_apart(&apart);
            if at < sensed && self.stations[usize::from(apart.station)].away_until(at).is_none() {
                self.cell.apart.swap_remove(place);
                self.cell.transmitters.push((apart.station, at));
            } else {
                place += 1;
            }
        }
        // Stations that have left in the meantime resume when they return.
        self.park(sensed);
    }

    /// Defers stations whose backoff ends together with that of a higher access category of their host, as after
    /// a collision (802.11-2020, 10.23.2.4).
    fn yield_to_higher_categories(&mut self) {
        let mut place = 0;
        while place < self.cell.transmitters.len() {
            let (index, _) = self.cell.transmitters[place];
            let own = self.stations[usize::from(index)].category;
            let is_higher = |&(other, _): &(u16, Instant)| {
                let other = self.stations[usize::from(other)].category;
                other.host == own.host && other.priority > own.priority
            };
            if !self.cell.transmitters.iter().any(is_higher) {
                place += 1;
                continue;
            }
            self.cell.transmitters.remove(place);
            self.count_internal_collision(index);
            let slots = self.draw(index, self.cell.base);
            self.contend(index, slots);
        }
    }

    /// Starts the next exchange of a station's TXOP, SIFS after the one that ended at `at`, if it fits. Returns
    /// `false` if the TXOP is over.
    #[inline(always)]
    pub(super) fn continue_txop(&mut self, now: Instant, index: u16, at: Instant) -> bool {
        self.stations[usize::from(index)].txop_end.is_some()
            && self.continue_open_txop(now, index, at)
    }

    /// Like [`Self::continue_txop`], for a station with a TXOP.
    #[inline(never)]
    fn continue_open_txop(&mut self, now: Instant, index: u16, at: Instant) -> bool {
        let Some(start) = self.txop_continues(now, index, at) else { return false };
        self.cell.transmitters.clear();
        self.cell.transmitters.push((index, start));
        self.exchange(index, start);
        true
    }

    /// Transmits for a contender whose backoff has ended, unless it is out of range.
    fn start_one(&mut self, station: u16, at: Instant) {
        match self.stations[usize::from(station)].away_until(at) {
            None => self.cell.transmitters.push((station, at)),
            Some(until) => {
                let base = until + self.timing.difs();
                let slots = self.extra_slots(station);
                self.cell.apart.push(Apart { station, base, slots });
            }
        }
    }

    /// Restarts the backoff of stations that count separately and are out of range at their
    /// transmission time; it begins when they return.
    fn park(&mut self, sensed: Instant) {
        let (slot, difs) = (self.timing.slot, self.timing.difs());
        for apart in &mut self.cell.apart {
            let at = apart.base + slot * u64::from(apart.slots);
            if at < sensed
                && let Some(until) = self.stations[usize::from(apart.station)].away_until(at)
            {
                apart.base = until + difs;
            }
        }
    }
}
