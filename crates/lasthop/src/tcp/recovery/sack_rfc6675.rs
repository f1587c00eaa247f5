//! Conservative SACK-based loss recovery (RFC 6675).
//!
//! ```text
//!             DupThresh duplicates, or IsLost(snd_una); snd_una > recover
//!   OPEN -----------------------------------------------------------> RECOVERY: NextSeg() while
//!    ^                                                                   |     cwnd - pipe >= 1
//!    +------------------ ACK >= RecoveryPoint ---------------------------+
//! ```
//!
//! IsLost(), SetPipe() and NextSeg() are those of section 4, computed on whole ranges: loss is
//! monotone, everything unSACKed below an edge is lost. After a timeout the scoreboard is kept and
//! segments that the receiver holds are not resent.

use super::super::congestion::CongestionControl;
use super::super::ranges::Ranges;
use super::super::sender::Flight;
use super::may_cut;
use crate::units::Instant;

#[derive(Clone, Debug, Default)]
pub struct Sack {
    in_recovery: bool,
    /// RecoveryPoint: one past the highest byte sent at the last reduction.
    recover: u64,
    /// HighRxt: one past the highest byte retransmitted in this recovery.
    high_rxt: u64,
    /// RescueRxt: one past the highest byte sent by a rescue retransmission.
    rescue_rxt: u64,
    scoreboard: Ranges,
    retransmit: Option<u64>,
}

impl Sack {
    pub fn reset(&mut self) {
        let mut scoreboard = std::mem::take(&mut self.scoreboard);
        scoreboard.clear();
        *self = Sack { scoreboard, ..Default::default() };
    }

    /// Everything unSACKed below this byte is lost: DupThresh ranges, or more than
    /// (DupThresh - 1) segments' worth of bytes, have been SACKed above it.
    fn lost_edge(&self, flight: &Flight) -> u64 {
        let threshold = flight.config.dupack_threshold;
        let (mut ranges, mut bytes) = (0, 0);
        for range in self.scoreboard.iter().rev() {
            ranges += 1;
            bytes += range.end - range.start;
            if ranges >= threshold || bytes > u64::from(threshold - 1) * flight.mss {
                return range.start;
            }
        }
        0
    }

    /// SetPipe(): unSACKed bytes that are not lost, plus those retransmitted.
    fn pipe(&self, flight: &Flight) -> u64 {
        let edge = self.lost_edge(flight).max(flight.snd_una);
        let high_rxt = self.high_rxt.max(flight.snd_una);
        let unsacked = |from: u64, to: u64| {
            let sacked: u64 = self
                .scoreboard
                .iter()
                .map(|range| range.end.min(to).saturating_sub(range.start.max(from)))
                .sum();
            to.saturating_sub(from) - sacked
        };
        unsacked(edge, flight.snd_max.max(edge)) + unsacked(flight.snd_una, high_rxt)
    }

    pub fn on_ack(&mut self, flight: &mut Flight, now: Instant, ack: u64, blocks: &[(u64, u64)]) {
        let mut is_new = false;
        for &(start, end) in blocks {
            is_new |= self.scoreboard.insert(start.max(ack), end.min(flight.snd_max), 0);
        }
        if ack > flight.snd_una {
            flight.new_ack(now, ack);
            self.scoreboard.remove_below(ack);
            if self.in_recovery {
                self.in_recovery = ack < self.recover;
            } else {
                flight.grow_window();
            }
        } else if ack == flight.snd_una && is_new && !self.in_recovery {
            flight.dup_acks += 1;
            let is_lost = self.lost_edge(flight) > ack;
            if flight.dup_acks >= flight.config.dupack_threshold || is_lost {
                if may_cut(flight, self.recover) {
                    self.recover = flight.snd_max;
                    self.in_recovery = true;
                    self.high_rxt = flight.segment_end(ack);
                    self.rescue_rxt = 0;
                    flight.fast_retransmit(now, 0);
                    self.retransmit = Some(ack);
                }
            } else {
                flight.limited_transmit();
            }
        }
    }

    pub fn on_timeout(&mut self, flight: &mut Flight) {
        self.in_recovery = false;
        self.retransmit = None;
        self.recover = flight.snd_max;
        self.high_rxt = 0;
    }

    pub fn next_segment(&mut self, flight: &mut Flight) -> Option<u64> {
        if let Some(seq) = self.retransmit.take() {
            return Some(seq);
        }
        if !self.in_recovery {
            if let Some(seq) = flight.poll_limited_transmit() {
                return Some(seq);
            }
            // Going back after a timeout, step over what the receiver holds.
            while flight.snd_nxt < flight.snd_max && self.scoreboard.contains(flight.snd_nxt) {
                flight.advance_next();
            }
            let window = flight.congestion.window();
            return flight.fits(window).then(|| flight.advance_next());
        }
        let window = (flight.congestion.window() * flight.mss as f64) as u64;
        if self.pipe(flight) + flight.mss > window {
            return None;
        }
        self.next_seg(flight)
    }

    /// NextSeg(): a lost hole, new data, any hole, or once the rescue.
    fn next_seg(&mut self, flight: &mut Flight) -> Option<u64> {
        let hole = self.scoreboard.next_hole(self.high_rxt.max(flight.snd_una));
        let lost = hole.filter(|&hole| hole < self.lost_edge(flight));
        if lost.is_none() && flight.fits_receiver() {
            return Some(flight.advance_next());
        }
        if let Some(hole) = lost.or(hole) {
            flight.declare_lost(hole);
            self.high_rxt = flight.segment_end(hole);
            return Some(hole);
        }
        // Rule 4: the last unSACKed segment, so that its ACK keeps the clock running.
        let mut last = self.scoreboard.highest().unwrap_or(flight.snd_una).max(flight.snd_una);
        if self.rescue_rxt > flight.snd_una || last >= flight.snd_max {
            return None;
        }
        while flight.segment_end(last) < flight.snd_max {
            last = flight.segment_end(last);
        }
        self.rescue_rxt = self.recover;
        Some(last)
    }
}
