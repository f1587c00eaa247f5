//! States of RFC 9293, section 3.3.2, their transitions, and their timers.

use super::path::Path;
use super::{
    EcnOffer, Endpoint, Host, KeepAlive, Negotiated, Segment, Settings, SocketError, SynOptions,
};
use crate::flight::Flight;
use crate::timers::Timer;
use lasthop_base::packet::{TcpHeader, TcpOptions, flags};
use lasthop_base::units::{Duration, Instant};

/// State of a socket (RFC 9293, section 3.3.2).
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
    /// Returns `true` if both SYNs have been acknowledged: in ESTABLISHED and later states.
    pub fn is_synchronized(self) -> bool {
        !matches!(self, State::Closed | State::Listen | State::SynSent | State::SynReceived)
    }

    /// Returns `true` if the application may write.
    pub fn may_write(self) -> bool {
        matches!(self, State::SynSent | State::SynReceived | State::Established | State::CloseWait)
    }
}

impl Endpoint<Host> {
    /// Starts a timer.
    pub(super) fn start(&mut self, timer: Timer, now: Instant, delay: Duration) {
        self.sender.flight.timers.start(timer, now, delay);
    }

    /// Stops a timer.
    pub(super) fn stop(&mut self, timer: Timer) {
        self.sender.flight.timers.stop(timer);
    }

    /// Returns the SYN or SYN/ACK to send now, for the first time or as a retransmission.
    pub(super) fn syn_segment(&mut self, now: Instant) -> Segment {
        if self.host.handshake.syns_sent == 0 {
            self.host.handshake.syn_sent_at = now;
        }
        let is_answer = self.receiver.rcv_nxt > 0;
        // Options that the peer did not offer are omitted.
        let settings = &self.host.settings;
        let is_bound =
            is_answer && (self.is_passive() || !self.policies.handshake.offers_all_options);
        let offers = |ours: bool, theirs: bool| ours && (theirs || !is_bound);
        let window_scale = settings
            .window_scale
            .filter(|_| !is_bound || self.host.handshake.peer_options.window_scale.is_some());
        let has_timestamps = offers(settings.timestamps, self.host.handshake.peer_has_timestamps);
        let options = SynOptions {
            mss: Some(settings.mss),
            window_scale,
            sack_permitted: offers(settings.sack, self.host.handshake.peer_options.sack_permitted),
        };
        let mut header = TcpHeader {
            seq: settings.initial_sequence,
            flags: flags::SYN,
            window: settings.receive_buffer.min(u16::MAX.into()),
            has_timestamps,
            ..TcpHeader::default()
        };
        header.flags |= match (is_answer, settings.ecn) {
            (false, EcnOffer::Asks) if self.host.handshake.syns_sent == 0 => {
                flags::ECE | flags::CWR
            }
            (true, EcnOffer::Grants | EcnOffer::Asks) if self.host.handshake.peer_has_ecn => {
                flags::ECE
            }
            _ => 0,
        };
        if is_answer {
            header.flags |= flags::ACK;
            header.ack = self.host.handshake.peer_sequence.wrapping_add(1);
        }
        if has_timestamps {
            let stamp = self.timestamp(now);
            header.options.timestamps = (stamp, self.host.handshake.peer_syn.1);
            let first = if self.host.handshake.syns_sent == 0 {
                stamp
            } else {
                self.host.handshake.syn_stamps.0
            };
            self.host.handshake.syn_stamps = (first, stamp);
        }
        self.host.handshake.syns_sent += 1;
        Segment { header, options }
    }

    /// Retransmits the SYN because the peer's SYN has arrived. This is not counted as a timeout.
    pub(super) fn repeat_syn(&mut self, now: Instant) {
        self.sender.send_syn_again(now);
        self.host.handshake.syns_sent = self.host.handshake.syns_sent.saturating_sub(1);
        self.host.handshake.syns_repeated += 1;
    }

