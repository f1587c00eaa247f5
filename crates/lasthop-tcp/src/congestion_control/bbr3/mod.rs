//! BBR version 3 (draft-ietf-ccwg-bbr-06), with the names of the draft.
//!
//! ```text
//!   model    max_bw: maximum delivery rate of this and the previous cycle      min_rtt: minimum RTT of the last 10 s
//!            long term: inflight_longterm, maximum volume in flight with a loss rate below 2 %
//!            short term: bw_shortterm, inflight_shortterm, as delivered in a round trip with losses, at least 0.7 of
//!            the previous value
//!            extra_acked: ACK aggregation, maximum of delivered - expected data in 10 round trips
//!   output   pacing at 0.99 gain min(max_bw, bw_shortterm)
//!            cwnd up to gain bdp + extra_acked, at least 3 bursts; below inflight_longterm (15 % less in CRUISE) and
//!            inflight_shortterm; at least 4 segments
//!
//!   STARTUP --------------------------------> DRAIN -----> PROBE_BW: DOWN --> CRUISE --> REFILL --> UP --> DOWN
//!   pacing 2.77, cwnd 2                       0.5, 2                 0.9       1          1          1.25
//!   until the rate grew by less than 25 % in 3 round trips, or a round trip of recovery lost 2 % in 6 ranges
//!
//!   DRAIN    until the volume in flight is at most the bdp, or for 3 round trips
//!   DOWN     until the volume in flight is at most the bdp and 85 % of inflight_longterm
//!   CRUISE   until 2 to 3 s after the start of DOWN, or for as many round trips as Reno takes to grow to the bdp,
//!            at most 63
//!   REFILL   one round trip without the short-term bounds
//!   UP       inflight_longterm grows by 1, 2, 4 … segments per round trip while it limits the sender;
//!            until the rate stops growing or 2 % are lost. Losses set inflight_longterm to the volume in flight at the
//!            loss, at least 0.7 of the target. The next UP ends as soon as this volume is in flight; if it causes no
//!            losses, REFILL follows after one round trip
//!   PROBE_RTT   from any phase after 5 s without a new minimum RTT: cwnd of bdp/2 for 200 ms and one round trip
//! ```
//!
//! In recovery the model determines the window; a timeout reduces it to one segment. The previous
//! window is restored when the recovery ends. If the losses were spurious, bounds and phase are
//! restored too. A mark counts as a loss in its round trip (section 3.7). Values that the draft
//! draws at random are derived from the start time of the phase, so that the algorithm needs no
//! random numbers. Losses detected with an ACK affect the model from the next ACK on, because loss
//! detection runs after congestion control here.
//!
//! *Not modelled*: bursts of several segments, except in their budget; an ECN response beyond that
//! of section 3.7, which the draft leaves open; requests for ACKs. The volume in flight includes
//! lost segments until they are repaired.

mod cycle;
mod model;
mod phase;
#[cfg(test)]
mod tests;

use super::super::config::Config;
use super::family::AlgorithmKeys;
use super::sample::{AckSample, Delivery, LostSegment};
use super::{Congestion, CongestionControl, ModelState};
use cycle::{Cycle, Probe};
use lasthop_base::schema::keys::table;
use lasthop_base::units::{Duration, Instant};
use model::{Ack, Bounds, Derived, Excess, Losses, MinRtt, Round, Undo};
use phase::{Acks, Phase, Plateau, STARTUP_GAIN};

/// Fraction of the volume in flight whose loss indicates that the volume was too high.
const LOSS_THRESHOLD: f64 = 0.02;
/// Minimum number of ranges lost in a round trip to end STARTUP.
const STARTUP_RANGES: u32 = 6;
/// Multiplicative decrease of the bounds after losses.
const BETA: f64 = 0.7;
/// Fraction of inflight_longterm that CRUISE leaves to other flows.
const HEADROOM: f64 = 0.15;
const MIN_RTT_LIFE: Duration = Duration::from_secs(10);
const PROBE_RTT_INTERVAL: Duration = Duration::from_secs(5);
const PROBE_RTT_TIME: Duration = Duration::from_millis(200);
/// Minimum window in segments.
const LEAST: f64 = 4.0;
const PACING_MARGIN: f64 = 0.99;
/// Maximum number of round trips between two bandwidth probes.
const MOST_ROUNDS: f64 = 63.0;
/// Duration in seconds of a burst (`send_quantum`) at the pacing rate. A burst has at least 2
/// segments and at most `MOST_QUANTUM` bytes.
const QUANTUM_TIME: f64 = 1e-3;
const MOST_QUANTUM: f64 = 65_536.0;
/// Number of bursts that the window always has room for: in the sender's queue, in its interface
/// and at the receiver.
const QUANTA: f64 = 3.0;

table! {
    /// BBR version 3: BBR that limits the loss rate to 2 % and leaves bandwidth to other flows.
    pub struct Bbr3Keys as "bbr3" {}
}

