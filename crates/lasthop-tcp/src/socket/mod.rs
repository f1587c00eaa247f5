//! A connection as hosts have it: the states, options and checks of RFC 9293 around [`Connection`],
//! which moves the data.
//!
//! ```text
//!   CLOSED --listen--> LISTEN --SYN--> SYN-RECEIVED --ACK--+
//!     |                                     ^              v
//!     +------connect--> SYN-SENT ---SYN-----+         ESTABLISHED
//!                          |                               ^
//!                          +------------SYN,ACK------------+
//!
//!   ESTABLISHED --close--> FIN-WAIT-1 --ACK--> FIN-WAIT-2 --FIN--> TIME-WAIT --2 MSL--> CLOSED
//!        |                     +------FIN--> CLOSING ---ACK---------^
//!        +----FIN--> CLOSE-WAIT --close--> LAST-ACK --ACK--> CLOSED
//! ```
//!
//! A simulation sets both ends up alike and needs none of this: it uses [`Connection`] alone. A socket is
//! for what meets a foreign peer: conformance scripts, later real links. It negotiates options (RFC 9293,
//! 3.2; RFC 7323; RFC 2018), chooses an initial sequence number, checks every arrival (RFC 9293, 3.10.7;
//! RFC 5961; RFC 7323, 5), resets and is reset, keeps a receive buffer whose reads move the window, probes a
//! closed window and an idle peer, and waits in TIME-WAIT.
//!
//! # Contract
//!
//! That of [`Connection`]: non-decreasing `now`; after any input [`Socket::poll_transmit`] until it returns
//! `None`, then [`Socket::next_timeout`]; a spurious [`Socket::handle_timeout`] changes nothing.
//!
//! *Not modelled*: urgent data, IP options, SYN cookies, Fast Open, ports (all segments
//! are the connection's), a second connection on a listening socket, automatic buffer tuning.

mod arrivals;
mod calls;
mod limits;
mod path;
mod probing;
mod settings;
mod states;
mod taking;
mod usage;

pub use super::receiver::ReceiveMemory;
pub use calls::WriteOptions;
pub use limits::Limits;
pub use path::Unreachable;
pub use settings::{Configure, EcnOffer, KeepAlive, MtuProbing, Negotiated, Settings};
pub use states::State;
pub use usage::Traffic;

use super::connection::Connection;
use super::info::{PendingTimer, TcpInfo};
use super::receiver::{Memory, ReceiveWindow};
use super::send_buffer::SendBuffer;
use super::timers::Timer;
use lasthop_base::packet::{MAX_SACK_BLOCKS, TcpHeader, flags};
use lasthop_base::units::{Duration, Instant};
use path::Path;
use probing::Search;
use std::collections::VecDeque;
use usage::{Usage, connection_use};

/// Options that only a SYN has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SynOptions {
    /// Maximum segment size, bytes.
    pub mss: Option<u32>,
    /// Window scale.
    pub window_scale: Option<u8>,
    /// SACK permitted.
    pub sack_permitted: bool,
}

/// A segment at the border of a socket, with numbers as on the wire. The window of the header is in
/// bytes, scaling undone.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Segment {
    /// Everything that the header of a simulated segment has.
    pub header: TcpHeader,
    /// Options of a SYN.
    pub options: SynOptions,
}

/// Why a connection has ended, or a call is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SocketError {
    /// The peer reset the connection.
    #[error("connection reset by peer")]
    Reset,
    /// The peer answered the SYN with a reset, or its host has no such port.
    #[error("connection refused")]
    Refused,
    /// A router knows no way to the network.
    #[error("network is unreachable")]
    NetworkUnreachable,
    /// A router knows no way to the host.
    #[error("no route to host")]
    HostUnreachable,
    /// The host does not know TCP.
    #[error("protocol not available")]
    NoProtocol,
    /// A router does not know the host.
    #[error("host is down")]
    HostDown,
    /// The host has no network.
    #[error("machine is not on the network")]
    NoNetwork,
    /// A route that the segment asked for does not exist.
    #[error("operation not supported")]
    NotSupported,
    /// A router may not forward it.
    #[error("permission denied")]
    Forbidden,
    /// Nobody answered.
    #[error("connection timed out")]
    TimedOut,
    /// The sending side is closed.
    #[error("broken pipe")]
    BrokenPipe,
    /// There is no connection.
    #[error("not connected")]
    NotConnected,
}

