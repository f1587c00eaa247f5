//! Order of events that are computed ahead of the clock.
//!
//! A passive end of a line ([`line`](super::line)) handles a frame as soon as it is sent, with the
//! time of its arrival. Ties between deadlines are broken by the events that set them, so the
//! tickets of a computed event must lie between those of the events before and after it:
//!
//! ```text
//!   events, in order of time    a          b           c          d
//!   tickets                     1 2 3      4 5         n+1 n+2    n+3
//!                                |                      ^
//!                                +-- computes c now ----+   n = latest ticket + 2^32
//! ```
//!
//! While an event is computed, tickets far above the latest one are issued. When the clock passes
//! its time, further tickets are issued after them. Events of all lines are computed in order of
//! time; others are handled when the clock reaches them.

use super::deadlines::{Deadlines, Due};
use lasthop_base::units::Instant;
use lasthop_link::queue::Ring;

/// Number of tickets reserved for the events between two computed ones: more than are handled
/// within the time that a frame takes.
const SPACING: u64 = 1 << 32;

/// An event that has been computed.
#[derive(Clone, Copy, Debug, Default)]
struct Computed {
    due: Due,
    /// The latest ticket issued by the event.
    ticket: u64,
}

/// The events that have been computed and that the clock has not passed.
#[derive(Clone, Debug)]
pub(super) struct ComputedEvents {
    events: Ring<Computed>,
    /// Time of the first of them; [`Instant::NEVER`] without any.
    first: Instant,
    /// The event computed last.
    last: Computed,
    /// No event after this time is computed: the run may end then.
    horizon: Instant,
}

impl Default for ComputedEvents {
    fn default() -> Self {
        ComputedEvents {
            events: Ring::with_capacity(8),
            first: Instant::NEVER,
            last: Computed::default(),
            horizon: Instant::ZERO,
        }
    }
}

impl ComputedEvents {
    /// Sets the time up to which events may be computed.
    pub fn set_horizon(&mut self, horizon: Instant) {
        self.horizon = horizon;
    }

    /// Returns the time of the first event that the clock has not passed.
    #[inline(always)]
    pub fn first(&self) -> Instant {
        self.first
    }

    /// Returns `true` if the event at `due` may be computed now.
    #[inline(always)]
    pub fn permits(&self, due: Due) -> bool {
        self.is_known(due.at()) && self.follows(due)
    }

    /// Returns `true` if the run certainly includes the events at `at`.
    #[inline(always)]
    pub fn is_known(&self, at: Instant) -> bool {
        at <= self.horizon
    }

    /// Returns `true` if the event at `due` is later than all computed events. Those that it causes
    /// are then later, too.
    #[inline(always)]
    pub fn follows(&self, due: Due) -> bool {
        due > self.last.due && self.last.ticket < u64::MAX / 2
    }

    /// Returns the number before the first ticket of an event that is computed now; `issued` is the
    /// latest ticket of the other events.
    #[inline(always)]
    pub fn next_ticket(&self, issued: u64) -> u64 {
        self.last.ticket.max(issued) + SPACING
    }

    /// Records that the event at `due` has been computed. `ticket` is its latest ticket. Returns
    /// `true` if it is the first that the clock has not passed.
    #[inline(always)]
    pub fn push(&mut self, due: Due, ticket: u64) -> bool {
        self.last = Computed { due, ticket };
        let is_first = self.events.is_empty();
        if is_first {
            self.first = due.at();
        }
        let slot = self.events.push_slot();
        slot.due = due;
        slot.ticket = ticket;
        is_first
    }

    /// Issues tickets after those of all computed events before `now`. Returns their number.
    #[inline(always)]
    pub fn pass(&mut self, now: Due, deadlines: &mut Deadlines) -> u64 {
        let mut passed = 0;
        while let Some(first) = self.events.front()
            && first.due < now
        {
            debug_assert!(deadlines.issued() < first.ticket, "the reserve has not been used up");
            deadlines.issue_after(first.ticket);
            self.events.drop_front();
            passed += 1;
        }
        self.first = self.events.front().map_or(Instant::NEVER, |first| first.due.at());
        passed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The tickets of a computed event are later than those of all events before it, and earlier
    /// than those of all events after it.
    #[test]
    fn a_computed_event_issues_its_tickets_at_its_time() {
        let at = |nanos| Due::new(Instant::from_nanos(nanos), 0);
        let mut deadlines = Deadlines::new(1, 0);
        let mut ahead = ComputedEvents::default();
        ahead.set_horizon(Instant::from_nanos(40));
        assert!(ahead.permits(at(20)) && !ahead.permits(at(41)));
        let [first, second] = [20, 30].map(|nanos| {
            let ticket = ahead.next_ticket(deadlines.issued()) + 1;
            ahead.push(at(nanos), ticket);
            ticket
        });
        assert!(!ahead.permits(at(30)), "events are computed in order of time");
        let mut tickets = vec![deadlines.ticket(), first];
        assert_eq!(ahead.pass(at(20), &mut deadlines), 0);
        assert_eq!(ahead.pass(at(25), &mut deadlines), 1);
        assert_eq!(ahead.first(), Instant::from_nanos(30));
        tickets.extend([deadlines.ticket(), deadlines.ticket(), second]);
        assert_eq!(ahead.pass(at(31), &mut deadlines), 1);
        assert_eq!(ahead.first(), Instant::NEVER);
        tickets.push(deadlines.ticket());
        assert!(tickets.is_sorted_by(|earlier, later| earlier < later), "{tickets:?}");
    }
}
