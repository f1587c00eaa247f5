//! The keys of QUIC, and the configuration of the stack derived from them.

use super::controller::{Shared, WatchedFactory};
use super::frames::{CID_LENGTH, TAG_LENGTH};
use super::host::{STAMP, Setup};
use super::law::LawFactory;
use super::null_crypto::{Null, NullTls, Tls};
use crate::transport::family::{Carries, Load, TransportKeys, TransportSite};
use lasthop_base::rng::Stream;
use lasthop_base::schema::error::ScenarioError;
use lasthop_base::schema::keys::{Limits, choice, table};
use lasthop_base::schema::metrics::Metric;
use lasthop_base::schema::numbers::seconds;
use lasthop_base::schema::quantity::Mean;
use lasthop_base::units::{Bytes, Duration};
use lasthop_tcp::congestion_control::CongestionControlKind;
use lasthop_tcp::congestion_control::standalone::Standalone;
use quinn_proto::coding::Codec;
use quinn_proto::congestion::{BbrConfig, ControllerFactory, CubicConfig, NewRenoConfig};
use quinn_proto::{
    AckFrequencyConfig, ClientConfig, ConnectionId, ConnectionIdGenerator, EndpointConfig,
    IdleTimeout, InvalidCid, NoneTokenStore, ServerConfig, TransportConfig, VarInt,
};
use serde_json::{Value, json};
use std::sync::Arc;

/// UDP payload: RFC 9000, section 14, and the maximum of IPv4.
const DATAGRAM: Limits = Limits::range(1_200, 65_507);
/// TLS messages: the receiver stores at most 16 KiB of them (`crypto_buffer_size`).
const MESSAGES: Limits = Limits::range(100, 16_000);
/// Packet threshold; RFC 9002, section 6.1.1: not less than 3.
const THRESHOLD: Limits = Limits::range(3, 1_000_000_000);
/// Times in milliseconds up to an hour.
const TIME: Limits = Limits::range(1_000_000, 3_600_000_000_000);
/// Headers of a 1-RTT packet with a DATAGRAM frame, as the stack bounds them: flags, connection ID,
/// packet number, authentication tag, frame type and length.
const DATAGRAM_OVERHEAD: u64 = 1 + CID_LENGTH as u64 + 4 + TAG_LENGTH as u64 + 9;
/// Server flight of a resumed session.
const RESUMED_FLIGHT: usize = 150;
/// Streams that a client may have open (RFC 9114, section 6.1: at least 100). The stack prepares all
/// of them in advance, so that more would slow down the construction of connections.
const MOST_STREAMS: u32 = 100;

