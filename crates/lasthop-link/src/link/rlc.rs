//! RLC acknowledged mode (AM) of UMTS: selective repeat ARQ with polling and status reports.
//!
//! Source: 3GPP TS 25.322, with the options of Vacirca, De Vendictis and Baiocchi. Values that its
//! clauses leave to configuration by TS 25.331 are parameters.
//!
//! A packet (SDU) is segmented into PDUs of fixed size. The sender requests status reports by a
//! poll bit in PDUs, the receiver reports which PDUs have been received, and missing ones are
//! retransmitted. The states of a PDU are drawn in `rlc_sender.rs` and `rlc_receiver.rs`. The
//! states of an endpoint are:
//!
//! ```text
//!                MaxDAT with "reset", or Skip unanswered: RESET
//!          +----------------------------------------------------------+
//!          |                                                          v
//!       working  <-- RESET: state cleared, RESET_ACK --> (same)  resetting <-- Timer_RST: RESET
//!          ^                                                          |
//!          +----------------------------------------------------------+
//!                                   RESET_ACK
//! ```
//!
//! Transmission order: RESET_ACK and RESET; Skip (MRW of the standard) and SkipAck; STATUS; PDUs
//! reported missing, lowest number first; new PDUs while the window is open. If a poll is pending
//! and none of these can be sent, an old PDU is retransmitted with it. Every frame has the length
//! of a full PDU.
//!
//! *Valid NACKs.* A report generated when a PDU arrives can be received at the earliest one minimum
//! round trip after the PDU was sent. A NACK for a PDU sent more recently cannot refer to this
//! transmission and is ignored. Frames are not reordered and not delayed after they are generated,
//! so every other NACK is valid. No PDU is therefore retransmitted twice per round trip, and no
//! valid NACK is ignored.
//!
//! Timers start at the beginning of a transmission, since the state machine does not know the rate.
//!
//! Not modelled: several SDUs in one PDU (each SDU begins a new PDU, and the last one is padded),
//! piggybacked STATUS, WINDOW and POLL fields, MaxRST (without RRC, RESET is repeated until it is
//! acknowledged), ciphering, reordering by the channel, changes of the PDU size.

use super::protocol::{ProtocolKeys, Site};
use super::rlc_receiver::Receiver;
use super::rlc_sender::Sender;
use super::rlc_wire::RlcWireWindow;
use super::timing::{LinkTiming, deadline};
use super::{
    Abilities, Driven, Endpoint, Frame, FrameKind, LinkCounters, LinkError, LinkEvent,
    ReportsDelivery, check_header,
};
use super::{ByteFormat, BytesError, rlc_wire};
use lasthop_base::packet::Payload;
use lasthop_base::schema::keys::{Limits, choice, table};
use lasthop_base::schema::{Every, LinkTimeout, OptionalTimer, Transmissions};
use lasthop_base::units::{Bytes, Duration, Instant};
use std::collections::VecDeque;

/// Maximum window in PDUs: sequence numbers are modulo 4096, and either end may be ahead by a
/// window.
pub const LARGEST_RLC_WINDOW: u32 = 2047;

/// Minimum and maximum payload of a PDU, in bytes. The minimum holds a status report; the maximum
/// is within the range of a length indicator.
pub const RLC_PAYLOAD: [u32; 2] = [20, 4000];

/// Header of a PDU in acknowledged mode, without extensions.
const RLC_HEADER: Bytes = Bytes::new(2);

