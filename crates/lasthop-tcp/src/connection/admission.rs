//! Which segments a connection of a simulation accepts.

use super::{Connection, Role};
use crate::config::Conventions;
use lasthop_base::packet::{TcpHeader, flags};
use lasthop_base::units::Instant;

impl Connection {
    /// The checks of RFC 9293, section 3.10.7, that can drop a segment. Resets are not modelled: where
    /// the RFC sends one, nothing is sent.
    #[inline]
    pub(super) fn is_acceptable(&mut self, now: Instant, segment: &TcpHeader) -> bool {
        let has_ack = segment.flags & flags::ACK != 0;
        let ack = self.sender.unwrap(segment.ack);
        if self.receiver.rcv_nxt == 0 {
            // LISTEN and SYN-SENT: only a SYN tells the peer's numbers, and what it acknowledges must
            // be our SYN, if that was sent.
            let acks_syn = !has_ack || ack > 0 && self.sender.has_sent(ack);
            return segment.flags & flags::SYN != 0 && acks_syn;
        }
        if self.is_host && has_ack && segment.flags & flags::SYN != 0 {
            // RFC 5961, section 4.2: an ACK that reports nothing of the segment.
            let (seq, end) = self.span(segment);
            self.receiver.look_for_late_original(seq, end);
            self.receiver.challenge();
            return false;
        }
        if !has_ack {
            // Fifth: "if the ACK bit is off, drop the segment and return"; but first, what lies
            // outside of the window, such as a repeated SYN, is answered.
            if self.receiver.unwrap(segment.seq) < self.receiver.rcv_nxt {
                let (seq, end) = self.span(segment);
                self.receiver.look_for_late_original(seq, end);
                let awaits_ack = self.role == Role::Acceptor && self.sender.flight.snd_una == 0;
                match self.config.conventions {
                    // Linux answers a SYN that comes again with its own, once more.
                    Conventions::Linux if awaits_ack => self.sender.send_syn_again(now),
                    _ => self.receiver.challenge(),
                }
            }
            return false;
        }
        if !self.sender.has_sent(ack) {
            self.receiver.challenge();
            return false;
        }
        true
    }
}
