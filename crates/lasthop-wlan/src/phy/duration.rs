//! Durations of PPDUs: TXTIME of 802.11-2020, 19.4.3 (HT) and 21.4.3 (VHT), and of 802.11ax-2021, 27.4.3 (HE).
//!
//! With binary convolutional coding (BCC), N_SYM = ceil((16 + 8 length + 6 N_ES) / N_DBPS). With LDPC there is no
//! tail, and one symbol is added (HE: a quarter of a symbol, the pre-FEC padding factor a) if too many bits
//! would be punctured (19.3.11.7.5, 21.3.10.5.4, 27.3.12.5.2).
//!
//! ns-3.44 deviates from the standard ([`Form::Ns3`]): a VHT PPDU has no VHT-SIG-B, data fields with short guard
//! intervals are not rounded up to 4 us, an HE-LTF always takes 8 us, there is no packet extension, and every
//! code has a tail.

use super::{Format, GuardInterval, Mode, Width};
use lasthop_base::schema::keys::choice;
use lasthop_base::units::{Bytes, Duration};

choice! {
    /// Form of the durations.
    pub enum Form {
        /// As the standard defines them.
        Standard = "standard",
        /// As ns-3.44 computes them; stations wait for AIFS instead of EIFS after a collision.
        Ns3 = "ns-3",
    }
}

choice! {
    /// Frequency band.
    pub enum Band {
        /// 2.4 GHz: SIFS 10 us, and 6 us of silence (signal extension) after every PPDU.
        Ghz2 = "2.4 GHz",
        /// 5 GHz: SIFS 16 us.
        Ghz5 = "5 GHz",
    }
}

choice! {
    /// Error-correcting code of the data field.
    pub enum Coding {
        /// Binary convolutional code. HE uses LDPC where the standard requires it: above 20 MHz and above
        /// MCS 9.
        Bcc = "BCC",
        /// Low-density parity-check code.
        Ldpc = "LDPC",
    }
}

choice! {
    /// Nominal packet padding of the receiver: the time it needs after the last symbol of an HE PPDU.
    pub enum PacketExtension {
        /// No packet extension.
        Us0 = "0 us",
        /// At most 8 us.
        Us8 = "8 us",
        /// At most 16 us.
        Us16 = "16 us",
    }
}

/// Maximum duration of a PPDU (aPPDUMaxTime).
pub const MAX_PPDU_TIME: Duration = Duration::from_nanos(5_484_000);

/// Service field of a PSDU in bits.
const SERVICE: u64 = 16;
/// Tail of a convolutional encoder in bits.
const TAIL: u64 = 6;

/// Parameters of the durations of all PPDUs of a medium.
///
/// ```
/// use lasthop_base::units::{Bytes, Duration};
/// use lasthop_wlan::phy::{
///     Band, Coding, Form, Format, GuardInterval, Mode, PacketExtension, PpduTiming, Width,
/// };
///
/// let timing = PpduTiming {
///     band: Band::Ghz5,
///     form: Form::Standard,
///     coding: Coding::Bcc,
///     packet_extension: PacketExtension::Us0,
/// };
/// // 802.11ac, MCS 7, one stream, 20 MHz: 260 bits per symbol of 4 us.
/// let mode = Mode::new(Format::Vht, 7, 1, Width::Mhz20, GuardInterval::Ns800)?;
/// assert_eq!(mode.data_bits_per_symbol(), 260);
/// // 1500 B with 22 bits of service field and tail need 47 symbols, after a preamble of 40 us.
/// let expected = Duration::from_nanos(40_000 + 47 * 4_000);
/// assert_eq!(timing.duration(mode, Bytes::new(1_500)), expected);
/// # Ok::<(), lasthop_wlan::phy::ModeError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PpduTiming {
    /// The band.
    pub band: Band,
    /// The form of the durations.
    pub form: Form,
    /// The code, which [`Form::Ns3`] ignores.
    pub coding: Coding,
    /// Nominal packet padding of HE receivers, which [`Form::Ns3`] ignores.
    pub packet_extension: PacketExtension,
}

