//! Processing of ACKs: duplicates, SACKed and acknowledged segments, RTT samples, responses to a
//! probe.

use super::super::super::congestion_control::Congestion;
use super::super::super::flight::Flight;
use super::super::super::loss::tail_probe::Verdict;
use super::super::super::sent::SentSegment;
use super::{AckSummary, Arrival, MAX_REORDERING, Phase, RackTlp};
use lasthop_base::packet::MAX_SACK_BLOCKS;
use lasthop_base::units::{Duration, Instant};

impl RackTlp {
    /// Processes SACK blocks: first a duplicate, then the segments that they cover.
    pub(super) fn on_blocks(
        &mut self,
        flight: &mut Flight,
        arrival: &Arrival,
        summary: &mut AckSummary,
    ) {
        let una = flight.snd_una;
        let (start, end) = arrival.blocks[0];
        let within = |other: &(u64, u64)| start >= other.0 && end <= other.1;
        let is_duplicate = end <= flight.snd_max
            && start < end
            && (start < arrival.ack || arrival.blocks.get(1).is_some_and(within));
        if is_duplicate {
            self.on_dsack(flight, start, end, summary);
        }
        let mut blocks = [(0, 0); MAX_SACK_BLOCKS];
        let count = arrival.blocks.len().min(MAX_SACK_BLOCKS);
        blocks[..count].copy_from_slice(&arrival.blocks[..count]);
        // In order of sequence numbers, so that reordering is detected.
        blocks[..count].sort_unstable();
        for &(start, end) in &blocks[..count] {
            // Linux ignores a block that does not start above the acknowledgment number.
            let is_sensible = start > arrival.ack || !self.rules.ignores_low_blocks;
            if end > una && end <= flight.snd_max && is_sensible {
                self.sack(flight, arrival, (start.max(una), end), summary);
            }
        }
        self.raise_threshold(summary, flight.mss, self.rack.fack().max(una));
    }

    pub(super) fn on_dsack(
        &mut self,
        flight: &mut Flight,
        start: u64,
        end: u64,
        summary: &mut AckSummary,
    ) {
        let segments = (end - start).div_ceil(flight.mss) as u32;
        self.counts.duplicates += u64::from(segments);
        if self.counts.duplicates > flight.counters.retransmissions {
            // The network duplicates segments.
            return;
        }
        summary.has_dsack = true;
        summary.delivered += segments;
        if self.probe.is_probe(end) {
            summary.has_dsack_of_probe = true;
        } else {
            self.rack.on_dsack(flight.snd_una, flight.snd_max);
        }
        if end <= flight.snd_una {
            self.duplicated.on_duplicate(end, segments);
            return;
        }
        let records = flight.records_mut();
        let mut index = records.index_of(start);
        while let Some(record) = records.get(index).filter(|record| record.end <= end) {
            if record.was_retransmitted() {
                self.duplicated.on_duplicate(record.end, 1);
            }
            records.unmark_resent(index);
            index += 1;
        }
    }

    pub(super) fn sack(
        &mut self,
        flight: &mut Flight,
        arrival: &Arrival,
        block: (u64, u64),
        summary: &mut AckSummary,
    ) {
        let (start, end) = block;
        let phase_end = self.end;
        let records = flight.records_mut();
        let mut index = records.skip_sacked(records.index_of(start));
        while let Some(&record) = records.get(index).filter(|record| record.end <= end) {
            if record.start >= start {
                let is_original = self.is_original(arrival, &record);
                Self::see_order(summary, &record, summary.prior_fack.max(self.rack.fack()));
                self.rack.on_delivered(arrival.now, &record, is_original);
                self.rack.on_order(&record, summary.prior_fack);
                if !record.was_retransmitted() {
                    summary.has_original |= record.end <= phase_end;
                    let first = summary.sacked_sent.map_or(record.sent, |(first, _)| first);
                    summary.sacked_sent = Some((first, record.sent));
                }
                records.mark_sacked(index);
                summary.has_sacked = true;
                summary.delivered += 1;
            }
            index = records.skip_sacked(index + 1);
        }
    }

