//! Receiving half of the acknowledged mode: window, reassembly, status reports.
//!
//! A number at the receiver:
//!
//! ```text
//!              a later one arrives            arrives           all before are in
//!   not seen -----------------------> missing ---------> held ---------------------> assembled
//!      |                                 |                                              ^
//!      | arrives, all before are in      | Skip beyond it                               |
//!      |                                 v                                              |
//!      |                              skipped                                           |
//!      +--------------------------------------------------------------------------------+
//! ```

use super::number_set::{NumberSet, low_bits};
use super::numbered::Numbered;
use super::rlc::{Log, RlcParameters};
use super::timers::Timers;
use super::timing::deadline;
use super::{FrameKind, LinkEvent};
use lasthop_base::packet::Payload;
use lasthop_base::units::Instant;
use std::collections::VecDeque;

/// Numbers that one status report speaks of.
const REPORTED: u64 = 128;

/// Timers of the receiver: Timer_Status_Prohibit and Timer_Status_Periodic.
const PROHIBIT: usize = 0;
const PERIODIC: usize = 1;

/// VR(...) of TS 25.322, and the packets on their way up.
#[derive(Clone, Debug)]
pub(super) struct Receiver<P> {
    /// VR(R): next number to assemble.
    pub expected: u64,
    /// VR(H): one beyond the highest number seen.
    seen: u64,
    /// Numbers held behind a missing one.
    held: NumberSet,
    /// Among them those that end their packet.
    ends: NumberSet,
    pieces: Numbered<Option<P>>,
    /// The packet whose pieces come before `expected`.
    partial: Option<P>,
    pub up: VecDeque<P>,

    /// A report is to go out.
    status_due: bool,
    /// A report was asked for while it was prohibited.
    status_held: bool,
    status_prohibited: bool,
    /// Where the report that has begun goes on.
    report_from: Option<u64>,
    /// Has a segment come since the last periodic report?
    is_active: bool,
    /// Answer to Skip.
    skip_ack: Option<u64>,
    pub timers: Timers<2>,
}

impl<P> Receiver<P> {
    pub fn new(window: u64) -> Self {
        Receiver {
            expected: 0,
            seen: 0,
            held: NumberSet::new(window),
            ends: NumberSet::new(window),
            pieces: Numbered::new(),
            partial: None,
            up: VecDeque::new(),
            status_due: false,
            status_held: false,
            status_prohibited: false,
            report_from: None,
            is_active: false,
            skip_ack: None,
            timers: Timers::default(),
        }
    }

    /// Forgets everything but what may go up.
    pub fn reset(&mut self) {
        for number in self.expected..self.seen {
            self.pieces[number] = None;
        }
        self.held.remove_range(self.expected, self.seen);
        self.ends.remove_range(self.expected, self.seen);
        (self.expected, self.seen) = (0, 0);
        self.partial = None;
        (self.status_due, self.status_held, self.status_prohibited) = (false, false, false);
        (self.report_from, self.skip_ack) = (None, None);
        self.is_active = false;
        self.timers = Timers::default();
    }
}

impl<P: Payload> Receiver<P> {
    /// Is there a control frame to send?
    #[inline]
    pub fn has_frame(&self) -> bool {
        self.status_due || self.report_from.is_some() || self.skip_ack.is_some()
    }

    /// The next control frame: kind and acknowledgment.
    #[inline]
    pub fn transmit(
        &mut self,
        now: Instant,
        set: &RlcParameters,
        log: &mut Log,
    ) -> Option<(FrameKind, Option<u64>)> {
        if let Some(next) = self.skip_ack.take() {
            return Some((FrameKind::SkipAck { next }, None));
        }
        if self.status_due {
            self.status_due = false;
            if let Some(prohibit) = set.status_prohibit {
                self.status_prohibited = true;
                self.timers.set(PROHIBIT, deadline(now, prohibit));
            }
            return Some(self.report(self.expected, Some(self.seen), log));
        }
        let from = self.report_from?;
        // Whole within what has been seen: a further frame has no end of its own.
        Some(self.report(from.min(self.seen - REPORTED), None, log))
    }

    /// One frame of a report.
    fn report(&mut self, first: u64, ack: Option<u64>, log: &mut Log) -> (FrameKind, Option<u64>) {
        log.counters.statuses += 1;
        let mut missing = [0; 2];
        if self.seen > first {
            for (half, word) in (0..).zip(&mut missing) {
                let from = first + 64 * half;
                *word = !self.held.look(from) & low_bits(self.seen.saturating_sub(from));
                let mut left = *word;
                while left != 0 {
                    let sequence = from + u64::from(left.trailing_zeros());
                    log.counters.nacks += 1;
                    log.events.push_back(LinkEvent::NackSent { sequence });
                    left &= left - 1;
                }
            }
        }
        self.report_from = self.held.first_absent(first + REPORTED, self.seen);
        (FrameKind::Status { first, missing }, ack)
    }

