//! The endpoint of a host: states, options and checks of RFC 9293 around the sender and the
//! receiver.
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
//! A host communicates with arbitrary peers: conformance scripts and real links. It negotiates
//! options (RFC 9293, 3.2; RFC 7323; RFC 2018), chooses an initial sequence number, checks every
//! arrival (RFC 9293, 3.10.7; RFC 5961; RFC 7323, 5), sends and processes resets, has a receive
//! buffer whose reads open the window, probes a closed window and an idle peer, and waits in
//! TIME-WAIT.
//!
//! # Contract
//!
//! As for [`Endpoint`]: non-decreasing `now`; after any input `poll_transmit` until it returns
//! `None`, then [`Endpoint::next_timeout`]; a spurious [`Endpoint::handle_timeout`] has no effect.
//!
//! *Not modelled*: urgent data, IP options, SYN cookies, Fast Open, ports (all segments belong to
//! the connection), a second connection on a listening socket.

mod arrivals;
mod calls;
mod limits;
mod path;
mod probing;
mod settings;
mod states;
mod taking;
mod traffic;

pub use crate::receiver::ReceiveMemory;
pub use calls::WriteOptions;
pub use limits::Limits;
pub use path::Unreachable;
pub use settings::{Configure, EcnOffer, KeepAlive, MtuProbing, Negotiated, Settings};
pub use states::State;
pub use traffic::Traffic;

use super::linux::Departed;
use super::{Admission, Endpoint, Role};
use crate::config::Config;
use crate::info::{PendingTimer, TcpInfo};
use crate::policy::Policies;
use crate::receiver::{Memory, ReceiveWindow};
use crate::send_buffer::SendBuffer;
use crate::timers::Timer;
use crate::usage::Usage;
use lasthop_base::packet::{TcpHeader, flags};
use lasthop_base::units::Instant;
use path::Path;
use probing::Search;
use std::collections::VecDeque;

/// Options of a SYN.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SynOptions {
    /// Maximum segment size, bytes.
    pub mss: Option<u32>,
    /// Window scale.
    pub window_scale: Option<u8>,
    /// SACK permitted.
    pub sack_permitted: bool,
}

/// A segment sent or received by a socket, with sequence numbers as on the wire. The window of the
/// header is in bytes, without scaling.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Segment {
    /// Header of a simulated segment.
    pub header: TcpHeader,
    /// Options of a SYN.
    pub options: SynOptions,
}

/// Reason for the end of a connection or the failure of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SocketError {
    /// The peer reset the connection.
    #[error("connection reset by peer")]
    Reset,
    /// The peer answered the SYN by a reset, or its host has no such port.
    #[error("connection refused")]
    Refused,
    /// A router has no route to the network.
    #[error("network is unreachable")]
    NetworkUnreachable,
    /// A router has no route to the host.
    #[error("no route to host")]
    HostUnreachable,
    /// The host does not support TCP.
    #[error("protocol not available")]
    NoProtocol,
    /// The host is unknown to a router.
    #[error("host is down")]
    HostDown,
    /// The host has no network.
    #[error("machine is not on the network")]
    NoNetwork,
    /// A route requested by the segment does not exist.
    #[error("operation not supported")]
    NotSupported,
    /// A router is not permitted to forward it.
    #[error("permission denied")]
    Forbidden,
    /// No answer was received.
    #[error("connection timed out")]
    TimedOut,
    /// The sending side is closed.
    #[error("broken pipe")]
    BrokenPipe,
    /// The socket is not connected.
    #[error("not connected")]
    NotConnected,
}

/// Default MSS of a SYN without the option (RFC 9293, section 3.7.1).
const DEFAULT_MSS: u32 = 536;

/// Bytes of the timestamps option with its padding (RFC 7323).
const TIMESTAMPS_BYTES: u32 = 12;

fn new_send_buffer(config: &Config, (size, is_fixed): (u32, bool), segment: u32) -> SendBuffer {
    SendBuffer::of_socket(config, segment.into(), size.into(), is_fixed)
}

