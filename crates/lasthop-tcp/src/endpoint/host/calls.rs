//! What an application asks of a socket: to open and to close, to write and to read, and the options that it sets.

use super::{Configure, Endpoint, Host, KeepAlive, Negotiated, SocketError, State};
use crate::endpoint::Role;
use crate::timers::Timer;
use lasthop_base::packet::flags;
use lasthop_base::units::{Duration, Instant};

/// What a write asks for beside its bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WriteOptions {
    /// More follows at once: a short segment waits (Linux's `MSG_MORE`).
    pub more: bool,
    /// No later write joins this one (Linux's `MSG_EOR`).
    pub end_of_record: bool,
}

impl Endpoint<Host> {
    /// Waits for a SYN.
    pub fn listen(&mut self) {
        self.role = Role::Acceptor;
        self.host.state = State::Listen;
    }

    /// Sends a SYN.
    pub fn connect(&mut self) {
        self.host.state = State::SynSent;
        self.sender.open();
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
        if let Some(error) = self.host.error.take() {
            return Err(error);
        }
        if !self.host.state.may_write() {
            return Err(if self.host.state == State::Listen {
                SocketError::NotConnected
            } else {
                SocketError::BrokenPipe
            });
        }
        if !self.is_open() {
            self.host.handshake.early.push((bytes, options));
            return Ok(());
        }
        if self.is_all_acked() {
            self.host.progress.waiting_since = now;
        }
        self.host.app.has_more = options.more;
        self.sender.flight.stream.is_corked = self.host.app.is_corked || self.host.app.has_more;
        self.write_data(bytes);
        self.sender.flight.end_write(options.end_of_record);
        self.watch_data(now);
        Ok(())
    }

    /// The application writes up to `bytes`, as many as the send buffer takes now; more than none only if `is_awake`: a writer
    /// that waits sleeps until a third of the buffer is free. Returns how many.
    ///
    /// # Errors
    /// Those of [`Self::write`].
    pub fn write_some(
        &mut self,
        now: Instant,
        bytes: u64,
        options: WriteOptions,
        is_awake: bool,
    ) -> Result<u64, SocketError> {
        let keeps_records = self.is_open() && self.sender.flight.keeps_records();
        if self.host.error.is_some() || !self.host.state.may_write() || !keeps_records {
            return self.write(now, bytes, options).map(|()| bytes);
        }
        // A piece holds as much as half of the largest window, in segments of now.
        let window = match self.is_linux {
            true => self.host.path.largest_window(),
            false => self.sender.flight.peer_window,
        };
        let segment = self.sender.flight.mss.saturating_sub(self.block_bytes()).max(1);
        let fill = self.sender.fill();
        let limit = self.host.settings.unsent_limit.map_or(u64::MAX, u64::from);
        if !is_awake && (2 * fill.unsent >= limit || !self.host.buffer.is_free(&fill)) {
            self.host.app.awaits_room = true;
            return Ok(0);
        }
        self.host.buffer.begin_write(segment, window);
        self.host.buffer.unsent_limit = limit;
        let (mut taken, mut pushes) = (0, 0);
        while taken < bytes {
            let piece = self.write_piece(now, bytes - taken, options)?;
            taken += piece;
            if piece == 0 {
                break;
            }
            if taken < bytes {
                pushes += self.push_full_piece(now, window, pushes > 0);
            }
        }
        self.host.app.awaits_room = taken < bytes;
        let (write_end, snd_max) = (self.sender.flight.write_end, self.sender.flight.snd_max);
        if !options.more || self.host.app.awaits_room {
            self.host.buffer.note_push(write_end);
        }
        if pushes > 0 && (self.host.app.awaits_room || write_end - snd_max > 0) {
            self.push(now, false, self.host.app.awaits_room, true);
        }
        Ok(taken)
    }

