//! 802.11 frames in a capture, with a radiotap header.
//!
//! ```text
//!   | version 0, 0, length, present | flags 1 | rate 1 | MHz 2, kind 2 | frame ... |
//!   | version 0, 0, length, present | flags 1 | 0      | MHz 2, kind 2 | MCS 3 | A-MPDU 8 | VHT or HE 12 | frame ... |
//! ```
//!
//! The second form is that of data frames of 802.11n, ac and ax; the MPDUs of an A-MPDU have one reference
//! number. Fields are aligned to their elements.
//!
//! Source: radiotap.org, fields 1 (flags), 2 (rate, in 500 kbps), 3 (channel), 19 (MCS), 20 (A-MPDU
//! status), 21 (VHT) and 23 (HE). Every frame ends with its frame check sequence (FCS). If no receiver could read the frame, the FCS is wrong and
//! the flags indicate it. The MAC address of a host consists of 02:00 and its IP address.
//!
//! Not modelled: signal and noise; a MAC header length in the scenario other than 36 bytes, or 38 bytes with QoS.

use super::headers::Bytes;
use crate::scenario::Wlan;
use lasthop_base::units::Duration;
use lasthop_wlan::block_ack::BlockAck;
use lasthop_wlan::dcf::{AirFate, AirFrame, Preamble, Standard};
use lasthop_wlan::frames::{self, Address, Frame, SEQUENCE_NUMBERS, Way};
use lasthop_wlan::phy::{Coding, Format, GuardInterval, Mode, Signal, Width};

/// Bits of the fields that are present.
const FLAGS: u32 = 1 << 1;
const RATE: u32 = 1 << 2;
const CHANNEL: u32 = 1 << 3;
const MCS: u32 = 1 << 19;
const AMPDU: u32 = 1 << 20;
const VHT: u32 = 1 << 21;
const HE: u32 = 1 << 23;
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
    /// Traffic identifier of the data.
    pub tid: u8,
    pub scoreboard: Option<BlockAck>,
    /// Mode or rate of the data of its exchange.
    pub signal: Option<Signal>,
}

impl OnAir {
    /// Returns `true` if the frame carries a packet.
    pub fn carries(&self) -> bool {
        self.kind.is_data()
    }
}

