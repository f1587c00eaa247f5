//! Transports: the protocols by which the two hosts of a flow exchange data.
//!
//! # Contract
//!
//! A [`Transport`] is a sans-IO state machine of both ends of a connection. Its driver, the
//! simulator, owns the clock, the network and the applications.
//!
//! - `now` never decreases. An end that only [answers](Reaction::Answers) or
//!   [absorbs](Reaction::Absorbs) may receive packets ahead of the clock, in the order of their
//!   arrival.
//! - An end has input after [`CarriesStreams::write`], [`CarriesDatagrams::send`], [`CarriesStreams::close`],
//!   [`Transport::receive`] or [`Transport::handle_timeout`]. The driver then calls
//!   [`Transport::poll_transmit`] for this end until it returns `false`, and reads
//!   [`Transport::next_timeout`].
//! - Calling [`Transport::handle_timeout`] before the deadline, or again, has no effect.
//! - The driver does not pass packets of earlier instances ([`Transport::open`]). It passes a
//!   packet that the machine has [marked as a copy](lasthop_base::packet::Descriptor::set_copy) to
//!   [`Transport::receive_copy`].
//! - The machine does not emit events. If a run is observed, the driver requests them at each
//!   [`Moment`].
//!
//! A packet is a descriptor. A transport with real bytes, such as a protocol stack, stores them in
//! its own [`Buffers`](lasthop_base::packet::Buffers) and sends
//! [numbered](lasthop_base::packet::Descriptor::numbered) packets. As both ends are one machine,
//! other transports and the network do not depend on these bytes.
//!
//! A transport may carry [`CarriesStreams`], [`CarriesDatagrams`] or both. Applications that use the other kind
//! are rejected with the scenario, so that the default implementations are unreachable.

mod family;

// The list of transports: the module of each, and its keys, which determine its `kind` in
// scenarios.
transports! {
    tcp: Tcp(TcpKeys);
    udp: Udp(UdpKeys);
    udp_lite: UdpLite(UdpLiteKeys);
    #[cfg(feature = "quic")]
    quic: Quic(QuicKeys);
}

use family::{TransportKeys, transports};
use lasthop_base::packet::{Descriptor, Extension, MAX_SACK_BLOCKS, Packet};
use lasthop_base::schema::error::ScenarioError;
use lasthop_base::schema::keys::kinds;
use lasthop_base::schema::metrics::{Metric, Report};
use lasthop_base::units::{Bytes, Duration, Instant};
use lasthop_tcp::Config;
use lasthop_tcp::congestion_control::CongestionPhase;
use serde_json::Value;

pub use family::{Carries, Load, PathShare, Sizes, TransportSite};

impl TransportKind {
    /// Returns the keys of TCP; `None` for another transport. Used by agents, which read TCP
    /// headers, and by captures, which write them.
    pub(crate) fn tcp(&self) -> Option<&TcpKeys> {
        match self {
            TransportKind::Tcp(keys) => Some(keys),
            _ => None,
        }
    }

    /// Returns the keys of TCP for changes; `None` for another transport.
    pub(crate) fn tcp_mut(&mut self) -> Option<&mut TcpKeys> {
        match self {
            TransportKind::Tcp(keys) => Some(keys),
            _ => None,
        }
    }

    /// Returns the properties that an application may require; the others are those of the machine.
    pub(crate) fn features(&self) -> TransportFeatures {
        match self {
            TransportKind::Tcp(keys) => TransportFeatures::of_tcp(&keys.config()),
            #[cfg(feature = "quic")]
            TransportKind::Quic(_) => TransportFeatures::multiplexed(),
            _ => TransportFeatures::default(),
        }
    }
}

/// Properties of a connection that do not change. The default has one stream in both directions, and
/// two ends with timers that send any number of packets.
#[derive(Clone, Copy, Debug)]
pub struct TransportFeatures {
    /// Whether one connection carries several streams ([`CarriesStreams::write_stream`]).
    pub is_multiplexed: bool,
    /// Whether data is sent from the opener to the acceptor only. Data in both directions then
    /// requires two connections.
    pub is_simplex: bool,
    /// Whether agents can read the headers of its packets.
    pub is_inspectable: bool,
    /// Whether ends that [act](Reaction::Acts) have timers.
    pub has_timers: bool,
    /// Response of the acceptor to packets; the opener [acts](Reaction::Acts).
    pub acceptor: Reaction,
}