    /// Parameters negotiated by both SYNs.
    fn negotiated(&self) -> Negotiated {
        let (ours, theirs) = (&self.host.settings, &self.host.handshake.peer_options);
        let timestamps = ours.timestamps && self.host.handshake.peer_has_timestamps;
        let mss = theirs.mss.unwrap_or(super::DEFAULT_MSS).min(ours.mss);
        let options = if timestamps { super::TIMESTAMPS_BYTES } else { 0 };
        Negotiated {
            segment: mss.saturating_sub(options).max(1),
            sack: ours.sack && theirs.sack_permitted,
            timestamps,
            ecn: self.host.handshake.peer_has_ecn && ours.ecn != EcnOffer::Never,
        }
    }

    /// Determines the parameters of both endpoints, once the peer's SYN has arrived.
    pub(super) fn negotiate(&mut self) {
        let negotiated = self.negotiated();
        let config = (self.host.configure)(negotiated);
        self.reconfigure(&config, self.host.settings.boot_offset);
        self.receiver.take_syn(self.host.handshake.peer_syn.1);
        let (ours, theirs) = (&self.host.settings, &self.host.handshake.peer_options);
        let mss = theirs.mss.unwrap_or(super::DEFAULT_MSS).min(ours.mss);
        self.host.path = Path::new(mss, ours.mtu);
        self.host.handshake.shifts = match (theirs.window_scale, ours.window_scale) {
            // RFC 7323, section 2.3: at most 14.
            (Some(theirs), Some(ours)) => (theirs.min(14), ours.min(14)),
            _ => (0, 0),
        };
        if negotiated.ecn {
            self.agree_on_ecn();
        }
        self.host.buffer =
            super::new_send_buffer(&config, self.host.settings.send_buffer, negotiated.segment);
    }

    /// Enters ESTABLISHED after both SYNs are acknowledged. `echo`: send time of the segment that
    /// the last one acknowledges, from its timestamp.
    pub(super) fn establish(&mut self, now: Instant, echo: Option<Instant>) {
        self.host.is_open = true;
        self.end_handshake(now, echo);
        let options =
            if self.sender.flight.config.timestamps { super::TIMESTAMPS_BYTES } else { 0 };
        let syn_window = self.host.settings.receive_buffer.min(u16::MAX.into());
        let theirs = self.host.settings.mss.saturating_sub(options).max(1);
        // Linux chooses the window of a SYN before timestamps are negotiated (`tcp_connect_init`).
        let knows_options = self.is_passive() || !self.policies.handshake.ignores_options_in_window;
        let first = if knows_options { theirs } else { self.host.settings.mss };
        let (segment, shift) =
            (self.sender.flight.config.segment.get() as u32, self.host.handshake.shifts.1);
        let window = self.window_mut();
        window.open(segment, (theirs, first), syn_window, shift);
        if let Some(memory) = window.memory() {
            memory.begin(now);
        }
        let closes = self.host.state == State::FinWait1;
        if !closes {
            self.host.state = State::Established;
        }
        self.apply_limits();
        self.sync_segment();
        (self.host.progress.heard_at, self.host.progress.sent_at, self.host.progress.data_at) =
            (now, now, now);
        self.host.progress.waiting_since = now;
        for (bytes, options) in std::mem::take(&mut self.host.handshake.early) {
            // The state permits it, and there is no error yet.
            let _ = self.write(now, bytes, options);
        }
        if closes {
            self.sender.close();
        }
        self.watch_data(now);
    }

    /// Processes the acknowledgment of the SYN.
    fn end_handshake(&mut self, now: Instant, echo: Option<Instant>) {
        // Linux counts answers to a retransmitted SYN in addition to expiries of its timer, once
        // that has expired.
        let timeouts = self.host.handshake.syns_sent.saturating_sub(1);
        let repeated = if self.policies.handshake.counts_lost_syns && timeouts > 0 {
            self.host.handshake.syns_repeated
        } else {
            0
        };
        let has_lost_syns = timeouts + repeated > 1 && !self.echoes_first_syn(echo);
        let is_active_linux =
            self.policies.handshake.counts_lost_syns && !self.is_passive() && timeouts > 0;
        let flight = &mut self.sender.flight;
        // RFC 6928, section 2.
        flight.initial_window = if has_lost_syns { 1.0 } else { flight.config.initial_window };
        flight.begin_established(self.host.handshake.peer_syn.0.into(), !self.host.app.nodelay);
        // The timeout of the SYN is marked with CWR like any other.
        flight.losses.extra_cwr_marks += u64::from(is_active_linux && flight.config.ecn);
        self.sender.on_any_ack(now, 1, &[], true, echo);
        if is_active_linux && !self.sender.flight.config.sack {
            self.sender.begin_after_lost_syn();
            self.sender.refresh();
        }
        self.host.progress.timeouts_seen = self.sender.flight.counters.timeouts;
    }