/// The end of the data field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct DataField {
    /// Number of symbols.
    symbols: u64,
    /// Pre-FEC padding factor of HE, 1 to 4: the number of quarters of the last symbol that contain data.
    factor: u64,
}

impl PpduTiming {
    /// Returns the duration from the start of the preamble to the end of the PPDU, signal extension and
    /// packet extension included.
    pub fn duration(&self, mode: Mode, psdu: Bytes) -> Duration {
        let field = self.data_field(mode, psdu);
        let mut data = mode.symbol() * field.symbols;
        let mut extension = Duration::ZERO;
        if self.form == Form::Standard {
            if mode.guard_interval() == GuardInterval::Ns400 {
                data = Duration::from_nanos(data.as_nanos().next_multiple_of(4_000));
            }
            if mode.format() == Format::He {
                extension = self.packet_extension.time(field.factor);
            }
        }
        if self.band == Band::Ghz2 {
            extension = extension + Duration::from_nanos(6_000);
        }
        self.preamble(mode) + data + extension
    }

    /// Returns the length of the longest PSDU whose PPDU takes at most `limit`, or `None` if not even an
    /// empty one does.
    pub fn max_psdu(&self, mode: Mode, limit: Duration) -> Option<Bytes> {
        let fits = |bytes: u64| self.duration(mode, Bytes::new(bytes)) <= limit;
        if !fits(0) {
            return None;
        }
        // A PSDU takes at least 8 bits / N_DBPS symbols per byte.
        let symbols = limit.as_nanos() / mode.symbol().as_nanos();
        let (mut low, mut high) = (0, symbols * mode.data_bits_per_symbol() / 8 + 1);
        while high - low > 1 {
            let middle = low.midpoint(high);
            if fits(middle) {
                low = middle;
            } else {
                high = middle;
            }
        }
        Some(Bytes::new(low))
    }

    /// Returns the duration of all fields before the data field.
    pub fn preamble(&self, mode: Mode) -> Duration {
        let streams = u64::from(mode.streams());
        let is_standard = self.form == Form::Standard;
        Duration::from_nanos(match mode.format() {
            Format::Ht => 32_000 + 4_000 * streams,
            Format::Vht if is_standard => 36_000 + 4_000 * streams,
            Format::Vht => 32_000 + 4_000 * streams,
            Format::He if is_standard => 36_000 + he_ltf(mode.guard_interval()) * streams,
            Format::He => 36_000 + 8_000 * streams,
        })
    }

    /// Returns `true` if the data field is coded with LDPC.
    fn has_ldpc(&self, mode: Mode) -> bool {
        let is_required =
            mode.format() == Format::He && (mode.width() != Width::Mhz20 || mode.mcs() > 9);
        self.form == Form::Standard && (self.coding == Coding::Ldpc || is_required)
    }

    fn data_field(&self, mode: Mode, psdu: Bytes) -> DataField {
        let has_ldpc = self.has_ldpc(mode);
        let tail = if has_ldpc { 0 } else { TAIL * encoders(mode) };
        let bits = SERVICE + psdu.bits() + tail;
        let per_symbol = mode.data_bits_per_symbol();
        let symbols = bits.div_ceil(per_symbol);
        let short = short_subcarriers(mode.width());
        let mut field = DataField { symbols, factor: 4 };
        let excess = bits % per_symbol;
        if mode.format() == Format::He && excess != 0 {
            field.factor = excess.div_ceil(mode.data_bits(short)).min(4);
        }
        if !has_ldpc {
            return field;
        }
        let before_last = |per_symbol, per_quarter| {
            let last = if field.factor < 4 { field.factor * per_quarter } else { per_symbol };
            (symbols - 1) * per_symbol + last
        };
        let payload = match mode.format() {
            Format::Ht => bits,
            _ => before_last(per_symbol, mode.data_bits(short)),
        };
        let available = before_last(mode.coded_bits(mode.subcarriers()), mode.coded_bits(short));
        if is_punctured_too_much(payload, available, mode.modulation().code_rate) {
            field = match (mode.format(), field.factor) {
                (Format::He, 1..=3) => DataField { factor: field.factor + 1, ..field },
                (Format::He, _) => DataField { symbols: symbols + 1, factor: 1 },
                _ => DataField { symbols: symbols + 1, ..field },
            };
        }
        field
    }
}

