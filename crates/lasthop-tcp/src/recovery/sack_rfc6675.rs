//! Conservative SACK-based loss recovery (RFC 6675).
//!
//! ```text
//!             DupThresh duplicates, or IsLost(snd_una); after a timeout also snd_una >= recover
//!   OPEN -----------------------------------------------------------> RECOVERY: NextSeg() while
//!    ^                                                                   |     cwnd - pipe >= 1
//!    +------------------ ACK >= RecoveryPoint ---------------------------+
//! ```
//!
//! A duplicate is any segment whose SACK blocks contain new information, "even if it carries new
//! data, changes the advertised window, or moves the cumulative acknowledgment point" (section 2).
//!
//! A [`ReorderTolerance`] determines when a missing segment is declared lost: after DupThresh
//! duplicates, or later as in TCP-DCR and NCR.
//!
//! The scoreboard implements IsLost() and SetPipe() (`loss/sack_rfc6675.rs`); NextSeg() is
//! implemented here. A timeout preserves the scoreboard, and segments that the receiver holds are
//! not retransmitted.

use super::super::config::{Config, LossDetection};
use super::super::congestion_control::CongestionControl;
use super::super::flight::Flight;
use super::super::info::Outstanding;
use super::super::loss::delayed_detection::ReorderTolerance;
use super::super::loss::duplicates::Duplicate;
use super::super::loss::sack_rfc6675::Scoreboard;
use super::super::timers::Timer;
use super::LossRecovery;
use lasthop_base::units::{Duration, Instant};

#[derive(Clone, Debug)]
pub struct Sack {
    in_recovery: bool,
    /// RecoveryPoint: one past the highest byte sent at the last reduction.
    recover: u64,
    /// HighRxt: one past the highest byte retransmitted in this recovery.
    high_rxt: u64,
    /// RescueRxt: one past the highest byte sent by a rescue retransmission.
    rescue_rxt: u64,
    scoreboard: Scoreboard,
    /// Delayed loss detection; `None` if DupThresh duplicates suffice.
    tolerance: Option<Box<ReorderTolerance>>,
    retransmit: Option<u64>,
    /// Whether a duplicate outside recovery permits new segments while `cwnd - pipe` has room (step
    /// 3).
    limited_transmit: bool,
}

impl Sack {
    pub fn new(config: &Config) -> Self {
        let tolerance = ReorderTolerance::new(config);
        let has_tolerance = config.loss_detection != LossDetection::Duplicates;
        Sack {
            in_recovery: false,
            recover: 0,
            high_rxt: 0,
            rescue_rxt: 0,
            scoreboard: Scoreboard::new(tolerance.threshold(), config.segment.get()),
            tolerance: has_tolerance.then(|| Box::new(tolerance)),
            retransmit: None,
            limited_transmit: false,
        }
    }

    /// Handles a duplicate: section 5, steps 1 to 4, "regardless of its status as a cumulative
    /// acknowledgment".
    fn on_duplicate(&mut self, flight: &mut Flight, now: Instant) {
        let una = flight.snd_una;
        let mut is_early = flight.duplicates.add() == Duplicate::Early;
        if self.tolerance.is_some() {
            self.wait(flight, now);
            is_early = true;
        }
        if is_early && self.scoreboard.lost_edge() <= una {
            self.limited_transmit = flight.config.limited_transmit;
            // Step 3.1.
            self.high_rxt = una;
        } else {
            self.begin(flight, now);
        }
    }

    /// Enters recovery because the segment at SND.UNA is lost. Below `recover` a timeout has
    /// already reduced the window: section 5.1, "a new recovery phase MUST NOT be initiated until
    /// HighACK is greater than or equal to the new value of RecoveryPoint".
    fn begin(&mut self, flight: &mut Flight, now: Instant) {
        let una = flight.snd_una;
        if una >= self.recover {
            if let Some(tolerance) = &mut self.tolerance {
                tolerance.on_lost(&mut self.scoreboard);
                flight.timers.stop(Timer::Reordering);
            }
            self.limited_transmit = false;
            self.recover = flight.snd_max;
            self.in_recovery = true;
            self.high_rxt = flight.segment_end(una);
            self.rescue_rxt = 0;
            flight.fast_retransmit(now, 0);
            self.retransmit = Some(una);
        }
    }

