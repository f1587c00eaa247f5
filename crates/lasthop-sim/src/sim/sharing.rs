//! Time until several flows with transfers share the capacity fairly.
//!
//! It is defined for several flows with one file each. The time starts when the first data of the
//! last flow is acknowledged. It ends at the beginning of the first [`HOLD`] consecutive steps of
//! length [`STEP`] in which Jain's index of the bytes acknowledged to the flows is at least
//! [`LEVEL`]. Steps after the last acknowledgment of the flow that completes first do not count. If
//! no such steps exist, the time is undefined.
//!
//! The index: Jain, Chiu, Hawe, "A Quantitative Measure of Fairness and Discrimination",
//! DEC-TR-301, 1984. `lasthop.convergence` in Python has identical defaults and computes the time
//! from a trace, also with other parameters.

use super::ids::ConnectionId;
use lasthop_base::units::{Duration, Instant};

/// Interval over which goodput is averaged.
const STEP: Duration = Duration::from_secs(1);
/// Minimum index of a fair step.
const LEVEL: f64 = 0.9;
/// Required number of consecutive fair steps.
const HOLD: u32 = 5;

/// Progress of a flow, as seen by its sender.
#[derive(Clone, Copy, Debug)]
struct Member {
    /// Bytes acknowledged, and time of the latest acknowledgment.
    acked: u64,
    latest: Instant,
    /// Bytes acknowledged at the start of the current step.
    before: u64,
}

/// Measurement of the time to fairness.
#[derive(Clone, Debug)]
pub(super) struct Sharing {
    members: Vec<Member>,
    /// Index in `members` by connection.
    places: Vec<Option<usize>>,
    /// Number of flows with acknowledged data.
    active: usize,
    /// Time at which all flows were first active.
    began: Option<Instant>,
    /// End of the current step.
    step_end: Instant,
    /// Number of consecutive fair steps before it.
    fair: u32,
    /// End of the required fair steps.
    found: Option<Instant>,
}

impl Sharing {
    /// Creates the measurement for flows over these connections; `None` for fewer than two flows.
    pub fn of(connections: impl Iterator<Item = ConnectionId>) -> Option<Box<Self>> {
        let mut places = Vec::new();
        let mut members = Vec::new();
        for connection in connections {
            places.resize(places.len().max(connection.index() + 1), None);
            places[connection.index()] = Some(members.len());
            members.push(Member { acked: 0, latest: Instant::ZERO, before: 0 });
        }
        (members.len() > 1).then(|| {
            Box::new(Sharing {
                members,
                places,
                active: 0,
                began: None,
                step_end: Instant::NEVER,
                fair: 0,
                found: None,
            })
        })
    }

    /// Processes an acknowledgment at the sender of a connection, to which `acked` bytes have been
    /// acknowledged in total.
    pub fn on_ack(&mut self, now: Instant, connection: ConnectionId, acked: u64) {
        while now >= self.step_end && self.found.is_none() {
            self.end_step();
        }
        let Some(&Some(place)) = self.places.get(connection.index()) else { return };
        let member = &mut self.members[place];
        let is_first = member.acked == 0 && acked > 0;
        (member.acked, member.latest) = (acked, now);
        self.active += usize::from(is_first);
        if is_first && self.active == self.members.len() {
            self.began = Some(now);
            self.step_end = now + STEP;
            for member in &mut self.members {
                member.before = member.acked;
            }
            // The ACK being processed belongs to the first step.
            self.members[place].before = 0;
        }
    }

    fn end_step(&mut self) {
        let bytes = |member: &Member| (member.acked - member.before) as f64;
        let sum: f64 = self.members.iter().map(bytes).sum();
        let squares: f64 = self.members.iter().map(|member| bytes(member).powi(2)).sum();
        let index = sum * sum / (self.members.len() as f64 * squares);
        // The index is NaN if no flow received anything.
        let is_fair = index >= LEVEL;
        self.fair = if is_fair { self.fair + 1 } else { 0 };
        if self.fair == HOLD {
            self.found = Some(self.step_end);
        }
        for member in &mut self.members {
            member.before = member.acked;
        }
        self.step_end += STEP;
    }

    /// Returns the time to fairness in seconds; NaN if the flows did not share fairly.
    pub fn time(&self) -> f64 {
        let last = self.members.iter().map(|member| member.latest).min();
        match (self.began, self.found) {
            (Some(began), Some(end)) if last.is_some_and(|last| end <= last) => {
                (end - began).as_secs_f64() - f64::from(HOLD) * STEP.as_secs_f64()
            }
            _ => f64::NAN,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two flows with an acknowledgment every 100 ms. Each is given by its start in seconds and the
    /// kB acknowledged per 100 ms in each second.
    fn time(flows: [(u64, &[u64]); 2]) -> f64 {
        let ids = [ConnectionId::new(0), ConnectionId::new(1)];
        let mut sharing = Sharing::of(ids.into_iter()).unwrap();
        let mut events = Vec::new();
        for (id, (start, each)) in ids.into_iter().zip(flows) {
            let mut acked = 0;
            for tenth in 0..10 * each.len() {
                acked += 100 * each[tenth / 10];
                events.push((1_000 * start + 100 * tenth as u64 + 50, id, acked));
            }
        }
        events.sort_by_key(|(at, ..)| *at);
        for (millis, id, acked) in events {
            sharing.on_ack(Instant::from_nanos(millis * 1_000_000), id, acked);
        }
        sharing.time()
    }

    /// Expected values: the ratio 9:1 has the index 100/164 = 0.61, the ratio 6:4 has 100/104 =
    /// 0.96.
    #[test]
    fn time_ends_at_the_first_required_fair_step() {
        let first = [10, 10, 10, 10, 9, 9, 9, 6, 6, 6, 6, 6, 6, 6, 6];
        let second = [1, 1, 1, 4, 4, 4, 4, 4, 4, 4, 4];
        assert_eq!(time([(0, &first), (4, &second)]), 3.0);
    }

    #[test]
    fn an_unfair_step_restarts_the_count_and_unfair_runs_are_nan() {
        let second = [1, 1, 5, 5, 5, 5, 1, 5, 5, 5, 5, 5, 5, 5, 5];
        assert_eq!(time([(0, &[5; 20]), (0, &second)]), 7.0);
        assert!(time([(0, &[5; 20]), (0, &second[..7])]).is_nan());
        assert!(time([(0, &[9; 20]), (0, &[1; 20])]).is_nan());
        // Four fair seconds, and a part of the fifth: the first flow then ends.
        assert!(time([(0, &[5; 20]), (0, &[5; 5])]).is_nan());
        assert_eq!(time([(0, &[5; 20]), (0, &[5; 6])]), 0.0);
    }

    #[test]
    fn a_single_flow_has_no_time_to_fairness() {
        assert!(Sharing::of([ConnectionId::new(0)].into_iter()).is_none());
    }
}