impl Default for TransportFeatures {
    fn default() -> Self {
        TransportFeatures {
            is_multiplexed: false,
            is_simplex: false,
            is_inspectable: false,
            has_timers: true,
            acceptor: Reaction::Acts,
        }
    }
}

impl TransportFeatures {
    /// Returns the properties of a TCP connection with these parameters.
    fn of_tcp(config: &Config) -> Self {
        TransportFeatures {
            is_simplex: config.one_way,
            is_inspectable: true,
            acceptor: match config.only_acknowledges() {
                true => Reaction::Answers,
                false => Reaction::Acts,
            },
            ..TransportFeatures::default()
        }
    }

    /// Returns the properties of a connection with several streams in both directions.
    #[cfg(feature = "quic")]
    fn multiplexed() -> Self {
        TransportFeatures { is_multiplexed: true, ..TransportFeatures::default() }
    }

    /// Returns the response of `end` to packets.
    pub(crate) fn reaction(self, end: End) -> Reaction {
        match end {
            End::Opener => Reaction::Acts,
            End::Acceptor => self.acceptor,
        }
    }
}

/// One of the two ends of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// Opens the connection; with datagrams, sends them.
    Opener,
    /// Accepts the connection; with datagrams, receives them.
    Acceptor,
}

impl End {
    /// Both ends.
    pub const BOTH: [End; 2] = [End::Opener, End::Acceptor];

    /// Returns its index in a pair.
    #[inline(always)]
    pub const fn index(self) -> usize {
        self as usize
    }

    /// Returns the peer.
    #[inline(always)]
    pub const fn other(self) -> Self {
        match self {
            End::Opener => End::Acceptor,
            End::Acceptor => End::Opener,
        }
    }
}

/// Response of an end to packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reaction {
    /// It may send any number of packets, set timers and wake its application.
    Acts,
    /// It sends at most one packet immediately, and does nothing else: see [`Answers::answer`].
    Answers,
    /// It sends nothing.
    Absorbs,
}

/// A packet of an application.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Datagram {
    /// Its number; the first is 0.
    pub number: u64,
    /// Its size, headers included.
    pub size: Bytes,
}

/// A datagram that is delivered to its application.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrival {
    /// The number of the datagram.
    pub number: u64,
    /// Time at which it was sent.
    pub sent_at: Instant,
}

/// Counters of the data packets of an end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Losses {
    /// First transmissions.
    pub sent: u64,
    /// Packets that the sender has declared lost.
    pub lost: u64,
}

/// Occasions on which the events of an end are reported to an observer.
#[derive(Clone, Copy, Debug)]
pub enum Moment<'a> {
    /// A packet was sent.
    Sent(&'a Packet),
    /// A packet was received.
    Received(&'a Packet),
    /// A timer of [`Transport::handle_timeout`] had an effect.
    TimedOut,
    /// All packets that could be sent have been sent.
    Settled,
}

/// Event of an end that is reported to an observer. Names are those of the rows of a trace.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum TransportEvent {
    /// An event at a point in time.
    Single {
        /// Name of the event.
        name: &'static str,
        /// Number of the segment or datagram concerned.
        number: Option<u64>,
        /// Its length in bytes, or its delay in seconds.
        value: Option<f64>,
    },
    /// State of the sender.
    State {
        /// Values of the quantities [`STATE_NAMES`]; NaN if the sender does not have one.
        values: [f64; STATE_NAMES.len()],
        /// Phase of congestion control, if known.
        phase: Option<CongestionPhase>,
    },
}

/// Quantities of the state of a sender: the windows and the volumes without a unit in segments,
/// rates in bit/s, RTTs in seconds. A bound that is not set is infinite.
pub const STATE_NAMES: [&str; 12] = [
    "cwnd",
    "ssthresh",
    "pacing_rate_bps",
    "max_bw_bps",
    "min_rtt_s",
    "bw_shortterm_bps",
    "inflight_shortterm",
    "inflight_longterm",
    "extra_acked",
    "smoothed_rtt_s",
    "latest_rtt_s",
    "in_flight_bytes",
];

