//! The sending half of a connection.

use super::config::Config;
use super::congestion_control::{CongestionControl, CongestionPhase, ModelState, Passage};
use super::flight::Flight;
use super::info::{Outstanding, RecoveryState};
use super::recovery::{Arrival, LossRecovery, RackTlp, Recovery, SegmentCounts};
use super::send_buffer::Fill;
use super::timers::Timer;
use lasthop_base::units::{Duration, Instant};

/// Always-on counters of one sender.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SenderCounters {
    /// Segments sent, first transmissions and retransmissions, SYN and FIN included.
    pub segments_sent: u64,
    /// Of these, retransmissions.
    pub retransmissions: u64,
    /// Expiries of the retransmission timer.
    pub timeouts: u64,
    /// Fast retransmits: entries into recovery by duplicate ACKs.
    pub fast_retransmits: u64,
    /// Window reductions, by fast retransmit or timeout.
    pub window_cuts: u64,
    /// Segments declared lost, each at most once: by a fast retransmit, by a partial ACK or SACK
    /// hole in recovery, or by the timer, which declares only the oldest one. Other segments
    /// retransmitted after a timeout are not counted, since they may not be lost.
    pub losses_declared: u64,
    /// Window reductions that were undone because they were spurious.
    pub spurious_reductions: u64,
    /// Tail loss probes (RFC 8985, section 7).
    pub tail_probes: u64,
    /// Outstanding segments reported lost by a link (ELN).
    pub explicit_losses: u64,
    /// Expiries of the retransmission timer without effect because a link was retransmitting the
    /// segment (ERSN).
    pub timeouts_held: u64,
}

/// A segment to send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Outgoing {
    pub seq: u64,
    /// Payload bytes.
    pub payload: u32,
    pub syn: bool,
    pub fin: bool,
}

/// Sending half of a connection.
#[derive(Clone, Debug)]
pub struct Sender {
    pub(super) flight: Flight,
    recovery: Recovery,
    /// SND.MAX at the latest reduction for a mark, which limits reductions to one per window of
    /// data.
    marked_to: u64,
    /// Number of doublings of the interval between window probes. Linux counts them with those of
    /// the RTO.
    pub(super) probe_back_off: u32,
}

impl Sender {
    pub(super) fn new(config: &Config, boot_offset: Duration) -> Self {
        let flight = Flight::new(config, boot_offset);
        let mut sender =
            Sender { flight, recovery: Recovery::new(config), marked_to: 0, probe_back_off: 0 };
        sender.refresh();
        sender
    }

    /// Updates derived state after a change of the windows.
    #[inline(always)]
    pub(super) fn refresh(&mut self) {
        let is_plain = self.recovery.is_plain(&self.flight);
        self.flight.refresh(self.recovery.inflation(), is_plain);
        self.flight.allow_plain_acks(|| self.recovery.has_ack_fast_path());
    }

    /// Resets the state for a new connection instance.
    pub(super) fn reset(&mut self, boot_offset: Duration) {
        if self.flight.is_unused() {
            // The sender of an endpoint that only acknowledges has no state to reset, except its
            // clock.
            self.flight.restart_clock(boot_offset);
            return;
        }
        self.flight.reset(boot_offset);
        self.recovery.reset(&self.flight.config);
        (self.marked_to, self.probe_back_off) = (0, 0);
        self.refresh();
    }

    /// Takes over the SYN sent by `before`, with which the parameters of this sender were
    /// negotiated.
    pub(super) fn adopt_handshake(&mut self, before: Sender) {
        self.flight.adopt_handshake(before.flight);
        self.refresh();
    }

    /// Schedules the SYN for transmission.
    pub(super) fn open(&mut self) {
        if !self.is_opened() {
            self.flight.extend(1);
            self.refresh();
        }
    }

    /// Retransmits the SYN because the peer has retransmitted its own.
    #[cold]
    pub(super) fn send_syn_again(&mut self, now: Instant) {
        self.flight.send_oldest_again(now);
        self.refresh();
    }

    /// Returns `true` if the SYN was sent or is due.
    pub(super) fn is_opened(&self) -> bool {
        self.flight.write_end > 0
    }

