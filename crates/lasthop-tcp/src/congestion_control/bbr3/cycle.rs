//! Phase transitions: sections 5.3 and 5.4 of the draft.

use super::super::sample::Delivery;
use super::model::Ack;
use super::phase::{Acks, Phase, Plateau};
use super::{Bbr3, MIN_RTT_LIFE, MOST_ROUNDS, PROBE_RTT_INTERVAL, PROBE_RTT_TIME, smaller};
use lasthop_base::units::{Duration, Instant};

/// Maximum duration of DRAIN in round trips.
const DRAIN_ROUNDS: u32 = 3;

/// Current cycle of PROBE_BW.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cycle {
    /// Start of the cycle.
    pub at: Instant,
    /// Time from the start of the cycle to the next bandwidth probe.
    pub wait: Duration,
    /// Round trips since the start of the cycle, plus an initial value of 0 or 1.
    pub rounds: u32,
}

/// Bandwidth probing: the probe in progress in UP, and the outcome of the latest probe.
#[derive(Clone, Copy, Debug)]
pub(super) struct Probe {
    /// Number of times that the growth of inflight_longterm was doubled.
    pub rounds: u32,
    /// Bytes delivered towards the next segment of inflight_longterm, and the number of bytes per
    /// segment.
    pub acked: f64,
    pub per: f64,
    /// Whether losses may still be caused by the probe (`bw_probe_samples`).
    pub has_samples: bool,
    /// Whether the probe caused excessive losses.
    pub was_too_high: bool,
    /// Whether the probe ended at the volume in flight where the previous one had excessive losses.
    pub was_precautionary: bool,
}

impl Probe {
    pub fn new() -> Self {
        Probe {
            rounds: 0,
            acked: 0.0,
            per: f64::INFINITY,
            has_samples: false,
            was_too_high: false,
            was_precautionary: false,
        }
    }
}

impl Bbr3 {
    pub(super) fn enter(&mut self, phase: Phase) {
        self.phase = phase;
        self.derive();
    }

    /// StartProbeBW_DOWN().
    pub(super) fn go_down(&mut self) {
        let now = self.latest.now;
        self.reset_signals();
        self.probe.per = f64::INFINITY;
        // PickProbeWait(): 0 or 1 round trips, and 2 to 3 s.
        let micros = now.as_nanos() / 1_000;
        let wait = Duration::from_millis(2_000 + micros % 1_000);
        self.cycle = Cycle { at: now, wait, rounds: (micros % 2) as u32 };
        self.acks = Acks::Stopping;
        self.start_round();
        self.enter(Phase::Down);
    }

    /// StartProbeBW_REFILL().
    pub(super) fn refill(&mut self) {
        self.forget_shortterm();
        (self.probe.rounds, self.probe.acked) = (0, 0.0);
        self.probe.was_precautionary = false;
        self.acks = Acks::Plain;
        self.start_round();
        self.enter(Phase::Refill);
    }

    /// StartProbeBW_UP().
    fn go_up(&mut self, rate: f64) {
        self.probe.has_samples = true;
        self.acks = Acks::Starting;
        self.start_round();
        self.full_bw = Plateau::from(rate);
        self.enter(Phase::Up);
        self.raise_slope();
    }

    /// RaiseInflightLongtermSlope().
    pub(super) fn raise_slope(&mut self) {
        let growth = f64::from(1u32 << self.probe.rounds.min(30));
        self.probe.rounds += 1;
        self.probe.per = (self.cwnd / growth).max(self.segment);
    }

    /// CheckFullBWReached().
    pub(super) fn check_full_bw(&mut self, ack: &Ack<'_>) {
        if self.round.is_over && !ack.sample.is_app_limited {
            self.full_bw.check(ack.rate);
            self.full_bw_reached |= self.full_bw.is_reached;
        }
    }

    /// CheckStartupDone(), CheckDrainDone(), UpdateProbeBWCyclePhase().
    #[inline]
    pub(super) fn advance(&mut self, ack: &Ack<'_>) {
        if matches!(self.phase, Phase::Startup) {
            self.check_startup_losses(ack);
            if !self.full_bw_reached {
                return;
            }
            self.enter(Phase::Drain { began: self.round.count });
        }
        if let Phase::Drain { began } = self.phase
            && (ack.left <= self.with_budget(self.derived.bdp)
                || self.round.count > began + DRAIN_ROUNDS)
        {
            self.go_down();
        }
        if self.adapt_longterm(ack) {
            return;
        }
        match self.phase {
            Phase::Down | Phase::Cruise if self.is_time_to_probe(self.latest.now) => self.refill(),
            Phase::Down
                if ack.left <= self.with_headroom()
                    && ack.left <= self.with_budget(self.derived.highest_bdp) =>
            {
                self.enter(Phase::Cruise);
            }
            Phase::Refill if self.round.is_over => self.go_up(ack.rate),
            Phase::Up => self.check_up(ack),
            _ => {}
        }
    }

