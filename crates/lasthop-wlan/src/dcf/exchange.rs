//! The frame exchange of an attempt: its frames with their durations, reservations and errors, and
//! its consequences for the station and the packet. Both schedulers, [`cell`](super::cell) and
//! [`spread`](super::spread), use it; they decide when frames begin and which stations read them.
//!
//! ```text
//!   | RTS | SIFS | CTS | SIFS | data | SIFS | acknowledgment |     frames above the RTS threshold
//!                             | data | SIFS | acknowledgment |     all other frames
//! ```

use super::medium::Medium;
use super::report::{AirFate, AirFrame, Delivery, MediumEvent, Outcome, PairId};
use super::session::DriverQueue;
use super::station::{Attempt, Current, Next};
use crate::frames;
use crate::phy::{Signal, Timing};
use lasthop_base::packet::{DeliveryReport, Payload};
use lasthop_base::units::{Bytes, Duration, Instant};
use lasthop_link::channel::Airtime;

/// The frames of one attempt. Each one follows SIFS after the preceding one.
#[derive(Clone, Copy, Debug)]
pub(super) struct FrameExchange {
    /// Transmitter and receiver of the data.
    pub pair: u32,
    pub sifs: Duration,
    /// Whether an RTS precedes the data.
    pub has_rts: bool,
    /// The data frame, A-MPDU or BlockAck request.
    pub data: AirFrame,
    /// Length of the data frame.
    pub length: Bytes,
    pub data_time: Duration,
    pub rts_time: Duration,
    /// Air time of a CTS or an acknowledgment.
    pub response_time: Duration,
    /// The response to the data.
    pub answer: AirFrame,
    pub answer_time: Duration,
    /// Mode or rate of the data.
    pub signal: Option<Signal>,
}

impl FrameExchange {
    /// Returns the first frame.
    pub fn first(&self) -> &AirFrame {
        if self.has_rts { &AirFrame::Rts } else { &self.data }
    }

    /// Returns the frame that follows `kind`, if any.
    pub fn next(&self, kind: AirFrame) -> Option<&AirFrame> {
        match kind {
            AirFrame::Rts => Some(&AirFrame::Cts),
            AirFrame::Cts => Some(&self.data),
            AirFrame::Ack | AirFrame::BlockAck { .. } | AirFrame::CfEnd => None,
            _ => Some(&self.answer),
        }
    }

    /// Returns the air time of a frame.
    #[inline(always)]
    pub fn time(&self, kind: AirFrame) -> Duration {
        match kind {
            AirFrame::Rts => self.rts_time,
            AirFrame::Cts => self.response_time,
            AirFrame::Ack | AirFrame::BlockAck { .. } => self.answer_time,
            _ => self.data_time,
        }
    }

    /// Returns the length of a frame.
    #[inline(always)]
    fn bytes(&self, kind: AirFrame) -> u64 {
        match kind {
            AirFrame::Rts => frames::RTS,
            AirFrame::CfEnd => frames::CF_END,
            AirFrame::Cts => frames::CTS,
            AirFrame::Ack => frames::ACK,
            AirFrame::BlockAck { is_long } => frames::block_ack(is_long),
            _ => self.length.get(),
        }
    }

    /// Returns the Duration field of a frame: the time from its end to the end of the exchange.
    pub fn reserves(&self, kind: AirFrame) -> Duration {
        let following = |&kind: &AirFrame| self.sifs + self.time(kind) + self.reserves(kind);
        self.next(kind).map_or(Duration::ZERO, following)
    }

    /// Returns the time after an RTS at which stations reset their NAV if no frame has followed
    /// (9.3.2.4).
    pub fn nav_reset(&self, timing: &Timing) -> Duration {
        self.sifs * 2 + self.response_time + timing.slot * 2
    }

    /// Returns the result of an attempt that ends with `kind` or its response lost.
    pub fn failed(&self, kind: AirFrame) -> Attempt {
        match kind {
            AirFrame::Rts | AirFrame::Cts => Attempt::NoCts,
            _ => Attempt::NoAck { is_long: self.has_rts },
        }
    }
}

