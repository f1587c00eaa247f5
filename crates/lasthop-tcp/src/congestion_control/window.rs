//! Congestion window, slow-start threshold, and the interface of algorithms that only change their
//! growth and reduction.
//!
//! Most algorithms in the literature keep the structure of RFC 5681 and change two rules: how much
//! an ACK grows the window, and the threshold after a loss. Such an algorithm holds a [`Window`]
//! and implements [`WindowLaw`]. Slow start, timeouts, undo and the conversion to bytes are
//! implemented here.
//!
//! ```text
//!   ACK         grow, if the window was in use (simplified RFC 7661; always in ns-2)
//!   congestion  ssthresh = threshold(), at least 2; cwnd = min(cwnd, ssthresh)
//!   timeout     ssthresh = threshold(), once per segment; cwnd = 1
//!   spurious    restore cwnd and ssthresh from before the latest reduction, unless they are larger now
//! ```

use super::super::config::{Config, Profile};
use super::hystart::HyStart;
use super::sample::{AckSample, Delivery};
use super::{Congestion, CongestionControl};
use lasthop_base::units::{Duration, Instant};

/// Reason for computing a threshold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// A congestion signal in the flow of ACKs.
    Congestion(Congestion),
    /// An expiry of the retransmission timer.
    Timeout,
}

/// Congestion window and slow-start threshold, in fractional segments.
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
    profile: Profile,
}

impl Window {
    /// Creates a window of `cwnd` segments.
    pub fn new(config: &Config, cwnd: f64) -> Self {
        let ssthresh = match config.profile {
            Profile::Ns2 => config.receive_window.floor(),
            Profile::Rfc | Profile::Linux => f64::INFINITY,
        };
        let mut window = Window {
            segment: config.segment.get(),
            cwnd,
            ssthresh,
            bytes: 0,
            prior: (cwnd, ssthresh),
            hystart: config.hystart.then(|| HyStart::new(config.pacing)),
            profile: config.profile,
        };
        window.set(cwnd);
        window
    }

    /// Returns the congestion window in segments.
    #[inline]
    pub fn cwnd(&self) -> f64 {
        self.cwnd
    }

    /// Returns the SMSS in bytes.
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

    /// Returns `true` if the window is below the threshold.
    #[inline]
    pub fn is_in_slow_start(&self) -> bool {
        self.cwnd < self.ssthresh
    }

    /// Returns the number of segments for which an ACK grows the window. It is 1, or the fraction
    /// of a segment that the ACK acknowledges (RFC 5681, section 3.1). Linux: the number of
    /// segments delivered, if the window limited the sender.
    #[inline]
    pub fn count(&self, sample: &AckSample) -> f64 {
        match self.profile {
            Profile::Ns2 => 1.0,
            Profile::Rfc => (sample.acked as f64 / self.segment as f64).min(1.0),
            Profile::Linux if sample.is_window_limited => sample.delivered_segments.into(),
            Profile::Linux => 0.0,
        }
    }

    /// Grows the window in slow start. Returns `false` if the window has reached the threshold.
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

    /// Ends HyStart++ after a loss, a mark or a timeout.
    fn end_hystart(&mut self) {
        if let Some(hystart) = &mut self.hystart {
            hystart.reset();
        }
    }

    /// Grows the window by one segment per `acks` ACKs. Each counts as 1, regardless of the bytes
    /// it acknowledges, as in Reno's congestion avoidance. Linux: each counts as the segments it
    /// delivers.
    #[inline]
    pub fn avoid(&mut self, sample: &AckSample, acks: f64) {
        let count = match self.profile {
            Profile::Linux => self.count(sample),
            Profile::Ns2 | Profile::Rfc => 1.0,
        };
        self.set(self.cwnd + count / acks);
    }

    /// Grows the window like Reno: slow start below the threshold, then one segment per window.
    #[inline]
    pub fn reno(&mut self, sample: &AckSample) {
        if !self.slow_start(sample) {
            self.avoid(sample, self.cwnd);
        }
    }

    /// Returns the threshold that does not reduce the window, for a loss that does not indicate
    /// congestion.
    pub fn unchanged(&self) -> f64 {
        self.ssthresh.max(self.cwnd)
    }

    /// Returns `true` if the sender used the window before this ACK. In slow start half of the
    /// window suffices, because it doubles every RTT.
    #[inline]
    fn was_in_use(&self, sample: &AckSample) -> bool {
        match self.profile {
            Profile::Ns2 => true,
            Profile::Linux => sample.is_window_limited,
            Profile::Rfc => {
                let share = if self.is_in_slow_start() { 2 } else { 1 };
                share * (sample.prior_in_flight + self.segment) > self.bytes
            }
        }
    }
}

/// Algorithm with the structure of RFC 5681.
pub trait WindowLaw {
    /// Returns the window.
    fn state(&self) -> &Window;

    /// Returns the window for changes.
    fn state_mut(&mut self) -> &mut Window;

    /// Grows the window, by default like Reno: an ACK for new data arrived outside recovery, and the
    /// window had been in use.
    #[inline]
    fn grow(&mut self, sample: &AckSample) {
        self.state_mut().reno(sample);
    }

    /// Returns the threshold in segments after `cause`; Reno would halve `in_use`.
    fn threshold(&mut self, now: Instant, cause: Cause, in_use: f64) -> f64;

    /// Returns the window in segments after a timeout; the threshold has been set.
    fn after_timeout(&mut self) -> f64 {
        1.0
    }

    /// See [`CongestionControl::on_delivery`].
    fn measure(&mut self, _delivery: &Delivery) {}

    /// See [`CongestionControl::on_sent`].
    fn note_sent(&mut self, _now: Instant, _bytes: u64) {}

    /// Undoes the latest reduction in the algorithm's own state; window and threshold have been
    /// restored.
    fn undo(&mut self) {}
}

/// Expands to the accessors of a [`WindowLaw`] that holds its [`Window`] in the field `window`.
macro_rules! window_field {
    () => {
        fn state(&self) -> &Window {
            &self.window
        }

        fn state_mut(&mut self) -> &mut Window {
            &mut self.window
        }
    };
}

pub(super) use window_field;

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
