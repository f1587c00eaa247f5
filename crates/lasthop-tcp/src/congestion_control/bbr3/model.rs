//! What BBR version 3 knows of the path: sections 5.5.1 to 5.5.10 of the draft.

use super::super::highest::Highest;
use super::super::sample::{Delivery, LostSegment, RateSample};
use super::phase::{Acks, Phase};
use super::{BETA, Bbr3, HEADROOM, LOSS_THRESHOLD, PACING_MARGIN, STARTUP_RANGES};
use super::{larger, real, smaller};
use lasthop_base::units::Instant;

/// Round trips for which a sample of `extra_acked` counts: ten, and the one that goes on.
const EXTRA_ROUNDS: usize = 11;

/// An ACK that tells a rate.
#[derive(Clone, Copy)]
pub(super) struct Ack<'a> {
    pub delivery: &'a Delivery,
    pub sample: &'a RateSample,
    /// Bytes a nanosecond.
    pub rate: f64,
    /// Bytes in flight after it.
    pub left: f64,
}

/// What rates, the least round trip and the phase come to; [`Bbr3::derive`] keeps it up with them.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Derived {
    /// Bytes a nanosecond.
    pub bw: f64,
    /// Bandwidth-delay products for `bw` and for the highest bandwidth, in bytes; the initial window before the first round
    /// trip.
    pub bdp: f64,
    pub highest_bdp: f64,
    /// Product times the gain of the phase.
    pub window: f64,
    /// Bytes beyond that in UP.
    pub more: f64,
    /// Pacing rate, bytes a second.
    pub rate: f64,
}

/// By how much ACKs come ahead of the bandwidth (`extra_acked`), in bytes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Excess {
    since: Instant,
    acked: f64,
    most: Highest<EXTRA_ROUNDS>,
}

impl Excess {
    pub fn new() -> Self {
        Excess { since: Instant::ZERO, acked: 0.0, most: Highest::new() }
    }

    /// The most of late.
    #[inline]
    pub fn most(&self) -> f64 {
        self.most.get()
    }

    /// Sending begins again.
    pub fn restart(&mut self, now: Instant) {
        self.since = now;
    }

    /// A round trip begins. In STARTUP only the one before counts beside it.
    pub fn begin_round(&mut self, is_startup: bool) {
        if is_startup {
            self.most.begin_round_of_two();
        } else {
            self.most.begin_round();
        }
    }

    /// UpdateACKAggregation(): an ACK delivers so many bytes where `bw` bytes a nanosecond are expected.
    #[inline]
    pub fn add(&mut self, now: Instant, bw: f64, delivered: f64, cwnd: f64) {
        let mut expected = bw * real((now - self.since).as_nanos());
        if self.acked <= expected {
            (self.acked, self.since, expected) = (0.0, now, 0.0);
        }
        self.acked += delivered;
        self.most.add(smaller(self.acked - expected, cwnd));
    }
}

/// Losses of a round trip, which begins with the first of them.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Losses {
    /// It ends when a segment is acknowledged that left after so many bytes had been delivered.
    pub next_round: u64,
    pub is_round_over: bool,
    pub is_lossy: bool,
    /// Ranges of the sequence space that were lost in it, and one past the latest.
    pub ranges: u32,
    pub range_end: u64,
    /// Highest delivery rate in it, bytes a nanosecond.
    pub bw_latest: f64,
    /// Most bytes delivered over a sample in it.
    pub inflight_latest: f64,
}

/// What a recovery that was a mistake gives back.
#[derive(Clone, Copy, Debug)]
pub(super) struct Undo {
    /// The phase that losses ended.
    pub phase: Option<Phase>,
    pub bw_shortterm: f64,
    pub inflight_shortterm: f64,
    pub inflight_longterm: f64,
}

impl Bbr3 {
    pub(super) fn highest(&self) -> f64 {
        larger(self.max_bw[0], self.max_bw[1])
    }

    /// What the model comes to, after any change of it or of the phase.
    #[inline(never)]
    pub(super) fn derive(&mut self) {
        let (pacing, window) = self.phase.gains();
        let highest = self.highest();
        let bw = highest.min(self.bw_shortterm);
        let (bdp, highest_bdp, window) = match self.min_rtt {
            None => (self.initial_cwnd, self.initial_cwnd, self.initial_cwnd),
            Some(min_rtt) => {
                let nanos = real(min_rtt.as_nanos());
                (bw * nanos, highest * nanos, window * bw * nanos)
            }
        };
        let more = if self.phase == Phase::Up { 2.0 * self.segment } else { 0.0 };
        let rate = PACING_MARGIN * pacing * bw * 1e9;
        self.derived = Derived { bw, bdp, highest_bdp, window, more, rate };
    }

