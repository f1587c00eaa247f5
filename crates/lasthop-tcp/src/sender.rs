//! The sending half of a connection.

use super::config::{Config, Conventions};
use super::congestion_control::{CongestionControl, Passage};
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
    /// Of these, segments that had been sent before.
    pub retransmissions: u64,
    /// Expiries of the retransmission timer.
    pub timeouts: u64,
    /// Fast retransmits: entries into recovery by duplicate ACKs.
    pub fast_retransmits: u64,
    /// Window reductions, by fast retransmit or timeout.
    pub window_cuts: u64,
    /// Segments declared lost, each at most once: by a fast retransmit, by a partial ACK or SACK
    /// hole in recovery, or by the timer, which declares the oldest one only. What goes back after
    /// a timeout sends again besides is not counted, as it need not be lost.
    pub losses_declared: u64,
    /// Window reductions that were found spurious and taken back.
    pub spurious_reductions: u64,
    /// Tail loss probes (RFC 8985, section 7).
    pub tail_probes: u64,
    /// Losses of which a link told (ELN), of segments that were outstanding.
    pub explicit_losses: u64,
    /// Expiries of the retransmission timer that came to nothing, as a link was sending the segment again (ERSN).
    pub timeouts_held: u64,
}

/// A segment that the sender wants on the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Outgoing {
    pub seq: u64,
    /// Payload bytes.
    pub payload: u32,
    pub syn: bool,
    pub fin: bool,
}

/// The sending half.
#[derive(Clone, Debug)]
pub struct Sender {
    pub(super) flight: Flight,
    recovery: Recovery,
    /// What had been sent at the latest reduction for a mark: one for each window of data.
    marked_to: u64,
    /// Doublings of the time between probes of the peer's window; Linux counts them with those of the RTO.
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

    /// Windows may have changed.
    #[inline(always)]
    pub(super) fn refresh(&mut self) {
        let is_plain = self.recovery.is_plain(&self.flight);
        self.flight.refresh(self.recovery.inflation(), is_plain);
    }

    /// A new incarnation.
    pub(super) fn reset(&mut self, boot_offset: Duration) {
        if self.flight.is_unused() {
            // That of a receiver which only acknowledges: there is nothing to begin anew but its clock.
            self.flight.restart_clock(boot_offset);
            return;
        }
        self.flight.reset(boot_offset);
        self.recovery.reset(&self.flight.config);
        (self.marked_to, self.probe_back_off) = (0, 0);
        self.refresh();
    }

    /// The SYN that `before` has sent is this sender's, whose parameters were negotiated with it.
    pub(super) fn adopt_handshake(&mut self, before: Sender) {
        self.flight.adopt_handshake(before.flight);
        self.refresh();
    }

    /// The SYN becomes due.
    pub(super) fn open(&mut self) {
        if self.flight.write_end == 0 {
            self.flight.extend(1);
            self.refresh();
        }
    }

    /// The SYN that was sent goes out once more, as the peer's has come again.
    #[cold]
    pub(super) fn send_syn_again(&mut self, now: Instant) {
        self.flight.send_oldest_again(now);
        self.refresh();
    }

    /// The peer's SYN has crossed ours, which is sent again with an ACK and a doubled timeout.
    pub(super) fn answer_syn(&mut self, now: Instant) {
        self.flight.config.linear_syns = 0;
        self.flight.rtt.back_off();
        self.send_syn_again(now);
    }

    /// The application writes `bytes`; the last segment of the write is a short one unless the
    /// profile pads it.
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

    pub(super) fn close(&mut self) {
        let flight = &mut self.flight;
        if flight.config.fin && flight.stream.fin_at == u64::MAX {
            flight.extend_by_fin();
            self.recovery.on_written();
            self.refresh();
        }
    }

