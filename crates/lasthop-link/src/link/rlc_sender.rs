//! Sending half of the acknowledged mode: segmentation, window, polls, discard; one machine whose parts share its rings, so
//! that it is one file.
//!
//! A PDU at the sender:
//!
//! ```text
//!           sent           report: it has arrived
//!  (none) --------> sent -------------------------> acknowledged --> (gone, when all before are)
//!                   ^  |
//!              sent |  | report: it is missing, fewer than n transmissions
//!                   |  v
//!                  queued: lowest number first, ahead of new PDUs
//! ```
//!
//! At the n-th transmission, or when its time is over, its whole SDU is given up. SDUs before it
//! are not: its numbers are skipped when they are all that the window waits for.

use super::fates::Fates;
use super::number_set::{NumberSet, low_bits};
use super::numbered::Numbered;
use super::rlc::{AtLimit, Log, RlcParameters};
use super::timers::Timers;
use super::timing::deadline;
use super::{Frame, FrameKind, LinkEvent};
use lasthop_base::packet::{LinkFate, Payload};
use lasthop_base::units::Instant;
use std::collections::VecDeque;

/// Timers of the sender: Timer_Poll, its prohibit and periodic ones, Timer_MRW, Timer_Discard.
const POLL: usize = 0;
const POLL_PROHIBIT: usize = 1;
const POLL_PERIODIC: usize = 2;
const SKIP: usize = 3;
const DISCARD: usize = 4;

/// A PDU in the window.
#[derive(Clone, Copy, Debug, Default)]
struct Pdu {
    /// Number of its SDU.
    sdu: u64,
    /// Start of its last transmission.
    sent: Instant,
    /// VT(DAT), counted after each transmission.
    transmissions: u32,
}

/// A packet and the numbers of its PDUs, `first` to before `end`, once the first has been sent.
#[derive(Clone, Debug)]
struct Sdu<P> {
    packet: P,
    bytes: u32,
    /// PDUs that it needs.
    count: u64,
    first: u64,
    end: u64,
    discard_at: Instant,
    is_abandoned: bool,
}

/// VT(...) of TS 25.322, and the packets that are not finished.
#[derive(Clone, Debug)]
pub(super) struct Sender<P> {
    payload: u32,
    frame_bytes: u32,
    /// Transmissions of a PDU at most: MaxDAT - 1.
    limit: Option<u32>,

    /// VT(A): oldest number that is not finished.
    pub base: u64,
    /// VT(S): number of the next new PDU.
    pub next: u64,
    pdus: Numbered<Pdu>,
    acknowledged: NumberSet,
    queued: NumberSet,

    sdus: VecDeque<Sdu<P>>,
    /// Number of the first of `sdus`.
    first_sdu: u64,
    /// Number of the SDU that the next new PDU belongs to.
    sending: u64,
    /// PDUs of that SDU that have been sent.
    pieces_sent: u64,
    /// PDUs that have never been sent, of all SDUs.
    unsent: u64,

    /// A poll is to go out.
    poll_pending: bool,
    poll_prohibited: bool,
    /// VT(S) when Timer_Poll was started.
    poll_mark: u64,
    /// VT(PDU) and VT(SDU).
    pdus_since_poll: u32,
    sdus_since_poll: u32,

