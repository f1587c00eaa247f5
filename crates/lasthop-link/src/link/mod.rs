//! Link-layer endpoints: sans-IO state machines, one per end of a link.
//!
//! # Contract
//!
//! All calls carry `now`, which never decreases. The driver owns the interface queue and the
//! transmitter:
//!
//! - whenever the transmitter is idle it asks [`Endpoint::wants_packet`]; if so and the queue is
//!   not empty it hands the head down with [`Endpoint::enqueue`]; then it calls
//!   [`Endpoint::poll_transmit`] and puts the frame, if any, on the air starting at `now`;
//! - a frame that survives the channel goes into the peer's [`Endpoint::receive`], after which the
//!   driver drains [`Endpoint::poll_deliver`] and [`Endpoint::poll_event`] and polls an idle
//!   transmitter again;
//! - at [`Endpoint::next_timeout`] it calls [`Endpoint::handle_timeout`]; an early or repeated call
//!   changes nothing; then it drains [`Endpoint::poll_deliver`] again: what waited for a frame that
//!   is now given up may go up;
//! - an endpoint with queues of its own ([`Services`]) always wants packets: the driver hands each
//!   down when it comes, and says to which service;
//! - a frame of no length is ideal feedback: it takes no time on the air and is never lost; an
//!   endpoint that sends such frames may want damaged ones too ([`Endpoint::wants_damaged`]);
//! - a damaged frame is lost, unless its header could be read and the endpoint asks for such frames
//!   ([`Endpoint::wants_headers`]): then it goes into [`Endpoint::receive_header`];
//! - once somebody has called [`Endpoint::keep_fates`], what becomes of packets waits for
//!   [`Endpoint::poll_fate`] in the same way;
//! - a packet that an endpoint computes in place of a lost one is told that one's number
//!   ([`Payload::keep_frame`]), which packets that arrive are told by the driver;
//! - events also come from [`Endpoint::poll_transmit`] and [`Endpoint::handle_timeout`]; they wait,
//!   in memory, until they are drained.

mod bytes;
mod error;
mod events;
mod fates;
pub mod fec_wire;
mod frame;
mod number_set;
mod numbered;
mod own;
mod protocol;
mod rlc_receiver;
mod rlc_sender;
pub mod rlc_wire;
pub mod rlp_wire;
mod services;
mod stack;
mod timers;
mod timing;
pub mod wire;

pub(crate) use bytes::ByteFormat;
pub use bytes::BytesError;
pub use error::LinkError;
use error::{check_header, check_parameters, check_sizes};
pub use events::{LinkCounters, LinkEvent, PacketMetrics, ReceiverMetrics, SenderMetrics};
pub use frame::{Control, Frame, FrameKind};
pub use go_back_n::{GoBackN, GoBackNParameters};
pub use harq::{
    Deviation, Erasures, Feedback, Harq, HarqMode, HarqParameters, LARGEST_HARQ_WINDOW, MOST_UNITS,
    Proactive, Reactive,
};
pub use ideal_sr::{IdealSr, IdealSrParameters};
pub use number_set::NumberSet;
pub use own::{Own, OwnEndpoint, OwnProtocol};
pub use protocol::{Air, Site};
pub use raw::Raw;
pub use rlc::{AtLimit, LARGEST_RLC_WINDOW, RLC_PAYLOAD, Rlc, RlcParameters};
pub use rlp::{HORIZON, MOST_RETRANSMISSIONS, Release, Rlp, RlpParameters};
pub use selective_repeat::{Renack, SelectiveRepeat, SelectiveRepeatParameters, TimerMode};
pub use services::{CLASSES, MAX_SERVICES, ServiceParameters, Services, ServicesParameters};
pub use stack::{CarriesFrames, LayerEvent, Stack, packet_within, stack};
pub use stop_and_wait::{StopAndWait, StopAndWaitParameters};
pub use timing::{LinkTiming, airtime};
pub use xor_fec::{XorFec, XorFecParameters};