/// MSS of a SYN that names none (RFC 9293, section 3.7.1).
const DEFAULT_MSS: u32 = 536;

/// Bytes of the timestamps option with its padding (RFC 7323).
const TIMESTAMPS_BYTES: u32 = 12;

/// The timers of a socket; those of the data are the connection's.
#[derive(Clone, Copy, Debug)]
struct Deadlines {
    /// Retransmission of SYN, or SYN and ACK.
    handshake: Instant,
    /// End of TIME-WAIT, or of an orphan's FIN-WAIT-2.
    linger: Instant,
    keep_alive: Instant,
    /// The user timeout.
    give_up: Instant,
}

impl Deadlines {
    const NONE: Deadlines = Deadlines {
        handshake: Instant::NEVER,
        linger: Instant::NEVER,
        keep_alive: Instant::NEVER,
        give_up: Instant::NEVER,
    };

    fn next(&self) -> Instant {
        let Deadlines { handshake, linger, keep_alive, give_up } = *self;
        handshake.min(linger).min(keep_alive).min(give_up)
    }
}

fn new_send_buffer((size, is_fixed): (u32, bool), segment: u32) -> SendBuffer {
    SendBuffer::of_socket(segment.into(), size.into(), is_fixed)
}

/// One end of a connection, as an application has it.
#[derive(Clone)]
pub struct Socket {
    settings: Settings,
    configure: Configure,
    state: State,
    /// Where a reset in SYN-RECEIVED leads back to.
    is_passive: bool,
    /// From the moment that both SYN are known.
    connection: Option<Box<Connection>>,
    /// Initial sequence number of the peer (IRS).
    peer_sequence: u32,
    peer_options: SynOptions,
    peer_has_timestamps: bool,
    /// Does its SYN ask for ECN, or its answer to ours grant it?
    peer_has_ecn: bool,
    /// Window that the peer's SYN advertised, and its timestamp.
    peer_syn: (u32, u32),
    /// How far the peer's windows are shifted, and ours.
    shifts: (u8, u8),
    /// When the first SYN left, and how many did.
    syn_sent_at: Instant,
    syns_sent: u32,
    /// Time stamps of the first SYN and of the latest one.
    syn_stamps: (u32, u32),
    /// SYN and ACK for a repeated SYN.
    syns_repeated: u32,
    /// Written before there is a connection.
    early: Vec<(u64, WriteOptions)>,
    /// Replies that are no part of the data: SYN, RST, probes, challenges.
    replies: VecDeque<Segment>,
    /// What has left the connection while something was taken in or written, and whether it had been sent before.
    departed: VecDeque<(Segment, bool)>,
    /// Bytes of the SACK blocks for which segments leave room that leave now, of those that leave at a time.
    reported: Option<u64>,
    /// The blocks of the segment that left last, if more of its piece follows.
    piece_blocks: Option<(usize, [(u32, u32); MAX_SACK_BLOCKS])>,
    /// The receive window before there is a connection.
    first_window: ReceiveWindow,
    buffer: SendBuffer,
    /// Where the peer's FIN stands.
    peer_fin: Option<u64>,
    /// The application reads no more.
    is_read_shut: bool,
    /// The application has let go of the socket.
    is_orphan: bool,
    /// `TCP_CORK`, and `MSG_MORE` of the latest write.
    is_corked: bool,
    has_more: bool,
    nodelay: bool,
    error: Option<SocketError>,
    /// Why nobody may be answering, as a router says (Linux: `sk_err_soft`).
    reason: Option<SocketError>,
    /// Is what has arrived above the peer's FIN forgotten once that is acknowledged?
    forgets_above: bool,
    /// Does the segment that arrived last say PSH?
    is_pushed: bool,
    /// Is the application told at once (Linux: `IP_RECVERR`)?
    hears_of_errors: bool,
    path: Path,
    search: Option<Search>,
    deadlines: Deadlines,
    /// Probes of a closed window that nobody has answered.
    probes_unanswered: u32,
    keep_alives_unanswered: u32,
    /// When the interval after the latest probe of an idle peer ends.
    looks_again_at: Instant,
    /// Timeouts without progress in between, by the sender's counter.
    timeouts_seen: u64,
    retransmission_back_off: u32,
    heard_at: Instant,
    /// Since when data wait for an acknowledgment.
    waiting_since: Instant,
    /// When the first retransmission or probe left since something was acknowledged.
    repeating_since: Option<Instant>,
    /// When data left and arrived last.
    sent_at: Instant,
    data_at: Instant,
    usage: Usage,
    /// Has a write found the send buffer full, and has there been no room since?
    awaits_room: bool,
    traffic: Traffic,
    /// The peer has acknowledged our SYN, and its data are waited for (`TCP_DEFER_ACCEPT`).
    is_deferred: bool,
    /// The segment in hand is not the connection's, of which only numbers are left (Linux).
    is_beside: bool,
}

