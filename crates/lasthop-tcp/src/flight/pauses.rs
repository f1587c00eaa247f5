//! What the window becomes that the application does not use, or does not for a while (`tcp/validation.rs`).
//!
//! ```text
//!   a pause longer than the RTO with nothing outstanding
//!     rfc:     cwnd = min(cwnd, initial window)                       (RFC 5681, section 4.1)
//!     linux:   ssthresh = max(ssthresh, 3/4 cwnd)
//!              cwnd halves once for each RTO, down to the initial one (RFC 2861; tcp_cwnd_restart)
//! ```

use super::Flight;
use crate::config::Conventions;
use crate::congestion_control::{AckSample, CongestionControl};
use crate::validation::Repair;
use lasthop_base::units::Instant;

impl Flight {
    /// The window grows by an ACK if the application has used it, and by bytes if they are counted.
    #[cold]
    pub(super) fn judge(&mut self, sample: AckSample) {
        let (window, srtt) = (self.law.window(), sample.srtt);
        let edge = (sample.snd_una, sample.acked);
        let is_used = match &mut self.validation {
            // A SYN says nothing.
            Some(known) if sample.snd_una > 1 => {
                known.on_ack(sample.now, edge, sample.snd_max, window, srtt)
            }
            _ => true,
        };
        if is_used && self.config.byte_counting.is_some() {
            self.law.on_ack_by_bytes(&sample);
        } else if is_used {
            self.law.on_ack(&sample);
        }
    }

    /// What a reduction at a loss is computed from, in segments: what was used of a window that was not used up (RFC 7661, section 4.4.1).
    pub(crate) fn in_use_at(&mut self, now: Instant, inflation: u32) -> f64 {
        let in_use = self.in_use(inflation);
        let (window, srtt) = (self.law.window(), self.rtt.srtt());
        let outstanding = self.snd_max - self.snd_una;
        let (end, resent) = (self.snd_max, self.counters.retransmissions);
        let Some(known) = &mut self.validation else { return in_use };
        let Some(used) = known.on_loss(now, outstanding, window, srtt) else { return in_use };
        known.repair = Some(Repair { end, used, resent });
        used as f64 / self.mss as f64
    }

    /// An ACK came: if it ends the repair of a loss in a window that was not used, what went again comes off the window,
    /// as the path did not carry it (RFC 7661, section 4.4.1).
    #[inline]
    pub(crate) fn look_at_repair(&mut self) {
        if self.parts.checks_window_growth {
            self.end_repair();
        }
    }

    #[cold]
    fn end_repair(&mut self) {
        let una = self.snd_una;
        let Some(known) = &mut self.validation else { return };
        let Some(repair) = known.repair.take_if(|repair| una >= repair.end) else { return };
        let resent = (self.counters.retransmissions - repair.resent) * self.mss;
        let share = repair.used.saturating_sub(resent) as f64 / repair.used as f64;
        let window = (self.law.ssthresh() * share).max(1.0);
        self.law.slow_start_to(self.law.cwnd().min(window), window.max(2.0));
    }

    /// The timer fired, and slow start begins, or the loss was none: there is nothing to take off the window.
    pub(super) fn forget_repair(&mut self) {
        if let Some(known) = &mut self.validation {
            known.repair = None;
        }
    }

    /// A segment is about to leave, perhaps the first after a pause: what was not used for long may have become too much.
    #[inline(never)]
    pub(super) fn look_at_pause(&mut self, now: Instant) {
        let pause = now - std::mem::replace(&mut self.sent_at, now);
        if self.config.conventions == Conventions::Linux {
            return;
        }
        let (cwnd, initial) = (self.law.cwnd(), self.initial_window);
        let was_idle = self.snd_una == self.snd_max && self.snd_una > 1;
        if self.config.restart_after_idle && was_idle && pause > self.rtt.rto() {
            self.law.set_cwnd(cwnd.min(initial));
        } else if let Some(known) = &mut self.validation
            && let Some(less) = known.on_sent(now, cwnd, self.law.ssthresh(), initial)
        {
            self.law.slow_start_to(less.cwnd.min(cwnd), less.ssthresh);
        }
        if self.law.cwnd() < cwnd {
            self.allowed = self.allowed.min(self.edge_of(self.law.window()));
            self.is_quiet = self.is_plain && !self.has_next();
        }
    }

    /// Nothing is outstanding, and data may leave. A kernel looks at the pause before it cuts data into pieces: these
    /// are no longer than the window allows.
    pub(super) fn look_before_sending(&mut self, now: Instant) {
        let (pause, rto) = (now - self.sent_at, self.rtt.rto());
        let is_linux = self.config.conventions == Conventions::Linux;
        // A closed window postpones this until it opens, as the pause goes on (Linux: `tcp_ack_update_window`).
        let is_closed = self.snd_nxt >= self.snd_una + self.peer_window;
        if !is_linux || is_closed || self.snd_una <= 1 || !self.has_unsent() || pause <= rto {
            return;
        }
        self.sent_at = now;
        let (before, initial) = (self.law.cwnd(), self.config.initial_window);
        let mut cwnd = before;
        for _ in 0..pause.as_nanos() / rto.as_nanos().max(1) {
            if cwnd <= initial {
                break;
            }
            cwnd = (cwnd / 2.0).floor().max(initial);
        }
        let kept = (before / 2.0).floor() + (before / 4.0).floor();
        self.law.slow_start_to(cwnd, self.law.ssthresh().max(kept));
        self.allowed = self.allowed.min(self.edge_of(self.law.window()));
    }
}
