//! Null encryption, and the messages of TLS 1.3 as bytes without contents.
//!
//! ```text
//!   client                                     server
//!   ClientHello, transport parameters  ------>            Initial
//!                                      <------ ServerHello Initial
//!                                      <------ EncryptedExtensions, transport parameters,
//!                                              Certificate, CertificateVerify, Finished
//!                                                          Handshake
//!   Finished                           ------>            Handshake
//! ```
//!
//! Each flight is one message of type, 24-bit length, transport parameters and zeros. Packets have
//! room for the authentication tag, but neither payload nor header is encrypted, so that captures
//! and agents can read them.
//!
//! *Not modelled*: keys, certificates, alerts, session tickets (their 150 B or so are not sent),
//! Retry, HelloRetryRequest.

use super::frames::TAG_LENGTH;
use bytes::BytesMut;
use quinn_proto::crypto::{
    AeadKey, ClientConfig, CryptoError, ExportKeyingMaterialError, HandshakeTokenKey, HeaderKey,
    HmacKey, KeyPair, Keys, PacketKey, ServerConfig, Session, UnsupportedVersion,
};
use quinn_proto::transport_parameters::TransportParameters;
use quinn_proto::{ConnectError, ConnectionId, Side, TransportError};
use std::any::Any;
use std::sync::Arc;

/// Length of type and length of a message.
const MESSAGE_HEADER: usize = 4;
/// ServerHello with an X25519 key share.
const SERVER_HELLO: usize = 122;
/// Finished with a hash of 256 bits.
const FINISHED: usize = MESSAGE_HEADER + 32;

/// Sizes of the messages, and early data.
#[derive(Clone, Debug)]
pub(super) struct Tls {
    /// ClientHello, including transport parameters.
    pub client_hello: usize,
    /// EncryptedExtensions to Finished, including transport parameters.
    pub server_flight: usize,
    /// The server's transport parameters of the previous connection, encoded; with 0-RTT only.
    pub remembered: Option<Vec<u8>>,
}

/// The session of one end.
struct NullSession {
    side: Side,
    tls: Arc<Tls>,
    /// Own transport parameters, encoded.
    own: Vec<u8>,
    peer: Option<TransportParameters>,
    /// Bytes of the message that is being received.
    partial: Vec<u8>,
    /// Number of messages received and of flights written.
    received: usize,
    written: usize,
}

/// Appends a message of at least `size` bytes with these contents.
fn message(into: &mut Vec<u8>, kind: u8, size: usize, contents: &[u8]) {
    let start = into.len();
    let body = (contents.len() + 2).max(size.saturating_sub(MESSAGE_HEADER));
    into.push(kind);
    into.extend_from_slice(&(body as u32).to_be_bytes()[1..]);
    into.extend_from_slice(&(contents.len() as u16).to_be_bytes());
    into.extend_from_slice(contents);
    into.resize(start + MESSAGE_HEADER + body, 0);
}

fn encoded(parameters: &TransportParameters) -> Vec<u8> {
    let mut bytes = Vec::new();
    parameters.write(&mut bytes);
    bytes
}

impl NullSession {
    fn new(side: Side, tls: Arc<Tls>, parameters: &TransportParameters) -> Self {
        let own = encoded(parameters);
        NullSession { side, tls, own, peer: None, partial: vec![], received: 0, written: 0 }
    }
}

impl Session for NullSession {
    fn initial_keys(&self, _: &ConnectionId, _: Side) -> Keys {
        keys()
    }

    fn handshake_data(&self) -> Option<Box<dyn Any>> {
        None
    }

    fn peer_identity(&self) -> Option<Box<dyn Any>> {
        None
    }

    fn early_crypto(&self) -> Option<(Box<dyn HeaderKey>, Box<dyn PacketKey>)> {
        self.tls.remembered.as_ref().map(|_| (Box::new(Null) as _, Box::new(Null) as _))
    }

    fn early_data_accepted(&self) -> Option<bool> {
        Some(self.tls.remembered.is_some())
    }

    fn is_handshaking(&self) -> bool {
        self.received < 2 || self.written < 2
    }

    fn read_handshake(&mut self, bytes: &[u8]) -> Result<bool, TransportError> {
        self.partial.extend_from_slice(bytes);
        while let Some(&[_, high, middle, low]) = self.partial.first_chunk() {
            let body = usize::from(high) << 16 | usize::from(middle) << 8 | usize::from(low);
            if self.partial.len() < MESSAGE_HEADER + body {
                break;
            }
            let contents = &self.partial[MESSAGE_HEADER..MESSAGE_HEADER + body];
            let has_parameters = match self.side {
                Side::Client => self.received == 1,
                Side::Server => self.received == 0,
            };
            if has_parameters && let Some((length, rest)) = contents.split_first_chunk() {
                let length = usize::from(u16::from_be_bytes(*length)).min(rest.len());
                self.peer = Some(TransportParameters::read(self.side, &mut &rest[..length])?);
            }
            self.received += 1;
            self.partial.drain(..MESSAGE_HEADER + body);
        }
        Ok(false)
    }

