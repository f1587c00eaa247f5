//! The send buffer of a Linux host. It holds data that the application has written and the peer has
//! not acknowledged. An application that finds it full waits until one third of it is free
//! (`tcp_sendmsg`, `sk_stream_write_space`). A *piece* is a socket buffer (`sk_buff`), sent as one
//! GSO segment.
//!
//! ```text
//!   WRITING --memory in use >= size--> WAITING --size - use >= use / 2--> WRITING
//!
//!   use    bytes written and not acknowledged, and a descriptor per piece
//!   size   2 (BBR: 3) max(10, cwnd) full segments with their memory, at most 4 MB; it grows when
//!          the application waits, and the window is not used up or more than one piece was sent
//!          since the latest ACK
//! ```
//!
//! Without these rules ([`Config::send_buffer`] without autotuning), only bytes are counted, and the
//! application writes whole segments as soon as they fit.
//!
//! SACK splits pieces and merges neighbours, so that SACKed data takes one descriptor per range.
//!
//! *Not modelled*: limits of all connections together (`tcp_mem`); the maximum size of merged
//! pieces (512 KiB); the wake-up time of an application.

use super::config::Config;
use super::congestion_control::CongestionControlKind;
use lasthop_base::units::Bytes;
use std::collections::VecDeque;

/// Maximum size of the buffer (`net.ipv4.tcp_wmem`).
const LARGEST: u64 = 4_194_304;
/// Memory of a piece without its data.
const DESCRIPTION: u64 = 832;
/// Memory of a full segment without its data, before it is rounded up to a power of two.
const HEADERS: u64 = 512;
/// Memory of a full segment that is added after rounding.
const PACKET: u64 = 256;
/// Maximum length of a piece to which an application adds data.
const LARGEST_PIECE: u64 = 65_200;
const INITIAL_WINDOW: u64 = 10;
/// Minimum of a size that the application sets (`SOCK_MIN_SNDBUF`).
const SMALLEST: u64 = 4_608;

/// State of the connection that determines the fill level.
#[derive(Clone, Copy, Debug)]
pub(super) struct Fill {
    /// Bytes written and not acknowledged.
    pub written: u64,
    /// Bytes of these that have not been sent.
    pub unsent: u64,
    /// Number of pieces that have been sent and are not acknowledged, SACKed ones merged.
    pub pieces: u64,
    /// Number of segments for which the window has room.
    pub room: u64,
    /// Congestion window, segments.
    pub cwnd: u64,
    /// Receive window, bytes.
    pub peer_window: u64,
    /// Whether more than one piece was sent since the latest ACK. The later ones then still wait in
    /// a lower layer of the host for the first one to be sent (TCP small queues).
    pub is_bursty: bool,
}

/// Send buffer of one connection, and data that waits for room in it.
#[derive(Clone, Debug)]
pub(super) struct SendBuffer {
    segment: u64,
    /// Whether a piece can have more than one segment.
    offload: bool,
    /// Whether only bytes are counted.
    counts_bytes: bool,
    /// Size in congestion windows; 0 for a fixed size.
    windows: u64,
    /// Bytes of memory.
    size: u64,
    /// Bytes that wait for room.
    waiting: u64,
    /// Bytes in the last piece that was unsent when it was written.
    tail: u64,
    /// For a socket: maximum length of a piece, bytes.
    piece: Option<u64>,
    /// For a socket: ends of pieces that have not been sent completely.
    ends: VecDeque<u64>,
    /// Ends of single segments with PSH: the last one of each send call, and one per half receive
    /// window.
    pushes: VecDeque<u64>,
    /// The latest of these ends.
    pushed: u64,
    /// Maximum receive window so far.
    most_window: u64,
    /// Whether the application closes once all data is written.
    pub closes: bool,
    /// Limit of unsent bytes, at which it accepts no further piece.
    pub unsent_limit: u64,
}

/// Size of the buffer in congestion windows (Linux: `sndbuf_expand`).
fn windows(config: &Config) -> u64 {
    if matches!(config.congestion_control, CongestionControlKind::Bbr(_)) { 3 } else { 2 }
}

