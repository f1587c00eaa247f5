//! Data written by the application: messages, merged and short segments, the FIN.

use super::Flight;
use super::kept::Kept;
use crate::config::{Config, Profile};
use crate::congestion_control::CongestionControl;
use crate::send_buffer::Fill;
use std::collections::VecDeque;

/// Data written by the application, and its segmentation.
#[derive(Clone, Debug)]
pub(crate) struct Stream {
    /// Sequence number of the FIN, once the application has closed.
    pub fin_at: u64,
    /// Sequence number of a FIN that is sent with the last data.
    joined_fin: u64,
    /// End of the latest segment that was shorter than a full one (Nagle).
    short_end: u64,
    /// Whether the next short segment is sent instead of a window probe, so that later ones do not
    /// wait for it (Linux).
    pub is_short_excused: bool,
    /// Whether Nagle's algorithm holds short segments back.
    pub has_nagle: bool,
    /// Whether the application holds short segments back.
    pub is_corked: bool,
    /// Whether short segments are sent without waiting for an ACK that permits more data.
    pub sends_short_segment: bool,
    /// Whether later send calls are not merged with the last one.
    pub is_record_closed: bool,
    /// Ends of records that are not acknowledged.
    pub(super) record_ends: VecDeque<u64>,
    /// Start of a short segment that is held back.
    pub(super) held_from: u64,
    /// Ends of send calls not yet acknowledged; segments do not cross them.
    pub(super) message_ends: VecDeque<u64>,
    /// The first of these ends, or 0.
    pub(super) first_message_end: u64,
    /// Start and end of a larger segment by which a socket probes the path MTU.
    pub mtu_probe: Option<(u64, u64)>,
}

impl Stream {
    pub(super) fn new(config: &Config) -> Self {
        Stream {
            fin_at: u64::MAX,
            joined_fin: u64::MAX,
            short_end: 0,
            is_short_excused: false,
            has_nagle: config.nagle,
            is_corked: false,
            sends_short_segment: false,
            is_record_closed: false,
            record_ends: VecDeque::new(),
            held_from: u64::MAX,
            message_ends: VecDeque::new(),
            first_message_end: 0,
            mtu_probe: None,
        }
    }

    /// Resets the state for a new connection instance, without allocation.
    pub(super) fn clear(&mut self, config: &Config) {
        let mut before = std::mem::replace(self, Stream::new(config));
        before.record_ends.clear();
        before.message_ends.clear();
        (self.record_ends, self.message_ends) = (before.record_ends, before.message_ends);
    }
}

impl Flight {
    /// End of the segment that starts at `seq`: a full segment or the end of a send call.
    #[inline]
    pub(crate) fn segment_end(&self, seq: u64) -> u64 {
        let end = seq + self.mss;
        // A FIN may be the last sequence number of a send call.
        if end + 1 < self.stream.first_message_end { end } else { self.segment_end_beyond(seq) }
    }

    /// Like [`Self::segment_end`], at the end of the first send call and beyond.
    #[cold]
    pub(super) fn segment_end_beyond(&self, seq: u64) -> u64 {
        let message_end = if seq < self.stream.first_message_end {
            self.stream.first_message_end
        } else {
            let beyond = self.stream.message_ends.iter().find(|&&end| seq < end);
            beyond.copied().unwrap_or(self.write_end)
        };
        let end = message_end.min(seq + self.mss);
        // A FIN requires no room in the segment.
        if end == self.stream.joined_fin { end + 1 } else { end }
    }

    /// Applies the limits for merged send calls: a FIN sent with data may exceed the congestion
    /// window, and a short segment may have to wait.
    #[cold]
    pub(super) fn limit_joined(&mut self, window: u64) {
        self.stream.held_from = u64::MAX;
        if self.snd_una == 0 {
            return;
        }
        if self.stream.fin_at != u64::MAX {
            self.gate.allowed = self.edge_of(window);
            return;
        }
        let waits =
            self.stream.is_corked || self.stream.has_nagle && self.stream.short_end > self.snd_una;
        if waits && self.write_end > self.snd_max {
            // Only the last record may be short because of data that is not written yet.
            let records = self.stream.message_ends.iter().rev();
            let start = records.copied().nth(1).unwrap_or(0).max(self.snd_max);
            let short = (self.write_end - start) % self.mss;
            if short > 0 {
                self.stream.held_from = self.write_end - short;
                self.gate.allowed = self.gate.allowed.min(self.stream.held_from);
            }
        }
    }

    /// One past the last byte that `window` and the peer's window permit. A FIN sent with data
    /// requires no room in `window`.
    pub(super) fn edge_of(&self, window: u64) -> u64 {
        let has_free_fin = self.parts.joins_writes && self.stream.fin_at != u64::MAX;
        self.snd_una + (window + u64::from(has_free_fin)).min(self.peer.window)
    }