impl AirFrame {
    /// Returns `true` if the receiver of the data sends the frame.
    pub fn is_response(self) -> bool {
        matches!(self, AirFrame::Cts | AirFrame::Ack | AirFrame::BlockAck { .. })
    }

    /// Returns the number of MPDUs of a PPDU with packets; 0: another frame.
    pub fn mpdus(self) -> u32 {
        match self {
            AirFrame::Data { .. } | AirFrame::Mpdu { .. } => 1,
            AirFrame::Aggregate { mpdus } => mpdus.into(),
            _ => 0,
        }
    }

    /// Returns `true` if the frame carries packets.
    pub fn is_data(self) -> bool {
        use AirFrame::{Aggregate, Data, Mpdu};
        matches!(self, Data { .. } | Aggregate { .. } | Mpdu { .. })
    }
}

impl<P: Payload + Clone> Medium<P> {
    /// Returns the exchange of the frame that a station attempts to send.
    pub(super) fn exchange_of(&mut self, index: u16) -> FrameExchange {
        match self.stations[usize::from(index)].exchange {
            Some(exchange) => exchange,
            None => self.plain_exchange_of(index),
        }
    }

    /// Like [`Self::exchange_of`], for a station without block-ack agreements.
    #[inline(always)]
    fn plain_exchange_of(&mut self, index: u16) -> FrameExchange {
        let station = &self.stations[usize::from(index)];
        let &Current { pair: number, ref packet, sequence, is_retry, .. } = station.frame();
        let length = station.frame_length(packet);
        let pair = &mut self.pairs[number as usize];
        let (rate, rts, ack) = match &pair.rates {
            None => (pair.rate, pair.rts, pair.ack),
            Some(rates) => rates.current(),
        };
        if pair.known_length != length || pair.known_rate != rate {
            (pair.known_length, pair.known_rate) = (length, rate);
            pair.known_time = self.phy.airtime(length, rate);
        }
        FrameExchange {
            pair: number,
            sifs: self.timing.sifs,
            has_rts: length > station.parameters.rts_threshold,
            data: AirFrame::Data { sequence, is_retry },
            length,
            data_time: pair.known_time,
            rts_time: rts,
            response_time: ack,
            answer: AirFrame::Ack,
            answer_time: ack,
            signal: Some(Signal::Plain(self.phy.standard, rate)),
        }
    }

    /// Starts an attempt of a station.
    pub(super) fn begin_exchange(&mut self, now: Instant, index: u16) -> FrameExchange {
        if self.stations[usize::from(index)].is_aggregating() {
            return self.begin_aggregate(now, index);
        }
        self.begin_plain_exchange(index)
    }

    /// Starts an attempt of a station without block-ack agreements.
    #[inline(always)]
    pub(super) fn begin_plain_exchange(&mut self, index: u16) -> FrameExchange {
        let has_failed = self.stations[usize::from(index)].frame().has_failed();
        let exchange = self.plain_exchange_of(index);
        let counters = &mut self.pairs[exchange.pair as usize].counters;
        counters.attempts += 1;
        counters.retries += u64::from(has_failed);
        exchange
    }

    /// Counts a frame whose transmission starts at `start`.
    #[inline(always)]
    pub(super) fn count_frame(&mut self, exchange: &FrameExchange, kind: AirFrame, start: Instant) {
        if self.pairs[exchange.pair as usize].session.is_some() {
            return self.count_aggregate(exchange, kind, start);
        }
        if let AirFrame::Data { is_retry, .. } = kind {
            let pair = &mut self.pairs[exchange.pair as usize];
            pair.counters.data_sent += 1;
            pair.counters.bits_sent += exchange.length.bits();
            if let Some(delays) = &mut pair.queueing
                && !is_retry
            {
                delays.record(self.stations[usize::from(pair.from)].frame().arrived, start);
            }
        }
    }

