//! Applications: they generate the data that transports send.
//!
//! # Contract of an application that writes streams
//!
//! A stream is a dialogue between the two hosts of a flow: each end writes messages, and is
//! notified of those of its peer. Its driver, the simulator, maps streams to connections: one per
//! stream, or two if the transport sends data in one direction only.
//!
//! - [`StreamApplication::start`] is called once, at the start of the flow.
//! - After this and every other call the driver polls [`StreamApplication::poll_action`] until it
//!   returns `None`.
//! - A message is [written](Write) only if no other message of that end and stream is outstanding,
//!   or after it on the same instance.
//! - [`StreamApplication::on_delivered`] is called once all data written by an end on a stream has
//!   been delivered. Over a one-way transport, and for a
//!   [transfer](StreamApplication::is_transfer), this is determined at the sender: all data has
//!   been acknowledged. Otherwise it is determined at the receiver.
//! - At [`StreamApplication::next_timeout`] the driver calls [`StreamApplication::handle_timeout`].
//!
//! # Contract of a source of datagrams
//!
//! Its driver, the simulator, owns the clock and the network:
//!
//! - [`DatagramSource::next_at`] returns the time of the next packet. It is neither before the
//!   start of the flow nor before the previous packet.
//! - At this time, and only then, the driver calls [`DatagramSource::send`], which returns the
//!   packet. Afterwards `next_at` refers to the following packet.
//! - The driver reports each packet that survives once to [`DatagramSource::receive`], with its
//!   arrival time. A computed link reports it ahead of time. Lost packets are not reported.

mod family;
pub(crate) mod mah;
mod tally;

// The list of applications: module, variant, and the keys, which define the `kind` in scenarios;
// applications with streams first.
applications! {
    streams {
        file: File(FileKeys);
        web: Web(WebKeys);
        page: Page(PageKeys);
        messages: Messages(MessagesKeys);
    }
    datagrams {
        on_off: OnOff(OnOffKeys);
        media: Media(MediaKeys);
        nada: Nada(NadaKeys);
    }
}

use crate::transport::{End, TransportFeatures};
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
pub use messages::{Messages, MessagesKeys, MessagesMetrics};
pub use nada::controller::{NadaReceiver, NadaReport, NadaSender};
pub use nada::{NadaKeys, NadaMetrics};
pub use on_off::{OnOffKeys, Replay};
pub use page::{HttpVersion, Page, PageKeys, PageMetrics, Sizes};
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
    /// Whether it is the last message of its end. Ignored if two one-way connections carry the
    /// stream, as in ns-2.
    pub closes: bool,
}

/// A request of an application to its driver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// An end writes a message.
    Write(Write),
    /// An end has no more data to write. Ignored in the same case as [`Write::closes`].
    Close {
        /// The stream.
        stream: u32,
        /// The end.
        end: End,
    },
}

/// An application that writes streams. Its contract is in the [module head](self).
pub trait StreamApplication {
    /// Called once before all other methods. `is_multiplexed`: one connection of its transport carries
    /// several streams.
    fn choose(&mut self, _is_multiplexed: bool) {}

    /// Number of its streams.
    fn streams(&self) -> u32 {
        1
    }

    /// Whether one connection carries all its streams.
    fn shares_connection(&self) -> bool {
        false
    }

    /// Whether the driver reports bytes instead of messages: [`Self::on_received`],
    /// [`Self::on_waiting`] and [`Self::on_unsent`].
    fn is_followed(&self) -> bool {
        false
    }

    /// Urgency of the next message on `stream` (RFC 9218, section 4.1); 0 is the highest.
    fn urgency(&self, _stream: u32) -> u8 {
        0
    }

    /// Whether it only writes one message at the opener of each stream, so that the sender alone
    /// determines its completion.
    fn is_transfer(&self) -> bool {
        false
    }

    /// Returns the name of the random number stream for the clock phases of the hosts, on the
    /// connection of `stream` on which `writer` writes.
    fn clock(&self, stream: u32, writer: End) -> String {
        let what = match writer {
            End::Opener => "request",
            End::Acceptor => "reply",
        };
        format!("boot time {what} {stream}")
    }

    /// Starts the application at the start of the flow.
    fn start(&mut self, now: Instant);

    /// Returns the next action.
    fn poll_action(&mut self) -> Option<Action>;

    /// Called when all data written by `writer` on `stream` has been delivered.
    fn on_delivered(&mut self, now: Instant, stream: u32, writer: End);

    /// Called when the peer of `writer` may have received more of its bytes on `stream` in order:
    /// `received` in total.
    fn on_received(&mut self, _now: Instant, _stream: u32, _writer: End, _received: u64) {}