impl PacketExtension {
    /// Returns the packet extension after a last symbol with `factor` quarters of data (table 27-46).
    fn time(self, factor: u64) -> Duration {
        let quarters = match self {
            PacketExtension::Us0 => 0,
            PacketExtension::Us8 => factor.saturating_sub(2),
            PacketExtension::Us16 => factor,
        };
        Duration::from_nanos(4_000 * quarters)
    }
}

/// Returns the duration of an HE-LTF in ns: 2x with short guard intervals, 4x with 3.2 us.
const fn he_ltf(interval: GuardInterval) -> u64 {
    match interval {
        GuardInterval::Ns400 | GuardInterval::Ns800 => 6_400 + 800,
        GuardInterval::Ns1600 => 6_400 + 1_600,
        GuardInterval::Ns3200 => 12_800 + 3_200,
    }
}

/// Returns N_ES, the number of convolutional encoders: two above 540 Mbps (600 Mbps with short guard
/// intervals) in VHT, and one otherwise.
fn encoders(mode: Mode) -> u64 {
    let is_fast = mode.width() == Width::Mhz80 && mode.streams() == 2 && mode.mcs() >= 7;
    if mode.format() == Format::Vht && is_fast { 2 } else { 1 }
}

/// Returns N_SD,short, the number of subcarriers of a quarter of an HE symbol.
const fn short_subcarriers(width: Width) -> u64 {
    match width {
        Width::Mhz20 => 60,
        Width::Mhz40 => 120,
        Width::Mhz80 => 240,
    }
}

/// Returns `true` if LDPC coding of `payload` bits into `available` bits would puncture so many bits that the
/// standard adds a symbol (19.3.11.7.5, steps b to d, table 19-16).
fn is_punctured_too_much(payload: u64, available: u64, [r, s]: [u64; 2]) -> bool {
    let parity = |length: u64| length * (s - r) / s;
    let (words, length) = match available {
        ..=648 => (1, if available >= payload + parity(912) { 1_296 } else { 648 }),
        649..=1_296 => (1, if available >= payload + parity(1_464) { 1_944 } else { 1_296 }),
        1_297..=1_944 => (1, 1_944),
        1_945..=2_592 => (2, if available >= payload + parity(2_916) { 1_944 } else { 1_296 }),
        _ => (payload.div_ceil(1_944 * r / s), 1_944),
    };
    let shortened = (words * length * r / s).saturating_sub(payload);
    let punctured = (words * length).saturating_sub(available + shortened);
    let checks = words * parity(length);
    let is_barely_shortened = 10 * shortened * (s - r) < 12 * punctured * r;
    (10 * punctured > checks && is_barely_shortened) || 10 * punctured > 3 * checks
}

#[cfg(test)]
mod tests {
    use super::*;
    use Format::{He, Ht, Vht};

    const NS3: PpduTiming = PpduTiming {
        band: Band::Ghz5,
        form: Form::Ns3,
        coding: Coding::Bcc,
        packet_extension: PacketExtension::Us0,
    };
    const STANDARD: PpduTiming = PpduTiming { form: Form::Standard, ..NS3 };

    fn mode(format: Format, mcs: u8, streams: u8, mhz: u32, interval: u64) -> Mode {
        let width = match mhz {
            20 => Width::Mhz20,
            40 => Width::Mhz40,
            _ => Width::Mhz80,
        };
        let interval = match interval {
            400 => GuardInterval::Ns400,
            800 => GuardInterval::Ns800,
            1_600 => GuardInterval::Ns1600,
            _ => GuardInterval::Ns3200,
        };
        Mode::new(format, mcs, streams, width, interval).expect("defined")
    }

    /// Format, MCS of a stream, streams, MHz, guard interval in ns, bytes, N_DBPS, and the durations of ns-3
    /// and of the standard in ns. 43,230 B are an A-MPDU of 28 packets of 1,500 B, 64,846 B of 42, and 98,814 B
    /// of 64. ns-3: `WifiPhy::CalculateTxDuration` of version 3.44; standard: by hand.
    type Vector = (Format, u8, u8, u32, u64, u64, u64, [u64; 2]);

