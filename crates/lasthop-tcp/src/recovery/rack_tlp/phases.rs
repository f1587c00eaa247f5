//! Transitions between phases: losses, reductions of the window, and their undo.

use super::super::super::config::UndoKind;
use super::super::super::congestion_control::{Congestion, CongestionControl};
use super::super::super::flight::Flight;
use super::super::super::loss::rack::Found;
use super::super::super::timers::Timer;
use super::super::super::undo::frto;
use super::{AckSummary, Arrival, LINUX_SLACK, Phase, RackTlp, Resend};
use lasthop_base::units::{Duration, Instant};

/// Minimum time for which a sender waits before it concludes that SACKed data has been dropped
/// (Linux).
const LEAST_WAIT: Duration = Duration::from_millis(10);

impl RackTlp {
    /// Processes an ACK that indicates losses or may end a phase.
    pub(super) fn alert(
        &mut self,
        flight: &mut Flight,
        arrival: &Arrival,
        summary: &mut AckSummary,
    ) {
        if arrival.has_echo_of_mark {
            self.can_restore = false;
        }
        if flight.records().len() == 0 {
            self.counted = 0;
        }
        if summary.una_advanced && Self::is_oldest_sacked(flight) {
            Self::await_word(flight, arrival.now);
            summary.sets_timer = false;
            return;
        }
        if self.phase == Phase::Open {
            self.resent_at = None;
        } else if flight.snd_una >= self.end {
            match self.phase {
                Phase::Reduced if flight.snd_una > self.end => {
                    self.end_reduction(flight);
                    self.phase = Phase::Open;
                }
                Phase::Recovery => {
                    self.counted = 0;
                    if self.is_held_at_end(flight, arrival) {
                        return;
                    }
                    self.end_reduction(flight);
                }
                _ => {}
            }
        }
        match self.phase {
            Phase::Recovery => {
                if !summary.una_advanced {
                    self.count_duplicates(flight, summary);
                } else if self.is_reordered_in_recovery(flight, arrival, summary) {
                    return;
                }
                if self.undo_by_dsack(flight) {
                    self.try_to_open(flight, arrival, summary);
                }
                self.identify_losses(flight, arrival.now, summary);
                if self.phase != Phase::Recovery {
                    if flight.records().marks().lost == 0 {
                        return;
                    }
                    self.enter_recovery(flight, arrival.now, arrival.has_echo_of_mark, summary);
                }
            }
            Phase::Loss => {
                self.on_ack_in_loss(flight, arrival, summary);
                self.identify_losses(flight, arrival.now, summary);
                if self.phase != Phase::Open && summary.lost_again == 0 {
                    return;
                }
                self.look_for_recovery(flight, arrival, summary);
                return;
            }
            _ => {
                self.look_for_recovery_anew(flight, arrival, summary);
                return;
            }
        }
        self.resend = Resend::Lost;
    }

    /// Returns `true` if the oldest outstanding segment is SACKed: the receiver has dropped it (RFC
    /// 2018, section 8).
    pub(super) fn is_oldest_sacked(flight: &Flight) -> bool {
        flight.records().get(0).is_some_and(|oldest| oldest.is_sacked)
    }

    /// Waits for an ACK in flight, which may still acknowledge the segment. Otherwise the timer
    /// expires.
    fn await_word(flight: &mut Flight, now: Instant) {
        let half = Duration::from_nanos(flight.rtt.srtt().as_nanos() / 2);
        Self::arm(flight, Timer::Retransmission, now, half.max(LEAST_WAIT));
    }

    pub(super) fn look_for_recovery_anew(
        &mut self,
        flight: &mut Flight,
        arrival: &Arrival,
        summary: &mut AckSummary,
    ) {
        if !self.has_sack {
            if summary.una_advanced {
                self.counted = 0;
            }
            self.count_duplicates(flight, summary);
        }
        if self.phase <= Phase::Disorder {
            self.undo_by_dsack(flight);
        }
        self.identify_losses(flight, arrival.now, summary);
        self.look_for_recovery(flight, arrival, summary);
    }

