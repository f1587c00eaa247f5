//! Connections that send blocks of an erasure code: LT-TCP.
//!
//! Source: see [`super::congestion_control::lt_tcp`]. A window is a block: its data are K segments, or *units*, of one size, to which
//! P parity units are added. Any K of the N = K + P give the data back. What is lost besides is made up for by more parity,
//! never sent again.
//!
//! ```text
//!            window - in flight >= a unit           N sent            K have arrived
//!   (none) ----------------------------> sending ------------> sent -----------------> done
//!                                            |                  ^ |
//!                                            +------------------+ | units are lost: parity for what they leave
//!                                                               +-+ missing, before anything new
//! ```
//!
//! In the descriptor of a segment the option of a block stands where timestamps would: which unit, K, size of a unit, and the
//! length of the block; a data unit has the sequence number of its first byte, a parity unit that of its block. An
//! ACK names the unit that it answers in the same place, and in place of SACK blocks the blocks that
//! are not complete, each with how many units of it have arrived. On the wire both options have 12 bytes and a report
//! 8 and 4 for all of them.
//!
//! *Not modelled*: the bytes of the option; a FIN; pacing; a window of several paths.

mod receiver;
mod sender;

pub(super) use receiver::BlockReceiver;
pub(super) use sender::BlockSender;

use super::config::Config;
use super::congestion_control::CongestionControlKind;
use lasthop_base::packet::TcpHeader;

/// Bytes of the option that names a unit.
pub(super) const OPTION: u32 = 12;

/// Blocks that an ACK reports at most.
pub(super) const MOST_REPORTS: usize = 3;

/// Both halves of one end.
#[derive(Clone, Debug)]
pub(super) struct Blocks {
    pub sender: BlockSender,
    pub receiver: BlockReceiver,
}

impl Blocks {
    /// Of a connection whose law asks for them.
    pub fn new(config: &Config) -> Option<Box<Self>> {
        let CongestionControlKind::LtTcp(keys) = config.law else { return None };
        let (sender, receiver) = (BlockSender::new(config, keys), BlockReceiver::default());
        Some(Box::new(Blocks { sender, receiver }))
    }
}

/// A unit as its header names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Unit {
    /// First byte of its block in the sequence space.
    pub start: u64,
    /// Data bytes of the block.
    pub length: u64,
    /// Its number: from K on it is parity.
    pub number: u8,
    /// K.
    pub data: u8,
    /// Bytes of a full unit.
    pub size: u16,
}

impl Unit {
    /// First byte in the sequence space that its header names.
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

    /// Puts it into a header.
    pub fn write(&self, header: &mut TcpHeader) {
        header.seq = self.sequence() as u32;
        header.payload = self.payload();
        header.has_timestamps = true;
        let numbers = u32::from(self.number) | u32::from(self.data) << 8;
        header.options.timestamps = (numbers | u32::from(self.size) << 16, self.length as u32);
    }

    /// From a header; `seq` is its sequence number, unwrapped. None if it is no unit.
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
