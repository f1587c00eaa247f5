//! Selective repeat with multireject: a sliding window in which only lost frames are sent again.
//!
//! Source: Xylomenos and Kokkinakis, "Multiple layer error control over wireless links"; after
//! Brady, "Evaluation of multireject, selective reject, and other protocol enhancements", IEEE
//! Trans. Commun. 35(6), 1987. Window, timeout and the rule of repeated NACKs are published
//! nowhere: they are parameters (`docs/links/selective-repeat.md` says where their defaults come from).
//!
//! A frame at the sender:
//!
//! ```text
//!          enqueue         sent            ACK beyond it
//!  (none) --------> new ----------> sent ----------------> (gone)
//!                                   ^  |                     ^
//!                              sent |  | NACK or timer       | ACK beyond it
//!                                   |  v                     |
//!                                  queued -------------------+
//! ```
//!
//! A number at the receiver:
//!
//! ```text
//!              a later one arrives             arrives
//!   not seen -----------------------> missing ---------> buffered
//!      |                                 |                  |
//!      | arrives, all before are in      | the same         | the hole is filled
//!      +-------------------------------->+----------------->+--> delivered, one ACK for the run
//! ```
//!
//! Each missing number is NACKed when its gap is first seen, and again by [`Renack`]. The receiver
//! has no timer: if nothing arrives the sender's timer is the backstop. Out goes, in this order:
//! NACKs, retransmissions by number, new data, stand-alone ACKs. Nothing is ever given up.
//!
//! Timers count from the start of a transmission (the machine does not know the rate), so they
//! include the frame's own air time.
//!
//! Not modelled: reordering by the channel, adaptive timers, a limit on retransmissions, combined
//! NACKs for several frames.

use super::fates::Fates;
use super::number_set::NumberSet;
use super::protocol::{ProtocolKeys, Site};
use super::timers::TransmissionOrder;
use super::timing::{LinkTiming, deadline};
use super::wire::{NumberWidth, WireWindow};
use super::{
    Acknowledgment, Endpoint, Frame, FrameKind, LinkCounters, LinkError, LinkEvent, Port,
    check_parameters,
};
use super::{ByteFormat, BytesError, wire};
use crate::packet::{LinkFate, Payload};
use crate::schema::LinkTimeout;
use crate::schema::keys::{Limits, choice, table};
use crate::units::{Bytes, Duration, Instant};
use std::collections::VecDeque;

/// When a number that is still missing is NACKed again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Renack {
    /// Never: one NACK when the gap is first seen.
    OncePerGap,
    /// On a data frame that reveals a new gap: everything still missing, older gaps too.
    EveryGap,
    /// On every data frame that arrives.
    EveryArrival,
    /// On any arrival, once the last NACK for it is at least this old (in nanoseconds).
    AfterRoundTrip(Duration),
}

table! {
    /// Selective-repeat ARQ: the receiver keeps what comes out of order and asks for what is
    /// missing.
    pub struct SelectiveRepeatKeys as "selective-repeat" {
        /// Frames that may be outstanding.
        window: u32 = "8", Limits::range(1, NumberWidth::WIDEST_SELECTIVE as u64);
        /// Time after which a frame is sent again; "auto" derives it from the link.
        timeout: LinkTimeout = "auto";
        /// Which frames have a retransmission timer.
        timer: TimerMode = "per-frame";
        /// When the receiver asks again for a frame that is still missing.
        renack: RenackRule = "after-round-trip";
        /// How acknowledgments travel.
        acks: Acknowledgment = "piggybacked";
        /// Size of a stand-alone acknowledgment or negative acknowledgment, by default that of the
        /// header: 2 B, with windows above 128 frames, whose numbers have two bytes, 4 B.
        control: Option<Bytes>, Limits::CONTROL;
    }
}

choice! {
    /// Which frames have a retransmission timer.
    pub enum TimerMode {
        /// Each outstanding frame has its own, as published. A frame buffered behind a hole is
        /// acknowledged only when the hole is filled: a shorter timeout sends it needlessly.
        PerFrame = "per-frame",
        /// Only the oldest outstanding frame has one.
        BaseOnly = "base-only",
    }
}

