//! What an arrival has to pass: RFC 9293, section 3.10.7, with the stricter checks of RFC 5961 and those of
//! RFC 7323, section 5.

use super::states::State;
use super::{EcnOffer, Endpoint, Host, Segment, SocketError};
use crate::timers::Timer;
use lasthop_base::packet::{Ecn, TcpHeader, flags};
use lasthop_base::units::{Duration, Instant};

/// The shortest that a timer of Linux may be (`TCP_TIMEOUT_MIN`).
const SHORTEST_TIMEOUT: Duration = Duration::from_millis(2);

/// The longest that an ACK of Linux may be delayed (`TCP_DELACK_MAX`).
const LONGEST_DELAY: Duration = Duration::from_millis(200);

/// A timestamp is older than another (RFC 7323, section 4).
fn is_older(stamp: u32, than: u32) -> bool {
    (stamp.wrapping_sub(than) as i32) < 0
}

impl Endpoint<Host> {
    /// A segment arrived.
    pub fn receive(&mut self, now: Instant, segment: &Segment) {
        let is_gone = self.host.state == State::Closed && self.is_open() || self.is_reduced();
        if !(is_gone && self.is_linux) {
            self.host.traffic.segments_received += 1;
            self.host.traffic.data_segments_received += u64::from(segment.header.payload > 0);
        }
        let is_request = self.host.state == State::SynReceived && self.is_passive();
        match self.host.state {
            State::Closed => self.refuse(&segment.header),
            State::Listen => self.receive_in_listen(segment),
            State::SynSent => self.receive_in_syn_sent(now, segment),
            State::SynReceived => self.receive_in_syn_received(now, segment),
            _ if !self.is_open() => self.receive_in_syn_received(now, segment),
            _ => self.receive_synchronized(now, segment),
        }
        if is_request && !self.is_open() {
            // It has reached no connection yet.
            self.host.traffic.segments_received -= 1;
            self.host.traffic.data_segments_received -= u64::from(segment.header.payload > 0);
        }
    }

    /// Answers a segment that belongs to no connection with a reset (3.10.7.1).
    fn refuse(&mut self, header: &TcpHeader) {
        // Who listens in Linux passes over what has neither SYN nor ACK.
        let is_passed_over =
            self.is_passive() && self.is_linux && !header.has(flags::ACK | flags::SYN);
        if header.has(flags::RST) || is_passed_over {
            return;
        }
        let header = if header.has(flags::ACK) {
            TcpHeader { flags: flags::RST, seq: header.ack, ..TcpHeader::default() }
        } else {
            TcpHeader {
                flags: flags::RST | flags::ACK,
                ack: header.seq.wrapping_add(header.length()),
                ..TcpHeader::default()
            }
        };
        self.host.replies.push_back(Segment { header, options: super::SynOptions::default() });
    }

    /// What the peer's SYN says.
    fn take_syn(&mut self, segment: &Segment) {
        self.host.handshake.peer_sequence = segment.header.seq;
        self.host.handshake.peer_options = segment.options;
        self.host.handshake.peer_has_timestamps = segment.header.has_timestamps;
        let both = segment.header.flags & (flags::ECE | flags::CWR);
        // An answer grants what our SYN asked for; a SYN that could be marked itself is no RFC 3168's.
        self.host.handshake.peer_has_ecn = if segment.header.has(flags::ACK) {
            // Linux forgets that it has asked no longer.
            let has_asked = self.host.handshake.syns_sent == 1 || self.is_linux;
            both == flags::ECE && self.host.settings.ecn == EcnOffer::Asks && has_asked
        } else {
            both == flags::ECE | flags::CWR && segment.header.ecn == Ecn::NotEct
        };
        self.host.handshake.peer_syn = (segment.header.window, segment.header.options.timestamps.0);
        if !segment.header.has_timestamps {
            self.host.handshake.peer_syn.1 = 0;
        }
    }

