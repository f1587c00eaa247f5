//! Receiver and sender of NADA (RFC 8698, section 4), with the parameters of its section 6.1.
//!
//! ```text
//!   receiver   one-way delays --> queueing delay d: minimum of 15 samples, less the lowest delay
//!              losses         --> filtered loss ratio p; recent losses warp a long d
//!              every 100 ms   --> report: x = d + 10 ms (p / 1 %)^2, received rate, mode
//!   sender     no loss, d < 10 ms for 500 ms: accelerated ramp-up, r = max(r, (1 + gamma) received rate)
//!              otherwise: gradual update, towards x = 10 ms r_max / r
//! ```
//!
//! *Not modelled*: marks (ECN), priorities, and the rate-shaping buffer of an encoder.

use lasthop_base::units::{Duration, Instant};
use std::collections::VecDeque;

/// Observation window for losses, delays and the received rate (LOGWIN).
const LOG_WINDOW: Duration = Duration::from_millis(500);
/// Taps of the minimum filter of delays.
const TAPS: usize = 15;
/// Upper bound of the queueing delay in the ramp-up mode (QEPS), and reference delay (XREF), in
/// seconds.
const QUEUE_EPSILON: f64 = 0.01;
const REFERENCE_DELAY: f64 = 0.01;
/// Delay from which delays are warped while losses are recent (QTH), in seconds, and the exponent
/// (LAMBDA).
const WARP_THRESHOLD: f64 = 0.05;
const WARP_EXPONENT: f64 = 0.5;
/// Number of mean loss intervals for which a loss is recent (MULTILOSS).
const MULTIPLE_LOSS: f64 = 7.0;
/// Weight of a new loss ratio (ALPHA).
const ALPHA: f64 = 0.1;
/// Penalty in seconds (DLOSS) at the reference loss ratio (PLRREF).
const LOSS_PENALTY: f64 = 0.01;
const REFERENCE_LOSS: f64 = 0.01;
/// Scaling factors (KAPPA, ETA) and time constant in seconds (TAU) of the gradual update.
const KAPPA: f64 = 0.5;
const ETA: f64 = 2.0;
const TAU: f64 = 0.5;
/// Maximum growth in ramp-up (GAMMA_MAX), and bound of the queueing delay that it causes (QBOUND)
/// with the filtering delay (DFILT), in seconds.
const MAX_GROWTH: f64 = 0.5;
const QUEUE_BOUND: f64 = 0.05;
const FILTER_DELAY: f64 = 0.12;
/// Weights of the latest loss intervals (RFC 5348, section 5.4).
const INTERVAL_WEIGHTS: [f64; 8] = [1.0, 1.0, 1.0, 1.0, 0.8, 0.6, 0.4, 0.2];

/// A report of the receiver.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct NadaReport {
    /// Aggregate congestion signal (x_curr) in seconds.
    pub congestion: f64,
    /// Received rate (r_recv) in bits per second.
    pub received_bps: f64,
    /// Whether the path permits the accelerated ramp-up (rmode 0).
    pub ramps_up: bool,
    /// Latest one-way delay in seconds.
    pub delay: f64,
}

/// An arrival in the observation window.
#[derive(Clone, Copy, Debug)]
struct Arrival {
    at: Instant,
    delay: f64,
    /// Packets that were missing before it.
    missing: u64,
}

/// The receiver.
#[derive(Clone, Debug)]
pub struct NadaReceiver {
    /// Bits of each packet.
    bits: f64,
    log: VecDeque<Arrival>,
    taps: VecDeque<f64>,
    lowest: f64,
    /// The number expected next, and the packets lost since the last loss.
    expected: u64,
    since_loss: f64,
    intervals: VecDeque<f64>,
    loss_ratio: f64,
    start: Instant,
}

impl NadaReceiver {
    /// Creates the receiver of packets of `bits`, at the start of the flow.
    pub fn new(bits: f64, start: Instant) -> Self {
        NadaReceiver {
            bits,
            log: VecDeque::new(),
            taps: VecDeque::with_capacity(TAPS),
            lowest: f64::INFINITY,
            expected: 0,
            since_loss: 0.0,
            intervals: VecDeque::new(),
            loss_ratio: 0.0,
            start,
        }
    }