impl SendBuffer {
    /// Creates an empty buffer, unless it is unlimited. Linux doubles a size that the application
    /// sets (`SO_SNDBUF`).
    pub fn new(config: &Config) -> Option<Self> {
        let segment = config.segment.get();
        let offload = config.segmentation_offload;
        let size = config.send_buffer.map(Bytes::get);
        match (config.autotuning, size) {
            (true, None) => Some(SendBuffer::growing(config, segment, offload, 0)),
            (true, Some(size)) => Some(SendBuffer::empty(segment, offload, SMALLEST.max(2 * size))),
            (false, Some(size)) => {
                let buffer = SendBuffer::empty(segment, false, size);
                Some(SendBuffer { counts_bytes: true, ..buffer })
            }
            (false, None) => None,
        }
    }

    /// Clears the buffer for a new connection instance.
    pub fn clear(&mut self, config: &Config) {
        let SendBuffer { segment, offload, counts_bytes, windows, size, .. } = *self;
        *self = if windows > 0 {
            SendBuffer::growing(config, segment, offload, 0)
        } else {
            SendBuffer { counts_bytes, ..SendBuffer::empty(segment, offload, size) }
        };
    }

    /// Discards the data that waits for room, and data after the sequence number `end`.
    pub fn discard_unsent(&mut self, end: u64) {
        (self.waiting, self.tail, self.closes) = (0, 0, false);
        for ends in [&mut self.ends, &mut self.pushes] {
            while ends.back().is_some_and(|&last| last > end) {
                ends.pop_back();
            }
        }
        self.pushed = self.pushed.min(end);
    }

    /// Whether only bytes are counted.
    pub fn counts_bytes(&self) -> bool {
        self.counts_bytes
    }

    /// Creates the buffer of a socket with `size` bytes of memory, which is constant if `is_fixed`.
    pub fn of_socket(config: &Config, segment: u64, size: u64, is_fixed: bool) -> Self {
        if is_fixed {
            SendBuffer::empty(segment, true, size)
        } else {
            SendBuffer::growing(config, segment, true, size)
        }
    }

    /// A buffer of at least `size` bytes of memory, which grows. At first it has room for the
    /// initial window, as the kernel sets that before the size (`tcp_init_transfer`).
    fn growing(config: &Config, segment: u64, offload: bool, size: u64) -> Self {
        let empty = SendBuffer::empty(segment, offload, size);
        let mut buffer = SendBuffer { windows: windows(config), ..empty };
        buffer.expand(config.initial_window as u64);
        buffer
    }

    fn empty(segment: u64, offload: bool, size: u64) -> Self {
        SendBuffer {
            segment,
            offload,
            counts_bytes: false,
            windows: 0,
            size,
            waiting: 0,
            tail: 0,
            piece: None,
            ends: VecDeque::new(),
            pushes: VecDeque::new(),
            pushed: 0,
            most_window: 0,
            closes: false,
            unsent_limit: u64::MAX,
        }
    }

    /// Sets the size to `size` bytes of memory, independent of the window.
    pub fn resize(&mut self, size: u64) {
        (self.size, self.windows) = (size, 0);
    }

    /// Prepares for a send call: `segment` is the size of full segments, and `window` the maximum
    /// window of the peer.
    pub fn begin_write(&mut self, segment: u64, window: u64) {
        self.segment = segment;
        self.piece = Some(self.full_piece(window));
    }

    /// Bytes of a full piece: whole segments in at most half of the peer's `window`, or one segment
    /// without segmentation offload.
    fn full_piece(&self, window: u64) -> u64 {
        let largest = if self.offload { LARGEST_PIECE.min(window / 2) } else { 0 };
        (largest / self.segment).max(1) * self.segment
    }

