//! What the segments of few connections say besides: explicit congestion notification, damaged segments, random
//! losses, timeouts that may have been mistakes. All of it is away from the short path.

use super::{Admission, Endpoint};
use crate::config::{Config, Notices};
use crate::ecn::Ecn;
use crate::random::is_out;
use lasthop_base::packet::{
    Ecn as Codepoint, Extension, Header, MAX_SACK_BLOCKS, TcpHeader, flags,
};
use lasthop_base::units::Instant;

/// Do segments say more than the bulk of TCPs?
pub(super) fn has_extras(config: &Config) -> bool {
    config.ecn || config.announces_damage() || config.marks_some_out()
}

impl<A: Admission> Endpoint<A> {
    /// A segment came whose header is intact and whose payload is damaged. A TCP that announces such tells its sender
    /// ([`Config::announces_damage`]); others make nothing of it.
    #[cold]
    pub fn receive_damaged<X: Extension>(&mut self, _now: Instant, segment: &Header<X>) {
        let seq = self.receiver.unwrap(segment.seq);
        if self.config.announces_damage() && segment.payload > 0 && self.receiver.rcv_nxt > 0 {
            self.receiver.on_damaged(seq);
        }
    }

    /// A segment with bits that few have. Says whether that is all there is to it: a message of a link.
    #[cold]
    pub(super) fn take_marks(&mut self, now: Instant, segment: &TcpHeader) -> bool {
        let is_told = segment.payload == 0 && segment.flags & flags::NOTICE != 0;
        is_told && self.take_notice(now, segment)
    }

    /// A link tells of a segment (Yun 2009, section 3.1); false if it is a genuine ACK with a mark.
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

    /// What leaves before all else, of an end that has such.
    #[cold]
    pub(super) fn transmit_first(&mut self, now: Instant, header: &mut TcpHeader) -> Option<u32> {
        if let Some(seq) = self.receiver.take_damaged() {
            return Some(self.announce_damage(header, seq));
        }
        let (ack, echoes) = self.ecn.as_mut()?.take_owed()?;
        Some(self.pay(now, header, ack, echoes))
    }

    /// The message that the segment at `seq` was damaged: as that of an agent, it acknowledges nothing.
    #[cold]
    fn announce_damage(&mut self, header: &mut TcpHeader, seq: u64) -> u32 {
        *header = TcpHeader {
            seq: self.sender.flight.snd_nxt as u32,
            ack: seq as u32,
            window: self.advertised_window,
            flags: flags::ELN,
            ..TcpHeader::default()
        };
        self.config.wire_bytes(0, 0)
    }

    /// An acknowledgment that a marked segment, or one that is not, has pushed out (RFC 8257, section 3.2).
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
        self.config.wire_bytes(0, 0)
    }

    /// What a segment that leaves says besides, of an end that has such; `sent_to`: one past what had left before.
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
        if header.payload > 0 && self.config.marks_some_out() && is_out(&self.config, seq) {
            header.flags |= flags::OUT;
        }
        let judges = self.config.notices == Notices::Casablanca && header.payload == 0;
        if judges && self.receiver.is_random_loss(&self.config) {
            header.flags |= flags::NOTICE;
        }
    }

    /// Both ends use explicit congestion notification, as their SYN say that a [`Host`](super::host::Host)
    /// exchanged.
    pub(crate) fn agree_on_ecn(&mut self) {
        if let Some(ecn) = &mut self.ecn {
            ecn.agree();
        }
    }

    /// Is explicit congestion notification in use, and has a segment come that could be marked?
    pub fn ecn_state(&self) -> (bool, bool) {
        self.ecn.as_ref().map_or((false, false), Ecn::state)
    }

    /// What every segment of a Linux host says besides: blocks above holes, and that a mark has come.
    pub(crate) fn report(&self, header: &mut TcpHeader) {
        self.report_blocks(header);
        let echoes = self.ecn.as_ref().is_some_and(Ecn::is_echoing) && self.ecn_state().0;
        header.flags |= if echoes { flags::ECE } else { 0 };
    }

    /// Bytes of the SACK blocks that the next segment has.
    pub(crate) fn block_bytes(&self) -> u64 {
        if !self.config.sack || !self.receiver.has_blocks() {
            return 0;
        }
        let mut blocks = [(0, 0); MAX_SACK_BLOCKS];
        let most = self.config.max_sack_blocks();
        match self.receiver.sack_blocks(&mut blocks[..most]) as u64 {
            0 => 0,
            count => 4 + 8 * count,
        }
    }
}
