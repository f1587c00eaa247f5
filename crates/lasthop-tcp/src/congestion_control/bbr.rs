//! BBR version 1 (Cardwell, Cheng, Gunn, Yeganeh, Jacobson, "BBR: Congestion-Based Congestion Control", ACM Queue 14(5),
//! 2016; draft-cardwell-iccrg-bbr-congestion-control-00; Linux `tcp_bbr`).
//!
//! ```text
//!   model    bw: maximum delivery rate of the last 10 round trips      min_rtt: minimum RTT of the last 10 s
//!   output   pacing at 0.99 gain bw      cwnd up to gain bw min_rtt + 3 segments, at least 4
//!
//!            bw grew by less than 25 % in 3 round trips      in flight <= bw min_rtt
//!   STARTUP -------------------------------------------> DRAIN ---------------------------> PROBE_BW
//!   both gains 2.89                                      pacing 1/2.89                       |   ^
//!                                                                                            |   | 200 ms and one
//!   PROBE_BW: pacing 1.25, 0.75, then six times 1, one min_rtt each; cwnd 2   min_rtt is     v   | round trip
//!   PROBE_RTT: cwnd 4, which empties queues and reveals min_rtt               10 s old:    PROBE_RTT
//! ```
//!
//! Losses do not change the model. In the first round trip of a recovery, the sender sends as much
//! as is delivered (packet conservation). At the end of the recovery the window is restored. A
//! round trip ends when a segment sent after its beginning is acknowledged. Application-limited
//! samples are used only if they raise bw.
//!
//! PROBE_BW begins in any phase except the one with gain 0.75. The phase is derived from the
//! current time, so that the algorithm needs no random numbers.
//!
//! *Not modelled*: Linux's compensation for aggregated ACKs (`extra_acked`) and its model of
//! policers. The data in flight includes lost segments until they are repaired.

use super::super::config::Config;
use super::family::AlgorithmKeys;
use super::highest::Highest;
use super::sample::{AckSample, Delivery, RateSample};
use super::{Congestion, CongestionControl, CongestionPhase, ModelState};
use lasthop_base::schema::keys::table;
use lasthop_base::units::{Duration, Instant};

/// 2/ln 2: the minimum gain that doubles the rate every round trip.
const HIGH_GAIN: f64 = 2.885;
const CWND_GAIN: f64 = 2.0;
const CYCLE: [f64; 8] = [1.25, 0.75, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0];
/// Length of the bandwidth filter in round trips.
const BW_ROUNDS: usize = 10;
const MIN_RTT_LIFE: Duration = Duration::from_secs(10);
const PROBE_RTT_TIME: Duration = Duration::from_millis(200);
/// Minimum window in segments.
const LEAST: f64 = 4.0;
/// Segments added to the bandwidth-delay product for offload and aggregation in hosts (Linux: 3
/// bursts, here of one segment).
const QUANTA: f64 = 3.0;
const FULL_BW_GROWTH: f64 = 1.25;
const FULL_BW_ROUNDS: u32 = 3;
/// Pacing margin: the rate is 1 % below the model (Linux).
const PACING_MARGIN: f64 = 0.99;

table! {
    /// BBR version 1: pacing by a model of bandwidth and minimum RTT; losses do not change the
    /// model.
    pub struct BbrKeys as "bbr" {}
}

impl Copy for BbrKeys {}

impl AlgorithmKeys for BbrKeys {
    type Machine = Bbr;

    const PACES: bool = true;

    const READS_RATES: bool = true;

    fn build(&self, config: &Config, cwnd: f64) -> Bbr {
        Bbr::new(config, cwnd)
    }
}

/// Phase of the state machine.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Phase {
    Startup,
    Drain,
    /// Index into the gain cycle, and the time at which this phase began.
    ProbeBw {
        place: usize,
        began: Instant,
    },
    /// `until`: its end, set once in-flight data has fallen to the minimum window; `round_over`:
    /// whether a round trip has ended since.
    ProbeRtt {
        until: Option<Instant>,
        round_over: bool,
    },
}

/// Recovery in progress.
#[derive(Clone, Copy, Debug)]
struct Recovery {
    /// Recovery ends when this byte is acknowledged.
    end: u64,
    /// Whether packet conservation applies: the window follows the delivered data.
    packet_conservation: bool,
}

