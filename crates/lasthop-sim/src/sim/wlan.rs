//! IEEE 802.11 in the world: the medium that stations share, and the directions of their links.
//!
//! Each direction of a station's link is a pair of transmitter and receiver of a [`Medium`]. The
//! medium has one deadline for all its pairs; the directions have none. Packets delivered by a pair
//! are forwarded at the far end of its direction.

use super::deadlines::MachineId;
use super::direction;
use super::ids::{AirId, DirectionId};
use super::metrics::HeaderMetrics;
use super::probe::{Event, FrameLabel, Probe};
use super::probe_events::segment_label;
use super::world::World;
use lasthop_base::packet::{Descriptor, Extension, Payload};
use lasthop_base::schema::metrics::{Ratio, ReportFor};
use lasthop_base::units::{Duration, Instant, Rate};
use lasthop_link::queue::{DisciplineMetrics, QueueCounters, QueueingMetrics};
use lasthop_wlan::dcf::{
    AggregationMetrics, AirFate, AirFrame, CellMetrics, DelayMetrics, Delays, Delivery, Histograms,
    Medium, MediumCounters, MediumEvent, ModeMetrics, Outcome, PairCounters, PairId, PairMetrics,
};

/// A medium, with the names of its WLANs.
#[derive(Clone, Debug)]
pub struct WlanMedium<P: Payload> {
    /// The medium.
    pub medium: Medium<P>,
    /// Names of the WLANs on it, in the order of the scenario.
    pub names: Vec<String>,
}

/// The link of a station: its directions on a medium.
#[derive(Clone, Debug)]
pub struct WlanPlace {
    /// Number of the medium.
    pub medium: usize,
    /// Number of the WLAN on the medium.
    pub wlan: usize,
    /// For each access category, the directions from the station and to it.
    pub pairs: Vec<[PairId; 2]>,
}

/// The medium shared by some stations.
#[derive(Clone, Debug)]
pub(super) struct Air<X: Extension> {
    pub medium: Medium<Descriptor<X>>,
    /// The machine of its deadline.
    pub machine: MachineId,
    /// The direction of each pair.
    pub directions: Vec<DirectionId>,
    /// The WLANs on the medium: their names and pairs.
    pub wlans: Vec<(String, Vec<PairId>)>,
}

/// A direction of a station's link.
#[derive(Clone, Copy, Debug)]
pub(super) struct Shared {
    /// Index of the medium.
    pub air: AirId,
    /// The pair of each access category in use.
    pairs: [PairId; 4],
    categories: u8,
    pub rate: Rate,
}

impl Shared {
    /// Creates a direction with one access category.
    pub fn new(air: AirId, pair: PairId, rate: Rate) -> Self {
        Shared { air, pairs: [pair; 4], categories: 1, rate }
    }

    /// Adds the pair of another access category.
    pub fn add(&mut self, pair: PairId) {
        self.pairs[usize::from(self.categories)] = pair;
        self.categories += 1;
    }

    /// Returns the pair of an access category, by its place; of the first one, if there is no such place.
    pub fn pair(&self, category: u8) -> PairId {
        self.pairs[usize::from(if category < self.categories { category } else { 0 })]
    }

    /// Returns the pairs of all access categories.
    pub fn pairs(&self) -> impl Iterator<Item = PairId> + Clone {
        self.pairs.into_iter().take(self.categories.into())
    }
}

/// Converts the counters of a pair to those of any direction.
fn queue_counters(pair: &PairCounters) -> QueueCounters {
    QueueCounters {
        drops: pair.drops,
        frames_sent: pair.data_sent,
        bits_sent: pair.bits_sent,
        frames_lost: pair.data_sent - pair.data_received,
    }
}

