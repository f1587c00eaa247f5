//! QUIC (RFC 9000, 9001, 9002) by quinn-proto, a protocol stack that is used on the Internet, as a
//! sans-IO machine in simulated time.
//!
//! ```text
//!   application --write--> host: stream --> stack --datagram--> Buffers --descriptor--> network
//!   network --descriptor--> Buffers --datagram--> stack --> host: stream --read--> application
//! ```
//!
//! - `keys`: the keys of scenarios and the configuration of the stack.
//! - `host`: one end: an endpoint of the stack, its connection and streams.
//! - `null_crypto`: handshake messages and packets without encryption.
//! - `controller`: the congestion control of the stack, observed; `law`: algorithms of TCP instead.
//! - `frames`: reads packets; `in_transit`: records of datagrams in transit.
//! - `ledger`: determines which losses are spurious; `retransmissions`: which retransmissions are;
//!   `reassembly`: knows the data that has arrived.
//! - `observed`: events for observers.
//!
//! The opener is the client, the acceptor the server. All random numbers of the stack come from
//! seeds of the flow's stream; the exception, the generator of its BBR, changes no packet.
//!
//! *Not modelled*: encryption and its processing time, Retry, version negotiation, migration, path
//! MTU discovery, key updates other than the marks in the headers, the spin bit.

mod controller;
mod frames;
mod host;
mod in_transit;
mod keys;
mod law;
mod ledger;
mod null_crypto;
mod observed;
mod reassembly;
mod retransmissions;
#[cfg(test)]
mod tests;

pub use keys::{QuicKeys, QuicVariant, Resumption};

use super::{
    Answers, Arrival, CarriesDatagrams, CarriesStreams, Datagram, End, Transport, TransportEvent,
    TransportFeatures,
};
use frames::{Frame, Space, packets};
use host::Host;
use in_transit::{Contents, InTransit, Kept, slot};
use lasthop_base::packet::{Buffers, Descriptor, Ecn, Extension};
use lasthop_base::rng::Stream;
use lasthop_base::schema::metrics::{Report, metrics};
use lasthop_base::units::Instant;
use ledger::Ledger;
use quinn_proto::EcnCodepoint;
use reassembly::Reassembly;
use retransmissions::Retransmissions;
use std::collections::HashMap;
use std::fmt;

metrics! {
    /// The QUIC connections of a flow, both ends.
    pub struct QuicMetrics {
        /// Time from the first packet of the client until the handshake is complete there; the
        /// mean of several connections.
        handshake_s: "Handshake duration", Seconds, Lower, Mean;
        /// UDP datagrams sent.
        quic_datagrams_sent: "QUIC datagrams sent", Count, Neither, Sum;
        /// QUIC packets sent; a datagram of the handshake may contain several.
        quic_packets_sent: "QUIC packets sent", Count, Neither, Sum;
        /// Packets declared lost.
        packets_lost: "Packets declared lost", Count, Lower, Sum;
        /// Packets of 1-RTT keys that were declared lost, although they had arrived or arrive
        /// later.
        packets_spurious: "Spurious losses", Count, Lower, Sum;
        /// Segments, or packets of QUIC, with data that was sent before.
        retransmissions: "Retransmissions", Count, Lower, Sum;
        /// Retransmissions whose data had arrived or arrives by an earlier transmission.
        spurious_retransmissions: "Spurious retransmissions", Count, Lower, Sum;
        /// Probe timeouts (PTO).
        probe_timeouts: "Probe timeouts", Count, Lower, Sum;
        /// Packets sent because of probe timeouts.
        probes: "Probes", Count, Lower, Sum;
        /// ACK frames sent.
        acks: "ACK frames sent", Count, Neither, Sum;
        /// Reductions of the congestion window.
        #[was = "window_cuts"]
        window_reductions: "Window reductions", Count, Lower, Sum;
        /// Whether a connection with unacknowledged data ended with an error or an idle timeout: 1
        /// or 0.
        aborted: "Aborted", Fraction, Lower, Mean;
        /// QUIC error code of the first connection that was aborted; 0 for an idle timeout, none
        /// without an error.
        error_code: "QUIC error code", Count, Neither, Max;
    }
}

/// The machine.
pub type Machine = Quic;

