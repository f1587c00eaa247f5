//! The states of RFC 9293, section 3.3.2, how they change, and the timers that belong to them.

use super::path::Path;
use super::{Deadlines, EcnOffer, KeepAlive, Segment, Settings, Socket, SocketError, SynOptions};
use crate::config::Conventions;
use crate::connection::{Connection, Role};
use crate::flight::Flight;
use crate::law::CongestionLaw;
use crate::timers::Timer;
use lasthop_base::packet::{TcpHeader, TcpOptions, flags};
use lasthop_base::units::{Duration, Instant};

/// Where a socket stands (RFC 9293, section 3.3.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum State {
    Closed,
    Listen,
    SynSent,
    SynReceived,
    Established,
    FinWait1,
    FinWait2,
    CloseWait,
    Closing,
    LastAck,
    TimeWait,
}

impl State {
    /// Have both SYN been acknowledged? All states from ESTABLISHED on.
    pub fn is_synchronized(self) -> bool {
        !matches!(self, State::Closed | State::Listen | State::SynSent | State::SynReceived)
    }

    /// May the application write?
    pub fn may_write(self) -> bool {
        matches!(self, State::SynSent | State::SynReceived | State::Established | State::CloseWait)
    }
}

impl Socket {
    /// When a timer of the host fires that is set now.
    pub(super) fn fires(&self, now: Instant, delay: Duration) -> Instant {
        self.settings.wheel.fires(now, delay)
    }

    /// Sends the SYN, or the SYN and ACK, again or for the first time.
    pub(super) fn send_syn(&mut self, now: Instant) {
        if self.syns_sent == 0 {
            self.syn_sent_at = now;
        }
        let is_answer = self.state == State::SynReceived;
        // What the peer did not offer is not repeated.
        let settings = &self.settings;
        let is_bound = is_answer && (self.is_passive || !settings.is_linux());
        let offers = |ours: bool, theirs: bool| ours && (theirs || !is_bound);
        let window_scale =
            settings.window_scale.filter(|_| !is_bound || self.peer_options.window_scale.is_some());
        let has_timestamps = offers(settings.timestamps, self.peer_has_timestamps);
        let options = SynOptions {
            mss: Some(settings.mss),
            window_scale,
            sack_permitted: offers(settings.sack, self.peer_options.sack_permitted),
        };
        let mut header = TcpHeader {
            seq: settings.initial_sequence,
            flags: flags::SYN,
            window: settings.receive_buffer.min(u16::MAX.into()),
            has_timestamps,
            ..TcpHeader::default()
        };
        header.flags |= match (is_answer, settings.ecn) {
            (false, EcnOffer::Asks) if self.syns_sent == 0 => flags::ECE | flags::CWR,
            (true, EcnOffer::Grants | EcnOffer::Asks) if self.peer_has_ecn => flags::ECE,
            _ => 0,
        };
        if is_answer {
            header.flags |= flags::ACK;
            header.ack = self.peer_sequence.wrapping_add(1);
        }
        if has_timestamps {
            let stamp = Connection::tick(now, TIMESTAMP_TICK);
            header.options.timestamps = (stamp, self.peer_syn.1);
            let first = if self.syns_sent == 0 { stamp } else { self.syn_stamps.0 };
            self.syn_stamps = (first, stamp);
        }
        self.replies.push_back(Segment { header, options });
        self.deadlines.handshake = self.fires(now, self.handshake_rto(self.syns_sent));
        self.syns_sent += 1;
    }

    /// RTO of the handshake after so many expiries.
    pub(super) fn handshake_rto(&self, expiries: u32) -> Duration {
        let [initial, longest] = self.settings.rto;
        let is_answer = self.state == State::SynReceived;
        let linear = if is_answer { 0 } else { self.settings.syn_linear };
        (initial * (1 << expiries.saturating_sub(linear).min(20))).min(longest)
    }

