//! Loss handling: declaration of losses, fast retransmit, limited transmit, timeouts, undo of
//! reductions.

use super::Flight;
use super::kept::Kept;
use crate::config::{Notices, Profile};
use crate::congestion_control::{Congestion, CongestionControl};
use crate::random::is_out;
use crate::timers::Timer;
use lasthop_base::units::Instant;

impl Flight {
    /// Declares the segment at `seq` lost. Losses are declared in order of sequence numbers: a
    /// segment below the last one was declared before, so that now its retransmission is lost.
    pub(crate) fn declare_lost(&mut self, seq: u64) {
        if seq >= self.losses.declared_to {
            self.losses.declared_to = self.segment_end(seq);
            self.counters.losses_declared += 1;
            if let Kept::Rates(departures) = &self.kept
                && let Some((end, page)) = departures.page_of(seq)
            {
                let lost = page.lose(seq, end, self.lost_bytes());
                self.congestion_control.on_lost(&lost);
            }
        }
    }

    /// Counts the records newly marked as lost, and reports them to congestion control if it reads
    /// rates.
    #[cold]
    pub(crate) fn count_marked_lost(&mut self) {
        let Kept::Records(records) = &mut self.kept else { return };
        let reads_rates = self.config.congestion_control.reads_rates();
        for (start, end, page) in records.take_lost() {
            self.counters.losses_declared += 1;
            if reads_rates {
                let lost = self.counters.losses_declared * self.mss;
                self.congestion_control.on_lost(&page.lose(start, end, lost));
            }
        }
    }

    /// Handles the third duplicate: reduces the window once, restarts the timer and cancels the RTT
    /// measurement. Returns `true` if the window was reduced; a loss classified as random does not
    /// reduce it.
    pub(crate) fn fast_retransmit(&mut self, now: Instant, inflation: u32) -> bool {
        let in_use = self.in_use_at(now, inflation);
        self.fast_retransmit_of(now, self.snd_una, in_use)
    }

    /// Like [`Self::fast_retransmit`], for the segment at `seq`; `in_use` is in segments.
    pub(crate) fn fast_retransmit_of(&mut self, now: Instant, seq: u64, in_use: f64) -> bool {
        self.declare_lost(seq);
        let is_cut = !(self.config.marks_some_out() && self.is_random(now, seq));
        if is_cut {
            self.reduce_for_loss(now, in_use);
        } else {
            // Slow start restores the window after the end of recovery.
            let cwnd = self.congestion_control.cwnd();
            let ssthresh = self.congestion_control.ssthresh().max(cwnd);
            self.congestion_control.slow_start_to(cwnd, ssthresh);
            self.counters.explicit_losses += 1;
        }
        self.counters.fast_retransmits += 1;
        self.timed = None;
        self.losses.limited_transmit_due = false;
        self.restart_timer(now);
        is_cut
    }

    /// Classifies the hole at `seq`, reported by a partial ACK in a recovery whose losses were all
    /// random, so that the window was not reduced. A loss by congestion reduces it now. The whole
    /// window is in use, since every duplicate permitted a new segment. Returns `true` if the
    /// window was reduced.
    #[cold]
    pub(crate) fn judge_hole(&mut self, now: Instant, seq: u64) -> bool {
        if self.is_random(now, seq) {
            self.counters.explicit_losses += 1;
            return false;
        }
        let in_use = self.in_use_at(now, 0).min(self.congestion_control.cwnd());
        self.reduce_for_loss(now, in_use);
        true
    }

    /// Reduces the window for a loss.
    fn reduce_for_loss(&mut self, now: Instant, in_use: f64) {
        self.congestion_control.on_congestion(now, Congestion::Loss, in_use);
        self.undo.on_reduction(now);
        self.counters.window_cuts += 1;
    }

    /// Returns `true` if the loss of the segment at `seq` is random, judged by the segments that
    /// queues drop first.
    #[cold]
    fn is_random(&mut self, now: Instant, seq: u64) -> bool {
        if self.config.notices == Notices::Casablanca {
            return self.hints.loss_mark.take() == Some(seq);
        }
        if is_out(&self.config, seq) {
            self.hints.out_lost = Some(now);
            return false;
        }
        self.hints.out_lost.is_none_or(|at| now > at + self.rtt.srtt())
    }

    /// Reduces the window for a congestion mark.
    pub(crate) fn reduce_for_mark(&mut self, now: Instant) {
        let in_use = self.in_use_at(now, 0);
        self.congestion_control.on_congestion(now, Congestion::Ecn, in_use);
        self.counters.window_cuts += 1;
    }

    /// Handles one of the first duplicates, which permit one new segment each (RFC 3042).
    pub(crate) fn limited_transmit(&mut self) {
        if self.config.limited_transmit {
            self.losses.limited_transmit_due = true;
        }
    }

