//! Agents: sans-IO state machines at one end of a link that inspect the packets crossing it.
//!
//! # Contract
//!
//! All calls carry `now`, which never decreases. The driver is at the interface:
//!
//! - A packet that is about to enter the interface queue is passed to [`Agent::down`], a packet received
//!   over the link to [`Agent::up`] before it is forwarded. The agent may change it; the [`Verdict`]
//!   determines whether it is forwarded. After either call the driver drains
//!   [`Agent::poll_down`] and [`Agent::poll_up`] and sends those packets after the packet of
//!   the call.
//! - A packet received with errors and a readable header is passed to [`Agent::up_damaged`] instead of
//!   [`Agent::up`].
//! - Several agents form a stack: packets sent over the link pass through them in order, received packets in
//!   reverse order. Packets of an agent pass through the remaining agents in their direction.
//! - An agent with [`Agent::wants_link_reports`] receives the reports of the link layer on each packet that was sent
//!   here ([`Agent::on_link`]): the retransmission has begun, the packet was acknowledged, or it was
//!   discarded. The driver drains both queues afterwards.
//! - An agent may derive a packet from one of the opposite direction, such as a notification of its sender
//!   ([`Segment::notice`]); the driver reverses its path.
//! - At [`Agent::next_timeout`] the driver calls [`Agent::handle_timeout`] and drains both queues. The deadline
//!   may be too early, but never too late. An early or repeated call changes only the deadline.
//! - Events are stored until they are drained with [`Agent::poll_event`].
//!
//! A packet must provide its TCP header ([`Segment`]). The driver determines the connection of a packet, as a
//! small number: the simulator from the packet's path, a live driver from a table of addresses and
//! ports. Agents ignore packets other than TCP.

mod bytes;
mod cache;
mod family;
mod snoop_ns2;

pub use adaptive_persistence::{
    AdaptivePersistence, ControlledPackets, Inversion, PersistenceController,
    PersistenceParameters, UpdateInterval,
};
pub use bytes::tcp_of;
pub use family::{AgentSite, Refusal};
pub use lasthop_base::packet::DeliveryReport;
pub use snoop::{Quirks, Snoop, SnoopParameters};

// The list of agents: the module of each, and its keys, which determine its `kind` in scenarios.
agents! {
    snoop: Snoop(SnoopKeys);
    adaptive_persistence: AdaptivePersistence(AdaptivePersistenceKeys);
    ll_elsn: LlElsn(LlElsnKeys);
    balakrishnan_eln: BalakrishnanEln(BalakrishnanElnKeys);
    split_connection: SplitConnection(SplitConnectionKeys);
    reorder: Reorder(ReorderKeys);
}

use family::{AgentKeys, agents};
use lasthop_analysis::AnalysisError;
use lasthop_base::packet::{Descriptor, Extension, Header, TcpHeader, flags};
use lasthop_base::schema::keys::kinds;
use lasthop_base::schema::metrics::{Metric, Report};
use lasthop_base::units::Instant;
use std::borrow::Borrow;

/// Fields of a TCP segment that agents use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SegmentView {
    /// Sequence number of the first byte (or of the SYN or FIN).
    pub seq: u32,
    /// Length in sequence numbers: payload bytes, SYN and FIN one each; 0 for a pure ACK.
    pub length: u32,
    /// Number of payload bytes.
    pub payload: u32,
    /// Cumulative acknowledgment, if any.
    pub ack: Option<u32>,
    /// Advertised window.
    pub window: u32,
    /// Whether the segment opens a connection.
    pub syn: bool,
    /// Number of the connection instance, increasing; 0 if new instances are detected by their SYN
    /// only.
    pub incarnation: u32,
}

/// A packet that provides its TCP header.
pub trait Segment {
    /// Returns the header fields; `None` if the packet is not a TCP segment.
    fn segment(&self) -> Option<SegmentView>;

    /// Sets the advertised window, without scaling. Has no effect on packets other than TCP.
    fn set_window(&mut self, window: u32);

