//! Tahoe: fast retransmit followed by slow start (Jacobson, "Congestion Avoidance and Control",
//! SIGCOMM 1988; ns-2 `Agent/TCP`).
//!
//! ```text
//!         +-- third duplicate, snd_una > recover: ssthresh = half, cwnd = 1,
//!   OPEN -+   retransmit everything from snd_una onwards
//!    ^    |
//!    +----+
//! ```
//!
//! There is no other state. Segments that the receiver holds above the hole are also retransmitted
//! until an ACK reports their arrival.

use super::super::config::Config;
use super::super::congestion_control::CongestionControl;
use super::super::flight::Flight;
use super::super::loss::duplicates::Duplicate;
use super::{CutGuard, LossRecovery};
use lasthop_base::units::Instant;

#[derive(Clone, Debug)]
pub struct Tahoe {
    guard: CutGuard,
}

impl Tahoe {
    pub fn new(config: &Config) -> Self {
        Tahoe { guard: CutGuard::new(config) }
    }
}

impl LossRecovery for Tahoe {
    fn reset(&mut self, config: &Config) {
        *self = Tahoe::new(config);
    }

    fn on_ack(&mut self, flight: &mut Flight, now: Instant, ack: u64, _: &[(u64, u64)]) {
        if ack > flight.snd_una {
            let acked = flight.new_ack(now, ack);
            flight.grow_window(now, acked);
        } else if ack == flight.snd_una {
            match flight.duplicates.add() {
                Duplicate::Early => flight.limited_transmit(),
                Duplicate::Threshold if self.guard.may_cut(flight) => {
                    self.guard.cut_at(flight.snd_max);
                    flight.fast_retransmit(now, 0);
                    flight.congestion_control.set_cwnd(1.0);
                    flight.go_back();
                }
                Duplicate::Threshold | Duplicate::Further => {}
            }
        }
    }

    fn on_timeout(&mut self, flight: &mut Flight) {
        self.guard.cut_at(flight.snd_max);
    }

    fn on_spurious(&mut self) {
        self.guard.reset();
    }

    /// Always `true`: `snd_nxt` alone determines the next segment.
    fn is_plain(&self, _: &Flight) -> bool {
        true
    }

    fn next_segment(&mut self, flight: &mut Flight, _: Instant) -> Option<u64> {
        flight.poll_limited_transmit().or_else(|| flight.next_allowed())
    }
}