/// Endpoint of a connection as used by an application on a host.
///
/// ```
/// use lasthop_base::units::{Bytes, Duration, Instant};
/// use lasthop_tcp::host::{EcnOffer, Limits, Negotiated, Settings, Socket, State, WriteOptions};
/// use lasthop_tcp::{Overrides, Profile, Variant, presets};
/// use std::sync::Arc;
///
/// let settings = Settings {
///     mss: 1_460,
///     mtu: 1_500,
///     window_scale: Some(7),
///     sack: true,
///     timestamps: false,
///     ecn: EcnOffer::Never,
///     initial_sequence: 1,
///     receive_buffer: 60_000,
///     receive_memory: None,
///     send_buffer: (200_000, false),
///     unsent_limit: None,
///     syn_retries: [5, 5],
///     retries: 15,
///     orphan_retries: 8,
///     longest_rto: Duration::from_secs(60),
///     time_wait: Duration::from_secs(60),
///     fin_wait: Duration::from_secs(60),
///     ack_delay: Duration::from_millis(40),
///     user_timeout: None,
///     keep_alive: None,
///     deferred_accept: 0,
///     delays_first_ack: false,
///     mtu_probing: None,
///     limits: Limits::default(),
///     boot_offset: Duration::ZERO,
/// };
/// // The parameters of the connection follow from the negotiated options.
/// let configure = Arc::new(|negotiated: Negotiated| {
///     let segment = Some(Bytes::new(negotiated.segment.into()));
///     let set = Overrides { segment, ..Overrides::default() };
///     presets::config(Variant::Sack, Profile::Rfc, &set)
/// });
/// let mut client = Socket::new(settings.clone(), configure.clone());
/// let mut server = Socket::new(settings, configure);
/// server.listen();
/// client.connect();
/// let now = Instant::ZERO;
/// // A path without delay.
/// let exchange = |client: &mut Socket, server: &mut Socket| loop {
///     if let Some(segment) = client.poll_transmit(now) {
///         server.receive(now, &segment);
///     } else if let Some(segment) = server.poll_transmit(now) {
///         client.receive(now, &segment);
///     } else {
///         break;
///     }
/// };
/// exchange(&mut client, &mut server);
/// assert_eq!([client.state(), server.state()], [State::Established; 2]);
/// client.write(now, 1_000, WriteOptions::default()).expect("an open connection");
/// exchange(&mut client, &mut server);
/// assert_eq!(server.read(now, 4_000), 1_000);
/// ```
pub type Socket = Endpoint<Host>;

/// The [`Admission`] of hosts, with their state in addition to sender and receiver.
#[derive(Clone)]
pub struct Host {
    settings: Settings,
    configure: Configure,
    state: State,
    /// Whether both SYNs have been exchanged. Before that, sender and receiver are inactive.
    is_open: bool,
    handshake: Handshake,
    app: Application,
    progress: Progress,
    /// Replies that are not part of the stream: RST, probes, challenge ACKs.
    replies: VecDeque<Segment>,
    buffer: SendBuffer,
    /// Sequence number of the peer's FIN.
    peer_fin: Option<u64>,
    error: Option<SocketError>,
    /// Reason for missing answers, reported by a router (Linux: `sk_err_soft`).
    reason: Option<SocketError>,
    /// Whether data above the peer's FIN is discarded once that is acknowledged.
    forgets_above: bool,
    path: Path,
    search: Option<Search>,
    traffic: Traffic,
    /// Whether the current segment is not counted, since only the sequence numbers of the
    /// connection are left (Linux).
    is_beside: bool,
}

/// Contents of both SYNs.
#[derive(Clone, Debug, Default)]
struct Handshake {
    /// Initial sequence number of the peer (IRS).
    peer_sequence: u32,
    peer_options: SynOptions,
    peer_has_timestamps: bool,
    /// Whether its SYN requests ECN, or its SYN/ACK grants it.
    peer_has_ecn: bool,
    /// Window advertised by the peer's SYN, and its timestamp.
    peer_syn: (u32, u32),
    /// Window scales of the peer and of this endpoint.
    shifts: (u8, u8),
    /// Send time of the first SYN.
    syn_sent_at: Instant,
    /// Number of SYNs sent, excluding answers to a retransmitted SYN.
    syns_sent: u32,
    /// Timestamps of the first SYN and of the latest one.
    syn_stamps: (u32, u32),
    /// Number of SYN/ACKs sent for a retransmitted SYN.
    syns_repeated: u32,
    /// Whether the peer has acknowledged our SYN and its first data is awaited
    /// (`TCP_DEFER_ACCEPT`).
    is_deferred: bool,
    /// Send calls before the connection is established.
    early: Vec<(u64, WriteOptions)>,
}

