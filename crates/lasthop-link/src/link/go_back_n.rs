//! Go-back-N: sliding-window ARQ that retransmits all outstanding frames.
//!
//! Source: Xylomenos and Polyzos, "Wireless link layer enhancements for TCP and UDP applications",
//! IPDPS 2003. On timeout the sender retransmits all outstanding frames; the receiver drops frames
//! out of sequence. The `reject` flag adds the REJ of HDLC (ISO/IEC 13239), sent once per gap, as
//! in ns-2's satellite HDLC module.
//!
//! Sender:
//!
//! ```text
//!                timer of the oldest frame, or REJ
//!   +---------+ ----------------------------------> +------------+
//!   | sending |                                     | going back | retransmits base .. next - 1
//!   +---------+ <---------------------------------- +------------+
//!                all retransmitted or acknowledged
//! ```
//!
//! Receiver: the frame with number `expected` is delivered and acknowledged. Any other frame is
//! dropped, and the acknowledgment of `expected` is repeated.
//!
//! The deadline is the start of the last transmission of the oldest frame plus the timeout. An
//! acknowledgment therefore moves it to that of the new oldest frame; with `restart_on_ack` a full
//! timeout is started instead. The timeout includes the frame's own transmission time. Efficiency
//! of a saturated link without losses in the reverse direction, with timeouts only: η = (1 - p) /
//! (1 - p + p T_o / T_f).
//!
//! Not modelled: reordering by the channel, a limit on retransmissions, adaptive timers.

mod driven;

use super::delivery_reports::Fates;
use super::driven::Prompt;
use super::protocol::{ProtocolKeys, Site, refuse};
use super::timing::{LinkTiming, deadline};
use super::wire::{NumberWidth, WireWindow};
use super::{
    Abilities, Acknowledgment, Air, Driven, Endpoint, Frame, FrameKind, LinkCounters, LinkError,
    LinkEvent, ReportsDelivery, check_parameters,
};
use super::{ByteFormat, BytesError, wire};
use lasthop_base::packet::{DeliveryReport, Payload};
use lasthop_base::schema::LinkTimeout;
use lasthop_base::schema::keys::{Limits, Read, table};
use lasthop_base::units::{Bytes, Duration, Instant};
use std::collections::VecDeque;

table! {
    /// Go-back-N ARQ: the receiver accepts frames in order only.
    pub struct GoBackNKeys as "go-back-n" {
        /// Maximum number of outstanding frames.
        window: u32 = "8", Limits::range(1, NumberWidth::WIDEST_CUMULATIVE as u64);
        /// Retransmission timeout; "auto" derives it from the link.
        timeout: LinkTimeout = "auto";
        /// Whether the receiver immediately reports a missing frame by a reject frame.
        reject: bool = "false";
        /// Size of a stand-alone acknowledgment or reject frame. The default is the header size: 2
        /// B, or 4 B with windows that need two-byte sequence numbers.
        control: Option<Bytes>, Limits::CONTROL;
    }
}

impl GoBackNKeys {
    fn width(&self) -> NumberWidth {
        match self.reject {
            true => NumberWidth::selective(self.window),
            false => NumberWidth::cumulative(self.window),
        }
    }

    fn control_size(&self) -> Bytes {
        self.control.unwrap_or(self.width().header())
    }
}

/// The state machine of one end.
pub type Machine<P> = GoBackN<P>;

impl ProtocolKeys for GoBackNKeys {
    type Machine<P: Payload + Clone> = Machine<P>;

    const REPORTS_FATES: bool = true;

    fn build<P: Payload + Clone>(&self, site: &Site) -> Result<Machine<P>, LinkError> {
        let auto = GoBackNParameters::for_link(&site.timing(self.control_size()));
        GoBackN::new(GoBackNParameters {
            window: self.window,
            timeout: self.timeout.or(auto.timeout),
            reject: self.reject,
            header: site.header,
            control: self.control_size(),
            ..auto
        })
    }

    /// Time until the frame is reported missing or its timer expires, and it is retransmitted.
    fn repair_time(&self, site: &Site) -> Duration {
        site.timing(self.control_size()).longest_turnaround()
    }

