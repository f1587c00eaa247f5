//! Santa Cruz (Parsa, Garcia-Luna-Aceves, "Improving TCP Congestion Control over Internets with Heterogeneous Transmission
//! Media", ICNP 1999; "Differentiating Congestion vs. Random Loss", WCNC 2000; US patents 7,020,083 and 7,200,111).
//!
//! ```text
//!   D = (R_j - R_i) - (S_j - S_i)      relative forward delay of two segments
//!   M = sum of D over a window / service time of a segment at the bottleneck      N = max(N + M, 0)
//!
//!   slow start                 as Reno, until a loss or N > n
//!   once a window, N < n - d   cwnd += 1
//!                  N > n + d   cwnd -= 1
//!
//!            M > 0      M > 0                                  (M <= 0: back to 0)
//!   GROWTH 0 -----> 1 ---------> 2 --+ M > 0
//!                                ^---+
//!   loss at 2                  congestion: half of the flight size, growth 0
//!   loss at 0 or 1             random: only the retransmission
//!   timeout at 2               as Reno
//!   timeout at 0 or 1          window unchanged, unless `close_at_timeout`
//! ```
//!
//! N is the number of segments of the connection that are queued at the bottleneck. The target n
//! (`queued`) and d = 1/2 are the values of the paper. Delays on the return path have no effect.
//! The service time is estimated from the arrivals of segments that were queued (D > 0), or of all
//! segments if none was. The available sources do not specify how growth 2 ends; here M <= 0 or a
//! reduction resets it.
//!
//! Arrival times are taken from the receiver's timestamps on ACKs. They replace the fields of the
//! paper.
//!
//! *Not modelled*: retransmission by copy numbers; SACK is used instead.

use super::super::config::Config;
use super::Congestion;
use super::family::AlgorithmKeys;
use super::sample::{AckSample, Delivery, Passage};
use super::window::{Cause, Window, WindowLaw, window_field};
use lasthop_base::schema::keys::{Limits, table};
use lasthop_base::units::Instant;

/// Maximum difference of N and n, in segments, for which the window is unchanged.
const SLACK: f64 = 0.5;

table! {
    /// Santa Cruz: keeps some segments queued, measured by forward delays; a loss indicates
    /// congestion only if the queue has grown in two consecutive windows.
    pub struct SantaCruzKeys as "santa-cruz" {
        /// Number of segments to keep in queues.
        queued: u32 = "4", Limits::range(1, 1_000);
        /// Whether a timeout without congestion reduces the window to one segment, like a timeout
        /// with congestion.
        close_at_timeout: bool = "false";
    }
}

impl Copy for SantaCruzKeys {}

impl AlgorithmKeys for SantaCruzKeys {
    type Machine = SantaCruz;

    const READS_ARRIVALS: bool = true;

    fn build(&self, config: &Config, cwnd: f64) -> SantaCruz {
        SantaCruz {
            keys: *self,
            window: Window::new(config, cwnd),
            queue: Queue::default(),
            growth: 0,
            step: 0.0,
            after_timeout: 1.0,
        }
    }
}

/// Estimate of the queue at the bottleneck.
#[derive(Clone, Copy, Debug, Default)]
struct Queue {
    /// The current window ends when SND.UNA exceeds this sequence number.
    end: u64,
    last: Option<Passage>,
    /// Sum of D in the current window, in seconds.
    delay: f64,
    /// Seconds between arrivals, and bytes that arrived: of queued segments, and of all segments.
    queued: (f64, f64),
    all: (f64, f64),
    /// N, in segments.
    length: f64,
}

impl Queue {
    /// Processes an ACK. Returns M in segments if the ACK ends a window.
    fn add(&mut self, delivery: &Delivery, segment: f64) -> Option<f64> {
        if let Some(passage) = delivery.passage {
            if let Some(last) = self.last.filter(|last| passage.received > last.received) {
                let received = (passage.received - last.received).as_secs_f64();
                // A retransmitted segment may be acknowledged after a later one.
                let sent = passage.sent.as_nanos() as i64 - last.sent.as_nanos() as i64;
                let delay = (passage.received - last.received).as_nanos() as i64 - sent;
                let (delay, bytes) = (delay as f64 / 1e9, delivery.acked as f64);
                self.delay += delay;
                self.all = (self.all.0 + received, self.all.1 + bytes);
                if delay > 0.0 {
                    self.queued = (self.queued.0 + received, self.queued.1 + bytes);
                }
            }
            self.last = Some(passage);
        }
        if delivery.snd_una <= self.end {
            return None;
        }
        self.end = delivery.snd_max;
        let (time, bytes) = if self.queued.1 > 0.0 { self.queued } else { self.all };
        let change = if time > 0.0 { self.delay * bytes / (segment * time) } else { 0.0 };
        (self.delay, self.queued, self.all) = (0.0, (0.0, 0.0), (0.0, 0.0));
        self.length = (self.length + change).max(0.0);
        Some(change)
    }
}

/// Santa Cruz's window.
#[derive(Clone, Copy, Debug)]
pub struct SantaCruz {
    keys: SantaCruzKeys,
    window: Window,
    queue: Queue,
    /// Number of consecutive windows in which the queue has grown, at most 2.
    growth: u32,
    /// Change of cwnd at the end of a window, in segments.
    step: f64,
    /// Window after the next timeout, in segments.
    after_timeout: f64,
}

impl WindowLaw for SantaCruz {
    window_field!();