    /// What is in flight if nothing is probed for: TargetInflight().
    pub(super) fn target_inflight(&self) -> f64 {
        smaller(self.derived.bdp, self.cwnd)
    }

    /// A volume that hosts need at least: QuantizationBudget().
    pub(super) fn with_budget(&self, inflight: f64) -> f64 {
        larger(inflight, self.floor) + self.derived.more
    }

    /// inflight_longterm without what is left to others.
    pub(super) fn with_headroom(&self) -> f64 {
        let longterm = self.inflight_longterm;
        if longterm.is_infinite() {
            return longterm;
        }
        (longterm - (HEADROOM * longterm).max(self.segment)).max(self.least)
    }

    /// StartRound().
    pub(super) fn start_round(&mut self) {
        self.next_round = self.latest.total;
    }

    /// ResetShortTermModel().
    pub(super) fn forget_shortterm(&mut self) {
        (self.bw_shortterm, self.inflight_shortterm) = (f64::INFINITY, f64::INFINITY);
        self.derive();
    }

    /// ResetCongestionSignals().
    pub(super) fn reset_signals(&mut self) {
        self.losses.is_lossy = false;
        (self.losses.bw_latest, self.losses.inflight_latest) = (0.0, 0.0);
    }

    /// UpdateLatestDeliverySignals(), UpdateCongestionSignals().
    #[inline]
    pub(super) fn update_model(&mut self, ack: &Ack<'_>) {
        let Ack { delivery, sample, rate, .. } = *ack;
        let losses = &mut self.losses;
        losses.bw_latest = larger(losses.bw_latest, rate);
        losses.inflight_latest = larger(losses.inflight_latest, real(sample.delivered));
        if sample.prior_delivered >= losses.next_round {
            losses.next_round = delivery.total;
            losses.is_round_over = true;
        }
        if sample.prior_delivered >= self.next_round {
            self.next_round = delivery.total;
            self.is_round_over = true;
            self.rounds += 1;
            self.cycle.rounds += 1;
            self.excess.begin_round(!self.full_bw_reached);
        }
        // A sample that the application limits counts only above the highest.
        if rate > self.max_bw[1] && (!sample.is_app_limited || rate >= self.highest()) {
            self.max_bw[1] = rate;
            self.derive();
        }
        if self.losses.is_round_over {
            if self.losses.is_lossy && !self.phase.is_probing() {
                self.bound_shortterm();
            }
            self.losses.is_lossy = false;
        }
    }

    /// A round trip with losses outside of probes: InitLowerBounds(), LossLowerBounds().
    fn bound_shortterm(&mut self) {
        let bw = if self.bw_shortterm.is_finite() { self.bw_shortterm } else { self.highest() };
        let inflight =
            if self.inflight_shortterm.is_finite() { self.inflight_shortterm } else { self.cwnd };
        self.bw_shortterm = self.losses.bw_latest.max(BETA * bw);
        self.inflight_shortterm = self.losses.inflight_latest.max(BETA * inflight);
        self.derive();
    }

    /// AdvanceLatestDeliverySignals().
    pub(super) fn advance_signals(&mut self, ack: &Ack<'_>) {
        if self.losses.is_round_over {
            self.losses.bw_latest = ack.rate;
            self.losses.inflight_latest = real(ack.sample.delivered);
            self.losses.ranges = 0;
        }
    }

    /// CheckStartupHighLoss(): do the losses of a round trip of recovery end STARTUP?
    pub(super) fn check_startup_losses(&mut self, ack: &Ack<'_>) {
        let least = if self.has_sack { STARTUP_RANGES } else { 1 };
        if self.losses.is_round_over
            && self.recovery.is_some()
            && self.losses.ranges >= least
            && self.is_ack_too_high(ack)
        {
            self.undo.phase = Some(Phase::Startup);
            self.full_bw_reached = true;
            self.inflight_longterm = self.derived.bdp.max(self.losses.inflight_latest);
        }
    }

