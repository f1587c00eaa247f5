//! Transmission of the next segment, and its record. A *piece* is a GSO segment: several segments
//! that a host with segmentation offload sends as one.

use super::kept::Kept;
use super::{Flight, has_send_fast_path};
use crate::congestion_control::CongestionControl;
use crate::pacer::Pacer;
use crate::recovery::{LossRecovery, Recovery};
use crate::sent::SentSegment;
use crate::timers::Timer;
use lasthop_base::units::{Duration, Instant};

/// State of a piece.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Piece {
    /// Number of segments in the piece.
    pub size: u32,
    /// Number of these that have not been sent.
    pub left: u32,
    /// Number of pieces sent since the latest ACK.
    pub since_ack: u32,
    /// Bytes of the piece that have been sent.
    pub bytes: u64,
}

/// Part of a segment that had been sent before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Resent {
    Nothing,
    Part,
    All,
}

/// Transmission of segments: pacing, the piece in progress, and the segment sent last.
#[derive(Clone, Debug)]
pub(crate) struct Output {
    pub pacer: Option<Pacer>,
    /// GSO segment in progress, for a host that sends these.
    pub(super) piece: Piece,
    /// Send time of the latest segment, if tracked.
    pub(super) sent_at: Instant,
    /// Whether the segment sent last had been sent before.
    pub resent: Resent,
}

impl Output {
    pub(super) fn new(has_pacing: bool) -> Self {
        Output {
            pacer: has_pacing.then(Pacer::new),
            piece: Piece::default(),
            sent_at: Instant::ZERO,
            resent: Resent::Nothing,
        }
    }

    /// Paces segments from now on.
    pub(super) fn start_pacing(&mut self) -> &mut Pacer {
        self.pacer.get_or_insert_with(Pacer::new)
    }
}

/// Rate below which an algorithm that paces sends single segments, bytes per second: 1.2 Mbps.
const SINGLE_BELOW: f64 = 150_000.0;
/// A small piece is deferred only if a segment was sent within `DEFERRED_AFTER` and the piece is
/// less than 1/`DEFERRED_SHARE` of the window (`net.ipv4.tcp_tso_win_divisor`).
const DEFERRED_AFTER: Duration = Duration::from_millis(1);
const DEFERRED_SHARE: u64 = 3;
/// In addition, the next ACK must be expected within this time and within half an RTT (since Linux
/// 6.18).
const EXPECTED_WITHIN: Duration = Duration::from_millis(1);
/// Maximum size of a piece, bytes.
const LARGEST_PIECE: u64 = 65_000;

/// Size of a piece at `rate` bytes per second: the data sent in 1 ms, and more for short RTTs
/// (`net.ipv4.tcp_tso_rtt_log`).
fn piece_size(rate: f64, min_rtt: Option<Duration>) -> u64 {
    let halvings = min_rtt.map_or(u64::MAX, |rtt| (rtt.as_nanos() / 1_000) >> 9);
    let near = if halvings < 32 { LARGEST_PIECE >> halvings } else { 0 };
    ((rate / 1024.0) as u64 + near).min(LARGEST_PIECE)
}

impl Flight {
    /// Time for which pacing delays the next segment.
    pub(crate) fn until_departure(&self, now: Instant) -> Duration {
        self.output
            .pacer
            .as_ref()
            .map_or(Duration::ZERO, |pacer| pacer.next().saturating_since(now))
    }

    /// Maximum number of segments in a piece.
    fn largest_piece(&self) -> u64 {
        if !self.config.segmentation_offload {
            return 1;
        }
        let rate =
            self.congestion_control.pacing_rate(self.rtt.srtt().max(Duration::from_nanos(1)));
        let rate = self.pacing_limit().map_or(rate, |limit| rate.min(limit));
        let most = piece_size(rate, self.records().min_rtt()) / self.mss;
        let is_slow = self.config.congestion_control.paces() && rate < SINGLE_BELOW;
        let least = if is_slow { 1 } else { self.config.min_tso_segments.into() };
        most.max(least)
    }