    pub(super) fn look_for_recovery(
        &mut self,
        flight: &mut Flight,
        arrival: &Arrival,
        summary: &mut AckSummary,
    ) {
        if flight.records().marks().lost == 0 {
            self.try_to_open(flight, arrival, summary);
            return;
        }
        let is_probe = |probe: (u64, u64)| probe.0 == flight.snd_una;
        if self.phase <= Phase::Disorder && flight.stream.mtu_probe.is_some_and(is_probe) {
            // The probe was too large. It had counted as two segments.
            flight.stream.mtu_probe = None;
            flight.congestion_control.set_cwnd(flight.congestion_control.cwnd() + 1.0);
            self.resend_too_large(flight);
            return;
        }
        self.enter_recovery(flight, arrival.now, arrival.has_echo_of_mark, summary);
        self.resend = Resend::Lost;
    }

    pub(super) fn on_ack_in_loss(
        &mut self,
        flight: &mut Flight,
        arrival: &Arrival,
        summary: &mut AckSummary,
    ) {
        let is_everything = flight.snd_una >= self.end;
        if summary.una_advanced && self.may_undo(flight, arrival) {
            self.undo_timeout(flight, false);
            return;
        }
        let sent_new = flight.snd_max > self.end;
        let verdict = self.frto.on_ack(frto::AckEvidence {
            original: summary.has_original,
            una_advanced: summary.una_advanced,
            is_duplicate: summary.has_sacked || summary.duplicates > 0,
            is_everything,
            sent_new,
        });
        match verdict {
            frto::Verdict::Spurious => {
                self.undo_timeout(flight, true);
                return;
            }
            frto::Verdict::SendNew => {
                self.end = flight.snd_max;
                // Linux does not hold back short segments, and sends as much as the window permits.
                let overrules = self.rules.sends_held_data_by_frto;
                if overrules && flight.overrule_holds() || flight.fits_receiver() {
                    self.resend = Resend::NewFirst;
                    return;
                }
                self.frto.end();
            }
            frto::Verdict::Undecided | frto::Verdict::Genuine => {}
        }
        if is_everything {
            self.is_held_at_end(flight, arrival);
            return;
        }
        if !self.has_sack {
            if sent_new && summary.duplicates > 0 {
                self.count_duplicates(flight, summary);
            } else if summary.una_advanced {
                self.counted = 0;
            }
        }
        self.resend = Resend::Lost;
    }

    /// Handles the acknowledgment of all data up to the end. Without SACK the phase is held until
    /// later data is acknowledged, so that duplicates do not start another recovery. Returns `true`
    /// if it is held.
    pub(super) fn is_held_at_end(&mut self, flight: &mut Flight, arrival: &Arrival) -> bool {
        if self.may_undo(flight, arrival) {
            self.undo_reduction(flight, false);
        } else {
            self.rack.on_recovered();
        }
        if flight.snd_una == self.end && !self.has_sack {
            if !Self::has_retransmitted(flight) {
                self.resent_at = None;
            }
            return true;
        }
        self.phase = Phase::Open;
        false
    }

    /// Handles an ACK in recovery that shows that the oldest hole was filled by its original.
    /// Returns `true` if no further processing is required.
    pub(super) fn is_reordered_in_recovery(
        &mut self,
        flight: &mut Flight,
        arrival: &Arrival,
        summary: &mut AckSummary,
    ) -> bool {
        if !self.duplicated.has_reduction() || !self.is_delayed(flight, arrival) {
            return false;
        }
        self.rack.see_reordering();
        if self.rules.learns_from_spurious {
            // The distance by which the original was reordered raises the threshold.
            let fack = self.highest_arrived(flight, flight.snd_una);
            summary.overtaken = Some(summary.prior_una);
            self.raise_threshold(summary, flight.mss, fack);
        }
        if flight.records().marks().resent > 0 {
            return true;
        }
        if !Self::has_retransmitted(flight) {
            self.resent_at = None;
        }
        self.undo_reduction(flight, true);
        self.keep_open(flight);
        false
    }

