//! Selection of the next segment, and use of the congestion window.

use super::super::super::config::Config;
use super::super::super::congestion_control::CongestionControl;
use super::super::super::flight::Flight;
use super::super::super::info::{Outstanding, RecoveryState};
use super::super::super::timers::Timer;
use super::super::LossRecovery;
use super::{Forced, Phase, RackTlp, Resend, Usage};
use lasthop_base::units::Instant;

impl RackTlp {
    /// Returns the first byte of the lost segment that may be retransmitted now, if any. In Linux
    /// there must be fewer outstanding retransmissions than lost segments
    /// (`tcp_xmit_retransmit_queue`). A retransmission of a segment that is not lost counts too.
    pub fn next_resend(&self, flight: &Flight, now: Instant) -> Option<u64> {
        let (records, marks) = (flight.records(), flight.records().marks());
        let has_room = self.in_flight(flight) < Self::cwnd(flight);
        if !has_room || self.resend != Resend::Lost {
            return None;
        }
        let may_resend_more = !self.rules.bounds_retransmissions
            || marks.resent < marks.lost
            || records.is_resending_piece(now);
        if !may_resend_more {
            return None;
        }
        let lost = flight.records().first_to_resend()?;
        self.may_resend(flight, lost.start).then_some(lost.start)
    }

    /// Returns `true` if permitted segments are deferred until an ACK permits more.
    fn defers(&mut self, flight: &Flight, now: Instant) -> bool {
        let room = Self::cwnd(flight).saturating_sub(self.in_flight(flight));
        let defers = flight.config.min_tso_segments > 0
            && self.phase < Phase::Recovery
            && flight.is_deferred(now, room);
        if defers {
            // The congestion window limits the sender only if the peer's window has more room.
            self.usage.is_limited |= flight.has_room_at_peer(room);
            self.is_deferring = true;
        }
        defers || self.is_deferring
    }

    /// Returns whether new data is deferred until an ACK permits more, and whether it waits for any
    /// ACK because a timer has expired.
    pub fn deferral(&self) -> (bool, bool) {
        (self.is_deferring, self.is_after_timer)
    }

    /// Restores the state returned by [`Self::deferral`].
    pub fn restore_deferral(&mut self, deferral: (bool, bool)) {
        (self.is_deferring, self.is_after_timer) = deferral;
    }

    /// Enters LOSS, which ends with the data after the SYN, because a SYN was lost and the peer
    /// does not support SACK (Linux).
    pub fn begin_after_lost_syn(&mut self) {
        (self.phase, self.end) = (Phase::Loss, 1);
    }

    /// Takes the next new segment. The following ones may be sent in the same GSO segment, as many
    /// as the window permits and at most half of the window.
    fn advance_in_window(&self, flight: &mut Flight) -> u64 {
        let cwnd = Self::cwnd(flight);
        let room = cwnd.saturating_sub(self.in_flight(flight)).min((cwnd / 2).max(1));
        Self::advance(flight, room)
    }

    fn advance(flight: &mut Flight, room: u32) -> u64 {
        if flight.config.min_tso_segments > 0 {
            flight.begin_piece(room);
        }
        flight.advance_next()
    }

    /// Returns `true` if the window limited the sender, so that it may grow. In slow start it may
    /// grow to twice the used size.
    pub(super) fn is_window_limited(&self, flight: &Flight) -> bool {
        self.usage.is_limited
            || flight.congestion_control.cwnd() < flight.congestion_control.ssthresh()
                && Self::cwnd(flight) < 2 * self.usage.most
    }

    /// Records the use of the window after new data was sent or was prevented by the window.
    fn note_usage(&mut self, flight: &Flight) {
        let outstanding = flight.records().len();
        let is_limited = self.in_flight(flight) >= Self::cwnd(flight);
        let usage = &mut self.usage;
        let is_more = !usage.is_limited && outstanding > usage.most;
        if flight.snd_una >= usage.end || is_limited || is_more {
            *usage = Usage { is_limited, most: outstanding, end: flight.snd_max };
        }
    }
}

impl LossRecovery for RackTlp {
    fn reset(&mut self, config: &Config) {
        *self = RackTlp::new(config);
    }

    fn on_ack(&mut self, _: &mut Flight, _: Instant, _: u64, _: &[(u64, u64)]) {
        unreachable!("whole segments are processed: `on_segment`");
    }

    fn on_timeout(&mut self, _: &mut Flight) {
        unreachable!("it has timers of its own: `handle_timeout`");
    }

    fn on_spurious(&mut self) {
        unreachable!("reductions are undone by `on_segment`");
    }

    /// Handles a send call: permitted segments no longer have to wait.
    fn on_written(&mut self) {
        (self.is_deferring, self.is_after_timer) = (false, false);
        if self.resend == Resend::NewFirst && self.rules.sends_held_data_by_frto {
            // F-RTO sends only the data that is available when the ACK arrives.
            self.resend = Resend::Nothing;
        }
    }

    /// Always `false`: the window is compared with segments, not with bytes.
    fn is_plain(&self, _: &Flight) -> bool {
        false
    }