    fn transport_parameters(&self) -> Result<Option<TransportParameters>, TransportError> {
        if self.peer.is_none()
            && self.side == Side::Client
            && let Some(remembered) = &self.tls.remembered
        {
            return Ok(Some(TransportParameters::read(Side::Client, &mut remembered.as_slice())?));
        }
        Ok(self.peer)
    }

    /// Writes the flight of the present encryption level. Keys that it returns are those of the
    /// next level.
    fn write_handshake(&mut self, into: &mut Vec<u8>) -> Option<Keys> {
        match (self.side, self.received, self.written) {
            (Side::Client, 0, 0) if !self.own.is_empty() => {
                message(into, 1, self.tls.client_hello, &self.own);
                self.own.clear();
                None
            }
            (Side::Client, 1.., 0) => {
                self.written = 1;
                Some(keys())
            }
            (Side::Client, 2.., 1) => {
                self.written = 2;
                message(into, 20, FINISHED, &[]);
                Some(keys())
            }
            (Side::Server, 1.., 0) => {
                self.written = 1;
                message(into, 2, SERVER_HELLO, &[]);
                Some(keys())
            }
            (Side::Server, 1.., 1) => {
                self.written = 2;
                message(into, 8, self.tls.server_flight, &self.own);
                Some(keys())
            }
            _ => None,
        }
    }

    fn next_1rtt_keys(&mut self) -> Option<KeyPair<Box<dyn PacketKey>>> {
        Some(KeyPair { local: Box::new(Null), remote: Box::new(Null) })
    }

    fn is_valid_retry(&self, _: &ConnectionId, _: &[u8], _: &[u8]) -> bool {
        false
    }

    fn export_keying_material(
        &self,
        _: &mut [u8],
        _: &[u8],
        _: &[u8],
    ) -> Result<(), ExportKeyingMaterialError> {
        Err(ExportKeyingMaterialError)
    }
}

/// The configuration of both ends.
pub(super) struct NullTls(pub Arc<Tls>);

impl ClientConfig for NullTls {
    fn start_session(
        self: Arc<Self>,
        _: u32,
        _: &str,
        parameters: &TransportParameters,
    ) -> Result<Box<dyn Session>, ConnectError> {
        Ok(Box::new(NullSession::new(Side::Client, self.0.clone(), parameters)))
    }
}

impl ServerConfig for NullTls {
    fn initial_keys(&self, _: u32, _: &ConnectionId) -> Result<Keys, UnsupportedVersion> {
        Ok(keys())
    }

    fn retry_tag(&self, _: u32, _: &ConnectionId, _: &[u8]) -> [u8; 16] {
        [0; 16]
    }

    fn start_session(
        self: Arc<Self>,
        _: u32,
        parameters: &TransportParameters,
    ) -> Box<dyn Session> {
        Box::new(NullSession::new(Side::Server, self.0.clone(), parameters))
    }
}

/// All keys.
pub(super) struct Null;

fn keys() -> Keys {
    Keys {
        header: KeyPair { local: Box::new(Null), remote: Box::new(Null) },
        packet: KeyPair { local: Box::new(Null), remote: Box::new(Null) },
    }
}

impl PacketKey for Null {
    fn encrypt(&self, _: u64, _: &mut [u8], _: usize) {}

    fn decrypt(&self, _: u64, _: &[u8], payload: &mut BytesMut) -> Result<(), CryptoError> {
        let length = payload.len().checked_sub(TAG_LENGTH).ok_or(CryptoError)?;
        payload.truncate(length);
        Ok(())
    }

    fn tag_len(&self) -> usize {
        TAG_LENGTH
    }

    fn confidentiality_limit(&self) -> u64 {
        u64::MAX
    }

    fn integrity_limit(&self) -> u64 {
        u64::MAX
    }
}

impl HeaderKey for Null {
    fn decrypt(&self, _: usize, _: &mut [u8]) {}

    fn encrypt(&self, _: usize, _: &mut [u8]) {}

    fn sample_size(&self) -> usize {
        16
    }
}

/// Signs the tokens of stateless resets with a checksum (FNV-1a).
impl HmacKey for Null {
    fn sign(&self, data: &[u8], signature: &mut [u8]) {
        let mut state = 0xcbf2_9ce4_8422_2325u64;
        for (place, byte) in signature.iter_mut().enumerate() {
            for &value in data.iter().chain(&[place as u8]) {
                state = (state ^ u64::from(value)).wrapping_mul(0x0100_0000_01b3);
            }
            *byte = (state >> 32) as u8;
        }
    }

    fn signature_len(&self) -> usize {
        32
    }

    fn verify(&self, _: &[u8], _: &[u8]) -> Result<(), CryptoError> {
        Ok(())
    }
}

impl HandshakeTokenKey for Null {
    fn aead_from_hkdf(&self, _: &[u8]) -> Box<dyn AeadKey> {
        Box::new(Null)
    }
}

impl AeadKey for Null {
    fn seal(&self, _: &mut Vec<u8>, _: &[u8]) -> Result<(), CryptoError> {
        Ok(())
    }

    fn open<'a>(&self, data: &'a mut [u8], _: &[u8]) -> Result<&'a mut [u8], CryptoError> {
        Ok(data)
    }
}
