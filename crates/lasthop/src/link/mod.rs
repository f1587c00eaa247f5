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
//!   changes nothing.

use crate::packet::Payload;
use crate::units::Instant;

/// What crosses the air.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frame<P> {
    /// What the frame is.
    pub kind: FrameKind,
    /// Cumulative acknowledgment for the opposite direction: the next sequence number expected.
    pub ack: Option<u64>,
    /// The packet carried; `None` in control frames.
    pub payload: Option<P>,
    /// Length on the air in bytes: link header plus packet.
    pub bytes: u32,
}

/// Kinds of frame. Sequence numbers are unwrapped; the wire format carries them modulo 256.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FrameKind {
    /// A packet with its sequence number.
    Data {
        /// Sequence number, from 0.
        sequence: u64,
    },
    /// Stand-alone cumulative acknowledgment (in [`Frame::ack`]).
    Ack,
    /// Negative acknowledgment: this frame is missing.
    Nack {
        /// Sequence number of the missing frame.
        sequence: u64,
    },
}

/// What cross-layer agents and probes listen to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LinkEvent {
    /// A frame was sent again.
    Retransmitted {
        /// Sequence number of the frame.
        sequence: u64,
    },
    /// The retransmission timer of a frame fired.
    TimedOut {
        /// Sequence number of the frame.
        sequence: u64,
    },
    /// A missing frame was reported to the peer.
    NackSent {
        /// Sequence number of the missing frame.
        sequence: u64,
    },
    /// The sender gave a frame up.
    Abandoned {
        /// Sequence number of the frame.
        sequence: u64,
    },
}

/// Always-on counters of one endpoint.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LinkCounters {
    /// Data frames sent for the first time.
    pub data_frames: u64,
    /// Data frames sent again.
    pub retransmissions: u64,
    /// Stand-alone acknowledgments sent.
    pub acks: u64,
    /// Negative acknowledgments sent.
    pub nacks: u64,
    /// Expiries of a retransmission timer.
    pub timeouts: u64,
    /// Data frames received that had been received before.
    pub duplicates: u64,
    /// Frames given up.
    pub abandoned: u64,
}

/// One end of a link-layer protocol that carries packets of type `P`.
pub trait Endpoint<P: Payload> {
    /// Would the next transmission be a new packet, had the endpoint one?
    fn wants_packet(&self) -> bool;
    /// The network layer hands a packet down. Call only when [`Self::wants_packet`].
    fn enqueue(&mut self, now: Instant, packet: P);
    /// The transmitter is idle: the next frame, control frames first, then retransmissions, then
    /// new data. Its transmission starts at `now`.
    fn poll_transmit(&mut self, now: Instant) -> Option<Frame<P>>;
    /// A frame came in undamaged.
    fn receive(&mut self, now: Instant, frame: Frame<P>);
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
}