    /// A segment numbered `seq` that acknowledges `ack` advertises a window of `bytes`. Says whether
    /// that is the window that was known (RFC 5681, section 2, (e)).
    ///
    /// RFC 9293, section 3.10.7.4: an acknowledgment below SND.UNA updates nothing, nor does a segment
    /// that was sent before the one that updated last (SND.WL1, SND.WL2).
    #[inline]
    pub(super) fn update_peer_window(&mut self, seq: u64, ack: u64, bytes: u64) -> bool {
        let flight = &mut self.flight;
        if flight.config.conventions == Conventions::Linux {
            return !flight.update_window_as_linux(seq, ack, bytes);
        }
        let is_same = flight.peer_window == bytes;
        if ack >= flight.snd_una && (flight.window_seq, flight.window_ack) <= (seq, ack) {
            flight.peer_window = bytes;
            flight.window_seq = seq;
            flight.window_ack = ack;
        }
        is_same
    }

    /// Is `ack` the number of a byte that was sent, or the one behind?
    #[inline]
    pub(super) fn has_sent(&self, ack: u64) -> bool {
        ack <= self.flight.snd_max
    }

    /// Has everything written been acknowledged?
    #[inline]
    pub(super) fn is_all_acked(&self) -> bool {
        self.flight.is_idle()
    }

    /// Unwraps a 32-bit number near the left edge.
    #[inline]
    pub(super) fn unwrap(&self, wire: u32) -> u64 {
        let una = self.flight.snd_una;
        una.wrapping_add_signed(i64::from(wire.wrapping_sub(una as u32) as i32))
    }

    /// An ACK arrived that says nothing else, at a sender of one-way transfers.
    #[inline(always)]
    pub(super) fn on_plain_ack(&mut self, now: Instant, ack: u64) {
        let flight = &mut self.flight;
        let is_new = ack > flight.snd_una && ack <= flight.snd_max;
        if is_new && !flight.is_watched() && self.recovery.has_ack_fast_path() {
            // The bulk: what `on_ack` comes to where nothing is amiss.
            let acked = flight.new_ack(now, ack);
            flight.grow_window(now, acked);
            flight.refresh_calm();
        } else {
            self.on_any_ack(now, ack, &[], true, None);
        }
    }