    pub(super) fn try_to_open(
        &mut self,
        flight: &mut Flight,
        arrival: &Arrival,
        summary: &AckSummary,
    ) {
        if !Self::has_retransmitted(flight) {
            self.resent_at = None;
        }
        if arrival.has_echo_of_mark && self.phase < Phase::Reduced {
            self.can_restore = false;
            self.duplicated.end();
            self.reduce(flight, arrival.now, Congestion::Ecn, summary.delivered);
            self.phase = Phase::Reduced;
        }
        if self.phase != Phase::Reduced {
            self.keep_open(flight);
        }
    }

    pub(super) fn keep_open(&mut self, flight: &Flight) {
        let left = self.sacked(flight) + flight.records().marks().lost;
        let phase =
            if left > 0 || Self::has_retransmitted(flight) { Phase::Disorder } else { Phase::Open };
        if self.phase != phase {
            self.phase = phase;
            self.end = flight.snd_max;
        }
    }

    pub(super) fn enter_recovery(
        &mut self,
        flight: &mut Flight,
        now: Instant,
        is_marked: bool,
        summary: &AckSummary,
    ) {
        self.can_restore = false;
        self.mark_reduction(flight);
        flight.counters.fast_retransmits += 1;
        if !self.is_reducing() {
            self.can_restore = !is_marked;
            self.reduce(flight, now, Congestion::Loss, summary.delivered);
        }
        self.phase = Phase::Recovery;
    }

    /// Records a reduction, which can be undone once all outstanding retransmissions, including a
    /// tail loss probe, are reported as duplicates.
    pub(super) fn mark_reduction(&mut self, flight: &Flight) {
        let probe = u32::from(self.probe.has_retransmitted());
        self.duplicated.on_reduction(flight.snd_una, flight.records().marks().resent + probe);
    }

    /// Retransmits segments that exceed the new segment size. They are marked as lost, but the loss
    /// is not attributed to congestion (Linux: `tcp_simple_retransmit`).
    pub fn resend_too_large(&mut self, flight: &mut Flight) {
        let most = flight.mss;
        let lost = flight.records_mut().split(most);
        if lost == 0 {
            return;
        }
        flight.counters.losses_declared += u64::from(lost);
        if !self.has_sack {
            self.counted = 0;
        }
        if self.phase != Phase::Loss {
            let (cwnd, ssthresh) =
                (flight.congestion_control.cwnd(), flight.congestion_control.ssthresh());
            if !self.is_reducing() && ssthresh < 0.75 * cwnd {
                flight.congestion_control.slow_start_to(cwnd, (0.75 * cwnd).floor());
            }
            self.end = flight.snd_max;
            self.can_restore = false;
            self.duplicated.end();
            self.phase = Phase::Loss;
            self.frto.end();
        }
        self.resend = Resend::Lost;
    }

    /// Starts a reduction. `delivered`: number of segments delivered by the ACK that triggers it.
    pub(super) fn reduce(
        &mut self,
        flight: &mut Flight,
        now: Instant,
        cause: Congestion,
        delivered: u32,
    ) {
        self.end = flight.snd_max;
        self.probe.end();
        flight.counters.window_cuts += 1;
        let in_flight = if self.rules.reduces_from_window {
            Self::cwnd(flight)
        } else {
            flight.records().len() + delivered - self.sacked(flight).min(delivered)
        };
        let (in_use, cwnd) = (flight.in_use(0), flight.congestion_control.cwnd());
        flight.congestion_control.on_congestion(now, cause, in_use);
        if cause == Congestion::Ecn
            && delivered == 0
            && self.rules.reduces_by_deliveries
            && !flight.congestion_control.keeps_window_in_recovery()
        {
            // The window decreases with delivered segments, and this ACK delivers none.
            flight.congestion_control.set_cwnd(cwnd);
        }
        self.prr.begin(flight.congestion_control.ssthresh() as u32, in_flight);
    }

    pub(super) fn end_reduction(&mut self, flight: &mut Flight) {
        if self.phase == Phase::Reduced || self.duplicated.has_reduction() {
            let ssthresh = flight.congestion_control.ssthresh();
            if ssthresh.is_finite() && !flight.congestion_control.keeps_window_in_recovery() {
                flight.congestion_control.set_cwnd(ssthresh);
            }
        }
    }

