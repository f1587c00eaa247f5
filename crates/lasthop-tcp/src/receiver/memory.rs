//! Memory of the receive buffer of a Linux host, which determines its receive window
//! (`tcp_input.c`, `__tcp_select_window`).
//!
//! ```text
//!   size    bytes of memory (SO_RCVBUF doubled, or the second value of net.ipv4.tcp_rmem)
//!   used    memory of the segments that have arrived and are not read, with their descriptors
//!   ratio   256ths of memory that are used for data: 128, then the ratio of the first segment of a
//!           new size
//!   clamp   maximum window, bytes: ratio of size less a segment, or TCP_WINDOW_CLAMP
//!   limit   current maximum, bytes; it grows with the data that arrives, if segments take no more
//!           memory than is used for data
//!
//!   window = ratio of (size - used), at most limit; 0 if less than a segment, or 1/16 of all
//! ```
//!
//! The size grows with the bytes read per RTT (`tcp_rcv_space_adjust`), up to the third value of
//! `net.ipv4.tcp_rmem`. Let n be the bytes read and m the previous maximum. The new window is the
//! sum of 2 n, 4 n (n - m) / m, and the bytes waiting above holes. Unread bytes are subtracted from
//! n. A read call repeats this adjustment after each segment that it reads.
//!
//! *Not modelled*: data that is dropped or repacked for lack of memory; a host under memory
//! pressure.

use lasthop_base::units::{Duration, Instant};
use std::collections::VecDeque;

/// 256ths of memory used for data, before the first segment.
const FIRST_RATIO: u64 = 128;
/// Size of the peer's full segments before the first one, bytes (`TCP_MSS_DEFAULT`).
const FIRST_SEGMENT: u64 = 536;
/// Segments that are assumed to have been read in the RTT before the first.
const INITIAL_ROUND: u64 = 10;
/// Minimum bytes of data in an in-order segment that opens the window.
const LEAST_GROWTH: u64 = 128;
/// Bytes of the descriptor of a segment.
const DESCRIPTION: u64 = 256;
/// Bytes reserved after the data of a segment.
const TRAILER: u64 = 320;
/// Bytes before the headers.
const HEADROOM: u64 = 64;
/// Bytes of the IP and TCP headers.
const HEADERS: u64 = 40;
/// Sizes of the allocation that holds headers and data; larger segments use additional pages.
const UNITS: [u64; 5] = [576, 1024, 2048, 4096, 8192];
const PAGE: u64 = 4096;

/// Memory of a host with default settings (`net.ipv4.tcp_rmem`).
const DEFAULT_MEMORY: ReceiveMemory =
    ReceiveMemory { size: 131_072, most: 33_554_432, clamp: None, grows: true };
/// Window scale that follows from the maximum of this memory.
const DEFAULT_SHIFT: u8 = 10;

/// Settings of a receive buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReceiveMemory {
    /// Bytes of memory.
    pub size: u64,
    /// Maximum bytes of memory (the third value of `net.ipv4.tcp_rmem`).
    pub most: u64,
    /// Maximum window, bytes (`TCP_WINDOW_CLAMP`).
    pub clamp: Option<u64>,
    /// Whether the memory grows with the data read (`net.ipv4.tcp_moderate_rcvbuf`, unless
    /// `SO_RCVBUF` was set).
    pub grows: bool,
}

/// State of the receiver at a read call, which may increase the memory.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reading {
    pub now: Instant,
    /// RTT estimate of the receiver.
    pub rtt: Option<Duration>,
    pub rcv_nxt: u64,
    /// Bytes from `rcv_nxt` to the highest byte received.
    pub above: u64,
}

/// Returns the memory of a segment with `payload` bytes of data and `options` bytes of options, and
/// the free bytes after its data.
fn cost(payload: u64, options: u64) -> (u64, u64) {
    let length = HEADROOM + HEADERS + options + payload;
    let fits = |unit: &&u64| length.next_multiple_of(64) + TRAILER <= **unit;
    match UNITS.iter().find(fits) {
        Some(unit) => (unit + DESCRIPTION, unit - TRAILER - length),
        None => {
            let first = UNITS[UNITS.len() - 1];
            let paged = length.saturating_sub(first - TRAILER).next_multiple_of(PAGE);
            (first + paged + DESCRIPTION, 0)
        }
    }
}

