//! Ideal selective repeat: packets are cut into segments, feedback is perfect and costs nothing.
//!
//! A segment at the sender:
//!
//! ```text
//!        taken         sent            Ack beyond it
//! (none) -----> new ----------> sent ----------------> (gone)
//!                        ^       |                        ^
//!                   sent |       | Nack, limit not met    | given up with its whole packet
//!                        |       v                        |
//!                       failed -----> Nack, limit met ----+
//! ```
//!
//! A number at the receiver:
//!
//! ```text
//!            damaged: Nack           arrives in turn, Ack
//!  awaited -----------------> awaited -------------------> taken; with the last one of its packet
//!     | arrives out of turn      | Skip beyond it             all go up as one
//!     v                          v
//!    held, until its turn     (gone)
//! ```
//!
//! The receiver is told of damaged frames ([`Endpoint::receive_damaged`]): it knows which they
//! were. What it answers, and a sender's word of what it has given up, are frames of no length,
//! which take no time on the air and are never lost ([`Endpoint::poll_free`]). Retransmissions go
//! first, in order of number, then new segments. A segment that fails for the last time takes its
//! whole packet with it, what of it has not been sent included. Packets go up in order; those
//! given up are skipped. The window has no limit.
//!
//! Source: the ideal link of F. Vacirca, A. De Vendictis, A. Baiocchi, "Investigating Interactions
//! between ARQ Mechanisms and TCP over Wireless Links", section 4.1, with packets that follow one
//! another; `analysis::IdealSr` is the same link outside the simulator.
//!
//! Not modelled: a window, numbers that wrap, whatever tells a receiver which frame was damaged.

use super::ByteFormat;
use super::fates::Fates;
use super::protocol::{ProtocolKeys, Site};
use super::{Endpoint, Frame, FrameKind, LinkCounters, LinkError, LinkEvent, check_header};
use lasthop_base::packet::{LinkFate, Payload};
use lasthop_base::schema::Transmissions;
use lasthop_base::schema::keys::{Limits, table};
use lasthop_base::units::{Bytes, Instant};
use std::collections::VecDeque;

/// Header of a segment: that of an acknowledged-mode PDU (3GPP TS 25.322), without extensions.
const SEGMENT_HEADER: Bytes = Bytes::new(2);

table! {
    /// Ideal selective repeat: packets are cut into segments, feedback is perfect and takes
    /// neither time nor capacity; a segment that fails too often takes its whole packet with
    /// it.
    pub struct IdealSrKeys as "ideal-sr" {
        /// Transmissions of a segment at most, the first among them; then its packet is given up.
        max_transmissions: Transmissions = "unlimited", Limits::range(1, 1_000);
        /// Bytes of a packet that one segment carries.
        payload: Bytes = "40 B", Limits::PACKET;
    }
}

/// The machine of one end.
pub type Machine<P> = Box<IdealSr<P>>;

impl ProtocolKeys for IdealSrKeys {
    type Machine<P: Payload + Clone> = Machine<P>;

    const LIMITS_TRANSMISSIONS: bool = true;
    const REPORTS_FATES: bool = true;

    const IS_IDEAL: bool = true;

    fn build<P: Payload + Clone>(&self, site: &Site) -> Result<Machine<P>, LinkError> {
        let end = IdealSr::new(IdealSrParameters {
            max_transmissions: self.max_transmissions.limit(),
            payload: self.payload,
            header: site.header,
        })?;
        Ok(Box::new(end))
    }

    fn default_header(&self) -> Bytes {
        SEGMENT_HEADER
    }

    fn payload(&self) -> Option<Bytes> {
        Some(self.payload)
    }
}

/// Parameters of an ideal selective-repeat endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IdealSrParameters {
    /// Transmissions of a segment at most, at least 1; `None` for no limit.
    pub max_transmissions: Option<u32>,
    /// Bytes of a packet that one segment carries, at least 1.
    pub payload: Bytes,
    /// Header of each segment.
    pub header: Bytes,
}

/// A packet that is not finished.
#[derive(Clone, Debug)]
struct Outgoing<P> {
    packet: P,
    /// Number of its first segment, and how many there are.
    first: u64,
    segments: u32,
    is_given_up: bool,
}

