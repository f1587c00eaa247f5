//! Common interface of the byte formats. Each protocol has its own format:
//!
//! ```text
//!   raw                                    | packet ...
//!   numbered (see `wire`)                  | number | ack | packet ...
//!   radio link (see `rlp_wire`)            | number | packet ...
//!   acknowledged mode (see `rlc_wire`)     | number, poll, extension | segment ...
//!   exclusive-or FEC (see `fec_wire`)      | bit, number | packet ...
//!   hybrid ARQ (see `harq::wire`)          | number, unit ... | units ...
//!   services                               | service | frame of its protocol ...
//!   stacked layers                         | frame of the lowest layer, whose packet is a frame ...
//! ```
//!
//! Not modelled: error detection; damaged frames must be dropped before decoding.

use super::fec_wire::FecWireError;
use super::harq::wire::HarqWireError;
use super::rlc_wire::RlcWireError;
use super::rlp_wire::RlpWireError;
use super::wire::WireError;
use super::{Frame, OwnEndpoint, Services, Stack};

/// Error of encoding or decoding a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BytesError {
    /// Error of selective repeat, go-back-N or stop-and-wait.
    #[error(transparent)]
    Numbered(#[from] WireError),
    /// Error of a radio link protocol.
    #[error(transparent)]
    Rlp(#[from] RlpWireError),
    /// Error of RLC acknowledged mode.
    #[error(transparent)]
    Rlc(#[from] RlcWireError),
    /// Error of exclusive-or FEC.
    #[error(transparent)]
    Fec(#[from] FecWireError),
    /// Error of hybrid ARQ.
    #[error(transparent)]
    Harq(#[from] HarqWireError),
    /// A raw frame without a packet.
    #[error("frame without a packet; expected a packet of 1 to 4294967295 bytes")]
    NoPacket,
    /// The protocol has no byte format.
    #[error("protocol without a byte format")]
    NoFormat,
    /// A packet that does not represent a frame of the link layer above.
    #[error("packet does not represent a frame of the link layer above")]
    NoFrame,
    /// An unknown service identifier.
    #[error("unknown service {found}; expected less than {services}")]
    Service {
        /// Identifier in the frame; 0 if the frame is empty.
        found: u8,
        /// Number of services.
        services: usize,
    },
}

/// Byte form of an endpoint's frames. The defaults are for protocols without one.
pub(crate) trait ByteFormat {
    /// Appends the byte form of a frame of this endpoint or its peer to `bytes`.
    fn encode(&self, _frame: &Frame<Vec<u8>>, _bytes: &mut Vec<u8>) -> Result<(), BytesError> {
        Err(BytesError::NoFormat)
    }

    /// Decodes one frame received from the peer. Any bytes yield a frame or an error.
    fn decode(&self, _bytes: &[u8]) -> Result<Frame<Vec<u8>>, BytesError> {
        Err(BytesError::NoFormat)
    }

    /// Like [`Self::encode`], for a frame that is no longer needed.
    fn encode_owned(&self, frame: Frame<Vec<u8>>) -> Result<Vec<u8>, BytesError> {
        let mut bytes = Vec::with_capacity(frame.bytes as usize);
        self.encode(&frame, &mut bytes)?;
        Ok(bytes)
    }

    /// Like [`Self::decode`], for bytes that are no longer needed.
    fn decode_owned(&self, bytes: Vec<u8>) -> Result<Frame<Vec<u8>>, BytesError> {
        self.decode(&bytes)
    }
}

/// Protocols of other crates have no byte form.
impl ByteFormat for OwnEndpoint<Vec<u8>> {}

impl ByteFormat for Stack<Vec<u8>> {
    fn encode(&self, frame: &Frame<Vec<u8>>, bytes: &mut Vec<u8>) -> Result<(), BytesError> {
        self.endpoint(usize::MAX).encode(frame, bytes)
    }

    /// Returns an error for all bytes if a layer has no byte format.
    fn decode(&self, bytes: &[u8]) -> Result<Frame<Vec<u8>>, BytesError> {
        if !(0..self.count()).all(|layer| self.endpoint(layer).has_byte_form()) {
            return Err(BytesError::NoFormat);
        }
        self.endpoint(usize::MAX).decode(bytes)
    }
}

impl ByteFormat for Services<Vec<u8>> {
    fn encode(&self, frame: &Frame<Vec<u8>>, bytes: &mut Vec<u8>) -> Result<(), BytesError> {
        let (found, count) = (frame.service, self.count());
        if usize::from(found) >= count {
            return Err(BytesError::Service { found, services: count });
        }
        let before = bytes.len();
        bytes.push(found);
        let endpoint = self.endpoint(found.into());
        endpoint.encode(frame, bytes).inspect_err(|_| bytes.truncate(before))
    }

    fn decode(&self, bytes: &[u8]) -> Result<Frame<Vec<u8>>, BytesError> {
        let count = self.count();
        let none = BytesError::Service { found: 0, services: count };
        let (&found, rest) = bytes.split_first().ok_or(none)?;
        if usize::from(found) >= count {
            return Err(BytesError::Service { found, services: count });
        }
        let frame = self.endpoint(found.into()).decode(rest)?;
        Ok(Frame { service: found, bytes: frame.bytes.saturating_add(1), ..frame })
    }
}
