//! Sending half of RLC acknowledged mode: segmentation, window, polling and SDU discard. One file,
//! since these parts share the same ring buffers.
//!
//! States of a PDU at the sender:
//!
//! ```text
//!           sent           reported received
//!  (none) --------> sent --------------------> acknowledged --> (removed, when all before are)
//!                   ^  |
//!              sent |  | reported missing, fewer than n transmissions
//!                   |  v
//!                  queued: lowest number first, before new PDUs
//! ```
//!
//! When a PDU is missing after its n-th transmission, or when Timer_Discard expires, the whole SDU
//! is discarded. Earlier SDUs are kept. Skip is sent for the numbers of discarded SDUs when the
//! lower edge of the window reaches them.

mod transmit;

use super::LinkEvent;
use super::delivery_reports::Fates;
use super::number_set::{NumberSet, low_bits};
use super::numbered::Numbered;
use super::rlc::{AtLimit, Log, RlcParameters};
use super::timers::Timers;
use super::timing::deadline;
use lasthop_base::packet::DeliveryReport;
use lasthop_base::units::Instant;
use std::collections::VecDeque;

/// Timers of the sender: Timer_Poll, Timer_Poll_Prohibit, Timer_Poll_Periodic, Timer_MRW,
/// Timer_Discard.
const POLL: usize = 0;
const POLL_PROHIBIT: usize = 1;
const POLL_PERIODIC: usize = 2;
const SKIP: usize = 3;
const DISCARD: usize = 4;

/// A PDU in the window.
#[derive(Clone, Copy, Debug, Default)]
struct Pdu {
    /// The low bits of the number of its SDU; see [`Sender::sdu_number`].
    sdu: u32,
    /// Start of its last transmission.
    sent: Instant,
    /// VT(DAT), incremented after each transmission.
    transmissions: u32,
}

/// A packet and the sequence numbers of its PDUs, `first` to `end` (exclusive), set when the first
/// one is sent.
#[derive(Clone, Debug)]
struct Sdu<P> {
    packet: P,
    bytes: u32,
    /// Number of PDUs of the SDU.
    count: u64,
    first: u64,
    end: u64,
    discard_at: Instant,
    is_abandoned: bool,
}

/// State variables VT(…) of TS 25.322, and the packets neither acknowledged nor discarded.
#[derive(Clone, Debug)]
pub(super) struct Sender<P> {
    payload: u32,
    frame_bytes: u32,
    /// Maximum number of transmissions per PDU: MaxDAT - 1.
    limit: Option<u32>,

    /// VT(A): oldest number neither acknowledged nor skipped.
    pub base: u64,
    /// VT(S): number of the next new PDU.
    pub next: u64,
    pdus: Numbered<Pdu>,
    acknowledged: NumberSet,
    queued: NumberSet,

    sdus: VecDeque<Sdu<P>>,
    /// Number of the first of `sdus`.
    first_sdu: u64,
    /// Number of the SDU of the next new PDU.
    sending: u64,
    /// PDUs of that SDU sent so far.
    pieces_sent: u64,
    /// PDUs of all SDUs that have not been sent yet.
    unsent: u64,

    /// Whether a poll is to be sent.
    poll_pending: bool,
    poll_prohibited: bool,
    /// VT(S) when Timer_Poll was started.
    poll_mark: u64,
    /// VT(PDU) and VT(SDU).
    pdus_since_poll: u32,
    sdus_since_poll: u32,

    /// First number after the PDUs that the receiver is requested to skip.
    skip: Option<u64>,
    skip_due: bool,
    skips_sent: u32,
    /// First SDU whose discard time has not expired.
    discard_from: u64,
    pub timers: Timers<5>,
    /// Delivery reports, if enabled.
    pub fates: Fates<P>,
}

impl<P: Clone> Sender<P> {
    pub fn new(set: &RlcParameters, header: u32, payload: u32) -> Self {
        // One number more than the window: see `abandon`.
        let span = u64::from(set.window) + 1;
        Sender {
            payload,
            frame_bytes: header + payload,
            limit: set.max_transmissions,
            base: 0,
            next: 0,
            pdus: Numbered::new(),
            acknowledged: NumberSet::new(span),
            queued: NumberSet::new(span),
            sdus: VecDeque::new(),
            first_sdu: 0,
            sending: 0,
            pieces_sent: 0,
            unsent: 0,
            poll_pending: false,
            poll_prohibited: false,
            poll_mark: 0,
            pdus_since_poll: 0,
            sdus_since_poll: 0,
            skip: None,
            skip_due: false,
            skips_sent: 0,
            discard_from: 0,
            timers: Timers::default(),
            fates: Fates::default(),
        }
    }