impl TransportEvent {
    /// Creates an event that concerns the segment or datagram with this number.
    pub(crate) fn numbered(name: &'static str, number: u64, value: f64) -> Self {
        TransportEvent::Single { name, number: Some(number), value: Some(value) }
    }
}

/// The numbers in a packet, which identify it among all packets of its connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Numbers {
    /// Connection instance.
    pub instance: u32,
    /// First byte of its data. `None` if it has no data.
    pub sequence: Option<u32>,
    /// Cumulative acknowledgment number, if any.
    pub ack: Option<u32>,
    /// Selectively acknowledged blocks: the first byte of each, and the byte after its last.
    pub blocks: [Option<(u32, u32)>; MAX_SACK_BLOCKS],
}

/// A state machine of both ends of a connection. The contract is described at the top of this
/// module.
pub trait Transport: CarriesStreams + CarriesDatagrams + Answers + Observed {
    /// Returns its properties.
    fn features(&self) -> TransportFeatures;

    /// Starts a new instance between the same ports. Counters continue.
    fn open(&mut self) {}

    /// Stores the next packet that `end` sends now in `packet`. Returns `false` if no packet is to
    /// be sent. The driver sets the first hop and the instance.
    fn poll_transmit<X: Extension>(
        &mut self,
        now: Instant,
        end: End,
        packet: &mut Descriptor<X>,
    ) -> bool;

    /// Processes a packet that has arrived intact at `end`.
    fn receive<X: Extension>(&mut self, now: Instant, end: End, packet: &Descriptor<X>);

    /// Like [`Self::receive`], for a packet that is [marked as a copy](Descriptor::set_copy).
    fn receive_copy<X: Extension>(&mut self, now: Instant, end: End, packet: &Descriptor<X>) {
        self.receive(now, end, packet);
    }

    /// Processes a packet that has arrived at `end` with an intact header and a damaged payload.
    /// Transports whose checksum covers the payload drop it.
    fn receive_damaged<X: Extension>(&mut self, _now: Instant, _end: End, _packet: &Descriptor<X>) {
    }

    /// Returns the earliest deadline of `end`; [`Instant::NEVER`] without a deadline.
    fn next_timeout(&self, _end: End) -> Instant {
        Instant::NEVER
    }

    /// Handles a deadline of `end`. Returns `true` if a timeout occurred, after which the peer is
    /// assumed not to have received data.
    fn handle_timeout(&mut self, _now: Instant, _end: End) -> bool {
        false
    }

    /// Reports the metrics of the connections of a flow. `is_end_to_end`: no agent terminates them
    /// on the path.
    fn report(connections: &[&Self], is_end_to_end: bool, report: &mut Report<'_>)
    where
        Self: Sized;
}

/// Byte streams of a connection. The defaults are those of a transport that carries none.
pub trait CarriesStreams {
    /// Appends `bytes` to the stream of `end`. The first write opens the connection.
    fn write(&mut self, _end: End, _bytes: u64) {
        unreachable!("it carries no streams")
    }

    /// Returns the number of bytes of the peer's stream received in order at `end`, in this
    /// instance.
    fn read(&self, _end: End) -> u64 {
        unreachable!("it carries no streams")
    }

    /// Closes the stream of `end`.
    fn close(&mut self, _end: End) {
        unreachable!("it carries no streams")
    }

    /// Like [`Self::write`], on one of several streams of the connection. Streams are numbered in the
    /// order of their first write at the opener. Streams of lower `urgency` are sent first.
    fn write_stream(&mut self, end: End, _stream: u32, _urgency: u8, bytes: u64) {
        self.write(end, bytes);
    }

    /// Closes one of several streams of `end`.
    fn close_stream(&mut self, end: End, _stream: u32) {
        self.close(end);
    }

    /// Discards the data of `end` that was never sent. Sent data is still repaired.
    fn stop(&mut self, _end: End) {
        unreachable!("it carries no streams")
    }

