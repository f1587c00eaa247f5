//! DCTCP (RFC 8257): marks reduce the window by the fraction of marked segments.
//!
//! ```text
//!   at the end of a window   alpha = (1 - g) alpha + g M       M: fraction of marked bytes (`mark_share.rs`)
//!   marks, once a window     ssthresh = cwnd = cwnd (1 - alpha/2)
//!   loss, timeout            as Reno
//!   growth                   as Reno
//! ```
//!
//! DCTCP is intended for queues that mark every segment above a low threshold (`step`). The
//! receiver echoes the mark of each segment (`ecn.rs`), and ECN is on.
//!
//! *Not modelled*: marks on SYNs and retransmissions; the timer backoff at a window of two segments
//! (section 3.5).

use super::super::config::Config;
use super::Congestion;
use super::family::{AlgorithmKeys, Marks};
use super::mark_share::{GAIN, MarkShare};
use super::sample::Delivery;
use super::window::{Cause, Window, WindowLaw, window_field};
use lasthop_base::schema::keys::table;
use lasthop_base::units::Instant;

table! {
    /// DCTCP (RFC 8257): the fraction of marked segments determines the reduction of the window.
    pub struct DctcpKeys as "dctcp" {}
}

impl Copy for DctcpKeys {}

impl AlgorithmKeys for DctcpKeys {
    type Machine = Dctcp;

    const MARKS: Marks = Marks::Share;

    fn build(&self, config: &Config, cwnd: f64) -> Dctcp {
        Dctcp { window: Window::new(config, cwnd), share: MarkShare::new(GAIN), end: 0 }
    }
}

/// DCTCP's window.
#[derive(Clone, Copy, Debug)]
pub struct Dctcp {
    window: Window,
    share: MarkShare,
    /// The current window ends when SND.UNA exceeds this sequence number.
    end: u64,
}

impl WindowLaw for Dctcp {
    window_field!();

    fn threshold(&mut self, _now: Instant, cause: Cause, in_use: f64) -> f64 {
        match cause {
            Cause::Congestion(Congestion::Ecn) => {
                self.window.cwnd() * (1.0 - self.share.alpha / 2.0)
            }
            Cause::Congestion(Congestion::Loss) | Cause::Timeout => in_use / 2.0,
        }
    }

    fn measure(&mut self, delivery: &Delivery) {
        self.share.add(delivery);
        if delivery.snd_una > self.end {
            self.share.end();
            self.end = delivery.snd_max;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::CongestionControl;
    use super::super::testing::{Acks, algorithm, avoid, ms};
    use super::*;

    /// alpha decreases by 1/16 in each window without marks, and converges to a steady fraction of
    /// marks. With one segment in four marked, a window of 20 is reduced to 17.5.
    #[test]
    fn alpha_is_the_share_of_marks() {
        let mut algorithm = algorithm::<DctcpKeys>(20.0);
        avoid(&mut algorithm, 20.0);
        let mut acks = Acks::new();
        for windows in 1..=20 {
            let end = algorithm.end;
            while algorithm.end == end {
                acks.ack(&mut algorithm, 100.0, 5.0);
                algorithm.set_cwnd(20.0);
            }
            let by_hand = (15.0f64 / 16.0).powi(windows);
            assert!(
                (algorithm.share.alpha - by_hand).abs() < 1e-12,
                "{windows}: {}",
                algorithm.share.alpha
            );
        }
        for segment in 0..4_000 {
            acks.is_marked = segment % 4 == 0;
            acks.ack(&mut algorithm, 100.0, 5.0);
            algorithm.set_cwnd(20.0);
        }
        assert!((algorithm.share.alpha - 0.25).abs() < 0.01, "{}", algorithm.share.alpha);
        algorithm.on_congestion(ms(acks.now), Congestion::Ecn, 20.0);
        assert!((algorithm.cwnd() - 17.5).abs() < 0.1 && algorithm.cwnd() == algorithm.ssthresh());
        algorithm.on_congestion(ms(acks.now), Congestion::Loss, 16.0);
        assert_eq!(algorithm.cwnd(), 8.0);
    }

    /// Section 3.3: alpha is 1 initially, so that the first mark halves the window.
    #[test]
    fn the_first_mark_halves() {
        let mut algorithm = algorithm::<DctcpKeys>(20.0);
        algorithm.on_congestion(ms(0.0), Congestion::Ecn, 20.0);
        assert_eq!((algorithm.cwnd(), algorithm.ssthresh()), (10.0, 10.0));
    }
}
