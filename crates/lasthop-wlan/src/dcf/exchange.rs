//! Results of transmissions: exchanges of one station, collisions of several, and their
//! consequences. Part of the [medium](super::medium), whose documentation has the table of waiting
//! times.

use super::frames;
use super::medium::{Apart, Ending, Medium, Pair, Phase, Use};
use super::phy::Timing;
use super::report::{AirFate, AirFrame, Delivery, MediumEvent, Outcome, PairId};
use super::station::{Attempt, Current, Next};
use lasthop_base::packet::{LinkFate, Payload};
use lasthop_base::units::{Bytes, Duration, Instant};
use lasthop_link::channel::{Airtime, ErrorProcess};
use std::cmp::Reverse;

impl<P: Payload + Clone> Medium<P> {
    /// Returns the length and the air time of the data frame that a station attempts to send.
    pub(super) fn data_time(&mut self, station: u16, pair: u32) -> (Bytes, Duration) {
        let station = &self.stations[usize::from(station)];
        let Some(frame) = &station.current else { unreachable!("a contender has a frame") };
        let length = station.frame_length(&frame.packet);
        let pair = &mut self.pairs[pair as usize];
        if pair.known_length != length {
            pair.known_length = length;
            pair.known_time = self.phy.airtime(length, pair.rate);
        }
        (length, pair.known_time)
    }

    /// Returns `true` if a frame on `pair` is received with errors.
    pub(super) fn is_lost(&mut self, pair: u32, start: Instant, end: Instant, length: u64) -> bool {
        let channel = self.pairs[pair as usize].channel;
        self.channels[channel as usize].is_lost(Airtime { start, end, bits: length * 8 })
    }

    /// Returns `true` if the header of the last frame with errors on `pair` is readable.
    pub(super) fn is_header_readable(&self, pair: u32) -> bool {
        self.channels[self.pairs[pair as usize].channel as usize].is_header_readable()
    }

    /// Returns `true` if a control frame is lost, against the direction of `pair` or along it.
    pub(super) fn is_control_lost(
        &mut self,
        pair: u32,
        start: Instant,
        end: Instant,
        length: u64,
    ) -> bool {
        self.control_errors && self.is_lost(pair, start, end, length)
    }

    /// Records a transmitted frame for an observer.
    pub(super) fn show(
        &mut self,
        pair: u32,
        kind: AirFrame,
        [start, end]: [Instant; 2],
        fate: AirFate,
        reserves: Duration,
    ) {
        if !self.reports {
            return;
        }
        let (packet, length) = match kind {
            AirFrame::Data { .. } => {
                let from = &self.stations[usize::from(self.pairs[pair as usize].from)];
                let Some(frame) = &from.current else { unreachable!("a contender has a frame") };
                (Some(frame.packet.clone()), from.frame_length(&frame.packet).get())
            }
            AirFrame::Rts => (None, frames::RTS),
            AirFrame::Cts => (None, frames::CTS),
            AirFrame::Ack => (None, frames::ACK),
        };
        let (pair, bytes) = (PairId(pair), length as u32);
        self.events.push_back(MediumEvent::Frame {
            pair,
            kind,
            start,
            end,
            fate,
            packet,
            bytes,
            reserves,
        });
    }

    /// Counts the transmission of a data frame.
    pub(super) fn count_data(&mut self, pair: u32, length: Bytes) {
        let counters = &mut self.pairs[pair as usize].counters;
        counters.data_sent += 1;
        counters.bits_sent += length.bits();
    }

