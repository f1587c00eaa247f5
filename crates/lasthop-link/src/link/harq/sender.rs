//! Sending half of hybrid ARQ: unresolved packets, the two modes, loss estimates.

use super::super::delivery_reports::Fates;
use super::super::number_set::NumberSet;
use super::super::timers::TransmissionOrder;
use super::super::timing::{airtime, deadline};
use super::super::{Frame, FrameKind, LinkCounters, LinkEvent};
use super::estimate::Estimate;
use super::{Erasures, HarqMode, HarqParameters, Proactive, Reactive};
use lasthop_base::coding::CodedUnits;
use lasthop_base::packet::{DeliveryReport, Payload};
use lasthop_base::units::{Bytes, Duration, Instant};
use std::collections::VecDeque;

/// Initial number of slots.
const FIRST_SLOTS: usize = 8;

/// State of a packet.
#[derive(Clone, Debug)]
struct Slot<P> {
    /// `None` if the packet is resolved (acknowledged or discarded) or the slot is unused.
    packet: Option<P>,
    /// Units of the latest transmission. `sent` of them have been sent; the latest frame starts
    /// with unit `part`.
    units: CodedUnits,
    sent: u8,
    part: u8,
    /// Number of units reported received, and the end of the units for which feedback was received.
    received: u8,
    answered: u8,
    transmissions: u32,
    /// Transmissions that count towards the limit.
    counted: u32,
    /// Units needed according to the latest feedback.
    needed: u8,
    /// Whether the latest transmission was a probe, the only one outstanding.
    is_probe: bool,
    /// Latest time at which its feedback can arrive.
    deadline: Instant,
}

impl<P> Default for Slot<P> {
    fn default() -> Self {
        Slot {
            packet: None,
            units: CodedUnits::default(),
            sent: 0,
            part: 0,
            received: 0,
            answered: 0,
            transmissions: 0,
            counted: 0,
            needed: 0,
            is_probe: false,
            deadline: Instant::NEVER,
        }
    }
}

/// Sending half of one end. A packet is stored in the slot of its sequence number modulo the number
/// of slots, a power of two. The number of slots grows with the number of outstanding packets.
#[derive(Clone, Debug)]
pub(super) struct Sender<P> {
    parameters: HarqParameters,
    header: u32,
    control: u32,

    /// Sequence number of the oldest unresolved packet.
    base: u64,
    /// Number of the next new packet.
    next: u64,
    /// End of the sequence numbers with a packet: `next`, or one more if a new packet is waiting.
    filled: u64,
    slots: Box<[Slot<P>]>,
    /// Packets to retransmit.
    queued: NumberSet,
    /// Packets of whose transmission some parts, but not all, have been sent, in transmission
    /// order.
    turns: VecDeque<u64>,
    /// Slots of complete transmissions in flight, in transmission order.
    order: TransmissionOrder,

    is_stopped: bool,
    /// Sequence number of the outstanding probe.
    probe: Option<u64>,
    /// Number of consecutive erased transmissions.
    erased: u32,
    /// Loss of first transmissions, and of retransmissions.
    losses: [Estimate; 2],

    /// Latest cumulative acknowledgment of the peer.
    peer_expected: u64,
    /// Highest sequence number discarded, plus 1.
    given_up: u64,
    /// Value of `base` last sent to the peer.
    notified_base: u64,
    skip_deadline: Instant,
    /// Length of the latest frame, in bytes, and its transmission time.
    airtime: (u32, Duration),

    events: VecDeque<LinkEvent>,
    /// Delivery reports, if enabled.
    pub fates: Fates<P>,
    counters: LinkCounters,
}