/// Memory of a receive buffer, described at the top of this file.
#[derive(Clone, Debug)]
pub(crate) struct Memory {
    size: u64,
    most: u64,
    used: u64,
    ratio: u64,
    clamp: u64,
    limit: u64,
    /// Bytes of the peer's full segments (Linux: `rcv_mss`).
    full: u64,
    /// Bytes of our full segments.
    ours: u64,
    shift: u8,
    /// End and memory of each unread segment, in order.
    segments: VecDeque<(u64, u64)>,
    /// End of the newest segment in order, and the free bytes after its data.
    tail: (u64, u64),
    grows: bool,
    /// Maximum number of bytes read in an RTT (Linux: `rcvq_space`).
    most_read: u64,
    /// End of the data read at the start of the current RTT.
    read: u64,
    /// Start of the current RTT.
    since: Instant,
}

impl Memory {
    /// Returns the memory of a host with default settings that receives segments of `segment`
    /// bytes, and its first window.
    pub fn of_host(segment: u64) -> (Self, u64) {
        let mut memory = Memory::new(DEFAULT_MEMORY);
        let window = memory.open(segment, segment, DEFAULT_SHIFT);
        (memory, window)
    }

    /// Creates memory with the settings of the application.
    pub fn new(asked: ReceiveMemory) -> Self {
        Memory {
            size: asked.size,
            most: asked.most,
            used: 0,
            ratio: FIRST_RATIO,
            clamp: asked.clamp.unwrap_or(u64::MAX),
            limit: 0,
            full: FIRST_SEGMENT,
            ours: FIRST_SEGMENT,
            shift: 0,
            segments: VecDeque::new(),
            tail: (0, 0),
            grows: asked.grows,
            most_read: 0,
            read: 1,
            since: Instant::ZERO,
        }
    }

    /// Sets the size of the memory and stops its growth.
    pub fn resize(&mut self, size: u64) {
        self.size = size;
        self.grows = false;
    }

    /// Bytes of memory.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// Maximum number of bytes read in an RTT.
    pub fn most_read(&self) -> u64 {
        self.most_read
    }

    /// Opens the connection with segments of `segment` bytes and a window scale of `shift`. The
    /// first window is a multiple of `first` bytes. Returns the window that counts as advertised.
    pub fn open(&mut self, segment: u64, first: u64, shift: u8) -> u64 {
        let whole = self.data(self.size);
        let space = whole.min(self.clamp);
        let window = if space > first { space / first * first } else { space };
        (self.ours, self.shift) = (segment, shift);
        self.clamp = self.clamp.min(u64::from(u16::MAX) << shift).min(whole);
        if self.clamp > 2 * segment && self.clamp + segment > whole {
            self.clamp = (2 * segment).max(whole - segment);
        }
        self.limit = window.min(self.clamp);
        self.most_read = self.limit.min(window).min(INITIAL_ROUND * segment);
        window
    }

    /// Starts the first RTT at `now`, when the connection opens.
    pub fn begin(&mut self, now: Instant) {
        self.since = now;
    }

    /// Bytes of data for which `memory` bytes of memory are used.
    fn data(&self, memory: u64) -> u64 {
        memory * self.ratio / 256
    }

    fn free(&self) -> u64 {
        self.data(self.size.saturating_sub(self.used))
    }

    fn full_space(&self) -> u64 {
        self.clamp.min(self.data(self.size))
    }

    /// Returns `true` if a segment fits into the unused part of the pages allocated to the socket.
    /// Sending takes `charged` bytes of these pages (Linux: `sk_forward_alloc`). Otherwise Linux
    /// checks the full memory of the segment.
    pub fn has_reserve(&self, payload: u64, options: u64, charged: u64) -> bool {
        let rest = (charged + self.used) % PAGE;
        cost(payload, options).0 <= if rest > 0 { PAGE - rest } else { 0 }
    }

    /// Returns `true` if less than half of the window is free, so that all ACKs are delayed.
    pub fn is_tight(&self) -> bool {
        self.free() < self.full_space() / 2
    }

    /// Unit of the advertised window, bytes.
    pub fn unit(&self) -> u64 {
        1 << self.shift
    }

    /// Maximum window, bytes.
    pub fn clamp(&self) -> u64 {
        self.clamp
    }

    /// Current maximum of the window, bytes.
    pub fn limit(&self) -> u64 {
        self.limit
    }

    /// Bytes of the peer's full segments.
    pub fn full(&self) -> u64 {
        self.full
    }

