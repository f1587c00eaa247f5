//! One end of a TCP connection: a sender, a receiver, and the policy by which it admits segments (RFC 9293).
//!
//! ```text
//!   opener:    CLOSED --open--> SYN-SENT --SYN,ACK (or ACK, one-way)--> ESTABLISHED --close--> FIN
//!   acceptor:  LISTEN --SYN--> SYN-RECEIVED --ACK of SYN--> ESTABLISHED --close--> FIN
//! ```
//!
//! The states need no variable: a SYN is byte 0 and a FIN the last byte of the sequence space, so
//! `snd_una` and `rcv_nxt` tell which state holds. Under a one-way profile (ns-2) only the opener
//! has anything to send.
//!
//! A [`Connection`] is one of two ends that are configured alike: what a simulation drives. A
//! [`Socket`](host::Socket) is that of a [`Host`](host::Host), which meets foreign peers. Sender and receiver are the same.
//!
//! # Contract
//!
//! Calls carry a non-decreasing `now`. After any input call [`Endpoint::poll_transmit`] until it
//! returns `None`, then look at [`Endpoint::next_timeout`]. A spurious
//! [`Endpoint::handle_timeout`] changes nothing.

mod copies;
mod extras;
pub mod host;
mod linux;
mod trusting;
mod units;

pub use trusting::{Connection, Trusting};

use super::blocks::Blocks;
use super::config::{Config, Conventions, WritePolicy};
use super::congestion_control::Passage;
use super::ecn::Ecn;
use super::receiver::Receiver;
use super::sender::{Outgoing, Sender, SenderCounters};
use super::timers::Timer;
use extras::has_extras;
use lasthop_base::packet::{MAX_SACK_BLOCKS, TcpHeader, flags};
use lasthop_base::units::{Duration, Instant};
use linux::Burst;

/// Which end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Sends the first SYN.
    Opener,
    /// Answers it.
    Acceptor,
}

/// How an end admits segments, and what it does besides moving data. The type is chosen at construction, so that what a
/// simulation does not need costs it nothing.
pub trait Admission: Sized {
    /// Whether what the application has written, and `segment`, leave memory without another page (header prediction).
    #[doc(hidden)]
    fn has_reserve(_: &Endpoint<Self>, _: &TcpHeader) -> bool {
        true
    }

    /// The acknowledgment of a segment was processed, and its data are next; `looks`: it made the sender look for what to
    /// send.
    #[doc(hidden)]
    fn on_acknowledged(_: &mut Endpoint<Self>, _looks: bool) {}

    /// The next segment of the data: as [`Endpoint::poll_transmit`].
    #[doc(hidden)]
    fn poll_data(end: &mut Endpoint<Self>, now: Instant, header: &mut TcpHeader) -> Option<u32> {
        end.poll_header(now, header)
    }
}

/// One end of a connection.
#[derive(Clone, Debug)]
pub struct Endpoint<A: Admission = Trusting> {
    pub(super) config: Config,
    role: Role,
    pub(super) sender: Sender,
    pub(super) receiver: Receiver,
    /// In bytes; the application reads at once, unless a socket says otherwise.
    pub(super) advertised_window: u32,
    /// Of an end that asks for it.
    ecn: Option<Ecn>,
    /// Do its segments say more than the bulk of TCPs: by ECN, of damage, of random losses?
    has_extras: bool,
    /// Of one that sends blocks of an erasure code.
    blocks: Option<Box<Blocks>>,
    /// Do its data say nothing but their numbers: no acknowledgment, no options, nothing besides?
    is_bare: bool,
    /// Whether it follows [`Conventions::Linux`].
    is_linux: bool,
    /// Lengths on the wire of such data of full length, and of an acknowledgment without SACK blocks.
    full_bytes: u32,
    ack_bytes: u32,
    /// The SYN of the peer is to be acknowledged by itself, before any data (Linux).
    is_ack_pending: bool,
    burst: Burst,
    /// Its own state.
    host: A,
}

