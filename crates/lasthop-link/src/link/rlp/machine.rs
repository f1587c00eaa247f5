//! State machine of one end of a radio link protocol.

use super::{HORIZON, MOST_RETRANSMISSIONS, Release, RlpParameters};
use crate::link::driven::Prompt;
use crate::link::rlp_wire::{self, RlpWireWindow};
use crate::link::timers::TransmissionOrder;
use crate::link::timing::deadline;
use crate::link::{
    Abilities, ByteFormat, BytesError, Driven, Endpoint, Frame, FrameKind, LinkCounters, LinkError,
    LinkEvent, check_sizes,
};
use lasthop_base::packet::Payload;
use lasthop_base::units::{Duration, Instant};
use std::collections::VecDeque;

/// Returns the slot of a sequence number in the rings.
#[inline]
fn slot_of(number: u64) -> usize {
    (number % HORIZON) as usize
}

/// Returns the bit of a sequence number in the bitmaps.
#[inline]
fn bit_of(number: u64) -> u128 {
    1 << (number % HORIZON)
}

/// Returns the last sequence number before `end` that is stored in this slot.
#[inline]
pub(super) fn number_in(slot: usize, end: u64) -> u64 {
    let last = end.wrapping_sub(1);
    last.wrapping_sub(last.wrapping_sub(slot as u64) % HORIZON)
}

/// State of a sequence number not yet deliverable.
#[derive(Clone, Debug)]
struct Awaited<P> {
    /// Packet received behind a missing frame.
    held: Option<P>,
    nacks_sent: u8,
    /// Deadline of the latest NACK.
    deadline: Instant,
}

/// One end of a radio link. Slot i of a ring and bit i of a bitmap hold the state of that number,
/// of the last 128, that is congruent to i modulo 128.
///
/// Fields used for every frame are adjacent, those of the sender first. With many stations, little
/// of an endpoint is in the cache when it is called.
///
/// ```
/// use lasthop_base::units::{Bytes, Duration, Instant, Rate};
/// use lasthop_link::link::{Endpoint, LinkTiming, Release, Rlp, RlpParameters};
///
/// let (rate, delay) = (Rate::from_bps(1_000_000), Duration::from_millis(10));
/// let timing = LinkTiming::symmetric(rate, delay, Bytes::new(1_000), Bytes::new(2));
/// let parameters = RlpParameters::for_link(&timing, Release::Immediate);
/// let [mut sender, mut receiver] =
///     [(); 2].map(|()| Rlp::<Vec<u8>>::new(parameters).expect("valid parameters"));
/// let now = Instant::ZERO;
/// let frames = [b"one", b"two"].map(|packet| {
///     sender.enqueue(now, packet.to_vec());
///     sender.poll_transmit(now).expect("a frame")
/// });
/// // The first frame is lost. The second is delivered immediately and reveals the loss.
/// receiver.receive(now, frames[1].clone());
/// assert_eq!(receiver.poll_deliver().as_deref(), Some(&b"two"[..]));
/// sender.receive(now, receiver.poll_transmit(now).expect("a NACK"));
/// receiver.receive(now, sender.poll_transmit(now).expect("a retransmission"));
/// assert_eq!(receiver.poll_deliver().as_deref(), Some(&b"one"[..]));
/// ```
#[derive(Clone, Debug)]
#[repr(C)]
pub struct Rlp<P> {
    /// NACKs to send.
    pub(super) nacks: u128,
    /// Number of the next new frame.
    pub(super) next: u64,
    /// End of the sequence numbers with a packet: `next`, or one more if a new packet is waiting.
    pub(super) filled: u64,
    keepalive_deadline: Instant,
    /// Earliest deadline of a NACK, [`Instant::NEVER`] if none is outstanding.
    nack_deadline: Instant,
    keepalive: Option<Duration>,
    /// The last 128 packets; grows with the first 128.
    history: Vec<Option<P>>,
    header: u32,
    /// Keep-alives sent since the last new frame.
    pub(super) keepalives_sent: u32,
    pub(super) keepalive_due: bool,
    /// Whether a frame is queued for retransmission.
    pub(super) has_queued: bool,
    /// Whether a NACK has ever been received.
    is_asked: bool,
    has_events: bool,
    /// n, the maximum number of retransmissions per frame.
    limit: u8,
    release: Release,