/// Returns the metrics of A-MPDUs of some pairs.
fn aggregation_metrics(pairs: impl Iterator<Item = PairCounters>) -> AggregationMetrics {
    let mut sum = PairCounters::default();
    for pair in pairs {
        sum.ppdus += pair.ppdus;
        sum.data_sent += pair.data_sent;
        sum.block_ack_requests += pair.block_ack_requests;
        sum.reorder_held += pair.reorder_held;
        sum.expired += pair.expired;
        sum.internal_collisions += pair.internal_collisions;
    }
    AggregationMetrics {
        ppdus: sum.ppdus as f64,
        mpdus_per_ppdu: Ratio::new(sum.data_sent as f64, sum.ppdus as f64),
        block_ack_requests: sum.block_ack_requests as f64,
        reorder_held: sum.reorder_held as f64,
        expired: sum.expired as f64,
        internal_collisions: sum.internal_collisions as f64,
    }
}

/// Returns the metrics of delays of some pairs.
fn delay_metrics<P: Payload + Clone>(
    medium: &Medium<P>,
    pairs: impl Iterator<Item = PairId>,
) -> DelayMetrics {
    let mut sum = Delays::default();
    pairs.for_each(|pair| sum.add(medium.delays(pair)));
    DelayMetrics::from(sum)
}

/// Returns the queueing delays of some pairs; `None` if they are not measured.
fn queueing_delays<P: Payload + Clone>(
    medium: &Medium<P>,
    pairs: impl Iterator<Item = PairId>,
) -> Option<Delays> {
    let mut measured = pairs.filter_map(|pair| medium.queueing(pair));
    let mut sum = measured.next()?.clone();
    measured.for_each(|delays| sum.add(delays));
    Some(sum)
}

/// Reports the metrics of a WLAN with the directions `pairs`: collisions and use of airtime on its medium.
pub fn wlan_metrics<P: Payload + Clone>(
    medium: &Medium<P>,
    pairs: &[PairId],
    now: Instant,
    entity: &str,
    report: &mut ReportFor<'_>,
) {
    let elapsed = now.as_secs_f64();
    let MediumCounters { collisions, success_time, collision_time, error_time } =
        medium.counters(now);
    let times = [success_time, collision_time, error_time].map(Duration::as_secs_f64);
    let [success, collision, error] = times.map(|time| Ratio::new(time, elapsed));
    let idle = times.iter().fold(elapsed, |idle, busy| idle - busy);
    let unused = 1.0 - success.value() - collision.value() - error.value();
    let sum = |of: fn(&PairCounters) -> u64| {
        pairs.iter().map(|&pair| of(&medium.pair_counters(pair))).sum::<u64>() as f64
    };
    let attempts = sum(|pair| pair.attempts);
    let metrics = CellMetrics {
        attempts,
        retries: sum(|pair| pair.retries),
        abandoned: sum(|pair| pair.abandoned),
        collision_probability: Ratio::new(sum(|pair| pair.collisions), attempts),
        collisions: collisions as f64,
        airtime_success: success,
        airtime_collision: collision,
        airtime_error: error,
        airtime_idle: Ratio::with_value(unused, idle, elapsed),
    };
    metrics.report_for(entity, report);
    delay_metrics(medium, pairs.iter().copied()).report_for(entity, report);
    if let Some(delays) = queueing_delays(medium, pairs.iter().copied()) {
        QueueingMetrics::from(delays).report_for(entity, report);
    }
    if pairs.iter().any(|&pair| medium.has_agreement(pair)) {
        let own = pairs.iter().map(|&pair| medium.pair_counters(pair));
        aggregation_metrics(own).report_for(entity, report);
        let mut sum = Histograms::default();
        let own = pairs.iter().filter_map(|&pair| medium.histograms(pair));
        own.for_each(|histograms| sum.add(histograms));
        ModeMetrics::from(&sum).report_for(entity, report);
    }
    // All pairs of the access point share its queue.
    let separate: Vec<_> = pairs.iter().filter_map(|&pair| medium.early_of(pair)).collect();
    let mut queues: Vec<_> = pairs.iter().filter_map(|&pair| medium.early(pair)).collect();
    queues.sort_unstable_by_key(|(station, _)| station.index());
    queues.dedup_by_key(|(station, _)| station.index());
    if !queues.is_empty() {
        let shared = queues.into_iter().map(|(_, counters)| counters);
        let sum = shared.chain(separate).sum();
        DisciplineMetrics::from(&sum).report_for(entity, report);
    }
}