/// Do data say nothing but their numbers?
fn is_bare(config: &Config, role: Role) -> bool {
    config.one_way
        && role == Role::Opener
        && !config.timestamps
        && !has_extras(config)
        && config.quick_acks == 0
        && !config.autotuning
        && !config.sends_blocks()
}

/// The parameters of one end.
fn of_role(config: &Config, role: Role) -> Config {
    // A SYN that answers one is sent again at ever longer intervals.
    let linear_syns = if role == Role::Opener { config.linear_syns } else { 0 };
    Config { linear_syns, ..*config }
}

impl<A: Admission> Endpoint<A> {
    /// One end with its parameters; `boot_offset` is the phase of its clock within a tick.
    fn with(config: &Config, role: Role, boot_offset: Duration, host: A) -> Self {
        let blocks = Blocks::new(config);
        Endpoint {
            config: *config,
            role,
            sender: Sender::new(&of_role(config, role), boot_offset),
            receiver: Receiver::new(config),
            advertised_window: config.first_window() as u32,
            ecn: config.ecn.then(|| Ecn::new(config.marks)),
            has_extras: has_extras(config),
            is_bare: is_bare(config, role),
            is_linux: config.conventions == Conventions::Linux,
            full_bytes: config.wire_bytes(config.segment.get() as u32, 0),
            ack_bytes: config.wire_bytes(0, 0),
            blocks,
            is_ack_pending: false,
            burst: Burst::default(),
            host,
        }
    }

    /// Applies the negotiated parameters. Keeps the receive window, and the SYN of an end that has opened actively.
    fn reconfigure(&mut self, config: &Config, boot_offset: Duration) {
        let window = self.receiver.window.take();
        let mut fresh = Endpoint::with(config, self.role, boot_offset, Trusting);
        std::mem::swap(&mut self.sender, &mut fresh.sender);
        if fresh.sender.is_opened() {
            self.sender.adopt_handshake(fresh.sender);
        }
        (self.config, self.receiver) = (fresh.config, fresh.receiver);
        self.receiver.reads_at_once = false;
        (self.ecn, self.blocks, self.has_extras) = (fresh.ecn, fresh.blocks, fresh.has_extras);
        (self.full_bytes, self.ack_bytes) = (fresh.full_bytes, fresh.ack_bytes);
        self.receiver.window = window;
    }

    /// Processes a segment that was admitted and begins with `seq`. Returns `false` if what it acknowledges did not make the
    /// sender look for what to send.
    #[inline(always)]
    fn process(&mut self, now: Instant, segment: &TcpHeader, seq: u64) -> bool {
        let control = segment.flags & (flags::SYN | flags::FIN) != 0;
        let length = u64::from(segment.payload) + u64::from(control);
        if self.is_linux {
            return self.process_as_linux(now, segment, seq, length);
        }
        self.receive_options(segment, seq);
        self.receive_ack(now, segment, seq, length == 0);
        A::on_acknowledged(self, true);
        self.receive_data(now, segment, seq, length);
        true
    }

    /// Processes the marks and the timestamp of an acceptable segment that begins with `seq`.
    #[inline(always)]
    fn receive_options(&mut self, segment: &TcpHeader, seq: u64) {
        if let Some(ecn) = &mut self.ecn {
            if self.receiver.is_ack_waiting() && ecn.ends_run(segment, self.receiver.rcv_nxt) {
                self.receiver.challenge();
            }
            let was_echoing = ecn.is_echoing();
            if ecn.on_segment(segment) {
                self.sender.on_echo_of_mark();
            }
            if self.config.quick_acks > 0 && segment.payload > 0 {
                self.receiver.on_mark(!was_echoing && ecn.is_echoing(), segment.flags);
            }
        }
        if segment.has_timestamps {
            self.receiver.on_timestamp(seq, segment.options.timestamps.0);
        }
    }

