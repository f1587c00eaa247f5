//! Link-layer endpoints: sans-IO state machines, one per end of a link.
//!
//! # Contract
//!
//! [`Endpoint`] is the protocol, [`Abilities`] are optional, and [`Driven`] combines the calls of a
//! driver. Every call receives the current time `now`, which never decreases. The driver owns the
//! interface queue and the transmitter:
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
//!   ([`Abilities::ideal_feedback`]).
//! - A frame received with errors is lost, unless its header is readable and the endpoint processes
//!   such frames ([`Abilities::damaged_headers`]).
//! - After [`ReportsDelivery::enable`], the driver also drains the delivery reports of packets
//!   ([`Abilities::delivery_reports`]).
//! - The driver stores the frame number in each received packet ([`Payload::keep_frame`]). An
//!   endpoint that decodes a lost packet from parity stores the number of the lost frame.
//! - [`Endpoint::poll_transmit`] and [`Endpoint::handle_timeout`] also generate events. Events are
//!   buffered until they are drained.

mod abilities;
mod bytes;
mod delivery_reports;
mod driven;
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

pub use abilities::{Abilities, IdealFeedback, ReadsDamagedHeaders};
pub(crate) use bytes::ByteFormat;
pub use bytes::BytesError;
pub use delivery_reports::ReportsDelivery;
pub use driven::{Driven, Port, Writer};
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
pub use selective_repeat::{
    InOrder, Renack, SelectiveRepeat, SelectiveRepeatParameters, TimerMode,
};
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

/// One end of a link-layer protocol that carries packets of type `P`.
pub trait Endpoint<P: Payload> {
    /// The frame content other than packet, acknowledgment and length.
    type Control: Control;

    /// Returns `true` if the endpoint would now send a new packet, if given one.
    fn wants_packet(&self) -> bool;
    /// Accepts a packet from the network layer. Call only if [`Self::wants_packet`] returns `true`.
    fn enqueue(&mut self, now: Instant, packet: P);
    /// Returns the next frame to send on an idle transmitter: control frames first, then
    /// retransmissions, then new data. The transmission starts at `now`.
    fn poll_transmit(&mut self, now: Instant) -> Option<Frame<P, Self::Control>>;
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

    #[inline]
    fn drop_events(&mut self) {
        dispatch!(self, endpoint => endpoint.drop_events());
    }
}

impl<P: CarriesFrames> Abilities<P> for LinkEndpoint<P> {
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

    fn counts_packets(&self) -> bool {
        dispatch!(self, endpoint => endpoint.counts_packets())
    }

    fn retransmission_timeout(&self) -> Option<Duration> {
        dispatch!(self, endpoint => endpoint.retransmission_timeout())
    }

    fn window(&self) -> Option<u32> {
        dispatch!(self, endpoint => endpoint.window())
    }
}

/// Inlined like the methods of [`Endpoint`].
impl<P: CarriesFrames> Driven<P> for LinkEndpoint<P> {
    #[inline]
    fn write_frame(
        &mut self,
        now: Instant,
        packet: impl FnOnce() -> Option<P>,
        frame: &mut Frame<P>,
    ) -> bool {
        dispatch!(self, endpoint => endpoint.write_frame(now, packet, frame))
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

    fn takes_frames(&self) -> bool {
        dispatch!(self, endpoint => endpoint.takes_frames())
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
}
