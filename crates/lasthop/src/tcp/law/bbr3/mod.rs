//! BBR version 3 (draft-ietf-ccwg-bbr-02), as far as the draft says.
//!
//! ```text
//!   model    max_bw: the highest delivery rate of this and the last cycle      min_rtt: the least of the last 10 s
//!            long term: inflight_hi, what the path held without losing 2 %
//!            short term: bw_lo, inflight_lo, what it delivered in a round trip with losses, at least 0.7 of before
//!   answer   pacing at 0.99 gain min(max_bw, bw_lo)
//!            cwnd up to gain bdp + 3 segments, inflight_hi (less 15 % in CRUISE), inflight_lo; at least 4
//!
//!   STARTUP --------------------------------> DRAIN -----> PROBE_BW: DOWN --> CRUISE --> REFILL --> UP --> DOWN
//!   pacing 2.77, cwnd 2                       0.5, 2                 0.9       1          1          1.25
//!   until max_bw grew by less than a quarter in 3 round trips, or a round trip of recovery lost 2 % and 6 segments
//!
//!   DOWN     until in flight is at most the bdp and 85 % of inflight_hi
//!   CRUISE   2 to 3 s after DOWN began, or after as many round trips as Reno would take to grow to the bdp, at most 63
//!   REFILL   a round trip without the short-term bounds
//!   UP       inflight_hi grows by 1, 2, 4 … segments a round trip while it is used;
//!            until max_bw stops to grow, or 2 % are lost: inflight_hi = what was in flight, at least 0.7 of the target
//!   PROBE_RTT   from anywhere once 5 s have shown no lower round trip: cwnd of half a bdp for 200 ms and a round trip
//! ```
//!
//! In the first round trip of a recovery as much is sent as is delivered; at its end the window is what it was before.
//! Where the draft draws random numbers, the time at which the phase begins stands for them, so that a law needs none.
//! Losses of a round trip count when loss detection declares them.
//!
//! *Not modelled*: the allowance for ACKs that come in bunches (`extra_acked`); ECN, which the draft leaves out; the choice
//! of bursts by rate: a segment each.

mod phase;
#[cfg(test)]
mod tests;

use super::super::config::Config;
use super::family::LawKeys;
use super::sample::{AckSample, Delivery, RateSample};
use super::{Congestion, CongestionLaw};
use crate::schema::keys::table;
use crate::units::{Duration, Instant};
use phase::{Acks, PROBE_RTT_GAIN, Phase, Plateau, STARTUP_GAIN};

/// Share of a round trip's segments whose loss means that too many were in flight.
const LOSS_THRESHOLD: f64 = 0.02;
/// Segments lost in a round trip that end STARTUP.
const STARTUP_LOSSES: f64 = 6.0;
/// What losses leave of the bounds.
const BETA: f64 = 0.7;
/// Share of inflight_hi that CRUISE leaves to others.
const HEADROOM: f64 = 0.15;
const MIN_RTT_LIFE: Duration = Duration::from_secs(10);
const PROBE_RTT_INTERVAL: Duration = Duration::from_secs(5);
const PROBE_RTT_TIME: Duration = Duration::from_millis(200);
/// Least window, in segments.
const LEAST: f64 = 4.0;
/// Segments beyond the bandwidth-delay product, for what hosts hold back.
const QUANTA: f64 = 3.0;
const PACING_MARGIN: f64 = 0.99;
/// Round trips at most between two probes for bandwidth.
const MOST_ROUNDS: u32 = 63;

table! {
    /// BBR version 3: BBR that keeps losses below 2 % and leaves room to others.
    pub struct Bbr3Keys as "bbr3" {}
}

impl Copy for Bbr3Keys {}

impl LawKeys for Bbr3Keys {
    type Machine = Bbr3;

    const PACES: bool = true;

    const READS_RATES: bool = true;

    fn build(&self, config: &Config, cwnd: f64) -> Bbr3 {
        Bbr3::new(config, cwnd)
    }
}

/// A recovery that goes on.
#[derive(Clone, Copy, Debug)]
struct Recovery {
    /// It ends when this byte is acknowledged.
    end: u64,
    /// Does the window follow what is delivered?
    conserves: bool,
}