    /// Returns how much of `bytes` is added to one piece, and whether that is the last one, which has
    /// `held` unsent bytes. A new piece needs room in the buffer. `full`: bytes of a full piece.
    fn next_piece(&self, bytes: u64, held: u64, full: u64, fill: &Fill) -> (u64, bool) {
        match if held > 0 { full.saturating_sub(held) } else { 0 } {
            0 if self.is_full(fill) => (0, false),
            0 => (bytes.min(full), false),
            left => (bytes.min(left), true),
        }
    }

    /// Adds data to one piece, for a socket that has sent all data up to `sent`: to the last unsent
    /// one, or to a new one if there is room. Returns the number of bytes taken from a send call of
    /// `bytes`, and whether they begin a new piece.
    pub fn write_piece(
        &mut self,
        bytes: u64,
        fill: &Fill,
        sent: u64,
        is_closed: bool,
    ) -> (u64, bool) {
        let goal = self.piece.unwrap_or(self.segment);
        let write_end = sent + fill.unsent;
        let held = if is_closed { 0 } else { self.last_piece(write_end, sent) };
        let (taken, joins) = self.next_piece(bytes, held, goal, fill);
        if taken == 0 {
            return (0, false);
        }
        if joins {
            self.ends.pop_back();
        }
        self.ends.push_back(write_end + taken);
        (taken, !joins)
    }

    /// Unsent bytes of the last piece.
    fn last_piece(&mut self, write_end: u64, sent: u64) -> u64 {
        while self.ends.front().is_some_and(|&end| end <= sent) {
            self.ends.pop_front();
        }
        if self.ends.back() != Some(&write_end) {
            return 0;
        }
        let before = self.ends.iter().rev().nth(1).copied();
        write_end - before.unwrap_or(sent).max(sent)
    }

    /// End of the first piece that has not been sent completely, for a socket that has sent all
    /// data up to `sent`.
    pub fn first_end(&self, sent: u64) -> Option<u64> {
        self.ends.iter().copied().find(|&end| end > sent)
    }

    /// Returns whether the last piece is full, and whether it is the only one that is unsent.
    /// `write_end`: end of the data written; `sent`: end of the data sent.
    pub fn look_at_last(&mut self, write_end: u64, sent: u64) -> (bool, bool) {
        let held = self.last_piece(write_end, sent);
        (self.piece.is_some_and(|goal| held >= goal), self.ends.len() == 1)
    }

    /// Returns `true` if data was written beyond half of the maximum window, `window`, since the
    /// last PSH (Linux: `forced_push`).
    pub fn is_push_due(&self, write_end: u64, window: u64) -> bool {
        write_end > self.pushed + window / 2
    }

    /// Records that PSH is set for all data up to `write_end`.
    pub fn note_push(&mut self, write_end: u64) {
        self.pushed = write_end;
    }

    /// Returns `true` if enough memory is free for a waiting application to continue.
    pub fn is_free(&self, fill: &Fill) -> bool {
        if self.counts_bytes {
            return !self.is_full(fill);
        }
        let memory = self.memory(fill);
        self.size.saturating_sub(memory) >= memory / 2
    }

    /// Memory in use.
    pub fn memory(&self, fill: &Fill) -> u64 {
        if self.counts_bytes {
            return fill.written;
        }
        let unsent = if let Some(piece) = self.piece {
            let pieces = self.ends.len() as u64;
            if fill.unsent == 0 { 0 } else { pieces.max(fill.unsent.div_ceil(piece)) }
        } else if self.offload {
            u64::from(fill.unsent > 0)
        } else {
            fill.unsent.div_ceil(self.segment)
        };
        fill.written + (fill.pieces + unsent) * DESCRIPTION
    }

    /// Records that the data `[start, end)` was written by one send call; `window`: the receive
    /// window.
    pub fn note_written(&mut self, start: u64, end: u64, window: u64) {
        if self.offload || self.counts_bytes {
            return;
        }
        self.most_window = self.most_window.max(window);
        let mut at = start;
        while at < end {
            at = end.min(at + self.segment);
            if at > self.pushed + self.most_window / 2 || at == end {
                self.pushes.push_back(at);
                self.pushed = at;
            }
        }
    }