/// Settings and state of the application.
#[derive(Clone, Copy, Debug, Default)]
struct Application {
    /// Whether it has ended reading.
    is_read_shut: bool,
    /// Whether it has closed the socket.
    is_orphan: bool,
    /// Whether `TCP_CORK` is set.
    is_corked: bool,
    /// Whether `MSG_MORE` was set in the latest send call.
    has_more: bool,
    nodelay: bool,
    /// Whether it receives errors immediately (Linux: `IP_RECVERR`).
    hears_of_errors: bool,
    /// Whether a send call has found the send buffer full, without room since then.
    awaits_room: bool,
}

/// Times of transmissions and acknowledgments, and numbers of unanswered attempts.
#[derive(Clone, Copy, Debug, Default)]
struct Progress {
    /// Number of unanswered probes of a closed window.
    probes_unanswered: u32,
    /// Number of unanswered probes of an idle peer.
    keep_alives_unanswered: u32,
    /// End of the interval after the latest probe of an idle peer.
    next_probe_check: Instant,
    /// Number of timeouts processed so far.
    timeouts_seen: u64,
    /// Number of timeouts since the latest progress.
    retransmission_back_off: u32,
    /// Time of the latest arrival of a segment.
    heard_at: Instant,
    /// Time since which data has waited for an acknowledgment.
    waiting_since: Instant,
    /// Time of the first retransmission or probe since the latest acknowledgment of new data.
    repeating_since: Option<Instant>,
    /// Time of the latest transmission of data.
    sent_at: Instant,
    /// Time of the latest arrival of data.
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
            // `MSG_MORE` applies until then.
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
            return None;
        }
        if std::mem::take(&mut end.host.forgets_above) {
            end.receiver.forget_above();
        }
        if is_time_wait {
            header.sack_blocks = 0;
        }
        if header.payload > 0 || !end.policies.send.persists_until_data {
            end.stop(Timer::Persist);
        }
        if header.payload > 0 {
            end.host.progress.sent_at = now;
        }
        sent
    }
}

impl Endpoint<Host> {
    /// Creates a closed socket. `configure` determines the parameters of the connection from those
    /// offered and later from those negotiated.
    pub fn new(settings: Settings, configure: Configure) -> Self {
        let config = configure(settings.offered());
        let boot_offset = settings.boot_offset;
        let window = ReceiveWindow::new(
            settings.receive_buffer,
            Policies::of(config.profile).receive.is_linux(),
            settings.receive_memory.map(Memory::new),
        );
        let host = Host {
            buffer: new_send_buffer(&config, settings.send_buffer, DEFAULT_MSS),
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
            traffic: Traffic::default(),
            is_beside: false,
        };
        let mut endpoint = Endpoint::with(&config, Role::Opener, boot_offset, host);
        endpoint.receiver.window = Some(Box::new(window));
        endpoint
    }

    /// State of the connection (RFC 9293, section 3.3.2).
    pub fn state(&self) -> State {
        self.host.state
    }

    /// Takes the error that ended the connection.
    pub fn take_error(&mut self) -> Option<SocketError> {
        self.host.error.take()
    }

    /// Takes the error reported by a router while the connection continues, unless an
    /// acknowledgment has arrived since (Linux).
    pub fn take_reason(&mut self) -> Option<SocketError> {
        self.host.reason.take().filter(|_| self.policies.abort.is_by_time())
    }

    /// Receive window.
    fn window(&self) -> &ReceiveWindow {
        let Some(window) = &self.receiver.window else { panic!("a host has a receive window") };
        window
    }

    fn window_mut(&mut self) -> &mut ReceiveWindow {
        let Some(window) = &mut self.receiver.window else { panic!("a host has a receive window") };
        window
    }

    /// Returns `true` if both SYNs have been exchanged.
    pub fn is_open(&self) -> bool {
        self.host.is_open
    }