/// The probe for more that goes on in UP.
#[derive(Clone, Copy, Debug)]
struct Probe {
    /// Round trips.
    rounds: u32,
    /// Segments delivered towards the next of inflight_hi, and how many make one.
    acks: f64,
    per: f64,
}

/// BBR's window and rate. Numbers of segments are fractions, rates bytes a second.
#[derive(Clone, Copy, Debug)]
pub struct Bbr3 {
    /// SMSS in bytes.
    segment: f64,
    cwnd: f64,
    initial_cwnd: f64,
    /// Window to come back to after a recovery or PROBE_RTT.
    prior_cwnd: f64,
    phase: Phase,
    acks: Acks,
    /// Highest rates of the last cycle and of this one.
    max_bw: [f64; 2],
    bw_lo: f64,
    inflight_hi: f64,
    inflight_lo: f64,
    model: Model,
    /// A round trip ends when a segment is acknowledged that left after so many bytes had been delivered.
    next_round: u64,
    is_round_over: bool,
    /// The same for round trips by which losses are judged, and what they have shown.
    next_loss_round: u64,
    bw_latest: f64,
    /// Bytes.
    inflight_latest: u64,
    /// Bytes lost when this round trip of losses began, and when the round trip in hand did.
    lost_before: u64,
    round_lost_before: u64,
    min_rtt: Option<Duration>,
    min_rtt_at: Instant,
    /// The least round trip by which PROBE_RTT goes.
    probe_rtt: Option<Duration>,
    probe_rtt_at: Instant,
    /// Of STARTUP, and of UP.
    full: Plateau,
    plateau: Plateau,
    /// When this cycle of PROBE_BW began, how long until it probes, and round trips since.
    cycle_at: Instant,
    wait: Duration,
    rounds: u32,
    probe: Probe,
    /// May losses still be of the latest probe?
    has_samples: bool,
    recovery: Option<Recovery>,
    rate: f64,
    /// Nothing was in flight after the latest ACK, and nothing has left since.
    is_idle: bool,
    /// Sending began again after that; PROBE_RTT need not empty the path.
    restarts: bool,
    latest: Option<Latest>,
}

/// What rates, the least round trip and the phase come to; [`Bbr3::model`] keeps it up with them.
#[derive(Clone, Copy, Debug, Default)]
struct Model {
    /// Bandwidth-delay product; none before the first round trip.
    bdp: Option<f64>,
    /// Segments in flight for the gain of the phase.
    target: f64,
    /// Pacing rate.
    rate: f64,
}

/// What a reduction needs to know of the latest ACK, in bytes.
#[derive(Clone, Copy, Debug)]
struct Latest {
    snd_max: u64,
    total: u64,
    lost: u64,
    /// In flight before it.
    outstanding: u64,
}

impl Bbr3 {
    fn new(config: &Config, cwnd: f64) -> Self {
        Bbr3 {
            segment: config.segment.get() as f64,
            cwnd,
            initial_cwnd: config.initial_window,
            prior_cwnd: cwnd,
            phase: Phase::Startup,
            acks: Acks::Plain,
            max_bw: [0.0; 2],
            bw_lo: f64::INFINITY,
            inflight_hi: f64::INFINITY,
            inflight_lo: f64::INFINITY,
            model: Model { bdp: None, target: config.initial_window, rate: 0.0 },
            next_round: 0,
            is_round_over: false,
            next_loss_round: 0,
            bw_latest: 0.0,
            inflight_latest: 0,
            lost_before: 0,
            round_lost_before: 0,
            min_rtt: None,
            min_rtt_at: Instant::ZERO,
            probe_rtt: None,
            probe_rtt_at: Instant::ZERO,
            full: Plateau::default(),
            plateau: Plateau::default(),
            cycle_at: Instant::ZERO,
            wait: Duration::ZERO,
            rounds: 0,
            probe: Probe { rounds: 0, acks: 0.0, per: f64::INFINITY },
            has_samples: false,
            recovery: None,
            rate: 0.0,
            is_idle: false,
            restarts: false,
            latest: None,
        }
    }