use lasthop_base::packet::{LinkFate, Payload};
use lasthop_base::schema::keys::{Read, choice, kinds};
use lasthop_base::units::{Bytes, Duration, Instant};
use protocol::{ProtocolKeys, link_protocols};

choice! {
    /// How acknowledgments of a link travel.
    pub enum Acknowledgment {
        /// In the header of a data frame if one is waiting, otherwise in a frame of their own.
        Piggyback = "piggybacked",
        /// Always in a frame of their own.
        StandAlone = "stand-alone",
    }
}

/// What a driver has for an endpoint: the queue of packets before it and the transmitter behind it.
pub trait Port<P> {
    /// Does anybody listen to the endpoint's events? Otherwise they are dropped.
    const LISTENS: bool;

    /// When the frame on the air has left.
    fn free_at(&self) -> Instant;
    /// Does a packet wait?
    fn has_packet(&self) -> bool;
    /// The packet that waits first, put where it is wanted; false if there is none.
    fn take_packet_into(&mut self, place: &mut Option<P>) -> bool;
    /// The packet that waits first.
    #[inline(always)]
    fn take_packet(&mut self) -> Option<P> {
        let mut packet = None;
        self.take_packet_into(&mut packet);
        packet
    }
    /// The frame of `writer`, if it has one, goes on the air now; nothing else is there.
    fn transmit<W: Writer<P>>(&mut self, now: Instant, writer: W);
}

/// Writes the next frame of an endpoint.
pub trait Writer<P> {
    /// See [`Endpoint::CODES_UNITS`].
    const CODES_UNITS: bool = false;

    /// Writes the frame that leaves now into a place that still holds an old one; false if there is none.
    fn write(self, now: Instant, frame: &mut Frame<P>) -> bool;
}

impl<P: Payload, E: Endpoint<P>> Writer<P> for &mut E {
    const CODES_UNITS: bool = E::CODES_UNITS;

    #[inline(always)]
    fn write(self, now: Instant, frame: &mut Frame<P>) -> bool {
        self.write_next(now, frame)
    }
}

/// One end of a link-layer protocol that carries packets of type `P`.
pub trait Endpoint<P: Payload> {
    /// The content of its frames other than packet, acknowledgment and length.
    type Control: Control;

    /// Does it code packets, so that the units of its frames are lost one by one?
    const CODES_UNITS: bool = false;

    /// Would the next transmission be a new packet, had the endpoint one?
    fn wants_packet(&self) -> bool;
    /// The network layer hands a packet down. Call only when [`Self::wants_packet`].
    fn enqueue(&mut self, now: Instant, packet: P);
    /// The transmitter is idle: the next frame, control frames first, then retransmissions, then
    /// new data. Its transmission starts at `now`.
    fn poll_transmit(&mut self, now: Instant) -> Option<Frame<P, Self::Control>>;
    /// The same, written into a place that still holds an old one; false if there is none.
    #[inline(always)]
    fn write_next(&mut self, now: Instant, frame: &mut Frame<P>) -> bool {
        match self.poll_transmit(now) {
            Some(next) => {
                *frame = next.on_air();
                true
            }
            None => false,
        }
    }
    /// Would [`Self::poll_transmit`] return a frame, or must it be called once more to see that
    /// there is none? Lets a driver sleep through an idle transmitter.
    fn has_frame(&self) -> bool;
    /// A frame came in undamaged.
    fn receive(&mut self, now: Instant, frame: Frame<P, Self::Control>);
    /// The next packet that may go up.
    fn poll_deliver(&mut self) -> Option<P>;
    /// The next event for agents and probes.
    fn poll_event(&mut self) -> Option<LinkEvent>;
    /// The one earliest deadline, [`Instant::NEVER`] if none.
    fn next_timeout(&self) -> Instant;
    /// The deadline has come.
    fn handle_timeout(&mut self, now: Instant);
    /// Counters since the start.
    fn counters(&self) -> LinkCounters;