impl Copy for Bbr3Keys {}

impl AlgorithmKeys for Bbr3Keys {
    type Machine = Bbr3;

    const PACES: bool = true;

    const READS_RATES: bool = true;

    fn build(&self, config: &Config, cwnd: f64) -> Bbr3 {
        Bbr3::new(config, cwnd)
    }
}

/// Converts a number of bytes or nanoseconds. All are below 2^63; a signed integer is converted in
/// one instruction.
#[inline(always)]
fn real(number: u64) -> f64 {
    number as i64 as f64
}

/// Returns the larger of two numbers, in one instruction. Neither may be NaN.
#[inline(always)]
fn larger(one: f64, other: f64) -> f64 {
    if one > other { one } else { other }
}

/// Returns the smaller of two numbers, in one instruction. Neither may be NaN.
#[inline(always)]
fn smaller(one: f64, other: f64) -> f64 {
    if one < other { one } else { other }
}

/// BBR's window and rate. Volumes are in bytes, rates in bytes per nanosecond unless specified
/// otherwise.
#[derive(Clone, Copy, Debug)]
pub struct Bbr3 {
    /// SMSS in bytes.
    segment: f64,
    /// Minimum window: 4 SMSS.
    least: f64,
    has_sack: bool,
    cwnd: f64,
    initial_cwnd: f64,
    /// Window to restore after a recovery or PROBE_RTT.
    prior_cwnd: f64,
    phase: Phase,
    acks: Acks,
    /// Maximum rates of the previous cycle and of the current one.
    max_bw: [f64; 2],
    bounds: Bounds,
    excess: Excess,
    derived: Derived,
    losses: Losses,
    undo: Undo,
    round: Round,
    min_rtt: MinRtt,
    full_bw: Plateau,
    full_bw_reached: bool,
    cycle: Cycle,
    probe: Probe,
    /// Recovery in progress: the byte whose acknowledgment ends it.
    recovery: Option<u64>,
    pacing: Pacing,
    /// Whether no data was in flight after the latest ACK and no segment has been sent since.
    is_idle: bool,
    /// Whether transmission restarted after an idle period, so that PROBE_RTT is not needed.
    restarts: bool,
    latest: Latest,
}

/// Pacing and the volume that it needs.
#[derive(Clone, Copy, Debug)]
struct Pacing {
    /// Pacing rate in bytes per second; zero before the first sample.
    rate: f64,
    /// Minimum volume in flight: `QUANTA` bursts.
    floor: f64,
}

/// State after the latest ACK, in bytes.
#[derive(Clone, Copy, Debug, Default)]
struct Latest {
    now: Instant,
    snd_max: u64,
    /// Bytes delivered since the connection began.
    total: u64,
}

impl Bbr3 {
    fn new(config: &Config, cwnd: f64) -> Self {
        let segment = config.segment.get() as f64;
        let mut bbr = Bbr3 {
            segment,
            least: LEAST * segment,
            has_sack: config.sack,
            cwnd: cwnd * segment,
            initial_cwnd: config.initial_window * segment,
            prior_cwnd: cwnd * segment,
            phase: Phase::Startup,
            acks: Acks::Plain,
            max_bw: [0.0; 2],
            bounds: Bounds::NONE,
            excess: Excess::new(),
            derived: Derived::default(),
            losses: Losses::default(),
            undo: Undo { phase: None, bounds: Bounds::NONE },
            round: Round::default(),
            min_rtt: MinRtt::default(),
            full_bw: Plateau::default(),
            full_bw_reached: false,
            cycle: Cycle { at: Instant::ZERO, wait: Duration::ZERO, rounds: 0 },
            probe: Probe::new(),
            recovery: None,
            pacing: Pacing { rate: 0.0, floor: 2.0 * QUANTA * segment },
            is_idle: false,
            restarts: false,
            latest: Latest::default(),
        };
        bbr.derive();
        bbr
    }

    /// SaveCwnd().
    fn save_cwnd(&mut self) {
        let is_reduced = self.recovery.is_some() || self.phase.is_probe_rtt();
        self.prior_cwnd = if is_reduced { self.prior_cwnd.max(self.cwnd) } else { self.cwnd };
    }

    /// RestoreCwnd().
    fn restore_cwnd(&mut self) {
        self.cwnd = self.cwnd.max(self.prior_cwnd);
    }

    /// SetPacingRate(), SetSendQuantum().
    #[inline]
    fn set_rate(&mut self, rate: f64) {
        if rate != self.pacing.rate && (self.full_bw_reached || rate > self.pacing.rate) {
            self.pacing.rate = rate;
            let quantum = (rate * QUANTUM_TIME).min(MOST_QUANTUM).max(2.0 * self.segment);
            self.pacing.floor = QUANTA * quantum;
        }
    }