/// Reports the MAC metrics of a direction of a WLAN with a pair for each access category.
pub fn direction_metrics<P: Payload + Clone>(
    medium: &Medium<P>,
    pairs: impl Iterator<Item = PairId> + Clone,
    now: Instant,
    entity: &str,
    report: &mut ReportFor<'_>,
) {
    let counters = || pairs.clone().map(|pair| medium.pair_counters(pair));
    let pair = counters().fold(PairCounters::default(), PairCounters::plus);
    let elapsed = now.as_secs_f64();
    let airtime = pair.success_time.as_secs_f64() + pair.error_time.as_secs_f64();
    let metrics = PairMetrics {
        attempts: pair.attempts as f64,
        retries: pair.retries as f64,
        collisions: pair.collisions as f64,
        errors: pair.errors as f64,
        acknowledged: pair.acknowledged as f64,
        abandoned: pair.abandoned as f64,
        duplicates: pair.duplicates as f64,
        airtime: Ratio::with_value((airtime / elapsed).min(1.0), airtime, elapsed),
    };
    metrics.report_for(entity, report);
    delay_metrics(medium, pairs.clone()).report_for(entity, report);
    if pairs.clone().any(|pair| medium.has_agreement(pair)) {
        aggregation_metrics(counters()).report_for(entity, report);
        let mut sum = Histograms::default();
        let own = pairs.clone().filter_map(|pair| medium.histograms(pair));
        own.for_each(|one| sum.add(one));
        ModeMetrics::from(&sum).report_for(entity, report);
    }
    let readable = pairs.filter_map(|pair| medium.readable_headers(pair));
    if let Some(readable) = readable.reduce(|sum, one| sum + one) {
        HeaderMetrics { headers_readable: readable as f64 }.report_for(entity, report);
    }
}

impl<P: Probe, X: Extension> World<P, X> {
    /// Sends a packet over a direction of a WLAN.
    pub(super) fn enter_air(&mut self, direction: DirectionId, packet: &Descriptor<X>) {
        let direction::Medium::Shared(shared) = &self.directions[direction.index()].medium else {
            unreachable!("the direction belongs to a WLAN")
        };
        let (at, air) = (self.now, shared.air);
        let pair = shared.pair(self.hops[packet.hop as usize].service);
        let medium = &mut self.airs[air.index()].medium;
        let was_contending = medium.is_contending(pair);
        let admitted = medium.enqueue(at, pair, *packet);
        if !P::ACTIVE && was_contending {
            return;
        }
        if P::ACTIVE {
            let (packets, packet) = (medium.queued(at, pair), packet.full());
            self.probe.record(at, Event::Queue { direction, packets, packet });
            if !admitted {
                self.probe.record(at, Event::Dropped { direction, packet, turn: None });
            }
        }
        self.settle_air(air);
    }

    /// Handles the deadline of a medium.
    pub(super) fn on_air(&mut self, air: AirId) {
        let medium = &mut self.airs[air.index()].medium;
        medium.handle_timeout(self.now);
        if medium.has_delivered() {
            self.deliver_from_air(air);
        }
        self.settle_air(air);
    }

    /// Forwards the packets that a medium has delivered.
    #[inline(always)]
    fn deliver_from_air(&mut self, air: AirId) {
        let medium = &mut self.airs[air.index()].medium;
        let mut delivered = medium.take_delivered();
        for Delivery { pair, sequence, packet, is_damaged } in &mut delivered {
            if *is_damaged {
                self.damaged.push_back(*packet);
                self.hand_up_damaged();
                continue;
            }
            if P::ACTIVE {
                let direction = self.airs[air.index()].directions[pair.index()];
                self.record_delivery(direction, packet, Some(*sequence));
            }
            self.forward(packet);
        }
        self.airs[air.index()].medium.reuse(delivered);
    }

