//! Framed radio: a base and its stations share the slots of each frame.
//!
//! ```text
//!              frame k                  frame k + 1
//!   |---------------------------|---------------------------|--> time
//!   fill: each way gives its    fill
//!   slots to who has something  |
//!   |  |  |  |  |  |  |  |      +-- + delay --> all of frame k arrives
//! ```
//!
//! Frame k is the time from k to k + 1 frames. At its start each way (uplink: stations to base;
//! downlink) shares its slots among the stations that have something to send, one slot at a time
//! in rotation; the rotation goes on from frame to frame. The link protocol of a station chooses
//! what goes into a slot, one link frame each. Slot i of n lasts from i/n to (i + 1)/n of the
//! frame, which is when its channel is looked at; all that was sent arrives together, at the end of
//! the frame and a delay later. At one instant, arrivals are handled before the next frame is
//! filled.
//!
//! A radio has one deadline, and none while nobody has anything to send. Its directions have no
//! arrivals and no transmitter of their own, but a deadline for the timer of the endpoint.
//!
//! Frames of no length, ideal feedback, take no slot and arrive at once: both ends of a link
//! exchange them until there are none.
//!
//! Source: the TDD frame of F. Vacirca, A. De Vendictis, A. Baiocchi, "Investigating Interactions
//! between ARQ Mechanisms and TCP over Wireless Links", section 3.
//!
//! Not modelled: requests for slots and their grant, random access, slots that move from one way
//! to the other, priorities, adaptive modulation.

use super::direction::{Arq, Crossing, Direction, InFlight, Kind};
use super::probe::{Event, Probe};
use super::world::World;
use crate::link::Endpoint;
use crate::queue::Ring;
use crate::units::{Duration, Instant};

/// No radio: a link of its own.
pub(super) const NO_RADIO: u32 = u32::MAX;

/// Parameters of a radio.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RadioParameters {
    /// Duration of a frame, more than zero.
    pub frame: Duration,
    /// Slots of a frame from the stations to the base, at least 1.
    pub uplink: u32,
    /// Slots of a frame from the base to the stations, at least 1.
    pub downlink: u32,
    /// From the end of a frame to the arrival of what was sent in it.
    pub delay: Duration,
}

/// A radio and who shares it.
#[derive(Clone, Debug)]
pub(super) struct Radio {
    parameters: RadioParameters,
    /// Stations: the directions to the base; those from it are one higher.
    stations: Vec<u32>,
    /// The station whose turn it is: uplink, downlink.
    turns: [usize; 2],
    /// End of the last frame that was filled.
    filled_until: Instant,
    /// Start of the next frame that somebody has something for.
    due: Instant,
    /// When what was sent arrives: the earliest first.
    arrivals: Ring<Instant>,
    /// Stations that still want slots of the frame that is being filled.
    ready: Vec<u32>,
    /// Its deadline.
    pub machine: usize,
}

impl Radio {
    pub fn new(parameters: RadioParameters) -> Self {
        debug_assert!(parameters.frame > Duration::ZERO, "a frame takes time");
        Radio {
            parameters,
            stations: Vec::new(),
            turns: [0; 2],
            filled_until: Instant::ZERO,
            due: Instant::NEVER,
            arrivals: Ring::with_capacity(4),
            ready: Vec::new(),
            machine: 0,
        }
    }

    /// Adds a station, whose direction to the base is `uplink`.
    pub fn add_station(&mut self, uplink: u32) {
        self.stations.push(uplink);
        self.ready.reserve(self.stations.len());
    }