choice! {
    /// When a receiver asks again for a frame that is still missing.
    pub enum RenackRule {
        /// Never: once for each missing frame; then the sender's timer must help.
        OncePerGap = "once-per-gap",
        /// With each data frame that reveals a new gap, for all frames that are still missing.
        EveryGap = "every-gap",
        /// With each data frame that arrives.
        EveryArrival = "every-arrival",
        /// When the frame asked for has not come after a round trip.
        AfterRoundTrip = "after-round-trip",
    }
}

impl SelectiveRepeatKeys {
    fn width(&self) -> NumberWidth {
        NumberWidth::selective(self.window)
    }

    fn control_size(&self) -> Bytes {
        self.control.unwrap_or(self.width().header())
    }
}

/// The machine of one end.
pub type Machine<P> = SelectiveRepeat<P>;

impl ProtocolKeys for SelectiveRepeatKeys {
    type Machine<P: Payload + Clone> = Machine<P>;

    const REPORTS_FATES: bool = true;

    fn build<P: Payload + Clone>(&self, site: &Site) -> Result<Machine<P>, LinkError> {
        let timing = site.timing(self.control_size());
        let auto = SelectiveRepeatParameters::for_link(&timing, self.window);
        SelectiveRepeat::new(SelectiveRepeatParameters {
            // The copy may have to wait for other services too.
            timeout: self.timeout.or(auto.timeout + site.own_wait),
            renack: match self.renack {
                RenackRule::OncePerGap => Renack::OncePerGap,
                RenackRule::EveryGap => Renack::EveryGap,
                RenackRule::EveryArrival => Renack::EveryArrival,
                RenackRule::AfterRoundTrip => Renack::AfterRoundTrip(timing.repair_time()),
            },
            timer: self.timer,
            acknowledgment: self.acks,
            header: site.header,
            control: self.control_size(),
            ..auto
        })
    }

    fn default_header(&self) -> Bytes {
        self.width().header()
    }

    fn control(&self) -> Option<Bytes> {
        Some(self.control_size())
    }
}

/// Parameters of selective repeat.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SelectiveRepeatParameters {
    /// Frames that may be outstanding, 1 to 32768 (half of the numbers of two bytes). Above 128
    /// numbers need two bytes.
    pub window: u32,
    /// Retransmission timeout from the start of a frame's transmission, in nanoseconds; above 0.
    pub timeout: Duration,
    /// When to NACK again.
    pub renack: Renack,
    /// Which frames have a timer.
    pub timer: TimerMode,
    /// A NACK is stale, and ignored, if the frame's last transmission started less than this ago
    /// (in nanoseconds): the NACK left before that copy can have arrived.
    pub nack_guard: Duration,
    /// How acknowledgments travel.
    pub acknowledgment: Acknowledgment,
    /// Link header of a data frame, in bytes (default 2: number and acknowledgment).
    pub header: Bytes,
    /// Length of an ACK or NACK frame, in bytes (default 2).
    pub control: Bytes,
}

/// For how many copies the default timeout lets an acknowledgment wait: those of all frames of a
/// window before it, but no more than in the default window. A longer burst of losses is rarer than
/// a last frame that only the timer brings back.
fn copies_ahead(window: u32) -> u64 {
    u64::from(window.saturating_sub(1)).clamp(1, 7)
}

impl SelectiveRepeatParameters {
    /// Defaults for a link and a window: as timeout [`LinkTiming::repaired_turnaround`] behind
    /// the copies of the window before a frame, at most 7, NACK again after
    /// [`LinkTiming::repair_time`], guard RTT_L, piggybacked acknowledgments.
    pub fn for_link(timing: &LinkTiming, window: u32) -> Self {
        SelectiveRepeatParameters {
            window,
            timeout: timing.repaired_turnaround(copies_ahead(window)),
            renack: Renack::AfterRoundTrip(timing.repair_time()),
            timer: TimerMode::PerFrame,
            nack_guard: timing.round_trip(),
            acknowledgment: Acknowledgment::Piggyback,
            header: Bytes::new(2),
            control: Bytes::new(2),
        }
    }
}