/// BBR's window and rate.
#[derive(Clone, Copy, Debug)]
pub struct Bbr {
    /// SMSS in bytes.
    segment: f64,
    /// Congestion window in segments.
    cwnd: f64,
    initial_cwnd: f64,
    /// Window to restore after a recovery or PROBE_RTT.
    prior_cwnd: f64,
    phase: Phase,
    /// Maximum delivery rate in bytes per second.
    bandwidth: Highest<BW_ROUNDS>,
    /// Bandwidth-delay product with the minimum RTT, in segments.
    product: f64,
    /// Target for segments in flight with the window gain of the phase.
    target: f64,
    /// Whether model or phase changed since target and rate were computed.
    is_stale: bool,
    /// The round trip ends when a segment is acknowledged that was sent after this number of bytes
    /// had been delivered.
    next_round: u64,
    min_rtt: Option<Duration>,
    min_rtt_at: Instant,
    /// Bandwidth that growth is compared with, and round trips without growth.
    full_bw: f64,
    full_bw_rounds: u32,
    is_full: bool,
    recovery: Option<Recovery>,
    /// Pacing rate in bytes per second; zero before the first sample.
    rate: f64,
    /// Whether no data was in flight after the latest ACK and no segment has been sent since.
    is_idle: bool,
    /// Whether transmission restarted after an idle period, so that PROBE_RTT is not needed.
    restarts: bool,
    latest: Option<Latest>,
}

/// State after the latest ACK, for reductions; in bytes.
#[derive(Clone, Copy, Debug)]
struct Latest {
    snd_max: u64,
    /// Bytes delivered since the connection began.
    total: u64,
    /// Bytes in flight before the ACK.
    outstanding: u64,
}

impl Bbr {
    fn new(config: &Config, cwnd: f64) -> Self {
        Bbr {
            segment: config.segment.get() as f64,
            cwnd,
            initial_cwnd: config.initial_window,
            prior_cwnd: cwnd,
            phase: Phase::Startup,
            bandwidth: Highest::new(),
            product: 0.0,
            target: 0.0,
            is_stale: true,
            next_round: 0,
            min_rtt: None,
            min_rtt_at: Instant::ZERO,
            full_bw: 0.0,
            full_bw_rounds: 0,
            is_full: false,
            recovery: None,
            rate: 0.0,
            is_idle: false,
            restarts: false,
            latest: None,
        }
    }

    /// Returns the gains of pacing rate and window.
    fn gains(&self) -> (f64, f64) {
        match self.phase {
            Phase::Startup => (HIGH_GAIN, HIGH_GAIN),
            Phase::Drain => (1.0 / HIGH_GAIN, HIGH_GAIN),
            Phase::ProbeBw { place, .. } => (CYCLE[place], CWND_GAIN),
            Phase::ProbeRtt { .. } => (1.0, 1.0),
        }
    }

    /// Returns the target for segments in flight with `gain`.
    fn target(&self, gain: f64) -> f64 {
        match self.min_rtt {
            None => self.initial_cwnd,
            Some(_) => (gain * self.product).ceil() + QUANTA,
        }
    }

    /// Updates the bandwidth-delay product after a change of bandwidth or minimum RTT.
    fn update_product(&mut self) {
        let min_rtt = self.min_rtt.unwrap_or(Duration::ZERO);
        self.product = self.bandwidth.get() * min_rtt.as_secs_f64() / self.segment;
        self.is_stale = true;
    }

    fn enter(&mut self, phase: Phase) {
        self.phase = phase;
        self.is_stale = true;
    }

    /// Computes target and pacing rate from model and phase.
    #[inline(never)]
    fn answer(&mut self) {
        self.is_stale = false;
        let (pacing, window) = self.gains();
        self.target = self.target(window);
        let rate = PACING_MARGIN * pacing * self.bandwidth.get();
        if self.is_full || rate > self.rate {
            self.rate = rate;
        }
    }

    fn enter_probe_bw(&mut self, now: Instant) {
        // Any phase except index 1, with gain 0.75.
        let drawn = (now.as_nanos() / 1_000 % (CYCLE.len() as u64 - 1)) as usize;
        let place = if drawn == 0 { 0 } else { drawn + 1 };
        self.enter(Phase::ProbeBw { place, began: now });
    }

    /// Adds a rate sample. Returns `true` if a round trip has ended.
    fn update_bandwidth(&mut self, delivery: &Delivery, sample: &RateSample) -> bool {
        let is_round_over = sample.prior_delivered >= self.next_round;
        let before = self.bandwidth.get();
        if is_round_over {
            self.next_round = delivery.total;
            self.bandwidth.begin_round();
        }
        let rate = sample.rate();
        if !sample.is_app_limited || rate >= self.bandwidth.get() {
            self.bandwidth.add(rate);
        }
        if self.bandwidth.get() != before {
            self.update_product();
        }
        is_round_over
    }

