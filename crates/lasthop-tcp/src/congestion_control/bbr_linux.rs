//! BBR version 1 as implemented in Linux (`tcp_bbr.c`). The file `bbr.rs` implements the same
//! algorithm in real numbers and shows its state diagram.
//!
//! ```text
//!   bandwidth   2^-24 segments per microsecond; maximum over 10 round trips, filtered with three samples
//!   target      ceil(gain bw min_rtt) + extra + 3 bursts, rounded up to an even number; 2 more in the phase of 1.25
//!   burst       GSO segment: 1 ms at the pacing rate, at least 2 segments (1 below 1.2 Mbps)
//!   extra       ACK aggregation: maximum of delivered - expected segments in the last 5 to 10 round trips, at most
//!               100 ms of the bandwidth
//!   recovery    at entry: window = in flight + delivered, one round trip of conservation; at exit: previous window
//!   each loss   reduces the window by one segment
//!   policer     a rate that two intervals with high losses have in common replaces the bandwidth: see `policer.rs`
//! ```
//!
//! Gains are in units of 1/256. The end of a phase is determined from the estimated number of
//! segments in the network when pacing releases the next segment (`bbr_packets_in_net_at_edt`).
//!
//! *Not modelled*: the first phase of the cycle is derived from the current time, not from a random
//! number.

use super::super::config::Config;
use super::policer::{Observation, Policer, Totals};
use super::{AckSample, Congestion, CongestionControl, CongestionPhase, Control, ModelState};
use crate::info::RecoveryState;
use lasthop_base::units::{Duration, Instant};

const BW_SCALE: u32 = 24;
const UNIT: u64 = 256;
const HIGH_GAIN: u64 = UNIT * 2885 / 1000 + 1;
const DRAIN_GAIN: u64 = UNIT * 1000 / 2885;
const CWND_GAIN: u64 = 2 * UNIT;
const CYCLE: [u64; 8] = [320, 192, UNIT, UNIT, UNIT, UNIT, UNIT, UNIT];
const BW_ROUNDS: u32 = 10;
const MIN_RTT_LIFE: Duration = Duration::from_secs(10);
const PROBE_RTT_TIME: Duration = Duration::from_millis(200);
const LEAST: u32 = 4;
const INITIAL_WINDOW: u32 = 10;
const FULL_BW_ROUNDS: u32 = 3;
/// Round trips per slot of the maximum ACK aggregation; there are two slots.
const EXTRA_ROUNDS: u32 = 5;
/// Limit of the ACK aggregation, as microseconds of the bandwidth.
const EXTRA_TIME: u64 = 100_000;
/// Pacing rate in bytes per second (1.2 Mbps) below which bursts are single segments.
const SINGLE_BELOW: u64 = 150_000;
/// RTT assumed if the handshake yields no RTT sample, in microseconds.
const NOMINAL_RTT: u64 = 1_000;

/// Windowed maximum over round trips, computed from the three best samples (Kathleen Nichols'
/// windowed filter).
#[derive(Clone, Copy, Debug, Default)]
struct Greatest {
    best: [(u32, u64); 3],
}

impl Greatest {
    fn get(&self) -> u64 {
        self.best[0].1
    }

    fn add(&mut self, round: u32, value: u64) {
        let new = (round, value);
        let [first, second, third] = &mut self.best;
        if value >= first.1 || round - third.0 > BW_ROUNDS {
            self.best = [new; 3];
            return;
        }
        if value >= second.1 {
            (*second, *third) = (new, new);
        } else if value >= third.1 {
            *third = new;
        }
        let age = round - first.0;
        if age > BW_ROUNDS {
            self.best = [*second, *third, new];
            if round - self.best[0].0 > BW_ROUNDS {
                self.best = [self.best[1], self.best[2], new];
            }
        } else if second.0 == first.0 && age > BW_ROUNDS / 4 {
            (*second, *third) = (new, new);
        } else if third.0 == second.0 && age > BW_ROUNDS / 2 {
            *third = new;
        }
    }
}

/// Mode of the state machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    Startup,
    Drain,
    ProbeBw,
    ProbeRtt,
}

/// ACK aggregation: segments delivered beyond those expected from the bandwidth.
#[derive(Clone, Copy, Debug, Default)]
struct Excess {
    since: Instant,
    acked: u64,
    most: [u64; 2],
    place: usize,
    rounds: u32,
}

