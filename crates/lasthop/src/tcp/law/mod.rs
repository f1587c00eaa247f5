//! How much may be outstanding?
//!
//! A law hears of events, never of mechanisms: ACKs for new data outside recovery, congestion (once a
//! window of data), expiries of the timer, losses that were none. It answers with a window in bytes and,
//! if it wants to, a pacing rate. What recovery adds to the window meanwhile (inflation) is not its
//! business.
//!
//! | law | source | file |
//! |---|---|---|
//! | Reno | RFC 5681; ns-2's arithmetic | `reno.rs` |
//! | CUBIC | RFC 9438 | `cubic.rs` |
//!
//! HyStart++ (RFC 9406, `hystart.rs`) ends the slow start of any law that has one.

mod cubic;
mod hystart;
mod reno;

use super::config::{Config, Conventions, LawKind};
use crate::units::{Duration, Instant};

/// What a law learns from an ACK.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AckSample {
    /// When the ACK arrived.
    pub now: Instant,
    /// Bytes that it acknowledges for the first time.
    pub acked: u64,
    /// Bytes that were outstanding before it arrived.
    pub prior_in_flight: u64,
    /// Oldest unacknowledged byte after it (SND.UNA).
    pub snd_una: u64,
    /// One past the highest byte sent.
    pub snd_max: u64,
    /// Round-trip time of the segment that it acknowledges, if known without ambiguity.
    pub rtt: Option<Duration>,
    /// Smoothed round-trip time; zero before the first sample.
    pub srtt: Duration,
}

/// A sign of congestion, at most one for each window of data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Congestion {
    /// A segment was lost.
    Loss,
    /// The path marked a segment instead (RFC 3168).
    Ecn,
}

/// A congestion control law. Windows are in bytes at this interface; inside, a law counts as its
/// source does.
pub trait CongestionLaw {
    /// An ACK for new data arrived outside recovery.
    fn on_ack(&mut self, sample: &AckSample);

    /// Congestion was seen, once for each window of data. `in_use`: what a reduction is computed from,
    /// in segments of SMSS (the flight size; ns-2: the window).
    fn on_congestion(&mut self, now: Instant, congestion: Congestion, in_use: f64);

    /// The retransmission timer fired; `in_use` as above, or `None` if it fired for the same segment
    /// before, which reduces the threshold once only.
    fn on_timeout(&mut self, in_use: Option<f64>);

    /// A segment was lost for another reason than congestion, as the network or the link said.
    fn on_explicit_loss(&mut self) {}

    /// The latest reduction answered a loss that was none: take it back (RFC 4015, RFC 9438 4.9).
    fn on_spurious(&mut self);

    /// `bytes` left at `now`.
    fn on_sent(&mut self, _now: Instant, _bytes: u64) {}

    /// Congestion window in bytes.
    fn window(&self) -> u64;

    /// Congestion window in segments of SMSS, with its fraction.
    fn cwnd(&self) -> f64;

    /// Slow-start threshold in segments; infinite before the first reduction of most laws.
    fn ssthresh(&self) -> f64;

    /// Sets the window, in segments: after the handshake, and by recoveries that deflate it.
    fn set_cwnd(&mut self, cwnd: f64);

    /// Bytes a second at which segments should leave, if pacing is on and the round trip `srtt` is
    /// known.
    fn pacing_rate(&self, srtt: Duration) -> f64 {
        window_over_round_trip(self.window(), self.cwnd() < self.ssthresh(), srtt)
    }
}

/// Pacing gains: a window in less than a round trip, so that pacing never holds the window back.
/// Linux's `tcp_pacing_ss_ratio` and `tcp_pacing_ca_ratio`.
const SLOW_START_GAIN: f64 = 2.0;
const AVOIDANCE_GAIN: f64 = 1.2;

fn window_over_round_trip(window: u64, in_slow_start: bool, srtt: Duration) -> f64 {
    let gain = if in_slow_start { SLOW_START_GAIN } else { AVOIDANCE_GAIN };
    gain * window as f64 / srtt.as_secs_f64()
}

/// The law of a connection.
#[derive(Clone, Debug)]
pub(super) enum Law {
    /// Reno in ns-2's arithmetic.
    RenoNs2(reno::Reno<reno::Ns2>),
    /// Reno by RFC 5681.
    Reno(reno::Reno<reno::Rfc5681>),
    /// CUBIC. Apart from the others in memory: it is several times their size.
    Cubic(Box<cubic::Cubic>),
}

macro_rules! each {
    ($law:expr, $inner:ident => $does:expr) => {
        match $law {
            Law::RenoNs2($inner) => $does,
            Law::Reno($inner) => $does,
            Law::Cubic($inner) => $does,
        }
    };
}

impl Law {
    /// The law that `config` names, with a window of `cwnd` segments.
    pub fn new(config: &Config, cwnd: f64) -> Self {
        match (config.law, config.conventions) {
            (LawKind::Reno, Conventions::Ns2) => Law::RenoNs2(reno::Reno::new(config, cwnd)),
            (LawKind::Reno, Conventions::Rfc) => Law::Reno(reno::Reno::new(config, cwnd)),
            (LawKind::Cubic, _) => Law::Cubic(Box::new(cubic::Cubic::new(config, cwnd))),
        }
    }

    /// Takes the law away, with its memory; what stays is never asked.
    pub fn take(&mut self) -> Law {
        let left = match self {
            Law::RenoNs2(reno) => Law::RenoNs2(*reno),
            Law::Reno(reno) => Law::Reno(*reno),
            Law::Cubic(_) => Law::Reno(reno::Reno::idle()),
        };
        std::mem::replace(self, left)
    }

    /// Begins anew in place, without allocation.
    pub fn reset(&mut self, config: &Config, cwnd: f64) {
        match self {
            Law::RenoNs2(reno) => *reno = reno::Reno::new(config, cwnd),
            Law::Reno(reno) => *reno = reno::Reno::new(config, cwnd),
            Law::Cubic(cubic) => **cubic = cubic::Cubic::new(config, cwnd),
        }
    }
}

impl CongestionLaw for Law {
    #[inline(always)]
    fn on_ack(&mut self, sample: &AckSample) {
        each!(self, law => law.on_ack(sample));
    }

    fn on_congestion(&mut self, now: Instant, congestion: Congestion, in_use: f64) {
        each!(self, law => law.on_congestion(now, congestion, in_use));
    }

    fn on_timeout(&mut self, in_use: Option<f64>) {
        each!(self, law => law.on_timeout(in_use));
    }

    fn on_explicit_loss(&mut self) {
        each!(self, law => law.on_explicit_loss());
    }

    fn on_spurious(&mut self) {
        each!(self, law => law.on_spurious());
    }

    #[inline]
    fn on_sent(&mut self, now: Instant, bytes: u64) {
        each!(self, law => law.on_sent(now, bytes));
    }

    #[inline]
    fn window(&self) -> u64 {
        each!(self, law => law.window())
    }

    #[inline]
    fn cwnd(&self) -> f64 {
        each!(self, law => law.cwnd())
    }

    fn ssthresh(&self) -> f64 {
        each!(self, law => law.ssthresh())
    }

    fn set_cwnd(&mut self, cwnd: f64) {
        each!(self, law => law.set_cwnd(cwnd));
    }

    fn pacing_rate(&self, srtt: Duration) -> f64 {
        each!(self, law => law.pacing_rate(srtt))
    }
}
