//! The sending half of a connection: sequence space, timers, and what recovery and congestion
//! control share.

use super::config::{Config, Conventions};
use super::congestion::{CongestionControl, Reno};
use super::recovery::Recovery;
use super::rtt::RttEstimator;
use crate::units::{Duration, Instant};
use std::collections::VecDeque;

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
}

/// What is in flight, and the state that every recovery scheme works on.
#[derive(Clone, Debug)]
pub struct Flight {
    pub(super) config: Config,
    /// Payload bytes of a full segment.
    pub(super) mss: u64,
    /// Oldest unacknowledged byte (RFC 9293: SND.UNA).
    pub(super) snd_una: u64,
    /// Next byte to send (SND.NXT); a timeout pulls it back to `snd_una`.
    pub(super) snd_nxt: u64,
    /// One past the highest byte ever sent.
    pub(super) snd_max: u64,
    /// One past the last byte that the application wants sent (SYN and FIN count one each).
    write_end: u64,
    /// Where the FIN stands, once the application has closed.
    fin_at: u64,
    /// Ends of application writes not yet acknowledged; segments do not cross them.
    message_ends: VecDeque<u64>,
    /// The first of them, or 0.
    first_message_end: u64,
    /// Receive window that the peer advertised, in bytes (SND.WND).
    peer_window: u64,
    /// Sequence number of the segment that updated the window last (SND.WL1).
    window_seq: u64,
    /// Its acknowledgment number (SND.WL2).
    window_ack: u64,
    pub(super) congestion: Reno,
    pub(super) rtt: RttEstimator,
    pub(super) dup_acks: u32,
    pub(super) rto_deadline: Instant,
    /// The one segment being timed: its end and when it left (Karn's rule).
    timed: Option<(u64, Instant)>,
    /// Window after the handshake; 1 once a SYN was lost (ns-2), or two (RFC 6928, section 2).
    initial_window: f64,
    /// Expiries of the timer of the SYN.
    syn_timeouts: u32,
    /// A duplicate ACK allows one new segment (RFC 3042).
    limited_transmit_due: bool,
    /// Bytes sent that way since the latest new ACK.
    limited_bytes: u64,
    /// `snd_una` at the latest timeout.
    timed_out_at: u64,
    /// One past the highest byte declared lost; 0 before any.
    declared_to: u64,
    pub(super) counters: SenderCounters,
}

impl Flight {
    fn new(config: &Config, boot_offset: Duration, initial_window: f64) -> Self {
        let first = u64::from(!config.handshake);
        let cwnd = if config.handshake { 1.0 } else { initial_window };
        Flight {
            config: *config,
            mss: config.segment.get(),
            snd_una: first,
            snd_nxt: first,
            snd_max: first,
            write_end: first,
            fin_at: u64::MAX,
            message_ends: VecDeque::new(),
            first_message_end: 0,
            peer_window: (config.receive_window * config.segment.get() as f64) as u64,
            window_seq: 0,
            window_ack: 0,
            congestion: Reno::new(config, cwnd),
            rtt: RttEstimator::new(config, boot_offset),
            dup_acks: 0,
            rto_deadline: Instant::NEVER,
            timed: None,
            initial_window,
            syn_timeouts: 0,
            limited_transmit_due: false,
            limited_bytes: 0,
            timed_out_at: u64::MAX,
            declared_to: 0,
            counters: SenderCounters::default(),
        }
    }

    /// End of the segment that starts at `seq`: a full segment or the end of a write.
    #[inline]
    pub(super) fn segment_end(&self, seq: u64) -> u64 {
        if seq < self.first_message_end {
            self.first_message_end.min(seq + self.mss)
        } else {
            self.segment_end_beyond(seq)
        }
    }

    /// The same beyond the first write.
    #[cold]
    fn segment_end_beyond(&self, seq: u64) -> u64 {
        for &end in &self.message_ends {
            if seq < end {
                return end.min(seq + self.mss);
            }
        }
        self.write_end
    }

    /// Has everything written been acknowledged?
    fn is_idle(&self) -> bool {
        self.snd_una == self.write_end
    }

    /// Outstanding bytes in segments, rounded up.
    pub(super) fn outstanding_segments(&self) -> u64 {
        (self.snd_max - self.snd_una).div_ceil(self.mss)
    }

