//! Explicit congestion notification of one end (RFC 3168, section 6.1; RFC 8257, section 3).
//!
//! Where the law reads the share of marks, the receiver does not hold an echo until CWR: ECE says whether the segments
//! that an acknowledgment answers were marked. When that changes while an acknowledgment is delayed, it leaves first, with
//! the echo as it was.
//!
//!
//! ```text
//!   opening   SYN with ECE and CWR -> SYN,ACK with ECE: both ends know ECN
//!   sender    new data are ECT(0); a segment with ECE reduces the window once a window of data; the next
//!             new data carry CWR, after any reduction
//!   receiver  a segment with CE: every ACK carries ECE, until data with CWR arrive
//! ```
//!
//! Pure ACKs, retransmissions, SYN and FIN without data are not ECT.

use super::congestion_control::Marks;
use lasthop_base::packet::{Ecn as Codepoint, TcpHeader, flags};

/// What one end knows.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Ecn {
    /// What marks are to tell.
    marks: Marks,
    /// Do both ends know ECN?
    is_negotiated: bool,
    /// Did the peer's SYN ask for it?
    is_asked: bool,
    /// Has a segment come that could be marked?
    has_seen: bool,
    /// Are marks echoed?
    echoes: bool,
    /// Reductions of the window that CWR has told of.
    told: u64,
    /// See [`Self::take_owed`].
    owed: Option<(u64, bool)>,
}

impl Ecn {
    /// An end that knows nothing of its peer yet.
    pub fn new(marks: Marks) -> Self {
        Ecn { marks, ..Ecn::default() }
    }

    /// Does the segment end a run of marked or unmarked ones up to `rcv_nxt`, of which an acknowledgment has to tell first?
    pub fn ends_run(&mut self, segment: &TcpHeader, rcv_nxt: u64) -> bool {
        let is_marked = segment.ecn == Codepoint::Ce;
        let ends = self.is_exact() && segment.payload > 0 && is_marked != self.echoes;
        if ends {
            self.owed = Some((rcv_nxt, self.echoes));
        }
        ends
    }

    /// The acknowledgment that such a run still has to have: its number, and whether it echoes marks.
    pub fn take_owed(&mut self) -> Option<(u64, bool)> {
        self.owed.take()
    }

    /// Both ends are known to use it: their SYN were exchanged elsewhere.
    pub fn agree(&mut self) {
        self.is_negotiated = true;
    }

    /// Is ECN in use, and has a segment come that could be marked?
    pub fn state(&self) -> (bool, bool) {
        (self.is_negotiated, self.has_seen)
    }

    /// Are marks echoed?
    pub fn is_echoing(&self) -> bool {
        self.echoes
    }

    fn is_exact(&self) -> bool {
        self.is_negotiated && self.marks != Marks::Classic
    }

    /// A segment arrived. Returns whether it echoes a mark.
    pub fn on_segment(&mut self, segment: &TcpHeader) -> bool {
        let both = segment.flags & (flags::ECE | flags::CWR);
        if segment.flags & flags::SYN != 0 {
            let is_answer = segment.flags & flags::ACK != 0;
            self.is_asked = !is_answer && both == flags::ECE | flags::CWR;
            self.is_negotiated |= self.is_asked || is_answer && both == flags::ECE;
            return false;
        }
        if !self.is_negotiated {
            return false;
        }
        self.has_seen |= segment.ecn != Codepoint::NotEct;
        if self.is_exact() {
            if segment.payload > 0 {
                self.echoes = segment.ecn == Codepoint::Ce;
            }
            return both & flags::ECE != 0;
        }
        // CWR first: a marked segment that carries it was marked after the reduction.
        if both & flags::CWR != 0 {
            self.echoes = false;
        }
        self.echoes |= segment.ecn == Codepoint::Ce;
        both & flags::ECE != 0
    }

    /// A segment leaves. `is_new`: it has data that never left before; `reductions` of the window so far, of which
    /// the first `taken_back` are not worth telling.
    pub fn stamp(
        &mut self,
        header: &mut TcpHeader,
        is_new: bool,
        reductions: u64,
        taken_back: u64,
    ) {
        header.ecn = Codepoint::NotEct;
        if header.flags & flags::SYN != 0 {
            header.flags |= match (header.flags & flags::ACK != 0, self.is_asked) {
                (false, _) => flags::ECE | flags::CWR,
                (true, true) => flags::ECE,
                (true, false) => 0,
            };
            return;
        }
        if !self.is_negotiated {
            return;
        }
        if self.echoes && header.flags & flags::ACK != 0 {
            header.flags |= flags::ECE;
        }
        if is_new && header.payload > 0 {
            header.ecn = match self.marks {
                Marks::Scalable => Codepoint::Ect1,
                Marks::Classic | Marks::Share => Codepoint::Ect0,
            };
            if reductions > self.told.max(taken_back) {
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
        end.stamp(&mut header, is_new, reductions, 0);
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
        assert!(opener.is_negotiated && acceptor.is_negotiated);
        for (asked, answered) in [(SYN, SYN | ACK), (SYN | ECE, SYN | ACK)] {
            let mut acceptor = Ecn::default();
            acceptor.on_segment(&TcpHeader { flags: asked, ..TcpHeader::default() });
            let answer = stamped(&mut acceptor, SYN | ACK, 0, false, 0);
            assert_eq!((answer.flags, acceptor.is_negotiated), (answered, false));
            let data = stamped(&mut acceptor, ACK, 100, true, 1);
            assert_eq!((data.flags, data.ecn), (ACK, Codepoint::NotEct));
        }
    }

    /// RFC 8257, section 3.2: each acknowledgment echoes what it answers, and a change ends a run.
    #[test]
    fn an_exact_echo_follows_the_marks() {
        let mut receiver = Ecn { is_negotiated: true, ..Ecn::new(Marks::Share) };
        for (ecn, ends, echo) in [
            (Codepoint::Ect0, None, false),
            (Codepoint::Ce, Some((7, false)), true),
            (Codepoint::Ce, None, true),
            (Codepoint::Ect0, Some((7, true)), false),
        ] {
            let data = TcpHeader { flags: ACK, payload: 100, ecn, ..TcpHeader::default() };
            assert_eq!(receiver.ends_run(&data, 7), ends.is_some(), "{ecn:?}");
            assert_eq!(receiver.take_owed(), ends);
            receiver.on_segment(&data);
            // CWR has no say.
            receiver.on_segment(&TcpHeader { flags: ACK | CWR, ..TcpHeader::default() });
            assert_eq!(stamped(&mut receiver, ACK, 0, false, 0).flags & ECE != 0, echo);
        }
        let mut sender = Ecn { is_negotiated: true, ..Ecn::new(Marks::Scalable) };
        assert_eq!(stamped(&mut sender, ACK, 100, true, 0).ecn, Codepoint::Ect1);
        let mut classic = Ecn { is_negotiated: true, ..Ecn::default() };
        let marked = TcpHeader { payload: 1, ecn: Codepoint::Ce, ..TcpHeader::default() };
        assert!(!classic.ends_run(&marked, 7));
    }

    /// Sections 6.1.2 and 6.1.3: a mark is echoed until CWR arrives, which tells of a reduction once.
    #[test]
    fn a_mark_is_echoed_until_the_window_is_reduced() {
        let agreed = Ecn { is_negotiated: true, ..Ecn::default() };
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
