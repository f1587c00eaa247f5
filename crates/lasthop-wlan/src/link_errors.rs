//! Errors of the frames of a link: an error process, or a signal-to-noise ratio (SNR) from which the loss of an
//! MPDU follows by its mode.

use crate::fading::Fading;
use crate::phy::{ErrorCurve, Signal};
use lasthop_base::rng::Stream;
use lasthop_base::timeline::Timeline;
use lasthop_base::units::{Duration, Instant};
use lasthop_link::channel::{Airtime, Channel, ErrorProcess};

/// Errors of the frames of a link.
#[derive(Clone, Debug)]
pub enum LinkErrors {
    /// An error process, which does not depend on the mode.
    Process(Channel),
    /// Errors by SNR.
    Snr(Box<SnrErrors>),
}

impl From<Channel> for LinkErrors {
    fn from(channel: Channel) -> Self {
        LinkErrors::Process(channel)
    }
}

impl From<SnrErrors> for LinkErrors {
    fn from(errors: SnrErrors) -> Self {
        LinkErrors::Snr(Box::new(errors))
    }
}

impl LinkErrors {
    /// Returns `true` if a frame is lost; `signal` is `None` for control frames, which errors by SNR spare.
    #[inline]
    pub fn is_lost(&mut self, airtime: Airtime, signal: Option<Signal>) -> bool {
        match self {
            LinkErrors::Process(channel) => channel.is_lost(airtime),
            LinkErrors::Snr(errors) => signal.is_some_and(|one| errors.is_lost(airtime, one)),
        }
    }

    /// Returns `true` if losses depend neither on the times nor on the lengths of frames.
    #[inline]
    pub fn is_timeless(&self) -> bool {
        matches!(self, LinkErrors::Process(Channel::Clean(_) | Channel::Uniform(_)))
    }

    /// Returns `true` if the header of the latest frame, which was lost, is readable.
    pub fn is_header_readable(&self) -> bool {
        matches!(self, LinkErrors::Process(channel) if channel.is_header_readable())
    }

    /// Returns the latest SNR in dB, if it determines the errors.
    pub fn snr(&self) -> Option<f64> {
        match self {
            LinkErrors::Process(_) => None,
            LinkErrors::Snr(errors) => Some(errors.snr),
        }
    }

    /// Returns the number of lost frames with a readable header; `None` if no header is readable.
    pub fn readable_headers(&self) -> Option<u64> {
        match self {
            LinkErrors::Process(channel) => channel.readable_headers(),
            LinkErrors::Snr(_) => None,
        }
    }

    /// Advances the errors to `now`; no later frame starts before.
    pub fn catch_up(&mut self, now: Instant) {
        if let LinkErrors::Process(channel) = self {
            channel.catch_up(now);
        }
    }

    /// Returns the number of state changes per second of simulated time.
    pub fn replay_rate(&self) -> f64 {
        match self {
            LinkErrors::Process(channel) => channel.replay_rate(),
            LinkErrors::Snr(_) => 0.0,
        }
    }
}

/// Loss of MPDUs of one signal at the current SNR.
#[derive(Clone, Copy, Debug)]
struct SignalLoss {
    signal: Signal,
    /// Logarithm of the probability that a bit survives.
    log_survival: f64,
    /// Length of the latest MPDU in bits, and its loss probability.
    latest: (u64, f64),
}

/// Part of the fading period for which its gain is constant.
const HOLD: u64 = 100;

/// Errors of MPDUs by SNR: one random number per MPDU, from the stream `frame loss`, is compared with the loss
/// probability of its length in its mode at the SNR of its start. With fading, the SNR is constant for a
/// hundredth of its period.
#[derive(Clone, Debug)]
pub struct SnrErrors {
    curve: ErrorCurve,
    /// SNR without fading, in thousandths of a dB.
    course: Timeline<i32>,
    fading: Option<Fading>,
    /// Duration in ns for which the gain of the fading is constant.
    hold: u64,
    /// Current SNR in dB, and its end in ns.
    snr: f64,
    until: u64,
    /// The signals used at this SNR.
    signals: Vec<SignalLoss>,
    frames: Stream,
}

impl SnrErrors {
    /// Creates the errors at an SNR of `course`, in thousandths of a dB, with the random numbers `frames`.
    pub fn new(curve: ErrorCurve, course: Timeline<i32>, frames: Stream) -> Self {
        let signals = Vec::with_capacity(48);
        SnrErrors { curve, course, fading: None, hold: 0, snr: 0.0, until: 0, signals, frames }
    }

    /// Adds fading with a `period`.
    #[must_use]
    pub fn with_fading(mut self, fading: Fading, period: Duration) -> Self {
        self.hold = (period.as_nanos() / HOLD).max(1);
        self.fading = Some(fading);
        self
    }

    /// Sets the SNR at `now`, in ns.
    #[cold]
    fn advance(&mut self, now: u64) {
        self.course.go_to(now);
        let mut snr = f64::from(self.course.value()) / 1e3;
        self.until = self.course.step_end();
        if let Some(fading) = &self.fading {
            let start = now - now % self.hold;
            // Powers below -100 dB have no effect on the errors.
            let power = fading.power(Instant::from_nanos(start)).max(1e-10);
            snr += 10.0 * libm::log10(power);
            self.until = self.until.min(start + self.hold);
        }
        if snr != self.snr {
            self.snr = snr;
            self.signals.clear();
        }
    }

    /// Returns `true` if an MPDU is lost.
    pub fn is_lost(&mut self, airtime: Airtime, signal: Signal) -> bool {
        let start = airtime.start.as_nanos();
        if start >= self.until {
            self.advance(start);
        }
        let loss = self.loss(signal, airtime.bits);
        self.frames.uniform() < loss
    }

    /// Returns the loss probability of an MPDU of `bits`.
    fn loss(&mut self, signal: Signal, bits: u64) -> f64 {
        let place = self.signals.iter().position(|known| known.signal == signal);
        let place = place.unwrap_or_else(|| {
            let ber = self.curve.signal_error(signal, self.snr).min(1.0);
            let log_survival = libm::log1p(-ber);
            self.signals.push(SignalLoss { signal, log_survival, latest: (0, 0.0) });
            self.signals.len() - 1
        });
        let known = &mut self.signals[place];
        if known.latest.0 != bits {
            known.latest = (bits, -libm::expm1(bits as f64 * known.log_survival));
        }
        known.latest.1
    }
}