    /// Returns `true` if the error process destroys a frame. Responses are subject to the errors of
    /// the opposite direction, if it is defined.
    #[inline(always)]
    pub(super) fn is_frame_lost(
        &mut self,
        exchange: &FrameExchange,
        kind: AirFrame,
        [start, end]: [Instant; 2],
    ) -> bool {
        let is_data = kind.is_data();
        let there = &self.pairs[exchange.pair as usize];
        if is_data && there.session.is_some() {
            return self.is_aggregate_lost(exchange, [start, end]);
        }
        let pair = match there.back {
            Some(back) if kind.is_response() => &self.pairs[back as usize],
            _ => there,
        };
        let bits = exchange.bytes(kind) * 8;
        let signal = exchange.signal.filter(|_| is_data);
        (is_data || self.control_errors)
            && self.channels[pair.channel as usize].is_lost(Airtime { start, end, bits }, signal)
    }

    /// Processes a CTS or a data frame that its receiver has read; a CTS must be expected.
    #[inline(always)]
    pub(super) fn on_frame_read(&mut self, exchange: &FrameExchange, kind: AirFrame) {
        let pair = &mut self.pairs[exchange.pair as usize];
        match kind {
            AirFrame::Cts => self.stations[usize::from(pair.from)].on_cts(),
            kind if kind.is_data() && pair.session.is_some() => self.count_received(exchange.pair),
            AirFrame::Data { .. } => pair.counters.data_received += 1,
            _ => {}
        }
    }

    /// Returns `true` if the header of the data frame, which was received with errors, is readable.
    pub(super) fn is_header_readable(&mut self, exchange: &FrameExchange) -> bool {
        if self.pairs[exchange.pair as usize].session.is_some() {
            return self.is_any_header_readable(exchange);
        }
        let channel = self.pairs[exchange.pair as usize].channel;
        self.channels[channel as usize].is_header_readable()
    }

    /// Reports a transmitted frame to the observer, if any.
    #[inline]
    pub(super) fn show(
        &mut self,
        exchange: &FrameExchange,
        kind: AirFrame,
        times: [Instant; 2],
        fate: AirFate,
    ) {
        if self.reports {
            self.show_frame(exchange, kind, times, fate);
        }
    }

    /// Like [`Self::show`], for an observer.
    #[inline(never)]
    fn show_frame(
        &mut self,
        exchange: &FrameExchange,
        kind: AirFrame,
        [start, end]: [Instant; 2],
        fate: AirFate,
    ) {
        let pair = PairId(exchange.pair);
        let mut scoreboard = None;
        if self.pairs[pair.index()].session.is_some() {
            if kind.is_data() {
                return self.show_aggregate(exchange, [start, end], fate);
            }
            scoreboard = matches!(kind, AirFrame::BlockAck { .. })
                .then(|| self.answered_scoreboard(exchange));
        }
        let packet = matches!(kind, AirFrame::Data { .. }).then(|| {
            let from = self.pairs[pair.index()].from;
            self.stations[usize::from(from)].frame().packet.clone()
        });
        let (bytes, reserves) = (exchange.bytes(kind) as u32, exchange.reserves(kind));
        self.events.push_back(MediumEvent::Frame {
            pair,
            kind,
            start,
            end,
            fate,
            packet,
            bytes,
            reserves,
            tid: self.tid_of(exchange.pair),
            scoreboard,
            signal: exchange.signal,
        });
    }

    /// Delivers the packet of the data frame that a station has sent, unless it is a duplicate.
    #[inline(always)]
    pub(super) fn pass_up(&mut self, now: Instant, station: u16) {
        if let Some(exchange) = self.stations[usize::from(station)].exchange {
            return self.receive_aggregate(now, &exchange);
        }
        let frame = self.stations[usize::from(station)].frame();
        let pair = &mut self.pairs[frame.pair as usize];
        if frame.is_retry && pair.last_received == Some(frame.sequence) {
            pair.counters.duplicates += 1;
        } else {
            pair.last_received = Some(frame.sequence);
            pair.delays.record(frame.arrived, now);
            let Current { pair, sequence, ref packet, .. } = *frame;
            let (pair, packet) = (PairId(pair), packet.clone());
            self.up.push_back(Delivery { pair, sequence, packet, is_damaged: false });
        }
    }

