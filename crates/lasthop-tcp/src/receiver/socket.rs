//! What a socket tells its receiver, and asks of it.

use super::Receiver;
use super::quick::DEFAULT_SEGMENT;
use lasthop_base::units::{Duration, Instant};

impl Receiver {
    /// ACKs are delayed for so long at most.
    pub fn bound_delay(&mut self, longest: Option<Duration>) {
        self.quick.longest = longest;
    }

    /// The receiver is that of a Linux host: it remembers few SACK blocks, and measures round trips and full segments.
    pub fn follow_linux(&mut self) {
        self.recent = Some(Box::default());
        self.rtt = Some(Box::default());
        self.quick.full = Some(DEFAULT_SEGMENT);
    }

    /// Would an ACK of the next segment move the right edge of the window?
    pub fn set_moves_edge(&mut self, moves: bool) {
        self.quick.is_edge_fixed = !moves;
    }

    /// Of a socket: how many ACKs may be quick, and the times of the sender.
    pub fn set_times(&mut self, quick: u64, srtt: Duration, rto: Duration) {
        self.quick.most = if quick == 0 { 2 } else { quick.min(u32::MAX.into()) as u32 };
        (self.quick.srtt, self.quick.rto) = (srtt, rto);
    }

    /// The round trip, of a socket, as far as it is known.
    pub fn rtt(&self) -> Option<Duration> {
        self.rtt.as_ref().and_then(|rtt| rtt.get())
    }

    /// Data of `payload` bytes arrive at a socket, up to `end` if in order; `echo` is the round trip that their timestamp
    /// tells, if it is another than before, and the peer may send `window` bytes more.
    pub fn measure(
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

    /// The window may open: the next ACK is to tell.
    pub fn add_quick_ack(&mut self) {
        self.quick.is_opening = true;
    }

    /// Memory is short: no ACK is quick any more.
    pub fn end_quick_acks(&mut self) {
        self.quick.left = 0;
    }

    /// How long a socket delays an ACK, once data have come.
    pub fn delay(&self) -> Duration {
        self.quick.delay
    }

    /// Does the segment that is about to arrive say PSH?
    pub fn set_pushed(&mut self, is_pushed: bool) {
        self.quick.says_push = is_pushed;
    }

    /// Something is read, or all of it. More than a full segment is acknowledged at once; and who only listens hears at once
    /// that a short segment was read (Linux: `tcp_cleanup_rbuf`).
    pub fn on_read(&mut self, is_all: bool) {
        let Some(full) = self.quick.full.filter(|_| self.unacked > 0) else { return };
        let quick = &self.quick;
        let is_pushed = quick.pushes > 1 || quick.pushes > 0 && !quick.is_interactive;
        let is_told = is_all && is_pushed;
        self.ack_due |= is_told || self.rcv_nxt - self.last_ack_sent > full;
    }
}