    pub fn limit(&mut self, limit: Option<u32>, set: &RlcParameters) {
        self.limit = limit.map(|limit| limit.max(1));
        if self.poll_pending
            && !self.poll_prohibited
            && !self.has_pdu(set)
            && !self.timers.is_set(POLL)
            && let Some(number) = self.highest_open()
            && self.is_at_limit(number)
        {
            // No PDU may carry the pending poll any longer: Timer_Poll resolves this.
            self.await_report(Instant::ZERO, number, set);
        }
    }

    #[inline]
    fn window_open(&self, set: &RlcParameters) -> bool {
        self.next < self.base + u64::from(set.window)
    }

    /// Returns `true` if a new or a queued PDU can be sent.
    #[inline]
    fn has_pdu(&self, set: &RlcParameters) -> bool {
        !self.queued.is_empty() || self.unsent > 0 && self.window_open(set)
    }

    /// Returns `true` while at most one PDU is unsent, so that the sender can detect the last PDU
    /// before its buffer empties.
    #[inline]
    pub fn wants_packet(&self, set: &RlcParameters) -> bool {
        self.unsent <= 1 && !self.skip_due && self.queued.is_empty() && self.window_open(set)
    }

    #[inline]
    pub fn has_frame(&self, set: &RlcParameters) -> bool {
        self.skip_due || self.has_pdu(set) || self.carrier().is_some()
    }

    /// Returns `true` if Skip must be sent before anything else.
    #[inline]
    pub fn is_skip_due(&self) -> bool {
        self.skip_due
    }

    /// Returns the PDU that is retransmitted only to carry a pending poll.
    #[inline]
    fn carrier(&self) -> Option<u64> {
        if !self.poll_pending || self.poll_prohibited {
            return None;
        }
        self.highest_open().filter(|&number| !self.is_at_limit(number))
    }

    /// Returns the highest number sent that is neither acknowledged nor discarded.
    fn highest_open(&self) -> Option<u64> {
        let is_open = |&number: &u64| {
            !self.acknowledged.contains(number) && !self.sdu_of(number).is_abandoned
        };
        (self.base..self.next).rev().find(is_open)
    }

    fn is_at_limit(&self, number: u64) -> bool {
        let sent = self.pdus[number].transmissions;
        self.limit.is_some_and(|limit| sent >= limit)
    }

    /// Returns the number of the SDU of a number in the window.
    #[inline]
    fn sdu_number(&self, number: u64) -> u64 {
        let later = self.pdus[number].sdu.wrapping_sub(self.first_sdu as u32);
        self.first_sdu + u64::from(later)
    }

    /// Returns the SDU of a number in the window.
    fn sdu_of(&self, number: u64) -> &Sdu<P> {
        &self.sdus[(self.sdu_number(number) - self.first_sdu) as usize]
    }

    /// Processes a status report. The receiver has received or skipped all PDUs before `first`. Of
    /// the 128 PDUs starting at `first`, the bits of `missing` apply to those below `ack`; without
    /// `ack` to all 128. Returns `true` if the reset procedure must be started.
    pub fn on_status(
        &mut self,
        now: Instant,
        (first, missing, ack): (u64, [u64; 2], Option<u64>),
        set: &RlcParameters,
        log: &mut Log,
    ) -> bool {
        let end = ack.unwrap_or(first + 128);
        if first > end || end > self.next {
            // A correct peer does not acknowledge unsent PDUs.
            return false;
        }
        if ack.is_some() {
            self.finish_before(first);
        }
        let mut is_poll_answered = false;
        for (half, word) in (0..).zip(missing) {
            let from = first + 64 * half;
            let in_range =
                low_bits(end.saturating_sub(from)) & !low_bits(self.base.saturating_sub(from));
            let open = in_range & !self.acknowledged.look(from);
            let mut arrived = !word & open;
            while arrived != 0 {
                let number = from + u64::from(arrived.trailing_zeros());
                arrived &= arrived - 1;
                self.acknowledged.insert(number);
                self.queued.remove(number);
            }
            let mut left = word & open;
            while left != 0 {
                let number = from + u64::from(left.trailing_zeros());
                left &= left - 1;
                if self.sdu_of(number).is_abandoned {
                    continue;
                }
                let age = now.saturating_since(self.pdus[number].sent);
                if age < set.nack_guard || self.queued.contains(number) {
                    continue;
                }
                is_poll_answered |= number + 1 == self.poll_mark;
                if !self.is_at_limit(number) {
                    self.queued.insert(number);
                } else if set.at_limit == AtLimit::Reset {
                    return true;
                } else {
                    self.abandon(self.sdu_number(number), log);
                }
            }
        }
        if is_poll_answered {
            self.timers.stop(POLL);
        }
        self.finish_before(self.base);
        self.settle(now, set, log)
    }