    /// 3.10.7.2.
    fn receive_in_listen(&mut self, segment: &Segment) {
        let header = &segment.header;
        if header.has(flags::RST) {
            return;
        }
        if header.has(flags::ACK) {
            return self.refuse(header);
        }
        let ends = header.has(flags::FIN) && self.is_linux;
        if header.has(flags::SYN) && !ends {
            self.take_syn(segment);
            self.negotiate();
            self.host.state = State::SynReceived;
            self.sender.open();
        }
    }

    /// 3.10.7.3.
    fn receive_in_syn_sent(&mut self, now: Instant, segment: &Segment) {
        let header = &segment.header;
        let acks_syn = header.ack == self.host.settings.initial_sequence.wrapping_add(1);
        if header.has(flags::ACK) && !acks_syn {
            if self.is_linux && self.host.handshake.syns_sent == 1 {
                // What the reset answers may be left from before: another SYN follows at once.
                self.start(Timer::Retransmission, now, SHORTEST_TIMEOUT);
            }
            return self.refuse(header);
        }
        if header.has(flags::RST) {
            if header.has(flags::ACK) {
                self.end(Some(SocketError::Refused));
            }
            return;
        }
        if !header.has(flags::SYN) {
            return;
        }
        self.take_syn(segment);
        self.negotiate();
        if header.has(flags::ACK) {
            let echo = self.echo(now, header);
            self.establish(now, echo);
            self.begin_search();
            self.sync_segment();
            self.take_first_window(0, header);
            if self.host.settings.delays_first_ack {
                self.start(Timer::DelayedAck, now, LONGEST_DELAY);
                self.receiver.set_quick(false);
            } else {
                self.receiver.challenge();
            }
        } else {
            // Both have sent a SYN.
            self.host.state = State::SynReceived;
            self.sender.answer_syn(now);
        }
    }

    /// When the segment left that this one echoes.
    fn echo(&self, now: Instant, header: &TcpHeader) -> Option<Instant> {
        (header.has_timestamps && self.host.settings.timestamps)
            .then(|| self.unwrap_timestamp(now, header.options.timestamps.1))
    }

    /// SYN-RECEIVED of 3.10.7.4, and FIN-WAIT-1 before the SYN is acknowledged.
    fn receive_in_syn_received(&mut self, now: Instant, segment: &Segment) {
        let header = &segment.header;
        let next = self.host.handshake.peer_sequence.wrapping_add(1);
        let window = self.host.settings.receive_buffer.min(u16::MAX.into());
        let offset = header.seq.wrapping_sub(next);
        if header.has(flags::SYN)
            && header.seq == self.host.handshake.peer_sequence
            && !header.has(flags::RST)
        {
            if self.is_linux && !header.has(flags::ACK) {
                self.send_syn_again(now);
                return;
            }
            if !header.has(flags::ACK) {
                return self.acknowledge_syn(now);
            }
            // Simultaneous open: the peer's SYN and ACK repeat its SYN.
        } else if self.is_passive() && self.is_linux && self.acks_wrong_syn(header) {
            return self.refuse(header);
        } else if offset >= window || self.has_wrong_stamps(header) {
            if !header.has(flags::RST) {
                self.acknowledge_syn(now);
            }
            return;
        } else if header.has(flags::RST) {
            if offset == 0 {
                if self.is_passive() {
                    self.forget_peer();
                } else {
                    self.end(Some(SocketError::Refused));
                }
            } else {
                self.acknowledge_syn(now);
            }
            return;
        } else if header.has(flags::SYN) {
            return self.acknowledge_syn(now);
        }
        if !header.has(flags::ACK) {
            return;
        }
        if self.acks_wrong_syn(header) {
            return self.refuse(header);
        }
        let is_bare = header.length() == 0 && self.is_passive();
        if is_bare && self.host.settings.deferred_accept >= self.host.handshake.syns_sent {
            self.host.handshake.is_deferred = true;
            return;
        }
        let echo = self.echo(now, header);
        self.establish(now, echo);
        let mut rest = *segment;
        if header.has(flags::SYN) {
            rest.header.flags &= !flags::SYN;
            rest.header.seq = next;
            self.take_first_window(0, &rest.header);
            if header.has_timestamps && self.config.timestamps {
                self.receiver.on_timestamp(0, header.options.timestamps.0);
            }
            if self.is_linux {
                self.receiver.repeat_syn(&self.config);
            }
            return;
        }
        self.take_first_window(self.host.handshake.shifts.0, header);
        // The first window does not make segments smaller; a larger one does.
        self.begin_search();
        self.receive_synchronized(now, &rest);
    }