    /// Returns `true` if the timestamp shows that the acknowledged copy is not the latest one.
    pub(super) fn is_original(&self, arrival: &Arrival, record: &SentSegment) -> bool {
        record.was_retransmitted() && self.echoes_before(arrival.echo, record.sent)
    }

    pub(super) fn echoes_before(&self, echo: Option<Instant>, sent: Instant) -> bool {
        echo.is_some_and(|echo| echo.as_nanos() / self.tick < sent.as_nanos() / self.tick)
    }

    /// Records that an original arrives after higher segments.
    fn see_order(summary: &mut AckSummary, record: &SentSegment, fack: u64) {
        if !record.was_retransmitted() && record.start < fack {
            summary.overtaken =
                Some(summary.overtaken.map_or(record.start, |one| one.min(record.start)));
        }
    }

    /// Linux: if part of a segment was acknowledged before, the arrival of the rest counts as
    /// reordering.
    fn see_cut(
        &mut self,
        summary: &mut AckSummary,
        cut_at: Option<(u64, u64)>,
        record: &SentSegment,
    ) {
        if let Some((start, end)) = cut_at
            && record.end == end
        {
            summary.overtaken = Some(summary.overtaken.map_or(start, |one| one.min(start)));
            self.rack.see_reordering();
        }
    }

    /// One past the highest byte that has arrived, given that all bytes below `una` have.
    pub(super) fn highest_arrived(&self, flight: &Flight, una: u64) -> u64 {
        if flight.records().marks().sacked > 0 { self.rack.fack() } else { una }
    }

    /// Raises the threshold to the distance, in segments, by which an original was reordered.
    /// `fack` is one past the highest byte that has arrived, including the current ACK.
    pub(super) fn raise_threshold(&mut self, summary: &mut AckSummary, mss: u64, fack: u64) {
        if let Some(start) = summary.overtaken.take() {
            let distance = fack.saturating_sub(start).div_ceil(mss) as u32;
            self.threshold = self.threshold.max(distance.min(MAX_REORDERING));
        }
    }

    /// Processes the cumulative acknowledgment of all data below the ACK.
    pub(super) fn acknowledge(
        &mut self,
        flight: &mut Flight,
        arrival: &Arrival,
        summary: &mut AckSummary,
    ) {
        let prior_fack = summary.prior_fack;
        let mss = flight.mss;
        let cut_at = flight.records_mut().take_cut();
        let mut is_within = false;
        while let Some(record) = flight.records_mut().pop_below(arrival.ack) {
            summary.has_acked = true;
            summary.acked += 1;
            is_within = !(record.ends_piece || record.ends_record);
            if record.was_retransmitted() {
                summary.has_retransmitted = true;
            } else if !record.is_sacked {
                let first = summary.acked_sent.map_or(record.sent, |(first, _)| first);
                summary.acked_sent = Some((first, record.sent));
                summary.has_original |= record.end <= self.end;
                if self.has_sack {
                    Self::see_order(summary, &record, prior_fack);
                    self.see_cut(summary, cut_at, &record);
                }
            }
            if self.has_sack && !record.is_sacked {
                summary.delivered += 1;
                let is_original = self.is_original(arrival, &record);
                self.rack.on_delivered(arrival.now, &record, is_original);
                self.rack.on_order(&record, prior_fack);
            }
        }
        flight.records_mut().settle();
        let fack = self.highest_arrived(flight, arrival.ack);
        self.raise_threshold(summary, mss, fack);
        flight.duplicates.clear();
        self.trim(flight, arrival, summary, is_within);
        flight.move_una(arrival.ack);
        summary.sets_timer |= summary.has_acked;
        if !self.has_sack && summary.has_acked {
            // One of the segments was the missing one. The others were counted by duplicates.
            summary.delivered += summary.acked.saturating_sub(self.counted).max(1);
            self.counted = self.counted.saturating_sub(summary.acked - 1);
            self.limit_counted(flight, summary.acked);
            // For retransmitted segments, the original may have been acknowledged.
            summary.has_original &= !summary.has_retransmitted;
        }
    }

