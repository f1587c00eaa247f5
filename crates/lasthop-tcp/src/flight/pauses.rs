//! Changes of a window that the application does not use, or has not used for some time
//! (`validation.rs`).
//!
//! ```text
//!   an idle period longer than the RTO with no outstanding data
//!     rfc:     cwnd = min(cwnd, initial window)                       (RFC 5681, section 4.1)
//!     linux:   ssthresh = max(ssthresh, 3/4 cwnd)
//!              cwnd halves once per RTO, down to the initial window   (RFC 2861; tcp_cwnd_restart)
//! ```

use super::Flight;
use crate::congestion_control::{AckSample, CongestionControl};
use crate::validation::Repair;
use lasthop_base::units::Instant;

impl Flight {
    /// Grows the window for an ACK if the application has used it; by bytes under
    /// `Config::byte_counting`.
    #[cold]
    pub(super) fn judge(&mut self, sample: AckSample) {
        let (window, srtt) = (self.congestion_control.window(), sample.srtt);
        let edge = (sample.snd_una, sample.acked);
        let is_used = match &mut self.validation {
            // The SYN does not indicate use.
            Some(known) if sample.snd_una > 1 => {
                known.on_ack(sample.now, edge, sample.snd_max, window, srtt)
            }
            _ => true,
        };
        if is_used && self.config.byte_counting.is_some() {
            self.congestion_control.on_ack_by_bytes(&sample);
        } else if is_used {
            self.congestion_control.on_ack(&sample);
        }
    }

    /// Quantity from which a reduction at a loss is computed, in segments. If the window was not
    /// used up, it is the used part (RFC 7661, section 4.4.1).
    pub(crate) fn in_use_at(&mut self, now: Instant, inflation: u32) -> f64 {
        let in_use = self.in_use(inflation);
        let (window, srtt) = (self.congestion_control.window(), self.rtt.srtt());
        let outstanding = self.snd_max - self.snd_una;
        let (end, resent) = (self.snd_max, self.counters.retransmissions);
        let Some(known) = &mut self.validation else { return in_use };
        let Some(used) = known.on_loss(now, outstanding, window, srtt) else { return in_use };
        known.repair = Some(Repair { end, used, resent });
        used as f64 / self.mss as f64
    }

    /// Checks whether an ACK ends the repair of a loss in a window that was not used up. The
    /// retransmitted data, which the path did not carry, is then subtracted from the window (RFC
    /// 7661, section 4.4.1).
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
        let window = (self.congestion_control.ssthresh() * share).max(1.0);
        self.congestion_control
            .slow_start_to(self.congestion_control.cwnd().min(window), window.max(2.0));
    }

    /// Cancels the subtraction after a timeout, which starts slow start, or after a spurious loss.
    pub(super) fn forget_repair(&mut self) {
        if let Some(known) = &mut self.validation {
            known.repair = None;
        }
    }

    /// Handles an idle period before the transmission of a segment. The unused window may be too
    /// large by then.
    #[inline(never)]
    pub(super) fn look_at_pause(&mut self, now: Instant) {
        let pause = now - std::mem::replace(&mut self.output.sent_at, now);
        if self.policies().send.decays_when_idle {
            return;
        }
        let (cwnd, initial) = (self.congestion_control.cwnd(), self.initial_window);
        let was_idle = self.snd_una == self.snd_max && self.snd_una > 1;
        if self.config.restart_after_idle && was_idle && pause > self.rtt.rto() {
            self.congestion_control.set_cwnd(cwnd.min(initial));
        } else if let Some(known) = &mut self.validation
            && let Some(less) =
                known.on_sent(now, cwnd, self.congestion_control.ssthresh(), initial)
        {
            self.congestion_control.slow_start_to(less.cwnd.min(cwnd), less.ssthresh);
        }
        if self.congestion_control.cwnd() < cwnd {
            self.gate.allowed =
                self.gate.allowed.min(self.edge_of(self.congestion_control.window()));
            self.gate.is_quiet = self.gate.is_plain && !self.has_next();
        }
    }

    /// Handles an idle period before data is sent while none is outstanding. Linux does this before
    /// it forms GSO segments, which therefore do not exceed the window.
    pub(super) fn look_before_sending(&mut self, now: Instant) {
        // A closed window defers this until it opens; the idle period continues (Linux:
        // `tcp_ack_update_window`).
        if !self.is_peer_closed() && self.has_unsent() && self.decay_after_idle(now) {
            self.output.sent_at = now;
        }
    }

    /// Handles an idle period when the application begins a new piece behind a closed window. The
    /// idle period continues (Linux: `tcp_skb_entail`).
    pub(crate) fn look_at_new_piece(&mut self, now: Instant) {
        if self.snd_una == self.snd_max && self.is_peer_closed() && self.parts.restarts_after_idle {
            self.decay_after_idle(now);
        }
    }

    /// Returns `true` if the peer's window permits no new data.
    fn is_peer_closed(&self) -> bool {
        self.snd_nxt >= self.snd_una + self.peer.window
    }

    /// Halves the congestion window once per RTO since the latest transmission, down to the initial
    /// window. Returns `true` if an RTO has passed.
    fn decay_after_idle(&mut self, now: Instant) -> bool {
        let (pause, rto) = (now - self.output.sent_at, self.rtt.rto());
        let decays = self.policies().send.decays_when_idle;
        if !decays || self.snd_una <= 1 || pause <= rto {
            return false;
        }
        let (before, initial) = (self.congestion_control.cwnd(), self.config.initial_window);
        let mut cwnd = before;
        for _ in 0..pause.as_nanos() / rto.as_nanos().max(1) {
            if cwnd <= initial {
                break;
            }
            cwnd = (cwnd / 2.0).floor().max(initial);
        }
        let kept = (before / 2.0).floor() + (before / 4.0).floor();
        self.congestion_control.slow_start_to(cwnd, self.congestion_control.ssthresh().max(kept));
        self.gate.allowed = self.gate.allowed.min(self.edge_of(self.congestion_control.window()));
        true
    }
}