table! {
    /// RLC acknowledged mode of UMTS: packets are segmented into PDUs of fixed size, the sender
    /// polls for status reports, and missing PDUs are retransmitted. A packet is discarded when one
    /// of its PDUs reaches the transmission limit, if any.
    pub struct RlcAmKeys as "rlc-am" {
        /// Payload of a PDU; each packet begins a new PDU, and its last PDU is padded.
        payload: Bytes = "40 B", Limits::range(RLC_PAYLOAD[0] as u64, RLC_PAYLOAD[1] as u64);
        /// Maximum number of outstanding PDUs.
        window: u32 = "1024", Limits::range(1, LARGEST_RLC_WINDOW as u64);
        /// Maximum number of transmissions per PDU, including the first: MaxDAT of the standard
        /// minus 1.
        max_transmissions: Transmissions = "unlimited", Limits::range(1, 1000);
        /// Action when a PDU reaches the transmission limit.
        at_limit: AtLimit = "discard";
        /// Maximum age of a packet before it is discarded, counted from its removal from the queue.
        discard_timer: OptionalTimer = "off";
        /// Poll with the last PDU of every n-th packet.
        poll_sdu: Every = "1", Limits::range(1, 1000);
        /// Poll with every n-th PDU.
        poll_pdu: Every = "off", Limits::range(1, 1000);
        /// Poll with each PDU while at least this percentage of the window is in use.
        poll_window: Every = "off", Limits::range(1, 100);
        /// Time after which an unanswered poll is repeated; "auto" is 100 ms, or 1.5 times the
        /// response time on slower links.
        timer_poll: LinkTimeout = "auto";
        /// Minimum interval between polls.
        timer_poll_prohibit: OptionalTimer = "off";
        /// Interval between periodic polls while PDUs are outstanding.
        timer_poll_periodic: OptionalTimer = "off";
        /// Whether the receiver sends a report as soon as it detects a missing PDU.
        status_on_gap: bool = "true";
        /// Minimum interval between reports.
        timer_status_prohibit: OptionalTimer = "off";
        /// Interval between periodic reports while PDUs arrive or are missing.
        timer_status_periodic: OptionalTimer = "off";
        /// Time after which an unacknowledged request to skip discarded PDUs is repeated; "auto" as
        /// for timer_poll.
        timer_mrw: LinkTimeout = "auto";
        /// Maximum number of such requests before the link is reset.
        max_mrw: u32 = "32", Limits::range(1, 1000);
        /// Time after which an unacknowledged reset is repeated; "auto" as for timer_poll.
        timer_rst: LinkTimeout = "auto";
    }
}

choice! {
    /// Action when a PDU of RLC acknowledged mode reaches the transmission limit.
    pub enum AtLimit {
        /// Its packet is discarded, and the receiver is requested to skip it.
        Discard = "discard",
        /// The link is reset: both ends discard all packets in flight.
        Reset = "reset",
    }
}

/// The state machine of one end.
pub type Machine<P> = Box<Rlc<P>>;

impl ProtocolKeys for RlcAmKeys {
    type Machine<P: Payload + Clone> = Machine<P>;

    const LIMITS_TRANSMISSIONS: bool = true;
    const REPORTS_FATES: bool = true;

    fn build<P: Payload + Clone>(&self, site: &Site) -> Result<Machine<P>, LinkError> {
        let header = site.header;
        let pdu = Bytes::new(self.payload.get() + header.get() + site.identifier.get());
        let timing = site.timing(Bytes::default());
        let timing = LinkTiming { data_frame: pdu, control_frame: pdu, ..timing };
        // A report is generated when its transmission starts, so the guard time excludes waiting
        // for other services.
        let alone = LinkTiming { back_delay: site.other.delay + site.repair[1], ..timing };
        let guard = site.radio_frame.map_or(alone.round_trip(), |frame| {
            // A PDU arrives one radio frame and the delay after the start of its radio frame. The
            // report is sent at the start of the next radio frame.
            let nanos = (frame + site.own.delay).as_nanos();
            let answer = nanos.next_multiple_of(frame.as_nanos().max(1));
            Duration::from_nanos(answer) + frame + site.other.delay
        });
        let auto = RlcParameters::for_link(&timing, self.payload);
        // With radio frames the round trip is longer than computed from the rate.
        let longest = auto.poll_timeout.max(guard * 2);
        let prohibit = self.timer_status_prohibit.get();
        // A requested report may be delayed by Timer_Status_Prohibit.
        let answer = longest + prohibit.unwrap_or_default();
        let end = Rlc::new(RlcParameters {
            header,
            window: self.window,
            max_transmissions: self.max_transmissions.limit(),
            at_limit: self.at_limit,
            discard_after: self.discard_timer.get(),
            poll_sdu: self.poll_sdu.get(),
            poll_pdu: self.poll_pdu.get(),
            poll_window: self.poll_window.get(),
            poll_timeout: self.timer_poll.or(answer),
            poll_prohibit: self.timer_poll_prohibit.get(),
            poll_periodic: self.timer_poll_periodic.get(),
            status_on_gap: self.status_on_gap,
            status_prohibit: prohibit,
            status_periodic: self.timer_status_periodic.get(),
            skip_timeout: self.timer_mrw.or(longest),
            max_skips: self.max_mrw,
            reset_timeout: self.timer_rst.or(longest),
            nack_guard: guard,
            ..auto
        })?;
        Ok(Box::new(end))
    }

    /// The length of a PDU does not depend on the packet.
    fn largest_frame(&self, _packet: Bytes, header: Bytes) -> Bytes {
        Bytes::new(self.payload.get() + header.get())
    }

