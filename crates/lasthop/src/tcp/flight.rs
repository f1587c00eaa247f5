//! What is in flight: the sequence space, timers, windows, and what every recovery scheme works on.

use super::config::{Config, Conventions, Notices, UndoKind};
use super::law::{AckSample, Congestion, CongestionLaw, Delivery, Law, Passage};
use super::loss::duplicates::DuplicateAcks;
use super::pacer::Pacer;
use super::random::is_out;
use super::recovery::Recovery;
use super::rtt::RttEstimator;
use super::send_buffer::{Fill, SendBuffer};
use super::sender::SenderCounters;
use super::sent::SentSegments;
use super::timers::{Timer, Timers};
use super::undo::Undo;
use crate::units::{Duration, Instant};
use std::collections::VecDeque;

/// What is in flight, and the state that every recovery scheme works on.
#[derive(Clone, Debug)]
pub struct Flight {
    pub(super) config: Config,
    /// Payload bytes of a full segment.
    pub(super) mss: u64,
    /// Oldest unacknowledged byte (RFC 9293: SND.UNA).
    pub(super) snd_una: u64,
    /// Next byte to send (SND.NXT); a timeout pulls it back to `snd_una`.
    pub(super) snd_nxt: u64,
    /// One past the highest byte ever sent.
    pub(super) snd_max: u64,
    /// One past the last byte that the application wants sent (SYN and FIN count one each).
    pub(super) write_end: u64,
    /// Where the FIN stands, once the application has closed.
    pub(super) fin_at: u64,
    /// The same if it rides on the last data.
    joined_fin: u64,
    /// End of the latest segment that was shorter than a full one (Nagle).
    pub(super) short_end: u64,
    /// The application holds short segments back.
    pub(super) is_corked: bool,
    /// No later write joins the last one.
    pub(super) is_record_closed: bool,
    /// Where a short segment begins that has to wait.
    held_from: u64,
    /// Ends of application writes not yet acknowledged; segments do not cross them.
    message_ends: VecDeque<u64>,
    /// The first of them, or 0.
    first_message_end: u64,
    /// Receive window that the peer advertised, in bytes (SND.WND).
    pub(super) peer_window: u64,
    /// Sequence number of the segment that updated the window last (SND.WL1).
    pub(super) window_seq: u64,
    /// Its acknowledgment number (SND.WL2).
    pub(super) window_ack: u64,
    pub(super) law: Law,
    pub(super) rtt: RttEstimator,
    pub(super) duplicates: DuplicateAcks,
    pub(super) timers: Timers,
    /// Records of what is outstanding, if somebody looks back.
    sent: Option<Box<SentSegments>>,
    /// Round-trip time that the latest ACK tells, by these records.
    ack_rtt: Option<Duration>,
    /// The ACK in hand echoes a mark of the network (ECE).
    pub(super) has_echo_of_mark: bool,
    /// The latest ACK with the mark that what it asks for was lost on a link: its number.
    pub(super) loss_mark: Option<u64>,
    /// When a segment that queues drop first was lost last, of a sender that judges by that.
    out_lost: Option<Instant>,
    /// What its timestamps tell, for a law that wants to know.
    pub(super) passage: Option<Passage>,
    pacer: Option<Pacer>,
    /// What leaves in one piece, of a host that sends so.
    piece: Piece,
    /// What the application could not write yet, under [`Config::autotuning`].
    buffer: Option<Box<SendBuffer>>,
    pub(super) undo: Undo,
    /// One past the last byte that the windows of law, recovery and receiver allow.
    allowed: u64,
    /// New data within `allowed` are all that may go out; recovery has no word in it.
    is_plain: bool,
    /// Nothing may go out before the next input.
    is_quiet: bool,
    /// Neither records nor pacing.
    is_lean: bool,
    /// Others than recovery and law look at each ACK: records, undo, ECN.
    is_watched: bool,
    /// What a reduction is computed from.
    in_use: InUse,
    /// The one segment being timed: its end and when it left (Karn's rule).
    pub(super) timed: Option<(u64, Instant)>,
    /// Window after the handshake; 1 once a SYN was lost (ns-2), or two (RFC 6928, section 2).
    pub(super) initial_window: f64,
    /// Expiries of the timer of the SYN.
    syn_timeouts: u32,
    /// A duplicate ACK allows one new segment (RFC 3042).
    pub(super) limited_transmit_due: bool,
    /// Bytes sent that way since the latest new ACK.
    limited_bytes: u64,
    /// `snd_una` at the latest timeout.
    timed_out_at: u64,
    /// One past the highest byte sent by then.
    pub(super) timed_out_to: u64,
    /// One past the highest byte declared lost; 0 before any.
    declared_to: u64,
    /// Timeouts that reduced the threshold no further, of which CWR tells none the less (Linux).
    pub(super) told_again: u64,
    pub(super) counters: SenderCounters,
}

/// What half of the window is half of.
#[derive(Clone, Copy, Debug)]
enum InUse {
    /// The congestion window with its inflation, at most the receive window in segments (ns-2).
    Window { receive_window: f64 },
    /// The congestion window (Linux).
    CongestionWindow,
    /// The flight size, without what limited transmit has sent (RFC 5681, section 3.2).
    Flight,
}