    fn highest(&self) -> f64 {
        self.max_bw[0].max(self.max_bw[1])
    }

    /// Bandwidth-delay product times `gain`; none before the first round trip.
    fn product(&self, gain: f64) -> Option<f64> {
        let bw = self.highest().min(self.bw_lo);
        self.min_rtt.map(|min_rtt| gain * bw * min_rtt.as_secs_f64() / self.segment)
    }

    /// Segments in flight for a gain.
    fn target(&self, gain: f64) -> f64 {
        let more = if matches!(self.phase, Phase::Up) { 2.0 } else { 0.0 };
        self.product(gain).map_or(self.initial_cwnd, |product| product.ceil() + QUANTA + more)
    }

    /// What the model comes to, after any change of it or of the phase.
    #[inline(never)]
    fn model(&mut self) {
        let (pacing, window) = self.phase.gains();
        let rate = PACING_MARGIN * pacing * self.highest().min(self.bw_lo);
        self.model = Model { bdp: self.product(1.0), target: self.target(window), rate };
    }

    fn enter(&mut self, phase: Phase) {
        self.phase = phase;
        self.model();
    }

    /// Bandwidth-delay product, or the initial window before it is known.
    fn bdp(&self) -> f64 {
        self.model.bdp.unwrap_or(self.initial_cwnd)
    }

    /// What is in flight if nothing is probed for.
    fn target_in_flight(&self) -> f64 {
        self.bdp().min(self.cwnd)
    }

    /// inflight_hi without what is left to others.
    fn with_headroom(&self) -> f64 {
        if self.inflight_hi.is_infinite() {
            return self.inflight_hi;
        }
        (self.inflight_hi - (HEADROOM * self.inflight_hi).max(1.0)).max(LEAST)
    }

    /// `total` bytes have been delivered and `lost` been declared lost.
    fn begin_round(&mut self, total: u64, lost: u64) {
        (self.next_round, self.round_lost_before) = (total, lost);
    }

    fn forget_short_term(&mut self) {
        (self.bw_lo, self.inflight_lo) = (f64::INFINITY, f64::INFINITY);
        self.model();
    }

    fn go_down(&mut self, delivery: &Delivery) {
        (self.bw_latest, self.inflight_latest) = (0.0, 0);
        self.lost_before = delivery.lost;
        self.probe.per = f64::INFINITY;
        let now = delivery.now;
        // rand(0, 1) round trips and 2 to 3 seconds.
        self.rounds = (now.as_nanos() / 1_000 % 2) as u32;
        let more = Duration::from_nanos(now.as_nanos() / 1_000 % 1_000 * 1_000_000);
        self.wait = Duration::from_secs(2) + more;
        self.cycle_at = now;
        self.acks = Acks::Stopping;
        self.begin_round(delivery.total, delivery.lost);
        self.enter(Phase::Down);
    }

    fn go_up(&mut self, delivery: &Delivery, sample: &RateSample) {
        self.acks = Acks::Starting;
        self.begin_round(delivery.total, delivery.lost);
        self.plateau = Plateau::from(sample.rate());
        self.cycle_at = delivery.now;
        self.enter(Phase::Up);
        self.raise_slope();
    }

    fn raise_slope(&mut self) {
        let growth = f64::from(1u32 << self.probe.rounds.min(30));
        self.probe.rounds += 1;
        self.probe.per = (self.cwnd / growth).max(1.0);
    }

