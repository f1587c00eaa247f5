//! State of [spread](super::spread) stations, which are not all in range of each other, and of the
//! frames on the medium. Packets are stored elsewhere. A host has one radio ([`Post`]) and, for each of its access
//! categories, a station with a backoff ([`Backoff`]).

use super::airtime::Airtime;
use super::exchange::FrameExchange;
use super::medium::Use;
use super::report::{AirFrame, MediumCounters};
use super::space::{Position, Propagation, Reach};
use crate::phy::Timing;
use lasthop_base::units::Instant;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Pending event, in the order of processing among events at equal times.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Due {
    /// A transmission ends.
    End { frame: u32 },
    /// SIFS before a response, or before data after a CTS or within a TXOP, has elapsed.
    Answer { host: u16 },
    /// No response was received.
    Timeout { host: u16, turn: u32 },
    /// A NAV set by an RTS ends, unless a frame has followed.
    NavReset { host: u16 },
    /// A backoff ends.
    Access { station: u16, turn: u32 },
}

/// A frame being transmitted.
#[derive(Clone, Debug)]
pub(super) struct OnAir {
    pub exchange: FrameExchange,
    /// Transmitting and receiving host.
    pub from: u16,
    pub to: u16,
    pub kind: AirFrame,
    pub start: Instant,
    pub end: Instant,
    pub is_over: bool,
    /// Hosts that sensed the frame but transmitted in the meantime, and therefore did not detect
    /// a frame.
    pub missed_by: Vec<u16>,
}

/// The frame that a receiver attempts to read.
#[derive(Clone, Copy, Debug)]
pub(super) struct Lock {
    pub frame: u32,
    pub is_clean: bool,
}

/// The response for which a sender waits.
#[derive(Clone, Copy, Debug)]
pub(super) struct Waiting {
    pub response: AirFrame,
    pub until: Instant,
}

/// A frame to be sent SIFS after another frame.
#[derive(Clone, Copy, Debug)]
pub(super) struct Answer {
    pub kind: AirFrame,
    pub exchange: FrameExchange,
}

/// An exchange that a station has initiated.
#[derive(Clone, Copy, Debug)]
pub(super) struct Initiated {
    pub exchange: FrameExchange,
    pub start: Instant,
    /// End of its last frame.
    pub end: Instant,
    /// Cause, if the exchange fails.
    pub cause: Use,
}

/// The backoff of a station.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Backoff {
    /// Remaining slots, at the time from which they count, including those of its AIFS above DIFS.
    pub slots: u32,
    /// Transmission time, unless the medium becomes busy; `turn` distinguishes it from earlier
    /// transmission times.
    pub access: Option<Instant>,
    pub turn: u32,
    /// A backoff that has not been reported to the observer: slots and window.
    pub unreported: Option<(u32, u32)>,
}

/// The radio of a host with a position.
#[derive(Clone, Debug, Default)]
pub(super) struct Post {
    /// Number of frames of other hosts that the host senses.
    pub sensed: u32,
    /// Whether the host is transmitting.
    pub is_sending: bool,
    pub lock: Option<Lock>,
    /// Whether the host could not read the last frame that it sensed.
    pub is_damaged: bool,
    /// End of its last busy period, excluding its NAV.
    pub idle_since: Instant,
    pub nav_until: Instant,
    pub nav_reset: Option<Instant>,
    pub waiting: Option<Waiting>,
    pub waiting_turn: u32,
    /// Frame to be sent after SIFS. Until then, the host reads no other frame.
    pub answer: Option<Answer>,
    pub initiated: Option<Initiated>,
}

impl Post {
    pub fn is_busy(&self) -> bool {
        self.is_sending || self.sensed > 0
    }

    /// Returns the time from which slots count if it stays idle, at least `defer_until`.
    pub fn counts_from(&self, timing: &Timing, defer_until: Instant) -> Instant {
        let space = if self.is_damaged { timing.eifs() } else { timing.difs() };
        let nav = self.nav_until + timing.difs();
        (self.idle_since + space).max(nav).max(defer_until)
    }
}

/// State of a medium of stations with positions.
#[derive(Clone, Debug)]
pub(super) struct Spread {
    pub reach: Reach,
    /// The radios, by host.
    pub posts: Vec<Post>,
    /// The backoffs, by station.
    pub backoffs: Vec<Backoff>,
    /// The host of each station.
    host_of: Vec<u16>,
    /// The stations of each host, which are consecutive.
    stations_of: Vec<[u16; 2]>,
    pub frames: Vec<OnAir>,
    pub due: BinaryHeap<Reverse<(Instant, Due)>>,
    pub airtime: Airtime,
}