    /// Returns `true` if the new segment that ends at `end` has PSH set.
    pub fn is_pushed(&mut self, end: u64) -> bool {
        while self.pushes.front().is_some_and(|&push| push < end) {
            self.pushes.pop_front();
        }
        self.pushes.front() == Some(&end)
    }

    fn expand(&mut self, cwnd: u64) {
        let packet = (self.segment + HEADERS).next_power_of_two() + PACKET;
        let size = self.windows * cwnd.max(INITIAL_WINDOW) * packet;
        self.size = self.size.max(size.min(LARGEST));
    }

    /// Bytes that wait for room.
    pub fn waiting(&self) -> u64 {
        self.waiting
    }

    /// Adds a send call of `bytes`, which waits for the connection to open unless only bytes are
    /// counted. Returns the number of waiting bytes that the buffer accepts now.
    pub fn write(&mut self, bytes: u64, fill: &Fill, is_open: bool) -> u64 {
        let is_blocked = self.waiting > 0 || !(is_open || self.counts_bytes);
        self.waiting += bytes;
        if is_blocked { 0 } else { self.take(fill) }
    }

    /// Adapts the size to the window while an application waits for room, after all permitted
    /// segments were sent (Linux: `tcp_new_space`).
    pub fn grow(&mut self, fill: &Fill) {
        if fill.room > 0 || fill.is_bursty {
            self.expand(fill.cwnd);
        }
    }

    /// Handles an ACK, after all permitted segments were sent. Returns the number of bytes that a
    /// waiting application writes.
    pub fn on_space(&mut self, fill: &Fill) -> u64 {
        if self.waiting == 0 {
            return 0;
        }
        self.grow(fill);
        if self.is_free(fill) { self.take(fill) } else { 0 }
    }

    /// Returns `true` if there is no room for another piece.
    fn is_full(&self, fill: &Fill) -> bool {
        if self.counts_bytes {
            return fill.written + self.segment > self.size;
        }
        self.memory(fill) >= self.size || fill.unsent >= self.unsent_limit
    }

