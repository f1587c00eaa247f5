//! Ideal selective repeat: packets are segmented, feedback is perfect and uses no capacity.
//!
//! States of a segment at the sender:
//!
//! ```text
//!        taken         sent            Ack beyond it
//! (none) -----> new ----------> sent ----------------> (removed)
//!                        ^       |                        ^
//!                   sent |       | Nack, below limit      | discarded with its packet
//!                        |       v                        |
//!                       failed -----> Nack at the limit --+
//! ```
//!
//! States of a sequence number at the receiver:
//!
//! ```text
//!          received with errors: Nack      received in order: Ack
//!  awaited -------------------------> awaited -----------------> assembled; with the last segment
//!     | received out of order            | Skip beyond it          the packet is delivered
//!     v                                  v
//!    held, until in order              (skipped)
//! ```
//!
//! The receiver can identify frames received with errors ([`IdealFeedback::receive_damaged`]). Its
//! feedback, and the sender's Skip for discarded packets, are frames of length 0: their
//! transmission takes no time, and they are never lost ([`IdealFeedback::poll_free`]). Retransmissions
//! are sent first, by sequence number, then new segments. If the last permitted transmission of a
//! segment fails, the whole packet is discarded, including its unsent segments. Packets are
//! delivered in order; discarded packets are skipped. The window is unlimited.
//!
//! Source: the ideal link of F. Vacirca, A. De Vendictis, A. Baiocchi, "Investigating Interactions
//! between ARQ Mechanisms and TCP over Wireless Links", section 4.1, for consecutive packets.
//! `analysis::IdealSr` is the analytical model of the same link.
//!
//! Not modelled: a window, modulo sequence numbers, the means by which a receiver identifies
//! damaged frames.

use super::ByteFormat;
use super::delivery_reports::Fates;
use super::protocol::{ProtocolKeys, Site};
use super::{
    Abilities, Driven, Endpoint, Frame, FrameKind, IdealFeedback, LinkCounters, LinkError,
    LinkEvent, ReportsDelivery, check_header,
};
use lasthop_base::packet::{DeliveryReport, Payload};
use lasthop_base::schema::Transmissions;
use lasthop_base::schema::keys::{Limits, table};
use lasthop_base::units::{Bytes, Instant};
use std::collections::VecDeque;

/// Header of a segment: that of an acknowledged-mode PDU (3GPP TS 25.322), without extensions.
const SEGMENT_HEADER: Bytes = Bytes::new(2);

table! {
    /// Ideal selective repeat: packets are segmented; feedback is perfect and takes neither time
    /// nor capacity. When a segment reaches the transmission limit, its packet is discarded.
    pub struct IdealSrKeys as "ideal-sr" {
        /// Maximum number of transmissions per segment, including the first; then its packet is
        /// discarded.
        max_transmissions: Transmissions = "unlimited", Limits::range(1, 1_000);
        /// Payload of a segment.
        payload: Bytes = "40 B", Limits::PACKET;
    }
}

/// The state machine of one end.
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
    /// Maximum number of transmissions per segment, at least 1; `None` for no limit.
    pub max_transmissions: Option<u32>,
    /// Payload of a segment, at least 1 B.
    pub payload: Bytes,
    /// Header of each segment.
    pub header: Bytes,
}

/// A packet neither acknowledged nor discarded.
#[derive(Clone, Debug)]
struct Outgoing<P> {
    packet: P,
    /// Sequence number of its first segment, and number of segments.
    first: u64,
    segments: u32,
    is_given_up: bool,
}

/// Flag in the transmission count of a segment whose last permitted transmission is in flight.
const LAST: u32 = 1 << 31;

/// Value of `limit` without a limit.
const UNLIMITED: u32 = LAST - 1;

/// One end of an ideal selective-repeat link.
///
/// ```
/// use lasthop_base::units::{Bytes, Instant};
/// use lasthop_link::link::{Endpoint, IdealSr, IdealSrParameters};
///
/// let (payload, header) = (Bytes::new(40), Bytes::new(2));
/// let parameters = IdealSrParameters { max_transmissions: None, payload, header };
/// let [mut sender, mut receiver] =
///     [(); 2].map(|()| IdealSr::<Vec<u8>>::new(parameters).expect("valid parameters"));
/// sender.enqueue(Instant::ZERO, vec![7; 100]);
/// let mut segments = 0;
/// while let Some(segment) = sender.poll_transmit(Instant::ZERO) {
///     receiver.receive(Instant::ZERO, segment);
///     segments += 1;
/// }
/// assert_eq!(segments, 3, "100 B in segments of 40 B");
/// assert_eq!(receiver.poll_deliver(), Some(vec![7; 100]));
/// ```
#[derive(Clone, Debug)]
pub struct IdealSr<P> {
    limit: u32,
    payload: u32,
    header: u32,
    /// Packets in progress, in order.
    packets: VecDeque<Outgoing<P>>,
    /// Sequence number of the first segment of the oldest packet.
    base: u64,
    /// Next segment to be sent for the first time, and end of the segments.
    next: u64,
    end: u64,
    /// Latest cumulative acknowledgment received.
    acked: u64,
    /// Number of transmissions of the segments from `base` to `next`.
    transmissions: VecDeque<u32>,
    /// Segments to retransmit, in order.
    failed: VecDeque<u64>,
    /// First number after discarded packets, if the receiver must be notified.
    skip: Option<u64>,

