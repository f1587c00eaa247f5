//! Two-state bit errors in continuous time: good and bad periods of exponential length.
//!
//! ```text
//!            ends after exp(good)
//!   +------+ ---------------------> +-----+
//!   | good |                        | bad |
//!   +------+ <--------------------- +-----+
//!            ends after exp(bad)
//! ```
//!
//! Source: the *Two State* model of Xylomenos and Kokkinakis, "Multiple layer error control over
//! wireless links": good 10 s at BER 1e-6, bad 100 to 1000 ms at BER 1e-2.
//!
//! A frame is exposed for its whole air time, not judged by the state at one instant. It survives
//! with probability ∏ (1 - BER_s)^(bits in s) over the segments s of its air time. State changes
//! continue while the link is idle. The initial state is sampled from the stationary distribution,
//! P(bad) = bad / (good + bad).
//!
//! Mean loss of a frame of L bits and air time T, with a = L ln(1 - BER_good), b = L ln(1 -
//! BER_bad), g = T / good, h = T / bad and the generator
//! G = [[a - g, g], [h, b - h]]: 1 - π exp(G) 1.
//!
//! Not modelled: limits on the duration of a period, more than two states, correlation with the
//! other direction. Long idle times are slow with a very short mean period, because every period is
//! sampled.

use super::bits::{FrameLoss, loss};
use super::{Airtime, ChannelError, ErrorProcess, FRAME_LOSS};
use super::{ErrorKeys, HeaderRule, Reception};
use lasthop_base::rng::{Stream, Streams};
use lasthop_base::schema::keys::{Limits, table};
use lasthop_base::units::{Bytes, Duration, Instant, Probability};

table! {
    /// Bit errors at a rate that alternates between a good and a bad state, both of exponential
    /// duration. A frame is lost if any of its bits is.
    pub struct TwoStateKeys as "two-state" {
        /// Mean duration of the good state.
        good: Duration, Limits::POSITIVE;
        /// Mean duration of the bad state.
        bad: Duration, Limits::POSITIVE;
        /// Bit error rate in the good state.
        good_ber: Probability;
        /// Bit error rate in the bad state.
        bad_ber: Probability;
        /// Length of the beginning of a frame, link header included, that must be intact for the
        /// headers of a damaged packet to be readable. Without it, headers of damaged frames are
        /// never readable.
        header: Option<Bytes>, Limits::PACKET;
    }
}

impl ErrorKeys for TwoStateKeys {
    type Process = TwoState;

    fn build(&self, streams: &Streams, component: &str) -> Result<TwoState, ChannelError> {
        let TwoStateKeys { good, bad, good_ber, bad_ber, .. } = *self;
        let parameters = TwoStateParameters { good, bad, good_ber, bad_ber };
        TwoState::new(parameters, streams, component)
    }

    fn header(&self) -> Option<HeaderRule> {
        self.header.map(HeaderRule::First)
    }
}

/// Parameters of a two-state process.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TwoStateParameters {
    /// Mean duration of a good period, in nanoseconds; above 0.
    pub good: Duration,
    /// Mean duration of a bad period, in nanoseconds; above 0.
    pub bad: Duration,
    /// Bit error rate in good periods, errors per bit.
    pub good_ber: Probability,
    /// Bit error rate in bad periods, errors per bit.
    pub bad_ber: Probability,
}

/// One state: mean duration and frame loss probability.
#[derive(Clone, Debug)]
struct State {
    mean: Duration,
    loss: FrameLoss,
}

/// Error process with good and bad periods in time, each with its bit error rate.
///
/// ```
/// use lasthop_base::rng::Streams;
/// use lasthop_base::units::{Duration, Instant, Probability};
/// use lasthop_link::channel::{Airtime, ErrorProcess, TwoState, TwoStateParameters};
///
/// let probability = |p| Probability::new(p).expect("a probability");
/// // Without errors in good periods of 1 s; every frame is lost in bad periods of 0.25 s: 20 %.
/// let parameters = TwoStateParameters {
///     good: Duration::from_millis(1_000),
///     bad: Duration::from_millis(250),
///     good_ber: probability(0.0),
///     bad_ber: probability(0.01),
/// };
/// let streams = Streams { seed: 1, replication: 0 };
/// let mut process = TwoState::new(parameters, &streams, "link.a").expect("periods");
/// let frame = |index: u64| {
///     let start = Instant::ZERO + Duration::from_millis(1) * index;
///     Airtime { start, end: start + Duration::from_millis(1), bits: 8_000 }
/// };
/// let lost = (0..1_000_000).filter(|&index| process.is_lost(frame(index))).count();
/// assert!((180_000..225_000).contains(&lost), "{lost}");
/// ```
#[derive(Clone, Debug)]
pub struct TwoState {
    current: State,
    other: State,
    is_bad: bool,
    /// End of the current period.
    until: Instant,
    sojourns: Stream,
    frames: Stream,
}

