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
        self.pdus[sequence] = Pdu { sdu: self.sending as u32, sent: now, transmissions: 1 };
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
        // A poll with the last PDU that the window allows: otherwise no report would ever reopen
        // it.
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
        let number = self.sdu_number(sequence);
        let pdu = &mut self.pdus[sequence];
        pdu.sent = now;
        pdu.transmissions = pdu.transmissions.saturating_add(1);
        let sdu = self.sdus.get((number - self.first_sdu) as usize)?;
        let (is_last, piece) = piece(sdu, sequence, self.payload);
        log.counters.retransmissions += 1;
        log.events.push_back(LinkEvent::Retransmitted { sequence });
        self.fates.retry(number, &sdu.packet);
        let poll = self.poll(now, set, log);
        Some(self.frame(FrameKind::Segment { sequence, is_last, poll }, Some(piece)))
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
    fn transmit_skip(&mut self, now: Instant, set: &RlcParameters) -> Option<Frame<P>> {
        let next = self.skip?;
        self.skip_due = false;
        self.skips_sent += 1;
        self.timers.set(SKIP, deadline(now, set.skip_timeout));
        Some(self.frame(FrameKind::Skip { next }, None))
    }
}

/// Returns the segment with this number, and whether it is the last of its SDU.
#[inline]
fn piece<P: Payload>(sdu: &Sdu<P>, sequence: u64, payload: u32) -> (bool, P) {
    // Within the packet, whose length is below 2^32 bytes.
    let from = (sequence - sdu.first) as u32 * payload;
    let bytes = payload.min(sdu.bytes - from);
    (sequence + 1 == sdu.end, sdu.packet.slice(from, bytes))
}
