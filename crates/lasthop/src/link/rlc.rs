//! RLC acknowledged mode: selective repeat by status reports, as UMTS has it.
//!
//! Source: 3GPP TS 25.322, with the options of Vacirca, De Vendictis and Baiocchi; what its clauses
//! leave to a configuration of TS 25.331 is a parameter.
//!
//! A packet (SDU) is cut into PDUs of one size; the sender asks for a report now and then (a
//! *poll*), the receiver says which PDUs have arrived, and those missing are sent again. The
//! states of a PDU are drawn in `rlc_sender.rs` and `rlc_receiver.rs`; those of an endpoint:
//!
//! ```text
//!                MaxDAT with "reset", or Skip not answered: RESET
//!          +----------------------------------------------------------+
//!          |                                                          v
//!       working  <-- RESET: all forgotten, RESET_ACK --> (same)   resetting <-- Timer_RST: RESET
//!          ^                                                          |
//!          +----------------------------------------------------------+
//!                                   RESET_ACK
//! ```
//!
//! Out goes, in this order: RESET_ACK and RESET, Skip (the MRW of the standard) and SkipAck,
//! STATUS, PDUs reported missing with the lowest number first, new PDUs while the window is open, and
//! an old PDU if a poll has nothing else to ride on. Every frame is as long as a full PDU.
//!
//! *When to believe that a PDU is missing.* A report cannot know of a PDU that was sent less than
//! the shortest round trip ago: from the start of the PDU to the end of a report that is made as
//! the PDU arrives. Such a NACK is ignored. As frames neither overtake one another nor wait
//! after they are made, any other NACK is true: no PDU is sent twice in a round trip, and none is
//! kept back.
//!
//! Timers count from the start of a transmission (the machine does not know the rate).
//!
//! Not modelled: several SDUs in one PDU (each begins a new one, the last of an SDU is padded),
//! STATUS inside data PDUs, WINDOW and POLL fields, MaxRST (RESET goes on until it is answered: there is
//! no RRC to tell), ciphering, reordering by the channel, PDU sizes that change.

use super::rlc_receiver::Receiver;
use super::rlc_sender::Sender;
use super::rlc_wire::RlcWireWindow;
use super::timing::{LinkTiming, deadline};
use super::{Endpoint, Frame, FrameKind, LinkCounters, LinkError, LinkEvent, check_header};
use crate::packet::Payload;
use crate::units::{Bytes, Duration, Instant};
use std::collections::VecDeque;

/// Largest window: both ends can be that far apart in numbers modulo 4096.
pub const LARGEST_RLC_WINDOW: u32 = 2047;

/// Least and largest payload of a PDU, in bytes: the least holds a status report, the largest lies
/// within what a length indicator can say.
pub const RLC_PAYLOAD: [u32; 2] = [20, 4000];

/// What happens to a PDU that may not be sent again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum AtLimit {
    /// Its SDU is given up, and the receiver told to skip it.
    #[default]
    Discard,
    /// Both ends forget all that is in flight.
    Reset,
}

/// Parameters of the acknowledged mode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RlcParameters {
    /// Data bytes of a PDU, [`RLC_PAYLOAD`].
    pub payload: Bytes,
    /// Header of a PDU, in bytes (default 2).
    pub header: Bytes,
    /// PDUs that may be outstanding, 1 to [`LARGEST_RLC_WINDOW`].
    pub window: u32,
    /// Transmissions of a PDU at most, at least 1: MaxDAT - 1; `None`: no limit.
    pub max_transmissions: Option<u32>,
    /// What happens then.
    pub at_limit: AtLimit,
    /// Age at which an SDU is given up, counted from when the endpoint took it (Timer_Discard).
    pub discard_after: Option<Duration>,
    /// A poll with every so many SDUs (Poll_SDU).
    pub poll_sdu: Option<u32>,
    /// A poll with every so many PDUs (Poll_PDU).
    pub poll_pdu: Option<u32>,
    /// A poll with every PDU while this share of the window, in per cent, is used (Poll_Window).
    pub poll_window: Option<u32>,
    /// Time after which an unanswered poll is repeated (Timer_Poll), above 0.
    pub poll_timeout: Duration,
    /// Least time between polls (Timer_Poll_Prohibit).
    pub poll_prohibit: Option<Duration>,
    /// A poll every so often while something is unacknowledged (Timer_Poll_Periodic).
    pub poll_periodic: Option<Duration>,
    /// Is a report sent when a gap is first seen?
    pub status_on_gap: bool,
    /// Least time between reports (Timer_Status_Prohibit).
    pub status_prohibit: Option<Duration>,
    /// A report every so often while segments come or are missing (Timer_Status_Periodic).
    pub status_periodic: Option<Duration>,
    /// Time after which an unanswered Skip is repeated (Timer_MRW), above 0.
    pub skip_timeout: Duration,
    /// Skips without answer after which the link is reset (MaxMRW), at least 1.
    pub max_skips: u32,
    /// Time after which an unanswered RESET is repeated (Timer_RST), above 0.
    pub reset_timeout: Duration,
    /// A NACK is ignored if its PDU was sent less than this ago: the shortest round trip.
    pub nack_guard: Duration,
}

