//! Selective repeat with multireject: a sliding window in which only lost frames are sent again.
//!
//! Source: Xylomenos and Kokkinakis, "Multiple layer error control over wireless links"; after
//! Brady, "Evaluation of multireject, selective reject, and other protocol enhancements", IEEE
//! Trans. Commun. 35(6), 1987. Window, timeout and the rule of repeated NACKs are published
//! nowhere: they are parameters (`docs/links/selective-repeat.md` says where their defaults come from).
//!
//! A frame at the sender (`sender`):
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
//! A number at the receiver (`receiver`):
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

mod receiver;
mod sender;

use super::protocol::{ProtocolKeys, Site};
use super::timing::LinkTiming;
use super::wire::{NumberWidth, WireWindow};
use super::{
    Acknowledgment, Endpoint, Frame, FrameKind, LinkCounters, LinkError, LinkEvent, Port, Writer,
    check_parameters,
};
use super::{ByteFormat, BytesError, wire};
use lasthop_base::packet::{LinkFate, Payload};
use lasthop_base::schema::LinkTimeout;
use lasthop_base::schema::keys::{Limits, choice, table};
use lasthop_base::units::{Bytes, Duration, Instant};
use receiver::{Arrival, Receiver};
use sender::Sender;
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
        // The first NACK for a frame may be the quickest, whatever layers below repair meanwhile.
        let unrepaired = Site { repair: [Duration::ZERO; 2], ..*site };
        let nack_guard = unrepaired.timing(self.control_size()).round_trip();
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
            nack_guard,
            acknowledgment: self.acks,
            header: site.header,
            control: self.control_size(),
            ..auto
        })
    }

    /// The frame is reported missing or its timer expires, and it is retransmitted.
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

/// One end of a selective-repeat link.
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
    /// An idle endpoint; refuses a window outside 1 to 32768 and a timeout of 0.
    pub fn new(parameters: SelectiveRepeatParameters) -> Result<Self, LinkError> {
        let SelectiveRepeatParameters { window, timeout, header, control, .. } = parameters;
        let widest = NumberWidth::WIDEST_SELECTIVE;
        let (header, control) =
            check_parameters("selective repeat", window, widest, timeout, header, control)?;
        let slots = window.next_power_of_two() as usize;
        Ok(SelectiveRepeat {
            parameters,
            header,
            control,
            sender: Sender::new(&parameters),
            receiver: Receiver::new(&parameters),
            events: VecDeque::with_capacity(2 * slots),
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
        let width = NumberWidth::selective(window);
        let (base, next) = self.sender.window_edges();
        WireWindow { expected: self.receiver.expected(), base, next, window, width }
    }

    /// Must an acknowledgment go out on its own before any data?
    #[inline(always)]
    fn ack_first(&self) -> bool {
        self.parameters.acknowledgment == Acknowledgment::StandAlone && self.receiver.ack_pending
    }

    /// Does something go out before a new packet?
    #[inline(always)]
    fn has_urgent(&self) -> bool {
        self.receiver.has_nacks() || self.sender.has_copies() || self.ack_first()
    }

    /// Writes a control frame, which carries the acknowledgment too.
    fn write_control(&mut self, frame: &mut Frame<P>, kind: FrameKind) {
        self.receiver.ack_pending = false;
        let ack = Some(self.receiver.expected());
        *frame = Frame { kind, ack, payload: None, bytes: self.control, service: 0 };
    }

    fn write_ack(&mut self, frame: &mut Frame<P>) {
        self.counters.acks += 1;
        self.write_control(frame, FrameKind::Ack);
    }

    /// Writes the next NACK, if one waits.
    fn write_nack(&mut self, now: Instant, frame: &mut Frame<P>) -> bool {
        let Some(sequence) = self.receiver.take_nack(now) else { return false };
        self.counters.nacks += 1;
        self.events.push_back(LinkEvent::NackSent { sequence });
        self.write_control(frame, FrameKind::Nack { sequence });
        true
    }

    /// A data frame has come that is not simply the next one.
    fn on_data(&mut self, sequence: u64, packet: P) {
        match self.receiver.on_data(sequence, packet) {
            Arrival::New => {}
            Arrival::Duplicate => self.counters.duplicates += 1,
            Arrival::Outside => self.counters.discarded += 1,
        }
    }
}

impl<P: Payload + Clone> SelectiveRepeat<P> {
    /// Writes what goes out before new packets, if there is something.
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

    /// Writes the new packet that waits, or else the acknowledgment that does.
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

    /// Writes a data frame, whose timer starts; false if it has no packet.
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

/// An end of which it is known whether something goes out before a new packet.
struct Looked<'a, P> {
    machine: &'a mut SelectiveRepeat<P>,
    has_urgent: bool,
}

impl<P: Payload + Clone> Writer<P> for Looked<'_, P> {
    #[inline(always)]
    fn write(self, now: Instant, frame: &mut Frame<P>) -> bool {
        let Looked { machine, has_urgent } = self;
        has_urgent && machine.write_urgent(now, frame) || machine.write_new(now, frame)
    }
}

