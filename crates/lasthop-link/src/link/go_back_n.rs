//! Go-back-N: a sliding window that is sent again as a whole.
//!
//! Source: Xylomenos and Polyzos, "Wireless link layer enhancements for TCP and UDP applications",
//! IPDPS 2003: on timeout the sender repeats all outstanding frames, the receiver drops what is
//! out of sequence. The `reject` flag adds the REJ of HDLC (ISO/IEC 13239), once per gap, as
//! ns-2's satellite HDLC module does.
//!
//! Sender:
//!
//! ```text
//!                timer of the oldest frame, or REJ
//!   +---------+ ----------------------------------> +------------+
//!   | sending |                                     | going back | repeats base .. next - 1
//!   +---------+ <---------------------------------- +------------+
//!                all repeated, or acknowledged
//! ```
//!
//! Receiver: the frame `expected` is delivered and acknowledged; any other is dropped and
//! `expected` acknowledged again.
//!
//! The deadline is always the start of the oldest frame's last transmission + timeout, so an
//! advancing acknowledgment moves it to the new oldest frame (`restart_on_ack` starts a full
//! timeout instead). It counts from the start, so the timeout includes the frame's own air time.
//! Efficiency of a saturated link without losses on the way back, timer only:
//! η = (1 - p) / (1 - p + p T_o / T_f).
//!
//! Not modelled: reordering by the channel, a limit on retransmissions, adaptive timers.

use super::fates::Fates;
use super::protocol::{ProtocolKeys, Site, refuse};
use super::timing::{LinkTiming, deadline};
use super::wire::{NumberWidth, WireWindow};
use super::{
    Acknowledgment, Air, Endpoint, Frame, FrameKind, LinkCounters, LinkError, LinkEvent,
    check_parameters,
};
use super::{ByteFormat, BytesError, wire};
use lasthop_base::packet::{LinkFate, Payload};
use lasthop_base::schema::LinkTimeout;
use lasthop_base::schema::keys::{Limits, Read, table};
use lasthop_base::units::{Bytes, Duration, Instant};
use std::collections::VecDeque;

