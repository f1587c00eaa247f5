//! Two endpoints with the same configuration, as in a simulation: no negotiation, no resets,
//! sequence numbers starting at 0.

use super::{Admission, Endpoint, Role};
use crate::config::Config;
use crate::ecn::Ecn;
use crate::flight::Resent;
use lasthop_base::packet::{Extension, Header, TcpHeader, flags};
use lasthop_base::units::{Duration, Instant};
use std::borrow::Borrow;

/// The [`Admission`] of an endpoint that has the same configuration as its peer.
#[derive(Clone, Copy, Debug)]
pub struct Trusting;

impl Admission for Trusting {
    /// Requests a separate ACK of the peer's SYN, and reads the data: the application of a simulated
    /// endpoint reads immediately.
    fn on_received(end: &mut Endpoint<Self>, now: Instant, segment: &TcpHeader, before: u64) {
        end.is_ack_pending |= segment.flags & flags::SYN != 0 && end.role == Role::Opener;
        let rcv_nxt = end.receiver.rcv_nxt;
        if rcv_nxt > before.max(1) {
            end.receiver.read_up_to(now, rcv_nxt - 1, true, true);
        }
    }
}

/// One of two endpoints with the same configuration.
pub type Connection = Endpoint<Trusting>;

impl Connection {
    /// Creates an endpoint; `boot_offset` is the phase of its clock within a tick.
    pub fn new(config: &Config, role: Role, boot_offset: Duration) -> Self {
        Endpoint::with(config, role, boot_offset, Trusting)
    }

    /// Starts a new connection instance between the same ports; counters continue.
    pub fn reset(&mut self, boot_offset: Duration) {
        self.sender.reset(boot_offset);
        self.receiver.reset(&self.sender.flight.config);
        if self.sender.flight.config.autotuning {
            self.advertised_window = self.sender.flight.config.first_window() as u32;
        }
        self.is_ack_pending = false;
        self.burst.clear();
        self.ecn = self.sender.flight.config.ecn.then(|| Ecn::new(self.sender.flight.config.marks));
        if let Some(blocks) = &mut self.blocks {
            blocks.sender.reset(&self.sender.flight.config);
            blocks.receiver.reset();
        }
    }

    /// Sends the SYN, if the profile has one. A send call opens the connection too.
    pub fn open(&mut self) {
        if self.role == Role::Opener && self.sender.flight.config.handshake {
            self.sender.open();
        }
    }

    /// Handles a send call: a message of `bytes`.
    pub fn write(&mut self, bytes: u64) {
        self.open();
        if self.role == Role::Acceptor
            && !self.sender.flight.config.one_way
            && self.sender.flight.config.handshake
        {
            // Data may be queued before the SYN arrives. It is sent after our SYN.
            self.sender.open();
        }
        self.sender.begin_write();
        self.write_data(bytes);
    }

    /// Discards the data that was written and never sent, such as that of an application that
    /// stops. Sent data is still repaired.
    pub fn discard_unsent(&mut self) {
        self.sender.discard_unsent();
        self.wake();
    }

    /// Handles a close call of the application.
    pub fn close(&mut self) {
        if self.role == Role::Acceptor
            && !self.sender.flight.config.one_way
            && self.sender.flight.config.handshake
        {
            // Our FIN follows our SYN, whether or not that was sent.
            self.sender.open();
        }
        self.sender.close();
    }

    /// Processes a segment that arrives.
    #[inline(always)]
    pub fn receive<X: Extension>(&mut self, now: Instant, segment: &Header<X>) {
        if !self.sender.flight.config.one_way {
            self.receive_any(now, segment.full().borrow());
        } else if segment.is_plain_ack() {
            // Fast path of a one-way sender.
            self.sender.on_plain_ack(now, self.sender.unwrap(segment.ack));
        } else {
            self.receive_one_way(now, segment);
        }
    }

    /// Like [`Self::receive`] of a one-way transfer, without a fast path. It reads the fields of the
    /// header itself, so that the fast path does not.
    #[inline(never)]
    fn receive_one_way<X: Extension>(&mut self, now: Instant, segment: &Header<X>) {
        self.receive_any(now, segment.full().borrow());
    }

    #[inline(never)]
    fn receive_any(&mut self, now: Instant, segment: &TcpHeader) {
        if self.blocks.is_some() {
            if matches!(segment.flags & flags::NOTICE, flags::ERSN | flags::ELN) {
                // A notification of a link, which LT-TCP does not support. It acknowledges nothing.
                return;
            }
            if segment.flags & flags::SYN == 0 {
                self.receive_unit(now, segment);
            } else {
                self.receive_segment(now, segment);
            }
            return self.wake();
        }
        self.receive_segment(now, segment);
    }

    #[inline(always)]
    fn receive_segment(&mut self, now: Instant, segment: &TcpHeader) {
        if segment.flags & flags::NOTICE != 0 && self.take_marks(now, segment) {
            return;
        }
        if !self.sender.flight.config.one_way && !self.is_acceptable(now, segment) {
            return;
        }
        let control = segment.flags & (flags::SYN | flags::FIN) != 0;
        let length = u64::from(segment.payload) + u64::from(control);
        let seq = self.receiver.unwrap(segment.seq);
        if self.policies.admission.ignores_old_segments && self.receiver.is_old(seq + length) {
            // RFC 9293, section 3.10.7.4: it is acknowledged, and all other information is dropped.
            self.receive_data(now, segment, seq, length);
            return self.receiver.challenge();
        }
        self.process(now, segment, seq);
    }

