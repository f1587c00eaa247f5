//! Tail loss probe (RFC 8985, section 7): a segment that leaves before the retransmission timer, so that an ACK
//! tells RACK what the tail of the flight came to.
//!
//! ```text
//!            new data leave, or an ACK for new data; no recovery, nothing SACKed
//!   IDLE ---------------------------------------------------------> WAITING for the probe timeout
//!                                                                       | it comes
//!          ACK at or above the end of the probe: see `Verdict`          v
//!   IDLE <--------------------------------------------------------- PROBED: new data, or the last
//!                                                                   segment again; one probe at a time
//! ```
//!
//! The probe timeout is 2 SRTT, and more if a single segment is outstanding, whose ACK may be delayed;
//! never beyond the retransmission timer.

use lasthop_base::units::Duration;

/// Allowance for a delayed ACK while a single segment is outstanding (TLP.max_ack_delay).
pub const MAX_ACK_DELAY: Duration = Duration::from_millis(200);
/// Probe timeout before the first round trip.
const WITHOUT_ROUND_TRIP: Duration = Duration::from_secs(1);

/// The probe timeout (section 7.2, TLP_calc_PTO). `slack` is added where several segments are outstanding (Linux: two
/// ticks of its timer); `until_rto` is the time to the retransmission timer.
pub fn timeout(srtt: Duration, outstanding: u32, slack: Duration, until_rto: Duration) -> Duration {
    let timeout = if srtt == Duration::ZERO {
        WITHOUT_ROUND_TRIP
    } else if outstanding == 1 {
        srtt * 2 + MAX_ACK_DELAY
    } else {
        srtt * 2 + slack
    };
    timeout.min(until_rto)
}

/// What an ACK says about the probe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// None is outstanding, or the ACK tells nothing of it.
    Nothing,
    /// The probe is over, and nothing was lost that nobody noticed.
    Done,
    /// The probe repaired a loss: the window is to be reduced.
    Repaired,
}

/// The probe that is outstanding.
#[derive(Clone, Copy, Debug, Default)]
pub struct TailProbe {
    /// SND.NXT after the probe (TLP.end_seq).
    end: Option<u64>,
    /// Did it send old data again (TLP.is_retrans)?
    is_retransmission: bool,
}

impl TailProbe {
    /// Is one outstanding?
    pub fn is_outstanding(&self) -> bool {
        self.end.is_some()
    }

    /// Is old data outstanding that it has sent again?
    pub fn has_retransmitted(&self) -> bool {
        self.end.is_some() && self.is_retransmission
    }

    /// A probe leaves, after which `end` is next.
    pub fn on_sent(&mut self, end: u64, is_retransmission: bool) {
        *self = TailProbe { end: Some(end), is_retransmission };
    }

    /// Recovery takes over.
    pub fn end(&mut self) {
        self.end = None;
    }

    /// Is the range that ends at `end` that of a probe that was sent before?
    pub fn is_probe(&self, end: u64) -> bool {
        self.is_retransmission && self.end == Some(end)
    }

    /// An ACK of everything below `ack` (section 7.4.2, TLP_process_ack). `has_dsack`: it reports the probe as a
    /// duplicate; `is_duplicate`: it acknowledges and SACKs nothing new.
    pub fn on_ack(&mut self, ack: u64, has_dsack: bool, is_duplicate: bool) -> Verdict {
        let Some(end) = self.end else { return Verdict::Nothing };
        if ack < end {
            return Verdict::Nothing;
        }
        let verdict = if !self.is_retransmission || has_dsack {
            Verdict::Done
        } else if ack > end {
            Verdict::Repaired
        } else if is_duplicate {
            Verdict::Done
        } else {
            return Verdict::Nothing;
        };
        self.end = None;
        verdict
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// SRTT, outstanding, slack, time to the retransmission timer; the probe timeout, in ms.
    #[test]
    fn the_probe_timeout() {
        for (srtt, outstanding, slack, until_rto, expected) in [
            (50, 10, 0, 1000, 100),
            (50, 10, 2, 1000, 102),
            (50, 1, 0, 1000, 300),
            (50, 1, 2, 1000, 300),
            (50, 1, 2, 250, 250),
            (0, 3, 0, 3000, 1000),
            (0, 3, 0, 900, 900),
        ] {
            let [srtt, slack, until_rto, expected] =
                [srtt, slack, until_rto, expected].map(Duration::from_millis);
            assert_eq!(timeout(srtt, outstanding, slack, until_rto), expected);
        }
    }

    /// Section 7.4.2: the probe's kind, the ACK relative to its end, DSACK, duplicate; the verdict.
    #[test]
    fn what_an_ack_says() {
        use Verdict::{Done, Nothing, Repaired};
        for (is_retransmission, ack, has_dsack, is_duplicate, verdict) in [
            (false, 99, false, false, Nothing),
            (false, 100, false, false, Done),
            (true, 99, false, true, Nothing),
            (true, 100, true, false, Done),
            (true, 101, false, false, Repaired),
            (true, 101, true, false, Done),
            // The ACK that reaches the end may be that of the original or of the probe; the next decides.
            (true, 100, false, false, Nothing),
            (true, 100, false, true, Done),
        ] {
            let mut probe = TailProbe::default();
            assert_eq!(probe.on_ack(ack, has_dsack, is_duplicate), Nothing);
            probe.on_sent(100, is_retransmission);
            assert_eq!(probe.is_probe(100), is_retransmission);
            let row = (is_retransmission, ack, has_dsack, is_duplicate);
            assert_eq!(probe.on_ack(ack, has_dsack, is_duplicate), verdict, "{row:?}");
            assert_eq!(probe.is_outstanding(), verdict == Nothing, "{row:?}");
        }
    }
}
