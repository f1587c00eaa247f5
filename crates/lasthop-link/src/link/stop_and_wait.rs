//! Stop-and-wait ARQ: one frame at a time, retransmitted until it is acknowledged or discarded.
//!
//! Source: the textbook protocol (Tanenbaum and Wetherall, *Computer Networks*, 5th edition,
//! section 3.3.3), with a limit on retransmissions as in IEEE 802.11 and in HDLC's N2 (ISO/IEC
//! 13239).
//!
//! Sender:
//!
//! ```text
//!             enqueue             sent                 its acknowledgment
//!   (none) -----------> to send ---------> waiting ------------------------> (none)
//!                          ^                  |                                ^
//!                          |   timeout, below |   timeout, retry limit reached |
//!                          +---- limit -------+------- discarded --------------+
//! ```
//!
//! Receiver: a frame with a number below `expected` is a duplicate. Any other frame is new; it is
//! delivered, and `expected` is set to its number plus 1. Both are acknowledged. Packets are thus
//! delivered in sequence and without duplicates; discarded packets cause gaps. A packet discarded
//! by the sender may have been delivered, if its acknowledgments were lost.
//!
//! A one-bit number is not sufficient: after a discarded frame, the receiver could not distinguish
//! the next frame from a duplicate of the last one delivered. With the one-byte number, only the
//! number before `expected` is a duplicate, so up to 254 consecutive frames may be discarded.
//!
//! The timer starts at the beginning of a transmission, since the state machine does not know the
//! rate. The timeout therefore includes the frame's own transmission time.
//!
//! Efficiency η and residual loss of a saturated link with loss p of data and p' of acknowledgments,
//! q = 1 - (1 - p)(1 - p'), at most r retransmissions:
//! η = (8 B / R) (1 - p^(r+1)) / ((1 - q^(r+1)) (RTT_L + T_o q / (1 - q))), residual loss p^(r+1).
//! The sender discards a fraction q^(r+1) of the packets.
//!
//! Not modelled: reordering by the channel, negative acknowledgments, adaptive timers, backoff.

use super::delivery_reports::Fates;
use super::driven::{Prompt, turn_prompt, write_prompt};
use super::protocol::{ARQ_HEADER, MOST_REPAIRS, ProtocolKeys, Site};
use super::timing::{LinkTiming, deadline};
use super::wire::{NumberWidth, WireWindow};
use super::{
    Abilities, Driven, Endpoint, Frame, FrameKind, LinkCounters, LinkError, LinkEvent, Port,
    ReportsDelivery, check_header,
};
use super::{ByteFormat, BytesError, wire};
use lasthop_base::packet::{DeliveryReport, Payload};
use lasthop_base::schema::keys::{Limits, table};
use lasthop_base::schema::{LinkTimeout, Retries};
use lasthop_base::units::{Bytes, Duration, Instant};
use std::collections::VecDeque;

table! {
    /// Stop-and-wait ARQ: one frame at a time, retransmitted until it is acknowledged or discarded.
    pub struct StopAndWaitKeys as "stop-and-wait" {
        /// Maximum number of retransmissions per frame; then it is discarded.
        retries: Retries = "unlimited", Limits::range(0, 255);
        /// Retransmission timeout; "auto" derives it from the link.
        timeout: LinkTimeout = "auto";
        /// Size of a stand-alone acknowledgment.
        control: Bytes = "2 B", Limits::CONTROL;
    }
}

/// The state machine of one end.
pub type Machine<P> = StopAndWait<P>;

impl ProtocolKeys for StopAndWaitKeys {
    type Machine<P: Payload + Clone> = Machine<P>;

    const LIMITS_TRANSMISSIONS: bool = true;
    const REPORTS_FATES: bool = true;

    fn build<P: Payload + Clone>(&self, site: &Site) -> Result<Machine<P>, LinkError> {
        let auto = StopAndWaitParameters::for_link(&site.timing(self.control));
        StopAndWait::new(StopAndWaitParameters {
            retries: match self.retries {
                Retries::Unlimited => None,
                Retries::AtMost(retries) => Some(retries),
            },
            timeout: self.timeout.or(auto.timeout),
            header: site.header,
            control: self.control,
        })
    }