impl<P: Payload + Clone> Endpoint<P> for SelectiveRepeat<P> {
    type Control = FrameKind;

    fn retransmission_timeout(&self) -> Option<Duration> {
        Some(self.parameters.timeout)
    }

    fn window(&self) -> Option<u32> {
        Some(self.parameters.window)
    }

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
    fn write_next(&mut self, now: Instant, frame: &mut Frame<P>) -> bool {
        Looked { has_urgent: self.has_urgent(), machine: self }.write(now, frame)
    }

    /// What goes out before new packets is looked for once: mostly there is none.
    #[inline(always)]
    fn turn<Q: Port<P>>(&mut self, now: Instant, port: &mut Q) -> Option<Instant> {
        if self.next_timeout() <= now {
            return None;
        }
        let free_at = port.free_at();
        if free_at > now {
            return Some(self.next_poll(free_at, port.has_packet()));
        }
        let has_urgent = self.has_urgent();
        if !has_urgent && self.sender.has_room() {
            self.load(now, port);
        }
        port.transmit(now, Looked { has_urgent, machine: self });
        if !Q::LISTENS {
            self.drop_events();
        }
        if has_urgent {
            return Some(self.next_poll(port.free_at(), port.has_packet()));
        }
        debug_assert!(!self.has_frame(), "what there was has been sent");
        let has_more = self.sender.is_open() && port.has_packet();
        let timeout = self.next_timeout();
        Some(if has_more { timeout.min(port.free_at()) } else { timeout })
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

    /// The packet of the next frame in order passes through.
    #[inline(always)]
    fn accept(&mut self, now: Instant, frame: &mut Frame<P>) -> bool {
        if let FrameKind::Data { sequence } = frame.kind
            && self.receiver.passes(sequence)
        {
            if let Some(ack) = frame.ack {
                self.sender.on_ack(now, ack);
            }
            return false;
        }
        self.accept_other(now, frame)
    }

    /// A new packet goes from the queue into its place.
    #[inline(always)]
    fn load<Q: Port<P>>(&mut self, _now: Instant, port: &mut Q) {
        let place = self.sender.place();
        let is_there = port.take_packet_into(place);
        self.sender.load(is_there);
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

    /// The end of a frame is nothing to wake for if nothing follows it.
    #[inline(always)]
    fn next_poll_while_busy(&self, free_at: Instant, has_packets: bool) -> Instant {
        self.next_poll(free_at, has_packets)
    }

    fn sleeps_while_busy(&self) -> bool {
        self.parameters.timer == TimerMode::PerFrame
    }

    fn handle_timeout(&mut self, now: Instant) {
        while let Some(sequence) = self.sender.take_expired(now) {
            self.counters.timeouts += 1;
            self.events.push_back(LinkEvent::TimedOut { sequence });
        }
    }

    fn keep_fates(&mut self) {
        self.sender.fates().keep();
    }

    fn poll_fate(&mut self) -> Option<(LinkFate, P)> {
        self.sender.fates().poll()
    }

    fn counters(&self) -> LinkCounters {
        self.counters
    }

    #[inline]
    fn drop_events(&mut self) {
        self.events.clear();
    }
}

impl<P: Payload + Clone> SelectiveRepeat<P> {
    /// Takes a frame that may let several packets go up, or none.
    #[inline(never)]
    fn accept_other(&mut self, now: Instant, frame: &mut Frame<P>) -> bool {
        self.take_in(now, frame);
        frame.payload = self.poll_deliver();
        self.receiver.has_up()
    }

    /// Takes a frame with its packet.
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
