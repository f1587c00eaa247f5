//! Framed radio: a base and its stations share the slots of each frame.
//!
//! ```text
//!              frame k                  frame k + 1
//!   |---------------------------|---------------------------|--> time
//!   fill: each way gives its    fill
//!   slots to ready stations     |
//!   |  |  |  |  |  |  |  |      +-- + delay --> all of frame k arrives
//! ```
//!
//! Frame k is the time from k to k + 1 frame durations. At its start, each way (uplink: stations to
//! base; downlink: base to stations) assigns its slots to the stations that have something to send,
//! one slot at a time in rotation. The rotation continues from frame to frame. The link protocol of
//! a station selects the link frame that is sent in each of its slots.
//!
//! Slot i of n lasts from i/n to (i + 1)/n of the frame. The error model of the station's channel
//! is evaluated for that interval. All link frames of a frame arrive together, one propagation
//! delay after the end of the frame. If arrivals and the start of a frame coincide, the arrivals
//! are handled first.
//!
//! A radio tracks which stations have something to send and which have link frames in transit, so
//! that a frame costs nothing for the others. It has one deadline, and none while no station has
//! anything to send or receive. Its directions have no arrivals and no transmitters, but a deadline
//! for the timer of the endpoint.
//!
//! Link frames of zero length (ideal feedback) take no slot and arrive immediately. Both ends of a
//! link exchange them until none is left.
//!
//! Source: the TDD frame of F. Vacirca, A. De Vendictis, A. Baiocchi, "Investigating Interactions
//! between ARQ Mechanisms and TCP over Wireless Links", section 3.
//!
//! Not modelled: requests and grants of slots, random access, slots that change between uplink and
//! downlink, priorities, adaptive modulation.

use super::deadlines::{Due, MachineId};
use super::ids::{LineId, RadioId, Side};
use super::line::{Crossing, Outcome};
use super::probe::{Event, Probe};
use super::probe_events::record_dropped;
use super::world::World;
use lasthop_base::packet::{Descriptor, Extension};
use lasthop_base::units::{Duration, Instant};
use lasthop_link::link::{Abilities, Endpoint, NumberSet};
use lasthop_link::queue::{PropagationDelay, Queue, Ring};

/// Parameters of a radio.
#[derive(Clone, Debug)]
pub struct RadioParameters {
    /// Duration of a frame, more than zero.
    pub frame: Duration,
    /// Slots of a frame from the stations to the base, at least 1.
    pub uplink: u32,
    /// Slots of a frame from the base to the stations, at least 1.
    pub downlink: u32,
    /// Delay from the end of a frame to the arrival of its link frames.
    pub propagation: PropagationDelay,
}

/// The place of a line on a radio.
#[derive(Clone, Copy, Debug)]
pub(super) struct Station {
    pub radio: RadioId,
    /// Index among the stations of that radio.
    pub number: u64,
}

/// A radio and the stations that share it.
#[derive(Clone, Debug)]
pub(super) struct Radio {
    parameters: RadioParameters,
    /// Lines of the stations, which transmit on the forward direction.
    pub stations: Vec<LineId>,
    /// The station that is served first in the next frame: uplink, downlink.
    turns: [u64; 2],
    /// Stations with something to send: uplink, downlink.
    wanting: [NumberSet; 2],
    /// Stations whose line may have link frames in transit: uplink, downlink.
    awaited: [NumberSet; 2],
    /// End of the last frame that was filled.
    filled_until: Instant,
    /// Start of the next frame to be filled; [`Instant::NEVER`] if no station has anything to send.
    due: Instant,
    /// Times at which the filled frames arrive, the earliest first.
    arrivals: Ring<Instant>,
    /// Stations that still want slots of the frame that is being filled.
    ready: Vec<u64>,
    /// Counters are not read for times before this.
    pub horizon: Instant,
    /// The machine of its deadline.
    pub machine: MachineId,
}

