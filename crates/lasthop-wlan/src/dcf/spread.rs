//! Stations that are not all in range of each other. Each station senses the stations in its own range,
//! transmissions overlap, and each receiver reads sufficiently strong frames. Part of the
//! [medium](super::medium), for stations with positions.
//!
//! ```text
//!              backoff ends                 end of the frame
//!   +------+ ----------------> +----------+ ----------------> +---------+
//!   | idle |                   | transmit |                   | waiting | for CTS or acknowledgment
//!   +------+ <-----------------+----------+ <-- data, after --+---------+
//!     ^  |  end of a response     ^      SIFS and a CTS        |      |
//!     |  |                        |                            |      |
//!     |  +-- frame for it, SIFS --+       acknowledgment, or timeout  |
//!     +---------------------------------------------------------------+
//! ```
//!
//! For a station, the medium is busy while the station transmits or senses a frame, and until its NAV ends.
//! A NAV is set only by stations that have read the frame. The station's slots count from DIFS after that, or
//! from EIFS if it could not read the last frame that it sensed. When a frame begins, the station's counter
//! freezes, unless its backoff ends within a slot: it cannot have sensed the frame by then.
//!
//! A receiver attempts to read the first frame that reaches it. Frames that begin in the meantime disturb
//! it unless they are weaker by the capture threshold, both individually and in sum. A transmitting
//! station reads no frame. Responses follow SIFS after a frame without regard to the medium, except that an
//! RTS is not answered while the receiver's NAV is set (9.3.2.6). A sender that waits for a response
//! stops at its timeout or, if a frame has begun by then, at the end of that frame (9.3.2.8).
//!
//! *Access categories.* A host has one radio, and a backoff for each of its access categories. Of backoffs of a host
//! that end within a slot, that of the highest category transmits; the others behave as after a collision. While a
//! host exchanges frames, all its backoffs wait. In a TXOP, the next exchange follows SIFS after the response; other
//! hosts defer until the end of the exchange whose frames they have read, not until that of the TXOP.
//!
//! The medium has a single deadline, from a heap of pending events. Each frame requires one check of every
//! host. If all stations are in range of each other, the frames are identical to those of the
//! [medium](super::medium) with its single slot count, which is faster; a test compares the two.
//!
//! Source: IEEE Std 802.11-2012, 9.3. Limitations: propagation delay is not modelled; otherwise as in the medium.

use super::exchange::FrameExchange;
use super::medium::{Medium, Pair, Use};
use super::posts::{Answer, Due, Initiated, Lock, OnAir, Spread, Waiting};
use super::report::{AirFate, AirFrame, MediumEvent, PairId, StationId};
use super::space::{Position, Propagation};
use super::station::{Attempt, Station};
use crate::phy::Timing;
use lasthop_base::packet::Payload;
use lasthop_base::units::{Duration, Instant};
use std::cmp::Reverse;

impl<P: Payload + Clone> Medium<P> {
    /// Assigns a position to every host, in the order of addition, before any packet is sent. A station without
    /// access categories is a host.
    ///
    /// # Panics
    /// If the numbers of positions and hosts differ.
    pub fn place(&mut self, propagation: &Propagation, positions: &[Position]) {
        let mut hosts = 0u16;
        let number = |(index, station): (usize, &Station<P>)| {
            hosts += u16::from(usize::from(station.category.host) == index);
            hosts - 1
        };
        let host_of: Vec<_> = self.stations.iter().enumerate().map(number).collect();
        assert_eq!(positions.len(), usize::from(hosts), "a position a host");
        self.spread = Some(Box::new(Spread::new(propagation, positions, host_of)));
    }

    /// Processes all events that are due.
    #[cold]
    pub(super) fn handle_due(&mut self, now: Instant) {
        let Some(mut spread) = self.spread.take() else { return };
        while let Some(&Reverse((at, due))) = spread.due.peek()
            && at <= now
        {
            spread.due.pop();
            if spread.is_current(at, due) {
                match due {
                    Due::End { frame } => self.end(&mut spread, frame, at),
                    Due::Answer { host } => self.answer(&mut spread, host, at),
                    Due::Timeout { host, .. } => self.time_out(&mut spread, host, at),
                    Due::NavReset { host } => {
                        let post = &mut spread.posts[usize::from(host)];
                        (post.nav_reset, post.nav_until) = (None, at);
                        for station in spread.stations(host) {
                            spread.backoffs[usize::from(station)].access = None;
                        }
                        self.plan_host(&mut spread, host);
                    }
                    Due::Access { station, .. } => self.access(&mut spread, station, at),
                }
            }
        }
        spread.forget_what_is_over();
        self.spread = Some(spread);
    }

