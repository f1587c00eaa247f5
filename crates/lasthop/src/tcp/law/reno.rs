//! Reno's window (RFC 5681, section 3).
//!
//! ```text
//!   slow start        cwnd < ssthresh   each ACK: cwnd += min(N, SMSS) / SMSS (ns-2: += 1)
//!   avoidance         cwnd >= ssthresh  each ACK: cwnd += 1/cwnd
//!   congestion seen   ssthresh = cwnd = half of what was in use
//!   timeout           ssthresh = half of what was in use, cwnd = 1
//! ```
//!
//! N is what the ACK acknowledges, in bytes. The window counts segments with a fraction, as the
//! literature's figures do. What differs between the RFC and ns-2 is an [`Arithmetic`].
//!
//! *Not modelled*: appropriate byte counting (RFC 3465), congestion window validation (RFC 7661).

use super::super::config::Config;
use super::hystart::HyStart;
use super::{AckSample, Congestion, CongestionLaw};
use crate::schema::keys::table;
use crate::units::Instant;
use std::marker::PhantomData;

table! {
    /// Additive increase, multiplicative decrease (RFC 5681).
    pub struct RenoKeys as "reno" {}
}

impl Copy for RenoKeys {}

/// Share of the window that a mark leaves under RFC 8511, section 3.1.
const ABE_SHARE: f64 = 0.8;

/// How a window is counted.
pub trait Arithmetic {
    /// What slow start adds for an ACK of `acked` bytes, in segments.
    fn slow_start(acked: u64, segment: u64) -> f64;
    /// The window in bytes.
    fn bytes(cwnd: f64, segment: u64) -> u64;
    /// Threshold and window, in segments, after a reduction of `in_use`.
    fn halve(in_use: f64) -> (f64, f64);
    /// Threshold at the beginning, in segments.
    fn initial_ssthresh(config: &Config) -> f64;
}

/// ns-2: windows are whole packets, the threshold is an integer, the window keeps its fraction.
#[derive(Clone, Copy, Debug)]
pub struct Ns2;

impl Arithmetic for Ns2 {
    #[inline]
    fn slow_start(_acked: u64, _segment: u64) -> f64 {
        1.0
    }

    #[inline]
    fn bytes(cwnd: f64, segment: u64) -> u64 {
        u64::from(cwnd as u32) * segment
    }

    fn halve(in_use: f64) -> (f64, f64) {
        ((in_use / 2.0).floor().max(2.0), in_use / 2.0)
    }

    fn initial_ssthresh(config: &Config) -> f64 {
        config.receive_window.floor()
    }
}

/// RFC 5681: fractions of a segment count.
#[derive(Clone, Copy, Debug)]
pub struct Rfc5681;

impl Arithmetic for Rfc5681 {
    /// Section 3.1: cwnd += min(N, SMSS), against ACKs of parts of a segment.
    #[inline]
    fn slow_start(acked: u64, segment: u64) -> f64 {
        if acked < segment { acked as f64 / segment as f64 } else { 1.0 }
    }

    #[inline]
    fn bytes(cwnd: f64, segment: u64) -> u64 {
        (cwnd * segment as f64) as u64
    }

    fn halve(in_use: f64) -> (f64, f64) {
        let half = (in_use / 2.0).max(2.0);
        (half, half)
    }

    fn initial_ssthresh(_config: &Config) -> f64 {
        f64::INFINITY
    }
}

/// Additive increase, multiplicative decrease.
#[derive(Clone, Copy, Debug)]
pub struct Reno<A> {
    /// SMSS in bytes.
    segment: u64,
    cwnd: f64,
    ssthresh: f64,
    /// The window in bytes.
    window: u64,
    hystart: Option<HyStart>,
    /// Window and threshold before the latest reduction.
    prior: (f64, f64),
    /// Share of the window that a mark leaves: a half, or more (RFC 8511).
    marked_share: f64,
    arithmetic: PhantomData<A>,
}

impl<A: Arithmetic> Reno<A> {
    /// `cwnd` segments to begin with.
    pub fn new(config: &Config, cwnd: f64) -> Self {
        let segment = config.segment.get();
        let ssthresh = A::initial_ssthresh(config);
        Reno {
            segment,
            cwnd,
            ssthresh,
            window: A::bytes(cwnd, segment),
            hystart: config.hystart.then(|| HyStart::new(config.pacing)),
            prior: (cwnd, ssthresh),
            marked_share: if config.abe { ABE_SHARE } else { 0.5 },
            arithmetic: PhantomData,
        }
    }

    #[inline]
    fn set(&mut self, cwnd: f64) {
        self.cwnd = cwnd;
        self.window = A::bytes(cwnd, self.segment);
    }

    /// Growth of slow start under HyStart++, in segments.
    #[cold]
    fn hystart(&mut self, sample: AckSample) -> f64 {
        let Some(hystart) = &mut self.hystart else {
            return A::slow_start(sample.acked, self.segment);
        };
        let (growth, is_over) = hystart.on_ack(&sample, self.segment);
        if is_over {
            self.ssthresh = self.cwnd;
        }
        growth
    }

    fn end_hystart(&mut self) {
        if let Some(hystart) = &mut self.hystart {
            hystart.reset();
        }
    }
}

impl<A: Arithmetic> CongestionLaw for Reno<A> {
    #[inline(always)]
    fn on_ack(&mut self, sample: &AckSample) {
        let growth = if self.cwnd >= self.ssthresh {
            1.0 / self.cwnd
        } else if self.hystart.is_none() {
            A::slow_start(sample.acked, self.segment)
        } else {
            self.hystart(*sample)
        };
        self.set(self.cwnd + growth);
    }

    fn on_congestion(&mut self, _now: Instant, congestion: Congestion, in_use: f64) {
        self.prior = (self.cwnd, self.ssthresh);
        self.end_hystart();
        let keeps = if congestion == Congestion::Ecn { self.marked_share } else { 0.5 };
        let (ssthresh, cwnd) = A::halve(2.0 * keeps * in_use);
        self.ssthresh = ssthresh;
        self.set(cwnd);
    }

    fn on_timeout(&mut self, _now: Instant, in_use: Option<f64>) {
        if let Some(in_use) = in_use {
            self.prior = (self.cwnd, self.ssthresh);
            self.ssthresh = A::halve(in_use).0;
        }
        self.end_hystart();
        self.set(1.0);
    }

    /// RFC 4015, section 3.2: the threshold comes back, and the window with it.
    fn on_spurious(&mut self) {
        let (cwnd, ssthresh) = self.prior;
        self.ssthresh = self.ssthresh.max(ssthresh);
        self.set(self.cwnd.max(cwnd));
    }

    #[inline]
    fn window(&self) -> u64 {
        self.window
    }

    #[inline]
    fn cwnd(&self) -> f64 {
        self.cwnd
    }

    fn ssthresh(&self) -> f64 {
        self.ssthresh
    }

    fn set_cwnd(&mut self, cwnd: f64) {
        self.set(cwnd);
    }

    fn slow_start_to(&mut self, cwnd: f64, ssthresh: f64) {
        self.ssthresh = ssthresh;
        self.set(cwnd);
    }
}