    fn framed(&self, packet: Bytes, header: Bytes) -> Bytes {
        let pdus = packet.get().div_ceil(self.payload.get().max(1));
        Bytes::new(packet.get() + pdus * header.get())
    }

    /// Time until a PDU is reported missing and retransmitted.
    fn repair_time(&self, site: &Site) -> Duration {
        let packet = self.largest_frame(site.packet, site.header);
        Site { packet, ..*site }.timing(packet).longest_turnaround()
    }

    fn default_header(&self) -> Bytes {
        RLC_HEADER
    }

    fn payload(&self) -> Option<Bytes> {
        Some(self.payload)
    }
}

/// Parameters of the acknowledged mode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RlcParameters {
    /// Payload of a PDU, within [`RLC_PAYLOAD`].
    pub payload: Bytes,
    /// Header of a PDU (default 2 B).
    pub header: Bytes,
    /// Maximum number of outstanding PDUs, 1 to [`LARGEST_RLC_WINDOW`].
    pub window: u32,
    /// Maximum number of transmissions per PDU, at least 1: MaxDAT - 1; `None`: no limit.
    pub max_transmissions: Option<u32>,
    /// Action at this limit.
    pub at_limit: AtLimit,
    /// Maximum age of an SDU before it is discarded, counted from [`Endpoint::enqueue`]
    /// (Timer_Discard).
    pub discard_after: Option<Duration>,
    /// Poll with the last PDU of every n-th SDU (Poll_SDU).
    pub poll_sdu: Option<u32>,
    /// Poll with every n-th PDU (Poll_PDU).
    pub poll_pdu: Option<u32>,
    /// Poll with every PDU while at least this percentage of the window is in use (Poll_Window).
    pub poll_window: Option<u32>,
    /// Time after which an unanswered poll is repeated (Timer_Poll), above 0.
    pub poll_timeout: Duration,
    /// Minimum interval between polls (Timer_Poll_Prohibit).
    pub poll_prohibit: Option<Duration>,
    /// Interval between periodic polls while PDUs are outstanding (Timer_Poll_Periodic).
    pub poll_periodic: Option<Duration>,
    /// Whether a report is sent when a gap is first detected.
    pub status_on_gap: bool,
    /// Minimum interval between reports (Timer_Status_Prohibit).
    pub status_prohibit: Option<Duration>,
    /// Interval between periodic reports while segments arrive or are missing
    /// (Timer_Status_Periodic).
    pub status_periodic: Option<Duration>,
    /// Time after which an unanswered Skip is repeated (Timer_MRW), above 0.
    pub skip_timeout: Duration,
    /// Maximum number of unanswered Skips before the link is reset (MaxMRW), at least 1.
    pub max_skips: u32,
    /// Time after which an unanswered RESET is repeated (Timer_RST), above 0.
    pub reset_timeout: Duration,
    /// Minimum age of the last transmission of a PDU for a NACK to be valid: the minimum round
    /// trip.
    pub nack_guard: Duration,
}

