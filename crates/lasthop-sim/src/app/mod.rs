//! Applications: what asks a transport to send, and when.
//!
//! # Contract of an application that writes streams
//!
//! A stream is a dialogue of the two hosts of a flow: each end writes messages, and is notified of those of its peer. Its
//! driver, the simulator, maps streams to connections: one for each stream, or two if the transport sends data one way only.
//!
//! - [`StreamApplication::start`] is called once, at the start of the flow;
//! - after this and each other call the driver polls [`StreamApplication::poll_action`] until it returns `None`;
//! - a message is [written](Write) while no other of that end and stream is outstanding, or after it on the same instance;
//! - [`StreamApplication::on_delivered`] is called once everything that an end has written on a stream is delivered. Over a
//!   transport that sends data one way only, and for a [transfer](StreamApplication::is_transfer), delivery is what the sender
//!   knows: everything has been acknowledged. Otherwise it is what the receiver knows;
//! - at [`StreamApplication::next_timeout`] the driver calls [`StreamApplication::handle_timeout`].
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
// scenarios; first those that write streams.
applications! {
    streams {
        file: File(FileKeys);
        web: Web(WebKeys);
    }
    datagrams {
        on_off: OnOff(OnOffKeys);
        media: Media(MediaKeys);
    }
}

use crate::transport::End;
use family::{SourceKeys, StreamKeys, applications};
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
pub use web::{Web, WebCounters, WebKeys, WebMetrics};

/// A message that an application writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Write {
    /// The stream; the first is 0.
    pub stream: u32,
    /// The end that writes.
    pub end: End,
    /// Its length.
    pub bytes: u64,
    /// Whether it starts a new instance of the stream: a new connection between the same ports.
    pub opens: bool,
    /// Whether it is the last message of its end. Ignored where two one-way connections carry the stream, as in ns-2.
    pub closes: bool,
}

/// What an application asks of its driver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// An end writes a message.
    Write(Write),
    /// An end has nothing more to write; ignored as [`Write::closes`] is.
    Close {
        /// The stream.
        stream: u32,
        /// The end.
        end: End,
    },
}

/// An application that writes streams; the contract is the top comment of this module.
pub trait StreamApplication {
    /// Number of its streams.
    fn streams(&self) -> u32 {
        1
    }

    /// Whether it writes one message at the opener of each stream and nothing else, so that the sender alone knows when it
    /// is complete.
    fn is_transfer(&self) -> bool {
        false
    }

    /// The name of the random numbers from which the phases of the hosts' clocks are drawn, on the connection of `stream` on
    /// which `writer` writes.
    fn clock(&self, stream: u32, writer: End) -> String {
        let what = match writer {
            End::Opener => "request",
            End::Acceptor => "reply",
        };
        format!("boot time {what} {stream}")
    }

    /// The flow starts.
    fn start(&mut self, now: Instant);

    /// Returns the next action.
    fn poll_action(&mut self) -> Option<Action>;

    /// Everything written by `writer` on `stream` is delivered.
    fn on_delivered(&mut self, now: Instant, stream: u32, writer: End);

    /// Whether it has timers.
    fn has_timers(&self) -> bool {
        false
    }

    /// The earliest deadline.
    fn next_timeout(&self) -> Instant {
        Instant::NEVER
    }

    /// A deadline may have come.
    fn handle_timeout(&mut self, _now: Instant) {}

    /// Whether it has come to its end, if it has one (`StreamKeys::ENDS`).
    fn is_complete(&self) -> bool {
        false
    }

    /// Bytes that a transfer writes; 0 of other applications.
    fn size(&self) -> u64 {
        0
    }

    /// Returns the number of bytes delivered, of which the openers know `acknowledged`.
    fn delivered_bytes(&self, acknowledged: u64) -> u64;

    /// The end of the time over which goodput is measured; `None` if nothing has been delivered.
    fn measured_until(&self, now: Instant) -> Option<Instant>;

    /// Reports its metrics (`StreamKeys::METRICS`) at the end of the run.
    fn metrics(&self, report: &mut Report<'_>);
}

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

impl StreamApplication for StreamMachine {
    fn streams(&self) -> u32 {
        dispatch_stream!(self, machine => machine.streams())
    }

    fn is_transfer(&self) -> bool {
        dispatch_stream!(self, machine => machine.is_transfer())
    }

    fn clock(&self, stream: u32, writer: End) -> String {
        dispatch_stream!(self, machine => machine.clock(stream, writer))
    }

    fn start(&mut self, now: Instant) {
        dispatch_stream!(self, machine => machine.start(now))
    }

    fn poll_action(&mut self) -> Option<Action> {
        dispatch_stream!(self, machine => machine.poll_action())
    }

    fn on_delivered(&mut self, now: Instant, stream: u32, writer: End) {
        dispatch_stream!(self, machine => machine.on_delivered(now, stream, writer))
    }

    fn has_timers(&self) -> bool {
        dispatch_stream!(self, machine => machine.has_timers())
    }

    fn next_timeout(&self) -> Instant {
        dispatch_stream!(self, machine => machine.next_timeout())
    }

    fn handle_timeout(&mut self, now: Instant) {
        dispatch_stream!(self, machine => machine.handle_timeout(now))
    }

    fn is_complete(&self) -> bool {
        dispatch_stream!(self, machine => machine.is_complete())
    }

    fn size(&self) -> u64 {
        dispatch_stream!(self, machine => machine.size())
    }

    fn delivered_bytes(&self, acknowledged: u64) -> u64 {
        dispatch_stream!(self, machine => machine.delivered_bytes(acknowledged))
    }

    fn measured_until(&self, now: Instant) -> Option<Instant> {
        dispatch_stream!(self, machine => machine.measured_until(now))
    }

    fn metrics(&self, report: &mut Report<'_>) {
        dispatch_stream!(self, machine => machine.metrics(report))
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