    /// Delivers the packet of a data frame with errors and a readable header, marked as damaged,
    /// unless the receiver already has the frame.
    #[cold]
    pub(super) fn pass_up_damaged(&mut self, station: u16) {
        if let Some(exchange) = self.stations[usize::from(station)].exchange {
            return self.receive_damaged(&exchange);
        }
        let frame = self.stations[usize::from(station)].frame();
        self.pairs[frame.pair as usize].counters.headers_readable += 1;
        if self.pairs[frame.pair as usize].last_received != Some(frame.sequence) {
            let (pair, packet) = (PairId(frame.pair), frame.packet.clone());
            let sequence = frame.sequence;
            self.up.push_back(Delivery { pair, sequence, packet, is_damaged: true });
        }
    }

    /// Counts a finished attempt and reports the outcome of its packet. Returns the delay before
    /// the next attempt of the frame, if any. `time`: duration of a successful exchange.
    #[inline(always)]
    pub(super) fn conclude(
        &mut self,
        index: u16,
        attempt: Attempt,
        until: Instant,
        time: Duration,
    ) -> Option<Duration> {
        if self.stations[usize::from(index)].exchange.is_some() {
            return self.conclude_aggregate(index, attempt, until, time);
        }
        let station = &mut self.stations[usize::from(index)];
        let frame = station.frame();
        let pair = frame.pair;
        let reported = self.pairs[pair as usize].keeps_outcomes.then(|| frame.packet.clone());
        let next = station.on_attempt(attempt, until);
        let delay = station.parameters.retry_delay;
        if let Some(rates) = &mut self.pairs[pair as usize].rates {
            rates.machine.on_result(attempt == Attempt::Acknowledged);
        }
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
            Next::Done => Some(DeliveryReport::Acknowledged),
            Next::GiveUp => Some(DeliveryReport::Abandoned),
            Next::Retry { is_first } => is_first.then_some(DeliveryReport::Retrying),
        };
        if let (Some(packet), Some(fate)) = (reported, fate) {
            self.outcomes.push_back(Outcome { pair: PairId(pair), fate, packet });
        }
        matches!(next, Next::Retry { .. }).then_some(delay)
    }

    /// Counts an attempt that failed by noise or absence, and whose frames took `time`.
    pub(super) fn count_error(&mut self, pair: u32, time: Duration) {
        let counters = &mut self.pairs[pair as usize].counters;
        counters.errors += 1;
        counters.error_time = counters.error_time + time;
    }

    /// Starts the TXOP of a station that transmits from `start`.
    pub(super) fn begin_txop(&mut self, index: u16, start: Instant) {
        let station = &mut self.stations[usize::from(index)];
        let limit = station.category.txop_limit;
        station.txop_end = (limit > Duration::ZERO).then(|| start + limit);
    }

    /// Returns the start of the next exchange of a station's TXOP, SIFS after the one that ended at `at`; `None` if
    /// the station has no frame that fits, or no TXOP.
    #[inline]
    pub(super) fn txop_continues(
        &mut self,
        now: Instant,
        index: u16,
        at: Instant,
    ) -> Option<Instant> {
        let end = self.stations[usize::from(index)].txop_end?;
        let start = at + self.timing.sifs;
        let fits = self.has_frame(now, index) && start + self.shortest_exchange(index) <= end;
        fits.then_some(start)
    }

    /// Processes an internal collision of a station, whose window grows as after a collision (802.11-2020,
    /// 10.23.2.4).
    pub(super) fn count_internal_collision(&mut self, index: u16) {
        let station = &mut self.stations[usize::from(index)];
        station.update_window(false);
        let pair = station.attempted();
        self.pairs[pair as usize].counters.internal_collisions += 1;
    }

    /// Dequeues the next frame of a station unless its last one is to be retransmitted. Returns
    /// `false` if the station has no frame.
    pub(super) fn has_frame(&mut self, now: Instant, index: u16) -> bool {
        if self.stations[usize::from(index)].driver != DriverQueue::Pull {
            self.feed_driver(now, index);
        }
        self.stations[usize::from(index)].is_contending() || self.take_next(now, index)
    }
}
