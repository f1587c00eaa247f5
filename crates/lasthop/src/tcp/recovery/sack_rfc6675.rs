//! Conservative SACK-based loss recovery (RFC 6675).
//!
//! ```text
//!             DupThresh duplicates, or IsLost(snd_una); after a timeout also snd_una >= recover
//!   OPEN -----------------------------------------------------------> RECOVERY: NextSeg() while
//!    ^                                                                   |     cwnd - pipe >= 1
//!    +------------------ ACK >= RecoveryPoint ---------------------------+
//! ```
//!
//! A duplicate is any segment whose SACK blocks bring something new, "even if it carries new data,
//! changes the advertised window, or moves the cumulative acknowledgment point" (section 2).
//!
//! IsLost(), SetPipe() and NextSeg() are those of section 4, computed on whole ranges: loss is
//! monotone, everything unSACKed below an edge is lost. After a timeout the scoreboard is kept and
//! segments that the receiver holds are not resent.

use super::super::congestion::CongestionControl;
use super::super::ranges::Ranges;
use super::super::sender::Flight;
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
    /// A duplicate outside recovery allows new segments while `cwnd - pipe` does (step 3).
    limited_transmit: bool,
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
        let una = flight.snd_una.max(ack);
        let mut is_new = false;
        for &(start, end) in blocks {
            is_new |= self.scoreboard.insert(start.max(una), end.min(flight.snd_max), 0);
        }
        let was_in_recovery = self.in_recovery;
        if ack > flight.snd_una {
            let acked = flight.new_ack(now, ack);
            self.scoreboard.remove_below(ack);
            self.limited_transmit = false;
            if self.in_recovery {
                self.in_recovery = ack < self.recover;
            } else {
                flight.grow_window(acked);
            }
        }
        if is_new && !was_in_recovery {
            self.on_duplicate(flight, now);
        }
    }

    /// Section 5, steps 1 to 4, "regardless of its status as a cumulative acknowledgment".
    fn on_duplicate(&mut self, flight: &mut Flight, now: Instant) {
        flight.dup_acks += 1;
        let una = flight.snd_una;
        if flight.dup_acks < flight.config.dupack_threshold && self.lost_edge(flight) <= una {
            self.limited_transmit = flight.config.limited_transmit;
            // Step 3.1.
            self.high_rxt = una;
        } else if una >= self.recover {
            // Below `recover` a timeout has reduced the window already: section 5.1, "a new recovery
            // phase MUST NOT be initiated until HighACK is greater than or equal to the new value of
            // RecoveryPoint".
            self.limited_transmit = false;
            self.recover = flight.snd_max;
            self.in_recovery = true;
            self.high_rxt = flight.segment_end(una);
            self.rescue_rxt = 0;
            flight.fast_retransmit(now, 0);
            self.retransmit = Some(una);
        }
    }

    pub fn on_timeout(&mut self, flight: &mut Flight) {
        self.in_recovery = false;
        self.limited_transmit = false;
        self.retransmit = None;
        self.recover = flight.snd_max;
        self.high_rxt = 0;
    }

    pub fn next_segment(&mut self, flight: &mut Flight) -> Option<u64> {
        if let Some(seq) = self.retransmit.take() {
            return Some(seq);
        }
        if !self.in_recovery {
            if self.limited_transmit {
                if let Some(seq) = self.limited_transmit_segment(flight) {
                    return Some(seq);
                }
                self.limited_transmit = false;
            }
            // Going back after a timeout, step over what the receiver holds.
            if flight.snd_nxt < flight.snd_max {
                flight.snd_nxt = self.scoreboard.end_of_range_at(flight.snd_nxt);
            }
            let window = flight.congestion.window();
            return flight.fits(window).then(|| flight.advance_next());
        }
        if self.has_room(flight) { self.next_seg(flight) } else { None }
    }

    /// (cwnd - pipe) >= 1 SMSS.
    fn has_room(&self, flight: &Flight) -> bool {
        let window = (flight.congestion.window() * flight.mss as f64) as u64;
        self.pipe(flight) + flight.mss <= window
    }

    /// Step 3.3: "there exists previously unsent data, and the receiver's advertised window allows".
    #[cold]
    fn limited_transmit_segment(&self, flight: &mut Flight) -> Option<u64> {
        let is_unsent = flight.snd_nxt == flight.snd_max;
        (is_unsent && flight.fits_receiver() && self.has_room(flight))
            .then(|| flight.advance_limited())
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