/// BBR's window and rate.
#[derive(Clone, Copy, Debug)]
pub struct BbrLinux {
    /// SMSS in bytes.
    segment: u64,
    cwnd: u32,
    prior_cwnd: u32,
    mode: Mode,
    bandwidth: Greatest,
    rounds: u32,
    is_round_start: bool,
    /// The round trip ends when a segment is acknowledged that was sent after this number of bytes
    /// had been delivered.
    next_round: u64,
    min_rtt: Option<Duration>,
    min_rtt_at: Instant,
    probe_rtt_until: Option<Instant>,
    probe_rtt_round_done: bool,
    full_bw: u64,
    full_bw_rounds: u32,
    is_full: bool,
    cycle: usize,
    cycle_began: Instant,
    packet_conservation: bool,
    prior_state: RecoveryState,
    /// Pacing rate in bytes per second; zero before the handshake ends.
    rate: u64,
    excess: Excess,
    policer: Policer,
    /// Totals at the latest ACK.
    totals: Totals,
    is_idle: bool,
    restarts: bool,
}

/// Converts a duration to microseconds.
fn micros(duration: Duration) -> u64 {
    duration.as_nanos() / 1_000
}

impl BbrLinux {
    /// Creates the algorithm with a window of `cwnd` segments.
    pub fn new(config: &Config, cwnd: f64) -> Self {
        BbrLinux {
            segment: config.segment.get(),
            cwnd: cwnd as u32,
            prior_cwnd: 0,
            mode: Mode::Startup,
            bandwidth: Greatest::default(),
            rounds: 0,
            is_round_start: false,
            next_round: 0,
            min_rtt: None,
            min_rtt_at: Instant::ZERO,
            probe_rtt_until: None,
            probe_rtt_round_done: false,
            full_bw: 0,
            full_bw_rounds: 0,
            is_full: false,
            cycle: 0,
            cycle_began: Instant::ZERO,
            packet_conservation: false,
            prior_state: RecoveryState::Open,
            rate: 0,
            excess: Excess::default(),
            policer: Policer::default(),
            totals: Totals::default(),
            is_idle: false,
            restarts: false,
        }
    }

    /// Returns the gains of pacing rate and window.
    fn gains(&self) -> (u64, u64) {
        match self.mode {
            Mode::Startup => (HIGH_GAIN, HIGH_GAIN),
            Mode::Drain => (DRAIN_GAIN, HIGH_GAIN),
            Mode::ProbeBw if self.policer.rate().is_some() => (UNIT, CWND_GAIN),
            Mode::ProbeBw => (CYCLE[self.cycle], CWND_GAIN),
            Mode::ProbeRtt => (UNIT, UNIT),
        }
    }

    /// Returns the bandwidth in use: that of the policer, or the maximum delivery rate.
    fn bandwidth(&self) -> u64 {
        self.policer.rate().unwrap_or_else(|| self.bandwidth.get())
    }

    /// Returns the pacing rate in bytes per second for a bandwidth and a gain, with a margin of 1
    /// %.
    fn bytes_a_second(&self, bandwidth: u64, gain: u64) -> u64 {
        let rate = u128::from(bandwidth * self.segment * gain / UNIT);
        ((rate * 990_000) >> BW_SCALE) as u64
    }

    fn burst(&self) -> u32 {
        let least = if self.rate < SINGLE_BELOW { 1 } else { 2 };
        ((self.rate >> 10).min(65_000) / self.segment).clamp(least, 127) as u32
    }

    fn product(&self, bandwidth: u64, gain: u64) -> u32 {
        let Some(min_rtt) = self.min_rtt else { return INITIAL_WINDOW };
        let product = bandwidth * micros(min_rtt);
        (product * gain / UNIT).div_ceil(1 << BW_SCALE) as u32
    }

    /// Adds the budget for bursts that the hosts hold back (`bbr_quantization_budget`).
    fn with_bursts(&self, window: u32) -> u32 {
        let even = (window + 3 * self.burst()).next_multiple_of(2);
        even + if self.mode == Mode::ProbeBw && self.cycle == 0 { 2 } else { 0 }
    }

    /// Returns the segments in flight at the maximum delivery rate, times `gain`.
    fn target(&self, gain: u64) -> u32 {
        self.with_bursts(self.product(self.bandwidth.get(), gain))
    }

    /// Returns the estimated number of segments in the network when the next one is sent.
    fn at_departure(&self, control: &Control, in_flight: u32) -> u32 {
        let delivered = (self.bandwidth() * micros(control.until_departure)) >> BW_SCALE;
        let more = if self.gains().0 > UNIT { self.burst() } else { 0 };
        (in_flight + more).saturating_sub(delivered as u32)
    }

