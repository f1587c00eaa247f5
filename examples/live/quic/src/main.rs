//! A file over QUIC between two hosts of `lasthop live`: `quinn` with TLS 1.3, as an application uses it.
//!
//! ```sh
//! quic-live serve                          # at the receiver: one connection, then exit
//! quic-live send HOST BYTES [cubic | newreno | bbr]
//! ```
//!
//! The client opens the connection, writes the file to one bidirectional stream and prints one line of JSON
//! when the server has acknowledged all of it. The settings are those of `transport = { kind = "quic" }`.

use std::env;
use std::error::Error;
use std::net::{Ipv4Addr, SocketAddr, ToSocketAddrs};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

use quinn::congestion::{BbrConfig, ControllerFactory, CubicConfig, NewRenoConfig};
use quinn::{ClientConfig, Endpoint, EndpointConfig, ServerConfig, TransportConfig, VarInt};
use rustls::pki_types::{CertificateDer, PrivatePkcs8KeyDer, ServerName, UnixTime};
use rustls::{DigitallySignedStruct, SignatureScheme};

type Outcome<T> = Result<T, Box<dyn Error>>;

/// UDP port of the server.
const PORT: u16 = 4433;
/// UDP payload of a full datagram in bytes: 1500 B less 28 B of IPv4 and UDP. The programs use IPv4.
const DATAGRAM: u16 = 1472;
/// Initial congestion window in bytes (RFC 9002, section 7.2).
const INITIAL_WINDOW: u64 = 14_720;
/// Flow control window of a stream in bytes: it does not limit the rate.
const STREAM_WINDOW: u32 = 10_000_000;
/// Application protocol of the TLS handshake (RFC 7301).
const PROTOCOL: &[u8] = b"lasthop-file";