impl Radio {
    pub fn new(parameters: RadioParameters) -> Self {
        debug_assert!(parameters.frame > Duration::ZERO, "the frame duration must be positive");
        Radio {
            parameters,
            stations: Vec::new(),
            turns: [0; 2],
            wanting: [NumberSet::new(0), NumberSet::new(0)],
            awaited: [NumberSet::new(0), NumberSet::new(0)],
            filled_until: Instant::ZERO,
            due: Instant::NEVER,
            arrivals: Ring::with_capacity(4),
            ready: Vec::new(),
            horizon: Instant::ZERO,
            machine: MachineId::default(),
        }
    }

    /// Adds a station, which transmits on the forward direction of `line`. Returns its index.
    pub fn add_station(&mut self, line: LineId) -> u64 {
        self.stations.push(line);
        self.count() - 1
    }

    /// Completes the setup after all stations were added. `machine` holds the deadline of the
    /// radio.
    pub fn close(&mut self, machine: MachineId) {
        let count = self.count();
        self.machine = machine;
        self.wanting = [NumberSet::new(count), NumberSet::new(count)];
        self.awaited = [NumberSet::new(count), NumberSet::new(count)];
        self.ready.reserve(self.stations.len());
    }

    fn count(&self) -> u64 {
        self.stations.len() as u64
    }

    fn line(&self, station: u64) -> LineId {
        self.stations[station as usize]
    }

    /// Records whether a station has something to send on `way`.
    #[inline]
    fn note(&mut self, station: u64, way: Side, has_something: bool) {
        let wanting = &mut self.wanting[way as usize];
        if has_something {
            wanting.insert(station);
        } else {
            wanting.remove(station);
        }
    }

    /// Collects the stations that want slots of `way`, in rotation order.
    fn gather(&mut self, way: Side) {
        let (wanting, turn) = (&self.wanting[way as usize], self.turns[way as usize]);
        self.ready.clear();
        for (mut from, end) in [(turn, self.count()), (0, turn)] {
            while let Some(station) = wanting.first(from, end) {
                self.ready.push(station);
                from = station + 1;
            }
        }
    }

    /// Returns the first station at or after `from` whose line may have link frames in transit.
    #[inline]
    fn next_awaited(&self, from: u64) -> Option<u64> {
        let [up, down] = &self.awaited;
        if down.is_empty() {
            return up.first(from, self.count());
        }
        let up = up.first(from, self.count());
        let down = down.first(from, up.unwrap_or(self.count()));
        down.or(up)
    }

    /// Schedules the first frame that can still be filled, if none is scheduled.
    fn wake(&mut self, now: Instant) {
        if self.due == Instant::NEVER {
            let frame = self.parameters.frame.as_nanos();
            let next = now.as_nanos().div_ceil(frame).saturating_mul(frame);
            self.due = Instant::from_nanos(next).max(self.filled_until);
        }
    }

    fn next_deadline(&self) -> Instant {
        self.arrivals.front().map_or(self.due, |&arrival| arrival.min(self.due))
    }
}