    /// Returns `true` if the first SYN was sent at `echo`, so that its retransmissions were
    /// spurious (Linux: `tcp_try_undo_spurious_syn`).
    fn echoes_first_syn(&self, echo: Option<Instant>) -> bool {
        let stamp = |at| self.timestamp(at);
        self.policies.handshake.detects_spurious_syn
            && echo.map(stamp) == Some(stamp(self.host.handshake.syn_sent_at))
    }

    /// Ends the connection; `error` is returned to the application.
    pub(super) fn end(&mut self, error: Option<SocketError>) {
        self.host.state = State::Closed;
        self.host.error = error.or(self.host.error);
        self.sender.flight.timers.stop_all();
        if error.is_some_and(|error| error != SocketError::TimedOut) {
            self.sender.probe_back_off = 0;
            if !self.policies.abort.is_by_time() {
                self.host.progress.probes_unanswered = 0;
            }
        }
    }

    /// Bytes that have arrived in order, excluding the FIN.
    pub fn received(&self) -> u64 {
        self.receiver.rcv_nxt.min(self.host.peer_fin.unwrap_or(u64::MAX)).saturating_sub(1)
    }

    /// Returns `true` if the peer's FIN and all data before it have arrived.
    pub fn has_peer_closed(&self) -> bool {
        self.host.peer_fin.is_some_and(|fin| self.receiver.rcv_nxt > fin)
    }

    /// Changes the state after an arrival, which may contain a FIN or acknowledge ours.
    pub(super) fn follow(&mut self, now: Instant, had_peer_closed: bool) {
        let is_fin_acked = self.sender.flight.snd_una > self.sender.flight.stream.fin_at;
        let has_new_fin = !had_peer_closed && self.has_peer_closed();
        if has_new_fin && self.policies.admission.discards_above_fin {
            // A FIN in response to ours is acknowledged first.
            self.host.forgets_above = self.host.state != State::Established;
            if !self.host.forgets_above {
                self.receiver.forget_above();
            }
        }
        self.host.state = match self.host.state {
            State::Established if has_new_fin => State::CloseWait,
            State::FinWait1 if is_fin_acked && self.has_peer_closed() => State::TimeWait,
            State::FinWait1 if is_fin_acked => {
                if self.host.app.is_orphan && self.host.settings.fin_wait == Duration::ZERO {
                    return self.reset_orphan(now);
                }
                if self.host.app.is_orphan {
                    self.start(Timer::Linger, now, self.host.settings.fin_wait);
                }
                State::FinWait2
            }
            State::FinWait1 if has_new_fin => State::Closing,
            State::FinWait2 if has_new_fin => State::TimeWait,
            State::Closing if is_fin_acked => State::TimeWait,
            State::LastAck if is_fin_acked => return self.end(None),
            same => same,
        };
        let is_new = has_new_fin || !self.sender.flight.timers.is_running(Timer::Linger);
        if self.host.state == State::TimeWait && is_new {
            self.start(Timer::Linger, now, self.host.settings.time_wait);
            self.stop(Timer::KeepAlive);
        }
        // A FIN in response to ours is acknowledged immediately.
        if has_new_fin && self.host.state != State::CloseWait {
            self.receiver.challenge();
        }
    }

