//! Link-layer endpoints: sans-IO state machines, one per end of a link.
//!
//! # Contract
//!
//! Every call receives the current time `now`, which never decreases. The driver owns the interface
//! queue and the transmitter:
//!
//! - When the transmitter is idle and [`Endpoint::wants_packet`] returns `true`, the driver passes
//!   the head of the queue, if any, to [`Endpoint::enqueue`]. It then calls
//!   [`Endpoint::poll_transmit`] and transmits the returned frame, if any, starting at `now`.
//! - The driver passes a frame received without errors to [`Endpoint::receive`] of the peer. It
//!   then drains [`Endpoint::poll_deliver`] and [`Endpoint::poll_event`], and polls the transmitter
//!   if idle.
//! - At [`Endpoint::next_timeout`] the driver calls [`Endpoint::handle_timeout`]. An early or
//!   repeated call has no effect. It then drains [`Endpoint::poll_deliver`]: packets held for a
//!   frame that is now discarded may have become deliverable.
//! - An endpoint with internal queues ([`Services`]) wants packets at any time. The driver passes
//!   each packet to it on arrival, together with its service.
//! - A frame of length 0 is ideal feedback: its transmission takes no time, and it is never lost.
//!   Endpoints that use such frames may also process frames received with errors
//!   ([`Endpoint::ideal_feedback`]).
//! - A frame received with errors is lost, unless its header is readable and the endpoint processes
//!   such frames ([`Endpoint::damaged_headers`]).
//! - After [`ReportsDelivery::enable`], the driver also drains the delivery reports of packets
//!   ([`Endpoint::delivery_reports`]).
//! - The driver stores the frame number in each received packet ([`Payload::keep_frame`]). An
//!   endpoint that decodes a lost packet from parity stores the number of the lost frame.
//! - [`Endpoint::poll_transmit`] and [`Endpoint::handle_timeout`] also generate events. Events are
//!   buffered until they are drained.

mod bytes;
mod delivery_reports;
mod error;
mod events;
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
pub use delivery_reports::ReportsDelivery;
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

use lasthop_base::packet::Payload;
use lasthop_base::schema::keys::{Read, choice, kinds};
use lasthop_base::units::{Bytes, Duration, Instant};
use protocol::{ProtocolKeys, link_protocols};

choice! {
    /// How acknowledgments are sent.
    pub enum Acknowledgment {
        /// In the header of a data frame if one is waiting, otherwise in a control frame.
        Piggyback = "piggybacked",
        /// Always in a control frame.
        StandAlone = "stand-alone",
    }
}

/// A driver as seen by an endpoint: the packet queue and the transmitter.
pub trait Port<P> {
    /// Whether an observer is attached to the endpoint's events. If not, events are dropped.
    const LISTENS: bool;

    /// Returns the time at which the current transmission ends.
    fn free_at(&self) -> Instant;
    /// Returns `true` if a packet is queued.
    fn has_packet(&self) -> bool;
    /// Moves the first queued packet to `place`. Returns `false` if the queue is empty.
    fn take_packet_into(&mut self, place: &mut Option<P>) -> bool;
    /// Removes and returns the first queued packet.
    #[inline(always)]
    fn take_packet(&mut self) -> Option<P> {
        let mut packet = None;
        self.take_packet_into(&mut packet);
        packet
    }
    /// Transmits the frame of `writer`, if any, starting at `now`. Call only when the transmitter
    /// is idle.
    fn transmit<W: Writer<P>>(&mut self, now: Instant, writer: W);
}

/// Writes the next frame of an endpoint.
pub trait Writer<P> {
    /// See [`Endpoint::CODES_UNITS`].
    const CODES_UNITS: bool = false;

    /// Writes the next frame to `frame`, which still holds an earlier one. Returns `false` if no
    /// frame is ready.
    fn write(self, now: Instant, frame: &mut Frame<P>) -> bool;
}