    /// SetCwnd(): `delivered` bytes were acknowledged or SACKed for the first time.
    #[inline]
    fn set_cwnd_from(&mut self, delivery: &Delivery, delivered: f64) {
        if self.recovery.is_some_and(|end| delivery.snd_una >= end) {
            self.recovery = None;
            self.restore_cwnd();
        }
        let max_inflight = self.with_budget(self.derived.window + self.excess.most());
        if self.full_bw_reached {
            self.cwnd = smaller(self.cwnd + delivered, max_inflight);
        } else if self.cwnd < max_inflight || real(delivery.total) < self.initial_cwnd {
            self.cwnd += delivered;
        }
        self.cwnd = larger(smaller(self.cwnd, self.bound()), self.least);
    }

    /// BoundCwndForProbeRTT(), BoundCwndForModel(): the maximum of the window in bytes, except that the
    /// window is at least `least`.
    #[inline]
    fn bound(&self) -> f64 {
        let longterm = match self.phase {
            Phase::Cruise => self.with_headroom(),
            Phase::ProbeRtt { .. } => self.with_headroom().min(self.probe_rtt_cwnd()),
            Phase::Down | Phase::Refill | Phase::Up => self.bounds.inflight_longterm,
            Phase::Startup | Phase::Drain { .. } => f64::INFINITY,
        };
        smaller(longterm, self.bounds.inflight_shortterm)
    }
}

impl CongestionControl for Bbr3 {
    fn on_ack(&mut self, _sample: &AckSample) {}

    fn on_delivery(&mut self, delivery: &Delivery) {
        let Delivery { now, snd_max, total, .. } = *delivery;
        let (left, delivered) = (real(delivery.in_flight), real(delivery.delivered));
        self.latest = Latest { now, snd_max, total };
        self.is_idle = delivery.in_flight == 0;
        (self.round.is_over, self.losses.round.is_over) = (false, false);
        let ack = delivery.rate.as_ref().map(|sample| {
            let rate = real(sample.delivered) / real(sample.interval.as_nanos());
            Ack { delivery, sample, rate, left }
        });
        if let Some(ack) = &ack {
            self.update_model(ack);
            self.excess.add(now, self.derived.bw, delivered, self.cwnd);
            self.check_full_bw(ack);
            self.advance(ack);
        }
        self.update_min_rtt(delivery, left);
        if let Some(ack) = &ack {
            self.advance_signals(ack);
        }
        self.set_rate(self.derived.rate);
        if delivery.delivered > 0 {
            self.restarts = false;
            self.set_cwnd_from(delivery, delivered);
        }
    }

    fn on_lost(&mut self, lost: &LostSegment) {
        self.lose(lost);
    }

    fn on_congestion(&mut self, _now: Instant, congestion: Congestion, _in_use: f64) {
        match congestion {
            Congestion::Loss => {
                self.save_state();
                self.recovery = Some(self.latest.snd_max);
            }
            Congestion::Ecn => self.note_loss(),
        }
    }

    fn on_timeout(&mut self, _now: Instant, in_use: Option<f64>) {
        if in_use.is_some() {
            self.save_state();
        }
        self.recovery = Some(self.latest.snd_max);
        self.cwnd = self.segment;
    }

    fn on_spurious(&mut self) {
        self.undo();
    }

    fn on_sent(&mut self, now: Instant, _bytes: u64) {
        // HandleRestartFromIdle().
        if std::mem::take(&mut self.is_idle) {
            self.restarts = true;
            self.excess.restart(now);
            if self.phase.is_probe_bw() {
                self.set_rate(PACING_MARGIN * self.derived.bw * 1e9);
            } else {
                self.check_probe_rtt_done(now);
            }
        }
    }

    fn keeps_window_in_recovery(&self) -> bool {
        true
    }

    fn is_self_limited(&self) -> bool {
        self.phase.is_probe_rtt()
    }

    fn window(&self) -> u64 {
        self.cwnd as i64 as u64
    }

    fn cwnd(&self) -> f64 {
        self.cwnd / self.segment
    }

    fn ssthresh(&self) -> f64 {
        f64::INFINITY
    }

    fn set_cwnd(&mut self, cwnd: f64) {
        self.cwnd = cwnd * self.segment;
    }

    fn pacing_rate(&self, srtt: Duration) -> f64 {
        if self.pacing.rate > 0.0 {
            self.pacing.rate
        } else {
            STARTUP_GAIN * self.cwnd / srtt.as_secs_f64()
        }
    }

    fn state(&self) -> ModelState {
        ModelState {
            phase: Some(self.phase.observed()),
            max_bw: Some(self.highest() * 1e9),
            min_rtt: self.min_rtt.rtt,
            bw_shortterm: Some(self.bounds.bw_shortterm * 1e9),
            inflight_shortterm: Some(self.bounds.inflight_shortterm / self.segment),
            inflight_longterm: Some(self.bounds.inflight_longterm / self.segment),
            extra_acked: Some(self.excess.most() / self.segment),
        }
    }
}
