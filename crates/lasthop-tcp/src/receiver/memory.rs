//! The memory behind the receive window of a Linux host (`tcp_input.c`, `__tcp_select_window`).
//!
//! ```text
//!   size    bytes of memory (SO_RCVBUF doubled, or the second of net.ipv4.tcp_rmem)
//!   used    what the segments cost that have arrived and are not read, with their descriptions
//!   ratio   256ths of memory that are taken for data: 128, then those of the first segment of a new size
//!   clamp   bytes that the window has at most: ratio of size less a segment, or TCP_WINDOW_CLAMP
//!   limit   bytes that it may have now; it grows with what arrives, where segments cost no more than they hold
//!
//!   window = ratio of (size - used), at most limit; nothing if that is less than a segment, or a sixteenth of all
//! ```
//!
//! Size grows with what is read in a round trip (`tcp_rcv_space_adjust`), up to the third of `net.ipv4.tcp_rmem`: for n
//! bytes, where the most before were m, to a window of 2 n + 4 n (n - m) / m and what waits above holes. What waits to be
//! read counts against n. A read looks at this behind each segment.
//!
//! *Not modelled*: what is dropped or packed anew for want of memory; a host under memory pressure.

use lasthop_base::units::{Duration, Instant};
use std::collections::VecDeque;

/// 256ths of memory for data, before anything has arrived.
const FIRST_RATIO: u64 = 128;
/// The size of the peer's segments, before anything has arrived (`TCP_MSS_DEFAULT`).
const FIRST_SEGMENT: u64 = 536;
/// Segments that count as read in the round trip before the first.
const INITIAL_ROUND: u64 = 10;
/// Data shorter than that open nothing.
const LEAST_GROWTH: u64 = 128;
/// Bytes of the description of a segment, and of what lies behind its data.
const DESCRIPTION: u64 = 256;
const TRAILER: u64 = 320;
/// Bytes before the headers, and of those of IP and TCP.
const HEADROOM: u64 = 64;
const HEADERS: u64 = 40;
/// Data and headers lie in a unit of one of these sizes; what is more in pages.
const UNITS: [u64; 5] = [576, 1024, 2048, 4096, 8192];
const PAGE: u64 = 4096;

/// Memory of a host that nobody has configured (`net.ipv4.tcp_rmem`), and the window scale that goes with the largest.
const DEFAULT_MEMORY: ReceiveMemory =
    ReceiveMemory { size: 131_072, most: 33_554_432, clamp: None, grows: true };
const DEFAULT_SHIFT: u8 = 10;

/// What an application asks of a receive buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReceiveMemory {
    /// Bytes of memory.
    pub size: u64,
    /// Bytes of memory that it may have one day (the third of `net.ipv4.tcp_rmem`).
    pub most: u64,
    /// Bytes that the window has at most (`TCP_WINDOW_CLAMP`).
    pub clamp: Option<u64>,
    /// Does it grow with what is read (`net.ipv4.tcp_moderate_rcvbuf`, unless `SO_RCVBUF` was set)?
    pub grows: bool,
}

/// What a read that may let memory grow sees.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reading {
    pub now: Instant,
    /// The round trip as the receiver knows it.
    pub rtt: Option<Duration>,
    pub rcv_nxt: u64,
    /// Bytes from there to the highest that has come.
    pub above: u64,
}

/// What a segment with so many bytes of data and options costs, and how much fits behind its data.
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

/// See the head of this file.
#[derive(Clone, Debug)]
pub(crate) struct Memory {
    size: u64,
    most: u64,
    used: u64,
    ratio: u64,
    clamp: u64,
    limit: u64,
    /// Bytes of the peer's full segments (Linux: `rcv_mss`), and of ours.
    full: u64,
    ours: u64,
    shift: u8,
    /// Where segments end that are not read, in order, and what they cost.
    segments: VecDeque<(u64, u64)>,
    /// The end of the newest segment in order, and how much fits behind its data.
    tail: (u64, u64),
    grows: bool,
    /// Most bytes that were read in a round trip (Linux: `rcvq_space`), how far had been read when this one began, and when.
    most_read: u64,
    read: u64,
    since: Instant,
}

