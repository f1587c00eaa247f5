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
//! *Not modelled*: urgent data, IP options, path MTU discovery, SYN cookies, Fast Open, ports (all segments
//! are the connection's), a second connection on a listening socket, automatic buffer tuning, memory
//! accounting of buffers.

mod arrivals;
mod states;
mod usage;
mod window;

pub use states::State;
pub use usage::Traffic;

use super::config::Config;
use super::connection::Connection;
use super::info::{PendingTimer, TcpInfo};
use super::send_buffer::SendBuffer;
use crate::packet::{TcpHeader, flags};
use crate::units::{Duration, Instant};
use std::collections::VecDeque;
use std::sync::Arc;
use usage::{Usage, connection_use};
use window::ReceiveWindow;

/// What a host offers and how long it waits: parameters of a [`Socket`] beside those of its
/// [`Connection`].
#[derive(Clone, Debug)]
pub struct Settings {
    /// Maximum segment size to announce, bytes (RFC 9293, section 3.7.1).
    pub mss: u32,
    /// Window scale to offer (RFC 7323, section 2), if any.
    pub window_scale: Option<u8>,
    /// Are selective acknowledgments offered (RFC 2018)?
    pub sack: bool,
    /// Are timestamps offered (RFC 7323, section 3)?
    pub timestamps: bool,
    /// Is explicit congestion notification offered (RFC 3168, section 6.1.1)?
    pub ecn: EcnOffer,
    /// Initial sequence number (ISS).
    pub initial_sequence: u32,
    /// Bytes that arrive and are not read: the largest window.
    pub receive_buffer: u32,
    /// Memory for what is written and not acknowledged, bytes; does it stay as it is?
    pub send_buffer: (u32, bool),
    /// Bytes written and not sent of which there are always less (Linux: `TCP_NOTSENT_LOWAT`), if limited.
    pub unsent_limit: Option<u32>,
    /// Retransmissions of a SYN, and of a SYN with ACK, before the connection is given up.
    pub syn_retries: [u32; 2],
    /// Expiries of a SYN's timer that leave it as long as it was (Linux: `net.ipv4.tcp_syn_linear_timeouts`).
    pub syn_linear: u32,
    /// Retransmissions of a segment, or probes, before the connection is given up (R2 of RFC 9293,
    /// section 3.8.3).
    pub retries: u32,
    /// RTO before the first sample, and its upper bound.
    pub rto: [Duration; 2],
    /// How long TIME-WAIT lasts (2 MSL).
    pub time_wait: Duration,
    /// How long a closed socket stays in FIN-WAIT-2.
    pub fin_wait: Duration,
    /// How long an ACK is delayed where the application asks for that ([`Socket::set_quick_acks`]).
    pub ack_delay: Duration,
    /// How long data may stay unacknowledged (RFC 5482), if limited.
    pub user_timeout: Option<Duration>,
    /// Probing of an idle peer (RFC 9293, section 3.8.4), if any.
    pub keep_alive: Option<KeepAlive>,
    /// Does the user timeout count from the first retransmission or probe, as in Linux? RFC 5482 counts from when the data
    /// left.
    pub times_retransmissions: bool,
    /// Does a pause longer than the RTO halve the window, once for each RTO (RFC 5681, section 4.1, as
    /// Linux does it)?
    pub restarts_after_idle: bool,
    /// Is data beyond the window taken whole if nothing waits to be read, as in Linux?
    pub takes_oversize: bool,
    /// Does a repeated SYN get the SYN and ACK again, as in Linux? RFC 9293 answers it with an ACK.
    pub repeats_syn_ack: bool,
}

/// What a host does about explicit congestion notification (Linux: `net.ipv4.tcp_ecn`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EcnOffer {
    /// Neither asks for it nor grants it.
    Never,
    /// Grants it to a peer that asks.
    Grants,
    /// Asks as well, in the first SYN; the ones after do without (RFC 3168, section 6.1.1.1).
    Asks,
}

/// When an idle peer is probed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeepAlive {
    /// Idle time before the first probe.
    pub idle: Duration,
    /// Time between probes.
    pub interval: Duration,
    /// Unanswered probes before the connection is given up.
    pub probes: u32,
}

/// What both SYN agree on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Negotiated {
    /// Payload bytes of a full segment: the smaller MSS, less the options that every segment carries
    /// (RFC 6691).
    pub segment: u32,
    /// Both permit selective acknowledgments.
    pub sack: bool,
    /// Both offer timestamps.
    pub timestamps: bool,
    /// Both use explicit congestion notification.
    pub ecn: bool,
    /// Were SYN retransmitted so often that the initial window is one segment (RFC 6928, section 2)?
    pub has_lost_syns: bool,
}

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
    /// The peer answered the SYN with a reset.
    #[error("connection refused")]
    Refused,
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