    /// Starts channel access of an idle station that has a new frame.
    #[cold]
    pub(super) fn begin_apart(&mut self, now: Instant, station: u16) {
        let Some(mut spread) = self.spread.take() else { return };
        let index = usize::from(station);
        let away = self.stations[index].away_until(now);
        if let Some(until) = away {
            self.stations[index].defer_until = until + self.timing.difs();
            self.draw_apart(&mut spread, station);
        }
        let post = &spread.posts[usize::from(spread.host(station))];
        let from = post.counts_from(&self.timing, self.stations[index].defer_until);
        let aifs = self.timing.slot * u64::from(self.stations[index].category.extra_slots);
        let is_engaged = post.is_busy() || post.answer.is_some();
        let is_idle = !is_engaged && now >= from + aifs && away.is_none();
        let counted = if is_idle { now.saturating_since(from).as_nanos() } else { 0 };
        let slots = spread.backoffs[index].slots;
        let is_over = u64::from(slots) <= counted / self.timing.slot.as_nanos();
        if is_idle && is_over {
            self.access(&mut spread, station, now);
        } else {
            if is_over && away.is_none() {
                self.draw_apart(&mut spread, station);
            }
            // Otherwise, the backoff after the previous frame continues.
            self.plan(&mut spread, station);
        }
        spread.forget_what_is_over();
        self.spread = Some(spread);
    }

    /// Samples a backoff.
    fn draw_apart(&mut self, spread: &mut Spread, index: u16) {
        let station = &mut self.stations[usize::from(index)];
        let window = station.contention_window();
        let slots = station.draw_backoff();
        let backoff = &mut spread.backoffs[usize::from(index)];
        backoff.slots = slots + station.category.extra_slots;
        backoff.unreported = self.reports.then_some((slots, window));
    }

    /// Schedules the transmissions of a host's stations.
    fn plan_host(&mut self, spread: &mut Spread, host: u16) {
        for station in spread.stations(host) {
            self.plan(spread, station);
        }
    }

    /// Schedules the transmission of a station with a frame for the end of its backoff, if it stays
    /// idle until then.
    fn plan(&mut self, spread: &mut Spread, index: u16) {
        let station = &self.stations[usize::from(index)];
        let post = &spread.posts[usize::from(spread.host(index))];
        let backoff = &mut spread.backoffs[usize::from(index)];
        let is_engaged = post.waiting.is_some() || post.answer.is_some();
        if post.is_busy() || is_engaged || backoff.access.is_some() {
            return;
        }
        let from = post.counts_from(&self.timing, station.defer_until);
        if let Some((slots, window)) = backoff.unreported.take() {
            let pair = station.next_pair().map(PairId);
            let from = from + self.timing.slot * u64::from(station.category.extra_slots);
            let station = StationId(index);
            self.events.push_back(MediumEvent::Backoff { station, pair, from, slots, window });
        }
        if !station.is_contending() {
            return;
        }
        let at = from + self.timing.slot * u64::from(backoff.slots);
        backoff.access = Some(at);
        backoff.turn = backoff.turn.wrapping_add(1);
        let due = Due::Access { station: index, turn: backoff.turn };
        spread.push(at, due);
    }

    /// Transmits for a station whose backoff has ended, unless it is out of range or a higher access category of
    /// its host transmits. Lower categories whose backoff ends within a slot are deferred as after a collision.
    fn access(&mut self, spread: &mut Spread, index: u16, now: Instant) {
        let own = &self.stations[usize::from(index)];
        let extra = own.category.extra_slots;
        if let Some(until) = own.away_until(now) {
            let backoff = &mut spread.backoffs[usize::from(index)];
            (backoff.access, backoff.slots) = (None, extra);
            self.stations[usize::from(index)].defer_until = until + self.timing.difs();
            self.plan(spread, index);
            return;
        }
        let sensed = now + self.timing.sensing;
        let (mut losers, mut is_loser) = (0u64, false);
        let stations = spread.stations(spread.host(index));
        for (place, other) in stations.clone().enumerate().filter(|&(_, other)| other != index) {
            if spread.backoffs[usize::from(other)].access.is_some_and(|at| at < sensed) {
                let other = &self.stations[usize::from(other)];
                is_loser |= other.category.priority > own.category.priority;
                losers |= 1 << place;
            }
        }
        if is_loser {
            // Its access remains, and is processed when the higher category transmits.
            return;
        }
        let backoff = &mut spread.backoffs[usize::from(index)];
        (backoff.access, backoff.slots) = (None, extra);
        self.begin_txop(index, now);
        let exchange = self.begin_exchange(now, index);
        self.initiate(spread, exchange, now);
        self.launch(spread, Answer { kind: *exchange.first(), exchange }, now);
        for (_, loser) in stations.enumerate().filter(|(place, _)| losers >> place & 1 == 1) {
            spread.backoffs[usize::from(loser)].access = None;
            self.count_internal_collision(loser);
            self.draw_apart(spread, loser);
        }
    }

