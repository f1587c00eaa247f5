//! One door to the byte formats: each protocol has its own, an endpoint knows which.
//!
//! ```text
//!   raw                                    | packet ...
//!   numbered (see `wire`)                  | number | ack | packet ...
//!   radio link (see `rlp_wire`)            | number | packet ...
//!   acknowledged mode (see `rlc_wire`)     | number, poll, extension | piece ...
//!   exclusive-or FEC (see `fec_wire`)      | bit, number | packet ...
//!   services                               | service | frame of its protocol ...
//! ```
//!
//! Not modelled: error detection; a damaged frame must be gone before it comes here.

use super::fec_wire::{self, FecWireError};
use super::rlc_wire::{self, RlcWireError};
use super::rlp_wire::{self, RlpWireError};
use super::wire::{self, WireError};
use super::{Frame, FrameKind, LinkEndpoint};

/// Why a frame has no byte form, or bytes no frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BytesError {
    /// Of selective repeat, go-back-N, stop-and-wait.
    #[error(transparent)]
    Numbered(#[from] WireError),
    /// Of the radio link protocols.
    #[error(transparent)]
    Rlp(#[from] RlpWireError),
    /// Of RLC acknowledged mode.
    #[error(transparent)]
    Rlc(#[from] RlcWireError),
    /// Of exclusive-or FEC.
    #[error(transparent)]
    Fec(#[from] FecWireError),
    /// A link without protocol carries packets only.
    #[error("found a frame without a packet; allowed: packets of 1 to 4294967295 bytes")]
    NoPacket,
    /// The protocol has no byte format yet.
    #[error("found a protocol without byte format")]
    NoFormat,
    /// There is no such service.
    #[error("found service {found}; allowed: less than {services}")]
    Service {
        /// Identifier in the frame; 0 where the frame is empty.
        found: u8,
        /// Number of services.
        services: usize,
    },
}

impl LinkEndpoint<Vec<u8>> {
    /// Appends the byte form of a frame of this endpoint, or of its peer, to `bytes`.
    pub fn encode(&self, frame: &Frame<Vec<u8>>, bytes: &mut Vec<u8>) -> Result<(), BytesError> {
        match self {
            LinkEndpoint::Raw(_) => {
                let packet = frame.payload.as_ref().filter(|packet| !packet.is_empty());
                bytes.extend_from_slice(packet.ok_or(BytesError::NoPacket)?);
            }
            LinkEndpoint::Rlp(_) => rlp_wire::encode(frame, bytes)?,
            LinkEndpoint::XorFec(_) => fec_wire::encode(frame, bytes)?,
            LinkEndpoint::Rlc(endpoint) => {
                rlc_wire::encode(frame, endpoint.wire_window().payload, bytes)?;
            }
            LinkEndpoint::Services(services) => {
                let (found, count) = (frame.service, services.count());
                if usize::from(found) >= count {
                    return Err(BytesError::Service { found, services: count });
                }
                let before = bytes.len();
                bytes.push(found);
                let endpoint = services.endpoint(found.into());
                endpoint.encode(frame, bytes).inspect_err(|_| bytes.truncate(before))?;
            }
            _ => match self.wire_window() {
                Some(_) => wire::encode(frame, bytes)?,
                None => return Err(BytesError::NoFormat),
            },
        }
        Ok(())
    }

    /// Reads one frame that has come from the peer; any bytes are a frame or an error.
    pub fn decode(&self, bytes: &[u8]) -> Result<Frame<Vec<u8>>, BytesError> {
        match self {
            LinkEndpoint::Raw(_) => {
                let length = u32::try_from(bytes.len()).ok().filter(|&length| length > 0);
                Ok(Frame {
                    // The machine gives its packets no numbers.
                    kind: FrameKind::Data { sequence: 0 },
                    ack: None,
                    payload: Some(bytes.to_vec()),
                    bytes: length.ok_or(BytesError::NoPacket)?,
                    service: 0,
                })
            }
            LinkEndpoint::Rlp(endpoint) => Ok(rlp_wire::decode(bytes, &endpoint.wire_window())?),
            LinkEndpoint::Rlc(endpoint) => Ok(rlc_wire::decode(bytes, &endpoint.wire_window())?),
            LinkEndpoint::XorFec(endpoint) => {
                Ok(fec_wire::decode(bytes, endpoint.next_expected())?)
            }
            LinkEndpoint::Services(services) => {
                let count = services.count();
                let none = BytesError::Service { found: 0, services: count };
                let (&found, rest) = bytes.split_first().ok_or(none)?;
                if usize::from(found) >= count {
                    return Err(BytesError::Service { found, services: count });
                }
                let frame = services.endpoint(found.into()).decode(rest)?;
                Ok(Frame { service: found, bytes: frame.bytes.saturating_add(1), ..frame })
            }
            _ => {
                let window = self.wire_window().ok_or(BytesError::NoFormat)?;
                Ok(wire::decode(bytes, &window)?)
            }
        }
    }
}