/// What a write asks for beside its bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WriteOptions {
    /// More follows at once: a short segment waits (Linux's `MSG_MORE`).
    pub more: bool,
    /// No later write joins this one (Linux's `MSG_EOR`).
    pub end_of_record: bool,
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
    /// Probe of a closed window.
    persist: Instant,
    /// End of TIME-WAIT, or of an orphan's FIN-WAIT-2.
    linger: Instant,
    keep_alive: Instant,
    /// The user timeout.
    give_up: Instant,
}

impl Deadlines {
    const NONE: Deadlines = Deadlines {
        handshake: Instant::NEVER,
        persist: Instant::NEVER,
        linger: Instant::NEVER,
        keep_alive: Instant::NEVER,
        give_up: Instant::NEVER,
    };

    fn next(&self) -> Instant {
        let Deadlines { handshake, persist, linger, keep_alive, give_up } = *self;
        handshake.min(persist).min(linger).min(keep_alive).min(give_up)
    }
}

fn new_send_buffer((size, is_fixed): (u32, bool), segment: u32) -> SendBuffer {
    SendBuffer::of_socket(segment.into(), size.into(), is_fixed)
}

/// From what was negotiated to the parameters of the connection.
pub type Configure = Arc<dyn Fn(Negotiated) -> Config + Send + Sync>;

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
    /// Written before there is a connection.
    early: Vec<(u64, WriteOptions)>,
    /// Replies that are no part of the data: SYN, RST, probes, challenges.
    replies: VecDeque<Segment>,
    window: ReceiveWindow,
    buffer: SendBuffer,
    /// Bytes that the application has read.
    read: u64,
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
    deadlines: Deadlines,
    /// Probes of a closed window since it closed, and those that nobody has answered.
    probe_back_off: u32,
    probes_unanswered: u32,
    keep_alives_unanswered: u32,
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
    traffic: Traffic,
}