    /// Time until the timer expires and the frame is retransmitted.
    fn repair_time(&self, site: &Site) -> Duration {
        let repairs = match self.retries {
            Retries::Unlimited => MOST_REPAIRS,
            Retries::AtMost(retries) => retries.min(MOST_REPAIRS),
        };
        site.timing(self.control).longest_turnaround() * u64::from(repairs)
    }

    fn default_header(&self) -> Bytes {
        ARQ_HEADER
    }

    fn control(&self) -> Option<Bytes> {
        Some(self.control)
    }
}

/// Parameters of stop-and-wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StopAndWaitParameters {
    /// Maximum number of retransmissions per frame; `None`: no limit.
    pub retries: Option<u32>,
    /// Retransmission timeout from the start of a frame's transmission, in nanoseconds; above 0.
    pub timeout: Duration,
    /// Link header of a data frame (default 2 B: number and acknowledgment).
    pub header: Bytes,
    /// Length of an ACK frame (default 2 B).
    pub control: Bytes,
}

impl StopAndWaitParameters {
    /// Returns the defaults for a link: no retry limit, and the timeout RTT_L + 2 T_f', the minimum
    /// that never expires before the acknowledgment of a delivered frame arrives.
    pub fn for_link(timing: &LinkTiming) -> Self {
        StopAndWaitParameters {
            retries: None,
            timeout: timing.longest_turnaround(),
            header: Bytes::new(2),
            control: Bytes::new(2),
        }
    }
}

/// One end of a stop-and-wait link.
///
/// ```
/// use lasthop_base::units::{Bytes, Duration, Instant, Rate};
/// use lasthop_link::link::{Endpoint, LinkTiming, StopAndWait, StopAndWaitParameters};
///
/// let (rate, delay) = (Rate::from_bps(1_000_000), Duration::from_millis(10));
/// let timing = LinkTiming::symmetric(rate, delay, Bytes::new(1_000), Bytes::new(2));
/// let parameters = StopAndWaitParameters::for_link(&timing);
/// let [mut sender, mut receiver] =
///     [(); 2].map(|()| StopAndWait::<Vec<u8>>::new(parameters).expect("valid parameters"));
/// sender.enqueue(Instant::ZERO, b"one".to_vec());
/// sender.poll_transmit(Instant::ZERO).expect("a frame, which is lost");
/// assert!(!sender.wants_packet());
/// let now = sender.next_timeout();
/// assert_eq!(now, Instant::ZERO + timing.longest_turnaround());
/// sender.handle_timeout(now);
/// receiver.receive(now, sender.poll_transmit(now).expect("a retransmission"));
/// assert_eq!(receiver.poll_deliver().as_deref(), Some(&b"one"[..]));
/// sender.receive(now, receiver.poll_transmit(now).expect("an acknowledgment"));
/// assert!(sender.wants_packet());
/// ```
#[derive(Clone, Debug)]
pub struct StopAndWait<P> {
    parameters: StopAndWaitParameters,
    header: u32,
    control: u32,

    /// The packet awaiting its acknowledgment, and its number.
    packet: Option<P>,
    sequence: u64,
    /// Number of its transmissions.
    tries: u32,
    must_send: bool,
    deadline: Instant,
    /// Highest acknowledgment received; that of a discarded frame may arrive late.
    acknowledged: u64,

    /// Highest number delivered, plus 1.
    expected: u64,
    ack_pending: bool,

    up: VecDeque<P>,
    events: VecDeque<LinkEvent>,
    fates: Fates<P>,
    counters: LinkCounters,
}

impl<P> StopAndWait<P> {
    /// Creates an idle endpoint. Returns an error if the timeout is 0.
    pub fn new(parameters: StopAndWaitParameters) -> Result<Self, LinkError> {
        let protocol = "stop-and-wait";
        if parameters.timeout == Duration::ZERO {
            return Err(LinkError::Timeout { protocol });
        }
        Ok(StopAndWait {
            parameters,
            header: check_header(protocol, parameters.header)?,
            control: check_header(protocol, parameters.control)?,
            packet: None,
            sequence: 0,
            tries: 0,
            must_send: false,
            deadline: Instant::NEVER,
            acknowledged: 0,
            expected: 0,
            ack_pending: false,
            up: VecDeque::with_capacity(4),
            events: VecDeque::with_capacity(4),
            fates: Fates::default(),
            counters: LinkCounters::default(),
        })
    }