    /// Processes a SkipAck: the receiver has skipped to `next`. Returns `true` if the reset
    /// procedure must be started.
    pub fn on_skip_ack(
        &mut self,
        now: Instant,
        next: u64,
        set: &RlcParameters,
        log: &mut Log,
    ) -> bool {
        if next <= self.base || self.skip.is_none_or(|skip| next > skip) {
            return false;
        }
        self.finish_before(next);
        self.settle(now, set, log)
    }

    /// Advances VT(A) to `number` and then beyond all acknowledged PDUs.
    #[inline]
    fn finish_before(&mut self, number: u64) {
        let number = number.max(self.base);
        let mut end = number;
        if !self.acknowledged.is_empty() {
            end = self.acknowledged.first_absent(number, self.next).unwrap_or(self.next);
            self.acknowledged.remove_range(self.base, end);
        }
        self.queued.remove_range(self.base, end);
        self.base = end;
    }

    /// Removes the SDUs whose PDUs are all finished.
    #[inline]
    fn drop_finished(&mut self, log: &mut Log) {
        while self.first_sdu < self.sending
            && let Some(sdu) = self.sdus.front()
            && sdu.end <= self.base
        {
            let is_abandoned = sdu.is_abandoned;
            log.counters.packets += u64::from(!is_abandoned);
            let finished = self.sdus.pop_front();
            if self.fates.are_kept() && !is_abandoned {
                let packet = finished.map(|sdu| sdu.packet);
                self.fates.finish(self.first_sdu, DeliveryReport::Acknowledged, packet);
            }
            self.first_sdu += 1;
        }
    }

    /// Updates the state after VT(A) has advanced or an SDU was discarded. Returns `true` if the
    /// reset procedure must be started.
    fn settle(&mut self, now: Instant, set: &RlcParameters, log: &mut Log) -> bool {
        self.drop_finished(log);
        let finished = (self.sending - self.first_sdu) as usize;
        let given_up = self.sdus.iter().take(finished).take_while(|sdu| sdu.is_abandoned);
        let skip = given_up.last().map(|sdu| sdu.end);
        if skip != self.skip {
            (self.skip, self.skip_due, self.skips_sent) = (skip, skip.is_some(), 0);
            self.timers.stop(SKIP);
        }
        if self.base >= self.poll_mark {
            self.timers.stop(POLL);
        }
        if self.base < self.next
            && !self.poll_pending
            && !self.timers.is_set(POLL)
            && !self.has_pdu(set)
            && let Some(number) = self.highest_open()
        {
            // The PDU that would have carried a poll was discarded or acknowledged.
            self.await_report(now, number, set);
        }
        self.restart_discard();
        self.resolve_poll(now, set, log)
    }

    /// Schedules a poll for the time at which the last transmission of this number is as old as an
    /// unanswered poll (Timer_Poll).
    fn await_report(&mut self, now: Instant, number: u64, set: &RlcParameters) {
        let due = deadline(self.pdus[number].sent, set.poll_timeout);
        self.poll_pending = due <= now;
        if !self.poll_pending {
            self.poll_mark = self.poll_mark.max(number + 1);
            self.timers.set(POLL, due);
        }
    }

    /// Handles a pending poll that only a PDU at its transmission limit could carry: VT(DAT) would
    /// reach MaxDAT, so the SDU of that PDU is discarded. Waits as long as a report on its last
    /// transmission can still arrive. Returns `true` if the reset procedure must be started.
    fn resolve_poll(&mut self, now: Instant, set: &RlcParameters, log: &mut Log) -> bool {
        while self.poll_pending && !self.poll_prohibited && !self.has_pdu(set) {
            match self.highest_open() {
                None => self.poll_pending = false,
                Some(number) if !self.is_at_limit(number) => return false,
                Some(number) => {
                    self.await_report(now, number, set);
                    if !self.poll_pending {
                        return false;
                    }
                    if set.at_limit == AtLimit::Reset {
                        return true;
                    }
                    self.abandon(self.sdu_number(number), log);
                    return self.settle(now, set, log);
                }
            }
        }
        false
    }