    /// Rounds and rates: BBRUpdateLatestDeliverySignals(), BBRUpdateMaxBw().
    fn update_model(&mut self, delivery: &Delivery, sample: &RateSample) {
        self.is_round_over = sample.prior_delivered >= self.next_round;
        if self.is_round_over {
            self.rounds += 1;
            if matches!(self.phase, Phase::Startup) {
                self.check_startup_losses(delivery, sample);
            }
            self.begin_round(delivery.total, delivery.lost);
        }
        let rate = sample.rate();
        if rate > self.max_bw[1] && (!sample.is_app_limited || rate >= self.highest()) {
            self.max_bw[1] = rate;
            self.model();
        }
        if rate > self.bw_latest {
            self.bw_latest = rate;
        }
        self.inflight_latest = self.inflight_latest.max(sample.delivered);
        if sample.prior_delivered >= self.next_loss_round {
            self.next_loss_round = delivery.total;
            if delivery.lost > self.lost_before && !self.phase.is_probing() {
                self.bound_short_term();
            }
            self.lost_before = delivery.lost;
            (self.bw_latest, self.inflight_latest) = (rate, sample.delivered);
        }
        if self.is_round_over {
            if matches!(self.phase, Phase::Startup) {
                self.full.check(sample);
            } else if matches!(self.phase, Phase::Up) {
                self.plateau.check(sample);
            }
        }
    }

    /// BBRCheckStartupHighLoss().
    fn check_startup_losses(&mut self, delivery: &Delivery, sample: &RateSample) {
        let lost = (delivery.lost - self.round_lost_before) as f64 / self.segment;
        if self.recovery.is_some() && lost >= STARTUP_LOSSES && is_too_high(delivery, sample) {
            self.full.is_reached = true;
            self.inflight_hi = self.bdp().max(self.inflight_latest as f64 / self.segment);
        }
    }

    /// A round trip with losses outside of probes: BBRAdaptLowerBoundsFromCongestion().
    fn bound_short_term(&mut self) {
        let bw = if self.bw_lo.is_finite() { self.bw_lo } else { self.highest() };
        let in_flight = if self.inflight_lo.is_finite() { self.inflight_lo } else { self.cwnd };
        self.bw_lo = self.bw_latest.max(BETA * bw);
        self.inflight_lo = (self.inflight_latest as f64 / self.segment).max(BETA * in_flight);
        self.model();
    }

    /// BBRAdaptUpperBounds().
    fn bound_long_term(&mut self, delivery: &Delivery, sample: &RateSample) {
        if self.is_round_over {
            match self.acks {
                Acks::Starting => self.acks = Acks::Feedback,
                Acks::Stopping => {
                    self.acks = Acks::Plain;
                    self.has_samples = false;
                    if self.phase.is_probe_bw() && !sample.is_app_limited {
                        // The next cycle.
                        self.max_bw = [self.max_bw[1], 0.0];
                        self.model();
                    }
                }
                Acks::Plain | Acks::Feedback => {}
            }
        }
        let in_flight = || sample.in_flight_then as f64 / self.segment;
        if is_too_high(delivery, sample) {
            if self.has_samples {
                self.has_samples = false;
                if !sample.is_app_limited {
                    self.inflight_hi = in_flight().max(BETA * self.target_in_flight());
                }
                if matches!(self.phase, Phase::Up) {
                    self.go_down(delivery);
                }
            }
            return;
        }
        if self.inflight_hi.is_finite() {
            self.inflight_hi = self.inflight_hi.max(in_flight());
            if matches!(self.phase, Phase::Up) {
                self.probe_upward(delivery);
            }
        }
    }

    /// BBRProbeInflightHiUpward().
    fn probe_upward(&mut self, delivery: &Delivery) {
        if !self.is_limited(delivery) {
            return;
        }
        self.probe.acks += delivery.delivered as f64 / self.segment;
        let grown = (self.probe.acks / self.probe.per).floor();
        if grown > 0.0 {
            self.probe.acks -= grown * self.probe.per;
            self.inflight_hi += grown;
        }
        if self.is_round_over {
            self.raise_slope();
        }
    }

    /// Does inflight_hi, by way of the window, limit what is in flight?
    fn is_limited(&self, delivery: &Delivery) -> bool {
        let before = (delivery.in_flight + delivery.delivered) as f64 / self.segment;
        before + 1.0 >= self.cwnd && self.cwnd >= self.inflight_hi.floor()
    }

