//! On-off process at constant rate, its times constant, exponential or Pareto (ns-2
//! `Application/Traffic/Exponential` and `Application/Traffic/Pareto`). Applications send at its times, and a
//! [`ComputedFifo`](super::ComputedFifo) replays it as background traffic.
//!
//! ```text
//!   OFF (drawn) --> ON: n packets, one every interval --> OFF ...
//! ```
//!
//! Within a burst, packet `k` leaves at `start + k * bits / rate`, computed exactly, so that an
//! interval that is not a whole number of nanoseconds accumulates no drift. Conventions of ns-2's
//! `tools/expoo.cc` and `tools/pareto.cc`: a burst has a whole number of packets, the drawn on time divided by the
//! interval, rounded, at least one; one interval follows the last packet before the off time
//! begins; a source begins with an off time.
//!
//! *Not modelled*: jitter, variable packet sizes.

use lasthop_base::rng::{DurationLaw, Stream};
use lasthop_base::units::{Bytes, Duration, ExactTime, Instant, Rate};

/// Parameters of an on-off source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OnOffParameters {
    /// Rate while on.
    pub rate: Rate,
    /// Law of the on time.
    pub on: DurationLaw,
    /// Law of the off time.
    pub off: DurationLaw,
    /// Size of each packet on the wire.
    pub packet: Bytes,
}

/// The packets of one source, one after the other or in blocks.
#[derive(Clone, Debug)]
pub struct OnOff {
    parameters: OnOffParameters,
    stream: Stream,
    /// Interval between packets.
    interval: ExactTime,
    /// When the next packet leaves.
    next: ExactTime,
    /// Packets of the current burst that have not left.
    left: u64,
}

impl OnOff {
    /// A source that begins with an off time at `start`.
    pub fn new(parameters: OnOffParameters, start: Instant, stream: Stream) -> Self {
        let interval = ExactTime::default().after(parameters.packet.bits(), parameters.rate);
        let next = ExactTime::default();
        let mut source = OnOff { parameters, stream, interval, next, left: 0 };
        source.next_burst(start);
        source
    }

    /// Draws the burst that follows the packet at `last`.
    #[cold]
    fn next_burst(&mut self, last: Instant) {
        let rate = self.parameters.rate.as_bps() as f64;
        let interval = self.parameters.packet.bits() as f64 * 1e9 / rate;
        let on = self.parameters.on.sample(&mut self.stream).as_nanos() as f64;
        let off = self.parameters.off.sample(&mut self.stream);
        self.left = ((on / interval + 0.5) as u64).max(1);
        self.next = ExactTime::from(last + Duration::from_nanos(self.interval.nanos) + off);
    }

    /// When the packet after `ahead` more of the current burst leaves.
    #[inline]
    pub(super) fn departure(&self, ahead: u64) -> ExactTime {
        if ahead == 0 {
            return self.next;
        }
        let (ExactTime { nanos, fraction }, rate) = (self.interval, self.parameters.rate.as_bps());
        // A division of 64 bits is enough but for the longest steps at the highest rates.
        let (whole, rest) = match ahead.checked_mul(fraction) {
            Some(product) => (product / rate, product % rate),
            None => {
                let (product, rate) = (u128::from(ahead) * u128::from(fraction), u128::from(rate));
                ((product / rate) as u64, (product % rate) as u64)
            }
        };
        let step = ExactTime { nanos: ahead * nanos + whole, fraction: rest };
        self.next.plus(step, self.parameters.rate)
    }

    /// When the next packet leaves.
    #[inline]
    pub fn next_at(&self) -> Instant {
        self.next.instant()
    }

    /// The same, exactly, in fractions of the rate of the source.
    #[inline]
    pub(super) fn next_exact(&self) -> ExactTime {
        self.next
    }

    /// Rate while on.
    pub(super) fn rate(&self) -> Rate {
        self.parameters.rate
    }

    /// When the packet after `ahead` more of the same burst leaves.
    #[inline]
    pub fn at(&self, ahead: u64) -> Instant {
        self.departure(ahead).instant()
    }

    /// Packets of the current burst that have not left yet; at least one.
    #[inline]
    pub fn left_in_burst(&self) -> u64 {
        self.left
    }

    /// How many of the packets left in this burst leave at or before `until`.
    #[inline]
    pub fn count_until(&self, until: Instant) -> u64 {
        let left = self.left_in_burst();
        let Some(elapsed) = until.as_nanos().checked_sub(self.next.nanos) else {
            return 0;
        };
        // The packet after `k` more leaves by then if next + k interval < elapsed + 1; in units of a
        // nanosecond over the rate, an interval is the bits of a packet times 1e9.
        let rate = self.parameters.rate.as_bps();
        let interval = self.parameters.packet.bits() * 1_000_000_000;
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

    /// `count` packets have left; never more than [`Self::left_in_burst`].
    #[inline]
    pub fn advance(&mut self, count: u64) {
        self.advance_past(count, self.departure(count - 1));
    }

    /// The same; `last` is when the last of them left.
    #[inline]
    pub(super) fn advance_past(&mut self, count: u64, last: ExactTime) {
        debug_assert!(count <= self.left_in_burst(), "a block ends with its burst");
        self.left -= count;
        if self.left == 0 {
            self.next_burst(last.instant());
        } else {
            self.next = last.plus(self.interval, self.parameters.rate);
        }
    }

    /// Size of each packet.
    pub fn packet(&self) -> Bytes {
        self.parameters.packet
    }

    /// Whole nanoseconds between packets, rounded down.
    pub(super) fn interval_floor(&self) -> u64 {
        self.interval.nanos
    }
}