    /// Somebody has something to send: the first frame that can still be filled is due.
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

fn arq(directions: &mut [Direction], index: u32) -> Option<&mut Arq> {
    match &mut directions[index as usize].kind {
        Kind::Arq(arq) => Some(arq),
        Kind::Raw(_) | Kind::Shared(_) => None,
    }
}

/// A direction and the opposite one.
fn pair(directions: &mut [Direction], index: u32) -> Option<[&mut Arq; 2]> {
    let wanted = [index as usize, index as usize ^ 1];
    match directions.get_disjoint_mut(wanted).ok()? {
        [Direction { kind: Kind::Arq(near), .. }, Direction { kind: Kind::Arq(far), .. }] => {
            Some([near, far])
        }
        _ => None,
    }
}

impl<P: Probe> World<P> {
    /// A radio's deadline has come.
    pub(super) fn on_radio(&mut self, index: u32) {
        let now = self.now;
        let radio = &mut self.radios[index as usize];
        let stations = radio.stations.len();
        if radio.arrivals.front() == Some(&now) {
            radio.arrivals.pop();
            for station in 0..stations {
                let uplink = self.radios[index as usize].stations[station];
                self.take_in_frame(uplink);
                self.take_in_frame(uplink + 1);
            }
        }
        let radio = &self.radios[index as usize];
        let is_start = now.as_nanos().is_multiple_of(radio.parameters.frame.as_nanos());
        if is_start && radio.filled_until <= now {
            let is_used = [0, 1].map(|way| self.fill(index, way));
            let radio = &mut self.radios[index as usize];
            if is_used != [false; 2] {
                radio.filled_until = now + radio.parameters.frame;
                radio.arrivals.push(radio.filled_until + radio.parameters.delay);
            }
            // Who still has something needs the next frame.
            radio.due = Instant::NEVER;
        }
        let Radio { stations, .. } = &self.radios[index as usize];
        let directions = &self.directions;
        let has_something = |direction: u32| match &directions[direction as usize].kind {
            Kind::Arq(arq) => arq.has_something(),
            Kind::Raw(_) | Kind::Shared(_) => false,
        };
        let is_wanted = stations.iter().any(|&up| has_something(up) || has_something(up + 1));
        let radio = &mut self.radios[index as usize];
        if is_wanted {
            radio.wake(now);
        }
        self.deadlines.set(radio.machine, radio.next_deadline());
    }

    /// All that has come over a direction of a radio with one frame.
    fn take_in_frame(&mut self, direction: u32) {
        let now = self.now;
        let mut is_used = false;
        if P::ACTIVE {
            // What goes up is told at once, but goes on when all has come, as without observation.
            let mut up = Vec::new();
            while let Some(arq) = arq(&mut self.directions, direction)
                && arq.ring.front().is_some_and(|first| first.at <= now)
                && let Some(arrived) = arq.ring.pop()
            {
                self.receive_frame(direction, &arrived.item);
                while let Some(packet) = self.poll_deliver(direction ^ 1) {
                    self.record_delivery(direction, &packet, false);
                    up.push(packet);
                }
                is_used = true;
            }
            up.iter().for_each(|packet| self.forward(packet));
        } else if let Some([near, far]) = pair(&mut self.directions, direction) {
            // The same, without a look at what goes up after each frame.
            while let Some(arrived) = near.ring.front().filter(|first| first.at <= now) {
                match arrived.item.is_damaged {
                    false => far.interface.endpoint.receive(now, arrived.item.frame),
                    true => far.interface.endpoint.receive_damaged(now, arrived.item.frame),
                }
                near.ring.drop_front();
                is_used = true;
            }
            if near.ring.is_empty() {
                near.ring.clear();
            }
            self.hand_up(direction);
        }
        if is_used {
            self.exchange_free(direction);
            self.settle_station(direction ^ 1);
        }
    }

    /// Hands the frames of no length of both ends of a link over, until there are none.
    fn exchange_free(&mut self, direction: u32) {
        let now = self.now;
        let (mut way, mut idle) = (direction ^ 1, 0);
        while idle < 2 {
            match arq(&mut self.directions, way)
                .and_then(|arq| arq.interface.endpoint.poll_free(now))
            {
                Some(frame) => {
                    idle = 0;
                    self.hand_over(way, Crossing { frame, is_damaged: false });
                }
                None => {
                    idle += 1;
                    way ^= 1;
                }
            }
        }
    }

    /// A frame of no length is sent and arrives.
    fn hand_over(&mut self, direction: u32, free: Crossing) {
        if P::ACTIVE {
            let event = Event::frame_sent(direction, &free.frame, self.now, false, self.now);
            self.probe.record(self.now, event);
        }
        self.take_in(direction, &free);
    }

    /// Notes the timer of an endpoint, and tells or drops its events.
    fn settle_station(&mut self, direction: u32) {
        if P::ACTIVE {
            self.record_link_events(direction);
        }
        let Direction { kind: Kind::Arq(arq), machine, .. } =
            &mut self.directions[direction as usize]
        else {
            return;
        };
        if !P::ACTIVE {
            arq.interface.endpoint.drop_events();
        }
        self.deadlines.set(*machine, arq.interface.endpoint.next_timeout().max(self.now));
    }