    /// Both SYN are acknowledged. `echo`: when the segment left that the last one answers, by its
    /// timestamp.
    pub(super) fn establish(&mut self, now: Instant, echo: Option<Instant>) {
        let ours = &self.settings;
        let theirs = &self.peer_options;
        let timestamps = ours.timestamps && self.peer_has_timestamps;
        let options = if timestamps { super::TIMESTAMPS_BYTES } else { 0 };
        let mss = theirs.mss.unwrap_or(super::DEFAULT_MSS).min(ours.mss);
        self.path = Path::new(mss, ours.mtu);
        let segment = mss.saturating_sub(options).max(1);
        // Linux counts the answers to a repeated SYN beside those of its timer, once that has expired.
        let timeouts = self.syns_sent.saturating_sub(1);
        let repeated = if ours.is_linux() && timeouts > 0 { self.syns_repeated } else { 0 };
        let negotiated = super::Negotiated {
            segment,
            sack: ours.sack && theirs.sack_permitted,
            timestamps,
            ecn: self.peer_has_ecn && ours.ecn != EcnOffer::Never,
        };
        self.shifts = match (theirs.window_scale, ours.window_scale) {
            // RFC 7323, section 2.3: no more than 14.
            (Some(theirs), Some(ours)) => (theirs.min(14), ours.min(14)),
            _ => (0, 0),
        };
        let config = (self.configure)(negotiated);
        let mut connection = Connection::new(&config, Role::Opener, Duration::ZERO);
        connection.sender.flight.timers.set_wheel(ours.wheel);
        if timeouts + repeated > 1 && !self.echoes_first_syn(echo) {
            // RFC 6928, section 2: SYNs were lost.
            connection.sender.flight.initial_window = 1.0;
            connection.sender.flight.law.set_cwnd(1.0);
        }
        connection.sender.flight.begin_established(self.peer_syn.0.into(), !self.nodelay);
        connection.receiver.ts_recent = self.peer_syn.1;
        if negotiated.ecn {
            connection.agree_on_ecn();
            if ours.is_linux() && !self.is_passive && self.syns_sent > 1 {
                // The timeout of the SYN is told of as any other.
                connection.sender.flight.told_again += 1;
            }
        }
        let is_clear = self.syns_sent == 1;
        connection.sender.flight.syns_resent = self.syn_retransmissions();
        if ours.is_linux() && !self.is_passive && !is_clear && !negotiated.sack {
            connection.sender.begin_after_lost_syn();
        }
        // Of a SYN that was sent once the exact time counts, also in Linux.
        let exact = (is_clear && self.syns_repeated == 0).then_some(self.syn_sent_at);
        if let Some(sent) = exact.or(echo).or(is_clear.then_some(self.syn_sent_at)) {
            connection.sender.sample_handshake(sent, now);
        } else {
            connection.sender.flight.rtt.after_lost_syn();
        }
        connection.sender.refresh();
        self.buffer = super::new_send_buffer(self.settings.send_buffer, segment);
        let syn_window = self.settings.receive_buffer.min(u16::MAX.into());
        let theirs = self.settings.mss.saturating_sub(options).max(1);
        // Linux chooses the window of a SYN before it knows of timestamps (`tcp_connect_init`).
        let knows_options = self.is_passive || !self.settings.is_linux();
        let first = if knows_options { theirs } else { self.settings.mss };
        let mut window = self.first_window.clone();
        window.open(segment, (theirs, first), syn_window, self.shifts.1);
        if let Some(memory) = window.memory() {
            memory.begin(now);
        }
        connection.receiver.window = Some(Box::new(window));
        connection.receiver.reads_at_once = false;
        self.deadlines.handshake = Instant::NEVER;
        let closes = self.state == State::FinWait1;
        if !closes {
            self.state = State::Established;
        }
        self.connection = Some(Box::new(connection));
        self.apply_limits();
        self.sync_segment();
        (self.heard_at, self.sent_at, self.data_at) = (now, now, now);
        self.waiting_since = now;
        for (bytes, options) in std::mem::take(&mut self.early) {
            // The state allows it, and there is no error yet.
            let _ = self.write(now, bytes, options);
        }
        if closes && let Some(connection) = &mut self.connection {
            connection.close();
        }
        self.watch_data(now);
    }

