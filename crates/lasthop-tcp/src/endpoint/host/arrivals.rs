//! Checks of arriving segments: RFC 9293, section 3.10.7, with the stricter checks of RFC 5961 and
//! those of RFC 7323, section 5.

use super::states::State;
use super::{EcnOffer, Endpoint, Host, Segment, SocketError};
use crate::timers::Timer;
use lasthop_base::packet::{Ecn, TcpHeader, flags};
use lasthop_base::units::{Duration, Instant};

/// Minimum duration of a timer in Linux (`TCP_TIMEOUT_MIN`).
const SHORTEST_TIMEOUT: Duration = Duration::from_millis(2);

/// Maximum delay of an ACK in Linux (`TCP_DELACK_MAX`).
const LONGEST_DELAY: Duration = Duration::from_millis(200);

/// Returns `true` if a timestamp is older than another (RFC 7323, section 4).
fn is_older(stamp: u32, than: u32) -> bool {
    (stamp.wrapping_sub(than) as i32) < 0
}

impl Endpoint<Host> {
    /// Processes a segment that arrives.
    pub fn receive(&mut self, now: Instant, segment: &Segment) {
        self.note_input(now);
        let is_gone = self.host.state == State::Closed && self.is_open() || self.is_reduced();
        if !(is_gone && self.policies.admission.reduces_closed) {
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
            // The segment has not reached a connection yet.
            self.host.traffic.segments_received -= 1;
            self.host.traffic.data_segments_received -= u64::from(segment.header.payload > 0);
        }
    }

