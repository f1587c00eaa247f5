//! Compares the computed FIFO with a reference that keeps every packet: outcomes, lengths and
//! counters. Packets of a few lengths arrive in bursts and after idle periods; limits are a few
//! packets.

use lasthop_base::rng::Streams;
use lasthop_base::units::{Bytes, Instant, Probability, Rate};
use lasthop_link::channel::{Channel, Clean, Uniform};
use lasthop_link::queue::{ComputedFifo, Fate, Limit, QueueCounters, Transmitter};
use proptest::prelude::*;

/// The duration of a bit is 3 / 7 ns, so that most times have a fraction.
const RATE: u64 = 2_333_333_333;

/// An admitted packet.
struct Kept {
    start: u64,
    /// Whole nanoseconds, and the fraction in units of 1 / rate.
    end: (u64, u64),
    bits: u64,
    is_lost: bool,
}

/// Reference implementation that keeps all packets.
#[derive(Default)]
struct Model {
    kept: Vec<Kept>,
    drops: u64,
}

impl Model {
    fn length(&self, now: u64) -> u64 {
        self.kept.iter().filter(|packet| packet.end.0 > now).count() as u64
    }

    /// Returns the end of the transmission, or `None` if the packet is dropped.
    fn offer(&mut self, now: u64, bits: u64, limit: u64) -> Option<u64> {
        if self.length(now) >= limit {
            self.drops += 1;
            return None;
        }
        let free = self.kept.last().map_or((0, 0), |last| last.end);
        let (start, rest) = if free.0 >= now { free } else { (now, 0) };
        let exact = u128::from(start) * u128::from(RATE)
            + u128::from(rest)
            + u128::from(bits) * 1_000_000_000;
        let end = ((exact / u128::from(RATE)) as u64, (exact % u128::from(RATE)) as u64);
        self.kept.push(Kept { start, end, bits, is_lost: false });
        Some(end.0)
    }

    fn counters(&self, now: u64) -> QueueCounters {
        let started = || self.kept.iter().filter(|packet| packet.start <= now);
        QueueCounters {
            drops: self.drops,
            frames_sent: started().count() as u64,
            bits_sent: started().map(|packet| packet.bits).sum(),
            frames_lost: started().filter(|packet| packet.is_lost).count() as u64,
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn agrees_with_a_queue_of_single_packets(
        limit in 1u64..7,
        loss in prop_oneof![Just(0.0), Just(0.3)],
        offers in prop::collection::vec((0usize..6, 0usize..4), 1..200),
    ) {
        let streams = Streams { seed: 1, replication: 0 };
        let probability = Probability::new(loss).expect("a literal in [0, 1]");
        let channel = match loss {
            0.0 => Channel::Clean(Clean {}),
            _ => Channel::Uniform(Uniform::new(probability, &streams, "link")),
        };
        let transmitter = Transmitter::new(Rate::from_bps(RATE));
        let mut queue =
            ComputedFifo::new(transmitter, Limit::Packets(limit), Bytes::new(2), channel);
        let mut model = Model::default();
        let mut now = 0;
        for (pause, length) in offers {
            // Immediately, when the transmitter becomes idle, within a frame, and after several
            // frames.
            let free = model.kept.last().map_or(0, |last| last.end.0);
            now = [now, now, now.max(free), now + 1, now + 500, now + 20_000][pause];
            let bytes = [250, 250, 40, 1500][length];
            let fate = queue.offer(Instant::from_nanos(now), bytes);
            let end = model.offer(now, u64::from(bytes + 2) * 8, limit);
            let found = match fate {
                Fate::Dropped => None,
                Fate::Lost { end } | Fate::Sent { end } => Some(end.as_nanos()),
            };
            prop_assert_eq!(found, end);
            if let (Fate::Lost { .. }, Some(last)) = (fate, model.kept.last_mut()) {
                last.is_lost = true;
            }
            for at in [now, now + 1, now + 700] {
                let instant = Instant::from_nanos(at);
                prop_assert_eq!(queue.length(instant), model.length(at));
                prop_assert_eq!(queue.counters(instant), model.counters(at));
            }
        }
    }
}
