//! Messages about a run, for its reader: `tick` each second, `sample` each tenth of a second, and the
//! summary of `end`. A live run and a replay send the same messages.

use super::network::Network;
use lasthop_base::units::{Duration, Instant};
use lasthop_sim::scenario::Scenario;
use lasthop_sim::sim::ids::Side;
use serde_json::{Value, json};

/// Interval between ticks.
pub const TICK: Duration = Duration::from_secs(1);

/// Interval between samples.
pub const SAMPLE: Duration = Duration::from_millis(100);

/// Reports on the state of the links at regular times.
#[derive(Debug)]
pub struct Reporter {
    /// Whether samples are reported.
    has_samples: bool,
    next_tick: Instant,
    next_sample: Instant,
    /// Bits that could be sent by each direction until the last sample.
    capacities: Vec<[f64; 2]>,
    sampled: Instant,
}

impl Reporter {
    /// Creates a reporter for a run of `links` links that starts now.
    pub fn new(links: usize, has_samples: bool) -> Self {
        Reporter {
            has_samples,
            next_tick: Instant::ZERO + TICK,
            next_sample: if has_samples { Instant::ZERO + SAMPLE } else { Instant::NEVER },
            capacities: vec![[0.0; 2]; links],
            sampled: Instant::ZERO,
        }
    }

    /// Returns the time of the next report.
    pub fn next(&self) -> Instant {
        self.next_tick.min(self.next_sample)
    }

    /// Returns the message that is due at `now`, if any. Call it until it returns `None`.
    pub fn poll(&mut self, now: Instant, network: &mut Network, of: &Scenario) -> Option<Value> {
        if self.next_sample <= now {
            // Missed samples are not made up for.
            while self.next_sample <= now {
                self.next_sample += SAMPLE;
            }
            return Some(self.sample(now, network));
        }
        if self.next_tick <= now {
            while self.next_tick <= now {
                self.next_tick += TICK;
            }
            return Some(tick(now, network, of, false));
        }
        None
    }

    /// Returns the messages about the last, incomplete intervals.
    pub fn last(&mut self, now: Instant, network: &mut Network, of: &Scenario) -> Vec<Value> {
        // Rates over a very short interval would be inaccurate.
        let is_long = now.saturating_since(self.sampled).as_nanos() * 2 >= SAMPLE.as_nanos();
        let sample = (self.has_samples && is_long).then(|| self.sample(now, network));
        sample.into_iter().chain([tick(now, network, of, true)]).collect()
    }

    /// Returns the state of each direction, without names: counters since the start; rate and
    /// delays since the last sample.
    fn sample(&mut self, now: Instant, network: &mut Network) -> Value {
        let seconds = now.saturating_since(self.sampled).as_secs_f64();
        self.sampled = now;
        let mut directions = Vec::new();
        for index in 0..network.len() {
            let (link, meter) = network.link_and_meter(index);
            for side in Side::BOTH {
                let (end, up) = (link.end(side), link.end(side.other()).counters());
                let capacity = end.capacity(now);
                let before =
                    std::mem::replace(&mut self.capacities[index][side as usize], capacity);
                let rate = (capacity - before) / seconds;
                let counters = end.counters().queue;
                let meter = &mut meter.directions[side as usize];
                let [mean, maximum] = meter.take_sample();
                directions.push(json!({
                    "queue": end.length(now),
                    "rate_bps": rate.is_finite().then_some(rate),
                    "frames": counters.frames_sent,
                    "lost": counters.frames_lost,
                    "drops": counters.drops,
                    "retransmissions": end.link_counters().retransmissions,
                    "delivered_bytes": up.delivered_bytes,
                    "delay_mean_s": mean,
                    "delay_max_s": maximum,
                    "conversations": meter.conversation_bytes(),
                }));
            }
        }
        json!({"kind": "sample", "time": now.as_secs_f64(), "directions": directions})
    }
}

/// Returns the state of the links: counters since the start; percentiles since the last call.
fn tick(now: Instant, network: &mut Network, of: &Scenario, is_last: bool) -> Value {
    let mut directions = Vec::new();
    let mut round_trips = serde_json::Map::new();
    for (index, keys) in of.links.iter().enumerate() {
        let (link, meter) = network.link_and_meter(index);
        for side in Side::BOTH {
            let (end, up) = (link.end(side), link.end(side.other()).counters());
            let counters = end.counters();
            let length = end.length(now);
            let retransmissions = end.link_counters().retransmissions;
            let queueing = link.end_mut(side).sojourns_mut().durations.take_recent();
            let meter = &mut meter.directions[side as usize];
            directions.push(json!({
                "link": keys.name,
                "direction": side.word(),
                "conversations": meter.conversations(),
                "queue": length,
                "offered": meter.offered,
                "frames": counters.queue.frames_sent,
                "lost": counters.queue.frames_lost,
                "drops": counters.queue.drops,
                "retransmissions": retransmissions,
                "delivered": up.delivered,
                "delivered_bytes": up.delivered_bytes,
                "delay": meter.delays.take_recent(),
                "queueing": queueing,
            }));
        }
        round_trips.insert(keys.name.clone(), meter.round_trips.take_recent());
    }
    json!({
        "kind": "tick", "time": now.as_secs_f64(), "is_last": is_last,
        "links": directions, "round_trips": round_trips,
    })
}

/// Returns the summary of a run: for each direction, its packets and delays.
///
/// Of `lost` frames, `repaired` did not cost a packet. `discarded` packets were neither dropped by
/// the queue nor delivered, not even after the end.
pub fn summary(network: &Network, of: &Scenario) -> Value {
    let seconds = network.now().as_secs_f64();
    let in_transit = network.in_transit();
    let mut directions = Vec::new();
    let mut round_trips = serde_json::Map::new();
    for (index, keys) in of.links.iter().enumerate() {
        let (link, meter) = (&network.links()[index], network.meter(index));
        round_trips.insert(keys.name.clone(), meter.round_trips.all());
        for side in Side::BOTH {
            let (end, up) = (link.end(side), link.end(side.other()).counters());
            let counters = end.counters().queue;
            let meter = &meter.directions[side as usize];
            let in_transit = in_transit[index][side as usize];
            let arrived = up.delivered + in_transit + counters.drops;
            let discarded = meter.offered.saturating_sub(arrived);
            directions.push(json!({
                "link": keys.name,
                "direction": side.word(),
                "from": keys.between[side as usize],
                "to": keys.between[1 - side as usize],
                "goodput_bps": up.delivered_bytes as f64 * 8.0 / seconds,
                "offered": meter.offered,
                "delivered": up.delivered,
                "delivered_bytes": up.delivered_bytes,
                "in_transit": in_transit,
                "frames": counters.frames_sent,
                "lost": counters.frames_lost,
                "repaired": counters.frames_lost.saturating_sub(discarded),
                "discarded": discarded,
                "drops": counters.drops,
                "retransmissions": end.link_counters().retransmissions,
                "delay": meter.delays.all(),
                "queueing": end.sojourns().durations.all(),
                "conversations": meter.conversations(),
            }));
        }
    }
    json!({"directions": directions, "round_trips": round_trips})
}