    /// Called when `bytes` have arrived at the opener that wait for earlier ones, on the connection of
    /// `stream`.
    fn on_waiting(&mut self, _now: Instant, _stream: u32, _bytes: u64) {}

    /// Called when `unsent` bytes of the acceptor wait for transmission on `stream`. Returns `true` if
    /// the application writes more.
    fn on_unsent(&mut self, _stream: u32, _unsent: u64) -> bool {
        false
    }

    /// Called when the connection of `stream` is aborted, at least once. A transfer then ends; other
    /// applications open the stream again.
    fn on_failure(&mut self, _now: Instant, _stream: u32) {}

    /// Whether the application has timers.
    fn has_timers(&self) -> bool {
        false
    }

    /// The earliest deadline, or [`Instant::NEVER`].
    fn next_timeout(&self) -> Instant {
        Instant::NEVER
    }

    /// Handles the deadlines that have passed.
    fn handle_timeout(&mut self, _now: Instant) {}

    /// Whether the application has finished, if it ever does (`StreamKeys::ENDS`).
    fn is_complete(&self) -> bool {
        false
    }

    /// Bytes written by a transfer; 0 for other applications.
    fn size(&self) -> u64 {
        0
    }

    /// Returns the number of bytes delivered; `acknowledged` bytes are acknowledged to the openers.
    fn delivered_bytes(&self, acknowledged: u64) -> u64;

    /// End of the interval over which goodput is measured; `None` if nothing has been delivered.
    fn measured_until(&self, now: Instant) -> Option<Instant>;

    /// Reports the metrics (`StreamKeys::METRICS`) at the end of the run.
    fn metrics(&self, report: &mut Report<'_>);
}

/// A source of datagrams, with the statistics of its receiver. Its contract is in the [module
/// head](self).
pub trait DatagramSource {
    /// Time of the next packet.
    fn next_at(&self) -> Instant;

    /// Sends the next packet.
    fn send(&mut self, now: Instant) -> Datagram;

    /// Records that packet `number` survives and arrives at `at`, which may be later than `now`.
    fn receive(&mut self, now: Instant, number: u64, at: Instant);

    /// Sets the horizon: statistics are not read for times before it.
    fn set_horizon(&mut self, _horizon: Instant) {}

    /// Bytes that have arrived, headers included.
    fn delivered_bytes(&self, now: Instant) -> u64;

    /// Reports the metrics (`SourceKeys::METRICS`) at `now`, the end of the run.
    fn metrics(&self, now: Instant, report: &mut Report<'_>);

    /// The packet times, if the queue of the only link may replay them with identical results.
    fn replayable(&self) -> Option<&OnOff> {
        None
    }
}

impl StreamApplication for StreamMachine {
    fn choose(&mut self, is_multiplexed: bool) {
        dispatch_stream!(self, machine => machine.choose(is_multiplexed))
    }

    fn streams(&self) -> u32 {
        dispatch_stream!(self, machine => machine.streams())
    }

    fn shares_connection(&self) -> bool {
        dispatch_stream!(self, machine => machine.shares_connection())
    }

    fn is_followed(&self) -> bool {
        dispatch_stream!(self, machine => machine.is_followed())
    }

    fn urgency(&self, stream: u32) -> u8 {
        dispatch_stream!(self, machine => machine.urgency(stream))
    }

    fn on_received(&mut self, now: Instant, stream: u32, writer: End, received: u64) {
        dispatch_stream!(self, machine => machine.on_received(now, stream, writer, received))
    }

    fn on_waiting(&mut self, now: Instant, stream: u32, bytes: u64) {
        dispatch_stream!(self, machine => machine.on_waiting(now, stream, bytes))
    }

    fn on_unsent(&mut self, stream: u32, unsent: u64) -> bool {
        dispatch_stream!(self, machine => machine.on_unsent(stream, unsent))
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

    fn on_failure(&mut self, now: Instant, stream: u32) {
        dispatch_stream!(self, machine => machine.on_failure(now, stream))
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

    // Most datagrams are those of on-off sources, whose calls are inlined into the caller.
    #[inline(always)]
    fn send(&mut self, now: Instant) -> Datagram {
        #[inline(never)]
        fn others(source: &mut Source, now: Instant) -> Datagram {
            dispatch!(source, source => source.send(now))
        }
        match self {
            Source::OnOff(source) => source.send(now),
            _ => others(self, now),
        }
    }

    #[inline(always)]
    fn receive(&mut self, now: Instant, number: u64, at: Instant) {
        #[inline(never)]
        fn others(source: &mut Source, now: Instant, number: u64, at: Instant) {
            dispatch!(source, source => source.receive(now, number, at));
        }
        match self {
            Source::OnOff(source) => source.receive(now, number, at),
            _ => others(self, now, number, at),
        }
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