table! {
    /// QUIC (RFC 9000): a real protocol stack, quinn-proto, in simulated time.
    pub struct QuicKeys as "quic" {
        /// Congestion control algorithm of the stack.
        variant: QuicVariant = "cubic";
        /// Congestion control algorithm of Lasthop's TCP instead of that of `variant`, so that loss
        /// detection and acknowledgments alone differ from TCP. Not one that needs delivery rates,
        /// a pacing rate, timestamps or the fraction of marks.
        congestion_control: Option<CongestionControlKind>;
        /// UDP payload of a full datagram; there is no path MTU discovery.
        datagram: Bytes = "1472 B", DATAGRAM;
        /// UDP and IP headers added to each datagram.
        header: Bytes = "28 B", Limits::HEADER;
        /// Initial congestion window.
        initial_window: Bytes = "14720 B", Limits::BUFFER;
        /// Number of packets by which an acknowledged packet must follow a lost one.
        packet_threshold: u32 = "3", THRESHOLD;
        /// Time after which an outstanding packet is lost if a later one is acknowledged, in round
        /// trips.
        time_threshold: Mean = "1.125";
        /// Number of probe timeouts (PTO) that losses must span to mean persistent congestion.
        persistent_congestion_threshold: u32 = "3", Limits::range(1, 1_000_000);
        /// RTT assumed before the first sample.
        initial_rtt: Duration = "333 ms", TIME;
        /// Number of packets after which the receiver acknowledges immediately
        /// (draft-ietf-quic-ack-frequency); default: 2, without the extension.
        ack_frequency: Option<u32>, Limits::range(1, 1_000_000);
        /// Maximum delay of an acknowledgment; only with `ack_frequency`. Default: 25 ms.
        max_ack_delay: Option<Duration>, TIME;
        /// Flow-control window of a stream.
        stream_window: Bytes = "10 MB", Limits::BUFFER;
        /// Flow-control window of the connection; default: unlimited.
        connection_window: Option<Bytes>, Limits::BUFFER;
        /// Maximum amount of data that is sent and unacknowledged, over all streams.
        send_buffer: Bytes = "10 MB", Limits::BUFFER;
        /// Maximum amount of unsent data of DATAGRAM frames (RFC 9221); beyond it the oldest are dropped.
        datagram_buffer: Bytes = "1 MB", Limits::range(70_000, 1_000_000_000_000);
        /// Whether datagrams are ECN-capable. The stack tests the path and turns ECN off if marks
        /// are lost.
        ecn: bool = "true";
        /// Time without packets after which an end closes the connection silently; 0 s: never.
        idle_timeout: Duration = "30 s", Limits::range(0, 3_600_000_000_000);
        /// Size of the client's TLS messages of the first flight, including transport parameters.
        client_hello: Bytes = "300 B", MESSAGES;
        /// Size of the server's TLS messages from EncryptedExtensions to Finished, mostly the chain
        /// of certificates. Before the address of the client is validated, the server sends at
        /// most three times the bytes received.
        certificate: Bytes = "3 kB", MESSAGES;
        /// Resumption of an earlier session.
        resumption: Resumption = "none";
    }
}

choice! {
    /// Congestion control algorithms of quinn-proto.
    pub enum QuicVariant {
        /// CUBIC with the constants of RFC 8312, without HyStart.
        Cubic = "cubic",
        /// NewReno of RFC 9002.
        NewReno = "newreno",
        /// A window as of BBR version 1, but the pacing rate of the other algorithms: experimental.
        Bbr = "bbr",
    }
}

choice! {
    /// Resumption of an earlier TLS session.
    pub enum Resumption {
        /// Full handshake.
        Off = "none",
        /// Pre-shared key: the server sends no certificates.
        OneRtt = "1-rtt",
        /// As "1-rtt", with data in the client's first flight.
        ZeroRtt = "0-rtt",
    }
}

/// Generates connection IDs from a seed and a counter.
struct Counter(u64);

impl ConnectionIdGenerator for Counter {
    fn generate_cid(&mut self) -> ConnectionId {
        self.0 = self.0.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
        ConnectionId::new(&self.0.to_be_bytes())
    }

    fn validate(&self, _: &ConnectionId) -> Result<(), InvalidCid> {
        Ok(())
    }

    fn cid_len(&self) -> usize {
        CID_LENGTH
    }

    fn cid_lifetime(&self) -> Option<std::time::Duration> {
        None
    }
}

fn time(duration: Duration) -> std::time::Duration {
    std::time::Duration::from_nanos(duration.as_nanos())
}

fn varint(value: u64) -> VarInt {
    VarInt::from_u64(value).unwrap_or(VarInt::MAX)
}

impl QuicKeys {
    /// Returns the size of a full packet with all headers.
    fn packet(&self) -> Bytes {
        Bytes::new(self.datagram.get() + self.header.get())
    }

    fn factory(&self) -> Arc<dyn ControllerFactory + Send + Sync> {
        let window = self.initial_window.get();
        if let Some(kind) = self.congestion_control {
            let (datagram, initial_window) = (self.datagram, self.initial_window);
            return Arc::new(LawFactory { kind, datagram, initial_window });
        }
        match self.variant {
            QuicVariant::Cubic => {
                let mut config = CubicConfig::default();
                config.initial_window(window);
                Arc::new(config)
            }
            QuicVariant::NewReno => {
                let mut config = NewRenoConfig::default();
                config.initial_window(window);
                Arc::new(config)
            }
            QuicVariant::Bbr => {
                let mut config = BbrConfig::default();
                config.initial_window(window);
                Arc::new(config)
            }
        }
    }

