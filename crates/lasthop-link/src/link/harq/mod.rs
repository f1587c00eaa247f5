//! Hybrid ARQ (HARQ) with disruption detection. A packet is encoded as a block of N units of a
//! Reed–Solomon code and can be decoded from any K of them. Units of all its transmissions are
//! combined (incremental redundancy).
//!
//! Source: Subramanian, Ramakrishnan and Kalyanaraman, "Disruption-tolerant link-level mechanisms
//! for extreme wireless network environments", COMSWARE 2007, section IV. Choices that the paper
//! leaves open are parameters; `docs/links/harq.md` explains their defaults.
//!
//! Modes of the sender (with `mode = "adaptive"`; the other settings use one mode only):
//!
//! ```text
//!                x consecutive transmissions without any unit received
//!   +-----------+ ------------------------------------------------> +---------------+
//!   | pipelined |                                                   | stop-and-wait |
//!   +-----------+ <------------------------------------------------ +---------------+
//!                          any unit is reported received
//! ```
//!
//! In pipelined mode, retransmissions are sent first, the oldest packet first, then new packets. In
//! stop-and-wait mode only one transmission, a probe, is outstanding.
//!
//! States of a packet at the sender (`sender`):
//!
//! ```text
//!         enqueue          sent          reported: no more units needed
//!  (none) -------> waiting -----> sent --------------------------------> resolved
//!                          ^       |  more units needed, or timeout           ^
//!                     sent |       v                                          |
//!                         queued ---------- transmission limit reached --------+
//! ```
//!
//! The receiver (`receiver`) collects the units of a packet until it is decoded. It delivers the
//! packet when all earlier ones have been delivered or discarded. Every frame of which any unit is
//! received is acknowledged immediately: with the number of units received, the number of units
//! still needed, and the next number to deliver. A frame that is lost entirely (erased) is detected
//! by the sender's timer, which has no backoff.
//!
//! A frame contains the units of one transmission; the medium decides which of them are lost. With
//! `interleave` d > 1, each transmission is split into d parts, one frame each, and parts of up to
//! d packets are interleaved:
//!
//! ```text
//!   A1 B1 C1 A2 B2 C2 A3 D1 B3 E1 C3 F1 D2 ...      d = 3; a completed packet is replaced by the next
//! ```
//!
//! A burst of losses then affects some units of each packet instead of all units of one.
//! Transmissions are never delayed for interleaving: the parts of a single packet are sent
//! consecutively, and probes are sent as one frame. The receiver acknowledges each part. A
//! transmission ends with the acknowledgment of its last part, or with the timeout counted from the
//! end of that part.
//!
//! With `feedback = "next-frame"` the feedback for a frame that cannot be decoded is deferred. It
//! is sent when the frame's last unit or any unit of a later frame is received.
//!
//! Not modelled: reordering by the channel; receivers that report erased frames. With `erasures =
//! "later-frame"` the sender infers them from feedback for a later frame, which is the time at
//! which such a receiver would report them.

mod estimate;
mod receiver;
mod sender;
pub mod wire;

use super::protocol::{MOST_REPAIRS, ProtocolKeys, Site};
use super::{
    Abilities, ByteFormat, BytesError, Driven, Endpoint, Frame, FrameKind, LinkCounters, LinkError,
    LinkEvent, LinkTiming, ReportsDelivery, check_sizes,
};
use lasthop_base::packet::Payload;
use lasthop_base::schema::keys::{Limits, choice, table};
use lasthop_base::schema::{LinkTimeout, Transmissions};
use lasthop_base::units::{Bytes, Duration, Instant, Probability, Rate};
use receiver::Receiver;
use sender::Sender;

/// Maximum number of units per frame: a 64-bit mask records which have been received.
pub const MOST_UNITS: u32 = 64;

/// Maximum number of outstanding packets: half of the 2-byte sequence number range.
pub const LARGEST_HARQ_WINDOW: u32 = 1 << 15;