    /// Returns a notification of this segment's sender; `None` if the packet is not a TCP segment.
    /// It has the format and the length of a pure ACK.
    fn notice(&self, notice: Notice) -> Option<Self>
    where
        Self: Sized;

    /// Returns the complete header, if available.
    fn header(&self) -> Option<TcpHeader> {
        None
    }

    /// Returns a segment of the same connection with this header and a length of `bytes`; `None`
    /// for real bytes.
    fn with_header(&self, _bytes: u32, _header: &TcpHeader) -> Option<Self>
    where
        Self: Sized,
    {
        None
    }

    /// Marks an ACK: the segment that it requests was lost on a link. Has no effect on packets
    /// other than TCP.
    fn mark_loss(&mut self);
}

/// Subject of a notification of a TCP sender (Yun 2009, section 3.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Notice {
    /// Explicit retransmission start notification (ERSN): the first attempt on a link failed.
    RetransmissionStarted,
    /// Explicit loss notification (ELN): a link has discarded the segment.
    Loss,
}

impl Notice {
    /// Returns its bit, see [`flags::NOTICE`].
    pub const fn bit(self) -> u8 {
        match self {
            Notice::RetransmissionStarted => flags::ERSN,
            Notice::Loss => flags::ELN,
        }
    }
}

/// Length of a notification in bytes: that of a pure ACK without options.
pub const NOTICE_BYTES: u32 = 40;

/// Returns `true` if the flags mark a notification, which does not acknowledge data.
const fn is_notice(bits: u8) -> bool {
    matches!(bits & flags::NOTICE, flags::ERSN | flags::ELN)
}

impl<X: Extension> Segment for Descriptor<X> {
    #[inline]
    fn segment(&self) -> Option<SegmentView> {
        let Header { seq, ack, payload, window, flags: bits, .. } = self.tcp;
        let control = bits & (flags::SYN | flags::FIN) != 0;
        Some(SegmentView {
            seq,
            length: payload + u32::from(control),
            payload,
            ack: (bits & flags::ACK != 0 && (payload > 0 || !is_notice(bits))).then_some(ack),
            window,
            syn: bits & flags::SYN != 0,
            // In the upper bits, so that differences wrap like 32-bit differences.
            incarnation: self.incarnation << 8,
        })
    }

    #[inline]
    fn set_window(&mut self, window: u32) {
        self.tcp.window = window;
    }

    fn notice(&self, notice: Notice) -> Option<Self> {
        let flags = flags::ACK | notice.bit();
        let tcp = Header { ack: self.tcp.seq, flags, ..Header::default() };
        let incarnation = self.plain_incarnation();
        Some(Descriptor { bytes: NOTICE_BYTES, incarnation, tcp, ..*self })
    }

    fn header(&self) -> Option<TcpHeader> {
        Some(*self.tcp.full().borrow())
    }

    fn with_header(&self, bytes: u32, header: &TcpHeader) -> Option<Self> {
        let incarnation = self.plain_incarnation();
        Some(Descriptor { bytes, incarnation, tcp: X::narrow(header), ..*self })
    }

    fn mark_loss(&mut self) {
        self.tcp.flags |= flags::NOTICE;
    }
}

/// Treatment of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Verdict {
    /// The packet is forwarded.
    Forward,
    /// The packet is dropped here: the agent has discarded it, or keeps a copy to send later.
    Suppress,
}

/// Event for probes. Numbers are those on the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AgentEvent {
    /// A cached packet was retransmitted.
    LocalRetransmission {
        /// Sequence number of its first byte.
        sequence: u32,
    },
    /// A local retransmission timer expired.
    LocalTimeout {
        /// Sequence number of the first missing byte.
        sequence: u32,
    },
    /// A duplicate ACK was suppressed.
    SuppressedAck {
        /// Acknowledgment number.
        ack: u32,
    },
    /// A sender is notified about one of its segments.
    Notified {
        /// Subject of the notification.
        notice: Notice,
        /// Sequence number of the segment's first byte.
        sequence: u32,
    },
    /// An ACK was marked: the segment that it requests was lost on the link.
    MarkedAck {
        /// Acknowledgment number.
        ack: u32,
    },
}