    /// Highest number known to have been sent, plus 1.
    seen: u64,
    missing: u128,
    abandoned: u128,
    /// Next number to deliver; in-sequence delivery only.
    expected: u64,
    pub(super) rare: Box<Rare<P>>,
    pub(super) up: VecDeque<P>,
}

/// State used for few frames only.
#[derive(Clone, Debug)]
pub(super) struct Rare<P> {
    parameters: RlpParameters,
    /// Length of a control frame.
    control: u32,
    /// Number of retransmissions by slot; n + 1 if a further one was refused. Empty until the first
    /// NACK is received.
    copies: Box<[u8]>,
    /// Frames to retransmit, in the order of their NACKs.
    pub(super) queued: TransmissionOrder,
    /// Frames behind the history for which a NACK was refused.
    refused: u128,
    /// State by slot; empty until the first frame is missing.
    awaited: Box<[Awaited<P>]>,
    /// Missing frames whose NACK has been sent, earliest deadline first.
    order: TransmissionOrder,
    events: VecDeque<LinkEvent>,
    /// Counters except new data frames, for which `next` is used.
    pub(super) counters: LinkCounters,
}

impl<P> Rlp<P> {
    /// Creates an idle endpoint. Returns an error if the retransmission limit exceeds
    /// [`MOST_RETRANSMISSIONS`], or if a time or the keep-alive limit is 0.
    pub fn new(parameters: RlpParameters) -> Result<Self, LinkError> {
        let RlpParameters { retransmissions, nack_timeout, header, control, .. } = parameters;
        let protocol = match parameters.release {
            Release::InSequence => "Karn RLP",
            Release::Immediate => "out-of-sequence RLP",
        };
        let limit = match u8::try_from(retransmissions) {
            Ok(limit) if retransmissions <= MOST_RETRANSMISSIONS => limit,
            _ => {
                let (found, largest) = (retransmissions, MOST_RETRANSMISSIONS);
                return Err(LinkError::Retransmissions { protocol, found, largest });
            }
        };
        if nack_timeout == Duration::ZERO {
            return Err(LinkError::Timeout { protocol });
        }
        if parameters.keepalive == Some(Duration::ZERO) || parameters.keepalives == Some(0) {
            return Err(LinkError::Keepalive { protocol });
        }
        let (header, control) = check_sizes(protocol, header, control)?;
        Ok(Rlp {
            nacks: 0,
            next: 0,
            filled: 0,
            keepalive_deadline: Instant::NEVER,
            nack_deadline: Instant::NEVER,
            keepalive: parameters.keepalive,
            history: Vec::new(),
            header,
            keepalives_sent: 0,
            keepalive_due: false,
            has_queued: false,
            is_asked: false,
            has_events: false,
            limit,
            release: parameters.release,
            seen: 0,
            missing: 0,
            abandoned: 0,
            expected: 0,
            rare: Box::new(Rare {
                parameters,
                control,
                copies: Box::default(),
                queued: TransmissionOrder::new(0),
                refused: 0,
                awaited: Box::default(),
                order: TransmissionOrder::new(0),
                events: VecDeque::new(),
                counters: LinkCounters::default(),
            }),
            up: VecDeque::new(),
        })
    }

    /// Reports an event.
    #[cold]
    pub(super) fn tell(&mut self, event: LinkEvent) {
        self.rare.events.push_back(event);
        self.has_events = true;
    }

    /// Updates the earliest NACK deadline after a change of `order`.
    #[cold]
    fn note_order(&mut self) {
        let Rare { order, awaited, .. } = &*self.rare;
        self.nack_deadline = order.first().map_or(Instant::NEVER, |slot| awaited[slot].deadline);
    }