    /// Returns the window to advertise after one of `latest` bytes (`__tcp_select_window`).
    pub fn select(&self, latest: u64) -> u64 {
        let mut free = self.free();
        let full_space = self.full_space();
        let segment = self.full.min(full_space);
        if segment == 0 {
            return 0;
        }
        if free < full_space / 2 {
            free = free >> self.shift << self.shift;
            if free < self.data(self.size) / 16 || free < segment {
                return 0;
            }
        }
        free = free.min(self.limit);
        if self.shift > 0 {
            return free.next_multiple_of(1 << self.shift);
        }
        if latest + segment <= free || latest > free {
            free / segment * segment
        } else if segment == full_space && free > latest + full_space / 2 {
            free
        } else {
            latest
        }
    }

    /// Sets the maximum window, on request of the application or for a new ratio.
    pub fn set_clamp(&mut self, bytes: u64, latest: u64) {
        if bytes < self.clamp {
            self.limit = self.limit.min(bytes);
        } else {
            self.limit = self.limit.max(latest.min(bytes));
        }
        self.clamp = bytes;
    }

    /// Processes the data `[start, end)` with `options` bytes of options, in order or above a hole.
    /// `reports`: whether the receiver sends SACK blocks, so that data above a hole also opens the
    /// window. `latest`: the window advertised last. Returns `true` if the window may open.
    pub fn on_data(
        &mut self,
        (start, end): (u64, u64),
        options: u64,
        in_order: bool,
        reports: bool,
        latest: u64,
    ) -> bool {
        let payload = end - start;
        let (cost, room) = cost(payload, options);
        if in_order && self.tail.0 == start && self.tail.1 >= payload {
            if let Ok(place) = self.place_of(start)
                && let Some((_, known)) = self.segments.remove(place)
            {
                self.add(end, known);
                self.tail = (end, self.tail.1 - payload);
            } else {
                self.take(end, cost, Some(room));
            }
        } else {
            self.take(end, cost, in_order.then_some(room));
        }
        if payload > self.full {
            let ratio = (payload * 256 / cost).clamp(1, 255);
            if ratio != self.ratio {
                self.ratio = ratio;
                self.set_clamp(self.data(self.size), latest);
            }
            self.full = payload.min(self.ours);
        }
        (in_order && payload >= LEAST_GROWTH || !in_order && reports) && self.grow(payload, cost)
    }

    /// Returns the index of the segment that ends at `end`, or the index at which to insert it.
    fn place_of(&self, end: u64) -> Result<usize, usize> {
        // Usually the last segment.
        match self.segments.back() {
            Some(&(last, _)) if last < end => Err(self.segments.len()),
            _ => self.segments.binary_search_by_key(&end, |&(end, _)| end),
        }
    }

    fn add(&mut self, end: u64, cost: u64) {
        match self.place_of(end) {
            Ok(place) => self.segments[place].1 += cost,
            Err(place) => self.segments.insert(place, (end, cost)),
        }
    }

    fn take(&mut self, end: u64, cost: u64, room: Option<u64>) {
        self.add(end, cost);
        self.used += cost;
        if let Some(room) = room {
            self.tail = (end, room);
        }
    }

    /// Raises the limit of the window if more segments of this size fit (`tcp_grow_window`).
    fn grow(&mut self, payload: u64, cost: u64) -> bool {
        let room = self.clamp.min(self.free()).saturating_sub(self.limit);
        let more = if self.data(cost) <= payload {
            2 * self.ours
        } else {
            let (mut cost, mut window) = (self.data(cost) / 2, self.data(self.most) / 2);
            while self.limit <= window && cost > payload {
                (cost, window) = (cost / 2, window / 2);
            }
            if self.limit <= window { 2 * self.full } else { 0 }
        };
        if more > 0 {
            self.limit += room.min(more.max(2 * payload));
        }
        more > 0 && room > 0
    }

    /// Records that all bytes below `to` have been read.
    pub fn on_read(&mut self, to: u64, reading: Reading) {
        let mut cost_of_read = 0;
        while let Some(&(end, cost)) = self.segments.front().filter(|&&(end, _)| end <= to) {
            self.segments.pop_front();
            cost_of_read += cost;
            self.adjust(end, reading);
        }
        self.adjust(to, reading);
        self.used -= cost_of_read;
    }