    /// Handles simultaneous open: retransmits the SYN with an ACK and a doubled timeout. A SYN that
    /// was not yet sent becomes a SYN/ACK, which does not count as a retransmission.
    pub(super) fn answer_syn(&mut self, now: Instant) {
        self.flight.config.syn_linear_timeouts = 0;
        if self.has_sent(1) {
            self.flight.rtt.back_off();
            self.send_syn_again(now);
        }
    }

    /// Handles the start of a send call, which is not the continuation of one that waits for room.
    pub(super) fn begin_write(&mut self) {
        if self.flight.examines_calls() && !self.flight.has_waiting() {
            let fill = self.fill();
            self.flight.note_call(&fill);
        }
    }

    /// Handles a send call of `bytes`. Its last segment is a short one unless the profile pads it.
    pub(super) fn write(&mut self, bytes: u64) {
        let flight = &mut self.flight;
        let length = if flight.config.pad_segments {
            bytes.div_ceil(flight.mss) * flight.mss
        } else {
            bytes
        };
        if length > 0 {
            flight.extend_by_write(length);
            self.recovery.on_written();
            self.refresh();
        }
    }

    /// Discards the data that was never sent.
    pub(super) fn discard_unsent(&mut self) {
        self.flight.discard_unsent();
        self.recovery.on_written();
        self.refresh();
    }

    pub(super) fn close(&mut self) {
        let flight = &mut self.flight;
        if flight.config.fin && flight.stream.fin_at == u64::MAX {
            flight.extend_by_fin();
            self.recovery.on_written();
            self.refresh();
        }
    }

    /// Processes the window of `bytes` advertised by segment `seq`, which acknowledges `ack`. Returns
    /// `true` if an ACK with this window may be a duplicate (RFC 5681, section 2, (e)).
    #[inline]
    pub(super) fn update_peer_window(&mut self, seq: u64, ack: u64, bytes: u64) -> bool {
        let flight = &mut self.flight;
        flight.peer.update(flight.policies().send, flight.snd_una, seq, ack, bytes)
    }

    /// Returns `true` if `ack` is at most SND.MAX.
    #[inline]
    pub(super) fn has_sent(&self, ack: u64) -> bool {
        ack <= self.flight.snd_max
    }

    /// Returns `true` if no data is outstanding or waits to be sent.
    #[inline]
    pub(super) fn is_at_rest(&self) -> bool {
        self.flight.snd_una == self.flight.snd_max && self.flight.is_idle()
    }

    /// Returns `true` if all data of the application has been acknowledged.
    #[inline]
    pub(super) fn is_all_acked(&self) -> bool {
        self.flight.is_idle()
    }

    /// Unwraps a 32-bit sequence number near SND.UNA.
    #[inline]
    pub(super) fn unwrap(&self, wire: u32) -> u64 {
        let una = self.flight.snd_una;
        una.wrapping_add_signed(i64::from(wire.wrapping_sub(una as u32) as i32))
    }

    /// Processes an ACK without other information, at a sender of one-way transfers.
    #[inline(always)]
    pub(super) fn on_plain_ack(&mut self, now: Instant, ack: u64) {
        let flight = &mut self.flight;
        flight.usage.at(now);
        let is_new = ack > flight.snd_una && ack <= flight.snd_max;
        if is_new && flight.takes_plain_acks() {
            // Fast path: equivalent to `on_ack` if there is no loss or other special case.
            debug_assert!(self.recovery.has_ack_fast_path(), "recovery processes this ACK");
            flight.on_plain_ack(now, ack);
        } else {
            self.on_any_ack(now, ack, &[], true, None);
        }
    }