    /// Returns the sequence number state of both directions, for encoding and decoding.
    pub fn wire_window(&self) -> RlpWireWindow {
        RlpWireWindow { seen: self.seen, next: self.next }
    }

    fn write_control(&self, frame: &mut Frame<P>, kind: FrameKind) {
        *frame = Frame { kind, ack: None, payload: None, bytes: self.rare.control, service: 0 };
    }

    #[cold]
    fn on_nack(&mut self, sequence: u64) {
        if sequence >= self.next {
            return;
        }
        if !self.is_asked {
            self.is_asked = true;
            self.rare.copies = vec![0; HORIZON as usize].into();
            self.rare.queued = TransmissionOrder::new(HORIZON as usize);
        }
        let (slot, bit) = (slot_of(sequence), bit_of(sequence));
        let age = self.filled - sequence;
        let Rare { copies, queued, refused, .. } = &mut *self.rare;
        let is_refused = if age > 2 * HORIZON {
            // Too old for the sequence numbers of the medium.
            false
        } else if age > HORIZON {
            let is_first = *refused & bit == 0;
            *refused |= bit;
            is_first
        } else if queued.contains(slot) {
            false
        } else if copies[slot] < self.limit {
            copies[slot] += 1;
            queued.push(slot);
            self.has_queued = true;
            false
        } else {
            let is_first = copies[slot] == self.limit;
            copies[slot] = self.limit + 1;
            is_first
        };
        if is_refused {
            self.rare.counters.abandoned += 1;
            self.tell(LinkEvent::Abandoned { sequence });
        }
    }

    /// Restarts the keep-alive timer when a new frame or keep-alive is sent.
    #[inline]
    pub(super) fn restart_keepalive(&mut self, now: Instant) {
        self.keepalive_due = false;
        // The first keep-alive is always allowed.
        let is_last = self.keepalives_sent > 0
            && self.rare.parameters.keepalives.is_some_and(|n| self.keepalives_sent >= n);
        self.keepalive_deadline = match self.keepalive {
            Some(interval) if !is_last => deadline(now, interval),
            _ => Instant::NEVER,
        };
    }

    #[cold]
    pub(super) fn write_nack(&mut self, now: Instant, frame: &mut Frame<P>) {
        // After the rotation, bit 0 is the oldest number in the bitmap.
        let oldest_first = self.nacks.rotate_right((self.seen % HORIZON) as u32);
        let sequence = self.seen + u64::from(oldest_first.trailing_zeros()) - HORIZON;
        let slot = slot_of(sequence);
        self.nacks &= !bit_of(sequence);
        self.rare.awaited[slot].nacks_sent += 1;
        // A retransmission that arrives exactly at T_nack is in time, regardless of the order in
        // which the driver handles the events.
        let in_time = deadline(now, self.rare.parameters.nack_timeout);
        let alone = deadline(in_time, Duration::from_nanos(1));
        self.rare.awaited[slot].deadline = self.rare.order.last().map_or(alone, |before| {
            alone.max(deadline(self.rare.awaited[before].deadline, self.rare.parameters.copy_time))
        });
        self.rare.order.push(slot);
        self.note_order();
        self.rare.counters.nacks += 1;
        self.tell(LinkEvent::NackSent { sequence });
        self.write_control(frame, FrameKind::Nack { sequence });
    }

    #[inline]
    fn on_data(&mut self, sequence: u64, packet: P) {
        if sequence < self.seen {
            return self.on_copy(sequence, packet);
        }
        if sequence > self.seen || self.missing != 0 {
            self.advance(sequence);
            self.forget_before(sequence);
        } else {
            // No frame is missing, so none is held. Bits of abandoned numbers may remain.
            self.abandoned &= !bit_of(sequence);
        }
        self.seen = sequence + 1;
        match self.release {
            Release::InSequence if self.missing != 0 => {
                self.rare.awaited[slot_of(sequence)].held = Some(packet);
            }
            Release::InSequence => {
                self.up.push_back(packet);
                self.expected = self.seen;
            }
            Release::Immediate => self.up.push_back(packet),
        }
    }