impl TwoState {
    /// Starts at time 0 in a state sampled from the stationary distribution. Periods use the stream
    /// `sojourns` of `component`, frame losses one number per frame from its stream `frame loss`.
    pub fn new(
        parameters: TwoStateParameters,
        streams: &Streams,
        component: &str,
    ) -> Result<Self, ChannelError> {
        let TwoStateParameters { good, bad, good_ber, bad_ber } = parameters;
        for (state, mean) in [("good", good), ("bad", bad)] {
            if mean == Duration::ZERO {
                return Err(ChannelError::NoSojourn { state });
            }
        }
        let mut sojourns = streams.stream(component, "sojourns");
        let (good_nanos, bad_nanos) = (good.as_nanos() as f64, bad.as_nanos() as f64);
        let is_bad = sojourns.bernoulli(bad_nanos / (good_nanos + bad_nanos));
        let mut process = TwoState {
            current: State { mean: good, loss: FrameLoss::new(good_ber) },
            other: State { mean: bad, loss: FrameLoss::new(bad_ber) },
            is_bad,
            until: Instant::ZERO,
            sojourns,
            frames: streams.stream(component, FRAME_LOSS),
        };
        if is_bad {
            std::mem::swap(&mut process.current, &mut process.other);
        }
        // The residual time of an exponential period at time 0 is exponential again.
        process.draw_period();
        Ok(process)
    }

    /// Returns `true` if the process is in a bad period at the end of the last frame.
    pub fn is_bad(&self) -> bool {
        self.is_bad
    }

    fn draw_period(&mut self) {
        let period = self.sojourns.exponential_duration(self.current.mean);
        // Saturates: a mean of centuries must not wrap around.
        self.until = Instant::from_nanos(self.until.as_nanos().saturating_add(period.as_nanos()));
    }

    fn flip(&mut self) {
        std::mem::swap(&mut self.current, &mut self.other);
        self.is_bad = !self.is_bad;
        self.draw_period();
    }

    /// Advances the state to `now`; no subsequent frame starts before.
    fn go_on(&mut self, now: Instant) {
        while self.until <= now && self.until != Instant::NEVER {
            self.flip();
        }
    }

    /// Returns the loss probability of a frame with state changes during its air time. Calls `see`
    /// with the number of bits in each state, in order.
    #[cold]
    fn integrate(&mut self, airtime: Airtime, mut see: impl FnMut(&FrameLoss, f64)) -> f64 {
        self.go_on(airtime.start);
        if self.until >= airtime.end {
            see(&self.current.loss, airtime.bits as f64);
            return self.current.loss.of(airtime.bits);
        }
        let bits_per_nano =
            airtime.bits as f64 / airtime.end.saturating_since(airtime.start).as_nanos() as f64;
        let (mut from, mut log_survival) = (airtime.start, 0.0);
        while self.until < airtime.end {
            let span = self.until.saturating_since(from).as_nanos() as f64;
            see(&self.current.loss, span * bits_per_nano);
            log_survival += self.current.loss.log_survival(span * bits_per_nano);
            from = self.until;
            self.flip();
        }
        let span = airtime.end.saturating_since(from).as_nanos() as f64;
        see(&self.current.loss, span * bits_per_nano);
        loss(log_survival + self.current.loss.log_survival(span * bits_per_nano))
    }
}

impl ErrorProcess for TwoState {
    #[inline]
    fn is_lost(&mut self, airtime: Airtime) -> bool {
        let loss = if self.until > airtime.start && self.until >= airtime.end {
            self.current.loss.of(airtime.bits)
        } else {
            self.integrate(airtime, |_, _| {})
        };
        self.frames.uniform() < loss
    }

    fn reception(&mut self, airtime: Airtime, header_bits: u64) -> Reception {
        // The rest of the header at the beginning of each state, and its survival probability so
        // far.
        let (mut left, mut log_survival) = (header_bits as f64, 0.0);
        let frame = self.integrate(airtime, |state, bits| {
            let bits = bits.min(left);
            log_survival += state.log_survival(bits);
            left -= bits;
        });
        let header = if header_bits < airtime.bits { loss(log_survival) } else { frame };
        Reception::draw(self.frames.uniform(), frame, header)
    }

    fn catch_up(&mut self, now: Instant) {
        self.go_on(now);
    }

    fn replay_rate(&self) -> f64 {
        2.0 / (self.current.mean.as_secs_f64() + self.other.mean.as_secs_f64())
    }
}

#[cfg(test)]
mod tests {
    use super::super::Channel;
    use super::super::testing::*;
    use super::*;

    fn parameters(bad: u64) -> TwoStateParameters {
        TwoStateParameters {
            good: Duration::from_secs(10),
            bad: Duration::from_millis(bad),
            good_ber: probability(1e-6),
            bad_ber: probability(1e-2),
        }
    }

    fn process(parameters: TwoStateParameters, replication: u64) -> TwoState {
        let streams = Streams { seed: 7, replication };
        TwoState::new(parameters, &streams, "two-state").expect("positive means")
    }

