//! Path model of BBR version 3: sections 5.5.1 to 5.5.10 of the draft.

use super::super::highest::Highest;
use super::super::sample::{Delivery, LostSegment, RateSample};
use super::phase::{Acks, Phase};
use super::{BETA, Bbr3, HEADROOM, LOSS_THRESHOLD, PACING_MARGIN, STARTUP_RANGES};
use super::{larger, real, smaller};
use lasthop_base::units::{Duration, Instant};

/// Length in round trips of the filter of `extra_acked`: the last 10 and the current one.
const EXTRA_ROUNDS: usize = 11;

/// An ACK with a delivery-rate sample.
#[derive(Clone, Copy)]
pub(super) struct Ack<'a> {
    pub delivery: &'a Delivery,
    pub sample: &'a RateSample,
    /// Delivery rate in bytes per nanosecond.
    pub rate: f64,
    /// Bytes in flight after the ACK.
    pub left: f64,
}

/// Values derived from rates, minimum RTT and phase; updated by [`Bbr3::derive`].
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Derived {
    /// Bandwidth estimate in bytes per nanosecond.
    pub bw: f64,
    /// Bandwidth-delay products with `bw` and with the maximum bandwidth, in bytes. Before the
    /// first RTT sample: the initial window.
    pub bdp: f64,
    pub highest_bdp: f64,
    /// Bandwidth-delay product times the window gain of the phase.
    pub window: f64,
    /// Bytes added to the window in UP.
    pub more: f64,
    /// Pacing rate in bytes per second.
    pub rate: f64,
}

/// ACK aggregation (`extra_acked`): bytes delivered beyond those expected from the bandwidth.
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

    /// Returns the maximum ACK aggregation of the last round trips, in bytes.
    #[inline]
    pub fn most(&self) -> f64 {
        self.most.get()
    }

    /// Restarts the measurement interval after an idle period.
    pub fn restart(&mut self, now: Instant) {
        self.since = now;
    }

    /// Starts a round trip. STARTUP keeps only the current and the previous round trip.
    pub fn begin_round(&mut self, is_startup: bool) {
        if is_startup {
            self.most.begin_round_of_two();
        } else {
            self.most.begin_round();
        }
    }

    /// UpdateACKAggregation() for an ACK that delivers `delivered` bytes; `bw` is in bytes per
    /// nanosecond.
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

/// Losses in a round trip that begins with the first loss.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Losses {
    pub round: Round,
    pub is_lossy: bool,
    /// Number of sequence number ranges lost in the round trip, and the end of the latest range.
    pub ranges: u32,
    pub range_end: u64,
    /// Maximum delivery rate in the round trip, in bytes per nanosecond.
    pub bw_latest: f64,
    /// Maximum number of bytes delivered over a sample in the round trip.
    pub inflight_latest: f64,
}

/// State to restore after a spurious recovery.
#[derive(Clone, Copy, Debug)]
pub(super) struct Undo {
    /// The phase ended by the losses.
    pub phase: Option<Phase>,
    pub bounds: Bounds,
}

/// Bounds of rate and volume in flight, as learnt from losses; infinite if unknown.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bounds {
    pub bw_shortterm: f64,
    pub inflight_shortterm: f64,
    pub inflight_longterm: f64,
}

impl Bounds {
    /// No bounds.
    pub const NONE: Self = Bounds {
        bw_shortterm: f64::INFINITY,
        inflight_shortterm: f64::INFINITY,
        inflight_longterm: f64::INFINITY,
    };

    /// Raises each bound to at least that of `other`.
    pub fn raise_to(&mut self, other: Bounds) {
        self.bw_shortterm = self.bw_shortterm.max(other.bw_shortterm);
        self.inflight_shortterm = self.inflight_shortterm.max(other.inflight_shortterm);
        self.inflight_longterm = self.inflight_longterm.max(other.inflight_longterm);
    }
}

/// A round trip of data.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Round {
    /// The round trip ends when a segment is acknowledged that was sent after this number of bytes
    /// had been delivered.
    pub next: u64,
    /// Whether the latest ACK has ended a round trip.
    pub is_over: bool,
    /// Number of completed round trips.
    pub count: u32,
}

