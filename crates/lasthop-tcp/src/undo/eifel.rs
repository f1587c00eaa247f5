//! Eifel detection (RFC 3522) for the response of RFC 4015.
//!
//! ```text
//!   QUIET -- timeout or fast retransmit: RetransmitTS = its time --> ARMED
//!   ARMED -- ACK for new data echoes an earlier time --> spurious, QUIET
//!   ARMED -- ACK for new data echoes that time or a later one --> QUIET
//! ```
//!
//! Further timeouts of the segment do not change RetransmitTS. Times are compared as ticks of the
//! timestamp clock. A retransmission in the same tick as its original is therefore never detected
//! as spurious.
//!
//! *Not modelled*: the limit of the restored window by RFC 4015 to the flight size and an initial
//! window; the previous window is restored, as in Linux. The RTO estimator adapts only with its
//! next sample.

use lasthop_base::units::{Duration, Instant};

/// State of the detector.
#[derive(Clone, Copy, Debug)]
pub struct Eifel {
    tick: u64,
    /// RetransmitTS in ticks.
    retransmit_ts: Option<u64>,
}

impl Eifel {
    /// Creates the detector before the first retransmission; `tick` is the period of the timestamp
    /// clock.
    pub fn new(tick: Duration) -> Self {
        Eifel { tick: tick.as_nanos(), retransmit_ts: None }
    }

    /// Records a reduction and the retransmission of the oldest segment.
    pub fn on_reduction(&mut self, now: Instant) {
        self.retransmit_ts.get_or_insert(now.as_nanos() / self.tick);
    }

    /// Processes an ACK for new data. Returns `true` if the echoed time `echo` is that of the
    /// original transmission.
    #[inline]
    pub fn is_spurious(&mut self, echo: Option<Instant>) -> bool {
        let Some(retransmit_ts) = self.retransmit_ts.take() else { return false };
        echo.is_some_and(|echo| echo.as_nanos() / self.tick < retransmit_ts)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_ack_decides() {
        let us = |micros: u64| Instant::from_nanos(micros * 1_000);
        // Reductions, echo of the ACK for new data, result; a tick is 1 ms.
        for (reductions, echo, verdict) in [
            (&[][..], Some(us(1)), false),
            (&[us(5_500)], Some(us(4_999)), true),
            (&[us(5_500)], Some(us(5_100)), false),
            (&[us(5_500)], Some(us(5_500)), false),
            (&[us(5_500)], None, false),
            // A second timeout: an ACK of the first retransmission does not show that the reduction
            // was spurious.
            (&[us(5_500), us(9_000)], Some(us(5_600)), false),
            (&[us(5_500), us(9_000)], Some(us(1_000)), true),
        ] {
            let mut eifel = Eifel::new(Duration::from_millis(1));
            for &at in reductions {
                eifel.on_reduction(at);
            }
            assert_eq!(eifel.is_spurious(echo), verdict, "{reductions:?} {echo:?}");
            assert!(!eifel.is_spurious(Some(Instant::ZERO)), "the second one decides nothing");
        }
    }
}