impl Socket {
    /// A closed socket. `configure` makes the parameters of the connection once both SYN are known.
    pub fn new(settings: Settings, configure: Configure) -> Self {
        Socket {
            window: ReceiveWindow::new(settings.receive_buffer, settings.takes_oversize),
            buffer: new_send_buffer(settings.send_buffer, DEFAULT_MSS),
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
            early: Vec::new(),
            replies: VecDeque::new(),
            read: 0,
            peer_fin: None,
            is_read_shut: false,
            is_orphan: false,
            is_corked: false,
            has_more: false,
            nodelay: false,
            error: None,
            deadlines: Deadlines::NONE,
            probe_back_off: 0,
            probes_unanswered: 0,
            keep_alives_unanswered: 0,
            timeouts_seen: 0,
            retransmission_back_off: 0,
            heard_at: Instant::ZERO,
            waiting_since: Instant::ZERO,
            repeating_since: None,
            sent_at: Instant::ZERO,
            data_at: Instant::ZERO,
            usage: Usage::default(),
            traffic: Traffic::default(),
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

    /// Retransmissions of the SYN.
    pub fn syn_retransmissions(&self) -> u64 {
        self.syns_sent.saturating_sub(1).into()
    }

    /// Parameters of the connection, from what is negotiated; for one that is not open yet.
    pub fn set_configure(&mut self, configure: Configure) {
        self.configure = configure;
    }

    /// The receive buffer changes its size; a window that was advertised stays.
    pub fn set_receive_buffer(&mut self, bytes: u32) {
        self.settings.receive_buffer = bytes;
        self.window.resize(bytes);
    }

    /// How long data may stay unacknowledged.
    pub fn set_user_timeout(&mut self, now: Instant, limit: Option<Duration>) {
        self.settings.user_timeout = limit;
        self.watch_data(now);
    }

    /// When an idle peer is probed.
    pub fn set_keep_alive(&mut self, now: Instant, keep_alive: Option<KeepAlive>) {
        self.settings.keep_alive = keep_alive;
        self.watch_data(now);
    }

    /// Waits for a SYN.
    pub fn listen(&mut self) {
        self.is_passive = true;
        self.state = State::Listen;
    }

    /// Sends a SYN.
    pub fn connect(&mut self, now: Instant) {
        self.state = State::SynSent;
        self.send_syn(now);
    }

    /// The application writes `bytes`.
    ///
    /// # Errors
    /// If the sending side is closed, or there is no connection.
    pub fn write(
        &mut self,
        now: Instant,
        bytes: u64,
        options: WriteOptions,
    ) -> Result<(), SocketError> {
        if let Some(error) = self.error.take() {
            return Err(error);
        }
        if !self.state.may_write() {
            return Err(if self.state == State::Listen {
                SocketError::NotConnected
            } else {
                SocketError::BrokenPipe
            });
        }
        let Some(connection) = &mut self.connection else {
            self.early.push((bytes, options));
            return Ok(());
        };
        if connection.is_all_acked() {
            self.waiting_since = now;
            if self.settings.restarts_after_idle {
                connection.sender.flight.restart_after_idle(now - self.sent_at);
            }
        }
        self.has_more = options.more;
        connection.sender.flight.is_corked = self.is_corked || self.has_more;
        connection.write(bytes);
        connection.sender.flight.is_record_closed = options.end_of_record;
        self.watch_data(now);
        Ok(())
    }

    /// How many bytes of a write of `bytes` the send buffer takes now, more than none only if `is_awake`: a writer that
    /// waits sleeps until a third of the buffer is free.
    pub fn room(&mut self, bytes: u64, is_awake: bool) -> u64 {
        let Some(connection) = &self.connection else { return bytes };
        if !connection.sender.flight.keeps_records() {
            return bytes;
        }
        let fill = connection.sender.fill();
        let limit = self.settings.unsent_limit.map_or(u64::MAX, u64::from);
        if !is_awake && (2 * fill.unsent >= limit || !self.buffer.is_free(&fill)) {
            return 0;
        }
        self.buffer.unsent_limit = limit;
        self.buffer.write_at_once(bytes, &fill)
    }

    /// Could an application write, as `poll` tells?
    pub fn is_writable(&self) -> bool {
        let Some(connection) = &self.connection else { return true };
        if !connection.sender.flight.keeps_records() {
            return true;
        }
        let fill = connection.sender.fill();
        // To wake a writer, Linux wants half of the limit.
        let limit = self.settings.unsent_limit.map_or(u64::MAX, u64::from);
        self.buffer.is_free(&fill) && fill.unsent * 2 < limit.max(1)
    }

    /// The send buffer has so many bytes of memory, whatever the window.
    pub fn set_send_buffer(&mut self, bytes: u32) {
        self.settings.send_buffer = (bytes, true);
        let segment =
            self.connection.as_ref().map_or(DEFAULT_MSS, |data| data.sender.flight.mss as u32);
        self.buffer = new_send_buffer(self.settings.send_buffer, segment);
    }

    /// Bytes written and not sent of which there are always less.
    pub fn set_unsent_limit(&mut self, limit: Option<u32>) {
        self.settings.unsent_limit = limit;
    }

    /// Bytes that have arrived in order and are not read.
    pub fn unread(&self) -> u64 {
        self.received() - self.read
    }

    /// Bytes written and not acknowledged, and those of them that were never sent.
    pub fn unacknowledged(&self) -> (u64, u64) {
        let Some(connection) = &self.connection else {
            let bytes = self.early.iter().map(|(bytes, _)| bytes).sum();
            return (bytes, bytes);
        };
        let flight = &connection.sender.flight;
        let end = flight.write_end.min(flight.fin_at);
        (end - flight.snd_una.min(end), end - flight.snd_max.min(end))
    }

    /// Has everything that the peer will send been read?
    pub fn is_at_end(&self) -> bool {
        self.unread() == 0 && self.is_receiving_over()
    }

    /// Will nothing more arrive, as the peer has closed or the application does not read?
    pub fn is_receiving_over(&self) -> bool {
        self.is_read_shut || self.has_peer_closed()
    }

    /// The application reads up to `bytes`; how many there were.
    pub fn read(&mut self, bytes: u64) -> u64 {
        let taken = bytes.min(self.unread());
        self.read += taken;
        if taken > 0 {
            self.update_window();
        }
        taken
    }

    /// Does the application hold short segments back (Linux's `TCP_CORK`)?
    pub fn set_corked(&mut self, is_corked: bool) {
        self.is_corked = is_corked;
        self.has_more = false;
        self.release(is_corked);
    }

    /// Do short segments leave at once, without Nagle's algorithm (`TCP_NODELAY`)? Setting it sends what
    /// waits.
    pub fn set_nodelay(&mut self, nodelay: bool) {
        self.nodelay = nodelay;
        if let Some(connection) = &mut self.connection {
            connection.sender.flight.config.nagle = connection.config.nagle && !nodelay;
        }
        if nodelay {
            self.has_more = false;
            self.release(false);
        }
    }

    fn release(&mut self, is_corked: bool) {
        if let Some(connection) = &mut self.connection {
            connection.sender.flight.is_corked = is_corked;
            connection.sender.refresh();
        }
    }

    /// Are ACKs sent at once (Linux's `TCP_QUICKACK`)?
    pub fn set_quick_acks(&mut self, is_quick: bool) {
        if let Some(connection) = &mut self.connection {
            if connection.config.quick_acks == 0 {
                connection.config.delayed_ack = (!is_quick).then_some(self.settings.ack_delay);
            }
            connection.receiver.set_quick(is_quick);
        }
    }

    /// The application lets go of the socket: a FIN follows what is written. Data that it has not read
    /// make it a reset (RFC 2525, section 2.17).
    pub fn close(&mut self, now: Instant) {
        let has_unread = self.unread() > 0;
        self.is_orphan = true;
        self.is_read_shut = true;
        match self.state {
            State::Closed | State::TimeWait => {}
            State::Listen | State::SynSent => self.end(None),
            _ if has_unread => self.abort(now, None),
            State::FinWait2 => self.deadlines.linger = now + self.settings.fin_wait,
            _ => self.shut_down_writes(now),
        }
    }

    /// The application writes no more.
    pub fn shut_down_writes(&mut self, now: Instant) {
        match self.state {
            State::SynReceived | State::Established => self.state = State::FinWait1,
            State::CloseWait => self.state = State::LastAck,
            State::SynSent => return self.end(None),
            _ => return,
        }
        self.is_corked = false;
        self.has_more = false;
        self.release(false);
        if let Some(connection) = &mut self.connection {
            connection.close();
        }
        self.watch_data(now);
    }

    /// The application reads no more; what has arrived can still be read.
    pub fn shut_down_reads(&mut self) {
        self.is_read_shut = true;
    }

    /// Ends the connection with a reset; `error` is what the application will hear.
    pub fn abort(&mut self, now: Instant, error: Option<SocketError>) {
        if let Some(connection) = &self.connection
            && self.state.is_synchronized()
        {
            let seq = connection.sender.flight.snd_max;
            let header = connection.control(now, flags::RST | flags::ACK, seq);
            self.reply(header);
        }
        self.end(error);
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

    /// How long data have been waiting for ACKs or to be sent, and how long of it for the peer's window.
    pub fn busy_times(&self, now: Instant) -> (Duration, Duration) {
        self.usage.times(now)
    }

    /// What has crossed its border so far.
    pub fn traffic(&self) -> Traffic {
        self.traffic
    }

    /// The next segment to send now.
    pub fn poll_transmit(&mut self, now: Instant) -> Option<Segment> {
        let sent_to = self.connection.as_ref().map_or(0, |data| data.sender.flight.snd_max);
        let segment = self.poll_segment(now)?;
        let is_again =
            self.connection.as_ref().is_none_or(|data| data.sender.flight.snd_max == sent_to);
        let payload = u64::from(segment.header.payload);
        self.traffic.segments_sent += 1;
        self.traffic.data_segments_sent += u64::from(payload > 0);
        self.traffic.bytes_sent += payload;
        self.traffic.bytes_sent_again += if is_again { payload } else { 0 };
        Some(segment)
    }

    fn poll_segment(&mut self, now: Instant) -> Option<Segment> {
        if let Some(reply) = self.replies.pop_front() {
            return Some(reply);
        }
        if !self.state.is_synchronized() && self.state != State::SynReceived {
            return None;
        }
        let (right_shift, is_time_wait) = (self.shifts.1, self.state == State::TimeWait);
        let connection = self.connection.as_mut()?;
        if self.state == State::SynReceived {
            return None;
        }
        let rcv_nxt = connection.receiver.rcv_nxt;
        connection.advertised_window = self.window.advertise(rcv_nxt, self.read, right_shift);
        let mut header = TcpHeader::default();
        if connection.poll_transmit(now, &mut header).is_none()
            || is_time_wait && header.payload > 0
        {
            self.arm_persist(now);
            self.usage.look(now, &connection_use(self.connection.as_deref()));
            return None;
        }
        if header.payload == 0 && header.flags == flags::ACK {
            header.seq = connection.sender.flight.snd_max as u32;
        }
        self.deadlines.persist = Instant::NEVER;
        if header.payload > 0 {
            self.sent_at = now;
        }
        Some(Segment { header: self.wire_numbers(header), options: SynOptions::default() })
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
        info.probes = self.probes_unanswered;
        if self.deadlines.persist != Instant::NEVER {
            info.pending = (PendingTimer::Persist, Some(self.deadlines.persist));
            info.back_off = self.probe_back_off;
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