    /// The first piece of what is written. Returns its bytes; none if there is no room.
    fn write_piece(
        &mut self,
        now: Instant,
        bytes: u64,
        options: WriteOptions,
    ) -> Result<u64, SocketError> {
        let (fill, flight) = (self.sender.fill(), &self.sender.flight);
        let piece = self.host.buffer.write_piece(
            bytes,
            &fill,
            flight.snd_max,
            flight.stream.is_record_closed,
        );
        if piece > 0 {
            let end_of_record = options.end_of_record && piece == bytes;
            self.write(now, piece, WriteOptions { end_of_record, ..options })?;
        }
        Ok(piece)
    }

    /// A full piece leaves at once, as far as the windows let it, and more is written behind it: of the only one that waits
    /// the first segments, otherwise whatever may once half of a window is written (Linux: `tcp_push_one`, `forced_push`).
    /// Returns how often that was.
    fn push_full_piece(&mut self, now: Instant, window: u64, is_urged: bool) -> u32 {
        let flight = &self.sender.flight;
        let write_end = flight.write_end;
        let (is_full, is_only) = self.host.buffer.look_at_last(write_end, flight.snd_max);
        if !self.is_linux || !is_full {
            return 0;
        }
        if self.host.buffer.is_push_due(write_end, window) {
            self.host.buffer.note_push(write_end);
            self.push(now, false, true, is_urged);
        } else if is_only {
            self.push(now, true, true, true);
        } else {
            return 0;
        }
        1
    }

    /// What may leave does so now, in a burst of its own: only one piece of segments, or all; without Nagle's algorithm if
    /// `overrules`; what the window lets out does not wait for more if it `is_urged`.
    fn push(&mut self, now: Instant, only_one: bool, overrules: bool, is_urged: bool) {
        let flight = &mut self.sender.flight;
        let usual = (flight.stream.has_nagle, flight.stream.is_corked);
        if overrules {
            (flight.stream.has_nagle, flight.stream.is_corked) = (false, false);
        }
        flight.stream.sends_short_segment = is_urged;
        self.sender.refresh();
        let goes_on = |socket: &Self| !only_one || socket.sender.flight.is_within_piece();
        while self.depart(now) && goes_on(self) {}
        let flight = &mut self.sender.flight;
        (flight.stream.has_nagle, flight.stream.is_corked) = usual;
        flight.stream.sends_short_segment = false;
        self.burst.reported = None;
        flight.records_mut().begin_burst();
        self.sender.refresh();
    }

    /// Could an application write, as `poll` tells?
    pub fn is_writable(&self) -> bool {
        if !self.is_open() || !self.sender.flight.keeps_records() {
            return true;
        }
        let fill = self.sender.fill();
        // To wake a writer, Linux wants half of the limit.
        let limit = self.host.settings.unsent_limit.map_or(u64::MAX, u64::from);
        self.host.buffer.is_free(&fill) && fill.unsent * 2 < limit.max(1)
    }

    /// Bytes written and not acknowledged, and those of them that were never sent.
    pub fn unacknowledged(&self) -> (u64, u64) {
        if !self.is_open() {
            let bytes = self.host.handshake.early.iter().map(|(bytes, _)| bytes).sum();
            return (bytes, bytes);
        }
        let flight = &self.sender.flight;
        let end = flight.write_end.min(flight.stream.fin_at);
        (end - flight.snd_una.min(end), end - flight.snd_max.min(end))
    }

    /// The same as Linux counts them, a FIN as one more.
    pub fn unacknowledged_numbers(&self) -> (u64, u64) {
        if !self.is_open() || !self.is_linux {
            return self.unacknowledged();
        }
        let flight = &self.sender.flight;
        (flight.write_end - flight.snd_una, flight.write_end - flight.snd_max)
    }

    /// Bytes that have arrived in order and are not read.
    pub fn unread(&self) -> u64 {
        self.received() - self.window().read
    }