    fn transport(&self, shared: Arc<Shared>) -> TransportConfig {
        let mut config = TransportConfig::default();
        let ack_frequency = self.ack_frequency.map(|packets| {
            let mut frequency = AckFrequencyConfig::default();
            // The threshold is the number of packets that are not acknowledged immediately.
            frequency.ack_eliciting_threshold((packets - 1).into());
            frequency.max_ack_delay(self.max_ack_delay.map(time));
            frequency
        });
        // The limits of the key are within those of the stack.
        let idle = (self.idle_timeout > Duration::ZERO)
            .then(|| IdleTimeout::try_from(time(self.idle_timeout)).ok())
            .flatten();
        config
            .max_concurrent_bidi_streams(MOST_STREAMS.into())
            .max_concurrent_uni_streams(0u32.into())
            .max_idle_timeout(idle)
            .stream_receive_window(varint(self.stream_window.get()))
            .receive_window(
                self.connection_window.map_or(VarInt::MAX, |window| varint(window.get())),
            )
            .send_window(self.send_buffer.get())
            .datagram_send_buffer_size(self.datagram_buffer.get() as usize)
            .packet_threshold(self.packet_threshold)
            .time_threshold(self.time_threshold.0 as f32)
            .persistent_congestion_threshold(self.persistent_congestion_threshold)
            .initial_rtt(time(self.initial_rtt))
            .initial_mtu(self.datagram.get() as u16)
            .mtu_discovery_config(None)
            .ack_frequency_config(ack_frequency)
            .allow_spin(false)
            .enable_segmentation_offload(false)
            .congestion_controller_factory(Arc::new(WatchedFactory {
                inner: self.factory(),
                shared,
            }));
        config
    }

    /// Returns the transport parameters of the server that a client remembers, encoded (RFC 9000,
    /// sections 7.4.1 and 18.2).
    fn remembered(&self) -> Vec<u8> {
        let window = self.connection_window.map_or(u64::MAX >> 2, Bytes::get);
        let stream = self.stream_window.get();
        let parameters = [
            (0x04, window),
            (0x05, stream),
            (0x06, stream),
            (0x07, stream),
            (0x08, MOST_STREAMS.into()),
            (0x09, 0),
        ];
        let mut bytes = Vec::new();
        for (name, value) in parameters {
            let mut encoded = Vec::new();
            varint(value).encode(&mut encoded);
            bytes.extend([name, encoded.len() as u8]);
            bytes.extend(encoded);
        }
        bytes
    }

    /// Returns the configuration of both ends of a connection; seeds come from `stream`.
    pub(super) fn setups(&self, stream: &mut Stream) -> [Setup; 2] {
        let tls = Arc::new(Tls {
            client_hello: self.client_hello.get() as usize,
            server_flight: match self.resumption {
                Resumption::Off => self.certificate.get() as usize,
                Resumption::OneRtt | Resumption::ZeroRtt => RESUMED_FLIGHT,
            },
            remembered: (self.resumption == Resumption::ZeroRtt).then(|| self.remembered()),
        });
        let mut setup = |is_client: bool| {
            let mut seed = [0; 32];
            for part in seed.chunks_exact_mut(8) {
                part.copy_from_slice(&stream.bits().to_le_bytes());
            }
            let ids = stream.bits();
            let mut endpoint = EndpointConfig::new(Arc::new(Null));
            endpoint.rng_seed(Some(seed)).cid_generator(move || Box::new(Counter(ids)));
            // The datagram is within the limits of the stack.
            let _ = endpoint.max_udp_payload_size(self.datagram.get() as u16);
            let shared = Arc::new(Shared::default());
            let transport = Arc::new(self.transport(shared.clone()));
            let crypto = Arc::new(NullTls(tls.clone()));
            let client = is_client.then(|| {
                let mut client = ClientConfig::new(crypto.clone());
                let first = ConnectionId::new(&(!ids).to_be_bytes());
                client
                    .transport_config(transport.clone())
                    .token_store(Arc::new(NoneTokenStore))
                    .initial_dst_cid_provider(Arc::new(move || first));
                client
            });
            let server = (!is_client).then(|| {
                let mut server = ServerConfig::new(crypto, Arc::new(Null));
                server.transport_config(transport).migration(false);
                Arc::new(server)
            });
            Setup { endpoint: Arc::new(endpoint), client, server, shared }
        };
        [setup(true), setup(false)]
    }
}