    /// Processes a data frame whose number is below `seen`.
    #[cold]
    fn on_copy(&mut self, sequence: u64, packet: P) {
        let (slot, bit) = (slot_of(sequence), bit_of(sequence));
        if self.seen - sequence > HORIZON {
            self.rare.counters.discarded += 1;
        } else if self.missing & bit != 0 {
            self.missing &= !bit;
            self.nacks &= !bit;
            self.rare.order.remove(slot);
            self.note_order();
            match self.release {
                Release::InSequence => {
                    self.rare.awaited[slot].held = Some(packet);
                    self.release();
                }
                Release::Immediate => self.up.push_back(packet),
            }
        } else if self.abandoned & bit != 0 {
            // Later packets have already been delivered.
            self.rare.counters.discarded += 1;
        } else {
            self.rare.counters.duplicates += 1;
        }
    }

    /// Marks the numbers from `seen` to `end` (exclusive) as missing.
    #[cold]
    fn advance(&mut self, end: u64) {
        if self.rare.awaited.is_empty() {
            let nothing = || Awaited { held: None, nacks_sent: 0, deadline: Instant::ZERO };
            self.rare.awaited = (0..HORIZON).map(|_| nothing()).collect();
            self.rare.order = TransmissionOrder::new(HORIZON as usize);
        }
        while self.seen < end {
            let (number, bit) = (self.seen, bit_of(self.seen));
            self.forget_before(number);
            self.seen += 1;
            self.missing |= bit;
            if self.limit == 0 {
                self.abandon(number);
            } else {
                self.nacks |= bit;
                self.rare.awaited[slot_of(number)].nacks_sent = 0;
            }
        }
    }

    /// Clears the state of `number - 128`, whose slot and bit are reused for `number`.
    #[inline]
    fn forget_before(&mut self, number: u64) {
        if self.missing & bit_of(number) != 0 {
            self.abandon(number - HORIZON);
        }
        self.abandoned &= !bit_of(number);
    }

    /// Abandons a missing number.
    #[cold]
    fn abandon(&mut self, number: u64) {
        let bit = bit_of(number);
        self.missing &= !bit;
        self.nacks &= !bit;
        self.rare.order.remove(slot_of(number));
        self.note_order();
        self.abandoned |= bit;
        self.rare.counters.skipped += 1;
        self.tell(LinkEvent::Abandoned { sequence: number });
        self.release();
    }

    /// Delivers the packets before the first missing number, with in-sequence delivery.
    fn release(&mut self) {
        if self.release == Release::Immediate {
            return;
        }
        let ahead = self.missing.rotate_right((self.expected % HORIZON) as u32);
        let run = u64::from(ahead.trailing_zeros()).min(self.seen - self.expected);
        for number in self.expected..self.expected + run {
            self.up.extend(self.rare.awaited[slot_of(number)].held.take());
        }
        self.expected += run;
    }
}

impl<P: Payload + Clone> Rlp<P> {
    /// Writes the data frame `sequence`. Returns `false` if the frame has no packet.
    #[inline(always)]
    pub(super) fn write_data(&self, sequence: u64, frame: &mut Frame<P>) -> bool {
        let slot = slot_of(sequence);
        debug_assert!(self.history[slot].is_some(), "a frame of the history has its packet");
        let Some(packet) = &self.history[slot] else { return false };
        frame.kind = FrameKind::Data { sequence };
        frame.ack = None;
        frame.bytes = self.header + packet.wire_bytes();
        frame.payload = Some(packet.clone());
        frame.service = 0;
        true
    }

    #[cold]
    pub(super) fn write_keepalive(&mut self, now: Instant, frame: &mut Frame<P>) {
        self.keepalives_sent = self.keepalives_sent.saturating_add(1);
        self.restart_keepalive(now);
        self.rare.counters.keepalives += 1;
        self.write_control(frame, FrameKind::Keepalive { next: self.next });
    }