impl RlcParameters {
    /// Defaults for a link, whose data and control frames are PDUs: window 1024, no limit, a poll with
    /// each SDU, a report at each gap, timers of 100 ms or 1.5 (RTT_L + T_f') if that is longer, guard
    /// RTT_L. `timing` has the PDU with its header in `data_frame`.
    pub fn for_link(timing: &LinkTiming, payload: Bytes) -> Self {
        let answer = Duration::from_nanos(timing.turnaround().as_nanos() / 2 * 3);
        let timeout = answer.max(Duration::from_millis(100));
        RlcParameters {
            payload,
            header: Bytes::new(2),
            window: 1024,
            max_transmissions: None,
            at_limit: AtLimit::Discard,
            discard_after: None,
            poll_sdu: Some(1),
            poll_pdu: None,
            poll_window: None,
            poll_timeout: timeout,
            poll_prohibit: None,
            poll_periodic: None,
            status_on_gap: true,
            status_prohibit: None,
            status_periodic: None,
            skip_timeout: timeout,
            max_skips: 32,
            reset_timeout: timeout,
            nack_guard: timing.round_trip(),
        }
    }

    fn check(&self) -> Result<(u32, u32), LinkError> {
        let protocol = "RLC acknowledged mode";
        let [least, largest] = RLC_PAYLOAD;
        let payload = u32::try_from(self.payload.get()).unwrap_or(u32::MAX);
        if !(least..=largest).contains(&payload) {
            return Err(LinkError::Pdu { protocol, found: self.payload, least, largest });
        }
        let (window, most) = (self.window, LARGEST_RLC_WINDOW);
        if !(1..=most).contains(&window) {
            return Err(LinkError::Window { protocol, found: window, largest: most });
        }
        let times = [self.poll_timeout, self.skip_timeout, self.reset_timeout];
        let optional = [
            self.discard_after,
            self.poll_prohibit,
            self.poll_periodic,
            self.status_prohibit,
            self.status_periodic,
        ];
        if times.into_iter().chain(optional.into_iter().flatten()).any(|t| t == Duration::ZERO) {
            return Err(LinkError::Timeout { protocol });
        }
        if self.max_transmissions == Some(0) || self.max_skips == 0 {
            return Err(LinkError::Transmissions { protocol, found: 0 });
        }
        Ok((check_header(protocol, self.header)?, payload))
    }
}

/// What both halves tell.
#[derive(Clone, Debug)]
pub(super) struct Log {
    pub counters: LinkCounters,
    pub events: VecDeque<LinkEvent>,
}

/// One end of a link in acknowledged mode.
#[derive(Clone, Debug)]
pub struct Rlc<P> {
    parameters: RlcParameters,
    payload: u32,
    sender: Sender<P>,
    receiver: Receiver<P>,
    /// The reset that waits for its answer.
    resetting: Option<u64>,
    reset_due: bool,
    reset_deadline: Instant,
    /// Resets begun by this end.
    resets: u64,
    /// The last reset of the peer.
    peer_reset: Option<u64>,
    reset_ack: Option<u64>,
    log: Log,
}

impl<P> Rlc<P> {
    /// An idle endpoint; refuses sizes, windows, times and limits that make no sense.
    pub fn new(parameters: RlcParameters) -> Result<Self, LinkError> {
        let (header, payload) = parameters.check()?;
        let slots = parameters.window.next_power_of_two() as usize;
        Ok(Rlc {
            parameters,
            payload,
            sender: Sender::new(&parameters, header, payload),
            receiver: Receiver::new(parameters.window.into()),
            resetting: None,
            reset_due: false,
            reset_deadline: Instant::NEVER,
            resets: 0,
            peer_reset: None,
            reset_ack: None,
            log: Log {
                counters: LinkCounters::default(),
                events: VecDeque::with_capacity(2 * slots),
            },
        })
    }

    /// Where both directions stand, for the byte codec.
    pub fn wire_window(&self) -> RlcWireWindow {
        RlcWireWindow {
            expected: self.receiver.expected,
            base: self.sender.base,
            next: self.sender.next,
            window: self.parameters.window,
            payload: self.payload,
            resetting: self.resetting,
            peer_reset: self.peer_reset,
        }
    }

    /// Begins the reset procedure.
    #[cold]
    fn start_reset(&mut self) {
        self.forget();
        self.resetting = Some(self.resets);
        self.resets += 1;
        self.reset_due = true;
    }

    fn forget(&mut self) {
        self.sender.reset(&mut self.log);
        self.receiver.reset();
    }