    fn outstanding(&self, flight: &Flight) -> (RecoveryState, Outstanding) {
        let marks = flight.records().marks();
        let state = match self.phase {
            Phase::Open => RecoveryState::Open,
            Phase::Disorder => RecoveryState::Disorder,
            Phase::Reduced => RecoveryState::CongestionWindowReduced,
            Phase::Recovery => RecoveryState::Recovery,
            Phase::Loss => RecoveryState::Loss,
        };
        let sacked = self.sacked(flight).into();
        let [lost, retransmitted] = [marks.lost.into(), marks.resent.into()];
        (state, Outstanding { sacked, lost, retransmitted })
    }

    /// Number of outstanding segments that are neither known to have arrived nor lost, plus
    /// retransmissions.
    fn in_flight(&self, flight: &Flight) -> u32 {
        let records = flight.records();
        let marks = records.marks();
        // Without SACK, the duplicates may temporarily exceed the number of segments that are not
        // lost.
        (records.len() + marks.resent).saturating_sub(self.sacked(flight) + marks.lost)
    }

    fn next_segment(&mut self, flight: &mut Flight, now: Instant) -> Option<u64> {
        if flight.snd_una == 0 {
            return flight.next_allowed();
        }
        // All data may have been acknowledged while pacing delayed the segment.
        let ends = flight.records().get(0).zip(flight.records().last());
        match (self.forced, ends) {
            (Some(Forced::Oldest), Some((oldest, _))) => return Some(oldest.start),
            (Some(Forced::OldProbe), Some((_, newest))) => {
                let start = newest.start;
                if flight.config.min_tso_segments > 0 {
                    let full = flight.mss;
                    return flight.records_mut().part_tail(full).or(Some(start));
                }
                return Some(start);
            }
            (Some(Forced::NewProbe), _) if flight.fits_window() => {
                return Some(Self::advance(flight, 1));
            }
            _ => self.forced = None,
        }
        // The usual case of an end that only receives.
        if ends.is_none() && !flight.has_unsent() && self.resend != Resend::NewFirst {
            return None;
        }
        let has_room = self.in_flight(flight) < Self::cwnd(flight);
        if self.resend == Resend::NewFirst {
            let overrules = self.rules.sends_held_data_by_frto && flight.fits_window();
            let is_first = flight.snd_max == self.end;
            if has_room && (overrules || is_first && flight.fits_receiver()) {
                return Some(self.advance_in_window(flight));
            }
            if is_first {
                self.frto.end();
                self.resend = Resend::Lost;
            }
        }
        flight.records_mut().advance_search();
        if let Some(lost) = self.next_resend(flight, now) {
            return Some(lost);
        }
        // Linux checks the congestion window first, but after a timer it does not record its use:
        // new data waits for an ACK or a send call.
        if !has_room && flight.has_unsent() {
            if !self.is_after_timer {
                self.note_usage(flight);
            }
            return None;
        }
        if !(flight.fits_receiver() || has_room && flight.cut_piece_to_window()) {
            return None;
        }
        if self.defers(flight, now) {
            return None;
        }
        Some(self.advance_in_window(flight))
    }

    fn on_sent(&mut self, flight: &mut Flight, now: Instant, seq: u64) {
        let forced = self.forced.take();
        let is_excused = flight.stream.is_short_excused;
        let runs = |timer| flight.timers.is_running(timer);
        let replaces_probe = runs(Timer::TailProbe);
        let awaits_reordering = runs(Timer::Reordering);
        if replaces_probe || awaits_reordering {
            flight.timers.stop(Timer::Retransmission);
        }
        let index = flight.records().index_of(seq);
        let is_again = flight.records().get(index).is_some_and(|record| record.was_retransmitted());
        let is_probe = forced == Some(Forced::OldProbe);
        if is_again && is_probe && self.rules.excuses_repeated_probes {
            // Linux counts a probe only in the total number of retransmissions.
            if self.phase < Phase::Recovery {
                flight.records_mut().unmark_resent(index);
            }
        } else if is_again {
            self.duplicated.on_retransmission();
            self.resent_at.get_or_insert(now);
            if index == 0 && !awaits_reordering && forced != Some(Forced::Oldest) {
                Self::restart_timer(flight, now, false);
            }
        } else if flight.snd_una > 0 {
            if replaces_probe {
                Self::restart_timer(flight, now, true);
            }
            // A segment sent instead of a window probe does not indicate use of the window.
            if !is_excused {
                self.note_usage(flight);
            }
        }
        if self.is_reducing() && forced.is_none() {
            self.prr.on_sent();
        }
        match forced {
            Some(Forced::NewProbe | Forced::OldProbe) => {
                flight.counters.tail_probes += 1;
                self.probe.on_sent(flight.snd_max, is_again);
                Self::restart_timer(flight, now, false);
            }
            Some(Forced::Oldest) => {}
            // No tail loss probe follows a segment sent instead of a window probe.
            None if !is_again && !is_excused => {
                self.schedule_probe(flight, now, false);
            }
            None => {}
        }
    }
}
