//! Forward RTO recovery: a timeout that was none shows in the ACKs after it (RFC 5682).
//!
//! ```text
//!   timeout                                        IDLE -> FIRST, the oldest segment goes out again (step 1)
//!   FIRST   ACK of never-resent data (SACK)        spurious
//!   FIRST   ACK of new data below the end          -> SECOND, new data go out (step 2b)
//!   FIRST   ACK of everything, or none can go out  genuine (step 2a)
//!   SECOND  ACK of never-resent data               spurious (step 3b)
//!   SECOND  duplicate, or new data SACKed          genuine (step 3a)
//! ```
//!
//! The end is what was sent before the timeout. Never-resent data are told by SACK or by a cumulative ACK that goes
//! beyond what went out again.

/// What an ACK says of the timeout.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Nothing, or not yet.
    Undecided,
    /// Send new data, if there are any, and no retransmission.
    SendNew,
    /// Nothing was lost.
    Spurious,
    /// Something was: retransmit.
    Genuine,
}

/// What an ACK after a timeout told.
#[derive(Clone, Copy, Debug, Default)]
pub struct Told {
    /// Data that left before the timeout and never again were delivered.
    pub original: bool,
    /// SND.UNA moved.
    pub una_advanced: bool,
    /// It is a duplicate, or SACKs something new.
    pub is_duplicate: bool,
    /// Everything that was sent before the timeout is acknowledged.
    pub is_everything: bool,
    /// New data have left since the timeout.
    pub sent_new: bool,
}

/// Is a timeout under suspicion?
#[derive(Clone, Copy, Debug, Default)]
pub struct ForwardRto {
    is_active: bool,
}

impl ForwardRto {
    /// The timer fired; `may_begin`: no other recovery was running.
    pub fn on_timeout(&mut self, may_begin: bool) {
        self.is_active = may_begin;
    }

    /// The question is settled otherwise.
    pub fn end(&mut self) {
        self.is_active = false;
    }

    /// An ACK arrived.
    pub fn on_ack(&mut self, told: Told) -> Verdict {
        if !self.is_active {
            return Verdict::Undecided;
        }
        if told.original {
            self.is_active = false;
            return Verdict::Spurious;
        }
        if told.sent_new {
            if told.is_duplicate {
                self.is_active = false;
                return Verdict::Genuine;
            }
        } else if told.una_advanced && !told.is_everything {
            return Verdict::SendNew;
        }
        Verdict::Undecided
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Facts of one ACK after another, as letters: o original, a SND.UNA advanced, d duplicate, e everything, n
    /// new data have left; the verdict of each.
    #[test]
    fn section_2_1_and_3_1() {
        use Verdict::{Genuine, SendNew, Spurious, Undecided};
        for (acks, verdicts) in [
            // Step 2b, then 3b: without SACK the second ACK goes beyond what went out again.
            (&["a", "aon"][..], &[SendNew, Spurious][..]),
            // Step 2b, then 3a.
            (&["a", "dn"], &[SendNew, Genuine]),
            // Step 2a: a duplicate first, or everything is acknowledged.
            (&["d"], &[Undecided]),
            (&["ae"], &[Undecided]),
            // SACK: an original is reported at once.
            (&["od"], &[Spurious]),
            (&["ao", "dn"], &[Spurious, Undecided]),
        ] {
            let mut frto = ForwardRto::default();
            frto.on_timeout(true);
            let told = |text: &str| Told {
                original: text.contains('o'),
                una_advanced: text.contains('a'),
                is_duplicate: text.contains('d'),
                is_everything: text.contains('e'),
                sent_new: text.contains('n'),
            };
            let found: Vec<_> = acks.iter().map(|ack| frto.on_ack(told(ack))).collect();
            assert_eq!(found, verdicts, "{acks:?}");
        }
    }

    #[test]
    fn a_timeout_in_another_recovery_is_not_suspected() {
        let mut frto = ForwardRto::default();
        frto.on_timeout(false);
        let told = Told { original: true, ..Told::default() };
        assert_eq!(frto.on_ack(told), Verdict::Undecided);
    }
}