    /// Resets a closed socket that does not wait in FIN-WAIT-2 (Linux: `TCP_LINGER2` below 0).
    fn reset_orphan(&mut self, now: Instant) {
        let header = self.control(now, flags::RST, self.sender.flight.snd_una);
        self.reply(TcpHeader { has_timestamps: false, sack_blocks: 0, ack: 0, ..header });
        self.end(None);
    }

    /// Restarts the timers that wait for an answer, after data was written or a segment received.
    pub(super) fn watch_data(&mut self, now: Instant) {
        if !self.is_open() {
            return;
        }
        let has_data = !self.is_all_acked();
        let since = if self.policies.abort.is_by_time() {
            self.host.progress.repeating_since
        } else {
            has_data.then_some(self.host.progress.waiting_since)
        };
        match (self.host.settings.user_timeout, since) {
            // Linux limits a timer by it when the timer is restarted, and checks it when one
            // expires.
            (Some(_), Some(_)) if self.policies.abort.is_by_time() => {}
            (Some(limit), Some(since)) => {
                self.start(Timer::User, now, (since + limit).saturating_since(now));
            }
            _ => self.stop(Timer::User),
        }
        match self.host.settings.keep_alive {
            Some(keep_alive)
                if self.host.state.is_synchronized() && self.host.state != State::TimeWait =>
            {
                let timers = &mut self.sender.flight.timers;
                timers.start(Timer::KeepAlive, now, keep_alive.idle);
                if self.policies.abort.is_by_time() {
                    // After a probe Linux does not check before the end of the interval, answered
                    // or not.
                    let deadline = timers.deadline(Timer::KeepAlive);
                    timers.set(Timer::KeepAlive, deadline.max(self.host.progress.next_probe_check));
                }
            }
            _ => self.stop(Timer::KeepAlive),
        }
    }

    /// Restarts the persist timer. In Linux it expires with the user timeout at the latest.
    pub(super) fn set_persist(&mut self, now: Instant) {
        let limit = self.host.settings.user_timeout.filter(|_| self.policies.abort.is_by_time());
        let mut delay = self.sender.persist_interval();
        if let Some((limit, since)) = limit.zip(self.host.progress.repeating_since) {
            delay = delay.min((since + limit).saturating_since(now).max(LEAST_TIMEOUT));
        }
        self.sender.flight.timers.start(Timer::Persist, now, delay);
    }

    /// Sends a probe: an ACK with a sequence number that the peer has received, so that it must
    /// answer.
    fn probe(&mut self, now: Instant) {
        let header = self.control(now, flags::ACK, self.sender.flight.snd_una - 1);
        self.reply(header);
    }

    /// Returns a segment without data that is not part of the stream.
    pub(super) fn control(&self, now: Instant, flags: u8, seq: u64) -> TcpHeader {
        let has_timestamps = self.sender.flight.config.timestamps;
        let stamps = || TcpOptions::stamps(self.timestamp(now), self.receiver.ts_recent);
        let mut header = TcpHeader {
            flags,
            seq: seq as u32,
            ack: self.receiver.rcv_nxt as u32,
            window: self.advertised_window,
            has_timestamps,
            options: if has_timestamps { stamps() } else { TcpOptions::default() },
            ..TcpHeader::default()
        };
        if self.policies.receive.is_linux() {
            self.report(&mut header);
        }
        header
    }