/// One end of a selective-repeat link. Slots of the rings are numbers modulo their power-of-two
/// size.
#[derive(Clone, Debug)]
pub struct SelectiveRepeat<P> {
    parameters: SelectiveRepeatParameters,
    mask: u64,
    header: u32,
    control: u32,

    /// Oldest number not acknowledged.
    base: u64,
    /// Number of the next new frame.
    next: u64,
    /// End of the numbers that have a packet: `next`, or one more if a packet waits.
    filled: u64,
    /// To be sent again.
    queued: NumberSet,
    packets: Box<[Option<P>]>,
    /// Start of the last transmission.
    sent: Box<[Instant]>,
    order: TransmissionOrder,
    /// Deadline of the oldest frame in [`TimerMode::BaseOnly`].
    base_deadline: Instant,

    /// Next number to deliver.
    expected: u64,
    /// One beyond the highest number seen.
    seen: u64,
    buffered: NumberSet,
    /// NACKs that wait for the transmitter.
    nacks: NumberSet,
    ack_pending: bool,
    held: Box<[Option<P>]>,
    nacked: Box<[Instant]>,

    up: VecDeque<P>,
    events: VecDeque<LinkEvent>,
    fates: Fates<P>,
    counters: LinkCounters,
}

impl<P> SelectiveRepeat<P> {
    /// An idle endpoint; refuses a window outside 1 to 32768 and a timeout of 0.
    pub fn new(parameters: SelectiveRepeatParameters) -> Result<Self, LinkError> {
        let SelectiveRepeatParameters { window, timeout, header, control, .. } = parameters;
        let widest = NumberWidth::WIDEST_SELECTIVE;
        let (header, control) =
            check_parameters("selective repeat", window, widest, timeout, header, control)?;
        let numbers = || NumberSet::new(u64::from(window));
        let slots = window.next_power_of_two() as usize;
        let empty = || (0..slots).map(|_| None).collect();
        Ok(SelectiveRepeat {
            parameters,
            mask: slots as u64 - 1,
            header,
            control,
            base: 0,
            next: 0,
            filled: 0,
            queued: numbers(),
            packets: empty(),
            sent: vec![Instant::ZERO; slots].into(),
            order: TransmissionOrder::new(slots),
            base_deadline: Instant::NEVER,
            expected: 0,
            seen: 0,
            buffered: numbers(),
            nacks: numbers(),
            ack_pending: false,
            held: empty(),
            nacked: vec![Instant::ZERO; slots].into(),
            up: VecDeque::with_capacity(slots),
            events: VecDeque::with_capacity(2 * slots),
            fates: Fates::default(),
            counters: LinkCounters::default(),
        })
    }

    /// What it was made with.
    pub fn parameters(&self) -> &SelectiveRepeatParameters {
        &self.parameters
    }

    /// Where both directions stand, for the byte codec.
    pub fn wire_window(&self) -> WireWindow {
        let SelectiveRepeatParameters { window, .. } = self.parameters;
        let width = NumberWidth::selective(self.parameters.window);
        WireWindow { expected: self.expected, base: self.base, next: self.next, window, width }
    }

    #[inline]
    fn slot(&self, sequence: u64) -> usize {
        (sequence & self.mask) as usize
    }

    #[inline]
    fn per_frame(&self) -> bool {
        self.parameters.timer == TimerMode::PerFrame
    }

    /// Must an acknowledgment go out on its own before any data?
    #[inline]
    fn ack_first(&self) -> bool {
        self.ack_pending && self.parameters.acknowledgment == Acknowledgment::StandAlone
    }

    fn control_frame(&mut self, kind: FrameKind) -> Frame<P> {
        // A NACK carries the acknowledgment too.
        self.ack_pending = false;
        Frame { kind, ack: Some(self.expected), payload: None, bytes: self.control, service: 0 }
    }

