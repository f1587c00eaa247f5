//! Veno (Fu, Liew, "TCP Veno: TCP Enhancement for Transmission Over Wireless Access Networks", JSAC 21(2), 2003).
//!
//! ```text
//!   N = cwnd (RTT - base_rtt) / RTT     segments in queues
//!   slow start                  as Reno
//!   avoidance      N < beta     cwnd += 1/cwnd each ACK
//!                  N >= beta    cwnd += 1/cwnd every other ACK
//!   congestion     N < beta     random loss: ssthresh = 4/5 of the flight size
//!                  N >= beta    ssthresh = 1/2 of it
//!   timeout                     as Reno
//! ```
//!
//! RTT is the latest sample; until the third sample the window changes like Reno's. After each loss
//! base_rtt is measured again, as in the paper, unless `keep_base_rtt` (Linux) is set.
//!
//! *Not modelled*: smoothing of the RTT.

use super::super::config::{Config, RecoveryKind};
use super::Congestion;
use super::family::AlgorithmKeys;
use super::sample::{AckSample, Delivery};
use super::window::{Cause, Window, WindowLaw, window_field};
use lasthop_base::schema::keys::{Limits, table};
use lasthop_base::units::Instant;

/// Minimum number of samples for an estimate of N.
const SAMPLES: u32 = 3;

table! {
    /// Veno: a loss while few segments are queued is random and reduces the window by 20 %.
    pub struct VenoKeys as "veno" {
        /// Number of queued segments at which a loss indicates congestion.
        beta: u32 = "3", Limits::range(1, 1_000);
        /// Whether to keep the minimum RTT of the whole connection, as in Linux, instead of
        /// measuring it again after each loss.
        keep_base_rtt: bool = "false";
    }
}

impl Copy for VenoKeys {}

impl AlgorithmKeys for VenoKeys {
    type Machine = Veno;

    const RECOVERY: [RecoveryKind; 2] = [RecoveryKind::NewReno; 2];

    fn build(&self, config: &Config, cwnd: f64) -> Veno {
        Veno {
            keys: *self,
            window: Window::new(config, cwnd),
            base_rtt: f64::INFINITY,
            rtt: 0.0,
            samples: 0,
            skips: false,
        }
    }
}

/// Veno's window.
#[derive(Clone, Copy, Debug)]
pub struct Veno {
    keys: VenoKeys,
    window: Window,
    /// Minimum RTT in seconds.
    base_rtt: f64,
    rtt: f64,
    /// Samples since the latest loss.
    samples: u32,
    /// Whether the next ACK does not grow the window: N >= beta, and the latest ACK grew it.
    skips: bool,
}

impl Veno {
    /// Returns N in segments; `None` before enough samples.
    fn backlog(&self) -> Option<f64> {
        let share = (self.rtt - self.base_rtt) / self.rtt;
        (self.samples >= SAMPLES).then_some(self.window.cwnd() * share)
    }

    fn is_congested(&self) -> bool {
        self.backlog().is_some_and(|backlog| backlog >= f64::from(self.keys.beta))
    }
}

impl WindowLaw for Veno {
    window_field!();

    fn grow(&mut self, sample: &AckSample) {
        if self.window.slow_start(sample) {
            return;
        }
        if self.is_congested() {
            self.skips = !self.skips;
            if !self.skips {
                return;
            }
        }
        self.window.avoid(sample, self.window.cwnd());
    }

    fn threshold(&mut self, _now: Instant, cause: Cause, in_use: f64) -> f64 {
        let is_random = self.backlog().is_some_and(|backlog| backlog < f64::from(self.keys.beta));
        let kept = match cause {
            Cause::Congestion(Congestion::Loss) if is_random => 0.8,
            _ => 0.5,
        };
        if !self.keys.keep_base_rtt {
            (self.base_rtt, self.samples) = (f64::INFINITY, 0);
        }
        kept * in_use
    }

    fn measure(&mut self, delivery: &Delivery) {
        if let Some(rtt) = delivery.rtt {
            self.rtt = rtt.as_secs_f64();
            self.base_rtt = self.base_rtt.min(self.rtt);
            self.samples += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::CongestionControl;
    use super::super::testing::{Acks, algorithm, avoid, ms};
    use super::*;

    /// With a window of 20, N = 20 (RTT - 100) / RTT is 2.857 at 116.67 ms and 3.004 at 117.7 ms.
    #[test]
    fn a_loss_with_few_segments_in_queues_costs_a_fifth() {
        for (rtt, backlog, kept) in
            [(100.0, 0.0, 16.0), (116.67, 2.857, 16.0), (117.7, 3.007, 10.0)]
        {
            let mut veno = algorithm::<VenoKeys>(20.0);
            let mut acks = Acks::new();
            avoid(&mut veno, 20.0);
            for rtt in [100.0, 100.0, rtt] {
                acks.ack(&mut veno, rtt, 1.0);
                veno.set_cwnd(20.0);
            }
            assert!((veno.backlog().unwrap() - backlog).abs() < 0.002, "{:?}", veno.backlog());
            veno.on_congestion(ms(0.0), Congestion::Loss, 20.0);
            assert_eq!((veno.cwnd(), veno.ssthresh()), (kept, kept), "{rtt}");
            assert_eq!(veno.backlog(), None, "base_rtt is measured again");
        }
    }

    /// Without backlog each ACK adds 1/cwnd; with backlog, the growth takes twice as many ACKs.
    #[test]
    fn a_backlog_halves_the_growth() {
        let by_hand = (0..100).fold(20.0f64, |cwnd, _| cwnd + 1.0 / cwnd);
        for (rtt, count) in [(100.0, 100), (140.0, 200)] {
            let mut veno = algorithm::<VenoKeys>(20.0);
            let mut acks = Acks::new();
            avoid(&mut veno, 20.0);
            for _ in 0..3 {
                acks.ack(&mut veno, 100.0, 1.0);
            }
            veno.set_cwnd(20.0);
            for _ in 0..count {
                acks.ack(&mut veno, rtt, 1.0);
            }
            assert!((veno.cwnd() - by_hand).abs() < 1e-9, "{rtt}: {} {by_hand}", veno.cwnd());
        }
    }

    #[test]
    fn a_timeout_halves_whatever_the_backlog() {
        let mut veno = algorithm::<VenoKeys>(20.0);
        Acks::new().round(&mut veno, 100.0);
        veno.on_timeout(ms(0.0), Some(20.0));
        assert_eq!((veno.cwnd(), veno.ssthresh()), (1.0, 10.0));
    }
}