    /// Handles a deadline.
    pub fn handle_timeout(&mut self, now: Instant) {
        if self.next_timeout() <= now {
            self.note_input(now);
        }
        let is_due = |socket: &Self, timer| socket.sender.flight.timers.is_due(timer, now);
        if is_due(self, Timer::Linger) {
            return self.end(None);
        }
        if !self.is_open() {
            if is_due(self, Timer::Retransmission) && self.may_repeat_syn(now) {
                self.handle_data_timeout(now);
            }
            return;
        }
        if is_due(self, Timer::User) {
            return self.time_out(now);
        }
        if is_due(self, Timer::Persist) {
            self.on_persist(now);
        }
        if is_due(self, Timer::KeepAlive) {
            self.on_keep_alive(now);
        }
        if self.policies.abort.is_by_time() && self.gives_up(now) {
            return self.time_out(now);
        }
        self.handle_data_timeout(now);
        let timeouts = self.counters().timeouts;
        if timeouts > self.host.progress.timeouts_seen {
            self.host.progress.timeouts_seen = timeouts;
            self.host.progress.retransmission_back_off += 1;
            if !self.policies.abort.is_by_time()
                && self.host.progress.retransmission_back_off > self.host.settings.retries
            {
                return self.time_out(now);
            }
            let is_probe = self.sender.flight.peer.window == 0 && !self.host.app.is_orphan;
            if let Some(how) = self.host.settings.mtu_probing
                && !is_probe
                && self.has_repeated_as_by(now, how.retries)
            {
                self.suspect_black_hole(how);
            }
            self.note_repetition(now);
        }
        if is_due(self, Timer::User) {
            // Retransmissions have lasted for the user timeout.
            self.time_out(now);
        }
    }

    /// Returns `true` if the retransmission timer has expired and retransmissions have lasted too
    /// long. Linux checks this before it processes the timeout.
    fn gives_up(&self, now: Instant) -> bool {
        let flight = &self.sender.flight;
        let is_due = flight.timers.is_due(Timer::Retransmission, now);
        let is_probe = flight.peer.window == 0 && !self.host.app.is_orphan;
        is_due && flight.snd_una < flight.snd_max && self.has_repeated_for_long(now, is_probe)
    }

    /// Maximum number of retransmissions of a segment, or of probes, before the connection is
    /// aborted.
    fn most_retries(&self) -> u32 {
        let Settings { retries, orphan_retries, .. } = self.host.settings;
        if self.host.app.is_orphan && self.policies.abort.is_by_time() {
            orphan_retries
        } else {
            retries
        }
    }

    /// Returns `true` if retransmissions have lasted so long that the peer is assumed to be
    /// unreachable. Linux uses a time: `retransmits_timed_out`, and with a closed window
    /// `tcp_rtx_probe0_timed_out`. A user timeout has its own deadline.
    fn has_repeated_for_long(&self, now: Instant, is_probe: bool) -> bool {
        if is_probe {
            let limit = self.host.settings.longest_rto * 2;
            let is_old = |since| now - since > limit;
            return is_old(self.host.progress.heard_at)
                && self.host.progress.repeating_since.is_some_and(is_old);
        }
        match self.host.settings.user_timeout {
            Some(limit) => {
                self.host.progress.repeating_since.is_some_and(|since| now - since >= limit)
            }
            None => self.has_repeated_as_by(now, self.most_retries()),
        }
    }

    /// Returns `true` if retransmissions have lasted as long as `retries` and one more timeout with
    /// a first RTO of 200 ms.
    fn has_repeated_as_by(&self, now: Instant, retries: u32) -> bool {
        let Some(since) = self.host.progress.repeating_since else { return false };
        let [least, longest] = [LEAST_RTO, self.host.settings.longest_rto].map(Duration::as_nanos);
        let doubling = (longest / least).max(1).ilog2();
        let beyond = longest.saturating_mul(retries.saturating_sub(doubling).into());
        let limit = beyond.saturating_add(least * ((2 << retries.min(doubling)) - 1));
        now - since >= Duration::from_nanos(limit)
    }

    /// Ends the connection because the peer does not answer. Linux reports this to the application
    /// only; a reset is sent only to an idle peer that was probed.
    fn time_out(&mut self, now: Instant) {
        match self.policies.abort.is_by_time() {
            true => self.end(Some(self.host.reason.unwrap_or(SocketError::TimedOut))),
            false => self.abort(now, Some(SocketError::TimedOut)),
        }
    }

