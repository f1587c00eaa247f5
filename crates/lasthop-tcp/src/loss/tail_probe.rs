//! Tail loss probe (RFC 8985, section 7): a segment sent before the retransmission timer expires.
//! Its ACK lets RACK detect losses at the tail of the flight.
//!
//! ```text
//!            new data is sent, or an ACK for new data arrives; no recovery, no SACKed data
//!   IDLE ---------------------------------------------------------> WAITING for the probe timeout
//!                                                                       | it expires
//!          ACK at or above the end of the probe: see `Verdict`          v
//!   IDLE <--------------------------------------------------------- PROBED: new data, or a retransmission of
//!                                                                   the last segment; one probe at a time
//! ```
//!
//! The probe timeout is 2 SRTT. It is longer if only one segment is outstanding, whose ACK may be
//! delayed. It never exceeds the time to the retransmission timeout.

use lasthop_base::units::Duration;

/// Maximum delay of an ACK assumed while a single segment is outstanding (TLP.max_ack_delay).
pub const MAX_ACK_DELAY: Duration = Duration::from_millis(200);
/// Probe timeout before the first RTT sample.
const WITHOUT_ROUND_TRIP: Duration = Duration::from_secs(1);

/// Returns the probe timeout (section 7.2, TLP_calc_PTO). `slack` is added if several segments are
/// outstanding (Linux: two timer ticks). `until_rto` is the time to the retransmission timeout.
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

/// Outcome of the probe after an ACK.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// No probe is outstanding, or its outcome is unknown.
    Nothing,
    /// The probe is complete and repaired no loss.
    Done,
    /// The probe repaired a loss: the window must be reduced.
    Repaired,
}

/// Outstanding probe, if any.
#[derive(Clone, Copy, Debug, Default)]
pub struct TailProbe {
    /// SND.NXT after the probe (TLP.end_seq).
    end: Option<u64>,
    /// Whether the probe retransmitted data (TLP.is_retrans).
    is_retransmission: bool,
}

impl TailProbe {
    /// Returns `true` if a probe is outstanding.
    pub fn is_outstanding(&self) -> bool {
        self.end.is_some()
    }

    /// Returns `true` if the outstanding probe is a retransmission.
    pub fn has_retransmitted(&self) -> bool {
        self.end.is_some() && self.is_retransmission
    }

    /// Records a probe; `end` is SND.NXT after it.
    pub fn on_sent(&mut self, end: u64, is_retransmission: bool) {
        *self = TailProbe { end: Some(end), is_retransmission };
    }

    /// Ends the probe when recovery begins.
    pub fn end(&mut self) {
        self.end = None;
    }

    /// Returns `true` if the range that ends at `end` is that of an outstanding probe that is a
    /// retransmission.
    pub fn is_probe(&self, end: u64) -> bool {
        self.is_retransmission && self.end == Some(end)
    }

    /// Processes an ACK of all data below `ack` (section 7.4.2, TLP_process_ack). If `has_dsack`,
    /// it reports the probe as a duplicate. If `is_duplicate`, it acknowledges and SACKs no new
    /// data.
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

    /// Columns: SRTT, outstanding segments, slack, time to the retransmission timeout; the probe
    /// timeout, in ms.
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

    /// Section 7.4.2. Columns: whether the probe is a retransmission, the ACK, DSACK, duplicate;
    /// the outcome. The end of the probe is 100.
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
            // The ACK that reaches the end may be for the original or for the probe; the next ACK
            // decides.
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