    /// Returns the parameters of the endpoint.
    pub fn parameters(&self) -> &StopAndWaitParameters {
        &self.parameters
    }

    /// Returns the sequence number state of both directions, for encoding and decoding.
    pub fn wire_window(&self) -> WireWindow {
        let next = self.sequence + u64::from(self.tries > 0);
        // All numbers are new except the one before the expected one.
        let (expected, base, width) = (self.expected, self.acknowledged, NumberWidth::One);
        WireWindow { expected, base, next, window: 255, width }
    }

    /// Removes the acknowledged or discarded packet.
    #[inline]
    fn finish(&mut self, fate: DeliveryReport) {
        self.counters.packets += 1;
        let packet = self.packet.take();
        self.fates.finish(self.sequence, fate, packet);
        self.sequence += 1;
        self.tries = 0;
        self.must_send = false;
        self.deadline = Instant::NEVER;
    }

    #[inline]
    fn on_ack(&mut self, ack: u64) {
        self.acknowledged = self.acknowledged.max(ack);
        if ack == self.sequence + 1 && self.tries > 0 {
            self.finish(DeliveryReport::Acknowledged);
        }
    }

    #[inline]
    fn on_data(&mut self, sequence: u64, packet: P) {
        self.ack_pending = true;
        if sequence < self.expected {
            self.counters.duplicates += 1;
            return;
        }
        self.counters.skipped += sequence - self.expected;
        self.expected = sequence + 1;
        self.up.push_back(packet);
    }
}

impl<P: Payload + Clone> StopAndWait<P> {
    /// Writes the data frame and starts its timer. Returns `false` if there is no packet.
    #[inline(always)]
    fn write_data(&mut self, now: Instant, frame: &mut Frame<P>) -> bool {
        debug_assert!(self.packet.is_some(), "a frame to send has its packet");
        let Some(packet) = &self.packet else { return false };
        frame.kind = FrameKind::Data { sequence: self.sequence };
        frame.ack = Some(self.expected);
        frame.bytes = self.header + packet.wire_bytes();
        frame.payload = Some(packet.clone());
        frame.service = 0;
        self.tries = self.tries.saturating_add(1);
        self.must_send = false;
        self.ack_pending = false;
        self.deadline = deadline(now, self.parameters.timeout);
        true
    }

    /// Returns `true` if frame `sequence` is the next one and no packet waits for delivery.
    #[inline(always)]
    fn is_next(&self, sequence: u64) -> bool {
        sequence == self.expected && self.up.is_empty()
    }
}

impl<P: Payload + Clone> Prompt<P> for StopAndWait<P> {
    /// A frame to retransmit.
    #[inline(always)]
    fn has_urgent(&self) -> bool {
        self.must_send
    }

    #[inline(always)]
    fn has_room(&self) -> bool {
        self.packet.is_none()
    }

    #[cold]
    #[inline(never)]
    fn write_urgent(&mut self, now: Instant, frame: &mut Frame<P>) -> bool {
        if self.tries > 0 {
            let sequence = self.sequence;
            self.counters.retransmissions += 1;
            self.events.push_back(LinkEvent::Retransmitted { sequence });
            if let Some(packet) = &self.packet {
                self.fates.retry(sequence, packet);
            }
        } else {
            self.counters.data_frames += 1;
        }
        self.write_data(now, frame)
    }

    #[inline(always)]
    fn write_new(&mut self, now: Instant, frame: &mut Frame<P>) -> bool {
        if self.must_send {
            self.counters.data_frames += 1;
            return self.write_data(now, frame);
        }
        if !self.ack_pending {
            return false;
        }
        self.ack_pending = false;
        self.counters.acks += 1;
        let ack = Some(self.expected);
        let (kind, bytes) = (FrameKind::Ack, self.control);
        *frame = Frame { kind, ack, payload: None, bytes, service: 0 };
        true
    }
}

impl<P: Payload + Clone> Endpoint<P> for StopAndWait<P> {
    type Control = FrameKind;

    #[inline]
    fn wants_packet(&self) -> bool {
        self.packet.is_none()
    }