    /// Returns `true` if a part of a piece has not been sent.
    pub(crate) fn is_within_piece(&self) -> bool {
        self.output.piece.left > 0
    }

    /// Returns `true` if a piece smaller than usual is deferred, because the window has room for
    /// only `room` segments and an ACK that opens it further is expected soon
    /// (`tcp_tso_should_defer`). A segment must have been sent within the last millisecond.
    pub(crate) fn is_deferred(&self, now: Instant, room: u32) -> bool {
        let latest = self.records().last().map(|newest| newest.sent);
        let oldest = self.records().get(0).map(|oldest| oldest.sent);
        let (Some(latest), Some(oldest)) = (latest, oldest) else { return false };
        // With pacing, the segment occupies the time until the next one (`tcp_wstamp_ns`).
        let paced = self.output.pacer.as_ref().map_or(latest, |pacer| pacer.next().max(latest));
        let is_recent = now.saturating_since(paced) < DEFERRED_AFTER;
        let unsent = self.write_end - self.snd_nxt;
        let chunk = self.chunk_end() - self.snd_nxt;
        let is_single = !self.config.segmentation_offload || chunk <= self.mss;
        if self.output.piece.left > 0 || !is_recent || is_single || self.stream.sends_short_segment
        {
            return false;
        }
        let window = self.snd_una + self.peer.window;
        let limit = (u64::from(room) * self.mss).min(window.saturating_sub(self.snd_nxt));
        // No later send call adds data to a chunk that is followed by others, or that ends a
        // record.
        let is_fixed =
            chunk < unsent && limit >= chunk || self.stream.is_record_closed && limit > chunk;
        let share = self.peer.window.min(self.congestion_control.window()) / DEFERRED_SHARE;
        let srtt = self.rtt.srtt();
        !is_fixed
            && limit < self.largest_piece() * self.mss
            && limit < share
            && oldest + srtt <= now + EXPECTED_WITHIN.min(Duration::from_nanos(srtt.as_nanos() / 2))
            && (unsent > LARGEST_PIECE || self.stream.fin_at == u64::MAX)
    }

    /// End of the data at `snd_nxt` that can share a segment.
    fn chunk_end(&self) -> u64 {
        let mut ends = self.stream.message_ends.iter().copied();
        ends.find(|&end| end > self.snd_nxt).unwrap_or(self.write_end)
    }

    /// Returns `true` if the peer's window has room for more than `room` segments.
    pub(crate) fn has_room_at_peer(&self, room: u32) -> bool {
        self.snd_nxt + u64::from(room) * self.mss < self.snd_una + self.peer.window
    }

    /// Starts a piece before a new segment is sent. `room`: number of segments for which the window
    /// has room (Linux: `tcp_tso_autosize`).
    pub(crate) fn begin_piece(&mut self, room: u32) {
        if self.output.piece.left > 0 {
            return;
        }
        let most = self.largest_piece();
        let end = self.chunk_end().min(self.snd_una + self.peer.window).min(self.stream.held_from);
        let waiting = end.saturating_sub(self.snd_nxt).div_ceil(self.mss);
        let size = most.min(room.into()).min(waiting).max(1) as u32;
        self.output.piece =
            Piece { size, left: size, bytes: 0, since_ack: self.output.piece.since_ack + 1 };
    }

    /// Returns `true` if the segment at `seq` ends a piece or a send call, so that PSH is set.
    pub(crate) fn is_pushed(&self, seq: u64) -> bool {
        let records = self.records();
        records.get(records.index_of(seq)).is_some_and(|record| record.is_pushed)
    }

    /// Returns start and end of the next segment to send now. `recovery` selects it if the windows
    /// alone do not.
    #[inline(always)]
    pub(crate) fn poll(&mut self, now: Instant, recovery: &mut Recovery) -> Option<(u64, u64)> {
        if self.gate.is_quiet || self.is_held_back(now) {
            return None;
        }
        let was_plain = self.gate.is_plain;
        let (seq, end) = if was_plain {
            let seq = self.snd_nxt;
            let end = self.segment_end(seq);
            self.snd_nxt = end;
            self.gate.is_quiet = !self.has_next();
            (seq, end)
        } else {
            let chosen = self.choose(now, recovery);
            if chosen.is_none() {
                // The window has closed meanwhile, which ends the piece.
                self.output.piece.left = 0;
            }
            chosen?
        };
        self.on_sent(now, seq, end);
        if !was_plain {
            recovery.on_sent(self, now, seq);
        }
        Some((seq, end))
    }