    /// Computes the exchange of a single station that transmits from `start`.
    pub(super) fn exchange(&mut self, index: u16, start: Instant) {
        let Timing { slot, sifs, response_timeout, .. } = self.timing;
        let (difs, eifs) = (self.timing.difs(), self.timing.eifs());
        let station = &self.stations[usize::from(index)];
        let Some(frame) = &station.current else { unreachable!("a contender has a frame") };
        let (pair, sequence, is_retry) = (frame.pair, frame.sequence, frame.is_retry);
        let (threshold, has_failed) = (station.parameters.rts_threshold, frame.has_failed());
        let (length, data_time) = self.data_time(index, pair);
        let Pair { to, back, rts, ack, .. } = self.pairs[pair as usize];
        // Responses are subject to the errors of the opposite direction, if it is defined.
        let back = back.unwrap_or(pair);
        let is_long = length > threshold;
        self.count_attempt(pair, has_failed);
        let is_there = self.stations[usize::from(to)].away_until(start).is_none();
        let fate = |is_lost: bool| if is_lost { AirFate::Damaged } else { AirFate::Received };
        let mut at = start;
        if is_long {
            let rts_end = at + rts;
            let is_lost = self.is_control_lost(pair, at, rts_end, frames::RTS) || !is_there;
            let exchange = sifs + ack + sifs + data_time + sifs + ack;
            self.show(pair, AirFrame::Rts, [at, rts_end], fate(is_lost), exchange);
            if is_lost {
                let timeout = rts_end + response_timeout;
                // No response: the NAV is reset if this RTS has set it, and the sender continues
                // after its timeout.
                if rts_end + exchange > self.nav_until {
                    self.nav_until = Instant::ZERO;
                }
                self.count_from(rts_end + sifs * 2 + ack + slot * 2 + difs);
                if is_there {
                    self.defer(to, rts_end + eifs);
                }
                self.defer_sender(index, timeout + difs);
                self.account(start, rts_end, Use::Error);
                let attempt = Attempt::NoCts;
                let at = timeout.min(self.base);
                self.phase = Phase::Busy { ending: Ending::Failed { attempt }, at };
                return;
            }
            let cts = [rts_end + sifs, rts_end + sifs + ack];
            let is_lost = self.is_control_lost(back, cts[0], cts[1], frames::CTS);
            let data_and_ack = sifs + data_time + sifs + ack;
            self.show(pair, AirFrame::Cts, cts, fate(is_lost), data_and_ack);
            if is_lost {
                self.nav_until = self.nav_until.max(cts[1] + data_and_ack);
                self.count_from(self.nav_until + difs);
                self.defer_sender(index, cts[1] + eifs);
                self.account(start, cts[1], Use::Error);
                let attempt = Attempt::NoCts;
                self.phase = Phase::Busy { ending: Ending::Failed { attempt }, at: cts[1] };
                return;
            }
            self.stations[usize::from(index)].on_cts();
            at = cts[1] + sifs;
        }
        let data_end = at + data_time;
        let is_lost = self.is_lost(pair, at, data_end, length.get()) || !is_there;
        self.count_data(pair, length);
        let kind = AirFrame::Data { sequence, is_retry };
        self.show(pair, kind, [at, data_end], fate(is_lost), sifs + ack);
        let answer = [data_end + sifs, data_end + sifs + ack];
        self.count_from(answer[1] + difs);
        if is_lost {
            let timeout = data_end + response_timeout;
            if is_there {
                self.defer(to, data_end + eifs);
            }
            self.defer_sender(index, timeout + difs);
            self.account(start, data_end, Use::Error);
            let attempt = Attempt::NoAck { is_long };
            // Other stations may transmit from the base. A sender with a longer timeout counts its
            // slots separately.
            let at = timeout.min(self.base);
            self.phase = if is_there && self.is_header_readable(pair) {
                Phase::Busy { ending: Ending::Damaged { attempt, at }, at: data_end }
            } else {
                Phase::Busy { ending: Ending::Failed { attempt }, at }
            };
            return;
        }
        self.pairs[pair as usize].counters.data_received += 1;
        let is_lost = self.is_control_lost(back, answer[0], answer[1], frames::ACK);
        self.show(pair, AirFrame::Ack, answer, fate(is_lost), Duration::ZERO);
        let ending = if is_lost {
            self.defer_sender(index, answer[1] + eifs);
            self.account(start, answer[1], Use::Error);
            Ending::AckLost { at: answer[1] }
        } else {
            self.account(start, answer[1], Use::Success);
            Ending::Acknowledged { at: answer[1] }
        };
        self.phase = Phase::Busy { ending, at: data_end };
    }

    /// Computes the collision of several stations.
    pub(super) fn collide(&mut self) {
        let Timing { response_timeout, .. } = self.timing;
        let (difs, eifs) = (self.timing.difs(), self.timing.eifs());
        let mut busy = [Instant::NEVER, Instant::ZERO];
        let mut over = Instant::ZERO;
        for place in 0..self.transmitters.len() {
            let (index, start) = self.transmitters[place];
            let station = &self.stations[usize::from(index)];
            let Some(frame) = &station.current else { unreachable!("a contender has a frame") };
            let (pair, sequence, is_retry) = (frame.pair, frame.sequence, frame.is_retry);
            let (threshold, has_failed) = (station.parameters.rts_threshold, frame.has_failed());
            let (length, data_time) = self.data_time(index, pair);
            let is_long = length > threshold;
            let rts = self.pairs[pair as usize].rts;
            let end = start + if is_long { rts } else { data_time };
            self.count_attempt(pair, has_failed);
            let counters = &mut self.pairs[pair as usize].counters;
            counters.collisions += 1;
            if !is_long {
                self.count_data(pair, length);
            }
            let kind = match is_long {
                true => AirFrame::Rts,
                false => AirFrame::Data { sequence, is_retry },
            };
            let ack = self.timing.sifs + self.pairs[pair as usize].ack;
            let reserves = match is_long {
                true => ack + self.timing.sifs + data_time + ack,
                false => ack,
            };
            self.show(pair, kind, [start, end], AirFate::Collided, reserves);
            busy = [busy[0].min(start), busy[1].max(end)];
            over = over.max(end + response_timeout);
        }
        self.counters.collisions += 1;
        self.account(busy[0], busy[1], Use::Collision);
        self.count_from(busy[1] + eifs);
        let mut first = self.base;
        for place in 0..self.transmitters.len() {
            let (index, start) = self.transmitters[place];
            let station = &self.stations[usize::from(index)];
            let Some(frame) = &station.current else { unreachable!("a contender has a frame") };
            let (pair, threshold) = (frame.pair, station.parameters.rts_threshold);
            let (length, data_time) = self.data_time(index, pair);
            let rts = self.pairs[pair as usize].rts;
            let end = start + if length > threshold { rts } else { data_time };
            let own = busy[1].max(end + response_timeout) + difs;
            self.stations[usize::from(index)].defer_until = own;
            first = first.min(own);
        }
        // No station may transmit before the result is known. If the sender of a short frame
        // resumes earlier, the result of a longer frame is computed in advance.
        let at = over.min(first);
        self.phase = Phase::Busy { ending: Ending::Collided, at };
    }