    /// Records that a host initiates an exchange at `start`.
    fn initiate(&mut self, spread: &mut Spread, exchange: FrameExchange, start: Instant) {
        let host = spread.host(self.pairs[exchange.pair as usize].from);
        let initiated = Initiated { exchange, start, end: start, cause: Use::Error };
        spread.posts[usize::from(host)].initiated = Some(initiated);
        spread.airtime.open(start);
    }

    /// Transmits a frame that is due SIFS after the preceding one.
    fn answer(&mut self, spread: &mut Spread, host: u16, now: Instant) {
        let answer = spread.posts[usize::from(host)].answer.take();
        debug_assert!(answer.is_some(), "a due response has been prepared");
        if let Some(answer) = answer {
            self.launch(spread, answer, now);
        }
    }

    /// Transmits a frame of the exchange of a pair.
    fn launch(&mut self, spread: &mut Spread, frame: Answer, now: Instant) {
        let Answer { kind, exchange } = frame;
        let sensing = self.timing.sensing;
        let Pair { from: sender, to: receiver, .. } = self.pairs[exchange.pair as usize];
        let [sender, receiver] = [sender, receiver].map(|station| spread.host(station));
        let (from, to) = if kind.is_response() { (receiver, sender) } else { (sender, receiver) };
        self.count_frame(&exchange, kind, now);
        let free = spread.frames.iter().position(|frame| frame.is_over);
        let place = free.unwrap_or(spread.frames.len());
        let missed_by = free.map(|free| std::mem::take(&mut spread.frames[free].missed_by));
        let (end, missed_by) = (now + exchange.time(kind), missed_by.unwrap_or_default());
        let frame = OnAir { exchange, from, to, kind, start: now, end, is_over: false, missed_by };
        match free {
            Some(free) => spread.frames[free] = frame,
            None => spread.frames.push(frame),
        }
        let frame = place as u32;
        spread.push(end, Due::End { frame });
        // The transmitter cannot receive frames in progress.
        if !spread.posts[usize::from(from)].is_busy() {
            self.freeze_host(spread, from, [now, now]);
        }
        let post = &mut spread.posts[usize::from(from)];
        (post.is_sending, post.lock, post.nav_reset) = (true, None, None);
        for other in spread.frames.iter_mut().filter(|other| !other.is_over && other.from != from) {
            if !other.missed_by.contains(&from) {
                other.missed_by.push(from);
            }
        }
        for host in (0..spread.posts.len() as u16).filter(|&host| host != from) {
            let index = usize::from(host);
            if spread.reach.link(from, host).is_sensed {
                if !spread.posts[index].is_busy() {
                    self.freeze_host(spread, host, [now, now + sensing]);
                }
                let post = &mut spread.posts[index];
                post.sensed += 1;
                post.nav_reset = None;
            }
            let post = &spread.posts[index];
            if post.is_sending {
                spread.frames[place].missed_by.push(host);
            } else if post.answer.is_none() && self.is_present(spread, host, now) {
                spread.hear(frame, host);
            }
        }
    }

    /// Freezes the backoffs of a host whose medium becomes busy at `now`, except those that end before `sensed`. While
    /// the host waits for a response, they do not count.
    fn freeze_host(&self, spread: &mut Spread, host: u16, [now, sensed]: [Instant; 2]) {
        if spread.posts[usize::from(host)].waiting.is_some() {
            return;
        }
        for index in spread.stations(host) {
            let station = &self.stations[usize::from(index)];
            let (extra, defer) = (station.category.extra_slots, station.defer_until);
            spread.freeze(&self.timing, (index, extra), [now, sensed], defer);
        }
    }

    /// Returns `true` if a host is not out of range at `now`.
    fn is_present(&self, spread: &Spread, host: u16, now: Instant) -> bool {
        self.stations[usize::from(spread.stations(host).start)].away_until(now).is_none()
    }