    /// Adjusts the memory if more bytes were read in an RTT than in any before; all bytes below
    /// `to` have been read.
    fn adjust(&mut self, to: u64, reading: Reading) {
        let Some(rtt) = reading.rtt.filter(|rtt| *rtt > Duration::ZERO) else { return };
        if reading.now - self.since < rtt {
            return;
        }
        let unread = reading.rcv_nxt.saturating_sub(to);
        let read = to.saturating_sub(self.read).saturating_sub(unread);
        if read > self.most_read {
            let more = 2 * read * (read - self.most_read) / self.most_read.max(1);
            self.most_read = read;
            let window = 2 * read + 2 * more + reading.above;
            let size = (window * 256 / self.ratio).min(self.most);
            if self.grows && size > self.size {
                self.size = size;
                self.clamp = self.data(size);
            }
        }
        (self.read, self.since) = (to, reading.now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Memory charged by Linux 6.18 for segments from a TUN device.
    #[test]
    fn what_segments_cost() {
        for (payload, expected) in [
            (1, 832),
            (100, 832),
            (300, 1280),
            (600, 1280),
            (700, 2304),
            (1600, 2304),
            (1700, 4352),
            (3616, 4352),
            (3700, 8448),
            (8000, 12_544),
            (20_000, 20_736),
            (65_000, 65_792),
        ] {
            assert_eq!(cost(payload, 0).0, expected, "{payload}");
        }
    }

    fn memory(size: u64) -> Memory {
        let mut memory =
            Memory::new(ReceiveMemory { size, most: 15_728_640, clamp: None, grows: true });
        memory.open(1460, 1460, 8);
        memory
    }

    /// Values of `SK_MEMINFO` and `tcp_info` on Linux 6.18 with a buffer of 540,000 bytes and two
    /// segments of one size: memory used, clamp and limit after each.
    #[test]
    fn what_windows_become() {
        for (payload, first, second) in [
            (1, (832, 268_540, 268_540), (832, 268_540, 268_540)),
            (100, (832, 268_540, 268_540), (1664, 268_540, 268_540)),
            (600, (1280, 253_125, 253_125), (2560, 253_125, 253_125)),
            (700, (2304, 162_421, 162_421), (2304, 162_421, 162_421)),
            (1460, (2304, 341_718, 271_560), (4608, 341_718, 274_480)),
            (3600, (4352, 445_078, 275_840), (8704, 445_078, 283_040)),
            (65_000, (65_792, 531_562, 398_640), (131_584, 531_562, 402_034)),
        ] {
            let mut memory = memory(540_000);
            for (start, expected) in [(1, first), (1 + payload, second)] {
                memory.on_data((start, start + payload), 0, true, true, 268_640);
                assert_eq!((memory.used, memory.clamp, memory.limit), expected, "{payload}");
            }
            memory.on_read(1 + payload, reading(0, None, 1 + 2 * payload));
            memory.on_read(1 + 2 * payload, reading(0, None, 1 + 2 * payload));
            assert_eq!(memory.used, 0);
        }
    }

    fn reading(millis: u64, rtt: Option<u64>, rcv_nxt: u64) -> Reading {
        let now = Instant::ZERO + Duration::from_millis(millis);
        Reading { now, rtt: rtt.map(Duration::from_millis), rcv_nxt, above: 0 }
    }

    /// Computed by hand: 14,600 bytes are assumed read before the first RTT. A segment of 1460
    /// bytes takes 2304 bytes, so that the ratio is 162. After 40,000 bytes the window is 80,000 +
    /// 160,000 * 25,400 / 14,600, and the memory is 256/162 of it.
    #[test]
    fn memory_grows_with_what_is_read() {
        let mut memory = memory(131_072);
        memory.on_data((1, 1461), 0, true, true, 65_536);
        assert_eq!((memory.ratio, memory.most_read), (162, 14_600));
        for (millis, rtt, to, rcv_nxt, most, size) in [
            (200, None, 40_001, 40_001, 14_600, 131_072),
            (50, Some(100), 40_001, 40_001, 14_600, 131_072),
            // 20,000 of 40,000 bytes are unread and are subtracted from the bytes read.
            (100, Some(100), 20_001, 40_001, 14_600, 131_072),
            (150, Some(100), 60_001, 60_001, 14_600, 131_072),
            (200, Some(100), 60_001, 60_001, 40_000, 566_290),
            (300, Some(100), 100_001, 100_001, 40_000, 566_290),
        ] {
            memory.on_read(to, reading(millis, rtt, rcv_nxt));
            assert_eq!((memory.most_read, memory.size), (most, size), "{millis}");
        }
        memory.resize(200_000);
        memory.on_read(200_001, reading(400, Some(100), 200_001));
        assert_eq!(
            (memory.most_read, memory.size),
            (100_000, 200_000),
            "the application has set it"
        );
    }
}