    #[cold]
    fn on_reset(&mut self, index: u64) {
        if self.peer_reset != Some(index) {
            self.peer_reset = Some(index);
            self.forget();
        }
        self.reset_ack = Some(index);
    }

    fn on_reset_ack(&mut self, index: u64) {
        if self.resetting == Some(index) {
            self.resetting = None;
            self.reset_due = false;
            self.reset_deadline = Instant::NEVER;
        }
    }
}

impl<P: Payload + Clone> Rlc<P> {
    /// RESET_ACK or RESET.
    #[cold]
    fn transmit_reset(&mut self, now: Instant) -> Option<Frame<P>> {
        // The answer first: two ends that reset at once, with short timers, would only ask.
        if let Some(index) = self.reset_ack.take() {
            return Some(self.sender.frame(FrameKind::ResetAck { index }, None));
        }
        let index = self.resetting.filter(|_| self.reset_due)?;
        self.reset_due = false;
        self.reset_deadline = deadline(now, self.parameters.reset_timeout);
        Some(self.sender.frame(FrameKind::Reset { index }, None))
    }
}

impl<P: Payload + Clone> Endpoint<P> for Rlc<P> {
    /// Also with one PDU to send: only with the next packet at hand it knows whether that is the
    /// last for now.
    #[inline]
    fn wants_packet(&self) -> bool {
        self.sender.wants_packet(&self.parameters)
            && !self.receiver.has_frame()
            && self.resetting.is_none()
            && self.reset_ack.is_none()
    }

    #[inline]
    fn enqueue(&mut self, now: Instant, packet: P) {
        debug_assert!(self.wants_packet(), "enqueue without wants_packet");
        self.sender.enqueue(now, packet, &self.parameters);
    }

    #[inline]
    fn poll_transmit(&mut self, now: Instant) -> Option<Frame<P>> {
        let Rlc { parameters, sender, receiver, log, .. } = self;
        if self.resetting.is_some() || self.reset_ack.is_some() {
            return self.transmit_reset(now);
        }
        if receiver.has_frame() && !sender.is_skip_due() {
            let (kind, ack) = receiver.transmit(now, parameters, log)?;
            return Some(Frame { ack, ..sender.frame(kind, None) });
        }
        sender.transmit(now, parameters, log)
    }

    #[inline]
    fn has_frame(&self) -> bool {
        if self.resetting.is_some() || self.reset_ack.is_some() {
            return self.reset_due || self.reset_ack.is_some();
        }
        self.receiver.has_frame() || self.sender.has_frame(&self.parameters)
    }

    #[inline]
    fn receive(&mut self, now: Instant, frame: Frame<P>) {
        let Rlc { parameters, sender, receiver, log, .. } = self;
        match (frame.kind, frame.payload) {
            (FrameKind::Reset { index }, _) => return self.on_reset(index),
            (FrameKind::ResetAck { index }, _) => return self.on_reset_ack(index),
            // Numbers of before the reset, or of after it at the other end.
            _ if self.resetting.is_some() => return,
            (FrameKind::Segment { sequence, is_last, poll }, Some(piece)) => {
                let what = (sequence, is_last, poll);
                return receiver.on_segment(now, what, piece, parameters, log);
            }
            (FrameKind::Skip { next }, _) => return receiver.on_skip(next, parameters, log),
            _ => {}
        }
        let is_over = match frame.kind {
            FrameKind::Status { first, missing } => {
                sender.on_status(now, (first, missing, frame.ack), parameters, log)
            }
            FrameKind::SkipAck { next } => sender.on_skip_ack(now, next, parameters, log),
            _ => false,
        };
        if is_over {
            self.start_reset();
        }
    }

    #[inline]
    fn poll_deliver(&mut self) -> Option<P> {
        self.receiver.up.pop_front()
    }

    #[inline]
    fn poll_event(&mut self) -> Option<LinkEvent> {
        self.log.events.pop_front()
    }

    #[inline]
    fn next_timeout(&self) -> Instant {
        let halves = self.sender.timers.next().min(self.receiver.timers.next());
        halves.min(self.reset_deadline)
    }

    fn handle_timeout(&mut self, now: Instant) {
        let Rlc { parameters, sender, receiver, log, .. } = self;
        receiver.handle_timeout(now, parameters);
        if sender.handle_timeout(now, parameters, log) {
            match self.resetting {
                None => self.start_reset(),
                Some(_) => {
                    debug_assert!(false, "a sender that waits for RESET_ACK has sent nothing")
                }
            }
        }
        if self.reset_deadline <= now {
            self.reset_deadline = Instant::NEVER;
            self.reset_due = true;
        }
    }

    fn counters(&self) -> LinkCounters {
        self.log.counters
    }

    /// A PDU that has been sent so often already may be on its way once more; it is given up when
    /// it is missing the next time.
    fn limit_transmissions(&mut self, limit: Option<u32>) {
        self.sender.limit(limit, &self.parameters);
    }
}