    /// Updates the deadline of a medium, and reports its outcomes and events.
    fn settle_air(&mut self, air: AirId) {
        let Air { medium, machine, .. } = &mut self.airs[air.index()];
        self.deadlines.set(*machine, medium.next_timeout());
        if medium.has_outcomes() {
            self.report_outcomes(air);
        }
        if P::ACTIVE {
            self.record_air(air);
        }
    }

    /// Passes the delivery reports of the medium to the agents of the directions of the packets.
    #[inline(never)]
    fn report_outcomes(&mut self, air: AirId) {
        loop {
            let Air { medium, directions, .. } = &mut self.airs[air.index()];
            let Some(Outcome { pair, fate, packet }) = medium.poll_outcome() else { break };
            let direction = directions[pair.index()];
            self.report_fate(direction, fate, &packet);
        }
    }

    /// Reports the events of a medium to the probe.
    fn record_air(&mut self, air: AirId) {
        let Air { medium, directions, .. } = &mut self.airs[air.index()];
        while let Some(event) = medium.poll_event() {
            let (pair, kind, start, end, fate, packet, bytes, reserves, tid, scoreboard, signal) =
                match event {
                    MediumEvent::Frame {
                        pair,
                        kind,
                        start,
                        end,
                        fate,
                        packet,
                        bytes,
                        reserves,
                        tid,
                        scoreboard,
                        signal,
                    } => (
                        pair, kind, start, end, fate, packet, bytes, reserves, tid, scoreboard,
                        signal,
                    ),
                    MediumEvent::Dropped { pair, packet } => {
                        let (direction, packet) = (directions[pair.index()], packet.full());
                        let dropped = Event::Dropped { direction, packet, turn: None };
                        self.probe.record(self.now, dropped);
                        continue;
                    }
                    MediumEvent::Backoff { pair, from, slots, window, .. } => {
                        if let Some(pair) = pair {
                            let direction = directions[pair.index()];
                            self.probe.record(from, Event::Backoff { direction, slots, window });
                        }
                        continue;
                    }
                };
            let direction = directions[pair.index()];
            let packet = packet.map(|packet| packet.full());
            let on_air = Event::OnAir {
                direction,
                kind,
                fate,
                packet,
                end,
                reserves,
                tid,
                scoreboard,
                signal,
            };
            self.probe.record(start, on_air);
            // A frame with several packets is represented by the first.
            let (AirFrame::Data { sequence, .. } | AirFrame::Mpdu { sequence, subframe: 0, .. }) =
                kind
            else {
                continue;
            };
            let Some(carried) = packet else { continue };
            let listener = self.hops[carried.hop as usize].listener;
            let segment = segment_label(&self.connections, listener, &carried);
            let arrival = (fate == AirFate::Received).then_some(end);
            let label = FrameLabel::data(sequence);
            let sent =
                Event::FrameSent { direction, label, segment, packet, bytes, start, arrival };
            self.probe.record(end, sent);
        }
    }

    /// Reports the metrics of each WLAN.
    pub(super) fn air_metrics(&self, report: &mut ReportFor<'_>) {
        for Air { medium, wlans, .. } in &self.airs {
            for (name, pairs) in wlans {
                wlan_metrics(medium, pairs, self.now, &format!("wlan.{name}"), report);
            }
        }
    }

    /// Reports the MAC metrics of a direction.
    pub(super) fn shared_metrics(&self, entity: &str, shared: &Shared, report: &mut ReportFor<'_>) {
        let medium = &self.airs[shared.air.index()].medium;
        direction_metrics(medium, shared.pairs(), self.now, entity, report);
    }

    /// Returns the queueing delays of a direction; `None` if they are not measured.
    pub(super) fn shared_queueing_delays(&self, shared: &Shared) -> Option<Delays> {
        queueing_delays(&self.airs[shared.air.index()].medium, shared.pairs())
    }

    /// Returns the counters of a direction of a WLAN.
    pub(super) fn shared_counters(&self, shared: &Shared) -> QueueCounters {
        let medium = &self.airs[shared.air.index()].medium;
        let counters = shared.pairs().map(|pair| medium.pair_counters(pair));
        queue_counters(&counters.fold(PairCounters::default(), PairCounters::plus))
    }
}