/// Segments that leave in one piece.
#[derive(Clone, Copy, Debug, Default)]
struct Piece {
    /// How many.
    size: u32,
    /// How many of them have not left.
    left: u32,
    /// Pieces that have left since the latest ACK.
    since_ack: u32,
    /// Bytes that have.
    bytes: u64,
}

/// Below this many bytes a second a law that paces sends segments one by one: 1.2 Mbps.
const SINGLE_BELOW: f64 = 150_000.0;
/// A small piece waits only if something left so recently, and if it is less than this share of the window
/// (`net.ipv4.tcp_tso_win_divisor`).
const DEFERRED_AFTER: Duration = Duration::from_millis(1);
const DEFERRED_SHARE: u64 = 3;
/// And only if the next ACK should be here by then, or in half a round trip (since Linux 6.18).
const EXPECTED_WITHIN: Duration = Duration::from_millis(1);
/// The largest piece, bytes.
const LARGEST_PIECE: u64 = 65_000;

/// Bytes that leave in one piece at `rate` bytes a second: what a millisecond takes, and more on short round trips
/// (`net.ipv4.tcp_tso_rtt_log`).
fn piece_size(rate: f64, min_rtt: Option<Duration>) -> u64 {
    let halvings = min_rtt.map_or(u64::MAX, |rtt| (rtt.as_nanos() / 1_000) >> 9);
    let near = if halvings < 32 { LARGEST_PIECE >> halvings } else { 0 };
    ((rate / 1024.0) as u64 + near).min(LARGEST_PIECE)
}

/// Where a new incarnation finds memory that the last one took.
#[derive(Default)]
struct Taken {
    message_ends: VecDeque<u64>,
    sent: Option<Box<SentSegments>>,
    law: Option<Law>,
}

impl Flight {
    /// A connection's first incarnation.
    pub(super) fn new(config: &Config, boot_offset: Duration) -> Self {
        let sent = config.keeps_records().then(|| Box::new(SentSegments::new()));
        let taken = Taken { sent, ..Taken::default() };
        Flight::begin(config, boot_offset, config.initial_window, taken)
    }

    /// Has nothing ever been written to it, and could it hear of nothing that would change it?
    pub(super) fn is_unused(&self) -> bool {
        let first = u64::from(!self.config.handshake);
        self.config.one_way && !self.is_watched && self.write_end == first
    }

    /// A new incarnation of one that is unused.
    pub(super) fn restart_clock(&mut self, boot_offset: Duration) {
        self.rtt = RttEstimator::new(&self.config, boot_offset);
        self.timers = Timers::new();
    }

    /// A new incarnation: everything afresh, except that a host which has once lost a SYN keeps its
    /// initial window of one (as ns-2's agents do), and the counters go on.
    pub(super) fn reset(&mut self, boot_offset: Duration) {
        let config = self.config;
        let initial_window = match config.conventions {
            Conventions::Ns2 => self.initial_window,
            Conventions::Rfc | Conventions::Linux => config.initial_window,
        };
        let mut message_ends = std::mem::take(&mut self.message_ends);
        message_ends.clear();
        let mut sent = self.sent.take();
        if let Some(sent) = &mut sent {
            sent.reset();
        }
        let law = Some(self.law.take());
        let counters = self.counters;
        let taken = Taken { message_ends, sent, law };
        *self = Flight::begin(&config, boot_offset, initial_window, taken);
        self.counters = counters;
    }

    fn begin(config: &Config, boot_offset: Duration, initial_window: f64, taken: Taken) -> Self {
        let first = u64::from(!config.handshake);
        let cwnd = if config.handshake { 1.0 } else { initial_window };
        let law = match taken.law {
            Some(mut law) => {
                law.reset(config, cwnd);
                law
            }
            None => Law::new(config, cwnd),
        };
        let in_use = match config.conventions {
            Conventions::Ns2 => InUse::Window { receive_window: config.receive_window },
            Conventions::Rfc => InUse::Flight,
            Conventions::Linux => InUse::CongestionWindow,
        };
        Flight {
            config: *config,
            mss: config.segment.get(),
            snd_una: first,
            snd_nxt: first,
            snd_max: first,
            write_end: first,
            fin_at: u64::MAX,
            joined_fin: u64::MAX,
            short_end: 0,
            is_corked: false,
            is_record_closed: false,
            held_from: u64::MAX,
            message_ends: taken.message_ends,
            first_message_end: 0,
            peer_window: config.first_window(),
            window_seq: 0,
            window_ack: 0,
            law,
            rtt: RttEstimator::new(config, boot_offset),
            duplicates: DuplicateAcks::new(config.dupack_threshold),
            timers: Timers::new(),
            sent: taken.sent,
            ack_rtt: None,
            has_echo_of_mark: false,
            loss_mark: None,
            out_lost: None,
            passage: None,
            pacer: config.pacing.then(Pacer::new),
            piece: Piece::default(),
            buffer: config.autotuning.then(|| Box::new(SendBuffer::new(config))),
            undo: Undo::new(config),
            allowed: 0,
            is_plain: true,
            is_quiet: true,
            is_lean: !config.keeps_records() && !config.pacing,
            is_watched: config.keeps_records() || config.undo != UndoKind::Off || config.ecn,
            in_use,
            timed: None,
            initial_window,
            syn_timeouts: 0,
            limited_transmit_due: false,
            limited_bytes: 0,
            timed_out_at: u64::MAX,
            timed_out_to: 0,
            declared_to: 0,
            told_again: 0,
            counters: SenderCounters::default(),
        }
    }