/// Returns the bytes of a frame of a station between it and an access point with the IP addresses of
/// `link`, in this order. With `way` 0 the exchange is towards the access point. `inside`: its packets.
/// `reference`: the number of its A-MPDU. Only `snap` bytes are kept.
pub(super) fn write(
    on_air: &OnAir,
    (wlan, host): (&Wlan, &str),
    link: [[u8; 4]; 2],
    way: u32,
    inside: &[Vec<u8>],
    reference: u32,
    snap: usize,
) -> Bytes {
    let mac = |[a, b, c, d]: [u8; 4]| -> Address { [2, 0, a, b, c, d] };
    let [station, access_point] = link.map(mac);
    let (way, transmitter, receiver) = match way {
        0 => (Way::ToAccessPoint, station, access_point),
        _ => (Way::FromAccessPoint, access_point, station),
    };
    let number = |sequence: u64| (sequence % u64::from(SEQUENCE_NUMBERS)) as u16;
    let (mut body, tid) = (Vec::new(), on_air.tid);
    let frame = match on_air.kind {
        AirFrame::Data { sequence, is_retry } => {
            let packet = inside.first().map_or(&[][..], Vec::as_slice);
            let sequence = number(sequence);
            Frame::Data { way, receiver, transmitter, is_retry, sequence, packet }
        }
        AirFrame::Mpdu { sequence, is_retry, .. } => {
            let is_amsdu = inside.len() > 1;
            if is_amsdu {
                body = frames::amsdu(inside, [transmitter, receiver]);
            } else if let Some(packet) = inside.first() {
                frames::append_packet(packet, &mut body);
            }
            let (sequence, body) = (number(sequence), body.as_slice());
            Frame::QosData { way, receiver, transmitter, is_retry, sequence, tid, is_amsdu, body }
        }
        AirFrame::BlockAckRequest { start } => {
            Frame::BlockAckRequest { receiver, transmitter, tid, start: number(start) }
        }
        AirFrame::BlockAck { is_long } => {
            let BlockAck { start, bitmap } = on_air.scoreboard.unwrap_or_default();
            let start = number(start);
            Frame::BlockAck { receiver, transmitter, tid, start, bitmap, is_long }
        }
        AirFrame::Rts | AirFrame::Aggregate { .. } => Frame::Rts { receiver, transmitter },
        AirFrame::CfEnd => Frame::CfEnd { transmitter },
        AirFrame::Cts => Frame::Cts { receiver },
        AirFrame::Ack => Frame::Ack { receiver },
    };
    let mut flags = HAS_FCS;
    if on_air.fate != AirFate::Received {
        flags |= BAD_FCS;
    }
    if wlan.keys.preamble == Preamble::Short {
        flags |= SHORT_PREAMBLE;
    }
    let mut data = Vec::with_capacity(inside.iter().map(Vec::len).sum::<usize>() + 128);
    append_header(on_air, (wlan, host), flags, reference, &mut data);
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

/// Appends the radiotap header of a frame.
fn append_header(
    on_air: &OnAir,
    (wlan, host): (&Wlan, &str),
    flags: u8,
    reference: u32,
    data: &mut Vec<u8>,
) {
    let (megahertz, kind) = match wlan.phy().standard {
        Standard::B => (2412u16, AT_2_GHZ | CCK),
        Standard::G => (2412, AT_2_GHZ | OFDM),
        Standard::A => (5180, AT_5_GHZ | OFDM),
    };
    let (mode, rate) = match on_air.signal {
        Some(Signal::Mode(mode)) if on_air.carries() => (Some(mode), mode.rate()),
        Some(Signal::Mode(mode)) => (None, wlan.response_rate(mode)),
        Some(Signal::Plain(_, rate)) if on_air.carries() => (None, rate),
        Some(Signal::Plain(_, rate)) => (None, wlan.control_rate(rate)),
        None => (None, wlan.control_rate_of(host)),
    };
    data.extend([0; 8]);
    data.push(flags);
    data.push(if mode.is_none() { (rate.as_bps() / 500_000) as u8 } else { 0 });
    data.extend(megahertz.to_le_bytes());
    data.extend(kind.to_le_bytes());
    let mut present = FLAGS | CHANNEL | if mode.is_none() { RATE } else { 0 };
    if let Some(mode) = mode {
        present |= append_mode(mode, wlan.keys.coding, on_air.kind, reference, data);
    }
    let length = data.len() as u16;
    data[2..4].copy_from_slice(&length.to_le_bytes());
    data[4..8].copy_from_slice(&present.to_le_bytes());
}

/// Appends the fields of a data frame of 802.11n, ac or ax. Returns the bits of the fields.
fn append_mode(
    mode: Mode,
    coding: Option<Coding>,
    kind: AirFrame,
    reference: u32,
    data: &mut Vec<u8>,
) -> u32 {
    let (mcs, streams) = (mode.mcs(), mode.streams());
    let is_short = mode.guard_interval() == GuardInterval::Ns400;
    let needs_ldpc = mode.format() == Format::He && (mode.width() != Width::Mhz20 || mcs > 9);
    let is_ldpc = u8::from(coding == Some(Coding::Ldpc) || needs_ldpc);
    let align = |data: &mut Vec<u8>, to: usize| data.resize(data.len().next_multiple_of(to), 0);
    let mut present = 0;
    if mode.format() == Format::Ht {
        // Known: width, MCS, guard interval, format, code.
        let width = u8::from(mode.width() == Width::Mhz40);
        let about = width | u8::from(is_short) << 2 | is_ldpc << 4;
        data.extend([0x1f, about, mcs + 8 * (streams - 1)]);
        present |= MCS;
    }
    if let AirFrame::Mpdu { place, mpdus, .. } = kind
        && mpdus > 1
    {
        // Known: whether this is the last one.
        let flags: u16 = if place + 1 == mpdus { 0x000c } else { 0x0004 };
        align(data, 4);
        data.extend(reference.to_le_bytes());
        data.extend(flags.to_le_bytes());
        data.extend([0, 0]);
        present |= AMPDU;
    }
    match mode.format() {
        Format::Ht => {}
        Format::Vht => {
            let width = match mode.width() {
                Width::Mhz20 => 0,
                Width::Mhz40 => 1,
                Width::Mhz80 => 4,
            };
            align(data, 2);
            // Known: guard interval and width.
            data.extend(0x0044u16.to_le_bytes());
            data.extend([u8::from(is_short) << 2, width, mcs << 4 | streams, 0, 0, 0, is_ldpc]);
            data.extend([0; 3]);
            present |= VHT;
        }
        Format::He => {
            let width = match mode.width() {
                Width::Mhz20 => 0,
                Width::Mhz40 => 1,
                Width::Mhz80 => 2,
            };
            let (interval, ltf) = match mode.guard_interval() {
                GuardInterval::Ns400 | GuardInterval::Ns800 => (0, 2),
                GuardInterval::Ns1600 => (1, 2),
                GuardInterval::Ns3200 => (2, 3),
            };
            align(data, 2);
            // Single user; known: MCS, code, width; guard interval.
            let words: [u16; 6] = [
                0x40a0,
                0x0002,
                u16::from(mcs) << 8 | u16::from(is_ldpc) << 13,
                0,
                width | interval << 4 | ltf << 6,
                streams.into(),
            ];
            data.extend(words.iter().flat_map(|word| word.to_le_bytes()));
            present |= HE;
        }
    }
    present
}