    fn save_window(&mut self) {
        let is_reduced = self.prior_state >= RecoveryState::Recovery || self.mode == Mode::ProbeRtt;
        self.prior_cwnd = if is_reduced { self.prior_cwnd.max(self.cwnd) } else { self.cwnd };
    }

    fn update_bandwidth(&mut self, control: &Control) {
        self.is_round_start = false;
        self.totals.delivered += u64::from(control.delivered);
        let Some(sample) = &control.delivery.rate else { return };
        if sample.prior_delivered >= self.next_round {
            self.next_round = control.delivery.total;
            self.rounds += 1;
            self.is_round_start = true;
            self.packet_conservation = false;
        }
        (self.totals.at, self.totals.lost) = (control.delivery.now, control.lost);
        self.observe(control.losses > 0, sample.is_app_limited);
        let segments = sample.delivered.div_ceil(self.segment);
        let bandwidth = (segments << BW_SCALE) / micros(sample.interval).max(1);
        if !sample.is_app_limited || bandwidth >= self.bandwidth.get() {
            self.bandwidth.add(self.rounds, bandwidth);
        }
    }

    /// Informs the model of policers of an ACK or a timeout.
    fn observe(&mut self, has_losses: bool, is_app_limited: bool) {
        let seen = Observation {
            totals: self.totals,
            has_losses,
            is_app_limited,
            is_round_start: self.is_round_start,
            probes_bandwidth: self.mode == Mode::ProbeBw,
        };
        if self.policer.observe(&seen, self.segment) {
            self.enter_probe_bw(self.totals.at);
        }
    }

    fn update_excess(&mut self, control: &Control) {
        if control.delivered == 0 || control.delivery.rate.is_none() {
            return;
        }
        let bandwidth = self.bandwidth();
        let excess = &mut self.excess;
        if self.is_round_start {
            excess.rounds += 1;
            if excess.rounds >= EXTRA_ROUNDS {
                excess.rounds = 0;
                excess.place ^= 1;
                excess.most[excess.place] = 0;
            }
        }
        let now = control.delivery.now;
        let mut expected = (bandwidth * micros(now - excess.since)) >> BW_SCALE;
        if excess.acked <= expected {
            (excess.acked, excess.since, expected) = (0, now, 0);
        }
        excess.acked += u64::from(control.delivered);
        let extra = (excess.acked - expected).min(self.cwnd.into());
        excess.most[excess.place] = excess.most[excess.place].max(extra);
    }

    fn extra(&self) -> u32 {
        if !self.is_full {
            return 0;
        }
        let most = self.excess.most[0].max(self.excess.most[1]);
        most.min((self.bandwidth() * EXTRA_TIME) >> BW_SCALE) as u32
    }

    fn update_cycle(&mut self, control: &Control) {
        if self.mode != Mode::ProbeBw {
            return;
        }
        let now = control.delivery.now;
        let lasted = self.min_rtt.is_some_and(|min_rtt| now - self.cycle_began > min_rtt);
        let gain = self.gains().0;
        let in_flight = self.at_departure(control, control.prior_in_flight);
        let is_over = match gain.cmp(&UNIT) {
            std::cmp::Ordering::Equal => lasted,
            // Until the target is in flight or segments are lost.
            std::cmp::Ordering::Greater => {
                lasted && (control.losses > 0 || in_flight >= self.target(gain))
            }
            std::cmp::Ordering::Less => lasted || in_flight <= self.target(UNIT),
        };
        if is_over {
            self.cycle = (self.cycle + 1) % CYCLE.len();
            self.cycle_began = now;
        }
    }

    fn enter_probe_bw(&mut self, now: Instant) {
        self.mode = Mode::ProbeBw;
        // Any phase except index 1, with gain 0.75.
        let drawn = (now.as_nanos() / 1_000 % (CYCLE.len() as u64 - 1)) as usize;
        self.cycle = if drawn == 0 { 0 } else { drawn + 1 };
        self.cycle_began = now;
    }

    fn check_full(&mut self, control: &Control) {
        let is_limited = control.delivery.rate.is_some_and(|sample| sample.is_app_limited);
        if self.is_full || !self.is_round_start || is_limited {
            return;
        }
        if self.bandwidth.get() >= self.full_bw * 5 / 4 {
            (self.full_bw, self.full_bw_rounds) = (self.bandwidth.get(), 0);
        } else {
            self.full_bw_rounds += 1;
            self.is_full = self.full_bw_rounds >= FULL_BW_ROUNDS;
        }
    }

