//! The receiver of a Linux host: what it measures, its window, and what it tells an application.

use super::Receiver;
use super::memory::Reading;
use super::window::ReceiveWindow;
use crate::config::{Config, Conventions};
use lasthop_base::units::{Duration, Instant};

/// A segment that is received next, as a host sees it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Arriving {
    pub seq: u64,
    /// Bytes of data, and of the TCP options.
    pub payload: u64,
    pub options: u64,
    /// The timestamp that it echoes, and the round trip that this tells.
    pub echo: Option<(u32, Duration)>,
    pub is_pushed: bool,
    /// The smoothed round trip and the RTO of the sender of this end.
    pub srtt: Duration,
    pub rto: Duration,
    /// The window of a host whose window is constant.
    pub advertised: u64,
}

impl Receiver {
    /// A Linux host remembers few SACK blocks, and measures round trips and full segments.
    pub(super) fn of_host(mut self, config: &Config) -> Self {
        if config.conventions == Conventions::Linux {
            (self.recent, self.rtt) = (Some(Box::default()), Some(Box::default()));
            let window = || Box::new(ReceiveWindow::of_host(config.segment.get()));
            self.window = config.autotuning.then(window);
        }
        self
    }

    /// Sets the maximum delay of ACKs.
    pub fn bound_delay(&mut self, longest: Option<Duration>) {
        self.quick.longest = longest;
    }

    /// Takes note of a segment that is received next.
    pub fn expect(&mut self, config: &Config, now: Instant, segment: &Arriving) {
        let (seq, payload) = (segment.seq, segment.payload);
        let (end, rcv_nxt) = (seq + payload, self.rcv_nxt);
        let latest = self.window.as_ref().map_or(segment.advertised, |window| window.latest());
        if let Some(mut full) = self.quick.full {
            let is_new = payload > 0 && end > rcv_nxt && !self.has_all(seq, end);
            if let Some(memory) = self.window.as_mut().and_then(|window| window.memory()) {
                let numbers = (seq.max(rcv_nxt), end);
                if is_new
                    && memory.on_data(numbers, segment.options, seq <= rcv_nxt, config.sack, latest)
                {
                    // The window may open: the next ACK is to tell.
                    self.quick.is_opening = true;
                }
                full = memory.full();
            }
            self.quick.most = match latest / (2 * full) {
                0 => 2,
                quick => quick.min(u32::MAX.into()) as u32,
            };
            (self.quick.srtt, self.quick.rto) = (segment.srtt, segment.rto);
            if payload > 0 {
                let echo = segment.echo.filter(|&(stamp, _)| stamp != self.echoed && stamp != 0);
                self.echoed = echo.map_or(self.echoed, |(stamp, _)| stamp);
                let to = (seq <= rcv_nxt && end > rcv_nxt).then_some(end);
                self.measure(now, payload, to, echo.map(|(_, rtt)| rtt), latest);
            }
        }
        let after = rcv_nxt + payload;
        let moves_edge = self.window.as_ref().is_none_or(|window| window.moves_edge(after));
        (self.quick.is_edge_fixed, self.quick.says_push) = (!moves_edge, segment.is_pushed);
    }

    /// The application has read `read` bytes in all; if it `listens`, the peer hears of a window that opens.
    pub fn read_up_to(&mut self, now: Instant, read: u64, is_all: bool, listens: bool) {
        let (rcv_nxt, rtt) = (self.rcv_nxt, self.rtt());
        let above = self.highest().unwrap_or(0).saturating_sub(rcv_nxt);
        if let Some(window) = &mut self.window {
            window.read = read;
            if let Some(memory) = window.memory() {
                memory.on_read(read + 1, Reading { now, rtt, rcv_nxt, above });
            }
            self.ack_due |= listens && window.has_opened(rcv_nxt);
        }
        self.on_read(is_all);
    }

    /// The window that a segment advertises that is sent now.
    pub fn advertise(&mut self) -> Option<u32> {
        let window = self.window.as_mut()?;
        let offered = window.offer(self.rcv_nxt);
        window.on_advertised(self.rcv_nxt, offered);
        if window.bounds().is_some_and(|memory| memory.is_tight()) {
            // No ACK is quick any more.
            self.quick.left = 0;
        }
        Some(offered)
    }

