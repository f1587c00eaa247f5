//! Airtime accounting for media on which exchanges can overlap.
//!
//! Each moment counts once: as success if one of the exchanges in progress ended with an
//! acknowledgment, otherwise as collision if one of them was disturbed, otherwise as error. With
//! idle time, the fractions add up to one. The result of an exchange is known at its end, so an
//! interval is counted when all exchanges that began before its end are over.

use super::medium::Use;
use lasthop_base::units::{Duration, Instant};

/// Time by use; each moment is counted once.
#[derive(Clone, Debug, Default)]
pub(super) struct Airtime {
    /// Start times of the exchanges in progress.
    open: Vec<Instant>,
    /// Finished exchanges that are not counted to their end.
    closed: Vec<(Instant, Instant, Use)>,
    counted_to: Instant,
    success: Duration,
    collision: Duration,
    error: Duration,
}

impl Airtime {
    /// Records an exchange that begins at `start`.
    pub fn open(&mut self, start: Instant) {
        self.open.push(start);
    }

    /// Records that the exchange that began at `start` occupied the medium until `end`.
    pub fn close(&mut self, start: Instant, end: Instant, used: Use) {
        let place = self.open.iter().position(|&open| open == start);
        debug_assert!(place.is_some(), "an exchange that is over has begun");
        place.map(|place| self.open.swap_remove(place));
        self.closed.push((start, end, used));
        let first = self.open.iter().fold(Instant::NEVER, |first, &open| first.min(open));
        self.count(first);
    }

    /// Counts the time before `until`.
    fn count(&mut self, until: Instant) {
        loop {
            let from = self.counted_to;
            let is_there =
                |&&(start, end, _): &&(Instant, Instant, Use)| start <= from && from < end;
            let used = self.closed.iter().filter(is_there).map(|&(.., used)| used).min();
            // Up to the next start or end of an exchange.
            let changes = self.closed.iter().flat_map(|&(start, end, _)| [start, end]);
            let next = changes.filter(|&at| at > from).min();
            let Some(next) = next.filter(|_| from < until) else { break };
            let next = next.min(until);
            let time = next.saturating_since(from);
            match used {
                Some(Use::Success) => self.success = self.success + time,
                Some(Use::Collision) => self.collision = self.collision + time,
                Some(Use::Error) => self.error = self.error + time,
                None => {}
            }
            self.counted_to = next;
        }
        let counted_to = self.counted_to;
        self.closed.retain(|&(_, end, _)| end > counted_to);
    }

    /// Returns the time of success, collision and error before `now`. Exchanges in progress count
    /// as success.
    pub fn by(&self, now: Instant) -> [Duration; 3] {
        let mut copy = self.clone();
        for start in std::mem::take(&mut copy.open) {
            copy.closed.push((start, now, Use::Success));
        }
        copy.count(now);
        [copy.success, copy.collision, copy.error]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_moment_counts_once_as_the_best_of_its_exchanges() {
        let at = Instant::from_nanos;
        let mut air = Airtime::default();
        air.open(at(10));
        air.open(at(30));
        air.close(at(10), at(50), Use::Collision);
        assert_eq!(air.by(at(35)).map(Duration::as_nanos), [5, 20, 0]);
        air.open(at(45));
        air.close(at(30), at(40), Use::Error);
        air.close(at(45), at(70), Use::Success);
        // 10 to 45 collision, 45 to 70 success.
        assert_eq!(air.by(at(100)).map(Duration::as_nanos), [25, 35, 0]);
        air.open(at(100));
        assert_eq!(air.by(at(110)).map(Duration::as_nanos), [35, 35, 0]);
    }
}