    /// Next segment to assemble.
    expected: u64,
    /// Segments assembled of the current packet.
    pieces: Option<P>,
    /// Segments from `expected` onwards received out of order, each with a flag that marks the last
    /// one of its packet.
    held: VecDeque<Option<(P, bool)>>,
    up: VecDeque<P>,
    nacks: VecDeque<u64>,
    is_ack_pending: bool,

    events: VecDeque<LinkEvent>,
    fates: Fates<P>,
    counters: LinkCounters,
}

impl<P> IdealSr<P> {
    /// Creates an idle endpoint.
    ///
    /// # Errors
    /// Returns an error if the payload is 0 or above 65 535 bytes, the limit 0 or above 2³¹ - 2, or
    /// the header too long.
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
            is_ack_pending: false,
            events: VecDeque::with_capacity(16),
            fates: Fates::default(),
            counters: LinkCounters::default(),
        })
    }

    /// Returns the position in `packets` of the packet with this segment.
    fn place(&self, sequence: u64) -> usize {
        self.packets.partition_point(|packet| packet.first <= sequence) - 1
    }

    /// Discards the packet of a segment whose last permitted transmission has failed.
    fn give_up(&mut self, sequence: u64) {
        let place = self.place(sequence);
        let packet = &mut self.packets[place];
        packet.is_given_up = true;
        let numbers = packet.first..packet.first + u64::from(packet.segments);
        if self.next < numbers.end {
            // It is the newest packet.
            self.next = numbers.end;
            self.transmissions.resize((self.next - self.base) as usize, 0);
        }
        self.failed.retain(|failed| !numbers.contains(failed));
        self.counters.abandoned += 1;
        self.events.push_back(LinkEvent::Abandoned { sequence });
        self.finish();
    }

    /// Removes the oldest packets that are acknowledged or discarded.
    fn finish(&mut self) {
        while let Some(oldest) = self.packets.front() {
            let beyond = oldest.first + u64::from(oldest.segments);
            if oldest.is_given_up {
                self.skip = Some(beyond);
                self.counters.packets_abandoned += 1;
            } else if beyond > self.acked {
                return;
            }
            let fate = if oldest.is_given_up {
                DeliveryReport::Abandoned
            } else {
                DeliveryReport::Acknowledged
            };
            let number = oldest.first;
            self.counters.packets += 1;
            self.transmissions.drain(..oldest.segments as usize);
            self.base = beyond;
            let finished = self.packets.pop_front();
            self.fates.finish(number, fate, finished.map(|finished| finished.packet));
        }
    }

    /// Processes a Nack: queues the segment for retransmission, or discards its packet at the
    /// limit.
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
    /// Processes a segment received without errors.
    #[inline]
    fn take(&mut self, sequence: u64, piece: P, is_last: bool) {
        if sequence != self.expected || !self.held.is_empty() {
            let Some(index) = sequence.checked_sub(self.expected) else {
                // Its packet was discarded while the segment was in flight.
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

    /// Assembles held segments that are now in order.
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
        self.is_ack_pending = true;
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

    /// Processes a Skip: the sender has discarded the packets before `next`.
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
        self.is_ack_pending = true;
        self.take_held();
    }

    /// Writes the frame of a segment of the packet at `place`.
    #[inline]
    fn write_segment(&mut self, sequence: u64, place: usize, frame: &mut Frame<P>) {
        let Outgoing { packet, first, segments, .. } = &self.packets[place];
        let index = (sequence - first) as u32;
        let from = index * self.payload;
        let bytes = self.payload.min(packet.wire_bytes() - from);
        let is_last = index + 1 == *segments;
        frame.payload = Some(packet.slice(from, bytes));
        let sent = &mut self.transmissions[(sequence - self.base) as usize];
        *sent += 1;
        if *sent >= self.limit {
            *sent |= LAST;
        }
        frame.kind = FrameKind::Segment { sequence, is_last, poll: false };
        frame.ack = None;
        frame.bytes = self.header + bytes;
        frame.service = 0;
    }

    /// Processes a frame received without errors.
    #[inline]
    fn take_in(&mut self, frame: &mut Frame<P>) {
        match frame.kind {
            FrameKind::Segment { sequence, is_last, .. } => {
                if let Some(piece) = frame.payload.take() {
                    self.take(sequence, piece, is_last);
                }
            }
            FrameKind::Nack { sequence } => self.fail(sequence),
            FrameKind::Ack => {
                self.acked = self.acked.max(frame.ack.unwrap_or(0));
                self.finish();
            }
            FrameKind::Skip { next } => self.pass_over(next),
            _ => {}
        }
    }
}

impl<P: Payload + Clone> IdealFeedback<P> for IdealSr<P> {
    #[inline]
    fn receive_damaged(&mut self, _now: Instant, frame: Frame<P>) {
        if let FrameKind::Segment { sequence, .. } = frame.kind
            && sequence >= self.expected
        {
            self.nacks.push_back(sequence);
            self.events.push_back(LinkEvent::NackSent { sequence });
        }
    }

    fn poll_free(&mut self, _now: Instant) -> Option<Frame<P>> {
        let (kind, ack) = if let Some(next) = self.skip.take() {
            (FrameKind::Skip { next }, None)
        } else if let Some(sequence) = self.nacks.pop_front() {
            self.counters.nacks += 1;
            (FrameKind::Nack { sequence }, None)
        } else if std::mem::take(&mut self.is_ack_pending) {
            self.counters.acks += 1;
            (FrameKind::Ack, Some(self.expected))
        } else {
            return None;
        };
        Some(Frame { kind, ack, payload: None, bytes: 0, service: 0 })
    }
}

impl<P: Payload + Clone> Endpoint<P> for IdealSr<P> {
    type Control = FrameKind;

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
        let mut frame = Frame::default();
        self.write_next(now, &mut frame).then_some(frame)
    }

    #[inline]
    fn has_frame(&self) -> bool {
        !self.failed.is_empty() || self.next < self.end || self.has_free_frame()
    }

    #[inline]
    fn receive(&mut self, _now: Instant, mut frame: Frame<P>) {
        self.take_in(&mut frame);
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

    fn counters(&self) -> LinkCounters {
        self.counters
    }
}

impl<P: Payload + Clone> Abilities<P> for IdealSr<P> {
    fn counts_packets(&self) -> bool {
        true
    }

    /// The new limit does not apply to segments whose last transmission under the old limit is in
    /// flight. Segments queued for retransmission that have reached the new limit are discarded
    /// immediately.
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
    fn ideal_feedback(&mut self) -> Option<&mut dyn IdealFeedback<P>> {
        Some(self)
    }

    fn delivery_reports(&mut self) -> Option<&mut dyn ReportsDelivery<P>> {
        Some(&mut self.fates)
    }
}

impl<P: Payload + Clone> Driven<P> for IdealSr<P> {
    #[inline]
    fn write_next(&mut self, now: Instant, frame: &mut Frame<P>) -> bool {
        if self.has_free_frame() {
            return self.poll_free(now).map(|free| *frame = free).is_some();
        }
        if let Some(sequence) = self.failed.pop_front() {
            self.counters.retransmissions += 1;
            self.events.push_back(LinkEvent::Retransmitted { sequence });
            let place = self.place(sequence);
            let packet = &self.packets[place];
            self.fates.retry(packet.first, &packet.packet);
            self.write_segment(sequence, place, frame);
            return true;
        }
        if self.next == self.end {
            return false;
        }
        let sequence = self.next;
        self.next += 1;
        self.transmissions.push_back(0);
        self.counters.data_frames += 1;
        // Only the newest packet can have unsent segments.
        self.write_segment(sequence, self.packets.len() - 1, frame);
        true
    }

    #[inline]
    fn accept(&mut self, _now: Instant, frame: &mut Frame<P>) -> bool {
        self.take_in(frame);
        frame.payload = self.up.pop_front();
        !self.up.is_empty()
    }
}

impl<P> IdealSr<P> {
    #[inline]
    fn has_free_frame(&self) -> bool {
        self.is_ack_pending || self.skip.is_some() || !self.nacks.is_empty()
    }
}

/// Ideal feedback has no byte format.
impl ByteFormat for IdealSr<Vec<u8>> {}