    fn check_full(&mut self, sample: &RateSample) {
        if self.is_full || sample.is_app_limited {
            return;
        }
        if self.bandwidth.get() >= FULL_BW_GROWTH * self.full_bw {
            (self.full_bw, self.full_bw_rounds) = (self.bandwidth.get(), 0);
        } else {
            self.full_bw_rounds += 1;
            self.is_full = self.full_bw_rounds >= FULL_BW_ROUNDS;
            self.is_stale = true;
        }
    }

    /// Converts bytes to segments. Avoids the division for exactly one segment, the most frequent
    /// case.
    #[inline]
    fn segments(&self, bytes: u64) -> f64 {
        let bytes = bytes as f64;
        if bytes == self.segment { 1.0 } else { bytes / self.segment }
    }

    /// Advances STARTUP, DRAIN and the cycle of PROBE_BW.
    #[inline]
    fn advance(&mut self, delivery: &Delivery) {
        let now = delivery.now;
        if self.is_full && matches!(self.phase, Phase::Startup) {
            self.enter(Phase::Drain);
        }
        if matches!(self.phase, Phase::Drain)
            && self.segments(delivery.in_flight) <= self.target(1.0)
        {
            self.enter_probe_bw(now);
        }
        let Phase::ProbeBw { place, began } = self.phase else { return };
        let lasted = self.min_rtt.is_some_and(|min_rtt| now - began > min_rtt);
        let gain = CYCLE[place];
        // Segments in flight before the ACK.
        let in_flight = || self.segments(delivery.in_flight) + self.segments(delivery.delivered);
        let is_over = if gain > 1.0 {
            // Until the target is in flight or segments are lost.
            lasted && (self.recovery.is_some() || in_flight() >= self.target(gain))
        } else if gain < 1.0 {
            lasted || in_flight() <= self.target(1.0)
        } else {
            lasted
        };
        if is_over {
            self.enter(Phase::ProbeBw { place: (place + 1) % CYCLE.len(), began: now });
        }
    }

    fn update_min_rtt(&mut self, delivery: &Delivery, is_round_over: bool) {
        let now = delivery.now;
        let is_old = now > self.min_rtt_at + MIN_RTT_LIFE;
        if let Some(rtt) = delivery.rtt
            && (is_old || self.min_rtt.is_none_or(|least| rtt <= least))
        {
            self.min_rtt_at = now;
            if self.min_rtt != Some(rtt) {
                self.min_rtt = Some(rtt);
                self.update_product();
            }
        }
        let is_probing = matches!(self.phase, Phase::ProbeRtt { .. });
        if is_old && !is_probing && !self.restarts && self.min_rtt.is_some() {
            self.remember_window();
            self.enter(Phase::ProbeRtt { until: None, round_over: false });
        }
        if let Phase::ProbeRtt { until, round_over } = self.phase {
            match until {
                None if self.segments(delivery.in_flight) <= LEAST => {
                    let until = Some(now + PROBE_RTT_TIME);
                    self.phase = Phase::ProbeRtt { until, round_over: false };
                    self.next_round = delivery.total;
                }
                Some(until) if round_over || is_round_over => {
                    self.phase = Phase::ProbeRtt { until: Some(until), round_over: true };
                    if now > until {
                        self.min_rtt_at = now;
                        self.cwnd = self.cwnd.max(self.prior_cwnd);
                        if self.is_full {
                            self.enter_probe_bw(now);
                        } else {
                            self.enter(Phase::Startup);
                        }
                    }
                }
                _ => {}
            }
        }
    }

    fn remember_window(&mut self) {
        let is_reduced = self.recovery.is_some() || matches!(self.phase, Phase::ProbeRtt { .. });
        self.prior_cwnd = if is_reduced { self.prior_cwnd.max(self.cwnd) } else { self.cwnd };
    }

    fn set_window(&mut self, delivery: &Delivery, is_round_over: bool) {
        let delivered = self.segments(delivery.delivered);
        if let Some(recovery) = &mut self.recovery {
            recovery.packet_conservation &= !is_round_over;
            if delivery.snd_una >= recovery.end {
                self.recovery = None;
                self.cwnd = self.cwnd.max(self.prior_cwnd);
            } else if recovery.packet_conservation {
                let in_flight = delivery.in_flight as f64 / self.segment;
                self.cwnd = self.cwnd.max(in_flight + delivered);
                return;
            }
        }
        if self.is_full {
            self.cwnd = (self.cwnd + delivered).min(self.target);
        } else if self.cwnd < self.target
            || (delivery.total as f64) < self.initial_cwnd * self.segment
        {
            self.cwnd += delivered;
        }
        self.cwnd = self.cwnd.max(LEAST);
    }
}