impl TransportKeys for QuicKeys {
    type Machine = super::Machine;

    const CARRIES: &'static [Carries] = &[Carries::Streams, Carries::Datagrams];
    const METRICS: &'static [&'static [Metric]] = &[super::QuicMetrics::METRICS];

    fn check(&self, path: &str) -> Result<(), ScenarioError> {
        let fail = |key: &str, found: String, allowed: String| {
            Err(ScenarioError::new(format!("{path}.{key}"), found, allowed))
        };
        if self.initial_window < self.datagram {
            let found = format!("\"{}\"", self.initial_window);
            let allowed = format!("at least one datagram, \"{}\"", self.datagram);
            return fail("initial_window", found, allowed);
        }
        if let Some(kind) = self.congestion_control
            && !Standalone::supports(&kind)
        {
            let allowed = "an algorithm that needs neither delivery rates, a pacing rate, timestamps, \
                           the fraction of marks nor a parameter of the path, such as \"cubic\"";
            return fail("congestion_control", format!("{:?}", kind.kind()), allowed.to_owned());
        }
        if self.max_ack_delay.is_some() && self.ack_frequency.is_none() {
            let found = "a value without ack_frequency".to_owned();
            return fail("max_ack_delay", found, "ack_frequency as well".to_owned());
        }
        Ok(())
    }

    fn check_load(&self, path: &str, load: Load) -> Result<(), ScenarioError> {
        let Some(packet) = load.datagram else { return Ok(()) };
        let (header, most) = (self.header.get(), self.datagram.get() - DATAGRAM_OVERHEAD);
        let range = header + STAMP as u64..=header + most;
        if range.contains(&packet.get()) {
            return Ok(());
        }
        let allowed = format!(
            "from \"{}\", the headers of UDP and IP with a number and a time, to \"{}\", what a DATAGRAM \
             frame carries in addition to the headers of QUIC",
            Bytes::new(*range.start()),
            Bytes::new(*range.end()),
        );
        Err(ScenarioError::new(format!("{path}.packet"), format!("\"{packet}\""), allowed))
    }

    fn largest_packets(&self, _load: Load) -> [Bytes; 2] {
        [self.packet(); 2]
    }

    fn limits(&self, _load: Load) -> Vec<(&'static str, Bytes, bool)> {
        let packet = self.packet();
        vec![("transport.datagram", packet, false), ("transport.datagram", packet, true)]
    }

    fn resolved(&self) -> Value {
        json!({
            "variant": self.variant.word(),
            "congestion_control": self.congestion_control.map(|kind| kind.kind()),
            "datagram": self.datagram.get(),
            "header": self.header.get(),
            "initial_window": self.initial_window.get(),
            "packet_threshold": self.packet_threshold,
            "time_threshold": self.time_threshold.0,
            "initial_rtt": seconds(self.initial_rtt),
            "idle_timeout": seconds(self.idle_timeout),
        })
    }

    fn build(&self, site: TransportSite<'_>) -> super::Machine {
        super::Quic::new(self.clone(), site.clock)
    }
}