impl<P: Probe, X: Extension> World<P, X> {
    /// Handles a radio's deadline.
    pub(super) fn on_radio(&mut self, id: RadioId) {
        let now = self.now;
        let radio = &mut self.radios[id.index()];
        if radio.arrivals.front() == Some(&now) {
            // If the delay decreases, several frames arrive at the same time.
            while radio.arrivals.front() == Some(&now) {
                radio.arrivals.pop();
            }
            let mut from = 0;
            while let Some(station) = self.radios[id.index()].next_awaited(from) {
                let line = self.radios[id.index()].line(station);
                for side in Side::BOTH {
                    if self.radios[id.index()].awaited[side as usize].remove(station) {
                        self.take_in_frame(line, side);
                        if !self.lines[line.index()].end(side).ring.is_empty() {
                            self.radios[id.index()].awaited[side as usize].insert(station);
                        }
                    }
                }
                from = station + 1;
            }
        }
        let radio = &self.radios[id.index()];
        let is_start = now.as_nanos().is_multiple_of(radio.parameters.frame.as_nanos());
        if is_start && radio.filled_until <= now {
            let is_used = Side::BOTH.map(|way| self.fill(id, way));
            let radio = &mut self.radios[id.index()];
            if is_used != [false; 2] {
                radio.filled_until = now + radio.parameters.frame;
                let arrival = radio.parameters.propagation.arrival(radio.filled_until);
                radio.arrivals.push(arrival);
            }
            // Stations that still have something to send use the next frame: see the end of this
            // function.
            radio.due = Instant::NEVER;
        }
        let radio = &mut self.radios[id.index()];
        debug_assert!(
            (0..radio.count()).all(|station| {
                let line = &self.lines[radio.line(station).index()];
                Side::BOTH.iter().all(|&way| {
                    let known = radio.wanting[way as usize].contains(station);
                    known == line.end(way).has_something()
                })
            }),
            "the radio must track which stations have something to send"
        );
        if radio.wanting.iter().any(|wanting| !wanting.is_empty()) {
            radio.wake(now);
        }
        self.deadlines.set(radio.machine, radio.next_deadline());
    }

    /// Receives all link frames that the end `side` of a station's line has sent in one frame.
    fn take_in_frame(&mut self, line: LineId, side: Side) {
        let now = self.now;
        let far = side.other();
        let first = self.lines[line.index()].end(side).ring.front();
        if first.is_none_or(|first| first.due.at() > now) {
            return;
        }
        // Packets are forwarded after all link frames have been received.
        let mut up = std::mem::take(&mut self.up);
        loop {
            let [near, far_end] = self.lines[line.index()].both(side);
            let Some(arrived) = near.ring.front_mut() else {
                near.ring.clear();
                break;
            };
            if arrived.due.at() > now {
                break;
            }
            if P::ACTIVE {
                arrived.item.frame.number_packet();
            }
            let has_more = far_end.accept(now, &mut arrived.item, &mut self.damaged);
            let first = up.len();
            // By reference: most frames deliver nothing, and a copy would wait for earlier stores.
            if let Some(packet) = &arrived.item.frame.payload {
                up.push(*packet);
            }
            if has_more {
                up.extend(std::iter::from_fn(|| far_end.interface.poll_deliver()));
            }
            near.ring.drop_front();
            if P::ACTIVE {
                self.record_link_events(line, far);
                up[first..].iter().for_each(|packet| self.record_line_delivery(line, far, packet));
            }
        }
        self.hand_up_damaged();
        up.drain(..).for_each(|mut packet| self.forward(&mut packet));
        self.up = up;
        self.exchange_free_if_any(line, side);
        self.settle_station(line, far);
    }

    /// Calls [`Self::exchange_free`] if there may be link frames to exchange or outcomes to report.
    #[inline]
    fn exchange_free_if_any(&mut self, line: LineId, side: Side) {
        let known = &self.lines[line.index()];
        if known.exchanges_free || known.is_watched {
            self.exchange_free(line, side);
        }
    }

    /// Exchanges the zero-length frames of both ends of a line until none is left. The end other
    /// than `side` is polled first.
    fn exchange_free(&mut self, line: LineId, side: Side) {
        let now = self.now;
        let (mut way, mut idle) = (side.other(), 0);
        while idle < 2 {
            let endpoint = &mut self.lines[line.index()].end_mut(way).interface.endpoint;
            match endpoint.ideal_feedback().and_then(|ideal| ideal.poll_free(now)) {
                Some(frame) => {
                    idle = 0;
                    self.hand_over(line, way, Crossing { frame, is_damaged: false });
                }
                None => {
                    idle += 1;
                    way = way.other();
                }
            }
        }
        Side::BOTH.into_iter().for_each(|side| self.note_station(line, side));
        if self.lines[line.index()].is_watched {
            Side::BOTH.into_iter().for_each(|side| self.report_link_outcomes(line, side));
        }
    }

