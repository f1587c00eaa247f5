//! ACK sequences for the unit tests of congestion control algorithms.

use super::family::AlgorithmKeys;
use super::sample::{AckSample, Delivery, Passage};
use super::{CongestionControl, CongestionControlKind, Variant, defaults};
use crate::Config;
use crate::presets::{Overrides, Profile, config};
use crate::sent::SentSegments;
use lasthop_base::units::{Bytes, Duration, Instant};
use std::collections::VecDeque;

/// SMSS in bytes.
pub const SEGMENT: u64 = 1000;

/// Returns the time `millis` ms after the start.
pub fn ms(millis: f64) -> Instant {
    Instant::from_nanos((millis * 1e6).round() as u64)
}

/// Returns a configuration of the profile `rfc` with small segments; its algorithm is not used.
pub fn any_config() -> Config {
    let set = Overrides { segment: Some(Bytes::new(SEGMENT)), ..Overrides::default() };
    config(Variant::Reno, Profile::Rfc, &set)
}

/// Creates the algorithm with default keys and a window of `cwnd` segments.
pub fn algorithm<K: AlgorithmKeys>(cwnd: f64) -> K::Machine {
    defaults::<K>().build(&any_config(), cwnd)
}

/// A sender that always uses its full window and loses no segments.
pub struct Acks {
    /// Milliseconds.
    pub now: f64,
    una: u64,
    /// Whether the next ACK echoes a congestion mark.
    pub is_marked: bool,
    /// Transmission time of the acknowledged segment, in milliseconds.
    sent: f64,
}

impl Acks {
    pub fn new() -> Self {
        Acks { now: 0.0, una: 0, is_marked: false, sent: 0.0 }
    }

    /// Acknowledges one segment with an RTT of `rtt` ms, `gap` ms after the previous ACK.
    pub fn ack(&mut self, algorithm: &mut impl CongestionControl, rtt: f64, gap: f64) {
        self.pass(algorithm, rtt, gap, gap);
    }

    /// Acknowledges one segment with an RTT of `rtt` ms. It was sent `left` ms and arrived
    /// `arrived` ms after the previous one.
    pub fn pass(
        &mut self,
        algorithm: &mut impl CongestionControl,
        rtt: f64,
        left: f64,
        arrived: f64,
    ) {
        self.now += arrived;
        self.sent += left;
        self.una += SEGMENT;
        let in_flight = algorithm.cwnd().floor().max(1.0) as u64 * SEGMENT;
        let rtt = Duration::from_nanos((rtt * 1e6).round() as u64);
        let snd_max = self.una + in_flight - SEGMENT;
        algorithm.on_delivery(&Delivery {
            now: ms(self.now),
            acked: SEGMENT,
            delivered: SEGMENT,
            total: self.una,
            in_flight: in_flight - SEGMENT,
            rtt: Some(rtt),
            snd_una: self.una,
            snd_max,
            rate: None,
            is_marked: self.is_marked,
            passage: Some(Passage { sent: ms(self.sent), received: ms(self.now) }),
            lost: 0,
        });
        algorithm.on_ack(&AckSample {
            now: ms(self.now),
            acked: SEGMENT,
            delivered_segments: 1,
            is_window_limited: true,
            prior_in_flight: in_flight,
            snd_una: self.una,
            snd_max,
            rtt: Some(rtt),
            srtt: rtt,
        });
    }

    /// Acknowledges one window over a round trip of `rtt` ms.
    pub fn round(&mut self, algorithm: &mut impl CongestionControl, rtt: f64) {
        let window = algorithm.cwnd().floor();
        for _ in 0..window as u64 {
            self.ack(algorithm, rtt, rtt / window);
        }
    }

    /// Acknowledges `count` windows.
    pub fn rounds(&mut self, algorithm: &mut impl CongestionControl, rtt: f64, count: u32) {
        for _ in 0..count {
            self.round(algorithm, rtt);
        }
    }
}

/// A path of 1 MB/s with 40 ms RTT (40 segments) and an unlimited queue.
pub struct Path {
    pub now: Instant,
    sent: SentSegments,
    /// Arrival times of the ACKs, in order.
    acks: VecDeque<Instant>,
    link_free: Instant,
    next_send: Instant,
    pub snd_una: u64,
    snd_nxt: u64,
    pub least_in_flight: u64,
    pub longest_rtt: Duration,
}

impl Path {
    pub fn new() -> Self {
        Path {
            now: Instant::ZERO,
            sent: SentSegments::new(),
            acks: VecDeque::new(),
            link_free: Instant::ZERO,
            next_send: Instant::ZERO,
            snd_una: 0,
            snd_nxt: 0,
            least_in_flight: u64::MAX,
            longest_rtt: Duration::ZERO,
        }
    }

    /// Simulates a sender that always has data, for `seconds`.
    pub fn run(&mut self, algorithm: &mut impl CongestionControl, seconds: f64) {
        let end = self.now + Duration::from_nanos((seconds * 1e9) as u64);
        (self.least_in_flight, self.longest_rtt) = (u64::MAX, Duration::ZERO);
        loop {
            let is_open = self.snd_nxt + SEGMENT - self.snd_una <= algorithm.window();
            let send = if is_open { self.next_send.max(self.now) } else { Instant::NEVER };
            let ack = self.acks.front().copied().unwrap_or(Instant::NEVER);
            self.now = send.min(ack);
            if self.now > end {
                self.now = end;
                return;
            }
            if ack <= send {
                self.acks.pop_front();
                self.snd_una += SEGMENT;
                let delivery = self.sent.on_ack(self.now, self.snd_una, &[]);
                self.longest_rtt = self.longest_rtt.max(delivery.rtt.unwrap());
                self.least_in_flight = self.least_in_flight.min(delivery.in_flight / SEGMENT);
                algorithm.on_delivery(&delivery);
            } else {
                self.sent.on_sent(self.now, self.snd_nxt, self.snd_nxt + SEGMENT);
                algorithm.on_sent(self.now, SEGMENT);
                self.snd_nxt += SEGMENT;
                let rate = algorithm.pacing_rate(Duration::from_millis(40));
                let gap = Duration::from_nanos((SEGMENT as f64 / rate * 1e9) as u64);
                self.next_send = self.now + gap;
                self.link_free = self.link_free.max(self.now) + Duration::from_millis(1);
                self.acks.push_back(self.link_free + Duration::from_millis(39));
            }
        }
    }
}

/// Puts the algorithm into congestion avoidance with a window of `cwnd`.
pub fn avoid(algorithm: &mut impl CongestionControl, cwnd: f64) {
    algorithm.on_congestion(Instant::ZERO, super::Congestion::Loss, 4.0);
    algorithm.set_cwnd(cwnd);
}

/// The name of an algorithm equals the name of its TCP.
#[test]
fn every_named_tcp_has_the_law_of_its_name() {
    for &variant in Variant::ALL {
        let algorithm = variant.parts().congestion_control;
        if !matches!(algorithm, CongestionControlKind::Reno(_)) {
            assert_eq!(variant.word(), algorithm.kind());
        }
    }
}
