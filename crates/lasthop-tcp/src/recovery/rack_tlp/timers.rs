//! The three timers, of which at most one is running.

use super::super::super::config::UndoKind;
use super::super::super::congestion_control::CongestionControl;
use super::super::super::flight::Flight;
use super::super::super::loss::tail_probe;
use super::super::super::timers::Timer;
use super::super::LossRecovery;
use super::{AckSummary, Forced, Phase, RackTlp, Resend, TICK};
use lasthop_base::units::{Duration, Instant};

impl RackTlp {
    /// Starts one of the three timers and stops the others.
    pub(super) fn arm(flight: &mut Flight, timer: Timer, now: Instant, delay: Duration) {
        Self::stop_timers(flight);
        flight.timers.start(timer, now, delay);
    }

    pub(super) fn stop_timers(flight: &mut Flight) {
        for timer in [Timer::Retransmission, Timer::Reordering, Timer::TailProbe] {
            flight.timers.stop(timer);
        }
    }

    /// Time at which the retransmission timer would expire if started with the oldest segment.
    pub(super) fn oldest_deadline(flight: &Flight, now: Instant) -> Instant {
        let oldest = flight.records().get(0).map_or(now, |oldest| oldest.sent);
        (oldest + flight.rtt.rto()).max(now + TICK)
    }

    /// Starts the retransmission timer. `replaces`: it replaces another timer and is measured from
    /// the oldest segment.
    pub(super) fn restart_timer(flight: &mut Flight, now: Instant, replaces: bool) {
        if flight.records().len() == 0 {
            Self::stop_timers(flight);
            return;
        }
        let rto = flight.rtt.rto();
        let delay = if replaces { Self::oldest_deadline(flight, now) - now } else { rto };
        Self::arm(flight, Timer::Retransmission, now, delay);
    }

    /// Returns `true` if the sender has only new data to send.
    pub fn sends_only_new_data(&self) -> bool {
        self.phase == Phase::Open && self.forced.is_none()
    }

    /// Returns `true` if the timer is backed off.
    pub fn has_timed_out(&self) -> bool {
        self.timeouts > 0
    }

    /// Restarts the timer after a change of the RTO, measured from the transmission of the oldest
    /// segment.
    pub fn restart_from_oldest(flight: &mut Flight, now: Instant) {
        Self::restart_timer(flight, now, true);
    }

    pub(super) fn set_timer(&mut self, flight: &mut Flight, now: Instant) {
        if !self.schedule_probe(flight, now, true) {
            let replaces = flight.timers.is_running(Timer::Reordering)
                || flight.timers.is_running(Timer::TailProbe);
            Self::restart_timer(flight, now, replaces);
        }
    }

    /// Starts the timer of the tail loss probe if a probe may be required; returns `true` if it
    /// does. `is_ack`: whether an ACK for new data triggers it.
    pub(super) fn schedule_probe(
        &mut self,
        flight: &mut Flight,
        now: Instant,
        is_ack: bool,
    ) -> bool {
        let outstanding = flight.records().len();
        let may_probe = matches!(self.phase, Phase::Open | Phase::Reduced);
        let probes = self.has_sack && flight.config.tail_probes;
        if !probes || outstanding == 0 || !may_probe || flight.snd_una == 0 {
            return false;
        }
        let until_rto = if is_ack { flight.rtt.rto() } else { self.until_rto(flight, now) };
        let srtt = flight.rtt.srtt();
        let timeout = tail_probe::timeout(srtt, outstanding, self.slack(), until_rto);
        Self::arm(flight, Timer::TailProbe, now, timeout);
        true
    }

    /// Time until the retransmission timer expires, the maximum delay of a probe. Linux ignores a
    /// deadline in the past.
    fn until_rto(&self, flight: &Flight, now: Instant) -> Duration {
        let oldest = flight.records().get(0).map_or(now, |oldest| oldest.sent);
        match self.rules.ignores_past_deadline && oldest + flight.rtt.rto() <= now {
            true => Duration::from_nanos(u64::MAX),
            false => Self::oldest_deadline(flight, now) - now,
        }
    }

