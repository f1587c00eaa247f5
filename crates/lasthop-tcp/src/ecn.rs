//! Explicit congestion notification of one endpoint (RFC 3168, section 6.1; RFC 8257, section 3).
//!
//! If the congestion control algorithm uses the fraction of marks, ECE is not held until CWR.
//! Instead, ECE reports whether the segments acknowledged by an ACK were marked. If this state
//! changes while an ACK is delayed, the delayed ACK is sent first, with the previous ECE.
//!
//! ```text
//!   opening   SYN with ECE and CWR -> SYN,ACK with ECE: ECN is negotiated
//!   sender    new data is ECT(0); a segment with ECE reduces the window once per window of data; after any
//!             reduction, the next new data segment has CWR
//!   receiver  a segment with CE: every ACK has ECE, until a data segment with CWR arrives
//! ```
//!
//! Pure ACKs, retransmissions, and SYN and FIN segments without payload are not ECT.

use super::congestion_control::Marks;
use lasthop_base::packet::{Ecn as Codepoint, TcpHeader, flags};

/// ECN state of one endpoint.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Ecn {
    /// Use of congestion marks by the congestion control algorithm.
    marks: Marks,
    /// Whether ECN is negotiated.
    is_negotiated: bool,
    /// Whether the peer's SYN requested ECN.
    is_asked: bool,
    /// Whether an ECN-capable segment was received.
    has_seen: bool,
    /// Whether ACKs carry ECE.
    echoes: bool,
    /// Number of reductions of the window already reported by CWR.
    reported_reductions: u64,
    /// See [`Self::take_owed`].
    owed: Option<(u64, bool)>,
}

impl Ecn {
    /// Creates the state before the handshake.
    pub fn new(marks: Marks) -> Self {
        Ecn { marks, ..Ecn::default() }
    }

    /// Returns `true` if `segment` ends a run of marked or unmarked segments, up to `rcv_nxt`, that
    /// must be acknowledged first.
    pub fn ends_run(&mut self, segment: &TcpHeader, rcv_nxt: u64) -> bool {
        let is_marked = segment.ecn == Codepoint::Ce;
        let ends = self.is_exact() && segment.payload > 0 && is_marked != self.echoes;
        if ends {
            self.owed = Some((rcv_nxt, self.echoes));
        }
        ends
    }

    /// Takes the pending ACK for such a run: its acknowledgment number, and whether it has ECE.
    pub fn take_owed(&mut self) -> Option<(u64, bool)> {
        self.owed.take()
    }

    /// Marks ECN as negotiated; the SYNs were exchanged elsewhere.
    pub fn agree(&mut self) {
        self.is_negotiated = true;
    }

    /// Returns whether ECN is negotiated, and whether an ECN-capable segment was received.
    pub fn state(&self) -> (bool, bool) {
        (self.is_negotiated, self.has_seen)
    }

    /// Returns `true` if ACKs carry ECE.
    pub fn is_echoing(&self) -> bool {
        self.echoes
    }

    fn is_exact(&self) -> bool {
        self.is_negotiated && self.marks != Marks::Classic
    }

    /// Processes a segment. Returns `true` if it echoes a mark.
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
        // CWR first: a segment with both CWR and CE was marked after the reduction.
        if both & flags::CWR != 0 {
            self.echoes = false;
        }
        self.echoes |= segment.ecn == Codepoint::Ce;
        both & flags::ECE != 0
    }

    /// Sets the ECN codepoint and flags of a segment to be sent. `is_new` is `true` if it contains
    /// data sent for the first time. `reductions` is the number of window reductions. CWR is not
    /// sent for the first `undone` of them.
    pub fn stamp(&mut self, header: &mut TcpHeader, is_new: bool, reductions: u64, undone: u64) {
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
            if reductions > self.reported_reductions.max(undone) {
                header.flags |= flags::CWR;
            }
            self.reported_reductions = reductions;
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

    /// Section 6.1.1: flags of SYN and SYN,ACK as sent, and whether ECN is negotiated.
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

    /// RFC 8257, section 3.2: each ACK echoes the marks of the segments that it acknowledges; a
    /// change ends a run.
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
            // CWR has no effect.
            receiver.on_segment(&TcpHeader { flags: ACK | CWR, ..TcpHeader::default() });
            assert_eq!(stamped(&mut receiver, ACK, 0, false, 0).flags & ECE != 0, echo);
        }
        let mut sender = Ecn { is_negotiated: true, ..Ecn::new(Marks::Scalable) };
        assert_eq!(stamped(&mut sender, ACK, 100, true, 0).ecn, Codepoint::Ect1);
        let mut classic = Ecn { is_negotiated: true, ..Ecn::default() };
        let marked = TcpHeader { payload: 1, ecn: Codepoint::Ce, ..TcpHeader::default() };
        assert!(!classic.ends_run(&marked, 7));
    }

    /// Sections 6.1.2 and 6.1.3: a mark is echoed until CWR arrives; CWR is sent once per
    /// reduction.
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
        // A retransmission is not ECT and has no CWR.
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