/// Both ends of a QUIC connection.
pub struct Quic {
    // Large fields are stored elsewhere, because a connection of any transport has the size of the
    // largest one.
    keys: Box<QuicKeys>,
    seeds: Stream,
    /// Client and server.
    hosts: Box<[Host; 2]>,
    ledgers: Box<[Ledger; 2]>,
    retransmissions: Box<[Retransmissions; 2]>,
    /// Numbers of packets declared lost, and of detections, already known.
    lost: [[u64; 2]; 2],
    buffers: Buffers,
    /// Datagrams in transit, by slot of `buffers`.
    in_transit: Vec<InTransit>,
    scratch: Vec<u8>,
    /// Counters of earlier instances.
    past: Box<Totals>,
    /// Data that has arrived at both ends.
    arrived: Box<[Reassembly; 2]>,
    /// Contents of all packets by number, if an observer is attached.
    kept: Option<HashMap<u64, Kept>>,
    /// Losses and late arrivals, if an observer is attached.
    losses: Vec<(Instant, End, TransportEvent)>,
}

/// Counters of several instances, both ends.
#[derive(Clone, Copy, Debug, Default)]
struct Totals {
    handshakes: u64,
    handshake_seconds: f64,
    datagrams: u64,
    packets: u64,
    lost: u64,
    spurious: u64,
    retransmissions: u64,
    spurious_retransmissions: u64,
    timeouts: u64,
    probes: u64,
    acks: u64,
    reductions: u64,
    /// Error of the first instance that was aborted.
    error: Option<u64>,
}

impl Totals {
    fn add(&mut self, other: &Totals) {
        self.handshakes += other.handshakes;
        self.handshake_seconds += other.handshake_seconds;
        self.datagrams += other.datagrams;
        self.packets += other.packets;
        self.lost += other.lost;
        self.spurious += other.spurious;
        self.retransmissions += other.retransmissions;
        self.spurious_retransmissions += other.spurious_retransmissions;
        self.timeouts += other.timeouts;
        self.probes += other.probes;
        self.acks += other.acks;
        self.reductions += other.reductions;
        self.error = self.error.or(other.error);
    }
}

impl fmt::Debug for Quic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Quic").field("keys", &self.keys).finish_non_exhaustive()
    }
}

/// Returns an event that concerns a packet.
fn single(name: &'static str, number: u64) -> TransportEvent {
    TransportEvent::Single { name, number: Some(number), value: None }
}

impl Quic {
    /// Creates a connection with these keys. Its seeds are drawn from `seeds`.
    pub fn new(keys: QuicKeys, mut seeds: Stream) -> Self {
        let hosts = hosts(&keys, &mut seeds);
        Quic {
            keys: Box::new(keys),
            seeds,
            hosts,
            ledgers: Default::default(),
            retransmissions: Default::default(),
            lost: [[0; 2]; 2],
            buffers: Buffers::new(),
            in_transit: Vec::new(),
            scratch: Vec::new(),
            past: Box::default(),
            arrived: Default::default(),
            kept: None,
            losses: Vec::new(),
        }
    }

    fn host(&self, end: End) -> &Host {
        &self.hosts[end.index()]
    }

    fn host_mut(&mut self, end: End) -> &mut Host {
        &mut self.hosts[end.index()]
    }

    /// Returns the error with which this instance has ended, if data was still unacknowledged then.
    fn error(&self) -> Option<u64> {
        let mut ends = self.hosts.iter().map(|host| host.progress);
        let is_unfinished =
            ends.any(|end| end.acknowledged < end.written) || self.host(End::Opener).has_datagrams;
        self.hosts.iter().find_map(|host| host.error).filter(|_| is_unfinished)
    }

    /// Returns the counters of all instances.
    fn totals(&self) -> Totals {
        let mut all = *self.past;
        let client = self.host(End::Opener);
        if let (Some(opened), Some(connected)) = (client.opened_at, client.connected_at) {
            all.handshakes += 1;
            all.handshake_seconds += connected.saturating_since(opened).as_secs_f64();
        }
        for (host, ledger) in self.hosts.iter().zip(self.ledgers.iter()) {
            let stats = host.connection().map(|one| one.stats()).unwrap_or_default();
            all.datagrams += stats.udp_tx.datagrams;
            all.packets += stats.path.sent_packets;
            all.lost += stats.path.lost_packets;
            all.acks += stats.frame_tx.acks;
            all.spurious += ledger.spurious();
            all.timeouts += host.timeouts;
            all.probes += host.probes;
            all.reductions += host.shared.reductions();
        }
        for sent in self.retransmissions.iter() {
            all.retransmissions += sent.count();
            all.spurious_retransmissions += sent.spurious();
        }
        all.error = all.error.or(self.error());
        all
    }

