//! Agents: sans-IO machines that sit at one end of a link and look into the packets that cross it.
//!
//! # Contract
//!
//! All calls carry `now`, which never decreases. The driver sits at the interface:
//!
//! - a packet that is about to enter the interface queue goes through [`Agent::down`], one that
//!   came over the link through [`Agent::up`] before it is forwarded; the agent may edit it, and the
//!   [`Verdict`] decides whether it goes on. After either call the driver drains
//!   [`Agent::poll_down`] and [`Agent::poll_up`] and sends those packets on, behind the packet of
//!   the call;
//! - a packet that came over the link damaged, but whose header can be read, goes through [`Agent::up_damaged`]
//!   in place of [`Agent::up`];
//! - several agents stack: on the way down a packet meets them in their order, on the way up in the
//!   opposite one; what an agent sends itself meets those that are left on its way;
//! - an agent that [watches the link](Agent::watches_link) hears of each packet that went down here what
//!   the link layer knows of it ([`Agent::on_link`]): its retransmission began, it was acknowledged, it was
//!   given up; the driver drains both afterwards;
//! - what it sends either way may be made from a packet that went the other way, such as a notice to its sender
//!   ([`Segment::notice`]): the driver turns it around;
//! - at [`Agent::next_timeout`] it calls [`Agent::handle_timeout`] and drains both; the deadline may
//!   be too early, never too late, and an early or repeated call changes nothing but the deadline;
//! - events wait, in memory, until they are drained with [`Agent::poll_event`].
//!
//! A packet must show its TCP header ([`Segment`]). *Which* connection it belongs to is the
//! driver's to say, as a small number: a simulator knows it from the packet's path, a live driver
//! from a table of addresses and ports. Packets that are not TCP do not concern an agent.

mod bytes;
mod cache;
mod family;
mod snoop_ns2;

pub use adaptive_persistence::{
    AdaptivePersistence, Governed, Inversion, PersistenceController, PersistenceParameters,
    UpdateInterval,
};
pub use bytes::tcp_of;
pub use family::{AgentSite, Refusal};
pub use lasthop_base::packet::LinkFate;
pub use snoop::{Quirks, Snoop, SnoopParameters};

// The list of agents: the file of each, and the keys and so the `kind` that it has in scenarios.
agents! {
    snoop: Snoop(SnoopKeys);
    adaptive_persistence: AdaptivePersistence(AdaptivePersistenceKeys);
    ll_elsn: LlElsn(LlElsnKeys);
    balakrishnan_eln: BalakrishnanEln(BalakrishnanElnKeys);
    split_connection: SplitConnection(SplitConnectionKeys);
}

use family::{AgentKeys, agents};
use lasthop_analysis::AnalysisError;
use lasthop_base::packet::{Descriptor, Extension, Header, TcpHeader, flags};
use lasthop_base::schema::keys::kinds;
use lasthop_base::schema::metrics::{Metric, Report};
use lasthop_base::units::Instant;
use std::borrow::Borrow;

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

    /// Sets the advertised window, as the field of the header has it; what is no TCP segment stays
    /// as it is.
    fn set_window(&mut self, window: u32);

    /// The message that tells the sender of this segment what a link does with it; `None` if it is no TCP
    /// segment. It has the format and the length of a pure ACK.
    fn notice(&self, notice: Notice) -> Option<Self>
    where
        Self: Sized;

    /// The whole header, of a packet that shows it.
    fn header(&self) -> Option<TcpHeader> {
        None
    }

    /// A segment of the same connection with this header, `bytes` long; `None` where packets are real bytes.
    fn with_header(&self, _bytes: u32, _header: &TcpHeader) -> Option<Self>
    where
        Self: Sized,
    {
        None
    }

    /// Marks an ACK: the segment that it asks for was lost on a link. What is no TCP segment stays as it is.
    fn mark_loss(&mut self);
}

/// What a message to a TCP sender is about (Yun 2009, section 3.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Notice {
    /// Explicit retransmission start notification (ERSN): the first attempt on a link failed.
    RetransmissionStarted,
    /// Explicit loss notification (ELN): a link has given the segment up.
    Loss,
}