/// Transmissions of a segment whose last one is on its way.
const LAST: u32 = 1 << 31;

/// Without limit.
const UNLIMITED: u32 = LAST - 1;

/// One end of an ideal selective-repeat link.
#[derive(Clone, Debug)]
pub struct IdealSr<P> {
    limit: u32,
    payload: u32,
    header: u32,
    /// Packets under way, in order.
    packets: VecDeque<Outgoing<P>>,
    /// Number of the first segment of the oldest of them.
    base: u64,
    /// Next segment to be sent for the first time, and the one after the last there is.
    next: u64,
    end: u64,
    /// What the receiver expects next.
    acked: u64,
    /// Transmissions of the segments from `base` to `next`.
    transmissions: VecDeque<u32>,
    /// Segments to be sent again, in order.
    failed: VecDeque<u64>,
    /// Number before which the receiver is to wait for nothing, if it has to be told.
    skip: Option<u64>,

    /// The segment whose turn it is to go up.
    expected: u64,
    /// What has come of its packet.
    pieces: Option<P>,
    /// Segments from `expected` on that came out of turn, and whether each ends its packet.
    held: VecDeque<Option<(P, bool)>>,
    up: VecDeque<P>,
    nacks: VecDeque<u64>,
    owes_ack: bool,

    events: VecDeque<LinkEvent>,
    fates: Fates<P>,
    counters: LinkCounters,
}

impl<P> IdealSr<P> {
    /// An idle endpoint.
    ///
    /// # Errors
    /// If the payload is empty or longer than 65 535 bytes, the limit is 0 or more than 2³¹ - 2, or
    /// the header is too long.
    pub fn new(parameters: IdealSrParameters) -> Result<Self, LinkError> {
        const PROTOCOL: &str = "ideal-sr";
        let IdealSrParameters { max_transmissions, payload, header } = parameters;
        let header = check_header(PROTOCOL, header)?;
        if !(1..=65_535).contains(&payload.get()) {
            return Err(LinkError::Payload { protocol: PROTOCOL, found: payload });
        }
        if let Some(found) = max_transmissions
            && !(1..UNLIMITED).contains(&found)
        {
            return Err(LinkError::Transmissions { protocol: PROTOCOL, found });
        }
        Ok(IdealSr {
            limit: max_transmissions.unwrap_or(UNLIMITED),
            payload: payload.get() as u32,
            header,
            packets: VecDeque::with_capacity(8),
            base: 0,
            next: 0,
            end: 0,
            acked: 0,
            transmissions: VecDeque::with_capacity(64),
            failed: VecDeque::with_capacity(64),
            skip: None,
            expected: 0,
            pieces: None,
            held: VecDeque::with_capacity(64),
            up: VecDeque::with_capacity(8),
            nacks: VecDeque::with_capacity(64),
            owes_ack: false,
            events: VecDeque::with_capacity(16),
            fates: Fates::default(),
            counters: LinkCounters::default(),
        })
    }

    /// Place of the packet that a segment belongs to.
    fn place(&self, sequence: u64) -> usize {
        // Mostly it is the oldest.
        match self.packets.get(1) {
            Some(second) if sequence >= second.first => {
                self.packets.partition_point(|packet| packet.first <= sequence) - 1
            }
            _ => 0,
        }
    }

    /// A segment has failed for the last time.
    fn give_up(&mut self, sequence: u64) {
        let place = self.place(sequence);
        let packet = &mut self.packets[place];
        packet.is_given_up = true;
        let numbers = packet.first..packet.first + u64::from(packet.segments);
        if self.next < numbers.end {
            // Only the newest packet can have segments that were never sent.
            self.next = numbers.end;
            self.transmissions.resize((self.next - self.base) as usize, 0);
        }
        self.failed.retain(|failed| !numbers.contains(failed));
        self.counters.abandoned += 1;
        self.events.push_back(LinkEvent::Abandoned { sequence });
        self.finish();
    }

