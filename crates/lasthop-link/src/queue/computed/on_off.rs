//! On-off process with a constant rate while on. The on and off times are constant, exponential or
//! Pareto (ns-2 `Application/Traffic/Exponential` and `Application/Traffic/Pareto`). Applications
//! send at its times, and a [`ComputedFifo`](super::ComputedFifo) replays it as background traffic.
//!
//! ```text
//!     OFF (sampled) --> ON: n packets, one per interval --> OFF ...
//! ```
//!
//! Within a burst, packet `k` is sent at `start + k * bits / rate`. The time is exact, so that
//! intervals that are not a whole number of nanoseconds do not accumulate drift. Conventions of
//! ns-2's `tools/expoo.cc` and `tools/pareto.cc`: the number of packets of a burst is the sampled
//! on time divided by the interval, rounded, at least 1. One interval follows the last packet
//! before the off time begins. A source starts with an off time.
//!
//! *Not modelled*: jitter, variable packet sizes.

use lasthop_base::rng::{DurationDistribution, Stream};
use lasthop_base::units::{Bytes, Duration, ExactTime, Instant, Rate};

/// Parameters of an on-off source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OnOffParameters {
    /// Rate during the on time.
    pub rate: Rate,
    /// Distribution of the on time.
    pub on: DurationDistribution,
    /// Distribution of the off time.
    pub off: DurationDistribution,
    /// Length of each packet on the wire.
    pub packet: Bytes,
}

/// The packets of one source, generated one by one or in blocks.
#[derive(Clone, Debug)]
pub struct OnOff {
    rate: Rate,
    packet: Bytes,
    /// Interval between packets.
    interval: ExactTime,
    /// Time of the next packet.
    next: ExactTime,
    /// Packets of the current burst that are not yet sent.
    left: u64,
    /// Used once per burst only, so it is not stored with the fields that each packet needs.
    periods: Box<Periods>,
}

/// Samples on and off times.
#[derive(Clone, Debug)]
struct Periods {
    on: DurationDistribution,
    off: DurationDistribution,
    stream: Stream,
}

impl OnOff {
    /// Creates a source that starts with an off time at `start`.
    pub fn new(parameters: OnOffParameters, start: Instant, stream: Stream) -> Self {
        let OnOffParameters { rate, on, off, packet } = parameters;
        let interval = ExactTime::default().after(packet.bits(), rate);
        let (next, periods) = (ExactTime::default(), Box::new(Periods { on, off, stream }));
        let mut source = OnOff { rate, packet, interval, next, left: 0, periods };
        source.next_burst(start);
        source
    }

    /// Samples the next burst; the previous one ended with the packet at `last`.
    #[cold]
    fn next_burst(&mut self, last: Instant) {
        let rate = self.rate.as_bps() as f64;
        let interval = self.packet.bits() as f64 * 1e9 / rate;
        let Periods { on, off, stream } = &mut *self.periods;
        let (on, off) = (on.sample(stream).as_nanos() as f64, off.sample(stream));
        self.left = ((on / interval + 0.5) as u64).max(1);
        self.next = ExactTime::from(last + Duration::from_nanos(self.interval.nanos) + off);
    }

    /// Time of the packet `ahead` places after the next one, in the same burst.
    #[inline]
    pub(super) fn departure(&self, ahead: u64) -> ExactTime {
        if ahead == 0 {
            return self.next;
        }
        let (ExactTime { nanos, fraction }, rate) = (self.interval, self.rate.as_bps());
        // A 64-bit division suffices, except for the longest steps at the highest rates.
        let (whole, rest) = match ahead.checked_mul(fraction) {
            Some(product) => (product / rate, product % rate),
            None => {
                let (product, rate) = (u128::from(ahead) * u128::from(fraction), u128::from(rate));
                ((product / rate) as u64, (product % rate) as u64)
            }
        };
        let step = ExactTime { nanos: ahead * nanos + whole, fraction: rest };
        self.next.plus(step, self.rate)
    }

    /// Time of the next packet.
    #[inline]
    pub fn next_at(&self) -> Instant {
        self.next.instant()
    }

    /// Like [`Self::next_at`], but exact, with a fraction in units of 1/rate.
    #[inline]
    pub(super) fn next_exact(&self) -> ExactTime {
        self.next
    }

    /// Rate during the on time.
    pub(super) fn rate(&self) -> Rate {
        self.rate
    }

    /// Time of the packet `ahead` places after the next one, in the same burst.
    #[inline]
    pub fn at(&self, ahead: u64) -> Instant {
        self.departure(ahead).instant()
    }

    /// Packets of the current burst that are not yet sent; at least 1.
    #[inline]
    pub fn left_in_burst(&self) -> u64 {
        self.left
    }

    /// Number of remaining packets of the burst that are sent at or before `until`.
    #[inline]
    pub fn count_until(&self, until: Instant) -> u64 {
        let left = self.left_in_burst();
        let Some(elapsed) = until.as_nanos().checked_sub(self.next.nanos) else {
            return 0;
        };
        // The packet `k` places after the next one is included if next + k interval < elapsed + 1.
        // In units of a nanosecond divided by the rate, an interval is the bits of a packet times
        // 1e9.
        let rate = self.rate.as_bps();
        let interval = self.packet.bits() * 1_000_000_000;
        let later = match (elapsed + 1).checked_mul(rate) {
            Some(product) => (product - 1 - self.next.fraction) / interval,
            None => {
                let product = u128::from(elapsed + 1) * u128::from(rate);
                let later = (product - 1 - u128::from(self.next.fraction)) / u128::from(interval);
                u64::try_from(later).unwrap_or(u64::MAX - 1)
            }
        };
        left.min(later + 1)
    }

    /// Advances by `count` packets, at most [`Self::left_in_burst`].
    #[inline]
    pub fn advance(&mut self, count: u64) {
        self.advance_past(count, self.departure(count - 1));
    }

    /// Like [`Self::advance`]; `last` is the time of the last of these packets.
    #[inline]
    pub(super) fn advance_past(&mut self, count: u64, last: ExactTime) {
        debug_assert!(count <= self.left_in_burst(), "a block ends with its burst");
        self.left -= count;
        if self.left == 0 {
            self.next_burst(last.instant());
        } else {
            self.next = last.plus(self.interval, self.rate);
        }
    }

    /// Length of each packet.
    pub fn packet(&self) -> Bytes {
        self.packet
    }

    /// Interval between packets in whole nanoseconds, rounded down.
    pub(super) fn interval_floor(&self) -> u64 {
        self.interval.nanos
    }
}
