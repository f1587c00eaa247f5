//! On-off applications, which send at a constant rate in on periods: an [`OnOff`] process whose
//! packets are counted.

use super::family::{SourceKeys, SourceSite};
use super::{Datagram, DatagramMetrics, DatagramSource, Tally};
use lasthop_base::rng::DurationDistribution;
use lasthop_base::schema::keys::{Limits, choice, table};
use lasthop_base::schema::metrics::{Metric, Report};
use lasthop_base::units::{Bytes, Duration, Instant, Rate};
use lasthop_link::link::airtime;
use lasthop_link::queue::{OnOff, OnOffParameters};

table! {
    /// Packets at a constant rate in on periods, with silence between them; needs udp, udp-lite or quic.
    pub struct OnOffKeys as "on-off" {
        /// Rate in on periods, packet headers included.
        rate: Rate, Limits::RATE;
        /// Duration of an on period.
        on: DurationDistribution, Limits::POSITIVE;
        /// Duration of an off period.
        off: DurationDistribution;
        /// Size of each packet, headers included.
        packet: Bytes, Limits::PACKET;
        /// Method to simulate the packets; it does not affect the results.
        replay: Replay = "lazy";
    }
}

choice! {
    /// Method to simulate the packets of an on-off source.
    pub enum Replay {
        /// On demand, when the shared queue is used by other packets: fast.
        Lazy = "lazy",
        /// With one event per packet and hop.
        PerPacket = "per-packet",
    }
}

/// The state machine.
pub type Machine = OnOffFlow;

impl SourceKeys for OnOffKeys {
    type Machine = Machine;

    const METRICS: &'static [Metric] = DatagramMetrics::METRICS;

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

const _: () =
    assert!(size_of::<OnOffFlow>() <= 120, "a source with its carrier takes two cache lines");

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

    fn metrics(&self, now: Instant, report: &mut Report<'_>) {
        self.tally.counts(now).metrics(report);
    }

    fn replayable(&self) -> Option<&OnOff> {
        (self.replay == Replay::Lazy).then_some(&self.source)
    }
}