    /// Moves on in STARTUP, DRAIN and the cycle of PROBE_BW; `left` in segments, after the ACK.
    fn advance(&mut self, delivery: &Delivery, sample: &RateSample, left: f64) {
        match self.phase {
            Phase::Startup if self.full.is_reached => self.enter(Phase::Drain),
            Phase::Drain if left <= self.target(1.0) => self.go_down(delivery),
            Phase::Down | Phase::Cruise if self.is_time_to_probe(delivery.now) => {
                self.forget_short_term();
                self.probe = Probe { rounds: 0, acks: 0.0, per: f64::INFINITY };
                self.acks = Acks::Plain;
                self.begin_round(delivery.total, delivery.lost);
                self.enter(Phase::Refill);
            }
            Phase::Down if left <= self.with_headroom() && left <= self.target(1.0) => {
                self.enter(Phase::Cruise);
            }
            Phase::Refill if self.is_round_over => {
                self.has_samples = true;
                self.go_up(delivery, sample);
            }
            Phase::Up if self.is_limited(delivery) => {
                self.plateau = Plateau::from(sample.rate());
            }
            Phase::Up if self.plateau.is_reached => self.go_down(delivery),
            _ => {}
        }
    }

    fn is_time_to_probe(&self, now: Instant) -> bool {
        let reno_rounds = (self.target_in_flight() as u32).min(MOST_ROUNDS);
        now > self.cycle_at + self.wait || self.rounds >= reno_rounds
    }

    /// The least round trip, and PROBE_RTT, which looks for it.
    fn update_min_rtt(&mut self, delivery: &Delivery, left: f64) {
        let now = delivery.now;
        let is_old = now > self.probe_rtt_at + PROBE_RTT_INTERVAL;
        if let Some(rtt) = delivery.rtt
            && (is_old || self.probe_rtt.is_none_or(|least| rtt < least))
        {
            (self.probe_rtt, self.probe_rtt_at) = (Some(rtt), now);
        }
        if let Some(least) = self.probe_rtt
            && (now > self.min_rtt_at + MIN_RTT_LIFE
                || self.min_rtt.is_none_or(|known| least < known))
        {
            (self.min_rtt, self.min_rtt_at) = (Some(least), self.probe_rtt_at);
            self.model();
        }
        let is_there = matches!(self.phase, Phase::ProbeRtt { .. });
        if is_old && !is_there && !self.restarts && self.min_rtt.is_some() {
            self.remember_window();
            self.acks = Acks::Stopping;
            self.begin_round(delivery.total, delivery.lost);
            self.enter(Phase::ProbeRtt { until: None, round_over: false });
        }
        let Phase::ProbeRtt { until, round_over } = self.phase else { return };
        match until {
            None if left <= self.probe_rtt_cwnd() => {
                let until = Some(now + PROBE_RTT_TIME);
                self.phase = Phase::ProbeRtt { until, round_over: false };
                self.begin_round(delivery.total, delivery.lost);
            }
            Some(until) if round_over || self.is_round_over => {
                self.phase = Phase::ProbeRtt { until: Some(until), round_over: true };
                if now > until {
                    self.probe_rtt_at = now;
                    self.cwnd = self.cwnd.max(self.prior_cwnd);
                    self.forget_short_term();
                    if self.full.is_reached {
                        self.go_down(delivery);
                        self.enter(Phase::Cruise);
                    } else {
                        self.enter(Phase::Startup);
                    }
                }
            }
            _ => {}
        }
    }

    fn probe_rtt_cwnd(&self) -> f64 {
        self.product(PROBE_RTT_GAIN).map_or(LEAST, |half| half.max(LEAST))
    }

    fn remember_window(&mut self) {
        let is_reduced = self.recovery.is_some() || matches!(self.phase, Phase::ProbeRtt { .. });
        self.prior_cwnd = if is_reduced { self.prior_cwnd.max(self.cwnd) } else { self.cwnd };
    }

    fn set_rate(&mut self) {
        if self.full.is_reached || self.model.rate > self.rate {
            self.rate = self.model.rate;
        }
    }