    /// End of the segment that starts at `seq`: a full segment or the end of a write.
    #[inline]
    pub(super) fn segment_end(&self, seq: u64) -> u64 {
        let end = seq + self.mss;
        // A FIN may be the last number of a write.
        if end + 1 < self.first_message_end { end } else { self.segment_end_beyond(seq) }
    }

    /// The same at the end of the first write and beyond.
    #[cold]
    fn segment_end_beyond(&self, seq: u64) -> u64 {
        let message_end = self.message_ends.iter().find(|&&end| seq < end);
        let end = message_end.map_or(self.write_end, |&end| end.min(seq + self.mss));
        // A FIN takes no room in the segment.
        if end == self.joined_fin { end + 1 } else { end }
    }

    /// End of the segment that starts at `seq`: that of its first transmission if there is a record of it.
    fn end_of(&self, seq: u64) -> u64 {
        let known = self.sent.as_ref().filter(|_| seq < self.snd_max);
        let record = known.and_then(|sent| sent.get(sent.index_of(seq)));
        let is_record = record.filter(|record| record.start == seq);
        is_record.map_or_else(|| self.segment_end(seq), |record| record.end)
    }

    /// The records of what is outstanding, of a connection that keeps them.
    pub(super) fn records(&self) -> &SentSegments {
        self.sent.as_ref().expect("this recovery keeps records")
    }

    /// The same to be marked.
    pub(super) fn records_mut(&mut self) -> &mut SentSegments {
        self.sent.as_mut().expect("this recovery keeps records")
    }

    /// Has everything written been acknowledged?
    #[inline]
    pub(super) fn is_idle(&self) -> bool {
        self.snd_una == self.write_end && !self.has_waiting()
    }

    /// Does the application wait for room in the send buffer?
    #[inline]
    pub(super) fn has_waiting(&self) -> bool {
        self.buffer.as_ref().is_some_and(|buffer| buffer.waiting() > 0)
    }

    /// How full the send buffer is, with `in_flight` segments on their way.
    pub(super) fn fill(&self, in_flight: u32) -> Fill {
        let cwnd = self.law.cwnd() as u64;
        let windows = cwnd.saturating_sub(in_flight.into());
        Fill {
            written: self.write_end - self.snd_una,
            unsent: self.write_end - self.snd_max,
            pieces: self.records().pieces().into(),
            room: windows,
            cwnd,
            peer_window: self.peer_window,
            is_bursty: self.piece.since_ack > 1,
        }
    }

    /// What may leave has left, with `in_flight` segments on their way: an application that waits for room may write.
    /// Says whether it has.
    #[cold]
    pub(super) fn write_waiting(&mut self, in_flight: u32) -> bool {
        let fill = self.fill(in_flight);
        let bytes = self.buffer.as_mut().map_or(0, |buffer| buffer.on_space(&fill));
        self.take_written(bytes);
        bytes > 0
    }

    /// The buffer takes `bytes` of a write, which they end or not.
    fn take_written(&mut self, bytes: u64) {
        match self.message_ends.back_mut() {
            // Nothing joins a SYN.
            Some(end) if bytes > 0 && *end > 1 => {
                *end += bytes;
                self.write_end += bytes;
                self.first_message_end = self.message_ends[0];
            }
            _ if bytes > 0 => self.extend(bytes),
            _ => {}
        }
        let closes = self
            .buffer
            .as_mut()
            .is_some_and(|buffer| buffer.waiting() == 0 && std::mem::take(&mut buffer.closes));
        if closes {
            self.extend_by_fin();
        }
    }

    /// Outstanding bytes in segments, rounded up.
    pub(super) fn outstanding_segments(&self) -> u64 {
        (self.snd_max - self.snd_una).div_ceil(self.mss)
    }

    /// Windows may have changed: how far data may go now. `inflation`: segments that recovery adds to
    /// the law's window; `is_plain`: recovery has no word in what goes out.
    #[inline(always)]
    pub(super) fn refresh(&mut self, inflation: u32, is_plain: bool) {
        let window = self.law.window() + u64::from(inflation) * self.mss;
        self.allowed = if self.snd_una == 0 {
            // Nothing follows a SYN before it is acknowledged.
            1
        } else {
            self.snd_una + window.min(self.peer_window)
        };
        if self.config.join_writes {
            self.limit_joined(window);
        }
        self.set_plain(is_plain);
    }