    /// Forgets the oldest packets as far as they have arrived or are given up.
    fn finish(&mut self) {
        while let Some(oldest) = self.packets.front() {
            let beyond = oldest.first + u64::from(oldest.segments);
            if oldest.is_given_up {
                self.skip = Some(beyond);
                self.counters.packets_abandoned += 1;
            } else if beyond > self.acked {
                return;
            }
            let fate =
                if oldest.is_given_up { LinkFate::Abandoned } else { LinkFate::Acknowledged };
            let number = oldest.first;
            self.counters.packets += 1;
            self.transmissions.drain(..oldest.segments as usize);
            self.base = beyond;
            let finished = self.packets.pop_front();
            self.fates.finish(number, fate, finished.map(|finished| finished.packet));
        }
    }

    /// The sender learns that a segment failed.
    fn fail(&mut self, sequence: u64) {
        let Some(index) = sequence.checked_sub(self.base) else { return };
        let Some(&sent) = self.transmissions.get(index as usize) else { return };
        if self.packets[self.place(sequence)].is_given_up {
            return;
        }
        if sent >= self.limit {
            return self.give_up(sequence);
        }
        match self.failed.back() {
            Some(&last) if last > sequence => {
                let place = self.failed.partition_point(|&failed| failed < sequence);
                self.failed.insert(place, sequence);
            }
            _ => self.failed.push_back(sequence),
        }
    }
}

impl<P: Payload + Clone> IdealSr<P> {
    /// A segment arrived undamaged.
    #[inline]
    fn take(&mut self, sequence: u64, piece: P, is_last: bool) {
        if sequence != self.expected || !self.held.is_empty() {
            let Some(index) = sequence.checked_sub(self.expected) else {
                // Its packet was given up while it was on its way.
                self.counters.discarded += 1;
                return;
            };
            let index = index as usize;
            while self.held.len() <= index {
                self.held.push_back(None);
            }
            self.held[index] = Some((piece, is_last));
            return self.take_held();
        }
        self.expected += 1;
        self.assemble(piece, is_last);
    }

    /// Takes what was held and has its turn.
    fn take_held(&mut self) {
        while let Some(Some(_)) = self.held.front() {
            if let Some(Some((piece, is_last))) = self.held.pop_front() {
                self.expected += 1;
                self.assemble(piece, is_last);
            }
        }
    }

    #[inline]
    fn assemble(&mut self, piece: P, is_last: bool) {
        self.owes_ack = true;
        let whole = match self.pieces.take() {
            None => piece,
            Some(mut whole) => {
                whole.append(&piece);
                whole
            }
        };
        if is_last {
            self.up.push_back(whole);
        } else {
            self.pieces = Some(whole);
        }
    }

    /// The sender has given up what comes before `next`.
    fn pass_over(&mut self, next: u64) {
        if next <= self.expected {
            return;
        }
        self.pieces = None;
        while self.expected < next {
            if !matches!(self.held.pop_front(), Some(Some(_))) {
                self.counters.skipped += 1;
            }
            self.expected += 1;
        }
        self.owes_ack = true;
        self.take_held();
    }

    /// Puts a segment on the air.
    #[inline]
    fn transmit(&mut self, sequence: u64) -> Option<Frame<P>> {
        let Outgoing { packet, first, segments, .. } = &self.packets[self.place(sequence)];
        let index = (sequence - first) as u32;
        let from = index * self.payload;
        let bytes = self.payload.min(packet.wire_bytes() - from);
        let is_last = index + 1 == *segments;
        let payload = Some(packet.slice(from, bytes));
        let sent = &mut self.transmissions[(sequence - self.base) as usize];
        *sent += 1;
        if *sent >= self.limit {
            *sent |= LAST;
        }
        Some(Frame {
            kind: FrameKind::Segment { sequence, is_last, poll: false },
            ack: None,
            payload,
            bytes: self.header + bytes,
            service: 0,
        })
    }
}

impl<P: Payload + Clone> Endpoint<P> for IdealSr<P> {
    type Control = FrameKind;

    fn counts_packets(&self) -> bool {
        true
    }

    #[inline]
    fn wants_packet(&self) -> bool {
        self.next == self.end && self.failed.is_empty()
    }

    #[inline]
    fn enqueue(&mut self, _now: Instant, packet: P) {
        debug_assert!(self.wants_packet(), "enqueue without wants_packet");
        let segments = packet.wire_bytes().div_ceil(self.payload).max(1);
        self.packets.push_back(Outgoing { packet, first: self.end, segments, is_given_up: false });
        self.end += u64::from(segments);
    }