    fn ack_frame(&mut self) -> Frame<P> {
        self.counters.acks += 1;
        self.control_frame(FrameKind::Ack)
    }

    #[inline(always)]
    fn on_ack(&mut self, now: Instant, ack: u64) {
        if ack > self.base && ack <= self.next {
            self.move_base(now, ack);
        }
    }

    /// All frames before `ack` have arrived.
    fn move_base(&mut self, now: Instant, ack: u64) {
        if self.fates.are_kept() {
            self.report_acknowledged(ack);
        }
        for sequence in self.base..ack {
            let slot = self.slot(sequence);
            self.packets[slot] = None;
            if self.per_frame() {
                self.order.remove(slot);
            }
        }
        self.queued.remove_range(self.base, ack);
        self.base = ack;
        if !self.per_frame() {
            let running = self.base < self.next && !self.queued.contains(self.base);
            self.base_deadline = if running {
                deadline(self.sent[self.slot(ack)], self.parameters.timeout).max(now)
            } else {
                Instant::NEVER
            };
        }
    }

    /// All before `ack` have arrived.
    #[cold]
    fn report_acknowledged(&mut self, ack: u64) {
        for sequence in self.base..ack {
            let packet = self.packets[self.slot(sequence)].take();
            self.fates.finish(sequence, LinkFate::Acknowledged, packet);
        }
    }

    fn on_nack(&mut self, now: Instant, sequence: u64) {
        if sequence < self.base || sequence >= self.next {
            return;
        }
        let age = now.saturating_since(self.sent[self.slot(sequence)]);
        if !self.queued.contains(sequence) && age >= self.parameters.nack_guard {
            self.queue(sequence);
        }
    }

    /// The frame is to be sent again; its timer stops until then.
    fn queue(&mut self, sequence: u64) {
        self.queued.insert(sequence);
        if self.per_frame() {
            self.order.remove(self.slot(sequence));
        } else if sequence == self.base {
            self.base_deadline = Instant::NEVER;
        }
    }

    #[inline]
    fn on_data(&mut self, sequence: u64, packet: P) {
        let Some(offset) = sequence.checked_sub(self.expected) else {
            return self.on_duplicate();
        };
        if offset == 0 {
            self.up.push_back(packet);
            self.ack_pending = true;
            let first = sequence + 1;
            let end = match self.buffered.len() {
                0 => first,
                _ => self.buffered.first_absent(first, self.seen).unwrap_or(self.seen),
            };
            for later in first..end {
                let slot = self.slot(later);
                self.up.extend(self.held[slot].take());
            }
            self.buffered.remove_range(first, end);
            self.nacks.remove_range(sequence, end);
            self.expected = end;
            self.seen = self.seen.max(end);
            return;
        }
        if offset >= u64::from(self.parameters.window) {
            // A correct sender cannot be there.
            self.counters.discarded += 1;
            return;
        }
        if !self.buffered.insert(sequence) {
            return self.on_duplicate();
        }
        let slot = self.slot(sequence);
        self.held[slot] = Some(packet);
        self.nacks.remove(sequence);
        if sequence > self.seen {
            if self.parameters.renack == Renack::EveryGap {
                self.ask_for_missing(|_| true);
            }
            for lost in self.seen..sequence {
                self.nacks.insert(lost);
            }
        }
        self.seen = self.seen.max(sequence + 1);
    }

    #[cold]
    fn on_duplicate(&mut self) {
        self.counters.duplicates += 1;
        self.ack_pending = true;
    }

    /// Asks for those of the numbers missing so far for whose slot `wanted` holds.
    fn ask_for_missing(&mut self, wanted: impl Fn(Instant) -> bool) {
        let mut from = self.expected;
        while let Some(missing) = self.buffered.first_absent(from, self.seen) {
            if !self.nacks.contains(missing) && wanted(self.nacked[self.slot(missing)]) {
                self.nacks.insert(missing);
            }
            from = missing + 1;
        }
    }