    /// Attributes packets that `end` has declared lost since the last call.
    fn note_losses(&mut self, now: Instant, end: End) {
        let host = &self.hosts[end.index()];
        let [lost, detections] = &mut self.lost[end.index()];
        // The statistics of the stack are large; most calls need none.
        if std::mem::replace(detections, host.shared.detections()) == host.shared.detections() {
            return;
        }
        let Some(connection) = host.connection() else { return };
        let all = connection.stats().path.lost_packets;
        let new = all - std::mem::replace(lost, all);
        let (events, is_observed) = (&mut self.losses, self.kept.is_some());
        self.ledgers[end.index()].on_lost(new, |number, has_arrived| {
            if is_observed {
                events.push((now, end, single("packet_lost", number)));
                if has_arrived {
                    events.push((now, end, single("spurious_loss", number)));
                }
            }
        });
    }
}

fn hosts(keys: &QuicKeys, seeds: &mut Stream) -> Box<[Host; 2]> {
    let send_buffer = keys.send_buffer.get();
    Box::new(keys.setups(seeds).map(|setup| Host::new(setup, send_buffer)))
}

impl Transport for Quic {
    fn features(&self) -> TransportFeatures {
        TransportFeatures::multiplexed()
    }

    fn poll_transmit<X: Extension>(
        &mut self,
        now: Instant,
        end: End,
        packet: &mut Descriptor<X>,
    ) -> bool {
        self.scratch.clear();
        let host = &mut self.hosts[end.index()];
        let Some(ecn) = host.poll(now, &mut self.scratch) else { return false };
        let received = host.progress.received;
        let ledger = &mut self.ledgers[end.index()];
        let sent = &mut self.retransmissions[end.index()];
        let arrived = &self.arrived[end.other().index()];
        let (mut last, mut eliciting, mut contents) = (0, None, Contents::Nothing);
        for packet in packets(&self.scratch).filter(|packet| packet.space == Space::Data) {
            let number = packet.number(ledger.next());
            let (mut is_eliciting, mut is_repeated) = (false, false);
            for frame in packet.frames() {
                is_eliciting |= frame.is_ack_eliciting();
                contents.add(&frame);
                let Some(data) = frame.data() else { continue };
                if is_repeated {
                    sent.on_data(data);
                } else {
                    is_repeated = sent.on_sent(number, data, || arrived.contains(data.0, data.1));
                }
            }
            ledger.on_sent(number, is_eliciting);
            eliciting = is_eliciting.then_some(number);
            last = number + 1;
        }
        let number = self.buffers.put(now, &self.scratch);
        if slot(number) >= self.in_transit.len() {
            self.in_transit.resize(slot(number) + 1, InTransit::default());
        }
        self.in_transit[slot(number)] = InTransit { packet: last, received, contents };
        if let Some(kept) = &mut self.kept {
            kept.insert(number, Kept::new(&self.scratch, eliciting));
            if packets(&self.scratch).any(|packet| packet.is_ack_eliciting()) {
                host.shared.add_in_flight(self.scratch.len() as u64);
            }
        }
        let bytes = self.scratch.len() as u32 + self.keys.header.get() as u32;
        *packet = Descriptor::numbered(bytes, number);
        packet.tcp.ecn = match ecn {
            Some(ecn) if self.keys.ecn => Ecn::from_bits(ecn as u8),
            _ => Ecn::NotEct,
        };
        true
    }

