//! Round trips delimited by sequence numbers: a round trip ends when the SND.MAX of its beginning
//! is exceeded.

use lasthop_base::units::Duration;

/// RTT statistics of one round trip.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Round {
    /// Number of RTT samples.
    pub samples: u32,
    /// Minimum of the samples in seconds; infinite without samples.
    pub min_rtt: f64,
    /// Sum of the samples in seconds.
    pub sum: f64,
}

const EMPTY: Round = Round { samples: 0, min_rtt: f64::INFINITY, sum: 0.0 };

/// The current round trip.
#[derive(Clone, Copy, Debug)]
pub struct Rounds {
    /// The round trip ends when SND.UNA exceeds this sequence number.
    end: u64,
    round: Round,
}

impl Default for Rounds {
    fn default() -> Self {
        Rounds { end: 0, round: EMPTY }
    }
}

impl Rounds {
    /// Adds an RTT sample.
    #[inline]
    pub fn add(&mut self, rtt: Duration) {
        let rtt = rtt.as_secs_f64();
        self.round.samples += 1;
        self.round.min_rtt = self.round.min_rtt.min(rtt);
        self.round.sum += rtt;
    }

    /// Processes an ACK of all data below `snd_una`. If it ends the round trip, returns its
    /// statistics and starts the next.
    #[inline]
    pub fn end(&mut self, snd_una: u64, snd_max: u64) -> Option<Round> {
        if snd_una <= self.end {
            return None;
        }
        self.end = snd_max;
        Some(std::mem::replace(&mut self.round, EMPTY))
    }
}
