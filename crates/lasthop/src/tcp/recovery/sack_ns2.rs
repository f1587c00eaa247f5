//! SACK as ns-2's `Agent/TCP/Sack1` does it.
//!
//! ```text
//!             third duplicate that brings new SACK information, snd_una > recover
//!   OPEN -------------------------------------------------------> RECOVERY: pipe counts what
//!    ^                                                               |      is in the network
//!    +--------------------------- ACK >= recover -------------------+
//! ```
//!
//! In recovery every ACK lowers `pipe` by one and a partial ACK by two; while `pipe` is below the
//! window the lowest hole under the highest SACKed byte goes out, each hole once, then new data. A
//! retransmission that is lost again waits for the timer. A timeout forgets the scoreboard, and
//! duplicates are ignored until the next new ACK.

use super::super::congestion::CongestionControl;
use super::super::ranges::Ranges;
use super::super::sender::Flight;
use super::may_cut;
use crate::units::Instant;

#[derive(Clone, Debug, Default)]
pub struct Sack1 {
    in_recovery: bool,
    /// Duplicates are ignored from a timeout to the next new ACK.
    after_timeout: bool,
    /// Estimate of the segments in the network; may fall below zero.
    pipe: i64,
    recover: u64,
    /// Holes below this byte have been retransmitted (RFC 6675: HighRxt).
    high_rxt: u64,
    scoreboard: Ranges,
    retransmit: Option<u64>,
}

impl Sack1 {
    pub fn reset(&mut self) {
        let mut scoreboard = std::mem::take(&mut self.scoreboard);
        scoreboard.clear();
        *self = Sack1 { scoreboard, ..Default::default() };
    }

    fn update(&mut self, blocks: &[(u64, u64)]) -> bool {
        let mut is_new = false;
        for &(start, end) in blocks {
            is_new |= self.scoreboard.insert(start, end, 0);
        }
        is_new
    }

    fn clear(&mut self) {
        self.scoreboard.clear();
        self.high_rxt = 0;
        self.after_timeout = false;
    }

    #[inline]
    pub fn on_ack(&mut self, flight: &mut Flight, now: Instant, ack: u64, blocks: &[(u64, u64)]) {
        if self.in_recovery {
            self.on_ack_in_recovery(flight, now, ack, blocks);
        } else if ack > flight.snd_una {
            let acked = flight.new_ack(now, ack);
            flight.grow_window(acked);
            self.clear();
        } else if ack == flight.snd_una && !self.after_timeout && self.update(blocks) {
            flight.dup_acks += 1;
            let threshold = flight.config.dupack_threshold;
            if flight.dup_acks == threshold {
                if may_cut(flight, self.recover) {
                    self.recover = flight.snd_max;
                    self.in_recovery = true;
                    self.pipe = flight.outstanding_segments() as i64 - i64::from(threshold);
                    self.high_rxt = flight.segment_end(ack);
                    flight.fast_retransmit(now, 0);
                    self.retransmit = Some(ack);
                }
            } else if flight.dup_acks < threshold {
                flight.limited_transmit();
            }
        }
    }

    fn on_ack_in_recovery(
        &mut self,
        flight: &mut Flight,
        now: Instant,
        ack: u64,
        blocks: &[(u64, u64)],
    ) {
        self.pipe -= 1;
        if ack >= self.recover {
            self.in_recovery = false;
            self.recover = 0;
            flight.new_ack(now, ack);
            self.clear();
        } else if ack > flight.snd_una {
            // The original and its retransmission have both left the network.
            self.pipe -= 1;
            flight.move_una(ack);
            self.scoreboard.remove_below(ack);
            self.update(blocks);
            flight.restart_timer(now);
            flight.rtt.end_back_off();
        } else {
            self.update(blocks);
        }
    }

    pub fn on_timeout(&mut self, flight: &mut Flight) {
        self.reset();
        self.after_timeout = true;
        self.recover = flight.snd_max;
    }

    #[inline]
    pub fn next_segment(&mut self, flight: &mut Flight) -> Option<u64> {
        if let Some(seq) = self.retransmit.take() {
            return Some(seq);
        }
        if !self.in_recovery {
            if let Some(seq) = flight.poll_limited_transmit() {
                return Some(seq);
            }
            let window = flight.congestion.window();
            return flight.fits(window).then(|| flight.advance_next());
        }
        if self.pipe >= flight.congestion.window() as i64 {
            return None;
        }
        let seq = match self.scoreboard.next_hole(self.high_rxt.max(flight.snd_una)) {
            Some(hole) => {
                flight.declare_lost(hole);
                self.high_rxt = flight.segment_end(hole);
                hole
            }
            None if flight.fits_receiver() => flight.advance_next(),
            None => return None,
        };
        self.pipe += 1;
        Some(seq)
    }
}