    /// Handles the acknowledgment of a part of the oldest remaining segment or of its GSO segment.
    /// `is_within`: whether earlier segments of the same GSO segment are acknowledged.
    fn trim(
        &mut self,
        flight: &mut Flight,
        arrival: &Arrival,
        summary: &mut AckSummary,
        is_within: bool,
    ) {
        let Some(&first) = flight.records().get(0) else { return };
        let fewer = flight.records_mut().trim_as_piece(arrival.ack, is_within);
        if fewer == 0 {
            return;
        }
        (summary.has_acked, summary.acked) = (true, summary.acked + fewer);
        summary.delivered += if self.has_sack { fewer } else { 0 };
        if first.was_retransmitted() {
            summary.has_retransmitted = true;
        } else {
            let oldest = summary.acked_sent.map_or(first.sent, |(oldest, _)| oldest);
            summary.acked_sent = Some((oldest, first.sent));
            summary.has_original |= first.end <= self.end;
        }
    }

    /// Limits the duplicates to the number of segments above holes. An excess indicates reordering.
    pub(super) fn limit_counted(&mut self, flight: &Flight, acked: u32) {
        let records = flight.records();
        let outstanding = records.len();
        let holes = records.marks().lost.max(1).min(outstanding);
        if self.counted + holes > outstanding {
            self.counted = outstanding - holes;
            self.threshold = (outstanding + acked).min(MAX_REORDERING);
            self.rack.see_reordering();
        }
    }

    /// Updates the RTO estimator with the RTT sample of the ACK. Returns the sample for congestion
    /// control.
    pub(super) fn measure(
        &mut self,
        flight: &mut Flight,
        arrival: &Arrival,
        summary: &mut AckSummary,
    ) -> Option<Duration> {
        let now = arrival.now;
        let acked = summary.acked_sent.filter(|_| !summary.has_retransmitted);
        let mut for_control = acked.map(|(_, last)| now - last);
        let mut sample = acked.map(|(first, _)| now - first);
        // If the ACK also acknowledges a retransmission, its SACK information may be old because
        // previous ACKs were lost. Linux uses the sample.
        if let Some((first, last)) = summary.sacked_sent {
            for_control = Some(now - last);
            sample = sample.or(Some(now - first));
        }
        if sample.is_none() && summary.has_acked {
            let by_timestamp = arrival.echo.map(|echo| now - echo);
            for_control = by_timestamp;
            sample = by_timestamp;
        }
        let rtt = sample?;
        if let Some(rtt) = for_control {
            self.rack.on_round_trip(rtt);
        }
        flight.timed = None;
        if self.rules.measures_maximum_deviation {
            flight.rtt.sample_linux(rtt, flight.snd_una, flight.snd_max);
        } else {
            flight.rtt.end_back_off();
            flight.rtt.sample(Instant::from_nanos(now.as_nanos() - rtt.as_nanos()), now);
        }
        // Restart the timer only if the SACKed segment was sent before the latest transmission of
        // the oldest segment. Otherwise the timeout would be postponed further.
        if !summary.has_acked
            && let (Some((first, _)), Some(oldest)) = (summary.sacked_sent, flight.records().get(0))
        {
            summary.sets_timer |= first < oldest.sent;
        }
        for_control
    }

    pub(super) fn on_probe_answer(
        &mut self,
        flight: &mut Flight,
        arrival: &Arrival,
        summary: &AckSummary,
    ) {
        let is_duplicate =
            !summary.una_advanced && arrival.is_pure && !summary.has_acked && !summary.has_sacked;
        let verdict = self.probe.on_ack(arrival.ack, summary.has_dsack_of_probe, is_duplicate);
        if verdict == Verdict::Repaired {
            self.can_restore = false;
            self.reduce(flight, arrival.now, Congestion::Loss, summary.delivered);
            flight.counters.losses_declared += 1;
            self.phase = Phase::Reduced;
            self.end_reduction(flight);
            self.keep_open(flight);
        }
    }
}
