//! What stations that do not all hear each other remember, and what is on the air: the state of
//! [spread](super::spread) stations, without what they send.

use super::airtime::Airtime;
use super::medium::Use;
use super::phy::Timing;
use super::report::{AirFrame, MediumCounters};
use super::space::{Position, Propagation, Reach};
use lasthop_base::units::{Duration, Instant};
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// What is due, in the order in which it happens if it is due at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Due {
    /// A frame on the air ends.
    End { frame: u32 },
    /// SIFS before an answer, or data behind a CTS, is over.
    Answer { station: u16 },
    /// Nobody has answered.
    Timeout { station: u16, turn: u32 },
    /// A NAV that an RTS has set ends unless something has followed.
    NavReset { station: u16 },
    /// A back-off is over.
    Access { station: u16, turn: u32 },
}

/// A frame on the air.
#[derive(Clone, Debug)]
pub(super) struct OnAir {
    /// The pair of the exchange that it belongs to.
    pub pair: u32,
    pub from: u16,
    pub to: u16,
    pub kind: AirFrame,
    pub start: Instant,
    pub end: Instant,
    pub reserves: Duration,
    pub is_over: bool,
    /// Who sensed it but transmitted meanwhile, and so does not know that it was a frame.
    pub deaf: Vec<u16>,
}

/// What a receiver tries to read.
#[derive(Clone, Copy, Debug)]
pub(super) struct Lock {
    pub frame: u32,
    pub is_clean: bool,
}

/// What a sender waits for.
#[derive(Clone, Copy, Debug)]
pub(super) struct Waiting {
    pub is_for_cts: bool,
    pub until: Instant,
}

/// A frame that follows another one after SIFS.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Answer {
    pub kind: AirFrame,
    /// The pair of the exchange.
    pub pair: u32,
    /// Its duration field: that of the frame before, less SIFS and itself.
    pub reserves: Duration,
}

/// An exchange of a station's own.
#[derive(Clone, Copy, Debug)]
pub(super) struct Exchange {
    pub start: Instant,
    /// The end of its last frame.
    pub end: Instant,
    /// What it was, if it fails.
    pub cause: Use,
}

/// A station in its place.
#[derive(Clone, Debug, Default)]
pub(super) struct Post {
    /// Frames of others that it senses.
    pub sensed: u32,
    /// It transmits.
    pub is_sending: bool,
    pub lock: Option<Lock>,
    /// It could not read what it sensed last.
    pub is_damaged: bool,
    /// When it last was busy, without its NAV.
    pub idle_since: Instant,
    pub nav_until: Instant,
    pub nav_reset: Option<Instant>,
    /// Slots of its back-off that are left, as of the time from which they count.
    pub slots: u32,
    /// When it transmits, if nothing comes in between; `turn` tells that from what was due before.
    pub access: Option<Instant>,
    pub turn: u32,
    pub waiting: Option<Waiting>,
    pub waiting_turn: u32,
    /// The frame that it sends after SIFS. Until then it reads no other frame.
    pub answer: Option<Answer>,
    pub exchange: Option<Exchange>,
    /// A back-off that an observer has not been told of: slots and window.
    pub untold: Option<(u32, u32)>,
}

impl Post {
    pub fn is_busy(&self) -> bool {
        self.is_sending || self.sensed > 0
    }

    /// When its slots count, if it stays idle. `defer_until`: not before that.
    pub fn counts_from(&self, timing: &Timing, defer_until: Instant) -> Instant {
        let space = if self.is_damaged { timing.eifs() } else { timing.difs() };
        let nav = self.nav_until + timing.difs();
        (self.idle_since + space).max(nav).max(defer_until)
    }
}

/// What a medium of stations with positions remembers.
#[derive(Clone, Debug)]
pub(super) struct Spread {
    pub reach: Reach,
    pub posts: Vec<Post>,
    pub frames: Vec<OnAir>,
    pub due: BinaryHeap<Reverse<(Instant, Due)>>,
    pub airtime: Airtime,
}

impl Spread {
    /// Stations at these places, all of them idle.
    pub fn new(propagation: &Propagation, positions: &[Position]) -> Self {
        Spread {
            reach: Reach::new(propagation, positions),
            posts: vec![Post::default(); positions.len()],
            frames: Vec::new(),
            due: BinaryHeap::new(),
            airtime: Airtime::default(),
        }
    }

    /// Frames on the air, by number.
    pub fn on_air(&self) -> impl Iterator<Item = (u32, &OnAir)> {
        let numbered = self.frames.iter().enumerate();
        numbered.filter(|(_, frame)| !frame.is_over).map(|(number, frame)| (number as u32, frame))
    }

    pub fn push(&mut self, at: Instant, due: Due) {
        self.due.push(Reverse((at, due)));
    }

    /// Is it still to happen?
    pub fn is_current(&self, at: Instant, due: Due) -> bool {
        match due {
            Due::End { .. } | Due::Answer { .. } => true,
            Due::Timeout { station, turn } => {
                let post = &self.posts[usize::from(station)];
                post.waiting.is_some() && post.waiting_turn == turn
            }
            Due::NavReset { station } => self.posts[usize::from(station)].nav_reset == Some(at),
            Due::Access { station, turn } => {
                let post = &self.posts[usize::from(station)];
                post.access.is_some() && post.turn == turn
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

    /// Adds to what the medium has counted.
    pub fn counters(&self, now: Instant, counted: MediumCounters) -> MediumCounters {
        let [success_time, collision_time, error_time] = self.airtime.by(now);
        MediumCounters { success_time, collision_time, error_time, ..counted }
    }

    /// The medium becomes busy to an idle station: it keeps the slots that are left. A back-off that ends
    /// before `sensed` goes on.
    pub fn freeze(
        &mut self,
        timing: &Timing,
        station: u16,
        [now, sensed]: [Instant; 2],
        defer: Instant,
    ) {
        let post = &mut self.posts[usize::from(station)];
        if post.access.is_some_and(|at| at < sensed) {
            return;
        }
        post.access = None;
        let counted = now.saturating_since(post.counts_from(timing, defer)).as_nanos();
        post.slots = post.slots.saturating_sub((counted / timing.slot.as_nanos()) as u32);
    }

    /// A frame begins to reach a station that does not transmit.
    pub fn hear(&mut self, number: u32, station: u16) {
        let frame = &self.frames[number as usize];
        let survives = |number: u32, from: u16| {
            // One that ends as this one begins does not meet it.
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