    /// Processes the acknowledgment of a segment that begins with `seq`. `is_pure`: it has no data and may be a duplicate.
    /// What it finds lost can be retransmitted before [`Self::receive_data`].
    #[inline(always)]
    fn receive_ack(&mut self, now: Instant, segment: &TcpHeader, seq: u64, mut is_pure: bool) {
        if segment.flags & flags::ACK == 0 {
            return;
        }
        let sent = segment
            .has_timestamps
            .then(|| self.unwrap_timestamp(now, segment.options.timestamps.1));
        let ack = self.sender.unwrap(segment.ack);
        if let Some(sent) = sent
            && self.config.law.reads_arrivals()
        {
            self.on_passage(now, segment, sent);
        }
        if !self.config.one_way {
            is_pure &= self.sender.update_peer_window(seq, ack, u64::from(segment.window));
        }
        if segment.sack_blocks == 0 {
            self.sender.on_any_ack(now, ack, &[], is_pure, sent);
        } else {
            self.on_sack(now, ack, segment, is_pure, sent);
        }
    }

    /// Processes the data of a segment: `length` numbers from `seq` on.
    #[inline(always)]
    fn receive_data(&mut self, now: Instant, segment: &TcpHeader, seq: u64, length: u64) {
        if length == 0 {
            return;
        }
        if self.is_linux {
            self.receive_at_host(now, segment, seq, length);
        } else {
            let control = segment.flags & (flags::SYN | flags::FIN) != 0;
            let timers = &mut self.sender.flight.timers;
            let end = seq.wrapping_add(length);
            self.receiver.receive(&self.config, timers, now, seq, end, control);
        }
        if segment.flags & flags::SYN != 0 && self.role == Role::Acceptor && !self.config.one_way {
            self.sender.open();
        }
    }

    /// An ACK tells when the segment that it answers arrived. One that moves nothing echoes an older segment, which
    /// tells nothing (RFC 7323, section 4.3).
    fn on_passage(&mut self, now: Instant, segment: &TcpHeader, sent: Instant) {
        if self.sender.unwrap(segment.ack) > self.sender.flight.snd_una {
            let received = self.unwrap_timestamp(now, segment.options.timestamps.0);
            self.sender.on_passage(Passage { sent, received });
        }
    }

    /// An ACK with SACK blocks.
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

    /// The application writes `bytes`, of an end that is open or opens.
    fn write_data(&mut self, bytes: u64) {
        self.burst.reported = None;
        self.sender.write(bytes);
        self.wake();
    }

    /// Is it certain that there is nothing to send before the next input?
    #[inline(always)]
    pub fn is_quiet(&self) -> bool {
        self.sender.flight.is_quiet() && !self.receiver.is_ack_due()
    }

    /// The next segment to send now: fills in `header` and returns the length on the wire in bytes.
    #[inline(always)]
    fn poll_header(&mut self, now: Instant, header: &mut TcpHeader) -> Option<u32> {
        if self.is_quiet() || self.sender.flight.is_held_back(now) && self.has_data_only() {
            return None;
        }
        self.transmit(now, header)
    }

    /// Would the next segment leave because of its data, and for no other reason?
    #[inline]
    fn has_data_only(&self) -> bool {
        let has_more = self.has_extras || self.config.autotuning || self.blocks.is_some();
        !has_more && !self.receiver.is_ack_due()
    }

