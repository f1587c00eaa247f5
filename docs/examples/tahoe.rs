//! Tahoe: fast retransmit without fast recovery (Jacobson 1988; ns-2 `Agent/TCP`).
//!
//! ```text
//!   OPEN -- third duplicate, snd_una > recover --> OPEN: cwnd = 1, go back to snd_una
//! ```
//!
//! What arrived out of order is sent again as the window reopens, until an ACK jumps past it.

use super::super::config::Config;
use super::super::flight::Flight;
use super::super::law::CongestionLaw;
use super::super::loss::duplicates::Duplicate;
use super::CutGuard;
use crate::units::Instant;

#[derive(Clone, Debug)]
pub struct Tahoe {
    guard: CutGuard,
}

impl Tahoe {
    pub fn new(config: &Config) -> Self {
        Tahoe { guard: CutGuard::new(config) }
    }

    pub fn on_ack(&mut self, flight: &mut Flight, now: Instant, ack: u64) {
        if ack > flight.snd_una {
            let acked = flight.new_ack(now, ack);
            flight.grow_window(now, acked);
        } else if ack == flight.snd_una {
            match flight.duplicates.add() {
                Duplicate::Early => flight.limited_transmit(),
                Duplicate::Threshold if self.guard.may_cut(flight) => {
                    self.guard.cut_at(flight.snd_max);
                    // Halves ssthresh, counts the cut, restarts the timer, spoils the RTT sample.
                    flight.fast_retransmit(now, 0);
                    flight.law.set_cwnd(1.0);
                    flight.snd_nxt = ack;
                }
                Duplicate::Threshold | Duplicate::Further => {}
            }
        }
    }

    pub fn on_timeout(&mut self, flight: &mut Flight) {
        self.guard.cut_at(flight.snd_max);
    }

    pub fn on_spurious(&mut self) {
        self.guard.reset();
    }

    pub fn next_segment(&mut self, flight: &mut Flight) -> Option<u64> {
        flight.poll_limited_transmit().or_else(|| flight.next_allowed())
    }
}