    /// Where writes join: a FIN rides on data beyond the congestion window, and a short segment may
    /// have to wait.
    #[cold]
    fn limit_joined(&mut self, window: u64) {
        self.held_from = u64::MAX;
        if self.fin_at != u64::MAX {
            self.allowed = self.snd_una + (window + 1).min(self.peer_window);
            return;
        }
        let waits = self.is_corked || self.config.nagle && self.short_end > self.snd_una;
        if waits && self.write_end > self.snd_max {
            // Only the last record may be cut short by what is not written yet.
            let records = self.message_ends.iter().rev();
            let start = records.copied().nth(1).unwrap_or(0).max(self.snd_max);
            let short = (self.write_end - start) % self.mss;
            if short > 0 && !self.is_record_closed {
                self.held_from = self.write_end - short;
                self.allowed = self.allowed.min(self.held_from);
            }
        }
    }

    /// The same where recovery adds nothing and has no word, and an ACK for new data came.
    #[inline(always)]
    pub(super) fn refresh_calm(&mut self) {
        let window = self.law.window();
        self.allowed = self.snd_una + window.min(self.peer_window);
        if self.config.join_writes {
            self.limit_joined(window);
        }
        self.is_plain = true;
        self.is_quiet = !self.has_next();
    }

    #[inline(always)]
    fn set_plain(&mut self, is_plain: bool) {
        self.is_plain = is_plain && !self.limited_transmit_due;
        self.is_quiet = self.is_plain && !self.has_next();
    }

    /// Do the windows allow the segment at `snd_nxt`, if there is one?
    #[inline(always)]
    fn has_next(&self) -> bool {
        let end = self.snd_nxt + self.mss;
        if end + 1 < self.first_message_end {
            end <= self.allowed
        } else {
            self.snd_nxt < self.write_end && self.segment_end_beyond(self.snd_nxt) <= self.allowed
        }
    }

    /// Others than the windows decide what goes out: they are to be asked.
    pub(super) fn stay_awake(&mut self) {
        self.is_quiet = false;
    }

    /// Do others than recovery and law look at each ACK?
    #[inline]
    pub(super) fn is_watched(&self) -> bool {
        self.is_watched
    }

    /// Is it certain that nothing may go out before the next input?
    #[inline]
    pub(super) fn is_quiet(&self) -> bool {
        self.is_quiet
    }

    /// Takes the segment at `snd_nxt` if the windows allow it.
    #[inline]
    pub(super) fn next_allowed(&mut self) -> Option<u64> {
        let seq = self.snd_nxt;
        if seq >= self.write_end {
            return None;
        }
        let end = self.segment_end(seq);
        if end > self.allowed {
            return None;
        }
        self.snd_nxt = end;
        Some(seq)
    }

    /// May the segment at `snd_nxt` go out as far as the receiver is concerned?
    pub(super) fn fits_receiver(&self) -> bool {
        if self.snd_nxt >= self.write_end {
            return false;
        }
        if self.snd_una == 0 {
            return self.snd_nxt == 0;
        }
        let end = self.segment_end(self.snd_nxt);
        end <= self.snd_una + self.peer_window && end <= self.held_from
    }

    /// What a reduction is computed from, in segments.
    pub(super) fn in_use(&self, inflation: u32) -> f64 {
        match self.in_use {
            InUse::Window { receive_window } => {
                (self.law.cwnd() + f64::from(inflation)).min(receive_window)
            }
            InUse::CongestionWindow => self.law.cwnd(),
            InUse::Flight => {
                (self.snd_max - self.snd_una).saturating_sub(self.limited_bytes) as f64
                    / self.mss as f64
            }
        }
    }

    /// Takes the segment at `snd_nxt` and moves on.
    #[inline]
    pub(super) fn advance_next(&mut self) -> u64 {
        let seq = self.snd_nxt;
        self.snd_nxt = self.segment_end(seq);
        seq
    }

    /// An ACK for new data: times, timers, the sequence space. Returns how many bytes it
    /// acknowledges.
    #[inline(always)]
    pub(super) fn new_ack(&mut self, now: Instant, ack: u64) -> u64 {
        let acked = ack - self.snd_una;
        self.duplicates.clear();
        self.limited_transmit_due = false;
        self.limited_bytes = 0;
        if self.timed_out_at == 0 && self.snd_una == 0 {
            self.rtt.after_lost_syn();
        }
        self.move_una(ack);
        if let Some((end, sent)) = self.timed
            && ack >= end
        {
            self.timed = None;
            self.rtt.end_back_off();
            self.rtt.sample(sent, now);
        }
        self.restart_timer(now);
        acked
    }

    /// Do records have to hear of every ACK?
    #[inline]
    pub(super) fn keeps_records(&self) -> bool {
        self.sent.is_some()
    }

    /// An ACK with news, or a duplicate, before recovery makes anything of it: records, and what a law measures.
    #[cold]
    pub(super) fn on_delivery(&mut self, now: Instant, ack: u64, blocks: &[(u64, u64)]) {
        let Some(sent) = &mut self.sent else { return };
        let delivery = sent.on_ack(now, ack.max(self.snd_una), blocks);
        self.ack_rtt = delivery.rtt;
        self.measure(delivery);
    }