impl<P> Sender<P> {
    pub fn new(parameters: HarqParameters, header: u32, control: u32) -> Self {
        let estimate = Estimate::new(parameters.estimate_weight, parameters.deviation);
        Sender {
            parameters,
            header,
            control,
            base: 0,
            next: 0,
            filled: 0,
            slots: (0..FIRST_SLOTS).map(|_| Slot::default()).collect(),
            queued: NumberSet::new(u64::from(parameters.window)),
            turns: VecDeque::new(),
            order: TransmissionOrder::new(FIRST_SLOTS),
            is_stopped: parameters.mode == HarqMode::StopAndWait,
            probe: None,
            erased: 0,
            losses: [estimate; 2],
            peer_expected: 0,
            given_up: 0,
            notified_base: 0,
            skip_deadline: Instant::NEVER,
            airtime: (0, Duration::ZERO),
            events: VecDeque::new(),
            fates: Fates::default(),
            counters: LinkCounters::default(),
        }
    }

    pub fn parameters(&self) -> &HarqParameters {
        &self.parameters
    }

    pub fn counters(&self) -> LinkCounters {
        self.counters
    }

    pub fn is_stopped(&self) -> bool {
        self.is_stopped
    }

    pub fn estimated_loss(&self) -> f64 {
        self.losses[0].mean()
    }

    /// Returns the oldest unresolved sequence number and the next new one.
    pub fn outstanding(&self) -> (u64, u64) {
        (self.base, self.next)
    }

    pub fn limit_transmissions(&mut self, limit: Option<u32>) {
        self.parameters.max_transmissions = limit.map(|limit| limit.max(1));
    }

    #[inline]
    pub fn poll_event(&mut self) -> Option<LinkEvent> {
        self.events.pop_front()
    }

    #[inline]
    pub fn drop_events(&mut self) {
        self.events.clear();
    }

    #[inline]
    fn slot(&self, sequence: u64) -> usize {
        sequence as usize & (self.slots.len() - 1)
    }

    /// Returns the sequence number, `base` or higher, that is stored in `slot`.
    #[inline]
    fn sequence_in(&self, slot: usize) -> u64 {
        let mask = self.slots.len() as u64 - 1;
        self.base + ((slot as u64).wrapping_sub(self.base) & mask)
    }

    /// Doubles the number of slots. The order of timers is preserved.
    #[cold]
    #[inline(never)]
    fn grow(&mut self) {
        let count = 2 * self.slots.len();
        let place = |sequence: u64| sequence as usize & (count - 1);
        let mut order = TransmissionOrder::new(count);
        self.order.iter().for_each(|slot| order.push(place(self.sequence_in(slot))));
        let mut slots: Box<[_]> = (0..count).map(|_| Slot::default()).collect();
        for sequence in self.base..self.next {
            let old = self.slot(sequence);
            slots[place(sequence)] = std::mem::take(&mut self.slots[old]);
        }
        (self.slots, self.order) = (slots, order);
    }

    #[inline]
    pub fn wants_packet(&self) -> bool {
        self.probe.is_none()
            && self.queued.is_empty()
            && self.filled == self.next
            && self.next - self.base < u64::from(self.parameters.window)
            && self.has_turn()
    }

    #[inline]
    pub fn has_block(&self) -> bool {
        let has_part = !self.turns.is_empty();
        self.probe.is_none() && (has_part || !self.queued.is_empty() || self.filled > self.next)
    }

    /// Returns `true` if another transmission can be interleaved with those in progress. In
    /// stop-and-wait mode those must be completed first.
    #[inline]
    fn has_turn(&self) -> bool {
        let others = self.turns.len();
        others == 0 || !self.is_stopped && others < self.parameters.interleave as usize
    }

    /// Returns `true` if the peer still waits for a discarded packet and has not been notified.
    #[inline]
    pub fn has_skip(&self) -> bool {
        self.given_up > self.peer_expected
            && self.base > self.peer_expected
            && self.notified_base < self.base
    }

    /// Returns the Skip frame to send, unless a data frame has already notified the peer.
    #[inline]
    pub fn poll_skip(&mut self, now: Instant) -> Option<FrameKind> {
        if !self.has_skip() {
            return None;
        }
        self.notified_base = self.base;
        self.skip_deadline = self.answer_deadline(now, self.control);
        Some(FrameKind::Skip { next: self.base })
    }

