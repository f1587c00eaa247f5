//! NewReno: a partial ACK triggers the retransmission of the next hole (RFC 6582; ns-2
//! `Agent/TCP/Newreno`).
//!
//! ```text
//!             third duplicate, snd_una > recover
//!   OPEN ------------------------------------------> RECOVERY --+ partial ACK: retransmit snd_una,
//!    ^                                                   |  ^---+ deflate, timer on the first only
//!    +------------------ ACK >= recover -----------------+
//! ```
//!
//! Only the first partial ACK restarts the timer (the "Impatient" variant of RFC 6582), so that a
//! long series of holes may end in a timeout. ns-2 sends at most two segments per ACK in recovery.

use super::super::config::{Config, Profile};
use super::super::congestion_control::CongestionControl;
use super::super::flight::Flight;
use super::super::loss::duplicates::Duplicate;
use super::{CutGuard, LossRecovery};
use lasthop_base::units::Instant;

/// Maximum number of segments sent per ACK in recovery by ns-2 (`maxburst`).
const NS2_RECOVERY_BURST: u32 = 2;

/// Change of the window on the full ACK, which ends recovery.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Exit {
    /// The window grows as on any ACK for new data (ns-2).
    Grow,
    /// The window is set to min(ssthresh, max(flight, SMSS) + SMSS) to avoid a burst (RFC 6582,
    /// section 3.2, step 3, option 1).
    Clamp,
}

#[derive(Clone, Debug)]
pub struct NewReno {
    in_recovery: bool,
    /// Whether all losses of this recovery were classified as random so far, so that the window was
    /// not reduced (Casablanca, Ifrane).
    skips_reduction: bool,
    seen_partial: bool,
    /// Number of duplicate ACKs that inflate the window.
    inflation: u32,
    guard: CutGuard,
    retransmit: Option<u64>,
    /// Number of segments that may still be sent for this ACK.
    burst: u32,
    exit: Exit,
    /// Maximum number of segments sent per ACK in recovery.
    recovery_burst: u32,
}

impl NewReno {
    pub fn new(config: &Config) -> Self {
        let (exit, recovery_burst) = match config.profile {
            Profile::Ns2 => (Exit::Grow, NS2_RECOVERY_BURST),
            Profile::Rfc | Profile::Linux => (Exit::Clamp, u32::MAX),
        };
        NewReno {
            in_recovery: false,
            skips_reduction: false,
            seen_partial: false,
            inflation: 0,
            guard: CutGuard::new(config),
            retransmit: None,
            burst: u32::MAX,
            exit,
            recovery_burst,
        }
    }

    fn on_duplicate(&mut self, flight: &mut Flight, now: Instant) {
        match flight.duplicates.add() {
            Duplicate::Early => flight.limited_transmit(),
            Duplicate::Threshold => {
                if self.guard.may_cut(flight) {
                    self.guard.cut_at(flight.snd_max);
                    self.in_recovery = true;
                    self.seen_partial = false;
                    self.skips_reduction = !flight.fast_retransmit(now, self.inflation);
                    self.inflation = flight.duplicates.count();
                    self.retransmit = Some(flight.snd_una);
                }
            }
            Duplicate::Further => self.inflation += u32::from(self.in_recovery),
        }
    }

    fn on_full_ack(&mut self, flight: &mut Flight, now: Instant, ack: u64) {
        self.in_recovery = false;
        self.inflation = 0;
        let acked = flight.new_ack(now, ack);
        match self.exit {
            Exit::Grow => flight.grow_window(now, acked),
            Exit::Clamp => {
                let in_flight = flight.outstanding_segments().max(1) as f64;
                let window = flight.congestion_control.ssthresh().min(in_flight + 1.0);
                flight.congestion_control.set_cwnd(window);
            }
        }
    }

    fn on_partial_ack(&mut self, flight: &mut Flight, now: Instant, ack: u64) {
        if self.skips_reduction && flight.judge_hole(now, ack) {
            self.skips_reduction = false;
            self.guard.cut_at(flight.snd_max);
        }
        // Deflate by the number of acknowledged segments, then add one segment back.
        let acked = (ack - flight.snd_una).div_ceil(flight.mss) as u32;
        if self.inflation > acked {
            self.inflation -= acked - 1;
        } else {
            let window = flight.congestion_control.cwnd() - f64::from(acked - self.inflation);
            flight.congestion_control.set_cwnd(window.max(1.0));
            self.inflation = 1;
        }
        flight.move_una(ack);
        if !self.seen_partial {
            self.seen_partial = true;
            flight.restart_timer(now);
        }
        flight.forget_timed(ack);
        flight.declare_lost(ack);
        self.retransmit = Some(ack);
    }
}

impl LossRecovery for NewReno {
    fn reset(&mut self, config: &Config) {
        *self = NewReno::new(config);
    }

    #[inline]
    fn has_ack_fast_path(&self) -> bool {
        !self.in_recovery && self.retransmit.is_none() && self.burst == u32::MAX
    }

    fn on_ack(&mut self, flight: &mut Flight, now: Instant, ack: u64, _: &[(u64, u64)]) {
        self.burst = u32::MAX;
        if ack > flight.snd_una {
            if !self.in_recovery {
                let acked = flight.new_ack(now, ack);
                flight.grow_window(now, acked);
            } else if ack >= self.guard.recover {
                self.on_full_ack(flight, now, ack);
            } else {
                self.on_partial_ack(flight, now, ack);
            }
        } else if ack == flight.snd_una {
            self.on_duplicate(flight, now);
        }
        if flight.duplicates.mean_loss() {
            self.burst = self.recovery_burst;
        }
    }

    fn in_recovery(&self) -> bool {
        self.in_recovery
    }

    fn on_timeout(&mut self, flight: &mut Flight) {
        self.guard.cut_at(flight.snd_max);
        self.in_recovery = false;
        self.seen_partial = false;
        self.inflation = 0;
        self.retransmit = None;
        self.burst = u32::MAX;
    }

    fn on_spurious(&mut self) {
        self.guard.reset();
        self.in_recovery = false;
        self.inflation = 0;
        self.retransmit = None;
    }

    #[inline]
    fn inflation(&self) -> u32 {
        self.inflation
    }

    #[inline]
    fn is_plain(&self, _: &Flight) -> bool {
        !self.in_recovery && self.retransmit.is_none()
    }

    fn next_segment(&mut self, flight: &mut Flight, _: Instant) -> Option<u64> {
        if let Some(seq) = self.retransmit.take().or_else(|| flight.poll_limited_transmit()) {
            return Some(seq);
        }
        if self.in_recovery && self.burst == 0 {
            return None;
        }
        let seq = flight.next_allowed()?;
        self.burst = self.burst.saturating_sub(1);
        Some(seq)
    }
}