    /// The window of the segment that opens the connection. That of a SYN is not scaled (RFC 7323,
    /// section 2.2).
    fn take_first_window(&mut self, shift: u8, header: &TcpHeader) {
        self.sender.flight.peer_window = u64::from(header.window) << shift;
        self.sender.refresh();
        self.note_window();
    }

    fn send_syn_again(&mut self, now: Instant) {
        let deadline = self.sender.flight.timers.deadline(Timer::Retransmission);
        self.repeat_syn(now);
        if self.is_passive() {
            // The timer of a listener's answer starts anew.
            return;
        }
        self.sender.flight.timers.set(Timer::Retransmission, deadline);
        self.host.traffic.segments_received -= 1;
    }

    /// <SEQ=SND.NXT><ACK=RCV.NXT><CTL=ACK> before there is a connection.
    fn acknowledge_syn(&mut self, now: Instant) {
        let mut header = TcpHeader {
            flags: flags::ACK,
            seq: 1,
            ack: 1,
            window: self.host.settings.receive_buffer.min(u16::MAX.into()),
            has_timestamps: self.host.settings.timestamps
                && self.host.handshake.peer_has_timestamps,
            ..TcpHeader::default()
        };
        if header.has_timestamps {
            let stamps = (self.timestamp(now), self.host.handshake.peer_syn.1);
            header.options.timestamps = stamps;
        }
        self.reply(header);
    }

    /// Does it acknowledge something else than our SYN?
    fn acks_wrong_syn(&self, header: &TcpHeader) -> bool {
        header.has(flags::ACK) && header.ack != self.host.settings.initial_sequence.wrapping_add(1)
    }

    /// Is the timestamp of an answer to our SYN and ACK older than that of the peer's SYN (RFC 7323, section 5.3, R1), or, in
    /// Linux, does it echo none of those that we have sent?
    fn has_wrong_stamps(&self, header: &TcpHeader) -> bool {
        if !(header.has_timestamps
            && self.host.settings.timestamps
            && self.host.handshake.peer_has_timestamps)
        {
            return false;
        }
        let (value, echo) = header.options.timestamps;
        let (first, last) = self.host.handshake.syn_stamps;
        let is_echo = echo == 0 || !is_older(echo, first) && !is_older(last, echo);
        !header.has(flags::RST)
            && (is_older(value, self.host.handshake.peer_syn.1)
                || self.is_linux && self.is_passive() && !is_echo)
    }