table! {
    /// Go-back-N ARQ: the receiver takes frames in order only.
    pub struct GoBackNKeys as "go-back-n" {
        /// Frames that may be outstanding.
        window: u32 = "8", Limits::range(1, NumberWidth::WIDEST_CUMULATIVE as u64);
        /// Time after which the sender goes back; "auto" derives it from the link.
        timeout: LinkTimeout = "auto";
        /// Whether the receiver tells at once, by a reject frame, that one is missing.
        reject: bool = "false";
        /// Size of a stand-alone acknowledgment or reject frame, by default that of the header: 2 B,
        /// with windows that need numbers of two bytes 4 B.
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

/// The machine of one end.
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

    /// The frame is reported missing or its timer expires, and it is retransmitted.
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
    /// Frames that may be outstanding, 1 to 65535 (one less than the numbers of two bytes); at most
    /// 32768 with `reject`. Above 255, and 128, numbers need two bytes.
    pub window: u32,
    /// Retransmission timeout from the start of a frame's transmission, in nanoseconds; above 0.
    pub timeout: Duration,
    /// Does a new acknowledgment start a full timeout for the new oldest frame?
    pub restart_on_ack: bool,
    /// Does the receiver report the first frame out of sequence in each gap?
    pub reject: bool,
    /// How acknowledgments travel.
    pub acknowledgment: Acknowledgment,
    /// Link header of a data frame, in bytes (default 2: number and acknowledgment).
    pub header: Bytes,
    /// Length of an ACK or REJ frame, in bytes (default 2).
    pub control: Bytes,
}

impl GoBackNParameters {
    /// How numbers are written.
    fn width(&self) -> NumberWidth {
        match self.reject {
            true => NumberWidth::selective(self.window),
            false => NumberWidth::cumulative(self.window),
        }
    }

    /// Defaults for a link: window 8, the coarse timeout max(5 RTT_L, RTT_L + 2 T_f', 250 ms) that
    /// reproduces the published orderings, no REJ, piggybacked acknowledgments.
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

/// One end of a go-back-N link. Slots of the ring are numbers modulo its power-of-two size.
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
    /// End of the numbers that have a packet: `next`, or one more if a packet waits.
    filled: u64,
    packets: Box<[Option<P>]>,
    /// Start of the last transmission.
    sent: Box<[Instant]>,
    deadline: Instant,

    /// Next number to deliver.
    expected: u64,
    ack_pending: bool,
    reject_pending: bool,
    /// A REJ has been asked for since the last frame in sequence.
    in_gap: bool,

    up: VecDeque<P>,
    events: VecDeque<LinkEvent>,
    fates: Fates<P>,
    counters: LinkCounters,
}

impl<P> GoBackN<P> {
    /// An idle endpoint; refuses a window outside 1 to 65535 (32768 with `reject`) and a timeout of 0.
    pub fn new(parameters: GoBackNParameters) -> Result<Self, LinkError> {
        let GoBackNParameters { window, timeout, header, control, .. } = parameters;
        // Numbers tell a gap from a repetition only within half of their range.
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

    /// What it was made with.
    pub fn parameters(&self) -> &GoBackNParameters {
        &self.parameters
    }

    /// Where both directions stand, for the byte codec.
    pub fn wire_window(&self) -> WireWindow {
        let GoBackNParameters { window, .. } = self.parameters;
        let width = self.parameters.width();
        WireWindow { expected: self.expected, base: self.base, next: self.next, window, width }
    }

    #[inline]
    fn slot(&self, sequence: u64) -> usize {
        (sequence & self.mask) as usize
    }

    /// Must an acknowledgment go out on its own before any data?
    #[inline]
    fn ack_first(&self) -> bool {
        self.ack_pending && self.parameters.acknowledgment == Acknowledgment::StandAlone
    }

    fn control_frame(&mut self, kind: FrameKind) -> Frame<P> {
        self.ack_pending = false;
        Frame { kind, ack: Some(self.expected), payload: None, bytes: self.control, service: 0 }
    }

    fn ack_frame(&mut self) -> Frame<P> {
        self.counters.acks += 1;
        self.control_frame(FrameKind::Ack)
    }

    #[inline]
    fn on_ack(&mut self, now: Instant, ack: u64) {
        if ack <= self.base || ack > self.next {
            return;
        }
        for sequence in self.base..ack {
            let packet = self.packets[self.slot(sequence)].take();
            self.fates.finish(sequence, LinkFate::Acknowledged, packet);
        }
        self.base = ack;
        self.cursor = self.cursor.max(ack);
        // While the oldest frame waits to be sent its timer has not started.
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

    #[inline]
    fn on_data(&mut self, sequence: u64, packet: P) {
        self.ack_pending = true;
        if sequence == self.expected {
            self.up.push_back(packet);
            self.expected += 1;
            self.in_gap = false;
            self.reject_pending = false;
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

impl<P: Payload + Clone> Endpoint<P> for GoBackN<P> {
    type Control = FrameKind;

    fn retransmission_timeout(&self) -> Option<Duration> {
        Some(self.parameters.timeout)
    }

    fn window(&self) -> Option<u32> {
        Some(self.parameters.window)
    }

    #[inline]
    fn wants_packet(&self) -> bool {
        !self.reject_pending
            && self.cursor == self.next
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

    #[inline]
    fn poll_transmit(&mut self, now: Instant) -> Option<Frame<P>> {
        if self.reject_pending {
            self.reject_pending = false;
            let sequence = self.expected;
            self.counters.nacks += 1;
            self.events.push_back(LinkEvent::NackSent { sequence });
            return Some(self.control_frame(FrameKind::Nack { sequence }));
        }
        if self.ack_first() {
            return Some(self.ack_frame());
        }
        let sequence = self.cursor;
        if sequence == self.filled {
            return self.ack_pending.then(|| self.ack_frame());
        }
        let slot = self.slot(sequence);
        debug_assert!(self.packets[slot].is_some(), "a frame in the window has its packet");
        let packet = self.packets[slot].clone()?;
        if sequence < self.next {
            self.counters.retransmissions += 1;
            self.events.push_back(LinkEvent::Retransmitted { sequence });
            self.fates.retry(sequence, &packet);
        } else {
            self.counters.data_frames += 1;
            self.next += 1;
        }
        self.cursor += 1;
        self.sent[slot] = now;
        if sequence == self.base {
            self.deadline = deadline(now, self.parameters.timeout);
        }
        if self.parameters.acknowledgment == Acknowledgment::Piggyback {
            self.ack_pending = false;
        }
        let bytes = self.header + packet.wire_bytes();
        let kind = FrameKind::Data { sequence };
        Some(Frame { kind, ack: Some(self.expected), payload: Some(packet), bytes, service: 0 })
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

impl ByteFormat for GoBackN<Vec<u8>> {
    fn encode(&self, frame: &Frame<Vec<u8>>, bytes: &mut Vec<u8>) -> Result<(), BytesError> {
        Ok(wire::encode(frame, self.wire_window().width, bytes)?)
    }

    fn decode(&self, bytes: &[u8]) -> Result<Frame<Vec<u8>>, BytesError> {
        Ok(wire::decode(bytes, &self.wire_window())?)
    }
}
