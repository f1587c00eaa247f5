//! What an arrival has to pass: RFC 9293, section 3.10.7, with the stricter checks of RFC 5961 and those of
//! RFC 7323, section 5.

use super::states::{State, TIMESTAMP_TICK};
use super::{EcnOffer, Segment, Socket, SocketError};
use crate::connection::Connection;
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

impl Socket {
    /// A segment arrived.
    pub fn receive(&mut self, now: Instant, segment: &Segment) {
        let segment = &mut segment.clone();
        self.is_pushed = segment.header.is_pushed();
        if self.is_pushed {
            segment.header.flags &= !flags::PSH;
        }
        let is_gone = self.state == State::Closed && self.connection.is_some() || self.is_reduced();
        if !(is_gone && self.settings.is_linux()) {
            self.traffic.segments_received += 1;
            self.traffic.data_segments_received += u64::from(segment.header.payload > 0);
        }
        let is_request = self.state == State::SynReceived && self.is_passive;
        match self.state {
            State::Closed => self.refuse(&segment.header),
            State::Listen => self.receive_in_listen(now, segment),
            State::SynSent => self.receive_in_syn_sent(now, segment),
            State::SynReceived => self.receive_in_syn_received(now, segment),
            _ if self.connection.is_none() => self.receive_in_syn_received(now, segment),
            _ => self.receive_synchronized(now, segment),
        }
        if is_request && self.connection.is_none() {
            // It has reached no connection yet.
            self.traffic.segments_received -= 1;
            self.traffic.data_segments_received -= u64::from(segment.header.payload > 0);
        }
    }

    /// Answers a segment that belongs to no connection with a reset (3.10.7.1).
    fn refuse(&mut self, header: &TcpHeader) {
        // Who listens in Linux passes over what has neither SYN nor ACK.
        let is_passed_over =
            self.is_passive && self.settings.is_linux() && !header.has(flags::ACK | flags::SYN);
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
        self.replies.push_back(Segment { header, options: super::SynOptions::default() });
    }

    /// What the peer's SYN says.
    fn take_syn(&mut self, segment: &Segment) {
        self.peer_sequence = segment.header.seq;
        self.peer_options = segment.options;
        self.peer_has_timestamps = segment.header.has_timestamps;
        let both = segment.header.flags & (flags::ECE | flags::CWR);
        // An answer grants what our SYN asked for; a SYN that could be marked itself is no RFC 3168's.
        self.peer_has_ecn = if segment.header.has(flags::ACK) {
            // Linux forgets that it has asked no longer.
            let has_asked = self.syns_sent == 1 || self.settings.is_linux();
            both == flags::ECE && self.settings.ecn == EcnOffer::Asks && has_asked
        } else {
            both == flags::ECE | flags::CWR && segment.header.ecn == Ecn::NotEct
        };
        self.peer_syn = (segment.header.window, segment.header.options.timestamps.0);
        if !segment.header.has_timestamps {
            self.peer_syn.1 = 0;
        }
    }

    /// 3.10.7.2.
    fn receive_in_listen(&mut self, now: Instant, segment: &Segment) {
        let header = &segment.header;
        if header.has(flags::RST) {
            return;
        }
        if header.has(flags::ACK) {
            return self.refuse(header);
        }
        let ends = header.has(flags::FIN) && self.settings.is_linux();
        if header.has(flags::SYN) && !ends {
            self.take_syn(segment);
            self.state = State::SynReceived;
            self.send_syn(now);
        }
    }

