//! The two halves of a split connection, and the exchange of data between them.

use lasthop_base::packet::{TcpHeader, flags};
use lasthop_base::units::{Duration, Instant};
use lasthop_tcp::{Config, Connection, Role};

/// First interval after which a window update is repeated; it doubles up to a minute.
const FIRST_REPEAT: Duration = Duration::from_secs(1);
const LONGEST_REPEAT: Duration = Duration::from_secs(60);
/// Maximum number of repeated window updates.
const MOST_REPEATS: u32 = 15;

/// One of the two connections of a split connection.
#[derive(Clone, Debug)]
pub(super) struct Half {
    pub connection: Connection,
    /// Number of data bytes before the peer's FIN, if it was received.
    fin: Option<u64>,
    /// Number of data bytes of the peer that were passed to the other half.
    moved: u64,
    /// Whether the other half has been closed.
    is_closed: bool,
    /// Right edge of the window, and the highest edge advertised to the peer, in data bytes.
    pub edge: u64,
    pub advertised: u64,
    /// Time of the next repetition of the last update, and the interval; `NEVER` if none is
    /// pending.
    repeat_at: Instant,
    wait: Duration,
    repeats: u32,
}

impl Half {
    fn new(config: &Config, role: Role, buffer: u64) -> Self {
        Half {
            connection: Connection::new(config, role, Duration::ZERO),
            fin: None,
            moved: 0,
            is_closed: false,
            edge: buffer,
            advertised: buffer,
            repeat_at: Instant::NEVER,
            wait: FIRST_REPEAT,
            repeats: 0,
        }
    }

    /// Returns the number of data bytes received in order.
    fn received(&self) -> u64 {
        self.connection.delivered_bytes().min(self.fin.unwrap_or(u64::MAX))
    }

    pub fn on_segment(&mut self, now: Instant, header: &TcpHeader) {
        let before = self.connection.delivered_bytes();
        if header.flags & flags::FIN != 0 {
            // Sequence numbers count the SYN: byte 0 of the data has number 1.
            let next = (before + 1) as u32;
            let ahead = header.seq.wrapping_add(header.payload).wrapping_sub(next) as i32;
            self.fin = Some(before.saturating_add_signed(ahead.into()));
        }
        self.connection.receive(now, header);
        if self.connection.delivered_bytes() > before {
            // The peer is not waiting for a window.
            (self.repeat_at, self.wait, self.repeats) = (Instant::NEVER, FIRST_REPEAT, 0);
        }
    }

    /// Advertises the free space of `buffer`, of which `held` bytes of the peer are occupied.
    fn offer(&mut self, now: Instant, buffer: u64, held: u64) {
        let received = self.received();
        let step = (buffer / 2).min(2 * self.connection.config().segment.get());
        let edge = received + (buffer - held);
        if edge >= self.edge + step {
            self.edge = edge;
        }
        debug_assert!(self.edge >= received, "the peer keeps to its window");
        self.connection.set_advertised_window((self.edge - received) as u32);
        if self.edge >= self.advertised + step {
            let was_closed = self.advertised < received + self.connection.config().segment.get();
            self.connection.acknowledge_now();
            if was_closed && self.fin.is_none() {
                self.repeat_at = now + self.wait;
            }
        }
    }

    /// Repeats the last window update, which may have been lost.
    pub fn on_timeout(&mut self, now: Instant) {
        self.connection.handle_timeout(now);
        if now >= self.repeat_at {
            self.connection.acknowledge_now();
            self.repeats += 1;
            self.wait = (self.wait * 2).min(LONGEST_REPEAT);
            let again = self.repeats < MOST_REPEATS;
            self.repeat_at = if again { now + self.wait } else { Instant::NEVER };
        }
    }

    pub fn next_timeout(&self) -> Instant {
        self.connection.next_timeout().min(self.repeat_at)
    }
}

/// Index of the half towards the hosts behind the proxy; the other half is over the link.
pub(super) const END: usize = 0;
pub(super) const LINK: usize = 1;

/// A connection that the proxy splits.
#[derive(Clone, Debug)]
pub(super) struct Split {
    configs: [Config; 2],
    pub buffer: u64,
    pub incarnation: u32,
    /// Both halves, after the first segment.
    pub halves: Option<[Half; 2]>,
}

impl Split {
    pub fn new(configs: [Config; 2], buffer: u64) -> Self {
        Split { configs, buffer, incarnation: 0, halves: None }
    }

    /// Returns the halves of the connection instance of a segment from side `from`; `None` if that
    /// instance has ended.
    pub fn halves(&mut self, incarnation: u32, from: usize) -> Option<&mut [Half; 2]> {
        let newer = incarnation.wrapping_sub(self.incarnation) as i32;
        if newer < 0 {
            return None;
        }
        if newer > 0 {
            self.incarnation = incarnation;
            if let Some(halves) = &mut self.halves {
                // Counters continue.
                for half in halves {
                    half.connection.reset(Duration::ZERO);
                    let connection = half.connection.clone();
                    *half = Half {
                        connection,
                        ..Half::new(&self.configs[END], Role::Opener, self.buffer)
                    };
                }
            }
        }
        let (configs, buffer) = (&self.configs, self.buffer);
        Some(self.halves.get_or_insert_with(|| {
            [END, LINK].map(|side| {
                let role = if side == from { Role::Acceptor } else { Role::Opener };
                Half::new(&configs[side], role, buffer)
            })
        }))
    }
}

/// Returns the number of bytes that the half at `from` has acknowledged and the receiver behind the
/// other half has not.
pub(super) fn unconfirmed(halves: &[Half; 2], from: usize) -> u64 {
    let [from, to] = [&halves[from], &halves[1 - from]];
    from.received() - to.connection.acked_bytes().min(from.moved)
}

/// Passes received data from each half to the other, and advertises the resulting windows.
pub(super) fn exchange(halves: &mut [Half; 2], now: Instant, buffer: u64) -> u64 {
    let mut most = 0;
    for from in [END, LINK] {
        let received = halves[from].received();
        let fresh = received - halves[from].moved;
        halves[from].moved = received;
        if fresh > 0 {
            halves[1 - from].connection.write(fresh);
        }
        let ends = halves[from].fin == Some(received) && !halves[from].is_closed;
        if ends && halves[from].connection.delivered_bytes() > received {
            halves[from].is_closed = true;
            halves[1 - from].connection.close();
        }
        let held = unconfirmed(halves, from);
        debug_assert!(held <= buffer, "the buffer is as large as the window");
        most = most.max(held);
        halves[from].offer(now, buffer, held);
    }
    most
}
