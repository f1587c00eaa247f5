//! SACK recovery of ns-2's `Agent/TCP/Sack1`.
//!
//! ```text
//!             third duplicate with new SACK information, snd_una > recover
//!   OPEN -------------------------------------------------------> RECOVERY: pipe counts the
//!    ^                                                               |   segments in the network
//!    +--------------------------- ACK >= recover -------------------+
//! ```
//!
//! In recovery every ACK lowers `pipe` by one and a partial ACK by two. While `pipe` is below the
//! window, the lowest hole below the highest SACKed byte is retransmitted, each hole once, followed
//! by new data. A retransmission that is lost waits for the timer. A timeout clears the scoreboard,
//! and duplicates are ignored until the next ACK for new data.

use super::super::config::Config;
use super::super::congestion_control::CongestionControl;
use super::super::flight::Flight;
use super::super::loss::duplicates::Duplicate;
use super::super::loss::sack_ns2::Scoreboard;
use super::{CutGuard, LossRecovery};
use lasthop_base::units::Instant;

#[derive(Clone, Debug)]
pub struct Sack1 {
    in_recovery: bool,
    /// Whether duplicates are ignored: from a timeout to the next ACK for new data.
    after_timeout: bool,
    /// Estimated number of segments in the network; may be negative.
    pipe: i64,
    guard: CutGuard,
    pub(super) scoreboard: Scoreboard,
    retransmit: Option<u64>,
}

impl Sack1 {
    fn clear(&mut self) {
        self.in_recovery = false;
        self.after_timeout = false;
        self.pipe = 0;
        self.guard.reset();
        self.scoreboard.clear();
        self.retransmit = None;
    }

    pub fn new(config: &Config) -> Self {
        Sack1 {
            in_recovery: false,
            after_timeout: false,
            pipe: 0,
            guard: CutGuard::new(config),
            scoreboard: Scoreboard::default(),
            retransmit: None,
        }
    }

    fn on_duplicate(&mut self, flight: &mut Flight, now: Instant) {
        match flight.duplicates.add() {
            Duplicate::Early => flight.limited_transmit(),
            Duplicate::Threshold => {
                let duplicates = i64::from(flight.duplicates.count());
                let in_network = flight.outstanding_segments() as i64 - duplicates;
                self.enter_recovery(flight, now, flight.snd_una, in_network);
            }
            Duplicate::Further => {}
        }
    }

    /// Enters recovery because of the loss of the segment at `lost`, with `in_network` segments in
    /// the network. Returns `false` if the window was already reduced for this congestion.
    pub(super) fn enter_recovery(
        &mut self,
        flight: &mut Flight,
        now: Instant,
        lost: u64,
        in_network: i64,
    ) -> bool {
        if !self.guard.may_cut(flight) {
            return false;
        }
        self.guard.cut_at(flight.snd_max);
        self.in_recovery = true;
        self.pipe = in_network;
        self.scoreboard.retransmitted(flight.segment_end(lost));
        flight.fast_retransmit(now, 0);
        self.retransmit = Some(lost);
        true
    }

    fn on_ack_in_recovery(
        &mut self,
        flight: &mut Flight,
        now: Instant,
        ack: u64,
        blocks: &[(u64, u64)],
    ) {
        self.pipe -= 1;
        if ack >= self.guard.recover {
            self.in_recovery = false;
            self.guard.reset();
            flight.new_ack(now, ack);
            self.scoreboard.on_new_ack(ack);
            self.after_timeout = false;
        } else if ack > flight.snd_una {
            // The original and its retransmission have both left the network.
            self.pipe -= 1;
            flight.move_una(ack);
            self.scoreboard.acknowledge(ack);
            self.scoreboard.update(blocks);
            flight.restart_timer(now);
            flight.rtt.end_back_off();
        } else {
            self.scoreboard.update(blocks);
        }
    }

    /// Returns `true` if no ACK for new data has arrived since a timeout.
    pub(super) fn is_after_timeout(&self) -> bool {
        self.after_timeout
    }

    /// Like [`LossRecovery::next_segment`], for RECOVERY. `next_hole` returns the lowest lost
    /// segment at or above a byte.
    pub(super) fn next_in_recovery(
        &mut self,
        flight: &mut Flight,
        next_hole: impl FnOnce(&Scoreboard, u64) -> Option<u64>,
    ) -> Option<u64> {
        if let Some(seq) = self.retransmit.take() {
            return Some(seq);
        }
        if self.pipe >= flight.congestion_control.cwnd() as i64 {
            return None;
        }
        let from = self.scoreboard.resent_to().max(flight.snd_una);
        let seq = match next_hole(&self.scoreboard, from) {
            Some(hole) => {
                flight.declare_lost(hole);
                self.scoreboard.retransmitted(flight.segment_end(hole));
                hole
            }
            None if flight.fits_receiver() => flight.advance_next(),
            None => return None,
        };
        self.pipe += 1;
        Some(seq)
    }
}

impl LossRecovery for Sack1 {
    fn reset(&mut self, _: &Config) {
        self.clear();
    }

    #[inline]
    fn on_ack(&mut self, flight: &mut Flight, now: Instant, ack: u64, blocks: &[(u64, u64)]) {
        if self.in_recovery {
            self.on_ack_in_recovery(flight, now, ack, blocks);
        } else if ack > flight.snd_una {
            let acked = flight.new_ack(now, ack);
            flight.grow_window(now, acked);
            self.scoreboard.on_new_ack(ack);
            self.after_timeout = false;
        } else if ack == flight.snd_una && !self.after_timeout && self.scoreboard.update(blocks) {
            self.on_duplicate(flight, now);
        }
    }

    fn in_recovery(&self) -> bool {
        self.in_recovery
    }

    fn on_timeout(&mut self, flight: &mut Flight) {
        self.clear();
        self.after_timeout = true;
        self.guard.cut_at(flight.snd_max);
    }

    fn on_spurious(&mut self) {
        self.guard.reset();
        self.in_recovery = false;
        self.after_timeout = false;
        self.retransmit = None;
    }

    #[inline]
    fn is_plain(&self, _: &Flight) -> bool {
        !self.in_recovery && self.retransmit.is_none()
    }

    fn next_segment(&mut self, flight: &mut Flight, _: Instant) -> Option<u64> {
        if self.in_recovery {
            return self.next_in_recovery(flight, |scoreboard, una| scoreboard.next_hole(una));
        }
        self.retransmit
            .take()
            .or_else(|| flight.poll_limited_transmit())
            .or_else(|| flight.next_allowed())
    }
}