    /// 3.10.7.4, from ESTABLISHED on.
    fn receive_synchronized(&mut self, now: Instant, segment: &Segment) {
        let wire = segment.header;
        let mut header = self.own_numbers(wire);
        header.window <<= self.host.handshake.shifts.0;
        let receiver = &self.receiver;
        let rcv_nxt = receiver.rcv_nxt;
        let seq = receiver.unwrap(header.seq);
        // A number before the peer's SYN is far right of every window, even if its end wraps around.
        let end = seq.wrapping_add(u64::from(header.length()));
        let window = self.window().allowed(rcv_nxt);
        // RFC 7323, section 5.3, R1: an old timestamp. A reset is exempt.
        let is_old = header.has_timestamps
            && self.config.timestamps
            && receiver.ts_recent != 0
            && is_older(header.options.timestamps.0, receiver.ts_recent);
        // What lies left of the last ACK is old, what lies right of the window was never allowed. The
        // first byte beyond the window passes without data, as probes do.
        let is_outside = end < receiver.last_ack_sent() || seq > rcv_nxt + window;
        let takes_whole =
            self.is_linux && self.unread() == 0 && !receiver.has_holes() && window > 0;
        if header.has(flags::RST) {
            return self.receive_reset(seq, rcv_nxt, window, is_outside);
        }
        let is_linux = self.is_linux;
        if is_linux && !header.has(flags::ACK | flags::SYN) && !self.is_reduced() {
            // Linux drops what says nothing before it looks at its numbers.
            return;
        }
        let is_old = is_old && !self.is_reordered_ack(&header, seq);
        if !(is_old || is_outside) && self.is_reduced() && self.settle_reduced(now, &wire, seq, end)
        {
            return;
        }
        if is_linux && is_old && header.length() == 0 && seq < rcv_nxt {
            // An old ACK tells nothing, not even that it is old.
            return;
        }
        if is_old || is_outside || window == 0 && header.payload > 0 && end > rcv_nxt {
            if is_linux && is_old && end > seq && seq < rcv_nxt && !header.has(flags::SYN) {
                // What has come twice is reported all the same.
                self.receiver.repeat(&self.config, (seq, end.min(rcv_nxt)));
            }
            return self.on_unacceptable(now, &header, end <= rcv_nxt && !is_old);
        }
        if header.has(flags::SYN) || !header.has(flags::ACK) {
            if header.has(flags::SYN) {
                self.receiver.challenge();
            }
            return;
        }
        let flight = &self.sender.flight;
        let ack = self.sender.unwrap(header.ack);
        if ack > flight.snd_max || self.is_too_old(ack) {
            return self.receiver.challenge();
        }
        // Data beyond the window are cut off; Linux takes or leaves them whole.
        let allowed = (rcv_nxt + window).saturating_sub(seq);
        if self.is_linux && !takes_whole && u64::from(header.payload) > allowed {
            return self.on_unacceptable(now, &header, false);
        }
        if u64::from(header.payload) > allowed && !takes_whole {
            header.payload = allowed as u32;
            header.flags &= !flags::FIN;
        }
        let data_end = seq + u64::from(header.payload);
        // Nobody will read what comes after the application has let go, nor what a peer sends in place of what it has
        // acknowledged to have ended.
        let is_over = match self.host.state {
            State::FinWait1 | State::FinWait2 => self.host.app.is_read_shut,
            State::CloseWait | State::Closing | State::LastAck => self.is_linux && seq < rcv_nxt,
            _ => false,
        };
        // A FIN behind a hole tells of data too.
        let tells_of_data = header.payload > 0 || is_linux && header.has(flags::FIN);
        if is_over && tells_of_data && data_end > rcv_nxt {
            if is_linux {
                // What it acknowledges counts, and its window; it is not a bare ACK.
                self.receive_options(&TcpHeader { ecn: Ecn::NotEct, ..header }, rcv_nxt - 1);
                self.receive_ack(now, &header, seq, false);
                self.host.progress.probes_unanswered = 0;
            }
            self.refuse(&wire);
            return self.end(Some(self.reset_error()));
        }
        let awaits_fin = is_linux && !self.has_peer_closed();
        if header.has(flags::FIN) && data_end < rcv_nxt {
            // Its number is that of a byte that has arrived: it ends nothing.
        } else if header.has(flags::FIN) {
            // One below another that has been waiting takes its place in Linux.
            let known = self.host.peer_fin.filter(|&fin| !is_linux || fin <= data_end.max(rcv_nxt));
            self.host.peer_fin = known.or(Some(data_end));
        } else if awaits_fin && self.host.peer_fin.is_some_and(|fin| (seq..data_end).contains(&fin))
        {
            // Linux forgets a FIN above a hole when data come in its place.
            self.host.peer_fin = None;
        } else if !awaits_fin
            && self
                .host
                .peer_fin
                .is_some_and(|fin| data_end > fin && !(is_linux && data_end <= rcv_nxt))
        {
            // Nothing follows a FIN.
            header.payload = (self.host.peer_fin.unwrap_or(seq)).saturating_sub(seq) as u32;
        }
        self.pass_on(now, &header, ack);
    }

    /// Has Linux given up all but the numbers of the connection?
    pub(super) fn is_reduced(&self) -> bool {
        let is_left = match self.host.state {
            State::FinWait2 => self.host.app.is_orphan,
            State::TimeWait => true,
            _ => false,
        };
        self.is_linux && is_left
    }

