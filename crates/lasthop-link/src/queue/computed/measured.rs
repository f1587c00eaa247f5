//! Queueing delays of a computed FIFO, whose transmissions are known before they start.

use super::super::Delays;
use lasthop_base::units::Instant;
use std::collections::VecDeque;

/// Queueing delays of the packets whose transmission has started, and of those that wait.
#[derive(Clone, Debug)]
pub(super) struct StartedDelays {
    started: Delays,
    /// Arrival and start of the other packets, in order.
    waiting: VecDeque<[Instant; 2]>,
}

impl Default for StartedDelays {
    fn default() -> Self {
        StartedDelays { started: Delays::queueing(), waiting: VecDeque::with_capacity(64) }
    }
}

impl StartedDelays {
    /// Records a packet that arrives at `arrival` and is sent from `start` on. `clock` is the current time.
    pub fn record(&mut self, clock: Instant, arrival: Instant, start: Instant) {
        while let Some(&[arrival, start]) = self.waiting.front()
            && start <= clock
        {
            self.started.record(arrival, start);
            self.waiting.pop_front();
        }
        self.waiting.push_back([arrival, start]);
    }

    /// Returns the delays of the packets whose transmission has started by `now`.
    pub fn until(&self, now: Instant) -> Delays {
        let mut delays = self.started.clone();
        let started = self.waiting.iter().take_while(|[_, start]| *start <= now);
        started.for_each(|&[arrival, start]| delays.record(arrival, start));
        delays
    }
}