table! {
    /// Hybrid ARQ: each packet is a block of coded units, with parity units according to the
    /// estimated loss. Disruptions are detected; during a disruption only one packet at a time is
    /// sent.
    pub struct HarqKeys as "harq" {
        /// Units per transmission; with 1, packets are sent whole and uncoded.
        units: u32 = "20", Limits::range(1, MOST_UNITS as u64);
        /// Number of packets whose units are interleaved, and of parts per transmission; with 1, a
        /// transmission is one frame.
        interleave: u32 = "1", Limits::range(1, MOST_UNITS as u64);
        /// Parity units of the first transmission of a packet.
        proactive: Proactive = "adaptive";
        /// Contents of retransmissions.
        reactive: Reactive = "full";
        /// Weight of a new sample in the estimates of loss.
        estimate_weight: Probability = "0.005";
        /// Standard deviation of the loss that is added to its estimate.
        deviation: Deviation = "binomial";
        /// Whether erased transmissions (no unit received) are excluded from the loss estimates.
        skip_erased: bool = "true";
        /// Whether transmissions in stop-and-wait mode also contribute to the loss estimates.
        sample_probes: bool = "false";
        /// Time at which the receiver acknowledges a transmission that it cannot decode.
        feedback: Feedback = "frame-end";
        /// Method by which the sender detects erased transmissions.
        erasures: Erasures = "timer";
        /// Whether packets are delivered in order.
        in_order: bool = "true";
        /// Number of outstanding packets.
        mode: HarqMode = "adaptive";
        /// Number of consecutive erased transmissions after which the link is considered disrupted.
        detect: u32 = "1", Limits::range(1, 1000);
        /// Maximum number of transmissions per packet, including the first.
        max_transmissions: Transmissions = "4", Limits::range(1, 1000);
        /// Transmissions after which a packet is sent alone: no other packet is sent until it is
        /// acknowledged.
        pipelined_transmissions: Transmissions = "unlimited", Limits::range(1, 1000);
        /// Whether transmissions in stop-and-wait mode count towards max_transmissions.
        probes_count: bool = "true";
        /// Maximum number of packets that are outstanding or held behind a missing one.
        window: u32 = "512", Limits::range(1, LARGEST_HARQ_WINDOW as u64);
        /// Time from the end of a transmission after which it is considered erased; "auto" derives
        /// it from the link.
        timeout: LinkTimeout = "auto";
        /// Size of feedback frames.
        control: Bytes = "8 B", Limits::CONTROL;
    }
}

choice! {
    /// Parity units of the first transmission of a packet.
    pub enum Proactive {
        /// The expected number of lost units plus one standard deviation.
        Adaptive = "adaptive",
        /// None.
        None = "none",
    }
}

choice! {
    /// Contents of retransmissions.
    pub enum Reactive {
        /// As many units as in the first transmission, all parity units.
        Full = "full",
        /// The units needed divided by the expected fraction received at the estimated loss of
        /// retransmissions plus one standard deviation.
        Needed = "needed",
    }
}

choice! {
    /// Standard deviation of the loss of a transmission.
    pub enum Deviation {
        /// Standard deviation of a binomial count at the estimated loss.
        Binomial = "binomial",
        /// Standard deviation of the samples, as a moving average.
        Samples = "samples",
        /// Not added.
        None = "none",
    }
}

choice! {
    /// Time at which the receiver acknowledges a transmission that it cannot decode. A decodable
    /// one is acknowledged at its end.
    pub enum Feedback {
        /// At the end of the transmission.
        FrameEnd = "frame-end",
        /// When its last unit or a unit of a later frame is received. The timeout must include that
        /// frame.
        NextFrame = "next-frame",
    }
}

choice! {
    /// Method by which the sender detects erased transmissions.
    pub enum Erasures {
        /// The retransmission timer.
        Timer = "timer",
        /// Feedback for a later transmission, as from a receiver that detects the gap; the timer if
        /// none follows.
        LaterFrame = "later-frame",
    }
}

choice! {
    /// Number of outstanding packets.
    pub enum HarqMode {
        /// A window, reduced to one packet while the link is disrupted.
        Adaptive = "adaptive",
        /// Always a window.
        Pipelined = "pipelined",
        /// Always one packet.
        StopAndWait = "stop-and-wait",
    }
}

/// The state machine of one end.
pub type Machine<P> = Box<Harq<P>>;

impl ProtocolKeys for HarqKeys {
    type Machine<P: Payload + Clone> = Machine<P>;

    const LIMITS_TRANSMISSIONS: bool = true;
    const REPORTS_FATES: bool = true;