    fn default_header(&self) -> Bytes {
        self.width().header()
    }

    fn check(&self, path: &str, _identifier: Bytes, _directions: [Air; 2]) -> Read<()> {
        let widest = NumberWidth::WIDEST_SELECTIVE;
        if self.reject && self.window > widest {
            let found = format!("{} with reject", self.window);
            return refuse(format!("{path}.window"), found, format!("up to {widest} with reject"));
        }
        Ok(())
    }

    fn control(&self) -> Option<Bytes> {
        Some(self.control_size())
    }
}

/// Parameters of go-back-N.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GoBackNParameters {
    /// Maximum number of outstanding frames, 1 to 65535 (the two-byte sequence number range minus
    /// 1), or 32768 with `reject`. Windows above 255, or 128 with `reject`, need two-byte numbers.
    pub window: u32,
    /// Retransmission timeout from the start of a frame's transmission, in nanoseconds; above 0.
    pub timeout: Duration,
    /// Whether a new acknowledgment starts a full timeout for the new oldest frame.
    pub restart_on_ack: bool,
    /// Whether the receiver reports the first frame out of sequence in each gap.
    pub reject: bool,
    /// How acknowledgments are sent.
    pub acknowledgment: Acknowledgment,
    /// Link header of a data frame (default 2 B: number and acknowledgment).
    pub header: Bytes,
    /// Length of an ACK or REJ frame (default 2 B).
    pub control: Bytes,
}

impl GoBackNParameters {
    /// Returns the width of sequence numbers.
    fn width(&self) -> NumberWidth {
        match self.reject {
            true => NumberWidth::selective(self.window),
            false => NumberWidth::cumulative(self.window),
        }
    }

    /// Returns the defaults for a link: window 8, no REJ, piggybacked acknowledgments, and the
    /// coarse timeout max(5 RTT_L, RTT_L + 2 T_f', 250 ms), which reproduces the published
    /// orderings.
    pub fn for_link(timing: &LinkTiming) -> Self {
        let longest = (timing.round_trip() * 5).max(timing.longest_turnaround());
        GoBackNParameters {
            window: 8,
            timeout: longest.max(Duration::from_millis(250)),
            restart_on_ack: false,
            reject: false,
            acknowledgment: Acknowledgment::Piggyback,
            header: Bytes::new(2),
            control: Bytes::new(2),
        }
    }
}

/// One end of a go-back-N link. A packet is stored in the slot of its sequence number modulo the
/// number of slots, a power of two.
///
/// ```
/// use lasthop_base::units::{Bytes, Duration, Instant, Rate};
/// use lasthop_link::link::{Endpoint, LinkTiming, GoBackN, GoBackNParameters};
///
/// let (rate, delay) = (Rate::from_bps(1_000_000), Duration::from_millis(10));
/// let timing = LinkTiming::symmetric(rate, delay, Bytes::new(1_000), Bytes::new(2));
/// let parameters = GoBackNParameters::for_link(&timing);
/// let [mut sender, mut receiver] =
///     [(); 2].map(|()| GoBackN::<Vec<u8>>::new(parameters).expect("valid parameters"));
/// let frames = [b"one", b"two"].map(|packet| {
///     sender.enqueue(Instant::ZERO, packet.to_vec());
///     sender.poll_transmit(Instant::ZERO).expect("the window is open")
/// });
/// // The first frame is lost. The receiver discards the second, and the sender retransmits both.
/// receiver.receive(Instant::ZERO + timing.round_trip(), frames[1].clone());
/// assert_eq!(receiver.poll_deliver(), None);
/// let now = sender.next_timeout();
/// sender.handle_timeout(now);
/// for frame in std::iter::from_fn(|| sender.poll_transmit(now)) {
///     receiver.receive(now, frame);
/// }
/// let delivered: Vec<_> = std::iter::from_fn(|| receiver.poll_deliver()).collect();
/// assert_eq!(delivered, [b"one", b"two"]);
/// ```
#[derive(Clone, Debug)]
pub struct GoBackN<P> {
    parameters: GoBackNParameters,
    mask: u64,
    header: u32,
    control: u32,

