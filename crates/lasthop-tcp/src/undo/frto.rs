//! Forward RTO recovery: detects a spurious timeout from the ACKs after it (RFC 5682).
//!
//! ```text
//!   timeout                                        IDLE -> FIRST, the oldest segment is retransmitted (step 1)
//!   FIRST   ACK of data sent only once (SACK)      spurious
//!   FIRST   ACK of new data below the end          -> SECOND, new data is sent (step 2b)
//!   FIRST   ACK of all data, or a duplicate        no verdict, retransmission continues (step 2a)
//!   SECOND  ACK of data sent only once             spurious (step 3b)
//!   SECOND  duplicate, or new data SACKed          genuine (step 3a)
//! ```
//!
//! The end is SND.MAX at the timeout. Data sent only once is identified by SACK, or by a cumulative
//! ACK above the retransmitted data.

/// Verdict on the timeout after an ACK.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// None, or not yet.
    Undecided,
    /// New data, if any, is to be sent instead of a retransmission.
    SendNew,
    /// The timeout was spurious: no segment was lost.
    Spurious,
    /// Segments were lost and are to be retransmitted.
    Genuine,
}

/// Evidence in an ACK after a timeout.
#[derive(Clone, Copy, Debug, Default)]
pub struct AckEvidence {
    /// Data sent before the timeout and not retransmitted was delivered.
    pub original: bool,
    /// SND.UNA advanced.
    pub una_advanced: bool,
    /// The ACK is a duplicate, or SACKs new data.
    pub is_duplicate: bool,
    /// All data sent before the timeout is acknowledged.
    pub is_everything: bool,
    /// New data has been sent since the timeout.
    pub sent_new: bool,
}

/// State of F-RTO.
#[derive(Clone, Copy, Debug, Default)]
pub struct ForwardRto {
    is_active: bool,
}

impl ForwardRto {
    /// Processes a timeout. F-RTO begins if `may_begin`: no other recovery was in progress.
    pub fn on_timeout(&mut self, may_begin: bool) {
        self.is_active = may_begin;
    }

    /// Ends the detection without a verdict.
    pub fn end(&mut self) {
        self.is_active = false;
    }

    /// Processes an ACK.
    pub fn on_ack(&mut self, evidence: AckEvidence) -> Verdict {
        if !self.is_active {
            return Verdict::Undecided;
        }
        if evidence.original {
            self.is_active = false;
            return Verdict::Spurious;
        }
        if evidence.sent_new {
            if evidence.is_duplicate {
                self.is_active = false;
                return Verdict::Genuine;
            }
        } else if evidence.una_advanced && !evidence.is_everything {
            return Verdict::SendNew;
        }
        Verdict::Undecided
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Evidence of successive ACKs, as letters: o original, a SND.UNA advanced, d duplicate, e
    /// everything, n new data was sent. The verdict on each follows.
    #[test]
    fn section_2_1_and_3_1() {
        use Verdict::{Genuine, SendNew, Spurious, Undecided};
        for (acks, verdicts) in [
            // Step 2b, then 3b: without SACK, the second ACK is above the retransmitted data.
            (&["a", "aon"][..], &[SendNew, Spurious][..]),
            // Step 2b, then 3a.
            (&["a", "dn"], &[SendNew, Genuine]),
            // Step 2a: a duplicate first, or everything is acknowledged.
            (&["d"], &[Undecided]),
            (&["ae"], &[Undecided]),
            // SACK: the first ACK reports an original.
            (&["od"], &[Spurious]),
            (&["ao", "dn"], &[Spurious, Undecided]),
        ] {
            let mut frto = ForwardRto::default();
            frto.on_timeout(true);
            let evidence = |text: &str| AckEvidence {
                original: text.contains('o'),
                una_advanced: text.contains('a'),
                is_duplicate: text.contains('d'),
                is_everything: text.contains('e'),
                sent_new: text.contains('n'),
            };
            let found: Vec<_> = acks.iter().map(|ack| frto.on_ack(evidence(ack))).collect();
            assert_eq!(found, verdicts, "{acks:?}");
        }
    }

    #[test]
    fn a_timeout_in_another_recovery_is_not_suspected() {
        let mut frto = ForwardRto::default();
        frto.on_timeout(false);
        let evidence = AckEvidence { original: true, ..AckEvidence::default() };
        assert_eq!(frto.on_ack(evidence), Verdict::Undecided);
    }
}
