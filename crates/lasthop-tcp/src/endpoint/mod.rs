//! One endpoint of a TCP connection: a sender, a receiver, and the policy by which it accepts
//! segments (RFC 9293).
//!
//! ```text
//!   opener:    CLOSED --open--> SYN-SENT --SYN,ACK (or ACK, one-way)--> ESTABLISHED --close--> FIN
//!   acceptor:  LISTEN --SYN--> SYN-RECEIVED --ACK of SYN--> ESTABLISHED --close--> FIN
//! ```
//!
//! The states require no variable: a SYN is byte 0 and a FIN the last sequence number, so that
//! `snd_una` and `rcv_nxt` determine the state. Under a one-way profile (ns-2) only the opener
//! sends data.
//!
//! A [`Connection`] is one of two endpoints with the same configuration, as used in a simulation. A
//! [`Socket`](host::Socket) is the endpoint of a [`Host`](host::Host), which communicates with
//! arbitrary peers. Both have the same sender and receiver.
//!
//! # Contract
//!
//! Calls have a non-decreasing `now`. After any input call [`Endpoint::poll_transmit`] until it
//! returns `None`, then read [`Endpoint::next_timeout`]. A spurious [`Endpoint::handle_timeout`]
//! has no effect.

mod copies;
mod extras;
pub mod host;
mod linux;
mod trusting;
mod units;

pub use trusting::{Connection, Trusting};

use super::blocks::Blocks;
use super::config::{Config, WritePolicy};
use super::congestion_control::Passage;
use super::ecn::Ecn;
use super::policy::Policies;
use super::receiver::Receiver;
use super::sender::{Outgoing, Sender, SenderCounters};
use super::timers::Timer;
use super::usage::Usage;
use extras::has_extras;
use lasthop_base::packet::{Ecn as Codepoint, MAX_SACK_BLOCKS, TcpHeader, flags};
use lasthop_base::units::{Duration, Instant};
use linux::Burst;

/// Role of an endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Sends the first SYN.
    Opener,
    /// Answers the SYN.
    Acceptor,
}

/// Policy by which an endpoint accepts segments, and its functions in addition to data transfer.
/// The type is chosen at construction, so that functions not used by a simulation have no cost.
pub trait Admission: Sized {
    /// Returns `true` if written data and `segment` fit into the memory without another page
    /// (header prediction).
    #[doc(hidden)]
    fn has_reserve(_: &Endpoint<Self>, _: &TcpHeader) -> bool {
        true
    }

    /// Called after the acknowledgment of a segment was processed, and before its data. `looks`:
    /// whether the sender checks for segments to send.
    #[doc(hidden)]
    fn on_acknowledged(_: &mut Endpoint<Self>, _looks: bool) {}

    /// Called after a Linux host has received the data, SYN or FIN of `segment`. `before`: RCV.NXT
    /// until then.
    #[doc(hidden)]
    fn on_received(_: &mut Endpoint<Self>, _now: Instant, _segment: &TcpHeader, _before: u64) {}

    /// Returns the next segment with data, like [`Endpoint::poll_transmit`].
    #[doc(hidden)]
    fn poll_data(end: &mut Endpoint<Self>, now: Instant, header: &mut TcpHeader) -> Option<u32> {
        end.poll_header(now, header)
    }
}

