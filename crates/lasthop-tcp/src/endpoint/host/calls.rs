//! Socket calls of an application: open and close, write and read, socket options.

use super::{Configure, Endpoint, Host, KeepAlive, Negotiated, SocketError, State};
use crate::endpoint::Role;
use crate::timers::Timer;
use lasthop_base::packet::flags;
use lasthop_base::units::{Duration, Instant};

/// Options of a send call.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WriteOptions {
    /// More data follows immediately: a short segment waits (Linux: `MSG_MORE`).
    pub more: bool,
    /// Later send calls are not merged with this one (Linux: `MSG_EOR`).
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

    /// Handles a send call of `bytes`.
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
        self.note_input(now);
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

    /// Handles a send call of up to `bytes`, limited by the room in the send buffer. If `is_awake`
    /// is not set, the writer sleeps, and writes only once a third of the buffer is free. Returns
    /// the number of bytes written.
    ///
    /// # Errors
    /// As for [`Self::write`].
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
        self.note_input(now);
        // A piece holds at most half of the maximum window, in segments of the current size.
        let window = match self.policies.send.halves_window {
            true => self.host.path.largest_window(),
            false => self.sender.flight.peer.window,
        };
        let segment = self.sender.flight.mss.saturating_sub(self.block_bytes()).max(1);
        let fill = self.sender.fill();
        let limit = self.host.settings.unsent_limit.map_or(u64::MAX, u64::from);
        if !is_awake && (2 * fill.unsent >= limit || !self.host.buffer.is_free(&fill)) {
            self.host.app.awaits_room = true;
            return Ok(0);
        }
        if is_awake {
            self.sender.begin_write();
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
                pushes += self.push_full_piece(now, window);
            }
        }
        self.host.app.awaits_room = taken < bytes;
        let (write_end, snd_max) = (self.sender.flight.write_end, self.sender.flight.snd_max);
        if !options.more || self.host.app.awaits_room {
            self.host.buffer.note_push(write_end);
        }
        if pushes > 0 && (self.host.app.awaits_room || write_end - snd_max > 0) {
            self.push(now, false, self.host.app.awaits_room);
        }
        Ok(taken)
    }

    /// Writes the first piece of a send call. Returns its bytes; 0 if there is no room.
    fn write_piece(
        &mut self,
        now: Instant,
        bytes: u64,
        options: WriteOptions,
    ) -> Result<u64, SocketError> {
        let (fill, flight) = (self.sender.fill(), &self.sender.flight);
        let (piece, is_new) = self.host.buffer.write_piece(
            bytes,
            &fill,
            flight.snd_max,
            flight.stream.is_record_closed,
        );
        if is_new {
            self.sender.flight.look_at_new_piece(now);
        }
        if piece > 0 {
            let end_of_record = options.end_of_record && piece == bytes;
            self.write(now, piece, WriteOptions { end_of_record, ..options })?;
        }
        Ok(piece)
    }

    /// Sends a full piece immediately, as far as the windows permit, before more data is written.
    /// If it is the only unsent piece, its first segments are sent. Otherwise all permitted
    /// segments are sent once half of a window is written (Linux: `tcp_push_one`, `forced_push`).
    /// Returns the number of such transmissions.
    fn push_full_piece(&mut self, now: Instant, window: u64) -> u32 {
        let flight = &self.sender.flight;
        let write_end = flight.write_end;
        let (is_full, is_only) = self.host.buffer.look_at_last(write_end, flight.snd_max);
        if !self.policies.send.pushes_full_pieces || !is_full {
            return 0;
        }
        if self.host.buffer.is_push_due(write_end, window) {
            self.host.buffer.note_push(write_end);
            self.push(now, false, true);
        } else if is_only {
            self.push(now, true, true);
        } else {
            return 0;
        }
        1
    }

    /// Sends all permitted segments now, in a separate burst. `only_one`: only one piece, without
    /// deferring segments until the window opens further; `overrules`: without Nagle's algorithm.
    fn push(&mut self, now: Instant, only_one: bool, overrules: bool) {
        let flight = &mut self.sender.flight;
        let usual = (flight.stream.has_nagle, flight.stream.is_corked);
        if overrules {
            (flight.stream.has_nagle, flight.stream.is_corked) = (false, false);
        }
        flight.stream.sends_short_segment = only_one;
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

    /// Returns `true` if an application can write, as reported by `poll`.
    pub fn is_writable(&self) -> bool {
        if !self.is_open() || !self.sender.flight.keeps_records() {
            return true;
        }
        let fill = self.sender.fill();
        // Linux wakes a writer at half of the limit.
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

    /// Like [`Self::unacknowledged`], as counted by Linux, with a FIN as one more.
    pub fn unacknowledged_numbers(&self) -> (u64, u64) {
        if !self.is_open() || !self.policies.send.counts_fin {
            return self.unacknowledged();
        }
        let flight = &self.sender.flight;
        (flight.write_end - flight.snd_una, flight.write_end - flight.snd_max)
    }

    /// Bytes that have arrived in order and have not been read.
    pub fn unread(&self) -> u64 {
        self.received() - self.window().read
    }

    /// Handles a read call of up to `bytes`, and returns the number of bytes read.
    pub fn read(&mut self, now: Instant, bytes: u64) -> u64 {
        let unread = self.unread();
        let (taken, listens) = (bytes.min(unread), !self.host.app.is_read_shut);
        let read = self.window().read + taken;
        if taken > 0 {
            self.receiver.read_up_to(now, read, taken == unread, listens);
        }
        taken
    }

    /// Returns `true` if all data of the peer's stream has been read.
    pub fn is_at_end(&self) -> bool {
        self.unread() == 0 && self.is_receiving_over()
    }

    /// Returns `true` if no more data arrives, because the peer has closed or the application does
    /// not read.
    pub fn is_receiving_over(&self) -> bool {
        self.host.app.is_read_shut || self.has_peer_closed()
    }

    /// Handles a close call: a FIN follows the written data. Unread data causes a reset instead
    /// (RFC 2525, section 2.17).
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

    /// Ends sending, at the request of the application.
    pub fn shut_down_writes(&mut self, now: Instant) {
        self.note_input(now);
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

    /// Ends reading, at the request of the application. Data that has arrived can still be read.
    pub fn shut_down_reads(&mut self) {
        self.host.app.is_read_shut = true;
    }

    /// Ends the connection with a reset; `error` is returned to the application.
    pub fn abort(&mut self, now: Instant, error: Option<SocketError>) {
        if self.is_open() && self.host.state.is_synchronized() {
            let seq = self.acceptable_number();
            let header = self.control(now, flags::RST | flags::ACK, seq);
            self.reply(header);
        }
        self.end(error);
    }

    /// Sets the function that determines the parameters of the connection from the negotiated ones,
    /// for a connection that is not open yet.
    pub fn set_configure(&mut self, configure: Configure) {
        self.host.configure = configure;
    }

    /// Sets whether the next call returns errors reported by routers while the connection continues
    /// (Linux: `IP_RECVERR`).
    pub fn set_hears_of_errors(&mut self, hears: bool) {
        self.host.app.hears_of_errors = hears;
    }

    /// Changes the congestion control algorithm. Window and threshold are kept.
    pub fn change_congestion_control(&mut self, now: Instant) {
        if !self.is_open() {
            return;
        }
        let config = (self.host.configure)(Negotiated {
            segment: self.sender.flight.mss as u32,
            sack: self.sender.flight.config.sack,
            timestamps: self.sender.flight.config.timestamps,
            ecn: self.ecn_state().0,
        });
        self.sender.flight.change_congestion_control(&config, now);
        self.sender.refresh();
    }

    /// Sets the size of the receive buffer. The advertised window is not reduced.
    pub fn set_receive_buffer(&mut self, bytes: u32) {
        self.host.settings.receive_buffer = bytes;
        let window = self.window_mut();
        window.resize(bytes);
        if let Some(memory) = window.memory() {
            memory.resize(2 * u64::from(bytes));
        }
    }

    /// Sets the maximum window in bytes. The advertised window is not reduced.
    pub fn set_window_clamp(&mut self, bytes: u32) {
        let buffer = self.host.settings.receive_buffer;
        let window = self.window_mut();
        let latest = window.latest();
        match window.memory() {
            Some(memory) => memory.set_clamp(bytes.into(), latest),
            None => window.resize(bytes.min(buffer)),
        }
    }

    /// Maximum window in bytes, if limited by memory.
    pub fn window_clamp(&self) -> Option<u64> {
        self.window().bounds().map(|memory| memory.clamp())
    }

    /// Current maximum of the window in bytes, if limited by memory (Linux: `rcv_ssthresh`).
    pub fn window_limit(&self) -> Option<u64> {
        self.window().bounds().map(|memory| memory.limit())
    }

    /// Estimated bytes of the peer's full segments (Linux: `rcv_mss`).
    pub fn peer_segment(&self) -> Option<u64> {
        self.window().bounds().map(|memory| memory.full())
    }

    /// Memory of the receive buffer in bytes, which may have grown.
    pub fn receive_memory(&self) -> Option<u64> {
        self.window().bounds().map(|memory| memory.size())
    }

    /// Maximum number of bytes read in an RTT (Linux: `rcvq_space`).
    pub fn most_read(&self) -> Option<u64> {
        self.window().bounds().map(|memory| memory.most_read())
    }

    /// RTT estimate of the receiver (Linux: `rcv_rtt_est`).
    pub fn receiver_rtt(&self) -> Option<Duration> {
        self.receiver.rtt()
    }

    /// Delay of an ACK, once data has arrived (Linux: `ato`).
    pub fn ack_delay(&self) -> Duration {
        if self.is_open() { self.receiver.delay() } else { Duration::ZERO }
    }

    /// Sets the memory of the send buffer to `bytes`, independent of the window.
    pub fn set_send_buffer(&mut self, bytes: u32) {
        self.host.settings.send_buffer = (bytes, true);
        self.host.buffer.resize(bytes.into());
    }

    /// Sets the limit of bytes written and not sent.
    pub fn set_unsent_limit(&mut self, limit: Option<u32>) {
        self.host.settings.unsent_limit = limit;
    }

    /// Sets the maximum time for which data may remain unacknowledged.
    pub fn set_user_timeout(&mut self, now: Instant, limit: Option<Duration>) {
        self.host.settings.user_timeout = limit;
        self.watch_data(now);
    }

    /// Sets the time for which a closed socket stays in FIN-WAIT-2 (Linux: `TCP_LINGER2`). Zero
    /// causes a reset instead.
    pub fn set_fin_wait(&mut self, time: Duration) {
        self.host.settings.fin_wait = time;
    }

    /// Sets the times at which an idle peer is probed.
    pub fn set_keep_alive(&mut self, now: Instant, keep_alive: Option<KeepAlive>) {
        self.host.settings.keep_alive = keep_alive;
        self.watch_data(now);
    }

    /// Sets whether ACKs are sent immediately (Linux: `TCP_QUICKACK`).
    pub fn set_quick_acks(&mut self, is_quick: bool) {
        if self.is_open() {
            if self.sender.flight.config.quick_acks == 0 {
                self.sender.flight.config.delayed_ack =
                    (!is_quick).then_some(self.host.settings.ack_delay);
            }
            self.receiver.set_quick(is_quick);
        }
    }

    /// Returns `true` if ACKs are sent immediately, because data flows in one direction or the
    /// application has not disabled it.
    pub fn has_quick_acks(&self) -> bool {
        !self.is_open() || self.receiver.has_quick_acks()
    }

    /// Sets whether the application holds short segments back (Linux: `TCP_CORK`).
    pub fn set_corked(&mut self, is_corked: bool) {
        self.host.app.is_corked = is_corked;
        self.host.app.has_more = false;
        self.release(is_corked);
    }

    /// Sets whether short segments are sent immediately, without Nagle's algorithm (`TCP_NODELAY`).
    /// Setting it sends waiting data.
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