    /// The round trip, of a socket, as far as it is known.
    pub fn rtt(&self) -> Option<Duration> {
        self.rtt.as_ref().and_then(|rtt| rtt.get())
    }

    /// Data of `payload` bytes arrive at a socket, up to `end` if in order; `echo` is the round trip that their timestamp
    /// tells, if it is another than before, and the peer may send `window` bytes more.
    fn measure(
        &mut self,
        now: Instant,
        payload: u64,
        in_order_to: Option<u64>,
        echo: Option<Duration>,
        window: u64,
    ) {
        let Some(rtt) = &mut self.rtt else { return };
        if let Some(echo) = echo.filter(|_| payload >= self.quick.full.unwrap_or(0)) {
            rtt.on_echo(echo);
        }
        if let Some(end) = in_order_to {
            rtt.on_data(now, end, window);
        }
    }

    /// How long a socket delays an ACK, once data have come.
    pub fn delay(&self) -> Duration {
        self.quick.delay
    }

    /// Something is read, or all of it. More than a full segment is acknowledged at once; and who only listens hears at once
    /// that a short segment was read (Linux: `tcp_cleanup_rbuf`).
    fn on_read(&mut self, is_all: bool) {
        let Some(full) = self.quick.full.filter(|_| self.unacked > 0) else { return };
        let quick = &self.quick;
        let is_pushed = quick.pushes > 1 || quick.pushes > 0 && !quick.is_interactive;
        let is_told = is_all && is_pushed;
        self.ack_due |= is_told || self.rcv_nxt - self.last_ack_sent > full;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::presets::{Overrides, Profile, Variant, config};
    use crate::timers::Timers;
    use crate::wheel::Wheel;
    use lasthop_base::units::Bytes;

    /// Receives `count` segments of `length` bytes in order, each 6 ms after the one before. Returns the windows of the ACKs,
    /// of which each segment gets one.
    fn windows(length: u64, count: u64) -> Vec<u32> {
        let set = Overrides { segment: Some(Bytes::new(length)), ..Overrides::default() };
        let config = config(Variant::Reno, Profile::Linux, &set);
        let mut receiver = Receiver::new(&config);
        let mut timers = Timers::new(Wheel::new(Duration::ZERO, Duration::ZERO));
        receiver.receive(&config, &mut timers, Instant::ZERO, 0, 1, true);
        let windows = (0..count).map(|segment| {
            let now = Instant::from_nanos((segment + 1) * 6_000_000);
            let seq = 1 + length * segment;
            let (srtt, rto) = (Duration::ZERO, Duration::from_secs(1));
            let (payload, options, echo) = (length, 0, None);
            let (is_pushed, advertised) = (false, 0);
            let arriving =
                Arriving { seq, payload, options, echo, is_pushed, srtt, rto, advertised };
            receiver.expect(&config, now, &arriving);
            receiver.receive(&config, &mut timers, now, seq, seq + length, false);
            receiver.read_up_to(now, receiver.rcv_nxt - 1, true, true);
            receiver.advertise().unwrap()
        });
        windows.collect()
    }

    /// What Linux 6.18 advertised behind a link of 2 Mbps and 20 ms (6 ms a segment, no loss), in units of 1 KiB.
    /// Segments of 1460 bytes take 2304 bytes: a share of 162/256, 82,944 bytes of the first buffer.
    #[test]
    fn the_window_of_a_kernel() {
        let kib: Vec<u32> = windows(1460, 50).into_iter().map(|window| window >> 10).collect();
        assert_eq!(kib[..8], [66, 69, 72, 75, 77, 80, 80, 80]);
        assert_eq!(kib[43..], [80, 80, 83, 86, 89, 91, 94]);
    }

    /// The memory of a segment of 1 or 2 bytes is more than 256 times its length: 1/256 of memory is data.
    #[test]
    fn segments_of_few_bytes_open_a_window() {
        for length in 1..=3 {
            assert!(windows(length, 100).into_iter().all(|window| window >= 1024), "{length}");
        }
    }
}