    /// Finishes a transmission: determines the stations that have read the frame, and their
    /// responses.
    fn end(&mut self, spread: &mut Spread, number: u32, now: Instant) {
        let frame = &mut spread.frames[number as usize];
        frame.is_over = true;
        let OnAir { exchange, from, to, kind, start, end, .. } = *frame;
        let fate = self.fate(spread, number);
        self.show(&exchange, kind, [start, end], fate);
        let is_received = fate == AirFate::Received;
        let reserves = exchange.reserves(kind);
        let sender = if kind.is_response() { to } else { from };
        if let Some(initiated) = &mut spread.posts[usize::from(sender)].initiated {
            initiated.end = now;
            if fate == AirFate::Collided {
                initiated.cause = Use::Collision;
            }
        }
        let post = &mut spread.posts[usize::from(from)];
        (post.is_sending, post.is_damaged) = (false, false);
        if !post.is_busy() {
            post.idle_since = now;
        }
        if kind == AirFrame::Cts {
            // The sender reserves the medium for the exchange, like all stations that read the CTS.
            post.nav_until = post.nav_until.max(now + reserves);
        }
        for host in (0..spread.posts.len() as u16).filter(|&host| host != from) {
            let is_missed = spread.frames[number as usize].missed_by.contains(&host);
            let is_sensed = spread.reach.link(from, host).is_sensed;
            let post = &mut spread.posts[usize::from(host)];
            let lock = post.lock.take_if(|lock| lock.frame == number);
            let is_read =
                if host == to { is_received } else { lock.is_some_and(|lock| lock.is_clean) };
            if is_read && host != to && reserves > Duration::ZERO {
                let is_raised = now + reserves > post.nav_until;
                post.nav_until = post.nav_until.max(now + reserves);
                if kind == AirFrame::Rts && is_raised {
                    let reset = now + exchange.nav_reset(&self.timing);
                    post.nav_reset = Some(reset);
                    spread.due.push(Reverse((reset, Due::NavReset { host })));
                }
            }
            if is_sensed {
                post.sensed -= 1;
                if is_read || !is_missed {
                    post.is_damaged = !is_read;
                }
                if !post.is_busy() {
                    post.idle_since = now;
                }
            }
            if host == to && is_received {
                self.receive(spread, Answer { kind, exchange }, host, now);
            }
            // A host that waits for a response has received it, or stops waiting at the end of
            // another frame.
            if lock.is_some() && spread.posts[usize::from(host)].waiting.is_some() {
                self.fail(spread, host, now);
            }
        }
        spread.frames[number as usize].missed_by.clear();
        if let Some(&response) = exchange.next(kind).filter(|next| next.is_response()) {
            let is_refused = kind == AirFrame::Rts
                && is_received
                && !spread.posts[usize::from(to)].answer.is_some_and(|answer| {
                    answer.kind == response && answer.exchange.pair == exchange.pair
                });
            self.wait(spread, from, (response, is_refused), now);
        }
        for host in 0..spread.posts.len() as u16 {
            self.plan_host(spread, host);
        }
    }

    /// Returns the outcome of a frame at its receiver.
    fn fate(&mut self, spread: &Spread, number: u32) -> AirFate {
        let &OnAir { exchange, from, to, kind, start, end, .. } = &spread.frames[number as usize];
        let is_clean = |lock: Lock| lock.frame == number && lock.is_clean;
        let is_out_of_reach =
            !spread.reach.link(from, to).is_read || !self.is_present(spread, to, start);
        if is_out_of_reach {
            AirFate::Damaged
        } else if !spread.posts[usize::from(to)].lock.is_some_and(is_clean) {
            AirFate::Collided
        } else if self.is_frame_lost(&exchange, kind, [start, end]) {
            if kind.is_data() && self.is_header_readable(&exchange) {
                self.pass_up_damaged(self.pairs[exchange.pair as usize].from);
            }
            AirFate::Damaged
        } else {
            AirFate::Received
        }
    }

    /// Processes a frame at its receiver. A CTS or an acknowledgment is ignored if its sender no
    /// longer waits for it (9.3.2.8).
    fn receive(&mut self, spread: &mut Spread, frame: Answer, host: u16, now: Instant) {
        let Answer { kind, exchange } = frame;
        let post = &mut spread.posts[usize::from(host)];
        if kind.is_response() {
            let is_awaited = |waiting: &mut Waiting| waiting.response == kind;
            if post.waiting.take_if(is_awaited).is_none() {
                return;
            }
        }
        if kind == AirFrame::Rts && post.nav_until > now {
            return;
        }
        self.on_frame_read(&exchange, kind);
        match kind {
            AirFrame::Ack | AirFrame::BlockAck { .. } => self.succeed(spread, host, now),
            AirFrame::Rts | AirFrame::Cts => {}
            _ => self.pass_up(now, self.pairs[exchange.pair as usize].from),
        }
        if let Some(&kind) = exchange.next(kind) {
            spread.posts[usize::from(host)].answer = Some(Answer { kind, exchange });
            // A backoff that was about to end when the frame began is over, but the response is
            // sent first.
            for station in spread.stations(host) {
                let backoff = &mut spread.backoffs[usize::from(station)];
                if backoff.access.take().is_some() {
                    backoff.slots = self.stations[usize::from(station)].category.extra_slots;
                }
            }
            spread.push(now + exchange.sifs, Due::Answer { host });
        }
    }