    /// The application reads up to `bytes`; how many there were.
    pub fn read(&mut self, now: Instant, bytes: u64) -> u64 {
        let unread = self.unread();
        let (taken, listens) = (bytes.min(unread), !self.host.app.is_read_shut);
        let read = self.window().read + taken;
        if taken > 0 {
            self.receiver.read_up_to(now, read, taken == unread, listens);
        }
        taken
    }

    /// Has everything that the peer will send been read?
    pub fn is_at_end(&self) -> bool {
        self.unread() == 0 && self.is_receiving_over()
    }

    /// Will nothing more arrive, as the peer has closed or the application does not read?
    pub fn is_receiving_over(&self) -> bool {
        self.host.app.is_read_shut || self.has_peer_closed()
    }

    /// The application lets go of the socket: a FIN follows what is written. Data that it has not read
    /// make it a reset (RFC 2525, section 2.17).
    pub fn close(&mut self, now: Instant) {
        let has_unread = self.unread() > 0;
        self.host.app.is_orphan = true;
        self.host.app.is_read_shut = true;
        match self.host.state {
            State::Closed | State::TimeWait => {}
            State::Listen | State::SynSent => self.end(None),
            _ if has_unread => self.abort(now, None),
            State::FinWait2 if self.host.settings.fin_wait == Duration::ZERO => {
                self.abort(now, None)
            }
            State::FinWait2 => self.start(Timer::Linger, now, self.host.settings.fin_wait),
            _ => self.shut_down_writes(now),
        }
    }

    /// The application writes no more.
    pub fn shut_down_writes(&mut self, now: Instant) {
        match self.host.state {
            State::SynReceived | State::Established => self.host.state = State::FinWait1,
            State::CloseWait => self.host.state = State::LastAck,
            State::SynSent => return self.end(None),
            _ => return,
        }
        self.host.app.is_corked = false;
        self.host.app.has_more = false;
        self.release(false);
        if self.is_open() {
            self.sender.close();
        }
        self.watch_data(now);
    }

    /// The application reads no more; what has arrived can still be read.
    pub fn shut_down_reads(&mut self) {
        self.host.app.is_read_shut = true;
    }

    /// Ends the connection with a reset; `error` is what the application will hear.
    pub fn abort(&mut self, now: Instant, error: Option<SocketError>) {
        if self.is_open() && self.host.state.is_synchronized() {
            let seq = self.acceptable_number();
            let header = self.control(now, flags::RST | flags::ACK, seq);
            self.reply(header);
        }
        self.end(error);
    }

    /// Parameters of the connection, from what is negotiated; for one that is not open yet.
    pub fn set_configure(&mut self, configure: Configure) {
        self.host.configure = configure;
    }

    /// The next call hears of what routers say, though the connection goes on (Linux: `IP_RECVERR`).
    pub fn set_hears_of_errors(&mut self, hears: bool) {
        self.host.app.hears_of_errors = hears;
    }

    /// The congestion law is another from now on, with window and threshold of the one before.
    pub fn change_law(&mut self, now: Instant) {
        if !self.is_open() {
            return;
        }
        let config = (self.host.configure)(Negotiated {
            segment: self.sender.flight.mss as u32,
            sack: self.config.sack,
            timestamps: self.config.timestamps,
            ecn: self.ecn_state().0,
        });
        self.sender.flight.change_law(&config, now);
        self.sender.refresh();
    }

    /// The receive buffer changes its size; a window that was advertised stays.
    pub fn set_receive_buffer(&mut self, bytes: u32) {
        self.host.settings.receive_buffer = bytes;
        let window = self.window_mut();
        window.resize(bytes);
        if let Some(memory) = window.memory() {
            memory.resize(2 * u64::from(bytes));
        }
    }

    /// The window has so many bytes at most from now on; what was advertised stays.
    pub fn set_window_clamp(&mut self, bytes: u32) {
        let buffer = self.host.settings.receive_buffer;
        let window = self.window_mut();
        let latest = window.latest();
        match window.memory() {
            Some(memory) => memory.set_clamp(bytes.into(), latest),
            None => window.resize(bytes.min(buffer)),
        }
    }