    /// A frame came in damaged, but it is known which it was. Only an ideal protocol may listen:
    /// a real receiver does not know what it has lost.
    fn receive_damaged(&mut self, _now: Instant, _frame: Frame<P>) {}

    /// Does it listen to [`Self::receive_damaged`]?
    fn wants_damaged(&self) -> bool {
        false
    }

    /// A frame came in damaged, but its header could be read. Returns the packet, if it is to go up as it is: to
    /// agents and transports that read the headers of damaged packets. By default such a frame is lost.
    fn receive_header(&mut self, _now: Instant, _frame: Frame<P>) -> Option<P> {
        None
    }

    /// Does it listen to [`Self::receive_header`]? Not beside [`Self::wants_damaged`].
    fn wants_headers(&self) -> bool {
        false
    }

    /// The next frame of no length: ideal feedback, which takes no time on the air and is never
    /// lost. [`Self::poll_transmit`] returns such frames too, before all others; a driver with
    /// another way for them takes them from here first.
    fn poll_free(&mut self, _now: Instant) -> Option<Frame<P>> {
        None
    }

    /// Does [`Self::poll_free`] ever return one?
    fn sends_free(&self) -> bool {
        false
    }

    /// Transmissions of a frame at most from now on, `None` for no limit; a protocol that has no
    /// such limit ignores it.
    fn limit_transmissions(&mut self, _limit: Option<u32>) {}

    /// What a driver does with an idle transmitter: hands `packet` down if one is wanted, and
    /// polls. One dispatch instead of three.
    #[inline]
    fn poll_frame(
        &mut self,
        now: Instant,
        packet: impl FnOnce() -> Option<P>,
    ) -> Option<Frame<P, Self::Control>> {
        if self.wants_packet()
            && let Some(packet) = packet()
        {
            self.enqueue(now, packet);
        }
        self.poll_transmit(now)
    }

    /// When a driver whose transmitter falls idle at `free_at`, and that has packets or not, must
    /// see to the endpoint again.
    #[inline(always)]
    fn next_poll(&self, free_at: Instant, has_packets: bool) -> Instant {
        let has_frame = self.has_frame() || has_packets && self.wants_packet();
        let timeout = self.next_timeout();
        if has_frame { timeout.min(free_at) } else { timeout }
    }

    /// The same while a frame is on the air until `free_at`. By default the end of that frame is soon
    /// enough to ask what comes next.
    #[inline]
    fn next_poll_while_busy(&self, free_at: Instant, _has_packets: bool) -> Instant {
        self.next_timeout().min(free_at)
    }

    /// Is it the same by [`Self::next_poll_while_busy`] as by [`Self::next_poll`], and brings no frame that arrives a timer
    /// forward? Then a driver that has just asked, or is to look in when the transmitter falls idle, need not ask again.
    fn sleeps_while_busy(&self) -> bool {
        false
    }

    /// All that a driver does where the transmitter may be idle, in one dispatch: sends the next frame
    /// if there is one. Returns when the endpoint must be seen to again, or `None` if its timer is
    /// due, which must be handled first.
    #[inline(always)]
    fn turn<Q: Port<P>>(&mut self, now: Instant, port: &mut Q) -> Option<Instant>
    where
        Self: Sized,
    {
        let timeout = self.next_timeout();
        if timeout <= now {
            return None;
        }
        let free_at = port.free_at();
        if free_at > now {
            return Some(self.next_poll_while_busy(free_at, port.has_packet()));
        }
        if self.wants_packet() {
            self.load(now, port);
        }
        port.transmit(now, &mut *self);
        if !Q::LISTENS {
            self.drop_events();
        }
        Some(self.next_poll(port.free_at(), port.has_packet()))
    }

    /// Takes the packet that waits first, if there is one, as [`Self::enqueue`] does. Call only when
    /// [`Self::wants_packet`].
    #[inline(always)]
    fn load<Q: Port<P>>(&mut self, now: Instant, port: &mut Q) {
        if let Some(packet) = port.take_packet() {
            self.enqueue(now, packet);
        }
    }

