//! RTT estimation and retransmission timeout: RFC 6298, and the BSD algorithm in integer ticks that
//! ns-2 uses.

use super::config::Config;
use super::policy::{Policies, RttPolicy};
use lasthop_base::units::{Duration, Instant};

/// Estimates the RTT and computes the retransmission timeout.
///
/// Profile `rfc`: SRTT and RTTVAR in nanoseconds, gains 1/8 and 1/4, `RTO = max(min_rto,
/// SRTT + max(G, 4 RTTVAR))`, doubled per timeout up to `max_rto`.
///
/// Profile `ns-2`: all values in whole ticks of the clock, SRTT scaled by 8 and RTTVAR by 4.
/// The minimum is applied before the backoff factor. Beyond a factor of 8, SRTT is added to RTTVAR
/// and reset.
///
/// Profile `linux`: RFC 6298 in nanoseconds with a different RTTVAR. It is the maximum of
/// the mean deviation in a round trip of data, at least `min_rto`. It decreases by 1/4 of the
/// difference once per round trip. A sample below SRTT increases the deviation with only 1/8 of the
/// usual gain. `RTO = SRTT + RTTVAR`. A host with timer ticks keeps the RTO as a whole number of
/// ticks, rounded up from whole microseconds before it is doubled (`__tcp_set_rto`,
/// `usecs_to_jiffies`).
#[derive(Clone, Copy, Debug)]
pub struct RttEstimator {
    policy: RttPolicy,
    tick: u64,
    /// Unit of the RTO in nanoseconds: the timer tick of a Linux host, or 0.
    jiffy: u64,
    min_rto: u64,
    max_rto: u64,
    /// Time of the host's clock at the start of the run, in nanoseconds; used for RTTs by ns-2 only.
    boot_offset: u64,
    /// RTO before bounds and backoff, in nanoseconds.
    base_rto: u64,
    /// Scaled by 8: in ticks (ns-2) or nanoseconds (RFC); 0 before the first sample.
    srtt: i64,
    /// Mean deviation scaled by 4, in the unit of `srtt`.
    rttvar: i64,
    backoff: u64,
    /// Number of doublings, as counted by the probe timer. In Linux, this count may be reset before
    /// the RTO is computed again, and may increase without the RTO.
    doublings: u32,
    /// Lower bound of the RTO in nanoseconds (ns-2: two ticks).
    floor: u64,
    /// RTO with bounds and backoff, in nanoseconds.
    rto: u64,
    /// Smoothed RTT after the latest sample.
    smoothed: Duration,
    last_sample: Duration,
    /// Linux only: mean deviation scaled by 4, and its maximum in this round trip of data.
    deviation: i64,
    greatest: i64,
    /// Linux only: the round trip of data ends when this byte is acknowledged.
    round_end: u64,
}

/// RTO of the first data after a lost SYN (RFC 6298, rule 5.7).
const RTO_AFTER_LOST_SYN: Duration = Duration::from_secs(3);

/// ns-2's `rttvar_init_` in seconds; used only if timeouts precede the first sample.
const NS2_INITIAL_RTTVAR_SECS: u64 = 12;

impl RttEstimator {
    /// Returns the time of the host's clock at the start of the run.
    pub fn clock_at_start(&self) -> Duration {
        Duration::from_nanos(self.boot_offset)
    }

    /// Creates an estimator. `boot_offset` is the phase of the host's clock within one tick, used
    /// only by profile `ns-2`.
    pub fn new(config: &Config, boot_offset: Duration) -> Self {
        let tick = config.clock_granularity.as_nanos();
        let policy = Policies::of(config.profile).rtt;
        let rttvar = match policy {
            RttPolicy::Ns2 => ((NS2_INITIAL_RTTVAR_SECS * 1_000_000_000 / tick) << 2) as i64,
            RttPolicy::Rfc6298 | RttPolicy::Linux => 0,
        };
        let floor = match policy {
            RttPolicy::Ns2 => 2 * tick,
            RttPolicy::Rfc6298 | RttPolicy::Linux => 0,
        };
        let mut estimator = RttEstimator {
            policy,
            tick,
            jiffy: if policy == RttPolicy::Linux { config.timer_tick.as_nanos() } else { 0 },
            min_rto: config.min_rto.as_nanos(),
            max_rto: config.max_rto.as_nanos(),
            boot_offset: boot_offset.as_nanos(),
            base_rto: config.initial_rto.as_nanos(),
            srtt: 0,
            rttvar,
            backoff: 1,
            doublings: 0,
            floor,
            rto: 0,
            smoothed: Duration::ZERO,
            last_sample: Duration::ZERO,
            deviation: 0,
            greatest: 0,
            round_end: 0,
        };
        estimator.bound();
        estimator
    }