    /// Is it the first SYN that left at `echo`, so that those after it were sent by mistake
    /// (Linux: `tcp_try_undo_spurious_syn`)?
    fn echoes_first_syn(&self, echo: Option<Instant>) -> bool {
        let tick = |at| Connection::tick(at, TIMESTAMP_TICK);
        self.settings.is_linux() && echo.map(tick) == Some(tick(self.syn_sent_at))
    }

    /// The connection is over; `error` is what the application will hear.
    pub(super) fn end(&mut self, error: Option<SocketError>) {
        self.state = State::Closed;
        self.error = error.or(self.error);
        self.deadlines = Deadlines::NONE;
        if error.is_some_and(|error| error != SocketError::TimedOut) {
            if let Some(connection) = &mut self.connection {
                connection.sender.probe_back_off = 0;
            }
            if !self.settings.is_linux() {
                self.probes_unanswered = 0;
            }
        }
        if let Some(connection) = &mut self.connection {
            connection.sender.flight.timers.stop_all();
        }
    }

    /// Bytes that have arrived in order, without the FIN.
    pub fn received(&self) -> u64 {
        let Some(connection) = &self.connection else { return 0 };
        connection.receiver.rcv_nxt.min(self.peer_fin.unwrap_or(u64::MAX)) - 1
    }

    /// Has the peer's FIN arrived, with all before it?
    pub fn has_peer_closed(&self) -> bool {
        let rcv_nxt = self.connection.as_ref().map_or(0, |data| data.receiver.rcv_nxt);
        self.peer_fin.is_some_and(|fin| rcv_nxt > fin)
    }

    /// An arrival may have brought a FIN, or the ACK of ours.
    pub(super) fn follow(&mut self, now: Instant, had_peer_closed: bool) {
        let Some(connection) = &self.connection else { return };
        let is_fin_acked = connection.sender.flight.snd_una > connection.sender.flight.fin_at;
        let has_new_fin = !had_peer_closed && self.has_peer_closed();
        if let (true, true, Some(connection)) =
            (has_new_fin, self.settings.is_linux(), &mut self.connection)
        {
            // A FIN that answers ours is acknowledged before.
            self.forgets_above = self.state != State::Established;
            if !self.forgets_above {
                connection.receiver.forget_above();
            }
        }
        self.state = match self.state {
            State::Established if has_new_fin => State::CloseWait,
            State::FinWait1 if is_fin_acked && self.has_peer_closed() => State::TimeWait,
            State::FinWait1 if is_fin_acked => {
                if self.is_orphan && self.settings.fin_wait == Duration::ZERO {
                    return self.reset_orphan(now);
                }
                if self.is_orphan {
                    self.deadlines.linger = self.fires(now, self.settings.fin_wait);
                }
                State::FinWait2
            }
            State::FinWait1 if has_new_fin => State::Closing,
            State::FinWait2 if has_new_fin => State::TimeWait,
            State::Closing if is_fin_acked => State::TimeWait,
            State::LastAck if is_fin_acked => return self.end(None),
            same => same,
        };
        let is_new = has_new_fin || self.deadlines.linger == Instant::NEVER;
        if self.state == State::TimeWait && is_new {
            self.deadlines.linger = self.fires(now, self.settings.time_wait);
            self.deadlines.keep_alive = Instant::NEVER;
        }
        // A FIN that answers ours is acknowledged at once.
        if has_new_fin
            && self.state != State::CloseWait
            && let Some(connection) = &mut self.connection
        {
            connection.receiver.challenge();
        }
    }