    /// A frame came in undamaged. The packet that goes up first, if there is one, takes the place of the
    /// frame's own, which mostly is the same; returns whether there may be more. One dispatch instead of three.
    #[inline]
    fn accept(&mut self, now: Instant, frame: &mut Frame<P>) -> bool {
        if let Some(frame) = Frame::from_air(frame.take()) {
            self.receive(now, frame);
        }
        frame.payload = self.poll_deliver();
        true
    }

    /// From now on it keeps what it learns of the packets that it sends, for [`Self::poll_fate`]. A
    /// protocol whose sender learns nothing ignores it.
    fn keep_fates(&mut self) {}

    /// What has become of the next packet: sent again for the first time, acknowledged, or given up.
    fn poll_fate(&mut self) -> Option<(LinkFate, P)> {
        None
    }

    /// Does it cut packets up, so that it counts them beside its frames?
    fn counts_packets(&self) -> bool {
        false
    }

    /// The timeout after which a frame is sent again, of protocols that have one for all frames.
    fn retransmission_timeout(&self) -> Option<Duration> {
        None
    }

    /// Frames that may be outstanding, of protocols with a window of frames.
    fn window(&self) -> Option<u32> {
        None
    }

    /// Drops the events that nobody listens to.
    #[inline]
    fn drop_events(&mut self) {
        while self.poll_event().is_some() {}
    }
}

// The list of link protocols: the file of each, and the keys and so the `kind` that it has in scenarios.
link_protocols! {
    raw: Raw(RawKeys);
    go_back_n: GoBackN(GoBackNKeys);
    selective_repeat: SelectiveRepeat(SelectiveRepeatKeys);
    rlp: KarnRlp(KarnRlpKeys), OosRlp(OosRlpKeys);
    stop_and_wait: StopAndWait(StopAndWaitKeys);
    xor_fec: XorFec(XorFecKeys);
    ideal_sr: IdealSr(IdealSrKeys);
    rlc: RlcAm(RlcAmKeys);
    harq: Harq(HarqKeys);
}

impl LinkEndpoint<Vec<u8>> {
    /// Can its frames be written as bytes?
    pub fn has_byte_form(&self) -> bool {
        // A codec reads any bytes as a frame or as none of its own.
        self.decode(&[]) != Err(BytesError::NoFormat)
    }

    /// Appends the byte form of a frame of this endpoint, or of its peer, to `bytes`.
    ///
    /// # Errors
    /// If the frame has no byte form.
    pub fn encode(&self, frame: &Frame<Vec<u8>>, bytes: &mut Vec<u8>) -> Result<(), BytesError> {
        dispatch!(self, endpoint => endpoint.encode(frame, bytes))
    }

    /// Reads one frame that has come from the peer; any bytes are a frame or an error.
    ///
    /// # Errors
    /// If no frame has these bytes.
    pub fn decode(&self, bytes: &[u8]) -> Result<Frame<Vec<u8>>, BytesError> {
        dispatch!(self, endpoint => endpoint.decode(bytes))
    }
}

/// What is called for every frame and does little is always inlined: with so many protocols the
/// compiler would rather make a function of the choice between them.
impl<P: CarriesFrames> Endpoint<P> for LinkEndpoint<P> {
    type Control = FrameKind;

    #[inline(always)]
    fn wants_packet(&self) -> bool {
        dispatch!(self, endpoint => endpoint.wants_packet())
    }

    #[inline]
    fn enqueue(&mut self, now: Instant, packet: P) {
        dispatch!(self, endpoint => endpoint.enqueue(now, packet))
    }

    #[inline]
    fn poll_transmit(&mut self, now: Instant) -> Option<Frame<P>> {
        dispatch!(self, endpoint => endpoint.poll_transmit(now))
    }

    #[inline(always)]
    fn has_frame(&self) -> bool {
        dispatch!(self, endpoint => endpoint.has_frame())
    }