    fn build<P: Payload + Clone>(&self, site: &Site) -> Result<Machine<P>, LinkError> {
        let headers = u64::from(self.units) * site.header.get();
        let data_frame = Bytes::new(site.packet.get() + headers + site.identifier.get());
        let timing = LinkTiming { data_frame, ..site.timing(self.control) };
        let auto = HarqParameters::for_link(&timing, self.units);
        Harq::new(HarqParameters {
            interleave: self.interleave,
            proactive: self.proactive,
            reactive: self.reactive,
            estimate_weight: self.estimate_weight.get(),
            deviation: self.deviation,
            skip_erased: self.skip_erased,
            sample_probes: self.sample_probes,
            feedback: self.feedback,
            erasures: self.erasures,
            in_order: self.in_order,
            mode: self.mode,
            detect: self.detect,
            max_transmissions: self.max_transmissions.limit(),
            pipelined_transmissions: self.pipelined_transmissions.limit(),
            probes_count: self.probes_count,
            window: self.window,
            timeout: self.timeout.or(auto.timeout + site.own_wait),
            header: site.header,
            control: self.control,
            ..auto
        })
        .map(Box::new)
    }

    /// Each unit has a header.
    fn largest_frame(&self, packet: Bytes, header: Bytes) -> Bytes {
        Bytes::new(packet.get() + u64::from(self.units) * header.get())
    }

    /// Retransmissions follow feedback or a timeout. A discarded packet delays later ones by all of
    /// its transmissions.
    fn repair_time(&self, site: &Site) -> Duration {
        let data_frame = self.largest_frame(site.packet, site.header);
        let timing = LinkTiming { data_frame, ..site.timing(self.control) };
        let most = self.max_transmissions.limit().unwrap_or(u32::MAX).min(MOST_REPAIRS);
        timing.longest_turnaround() * u64::from(most)
    }

    fn default_header(&self) -> Bytes {
        wire::UNIT_HEADER
    }

    fn control(&self) -> Option<Bytes> {
        Some(self.control)
    }
}

/// Parameters of hybrid ARQ.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct HarqParameters {
    /// Units per transmission, 1 to 64.
    pub units: u32,
    /// Number of packets whose units are interleaved, 1 to 64.
    pub interleave: u32,
    /// Parity units of a first transmission.
    pub proactive: Proactive,
    /// Contents of retransmissions.
    pub reactive: Reactive,
    /// Weight of a new sample in the estimates of loss, 0 to 1.
    pub estimate_weight: f64,
    /// Standard deviation added to the estimate.
    pub deviation: Deviation,
    /// Whether erased transmissions are excluded from the estimates.
    pub skip_erased: bool,
    /// Whether transmissions in stop-and-wait mode contribute to the estimates.
    pub sample_probes: bool,
    /// Time at which an undecodable transmission is acknowledged.
    pub feedback: Feedback,
    /// Method by which the sender detects erased transmissions.
    pub erasures: Erasures,
    /// Whether packets are delivered in order.
    pub in_order: bool,
    /// Number of outstanding packets.
    pub mode: HarqMode,
    /// Number of consecutive erased transmissions after which the link is considered disrupted; at
    /// least 1.
    pub detect: u32,
    /// Maximum number of transmissions per packet, at least 1; `None`: no limit.
    pub max_transmissions: Option<u32>,
    /// Transmissions after which a packet is sent alone; `None`: never.
    pub pipelined_transmissions: Option<u32>,
    /// Whether transmissions in stop-and-wait mode count towards `max_transmissions`.
    pub probes_count: bool,
    /// Maximum number of outstanding packets, 1 to 32768.
    pub window: u32,
    /// Maximum time from the end of a transmission to its feedback; above 0.
    pub timeout: Duration,
    /// Bit rate, from which the sender computes the end of a transmission.
    pub rate: Rate,
    /// Header of each unit (default 8 B).
    pub header: Bytes,
    /// Length of feedback frames (default 8 B).
    pub control: Bytes,
}