impl Socket {
    /// A closed socket. `configure` makes the parameters of the connection once both SYN are known.
    pub fn new(settings: Settings, configure: Configure) -> Self {
        Socket {
            first_window: ReceiveWindow::new(
                settings.receive_buffer,
                settings.is_linux(),
                settings.receive_memory.map(Memory::new),
            ),
            buffer: new_send_buffer(settings.send_buffer, DEFAULT_MSS),
            path: Path::new(DEFAULT_MSS, settings.mtu),
            settings,
            configure,
            state: State::Closed,
            is_passive: false,
            connection: None,
            peer_sequence: 0,
            peer_options: SynOptions::default(),
            peer_has_timestamps: false,
            peer_has_ecn: false,
            peer_syn: (0, 0),
            shifts: (0, 0),
            syn_sent_at: Instant::ZERO,
            syns_sent: 0,
            syn_stamps: (0, 0),
            syns_repeated: 0,
            early: Vec::new(),
            replies: VecDeque::new(),
            departed: VecDeque::new(),
            reported: None,
            piece_blocks: None,
            peer_fin: None,
            is_read_shut: false,
            is_orphan: false,
            is_corked: false,
            has_more: false,
            nodelay: false,
            error: None,
            reason: None,
            hears_of_errors: false,
            is_pushed: false,
            forgets_above: false,
            search: None,
            deadlines: Deadlines::NONE,
            probes_unanswered: 0,
            keep_alives_unanswered: 0,
            looks_again_at: Instant::ZERO,
            timeouts_seen: 0,
            retransmission_back_off: 0,
            heard_at: Instant::ZERO,
            waiting_since: Instant::ZERO,
            repeating_since: None,
            sent_at: Instant::ZERO,
            data_at: Instant::ZERO,
            usage: Usage::default(),
            awaits_room: false,
            traffic: Traffic::default(),
            is_deferred: false,
            is_beside: false,
        }
    }

    /// Its state by RFC 9293, section 3.3.2.
    pub fn state(&self) -> State {
        self.state
    }

    /// Takes the error that ended the connection.
    pub fn take_error(&mut self) -> Option<SocketError> {
        self.error.take()
    }

    /// Takes what a router has said of a connection that goes on, unless an acknowledgment has come since (Linux).
    pub fn take_reason(&mut self) -> Option<SocketError> {
        self.reason.take().filter(|_| self.settings.is_linux())
    }

    /// The receive window.
    fn window(&self) -> &ReceiveWindow {
        let window = self.connection.as_ref().and_then(|data| data.receiver.window.as_deref());
        window.unwrap_or(&self.first_window)
    }

    fn window_mut(&mut self) -> &mut ReceiveWindow {
        let window = self.connection.as_mut().and_then(|data| data.receiver.window.as_deref_mut());
        window.unwrap_or(&mut self.first_window)
    }

    /// The connection under it, once both SYN are known.
    pub fn connection(&self) -> Option<&Connection> {
        self.connection.as_deref()
    }

    /// What it offers, and how long it waits.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Has an error ended the connection that nobody has taken?
    pub fn has_error(&self) -> bool {
        self.error.is_some()
    }

    /// How far the windows of the peer and of this end are shifted.
    pub fn window_scales(&self) -> (u8, u8) {
        self.shifts
    }

    /// Has it waited for the peer's SYN?
    pub fn is_passive(&self) -> bool {
        self.is_passive
    }

    /// Retransmissions of the SYN, of the SYN and ACK for whatever reason.
    pub fn syn_retransmissions(&self) -> u64 {
        u64::from(self.syns_sent.saturating_sub(1) + self.syns_repeated)
    }