    /// Takes the segment that limited transmit permits, if the windows do.
    #[inline]
    pub(crate) fn poll_limited_transmit(&mut self) -> Option<u64> {
        if self.losses.limited_transmit_due { self.limited_transmit_segment() } else { None }
    }

    #[cold]
    fn limited_transmit_segment(&mut self) -> Option<u64> {
        self.losses.limited_transmit_due = false;
        // RFC 5681, section 3.2: "previously unsent data". ns-2 does not check this.
        let is_unsent = self.snd_nxt == self.snd_max || self.config.profile == Profile::Ns2;
        if !is_unsent || !self.fits_receiver() {
            return None;
        }
        let end = self.segment_end(self.snd_nxt) - self.snd_una;
        let allowed =
            (self.congestion_control.cwnd() + f64::from(self.duplicates.count())) * self.mss as f64;
        if end as f64 > allowed {
            return None;
        }
        Some(self.advance_limited())
    }

    /// Takes the segment at `snd_nxt` by limited transmit.
    pub(crate) fn advance_limited(&mut self) -> u64 {
        self.losses.limited_bytes += self.segment_end(self.snd_nxt) - self.snd_nxt;
        self.advance_next()
    }

    /// Cancels the RTT measurement if it uses the segment that ends at `end`, which is
    /// retransmitted (Karn's algorithm).
    pub(crate) fn forget_timed_segment(&mut self, end: u64) {
        if self.timed.is_some_and(|(timed, _)| timed == end) {
            self.timed = None;
        }
    }

    /// Cancels the RTT measurement and ends backoff if a partial ACK covers the timed segment. The
    /// sample would be invalid.
    pub(crate) fn forget_timed(&mut self, ack: u64) {
        if self.timed.is_some_and(|(end, _)| ack >= end) {
            self.timed = None;
            self.rtt.end_back_off();
        }
    }

    pub(crate) fn on_timeout(&mut self, now: Instant) {
        self.counters.timeouts += 1;
        if self.snd_una < self.snd_max {
            self.declare_lost(self.snd_una);
        }
        self.duplicates.clear();
        self.losses.limited_transmit_due = false;
        self.losses.limited_bytes = 0;
        if self.snd_una == 0 && self.config.profile != Profile::Ns2 {
            self.on_syn_timeout();
        } else {
            self.cut_after_timeout(now);
        }
        self.losses.timed_out_at = Some(self.snd_una);
        self.losses.timed_out_to = self.snd_max;
        let linear = 1..=self.config.syn_linear_timeouts;
        let is_linear = self.snd_una == 0 && linear.contains(&self.losses.syn_timeouts);
        if !is_linear {
            self.rtt.back_off();
        }
        self.timed = None;
        self.send_oldest_again(now);
    }

    /// Retransmits outstanding data from the oldest segment onwards, and restarts the timer.
    pub(crate) fn send_oldest_again(&mut self, now: Instant) {
        self.go_back();
        self.timers.start(Timer::Retransmission, now, self.rtt.rto());
    }

    fn cut_after_timeout(&mut self, now: Instant) {
        if self.snd_una == 0 {
            self.initial_window = self.initial_window.min(1.0);
        }
        // RFC 5681, section 3.1: the threshold is reduced once for each lost segment.
        let is_again =
            self.losses.timed_out_at == Some(self.snd_una) && self.config.profile != Profile::Ns2;
        let in_use = (!is_again).then(|| {
            let in_use = self.in_use_at(now, 0);
            self.in_use_at_timeout(in_use)
        });
        self.forget_repair();
        self.counters.window_cuts += 1;
        self.congestion_control.on_timeout(now, in_use);
        self.undo.on_reduction(now);
    }

    /// Undoes the latest reduction, which was spurious, and continues with data that was never
    /// sent.
    pub(crate) fn undo(&mut self) {
        self.forget_repair();
        self.counters.spurious_reductions += 1;
        self.congestion_control.on_spurious();
        self.losses.timed_out_to = 0;
        self.rtt.end_back_off();
        self.snd_nxt = self.snd_max;
    }

    /// Handles the loss of a SYN. RFC 6928, section 2, recommends to keep the initial window unless
    /// the SYN was retransmitted more than once; RFC 5681 reduces it at the first loss. A SYN
    /// carries no data whose half could become the threshold, so that the threshold is unchanged.
    fn on_syn_timeout(&mut self) {
        self.losses.syn_timeouts += 1;
        if self.losses.syn_timeouts == 2 {
            self.counters.window_cuts += 1;
            self.initial_window = self.initial_window.min(1.0);
        }
    }
}