    #[inline]
    fn enqueue(&mut self, _now: Instant, packet: P) {
        debug_assert!(self.wants_packet(), "enqueue without wants_packet");
        self.packet = Some(packet);
        self.must_send = true;
    }

    fn poll_transmit(&mut self, now: Instant) -> Option<Frame<P>> {
        let mut frame = Frame::default();
        self.write_next(now, &mut frame).then_some(frame)
    }

    #[inline]
    fn has_frame(&self) -> bool {
        self.must_send || self.ack_pending
    }

    #[inline]
    fn receive(&mut self, _now: Instant, frame: Frame<P>) {
        if let Some(ack) = frame.ack {
            self.on_ack(ack);
        }
        if let (FrameKind::Data { sequence }, Some(packet)) = (frame.kind, frame.payload) {
            self.on_data(sequence, packet);
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
    fn next_timeout(&self) -> Instant {
        self.deadline
    }

    fn handle_timeout(&mut self, now: Instant) {
        if self.deadline > now {
            return;
        }
        let sequence = self.sequence;
        self.counters.timeouts += 1;
        self.events.push_back(LinkEvent::TimedOut { sequence });
        if self.parameters.retries.is_some_and(|retries| self.tries > retries) {
            self.counters.abandoned += 1;
            self.counters.packets_abandoned += 1;
            self.events.push_back(LinkEvent::Abandoned { sequence });
            self.finish(DeliveryReport::Abandoned);
        } else {
            self.deadline = Instant::NEVER;
            self.must_send = true;
        }
    }

    fn counters(&self) -> LinkCounters {
        self.counters
    }
}

impl<P: Payload + Clone> Abilities<P> for StopAndWait<P> {
    fn retransmission_timeout(&self) -> Option<Duration> {
        Some(self.parameters.timeout)
    }

    fn window(&self) -> Option<u32> {
        Some(1)
    }

    fn delivery_reports(&mut self) -> Option<&mut dyn ReportsDelivery<P>> {
        Some(&mut self.fates)
    }

    fn limit_transmissions(&mut self, limit: Option<u32>) {
        // The first transmission is not a retry; it is always permitted.
        self.parameters.retries = limit.map(|limit| limit.saturating_sub(1));
    }
}

impl<P: Payload + Clone> Driven<P> for StopAndWait<P> {
    #[inline(always)]
    fn write_next(&mut self, now: Instant, frame: &mut Frame<P>) -> bool {
        write_prompt(self, now, frame)
    }

    #[inline(always)]
    fn turn<Q: Port<P>>(&mut self, now: Instant, port: &mut Q) -> Option<Instant> {
        turn_prompt(self, now, port)
    }

    /// The packet of the next frame is delivered without buffering. An ACK delivers none.
    #[inline(always)]
    fn accept(&mut self, now: Instant, frame: &mut Frame<P>) -> bool {
        let is_simple = match frame.kind {
            FrameKind::Data { sequence } => self.is_next(sequence) && frame.payload.is_some(),
            FrameKind::Ack => self.up.is_empty(),
            _ => false,
        };
        if !is_simple {
            self.receive(now, frame.take());
            frame.payload = self.up.pop_front();
            return true;
        }
        if let Some(ack) = frame.ack {
            self.on_ack(ack);
        }
        if frame.payload.is_some() {
            self.ack_pending = true;
            self.expected += 1;
        }
        false
    }

    fn takes_frames(&self) -> bool {
        true
    }

    /// The window has one frame: with its frame outstanding, an end sends nothing new.
    #[inline(always)]
    fn takes_next(&self, frame: &Frame<P>) -> bool {
        matches!(frame.kind, FrameKind::Data { sequence } if self.is_next(sequence))
            && self.has_room()
    }
}

impl ByteFormat for StopAndWait<Vec<u8>> {
    fn encode(&self, frame: &Frame<Vec<u8>>, bytes: &mut Vec<u8>) -> Result<(), BytesError> {
        Ok(wire::encode(frame, self.wire_window().width, bytes)?)
    }

    fn decode(&self, bytes: &[u8]) -> Result<Frame<Vec<u8>>, BytesError> {
        Ok(wire::decode(bytes, &self.wire_window())?)
    }
}
