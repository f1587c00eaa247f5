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
//! The medium has a single deadline, from a heap of pending events. Each frame requires one check of every
//! station. If all stations are in range of each other, the frames are identical to those of the
//! [medium](super::medium) with its single slot count, which is faster; a test compares the two.
//!
//! Source: IEEE Std 802.11-2012, 9.3. Limitations: propagation delay is not modelled; otherwise as in the medium.

use super::medium::{Medium, Pair, Use};
use super::posts::{Answer, Due, Initiated, Lock, OnAir, Spread, Waiting};
use super::report::{AirFate, AirFrame, MediumEvent, PairId, StationId};
use super::space::{Position, Propagation};
use super::station::Attempt;
use crate::phy::Timing;
use lasthop_base::packet::Payload;
use lasthop_base::units::{Duration, Instant};
use std::cmp::Reverse;

impl<P: Payload + Clone> Medium<P> {
    /// Assigns a position to every station, in the order of addition, before any packet is sent.
    ///
    /// # Panics
    /// If the numbers of positions and stations differ.
    pub fn place(&mut self, propagation: &Propagation, positions: &[Position]) {
        assert_eq!(positions.len(), self.stations.len(), "a position a station");
        self.spread = Some(Box::new(Spread::new(propagation, positions)));
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
                    Due::Answer { station } => self.answer(&mut spread, station, at),
                    Due::Timeout { station, .. } => self.time_out(&mut spread, station, at),
                    Due::NavReset { station } => {
                        let post = &mut spread.posts[usize::from(station)];
                        (post.nav_reset, post.nav_until, post.access) = (None, at, None);
                        self.plan(&mut spread, station);
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
        let post = &spread.posts[index];
        let from = post.counts_from(&self.timing, self.stations[index].defer_until);
        let is_idle = !post.is_busy() && post.answer.is_none() && now >= from && away.is_none();
        let counted = if is_idle { now.saturating_since(from).as_nanos() } else { 0 };
        let is_over = u64::from(post.slots) <= counted / self.timing.slot.as_nanos();
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
        let post = &mut spread.posts[usize::from(index)];
        post.slots = slots;
        post.unreported = self.reports.then_some((slots, window));
    }

    /// Schedules the transmission of a station with a frame for the end of its backoff, if it stays
    /// idle until then.
    fn plan(&mut self, spread: &mut Spread, index: u16) {
        let station = &self.stations[usize::from(index)];
        let post = &mut spread.posts[usize::from(index)];
        let is_engaged = post.waiting.is_some() || post.answer.is_some() || post.access.is_some();
        if post.is_busy() || is_engaged {
            return;
        }
        let from = post.counts_from(&self.timing, station.defer_until);
        if let Some((slots, window)) = post.unreported.take() {
            let pair = station.next_pair().map(PairId);
            let station = StationId(index);
            self.events.push_back(MediumEvent::Backoff { station, pair, from, slots, window });
        }
        if !station.is_contending() {
            return;
        }
        let at = from + self.timing.slot * u64::from(post.slots);
        post.access = Some(at);
        post.turn = post.turn.wrapping_add(1);
        let due = Due::Access { station: index, turn: post.turn };
        spread.push(at, due);
    }

    /// Transmits for a station whose backoff has ended, unless it is out of range.
    fn access(&mut self, spread: &mut Spread, index: u16, now: Instant) {
        let post = &mut spread.posts[usize::from(index)];
        (post.access, post.slots) = (None, 0);
        if let Some(until) = self.stations[usize::from(index)].away_until(now) {
            self.stations[usize::from(index)].defer_until = until + self.timing.difs();
            self.plan(spread, index);
            return;
        }
        let exchange = self.begin_exchange(now, index);
        let post = &mut spread.posts[usize::from(index)];
        post.initiated = Some(Initiated { exchange, start: now, end: now, cause: Use::Error });
        spread.airtime.open(now);
        self.launch(spread, Answer { kind: exchange.first(), exchange }, now);
    }

    /// Transmits a frame that is due SIFS after the preceding one.
    fn answer(&mut self, spread: &mut Spread, index: u16, now: Instant) {
        let answer = spread.posts[usize::from(index)].answer.take();
        debug_assert!(answer.is_some(), "a due response has been prepared");
        if let Some(answer) = answer {
            self.launch(spread, answer, now);
        }
    }

    /// Transmits a frame of the exchange of a pair.
    fn launch(&mut self, spread: &mut Spread, frame: Answer, now: Instant) {
        let Answer { kind, exchange } = frame;
        let slot = self.timing.slot;
        let Pair { from: sender, to: receiver, .. } = self.pairs[exchange.pair as usize];
        let (from, to) = if kind.is_response() { (receiver, sender) } else { (sender, receiver) };
        self.count_frame(&exchange, kind);
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
        let post = &spread.posts[usize::from(from)];
        if !post.is_busy() {
            let defer = self.stations[usize::from(from)].defer_until;
            spread.freeze(&self.timing, from, [now, now], defer);
        }
        let post = &mut spread.posts[usize::from(from)];
        (post.is_sending, post.lock, post.nav_reset) = (true, None, None);
        for other in spread.frames.iter_mut().filter(|other| !other.is_over && other.from != from) {
            if !other.missed_by.contains(&from) {
                other.missed_by.push(from);
            }
        }
        for station in (0..spread.posts.len() as u16).filter(|&station| station != from) {
            let index = usize::from(station);
            if spread.reach.link(from, station).is_sensed {
                if !spread.posts[index].is_busy() {
                    let defer = self.stations[index].defer_until;
                    spread.freeze(&self.timing, station, [now, now + slot], defer);
                }
                let post = &mut spread.posts[index];
                post.sensed += 1;
                post.nav_reset = None;
            }
            let post = &spread.posts[index];
            if post.is_sending {
                spread.frames[place].missed_by.push(station);
            } else if post.answer.is_none() && self.stations[index].away_until(now).is_none() {
                spread.hear(frame, station);
            }
        }
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
        for station in (0..spread.posts.len() as u16).filter(|&station| station != from) {
            let is_missed = spread.frames[number as usize].missed_by.contains(&station);
            let is_sensed = spread.reach.link(from, station).is_sensed;
            let post = &mut spread.posts[usize::from(station)];
            let lock = post.lock.take_if(|lock| lock.frame == number);
            let is_read =
                if station == to { is_received } else { lock.is_some_and(|lock| lock.is_clean) };
            if is_read && station != to && reserves > Duration::ZERO {
                let is_raised = now + reserves > post.nav_until;
                post.nav_until = post.nav_until.max(now + reserves);
                if kind == AirFrame::Rts && is_raised {
                    let reset = now + exchange.nav_reset(&self.timing);
                    post.nav_reset = Some(reset);
                    spread.due.push(Reverse((reset, Due::NavReset { station })));
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
            if station == to && is_received {
                self.receive(spread, Answer { kind, exchange }, station, now);
            }
            // A station that waits for a response has received it, or stops waiting at the end of
            // another frame.
            if lock.is_some() && spread.posts[usize::from(station)].waiting.is_some() {
                self.fail(spread, station, now);
            }
        }
        spread.frames[number as usize].missed_by.clear();
        if let Some(response) = exchange.next(kind).filter(|next| next.is_response()) {
            let is_refused = kind == AirFrame::Rts
                && is_received
                && !spread.posts[usize::from(to)].answer.is_some_and(|answer| {
                    answer.kind == response && answer.exchange.pair == exchange.pair
                });
            self.wait(spread, from, (response, is_refused), now);
        }
        for station in 0..spread.posts.len() as u16 {
            self.plan(spread, station);
        }
    }

    /// Returns the outcome of a frame at its receiver.
    fn fate(&mut self, spread: &Spread, number: u32) -> AirFate {
        let &OnAir { exchange, from, to, kind, start, end, .. } = &spread.frames[number as usize];
        let is_clean = |lock: Lock| lock.frame == number && lock.is_clean;
        let is_out_of_reach = !spread.reach.link(from, to).is_read
            || self.stations[usize::from(to)].away_until(start).is_some();
        if is_out_of_reach {
            AirFate::Damaged
        } else if !spread.posts[usize::from(to)].lock.is_some_and(is_clean) {
            AirFate::Collided
        } else if self.is_frame_lost(&exchange, kind, [start, end]) {
            if kind.is_data() && self.is_header_readable(&exchange) {
                self.pass_up_damaged(from);
            }
            AirFate::Damaged
        } else {
            AirFate::Received
        }
    }

    /// Processes a frame at its receiver. A CTS or an acknowledgment is ignored if its sender no
    /// longer waits for it (9.3.2.8).
    fn receive(&mut self, spread: &mut Spread, frame: Answer, station: u16, now: Instant) {
        let Answer { kind, exchange } = frame;
        let post = &mut spread.posts[usize::from(station)];
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
            AirFrame::Ack | AirFrame::BlockAck { .. } => self.succeed(spread, station, now),
            AirFrame::Rts | AirFrame::Cts => {}
            _ => self.pass_up(now, self.pairs[exchange.pair as usize].from),
        }
        if let Some(kind) = exchange.next(kind) {
            let post = &mut spread.posts[usize::from(station)];
            post.answer = Some(Answer { kind, exchange });
            // A backoff that was about to end when the frame began is over, but the response is
            // sent first.
            if post.access.take().is_some() {
                post.slots = 0;
            }
            spread.push(now + exchange.sifs, Due::Answer { station });
        }
    }

    /// Starts waiting for the response to a frame.
    fn wait(
        &mut self,
        spread: &mut Spread,
        index: u16,
        (response, is_refused): (AirFrame, bool),
        now: Instant,
    ) {
        let post = &mut spread.posts[usize::from(index)];
        if let Some(initiated) = &mut post.initiated
            && is_refused
        {
            // The receiver has detected another exchange.
            initiated.cause = Use::Collision;
        }
        let until = now + self.timing.response_timeout;
        post.waiting = Some(Waiting { response, until });
        post.waiting_turn = post.waiting_turn.wrapping_add(1);
        let due = Due::Timeout { station: index, turn: post.waiting_turn };
        spread.push(until, due);
    }

    /// Handles a response timeout; if a frame has begun, the station waits for its end.
    fn time_out(&mut self, spread: &mut Spread, index: u16, now: Instant) {
        let Timing { sifs, slot, response_timeout, .. } = self.timing;
        let post = &spread.posts[usize::from(index)];
        let Some(Waiting { until, .. }) = post.waiting else { return };
        let start = post.lock.map(|lock| spread.frames[lock.frame as usize].start);
        // SIFS, a slot, and the time that a receiver needs to detect a frame.
        let rx_start = response_timeout.as_nanos().saturating_sub((sifs + slot).as_nanos());
        if start.is_none_or(|start| start + Duration::from_nanos(rx_start) > until) {
            self.fail(spread, index, now);
            self.plan(spread, index);
        }
    }

    /// Finishes an acknowledged attempt of a station.
    fn succeed(&mut self, spread: &mut Spread, index: u16, now: Instant) {
        let Some(exchange) = spread.posts[usize::from(index)].initiated.take() else {
            unreachable!("an acknowledgment is for an exchange")
        };
        spread.airtime.close(exchange.start, now, Use::Success);
        let time = now.saturating_since(exchange.start);
        self.conclude(index, Attempt::Acknowledged, now, time);
        self.next_apart(spread, index, now);
    }

    /// Finishes a failed attempt of a station.
    fn fail(&mut self, spread: &mut Spread, index: u16, now: Instant) {
        let post = &mut spread.posts[usize::from(index)];
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
        let delay = self.conclude(index, attempt, now, Duration::ZERO);
        let difs = self.timing.difs();
        let from = delay.map_or(now + difs, |delay| (now + difs).max(now + delay));
        self.stations[usize::from(index)].defer_until = from;
        self.next_apart(spread, index, now);
    }

    /// Selects the frame that a station sends next, and samples its backoff.
    fn next_apart(&mut self, spread: &mut Spread, index: u16, now: Instant) {
        self.has_frame(now, index);
        self.draw_apart(spread, index);
    }
}