    /// Changes the bounds of the RTO; `None` keeps a bound.
    pub fn set_bounds(&mut self, least: Option<Duration>, greatest: Option<Duration>) {
        self.min_rto = least.map_or(self.min_rto, Duration::as_nanos);
        self.max_rto = greatest.map_or(self.max_rto, Duration::as_nanos);
        self.bound();
    }

    /// Computes the RTO from base value, doublings and bounds.
    fn bound(&mut self) {
        let rto = self.first_rto().saturating_mul(self.backoff);
        self.rto = rto.min(self.max_rto).max(self.floor);
    }

    /// Returns the RTO with its lower bound and rounding, but without backoff.
    #[inline]
    fn first_rto(&self) -> u64 {
        let rto = self.base_rto.max(self.min_rto);
        if self.jiffy == 0 { rto } else { (rto / 1000 * 1000).next_multiple_of(self.jiffy) }
    }

    /// Adds the RTT sample of a segment sent at `sent`, never retransmitted (Karn's algorithm), and
    /// acknowledged at `now`.
    #[inline]
    pub fn sample(&mut self, sent: Instant, now: Instant) {
        let elapsed = (now - sent).as_nanos();
        self.last_sample = now - sent;
        match self.policy {
            RttPolicy::Ns2 => {
                // The clock ticks independently of the segment: count the ticks between the two
                // times.
                let phase = (sent.as_nanos() + self.boot_offset) % self.tick;
                let ticks = (((elapsed + phase) / self.tick) as i64).max(1);
                if self.srtt != 0 {
                    let mut delta = ticks - (self.srtt >> 3);
                    self.srtt = (self.srtt + delta).max(1);
                    delta = delta.abs() - (self.rttvar >> 2);
                    self.rttvar = (self.rttvar + delta).max(1);
                } else {
                    self.srtt = ticks << 3;
                    self.rttvar = ticks << 1;
                }
                self.base_rto = (((self.rttvar << 3) + self.srtt) >> 3) as u64 * self.tick;
                self.smoothed = Duration::from_nanos((self.srtt >> 3) as u64 * self.tick);
            }
            RttPolicy::Rfc6298 | RttPolicy::Linux => {
                // A sample is a whole number of ticks, at least one.
                let sample = (elapsed.div_ceil(self.tick) * self.tick) as i64;
                if self.srtt != 0 {
                    let error = (self.srtt / 8 - sample).abs();
                    self.rttvar += error - self.rttvar / 4;
                    self.srtt += sample - self.srtt / 8;
                } else {
                    self.srtt = sample * 8;
                    self.rttvar = sample * 2;
                }
                self.base_rto = (self.srtt / 8) as u64 + self.tick.max(self.rttvar as u64);
                self.smoothed = Duration::from_nanos((self.srtt / 8) as u64);
            }
        }
        self.bound();
    }

    /// Adds an RTT sample by Linux's rules; `snd_una` and `snd_max` delimit the round trips of
    /// data.
    pub fn sample_linux(&mut self, rtt: Duration, snd_una: u64, snd_max: u64) {
        self.last_sample = rtt;
        let sample = (rtt.as_nanos() as i64).max(1);
        let least = self.min_rto as i64;
        if self.srtt == 0 {
            self.srtt = sample * 8;
            self.deviation = sample * 2;
            self.rttvar = self.deviation.max(least);
            self.greatest = self.rttvar;
            self.round_end = snd_max;
        } else {
            let error = sample - self.srtt / 8;
            self.srtt += error;
            let mut change = error.abs() - self.deviation / 4;
            if error < 0 && change > 0 {
                // A decreasing RTT must not increase the timeout.
                change /= 8;
            }
            self.deviation += change;
            self.greatest = self.greatest.max(self.deviation);
            self.rttvar = self.rttvar.max(self.greatest);
            if snd_una > self.round_end {
                self.rttvar -= (self.rttvar - self.greatest).max(0) / 4;
                self.round_end = snd_max;
                self.greatest = least;
            }
        }
        self.base_rto = (self.srtt / 8 + self.rttvar) as u64;
        self.smoothed = Duration::from_nanos((self.srtt / 8) as u64);
        (self.backoff, self.doublings) = (1, 0);
        self.bound();
    }

    /// Returns the retransmission timeout.
    #[inline]
    pub fn rto(&self) -> Duration {
        Duration::from_nanos(self.rto)
    }

    /// Returns the upper bound of the RTO.
    pub fn longest(&self) -> Duration {
        Duration::from_nanos(self.max_rto)
    }