impl Spread {
    /// Creates idle hosts at `positions`, with `host_of` for each station.
    pub fn new(propagation: &Propagation, positions: &[Position], host_of: Vec<u16>) -> Self {
        let mut stations_of = vec![[0, 0]; positions.len()];
        for (station, &host) in (0..).zip(&host_of) {
            let [first, end] = &mut stations_of[usize::from(host)];
            *first = if *end == 0 { station } else { *first };
            *end = station + 1;
        }
        Spread {
            reach: Reach::new(propagation, positions),
            posts: vec![Post::default(); positions.len()],
            backoffs: vec![Backoff::default(); host_of.len()],
            host_of,
            stations_of,
            frames: Vec::new(),
            due: BinaryHeap::new(),
            airtime: Airtime::default(),
        }
    }

    /// Returns the host of a station.
    pub fn host(&self, station: u16) -> u16 {
        self.host_of[usize::from(station)]
    }

    /// Returns the stations of a host.
    pub fn stations(&self, host: u16) -> std::ops::Range<u16> {
        let [first, end] = self.stations_of[usize::from(host)];
        first..end
    }

    /// Returns the frames being transmitted, by number.
    pub fn on_air(&self) -> impl Iterator<Item = (u32, &OnAir)> {
        let numbered = self.frames.iter().enumerate();
        numbered.filter(|(_, frame)| !frame.is_over).map(|(number, frame)| (number as u32, frame))
    }

    pub fn push(&mut self, at: Instant, due: Due) {
        self.due.push(Reverse((at, due)));
    }

    /// Returns `true` if the event is still pending.
    pub fn is_current(&self, at: Instant, due: Due) -> bool {
        match due {
            Due::End { .. } | Due::Answer { .. } => true,
            Due::Timeout { host, turn } => {
                let post = &self.posts[usize::from(host)];
                post.waiting.is_some() && post.waiting_turn == turn
            }
            Due::NavReset { host } => self.posts[usize::from(host)].nav_reset == Some(at),
            Due::Access { station, turn } => {
                let backoff = &self.backoffs[usize::from(station)];
                backoff.access.is_some() && backoff.turn == turn
            }
        }
    }

    pub fn forget_what_is_over(&mut self) {
        while let Some(&Reverse((at, due))) = self.due.peek()
            && !self.is_current(at, due)
        {
            self.due.pop();
        }
    }

    pub fn next_timeout(&self) -> Instant {
        self.due.peek().map_or(Instant::NEVER, |&Reverse((at, _))| at)
    }

    /// Adds the airtime to the counters of the medium.
    pub fn counters(&self, now: Instant, counted: MediumCounters) -> MediumCounters {
        let [success_time, collision_time, error_time] = self.airtime.by(now);
        MediumCounters { success_time, collision_time, error_time, ..counted }
    }

    /// Freezes the backoff of a station whose medium becomes busy. A backoff that ends before `sensed` continues.
    /// `extra`: slots of its AIFS above DIFS, which count again after the busy period.
    pub fn freeze(
        &mut self,
        timing: &Timing,
        (station, extra): (u16, u32),
        [now, sensed]: [Instant; 2],
        defer: Instant,
    ) {
        let post = &self.posts[usize::from(self.host(station))];
        let backoff = &mut self.backoffs[usize::from(station)];
        if backoff.access.is_some_and(|at| at < sensed) {
            return;
        }
        backoff.access = None;
        let counted = timing.decrements(post.counts_from(timing, defer), now) as u32;
        backoff.slots = backoff.slots.saturating_sub(counted.saturating_sub(extra));
    }

    /// Starts the reception of a frame at a host that is not transmitting.
    pub fn hear(&mut self, number: u32, station: u16) {
        let frame = &self.frames[number as usize];
        let survives = |number: u32, from: u16| {
            // A frame that ends when this one begins does not disturb it.
            let others = self
                .on_air()
                .filter(|&(other, on_air)| other != number && on_air.end > frame.start);
            self.reach.survives(from, station, others.map(|(_, other)| other.from))
        };
        let is_readable =
            || self.reach.link(frame.from, station).is_read && survives(number, frame.from);
        let lock = match self.posts[usize::from(station)].lock {
            None => is_readable().then_some(Lock { frame: number, is_clean: true }),
            Some(known) => {
                let other = &self.frames[known.frame as usize];
                let may_take_over = self.reach.takes_over || other.start == frame.start;
                if may_take_over && is_readable() {
                    Some(Lock { frame: number, is_clean: true })
                } else {
                    let is_met = other.end > frame.start;
                    let is_clean = known.is_clean && (!is_met || survives(known.frame, other.from));
                    Some(Lock { is_clean, ..known })
                }
            }
        };
        self.posts[usize::from(station)].lock = lock;
    }
}
