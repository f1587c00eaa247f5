//! Trains of acknowledgments for the unit tests of laws.

use super::family::LawKeys;
use super::sample::{AckSample, Delivery};
use super::{CongestionLaw, LawKind, Variant, defaults};
use crate::tcp::Config;
use crate::tcp::presets::{Overrides, Profile, config};
use crate::units::{Bytes, Duration, Instant};

/// SMSS in bytes.
pub const SEGMENT: u64 = 1000;

/// `millis` after the start.
pub fn ms(millis: f64) -> Instant {
    Instant::from_nanos((millis * 1e6).round() as u64)
}

/// A configuration of the profile `rfc` with small segments; its law does not matter.
pub fn any_config() -> Config {
    let set = Overrides { segment: Some(Bytes::new(SEGMENT)), ..Overrides::default() };
    config(Variant::Reno, Profile::Rfc, &set)
}

/// The law of these keys at their defaults, with a window of `cwnd` segments.
pub fn law<K: LawKeys>(cwnd: f64) -> K::Machine {
    defaults::<K>().build(&any_config(), cwnd)
}

/// A sender whose window is always in use and whose every segment is acknowledged.
pub struct Acks {
    /// Milliseconds.
    pub now: f64,
    una: u64,
}

impl Acks {
    pub fn new() -> Self {
        Acks { now: 0.0, una: 0 }
    }

    /// One ACK of one segment that took `rtt` ms, `gap` ms after the last.
    pub fn ack(&mut self, law: &mut impl CongestionLaw, rtt: f64, gap: f64) {
        self.now += gap;
        self.una += SEGMENT;
        let in_flight = law.cwnd().floor().max(1.0) as u64 * SEGMENT;
        let rtt = Duration::from_nanos((rtt * 1e6).round() as u64);
        let snd_max = self.una + in_flight - SEGMENT;
        law.on_delivery(&Delivery {
            now: ms(self.now),
            acked: SEGMENT,
            delivered: SEGMENT,
            total: self.una,
            in_flight: in_flight - SEGMENT,
            rtt: Some(rtt),
            snd_una: self.una,
            snd_max,
            rate: None,
        });
        law.on_ack(&AckSample {
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

    /// A window of ACKs over a round trip of `rtt` ms.
    pub fn round(&mut self, law: &mut impl CongestionLaw, rtt: f64) {
        let window = law.cwnd().floor();
        for _ in 0..window as u64 {
            self.ack(law, rtt, rtt / window);
        }
    }

    /// Windows of ACKs.
    pub fn rounds(&mut self, law: &mut impl CongestionLaw, rtt: f64, count: u32) {
        for _ in 0..count {
            self.round(law, rtt);
        }
    }
}

/// In avoidance from here on, at this window.
pub fn avoid(law: &mut impl CongestionLaw, cwnd: f64) {
    law.on_congestion(Instant::ZERO, super::Congestion::Loss, 4.0);
    law.set_cwnd(cwnd);
}

/// The word of a law is that of the TCP named after it.
#[test]
fn every_named_tcp_has_the_law_of_its_name() {
    for &variant in Variant::ALL {
        let law = variant.parts().law;
        match law {
            LawKind::Reno(_) => {
                assert!(["reno", "newreno", "sack", "esack"].contains(&variant.word()))
            }
            _ => assert_eq!(variant.word(), law.kind()),
        }
    }
}
