//! 802.11 frames in a capture, with a radiotap header.
//!
//! ```text
//!   | version 0, 0, length 14, present: flags, rate, channel | flags 1 | rate 1 | MHz 2, kind 2 | frame ... |
//! ```
//!
//! Source: radiotap.org, fields 1 (flags), 2 (rate, in 500 kbps) and 3 (channel). Every frame ends
//! with its frame check sequence (FCS). If no receiver could read the frame, the FCS is wrong and
//! the flags indicate it. The MAC address of a host consists of 02:00 and its IP address.
//!
//! Not modelled: signal and noise; a MAC header length other than 36 bytes in the scenario.

use super::headers::Bytes;
use crate::scenario::Wlan;
use lasthop_base::units::{Duration, Rate};
use lasthop_wlan::dcf::frames::{Address, Frame, SEQUENCE_NUMBERS, Way};
use lasthop_wlan::dcf::{AirFate, AirFrame, Preamble, Standard};

const LENGTH: u16 = 14;
const PRESENT: u32 = 0b1110;
const SHORT_PREAMBLE: u8 = 0x02;
const HAS_FCS: u8 = 0x10;
const BAD_FCS: u8 = 0x40;
const CCK: u16 = 0x0020;
const OFDM: u16 = 0x0040;
const AT_2_GHZ: u16 = 0x0080;
const AT_5_GHZ: u16 = 0x0100;

/// An 802.11 frame.
#[derive(Clone, Copy, Debug)]
pub(super) struct OnAir {
    pub kind: AirFrame,
    pub fate: AirFate,
    pub reserves: Duration,
}

impl OnAir {
    /// Returns `true` if the frame carries a packet.
    pub fn carries(&self) -> bool {
        matches!(self.kind, AirFrame::Data { .. })
    }
}

/// Returns the bytes of a frame between a station and an access point with the IP addresses
/// `hosts`, in this order. With `way` 0 the frame is sent to the access point. `rate` is the data
/// rate, `inside` the packet. Only `snap` bytes are kept.
pub(super) fn write(
    on_air: &OnAir,
    wlan: &Wlan,
    rate: Rate,
    hosts: [[u8; 4]; 2],
    way: u32,
    inside: Option<Vec<u8>>,
    snap: usize,
) -> Bytes {
    let mac = |[a, b, c, d]: [u8; 4]| -> Address { [2, 0, a, b, c, d] };
    let [station, access_point] = hosts.map(mac);
    let (way, transmitter, receiver) = match way {
        0 => (Way::ToAccessPoint, station, access_point),
        _ => (Way::FromAccessPoint, access_point, station),
    };
    let packet = inside.unwrap_or_default();
    let frame = match on_air.kind {
        AirFrame::Data { sequence, is_retry } => {
            let sequence = (sequence % u64::from(SEQUENCE_NUMBERS)) as u16;
            Frame::Data { way, receiver, transmitter, is_retry, sequence, packet: &packet }
        }
        AirFrame::Rts => Frame::Rts { receiver, transmitter },
        AirFrame::Cts => Frame::Cts { receiver },
        AirFrame::Ack => Frame::Ack { receiver },
    };
    let rate = if on_air.carries() { rate } else { wlan.control_rate(rate) };
    let mut flags = HAS_FCS;
    if on_air.fate != AirFate::Received {
        flags |= BAD_FCS;
    }
    if wlan.keys.preamble == Preamble::Short {
        flags |= SHORT_PREAMBLE;
    }
    let (megahertz, kind) = match wlan.keys.standard {
        Standard::B => (2412u16, AT_2_GHZ | CCK),
        Standard::G => (2412, AT_2_GHZ | OFDM),
        Standard::A => (5180, AT_5_GHZ | OFDM),
    };
    let mut data = Vec::with_capacity(packet.len() + 64);
    data.extend([0, 0]);
    data.extend(LENGTH.to_le_bytes());
    data.extend(PRESENT.to_le_bytes());
    data.extend([flags, (rate.as_bps() / 500_000) as u8]);
    data.extend(megahertz.to_le_bytes());
    data.extend(kind.to_le_bytes());
    let micros = on_air.reserves.as_nanos().div_ceil(1_000).min(32_767);
    frame.encode(micros as u16, &mut data);
    if flags & BAD_FCS != 0
        && let Some(last) = data.last_mut()
    {
        *last ^= 0xff;
    }
    let length = data.len() as u32;
    data.truncate(snap);
    Bytes { data, length }
}
