//! The receive buffer of a Linux host, which grows with the connection (`tcp_rcv_space_adjust`, dynamic right-sizing: Wu
//! Feng, Fisk, Gardner and Weigle, "Dynamic Right-Sizing in FTP (drsFTP)", 2002), and the window that it allows.
//!
//! ```text
//!   first segment   how much of the memory that it takes is data: share = length / memory, at least 1/256
//!   each segment    window limit += 2 segments, up to share * free memory
//!   each round trip if more was read than in any before (read > most):
//!                   buffer = (2 read + 4 read (read - most) / most + bytes above holes) / share, never less
//!   advertised      the window limit, in units of the window scale, rounded up; its right edge never moves back
//! ```
//!
//! A segment by which the window limit grows is acknowledged at once (`receiver.rs`): while the window of a connection
//! grows, the sender hears of every segment.
//!
//! The application reads at once. The round trip is what an echoed timestamp tells, otherwise the time in which a whole
//! window arrives, the least of these.
//!
//! *Not modelled*: limits of all connections together (`tcp_mem`), an application that reads late, receive offload.

use super::config::Config;
use super::receiver_rtt::ReceiverRtt;
use lasthop_base::units::{Duration, Instant};

/// `net.ipv4.tcp_rmem`: the buffer of a new connection, and the largest, bytes.
const INITIAL: u64 = 131_072;
const LARGEST: u64 = 33_554_432;
/// Window scale that goes with the largest buffer.
const SCALE: u32 = 10;
/// Memory beside the data of a segment: room before the headers, and what describes fragments; their sum with headers and
/// data is rounded up to a power of two.
const HEADROOM: u64 = 64;
const FRAGMENTS: u64 = 320;
/// Memory of the description of a packet (`sk_buff`).
const DESCRIPTION: u64 = 256;
/// Before the first segment half of the memory counts as data, of 256 parts.
const INITIAL_SHARE: u64 = 128;
/// Segments that count as read in the round trip before the first.
const INITIAL_ROUND: u64 = 10;

/// Memory that a packet with `payload` bytes takes, from a driver that allocates one piece for each.
fn memory(payload: u64) -> u64 {
    (payload + 40 + HEADROOM + FRAGMENTS).next_power_of_two() + DESCRIPTION
}

/// The window of a SYN, bytes: whole segments.
pub(super) fn first_window(segment: u64) -> u64 {
    let room = INITIAL * INITIAL_SHARE / 256;
    if room > segment { room / segment * segment } else { room }
}

/// The buffer of one connection.
#[derive(Clone, Copy, Debug)]
pub(super) struct ReceiveBuffer {
    segment: u64,
    /// Bytes of memory.
    size: u64,
    /// Parts of 256 that are data.
    share: u64,
    has_share: bool,
    /// The window is below both (Linux: window_clamp, rcv_ssthresh).
    clamp: u64,
    limit: u64,
    /// One past the last byte that the peer may send, and the window that the latest ACK told.
    right: u64,
    told: u64,
    rtt: ReceiverRtt,
    /// Most bytes read in a round trip, what had been read when this one began, and when.
    most: u64,
    read: u64,
    since: Instant,
}

impl ReceiveBuffer {
    /// Before anything has arrived.
    pub fn new(config: &Config) -> Self {
        let segment = config.segment.get();
        let window = first_window(segment);
        ReceiveBuffer {
            segment,
            size: INITIAL,
            share: INITIAL_SHARE,
            has_share: false,
            clamp: u64::MAX,
            limit: window,
            right: 1 + window,
            told: window,
            rtt: ReceiverRtt::default(),
            most: (INITIAL_ROUND * segment).min(window),
            read: 1,
            since: Instant::ZERO,
        }
    }

    /// ACKs that leave at once at the beginning: half of the window in segments, at least two.
    pub fn quick_acks(&self, rcv_nxt: u64) -> u32 {
        (u64::from(self.window(rcv_nxt)) / (2 * self.segment)).max(2) as u32
    }

    fn data_of(&self, memory: u64) -> u64 {
        memory * self.share / 256
    }

    /// The window to advertise.
    pub fn window(&self, rcv_nxt: u64) -> u32 {
        self.right.saturating_sub(rcv_nxt) as u32
    }

    /// An acknowledgment of everything below `rcv_nxt` leaves, with `held` bytes above holes: moves the right edge.
    pub fn advertise(&mut self, rcv_nxt: u64, held: u64) {
        let free = self.size.saturating_sub(self.memory_of(held));
        let window = self.data_of(free).min(self.limit);
        let window = window.div_ceil(1 << SCALE) << SCALE;
        self.right = self.right.max(rcv_nxt + window);
        self.told = self.right - rcv_nxt;
    }

    fn memory_of(&self, held: u64) -> u64 {
        held.div_ceil(self.segment) * memory(self.segment)
    }

    /// The connection is open.
    pub fn open(&mut self, now: Instant) {
        self.since = now;
    }