impl<P: Payload, E: Endpoint<P>> Writer<P> for &mut E {
    const CODES_UNITS: bool = E::CODES_UNITS;

    #[inline(always)]
    fn write(self, now: Instant, frame: &mut Frame<P>) -> bool {
        self.write_next(now, frame)
    }
}

/// Ideal feedback of a protocol: its transmission takes no time and is never lost.
pub trait IdealFeedback<P> {
    /// Processes a frame received with errors whose identity is nevertheless known. A real receiver
    /// cannot identify the frame.
    fn receive_damaged(&mut self, now: Instant, frame: Frame<P>);

    /// Returns the next frame of length 0. [`Endpoint::poll_transmit`] also returns such frames,
    /// before all others. A driver that transports them in another way drains them here first.
    fn poll_free(&mut self, now: Instant) -> Option<Frame<P>>;
}

/// Reader of frames received with payload errors but with a readable header.
pub trait ReadsDamagedHeaders<P> {
    /// Processes such a frame. Returns the packet if it is to be delivered with its errors, for
    /// agents and transports that read the headers of damaged packets.
    fn receive_header(&mut self, now: Instant, frame: Frame<P>) -> Option<P>;
}

/// One end of a link-layer protocol that carries packets of type `P`.
pub trait Endpoint<P: Payload> {
    /// The frame content other than packet, acknowledgment and length.
    type Control: Control;

    /// Whether packets are erasure-coded, so that the units of a frame can be lost individually.
    const CODES_UNITS: bool = false;

    /// Returns `true` if the endpoint would now send a new packet, if given one.
    fn wants_packet(&self) -> bool;
    /// Accepts a packet from the network layer. Call only if [`Self::wants_packet`] returns `true`.
    fn enqueue(&mut self, now: Instant, packet: P);
    /// Returns the next frame to send on an idle transmitter: control frames first, then
    /// retransmissions, then new data. The transmission starts at `now`.
    fn poll_transmit(&mut self, now: Instant) -> Option<Frame<P, Self::Control>>;
    /// Like [`Self::poll_transmit`], but writes the frame to `frame`, which still holds an earlier
    /// one. Returns `false` if no frame is ready.
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
    /// Returns `true` if [`Self::poll_transmit`] would return a frame, or must be called once more
    /// to end a busy period. A driver need not poll an idle transmitter otherwise.
    fn has_frame(&self) -> bool;
    /// Processes a frame received without errors.
    fn receive(&mut self, now: Instant, frame: Frame<P, Self::Control>);
    /// Returns the next packet to deliver to the network layer.
    fn poll_deliver(&mut self) -> Option<P>;
    /// Returns the next event for agents and probes.
    fn poll_event(&mut self) -> Option<LinkEvent>;
    /// Returns the earliest deadline of all timers, [`Instant::NEVER`] if none is running.
    fn next_timeout(&self) -> Instant;
    /// Handles all timers that have expired at `now`.
    fn handle_timeout(&mut self, now: Instant);
    /// Returns the counters since the start.
    fn counters(&self) -> LinkCounters;

    /// Returns the ideal feedback, which no real protocol has.
    fn ideal_feedback(&mut self) -> Option<&mut dyn IdealFeedback<P>> {
        None
    }

    /// Returns the reader of frames with payload errors and a readable header. By default such
    /// frames are lost. Protocols with [`Self::ideal_feedback`] have no such reader.
    fn damaged_headers(&mut self) -> Option<&mut dyn ReadsDamagedHeaders<P>> {
        None
    }

    /// Returns the delivery reports, for protocols whose sender receives feedback.
    fn delivery_reports(&mut self) -> Option<&mut dyn ReportsDelivery<P>> {
        None
    }

    /// Sets the maximum number of transmissions per frame from now on; `None` means no limit.
    /// Ignored by protocols without such a limit.
    fn limit_transmissions(&mut self, _limit: Option<u32>) {}