impl RlcParameters {
    /// Defaults for a link whose data and control frames are PDUs: window 1024, no transmission
    /// limit, a poll with each SDU, a report at each gap, timers of max(100 ms, 1.5 (RTT_L +
    /// T_f')), guard RTT_L. `timing.data_frame` is the length of a PDU with its header.
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

/// Counters and events of both halves.
#[derive(Clone, Debug)]
pub(super) struct Log {
    pub counters: LinkCounters,
    pub events: VecDeque<LinkEvent>,
}

/// One end of a link in RLC acknowledged mode.
///
/// ```
/// use lasthop_base::units::{Bytes, Duration, Instant, Rate};
/// use lasthop_link::link::{Endpoint, LinkTiming, Rlc, RlcParameters};
///
/// let (rate, delay) = (Rate::from_bps(1_000_000), Duration::from_millis(10));
/// let timing = LinkTiming::symmetric(rate, delay, Bytes::new(1_000), Bytes::new(2));
/// let parameters = RlcParameters::for_link(&timing, Bytes::new(40));
/// let [mut sender, mut receiver] =
///     [(); 2].map(|()| Rlc::<Vec<u8>>::new(parameters).expect("valid parameters"));
/// let now = Instant::ZERO;
/// sender.enqueue(now, vec![7; 100]);
/// let pdus: Vec<_> = std::iter::from_fn(|| sender.poll_transmit(now)).collect();
/// assert_eq!(pdus.len(), 3, "100 B in PDUs of 40 B");
/// for pdu in pdus {
///     receiver.receive(now, pdu);
/// }
/// assert_eq!(receiver.poll_deliver(), Some(vec![7; 100]));
/// // The last PDU has a poll, which the receiver answers with a status report.
/// assert!(receiver.poll_transmit(now).is_some());
/// ```
#[derive(Clone, Debug)]
pub struct Rlc<P> {
    parameters: RlcParameters,
    payload: u32,
    sender: Sender<P>,
    receiver: Receiver<P>,
    /// Index of the reset that awaits its acknowledgment.
    resetting: Option<u64>,
    reset_due: bool,
    reset_deadline: Instant,
    /// Number of resets started by this end.
    resets: u64,
    /// Index of the last reset of the peer.
    peer_reset: Option<u64>,
    reset_ack: Option<u64>,
    log: Log,
}

impl<P: Clone> Rlc<P> {
    /// Creates an idle endpoint. Returns an error if a parameter is out of range.
    pub fn new(parameters: RlcParameters) -> Result<Self, LinkError> {
        let (header, payload) = parameters.check()?;
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
            log: Log { counters: LinkCounters::default(), events: VecDeque::new() },
        })
    }

    /// Returns the sequence number state of both directions, for encoding and decoding.
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

    /// Starts the reset procedure.
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
    /// Returns the next RESET_ACK or RESET to send.
    #[cold]
    fn transmit_reset(&mut self, now: Instant) -> Option<Frame<P>> {
        // RESET_ACK first: two ends that reset simultaneously with short timers would otherwise
        // send only RESETs.
        if let Some(index) = self.reset_ack.take() {
            return Some(self.sender.control(FrameKind::ResetAck { index }));
        }
        let index = self.resetting.filter(|_| self.reset_due)?;
        self.reset_due = false;
        self.reset_deadline = deadline(now, self.parameters.reset_timeout);
        Some(self.sender.control(FrameKind::Reset { index }))
    }
}

impl<P: Payload + Clone> Endpoint<P> for Rlc<P> {
    type Control = FrameKind;

    /// Also returns `true` while one PDU is unsent: whether that PDU is the last one is known only
    /// when no further packet is available.
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

    fn poll_transmit(&mut self, now: Instant) -> Option<Frame<P>> {
        let mut frame = Frame::default();
        self.write_next(now, &mut frame).then_some(frame)
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
            // Numbers from before the reset, or from after the reset at the peer.
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
}

impl<P: Payload + Clone> Abilities<P> for Rlc<P> {
    fn counts_packets(&self) -> bool {
        true
    }

    fn delivery_reports(&mut self) -> Option<&mut dyn ReportsDelivery<P>> {
        Some(&mut self.sender.fates)
    }

    /// A PDU that has already reached the new limit may be queued for one more retransmission. It
    /// is discarded when it is next reported missing.
    fn limit_transmissions(&mut self, limit: Option<u32>) {
        self.sender.limit(limit, &self.parameters);
    }
}

impl<P: Payload + Clone> Driven<P> for Rlc<P> {
    #[inline]
    fn write_next(&mut self, now: Instant, frame: &mut Frame<P>) -> bool {
        if self.resetting.is_some() || self.reset_ack.is_some() {
            let reset = self.transmit_reset(now);
            return reset.map(|reset| *frame = reset).is_some();
        }
        let Rlc { parameters, sender, receiver, log, .. } = self;
        if receiver.has_frame() && !sender.is_skip_due() {
            let Some((kind, ack)) = receiver.transmit(now, parameters, log) else { return false };
            *frame = Frame { ack, ..sender.control(kind) };
            return true;
        }
        sender.write(now, parameters, log, frame)
    }

    /// A segment in order is appended to its packet in place.
    #[inline]
    fn accept(&mut self, now: Instant, frame: &mut Frame<P>) -> bool {
        let Rlc { parameters, receiver, .. } = self;
        if let FrameKind::Segment { sequence, is_last, poll } = frame.kind
            && receiver.is_next(sequence)
            && frame.payload.is_some()
            && self.resetting.is_none()
        {
            receiver.on_next(now, (is_last, poll), &mut frame.payload, parameters);
            return false;
        }
        self.receive(now, frame.take());
        frame.payload = self.receiver.up.pop_front();
        true
    }
}

impl ByteFormat for Rlc<Vec<u8>> {
    fn encode(&self, frame: &Frame<Vec<u8>>, bytes: &mut Vec<u8>) -> Result<(), BytesError> {
        Ok(rlc_wire::encode(frame, self.wire_window().payload, bytes)?)
    }

    fn decode(&self, bytes: &[u8]) -> Result<Frame<Vec<u8>>, BytesError> {
        Ok(rlc_wire::decode(bytes, &self.wire_window())?)
    }
}