    /// IsInflightTooHigh(): were more than 2 % lost of what was in flight?
    fn is_too_high(&self, lost: u64, in_flight: u64) -> bool {
        lost > 0 && (!self.has_sack || real(lost) > LOSS_THRESHOLD * real(in_flight))
    }

    fn is_ack_too_high(&self, ack: &Ack<'_>) -> bool {
        let lost = ack.delivery.lost.saturating_sub(ack.sample.prior_lost);
        self.is_too_high(lost, ack.sample.in_flight_at_send)
    }

    /// AdaptLongTermModel(). Says whether the phase has changed.
    pub(super) fn adapt_longterm(&mut self, ack: &Ack<'_>) -> bool {
        if self.is_round_over && self.acks == Acks::Starting {
            self.acks = Acks::Feedback;
        }
        if self.is_round_over && self.acks == Acks::Stopping {
            self.acks = Acks::Plain;
            self.probe.has_samples = false;
            if self.phase.is_probe_bw() {
                if !ack.sample.is_app_limited {
                    // The next cycle.
                    self.max_bw = [self.max_bw[1], 0.0];
                    self.derive();
                }
                if self.probe.was_precautionary && !self.probe.was_too_high {
                    self.refill();
                    return true;
                }
            }
        }
        if self.inflight_longterm.is_finite() && !self.is_ack_too_high(ack) {
            let in_flight = real(ack.sample.in_flight_at_send);
            self.inflight_longterm = larger(self.inflight_longterm, in_flight);
            if self.phase == Phase::Up {
                self.probe_upward(ack.delivery);
            }
        }
        false
    }

    /// ProbeInflightLongtermUpward().
    pub(super) fn probe_upward(&mut self, delivery: &Delivery) {
        if !self.is_limited(delivery) {
            return;
        }
        self.probe.acked += real(delivery.delivered);
        if self.probe.acked >= self.probe.per {
            let grown = (self.probe.acked / self.probe.per).floor();
            self.probe.acked -= grown * self.probe.per;
            self.inflight_longterm += grown * self.segment;
        }
        if self.is_round_over {
            self.raise_slope();
        }
    }

    /// Does inflight_longterm, by way of the window, limit what is in flight?
    pub(super) fn is_limited(&self, delivery: &Delivery) -> bool {
        let before = real(delivery.in_flight + delivery.delivered);
        before + self.segment > self.cwnd && self.cwnd >= self.inflight_longterm
    }

    /// NoteLoss().
    pub(super) fn note_loss(&mut self) {
        if !self.losses.is_lossy {
            self.losses.next_round = self.latest.total;
            self.save_state();
        }
        self.losses.is_lossy = true;
    }

    /// HandleLostPacket().
    pub(super) fn lose(&mut self, lost: &LostSegment) {
        self.note_loss();
        self.losses.ranges += u32::from(lost.start != self.losses.range_end);
        self.losses.range_end = lost.end;
        if self.probe.has_samples
            && self.is_too_high(lost.lost - lost.prior_lost, lost.in_flight_at_send)
        {
            self.fall(in_flight_at_loss(lost), lost.is_app_limited);
        }
    }

    /// HandleInflightTooHigh().
    fn fall(&mut self, in_flight: f64, is_app_limited: bool) {
        self.probe.was_too_high = true;
        self.probe.has_samples = false;
        if !is_app_limited {
            self.inflight_longterm = in_flight.max(BETA * self.target_inflight());
        }
        if self.phase == Phase::Up {
            self.undo.phase = Some(Phase::Up);
            self.go_down();
        }
    }

    /// SaveStateUponLoss().
    pub(super) fn save_state(&mut self) {
        self.save_cwnd();
        self.undo = Undo {
            phase: None,
            bw_shortterm: self.bw_shortterm,
            inflight_shortterm: self.inflight_shortterm,
            inflight_longterm: self.inflight_longterm,
        };
    }
}

/// InflightAtLoss(): what was in flight where losses passed 2 % of it, in bytes.
pub(super) fn in_flight_at_loss(lost: &LostSegment) -> f64 {
    let size = lost.end - lost.start;
    let before = real(lost.in_flight_at_send.saturating_sub(size));
    let lost_before = real((lost.lost - lost.prior_lost).saturating_sub(size));
    before + (LOSS_THRESHOLD * before - lost_before) / (1.0 - LOSS_THRESHOLD)
}