    /// Returns the first byte of the next segment if it is new and full, does not end a send call,
    /// and is permitted by the windows without other conditions.
    #[inline(always)]
    pub(crate) fn poll_full(&mut self, now: Instant) -> Option<u64> {
        let seq = self.snd_nxt;
        let end = seq + self.mss;
        let is_plain = !self.gate.is_quiet && self.gate.is_plain && self.gate.has_fast_path;
        if !is_plain || end + 1 >= self.stream.first_message_end {
            return None;
        }
        debug_assert!(seq >= self.snd_max, "retransmissions do not take the fast path");
        self.snd_nxt = end;
        self.gate.is_quiet = !self.has_next();
        self.note_new(now, end);
        self.congestion_control.on_sent(now, self.mss);
        Some(seq)
    }

    /// Returns start and end of the segment that recovery selects.
    fn choose(&mut self, now: Instant, recovery: &mut Recovery) -> Option<(u64, u64)> {
        if self.snd_una == self.snd_max && self.parts.restarts_after_idle {
            self.look_before_sending(now);
        }
        let mut seq = recovery.next_segment(self, now);
        // Pacing may have delayed a retransmission until its original was acknowledged.
        while seq.is_some_and(|seq| seq < self.snd_una) {
            seq = recovery.next_segment(self, now);
        }
        let is_plain = recovery.is_plain(self);
        self.set_plain(is_plain);
        let seq = seq?;
        if self.config.min_tso_segments > 0 && seq < self.snd_max {
            // Sends the part within the window. The oldest segment serves as a probe of a closed
            // one.
            let room = (self.snd_una + self.peer.window).saturating_sub(seq);
            let (most, fin_at) = (self.mss, self.stream.fin_at);
            let records = self.records_mut();
            let index = records.index_of(seq);
            records.join_short(index, most);
            // A FIN requires no room.
            let fits = |record: &SentSegment| record.end > fin_at && record.end - seq == most + 1;
            if !records.get(index).is_some_and(fits) {
                records.cut(index, if room > 0 { most.min(room) } else { most }, most);
            }
        }
        Some((seq, self.end_of(seq)))
    }

    /// Returns `true` if pacing delays the next segment. It does not if no data is outstanding.
    #[inline]
    pub(crate) fn is_held_back(&self, now: Instant) -> bool {
        let is_early = |pacer: &Pacer| now < pacer.next() && self.output.piece.left == 0;
        self.output.pacer.as_ref().is_some_and(is_early) && self.snd_una < self.snd_max
    }

    /// Records the transmission of the segment `[seq, end)`.
    #[inline(always)]
    fn on_sent(&mut self, now: Instant, seq: u64, end: u64) {
        if self.parts.restarts_after_idle {
            self.look_at_pause(now);
        }
        self.note_sent(now, seq, end);
        if !self.gate.has_fast_path {
            self.keep(now, seq, end);
            if self.output.pacer.is_some() {
                self.pace(now, end - seq);
            }
        }
        self.congestion_control.on_sent(now, end - seq);
    }

    /// Updates counters and timers for the transmission of a segment.
    #[inline(always)]
    fn note_sent(&mut self, now: Instant, seq: u64, end: u64) {
        if seq < self.snd_max {
            self.output.resent = if end > self.snd_max { Resent::Part } else { Resent::All };
        }
        if end > self.snd_max {
            self.note_new(now, end);
            if end == self.write_end {
                self.note_all_sent();
            }
            return;
        }
        self.counters.segments_sent += 1;
        self.counters.retransmissions += 1;
        // Data is outstanding, since this is a retransmission.
        if !self.timers.is_running(Timer::Retransmission) {
            self.timers.start(Timer::Retransmission, now, self.rtt.rto());
        }
    }

