//! The receiver of a Linux host: measurements, window and reports to the application.

use super::Receiver;
use super::memory::Reading;
use super::window::ReceiveWindow;
use crate::config::Config;
use crate::policy::Policies;
use lasthop_base::units::{Duration, Instant};

/// Properties of the segment that is received next, at a host.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Arriving {
    pub seq: u64,
    /// Bytes of data.
    pub payload: u64,
    /// Bytes of the TCP options.
    pub options: u64,
    /// Echoed timestamp, and the RTT computed from it.
    pub echo: Option<(u32, Duration)>,
    pub is_pushed: bool,
    /// SRTT of the sender of this endpoint.
    pub srtt: Duration,
    /// RTO of the sender of this endpoint.
    pub rto: Duration,
    /// Advertised window of a host whose window is constant.
    pub advertised: u64,
}

impl Receiver {
    /// Configures the receiver for a Linux host, which stores few SACK blocks and measures the RTT
    /// and the size of full segments.
    pub(super) fn of_host(mut self, config: &Config) -> Self {
        if Policies::of(config.profile).receive.is_linux() {
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

    /// Records the properties of the segment that is received next.
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
                    // The window may open: the next ACK is to report it.
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

    /// Handles a read call, after which the application has read `read` bytes in total; `is_all`:
    /// no data is left unread. If `listens`, an ACK reports that the window has opened.
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

    /// Returns the window to advertise in the segment that is sent now.
    pub fn advertise(&mut self) -> Option<u32> {
        let window = self.window.as_mut()?;
        let offered = window.offer(self.rcv_nxt);
        window.on_advertised(self.rcv_nxt, offered);
        if window.bounds().is_some_and(|memory| memory.is_tight()) {
            // Leave quick ACK mode.
            self.quick.left = 0;
        }
        Some(offered)
    }

    /// RTT estimate of the receiver, for a socket, once available.
    pub fn rtt(&self) -> Option<Duration> {
        self.rtt.as_ref().and_then(|rtt| rtt.get())
    }

    /// Measures the RTT from `payload` bytes of data that arrive at a socket, up to `in_order_to` if in
    /// order. `echo` is the RTT from their timestamp if it differs from the previous one. `window`
    /// is the window that was advertised last.
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

    /// Delay of an ACK at a socket, once data has arrived.
    pub fn delay(&self) -> Duration {
        self.quick.delay
    }

    /// Handles a read call; `is_all`: no data is left unread. More than a full segment is
    /// acknowledged immediately. Once all data is read, so is a short segment if the connection is
    /// not interactive, or a second short segment in any case (Linux: `tcp_cleanup_rbuf`).
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

    /// Receives `count` segments of `length` bytes in order, at intervals of 6 ms. Returns the
    /// windows of the ACKs, one per segment.
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

    /// Windows advertised by Linux 6.18 over a link of 2 Mbps and 20 ms (6 ms per segment, no
    /// loss), in units of 1 KiB. Segments of 1460 bytes take 2304 bytes of memory: a ratio of
    /// 162/256, 82,944 bytes of the first buffer.
    #[test]
    fn the_window_of_a_kernel() {
        let kib: Vec<u32> = windows(1460, 50).into_iter().map(|window| window >> 10).collect();
        assert_eq!(kib[..8], [66, 69, 72, 75, 77, 80, 80, 80]);
        assert_eq!(kib[43..], [80, 80, 83, 86, 89, 91, 94]);
    }

    /// A segment of 1 or 2 bytes takes more than 256 times its length: 1/256 of memory is data.
    #[test]
    fn segments_of_few_bytes_open_a_window() {
        for length in 1..=3 {
            assert!(windows(length, 100).into_iter().all(|window| window >= 1024), "{length}");
        }
    }
}