    /// Returns the latest time of feedback for a frame of `bytes` that is sent now.
    #[inline]
    fn answer_deadline(&mut self, now: Instant, bytes: u32) -> Instant {
        if self.airtime.0 != bytes {
            self.airtime = (bytes, airtime(Bytes::new(u64::from(bytes)), self.parameters.rate));
        }
        deadline(deadline(now, self.airtime.1), self.parameters.timeout)
    }

    /// Processes a cumulative acknowledgment.
    #[inline]
    pub fn on_expected(&mut self, ack: Option<u64>) {
        let ack = ack.unwrap_or(0).min(self.next);
        self.peer_expected = self.peer_expected.max(ack);
        if self.given_up <= self.peer_expected {
            self.skip_deadline = Instant::NEVER;
        }
    }

    /// Processes feedback for the frame of packet `sequence` that began with unit `first`:
    /// `received` of its units were received, and `needed` more are needed.
    pub fn on_feedback(&mut self, sequence: u64, first: u8, received: u8, needed: u8) {
        if sequence >= self.next {
            return;
        }
        self.erased = 0;
        if self.is_stopped && self.parameters.mode == HarqMode::Adaptive {
            self.is_stopped = false;
            self.probe = None;
            self.events.push_back(LinkEvent::Restored { sequence });
        }
        let at = self.slot(sequence);
        if sequence < self.base || self.slots[at].packet.is_none() {
            return;
        }
        let latest = self.slots[at].units;
        let is_latest = first.wrapping_sub(latest.first) < latest.units && self.order.contains(at);
        if self.parameters.erasures == Erasures::LaterFrame && is_latest {
            self.on_answer_to_later(at);
        }
        let slot = &mut self.slots[at];
        // Whether the feedback is for the latest transmission and not a duplicate.
        let place = first.wrapping_sub(slot.units.first);
        let is_sent = slot.sent == slot.units.units;
        let is_news =
            (slot.answered..slot.sent).contains(&place) && (!is_sent || self.order.contains(at));
        let is_over = is_news && is_sent && place == slot.part;
        if is_news {
            slot.answered = place + 1;
            slot.received = slot.received.saturating_add(received);
            slot.needed = needed;
        }
        if is_over {
            if self.probe == Some(sequence) {
                self.probe = None;
            }
            self.sample(at);
        }
        if needed == 0 {
            if self.probe == Some(sequence) {
                self.probe = None;
            }
            self.resolve(sequence, DeliveryReport::Acknowledged);
        } else if is_over {
            self.order.remove(at);
            self.again(sequence);
        }
    }

    /// Adds the completed latest transmission of a slot to the loss estimate, unless probes are
    /// excluded.
    fn sample(&mut self, at: usize) {
        let slot = &self.slots[at];
        let is_single_by_mode = self.parameters.mode == HarqMode::StopAndWait;
        if slot.is_probe && !is_single_by_mode && !self.parameters.sample_probes {
            return;
        }
        let units = u32::from(slot.units.units);
        let lost = units.saturating_sub(u32::from(slot.received));
        self.losses[usize::from(slot.transmissions > 1)].sample(lost, units);
    }

    /// Removes a packet that is acknowledged or discarded.
    fn resolve(&mut self, sequence: u64, fate: DeliveryReport) {
        let at = self.slot(sequence);
        let packet = self.slots[at].packet.take();
        self.fates.finish(sequence, fate, packet);
        self.order.remove(at);
        if !self.queued.is_empty() {
            self.queued.remove(sequence);
        }
        if !self.turns.is_empty() {
            self.turns.retain(|&other| other != sequence);
        }
        self.counters.packets += 1;
        while self.base < self.next && self.slots[self.slot(self.base)].packet.is_none() {
            self.base += 1;
        }
    }