impl HarqParameters {
    /// Returns the defaults for a link, on which feedback may wait for one data frame of the other
    /// direction.
    pub fn for_link(timing: &LinkTiming, units: u32) -> Self {
        let after = timing.turnaround().as_nanos() - timing.frame_time().as_nanos();
        HarqParameters {
            units,
            interleave: 1,
            proactive: Proactive::Adaptive,
            reactive: Reactive::Full,
            estimate_weight: 0.005,
            deviation: Deviation::Binomial,
            skip_erased: true,
            sample_probes: false,
            feedback: Feedback::FrameEnd,
            erasures: Erasures::Timer,
            in_order: true,
            mode: HarqMode::Adaptive,
            detect: 1,
            max_transmissions: Some(4),
            pipelined_transmissions: None,
            probes_count: true,
            window: 512,
            timeout: Duration::from_nanos(after.max(1)),
            rate: timing.rate,
            header: wire::UNIT_HEADER,
            control: wire::CONTROL,
        }
    }
}

/// One end of a link with hybrid ARQ.
///
/// ```
/// use lasthop_base::units::{Bytes, Duration, Instant, Rate};
/// use lasthop_link::link::{Endpoint, LinkTiming, Harq, HarqParameters};
///
/// let (rate, delay) = (Rate::from_bps(1_000_000), Duration::from_millis(10));
/// let timing = LinkTiming::symmetric(rate, delay, Bytes::new(1_000), Bytes::new(2));
/// let parameters = HarqParameters::for_link(&timing, 20);
/// let [mut sender, mut receiver] =
///     [(); 2].map(|()| Harq::<Vec<u8>>::new(parameters).expect("valid parameters"));
/// let now = Instant::ZERO;
/// sender.enqueue(now, vec![7; 1_000]);
/// let transmission = sender.poll_transmit(now).expect("the units of a packet");
/// assert!(transmission.bytes > 1_000, "units have headers");
/// receiver.receive(now, transmission);
/// assert_eq!(receiver.poll_deliver(), Some(vec![7; 1_000]));
/// assert!(receiver.poll_transmit(now).is_some(), "feedback");
/// ```
#[derive(Clone, Debug)]
pub struct Harq<P> {
    sender: Sender<P>,
    receiver: Receiver<P>,
    control: u32,
}

impl<P> Harq<P> {
    /// Creates an idle endpoint.
    ///
    /// # Errors
    /// Returns an error if `units` or `interleave` is outside 1 to 64, the window outside 1 to
    /// 32768, the timeout 0, the transmission limit 0, or a header or control frame too long.
    pub fn new(parameters: HarqParameters) -> Result<Self, LinkError> {
        let HarqParameters { units, interleave, window, timeout, header, control, .. } = parameters;
        let protocol = "hybrid FEC and ARQ";
        if !(1..=MOST_UNITS).contains(&units) {
            return Err(LinkError::Block { protocol, found: units, largest: MOST_UNITS });
        }
        if !(1..=MOST_UNITS).contains(&interleave) {
            return Err(LinkError::Turns { protocol, found: interleave, largest: MOST_UNITS });
        }
        if !(1..=LARGEST_HARQ_WINDOW).contains(&window) {
            let largest = LARGEST_HARQ_WINDOW;
            return Err(LinkError::Window { protocol, found: window, largest });
        }
        if timeout == Duration::ZERO {
            return Err(LinkError::Timeout { protocol });
        }
        if let Some(found @ 0) = parameters.max_transmissions {
            return Err(LinkError::Transmissions { protocol, found });
        }
        let (header, control) = check_sizes(protocol, header, control)?;
        Ok(Harq {
            sender: Sender::new(parameters, header, control),
            receiver: Receiver::new(window, parameters.feedback, parameters.in_order),
            control,
        })
    }

    /// Returns the parameters of the endpoint.
    pub fn parameters(&self) -> &HarqParameters {
        self.sender.parameters()
    }

    /// Returns `true` if the sender is in stop-and-wait mode.
    pub fn is_stopped(&self) -> bool {
        self.sender.is_stopped()
    }

    /// Returns the estimated loss of first transmissions.
    pub fn estimated_loss(&self) -> f64 {
        self.sender.estimated_loss()
    }

    /// Returns the sequence number state of both directions, for encoding and decoding.
    pub fn wire_window(&self) -> wire::HarqWireWindow {
        let (base, next) = self.sender.outstanding();
        wire::HarqWireWindow { expected: self.receiver.expected(), base, next }
    }

    /// Writes a frame without a packet, with a cumulative acknowledgment.
    fn write_control(&self, frame: &mut Frame<P>, kind: FrameKind) {
        let ack = Some(self.receiver.expected());
        *frame = Frame { kind, ack, payload: None, bytes: self.control, service: 0 };
    }
}

