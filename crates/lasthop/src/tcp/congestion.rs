//! How much may be outstanding: Reno's window (RFC 5681, section 3).
//!
//! ```text
//!   slow start        cwnd < ssthresh   each ACK: cwnd += min(N, SMSS) / SMSS (ns-2: += 1)
//!   avoidance         cwnd >= ssthresh  each ACK: cwnd += 1/cwnd
//!   congestion seen   ssthresh = cwnd = half of what was in use
//!   timeout           ssthresh = half of what was in use, cwnd = 1
//! ```
//!
//! N is what the ACK acknowledges, in bytes. The window counts segments, as the literature's figures
//! do. *Not modelled*: appropriate byte
//! counting (RFC 3465), congestion window validation (RFC 7661).

use super::config::{Config, Conventions};

/// A congestion control law. One event per window of data reaches it, never one per lost segment.
pub trait CongestionControl {
    /// An ACK for `acked` bytes of new data arrived outside recovery.
    fn on_ack(&mut self, acked: u64);
    /// Congestion was seen, once per window; `in_use` segments were allowed or in flight.
    fn on_congestion(&mut self, in_use: f64);
    /// The retransmission timer fired.
    fn on_timeout(&mut self, in_use: f64);
    /// Congestion window in segments.
    fn window(&self) -> f64;
}

/// Reno's additive increase, multiplicative decrease.
#[derive(Clone, Copy, Debug)]
pub struct Reno {
    conventions: Conventions,
    /// SMSS in bytes.
    segment: u64,
    cwnd: f64,
    ssthresh: f64,
}

impl Reno {
    /// `cwnd` segments to begin with; slow start lasts up to the receive window.
    pub fn new(config: &Config, cwnd: f64) -> Self {
        let ssthresh = match config.conventions {
            Conventions::Ns2 => config.receive_window.floor(),
            Conventions::Rfc => f64::INFINITY,
        };
        Reno { conventions: config.conventions, segment: config.segment.get(), cwnd, ssthresh }
    }

    /// Slow-start threshold in segments.
    pub fn ssthresh(&self) -> f64 {
        self.ssthresh
    }

    /// Recovery arithmetic (window deflation, exit clamp) sets the window directly.
    pub(super) fn set_window(&mut self, cwnd: f64) {
        self.cwnd = cwnd;
    }

    fn half(&self, in_use: f64) -> f64 {
        match self.conventions {
            // The threshold is an integer there; the window keeps the fraction.
            Conventions::Ns2 => (in_use / 2.0).floor().max(2.0),
            Conventions::Rfc => (in_use / 2.0).max(2.0),
        }
    }
}

impl CongestionControl for Reno {
    #[inline]
    fn on_ack(&mut self, acked: u64) {
        self.cwnd += if self.cwnd >= self.ssthresh {
            1.0 / self.cwnd
        } else if acked < self.segment && self.conventions == Conventions::Rfc {
            // RFC 5681, section 3.1: cwnd += min(N, SMSS), against ACKs of parts of a segment.
            acked as f64 / self.segment as f64
        } else {
            1.0
        };
    }

    fn on_congestion(&mut self, in_use: f64) {
        self.ssthresh = self.half(in_use);
        self.cwnd = match self.conventions {
            Conventions::Ns2 => in_use / 2.0,
            Conventions::Rfc => self.ssthresh,
        };
    }

    fn on_timeout(&mut self, in_use: f64) {
        self.ssthresh = self.half(in_use);
        self.cwnd = 1.0;
    }

    #[inline]
    fn window(&self) -> f64 {
        self.cwnd
    }
}
