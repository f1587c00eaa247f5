//! Explicit congestion notification of one end (RFC 3168, section 6.1).
//!
//! ```text
//!   opening   SYN with ECE and CWR -> SYN,ACK with ECE: both ends know ECN
//!   sender    new data are ECT(0); a segment with ECE reduces the window once a window of data; the next
//!             new data carry CWR, after any reduction
//!   receiver  a segment with CE: every ACK carries ECE, until data with CWR arrive
//! ```
//!
//! Pure ACKs, retransmissions, SYN and FIN without data are not ECT.

use crate::packet::{Ecn as Codepoint, TcpHeader, flags};

/// What one end knows.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Ecn {
    /// Do both ends know ECN?
    is_agreed: bool,
    /// Did the peer's SYN ask for it?
    is_asked: bool,
    /// Are marks echoed?
    echoes: bool,
    /// Reductions of the window that CWR has told of.
    told: u64,
}

impl Ecn {
    /// A segment arrived. Returns whether it echoes a mark.
    pub fn on_segment(&mut self, segment: &TcpHeader) -> bool {
        let both = segment.flags & (flags::ECE | flags::CWR);
        if segment.flags & flags::SYN != 0 {
            let is_answer = segment.flags & flags::ACK != 0;
            self.is_asked = !is_answer && both == flags::ECE | flags::CWR;
            self.is_agreed |= self.is_asked || is_answer && both == flags::ECE;
            return false;
        }
        if !self.is_agreed {
            return false;
        }
        // CWR first: a marked segment that carries it was marked after the reduction.
        if both & flags::CWR != 0 {
            self.echoes = false;
        }
        self.echoes |= segment.ecn == Codepoint::Ce;
        both & flags::ECE != 0
    }

    /// A segment leaves. `is_new`: it has data that never left before; `reductions` of the window so far.
    pub fn stamp(&mut self, header: &mut TcpHeader, is_new: bool, reductions: u64) {
        header.ecn = Codepoint::NotEct;
        if header.flags & flags::SYN != 0 {
            header.flags |= match (header.flags & flags::ACK != 0, self.is_asked) {
                (false, _) => flags::ECE | flags::CWR,
                (true, true) => flags::ECE,
                (true, false) => 0,
            };
            return;
        }
        if !self.is_agreed {
            return;
        }
        if self.echoes && header.flags & flags::ACK != 0 {
            header.flags |= flags::ECE;
        }
        if is_new && header.payload > 0 {
            header.ecn = Codepoint::Ect0;
            if reductions > self.told {
                header.flags |= flags::CWR;
            }
            self.told = reductions;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use flags::{ACK, CWR, ECE, SYN};

    fn stamped(end: &mut Ecn, flags: u8, payload: u32, is_new: bool, reductions: u64) -> TcpHeader {
        let mut header = TcpHeader { flags, payload, ..TcpHeader::default() };
        end.stamp(&mut header, is_new, reductions);
        header
    }

    /// Section 6.1.1: flags of SYN and SYN,ACK as sent, and whether ECN is agreed.
    #[test]
    fn both_ends_must_ask() {
        let (mut opener, mut acceptor) = (Ecn::default(), Ecn::default());
        let syn = stamped(&mut opener, SYN, 0, false, 0);
        assert_eq!((syn.flags, syn.ecn), (SYN | ECE | CWR, Codepoint::NotEct));
        assert!(!acceptor.on_segment(&syn));
        let answer = stamped(&mut acceptor, SYN | ACK, 0, false, 0);
        assert_eq!(answer.flags, SYN | ACK | ECE);
        opener.on_segment(&answer);
        assert!(opener.is_agreed && acceptor.is_agreed);
        for (asked, answered) in [(SYN, SYN | ACK), (SYN | ECE, SYN | ACK)] {
            let mut acceptor = Ecn::default();
            acceptor.on_segment(&TcpHeader { flags: asked, ..TcpHeader::default() });
            let answer = stamped(&mut acceptor, SYN | ACK, 0, false, 0);
            assert_eq!((answer.flags, acceptor.is_agreed), (answered, false));
            let data = stamped(&mut acceptor, ACK, 100, true, 1);
            assert_eq!((data.flags, data.ecn), (ACK, Codepoint::NotEct));
        }
    }

    /// Sections 6.1.2 and 6.1.3: a mark is echoed until CWR arrives, which tells of a reduction once.
    #[test]
    fn a_mark_is_echoed_until_the_window_is_reduced() {
        let agreed = Ecn { is_agreed: true, ..Ecn::default() };
        let (mut sender, mut receiver) = (agreed, agreed);
        let ack = |end: &mut Ecn| stamped(end, ACK, 0, false, 0).flags & ECE != 0;
        let mut data = stamped(&mut sender, ACK, 100, true, 0);
        assert_eq!((data.flags, data.ecn), (ACK, Codepoint::Ect0));
        receiver.on_segment(&data);
        assert!(!ack(&mut receiver));
        data.ecn = Codepoint::Ce;
        receiver.on_segment(&data);
        assert!(ack(&mut receiver) && ack(&mut receiver));
        // A retransmission neither is ECT nor carries CWR.
        let again = stamped(&mut sender, ACK, 100, false, 1);
        assert_eq!((again.flags, again.ecn), (ACK, Codepoint::NotEct));
        receiver.on_segment(&again);
        assert!(ack(&mut receiver));
        let new = stamped(&mut sender, ACK, 100, true, 1);
        assert_eq!(new.flags, ACK | CWR);
        receiver.on_segment(&new);
        assert!(!ack(&mut receiver));
        assert_eq!(stamped(&mut sender, ACK, 100, true, 1).flags, ACK, "once");
        // Marked after the reduction.
        let new = TcpHeader { ecn: Codepoint::Ce, ..stamped(&mut sender, ACK, 100, true, 2) };
        receiver.on_segment(&new);
        assert!(ack(&mut receiver));
        assert!(sender.on_segment(&TcpHeader { flags: ACK | ECE, ..TcpHeader::default() }));
    }
}