    /// Services an idle transmitter in one dispatch instead of three: enqueues `packet` if the
    /// endpoint wants one, and polls.
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

    /// Returns the time at which the driver must next service the endpoint. The transmitter becomes
    /// idle at `free_at`; `has_packets` specifies whether packets are queued.
    #[inline(always)]
    fn next_poll(&self, free_at: Instant, has_packets: bool) -> Instant {
        let has_frame = self.has_frame() || has_packets && self.wants_packet();
        let timeout = self.next_timeout();
        if has_frame { timeout.min(free_at) } else { timeout }
    }

    /// Like [`Self::next_poll`], while a transmission is in progress until `free_at`. By default
    /// the endpoint is polled when that transmission ends.
    #[inline]
    fn next_poll_while_busy(&self, free_at: Instant, _has_packets: bool) -> Instant {
        self.next_timeout().min(free_at)
    }

    /// Returns `true` if [`Self::next_poll_while_busy`] and [`Self::next_poll`] return the same
    /// time and received frames never advance a timer. A driver that has computed this time, or
    /// will poll when the transmitter becomes idle, then need not compute it again.
    fn needs_no_poll_while_busy(&self) -> bool {
        false
    }

    /// Services the endpoint in one dispatch: sends the next frame, if any, if the transmitter is
    /// idle. Returns the time of the next service, or `None` if a timer has expired, which must be
    /// handled first.
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

    /// Enqueues the first packet of the port, if any. Call only if [`Self::wants_packet`] returns
    /// `true`.
    #[inline(always)]
    fn load<Q: Port<P>>(&mut self, now: Instant, port: &mut Q) {
        if let Some(packet) = port.take_packet() {
            self.enqueue(now, packet);
        }
    }

    /// Processes a frame received without errors in one dispatch instead of three. Replaces the
    /// payload of `frame` by the first deliverable packet, if any, usually the same packet. Returns
    /// `true` if more packets may be deliverable.
    #[inline]
    fn accept(&mut self, now: Instant, frame: &mut Frame<P>) -> bool {
        if let Some(frame) = Frame::from_air(frame.take()) {
            self.receive(now, frame);
        }
        frame.payload = self.poll_deliver();
        true
    }

    /// Returns `true` if [`Self::accept`] of `frame` would deliver the packet of this frame and no
    /// other, and if [`Self::send_next`] could then be called. A driver that holds the frame in
    /// advance can compute the response in advance. By default nothing is computed.
    #[inline(always)]
    fn takes_next(&self, _frame: &Frame<P>) -> bool {
        false
    }

    /// Sends `packet`, which [`Self::takes_next`] has permitted, in `frame` on an idle transmitter.
    /// Equivalent to [`Self::enqueue`], [`Self::write_next`] and [`Self::next_poll`] without other
    /// packets.
    #[inline(always)]
    fn send_next(&mut self, now: Instant, packet: &P, frame: &mut Frame<P>) -> Instant
    where
        P: Clone,
    {
        self.enqueue(now, packet.clone());
        self.write_next(now, frame);
        self.next_timeout()
    }

    /// Returns `true` if packets are segmented, so that packets are counted in addition to frames.
    fn counts_packets(&self) -> bool {
        false
    }

    /// Returns the retransmission timeout, for protocols with one timeout for all frames.
    fn retransmission_timeout(&self) -> Option<Duration> {
        None
    }

    /// Returns the maximum number of outstanding frames, for protocols with a window of frames.
    fn window(&self) -> Option<u32> {
        None
    }

    /// Drops events if no observer is attached.
    #[inline]
    fn drop_events(&mut self) {
        while self.poll_event().is_some() {}
    }
}