    /// See [`Vector`].
    const VECTORS: [Vector; 31] = [
        (Ht, 0, 1, 20, 400, 1_536, 26, [1_742_400, 1_744_000]),
        (Ht, 6, 1, 20, 400, 1_536, 234, [226_800, 228_000]),
        (Ht, 7, 1, 20, 800, 14, 260, [40_000, 40_000]),
        (Ht, 7, 1, 20, 800, 76, 260, [48_000, 48_000]),
        (Ht, 7, 1, 20, 800, 1_538, 260, [228_000, 228_000]),
        (Ht, 7, 1, 20, 400, 1_538, 260, [208_800, 212_000]),
        (Ht, 7, 1, 20, 800, 43_230, 260, [5_360_000, 5_360_000]),
        (Ht, 7, 1, 40, 800, 1_536, 540, [128_000, 128_000]),
        (Ht, 7, 1, 40, 800, 43_230, 540, [2_600_000, 2_600_000]),
        (Ht, 0, 2, 20, 800, 76, 52, [92_000, 92_000]),
        (Ht, 7, 2, 20, 800, 43_230, 520, [2_704_000, 2_704_000]),
        (Ht, 7, 2, 40, 400, 64_846, 1_080, [1_771_600, 1_772_000]),
        (Vht, 0, 1, 80, 400, 1_536, 117, [417_600, 424_000]),
        (Vht, 8, 1, 20, 800, 1_536, 312, [196_000, 200_000]),
        (Vht, 8, 1, 20, 400, 76, 312, [46_800, 52_000]),
        (Vht, 9, 1, 40, 800, 1_536, 720, [108_000, 112_000]),
        (Vht, 9, 1, 80, 800, 1_536, 1_560, [68_000, 72_000]),
        (Vht, 9, 1, 80, 800, 98_814, 1_560, [2_064_000, 2_068_000]),
        (Vht, 7, 2, 40, 800, 43_230, 1_080, [1_324_000, 1_328_000]),
        (Vht, 9, 2, 80, 800, 98_814, 3_120, [1_056_000, 1_060_000]),
        (Vht, 9, 2, 80, 400, 98_814, 3_120, [954_400, 960_000]),
        (He, 0, 1, 20, 800, 1_536, 117, [1_485_600, 1_484_800]),
        (He, 0, 1, 20, 1_600, 1_536, 117, [1_570_400, 1_570_400]),
        (He, 0, 1, 20, 3_200, 1_536, 117, [1_740_000, 1_748_000]),
        (He, 0, 1, 80, 3_200, 76, 490, [76_000, 84_000]),
        (He, 5, 1, 20, 800, 43_230, 936, [5_076_000, 5_075_200]),
        (He, 9, 1, 20, 800, 1_538, 1_560, [152_800, 152_000]),
        (He, 11, 1, 20, 800, 43_230, 1_950, [2_464_800, 2_464_000]),
        (He, 11, 1, 80, 800, 98_814, 8_166, [1_363_200, 1_362_400]),
        (He, 5, 2, 40, 1_600, 43_230, 3_744, [1_391_200, 1_391_200]),
        (He, 11, 2, 80, 800, 98_814, 16_333, [718_400, 716_800]),
    ];

    #[test]
    fn durations_in_both_forms() {
        for (format, mcs, streams, mhz, interval, bytes, bits, [ns3, standard]) in VECTORS {
            let mode = mode(format, mcs, streams, mhz, interval);
            let time = |timing: PpduTiming| timing.duration(mode, Bytes::new(bytes)).as_nanos();
            assert_eq!(mode.data_bits_per_symbol(), bits, "{mode:?}");
            assert_eq!(time(NS3), ns3, "ns-3: {mode:?}, {bytes} B");
            assert_eq!(time(STANDARD), standard, "standard: {mode:?}, {bytes} B");
            assert_eq!(time(PpduTiming { band: Band::Ghz2, ..NS3 }), ns3 + 6_000, "2.4 GHz");
        }
        let slow = mode(He, 11, 2, 80, 3_200);
        let time = |timing: PpduTiming| timing.duration(slow, Bytes::new(98_814)).as_nanos();
        assert_eq!([time(NS3), time(STANDARD)], [836_000, 852_000]);
    }

