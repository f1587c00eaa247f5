//! Hybrid FEC and ARQ with disruption detection: a packet is a block of N units of a Reed–Solomon code,
//! any K of which give it back; units of all its transmissions count.
//!
//! Source: Subramanian, Ramakrishnan and Kalyanaraman, "Disruption-tolerant link-level mechanisms for
//! extreme wireless network environments", COMSWARE 2007, section IV. What it leaves open is a parameter;
//! `docs/links/harq.md` says what was chosen and why.
//!
//! Modes of the sender (`mode = "adaptive"`; the others keep to one of them):
//!
//! ```text
//!                x transmissions in a row without any unit received
//!   +-----------+ ------------------------------------------------> +---------------+
//!   | pipelined |                                                   | stop-and-wait |
//!   +-----------+ <------------------------------------------------ +---------------+
//!                          any unit is reported received
//! ```
//!
//! Pipelined: what is to be sent again, oldest first, otherwise new packets, one after the other. In
//! stop-and-wait one transmission, a probe, is outstanding at a time.
//!
//! A packet at the sender (`sender`):
//!
//! ```text
//!         enqueue          sent           enough units are reported
//!  (none) -------> waiting -----> sent --------------------------------> resolved
//!                          ^       |  too few are, or the timer fires         ^
//!                     sent |       v                                          |
//!                         again? --------- no transmission is left -----------+
//! ```
//!
//! At the receiver (`receiver`) a number gathers units until it is decoded, and goes up when all before
//! it have gone up or been given up. Each frame of which any unit arrives is answered at once: how many units did, how
//! many are still needed, and the number up to which all has gone up. A frame that is lost as a whole is
//! noticed by the sender's timer, which has no back-off.
//!
//! A frame on the air is the units of one transmission; the medium says which of them are lost. With `interleave` d > 1 the units of up
//! to d packets take turns, d parts of each, a frame a part:
//!
//! ```text
//!   A1 B1 C1 A2 B2 C2 A3 D1 B3 E1 C3 F1 D2 ...      d = 3; who has sent all parts makes room for the next
//! ```
//!
//! so that a burst of losses takes some units of each packet in place of all of one. Nobody waits for others: a packet alone sends its parts one after
//! the other, and probes go out whole. The receiver answers each part; the answer to the last one, or the timer that runs from its end, ends the transmission.
//!
//! With `feedback = "next-frame"` the answer to a frame that cannot be decoded waits for its last unit or the end of a later frame of which a unit arrives.
//!
//! Not modelled: a channel that reorders; a receiver that reports a disruption by itself: with `erasures = "later-frame"` the sender infers from an answer that
//! those before it were lost, which is when such a receiver would report them.

mod estimate;
mod receiver;
mod sender;
pub mod wire;

use super::protocol::{MOST_REPAIRS, ProtocolKeys, Site};
use super::{
    ByteFormat, BytesError, Endpoint, Frame, FrameKind, LinkCounters, LinkError, LinkEvent,
    LinkTiming, check_sizes,
};
use lasthop_base::packet::{LinkFate, Payload};
use lasthop_base::schema::keys::{Limits, choice, table};
use lasthop_base::schema::{LinkTimeout, Transmissions};
use lasthop_base::units::{Bytes, Duration, Instant, Probability, Rate};
use receiver::Receiver;
use sender::Sender;

/// Units of a frame at most: a bit each says which have arrived.
pub const MOST_UNITS: u32 = 64;

/// Packets outstanding at most: half of the numbers of two bytes.
pub const LARGEST_HARQ_WINDOW: u32 = 1 << 15;