    /// Sends a link frame of zero length, which arrives immediately.
    fn hand_over(&mut self, line: LineId, side: Side, mut free: Crossing<X>) {
        if P::ACTIVE {
            let direction = self.lines[line.index()].direction(side);
            let event = Event::frame_sent(direction, &free.frame, self.now, false, self.now);
            self.probe.record(self.now, event);
        }
        let far = self.lines[line.index()].end_mut(side.other());
        let has_more = far.accept(self.now, &mut free, &mut self.damaged);
        if P::ACTIVE {
            self.record_link_events(line, side.other());
        }
        self.hand_up_damaged();
        self.forward_all(line, side.other(), &mut free.frame.payload, has_more);
    }

    /// Updates the timer of an endpoint, and reports or discards its events.
    fn settle_station(&mut self, id: LineId, side: Side) {
        if P::ACTIVE {
            self.record_link_events(id, side);
        }
        let line = &mut self.lines[id.index()];
        let end = line.end_mut(side);
        if !P::ACTIVE {
            end.interface.endpoint.drop_events();
        }
        let timeout = end.interface.endpoint.next_timeout().max(self.now);
        line.serve_at(side, timeout, &mut self.deadlines);
        line.schedule_if_stale(&mut self.deadlines);
        if line.is_watched {
            self.report_link_outcomes(id, side);
        }
        self.note_station(id, side);
    }

    /// Records at the radio whether an end of a station's line has something to send.
    #[inline]
    fn note_station(&mut self, id: LineId, side: Side) {
        let line = &self.lines[id.index()];
        let Station { radio, number } = line.station.expect("the line is attached to a radio");
        self.radios[radio.index()].note(number, side, line.end(side).has_something());
    }

