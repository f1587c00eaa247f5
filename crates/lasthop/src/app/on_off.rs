//! On-off source at constant rate, its times constant, exponential or Pareto (ns-2
//! `Application/Traffic/Exponential` and `Application/Traffic/Pareto`).
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

use super::family::{SourceKeys, SourceSite};
use super::{Datagram, DatagramSource, Tally};
use crate::link::airtime;
use crate::rng::{DurationLaw, Stream};
use crate::schema::keys::{Limits, choice, table};
use crate::units::{Bytes, Duration, ExactTime, Instant, Rate};

table! {
    /// Packets at a constant rate in on periods, silence between them; needs udp or udp-lite.
    pub struct OnOffKeys as "on-off" {
        /// Rate at which it sends while on, packet headers included.
        rate: Rate, Limits::RATE;
        /// Duration of an on period.
        on: DurationLaw, Limits::POSITIVE;
        /// Duration of an off period.
        off: DurationLaw;
        /// Size of each packet, headers included.
        packet: Bytes, Limits::PACKET;
        /// How the simulator works through the packets; the results are the same.
        replay: Replay = "lazy";
    }
}

choice! {
    /// How the simulator works through the packets of an on-off source.
    pub enum Replay {
        /// Only when somebody looks at the queue they share: fast.
        Lazy = "lazy",
        /// One event for each packet and hop.
        PerPacket = "per-packet",
    }
}

/// The machine.
pub type Machine = OnOffFlow;

impl SourceKeys for OnOffKeys {
    type Machine = Machine;

    fn packet(&self) -> Bytes {
        self.packet
    }

    fn interval(&self) -> Option<Duration> {
        Some(airtime(self.packet, self.rate))
    }

    fn build(&self, site: &SourceSite<'_>) -> Machine {
        let OnOffKeys { rate, on, off, packet, replay } = *self;
        let stream = site.streams.stream(site.component, "on-off");
        let source = OnOff::new(OnOffParameters { rate, on, off, packet }, site.start, stream);
        OnOffFlow { source, replay, tally: Tally::new() }
    }
}

/// An on-off source whose packets are counted.
#[derive(Clone, Debug)]
pub struct OnOffFlow {
    source: OnOff,
    replay: Replay,
    tally: Tally,
}

impl DatagramSource for OnOffFlow {
    #[inline]
    fn next_at(&self) -> Instant {
        self.source.next_at()
    }

    #[inline]
    fn send(&mut self, _now: Instant) -> Datagram {
        self.source.advance(1);
        Datagram { number: self.tally.send(), size: self.source.packet() }
    }

    #[inline]
    fn receive(&mut self, now: Instant, _number: u64, at: Instant) {
        self.tally.receive(now, at);
    }

    fn set_horizon(&mut self, horizon: Instant) {
        self.tally.set_horizon(horizon);
    }

    fn delivered_bytes(&self, now: Instant) -> u64 {
        self.tally.counts(now).arrived() * self.source.packet().get()
    }

    fn metrics(&self, now: Instant, report: &mut dyn FnMut(&'static str, f64)) {
        self.tally.counts(now).metrics(report);
    }

    fn replayable(&self) -> Option<&OnOff> {
        (self.replay == Replay::Lazy).then_some(&self.source)
    }
}

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
    pub(crate) fn departure(&self, ahead: u64) -> ExactTime {
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
    pub(crate) fn next_exact(&self) -> ExactTime {
        self.next
    }

    /// Rate while on.
    pub(crate) fn rate(&self) -> Rate {
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
    pub(crate) fn advance_past(&mut self, count: u64, last: ExactTime) {
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
    pub(crate) fn interval_floor(&self) -> u64 {
        self.interval.nanos
    }
}
