//! A congestion control algorithm without TCP, for transports with their own loss detection.
//!
//! The transport reports packets as they are sent, acknowledged and declared lost. The algorithm
//! sees them as segments of one size. As each packet is reported, the window grows by acknowledged
//! packets, not by ACKs.
//!
//! *Not modelled*: delivery rates, pacing rates, arrival times, the fraction of marked packets and
//! undoing; algorithms that need them are rejected.

use super::{
    AckSample, Algorithm, Congestion, CongestionControl, CongestionControlKind, Delivery, Marks,
};
use crate::presets::{self, Overrides, Profile, Variant};
use lasthop_base::units::{Bytes, Duration, Instant};

/// A packet that is acknowledged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AckedPacket {
    /// Its size in bytes.
    pub bytes: u64,
    /// Bytes outstanding before the acknowledgment.
    pub in_flight: u64,
    /// Time from its transmission to its acknowledgment.
    pub rtt: Duration,
    /// Smoothed RTT.
    pub srtt: Duration,
    /// Whether the window may grow: the packet was sent after the last reduction, and the window
    /// limited the sender.
    pub may_grow: bool,
}

/// An algorithm with the bytes that it has been notified of.
///
/// ```
/// use lasthop_base::units::{Bytes, Duration, Instant};
/// use lasthop_tcp::congestion_control::standalone::{AckedPacket, Standalone};
/// use lasthop_tcp::congestion_control::{Congestion, CongestionControlKind, RenoKeys};
///
/// let kind = CongestionControlKind::Reno(RenoKeys {});
/// let mut reno = Standalone::new(kind, Bytes::new(1_000), Bytes::new(10_000)).expect("Reno");
/// let (now, rtt) = (Instant::ZERO, Duration::from_millis(40));
/// reno.on_sent(now, 1_000);
/// // Slow start: the window grows by each acknowledged packet.
/// let packet = AckedPacket { bytes: 1_000, in_flight: 10_000, rtt, srtt: rtt, may_grow: true };
/// reno.on_ack(now, &packet);
/// assert_eq!(reno.window(), 11_000);
/// reno.on_congestion(now, Congestion::Loss, 10_000);
/// assert_eq!(reno.window(), 5_000);
/// ```
#[derive(Clone, Debug)]
pub struct Standalone {
    algorithm: Algorithm,
    measures: bool,
    segment: u64,
    sent: u64,
    acked: u64,
    lost: u64,
}

impl Standalone {
    /// Returns `true` if the algorithm can be used without TCP.
    pub fn supports(kind: &CongestionControlKind) -> bool {
        let needs_tcp = kind.reads_rates() || kind.paces() || kind.reads_arrivals();
        let needs_counters = matches!(
            kind,
            CongestionControlKind::IdealBandwidth(_)
                | CongestionControlKind::LtTcp(_)
                | CongestionControlKind::Python(_)
        );
        !needs_tcp && !needs_counters && kind.marks() == Marks::Classic
    }

    /// Creates an algorithm for packets of `segment` and an initial window of `window`; `None` if
    /// it is not [supported](Self::supports).
    pub fn new(kind: CongestionControlKind, segment: Bytes, window: Bytes) -> Option<Self> {
        if !Self::supports(&kind) {
            return None;
        }
        let cwnd = window.get() as f64 / segment.get() as f64;
        let overrides = Overrides {
            congestion_control: Some(kind),
            segment: Some(segment),
            initial_window: Some(cwnd),
            handshake: Some(false),
            ..Overrides::default()
        };
        let config = presets::config(Variant::Sack, Profile::Rfc, &overrides);
        let algorithm = Algorithm::new(&config, cwnd);
        let (measures, segment) = (kind.measures(), segment.get());
        Some(Standalone { algorithm, measures, segment, sent: 0, acked: 0, lost: 0 })
    }

    /// Records that `bytes` are sent.
    pub fn on_sent(&mut self, now: Instant, bytes: u64) {
        self.sent += bytes;
        self.algorithm.on_sent(now, bytes);
    }