    /// Processes an ACK. `is_pure`: whether it has no payload and leaves the window unchanged, so
    /// that it may count as a duplicate (RFC 5681, section 2). `sent`: send time of the segment
    /// that triggered it, from the timestamps option.
    #[inline(always)]
    pub(super) fn on_ack(
        &mut self,
        now: Instant,
        ack: u64,
        blocks: &[(u64, u64)],
        is_pure: bool,
        sent: Option<Instant>,
    ) {
        let flight = &mut self.flight;
        if ack > flight.snd_max {
            return;
        }
        if let Recovery::RackTlp(rack) = &mut self.recovery {
            let has_echo_of_mark = flight.hints.has_echo_of_mark;
            let arrival = Arrival { now, ack, blocks, is_pure, echo: sent, has_echo_of_mark };
            rack.on_segment(flight, &arrival);
            flight.hints.has_echo_of_mark = false;
            self.refresh();
            return;
        }
        if ack > flight.snd_una
            && let Some(sent) = sent
        {
            flight.timed = None;
            flight.rtt.end_back_off();
            flight.rtt.sample(sent, now);
        }
        let is_duplicate = is_pure && ack <= flight.snd_una && flight.snd_una < flight.snd_max;
        let has_news = !blocks.is_empty() && self.recovery.wants_every_sack();
        let is_spurious = ack > flight.snd_una && flight.undo.is_spurious(sent);
        if flight.records_deliveries()
            && (ack > flight.snd_una || is_duplicate || !blocks.is_empty())
        {
            flight.on_delivery(now, ack, blocks);
        }
        if ack > flight.snd_una || is_duplicate || has_news {
            self.recovery.on_ack(flight, now, ack, blocks);
        }
        if is_spurious {
            self.recovery.on_spurious();
            self.flight.undo();
        }
        if std::mem::take(&mut self.flight.hints.has_echo_of_mark) {
            self.reduce_for_mark(now);
        }
        self.flight.look_at_repair();
        self.refresh();
    }

    /// Handles a notification of a link about the segment that starts at `seq`: it was discarded
    /// (`is_lost`) or is being retransmitted.
    #[cold]
    pub(super) fn on_notice(&mut self, now: Instant, seq: u64, is_lost: bool) {
        if is_lost {
            self.recovery.on_explicit_loss(&mut self.flight, now, seq);
        } else {
            self.recovery.on_retransmission_started(&mut self.flight, now, seq);
        }
        self.refresh();
    }

    /// Like [`Self::on_ack`], but not inlined: for all ACKs outside the fast path.
    #[inline(never)]
    pub(super) fn on_any_ack(
        &mut self,
        now: Instant,
        ack: u64,
        blocks: &[(u64, u64)],
        is_pure: bool,
        sent: Option<Instant>,
    ) {
        self.on_ack(now, ack, blocks, is_pure, sent);
        if self.flight.has_waiting_bytes() {
            self.write_waiting();
        }
    }

    /// Records that the segment whose acknowledgment is processed next echoes a mark.
    pub(super) fn on_echo_of_mark(&mut self) {
        self.flight.hints.has_echo_of_mark = true;
    }

    /// Records the send and arrival times reported by the segment whose acknowledgment is processed
    /// next.
    pub(super) fn on_passage(&mut self, passage: Passage) {
        self.flight.hints.passage = Some(passage);
    }

    /// Reduces the window as for a loss, but without retransmission, and only once per window of
    /// data (RFC 3168, section 6.1.2).
    #[cold]
    fn reduce_for_mark(&mut self, now: Instant) {
        let (state, _) = self.recovery.outstanding(&self.flight);
        let is_reduced = matches!(state, RecoveryState::Recovery | RecoveryState::Loss);
        if !is_reduced && self.flight.snd_una > self.marked_to {
            self.marked_to = self.flight.snd_max;
            self.flight.reduce_for_mark(now);
        }
    }

    /// Returns the next segment to send now, if any.
    #[inline(always)]
    pub(super) fn poll_transmit(&mut self, now: Instant) -> Option<Outgoing> {
        let (seq, end) = self.flight.poll(now, &mut self.recovery)?;
        let syn = self.flight.config.handshake && seq == 0;
        let fin = end > self.flight.stream.fin_at;
        let payload = (end - seq) as u32 - u32::from(syn) - u32::from(fin);
        if u64::from(payload) < self.flight.mss {
            self.flight.note_short(end);
            if self.flight.stream.has_nagle {
                // Another short segment may have to wait for the ACK of this one.
                self.refresh();
            }
        }
        Some(Outgoing { seq, payload, syn, fin })
    }

    /// Like [`Self::poll_transmit`], but not inlined: for a host whose buffers grow.
    #[inline(never)]
    pub(super) fn poll_as_host(&mut self, now: Instant) -> Option<Outgoing> {
        self.poll_transmit(now)
    }

