//! Why a link endpoint cannot be built.

use lasthop_base::units::{Bytes, Duration};

/// Why a link endpoint cannot be built from its parameters.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LinkError {
    /// The window does not fit the one-byte numbers.
    #[error("{protocol}: found a window of {found} frames; allowed: 1 to {largest}")]
    Window {
        /// Name of the protocol.
        protocol: &'static str,
        /// Window asked for, in frames.
        found: u32,
        /// Largest window, in frames.
        largest: u32,
    },
    /// Frames would be sent again before they have left.
    #[error("{protocol}: found a timeout of 0 s; allowed: any duration above 0 s")]
    Timeout {
        /// Name of the protocol.
        protocol: &'static str,
    },
    /// More copies than make sense of a frame.
    #[error("{protocol}: found {found} retransmissions; allowed: 0 to {largest}")]
    Retransmissions {
        /// Name of the protocol.
        protocol: &'static str,
        /// Limit asked for.
        found: u32,
        /// Largest limit.
        largest: u32,
    },
    /// Keep-alives without pause, or none of them.
    #[error(
        "{protocol}: found a keep-alive interval of 0 s or 0 keep-alives; allowed: any duration \
         above 0 s, at least 1, or keep-alives switched off"
    )]
    Keepalive {
        /// Name of the protocol.
        protocol: &'static str,
    },
    /// The block does not fit the one-byte numbers, or is empty.
    #[error("{protocol}: found a block of {found} frames; allowed: 1 to {largest}")]
    Block {
        /// Name of the protocol.
        protocol: &'static str,
        /// Block asked for, in frames.
        found: u32,
        /// Largest block, in frames.
        largest: u32,
    },
    /// So many blocks together do not fit the numbers, or there is none.
    #[error(
        "{protocol}: found interleave {found} with blocks of {block} frames; allowed: 1 to {largest}, \
         64 frames together"
    )]
    Interleave {
        /// Name of the protocol.
        protocol: &'static str,
        /// Blocks at a time.
        found: u32,
        /// Frames of a block.
        block: u32,
        /// Blocks at a time at most.
        largest: u32,
    },
    /// No packet would be sent, or more would take turns than a block can have parts.
    #[error("{protocol}: found interleave {found}; allowed: 1 to {largest}")]
    Turns {
        /// Name of the protocol.
        protocol: &'static str,
        /// Packets that take turns.
        found: u32,
        /// So many at most.
        largest: u32,
    },
    /// A stack of one layer is a protocol, and packets have room for the headers of so many layers.
    #[error("stack: found {found} layers; allowed: 2 to {largest}")]
    Layers {
        /// Layers asked for.
        found: usize,
        /// Maximum number of layers.
        largest: usize,
    },
    /// A layer of a stack does not see the medium.
    #[error(
        "stack: found a layer of services or one that needs ideal feedback; allowed: other protocols"
    )]
    Layer,
    /// Segments would carry nothing, or more than a packet can have.
    #[error("{protocol}: found segments of {found}; allowed: 1 to 65535 B")]
    Payload {
        /// Name of the protocol.
        protocol: &'static str,
        /// Size asked for.
        found: Bytes,
    },
    /// Nothing would ever be sent.
    #[error(
        "{protocol}: found at most {found} transmissions; allowed: 1 to 2147483645, or no limit"
    )]
    Transmissions {
        /// Name of the protocol.
        protocol: &'static str,
        /// Limit asked for.
        found: u32,
    },
    /// No header is this long.
    #[error("{protocol}: found {found} of link header; allowed: at most 65535 B")]
    Header {
        /// Name of the protocol.
        protocol: &'static str,
        /// Size asked for.
        found: Bytes,
    },
    /// No status report fits, or no length indicator tells the length.
    #[error("{protocol}: found a payload of {found}; allowed: {least} B to {largest} B")]
    Pdu {
        /// Name of the protocol.
        protocol: &'static str,
        /// Size asked for.
        found: Bytes,
        /// Least payload, in bytes.
        least: u32,
        /// Largest payload, in bytes.
        largest: u32,
    },
    /// A link has some services, and their identifiers are small.
    #[error("services: found {found} services; allowed: 1 to 16")]
    Services {
        /// How many there are.
        found: usize,
    },
    /// A traffic class belongs to a service that there is not.
    #[error("services: found service {found} for a class; allowed: less than {services}")]
    Class {
        /// Index of the service.
        found: u8,
        /// How many there are.
        services: usize,
    },
    /// Nothing is offered in no time.
    #[error("services: found an interval of 0 s; allowed: any duration above 0 s")]
    Interval,
    /// A service has one protocol.
    #[error("services: found services within services; allowed: any other protocol")]
    Nested,
}

/// What the numbered protocols have to check; returns header and control bytes as frames count
/// them.
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

/// Header and control bytes as frames count them.
pub(super) fn check_sizes(
    protocol: &'static str,
    header: Bytes,
    control: Bytes,
) -> Result<(u32, u32), LinkError> {
    Ok((check_header(protocol, header)?, check_header(protocol, control)?))
}

/// The length of a header or a control frame as frames count it.
pub(super) fn check_header(protocol: &'static str, header: Bytes) -> Result<u32, LinkError> {
    match u16::try_from(header.get()) {
        Ok(small) => Ok(u32::from(small)),
        Err(_) => Err(LinkError::Header { protocol, found: header }),
    }
}