    /// The numbers missing whose NACK has gone out are NACKed again where the rule says so.
    #[cold]
    fn renack(&mut self, now: Instant, is_data: bool) {
        match self.parameters.renack {
            // With `EveryGap` the arrival itself has seen to it.
            Renack::OncePerGap | Renack::EveryGap => {}
            // Control frames do not count, or two ends would NACK each other for ever.
            Renack::EveryArrival if is_data => self.ask_for_missing(|_| true),
            Renack::EveryArrival => {}
            Renack::AfterRoundTrip(round_trip) => {
                self.ask_for_missing(|last| now.saturating_since(last) >= round_trip);
            }
        }
    }
}

impl<P: Payload + Clone> SelectiveRepeat<P> {
    /// A frame is sent again.
    #[cold]
    fn report_retry(&mut self, sequence: u64) {
        if let Some(packet) = &self.packets[self.slot(sequence)] {
            self.fates.retry(sequence, packet);
        }
    }

    #[inline(always)]
    fn data_frame(&mut self, now: Instant, sequence: u64) -> Option<Frame<P>> {
        let slot = self.slot(sequence);
        debug_assert!(self.packets[slot].is_some(), "a frame in the window has its packet");
        let packet = self.packets[slot].clone()?;
        self.sent[slot] = now;
        if self.per_frame() {
            self.order.push(slot);
        } else if sequence == self.base {
            self.base_deadline = deadline(now, self.parameters.timeout);
        }
        if self.parameters.acknowledgment == Acknowledgment::Piggyback {
            self.ack_pending = false;
        }
        let bytes = self.header + packet.wire_bytes();
        let kind = FrameKind::Data { sequence };
        Some(Frame { kind, ack: Some(self.expected), payload: Some(packet), bytes, service: 0 })
    }
}

impl<P: Payload + Clone> Endpoint<P> for SelectiveRepeat<P> {
    fn retransmission_timeout(&self) -> Option<Duration> {
        Some(self.parameters.timeout)
    }

    fn window(&self) -> Option<u32> {
        Some(self.parameters.window)
    }

    #[inline(always)]
    fn wants_packet(&self) -> bool {
        self.nacks.len() == 0
            && self.queued.len() == 0
            && self.filled == self.next
            && self.next - self.base < u64::from(self.parameters.window)
            && !self.ack_first()
    }

    #[inline]
    fn enqueue(&mut self, _now: Instant, packet: P) {
        debug_assert!(self.wants_packet(), "enqueue without wants_packet");
        let slot = self.slot(self.next);
        self.packets[slot] = Some(packet);
        self.filled = self.next + 1;
    }

    #[inline(always)]
    fn poll_transmit(&mut self, now: Instant) -> Option<Frame<P>> {
        if self.nacks.len() != 0
            && let Some(sequence) = self.nacks.first(self.expected, self.seen)
        {
            self.nacks.remove(sequence);
            let slot = self.slot(sequence);
            self.nacked[slot] = now;
            self.counters.nacks += 1;
            self.events.push_back(LinkEvent::NackSent { sequence });
            return Some(self.control_frame(FrameKind::Nack { sequence }));
        }
        if self.ack_first() {
            return Some(self.ack_frame());
        }
        if self.queued.len() != 0
            && let Some(sequence) = self.queued.first(self.base, self.next)
        {
            self.queued.remove(sequence);
            self.counters.retransmissions += 1;
            self.events.push_back(LinkEvent::Retransmitted { sequence });
            if self.fates.are_kept() {
                self.report_retry(sequence);
            }
            return self.data_frame(now, sequence);
        }
        if self.filled > self.next {
            let sequence = self.next;
            self.next += 1;
            self.counters.data_frames += 1;
            return self.data_frame(now, sequence);
        }
        self.ack_pending.then(|| self.ack_frame())
    }

    #[inline(always)]
    fn has_frame(&self) -> bool {
        self.nacks.len() != 0
            || self.queued.len() != 0
            || self.filled > self.next
            || self.ack_pending
    }

