//! The medium of 802.11 stations: stations, directions between them, and one of two schedulers. Stations
//! without positions are all in range of each other (`cell`); stations with positions sense and
//! read the frames within their ranges (`spread`). The frames of an attempt and their
//! consequences are the same for both (`exchange`).
//!
//! The parameter `now` never decreases. After [`Medium::enqueue`] and [`Medium::handle_timeout`] the driver
//! drains [`Medium::poll_deliver`]. Packets sent in response to a delivery may be enqueued immediately.
//!
//! Source: IEEE Std 802.11-2012, 9.3 (DCF). Limitations: fragments, broadcast, noise at third stations,
//! propagation delay, power save and association are not modelled.

use super::cell::Cell;
use super::delays::Delays;
use super::posts::Spread;
use super::report::{
    Delivery, MediumCounters, MediumEvent, Outcome, PairCounters, PairId, StationId,
};
use super::session::{DriverQueue, Session};
use super::station::{Category, MacParameters, Station, Waiting};
use crate::frames;
use crate::link_errors::LinkErrors;
use crate::phy::{Phy, Timing};
use crate::rate_control::Arf;
use lasthop_base::packet::Payload;
use lasthop_base::rng::Stream;
use lasthop_base::units::{Bytes, Duration, Instant, Rate};
use lasthop_link::queue::{DisciplineCounters, Queue};
use std::collections::VecDeque;

/// A transmitter and a receiver.
#[derive(Clone, Debug)]
pub(super) struct Pair<P: Payload> {
    pub(super) from: u16,
    pub(super) to: u16,
    /// The pair of the opposite direction.
    pub(super) back: Option<u32>,
    pub(super) rate: Rate,
    /// Index of the error process.
    pub(super) channel: u32,
    /// Whether the outcomes of its packets are reported.
    pub(super) keeps_outcomes: bool,
    pub(super) rts: Duration,
    /// Air time of an acknowledgment, which has the length of a CTS.
    pub(super) ack: Duration,
    /// Length whose air time is cached: most frames have the length of the previous one.
    pub(super) known_length: Bytes,
    pub(super) known_rate: Rate,
    pub(super) known_time: Duration,
    /// Rate control of 802.11b, a or g, if any.
    pub(super) rates: Option<Box<Rates>>,
    /// Sequence number of the last data frame received.
    pub(super) last_received: Option<u64>,
    pub(super) counters: PairCounters,
    pub(super) delays: Delays,
    /// Queueing delays of its packets, if they are measured.
    pub(super) queueing: Option<Box<Delays>>,
    /// State of the block-ack agreement, if any.
    pub(super) session: Option<Box<Session<P>>>,
}

/// Rates of a direction of 802.11b, a or g, and their control.
#[derive(Clone, Debug)]
pub(super) struct Rates {
    /// Rates of the data, with the air times of an RTS and of an acknowledgment.
    known: Vec<(Rate, Duration, Duration)>,
    pub machine: Arf,
}

