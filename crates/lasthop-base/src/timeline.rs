//! Values that change at given times.
//!
//! ```
//! use lasthop_base::timeline::Timeline;
//!
//! // 10 from the start, 20 after 5 ns; repeated every 8 ns.
//! let mut rate = Timeline::new([(0, 10), (5, 20)].into(), Some(8));
//! assert_eq!((rate.value(), rate.step_end()), (10, 5));
//! rate.go_to(14);
//! assert_eq!((rate.value(), rate.step_end()), (20, 16));
//! ```

use std::sync::Arc;

/// A list of values with their start times in nanoseconds, and a current position that only
/// advances.
#[derive(Clone, Debug)]
pub struct Timeline<T> {
    /// Sorted by start time; the first is 0.
    steps: Arc<[(u64, T)]>,
    /// Period after which the list repeats.
    period: Option<u64>,
    /// Current step, and the start of the current repetition of the list.
    index: usize,
    base: u64,
}

impl<T: Copy> Timeline<T> {
    /// Creates a timeline of `steps`, sorted by their start times in nanoseconds; the first is 0.
    /// The list repeats after `period`; without a period, the last value applies forever.
    pub fn new(steps: Arc<[(u64, T)]>, period: Option<u64>) -> Self {
        debug_assert!(
            steps.first().is_some_and(|&(begin, _)| begin == 0),
            "a value from the start"
        );
        Timeline { steps, period, index: 0, base: 0 }
    }

    /// Returns all steps.
    pub fn steps(&self) -> &[(u64, T)] {
        &self.steps
    }

    /// Returns the period after which the list repeats.
    pub fn period(&self) -> Option<u64> {
        self.period
    }

    /// Returns the current value.
    #[inline]
    pub fn value(&self) -> T {
        self.steps[self.index].1
    }

    /// Returns the end of the current step.
    #[inline]
    pub fn step_end(&self) -> u64 {
        let next = self.steps.get(self.index + 1).map(|&(begin, _)| begin).or(self.period);
        next.map_or(u64::MAX, |end| self.base.saturating_add(end))
    }

    /// Advances to the next step.
    pub fn advance(&mut self) {
        self.index += 1;
        if self.index == self.steps.len() {
            self.index = 0;
            self.base = self.base.saturating_add(self.period.unwrap_or_default());
        }
    }

    /// Advances to the step at `now`, in nanoseconds. Never moves backwards.
    pub fn go_to(&mut self, now: u64) {
        if let Some(period) = self.period
            && now >= self.base + period
        {
            let cycles = (now - self.base) / period;
            (self.base, self.index) = (self.base + cycles * period, 0);
        }
        while self.step_end() <= now {
            self.advance();
        }
    }
}