    /// When data left last; the time of the handshake before that.
    pub fn last_data_sent(&self) -> Instant {
        self.sent_at
    }

    /// When data arrived last; the time of the handshake before that.
    pub fn last_data_received(&self) -> Instant {
        self.data_at
    }

    /// When an acknowledgment arrived last.
    pub fn last_ack_received(&self) -> Instant {
        self.heard_at
    }

    /// How long data have been waiting for ACKs or to be sent; how long of it for the peer's window, and how long for an
    /// application that waited for room in the send buffer.
    pub fn busy_times(&self, now: Instant) -> (Duration, Duration, Duration) {
        self.usage.times(now)
    }

    /// What has crossed its border so far.
    pub fn traffic(&self) -> Traffic {
        self.traffic
    }

    /// The next segment to send now.
    pub fn poll_transmit(&mut self, now: Instant) -> Option<Segment> {
        let (segment, is_again) = match self.departed.pop_front() {
            Some(departed) => departed,
            None => self.poll_marked(now)?,
        };
        let payload = u64::from(segment.header.payload);
        // The first of a passive end leaves before it is one.
        let is_syn_ack =
            segment.header.flags & (flags::SYN | flags::ACK) == flags::SYN | flags::ACK;
        // And who answers for no connection is none.
        let is_request = self.is_passive && self.connection.is_none();
        let is_apart = is_syn_ack && self.is_passive
            || is_request
            || segment.header.flags == flags::RST
            || segment.header.flags == flags::RST | flags::ACK && segment.header.seq == 0
            || std::mem::take(&mut self.is_beside);
        self.traffic.segments_sent += u64::from(!is_apart);
        self.traffic.data_segments_sent += u64::from(payload > 0);
        self.traffic.bytes_sent += payload;
        self.traffic.bytes_sent_again += if is_again { payload } else { 0 };
        Some(segment)
    }

    /// The next segment, and whether it brings nothing that has not been sent before.
    pub(super) fn poll_marked(&mut self, now: Instant) -> Option<(Segment, bool)> {
        let sent_to = |socket: &Socket| {
            socket.connection.as_ref().map_or(0, |data| data.sender.flight.snd_max)
        };
        let before = sent_to(self);
        let segment = self.poll_segment(now)?;
        Some((segment, sent_to(self) == before))
    }

    fn poll_segment(&mut self, now: Instant) -> Option<Segment> {
        if let Some(reply) = self.replies.pop_front() {
            return Some(reply);
        }
        if !self.state.is_synchronized() && self.state != State::SynReceived {
            return None;
        }
        let is_time_wait = self.state == State::TimeWait;
        let connection = self.connection.as_mut()?;
        if self.state == State::SynReceived {
            return None;
        }
        let rcv_nxt = connection.receiver.rcv_nxt;
        if let Some(window) = &connection.receiver.window {
            connection.advertised_window = window.offer(rcv_nxt);
        }
        // Linux leaves room for the blocks that data report.
        let reported = match self.settings.is_linux() {
            true => *self.reported.get_or_insert_with(|| connection.block_bytes()),
            false => 0,
        };
        let is_new_ack = connection.receiver.last_ack_sent() < rcv_nxt;
        if reported > 0 {
            connection.sender.shorten_segments(reported);
        }
        let mut header = TcpHeader::default();
        let sent = self.poll_data(now, &mut header);
        if let (true, Some(connection)) = (reported > 0, &mut self.connection) {
            connection.sender.lengthen_segments(reported);
        }
        self.is_beside = self.is_reduced() && !is_new_ack;
        if sent.is_none() || is_time_wait && header.payload > 0 {
            self.reported = None;
            if let Some(connection) = &mut self.connection {
                connection.sender.watch_window(now);
            }
            self.usage.look(now, &connection_use(self.connection.as_deref(), self.awaits_room));
            return None;
        }
        self.repeat_blocks(&mut header);
        if std::mem::take(&mut self.forgets_above)
            && let Some(connection) = &mut self.connection
        {
            connection.receiver.forget_above();
        }
        if is_time_wait {
            header.sack_blocks = 0;
        }
        if let Some(connection) = &self.connection
            && header.payload == 0
            && header.flags & !flags::ECE == flags::ACK
        {
            header.seq = self.acceptable_number(connection) as u32;
        }
        if header.payload > 0 || !self.settings.is_linux() {
            self.stop_persist();
        }
        if header.payload > 0 {
            self.sent_at = now;
        }
        Some(Segment { header: self.wire_numbers(header), options: SynOptions::default() })
    }