    /// The records have taken in an ACK that moved the left edge by `acked` bytes and tells the round trip `rtt`: what a
    /// law measures.
    pub(super) fn tell_delivery(
        &mut self,
        now: Instant,
        acked: u64,
        rtt: Option<Duration>,
    ) -> Delivery {
        let una = self.snd_una;
        let delivery = self.records_mut().delivery(now, una, acked, rtt);
        self.measure(delivery);
        delivery
    }

    /// What a law measures, with what the ACK in hand tells besides.
    fn measure(&mut self, delivery: Delivery) {
        if self.config.law.measures() {
            let (is_marked, passage) = (self.has_echo_of_mark, self.passage.take());
            let lost = self.lost_bytes();
            self.law.on_delivery(&Delivery { is_marked, passage, lost, ..delivery });
        }
    }

    /// How long pacing holds the next segment back.
    pub(super) fn until_departure(&self, now: Instant) -> Duration {
        self.pacer.as_ref().map_or(Duration::ZERO, |pacer| pacer.next().saturating_since(now))
    }

    /// Segments that leave in one piece if there are enough.
    fn largest_piece(&self) -> u64 {
        let rate = self.law.pacing_rate(self.rtt.srtt().max(Duration::from_nanos(1)));
        let most = piece_size(rate, self.records().min_rtt()) / self.mss;
        let is_slow = self.config.law.paces() && rate < SINGLE_BELOW;
        let least = if is_slow { 1 } else { self.config.pieces.into() };
        most.max(least)
    }

    /// Is a piece smaller than usual held back, as the window has room for `room` segments only and an ACK that opens it
    /// further is likely to come soon (`tcp_tso_should_defer`)? Only if something left within the last millisecond.
    pub(super) fn is_deferred(&self, now: Instant, room: u32) -> bool {
        let latest = self.records().last().map(|newest| newest.sent);
        let oldest = self.records().get(0).map(|oldest| oldest.sent);
        let (Some(latest), Some(oldest)) = (latest, oldest) else { return false };
        let is_recent = now - latest < DEFERRED_AFTER;
        let unsent = self.write_end - self.snd_nxt;
        if self.piece.left > 0 || !is_recent || unsent <= self.mss {
            return false;
        }
        let window = self.snd_una + self.peer_window;
        let limit = (u64::from(room) * self.mss).min(window.saturating_sub(self.snd_nxt));
        let share = self.peer_window.min(self.law.window()) / DEFERRED_SHARE;
        let srtt = self.rtt.srtt();
        limit < self.largest_piece() * self.mss
            && limit < share
            && oldest + srtt <= now + EXPECTED_WITHIN.min(Duration::from_nanos(srtt.as_nanos() / 2))
            && (unsent > LARGEST_PIECE || self.fin_at == u64::MAX)
    }

    /// An ACK arrived.
    pub(super) fn begin_ack(&mut self) {
        self.piece.since_ack = 0;
    }

    /// A new segment leaves, and `room` says how many the window has room for: those that leave in one piece with it
    /// (Linux: `tcp_tso_autosize`).
    pub(super) fn begin_piece(&mut self, room: u32) {
        if self.piece.left > 0 {
            return;
        }
        let most = self.largest_piece();
        let end = self.write_end.min(self.snd_una + self.peer_window).min(self.held_from);
        let waiting = end.saturating_sub(self.snd_nxt).div_ceil(self.mss);
        let size = most.min(room.into()).min(waiting).max(1) as u32;
        self.piece = Piece { size, left: size, bytes: 0, since_ack: self.piece.since_ack + 1 };
    }

    /// Is the segment at `seq` the end of a piece or of a write, so that the receiver hands it up?
    pub(super) fn is_pushed(&self, seq: u64) -> bool {
        let records = self.records();
        records.get(records.index_of(seq)).is_some_and(|record| record.is_pushed)
    }

    /// Bytes declared lost so far, in full segments.
    fn lost_bytes(&self) -> u64 {
        self.counters.losses_declared * self.mss
    }

    /// Moves the left edge; neither duplicates nor timers are touched.
    #[inline]
    pub(super) fn move_una(&mut self, ack: u64) {
        self.snd_una = ack;
        self.snd_nxt = self.snd_nxt.max(ack);
        if ack >= self.first_message_end {
            self.forget_messages(ack);
        }
    }

    #[cold]
    fn forget_messages(&mut self, ack: u64) {
        while self.message_ends.front().is_some_and(|&end| end <= ack) {
            self.message_ends.pop_front();
        }
        self.first_message_end = self.message_ends.front().copied().unwrap_or(0);
    }

    /// The application (or the handshake) wants `length` more of the sequence space sent.
    pub(super) fn extend(&mut self, length: u64) {
        self.write_end += length;
        self.message_ends.push_back(self.write_end);
        self.first_message_end = self.message_ends.front().copied().unwrap_or(0);
    }

