//! Round trips, told by the sequence space: one ends when the byte that was next at its beginning is acknowledged.

use lasthop_base::units::Duration;

/// What a round trip has shown.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Round {
    /// Samples of round-trip times in it.
    pub samples: u32,
    /// The least of them in seconds; infinite without one.
    pub min_rtt: f64,
    /// Their sum in seconds.
    pub sum: f64,
}

const EMPTY: Round = Round { samples: 0, min_rtt: f64::INFINITY, sum: 0.0 };

/// The round trip that goes on.
#[derive(Clone, Copy, Debug)]
pub struct Rounds {
    /// It ends when this byte is acknowledged.
    end: u64,
    round: Round,
}

impl Default for Rounds {
    fn default() -> Self {
        Rounds { end: 0, round: EMPTY }
    }
}

impl Rounds {
    /// Takes in a sample.
    #[inline]
    pub fn add(&mut self, rtt: Duration) {
        let rtt = rtt.as_secs_f64();
        self.round.samples += 1;
        self.round.min_rtt = self.round.min_rtt.min(rtt);
        self.round.sum += rtt;
    }

    /// An ACK of everything below `snd_una` arrived. What the round trip has shown, if that ends it; the next begins.
    #[inline]
    pub fn end(&mut self, snd_una: u64, snd_max: u64) -> Option<Round> {
        if snd_una <= self.end {
            return None;
        }
        self.end = snd_max;
        Some(std::mem::replace(&mut self.round, EMPTY))
    }
}
