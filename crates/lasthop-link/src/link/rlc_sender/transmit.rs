//! Transmission and retransmission of PDUs, and the triggers of polls.

use super::super::rlc::{Log, RlcParameters};
use super::super::timing::deadline;
use super::super::{Frame, FrameKind, LinkEvent};
use super::{DISCARD, POLL, POLL_PERIODIC, POLL_PROHIBIT, Pdu, SKIP, Sdu, Sender};
use lasthop_base::packet::Payload;
use lasthop_base::units::Instant;

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

    /// Writes the next frame, if any.
    #[inline]
    pub fn write(
        &mut self,
        now: Instant,
        set: &RlcParameters,
        log: &mut Log,
        frame: &mut Frame<P>,
    ) -> bool {
        if self.skip_due || !self.queued.is_empty() || self.unsent == 0 || !self.window_open(set) {
            return self.write_other(now, set, log, frame);
        }
        let sequence = self.next;
        let Some(sdu) = self.sdus.get_mut((self.sending - self.first_sdu) as usize) else {
            return false;
        };
        if self.pieces_sent == 0 {
            (sdu.first, sdu.end) = (sequence, sequence + sdu.count);
        }
        self.pdus.reach(self.base, sequence);
        self.pdus[sequence] = Pdu { sdu: self.sending as u32, sent: now, transmissions: 1 };
        self.next += 1;
        self.pieces_sent += 1;
        self.unsent -= 1;
        log.counters.data_frames += 1;
        let is_last = write_piece(sdu, sequence, self.payload, &mut frame.payload);
        if is_last {
            self.sending += 1;
            self.pieces_sent = 0;
            self.sdus_since_poll += 1;
            if set.poll_sdu.is_some_and(|every| self.sdus_since_poll >= every) {
                self.poll_pending = true;
                self.sdus_since_poll = 0;
            }
        }
        // A poll with the last PDU that the window allows: otherwise no report would ever reopen
        // it.
        self.poll_pending |= self.unsent == 0 || !self.window_open(set);
        let poll = self.poll(now, set, log);
        self.write_kind(FrameKind::Segment { sequence, is_last, poll }, frame);
        true
    }

    /// Writes the next frame other than a new PDU, if any.
    #[inline(never)]
    fn write_other(
        &mut self,
        now: Instant,
        set: &RlcParameters,
        log: &mut Log,
        frame: &mut Frame<P>,
    ) -> bool {
        if self.skip_due {
            return self.write_skip(now, set, frame);
        }
        let number = match self.queued.is_empty() {
            true => self.carrier(),
            false => self.queued.first(self.base, self.next),
        };
        let Some(sequence) = number else { return false };
        if !self.queued.is_empty() {
            self.queued.remove(sequence);
            self.poll_pending |= self.queued.is_empty();
        }
        self.write_again(now, sequence, set, log, frame)
    }

    /// Returns a frame without a packet.
    #[inline]
    pub fn control(&self, kind: FrameKind) -> Frame<P> {
        Frame { kind, ack: None, payload: None, bytes: self.frame_bytes, service: 0 }
    }

    /// Writes all of a frame except its payload.
    #[inline]
    fn write_kind(&self, kind: FrameKind, frame: &mut Frame<P>) {
        frame.kind = kind;
        frame.ack = None;
        frame.bytes = self.frame_bytes;
        frame.service = 0;
    }

    fn write_again(
        &mut self,
        now: Instant,
        sequence: u64,
        set: &RlcParameters,
        log: &mut Log,
        frame: &mut Frame<P>,
    ) -> bool {
        let number = self.sdu_number(sequence);
        let pdu = &mut self.pdus[sequence];
        pdu.sent = now;
        pdu.transmissions = pdu.transmissions.saturating_add(1);
        let Some(sdu) = self.sdus.get((number - self.first_sdu) as usize) else { return false };
        let is_last = write_piece(sdu, sequence, self.payload, &mut frame.payload);
        log.counters.retransmissions += 1;
        log.events.push_back(LinkEvent::Retransmitted { sequence });
        self.fates.retry(number, &sdu.packet);
        let poll = self.poll(now, set, log);
        self.write_kind(FrameKind::Segment { sequence, is_last, poll }, frame);
        true
    }

    /// Updates the poll triggers. Returns `true` if the PDU to be sent carries a poll.
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
    fn write_skip(&mut self, now: Instant, set: &RlcParameters, frame: &mut Frame<P>) -> bool {
        let Some(next) = self.skip else { return false };
        self.skip_due = false;
        self.skips_sent += 1;
        self.timers.set(SKIP, deadline(now, set.skip_timeout));
        *frame = self.control(FrameKind::Skip { next });
        true
    }
}

/// Writes the segment with this number to `place`. Returns whether it is the last of its SDU.
#[inline]
fn write_piece<P: Payload>(
    sdu: &Sdu<P>,
    sequence: u64,
    payload: u32,
    place: &mut Option<P>,
) -> bool {
    // Within the packet, whose length is below 2^32 bytes.
    let from = (sequence - sdu.first) as u32 * payload;
    let bytes = payload.min(sdu.bytes - from);
    *place = Some(sdu.packet.slice(from, bytes));
    sequence + 1 == sdu.end
}
