//! Results of the transmissions of stations in range of each other: successes, losses and collisions, and the
//! waiting times that follow, as the table of [`cell`](super::cell) states.

use super::cell::{Apart, Ending, Phase};
use super::exchange::FrameExchange;
use super::medium::{Medium, Use};
use super::report::{AirFate, AirFrame};
use super::station::Attempt;
use crate::phy::Timing;
use lasthop_base::packet::Payload;
use lasthop_base::units::{Duration, Instant};
use std::cmp::Reverse;

impl<P: Payload + Clone> Medium<P> {
    /// Computes the exchange of a single station that transmits from `start`.
    pub(super) fn exchange(&mut self, index: u16, start: Instant) {
        if self.stations[usize::from(index)].is_aggregating() {
            return self.exchange_aggregate(index, start);
        }
        let exchange = self.begin_plain_exchange(index);
        self.transmit_all(index, &exchange, start);
    }

    /// Like [`Self::exchange`], for a station with block-ack agreements.
    #[inline(never)]
    fn exchange_aggregate(&mut self, index: u16, start: Instant) {
        let exchange = self.begin_aggregate(start, index);
        self.transmit_all(index, &exchange, start);
    }

    /// Transmits the frames of an exchange up to the first one that is lost.
    #[inline(always)]
    fn transmit_all(&mut self, index: u16, exchange: &FrameExchange, start: Instant) {
        let to = self.pairs[exchange.pair as usize].to;
        let is_there = self.stations[usize::from(to)].away_until(start).is_none();
        // End of the latest frame and start of the next one.
        let mut times = [start, start];
        if exchange.has_rts
            && !(self.transmit_frame(index, exchange, AirFrame::Rts, start, &mut times, is_there)
                && self.transmit_frame(index, exchange, AirFrame::Cts, start, &mut times, is_there))
        {
            return;
        }
        if !self.transmit_frame(index, exchange, exchange.data, start, &mut times, is_there) {
            return;
        }
        let [before, _] = times;
        if self.transmit_frame(index, exchange, exchange.answer, start, &mut times, is_there) {
            let [end, _] = times;
            self.count_from(end + self.timing.difs());
            self.account(start, end, Use::Success);
            let ending = Ending::Acknowledged { at: end };
            self.cell.phase = Phase::Busy { ending, at: before };
        }
    }

    /// Transmits a frame of the exchange that has begun at `start`, and updates `times`: end of the
    /// latest frame and start of the next one. Returns `false` if the frame is lost. It is inlined
    /// for each frame of an exchange, because the kinds of most of them are constant.
    #[inline(always)]
    fn transmit_frame(
        &mut self,
        index: u16,
        exchange: &FrameExchange,
        kind: AirFrame,
        start: Instant,
        times: &mut [Instant; 2],
        is_there: bool,
    ) -> bool {
        let [before, at] = *times;
        let end = at + exchange.time(kind);
        self.count_frame(exchange, kind, at);
        let is_lost = self.is_frame_lost(exchange, kind, [at, end]) || !is_there;
        let fate = if is_lost { AirFate::Damaged } else { AirFate::Received };
        self.show(exchange, kind, [at, end], fate);
        if is_lost {
            self.lose(index, exchange, kind, [start, before, end], is_there);
            return false;
        }
        self.on_frame_read(exchange, kind);
        *times = [end, end + exchange.sifs];
        true
    }

    /// Ends an exchange with the loss of a frame: defers all stations as the table of waiting times
    /// states. The exchange has begun at `start`; `before` is the end of the frame before the
    /// lost one.
    #[inline(never)]
    fn lose(
        &mut self,
        index: u16,
        exchange: &FrameExchange,
        kind: AirFrame,
        [start, before, end]: [Instant; 3],
        is_there: bool,
    ) {
        let (difs, eifs) = (self.timing.difs(), self.timing.eifs());
        let timeout = end + self.timing.response_timeout;
        let reserved = end + exchange.reserves(kind);
        let others = match kind {
            AirFrame::Rts => {
                // The NAV is reset if this RTS has set it.
                if reserved > self.cell.nav_until {
                    self.cell.nav_until = Instant::ZERO;
                }
                end + exchange.nav_reset(&self.timing)
            }
            AirFrame::Cts => {
                self.cell.nav_until = self.cell.nav_until.max(reserved);
                reserved
            }
            _ if self.timing.cf_end.is_some() => {
                reserved.max(self.stations[usize::from(index)].txop_end.unwrap_or(reserved))
            }
            _ => reserved,
        };
        self.count_from(others + difs);
        self.account(start, end, Use::Error);
        let attempt = exchange.failed(kind);
        if kind.is_response() {
            self.stations[usize::from(index)].defer_until = end + eifs;
            self.cell.phase = match kind {
                AirFrame::Ack | AirFrame::BlockAck { .. } => {
                    let ending = Ending::AckLost { attempt, at: end };
                    Phase::Busy { ending, at: before }
                }
                _ => Phase::Busy { ending: Ending::Failed { attempt }, at: end },
            };
            return;
        }
        if is_there {
            self.defer_host(self.pairs[exchange.pair as usize].to, end + eifs);
        }
        self.stations[usize::from(index)].defer_until = timeout + difs;
        // Other stations may transmit from the base. A sender with a longer timeout counts its
        // slots separately.
        let over = timeout.min(self.cell.base);
        let is_data = kind.is_data();
        self.cell.phase = if is_data && is_there && self.is_header_readable(exchange) {
            Phase::Busy { ending: Ending::Damaged { attempt, at: over }, at: end }
        } else {
            Phase::Busy { ending: Ending::Failed { attempt }, at: over }
        };
    }

