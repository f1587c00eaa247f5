//! Attempts of directions with a block-ack agreement: the A-MPDU, and the consequences of the response. Part of the [medium](super::medium); the
//! schedulers treat a PPDU like a data frame and a BlockAck request like a frame without a packet.
//!
//! Source: IEEE Std 802.11-2020, 10.23.2 (EDCA of one access category with a TXOP limit of 0), 10.25.6.

use super::exchange::FrameExchange;
use super::medium::Medium;
use super::report::{AirFrame, Outcome, PairCounters, PairId};
use super::session::{
    Aggregation, DriverQueue, Histograms, MissedBlockAck, ModeTimes, Psdu, Scheduler, Session,
};
use super::station::{Attempt, Station, Waiting};
use super::turns::MOST_WAITING;
use crate::block_ack::{BlockAck, Fate, GiveUp, Outstanding};
use crate::phy::{ControlFrame, Mode, Signal};
use crate::rate_control::RateMachine;
use lasthop_base::packet::{DeliveryReport, Payload};
use lasthop_base::units::{Duration, Instant, Rate};
use lasthop_link::queue::Queue;
use std::collections::VecDeque;

/// The record of the fates of a direction's MPDUs: counters, outcomes, and packets that the MAC has finished.
pub(super) struct Fates<'a, P: Payload> {
    number: u32,
    counters: &'a mut PairCounters,
    station: &'a mut Station<P>,
    outcomes: Option<&'a mut VecDeque<Outcome<P>>>,
    /// Packets that have left the MAC, and their bytes.
    left: [u64; 2],
}

impl<P: Payload + Clone> Fates<'_, P> {
    #[inline(always)]
    pub fn record(&mut self, mpdu: &Outstanding<Waiting<P>>, fate: Fate) {
        match fate {
            Fate::Acknowledged => self.counters.acknowledged += 1,
            Fate::Abandoned => self.counters.abandoned += 1,
            Fate::Expired => self.counters.expired += 1,
            Fate::Retrying { .. } => {}
        }
        if !matches!(fate, Fate::Retrying { .. }) {
            let length = |packet| self.station.frame_length(packet).get();
            // An MPDU of one packet is its frame.
            let bytes = match &mpdu.packets[..] {
                [_] => u64::from(mpdu.bytes),
                packets => packets.iter().map(length).sum(),
            };
            self.left = [self.left[0] + mpdu.packets.len() as u64, self.left[1] + bytes];
        }
        let Some(outcomes) = &mut self.outcomes else { return };
        let fate = match fate {
            Fate::Acknowledged => DeliveryReport::Acknowledged,
            Fate::Abandoned | Fate::Expired => DeliveryReport::Abandoned,
            Fate::Retrying { is_first: true } => DeliveryReport::Retrying,
            Fate::Retrying { is_first: false } => return,
        };
        let pair = PairId(self.number);
        let outcome = |one: &Waiting<P>| Outcome { pair, fate, packet: one.packet.clone() };
        outcomes.extend(mpdu.packets.iter().map(outcome));
    }

    /// Subtracts the packets and bytes that have left the MAC from those in it, of the direction (`in_mac`) and its
    /// station.
    pub fn settle(self, in_mac: &mut [u64; 2]) {
        for [packets, bytes] in [&mut self.station.in_mac, in_mac] {
            (*packets, *bytes) = (*packets - self.left[0], *bytes - self.left[1]);
        }
    }
}

impl<P: Payload + Clone> Medium<P> {
    /// Establishes a block-ack agreement in the direction `pair`. All directions of a station have one, or
    /// none has.
    pub fn aggregate(&mut self, pair: PairId, parameters: Aggregation) {
        let number = pair.0;
        let pair = &mut self.pairs[pair.index()];
        pair.session = Some(Box::new(Session::new(parameters)));
        self.stations[usize::from(pair.from)].directions.push_back(number);
    }

    /// Gives the direction `pair` a separate queue in place of the common queue of its station. The station then
    /// selects directions by `scheduler` and takes packets from their queues by `driver`. All of its directions
    /// need a separate queue.
    pub fn separate_queue(
        &mut self,
        pair: PairId,
        queue: Queue<Waiting<P>>,
        scheduler: Scheduler,
        driver: DriverQueue,
    ) {
        let from = self.pairs[pair.index()].from;
        let station = &mut self.stations[usize::from(from)];
        (station.scheduler, station.driver) = (scheduler, driver);
        self.session(pair.0).queue = Some(queue);
    }