    /// Starts waiting for the response to a frame.
    fn wait(
        &mut self,
        spread: &mut Spread,
        host: u16,
        (response, is_refused): (AirFrame, bool),
        now: Instant,
    ) {
        let post = &mut spread.posts[usize::from(host)];
        if let Some(initiated) = &mut post.initiated
            && is_refused
        {
            // The receiver has detected another exchange.
            initiated.cause = Use::Collision;
        }
        let until = now + self.timing.response_timeout;
        post.waiting = Some(Waiting { response, until });
        post.waiting_turn = post.waiting_turn.wrapping_add(1);
        let due = Due::Timeout { host, turn: post.waiting_turn };
        spread.push(until, due);
    }

    /// Handles a response timeout; if a frame has begun, the station waits for its end.
    fn time_out(&mut self, spread: &mut Spread, host: u16, now: Instant) {
        let Timing { sifs, slot, response_timeout, .. } = self.timing;
        let post = &spread.posts[usize::from(host)];
        let Some(Waiting { until, .. }) = post.waiting else { return };
        let start = post.lock.map(|lock| spread.frames[lock.frame as usize].start);
        // SIFS, a slot, and the time that a receiver needs to detect a frame.
        let rx_start = response_timeout.as_nanos().saturating_sub((sifs + slot).as_nanos());
        if start.is_none_or(|start| start + Duration::from_nanos(rx_start) > until) {
            self.fail(spread, host, now);
            self.plan_host(spread, host);
        }
    }

    /// Finishes an acknowledged attempt of a host, and starts the next exchange of its TXOP, if any.
    fn succeed(&mut self, spread: &mut Spread, host: u16, now: Instant) {
        let Some(initiated) = spread.posts[usize::from(host)].initiated.take() else {
            unreachable!("an acknowledgment is for an exchange")
        };
        spread.airtime.close(initiated.start, now, Use::Success);
        let time = now.saturating_since(initiated.start);
        let index = self.pairs[initiated.exchange.pair as usize].from;
        self.conclude(index, Attempt::Acknowledged, now, time);
        if let Some(start) = self.txop_continues(now, index, now) {
            let exchange = self.begin_exchange(start, index);
            self.initiate(spread, exchange, start);
            let answer = Answer { kind: *exchange.first(), exchange };
            spread.posts[usize::from(host)].answer = Some(answer);
            return spread.push(start, Due::Answer { host });
        }
        self.next_apart(spread, index, now);
    }

    /// Finishes a failed attempt of a host.
    fn fail(&mut self, spread: &mut Spread, host: u16, now: Instant) {
        let post = &mut spread.posts[usize::from(host)];
        let (Some(initiated), Some(waiting)) = (post.initiated.take(), post.waiting.take()) else {
            unreachable!("a station that waits has initiated an exchange")
        };
        let Initiated { exchange, start, end, cause } = initiated;
        spread.airtime.close(start, end, cause);
        let attempt = exchange.failed(waiting.response);
        if cause == Use::Collision {
            self.pairs[exchange.pair as usize].counters.collisions += 1;
            self.counters.collisions += 1;
        } else {
            self.count_error(exchange.pair, end.saturating_since(start));
        }
        let index = self.pairs[exchange.pair as usize].from;
        let delay = self.conclude(index, attempt, now, Duration::ZERO);
        // All access categories of the host have waited for the response.
        let from = now + self.timing.difs();
        for station in spread.stations(host) {
            let defer_until = &mut self.stations[usize::from(station)].defer_until;
            *defer_until = from.max(*defer_until);
        }
        self.stations[usize::from(index)].defer_until =
            delay.map_or(from, |delay| from.max(now + delay));
        self.next_apart(spread, index, now);
    }

    /// Selects the frame that a station sends next, and samples its backoff.
    fn next_apart(&mut self, spread: &mut Spread, index: u16, now: Instant) {
        self.stations[usize::from(index)].txop_end = None;
        self.has_frame(now, index);
        self.draw_apart(spread, index);
    }
}
