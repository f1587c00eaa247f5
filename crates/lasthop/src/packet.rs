//! What travels: a small `Copy` descriptor of an IP packet, without payload bytes.

/// What a frame can carry: a descriptor in the simulator, real bytes on a live link.
pub trait Payload {
    /// Length of the packet in bytes, as the link layer sees it.
    fn wire_bytes(&self) -> u32;
}

impl Payload for Vec<u8> {
    fn wire_bytes(&self) -> u32 {
        self.len() as u32
    }
}

/// Number of SACK blocks that an ACK carries at most (RFC 2018: 3 beside the timestamps option).
pub const MAX_SACK_BLOCKS: usize = 3;

/// A TCP header. Sequence and acknowledgment numbers are the 32-bit numbers of RFC 9293, starting
/// from 0; machines unwrap them to 64 bits at the door.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TcpHeader {
    /// Sequence number of the first payload byte (or of the SYN or FIN).
    pub seq: u32,
    /// Cumulative acknowledgment: the next byte expected.
    pub ack: u32,
    /// Payload bytes.
    pub payload: u32,
    /// Advertised receive window in bytes (after scaling, RFC 7323).
    pub window: u32,
    /// Flag bits of RFC 9293, see [`flags`].
    pub flags: u8,
    /// Number of valid entries of `sack`.
    pub sack_blocks: u8,
    /// SACK blocks [left, right), most recently received first (RFC 2018).
    pub sack: [(u32, u32); MAX_SACK_BLOCKS],
    /// Timestamp value and echo reply in clock ticks (RFC 7323), zero when the option is off.
    pub timestamps: (u32, u32),
}

/// TCP flag bits (RFC 9293, section 3.1).
pub mod flags {
    /// No more data from the sender.
    pub const FIN: u8 = 0x01;
    /// Synchronize sequence numbers.
    pub const SYN: u8 = 0x02;
    /// The acknowledgment field is significant.
    pub const ACK: u8 = 0x10;
    /// Timestamps option present (not a header bit of the RFC).
    pub const TIMESTAMPS: u8 = 0x80;
}

/// An IP packet in flight.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Packet {
    /// Which way it takes and who waits for it: an index into the world's table of paths.
    pub path: u32,
    /// Incarnation of the connection; packets of earlier ones are stale.
    pub incarnation: u32,
    /// Length in bytes, headers included as far as the profile charges them.
    pub bytes: u32,
    /// TCP header; default for UDP.
    pub tcp: TcpHeader,
}

impl Payload for Packet {
    #[inline]
    fn wire_bytes(&self) -> u32 {
        self.bytes
    }
}