    /// Computes the collision of several stations.
    pub(super) fn collide(&mut self) {
        let Timing { response_timeout, detects_collisions, .. } = self.timing;
        let (difs, eifs) = (self.timing.difs(), self.timing.eifs());
        let mut busy = [Instant::NEVER, Instant::ZERO];
        for place in 0..self.cell.transmitters.len() {
            let (index, start) = self.cell.transmitters[place];
            self.begin_txop(index, start);
            let exchange = self.begin_exchange(start, index);
            let kind = *exchange.first();
            let end = start + exchange.time(kind);
            self.pairs[exchange.pair as usize].counters.collisions += 1;
            self.count_frame(&exchange, kind, start);
            self.show(&exchange, kind, [start, end], AirFate::Collided);
            self.stations[usize::from(index)].defer_until = end + response_timeout;
            busy = [busy[0].min(start), busy[1].max(end)];
        }
        self.counters.collisions += 1;
        self.account(busy[0], busy[1], Use::Collision);
        self.count_from(busy[1] + if detects_collisions { eifs } else { difs });
        // No station may transmit before the result is known. If the sender of a short frame
        // resumes earlier, the result of a longer frame is computed in advance.
        let mut first = self.cell.base.min(busy[1] + response_timeout);
        for &(index, _) in &self.cell.transmitters {
            let station = &mut self.stations[usize::from(index)];
            station.defer_until = busy[1].max(station.defer_until) + difs;
            first = first.min(station.defer_until);
        }
        self.cell.phase = Phase::Busy { ending: Ending::Collided, at: first };
    }

    /// Records that the medium is busy from `start` to `end`.
    fn account(&mut self, start: Instant, end: Instant, used: Use) {
        let total = self.counters.time_mut(used);
        *total = *total + end.saturating_since(start);
        self.cell.newest = (start, end, used);
    }

    /// Resumes the count of slots at `base`, or when the NAV has ended.
    fn count_from(&mut self, base: Instant) {
        self.cell.base = base.max(self.cell.nav_until + self.timing.difs());
    }

    /// Defers the access categories of a host whose attempt has failed: all of them have waited for the response.
    fn defer_categories(&mut self, index: u16, until: Instant) {
        if self.has_categories {
            self.defer_host(index, until);
        }
    }

    /// Defers all access categories of a host.
    fn defer_host(&mut self, index: u16, until: Instant) {
        if !self.has_categories {
            return self.defer(index, until);
        }
        let host = self.stations[usize::from(index)].category.host;
        for index in 0..self.stations.len() as u16 {
            if self.stations[usize::from(index)].category.host == host {
                self.defer(index, until);
            }
        }
    }

    /// Defers a receiver of a damaged frame, which counts its slots later than the others.
    fn defer(&mut self, index: u16, until: Instant) {
        self.stations[usize::from(index)].defer_until = until;
        if until != self.cell.base && self.stations[usize::from(index)].is_contending() {
            // The station waits with the others, or already counts separately.
            let key = |entry: &Reverse<u64>| entry.0 as u16 == index;
            let base = self.cell.base_slot;
            let class = self.class_of(index);
            if let Some(&Reverse(entry)) = class.contenders.iter().find(|entry| key(entry)) {
                class.contenders.retain(|entry| !key(entry));
                let slots = ((entry >> 16) + class.shift).saturating_sub(base) as u32;
                self.cell.apart.push(Apart { station: index, base: until, slots });
            } else if let Some(apart) =
                self.cell.apart.iter_mut().find(|known| known.station == index)
            {
                apart.base = apart.base.max(until);
            }
        }
    }

