//! Receiving half of RLC acknowledged mode: window, reassembly, status reports.
//!
//! States of a sequence number:
//!
//! ```text
//!              later number received        received          all before received
//!   not seen -----------------------> missing ---------> held ---------------------> assembled
//!      |                                 |                                              ^
//!      | received, all before received   | Skip beyond it                               |
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

/// Sequence numbers covered by one frame of a status report.
const REPORTED: u64 = 128;

/// Timers of the receiver: Timer_Status_Prohibit and Timer_Status_Periodic.
const PROHIBIT: usize = 0;
const PERIODIC: usize = 1;

/// State variables VR(…) of TS 25.322, and the reassembled packets.
#[derive(Clone, Debug)]
pub(super) struct Receiver<P> {
    /// VR(R): next number to assemble.
    pub expected: u64,
    /// VR(H): highest number received plus 1.
    seen: u64,
    /// Numbers received out of order.
    held: NumberSet,
    /// Numbers in `held` whose segment ends its packet.
    ends: NumberSet,
    pieces: Numbered<Option<P>>,
    /// Packet reassembled from the segments before `expected`, not yet complete.
    partial: Option<P>,
    pub up: VecDeque<P>,

    /// Whether a report is to be sent.
    status_due: bool,
    /// Whether a report was triggered while reports were prohibited.
    status_held: bool,
    status_prohibited: bool,
    /// First number of the next frame of a report in progress.
    report_from: Option<u64>,
    /// Whether a segment has been received since the last periodic report.
    is_active: bool,
    /// Acknowledgment of Skip to send.
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

    /// Clears the state, except packets that are ready for delivery.
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
    /// Returns `true` if a control frame is to be sent.
    #[inline]
    pub fn has_frame(&self) -> bool {
        self.status_due || self.report_from.is_some() || self.skip_ack.is_some()
    }

    /// Returns the next control frame: kind and acknowledgment.
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
        // Ends at the highest number received at the latest: further frames of a report contain no
        // end.
        Some(self.report(from.min(self.seen - REPORTED), None, log))
    }

    /// Returns one frame of a report, starting at `first`.
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

    /// Triggers a report, unless reports are prohibited.
    #[inline]
    fn trigger(&mut self) {
        if self.status_prohibited {
            self.status_held = true;
        } else {
            self.status_due = true;
        }
    }

    /// Returns `true` if the segment is the next one, no segment is missing and no packet waits for
    /// delivery.
    #[inline]
    pub fn is_next(&self, sequence: u64) -> bool {
        sequence == self.expected && self.seen == sequence && self.up.is_empty()
    }

    /// Processes a received segment that [is the next one](Self::is_next), in `place`. Replaces it by
    /// the packet that it completes, if any.
    #[inline]
    pub fn on_next(
        &mut self,
        now: Instant,
        (is_last, poll): (bool, bool),
        place: &mut Option<P>,
        set: &RlcParameters,
    ) {
        self.note_segment(now, poll, set);
        self.seen += 1;
        self.expected += 1;
        match (&mut self.partial, &*place) {
            (Some(packet), Some(piece)) => {
                packet.append(piece);
                *place = if is_last { self.partial.take() } else { None };
            }
            (partial @ None, _) if !is_last => *partial = place.take(),
            _ => {}
        }
    }

    /// Triggers the reports that a received segment requires.
    #[inline]
    fn note_segment(&mut self, now: Instant, poll: bool, set: &RlcParameters) {
        if poll {
            self.trigger();
        }
        if let Some(period) = set.status_periodic {
            self.is_active = true;
            if !self.timers.is_set(PERIODIC) {
                self.timers.set(PERIODIC, deadline(now, period));
            }
        }
    }

    /// Processes a received segment.
    #[inline]
    pub fn on_segment(
        &mut self,
        now: Instant,
        (sequence, is_last, poll): (u64, bool, bool),
        piece: P,
        set: &RlcParameters,
        log: &mut Log,
    ) {
        self.note_segment(now, poll, set);
        if sequence == self.expected && self.seen == sequence {
            self.seen += 1;
            self.expected += 1;
            return self.assemble(piece, is_last);
        }
        self.out_of_turn(sequence, is_last, piece, set, log);
    }

    /// Processes a segment that is out of order, fills a gap, is a duplicate or is outside the
    /// window.
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
            // A correct sender does not exceed the window.
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

    /// Assembles the segments held behind a gap that has just been filled.
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

    /// Skips numbers received in the meantime in the remainder of a report.
    fn shorten_report(&mut self) {
        if let Some(from) = self.report_from {
            self.report_from = self.held.first_absent(from.max(self.expected), self.seen);
            // All missing numbers fit into one frame: a new report replaces the remainder.
            if self.report_from.is_some() && self.seen - self.expected <= REPORTED {
                self.report_from = None;
                self.trigger();
            }
        }
    }

    /// Appends the next segment in order.
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

    /// Processes a Skip: the peer has discarded all PDUs before `next`.
    pub fn on_skip(&mut self, next: u64, set: &RlcParameters, log: &mut Log) {
        if next > self.expected + u64::from(set.window) + 1 {
            log.counters.discarded += 1;
            return;
        }
        self.skip_ack = Some(next);
        if next < self.expected {
            return;
        }
        // A packet ends before `next`, whether or not that segment was received.
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
            // Without new or missing segments a report would repeat the last one.
            self.trigger();
            self.timers.set(PERIODIC, deadline(now, period));
        }
    }
}