    fn check_drain(&mut self, control: &Control) {
        if self.mode == Mode::Startup && self.is_full {
            self.mode = Mode::Drain;
        }
        if self.mode == Mode::Drain
            && self.at_departure(control, control.in_flight) <= self.target(UNIT)
        {
            self.enter_probe_bw(control.delivery.now);
        }
    }

    fn update_min_rtt(&mut self, control: &Control) {
        let now = control.delivery.now;
        let is_old = now > self.min_rtt_at + MIN_RTT_LIFE;
        if let Some(rtt) = control.delivery.rtt
            && (is_old || self.min_rtt.is_none_or(|least| rtt <= least))
        {
            (self.min_rtt, self.min_rtt_at) = (Some(rtt), now);
        }
        if is_old && !self.restarts && self.mode != Mode::ProbeRtt {
            self.mode = Mode::ProbeRtt;
            self.save_window();
            self.probe_rtt_until = None;
        }
        if self.mode == Mode::ProbeRtt {
            match self.probe_rtt_until {
                None if control.in_flight <= LEAST => {
                    self.probe_rtt_until = Some(now + PROBE_RTT_TIME);
                    self.probe_rtt_round_done = false;
                    self.next_round = control.delivery.total;
                }
                Some(until) => {
                    self.probe_rtt_round_done |= self.is_round_start;
                    if self.probe_rtt_round_done && now > until {
                        self.end_probe_rtt(now);
                    }
                }
                None => {}
            }
        }
        if control.delivery.rate.is_some_and(|sample| sample.delivered > 0) {
            self.restarts = false;
        }
    }

    fn end_probe_rtt(&mut self, now: Instant) {
        self.min_rtt_at = now;
        self.cwnd = self.cwnd.max(self.prior_cwnd);
        if self.is_full {
            self.enter_probe_bw(now);
        } else {
            self.mode = Mode::Startup;
        }
    }

    fn set_rate(&mut self, gain: u64) {
        let rate = self.bytes_a_second(self.bandwidth(), gain);
        if self.is_full || rate > self.rate {
            self.rate = rate;
        }
    }

    /// Sets the window for recovery. Returns `true` while packet conservation determines it.
    fn recover(&mut self, control: &Control) -> bool {
        let (before, state) = (self.prior_state, control.state);
        if control.losses > 0 {
            self.cwnd = self.cwnd.saturating_sub(control.losses).max(1);
        }
        if state == RecoveryState::Recovery && before != RecoveryState::Recovery {
            self.packet_conservation = true;
            self.next_round = control.delivery.total;
            self.cwnd = control.in_flight + control.delivered;
        } else if before >= RecoveryState::Recovery && state < RecoveryState::Recovery {
            self.cwnd = self.cwnd.max(self.prior_cwnd);
            self.packet_conservation = false;
        }
        self.prior_state = state;
        if self.packet_conservation {
            self.cwnd = self.cwnd.max(control.in_flight + control.delivered);
        }
        self.packet_conservation
    }

    fn set_window(&mut self, control: &Control, gain: u64) {
        if control.delivered > 0 && !self.recover(control) {
            let target = self.with_bursts(self.product(self.bandwidth(), gain) + self.extra());
            if self.is_full {
                self.cwnd = (self.cwnd + control.delivered).min(target);
            } else if self.cwnd < target || self.totals.delivered < u64::from(INITIAL_WINDOW) {
                self.cwnd += control.delivered;
            }
            self.cwnd = self.cwnd.max(LEAST);
        }
        if self.mode == Mode::ProbeRtt {
            self.cwnd = self.cwnd.min(LEAST);
        }
    }
}

impl CongestionControl for BbrLinux {
    fn on_ack(&mut self, _sample: &AckSample) {}

    fn on_established(&mut self, now: Instant, rtt: Option<Duration>) {
        self.min_rtt = rtt;
        self.min_rtt_at = now;
        // The SYN counts as a segment.
        self.totals.delivered = 1;
        self.excess.since = now;
        let micros = rtt.map_or(NOMINAL_RTT, micros).max(1);
        let bandwidth = (u64::from(self.cwnd) << BW_SCALE) / micros;
        self.rate = self.bytes_a_second(bandwidth, HIGH_GAIN);
    }

    fn on_control(&mut self, control: &Control) {
        self.is_idle = control.in_flight == 0;
        self.update_bandwidth(control);
        self.update_excess(control);
        self.update_cycle(control);
        self.check_full(control);
        self.check_drain(control);
        self.update_min_rtt(control);
        let (pacing, window) = self.gains();
        self.set_rate(pacing);
        self.set_window(control, window);
    }