    pub(super) fn count_duplicates(&mut self, flight: &mut Flight, summary: &mut AckSummary) {
        if self.has_sack || summary.duplicates == 0 {
            return;
        }
        let before = self.counted;
        self.counted += summary.duplicates;
        self.limit_counted(flight, 0);
        summary.delivered += self.counted.saturating_sub(before);
    }

    pub(super) fn identify_losses(
        &mut self,
        flight: &mut Flight,
        now: Instant,
        summary: &mut AckSummary,
    ) {
        if flight.records().len() == 0 {
            return;
        }
        if !self.has_sack {
            let is_lost = self.phase < Phase::Recovery && self.counted >= self.threshold
                || self.phase == Phase::Recovery && summary.una_advanced;
            if is_lost && flight.records().get(0).is_some_and(|oldest| !oldest.is_lost) {
                flight.records_mut().mark_lost(0);
                flight.count_marked_lost();
                summary.lost += 1;
            }
            return;
        }
        let window = self.reordering_window(flight);
        let found = self.rack.look(now, flight.records_mut(), window);
        self.take_in(flight, &found, summary);
        if found.look_again > Duration::ZERO {
            Self::arm(flight, Timer::Reordering, now, found.look_again + self.slack());
            summary.sets_timer = false;
        }
    }

    pub(super) fn take_in(&mut self, flight: &mut Flight, found: &Found, summary: &mut AckSummary) {
        summary.lost += found.lost;
        summary.lost_again += found.lost_again;
        if found.lost > 0 {
            flight.count_marked_lost();
        }
    }

    pub(super) fn reordering_window(&self, flight: &Flight) -> Duration {
        let is_eager = self.phase >= Phase::Recovery || self.sacked(flight) >= self.threshold;
        self.rack.reordering_window(is_eager, flight.rtt.srtt())
    }

    pub(super) fn slack(&self) -> Duration {
        if self.rules.has_timer_slack { LINUX_SLACK } else { Duration::ZERO }
    }

    /// Returns `true` if the ACK acknowledges a segment that was sent before the first
    /// retransmission.
    pub(super) fn is_delayed(&self, flight: &Flight, arrival: &Arrival) -> bool {
        let is_delayed = match self.resent_at {
            Some(sent) => self.echoes_before(arrival.echo, sent),
            // No segment was retransmitted. This is cleared at the end of a phase without SACK
            // (`is_held_at_end`).
            None => self.has_sack || flight.snd_una < self.end,
        };
        self.undo != UndoKind::Off && is_delayed
    }

    pub(super) fn may_undo(&self, flight: &Flight, arrival: &Arrival) -> bool {
        let by_dsack = self.undo == UndoKind::All && self.duplicated.is_spurious();
        self.duplicated.has_reduction() && (by_dsack || self.is_delayed(flight, arrival))
    }

    pub(super) fn undo_reduction(&mut self, flight: &mut Flight, is_nothing_lost: bool) {
        if is_nothing_lost {
            flight.records_mut().unmark_lost();
        }
        if self.can_restore {
            flight.counters.spurious_reductions += 1;
            let threshold = flight.congestion_control.ssthresh();
            flight.congestion_control.on_spurious();
            let is_raised = flight.congestion_control.ssthresh() > threshold;
            if is_raised || !self.rules.withdraws_cwr_with_threshold {
                flight.losses.undone_reductions =
                    flight.counters.window_cuts + flight.losses.extra_cwr_marks;
            }
        }
        self.duplicated.end();
        self.rack.on_undone();
    }

    pub(super) fn undo_by_dsack(&mut self, flight: &mut Flight) -> bool {
        let is_spurious = self.undo == UndoKind::All && self.duplicated.is_spurious();
        if is_spurious {
            self.undo_reduction(flight, false);
        }
        is_spurious
    }

    pub(super) fn undo_timeout(&mut self, flight: &mut Flight, by_frto: bool) {
        self.undo_reduction(flight, true);
        self.timeouts = 0;
        let is_held = flight.snd_una == self.end && !self.has_sack;
        if !is_held && (by_frto || self.has_sack) {
            self.phase = Phase::Open;
        }
    }
}