impl CongestionControl for Bbr {
    fn on_ack(&mut self, _sample: &AckSample) {}

    fn on_delivery(&mut self, delivery: &Delivery) {
        let outstanding = delivery.in_flight + delivery.delivered;
        let Delivery { snd_max, total, .. } = *delivery;
        self.latest = Some(Latest { snd_max, total, outstanding });
        self.is_idle = delivery.in_flight == 0;
        let mut is_round_over = false;
        if let Some(sample) = &delivery.rate {
            is_round_over = self.update_bandwidth(delivery, sample);
            if is_round_over {
                self.check_full(sample);
            }
        }
        self.advance(delivery);
        self.update_min_rtt(delivery, is_round_over);
        if self.is_stale {
            self.answer();
        }
        if delivery.delivered > 0 {
            self.restarts = false;
            self.set_window(delivery, is_round_over);
        }
    }

    fn on_congestion(&mut self, _now: Instant, _congestion: Congestion, _in_use: f64) {
        let Some(latest) = self.latest else { return };
        self.remember_window();
        self.recovery = Some(Recovery { end: latest.snd_max, packet_conservation: true });
        self.next_round = latest.total;
        let outstanding = latest.outstanding as f64 / self.segment;
        self.cwnd = self.cwnd.min(outstanding.max(1.0));
    }

    fn on_timeout(&mut self, _now: Instant, in_use: Option<f64>) {
        if in_use.is_some() {
            self.remember_window();
        }
        let end = self.latest.map_or(0, |latest| latest.snd_max);
        self.recovery = Some(Recovery { end, packet_conservation: true });
        self.full_bw = 0.0;
        self.cwnd = 1.0;
    }

    fn on_spurious(&mut self) {
        self.recovery = None;
        self.cwnd = self.cwnd.max(self.prior_cwnd);
    }

    fn on_sent(&mut self, _now: Instant, _bytes: u64) {
        if std::mem::take(&mut self.is_idle) {
            self.restarts = true;
            if matches!(self.phase, Phase::ProbeBw { .. }) {
                self.rate = PACING_MARGIN * self.bandwidth.get();
                self.is_stale = true;
            }
        }
    }

    fn keeps_window_in_recovery(&self) -> bool {
        true
    }

    fn window(&self) -> u64 {
        (self.cwnd() * self.segment) as u64
    }

    /// Returns the window; in PROBE_RTT at most 4 segments.
    fn cwnd(&self) -> f64 {
        if matches!(self.phase, Phase::ProbeRtt { .. }) { self.cwnd.min(LEAST) } else { self.cwnd }
    }

    fn ssthresh(&self) -> f64 {
        f64::INFINITY
    }

    fn set_cwnd(&mut self, cwnd: f64) {
        self.cwnd = cwnd;
    }

    fn pacing_rate(&self, srtt: Duration) -> f64 {
        if self.rate > 0.0 {
            self.rate
        } else {
            HIGH_GAIN * self.cwnd * self.segment / srtt.as_secs_f64()
        }
    }

