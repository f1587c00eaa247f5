//! RTT estimate of a receiver (Linux: `rcv_rtt_est`): the RTT from echoed timestamps, of which
//! increases are smoothed with weight 1/8, or the time in which a whole window arrives, whichever
//! is less.

use lasthop_base::units::{Duration, Instant};

/// An RTT measurement in progress, which ends with the arrival of all bytes below `end`.
#[derive(Clone, Copy, Debug)]
struct Round {
    end: u64,
    began: Instant,
}

/// Minimum sample from the arrival of a window.
const LEAST: Duration = Duration::from_nanos(1_000);

/// The estimate.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct ReceiverRtt {
    rtt: Option<Duration>,
    round: Option<Round>,
}

impl ReceiverRtt {
    /// The estimate, if any.
    pub fn get(&self) -> Option<Duration> {
        self.rtt
    }

    /// Processes an RTT sample from an echoed timestamp.
    pub fn on_echo(&mut self, sample: Duration) {
        self.rtt = Some(match self.rtt {
            Some(rtt) if sample >= rtt => {
                Duration::from_nanos((7 * rtt.as_nanos() + sample.as_nanos()) / 8)
            }
            _ => sample,
        });
    }

    /// Records that all bytes below `rcv_nxt` have arrived and the peer may send `window` more
    /// bytes.
    pub fn on_data(&mut self, now: Instant, rcv_nxt: u64, window: u64) {
        if let Some(round) = self.round {
            if rcv_nxt < round.end {
                return;
            }
            let sample = (now - round.began).max(LEAST);
            self.rtt = Some(self.rtt.map_or(sample, |rtt| rtt.min(sample)));
        }
        self.round = Some(Round { end: rcv_nxt + window, began: now });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn echoes_are_smoothed_and_windows_bound_them() {
        let ms = Duration::from_millis;
        let at = |millis| Instant::ZERO + ms(millis);
        let mut estimate = ReceiverRtt::default();
        estimate.on_data(at(0), 1, 1000);
        estimate.on_data(at(30), 1000, 1000);
        assert_eq!(estimate.get(), None, "the window is not over");
        estimate.on_data(at(40), 1001, 1000);
        assert_eq!(estimate.get(), Some(ms(40)));
        for (sample, found) in [(120, 50), (30, 30), (30, 30)] {
            estimate.on_echo(ms(sample));
            assert_eq!(estimate.get(), Some(ms(found)));
        }
        estimate.on_data(at(90), 2001, 1000);
        assert_eq!(estimate.get(), Some(ms(30)), "a window only lowers the estimate");
    }
}