    /// Starts the persist timer if data waits for the peer's window and no data is outstanding, and
    /// stops it otherwise (RFC 9293, section 3.8.6.1). Called when no more can be sent.
    pub(super) fn watch_window(&mut self, now: Instant) {
        let flight = &self.flight;
        let waits = flight.snd_una == flight.snd_max && flight.snd_una < flight.write_end;
        if !waits {
            self.flight.timers.stop(Timer::Persist);
            self.probe_back_off = 0;
        } else if !flight.timers.is_running(Timer::Persist) {
            let delay = flight.rtt.first_persist_interval(self.probe_back_off);
            self.flight.timers.start(Timer::Persist, now, delay);
        }
    }

    /// Interval between window probes.
    pub(super) fn persist_interval(&self) -> Duration {
        self.flight.rtt.persist_interval(self.probe_back_off)
    }

    /// Sends the part of the next segment that fits into the peer's window, after expiry of the
    /// persist timer.
    pub(super) fn send_what_fits(&mut self) {
        let is_excused = self.flight.policies().send.excuses_data_probes;
        if is_excused {
            // Data does not count as a probe.
            self.flight.rtt.forget_doublings();
        }
        self.flight.cut_to_window();
        self.flight.stream.is_short_excused = is_excused;
        self.refresh();
    }

    /// Returns the recovery that counts whole segments, if the connection uses it.
    fn rack(&self) -> Option<&RackTlp> {
        if let Recovery::RackTlp(rack) = &self.recovery { Some(rack) } else { None }
    }

    /// Returns the number of outstanding segments and the counts of the others, for a recovery that
    /// counts whole segments.
    pub(super) fn whole_segments(&self) -> Option<(u64, SegmentCounts)> {
        self.rack().map(|rack| (self.flight.records().len().into(), rack.counts()))
    }

    /// Fill level of the send buffer.
    pub(super) fn fill(&self) -> Fill {
        self.flight.fill(self.recovery.in_flight(&self.flight))
    }

    /// Lets an application that waits for room in the send buffer write, after all permitted
    /// segments were sent. Returns `true` if it has written.
    #[cold]
    pub(super) fn write_waiting(&mut self) -> bool {
        if !self.flight.has_waiting() {
            return false;
        }
        let in_flight = self.recovery.in_flight(&self.flight);
        let has_written = self.flight.write_waiting(in_flight);
        if has_written {
            self.refresh();
        }
        has_written
    }

    /// Returns whether new data waits for an ACK or a send call, and whether a timer has expired
    /// since the last one.
    pub(super) fn deferral(&self) -> (bool, bool) {
        self.rack().map_or((false, false), RackTlp::deferral)
    }

    /// Restores the state returned by [`Self::deferral`].
    pub(super) fn restore_deferral(&mut self, deferral: (bool, bool)) {
        if let Recovery::RackTlp(rack) = &mut self.recovery {
            rack.restore_deferral(deferral);
        }
    }

    /// Prepares for the first data after a SYN that was lost, on a connection without SACK.
    pub(super) fn begin_after_lost_syn(&mut self) {
        if let Recovery::RackTlp(rack) = &mut self.recovery {
            rack.begin_after_lost_syn();
        }
    }

    /// Returns `true` if the timer has expired since the last acknowledgment, and not spuriously.
    pub(super) fn has_timed_out(&self) -> bool {
        self.rack().is_some_and(RackTlp::has_timed_out)
    }

    /// Returns `true` if a lost segment is to be retransmitted now.
    pub(super) fn has_to_resend(&self, now: Instant) -> bool {
        self.rack().is_some_and(|rack| rack.next_resend(&self.flight, now).is_some())
    }

    /// Returns the number of segments in flight and the duplicate threshold, if only new data is to
    /// be sent.
    pub(super) fn calm(&self) -> Option<(u32, u32)> {
        let rack = self.rack().filter(|rack| rack.sends_only_new_data())?;
        Some((rack.in_flight(&self.flight), rack.reordering()))
    }

    /// Shortens the next segments by `bytes` to make room for options, and returns the bytes
    /// removed. At least 1 B of data remains.
    pub(super) fn shorten_segments(&mut self, bytes: u64) -> u64 {
        let removed = bytes.min(self.flight.mss.saturating_sub(1));
        self.flight.mss -= removed;
        self.refresh();
        removed
    }