table! {
    /// Hybrid FEC and ARQ: each packet is a block of coded units, with as many parity units as the
    /// loss asks for; a disruption is noticed, and waited out with single packets.
    pub struct HarqKeys as "harq" {
        /// Units of a transmission; with 1 packets go out whole, and uncoded.
        units: u32 = "20", Limits::range(1, MOST_UNITS as u64);
        /// Packets whose units take turns on the air, so many parts of each; with 1 a transmission is one
        /// frame.
        interleave: u32 = "1", Limits::range(1, MOST_UNITS as u64);
        /// Parity units of the first transmission of a packet.
        proactive: Proactive = "adaptive";
        /// What a packet is sent again with.
        reactive: Reactive = "full";
        /// Weight of a new sample in the estimates of loss.
        estimate_weight: Probability = "0.005";
        /// Standard deviation of the loss that is added to its estimate.
        deviation: Deviation = "binomial";
        /// Whether transmissions of which nothing arrived are left out of the estimates.
        skip_erased: bool = "true";
        /// Whether transmissions in stop-and-wait are samples of the loss too.
        sample_probes: bool = "false";
        /// When the receiver answers a transmission that it cannot decode.
        feedback: Feedback = "frame-end";
        /// What tells the sender that a transmission was lost as a whole.
        erasures: Erasures = "timer";
        /// Whether packets are delivered in order.
        in_order: bool = "true";
        /// How many packets are outstanding.
        mode: HarqMode = "adaptive";
        /// Transmissions in a row without any unit received that are a disruption.
        detect: u32 = "1", Limits::range(1, 1000);
        /// Transmissions of a packet at most, the first among them.
        max_transmissions: Transmissions = "4", Limits::range(1, 1000);
        /// Transmissions after which a packet is sent on its own, the others waiting for the answer.
        pipelined_transmissions: Transmissions = "unlimited", Limits::range(1, 1000);
        /// Whether transmissions in stop-and-wait count against max_transmissions.
        probes_count: bool = "true";
        /// Packets that may be outstanding or wait behind one that is missing.
        window: u32 = "512", Limits::range(1, LARGEST_HARQ_WINDOW as u64);
        /// Time from the end of a transmission after which it is lost as a whole; "auto" derives it
        /// from the link.
        timeout: LinkTimeout = "auto";
        /// Size of the answer to a transmission.
        control: Bytes = "8 B", Limits::CONTROL;
    }
}

choice! {
    /// Parity units of a packet's first transmission.
    pub enum Proactive {
        /// The expected loss and one standard deviation of it.
        Adaptive = "adaptive",
        /// None.
        None = "none",
    }
}

choice! {
    /// What a packet is sent again with.
    pub enum Reactive {
        /// As many units as the first time, all of them parity.
        Full = "full",
        /// As many as are needed at the estimated loss of such transmissions, one standard deviation
        /// of it included.
        Needed = "needed",
    }
}

choice! {
    /// Standard deviation of the loss of a transmission.
    pub enum Deviation {
        /// Of a binomial count at the estimated loss.
        Binomial = "binomial",
        /// Of the samples, as a moving average.
        Samples = "samples",
        /// None is added.
        None = "none",
    }
}

choice! {
    /// When the receiver answers a transmission that it cannot decode; one that it can is answered at its end.
    pub enum Feedback {
        /// At its end.
        FrameEnd = "frame-end",
        /// When its last unit or a unit of a later frame arrives. The timeout must allow for that frame.
        NextFrame = "next-frame",
    }
}

choice! {
    /// What tells the sender that a transmission was lost as a whole.
    pub enum Erasures {
        /// Its timer.
        Timer = "timer",
        /// The answer to a later transmission, as from a receiver that notices the gap; the timer where none follows.
        LaterFrame = "later-frame",
    }
}

choice! {
    /// How many packets are outstanding.
    pub enum HarqMode {
        /// A window of them, and one at a time while the link is disrupted.
        Adaptive = "adaptive",
        /// Always a window of them.
        Pipelined = "pipelined",
        /// Always one.
        StopAndWait = "stop-and-wait",
    }
}

/// The machine of one end.
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

    /// A header for each unit.
    fn largest_frame(&self, packet: Bytes, header: Bytes) -> Bytes {
        Bytes::new(packet.get() + u64::from(self.units) * header.get())
    }

    /// The answer or the timer asks for more units; a packet that is given up delays those behind it as long as all its
    /// transmissions.
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

/// Parameters of hybrid FEC and ARQ.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct HarqParameters {
    /// Units of a transmission, 1 to 64.
    pub units: u32,
    /// Packets whose units take turns, 1 to 64.
    pub interleave: u32,
    /// Parity units of a first transmission.
    pub proactive: Proactive,
    /// What a packet is sent again with.
    pub reactive: Reactive,
    /// Weight of a new sample in the estimates of loss, 0 to 1.
    pub estimate_weight: f64,
    /// What is added to the estimate.
    pub deviation: Deviation,
    /// Do transmissions of which nothing arrived count for nothing?
    pub skip_erased: bool,
    /// Whether transmissions in stop-and-wait are samples of the loss.
    pub sample_probes: bool,
    /// When an undecodable transmission is answered.
    pub feedback: Feedback,
    /// Feedback that reports an erased transmission to the sender.
    pub erasures: Erasures,
    /// Whether packets are delivered in order.
    pub in_order: bool,
    /// Packets outstanding.
    pub mode: HarqMode,
    /// Transmissions in a row of which nothing arrived that are a disruption; at least 1.
    pub detect: u32,
    /// Transmissions of a packet at most, at least 1; `None`: no limit.
    pub max_transmissions: Option<u32>,
    /// Transmissions after which a packet is sent on its own; `None`: never.
    pub pipelined_transmissions: Option<u32>,
    /// Do transmissions in stop-and-wait count against `max_transmissions`?
    pub probes_count: bool,
    /// Packets that may be outstanding, 1 to 32768.
    pub window: u32,
    /// Time from the end of a transmission to the last moment at which its answer can come; above 0.
    pub timeout: Duration,
    /// Rate by which the sender knows the end of a transmission.
    pub rate: Rate,
    /// Header of each unit, in bytes (default 8).
    pub header: Bytes,
    /// Length of an answer, in bytes (default 8).
    pub control: Bytes,
}