    /// May the segment at `snd_nxt` go out if `window` segments from `snd_una` on are allowed?
    #[inline]
    pub(super) fn fits(&self, window: f64) -> bool {
        let bytes = match self.config.conventions {
            // ns-2 counts whole packets.
            Conventions::Ns2 => u64::from(window as u32) * self.mss,
            Conventions::Rfc => (window * self.mss as f64) as u64,
        };
        self.fits_bytes(bytes)
    }

    /// May the segment at `snd_nxt` go out as far as the receiver is concerned?
    pub(super) fn fits_receiver(&self) -> bool {
        self.fits_bytes(u64::MAX)
    }

    #[inline]
    fn fits_bytes(&self, window: u64) -> bool {
        if self.snd_nxt >= self.write_end {
            return false;
        }
        if self.snd_una == 0 {
            // Nothing follows a SYN before it is acknowledged.
            return self.snd_nxt == 0;
        }
        self.segment_end(self.snd_nxt) <= self.snd_una + window.min(self.peer_window)
    }

    /// The window in use, in segments, from which a reduction is computed: ns-2 takes the
    /// (inflated) congestion window bounded by the receiver's, the RFCs the flight size.
    pub(super) fn window_in_use(&self, inflation: u32) -> f64 {
        match self.config.conventions {
            Conventions::Ns2 => {
                let receiver = self.config.receive_window;
                (self.congestion.window() + f64::from(inflation)).min(receiver)
            }
            // RFC 5681, section 3.2: "additional data sent in limited transmit MUST NOT be included
            // in this calculation".
            Conventions::Rfc => {
                (self.snd_max - self.snd_una).saturating_sub(self.limited_bytes) as f64
                    / self.mss as f64
            }
        }
    }

    /// Takes the segment at `snd_nxt` and moves on.
    #[inline]
    pub(super) fn advance_next(&mut self) -> u64 {
        let seq = self.snd_nxt;
        self.snd_nxt = self.segment_end(seq);
        seq
    }

    /// An ACK for new data: times, timers, the sequence space. Returns how many bytes it
    /// acknowledges.
    #[inline]
    pub(super) fn new_ack(&mut self, now: Instant, ack: u64) -> u64 {
        let acked = ack - self.snd_una;
        self.dup_acks = 0;
        self.limited_transmit_due = false;
        self.limited_bytes = 0;
        if self.timed_out_at == 0 && self.snd_una == 0 {
            self.rtt.after_lost_syn();
        }
        self.move_una(ack);
        if let Some((end, sent)) = self.timed
            && ack >= end
        {
            self.timed = None;
            self.rtt.end_back_off();
            self.rtt.sample(sent, now);
        }
        self.restart_timer(now);
        acked
    }

    /// Moves the left edge; neither duplicates nor timers are touched.
    #[inline]
    pub(super) fn move_una(&mut self, ack: u64) {
        self.snd_una = ack;
        self.snd_nxt = self.snd_nxt.max(ack);
        if ack >= self.first_message_end {
            self.forget_messages(ack);
        }
    }

    #[cold]
    fn forget_messages(&mut self, ack: u64) {
        while self.message_ends.front().is_some_and(|&end| end <= ack) {
            self.message_ends.pop_front();
        }
        self.first_message_end = self.message_ends.front().copied().unwrap_or(0);
    }

    /// The application (or the handshake) wants `length` more of the sequence space sent.
    fn extend(&mut self, length: u64) {
        self.write_end += length;
        self.message_ends.push_back(self.write_end);
        self.first_message_end = self.message_ends.front().copied().unwrap_or(0);
    }

    /// A partial ACK may cover the timed segment: back-off ends, but the sample is worthless.
    pub(super) fn forget_timed(&mut self, ack: u64) {
        if self.timed.is_some_and(|(end, _)| ack >= end) {
            self.timed = None;
            self.rtt.end_back_off();
        }
    }

    /// Grows the window by an ACK of `acked` bytes, or opens it after the handshake.
    #[inline]
    pub(super) fn grow_window(&mut self, acked: u64) {
        self.congestion.on_ack(acked);
        if self.config.handshake && self.snd_una == 1 {
            self.congestion.set_window(self.initial_window);
        }
    }