    /// Bytes that the window may have at most, as far as memory bounds it.
    pub fn window_clamp(&self) -> Option<u64> {
        self.window().bounds().map(|memory| memory.clamp())
    }

    /// The same for now (Linux: `rcv_ssthresh`).
    pub fn window_limit(&self) -> Option<u64> {
        self.window().bounds().map(|memory| memory.limit())
    }

    /// Bytes of the peer's full segments, as far as they tell (Linux: `rcv_mss`).
    pub fn peer_segment(&self) -> Option<u64> {
        self.window().bounds().map(|memory| memory.full())
    }

    /// Bytes of memory of the receive buffer, which may have grown.
    pub fn receive_memory(&self) -> Option<u64> {
        self.window().bounds().map(|memory| memory.size())
    }

    /// Most bytes that were read in a round trip (Linux: `rcvq_space`).
    pub fn most_read(&self) -> Option<u64> {
        self.window().bounds().map(|memory| memory.most_read())
    }

    /// The round trip as the receiver knows it (Linux: `rcv_rtt_est`).
    pub fn receiver_rtt(&self) -> Option<Duration> {
        self.receiver.rtt()
    }

    /// How long an ACK is delayed, once data have come (Linux: `ato`).
    pub fn ack_delay(&self) -> Duration {
        if self.is_open() { self.receiver.delay() } else { Duration::ZERO }
    }

    /// The send buffer has so many bytes of memory, whatever the window.
    pub fn set_send_buffer(&mut self, bytes: u32) {
        self.host.settings.send_buffer = (bytes, true);
        self.host.buffer.resize(bytes.into());
    }

    /// Bytes written and not sent of which there are always less.
    pub fn set_unsent_limit(&mut self, limit: Option<u32>) {
        self.host.settings.unsent_limit = limit;
    }

    /// How long data may stay unacknowledged.
    pub fn set_user_timeout(&mut self, now: Instant, limit: Option<Duration>) {
        self.host.settings.user_timeout = limit;
        self.watch_data(now);
    }

    /// How long a closed socket stays in FIN-WAIT-2 (Linux: `TCP_LINGER2`); if no time at all, it resets.
    pub fn set_fin_wait(&mut self, time: Duration) {
        self.host.settings.fin_wait = time;
    }

    /// When an idle peer is probed.
    pub fn set_keep_alive(&mut self, now: Instant, keep_alive: Option<KeepAlive>) {
        self.host.settings.keep_alive = keep_alive;
        self.watch_data(now);
    }

    /// Are ACKs sent at once (Linux's `TCP_QUICKACK`)?
    pub fn set_quick_acks(&mut self, is_quick: bool) {
        if self.is_open() {
            if self.config.quick_acks == 0 {
                self.config.delayed_ack = (!is_quick).then_some(self.host.settings.ack_delay);
            }
            self.receiver.set_quick(is_quick);
        }
    }

    /// Are ACKs sent at once, as data flow one way only or no application has asked otherwise?
    pub fn has_quick_acks(&self) -> bool {
        !self.is_open() || self.receiver.has_quick_acks()
    }

    /// Does the application hold short segments back (Linux's `TCP_CORK`)?
    pub fn set_corked(&mut self, is_corked: bool) {
        self.host.app.is_corked = is_corked;
        self.host.app.has_more = false;
        self.release(is_corked);
    }

    /// Do short segments leave at once, without Nagle's algorithm (`TCP_NODELAY`)? Setting it sends what
    /// waits.
    pub fn set_nodelay(&mut self, nodelay: bool) {
        self.host.app.nodelay = nodelay;
        self.sender.flight.stream.has_nagle = !nodelay;
        if nodelay {
            self.host.app.has_more = false;
            self.release(false);
        }
    }

    pub(super) fn release(&mut self, is_corked: bool) {
        self.sender.flight.stream.is_corked = is_corked;
        self.sender.refresh();
    }
}