    pub(super) fn count_attempt(&mut self, pair: u32, has_failed: bool) {
        let counters = &mut self.pairs[pair as usize].counters;
        counters.attempts += 1;
        counters.retries += u64::from(has_failed);
    }

    /// Records that the medium is busy from `start` to `end`.
    fn account(&mut self, start: Instant, end: Instant, used: Use) {
        let time = end.saturating_since(start);
        let total = match used {
            Use::Success => &mut self.counters.success_time,
            Use::Collision => &mut self.counters.collision_time,
            Use::Error => &mut self.counters.error_time,
        };
        *total = *total + time;
        self.newest = (start, end, used);
    }

    /// Resumes the count of slots at `base`, or when the NAV has ended.
    fn count_from(&mut self, base: Instant) {
        self.base = base.max(self.nav_until + self.timing.difs());
    }

    /// Defers a receiver of a damaged frame, which counts its slots later than the others.
    fn defer(&mut self, index: u16, until: Instant) {
        self.stations[usize::from(index)].defer_until = until;
        if until != self.base && self.stations[usize::from(index)].current.is_some() {
            // The station waits with the others, or already counts separately.
            let key = |entry: &Reverse<u64>| entry.0 as u16 == index;
            if let Some(&Reverse(entry)) = self.contenders.iter().find(|entry| key(entry)) {
                self.contenders.retain(|entry| !key(entry));
                let slots = (entry >> 16).saturating_sub(self.base_slot) as u32;
                self.apart.push(Apart { station: index, base: until, slots });
            } else if let Some(apart) = self.apart.iter_mut().find(|known| known.station == index) {
                apart.base = apart.base.max(until);
            }
        }
    }

    /// Defers the sender of a failed exchange, which counts its slots from `until`.
    fn defer_sender(&mut self, index: u16, until: Instant) {
        self.stations[usize::from(index)].defer_until = until;
    }

    /// Applies the result of an exchange.
    pub(super) fn finish(&mut self, now: Instant, ending: Ending) {
        match ending {
            Ending::Acknowledged { at } => {
                let (station, _) = self.transmitters[0];
                self.pass_up(station);
                self.release();
                // Not from `base`: the sender of data after an unread CTS has no NAV.
                let from = at + self.timing.difs();
                self.settle(now, station, Attempt::Acknowledged, [at, from]);
            }
            Ending::AckLost { at } => {
                let (station, _) = self.transmitters[0];
                let is_long = self.pass_up(station);
                let ending = Ending::Failed { attempt: Attempt::NoAck { is_long } };
                self.phase = Phase::Busy { ending, at };
            }
            Ending::Damaged { attempt, at } => {
                let (station, _) = self.transmitters[0];
                self.pass_up_damaged(station);
                self.phase = Phase::Busy { ending: Ending::Failed { attempt }, at };
            }
            Ending::Failed { attempt } => {
                let (station, _) = self.transmitters[0];
                self.release();
                self.count_error(station);
                let from = self.stations[usize::from(station)].defer_until;
                self.settle(now, station, attempt, [now, from]);
            }
            Ending::Collided => {
                self.release();
                for place in 0..self.transmitters.len() {
                    let (index, _) = self.transmitters[place];
                    let station = &self.stations[usize::from(index)];
                    let Some(frame) = &station.current else {
                        unreachable!("an attempt is that of a frame")
                    };
                    let is_long =
                        station.frame_length(&frame.packet) > station.parameters.rts_threshold;
                    let attempt = match is_long {
                        true => Attempt::NoCts,
                        false => Attempt::NoAck { is_long },
                    };
                    let from = station.defer_until;
                    self.settle(now, index, attempt, [now, from]);
                }
            }
        }
    }

