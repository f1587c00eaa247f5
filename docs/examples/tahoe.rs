//! Tahoe: fast retransmit without fast recovery (Jacobson 1988; ns-2 `Agent/TCP`).
//!
//! ```text
//!   OPEN -- third duplicate, snd_una > recover --> OPEN: cwnd = 1, go back to snd_una
//! ```
//!
//! What arrived out of order is sent again as the window reopens, until an ACK jumps past it.

use super::super::congestion::CongestionControl;
use super::super::sender::Flight;
use super::may_cut;
use crate::units::Instant;

#[derive(Clone, Debug, Default)]
pub struct Tahoe {
    /// One past the highest byte sent at the last reduction.
    recover: u64,
}

impl Tahoe {
    pub fn on_ack(&mut self, flight: &mut Flight, now: Instant, ack: u64) {
        if ack > flight.snd_una {
            let acked = ack - flight.snd_una;
            flight.new_ack(now, ack);
            flight.grow_window(acked);
        } else if ack == flight.snd_una {
            flight.dup_acks += 1;
            let threshold = flight.config.dupack_threshold;
            if flight.dup_acks == threshold && may_cut(flight, self.recover) {
                self.recover = flight.snd_max;
                // Halves ssthresh, counts the cut, restarts the timer, spoils the RTT sample.
                flight.fast_retransmit(now, 0);
                flight.congestion.set_window(1.0);
                flight.snd_nxt = ack;
            } else if flight.dup_acks < threshold {
                flight.limited_transmit();
            }
        }
    }

    pub fn on_timeout(&mut self, flight: &mut Flight) {
        self.recover = flight.snd_max;
    }

    pub fn next_segment(&mut self, flight: &mut Flight) -> Option<u64> {
        if let Some(seq) = flight.poll_limited_transmit() {
            return Some(seq);
        }
        let window = flight.congestion.window();
        flight.fits(window).then(|| flight.advance_next())
    }
}
