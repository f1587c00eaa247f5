//! Values that change at given times.

use std::sync::Arc;

/// A list of values, each with the time in nanoseconds from which on it holds, and a place in it that
/// only goes forward.
#[derive(Clone, Debug)]
pub struct Timeline<T> {
    /// By their beginnings, the first of which is 0.
    steps: Arc<[(u64, T)]>,
    /// After this time the list begins again.
    period: Option<u64>,
    /// The present step, and when its repetition of the list began.
    index: usize,
    base: u64,
}

impl<T: Copy> Timeline<T> {
    /// `steps` by their beginnings in nanoseconds, the first of which is 0; after `period`, if there is
    /// one, the list begins again; without it the last value stays.
    pub fn new(steps: Arc<[(u64, T)]>, period: Option<u64>) -> Self {
        debug_assert!(
            steps.first().is_some_and(|&(begin, _)| begin == 0),
            "a value from the start"
        );
        Timeline { steps, period, index: 0, base: 0 }
    }

    /// All steps.
    pub fn steps(&self) -> &[(u64, T)] {
        &self.steps
    }

    /// After which time the list begins again.
    pub fn period(&self) -> Option<u64> {
        self.period
    }

    /// The present value.
    #[inline]
    pub fn value(&self) -> T {
        self.steps[self.index].1
    }

    /// When the present step is over.
    #[inline]
    pub fn step_end(&self) -> u64 {
        let next = self.steps.get(self.index + 1).map(|&(begin, _)| begin).or(self.period);
        next.map_or(u64::MAX, |end| self.base.saturating_add(end))
    }

    /// Goes on to the next step.
    pub fn advance(&mut self) {
        self.index += 1;
        if self.index == self.steps.len() {
            self.index = 0;
            self.base = self.base.saturating_add(self.period.unwrap_or_default());
        }
    }

    /// Goes on to the step of `now`, in nanoseconds; not back.
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
