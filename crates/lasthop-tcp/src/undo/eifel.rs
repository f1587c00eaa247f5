//! Eifel detection (RFC 3522) for the response of RFC 4015.
//!
//! ```text
//!   QUIET -- timeout or fast retransmit: RetransmitTS = its time --> ARMED
//!   ARMED -- ACK for new data echoes an earlier time --> spurious, QUIET
//!   ARMED -- ACK for new data echoes that time or a later one --> QUIET
//! ```
//!
//! Further timeouts of the same segment leave RetransmitTS at the first. Times are compared as
//! ticks of the timestamp clock, so that a retransmission in the tick of its original is never found spurious.
//!
//! *Not modelled*: the response restores the window that there was, as Linux does, where RFC 4015 limits it to the
//! flight and an initial window; the estimator adapts by its next sample only.

use lasthop_base::units::{Duration, Instant};

/// State of the detector.
#[derive(Clone, Copy, Debug)]
pub struct Eifel {
    tick: u64,
    /// RetransmitTS in ticks.
    retransmit_ts: Option<u64>,
}

impl Eifel {
    /// Nothing has been retransmitted; `tick` is the period of the timestamp clock.
    pub fn new(tick: Duration) -> Self {
        Eifel { tick: tick.as_nanos(), retransmit_ts: None }
    }

    /// The oldest segment goes out again.
    pub fn on_reduction(&mut self, now: Instant) {
        self.retransmit_ts.get_or_insert(now.as_nanos() / self.tick);
    }

    /// Does an ACK for new data that echoes `echo` answer the original?
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
        // Reductions, echo of the ACK for new data, verdict; a tick is 1 ms.
        for (reductions, echo, verdict) in [
            (&[][..], Some(us(1)), false),
            (&[us(5_500)], Some(us(4_999)), true),
            (&[us(5_500)], Some(us(5_100)), false),
            (&[us(5_500)], Some(us(5_500)), false),
            (&[us(5_500)], None, false),
            // A second timeout: the ACK of the first retransmission is no sign of a mistake.
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