    /// A report is asked for.
    #[inline]
    fn trigger(&mut self) {
        if self.status_prohibited {
            self.status_held = true;
        } else {
            self.status_due = true;
        }
    }

    /// A segment has arrived.
    #[inline]
    pub fn on_segment(
        &mut self,
        now: Instant,
        (sequence, is_last, poll): (u64, bool, bool),
        piece: P,
        set: &RlcParameters,
        log: &mut Log,
    ) {
        if poll {
            self.trigger();
        }
        if let Some(period) = set.status_periodic {
            self.is_active = true;
            if !self.timers.is_set(PERIODIC) {
                self.timers.set(PERIODIC, deadline(now, period));
            }
        }
        if sequence == self.expected && self.seen == sequence {
            self.seen += 1;
            self.expected += 1;
            return self.assemble(piece, is_last);
        }
        self.out_of_turn(sequence, is_last, piece, set, log);
    }

    /// A segment behind a missing one, one that was missing, or one that is not wanted.
    fn out_of_turn(
        &mut self,
        sequence: u64,
        is_last: bool,
        piece: P,
        set: &RlcParameters,
        log: &mut Log,
    ) {
        let Some(offset) = sequence.checked_sub(self.expected) else {
            log.counters.duplicates += 1;
            return;
        };
        if offset >= u64::from(set.window) {
            // A correct sender cannot be there.
            log.counters.discarded += 1;
            return;
        }
        if offset == 0 {
            self.expected += 1;
            self.assemble(piece, is_last);
            self.release();
            return;
        }
        if !self.held.insert(sequence) {
            log.counters.duplicates += 1;
            return;
        }
        if is_last {
            self.ends.insert(sequence);
        }
        self.pieces.reach(self.expected, sequence);
        self.pieces[sequence] = Some(piece);
        if sequence >= self.seen {
            if sequence > self.seen && set.status_on_gap {
                self.trigger();
            }
            self.seen = sequence + 1;
        }
        self.shorten_report();
    }

    /// What was held behind the number that has just come is no longer.
    fn release(&mut self) {
        while self.held.remove(self.expected) {
            let piece = self.pieces[self.expected].take();
            let is_last = self.ends.remove(self.expected);
            self.expected += 1;
            if let Some(piece) = piece {
                self.assemble(piece, is_last);
            }
        }
        self.seen = self.seen.max(self.expected);
        self.shorten_report();
    }

    /// The rest of a report has no more to say of what has come meanwhile.
    fn shorten_report(&mut self) {
        if let Some(from) = self.report_from {
            self.report_from = self.held.first_absent(from.max(self.expected), self.seen);
            // All that is missing fits into a frame of its own.
            if self.report_from.is_some() && self.seen - self.expected <= REPORTED {
                self.report_from = None;
                self.trigger();
            }
        }
    }

    /// The next piece in order.
    #[inline]
    fn assemble(&mut self, piece: P, is_last: bool) {
        let packet = match self.partial.take() {
            None => piece,
            Some(mut packet) => {
                packet.append(&piece);
                packet
            }
        };
        if is_last {
            self.up.push_back(packet);
        } else {
            self.partial = Some(packet);
        }
    }

    /// The peer has given up all before `next`.
    pub fn on_skip(&mut self, next: u64, set: &RlcParameters, log: &mut Log) {
        if next > self.expected + u64::from(set.window) + 1 {
            log.counters.discarded += 1;
            return;
        }
        self.skip_ack = Some(next);
        if next < self.expected {
            return;
        }
        // A packet ends before `next`, whether it has come or not.
        self.partial = None;
        for number in self.expected..next {
            if self.held.remove(number) {
                self.ends.remove(number);
                self.pieces[number] = None;
            } else {
                log.counters.skipped += 1;
                log.events.push_back(LinkEvent::Abandoned { sequence: number });
            }
        }
        self.expected = next;
        self.release();
    }

    pub fn handle_timeout(&mut self, now: Instant, set: &RlcParameters) {
        if self.timers.take_due(PROHIBIT, now) {
            self.status_prohibited = false;
            self.status_due |= std::mem::take(&mut self.status_held);
        }
        if self.timers.take_due(PERIODIC, now)
            && let Some(period) = set.status_periodic
            && (std::mem::take(&mut self.is_active) || self.seen > self.expected)
        {
            // A report after a silence with nothing missing would say what the last one did.
            self.trigger();
            self.timers.set(PERIODIC, deadline(now, period));
        }
    }
}
