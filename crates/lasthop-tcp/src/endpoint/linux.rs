//! Processing of accepted segments and transmission as in Linux: header prediction, retransmissions
//! before data, segments with room for SACK blocks.

use super::{Admission, Endpoint, Role};
use crate::config::TIMESTAMPS;
use crate::receiver::Arriving;
use lasthop_base::packet::{Ecn, MAX_SACK_BLOCKS, TcpHeader, flags};
use lasthop_base::units::Instant;
use std::collections::VecDeque;

/// A segment that was sent while another was processed, with its length on the wire.
#[derive(Clone, Copy, Debug)]
pub(super) struct Departed {
    pub header: TcpHeader,
    pub bytes: u32,
    /// Whether it has no data that is sent for the first time.
    pub is_again: bool,
}

/// State shared by segments that are sent in sequence.
#[derive(Clone, Debug, Default)]
pub(super) struct Burst {
    /// Send time, and bytes reserved for SACK blocks.
    pub reported: Option<(Instant, u64)>,
    /// Blocks of the segment sent last, if its GSO segment continues.
    piece_blocks: Option<(usize, [(u32, u32); MAX_SACK_BLOCKS])>,
    /// Segments sent while a segment or a send call was processed.
    pub departed: VecDeque<Departed>,
}

impl Burst {
    /// Resets the state for a new connection instance.
    pub fn clear(&mut self) {
        (self.reported, self.piece_blocks) = (None, None);
        self.departed.clear();
    }
}

impl<A: Admission> Endpoint<A> {
    /// Processes an accepted segment: `length` sequence numbers from `seq` onwards. Returns `true`
    /// if its acknowledgment made the sender check for segments to send. Data in order that
    /// acknowledges nothing new does not (header prediction).
    #[inline(never)]
    pub(super) fn process_as_linux(
        &mut self,
        now: Instant,
        segment: &TcpHeader,
        seq: u64,
        length: u64,
    ) -> bool {
        self.burst.reported = None;
        let ack = self.sender.unwrap(segment.ack);
        let una = self.sender.flight.snd_una;
        let rcv_nxt = self.receiver.rcv_nxt;
        let is_expected = self.is_expected(segment, seq);
        let is_predicted = is_expected
            && segment.payload > 0
            && segment.flags & (flags::FIN | flags::ECE | flags::CWR) == 0
            && A::has_reserve(self, segment);
        // Header prediction uses the timestamp of an expected ACK without other information.
        let is_bare = is_expected
            && segment.flags == flags::ACK
            && segment.payload == 0
            && self.receiver.last_ack_sent() == rcv_nxt;
        let arriving = self.arriving(now, segment, seq);
        self.receiver.expect(&self.sender.flight.config, now, &arriving);
        let ts_recent = self.receiver.ts_recent;
        // A congestion mark on duplicate data is ignored.
        let is_known = segment.payload > 0 && seq + u64::from(segment.payload) <= rcv_nxt;
        let ecn = if is_known { Ecn::NotEct } else { segment.ecn };
        self.receive_options(&TcpHeader { ecn, ..*segment }, seq);
        if is_predicted && ack == una {
            self.receive_known_ack(now, segment, seq);
        } else {
            self.receive_ack(now, segment, seq, length == 0);
        }
        if ack < una && !is_bare {
            // The timestamp of an old acknowledgment is ignored as well.
            self.receiver.ts_recent = ts_recent;
        }
        let looks = !is_predicted || ack > una;
        A::on_acknowledged(self, looks);
        if length > 0 && !is_predicted {
            self.resend_lost(now);
        }
        self.receive_data(now, segment, seq, length);
        looks
    }

    /// Processes the acknowledgment of a predicted segment, which acknowledges nothing new. The sender does
    /// not check for segments to send. A sender without data does not process it (`tcp_rcv_established`).
    fn receive_known_ack(&mut self, now: Instant, segment: &TcpHeader, seq: u64) {
        if self.sender.is_at_rest() {
            self.sender.flight.on_input(now);
            let ack = self.sender.flight.snd_una;
            self.sender.update_peer_window(seq, ack, segment.window.into());
            return;
        }
        let deferral = self.sender.deferral();
        self.receive_ack(now, segment, seq, false);
        self.sender.restore_deferral(deferral);
    }

    /// Returns `true` if a segment is as expected after the latest one: no data is missing, and the
    /// window is unchanged.
    fn is_expected(&self, segment: &TcpHeader, seq: u64) -> bool {
        let flight = &self.sender.flight;
        seq == self.receiver.rcv_nxt
            && flight.snd_una > 0
            && flight.stream.fin_at == u64::MAX
            && !self.receiver.has_holes()
            && segment.sack_blocks == 0
            && u64::from(segment.window) == flight.peer.window
    }

    /// Retransmits the losses reported by the acknowledgment of a segment with data, before the
    /// data is processed (`tcp_xmit_recovery`).
    fn resend_lost(&mut self, now: Instant) {
        while self.sender.has_to_resend(now) && self.depart(now) {}
        if !self.burst.departed.is_empty() {
            self.sender.flight.stay_awake();
        }
    }