/// One endpoint of a connection.
///
/// ```
/// use lasthop_base::packet::TcpHeader;
/// use lasthop_base::units::{Duration, Instant};
/// use lasthop_tcp::{Connection, Overrides, Profile, Role, Variant, presets};
///
/// let config = presets::config(Variant::Cubic, Profile::Rfc, &Overrides::default());
/// let [mut opener, mut acceptor] =
///     [Role::Opener, Role::Acceptor].map(|role| Connection::new(&config, role, Duration::ZERO));
/// opener.write(1_000);
/// opener.open();
/// // A path without delay: the handshake, then the data, then their acknowledgments.
/// let (now, mut header) = (Instant::ZERO, TcpHeader::default());
/// loop {
///     if opener.poll_transmit(now, &mut header).is_some() {
///         acceptor.receive(now, &header);
///     } else if acceptor.poll_transmit(now, &mut header).is_some() {
///         opener.receive(now, &header);
///     } else {
///         break;
///     }
/// }
/// assert_eq!(acceptor.delivered_bytes(), 1_000);
/// // The only segment may wait for a second one before it is acknowledged.
/// acceptor.handle_timeout(acceptor.next_timeout());
/// ```
#[derive(Clone, Debug)]
pub struct Endpoint<A: Admission = Trusting> {
    role: Role,
    pub(super) sender: Sender,
    pub(super) receiver: Receiver,
    /// Advertised window in bytes. The application reads immediately, except with a socket.
    pub(super) advertised_window: u32,
    /// ECN state of an endpoint that requests ECN.
    ecn: Option<Ecn>,
    /// Whether its segments have information that few connections use: ECN, reports of damage or of
    /// random losses.
    has_extras: bool,
    /// State of an endpoint that sends blocks of an erasure code.
    blocks: Option<Box<Blocks>>,
    /// Whether its data segments have sequence numbers only: no acknowledgment, no options, nothing
    /// else.
    is_bare: bool,
    /// Whether its ACKs have no options, nor anything else that data does not determine.
    has_bare_acks: bool,
    policies: Policies,
    /// Length on the wire of such a segment of full size.
    full_bytes: u32,
    /// Length on the wire of an ACK without SACK blocks.
    ack_bytes: u32,
    /// Whether the SYN of the peer is to be acknowledged separately, before any data (Linux).
    is_ack_pending: bool,
    burst: Burst,
    /// State of the policy.
    host: A,
}

/// Returns `true` if the segments of a one-way transfer have no options: data segments have
/// sequence numbers only.
fn is_bare(config: &Config) -> bool {
    config.one_way
        && !config.timestamps
        && !has_extras(config)
        && config.quick_acks == 0
        && !config.autotuning
        && !config.sends_blocks()
}

/// Returns the parameters of an endpoint with this role.
fn of_role(config: &Config, role: Role) -> Config {
    // A SYN/ACK is retransmitted with exponential backoff.
    let syn_linear_timeouts = if role == Role::Opener { config.syn_linear_timeouts } else { 0 };
    Config { syn_linear_timeouts, ..*config }
}

impl<A: Admission> Endpoint<A> {
    /// Creates an endpoint; `boot_offset` is the phase of its clock within a tick.
    fn with(config: &Config, role: Role, boot_offset: Duration, host: A) -> Self {
        let blocks = Blocks::new(config);
        let policies = Policies::of(config.profile);
        Endpoint {
            role,
            sender: Sender::new(&of_role(config, role), boot_offset),
            receiver: Receiver::new(config),
            advertised_window: config.first_window() as u32,
            ecn: config.ecn.then(|| Ecn::new(config.marks)),
            has_extras: has_extras(config),
            is_bare: role == Role::Opener && is_bare(config),
            has_bare_acks: role == Role::Acceptor
                && is_bare(config)
                && !config.sack
                && !policies.receive.is_linux(),
            policies,
            full_bytes: config.wire_bytes(config.segment.get() as u32, 0),
            ack_bytes: config.wire_bytes(0, 0),
            blocks,
            is_ack_pending: false,
            burst: Burst::default(),
            host,
        }
    }

    /// Applies the negotiated parameters. Keeps the receive window, and the SYN of an endpoint that
    /// has opened actively.
    fn reconfigure(&mut self, config: &Config, boot_offset: Duration) {
        let window = self.receiver.window.take();
        let mut fresh = Endpoint::with(config, self.role, boot_offset, Trusting);
        std::mem::swap(&mut self.sender, &mut fresh.sender);
        if fresh.sender.is_opened() {
            self.sender.adopt_handshake(fresh.sender);
        }
        self.receiver = fresh.receiver;
        (self.ecn, self.blocks, self.has_extras) = (fresh.ecn, fresh.blocks, fresh.has_extras);
        (self.full_bytes, self.ack_bytes) = (fresh.full_bytes, fresh.ack_bytes);
        self.receiver.window = window;
    }

    /// Processes an accepted segment that starts at `seq`. Returns `false` if its acknowledgment
    /// did not make the sender check for segments to send.
    #[inline(always)]
    fn process(&mut self, now: Instant, segment: &TcpHeader, seq: u64) -> bool {
        let control = segment.flags & (flags::SYN | flags::FIN) != 0;
        let length = u64::from(segment.payload) + u64::from(control);
        if self.policies.receive.is_linux() {
            return self.process_as_linux(now, segment, seq, length);
        }
        self.receive_options(segment, seq);
        self.receive_ack(now, segment, seq, length == 0);
        A::on_acknowledged(self, true);
        self.receive_data(now, segment, seq, length);
        true
    }

