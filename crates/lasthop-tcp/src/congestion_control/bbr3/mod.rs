//! BBR version 3 (draft-ietf-ccwg-bbr-06), whose names it keeps.
//!
//! ```text
//!   model    max_bw: the highest delivery rate of this and the last cycle      min_rtt: the least of the last 10 s
//!            long term: inflight_longterm, what the path held without losing 2 %
//!            short term: bw_shortterm, inflight_shortterm, what it delivered in a round trip with losses, at least 0.7 of
//!            before
//!            extra_acked: by how much ACKs came ahead of the bandwidth, the most of 10 round trips
//!   answer   pacing at 0.99 gain min(max_bw, bw_shortterm)
//!            cwnd up to gain bdp + extra_acked, at least 3 bursts; below inflight_longterm (less 15 % in CRUISE) and
//!            inflight_shortterm; at least 4 segments
//!
//!   STARTUP --------------------------------> DRAIN -----> PROBE_BW: DOWN --> CRUISE --> REFILL --> UP --> DOWN
//!   pacing 2.77, cwnd 2                       0.5, 2                 0.9       1          1          1.25
//!   until the rate grew by less than a quarter in 3 round trips, or a round trip of recovery lost 2 % in 6 places
//!
//!   DRAIN    until in flight is at most the bdp, or for 3 round trips
//!   DOWN     until in flight is at most the bdp and 85 % of inflight_longterm
//!   CRUISE   2 to 3 s after DOWN began, or after as many round trips as Reno would take to grow to the bdp, at most 63
//!   REFILL   a round trip without the short-term bounds
//!   UP       inflight_longterm grows by 1, 2, 4 … segments a round trip while it is used;
//!            until the rate stops to grow, or 2 % are lost: inflight_longterm = what was in flight then, at least 0.7 of
//!            the target. The next UP ends as soon as that is in flight; if nothing was lost by it, REFILL follows at once
//!   PROBE_RTT   from anywhere once 5 s have shown no lower round trip: cwnd of half a bdp for 200 ms and a round trip
//! ```
//!
//! Recoveries leave the window to the model; after a timeout it is a segment. The window of before comes back at their end,
//! and if the losses were none, so do the bounds and the phase. A mark counts as a loss of its round trip (section 3.7).
//! Where the draft draws random numbers, the time at which the phase begins stands for them, so that a law needs none.
//! Losses that an ACK shows count from the next one on, as detection of losses comes after the law here.
//!
//! *Not modelled*: bursts of several segments, which only their budget knows; what is in flight counts lost segments until
//! they are repaired; a response to ECN of its own, which the draft leaves open; requests for ACKs.

mod cycle;
mod model;
mod phase;
#[cfg(test)]
mod tests;

use super::super::config::Config;
use super::family::LawKeys;
use super::sample::{AckSample, Delivery, LostSegment};
use super::{Congestion, CongestionControl};
use cycle::{Cycle, Probe};
use lasthop_base::schema::keys::table;
use lasthop_base::units::{Duration, Instant};
use model::{Ack, Derived, Excess, Losses, Undo};
use phase::{Acks, Phase, Plateau, STARTUP_GAIN};

/// Share of what is in flight whose loss means that it was too much.
const LOSS_THRESHOLD: f64 = 0.02;
/// Ranges lost in a round trip that end STARTUP.
const STARTUP_RANGES: u32 = 6;
/// What losses leave of the bounds.
const BETA: f64 = 0.7;
/// Share of inflight_longterm that CRUISE leaves to others.
const HEADROOM: f64 = 0.15;
const MIN_RTT_LIFE: Duration = Duration::from_secs(10);
const PROBE_RTT_INTERVAL: Duration = Duration::from_secs(5);
const PROBE_RTT_TIME: Duration = Duration::from_millis(200);
/// Least window, in segments.
const LEAST: f64 = 4.0;
const PACING_MARGIN: f64 = 0.99;
/// Round trips at most between two probes for bandwidth.
const MOST_ROUNDS: f64 = 63.0;
/// A burst (`send_quantum`) is what the pacing rate sends in so many seconds, between 2 segments and so many bytes.
const QUANTUM_TIME: f64 = 1e-3;
const MOST_QUANTUM: f64 = 65_536.0;
/// Bursts for which there is room in any case: in the sender's queue, in its interface, at the receiver.
const QUANTA: f64 = 3.0;

table! {
    /// BBR version 3: BBR that keeps losses below 2 % and leaves room to others.
    pub struct Bbr3Keys as "bbr3" {}
}

impl Copy for Bbr3Keys {}

impl LawKeys for Bbr3Keys {
    type Machine = Bbr3;

    const PACES: bool = true;