    /// Options and timeouts of the host.
    pub fn settings(&self) -> &Settings {
        &self.host.settings
    }

    /// Returns `true` if an error has ended the connection and has not been taken.
    pub fn has_error(&self) -> bool {
        self.host.error.is_some()
    }

    /// Window scales of the peer and of this endpoint.
    pub fn window_scales(&self) -> (u8, u8) {
        self.host.handshake.shifts
    }

    /// Returns `true` if it was opened by the peer's SYN.
    pub fn is_passive(&self) -> bool {
        self.role == Role::Acceptor
    }

    /// Time of the latest transmission of data; before that, the time of the handshake.
    pub fn last_data_sent(&self) -> Instant {
        self.host.progress.sent_at
    }

    /// Time of the latest arrival of data; before that, the time of the handshake.
    pub fn last_data_received(&self) -> Instant {
        self.host.progress.data_at
    }

    /// Time of the latest arrival of an acknowledgment.
    pub fn last_ack_received(&self) -> Instant {
        self.host.progress.heard_at
    }

    /// Times in which data was unacknowledged up to `now`, by the factor that limited the sender.
    pub fn usage_at(&self, now: Instant) -> Usage {
        self.sender.flight.usage_at(now, self.host.app.awaits_room)
    }

    /// Records a send call or another input at `now`, before it is processed.
    fn note_input(&mut self, now: Instant) {
        self.sender.flight.look_before_input(self.host.app.awaits_room);
        self.sender.flight.usage.at(now);
    }

    /// Segments and bytes sent and received so far.
    pub fn traffic(&self) -> Traffic {
        self.host.traffic
    }

    /// Returns the next segment to send now, if any.
    pub fn poll_transmit(&mut self, now: Instant) -> Option<Segment> {
        if self.burst.departed.is_empty()
            && let Some(reply) = self.host.replies.pop_front()
        {
            return Some(self.count_sent(reply, false));
        }
        if self.burst.departed.is_empty() && !self.depart(now) {
            if self.host.app.awaits_room {
                self.host.buffer.grow(&self.sender.fill());
            }
            return None;
        }
        let Departed { header, is_again, .. } = self.burst.departed.pop_front()?;
        let segment = match header.has(flags::SYN) {
            true => self.syn_segment(now),
            false => Segment { header: self.wire_numbers(header), options: SynOptions::default() },
        };
        Some(self.count_sent(segment, is_again))
    }

    /// Updates the counters for a segment that is sent.
    fn count_sent(&mut self, segment: Segment, is_again: bool) -> Segment {
        let payload = u64::from(segment.header.payload);
        // The SYN/ACK of a passive endpoint is sent before the socket exists.
        let is_syn_ack =
            segment.header.flags & (flags::SYN | flags::ACK) == flags::SYN | flags::ACK;
        // A reply for which no connection exists is not counted either.
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

    /// Snapshot of the state for observers; all zero before the connection is open.
    pub fn info(&self) -> TcpInfo {
        if !self.is_open() {
            return TcpInfo::default();
        }
        let mut info = self.data_info();
        // Linux also counts probes of an idle peer.
        let is_by_time = self.policies.abort.is_by_time();
        let of_idle = if is_by_time { self.host.progress.keep_alives_unanswered } else { 0 };
        info.probes = self.host.progress.probes_unanswered + of_idle;
        if self.host.state == State::Closed && self.policies.admission.reduces_closed {
            // Linux discards the records of outstanding data.
            (info.unacked, info.back_off) = (0, 0);
        }
        let timers = &self.sender.flight.timers;
        if timers.is_running(Timer::Persist) {
            info.pending = (PendingTimer::Persist, Some(timers.deadline(Timer::Persist)));
            if !is_by_time {
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

    /// Converts the sequence numbers of the connection to those on the wire.
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

    /// Converts sequence numbers on the wire to those of the connection.
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

    /// Queues a segment that is not part of the stream, with sequence numbers of the connection.
    fn reply(&mut self, header: TcpHeader) {
        let header = self.wire_numbers(header);
        self.host.replies.push_back(Segment { header, options: SynOptions::default() });
    }
}

#[cfg(test)]
mod tests;