    #[inline]
    fn receive(&mut self, now: Instant, frame: Frame<P>) {
        if let Some(ack) = frame.ack {
            self.on_ack(now, ack);
        }
        let mut is_data = false;
        match (frame.kind, frame.payload) {
            (FrameKind::Data { sequence }, Some(packet)) => {
                is_data = true;
                self.on_data(sequence, packet);
            }
            (FrameKind::Nack { sequence }, _) => self.on_nack(now, sequence),
            _ => {}
        }
        if self.seen > self.expected {
            self.renack(now, is_data);
        }
    }

    /// The packet of the next frame in order passes through.
    #[inline]
    fn accept(&mut self, now: Instant, frame: &mut Frame<P>) -> (Option<P>, bool) {
        if let FrameKind::Data { sequence } = frame.kind
            && sequence == self.expected
            && self.buffered.len() == 0
            && self.nacks.len() == 0
            && self.up.is_empty()
        {
            if let Some(ack) = frame.ack {
                self.on_ack(now, ack);
            }
            self.ack_pending = true;
            self.expected += 1;
            self.seen = self.seen.max(self.expected);
            if self.seen > self.expected {
                self.renack(now, true);
            }
            return (frame.payload.take(), false);
        }
        let Frame { kind, ack, bytes, service, .. } = *frame;
        let payload = frame.payload.take();
        self.receive(now, Frame { kind, ack, payload, bytes, service });
        (self.poll_deliver(), !self.up.is_empty())
    }

    /// A new packet goes from the queue into its place.
    #[inline(always)]
    fn load<Q: Port<P>>(&mut self, _now: Instant, port: &mut Q) {
        let slot = self.slot(self.next);
        port.take_packet_into(&mut self.packets[slot]);
        self.filled += u64::from(self.packets[slot].is_some());
    }

    #[inline]
    fn poll_deliver(&mut self) -> Option<P> {
        self.up.pop_front()
    }

    #[inline]
    fn poll_event(&mut self) -> Option<LinkEvent> {
        self.events.pop_front()
    }

    #[inline(always)]
    fn next_timeout(&self) -> Instant {
        match self.parameters.timer {
            TimerMode::PerFrame => self
                .order
                .first()
                .map_or(Instant::NEVER, |slot| deadline(self.sent[slot], self.parameters.timeout)),
            TimerMode::BaseOnly => self.base_deadline,
        }
    }

    /// The end of a frame is nothing to wake for if nothing follows it.
    #[inline(always)]
    fn next_poll_while_busy(&self, free_at: Instant, has_packets: bool) -> Instant {
        self.next_poll(free_at, has_packets)
    }

    fn sleeps_while_busy(&self) -> bool {
        true
    }

    fn handle_timeout(&mut self, now: Instant) {
        while self.next_timeout() <= now && self.base < self.next {
            let slot = match self.parameters.timer {
                TimerMode::PerFrame => self.order.first(),
                TimerMode::BaseOnly => {
                    (!self.queued.contains(self.base)).then(|| self.slot(self.base))
                }
            };
            let Some(slot) = slot else { return };
            // The slot's number is the one at or after `base` with these low bits.
            let sequence = self.base + ((slot as u64).wrapping_sub(self.base) & self.mask);
            self.counters.timeouts += 1;
            self.events.push_back(LinkEvent::TimedOut { sequence });
            self.queue(sequence);
        }
    }

    fn keep_fates(&mut self) {
        self.fates.keep();
    }

    fn poll_fate(&mut self) -> Option<(LinkFate, P)> {
        self.fates.poll()
    }

    fn counters(&self) -> LinkCounters {
        self.counters
    }

    #[inline]
    fn drop_events(&mut self) {
        self.events.clear();
    }
}

impl ByteFormat for SelectiveRepeat<Vec<u8>> {
    fn encode(&self, frame: &Frame<Vec<u8>>, bytes: &mut Vec<u8>) -> Result<(), BytesError> {
        Ok(wire::encode(frame, self.wire_window().width, bytes)?)
    }

    fn decode(&self, bytes: &[u8]) -> Result<Frame<Vec<u8>>, BytesError> {
        Ok(wire::decode(bytes, &self.wire_window())?)
    }
}
