//! ACKs of what arrives above a hole, held back for a moment so that one tells what several would (Linux: compressed
//! ACKs, `tcp_comp_sack_*`).
//!
//! ```text
//!   RCV.NXT moves --three duplicates go at once--> the next is held back --a twentieth of a round trip, at most the delay,
//!                                                  ^       |               or as many as may be held--> one ACK for all
//!                                                  +-------+
//! ```
//!
//! Nothing of what SACK reports is lost: the ACK that goes has the blocks of all. While ACKs are quick, none is held back.
//!
//! *Not modelled*: the ACK that leaves early so that a fifth block does not push out the oldest.

use lasthop_base::units::{Duration, Instant};

/// How ACKs are held back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AckCompression {
    /// The longest that one is (`tcp_comp_sack_delay_ns`), and how much later the timer fires
    /// (`tcp_comp_sack_slack_ns`).
    pub delay: Duration,
    /// See above.
    pub slack: Duration,
    /// Most ACKs that one stands for (`tcp_comp_sack_nr`).
    pub most: u32,
}

/// Duplicates that go at once: a sender takes three for a loss (RFC 5681, section 3.2).
const AT_ONCE: u32 = 3;

/// Parts of a round trip in which ACKs are held back.
const PARTS: u64 = 20;

/// What is held back.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Compression {
    /// RCV.NXT of the duplicates that have gone at once.
    rcv_nxt: u64,
    told: u32,
    /// ACKs that wait.
    held: u32,
}

impl Compression {
    /// A segment above a hole asks for an ACK. `None` if it goes at once, or when the timer of those that wait is to fire,
    /// if it does not run yet.
    pub fn hold(
        &mut self,
        how: AckCompression,
        now: Instant,
        rcv_nxt: u64,
        rtt: Option<Duration>,
    ) -> Option<Option<Instant>> {
        if self.held >= how.most {
            return None;
        }
        if self.rcv_nxt != rcv_nxt {
            (self.rcv_nxt, self.told) = (rcv_nxt, 0);
        }
        if self.told < AT_ONCE {
            self.told += 1;
            return None;
        }
        let part = Duration::from_nanos(rtt.map_or(0, |rtt| rtt.as_nanos() / PARTS));
        let delay = how.delay.min(part);
        if delay == Duration::ZERO {
            return None;
        }
        self.held += 1;
        Some((self.held == 1).then(|| now + delay + how.slack))
    }

    /// Do ACKs wait?
    pub fn is_holding(&self) -> bool {
        self.held > 0
    }

    /// An ACK leaves, and tells all.
    pub fn ack_sent(&mut self) {
        self.held = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOW: AckCompression = AckCompression {
        delay: Duration::from_millis(1),
        slack: Duration::from_nanos(100_000),
        most: 4,
    };

    #[test]
    fn three_go_at_once_and_the_others_together() {
        let now = Instant::from_nanos(5);
        let rtt = Some(Duration::from_millis(100));
        let mut acks = Compression::default();
        let fires = Some(now + HOW.delay + HOW.slack);
        let waits = [None, None, None, Some(fires), Some(None), Some(None), Some(None), None];
        for expected in waits {
            assert_eq!(acks.hold(HOW, now, 1, rtt), expected);
        }
        acks.ack_sent();
        assert_eq!(acks.hold(HOW, now, 1, rtt), Some(fires));
        // Something of the hole has come: three more go at once.
        acks.ack_sent();
        assert_eq!(acks.hold(HOW, now, 9, rtt), None);
    }

    #[test]
    fn a_short_round_trip_shortens_the_wait() {
        for (rtt, nanos) in [(None, None), (Some(4), Some(300_000)), (Some(40), Some(1_100_000))] {
            let mut acks = Compression { rcv_nxt: 1, told: AT_ONCE, held: 0 };
            let found = acks.hold(HOW, Instant::ZERO, 1, rtt.map(Duration::from_millis));
            assert_eq!(found, nanos.map(|nanos| Some(Instant::from_nanos(nanos))), "{rtt:?}");
        }
    }
}