    /// Processes the congestion marks and the timestamp of an acceptable segment that starts at
    /// `seq`.
    #[inline(always)]
    fn receive_options(&mut self, segment: &TcpHeader, seq: u64) {
        if let Some(ecn) = &mut self.ecn {
            if self.receiver.is_ack_waiting() && ecn.ends_run(segment, self.receiver.rcv_nxt) {
                self.receiver.challenge();
            }
            let (was_echoing, (_, had_seen)) = (ecn.is_echoing(), ecn.state());
            if ecn.on_segment(segment) {
                self.sender.on_echo_of_mark();
            }
            if self.sender.flight.config.quick_acks > 0 && segment.payload > 0 {
                let is_first = !was_echoing && ecn.is_echoing();
                let is_new = seq + u64::from(segment.payload) > self.receiver.rcv_nxt;
                let is_repeated = had_seen && is_new && segment.ecn == Codepoint::NotEct;
                self.receiver.on_codepoint(is_first || is_repeated, segment.flags);
            }
        }
        if segment.has_timestamps {
            self.receiver.on_timestamp(seq, segment.options.timestamps.0);
        }
    }

    /// Processes the acknowledgment of a segment that starts at `seq`. `is_pure`: whether it has no
    /// data and may be a duplicate. Losses that it reports can be retransmitted before
    /// [`Self::receive_data`].
    #[inline(always)]
    fn receive_ack(&mut self, now: Instant, segment: &TcpHeader, seq: u64, mut is_pure: bool) {
        if segment.flags & flags::ACK == 0 {
            return;
        }
        let sent = segment
            .has_timestamps
            .then(|| self.unwrap_timestamp(now, segment.options.timestamps.1));
        let ack = self.sender.unwrap(segment.ack);
        self.sender.flight.on_input(now);
        if let Some(sent) = sent
            && self.sender.flight.config.congestion_control.reads_arrivals()
        {
            self.on_passage(now, segment, sent);
        }
        if !self.sender.flight.config.one_way {
            is_pure &= self.sender.update_peer_window(seq, ack, u64::from(segment.window));
        }
        if segment.sack_blocks == 0 {
            self.sender.on_any_ack(now, ack, &[], is_pure, sent);
        } else {
            self.on_sack(now, ack, segment, is_pure, sent);
        }
    }

    /// Processes the data of a segment: `length` sequence numbers from `seq` onwards.
    #[inline(always)]
    fn receive_data(&mut self, now: Instant, segment: &TcpHeader, seq: u64, length: u64) {
        if length == 0 {
            return;
        }
        if self.policies.receive.is_linux() {
            self.receive_at_host(now, segment, seq, length);
        } else {
            let control = segment.flags & (flags::SYN | flags::FIN) != 0;
            let timers = &mut self.sender.flight.timers;
            let end = seq.wrapping_add(length);
            self.receiver.receive(&self.sender.flight.config, timers, now, seq, end, control);
        }
        if segment.flags & flags::SYN != 0
            && self.role == Role::Acceptor
            && !self.sender.flight.config.one_way
        {
            self.sender.open();
        }
    }

    /// Records the arrival time, reported by an ACK, of the segment that it acknowledges. An ACK
    /// that does not advance SND.UNA echoes an older segment and reports nothing (RFC 7323, section
    /// 4.3).
    fn on_passage(&mut self, now: Instant, segment: &TcpHeader, sent: Instant) {
        if self.sender.unwrap(segment.ack) > self.sender.flight.snd_una {
            let received = self.unwrap_timestamp(now, segment.options.timestamps.0);
            self.sender.on_passage(Passage { sent, received });
        }
    }

    /// Processes an ACK with SACK blocks.
    #[cold]
    fn on_sack(
        &mut self,
        now: Instant,
        ack: u64,
        segment: &TcpHeader,
        is_pure: bool,
        sent: Option<Instant>,
    ) {
        let mut blocks = [(0, 0); MAX_SACK_BLOCKS];
        let count = usize::from(segment.sack_blocks).min(MAX_SACK_BLOCKS);
        for (block, wire) in blocks[..count].iter_mut().zip(segment.sack_blocks()) {
            *block = (self.sender.unwrap(wire.0), self.sender.unwrap(wire.1));
        }
        self.sender.on_any_ack(now, ack, &blocks[..count], is_pure, sent);
    }

