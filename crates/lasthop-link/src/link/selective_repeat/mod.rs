//! Selective repeat with multireject: sliding-window ARQ that retransmits only lost frames.
//!
//! Source: Xylomenos and Kokkinakis, "Multiple layer error control over wireless links"; after
//! Brady, "Evaluation of multireject, selective reject, and other protocol enhancements", IEEE
//! Trans. Commun. 35(6), 1987. Window, timeout and the rule for repeated NACKs are not published.
//! They are parameters; `docs/links/selective-repeat.md` derives the defaults.
//!
//! States of a frame at the sender (`sender`):
//!
//! ```text
//!          enqueue         sent            ACK beyond it
//!  (none) --------> new ----------> sent ----------------> (removed)
//!                                   ^  |                     ^
//!                              sent |  | NACK or timeout     | ACK beyond it
//!                                   |  v                     |
//!                                  queued -------------------+
//! ```
//!
//! States of a sequence number at the receiver (`receiver`):
//!
//! ```text
//!              later number received          received
//!   not seen -----------------------> missing ---------> buffered
//!      |                                 |                  |
//!      | received, all before received   | likewise         | all before received
//!      +-------------------------------->+----------------->+--> delivered, one ACK for the run
//! ```
//!
//! A NACK is sent for each missing number when its gap is detected, and repeated according to
//! [`Renack`]. The receiver has no timer: if no frame arrives, the sender's timer recovers the
//! loss. Transmission order: NACKs, retransmissions by number, new data, stand-alone ACKs. Frames
//! are never discarded.
//!
//! Timers start at the beginning of a transmission, since the state machine does not know the rate.
//! Timeouts therefore include the frame's own transmission time.
//!
//! Not modelled: reordering by the channel, adaptive timers, a limit on retransmissions, combined
//! NACKs for several frames.

mod driven;
mod in_order;
mod receiver;
mod sender;

pub use in_order::{InOrder, Position};

use super::protocol::{ProtocolKeys, Site};
use super::timing::LinkTiming;
use super::wire::{NumberWidth, WireWindow};
use super::{
    Abilities, Acknowledgment, Driven, Endpoint, Frame, FrameKind, LinkCounters, LinkError,
    LinkEvent, ReportsDelivery, check_parameters,
};
use super::{ByteFormat, BytesError, wire};
use lasthop_base::packet::Payload;
use lasthop_base::schema::LinkTimeout;
use lasthop_base::schema::keys::{Limits, choice, table};
use lasthop_base::units::{Bytes, Duration, Instant};
use receiver::{Arrival, Receiver};
use sender::Sender;
use std::collections::VecDeque;

/// Rule for repeating the NACK of a missing frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Renack {
    /// Never: one NACK when the gap is detected.
    OncePerGap,
    /// On a data frame that reveals a new gap, for all frames missing at that time.
    EveryGap,
    /// On every data frame received.
    EveryArrival,
    /// On any frame received, if the last NACK for the missing frame is at least this old (in
    /// nanoseconds).
    AfterRoundTrip(Duration),
}

table! {
    /// Selective-repeat ARQ: the receiver buffers frames received out of order and requests the
    /// retransmission of missing ones.
    pub struct SelectiveRepeatKeys as "selective-repeat" {
        /// Maximum number of outstanding frames.
        window: u32 = "8", Limits::range(1, NumberWidth::WIDEST_SELECTIVE as u64);
        /// Retransmission timeout; "auto" derives it from the link.
        timeout: LinkTimeout = "auto";
        /// Frames that have a retransmission timer.
        timer: TimerMode = "per-frame";
        /// Rule for repeating the negative acknowledgment of a missing frame.
        renack: RenackRule = "after-round-trip";
        /// How acknowledgments are sent.
        acks: Acknowledgment = "piggybacked";
        /// Size of a stand-alone acknowledgment or negative acknowledgment. The default is the
        /// header size: 2 B, or 4 B with windows above 128 frames, which need two-byte sequence
        /// numbers.
        control: Option<Bytes>, Limits::CONTROL;
    }
}

choice! {
    /// Frames that have a retransmission timer.
    pub enum TimerMode {
        /// Every outstanding frame, as published. A frame buffered behind a gap is acknowledged
        /// only when the gap is filled, so a short timeout retransmits it unnecessarily.
        PerFrame = "per-frame",
        /// Only the oldest outstanding frame.
        BaseOnly = "base-only",
    }
}

