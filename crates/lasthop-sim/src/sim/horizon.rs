//! Work of the event loop between events: the horizon of the counters, the replay of background
//! traffic and channels, and the checks of the interrupt flag.

use super::direction::Medium;
use super::hops::Then;
use super::ids::DirectionId;
use super::line::Line;
use super::probe::Probe;
use super::traffic::{App, Flow, Streams};
use super::world::World;
use crate::app::{DatagramSource, StreamApplication};
use crate::transport::{CarriesStreams, End};
use lasthop_base::packet::Extension;
use lasthop_base::units::{Duration, Instant, Rate};
use std::sync::atomic::{AtomicBool, Ordering};

/// Maximum number of events between two checks of the interrupt flag: about 1 ms.
const INTERRUPT_EVENTS: u64 = 1 << 10;

/// Number of radio stations serviced between two checks of the interrupt flag: about 40 ms. Each
/// frame of a radio is a single event, which services all its stations.
const INTERRUPT_STATIONS: u64 = 1 << 18;

/// Number of replay steps between two checks of the interrupt flag: about 10 ms. Steps are packets
/// of background traffic and state changes of channels.
const REPLAY_STEPS: f64 = 2e5;

/// Returns the simulated time to be replayed between two checks of the interrupt flag, if one
/// second takes `steps` steps.
pub(super) fn replay_slice(steps: f64) -> Duration {
    // Without steps, the quotient is infinite and the conversion saturates.
    Duration::from_nanos((REPLAY_STEPS / steps * 1e9) as u64).max(Duration::from_nanos(1))
}

/// Returns the number of events between two checks of the interrupt flag, if an event services up
/// to `stations` stations.
pub(super) fn look_interval(stations: usize) -> u64 {
    let events = INTERRUPT_STATIONS / (stations as u64).max(1);
    events.clamp(1, INTERRUPT_EVENTS).next_power_of_two().min(INTERRUPT_EVENTS)
}

impl<P: Probe, X: Extension> World<P, X> {
    /// Returns a lower bound of the time at which all transfers are complete: the slowest link of
    /// each path must still carry all data that has not been sent once.
    pub(super) fn earliest_completion(&self) -> Instant {
        let completion = |flow: &Flow| {
            let App::Streams(app) = &flow.app else { return Instant::ZERO };
            let Streams { application, streams, .. } = app;
            let transport = &self.connections[streams[0].connections[0].index()].transport;
            let may_end_early = flow.stop.is_some() || !app.is_awaited;
            if !application.is_transfer() || transport.can_fail() || may_end_early {
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
            // Radio rates are rounded down.
            let rate = u128::from(slowest.as_bps()) + 1;
            let nanos = u128::from(unsent) * 8 * 1_000_000_000 / rate;
            let nanos = u64::try_from(nanos).unwrap_or(u64::MAX);
            let from = flow.start.max(self.now);
            Instant::from_nanos(from.as_nanos().saturating_add(nanos))
        };
        self.flows.iter().map(completion).max().unwrap_or_default()
    }

    /// Recomputes the horizon when the run exceeds it. The interval until the next computation
    /// grows with time, so that a stalled transfer does not cause frequent computations.
    #[cold]
    pub(super) fn raise_horizon(&mut self, stop: Instant) {
        let horizon = self.earliest_completion().min(stop);
        self.set_horizon(horizon);
        let pause = Duration::from_nanos(self.now.as_nanos() / 8 + 1);
        self.horizon_due = horizon.max(self.now + pause);
    }

    /// Sets the horizon: counters will not be read for earlier times.
    pub(super) fn set_horizon(&mut self, horizon: Instant) {
        self.ahead.set_horizon(horizon);
        for direction in &mut self.directions {
            if let Medium::Fifo(fifo) = &mut direction.medium {
                fifo.queue.set_horizon(horizon);
            }
        }
        for radio in &mut self.radios {
            radio.horizon = horizon;
        }
        for flow in &mut self.flows {
            // The counters of a flow are also read when it stops.
            let stop = flow.stop.filter(|_| flow.delivered.is_none()).unwrap_or(Instant::NEVER);
            if let App::Datagrams { source, .. } = flow.app {
                self.sources[source.index()].source.set_horizon(horizon.min(stop));
            }
        }
    }

    /// Returns the time by which background traffic and channels must be replayed.
    pub(super) fn catch_up_due(&self) -> Instant {
        let slice = self.replay_slice.as_nanos();
        Instant::from_nanos(self.caught_up.as_nanos().saturating_add(slice))
    }

    /// Replays background traffic and state changes of channels up to and including `until`. No
    /// packet may enter a direction before that time afterwards. Returns `false` if the run is
    /// interrupted.
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

    /// Returns the maximum rate of a direction over the whole run.
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
    fn the_flag_is_checked_more_often_with_long_events() {
        for (stations, events) in
            [(0, 1024), (1, 1024), (256, 1024), (1_000, 512), (100_000, 2), (1 << 20, 1)]
        {
            assert_eq!(look_interval(stations), events, "{stations} stations");
        }
    }
}