    /// Discards an SDU, whose PDUs may be acknowledged, outstanding, queued or unsent. Call
    /// `settle` afterwards.
    fn abandon(&mut self, number: u64, log: &mut Log) {
        let index = (number - self.first_sdu) as usize;
        let Some(sdu) = self.sdus.get_mut(index) else { return };
        sdu.is_abandoned = true;
        log.counters.packets += 1;
        log.counters.packets_abandoned += 1;
        if self.fates.are_kept() {
            self.fates.finish(number, DeliveryReport::Abandoned, Some(sdu.packet.clone()));
        }
        let (mut first, mut end) = (sdu.first, sdu.end);
        if number == self.sending {
            (first, end) = (self.next - self.pieces_sent, self.next);
            self.unsent -= sdu.count - self.pieces_sent;
            if self.pieces_sent > 0 {
                // Reserves a number that is never sent. The receiver cannot pass it without Skip,
                // and therefore does not append the next SDU to the segments of this one.
                self.pdus.reach(self.base, self.next);
                let sdu = number as u32;
                self.pdus[self.next] = Pdu { sdu, sent: Instant::ZERO, transmissions: 0 };
                self.next += 1;
            }
            (sdu.first, sdu.end) = (first, self.next);
            self.sending += 1;
            self.pieces_sent = 0;
        }
        first = first.max(self.base);
        for sequence in first..end {
            if !self.acknowledged.contains(sequence) {
                self.queued.remove(sequence);
                log.counters.abandoned += 1;
                log.events.push_back(LinkEvent::Abandoned { sequence });
            }
        }
    }

    /// Resets the sequence numbers and discards every SDU of which a PDU has been sent. Unsent SDUs
    /// are kept.
    pub fn reset(&mut self, log: &mut Log) {
        self.drop_finished(log);
        let started = self.sending + u64::from(self.pieces_sent > 0);
        for number in self.first_sdu..started {
            if !self.sdus[(number - self.first_sdu) as usize].is_abandoned {
                self.abandon(number, log);
            }
        }
        self.sdus.drain(..(self.sending - self.first_sdu) as usize);
        self.first_sdu = self.sending;
        self.acknowledged.remove_range(self.base, self.next);
        self.queued.remove_range(self.base, self.next);
        (self.base, self.next, self.poll_mark) = (0, 0, 0);
        (self.poll_pending, self.poll_prohibited) = (false, false);
        (self.pdus_since_poll, self.sdus_since_poll) = (0, 0);
        (self.skip, self.skip_due, self.skips_sent) = (None, false, 0);
        self.timers = Timers::default();
        self.restart_discard();
    }

    /// Sets Timer_Discard to the discard time of the oldest SDU for which it has not expired.
    #[inline]
    fn restart_discard(&mut self) {
        self.discard_from = self.discard_from.max(self.first_sdu);
        let first = self.sdus.get((self.discard_from - self.first_sdu) as usize);
        match first.map_or(Instant::NEVER, |sdu| sdu.discard_at) {
            Instant::NEVER => self.timers.stop(DISCARD),
            at => self.timers.set(DISCARD, at),
        }
    }

    /// Discards the oldest SDUs on expiry of Timer_Discard, except those acknowledged completely.
    fn discard(&mut self, now: Instant, log: &mut Log) {
        while let Some(sdu) = self.sdus.get((self.discard_from - self.first_sdu) as usize)
            && sdu.discard_at <= now
        {
            let number = self.discard_from;
            let is_complete = number < self.sending
                && self.acknowledged.first_absent(sdu.first.max(self.base), sdu.end).is_none();
            if !is_complete && !sdu.is_abandoned {
                self.abandon(number, log);
            }
            self.discard_from += 1;
        }
    }

    /// Handles expired timers. Returns `true` if the reset procedure must be started.
    pub fn handle_timeout(&mut self, now: Instant, set: &RlcParameters, log: &mut Log) -> bool {
        if self.timers.next() > now {
            return false;
        }
        if self.timers.take_due(POLL, now) {
            log.counters.timeouts += 1;
            let sequence = self.poll_mark.saturating_sub(1);
            log.events.push_back(LinkEvent::TimedOut { sequence });
            self.poll_pending = true;
        }
        if self.timers.take_due(POLL_PROHIBIT, now) {
            self.poll_prohibited = false;
        }
        if self.timers.take_due(POLL_PERIODIC, now)
            && let Some(period) = set.poll_periodic
            && self.base < self.next
        {
            self.poll_pending = true;
            self.timers.set(POLL_PERIODIC, deadline(now, period));
        }
        if self.timers.take_due(SKIP, now) {
            if self.skips_sent >= set.max_skips {
                return true;
            }
            self.skip_due = true;
        }
        if self.timers.take_due(DISCARD, now) {
            self.discard(now, log);
        }
        self.settle(now, set, log)
    }
}