    /// Starts the timer anew while anything is outstanding. Halving can leave ns-2's window below
    /// one packet, which forbids all; there the timer runs on and opens it again.
    #[inline]
    pub(super) fn restart_timer(&mut self, now: Instant) {
        let is_running = self.snd_una < self.snd_max
            || self.congestion.window() < 1.0 && self.snd_una < self.write_end;
        self.rto_deadline = if is_running { now + self.rtt.rto() } else { Instant::NEVER };
    }

    /// The segment at `seq` counts as lost. Losses are declared in the order of the sequence space:
    /// what lies below the last one was declared before, and is a retransmission lost in its turn.
    pub(super) fn declare_lost(&mut self, seq: u64) {
        if seq >= self.declared_to {
            self.declared_to = self.segment_end(seq);
            self.counters.losses_declared += 1;
        }
    }

    /// The third duplicate: one reduction, timer restarted, nothing timed.
    pub(super) fn fast_retransmit(&mut self, now: Instant, inflation: u32) {
        self.declare_lost(self.snd_una);
        let in_use = self.window_in_use(inflation);
        self.congestion.on_congestion(in_use);
        self.counters.fast_retransmits += 1;
        self.counters.window_cuts += 1;
        self.timed = None;
        self.limited_transmit_due = false;
        self.restart_timer(now);
    }

    /// One of the first duplicates: RFC 3042 allows one new segment each.
    pub(super) fn limited_transmit(&mut self) {
        if self.config.limited_transmit {
            self.limited_transmit_due = true;
        }
    }

    /// Takes the segment that limited transmit allows, if the windows do.
    #[inline]
    pub(super) fn poll_limited_transmit(&mut self) -> Option<u64> {
        if self.limited_transmit_due { self.limited_transmit_segment() } else { None }
    }

    #[cold]
    fn limited_transmit_segment(&mut self) -> Option<u64> {
        self.limited_transmit_due = false;
        // RFC 5681, section 3.2: "previously unsent data". ns-2 does not ask.
        let is_unsent = self.snd_nxt == self.snd_max || self.config.conventions == Conventions::Ns2;
        if !is_unsent || !self.fits_receiver() {
            return None;
        }
        let end = self.segment_end(self.snd_nxt) - self.snd_una;
        let allowed = (self.congestion.window() + f64::from(self.dup_acks)) * self.mss as f64;
        if end as f64 > allowed {
            return None;
        }
        Some(self.advance_limited())
    }

    /// Takes the segment at `snd_nxt` by limited transmit.
    pub(super) fn advance_limited(&mut self) -> u64 {
        self.limited_bytes += self.segment_end(self.snd_nxt) - self.snd_nxt;
        self.advance_next()
    }

    fn on_timeout(&mut self, now: Instant) {
        self.counters.timeouts += 1;
        if self.snd_una < self.snd_max {
            self.declare_lost(self.snd_una);
        }
        self.dup_acks = 0;
        self.limited_transmit_due = false;
        self.limited_bytes = 0;
        if self.snd_una == 0 && self.config.conventions == Conventions::Rfc {
            self.on_syn_timeout();
        } else {
            self.cut_after_timeout();
        }
        self.timed_out_at = self.snd_una;
        self.rtt.back_off();
        self.timed = None;
        self.snd_nxt = self.snd_una;
        self.rto_deadline = now + self.rtt.rto();
    }

    fn cut_after_timeout(&mut self) {
        if self.snd_una == 0 {
            self.initial_window = self.initial_window.min(1.0);
        }
        let in_use = match self.config.conventions {
            // RFC 5681, section 3.1: the threshold is halved once per lost segment.
            Conventions::Rfc if self.timed_out_at == self.snd_una => {
                2.0 * self.congestion.ssthresh()
            }
            _ => self.window_in_use(0),
        };
        self.counters.window_cuts += 1;
        self.congestion.on_timeout(in_use);
    }

    /// A lost SYN. RFC 6928, section 2, recommends to keep the initial window unless there was more
    /// than one retransmission of it; RFC 5681 reduces it at the first. A SYN carries no data whose
    /// half could become the threshold, so that stays as it is.
    fn on_syn_timeout(&mut self) {
        self.syn_timeouts += 1;
        if self.syn_timeouts == 2 {
            self.counters.window_cuts += 1;
            self.initial_window = self.initial_window.min(1.0);
        }
    }