    /// Segments of one piece have the same SACK blocks, also one that reports a duplicate.
    fn repeat_blocks(&mut self, header: &mut TcpHeader) {
        let Some(connection) = &self.connection else { return };
        if let Some((count, blocks)) = self.piece_blocks.take()
            && header.payload > 0
        {
            header.set_sack_blocks(&blocks[..count]);
        }
        if self.settings.is_linux() && connection.sender.flight.is_within_piece() {
            self.piece_blocks = Some((header.sack_blocks.into(), header.sack_blocks()));
        }
    }

    /// The number of a segment without data: SND.NXT, unless a peer that has taken its window back would find it outside.
    /// Linux then takes the window's end, but for less than what rounding of a scaled window comes to.
    fn acceptable_number(&self, connection: &Connection) -> u64 {
        let flight = &connection.sender.flight;
        let edge = flight.snd_una + flight.peer_window;
        let rounding = if self.shifts == (0, 0) { 0 } else { (1 << self.shifts.1) - 1 };
        match self.settings.is_linux() && flight.snd_max > edge + rounding {
            true => edge,
            false => flight.snd_max,
        }
    }

    /// The earliest deadline.
    pub fn next_timeout(&self) -> Instant {
        let data = self.connection.as_ref().map_or(Instant::NEVER, |data| data.next_timeout());
        self.deadlines.next().min(data)
    }

    /// A snapshot for who looks on; all zero before there is a connection.
    pub fn info(&self) -> TcpInfo {
        let Some(connection) = &self.connection else { return TcpInfo::default() };
        let mut info = connection.info();
        // Linux counts probes of an idle peer too.
        let of_idle = if self.settings.is_linux() { self.keep_alives_unanswered } else { 0 };
        info.probes = self.probes_unanswered + of_idle;
        if self.state == State::Closed && self.settings.is_linux() {
            // Nothing is kept of what was outstanding.
            (info.unacked, info.back_off) = (0, 0);
        }
        let timers = &connection.sender.flight.timers;
        if timers.is_running(Timer::Persist) {
            info.pending = (PendingTimer::Persist, Some(timers.deadline(Timer::Persist)));
            if !self.settings.is_linux() {
                info.back_off = connection.sender.probe_back_off;
            }
        } else if info.pending.1.is_none() {
            let last = self.deadlines.linger.min(self.deadlines.keep_alive);
            if last != Instant::NEVER && self.state != State::Closed {
                info.pending = (PendingTimer::KeepAlive, Some(last));
            }
        }
        info
    }

    /// From the numbers of the connection to those on the wire.
    fn wire_numbers(&self, mut header: TcpHeader) -> TcpHeader {
        header.seq = header.seq.wrapping_add(self.settings.initial_sequence);
        if header.flags & flags::ACK != 0 {
            header.ack = header.ack.wrapping_add(self.peer_sequence);
        }
        let count = usize::from(header.sack_blocks);
        let mut blocks = header.sack_blocks();
        for block in &mut blocks[..count] {
            block.0 = block.0.wrapping_add(self.peer_sequence);
            block.1 = block.1.wrapping_add(self.peer_sequence);
        }
        header.set_sack_blocks(&blocks[..count]);
        header
    }

    /// And back.
    fn own_numbers(&self, mut header: TcpHeader) -> TcpHeader {
        header.seq = header.seq.wrapping_sub(self.peer_sequence);
        header.ack = header.ack.wrapping_sub(self.settings.initial_sequence);
        let count = usize::from(header.sack_blocks);
        let mut blocks = header.sack_blocks();
        for block in &mut blocks[..count] {
            block.0 = block.0.wrapping_sub(self.settings.initial_sequence);
            block.1 = block.1.wrapping_sub(self.settings.initial_sequence);
        }
        header.set_sack_blocks(&blocks[..count]);
        header
    }

    /// Queues a segment that is no part of the data, with numbers of the connection.
    fn reply(&mut self, header: TcpHeader) {
        let header = self.wire_numbers(header);
        self.replies.push_back(Segment { header, options: SynOptions::default() });
    }
}