    #[inline]
    fn poll_transmit(&mut self, now: Instant) -> Option<Frame<P>> {
        if self.has_free_frame() {
            return self.poll_free(now);
        }
        if let Some(sequence) = self.failed.pop_front() {
            self.counters.retransmissions += 1;
            self.events.push_back(LinkEvent::Retransmitted { sequence });
            let packet = &self.packets[self.place(sequence)];
            self.fates.retry(packet.first, &packet.packet);
            return self.transmit(sequence);
        }
        if self.next == self.end {
            return None;
        }
        let sequence = self.next;
        self.next += 1;
        self.transmissions.push_back(0);
        self.counters.data_frames += 1;
        self.transmit(sequence)
    }

    fn sends_free(&self) -> bool {
        true
    }

    fn poll_free(&mut self, _now: Instant) -> Option<Frame<P>> {
        let (kind, ack) = if let Some(next) = self.skip.take() {
            (FrameKind::Skip { next }, None)
        } else if let Some(sequence) = self.nacks.pop_front() {
            self.counters.nacks += 1;
            (FrameKind::Nack { sequence }, None)
        } else if std::mem::take(&mut self.owes_ack) {
            self.counters.acks += 1;
            (FrameKind::Ack, Some(self.expected))
        } else {
            return None;
        };
        Some(Frame { kind, ack, payload: None, bytes: 0, service: 0 })
    }

    #[inline]
    fn has_frame(&self) -> bool {
        !self.failed.is_empty() || self.next < self.end || self.has_free_frame()
    }

    #[inline]
    fn receive(&mut self, _now: Instant, frame: Frame<P>) {
        match (frame.kind, frame.payload) {
            (FrameKind::Segment { sequence, is_last, .. }, Some(piece)) => {
                self.take(sequence, piece, is_last);
            }
            (FrameKind::Nack { sequence }, _) => self.fail(sequence),
            (FrameKind::Ack, _) => {
                self.acked = self.acked.max(frame.ack.unwrap_or(0));
                self.finish();
            }
            (FrameKind::Skip { next }, _) => self.pass_over(next),
            _ => {}
        }
    }

    #[inline]
    fn receive_damaged(&mut self, _now: Instant, frame: Frame<P>) {
        if let FrameKind::Segment { sequence, .. } = frame.kind
            && sequence >= self.expected
        {
            self.nacks.push_back(sequence);
            self.events.push_back(LinkEvent::NackSent { sequence });
        }
    }

    fn wants_damaged(&self) -> bool {
        true
    }

    /// The new limit holds for segments that were not at the old one with their last transmission;
    /// of those that wait to be sent again, who are at the new one are given up at once.
    fn limit_transmissions(&mut self, limit: Option<u32>) {
        self.limit = limit.map_or(UNLIMITED, |limit| limit.clamp(1, UNLIMITED));
        while let Some(&sequence) = self
            .failed
            .iter()
            .find(|&&sequence| self.transmissions[(sequence - self.base) as usize] >= self.limit)
        {
            self.give_up(sequence);
        }
    }

    #[inline]
    fn poll_deliver(&mut self) -> Option<P> {
        self.up.pop_front()
    }

    #[inline]
    fn poll_event(&mut self) -> Option<LinkEvent> {
        self.events.pop_front()
    }

    #[inline]
    fn drop_events(&mut self) {
        self.events.clear();
    }

    #[inline]
    fn next_timeout(&self) -> Instant {
        Instant::NEVER
    }

    fn handle_timeout(&mut self, _now: Instant) {}

    #[inline]
    fn keep_fates(&mut self) {
        self.fates.keep();
    }

    fn poll_fate(&mut self) -> Option<(LinkFate, P)> {
        self.fates.poll()
    }

    fn counters(&self) -> LinkCounters {
        self.counters
    }
}

impl<P> IdealSr<P> {
    #[inline]
    fn has_free_frame(&self) -> bool {
        self.owes_ack || self.skip.is_some() || !self.nacks.is_empty()
    }
}

/// Perfect feedback has no byte format.
impl ByteFormat for IdealSr<Vec<u8>> {}