    fn state(&self) -> ModelState {
        let phase = match self.phase {
            Phase::Startup => CongestionPhase::Startup,
            Phase::Drain => CongestionPhase::Drain,
            Phase::ProbeBw { place: 0, .. } => CongestionPhase::ProbeUp,
            Phase::ProbeBw { place: 1, .. } => CongestionPhase::ProbeDown,
            Phase::ProbeBw { .. } => CongestionPhase::ProbeCruise,
            Phase::ProbeRtt { .. } => CongestionPhase::ProbeRtt,
        };
        ModelState {
            phase: Some(phase),
            max_bw: Some(self.bandwidth.get()),
            min_rtt: self.min_rtt,
            ..ModelState::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Path, SEGMENT, algorithm, any_config};
    use super::*;

    /// STARTUP finds the bottleneck rate, DRAIN empties the queue, and PROBE_BW keeps the link busy
    /// with a short queue.
    #[test]
    fn the_model_becomes_that_of_the_path() {
        let mut bbr = algorithm::<BbrKeys>(10.0);
        let mut path = Path::new();
        path.run(&mut bbr, 0.05);
        assert_eq!(bbr.phase, Phase::Startup);
        path.run(&mut bbr, 1.0);
        assert!(matches!(bbr.phase, Phase::ProbeBw { .. }) && bbr.is_full);
        assert!((bbr.bandwidth.get() / 1e6 - 1.0).abs() < 0.02, "{}", bbr.bandwidth.get());
        assert_eq!(bbr.min_rtt, Some(Duration::from_millis(40)));
        let before = path.snd_una;
        path.run(&mut bbr, 5.0);
        let rate = (path.snd_una - before) as f64 / 5.0;
        assert!(rate > 0.97e6, "{rate}");
        // The phase with gain 1.25 lasts 40 ms and queues a quarter of 40 segments; the next phase
        // drains them.
        assert!(path.longest_rtt <= Duration::from_millis(55), "{:?}", path.longest_rtt);
        assert!((bbr.cwnd() - 83.0).abs() <= 3.0, "twice 40 segments and three: {}", bbr.cwnd());
    }

    /// 10 s after the minimum RTT sample, in-flight data falls to 4 segments for 200 ms, once.
    #[test]
    fn probe_rtt_comes_every_ten_seconds() {
        let mut bbr = algorithm::<BbrKeys>(10.0);
        let mut path = Path::new();
        path.run(&mut bbr, 2.0);
        bbr.min_rtt_at = path.now;
        bbr.min_rtt = Some(Duration::from_millis(30)); // Less than any later sample.
        path.run(&mut bbr, 9.9);
        assert!(path.least_in_flight > 10 && bbr.min_rtt == Some(Duration::from_millis(30)));
        path.run(&mut bbr, 0.6);
        assert!(path.least_in_flight <= 4, "{}", path.least_in_flight);
        assert!(matches!(bbr.phase, Phase::ProbeBw { .. }), "{:?}", bbr.phase);
        assert!(bbr.min_rtt >= Some(Duration::from_millis(40)));
        path.run(&mut bbr, 3.0);
        assert!(path.least_in_flight > 10 && bbr.cwnd() > 70.0);
    }

    /// The cycle: 1.25 until the target is in flight, 0.75 until the queue is empty, six round
    /// trips of 1.
    #[test]
    fn gains_follow_each_other() {
        let mut bbr = Bbr::new(&any_config(), 80.0);
        bbr.bandwidth.add(1e6);
        bbr.min_rtt = Some(Duration::from_millis(40));
        bbr.update_product();
        bbr.is_full = true;
        let ms = |millis: u64| Instant::from_nanos(millis * 1_000_000);
        bbr.phase = Phase::ProbeBw { place: 0, began: ms(0) };
        let gain = |bbr: &Bbr| bbr.gains().0;
        for (at, in_flight, expected) in [
            (39, 60, 1.25), // Less than one min_rtt.
            (50, 50, 1.25), // The target of 53 segments is not in flight yet.
            (51, 53, 0.75),
            (60, 50, 0.75),
            (70, 43, 1.0), // Drained before one min_rtt has elapsed.
            (100, 40, 1.0),
            (111, 40, 1.0),
            (152, 40, 1.0),
            (193, 40, 1.0),
            (234, 40, 1.0),
            (275, 40, 1.0),
            (316, 40, 1.25),
        ] {
            let delivery = Delivery {
                now: ms(at),
                acked: SEGMENT,
                delivered: SEGMENT,
                total: 0,
                in_flight: (in_flight - 1) * SEGMENT,
                rtt: None,
                snd_una: 0,
                snd_max: 0,
                rate: None,
                is_marked: false,
                passage: None,
                lost: 0,
            };
            bbr.advance(&delivery);
            assert_eq!(gain(&bbr), expected, "{at} ms");
        }
    }

    /// A loss does not change the model, and the window is restored after the recovery.
    #[test]
    fn a_recovery_keeps_the_model() {
        let mut bbr = algorithm::<BbrKeys>(10.0);
        let mut path = Path::new();
        path.run(&mut bbr, 2.0);
        let (window, rate) = (bbr.cwnd(), bbr.bandwidth.get());
        bbr.on_congestion(path.now, Congestion::Loss, 40.0);
        assert!(bbr.cwnd() < window && bbr.cwnd() >= 30.0, "data in flight: {}", bbr.cwnd());
        path.run(&mut bbr, 0.2);
        assert!(bbr.recovery.is_none() && bbr.cwnd() >= window - 3.0);
        bbr.on_timeout(path.now, Some(40.0));
        assert_eq!(bbr.cwnd(), 1.0);
        path.run(&mut bbr, 0.2);
        assert!(bbr.cwnd() >= window - 3.0 && (bbr.bandwidth.get() / rate - 1.0).abs() < 0.05);
    }
}