    /// Lets a rate control choose between `modes` for the PPDUs of the direction `pair`, which has an
    /// agreement. Control frames are sent at `control_rate`, or at the rate that belongs to the mode.
    pub fn adapt(
        &mut self,
        pair: PairId,
        modes: &[Mode],
        control_rate: Option<Rate>,
        machine: RateMachine,
    ) {
        self.session(pair.0).adapt(modes, control_rate, machine);
    }

    /// Returns the numbers of MPDUs by mode and by PPDU of a direction; `None` without an agreement.
    pub fn histograms(&self, pair: PairId) -> Option<&Histograms> {
        self.pairs[pair.index()].session.as_ref().map(|session| &session.histograms)
    }

    /// Returns the session of a direction that has one.
    pub(super) fn session(&mut self, pair: u32) -> &mut Session<P> {
        let Some(session) = &mut self.pairs[pair as usize].session else {
            unreachable!("a station with agreements has one in each direction")
        };
        session
    }

    /// Appends a new MPDU to the window of a direction, if one is waiting and fits into the PPDU. Returns its
    /// number.
    fn new_mpdu(&mut self, now: Instant, index: u16, pair: u32, psdu: Psdu) -> Option<u64> {
        if !self.session(pair).originator.is_open() {
            return None;
        }
        if !self.has_waiting(now, index, pair, 0) {
            return None;
        }
        let station = &self.stations[usize::from(index)];
        let header = station.parameters.header.get();
        let session = self.session(pair);
        let packet =
            |session: &Session<P>, place: usize| u64::from(session.waiting[place].1.wire_bytes());
        let mut bytes = packet(session, 0) + header;
        if !session.fits(psdu.with(bytes)) {
            return None;
        }
        let limit = session.parameters.max_amsdu.get();
        let mut amsdu = Session::<P>::amsdu_with(0, packet(session, 0));
        let mut count = 1;
        while amsdu < limit && self.has_waiting(now, index, pair, count) {
            let session = self.session(pair);
            let longer = Session::<P>::amsdu_with(amsdu, packet(session, count));
            let with = Session::<P>::mpdu_with(longer, header);
            if longer > limit || !session.fits(psdu.with(with)) {
                break;
            }
            (amsdu, bytes, count) = (longer, with, count + 1);
        }
        let session = self.session(pair);
        let expires = session.waiting[0].0;
        let packets = session.waiting.drain(..count).map(|(_, packet)| packet);
        let number = session.originator.push(bytes as u32, expires, packets);
        self.stations[usize::from(index)].waiting -= count as u32;
        Some(number)
    }

    /// Adds new MPDUs of one packet each to a PPDU, as long as they are the first packets of a drop-tail queue of the
    /// station and fit: the packets go directly from the queue to the window.
    fn fill_from_queue(&mut self, now: Instant, index: u16, pair: u32, psdu: &mut Psdu) {
        let station = &mut self.stations[usize::from(index)];
        let Some(session) = &mut self.pairs[pair as usize].session else { return };
        let is_direct = session.waiting.is_empty() && session.parameters.max_amsdu.get() == 0;
        if !is_direct || session.queue.is_some() || station.waiting >= MOST_WAITING {
            return;
        }
        let limits = session.limits();
        let Session { originator, parameters, in_mac, .. } = &mut **session;
        let expires = now + parameters.lifetime;
        let header = station.parameters.header.get();
        let (mut filled, mut bytes) = (*psdu, 0);
        while originator.is_open() {
            let is_taken = station.queue.offer_next(|slot| {
                let Some(packet) = slot else { return };
                let length = u64::from(packet.wire_bytes()) + header;
                let with = filled.with(length);
                if packet.pair != pair || !with.is_within(limits) {
                    return;
                }
                let number = originator.push(length as u32, expires, slot.take().into_iter());
                originator.select(number);
                (filled, bytes) = (with, bytes + length);
            });
            if !is_taken {
                break;
            }
        }
        for [packets, total] in [&mut station.in_mac, in_mac] {
            (*packets, *total) = (*packets + u64::from(filled.mpdus - psdu.mpdus), *total + bytes);
        }
        *psdu = filled;
    }