    /// Like [`Self::note_sent`], for a segment that ends above SND.MAX.
    #[inline(always)]
    fn note_new(&mut self, now: Instant, end: u64) {
        let nothing_outstanding = self.snd_una == self.snd_max;
        self.counters.segments_sent += 1;
        self.snd_max = end;
        if self.timed.is_none() {
            self.timed = Some((end, now));
        }
        if nothing_outstanding || !self.timers.is_running(Timer::Retransmission) {
            if nothing_outstanding && self.snd_una > 0 {
                self.usage.begin(now);
            }
            self.timers.start(Timer::Retransmission, now, self.rtt.rto());
        }
    }

    /// Stores the records required for the segment `[seq, end)`, which is sent.
    #[inline]
    fn keep(&mut self, now: Instant, seq: u64, end: u64) {
        match &mut self.kept {
            Kept::Nothing => {
                self.gate.has_fast_path = self.snd_nxt >= self.snd_max
                    && has_send_fast_path(&self.config, &self.kept, &self.parts);
            }
            Kept::Departures(departures) => departures.on_sent(now, seq, end),
            Kept::Rates(departures) => {
                departures.memory.on_losses(self.counters.losses_declared * self.mss);
                departures.on_sent(now, seq, end);
                self.note_app_limit();
            }
            Kept::Records(_) => self.keep_record(now, seq, end),
        }
    }

    /// Like [`Self::keep`], for a connection with full records.
    fn keep_record(&mut self, now: Instant, seq: u64, end: u64) {
        let lost = self.lost_bytes();
        let Kept::Records(records) = &mut self.kept else { return };
        records.on_losses(lost);
        records.on_sent(now, seq, end);
        if self.stream.record_ends.contains(&end) && end == self.snd_max {
            records.end_record();
        }
        if self.output.piece.left > 0 && end == self.snd_max {
            self.output.piece.left -= 1;
            if self.output.piece.left == 0 {
                let ends_write = self.buffer.as_mut().is_some_and(|buffer| buffer.is_pushed(end));
                records
                    .end_piece(self.output.piece.size > 1 || ends_write || end == self.write_end);
            }
        }
        self.note_app_limit();
    }

    /// Records that the application limits transmission if all data is sent and the window permits
    /// another segment. Linux examines this in send calls only.
    #[inline]
    fn note_app_limit(&mut self) {
        if self.snd_max == self.write_end
            && !self.examines_calls()
            && self.snd_max - self.snd_una + self.mss <= self.congestion_control.window()
        {
            self.on_app_limited();
        }
    }

    /// Records that the application limits transmission, so that lower rates are not attributed to
    /// the path.
    #[cold]
    pub(super) fn on_app_limited(&mut self) {
        match &mut self.kept {
            Kept::Nothing | Kept::Departures(_) => {}
            Kept::Rates(departures) => {
                let in_flight = departures.in_flight();
                departures.memory.on_app_limited(in_flight);
            }
            Kept::Records(records) => records.on_app_limited(),
        }
    }

    /// Sets the time of the next segment after the transmission of `bytes`.
    fn pace(&mut self, now: Instant, bytes: u64) {
        let srtt = self.rtt.srtt();
        let Some(pacer) = &mut self.output.pacer else { return };
        if srtt == Duration::ZERO {
            return;
        }
        // At least one segment per RTT: a window below one segment must not stop the sender.
        let rate = self
            .congestion_control
            .pacing_rate(srtt)
            .max(pacer.least(self.mss, srtt))
            .min(pacer.most());
        if self.config.min_tso_segments > 0 {
            self.output.piece.bytes += bytes;
            if self.output.piece.left > 0 {
                return;
            }
            let bytes = std::mem::take(&mut self.output.piece.bytes);
            // A connection without handshake has sent no SYN that counts.
            let segments = self.counters.segments_sent + u64::from(!self.config.handshake);
            pacer.on_piece_sent(now, bytes, rate, segments);
        } else {
            pacer.on_sent(now, bytes, rate);
        }
        let next = if pacer.next() > now { pacer.next() } else { Instant::NEVER };
        self.timers.set(Timer::Pacing, next);
    }
}