    /// Answers a segment without a connection by a reset (3.10.7.1).
    fn refuse(&mut self, header: &TcpHeader) {
        // A listening socket in Linux ignores segments with neither SYN nor ACK.
        let is_passed_over = self.is_passive()
            && self.policies.handshake.has_strict_listener
            && !header.has(flags::ACK | flags::SYN);
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

    /// Records the contents of the peer's SYN.
    fn take_syn(&mut self, segment: &Segment) {
        self.host.handshake.peer_sequence = segment.header.seq;
        self.host.handshake.peer_options = segment.options;
        self.host.handshake.peer_has_timestamps = segment.header.has_timestamps;
        let both = segment.header.flags & (flags::ECE | flags::CWR);
        // A SYN/ACK grants the request of our SYN. A SYN that is itself ECN-capable does not
        // conform to RFC 3168.
        self.host.handshake.peer_has_ecn = if segment.header.has(flags::ACK) {
            // Linux also accepts ECN if its latest SYN did not request it.
            let has_asked =
                self.host.handshake.syns_sent == 1 || self.policies.handshake.keeps_ecn_request;
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
        let ends = header.has(flags::FIN) && self.policies.handshake.has_strict_listener;
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
            if self.policies.handshake.retries_after_wrong_ack && self.host.handshake.syns_sent == 1
            {
                // The reset segment may be from a previous connection: another SYN is sent
                // immediately.
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
            // Simultaneous open.
            self.host.state = State::SynReceived;
            self.sender.answer_syn(now);
        }
    }

    /// Send time of the segment whose timestamp is echoed.
    fn echo(&self, now: Instant, header: &TcpHeader) -> Option<Instant> {
        (header.has_timestamps && self.host.settings.timestamps)
            .then(|| self.unwrap_timestamp(now, header.options.timestamps.1))
    }

    /// Processes a segment in SYN-RECEIVED (3.10.7.4), and in FIN-WAIT-1 before the SYN is
    /// acknowledged.
    fn receive_in_syn_received(&mut self, now: Instant, segment: &Segment) {
        let header = &segment.header;
        let next = self.host.handshake.peer_sequence.wrapping_add(1);
        let window = self.host.settings.receive_buffer.min(u16::MAX.into());
        let offset = header.seq.wrapping_sub(next);
        if header.has(flags::SYN)
            && header.seq == self.host.handshake.peer_sequence
            && !header.has(flags::RST)
        {
            if self.policies.handshake.repeats_syn && !header.has(flags::ACK) {
                self.send_syn_again(now);
                return;
            }
            if !header.has(flags::ACK) {
                return self.acknowledge_syn(now);
            }
            // Simultaneous open: the peer's SYN/ACK repeats its SYN.
        } else if self.is_passive()
            && self.policies.handshake.has_strict_listener
            && self.acks_wrong_syn(header)
        {
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
        if self.policies.handshake.repeats_syn && self.host.handshake.syns_repeated > 0 {
            // The SYN/ACK yields no RTT sample (Linux: `tcp_init_metrics`).
            self.sender.flight.rtt.after_lost_syn();
        }
        let mut rest = *segment;
        if header.has(flags::SYN) {
            rest.header.flags &= !flags::SYN;
            rest.header.seq = next;
            self.take_first_window(0, &rest.header);
            if header.has_timestamps && self.sender.flight.config.timestamps {
                self.receiver.on_timestamp(0, header.options.timestamps.0);
            }
            if self.policies.handshake.repeats_syn {
                self.receiver.repeat_syn(&self.sender.flight.config);
            }
            return;
        }
        self.take_first_window(self.host.handshake.shifts.0, header);
        // The first window does not reduce the segment size; a later larger window does.
        self.begin_search();
        self.receive_synchronized(now, &rest);
    }

    /// Records the window of the segment that opens the connection. The window of a SYN is not
    /// scaled (RFC 7323, section 2.2).
    fn take_first_window(&mut self, shift: u8, header: &TcpHeader) {
        self.sender.flight.peer.window = u64::from(header.window) << shift;
        self.sender.refresh();
        self.note_window();
    }

    fn send_syn_again(&mut self, now: Instant) {
        let deadline = self.sender.flight.timers.deadline(Timer::Retransmission);
        self.repeat_syn(now);
        if self.is_passive() {
            // The timer for the SYN/ACK of a listener is restarted.
            return;
        }
        self.sender.flight.timers.set(Timer::Retransmission, deadline);
        self.host.traffic.segments_received -= 1;
    }

    /// Sends <SEQ=SND.NXT><ACK=RCV.NXT><CTL=ACK> before the connection is established.
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

    /// Returns `true` if it acknowledges anything other than our SYN.
    fn acks_wrong_syn(&self, header: &TcpHeader) -> bool {
        header.has(flags::ACK) && header.ack != self.host.settings.initial_sequence.wrapping_add(1)
    }

    /// Returns `true` if the timestamp of an answer to our SYN/ACK is older than that of the peer's
    /// SYN (RFC 7323, section 5.3, R1) or, in Linux, echoes a timestamp that was not sent.
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
                || self.policies.handshake.has_strict_listener && self.is_passive() && !is_echo)
    }

    /// Processes a segment in ESTABLISHED and later states (3.10.7.4).
    fn receive_synchronized(&mut self, now: Instant, segment: &Segment) {
        let wire = segment.header;
        let mut header = self.own_numbers(wire);
        header.window <<= self.host.handshake.shifts.0;
        let receiver = &self.receiver;
        let rcv_nxt = receiver.rcv_nxt;
        let seq = receiver.unwrap(header.seq);
        // A sequence number before the peer's SYN is far above every window, even if its end wraps
        // around.
        let end = seq.wrapping_add(u64::from(header.length()));
        let window = self.window().allowed(rcv_nxt);
        // RFC 7323, section 5.3, R1: old timestamp. Resets are exempt.
        let is_old = header.has_timestamps
            && self.sender.flight.config.timestamps
            && receiver.ts_recent != 0
            && is_older(header.options.timestamps.0, receiver.ts_recent);
        // A segment below the last ACK is old, and one above the window was never permitted. The
        // first byte above the window is accepted without data, as used by window probes.
        let is_outside = end < receiver.last_ack_sent() || seq > rcv_nxt + window;
        let takes_whole = self.policies.admission.takes_whole_segments
            && self.unread() == 0
            && !receiver.has_holes()
            && window > 0;
        if header.has(flags::RST) {
            return self.receive_reset(seq, rcv_nxt, window, is_outside);
        }
        let rules = self.policies.admission;
        if rules.requires_ack && !header.has(flags::ACK | flags::SYN) && !self.is_reduced() {
            // Linux drops a segment with neither ACK nor SYN before it checks the sequence number.
            return;
        }
        let is_old = is_old && !self.is_reordered_ack(&header, seq);
        if !(is_old || is_outside) && self.is_reduced() && self.settle_reduced(now, &wire, seq, end)
        {
            return;
        }
        if rules.ignores_old_acks && is_old && header.length() == 0 && seq < rcv_nxt {
            // An old ACK is ignored and not answered.
            return;
        }
        if is_old || is_outside || window == 0 && header.payload > 0 && end > rcv_nxt {
            if is_old && rules.reports_unacceptable {
                self.report_old(&header, seq, end);
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
        // Data above the window is cut off. Linux accepts or drops such a segment as a whole.
        let allowed = (rcv_nxt + window).saturating_sub(seq);
        if rules.takes_whole_segments && !takes_whole && u64::from(header.payload) > allowed {
            return self.on_unacceptable(now, &header, false);
        }
        if u64::from(header.payload) > allowed && !takes_whole {
            header.payload = allowed as u32;
            header.flags &= !flags::FIN;
        }
        let data_end = seq + u64::from(header.payload);
        if self.is_refused(&header, seq, data_end) {
            return self.refuse_data(now, &wire, &header, seq);
        }
        self.place_fin(&mut header, seq, data_end);
        self.pass_on(now, &header, ack);
    }

    /// Reports duplicate data of a segment with an old timestamp.
    fn report_old(&mut self, header: &TcpHeader, seq: u64, end: u64) {
        let rcv_nxt = self.receiver.rcv_nxt;
        if end > seq && seq < rcv_nxt && !header.has(flags::SYN) {
            self.receiver.repeat(&self.sender.flight.config, (seq, end.min(rcv_nxt)));
        }
    }

    /// Returns `true` for new data that is not read: after the application has closed the socket,
    /// or above the end of the peer's stream that was acknowledged.
    fn is_refused(&self, header: &TcpHeader, seq: u64, data_end: u64) -> bool {
        let revises_fin = self.policies.admission.revises_fin;
        let rcv_nxt = self.receiver.rcv_nxt;
        let is_over = match self.host.state {
            State::FinWait1 | State::FinWait2 => self.host.app.is_read_shut,
            State::CloseWait | State::Closing | State::LastAck => revises_fin && seq < rcv_nxt,
            _ => false,
        };
        // A FIN above a hole indicates data as well.
        let tells_of_data = header.payload > 0 || revises_fin && header.has(flags::FIN);
        is_over && tells_of_data && data_end > rcv_nxt
    }

    /// Resets the connection because of data that is not read.
    fn refuse_data(&mut self, now: Instant, wire: &TcpHeader, header: &TcpHeader, seq: u64) {
        if self.policies.admission.processes_refused {
            // Its acknowledgment and window are processed; it is not a bare ACK.
            let options = TcpHeader { ecn: Ecn::NotEct, ..*header };
            self.receive_options(&options, self.receiver.rcv_nxt - 1);
            self.receive_ack(now, header, seq, false);
            self.host.progress.probes_unanswered = 0;
        }
        self.refuse(wire);
        self.end(Some(self.reset_error()));
    }

    /// Stores the place of the peer's FIN, and cuts off data above it.
    fn place_fin(&mut self, header: &mut TcpHeader, seq: u64, data_end: u64) {
        let revises_fin = self.policies.admission.revises_fin;
        let rcv_nxt = self.receiver.rcv_nxt;
        if header.has(flags::FIN) {
            // A FIN whose sequence number is that of a received byte is ignored.
            if data_end >= rcv_nxt {
                // In Linux, a FIN below another pending one replaces it.
                let is_kept = |&fin: &u64| !revises_fin || fin <= data_end.max(rcv_nxt);
                self.host.peer_fin = self.host.peer_fin.filter(is_kept).or(Some(data_end));
            }
            return;
        }
        let Some(fin) = self.host.peer_fin else { return };
        if revises_fin && !self.has_peer_closed() {
            // Linux discards a FIN above a hole when data with its sequence number arrives.
            if (seq..data_end).contains(&fin) {
                self.host.peer_fin = None;
            }
        } else if data_end > fin && !(revises_fin && data_end <= rcv_nxt) {
            // No data follows a FIN.
            header.payload = fin.saturating_sub(seq) as u32;
        }
    }

    /// Returns `true` if Linux has reduced the connection to its sequence numbers.
    pub(super) fn is_reduced(&self) -> bool {
        let is_left = match self.host.state {
            State::FinWait2 => self.host.app.is_orphan,
            State::TimeWait => true,
            _ => false,
        };
        self.policies.admission.reduces_closed && is_left
    }

    /// Processes a segment within the window of a connection that only waits for the peer's FIN or
    /// for the end of TIME-WAIT. Data is refused, and an ACK is ignored. Returns `false` for a FIN
    /// in order, which is processed further.
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

    /// Returns `true` if an old timestamp belongs to a reordered ACK (RFC 7323, section 5.2, on the
    /// age of TS.Recent; Linux: `tcp_disordered_ack`). Such an ACK has no new information: it may
    /// have a smaller window, which an earlier segment may have had. Its age is plausible for the RTO.
    fn is_reordered_ack(&self, header: &TcpHeader, seq: u64) -> bool {
        let (receiver, flight) = (&self.receiver, &self.sender.flight);
        let age = receiver.ts_recent.wrapping_sub(header.options.timestamps.0);
        let rto = flight.rtt.rto().as_nanos() / 1_000_000;
        let window = u64::from(header.window);
        // A window at the same sequence number is new if it is larger or closed.
        let updates_window = seq > flight.peer.seq
            || seq == flight.peer.seq && (window > flight.peer.window || window == 0);
        header.length() == 0
            && seq == receiver.rcv_nxt
            && self.sender.unwrap(header.ack) == flight.snd_una
            && !updates_window
            && u64::from(age) * 5 <= rto * 6
    }

    /// Error that a reset causes for the application.
    fn reset_error(&self) -> SocketError {
        if self.host.state == State::CloseWait {
            SocketError::BrokenPipe
        } else {
            SocketError::Reset
        }
    }

    /// Processes a reset (RFC 5961, section 3.2).
    fn receive_reset(&mut self, seq: u64, rcv_nxt: u64, window: u64, is_outside: bool) {
        if seq == rcv_nxt
            || self.policies.admission.accepts_reset_above && self.receiver.highest() == Some(seq)
        {
            let error = self.reset_error();
            self.end((self.host.state != State::TimeWait).then_some(error));
        } else if !is_outside && seq >= rcv_nxt && seq < rcv_nxt + window.max(1) {
            self.receiver.challenge();
        }
    }

    /// Answers an unacceptable segment: "If an incoming segment is not acceptable, an
    /// acknowledgment should be sent in reply".
    fn on_unacceptable(&mut self, now: Instant, header: &TcpHeader, is_duplicate: bool) {
        let seq = self.receiver.unwrap(header.seq);
        // Sequence numbers before the peer's SYN were never received.
        let is_duplicate = is_duplicate && seq < self.receiver.rcv_nxt;
        if is_duplicate && header.payload > 0 && header.has(flags::ACK) && !header.has(flags::SYN) {
            // The receiver counts and reports duplicates. All other information in the segment is
            // dropped.
            self.receive_data(now, header, seq, header.length().into());
        }
        if self.host.state == State::TimeWait && header.has(flags::FIN) {
            self.start(Timer::Linger, now, self.host.settings.time_wait);
        }
        if self.policies.admission.reports_unacceptable
            && is_duplicate
            && header.payload == 0
            && header.has(flags::FIN)
            && !header.has(flags::SYN)
        {
            // The sequence number of a FIN is a duplicate as well.
            self.receiver.repeat(&self.sender.flight.config, (seq, seq + 1));
        }
        self.receiver.challenge();
    }

    /// Returns `true` if `ack` is below SND.UNA - MAX.SND.WND (RFC 5961, section 5.2). Linux limits
    /// MAX.SND.WND to the number of acknowledged bytes.
    fn is_too_old(&self, ack: u64) -> bool {
        let acked = self.acked_bytes() + u64::from(!self.is_passive());
        let bound = if self.policies.admission.bounds_old_acks { acked } else { u64::MAX };
        ack + self.host.path.largest_window().min(bound) < self.sender.flight.snd_una
    }
}