    /// Doubles the RTO after a timeout.
    pub fn back_off(&mut self) {
        if self.backoff < 64 || self.rto().as_nanos() < self.max_rto {
            self.backoff <<= 1;
            self.doublings += 1;
        }
        if self.policy == RttPolicy::Ns2 && self.backoff > 8 {
            self.rttvar += self.srtt >> 3;
            self.srtt = 0;
            self.smoothed = Duration::ZERO;
        }
        self.bound();
    }

    /// Undoes the latest doubling. Returns `true` if the RTO had been doubled.
    pub fn undo_backoff(&mut self) -> bool {
        let was_doubled = self.backoff > 1;
        if was_doubled {
            self.backoff >>= 1;
            self.doublings = self.doublings.saturating_sub(1);
            self.bound();
        }
        was_doubled
    }

    /// Sets the RTO for data after a retransmitted SYN. Without an RTT sample, the first RTO was
    /// too short: with profile `rfc` it becomes 3 s.
    pub fn after_lost_syn(&mut self) {
        let more = RTO_AFTER_LOST_SYN.as_nanos();
        if self.policy != RttPolicy::Ns2 && self.srtt == 0 && self.base_rto < more {
            self.base_rto = more;
            (self.backoff, self.doublings) = (1, 0);
            self.bound();
        }
    }

    /// Ends the backoff after progress.
    #[inline]
    pub fn end_back_off(&mut self) {
        if self.backoff != 1 {
            (self.backoff, self.doublings) = (1, 0);
            self.bound();
        }
    }

    /// Resets the count of doublings but not the RTO: a window has opened, or data was sent instead
    /// of a probe (Linux).
    pub fn forget_doublings(&mut self) {
        self.doublings = 0;
    }

    /// Counts a window probe, which doubles the time to the next one but not the RTO (Linux).
    pub fn count_doubling(&mut self) {
        self.doublings += 1;
    }

    /// Returns the smoothed RTT; zero before the first sample.
    #[inline]
    pub fn srtt(&self) -> Duration {
        self.smoothed
    }

    /// Returns the RTO with bounds but without backoff.
    pub fn rto_without_back_off(&self) -> Duration {
        Duration::from_nanos(self.first_rto().min(self.max_rto).max(self.floor))
    }

    /// Returns the interval between window probes after `probes` of them.
    pub fn persist_interval(&self, probes: u32) -> Duration {
        let count = if self.policy == RttPolicy::Linux { self.doublings } else { probes };
        (self.rto() * (1 << count.min(20))).min(self.longest())
    }

    /// Returns the time before the first window probe. In Linux it is one RTO, including backoff.
    pub fn first_persist_interval(&self, probes: u32) -> Duration {
        match self.policy {
            RttPolicy::Linux => self.rto(),
            _ => self.persist_interval(probes),
        }
    }

    /// Returns the number of doublings of the RTO.
    pub fn back_offs(&self) -> u32 {
        self.doublings
    }

    /// Returns the mean deviation of the RTT (RTTVAR).
    pub fn variation(&self) -> Duration {
        Duration::from_nanos(match self.policy {
            RttPolicy::Ns2 => self.rttvar as u64 / 4 * self.tick,
            RttPolicy::Rfc6298 => self.rttvar as u64 / 4,
            RttPolicy::Linux => self.deviation as u64 / 4,
        })
    }

