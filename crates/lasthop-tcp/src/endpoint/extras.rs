//! Information in segments that few connections use: ECN, damaged segments, random losses, timeouts
//! that may be spurious. None of this is on the fast path.

use super::{Admission, Endpoint};
use crate::config::{Config, Notices};
use crate::ecn::Ecn;
use crate::random::is_out;
use lasthop_base::packet::{
    Ecn as Codepoint, Extension, Header, MAX_SACK_BLOCKS, TcpHeader, flags,
};
use lasthop_base::units::Instant;

/// Returns `true` if segments have such information.
pub(super) fn has_extras(config: &Config) -> bool {
    config.ecn || config.announces_damage() || config.marks_some_out()
}

impl<A: Admission> Endpoint<A> {
    /// Handles a segment with an intact header and a damaged payload. A TCP that reports these
    /// notifies its sender ([`Config::announces_damage`]); others ignore it.
    #[cold]
    pub fn receive_damaged<X: Extension>(&mut self, _now: Instant, segment: &Header<X>) {
        let seq = self.receiver.unwrap(segment.seq);
        if self.sender.flight.config.announces_damage()
            && segment.payload > 0
            && self.receiver.rcv_nxt > 0
        {
            self.receiver.on_damaged(seq);
        }
    }

    /// Processes a segment with rarely used flags. Returns `true` if it is only a message of a
    /// link.
    #[cold]
    pub(super) fn take_marks(&mut self, now: Instant, segment: &TcpHeader) -> bool {
        let is_told = segment.payload == 0 && segment.flags & flags::NOTICE != 0;
        is_told && self.take_notice(now, segment)
    }

    /// Processes a notification of a link (Yun 2009, section 3.1). Returns `false` if the segment
    /// is a genuine ACK with a mark.
    #[cold]
    fn take_notice(&mut self, now: Instant, segment: &TcpHeader) -> bool {
        let notice = segment.flags & flags::NOTICE;
        if notice == flags::NOTICE {
            self.sender.flight.hints.loss_mark = Some(self.sender.unwrap(segment.ack));
            return false;
        }
        let seq = self.sender.unwrap(segment.ack);
        self.sender.on_notice(now, seq, notice == flags::ELN);
        true
    }

    /// Returns a segment that is sent before all others, if any.
    #[cold]
    pub(super) fn transmit_first(&mut self, now: Instant, header: &mut TcpHeader) -> Option<u32> {
        if let Some(seq) = self.receiver.take_damaged() {
            return Some(self.announce_damage(header, seq));
        }
        let (ack, echoes) = self.ecn.as_mut()?.take_owed()?;
        Some(self.pay(now, header, ack, echoes))
    }

    /// Fills in the message that the segment at `seq` was damaged. Like that of an agent, it
    /// acknowledges nothing.
    #[cold]
    fn announce_damage(&mut self, header: &mut TcpHeader, seq: u64) -> u32 {
        *header = TcpHeader {
            seq: self.sender.flight.snd_nxt as u32,
            ack: seq as u32,
            window: self.advertised_window,
            flags: flags::ELN,
            ..TcpHeader::default()
        };
        self.sender.flight.config.wire_bytes(0, 0)
    }

    /// Fills in an ACK that is sent because the congestion mark of received segments has changed
    /// (RFC 8257, section 3.2).
    #[cold]
    fn pay(&mut self, now: Instant, header: &mut TcpHeader, ack: u64, echoes: bool) -> u32 {
        header.seq = self.sender.flight.snd_nxt as u32;
        header.ack = ack as u32;
        header.payload = 0;
        header.sack_blocks = 0;
        header.window = self.advertised_window;
        header.flags = flags::ACK | if echoes { flags::ECE } else { 0 };
        header.ecn = Codepoint::NotEct;
        if header.has_timestamps {
            header.options.timestamps = (self.timestamp(now), self.receiver.ts_recent);
        }
        self.sender.flight.config.wire_bytes(0, 0)
    }

    /// Adds the additional information to a segment that is sent; `sent_to`: SND.MAX before it.
    #[cold]
    pub(super) fn stamp(&mut self, header: &mut TcpHeader, sent_to: u64) {
        let flight = &self.sender.flight;
        if let Some(ecn) = &mut self.ecn {
            let reductions = flight.counters.window_cuts + flight.losses.extra_cwr_marks;
            ecn.stamp(
                header,
                flight.snd_max > sent_to,
                reductions,
                flight.losses.undone_reductions,
            );
        }
        let seq = self.sender.unwrap(header.seq);
        if header.payload > 0
            && self.sender.flight.config.marks_some_out()
            && is_out(&self.sender.flight.config, seq)
        {
            header.flags |= flags::OUT;
        }
        let judges =
            self.sender.flight.config.notices == Notices::Casablanca && header.payload == 0;
        if judges && self.receiver.is_random_loss(&self.sender.flight.config) {
            header.flags |= flags::NOTICE;
        }
    }

    /// Enables ECN, which both SYNs exchanged by a [`Host`](super::host::Host) have negotiated.
    pub(crate) fn agree_on_ecn(&mut self) {
        if let Some(ecn) = &mut self.ecn {
            ecn.agree();
        }
    }

    /// Returns whether ECN is in use, and whether an ECN-capable segment has arrived.
    pub fn ecn_state(&self) -> (bool, bool) {
        self.ecn.as_ref().map_or((false, false), Ecn::state)
    }

    /// Adds the information in every segment of a Linux host: blocks above holes, and the echo of a
    /// mark.
    pub(crate) fn report(&self, header: &mut TcpHeader) {
        self.report_blocks(header);
        let echoes = self.ecn.as_ref().is_some_and(Ecn::is_echoing) && self.ecn_state().0;
        header.flags |= if echoes { flags::ECE } else { 0 };
    }

    /// Bytes of the SACK blocks in the next segment.
    pub(crate) fn block_bytes(&self) -> u64 {
        if !self.sender.flight.config.sack || !self.receiver.has_blocks() {
            return 0;
        }
        let mut blocks = [(0, 0); MAX_SACK_BLOCKS];
        let most = self.sender.flight.config.max_sack_blocks();
        match self.receiver.sack_blocks(&mut blocks[..most]) as u64 {
            0 => 0,
            count => 4 + 8 * count,
        }
    }
}