    /// 3.10.7.3.
    fn receive_in_syn_sent(&mut self, now: Instant, segment: &Segment) {
        let header = &segment.header;
        let acks_syn = header.ack == self.settings.initial_sequence.wrapping_add(1);
        if header.has(flags::ACK) && !acks_syn {
            if self.settings.is_linux() && self.syns_sent == 1 {
                // What the reset answers may be left from before: another SYN follows at once.
                self.deadlines.handshake = self.fires(now, SHORTEST_TIMEOUT);
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
        if header.has(flags::ACK) {
            let echo = self.echo(now, header);
            self.establish(now, echo);
            self.begin_search();
            self.sync_segment();
            self.take_first_window(0, header);
            match (&mut self.connection, self.settings.delays_first_ack) {
                (Some(connection), true) => {
                    let timers = &mut connection.sender.flight.timers;
                    timers.start(Timer::DelayedAck, now, LONGEST_DELAY);
                    connection.receiver.set_quick(false);
                }
                _ => self.acknowledge_now(),
            }
        } else {
            // Both have sent a SYN.
            self.state = State::SynReceived;
            self.send_syn(now);
        }
    }

    /// When the segment left that this one echoes.
    fn echo(&self, now: Instant, header: &TcpHeader) -> Option<Instant> {
        (header.has_timestamps && self.settings.timestamps)
            .then(|| Connection::sent_at(now, header.options.timestamps.1, TIMESTAMP_TICK))
    }

    /// SYN-RECEIVED of 3.10.7.4, and FIN-WAIT-1 before the SYN is acknowledged.
    fn receive_in_syn_received(&mut self, now: Instant, segment: &Segment) {
        let header = &segment.header;
        let next = self.peer_sequence.wrapping_add(1);
        let window = self.settings.receive_buffer.min(u16::MAX.into());
        let offset = header.seq.wrapping_sub(next);
        if header.has(flags::SYN) && header.seq == self.peer_sequence && !header.has(flags::RST) {
            if self.settings.is_linux() && !header.has(flags::ACK) {
                self.send_syn_again(now);
                return;
            }
            if !header.has(flags::ACK) {
                return self.acknowledge_syn(now);
            }
            // Simultaneous open: the peer's SYN and ACK repeat its SYN.
        } else if self.is_passive && self.settings.is_linux() && self.acks_wrong_syn(header) {
            return self.refuse(header);
        } else if offset >= window || self.has_wrong_stamps(header) {
            if !header.has(flags::RST) {
                self.acknowledge_syn(now);
            }
            return;
        } else if header.has(flags::RST) {
            if offset == 0 {
                if self.is_passive {
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
        let is_bare = header.length() == 0 && self.is_passive;
        if is_bare && self.settings.deferred_accept >= self.syns_sent {
            self.is_deferred = true;
            return;
        }
        let echo = self.echo(now, header);
        self.establish(now, echo);
        let mut rest = *segment;
        if header.has(flags::SYN) {
            rest.header.flags &= !flags::SYN;
            rest.header.seq = next;
            self.take_first_window(0, &rest.header);
            if let Some(connection) = &mut self.connection {
                let receiver = &mut connection.receiver;
                if header.has_timestamps && connection.config.timestamps {
                    receiver.on_timestamp(0, header.options.timestamps.0);
                }
                if self.settings.is_linux() {
                    receiver.repeat_syn(&connection.config);
                }
            }
            return;
        }
        self.take_first_window(self.shifts.0, header);
        // The first window does not make segments smaller; a larger one does.
        self.begin_search();
        self.receive_synchronized(now, &rest);
    }

    /// The window of the segment that opens the connection. That of a SYN is not scaled (RFC 7323,
    /// section 2.2).
    fn take_first_window(&mut self, shift: u8, header: &TcpHeader) {
        if let Some(connection) = &mut self.connection {
            connection.sender.flight.peer_window = u64::from(header.window) << shift;
            connection.sender.refresh();
        }
        self.note_window();
    }

    fn send_syn_again(&mut self, now: Instant) {
        let (deadline, count) = (self.deadlines.handshake, self.syns_sent);
        self.send_syn(now);
        // Linux: the timer of a listener's answer starts anew.
        self.deadlines.handshake = match self.is_passive && self.settings.is_linux() {
            true => self.fires(now, self.handshake_rto(count.saturating_sub(1))),
            false => deadline,
        };
        self.syns_sent = count;
        self.syns_repeated += 1;
        if !self.is_passive {
            self.traffic.segments_received -= 1;
        }
    }

    /// <SEQ=SND.NXT><ACK=RCV.NXT><CTL=ACK> before there is a connection.
    fn acknowledge_syn(&mut self, now: Instant) {
        let mut header = TcpHeader {
            flags: flags::ACK,
            seq: 1,
            ack: 1,
            window: self.settings.receive_buffer.min(u16::MAX.into()),
            has_timestamps: self.settings.timestamps && self.peer_has_timestamps,
            ..TcpHeader::default()
        };
        if header.has_timestamps {
            let stamps = (Connection::tick(now, TIMESTAMP_TICK), self.peer_syn.1);
            header.options.timestamps = stamps;
        }
        self.reply(header);
    }

    /// Does it acknowledge something else than our SYN?
    fn acks_wrong_syn(&self, header: &TcpHeader) -> bool {
        header.has(flags::ACK) && header.ack != self.settings.initial_sequence.wrapping_add(1)
    }

    /// Is the timestamp of an answer to our SYN and ACK older than that of the peer's SYN (RFC 7323, section 5.3, R1), or, in
    /// Linux, does it echo none of those that we have sent?
    fn has_wrong_stamps(&self, header: &TcpHeader) -> bool {
        if !(header.has_timestamps && self.settings.timestamps && self.peer_has_timestamps) {
            return false;
        }
        let (value, echo) = header.options.timestamps;
        let (first, last) = self.syn_stamps;
        let is_echo = echo == 0 || !is_older(echo, first) && !is_older(last, echo);
        !header.has(flags::RST)
            && (is_older(value, self.peer_syn.1)
                || self.settings.is_linux() && self.is_passive && !is_echo)
    }

    fn acknowledge_now(&mut self) {
        if let Some(connection) = &mut self.connection {
            connection.receiver.challenge();
        }
    }

    /// 3.10.7.4, from ESTABLISHED on.
    fn receive_synchronized(&mut self, now: Instant, segment: &Segment) {
        let wire = segment.header;
        let mut header = self.own_numbers(wire);
        header.window <<= self.shifts.0;
        let Some(connection) = &self.connection else { return };
        let receiver = &connection.receiver;
        let rcv_nxt = receiver.rcv_nxt;
        let seq = receiver.unwrap(header.seq);
        // A number before the peer's SYN is far right of every window, even if its end wraps around.
        let end = seq.wrapping_add(u64::from(header.length()));
        let window = self.window().allowed(rcv_nxt);
        // RFC 7323, section 5.3, R1: an old timestamp. A reset is exempt.
        let is_old = header.has_timestamps
            && connection.config.timestamps
            && receiver.ts_recent != 0
            && is_older(header.options.timestamps.0, receiver.ts_recent);
        // What lies left of the last ACK is old, what lies right of the window was never allowed. The
        // first byte beyond the window passes without data, as probes do.
        let is_outside = end < receiver.last_ack_sent() || seq > rcv_nxt + window;
        let takes_whole =
            self.settings.is_linux() && self.unread() == 0 && !receiver.has_holes() && window > 0;
        if header.has(flags::RST) {
            return self.receive_reset(seq, rcv_nxt, window, is_outside);
        }
        let is_linux = self.settings.is_linux();
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
                if let Some(connection) = &mut self.connection {
                    connection.receiver.repeat(&connection.config, (seq, end.min(rcv_nxt)));
                }
            }
            return self.on_unacceptable(now, &header, end <= rcv_nxt && !is_old);
        }
        if header.has(flags::SYN) || !header.has(flags::ACK) {
            if header.has(flags::SYN) {
                self.acknowledge_now();
            }
            return;
        }
        let Some(connection) = &self.connection else { return };
        let flight = &connection.sender.flight;
        let ack = connection.sender.unwrap(header.ack);
        if ack > flight.snd_max || self.is_too_old(connection, ack) {
            return self.acknowledge_now();
        }
        // Data beyond the window are cut off; Linux takes or leaves them whole.
        let allowed = (rcv_nxt + window).saturating_sub(seq);
        if self.settings.is_linux() && !takes_whole && u64::from(header.payload) > allowed {
            return self.on_unacceptable(now, &header, false);
        }
        if u64::from(header.payload) > allowed && !takes_whole {
            header.payload = allowed as u32;
            header.flags &= !flags::FIN;
        }
        let data_end = seq + u64::from(header.payload);
        // Nobody will read what comes after the application has let go, nor what a peer sends in place of what it has
        // acknowledged to have ended.
        let is_over = match self.state {
            State::FinWait1 | State::FinWait2 => self.is_read_shut,
            State::CloseWait | State::Closing | State::LastAck => {
                self.settings.is_linux() && seq < rcv_nxt
            }
            _ => false,
        };
        // A FIN behind a hole tells of data too.
        let tells_of_data = header.payload > 0 || is_linux && header.has(flags::FIN);
        if is_over && tells_of_data && data_end > rcv_nxt {
            if is_linux && let Some(connection) = &mut self.connection {
                // What it acknowledges counts, and its window; it is not a bare ACK.
                connection.receive_options(&TcpHeader { ecn: Ecn::NotEct, ..header }, rcv_nxt - 1);
                connection.receive_ack(now, &header, seq, false);
                self.probes_unanswered = 0;
            }
            self.refuse(&wire);
            return self.end(Some(self.reset_error()));
        }
        let awaits_fin = is_linux && !self.has_peer_closed();
        if header.has(flags::FIN) && data_end < rcv_nxt {
            // Its number is that of a byte that has arrived: it ends nothing.
        } else if header.has(flags::FIN) {
            // One below another that has been waiting takes its place in Linux.
            let known = self.peer_fin.filter(|&fin| !is_linux || fin <= data_end.max(rcv_nxt));
            self.peer_fin = known.or(Some(data_end));
        } else if awaits_fin && self.peer_fin.is_some_and(|fin| (seq..data_end).contains(&fin)) {
            // Linux forgets a FIN above a hole when data come in its place.
            self.peer_fin = None;
        } else if !awaits_fin
            && self.peer_fin.is_some_and(|fin| data_end > fin && !(is_linux && data_end <= rcv_nxt))
        {
            // Nothing follows a FIN.
            header.payload = (self.peer_fin.unwrap_or(seq)).saturating_sub(seq) as u32;
        }
        self.pass_on(now, &header, ack);
    }

    /// Has Linux given up all but the numbers of the connection?
    pub(super) fn is_reduced(&self) -> bool {
        let is_left = match self.state {
            State::FinWait2 => self.is_orphan,
            State::TimeWait => true,
            _ => false,
        };
        self.settings.is_linux() && is_left
    }

    /// A segment within the window of one that only waits for the peer's FIN, or for the end of TIME-WAIT: data are
    /// refused, an ACK is passed over whatever it acknowledges. Says whether that was all: a FIN in order goes its way.
    fn settle_reduced(&mut self, now: Instant, wire: &TcpHeader, seq: u64, end: u64) -> bool {
        let rcv_nxt = self.connection.as_ref().map_or(0, |data| data.receiver.rcv_nxt);
        let is_new = wire.has(flags::ACK) && end > rcv_nxt && end != seq;
        if self.state == State::TimeWait {
            self.deadlines.linger = self.fires(now, self.settings.time_wait);
            if seq != rcv_nxt || end != seq {
                self.acknowledge_now();
            } else if let Some(connection) = &mut self.connection
                && wire.has_timestamps
            {
                connection.receiver.on_timestamp(0, wire.options.timestamps.0);
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
        let Some(connection) = &self.connection else { return false };
        let (receiver, flight) = (&connection.receiver, &connection.sender.flight);
        let age = receiver.ts_recent.wrapping_sub(header.options.timestamps.0);
        let rto = flight.rtt.rto().as_nanos() / 1_000_000;
        header.length() == 0
            && seq == receiver.rcv_nxt
            && connection.sender.unwrap(header.ack) == flight.snd_una
            && seq <= flight.window_seq
            && flight.peer_window == u64::from(header.window)
            && u64::from(age) * 5 <= rto * 6
    }

    /// What an application hears of a reset.
    fn reset_error(&self) -> SocketError {
        if self.state == State::CloseWait { SocketError::BrokenPipe } else { SocketError::Reset }
    }

    /// RFC 5961, section 3.2.
    fn receive_reset(&mut self, seq: u64, rcv_nxt: u64, window: u64, is_outside: bool) {
        let highest = self.connection.as_ref().and_then(|data| data.receiver.highest());
        if seq == rcv_nxt || self.settings.is_linux() && highest == Some(seq) {
            let error = self.reset_error();
            self.end((self.state != State::TimeWait).then_some(error));
        } else if !is_outside && seq >= rcv_nxt && seq < rcv_nxt + window.max(1) {
            self.acknowledge_now();
        }
    }

    /// "If an incoming segment is not acceptable, an acknowledgment should be sent in reply".
    fn on_unacceptable(&mut self, now: Instant, header: &TcpHeader, is_duplicate: bool) {
        if is_duplicate && header.payload > 0 && header.has(flags::ACK) && !header.has(flags::SYN) {
            // The receiver counts and reports duplicates. All that the segment says besides is dropped.
            if let Some(connection) = &mut self.connection {
                let seq = connection.receiver.unwrap(header.seq);
                connection.receive_data(now, header, seq, header.length().into());
            }
        }
        if self.state == State::TimeWait && header.has(flags::FIN) {
            self.deadlines.linger = self.fires(now, self.settings.time_wait);
        }
        if self.settings.is_linux()
            && is_duplicate
            && header.payload == 0
            && header.has(flags::FIN)
            && !header.has(flags::SYN)
            && let Some(connection) = &mut self.connection
        {
            // A FIN is a number that has come twice.
            let seq = connection.receiver.unwrap(header.seq);
            connection.receiver.repeat(&connection.config, (seq, seq + 1));
        }
        self.acknowledge_now();
    }

    /// Whether `ack` is below SND.UNA - MAX.SND.WND (RFC 5961, section 5.2). Linux bounds MAX.SND.WND by the bytes that
    /// were acknowledged.
    fn is_too_old(&self, connection: &Connection, ack: u64) -> bool {
        let acked = connection.acked_bytes() + u64::from(!self.is_passive);
        let bound = if self.settings.is_linux() { acked } else { u64::MAX };
        ack + self.path.largest_window().min(bound) < connection.sender.flight.snd_una
    }
}

impl Connection {
    /// Ticks of a timestamp clock.
    pub(crate) fn tick(now: Instant, period: Duration) -> u32 {
        (now.as_nanos() / period.as_nanos() + 1) as u32
    }

    /// When a segment left that is echoed by `echo`.
    pub(super) fn sent_at(now: Instant, echo: u32, period: Duration) -> Instant {
        let ago = u64::from(Connection::tick(now, period).wrapping_sub(echo));
        Instant::from_nanos(now.as_nanos().saturating_sub(ago * period.as_nanos()))
    }
}
