//! Window and threshold, and the laws that are a way to grow the one and to choose the other.
//!
//! Most laws of the literature keep TCP's frame (RFC 5681) and change two things in it: by how much an ACK grows the
//! window, and what the threshold becomes after a loss. Such a law holds a [`Window`] and implements [`WindowLaw`];
//! slow start, timeouts, undo and the conversion to bytes are here once.
//!
//! ```text
//!   ACK              grow, if the window was in use (RFC 7661 in short; ns-2 does not ask)
//!   congestion seen  ssthresh = threshold(), at least 2; cwnd = min(cwnd, ssthresh)
//!   timeout          ssthresh = threshold(), once for a segment; cwnd = 1
//!   spurious         cwnd and ssthresh as before the latest of these, unless they are larger now
//! ```

use super::super::config::{Config, Conventions};
use super::hystart::HyStart;
use super::sample::{AckSample, Delivery};
use super::{Congestion, CongestionControl};
use lasthop_base::units::{Duration, Instant};

/// Why a threshold is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// Congestion was seen in the flow of acknowledgments.
    Congestion(Congestion),
    /// The retransmission timer fired.
    Timeout,
}

/// A congestion window and its threshold, in segments with their fractions.
#[derive(Clone, Copy, Debug)]
pub struct Window {
    /// SMSS in bytes.
    segment: u64,
    cwnd: f64,
    /// Slow-start threshold.
    pub ssthresh: f64,
    /// The window in bytes.
    bytes: u64,
    /// Window and threshold before the latest reduction.
    prior: (f64, f64),
    hystart: Option<HyStart>,
    conventions: Conventions,
}

impl Window {
    /// `cwnd` segments to begin with.
    pub fn new(config: &Config, cwnd: f64) -> Self {
        let ssthresh = match config.conventions {
            Conventions::Ns2 => config.receive_window.floor(),
            Conventions::Rfc | Conventions::Linux => f64::INFINITY,
        };
        let mut window = Window {
            segment: config.segment.get(),
            cwnd,
            ssthresh,
            bytes: 0,
            prior: (cwnd, ssthresh),
            hystart: config.hystart.then(|| HyStart::new(config.pacing)),
            conventions: config.conventions,
        };
        window.set(cwnd);
        window
    }

    /// Congestion window, in segments.
    #[inline]
    pub fn cwnd(&self) -> f64 {
        self.cwnd
    }

    /// SMSS in bytes.
    #[inline]
    pub fn segment(&self) -> u64 {
        self.segment
    }

    /// Sets the window, in segments.
    #[inline]
    pub fn set(&mut self, cwnd: f64) {
        self.cwnd = cwnd;
        self.bytes = (cwnd * self.segment as f64) as u64;
    }

    /// Is the window below the threshold?
    #[inline]
    pub fn is_in_slow_start(&self) -> bool {
        self.cwnd < self.ssthresh
    }

    /// For how many segments an ACK counts when the window grows: one, or the part of one that it acknowledges
    /// (RFC 5681, section 3.1); under Linux as many as it delivers, if the window limited the sender.
    #[inline]
    pub fn count(&self, sample: &AckSample) -> f64 {
        match self.conventions {
            Conventions::Ns2 => 1.0,
            Conventions::Rfc => (sample.acked as f64 / self.segment as f64).min(1.0),
            Conventions::Linux if sample.is_window_limited => sample.delivered_segments.into(),
            Conventions::Linux => 0.0,
        }
    }

    /// Grows as slow start does, or says that it is over. The window stops at the threshold.
    #[inline]
    pub fn slow_start(&mut self, sample: &AckSample) -> bool {
        if !self.is_in_slow_start() {
            return false;
        }
        let growth = match &mut self.hystart {
            None => self.count(sample),
            Some(hystart) => {
                let (growth, is_over) = hystart.on_ack(sample, self.segment);
                if is_over {
                    self.ssthresh = self.cwnd;
                }
                growth
            }
        };
        self.set(self.cwnd + growth);
        true
    }

    /// Slow start is over for a loss, a mark or a timeout.
    fn end_hystart(&mut self) {
        if let Some(hystart) = &mut self.hystart {
            hystart.reset();
        }
    }

    /// Grows by one segment in `acks` ACKs. They count as one each, whatever they acknowledge, as in Reno's avoidance;
    /// under Linux as many as they deliver.
    #[inline]
    pub fn avoid(&mut self, sample: &AckSample, acks: f64) {
        let count = match self.conventions {
            Conventions::Linux => self.count(sample),
            Conventions::Ns2 | Conventions::Rfc => 1.0,
        };
        self.set(self.cwnd + count / acks);
    }