    /// Handles an expiry of the timer of the SYN. Returns `true` if the SYN is to be retransmitted.
    fn may_repeat_syn(&mut self, now: Instant) -> bool {
        let is_answer = self.host.state == State::SynReceived;
        if self.host.handshake.is_deferred
            && self.host.handshake.syns_sent + 1 < self.host.settings.deferred_accept
        {
            // No retransmission while data is awaited.
            self.sender.flight.rtt.back_off();
            self.start(Timer::Retransmission, now, self.sender.flight.rtt.rto());
            self.host.handshake.syns_sent += 1;
            return false;
        }
        let may_repeat =
            self.host.handshake.syns_sent <= self.host.settings.syn_retries[usize::from(is_answer)];
        match may_repeat {
            true => {}
            false if self.is_passive() => self.forget_peer(),
            false => self.end(Some(SocketError::TimedOut)),
        }
        may_repeat
    }

    /// Returns to LISTEN.
    pub(super) fn forget_peer(&mut self) {
        self.host.state = State::Listen;
        self.host.handshake.syns_sent = 0;
        self.sender.reset(self.host.settings.boot_offset);
    }

    /// Records a retransmission or a probe of a closed window. The user timeout starts at the first
    /// one.
    fn note_repetition(&mut self, now: Instant) {
        let since = *self.host.progress.repeating_since.get_or_insert(now);
        if let (true, Some(limit)) =
            (self.policies.abort.is_by_time(), self.host.settings.user_timeout)
        {
            self.start(Timer::User, now, (since + limit).saturating_since(now));
        }
    }

    fn on_persist(&mut self, now: Instant) {
        self.stop(Timer::Persist);
        let flight = &mut self.sender.flight;
        if flight.peer.window > 0 && self.policies.send.excuses_data_probes {
            // Data does not count as a probe.
            flight.rtt.forget_doublings();
            self.host.progress.probes_unanswered = 0;
        }
        if flight.stream.is_corked && flight.peer.window > 0 {
            // Corked data is sent nevertheless.
            flight.stream.is_short_excused = true;
            self.host.app.has_more = false;
            self.release(false);
            if self.sender.flight.fits_receiver() {
                return;
            }
        }
        if self.sender.flight.peer.window > 0 {
            return self.sender.send_what_fits();
        }
        let limit = self.host.settings.user_timeout.filter(|_| self.policies.abort.is_by_time());
        let has_waited = |limit| {
            self.host.progress.repeating_since.is_some_and(|since: Instant| now - since >= limit)
        };
        if self.host.progress.probes_unanswered >= self.most_retries()
            || limit.is_some_and(has_waited)
        {
            return self.time_out(now);
        }
        self.probe(now);
        self.note_repetition(now);
        self.host.progress.probes_unanswered += 1;
        let most = self.host.settings.retries;
        self.sender.probe_back_off += 1;
        if self.sender.flight.rtt.back_offs() < most {
            self.sender.flight.rtt.count_doubling();
        }
        self.set_persist(now);
    }

    fn on_keep_alive(&mut self, now: Instant) {
        let Some(KeepAlive { interval, probes, .. }) = self.host.settings.keep_alive else {
            return;
        };
        if self.is_all_acked() {
            let unanswered = self.host.progress.keep_alives_unanswered;
            let is_over = match self
                .host
                .settings
                .user_timeout
                .filter(|_| self.policies.abort.is_by_time())
            {
                Some(limit) => unanswered > 0 && now - self.host.progress.heard_at >= limit,
                None => unanswered >= probes,
            };
            if is_over {
                return self.abort(now, Some(SocketError::TimedOut));
            }
            self.host.progress.keep_alives_unanswered += 1;
            self.probe(now);
        }
        self.start(Timer::KeepAlive, now, interval);
        self.host.progress.next_probe_check = self.sender.flight.timers.deadline(Timer::KeepAlive);
    }
}

/// Minimum duration of a timer in Linux (`TCP_TIMEOUT_MIN`).
const LEAST_TIMEOUT: Duration = Duration::from_millis(2);

/// First RTO assumed by Linux to convert a number of retransmissions to a time (`TCP_RTO_MIN`).
const LEAST_RTO: Duration = Duration::from_millis(200);

impl Flight {
    /// Sets the peer's window and Nagle's algorithm at the end of the handshake.
    fn begin_established(&mut self, peer_window: u64, nagle: bool) {
        self.peer.window = peer_window;
        self.stream.has_nagle &= nagle;
    }
}
