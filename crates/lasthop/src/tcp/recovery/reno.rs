//! Reno: fast retransmit and fast recovery (RFC 5681, section 3.2; ns-2 `Agent/TCP/Reno`).
//!
//! ```text
//!             third duplicate, snd_una > recover
//!   OPEN ------------------------------------------> RECOVERY: window inflated by 3,
//!    ^                                                   |     +1 per further duplicate
//!    +------------------- any new ACK -------------------+
//! ```
//!
//! A timeout anywhere returns to OPEN with `recover` at the highest byte sent, so that duplicates
//! of resent segments do not cut again. A second hole in the same window therefore waits for three
//! more duplicates above `recover`, or for the timer.

use super::super::config::Conventions;
use super::super::congestion::CongestionControl;
use super::super::sender::Flight;
use super::may_cut;
use crate::units::Instant;

#[derive(Clone, Debug, Default)]
pub struct Reno {
    in_recovery: bool,
    /// Duplicate ACKs that inflate the window (ns-2: `dupwnd_`).
    inflation: u32,
    /// One past the highest byte sent at the last reduction.
    recover: u64,
    retransmit: Option<u64>,
}

impl Reno {
    #[inline]
    pub fn on_ack(&mut self, flight: &mut Flight, now: Instant, ack: u64) {
        if ack > flight.snd_una {
            let was_in_recovery = std::mem::take(&mut self.in_recovery);
            self.inflation = 0;
            let acked = flight.new_ack(now, ack);
            // RFC 5681, step 6: deflate to ssthresh, which is where the window stands.
            if !(was_in_recovery && flight.config.conventions == Conventions::Rfc) {
                flight.grow_window(acked);
            }
        } else if ack == flight.snd_una {
            flight.dup_acks += 1;
            let threshold = flight.config.dupack_threshold;
            if flight.dup_acks == threshold {
                if may_cut(flight, self.recover) {
                    self.recover = flight.snd_max;
                    self.in_recovery = true;
                    flight.fast_retransmit(now, self.inflation);
                    self.inflation = threshold;
                    self.retransmit = Some(ack);
                }
            } else if flight.dup_acks > threshold {
                self.inflation += u32::from(self.in_recovery);
            } else {
                flight.limited_transmit();
            }
        }
    }

    pub fn on_timeout(&mut self, flight: &mut Flight) {
        *self = Reno { recover: flight.snd_max, ..Default::default() };
    }

    #[inline]
    pub fn next_segment(&mut self, flight: &mut Flight) -> Option<u64> {
        if let Some(seq) = self.retransmit.take() {
            return Some(seq);
        }
        if let Some(seq) = flight.poll_limited_transmit() {
            return Some(seq);
        }
        let window = flight.congestion.window() + f64::from(self.inflation);
        flight.fits(window).then(|| flight.advance_next())
    }
}