    /// Handles a send call of `bytes` at an endpoint that is open or opening.
    fn write_data(&mut self, bytes: u64) {
        self.burst.reported = None;
        self.sender.write(bytes);
        self.wake();
    }

    /// Returns `true` if there is nothing to send before the next input.
    #[inline(always)]
    pub fn is_quiet(&self) -> bool {
        self.sender.flight.is_quiet() && !self.receiver.is_ack_due()
    }

    /// Returns the next segment to send now: fills in `header` and returns the length on the wire
    /// in bytes.
    #[inline(always)]
    fn poll_header(&mut self, now: Instant, header: &mut TcpHeader) -> Option<u32> {
        if self.is_quiet() || self.sender.flight.is_held_back(now) && self.has_data_only() {
            return None;
        }
        self.transmit(now, header)
    }

    /// Returns `true` if the next segment can only be sent for its data.
    #[inline]
    fn has_data_only(&self) -> bool {
        let has_more =
            self.has_extras || self.sender.flight.config.autotuning || self.blocks.is_some();
        !has_more && !self.receiver.is_ack_due()
    }

    #[inline(never)]
    fn transmit(&mut self, now: Instant, header: &mut TcpHeader) -> Option<u32> {
        if self.role == Role::Acceptor && self.receiver.rcv_nxt == 0 {
            // LISTEN: written data waits for the opener's SYN.
            return None;
        }
        if self.blocks.is_some() && self.sender.flight.snd_una > 0 {
            return self.transmit_unit(now, header);
        }
        header.has_timestamps = self.sender.flight.config.timestamps;
        if self.has_extras
            && let Some(bytes) = self.transmit_first(now, header)
        {
            return Some(bytes);
        }
        let sent_to = self.sender.flight.snd_max;
        if self.sender.flight.config.writes == WritePolicy::Messages {
            let out = self.sender.poll_transmit(now);
            return self.fill_in(now, header, out, sent_to);
        }
        let bytes = if self.policies.send.sends_pieces && self.sender.flight.keeps_records() {
            self.transmit_as_linux(now, header)
        } else {
            let out = self.sender.poll_as_host(now);
            self.fill_in(now, header, out, sent_to)
        };
        if bytes.is_none() && self.sender.flight.snd_una > 0 {
            self.sender.watch_window(now);
        }
        bytes
    }

    /// Fills in the header of a segment with data, or else of a pending ACK.
    #[inline(always)]
    fn fill_in(
        &mut self,
        now: Instant,
        header: &mut TcpHeader,
        out: Option<Outgoing>,
        sent_to: u64,
    ) -> Option<u32> {
        if let Some(out) = out {
            header.seq = out.seq as u32;
            header.payload = out.payload;
            header.sack_blocks = 0;
            header.flags =
                if out.syn { flags::SYN } else { 0 } | if out.fin { flags::FIN } else { 0 };
            // The first SYN acknowledges nothing. In a one-way transfer the peer sends no data.
            if self.receiver.rcv_nxt > 0 && !self.sender.flight.config.one_way {
                self.acknowledge(header);
            }
            self.receiver.data_sent(&self.sender.flight.config, now, out.payload);
        } else if self.receiver.is_ack_due() {
            header.seq = self.sender.flight.snd_nxt as u32;
            header.payload = 0;
            header.flags = 0;
            self.acknowledge(header);
        } else {
            return None;
        }
        if header.has_timestamps {
            header.options.timestamps = (self.timestamp(now), self.receiver.ts_recent);
        }
        if self.has_extras {
            self.stamp(header, sent_to);
        }
        Some(self.sender.flight.config.wire_bytes(header.payload, header.sack_blocks))
    }

    #[inline]
    fn acknowledge(&mut self, header: &mut TcpHeader) {
        // The window of a SYN is not scaled.
        if header.flags & flags::SYN == 0
            && let Some(window) = self.receiver.advertise()
        {
            self.advertised_window = window;
        }
        header.flags |= flags::ACK;
        header.ack = self.receiver.rcv_nxt as u32;
        header.window = self.advertised_window;
        header.sack_blocks = 0;
        self.report_blocks(header);
        self.receiver.ack_sent(&mut self.sender.flight.timers);
    }

