//! Reno: fast retransmit and fast recovery (RFC 5681, section 3.2; ns-2 `Agent/TCP/Reno`).
//!
//! ```text
//!             third duplicate, snd_una > recover
//!   OPEN ------------------------------------------> RECOVERY: window inflated by 3,
//!    ^                                                   |     +1 per further duplicate
//!    +------------------- any new ACK -------------------+
//! ```
//!
//! A timeout in any state returns to OPEN with `recover` at the highest byte sent, so that
//! duplicate ACKs caused by retransmissions do not reduce the window again. A second hole in the
//! same window therefore waits for three more duplicates above `recover`, or for the timer.

use super::super::config::{Config, Profile};
use super::super::flight::Flight;
use super::super::loss::duplicates::Duplicate;
use super::{CutGuard, LossRecovery};
use lasthop_base::units::Instant;

#[derive(Clone, Debug)]
pub struct Reno {
    in_recovery: bool,
    /// Number of duplicate ACKs that inflate the window (ns-2: `dupwnd_`).
    inflation: u32,
    guard: CutGuard,
    retransmit: Option<u64>,
    /// Whether the ACK that ends recovery grows the window, as in ns-2.
    grows_at_exit: bool,
}

impl Reno {
    pub fn new(config: &Config) -> Self {
        Reno {
            in_recovery: false,
            inflation: 0,
            guard: CutGuard::new(config),
            retransmit: None,
            grows_at_exit: config.profile == Profile::Ns2,
        }
    }

    fn on_duplicate(&mut self, flight: &mut Flight, now: Instant) {
        match flight.duplicates.add() {
            Duplicate::Early => flight.limited_transmit(),
            Duplicate::Threshold => {
                if self.guard.may_cut(flight) {
                    self.guard.cut_at(flight.snd_max);
                    self.in_recovery = true;
                    flight.fast_retransmit(now, self.inflation);
                    self.inflation = flight.duplicates.count();
                    self.retransmit = Some(flight.snd_una);
                }
            }
            Duplicate::Further => self.inflation += u32::from(self.in_recovery),
        }
    }
}

impl LossRecovery for Reno {
    fn reset(&mut self, config: &Config) {
        *self = Reno::new(config);
    }

    #[inline]
    fn has_ack_fast_path(&self) -> bool {
        // The window is inflated in RECOVERY only.
        !self.in_recovery && self.retransmit.is_none()
    }

    #[inline(always)]
    fn on_ack(&mut self, flight: &mut Flight, now: Instant, ack: u64, _: &[(u64, u64)]) {
        if ack > flight.snd_una {
            let was_in_recovery = std::mem::take(&mut self.in_recovery);
            self.inflation = 0;
            let acked = flight.new_ack(now, ack);
            // RFC 5681, step 6: deflate to ssthresh. Without the inflation, the window equals
            // ssthresh.
            if !was_in_recovery || self.grows_at_exit {
                flight.grow_window(now, acked);
            }
        } else if ack == flight.snd_una {
            self.on_duplicate(flight, now);
        }
    }

    fn in_recovery(&self) -> bool {
        self.in_recovery
    }

    fn on_timeout(&mut self, flight: &mut Flight) {
        self.guard.cut_at(flight.snd_max);
        self.in_recovery = false;
        self.inflation = 0;
        self.retransmit = None;
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
        self.retransmit.is_none()
    }

    fn next_segment(&mut self, flight: &mut Flight, _: Instant) -> Option<u64> {
        self.retransmit
            .take()
            .or_else(|| flight.poll_limited_transmit())
            .or_else(|| flight.next_allowed())
    }
}
