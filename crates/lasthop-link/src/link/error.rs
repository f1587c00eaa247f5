//! Parameter errors of link endpoints.

use lasthop_base::units::{Bytes, Duration};

/// Reason why a link endpoint cannot be built from its parameters.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LinkError {
    /// The window is 0 or too large for the sequence number range.
    #[error("{protocol}: invalid window of {found} frames; expected 1 to {largest}")]
    Window {
        /// Name of the protocol.
        protocol: &'static str,
        /// Requested window, in frames.
        found: u32,
        /// Largest window, in frames.
        largest: u32,
    },
    /// A timeout of 0 expires before the frame is sent.
    #[error("{protocol}: invalid timeout of 0 s; expected a duration above 0 s")]
    Timeout {
        /// Name of the protocol.
        protocol: &'static str,
    },
    /// The retransmission limit exceeds the protocol's maximum.
    #[error("{protocol}: invalid limit of {found} retransmissions; expected 0 to {largest}")]
    Retransmissions {
        /// Name of the protocol.
        protocol: &'static str,
        /// Requested limit.
        found: u32,
        /// Largest limit.
        largest: u32,
    },
    /// Keep-alives are enabled with interval 0 or count 0.
    #[error(
        "{protocol}: invalid keep-alive interval of 0 s or limit of 0 keep-alives; expected more \
         than 0 of both, or no keep-alives"
    )]
    Keepalive {
        /// Name of the protocol.
        protocol: &'static str,
    },
    /// The block size is 0 or exceeds the protocol's maximum.
    #[error("{protocol}: invalid block size {found}; expected 1 to {largest}")]
    Block {
        /// Name of the protocol.
        protocol: &'static str,
        /// Requested block size, in frames.
        found: u32,
        /// Largest block, in frames.
        largest: u32,
    },
    /// The interleaving depth is 0, or the interleaved blocks exceed the sequence number range.
    #[error(
        "{protocol}: invalid interleave {found} with blocks of {block} frames; expected 1 to \
         {largest} (at most 64 frames in total)"
    )]
    Interleave {
        /// Name of the protocol.
        protocol: &'static str,
        /// Requested number of interleaved blocks.
        found: u32,
        /// Frames per block.
        block: u32,
        /// Maximum number of interleaved blocks.
        largest: u32,
    },
    /// The number of interleaved packets is 0 or exceeds the maximum number of units per block.
    #[error("{protocol}: invalid interleave {found}; expected 1 to {largest}")]
    Turns {
        /// Name of the protocol.
        protocol: &'static str,
        /// Requested number of interleaved packets.
        found: u32,
        /// Maximum number of interleaved packets.
        largest: u32,
    },
    /// A stack has fewer than two layers, or more layers than a packet has room for headers.
    #[error("stack: invalid number of layers {found}; expected 2 to {largest}")]
    Layers {
        /// Requested number of layers.
        found: usize,
        /// Maximum number of layers.
        largest: usize,
    },
    /// A layer of a stack consists of services or needs ideal feedback: only the lowest layer uses
    /// the medium.
    #[error("stack: invalid layer of services or with ideal feedback; expected another protocol")]
    Layer,
    /// The segment size is 0 or exceeds the maximum packet length.
    #[error("{protocol}: invalid segment size {found}; expected 1 B to 65535 B")]
    Payload {
        /// Name of the protocol.
        protocol: &'static str,
        /// Requested size.
        found: Bytes,
    },
    /// The transmission limit is 0, or too large to be stored.
    #[error(
        "{protocol}: invalid limit of {found} transmissions; expected 1 to 2147483646, or no limit"
    )]
    Transmissions {
        /// Name of the protocol.
        protocol: &'static str,
        /// Requested limit.
        found: u32,
    },
    /// The header or control frame length does not fit 16 bits.
    #[error("{protocol}: invalid frame header of {found}; expected at most 65535 B")]
    Header {
        /// Name of the protocol.
        protocol: &'static str,
        /// Requested length.
        found: Bytes,
    },
    /// The payload is too short for a status report, or too long for a length indicator.
    #[error("{protocol}: invalid payload of {found}; expected {least} B to {largest} B")]
    Pdu {
        /// Name of the protocol.
        protocol: &'static str,
        /// Requested payload.
        found: Bytes,
        /// Minimum payload, in bytes.
        least: u32,
        /// Maximum payload, in bytes.
        largest: u32,
    },
    /// The number of services is 0 or exceeds [`MAX_SERVICES`](super::MAX_SERVICES).
    #[error("services: invalid number of services {found}; expected 1 to 16")]
    Services {
        /// Requested number of services.
        found: usize,
    },
    /// A traffic class is assigned to a service that does not exist.
    #[error("services: unknown service {found} for a class; expected less than {services}")]
    Class {
        /// Index of the service.
        found: u8,
        /// Number of services.
        services: usize,
    },
    /// The measurement interval of services is 0.
    #[error("services: invalid interval of 0 s; expected a duration above 0 s")]
    Interval,
    /// A service consists of services.
    #[error("services: invalid services within a service; expected another protocol")]
    Nested,
}

/// Checks the parameters of protocols with a window. Returns the header and control frame lengths
/// in the type that frames use.
pub(super) fn check_parameters(
    protocol: &'static str,
    window: u32,
    largest: u32,
    timeout: Duration,
    header: Bytes,
    control: Bytes,
) -> Result<(u32, u32), LinkError> {
    if !(1..=largest).contains(&window) {
        return Err(LinkError::Window { protocol, found: window, largest });
    }
    if timeout == Duration::ZERO {
        return Err(LinkError::Timeout { protocol });
    }
    check_sizes(protocol, header, control)
}

/// Returns the header and control frame lengths in the type that frames use.
pub(super) fn check_sizes(
    protocol: &'static str,
    header: Bytes,
    control: Bytes,
) -> Result<(u32, u32), LinkError> {
    Ok((check_header(protocol, header)?, check_header(protocol, control)?))
}

/// Returns the length of a header or control frame in the type that frames use.
pub(super) fn check_header(protocol: &'static str, header: Bytes) -> Result<u32, LinkError> {
    match u16::try_from(header.get()) {
        Ok(small) => Ok(u32::from(small)),
        Err(_) => Err(LinkError::Header { protocol, found: header }),
    }
}