    /// A segment with `payload` bytes that ends at `end` has arrived in order; `held` bytes wait above holes. `echo`: the
    /// round trip that its timestamp tells. Returns whether the window limit has grown.
    pub fn on_segment(
        &mut self,
        now: Instant,
        payload: u64,
        end: u64,
        held: u64,
        echo: Option<Duration>,
    ) -> bool {
        self.learn_share(payload);
        self.measure(now, end, echo);
        self.grow(payload, held)
    }

    /// Everything below `rcv_nxt` is read, and what waits above holes lies below `highest`: has more been read in a round
    /// trip than in any before?
    pub fn on_read(&mut self, now: Instant, rcv_nxt: u64, highest: u64) {
        let Some(rtt) = self.rtt.get() else { return };
        if now - self.since < rtt {
            return;
        }
        let read = rcv_nxt - self.read;
        if read > self.most {
            let more = 2 * read * (read - self.most) / self.most;
            self.most = read;
            self.resize(2 * read + 2 * more + highest.saturating_sub(rcv_nxt));
        }
        (self.read, self.since) = (rcv_nxt, now);
    }

    /// A segment with `payload` bytes has arrived above a hole, with which `held` bytes are there. Returns as above.
    pub fn on_segment_above(&mut self, payload: u64, held: u64) -> bool {
        self.learn_share(payload);
        self.grow(payload, held.saturating_sub(payload))
    }

    fn learn_share(&mut self, payload: u64) {
        if !self.has_share && payload >= self.segment {
            self.has_share = true;
            self.share = (payload * 256 / memory(payload)).max(1);
            self.clamp = self.data_of(self.size);
            self.most = self.most.min(self.clamp);
        }
    }

    fn measure(&mut self, now: Instant, rcv_nxt: u64, echo: Option<Duration>) {
        if let Some(sample) = echo {
            self.rtt.on_echo(sample);
        }
        self.rtt.on_data(now, rcv_nxt, self.told);
    }

    /// The round trip, as far as it is known.
    pub fn rtt(&self) -> Option<Duration> {
        self.rtt.get()
    }

    fn grow(&mut self, payload: u64, held: u64) -> bool {
        let memory = memory(payload);
        let free = self.size.saturating_sub(self.memory_of(held) + memory);
        let most = self.data_of(free).min(self.clamp);
        if most <= self.limit || self.data_of(memory) > payload {
            return false;
        }
        self.limit += (2 * self.segment).min(most - self.limit);
        true
    }

    fn resize(&mut self, window: u64) {
        let size = (window * 256 / self.share).min(LARGEST);
        if size > self.size {
            self.size = size;
            self.clamp = self.data_of(size);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::presets::{Overrides, Profile, Variant, config};
    use lasthop_base::units::Bytes;

    /// What Linux 6.18 advertised behind a link of 2 Mbps and 20 ms (6 ms a segment, no loss), in units of 1 KiB.
    /// Segments of 1460 bytes take 2304 bytes: a share of 162/256, 82,944 bytes of the first buffer.
    #[test]
    fn the_window_of_a_kernel() {
        let set = Overrides { timestamps: Some(false), ..Overrides::default() };
        let config = config(Variant::Reno, Profile::Linux, &set);
        let mut buffer = ReceiveBuffer::new(&config);
        assert_eq!(buffer.window(1), 64_240);
        buffer.open(Instant::ZERO);
        let mut windows = Vec::new();
        for segment in 1..=50u64 {
            let now = Instant::from_nanos(segment * 6_000_000);
            let rcv_nxt = 1 + 1460 * segment;
            let grew = buffer.on_segment(now, 1460, rcv_nxt, 0, None);
            buffer.on_read(now, rcv_nxt, 0);
            buffer.advertise(rcv_nxt, 0);
            let expected = segment <= 6 || segment >= 46;
            assert_eq!(grew, expected, "segment {segment}");
            windows.push(buffer.window(rcv_nxt) >> SCALE);
        }
        assert_eq!(windows[..8], [66, 69, 72, 75, 77, 80, 80, 80]);
        assert_eq!(windows[43..], [80, 80, 83, 86, 89, 91, 94]);
    }

    /// The memory of a segment of 1 or 2 bytes is more than 256 times its length: 1/256 of memory is data.
    #[test]
    fn segments_of_few_bytes_open_a_window() {
        for length in 1..=3u64 {
            let set = Overrides { segment: Some(Bytes::new(length)), ..Overrides::default() };
            let mut buffer = ReceiveBuffer::new(&config(Variant::Reno, Profile::Linux, &set));
            buffer.open(Instant::ZERO);
            let mut rcv_nxt = 1;
            for segment in 1..=100u64 {
                let now = Instant::from_nanos(segment * 6_000_000);
                rcv_nxt += length;
                buffer.on_segment(now, length, rcv_nxt, 0, None);
                buffer.on_read(now, rcv_nxt, 0);
                buffer.advertise(rcv_nxt, 0);
            }
            assert_eq!(buffer.share, 1, "{length}");
            assert!(buffer.window(rcv_nxt) >= 1024, "{length}");
        }
    }
}