    /// Oldest number not acknowledged.
    base: u64,
    /// Next number to send; below `next` while going back.
    cursor: u64,
    /// Number of the next new frame.
    next: u64,
    /// End of the sequence numbers with a packet: `next`, or one more if a new packet is waiting.
    filled: u64,
    packets: Box<[Option<P>]>,
    /// Start of the last transmission, by slot.
    sent: Box<[Instant]>,
    deadline: Instant,

    /// Next number to deliver.
    expected: u64,
    ack_pending: bool,
    reject_pending: bool,
    /// Whether a REJ has been queued since the last frame in sequence.
    in_gap: bool,

    up: VecDeque<P>,
    events: VecDeque<LinkEvent>,
    fates: Fates<P>,
    counters: LinkCounters,
}

impl<P> GoBackN<P> {
    /// Creates an idle endpoint. Returns an error if the window is outside 1 to 65535 (32768 with
    /// `reject`) or the timeout is 0.
    pub fn new(parameters: GoBackNParameters) -> Result<Self, LinkError> {
        let GoBackNParameters { window, timeout, header, control, .. } = parameters;
        // A gap can be distinguished from a duplicate only within half of the sequence number
        // range.
        let (name, largest) = match parameters.reject {
            true => ("go-back-N with reject", NumberWidth::WIDEST_SELECTIVE),
            false => ("go-back-N", NumberWidth::WIDEST_CUMULATIVE),
        };
        let (header, control) = check_parameters(name, window, largest, timeout, header, control)?;
        let slots = window.next_power_of_two() as usize;
        Ok(GoBackN {
            parameters,
            mask: slots as u64 - 1,
            header,
            control,
            base: 0,
            cursor: 0,
            next: 0,
            filled: 0,
            packets: (0..slots).map(|_| None).collect(),
            sent: vec![Instant::ZERO; slots].into(),
            deadline: Instant::NEVER,
            expected: 0,
            ack_pending: false,
            reject_pending: false,
            in_gap: false,
            up: VecDeque::with_capacity(slots),
            events: VecDeque::with_capacity(2 * slots),
            fates: Fates::default(),
            counters: LinkCounters::default(),
        })
    }

    /// Returns the parameters of the endpoint.
    pub fn parameters(&self) -> &GoBackNParameters {
        &self.parameters
    }

    /// Returns the sequence number state of both directions, for encoding and decoding.
    pub fn wire_window(&self) -> WireWindow {
        let GoBackNParameters { window, .. } = self.parameters;
        let width = self.parameters.width();
        WireWindow { expected: self.expected, base: self.base, next: self.next, window, width }
    }

    #[inline]
    fn slot(&self, sequence: u64) -> usize {
        (sequence & self.mask) as usize
    }

    /// Returns `true` if a stand-alone acknowledgment must be sent before any data.
    #[inline]
    fn ack_first(&self) -> bool {
        self.ack_pending && self.parameters.acknowledgment == Acknowledgment::StandAlone
    }

    fn write_control(&mut self, frame: &mut Frame<P>, kind: FrameKind) {
        self.ack_pending = false;
        let ack = Some(self.expected);
        *frame = Frame { kind, ack, payload: None, bytes: self.control, service: 0 };
    }

    fn write_ack(&mut self, frame: &mut Frame<P>) {
        self.counters.acks += 1;
        self.write_control(frame, FrameKind::Ack);
    }

    #[inline]
    fn on_ack(&mut self, now: Instant, ack: u64) {
        if ack <= self.base || ack > self.next {
            return;
        }
        for sequence in self.base..ack {
            let packet = self.packets[self.slot(sequence)].take();
            self.fates.finish(sequence, DeliveryReport::Acknowledged, packet);
        }
        self.base = ack;
        self.cursor = self.cursor.max(ack);
        // The timer of the oldest frame does not run while that frame waits for retransmission.
        self.deadline = if self.cursor == self.base {
            Instant::NEVER
        } else if self.parameters.restart_on_ack {
            deadline(now, self.parameters.timeout)
        } else {
            deadline(self.sent[self.slot(ack)], self.parameters.timeout).max(now)
        };
    }

    fn go_back(&mut self) {
        self.cursor = self.base;
        self.deadline = Instant::NEVER;
    }