    /// Returns `true` if no send call ends within the next `bytes` new bytes.
    pub(crate) fn is_undivided(&self, bytes: u64) -> bool {
        let inside = self.snd_max + 1..self.snd_max + bytes;
        !self.stream.message_ends.iter().any(|end| inside.contains(end))
    }

    /// Records the transmission of a segment that ends at `end` and is shorter than a full one.
    #[inline]
    pub(crate) fn note_short(&mut self, end: u64) {
        if !std::mem::take(&mut self.stream.is_short_excused) {
            self.stream.short_end = self.stream.short_end.max(end);
        }
    }

    /// End of the segment that starts at `seq`: the end at its first transmission, if recorded.
    pub(super) fn end_of(&self, seq: u64) -> u64 {
        let end = if seq < self.snd_max { self.kept.end_of(seq) } else { None };
        end.unwrap_or_else(|| self.segment_end(seq))
    }

    /// Returns `true` if the application waits for room in the send buffer.
    #[inline]
    pub(crate) fn has_waiting(&self) -> bool {
        self.buffer.as_ref().is_some_and(|buffer| buffer.waiting() > 0)
    }

    /// Returns `true` if the application waits for room in a buffer that counts bytes only, so that
    /// each ACK may make room.
    #[inline]
    pub(crate) fn has_waiting_bytes(&self) -> bool {
        self.buffer.as_ref().is_some_and(|buffer| buffer.counts_bytes() && buffer.waiting() > 0)
    }

    /// Fill level of the send buffer, with `in_flight` segments in flight.
    pub(crate) fn fill(&self, in_flight: u32) -> Fill {
        let cwnd = self.congestion_control.cwnd() as u64;
        let windows = cwnd.saturating_sub(in_flight.into());
        Fill {
            written: self.write_end - self.snd_una,
            unsent: self.write_end - self.snd_max,
            pieces: match &self.kept {
                Kept::Records(records) => records.buffers().into(),
                _ => 0,
            },
            room: windows,
            cwnd,
            peer_window: self.peer.window,
            is_bursty: self.output.piece.since_ack > 1,
        }
    }

    /// Returns `true` if [`Self::note_call`] handles send calls: at a Linux host.
    #[inline]
    pub(crate) fn examines_calls(&self) -> bool {
        self.config.profile == Profile::Linux
    }

    /// Handles a send call, before its data is added to the send buffer: records whether the
    /// application limits transmission. It does if all data is sent, also again if it was lost, and
    /// the window has room (Linux: `tcp_rate_check_app_limited`).
    pub(crate) fn note_call(&mut self, fill: &Fill) {
        if fill.unsent < self.mss && fill.room > 0 && self.is_all_resent() {
            self.on_app_limited();
        }
    }

    /// Lets an application that waits for room write, after all permitted segments were sent, with
    /// `in_flight` segments in flight. Returns `true` if it has written.
    #[cold]
    pub(crate) fn write_waiting(&mut self, in_flight: u32) -> bool {
        let fill = self.fill(in_flight);
        let bytes = self.buffer.as_mut().map_or(0, |buffer| buffer.on_space(&fill));
        if bytes > 0 && self.examines_calls() {
            self.note_call(&fill);
        }
        self.take_written(bytes, false);
        self.look_at_limit();
        bytes > 0
    }

    /// Adds `bytes` that the buffer has accepted, which may be only a part of a send call.
    /// `is_message`: whether they begin a message that is not merged with earlier data.
    fn take_written(&mut self, bytes: u64, is_message: bool) {
        let start = self.write_end;
        match self.stream.message_ends.back_mut() {
            // Data is not merged with a SYN.
            Some(end) if bytes > 0 && *end > 1 && !is_message => {
                *end += bytes;
                self.write_end += bytes;
                self.stream.first_message_end = self.stream.message_ends[0];
            }
            _ if bytes > 0 => self.extend(bytes),
            _ => {}
        }
        if let Some(buffer) = &mut self.buffer {
            buffer.note_written(start, self.write_end, self.peer.window);
        }
        let closes = self
            .buffer
            .as_mut()
            .is_some_and(|buffer| buffer.waiting() == 0 && std::mem::take(&mut buffer.closes));
        if closes {
            self.extend_by_fin();
        }
    }