    const READS_RATES: bool = true;

    fn build(&self, config: &Config, cwnd: f64) -> Bbr3 {
        Bbr3::new(config, cwnd)
    }
}

/// A number of bytes or nanoseconds. None has 63 bits, and a signed one converts in one instruction.
#[inline(always)]
fn real(number: u64) -> f64 {
    number as i64 as f64
}

/// The larger of two numbers that are none of them NaN, in one instruction.
#[inline(always)]
fn larger(one: f64, other: f64) -> f64 {
    if one > other { one } else { other }
}

/// The smaller of them.
#[inline(always)]
fn smaller(one: f64, other: f64) -> f64 {
    if one < other { one } else { other }
}

/// BBR's window and rate. Volumes are in bytes, rates in bytes a nanosecond if not said otherwise.
#[derive(Clone, Copy, Debug)]
pub struct Bbr3 {
    /// SMSS.
    segment: f64,
    /// Four of them.
    least: f64,
    has_sack: bool,
    cwnd: f64,
    initial_cwnd: f64,
    /// Window to come back to after a recovery or PROBE_RTT.
    prior_cwnd: f64,
    phase: Phase,
    acks: Acks,
    /// Highest rates of the last cycle and of this one.
    max_bw: [f64; 2],
    bw_shortterm: f64,
    inflight_longterm: f64,
    inflight_shortterm: f64,
    excess: Excess,
    derived: Derived,
    losses: Losses,
    undo: Undo,
    /// A round trip ends when a segment is acknowledged that left after so many bytes had been delivered.
    next_round: u64,
    is_round_over: bool,
    /// Round trips so far.
    rounds: u32,
    min_rtt: Option<Duration>,
    min_rtt_at: Instant,
    /// The least round trip by which PROBE_RTT goes.
    probe_rtt: Option<Duration>,
    probe_rtt_at: Instant,
    full_bw: Plateau,
    full_bw_reached: bool,
    cycle: Cycle,
    probe: Probe,
    /// A recovery goes on until this byte is acknowledged.
    recovery: Option<u64>,
    /// Pacing rate, bytes a second; zero before the first sample.
    rate: f64,
    /// Volume that bursts need.
    floor: f64,
    /// Nothing was in flight after the latest ACK, and nothing has left since.
    is_idle: bool,
    /// Sending began again after that; PROBE_RTT need not empty the path.
    restarts: bool,
    latest: Latest,
}

/// What is remembered of the latest ACK, in bytes.
#[derive(Clone, Copy, Debug, Default)]
struct Latest {
    now: Instant,
    snd_max: u64,
    /// Delivered since the connection began.
    total: u64,
}

impl Bbr3 {
    fn new(config: &Config, cwnd: f64) -> Self {
        let segment = config.segment.get() as f64;
        let mut bbr = Bbr3 {
            segment,
            least: LEAST * segment,
            has_sack: config.sack,
            cwnd: cwnd * segment,
            initial_cwnd: config.initial_window * segment,
            prior_cwnd: cwnd * segment,
            phase: Phase::Startup,
            acks: Acks::Plain,
            max_bw: [0.0; 2],
            bw_shortterm: f64::INFINITY,
            inflight_longterm: f64::INFINITY,
            inflight_shortterm: f64::INFINITY,
            excess: Excess::new(),
            derived: Derived::default(),
            losses: Losses::default(),
            undo: Undo {
                phase: None,
                bw_shortterm: f64::INFINITY,
                inflight_shortterm: f64::INFINITY,
                inflight_longterm: f64::INFINITY,
            },
            next_round: 0,
            is_round_over: false,
            rounds: 0,
            min_rtt: None,
            min_rtt_at: Instant::ZERO,
            probe_rtt: None,
            probe_rtt_at: Instant::ZERO,
            full_bw: Plateau::default(),
            full_bw_reached: false,
            cycle: Cycle { at: Instant::ZERO, wait: Duration::ZERO, rounds: 0 },
            probe: Probe::new(),
            recovery: None,
            rate: 0.0,
            floor: 2.0 * QUANTA * segment,
            is_idle: false,
            restarts: false,
            latest: Latest::default(),
        };
        bbr.derive();
        bbr
    }

    /// SaveCwnd().
    fn save_cwnd(&mut self) {
        let is_reduced = self.recovery.is_some() || self.phase.is_probe_rtt();
        self.prior_cwnd = if is_reduced { self.prior_cwnd.max(self.cwnd) } else { self.cwnd };
    }

    /// RestoreCwnd().
    fn restore_cwnd(&mut self) {
        self.cwnd = self.cwnd.max(self.prior_cwnd);
    }

