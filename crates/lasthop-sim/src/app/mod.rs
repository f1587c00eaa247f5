//! Applications: what asks a transport to send, and when.
//!
//! # Contract of a source of datagrams
//!
//! Its driver, the simulator, owns the clock and the network:
//!
//! - [`DatagramSource::next_at`] is when the next packet leaves, not before the start of the flow and never
//!   before the packet that left last;
//! - then, and only then, [`DatagramSource::send`] is called: it gives the packet, and `next_at` is about the one
//!   after it;
//! - each packet that gets through is told to [`DatagramSource::receive`] once, with the time when it comes: a
//!   computed link tells it ahead of the clock. One that is lost is never told.

mod family;
mod mah;
mod tally;

// The list of applications: the file of each, its name, and the keys and so the `kind` that it has in
// scenarios; first those that write to TCP connections.
applications! {
    tcp {
        file: File(FileKeys);
        web: Web(WebKeys);
    }
    datagrams {
        on_off: OnOff(OnOffKeys);
        media: Media(MediaKeys);
    }
}

use family::{SourceKeys, TransferKeys, applications};
use lasthop_base::schema::error::ScenarioError;
use lasthop_base::schema::keys::{Kind, kinds};
use lasthop_base::schema::metrics::{Metric, Report};
use lasthop_base::units::{Bytes, Duration, Instant};
use lasthop_link::queue::OnOff;

pub use crate::transport::Datagram;
pub use family::SourceSite;
pub use file::{FileKeys, FileMetrics};
pub use mah::Empirical;
pub use media::{
    GRACE, HORIZON, LONGEST, MOST_OPEN, MediaKeys, MediaReport, MediaStatistics, OUTAGE,
};
pub use on_off::{OnOffKeys, Replay};
pub use tally::{DatagramCounts, DatagramMetrics, Tally};
pub use web::{Web, WebCounters, WebKeys, WebMetrics, WebParameters};

/// What sends datagrams, and what their receiver experiences; the contract is the top comment of this
/// module.
pub trait DatagramSource {
    /// When the next packet leaves.
    fn next_at(&self) -> Instant;

    /// The next packet leaves now.
    fn send(&mut self, now: Instant) -> Datagram;

    /// Packet `number` got through; it comes at `at`, which may lie ahead of the clock.
    fn receive(&mut self, now: Instant, number: u64, at: Instant);

    /// It will not be asked for what happened before `horizon`.
    fn set_horizon(&mut self, _horizon: Instant) {}

    /// Bytes that have arrived, headers included.
    fn delivered_bytes(&self, now: Instant) -> u64;

    /// Reports its metrics (`SourceKeys::METRICS`) at `now`, the end of the run.
    fn metrics(&self, now: Instant, report: &mut Report<'_>);

    /// The departures, where the queue of its only link may replay them with the same results.
    fn replayable(&self) -> Option<&OnOff> {
        None
    }
}

impl DatagramSource for Source {
    #[inline]
    fn next_at(&self) -> Instant {
        dispatch!(self, source => source.next_at())
    }

    #[inline]
    fn send(&mut self, now: Instant) -> Datagram {
        dispatch!(self, source => source.send(now))
    }

    #[inline]
    fn receive(&mut self, now: Instant, number: u64, at: Instant) {
        dispatch!(self, source => source.receive(now, number, at))
    }

    fn set_horizon(&mut self, horizon: Instant) {
        dispatch!(self, source => source.set_horizon(horizon))
    }

    fn delivered_bytes(&self, now: Instant) -> u64 {
        dispatch!(self, source => source.delivered_bytes(now))
    }

    fn metrics(&self, now: Instant, report: &mut Report<'_>) {
        dispatch!(self, source => source.metrics(now, report))
    }

    fn replayable(&self) -> Option<&OnOff> {
        dispatch!(self, source => source.replayable())
    }
}