impl HarqParameters {
    /// The defaults for a link: its answer may have to wait for one data frame of the other
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

/// One end of a link with hybrid FEC and ARQ.
#[derive(Clone, Debug)]
pub struct Harq<P> {
    sender: Sender<P>,
    receiver: Receiver<P>,
    control: u32,
}

impl<P> Harq<P> {
    /// An idle endpoint.
    ///
    /// # Errors
    /// If a block has no unit or more than 64, as many packets take turns, a window is outside of 1 to 32768, a timeout is 0, or no
    /// transmission is allowed.
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

    /// What it was made with.
    pub fn parameters(&self) -> &HarqParameters {
        self.sender.parameters()
    }

    /// Is it in stop-and-wait?
    pub fn is_stopped(&self) -> bool {
        self.sender.is_stopped()
    }

    /// The loss of first transmissions as estimated.
    pub fn estimated_loss(&self) -> f64 {
        self.sender.estimated_loss()
    }

    /// Where both directions stand, for the byte codec.
    pub fn wire_window(&self) -> wire::HarqWireWindow {
        let (base, next) = self.sender.outstanding();
        wire::HarqWireWindow { expected: self.receiver.expected(), base, next }
    }

    /// A frame without a packet, that also says what has gone up.
    fn control_frame(&self, kind: FrameKind) -> Frame<P> {
        let ack = Some(self.receiver.expected());
        Frame { kind, ack, payload: None, bytes: self.control, service: 0 }
    }
}

impl<P: Payload + Clone> Endpoint<P> for Harq<P> {
    type Control = FrameKind;

    const CODES_UNITS: bool = true;

    #[inline]
    fn wants_packet(&self) -> bool {
        !self.receiver.has_answer() && self.sender.wants_packet()
    }

    #[inline]
    fn enqueue(&mut self, _now: Instant, packet: P) {
        self.sender.enqueue(packet);
    }

    #[inline]
    fn poll_transmit(&mut self, now: Instant) -> Option<Frame<P>> {
        if let Some(kind) = self.receiver.poll_answer() {
            return Some(self.control_frame(kind));
        }
        if let Some(frame) = self.sender.poll_block(now) {
            return Some(frame);
        }
        self.sender.poll_skip(now).map(|kind| self.control_frame(kind))
    }

    #[inline]
    fn has_frame(&self) -> bool {
        self.receiver.has_answer() || self.sender.has_block() || self.sender.has_skip()
    }

    #[inline]
    fn receive(&mut self, _now: Instant, frame: Frame<P>) {
        match (frame.kind, frame.payload) {
            (FrameKind::Block { sequence, units, intact, behind }, Some(arrived)) => {
                self.receiver.on_block(sequence, units, intact, behind, arrived);
            }
            (FrameKind::Skip { next }, _) => self.receiver.on_skip(next),
            (FrameKind::Feedback { sequence, first, received, needed }, _) => {
                self.sender.on_expected(frame.ack);
                self.sender.on_feedback(sequence, first, received, needed);
            }
            (FrameKind::SkipAck { .. }, _) => self.sender.on_expected(frame.ack),
            _ => {}
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

    fn keep_fates(&mut self) {
        self.sender.fates.keep();
    }

    fn poll_fate(&mut self) -> Option<(LinkFate, P)> {
        self.sender.fates.poll()
    }

    fn counters(&self) -> LinkCounters {
        self.sender.counters().plus(self.receiver.counters())
    }

    fn limit_transmissions(&mut self, limit: Option<u32>) {
        self.sender.limit_transmissions(limit);
    }

    fn window(&self) -> Option<u32> {
        Some(self.parameters().window)
    }

    fn drop_events(&mut self) {
        self.sender.drop_events();
        self.receiver.drop_events();
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