    /// What the receiver is to be told to skip to.
    skip: Option<u64>,
    skip_due: bool,
    skips_sent: u32,
    /// The first SDU whose time is not over.
    discard_from: u64,
    pub timers: Timers<5>,
    /// What becomes of packets, where somebody asks.
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
            // What was to carry the poll may no longer: Timer_Poll sees to it.
            self.await_report(Instant::ZERO, number, set);
        }
    }

    #[inline]
    fn window_open(&self, set: &RlcParameters) -> bool {
        self.next < self.base + u64::from(set.window)
    }

    /// May a new or a queued PDU go out?
    #[inline]
    fn has_pdu(&self, set: &RlcParameters) -> bool {
        !self.queued.is_empty() || self.unsent > 0 && self.window_open(set)
    }

    /// Asks for a packet while at most one PDU is left, so that it knows whether that is the last.
    #[inline]
    pub fn wants_packet(&self, set: &RlcParameters) -> bool {
        self.unsent <= 1 && !self.skip_due && self.queued.is_empty() && self.window_open(set)
    }

    #[inline]
    pub fn has_frame(&self, set: &RlcParameters) -> bool {
        self.skip_due || self.has_pdu(set) || self.carrier().is_some()
    }

    /// Does Skip go out before anything else?
    #[inline]
    pub fn is_skip_due(&self) -> bool {
        self.skip_due
    }

    /// The PDU that is sent again because a poll needs one.
    #[inline]
    fn carrier(&self) -> Option<u64> {
        if !self.poll_pending || self.poll_prohibited {
            return None;
        }
        self.highest_open().filter(|&number| !self.is_at_limit(number))
    }

    /// The highest number that is sent, not acknowledged and not given up.
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

    /// The SDU of a number in the window.
    fn sdu_of(&self, number: u64) -> &Sdu<P> {
        &self.sdus[(self.pdus[number].sdu - self.first_sdu) as usize]
    }

    /// The receiver has all before `first` or skips it; of the 128 numbers from there on, those
    /// below `ack` are missing or not; without `ack`, all of them are. Returns whether the reset
    /// procedure is to begin.
    pub fn on_status(
        &mut self,
        now: Instant,
        (first, missing, ack): (u64, [u64; 2], Option<u64>),
        set: &RlcParameters,
        log: &mut Log,
    ) -> bool {
        let end = ack.unwrap_or(first + 128);
        if first > end || end > self.next {
            // A correct peer has not seen what was not sent.
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
            let mut arrived = !word & in_range;
            while arrived != 0 {
                let number = from + u64::from(arrived.trailing_zeros());
                arrived &= arrived - 1;
                if self.acknowledged.insert(number) {
                    self.queued.remove(number);
                }
            }
            let mut left = word & in_range;
            while left != 0 {
                let number = from + u64::from(left.trailing_zeros());
                left &= left - 1;
                if self.acknowledged.contains(number) || self.sdu_of(number).is_abandoned {
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
                    self.abandon(self.pdus[number].sdu, log);
                }
            }
        }
        if is_poll_answered {
            self.timers.stop(POLL);
        }
        self.finish_before(self.base);
        self.settle(now, set, log)
    }

    /// The receiver says that it has skipped to `next`.
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

    /// All before `number` are finished, and then what is acknowledged.
    #[inline]
    fn finish_before(&mut self, number: u64) {
        let number = number.max(self.base);
        let end = self.acknowledged.first_absent(number, self.next).unwrap_or(self.next);
        if end > self.base {
            self.acknowledged.remove_range(self.base, end);
            self.queued.remove_range(self.base, end);
            self.base = end;
        }
    }

    /// SDUs all of whose PDUs are finished.
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
                self.fates.finish(self.first_sdu, LinkFate::Acknowledged, packet);
            }
            self.first_sdu += 1;
        }
    }

    /// Puts in order what follows from a new VT(A) or an SDU given up. Returns whether the reset
    /// procedure is to begin.
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
            // What would have asked has been given up or acknowledged.
            self.await_report(now, number, set);
        }
        self.restart_discard();
        self.resolve_poll(now, set, log)
    }

    /// A report is asked for when the last transmission of this number is as old as a poll that
    /// nobody has answered.
    fn await_report(&mut self, now: Instant, number: u64, set: &RlcParameters) {
        let due = deadline(self.pdus[number].sent, set.poll_timeout);
        self.poll_pending = due <= now;
        if !self.poll_pending {
            self.poll_mark = self.poll_mark.max(number + 1);
            self.timers.set(POLL, due);
        }
    }

    /// A poll that only a PDU at its limit could carry: that PDU's SDU is given up instead, as
    /// VT(DAT) would reach MaxDAT, but not while a report of its last transmission may come.
    /// Returns whether the reset procedure is to begin.
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
                    self.abandon(self.pdus[number].sdu, log);
                    return self.settle(now, set, log);
                }
            }
        }
        false
    }

    /// Gives up an SDU of which PDUs may be sent, acknowledged, queued or not yet made; then
    /// `settle`.
    fn abandon(&mut self, number: u64, log: &mut Log) {
        let index = (number - self.first_sdu) as usize;
        let Some(sdu) = self.sdus.get_mut(index) else { return };
        sdu.is_abandoned = true;
        log.counters.packets += 1;
        log.counters.packets_abandoned += 1;
        if self.fates.are_kept() {
            self.fates.finish(number, LinkFate::Abandoned, Some(sdu.packet.clone()));
        }
        let (mut first, mut end) = (sdu.first, sdu.end);
        if number == self.sending {
            (first, end) = (self.next - self.pieces_sent, self.next);
            self.unsent -= sdu.count - self.pieces_sent;
            if self.pieces_sent > 0 {
                // A number that is never sent: without Skip the receiver cannot pass it, and take
                // the next SDU for the rest of this one.
                self.pdus.reach(self.base, self.next);
                self.pdus[self.next] = Pdu { sdu: number, sent: Instant::ZERO, transmissions: 0 };
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

    /// Forgets the numbers and every SDU of which something has been sent; what has not stays.
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

    /// Timer_Discard belongs to the oldest SDU whose time is not over.
    #[inline]
    fn restart_discard(&mut self) {
        self.discard_from = self.discard_from.max(self.first_sdu);
        let first = self.sdus.get((self.discard_from - self.first_sdu) as usize);
        match first.map_or(Instant::NEVER, |sdu| sdu.discard_at) {
            Instant::NEVER => self.timers.stop(DISCARD),
            at => self.timers.set(DISCARD, at),
        }
    }

    /// The time of the oldest SDUs is over. What has arrived as a whole is not given up.
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

    /// Returns whether the reset procedure is to begin.
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

impl<P: Payload + Clone> Sender<P> {
    #[inline]
    pub fn enqueue(&mut self, now: Instant, packet: P, set: &RlcParameters) {
        let bytes = packet.wire_bytes();
        let count = u64::from(bytes.div_ceil(self.payload).max(1));
        let discard_at = set.discard_after.map_or(Instant::NEVER, |after| deadline(now, after));
        let (first, end, is_abandoned) = (0, 0, false);
        self.sdus.push_back(Sdu { packet, bytes, count, first, end, discard_at, is_abandoned });
        self.unsent += count;
        if set.discard_after.is_some() && !self.timers.is_set(DISCARD) {
            self.restart_discard();
        }
    }

    #[inline]
    pub fn transmit(
        &mut self,
        now: Instant,
        set: &RlcParameters,
        log: &mut Log,
    ) -> Option<Frame<P>> {
        if self.skip_due {
            return self.transmit_skip(now, set);
        }
        if !self.queued.is_empty() {
            let sequence = self.queued.first(self.base, self.next)?;
            self.queued.remove(sequence);
            self.poll_pending |= self.queued.is_empty();
            return self.retransmit(now, sequence, set, log);
        }
        if self.unsent == 0 || !self.window_open(set) {
            let sequence = self.carrier()?;
            return self.retransmit(now, sequence, set, log);
        }
        let sequence = self.next;
        let sdu = self.sdus.get_mut((self.sending - self.first_sdu) as usize)?;
        if self.pieces_sent == 0 {
            (sdu.first, sdu.end) = (sequence, sequence + sdu.count);
        }
        self.pdus.reach(self.base, sequence);
        self.pdus[sequence] = Pdu { sdu: self.sending, sent: now, transmissions: 1 };
        self.next += 1;
        self.pieces_sent += 1;
        self.unsent -= 1;
        log.counters.data_frames += 1;
        let (is_last, piece) = piece(sdu, sequence, self.payload);
        if is_last {
            self.sending += 1;
            self.pieces_sent = 0;
            self.sdus_since_poll += 1;
            if set.poll_sdu.is_some_and(|every| self.sdus_since_poll >= every) {
                self.poll_pending = true;
                self.sdus_since_poll = 0;
            }
        }
        // A window that closes would wait for ever for a report that nobody asks for.
        self.poll_pending |= self.unsent == 0 || !self.window_open(set);
        let poll = self.poll(now, set, log);
        Some(self.frame(FrameKind::Segment { sequence, is_last, poll }, Some(piece)))
    }

    #[inline]
    pub fn frame(&self, kind: FrameKind, payload: Option<P>) -> Frame<P> {
        Frame { kind, ack: None, payload, bytes: self.frame_bytes, service: 0 }
    }

    fn retransmit(
        &mut self,
        now: Instant,
        sequence: u64,
        set: &RlcParameters,
        log: &mut Log,
    ) -> Option<Frame<P>> {
        let pdu = &mut self.pdus[sequence];
        pdu.sent = now;
        pdu.transmissions = pdu.transmissions.saturating_add(1);
        let sdu = self.sdus.get((pdu.sdu - self.first_sdu) as usize)?;
        let (is_last, piece) = piece(sdu, sequence, self.payload);
        log.counters.retransmissions += 1;
        log.events.push_back(LinkEvent::Retransmitted { sequence });
        self.fates.retry(pdu.sdu, &sdu.packet);
        let poll = self.poll(now, set, log);
        Some(self.frame(FrameKind::Segment { sequence, is_last, poll }, Some(piece)))
    }

    /// Does the PDU that goes out now carry a poll?
    #[inline]
    fn poll(&mut self, now: Instant, set: &RlcParameters, log: &mut Log) -> bool {
        if let Some(every) = set.poll_pdu {
            self.pdus_since_poll += 1;
            if self.pdus_since_poll >= every {
                self.poll_pending = true;
                self.pdus_since_poll = 0;
            }
        }
        if let Some(percent) = set.poll_window {
            let used = (self.next - self.base) * 100;
            self.poll_pending |= used >= u64::from(percent) * u64::from(set.window);
        }
        if let Some(period) = set.poll_periodic
            && !self.timers.is_set(POLL_PERIODIC)
        {
            self.timers.set(POLL_PERIODIC, deadline(now, period));
        }
        if !self.poll_pending || self.poll_prohibited {
            return false;
        }
        self.poll_pending = false;
        self.poll_mark = self.next;
        self.timers.set(POLL, deadline(now, set.poll_timeout));
        if let Some(prohibit) = set.poll_prohibit {
            self.poll_prohibited = true;
            self.timers.set(POLL_PROHIBIT, deadline(now, prohibit));
        }
        log.counters.polls += 1;
        true
    }

    #[cold]
    fn transmit_skip(&mut self, now: Instant, set: &RlcParameters) -> Option<Frame<P>> {
        let next = self.skip?;
        self.skip_due = false;
        self.skips_sent += 1;
        self.timers.set(SKIP, deadline(now, set.skip_timeout));
        Some(self.frame(FrameKind::Skip { next }, None))
    }
}

/// Does this PDU end its SDU, and what does it carry?
#[inline]
fn piece<P: Payload>(sdu: &Sdu<P>, sequence: u64, payload: u32) -> (bool, P) {
    // Within the packet, which is shorter than 2^32 bytes.
    let from = (sequence - sdu.first) as u32 * payload;
    let bytes = payload.min(sdu.bytes - from);
    (sequence + 1 == sdu.end, sdu.packet.slice(from, bytes))
}