    /// The application writes `length` more.
    pub(super) fn extend_by_write(&mut self, length: u64) {
        if self.is_idle() && self.law.window() < self.mss {
            // No timer runs that would open the window.
            self.law.set_cwnd(1.0);
        }
        if self.buffer.is_some() {
            let fill = self.fill(self.records().len());
            let is_open = self.snd_una > 0;
            let bytes =
                self.buffer.as_mut().map_or(0, |buffer| buffer.write(length, &fill, is_open));
            self.take_written(bytes);
        } else if self.config.join_writes {
            self.extend_joined(length);
        } else {
            self.extend(length);
        }
    }

    /// The same, together with what has been written before and not been sent. Says whether there was any.
    #[cold]
    fn extend_joined(&mut self, length: u64) -> bool {
        let is_open = self.write_end > self.snd_max && !self.is_record_closed;
        self.is_record_closed = false;
        let last = self.message_ends.back_mut().filter(|_| is_open);
        let is_joined = last.is_some();
        if let Some(end) = last {
            self.write_end += length;
            *end = self.write_end;
            self.first_message_end = self.message_ends[0];
        } else {
            self.extend(length);
        }
        is_joined
    }

    /// The application has nothing more to send.
    pub(super) fn extend_by_fin(&mut self) {
        if let Some(buffer) = self.buffer.as_mut().filter(|buffer| buffer.waiting() > 0) {
            buffer.closes = true;
            return;
        }
        self.fin_at = self.write_end;
        if !self.config.join_writes {
            self.extend(1);
        } else if self.extend_joined(1) {
            self.joined_fin = self.fin_at;
        }
    }

    /// The handshake took from `sent` to `now`.
    pub(super) fn sample_handshake(&mut self, sent: Instant, now: Instant) {
        match self.config.conventions {
            Conventions::Linux => self.rtt.sample_linux(now - sent, 1, 1),
            _ => self.rtt.sample(sent, now),
        }
    }

    /// The rest of a piece does not fit into the receiver's window: as much of it as fits leaves with it, unless a short
    /// segment has to wait (`tcp_mss_split_point`). Says whether anything does.
    pub(super) fn cut_piece_to_window(&mut self) -> bool {
        let edge = self.snd_una + self.peer_window;
        let waits = self.is_corked || self.config.nagle && self.short_end > self.snd_una;
        let cuts = self.piece.left > 0
            && !waits
            && self.snd_nxt == self.snd_max
            && self.snd_nxt < edge.min(self.write_end);
        if cuts {
            self.cut_to_window();
        }
        cuts
    }

    /// What is left of the receiver's window below a full segment becomes a segment by itself.
    pub(super) fn cut_to_window(&mut self) {
        let end = self.snd_una + self.peer_window;
        let place = self.message_ends.partition_point(|&message| message < end);
        if self.message_ends.get(place) != Some(&end) {
            self.message_ends.insert(place, end);
            self.first_message_end = self.message_ends[0];
        }
    }

    /// The segment that ends at `end` is sent again: if it is timed, its round trip tells nothing (Karn's rule).
    pub(super) fn forget_timed_segment(&mut self, end: u64) {
        if self.timed.is_some_and(|(timed, _)| timed == end) {
            self.timed = None;
        }
    }

    /// A partial ACK may cover the timed segment: back-off ends, but the sample is worthless.
    pub(super) fn forget_timed(&mut self, ack: u64) {
        if self.timed.is_some_and(|(end, _)| ack >= end) {
            self.timed = None;
            self.rtt.end_back_off();
        }
    }

    /// Grows the window by an ACK of `acked` bytes, or opens it after the handshake.
    #[inline(always)]
    pub(super) fn grow_window(&mut self, now: Instant, acked: u64) {
        self.law.on_ack(&AckSample {
            now,
            acked,
            // Mostly one, which needs no division.
            delivered_segments: if acked <= self.mss { 1 } else { acked.div_ceil(self.mss) as u32 },
            is_window_limited: true,
            prior_in_flight: self.snd_max - self.snd_una + acked,
            snd_una: self.snd_una,
            snd_max: self.snd_max,
            rtt: self.ack_rtt,
            srtt: self.rtt.srtt(),
        });
        if self.config.handshake && self.snd_una == 1 {
            self.law.set_cwnd(self.initial_window);
        }
    }

    /// Starts the timer anew while anything is outstanding. Halving can leave ns-2's window below
    /// one packet, which forbids all; there the timer runs on and opens it again.
    #[inline(always)]
    pub(super) fn restart_timer(&mut self, now: Instant) {
        let is_running = self.snd_una < self.snd_max
            || self.law.window() < self.mss && self.snd_una < self.write_end;
        let deadline = if is_running { now + self.rtt.rto() } else { Instant::NEVER };
        self.timers.set(Timer::Retransmission, deadline);
    }

    /// The segment at `seq` counts as lost. Losses are declared in the order of the sequence space:
    /// what lies below the last one was declared before, and is a retransmission lost in its turn.
    pub(super) fn declare_lost(&mut self, seq: u64) {
        if seq >= self.declared_to {
            self.declared_to = self.segment_end(seq);
            self.counters.losses_declared += 1;
        }
    }

    /// The third duplicate: one reduction, timer restarted, nothing timed.
    /// Returns whether the window stays, as the loss is held for random.
    pub(super) fn fast_retransmit(&mut self, now: Instant, inflation: u32) -> bool {
        let in_use = self.in_use(inflation);
        self.fast_retransmit_of(now, self.snd_una, in_use)
    }