    /// Processes packet `number`, sent at `sent`, which arrives at `at`. Packets that arrive after
    /// a later one count as lost.
    pub fn receive(&mut self, number: u64, sent: Instant, at: Instant) {
        let Some(missing) = number.checked_sub(self.expected) else { return };
        self.expected = number + 1;
        let delay = at.saturating_since(sent).as_secs_f64();
        self.lowest = self.lowest.min(delay);
        if self.taps.len() == TAPS {
            self.taps.pop_front();
        }
        self.taps.push_back(delay);
        if missing > 0 {
            self.intervals.push_front(self.since_loss + missing as f64);
            self.intervals.truncate(INTERVAL_WEIGHTS.len());
            self.since_loss = 0.0;
        }
        self.since_loss += 1.0;
        self.log.push_back(Arrival { at, delay, missing });
    }

    /// Returns the report at `now`; `None` before the first arrival.
    pub fn report(&mut self, now: Instant) -> Option<NadaReport> {
        while self.log.front().is_some_and(|first| first.at + LOG_WINDOW <= now) {
            self.log.pop_front();
        }
        let latest = *self.taps.back()?;
        let lost: u64 = self.log.iter().map(|one| one.missing).sum();
        let arrived = self.log.len() as f64;
        let sent = arrived + lost as f64;
        let ratio = if sent > 0.0 { lost as f64 / sent } else { 0.0 };
        self.loss_ratio += ALPHA * (ratio - self.loss_ratio);
        let smallest = self.taps.iter().copied().fold(f64::INFINITY, f64::min);
        let queueing = self.warp(smallest - self.lowest);
        let is_short = |one: &Arrival| one.delay - self.lowest < QUEUE_EPSILON;
        let window = now.saturating_since(self.start).min(LOG_WINDOW).as_secs_f64();
        let penalty = LOSS_PENALTY * (self.loss_ratio / REFERENCE_LOSS).powi(2);
        Some(NadaReport {
            congestion: queueing + penalty,
            received_bps: arrived * self.bits / window.max(1e-9),
            ramps_up: lost == 0 && self.log.iter().all(is_short),
            delay: latest,
        })
    }

    /// Warps a long queueing delay while the last loss is recent, so that flows that fill the queue
    /// do not starve the sender.
    fn warp(&self, delay: f64) -> f64 {
        let weights: f64 = INTERVAL_WEIGHTS.iter().take(self.intervals.len()).sum();
        let sum: f64 = self.intervals.iter().zip(INTERVAL_WEIGHTS).map(|(i, w)| i * w).sum();
        let is_recent = weights > 0.0 && self.since_loss < MULTIPLE_LOSS * sum / weights;
        if !is_recent || delay < WARP_THRESHOLD {
            return delay;
        }
        WARP_THRESHOLD * libm::exp(-WARP_EXPONENT * (delay - WARP_THRESHOLD) / WARP_THRESHOLD)
    }
}

/// The sender's reference rate (r_ref).
#[derive(Clone, Copy, Debug)]
pub struct NadaSender {
    rate: f64,
    min: f64,
    max: f64,
    previous: f64,
}

impl NadaSender {
    /// Creates a sender with rates from `min` to `max`, in bits per second. It starts with `min`.
    pub fn new(min: f64, max: f64) -> Self {
        NadaSender { rate: min, min, max, previous: 0.0 }
    }

    /// Reference rate in bits per second.
    pub fn rate(&self) -> f64 {
        self.rate
    }