    fn on_congestion(&mut self, _now: Instant, _congestion: Congestion, _in_use: f64) {
        self.save_window();
    }

    fn on_timeout(&mut self, _now: Instant, in_use: Option<f64>) {
        if in_use.is_some() {
            self.save_window();
        }
        self.prior_state = RecoveryState::Loss;
        self.full_bw = 0;
        self.is_round_start = true;
        self.observe(true, false);
    }

    fn on_spurious(&mut self) {
        (self.full_bw, self.full_bw_rounds) = (0, 0);
        self.policer.reset();
    }

    fn on_sent(&mut self, now: Instant, _bytes: u64) {
        if std::mem::take(&mut self.is_idle) {
            self.restarts = true;
            (self.excess.since, self.excess.acked) = (now, 0);
            if self.mode == Mode::ProbeBw {
                self.set_rate(UNIT);
            } else if self.mode == Mode::ProbeRtt
                && self.probe_rtt_until.is_some_and(|until| now > until)
            {
                self.end_probe_rtt(now);
            }
        }
    }

    fn keeps_window_in_recovery(&self) -> bool {
        true
    }

    fn is_self_limited(&self) -> bool {
        self.mode == Mode::ProbeRtt
    }

    fn window(&self) -> u64 {
        u64::from(self.cwnd) * self.segment
    }

    fn cwnd(&self) -> f64 {
        self.cwnd.into()
    }

    fn ssthresh(&self) -> f64 {
        f64::INFINITY
    }

    fn set_cwnd(&mut self, cwnd: f64) {
        self.cwnd = cwnd as u32;
    }

    fn pacing_rate(&self, _srtt: Duration) -> f64 {
        self.rate as f64
    }

    fn state(&self) -> ModelState {
        let phase = match self.mode {
            Mode::Startup => CongestionPhase::Startup,
            Mode::Drain => CongestionPhase::Drain,
            Mode::ProbeBw => match self.cycle {
                0 => CongestionPhase::ProbeUp,
                1 => CongestionPhase::ProbeDown,
                _ => CongestionPhase::ProbeCruise,
            },
            Mode::ProbeRtt => CongestionPhase::ProbeRtt,
        };
        let segments_per_second = self.bandwidth.get() as f64 * 1e6 / f64::from(1 << BW_SCALE);
        ModelState {
            phase: Some(phase),
            max_bw: Some(segments_per_second * self.segment as f64),
            min_rtt: self.min_rtt,
            extra_acked: Some(self.extra().into()),
            ..ModelState::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::presets::{Overrides, Profile, Variant, config};

    fn bbr() -> BbrLinux {
        let set = Overrides { timestamps: Some(false), ..Overrides::default() };
        let config = config(Variant::Bbr, Profile::Linux, &set);
        BbrLinux::new(&config, 10.0)
    }

    /// Linux 6.18 reported a pacing rate of 1,026,626 B/s after a handshake of 40.639 ms. In
    /// STARTUP its window was 26 segments over a path of one segment per 6 ms.
    #[test]
    fn rate_and_window_of_a_kernel() {
        let mut bbr = bbr();
        let rtt = Duration::from_nanos(40_639_000);
        bbr.on_established(Instant::ZERO, Some(rtt));
        assert_eq!(bbr.rate, 1_026_626);
        bbr.bandwidth.add(1, (1 << BW_SCALE) / 6_000);
        // 2.887 * 40.639 / 6 = 19.6, rounded up, plus three bursts of 2.
        assert_eq!(bbr.target(HIGH_GAIN), 26);
        // 6.8, rounded up, plus 6, made even; 2 more in the phase of 1.25.
        assert_eq!(bbr.target(UNIT), 14);
        (bbr.mode, bbr.cycle) = (Mode::ProbeBw, 0);
        assert_eq!(bbr.target(UNIT), 16);
    }

    /// Round trips and samples: the filter returns the maximum of the last 10 round trips.
    #[test]
    fn the_greatest_of_ten_rounds() {
        let mut greatest = Greatest::default();
        for (round, value, expected) in [
            (1, 50, 50),
            (2, 40, 50),
            (5, 45, 50),
            (11, 30, 50),
            // The sample of round 1 has expired.
            (12, 20, 45),
            (16, 10, 30),
            (40, 5, 5),
        ] {
            greatest.add(round, value);
            assert_eq!(greatest.get(), expected, "round {round}");
        }
    }
}