    /// Accounts for the segment `seq` leaving now and returns its end.
    #[inline]
    fn sent(&mut self, now: Instant, seq: u64) -> u64 {
        let end = self.segment_end(seq);
        let nothing_outstanding = self.snd_una == self.snd_max;
        self.counters.segments_sent += 1;
        if end > self.snd_max {
            self.snd_max = end;
            if self.timed.is_none() {
                self.timed = Some((end, now));
            }
        } else {
            self.counters.retransmissions += 1;
        }
        if nothing_outstanding || self.rto_deadline == Instant::NEVER {
            self.rto_deadline = now + self.rtt.rto();
        }
        end
    }
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
}

impl Sender {
    pub(super) fn new(config: &Config, boot_offset: Duration) -> Self {
        Sender {
            flight: Flight::new(config, boot_offset, config.initial_window),
            recovery: Recovery::new(config),
        }
    }

    /// A new incarnation: everything afresh, except that a host which has once lost a SYN keeps
    /// its initial window of one (as ns-2's agents do), and the counters go on.
    pub(super) fn reset(&mut self, boot_offset: Duration) {
        let Flight { config, initial_window, counters, .. } = self.flight;
        let keep = if config.conventions == Conventions::Ns2 {
            initial_window
        } else {
            config.initial_window
        };
        let mut message_ends = std::mem::take(&mut self.flight.message_ends);
        message_ends.clear();
        self.flight = Flight { message_ends, counters, ..Flight::new(&config, boot_offset, keep) };
        self.recovery.reset();
    }

    /// The SYN becomes due.
    pub(super) fn open(&mut self) {
        if self.flight.write_end == 0 {
            self.flight.extend(1);
        }
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
            if flight.is_idle() && flight.congestion.window() < 1.0 {
                // No timer runs that would open the window.
                flight.congestion.set_window(1.0);
            }
            flight.extend(length);
        }
    }

    pub(super) fn close(&mut self) {
        let flight = &mut self.flight;
        if flight.config.fin && flight.fin_at == u64::MAX {
            flight.fin_at = flight.write_end;
            flight.extend(1);
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
        self.flight.snd_una == self.flight.write_end
    }

    /// Unwraps a 32-bit number near the left edge.
    #[inline]
    pub(super) fn unwrap(&self, wire: u32) -> u64 {
        let una = self.flight.snd_una;
        una.wrapping_add_signed(i64::from(wire.wrapping_sub(una as u32) as i32))
    }

    /// An ACK arrived. `is_pure`: it carried no payload and did not update the window, so it may count
    /// as a duplicate (RFC 5681, section 2). `sent` is when the segment that triggered it left, if the timestamps
    /// option tells.
    #[inline]
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
        if ack > flight.snd_una
            && let Some(sent) = sent
        {
            flight.timed = None;
            flight.rtt.end_back_off();
            flight.rtt.sample(sent, now);
        }
        let is_duplicate = is_pure && ack <= flight.snd_una && flight.snd_una < flight.snd_max;
        let has_news = !blocks.is_empty() && self.recovery.wants_every_sack();
        if ack > flight.snd_una || is_duplicate || has_news {
            self.recovery.on_ack(flight, now, ack, blocks);
        }
    }

    /// The next segment to send now.
    #[inline]
    pub(super) fn poll_transmit(&mut self, now: Instant) -> Option<Outgoing> {
        if self.is_all_acked() {
            return None;
        }
        let seq = self.recovery.next_segment(&mut self.flight)?;
        let end = self.flight.sent(now, seq);
        let syn = self.flight.config.handshake && seq == 0;
        let fin = seq == self.flight.fin_at;
        let payload = if syn || fin { 0 } else { (end - seq) as u32 };
        Some(Outgoing { seq, payload, syn, fin })
    }

    pub(super) fn next_timeout(&self) -> Instant {
        self.flight.rto_deadline
    }

    pub(super) fn handle_timeout(&mut self, now: Instant) {
        if now >= self.flight.rto_deadline {
            self.recovery.on_timeout(&mut self.flight);
            self.flight.on_timeout(now);
        }
    }

    /// Congestion window in segments, inflation apart.
    pub fn congestion_window(&self) -> f64 {
        self.flight.congestion.window()
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
        self.flight.congestion.ssthresh()
    }
}