impl Notice {
    /// Its bit, see [`flags::NOTICE`].
    pub const fn bit(self) -> u8 {
        match self {
            Notice::RetransmissionStarted => flags::ERSN,
            Notice::Loss => flags::ELN,
        }
    }
}

/// Length of a notice: that of a pure ACK without options.
pub const NOTICE_BYTES: u32 = 40;

/// Do the flags tell a message to a sender, which acknowledges nothing?
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
            // In the upper bits, so that differences wrap as those of 32 bits do.
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

/// What becomes of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Verdict {
    /// It goes on, unchanged.
    Forward,
    /// It goes no further: the agent has dropped it, or keeps a copy to send later.
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
    /// A sender is told of one of its segments.
    Notified {
        /// What.
        notice: Notice,
        /// Number of the segment's first byte.
        sequence: u32,
    },
    /// An acknowledgment was marked: what it asks for was lost on the link.
    MarkedAck {
        /// The acknowledgment.
        ack: u32,
    },
}

/// Always-on counters of an agent that repairs losses.
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

/// Packets, and those among them that were lost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Batch {
    /// How many.
    pub packets: u64,
    /// How many of them were lost.
    pub lost: u64,
}

/// How a packet meets an agent on its way down.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Crossing {
    /// The connection that it belongs to; `None` if it is no TCP segment.
    pub connection: Option<usize>,
    /// Would the interface queue take another packet like it afterwards?
    pub has_room: bool,
}

/// A machine at an interface that looks into packets of type `P`. An agent implements what it
/// needs: each method has a default that does nothing.
pub trait Agent<P: Segment> {
    /// A packet is about to enter the interface queue; the agent may change it.
    fn down(&mut self, _now: Instant, _crossing: Crossing, _packet: &mut P) -> Verdict {
        Verdict::Forward
    }

    /// A packet came over the link; the agent may change it. `connection` is `None` if it is no
    /// TCP segment.
    fn up(&mut self, _now: Instant, _connection: Option<usize>, _packet: &mut P) -> Verdict {
        Verdict::Forward
    }

    /// A packet came over the link damaged, but its header can be read. The agent may answer it with packets of its
    /// own; where the packet has further to go, it is dropped whatever the verdict.
    fn up_damaged(&mut self, _now: Instant, _connection: Option<usize>, _packet: &P) -> Verdict {
        Verdict::Forward
    }

    /// Does it want to see packets that belong to no connection?
    fn watches_all(&self) -> bool {
        false
    }

    /// Does it want to see packets that came over the link?
    fn watches_up(&self) -> bool {
        true
    }

    /// Does it want to hear what becomes of packets on the link?
    fn watches_link(&self) -> bool {
        false
    }

    /// The link layer reports on a packet that went down here.
    fn on_link(&mut self, _now: Instant, _connection: Option<usize>, _fate: LinkFate, _packet: &P) {
    }

    /// The next packet that the agent itself sends towards the link.
    fn poll_down(&mut self) -> Option<P> {
        None
    }

    /// The next packet that the agent itself sends on, as if it had come over the link.
    fn poll_up(&mut self) -> Option<P> {
        None
    }

    /// The next event for probes.
    fn poll_event(&mut self) -> Option<AgentEvent> {
        None
    }

    /// The one earliest deadline or a time before it, [`Instant::NEVER`] if there is none.
    fn next_timeout(&self) -> Instant {
        Instant::NEVER
    }

    /// The deadline may have come.
    fn handle_timeout(&mut self, _now: Instant) {}

    /// Does it want [`Self::on_losses`] now?
    fn wants_losses(&self) -> bool {
        false
    }

    /// What was counted since the start of the run: first transmissions of the TCP segments that it
    /// hears of and segments declared lost; packets that the link has finished and that it gave up.
    fn on_losses(&mut self, _end_to_end: Batch, _link: Batch) {}

    /// Transmissions of a packet that the link's endpoint may make at most; `None`: the agent says
    /// nothing of it. Asked for at the start and after [`Self::on_losses`].
    fn transmission_limit(&self) -> Option<u32> {
        None
    }

    /// Reports what it has counted: `AgentKeys::METRICS`.
    fn metrics(&self, _report: &mut Report<'_>) {}
}