    /// Handles a duplicate for a segment that may only be delayed.
    #[cold]
    fn wait(&mut self, flight: &mut Flight, now: Instant) {
        let Some(tolerance) = &mut self.tolerance else { return };
        let outstanding = flight.snd_max - flight.snd_una;
        let is_first = tolerance.on_duplicate(&mut self.scoreboard, outstanding, flight.mss);
        if is_first && tolerance.is_timed() {
            let srtt = flight.rtt.srtt();
            let delay = if srtt > Duration::ZERO { srtt } else { flight.rtt.rto() };
            flight.timers.set(Timer::Reordering, now + delay);
        }
    }

    /// Handles the arrival of the missing segment: SND.UNA advances.
    #[cold]
    fn on_filled(&mut self, flight: &mut Flight) {
        let Some(tolerance) = &mut self.tolerance else { return };
        flight.timers.stop(Timer::Reordering);
        if self.in_recovery {
            return;
        }
        if let Some(before) = tolerance.on_filled(&mut self.scoreboard) {
            // RFC 4653, section 3.3: avoids a burst, and restores the previous flight size by slow
            // start.
            let before = before as f64 / flight.mss as f64;
            let window = before.min(flight.outstanding_segments() as f64 + 1.0);
            if window < flight.congestion_control.cwnd() {
                flight.congestion_control.slow_start_to(window, before);
            }
        }
    }

    fn end_patience(&mut self) {
        if let Some(tolerance) = &mut self.tolerance {
            tolerance.reset(&mut self.scoreboard);
        }
    }

    /// Returns `true` if (cwnd - pipe) >= 1 SMSS.
    fn has_room(&self, flight: &Flight) -> bool {
        let pipe = self.scoreboard.pipe(flight.snd_una, flight.snd_max, self.high_rxt);
        let skipped =
            self.tolerance.as_ref().map_or(0, |tolerance| tolerance.skipped() * flight.mss);
        pipe + skipped + flight.mss <= flight.congestion_control.window()
    }

    /// Returns a new segment if step 3.3 permits it: "there exists previously unsent data, and the
    /// receiver's advertised window allows".
    #[cold]
    fn limited_transmit_segment(&self, flight: &mut Flight) -> Option<u64> {
        let is_unsent = flight.snd_nxt == flight.snd_max;
        (is_unsent && flight.fits_receiver() && self.has_room(flight))
            .then(|| flight.advance_limited())
    }