    /// The same for the segment at `seq`, with what is in use in segments.
    pub(super) fn fast_retransmit_of(&mut self, now: Instant, seq: u64, in_use: f64) -> bool {
        self.declare_lost(seq);
        let is_random = self.config.marks_some_out() && self.is_random(now, seq);
        if is_random {
            self.law.on_explicit_loss();
            self.counters.explicit_losses += 1;
        } else {
            self.law.on_congestion(now, Congestion::Loss, in_use);
            self.undo.on_reduction(now);
            self.counters.window_cuts += 1;
        }
        self.counters.fast_retransmits += 1;
        self.timed = None;
        self.limited_transmit_due = false;
        self.restart_timer(now);
        is_random || self.law.kept_window()
    }

    /// Is the loss of the segment at `seq` random, as far as those tell that queues drop first?
    #[cold]
    fn is_random(&mut self, now: Instant, seq: u64) -> bool {
        if self.config.notices == Notices::Casablanca {
            return self.loss_mark.take() == Some(seq);
        }
        if is_out(&self.config, seq) {
            self.out_lost = Some(now);
            return false;
        }
        self.out_lost.is_none_or(|at| now > at + self.rtt.srtt())
    }

    /// The network marked a segment: one reduction, and nothing else.
    pub(super) fn reduce_for_mark(&mut self, now: Instant) {
        let in_use = self.in_use(0);
        self.law.on_congestion(now, Congestion::Ecn, in_use);
        self.counters.window_cuts += 1;
    }

    /// One of the first duplicates: RFC 3042 allows one new segment each.
    pub(super) fn limited_transmit(&mut self) {
        if self.config.limited_transmit {
            self.limited_transmit_due = true;
        }
    }

    /// Takes the segment that limited transmit allows, if the windows do.
    #[inline]
    pub(super) fn poll_limited_transmit(&mut self) -> Option<u64> {
        if self.limited_transmit_due { self.limited_transmit_segment() } else { None }
    }

    #[cold]
    fn limited_transmit_segment(&mut self) -> Option<u64> {
        self.limited_transmit_due = false;
        // RFC 5681, section 3.2: "previously unsent data". ns-2 does not ask.
        let is_unsent = self.snd_nxt == self.snd_max || self.config.conventions == Conventions::Ns2;
        if !is_unsent || !self.fits_receiver() {
            return None;
        }
        let end = self.segment_end(self.snd_nxt) - self.snd_una;
        let allowed = (self.law.cwnd() + f64::from(self.duplicates.count())) * self.mss as f64;
        if end as f64 > allowed {
            return None;
        }
        Some(self.advance_limited())
    }

    /// Takes the segment at `snd_nxt` by limited transmit.
    pub(super) fn advance_limited(&mut self) -> u64 {
        self.limited_bytes += self.segment_end(self.snd_nxt) - self.snd_nxt;
        self.advance_next()
    }

    pub(super) fn on_timeout(&mut self, now: Instant) {
        self.counters.timeouts += 1;
        if self.snd_una < self.snd_max {
            self.declare_lost(self.snd_una);
        }
        self.duplicates.clear();
        self.limited_transmit_due = false;
        self.limited_bytes = 0;
        if self.snd_una == 0 && self.config.conventions != Conventions::Ns2 {
            self.on_syn_timeout();
        } else {
            self.cut_after_timeout(now);
        }
        self.timed_out_at = self.snd_una;
        self.timed_out_to = self.snd_max;
        self.rtt.back_off();
        self.timed = None;
        self.snd_nxt = self.snd_una;
        self.timers.set(Timer::Retransmission, now + self.rtt.rto());
    }

    fn cut_after_timeout(&mut self, now: Instant) {
        if self.snd_una == 0 {
            self.initial_window = self.initial_window.min(1.0);
        }
        // RFC 5681, section 3.1: the threshold is reduced once for each lost segment.
        let is_again =
            self.timed_out_at == self.snd_una && self.config.conventions != Conventions::Ns2;
        let in_use = (!is_again).then(|| self.in_use(0));
        self.counters.window_cuts += 1;
        self.law.on_timeout(now, in_use);
        self.undo.on_reduction(now);
    }

    /// The latest reduction was a mistake: the window comes back, and what was never sent goes next.
    pub(super) fn take_back(&mut self) {
        self.counters.spurious_reductions += 1;
        self.law.on_spurious();
        self.timed_out_to = 0;
        self.rtt.end_back_off();
        self.snd_nxt = self.snd_max;
    }

    /// A lost SYN. RFC 6928, section 2, recommends to keep the initial window unless there was more
    /// than one retransmission of it; RFC 5681 reduces it at the first. A SYN carries no data whose
    /// half could become the threshold, so that stays as it is.
    fn on_syn_timeout(&mut self) {
        self.syn_timeouts += 1;
        if self.syn_timeouts == 2 {
            self.counters.window_cuts += 1;
            self.initial_window = self.initial_window.min(1.0);
        }
    }