/// Counters of an agent that repairs losses, which are always enabled.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AgentCounters {
    /// Packets stored in the cache.
    pub cached: u64,
    /// Packets retransmitted from the cache.
    pub local_retransmissions: u64,
    /// Expiries of a local retransmission timer that caused a retransmission.
    pub local_timeouts: u64,
    /// Duplicate ACKs suppressed.
    pub suppressed_acks: u64,
}

/// Numbers of packets, and of lost packets among them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Batch {
    /// Number of packets.
    pub packets: u64,
    /// Number of lost packets.
    pub lost: u64,
}

/// Circumstances of a packet that is about to enter the interface queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Crossing {
    /// Connection of the packet; `None` if it is not a TCP segment.
    pub connection: Option<usize>,
    /// Whether the interface queue has room for another packet of this size afterwards.
    pub has_room: bool,
}

/// A state machine at an interface that inspects packets of type `P`. Agents implement the methods
/// that they need; the defaults have no effect.
pub trait Agent<P: Segment> {
    /// Processes a packet that is about to enter the interface queue; may change it.
    fn down(&mut self, _now: Instant, _crossing: Crossing, _packet: &mut P) -> Verdict {
        Verdict::Forward
    }

    /// Processes a packet received over the link; may change it. `connection` is `None` if it is
    /// not a TCP segment.
    fn up(&mut self, _now: Instant, _connection: Option<usize>, _packet: &mut P) -> Verdict {
        Verdict::Forward
    }

    /// Processes a packet received over the link with errors and a readable header. The agent may
    /// send packets in response. A packet with further hops is dropped, regardless of the verdict.
    fn up_damaged(&mut self, _now: Instant, _connection: Option<usize>, _packet: &P) -> Verdict {
        Verdict::Forward
    }

    /// Returns `true` if the agent inspects packets without a connection.
    fn watches_all(&self) -> bool {
        false
    }

    /// Returns `true` if the agent inspects packets that enter the interface queue. Otherwise
    /// [`Self::down`] forwards them unchanged, and need not be called.
    fn inspects_sent(&self) -> bool {
        true
    }

    /// Returns `true` if the agent inspects packets received over the link.
    fn inspects_received(&self) -> bool {
        true
    }

    /// Returns `true` if the agent needs reports on the outcome of packets on the link.
    fn wants_link_reports(&self) -> bool {
        false
    }

    /// Processes a report of the link layer on a packet sent here.
    fn on_link(
        &mut self,
        _now: Instant,
        _connection: Option<usize>,
        _fate: DeliveryReport,
        _packet: &P,
    ) {
    }

    /// Returns the next packet of the agent to be sent over the link.
    fn poll_down(&mut self) -> Option<P> {
        None
    }

    /// Returns the next packet of the agent to be forwarded as if it had been received over the
    /// link.
    fn poll_up(&mut self) -> Option<P> {
        None
    }

    /// Returns the next event for probes.
    fn poll_event(&mut self) -> Option<AgentEvent> {
        None
    }

    /// Returns the earliest deadline or an earlier time, [`Instant::NEVER`] without a deadline.
    fn next_timeout(&self) -> Instant {
        Instant::NEVER
    }

    /// Processes the deadline if it is due.
    fn handle_timeout(&mut self, _now: Instant) {}

    /// Returns `true` if [`Self::on_losses`] is due.
    fn wants_losses(&self) -> bool {
        false
    }

    /// Receives counters since the start of the run: first transmissions of the segments of its TCP
    /// senders, and segments declared lost; packets that the link has finished, and packets that it
    /// discarded.
    fn on_losses(&mut self, _end_to_end: Batch, _link: Batch) {}

    /// Returns the maximum number of transmissions per packet for the link's endpoint; `None`:
    /// unchanged. Called at the start and after [`Self::on_losses`].
    fn transmission_limit(&self) -> Option<u32> {
        None
    }

    /// Reports the metrics: `AgentKeys::METRICS`.
    fn metrics(&self, _report: &mut Report<'_>) {}
}