    /// Gives the slots of one way of the frame that starts now to those who want them; false if
    /// there is nobody.
    fn fill(&mut self, index: u32, way: usize) -> bool {
        let now = self.now;
        let radio = &mut self.radios[index as usize];
        let RadioParameters { frame, delay, uplink, downlink } = radio.parameters;
        let slots = u64::from([uplink, downlink][way]);
        let at = now + frame + delay;
        let turn = radio.turns[way];
        let count = radio.stations.len();
        let mut ready = std::mem::take(&mut radio.ready);
        ready.clear();
        for step in 0..count {
            let station = (turn + step) % count;
            let direction = radio.stations[station] + way as u32;
            let wants = arq(&mut self.directions, direction).is_some_and(|arq| arq.has_something());
            if wants {
                ready.push(station as u32);
            }
        }
        let (mut slot, mut place) = (0, 0);
        let mut last = None;
        let mut start = now;
        while slot < slots && !ready.is_empty() {
            if place == ready.len() {
                place = 0;
            }
            let station = ready[place] as usize;
            let direction = self.radios[index as usize].stations[station] + way as u32;
            let end = now + Duration::from_nanos(frame.as_nanos() * (slot + 1) / slots);
            let Some(arq) = arq(&mut self.directions, direction) else { break };
            let Some(sent) = arq.poll_slot(now, [start, end]) else {
                ready.remove(place);
                self.settle_station(direction);
                continue;
            };
            if sent.is_free() {
                self.hand_over(direction, Crossing { frame: sent.frame, is_damaged: false });
                self.exchange_free(direction);
                continue;
            }
            if P::ACTIVE {
                let event = Event::frame_sent(direction, &sent.frame, start, sent.is_lost, at);
                self.probe.record(end, event);
                let packets = arq.length(now);
                self.probe.record(now, Event::QueueServed { direction, packets });
            }
            if arq.arrives(&sent) {
                let item = Crossing { frame: sent.frame, is_damaged: sent.is_lost };
                arq.ring.push(InFlight { at, ticket: 0, item });
            }
            last = Some(station);
            (slot, start) = (slot + 1, end);
            place += 1;
        }
        for &station in &ready {
            let direction = self.radios[index as usize].stations[station as usize] + way as u32;
            self.settle_station(direction);
        }
        let radio = &mut self.radios[index as usize];
        radio.ready = ready;
        if let Some(last) = last {
            radio.turns[way] = (last + 1) % count;
        }
        last.is_some()
    }

    /// The timer of an endpoint on a radio is due. It is handled here only: a packet that enters at
    /// the same instant, while others still go up, must not let more of them go up in between.
    pub(super) fn on_station_timer(&mut self, direction: u32) {
        let Some(arq) = arq(&mut self.directions, direction) else { return };
        if arq.interface.endpoint.next_timeout() <= self.now {
            self.on_link_timer(direction);
            self.exchange_free(direction);
            self.settle_station(direction);
        }
        self.wake_radio(direction);
        self.wake_radio(direction ^ 1);
    }

    /// If a direction of a radio has something to send, the next frame is due. Its endpoint may also
    /// have a new timer, even one whose time is over, when somebody has set another limit.
    pub(super) fn wake_radio(&mut self, direction: u32) {
        let index = self.directions[direction as usize].radio as usize;
        let machine = self.directions[direction as usize].machine;
        let Some(arq) = arq(&mut self.directions, direction) else { return };
        self.deadlines.set(machine, arq.interface.endpoint.next_timeout().max(self.now));
        if arq.has_something() && self.radios[index].due == Instant::NEVER {
            let radio = &mut self.radios[index];
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
            delay: Duration::ZERO,
        };
        // Now, end of the last frame filled, due.
        for (now, filled, due) in [(0, 0, 0), (1, 0, 10), (20, 20, 20), (20, 30, 30), (25, 30, 30)]
        {
            let mut radio = Radio::new(parameters);
            radio.filled_until = millis(filled);
            radio.wake(millis(now));
            assert_eq!(radio.due, millis(due));
        }
    }
}
