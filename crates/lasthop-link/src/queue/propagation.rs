//! The propagation delay of one direction of a link, constant or changing with time.
//!
//! The delay at the end of the transmission, `end`, applies to the whole frame. Frames stay in
//! order: if the delay decreases, a frame that would overtake an earlier one arrives at the same
//! time, directly after it. Frames that the channel destroys do not delay others:
//! ```text
//!   arrival = max(end + delay(end), arrival of the previous surviving frame)
//! ```
//!
//! A queue that is handed over from one path to the next behaves like this. Link endpoints rely on
//! it: selective repeat, RLP and RLC treat a gap as a loss.
//!
//! Not modelled: frames that overtake each other, losses at a change (use an error process), a
//! delay that changes while a frame is in transit.

use lasthop_base::timeline::Timeline;
use lasthop_base::units::{Duration, Instant};
use std::sync::Arc;

/// Propagation delay of frames.
#[derive(Clone, Debug, Default)]
pub struct PropagationDelay {
    /// The delay if it is constant.
    delay: Duration,
    changes: Option<Box<Changes>>,
}

/// A time-varying delay.
#[derive(Clone, Debug)]
struct Changes {
    delays: Timeline<Duration>,
    /// The latest arrival so far.
    last: Instant,
}

impl From<Duration> for PropagationDelay {
    fn from(delay: Duration) -> Self {
        PropagationDelay { delay, changes: None }
    }
}

impl PropagationDelay {
    /// Creates a time-varying delay from `steps` (start in nanoseconds and delay), the first of
    /// which starts at 0. The list is repeated after `period`, if any. Steps of equal delays are
    /// treated as a constant delay.
    pub fn changing(steps: Arc<[(u64, Duration)]>, period: Option<u64>) -> Self {
        let first = steps[0].1;
        if steps.iter().all(|&(_, delay)| delay == first) {
            return first.into();
        }
        let changes = Changes { delays: Timeline::new(steps, period), last: Instant::ZERO };
        PropagationDelay { delay: Duration::ZERO, changes: Some(Box::new(changes)) }
    }

    /// Returns this process, of which no frame arrives before `last`, the arrival of the previous
    /// surviving frame of another process.
    pub fn following(self, last: Instant) -> Self {
        let changes = match self.changes {
            Some(changes) => Changes { last, ..*changes },
            None => Changes { delays: Timeline::new([(0, self.delay)].into(), None), last },
        };
        PropagationDelay { changes: Some(Box::new(changes)), ..self }
    }

    /// The delay, if it is constant.
    pub fn constant(&self) -> Option<Duration> {
        self.changes.is_none().then_some(self.delay)
    }

    /// Returns the arrival time of a frame whose transmission ends at `end`. Call it for every
    /// surviving frame, in transmission order. Repeating the call for the same frame is harmless.
    #[inline(always)]
    pub fn arrival(&mut self, end: Instant) -> Instant {
        match &mut self.changes {
            None => end + self.delay,
            Some(changes) => changes.arrival(end),
        }
    }
}

impl Changes {
    #[cold]
    fn arrival(&mut self, end: Instant) -> Instant {
        self.delays.go_to(end.as_nanos());
        self.last = self.last.max(end + self.delays.value());
        self.last
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn ms(ms: u64) -> Instant {
        Instant::from_nanos(ms * 1_000_000)
    }

    fn delays(steps: &[(u64, u64)], period: Option<u64>) -> PropagationDelay {
        let steps = steps.iter().map(|&(at, delay)| (at * 1_000_000, Duration::from_millis(delay)));
        PropagationDelay::changing(steps.collect(), period.map(|at| at * 1_000_000))
    }

    #[test]
    fn a_fall_lets_nothing_overtake() {
        // 30 ms, from 100 ms on 10 ms, from 200 ms on 25 ms; again after 300 ms.
        let mut changing = delays(&[(0, 30), (100, 10), (200, 25)], Some(300));
        for (end, arrival) in [
            (0, 30),
            (99, 129),
            (100, 129), // 110 would overtake the frame that ended at 99
            (119, 129),
            (120, 130),
            (199, 209),
            (200, 225),
            (299, 324),
            (300, 330),
            (401, 411), // no earlier frame to wait for
            (1_000, 1_010),
        ] {
            assert_eq!(changing.arrival(ms(end)), ms(arrival), "{end}");
            assert_eq!(changing.arrival(ms(end)), ms(arrival), "{end}, repeated");
        }
        assert_eq!(changing.constant(), None);
    }

    #[test]
    fn a_shorter_delay_overtakes_no_earlier_frame() {
        let mut shorter = PropagationDelay::from(Duration::from_millis(10)).following(ms(50));
        assert_eq!([35, 40, 41].map(|end| shorter.arrival(ms(end))), [50, 50, 51].map(ms));
    }

    #[test]
    fn the_last_delay_stays_and_equal_ones_are_constant() {
        let mut changing = delays(&[(0, 5), (10, 7)], None);
        assert_eq!(changing.arrival(ms(1_000_000)), ms(1_000_007));
        assert_eq!(delays(&[(0, 5), (10, 5)], None).constant(), Some(Duration::from_millis(5)));
    }

    proptest! {
        /// Arrivals are in transmission order, at the delay of each frame or, if later, at the
        /// arrival time of the previous frame.
        #[test]
        fn order_is_kept(
            list in prop::collection::vec(0u64..60, 1..6),
            gaps in prop::collection::vec(0u64..25, 1..80),
            repeats in any::<bool>(),
        ) {
            let steps: Vec<_> = list.iter().enumerate().map(|(at, &delay)| (20 * at as u64, delay)).collect();
            let period = repeats.then_some(20 * list.len() as u64);
            let mut changing = delays(&steps, period);
            let (mut end, mut last) = (0, Instant::ZERO);
            for gap in gaps {
                end += gap;
                let place = match period {
                    Some(period) => (end % period / 20) as usize,
                    None => ((end / 20) as usize).min(list.len() - 1),
                };
                let own = ms(end + list[place]);
                let arrival = changing.arrival(ms(end));
                prop_assert_eq!(arrival, own.max(last));
                last = arrival;
            }
        }
    }
}