    /// A closed socket that is not to wait in FIN-WAIT-2 resets (Linux: `TCP_LINGER2` below 0).
    fn reset_orphan(&mut self, now: Instant) {
        if let Some(connection) = &self.connection {
            let seq = connection.sender.flight.snd_una;
            let header = connection.control(now, flags::RST, seq);
            self.reply(TcpHeader { has_timestamps: false, sack_blocks: 0, ack: 0, ..header });
        }
        self.end(None);
    }

    /// Something is written, or heard: the timers that wait for an answer start anew.
    pub(super) fn watch_data(&mut self, now: Instant) {
        let Some(connection) = &self.connection else { return };
        let has_data = !connection.is_all_acked();
        let since = if self.settings.is_linux() {
            self.repeating_since
        } else {
            has_data.then_some(self.waiting_since)
        };
        self.deadlines.give_up = match (self.settings.user_timeout, since) {
            // Linux bounds a timer by it when that starts anew, and looks at it when one expires.
            (Some(_), Some(_)) if self.settings.is_linux() => self.deadlines.give_up,
            (Some(limit), Some(since)) => self.fires(now, (since + limit).saturating_since(now)),
            _ => Instant::NEVER,
        };
        self.deadlines.keep_alive = match self.settings.keep_alive {
            Some(keep_alive) if self.state.is_synchronized() && self.state != State::TimeWait => {
                let idle = self.fires(now, keep_alive.idle);
                // After a probe Linux does not look before the interval is over, answered or not.
                if self.settings.is_linux() { idle.max(self.looks_again_at) } else { idle }
            }
            _ => Instant::NEVER,
        };
    }

    /// The peer's window is not probed any more.
    pub(super) fn stop_persist(&mut self) {
        if let Some(connection) = &mut self.connection {
            connection.sender.flight.timers.stop(Timer::Persist);
        }
    }

    /// Starts the persist timer anew; in Linux it expires with the user timeout at the latest.
    pub(super) fn set_persist(&mut self, now: Instant) {
        let limit = self.settings.user_timeout.filter(|_| self.settings.is_linux());
        let Some(connection) = &mut self.connection else { return };
        let mut delay = connection.sender.persist_interval();
        if let Some((limit, since)) = limit.zip(self.repeating_since) {
            delay = delay.min((since + limit).saturating_since(now).max(LEAST_TIMEOUT));
        }
        connection.sender.flight.timers.start(Timer::Persist, now, delay);
    }

    /// An ACK with a number that the peer has seen: it must answer.
    fn probe(&mut self, now: Instant) {
        let Some(connection) = &mut self.connection else { return };
        let header = connection.control(now, flags::ACK, connection.sender.flight.snd_una - 1);
        self.reply(header);
    }

    /// A deadline has come.
    pub fn handle_timeout(&mut self, now: Instant) {
        let due = self.deadlines;
        if now >= due.linger {
            return self.end(None);
        }
        if now >= due.handshake {
            self.on_handshake_timeout(now);
        }
        if now >= due.give_up {
            return self.time_out(now);
        }
        let is_persist_due =
            |connection: &Connection| connection.sender.flight.timers.is_due(Timer::Persist, now);
        if self.connection.as_deref().is_some_and(is_persist_due) {
            self.on_persist(now);
        }
        if now >= due.keep_alive {
            self.on_keep_alive(now);
        }
        if self.settings.is_linux() && self.gives_up(now) {
            return self.time_out(now);
        }
        if let Some(connection) = &mut self.connection {
            connection.handle_timeout(now);
            let timeouts = connection.counters().timeouts;
            if timeouts > self.timeouts_seen {
                self.timeouts_seen = timeouts;
                let is_probe = connection.sender.flight.peer_window == 0 && !self.is_orphan;
                self.retransmission_back_off += 1;
                if !self.settings.is_linux() && self.retransmission_back_off > self.settings.retries
                {
                    return self.time_out(now);
                }
                if let Some(how) = self.settings.mtu_probing
                    && !is_probe
                    && self.has_repeated_as_by(now, how.retries)
                {
                    self.suspect_black_hole(how);
                }
                self.note_repetition(now);
            }
        }
    }

