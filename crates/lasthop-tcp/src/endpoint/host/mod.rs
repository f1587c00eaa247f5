//! An endpoint as hosts have it: states, options and checks of RFC 9293 around the sender and the receiver.
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
//! A host meets foreign peers: conformance scripts, later real links. It negotiates options (RFC 9293,
//! 3.2; RFC 7323; RFC 2018), chooses an initial sequence number, checks every arrival (RFC 9293, 3.10.7;
//! RFC 5961; RFC 7323, 5), resets and is reset, keeps a receive buffer whose reads move the window, probes a
//! closed window and an idle peer, and waits in TIME-WAIT.
//!
//! # Contract
//!
//! That of [`Endpoint`]: non-decreasing `now`; after any input `poll_transmit` until it returns
//! `None`, then [`Endpoint::next_timeout`]; a spurious [`Endpoint::handle_timeout`] changes nothing.
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

pub use crate::receiver::ReceiveMemory;
pub use calls::WriteOptions;
pub use limits::Limits;
pub use path::Unreachable;
pub use settings::{Configure, EcnOffer, KeepAlive, MtuProbing, Negotiated, Settings};
pub use states::State;
pub use usage::Traffic;

use super::linux::Departed;
use super::{Admission, Endpoint, Role};
use crate::config::Conventions;
use crate::info::{PendingTimer, TcpInfo};
use crate::receiver::{Memory, ReceiveWindow};
use crate::send_buffer::SendBuffer;
use crate::timers::Timer;
use lasthop_base::packet::{TcpHeader, flags};
use lasthop_base::units::{Duration, Instant};
use path::Path;
use probing::Search;
use std::collections::VecDeque;
use usage::Usage;

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

fn new_send_buffer((size, is_fixed): (u32, bool), segment: u32) -> SendBuffer {
    SendBuffer::of_socket(segment.into(), size.into(), is_fixed)
}

/// One end of a connection, as an application of a host has it.
pub type Socket = Endpoint<Host>;

/// The [`Admission`] of hosts, with all that they keep beside sender and receiver.
#[derive(Clone)]
pub struct Host {
    settings: Settings,
    configure: Configure,
    state: State,
    /// Whether both SYN are known: before that, sender and receiver stand by.
    is_open: bool,
    handshake: Handshake,
    app: Application,
    progress: Progress,
    /// Replies that are no part of the data: RST, probes, challenges.
    replies: VecDeque<Segment>,
    buffer: SendBuffer,
    /// Where the peer's FIN stands.
    peer_fin: Option<u64>,
    error: Option<SocketError>,
    /// Why nobody may be answering, as a router says (Linux: `sk_err_soft`).
    reason: Option<SocketError>,
    /// Is what has arrived above the peer's FIN forgotten once that is acknowledged?
    forgets_above: bool,
    path: Path,
    search: Option<Search>,
    usage: Usage,
    traffic: Traffic,
    /// The segment in hand is not the connection's, of which only numbers are left (Linux).
    is_beside: bool,
}

/// What the SYN of both ends say.
#[derive(Clone, Debug, Default)]
struct Handshake {
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
    /// When the first SYN was sent, and how many were, repetitions apart.
    syn_sent_at: Instant,
    syns_sent: u32,
    /// Timestamps of the first SYN and of the latest one.
    syn_stamps: (u32, u32),
    /// SYN and ACK for a repeated SYN.
    syns_repeated: u32,
    /// The peer has acknowledged our SYN, and its data are waited for (`TCP_DEFER_ACCEPT`).
    is_deferred: bool,
    /// Written before there is a connection.
    early: Vec<(u64, WriteOptions)>,
}

/// What the application has asked for.
#[derive(Clone, Copy, Debug, Default)]
struct Application {
    /// It reads no more.
    is_read_shut: bool,
    /// It has let go of the socket.
    is_orphan: bool,
    /// `TCP_CORK`, and `MSG_MORE` of the latest write.
    is_corked: bool,
    has_more: bool,
    nodelay: bool,
    /// It is told of errors immediately (Linux: `IP_RECVERR`).
    hears_of_errors: bool,
    /// A write has found the send buffer full, and there has been no room since.
    awaits_room: bool,
}

/// When something was sent and acknowledged, and how often in vain.
#[derive(Clone, Copy, Debug, Default)]
struct Progress {
    /// Probes of a closed window that nobody has answered, and of an idle peer.
    probes_unanswered: u32,
    keep_alives_unanswered: u32,
    /// When the interval after the latest probe of an idle peer ends.
    next_probe_check: Instant,
    /// Timeouts without progress in between, by the sender's counter.
    timeouts_seen: u64,
    retransmission_back_off: u32,
    heard_at: Instant,
    /// Since when data wait for an acknowledgment.
    waiting_since: Instant,
    /// When the first retransmission or probe was sent since something was acknowledged.
    repeating_since: Option<Instant>,
    /// When data were sent and arrived last.
    sent_at: Instant,
    data_at: Instant,
}