    /// Returns `true` if frame `sequence` is the next one, no frame is missing and no packet waits
    /// for delivery.
    #[inline(always)]
    pub(super) fn is_next(&self, sequence: u64) -> bool {
        sequence == self.seen && self.missing == 0 && self.up.is_empty()
    }

    /// Accepts frame `sequence`, which is the next one, with no frame missing.
    #[inline(always)]
    pub(super) fn on_next(&mut self, sequence: u64) {
        // No frame is missing, so none is held. Bits of abandoned numbers may remain.
        self.abandoned &= !bit_of(sequence);
        self.seen = sequence + 1;
        self.expected = self.seen;
    }
}

impl<P: Payload + Clone> Endpoint<P> for Rlp<P> {
    type Control = FrameKind;

    #[inline(always)]
    fn wants_packet(&self) -> bool {
        !self.has_urgent() && self.has_room()
    }

    #[inline]
    fn enqueue(&mut self, _now: Instant, packet: P) {
        debug_assert!(self.wants_packet(), "enqueue without wants_packet");
        let (slot, bit) = (slot_of(self.next), bit_of(self.next));
        if self.is_asked {
            let Rare { copies, refused, .. } = &mut *self.rare;
            let was_refused = std::mem::take(&mut copies[slot]) > self.limit;
            *refused = if was_refused { *refused | bit } else { *refused & !bit };
        }
        match self.history.get_mut(slot) {
            Some(place) => *place = Some(packet),
            None => self.history.push(Some(packet)),
        }
        self.filled = self.next + 1;
    }

    fn poll_transmit(&mut self, now: Instant) -> Option<Frame<P>> {
        let mut frame = Frame::default();
        self.write_next(now, &mut frame).then_some(frame)
    }

    #[inline]
    fn has_frame(&self) -> bool {
        self.nacks != 0 || self.has_queued || self.filled > self.next || self.keepalive_due
    }

    #[inline]
    fn receive(&mut self, _now: Instant, frame: Frame<P>) {
        match (frame.kind, frame.payload) {
            (FrameKind::Data { sequence }, Some(packet)) => self.on_data(sequence, packet),
            (FrameKind::Nack { sequence }, _) => self.on_nack(sequence),
            (FrameKind::Keepalive { next }, _) if next > self.seen => self.advance(next),
            _ => {}
        }
    }

    #[inline]
    fn poll_deliver(&mut self) -> Option<P> {
        self.up.pop_front()
    }

    #[inline]
    fn poll_event(&mut self) -> Option<LinkEvent> {
        if !self.has_events {
            return None;
        }
        let event = self.rare.events.pop_front();
        self.has_events = !self.rare.events.is_empty();
        event
    }

    #[inline]
    fn next_timeout(&self) -> Instant {
        self.nack_deadline.min(self.keepalive_deadline)
    }

    fn handle_timeout(&mut self, now: Instant) {
        while self.nack_deadline <= now
            && let Some(slot) = self.rare.order.first()
        {
            self.rare.order.remove(slot);
            self.note_order();
            let number = number_in(slot, self.seen);
            if self.rare.awaited[slot].nacks_sent < self.limit {
                self.nacks |= bit_of(number);
            } else {
                self.abandon(number);
            }
        }
        if self.keepalive_deadline <= now {
            self.keepalive_deadline = Instant::NEVER;
            self.keepalive_due = true;
        }
    }

    fn counters(&self) -> LinkCounters {
        LinkCounters { data_frames: self.next, ..self.rare.counters }
    }
}

impl<P: Payload + Clone> Abilities<P> for Rlp<P> {}

impl ByteFormat for Rlp<Vec<u8>> {
    fn encode(&self, frame: &Frame<Vec<u8>>, bytes: &mut Vec<u8>) -> Result<(), BytesError> {
        Ok(rlp_wire::encode(frame, bytes)?)
    }

    fn decode(&self, bytes: &[u8]) -> Result<Frame<Vec<u8>>, BytesError> {
        Ok(rlp_wire::decode(bytes, &self.wire_window())?)
    }
}