    /// Processes a segment at an endpoint that [only acknowledges](Config::only_acknowledges).
    /// Combines [`Self::receive`] and [`Self::poll_transmit`]: `header` is replaced by that of the
    /// ACK. If there is no ACK, `header` is meaningless.
    #[inline(always)]
    pub fn answer<X: Extension>(&mut self, now: Instant, header: &mut Header<X>) -> Option<u32> {
        // Fast path: data in order without flags.
        if header.flags == 0
            && !header.has_timestamps
            && self.ecn.is_none()
            && self.receiver.take_next(header.seq, header.payload)
        {
            *header = self.bare_ack();
            return Some(self.ack_bytes);
        }
        self.answer_any(now, header)
    }

    /// Returns the header of an ACK without options.
    #[inline(always)]
    fn bare_ack<X: Extension>(&self) -> Header<X> {
        Header {
            seq: self.sender.flight.snd_nxt as u32,
            ack: self.receiver.rcv_nxt as u32,
            window: self.advertised_window,
            flags: flags::ACK,
            ..Header::default()
        }
    }

    fn answer_any<X: Extension>(&mut self, now: Instant, header: &mut Header<X>) -> Option<u32> {
        let is_bare = self.has_bare_acks && header.flags == 0 && !header.has_timestamps;
        if is_bare && self.receiver.take_highest(header.seq, header.payload) {
            *header = self.bare_ack();
            return Some(self.ack_bytes);
        }
        self.receive_any(now, header.full().borrow());
        if self.has_bare_acks && self.receiver.is_ack_due() && self.receiver.rcv_nxt > 0 {
            if let Some(window) = self.receiver.advertise() {
                self.advertised_window = window;
            }
            self.receiver.ack_sent(&mut self.sender.flight.timers);
            *header = self.bare_ack();
            return Some(self.ack_bytes);
        }
        let mut answer = TcpHeader::default();
        let bytes = self.poll_transmit(now, &mut answer)?;
        *header = X::narrow(&answer);
        Some(bytes)
    }

    /// Returns the next segment to send now: fills in `header` and returns the length on the wire
    /// in bytes.
    #[inline(always)]
    pub fn poll_transmit(&mut self, now: Instant, header: &mut TcpHeader) -> Option<u32> {
        // Most calls return here, since drivers poll until nothing is left to send.
        if self.is_quiet() {
            return None;
        }
        if let Some((bare, bytes)) = self.poll_bare(now) {
            *header = bare;
            return Some(bytes);
        }
        self.poll_any(now, header)
    }

    #[inline]
    fn poll_any(&mut self, now: Instant, header: &mut TcpHeader) -> Option<u32> {
        if let Some(departed) = self.burst.departed.pop_front() {
            self.sender.flight.output.resent =
                if departed.is_again { Resent::All } else { Resent::Nothing };
            *header = departed.header;
            return Some(departed.bytes);
        }
        self.poll_header(now, header)
    }

    /// Returns the next segment to send now and its length on the wire, if it is full and has a
    /// sequence number only.
    #[inline(always)]
    pub fn poll_bare<X: Extension>(&mut self, now: Instant) -> Option<(Header<X>, u32)> {
        if !self.is_bare {
            return None;
        }
        let seq = self.sender.flight.poll_full(now)? as u32;
        let payload = self.sender.flight.mss as u32;
        Some((Header { seq, payload, ..Header::default() }, self.full_bytes))
    }

    /// Handles a deadline.
    pub fn handle_timeout(&mut self, now: Instant) {
        self.handle_data_timeout(now);
    }

    /// Checks whether a segment is acceptable (RFC 9293, section 3.10.7). Resets are not modelled:
    /// where the RFC requires a reset, nothing is sent.
    #[inline]
    fn is_acceptable(&mut self, now: Instant, segment: &TcpHeader) -> bool {
        let has_ack = segment.flags & flags::ACK != 0;
        let ack = self.sender.unwrap(segment.ack);
        if self.receiver.rcv_nxt == 0 {
            // LISTEN and SYN-SENT: only a SYN reports the peer's sequence numbers. It must
            // acknowledge our SYN if that was sent.
            let acks_syn = !has_ack || ack > 0 && self.sender.has_sent(ack);
            return segment.flags & flags::SYN != 0 && acks_syn;
        }
        if self.policies.admission.challenges_syn_ack && has_ack && segment.flags & flags::SYN != 0
        {
            // RFC 5961, section 4.2: an ACK without information about the segment.
            let (seq, end) = self.span(segment);
            self.receiver.look_for_late_original(seq, end);
            self.receiver.challenge();
            return false;
        }
        if !has_ack {
            // Fifth: "if the ACK bit is off, drop the segment and return". Before that, a segment
            // outside the window, such as a retransmitted SYN, is acknowledged.
            if self.receiver.unwrap(segment.seq) < self.receiver.rcv_nxt {
                let (seq, end) = self.span(segment);
                self.receiver.look_for_late_original(seq, end);
                let awaits_ack = self.role == Role::Acceptor && self.sender.flight.snd_una == 0;
                match self.policies.handshake.repeats_syn && awaits_ack {
                    true => self.sender.send_syn_again(now),
                    false => self.receiver.challenge(),
                }
            }
            return false;
        }
        if !self.sender.has_sent(ack) {
            self.receiver.challenge();
            return false;
        }
        true
    }
}
