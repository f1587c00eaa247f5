//! NewReno: partial ACKs retransmit the next hole (RFC 6582; ns-2 `Agent/TCP/Newreno`).
//!
//! ```text
//!             third duplicate, snd_una > recover
//!   OPEN ------------------------------------------> RECOVERY --+ partial ACK: resend snd_una,
//!    ^                                                   |  ^---+ deflate, timer on the first only
//!    +------------------ ACK >= recover -----------------+
//! ```
//!
//! The timer restarts at the first partial ACK only (the "impatient" variant), so a long series of
//! holes may end in a timeout. ns-2 sends at most two segments per ACK inside recovery.

use super::super::config::Conventions;
use super::super::congestion::CongestionControl;
use super::super::sender::Flight;
use super::may_cut;
use crate::units::Instant;

/// ns-2: `maxburst` inside recovery.
const NS2_RECOVERY_BURST: u32 = 2;

#[derive(Clone, Debug, Default)]
pub struct NewReno {
    in_recovery: bool,
    seen_partial: bool,
    /// Duplicate ACKs that inflate the window.
    inflation: u32,
    recover: u64,
    retransmit: Option<u64>,
    /// Segments that this ACK may still release.
    burst: u32,
}

impl NewReno {
    pub fn on_ack(&mut self, flight: &mut Flight, now: Instant, ack: u64) {
        let threshold = flight.config.dupack_threshold;
        self.burst = u32::MAX;
        if ack > flight.snd_una {
            if !self.in_recovery {
                let acked = flight.new_ack(now, ack);
                flight.grow_window(acked);
            } else if ack >= self.recover {
                self.in_recovery = false;
                self.inflation = 0;
                let acked = flight.new_ack(now, ack);
                match flight.config.conventions {
                    Conventions::Ns2 => flight.grow_window(acked),
                    Conventions::Rfc => {
                        // RFC 6582, section 3.2, step 3, option 1: no burst on exit.
                        let in_flight = flight.outstanding_segments().max(1) as f64;
                        let window = flight.congestion.ssthresh().min(in_flight + 1.0);
                        flight.congestion.set_window(window);
                    }
                }
            } else {
                self.on_partial_ack(flight, now, ack);
            }
        } else if ack == flight.snd_una {
            flight.dup_acks += 1;
            if flight.dup_acks == threshold {
                if may_cut(flight, self.recover) {
                    self.recover = flight.snd_max;
                    self.in_recovery = true;
                    self.seen_partial = false;
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
        if flight.config.conventions == Conventions::Ns2 && flight.dup_acks >= threshold {
            self.burst = NS2_RECOVERY_BURST;
        }
    }

    fn on_partial_ack(&mut self, flight: &mut Flight, now: Instant, ack: u64) {
        // Deflate by what was acknowledged, add one segment back.
        let acked = (ack - flight.snd_una).div_ceil(flight.mss) as u32;
        if self.inflation > acked {
            self.inflation -= acked - 1;
        } else {
            let window = flight.congestion.window() - f64::from(acked - self.inflation);
            flight.congestion.set_window(window.max(1.0));
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

    pub fn on_timeout(&mut self, flight: &mut Flight) {
        *self = NewReno { recover: flight.snd_max, burst: u32::MAX, ..Default::default() };
    }

    pub fn next_segment(&mut self, flight: &mut Flight) -> Option<u64> {
        if let Some(seq) = self.retransmit.take() {
            return Some(seq);
        }
        if let Some(seq) = flight.poll_limited_transmit() {
            return Some(seq);
        }
        let window = flight.congestion.window() + f64::from(self.inflation);
        if self.in_recovery && self.burst == 0 || !flight.fits(window) {
            return None;
        }
        self.burst = self.burst.saturating_sub(1);
        Some(flight.advance_next())
    }
}