    /// Queues the packet for retransmission, or discards it at the transmission limit.
    fn again(&mut self, sequence: u64) {
        let at = self.slot(sequence);
        let limit = self.parameters.max_transmissions.unwrap_or(u32::MAX);
        if self.slots[at].counted < limit {
            self.queued.insert(sequence);
            return;
        }
        self.counters.abandoned += 1;
        self.counters.packets_abandoned += 1;
        self.events.push_back(LinkEvent::Abandoned { sequence });
        self.given_up = self.given_up.max(sequence + 1);
        self.resolve(sequence, DeliveryReport::Abandoned);
    }

    #[inline]
    pub fn next_timeout(&self) -> Instant {
        let first = self.order.first().map_or(Instant::NEVER, |slot| self.slots[slot].deadline);
        first.min(self.skip_deadline)
    }

    pub fn handle_timeout(&mut self, now: Instant) {
        while let Some(at) = self.order.first()
            && self.slots[at].deadline <= now
        {
            self.on_timeout(self.sequence_in(at));
        }
        if self.skip_deadline <= now {
            self.skip_deadline = Instant::NEVER;
            self.notified_base = 0;
        }
    }

    /// Handles feedback for the transmission in slot `at`. Feedback arrives in order, so all
    /// earlier transmissions were lost.
    #[cold]
    fn on_answer_to_later(&mut self, at: usize) {
        while let Some(first) = self.order.first()
            && first != at
        {
            self.on_erased(self.sequence_in(first));
        }
    }

    /// Handles the timeout of the latest transmission of this packet.
    fn on_timeout(&mut self, sequence: u64) {
        self.counters.timeouts += 1;
        self.events.push_back(LinkEvent::TimedOut { sequence });
        self.on_erased(sequence);
    }

    /// Handles the loss of the last part of the latest transmission of this packet.
    fn on_erased(&mut self, sequence: u64) {
        let at = self.slot(sequence);
        self.order.remove(at);
        let slot = &self.slots[at];
        if slot.received > 0 {
            // Units of earlier parts were received: the transmission was not erased.
            self.sample(at);
            return self.again(sequence);
        }
        if !self.parameters.skip_erased && (!slot.is_probe || self.parameters.sample_probes) {
            let units = u32::from(slot.units.units);
            self.losses[usize::from(slot.transmissions > 1)].sample(units, units);
        }
        if self.probe == Some(sequence) {
            self.probe = None;
        }
        self.erased += 1;
        if self.erased >= self.parameters.detect
            && self.parameters.mode == HarqMode::Adaptive
            && !self.is_stopped
        {
            self.is_stopped = true;
            self.events.push_back(LinkEvent::Disrupted { sequence });
        }
        self.again(sequence);
    }
}

impl<P: Payload + Clone> Sender<P> {
    #[inline]
    pub fn enqueue(&mut self, packet: P) {
        debug_assert!(self.wants_packet(), "enqueue without wants_packet");
        if self.next - self.base == self.slots.len() as u64 {
            self.grow();
        }
        let at = self.slot(self.next);
        let slot = &mut self.slots[at];
        (slot.transmissions, slot.counted, slot.needed) = (0, 0, 0);
        slot.packet = Some(packet);
        self.filled = self.next + 1;
    }

    /// Writes the next frame. Returns `false` if none can be sent.
    #[inline]
    pub fn write_block(&mut self, now: Instant, frame: &mut Frame<P>) -> bool {
        if self.probe.is_some() {
            return false;
        }
        if !self.begins() {
            let Some(sequence) = self.turns.pop_front() else { return false };
            return self.transmit_part(now, sequence, frame);
        }
        if !self.queued.is_empty()
            && let Some(sequence) = self.queued.first(self.base, self.next)
        {
            self.queued.remove(sequence);
            self.counters.retransmissions += 1;
            self.events.push_back(LinkEvent::Retransmitted { sequence });
            if let Some(packet) = &self.slots[self.slot(sequence)].packet {
                self.fates.retry(sequence, packet);
            }
            return self.transmit(now, sequence, frame);
        }
        if self.filled > self.next {
            let sequence = self.next;
            self.next += 1;
            self.counters.data_frames += 1;
            return self.transmit(now, sequence, frame);
        }
        false
    }

