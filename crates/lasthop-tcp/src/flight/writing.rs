//! What the application writes: messages, joined and short segments, the FIN.

use super::Flight;
use crate::config::{Config, WritePolicy};
use crate::congestion_control::CongestionControl;
use crate::send_buffer::Fill;
use std::collections::VecDeque;

/// Data written by the application, and its segmentation.
#[derive(Clone, Debug)]
pub(crate) struct Stream {
    /// Where the FIN stands, once the application has closed.
    pub fin_at: u64,
    /// The same if it rides on the last data.
    joined_fin: u64,
    /// End of the latest segment that was shorter than a full one (Nagle).
    short_end: u64,
    /// The next short segment leaves in place of a probe, and later ones do not wait for it (Linux).
    pub is_short_excused: bool,
    /// Whether Nagle's algorithm holds short segments back.
    pub has_nagle: bool,
    /// The application holds short segments back.
    pub is_corked: bool,
    /// Nothing waits for an ACK that lets out more at a time.
    pub sends_short_segment: bool,
    /// No later write joins the last one.
    pub is_record_closed: bool,
    /// Where such records end that are not acknowledged.
    pub(super) record_ends: VecDeque<u64>,
    /// Where a short segment begins that has to wait.
    pub(super) held_from: u64,
    /// Ends of application writes not yet acknowledged; segments do not cross them.
    pub(super) message_ends: VecDeque<u64>,
    /// The first of them, or 0.
    pub(super) first_message_end: u64,
}

impl Stream {
    pub(super) fn new(config: &Config) -> Self {
        Stream {
            fin_at: u64::MAX,
            joined_fin: u64::MAX,
            short_end: 0,
            is_short_excused: false,
            has_nagle: config.writes == WritePolicy::Stream { nagle: true },
            is_corked: false,
            sends_short_segment: false,
            is_record_closed: false,
            record_ends: VecDeque::new(),
            held_from: u64::MAX,
            message_ends: VecDeque::new(),
            first_message_end: 0,
        }
    }

    /// A new incarnation, without allocation.
    pub(super) fn clear(&mut self, config: &Config) {
        let mut before = std::mem::replace(self, Stream::new(config));
        before.record_ends.clear();
        before.message_ends.clear();
        (self.record_ends, self.message_ends) = (before.record_ends, before.message_ends);
    }
}

impl Flight {
    /// End of the segment that starts at `seq`: a full segment or the end of a write.
    #[inline]
    pub(crate) fn segment_end(&self, seq: u64) -> u64 {
        let end = seq + self.mss;
        // A FIN may be the last number of a write.
        if end + 1 < self.stream.first_message_end { end } else { self.segment_end_beyond(seq) }
    }

    /// The same at the end of the first write and beyond.
    #[cold]
    pub(super) fn segment_end_beyond(&self, seq: u64) -> u64 {
        let message_end = if seq < self.stream.first_message_end {
            self.stream.first_message_end
        } else {
            let beyond = self.stream.message_ends.iter().find(|&&end| seq < end);
            beyond.copied().unwrap_or(self.write_end)
        };
        let end = message_end.min(seq + self.mss);
        // A FIN takes no room in the segment.
        if end == self.stream.joined_fin { end + 1 } else { end }
    }

    /// Where writes join: a FIN rides on data beyond the congestion window, and a short segment may
    /// have to wait.
    #[cold]
    pub(super) fn limit_joined(&mut self, window: u64) {
        self.stream.held_from = u64::MAX;
        if self.snd_una == 0 {
            return;
        }
        if self.stream.fin_at != u64::MAX {
            self.allowed = self.edge_of(window);
            return;
        }
        let waits =
            self.stream.is_corked || self.stream.has_nagle && self.stream.short_end > self.snd_una;
        if waits && self.write_end > self.snd_max {
            // Only the last record may be cut short by what is not written yet.
            let records = self.stream.message_ends.iter().rev();
            let start = records.copied().nth(1).unwrap_or(0).max(self.snd_max);
            let short = (self.write_end - start) % self.mss;
            if short > 0 {
                self.stream.held_from = self.write_end - short;
                self.allowed = self.allowed.min(self.stream.held_from);
            }
        }
    }

    /// One past the last byte that `window` and the peer's window allow. A FIN that joins data takes no room in `window`.
    pub(super) fn edge_of(&self, window: u64) -> u64 {
        let has_free_fin = self.parts.joins_writes && self.stream.fin_at != u64::MAX;
        self.snd_una + (window + u64::from(has_free_fin)).min(self.peer_window)
    }

    /// Does no write end within the next `bytes` new ones?
    pub(crate) fn is_undivided(&self, bytes: u64) -> bool {
        let inside = self.snd_max + 1..self.snd_max + bytes;
        !self.stream.message_ends.iter().any(|end| inside.contains(end))
    }

    /// A segment that ends at `end` leaves that is shorter than a full one.
    #[inline]
    pub(crate) fn note_short(&mut self, end: u64) {
        if !std::mem::take(&mut self.stream.is_short_excused) {
            self.stream.short_end = self.stream.short_end.max(end);
        }
    }

    /// End of the segment that starts at `seq`: that of its first transmission if that is kept.
    pub(super) fn end_of(&self, seq: u64) -> u64 {
        let end = if seq < self.snd_max { self.kept.end_of(seq) } else { None };
        end.unwrap_or_else(|| self.segment_end(seq))
    }