    fn set_window(&mut self, delivery: &Delivery) {
        let delivered = delivery.delivered as f64 / self.segment;
        if let Some(recovery) = &mut self.recovery {
            recovery.conserves &= !self.is_round_over;
            if delivery.snd_una >= recovery.end {
                self.recovery = None;
                self.cwnd = self.cwnd.max(self.prior_cwnd);
            } else if recovery.conserves {
                let in_flight = delivery.in_flight as f64 / self.segment;
                self.cwnd = self.cwnd.max(in_flight + delivered);
                return;
            }
        }
        let target = self.model.target;
        if self.full.is_reached {
            self.cwnd = (self.cwnd + delivered).min(target);
        } else if self.cwnd < target || (delivery.total as f64) < self.initial_cwnd * self.segment {
            self.cwnd += delivered;
        }
        self.cwnd = self.cwnd.max(LEAST).min(self.model_bound());
    }

    /// BBRBoundCwndForModel().
    fn model_bound(&self) -> f64 {
        let long_term = match self.phase {
            Phase::Cruise | Phase::ProbeRtt { .. } => self.with_headroom(),
            Phase::Down | Phase::Refill | Phase::Up => self.inflight_hi,
            Phase::Startup | Phase::Drain => f64::INFINITY,
        };
        long_term.min(self.inflight_lo).max(LEAST)
    }
}

/// IsInflightTooHigh(): were more than 2 % lost of what was in flight when the sample's segment left?
fn is_too_high(delivery: &Delivery, sample: &RateSample) -> bool {
    let lost = delivery.lost.saturating_sub(sample.prior_lost);
    lost > 0 && lost as f64 > LOSS_THRESHOLD * sample.in_flight_then as f64
}

impl CongestionLaw for Bbr3 {
    fn on_ack(&mut self, _sample: &AckSample) {}

    fn on_delivery(&mut self, delivery: &Delivery) {
        let outstanding = delivery.in_flight + delivery.delivered;
        let Delivery { snd_max, total, lost, .. } = *delivery;
        self.latest = Some(Latest { snd_max, total, lost, outstanding });
        self.is_idle = delivery.in_flight == 0;
        self.is_round_over = false;
        let left = delivery.in_flight as f64 / self.segment;
        if let Some(sample) = &delivery.rate {
            self.update_model(delivery, sample);
            self.bound_long_term(delivery, sample);
            self.advance(delivery, sample, left);
        }
        self.update_min_rtt(delivery, left);
        if delivery.delivered > 0 {
            self.restarts = false;
            self.set_window(delivery);
        }
        self.set_rate();
    }

    fn on_congestion(&mut self, _now: Instant, _congestion: Congestion, _in_use: f64) {
        let Some(latest) = self.latest else { return };
        self.remember_window();
        self.recovery = Some(Recovery { end: latest.snd_max, conserves: true });
        self.begin_round(latest.total, latest.lost);
        let outstanding = latest.outstanding as f64 / self.segment;
        self.cwnd = self.cwnd.min(outstanding.max(1.0));
    }

    fn on_timeout(&mut self, _now: Instant, in_use: Option<f64>) {
        if in_use.is_some() {
            self.remember_window();
        }
        let end = self.latest.map_or(0, |latest| latest.snd_max);
        self.recovery = Some(Recovery { end, conserves: true });
        self.cwnd = 1.0;
    }

    fn on_spurious(&mut self) {
        self.recovery = None;
        self.cwnd = self.cwnd.max(self.prior_cwnd);
    }

    fn on_sent(&mut self, _now: Instant, _bytes: u64) {
        if std::mem::take(&mut self.is_idle) {
            self.restarts = true;
            if self.phase.is_probe_bw() {
                self.rate = PACING_MARGIN * self.highest().min(self.bw_lo);
            }
        }
    }

    fn keeps_window_in_recovery(&self) -> bool {
        true
    }

    fn window(&self) -> u64 {
        (self.cwnd() * self.segment) as u64
    }

    /// In PROBE_RTT half of the product, whatever it grows to meanwhile.
    fn cwnd(&self) -> f64 {
        if matches!(self.phase, Phase::ProbeRtt { .. }) {
            self.cwnd.min(self.probe_rtt_cwnd())
        } else {
            self.cwnd
        }
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
            STARTUP_GAIN * self.cwnd * self.segment / srtt.as_secs_f64()
        }
    }
}
