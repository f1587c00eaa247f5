//! Automatic rate fallback (ARF) of 802.11b, a and g.
//!
//! ```text
//!   ten frames acknowledged in a row, or 15 attempts  -> next higher rate, on trial
//!   first attempt at the higher rate fails            -> next lower rate
//!   two attempts fail in a row                        -> next lower rate
//! ```
//!
//! Source: A. Kamerman, L. Monteban, "WaveLAN-II: a high-performance wireless LAN for the unlicensed band", Bell Labs
//! Technical Journal 2 (3), 1997; the thresholds are those of ns-3.44's `ArfWifiManager` (`SuccessThreshold`,
//! `TimerThreshold`), whose timer counts attempts.

/// Number of frames acknowledged in a row after which the rate increases.
const SUCCESSES: u32 = 10;
/// Number of attempts after which the rate increases.
const ATTEMPTS: u32 = 15;
/// Number of failures in a row after which the rate decreases.
const FAILURES: u32 = 2;

/// State of the rate control of one direction.
#[derive(Clone, Debug)]
pub struct Arf {
    /// Number of rates.
    rates: usize,
    current: usize,
    /// Frames acknowledged and attempts failed in a row, and attempts since the last change.
    successes: u32,
    failures: u32,
    attempts: u32,
    /// Whether no frame has been acknowledged since the rate increased.
    is_on_trial: bool,
}

impl Arf {
    /// Creates the rate control for `rates` rates, at least one, in increasing order. It begins with the highest
    /// one.
    pub fn new(rates: usize) -> Self {
        let current = rates.saturating_sub(1);
        Arf { rates, current, successes: 0, failures: 0, attempts: 0, is_on_trial: false }
    }

    /// Returns the index of the rate of the next attempt.
    pub fn current(&self) -> usize {
        self.current
    }

    /// Records the result of an attempt.
    pub fn on_result(&mut self, is_acknowledged: bool) {
        self.attempts += 1;
        if !is_acknowledged {
            (self.successes, self.failures) = (0, self.failures + 1);
            if self.is_on_trial || self.failures >= FAILURES {
                self.change(self.current.saturating_sub(1), false);
            }
            return;
        }
        (self.successes, self.failures, self.is_on_trial) = (self.successes + 1, 0, false);
        let is_due = self.successes >= SUCCESSES || self.attempts >= ATTEMPTS;
        if is_due && self.current + 1 < self.rates {
            self.change(self.current + 1, true);
        }
    }

    fn change(&mut self, to: usize, is_on_trial: bool) {
        (self.successes, self.failures, self.attempts) = (0, 0, 0);
        (self.current, self.is_on_trial) = (to, is_on_trial);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Four rates. Two failures in a row lower the rate; ten successes raise it, and one failure on trial lowers it
    /// again.
    #[test]
    fn the_rate_falls_and_rises() {
        let mut arf = Arf::new(4);
        assert_eq!(arf.current(), 3);
        arf.on_result(false);
        arf.on_result(true);
        arf.on_result(false);
        assert_eq!(arf.current(), 3);
        arf.on_result(false);
        assert_eq!(arf.current(), 2);
        for _ in 0..9 {
            arf.on_result(true);
        }
        assert_eq!(arf.current(), 2);
        arf.on_result(true);
        assert_eq!(arf.current(), 3);
        arf.on_result(false);
        assert_eq!(arf.current(), 2);
        for _ in 0..20 {
            arf.on_result(false);
        }
        assert_eq!(arf.current(), 0);
    }

    /// A failure after nine successes starts the count again, but the 15th attempt raises the rate.
    #[test]
    fn fifteen_attempts_raise_the_rate() {
        let mut arf = Arf::new(2);
        arf.on_result(false);
        arf.on_result(false);
        assert_eq!(arf.current(), 0);
        for attempt in 1..15 {
            arf.on_result(attempt != 9);
            assert_eq!(arf.current(), 0, "{attempt}");
        }
        arf.on_result(true);
        assert_eq!(arf.current(), 1);
    }
}