impl Round {
    /// Processes the ACK of a segment sent after `prior_delivered` bytes had been delivered; `total`
    /// bytes are delivered now. Returns `true` if it ends the round trip.
    #[inline]
    pub fn advance(&mut self, prior_delivered: u64, total: u64) -> bool {
        if prior_delivered >= self.next {
            *self = Round { next: total, is_over: true, count: self.count + 1 };
            return true;
        }
        false
    }
}

/// Filters of the minimum RTT.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct MinRtt {
    pub rtt: Option<Duration>,
    pub at: Instant,
    /// Minimum RTT of the last 5 s, which triggers PROBE_RTT (probe_rtt_min_delay).
    pub probe: Option<Duration>,
    pub probe_at: Instant,
}

impl Bbr3 {
    pub(super) fn highest(&self) -> f64 {
        larger(self.max_bw[0], self.max_bw[1])
    }

    /// Updates the derived values after a change of the model or the phase.
    #[inline(never)]
    pub(super) fn derive(&mut self) {
        let (pacing, window) = self.phase.gains();
        let highest = self.highest();
        let bw = highest.min(self.bounds.bw_shortterm);
        let (bdp, highest_bdp, window) = match self.min_rtt.rtt {
            None => (self.initial_cwnd, self.initial_cwnd, self.initial_cwnd),
            Some(min_rtt) => {
                let nanos = real(min_rtt.as_nanos());
                (bw * nanos, highest * nanos, window * bw * nanos)
            }
        };
        let more = if matches!(self.phase, Phase::Up) { 2.0 * self.segment } else { 0.0 };
        let rate = PACING_MARGIN * pacing * bw * 1e9;
        self.derived = Derived { bw, bdp, highest_bdp, window, more, rate };
    }

    /// TargetInflight(): volume in flight when bandwidth is not probed.
    pub(super) fn target_inflight(&self) -> f64 {
        smaller(self.derived.bdp, self.cwnd)
    }

    /// QuantizationBudget(): at least the minimum volume that hosts need.
    pub(super) fn with_budget(&self, inflight: f64) -> f64 {
        larger(inflight, self.pacing.floor) + self.derived.more
    }

    /// Returns inflight_longterm less the headroom for other flows.
    pub(super) fn with_headroom(&self) -> f64 {
        let longterm = self.bounds.inflight_longterm;
        if longterm.is_infinite() {
            return longterm;
        }
        (longterm - (HEADROOM * longterm).max(self.segment)).max(self.least)
    }

    /// StartRound().
    pub(super) fn start_round(&mut self) {
        self.round.next = self.latest.total;
    }

    /// ResetShortTermModel().
    pub(super) fn forget_shortterm(&mut self) {
        (self.bounds.bw_shortterm, self.bounds.inflight_shortterm) = (f64::INFINITY, f64::INFINITY);
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
        losses.round.advance(sample.prior_delivered, delivery.total);
        if self.round.advance(sample.prior_delivered, delivery.total) {
            self.cycle.rounds += 1;
            self.excess.begin_round(!self.full_bw_reached);
        }
        // An application-limited sample is used only if it reaches the maximum.
        if rate > self.max_bw[1] && (!sample.is_app_limited || rate >= self.highest()) {
            self.max_bw[1] = rate;
            self.derive();
        }
        if self.losses.round.is_over {
            if self.losses.is_lossy && !self.phase.is_probing() {
                self.bound_shortterm();
            }
            self.losses.is_lossy = false;
        }
    }

    /// InitLowerBounds(), LossLowerBounds(): sets the short-term bounds after a round trip with
    /// losses outside probes.
    fn bound_shortterm(&mut self) {
        let bw = if self.bounds.bw_shortterm.is_finite() {
            self.bounds.bw_shortterm
        } else {
            self.highest()
        };
        let inflight = if self.bounds.inflight_shortterm.is_finite() {
            self.bounds.inflight_shortterm
        } else {
            self.cwnd
        };
        self.bounds.bw_shortterm = self.losses.bw_latest.max(BETA * bw);
        self.bounds.inflight_shortterm = self.losses.inflight_latest.max(BETA * inflight);
        self.derive();
    }