    /// Cuts the rest of a piece that does not fit into the receive window: the part that fits is
    /// sent with it, unless a short segment has to wait (`tcp_mss_split_point`). Returns `true` if
    /// there is such a part.
    pub(crate) fn cut_piece_to_window(&mut self) -> bool {
        let edge = self.snd_una + self.peer.window;
        let waits =
            self.stream.is_corked || self.stream.has_nagle && self.stream.short_end > self.snd_una;
        let cuts = self.output.piece.left > 0
            && !waits
            && self.snd_nxt == self.snd_max
            && self.snd_nxt < edge.min(self.write_end);
        if cuts {
            self.cut_to_window();
        }
        cuts
    }

    /// Handles the end of a send call, which may end a record.
    pub(crate) fn end_write(&mut self, closes_record: bool) {
        self.stream.is_record_closed = closes_record;
        if closes_record {
            while self.stream.record_ends.front().is_some_and(|&end| end <= self.snd_una) {
                self.stream.record_ends.pop_front();
            }
            self.stream.record_ends.push_back(self.write_end);
        }
    }

    /// Permits data that is held back to be sent, cut to the receive window. Returns `true` if such
    /// data exists.
    pub(crate) fn overrule_holds(&mut self) -> bool {
        let edge = self.snd_una + self.peer.window;
        if self.snd_nxt >= self.write_end || edge <= self.snd_nxt {
            return false;
        }
        if !self.fits_window() {
            self.cut_to_window();
        }
        true
    }

    /// Ends a segment at the end of the receive window, if data was written beyond it.
    pub(crate) fn cut_to_window(&mut self) {
        let end = self.snd_una + self.peer.window;
        if end >= self.write_end {
            return;
        }
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

    /// Adds `length` sequence numbers of the application or the handshake to the data to send.
    pub(crate) fn extend(&mut self, length: u64) {
        self.write_end += length;
        self.stream.message_ends.push_back(self.write_end);
        self.stream.first_message_end = self.stream.message_ends.front().copied().unwrap_or(0);
    }

    /// Handles a send call of `length` bytes.
    pub(crate) fn extend_by_write(&mut self, length: u64) {
        if self.is_idle() && self.congestion_control.window() < self.mss {
            // No timer is running that would open the window.
            self.congestion_control.set_cwnd(1.0);
        }
        if self.buffer.is_some() {
            let in_flight = match &self.kept {
                Kept::Records(records) => records.len(),
                _ => self.outstanding_segments() as u32,
            };
            let fill = self.fill(in_flight);
            let is_open = self.snd_una > 0;
            let is_message = !self.parts.joins_writes && !self.has_waiting();
            let bytes =
                self.buffer.as_mut().map_or(0, |buffer| buffer.write(length, &fill, is_open));
            self.take_written(bytes, is_message);
        } else if self.parts.joins_writes {
            self.extend_joined(length);
        } else {
            self.extend(length);
        }
        if self.snd_una < self.snd_max {
            // Otherwise, the transmission of the data ends the idle period.
            self.look_at_limit();
        }
    }

    /// Discards the data that was never sent, with a FIN that follows it, but not an unsent SYN.
    pub(crate) fn discard_unsent(&mut self) {
        let end = self.snd_max.max(self.write_end.min(1));
        self.write_end = end;
        let stream = &mut self.stream;
        for number in [&mut stream.fin_at, &mut stream.joined_fin] {
            if *number > end {
                *number = u64::MAX;
            }
        }
        for ends in [&mut stream.message_ends, &mut stream.record_ends] {
            while ends.back().is_some_and(|&last| last > end) {
                ends.pop_back();
            }
        }
        if self.snd_una < end && stream.message_ends.back() != Some(&end) {
            stream.message_ends.push_back(end);
        }
        stream.first_message_end = stream.message_ends.front().copied().unwrap_or(0);
        (stream.held_from, stream.mtu_probe) = (u64::MAX, None);
        if let Some(buffer) = &mut self.buffer {
            buffer.discard_unsent(end);
        }
        self.look_at_limit();
    }

    /// Like [`Self::extend`], merged with data that was written before and has not been sent.
    /// Returns `true` if such data exists.
    #[cold]
    fn extend_joined(&mut self, length: u64) -> bool {
        let is_open = self.write_end > self.snd_max && !self.stream.is_record_closed;
        self.stream.is_record_closed = false;
        // Data is not merged with a SYN.
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

    /// Handles a close call of the application.
    pub(crate) fn extend_by_fin(&mut self) {
        if let Some(buffer) = self.buffer.as_mut().filter(|buffer| buffer.waiting() > 0) {
            buffer.closes = true;
            return;
        }
        self.stream.fin_at = self.write_end;
        // The FIN is also merged with a record.
        self.stream.is_record_closed = false;
        if !self.parts.joins_writes {
            self.extend(1);
        } else if self.extend_joined(1) {
            self.stream.joined_fin = self.stream.fin_at;
        }
    }
}