    /// Accepts the expected frame.
    #[inline(always)]
    fn on_next(&mut self) {
        self.ack_pending = true;
        self.expected += 1;
        self.in_gap = false;
        self.reject_pending = false;
    }

    fn on_data(&mut self, sequence: u64, packet: P) {
        self.ack_pending = true;
        if sequence == self.expected {
            self.up.push_back(packet);
            self.on_next();
        } else if sequence < self.expected {
            self.counters.duplicates += 1;
        } else {
            self.counters.discarded += 1;
            if self.parameters.reject && !self.in_gap {
                self.in_gap = true;
                self.reject_pending = true;
            }
        }
    }
}

impl<P: Payload + Clone> GoBackN<P> {
    /// Writes the data frame `sequence` and starts its timer if it is the oldest one.
    #[inline(always)]
    fn write_data(&mut self, now: Instant, sequence: u64, frame: &mut Frame<P>) -> bool {
        let slot = self.slot(sequence);
        debug_assert!(self.packets[slot].is_some(), "a frame in the window has its packet");
        let Some(packet) = &self.packets[slot] else { return false };
        frame.kind = FrameKind::Data { sequence };
        frame.ack = Some(self.expected);
        frame.bytes = self.header + packet.wire_bytes();
        frame.payload = Some(packet.clone());
        frame.service = 0;
        self.cursor = sequence + 1;
        self.sent[slot] = now;
        if sequence == self.base {
            self.deadline = deadline(now, self.parameters.timeout);
        }
        if self.parameters.acknowledgment == Acknowledgment::Piggyback {
            self.ack_pending = false;
        }
        true
    }
}

impl<P: Payload + Clone> Endpoint<P> for GoBackN<P> {
    type Control = FrameKind;

    #[inline(always)]
    fn wants_packet(&self) -> bool {
        !self.has_urgent() && self.has_room()
    }

    #[inline(always)]
    fn enqueue(&mut self, _now: Instant, packet: P) {
        debug_assert!(self.wants_packet(), "enqueue without wants_packet");
        let slot = self.slot(self.next);
        self.packets[slot] = Some(packet);
        self.filled = self.next + 1;
    }

    fn poll_transmit(&mut self, now: Instant) -> Option<Frame<P>> {
        let mut frame = Frame::default();
        self.write_next(now, &mut frame).then_some(frame)
    }

    #[inline]
    fn has_frame(&self) -> bool {
        self.reject_pending || self.cursor < self.filled || self.ack_pending
    }

    #[inline]
    fn receive(&mut self, now: Instant, frame: Frame<P>) {
        if let Some(ack) = frame.ack {
            self.on_ack(now, ack);
        }
        match (frame.kind, frame.payload) {
            (FrameKind::Data { sequence }, Some(packet)) => self.on_data(sequence, packet),
            (FrameKind::Nack { sequence }, _) if sequence == self.base && self.base < self.next => {
                self.go_back();
            }
            _ => {}
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
        if self.deadline <= now && self.base < self.next {
            self.counters.timeouts += 1;
            self.events.push_back(LinkEvent::TimedOut { sequence: self.base });
            self.go_back();
        }
    }

    fn counters(&self) -> LinkCounters {
        self.counters
    }
}

impl<P: Payload + Clone> Abilities<P> for GoBackN<P> {
    fn retransmission_timeout(&self) -> Option<Duration> {
        Some(self.parameters.timeout)
    }

    fn window(&self) -> Option<u32> {
        Some(self.parameters.window)
    }

    fn delivery_reports(&mut self) -> Option<&mut dyn ReportsDelivery<P>> {
        Some(&mut self.fates)
    }
}

impl ByteFormat for GoBackN<Vec<u8>> {
    fn encode(&self, frame: &Frame<Vec<u8>>, bytes: &mut Vec<u8>) -> Result<(), BytesError> {
        Ok(wire::encode(frame, self.wire_window().width, bytes)?)
    }

    fn decode(&self, bytes: &[u8]) -> Result<Frame<Vec<u8>>, BytesError> {
        Ok(wire::decode(bytes, &self.wire_window())?)
    }
}