    /// Lengthens the next segments by the bytes that [`Self::shorten_segments`] has removed.
    pub(super) fn lengthen_segments(&mut self, bytes: u64) {
        self.flight.mss += bytes;
        self.refresh();
    }

    /// Sets the size of full segments, bytes.
    pub(super) fn set_segment(&mut self, bytes: u64) {
        self.flight.mss = bytes;
        self.flight.congestion_control.set_segment(bytes);
        self.refresh();
    }

    /// Retransmits outstanding segments that exceed the new maximum size, in smaller segments. The
    /// congestion window is unchanged (RFC 1191, section 6.5).
    pub(super) fn resend_too_large(&mut self) {
        match &mut self.recovery {
            Recovery::RackTlp(rack) => rack.resend_too_large(&mut self.flight),
            _ => self.flight.go_back(),
        }
        self.refresh();
    }

    /// Undoes the latest doubling of the RTO because the retransmitted segment was not lost to
    /// congestion (RFC 6069, section 4).
    pub(super) fn undo_backoff(&mut self, now: Instant) {
        if self.has_timed_out() && self.flight.rtt.undo_backoff() {
            RackTlp::restart_from_oldest(&mut self.flight, now);
        }
    }

    pub(super) fn handle_timeout(&mut self, now: Instant) {
        let is_paced = self.flight.timers.is_due(Timer::Pacing, now);
        if is_paced {
            self.flight.timers.stop(Timer::Pacing);
        }
        if let Recovery::RackTlp(rack) = &mut self.recovery {
            if is_paced {
                rack.on_pacing_timer(&self.flight);
            }
            rack.handle_timeout(&mut self.flight, now);
            self.refresh();
            return;
        }
        if self.flight.timers.is_due(Timer::Retransmission, now) {
            if !self.recovery.holds_timer(&mut self.flight, now) {
                self.recovery.on_timeout(&mut self.flight);
                self.flight.on_timeout(now);
            }
            self.refresh();
        }
        if self.flight.timers.is_due(Timer::Reordering, now) {
            self.recovery.on_reorder_timeout(&mut self.flight, now);
            self.refresh();
        }
    }

    /// State of loss recovery, and numbers of outstanding segments by state.
    pub(super) fn outstanding(&self) -> (RecoveryState, Outstanding) {
        self.recovery.outstanding(&self.flight)
    }

    /// Number of duplicates that indicate a loss.
    pub(super) fn reordering(&self) -> u32 {
        self.rack().map_or(self.flight.config.dupack_threshold, RackTlp::reordering)
    }

    /// Congestion window in segments, without inflation.
    pub fn congestion_window(&self) -> f64 {
        self.flight.congestion_control.cwnd()
    }

    /// Outstanding data in segments, rounded up.
    pub fn outstanding_segments(&self) -> u64 {
        self.flight.outstanding_segments()
    }

    /// Retransmission timeout, including backoff.
    pub fn rto(&self) -> Duration {
        self.flight.rtt.rto()
    }

    /// Slow-start threshold in segments.
    pub fn slow_start_threshold(&self) -> f64 {
        self.flight.congestion_control.ssthresh()
    }

    /// Pacing rate in bytes per second; `None` if the sender does not pace, or before the first
    /// RTT sample.
    pub fn pacing_rate(&self) -> Option<f64> {
        let paces = self.flight.config.congestion_control.paces() || self.flight.config.pacing;
        if paces { self.flight.reported_pacing_rate() } else { None }
    }

    /// Phase and path model of congestion control, for observers.
    pub fn model_state(&self) -> ModelState {
        let algorithm = &self.flight.congestion_control;
        let state = algorithm.state();
        let phase = state.phase.unwrap_or_else(|| match self.outstanding().0 {
            RecoveryState::Loss => CongestionPhase::Timeout,
            RecoveryState::Recovery | RecoveryState::CongestionWindowReduced => {
                CongestionPhase::Recovery
            }
            _ if algorithm.cwnd() < algorithm.ssthresh() => CongestionPhase::SlowStart,
            _ => CongestionPhase::CongestionAvoidance,
        });
        ModelState { phase: Some(phase), ..state }
    }
}