    /// Returns `true` if the next frame begins a transmission, rather than continuing one.
    #[inline]
    fn begins(&self) -> bool {
        if self.turns.is_empty() {
            return true;
        }
        let next = match self.queued.len() {
            0 => (self.filled > self.next).then_some(self.next),
            _ => self.queued.first(self.base, self.next),
        };
        // A packet that must be sent alone waits for the transmissions in progress.
        let is_single = |next| self.is_single(self.slots[self.slot(next)].transmissions + 1);
        self.has_turn() && next.is_some_and(|next| !is_single(next))
    }

    /// Returns `true` if the given transmission of a packet, counted from 1, must be sent alone.
    #[inline]
    fn is_single(&self, transmission: u32) -> bool {
        let limit = self.parameters.pipelined_transmissions;
        self.is_stopped || limit.is_some_and(|limit| transmission > limit)
    }

    /// Starts a transmission.
    #[inline]
    fn transmit(&mut self, now: Instant, sequence: u64, frame: &mut Frame<P>) -> bool {
        let at = self.slot(sequence);
        let parameters = &self.parameters;
        let slot = &mut self.slots[at];
        debug_assert!(slot.packet.is_some(), "a number in the window has its packet");
        let Some(packet) = &slot.packet else { return false };
        let bytes = packet.wire_bytes();
        let units = &mut slot.units;
        if slot.transmissions == 0 {
            let parity = match parameters.proactive {
                Proactive::Adaptive => self.losses[0].parity(parameters.units),
                Proactive::None => 0,
            };
            // At most 64.
            let data = (parameters.units - parity) as u8;
            *units = CodedUnits {
                data,
                first: 0,
                units: parameters.units as u8,
                ..CodedUnits::default()
            };
            units.padding = (units.unit_bytes(bytes) * u32::from(data) - bytes) as u8;
            slot.needed = data;
            self.counters.parities += u64::from(parity);
        } else {
            let count = match parameters.reactive {
                Reactive::Full => parameters.units,
                Reactive::Needed => self.losses[1].units_for(slot.needed.into(), parameters.units),
            };
            units.first = units.first.wrapping_add(units.units);
            units.units = count as u8;
            self.counters.parities += u64::from(count);
        }
        slot.transmissions += 1;
        (slot.sent, slot.received, slot.answered) = (0, 0, 0);
        let is_single = self.is_single(self.slots[at].transmissions);
        let slot = &mut self.slots[at];
        slot.is_probe = is_single;
        slot.counted += u32::from(self.parameters.probes_count || !is_single);
        if is_single {
            self.probe = Some(sequence);
        }
        self.transmit_part(now, sequence, frame)
    }

    /// Writes the next frame of a transmission: all units, or the next part.
    #[inline]
    fn transmit_part(&mut self, now: Instant, sequence: u64, frame: &mut Frame<P>) -> bool {
        let at = self.slot(sequence);
        let slot = &mut self.slots[at];
        let Some(packet) = &slot.packet else { return false };
        let bytes = packet.wire_bytes();
        let mut units = slot.units;
        let all = units.units;
        if self.parameters.interleave > 1 && !slot.is_probe {
            let part = all.div_ceil(self.parameters.interleave as u8);
            units.first = units.first.wrapping_add(slot.sent);
            units.units = part.min(all - slot.sent);
        }
        (slot.part, slot.sent) = (slot.sent, slot.sent + units.units);
        let length = u32::from(units.units) * (self.header + units.unit_bytes(bytes));
        frame.payload = Some(packet.code_units(&units));
        if slot.sent < all {
            self.turns.push_back(sequence);
        } else {
            let deadline = self.answer_deadline(now, length);
            self.slots[at].deadline = deadline;
            self.order.push(at);
        }
        self.notified_base = self.base;
        // Fits, as the window is at most half of the sequence number range.
        let behind = (sequence - self.base) as u16;
        frame.kind = FrameKind::Block { sequence, units, intact: units.all(), behind };
        frame.ack = None;
        frame.bytes = length;
        frame.service = 0;
        true
    }
}