fn main() -> ExitCode {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let outcome = runtime.block_on(async {
        match arguments[..] {
            ["serve"] => serve().await,
            ["send", host, bytes] => send(host, bytes, "cubic").await,
            ["send", host, bytes, variant] => send(host, bytes, variant).await,
            _ => Err("usage: quic-live serve | send HOST BYTES [cubic | newreno | bbr]".into()),
        }
    });
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("quic-live: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Returns the settings that the simulator uses by default (docs/quic.md, Keys).
fn transport(congestion: Arc<dyn ControllerFactory + Send + Sync>) -> Arc<TransportConfig> {
    let mut config = TransportConfig::default();
    config
        .congestion_controller_factory(congestion)
        .initial_mtu(DATAGRAM)
        .mtu_discovery_config(None)
        .enable_segmentation_offload(false)
        .allow_spin(false)
        .stream_receive_window(VarInt::from_u32(STREAM_WINDOW))
        .send_window(STREAM_WINDOW.into());
    Arc::new(config)
}

/// Returns the congestion control `variant` of the stack, with the initial window of the simulator.
fn congestion(variant: &str) -> Outcome<Arc<dyn ControllerFactory + Send + Sync>> {
    let mut cubic = CubicConfig::default();
    cubic.initial_window(INITIAL_WINDOW);
    let mut newreno = NewRenoConfig::default();
    newreno.initial_window(INITIAL_WINDOW);
    let mut bbr = BbrConfig::default();
    bbr.initial_window(INITIAL_WINDOW);
    Ok(match variant {
        "cubic" => Arc::new(cubic),
        "newreno" => Arc::new(newreno),
        "bbr" => Arc::new(bbr),
        other => {
            return Err(format!("variant: found {other}; expected cubic, newreno or bbr").into());
        }
    })
}

/// Receives the stream of one connection and confirms it; ends when the client closes the connection.
async fn serve() -> Outcome<()> {
    let key = rcgen::generate_simple_self_signed(vec!["server".to_owned()])?;
    let private = PrivatePkcs8KeyDer::from(key.signing_key.serialize_der());
    let mut tls = rustls::ServerConfig::builder()
        .with_no_client_auth()
        .with_single_cert(vec![key.cert.der().clone()], private.into())?;
    tls.alpn_protocols = vec![PROTOCOL.to_vec()];
    let tls = quinn::crypto::rustls::QuicServerConfig::try_from(tls)?;
    let mut config = ServerConfig::with_crypto(Arc::new(tls));
    config.transport_config(transport(congestion("cubic")?));
    let endpoint = Endpoint::server(config, SocketAddr::from((Ipv4Addr::UNSPECIFIED, PORT)))?;
    let connection = endpoint.accept().await.ok_or("the endpoint was closed")?.await?;
    let (mut reply, mut file) = connection.accept_bi().await?;
    let mut bytes = 0;
    while let Some(chunk) = file.read_chunk(usize::MAX, true).await? {
        bytes += chunk.bytes.len();
    }
    reply.write_all(&bytes.to_be_bytes()).await?;
    reply.finish()?;
    connection.closed().await;
    endpoint.wait_idle().await;
    Ok(())
}

/// Sends `bytes` zero bytes to `host` and prints the time until the server has confirmed them.
async fn send(host: &str, bytes: &str, variant: &str) -> Outcome<()> {
    let bytes: usize =
        bytes.parse().map_err(|_| format!("BYTES: found {bytes}; expected a whole number"))?;
    let server = (host, PORT).to_socket_addrs()?.find(SocketAddr::is_ipv4);
    let server = server.ok_or_else(|| format!("{host} has no IPv4 address"))?;
    let mut tls = rustls::ClientConfig::builder()
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(AnyCertificate))
        .with_no_client_auth();
    tls.alpn_protocols = vec![PROTOCOL.to_vec()];
    let tls = quinn::crypto::rustls::QuicClientConfig::try_from(tls)?;
    let mut config = ClientConfig::new(Arc::new(tls));
    config.transport_config(transport(congestion(variant)?));
    let socket = std::net::UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0))?;
    let runtime = Arc::new(quinn::TokioRuntime);
    let endpoint = Endpoint::new(EndpointConfig::default(), None, socket, runtime)?;

    let start = Instant::now();
    let connection = endpoint.connect_with(config, server, "server")?.await?;
    let handshake = start.elapsed();
    let (mut file, mut reply) = connection.open_bi().await?;
    let zeros = vec![0; 1 << 16];
    let mut left = bytes;
    while left > 0 {
        left -= file.write(&zeros[..left.min(zeros.len())]).await?;
    }
    file.finish()?;
    let confirmed = reply.read_to_end(8).await?;
    let time = start.elapsed();
    if confirmed != bytes.to_be_bytes() {
        return Err("the server received another number of bytes".into());
    }
    print_result(bytes, variant, handshake, time, &connection);
    connection.close(VarInt::from_u32(0), b"complete");
    endpoint.wait_idle().await;
    Ok(())
}

/// Prints goodput, times and counters of the connection as one line of JSON.
fn print_result(
    bytes: usize,
    variant: &str,
    handshake: Duration,
    time: Duration,
    connection: &quinn::Connection,
) {
    let path = connection.stats().path;
    let goodput = bytes as f64 * 8.0 / time.as_secs_f64();
    println!(
        r#"{{"variant": "{variant}", "bytes": {bytes}, "duration_s": {:.6}, "goodput_bps": {goodput:.0}, "handshake_s": {:.6}, "packets_sent": {}, "packets_lost": {}, "congestion_events": {}}}"#,
        time.as_secs_f64(),
        handshake.as_secs_f64(),
        path.sent_packets,
        path.lost_packets,
        path.congestion_events,
    );
}

/// Accepts every certificate: both ends are programs of one run on one machine.
#[derive(Debug)]
struct AnyCertificate;

impl rustls::client::danger::ServerCertVerifier for AnyCertificate {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<rustls::client::danger::ServerCertVerified, rustls::Error> {
        Ok(rustls::client::danger::ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<rustls::client::danger::HandshakeSignatureValid, rustls::Error> {
        Ok(rustls::client::danger::HandshakeSignatureValid::assertion())
    }

    fn verify_tls13_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<rustls::client::danger::HandshakeSignatureValid, rustls::Error> {
        Ok(rustls::client::danger::HandshakeSignatureValid::assertion())
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        rustls::crypto::ring::default_provider()
            .signature_verification_algorithms
            .supported_schemes()
    }
}