    /// HE, MCS 0, 20 MHz: 117 bits per symbol, 30 per quarter; BCC: 22 + 8 B bits. 4 B fill 54 bits: 2 quarters;
    /// 9 B: 94 bits: 4 quarters; 16 B: 150 bits: 33 bits of the second symbol: 2 quarters.
    #[test]
    fn packet_extension_depends_on_the_last_symbol() {
        let mode = mode(He, 0, 1, 20, 800);
        for (bytes, symbols, quarters) in [(0, 1, 1), (4, 1, 2), (8, 1, 3), (9, 1, 4), (16, 2, 2)] {
            let field = STANDARD.data_field(mode, Bytes::new(bytes));
            assert_eq!(field, DataField { symbols, factor: quarters }, "{bytes} B");
            for (extension, micros) in [
                (PacketExtension::Us0, [0, 0, 0, 0]),
                (PacketExtension::Us8, [0, 0, 4, 8]),
                (PacketExtension::Us16, [4, 8, 12, 16]),
            ] {
                let timing = PpduTiming { packet_extension: extension, ..STANDARD };
                let time = timing.duration(mode, Bytes::new(bytes)).as_nanos();
                let expected = 43_200 + 13_600 * symbols + 1_000 * micros[quarters as usize - 1];
                assert_eq!(time, expected, "{bytes} B, {extension:?}");
            }
        }
    }

    /// Two examples computed by hand from 19.3.11.7.5. HT, MCS 0, 20 MHz, 14 B: 128 bits in 5 symbols of 52
    /// coded bits, 260 available; one word of 648 with 324 - 128 = 196 bits shortened and 648 - 260 - 196 = 192
    /// punctured, more than 3/10 of 324 check bits: a sixth symbol. 1,538 B at MCS 7: 12,320 bits in 48 symbols of
    /// 312, 14,976 available; 8 words of 1,944 with 640 shortened and 0 punctured.
    #[test]
    fn ldpc_adds_a_symbol_if_too_many_bits_are_punctured() {
        let ldpc = PpduTiming { coding: Coding::Ldpc, ..STANDARD };
        let symbols =
            |mcs, bytes| ldpc.data_field(mode(Ht, mcs, 1, 20, 800), Bytes::new(bytes)).symbols;
        assert_eq!(symbols(0, 14), 6);
        assert_eq!(symbols(7, 1_538), 48);
        // HE, MCS 0, 80 MHz, 76 B: 2 quarters of the second symbol, 730 bits in 1,460; one word of 1,944 with 242
        // shortened and 242 punctured, more than 1/10 of 972: 3 quarters.
        let field = ldpc.data_field(mode(He, 0, 1, 80, 3_200), Bytes::new(76));
        assert_eq!(field, DataField { symbols: 2, factor: 3 });
    }

    #[test]
    fn longest_psdu_of_a_limited_duration() {
        for (format, mcs, streams, mhz, interval, ..) in VECTORS {
            let mode = mode(format, mcs, streams, mhz, interval);
            for timing in [NS3, STANDARD] {
                let most = timing.max_psdu(mode, MAX_PPDU_TIME).expect("longer than a preamble");
                assert!(timing.duration(mode, most) <= MAX_PPDU_TIME, "{mode:?}");
                assert!(timing.duration(mode, Bytes::new(most.get() + 1)) > MAX_PPDU_TIME);
            }
        }
        // 63 MPDUs of 1,538 B (97,270 B) take 5,484 us exactly in ns-3's HE at MCS 11 and 20 MHz.
        let he = mode(He, 11, 1, 20, 800);
        assert_eq!(NS3.duration(he, Bytes::new(97_270)), MAX_PPDU_TIME);
        assert_eq!(NS3.max_psdu(he, Duration::from_nanos(43_000)), None);
    }
}