    /// AdvanceLatestDeliverySignals().
    pub(super) fn advance_signals(&mut self, ack: &Ack<'_>) {
        if self.losses.round.is_over {
            self.losses.bw_latest = ack.rate;
            self.losses.inflight_latest = real(ack.sample.delivered);
            self.losses.ranges = 0;
        }
    }

    /// CheckStartupHighLoss(): ends STARTUP if the losses of a round trip of recovery are
    /// excessive.
    pub(super) fn check_startup_losses(&mut self, ack: &Ack<'_>) {
        let least = if self.has_sack { STARTUP_RANGES } else { 1 };
        if self.losses.round.is_over
            && self.recovery.is_some()
            && self.losses.ranges >= least
            && self.is_ack_too_high(ack)
        {
            self.undo.phase = Some(Phase::Startup);
            self.full_bw_reached = true;
            self.bounds.inflight_longterm = self.derived.bdp.max(self.losses.inflight_latest);
        }
    }

    /// IsInflightTooHigh(): returns `true` if more than 2 % of the volume in flight was lost.
    /// Without SACK, any loss suffices.
    fn is_too_high(&self, lost: u64, in_flight: u64) -> bool {
        lost > 0 && (!self.has_sack || real(lost) > LOSS_THRESHOLD * real(in_flight))
    }

    fn is_ack_too_high(&self, ack: &Ack<'_>) -> bool {
        let lost = ack.delivery.lost.saturating_sub(ack.sample.prior_lost);
        self.is_too_high(lost, ack.sample.in_flight_at_send)
    }

    /// AdaptLongTermModel(). Returns `true` if the phase has changed.
    pub(super) fn adapt_longterm(&mut self, ack: &Ack<'_>) -> bool {
        if self.round.is_over && self.acks == Acks::Starting {
            self.acks = Acks::Feedback;
        }
        if self.round.is_over && self.acks == Acks::Stopping {
            self.acks = Acks::Plain;
            self.probe.has_samples = false;
            if self.phase.is_probe_bw() {
                if !ack.sample.is_app_limited {
                    // Advances max_bw to the next cycle.
                    self.max_bw = [self.max_bw[1], 0.0];
                    self.derive();
                }
                if self.probe.was_precautionary && !self.probe.was_too_high {
                    self.refill();
                    return true;
                }
            }
        }
        if self.bounds.inflight_longterm.is_finite() && !self.is_ack_too_high(ack) {
            let in_flight = real(ack.sample.in_flight_at_send);
            self.bounds.inflight_longterm = larger(self.bounds.inflight_longterm, in_flight);
            if matches!(self.phase, Phase::Up) {
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
            self.bounds.inflight_longterm += grown * self.segment;
        }
        if self.round.is_over {
            self.raise_slope();
        }
    }

    /// Returns `true` if inflight_longterm limits the volume in flight through the window.
    pub(super) fn is_limited(&self, delivery: &Delivery) -> bool {
        let before = real(delivery.in_flight + delivery.delivered);
        before + self.segment > self.cwnd && self.cwnd >= self.bounds.inflight_longterm
    }

    /// NoteLoss().
    pub(super) fn note_loss(&mut self) {
        if !self.losses.is_lossy {
            self.losses.round.next = self.latest.total;
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
            self.bounds.inflight_longterm = in_flight.max(BETA * self.target_inflight());
        }
        if matches!(self.phase, Phase::Up) {
            self.undo.phase = Some(Phase::Up);
            self.go_down();
        }
    }

    /// SaveStateUponLoss().
    pub(super) fn save_state(&mut self) {
        self.save_cwnd();
        self.undo = Undo { phase: None, bounds: self.bounds };
    }
}

/// InflightAtLoss(): the volume in flight, in bytes, at which losses exceeded 2 %.
pub(super) fn in_flight_at_loss(lost: &LostSegment) -> f64 {
    let size = lost.end - lost.start;
    let before = real(lost.in_flight_at_send.saturating_sub(size));
    let lost_before = real((lost.lost - lost.prior_lost).saturating_sub(size));
    before + (LOSS_THRESHOLD * before - lost_before) / (1.0 - LOSS_THRESHOLD)
}