    #[inline(never)]
    fn transmit(&mut self, now: Instant, header: &mut TcpHeader) -> Option<u32> {
        if self.role == Role::Acceptor && self.receiver.rcv_nxt == 0 {
            // LISTEN: what has been written waits for the opener's SYN.
            return None;
        }
        if self.blocks.is_some() && self.sender.flight.snd_una > 0 {
            return self.transmit_unit(now, header);
        }
        header.has_timestamps = self.config.timestamps;
        if self.has_extras
            && let Some(bytes) = self.transmit_first(now, header)
        {
            return Some(bytes);
        }
        let sent_to = self.sender.flight.snd_max;
        if self.config.writes == WritePolicy::Messages {
            let out = self.sender.poll_transmit(now);
            return self.fill_in(now, header, out, sent_to);
        }
        let bytes = if self.is_linux && self.sender.flight.keeps_records() {
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

    /// The header of a segment with data, or else of an ACK that is due.
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
            // The first SYN acknowledges nothing, and in a one-way transfer nothing comes back.
            if self.receiver.rcv_nxt > 0 && !self.config.one_way {
                self.acknowledge(header);
            }
            self.receiver.data_sent(&self.config, now);
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
        Some(self.config.wire_bytes(header.payload, header.sack_blocks))
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

    /// SACK blocks, if there are any to tell of.
    #[inline]
    fn report_blocks(&self, header: &mut TcpHeader) {
        if self.config.sack && self.receiver.has_blocks() {
            let mut blocks = [(0, 0); MAX_SACK_BLOCKS];
            let most = self.config.max_sack_blocks();
            let count = self.receiver.sack_blocks(&mut blocks[..most]);
            header.set_sack_blocks(&blocks[..count]);
        }
    }

    /// Ticks of the timestamp clock, from 1 so that 0 means "none".
    fn timestamp(&self, now: Instant) -> u32 {
        (now.as_nanos() / self.config.timestamp_tick.as_nanos() + 1) as u32
    }

    /// When a segment left, to the precision of its timestamp.
    fn unwrap_timestamp(&self, now: Instant, echo: u32) -> Instant {
        let ago = u64::from(self.timestamp(now).wrapping_sub(echo));
        let tick = self.config.timestamp_tick.as_nanos();
        Instant::from_nanos(now.as_nanos().saturating_sub(ago * tick))
    }

    /// The earliest deadline of all timers.
    #[inline]
    pub fn next_timeout(&self) -> Instant {
        self.sender.flight.timers.next()
    }

    /// A deadline of sender or receiver has come.
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
        if self.sender.flight.timers.is_due(Timer::Persist, now) {
            self.sender.flight.timers.stop(Timer::Persist);
            if self.sender.flight.peer_window > 0 {
                self.sender.send_what_fits();
            }
        }
        self.sender.handle_timeout(now);
    }

    /// Has everything written been acknowledged?
    #[inline]
    pub fn is_all_acked(&self) -> bool {
        self.sender.is_all_acked()
    }

    /// Application bytes received in order so far in this incarnation, padding included; a FIN
    /// counts as one more.
    #[inline]
    pub fn delivered_bytes(&self) -> u64 {
        self.receiver.rcv_nxt.saturating_sub(1)
    }

    /// Bytes sent in this incarnation that have been acknowledged, padding included.
    #[inline]
    pub fn acked_bytes(&self) -> u64 {
        self.sender.flight.snd_una.saturating_sub(1)
    }

    /// Bytes written that have never been sent.
    pub fn unsent_bytes(&self) -> u64 {
        self.sender.flight.write_end - self.sender.flight.snd_max
    }

    /// Advertises a window of `bytes` from now on, in place of that of the configuration. Not of a host whose buffers grow.
    pub fn set_advertised_window(&mut self, bytes: u32) {
        debug_assert!(!self.config.autotuning, "its window follows the buffer");
        self.advertised_window = bytes;
    }

    /// An acknowledgment is to leave now, whatever has come.
    pub fn acknowledge_now(&mut self) {
        if self.receiver.rcv_nxt > 0 {
            self.receiver.challenge();
        }
    }

    /// Segments received that brought nothing new.
    pub fn duplicates_received(&self) -> u64 {
        self.receiver.duplicates
    }

    /// Its parameters.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// Counters over all incarnations.
    pub fn counters(&self) -> SenderCounters {
        self.sender.flight.counters
    }

    /// The sending half, for probes.
    pub fn sender(&self) -> &Sender {
        &self.sender
    }

    /// Smoothed round-trip time; zero before the first sample.
    pub fn srtt(&self) -> Duration {
        self.sender.flight.rtt.srtt()
    }
}

#[cfg(test)]
mod tests;