    /// SetPacingRate(), SetSendQuantum().
    #[inline]
    fn set_rate(&mut self, rate: f64) {
        if rate != self.rate && (self.full_bw_reached || rate > self.rate) {
            self.rate = rate;
            let quantum = (rate * QUANTUM_TIME).min(MOST_QUANTUM).max(2.0 * self.segment);
            self.floor = QUANTA * quantum;
        }
    }

    /// SetCwnd(): `delivered` bytes are new.
    #[inline]
    fn set_cwnd_from(&mut self, delivery: &Delivery, delivered: f64) {
        if self.recovery.is_some_and(|end| delivery.snd_una >= end) {
            self.recovery = None;
            self.restore_cwnd();
        }
        let max_inflight = self.with_budget(self.derived.window + self.excess.most());
        if self.full_bw_reached {
            self.cwnd = smaller(self.cwnd + delivered, max_inflight);
        } else if self.cwnd < max_inflight || real(delivery.total) < self.initial_cwnd {
            self.cwnd += delivered;
        }
        self.cwnd = smaller(larger(self.cwnd, self.least), self.cap());
    }

    /// BoundCwndForProbeRTT(), BoundCwndForModel().
    #[inline]
    fn cap(&self) -> f64 {
        let longterm = match self.phase {
            Phase::Cruise => self.with_headroom(),
            Phase::ProbeRtt { .. } => self.with_headroom().min(self.probe_rtt_cwnd()),
            Phase::Down | Phase::Refill | Phase::Up => self.inflight_longterm,
            Phase::Startup | Phase::Drain { .. } => f64::INFINITY,
        };
        larger(smaller(longterm, self.inflight_shortterm), self.least)
    }
}

impl CongestionControl for Bbr3 {
    fn on_ack(&mut self, _sample: &AckSample) {}

    fn on_delivery(&mut self, delivery: &Delivery) {
        let Delivery { now, snd_max, total, .. } = *delivery;
        let (left, delivered) = (real(delivery.in_flight), real(delivery.delivered));
        self.latest = Latest { now, snd_max, total };
        self.is_idle = delivery.in_flight == 0;
        (self.is_round_over, self.losses.is_round_over) = (false, false);
        let ack = delivery.rate.as_ref().map(|sample| {
            let rate = real(sample.delivered) / real(sample.interval.as_nanos());
            Ack { delivery, sample, rate, left }
        });
        if let Some(ack) = &ack {
            self.update_model(ack);
            self.excess.add(now, self.derived.bw, delivered, self.cwnd);
            self.check_full_bw(ack);
            self.advance(ack);
        }
        self.update_min_rtt(delivery, left);
        if let Some(ack) = &ack {
            self.advance_signals(ack);
        }
        self.set_rate(self.derived.rate);
        if delivery.delivered > 0 {
            self.restarts = false;
            self.set_cwnd_from(delivery, delivered);
        }
    }

    fn on_lost(&mut self, lost: &LostSegment) {
        self.lose(lost);
    }

    fn on_congestion(&mut self, _now: Instant, congestion: Congestion, _in_use: f64) {
        match congestion {
            Congestion::Loss => {
                self.save_state();
                self.recovery = Some(self.latest.snd_max);
            }
            Congestion::Ecn => self.note_loss(),
        }
    }

    fn on_timeout(&mut self, _now: Instant, in_use: Option<f64>) {
        if in_use.is_some() {
            self.save_state();
        }
        self.recovery = Some(self.latest.snd_max);
        self.cwnd = self.segment;
    }

    fn on_spurious(&mut self) {
        self.take_back();
    }

    fn on_sent(&mut self, now: Instant, _bytes: u64) {
        // HandleRestartFromIdle().
        if std::mem::take(&mut self.is_idle) {
            self.restarts = true;
            self.excess.restart(now);
            if self.phase.is_probe_bw() {
                self.set_rate(PACING_MARGIN * self.derived.bw * 1e9);
            } else {
                self.check_probe_rtt_done(now);
            }
        }
    }

    fn keeps_window_in_recovery(&self) -> bool {
        true
    }

    fn is_self_limited(&self) -> bool {
        self.phase.is_probe_rtt()
    }

    fn window(&self) -> u64 {
        self.cwnd as i64 as u64
    }

    fn cwnd(&self) -> f64 {
        self.cwnd / self.segment
    }

    fn ssthresh(&self) -> f64 {
        f64::INFINITY
    }

    fn set_cwnd(&mut self, cwnd: f64) {
        self.cwnd = cwnd * self.segment;
    }

    fn pacing_rate(&self, srtt: Duration) -> f64 {
        if self.rate > 0.0 { self.rate } else { STARTUP_GAIN * self.cwnd / srtt.as_secs_f64() }
    }
}