    fn receive<X: Extension>(&mut self, now: Instant, end: End, packet: &Descriptor<X>) {
        self.scratch.clear();
        let number = packet.datagram_number();
        if !self.buffers.take(number, &mut self.scratch) {
            return;
        }
        let InTransit { packet: last, received, contents } = self.in_transit[slot(number)];
        if last > 0 && self.ledgers[end.other().index()].on_arrival(last - 1) && self.kept.is_some()
        {
            self.losses.push((now, end.other(), single("spurious_loss", last - 1)));
        }
        let ledger = &mut self.ledgers[end.index()];
        let sent = &mut self.retransmissions[end.other().index()];
        let arrived = &mut self.arrived[end.index()];
        let mut on_data = |data: (usize, u64, u64)| {
            arrived.insert(data.0, data.1, data.2);
            sent.on_arrival(last - 1, data);
        };
        match contents {
            Contents::Nothing => {}
            Contents::Data(data) => on_data(data),
            Contents::Unread => {
                let packets = packets(&self.scratch).filter(|packet| packet.space == Space::Data);
                for frame in packets.flat_map(|packet| packet.frames()) {
                    if let Frame::Ack(ack) = frame {
                        ledger.on_ack(ack.ranges());
                    } else if let Some(data) = frame.data() {
                        on_data(data);
                    }
                }
            }
        }
        let host = &mut self.hosts[end.index()];
        host.on_progress_of_peer(received);
        let ecn = EcnCodepoint::from_bits(packet.tcp.ecn.bits());
        host.receive(now, ecn, &self.scratch);
        self.note_losses(now, end);
    }

    fn next_timeout(&self, end: End) -> Instant {
        self.host(end).next_timeout()
    }

    fn handle_timeout(&mut self, now: Instant, end: End) -> bool {
        let has_expired = self.host_mut(end).handle_timeout(now);
        self.note_losses(now, end);
        has_expired
    }

    fn open(&mut self) {
        *self.past = self.totals();
        self.hosts = hosts(&self.keys, &mut self.seeds);
        *self.ledgers = Default::default();
        *self.retransmissions = Default::default();
        *self.arrived = Default::default();
        self.lost = [[0; 2]; 2];
    }

    fn report(connections: &[&Self], _is_end_to_end: bool, report: &mut Report<'_>) {
        let mut all = Totals::default();
        connections.iter().for_each(|one| all.add(&one.totals()));
        let metrics = QuicMetrics {
            handshake_s: all.handshake_seconds / all.handshakes as f64,
            quic_datagrams_sent: all.datagrams as f64,
            quic_packets_sent: all.packets as f64,
            packets_lost: all.lost as f64,
            packets_spurious: all.spurious as f64,
            retransmissions: all.retransmissions as f64,
            spurious_retransmissions: all.spurious_retransmissions as f64,
            probe_timeouts: all.timeouts as f64,
            probes: all.probes as f64,
            acks: all.acks as f64,
            window_reductions: all.reductions as f64,
            aborted: if all.error.is_some() { 1.0 } else { 0.0 },
            error_code: all.error.map_or(f64::NAN, |code| code as f64),
        };
        metrics.report(report);
    }
}

impl CarriesStreams for Quic {
    fn write(&mut self, end: End, bytes: u64) {
        self.host_mut(end).write(0, 0, bytes);
    }

    fn read(&self, end: End) -> u64 {
        self.host(end).progress.received
    }

    fn close(&mut self, end: End) {
        self.host_mut(end).finish(0);
    }

    fn write_stream(&mut self, end: End, stream: u32, urgency: u8, bytes: u64) {
        self.host_mut(end).write(stream, urgency, bytes);
    }

    fn close_stream(&mut self, end: End, stream: u32) {
        self.host_mut(end).finish(stream);
    }

    fn stop(&mut self, end: End) {
        self.host_mut(end).stop();
    }

    fn poll_received(&mut self, end: End) -> Option<(u32, u64)> {
        self.host_mut(end).poll_received()
    }

    fn waiting(&self, end: End) -> u64 {
        let received =
            |stream: usize| self.host(end).streams.get(stream).map_or(0, |one| one.received);
        self.arrived[end.index()].waiting(received)
    }

    fn acknowledged(&self, end: End) -> u64 {
        self.host(end).progress.acknowledged
    }

    fn unsent(&self, end: End) -> u64 {
        let all = self.host(end).progress;
        all.written - all.accepted
    }

    fn is_all_acknowledged(&self, end: End) -> bool {
        let all = self.host(end).progress;
        all.acknowledged >= all.written
    }

    fn can_fail(&self) -> bool {
        true
    }

    fn has_failed(&self) -> bool {
        self.error().is_some()
    }
}

impl CarriesDatagrams for Quic {
    fn send(&mut self, now: Instant, datagram: Datagram) {
        let header = self.keys.header.get();
        self.host_mut(End::Opener).send(now, datagram, header);
    }

    fn read_datagram(&mut self) -> Option<Arrival> {
        self.host_mut(End::Acceptor).read_datagram()
    }
}

impl Answers for Quic {}
