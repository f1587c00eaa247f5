//! Delayed loss detection: how long what is missing may be only late, where recovery goes by SACK blocks.
//!
//! ```text
//!   duplicates   lost after DupThresh of them                             RFC 6675
//!   DCR          lost a smoothed round trip after the first               Bhandarkar, Sadry, Reddy, Vaidya,
//!                                                                         "TCP-DCR", IEEE Trans. Mobile Computing 4(5), 2005
//!   NCR          DupThresh = max(LT_F flight, 3), anew at each            RFC 4653
//!                LT_F: careful 2/3, aggressive 1/2
//! ```
//!
//! Both factors of NCR make a window of duplicates, as the flight grows by a half or by one segment for each of them. While
//! it is waited, new segments keep the acknowledgments coming: one for each duplicate, with careful NCR for every second.
//!
//! *Not modelled*: NCR's account of what is missing above a hole that was filled; it begins a wait of its own at its next
//! duplicate.

use super::super::config::{Config, LossDetection};
use super::sack_rfc6675::Scoreboard;

/// Least DupThresh of NCR.
const LEAST_THRESHOLD: u64 = 3;

/// How long is waited, and what has been seen meanwhile.
#[derive(Clone, Copy, Debug)]
pub struct ReorderTolerance {
    kind: LossDetection,
    /// DupThresh of the host.
    threshold: u32,
    /// The wait that goes on.
    wait: Option<Wait>,
}

/// Something is missing and does not count as lost yet.
#[derive(Clone, Copy, Debug)]
struct Wait {
    /// Bytes outstanding when its first duplicate came (FlightSizePrev).
    flight: u64,
    /// Duplicates.
    count: u64,
}

impl ReorderTolerance {
    /// Nothing is missing.
    pub fn new(config: &Config) -> Self {
        let threshold = config.dupack_threshold;
        ReorderTolerance { kind: config.loss_detection, threshold, wait: None }
    }

    /// DupThresh of a scoreboard while nothing is missing: DCR goes by time only.
    pub fn threshold(&self) -> u32 {
        match self.kind {
            LossDetection::Delayed => u32::MAX,
            _ => self.threshold,
        }
    }

    /// Does time tell, rather than duplicates?
    pub fn is_timed(&self) -> bool {
        self.kind == LossDetection::Delayed
    }

    /// Something is missing, and a duplicate says so while `flight` bytes are outstanding in segments of `segment` bytes.
    /// Returns whether it is the first for this.
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

    /// Segments for which careful NCR has sent none in this wait.
    pub fn skipped(&self) -> u64 {
        match (self.kind, self.wait) {
            (LossDetection::NcrCareful, Some(wait)) => wait.count / 2,
            _ => 0,
        }
    }

    /// What was missing has come. NCR's flight at the first duplicate, in bytes, if a wait ends.
    pub fn on_filled(&mut self, scoreboard: &mut Scoreboard) -> Option<u64> {
        let wait = self.wait.take();
        scoreboard.set_threshold(self.threshold());
        let is_ncr = matches!(self.kind, LossDetection::NcrCareful | LossDetection::NcrAggressive);
        wait.filter(|_| is_ncr).map(|wait| wait.flight)
    }

    /// What is missing counts as lost from here on: in the recovery that begins the host's DupThresh holds.
    pub fn on_lost(&mut self, scoreboard: &mut Scoreboard) {
        self.wait = None;
        scoreboard.set_threshold(self.threshold);
    }

    /// Nothing is waited for any more.
    pub fn reset(&mut self, scoreboard: &mut Scoreboard) {
        self.wait = None;
        scoreboard.set_threshold(self.threshold());
    }
}
