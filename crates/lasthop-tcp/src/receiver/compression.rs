//! ACK compression: ACKs for segments above a hole are held back briefly, so that one ACK replaces
//! several (Linux: `tcp_comp_sack_*`).
//!
//! ```text
//!   RCV.NXT advances --> three duplicate ACKs are sent immediately --> the next one is held back
//!                        until RTT / 20 or the delay has passed, or the maximum is held --> one ACK
//!   two blocks are pushed back by another one --> one ACK, with the blocks before it; the segment of the
//!                        other block is not acknowledged until the next segment arrives
//! ```
//!
//! Therefore, no SACK information is lost, although an ACK has room for three or four blocks. No ACK is held back
//! in quick ACK mode.

use crate::config::Config;
use lasthop_base::units::{Duration, Instant};

/// Number of duplicate ACKs that are sent immediately: the third one triggers fast retransmit (RFC
/// 5681, section 3.2).
const AT_ONCE: u32 = 3;

/// Divisor of the RTT that yields the delay.
const PARTS: u64 = 20;

/// State of ACK compression.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Compression {
    /// RCV.NXT of the duplicate ACKs that were sent immediately.
    rcv_nxt: u64,
    /// Number of these duplicate ACKs.
    sent: u32,
    /// Number of ACKs held back.
    held: u32,
}

impl Compression {
    /// Handles a segment above a hole. Returns `None` if its ACK is to be sent immediately.
    /// Otherwise the ACK is held back, and the inner value is the deadline of the timer to start,
    /// or `None` if the timer is already running.
    pub fn hold(
        &mut self,
        config: &Config,
        now: Instant,
        rcv_nxt: u64,
        rtt: Option<Duration>,
    ) -> Option<Option<Instant>> {
        if self.held >= config.sack_compression_count {
            return None;
        }
        if self.rcv_nxt != rcv_nxt {
            (self.rcv_nxt, self.sent) = (rcv_nxt, 0);
        }
        if self.sent < AT_ONCE {
            self.sent += 1;
            return None;
        }
        let part = Duration::from_nanos(rtt.map_or(0, |rtt| rtt.as_nanos() / PARTS));
        let delay = config.sack_compression_delay.min(part);
        if delay == Duration::ZERO {
            return None;
        }
        self.held += 1;
        Some((self.held == 1).then(|| now + delay + config.sack_compression_slack))
    }

    /// Returns `true` if ACKs are held back.
    pub fn is_holding(&self) -> bool {
        self.held > 0
    }

    /// Records that an ACK is sent, which replaces those held back.
    pub fn ack_sent(&mut self) {
        self.held = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Profile;

    /// Returns the parameters of profile "linux", with at most 4 ACKs.
    fn at_most_four() -> Config {
        Config { sack_compression_count: 4, ..Config::of(Profile::Linux) }
    }

    #[test]
    fn three_go_at_once_and_the_others_together() {
        let now = Instant::from_nanos(5);
        let rtt = Some(Duration::from_millis(100));
        let mut acks = Compression::default();
        let config = at_most_four();
        let fires = Some(now + Duration::from_nanos(1_100_000));
        let waits = [None, None, None, Some(fires), Some(None), Some(None), Some(None), None];
        for expected in waits {
            assert_eq!(acks.hold(&config, now, 1, rtt), expected);
        }
        acks.ack_sent();
        assert_eq!(acks.hold(&config, now, 1, rtt), Some(fires));
        // A part of the hole was received: the next three ACKs are sent immediately.
        acks.ack_sent();
        assert_eq!(acks.hold(&config, now, 9, rtt), None);
    }

    #[test]
    fn a_short_round_trip_shortens_the_wait() {
        let config = at_most_four();
        for (rtt, nanos) in [(None, None), (Some(4), Some(300_000)), (Some(40), Some(1_100_000))] {
            let mut acks = Compression { rcv_nxt: 1, sent: AT_ONCE, held: 0 };
            let found = acks.hold(&config, Instant::ZERO, 1, rtt.map(Duration::from_millis));
            assert_eq!(found, nanos.map(|nanos| Some(Instant::from_nanos(nanos))), "{rtt:?}");
        }
    }
}
