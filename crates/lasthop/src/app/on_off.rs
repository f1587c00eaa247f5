//! Exponential on-off source at constant rate (ns-2 `Application/Traffic/Exponential`).
//!
//! ```text
//!   OFF (drawn) --> ON: n packets, one every interval --> OFF ...
//! ```
//!
//! Within a burst, packet `k` leaves at `start + k * bits / rate`, computed exactly, so that an
//! interval that is not a whole number of nanoseconds accumulates no drift. Conventions of ns-2's
//! `tools/expoo.cc`: a burst has a whole number of packets, the drawn on time divided by the
//! interval, rounded, at least one; one interval follows the last packet before the off time
//! begins; a source begins with an off time.
//!
//! *Not modelled*: jitter, variable packet sizes.

use crate::rng::{DurationLaw, Stream};
use crate::units::{Bytes, Instant, Rate};

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
    /// Interval between packets: whole nanoseconds and remainder in units of 1/rate.
    interval: (u64, u64),
    /// First packet of the current burst.
    start: u64,
    /// Packets of the current burst, and how many of them have left.
    length: u64,
    sent: u64,
}

impl OnOff {
    /// A source that begins with an off time at `start`.
    pub fn new(parameters: OnOffParameters, start: Instant, stream: Stream) -> Self {
        let scaled = parameters.packet.bits() * 1_000_000_000;
        let rate = parameters.rate.as_bps();
        let interval = (scaled / rate, scaled % rate);
        let mut source = OnOff { parameters, stream, interval, start: 0, length: 0, sent: 0 };
        source.next_burst(start.as_nanos());
        source
    }

    fn next_burst(&mut self, after: u64) {
        let rate = self.parameters.rate.as_bps() as f64;
        let interval = self.parameters.packet.bits() as f64 * 1e9 / rate;
        let on = self.parameters.on.sample(&mut self.stream).as_nanos() as f64;
        let off = self.parameters.off.sample(&mut self.stream);
        self.length = ((on / interval + 0.5) as u64).max(1);
        self.sent = 0;
        self.start = after + self.interval.0 + off.as_nanos();
    }

    /// When packet `k` of the current burst leaves, in nanoseconds.
    #[inline]
    fn departure(&self, k: u64) -> u64 {
        // k * remainder fits: both are below 2^32 in any burst of less than a year.
        self.start + k * self.interval.0 + k * self.interval.1 / self.parameters.rate.as_bps()
    }

    /// When the next packet leaves.
    #[inline]
    pub fn next_at(&self) -> Instant {
        Instant::from_nanos(self.departure(self.sent))
    }

    /// When the packet after `ahead` more of the same burst leaves.
    #[inline]
    pub fn at(&self, ahead: u64) -> Instant {
        Instant::from_nanos(self.departure(self.sent + ahead))
    }

    /// Packets of the current burst that have not left yet; at least one.
    #[inline]
    pub fn left_in_burst(&self) -> u64 {
        self.length - self.sent
    }

    /// How many of the packets left in this burst leave at or before `until`.
    #[inline]
    pub fn count_until(&self, until: Instant) -> u64 {
        let left = self.left_in_burst();
        let Some(elapsed) = until.as_nanos().checked_sub(self.departure(self.sent)) else {
            return 0;
        };
        // An estimate in floating point, then made exact.
        let mut count = (elapsed / self.interval.0.max(1) + 1).min(left);
        while count > 1 && self.at(count - 1) > until {
            count -= 1;
        }
        while count < left && self.at(count) <= until {
            count += 1;
        }
        count
    }

    /// `count` packets have left; never more than [`Self::left_in_burst`].
    #[inline]
    pub fn advance(&mut self, count: u64) {
        debug_assert!(count <= self.left_in_burst(), "a block ends with its burst");
        self.sent += count;
        if self.sent == self.length {
            let last = self.departure(self.length - 1);
            self.next_burst(last);
        }
    }

    /// Size of each packet.
    pub fn packet(&self) -> Bytes {
        self.parameters.packet
    }

    /// Whole nanoseconds between packets, rounded down.
    pub(crate) fn interval_floor(&self) -> u64 {
        self.interval.0
    }
}