    /// A segment within the window of one that only waits for the peer's FIN, or for the end of TIME-WAIT: data are
    /// refused, an ACK is passed over whatever it acknowledges. Says whether that was all: a FIN in order goes its way.
    fn settle_reduced(&mut self, now: Instant, wire: &TcpHeader, seq: u64, end: u64) -> bool {
        let rcv_nxt = self.receiver.rcv_nxt;
        let is_new = wire.has(flags::ACK) && end > rcv_nxt && end != seq;
        if self.host.state == State::TimeWait {
            self.start(Timer::Linger, now, self.host.settings.time_wait);
            if seq != rcv_nxt || end != seq {
                self.receiver.challenge();
            } else if wire.has_timestamps {
                self.receiver.on_timestamp(0, wire.options.timestamps.0);
            }
            return true;
        }
        let is_refused = wire.has(flags::SYN) && seq >= rcv_nxt
            || is_new && (!wire.has(flags::FIN) || end != rcv_nxt + 1);
        if is_refused {
            self.refuse(wire);
            self.end(None);
        }
        is_refused || !is_new
    }

    /// Is an old timestamp that of an ACK which others have overtaken (RFC 7323, section 5.2, on the age of TS.Recent;
    /// Linux: `tcp_disordered_ack`)? It repeats what is known, and is not older than a round trip can make it.
    fn is_reordered_ack(&self, header: &TcpHeader, seq: u64) -> bool {
        let (receiver, flight) = (&self.receiver, &self.sender.flight);
        let age = receiver.ts_recent.wrapping_sub(header.options.timestamps.0);
        let rto = flight.rtt.rto().as_nanos() / 1_000_000;
        header.length() == 0
            && seq == receiver.rcv_nxt
            && self.sender.unwrap(header.ack) == flight.snd_una
            && seq <= flight.window_seq
            && flight.peer_window == u64::from(header.window)
            && u64::from(age) * 5 <= rto * 6
    }

    /// What an application hears of a reset.
    fn reset_error(&self) -> SocketError {
        if self.host.state == State::CloseWait {
            SocketError::BrokenPipe
        } else {
            SocketError::Reset
        }
    }

    /// RFC 5961, section 3.2.
    fn receive_reset(&mut self, seq: u64, rcv_nxt: u64, window: u64, is_outside: bool) {
        if seq == rcv_nxt || self.is_linux && self.receiver.highest() == Some(seq) {
            let error = self.reset_error();
            self.end((self.host.state != State::TimeWait).then_some(error));
        } else if !is_outside && seq >= rcv_nxt && seq < rcv_nxt + window.max(1) {
            self.receiver.challenge();
        }
    }

    /// "If an incoming segment is not acceptable, an acknowledgment should be sent in reply".
    fn on_unacceptable(&mut self, now: Instant, header: &TcpHeader, is_duplicate: bool) {
        let seq = self.receiver.unwrap(header.seq);
        // Numbers before the peer's SYN were never received.
        let is_duplicate = is_duplicate && seq < self.receiver.rcv_nxt;
        if is_duplicate && header.payload > 0 && header.has(flags::ACK) && !header.has(flags::SYN) {
            // The receiver counts and reports duplicates. All that the segment says besides is dropped.
            self.receive_data(now, header, seq, header.length().into());
        }
        if self.host.state == State::TimeWait && header.has(flags::FIN) {
            self.start(Timer::Linger, now, self.host.settings.time_wait);
        }
        if self.is_linux
            && is_duplicate
            && header.payload == 0
            && header.has(flags::FIN)
            && !header.has(flags::SYN)
        {
            // A FIN is a number that has come twice.
            self.receiver.repeat(&self.config, (seq, seq + 1));
        }
        self.receiver.challenge();
    }

    /// Whether `ack` is below SND.UNA - MAX.SND.WND (RFC 5961, section 5.2). Linux bounds MAX.SND.WND by the bytes that
    /// were acknowledged.
    fn is_too_old(&self, ack: u64) -> bool {
        let acked = self.acked_bytes() + u64::from(!self.is_passive());
        let bound = if self.is_linux { acked } else { u64::MAX };
        ack + self.host.path.largest_window().min(bound) < self.sender.flight.snd_una
    }
}