    #[inline]
    fn receive(&mut self, now: Instant, frame: Frame<P>) {
        dispatch!(self, endpoint => endpoint.receive(now, frame))
    }

    #[inline(always)]
    fn poll_deliver(&mut self) -> Option<P> {
        dispatch!(self, endpoint => endpoint.poll_deliver())
    }

    #[inline(always)]
    fn poll_event(&mut self) -> Option<LinkEvent> {
        dispatch!(self, endpoint => endpoint.poll_event())
    }

    #[inline(always)]
    fn next_timeout(&self) -> Instant {
        dispatch!(self, endpoint => endpoint.next_timeout())
    }

    #[inline]
    fn handle_timeout(&mut self, now: Instant) {
        dispatch!(self, endpoint => endpoint.handle_timeout(now))
    }

    #[inline]
    fn counters(&self) -> LinkCounters {
        dispatch!(self, endpoint => endpoint.counters())
    }

    #[inline]
    fn receive_damaged(&mut self, now: Instant, frame: Frame<P>) {
        dispatch!(self, endpoint => endpoint.receive_damaged(now, frame))
    }

    #[inline(always)]
    fn wants_damaged(&self) -> bool {
        dispatch!(self, endpoint => endpoint.wants_damaged())
    }

    fn receive_header(&mut self, now: Instant, frame: Frame<P>) -> Option<P> {
        dispatch!(self, endpoint => endpoint.receive_header(now, frame))
    }

    fn wants_headers(&self) -> bool {
        dispatch!(self, endpoint => endpoint.wants_headers())
    }

    #[inline]
    fn poll_free(&mut self, now: Instant) -> Option<Frame<P>> {
        dispatch!(self, endpoint => endpoint.poll_free(now))
    }

    fn sends_free(&self) -> bool {
        dispatch!(self, endpoint => endpoint.sends_free())
    }

    fn limit_transmissions(&mut self, limit: Option<u32>) {
        dispatch!(self, endpoint => endpoint.limit_transmissions(limit))
    }

    #[inline]
    fn poll_frame(&mut self, now: Instant, packet: impl FnOnce() -> Option<P>) -> Option<Frame<P>> {
        dispatch!(self, endpoint => endpoint.poll_frame(now, packet))
    }

    #[inline]
    fn next_poll(&self, free_at: Instant, has_packets: bool) -> Instant {
        dispatch!(self, endpoint => endpoint.next_poll(free_at, has_packets))
    }

    #[inline(always)]
    fn turn<Q: Port<P>>(&mut self, now: Instant, port: &mut Q) -> Option<Instant> {
        dispatch!(self, endpoint => endpoint.turn(now, port))
    }

    #[inline(always)]
    fn accept(&mut self, now: Instant, frame: &mut Frame<P>) -> bool {
        dispatch!(self, endpoint => endpoint.accept(now, frame))
    }

    #[inline]
    fn next_poll_while_busy(&self, free_at: Instant, has_packets: bool) -> Instant {
        dispatch!(self, endpoint => endpoint.next_poll_while_busy(free_at, has_packets))
    }

    fn keep_fates(&mut self) {
        dispatch!(self, endpoint => endpoint.keep_fates());
    }

    fn poll_fate(&mut self) -> Option<(LinkFate, P)> {
        dispatch!(self, endpoint => endpoint.poll_fate())
    }

    fn sleeps_while_busy(&self) -> bool {
        dispatch!(self, endpoint => endpoint.sleeps_while_busy())
    }

    fn counts_packets(&self) -> bool {
        dispatch!(self, endpoint => endpoint.counts_packets())
    }

    fn retransmission_timeout(&self) -> Option<Duration> {
        dispatch!(self, endpoint => endpoint.retransmission_timeout())
    }

    fn window(&self) -> Option<u32> {
        dispatch!(self, endpoint => endpoint.window())
    }

    #[inline]
    fn drop_events(&mut self) {
        dispatch!(self, endpoint => endpoint.drop_events());
    }
}