impl Admission for Host {
    fn has_reserve(end: &Endpoint<Self>, segment: &TcpHeader) -> bool {
        let options = if segment.has_timestamps { u64::from(TIMESTAMPS_BYTES) } else { 0 };
        let Some(memory) = end.window().bounds() else { return true };
        let charged = end.host.buffer.memory(&end.sender.fill());
        memory.has_reserve(segment.payload.into(), options, charged)
    }

    fn on_acknowledged(end: &mut Endpoint<Self>, looks: bool) {
        if looks && std::mem::take(&mut end.host.app.has_more) {
            // The announcement of more holds until then.
            end.release(end.host.app.is_corked);
        }
        end.note_probe_lost();
    }

    fn poll_data(end: &mut Endpoint<Self>, now: Instant, header: &mut TcpHeader) -> Option<u32> {
        match (end.is_open(), end.host.state) {
            (false, State::Closed | State::Listen) => return None,
            (false, _) => return end.poll_header(now, header),
            (true, state) if !state.is_synchronized() => return None,
            _ => {}
        }
        let is_time_wait = end.host.state == State::TimeWait;
        let rcv_nxt = end.receiver.rcv_nxt;
        end.advertised_window = end.window().offer(rcv_nxt);
        let is_new_ack = end.receiver.last_ack_sent() < rcv_nxt;
        let sent = end.poll_or_probe(now, header);
        end.host.is_beside = end.is_reduced() && !is_new_ack;
        if sent.is_none() || is_time_wait && header.payload > 0 {
            end.sender.watch_window(now);
            end.look_at_usage(now);
            return None;
        }
        if std::mem::take(&mut end.host.forgets_above) {
            end.receiver.forget_above();
        }
        if is_time_wait {
            header.sack_blocks = 0;
        }
        if header.payload > 0 || !end.is_linux {
            end.stop(Timer::Persist);
        }
        if header.payload > 0 {
            end.host.progress.sent_at = now;
        }
        sent
    }
}

impl Endpoint<Host> {
    /// A closed socket. `configure` makes the parameters of the connection, from what is offered and from what is
    /// negotiated.
    pub fn new(settings: Settings, configure: Configure) -> Self {
        let config = configure(settings.offered());
        let boot_offset = settings.boot_offset;
        let window = ReceiveWindow::new(
            settings.receive_buffer,
            config.conventions == Conventions::Linux,
            settings.receive_memory.map(Memory::new),
        );
        let host = Host {
            buffer: new_send_buffer(settings.send_buffer, DEFAULT_MSS),
            path: Path::new(DEFAULT_MSS, settings.mtu),
            settings,
            configure,
            state: State::Closed,
            is_open: false,
            handshake: Handshake::default(),
            app: Application::default(),
            progress: Progress::default(),
            replies: VecDeque::new(),
            peer_fin: None,
            error: None,
            reason: None,
            forgets_above: false,
            search: None,
            usage: Usage::default(),
            traffic: Traffic::default(),
            is_beside: false,
        };
        let mut endpoint = Endpoint::with(&config, Role::Opener, boot_offset, host);
        endpoint.receiver.window = Some(Box::new(window));
        endpoint.receiver.reads_at_once = false;
        endpoint
    }

    /// Its state by RFC 9293, section 3.3.2.
    pub fn state(&self) -> State {
        self.host.state
    }

    /// Takes the error that ended the connection.
    pub fn take_error(&mut self) -> Option<SocketError> {
        self.host.error.take()
    }

    /// Takes what a router has said of a connection that goes on, unless an acknowledgment has come since (Linux).
    pub fn take_reason(&mut self) -> Option<SocketError> {
        self.host.reason.take().filter(|_| self.is_linux)
    }

    /// The receive window.
    fn window(&self) -> &ReceiveWindow {
        let Some(window) = &self.receiver.window else { panic!("a host has a receive window") };
        window
    }

    fn window_mut(&mut self) -> &mut ReceiveWindow {
        let Some(window) = &mut self.receiver.window else { panic!("a host has a receive window") };
        window
    }

    /// Whether both SYN are known.
    pub fn is_open(&self) -> bool {
        self.host.is_open
    }

    /// What it offers, and how long it waits.
    pub fn settings(&self) -> &Settings {
        &self.host.settings
    }

    /// Has an error ended the connection that nobody has taken?
    pub fn has_error(&self) -> bool {
        self.host.error.is_some()
    }

    /// How far the windows of the peer and of this end are shifted.
    pub fn window_scales(&self) -> (u8, u8) {
        self.host.handshake.shifts
    }

    /// Has it waited for the peer's SYN?
    pub fn is_passive(&self) -> bool {
        self.role == Role::Acceptor
    }

    /// When data left last; the time of the handshake before that.
    pub fn last_data_sent(&self) -> Instant {
        self.host.progress.sent_at
    }

    /// When data arrived last; the time of the handshake before that.
    pub fn last_data_received(&self) -> Instant {
        self.host.progress.data_at
    }