impl Rates {
    /// Returns the rate of the next attempt, with the air times of an RTS and of an acknowledgment.
    pub fn current(&self) -> (Rate, Duration, Duration) {
        self.known[self.machine.current()]
    }
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
    pub(super) pairs: Vec<Pair<P>>,
    pub(super) channels: Vec<LinkErrors>,
    /// Whether hosts have several access categories.
    pub(super) has_categories: bool,
    /// Channel access of stations without positions.
    pub(super) cell: Cell,
    pub(super) up: VecDeque<Delivery<P>>,
    pub(super) reports: bool,
    pub(super) events: VecDeque<MediumEvent<P>>,
    pub(super) outcomes: VecDeque<Outcome<P>>,
    pub(super) counters: MediumCounters,
    /// Channel access of stations with positions; `cell` is then unused.
    pub(super) spread: Option<Box<Spread>>,
    /// Time not after the first release of a reorder buffer.
    pub(super) reorder_at: Instant,
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
            has_categories: false,
            cell: Cell::new(&timing),
            up: VecDeque::with_capacity(4),
            reports: false,
            events: VecDeque::new(),
            outcomes: VecDeque::new(),
            counters: MediumCounters::default(),
            spread: None,
            reorder_at: Instant::NEVER,
        }
    }

    /// Enables events, which the caller must then drain with [`Self::poll_event`].
    pub fn report_events(&mut self) {
        self.reports = true;
    }

    /// Enables outcomes of the packets of a pair, which the caller must then drain with
    /// [`Self::poll_outcome`].
    pub fn keep_outcomes(&mut self, pair: PairId) {
        self.pairs[pair.index()].keeps_outcomes = true;
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
        self.stations[usize::from(id)].category.host = id;
        self.cell.reserve(self.stations.len());
        StationId(id)
    }

    /// Makes a station an access category of a host, before positions are assigned. The stations of a host are added in
    /// a row; the first one numbers it.
    pub fn set_category(&mut self, station: StationId, category: Category) {
        let class = self.cell.class(category.extra_slots);
        let station = &mut self.stations[station.index()];
        (station.category, station.class) = (category, class);
        self.has_categories = true;
        self.cell.reserve(self.stations.len());
    }

    /// Sets the `periods` during which a station is out of range. They are in order and do not
    /// overlap.
    pub fn set_away(&mut self, station: StationId, periods: &[[Instant; 2]]) {
        self.stations[station.index()].set_away(periods);
    }

    /// Adds a direction from `from` to `to` at `rate`, with control frames at `control_rate` and
    /// the errors `errors`.
    pub fn add_pair(
        &mut self,
        [from, to]: [StationId; 2],
        [rate, control_rate]: [Rate; 2],
        errors: impl Into<LinkErrors>,
    ) -> PairId {
        self.channels.push(errors.into());
        let channel = self.channels.len() as u32 - 1;
        self.push_pair([from, to], [rate, control_rate], channel)
    }

    /// Adds the opposite direction of `there`, which shares its error process.
    pub fn add_back_pair(&mut self, there: PairId, rates: [Rate; 2]) -> PairId {
        let Pair { from, to, channel, .. } = self.pairs[there.index()];
        self.push_pair([StationId(to), StationId(from)], rates, channel)
    }

    /// Lets ARF choose between `rates` for the frames of the direction `pair`, which has no block-ack agreement.
    /// Each rate of the data has a rate of control frames; there is at least one.
    pub fn adapt_rate(&mut self, pair: PairId, rates: &[[Rate; 2]]) {
        let times = |&[rate, control]: &[Rate; 2]| {
            let time = |bytes| self.phy.airtime(Bytes::new(bytes), control);
            (rate, time(frames::RTS), time(frames::ACK))
        };
        let known: Vec<_> = rates.iter().map(times).collect();
        let machine = Arf::new(known.len());
        self.pairs[pair.index()].rates = Some(Box::new(Rates { known, machine }));
    }

    /// Adds a direction with the errors of the direction `of`, for another access category of its hosts.
    pub fn add_category_pair(
        &mut self,
        of: PairId,
        ends: [StationId; 2],
        rates: [Rate; 2],
    ) -> PairId {
        let channel = self.pairs[of.index()].channel;
        self.push_pair(ends, rates, channel)
    }

    fn push_pair(
        &mut self,
        [from, to]: [StationId; 2],
        [rate, control_rate]: [Rate; 2],
        channel: u32,
    ) -> PairId {
        let index = self.pairs.len() as u32;
        let is_back = |pair: &Pair<P>| pair.from == to.0 && pair.to == from.0;
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
            keeps_outcomes: false,
            rts: self.phy.airtime(Bytes::new(frames::RTS), control_rate),
            ack: self.phy.airtime(Bytes::new(frames::ACK), control_rate),
            known_length: Bytes::default(),
            known_rate: rate,
            rates: None,
            known_time: self.phy.airtime(Bytes::default(), rate),
            last_received: None,
            counters: PairCounters::default(),
            delays: Delays::default(),
            queueing: None,
            session: None,
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
        let Pair { from, session, .. } = &self.pairs[pair.index()];
        if let Some(session) = session
            && let Some(queue) = &session.queue
        {
            return queue.has_room(now, packet.wire_bytes(), 2, &session.server());
        }
        self.stations[usize::from(*from)].has_room(now, packet, 2)
    }

    /// Returns the number of packets waiting at the transmitter of `pair`, including the frame
    /// being sent.
    pub fn queued(&self, now: Instant, pair: PairId) -> u64 {
        let Pair { from, session, .. } = &self.pairs[pair.index()];
        if let Some(session) = session
            && let Some(queue) = &session.queue
        {
            return queue.len() as u64 + session.in_mac[0];
        }
        self.stations[usize::from(*from)].length(now)
    }

    /// Returns `true` if the transmitter of `pair` already contends for the medium or transmits: a packet that is
    /// enqueued then changes no deadline.
    #[inline]
    pub fn is_contending(&self, pair: PairId) -> bool {
        self.stations[usize::from(self.pairs[pair.index()].from)].is_contending()
    }

    /// Appends a packet to the queue of the transmitter of `pair`; returns `false` if the queue is
    /// full.
    #[inline]
    pub fn enqueue(&mut self, now: Instant, pair: PairId, packet: P) -> bool {
        let Pair { from, ref session, .. } = self.pairs[pair.index()];
        let own = session.as_ref().and_then(|session| session.queue.as_ref());
        let is_admitted = if own.is_some() {
            self.enqueue_separately(now, pair, packet)
        } else {
            let station = &mut self.stations[usize::from(from)];
            let is_admitted = station.enqueue(now, pair.0, packet);
            if is_admitted && station.drops_arrivals_only() && station.is_contending() {
                return true;
            }
            self.count_dropped(from);
            is_admitted
        };
        if !is_admitted {
            self.pairs[pair.index()].counters.drops += 1;
            return false;
        }
        if !self.stations[usize::from(from)].is_contending() && self.take_next(now, from) {
            self.begin_access(now, from);
        }
        true
    }

    /// Appends a packet to the own queue of the direction `pair`; returns `false` if the queue is full.
    fn enqueue_separately(&mut self, now: Instant, pair: PairId, packet: P) -> bool {
        let session = self.session(pair.0);
        let server = session.server();
        let packet = Waiting { pair: pair.0, arrived: now, packet };
        let queue = session.queue.as_mut();
        let is_admitted = queue.is_some_and(|queue| queue.enqueue(now, packet, &server));
        self.count_dropped_by(pair.0);
        let from = self.pairs[pair.index()].from;
        if is_admitted && self.stations[usize::from(from)].driver != DriverQueue::Pull {
            self.feed_driver(now, from);
        }
        is_admitted
    }

    /// Dequeues the next frame of a station that has none; returns `false` if the queue is empty or
    /// dropped all its packets.
    #[inline]
    pub(super) fn take_next(&mut self, now: Instant, index: u16) -> bool {
        if self.stations[usize::from(index)].is_aggregating() {
            return self.take_turn(now, index);
        }
        let is_there = self.stations[usize::from(index)].take_next(now);
        self.count_dropped(index);
        is_there
    }

    /// Counts the packets that the queue of a station dropped during the last call, excluding the
    /// packet passed to it.
    #[inline]
    pub(super) fn count_dropped(&mut self, index: u16) {
        if !self.stations[usize::from(index)].drops_arrivals_only() {
            self.count_dropped_packets(index);
        }
    }

    fn count_dropped_packets(&mut self, index: u16) {
        for &Waiting { pair, ref packet, .. } in self.stations[usize::from(index)].dropped() {
            self.pairs[pair as usize].counters.drops += 1;
            if self.reports {
                let packet = packet.clone();
                self.events.push_back(MediumEvent::Dropped { pair: PairId(pair), packet });
            }
        }
    }

    /// Counts the packets that the own queue of a direction dropped during the last call.
    pub(super) fn count_dropped_by(&mut self, number: u32) {
        let pair = &mut self.pairs[number as usize];
        let queue = pair.session.as_ref().and_then(|session| session.queue.as_ref());
        for Waiting { packet, .. } in queue.into_iter().flat_map(Queue::dropped) {
            pair.counters.drops += 1;
            if self.reports {
                let packet = packet.clone();
                self.events.push_back(MediumEvent::Dropped { pair: PairId(number), packet });
            }
        }
    }

    /// Returns the counters of the queue discipline of a direction with its own queue; `None` if it shares
    /// that of its station, or drops packets only when it is full.
    pub fn early_of(&self, pair: PairId) -> Option<DisciplineCounters> {
        let queue = self.pairs[pair.index()].session.as_ref()?.queue.as_ref()?;
        queue.detects_early().then(|| queue.counters())
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
            self.begin_apart(now, index);
        } else {
            self.begin_in_cell(now, index);
        }
    }

    /// Returns the next deadline: the end of a backoff, the result of an exchange, or the release of a
    /// reorder buffer.
    pub fn next_timeout(&self) -> Instant {
        self.next_access().min(self.reorder_at)
    }

    /// Returns the next deadline of channel access.
    fn next_access(&self) -> Instant {
        if let Some(spread) = &self.spread {
            return spread.next_timeout();
        }
        self.next_in_cell()
    }

    /// Processes the deadline if it is due.
    pub fn handle_timeout(&mut self, now: Instant) {
        if self.reorder_at <= now {
            self.release_held(now);
        }
        if self.next_access() > now {
            return;
        }
        if self.spread.is_some() {
            return self.handle_due(now);
        }
        self.handle_in_cell(now);
    }

    /// Returns the next packet delivered over the medium.
    pub fn poll_deliver(&mut self) -> Option<Delivery<P>> {
        self.up.pop_front()
    }

    /// Returns `true` if packets were delivered over the medium.
    #[inline]
    pub fn has_delivered(&self) -> bool {
        !self.up.is_empty()
    }

    /// Removes and returns all packets delivered over the medium, like [`Self::poll_deliver`] of each.
    /// [`Self::reuse`] takes the buffer back.
    pub fn take_delivered(&mut self) -> VecDeque<Delivery<P>> {
        std::mem::take(&mut self.up)
    }

    /// Takes back the buffer of [`Self::take_delivered`], before the next deadline.
    pub fn reuse(&mut self, mut delivered: VecDeque<Delivery<P>>) {
        debug_assert!(self.up.is_empty(), "packets are delivered at deadlines");
        delivered.clear();
        self.up = delivered;
    }

    /// Returns the next event, if events are enabled.
    pub fn poll_event(&mut self) -> Option<MediumEvent<P>> {
        self.events.pop_front()
    }

    /// Returns `true` if an outcome is available.
    #[inline]
    pub fn has_outcomes(&self) -> bool {
        !self.outcomes.is_empty()
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
        self.cell.counters(now, self.counters)
    }

    /// Advances the error processes to `now`. No later call starts a frame before `now`.
    pub fn catch_up(&mut self, now: Instant) {
        self.channels.iter_mut().for_each(|channel| channel.catch_up(now));
    }

    /// Returns the number of state changes of the error processes per second of simulated time.
    pub fn replay_rate(&self) -> f64 {
        self.channels.iter().map(LinkErrors::replay_rate).sum()
    }

    /// Returns the number of data frames of a pair that were received with errors and a readable
    /// header; `None` if its error process destroys headers.
    pub fn readable_headers(&self, pair: PairId) -> Option<u64> {
        let Pair { channel, counters, .. } = &self.pairs[pair.index()];
        self.channels[*channel as usize].readable_headers()?;
        Some(counters.headers_readable)
    }

    /// Returns `true` if a pair has a block-ack agreement.
    pub fn has_agreement(&self, pair: PairId) -> bool {
        self.pairs[pair.index()].session.is_some()
    }

    /// Returns the counters of a pair.
    pub fn pair_counters(&self, pair: PairId) -> PairCounters {
        self.pairs[pair.index()].counters
    }

    /// Returns the delays of the packets that a pair has delivered.
    pub fn delays(&self, pair: PairId) -> &Delays {
        &self.pairs[pair.index()].delays
    }

    /// Measures the queueing delays of a pair from now on.
    pub fn measure_queueing(&mut self, pair: PairId) {
        self.pairs[pair.index()].queueing = Some(Box::new(Delays::queueing()));
    }

    /// Returns the queueing delays of a pair, from the arrival of a packet at the queue to the start of the first
    /// transmission of its data; `None` if they are not measured.
    pub fn queueing(&self, pair: PairId) -> Option<&Delays> {
        self.pairs[pair.index()].queueing.as_deref()
    }
}