choice! {
    /// Rule for repeating the negative acknowledgment of a missing frame.
    pub enum RenackRule {
        /// Never: one for each missing frame. Further losses are recovered by the sender's timer.
        OncePerGap = "once-per-gap",
        /// With each data frame that reveals a new gap, for all missing frames.
        EveryGap = "every-gap",
        /// With each data frame received, for all missing frames.
        EveryArrival = "every-arrival",
        /// If the retransmission has not been received after a round trip.
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

/// The state machine of one end.
pub type Machine<P> = SelectiveRepeat<P>;

impl ProtocolKeys for SelectiveRepeatKeys {
    type Machine<P: Payload + Clone> = Machine<P>;

    const REPORTS_FATES: bool = true;

    fn build<P: Payload + Clone>(&self, site: &Site) -> Result<Machine<P>, LinkError> {
        let timing = site.timing(self.control_size());
        let auto = SelectiveRepeatParameters::for_link(&timing, self.window);
        // The first NACK for a frame can arrive without any delay by loss recovery in lower layers.
        let unrepaired = Site { repair: [Duration::ZERO; 2], ..*site };
        let nack_guard = unrepaired.timing(self.control_size()).round_trip();
        SelectiveRepeat::new(SelectiveRepeatParameters {
            // The retransmission may also wait for other services.
            timeout: self.timeout.or(auto.timeout + site.own_wait),
            renack: match self.renack {
                RenackRule::OncePerGap => Renack::OncePerGap,
                RenackRule::EveryGap => Renack::EveryGap,
                RenackRule::EveryArrival => Renack::EveryArrival,
                RenackRule::AfterRoundTrip => Renack::AfterRoundTrip(timing.repair_time()),
            },
            timer: self.timer,
            nack_guard,
            acknowledgment: self.acks,
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

    fn control(&self) -> Option<Bytes> {
        Some(self.control_size())
    }
}

/// Parameters of selective repeat.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SelectiveRepeatParameters {
    /// Maximum number of outstanding frames, 1 to 32768 (half of the two-byte sequence number
    /// range). Windows above 128 need two-byte numbers.
    pub window: u32,
    /// Retransmission timeout from the start of a frame's transmission, in nanoseconds; above 0.
    pub timeout: Duration,
    /// Rule for repeating NACKs.
    pub renack: Renack,
    /// Frames that have a retransmission timer.
    pub timer: TimerMode,
    /// Minimum age of a frame's last transmission for a NACK to be valid, in nanoseconds. A NACK
    /// received earlier was sent before this transmission could arrive, and is ignored.
    pub nack_guard: Duration,
    /// How acknowledgments are sent.
    pub acknowledgment: Acknowledgment,
    /// Link header of a data frame (default 2 B: number and acknowledgment).
    pub header: Bytes,
    /// Length of an ACK or NACK frame (default 2 B).
    pub control: Bytes,
}

/// Returns the number of retransmissions for which the default timeout lets an acknowledgment wait:
/// those of all earlier frames of the window, but at most 7 as in the default window. Longer loss
/// bursts are rarer than the loss of a last frame, which only the timer recovers.
fn copies_ahead(window: u32) -> u64 {
    u64::from(window.saturating_sub(1)).clamp(1, 7)
}

impl SelectiveRepeatParameters {
    /// Returns the defaults for a link and a window: timeout [`LinkTiming::repaired_turnaround`]
    /// with the retransmissions of the earlier frames of the window, at most 7; NACKs repeated
    /// after [`LinkTiming::repair_time`]; guard RTT_L; piggybacked acknowledgments.
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

/// One end of a selective-repeat link.
///
/// ```
/// use lasthop_base::units::{Bytes, Duration, Instant, Rate};
/// use lasthop_link::link::{Endpoint, LinkTiming, SelectiveRepeat, SelectiveRepeatParameters};
///
/// let (rate, delay) = (Rate::from_bps(1_000_000), Duration::from_millis(10));
/// let timing = LinkTiming::symmetric(rate, delay, Bytes::new(1_000), Bytes::new(2));
/// let parameters = SelectiveRepeatParameters::for_link(&timing, 8);
/// let [mut sender, mut receiver] =
///     [(); 2].map(|()| SelectiveRepeat::<Vec<u8>>::new(parameters).expect("valid parameters"));
/// let mut now = Instant::ZERO;
/// let mut frames = [b"one", b"two"].map(|packet| {
///     sender.enqueue(now, packet.to_vec());
///     sender.poll_transmit(now).expect("the window is open")
/// });
/// // The first frame is lost. The receiver holds the second packet and requests the first.
/// now += timing.round_trip();
/// receiver.receive(now, frames[1].clone());
/// assert_eq!(receiver.poll_deliver(), None);
/// let nack = receiver.poll_transmit(now).expect("a NACK");
/// sender.receive(now, nack);
/// frames[0] = sender.poll_transmit(now).expect("a retransmission");
/// receiver.receive(now, frames[0].clone());
/// let delivered: Vec<_> = std::iter::from_fn(|| receiver.poll_deliver()).collect();
/// assert_eq!(delivered, [b"one", b"two"]);
/// ```
#[derive(Clone, Debug)]
pub struct SelectiveRepeat<P> {
    parameters: SelectiveRepeatParameters,
    header: u32,
    control: u32,
    sender: Sender<P>,
    receiver: Receiver<P>,
    events: VecDeque<LinkEvent>,
    counters: LinkCounters,
}

impl<P> SelectiveRepeat<P> {
    /// Creates an idle endpoint. Returns an error if the window is outside 1 to 32768 or the
    /// timeout is 0.
    pub fn new(parameters: SelectiveRepeatParameters) -> Result<Self, LinkError> {
        let SelectiveRepeatParameters { window, timeout, header, control, .. } = parameters;
        let widest = NumberWidth::WIDEST_SELECTIVE;
        let (header, control) =
            check_parameters("selective repeat", window, widest, timeout, header, control)?;
        Ok(SelectiveRepeat {
            parameters,
            header,
            control,
            sender: Sender::new(&parameters),
            receiver: Receiver::new(&parameters),
            events: VecDeque::with_capacity(8),
            counters: LinkCounters::default(),
        })
    }

    /// Returns the parameters of the endpoint.
    pub fn parameters(&self) -> &SelectiveRepeatParameters {
        &self.parameters
    }

    /// Returns the sequence number state of both directions, for encoding and decoding.
    pub fn wire_window(&self) -> WireWindow {
        let SelectiveRepeatParameters { window, .. } = self.parameters;
        let width = NumberWidth::selective(window);
        let (base, next) = self.sender.window_edges();
        WireWindow { expected: self.receiver.expected(), base, next, window, width }
    }

    /// Returns `true` if a stand-alone acknowledgment must be sent before any data.
    #[inline(always)]
    fn ack_first(&self) -> bool {
        self.parameters.acknowledgment == Acknowledgment::StandAlone && self.receiver.ack_pending
    }

    /// Returns `true` if a frame must be sent before new packets.
    #[inline(always)]
    fn has_urgent(&self) -> bool {
        self.receiver.has_nacks() || self.sender.has_copies() || self.ack_first()
    }

    /// Writes a control frame, which also contains the acknowledgment.
    fn write_control(&mut self, frame: &mut Frame<P>, kind: FrameKind) {
        self.receiver.ack_pending = false;
        let ack = Some(self.receiver.expected());
        *frame = Frame { kind, ack, payload: None, bytes: self.control, service: 0 };
    }

    fn write_ack(&mut self, frame: &mut Frame<P>) {
        self.counters.acks += 1;
        self.write_control(frame, FrameKind::Ack);
    }

    /// Writes the next NACK, if any.
    fn write_nack(&mut self, now: Instant, frame: &mut Frame<P>) -> bool {
        let Some(sequence) = self.receiver.take_nack(now) else { return false };
        self.counters.nacks += 1;
        self.events.push_back(LinkEvent::NackSent { sequence });
        self.write_control(frame, FrameKind::Nack { sequence });
        true
    }

    /// Processes a data frame that is not the next one in order, or behind which frames are missing
    /// or waiting.
    fn on_data(&mut self, sequence: u64, packet: P) {
        match self.receiver.on_data(sequence, packet) {
            Arrival::New => {}
            Arrival::Duplicate => self.counters.duplicates += 1,
            Arrival::Outside => self.counters.discarded += 1,
        }
    }
}

impl<P: Payload + Clone> SelectiveRepeat<P> {
    /// Writes the next frame that must be sent before new packets, if any.
    #[cold]
    #[inline(never)]
    fn write_urgent(&mut self, now: Instant, frame: &mut Frame<P>) -> bool {
        if self.receiver.has_nacks() && self.write_nack(now, frame) {
            return true;
        }
        if self.ack_first() {
            self.write_ack(frame);
            return true;
        }
        let Some(sequence) = self.sender.take_copy() else { return false };
        self.counters.retransmissions += 1;
        self.events.push_back(LinkEvent::Retransmitted { sequence });
        self.write_data(now, sequence, frame)
    }

    /// Writes the waiting new packet, otherwise the pending acknowledgment, if any.
    #[inline(always)]
    fn write_new(&mut self, now: Instant, frame: &mut Frame<P>) -> bool {
        if self.sender.has_new() {
            let sequence = self.sender.take_new();
            self.counters.data_frames += 1;
            return self.write_data(now, sequence, frame);
        }
        if self.receiver.ack_pending {
            self.write_ack(frame);
            return true;
        }
        false
    }

    /// Writes a data frame and starts its timer. Returns `false` if the frame has no packet.
    #[inline(always)]
    fn write_data(&mut self, now: Instant, sequence: u64, frame: &mut Frame<P>) -> bool {
        let Some(packet) = self.sender.send(now, sequence) else { return false };
        if self.parameters.acknowledgment == Acknowledgment::Piggyback {
            self.receiver.ack_pending = false;
        }
        frame.kind = FrameKind::Data { sequence };
        frame.ack = Some(self.receiver.expected());
        frame.bytes = self.header + packet.wire_bytes();
        frame.payload = Some(packet.clone());
        frame.service = 0;
        true
    }
}

impl<P: Payload + Clone> Endpoint<P> for SelectiveRepeat<P> {
    type Control = FrameKind;

    #[inline(always)]
    fn wants_packet(&self) -> bool {
        !self.has_urgent() && self.sender.has_room()
    }

    #[inline]
    fn enqueue(&mut self, _now: Instant, packet: P) {
        debug_assert!(self.wants_packet(), "enqueue without wants_packet");
        *self.sender.place() = Some(packet);
        self.sender.load(true);
    }

    fn poll_transmit(&mut self, now: Instant) -> Option<Frame<P>> {
        let mut frame = Frame::default();
        self.write_next(now, &mut frame).then_some(frame)
    }

    #[inline(always)]
    fn has_frame(&self) -> bool {
        self.receiver.has_nacks()
            || self.sender.has_copies()
            || self.sender.has_new()
            || self.receiver.ack_pending
    }

    fn receive(&mut self, now: Instant, mut frame: Frame<P>) {
        self.take_in(now, &mut frame);
    }

    #[inline]
    fn poll_deliver(&mut self) -> Option<P> {
        self.receiver.poll_deliver()
    }

    #[inline]
    fn poll_event(&mut self) -> Option<LinkEvent> {
        self.events.pop_front()
    }

    #[inline(always)]
    fn next_timeout(&self) -> Instant {
        self.sender.next_timeout()
    }

    fn handle_timeout(&mut self, now: Instant) {
        while let Some(sequence) = self.sender.take_expired(now) {
            self.counters.timeouts += 1;
            self.events.push_back(LinkEvent::TimedOut { sequence });
        }
    }

    fn counters(&self) -> LinkCounters {
        self.counters
    }

    #[inline]
    fn drop_events(&mut self) {
        self.events.clear();
    }
}

impl<P: Payload + Clone> Abilities<P> for SelectiveRepeat<P> {
    fn retransmission_timeout(&self) -> Option<Duration> {
        Some(self.parameters.timeout)
    }

    fn window(&self) -> Option<u32> {
        Some(self.parameters.window)
    }

    fn delivery_reports(&mut self) -> Option<&mut dyn ReportsDelivery<P>> {
        Some(self.sender.fates())
    }
}

impl<P: Payload + Clone> SelectiveRepeat<P> {
    /// Processes a frame after which any number of packets can be delivered.
    #[inline(never)]
    fn accept_other(&mut self, now: Instant, frame: &mut Frame<P>) -> bool {
        self.take_in(now, frame);
        frame.payload = self.poll_deliver();
        self.receiver.has_up()
    }

    /// Processes a frame and its packet.
    #[inline(always)]
    fn take_in(&mut self, now: Instant, frame: &mut Frame<P>) {
        if let Some(ack) = frame.ack {
            self.sender.on_ack(now, ack);
        }
        let mut is_data = false;
        match frame.kind {
            FrameKind::Data { sequence } => {
                if let Some(packet) = frame.payload.take() {
                    is_data = true;
                    self.on_data(sequence, packet);
                }
            }
            FrameKind::Nack { sequence } => self.sender.on_nack(now, sequence),
            _ => {}
        }
        self.receiver.ask_again(now, is_data);
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