    /// Starts an attempt of a station with agreements: a BlockAck request, or a PPDU.
    pub(super) fn begin_aggregate(&mut self, now: Instant, index: u16) -> FrameExchange {
        let pair = self.stations[usize::from(index)].attempted();
        let sifs = self.timing.sifs;
        let rts_threshold = self.stations[usize::from(index)].parameters.rts_threshold;
        let txop_end = self.stations[usize::from(index)].txop_end;
        let session = self.session(pair);
        let block_ack = AirFrame::BlockAck { is_long: session.parameters.window > 64 };
        let exchange = if let Some(start) = session.request() {
            let &ModeTimes { mode, rts, ack, block_ack: answer_time, request, .. } =
                session.times();
            FrameExchange {
                pair,
                sifs,
                has_rts: false,
                data: AirFrame::BlockAckRequest { start },
                length: ControlFrame::BlockAckRequest.length(),
                data_time: request,
                rts_time: rts,
                response_time: ack,
                answer: block_ack,
                answer_time,
                signal: Some(Signal::Mode(mode)),
            }
        } else {
            session.choose(now);
            let response = sifs + session.times().block_ack.max(session.times().ack);
            let left = txop_end.map(|end| end.saturating_since(now + response));
            session.limit_to(left);
            let (psdu, data) = self.fill(now, index, pair);
            let session = self.session(pair);
            let length = session.length(psdu);
            let (timing, place) = (session.parameters.timing, session.choice.mode);
            let data_time = session.modes[place].ppdu(timing, length);
            let &ModeTimes { mode, rts, ack, block_ack: long, .. } = session.times();
            let (answer, answer_time) = match data {
                AirFrame::Data { .. } => (AirFrame::Ack, ack),
                _ => (block_ack, long),
            };
            FrameExchange {
                pair,
                sifs,
                has_rts: length > rts_threshold || session.choice.is_fallback,
                data,
                length,
                data_time,
                rts_time: rts,
                response_time: ack,
                answer,
                answer_time,
                signal: Some(Signal::Mode(mode)),
            }
        };
        self.stations[usize::from(index)].exchange = Some(exchange);
        self.pairs[pair as usize].counters.attempts += 1;
        exchange
    }

    /// Returns the duration of the shortest exchange with which a station can continue its TXOP.
    pub(super) fn shortest_exchange(&mut self, index: u16) -> Duration {
        let station = &self.stations[usize::from(index)];
        let (pair, header) = (station.attempted(), station.parameters.header.get());
        let sifs = self.timing.sifs;
        self.session(pair).shortest_exchange(header, sifs)
    }

    /// Selects the MPDUs of a PPDU.
    fn fill(&mut self, now: Instant, index: u16, pair: u32) -> (Psdu, AirFrame) {
        let (mut psdu, mut from) = (Psdu::default(), 0);
        let originator = &self.session(pair).originator;
        let first = originator.pending(from).unwrap_or(originator.next());
        loop {
            let session = self.session(pair);
            let known = session.originator.pending(from);
            if known.is_none() {
                self.fill_from_queue(now, index, pair, &mut psdu);
            }
            let next = known.or_else(|| self.new_mpdu(now, index, pair, psdu));
            let Some(number) = next else { break };
            let session = self.session(pair);
            let with = psdu.with(session.originator.mpdu(number).bytes.into());
            if !session.fits(with) {
                break;
            }
            session.originator.select(number);
            (psdu, from) = (with, number + 1);
        }
        debug_assert!(psdu.mpdus > 0, "a station serves a direction that has packets");
        let data = match psdu.mpdus {
            1 => {
                let is_retry = self.session(pair).originator.mpdu(first).attempts > 0;
                AirFrame::Data { sequence: first, is_retry }
            }
            mpdus => AirFrame::Aggregate { mpdus: mpdus as u16 },
        };
        (psdu, data)
    }