    fn count_error(&mut self, station: u16) {
        let Some(frame) = &self.stations[usize::from(station)].current else { return };
        let (start, end, _) = self.newest;
        let counters = &mut self.pairs[frame.pair as usize].counters;
        counters.errors += 1;
        counters.error_time = counters.error_time + end.saturating_since(start);
    }

    /// Resumes the count of slots. Stations that counted separately join the others, unless they
    /// are later.
    fn release(&mut self) {
        self.phase = Phase::Contention;
        let mut place = 0;
        while place < self.apart.len() {
            let Apart { station, base, slots } = self.apart[place];
            if base <= self.base {
                self.apart.swap_remove(place);
                self.join(station, self.base, slots);
            } else {
                place += 1;
            }
        }
    }

    /// Delivers the packet of the data frame that a station has sent, unless it is a duplicate.
    /// Returns whether the frame is long.
    pub(super) fn pass_up(&mut self, station: u16) -> bool {
        let station = &self.stations[usize::from(station)];
        let Some(frame) = &station.current else { unreachable!("an attempt is that of a frame") };
        let pair = &mut self.pairs[frame.pair as usize];
        if frame.is_retry && pair.last_received == Some(frame.sequence) {
            pair.counters.duplicates += 1;
        } else {
            pair.last_received = Some(frame.sequence);
            let Current { pair, sequence, ref packet, .. } = *frame;
            let (pair, packet) = (PairId(pair), packet.clone());
            self.up.push_back(Delivery { pair, sequence, packet, is_damaged: false });
        }
        station.frame_length(&frame.packet) > station.parameters.rts_threshold
    }

    /// Delivers the packet of a data frame with errors and a readable header, marked as damaged,
    /// unless the receiver already has the frame.
    #[cold]
    pub(super) fn pass_up_damaged(&mut self, station: u16) {
        let station = &self.stations[usize::from(station)];
        let Some(frame) = &station.current else { unreachable!("an attempt is that of a frame") };
        self.pairs[frame.pair as usize].counters.headers_readable += 1;
        if self.pairs[frame.pair as usize].last_received != Some(frame.sequence) {
            let (pair, packet) = (PairId(frame.pair), frame.packet.clone());
            let sequence = frame.sequence;
            self.up.push_back(Delivery { pair, sequence, packet, is_damaged: true });
        }
    }

    /// Finishes an attempt of a station and starts the next attempt, if any, of this frame or the
    /// next one. `until`: end of the acknowledgment; `from`: start of the station's slots.
    fn settle(&mut self, now: Instant, index: u16, attempt: Attempt, [until, from]: [Instant; 2]) {
        let (start, end, _) = self.newest;
        let delay = self.conclude(index, attempt, until, end.saturating_since(start));
        let from = delay.map_or(from, |delay| from.max(until + delay));
        let is_same = self.stations[usize::from(index)].current.is_some();
        let has_frame = is_same || self.take_next(now, index);
        let slots = self.draw(index, from);
        if has_frame {
            self.join(index, from, slots);
        } else {
            self.stations[usize::from(index)].backoff_until = self.base_slot + u64::from(slots);
        }
    }

    /// Counts a finished attempt and reports the outcome of its packet. Returns the delay before
    /// the next attempt of the frame, if any. `time`: duration of a successful exchange.
    pub(super) fn conclude(
        &mut self,
        index: u16,
        attempt: Attempt,
        until: Instant,
        time: Duration,
    ) -> Option<Duration> {
        let station = &mut self.stations[usize::from(index)];
        let Some(frame) = &station.current else { unreachable!("an attempt is that of a frame") };
        let pair = frame.pair;
        let reported = self.keeps_outcomes.then(|| frame.packet.clone());
        let next = station.on_attempt(attempt, until);
        let delay = station.parameters.retry_delay;
        let counters = &mut self.pairs[pair as usize].counters;
        match next {
            Next::Done => {
                counters.acknowledged += 1;
                counters.success_time = counters.success_time + time;
            }
            Next::GiveUp => counters.abandoned += 1,
            Next::Retry { .. } => {}
        }
        let fate = match next {
            Next::Done => Some(LinkFate::Acknowledged),
            Next::GiveUp => Some(LinkFate::Abandoned),
            Next::Retry { is_first } => is_first.then_some(LinkFate::Retrying),
        };
        if let (Some(packet), Some(fate)) = (reported, fate) {
            self.outcomes.push_back(Outcome { pair: PairId(pair), fate, packet });
        }
        matches!(next, Next::Retry { .. }).then_some(delay)
    }
}