    /// Assigns the slots of one way in the frame that starts now. The ends `way` of the stations'
    /// lines transmit in it. Returns `false` if no station has anything to send.
    fn fill(&mut self, id: RadioId, way: Side) -> bool {
        let now = self.now;
        let radio = &mut self.radios[id.index()];
        let RadioParameters { frame, uplink, downlink, .. } = radio.parameters;
        let slots = u64::from([uplink, downlink][way as usize]);
        radio.gather(way);
        let mut ready = std::mem::take(&mut radio.ready);
        // Number of ready stations, and whether each of them is polled again before the slots run
        // out.
        let (mut count, mut comes_again) = (ready.len() as u64, true);
        let (mut slot, mut start, mut last) = (0, now, None);
        while slot < slots && !ready.is_empty() {
            // Like `Vec::retain`, whose closure is a separate function.
            let mut kept = 0;
            'stations: for place in 0..ready.len() {
                let station = ready[place];
                let line = self.radios[id.index()].line(station);
                while slot < slots {
                    let end = now + Duration::from_nanos(frame.as_nanos() * (slot + 1) / slots);
                    let Some(has_more) = self.fill_slot((id, station, line), way, [start, end])
                    else {
                        count -= 1;
                        self.settle_station(line, way);
                        continue 'stations;
                    };
                    last = Some(station);
                    (slot, start) = (slot + 1, end);
                    comes_again &= slots - slot >= count;
                    // A station without further frames is polled again immediately, while its line
                    // is in the cache.
                    if !comes_again || has_more {
                        break;
                    }
                }
                ready[kept] = station;
                kept += 1;
            }
            ready.truncate(kept);
        }
        for &station in &ready {
            let line = self.radios[id.index()].line(station);
            self.settle_station(line, way);
        }
        let radio = &mut self.radios[id.index()];
        radio.ready = ready;
        if let Some(last) = last {
            radio.turns[way as usize] = (last + 1) % radio.count();
        }
        last.is_some()
    }

    /// Sends the next frame of a station's end `way` in the slot from `start` to `end`. Returns
    /// whether the end would send a frame in the next slot, or `None` if it has no frame.
    #[inline(always)]
    fn fill_slot(
        &mut self,
        (id, station, line): (RadioId, u64, LineId),
        way: Side,
        [start, end]: [Instant; 2],
    ) -> Option<bool> {
        let now = self.now;
        let direction = self.lines[line.index()].direction(way);
        loop {
            let radio = &mut self.radios[id.index()];
            let sender = self.lines[line.index()].end_mut(way);
            let on_dequeue = |queue: &Queue<Descriptor<X>>| {
                if P::ACTIVE {
                    record_dropped(&mut self.probe, direction, now, queue);
                }
            };
            let outcome = sender.poll_slot(now, [start, end], radio.horizon, on_dequeue)?;
            if outcome == Outcome::Free {
                let free = sender.ring.next_slot().item;
                self.hand_over(line, way, free);
                self.exchange_free(line, way);
                continue;
            }
            // A frame that is sent makes [`Self::on_radio`] schedule an arrival for the same time.
            // Uplink and downlink obtain an identical time here.
            let RadioParameters { frame, ref mut propagation, .. } = radio.parameters;
            let at = propagation.arrival(now + frame);
            let slot = sender.ring.next_slot();
            slot.due = Due::new(at, 0);
            if P::ACTIVE {
                let Crossing { frame, is_damaged } = &slot.item;
                let event = Event::frame_sent(direction, frame, start, *is_damaged, at);
                self.probe.record(end, event);
            }
            if outcome == Outcome::Arrives {
                // Behind other frames, the line is awaited already.
                if sender.ring.is_empty() {
                    radio.awaited[way as usize].insert(station);
                }
                sender.ring.push_next();
            }
            if P::ACTIVE {
                let packets = sender.length(now);
                self.probe.record(now, Event::QueueServed { direction, packets });
            }
            return Some(sender.has_something());
        }
    }

    /// Handles the timer of a radio endpoint. It is not handled elsewhere: a packet that enters at
    /// the same instant, while other packets are being delivered, must not cause further deliveries
    /// in between.
    pub(super) fn on_station_timer(&mut self, line: LineId, side: Side) {
        if self.lines[line.index()].end(side).interface.endpoint.next_timeout() <= self.now {
            self.on_link_timer(line, side);
            self.exchange_free_if_any(line, side);
            self.settle_station(line, side);
        }
        self.wake_radio(line, side);
        self.wake_radio(line, side.other());
    }

    /// Schedules the next frame if an end of a station's line has something to send. Also updates
    /// the timer of its endpoint. That timer may already have expired if an agent has changed the
    /// transmission limit.
    pub(super) fn wake_radio(&mut self, id: LineId, side: Side) {
        let line = &mut self.lines[id.index()];
        let Station { radio, number } = line.station.expect("the line is attached to a radio");
        let timeout = line.end(side).interface.endpoint.next_timeout().max(self.now);
        line.serve_at(side, timeout, &mut self.deadlines);
        line.schedule_if_stale(&mut self.deadlines);
        let radio = &mut self.radios[radio.index()];
        let has_something = line.end(side).has_something();
        radio.note(number, side, has_something);
        if has_something && radio.due == Instant::NEVER {
            radio.wake(self.now);
            self.deadlines.set(radio.machine, radio.next_deadline());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_frame_that_can_be_filled_is_due() {
        let millis = |n| Instant::ZERO + Duration::from_millis(n);
        let parameters = RadioParameters {
            frame: Duration::from_millis(10),
            uplink: 1,
            downlink: 1,
            propagation: PropagationDelay::default(),
        };
        // Current time, end of the last filled frame, expected start of the next frame (in ms).
        for (now, filled, due) in [(0, 0, 0), (1, 0, 10), (20, 20, 20), (20, 30, 30), (25, 30, 30)]
        {
            let mut radio = Radio::new(parameters.clone());
            radio.filled_until = millis(filled);
            radio.wake(millis(now));
            assert_eq!(radio.due, millis(due));
        }
    }
}