    /// Counts a PPDU or request whose transmission starts at `start`.
    pub(super) fn count_aggregate(
        &mut self,
        exchange: &FrameExchange,
        kind: AirFrame,
        start: Instant,
    ) {
        let pair = &mut self.pairs[exchange.pair as usize];
        let (counters, Some(session)) = (&mut pair.counters, &mut pair.session) else { return };
        match kind {
            AirFrame::BlockAckRequest { .. } => counters.block_ack_requests += 1,
            AirFrame::Data { .. } | AirFrame::Aggregate { .. } => {
                if let Some(delays) = &mut pair.queueing {
                    session.originator.for_each_selected(|_, mpdu| {
                        let new = mpdu.packets.iter().filter(|_| mpdu.attempts == 0);
                        new.for_each(|packet| delays.record(packet.arrived, start));
                    });
                }
                counters.ppdus += 1;
                let mut mpdus = 0;
                session.originator.for_each_selected(|_, mpdu| {
                    mpdu.attempts += 1;
                    mpdus += 1;
                    counters.data_sent += 1;
                    counters.bits_sent += u64::from(mpdu.bytes) * 8;
                    counters.retries += u64::from(mpdu.attempts > 1);
                });
                session.histograms.modes[session.choice.mode].1 += mpdus;
                if let Some(count) = session.histograms.lengths.get_mut(mpdus as usize - 1) {
                    *count += 1;
                }
            }
            _ => {}
        }
    }

    /// Returns a session, and the record of the fates of its MPDUs.
    pub(super) fn respond(&mut self, number: u32) -> (&mut Session<P>, Fates<'_, P>) {
        let pair = &mut self.pairs[number as usize];
        let Some(session) = &mut pair.session else {
            unreachable!("a station with agreements has one in each direction")
        };
        let fates = Fates {
            number,
            counters: &mut pair.counters,
            station: &mut self.stations[usize::from(pair.from)],
            outcomes: pair.keeps_outcomes.then_some(&mut self.outcomes),
            left: [0, 0],
        };
        (session, fates)
    }

    /// Applies the result of an attempt to the window. Returns the delay before the next attempt after a
    /// failure.
    pub(super) fn conclude_aggregate(
        &mut self,
        index: u16,
        attempt: Attempt,
        until: Instant,
        time: Duration,
    ) -> Option<Duration> {
        let station = &mut self.stations[usize::from(index)];
        let Some(exchange) = station.exchange.take() else {
            unreachable!("an attempt that ends has begun")
        };
        station.turn = None;
        let is_acknowledged = attempt == Attempt::Acknowledged;
        station.update_window(is_acknowledged);
        let (delay, limit) = (station.parameters.retry_delay, station.parameters.short_retry_limit);
        let is_airtime = station.scheduler == Scheduler::Airtime;
        let number = exchange.pair;
        if is_acknowledged {
            let counters = &mut self.pairs[number as usize].counters;
            counters.success_time = counters.success_time + time;
        }
        let session = self.session(number);
        if is_airtime && attempt != Attempt::NoCts {
            let used = exchange.data_time + exchange.sifs + exchange.answer_time;
            session.deficit -= used.as_nanos() as i64;
        }
        let limits = GiveUp { attempts: session.parameters.attempts, now: until };
        let mpdus = exchange.data.mpdus();
        if mpdus > 0 && !is_acknowledged {
            session.on_result(until, mpdus, None);
        }
        let is_request = matches!(exchange.data, AirFrame::BlockAckRequest { .. });
        if is_request {
            session.request_attempts += 1;
            if !is_acknowledged && session.request_attempts < limit {
                return Some(delay);
            }
            session.originator.end_request();
            (session.request_attempts, session.is_unanswered) = (0, false);
        }
        let response = match exchange.data {
            _ if attempt == Attempt::NoCts => {
                session.originator.unselect();
                return Some(delay);
            }
            AirFrame::Data { sequence, .. } if is_acknowledged => {
                Some(BlockAck { start: sequence, bitmap: [1, 0, 0, 0] })
            }
            _ if is_acknowledged => Some(session.recipient.block_ack()),
            AirFrame::Aggregate { .. } if session.parameters.missed == MissedBlockAck::Request => {
                session.is_unanswered = true;
                return Some(delay);
            }
            _ => None,
        };
        let mut acknowledged = 0;
        let (session, mut fates) = self.respond(number);
        session.originator.on_response(response.as_ref(), limits, |_, mpdu, fate| {
            acknowledged += u32::from(fate == Fate::Acknowledged && mpdu.is_received);
            fates.record(mpdu, fate);
        });
        fates.settle(&mut session.in_mac);
        if mpdus > 0 && is_acknowledged {
            self.session(number).on_result(until, mpdus, Some(acknowledged));
        }
        (!is_acknowledged).then_some(delay)
    }
}