    /// 1 - π exp(G) 1 by the closed form of a 2 × 2 exponential; see the module head.
    fn mean_loss(parameters: TwoStateParameters, bits: f64, air: Duration) -> f64 {
        let (good, bad) = (parameters.good.as_secs_f64(), parameters.bad.as_secs_f64());
        let (g, h) = (air.as_secs_f64() / good, air.as_secs_f64() / bad);
        let m = [
            [bits * (1.0 - parameters.good_ber.get()).ln() - g, g],
            [h, bits * (1.0 - parameters.bad_ber.get()).ln() - h],
        ];
        let mean = (m[0][0] + m[1][1]) / 2.0;
        let root = (((m[0][0] - m[1][1]) / 2.0).powi(2) + m[0][1] * m[1][0]).sqrt();
        let (cosh, sinh) = (root.cosh(), root.sinh() / root);
        // exp(G) = e^mean (cosh(root) I + sinh(root)/root (G - mean I)); only row sums are needed.
        let row = |i: usize| mean.exp() * (cosh + sinh * (m[i][0] + m[i][1] - mean));
        (good * (1.0 - row(0)) + bad * (1.0 - row(1))) / (good + bad)
    }

    const AIR: Duration = Duration::from_nanos(31_250_000);

    #[test]
    fn the_closed_form_gives_the_published_points() {
        for (bad, percent) in [(100, 1.47), (200, 2.43), (500, 5.22), (1000, 9.53)] {
            let loss = 100.0 * mean_loss(parameters(bad), 2000.0, AIR);
            assert!((loss - percent).abs() < 0.01, "{bad} ms: {loss} %");
        }
    }

    #[test]
    fn saturated_frame_loss_follows_the_closed_form() {
        // 40 independent replications of 20 000 frames (625 s) each. Student t over them with 39
        // degrees of freedom, |t| < 5.5: false positives below 5e-6 per point.
        for bad in [100, 200, 500, 1000] {
            let rates: Vec<f64> = (0..40)
                .map(|replication| {
                    let mut process = process(parameters(bad), replication);
                    let airtimes = back_to_back(2000, AIR).take(20_000);
                    airtimes.filter(|&airtime| process.is_lost(airtime)).count() as f64 / 20_000.0
                })
                .collect();
            let mean = rates.iter().sum::<f64>() / 40.0;
            let variance = rates.iter().map(|r| (r - mean).powi(2)).sum::<f64>() / 39.0;
            let exact = mean_loss(parameters(bad), 2000.0, AIR);
            let t = (mean - exact) / (variance / 40.0).sqrt();
            assert!(t.abs() < 5.5, "{bad} ms: {mean}, expected {exact}, t = {t}");
        }
    }

    #[test]
    fn the_first_state_is_stationary() {
        let parameters = parameters(1000);
        let n = 20_000;
        let bad = (0..n).filter(|&r| process(parameters, r).is_bad()).count() as u64;
        assert_binomial(bad, n, 1.0 / 11.0);
    }

    #[test]
    fn idle_time_counts() {
        // Frames half a minute apart are practically independent (correlation e^-33).
        let mut process = process(parameters(1000), 0);
        let n = 100_000;
        let lost = (0..n).filter(|i| {
            let start = Instant::from_nanos(i * 30_000_000_000);
            process.is_lost(Airtime { start, end: start + AIR, bits: 2000 })
        });
        assert_binomial(lost.count() as u64, n, mean_loss(parameters(1000), 2000.0, AIR));
    }

    #[test]
    fn periods_do_not_depend_on_what_is_sent() {
        let (mut busy, mut sparse) = (process(parameters(500), 3), process(parameters(500), 3));
        for (i, airtime) in back_to_back(2000, AIR).take(50_000).enumerate() {
            busy.is_lost(airtime);
            if i % 7 == 0 {
                sparse.is_lost(Airtime { bits: 16, ..airtime });
                assert_eq!((busy.is_bad, busy.until), (sparse.is_bad, sparse.until));
            }
        }
    }

    #[test]
    fn segments_multiply() {
        // For a frame that spans many periods of equal BER, the periods have no effect.
        let ber = probability(1e-3);
        let short = Duration::from_nanos(1000);
        let parameters =
            TwoStateParameters { good: short, bad: short, good_ber: ber, bad_ber: ber };
        let mut process = process(parameters, 0);
        let exact = 1.0 - 0.999f64.powi(2000);
        for airtime in back_to_back(2000, Duration::from_millis(1)).take(20) {
            assert!((process.integrate(airtime, |_, _| {}) - exact).abs() < 1e-9);
        }
    }

    #[test]
    fn a_frame_without_air_time_meets_one_state() {
        let mut channel = Channel::TwoState(process(parameters(100), 0));
        let lost = losses(&mut channel, 10, 0);
        let now = Instant::from_nanos(1_000_000_000_000);
        channel.is_lost(Airtime { start: now, end: now, bits: 2000 });
        assert_eq!(lost, 0);
    }

    #[test]
    fn a_state_of_no_length_is_refused() {
        let wrong = TwoStateParameters { bad: Duration::ZERO, ..parameters(100) };
        let error = TwoState::new(wrong, &STREAMS, "link").unwrap_err();
        assert!(error.to_string().contains("bad state"), "{error}");
    }
}