    /// Enables [`Self::poll_received`] and [`Self::waiting`], before the run starts.
    fn follow(&mut self) {}

    /// Returns a stream of which `end` has received bytes in order since the last call, and their
    /// number in total; on one connection with several streams.
    fn poll_received(&mut self, _end: End) -> Option<(u32, u64)> {
        None
    }

    /// Returns the number of bytes that have arrived at `end` and wait for earlier ones of their
    /// stream.
    fn waiting(&self, _end: End) -> u64 {
        0
    }

    /// Returns the number of bytes written by `end` that have been acknowledged, in this instance.
    fn acknowledged(&self, _end: End) -> u64 {
        unreachable!("it carries no streams")
    }

    /// Returns the number of bytes written by `end` that have never been sent.
    fn unsent(&self, _end: End) -> u64 {
        unreachable!("it carries no streams")
    }

    /// Returns `true` if everything written by `end` has been acknowledged.
    fn is_all_acknowledged(&self, _end: End) -> bool {
        unreachable!("it carries no streams")
    }

    /// Returns `true` if connections may be aborted, so that transfers end incomplete.
    fn can_fail(&self) -> bool {
        false
    }

    /// Returns `true` if this instance was aborted. No more data is then delivered.
    fn has_failed(&self) -> bool {
        false
    }
}

/// Datagrams, from the opener to the acceptor. The defaults are those of a transport that carries none.
pub trait CarriesDatagrams {
    /// Sends a datagram from the opener.
    fn send(&mut self, _now: Instant, _datagram: Datagram) {
        unreachable!("it carries no datagrams")
    }

    /// Returns the next datagram to be delivered at the acceptor.
    fn read_datagram(&mut self) -> Option<Arrival> {
        unreachable!("it carries no datagrams")
    }
}

/// Acceptors that [answer](Reaction::Answers) each packet immediately.
pub trait Answers {
    /// Combines [`Transport::receive`] and [`Transport::poll_transmit`] at an acceptor that
    /// [answers](Reaction::Answers). Replaces `packet` by the answer, except its hop. Returns
    /// `false` if no answer is sent.
    fn answer<X: Extension>(&mut self, _at: Instant, _packet: &mut Descriptor<X>) -> bool {
        unreachable!("its acceptor acts")
    }

    /// Like [`Self::answer`], for a packet that is marked as a copy.
    fn answer_copy<X: Extension>(&mut self, at: Instant, packet: &mut Descriptor<X>) -> bool {
        self.answer(at, packet)
    }
}

/// Observation of a connection by agents, probes and captures.
pub trait Observed {
    /// Returns the numbers of data packets sent by `end`, and of those declared lost.
    fn losses(&self, _end: End) -> Losses {
        Losses::default()
    }

    /// Returns the time of the host clock of `end` at the start of the run, on which its timers
    /// depend.
    fn clock(&self, _end: End) -> Duration {
        Duration::ZERO
    }

    /// Enables observation, before the run starts.
    fn start_observation(&mut self) {}

    /// Reports the events of `end` at `moment` to an observer.
    fn observe(&self, _end: End, _moment: Moment<'_>, _tell: &mut dyn FnMut(TransportEvent)) {}

    /// Reports the events that can only be determined at the end of the run, each with its time.
    fn observe_past(&mut self, _tell: &mut dyn FnMut(Instant, End, TransportEvent)) {}

    /// Returns the numbers in one of its packets; `None` if the packet has no numbers to be
    /// observed.
    fn numbers(&self, _packet: &Packet) -> Option<Numbers> {
        None
    }

    /// Returns the bytes of one of its packets above the UDP header, after an observed run; `None` if
    /// its packets have no bytes.
    fn payload(&self, _packet: &Packet) -> Option<Vec<u8>> {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A world stores and moves the machines of thousands of flows. The size is that of TCP: two ends
    /// of about 2.3 kB.
    #[test]
    fn a_connection_takes_5_kilobytes() {
        assert!(size_of::<TransportMachine>() < 5_200, "{}", size_of::<TransportMachine>());
    }
}