    /// Sends the next segment, if any, before the endpoint is polled again. Returns `true` if a
    /// segment was sent.
    pub(super) fn depart(&mut self, now: Instant) -> bool {
        let mut header = TcpHeader::default();
        let sent_to = self.sender.flight.snd_max;
        let Some(bytes) = A::poll_data(self, now, &mut header) else { return false };
        let is_again = self.sender.flight.snd_max == sent_to;
        self.burst.departed.push_back(Departed { header, bytes, is_again });
        true
    }

    /// Processes data, a SYN or a FIN of `length` sequence numbers at a Linux host.
    #[cold]
    pub(super) fn receive_at_host(
        &mut self,
        now: Instant,
        segment: &TcpHeader,
        seq: u64,
        length: u64,
    ) {
        let control = segment.flags & (flags::SYN | flags::FIN) != 0;
        let before = self.receiver.rcv_nxt;
        let timers = &mut self.sender.flight.timers;
        self.receiver.receive(&self.sender.flight.config, timers, now, seq, seq + length, control);
        if before == 0
            && self.role == Role::Opener
            && self.sender.flight.has_lost_syn()
            && !self.sender.flight.config.sack
        {
            self.sender.begin_after_lost_syn();
        }
        if before == 0
            && let Some(memory) = self.receiver.window.as_mut().and_then(|window| window.memory())
        {
            memory.begin(now);
        }
        A::on_received(self, now, segment, before);
    }

    /// Returns the properties of a segment for the receiver of a host, before it is received.
    fn arriving(&self, now: Instant, segment: &TcpHeader, seq: u64) -> Arriving {
        let has_stamps = segment.has_timestamps;
        let blocks = u64::from(segment.sack_blocks);
        let stamp_bytes = if has_stamps { TIMESTAMPS.into() } else { 0 };
        let stamp = segment.options.timestamps.1;
        let rtt = &self.sender.flight.rtt;
        Arriving {
            seq,
            payload: segment.payload.into(),
            options: stamp_bytes + if blocks > 0 { 4 + 8 * blocks } else { 0 },
            echo: (has_stamps && self.sender.flight.config.timestamps)
                .then(|| (stamp, now - self.unwrap_timestamp(now, stamp))),
            is_pushed: segment.is_pushed(),
            srtt: rtt.srtt(),
            rto: rtt.rto(),
            advertised: self.advertised_window.into(),
        }
    }

    /// Like [`Self::transmit`].
    #[cold]
    pub(super) fn transmit_as_linux(
        &mut self,
        now: Instant,
        header: &mut TcpHeader,
    ) -> Option<u32> {
        let sent_to = self.sender.flight.snd_max;
        if std::mem::take(&mut self.is_ack_pending) {
            self.receiver.challenge();
            return self.fill_in(now, header, None, sent_to);
        }
        // Data segments have room for their SACK blocks.
        let known = self.burst.reported.filter(|&(at, _)| at == now);
        let reported = known.map_or_else(|| self.block_bytes(), |(_, bytes)| bytes);
        self.burst.reported = Some((now, reported));
        let removed = if reported > 0 { self.sender.shorten_segments(reported) } else { 0 };
        let mut out = self.sender.poll_as_host(now);
        if out.is_none() && self.sender.write_waiting() {
            out = self.sender.poll_as_host(now);
        }
        let bytes = self.fill_in(now, header, out, sent_to);
        if removed > 0 {
            self.sender.lengthen_segments(removed);
        }
        if bytes.is_none() {
            self.burst.reported = None;
            return None;
        }
        self.repeat_blocks(header);
        if out.is_some_and(|out| out.payload > 0 && self.sender.flight.is_pushed(out.seq)) {
            header.flags |= flags::PSH;
        }
        if header.payload == 0 && header.flags & !flags::ECE == flags::ACK {
            header.seq = self.acceptable_number() as u32;
        }
        bytes
    }

    /// All segments of a GSO segment have the same SACK blocks, including one that reports a
    /// duplicate.
    fn repeat_blocks(&mut self, header: &mut TcpHeader) {
        if let Some((count, blocks)) = self.burst.piece_blocks.take()
            && header.payload > 0
        {
            header.set_sack_blocks(&blocks[..count]);
        }
        if self.sender.flight.is_within_piece() {
            self.burst.piece_blocks = Some((header.sack_blocks.into(), header.sack_blocks()));
        }
    }

    /// Sequence number of a segment without data: SND.NXT, unless it is outside the window of a
    /// peer that has shrunk it. Linux then uses the end of the window if the excess is at least the
    /// rounding unit of the window scale.
    pub(super) fn acceptable_number(&self) -> u64 {
        let flight = &self.sender.flight;
        let edge = flight.snd_una + flight.peer.window;
        let unit = self.receiver.window.as_ref().map_or(1, |window| window.unit());
        match self.policies.send.keeps_numbers_in_window && flight.snd_max >= edge + unit {
            true => edge,
            false => flight.snd_max,
        }
    }
}