    fn take(&mut self, fill: &Fill) -> u64 {
        let full = self.full_piece(fill.peer_window);
        let leaves_with = if self.offload { 2 * self.segment } else { self.segment };
        let mut fill = *fill;
        let mut taken = 0;
        self.tail = self.tail.min(fill.unsent);
        loop {
            // Written data is sent immediately as far as the window permits. The last piece then
            // has room again.
            let leaves = (fill.room * self.segment).min(fill.unsent);
            fill.room -= leaves.div_ceil(self.segment);
            fill.unsent -= leaves;
            fill.pieces += leaves.div_ceil(leaves_with);
            self.tail = self.tail.min(fill.unsent);
            let held = if self.counts_bytes { 0 } else { self.tail };
            let (more, joins) = self.next_piece(self.waiting, held, full, &fill);
            if more == 0 {
                return taken;
            }
            self.tail = if joins { self.tail + more } else { more };
            self.waiting -= more;
            taken += more;
            fill.written += more;
            fill.unsent += more;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::presets::{Overrides, Profile, Variant, config};

    fn buffer() -> SendBuffer {
        let set = Overrides { timestamps: Some(false), ..Overrides::default() };
        SendBuffer::new(&config(Variant::Reno, Profile::Linux, &set)).unwrap()
    }

    /// Data that Linux 6.18 wrote before the first ACK of a connection with a window of 10 segments
    /// and a receive window of 64,240 bytes: 32 segments, 22 in the first piece, 10 instead of
    /// those that were sent.
    #[test]
    fn the_first_write_of_a_kernel() {
        let mut buffer = buffer();
        assert_eq!(buffer.size, 46_080);
        let fill = Fill {
            written: 0,
            unsent: 0,
            pieces: 0,
            room: 10,
            cwnd: 10,
            peer_window: 64_240,
            is_bursty: false,
        };
        assert_eq!(buffer.write(1_000_000, &fill, true), 32 * 1460);
        assert_eq!(buffer.waiting(), 1_000_000 - 32 * 1460);
    }

    /// An application that sets 40,000 bytes gets twice as much memory, which does not grow.
    #[test]
    fn a_size_set_by_the_application() {
        let set = Overrides {
            timestamps: Some(false),
            send_buffer: Some(Some(Bytes::new(40_000))),
            ..Overrides::default()
        };
        let host = config(Variant::Reno, Profile::Linux, &set);
        let mut buffer = SendBuffer::new(&host).unwrap();
        assert_eq!(buffer.size, 80_000);
        buffer.waiting = 1_000_000;
        let fill = Fill {
            written: 0,
            unsent: 0,
            pieces: 0,
            room: 100,
            cwnd: 100,
            peer_window: 1_000_000,
            is_bursty: true,
        };
        buffer.on_space(&fill);
        buffer.clear(&host);
        assert_eq!((buffer.size, buffer.waiting), (80_000, 0));
    }

    /// Like the first test, with devices without segmentation offload: 21 segments, each with a
    /// descriptor. After an ACK that permits two segments, the buffer had room for eleven windows,
    /// and the application continued at the fourth ACK.
    #[test]
    fn single_segments_take_a_description_each() {
        let set = Overrides {
            segmentation_offload: Some(false),
            timestamps: Some(false),
            ..Overrides::default()
        };
        let mut buffer = SendBuffer::new(&config(Variant::Reno, Profile::Linux, &set)).unwrap();
        let fill = |written: u64, sent: u64, room: u64, cwnd: u64| Fill {
            written: written * 1460,
            unsent: (written - sent) * 1460,
            pieces: sent,
            room,
            cwnd,
            peer_window: 64_240,
            is_bursty: true,
        };
        assert_eq!(buffer.write(1_000_000, &fill(0, 0, 10, 10), true), 21 * 1460);
        for (acked, cwnd, size, taken) in
            [(1, 11, 50_688, 0), (2, 12, 55_296, 0), (3, 13, 59_904, 0), (4, 14, 64_512, 12)]
        {
            let fill = fill(21 - acked, cwnd, 0, cwnd);
            assert_eq!(buffer.on_space(&fill), taken * 1460, "{acked} acknowledged");
            assert_eq!(buffer.size, size);
        }
    }

    /// Single segments with PSH as sent by a kernel (`gso_max_segs 1`): the last of the first 21
    /// and of the next 12; then one per half of the maximum receive window within a long send call.
    #[test]
    fn the_last_segment_of_a_write_is_pushed() {
        let set = Overrides {
            segmentation_offload: Some(false),
            timestamps: Some(false),
            ..Overrides::default()
        };
        let mut buffer = SendBuffer::new(&config(Variant::Reno, Profile::Linux, &set)).unwrap();
        let end = |segment: u64| 1 + segment * 1460;
        buffer.note_written(1, end(21), 64_240);
        buffer.note_written(end(21), end(33), 64_240);
        buffer.note_written(end(33), end(90), 70_000);
        let pushed: Vec<u64> = (1..=90).filter(|&segment| buffer.is_pushed(end(segment))).collect();
        // 35,000 bytes beyond segment 33 is segment 57, the 24th.
        assert_eq!(pushed, [21, 33, 57, 81, 90]);
    }

    /// One third must be free before the application continues. The size follows the window only if
    /// that is not used up.
    #[test]
    fn an_application_that_waits_goes_on_when_a_third_is_free() {
        let fill = |written: u64, room: u64| Fill {
            written,
            unsent: 0,
            pieces: written / 2920,
            room,
            cwnd: 20,
            peer_window: 1_000_000,
            is_bursty: false,
        };
        for (written, room, goes_on, size) in [
            (29_200, 0, false, 46_080),
            (23_360, 0, true, 46_080),
            (46_720, 1, true, 92_160),
            (64_240, 1, false, 92_160),
        ] {
            let mut buffer = buffer();
            buffer.waiting = 1_000_000;
            assert_eq!(buffer.on_space(&fill(written, room)) > 0, goes_on, "{written} {room}");
            assert_eq!(buffer.size, size);
        }
    }
}
