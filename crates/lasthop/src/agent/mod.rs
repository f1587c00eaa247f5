//! Agents: sans-IO machines that sit at one end of a link and look into the packets that cross it.
//!
//! # Contract
//!
//! All calls carry `now`, which never decreases. The driver sits at the interface:
//!
//! - a packet that is about to enter the interface queue goes through [`Agent::down`], one that
//!   came over the link through [`Agent::up`] before it is forwarded; the [`Verdict`] decides
//!   whether it goes on. After either call the driver drains [`Agent::poll_down`] and puts those
//!   packets into the interface queue, behind the packet of the call;
//! - at [`Agent::next_timeout`] it calls [`Agent::handle_timeout`] and drains
//!   [`Agent::poll_down`]; the deadline may be too early, never too late, and an early or repeated
//!   call changes nothing but the deadline;
//! - events wait, in memory, until they are drained with [`Agent::poll_event`].
//!
//! A packet must show its TCP header ([`Segment`]). *Which* connection it belongs to is the
//! driver's to say, as a small number: a simulator knows it from the packet's path, a live driver
//! from a table of addresses and ports. Packets that are not TCP do not concern an agent.

mod bytes;
mod cache;
mod persistence;
mod snoop;
mod snoop_ns2;

pub use persistence::{AdaptivePersistence, Batch, Inversion, PersistenceParameters};
pub use snoop::{Quirks, Snoop, SnoopParameters};

use crate::packet::{Packet, TcpHeader, flags};
use crate::units::Instant;

/// What an agent sees of a TCP segment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SegmentView {
    /// Number of the first byte (or of the SYN or FIN).
    pub seq: u32,
    /// Sequence space that it takes: payload bytes, SYN and FIN one each; 0 for a pure ACK.
    pub length: u32,
    /// Payload bytes.
    pub payload: u32,
    /// Cumulative acknowledgment, if it has one.
    pub ack: Option<u32>,
    /// Advertised window.
    pub window: u32,
    /// Does it open a connection?
    pub syn: bool,
    /// Incarnation of the connection, counted up; 0 where only the SYN tells.
    pub incarnation: u32,
}

/// A packet that shows its TCP header.
pub trait Segment {
    /// The header's fields; `None` if it is no TCP segment.
    fn segment(&self) -> Option<SegmentView>;
}

impl Segment for Packet {
    #[inline]
    fn segment(&self) -> Option<SegmentView> {
        let TcpHeader { seq, ack, payload, window, flags: bits, .. } = self.tcp;
        let control = bits & (flags::SYN | flags::FIN) != 0;
        Some(SegmentView {
            seq,
            length: payload + u32::from(control),
            payload,
            ack: (bits & flags::ACK != 0).then_some(ack),
            window,
            syn: bits & flags::SYN != 0,
            incarnation: self.incarnation,
        })
    }
}

/// What becomes of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Verdict {
    /// It goes on, unchanged.
    Forward,
    /// It goes no further.
    Suppress,
}

/// What probes listen to. Numbers are those on the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AgentEvent {
    /// A cached packet was sent again.
    LocalRetransmission {
        /// Number of its first byte.
        sequence: u32,
    },
    /// A local retransmission timer fired.
    LocalTimeout {
        /// Number of the first byte that is missing.
        sequence: u32,
    },
    /// A duplicate acknowledgment was held back.
    SuppressedAck {
        /// The acknowledgment.
        ack: u32,
    },
}

/// Always-on counters of one agent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AgentCounters {
    /// Packets put into the cache.
    pub cached: u64,
    /// Packets sent again from the cache.
    pub local_retransmissions: u64,
    /// Expiries of a local retransmission timer that led to a retransmission.
    pub local_timeouts: u64,
    /// Duplicate acknowledgments held back.
    pub suppressed_acks: u64,
}

/// A machine at an interface that looks into packets of type `P`.
pub trait Agent<P: Segment> {
    /// A packet of `connection` is about to enter the interface queue. `has_room`: the queue would
    /// take another one like it afterwards.
    fn down(&mut self, now: Instant, connection: usize, packet: &P, has_room: bool) -> Verdict;
    /// A packet of `connection` came over the link.
    fn up(&mut self, now: Instant, connection: usize, packet: &P) -> Verdict;
    /// The next packet that the agent itself puts into the interface queue.
    fn poll_down(&mut self) -> Option<P>;
    /// The next event for probes.
    fn poll_event(&mut self) -> Option<AgentEvent>;
    /// The one earliest deadline or a time before it, [`Instant::NEVER`] if there is none.
    fn next_timeout(&self) -> Instant;
    /// The deadline may have come.
    fn handle_timeout(&mut self, now: Instant);
    /// Counters since the start.
    fn counters(&self) -> AgentCounters;
}
