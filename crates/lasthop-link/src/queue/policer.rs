//! Policer: packets that exceed a token bucket are dropped, whatever the queue.
//!
//! ```text
//!   tokens := min(burst, tokens + rate (now - last arrival))      at each arrival
//!   tokens >= size of the packet: tokens -= size, enqueue; otherwise drop
//! ```
//!
//! It corresponds to a meter with one rate and two colours whose red packets are dropped (RFC 2697
//! with an excess burst of 0), and to `police rate … burst …` of Linux's traffic control. Sizes
//! include frame headers. Packets that conform enter a drop-tail queue of the link, which is idle
//! if the link is faster than the bucket.
//!
//! State: the tokens; the time of the last arrival; the queued packets.
//!
//! Not modelled: marking instead of dropping; peak rates and excess bursts; a bucket shared by
//! several links.

use super::family::{DisciplineKeys, QueueSite, fifo_methods};
use super::{DisciplineCounters, Fifo, QueueDiscipline, Transmitter};
use lasthop_base::packet::Payload;
use lasthop_base::schema::keys::{Limits, table};
use lasthop_base::schema::quantity::QueueLimit;
use lasthop_base::units::{Bytes, Instant, Rate};

table! {
    /// Policer: packets that exceed a token bucket are dropped, as at the border of a network that
    /// enforces a rate without delaying packets.
    pub struct PolicerKeys as "policer" {
        /// Rate of the tokens.
        rate: Rate, Limits::RATE;
        /// Size of the bucket, which is full at first. A packet larger than it is always dropped.
        burst: Bytes = "100 kB", Limits::BUFFER;
        /// Maximum length of the queue of conforming packets, including the packet in transmission.
        limit: QueueLimit = "250 packets";
    }
}

/// The state machine.
pub type Machine<P> = Box<Policer<P>>;

impl DisciplineKeys for PolicerKeys {
    type Machine<P: Payload> = Machine<P>;

    fn build<P: Payload>(&self, site: &QueueSite<'_>) -> Machine<P> {
        let fifo = Fifo::new(self.limit.into(), site.header);
        Box::new(Policer::new(fifo, site.header, self.rate, self.burst))
    }
}

/// Tokens of a bit, so that a nanosecond at 1 bit/s is a token.
const PER_BIT: u128 = 1_000_000_000;

/// A queue behind a token bucket.
#[derive(Clone, Debug)]
pub struct Policer<P> {
    fifo: Fifo<P>,
    /// Frame header in bytes.
    header: u64,
    /// Tokens per nanosecond.
    rate: u128,
    /// Size of the bucket in tokens.
    burst: u128,
    tokens: u128,
    last: Instant,
    counters: DisciplineCounters,
}

fn tokens_of(bytes: u64) -> u128 {
    8 * u128::from(bytes) * PER_BIT
}

impl<P: Payload> Policer<P> {
    /// Creates a full bucket in front of `fifo`; packets count with a frame header of `header`.
    pub fn new(fifo: Fifo<P>, header: Bytes, rate: Rate, burst: Bytes) -> Self {
        let burst = tokens_of(burst.get());
        Policer {
            fifo,
            header: header.get(),
            rate: rate.as_bps().into(),
            burst,
            tokens: burst,
            last: Instant::ZERO,
            counters: DisciplineCounters::default(),
        }
    }

    /// Adds the tokens since the last arrival. Returns `true` and takes those of a packet of
    /// `bytes` if there are enough.
    fn takes(&mut self, now: Instant, bytes: u32) -> bool {
        let elapsed = now.saturating_since(self.last).as_nanos();
        self.last = self.last.max(now);
        self.tokens = self.burst.min(self.tokens + self.rate * u128::from(elapsed));
        let needed = tokens_of(u64::from(bytes) + self.header);
        let conforms = needed <= self.tokens;
        if conforms {
            self.tokens -= needed;
        }
        conforms
    }
}

impl<P: Payload> QueueDiscipline<P> for Box<Policer<P>> {
    fn enqueue(&mut self, now: Instant, packet: P, transmitter: &Transmitter) -> bool {
        if !self.fifo.has_room(now, packet.wire_bytes(), 1, transmitter) {
            self.counters.tail_drops += 1;
            return false;
        }
        if !self.takes(now, packet.wire_bytes()) {
            self.counters.early_drops += 1;
            return false;
        }
        self.fifo.push(packet);
        true
    }

    fn dequeue(&mut self, _now: Instant) -> Option<P> {
        self.fifo.pop()
    }

    fifo_methods!();
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::queue::Limit;
    use lasthop_base::packet::Packet;
    use lasthop_base::units::Duration;

    /// Returns the arrival times, in milliseconds, of the packets that pass. All have 980 B and
    /// headers of 20 B; the rate is 8 kbps, one packet per second.
    fn passing(burst: u64, limit: u32, arrivals_ms: &[u64]) -> Vec<u64> {
        let header = Bytes::new(20);
        let fifo = Fifo::new(Limit::Packets(limit.into()), header);
        let mut queue =
            Box::new(Policer::new(fifo, header, Rate::from_bps(8_000), Bytes::new(burst)));
        let transmitter = Transmitter::new(Rate::from_bps(1_000_000_000));
        let mut passes = |&ms: &u64| {
            let now = Instant::ZERO + Duration::from_millis(ms);
            let packet = Packet { bytes: 980, ..Packet::default() };
            queue.enqueue(now, packet, &transmitter)
        };
        let passed: Vec<_> = arrivals_ms.iter().copied().filter(|ms| passes(ms)).collect();
        let drops = (arrivals_ms.len() - passed.len()) as u64;
        let counters = queue.counters();
        assert_eq!(counters.tail_drops + counters.early_drops, drops);
        assert_eq!(queue.len(), passed.len());
        passed
    }

    #[test]
    fn a_burst_passes_then_the_rate() {
        // Two packets of tokens: both are spent at 0 s, then one packet per second conforms.
        assert_eq!(passing(2_000, 99, &[0, 0, 0, 999, 1_000, 1_001, 2_000]), [0, 0, 1_000, 2_000]);
        // Tokens do not exceed the bucket.
        assert_eq!(passing(2_000, 99, &[9_000; 4]), [9_000; 2]);
        // Fractions of a packet accumulate.
        assert_eq!(passing(1_500, 99, &[0, 400, 500, 1_400, 1_500, 2_500]), [0, 500, 1_500, 2_500]);
    }

    #[test]
    fn a_packet_larger_than_the_bucket_is_dropped() {
        assert!(passing(999, 99, &[0, 5_000]).is_empty());
        assert_eq!(passing(1_000, 99, &[0, 500, 5_000]), [0, 5_000]);
    }

    /// A packet that a full queue drops takes no tokens.
    #[test]
    fn conforming_packets_need_room() {
        assert_eq!(passing(9_000, 3, &[0; 5]), [0; 3]);
    }
}