    /// When an acknowledgment arrived last.
    pub fn last_ack_received(&self) -> Instant {
        self.host.progress.heard_at
    }

    /// How long data have been waiting for ACKs or to be sent; how long of it for the peer's window, and how long for an
    /// application that waited for room in the send buffer.
    pub fn busy_times(&self, now: Instant) -> (Duration, Duration, Duration) {
        self.host.usage.times(now)
    }

    /// What has crossed its border so far.
    pub fn traffic(&self) -> Traffic {
        self.host.traffic
    }

    /// The next segment to send now.
    pub fn poll_transmit(&mut self, now: Instant) -> Option<Segment> {
        if self.burst.departed.is_empty()
            && let Some(reply) = self.host.replies.pop_front()
        {
            return Some(self.count_sent(reply, false));
        }
        if self.burst.departed.is_empty() && !self.depart(now) {
            return None;
        }
        let Departed { header, is_again, .. } = self.burst.departed.pop_front()?;
        let segment = match header.has(flags::SYN) {
            true => self.syn_segment(now),
            false => Segment { header: self.wire_numbers(header), options: SynOptions::default() },
        };
        Some(self.count_sent(segment, is_again))
    }

    /// Counts a segment that is sent.
    fn count_sent(&mut self, segment: Segment, is_again: bool) -> Segment {
        let payload = u64::from(segment.header.payload);
        // The first of a passive end leaves before it is one.
        let is_syn_ack =
            segment.header.flags & (flags::SYN | flags::ACK) == flags::SYN | flags::ACK;
        // And who answers for no connection is none.
        let is_request = self.is_passive() && !self.is_open();
        let is_apart = is_syn_ack && self.is_passive()
            || is_request
            || segment.header.flags == flags::RST
            || segment.header.flags == flags::RST | flags::ACK && segment.header.seq == 0
            || std::mem::take(&mut self.host.is_beside);
        let traffic = &mut self.host.traffic;
        traffic.segments_sent += u64::from(!is_apart);
        traffic.data_segments_sent += u64::from(payload > 0);
        traffic.bytes_sent += payload;
        traffic.bytes_sent_again += if is_again { payload } else { 0 };
        segment
    }

    /// A snapshot for who looks on; all zero before there is a connection.
    pub fn info(&self) -> TcpInfo {
        if !self.is_open() {
            return TcpInfo::default();
        }
        let mut info = self.data_info();
        // Linux counts probes of an idle peer too.
        let is_linux = self.is_linux;
        let of_idle = if is_linux { self.host.progress.keep_alives_unanswered } else { 0 };
        info.probes = self.host.progress.probes_unanswered + of_idle;
        if self.host.state == State::Closed && is_linux {
            // Nothing is kept of what was outstanding.
            (info.unacked, info.back_off) = (0, 0);
        }
        let timers = &self.sender.flight.timers;
        if timers.is_running(Timer::Persist) {
            info.pending = (PendingTimer::Persist, Some(timers.deadline(Timer::Persist)));
            if !is_linux {
                info.back_off = self.sender.probe_back_off;
            }
        } else if info.pending.1.is_none() {
            let last = timers.deadline(Timer::Linger).min(timers.deadline(Timer::KeepAlive));
            if last != Instant::NEVER && self.host.state != State::Closed {
                info.pending = (PendingTimer::KeepAlive, Some(last));
            }
        }
        info
    }

    /// From the numbers of the connection to those on the wire.
    fn wire_numbers(&self, mut header: TcpHeader) -> TcpHeader {
        header.seq = header.seq.wrapping_add(self.host.settings.initial_sequence);
        if header.flags & flags::ACK != 0 {
            header.ack = header.ack.wrapping_add(self.host.handshake.peer_sequence);
        }
        let count = usize::from(header.sack_blocks);
        let mut blocks = header.sack_blocks();
        for block in &mut blocks[..count] {
            block.0 = block.0.wrapping_add(self.host.handshake.peer_sequence);
            block.1 = block.1.wrapping_add(self.host.handshake.peer_sequence);
        }
        header.set_sack_blocks(&blocks[..count]);
        header
    }

    /// And back.
    fn own_numbers(&self, mut header: TcpHeader) -> TcpHeader {
        header.seq = header.seq.wrapping_sub(self.host.handshake.peer_sequence);
        header.ack = header.ack.wrapping_sub(self.host.settings.initial_sequence);
        let count = usize::from(header.sack_blocks);
        let mut blocks = header.sack_blocks();
        for block in &mut blocks[..count] {
            block.0 = block.0.wrapping_sub(self.host.settings.initial_sequence);
            block.1 = block.1.wrapping_sub(self.host.settings.initial_sequence);
        }
        header.set_sack_blocks(&blocks[..count]);
        header
    }

    /// Queues a segment that is no part of the data, with numbers of the connection.
    fn reply(&mut self, header: TcpHeader) {
        let header = self.wire_numbers(header);
        self.host.replies.push_back(Segment { header, options: SynOptions::default() });
    }
}

#[cfg(test)]
mod tests;