// The link protocols: module, variant and keys of each. The `kind` in scenarios is that of the
// keys.
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
    /// Returns `true` if the frames have a byte form.
    pub fn has_byte_form(&self) -> bool {
        // Any bytes are decoded as a frame or as an error other than `NoFormat`.
        self.decode(&[]) != Err(BytesError::NoFormat)
    }

    /// Appends the byte form of a frame of this endpoint or its peer to `bytes`.
    ///
    /// # Errors
    /// Returns an error if the frame has no byte form.
    pub fn encode(&self, frame: &Frame<Vec<u8>>, bytes: &mut Vec<u8>) -> Result<(), BytesError> {
        dispatch!(self, endpoint => endpoint.encode(frame, bytes))
    }

    /// Decodes one frame received from the peer. Any bytes yield a frame or an error.
    ///
    /// # Errors
    /// Returns an error if the bytes are not a valid frame.
    pub fn decode(&self, bytes: &[u8]) -> Result<Frame<Vec<u8>>, BytesError> {
        dispatch!(self, endpoint => endpoint.decode(bytes))
    }

    /// Like [`Self::encode`], for a frame that is no longer needed. A raw link copies nothing.
    ///
    /// # Errors
    /// Returns an error if the frame has no byte form.
    pub fn encode_owned(&self, frame: Frame<Vec<u8>>) -> Result<Vec<u8>, BytesError> {
        dispatch!(self, endpoint => endpoint.encode_owned(frame))
    }

    /// Like [`Self::decode`], for bytes that are no longer needed. A raw link copies nothing.
    ///
    /// # Errors
    /// Returns an error if the bytes are not a valid frame.
    pub fn decode_owned(&self, bytes: Vec<u8>) -> Result<Frame<Vec<u8>>, BytesError> {
        dispatch!(self, endpoint => endpoint.decode_owned(bytes))
    }
}

/// Short methods called for every frame are always inlined: with many protocols, the compiler would
/// otherwise emit a call for the match on the protocol.
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
        dispatch!(self, endpoint => endpoint.poll_transmit(now).map(Frame::on_air))
    }

    #[inline(always)]
    fn has_frame(&self) -> bool {
        dispatch!(self, endpoint => endpoint.has_frame())
    }

    #[inline]
    fn receive(&mut self, now: Instant, frame: Frame<P>) {
        dispatch!(self, endpoint => if let Some(frame) = Frame::from_air(frame) {
            endpoint.receive(now, frame);
        })
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

    fn ideal_feedback(&mut self) -> Option<&mut dyn IdealFeedback<P>> {
        dispatch!(self, endpoint => endpoint.ideal_feedback())
    }

    fn damaged_headers(&mut self) -> Option<&mut dyn ReadsDamagedHeaders<P>> {
        dispatch!(self, endpoint => endpoint.damaged_headers())
    }

    fn delivery_reports(&mut self) -> Option<&mut dyn ReportsDelivery<P>> {
        dispatch!(self, endpoint => endpoint.delivery_reports())
    }

    fn limit_transmissions(&mut self, limit: Option<u32>) {
        dispatch!(self, endpoint => endpoint.limit_transmissions(limit))
    }

    #[inline]
    fn poll_frame(&mut self, now: Instant, packet: impl FnOnce() -> Option<P>) -> Option<Frame<P>> {
        dispatch!(self, endpoint => endpoint.poll_frame(now, packet).map(Frame::on_air))
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

    #[inline(always)]
    fn takes_next(&self, frame: &Frame<P>) -> bool {
        dispatch!(self, endpoint => endpoint.takes_next(frame))
    }

    #[inline(always)]
    fn send_next(&mut self, now: Instant, packet: &P, frame: &mut Frame<P>) -> Instant
    where
        P: Clone,
    {
        dispatch!(self, endpoint => endpoint.send_next(now, packet, frame))
    }

    #[inline]
    fn next_poll_while_busy(&self, free_at: Instant, has_packets: bool) -> Instant {
        dispatch!(self, endpoint => endpoint.next_poll_while_busy(free_at, has_packets))
    }

    fn needs_no_poll_while_busy(&self) -> bool {
        dispatch!(self, endpoint => endpoint.needs_no_poll_while_busy())
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