    /// IsTimeToProbeBW(): returns `true` after the wait, or after as many round trips as Reno takes
    /// to grow to the target volume in flight.
    fn is_time_to_probe(&self, now: Instant) -> bool {
        let most = MOST_ROUNDS * self.segment;
        now > self.cycle.at + self.cycle.wait
            || f64::from(self.cycle.rounds) * self.segment >= smaller(self.target_inflight(), most)
    }

    /// IsTimeToGoDown(), and the transition to DOWN.
    fn check_up(&mut self, ack: &Ack<'_>) {
        if self.probe.was_too_high && ack.left >= self.bounds.inflight_longterm {
            self.probe.was_precautionary = true;
        } else if self.is_limited(ack.delivery) {
            // inflight_longterm, not the path, limits the bandwidth.
            self.full_bw = Plateau::from(ack.rate);
            return;
        } else if !self.full_bw.is_reached {
            return;
        }
        self.probe.was_too_high = false;
        self.go_down();
    }

    /// UpdateMinRTT(), CheckProbeRTT(); `left` is the number of bytes in flight.
    #[inline]
    pub(super) fn update_min_rtt(&mut self, delivery: &Delivery, left: f64) {
        let now = delivery.now;
        let is_old = now > self.min_rtt.probe_at + PROBE_RTT_INTERVAL;
        if let Some(rtt) = delivery.rtt
            && (is_old || self.min_rtt.probe.is_none_or(|least| rtt < least))
        {
            (self.min_rtt.probe, self.min_rtt.probe_at) = (Some(rtt), now);
        }
        if let Some(least) = self.min_rtt.probe
            && (now > self.min_rtt.at + MIN_RTT_LIFE
                || self.min_rtt.rtt.is_none_or(|known| least < known))
        {
            (self.min_rtt.rtt, self.min_rtt.at) = (Some(least), self.min_rtt.probe_at);
            self.derive();
        }
        let is_there = self.phase.is_probe_rtt();
        if is_old && !is_there && !self.restarts && self.min_rtt.rtt.is_some() {
            self.save_cwnd();
            self.acks = Acks::Stopping;
            self.start_round();
            self.enter(Phase::ProbeRtt { until: None, round_over: false });
        }
        if let Phase::ProbeRtt { until, round_over } = self.phase {
            self.handle_probe_rtt(now, until, round_over, left);
        }
    }

    /// HandleProbeRTT().
    fn handle_probe_rtt(
        &mut self,
        now: Instant,
        until: Option<Instant>,
        round_over: bool,
        left: f64,
    ) {
        match until {
            None if left <= self.probe_rtt_cwnd() => {
                let until = Some(now + PROBE_RTT_TIME);
                self.phase = Phase::ProbeRtt { until, round_over: false };
                self.start_round();
            }
            Some(_) if round_over || self.round.is_over => {
                self.phase = Phase::ProbeRtt { until, round_over: true };
                self.check_probe_rtt_done(now);
            }
            _ => {}
        }
    }

    /// CheckProbeRTTDone(), ExitProbeRTT().
    pub(super) fn check_probe_rtt_done(&mut self, now: Instant) {
        let Phase::ProbeRtt { until: Some(until), .. } = self.phase else { return };
        if now <= until {
            return;
        }
        self.min_rtt.probe_at = now;
        self.restore_cwnd();
        self.forget_shortterm();
        if self.full_bw_reached {
            self.latest.now = now;
            self.go_down();
            self.enter(Phase::Cruise);
        } else {
            self.enter(Phase::Startup);
        }
    }

    pub(super) fn probe_rtt_cwnd(&self) -> f64 {
        self.derived.window.max(self.least)
    }

    /// HandleSpuriousLossDetection().
    pub(super) fn undo(&mut self) {
        self.recovery = None;
        self.restore_cwnd();
        self.losses.is_lossy = false;
        self.full_bw = Plateau::default();
        let undo = self.undo;
        self.bounds.raise_to(undo.bounds);
        self.undo.phase = None;
        self.derive();
        let is_there = self.phase.is_probe_rtt();
        match undo.phase {
            Some(Phase::Startup) if self.phase != Phase::Startup => {
                self.full_bw_reached = false;
                if !is_there {
                    self.enter(Phase::Startup);
                }
            }
            Some(Phase::Up) if self.phase != Phase::Up && !is_there => self.refill(),
            _ => {}
        }
    }
}