impl<P: Payload + Clone> Harq<P> {
    /// Processes a received frame. Takes its packet, unless it is the first one to deliver.
    #[inline]
    fn take_in(&mut self, frame: &mut Frame<P>) {
        if let FrameKind::Block { sequence, units, intact, behind } = frame.kind {
            if frame.payload.is_some() {
                let content = &mut frame.payload;
                self.receiver.on_block(sequence, units, intact, behind, content);
            }
            return;
        }
        frame.payload = None;
        match frame.kind {
            FrameKind::Skip { next } => self.receiver.on_skip(next),
            FrameKind::Feedback { sequence, first, received, needed } => {
                self.sender.on_expected(frame.ack);
                self.sender.on_feedback(sequence, first, received, needed);
            }
            FrameKind::SkipAck { .. } => self.sender.on_expected(frame.ack),
            _ => {}
        }
    }
}

impl<P: Payload + Clone> Endpoint<P> for Harq<P> {
    type Control = FrameKind;

    #[inline]
    fn wants_packet(&self) -> bool {
        !self.receiver.has_answer() && self.sender.wants_packet()
    }

    #[inline]
    fn enqueue(&mut self, _now: Instant, packet: P) {
        self.sender.enqueue(packet);
    }

    fn poll_transmit(&mut self, now: Instant) -> Option<Frame<P>> {
        let mut frame = Frame::default();
        self.write_next(now, &mut frame).then_some(frame)
    }

    #[inline]
    fn has_frame(&self) -> bool {
        self.receiver.has_answer() || self.sender.has_block() || self.sender.has_skip()
    }

    fn receive(&mut self, _now: Instant, mut frame: Frame<P>) {
        self.take_in(&mut frame);
        if let Some(packet) = frame.payload {
            self.receiver.deliver_first(packet);
        }
    }

    #[inline]
    fn poll_deliver(&mut self) -> Option<P> {
        self.receiver.poll_deliver()
    }

    #[inline]
    fn poll_event(&mut self) -> Option<LinkEvent> {
        self.sender.poll_event().or_else(|| self.receiver.poll_event())
    }

    #[inline]
    fn next_timeout(&self) -> Instant {
        self.sender.next_timeout()
    }

    fn handle_timeout(&mut self, now: Instant) {
        self.sender.handle_timeout(now);
    }

    fn counters(&self) -> LinkCounters {
        self.sender.counters().plus(self.receiver.counters())
    }

    fn drop_events(&mut self) {
        self.sender.drop_events();
        self.receiver.drop_events();
    }
}

impl<P: Payload + Clone> Abilities<P> for Harq<P> {
    fn delivery_reports(&mut self) -> Option<&mut dyn ReportsDelivery<P>> {
        Some(&mut self.sender.fates)
    }

    fn limit_transmissions(&mut self, limit: Option<u32>) {
        self.sender.limit_transmissions(limit);
    }

    fn window(&self) -> Option<u32> {
        Some(self.parameters().window)
    }
}

impl<P: Payload + Clone> Driven<P> for Harq<P> {
    const CODES_UNITS: bool = true;

    #[inline]
    fn write_next(&mut self, now: Instant, frame: &mut Frame<P>) -> bool {
        if let Some(kind) = self.receiver.poll_answer() {
            self.write_control(frame, kind);
            return true;
        }
        if self.sender.write_block(now, frame) {
            return true;
        }
        let Some(kind) = self.sender.poll_skip(now) else { return false };
        self.write_control(frame, kind);
        true
    }

    #[inline]
    fn accept(&mut self, _now: Instant, frame: &mut Frame<P>) -> bool {
        self.take_in(frame);
        if frame.payload.is_none() && self.receiver.has_up() {
            frame.payload = self.receiver.poll_deliver();
        }
        self.receiver.has_up()
    }
}

impl ByteFormat for Harq<Vec<u8>> {
    fn encode(&self, frame: &Frame<Vec<u8>>, bytes: &mut Vec<u8>) -> Result<(), BytesError> {
        Ok(wire::encode(frame, bytes)?)
    }

    fn decode(&self, bytes: &[u8]) -> Result<Frame<Vec<u8>>, BytesError> {
        Ok(wire::decode(bytes, &self.wire_window())?)
    }
}
