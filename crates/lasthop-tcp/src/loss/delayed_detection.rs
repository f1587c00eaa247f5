//! Delayed loss detection for SACK-based recovery: how long a missing segment may be delayed before
//! it is declared lost.
//!
//! ```text
//!   duplicates   lost after DupThresh duplicate ACKs                     RFC 6675
//!   DCR          lost one smoothed RTT after the first duplicate ACK     Bhandarkar, Sadry, Reddy, Vaidya,
//!                                                                        "TCP-DCR", IEEE Trans. Mobile Computing 4(5), 2005
//!   NCR          DupThresh = max(LT_F flight, 3), updated at each one    RFC 4653
//!                LT_F: careful 2/3, aggressive 1/2
//! ```
//!
//! With either value of LT_F, NCR waits for about one window of duplicate ACKs, because new
//! segments increase the flight size meanwhile. During the wait, one new segment is sent per
//! duplicate ACK (careful NCR: per two), which keeps ACKs arriving.
//!
//! *Not modelled*: NCR's state for segments that are missing above a gap that was filled. A new
//! wait begins at their next duplicate ACK.

use super::super::config::{Config, LossDetection};
use super::sack_rfc6675::Scoreboard;

/// Minimum DupThresh of NCR.
const LEAST_THRESHOLD: u64 = 3;

/// Detection rule, and the state of the current wait.
#[derive(Clone, Copy, Debug)]
pub struct ReorderTolerance {
    kind: LossDetection,
    /// Configured DupThresh.
    threshold: u32,
    /// Current wait, if segments are missing and not yet declared lost.
    wait: Option<Wait>,
}

/// Wait for segments that are missing but not yet declared lost.
#[derive(Clone, Copy, Debug)]
struct Wait {
    /// Bytes outstanding at the first duplicate ACK (FlightSizePrev).
    flight: u64,
    /// Number of duplicate ACKs.
    count: u64,
}

impl ReorderTolerance {
    /// Creates the state without missing segments.
    pub fn new(config: &Config) -> Self {
        let threshold = config.dupack_threshold;
        ReorderTolerance { kind: config.loss_detection, threshold, wait: None }
    }

    /// Returns the DupThresh of the scoreboard while no segment is missing. DCR does not count
    /// duplicates.
    pub fn threshold(&self) -> u32 {
        match self.kind {
            LossDetection::Delayed => u32::MAX,
            _ => self.threshold,
        }
    }

    /// Returns `true` if losses are declared by time instead of duplicate ACKs.
    pub fn is_timed(&self) -> bool {
        self.kind == LossDetection::Delayed
    }

    /// Processes a duplicate ACK, with `flight` bytes outstanding in segments of `segment` bytes.
    /// Returns `true` if it is the first of this wait.
    pub fn on_duplicate(&mut self, scoreboard: &mut Scoreboard, flight: u64, segment: u64) -> bool {
        let is_first = self.wait.is_none();
        let wait = self.wait.get_or_insert(Wait { flight, count: 0 });
        wait.count += 1;
        let segments = flight / segment;
        let share = match self.kind {
            LossDetection::NcrCareful => Some(2 * segments / 3),
            LossDetection::NcrAggressive => Some(segments / 2),
            LossDetection::Duplicates | LossDetection::Delayed => None,
        };
        if let Some(share) = share {
            scoreboard.set_threshold(share.max(LEAST_THRESHOLD) as u32);
        }
        is_first
    }

    /// Returns the number of duplicates in this wait for which careful NCR has sent no new segment.
    pub fn skipped(&self) -> u64 {
        match (self.kind, self.wait) {
            (LossDetection::NcrCareful, Some(wait)) => wait.count / 2,
            _ => 0,
        }
    }

    /// Processes the arrival of all missing segments. Returns NCR's flight size in bytes at the
    /// first duplicate ACK, if a wait ends.
    pub fn on_filled(&mut self, scoreboard: &mut Scoreboard) -> Option<u64> {
        let wait = self.wait.take();
        scoreboard.set_threshold(self.threshold());
        let is_ncr = matches!(self.kind, LossDetection::NcrCareful | LossDetection::NcrAggressive);
        wait.filter(|_| is_ncr).map(|wait| wait.flight)
    }

    /// Ends the wait: missing segments are declared lost. Recovery uses the configured DupThresh.
    pub fn on_lost(&mut self, scoreboard: &mut Scoreboard) {
        self.wait = None;
        scoreboard.set_threshold(self.threshold);
    }

    /// Cancels the wait.
    pub fn reset(&mut self, scoreboard: &mut Scoreboard) {
        self.wait = None;
        scoreboard.set_threshold(self.threshold());
    }
}