    /// Handles the acknowledgment of a packet.
    pub fn on_ack(&mut self, now: Instant, packet: &AckedPacket) {
        let AckedPacket { bytes, in_flight, rtt, srtt, may_grow } = *packet;
        self.acked += bytes;
        let snd_una = (self.acked + self.lost).min(self.sent);
        if self.measures {
            self.algorithm.on_delivery(&Delivery {
                now,
                acked: bytes,
                delivered: bytes,
                total: self.acked,
                in_flight: in_flight.saturating_sub(bytes),
                rtt: Some(rtt),
                snd_una,
                snd_max: self.sent,
                rate: None,
                is_marked: false,
                passage: None,
                lost: self.lost,
            });
        }
        let sample = AckSample {
            now,
            acked: bytes,
            delivered_segments: 1,
            is_window_limited: may_grow,
            prior_in_flight: in_flight,
            snd_una,
            snd_max: self.sent,
            rtt: Some(rtt),
            srtt,
        };
        if may_grow {
            self.algorithm.on_ack(&sample);
        } else {
            self.algorithm.on_round_trip(&sample);
        }
    }

    /// Records that `bytes` are declared lost.
    pub fn on_lost(&mut self, bytes: u64) {
        self.lost += bytes;
    }

    /// Handles congestion, once per window of data, with `in_flight` bytes outstanding.
    pub fn on_congestion(&mut self, now: Instant, congestion: Congestion, in_flight: u64) {
        let in_use = in_flight as f64 / self.segment as f64;
        self.algorithm.on_congestion(now, congestion, in_use);
    }

    /// Handles persistent congestion (RFC 9002, section 7.6): the window is `minimum`, below an
    /// unchanged threshold.
    pub fn on_persistent_congestion(&mut self, now: Instant, minimum: Bytes) {
        self.algorithm.on_timeout(now, None);
        self.algorithm.set_cwnd(minimum.get() as f64 / self.segment as f64);
    }

    /// Returns the window in bytes.
    pub fn window(&self) -> u64 {
        self.algorithm.window()
    }

    /// Returns the slow-start threshold in bytes; infinite before the first reduction.
    pub fn threshold(&self) -> f64 {
        self.algorithm.ssthresh() * self.segment as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::congestion_control::RenoKeys;

    const SEGMENT: u64 = 1_000;

    #[test]
    fn reno_doubles_then_adds_one_packet_per_window() {
        let kind = CongestionControlKind::Reno(RenoKeys {});
        let bytes = Bytes::new(10 * SEGMENT);
        let mut reno = Standalone::new(kind, Bytes::new(SEGMENT), bytes).expect("Reno");
        let round = |reno: &mut Standalone| {
            let packets = reno.window() / SEGMENT;
            for _ in 0..packets {
                reno.on_sent(Instant::ZERO, SEGMENT);
            }
            for _ in 0..packets {
                let srtt = Duration::from_millis(40);
                let in_flight = packets * SEGMENT;
                let packet =
                    AckedPacket { bytes: SEGMENT, in_flight, rtt: srtt, srtt, may_grow: true };
                reno.on_ack(Instant::ZERO, &packet);
            }
        };
        round(&mut reno);
        assert_eq!(reno.window(), 20 * SEGMENT);
        assert_eq!(reno.threshold(), f64::INFINITY);
        reno.on_congestion(Instant::ZERO, Congestion::Loss, 20 * SEGMENT);
        assert_eq!((reno.window(), reno.threshold()), (10 * SEGMENT, 1e4));
        round(&mut reno);
        // One segment per 10 packets; the window grows meanwhile.
        assert!((10_900..=11_000).contains(&reno.window()), "{}", reno.window());
        reno.on_persistent_congestion(Instant::ZERO, Bytes::new(2 * SEGMENT));
        assert_eq!((reno.window(), reno.threshold()), (2 * SEGMENT, 1e4));
    }

    #[test]
    fn algorithms_that_need_tcp_are_rejected() {
        let supported = |word: &str| {
            let variant = Variant::ALL.iter().find(|one| one.word() == word).expect("a variant");
            Standalone::supports(&variant.parts().congestion_control)
        };
        for word in ["reno", "cubic", "bic", "htcp", "hybla", "veno", "vegas", "illinois"] {
            assert!(supported(word), "{word}");
        }
        for word in ["bbr", "bbr3", "dctcp", "prague", "lt-tcp", "ideal-bandwidth", "santa-cruz"] {
            assert!(!supported(word), "{word}");
        }
    }
}