    fn grow(&mut self, sample: &AckSample) {
        if self.queue.length > f64::from(self.keys.queued) && self.window.is_in_slow_start() {
            self.window.ssthresh = self.window.cwnd();
        }
        let step = std::mem::take(&mut self.step);
        if !self.window.slow_start(sample) {
            self.window.set((self.window.cwnd() + step).max(2.0));
        }
    }

    fn threshold(&mut self, _now: Instant, cause: Cause, in_use: f64) -> f64 {
        let is_congested = self.growth == 2;
        let half = in_use / 2.0;
        match cause {
            _ if is_congested => self.growth = 0,
            // The window is unchanged, but slow start ends.
            Cause::Congestion(Congestion::Loss) => return self.window.cwnd(),
            Cause::Congestion(Congestion::Ecn) => {}
            Cause::Timeout if self.keys.close_at_timeout => {}
            Cause::Timeout => {
                self.after_timeout = self.window.cwnd();
                return self.window.unchanged();
            }
        }
        half
    }

    fn after_timeout(&mut self) -> f64 {
        std::mem::replace(&mut self.after_timeout, 1.0)
    }

    fn measure(&mut self, delivery: &Delivery) {
        let Some(change) = self.queue.add(delivery, self.window.segment() as f64) else { return };
        self.growth = if change > 0.0 { (self.growth + 1).min(2) } else { 0 };
        let (length, wanted) = (self.queue.length, f64::from(self.keys.queued));
        self.step = if length < wanted - SLACK {
            1.0
        } else if length > wanted + SLACK {
            -1.0
        } else {
            0.0
        };
    }
}

#[cfg(test)]
mod tests {
    use super::super::CongestionControl;
    use super::super::testing::{Acks, algorithm, avoid, ms};
    use super::*;

    /// Passes `count` segments that are sent `left` ms apart and arrive `arrived` ms apart.
    fn pass(algorithm: &mut SantaCruz, acks: &mut Acks, count: u32, left: f64, arrived: f64) {
        (0..count).for_each(|_| acks.pass(algorithm, 100.0, left, arrived));
    }

    /// Ten segments are sent every 8 ms and received every 10 ms: D = 2 ms each, 20 ms per window,
    /// the service time of two segments. Ten segments sent every 12 ms then empty the queue.
    #[test]
    fn the_queue_is_the_sum_of_relative_delays() {
        let mut algorithm = algorithm::<SantaCruzKeys>(10.0);
        avoid(&mut algorithm, 10.0);
        let mut acks = Acks::new();
        // The first ACK ends an empty window; the next ten form one window.
        pass(&mut algorithm, &mut acks, 1, 10.0, 10.0);
        algorithm.set_cwnd(10.0);
        pass(&mut algorithm, &mut acks, 10, 8.0, 10.0);
        assert!((algorithm.queue.length - 2.0).abs() < 1e-9, "{}", algorithm.queue.length);
        algorithm.set_cwnd(10.0);
        pass(&mut algorithm, &mut acks, 10, 12.0, 10.0);
        assert!(algorithm.queue.length.abs() < 1e-9, "{}", algorithm.queue.length);
    }

    /// The window changes by one segment per window towards a queue of 4 ± 0.5 segments.
    #[test]
    fn the_window_keeps_the_queue_at_four_segments() {
        for (length, step) in [(3.4, 1.0), (3.6, 0.0), (4.4, 0.0), (4.6, -1.0)] {
            let mut algorithm = algorithm::<SantaCruzKeys>(10.0);
            avoid(&mut algorithm, 10.0);
            let mut acks = Acks::new();
            pass(&mut algorithm, &mut acks, 1, 10.0, 10.0);
            algorithm.queue.length = length;
            algorithm.set_cwnd(10.0);
            pass(&mut algorithm, &mut acks, 10, 10.0, 10.0);
            assert_eq!(algorithm.cwnd(), 10.0 + step, "{length}");
        }
    }

    /// The counter of the patents: 0, 1, 2. A loss at 2 halves the window.
    #[test]
    fn a_loss_is_congestion_once_the_queue_has_grown_twice() {
        let mut algorithm = algorithm::<SantaCruzKeys>(10.0);
        avoid(&mut algorithm, 10.0);
        let mut acks = Acks::new();
        pass(&mut algorithm, &mut acks, 1, 10.0, 10.0);
        for (left, growth, cwnd) in
            [(8.0, 1, 10.0), (10.0, 0, 10.0), (8.0, 1, 10.0), (9.0, 2, 5.0), (8.0, 1, 10.0)]
        {
            algorithm.set_cwnd(10.0);
            // Enough segments to end a window after any previous step.
            let end = algorithm.queue.end;
            while algorithm.queue.end == end {
                pass(&mut algorithm, &mut acks, 1, left, 10.0);
            }
            assert_eq!(algorithm.growth, growth, "{left}");
            algorithm.set_cwnd(10.0);
            algorithm.window.ssthresh = 2.0;
            algorithm.on_congestion(ms(acks.now), Congestion::Loss, 10.0);
            assert_eq!(algorithm.cwnd(), cwnd, "{left}");
        }
    }

    #[test]
    fn a_timeout_without_congestion_keeps_the_window() {
        for (close_at_timeout, growth, cwnd) in [(false, 1, 10.0), (false, 2, 1.0), (true, 1, 1.0)]
        {
            let keys = SantaCruzKeys { queued: 4, close_at_timeout };
            let mut algorithm = keys.build(&super::super::testing::any_config(), 10.0);
            algorithm.growth = growth;
            algorithm.on_timeout(ms(0.0), Some(10.0));
            assert_eq!(algorithm.cwnd(), cwnd);
        }
    }
}
