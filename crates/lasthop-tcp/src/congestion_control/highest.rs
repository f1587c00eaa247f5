//! Windowed maximum over the last round trips.

/// Maximum of a value in each of the last `ROUNDS` round trips, including the current one.
#[derive(Clone, Copy, Debug)]
pub struct Highest<const ROUNDS: usize> {
    of_rounds: [f64; ROUNDS],
    place: usize,
    highest: f64,
}

impl<const ROUNDS: usize> Highest<ROUNDS> {
    pub fn new() -> Self {
        Highest { of_rounds: [0.0; ROUNDS], place: 0, highest: 0.0 }
    }

    /// Returns the maximum over all these round trips; zero before the first value.
    #[inline]
    pub fn get(&self) -> f64 {
        self.highest
    }

    /// Starts a round trip.
    pub fn begin_round(&mut self) {
        self.place = (self.place + 1) % ROUNDS;
        self.of_rounds[self.place] = 0.0;
        self.highest = self.of_rounds.iter().fold(0.0, |highest, value| highest.max(*value));
    }

    /// Starts a round trip and discards all earlier ones except the last.
    pub fn begin_round_of_two(&mut self) {
        let before = self.of_rounds[self.place];
        *self = Highest::new();
        self.of_rounds[ROUNDS - 1] = before;
        self.highest = before;
    }

    #[inline]
    pub fn add(&mut self, value: f64) {
        let of_round = &mut self.of_rounds[self.place];
        if value > *of_round {
            *of_round = value;
        }
        if value > self.highest {
            self.highest = value;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_forgotten_after_their_rounds() {
        let mut filter = Highest::<10>::new();
        filter.add(10.0);
        for round in 1..=12 {
            filter.begin_round();
            filter.add(1.0);
            assert_eq!(filter.get(), if round < 10 { 10.0 } else { 1.0 }, "{round}");
        }
    }

    #[test]
    fn one_round_before_this_one_may_count() {
        let mut filter = Highest::<4>::new();
        for (value, highest) in [(5.0, 5.0), (3.0, 5.0), (1.0, 3.0), (2.0, 2.0)] {
            filter.add(value);
            assert_eq!(filter.get(), highest);
            filter.begin_round_of_two();
        }
        assert_eq!(filter.get(), 2.0);
    }
}