    /// Is the timer of retransmissions due, and has it been for long? Linux looks before it makes anything of the timeout.
    fn gives_up(&self, now: Instant) -> bool {
        let Some(connection) = &self.connection else { return false };
        let flight = &connection.sender.flight;
        let is_due = flight.timers.is_due(Timer::Retransmission, now);
        let is_probe = flight.peer_window == 0 && !self.is_orphan;
        is_due && flight.snd_una < flight.snd_max && self.has_repeated_for_long(now, is_probe)
    }

    /// Retransmissions of a segment, or probes, before the connection is given up.
    fn most_retries(&self) -> u32 {
        let Settings { retries, orphan_retries, .. } = self.settings;
        if self.is_orphan && self.settings.is_linux() { orphan_retries } else { retries }
    }

    /// Has what times out now been repeated for so long that nobody answers? Linux asks for a time: `retransmits_timed_out`,
    /// and at a closed window `tcp_rtx_probe0_timed_out`. A user timeout has its own deadline.
    fn has_repeated_for_long(&self, now: Instant, is_probe: bool) -> bool {
        if is_probe {
            let limit = self.settings.rto[1] * 2;
            let is_old = |since| now - since > limit;
            return is_old(self.heard_at) && self.repeating_since.is_some_and(is_old);
        }
        match self.settings.user_timeout {
            Some(limit) => self.repeating_since.is_some_and(|since| now - since >= limit),
            None => self.has_repeated_as_by(now, self.most_retries()),
        }
    }

    /// Has it been repeated for as long as `retries` and one more timeout would last with a first RTO of 200 ms?
    fn has_repeated_as_by(&self, now: Instant, retries: u32) -> bool {
        let Some(since) = self.repeating_since else { return false };
        let [least, longest] = [LEAST_RTO, self.settings.rto[1]].map(Duration::as_nanos);
        let doubling = (longest / least).max(1).ilog2();
        let beyond = longest.saturating_mul(retries.saturating_sub(doubling).into());
        let limit = beyond.saturating_add(least * ((2 << retries.min(doubling)) - 1));
        now - since >= Duration::from_nanos(limit)
    }

    /// Nobody answers. Linux tells nobody but the application; only a peer that is probed as it is idle is reset.
    fn time_out(&mut self, now: Instant) {
        match self.settings.is_linux() {
            true => self.end(Some(self.reason.unwrap_or(SocketError::TimedOut))),
            false => self.abort(now, Some(SocketError::TimedOut)),
        }
    }

    fn on_handshake_timeout(&mut self, now: Instant) {
        let is_answer = self.state == State::SynReceived;
        if self.is_deferred && self.syns_sent + 1 < self.settings.deferred_accept {
            // Nothing goes out again while there is time for data.
            let [initial, longest] = self.settings.rto;
            let wait = (initial * (1 << self.syns_sent.min(20))).min(longest);
            self.deadlines.handshake = self.fires(now, wait);
            self.syns_sent += 1;
        } else if self.syns_sent <= self.settings.syn_retries[usize::from(is_answer)] {
            self.send_syn(now);
        } else if self.is_passive {
            self.forget_peer();
        } else {
            self.end(Some(SocketError::TimedOut));
        }
    }

    /// Back to LISTEN.
    pub(super) fn forget_peer(&mut self) {
        self.state = State::Listen;
        self.syns_sent = 0;
        self.deadlines = Deadlines::NONE;
    }