    /// Processes a report that arrives `return_delay` seconds after it was sent, `interval` seconds
    /// after the previous one.
    pub fn update(&mut self, report: &NadaReport, interval: f64, return_delay: f64) {
        let congestion = report.congestion;
        if report.ramps_up {
            let rtt = report.delay + return_delay;
            let growth = MAX_GROWTH.min(QUEUE_BOUND / (rtt + interval + FILTER_DELAY));
            self.rate = self.rate.max((1.0 + growth) * report.received_bps);
        } else {
            let offset = congestion - REFERENCE_DELAY * self.max / self.rate;
            let change = congestion - self.previous;
            self.rate -= KAPPA * (interval / TAU) * (offset / TAU) * self.rate
                + KAPPA * ETA * (change / TAU) * self.rate;
        }
        self.previous = congestion;
        self.rate = self.rate.clamp(self.min, self.max);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(millis: u64) -> Instant {
        Instant::from_nanos(millis * 1_000_000)
    }

    /// 8,000 bits every 10 ms with a delay of 50 ms: after 1 s, 50 packets were received in 500 ms,
    /// 800 kbps, without a queue. Then the delay is 70 ms for 15 packets: the minimum of 15 is
    /// 20 ms above the lowest, and 14 are not enough.
    #[test]
    fn delays_are_filtered_by_the_minimum_of_fifteen() {
        let mut receiver = NadaReceiver::new(8_000.0, Instant::ZERO);
        assert_eq!(receiver.report(ms(50)), None);
        for number in 0..95 {
            receiver.receive(number, ms(10 * number), ms(10 * number + 50));
        }
        let report = receiver.report(ms(995)).expect("packets have arrived");
        assert_eq!((report.received_bps, report.ramps_up), (800_000.0, true));
        assert!(report.congestion == 0.0 && (report.delay - 0.05).abs() < 1e-12);
        for number in 95..109 {
            receiver.receive(number, ms(10 * number), ms(10 * number + 70));
        }
        assert_eq!(receiver.report(ms(1_160)).map(|one| one.congestion), Some(0.0));
        receiver.receive(109, ms(1_090), ms(1_160));
        let report = receiver.report(ms(1_160)).expect("packets have arrived");
        assert!((report.congestion - 0.02).abs() < 1e-9 && !report.ramps_up);
    }

    /// One packet of 20 is lost in the window: ratio 5 %, filtered 0.5 %, a penalty of
    /// 10 ms (0.5)^2 = 2.5 ms. The next report with the same ratio has 0.95 %: 9.025 ms.
    #[test]
    fn losses_are_a_delay() {
        let mut receiver = NadaReceiver::new(8_000.0, Instant::ZERO);
        for number in (0..20).filter(|&number| number != 10) {
            receiver.receive(number, ms(10 * number), ms(10 * number + 50));
        }
        for expected in [0.0025, 0.009_025] {
            let report = receiver.report(ms(240)).expect("packets have arrived");
            assert!((report.congestion - expected).abs() < 1e-12, "{}", report.congestion);
            assert!(!report.ramps_up);
        }
    }

    /// With a recent loss, 100 ms of queueing count as 50 exp(-0.5) = 30.33 ms. The mean interval
    /// is 11 packets, so that the loss is forgotten after 77.
    #[test]
    fn recent_losses_warp_long_delays() {
        let mut receiver = NadaReceiver::new(8_000.0, Instant::ZERO);
        for number in (0..11).filter(|&number| number != 10) {
            receiver.receive(number, ms(10 * number), ms(10 * number + 50));
        }
        for number in 11..87 {
            receiver.receive(number, ms(10 * number), ms(10 * number + 150));
        }
        assert!((receiver.warp(0.1) - 0.030_326_532_985_631_67).abs() < 1e-12);
        assert_eq!(receiver.warp(0.049), 0.049);
        receiver.receive(87, ms(870), ms(1_020));
        assert_eq!(receiver.warp(0.1), 0.1);
    }

    /// Ramp-up: gamma is 0.05/(0.1 + 0.1 + 0.12) = 0.15625. Gradual: at 1 Mbps of at most 1.5 Mbps
    /// and x = 20 ms after 10 ms, r changes by -0.5 (0.1/0.5)(0.005/0.5) - 0.5 2 (0.01/0.5) =
    /// -0.001 - 0.02. At x = 15 ms without change the rate is stable.
    #[test]
    fn rates_follow_the_reports() {
        let mut sender = NadaSender::new(150e3, 1.5e6);
        let report = NadaReport {
            congestion: 0.01,
            received_bps: 864_864.864_864_864_9,
            ramps_up: true,
            delay: 0.05,
        };
        sender.update(&report, 0.1, 0.05);
        assert!((sender.rate() - 1e6).abs() < 1e-3, "{}", sender.rate());
        let report = NadaReport { congestion: 0.02, ramps_up: false, ..report };
        sender.update(&report, 0.1, 0.05);
        assert!((sender.rate() - 979e3).abs() < 1e-3, "{}", sender.rate());
        let mut stable = NadaSender { rate: 1e6, min: 150e3, max: 1.5e6, previous: 0.015 };
        stable.update(&NadaReport { congestion: 0.015, ..report }, 0.1, 0.05);
        assert!((stable.rate() - 1e6).abs() < 1e-6);
        // The rate never leaves its limits.
        stable.update(&NadaReport { congestion: 5.0, ..report }, 0.1, 0.05);
        assert_eq!(stable.rate(), 150e3);
    }
}
