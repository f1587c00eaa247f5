//! Two endpoints of a TCP connection and an in-memory pipe between them, for tests only.

use lasthop_base::packet::{TcpHeader, flags};
use lasthop_base::units::{Duration, Instant};
use lasthop_tcp::{Config, Connection, Role};

pub const OPENER: usize = 0;
pub const ACCEPTOR: usize = 1;

pub fn ms(millis: u64) -> Instant {
    Instant::from_nanos(millis * 1_000_000)
}

/// Fate of the k-th segment of a direction: the delay of each copy that arrives.
pub type Fate<'a> = Box<dyn FnMut(usize, u64, Instant, &TcpHeader) -> Vec<Duration> + 'a>;

/// A segment as it was sent.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sent {
    pub at: Instant,
    /// Sending endpoint.
    pub end: usize,
    pub header: TcpHeader,
    pub bytes: u32,
}

/// Two endpoints and the segments in transit between them.
pub struct Pipe<'a> {
    pub config: Config,
    pub ends: [Connection; 2],
    pub now: Instant,
    pub log: Vec<Sent>,
    /// (arrival, transmission order, destination, segment)
    flying: Vec<(Instant, u64, usize, TcpHeader)>,
    counts: [u64; 2],
    copies: u64,
    fate: Fate<'a>,
    /// Highest cumulative ACK received by each endpoint.
    acked: [u64; 2],
    /// Whether to assert after each step that an unnecessary wakeup has no effect.
    pub is_paranoid: bool,
}

impl<'a> Pipe<'a> {
    pub fn new(config: &Config, fate: Fate<'a>) -> Self {
        Pipe {
            config: *config,
            ends: [Role::Opener, Role::Acceptor]
                .map(|role| Connection::new(config, role, Duration::ZERO)),
            now: Instant::ZERO,
            log: Vec::new(),
            flying: Vec::new(),
            counts: [0; 2],
            copies: 0,
            fate,
            acked: [0; 2],
            is_paranoid: false,
        }
    }

    /// Creates a pipe that delays every segment by `delay`. It drops the data segments (or pure
    /// ACKs, …) that `is_lost` selects by endpoint and index, from 0.
    pub fn with_losses(
        config: &Config,
        delay: Duration,
        mut is_lost: impl FnMut(usize, u64, &TcpHeader) -> bool + 'a,
    ) -> Self {
        let fate = move |end: usize, count: u64, _: Instant, header: &TcpHeader| {
            if is_lost(end, count, header) { Vec::new() } else { vec![delay] }
        };
        Pipe::new(config, Box::new(fate))
    }

    /// Transmits all segments that `end` has ready.
    pub fn pump(&mut self, end: usize) {
        let mut burst = 0;
        let mut header = TcpHeader::default();
        while let Some(bytes) = self.ends[end].poll_transmit(self.now, &mut header) {
            burst += 1;
            assert!(burst < 10_000, "end {end} never stops sending at {:?}", self.now);
            self.check_window(end, &header);
            self.log.push(Sent { at: self.now, end, header, bytes });
            let count = self.counts[end];
            self.counts[end] += 1;
            for delay in (self.fate)(end, count, self.now, &header) {
                self.flying.push((self.now + delay, self.copies, 1 - end, header));
                self.copies += 1;
            }
        }
        let again = self.ends[end].poll_transmit(self.now, &mut header);
        assert_eq!(again, None, "None once is None twice");
    }

    /// Checks that outstanding data never exceeds the receive window.
    fn check_window(&self, end: usize, header: &TcpHeader) {
        let window = (self.config.receive_window * self.config.segment.get() as f64) as u64;
        let edge = u64::from(header.seq) + u64::from(header.payload);
        let acked = self.acked[end].max(u64::from(!self.config.handshake));
        if header.payload > 0 {
            assert!(edge <= acked + window, "{edge} sent, {acked} acked, window {window}");
            assert!(u64::from(header.payload) <= self.config.segment.get());
        }
    }

    fn next(&self) -> Instant {
        let arrival = self.flying.iter().map(|&(at, ..)| at).min().unwrap_or(Instant::NEVER);
        arrival.min(self.ends[0].next_timeout()).min(self.ends[1].next_timeout())
    }

    /// Handles the next event, if it occurs by `until`.
    pub fn step(&mut self, until: Instant) -> bool {
        let next = self.next();
        if next > until || next == Instant::NEVER {
            return false;
        }
        assert!(next >= self.now, "a deadline in the past");
        if self.is_paranoid {
            self.wake_spuriously();
        }
        self.now = next;
        let due = self.flying.iter().enumerate().filter(|(_, segment)| segment.0 <= next);
        if let Some((index, _)) = due.min_by_key(|(_, segment)| (segment.0, segment.1)) {
            let (_, _, to, header) = self.flying.remove(index);
            if header.flags & flags::ACK != 0 {
                self.acked[to] = self.acked[to].max(u64::from(header.ack));
            }
            self.ends[to].receive(next, &header);
            self.pump(to);
            return true;
        }
        for end in [OPENER, ACCEPTOR] {
            if self.ends[end].next_timeout() <= next {
                self.ends[end].handle_timeout(next);
                self.pump(end);
                assert!(self.ends[end].next_timeout() > next, "the deadline moves on");
            }
        }
        true
    }

    fn wake_spuriously(&mut self) {
        for end in &mut self.ends {
            if end.next_timeout() > self.now {
                let before = format!("{end:?}");
                end.handle_timeout(self.now);
                assert_eq!(end.poll_transmit(self.now, &mut TcpHeader::default()), None);
                assert_eq!(before, format!("{end:?}"), "a spurious wake changes nothing");
            }
        }
    }

    /// Changes the segments in transit to `to`, as a middlebox might.
    pub fn edit_flying(&mut self, to: usize, edit: impl Fn(&mut TcpHeader)) {
        let arriving = self.flying.iter_mut().filter(|flying| flying.2 == to);
        arriving.for_each(|flying| edit(&mut flying.3));
    }

    /// Runs until `until` or until no events are left.
    pub fn run(&mut self, until: Instant) {
        while self.step(until) {}
        if self.now < until {
            self.now = until;
        }
    }

    /// Returns the segments sent by `end` as (ms, description): `S` SYN, `F` FIN, `A n` pure ACK of
    /// byte n, and `n` the first byte of data.
    pub fn sent(&self, end: usize) -> Vec<(u64, String)> {
        let text = |header: &TcpHeader| {
            if header.flags & flags::SYN != 0 {
                "S".to_owned()
            } else if header.flags & flags::FIN != 0 {
                "F".to_owned()
            } else if header.payload == 0 {
                format!("A {}", header.ack)
            } else {
                format!("{}", header.seq)
            }
        };
        self.log
            .iter()
            .filter(|sent| sent.end == end)
            .map(|sent| (sent.at.as_nanos() / 1_000_000, text(&sent.header)))
            .collect()
    }
}