    /// The next segment to send now; `recovery` decides where the windows alone do not.
    #[inline(always)]
    pub(super) fn poll(&mut self, now: Instant, recovery: &mut Recovery) -> Option<(u64, u64)> {
        if self.is_quiet || self.is_held_back(now) {
            return None;
        }
        let was_plain = self.is_plain;
        let (seq, end) = if was_plain {
            let seq = self.snd_nxt;
            let end = self.segment_end(seq);
            self.snd_nxt = end;
            self.is_quiet = !self.has_next();
            (seq, end)
        } else {
            let chosen = self.choose(now, recovery);
            if chosen.is_none() {
                // A window that closed meanwhile cuts the piece short.
                self.piece.left = 0;
            }
            chosen?
        };
        self.on_sent(now, seq, end);
        if !was_plain {
            recovery.on_sent(self, now, seq);
        }
        Some((seq, end))
    }

    /// The next segment if it is a full one in the middle of a write and nothing but the windows decides,
    /// which let it go: its first byte.
    #[inline(always)]
    pub(super) fn poll_full(&mut self, now: Instant) -> Option<u64> {
        let seq = self.snd_nxt;
        let end = seq + self.mss;
        let is_plain = !self.is_quiet && self.is_plain && self.is_lean;
        if !is_plain || end + 1 >= self.first_message_end {
            return None;
        }
        self.snd_nxt = end;
        self.is_quiet = !self.has_next();
        self.note_sent(now, end);
        self.law.on_sent(now, self.mss);
        Some(seq)
    }

    /// The segment that recovery chooses.
    fn choose(&mut self, now: Instant, recovery: &mut Recovery) -> Option<(u64, u64)> {
        let mut seq = recovery.next_segment(self, now);
        // Pacing may have kept a retransmission back until its original was acknowledged.
        while seq.is_some_and(|seq| seq < self.snd_una) {
            seq = recovery.next_segment(self, now);
        }
        let is_plain = recovery.is_plain(self);
        self.set_plain(is_plain);
        let seq = seq?;
        if self.config.join_writes && self.config.pieces > 0 && seq < self.snd_max {
            let most = self.mss;
            let records = self.records_mut();
            records.join_short(records.index_of(seq), most);
        }
        Some((seq, self.end_of(seq)))
    }

    /// Does pacing keep the next segment back? Not where nothing is outstanding: there is nothing to
    /// keep it apart from.
    #[inline]
    fn is_held_back(&self, now: Instant) -> bool {
        let is_early = |pacer: &Pacer| now < pacer.next() && self.piece.left == 0;
        self.pacer.as_ref().is_some_and(is_early) && self.snd_una < self.snd_max
    }

    /// The segment from `seq` to `end` leaves now.
    #[inline(always)]
    fn on_sent(&mut self, now: Instant, seq: u64, end: u64) {
        self.note_sent(now, end);
        if !self.is_lean {
            self.record(now, seq, end);
        }
        self.law.on_sent(now, end - seq);
    }

    /// The same as far as counters and timers go.
    #[inline(always)]
    fn note_sent(&mut self, now: Instant, end: u64) {
        let nothing_outstanding = self.snd_una == self.snd_max;
        self.counters.segments_sent += 1;
        if end > self.snd_max {
            self.snd_max = end;
            if self.timed.is_none() {
                self.timed = Some((end, now));
            }
        } else {
            self.counters.retransmissions += 1;
        }
        if nothing_outstanding || !self.timers.is_running(Timer::Retransmission) {
            self.timers.set(Timer::Retransmission, now + self.rtt.rto());
        }
    }

    /// Records and pacing, for who has them.
    #[cold]
    fn record(&mut self, now: Instant, seq: u64, end: u64) {
        let lost = self.lost_bytes();
        if let Some(sent) = &mut self.sent {
            sent.on_losses(lost);
            sent.on_sent(now, seq, end);
            if self.is_record_closed && end == self.write_end {
                sent.end_record();
            }
            if self.piece.left > 0 && end == self.snd_max {
                self.piece.left -= 1;
                if self.piece.left == 0 {
                    sent.end_piece(self.piece.size > 1 || end == self.write_end);
                }
            }
            let outstanding = self.snd_max - self.snd_una;
            if self.snd_max == self.write_end && outstanding + self.mss <= self.law.window() {
                sent.on_app_limited();
            }
        }
        let srtt = self.rtt.srtt();
        if let Some(pacer) = &mut self.pacer
            && srtt > Duration::ZERO
        {
            // At least a segment in a round trip: a window below one must not stop the sender.
            let least = self.mss as f64 / srtt.as_secs_f64();
            let rate = self.law.pacing_rate(srtt).max(least);
            if self.config.pieces > 0 {
                self.piece.bytes += end - seq;
                if self.piece.left > 0 {
                    return;
                }
                let bytes = std::mem::take(&mut self.piece.bytes);
                pacer.on_piece_sent(now, bytes, rate, self.counters.segments_sent);
            } else {
                pacer.on_sent(now, end - seq, rate);
            }
            self.timers.set(Timer::Pacing, pacer.next());
        }
    }
}