    /// Reno's growth: slow start below the threshold, a segment a window from there on.
    #[inline]
    pub fn reno(&mut self, sample: &AckSample) {
        if !self.slow_start(sample) {
            self.avoid(sample, self.cwnd);
        }
    }

    /// The threshold that leaves the window as it is: a loss that is no sign of congestion.
    pub fn unchanged(&self) -> f64 {
        self.ssthresh.max(self.cwnd)
    }

    /// Did the sender use the window before this ACK? In slow start half of it is enough, as it doubles in a round
    /// trip.
    #[inline]
    fn was_in_use(&self, sample: &AckSample) -> bool {
        match self.conventions {
            Conventions::Ns2 => true,
            Conventions::Linux => sample.is_window_limited,
            Conventions::Rfc => {
                let share = if self.is_in_slow_start() { 2 } else { 1 };
                share * (sample.prior_in_flight + self.segment) > self.bytes
            }
        }
    }
}

/// A law in TCP's frame.
pub trait WindowLaw {
    /// Its window.
    fn state(&self) -> &Window;

    /// Its window.
    fn state_mut(&mut self) -> &mut Window;

    /// An ACK for new data arrived outside recovery, and the window had been in use.
    fn grow(&mut self, sample: &AckSample);

    /// The threshold, in segments, after `cause`; `in_use` is what Reno would halve.
    fn threshold(&mut self, now: Instant, cause: Cause, in_use: f64) -> f64;

    /// The window, in segments, after the timer fired; the threshold has been set.
    fn after_timeout(&mut self) -> f64 {
        1.0
    }

    /// See [`CongestionControl::on_delivery`].
    fn measure(&mut self, _delivery: &Delivery) {}

    /// See [`CongestionControl::on_sent`].
    fn note_sent(&mut self, _now: Instant, _bytes: u64) {}

    /// The latest reduction is taken back; window and threshold have been.
    fn undo(&mut self) {}
}

impl<L: WindowLaw> CongestionControl for L {
    #[inline]
    fn on_ack(&mut self, sample: &AckSample) {
        if self.state().was_in_use(sample) {
            self.grow(sample);
        }
    }

    #[inline]
    fn on_delivery(&mut self, delivery: &Delivery) {
        self.measure(delivery);
    }

    fn on_congestion(&mut self, now: Instant, congestion: Congestion, in_use: f64) {
        let ssthresh = self.threshold(now, Cause::Congestion(congestion), in_use).max(2.0);
        let window = self.state_mut();
        window.prior = (window.cwnd, window.ssthresh);
        window.ssthresh = ssthresh;
        window.end_hystart();
        window.set(window.cwnd.min(ssthresh));
    }

    fn on_timeout(&mut self, now: Instant, in_use: Option<f64>) {
        if let Some(in_use) = in_use {
            let ssthresh = self.threshold(now, Cause::Timeout, in_use).max(2.0);
            let window = self.state_mut();
            window.prior = (window.cwnd, window.ssthresh);
            window.ssthresh = ssthresh;
        }
        let cwnd = self.after_timeout();
        self.state_mut().end_hystart();
        self.state_mut().set(cwnd);
    }

    fn on_spurious(&mut self) {
        let window = self.state_mut();
        let (cwnd, ssthresh) = window.prior;
        window.ssthresh = window.ssthresh.max(ssthresh);
        window.set(window.cwnd.max(cwnd));
        self.undo();
    }

    #[inline]
    fn on_sent(&mut self, now: Instant, bytes: u64) {
        self.note_sent(now, bytes);
    }

    #[inline]
    fn window(&self) -> u64 {
        self.state().bytes
    }

    #[inline]
    fn cwnd(&self) -> f64 {
        self.state().cwnd
    }

    fn ssthresh(&self) -> f64 {
        self.state().ssthresh
    }

    fn set_cwnd(&mut self, cwnd: f64) {
        self.state_mut().set(cwnd);
    }

    fn slow_start_to(&mut self, cwnd: f64, ssthresh: f64) {
        self.state_mut().ssthresh = ssthresh;
        self.set_cwnd(cwnd);
    }

    fn pacing_rate(&self, srtt: Duration) -> f64 {
        let window = self.state();
        super::window_over_round_trip(window.bytes, window.is_in_slow_start(), srtt)
    }
}