    pub(super) fn on_reordering_timer(&mut self, flight: &mut Flight, now: Instant) {
        let mut summary = AckSummary::default();
        let window = self.reordering_window(flight);
        let found = self.rack.detect(now, flight.records_mut(), window);
        self.take_in(flight, &found, &mut summary);
        if found.lost + found.lost_again > 0 {
            if self.phase != Phase::Recovery {
                self.enter_recovery(flight, now, false, &summary);
                if !flight.congestion_control.keeps_window_in_recovery() {
                    self.proportion(flight, 1, false);
                }
            }
            self.resend = Resend::Lost;
        }
        Self::restart_timer(flight, now, true);
    }

    pub(super) fn on_probe_timer(&mut self, flight: &mut Flight, now: Instant) {
        Self::restart_timer(flight, now, true);
        if self.probe.is_outstanding() || flight.records().len() == 0 {
            return;
        }
        let newest = flight.records().last().map_or(flight.snd_una, |newest| newest.start);
        // A short segment that is held back is sent now as new data.
        self.forced = if flight.fits_window() {
            Some(Forced::NewProbe)
        } else {
            // If the peer has closed the window, only the oldest segment is retransmitted, by its
            // own timer.
            self.may_resend(flight, newest).then_some(Forced::OldProbe)
        };
    }

    /// Returns `true` if the peer's window permits a retransmission of the segment at `seq`. The
    /// peer may have shrunk it. The oldest segment serves as a probe (Linux:
    /// `__tcp_retransmit_skb`).
    pub(super) fn may_resend(&self, flight: &Flight, seq: u64) -> bool {
        !self.rules.respects_shrunk_window
            || seq == flight.snd_una
            || seq < flight.snd_una + flight.peer.window
    }

    pub(super) fn on_retransmission_timer(&mut self, flight: &mut Flight, now: Instant) {
        if flight.snd_una == 0 {
            flight.on_timeout(now);
            return;
        }
        if flight.records().len() == 0 {
            Self::stop_timers(flight);
            return;
        }
        flight.counters.timeouts += 1;
        self.enter_loss(flight, now);
        self.probe.end();
        // A retransmission into a window that the peer has closed is a probe, which Linux does not
        // count.
        let is_probe = flight.peer.window == 0 && self.rules.excuses_closed_window;
        self.timeouts += u32::from(!is_probe);
        self.forced = Some(Forced::Oldest);
        self.resend = Resend::Nothing;
        flight.timed = None;
        flight.rtt.back_off();
        Self::arm(flight, Timer::Retransmission, now, flight.rtt.rto());
    }

    pub(super) fn enter_loss(&mut self, flight: &mut Flight, now: Instant) {
        let is_new = self.phase < Phase::Recovery;
        self.counted = 0;
        let has_reneged = Self::is_oldest_sacked(flight);
        if has_reneged {
            flight.records_mut().unmark_sacked();
            self.rack.forget_above(flight.snd_una);
        }
        let mut index = 0;
        let first = flight.records().first_piece();
        while let Some(record) = flight.records().get(index) {
            let is_recent = !has_reneged
                && index >= first
                && self.rack.remaining(now, record, Duration::ZERO).is_some();
            if !record.is_sacked && !is_recent {
                flight.records_mut().mark_lost(index);
            }
            index += 1;
        }
        flight.count_marked_lost();
        let cuts = self.phase <= Phase::Disorder
            || self.end <= flight.snd_una
            || self.phase == Phase::Loss && self.timeouts == 0;
        let in_use = cuts.then(|| flight.in_use_at_timeout(flight.in_use(0)));
        flight.congestion_control.on_timeout(now, in_use);
        if cuts {
            flight.counters.window_cuts += 1;
            self.can_restore = true;
            self.mark_reduction(flight);
        } else {
            flight.losses.extra_cwr_marks += 1;
        }
        let window = self.in_flight(flight) + 1;
        let keeps_window = flight.congestion_control.keeps_window_in_recovery();
        if !keeps_window || self.rules.always_restarts_window {
            flight.congestion_control.set_cwnd(f64::from(window));
        }
        if self.phase <= Phase::Disorder && self.sacked(flight) >= self.initial_threshold {
            self.threshold = self.threshold.min(self.initial_threshold);
        }
        self.phase = Phase::Loss;
        self.end = flight.snd_max;
        let knows = self.undo == UndoKind::All && flight.config.frto;
        let may_suspect = knows && (is_new || self.timeouts > 0);
        self.frto.on_timeout(may_suspect);
    }
}