    /// Does the application wait for room in the send buffer?
    #[inline]
    pub(crate) fn has_waiting(&self) -> bool {
        self.buffer.as_ref().is_some_and(|buffer| buffer.waiting() > 0)
    }

    /// How full the send buffer is, with `in_flight` segments on their way.
    pub(crate) fn fill(&self, in_flight: u32) -> Fill {
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
    pub(crate) fn write_waiting(&mut self, in_flight: u32) -> bool {
        let fill = self.fill(in_flight);
        let bytes = self.buffer.as_mut().map_or(0, |buffer| buffer.on_space(&fill));
        self.take_written(bytes);
        bytes > 0
    }

    /// The buffer takes `bytes` of a write, which they end or not.
    fn take_written(&mut self, bytes: u64) {
        let start = self.write_end;
        match self.stream.message_ends.back_mut() {
            // Nothing joins a SYN.
            Some(end) if bytes > 0 && *end > 1 => {
                *end += bytes;
                self.write_end += bytes;
                self.stream.first_message_end = self.stream.message_ends[0];
            }
            _ if bytes > 0 => self.extend(bytes),
            _ => {}
        }
        if let Some(buffer) = &mut self.buffer {
            buffer.note_written(start, self.write_end, self.peer_window);
        }
        let closes = self
            .buffer
            .as_mut()
            .is_some_and(|buffer| buffer.waiting() == 0 && std::mem::take(&mut buffer.closes));
        if closes {
            self.extend_by_fin();
        }
    }

    /// The rest of a piece does not fit into the receiver's window: as much of it as fits leaves with it, unless a short
    /// segment has to wait (`tcp_mss_split_point`). Says whether anything does.
    pub(crate) fn cut_piece_to_window(&mut self) -> bool {
        let edge = self.snd_una + self.peer_window;
        let waits =
            self.stream.is_corked || self.stream.has_nagle && self.stream.short_end > self.snd_una;
        let cuts = self.piece.left > 0
            && !waits
            && self.snd_nxt == self.snd_max
            && self.snd_nxt < edge.min(self.write_end);
        if cuts {
            self.cut_to_window();
        }
        cuts
    }

    /// A write is over, by which a record may be closed.
    pub(crate) fn end_write(&mut self, closes_record: bool) {
        self.stream.is_record_closed = closes_record;
        if closes_record {
            while self.stream.record_ends.front().is_some_and(|&end| end <= self.snd_una) {
                self.stream.record_ends.pop_front();
            }
            self.stream.record_ends.push_back(self.write_end);
        }
    }

    /// What is held back may go out, cut to the receiver's window. Says whether there is anything.
    pub(crate) fn overrule_holds(&mut self) -> bool {
        let edge = self.snd_una + self.peer_window;
        if self.snd_nxt >= self.write_end || edge <= self.snd_nxt {
            return false;
        }
        if !self.fits_window() {
            self.cut_to_window();
        }
        true
    }

    /// What is left of the receiver's window below a full segment becomes a segment by itself.
    pub(crate) fn cut_to_window(&mut self) {
        let end = self.snd_una + self.peer_window;
        if end == self.stream.joined_fin {
            // The FIN itself does not fit.
            self.stream.joined_fin = u64::MAX;
        }
        let place = self.stream.message_ends.partition_point(|&message| message < end);
        if self.stream.message_ends.get(place) != Some(&end) {
            self.stream.message_ends.insert(place, end);
            self.stream.first_message_end = self.stream.message_ends[0];
        }
    }

    #[cold]
    pub(super) fn forget_messages(&mut self, ack: u64) {
        while self.stream.message_ends.front().is_some_and(|&end| end <= ack) {
            self.stream.message_ends.pop_front();
        }
        self.stream.first_message_end = self.stream.message_ends.front().copied().unwrap_or(0);
    }

    /// The application (or the handshake) wants `length` more of the sequence space sent.
    pub(crate) fn extend(&mut self, length: u64) {
        self.write_end += length;
        self.stream.message_ends.push_back(self.write_end);
        self.stream.first_message_end = self.stream.message_ends.front().copied().unwrap_or(0);
    }

    /// The application writes `length` more.
    pub(crate) fn extend_by_write(&mut self, length: u64) {
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
        } else if self.parts.joins_writes {
            self.extend_joined(length);
        } else {
            self.extend(length);
        }
    }

    /// The same, together with what has been written before and not been sent. Says whether there was any.
    #[cold]
    fn extend_joined(&mut self, length: u64) -> bool {
        let is_open = self.write_end > self.snd_max && !self.stream.is_record_closed;
        self.stream.is_record_closed = false;
        // Nothing joins a SYN.
        let last = self.stream.message_ends.back_mut().filter(|end| is_open && **end > 1);
        let is_joined = last.is_some();
        if let Some(end) = last {
            self.write_end += length;
            *end = self.write_end;
            self.stream.first_message_end = self.stream.message_ends[0];
        } else {
            self.extend(length);
        }
        is_joined
    }

    /// The application has nothing more to send.
    pub(crate) fn extend_by_fin(&mut self) {
        if let Some(buffer) = self.buffer.as_mut().filter(|buffer| buffer.waiting() > 0) {
            buffer.closes = true;
            return;
        }
        self.stream.fin_at = self.write_end;
        // It joins a record too.
        self.stream.is_record_closed = false;
        if !self.parts.joins_writes {
            self.extend(1);
        } else if self.extend_joined(1) {
            self.stream.joined_fin = self.stream.fin_at;
        }
    }
}