    /// Returns the latest sample, unrounded.
    pub fn last_sample(&self) -> Duration {
        self.last_sample
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::presets::{Overrides, Profile, Variant, config};

    fn estimator(profile: Profile) -> RttEstimator {
        RttEstimator::new(&config(Variant::Reno, profile, &Overrides::default()), Duration::ZERO)
    }

    fn sample(estimator: &mut RttEstimator, millis: u64) {
        let sent = Instant::from_nanos(1_000_000_000);
        estimator.sample(sent, sent + Duration::from_millis(millis));
    }

    #[test]
    fn rfc_6298_by_hand() {
        let mut rtt = estimator(Profile::Rfc);
        assert_eq!(rtt.rto(), Duration::from_secs(1));
        sample(&mut rtt, 800); // SRTT 800, RTTVAR 400: RTO 2400
        assert_eq!(rtt.rto(), Duration::from_millis(2400));
        sample(&mut rtt, 1200); // RTTVAR 300 + 100 = 400, SRTT 850: RTO 2450
        assert_eq!(rtt.srtt(), Duration::from_millis(850));
        assert_eq!(rtt.rto(), Duration::from_millis(2450));
        rtt.back_off();
        assert_eq!(rtt.rto(), Duration::from_millis(4900));
        rtt.end_back_off();
        assert_eq!(rtt.rto(), Duration::from_millis(2450));
    }

    /// RTT samples in ms, whether each ends a round trip of data, and the RTO after it on a host
    /// without ticks; the minimum is 200 ms.
    #[test]
    fn linux_by_hand() {
        let exact = Overrides { timer_tick: Some(Duration::ZERO), ..Overrides::default() };
        let mut rtt =
            RttEstimator::new(&config(Variant::Reno, Profile::Linux, &exact), Duration::ZERO);
        assert_eq!(rtt.rto(), Duration::from_secs(1));
        for (sample, ends, micros) in [
            // SRTT 80, deviation 2 * 80 / 4: RTTVAR is the minimum.
            (80, false, 280_000),
            // SRTT 90, deviation 160 + 80 - 40 = 200: not above the minimum.
            (160, false, 290_000),
            // SRTT 128.75, deviation 200 + 310 - 50 = 460.
            (400, false, 588_750),
            // SRTT 122.65625, error -48.75, below the deviation of 115: 460 + 48.75 - 115 = 393.75.
            (80, true, 582_656),
            // SRTT 117.32421875, error -42.65625: 393.75 - 55.78125. No deviation in this round
            // trip exceeded the minimum: 460 - (460 - 337.96875) / 4 = 429.4921875.
            (80, true, 546_816),
        ] {
            let una = u64::from(ends);
            rtt.sample_linux(Duration::from_millis(sample), una, 0);
            assert_eq!(rtt.rto().as_nanos() / 1000, micros, "{sample}");
        }
        rtt.back_off();
        assert_eq!(rtt.rto().as_nanos() / 1000, 1_093_632);
    }

    /// RTT samples in microseconds and the RTO of a host with ticks of 4 ms, in ticks, after none,
    /// one and two timeouts. RTTVAR is the minimum of 200 ms unless stated.
    #[test]
    fn linux_ticks_by_hand() {
        for (samples, ticks) in [
            // Before a sample: 1 s.
            (&[][..], [250, 500, 1000]),
            // 250 ms are 62.5 ticks, rounded up before they are doubled: not 63, 125, 250.
            (&[50_000], [63, 126, 252]),
            // 252 ms are whole ticks; 252.001 ms are not.
            (&[52_000], [63, 126, 252]),
            (&[52_001], [64, 128, 256]),
            // SRTT (7 * 52 000 + 52 001) / 8 = 52 000.125 us: parts of a microsecond do not count.
            (&[52_000, 52_001], [63, 126, 252]),
            // RTTVAR 2 * 150: 150 + 300 = 450 ms are 112.5 ticks.
            (&[150_000], [113, 226, 452]),
        ] {
            let config = config(Variant::Reno, Profile::Linux, &Overrides::default());
            let mut rtt = RttEstimator::new(&config, Duration::ZERO);
            for &sample in samples {
                rtt.sample_linux(Duration::from_nanos(sample * 1000), 0, 0);
            }
            for (doublings, ticks) in ticks.into_iter().enumerate() {
                let at = format!("{samples:?}, {doublings} timeouts");
                assert_eq!(rtt.rto(), Duration::from_millis(4) * ticks, "{at}");
                assert_eq!(rtt.back_offs() as usize, doublings, "{at}");
                rtt.back_off();
            }
        }
    }

    #[test]
    fn ns2_ticks_by_hand() {
        let mut rtt = estimator(Profile::Ns2);
        assert_eq!(rtt.rto(), Duration::from_secs(3));
        sample(&mut rtt, 404); // 40 ticks: srtt 320/8, rttvar 80/4, RTO 40 + 80 ticks
        assert_eq!(rtt.rto(), Duration::from_millis(1200));
        sample(&mut rtt, 509); // 50 ticks: delta 10, srtt 330, rttvar 80 + 10 - 20 = 70
        assert_eq!(rtt.rto(), Duration::from_millis(1110)); // (560 + 330) >> 3 = 111 ticks
        for _ in 0..4 {
            rtt.back_off(); // factor 16: srtt is folded into rttvar
        }
        assert_eq!(rtt.rto(), Duration::from_millis(17_760));
        rtt.end_back_off();
        sample(&mut rtt, 100); // as a first sample: 10 + 20 ticks, below the minimum
        assert_eq!(rtt.rto(), Duration::from_secs(1));
    }

    #[test]
    fn back_off_stops_at_the_maximum() {
        for profile in [Profile::Ns2, Profile::Rfc] {
            let mut rtt = estimator(profile);
            for _ in 0..100 {
                rtt.back_off();
                assert!(rtt.rto() <= Duration::from_secs(60));
            }
            assert_eq!(rtt.rto(), Duration::from_secs(60));
        }
    }
}