    /// Something is sent again, or a closed window probed: the user timeout counts from the first time.
    fn note_repetition(&mut self, now: Instant) {
        let since = *self.repeating_since.get_or_insert(now);
        if let (true, Some(limit)) = (self.settings.is_linux(), self.settings.user_timeout) {
            self.deadlines.give_up = self.fires(now, (since + limit).saturating_since(now));
        }
    }

    fn on_persist(&mut self, now: Instant) {
        self.stop_persist();
        let Some(connection) = &mut self.connection else { return };
        let flight = &mut connection.sender.flight;
        if flight.peer_window > 0 && self.settings.is_linux() {
            // Data is not a probe.
            flight.rtt.forget_doublings();
            self.probes_unanswered = 0;
        }
        if flight.is_corked && flight.peer_window > 0 {
            // Corked data go out after all.
            flight.is_short_excused = true;
            self.has_more = false;
            return self.release(false);
        }
        if flight.peer_window > 0 {
            return connection.sender.send_what_fits();
        }
        let limit = self.settings.user_timeout.filter(|_| self.settings.is_linux());
        let has_waited =
            |limit| self.repeating_since.is_some_and(|since: Instant| now - since >= limit);
        if self.probes_unanswered >= self.most_retries() || limit.is_some_and(has_waited) {
            return self.time_out(now);
        }
        self.probe(now);
        self.note_repetition(now);
        self.probes_unanswered += 1;
        let most = self.settings.retries;
        if let Some(connection) = &mut self.connection {
            connection.sender.probe_back_off += 1;
            if connection.sender.flight.rtt.back_offs() < most {
                connection.sender.flight.rtt.count_doubling();
            }
        }
        self.set_persist(now);
    }

    fn on_keep_alive(&mut self, now: Instant) {
        let Some(KeepAlive { interval, probes, .. }) = self.settings.keep_alive else { return };
        let is_idle = self.connection.as_ref().is_some_and(|data| data.is_all_acked());
        if is_idle {
            let unanswered = self.keep_alives_unanswered;
            let is_over = match self.settings.user_timeout.filter(|_| self.settings.is_linux()) {
                Some(limit) => unanswered > 0 && now - self.heard_at >= limit,
                None => unanswered >= probes,
            };
            if is_over {
                return self.abort(now, Some(SocketError::TimedOut));
            }
            self.keep_alives_unanswered += 1;
            self.probe(now);
        }
        self.looks_again_at = self.fires(now, interval);
        self.deadlines.keep_alive = self.looks_again_at;
    }
}

/// The shortest that a timer of Linux may be (`TCP_TIMEOUT_MIN`).
const LEAST_TIMEOUT: Duration = Duration::from_millis(2);

/// The first RTO by which Linux makes a time of a number of retransmissions (`TCP_RTO_MIN`).
const LEAST_RTO: Duration = Duration::from_millis(200);

/// Period of the timestamp clock in a SYN: that of all profiles.
pub(super) const TIMESTAMP_TICK: Duration = Duration::from_millis(1);

impl Connection {
    /// A segment without data that is no part of the stream.
    pub(super) fn control(&self, now: Instant, flags: u8, seq: u64) -> TcpHeader {
        let has_timestamps = self.config.timestamps;
        let stamps = || {
            let value = Connection::tick(now, TIMESTAMP_TICK);
            TcpOptions::stamps(value, self.receiver.ts_recent)
        };
        let mut header = TcpHeader {
            flags,
            seq: seq as u32,
            ack: self.receiver.rcv_nxt as u32,
            window: self.advertised_window,
            has_timestamps,
            options: if has_timestamps { stamps() } else { TcpOptions::default() },
            ..TcpHeader::default()
        };
        if self.config.conventions == Conventions::Linux {
            self.report(&mut header);
        }
        header
    }
}

impl Flight {
    /// The handshake is over: the peer's window is known, and whether short segments wait.
    fn begin_established(&mut self, peer_window: u64, nagle: bool) {
        self.peer_window = peer_window;
        self.has_nagle &= nagle;
    }
}