    /// Applies the result of an exchange.
    pub(super) fn finish(&mut self, now: Instant, ending: Ending) {
        let (station, _) = self.cell.transmitters[0];
        match ending {
            Ending::Acknowledged { at } => {
                self.pass_up(now, station);
                let (start, end, _) = self.cell.newest;
                let time = end.saturating_since(start);
                let last = self.timing.cf_end.is_some().then(|| self.exchange_of(station));
                self.conclude(station, Attempt::Acknowledged, at, time);
                if self.continue_txop(now, station, at) {
                    return;
                }
                let at = last.map_or(at, |last| self.end_txop(station, &last, at));
                self.release();
                // Not from `base`: the sender of data after an unread CTS has no NAV, and no category of the holder
                // of a TXOP waits for the rest that it has reserved.
                let from = at + self.timing.difs();
                if from < self.cell.base {
                    self.defer_categories(station, from);
                }
                self.resume(now, station, from);
            }
            Ending::AckLost { attempt, at } => {
                self.pass_up(now, station);
                self.cell.phase = Phase::Busy { ending: Ending::Failed { attempt }, at };
            }
            Ending::Damaged { attempt, at } => {
                self.pass_up_damaged(station);
                self.cell.phase = Phase::Busy { ending: Ending::Failed { attempt }, at };
            }
            Ending::Failed { attempt } => self.fail_exchange(now, station, attempt),
            Ending::Collided => {
                self.release();
                for place in 0..self.cell.transmitters.len() {
                    let (index, _) = self.cell.transmitters[place];
                    let exchange = self.exchange_of(index);
                    let attempt = exchange.failed(*exchange.first());
                    let from = self.stations[usize::from(index)].defer_until;
                    self.defer_categories(index, from);
                    let (start, end, _) = self.cell.newest;
                    let time = end.saturating_since(start);
                    let delay = self.conclude(index, attempt, now, time);
                    self.resume_after(now, index, delay, from);
                }
            }
        }
    }

    /// Ends the TXOP of a station whose last exchange ended at `at`. With CF-End, it sends this frame if it fits
    /// into the rest; if it does not fit, other hosts wait for the limit, which the last frame has reserved. Returns
    /// the end of the last frame.
    fn end_txop(&mut self, index: u16, last: &FrameExchange, at: Instant) -> Instant {
        let limit = self.stations[usize::from(index)].txop_end;
        let (Some(time), Some(limit)) = (self.timing.cf_end, limit) else { return at };
        let start = at + self.timing.sifs;
        let end = start + time;
        if end >= limit {
            self.count_from(limit + self.timing.difs());
            return at;
        }
        self.show(last, AirFrame::CfEnd, [start, end], AirFate::Received);
        self.account(start, end, Use::Success);
        self.count_from(end + self.timing.difs());
        end
    }

    /// Applies the failure of an exchange. If the rest of a TXOP is reserved, and this was not its first exchange, the
    /// next one begins PIFS after the timeout if it fits (802.11-2020, 10.23.2.8).
    fn fail_exchange(&mut self, now: Instant, index: u16, attempt: Attempt) {
        let (start, end, _) = self.cell.newest;
        let time = end.saturating_since(start);
        let station = &self.stations[usize::from(index)];
        let (pair, from, category) = (station.attempted(), station.defer_until, station.category);
        let is_later = station.txop_end.is_some_and(|end| start + category.txop_limit > end);
        self.count_error(pair, time);
        let delay = self.conclude(index, attempt, now, time);
        if self.timing.cf_end.is_some() && is_later {
            let timeout = end + self.timing.response_timeout;
            if self.continue_txop(now, index, timeout + self.timing.slot) {
                return;
            }
        }
        self.release();
        self.defer_categories(index, from);
        self.resume_after(now, index, delay, from);
    }

    /// Resumes the count of slots. Stations that counted separately join the others, unless they
    /// are later.
    fn release(&mut self) {
        self.cell.phase = Phase::Contention;
        let mut place = 0;
        while place < self.cell.apart.len() {
            let Apart { station, base, slots } = self.cell.apart[place];
            if base <= self.cell.base {
                self.cell.apart.swap_remove(place);
                let slots = slots.saturating_sub(self.extra_slots(station));
                self.join(station, self.cell.base, slots);
            } else {
                place += 1;
            }
        }
    }

    /// Like [`Self::resume`], not before the `delay` of the next attempt of a frame that has failed at `now`.
    fn resume_after(&mut self, now: Instant, index: u16, delay: Option<Duration>, from: Instant) {
        self.resume(now, index, delay.map_or(from, |delay| from.max(now + delay)));
    }

    /// Starts the backoff of a station after an attempt, with or without a next frame. `from`: start of its slots.
    fn resume(&mut self, now: Instant, index: u16, from: Instant) {
        self.stations[usize::from(index)].txop_end = None;
        let has_frame = self.has_frame(now, index);
        let slots = self.draw(index, from);
        if has_frame {
            self.join(index, from, slots);
        } else {
            let base = self.cell.base_slot;
            let class = self.class_of(index);
            let until = base + class.extra + u64::from(slots) - class.shift;
            self.stations[usize::from(index)].backoff_until = until;
        }
    }
}