    /// NextSeg(): returns a lost hole, new data, any hole, or one rescue retransmission.
    fn next_seg(&mut self, flight: &mut Flight) -> Option<u64> {
        let hole = self.scoreboard.next_hole(self.high_rxt.max(flight.snd_una));
        let lost = hole.filter(|&hole| hole < self.scoreboard.lost_edge());
        if lost.is_none() && flight.fits_receiver() {
            return Some(flight.advance_next());
        }
        if let Some(hole) = lost.or(hole) {
            flight.declare_lost(hole);
            self.high_rxt = flight.segment_end(hole);
            return Some(hole);
        }
        // Rule 4: the last segment that is not SACKed, so that its ACK keeps the ACK clock running.
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

impl LossRecovery for Sack {
    fn wants_every_sack(&self) -> bool {
        true
    }

    fn reset(&mut self, _: &Config) {
        self.in_recovery = false;
        self.recover = 0;
        self.high_rxt = 0;
        self.rescue_rxt = 0;
        self.scoreboard.clear();
        self.retransmit = None;
        self.limited_transmit = false;
        self.end_patience();
    }

    fn on_ack(&mut self, flight: &mut Flight, now: Instant, ack: u64, blocks: &[(u64, u64)]) {
        let una = flight.snd_una.max(ack);
        let is_new = self.scoreboard.update(blocks, una, flight.snd_max);
        let was_in_recovery = self.in_recovery;
        if ack > flight.snd_una {
            let acked = flight.new_ack(now, ack);
            self.scoreboard.acknowledge(ack);
            self.limited_transmit = false;
            if self.in_recovery {
                self.in_recovery = ack < self.recover;
            } else {
                flight.grow_window(now, acked);
            }
            if self.tolerance.is_some() {
                self.on_filled(flight);
            }
        }
        if is_new && !was_in_recovery {
            self.on_duplicate(flight, now);
        }
    }

    fn has_arrived(&self, seq: u64) -> bool {
        self.scoreboard.end_of_range_at(seq) > seq
    }

    fn on_uncounted_duplicate(&mut self, flight: &Flight, blocks: &[(u64, u64)]) {
        self.scoreboard.update(blocks, flight.snd_una, flight.snd_max);
        if !self.in_recovery {
            self.limited_transmit = flight.config.limited_transmit;
            self.high_rxt = flight.segment_end(flight.snd_una);
        }
    }

    fn on_reorder_timeout(&mut self, flight: &mut Flight, now: Instant) {
        flight.timers.stop(Timer::Reordering);
        let is_missing = self.scoreboard.highest().is_some_and(|highest| highest > flight.snd_una);
        if is_missing && !self.in_recovery {
            self.begin(flight, now);
        }
    }

    fn in_recovery(&self) -> bool {
        self.in_recovery
    }

    fn known(&self, flight: &Flight) -> Outstanding {
        let (una, max) = (flight.snd_una, flight.snd_max);
        // After a timeout all segments sent before it are lost. Those below SND.NXT have been
        // retransmitted.
        let (edge, repaired) = if una < flight.losses.timed_out_to {
            (flight.losses.timed_out_to, flight.snd_nxt.min(flight.losses.timed_out_to))
        } else {
            let repaired = if self.in_recovery { self.high_rxt } else { una };
            (self.scoreboard.lost_edge().max(repaired), repaired)
        };
        let segments = |bytes: u64| bytes.div_ceil(flight.mss);
        Outstanding {
            sacked: segments((max - una) - self.scoreboard.unsacked(una, max)),
            lost: segments(self.scoreboard.unsacked(una, edge.max(una))),
            retransmitted: segments(self.scoreboard.unsacked(una, repaired.max(una))),
        }
    }

    fn on_timeout(&mut self, flight: &mut Flight) {
        self.in_recovery = false;
        self.limited_transmit = false;
        self.retransmit = None;
        self.recover = flight.snd_max;
        self.high_rxt = 0;
        flight.timers.stop(Timer::Reordering);
        self.end_patience();
    }

    fn on_spurious(&mut self) {
        self.in_recovery = false;
        self.limited_transmit = false;
        self.retransmit = None;
        self.recover = 0;
        self.high_rxt = 0;
        self.end_patience();
    }

    #[inline]
    fn is_plain(&self, flight: &Flight) -> bool {
        let is_open = !self.in_recovery && self.retransmit.is_none() && !self.limited_transmit;
        is_open && flight.snd_nxt == flight.snd_max
    }

    fn next_segment(&mut self, flight: &mut Flight, _: Instant) -> Option<u64> {
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
            // While going back after a timeout, skip segments that the receiver holds.
            if flight.snd_nxt < flight.snd_max {
                flight.snd_nxt = self.scoreboard.end_of_range_at(flight.snd_nxt);
            }
            return flight.next_allowed();
        }
        if self.has_room(flight) { self.next_seg(flight) } else { None }
    }
}
