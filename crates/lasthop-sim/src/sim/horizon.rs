//! What the loop sees to besides events: how far ahead counters may have to look, and that no event replays for so long
//! that an interrupt goes unheard.

use super::direction::Medium;
use super::hops::Then;
use super::ids::DirectionId;
use super::line::Line;
use super::probe::Probe;
use super::traffic::{App, Flow, Streams};
use super::world::World;
use crate::app::{DatagramSource, StreamApplication};
use crate::transport::{End, Transport};
use lasthop_base::packet::Extension;
use lasthop_base::units::{Duration, Instant, Rate};
use std::sync::atomic::{AtomicBool, Ordering};

/// Events between two looks at the interrupt flag: a millisecond or so.
const INTERRUPT_EVENTS: u64 = 1 << 10;

/// Stations that radios see to between two looks at the interrupt flag: each frame of a radio is one event, which
/// sees to all of its stations. Some 40 ms.
const INTERRUPT_STATIONS: u64 = 1 << 18;

/// Steps that are replayed between two looks at the interrupt flag, packets of background traffic
/// and changes of channels: some 10 ms.
const REPLAY_STEPS: f64 = 2e5;

/// Simulated time that is replayed between two looks at the interrupt flag where a second takes
/// `steps`.
pub(super) fn replay_slice(steps: f64) -> Duration {
    // From infinity, without steps, the conversion saturates.
    Duration::from_nanos((REPLAY_STEPS / steps * 1e9) as u64).max(Duration::from_nanos(1))
}

/// Events between two looks at the interrupt flag, where an event sees to `stations` stations at most.
pub(super) fn look_interval(stations: usize) -> u64 {
    let events = INTERRUPT_STATIONS / (stations as u64).max(1);
    events.clamp(1, INTERRUPT_EVENTS).next_power_of_two().min(INTERRUPT_EVENTS)
}

impl<P: Probe, X: Extension> World<P, X> {
    /// No transfer can be complete sooner than the slowest link on its way has carried once what
    /// has not been sent by now.
    pub(super) fn earliest_completion(&self) -> Instant {
        let completion = |flow: &Flow| {
            let App::Streams(app) = &flow.app else { return Instant::ZERO };
            let Streams { application, streams, .. } = &**app;
            if !application.is_transfer() {
                return Instant::ZERO;
            }
            let connection = streams[0].connections[0];
            let known = &self.connections[connection.index()];
            let mut hop = known.first_hops[0] as usize;
            let mut slowest = self.fastest(self.hops[hop].direction);
            while !matches!(self.hops[hop].then, Then::Arrive) {
                hop += 1;
                slowest = slowest.min(self.fastest(self.hops[hop].direction));
            }
            let has_started = flow.start < self.now;
            let unsent = match has_started {
                true => known.transport.unsent(End::Opener),
                false => application.size(),
            };
            // The rate of a radio is rounded down.
            let rate = u128::from(slowest.as_bps()) + 1;
            let nanos = u128::from(unsent) * 8 * 1_000_000_000 / rate;
            let nanos = u64::try_from(nanos).unwrap_or(u64::MAX);
            let from = flow.start.max(self.now);
            Instant::from_nanos(from.as_nanos().saturating_add(nanos))
        };
        self.flows.iter().map(completion).max().unwrap_or_default()
    }

    /// The run goes on beyond the time at which it could have been complete: finds out when it can be
    /// now. Each time waits for longer, so that a transfer that stalls does not ask again and again.
    #[cold]
    pub(super) fn raise_horizon(&mut self, stop: Instant) {
        let horizon = self.earliest_completion().min(stop);
        self.set_horizon(horizon);
        let pause = Duration::from_nanos(self.now.as_nanos() / 8 + 1);
        self.horizon_due = horizon.max(self.now + pause);
    }

    /// Counters will not be asked for what they were before `horizon`.
    pub(super) fn set_horizon(&mut self, horizon: Instant) {
        for direction in &mut self.directions {
            if let Medium::Fifo(fifo) = &mut direction.medium {
                fifo.queue.set_horizon(horizon);
            }
        }
        for radio in &mut self.radios {
            radio.horizon = horizon;
        }
        for flow in &mut self.flows {
            if let App::Datagrams(datagrams) = &mut flow.app {
                datagrams.source.set_horizon(horizon);
            }
        }
    }

    /// When background traffic and channels must be replayed at the latest.
    pub(super) fn catch_up_due(&self) -> Instant {
        let slice = self.replay_slice.as_nanos();
        Instant::from_nanos(self.caught_up.as_nanos().saturating_add(slice))
    }

    /// Replays background traffic and changes of channels up to and including `until`, before which
    /// nothing enters a direction any more; false if it was interrupted.
    #[cold]
    pub(super) fn catch_up(&mut self, until: Instant, interrupt: &AtomicBool) -> bool {
        loop {
            let to = self.catch_up_due().min(until);
            for direction in &mut self.directions {
                if let Medium::Fifo(fifo) = &mut direction.medium {
                    fifo.queue.catch_up_with_channel(to);
                }
            }
            for end in self.lines.iter_mut().flat_map(Line::ends_mut) {
                end.catch_up(to);
            }
            for air in &mut self.airs {
                air.medium.catch_up(to);
            }
            self.caught_up = to;
            if to == until {
                return true;
            }
            if interrupt.load(Ordering::Relaxed) {
                return false;
            }
        }
    }

    /// The highest rate that a direction ever has.
    fn fastest(&self, direction: DirectionId) -> Rate {
        match &self.directions[direction.index()].medium {
            Medium::Fifo(fifo) => fifo.queue.transmitter().fastest(),
            Medium::Line(line) => {
                self.lines[line.index()].end(direction.side()).interface.transmitter().fastest()
            }
            Medium::Shared(shared) => shared.rate,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_flag_is_looked_at_more_often_where_events_are_long() {
        for (stations, events) in
            [(0, 1024), (1, 1024), (256, 1024), (1_000, 512), (100_000, 2), (1 << 20, 1)]
        {
            assert_eq!(look_interval(stations), events, "{stations} stations");
        }
    }
}