    /// An ACK arrived. `is_pure`: it carried no payload and did not update the window, so it may count
    /// as a duplicate (RFC 5681, section 2). `sent` is when the segment that triggered it left, if the timestamps
    /// option tells.
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
        if flight.hears_of_acks() && (ack > flight.snd_una || is_duplicate || !blocks.is_empty()) {
            flight.on_delivery(now, ack, blocks);
        }
        if ack > flight.snd_una || is_duplicate || has_news {
            self.recovery.on_ack(flight, now, ack, blocks);
        }
        if is_spurious {
            self.recovery.on_spurious();
            self.flight.take_back();
        }
        if std::mem::take(&mut self.flight.hints.has_echo_of_mark) {
            self.reduce_for_mark(now);
        }
        self.flight.look_at_repair();
        self.refresh();
    }

    /// A link reports on the segment that begins with `seq`: it was given up, or is being sent again.
    #[cold]
    pub(super) fn on_notice(&mut self, now: Instant, seq: u64, is_lost: bool) {
        if is_lost {
            self.recovery.on_explicit_loss(&mut self.flight, now, seq);
        } else {
            self.recovery.on_retransmission_started(&mut self.flight, now, seq);
        }
        self.refresh();
    }

    /// The same, compiled once for all but the bulk of acknowledgments.
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
    }

    /// The segment whose acknowledgment comes next echoes a mark.
    pub(super) fn on_echo_of_mark(&mut self) {
        self.flight.hints.has_echo_of_mark = true;
    }

    /// The segment whose acknowledgment comes next tells when the one that it answers left and arrived.
    pub(super) fn on_passage(&mut self, passage: Passage) {
        self.flight.hints.passage = Some(passage);
    }

    /// RFC 3168, section 6.1.2: as for a loss, but nothing is sent again, and not in a window of data in which the
    /// window was reduced already.
    #[cold]
    fn reduce_for_mark(&mut self, now: Instant) {
        let (state, _) = self.recovery.outstanding(&self.flight);
        let is_reduced = matches!(state, RecoveryState::Recovery | RecoveryState::Loss);
        if !is_reduced && self.flight.snd_una > self.marked_to {
            self.marked_to = self.flight.snd_max;
            self.flight.reduce_for_mark(now);
        }
    }

    /// The next segment to send now.
    #[inline(always)]
    pub(super) fn poll_transmit(&mut self, now: Instant) -> Option<Outgoing> {
        let (seq, end) = self.flight.poll(now, &mut self.recovery)?;
        let syn = self.flight.config.handshake && seq == 0;
        let fin = end > self.flight.stream.fin_at;
        let payload = (end - seq) as u32 - u32::from(syn) - u32::from(fin);
        if u64::from(payload) < self.flight.mss {
            self.flight.note_short(end);
            if self.flight.stream.has_nagle {
                // Another short one may have to wait for it.
                self.refresh();
            }
        }
        Some(Outgoing { seq, payload, syn, fin })
    }

    /// The next segment to send now, of a host whose buffers grow: out of line, so that the other stays in line.
    #[inline(never)]
    pub(super) fn poll_as_host(&mut self, now: Instant) -> Option<Outgoing> {
        self.poll_transmit(now)
    }

    /// Nothing more can be sent now: starts the persist timer if data waits for the peer's window and nothing is
    /// outstanding, and stops it otherwise (RFC 9293, section 3.8.6.1).
    pub(super) fn watch_window(&mut self, now: Instant) {
        let flight = &self.flight;
        let waits = flight.snd_una == flight.snd_max && flight.snd_una < flight.write_end;
        if !waits {
            self.flight.timers.stop(Timer::Persist);
            self.probe_back_off = 0;
        } else if !flight.timers.is_running(Timer::Persist) {
            // Linux: the first probe waits for an RTO, which has been backed off already.
            let delay = match flight.config.conventions {
                Conventions::Linux => flight.rtt.rto(),
                _ => self.persist_interval(),
            };
            self.flight.timers.start(Timer::Persist, now, delay);
        }
    }

    /// Time between two probes of the peer's window.
    pub(super) fn persist_interval(&self) -> Duration {
        let rtt = &self.flight.rtt;
        let count = match self.flight.config.conventions {
            Conventions::Linux => rtt.back_offs(),
            _ => self.probe_back_off,
        };
        (rtt.rto() * (1 << count.min(20))).min(rtt.longest())
    }

    /// The persist timer has expired and the peer's window is open: sends the part of the next segment that fits.
    pub(super) fn send_what_fits(&mut self) {
        let is_linux = self.flight.config.conventions == Conventions::Linux;
        if is_linux {
            // Data is not a probe.
            self.flight.rtt.forget_doublings();
        }
        self.flight.cut_to_window();
        self.flight.stream.is_short_excused = is_linux;
        self.refresh();
    }

    /// The recovery that counts whole segments, if it is the connection's.
    fn rack(&self) -> Option<&RackTlp> {
        if let Recovery::RackTlp(rack) = &self.recovery { Some(rack) } else { None }
    }

    /// Segments outstanding, and what became of the others, of a recovery that counts whole segments.
    pub(super) fn whole_segments(&self) -> Option<(u64, SegmentCounts)> {
        self.rack().map(|rack| (self.flight.records().len().into(), rack.counts()))
    }

    /// How full the send buffer is.
    pub(super) fn fill(&self) -> Fill {
        self.flight.fill(self.recovery.in_flight(&self.flight))
    }

    /// Nothing more may leave: an application that waits for room in the send buffer may write. Says whether it has.
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

    /// Do new data wait for an ACK, or for more to be written?
    pub(super) fn deferral(&self) -> (bool, bool) {
        self.rack().map_or((false, false), RackTlp::deferral)
    }

    /// They wait as before.
    pub(super) fn restore_deferral(&mut self, deferral: (bool, bool)) {
        if let Recovery::RackTlp(rack) = &mut self.recovery {
            rack.restore_deferral(deferral);
        }
    }

    /// The first data follow a SYN that was lost, of a connection without SACK.
    pub(super) fn begin_after_lost_syn(&mut self) {
        if let Recovery::RackTlp(rack) = &mut self.recovery {
            rack.begin_after_lost_syn();
        }
    }

    /// Has the timer fired since anything was acknowledged, and not by mistake?
    pub(super) fn has_timed_out(&self) -> bool {
        self.rack().is_some_and(RackTlp::has_timed_out)
    }

    /// Is a lost segment to go again now?
    pub(super) fn has_to_resend(&self, now: Instant) -> bool {
        self.rack().is_some_and(|rack| rack.next_resend(&self.flight, now).is_some())
    }

    /// Segments in flight, and duplicates that mean a loss, if nothing is to be sent but new data.
    pub(super) fn calm(&self) -> Option<(u32, u32)> {
        let rack = self.rack().filter(|rack| rack.is_calm())?;
        Some((rack.in_flight(&self.flight), rack.reordering()))
    }

    /// Shortens the next segments by `bytes`, for more options, and returns the bytes that were removed: 1 B of data stays.
    pub(super) fn shorten_segments(&mut self, bytes: u64) -> u64 {
        let removed = bytes.min(self.flight.mss.saturating_sub(1));
        self.flight.mss -= removed;
        self.refresh();
        removed
    }

    /// Lengthens the next segments by what [`Self::shorten_segments`] has removed.
    pub(super) fn lengthen_segments(&mut self, bytes: u64) {
        self.flight.mss += bytes;
        self.refresh();
    }

    /// Full segments have `bytes` from now on.
    pub(super) fn set_segment(&mut self, bytes: u64) {
        self.flight.mss = bytes;
        self.flight.law.set_segment(bytes);
        self.refresh();
    }

    /// Of what is outstanding, what is larger than a segment may be now goes again in smaller ones; the congestion window
    /// stays (RFC 1191, section 6.5).
    pub(super) fn resend_too_large(&mut self) {
        match &mut self.recovery {
            Recovery::RackTlp(rack) => rack.resend_too_large(&mut self.flight),
            _ => self.flight.go_back(),
        }
        self.refresh();
    }

    /// What goes again was not lost for congestion: the latest doubling of the RTO is undone (RFC 6069, section 4).
    pub(super) fn take_back_off_back(&mut self, now: Instant) {
        if self.has_timed_out() && self.flight.rtt.take_back_off_back() {
            RackTlp::restart_from_oldest(&mut self.flight, now);
        }
    }

    pub(super) fn handle_timeout(&mut self, now: Instant) {
        if self.flight.timers.is_due(Timer::Pacing, now) {
            self.flight.timers.stop(Timer::Pacing);
        }
        if let Recovery::RackTlp(rack) = &mut self.recovery {
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

    /// The phase of loss recovery, and what it knows of the segments outstanding.
    pub(super) fn outstanding(&self) -> (RecoveryState, Outstanding) {
        self.recovery.outstanding(&self.flight)
    }

    /// Duplicates that mean a loss.
    pub(super) fn reordering(&self) -> u32 {
        self.rack().map_or(self.flight.config.dupack_threshold, RackTlp::reordering)
    }

    /// Congestion window in segments, inflation apart.
    pub fn congestion_window(&self) -> f64 {
        self.flight.law.cwnd()
    }

    /// Sent and not acknowledged, in segments, rounded up.
    pub fn outstanding_segments(&self) -> u64 {
        self.flight.outstanding_segments()
    }

    /// The retransmission timeout, back-off included.
    pub fn rto(&self) -> Duration {
        self.flight.rtt.rto()
    }

    /// Slow-start threshold in segments.
    pub fn slow_start_threshold(&self) -> f64 {
        self.flight.law.ssthresh()
    }
}