    /// Fills in SACK blocks, if any.
    #[inline]
    fn report_blocks(&self, header: &mut TcpHeader) {
        if self.sender.flight.config.sack && self.receiver.has_blocks() {
            let mut blocks = [(0, 0); MAX_SACK_BLOCKS];
            let most = self.sender.flight.config.max_sack_blocks();
            let count = self.receiver.sack_blocks(&mut blocks[..most]);
            header.set_sack_blocks(&blocks[..count]);
        }
    }

    /// Ticks of the timestamp clock, starting at 1, so that 0 means "none".
    fn timestamp(&self, now: Instant) -> u32 {
        (now.as_nanos() / self.sender.flight.config.timestamp_tick.as_nanos() + 1) as u32
    }

    /// Send time of a segment, to the precision of its timestamp.
    fn unwrap_timestamp(&self, now: Instant, echo: u32) -> Instant {
        let ago = u64::from(self.timestamp(now).wrapping_sub(echo));
        let tick = self.sender.flight.config.timestamp_tick.as_nanos();
        Instant::from_nanos(now.as_nanos().saturating_sub(ago * tick))
    }

    /// Earliest deadline of all timers.
    #[inline]
    pub fn next_timeout(&self) -> Instant {
        self.sender.flight.timers.next()
    }

    /// Handles a deadline of the sender or receiver.
    fn handle_data_timeout(&mut self, now: Instant) {
        self.receiver.handle_timeout(&self.sender.flight.timers, now);
        if let Some(blocks) = &mut self.blocks
            && self.sender.flight.snd_una > 0
        {
            let flight = &mut self.sender.flight;
            if flight.timers.is_due(Timer::Retransmission, now) {
                blocks.sender.on_timeout(flight, now);
                flight.stay_awake();
            }
            return;
        }
        if self.next_timeout() <= now {
            self.sender.flight.on_input(now);
        }
        if self.sender.flight.timers.is_due(Timer::Persist, now) {
            self.sender.flight.timers.stop(Timer::Persist);
            if self.sender.flight.peer.window > 0 {
                self.sender.send_what_fits();
            }
        }
        self.sender.handle_timeout(now);
    }

    /// Returns `true` if all written data is acknowledged.
    #[inline]
    pub fn is_all_acked(&self) -> bool {
        self.sender.is_all_acked()
    }

    /// Application bytes received in order by this connection instance, including padding; a FIN
    /// counts as one more.
    #[inline]
    pub fn delivered_bytes(&self) -> u64 {
        self.receiver.rcv_nxt.saturating_sub(1)
    }

    /// Bytes that have arrived above a hole, including padding.
    pub fn waiting_bytes(&self) -> u64 {
        self.receiver.waiting_bytes()
    }

    /// Bytes sent by this connection instance that have been acknowledged, including padding.
    #[inline]
    pub fn acked_bytes(&self) -> u64 {
        self.sender.flight.snd_una.saturating_sub(1)
    }

    /// Written bytes that have never been sent.
    pub fn unsent_bytes(&self) -> u64 {
        self.sender.flight.write_end - self.sender.flight.snd_max
    }

    /// Sets the advertised window to `bytes` instead of the configured one. Not for a host whose
    /// buffers grow.
    pub fn set_advertised_window(&mut self, bytes: u32) {
        debug_assert!(!self.sender.flight.config.autotuning, "its window follows the buffer");
        self.advertised_window = bytes;
    }

    /// Sends an acknowledgment now, regardless of the data received.
    pub fn acknowledge_now(&mut self) {
        if self.receiver.rcv_nxt > 0 {
            self.receiver.challenge();
        }
    }

    /// Received segments without new data.
    pub fn duplicates_received(&self) -> u64 {
        self.receiver.duplicates
    }

    /// Parameters of the connection.
    pub fn config(&self) -> &Config {
        &self.sender.flight.config
    }

    /// Counters over all connection instances.
    pub fn counters(&self) -> SenderCounters {
        self.sender.flight.counters
    }

    /// Times in which data was unacknowledged, by the factor that limited the sender, up to the
    /// latest input.
    pub fn usage(&self) -> Usage {
        self.sender.flight.usage()
    }

    /// Sending half, for probes.
    pub fn sender(&self) -> &Sender {
        &self.sender
    }

    /// Time of the host's clock at time zero, modulo [`Config::clock_period`].
    pub fn clock_at_start(&self) -> Duration {
        self.sender.flight.rtt.clock_at_start()
    }

    /// SRTT; zero before the first sample.
    pub fn srtt(&self) -> Duration {
        self.sender.flight.rtt.srtt()
    }
}

#[cfg(test)]
mod tests;