impl Memory {
    /// That of a host with default settings, which receives segments of `segment` bytes; and its first window.
    pub fn of_host(segment: u64) -> (Self, u64) {
        let mut memory = Memory::new(DEFAULT_MEMORY);
        let window = memory.open(segment, segment, DEFAULT_SHIFT);
        (memory, window)
    }

    /// The memory that an application has asked for.
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

    /// Memory changes its size.
    pub fn resize(&mut self, size: u64) {
        self.size = size;
        self.grows = false;
    }

    /// Bytes of memory.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// Most bytes that were read in a round trip.
    pub fn most_read(&self) -> u64 {
        self.most_read
    }

    /// The connection is open, with segments of `segment` bytes and windows that are shifted by `shift`. The first window
    /// counts in segments of `first` bytes. Returns the window that counts as advertised.
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

    /// The connection is open at `now`: the first round trip begins.
    pub fn begin(&mut self, now: Instant) {
        self.since = now;
    }

    /// Bytes of data that so much memory is taken for.
    fn data(&self, memory: u64) -> u64 {
        memory * self.ratio / 256
    }

    fn free(&self) -> u64 {
        self.data(self.size.saturating_sub(self.used))
    }

    fn full_space(&self) -> u64 {
        self.clamp.min(self.data(self.size))
    }

    /// Is a segment with so much data and options paid for by what is left of the pages of memory that the socket has? Sending
    /// has `charged` bytes of them (Linux: `sk_forward_alloc`). Otherwise Linux looks at the segment in full.
    pub fn has_reserve(&self, payload: u64, options: u64, charged: u64) -> bool {
        let rest = (charged + self.used) % PAGE;
        cost(payload, options).0 <= if rest > 0 { PAGE - rest } else { 0 }
    }

    /// Is less than half free, so that no ACK is quick?
    pub fn is_tight(&self) -> bool {
        self.free() < self.full_space() / 2
    }

    /// Bytes that a window counts in.
    pub fn unit(&self) -> u64 {
        1 << self.shift
    }

    /// Bytes that the window has at most.
    pub fn clamp(&self) -> u64 {
        self.clamp
    }

    /// The same for now.
    pub fn limit(&self) -> u64 {
        self.limit
    }

    /// Bytes of a full segment of the peer.
    pub fn full(&self) -> u64 {
        self.full
    }

    /// The window to advertise after one of `latest` bytes (`__tcp_select_window`).
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

    /// The application bounds the window, or the ratio does.
    pub fn set_clamp(&mut self, bytes: u64, latest: u64) {
        if bytes < self.clamp {
            self.limit = self.limit.min(bytes);
        } else {
            self.limit = self.limit.max(latest.min(bytes));
        }
        self.clamp = bytes;
    }

    /// Data from `start` to `end` have arrived with so many bytes of options: in order, or above a hole, which a
    /// receiver that reports blocks takes for as good. `latest`: the window that was advertised last. Says whether the
    /// window may open.
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

    /// The place of the segment that ends at `end`, or the one where it belongs.
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

    /// More of the same fits: the window may open (`tcp_grow_window`).
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

    /// All below `to` has been read.
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

    /// All below `to` has been read: has more been in a round trip than in any before?
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

    /// What Linux 6.18 counted of segments that came from a TUN device.
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

    /// The same of `SK_MEMINFO` and `tcp_info`: a buffer of 540,000 bytes and two segments of one size; memory used, clamp and
    /// limit after each.
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

    /// By hand from the rule: 14,600 bytes count as read before the first round trip, and a segment of 1460 bytes that costs
    /// 2304 makes the ratio 162. 40,000 bytes let the window become 80,000 + 160,000 * 25,400 / 14,600, and memory 256/162 of it.
    #[test]
    fn memory_grows_with_what_is_read() {
        let mut memory = memory(131_072);
        memory.on_data((1, 1461), 0, true, true, 65_536);
        assert_eq!((memory.ratio, memory.most_read), (162, 14_600));
        for (millis, rtt, to, rcv_nxt, most, size) in [
            (200, None, 40_001, 40_001, 14_600, 131_072),
            (50, Some(100), 40_001, 40_001, 14_600, 131_072),
            // 20,000 of 40,000 bytes were unread: as much as was read counts less that.
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
