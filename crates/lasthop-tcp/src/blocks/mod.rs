//! Connections that send blocks of an erasure code: LT-TCP.
//!
//! Source: see [`super::congestion_control::lt_tcp`]. A window is a block. Its data consists of K
//! segments, or *units*, of equal size, to which P parity units are added. Any K of the N = K + P
//! units are sufficient to decode the data. Further losses are repaired by more parity units, never
//! by retransmissions.
//!
//! ```text
//!            window - in flight >= a unit           N sent            K have arrived
//!   (none) ----------------------------> sending ------------> sent -----------------> done
//!                                            |                  ^ |
//!                                            +------------------+ | units are lost: send the parity
//!                                                               +-+ units required, before new data
//! ```
//!
//! In the descriptor of a segment, the block option replaces the timestamps. It has the number of
//! the unit, K, the size of a unit and the length of the block. The sequence number of a data unit
//! is that of its first byte, the one of a parity unit is that of its block. An ACK has the unit
//! that it acknowledges in the same place. Instead of SACK blocks it has the incomplete blocks,
//! each with the number of its units that have arrived. On the wire both options have 12 bytes; a
//! report has 8, plus 4 for all reports.
//!
//! *Not modelled*: the bytes of the option; a FIN; pacing; a window of several paths.

mod receiver;
mod sender;

pub(super) use receiver::BlockReceiver;
pub(super) use sender::BlockSender;

use super::config::Config;
use super::congestion_control::CongestionControlKind;
use lasthop_base::packet::TcpHeader;

/// Bytes of the option that identifies a unit.
pub(super) const OPTION: u32 = 12;

/// Maximum number of blocks reported per ACK.
pub(super) const MOST_REPORTS: usize = 3;

/// Sending and receiving half of one endpoint.
#[derive(Clone, Debug)]
pub(super) struct Blocks {
    pub sender: BlockSender,
    pub receiver: BlockReceiver,
}

impl Blocks {
    /// Returns the state for a connection with LT-TCP, and `None` for other congestion control
    /// algorithms.
    pub fn new(config: &Config) -> Option<Box<Self>> {
        let CongestionControlKind::LtTcp(keys) = config.congestion_control else { return None };
        let (sender, receiver) = (BlockSender::new(config, keys), BlockReceiver::default());
        Some(Box::new(Blocks { sender, receiver }))
    }
}

/// A unit as identified by its header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Unit {
    /// First byte of its block in the sequence space.
    pub start: u64,
    /// Data bytes of the block.
    pub length: u64,
    /// Number of the unit; K and above are parity units.
    pub number: u8,
    /// K.
    pub data: u8,
    /// Bytes of a full unit.
    pub size: u16,
}

impl Unit {
    /// Sequence number in its header.
    fn sequence(&self) -> u64 {
        let is_data = self.number < self.data;
        self.start + if is_data { u64::from(self.number) * u64::from(self.size) } else { 0 }
    }

    /// Payload bytes: the last data unit may be short.
    pub fn payload(&self) -> u32 {
        let size = u64::from(self.size);
        if self.number >= self.data {
            return u32::from(self.size);
        }
        (self.length - u64::from(self.number) * size).min(size) as u32
    }

    /// Writes it into a header.
    pub fn write(&self, header: &mut TcpHeader) {
        header.seq = self.sequence() as u32;
        header.payload = self.payload();
        header.has_timestamps = true;
        let numbers = u32::from(self.number) | u32::from(self.data) << 8;
        header.options.timestamps = (numbers | u32::from(self.size) << 16, self.length as u32);
    }

    /// Reads a unit from a header; `seq` is its sequence number, unwrapped. Returns `None` if the
    /// header is not that of a unit.
    pub fn read(header: &TcpHeader, seq: u64) -> Option<Self> {
        let (numbers, length) = header.options.timestamps;
        let [number, data, low, high] = numbers.to_le_bytes();
        let size = u16::from_le_bytes([low, high]);
        if !header.has_timestamps || data == 0 || size == 0 || length == 0 {
            return None;
        }
        let mut unit = Unit { start: seq, length: u64::from(length), number, data, size };
        unit.start = seq.checked_sub(unit.sequence() - unit.start)?;
        Some(unit)
    }
}
